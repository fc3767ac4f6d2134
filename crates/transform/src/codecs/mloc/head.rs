//! The head of MLOC bytes: levels and their order, bins, boxes, and a directory of all cells
//! (docs/format/encodings.md).

use crate::TransformError;
use crate::codecs::aplod::level::Level as Exactness;
use crate::codecs::section::Method;
use crate::head::Head;
use crate::stats::class::Class;

use super::order::{Level, MAX_BINS};
use super::space::{MAX_VOLUME, Space};

pub(super) const VERSION: u8 = 1;
const MAX_COMPONENTS: usize = 8;
/// Flag in the directory: the cell is a zstd frame.
const ZSTD: u32 = 1 << 31;

/// A cell of one bin in one box: positions of its numbers, or some of their bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) start: u64,
    pub(super) stored: u64,
    pub(super) method: Method,
}

/// The layout of a subchunk, known before its data is read.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) class: Class,
    pub(super) order: [Level; 3],
    pub(super) space: Space,
    /// Bytes of each component.
    pub(super) components: Vec<usize>,
    /// One level for each component but the last.
    pub(super) levels: Vec<Exactness>,
    /// The first key of each bin but the first.
    pub(super) edges: Vec<u64>,
    /// Number of values in each bin of each box, box by box.
    pub(super) counts: Vec<u32>,
    /// Cells by box, bin and part; part 0 has the positions.
    pub(super) cells: Vec<Option<Cell>>,
    /// Where the bytes after the last whole scalar begin.
    pub(super) tail: u64,
}

impl Layout {
    pub(super) fn bins(&self) -> usize {
        self.edges.len() + 1
    }

    /// Number of parts: the positions, and the components.
    pub(super) fn parts(&self) -> usize {
        self.components.len() + 1
    }

    pub(super) fn boxes(&self) -> usize {
        self.counts.len() / self.bins()
    }

    pub(super) fn count(&self, space: usize, bin: usize) -> u32 {
        self.counts.get(space * self.bins() + bin).copied().unwrap_or(0)
    }

    pub(super) fn cell(&self, space: usize, bin: usize, part: usize) -> Option<Cell> {
        *self.cells.get((space * self.bins() + bin) * self.parts() + part)?
    }

    /// Every cell that is not empty, as (box, bin, part), in stored order.
    pub(super) fn stored_order(&self) -> Result<Vec<(usize, usize, usize)>, TransformError> {
        let along = self.space.order()?;
        let sizes = self.order.map(|level| match level {
            Level::Value => self.bins(),
            Level::Space => along.len(),
            Level::Precision => self.parts(),
        });
        let mut cells = Vec::with_capacity(self.cells.len());
        for a in 0..sizes[0] {
            for b in 0..sizes[1] {
                for c in 0..sizes[2] {
                    let (mut space, mut bin, mut part) = (0, 0, 0);
                    for (level, at) in self.order.iter().zip([a, b, c]) {
                        match level {
                            Level::Value => bin = at,
                            Level::Space => space = along.get(at).map_or(0, |&number| number as usize),
                            Level::Precision => part = at,
                        }
                    }
                    if self.count(space, bin) > 0 && (part > 0 || self.bins() > 1) {
                        cells.push((space, bin, part));
                    }
                }
            }
        }
        Ok(cells)
    }

    pub(super) fn read(bytes: &[u8], encoded_len: u64, decoded_len: u64) -> Result<Layout, TransformError> {
        let head = &mut Head::new(bytes);
        head.version("mloc", VERSION)?;
        let (width, class, number) = (usize::from(head.u8()?), head.u8()?, usize::from(head.u8()?));
        let len = head.u32()?;
        let known = matches!(width, 1 | 2 | 4 | 8).then(|| Class::from_code(class, width)).flatten();
        let Some(class) = known else {
            return Err(head.corrupt(&format!("scalars of class {class} in {width} bytes")));
        };
        let order = [head.u8()?, head.u8()?, head.u8()?].map(Level::from_code);
        let ([Some(a), Some(b), Some(c)], 1..=MAX_COMPONENTS) = (order, number) else {
            return Err(head.corrupt("an unknown order"));
        };
        if a == b || b == c || a == c {
            return Err(head.corrupt("a level twice in the order"));
        }
        let count = decoded_len / width as u64;
        let space = Space::read(head, count)?;
        let components = head.take(number)?.iter().map(|&bytes| usize::from(bytes)).collect::<Vec<_>>();
        if components.iter().sum::<usize>() != width || components.contains(&0) {
            return Err(head.corrupt(&format!("components that do not make up {width} bytes")));
        }
        let mut levels = Vec::with_capacity(number);
        for _ in 1..number {
            levels.push(Exactness::read(head)?);
        }
        let bins = head.u32()?;
        if bins == 0 || bins > MAX_BINS {
            return Err(head.corrupt(&format!("{bins} bins")));
        }
        let mut edges = Vec::with_capacity(bins as usize);
        for _ in 1..bins {
            let edge = u64::from(head.u32()?) | u64::from(head.u32()?) << 32;
            if edges.last().is_some_and(|last| *last >= edge) {
                return Err(head.corrupt("bins that do not ascend"));
            }
            edges.push(edge);
        }
        let boxes = if count == 0 { 0 } else { space.boxes() };
        // Each box has at least one number in the directory, so its memory is backed by bytes.
        let cells = boxes.saturating_mul(u64::from(bins));
        if cells.saturating_mul(4) > bytes.len() as u64 * if bins == 1 { 2 } else { 1 } {
            return Err(head.corrupt(&format!("{boxes} boxes of {bins} bins")));
        }
        let mut counts = Vec::with_capacity(cells as usize);
        for number in 0..boxes {
            let volume = space.cut(number).volume();
            if bins > 1 && volume > MAX_VOLUME {
                return Err(head.corrupt(&format!("a box of {volume} numbers")));
            }
            let mut sum = 0;
            for _ in 0..bins {
                let count = if bins == 1 { volume as u32 } else { head.u32()? };
                sum += u64::from(count);
                counts.push(count);
            }
            if sum != volume {
                return Err(head.corrupt(&format!("bins of {sum} numbers in a box of {volume}")));
            }
        }
        let all = counts.len().saturating_mul(number + 1);
        let mut layout = Layout {
            width,
            class,
            order: [a, b, c],
            space,
            components,
            levels,
            edges,
            counts,
            cells: Vec::new(),
            tail: 0,
        };
        layout.cells = vec![None; all];
        let stored = if boxes == 0 { Vec::new() } else { layout.stored_order()? };
        let directory = head.take(stored.len().saturating_mul(4))?;
        let mut at = head.len() as u64;
        if at != u64::from(len) {
            return Err(head.corrupt(&format!("a head of {at} bytes that states {len}")));
        }
        for ((space, bin, part), entry) in stored.into_iter().zip(directory.as_chunks::<4>().0) {
            let entry = u32::from_le_bytes(*entry);
            let (len, zstd) = (u64::from(entry & !ZSTD), entry & ZSTD != 0);
            let method = if zstd { Method::Zstd } else { Method::Raw };
            let numbers = u64::from(layout.count(space, bin));
            match layout.components.get(part.wrapping_sub(1)) {
                Some(&bytes) => method.check(len, numbers * bytes as u64)?,
                None if zstd => return Err(head.corrupt("compressed places")),
                None => {}
            }
            let slot = (space * layout.bins() + bin) * layout.parts() + part;
            if let Some(cell) = layout.cells.get_mut(slot) {
                *cell = Some(Cell { start: at, stored: len, method });
            }
            at = at.saturating_add(len);
        }
        layout.tail = at;
        let end = at.saturating_add(decoded_len % width as u64);
        if end != encoded_len {
            return Err(head.corrupt(&format!("{encoded_len} bytes where the head states {end}")));
        }
        Ok(layout)
    }

    /// Writes the head up to the directory; the caller writes its length at byte 4.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend([VERSION, self.width as u8, self.class.code(), self.components.len() as u8, 0, 0, 0, 0]);
        out.extend(self.order.map(Level::code));
        self.space.write(out);
        out.extend(self.components.iter().map(|&bytes| bytes as u8));
        self.levels.iter().for_each(|level| level.write(out));
        out.extend_from_slice(&(self.bins() as u32).to_le_bytes());
        self.edges.iter().for_each(|edge| out.extend_from_slice(&edge.to_le_bytes()));
        if self.bins() > 1 {
            self.counts.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        }
    }

    /// Writes an entry of the directory.
    pub(super) fn write_entry(len: usize, method: Method, out: &mut Vec<u8>) {
        let entry = len as u32 | if method == Method::Zstd { ZSTD } else { 0 };
        out.extend_from_slice(&entry.to_le_bytes());
    }
}
