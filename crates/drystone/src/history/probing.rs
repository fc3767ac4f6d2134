//! Asking a far store for the newest manifest: several numbers at a time, and the floor of packs with them.
//!
//! Invariants
//! - what is found rests on a floor, and holds as long as the floor is no higher when it is looked at afterwards;
//! - a manifest above that floor which is missing was never there: the floor is put before anything is deleted.

use drystone_format::identity;
use drystone_format::keys;
use drystone_format::manifest::{MAX_MANIFEST, MAX_PAGES};
use drystone_store::{Reply, Request, Store, StoreError, StoreExt};

use super::packs::Packed;
use crate::Result;

/// Manifests with their pages are at most this long.
pub(crate) const MANIFEST_LIMIT: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;

/// Manifests that are read together at first: the one that is thought to be the newest, and those behind it.
const FIRST: u64 = 3;
/// More of them are asked for at once, only whether they are there: twice as many each time, from the first number to
/// the second.
const PROBES: (u64, u64) = (8, 64);

/// A manifest that was probed for, and its bytes if they were read.
type Probed = (u64, Option<Vec<u8>>);

/// The newest manifest of a far store from `from` on; manifests are asked for several at a time. `None`: `from` is
/// not there, or larger than a manifest can be. With it the floor of packs that the answer rests on: it holds as long
/// as the floor is no higher when it is looked at *afterwards*. The floor is put before anything is deleted, so a
/// manifest above it that is missing was never packed.
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
        // Up to the floor packs alone count, which the store reads once it knows it.
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
    // It is behind by more than a commit or two: perhaps the hint is not.
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

/// The version of the floor that a reply brings.
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
    /// Whether the floor is still where it was; looks, unless it was looked at after the manifests.
    pub(super) fn hold(&self) -> Result<bool> {
        let Some(packs) = self.packs else { return Ok(true) };
        let now = if self.is_settled { packs.known() } else { packs.look()? };
        Ok(now.version <= self.rests_on)
    }
}
