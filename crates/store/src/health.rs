//! Whether a store beside the home store is used. After a failure it is not used for a while, each time longer, and
//! then tried again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pauses after failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

#[derive(Debug, Default)]
struct Failures {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

/// The health of a tier or a cache folder.
#[derive(Debug, Default)]
pub struct Health(Mutex<Failures>);

impl Health {
    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that it worked.
    pub fn worked(&self) {
        let mut state = self.lock();
        state.failures = 0;
        state.until = None;
    }

    /// Reports that it failed, for this reason.
    pub fn failed(&self, why: String) {
        let mut state = self.lock();
        let pause = PAUSES.0.saturating_mul(1 << state.failures.min(6)).min(PAUSES.1);
        state.failures = state.failures.saturating_add(1);
        state.until = Some(Instant::now() + pause);
        state.why = why;
    }

    /// Why it is not used now; `None` if it is used.
    pub fn aside(&self) -> Option<String> {
        let state = self.lock();
        state.until.is_some_and(|until| until > Instant::now()).then(|| state.why.clone())
    }
}
