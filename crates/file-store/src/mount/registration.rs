//! The mounts that write, by their registrations in the store.
//!
//! A mount that must be the only one that writes registers *alone*. Every mount registers first and then looks at the
//! other registrations, so of two mounts that exclude each other at least one sees the other and withdraws.
//!
//! A registration alone counts its holder's signs of life. A mount on another machine, which cannot look for the
//! process, waits for the next sign. If none comes in time, the holder has lost its registration: the journal then
//! refuses its commits.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant};

use drystone_format::keys::{self, FilesKey};
use drystone_store::{PutMode, Store, StoreError, StoreExt};

use super::now;
use crate::{Failure, Result};

/// How often a mount that waits for a sign of life looks.
const LOOK: Duration = Duration::from_millis(200);
/// Longest text of a registration.
const LONGEST: u64 = 4096;

/// The texts of registrations.
#[derive(Clone, Copy)]
pub struct Registry {
    /// The text of this process. The number counts its signs of life if it must be the only one that writes.
    pub text: fn(Option<u64>) -> String,
    /// The meaning of a text.
    pub look: fn(&str) -> Seen,
    /// A registration alone without a sign of life for this long is void, unless its process is known to live. Signs
    /// come every second.
    pub lease: Duration,
}

/// The meaning of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What is known of the process.
    pub life: Life,
    /// Signs of life, if it must be the only one that writes.
    pub alone: Option<u64>,
    /// Whether it only moves bytes, as a garbage collection does, and changes no file.
    pub collects: bool,
}

/// Whether the process of a registration lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It certainly ended.
    Ended,
    /// It certainly lives.
    Lives,
    /// It runs or ran where this process cannot look.
    Unknown,
}

/// Another mount that writes.
pub(super) struct Other {
    pub(super) number: u32,
    text: String,
    pub(super) seen: Seen,
}

/// A random number, which most likely no other mount has; if one has it, its registration shows that.
fn number() -> u32 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_i64(now());
    hasher.write_u32(std::process::id());
    (hasher.finish() >> 16) as u32
}

/// Registers this process; returns the number of its mount.
pub(super) fn register(store: &dyn Store, registry: Registry, alone: bool) -> Result<u32> {
    let text = (registry.text)(alone.then_some(0));
    loop {
        let id = number();
        match store.put(&keys::mount(id), &[text.as_bytes()], PutMode::IfAbsent, false) {
            Ok(()) => return Ok(id),
            Err(StoreError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The other mounts that write. Removes registrations of dead mounts.
pub(super) fn others(store: &dyn Store, me: u32, registry: Registry) -> Result<Vec<Other>> {
    let mut out = Vec::new();
    for item in store.list(keys::FILES)? {
        let Some(FilesKey::Mount(number)) = keys::parse_files(&item.key) else { continue };
        if number == me {
            continue;
        }
        let Some(text) = text(store, number)? else { continue };
        let seen = (registry.look)(&text);
        match seen.life {
            Life::Ended => store.delete(&item.key)?,
            Life::Lives | Life::Unknown => out.push(Other { number, text, seen }),
        }
    }
    Ok(out)
}

fn text(store: &dyn Store, mount: u32) -> Result<Option<String>> {
    match store.read_all(&keys::mount(mount), LONGEST) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The other mounts beside which a registered mount may write. `Taken` names one beside which it may not.
pub(super) fn admitted(store: &dyn Store, me: u32, registry: Registry, alone: bool) -> Result<Vec<Other>> {
    let mut out = Vec::new();
    for other in others(store, me, registry)? {
        if !alone && other.seen.alone.is_none() {
            out.push(other);
        } else if lives(store, &other, registry)? {
            let Other { number, text, seen } = other;
            return Err(Failure::Taken {
                process: text,
                key: keys::mount(number),
                alone: seen.alone.is_some(),
            });
        } else {
            store.delete(&keys::mount(other.number))?;
        }
    }
    Ok(out)
}

/// Whether a mount counts as alive. Waits for its next sign of life if nothing else is known.
fn lives(store: &dyn Store, other: &Other, registry: Registry) -> Result<bool> {
    if other.seen.life == Life::Lives || other.seen.alone.is_none() {
        return Ok(true);
    }
    let begun = Instant::now();
    while begun.elapsed() < registry.lease {
        std::thread::sleep(LOOK);
        match text(store, other.number)? {
            None => return Ok(false),
            Some(text) if (registry.look)(&text).alone != other.seen.alone => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

/// Gives the next sign of life. Returns whether the registration still existed.
pub(super) fn beat(store: &dyn Store, me: u32, registry: Registry) -> Result<bool> {
    let Some(before) = text(store, me)? else { return Ok(false) };
    let next = (registry.look)(&before).alone.map_or(1, |count| count.wrapping_add(1));
    store.put(&keys::mount(me), &[(registry.text)(Some(next)).as_bytes()], PutMode::Replace, false)?;
    Ok(true)
}

/// Claims on generations; they mean nothing to mounts that register later.
pub(super) fn claims(store: &dyn Store) -> Result<Vec<String>> {
    let objects = store.list(keys::FILES)?.into_iter().map(|item| item.key);
    Ok(objects.filter(|key| matches!(keys::parse_files(key), Some(FilesKey::Claim(_)))).collect())
}
