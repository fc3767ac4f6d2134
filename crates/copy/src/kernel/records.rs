//! Records of a few short members, to columns and back; each record is visited once.
//!
//! In tiles, every column would start anew in each tile, and the hardware prefetcher, which follows long columns, would
//! predict none. Member by member, lines of records would be fetched once per member. Here all columns advance side by
//! side.
//!
//! Measured (Zen 5) beside tiles: members of 8 and 16 bytes in the cache 1.3 to 2.3 times as fast, columns in memory to
//! records in memory 1.0 to 2.2 times, records to columns 1.0 to 1.5 times. It is slower, 0.65 to 0.9 times, if columns
//! in memory have only about 64 elements and planes follow each other: tiles read these in order.

use super::element::exactly;
#[cfg(target_arch = "x86_64")]
use super::interleave;
use super::stream;
use crate::dim::Dim;

/// The most members of a record whose columns advance side by side: each needs a register and a stream of lines.
const MOST: usize = 8;

/// Columns of at most this many bytes end before the hardware detects them; they are prefetched at once.
const SHORT_COLUMN: u64 = 2048;

/// Moves this many records. Each pointer is followed by a stride: from one record to the next, or from one column to
/// the next.
type Walk = unsafe fn(usize, *const u8, isize, *mut u8, isize);

/// How the records of a plane are visited.
#[derive(Clone, Copy)]
pub(super) struct Records {
    walk: Walk,
    /// The loop past the caches, for destinations that begin at multiples of 16 bytes and records without gaps, if
    /// there is one.
    past: Option<Walk>,
    members: usize,
    /// Whether the records are the source.
    splits: bool,
    /// Whether columns are prefetched before they are joined.
    asks: bool,
}

/// The loop for elements of this many bytes, this many of them in a record.
macro_rules! with_members {
    ($walk:ident::<$elem:literal>, $members:expr) => {
        match $members {
            2 => Some($walk::<$elem, 2> as Walk),
            3 => Some($walk::<$elem, 3> as Walk),
            4 => Some($walk::<$elem, 4> as Walk),
            5 => Some($walk::<$elem, 5> as Walk),
            6 => Some($walk::<$elem, 6> as Walk),
            7 => Some($walk::<$elem, 7> as Walk),
            MOST => Some($walk::<$elem, MOST> as Walk),
            _ => None,
        }
    };
}

impl Records {
    /// The loop for a plane whose first loop is dense in the source and whose second is dense in the destination, if
    /// its records have few members, and too few for squares of this side. Elements of 1 and 2 bytes are only joined,
    /// and only if registers cannot help: they are scattered up to four times their size apart.
    pub(super) fn of(
        elem: usize,
        near: Dim,
        inner: Dim,
        square: Option<usize>,
        far: bool,
    ) -> Option<Records> {
        let splits = near.count <= inner.count;
        let members = near.count.min(inner.count) as usize;
        if square.is_some_and(|side| members >= side && members >= MOST) {
            return None;
        }
        let walk = match (elem, splits) {
            (1, false) if members > 4 => with_members!(join::<1>, members),
            (2, false) if members > 4 => with_members!(join::<2>, members),
            (4, true) => with_members!(split_packing::<4>, members),
            (4, false) => with_members!(join_packing::<4>, members),
            (8, true) => with_members!(split_packing::<8>, members),
            (8, false) => with_members!(join_packing::<8>, members),
            (16, true) => with_members!(split::<16>, members),
            (16, false) => with_members!(join::<16>, members),
            _ => None,
        };
        let asks = far && !splits && near.count * elem as u64 <= SHORT_COLUMN;
        let past = if far { past(elem, members, splits) } else { None };
        walk.map(|walk| Records { walk, past, members, splits, asks })
    }

    /// The same records past the caches, if the destination begins at multiples of 16 bytes from `dst` on.
    pub(super) fn passing(self, near: Dim, inner: Dim, dst: *mut u8) -> Option<Records> {
        let record = if self.splits { inner.src_stride } else { near.dst_stride };
        let dense = record == self.members as i64 * near.src_stride;
        let begins = self.splits.then_some(near.dst_stride);
        let aligned = dst.addr().is_multiple_of(16) && begins.is_none_or(|column| column % 16 == 0);
        let walk = self.past.filter(|_| dense && aligned)?;
        Some(Records { walk, ..self })
    }

    /// Whether records of this many adjacent elements are moved by whole registers.
    pub(super) fn fill(elem: usize, members: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        return interleave::fills(elem, members);
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Whether the records are the destination.
    pub(super) fn joins(self) -> bool {
        !self.splits
    }

    /// Moves the plane, or one that differs only in its number of records.
    ///
    /// # Safety
    /// Every element of the plane is readable from `src` and writable from `dst`; the two do not overlap. The
    /// first loop is dense in the source and the second in the destination.
    pub(super) unsafe fn run(self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        let (count, members) =
            if self.splits { (inner.count, near.count) } else { (near.count, inner.count) };
        debug_assert_eq!(members as usize, self.members);
        if self.asks {
            for column in 0..inner.count as isize {
                let column = src.wrapping_offset(column * inner.src_stride as isize);
                let len = count as usize * near.src_stride as usize;
                (0..len).step_by(stream::LINE).for_each(|at| stream::prefetch(column.wrapping_add(at)));
            }
        }
        // SAFETY: the caller's guarantee.
        unsafe { (self.walk)(count as usize, src, inner.src_stride as isize, dst, near.dst_stride as isize) }
    }
}

/// Splits records into `M` columns.
///
/// # Safety
/// `count` records of `M` elements are readable, and as many elements of `M` columns writable.
unsafe fn split<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    record: isize,
    dst: *mut u8,
    column: isize,
) {
    let (mut src, mut dst) = (src, dst);
    for _ in 0..count {
        for k in 0..M {
            // SAFETY: the caller's guarantee, for member `k` of this record.
            unsafe { exactly::<W>(src.wrapping_add(k * W), dst.wrapping_offset(k as isize * column)) }
        }
        src = src.wrapping_offset(record);
        dst = dst.wrapping_add(W);
    }
}

/// Joins `M` columns to records.
///
/// # Safety
/// `count` elements of `M` columns are readable, and as many records of `M` elements writable.
unsafe fn join<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    column: isize,
    dst: *mut u8,
    record: isize,
) {
    let (mut src, mut dst) = (src, dst);
    for _ in 0..count {
        for k in 0..M {
            // SAFETY: the caller's guarantee, for member `k` of this record.
            unsafe { exactly::<W>(src.wrapping_offset(k as isize * column), dst.wrapping_add(k * W)) }
        }
        src = src.wrapping_add(W);
        dst = dst.wrapping_offset(record);
    }
}

/// [`join`] for members of 4 or 8 bytes, which are interleaved in registers. The number of records at a time is that of
/// the members in 16 bytes of a column.
///
/// Measured (Zen 5) beside moving member by member: in the cache 1.2 to 1.8 times as fast, from memory by way of a
/// stage up to 1.1 times.
///
/// # Safety
/// As for [`join`].
#[cfg(target_arch = "x86_64")]
unsafe fn join_packing<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    column: isize,
    dst: *mut u8,
    record: isize,
) {
    if record == (M * W) as isize && interleave::fills(W, M) {
        // SAFETY: the caller's guarantee.
        return unsafe { join_filling::<W, M, false>(count, src, column, dst) };
    }
    let (mut src, mut dst) = (src, dst);
    let group = 16 / W;
    for _ in 0..count / group {
        // SAFETY: the caller's guarantee, for these records.
        unsafe { interleave::apart::<W, M>(src, column, dst, record) }
        src = src.wrapping_add(16);
        dst = dst.wrapping_offset(group as isize * record);
    }
    // SAFETY: the caller's guarantee, for the last records.
    unsafe { join::<W, M>(count % group, src, column, dst, record) }
}

/// The same for adjacent records, by consecutive stores of 16 bytes.
///
/// Measured (Zen 5) from memory, past the caches: 1.4 to 1.8 times as fast as by way of a stage.
///
/// # Safety
/// As for [`join`], with records of `W * M` bytes that follow each other from `dst` on, a multiple of 16 if `PAST`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn join_filling<const W: usize, const M: usize, const PAST: bool>(
    count: usize,
    src: *const u8,
    column: isize,
    dst: *mut u8,
) {
    let (mut src, mut dst) = (src, dst);
    let group = 16 / W;
    for _ in 0..count / group {
        // SAFETY: the caller's guarantee, for these records.
        unsafe { interleave::dense::<W, M, PAST>(src, column, dst) }
        src = src.wrapping_add(16);
        dst = dst.wrapping_add(16 * M);
    }
    // SAFETY: the caller's guarantee, for the last records.
    unsafe { join::<W, M>(count % group, src, column, dst, (M * W) as isize) }
}

/// A loop that joins past the caches.
///
/// # Safety
/// As for [`join_filling`].
#[cfg(target_arch = "x86_64")]
unsafe fn join_past<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    column: isize,
    dst: *mut u8,
    record: isize,
) {
    debug_assert_eq!(record, (M * W) as isize);
    // SAFETY: the caller's guarantee.
    unsafe { join_filling::<W, M, true>(count, src, column, dst) }
}

/// The loop past the caches for records of this many elements, if they fill registers.
#[cfg(target_arch = "x86_64")]
fn past(elem: usize, members: usize, splits: bool) -> Option<Walk> {
    match (elem, splits) {
        _ if !interleave::fills(elem, members) => None,
        (4, true) => with_members!(split_past::<4>, members),
        (4, false) => with_members!(join_past::<4>, members),
        (8, true) => with_members!(split_past::<8>, members),
        (8, false) => with_members!(join_past::<8>, members),
        _ => None,
    }
}

/// Without known registers, members are moved one by one.
#[cfg(not(target_arch = "x86_64"))]
use join as join_packing;

#[cfg(not(target_arch = "x86_64"))]
fn past(_elem: usize, _members: usize, _splits: bool) -> Option<Walk> {
    None
}

/// [`split`] for members of 4 or 8 bytes, which fill 16 bytes that are stored at once. The number of records at a time
/// follows from that.
///
/// # Safety
/// As for [`split`].
unsafe fn split_packing<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    record: isize,
    dst: *mut u8,
    column: isize,
) {
    let (mut src, mut dst) = (src, dst);
    let group = 16 / W;
    #[cfg(target_arch = "x86_64")]
    if record == (M * W) as isize && interleave::fills(W, M) {
        // SAFETY: the caller's guarantee.
        return unsafe { split_filling::<W, M, false>(count, src, dst, column) };
    }
    for _ in 0..count / group {
        for k in 0..M {
            // SAFETY: the caller's guarantee, for member `k` of these records.
            unsafe { pack::<W>(src.wrapping_add(k * W), record, dst.wrapping_offset(k as isize * column)) }
        }
        src = src.wrapping_offset(group as isize * record);
        dst = dst.wrapping_add(16);
    }
    // SAFETY: the caller's guarantee, for the last records.
    unsafe { split::<W, M>(count % group, src, record, dst, column) }
}

/// The same for adjacent records, by consecutive loads of 16 bytes.
///
/// Measured (Zen 5) beside combining elements one by one: in the cache 1.2 to 1.5 times as fast with members of 8
/// bytes, 1.9 to 2.2 times with ones of 4; past the caches, beside a stage, 1.4 to 1.9 times.
///
/// # Safety
/// As for [`split`], with records of `W * M` bytes that follow each other; columns begin at multiples of 16
/// bytes if `PAST`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn split_filling<const W: usize, const M: usize, const PAST: bool>(
    count: usize,
    src: *const u8,
    dst: *mut u8,
    column: isize,
) {
    let (mut src, mut dst) = (src, dst);
    let group = 16 / W;
    for _ in 0..count / group {
        // SAFETY: the caller's guarantee, for these records.
        unsafe { interleave::split::<W, M, PAST>(src, dst, column) }
        src = src.wrapping_add(16 * M);
        dst = dst.wrapping_add(16);
    }
    // SAFETY: the caller's guarantee, for the last records.
    unsafe { split::<W, M>(count % group, src, (M * W) as isize, dst, column) }
}

/// A loop that splits past the caches.
///
/// # Safety
/// As for [`split_filling`].
#[cfg(target_arch = "x86_64")]
unsafe fn split_past<const W: usize, const M: usize>(
    count: usize,
    src: *const u8,
    record: isize,
    dst: *mut u8,
    column: isize,
) {
    debug_assert_eq!(record, (M * W) as isize);
    // SAFETY: the caller's guarantee.
    unsafe { split_filling::<W, M, true>(count, src, dst, column) }
}

/// Gathers 16 bytes of elements of `W` bytes (4 or 8).
///
/// # Safety
/// `16 / W` elements are readable from `src` on, 16 bytes writable at `dst`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn pack<const W: usize>(src: *const u8, stride: isize, dst: *mut u8) {
    // SAFETY: the caller's guarantee; the store needs no alignment.
    unsafe { std::arch::x86_64::_mm_storeu_si128(dst.cast(), super::element::packed::<W>(src, stride)) }
}

/// # Safety
/// `16 / W` elements are readable from `src` on, 16 bytes writable at `dst`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn pack<const W: usize>(src: *const u8, stride: isize, dst: *mut u8) {
    for k in 0..16 / W {
        // SAFETY: the caller's guarantee.
        unsafe { exactly::<W>(src.wrapping_offset(k as isize * stride), dst.wrapping_add(k * W)) }
    }
}
