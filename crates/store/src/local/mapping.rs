//! Maps ranges of files that are in the page cache, so that a reader copies the bytes only once.
//!
//! docs/decisions/082-mapped-reads.md says when this is done, and the arguments against it.
//!
//! Invariants
//! - only ranges below the end of the file are mapped. The kernel is asked to load each; if that fails there is no
//!   mapping, and a read reports the error;
//! - a mapping is read-only, and ends with its owner.

use std::fs::File;
use std::ops::Range;

use super::forget::is_in_memory;
use crate::Mapped;

/// Which ranges a local store maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapPolicy {
    /// No range.
    Never,
    /// Long reads of bytes that are in memory, on local file systems.
    #[default]
    Long,
    /// Any range on any file system. On a network file system, another machine may truncate the file unnoticed.
    Always,
}

/// A shorter read stays in the processor's caches, where the kernel's copy is no slower.
pub(super) const LONG: u64 = 4 << 20;

/// Whether a file lies on a local file system: its pages in memory are current, and no other machine
/// truncates it.
#[cfg(target_os = "linux")]
pub(super) fn is_local(file: &File) -> bool {
    /// ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, as `statfs` numbers them.
    const LOCAL: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010];
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_local(_file: &File) -> bool {
    false
}

/// Whether ranges (ascending and disjoint) seem to be in memory, judged by probing a few of their bytes. Ranges that
/// are not in memory are read instead: the kernel's read-ahead works better for reads than for mappings.
pub(super) fn seem_in_memory(file: &File, ranges: &[Range<u64>]) -> bool {
    let bytes = |r: &Range<u64>| r.end.saturating_sub(r.start);
    let all = ranges.iter().map(bytes).fold(0, u64::saturating_add);
    let mut next = 0;
    let mut before = 0u64;
    ranges.iter().all(|range| {
        while next < before.saturating_add(bytes(range)) {
            if is_in_memory(file, range.start + (next - before)) != Some(true) {
                return false;
            }
            next += PROBED.min(all / 2).max(1);
        }
        before += bytes(range);
        true
    }) && ranges.last().is_none_or(|range| is_in_memory(file, range.end.saturating_sub(1)) == Some(true))
}

/// Distance between probed bytes.
const PROBED: u64 = 512 << 10;

/// Maps ranges of a file that is `end` bytes long; ranges are ascending and not empty.
#[cfg(target_os = "linux")]
pub(super) fn map(file: &File, end: u64, ranges: &[Range<u64>]) -> Option<Mapped> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap};

    let page = rustix::param::page_size() as u64;
    let (first, last) = (ranges.first()?, ranges.last()?);
    if last.end > end || ranges.iter().any(Range::is_empty) || !ranges.is_sorted_by(|a, b| a.end <= b.start) {
        return None;
    }
    let start = first.start / page * page;
    let len = usize::try_from(last.end - start).ok()?;
    // SAFETY: a new mapping at an address that the kernel chooses, which overlaps no other memory.
    let base =
        unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, start) }.ok()?;
    // SAFETY: the mapping was just created, for reading.
    let mapped = unsafe { Mapped::new(base, len, start, ranges) };
    for range in ranges {
        let from = (range.start / page * page - start) as usize;
        let len = (range.end - start) as usize - from;
        // SAFETY: these are pages of the mapping.
        let loaded = unsafe { madvise(base.cast::<u8>().add(from).cast(), len, Advice::LinuxPopulateRead) };
        loaded.ok()?;
    }
    Some(mapped)
}

/// Other systems cannot load pages on demand and report the outcome, so nothing is mapped.
#[cfg(not(target_os = "linux"))]
pub(super) fn map(_file: &File, _end: u64, _ranges: &[Range<u64>]) -> Option<Mapped> {
    None
}
