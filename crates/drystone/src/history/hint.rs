//! The hint `manifest/hint`, from which an open probes for the newest manifest.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use drystone_format::identity::{self, Durability};
use drystone_format::keys;
use drystone_store::{Pending, PutMode, Reply, Request, Store, StoreExt};

use crate::base::random;

/// Commits by which the hint may lag behind the newest manifest: usually, and in a store where that costs less.
const LAG: u64 = 8;
const FAR_LAG: u64 = 64;

/// The least time between two hints on a far store, in nanoseconds: Google Cloud Storage takes about one write per
/// second to one key.
const PAUSE: u64 = 1_000_000_000;

/// No identity is longer.
pub(crate) const IDENTITY_LIMIT: u64 = 64 << 10;

/// Keeps `manifest/hint` near the newest manifest.
///
/// Writing the hint at each commit would cost more than a small commit: one file created, another one freed. So the
/// hint may lag: by at most [`LAG`] commits while the handle is open ([`FAR_LAG`] where a probe is a look into a folder
/// and a crash does not require a search for losses), and not at all after it is closed. Probing forward from the hint
/// finds the rest.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    committed: AtomicU64,
    written: AtomicU64,
    /// The last hint was submitted, and its completion was not awaited.
    unsure: AtomicBool,
    /// When it was submitted last, in nanoseconds since 1970.
    submitted: AtomicU64,
    /// The process that committed: a forked child has nothing to settle for its parent.
    pid: AtomicU32,
}

impl Hint {
    /// A version was committed.
    pub(crate) fn committed(&self, store: &dyn Store, version: u64, durability: Durability) {
        let near = is_near(store, durability);
        let lag = if near { LAG } else { FAR_LAG };
        self.committed.fetch_max(version, Ordering::Relaxed);
        self.pid.store(drystone_store::process_id(), Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        if written == 0 || version >= written.saturating_add(lag) {
            // On a far store the hint is not awaited: a round trip takes longer than what a lagging hint costs.
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

    /// The request for what [`settle`](Self::settle) would write to a far store; the caller waits for it. `None`: there
    /// is nothing to write.
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

    /// Writes the hint if it lags: the handle makes no further commits.
    pub(crate) fn settle(&self, store: &dyn Store, durability: Durability) {
        if self.is_owed() {
            self.unsure.store(false, Ordering::Relaxed);
            self.write(store, self.committed.load(Ordering::Relaxed), is_near(store, durability));
        }
    }

    /// Writes the hint anew after a recovery has dealt with a hint above all manifests.
    pub(crate) fn renew(&self, store: &dyn Store, version: u64, durability: Durability) {
        self.write(store, version, is_near(store, durability));
    }

    /// A failure costs only time at the next open, and so does a moment without a hint. The old file is removed first:
    /// ext4 starts to write a file to the device when it replaces another by a rename, which takes several times as
    /// long as to remove one and create the other.
    fn write(&self, store: &dyn Store, version: u64, near: bool) {
        let mode = if near { PutMode::Replace } else { PutMode::IfAbsent };
        if !near {
            let _ = store.delete(keys::HINT);
        }
        let _ = store.put(keys::HINT, &[&identity::encode_hint(version)], mode, false);
        self.written.fetch_max(version, Ordering::Relaxed);
    }
}

/// Whether the hint must be close to the newest manifest. Under `durable` a hint above all manifests proves that one
/// was lost; in a store without append each probe is a request.
fn is_near(store: &dyn Store, durability: Durability) -> bool {
    durability == Durability::Durable || !store.features().append
}

/// Announces to the store that [`find`](super::head::find) comes next: the hint may be fetched while the identity is read.
pub(crate) fn expect(store: &dyn Store) {
    drop(store.submit(Request::Expect { key: keys::HINT.into(), ranges: vec![(0, 1)] }));
}

/// The identity and the hint of a far store, fetched together. `None`: the store is not far, and they are read one
/// after the other.
pub(crate) fn begin(store: &dyn Store) -> Option<(drystone_store::Result<Vec<u8>>, Option<u64>)> {
    store.features().far?;
    let whole = |key: &str, limit| Request::ReadWhole { key: key.into(), limit };
    let asked = vec![whole(keys::IDENTITY, IDENTITY_LIMIT), whole(keys::HINT, 64)];
    let [identity, hint] = <[_; 2]>::try_from(store.together(asked)).ok()?;
    let hint = match hint {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => identity::decode_hint(&bytes),
        _ => None,
    };
    match identity {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => Some((Ok(bytes), hint)),
        // It is longer than any identity; reading it reports that.
        Ok(_) => None,
        Err(e) => Some((Err(e), hint)),
    }
}
