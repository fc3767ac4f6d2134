//! Calibration: measures the cost of the store once per device, so that layouts and predictions fit it.
//!
//! ```text
//! measure: a probe is written, synced, evicted, read     kept: one file per device in the user's cache folder
//! ```
//!
//! Invariants
//! - nothing is measured without a request, and only within the given time and bytes; the probe is always removed;
//! - a stored profile is a hint: with a missing, old or damaged file the device counts as unmeasured;
//! - a failure to store a profile fails nothing else.

mod kept;
mod measure;

use std::path::PathBuf;
use std::sync::Mutex;

use drystone_plan::layout::{AHEAD, Device, Profile};
use drystone_plan::window::{Window, by_threads};
use drystone_store::Store;

use crate::base::cpus::threads;
use crate::base::sync::lock;
use crate::container::Container;
use crate::{Error, Result};

pub use measure::Limits;

/// A calibration: the measured profile, and where it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The measured cost of the store.
    pub profile: Profile,
    /// The device of the store, if the store names it.
    pub device: Option<String>,
    /// The file in which the profile is stored.
    pub kept: Option<PathBuf>,
    /// The reason why the profile is not stored.
    pub not_kept: Option<String>,
}

/// Measures the cost of a store and stores the result for its device: for 30 days, or for one day if it is noisy and
/// no better one exists.
///
/// `limits` bounds time and bytes. Objects named `drystone-probe-…` are created and removed. Errors are those of a
/// store that cannot be written to. A result that cannot be stored is not an error.
pub fn calibrate(store: &dyn Store, limits: &Limits) -> Result<Calibration> {
    let failed = |e: Error| e.while_doing(format!("calibrating {}", store.describe()));
    let profile = measure::measure(store, limits).map_err(failed)?;
    let device = store.device();
    let done = match &device {
        Some(device) => kept::keep(device, &profile),
        None => Err("the store has no device to keep it for".into()),
    };
    let (kept, not_kept) = match done {
        Ok(path) => (Some(path), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Calibration { profile, device, kept, not_kept })
}

/// The profile of a store's device; `None` if it was not measured in the last 30 days.
pub fn profile_of(store: &dyn Store) -> Option<Profile> {
    store.device().and_then(|device| kept::find(&device, crate::base::random::now()))
}

/// The profile of a container's device, looked up once.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Option<Option<Profile>>>);

impl Container {
    /// Measures the cost of this container's store; see [`calibrate`]. From now on this handle uses the result, and
    /// other handles find it. A noisy result does not replace a better one.
    pub fn calibrate(&self, limits: &Limits) -> Result<Calibration> {
        self.inner.require_writable()?;
        let done = calibrate(self.inner.store.as_ref(), limits)?;
        // A noisy profile does not replace a better one.
        let better = || profile_of(self.inner.store.as_ref()).filter(|kept| !kept.doubt.is_noisy());
        let known = if done.profile.doubt.is_noisy() { better() } else { None };
        *lock(&self.inner.known.0) = Some(Some(known.unwrap_or_else(|| done.profile.clone())));
        Ok(done)
    }

    /// The profile of this container's store; `None` if it was not measured in the last 30 days.
    pub fn profile(&self) -> Option<Profile> {
        self.inner.profile()
    }

    /// The cost model for reads that are hinted to the store: as measured, else [`Device::ASSUMED`], or
    /// [`Device::far`] if the store is far.
    pub fn device(&self) -> Device {
        self.inner.device()
    }
}

impl crate::container::Inner {
    pub(crate) fn profile(&self) -> Option<Profile> {
        lock(&self.known.0).get_or_insert_with(|| profile_of(self.store.as_ref())).clone()
    }

    pub(crate) fn device(&self) -> Device {
        let profile = self.profile();
        match self.store.features().far {
            None => profile.map_or(Device::ASSUMED, |profile| profile.device(threads().max(AHEAD))),
            Some(far) => {
                let requests = Window::choose(far.requests, profile.as_ref()).requests;
                let unmeasured = Device::far(far.latency.as_secs_f64(), requests);
                profile.map_or(unmeasured, |profile| profile.device(requests as usize))
            }
        }
    }

    /// Seconds to the first byte from a far store: as observed in its replies, else as the store assumes. 0 if the
    /// store is not far.
    pub(crate) fn far_latency(&self) -> f64 {
        self.store.features().far.map_or(0.0, |far| far.seen.unwrap_or(far.latency).as_secs_f64())
    }

    /// Whether each thread should perform this many requests, for this many bytes in all, by itself.
    pub(crate) fn by_threads(&self, requests: usize, bytes: u64) -> bool {
        let seen = self.store.features().far.and_then(|far| far.seen);
        by_threads(seen.map(|seen| seen.as_secs_f64()), requests, bytes)
    }

    /// The requests and bytes that a read may have in flight. `None` if each thread makes one request at a time.
    pub(crate) fn window(&self) -> Option<Window> {
        let window =
            self.store.features().far.map(|far| Window::choose(far.requests, self.profile().as_ref()));
        // Prefetched bytes are also in flight, within the same 32 MiB.
        let ahead = self.cache.as_ref().map_or(0, |_| drystone_store_cache::MOST_HELD);
        window.map(|window| window.beside(1, ahead, 0))
    }
}
