//! Two loops, one dense in the source and the other in the destination, visited in tiles.
//!
//! A tile is so small that every line of either side is used completely while it is in the cache. Its squares are
//! transposed in registers if there is a kernel for the width, its edges element by element. Records of few members
//! need no tiles: one pass visits each record once. For a large destination, a tile or a number of records is built in
//! a stage, whose rows are then stored to memory as whole lines.

use super::plane::{Kernel, Plane};
use super::processor::permutes;
use super::records::Records;
use super::stream::{self, Stage};
use super::strided;
use crate::dim::Dim;

/// Elements per side of a square tile.
const SIDE: usize = 32;
/// Elements per tile where one of the loops is shorter than [`SIDE`].
const AREA: usize = 1024;
/// Bytes of the longest records whose members are moved one after the other.
const NARROW: usize = 16;
/// Bytes of a destination row that a staged tile fills, so that it has whole lines wherever it begins.
const STAGED_ROW: usize = 512;
/// Planes of fewer bytes are copied without a stage.
const STAGED_FROM: u64 = if cfg!(miri) { 256 } else { 4 << 10 };
/// Planes of fewer bytes are too small for moves by whole registers, for example of elements of four bytes.
const REGISTERS_FROM: u64 = 16 << 10;

/// How a tile is moved.
struct Tile {
    elem: usize,
    kernel: Kernel,
    square: Option<(usize, Square)>,
    /// For planes of records with few members.
    records: Option<Records>,
}

#[cfg(target_arch = "x86_64")]
use super::x86::{Square, square};

/// Without a kernel for squares, the whole tile is an edge.
#[cfg(not(target_arch = "x86_64"))]
type Square = unsafe fn(*const u8, isize, *mut u8, isize);
#[cfg(not(target_arch = "x86_64"))]
fn square(_elem: usize) -> Option<(usize, Square)> {
    None
}

/// A plane of two loops and how it is copied, chosen once for all planes of a copy.
pub(super) struct Tiled {
    tile: Tile,
    way: TileStage,
    near: Dim,
    inner: Dim,
}

/// Whether and how tiles are built in a stage.
enum TileStage {
    InPlace,
    /// Parts of destination rows.
    RowsInStage,
    /// Whole records.
    RecordsInStage,
}

impl Tiled {
    /// How to copy the plane of `near` (adjacent in the source) and `inner` (adjacent in the destination); if `far`,
    /// through a stage and past the caches.
    pub(super) fn of(elem: usize, near: Dim, inner: Dim, far: bool) -> Tiled {
        let dense = near.src_stride == elem as i64 && inner.dst_stride == elem as i64;
        let square = if dense { square(elem) } else { None };
        let mut tile = Tile { elem, kernel: strided::plain_kernel(elem), square, records: None };
        let bytes = near.count.saturating_mul(inner.count).saturating_mul(elem as u64);
        let joins = far && dense && bytes >= Stage::LEN as u64 && tile.joins(near, inner);
        let members = near.count.min(inner.count) as usize;
        // Members of 4 bytes are split one by one if registers hold many of them but no whole records.
        let filled = Records::fill(elem, members) && inner.src_stride == (members * elem) as i64;
        let splits = near.count <= inner.count;
        let registers = permutes() && bytes >= REGISTERS_FROM && splits && !filled;
        if dense && (joins || elem == 4 && !registers || !tile.narrow(members)) {
            tile.records = Records::of(elem, near, inner, square.map(|(side, _)| side), far);
        }
        let whole_records = tile.records.is_some_and(Records::joins);
        let long = inner.dst_stride == elem as i64 && inner.count as usize * elem >= 2 * stream::LINE;
        let way = match () {
            () if far && long && bytes >= STAGED_FROM && !whole_records => TileStage::RowsInStage,
            () if joins => TileStage::RecordsInStage,
            () => TileStage::InPlace,
        };
        Tiled { tile, way, near, inner }
    }

    /// Copies one such plane.
    ///
    /// # Safety
    /// Every element of the plane is readable from `src` and writable from `dst`; the two do not overlap.
    pub(super) unsafe fn run(&self, src: *const u8, dst: *mut u8) {
        let Tiled { tile, way, near, inner } = self;
        // SAFETY: the caller's guarantee.
        unsafe {
            match way {
                TileStage::InPlace => tile.in_place(*near, *inner, src, dst),
                TileStage::RowsInStage => tile.rows_in_stage(*near, *inner, src, dst),
                TileStage::RecordsInStage => tile.records_in_stage(*near, *inner, src, dst),
            }
        }
    }
}

/// The pointers of element `k` of a loop.
fn at(dim: Dim, k: usize, src: *const u8, dst: *mut u8) -> (*const u8, *mut u8) {
    let (s, d) = (k as i64 * dim.src_stride, k as i64 * dim.dst_stride);
    (src.wrapping_offset(s as isize), dst.wrapping_offset(d as isize))
}

/// A loop limited to `count` steps.
fn cut(dim: Dim, count: usize) -> Dim {
    Dim { count: count as u64, ..dim }
}

impl Tile {
    /// Whether this many elements side by side are members of records that are moved faster member by member. Measured:
    /// 1.2 to 5 times as fast with members of 1 and 2 bytes and with two to four of 4 bytes, slower with three of 8.
    fn narrow(&self, side: usize) -> bool {
        self.elem <= 4 && side * self.elem <= NARROW
    }

    /// Whether the plane has short records that are adjacent in the destination.
    fn joins(&self, near: Dim, inner: Dim) -> bool {
        let record = inner.count.saturating_mul(self.elem as u64);
        record <= 2 * stream::LINE as u64 && near.dst_stride == record as i64
    }

    /// # Safety
    /// As for [`Tiled::run`].
    unsafe fn in_place(&self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        if let Some(records) = self.records {
            // SAFETY: the caller's guarantee.
            return unsafe { records.run(near, inner, src, dst) };
        }
        let (rows, cols) = (near.count as usize, inner.count as usize);
        // Parts that are too narrow for squares (members of records) are moved in loops of their own, which may be
        // long.
        let narrow =
            self.narrow(rows.min(cols)) && self.square.is_some_and(|(side, _)| rows.min(cols) < side);
        let area = if narrow { Stage::LEN / self.elem } else { AREA };
        let near_step = SIDE.max(area / cols.min(SIDE)).min(rows);
        let inner_step = SIDE.max(area / rows.min(SIDE)).min(cols);
        for b in (0..cols).step_by(inner_step) {
            let inner_cut = cut(inner, inner_step.min(cols - b));
            for a in (0..rows).step_by(near_step) {
                let (src, dst) = at(near, a, src, dst);
                let (src, dst) = at(inner, b, src, dst);
                // SAFETY: the tile is part of the plane.
                unsafe { self.tile(cut(near, near_step.min(rows - a)), inner_cut, src, dst) }
            }
        }
    }

    /// Copies rows: columns of records past the caches at once if possible, else tile by tile.
    ///
    /// # Safety
    /// As for [`Tiled::run`]; the inner loop is dense in the destination.
    unsafe fn rows_in_stage(&self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        if let Some(records) = self.records.and_then(|records| records.passing(near, inner, dst)) {
            // SAFETY: the caller's guarantee.
            return unsafe { records.run(near, inner, src, dst) };
        }
        let mut stage = Stage::new();
        let (rows, cols) = (near.count as usize, inner.count as usize);
        let row = Stage::LEN / rows.max(1) / stream::LINE * stream::LINE;
        let inner_step = (row.max(STAGED_ROW) / self.elem).max(1);
        // Tiles begin at a line of the destination if all its rows allow that.
        let lead = match dst.align_offset(stream::LINE) {
            skew if near.dst_stride % stream::LINE as i64 == 0 && skew % self.elem == 0 => skew / self.elem,
            _ => 0,
        };
        let mut b = 0;
        while b < cols {
            let width = if b == 0 && lead > 0 { lead } else { inner_step }.min(cols - b);
            let inner_cut = cut(inner, width);
            let pitch = (width * self.elem).next_multiple_of(stream::LINE);
            let near_step = (Stage::LEN / pitch).min(rows);
            for a in (0..rows).step_by(near_step) {
                let (src, dst) = at(near, a, src, dst);
                let (src, dst) = at(inner, b, src, dst);
                let near_cut = cut(near, near_step.min(rows - a));
                let in_stage = Dim { dst_stride: pitch as i64, ..near_cut };
                let built = stage.bytes();
                // SAFETY: the tile is part of the plane; `near_step` rows of `pitch` bytes fit in the stage.
                unsafe {
                    self.tile(in_stage, inner_cut, src, built);
                    for row in 0..near_cut.count as usize {
                        let to = dst.wrapping_offset(row as isize * near.dst_stride as isize);
                        stream::copy(built.add(row * pitch), to, width * self.elem);
                    }
                }
            }
            b += width;
        }
    }

    /// Copies adjacent records: past the caches at once if possible, else as many at a time as the stage holds.
    ///
    /// # Safety
    /// As for [`Tiled::run`]; [`joins`](Self::joins) is true for the plane.
    unsafe fn records_in_stage(&self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        if let Some(records) = self.records.and_then(|records| records.passing(near, inner, dst)) {
            // SAFETY: the caller's guarantee.
            return unsafe { records.run(near, inner, src, dst) };
        }
        let mut stage = Stage::new();
        let (count, record) = (near.count as usize, near.dst_stride as usize);
        // Whole lines; the first begins where one of the first records begins, if possible.
        let most = Stage::LEN / record / stream::LINE * stream::LINE;
        let lead = (1..=stream::LINE).find(|k| (dst.addr() + k * record).is_multiple_of(stream::LINE));
        let mut a = 0;
        while a < count {
            let taken = if a == 0 { lead.unwrap_or(most) } else { most }.min(count - a);
            let (src, dst) = at(near, a, src, dst);
            // SAFETY: these records are part of the plane, and the stage holds them.
            unsafe {
                self.tile(cut(near, taken), inner, src, stage.bytes());
                stream::copy(stage.bytes(), dst, taken * record);
            }
            a += taken;
        }
    }

    /// Moves one tile: squares, then the rest at the right and at the bottom.
    ///
    /// # Safety
    /// As for [`Tiled::run`].
    unsafe fn tile(&self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        if let Some(records) = self.records {
            // SAFETY: the caller's guarantee.
            return unsafe { records.run(near, inner, src, dst) };
        }
        let (rows, cols) = (near.count as usize, inner.count as usize);
        let (mut whole_rows, mut whole_cols) = (0, 0);
        if let Some((side, square)) = self.square {
            (whole_rows, whole_cols) = (rows / side * side, cols / side * side);
            let (src_pitch, dst_pitch) = (inner.src_stride as isize, near.dst_stride as isize);
            for b in (0..whole_cols).step_by(side) {
                for a in (0..whole_rows).step_by(side) {
                    let (src, dst) = at(near, a, src, dst);
                    let (src, dst) = at(inner, b, src, dst);
                    // SAFETY: the square is part of the plane, and dense along each side's rows.
                    unsafe { square(src, src_pitch, dst, dst_pitch) }
                }
            }
        }
        // SAFETY: both rests are parts of the plane.
        unsafe {
            let (right_src, right_dst) = at(inner, whole_cols, src, dst);
            self.edge(cut(near, whole_rows), cut(inner, cols - whole_cols), right_src, right_dst);
            let (below_src, below_dst) = at(near, whole_rows, src, dst);
            self.edge(cut(near, rows - whole_rows), inner, below_src, below_dst);
        }
    }

    /// # Safety
    /// As for [`Tiled::run`].
    unsafe fn edge(&self, near: Dim, inner: Dim, src: *const u8, dst: *mut u8) {
        let plane = if near.count > inner.count { Plane::new(inner, near) } else { Plane::new(near, inner) };
        let narrow = self.narrow(near.count.min(inner.count) as usize);
        let wide = if narrow { super::wide_kernel(self.elem, &plane) } else { None };
        let kernel = wide.unwrap_or(self.kernel);
        // SAFETY: the caller's guarantee.
        unsafe { kernel(self.elem, plane, src, dst) }
    }
}
