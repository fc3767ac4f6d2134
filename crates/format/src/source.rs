//! The source table (docs/format/manifest.md).

use crate::column::set;
use crate::cursor::Reader;
use crate::{Corrupt, column};

/// The state of a log part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceState {
    /// More frames may come.
    Open,
    /// Every frame is settled and no more will come.
    Closed,
    /// No more frames are adopted from it: a recovery fenced it.
    Fenced,
}

/// One source. `kind` 0 is a segment part; other kinds fail only the reads that need them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Source {
    pub kind: u32,
    pub writer: u64,
    pub part: u32,
    /// Offset in the idx of the first frame that is not settled.
    pub watermark: u64,
    /// Number of the next group to settle.
    pub groups: u64,
    pub state: SourceState,
    /// Bytes of idx read so far.
    pub idx_length: u64,
    /// Bytes of the segment that adopted entries need.
    pub seg_length: u64,
}

/// Most sources on one page; every page but the last is full.
pub const PAGE_SOURCES: usize = 512;

impl SourceState {
    fn from_u64(state: u64) -> Option<Self> {
        match state {
            0 => Some(SourceState::Open),
            1 => Some(SourceState::Closed),
            2 => Some(SourceState::Fenced),
            _ => None,
        }
    }
}

/// The bytes of a source page.
///
/// # Panics
/// With more than [`PAGE_SOURCES`] sources.
pub fn encode_page(sources: &[Source]) -> Vec<u8> {
    assert!(sources.len() <= PAGE_SOURCES, "a page holds at most {PAGE_SOURCES} sources");
    let mut out = Vec::new();
    out.extend_from_slice(&(sources.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    column::write(&mut out, sources, |s| s.kind.into());
    column::write(&mut out, sources, |s| s.writer);
    column::write(&mut out, sources, |s| s.part.into());
    column::write(&mut out, sources, |s| s.watermark);
    column::write(&mut out, sources, |s| s.groups);
    column::write(&mut out, sources, |s| s.state as u64);
    column::write(&mut out, sources, |s| s.idx_length);
    column::write(&mut out, sources, |s| s.seg_length);
    out
}

/// Reads a source page.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<Source>, Corrupt> {
    let r = &mut Reader::new(bytes);
    let (n, reserved) = (r.u32()? as usize, r.u32()?);
    if n > PAGE_SOURCES || reserved != 0 {
        return Err(Corrupt::new("impossible head of a source page", 0));
    }
    let empty = Source {
        kind: 0,
        writer: 0,
        part: 0,
        watermark: 0,
        groups: 0,
        state: SourceState::Open,
        idx_length: 0,
        seg_length: 0,
    };
    let mut sources = vec![empty; n];
    let items = sources.as_mut_slice();
    column::read(r, items, "source kind", |s, v| set(&mut s.kind, v))?;
    column::read(r, items, "writer", |s, v| set(&mut s.writer, v))?;
    column::read(r, items, "part", |s, v| set(&mut s.part, v))?;
    column::read(r, items, "watermark", |s, v| set(&mut s.watermark, v))?;
    column::read(r, items, "groups", |s, v| set(&mut s.groups, v))?;
    column::read(r, items, "source state", |s, v| {
        s.state = SourceState::from_u64(v)?;
        Some(())
    })?;
    column::read(r, items, "idx length", |s, v| set(&mut s.idx_length, v))?;
    column::read(r, items, "segment length", |s, v| set(&mut s.seg_length, v))?;
    r.end()?;
    Ok(sources)
}
