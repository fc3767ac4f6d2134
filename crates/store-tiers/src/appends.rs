//! Detects appends, so that a drain can give way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A writer that appended within this time computes the checksums of the next block, and will append again.
const LATELY: Duration = Duration::from_millis(5);

/// The number of appends under way, and when the last one ended.
#[derive(Debug)]
pub(crate) struct Appends {
    under_way: AtomicUsize,
    since: Instant,
    /// Microseconds after `since`; 0 if none has ended.
    ended: AtomicU64,
}

impl Default for Appends {
    fn default() -> Self {
        Appends { under_way: AtomicUsize::new(0), since: Instant::now(), ended: AtomicU64::new(0) }
    }
}

/// One append, until it is dropped.
pub(crate) struct Append<'a>(&'a Appends);

impl Appends {
    pub(crate) fn begin(&self) -> Append<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        Append(self)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether an append is under way, or was recently.
    pub(crate) fn is_busy(&self) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        let lately = ended > 0 && self.now().saturating_sub(ended) < LATELY.as_micros() as u64;
        lately || self.under_way.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        self.0.ended.store(self.0.now().max(1), Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_counts_as_busy_until_shortly_after_an_append() {
        let appends = Appends::default();
        assert!(!appends.is_busy());
        let append = appends.begin();
        std::thread::sleep(LATELY * 2);
        assert!(appends.is_busy(), "it is under way");
        drop(append);
        let ended = Instant::now();
        while appends.is_busy() {
            assert!(ended.elapsed() < Duration::from_secs(20));
        }
        assert!(ended.elapsed() >= LATELY / 2);
    }
}
