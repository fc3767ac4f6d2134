//! The head of a Blosc 1 frame, decoded and validated.

use crate::TransformError;

/// Bytes before the table of block offsets. A frame is at most this much longer than its data.
pub(super) const HEADER_LEN: usize = 16;
/// Format versions of the frame and of the compressors' streams.
const VERSION: [u8; 2] = [2, 1];
const SHUFFLE: u8 = 0x01;
const STORED: u8 = 0x02;
const BIT_SHUFFLE: u8 = 0x04;
/// Each block is one stream. Without this flag, a block of enough small elements is one stream per byte of an element.
const WHOLE_BLOCKS: u8 = 0x10;
const SPLIT_ITEM: usize = 16;
const SPLIT_COUNT: usize = 128;

/// The compressor of the blocks, by the frame's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compressor {
    Lz4,
    Zlib,
    Zstd,
}

/// The filter of a block before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    None,
    Shuffle,
    BitShuffle,
}

/// The head of a frame, checked against the declared size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) compressor: Compressor,
    pub(super) filter: Filter,
    /// Whether the data follows the head uncompressed.
    pub(super) stored: bool,
    /// Whether blocks are split. Never set here; other writers split the blocks of fast compressors.
    pub(super) split: bool,
    pub(super) item: usize,
    pub(super) len: usize,
    pub(super) block_len: usize,
    /// Bytes of the whole frame.
    pub(super) frame_len: usize,
}

impl Frame {
    pub(super) fn blocks(&self) -> usize {
        if self.stored { 0 } else { self.len.div_ceil(self.block_len) }
    }

    /// Number of streams in a block that decodes to `len` bytes.
    pub(super) fn streams(&self, len: usize) -> usize {
        let splits = self.split && self.item <= SPLIT_ITEM && self.block_len / self.item >= SPLIT_COUNT;
        if splits && len == self.block_len { self.item } else { 1 }
    }

    /// Bytes of the head and the table of block offsets.
    pub(super) fn head_len(&self) -> usize {
        HEADER_LEN + 4 * self.blocks()
    }

    pub(super) fn write(&self) -> [u8; HEADER_LEN] {
        let compressor = match self.compressor {
            Compressor::Lz4 => 1,
            Compressor::Zlib => 3,
            Compressor::Zstd => 4,
        };
        let filter = match self.filter {
            Filter::None => 0,
            Filter::Shuffle => SHUFFLE,
            Filter::BitShuffle => BIT_SHUFFLE,
        };
        let stored = if self.stored { STORED } else { 0 };
        let mut head = [0; HEADER_LEN];
        head[..2].copy_from_slice(&VERSION);
        let whole = if self.split { 0 } else { WHOLE_BLOCKS };
        head[2] = filter | stored | whole | compressor << 5;
        head[3] = self.item as u8;
        head[4..8].copy_from_slice(&(self.len as u32).to_le_bytes());
        head[8..12].copy_from_slice(&(self.block_len as u32).to_le_bytes());
        head[12..].copy_from_slice(&(self.frame_len as u32).to_le_bytes());
        head
    }

    /// Decodes the head of a frame of `frame_len` bytes, which must hold `len` bytes.
    pub(super) fn read(head: &[u8], frame_len: u64, len: usize) -> Result<Frame, TransformError> {
        let corrupt = |what: String, at: u64| Err(TransformError::corrupt(what, at));
        let Some(head) = head.first_chunk::<HEADER_LEN>() else {
            return corrupt("ends within the head of the blosc frame".into(), 0);
        };
        if head[..2] != VERSION {
            return corrupt(format!("blosc versions {} and {}, expected 2 and 1", head[0], head[1]), 0);
        }
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let flags = head[2];
        let compressor = match flags >> 5 {
            1 => Compressor::Lz4,
            3 => Compressor::Zlib,
            4 => Compressor::Zstd,
            other => return corrupt(format!("blosc compressor {other} is not one that is written here"), 2),
        };
        let filter = match flags & (SHUFFLE | BIT_SHUFFLE) {
            0 => Filter::None,
            SHUFFLE => Filter::Shuffle,
            BIT_SHUFFLE => Filter::BitShuffle,
            _ => return corrupt("a blosc frame with both shuffles".into(), 2),
        };
        if flags & 0x08 != 0 {
            return corrupt(format!("blosc flags {flags:#04x} have an unknown bit"), 2);
        }
        let frame = Frame {
            compressor,
            filter,
            stored: flags & STORED != 0,
            split: flags & WHOLE_BLOCKS == 0,
            item: usize::from(head[3]),
            len: word(4),
            block_len: word(8),
            frame_len: word(12),
        };
        if frame.len != len {
            return corrupt(format!("the blosc frame declares {} bytes, expected {len}", frame.len), 4);
        }
        if frame.item == 0 || frame.block_len == 0 || frame.block_len > len.max(1) {
            let what = format!("blosc elements of {} in blocks of {} bytes", frame.item, frame.block_len);
            return corrupt(what, 8);
        }
        let least = if frame.stored { HEADER_LEN + len } else { frame.head_len() };
        if frame.frame_len as u64 != frame_len
            || frame.frame_len < least
            || (frame.stored && frame.frame_len != least)
        {
            let what = format!("a blosc frame of {} bytes, stored are {frame_len}", frame.frame_len);
            return corrupt(what, 12);
        }
        Ok(frame)
    }

    /// Where block `block` lies in the frame, from the offsets after the head.
    ///
    /// Blocks are adjacent, so the next offset is the end of a block.
    pub(super) fn block_at(
        &self,
        starts: &[u8],
        block: usize,
    ) -> Result<std::ops::Range<u64>, TransformError> {
        let (starts, _) = starts.as_chunks::<4>();
        let start = |block: usize| starts.get(block).map(|bytes| u64::from(u32::from_le_bytes(*bytes)));
        let from = start(block).unwrap_or(0);
        let to =
            if block + 1 < self.blocks() { start(block + 1).unwrap_or(0) } else { self.frame_len as u64 };
        if from < self.head_len() as u64 || to < from || to > self.frame_len as u64 {
            let what = format!("blosc block {block} at {from}..{to} of {}", self.frame_len);
            return Err(TransformError::corrupt(what, (HEADER_LEN + 4 * block) as u64));
        }
        Ok(from..to)
    }
}
