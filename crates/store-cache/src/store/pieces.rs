//! Divides ranges by where their bytes are: in the home store, in the folder, or in a prefetch under way.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use drystone_store::Result;

use super::counts::add;
use super::doubts::is_first;
use super::{LOADED, Shared, lock};
use crate::flight::Flight;
use crate::folder::{Folder, Missed};

/// Where a part of a range comes from.
#[derive(Debug)]
pub(super) enum Place {
    Home,
    Unit(Range<u64>),
    Flight(Arc<Flight>),
}

/// A part of a range.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) range: Range<u64>,
    pub(super) from: Place,
}

impl Shared {
    /// The parts of a range that neither the folder nor a flight holds.
    pub(super) fn holes(&self, key: &str, range: &Range<u64>) -> Vec<Range<u64>> {
        let pieces = self.pieces(key, range);
        pieces
            .into_iter()
            .filter(|piece| matches!(piece.from, Place::Home))
            .map(|piece| piece.range)
            .collect()
    }

    /// Number of bytes of a range that the folder holds.
    pub(super) fn held(&self, key: &str, range: &Range<u64>) -> u64 {
        let pieces = self.pieces(key, range);
        let held = pieces.iter().filter(|piece| matches!(piece.from, Place::Unit(_)));
        held.map(|piece| piece.range.end - piece.range.start).sum()
    }

    /// Divides a range by where its bytes are.
    pub(super) fn pieces(&self, key: &str, range: &Range<u64>) -> Vec<Piece> {
        let home = |range: Range<u64>| Piece { range, from: Place::Home };
        let asks_first = is_first(range.start, (range.end - range.start) as usize) && self.is_in_doubt(key);
        if self.bypassed.load(Ordering::SeqCst) > 0 || asks_first {
            return vec![home(range.clone())];
        }
        let mut pieces = match self.folder.as_ref().filter(|folder| folder.health.aside().is_none()) {
            None => vec![home(range.clone())],
            Some(folder) => {
                let dir = Folder::dir(&self.uuid, key);
                let parts = lock(self.index.get()).cover(folder, &dir, key, range);
                let piece = |part: drystone_plan::tier::cover::Covered| Piece {
                    range: part.range,
                    from: part.unit.map_or(Place::Home, Place::Unit),
                };
                parts.into_iter().map(piece).collect()
            }
        };
        let flights = lock(self.flights.get());
        if flights.is_empty() {
            return pieces;
        }
        let units = flights.units(key);
        let by_flight = |piece: Piece| match piece.from {
            Place::Home => units
                .cover(piece.range)
                .into_iter()
                .map(|part| {
                    let flight = part.unit.and_then(|unit| flights.find(key, &unit));
                    Piece { range: part.range, from: flight.map_or(Place::Home, Place::Flight) }
                })
                .collect(),
            _ => vec![piece],
        };
        pieces = pieces.into_iter().flat_map(by_flight).collect();
        pieces
    }

    /// Fills `out` from a unit, which stays open for the next load.
    fn load_from(
        &self,
        folder: &Folder,
        key: &str,
        unit: &Range<u64>,
        from: u64,
        out: &mut [u8],
    ) -> std::result::Result<(), Missed> {
        if folder.health.aside().is_some() {
            return Err(Missed::Failed);
        }
        let (known, head) = {
            let mut index = lock(self.index.get());
            let known = index.note(key, unit);
            (known.open.upgrade(), known.head.clone())
        };
        let open = match known {
            Some(open) => Some(open),
            None => {
                let opened = folder.open_unit((&self.uuid, key), unit)?;
                if let Some(opened) = &opened {
                    lock(self.index.get()).note(key, unit).open = Arc::downgrade(opened);
                }
                opened
            }
        };
        match open {
            Some(open) => folder.load_open(&open, unit, from, out),
            None => {
                let head = folder.load((&self.uuid, key), unit, head, from, out)?;
                lock(self.index.get()).note(key, unit).head.get_or_insert(head);
                Ok(())
            }
        }
    }

    /// Fills `out` from a unit. Returns `false` if that fails, so the home store must be asked.
    pub(super) fn load(&self, key: &str, unit: &Range<u64>, from: u64, out: &mut [u8]) -> bool {
        let Some(folder) = &self.folder else { return false };
        match self.load_from(folder, key, unit, from, out) {
            Ok(()) => {
                add(&self.tally.hit_bytes, out.len() as u64);
                let mut index = lock(self.index.get());
                let known = index.note(key, unit);
                let used = known.unread.min(out.len() as u64);
                known.unread -= used;
                let touches = known.touched.is_none_or(|at| at.elapsed() > Folder::touch_interval());
                if touches {
                    known.touched = Some(Instant::now());
                }
                drop(index);
                add(&self.tally.prefetch_used_bytes, used);
                if touches {
                    folder.touch(&self.uuid, key, unit);
                }
                let mut loaded = lock(&self.loaded);
                if loaded.last().is_none_or(|(k, u)| k != key || u != unit) {
                    if loaded.len() >= LOADED {
                        loaded.drain(..LOADED / 2);
                    }
                    loaded.push((key.to_owned(), unit.clone()));
                }
                true
            }
            Err(Missed::Failed) => {
                add(&self.tally.failures, 1);
                false
            }
            Err(missed) => {
                if missed == Missed::Damaged {
                    add(&self.tally.repaired, 1);
                }
                self.remove(key, unit);
                false
            }
        }
    }

    /// Fills `out` with a piece from a unit or a flight. Returns `false` if the home store must be asked.
    pub(super) fn fill(&self, key: &str, piece: &Piece, out: &mut [u8]) -> bool {
        match &piece.from {
            Place::Home => false,
            Place::Unit(unit) => self.load(key, unit, piece.range.start, out),
            Place::Flight(flight) => {
                let Some(bytes) = flight.bytes() else { return false };
                let from = (piece.range.start - flight.range.start) as usize;
                let Some(wanted) = bytes.get(from..from + out.len()) else { return false };
                out.copy_from_slice(wanted);
                add(&self.tally.prefetch_used_bytes, flight.was_read(out.len() as u64));
                true
            }
        }
    }

    pub(super) fn note_read(&self, pieces: &[Piece]) {
        let of_home = pieces.iter().filter(|piece| matches!(piece.from, Place::Home));
        let bytes: u64 = of_home.map(|piece| piece.range.end - piece.range.start).sum();
        add(if bytes == 0 { &self.tally.hits } else { &self.tally.misses }, 1);
        add(&self.tally.home_bytes, bytes);
    }

    /// Fills the buffers of ranges, in order. `from_home` holds the bytes of the pieces that were read from the home
    /// store.
    pub(super) fn assemble(
        &self,
        (era, key): (u64, &str),
        ranges: &[(u64, usize)],
        pieces: &[Vec<Piece>],
        from_home: Vec<Vec<u8>>,
        mut spare: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut from_home = from_home.into_iter();
        let mut buffers = Vec::with_capacity(ranges.len());
        for (&(offset, len), pieces) in ranges.iter().zip(pieces) {
            if let [Piece { from: Place::Home, .. }] = pieces.as_slice() {
                let bytes = from_home.next().unwrap_or_default();
                self.keep(era, key, offset, &bytes, 0);
                buffers.push(bytes);
                continue;
            }
            let mut buffer = spare.pop().unwrap_or_default();
            if buffer.capacity() < len {
                buffer = vec![0; len];
            } else {
                buffer.resize(len, 0);
            }
            for piece in pieces {
                let start = (piece.range.start - offset) as usize;
                let end = (piece.range.end - offset) as usize;
                let Some(out) = buffer.get_mut(start..end) else { continue };
                if matches!(piece.from, Place::Home) {
                    let bytes = from_home.next().unwrap_or_default();
                    if bytes.len() == out.len() {
                        out.copy_from_slice(&bytes);
                        self.keep(era, key, piece.range.start, &bytes, 0);
                        continue;
                    }
                } else if self.fill(key, piece, out) {
                    continue;
                }
                self.home.read(key, piece.range.start, out)?;
                self.keep(era, key, piece.range.start, out, 0);
            }
            buffers.push(buffer);
        }
        Ok(buffers)
    }
}
