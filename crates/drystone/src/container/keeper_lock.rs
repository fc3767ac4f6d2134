//! One publisher, garbage collector or packer at a time: the object `publish/ID.lock` names its process.
//!
//! A process that wants to do one of these puts its own lock and then looks for others. A lock of a process that is
//! known to be dead is removed. If two processes put locks at the same time, at least one sees the other's lock and
//! withdraws. A process on another machine cannot be checked: its lock stays until that process, or the user, removes
//! it. An object store may execute a put late, after the lock was released: a process removes locks of its own that it
//! does not hold.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drystone_store::{PutMode, Store, StoreError, StoreExt};

use super::Inner;
use crate::base::random;
use crate::base::sync::lock;
use crate::base::writer_process::Process;
use crate::{Error, ErrorKind, Result};

const PREFIX: &str = "publish/";
/// How long to wait for the lock. Packing takes milliseconds, and up to seconds where syncs are slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// The locks that this process holds.
static HELD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Held meanwhile. The next process that takes a lock removes one that was not released, once its process has ended.
pub(crate) struct Lock {
    store: Arc<dyn Store>,
    key: String,
}

/// Takes the lock; `Conflict` names the process that holds it.
pub(crate) fn take(inner: &Inner) -> Result<Lock> {
    let store = inner.store.clone();
    let me = Process::current();
    let taken = Lock { store, key: format!("{PREFIX}{:016x}.lock", random::id64()) };
    lock(&HELD).insert(taken.key.clone());
    let others = match taken.store.put(&taken.key, &[me.text().as_bytes()], PutMode::IfAbsent, false) {
        Ok(()) => others(taken.store.as_ref(), &taken.key, &me),
        // It may have been put nevertheless.
        Err(error) => Err(error.into()),
    };
    match others {
        Ok(None) => Ok(taken),
        Ok(Some(who)) => {
            taken.release()?;
            Err(Error::conflict(who))
        }
        Err(error) => {
            // The first error is reported. If the lock stays, the next process removes it once this process has
            // ended.
            let _ = taken.release();
            Err(error)
        }
    }
}

/// Takes the lock, and waits up to [`PATIENCE`] for it: commits and closing handles hold it briefly, to pack
/// manifests and logs. Errors: `Conflict` names a process that holds it longer.
pub(crate) fn take_in_time(inner: &Inner) -> Result<Lock> {
    let until = Instant::now() + PATIENCE;
    let me = Process::current();
    let latency = inner.store.features().far.map_or(Duration::ZERO, |far| far.latency);
    loop {
        match take(inner) {
            Err(e) if e.kind() == ErrorKind::Conflict && Instant::now() < until => loop {
                // If two processes came at the same time, both may have withdrawn; so the pauses differ.
                std::thread::sleep(latency + Duration::from_millis(1 + random::id64() % 20));
                if Instant::now() >= until || others(inner.store.as_ref(), "", &me)?.is_none() {
                    break;
                }
            },
            taken => return taken,
        }
    }
}

impl Lock {
    /// Releases the lock.
    pub(crate) fn release(self) -> Result<()> {
        let deleted = self.store.delete(&self.key);
        lock(&HELD).remove(&self.key);
        Ok(deleted?)
    }
}

/// Removes the locks of dead processes, and of this one that it does not hold. Returns the other holder of a lock than
/// that of the lock `own`, if there is one.
fn others(store: &dyn Store, own: &str, me: &Process) -> Result<Option<String>> {
    for entry in store.list(PREFIX)? {
        if entry.key == own || !entry.key.ends_with(".lock") {
            continue;
        }
        let bytes = match store.read_all(&entry.key, 4096) {
            Ok(bytes) => bytes,
            Err(StoreError::NotFound { .. }) => continue, // just released
            Err(e) => return Err(e.into()),
        };
        let owner = Process::parse(&bytes);
        let is_late = bytes == me.text().as_bytes() && !lock(&HELD).contains(&entry.key);
        if is_late || owner.as_ref().is_some_and(|owner| owner.is_dead(me)) {
            store.delete(&entry.key)?;
            continue;
        }
        let who =
            owner.map_or_else(|| "another process".into(), |o| format!("process {} on {}", o.pid, o.host));
        return Ok(Some(format!(
            "{who} is publishing this container, packing it or collecting its garbage; if that process no longer runs, remove {} from {}",
            entry.key,
            store.describe()
        )));
    }
    Ok(None)
}
