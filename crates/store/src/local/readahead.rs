//! Has the system read ahead as for who reads a file in order.
//!
//! Linux sets it for each device, to 128 KiB unless somebody chose more. It begins with little and doubles it, in larger pages each time; what
//! it is told of beforehand, or asked for in one long request, comes in pages of 4 KiB: in more requests to the device, and slower to
//! copy, then and later.

use std::ops::Range;

use super::forget::is_in_memory;
use super::handles::Handle;
use super::page::PAGE;

/// It begins with a page or four, and its next part may begin at any page of what it was asked for first; later ones begin at larger pages.
const BEGIN: u64 = 256 << 10;
const LARGER_PAGE: u64 = 16 << 10;

/// What is in memory is looked for so far apart.
const APART: u64 = 1 << 20;

/// Has a range read in order, from the first place that is not in memory.
pub(super) fn prefetch(handle: &Handle, range: Range<u64>) {
    let mut at = range.start;
    while at < range.end && is_in_memory(&handle.file, at) == Some(true) {
        at = at.saturating_add(APART);
    }
    if at < range.end {
        touch(handle, at..range.end);
    }
}

/// Asks for bytes all along a range as who reads it in order would, but waits for none: the system reads ahead, in larger pages each time, and
/// the device has all of it to do at once. (Systems before Linux 5.9 do nothing then; whoever reads it waits.)
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

    /// A file that is not in memory; `None` where it cannot be elsewhere.
    fn forgotten(path: &Path) -> Option<Arc<Handle>> {
        std::fs::write(path, vec![1; LEN as usize]).unwrap();
        let (handle, _) = Handles::default().get("a", &PathAt::at(path), false).unwrap();
        handle.file.sync_all().unwrap();
        (forget(&handle.file, LEN) == Some(true)).then_some(handle)
    }

    #[test]
    fn what_is_brought_comes_without_being_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        prefetch(&handle, 100..LEN);
        // Another descriptor, which is read in no order: a look brings its own page, and no page is looked at twice.
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
    fn what_is_not_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        prefetch(&handle, 5..5);
        prefetch(&handle, LEN..2 * LEN);
        prefetch(&handle, u64::MAX - 5..u64::MAX);
    }
}
