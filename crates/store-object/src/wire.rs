//! The layer next to the network: records a server's answers, for messages and for later decisions.
//!
//! An [`Answer`] belongs to one attempt. It is passed as a task-local value, because the `object_store` crate does not
//! know it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_NONE_MATCH, RETRY_AFTER};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use crate::connect::Redirections;

tokio::task_local! {
    /// Where the current attempt stores what it learns.
    pub(crate) static NOTES: Notes;
}

/// A server's answer to the last request of an attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// The status; 0 if there was no answer.
    pub(crate) status: u16,
    /// S3's error code, such as `NoSuchBucket`.
    pub(crate) code: String,
    /// The server's error message.
    pub(crate) message: String,
    /// The id by which the server's owner finds the request.
    pub(crate) request: String,
    /// The region of the bucket, if the server named one.
    pub(crate) region: String,
    /// How long the server asks clients to wait.
    pub(crate) pause: Option<Duration>,
    /// Whether the request went to a service that issues credentials.
    pub(crate) for_credentials: bool,
}

/// Notes of one attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    answer: Arc<Mutex<Answer>>,
    /// Whether an upload may be completed only if no object exists.
    if_absent: bool,
    /// CRC-32C of the body.
    sum: Option<u32>,
}

impl Notes {
    /// Notes for completing an upload, on condition that no object exists if `if_absent`.
    pub(crate) fn completing(if_absent: bool) -> Self {
        Notes { if_absent, ..Notes::default() }
    }

    /// Notes for sending these bytes as a body.
    pub(crate) fn sending(data: &[Bytes]) -> Self {
        let sum = data.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
        Notes { sum: Some(sum), ..Notes::default() }
    }

    pub(crate) fn answer(&self) -> Answer {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

/// S3's header for the CRC-32C of a body, in base 64.
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-crc32c");

/// Makes clients that record answers.
#[derive(Debug)]
pub(crate) struct Connector {
    redirections: Redirections,
    /// Whether the server uses S3's protocol, and accepts its checksums.
    takes_checksums: bool,
}

impl Connector {
    pub(crate) fn new(redirections: Redirections) -> Self {
        Connector { redirections, takes_checksums: false }
    }

    pub(crate) fn for_s3(redirections: Redirections) -> Self {
        Connector { redirections, takes_checksums: true }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Noted(self.redirections.connect(options)?, self.takes_checksums)))
    }
}

#[derive(Debug)]
struct Noted(HttpClient, bool);

/// Whether a host issues credentials to machines, rather than holding containers.
fn gives_credentials(host: &str) -> bool {
    host.starts_with("169.254.")
        || (host.starts_with("sts.") && host.contains(".amazonaws.com"))
        || matches!(
            host,
            "metadata" | "metadata.google.internal" | "oauth2.googleapis.com" | "login.microsoftonline.com"
        )
}

/// Longest error document that is read; longer ones are web pages.
const LONGEST_ERROR: usize = 64 << 10;

#[async_trait::async_trait]
impl HttpService for Noted {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Ok(notes) = NOTES.try_with(Clone::clone) else { return self.0.execute(request).await };
        let host = request.uri().host().unwrap_or("");
        let for_credentials = gives_credentials(host);
        notes.set(Answer { for_credentials, ..Answer::default() });
        let lists = request.uri().query().is_some_and(is_list);
        let completes = request.uri().query().is_some_and(|query| query.contains("uploadId="));
        if notes.if_absent && completes && request.method() == http::Method::POST {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        // A signed request already protects its body by the SHA-256 in the signature, and every header of this kind
        // would have to be signed too. In an unsigned request, damage to the body during transfer would otherwise not
        // be detected.
        let is_signed = request.headers().contains_key(AUTHORIZATION);
        if let Some(sum) = notes.sum.filter(|_| self.1 && !is_signed)
            && let Ok(value) = HeaderValue::from_str(&base64(sum.to_be_bytes()))
        {
            request.headers_mut().insert(CHECKSUM, value);
        }
        let response = self.0.execute(request).await?;
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let ids = ["x-amz-request-id", "x-ms-request-id", "x-guploader-uploadid", "x-request-id"];
        let mut answer = Answer {
            status: response.status().as_u16(),
            request: ids.into_iter().find_map(header).unwrap_or_default(),
            region: header("x-amz-bucket-region").map(|region| shortened(&region)).unwrap_or_default(),
            code: header("x-ms-error-code").map(|code| shortened(&code)).unwrap_or_default(),
            pause: header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok()).map(Duration::from_secs),
            for_credentials,
            ..Answer::default()
        };
        // 304 answers a condition. Other redirections are treated as errors, since they have a document like errors.
        if response.status().is_success() || response.status().as_u16() == 304 {
            notes.set(answer);
            return if lists { listed(response).await } else { Ok(response) };
        }
        notes.set(answer.clone());
        let (parts, body) = response.into_parts();
        let mut body = http_body_util::Limited::new(body, LONGEST_ERROR);
        let mut text = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data() {
                text.extend_from_slice(&data);
            }
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        if answer.code.is_empty() {
            answer.code = element(&text, "Code");
        }
        answer.message = element(&text, "Message");
        if answer.region.is_empty() {
            answer.region = element(&text, "Region");
        }
        if answer.request.is_empty() {
            answer.request = element(&text, "RequestId");
        }
        notes.set(answer);
        Ok(HttpResponse::from_parts(parts, text.into()))
    }
}

/// Whether a request with this query is a listing: of S3 and Google, or of Azure.
fn is_list(query: &str) -> bool {
    query.split('&').any(|pair| pair.starts_with("list-type=") || pair == "comp=list")
}

/// Checks that the answer is a listing. The `object_store` crate treats any well-formed document, such as a proxy's
/// page, as an empty list.
async fn listed(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let document = body.bytes().await?;
    let has = |name: &[u8]| document.windows(name.len()).any(|found| found == name);
    if !has(b"<ListBucketResult") && !has(b"<EnumerationResults") {
        let why = std::io::Error::other("the answer is not a list of objects");
        return Err(HttpError::new(HttpErrorKind::Decode, why));
    }
    Ok(HttpResponse::from_parts(parts, document.into()))
}

/// The content of the first element of this name, shortened to what fits in a message.
fn element(document: &str, name: &str) -> String {
    let content = document.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once("</"));
    let content = content.map_or("", |(content, _)| content);
    shortened(content)
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Four bytes in base 64.
fn base64(bytes: [u8; 4]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // 32 bits and four bits of padding are six digits.
    let bits = u64::from(u32::from_be_bytes(bytes)) << 4;
    let digits = (0..6).rev().map(|n| char::from(DIGITS[(bits >> (6 * n)) as usize & 63]));
    digits.chain(['=', '=']).collect()
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn checksums_are_written_in_base_64() {
        assert_eq!(base64([0; 4]), "AAAAAA==");
        assert_eq!(base64(*b"Word"), "V29yZA==");
        assert_eq!(base64([0xff; 4]), "/////w==");
    }
}
