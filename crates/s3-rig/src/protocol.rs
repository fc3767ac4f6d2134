//! The requests of S3: parses each, and executes it on the objects. No network.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request};

use crate::bucket::{Condition, Object, Objects};
use crate::{Config, xml};

/// A parsed request.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
}

impl Asked {
    pub(crate) fn new(request: &Request<Incoming>) -> Asked {
        let path = decoded(request.uri().path());
        let (bucket, key) = match path.trim_start_matches('/').split_once('/') {
            Some((bucket, key)) => (bucket.to_owned(), key.to_owned()),
            None => (path.trim_start_matches('/').to_owned(), String::new()),
        };
        let pairs = request.uri().query().unwrap_or("").split('&').filter(|pair| !pair.is_empty());
        let query = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        });
        Asked {
            method: request.method().clone(),
            bucket,
            key,
            query: query.collect(),
            headers: request.headers().clone(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn asks(&self, name: &str) -> bool {
        self.query.contains_key(name)
    }

    /// The kind by which requests are counted, and which rules name.
    pub(crate) fn kind(&self) -> &'static str {
        match (&self.method, self.key.is_empty()) {
            (&Method::GET, _) if self.asks("uploads") => "LIST_UPLOADS",
            (&Method::GET, true) => "LIST",
            (&Method::GET, false) => "GET",
            (&Method::HEAD, _) => "HEAD",
            (&Method::PUT, true) => "CREATE_BUCKET",
            (&Method::PUT, false) if self.asks("partNumber") => "PUT_PART",
            (&Method::PUT, false) => "PUT",
            (&Method::POST, _) if self.asks("delete") => "DELETE_MANY",
            (&Method::POST, _) if self.asks("uploads") => "CREATE_UPLOAD",
            (&Method::POST, _) if self.asks("uploadId") => "COMPLETE_UPLOAD",
            (&Method::DELETE, _) if self.asks("uploadId") => "ABORT_UPLOAD",
            (&Method::DELETE, _) => "DELETE",
            _ => "OTHER",
        }
    }

    /// Whether the body matches the checksum that was sent with it, if one was.
    pub(crate) fn vouches_for(&self, body: &[u8]) -> bool {
        let Some(said) = self.header("x-amz-checksum-crc32c") else { return true };
        let digit = |digit: u8| match digit {
            b'A'..=b'Z' => Some(digit - b'A'),
            b'a'..=b'z' => Some(digit - b'a' + 26),
            b'0'..=b'9' => Some(digit - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        };
        let Some(digits) = said.strip_suffix("==").filter(|digits| digits.len() == 6) else { return false };
        let bits = digits.bytes().try_fold(0u64, |bits, next| Some(bits << 6 | u64::from(digit(next)?)));
        bits.is_some_and(|bits| bits >> 4 == u64::from(crc32c::crc32c(body)))
    }

    fn condition(&self) -> Condition {
        match (self.header("if-none-match"), self.header("if-match")) {
            (Some(_), _) => Condition::Absent,
            // S3 accepts tags without quotation marks too, and some clients send them so.
            (None, Some(tag)) => Condition::Match(format!("\"{}\"", tag.trim_matches('"'))),
            (None, None) => Condition::None,
        }
    }

    fn metadata(&self) -> Vec<(String, String)> {
        let ours = self.headers.iter().filter(|(name, _)| name.as_str().starts_with("x-amz-meta-"));
        ours.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect()
    }
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An answer before it is sent.
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// The value of `Content-Length` if it is not the body's length, as in answers to HEAD.
    pub(crate) len: Option<u64>,
}

impl Said {
    pub(crate) fn text(status: u16, body: String) -> Said {
        let headers = vec![("content-type".to_owned(), "application/xml".to_owned())];
        Said { status, headers, body: body.into(), len: None }
    }

    fn empty(status: u16) -> Said {
        Said { status, headers: Vec::new(), body: Bytes::new(), len: None }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Said {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// The status with which a client without the right is refused.
pub(crate) fn refusal(config: &Config, asked: &Asked) -> Option<u16> {
    // `Credential=KEY/DATE/REGION/s3/aws4_request`
    let scope = asked.header("authorization").and_then(|text| text.split("Credential=").nth(1));
    let mut scope = scope.unwrap_or("").split('/');
    let (key, _date, region) = (scope.next().unwrap_or(""), scope.next(), scope.next().unwrap_or(""));
    if config.access_key.as_ref().is_some_and(|only| only != key) {
        return Some(403);
    }
    if !key.is_empty() && config.region.as_ref().is_some_and(|only| only != region) {
        return Some(400);
    }
    None
}

pub(crate) fn failed(status: u16, number: u64) -> Said {
    let code = match status {
        400 => "AuthorizationHeaderMalformed",
        403 => "InvalidAccessKeyId",
        404 => "NoSuchKey",
        409 => "ConditionalRequestConflict",
        412 => "PreconditionFailed",
        416 => "InvalidRange",
        429 => "TooManyRequests",
        503 => "SlowDown",
        _ => "InternalError",
    };
    Said::text(status, xml::error(status, code, number))
}

/// A refusal that names the reason and, if given, the region of the bucket.
pub(crate) fn refused(status: u16, code: &str, region: Option<&str>, number: u64) -> Said {
    let said = Said::text(status, xml::error(status, code, number));
    match region {
        Some(region) => said.with("x-amz-bucket-region", region),
        None => said,
    }
}

/// Executes a request, at once and as a whole.
pub(crate) fn done(objects: &mut Objects, asked: &Asked, body: Bytes, number: u64) -> Said {
    let bucket = asked.bucket.as_str();
    if asked.kind() == "CREATE_BUCKET" {
        objects.buckets.entry(bucket.to_owned()).or_default();
        return Said::empty(200);
    }
    if !objects.buckets.contains_key(bucket) {
        return Said::text(404, xml::error(404, "NoSuchBucket", number));
    }
    let upload = asked.query.get("uploadId").map(String::as_str).unwrap_or("");
    match asked.kind() {
        "GET" | "HEAD" => match objects.get(bucket, &asked.key) {
            Some(object) => read(asked, object, number),
            None => failed(404, number),
        },
        "PUT" => match objects.put_if(bucket, &asked.key, body, asked.metadata(), &asked.condition()) {
            Ok(etag) => Said::empty(200).with("etag", etag),
            Err(status) => failed(status, number),
        },
        "DELETE" => {
            objects.buckets.get_mut(bucket).and_then(|objects| objects.remove(&asked.key));
            Said::empty(204)
        }
        "DELETE_MANY" => {
            let document = String::from_utf8_lossy(&body).into_owned();
            let mut gone = String::new();
            for key in xml::contents(&document, "Key") {
                objects.buckets.get_mut(bucket).and_then(|objects| objects.remove(key));
                gone.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
            }
            Said::text(200, format!("<DeleteResult>{gone}</DeleteResult>"))
        }
        "LIST" => listed(objects, asked),
        "LIST_UPLOADS" => uploads(objects, asked),
        "CREATE_UPLOAD" => match objects.begin_upload(bucket, &asked.key, asked.metadata()) {
            Ok(id) => Said::text(
                200,
                format!(
                    "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{}</Key><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>",
                    xml::escaped(&asked.key)
                ),
            ),
            Err(status) => failed(status, number),
        },
        "PUT_PART" => {
            let part = asked.query.get("partNumber").and_then(|part| part.parse().ok()).unwrap_or(0);
            match objects.put_part(upload, part, body) {
                Ok(etag) => Said::empty(200).with("etag", etag),
                Err(_) => Said::text(404, xml::error(404, "NoSuchUpload", number)),
            }
        }
        "COMPLETE_UPLOAD" => {
            let document = String::from_utf8_lossy(&body).into_owned();
            let parts: Vec<u32> = xml::contents(&document, "PartNumber")
                .iter()
                .filter_map(|part| part.trim().parse().ok())
                .collect();
            match objects.complete(upload, &parts, &asked.condition()) {
                Ok(etag) => Said::text(
                    200,
                    format!(
                        "<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{}</Key><ETag>{}</ETag>\
                         </CompleteMultipartUploadResult>",
                        xml::escaped(&asked.key),
                        xml::escaped(&etag)
                    ),
                ),
                Err(404) => Said::text(404, xml::error(404, "NoSuchUpload", number)),
                Err(status) => failed(status, number),
            }
        }
        "ABORT_UPLOAD" => match objects.uploads.remove(upload) {
            Some(_) => Said::empty(204),
            None => Said::text(404, xml::error(404, "NoSuchUpload", number)),
        },
        _ => failed(501, number),
    }
}

fn read(asked: &Asked, object: &Object, number: u64) -> Said {
    if let Condition::Match(tag) = asked.condition()
        && tag != object.etag
    {
        return failed(412, number);
    }
    let len = object.bytes.len();
    let (status, range) = match asked.header("range").map(|range| ranged(range, len)) {
        None => (200, 0..len),
        Some(Some(range)) => (206, range),
        Some(None) => {
            return failed(416, number).with("content-range", format!("bytes */{len}"));
        }
    };
    let mut said = Said::empty(status)
        .with("etag", object.etag.clone())
        .with("last-modified", xml::http_date(object.modified))
        .with("accept-ranges", "bytes");
    if status == 206 {
        said = said.with("content-range", format!("bytes {}-{}/{len}", range.start, range.end - 1));
    }
    said.headers.extend(object.metadata.iter().cloned());
    said.len = Some(range.len() as u64);
    if asked.method == Method::GET {
        said.body = object.bytes.slice(range);
    }
    said
}

/// The range of `bytes=a-b`, `bytes=a-` or `bytes=-n` in an object; `None` if none of it exists.
fn ranged(header: &str, len: usize) -> Option<std::ops::Range<usize>> {
    let (start, end) = header.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (start.parse::<usize>().ok(), end.parse::<usize>().ok()) {
        (Some(start), Some(end)) => start..len.min(end.saturating_add(1)),
        (Some(start), None) => start..len,
        (None, Some(suffix)) => len.saturating_sub(suffix)..len,
        (None, None) => return None,
    };
    (range.start < range.end).then_some(range)
}

fn listed(objects: &Objects, asked: &Asked) -> Said {
    let text = |name: &str| asked.query.get(name).map(String::as_str).unwrap_or("");
    let (prefix, delimiter) = (text("prefix"), text("delimiter"));
    let after =
        if asked.asks("continuation-token") { text("continuation-token") } else { text("start-after") };
    let most = text("max-keys").parse().unwrap_or(1000).min(1000);
    let empty = BTreeMap::new();
    let bucket = objects.buckets.get(&asked.bucket).unwrap_or(&empty);
    let mut entries = String::new();
    let mut folders = BTreeSet::new();
    let (mut count, mut last, mut truncated) = (0, String::new(), false);
    for (key, object) in bucket.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix)) {
        if !after.is_empty() && key.as_str() <= after {
            continue;
        }
        let folder = (!delimiter.is_empty()).then(|| key[prefix.len()..].find(delimiter)).flatten();
        let folder = folder.map(|at| key[..prefix.len() + at + delimiter.len()].to_owned());
        if folder
            .as_ref()
            .is_some_and(|folder| folders.contains(folder) || after.starts_with(folder.as_str()))
        {
            continue;
        }
        if count == most {
            truncated = true;
            break;
        }
        count += 1;
        match folder {
            Some(folder) => {
                last = folder.clone();
                folders.insert(folder);
            }
            None => {
                last = key.clone();
                entries.push_str(&format!(
                    "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
                    xml::escaped(key),
                    xml::timestamp(object.modified),
                    xml::escaped(&object.etag),
                    object.bytes.len()
                ));
            }
        }
    }
    for folder in &folders {
        entries
            .push_str(&format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", xml::escaped(folder)));
    }
    let next = if truncated {
        format!("<NextContinuationToken>{}</NextContinuationToken>", xml::escaped(&last))
    } else {
        String::new()
    };
    Said::text(
        200,
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>{}</Name><Prefix>{}</Prefix>\
             <KeyCount>{count}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{truncated}</IsTruncated>{next}{entries}\
             </ListBucketResult>",
            xml::escaped(&asked.bucket),
            xml::escaped(prefix)
        ),
    )
}

fn uploads(objects: &Objects, asked: &Asked) -> Said {
    let prefix = asked.query.get("prefix").map(String::as_str).unwrap_or("");
    let mut entries = String::new();
    for (id, upload) in &objects.uploads {
        if upload.bucket == asked.bucket && upload.key.starts_with(prefix) {
            entries.push_str(&format!(
                "<Upload><Key>{}</Key><UploadId>{id}</UploadId><Initiated>{}</Initiated></Upload>",
                xml::escaped(&upload.key),
                xml::timestamp(upload.begun)
            ));
        }
    }
    Said::text(
        200,
        format!(
            "<ListMultipartUploadsResult><Bucket>{}</Bucket><IsTruncated>false</IsTruncated>{entries}\
             </ListMultipartUploadsResult>",
            xml::escaped(&asked.bucket)
        ),
    )
}
