//! blosc: a Blosc 1 frame, whose blocks are shuffled and compressed independently.
//!
//! Any Blosc 1 library reads the frames, including those in Zarr and HDF5. This module writes and reads them without
//! the C library: only safe code sees untrusted bytes, and only the blocks that a read needs are decoded. Compressors
//! are lz4, zlib and zstd; split blocks of other writers are read too. A block that does not compress is stored raw. If
//! compression would make the frame longer than the data, the frame holds the data uncompressed.

mod frame;

use std::ops::Range;

use frame::{Compressor, Filter, Frame, HEADER_LEN};

use crate::codecs::bit_shuffle::{bit_shuffle, bit_unshuffle};
use crate::codecs::deflate::Zlib;
use crate::codecs::{lz4, shuffle};
use crate::params::{Params, named_int};
use crate::ranges::join;
use crate::scratch::set_len_reusing;
use crate::{
    Bound, Codec, CodecSpec, Fetched, Logical, Param, Pieces, Planned, Scratch, StoredSubchunk,
    TransformError, Transparent, Want, Zstd,
};

const NAMES: [&str; 5] = ["cname", "clevel", "shuffle", "typesize", "blocksize"];
const COMPRESSORS: [&str; 6] = ["lz4", "zstd", "zlib", "lz4hc", "blosclz", "snappy"];
const FILTERS: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];
const DEFAULT_LEVEL: i64 = 5;
/// Default block sizes: they fit in a first or second-level cache, and are larger for higher levels.
const FIRST_CACHE: usize = 32 << 10;
const MIN_BLOCK: i64 = 128;

/// The blosc codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blosc {
    compressor: Compressor,
    level: i64,
    filter: Filter,
    item: Option<usize>,
    block_len: Option<usize>,
}

impl Blosc {
    pub(crate) fn from_params(params: &[Param]) -> Result<Blosc, TransformError> {
        let bad = |problem: String| Err(TransformError::bad_parameter("blosc", problem));
        let params = Params::read("blosc", &NAMES, params)?;
        let compressor = match params.word("cname", &COMPRESSORS)? {
            None | Some("lz4") => Compressor::Lz4,
            Some("zstd") => Compressor::Zstd,
            Some("zlib") => Compressor::Zlib,
            Some("lz4hc") => return bad("cname lz4hc is not written here; use zstd, which is smaller".into()),
            Some(other) => return bad(format!("cname {other} is not written here; use lz4 or zstd")),
        };
        let filter = match params.get_int_or_word("shuffle", -1..=2, &FILTERS)? {
            None | Some(Ok(1)) | Some(Err("shuffle")) => Filter::Shuffle,
            Some(Ok(0)) | Some(Err("noshuffle")) => Filter::None,
            Some(Ok(2)) | Some(Err("bitshuffle")) => Filter::BitShuffle,
            Some(_) => Filter::Shuffle,
        };
        let block_len = params.int("blocksize", 0..=16 << 20)?.filter(|len| *len > 0);
        if let Some(len) = block_len.filter(|len| *len < MIN_BLOCK) {
            return bad(format!(
                "blocksize {len} is too small, allowed are {MIN_BLOCK} to {}, or 0",
                16 << 20
            ));
        }
        Ok(Blosc {
            compressor,
            level: params.int("clevel", 0..=9)?.unwrap_or(DEFAULT_LEVEL),
            filter,
            item: params.int("typesize", 1..=255)?.map(|size| size as usize),
            block_len: block_len.map(|len| len as usize),
        })
    }

    fn item(&self, logical: &Logical) -> usize {
        let item = self.item.unwrap_or(logical.item).max(1);
        if item > 255 { 1 } else { item }
    }

    /// Bytes of a block: whole elements, and whole groups of eight elements if bits are shuffled.
    fn block_len(&self, len: usize, item: usize) -> usize {
        let strong = self.compressor != Compressor::Lz4;
        let cached = match (self.level, strong) {
            (..=1, false) => FIRST_CACHE / 2,
            (2, false) | (..=1, true) => FIRST_CACHE,
            (2, true) => FIRST_CACHE * 2,
            // Smaller blocks do not make LZ4 faster, and it finds fewer copies.
            (3..=5, false) | (3, true) => FIRST_CACHE * 4,
            (6.., false) | (4..=5, true) => FIRST_CACHE * 8,
            (_, true) => FIRST_CACHE * 16,
        };
        let group = item * 8;
        let wanted = self.block_len.unwrap_or(cached);
        let rounded = if wanted > group { wanted / group * group } else { group };
        rounded.min(len).max(1)
    }

    /// The acceleration of LZ4: from level 5 on it looks up every offset.
    fn acceleration(&self) -> u32 {
        match self.level {
            5.. => 1,
            4 => 2,
            3 => 3,
            2 => 5,
            _ => 9,
        }
    }

    /// Appends the compressed block, or the block itself if compression does not shorten it.
    fn compress(&self, block: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<(), TransformError> {
        let bytes = Logical::scalars(1, block.len() as u64);
        let body = out.len();
        let shorter = match self.compressor {
            Compressor::Lz4 => {
                lz4::encode_block(block, self.acceleration(), block.len().saturating_sub(1), out)
            }
            Compressor::Zlib => {
                Zlib::new(self.level as u32).encode(block, &bytes, out, scratch)?;
                out.len() - body < block.len()
            }
            // The levels of zstd that Blosc uses.
            Compressor::Zstd => {
                let level = match self.level {
                    9.. => 22,
                    8 => 20,
                    level => 2 * level - 1,
                };
                Zstd::new(level as i32)?.encode(block, &bytes, out, scratch)?;
                out.len() - body < block.len()
            }
        };
        if !shorter {
            out.truncate(body);
            out.extend_from_slice(block);
        }
        Ok(())
    }

    /// The whole frame with compressed blocks; `None` if it would not be shorter than the data.
    fn encode_blocks(
        &self,
        data: &[u8],
        frame: &mut Frame,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<bool, TransformError> {
        let start = out.len();
        out.resize(start + frame.head_len(), 0);
        let mut filtered = std::mem::take(&mut scratch.block);
        for (i, block) in data.chunks(frame.block_len).enumerate() {
            let at = out.len() - start;
            if at + 4 >= data.len() + HEADER_LEN {
                scratch.block = filtered;
                return Ok(false);
            }
            if let Some(slot) = out.get_mut(start + HEADER_LEN + 4 * i..).and_then(|s| s.first_chunk_mut()) {
                *slot = (at as u32).to_le_bytes();
            }
            apply(frame.filter, frame.item, block, &mut filtered, &mut scratch.planes);
            out.extend_from_slice(&[0; 4]);
            let body = out.len();
            self.compress(&filtered, out, scratch)?;
            let len = (out.len() - body) as u32;
            if let Some(slot) = out.get_mut(body - 4..).and_then(|s| s.first_chunk_mut()) {
                *slot = len.to_le_bytes();
            }
        }
        scratch.block = filtered;
        frame.frame_len = out.len() - start;
        Ok(frame.frame_len < data.len() + HEADER_LEN)
    }
}

/// The filter that a block of `len` bytes gets: bits are shuffled only in whole groups of eight elements.
fn takes_part(filter: Filter, item: usize, len: usize) -> Filter {
    match filter {
        Filter::Shuffle if item > 1 => Filter::Shuffle,
        Filter::BitShuffle if len >= item && (len / item).is_multiple_of(8) => Filter::BitShuffle,
        _ => Filter::None,
    }
}

/// Sets `out` to the filtered form of a block; its old content is overwritten.
fn apply(filter: Filter, item: usize, block: &[u8], out: &mut Vec<u8>, planes: &mut Vec<u8>) {
    match takes_part(filter, item, block.len()) {
        Filter::None => {
            out.clear();
            out.extend_from_slice(block);
        }
        Filter::Shuffle => {
            out.clear();
            shuffle::byte_shuffle(block, item, out);
        }
        Filter::BitShuffle => {
            set_len_reusing(out, block.len());
            bit_shuffle(block, item, out, planes);
        }
    }
}

/// Decodes the block in `stored` into `out`; `at` is its offset, for messages.
fn decode_block(
    frame: &Frame,
    stored: &[u8],
    at: u64,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    let filter = takes_part(frame.filter, frame.item, out.len());
    if filter == Filter::None {
        return inflate_streams(frame, stored, at, out, scratch);
    }
    let mut filtered = std::mem::take(&mut scratch.block);
    set_len_reusing(&mut filtered, out.len());
    let result = inflate_streams(frame, stored, at, &mut filtered, scratch);
    if result.is_ok() {
        match filter {
            Filter::Shuffle => shuffle::byte_unshuffle(&filtered, frame.item, out),
            _ => bit_unshuffle(&filtered, frame.item, out, &mut scratch.planes),
        }
    }
    scratch.block = filtered;
    result
}

/// Decodes the streams of a block, each stored after its length, one after the other into `out`.
fn inflate_streams(
    frame: &Frame,
    mut stored: &[u8],
    at: u64,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    let streams = frame.streams(out.len());
    let part = out.len() / streams;
    for target in out.chunks_mut(part.max(1)).take(streams) {
        let Some((len, rest)) = stored.split_first_chunk::<4>() else {
            return Err(TransformError::corrupt("ends within the length of a blosc stream", at));
        };
        let len = u32::from_le_bytes(*len) as usize;
        let Some((body, rest)) = rest.split_at_checked(len).filter(|_| len <= target.len()) else {
            let what = format!("a blosc stream of {len} bytes in {} for {}", rest.len(), target.len());
            return Err(TransformError::corrupt(what, at));
        };
        inflate(frame, body, at, target, scratch)?;
        stored = rest;
    }
    if stored.is_empty() && part * streams == out.len() {
        return Ok(());
    }
    Err(TransformError::corrupt(format!("{} bytes after a blosc block", stored.len()), at))
}

fn inflate(
    frame: &Frame,
    body: &[u8],
    at: u64,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    if body.len() == out.len() {
        out.copy_from_slice(body);
        return Ok(());
    }
    let bytes = Logical::scalars(1, out.len() as u64);
    match frame.compressor {
        Compressor::Lz4 => lz4::decode_block(body, out, at),
        Compressor::Zlib => Zlib::new(1).decode(body, &bytes, out, scratch),
        Compressor::Zstd => Zstd::new(1)?.decode(body, &bytes, out, scratch),
    }
}

impl Codec for Blosc {
    fn spec(&self) -> CodecSpec {
        let compressor = match self.compressor {
            Compressor::Lz4 => "lz4",
            Compressor::Zlib => "zlib",
            Compressor::Zstd => "zstd",
        };
        let filter = match self.filter {
            Filter::None => FILTERS[0],
            Filter::Shuffle => FILTERS[1],
            Filter::BitShuffle => FILTERS[2],
        };
        let mut params =
            vec![Param::Text(compressor.into()), Param::Int(self.level), Param::Text(filter.into())];
        params.extend(self.item.map(|item| named_int("typesize", item as i64)));
        params.extend(self.block_len.map(|len| named_int("blocksize", len as i64)));
        CodecSpec { name: "blosc".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(HEADER_LEN)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let item = self.item(logical);
        let start = out.len();
        let mut frame = Frame {
            compressor: self.compressor,
            filter: self.filter,
            stored: false,
            split: false,
            item,
            len: data.len(),
            block_len: self.block_len(data.len(), item),
            frame_len: 0,
        };
        if self.level == 0 || data.is_empty() || !self.encode_blocks(data, &mut frame, out, scratch)? {
            out.truncate(start);
            out.extend_from_slice(&[0; HEADER_LEN]);
            out.extend_from_slice(data);
            (frame.stored, frame.frame_len) = (true, HEADER_LEN + data.len());
        }
        if let Some(head) = out.get_mut(start..).and_then(|frame| frame.first_chunk_mut()) {
            *head = frame.write();
        }
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let frame = Frame::read(encoded, encoded.len() as u64, out.len())?;
        if frame.stored {
            out.copy_from_slice(encoded.get(HEADER_LEN..).unwrap_or_default());
            return Ok(());
        }
        let starts = encoded.get(HEADER_LEN..frame.head_len()).unwrap_or_default();
        let mut end = frame.head_len() as u64;
        for (i, block) in out.chunks_mut(frame.block_len).enumerate() {
            let at = frame.block_at(starts, i)?;
            if at.start != end {
                let what = format!("blosc block {i} begins at {}, expected {end}", at.start);
                return Err(TransformError::corrupt(what, (HEADER_LEN + 4 * i) as u64));
            }
            end = at.end;
            let stored = encoded.get(at.start as usize..at.end as usize).unwrap_or_default();
            decode_block(&frame, stored, at.start, block, scratch)?;
        }
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        Some(self)
    }
}

/// The blocks that hold a range of decoded bytes.
fn blocks_of(frame: &Frame, wanted: &Range<u64>) -> Range<usize> {
    let block_len = frame.block_len as u64;
    let end = wanted.end.min(frame.len as u64);
    (wanted.start / block_len) as usize..end.div_ceil(block_len) as usize
}

impl Transparent for Blosc {
    /// The head of the frame, and the offsets of the blocks.
    fn meta_len(&self, encoded: &[u8]) -> usize {
        let len =
            encoded.get(4..8).and_then(|len| len.first_chunk()).map_or(0, |len| u32::from_le_bytes(*len));
        Frame::read(encoded, encoded.len() as u64, len as usize).map_or(0, |frame| frame.head_len())
    }

    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        _logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError> {
        let frame = Frame::read(stored.meta, stored.len, stored.decoded_len)?;
        let starts = stored.meta.get(HEADER_LEN..).unwrap_or_default();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for wanted in want.ranges.iter().filter(|wanted| !wanted.is_empty()) {
            let needed = if frame.stored {
                let head = HEADER_LEN as u64;
                wanted.start + head..wanted.end + head
            } else {
                // Blocks are adjacent, so a run of blocks is one range.
                let blocks = blocks_of(&frame, wanted);
                let (first, last) = (blocks.start, blocks.end.saturating_sub(1));
                frame.block_at(starts, first)?.start..frame.block_at(starts, last)?.end
            };
            join(&mut ranges, needed, 0);
        }
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
        let frame = Frame::read(stored.meta, stored.len, stored.decoded_len)?;
        let starts = stored.meta.get(HEADER_LEN..).unwrap_or_default();
        let mut next = 0;
        for wanted in want.ranges.iter().filter(|wanted| !wanted.is_empty()) {
            if frame.stored {
                let head = HEADER_LEN as u64;
                let bytes = fetched.get(wanted.start + head..wanted.end + head)?;
                pieces.place(wanted.clone())?.copy_from_slice(bytes);
                continue;
            }
            // A block that two wanted ranges share is decoded once.
            let blocks = blocks_of(&frame, wanted);
            for block in blocks.start.max(next)..blocks.end {
                let at = frame.block_at(starts, block)?;
                let from = (block * frame.block_len) as u64;
                let to = (from + frame.block_len as u64).min(frame.len as u64);
                let target = pieces.place(from..to)?;
                decode_block(&frame, fetched.get(at.clone())?, at.start, target, scratch)?;
                next = block + 1;
            }
        }
        Ok(())
    }
}
