//! The parts that lie in tiers of any node, according to the registrations in the home store (docs/format/staged.md).
//!
//! A part is registered before a manifest names it, and stays registered until the home store has it. A reader
//! therefore reads the manifest first and the registrations second. It then knows for each part that is missing at home
//! whether the part still waits for its drain or is lost.
//!
//! On a far home a registration is never overwritten: the next one has a greater number, and the newest one holds. A
//! request that the store executes late therefore changes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use drystone_format::keys;
use drystone_format::staged::{MAX_REGISTRATION, Registration, StagedPart};
use drystone_store::{Reply, Request, Result, Store, StoreError, StoreExt};

/// The node on which this process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// The failure group: nodes of one group fail together.
    pub group: String,
    /// The current boot of the node; empty if unknown.
    pub boot: String,
}

/// A registered part.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) node: String,
    /// The boot of the node when the part was registered.
    pub(crate) boot: String,
    /// The failure group of its node.
    pub(crate) group: String,
    pub(crate) folders: Vec<String>,
    pub(crate) part: StagedPart,
}

impl Registered {
    fn of(said: &Registration, part: StagedPart) -> Self {
        let (node, boot) = (said.node.clone(), said.boot.clone());
        Registered { node, boot, group: said.group.clone(), folders: said.folders.clone(), part }
    }
}

/// The content of a registration's key.
enum Said {
    /// Nothing.
    Absent,
    /// A registration of another container.
    Foreign,
    Registered(Registration),
}

/// The newest registration of a writer.
#[derive(Debug)]
pub(crate) struct Newest {
    pub(crate) said: Option<Registration>,
    /// The numbers of all registrations of the writer, ascending.
    pub(crate) numbers: Vec<u32>,
}

/// Reads the object of a registration.
fn whole(home: &dyn Store, key: &str) -> Result<Reply> {
    let bytes = home.read_whole(key, MAX_REGISTRATION)?;
    Ok(Reply::Whole { bytes })
}

/// The registrations, as last read.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Registered parts, by key.
    pub(crate) parts: BTreeMap<String, Registered>,
    /// Damaged registrations by key, each with the reason.
    pub(crate) broken: BTreeMap<String, String>,
}

/// The registrations of a container.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) uuid: [u8; 16],
    pub(crate) node: Node,
    found: Mutex<Found>,
    /// Whether the registrations must be read again, since a manifest was read after them.
    stale: AtomicBool,
    /// One thread reads the registrations, and the others wait for its result.
    reading: Mutex<()>,
    /// Parts that a recovery has declared lost.
    lost: Mutex<BTreeMap<String, Registered>>,
}

/// How often registrations are listed again because some were replaced between the listing and the reading.
const RELISTS: usize = 32;

pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub(crate) fn new(uuid: [u8; 16], node: Node) -> Self {
        let (found, lost) = (Mutex::default(), Mutex::default());
        Registry { uuid, node, found, stale: AtomicBool::new(true), reading: Mutex::new(()), lost }
    }

    /// Marks the registrations as outdated. It is called before a manifest is read, which may name parts that are not
    /// known yet.
    pub(crate) fn is_outdated(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// The registrations. They are read again if they are outdated.
    pub(crate) fn look(&self, home: &dyn Store) -> Result<MutexGuard<'_, Found>> {
        let _reading = guard(&self.reading);
        if self.stale.swap(false, Ordering::SeqCst) {
            self.reread(home).inspect_err(|_| self.is_outdated())?;
        }
        Ok(guard(&self.found))
    }

    /// Reads the registrations: of each writer on each node the newest one.
    fn reread(&self, home: &dyn Store) -> Result<()> {
        for _ in 0..RELISTS {
            let Some(now) = self.listed(home)? else { continue };
            *guard(&self.found) = now;
            return Ok(());
        }
        Err(StoreError::Io {
            key: keys::STAGED.to_owned(),
            store: home.describe(),
            operation: "read all registrations below",
            source: std::io::Error::new(
                std::io::ErrorKind::WouldBlock,
                format!("each of {RELISTS} times some were replaced meanwhile; try again"),
            ),
        })
    }

    /// Lists and reads the registrations; `None` if one was replaced meanwhile.
    fn listed(&self, home: &dyn Store) -> Result<Option<Found>> {
        let listed = match home.list(keys::STAGED) {
            // A web server cannot list, so every part that is not at home counts as missing.
            Err(StoreError::Unsupported { .. }) => Vec::new(),
            listed => listed?,
        };
        let mut of: BTreeMap<(&str, u64), BTreeMap<u32, &str>> = BTreeMap::new();
        for item in &listed {
            if let Some((node, writer, number)) = keys::parse_staged(&item.key) {
                of.entry((node, writer)).or_default().insert(number, &item.key);
            }
        }
        let newest: Vec<&str> = of.values().filter_map(|of| of.values().next_back().copied()).collect();
        let limit = MAX_REGISTRATION;
        let reads = newest.iter().map(|key| Request::ReadWhole { key: (*key).to_owned(), limit }).collect();
        let mut now = Found::default();
        for ((&(_, writer), of), reply) in of.iter().zip(home.together(reads)) {
            let mut replies = vec![reply];
            for key in of.values().rev() {
                let reply = replies.pop().unwrap_or_else(|| whole(home, key));
                match self.decoded(home, key, writer, reply) {
                    // A newer one is there by now, or the writer needs none any more.
                    Ok(Said::Absent) => return Ok(None),
                    Ok(Said::Foreign) => {}
                    Ok(Said::Registered(said)) => self.take(&mut now, said),
                    // A power cut may have left less than the newest one.
                    Err(StoreError::Io { source, .. })
                        if source.kind() == std::io::ErrorKind::InvalidData =>
                    {
                        now.broken.insert((*key).to_owned(), source.to_string());
                        continue;
                    }
                    Err(other) => return Err(other),
                }
                break;
            }
        }
        Ok(Some(now))
    }

    /// Adds the parts of a registration that were not given up.
    fn take(&self, now: &mut Found, said: Registration) {
        let lost = guard(&self.lost);
        for part in &said.parts {
            let key = keys::segment(said.writer, part.part);
            if !lost.contains_key(&key) {
                now.parts.insert(key, Registered::of(&said, *part));
            }
        }
    }

    /// The newest registration of a writer on a node, and the numbers of all there are. The caller holds the writer's
    /// lock. Returns an error of kind `InvalidData` if it is damaged, and `NotFound` if it is removed meanwhile.
    pub(crate) fn newest(&self, home: &dyn Store, node: &str, writer: u64) -> Result<Newest> {
        let listed = home.list(&keys::staged_of(node, writer))?;
        let numbers = listed.iter().filter_map(|item| Some(keys::parse_staged(&item.key)?.2));
        let mut found = Newest { said: None, numbers: numbers.collect() };
        found.numbers.sort_unstable();
        if let Some(number) = found.numbers.last() {
            let key = keys::staged(node, writer, *number);
            match self.decoded(home, &key, writer, whole(home, &key))? {
                Said::Registered(said) => found.said = Some(said),
                Said::Foreign => {}
                // Without it, parts would be taken for remnants.
                Said::Absent => return Err(StoreError::NotFound { key, store: home.describe() }),
            }
        }
        Ok(found)
    }

    /// Decodes the reply to the read of a registration. Returns an error of kind `InvalidData` if it is damaged.
    fn decoded(&self, home: &dyn Store, key: &str, writer: u64, reply: Result<Reply>) -> Result<Said> {
        let damaged = |what: String| StoreError::Io {
            key: key.to_owned(),
            store: home.describe(),
            operation: "read",
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, what),
        };
        let bytes = match reply {
            Err(StoreError::NotFound { .. }) => return Ok(Said::Absent),
            Err(other) => return Err(other),
            Ok(Reply::Whole { bytes: Ok(bytes) }) => bytes,
            Ok(_) => return Err(damaged("it is too long; it is damaged or not ours".into())),
        };
        let said = Registration::decode(&bytes).map_err(|found| damaged(found.to_string()))?;
        if said.writer != writer {
            return Err(damaged("it is of another writer".into()));
        }
        Ok(if said.uuid == self.uuid { Said::Registered(said) } else { Said::Foreign })
    }

    /// Treats these parts as missing from now on.
    pub(crate) fn mark_missing(&self, parts: BTreeMap<String, Registered>) {
        self.is_outdated();
        guard(&self.lost).extend(parts);
    }

    /// The parts that were given up.
    pub(crate) fn given_up(&self) -> BTreeMap<String, Registered> {
        guard(&self.lost).clone()
    }
}
