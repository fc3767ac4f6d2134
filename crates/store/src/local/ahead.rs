//! Read-ahead hints: tells the kernel which ranges of a file will be read soon, so that the device has many
//! requests at once.
//!
//! A hint costs time itself, since the calling thread makes the requests. So ranges that the kernel already
//! reads ahead, or that are in memory, get no hint. The reader hints at the first ranges, so that the device
//! begins, and another thread hints at the rest.
//!
//! Invariants
//! - it is a hint: an error here occurs again, and is reported, when the range is read;
//! - nothing here waits for the device.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::forget::is_in_memory;
use super::handles::Handle;
use super::page::PAGE;
use super::readahead;

/// The reader itself hints at up to this many pieces and bytes: handing them to another thread would take
/// longer.
const FEW: usize = 8;
const SHORT: u64 = 256 << 10;
/// At most this many bytes per call: the kernel allocates memory for all of them before the device gets the
/// first.
const PIECE: u64 = SHORT;
/// For a run of at least this many bytes, the kernel's own sequential read-ahead is the better choice.
const WORTH: u64 = 256 << 10;

/// Ranges of a file, offset and length, to read ahead.
pub(super) struct Ahead {
    handle: Arc<Handle>,
    ranges: Vec<(u64, u64)>,
    /// The ranges are one run, the next one of a sequential scan.
    in_order: bool,
    /// How many pieces were hinted at so far.
    hinted: usize,
}

impl Ahead {
    /// The ranges that are worth a hint; `None` if there are none.
    pub(super) fn of(handle: Arc<Handle>, ranges: &[(u64, u64)]) -> Option<Ahead> {
        let mut ranges = ranges.to_vec();
        ranges.retain(|(offset, len)| *len > 0 && !handle.continues(*offset, *len));
        let in_order = matches!(*ranges, [(offset, len)] if len >= WORTH && handle.is_next(offset));
        let ahead = Ahead { handle, ranges, in_order, hinted: 0 };
        let worth = !ahead.ranges.is_empty() && !ahead.seems_in_memory();
        worth.then(|| {
            if !ahead.in_order {
                ahead.handle.advised(&ahead.ranges);
            }
            ahead
        })
    }

    /// Whether the ranges seem to be in memory, judged by a few bytes amid them. Their first and last pages
    /// may have been read with their neighbours, so those prove nothing.
    fn seems_in_memory(&self) -> bool {
        let (first, middle) = (self.ranges.first(), self.ranges.get(self.ranges.len() / 2));
        let some = [first, middle, self.ranges.last()].into_iter().flatten();
        let mut places: Vec<u64> = some.map(|(offset, len)| offset.saturating_add(len / 2)).collect();
        places.dedup_by_key(|at| *at / PAGE);
        places.into_iter().all(|at| is_in_memory(&self.handle.file, at) == Some(true))
    }

    /// Hints at the first pieces. `true`: that was all; else another thread must [`advise`](Ahead::advise) on
    /// the others.
    pub(super) fn advise_first(&mut self) -> bool {
        if let (true, &[(offset, len)]) = (self.in_order, &self.ranges[..]) {
            readahead::touch(&self.handle, offset..offset.saturating_add(len));
            return true;
        }
        let mut bytes = 0u64;
        let is_among = |(_, len): &(u64, u64)| {
            bytes = bytes.saturating_add(*len);
            bytes <= SHORT
        };
        self.hinted =
            self.pieces().take(FEW).take_while(is_among).take_while(|piece| self.advise_on(*piece)).count();
        self.pieces().nth(self.hinted).is_none()
    }

    /// Hints at the pieces that are left.
    pub(super) fn advise(&self) {
        let _ = self.pieces().skip(self.hinted).all(|piece| self.advise_on(piece));
    }

    /// The ranges, cut into parts of limited length.
    fn pieces(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().flat_map(|&(offset, len)| {
            let piece = move |at| (offset.saturating_add(at), PIECE.min(len - at));
            (0..len).step_by(PIECE as usize).map(piece)
        })
    }

    /// Asks the kernel to read a piece ahead; `false`: it refuses, and would refuse others.
    fn advise_on(&self, (offset, len): (u64, u64)) -> bool {
        let advice = rustix::fs::Advice::WillNeed;
        rustix::fs::fadvise(&self.handle.file, offset, NonZeroU64::new(len), advice).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::super::forget::forget;
    use super::super::handles::{Handles, PathAt};
    use super::*;

    fn handle(path: &Path) -> Arc<Handle> {
        Handles::default().get("a", &PathAt::at(path), false).unwrap().0
    }

    /// A file of 1 MiB that is not in memory; `None` where the kernel keeps it in memory.
    fn forgotten(path: &Path) -> Option<Arc<Handle>> {
        std::fs::write(path, vec![1; 1 << 20]).unwrap();
        let handle = handle(path);
        handle.file.sync_all().unwrap();
        (forget(&handle.file, 1 << 20) == Some(true)).then_some(handle)
    }

    #[test]
    fn few_short_ranges_are_told_of_at_once_and_come_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        let ranges = [(5, 4096), (300 << 10, 9000), (900 << 10, 10)];
        let mut ahead = Ahead::of(Arc::clone(&handle), &ranges).expect("it is not in memory");
        assert!(ahead.advise_first());
        let began = Instant::now();
        while Ahead::of(Arc::clone(&handle), &ranges).is_some() {
            assert!(began.elapsed() < Duration::from_secs(20), "the prefetched bytes never arrived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Symptom: a plane through subchunks that stand two and three together took 1.5 times as long as the
    /// disk needs for it. Cause: the kernel read on behind each pair, though it had hints for all wanted
    /// ranges.
    #[test]
    fn behind_neighbours_that_it_was_told_of_nothing_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, vec![1; 8 << 20]).unwrap();
        let handle = handle(&path);
        handle.file.sync_all().unwrap();
        if forget(&handle.file, 8 << 20) != Some(true) || !handle.lies_here() {
            return;
        }
        let (begin, len) = (1 << 20, 280 << 10);
        let ahead = Ahead::of(Arc::clone(&handle), &[(begin, 2 * len)]).expect("it is not in memory");
        ahead.advise();
        for at in [begin, begin + len] {
            let mut out = vec![0; len as usize];
            handle.to_read(at, out.len()).read_exact_at(&mut out, at).unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
        for behind in [64 << 10, 1 << 20, 3 << 20] {
            assert_ne!(is_in_memory(&handle.file, begin + 2 * len + behind), Some(true), "{behind}");
        }
    }

    /// Symptom: the second of two planes through neighbouring subchunks took 1.5 times as long as the first.
    /// Cause: the first and last pages of its ranges had been read with the first plane's, so it was taken to
    /// be in memory.
    #[test]
    fn ranges_of_which_only_the_ends_are_in_memory_are_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        let at = |offset: u64| handle.to_read(offset, 1);
        for edge in [100 << 10, (300 << 10) - 1, 600 << 10, (900 << 10) - 1] {
            rustix::fs::fadvise(at(edge), 0, None, rustix::fs::Advice::Random).unwrap();
            at(edge).read_exact_at(&mut [0], edge).unwrap();
        }
        let ranges = [(100 << 10, 200 << 10), (600 << 10, 300 << 10)];
        assert!(Ahead::of(Arc::clone(&handle), &ranges).is_some());
    }

    #[test]
    fn of_many_ranges_and_long_ones_all_but_the_first_are_left_to_another_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "bytes").unwrap();
        let hinted = |ranges: &[(u64, u64)]| {
            let (handle, ranges) = (handle(&path), ranges.to_vec());
            let mut ahead = Ahead { handle, ranges, in_order: false, hinted: 0 };
            (ahead.advise_first(), ahead.hinted)
        };
        assert_eq!(hinted(&[(0, 1); FEW + 1]), (false, FEW));
        assert_eq!(hinted(&[(0, SHORT), (SHORT, 1)]), (false, 1));
        assert_eq!(hinted(&[(7, 3 * PIECE + 1)]), (false, 1));
        assert_eq!(hinted(&[(0, 1); FEW]), (true, FEW));
        assert_eq!(hinted(&[(9, SHORT)]), (true, 1));
    }

    #[test]
    fn all_of_a_long_run_comes_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        let (begin, end) = (5000, (1 << 20) - 5000);
        let mut ahead = Ahead::of(Arc::clone(&handle), &[(begin, end - begin)]).expect("it is not in memory");
        assert!(!ahead.advise_first());
        ahead.advise();
        let pieces: Vec<_> = ahead.pieces().collect();
        assert_eq!(pieces.iter().map(|(_, len)| len).sum::<u64>(), end - begin);
        assert!(pieces.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0) && pieces[0].0 == begin);
        // A second descriptor, for reads in no order: a probe reads its own page, and no page is probed
        // twice.
        let other = std::fs::File::open(dir.path().join("a")).unwrap();
        rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
        let is_there = |turn: u64| {
            std::thread::sleep(Duration::from_millis(20 << turn));
            let mut places = (begin + turn * PAGE..end).step_by(64 << 10);
            places.all(|at| is_in_memory(&other, at) == Some(true))
        };
        assert!((0..10).any(is_there), "the prefetched bytes never arrived");
    }

    /// Symptom: two processes that read blocks of 256 KiB in the order of the file, of two files each, took
    /// 1.25 times as long as plain reads. Cause: the kernel got a hint for every block by itself, and read
    /// nothing while cells were copied.
    #[test]
    fn behind_a_lone_run_that_comes_next_the_system_reads_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let Some(handle) = forgotten(&path) else { return };
        let ahead =
            |ranges: &[(u64, u64)]| Ahead::of(Arc::clone(&handle), ranges).expect("it is not in memory");
        assert!(!ahead(&[(300, 60 << 10)]).in_order, "a short range gets no hint");
        assert!(!ahead(&[(300, 256 << 10), (500 << 10, 256 << 10)]).in_order, "so is what lies apart");
        assert!(!ahead(&[(500 << 10, 256 << 10)]).in_order, "and what is elsewhere");
        forget(&handle.file, 1 << 20);
        let mut first = ahead(&[(300, 256 << 10)]);
        assert!(first.in_order && first.advise_first());
        let mut out = vec![0; 256 << 10];
        let file = handle.to_read(300, out.len());
        assert_eq!(file.as_raw_fd(), handle.file.as_raw_fd(), "it is read in order");
        file.read_exact_at(&mut out, 300).unwrap();
        let other = std::fs::File::open(&path).unwrap();
        rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
        // A probe reads its own page, and no page is probed twice.
        let looked = |turn: u64| {
            std::thread::sleep(Duration::from_millis(20 << turn));
            is_in_memory(&other, (260 << 10) + turn * PAGE) == Some(true)
        };
        assert!((0..10).any(looked), "nothing was read behind it");
    }

    #[test]
    fn what_is_in_memory_and_what_is_nothing_is_not_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, vec![1; 64 << 10]).unwrap();
        assert!(Ahead::of(handle(&path), &[]).is_none());
        assert!(Ahead::of(handle(&path), &[(7, 0)]).is_none());
        if is_in_memory(&handle(&path).file, 0) == Some(true) {
            assert!(Ahead::of(handle(&path), &[(0, 9), (30 << 10, 9), (60 << 10, 9)]).is_none());
        }
    }
}
