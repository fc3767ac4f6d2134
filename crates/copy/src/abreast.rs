//! Copies rows of several sources side by side: each row of the destination is written from all sources that hold a
//! part of it, one after the other.
//!
//! If the rows of one part begin and end inside cache lines, copying that part alone writes these lines in part: they
//! are first read from memory, and the copy of the adjacent part reads them again. If rows are written from all sources
//! together, lines are whole and bypass the caches. Also, the sources can be prefetched while rows are stored.
//!
//! Invariants (established by [`Abreast::new`])
//! - lanes have the same loops in the destination, and each begins where the one before it ends;
//! - rows ascend in every source and do not overlap there.

use std::ops::Range;

use crate::copy::StridedCopy;
use crate::error::{CopyError, Side};
use crate::kernel::stream::{self, Lines};

/// A longer row of a single source is cut into rows of this many bytes.
const LONGEST: u64 = 16 << 10;

/// Copies whose rows are adjacent in the destination.
#[derive(Debug, Clone)]
pub struct Abreast {
    lanes: Vec<Lane>,
    /// Count and destination stride of each loop, outermost first.
    dims: Vec<(u64, u64)>,
    dst: u64,
    dst_end: u64,
    /// Bytes of a row, all lanes together.
    row: u64,
    /// Number of rows into which each row is cut.
    cuts: u64,
}

#[derive(Debug, Clone)]
struct Lane {
    src: u64,
    elem: u64,
    strides: Vec<u64>,
}

/// Source bytes of a lane, from `start` on.
#[derive(Debug, Clone, Copy)]
pub struct LaneBytes {
    /// The first byte.
    pub bytes: *const u8,
    /// Its offset in the source.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Abreast {
    /// Puts copies side by side, in the order of the destination. `None` if they are not adjacent in all their rows,
    /// are empty, or do not read their sources forwards.
    pub fn new(copies: &[StridedCopy]) -> Option<Abreast> {
        let first = copies.first()?;
        let dims: Vec<(u64, u64)> = first
            .dims()
            .iter()
            .map(|dim| Some((dim.count, u64::try_from(dim.dst_stride).ok()?)))
            .collect::<Option<_>>()?;
        let mut lanes = Vec::with_capacity(copies.len());
        let (mut at, mut dst_end) = (first.dst_offset(), 0);
        for copy in copies {
            let same =
                copy.dims().iter().map(|dim| (dim.count, dim.dst_stride as u64)).eq(dims.iter().copied());
            if copy.is_empty() || !same || copy.dst_offset() != at {
                return None;
            }
            let elem = copy.elem_bytes() as u64;
            let strides: Vec<u64> =
                copy.dims().iter().map(|dim| u64::try_from(dim.src_stride).ok()).collect::<Option<_>>()?;
            let mut span = elem;
            for (stride, (count, _)) in strides.iter().zip(&dims).rev() {
                if *stride < span {
                    return None;
                }
                span += (count - 1) * stride;
            }
            at += elem;
            dst_end = copy.dst_span().end;
            lanes.push(Lane { src: copy.src_offset(), elem, strides });
        }
        let row = at - first.dst_offset();
        let cuts = if lanes.len() == 1 { row.div_ceil(LONGEST) } else { 1 };
        Some(Abreast { lanes, dims, dst: first.dst_offset(), dst_end, row, cuts })
    }

    /// Number of sources.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.dims.iter().map(|(count, _)| count).product::<u64>() * self.cuts
    }

    /// Most bytes of a row.
    pub fn row_bytes(&self) -> u64 {
        if self.cuts > 1 { LONGEST } else { self.row }
    }

    /// The bytes of a lane's source that rows need, as one range.
    pub fn reach(&self, lane: usize, rows: &Range<u64>) -> Range<u64> {
        let (Some(of), false) = (self.lanes.get(lane), rows.is_empty()) else { return 0..0 };
        let ((first, _), (last, cut)) = (self.source(of, rows.start), self.source(of, rows.end - 1));
        first..last + (of.elem - cut).min(if self.cuts > 1 { LONGEST } else { of.elem })
    }

    /// Where a row begins in a lane's source, and how far that is from the beginning of the row from which it was cut.
    fn source(&self, lane: &Lane, row: u64) -> (u64, u64) {
        let cut = row % self.cuts * LONGEST;
        let mut rest = row / self.cuts;
        let mut at = lane.src + cut;
        for (stride, (count, _)) in lane.strides.iter().zip(&self.dims).rev() {
            at += rest % count * stride;
            rest /= count;
        }
        (at, cut)
    }

    /// Copies rows. `ahead` is the prefetch distance in each source, in bytes.
    ///
    /// # Safety
    /// Each lane's bytes are readable; `dst` is writable for `dst_len` bytes and overlaps with no source; during the
    /// call no other thread reads or writes the destination cells of these rows. The sources may change meanwhile; then
    /// the destination holds arbitrary bytes.
    pub unsafe fn run_raw(
        &self,
        rows: Range<u64>,
        sources: &[LaneBytes],
        dst: *mut u8,
        dst_len: usize,
        ahead: usize,
    ) -> Result<(), CopyError> {
        if self.dst_end > dst_len as u64 {
            let touched = self.dst..self.dst_end;
            return Err(CopyError::OutOfBounds { side: Side::Destination, touched, len: dst_len as u64 });
        }
        let rows = rows.start..rows.end.min(self.rows());
        if rows.is_empty() {
            return Ok(());
        }
        for (n, _) in self.lanes.iter().enumerate() {
            let touched = self.reach(n, &rows);
            let (start, len) = sources.get(n).map_or((0, 0), |lane| (lane.start, lane.len));
            if touched.start < start || touched.end > start.saturating_add(len) {
                return Err(CopyError::OutOfBounds {
                    side: Side::Source,
                    touched,
                    len: start.saturating_add(len),
                });
            }
        }
        // SAFETY: both sides were checked; the caller guarantees the rest.
        unsafe { self.walk(rows, sources, dst, stream::AVAILABLE && dst_len >= stream::FAR_BUFFER, ahead) }
        Ok(())
    }

    /// # Safety
    /// As for [`run_raw`](Self::run_raw), after its checks.
    unsafe fn walk(&self, rows: Range<u64>, sources: &[LaneBytes], dst: *mut u8, far: bool, ahead: usize) {
        let mut lines = Lines::new();
        let mut index = vec![0u64; self.dims.len()];
        let mut rest = rows.start / self.cuts;
        let mut to = self.dst;
        for (at, (count, stride)) in index.iter_mut().zip(&self.dims).rev() {
            *at = rest % count;
            to += *at * stride;
            rest /= count;
        }
        let mut from: Vec<*const u8> = Vec::with_capacity(self.lanes.len());
        for (lane, source) in self.lanes.iter().zip(sources) {
            let (at, cut) = self.source(lane, rows.start);
            from.push(source.bytes.wrapping_add((at - source.start) as usize).wrapping_sub(cut as usize));
        }
        // Rows that are not adjacent begin and end in lines that other copies also write.
        let apart = self.dims.last().map(|(_, stride)| *stride).filter(|stride| *stride != self.row);
        let mut cut = rows.start % self.cuts;
        for _ in rows {
            if let (true, Some(stride)) = (far, apart) {
                let next = dst.wrapping_add((to + ROWS_AHEAD * stride) as usize);
                stream::prefetch_for_write(next);
                stream::prefetch_for_write(next.wrapping_add(self.row as usize - 1));
            }
            let mut place = dst.wrapping_add((to + cut * LONGEST) as usize);
            for (lane, from) in self.lanes.iter().zip(&from) {
                let skip = cut * LONGEST;
                let len = if self.cuts > 1 { (lane.elem - skip).min(LONGEST) } else { lane.elem } as usize;
                let from = from.wrapping_add(skip as usize);
                // SAFETY: the caller's guarantee, for this row of the lane.
                unsafe {
                    if far {
                        lines.put(from, place, len, ahead);
                    } else {
                        std::ptr::copy_nonoverlapping(from, place, len);
                    }
                }
                place = place.wrapping_add(len);
            }
            cut += 1;
            if cut < self.cuts {
                continue;
            }
            cut = 0;
            for d in (0..index.len()).rev() {
                let (count, stride) = self.dims[d];
                let back = index[d] + 1 == count;
                let steps = if back { index[d] } else { 1 };
                let along = |at: *const u8, stride: u64| {
                    let by = (steps * stride) as usize;
                    if back { at.wrapping_sub(by) } else { at.wrapping_add(by) }
                };
                to = if back { to - steps * stride } else { to + stride };
                for (lane, from) in self.lanes.iter().zip(&mut from) {
                    *from = along(*from, lane.strides[d]);
                }
                index[d] = if back { 0 } else { index[d] + 1 };
                if !back {
                    break;
                }
            }
        }
        // SAFETY: the pending bytes are those of the last row.
        unsafe { lines.settle() }
        if far {
            stream::finish();
        }
    }
}

/// Prefetch distance, in rows, for the lines in which a row begins and ends.
const ROWS_AHEAD: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Dim;

    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    #[test]
    fn rows_side_by_side_equal_copies_one_after_the_other() {
        let mut dice = Dice(3);
        let (rounds, far, longest) = if cfg!(miri) { (6, 4 << 10, 3000) } else { (400, 4 << 20, 40_000) };
        for round in 0..rounds {
            let lanes = 1 + dice.roll(4) as usize;
            let (nz, ny) = (1 + dice.roll(4), 1 + dice.roll(9));
            let elem = 1 + dice.roll(if round % 3 == 0 { longest } else { 700 });
            let widths: Vec<u64> = (0..lanes).map(|_| 1 + dice.roll(elem)).collect();
            let row: u64 = widths.iter().sum();
            let pitch = row + dice.roll(2) * dice.roll(200);
            let plane = pitch * (ny + dice.roll(2));
            let begin = dice.roll(130);
            let len = (begin + plane * nz).max(if round % 2 == 0 { far } else { 0 }) as usize;
            let mut at = begin;
            let mut copies = Vec::new();
            let mut sources = Vec::new();
            for &width in &widths {
                let (apart, skip) = (width + dice.roll(30), dice.roll(50));
                let dims = vec![
                    Dim::new(nz, (apart * ny + 5) as i64, plane as i64),
                    Dim::new(ny, apart as i64, pitch as i64),
                ];
                let copy = StridedCopy::new(skip, at, width as usize, dims).unwrap();
                let source: Vec<u8> = (0..copy.src_span().end).map(|_| dice.roll(256) as u8).collect();
                copies.push(copy);
                sources.push(source);
                at += width;
            }
            let mut expected = vec![7u8; len];
            copies.iter().zip(&sources).for_each(|(copy, source)| copy.run(source, &mut expected).unwrap());
            let Some(abreast) = Abreast::new(&copies) else {
                // Loops of one lane may be joined where those of another are not.
                assert!(lanes > 1);
                continue;
            };
            let mut found = vec![7u8; len];
            let mut from = 0;
            while from < abreast.rows() {
                let rows = from..(from + 1 + dice.roll(5)).min(abreast.rows());
                let lane_bytes: Vec<LaneBytes> = (0..lanes)
                    .map(|n| {
                        let reach = abreast.reach(n, &rows);
                        let bytes = sources[n][reach.start as usize..reach.end as usize].as_ptr();
                        LaneBytes { bytes, start: reach.start, len: reach.end - reach.start }
                    })
                    .collect();
                // SAFETY: the lanes are what the rows need, from live vectors.
                unsafe { abreast.run_raw(rows.clone(), &lane_bytes, found.as_mut_ptr(), len, 999) }.unwrap();
                from = rows.end;
            }
            assert!(found == expected, "round {round}: {widths:?} {nz} {ny} {pitch} {begin}");
        }
    }

    #[test]
    fn copies_that_are_not_side_by_side_or_exceed_their_bytes_are_refused() {
        let copy = |src: u64, dst: u64, elem: usize, stride: i64| {
            StridedCopy::new(src, dst, elem, vec![Dim::new(3, stride, 100)]).unwrap()
        };
        assert!(Abreast::new(&[]).is_none());
        assert!(Abreast::new(&[copy(0, 0, 8, 10), copy(0, 9, 8, 10)]).is_none());
        assert!(Abreast::new(&[copy(20, 0, 8, -10)]).is_none());
        assert!(Abreast::new(&[copy(0, 0, 8, 4)]).is_none());
        let two = Abreast::new(&[copy(0, 0, 8, 10), copy(5, 8, 16, 20)]).unwrap();
        assert_eq!((two.rows(), two.reach(1, &(0..3)), two.reach(1, &(1..2))), (3, 5..61, 25..41));
        let (source, mut out) = ([0u8; 61], [0u8; 224]);
        let lane = |len: u64| LaneBytes { bytes: source.as_ptr(), start: 0, len };
        for (lens, room, good) in
            [([28, 61], 224, true), ([27, 61], 224, false), ([28, 60], 224, false), ([28, 61], 223, false)]
        {
            let lanes = [lane(lens[0]), lane(lens[1])];
            // SAFETY: the lengths are at most those of the arrays.
            let done = unsafe { two.run_raw(0..3, &lanes, out.as_mut_ptr(), room, 0) };
            assert_eq!(done.is_ok(), good, "{lens:?} {room}");
        }
        // SAFETY: as above; a lane is missing.
        assert!(unsafe { two.run_raw(0..3, &[lane(61)], out.as_mut_ptr(), 224, 0) }.is_err());
    }
}
