//! zfp: blocks of 4 x 4 x 4 floats, transformed and truncated to a tolerance, a precision, a rate, or not at all.
//!
//! The bytes are complete zfp streams with their header, as the zfp library and its tools read and write them: one for
//! each scalar of an element, one after the other. Only safe code decodes them.
//!
//! Invariants
//! - with a tolerance no finite number has a larger error: each block is checked when it is written. A subchunk with a
//!   block that would exceed the tolerance, or with numbers that are not finite, is written losslessly in the
//!   reversible mode;
//! - a stream states how it was written, so a reader needs no parameters.

mod bits;
mod block;

use bits::{Reader, Writer};
use block::{Block, Format, MOST, Mode};

use crate::number;
use crate::params::{Params, named_int, named_number};
use crate::stats::ScalarKind;
use crate::{Bound, Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

/// The letters `zfp`, and the version of the codec.
const MAGIC: u64 = 0x05_70_66_7A;
const REVERSIBLE: u64 = 2048 + 128;
const LEAST_EXPONENT: i32 = -1074;
const MOST_EXPONENT: i32 = 843;

/// What limits the bits that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ZfpMode {
    All,
    Tolerance(f64),
    Precision(u32),
    Rate(f64),
}

/// The zfp codec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Zfp {
    kept: ZfpMode,
    kind: Option<ScalarKind>,
}

/// The numbers of one stream: a grid of at most three axes, fastest first, of every `step`-th scalar.
struct Grid {
    format: Format,
    extents: Vec<usize>,
    step: usize,
    first: usize,
}

impl Zfp {
    pub(crate) fn from_params(params: &[Param]) -> Result<Zfp, TransformError> {
        let params = Params::read("zfp", &["tolerance", "precision", "rate", "dtype"], params)?;
        let tolerance = params.number("tolerance", f64::MIN_POSITIVE..=f64::MAX)?;
        let precision = params.int("precision", 1..=64)?;
        let rate = params.number("rate", 1.0..=32.0)?;
        let kept = match (tolerance, precision, rate) {
            (None, None, None) => ZfpMode::All,
            (Some(most), None, None) => ZfpMode::Tolerance(most),
            (None, Some(planes), None) => ZfpMode::Precision(planes as u32),
            (None, None, Some(bits)) => ZfpMode::Rate(bits),
            _ => {
                let problem = "takes one of tolerance, precision and rate, or none to keep every bit";
                return Err(TransformError::bad_parameter("zfp", problem));
            }
        };
        let kind = number::from_params(&params)?;
        kind.map_or(Ok(0), width)?;
        Ok(Zfp { kept, kind })
    }

    fn mode(&self, grid: &Grid) -> Mode {
        match self.kept {
            ZfpMode::All => Mode::Reversible,
            ZfpMode::Precision(planes) => Mode::Precision(planes.min(8 * grid.format.width as u32)),
            ZfpMode::Rate(bits) => {
                let head = if grid.format.width == 4 { 9 } else { 12 };
                Mode::Rate(((bits * grid.block_len() as f64 + 0.5) as u32).max(head))
            }
            // The exponent of the greatest power of two not above it.
            ZfpMode::Tolerance(most) => {
                let exponent = (most.to_bits() >> 52) as i32 - 1023;
                Mode::Accuracy(exponent.clamp(LEAST_EXPONENT, MOST_EXPONENT))
            }
        }
    }

    fn grids(&self, len: usize, logical: &Logical) -> Result<(Vec<Grid>, usize), TransformError> {
        grids(len, width(self.kind.unwrap_or(logical.kind))?, logical)
    }

    fn tolerance(&self) -> f64 {
        if let ZfpMode::Tolerance(most) = self.kept { most } else { f64::INFINITY }
    }
}

/// The code of a mode in the header, in 12 bits.
fn mode_code(mode: Mode) -> u64 {
    match mode {
        Mode::Rate(bits) => u64::from(bits - 1),
        Mode::Precision(planes) => 2048 + u64::from(planes - 1),
        Mode::Reversible => REVERSIBLE,
        Mode::Accuracy(exponent) => REVERSIBLE + 1 + (exponent - LEAST_EXPONENT) as u64,
    }
}

fn mode_from(code: u64) -> Option<Mode> {
    match code {
        0..2048 => Some(Mode::Rate(code as u32 + 1)),
        2048..2112 => Some(Mode::Precision(code as u32 - 2048 + 1)),
        REVERSIBLE => Some(Mode::Reversible),
        2177..4095 => Some(Mode::Accuracy((code - REVERSIBLE - 1) as i32 + LEAST_EXPONENT)),
        _ => None,
    }
}

/// Bytes of a number that zfp supports; for other kinds an error that names those.
fn width(kind: ScalarKind) -> Result<usize, TransformError> {
    match kind {
        ScalarKind::F32 => Ok(4),
        ScalarKind::F64 => Ok(8),
        _ => {
            let problem = "compresses float32 and float64; for other data use zstd, or shuffle,zstd:1";
            Err(TransformError::bad_parameter("zfp", problem))
        }
    }
}

/// The grids of `len` bytes, one for each scalar of an element, and the number of bytes in whole scalars.
fn grids(len: usize, width: usize, logical: &Logical) -> Result<(Vec<Grid>, usize), TransformError> {
    let scalars = len / width;
    let step = if logical.item.is_multiple_of(width) { (logical.item / width).max(1) } else { 1 };
    let step = if scalars.is_multiple_of(step) { step } else { 1 };
    let count = scalars / step;
    let told = logical.shape.iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
    let shape = if told == Some(count as u64) { logical.shape.as_slice() } else { &[count as u64] };
    let extents = axes(shape, count);
    let grid = |first| Grid { format: Format { width }, extents: extents.clone(), step, first };
    Ok((if count == 0 { Vec::new() } else { (0..step).map(grid).collect() }, scalars * width))
}

/// A shape as one to three axes, fastest first: short axes, and those beyond three, are merged with an adjacent one.
fn axes(shape: &[u64], count: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = Vec::new();
    for &extent in shape.iter().rev().filter(|extent| **extent > 1) {
        let (extent, full) = (extent as usize, axes.len() == 3);
        match axes.last_mut() {
            Some(last) if *last < 4 || extent < 4 || full => *last *= extent,
            _ => axes.push(extent),
        }
    }
    if axes.len() == 3 && axes.iter().any(|extent| *extent > 1 << 16) {
        let slowest = axes.pop().unwrap_or(1);
        axes.iter_mut().skip(1).for_each(|extent| *extent *= slowest);
    }
    if axes.is_empty() { vec![count] } else { axes }
}

impl Grid {
    fn block_len(&self) -> usize {
        1 << (2 * self.extents.len())
    }

    /// The corner and the extents of each block, in stream order.
    fn blocks(&self) -> impl Iterator<Item = ([usize; 3], [usize; 3])> + use<> {
        let extent = |axis: usize| self.extents.get(axis).copied().unwrap_or(1);
        let all = [extent(0), extent(1), extent(2)];
        let starts = |axis: usize| (0..all[axis]).step_by(4);
        let corners = starts(2).flat_map(move |z| {
            (0..all[1]).step_by(4).flat_map(move |y| (0..all[0]).step_by(4).map(move |x| [x, y, z]))
        });
        corners.map(move |corner| (corner, std::array::from_fn(|axis| (all[axis] - corner[axis]).min(4))))
    }

    /// Index of a number among all scalars.
    #[inline(always)]
    fn place(&self, [x, y, z]: [usize; 3]) -> usize {
        let (wide, high) = (self.extents[0], self.extents.get(1).copied().unwrap_or(1));
        ((z * high + y) * wide + x) * self.step + self.first
    }

    /// The 52 bits of the header after the magic: type, number of axes, and extents.
    fn field(&self) -> u64 {
        let bits = 48 / self.extents.len() as u32;
        let extents = self.extents.iter().rev().fold(0, |field, extent| field << bits | (extent - 1) as u64);
        let kind = if self.format.width == 4 { 2 } else { 3 };
        (extents << 2 | (self.extents.len() - 1) as u64) << 2 | kind
    }

    fn read(&self, data: &[u8], at: usize) -> u64 {
        let bytes = data.get(at * self.format.width..).unwrap_or_default();
        match self.format.width {
            4 => bytes.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes))),
            _ => bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        }
    }

    /// The numbers of a block. Cells outside the grid repeat those inside.
    fn gather(&self, data: &[u8], corner: [usize; 3], extents: [usize; 3]) -> Block {
        let mut block = [0; MOST];
        for z in 0..extents[2] {
            for y in 0..extents[1] {
                let from = self.place([corner[0], corner[1] + y, corner[2] + z]);
                for x in 0..extents[0] {
                    block[16 * z + 4 * y + x] = self.read(data, from + x * self.step);
                }
            }
        }
        for (axis, known) in extents.into_iter().enumerate().take(self.extents.len()) {
            pad(&mut block[..self.block_len()], axis, known);
        }
        block
    }

    fn scatter(&self, block: &Block, corner: [usize; 3], extents: [usize; 3], out: &mut [u8]) {
        let width = self.format.width;
        for z in 0..extents[2] {
            for y in 0..extents[1] {
                let from = self.place([corner[0], corner[1] + y, corner[2] + z]);
                for x in 0..extents[0] {
                    let at = (from + x * self.step) * width;
                    if let Some(place) = out.get_mut(at..at + width) {
                        place.copy_from_slice(&block[16 * z + 4 * y + x].to_le_bytes()[..width]);
                    }
                }
            }
        }
    }

    /// Appends a stream; returns `false` if it does not keep the guarantee.
    fn encode(&self, data: &[u8], mode: Mode, tolerance: f64, out: &mut Vec<u8>) -> bool {
        let mut bits = Writer::new(out);
        bits.put(MAGIC, 32);
        bits.put(self.field(), 52);
        bits.put(mode_code(mode), 12);
        for (corner, extents) in self.blocks() {
            let block = self.gather(data, corner, extents);
            if !block::encode(self.format, mode, self.extents.len(), &block, tolerance, &mut bits) {
                return false;
            }
        }
        bits.finish();
        true
    }

    /// Decodes the stream at the beginning of `encoded`; returns its length.
    fn decode(&self, encoded: &[u8], out: &mut [u8]) -> Result<usize, TransformError> {
        let corrupt = |what: &str| Err(TransformError::corrupt(what, 0));
        let mut bits = Reader::new(encoded);
        if bits.take(32) != MAGIC {
            return corrupt("not a zfp stream of codec version 5");
        }
        if bits.take(52) != self.field() {
            return corrupt("the zfp stream holds another type or shape");
        }
        let Some(mode) = mode_from(bits.take(12)) else {
            return corrupt("the zfp stream was written in a mode that is not known");
        };
        let mut block = [0; MOST];
        for (corner, extents) in self.blocks() {
            block::decode(self.format, mode, self.extents.len(), &mut bits, &mut block);
            if bits.is_past_end() {
                return corrupt("the zfp stream ends too early");
            }
            self.scatter(&block, corner, extents, out);
        }
        match usize::try_from(bits.words_taken()) {
            Ok(taken) if taken <= encoded.len() => Ok(taken),
            _ => corrupt("the zfp stream ends within a word"),
        }
    }
}

/// Pads a block along one axis that has `known` numbers.
fn pad(block: &mut [u64], axis: usize, known: usize) {
    let stride = 1 << (2 * axis);
    for slab in block.chunks_exact_mut(4 * stride) {
        for at in 0..stride {
            for i in known..4 {
                slab[at + i * stride] = slab[at + if i == 3 { 0 } else { (i - 1) * stride }];
            }
        }
    }
}

impl Codec for Zfp {
    fn spec(&self) -> CodecSpec {
        let mut params = match self.kept {
            ZfpMode::All => Vec::new(),
            ZfpMode::Tolerance(most) => vec![named_number("tolerance", most)],
            ZfpMode::Precision(planes) => vec![named_int("precision", i64::from(planes))],
            ZfpMode::Rate(bits) => vec![named_number("rate", bits)],
        };
        params.extend(self.kind.and_then(number::to_param));
        CodecSpec { name: "zfp".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        // A single number takes a header, and a block of four; an edge of five takes two blocks.
        decoded_len.saturating_mul(9).saturating_add(128)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let (grids, whole) = self.grids(data.len(), logical)?;
        let (numbers, tail) = data.split_at(whole);
        let start = out.len();
        let finite = |grid: &Grid| {
            (0..whole / grid.format.width).all(|i| grid.format.value(grid.read(numbers, i)).is_finite())
        };
        let cut = self.kept != ZfpMode::All
            && grids.first().is_none_or(finite)
            && grids.iter().all(|grid| grid.encode(numbers, self.mode(grid), self.tolerance(), out));
        if !cut {
            out.truncate(start);
            grids.iter().for_each(|grid| {
                grid.encode(numbers, Mode::Reversible, f64::INFINITY, out);
            });
        }
        out.extend_from_slice(tail);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let (grids, whole) = self.grids(out.len(), logical)?;
        let (numbers, tail) = out.split_at_mut(whole);
        let mut rest = encoded;
        for grid in &grids {
            let taken = grid.decode(rest, numbers)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        if rest.len() != tail.len() {
            let what = format!("{} bytes after the zfp streams, expected {}", rest.len(), tail.len());
            return Err(TransformError::corrupt(what, 0));
        }
        tail.copy_from_slice(rest);
        Ok(())
    }

    fn is_lossy(&self) -> bool {
        self.kept != ZfpMode::All
    }

    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let kind = self.kind.unwrap_or(logical.kind);
        let Ok(width) = width(kind) else { return Bound::UNKNOWN };
        let absolute = match self.kept {
            ZfpMode::All => return Bound::EXACT,
            ZfpMode::Rate(_) => return Bound::UNKNOWN,
            _ if kind != logical.kind => return Bound::UNKNOWN,
            ZfpMode::Tolerance(most) => most,
            ZfpMode::Precision(planes) => {
                let cells = logical.shape.iter().fold(1u64, |cells, extent| cells.saturating_mul(*extent));
                let format = Format { width };
                // The shape is not known here, so the bound is that of the most axes.
                let axes =
                    if logical.shape.is_empty() { 3 } else { axes(&logical.shape, cells as usize).len() };
                let promise = format.promise(planes.min(8 * width as u32), axes);
                if promise >= 1.0 {
                    return Bound::UNKNOWN;
                }
                // The greatest original number of a block may exceed the decoded one by that part.
                promise * (greatest / (1.0 - promise)).max(kind.least_normal())
            }
        };
        Bound { absolute, relative: f64::INFINITY }
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
