//! Asks a far store for the newest manifest: several numbers at a time, together with the floor of packs.
//!
//! Invariants
//! - a result depends on a floor: it is valid if a later look at the floor shows no higher one;
//! - a missing manifest above that floor never existed: the floor is put before anything is deleted.

use drystone_format::identity;
use drystone_format::keys;
use drystone_format::manifest::{MAX_MANIFEST, MAX_PAGES};
use drystone_store::{Pending, Reply, Request, Store, StoreError, StoreExt};

use super::packs::Packed;
use crate::Result;

/// The greatest length of a manifest with its pages.
pub(crate) const MANIFEST_LIMIT: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;

/// The number of manifests that are read together at first: the presumably newest one, and its successors.
const FIRST: u64 = 3;
/// The number of further manifests that are then probed together, only for their existence: the first value, doubled
/// each time up to the second.
const PROBES: (u64, u64) = (8, 64);

/// A probed manifest, and its bytes if they were read.
type Probed = (u64, Option<Vec<u8>>);

/// Finds the newest manifest of a far store from `from` on, probing several at a time. Also returns the floor of
/// packs on which the answer depends. `None`: `from` does not exist, or is larger than a manifest can be. The answer
/// is valid if a *later* look at the floor shows no higher one: the floor is put before anything is deleted, so a
/// missing manifest above it was never packed.
pub(super) fn probe(store: &dyn Store, from: u64, packs: Option<&Packed>) -> Result<(Option<Probed>, u64)> {
    let whole = |version| Request::ReadWhole { key: keys::manifest(version), limit: MANIFEST_LIMIT };
    let (mut from, mut floor) = (from, packs.map_or(0, |packs| packs.known().version));
    let replies = loop {
        from = from.max(floor);
        // A packed manifest is waited for when it is asked for, so it comes last.
        let is_first_packed = from <= floor;
        let mut asked: Vec<Request> = (from..from.saturating_add(FIRST)).map(whole).collect();
        asked.extend(packs.map(|_| Packed::request()));
        if is_first_packed {
            asked.rotate_left(1);
        }
        let mut replies = store.together(asked);
        if is_first_packed {
            replies.rotate_right(1);
        }
        let seen = match packs {
            Some(packs) => take_floor(packs, replies.pop())?,
            None => 0,
        };
        // Up to the floor, only packs are valid. The store reads those once it knows the floor.
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
    // `from` lags by more than a commit or two, so the hint may be closer.
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

/// The floor of packs on which a search for the newest manifest of a far store depends.
pub(super) struct Floors<'a> {
    packs: Option<&'a Packed>,
    pub(super) rests_on: u64,
    /// A look at the floor that began after a manifest was read.
    asked: Option<Pending>,
}

impl<'a> Floors<'a> {
    pub(super) fn of(packs: Option<&'a Packed>) -> Self {
        Floors { packs, rests_on: 0, asked: None }
    }

    /// The store, if manifests may be packed.
    pub(super) fn packs(&self) -> Option<&'a Packed> {
        self.packs
    }

    /// Begins a look at the floor after a manifest was read, so that it arrives together with the pages.
    pub(super) fn ask(&mut self) {
        self.asked = self.packs.map(|packs| packs.inner().submit(Packed::request()));
    }

    /// Whether the floor is unchanged since the manifests were read.
    pub(super) fn hold(&mut self) -> Result<bool> {
        let Some(packs) = self.packs else { return Ok(true) };
        let now = take_floor(packs, self.asked.take().map(Pending::wait))?;
        Ok(now <= self.rests_on)
    }
}
