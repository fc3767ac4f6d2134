//! How many processors the machine has, how many this process may use, and how many are idle now.
//!
//! A thread that competes for a busy processor finishes late, and its caller waits for it. Work that takes one thread
//! less than a scheduler's time slice is therefore shared only with idle processors.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that the configuration permits; 0 where it does not say.
static CONFIGURED: AtomicUsize = AtomicUsize::new(0);

/// Threads a read or an encoding may use: `DRYSTONE_THREADS`, else as configured, else the processors, at most 8.
pub(crate) fn threads() -> usize {
    static GIVEN: OnceLock<Option<usize>> = OnceLock::new();
    let parsed = || std::env::var("DRYSTONE_THREADS").ok().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
    let configured = Some(CONFIGURED.load(Ordering::Relaxed)).filter(|n| *n > 0);
    GIVEN.get_or_init(parsed).or(configured).unwrap_or_else(|| available().min(8))
}

/// Sets the number of threads of this process, as the configuration says.
pub(crate) fn set_threads(threads: usize) {
    CONFIGURED.store(threads, Ordering::Relaxed);
}

/// Processors that this process may use. Looked up once: the kernel's answer means reading files of control groups.
pub(crate) fn available() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Processors that run nothing now, as the kernel counts them; 0 where it does not say (Linux does).
pub(crate) fn idle() -> usize {
    told().and_then(|load| running(&load)).map_or(0, |running| available().saturating_sub(running.max(1)))
}

/// Programs that wanted a processor in the last minute, per processor; `None` where the kernel does not say.
pub(crate) fn load() -> Option<f64> {
    let all: f64 = told()?.split_whitespace().next()?.parse().ok()?;
    Some(all / available() as f64)
}

/// The kernel's load averages (proc_loadavg(5)).
fn told() -> Option<String> {
    std::fs::read_to_string("/proc/loadavg").ok()
}

/// Runnable threads of all programs: the first number of the fourth field.
fn running(load: &str) -> Option<usize> {
    load.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_run_are_read_from_the_load() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        for other in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 x/80 1", "0.20 0.18 0.12 -1/80 1", "a b c /80"] {
            assert_eq!(running(other), None, "{other:?}");
        }
    }

    #[test]
    fn who_asks_runs_itself() {
        assert!(idle() < available());
    }
}
