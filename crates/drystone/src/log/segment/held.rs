//! Pieces of series that lie in extents of runs. They are held until they are written together.

use std::time::{Duration, Instant};

use drystone_format::frame::{self, FrameKind};
use drystone_store::Store;

use super::{STAGE, Segment};
use crate::Result;
use crate::log::runs::{self, PAGE};

/// If a writer fills an extent of runs within this time, it fills the next one before the kernel writes it out, which
/// begins after 30 seconds. Zeros that are written first then cost the device nothing.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// The number of zero bytes per write; writes end at multiples of it in the file, where the kernel has larger pages
/// (ten pieces of 4 KiB: 8 us instead of 11).
const FILLED: usize = 128 << 10;

/// Pieces of runs that wait to be written together.
#[derive(Default)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    /// For each piece, its place in the segment and its beginning in `bytes`.
    places: Vec<(u64, usize)>,
}

impl Held {
    fn push(&mut self, at: u64, parts: &[&[u8]]) {
        let touches = |(place, begin): &(u64, usize)| place + (self.bytes.len() - begin) as u64 == at;
        if !self.places.last().is_some_and(touches) {
            self.places.push((at, self.bytes.len()));
        }
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
    }

    /// The pieces, each with its place.
    fn parts(&self) -> Vec<(u64, &[u8])> {
        let ends = self.places.iter().skip(1).map(|(_, begin)| *begin).chain([self.bytes.len()]);
        self.places.iter().zip(ends).map(|(&(at, begin), end)| (at, &self.bytes[begin..end])).collect()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

impl Segment {
    /// Holds payload and trailer for the place of their series, if there is one. Returns the payload's position.
    pub(super) fn hold(&mut self, payload: &[u8], trailer: &[u8]) -> Result<Option<u64>> {
        let padded = if trailer.is_empty() { payload.len() } else { payload.len().next_multiple_of(4) };
        let body = padded + trailer.len();
        let (Some(runs), Some(series)) = (&mut self.runs, self.series) else { return Ok(None) };
        if body == 0 || body > runs::LONGEST {
            return Ok(None);
        }
        let room = body.next_multiple_of(8) as u64;
        let mut place = runs.next(series, room);
        if let runs::Place::Keep(len) = place {
            self.keep(len)?;
            place = self.runs.as_mut().map_or(runs::Place::Log, |runs| runs.next(series, room));
        }
        let runs::Place::At(position) = place else { return Ok(None) };
        self.held.push(position, &[payload, &[0; 4][..padded - payload.len()], trailer]);
        if self.held.bytes.len() >= STAGE {
            self.write_held()?;
        }
        Ok(Some(position))
    }

    /// Reserves an extent of `len` bytes for runs, from the beginning of a page.
    pub(super) fn keep(&mut self, len: u64) -> Result<()> {
        if !self.pending.is_empty() {
            self.flush()?;
        }
        debug_assert!(self.pending.is_empty(), "the first pieces of a series are laid down in the log");
        let header = frame::HEADER as u64;
        let missing = (self.len + header).wrapping_neg() % PAGE;
        if missing > 0 {
            let filled = if missing < header { missing + PAGE } else { missing };
            self.held.push(self.len, &[&frame::header(FrameKind::Extent, self.ordinal, filled - header, 0)]);
            self.ordinal += 1;
            self.len += filled;
        }
        self.held.push(self.len, &[&frame::header(FrameKind::Extent, self.ordinal, len, 0)]);
        self.ordinal += 1;
        let at = self.len + header;
        if let Some(runs) = &mut self.runs {
            runs.keep(at, len);
        }
        self.len = at + len;
        let before = self.kept.replace(Instant::now());
        match before {
            Some(before) if before.elapsed() < SOON => self.fill(at),
            _ => Ok(()),
        }
    }

    /// Writes zeros from `at` to the end of the segment. The kernel then allocates memory and accounts for the extent
    /// in a few pieces, instead of page by page as for a sparse file. A step of ten pieces of 4 KiB takes 15 us
    /// instead of 28 (ext4).
    pub(super) fn fill(&mut self, at: u64) -> Result<()> {
        static ZEROS: [u8; FILLED] = [0; FILLED];
        self.write_held()?;
        let mut parts: Vec<(u64, &[u8])> = Vec::new();
        let mut next = at;
        while next < self.len {
            let len = (FILLED - (next % FILLED as u64) as usize).min((self.len - next) as usize);
            parts.push((next, &ZEROS[..len]));
            next += len as u64;
        }
        Ok(self.store.write_at(&self.key, &parts, self.len)?)
    }

    /// Writes all held pieces at once.
    pub(super) fn write_held(&mut self) -> Result<()> {
        if !self.held.bytes.is_empty() {
            self.store.write_at(&self.key, &self.held.parts(), self.len)?;
            self.held.clear();
        }
        Ok(())
    }
}
