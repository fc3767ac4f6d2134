//! Large objects in parts: several under way, completed once, aborted on failure.
//!
//! Parts are invisible until the upload is completed, so a process that is killed leaves no object; its parts are cleared away by
//! [`stale`](crate::stale), or by a rule of the bucket. Completing is decided as a put is ([`create`](crate::create)): by the write id.

use bytes::Bytes;
use drystone_store::{PutMode, StoreError};
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{PutMultipartOptions, PutPayload};

use crate::attempt::{Attempts, Failure, Place, What, attempt};
use crate::create::{Settled, attributes, exists, settled};
use crate::provider::{Client, Provider};
use crate::random::write_id;
use crate::wire::Notes;

/// From so many bytes on an object is put in parts.
pub(crate) const FROM: usize = 16 << 20;
/// Length of each part but the last.
const PART: usize = 8 << 20;
/// Parts under way at once.
const UNDER_WAY: usize = 4;
/// S3 takes no more parts than that.
const MOST_PARTS: usize = 10_000;

/// Whether this put is to be done in parts. Only S3 completes an upload on condition that no object is there.
pub(crate) fn in_parts(client: &Client, len: usize, mode: PutMode) -> bool {
    let conditional = mode == PutMode::Replace || matches!(client.provider, Provider::S3(_));
    len >= FROM && conditional && client.uploads().is_some()
}

/// Puts the object in parts.
pub(crate) async fn put(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    data: Bytes,
    mode: PutMode,
) -> Result<(), StoreError> {
    let Some(store) = client.uploads() else {
        return Err(StoreError::Unsupported { operation: place.operation.into(), store: place.store.into() });
    };
    let id = write_id();
    let upload = begun(client, store, path, place, &id).await?;
    let outcome = filled(client, store, path, place, &upload, &id, data, mode).await;
    if outcome.is_err() {
        // A bill for parts that nobody sees is the owner's; the error is already known.
        let request = store.abort_multipart(path, &upload);
        let attempts = Attempts::new(client);
        drop(attempt(&attempts, attempts.limit(0), Notes::default(), request).await);
    }
    outcome
}

async fn begun(
    client: &Client,
    store: &dyn MultipartStore,
    path: &Path,
    place: &Place<'_>,
    id: &str,
) -> Result<String, StoreError> {
    let mut attempts = Attempts::new(client);
    loop {
        let options = PutMultipartOptions { attributes: attributes(id), ..PutMultipartOptions::default() };
        let request = store.create_multipart_opts(path, options);
        let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
        drop(turn);
        match outcome {
            Ok(upload) => return Ok(upload),
            Err(failure) if attempts.again(&failure).await => {}
            Err(failure) => return Err(attempts.error(&permanent(failure), place)),
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one upload")]
async fn filled(
    client: &Client,
    store: &dyn MultipartStore,
    path: &Path,
    place: &Place<'_>,
    upload: &String,
    id: &str,
    data: Bytes,
    mode: PutMode,
) -> Result<(), StoreError> {
    let part_len = PART.max(data.len().div_ceil(MOST_PARTS));
    let count = data.len().div_ceil(part_len);
    let parts = futures_util::stream::iter((0..count).map(|number| {
        let part = data.slice(number * part_len..data.len().min((number + 1) * part_len));
        async move {
            let mut attempts = Attempts::new(client);
            loop {
                let payload = PutPayload::from_bytes(part.clone());
                let request = store.put_part(path, upload, number, payload);
                let (mut turn, outcome) =
                    attempt(&attempts, attempts.limit(part.len()), Notes::default(), request).await;
                match outcome {
                    Ok(part_id) => {
                        turn.ended(crate::flow::Outcome::Answered, part.len() as u64);
                        return Ok(part_id);
                    }
                    Err(failure) => {
                        drop(turn);
                        if !attempts.again(&failure).await {
                            return Err(attempts.error(&permanent(failure), place));
                        }
                    }
                }
            }
        }
    }));
    let parts: Vec<_> = parts.buffered(UNDER_WAY).try_collect().await?;
    let mut attempts = Attempts::new(client);
    loop {
        let notes = Notes::completing(mode == PutMode::IfAbsent);
        let request = store.complete_multipart(path, upload, parts.clone());
        let (turn, outcome) = attempt(&attempts, attempts.limit(0), notes, request).await;
        drop(turn);
        let failure = match outcome {
            Ok(_) => return Ok(()),
            // An upload that is gone was completed by an attempt whose reply was lost, or by nobody.
            Err(failure) if failure.is_unmet() || failure.what == What::NoUpload => {
                match settled(client, path, place, id, &data, attempts.failed() > 0).await? {
                    Settled::Ours => return Ok(()),
                    Settled::Others if mode == PutMode::IfAbsent => return Err(exists(place)),
                    Settled::Absent if failure.is_unmet() => Failure { what: What::Again, ..failure },
                    _ => permanent(failure),
                }
            }
            Err(failure) => failure,
        };
        if !attempts.again(&failure).await {
            return Err(attempts.error(&permanent(failure), place));
        }
    }
}

/// "Not found" of an upload is not that of an object.
fn permanent(failure: Failure) -> Failure {
    match failure.what {
        What::NotFound | What::NoUpload => Failure { what: What::Permanent, ..failure },
        _ => failure,
    }
}
