//! How many processors nobody uses at this moment.
//!
//! A thread that is started where others want every processor comes late, and who started it waits: work that takes one thread less
//! than a turn of the scheduler is shared only with processors that are idle.

use std::sync::OnceLock;

/// Processors that this process may use. Looked up once: the system answers by reading files of control groups.
pub(crate) fn available() -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Processors on which nothing runs, as the system counts it now; 0 where it does not tell (it does on Linux).
pub(crate) fn idle() -> usize {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    load.and_then(|load| running(&load)).map_or(0, |running| available().saturating_sub(running.max(1)))
}

/// Threads that run or could, of all programs: the first number of the fourth field (proc_loadavg(5)).
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
