//! Puts whole objects, and determines the outcome of a put whose reply was lost.
//!
//! Every put has 128 random bits as metadata, its write id. The decision about a put-if-absent:
//! 1. PUT with the condition; no layer below repeats it;
//! 2. success: done;
//! 3. the condition was not met: HEAD. With our id, an earlier attempt succeeded: done. With another id, the object
//!    exists. Without an object: 1 again;
//! 4. without an id, because the server stores no metadata: after an attempt whose outcome is unknown, equal bytes are
//!    ours; else the object exists;
//! 5. any other answer after which another attempt may succeed: 1 again, until the deadline. Then the outcome is
//!    unknown, and the error says so.
//!
//! So a lost reply is never reported as a conflict, and a conflict never as success.

use std::borrow::Cow;

use bytes::Bytes;
use drystone_store::{PutMode, StoreError};
use object_store::path::Path;
use object_store::{Attribute, Attributes, PutMode as Mode, PutOptions, PutPayload};

use crate::attempt::{Attempts, Failure, Place, What, attempt};
use crate::provider::Client;
use crate::random::write_id;
use crate::read;
use crate::wire::Notes;

/// Name of the metadata that holds the write id. It has only letters, which every provider accepts.
const WRITE_ID: &str = "drystoneput";

/// The attributes of a put with this id.
pub(crate) fn attributes(id: &str) -> Attributes {
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::Metadata(Cow::Borrowed(WRITE_ID)), id.to_owned().into());
    attributes
}

/// Puts the object in one request.
pub(crate) async fn put(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    data: &[Bytes],
    mode: PutMode,
) -> Result<(), StoreError> {
    let id = write_id();
    let len = data.iter().map(Bytes::len).sum();
    let mut attempts = Attempts::new(client);
    loop {
        let condition = match mode {
            PutMode::IfAbsent => Mode::Create,
            PutMode::Replace => Mode::Overwrite,
        };
        let options = PutOptions { mode: condition, attributes: attributes(&id), ..PutOptions::default() };
        let request = client.objects().put_opts(path, data.iter().cloned().collect::<PutPayload>(), options);
        let (turn, outcome) = attempt(&attempts, attempts.limit(len), Notes::sending(data), request).await;
        drop(turn);
        let failure = match outcome {
            Ok(_) => return Ok(()),
            Err(failure) if mode == PutMode::IfAbsent && failure.is_unmet() => {
                let doubtful = attempts.failed() > 0;
                let whose = settled(client, path, place, &id, Proof::Bytes(data), doubtful);
                match attempts.beside(whose).await? {
                    Settled::Ours => return Ok(()),
                    Settled::Others => return Err(exists(place)),
                    // The object existed and is gone, or the server refused because of a concurrent put.
                    Settled::Absent => Failure { what: What::Again, ..failure },
                }
            }
            // The bucket is missing: a put needs no existing object.
            Err(failure) if failure.what == What::NotFound => Failure { what: What::Permanent, ..failure },
            Err(failure) => failure,
        };
        if !attempts.again(&failure).await {
            return Err(attempts.error(&failure, place));
        }
    }
}

pub(crate) fn exists(place: &Place<'_>) -> StoreError {
    StoreError::AlreadyExists { key: place.key.to_owned(), store: place.store.to_owned() }
}

/// Which put made the existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Ours,
    Others,
    Absent,
}

/// How an object without a write id is identified.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof<'a> {
    /// By the bytes that were put.
    Bytes(&'a [Bytes]),
    /// By its length: this many bytes were uploaded in pieces that are no longer held, to a key to which no other
    /// client puts.
    Length(u64),
}

impl Proof<'_> {
    /// Whether an object of this length is the one that was put.
    async fn holds(
        self,
        client: &Client,
        path: &Path,
        place: &Place<'_>,
        size: u64,
    ) -> Result<bool, StoreError> {
        match self {
            Proof::Length(len) => Ok(size == len),
            Proof::Bytes(data) => {
                let len: usize = data.iter().map(Bytes::len).sum();
                if size != len as u64 {
                    return Ok(false);
                }
                let theirs = read::whole(client, path, place, size).await?.unwrap_or_default();
                let mut rest = &theirs[..];
                Ok(data.iter().all(|part| match rest.split_at_checked(part.len()) {
                    Some((first, behind)) => {
                        rest = behind;
                        first == part
                    }
                    None => false,
                }) && rest.is_empty())
            }
        }
    }
}

/// Determines which put made the existing object. `doubtful` says that an earlier attempt of this put may have
/// succeeded.
pub(crate) async fn settled(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    id: &str,
    proof: Proof<'_>,
    doubtful: bool,
) -> Result<Settled, StoreError> {
    let found = match read::head(client, path, place).await {
        Ok(found) => found,
        Err(StoreError::NotFound { .. }) => return Ok(Settled::Absent),
        Err(other) => return Err(other),
    };
    match found.attributes.get(&Attribute::Metadata(Cow::Borrowed(WRITE_ID))) {
        Some(theirs) if theirs.as_ref() == id => Ok(Settled::Ours),
        Some(_) => Ok(Settled::Others),
        None if !doubtful => Ok(Settled::Others),
        None => match proof.holds(client, path, place, found.meta.size).await {
            Ok(true) => Ok(Settled::Ours),
            Ok(_) => Ok(Settled::Others),
            Err(StoreError::NotFound { .. }) => Ok(Settled::Absent),
            Err(other) => Err(other),
        },
    }
}
