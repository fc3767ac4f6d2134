//! The number of processors of the machine, of those that this process may use, and of those that are idle now.
//!
//! A thread that competes for a busy processor finishes late, and its caller waits for it. So work that takes one
//! thread less than a scheduler's time slice is shared only with idle processors.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The configured number of threads; 0 if the configuration states none.
static CONFIGURED: AtomicUsize = AtomicUsize::new(0);

/// The number of threads that a read or an encoding may use: `DRYSTONE_THREADS`, else as configured, else the number
/// of processors, at most 8.
pub(crate) fn threads() -> usize {
    static GIVEN: OnceLock<Option<usize>> = OnceLock::new();
    let parsed = || std::env::var("DRYSTONE_THREADS").ok().and_then(|v| v.parse().ok()).filter(|n| *n > 0);
    let configured = Some(CONFIGURED.load(Ordering::Relaxed)).filter(|n| *n > 0);
    GIVEN.get_or_init(parsed).or(configured).unwrap_or_else(|| available().min(8))
}

/// Sets the configured number of threads of this process.
pub(crate) fn set_threads(threads: usize) {
    CONFIGURED.store(threads, Ordering::Relaxed);
}

/// The number of processors that this process may use. Determined once, since the kernel's answer requires reading
/// files of control groups.
pub(crate) fn available() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// The number of processors that run nothing now, as Linux counts them; 0 if the kernel does not report it.
pub(crate) fn idle() -> usize {
    told().and_then(|load| running(&load)).map_or(0, |running| available().saturating_sub(running.max(1)))
}

/// The number of programs per processor that wanted one in the last minute. `None` if the kernel does not report it.
pub(crate) fn load() -> Option<f64> {
    let all: f64 = told()?.split_whitespace().next()?.parse().ok()?;
    Some(all / available() as f64)
}

/// The kernel's load averages (proc_loadavg(5)).
fn told() -> Option<String> {
    std::fs::read_to_string("/proc/loadavg").ok()
}

/// The runnable threads of all programs: the first number of the fourth field.
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
    fn the_asking_thread_is_not_idle() {
        assert!(idle() < available());
    }
}
