//! The hint `manifest/hint`, from which an open probes for the newest manifest.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use drystone_format::identity::{self, Durability};
use drystone_format::keys;
use drystone_format::log_packs::MAX_DIRECTORY;
use drystone_format::packs::MAX_FLOOR;
use drystone_store::{Pending, PutMode, Reply, Request, Store, StoreExt};

use crate::base::random;

/// The most commits by which the hint may lag behind the newest manifest: usually, and on a store where a lag costs
/// less.
const LAG: u64 = 8;
const FAR_LAG: u64 = 64;

/// The least time between two hints on a far store, in nanoseconds. Google Cloud Storage accepts about one write per
/// second to one key.
const PAUSE: u64 = 1_000_000_000;

/// The greatest length of an identity.
pub(crate) const IDENTITY_LIMIT: u64 = 64 << 10;

/// Keeps `manifest/hint` near the newest manifest.
///
/// Writing the hint at each commit would cost more than a small commit, because one file is created and another
/// freed. So the hint may lag while the handle is open: by at most [`LAG`] commits, or [`FAR_LAG`] where a probe is a
/// look into a folder and a crash does not require a search for losses. After the handle is closed, the hint does not
/// lag. Probing forward from the hint finds the newest manifest.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    committed: AtomicU64,
    written: AtomicU64,
    /// Whether a hint was submitted whose completion was not awaited.
    unsure: AtomicBool,
    /// The time of the last submission, in nanoseconds since 1970.
    submitted: AtomicU64,
    /// The process that committed. A forked child has nothing to settle for its parent.
    pid: AtomicU32,
}

impl Hint {
    /// Records that a version was committed.
    pub(crate) fn committed(&self, store: &dyn Store, version: u64, durability: Durability) {
        let near = is_near(store, durability);
        let lag = if near { LAG } else { FAR_LAG };
        self.committed.fetch_max(version, Ordering::Relaxed);
        self.pid.store(drystone_store::process_id(), Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        if written == 0 || version >= written.saturating_add(lag) {
            // On a far store the hint is not awaited: a round trip costs more than a lagging hint.
            match store.features().far {
                Some(_) if near => {
                    let now = random::now();
                    if now.saturating_sub(self.submitted.load(Ordering::Relaxed)) >= PAUSE {
                        self.submitted.store(now, Ordering::Relaxed);
                        drop(self.submit(store, version));
                    }
                }
                _ => self.write(store, version, near),
            }
        }
    }

    fn submit(&self, store: &dyn Store, version: u64) -> Pending {
        let data = identity::encode_hint(version);
        let (key, mode) = (keys::HINT.into(), PutMode::Replace);
        self.unsure.store(true, Ordering::Relaxed);
        self.written.fetch_max(version, Ordering::Relaxed);
        store.submit(Request::Put { key, data, mode, sync: false })
    }

    /// Submits the hint that [`settle`](Self::settle) would write to a far store; the caller waits for it. `None` if
    /// there is nothing to write.
    pub(crate) fn last(&self, store: &dyn Store) -> Option<Pending> {
        let owed = store.features().far.is_some() && self.is_owed();
        owed.then(|| {
            let put = self.submit(store, self.committed.load(Ordering::Relaxed));
            self.unsure.store(false, Ordering::Relaxed);
            put
        })
    }

    /// Whether this process has committed through the handle.
    pub(crate) fn is_ours(&self) -> bool {
        self.committed.load(Ordering::Relaxed) > 0
            && self.pid.load(Ordering::Relaxed) == drystone_store::process_id()
    }

    /// Whether [`settle`](Self::settle) would write.
    pub(crate) fn is_owed(&self) -> bool {
        let behind = self.committed.load(Ordering::Relaxed) > self.written.load(Ordering::Relaxed);
        (behind || self.unsure.load(Ordering::Relaxed))
            && self.pid.load(Ordering::Relaxed) == drystone_store::process_id()
    }

    /// Writes the hint if it lags, since the handle makes no further commits.
    pub(crate) fn settle(&self, store: &dyn Store, durability: Durability) {
        if self.is_owed() {
            self.unsure.store(false, Ordering::Relaxed);
            self.write(store, self.committed.load(Ordering::Relaxed), is_near(store, durability));
        }
    }

    /// Writes the hint again after a recovery has dealt with a hint above all manifests.
    pub(crate) fn renew(&self, store: &dyn Store, version: u64, durability: Durability) {
        self.write(store, version, is_near(store, durability));
    }

    /// Writes the hint. A failure costs only time at the next open, and so does a moment without a hint. The old file
    /// is removed first: when ext4 replaces a file by a rename, it starts to write the new file to the device. That
    /// takes several times as long as removing one file and creating another.
    fn write(&self, store: &dyn Store, version: u64, near: bool) {
        let mode = if near { PutMode::Replace } else { PutMode::IfAbsent };
        if !near {
            let _ = store.delete(keys::HINT);
        }
        let _ = store.put(keys::HINT, &[&identity::encode_hint(version)], mode, false);
        self.written.fetch_max(version, Ordering::Relaxed);
    }
}

/// Whether the hint must be close to the newest manifest. Under `durable`, a hint above all manifests proves that one
/// was lost. On a store without append, each probe is a request.
fn is_near(store: &dyn Store, durability: Durability) -> bool {
    durability == Durability::Durable || !store.features().append
}

/// Hints to the store that [`find`](super::head::find) comes next, so that the hint may be fetched while the identity
/// is read.
pub(crate) fn expect(store: &dyn Store) {
    drop(store.submit(Request::Expect { key: keys::HINT.into(), ranges: vec![(0, 1)] }));
}

/// What opening a container of a far store reads first, in one round trip.
pub(crate) struct Begun {
    pub(crate) identity: drystone_store::Result<Vec<u8>>,
    pub(crate) hint: Option<u64>,
    /// The floor of packed manifests, and the directory of packed logs.
    pub(crate) packs: Packs,
}

/// The replies about packs, if they were asked for. Containers without packs have none of them.
#[derive(Debug, Default)]
pub(crate) struct Packs {
    pub(crate) floor: Option<drystone_store::Result<Reply>>,
    pub(crate) logs: Option<drystone_store::Result<Reply>>,
}

/// Fetches the identity and the hint of a far store together, and, from a server, what names packs. `None` if the store
/// is not far; then they are read one after the other.
pub(crate) fn begin(store: &dyn Store) -> Option<Begun> {
    let features = store.features();
    features.far?;
    let whole = |key: &str, limit| Request::ReadWhole { key: key.into(), limit };
    let mut asked = vec![whole(keys::IDENTITY, IDENTITY_LIMIT), whole(keys::HINT, 64)];
    // A store that runs methods is a server or Ceph. Object stores charge each request, and their containers seldom
    // have packs.
    if features.exec {
        asked.extend([whole(keys::FLOOR, MAX_FLOOR), whole(keys::LOG_PACKS, MAX_DIRECTORY)]);
    }
    let mut replies = store.together(asked).into_iter();
    let (identity, hint) = (replies.next()?, replies.next()?);
    let hint = match hint {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => identity::decode_hint(&bytes),
        _ => None,
    };
    let packs = Packs { floor: replies.next(), logs: replies.next() };
    match identity {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => Some(Begun { identity: Ok(bytes), hint, packs }),
        // It is longer than any identity, which reading it reports.
        Ok(_) => None,
        Err(e) => Some(Begun { identity: Err(e), hint, packs }),
    }
}
