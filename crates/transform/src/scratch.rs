//! Working memory that a thread reuses for every subchunk.

use zstd::zstd_safe::{CCtx, DCtx};

/// Buffers and codec contexts, kept between calls so that a subchunk needs no allocation.
///
/// There is one per thread; no data passes from one call to the next. It grows to a few times the largest subchunk so
/// far, plus the memory of the zstd level (about 1 MiB at level 1, tens of MiB at level 19 and above).
#[derive(Default)]
pub struct Scratch {
    /// Two buffers that the stages between codecs use in turn; taken out while a chain runs.
    pub(crate) stages: [Vec<u8>; 2],
    /// A whole decoded subchunk, of which the caller wants a part.
    pub(crate) whole: Vec<u8>,
    /// Byte planes, sections, blocks and trial compressions of codecs that divide their data; taken out while one runs.
    pub(crate) planes: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) tried: Vec<u8>,
    pub(crate) block: Vec<u8>,
    /// Numbers by which a codec sorts; taken out while it runs.
    pub(crate) words: [Vec<u32>; 2],
    /// The result of [`Codec::alike`](crate::Codec::alike) of the previous codec for the bytes that are encoded next.
    pub(crate) alike: Option<usize>,
    pub(crate) compress: Option<(CCtx<'static>, i32)>,
    pub(crate) decompress: Option<DCtx<'static>>,
}

impl Scratch {
    /// Empty buffers; memory is allocated at first use.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Bytes of all buffers and contexts.
    pub fn held(&self) -> usize {
        let cut = [&self.whole, &self.planes, &self.body, &self.tried, &self.block];
        let buffers: usize = self.stages.iter().chain(cut).map(Vec::capacity).sum();
        let buffers =
            buffers + self.words.iter().map(|words| size_of::<u32>() * words.capacity()).sum::<usize>();
        let compress = self.compress.as_ref().map_or(0, |(context, _)| context.sizeof());
        buffers + compress + self.decompress.as_ref().map_or(0, DCtx::sizeof)
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("bytes", &self.held()).finish_non_exhaustive()
    }
}

/// Sets the length without zeroing existing bytes.
pub(crate) fn set_len_reusing(buffer: &mut Vec<u8>, len: usize) {
    if buffer.len() > len {
        buffer.truncate(len);
    } else {
        buffer.resize(len, 0);
    }
}
