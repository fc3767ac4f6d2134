//! Asking a far store for the newest manifest: several numbers at a time, and the floor of packs with them.
//!
//! Invariants
//! - what is found rests on a floor: it is valid as long as the floor is no higher when it is looked at afterwards;
//! - a missing manifest above that floor never existed: the floor is put before anything is deleted.

use drystone_format::identity;
use drystone_format::keys;
use drystone_format::manifest::{MAX_MANIFEST, MAX_PAGES};
use drystone_store::{Reply, Request, Store, StoreError, StoreExt};

use super::packs::Packed;
use crate::Result;

/// Manifests with their pages are at most this long.
pub(crate) const MANIFEST_LIMIT: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;

/// The manifests that are read together at first: the presumably newest one, and its successors.
const FIRST: u64 = 3;
/// How many more are then probed at once for their existence alone: the first number, doubled each time up to the
/// second.
const PROBES: (u64, u64) = (8, 64);

/// A manifest that was probed for, and its bytes if they were read.
type Probed = (u64, Option<Vec<u8>>);

/// The newest manifest of a far store from `from` on, probed several at a time, with the floor of packs that the answer
/// rests on. `None`: `from` does not exist, or is larger than a manifest can be. The answer is valid as long as the
/// floor is no higher when it is looked at *afterwards*: the floor is put before anything is deleted, so a missing
/// manifest above it was never packed.
pub(super) fn probe(store: &dyn Store, from: u64, packs: Option<&Packed>) -> Result<(Option<Probed>, u64)> {
    let whole = |version| Request::ReadWhole { key: keys::manifest(version), limit: MANIFEST_LIMIT };
    let (mut from, mut floor) = (from, packs.map_or(0, |packs| packs.known().version));
    let replies = loop {
        from = from.max(floor);
        let mut asked: Vec<Request> = (from..from.saturating_add(FIRST)).map(whole).collect();
        asked.extend(packs.map(|_| Packed::request()));
        let mut replies = store.together(asked);
        let seen = match packs {
            Some(packs) => take_floor(packs, replies.pop())?,
            None => 0,
        };
        // Up to the floor only packs count; the store reads those once it knows the floor.
        if seen <= floor || seen < from {
            floor = floor.max(seen);
            break replies;
        }
        floor = seen;
    };
    let (mut found, mut next) = (None, from);
    for reply in replies {
        match reply {
            Ok(Reply::Whole { bytes: Ok(bytes) }) => found = Some((next, Some(bytes))),
            Err(StoreError::NotFound { .. }) => return Ok((found, floor)),
            Err(e) => return Err(e.into()),
            Ok(_) => return Ok((None, floor)),
        }
        next = next.saturating_add(1);
    }
    // `from` is more than a commit or two behind: the hint may be closer.
    if let Some(hint) = read_hint(store).filter(|hint| *hint > next)
        && store.exists(&keys::manifest(hint))?
    {
        (found, next) = (Some((hint, None)), hint.saturating_add(1));
    }
    let mut many = PROBES.0;
    loop {
        floor = packs.map_or(0, |packs| packs.known().version);
        let len = |version| Request::Len { key: keys::manifest(version) };
        for reply in store.together((next..next.saturating_add(many)).map(len).collect()) {
            match reply {
                Ok(_) => found = Some((next, None)),
                Err(StoreError::NotFound { .. }) => return Ok((found, floor)),
                Err(e) => return Err(e.into()),
            }
            next = next.saturating_add(1);
        }
        many = (many * 2).min(PROBES.1);
    }
}

/// The version of the floor in a reply.
pub(super) fn take_floor(packs: &Packed, reply: Option<drystone_store::Result<Reply>>) -> Result<u64> {
    let floor = match reply {
        Some(Ok(Reply::Whole { bytes })) => packs.take(Ok(bytes))?,
        Some(Err(e)) => packs.take(Err(e))?,
        _ => packs.look()?,
    };
    Ok(floor.version)
}

pub(super) fn read_hint(store: &dyn Store) -> Option<u64> {
    let bytes = store.read_all(keys::HINT, 64).ok()?;
    identity::decode_hint(&bytes)
}

/// The floor of packs that the search for the newest manifest of a far store rests on.
pub(super) struct Floors<'a> {
    pub(super) packs: Option<&'a Packed>,
    pub(super) rests_on: u64,
    /// It was looked at since.
    pub(super) is_settled: bool,
}

impl Floors<'_> {
    /// Whether the floor is unchanged. Looks, unless it was looked at after the manifests.
    pub(super) fn hold(&self) -> Result<bool> {
        let Some(packs) = self.packs else { return Ok(true) };
        let now = if self.is_settled { packs.known() } else { packs.look()? };
        Ok(now.version <= self.rests_on)
    }
}
