//! ISOBAR: only the byte columns that compress are compressed; the others are stored raw.
//!
//! The last bytes of a measured or computed number are noise: a compressor spends most of its time on them and gains
//! nothing. A column is hard to compress if no byte value stands out in its histogram. That test misses columns whose
//! byte values are evenly distributed but repeat in order, so such a column is also tried on a sample. Raw columns are
//! byte planes, so a part of the elements is a range of each.
//!
//! The compressor of the chosen columns (the *solver*), and whether it sees them column by column or element by
//! element, are either given or chosen on a sample of each subchunk (`prefer=ratio`; the paper's EUPA selector).
//!
//! Method: Schendel et al., "ISOBAR preconditioner for effective and high-throughput lossless data
//! compression", ICDE 2012.

use std::ops::Range;

use crate::codecs::columns::{Runs, gather};
use crate::codecs::deflate::Zlib;
use crate::codecs::section::{self, Method};
use crate::codecs::shuffle::kernel;
use crate::head::Head;
use crate::params::{Params, named_text};
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::{
    Bound, Codec, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk,
    TransformError, Transparent, Want, Zstd,
};

/// Version 1 is zstd, column by column. Version 2 has a byte that states both choices.
const VERSION: u8 = 2;
/// Flag in that byte: the columns are compressed element by element.
const ROWS: u8 = 0x10;
/// Bytes of each chosen column that are tried.
const TRIED: usize = 16 << 10;
/// A column is hard to compress if its most frequent byte occurs less often than this multiple of the mean.
const STANDS_OUT: f64 = 1.42;
/// A hard column is still compressed if a sample of it shrinks below this part.
const WORTH_IT: f64 = 0.95;
const MAX_WIDTH: usize = 64;
const DEFAULT_LEVEL: i64 = 3;

/// The compressor of the chosen columns. Its codes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Solver {
    Zstd = 1,
    Zlib = 2,
}

/// How the chosen columns are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnCoding {
    solver: Solver,
    /// Whether columns are compressed element by element.
    rows: bool,
}

const PLAIN: ColumnCoding = ColumnCoding { solver: Solver::Zstd, rows: false };

impl ColumnCoding {
    fn code(self) -> u8 {
        self.solver as u8 | if self.rows { ROWS } else { 0 }
    }

    fn from_code(code: u8) -> Option<ColumnCoding> {
        let solver = match code & !ROWS {
            1 => Solver::Zstd,
            2 => Solver::Zlib,
            _ => return None,
        };
        Some(ColumnCoding { solver, rows: code & ROWS != 0 })
    }
}

/// The ISOBAR codec.
#[derive(Clone, Debug)]
pub struct Isobar {
    level: i64,
    zstd: Zstd,
    solver: Option<Solver>,
    rows: Option<bool>,
    /// Whether choices that are not given minimise bytes; else time.
    ratio: bool,
}

impl Isobar {
    /// Compresses columns with zstd at a level from -7 to 22.
    pub fn new(level: i32) -> Result<Isobar, TransformError> {
        Ok(Isobar { level: level.into(), zstd: Zstd::new(level)?, solver: None, rows: None, ratio: false })
    }

    pub(crate) fn from_params(params: &[Param]) -> Result<Isobar, TransformError> {
        let params = Params::read("isobar", &["level", "solver", "order", "prefer"], params)?;
        let level = params.int("level", -7..=22)?.unwrap_or(DEFAULT_LEVEL);
        let solver = params.word("solver", &["zstd", "zlib"])?;
        let solver = solver.map(|name| if name == "zlib" { Solver::Zlib } else { Solver::Zstd });
        let rows = params.word("order", &["column", "row"])?.map(|name| name == "row");
        let ratio = params.word("prefer", &["speed", "ratio"])? == Some("ratio");
        Ok(Isobar { solver, rows, ratio, ..Isobar::new(level as i32)? })
    }

    /// zlib at the given level, or at its default.
    fn zlib(&self) -> Zlib {
        Zlib::new(self.level.clamp(1, 9) as u32)
    }

    /// How columns of `count` bytes each are compressed: as given. Choices left open are the fastest ones, or those
    /// that make a sample smallest.
    fn way(
        &self,
        columns: &[u8],
        count: usize,
        scratch: &mut Scratch,
    ) -> Result<ColumnCoding, TransformError> {
        let fast = ColumnCoding {
            solver: self.solver.unwrap_or(PLAIN.solver),
            rows: self.rows.unwrap_or(PLAIN.rows),
        };
        if !self.ratio {
            return Ok(fast);
        }
        let from = count.saturating_sub(TRIED) / 2;
        let own = |column: &[u8]| column.get(from..from + count.min(TRIED)).unwrap_or_default().to_vec();
        let sample: Vec<u8> = columns.chunks_exact(count.max(1)).flat_map(own).collect();
        let mut best = (usize::MAX, fast);
        for solver in [Solver::Zstd, Solver::Zlib] {
            for rows in [false, true] {
                let way = ColumnCoding { solver, rows };
                let given = self.solver.is_none_or(|s| s == solver) && self.rows.is_none_or(|r| r == rows);
                if given {
                    let mut made = Vec::new();
                    self.solve(&sample, count.min(TRIED), way, &mut made, scratch)?;
                    best = if made.len() < best.0 { (made.len(), way) } else { best };
                }
            }
        }
        Ok(best.1)
    }

    /// Appends the compressed columns of `count` bytes each.
    fn solve(
        &self,
        columns: &[u8],
        count: usize,
        way: ColumnCoding,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let logical = Logical::scalars(1, 0);
        let mut by_rows = Vec::new();
        let width = columns.len() / count.max(1);
        let bytes = if way.rows && width > 1 {
            by_rows.resize(columns.len(), 0);
            kernel::unshuffle(columns, width, &mut by_rows);
            &by_rows
        } else {
            columns
        };
        match way.solver {
            Solver::Zstd => {
                scratch.alike = (!way.rows).then_some(count);
                self.zstd.encode(bytes, &logical, out, scratch)
            }
            Solver::Zlib => self.zlib().encode(bytes, &logical, out, scratch),
        }
    }

    /// Whether a column is worth compressing.
    fn compresses(&self, column: &[u8], scratch: &mut Scratch) -> Result<bool, TransformError> {
        let mut counts = [0u32; 256];
        for &byte in column {
            counts[usize::from(byte)] += 1;
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        let stands_out = f64::from(most) >= STANDS_OUT * column.len() as f64 / 256.0;
        // The histogram of few elements is always uneven, so then only the sample decides.
        if stands_out && column.len() >= 4096 {
            return Ok(true);
        }
        section::shrinks(column, &self.zstd, WORTH_IT, scratch)
    }
}

/// The content of the head.
struct Layout {
    width: usize,
    /// For each byte of an element, least significant first: whether its column is compressed.
    compressed: Vec<bool>,
    /// Length of the frame that holds the compressed columns.
    frame: u64,
    way: ColumnCoding,
    head: u64,
    count: u64,
}

impl Layout {
    fn read(bytes: &[u8], encoded_len: u64, decoded_len: u64) -> Result<Layout, TransformError> {
        let head = &mut Head::new(bytes);
        let version = head.version("isobar", VERSION)?;
        let width = usize::from(head.u8()?);
        if width == 0 || width > MAX_WIDTH {
            return Err(head.corrupt(&format!("elements of {width} bytes")));
        }
        let bitmap = head.take(width.div_ceil(8))?;
        let compressed: Vec<bool> =
            (0..width).map(|j| bitmap.get(j / 8).is_some_and(|bits| bits >> (j % 8) & 1 == 1)).collect();
        if width % 8 > 0 && bitmap.last().is_some_and(|bits| bits >> (width % 8) > 0) {
            return Err(head.corrupt("a column beyond the last byte"));
        }
        let way = if version == 1 { PLAIN.code() } else { head.u8()? };
        let Some(way) = ColumnCoding::from_code(way) else {
            return Err(TransformError::Unsupported { what: format!("isobar columns compressed by {way}") });
        };
        let frame = u64::from(head.u32()?);
        let (head_len, count) = (head.len() as u64, decoded_len / width as u64);
        let layout = Layout { width, compressed, frame, way, head: head_len, count };
        let columns = layout.columns() as u64;
        if columns == 0 && frame > 0 {
            return Err(head.corrupt("a frame without columns"));
        }
        if columns > 0 {
            Method::Zstd.check(frame, columns.saturating_mul(layout.count))?;
        }
        let raw = (width as u64 - columns).saturating_mul(layout.count);
        let all =
            layout.head.saturating_add(frame).saturating_add(raw).saturating_add(decoded_len % width as u64);
        if all != encoded_len {
            return Err(head.corrupt(&format!("{encoded_len} bytes where the head states {all}")));
        }
        Ok(layout)
    }

    /// Number of compressed columns.
    fn columns(&self) -> usize {
        self.compressed.iter().filter(|&&c| c).count()
    }

    /// Where the raw columns begin.
    fn raw(&self) -> u64 {
        self.head + self.frame
    }

    /// Where the bytes after the last whole element begin.
    fn tail(&self) -> u64 {
        self.raw() + (self.width - self.columns()) as u64 * self.count
    }
}

impl Codec for Isobar {
    fn spec(&self) -> CodecSpec {
        let mut params = vec![Param::Int(self.level)];
        let zlib = |solver| if solver == Solver::Zlib { "zlib" } else { "zstd" };
        params.extend(self.solver.map(|solver| named_text("solver", zlib(solver))));
        params.extend(self.rows.map(|rows| named_text("order", if rows { "row" } else { "column" })));
        params.extend(self.ratio.then(|| named_text("prefer", "ratio")));
        CodecSpec { name: "isobar".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(7 + MAX_WIDTH / 8)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let width = if (1..=MAX_WIDTH).contains(&logical.scalar) { logical.scalar } else { 1 };
        let count = data.len() / width;
        let (elements, tail) = data.split_at(count * width);
        let mut planes = std::mem::take(&mut scratch.planes);
        planes.clear();
        kernel::shuffle(elements, width, &mut planes);
        let mut chosen = std::mem::take(&mut scratch.body);
        chosen.clear();
        let mut bitmap = vec![0u8; width.div_ceil(8)];
        let mut compressed = vec![false; width];
        for (j, column) in planes.chunks_exact(count.max(1)).enumerate() {
            if self.compresses(column, scratch)? {
                chosen.extend_from_slice(column);
                compressed[j] = true;
                bitmap[j / 8] |= 1 << (j % 8);
            }
        }
        let mut frame = Vec::new();
        let mut way = PLAIN;
        if !chosen.is_empty() {
            way = self.way(&chosen, count, scratch)?;
            self.solve(&chosen, count, way, &mut frame, scratch)?;
            if frame.len() >= chosen.len() {
                (bitmap, compressed) = (vec![0; bitmap.len()], vec![false; width]);
                frame.clear();
                way = PLAIN;
            }
        }
        out.extend([if way == PLAIN { 1 } else { VERSION }, width as u8]);
        out.extend_from_slice(&bitmap);
        out.extend(Some(way.code()).filter(|_| way != PLAIN));
        out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        out.extend_from_slice(&frame);
        for (column, _) in planes.chunks_exact(count.max(1)).zip(&compressed).filter(|(_, c)| !**c) {
            out.extend_from_slice(column);
        }
        out.extend_from_slice(tail);
        (scratch.planes, scratch.body) = (planes, chosen);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(encoded, encoded.len() as u64, out.len() as u64)?;
        let all = [0..out.len() as u64; 1];
        let fetched = Fetched::new(vec![(0, encoded)]);
        decode(&layout, &fetched, &all, &mut Pieces::new(out), scratch)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

impl Transparent for Isobar {
    fn meta_len(&self, encoded: &[u8]) -> usize {
        let way = usize::from(encoded.first().is_some_and(|version| *version > 1));
        6 + way + usize::from(encoded.get(1).copied().unwrap_or(0)).div_ceil(8)
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        let runs = Runs::of(want.ranges, layout.width as u64, layout.count);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut add = |range: Range<u64>| join(&mut ranges, range, 0);
        if !runs.elements.is_empty() {
            add(layout.head..layout.raw());
        }
        for column in 0..(layout.width - layout.columns()) as u64 {
            let at = layout.raw() + column * layout.count;
            runs.elements.iter().for_each(|run| add(at + run.start..at + run.end));
        }
        add(layout.tail()..layout.tail() + runs.tail);
        Ok(Planned { ranges, bound: Bound::EXACT })
    }

    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        _logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let layout = Layout::read(stored.meta, stored.len, stored.decoded_len as u64)?;
        decode(&layout, fetched, want.ranges, pieces, scratch)
    }
}

fn decode(
    layout: &Layout,
    fetched: &Fetched<'_>,
    wanted: &[Range<u64>],
    pieces: &mut Pieces<'_>,
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    let (width, count) = (layout.width, layout.count);
    let runs = Runs::of(wanted, width as u64, count);
    let total = runs.count() as usize;
    let mut unpacked = std::mem::take(&mut scratch.body);
    if layout.columns() > 0 && total > 0 {
        let frame = fetched.get(layout.head..layout.raw())?;
        let len = layout.columns() * count as usize;
        set_len_reusing(&mut unpacked, len);
        match layout.way.solver {
            Solver::Zstd => Method::Zstd.unpack(frame, &mut unpacked, scratch)?,
            Solver::Zlib => Zlib::new(1).decode(frame, &Logical::scalars(1, 0), &mut unpacked, scratch)?,
        }
        if layout.way.rows && layout.columns() > 1 {
            let mut columns = Vec::with_capacity(len);
            kernel::shuffle(&unpacked, layout.columns(), &mut columns);
            unpacked = columns;
        }
    }
    let mut planes = std::mem::take(&mut scratch.planes);
    set_len_reusing(&mut planes, total * width);
    let (mut from_frame, mut from_raw) = (0, layout.raw());
    for (plane, compressed) in planes.chunks_exact_mut(total.max(1)).zip(&layout.compressed) {
        if *compressed {
            let column = unpacked.get(from_frame..from_frame + count as usize).unwrap_or_default();
            gather(&runs, plane, |run| {
                Ok(column.get(run.start as usize..run.end as usize).unwrap_or_default())
            })?;
            from_frame += count as usize;
        } else {
            gather(&runs, plane, |run| fetched.get(from_raw + run.start..from_raw + run.end))?;
            from_raw += count;
        }
    }
    runs.place(&planes, width, pieces, &mut unpacked, |_| {})?;
    let tail = fetched.get(layout.tail()..layout.tail() + runs.tail)?;
    let body = count * width as u64;
    pieces.place(body..body + runs.tail)?.copy_from_slice(tail);
    (scratch.planes, scratch.body) = (planes, unpacked);
    Ok(())
}
