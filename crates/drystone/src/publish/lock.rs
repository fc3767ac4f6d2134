//! One publisher or collector of garbage at a time: an object `publish/ID.lock` that says which process it is.
//!
//! Whoever wants to publish puts his own and then looks for others. A lock of a process that is known to be dead is removed;
//! of two who come at once at least one sees the other and withdraws. A process on another machine cannot be asked: its lock
//! stands until it, or a person, removes it.

use std::sync::Arc;

use drystone_store::{PutMode, Store, StoreError, StoreExt};
use serde_json::{Value as Json, json};

use crate::container::Inner;
use crate::{Error, Result, random};

const PREFIX: &str = "publish/";

/// Held while publishing; what is not released is removed by the next publisher.
pub(crate) struct Lock {
    store: Arc<dyn Store>,
    key: String,
}

/// Takes the lock, or `Conflict` naming who has it.
pub(crate) fn take(inner: &Inner) -> Result<Lock> {
    let store = inner.store.clone();
    let me = Process::current();
    let key = format!("{PREFIX}{:016x}.lock", random::id64());
    store.put(&key, me.json().to_string().as_bytes(), PutMode::IfAbsent, false)?;
    let lock = Lock { store, key };
    match lock.others(&me) {
        Ok(None) => Ok(lock),
        Ok(Some(who)) => {
            lock.release()?;
            Err(Error::conflict(who))
        }
        Err(error) => {
            // The first failure is the one to tell; the next publisher removes the lock once this process is gone.
            let _ = lock.release();
            Err(error)
        }
    }
}

impl Lock {
    /// Gives it back.
    pub(crate) fn release(self) -> Result<()> {
        match self.store.delete(&self.key) {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    /// Removes locks of dead processes; who else holds one.
    fn others(&self, me: &Process) -> Result<Option<String>> {
        for entry in self.store.list(PREFIX)? {
            if entry.key == self.key || !entry.key.ends_with(".lock") {
                continue;
            }
            let bytes = match self.store.read_all(&entry.key, 4096) {
                Ok(bytes) => bytes,
                Err(StoreError::NotFound { .. }) => continue, // just released
                Err(e) => return Err(e.into()),
            };
            let owner = Process::parse(&bytes);
            if owner.as_ref().is_some_and(|owner| owner.is_dead(me)) {
                match self.store.delete(&entry.key) {
                    Ok(()) | Err(StoreError::NotFound { .. }) => continue,
                    Err(e) => return Err(e.into()),
                }
            }
            let who = owner
                .map_or_else(|| "another process".into(), |o| format!("process {} on {}", o.pid, o.host));
            return Ok(Some(format!(
                "{who} is publishing this container or collecting its garbage; if it is gone, remove {} from {}",
                entry.key,
                self.store.describe()
            )));
        }
        Ok(None)
    }
}

/// A process, so that another on the same machine can tell whether it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    host: String,
    /// Changes when the machine starts.
    boot: String,
    /// Numbers of processes mean something within it only.
    namespace: String,
    pid: u32,
    /// When it started: numbers are used again.
    start: String,
}

impl Process {
    fn current() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let pid = std::process::id();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Process {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
            pid,
            start: started(pid).unwrap_or_default(),
        }
    }

    fn json(&self) -> Json {
        json!({"host": self.host, "boot": self.boot, "namespace": self.namespace, "pid": self.pid, "start": self.start})
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Json = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        Some(Process {
            host: text("host")?,
            boot: text("boot")?,
            namespace: text("namespace")?,
            pid: u32::try_from(json["pid"].as_u64()?).ok()?,
            start: text("start")?,
        })
    }

    /// Surely dead: the machine has started since, or the process is not among those of our machine.
    fn is_dead(&self, me: &Process) -> bool {
        let here = !self.boot.is_empty() && self.boot == me.boot;
        if !here {
            return !self.host.is_empty() && self.host == me.host;
        }
        !self.namespace.is_empty()
            && self.namespace == me.namespace
            && !self.start.is_empty()
            && started(self.pid).is_none_or(|start| start != self.start)
    }
}

/// When a process started, in ticks of its machine; `None` if there is none, or it has ended and only waits to be noticed.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (!matches!(state, "Z" | "X" | "x")).then(|| start.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_only_if_that_is_sure() {
        let me = Process::current();
        assert!(!me.is_dead(&me));
        let other = |change: fn(&mut Process)| {
            let mut process = me.clone();
            change(&mut process);
            assert_eq!(Process::parse(process.json().to_string().as_bytes()), Some(process.clone()));
            process.is_dead(&me)
        };
        assert!(other(|p| p.start = "1".into()), "the number is used again");
        assert!(other(|p| p.pid = u32::MAX), "no such process");
        assert!(other(|p| p.boot = "before".into()), "the machine has started since");
        assert!(!other(|p| (p.boot, p.host) = ("x".into(), "elsewhere".into())), "another machine");
        assert!(!other(|p| (p.namespace, p.pid) = ("pid:[1]".into(), u32::MAX)), "another name space");
        assert!(Process::parse(b"{}").is_none() && Process::parse(b"\xff").is_none());
    }
}
