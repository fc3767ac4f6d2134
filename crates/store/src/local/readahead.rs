//! How far the system reads ahead of whoever reads a file in order.
//!
//! Linux sets it for each device, to 128 KiB unless somebody chose more. It begins with little and doubles it, in larger pages each time; what
//! it is told of beforehand, or asked for in one long request, comes in pages of 4 KiB: in more requests to the device, and slower to
//! copy, then and later.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use super::forget::is_in_memory;
use super::handles::Handle;
use super::transfer;

/// A system that reads so much ahead keeps a device busy by itself.
const FAR: u64 = 2 << 20;
/// Such a system is asked for so much at a time: it begins with a multiple of the first request.
const PART: usize = 256 << 10;

/// Other systems are asked for more: they bring what is asked for, and little beyond.
const LONG_PART: usize = 1 << 20;

/// What is in memory is looked for so far apart.
const APART: u64 = 1 << 20;

/// Reads a range in order from the first place that is not in memory, for the system to have it.
pub(super) fn bring(handle: &Handle, range: Range<u64>) {
    let mut at = range.start;
    while at < range.end && is_in_memory(&handle.file, at) == Some(true) {
        at = at.saturating_add(APART);
    }
    if at >= range.end {
        return;
    }
    let mut part = vec![0; part_of(handle)];
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(part.len(), |rest| rest.min(part.len()));
        match transfer::read_full(handle.to_read(at, len), at, &mut part[..len]) {
            Ok(got) if got == len => at += len as u64,
            // Whoever reads it says what is wrong.
            _ => return,
        }
    }
}

/// What is asked for at a time.
fn part_of(handle: &Handle) -> usize {
    if handle.reads_far_ahead() { PART } else { LONG_PART }
}

/// Whether the system reads far ahead of who reads this file in order. `false` where it does not say.
pub(super) fn is_far(file: &File) -> bool {
    bytes(file).is_some_and(|bytes| bytes >= FAR)
}

/// What is set for the device that a file lies on; a part of a disk has what is set for the disk.
#[cfg(target_os = "linux")]
fn bytes(file: &File) -> Option<u64> {
    let device = file.metadata().ok()?.dev();
    let folder = format!("/sys/dev/block/{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let read = |queue: &str| std::fs::read_to_string(format!("{folder}/{queue}/read_ahead_kb")).ok();
    read("queue").or_else(|| read("../queue"))?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(not(target_os = "linux"))]
fn bytes(_file: &File) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::forget::forget;
    use super::super::handles::{Handles, Place};
    use super::*;

    #[test]
    fn what_is_brought_is_in_memory_and_what_is_not_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let len = 3 << 20;
        std::fs::write(&path, vec![1; len as usize]).unwrap();
        let (handle, _) = Handles::default().get("a", &Place::at(&path), false).unwrap();
        handle.file.sync_all().unwrap();
        let cold = forget(&handle.file, len) == Some(true);
        bring(&handle, 100..len);
        if cold {
            let missing = (0..len).step_by(4096).filter(|at| is_in_memory(&handle.file, *at) != Some(true));
            assert_eq!(missing.count(), 0);
            assert!(handle.continues(len, 2 << 20), "what follows continues it");
        }
        bring(&handle, 5..5);
        bring(&handle, len..2 * len);
        bring(&handle, u64::MAX - 5..u64::MAX);
    }

    #[test]
    fn shorter_parts_are_asked_for_where_the_system_reads_far_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "bytes").unwrap();
        let (handle, _) = Handles::default().get("a", &Place::at(&path), false).unwrap();
        let far = handle.lies_here() && is_far(&handle.file);
        assert_eq!(part_of(&handle), if far { PART } else { LONG_PART });
    }
}
