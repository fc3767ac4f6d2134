//! Finds uploads that a killed process began and that will never be completed, by listing them, and aborts them.
//!
//! The object_store crate cannot list them, so the request is made and signed here. Azure drops uncommitted parts after
//! a week, and Google's store has a rule for buckets: so neither needs this module.

use std::time::{Duration, SystemTime};

use drystone_store::StoreError;
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer};

use crate::attempt::{Attempts, Failure, Place, What, attempt};
use crate::provider::{Client, Provider};
use crate::timestamp;
use crate::wire::Notes;

/// Longest list of uploads that is read, in bytes; a thousand entries are far shorter.
const LONGEST: usize = 4 << 20;

/// Aborts uploads to keys that begin with `prefix` and were begun at least `older` ago; returns how many.
pub(crate) async fn abort(
    client: &Client,
    prefix: &str,
    place: &Place<'_>,
    older: Duration,
) -> Result<u64, StoreError> {
    let (Provider::S3(store), Some(uploads)) = (&client.provider, client.uploads()) else { return Ok(0) };
    let mut attempts = Attempts::new(client);
    let document = loop {
        let request = async {
            let options = SignedUrlOptions::default().with_query([
                ("uploads", ""),
                ("prefix", prefix),
                ("max-uploads", "1000"),
            ]);
            let url = store
                .signed_url_opts(http::Method::GET, &Path::default(), Duration::from_secs(600), &options)
                .await?;
            listing(url).await
        };
        let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
        drop(turn);
        match outcome {
            Ok(Ok(document)) => break document,
            // A server without this request has no such uploads, and credentials without the right to list cannot abort
            // any.
            Ok(Err(400..=499 | 501)) => return Ok(0),
            Ok(Err(status)) => {
                let failure = Failure::new(What::Again, format!("status {status}"));
                if !attempts.again(&failure).await {
                    return Err(attempts.error(&failure, place));
                }
            }
            Err(failure) if attempts.again(&failure).await => {}
            Err(failure) => return Err(attempts.error(&failure, place)),
        }
    };
    let mut aborted = 0;
    for entry in elements(&document, "Upload") {
        let first = |name| elements(entry, name).into_iter().next().map(unescaped);
        let (Some(key), Some(id), Some(begun)) = (first("Key"), first("UploadId"), first("Initiated")) else {
            continue;
        };
        let old_enough = older.is_zero() || age(&begun).is_some_and(|age| age >= older);
        let Ok(path) = Path::parse(&key) else { continue };
        if key.starts_with(prefix) && old_enough {
            let (turn, outcome) =
                attempt(&attempts, attempts.limit(0), Notes::default(), uploads.abort_multipart(&path, &id))
                    .await;
            drop(turn);
            aborted += u64::from(outcome.is_ok());
        }
    }
    Ok(aborted)
}

/// The document at the address, or the status of a refusal.
async fn listing(url: url::Url) -> object_store::Result<Result<String, u16>> {
    let failed = |error: reqwest::Error| object_store::Error::Generic {
        store: "S3",
        // Without the address, since it is signed.
        source: Box::new(error.without_url()),
    };
    let client = reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(Duration::from_secs(5))
        .build()
        .map_err(failed)?;
    let mut response = client.get(url).send().await.map_err(failed)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Ok(Err(status));
    }
    let mut text = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        text.extend_from_slice(&piece);
        if text.len() > LONGEST {
            return Ok(Err(500));
        }
    }
    Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
}

/// The contents of all elements of this name.
fn elements<'a>(document: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    document.split(&open).skip(1).filter_map(|rest| rest.split(&close).next()).collect()
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// How long ago a time was; `None` for the future, or for an invalid text.
fn age(text: &str) -> Option<Duration> {
    SystemTime::now().duration_since(timestamp::parse(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_unescaped() {
        let document = "<A><Upload><Key>a&amp;b</Key></Upload><Upload><Key>c</Key></Upload></A>";
        let keys: Vec<_> = elements(document, "Upload")
            .into_iter()
            .flat_map(|e| elements(e, "Key"))
            .map(unescaped)
            .collect();
        assert_eq!(keys, ["a&b", "c"]);
    }
}
