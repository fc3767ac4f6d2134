//! The data side of a writer's log: pieces are packed into extents; large pieces are written directly from the
//! caller's memory.
//!
//! Invariants
//! - `len` bytes were handed to the store; `pending` follows them;
//! - bytes handed over in parts end at multiples of [`PART`] in the file, where the kernel's pages and larger folios
//!   end;
//! - an extent of runs begins after the bytes that were handed over. It is `held` until more is handed over, at the
//!   latest at the end of a step;
//! - every piece lies inside one EXTENT frame, aligned to 8 bytes, payload before trailer;
//! - on a store without append the whole part is one object, which `take_whole` returns. A far store that accepts
//!   uploads gets it in pieces once it is longer than one; then `len` bytes were handed over as well.

mod held;

use super::rising::{BUFFER, PIECE, Rising};
use super::runs::PAGE;
use crate::base::checksum::crc32;
use std::sync::Arc;
use std::time::Instant;

use drystone_format::entry::StoredPiece;
use drystone_format::frame::{self, FrameKind};
use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_format::piece::Trailer;
use drystone_store::{Pending, Store, StoreExt, Waits};

use super::runs::Runs;
use crate::Result;
use held::Held;

/// The number of staged bytes after which the staging area is handed to the store.
const STAGE: usize = 1 << 20;
/// Pieces of at least this size are written from the caller's memory, without a copy in the staging area.
pub(crate) const DIRECT: usize = 256 << 10;
/// Larger pieces are handed over in parts that end at multiples of this in the file. A part fits the second-level cache
/// between being made and being copied by the kernel, and the kernel allocates memory for each in one piece (processor
/// time on ext4: 0.28 ns a byte for parts of 256 KiB that end anywhere, 0.24 for those that end at multiples of it,
/// 0.23 for 512 KiB).
pub(crate) const PART: usize = 512 << 10;
/// At most this many bytes at the end of an extent wait for the bytes that follow.
const FEW: usize = 64 << 10;
/// A log that grew by this much at once is padded to a whole page, so that the next write need not read back a page
/// that the kernel has evicted.
const WORTH_A_PAGE: u64 = 1 << 20;
/// How far ahead space is preallocated for bytes that are about to be appended. A killed process leaves at most this
/// much unused, and data that several writers write at the same time lies in pieces of this size.
const AHEAD: u64 = 16 << 20;
/// Preallocating less is not worth a call.
const WORTH_TELLING: u64 = 1 << 20;
/// Raw pieces carry one checksum per this many bytes.
pub(crate) const UNIT_LOG2: u8 = 14;

/// Encoded pieces below this size are always read whole, and store no metadata.
const SMALL_PIECE: usize = 4 << 10;

/// One segment part being written.
pub(crate) struct Segment {
    store: Arc<dyn Store>,
    key: String,
    append: bool,
    /// Whether the part may be uploaded in pieces; `rising` holds the pieces uploaded so far.
    rises: bool,
    rising: Option<Rising>,
    len: u64,
    pending: Vec<u8>,
    /// Its length at the last durability point.
    promised: u64,
    /// The end of the current extent, and the position up to which the store was asked to preallocate.
    coming: u64,
    told: u64,
    /// The position in `pending` of the open extent's header.
    extent: Option<usize>,
    ordinal: u64,
    /// Places for small pieces of series, if runs are used; and the series of the next pieces.
    runs: Option<Runs>,
    series: Option<u64>,
    held: Held,
    /// The time at which an extent was last reserved for runs.
    kept: Option<Instant>,
}

impl Segment {
    /// The part that `header` names. `runs`: places for the small pieces of series, on a store that can write inside
    /// objects.
    pub(crate) fn new(store: Arc<dyn Store>, header: &FileHeader, runs: Option<Runs>) -> Self {
        let features = store.features();
        let append = features.append;
        let rises = !append && features.uploads && features.far.is_some();
        let mut pending = Vec::new();
        frame::push(&mut pending, FrameKind::File, 0, &header.encode());
        Segment {
            key: keys::segment(header.id, header.part),
            append,
            rises,
            rising: None,
            store,
            len: 0,
            pending,
            promised: 0,
            coming: 0,
            told: 0,
            extent: None,
            ordinal: 1,
            runs,
            series: None,
            held: Held::default(),
            kept: None,
        }
    }

    /// The same segment in a tier, where it grows whatever the home store supports.
    pub(crate) fn in_tier(self) -> Self {
        Segment { append: true, rises: false, runs: None, ..self }
    }

    /// Runs `act`; the pieces that it stores are the next ones of a series.
    pub(crate) fn of_series<T>(&mut self, series: Option<u64>, act: impl FnOnce(&mut Segment) -> T) -> T {
        self.series = series;
        let done = act(self);
        self.series = None;
        done
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The number of bytes of the part, staged ones included.
    pub(crate) fn size(&self) -> u64 {
        self.len + self.pending.len() as u64
    }

    /// Whether it holds anything besides its header.
    pub(crate) fn has_content(&self) -> bool {
        self.ordinal > 1 || self.extent.is_some()
    }

    /// Stores an encoded piece, with its metadata and histogram (either may be empty) in its trailer. A piece with
    /// metadata can be read in part, so it has a checksum per unit. Other pieces have one checksum over the whole
    /// payload.
    pub(crate) fn push_coded(
        &mut self,
        payload: &[u8],
        meta: &[u8],
        histogram: &[u8],
    ) -> Result<StoredPiece> {
        let (unit_log2, meta) = if meta.is_empty() || payload.len() < SMALL_PIECE {
            (0, &[][..])
        } else {
            (unit_for(payload.len()), meta)
        };
        let (trailer, check) = if meta.is_empty() && histogram.is_empty() {
            (Vec::new(), crc32(payload))
        } else {
            let trailer = Trailer::of(payload, unit_log2, histogram.to_vec()).with_meta(meta).encode();
            let check = crc32(&trailer);
            (trailer, check)
        };
        let position = if payload.len() < DIRECT || !self.is_handed_over() {
            self.stage(payload, &trailer)?
        } else {
            let position = self.begin_piece(payload.len(), trailer.len());
            let mut rest = payload;
            while !rest.is_empty() {
                let (part, behind) = split_part(rest, part_at(self.size()));
                self.hand_over(part)?;
                rest = behind;
            }
            self.end_piece(payload.len(), &trailer)?;
            position
        };
        Ok(StoredPiece {
            position,
            length: payload.len() as u64,
            trailer: trailer.len() as u64,
            unit_log2,
            check,
        })
    }

    /// Stores a raw piece with one checksum per 16 KiB. `seen` receives every byte while it is in the processor's
    /// cache.
    pub(crate) fn push_raw(
        &mut self,
        payload: &[u8],
        mut seen: impl FnMut(&[u8]) + Send,
    ) -> Result<StoredPiece> {
        let unit = 1usize << UNIT_LOG2;
        let length = payload.len() as u64;
        if payload.len() <= unit {
            seen(payload);
            let check = crc32(payload);
            let position = self.stage(payload, &[])?;
            return Ok(StoredPiece { position, length, trailer: 0, unit_log2: 0, check });
        }
        let mut sums: Vec<u32> = Vec::with_capacity(payload.len() / unit + 1);
        let (position, trailer);
        let mut check = |payload: &[u8]| {
            for unit in payload.chunks(unit) {
                sums.push(crc32(unit));
                seen(unit);
            }
        };
        if payload.len() < DIRECT || !self.is_handed_over() {
            check(payload);
            trailer = le_bytes(&sums);
            position = self.stage(payload, &trailer)?;
        } else {
            position = self.begin_piece(payload.len(), 4 * payload.len().div_ceil(unit));
            let (mut checked, mut rest) = (payload, payload);
            while !rest.is_empty() {
                let (part, behind) = split_part(rest, part_at(self.size()));
                // Whole units are checksummed ahead, since a part may end inside a unit.
                let ahead = checked.len().saturating_sub(behind.len()).next_multiple_of(unit);
                let (now, later) = checked.split_at(ahead.min(checked.len()));
                check(now);
                self.hand_over(part)?;
                (checked, rest) = (later, behind);
            }
            trailer = le_bytes(&sums);
            self.end_piece(payload.len(), &trailer)?;
        }
        Ok(StoredPiece {
            position,
            length,
            trailer: trailer.len() as u64,
            unit_log2: UNIT_LOG2,
            check: crc32(&trailer),
        })
    }

    /// Begins the extent of a piece that is written without staging. Returns the position of its payload.
    fn begin_piece(&mut self, payload: usize, trailer: usize) -> u64 {
        let body = if trailer > 0 { payload.next_multiple_of(4) + trailer } else { payload };
        self.begin(body.next_multiple_of(8) as u64)
    }

    /// Ends a piece of `payload` bytes, which were handed over or are the last pending ones. Appends its trailer,
    /// padded relative to the beginning of the piece, since pending bytes may begin anywhere in the file.
    fn end_piece(&mut self, payload: usize, trailer: &[u8]) -> Result<()> {
        if !trailer.is_empty() {
            let padding = payload.next_multiple_of(4) - payload;
            self.pending.resize(self.pending.len() + padding, 0);
            self.push(trailer)?;
        }
        self.pad();
        Ok(())
    }

    /// Whether bytes may be handed over before the part is complete.
    fn is_handed_over(&self) -> bool {
        self.append || self.rises
    }

    /// Appends to the pending bytes. If the part is uploaded in pieces, hands over full ones. No extent of small
    /// pieces is open then.
    fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.rises || self.extent.is_some() {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        while !bytes.is_empty() {
            if self.pending.len() >= PIECE {
                self.rise()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.pending.len().min(PIECE)));
            if self.pending.capacity() < PIECE && self.pending.len() + now.len() > STAGE {
                self.pending.reserve_exact(BUFFER - self.pending.len());
            }
            self.pending.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Hands over the first piece of the pending bytes, which contain at least one. After an error, nothing of the
    /// part remains.
    fn rise(&mut self) -> Result<()> {
        let mut rising = match self.rising.take() {
            Some(rising) => rising,
            None => Rising::begin(self.store.as_ref(), &self.key)?,
        };
        let behind = self.pending.split_off(PIECE.min(self.pending.len()));
        let piece = std::mem::take(&mut self.pending);
        self.len += piece.len() as u64;
        rising.add(piece)?;
        self.pending = rising.buffer();
        self.pending.extend_from_slice(&behind);
        self.rising = Some(rising);
        Ok(())
    }

    /// Begins an extent of `len` bytes, a multiple of 8, which `add` fills. Returns the position of its first byte.
    pub(crate) fn begin(&mut self, len: u64) -> u64 {
        self.close_extent();
        self.pending.extend_from_slice(&frame::header(FrameKind::Extent, self.ordinal, len, 0));
        self.ordinal += 1;
        self.coming = self.size() + len;
        self.size()
    }

    /// Appends bytes to the extent that was begun.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if self.append && bytes.len() >= FEW {
            return self.hand_over(bytes);
        }
        self.push(bytes)
    }

    /// Ends the bytes of a durability point: like [`flush`](Self::flush), but after many bytes ends with a whole
    /// page.
    pub(crate) fn end(&mut self) -> Result<()> {
        let missing = self.size().wrapping_neg() % PAGE;
        if self.append && self.size() - self.promised >= WORTH_A_PAGE && missing > 0 {
            if self.extent.is_some() {
                self.pending.resize(self.pending.len() + missing as usize, 0);
            } else if let Some(len) = missing.checked_sub(frame::HEADER as u64) {
                self.pending.extend_from_slice(&frame::header(FrameKind::Extent, self.ordinal, len, 0));
                self.ordinal += 1;
                self.pending.resize(self.pending.len() + len as usize, 0);
            }
        }
        self.flush()?;
        self.promised = self.len;
        Ok(())
    }

    /// Appends the pending bytes and `part`.
    fn hand_over(&mut self, part: &[u8]) -> Result<()> {
        if self.rises {
            return self.push(part);
        }
        self.write_held()?;
        let from = self.told.max(self.len);
        // Preallocation needs an existing object.
        if self.len > 0
            && self.size() + part.len() as u64 > from
            && self.coming.saturating_sub(from) >= WORTH_TELLING
        {
            self.told = self.coming.min(from + AHEAD);
            self.store.preallocate(&self.key, from, self.told);
        }
        self.store.append(&self.key, self.len, &[&self.pending, part])?;
        self.len += (self.pending.len() + part.len()) as u64;
        self.pending.clear();
        Ok(())
    }

    /// Copies payload and trailer into the staging area, or to the place of their series. Returns the payload's
    /// position.
    fn stage(&mut self, payload: &[u8], trailer: &[u8]) -> Result<u64> {
        if let Some(position) = self.hold(payload, trailer)? {
            return Ok(position);
        }
        // An extent of small pieces is never split. Bytes that would reach into the next piece of the part get their
        // own extent.
        let room = payload.len() + trailer.len() + 2 * frame::HEADER;
        if self.rises && self.pending.len() + room > PIECE {
            let position = self.begin_piece(payload.len(), trailer.len());
            self.push(payload)?;
            self.end_piece(payload.len(), trailer)?;
            return Ok(position);
        }
        if self.extent.is_none() {
            self.extent = Some(self.pending.len());
            self.pending.resize(self.pending.len() + frame::HEADER, 0);
        }
        let position = self.size();
        self.pending.extend_from_slice(payload);
        self.end_piece(payload.len(), trailer)?;
        if self.append && self.pending.len() >= STAGE {
            self.flush()?;
        }
        Ok(position)
    }

    /// Pads to the next multiple of 8 in the file.
    fn pad(&mut self) {
        let missing = self.size().next_multiple_of(8) - self.size();
        self.pending.resize(self.pending.len() + missing as usize, 0);
    }

    fn close_extent(&mut self) {
        if let Some(at) = self.extent.take() {
            let len = (self.pending.len() - at - frame::HEADER) as u64;
            let header = frame::header(FrameKind::Extent, self.ordinal, len, 0);
            self.pending[at..at + frame::HEADER].copy_from_slice(&header);
            self.ordinal += 1;
        }
    }

    /// Hands all staged bytes to the store (with append).
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.write_held()?;
        self.close_extent();
        if self.append && !self.pending.is_empty() && (self.len > 0 || self.ordinal > 1) {
            let mut rest = &self.pending[..];
            while !rest.is_empty() {
                let (part, behind) = split_part(rest, part_at(self.len) + PART);
                self.store.append(&self.key, self.len, &[part])?;
                self.len += part.len() as u64;
                rest = behind;
            }
            self.pending.clear();
        }
        Ok(())
    }

    /// On stores without append: the part as an object to put, or being uploaded, if it has content.
    pub(crate) fn take_whole(&mut self) -> Result<Option<Whole>> {
        self.flush()?;
        if self.append || !self.has_content() {
            return Ok(None);
        }
        while self.rises && self.pending.len() > PIECE {
            self.rise()?;
        }
        self.len += self.pending.len() as u64;
        let rest = std::mem::take(&mut self.pending);
        let Some(mut rising) = self.rising.take() else {
            return Ok(Some(Whole::Held(self.key.clone(), rest)));
        };
        if !rest.is_empty() {
            rising.add(rest)?;
        }
        let (pending, bytes, waits) = rising.finish();
        Ok(Some(Whole::Rising { key: self.key.clone(), pending, bytes, waits }))
    }
}

/// A complete part on a store without append.
pub(crate) enum Whole {
    /// Its key and bytes.
    Held(String, Vec<u8>),
    /// It is being uploaded: bytes that are still held, and how long its pieces waited.
    Rising { key: String, pending: Pending, bytes: u64, waits: Waits },
}

/// The length of the part that begins at `at` in the file. A short part is joined with the next.
pub(crate) fn part_at(at: u64) -> usize {
    let rest = PART - (at % PART as u64) as usize;
    if rest < PART / 4 { rest + PART } else { rest }
}

/// The next part of `rest`, and the bytes after it. A few last bytes go with the part before them.
fn split_part(rest: &[u8], part: usize) -> (&[u8], &[u8]) {
    let part = if rest.len() < part + PART / 4 { rest.len() } else { part };
    rest.split_at(part)
}

/// Size of the checksum units of an encoded piece that can be read in part: 1 KiB to 16 KiB, about 64 units, so that
/// few bytes are read beyond the wanted ones.
fn unit_for(len: usize) -> u8 {
    (len.max(1).ilog2() as u8).saturating_sub(6).clamp(10, UNIT_LOG2)
}

pub(crate) fn le_bytes(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|s| s.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests;
