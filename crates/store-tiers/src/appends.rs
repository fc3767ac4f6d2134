//! Tracks appends, so that a drain can yield to them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For this time after an append, another append is expected: the writer computes the checksums of the next block.
const LATELY: Duration = Duration::from_millis(5);
/// Appends that follow each other within this time are one burst, such as a checkpoint.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time for which a drain waits until a burst ends. If a program never pauses, its parts are then drained
/// between its appends.
const BURST: Duration = Duration::from_secs(1);

/// The number of appends under way, the time at which the last one ended, and the time at which the burst began.
#[derive(Debug)]
pub(crate) struct Appends {
    under_way: AtomicUsize,
    since: Instant,
    /// Microseconds after `since`; 0 if none has ended.
    ended: AtomicU64,
    /// Microseconds after `since`.
    began: AtomicU64,
}

impl Default for Appends {
    fn default() -> Self {
        let (ended, began) = (AtomicU64::new(0), AtomicU64::new(0));
        Appends { under_way: AtomicUsize::new(0), since: Instant::now(), ended, began }
    }
}

/// Whether a drain yields. The arguments are the microseconds since the last append and since the burst began.
fn drain_yields(since_append: u64, since_begin: u64) -> bool {
    let within = |passed: u64, limit: Duration| u128::from(passed) < limit.as_micros();
    within(since_append, LATELY) || (within(since_append, PAUSE) && within(since_begin, BURST))
}

/// An append under way. It ends when this value is dropped.
pub(crate) struct Append<'a>(&'a Appends);

impl Appends {
    pub(crate) fn begin(&self) -> Append<'_> {
        let (now, ended) = (self.now(), self.ended.load(Ordering::Relaxed));
        let others = self.under_way.fetch_add(1, Ordering::Relaxed);
        let paused = ended == 0 || u128::from(now.saturating_sub(ended)) >= PAUSE.as_micros();
        if others == 0 && paused {
            self.began.store(now, Ordering::Relaxed);
        }
        Append(self)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether an append is under way, or another one is expected soon.
    pub(crate) fn is_busy(&self) -> bool {
        let (now, ended) = (self.now(), self.ended.load(Ordering::Relaxed));
        let since = |at: u64| now.saturating_sub(at);
        let goes_on = ended > 0 && drain_yields(since(ended), since(self.began.load(Ordering::Relaxed)));
        goes_on || self.under_way.load(Ordering::Relaxed) > 0
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

    #[test]
    fn a_burst_has_the_node_for_itself_and_an_endless_one_is_drained() {
        let ms = |n: u64| n * 1000;
        assert!(drain_yields(ms(1), ms(500)) && drain_yields(ms(60), ms(500)), "the burst goes on");
        assert!(!drain_yields(ms(150), ms(500)), "it has paused");
        assert!(!drain_yields(ms(6), ms(5000)), "it does not pause: between its appends the drain works");
        assert!(drain_yields(ms(4), ms(5000)), "the next append comes soon");
    }
}
