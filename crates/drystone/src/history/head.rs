//! Finding the newest manifest (docs/format/manifest.md, "Marks, hint, and finding the newest").
//!
//! A power cut may destroy any manifest that was not flushed, even one with newer ones above it. Such a gap would
//! stop a forward probe too early. So a handle that may write lists all numbers once, and fills gaps with *voids*
//! before it commits or marks anything.
//!
//! Invariants
//! - opening never falls back past a manifest that is known to be on stable storage, and never without a warning;
//! - a reader never falls back past one under `durable`;
//! - there are no gaps below a flush mark, so every hint leads beyond every mark.

use std::sync::Arc;
use std::time::Duration;

use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_store::{Store, StoreExt};

pub(crate) use super::descent::Head;
use super::descent::{Descent, MANY_GAPS, Missing, load};
use super::loss::Trust;
use super::manifests::{is_gone, is_void, listed};
use super::packs::Packed;
use super::pages::PageLoader;
use super::probing::{Floors, probe, read_hint};
use crate::{Error, ErrorKind, Result};

/// Where the search for the newest manifest begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// From the hint forward.
    Hint,
    /// Forward from this number, or from the hint.
    From(u64),
    /// In a list of all manifests, which also shows those beyond a gap.
    List,
}

/// The highest manifest number, found by probing forward.
fn top(store: &dyn Store, hint: Option<u64>, look: Look) -> Result<u64> {
    let from = if let Look::From(known) = look { known } else { 0 };
    let mut version = match hint {
        Some(v) if v <= from => from,
        Some(v) if store.exists(&keys::manifest(v))? => v,
        _ if from > 0 => from,
        _ => listed(store, keys::parse_manifest)?,
    };
    while store.exists(&keys::manifest(version + 1))? {
        version += 1;
    }
    Ok(version)
}

/// The most attempts to find a newest snapshot that does not expire before it is loaded: 30 seconds with the pauses.
const TRIES: u32 = 100;
/// The number of attempts without a pause. A store that keeps naming a manifest and not giving it is not asked in a
/// tight loop. The pauses grow by a step up to a maximum.
const EAGER_TRIES: u32 = 10;
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

fn pause(tries: u32) {
    if let Some(many) = tries.checked_sub(EAGER_TRIES) {
        std::thread::sleep((PAUSE.0 * many).min(PAUSE.1));
    }
}

/// Finds the newest snapshot. `hint` is `None` if it was not read yet. `packs` is the store if manifests may be
/// packed.
pub(crate) fn find(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (look, mut hint): (Look, Option<Option<u64>>),
    trust: Trust,
    packs: Option<&Packed>,
) -> Result<Head> {
    // On other stores, every answer takes packs into account.
    let packs = packs.filter(|_| store.features().far.is_some());
    let mut tries = 0;
    loop {
        let mut floors = Floors::of(packs);
        let found = find_once(store, pages, identity, (look, hint.take()), (trust, &mut floors));
        match found {
            Err(e) if e.kind() == ErrorKind::NotFound && tries < TRIES => {}
            // The manifest was packed during the search.
            Ok(_) if !floors.hold()? && tries < TRIES => {}
            other => return other,
        }
        tries += 1;
        pause(tries);
    }
}

fn find_once(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (look, hint): (Look, Option<Option<u64>>),
    (trust, floors): (Trust, &mut Floors<'_>),
) -> Result<Head> {
    let is_far = store.features().far.is_some();
    let mut hint = match look {
        // This manifest exists, so no hint can be above all manifests. Probing from here takes one round trip.
        Look::From(from) if is_far && from > 0 => Some(from),
        _ => hint.unwrap_or_else(|| read_hint(store.as_ref())),
    };
    let probes = is_far && look != Look::List;
    if let Some(packs) = floors.packs().filter(|_| !probes || hint.is_none_or(|from| from == 0)) {
        // No request was made with which the floor could have been fetched.
        floors.rests_on = packs.look()?.version;
        hint = if floors.rests_on > 0 { Some(hint.unwrap_or(0).max(floors.rests_on)) } else { hint };
    }
    let mut known = None;
    if let Some(from) = hint.filter(|from| probes && *from > 0) {
        (known, floors.rests_on) = probe(store.as_ref(), from, floors.packs())?;
        hint = Some(from.max(floors.rests_on));
    }
    let (mut gaps, mut most_marked) = (Vec::new(), 0);
    let top = if look == Look::List {
        let (mut numbers, mut marked) = (Vec::new(), 0);
        for item in store.list("manifest/")? {
            numbers.extend(keys::parse_manifest(&item.key));
            marked = keys::parse_mark(&item.key).unwrap_or(0).max(marked);
        }
        let mut next = marked.max(numbers.first().map_or(0, |n| n - 1)) + 1;
        for &number in numbers.iter().filter(|n| **n > marked) {
            let left = (MANY_GAPS as usize).saturating_sub(gaps.len());
            gaps.extend((next..number).take(left));
            next = number + 1;
        }
        most_marked = marked;
        numbers.last().copied().unwrap_or(0)
    } else {
        match &known {
            Some((version, _)) => *version,
            None => top(store.as_ref(), hint, look)?,
        }
    };
    let mut descent = Descent::new(store, identity, trust);
    if hint.is_none_or(|h| h > top) || most_marked > top {
        descent.newest_is_missing(hint, top)?;
    } else if look != Look::List {
        descent.expect_no_mark(top);
    }
    let mut passed = Vec::new();
    let mut version = top;
    loop {
        let file = known.take().filter(|(of, _)| *of == version).and_then(|(_, bytes)| bytes);
        let (failure, cause) = match load(store, pages, identity, (version, file), floors) {
            Ok((snapshot, missing)) if missing.is_empty() => {
                return descent.end(snapshot, passed, top, gaps);
            }
            Ok(_) if is_gone(store.as_ref(), version) => {
                return Err(Error::not_found(format!("snapshot {version} has expired")));
            }
            Ok((snapshot, missing)) if descent.stays(&snapshot)? => {
                descent.is_not_whole(&snapshot, missing);
                return descent.end(snapshot, passed, top, gaps);
            }
            Ok((snapshot, missing)) => {
                passed.push(snapshot);
                descent.pass_over(version, missing);
                version = descent.before(version)?;
                continue;
            }
            // A garbage collection removed it first, so there is a newer one.
            Err(_) if is_gone(store.as_ref(), version) => {
                return Err(Error::not_found(format!("snapshot {version} has expired")));
            }
            Err(e) if e.kind() == ErrorKind::Corrupt || is_void(store.as_ref(), version) => {
                let cause = descent.is_unreadable(version, &e)?;
                (e, cause)
            }
            Err(e) => return Err(e),
        };
        let missing = Missing { key: keys::manifest(version), error: failure };
        descent.pass_over_since(version, vec![missing], cause);
        version = descent.before(version)?;
    }
}
