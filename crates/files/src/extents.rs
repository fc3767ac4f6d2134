//! Which bytes of a file lie where: extents that do not overlap, by their offset in the file.
//!
//! Invariants
//! - extents do not overlap; a new one replaces what it covers;
//! - extents that continue each other in the file and in their log are joined.

use std::collections::BTreeMap;
use std::ops::Range;

use drystone_format::files::Extent;

/// Where an extent lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    len: u64,
    log: u64,
    position: u64,
}

/// The extents of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    map: BTreeMap<u64, Place>,
    bytes: u64,
}

/// A part of a range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its range in the file.
    pub range: Range<u64>,
    /// Log and position of its bytes; `None` if nothing was written there.
    pub place: Option<(u64, u64)>,
}

impl Extents {
    /// Number of extents.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The end of the last extent.
    pub fn end(&self) -> u64 {
        self.map.last_key_value().map_or(0, |(offset, place)| offset + place.len)
    }

    /// Number of bytes in all extents.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All extents, in the order of their offsets in the file.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.map.iter().map(|(offset, place)| Extent {
            offset: *offset,
            len: place.len,
            log: place.log,
            position: place.position,
        })
    }

    /// Adds an extent, which hides what it covers.
    pub fn insert(&mut self, extent: Extent) {
        if extent.len == 0 {
            return;
        }
        self.remove(extent.offset..extent.offset + extent.len);
        self.bytes += extent.len;
        let (mut offset, mut place) =
            (extent.offset, Place { len: extent.len, log: extent.log, position: extent.position });
        if let Some((before, first)) = self.map.range(..offset).next_back()
            && before + first.len == offset
            && first.log == place.log
            && first.position + first.len == place.position
        {
            place = Place { len: first.len + place.len, ..*first };
            offset = *before;
        }
        if let Some(behind) = self.map.get(&(offset + place.len)).copied()
            && behind.log == place.log
            && place.position + place.len == behind.position
        {
            self.map.remove(&(offset + place.len));
            place.len += behind.len;
        }
        self.map.insert(offset, place);
    }

    /// Removes everything in a range.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((&offset, place)) = self.map.range_mut(..range.start).next_back() {
            let end = offset + place.len;
            if end > range.start {
                let whole = *place;
                place.len = range.start - offset;
                self.bytes -= end.min(range.end) - range.start;
                if end > range.end {
                    let position = whole.position + (range.end - offset);
                    self.map.insert(range.end, Place { len: end - range.end, position, ..whole });
                    return;
                }
            }
        }
        while let Some((&offset, &place)) = self.map.range(range.clone()).next() {
            self.map.remove(&offset);
            let end = offset + place.len;
            self.bytes -= end.min(range.end) - offset;
            if end > range.end {
                let cut = range.end - offset;
                let rest = Place { len: end - range.end, position: place.position + cut, ..place };
                self.map.insert(range.end, rest);
                break;
            }
        }
    }

    /// Removes everything from an offset on.
    pub fn truncate(&mut self, size: u64) {
        self.remove(size..u64::MAX);
    }

    /// A range in pieces, in order, gaps included.
    pub fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let mut out = Vec::new();
        let mut at = range.start;
        let first = self.map.range(..=range.start).next_back().map_or(range.start, |(offset, _)| *offset);
        for (&offset, place) in self.map.range(first..range.end.max(first)) {
            let (from, to) = (offset.max(range.start), (offset + place.len).min(range.end));
            if from >= to {
                continue;
            }
            if at < from {
                out.push(Piece { range: at..from, place: None });
            }
            out.push(Piece { range: from..to, place: Some((place.log, place.position + (from - offset))) });
            at = to;
        }
        if at < range.end {
            out.push(Piece { range: at..range.end, place: None });
        }
        out
    }

    /// The first byte at or after `offset` that an extent holds.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        if let Some((begin, place)) = self.map.range(..=offset).next_back()
            && begin + place.len > offset
        {
            return Some(offset);
        }
        self.map.range(offset..).next().map(|(begin, _)| *begin)
    }

    /// The first byte at or after `offset` that no extent holds.
    pub fn next_hole(&self, mut offset: u64) -> u64 {
        while let Some((begin, place)) = self.map.range(..=offset).next_back() {
            let end = begin + place.len;
            if end <= offset {
                break;
            }
            offset = end;
        }
        offset
    }
}
