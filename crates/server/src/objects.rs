//! Requests for one object by plain HTTP, for any HTTP client.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use drystone_format::keys;
use drystone_store::{PutMode, Store, validate_key};
use drystone_wire::{Status, encode_listing};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_NONE_MATCH, RANGE,
};

use crate::asked::{Asked, Who, blocking};
use crate::buffers::Buffers;
use crate::reply::{Broken, Refusal, Reply, Sent, reply};
use crate::route::Verb;
use crate::token::Right;

/// The most bytes that are read at once. Objects and ranges up to this length are read before the reply begins.
const PIECE: u64 = 8 << 20;
/// Longer ranges are sent in pieces of this length.
const STREAMED: u64 = 1 << 20;

pub(crate) async fn answer(
    asked: Asked,
    name: String,
    key: String,
    verb: Verb,
    body: Incoming,
) -> Result<Reply, Refusal> {
    validate_key(&key)?;
    match verb {
        Verb::Get | Verb::Head => get(asked, name, key, verb == Verb::Head).await,
        Verb::Put => put(asked, name, key, body).await,
        Verb::Delete => {
            asked.who.needs(&[Right::Modify], &name)?;
            blocking(move || {
                Ok(asked.state.stores.of(&asked.state.config, &name, false)?.store.delete(&key)?)
            })
            .await?;
            Ok(reply(204, "text/plain", Sent::whole(Bytes::new())))
        }
    }
}

/// Rights to put an object; the client needs one of them. Putting the first object of a container creates the
/// container.
pub(crate) fn rights_to_put(key: &str, mode: PutMode) -> &'static [Right] {
    match mode {
        PutMode::Replace => &[Right::Modify],
        PutMode::IfAbsent if key == keys::IDENTITY => &[Right::Create],
        PutMode::IfAbsent => &[Right::Modify, Right::Create],
    }
}

/// Whether this client may create a container that does not exist.
pub(crate) fn may_make(who: &Who, name: &str) -> bool {
    who.has(Right::Create, name)
}

pub(crate) async fn list(asked: Asked, name: String, prefix: String) -> Result<Reply, Refusal> {
    asked.who.needs(&[Right::Read], &name)?;
    let listing = blocking(move || {
        let entries = asked.state.stores.of(&asked.state.config, &name, false)?.store.list(&prefix)?;
        Ok(encode_listing(entries.iter().map(|entry| (entry.key.as_str(), entry.len))))
    });
    Ok(reply(200, "text/plain; charset=utf-8", Sent::whole(listing.await?)))
}

async fn put(asked: Asked, name: String, key: String, body: Incoming) -> Result<Reply, Refusal> {
    let absent = match asked.headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        None => false,
        Some(b"*") => true,
        Some(_) => {
            return Err(Refusal::new(Status::Invalid, "If-None-Match of a put must be * or be left out"));
        }
    };
    let mode = if absent { PutMode::IfAbsent } else { PutMode::Replace };
    asked.who.needs(rights_to_put(&key, mode), &name)?;
    let sync = asked.headers.get("drystone-sync").is_some_and(|value| value.as_bytes() == b"1");
    let once = asked.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
    let once = once.map(|once| format!("{} {name} {key} {once}", asked.who.label()));
    let (parts, room) = asked.body(body).await?;
    asked.left()?;
    let make = may_make(&asked.who, &name);
    let state = Arc::clone(&asked.state);
    let work = blocking(move || {
        let _room = room;
        let opened = asked.state.stores.of(&asked.state.config, &name, make)?;
        if opened.folder.is_none() && opened.store.features().far.is_none() {
            return Err(Refusal::new(
                Status::NotFound,
                format!("there is no container {name:?}, and the client has no right to create one"),
            ));
        }
        let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
        Ok(opened.store.put(&key, &parts, mode, sync)?)
    });
    // A put that has begun is finished even if the client disconnects.
    let work = tokio::spawn(async move { state.idempotence.once(once, work).await });
    work.await
        .unwrap_or_else(|_| Err(Refusal::new(Status::Io, "it is not known whether the object was put")))?;
    Ok(reply(if absent { 201 } else { 204 }, "text/plain", Sent::whole(Bytes::new())))
}

/// The properties of an object, found before it is read.
struct Found {
    store: Arc<dyn Store>,
    folder: Option<std::path::PathBuf>,
    len: u64,
    tag: Option<String>,
}

/// The kind of answer to a request.
enum Decided {
    Refused(Refusal),
    /// The client has this version already.
    Same,
    Range(std::ops::Range<u64>),
}

async fn get(asked: Asked, name: String, key: String, is_head: bool) -> Result<Reply, Refusal> {
    asked.who.needs(&[Right::Read], &name)?;
    let is_partial = asked.headers.contains_key(RANGE);
    let of = key.clone();
    // All work is done on this thread, since each change of threads costs as much as a short read.
    let state = Arc::clone(&asked.state);
    let found = state.quick.in_place(|| {
        let Asked { state, headers, .. } = asked;
        let opened = state.stores.of(&state.config, &name, false)?;
        let len = opened.store.len(&of)?;
        let tag = opened.folder.as_deref().and_then(|folder| tag(folder, &of));
        let found = Found { store: Arc::clone(&opened.store), folder: opened.folder.clone(), len, tag };
        let decided = decided(&headers, &found);
        let bytes = match &decided {
            Decided::Range(range) if !is_head && range.end - range.start <= PIECE => {
                let len = usize::try_from(range.end - range.start).unwrap_or(0);
                Some(state.buffers.filled(len, |place| found.store.read(&of, range.start, place))?)
            }
            _ => None,
        };
        Ok((found, decided, bytes, state))
    });
    let (found, decided, bytes, state) = found?;
    let range = match decided {
        Decided::Refused(refusal) => return Err(refusal),
        Decided::Same => {
            return Ok(labelled(reply(304, "application/octet-stream", Sent::whole(Bytes::new())), &found));
        }
        Decided::Range(range) => range,
    };
    let (status, len) = (if is_partial { 206 } else { 200 }, range.end - range.start);
    let content = format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), found.len);
    let body = match bytes {
        Some(bytes) => Sent::whole(bytes),
        None if is_head => Sent::whole(Bytes::new()),
        None => streamed(&state.buffers, &found, key, range),
    };
    let mut reply = labelled(reply(status, "application/octet-stream", body), &found);
    if is_partial && let Ok(value) = HeaderValue::from_str(&content) {
        reply.headers_mut().insert(CONTENT_RANGE, value);
    }
    if is_head {
        reply.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
    }
    Ok(reply)
}

/// Applies the conditions and the range of a request to the object that was found.
fn decided(headers: &HeaderMap, found: &Found) -> Decided {
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_same =
        |list: &str| list == "*" || list.split(',').any(|tag| Some(tag.trim()) == found.tag.as_deref());
    if header(IF_MATCH).is_some_and(|list| !is_same(list)) {
        return Decided::Refused(Refusal::new(Status::AlreadyExists, "the object was replaced"));
    }
    if found.tag.is_some() && header(IF_NONE_MATCH).is_some_and(is_same) {
        return Decided::Same;
    }
    match wanted(headers, found.len) {
        Wanted::Whole => Decided::Range(0..found.len),
        Wanted::Range(range) => Decided::Range(range),
        Wanted::None => Decided::Refused(Refusal {
            found: Some(found.len),
            ..Refusal::new(Status::ShortRead, "the range begins after the end of the object")
        }),
    }
}

/// A long body. It breaks off if the object is replaced meanwhile.
fn streamed(buffers: &Arc<Buffers>, found: &Found, key: String, range: std::ops::Range<u64>) -> Sent {
    let (pieces, body) = Sent::pieces(Some(range.end - range.start));
    let (store, folder, before) = (Arc::clone(&found.store), found.folder.clone(), found.tag.clone());
    let buffers = Arc::clone(buffers);
    tokio::task::spawn_blocking(move || {
        let mut at = range.start;
        while at < range.end {
            let len = STREAMED.min(range.end - at);
            let read = buffers.filled(usize::try_from(len).unwrap_or(0), |place| store.read(&key, at, place));
            at += len;
            let is_last = at == range.end;
            // An append changes the tag too, but not the bytes below the old length. So only the inode is compared.
            let is_same = || {
                folder
                    .as_deref()
                    .is_none_or(|folder| inode(tag(folder, &key).as_deref()) == inode(before.as_deref()))
            };
            let piece = read.ok().filter(|_| !is_last || is_same()).ok_or(Broken);
            let is_broken = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_broken {
                return;
            }
        }
    });
    body
}

/// A tag that distinguishes versions of an object in a folder.
fn tag(folder: &Path, key: &str) -> Option<String> {
    let found = folder.join(key).metadata().ok()?;
    let time = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some(format!("\"{:x}-{time:x}-{:x}\"", found.ino(), found.len()))
}

fn inode(tag: Option<&str>) -> Option<&str> {
    tag.and_then(|tag| tag.split('-').next())
}

fn labelled(mut reply: Reply, found: &Found) -> Reply {
    let headers = reply.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(value) = found.tag.as_deref().and_then(|tag| HeaderValue::from_str(tag).ok()) {
        headers.insert(ETAG, value);
    }
    reply
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Range(std::ops::Range<u64>),
    /// The object has no byte of the range.
    None,
}

/// The range that the headers request from an object of this length. Several ranges, or an invalid range, request the
/// whole object, as RFC 9110 allows.
fn wanted(headers: &HeaderMap, len: u64) -> Wanted {
    let Some(text) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Wanted::Whole };
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
    match (number(first), number(last)) {
        (None, Some(0)) if first.is_empty() => Wanted::None,
        (None, Some(_)) if first.is_empty() && len == 0 => Wanted::None,
        (None, Some(tail)) if first.is_empty() => Wanted::Range(len.saturating_sub(tail)..len),
        (Some(first), None) if last.is_empty() => {
            if first < len {
                Wanted::Range(first..len)
            } else {
                Wanted::None
            }
        }
        (Some(first), Some(last)) if first <= last => {
            if first < len {
                Wanted::Range(first..len.min(last.saturating_add(1)))
            } else {
                Wanted::None
            }
        }
        _ => Wanted::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        let of = |text: &'static str, len| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static(text));
            wanted(&headers, len)
        };
        assert_eq!(of("bytes=0-9", 100), Wanted::Range(0..10));
        assert_eq!(of("bytes=90-200", 100), Wanted::Range(90..100));
        assert_eq!(of("bytes=90-", 100), Wanted::Range(90..100));
        assert_eq!(of("bytes=-10", 100), Wanted::Range(90..100));
        assert_eq!(of("bytes=-1000", 100), Wanted::Range(0..100));
        assert_eq!(of("bytes=100-", 100), Wanted::None);
        assert_eq!(of("bytes=0-18446744073709551615", 100), Wanted::Range(0..100));
        for text in
            ["bytes=9-0", "bytes=0-1,3-4", "lines=0-1", "bytes=+1-2", "bytes=", "bytes=-", "bytes=a-b"]
        {
            assert_eq!(of(text, 100), Wanted::Whole, "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 0), Wanted::Whole);
    }
}
