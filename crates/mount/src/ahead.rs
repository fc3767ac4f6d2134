//! Decides how many bytes are produced for one read of a file, and whether the kernel caches them.
//!
//! Producing even a few bytes decodes whole subchunks. A program that reads sequentially therefore gets large pieces,
//! each produced while the program reads the previous one. A program that reads at random gets only the bytes that it
//! requests.
//!
//! A long read is written directly to the program's memory: the kernel's cache would cost a copy and a page per 4 KiB,
//! and the container's own bytes are cached already. For mappings, short reads, and cells that are slow to produce, the
//! cache saves more than it costs. The same holds for a file that is read again: after as many bytes were read as the
//! file has, the next handle fills the cache, and later handles read from it.

use std::ops::Range;
use std::time::Duration;

/// Bytes produced at once for a program that reads sequentially. Subchunks have at most 16 MiB; most have less than 2.
pub(crate) const PIECE: u64 = 4 << 20;
/// Requests of a sequential reader may arrive this far out of order.
const NEAR: u64 = 2 << 20;
/// A shorter read counts as sequential only if it continues the previous one exactly.
const SHORT: u64 = 64 << 10;
/// The kernel always caches files shorter than this.
const LEAST_DIRECT: u64 = 1 << 20;
/// After this many reads the pattern of a program is known.
const ENOUGH: u64 = 64;
/// Cells that are produced more slowly than this, in bytes per second, are cached.
const FAST: u64 = 1 << 30;

/// How the bytes of a file reach programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Directly to their memory.
    Direct,
    /// Through pages that the kernel caches.
    Kept,
}

/// The observed reads of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    reads: u64,
    bytes: u64,
    mapped: bool,
    made: u64,
    took: Duration,
}

impl Seen {
    /// Records a read that went directly to a program's memory, or filled pages of a mapping.
    pub(crate) fn read(&mut self, len: u64, for_mapping: bool) {
        self.mapped |= for_mapping;
        self.reads += 1;
        self.bytes = self.bytes.saturating_add(len);
    }

    /// Records bytes that were produced.
    pub(crate) fn made(&mut self, bytes: u64, took: Duration) {
        self.made = self.made.saturating_add(bytes);
        self.took = self.took.saturating_add(took);
    }

    /// Adds observations of other reads of the file.
    pub(crate) fn add(&mut self, other: &Seen) {
        self.mapped |= other.mapped;
        self.reads = self.reads.saturating_add(other.reads);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.made(other.made, other.took);
    }

    /// Whether a program has mapped the file.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// How the next handle of a file of `size` bytes is read.
    pub(crate) fn way(&self, size: u64) -> Way {
        let short = self.reads >= ENOUGH && self.bytes / self.reads < SHORT;
        let fast = u128::from(FAST) * self.took.as_nanos() <= u128::from(self.made) * 1_000_000_000;
        let slow = self.made >= 2 * PIECE && !fast;
        let again = self.bytes >= size;
        match size < LEAST_DIRECT || self.mapped || short || slow || again {
            true => Way::Kept,
            false => Way::Direct,
        }
    }
}

/// Whether a read continues the previous one, which ended at `before`.
pub(crate) fn goes_on(asked: &Range<u64>, before: Option<u64>) -> bool {
    let long = asked.end.saturating_sub(asked.start) >= SHORT;
    before.is_some_and(|before| before == asked.start || (long && before.abs_diff(asked.start) <= NEAR))
}

/// The bytes to produce for a read of `asked` in a file of `size` bytes. `goes_on` says whether the read is sequential.
pub(crate) fn made(asked: Range<u64>, goes_on: bool, size: u64) -> Range<u64> {
    let end = asked.end.min(size);
    match goes_on {
        true => asked.start..asked.start.saturating_add(PIECE).clamp(end, size.max(end)),
        false => asked.start..end,
    }
}

/// The piece after this one, unless the file ends there.
pub(crate) fn next(piece: &Range<u64>, size: u64) -> Option<Range<u64>> {
    let next = piece.end..piece.end.saturating_add(PIECE).min(size);
    (next.start < next.end).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn only_a_program_that_reads_on_gets_more_than_it_asked_for() {
        assert_eq!(made(0..100, false, GIB), 0..100);
        assert_eq!(made(100..200, true, GIB), 100..100 + PIECE);
        assert_eq!(made(100..200, true, 150), 100..150);
        assert_eq!(made(100..100 + 2 * PIECE, true, GIB), 100..100 + 2 * PIECE);
        assert_eq!(next(&(0..PIECE), PIECE + 10), Some(PIECE..PIECE + 10));
        assert_eq!(next(&(0..PIECE), PIECE), None);
    }

    #[test]
    fn long_reads_that_arrive_out_of_order_go_on_and_short_ones_only_in_order() {
        let mib = 1 << 20;
        assert!(!goes_on(&(0..mib), None));
        assert!(goes_on(&(mib..2 * mib), Some(2 * mib)));
        assert!(!goes_on(&(9 * mib..10 * mib), Some(2 * mib)));
        assert!(goes_on(&(10..20), Some(10)));
        assert!(!goes_on(&(11..20), Some(10)));
    }

    #[test]
    fn mappings_short_reads_slow_cells_and_what_is_read_again_are_kept() {
        let mut seen = Seen::default();
        assert_eq!(seen.way(1000), Way::Kept);
        assert_eq!(seen.way(GIB), Way::Direct);
        for _ in 0..ENOUGH {
            seen.read(1 << 20, false);
        }
        assert_eq!(seen.way(ENOUGH << 20), Way::Kept, "all of it was read, so it is read again");
        seen.made(GIB, Duration::from_millis(200));
        assert_eq!(seen.way(GIB), Way::Direct);
        let (mut short, mut mapped, mut slow) = (Seen::default(), seen, Seen::default());
        (0..ENOUGH).for_each(|_| short.read(4096, false));
        mapped.read(4096, true);
        slow.made(GIB, Duration::from_secs(2));
        for kept in [short, mapped, slow] {
            assert_eq!(kept.way(GIB), Way::Kept);
            let mut both = seen;
            both.add(&kept);
            assert_eq!(both.is_mapped(), kept.is_mapped());
        }
    }
}
