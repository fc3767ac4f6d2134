//! Read-ahead hints: advises the kernel which ranges of a file will be read soon, so that the device has many requests
//! at once.
//!
//! A hint itself costs time, since the calling thread makes the requests. So ranges that the kernel already reads
//! ahead, or that are in memory, get no hint. The reading thread gives the first hints, so that the device begins, and
//! another thread gives the rest.
//!
//! Invariants
//! - a failed hint is ignored: the error occurs again, and is reported, when the range is read;
//! - nothing here waits for the device.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::forget::is_in_memory;
use super::handles::Handle;
use super::page::PAGE;
use super::readahead;

/// The reading thread itself gives hints for up to this many pieces and bytes: passing them to another thread would
/// take longer.
const FEW: usize = 8;
const SHORT: u64 = 256 << 10;
/// At most this many bytes per call, since the kernel allocates memory for all of them before the device gets the
/// first.
const PIECE: u64 = SHORT;
/// For a run of at least this many bytes, the kernel's own sequential read-ahead is the better choice.
const WORTH: u64 = 256 << 10;

/// Ranges of a file, offset and length, to read ahead.
pub(super) struct Ahead {
    handle: Arc<Handle>,
    ranges: Vec<(u64, u64)>,
    /// Whether the ranges are one run, the next one of a sequential scan.
    in_order: bool,
    /// The number of pieces that have got a hint.
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

    /// Whether the ranges seem to be in memory, judged by probing a few bytes inside. Their first and last pages may
    /// have been read with adjacent ranges, so these are not probed.
    fn seems_in_memory(&self) -> bool {
        let (first, middle) = (self.ranges.first(), self.ranges.get(self.ranges.len() / 2));
        let some = [first, middle, self.ranges.last()].into_iter().flatten();
        let mut places: Vec<u64> = some.map(|(offset, len)| offset.saturating_add(len / 2)).collect();
        places.dedup_by_key(|at| *at / PAGE);
        places.into_iter().all(|at| is_in_memory(&self.handle.file, at) == Some(true))
    }

    /// Gives the first hints. Returns whether these were all; otherwise another thread must give the rest by
    /// [`advise`](Ahead::advise).
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

    /// Gives the remaining hints.
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

    /// Advises the kernel to read a piece ahead; `false` if it refuses, and would refuse others.
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
    fn few_short_ranges_get_hints_at_once_and_arrive_without_being_read() {
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

    /// Symptom: a plane through subchunks that lie in groups of two and three took 1.5 times as long as the disk needs
    /// for it. Cause: the kernel read on behind each pair, though it had hints for all wanted ranges.
    #[test]
    fn the_kernel_reads_nothing_behind_adjacent_hinted_ranges() {
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

    /// Symptom: the second of two planes through neighbouring subchunks took 1.5 times as long as the first. Cause: the
    /// first and last pages of its ranges had been read with those of the first plane, so all of it was taken to be in
    /// memory.
    #[test]
    fn ranges_with_only_their_ends_in_memory_get_hints() {
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
    fn another_thread_hints_at_all_but_the_first_of_many_or_long_ranges() {
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
    fn a_long_run_is_prefetched_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let Some(handle) = forgotten(&dir.path().join("a")) else { return };
        let (begin, end) = (5000, (1 << 20) - 5000);
        let mut ahead = Ahead::of(Arc::clone(&handle), &[(begin, end - begin)]).expect("it is not in memory");
        assert!(!ahead.advise_first());
        ahead.advise();
        let pieces: Vec<_> = ahead.pieces().collect();
        assert_eq!(pieces.iter().map(|(_, len)| len).sum::<u64>(), end - begin);
        assert!(pieces.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0) && pieces[0].0 == begin);
        // A second descriptor, for random reads: a probe then reads only its own page, and no page is probed twice.
        let other = std::fs::File::open(dir.path().join("a")).unwrap();
        rustix::fs::fadvise(&other, 0, None, rustix::fs::Advice::Random).unwrap();
        let is_there = |turn: u64| {
            std::thread::sleep(Duration::from_millis(20 << turn));
            let mut places = (begin + turn * PAGE..end).step_by(64 << 10);
            places.all(|at| is_in_memory(&other, at) == Some(true))
        };
        assert!((0..10).any(is_there), "the prefetched bytes never arrived");
    }

    /// Symptom: two processes, each reading blocks of 256 KiB of two files in file order, took 1.25 times as long as
    /// plain reads. Cause: the kernel got a separate hint for every block, and read nothing while cells were copied.
    #[test]
    fn after_a_single_run_that_is_next_the_kernel_reads_on() {
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
        // A probe reads only its own page, and no page is probed twice.
        let looked = |turn: u64| {
            std::thread::sleep(Duration::from_millis(20 << turn));
            is_in_memory(&other, (260 << 10) + turn * PAGE) == Some(true)
        };
        assert!((0..10).any(looked), "nothing was read behind it");
    }

    #[test]
    fn bytes_in_memory_and_missing_bytes_get_no_hint() {
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
