//! Triggers the kernel's sequential read-ahead.
//!
//! Linux limits read-ahead per device, to 128 KiB by default. It starts small and doubles, with larger pages each time.
//! Ranges that got a hint before, or are read by one long request, arrive in pages of 4 KiB, which takes more requests
//! to the device and makes every copy slower.

use std::ops::Range;

use super::forget::is_in_memory;
use super::handles::Handle;
use super::page::PAGE;

/// Read-ahead starts with one page or four, and its next part may begin at any page of the first request;
/// later parts begin at larger pages.
const BEGIN: u64 = 256 << 10;
const LARGER_PAGE: u64 = 16 << 10;

/// Distance between probed offsets.
const APART: u64 = 1 << 20;

/// Reads a range ahead in order, from the first probed offset that is not in memory.
pub(super) fn prefetch(handle: &Handle, range: Range<u64>) {
    let mut at = range.start;
    while at < range.end && is_in_memory(&handle.file, at) == Some(true) {
        at = at.saturating_add(APART);
    }
    if at < range.end {
        touch(handle, at..range.end);
    }
}

/// Reads single bytes along a range in order, without waiting for any. The kernel then reads ahead, with larger pages
/// each time, and the device gets all requests at once. (Systems before Linux 5.9 do nothing, and the later read
/// waits.)
pub(super) fn touch(handle: &Handle, range: Range<u64>) {
    handle.is_asked_in_order(range.end);
    let mut at = range.start;
    while at < range.end {
        is_in_memory(&handle.file, at);
        let page = if at - range.start < BEGIN { PAGE } else { LARGER_PAGE };
        at = (at / page + 1).saturating_mul(page);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::forget::forget;
    use super::super::handles::{Handles, PathAt};
    use super::*;

    const LEN: u64 = 3 << 20;

    /// A file that is not in memory; `None` where the kernel keeps it in memory.
    fn forgotten(path: &Path) -> Option<Arc<Handle>> {
        std::fs::write(path, vec![1; LEN as usize]).unwrap();
        let (handle, _) = Handles::default().get("a", &PathAt::at(path), false).unwrap();
        handle.file.sync_all().unwrap();
        (forget(&handle.file, LEN) == Some(true)).then_some(handle)
    }

    #[test]
    fn a_prefetched_range_arrives_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        prefetch(&handle, 100..LEN);
        // A second descriptor, for random reads: a probe then reads only its own page, and no page is probed twice.
        let other = std::fs::File::open(dir.path().join("a")).unwrap();
        rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
        let is_there = |turn: u64| {
            std::thread::sleep(Duration::from_millis(20 << turn));
            let mut places = (turn * PAGE..LEN).step_by(64 << 10);
            places.all(|at| is_in_memory(&other, at) == Some(true))
        };
        assert!((0..10).any(is_there), "it never came");
        assert!(handle.continues(LEN, 2 << 20), "what follows continues it");
    }

    #[test]
    fn missing_ranges_are_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        prefetch(&handle, 5..5);
        prefetch(&handle, LEN..2 * LEN);
        prefetch(&handle, u64::MAX - 5..u64::MAX);
    }
}
