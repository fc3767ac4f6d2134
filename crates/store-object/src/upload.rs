//! Uploads large objects in parts: several parts under way, completed once, aborted on failure.
//!
//! Parts are invisible until the upload is completed, so a process that is killed leaves no object. Its parts are
//! removed by [`stale`](crate::stale), or by a rule of the bucket. The outcome of a completion is determined like that
//! of a put ([`create`](crate::create)): by the write id.

use bytes::Bytes;
use drystone_store::{PutMode, StoreError};
use futures_util::stream::{StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Attributes, PutMultipartOptions, PutPayload};

use crate::attempt::{Attempts, Failure, Place, What, attempt};
use crate::create::{Proof, Settled, attributes, exists, settled};
use crate::provider::{Client, Provider};
use crate::random::write_id;
use crate::wire::Notes;

/// An object of at least this many bytes is put in parts.
pub(crate) const FROM: usize = 16 << 20;
/// Length of each part but the last.
const PART: usize = 8 << 20;
/// Parts under way at once.
const UNDER_WAY: usize = 4;
/// The most parts that S3 accepts.
pub(crate) const MOST_PARTS: usize = 10_000;

/// Whether this put is made in parts. Only S3 completes an upload on condition that no object exists.
pub(crate) fn in_parts(client: &Client, len: usize, mode: PutMode) -> bool {
    let conditional = mode == PutMode::Replace || matches!(client.provider, Provider::S3(_));
    len >= FROM && conditional && client.uploads().is_some()
}

/// The object to upload, and its destination.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    pub(crate) client: &'a Client,
    pub(crate) path: &'a Path,
    pub(crate) place: Place<'a>,
    /// The write id.
    pub(crate) id: &'a str,
}

/// Puts the object in parts.
pub(crate) async fn put(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    data: Bytes,
    mode: PutMode,
) -> Result<(), StoreError> {
    let id = write_id();
    let object = Object { client, path, place: *place, id: &id };
    let upload = object.begin().await?;
    let outcome = object.fill(&upload, data, mode).await;
    if outcome.is_err() {
        object.abort(&upload).await;
    }
    outcome
}

impl Object<'_> {
    fn store(&self) -> Result<&dyn MultipartStore, StoreError> {
        self.client.uploads().ok_or_else(|| StoreError::Unsupported {
            operation: self.place.operation.into(),
            store: self.place.store.into(),
        })
    }

    /// Begins an upload; returns its id at the server.
    pub(crate) async fn begin(&self) -> Result<String, StoreError> {
        let store = self.store()?;
        let mut attempts = Attempts::new(self.client);
        loop {
            // In Azure an upload has no beginning: blocks wait below the key, and the metadata belongs to the list that
            // completes them.
            let attributes = match self.client.provider {
                Provider::Az(_) => Attributes::new(),
                _ => attributes(self.id),
            };
            let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
            let request = store.create_multipart_opts(self.path, options);
            let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
            drop(turn);
            match outcome {
                Ok(upload) => return Ok(upload),
                Err(failure) if attempts.again(&failure).await => {}
                Err(failure) => return Err(attempts.error(&permanent(failure), &self.place)),
            }
        }
    }

    async fn fill(&self, upload: &String, data: Bytes, mode: PutMode) -> Result<(), StoreError> {
        let part_len = PART.max(data.len().div_ceil(MOST_PARTS));
        let count = data.len().div_ceil(part_len);
        let parts = futures_util::stream::iter((0..count).map(|number| {
            let part = data.slice(number * part_len..data.len().min((number + 1) * part_len));
            async move { self.part(upload, number, &part).await }
        }));
        let parts: Vec<_> = parts.buffered(UNDER_WAY).try_collect().await?;
        self.complete(upload, parts, mode, Proof::Bytes(&[data])).await
    }

    /// Puts a part.
    pub(crate) async fn part(
        &self,
        upload: &String,
        number: usize,
        part: &Bytes,
    ) -> Result<PartId, StoreError> {
        let store = self.store()?;
        let mut attempts = Attempts::new(self.client);
        loop {
            let payload = PutPayload::from_bytes(part.clone());
            let request = store.put_part(self.path, upload, number, payload);
            let notes = Notes::sending(std::slice::from_ref(part));
            let (mut turn, outcome) = attempt(&attempts, attempts.limit(part.len()), notes, request).await;
            match outcome {
                Ok(part_id) => {
                    turn.ended(crate::flow::Outcome::Answered, part.len() as u64);
                    return Ok(part_id);
                }
                Err(failure) => {
                    drop(turn);
                    if !attempts.again(&failure).await {
                        return Err(attempts.error(&permanent(failure), &self.place));
                    }
                }
            }
        }
    }

    /// Completes the object from its parts.
    pub(crate) async fn complete(
        &self,
        upload: &String,
        parts: Vec<PartId>,
        mode: PutMode,
        proof: Proof<'_>,
    ) -> Result<(), StoreError> {
        let Object { client, path, place, id } = self;
        let store = self.store()?;
        let mut attempts = Attempts::new(client);
        loop {
            let notes = Notes::completing(mode == PutMode::IfAbsent);
            let request = store.complete_multipart(path, upload, parts.clone());
            let (turn, outcome) = attempt(&attempts, attempts.limit(0), notes, request).await;
            drop(turn);
            let failure = match outcome {
                Ok(_) => return Ok(()),
                // A missing upload was completed by an attempt whose reply was lost, or was not completed at all.
                Err(failure) if failure.is_unmet() || failure.what == What::NoUpload => {
                    let whose = settled(client, path, place, id, proof, attempts.failed() > 0);
                    match attempts.beside(whose).await? {
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

    /// Aborts the upload, since the owner pays for invisible parts. If that fails, `stale` removes them later; the
    /// original error is reported in any case.
    pub(crate) async fn abort(&self, upload: &String) {
        let Ok(store) = self.store() else { return };
        let request = store.abort_multipart(self.path, upload);
        let attempts = Attempts::new(self.client);
        drop(attempt(&attempts, attempts.limit(0), Notes::default(), request).await);
    }
}

/// Turns the "not found" of an upload into another failure, since it does not mean a missing object.
fn permanent(failure: Failure) -> Failure {
    match failure.what {
        What::NotFound | What::NoUpload => Failure { what: What::Permanent, ..failure },
        _ => failure,
    }
}
