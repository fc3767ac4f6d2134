//! szip: adaptive entropy coding (CCSDS 121.0-B) with the parameters and the bytes of HDF5's szip filter.
//!
//! The bytes are those of an HDF5 chunk: the decoded length in four bytes, then the coded stream. As in HDF5, some
//! parameters follow from the type and the shape: the bits per pixel from the scalar, the scanline from the fastest
//! axis. Scalars of 4 and 8 bytes are coded as byte planes, one after the other; each scanline is padded to whole
//! blocks.

mod entropy;

use std::ops::Range;

use entropy::Coding;
use tensogram_szip::{AEC_DATA_PREPROCESS, AEC_NOT_ENFORCE, AecParams, aec_compress_no_offsets};

use crate::codecs::shuffle;
use crate::params::Params;
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const HEADER_LEN: usize = 4;
/// HDF5 limits scanlines to this many blocks.
const MAX_BLOCKS: u64 = 128;
const CODINGS: [&str; 2] = ["nn", "ec"];

/// The szip codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Szip {
    /// Pixels per block.
    block: u32,
    /// Whether differences of neighbours are coded (`nn`), or plain values (`ec`).
    nearest_neighbour: bool,
}

impl Szip {
    pub(crate) fn from_params(params: &[Param]) -> Result<Szip, TransformError> {
        let params = Params::read("szip", &["block", "coding"], params)?;
        let block = params.int("block", 2..=32)?.unwrap_or(32);
        if block % 2 != 0 {
            let problem = format!("block {block} is odd, allowed are even numbers of pixels from 2 to 32");
            return Err(TransformError::bad_parameter("szip", problem));
        }
        let coding = params.word("coding", &CODINGS)?;
        Ok(Szip { block: block as u32, nearest_neighbour: coding != Some("ec") })
    }

    /// How `len` bytes of whole pixels are divided and coded.
    fn shape(&self, len: usize, logical: &Logical) -> Lines {
        let scalar = if matches!(logical.scalar, 1 | 2 | 4 | 8) { logical.scalar } else { 1 };
        let width = if scalar == 2 { 2 } else { 1 };
        let per_element = (logical.item / scalar).max(1) as u64;
        let count = (len / scalar) as u64;
        let fastest = logical.shape.last().copied().unwrap_or(1).saturating_mul(per_element);
        let longest = u64::from(self.block) * MAX_BLOCKS;
        let line = if fastest < u64::from(self.block) { count } else { fastest }.clamp(1, longest);
        let blocks = line.div_ceil(u64::from(self.block));
        Lines {
            scalar,
            width,
            line: line as usize * width,
            padded: (blocks * u64::from(self.block)) as usize * width,
            coding: AecParams {
                bits_per_sample: 8 * width as u32,
                block_size: self.block,
                rsi: blocks as u32,
                flags: AEC_NOT_ENFORCE | if self.nearest_neighbour { AEC_DATA_PREPROCESS } else { 0 },
            },
        }
    }
}

/// The scanlines of a stream of pixels; lengths are in bytes.
struct Lines {
    /// Bytes of a scalar; scalars of 4 and 8 bytes are coded as byte planes.
    scalar: usize,
    /// Bytes of a coded pixel.
    width: usize,
    line: usize,
    padded: usize,
    coding: AecParams,
}

impl Lines {
    /// Where the lines of `len` bytes lie, without padding.
    fn lines(&self, len: usize) -> impl Iterator<Item = Range<usize>> {
        let line = self.line;
        (0..len.div_ceil(line)).map(move |i| i * line..(i * line + line).min(len))
    }

    fn padded_len(&self, len: usize) -> usize {
        len.div_ceil(self.line) * self.padded
    }
}

impl Codec for Szip {
    fn spec(&self) -> CodecSpec {
        let mut params = vec![Param::Int(i64::from(self.block))];
        if !self.nearest_neighbour {
            params.push(Param::Text("ec".into()));
        }
        CodecSpec { name: "szip".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        // A padded line of two pixels may be a whole block, and a block takes its id and its pixels.
        let padded = decoded_len.saturating_mul(if self.block > 2 { 3 } else { 2 });
        padded.saturating_add(decoded_len).saturating_add(600)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let len = u32::try_from(data.len()).map_err(|_| TransformError::TooLarge { len: data.len() })?;
        let lines = self.shape(data.len(), logical);
        let (body, tail) = data.split_at(data.len() / lines.scalar * lines.scalar);
        out.extend_from_slice(&len.to_le_bytes());
        if body.is_empty() {
            out.extend_from_slice(tail);
            return Ok(());
        }
        let planes = &mut scratch.planes;
        planes.clear();
        if lines.scalar > 2 {
            shuffle::byte_shuffle(body, lines.scalar, planes);
        } else {
            planes.extend_from_slice(body);
        }
        let mut padded = Vec::with_capacity(lines.padded_len(body.len()));
        for line in lines.lines(planes.len()) {
            let pixels = planes.get(line).unwrap_or_default();
            padded.extend_from_slice(pixels);
            let end = pixels.len().saturating_sub(lines.width);
            let filler: &[u8] = match pixels.get(end..) {
                Some(last) if self.nearest_neighbour => last,
                _ => [0, 0].get(..lines.width).unwrap_or_default(),
            };
            let missing = (lines.padded - pixels.len()) / lines.width;
            padded.extend(std::iter::repeat_n(filler, missing).flatten());
        }
        let coded = aec_compress_no_offsets(&padded, &lines.coding)
            .map_err(|error| TransformError::Encode { codec: "szip".into(), problem: error.to_string() })?;
        out.extend_from_slice(&coded);
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
        let corrupt = |what: String, at: usize| Err(TransformError::corrupt(what, at as u64));
        let Some((len, coded)) = encoded.split_first_chunk::<HEADER_LEN>() else {
            return corrupt("ends within the szip length".into(), 0);
        };
        if u32::from_le_bytes(*len) as usize != out.len() {
            let found = u32::from_le_bytes(*len);
            return corrupt(format!("the szip stream declares {found} bytes, expected {}", out.len()), 0);
        }
        let lines = self.shape(out.len(), logical);
        let (body, tail) = out.split_at_mut(out.len() / lines.scalar * lines.scalar);
        let Some((coded, end)) =
            coded.len().checked_sub(tail.len()).and_then(|at| coded.split_at_checked(at))
        else {
            return corrupt("ends before the bytes that belong to no whole number".into(), encoded.len());
        };
        tail.copy_from_slice(end);
        if body.is_empty() {
            return match coded {
                [] => Ok(()),
                _ => corrupt("an szip stream without any number".into(), HEADER_LEN),
            };
        }
        let padded_len = lines.padded_len(body.len());
        let coding = Coding {
            bits: lines.coding.bits_per_sample,
            block: lines.coding.block_size as usize,
            interval: lines.coding.rsi as usize,
            predicted: self.nearest_neighbour,
        };
        let samples = entropy::decode(&coding, coded, padded_len / lines.width)?;
        let padded: Vec<u8> = match lines.width {
            1 => samples.iter().map(|sample| *sample as u8).collect(),
            _ => samples.iter().flat_map(|sample| sample.to_le_bytes()).collect(),
        };
        let mut planes = Vec::with_capacity(body.len());
        for (line, padded) in lines.lines(body.len()).zip(padded.chunks_exact(lines.padded)) {
            planes.extend_from_slice(padded.get(..line.len()).unwrap_or_default());
        }
        if lines.scalar > 2 {
            shuffle::byte_unshuffle(&planes, lines.scalar, body);
        } else {
            body.copy_from_slice(&planes);
        }
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
