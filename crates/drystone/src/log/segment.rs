//! The data side of a writer's log: pieces are packed into extents, large ones go straight from the caller's memory.
//!
//! Invariants
//! - `len` bytes were handed to the store, `pending` follows them;
//! - what is handed over in parts ends at multiples of [`PART`] in the file, where the system's pages and larger pieces of memory end;
//! - an extent of runs begins behind what was handed over and is `held` until more is, at the end of a step at the latest;
//! - every piece lies inside one EXTENT frame, aligned to 8 bytes, payload before trailer;
//! - in a store without append the whole part is one object, which `take_whole` gives; on a far one that takes uploads it goes up in
//!   pieces once it is longer than one, and then `len` bytes were handed over as well.

use super::rising::{BUFFER, PIECE, Rising};
use super::runs::PAGE;
use crate::base::checksum::crc32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::entry::StoredPiece;
use drystone_format::frame::{self, FrameKind};
use drystone_format::keys;
use drystone_format::log::FileHeader;
use drystone_format::piece::Trailer;
use drystone_store::{Pending, Store, StoreExt};

use super::runs;
use super::runs::Runs;
use crate::Result;

/// Bytes after which the staging area is handed to the store.
const STAGE: usize = 1 << 20;
/// Pieces of at least this size are written from the caller's memory without staging.
pub(crate) const DIRECT: usize = 256 << 10;
/// What is larger is handed over in parts that end at multiples of this in the file: they fit the second cache between being made and
/// being copied by the system, and the system finds memory for each in one piece (processor time on ext4: 0.28 ns a byte for parts of
/// 256 KiB that end anywhere, 0.24 for those that end at multiples of it, 0.23 of 512 KiB).
pub(crate) const PART: usize = 512 << 10;
/// So few bytes at the end of an extent wait for what follows them.
const FEW: usize = 64 << 10;
/// A log that grew by so much at once ends with a whole page, which the next write need not read back if the system has put it out.
const WORTH_A_PAGE: u64 = 1 << 20;
/// The store is told of so much at a time that is about to be appended: a kill leaves no more unused, and what several writers write
/// at once stands in pieces of this size.
const AHEAD: u64 = 16 << 20;
/// Less is not worth telling.
const WORTH_TELLING: u64 = 1 << 20;
/// Who has filled an extent of runs in this time will have filled the next before the system writes it out, which it begins with
/// what is 30 seconds old: zeros that are written first cost the device nothing.
const SOON: Duration = Duration::from_secs(5);
/// So many of them at once, up to multiples of it in the file, where the system has larger pieces of memory (ten pieces of 4 KiB: 8 us
/// in place of 11).
const FILLED: usize = 128 << 10;
/// Raw pieces carry one checksum per this many bytes.
pub(crate) const UNIT_LOG2: u8 = 14;

/// Encoded pieces below this are always read whole, and keep no metadata.
const SMALL_PIECE: usize = 4 << 10;

/// One segment part being written.
pub(crate) struct Segment {
    store: Arc<dyn Store>,
    key: String,
    append: bool,
    /// It may go up in pieces, and what went up so far.
    rises: bool,
    rising: Option<Rising>,
    len: u64,
    pending: Vec<u8>,
    /// How long it was when it last ended with a promise.
    promised: u64,
    /// Where the extent that was begun ends, and how far the store was told to make room for it.
    coming: u64,
    told: u64,
    /// Where the open extent's header stands in `pending`.
    extent: Option<usize>,
    ordinal: u64,
    /// Where small pieces of a series lie together, if they may, and the series of the pieces that come.
    runs: Option<Runs>,
    series: Option<u64>,
    held: Held,
    /// When an extent was last kept for runs.
    kept: Option<Instant>,
}

/// Pieces of runs that wait to be handed over together.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// Where each goes, and where in `bytes` it begins.
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

    /// Each with its place.
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
    /// The part that `header` names. `runs`: places for the small pieces of a series, in a store that writes inside of objects.
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

    /// The same in a tier, where it grows whatever home can.
    pub(crate) fn in_tier(self) -> Self {
        Segment { append: true, rises: false, runs: None, ..self }
    }

    /// `act`, the pieces that it stores being the next of a series.
    pub(crate) fn of_series<T>(&mut self, series: Option<u64>, act: impl FnOnce(&mut Segment) -> T) -> T {
        self.series = series;
        let done = act(self);
        self.series = None;
        done
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Bytes the part has, staged ones included.
    pub(crate) fn size(&self) -> u64 {
        self.len + self.pending.len() as u64
    }

    /// Does it hold anything but its header?
    pub(crate) fn has_content(&self) -> bool {
        self.ordinal > 1 || self.extent.is_some()
    }

    /// Stores an encoded piece with its metadata and histogram (either may be empty) in its trailer. With metadata it can be
    /// read in part, so there is a check per unit; else one over the whole payload.
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

    /// Stores a raw piece with one checksum per 16 KiB; `seen` gets every byte while it is in the processor's cache.
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
                // Whole units: a part may end inside of one.
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

    /// Begins the extent of a piece that is handed over without being staged; where its payload begins.
    fn begin_piece(&mut self, payload: usize, trailer: usize) -> u64 {
        let body = if trailer > 0 { payload.next_multiple_of(4) + trailer } else { payload };
        self.begin(body.next_multiple_of(8) as u64)
    }

    /// Ends a piece of `payload` bytes, which were handed over or are the last that are pending: its trailer, padded from where the piece
    /// begins, as what is pending may begin anywhere in the file.
    fn end_piece(&mut self, payload: usize, trailer: &[u8]) -> Result<()> {
        if !trailer.is_empty() {
            let padding = payload.next_multiple_of(4) - payload;
            self.pending.resize(self.pending.len() + padding, 0);
            self.push(trailer)?;
        }
        self.pad();
        Ok(())
    }

    /// Whether bytes may leave before the part is whole.
    fn is_handed_over(&self) -> bool {
        self.append || self.rises
    }

    /// Adds to what is pending; where the part goes up in pieces, hands over those that are full. No extent of small pieces is open then.
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

    /// Hands over the first piece of what is pending, which has one. After an error nothing of the part stays.
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

    /// Begins an extent of `len` bytes, a multiple of 8, which `add` fills; where its first byte stands.
    pub(crate) fn begin(&mut self, len: u64) -> u64 {
        self.close_extent();
        self.pending.extend_from_slice(&frame::header(FrameKind::Extent, self.ordinal, len, 0));
        self.ordinal += 1;
        self.coming = self.size() + len;
        self.size()
    }

    /// The next bytes of the extent that was begun.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        if self.append && bytes.len() >= FEW {
            return self.hand_over(bytes);
        }
        self.push(bytes)
    }

    /// Ends what a promise is made of: as [`flush`](Self::flush), and after much with a whole page.
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

    /// Appends what is pending and `part`.
    fn hand_over(&mut self, part: &[u8]) -> Result<()> {
        if self.rises {
            return self.push(part);
        }
        self.write_held()?;
        let from = self.told.max(self.len);
        // It is for an object that is there.
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

    /// Holds payload and trailer for where the pieces of their series are, if there is such a place; the payload's position.
    fn hold(&mut self, payload: &[u8], trailer: &[u8]) -> Result<Option<u64>> {
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

    /// Keeps an extent of `len` bytes for runs, from the beginning of a page on.
    fn keep(&mut self, len: u64) -> Result<()> {
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

    /// Writes zeros from here to the end of the segment. The system then has memory and accounts for the extent in a few pieces, and not
    /// one by one as pages of a sparse file are written: a step of ten pieces of 4 KiB takes 15 us in place of 28 (ext4).
    fn fill(&mut self, at: u64) -> Result<()> {
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

    /// Hands over what is held, all at once.
    fn write_held(&mut self) -> Result<()> {
        if !self.held.bytes.is_empty() {
            self.store.write_at(&self.key, &self.held.parts(), self.len)?;
            self.held.clear();
        }
        Ok(())
    }

    /// Copies payload and trailer into the staging area, or to where the pieces of their series are; returns the payload's position.
    fn stage(&mut self, payload: &[u8], trailer: &[u8]) -> Result<u64> {
        if let Some(position) = self.hold(payload, trailer)? {
            return Ok(position);
        }
        // An extent of small pieces is not parted: what would reach into the next piece of the part has one of its own.
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

    /// To the next multiple of 8 in the file.
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

    /// Hands everything staged to the store (with append).
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

    /// Without append: the part as the object that is to be put, or on its way, if it holds anything.
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
        let (pending, bytes) = rising.finish();
        Ok(Some(Whole::Rising(pending, bytes)))
    }
}

/// A part without append.
pub(crate) enum Whole {
    /// Its key and its bytes.
    Held(String, Vec<u8>),
    /// On its way, of which so many bytes are held.
    Rising(Pending, u64),
}

/// Bytes of the part that begins at `at` in the file, a short one together with the next.
pub(crate) fn part_at(at: u64) -> usize {
    let rest = PART - (at % PART as u64) as usize;
    if rest < PART / 4 { rest + PART } else { rest }
}

/// The next part of `rest`, and what is behind it; few bytes go with the part before them.
fn split_part(rest: &[u8], part: usize) -> (&[u8], &[u8]) {
    let part = if rest.len() < part + PART / 4 { rest.len() } else { part };
    rest.split_at(part)
}

/// Check units of an encoded piece that can be read in part: 1 KiB to 16 KiB, about 64 of them, so that what is read beyond the
/// wanted bytes stays small beside them.
fn unit_for(len: usize) -> u8 {
    (len.max(1).ilog2() as u8).saturating_sub(6).clamp(10, UNIT_LOG2)
}

pub(crate) fn le_bytes(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|s| s.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_format::log::FileKind;
    use drystone_store::MemoryStore;

    fn header() -> FileHeader {
        FileHeader {
            kind: FileKind::Segment,
            uuid: [7; 16],
            id: 1,
            part: 0,
            run: 0,
            rank: None,
            fence: 0,
            time: 0,
            origin: String::new(),
            process: String::new(),
            base: 0,
        }
    }

    #[test]
    fn encoded_pieces_that_are_not_staged_lie_where_they_say_and_frames_follow_each_other() {
        let header = header();
        let store = MemoryStore::new();
        let mut segment = Segment::new(Arc::new(store.clone()), &header, None);
        let mut made = Vec::new();
        for (n, len) in
            [9, DIRECT, DIRECT + 1, 77, DIRECT - 1, 2 * PART + 3, PART + 2].into_iter().enumerate()
        {
            let payload: Vec<u8> = (0..len).map(|i| ((i * 5 + n) >> 2) as u8).collect();
            let (meta, histogram) = [(&[][..], &[][..]), (&[1; 30], &[2; 17]), (&[], &[3; 40])][n % 3];
            let piece = segment.push_coded(&payload, meta, histogram).unwrap();
            assert_eq!(piece.position % 8, 0);
            made.push((piece, payload, histogram));
        }
        segment.end().unwrap();
        let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
        assert_eq!(bytes.len() as u64, segment.size());
        for (piece, payload, histogram) in &made {
            let at = piece.position as usize;
            assert!(bytes[at..at + payload.len()] == payload[..], "{} bytes at {at}", payload.len());
            let trailer = piece.trailer_position() as usize..piece.end() as usize;
            if piece.trailer == 0 {
                assert_eq!(piece.check, crc32(payload));
            } else {
                assert_eq!(Trailer::decode(piece, &bytes[trailer]).unwrap().histogram, *histogram);
            }
        }
        let mut at = 0;
        while let frame::Next::Frame { end, .. } = frame::next(&bytes, at, u64::MAX) {
            at = end;
        }
        assert_eq!(at, bytes.len() as u64, "the frames end where the log ends");
    }

    #[test]
    fn pieces_lie_where_they_say_wherever_parts_end_and_a_long_log_ends_with_a_page() {
        let header = header();
        let store = MemoryStore::new();
        let mut segment = Segment::new(Arc::new(store.clone()), &header, None);
        let mut made = Vec::new();
        let lens = [10, 20_000, DIRECT - 1, DIRECT, DIRECT + 5, PART, PART + 3, 3 * PART + 77, 5 * PART - 9];
        for (n, len) in lens.into_iter().enumerate() {
            let payload: Vec<u8> = (0..len).map(|i| ((i * 7 + n) >> 3) as u8).collect();
            let mut seen = Vec::new();
            let piece = segment.push_raw(&payload, |bytes| seen.extend_from_slice(bytes)).unwrap();
            assert!(seen == payload, "a payload of {len} bytes is measured once, in order");
            made.push((piece, payload));
            if n % 3 == 1 {
                segment.end().unwrap();
            }
        }
        segment.end().unwrap();
        let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
        assert_eq!((bytes.len() as u64, bytes.len() as u64 % PAGE), (segment.size(), 0));
        for (piece, payload) in made {
            let at = piece.position as usize;
            assert!(bytes[at..at + payload.len()] == payload[..], "{} bytes at {at}", payload.len());
            let trailer = at + payload.len().next_multiple_of(4);
            let sums: Vec<u32> = payload.chunks(1 << UNIT_LOG2).map(crc32).collect();
            if piece.trailer > 0 {
                assert_eq!(bytes[trailer..trailer + piece.trailer as usize], le_bytes(&sums));
            }
        }
    }

    #[test]
    fn pieces_of_a_series_lie_in_runs_between_the_others_and_frames_follow_each_other() {
        let store = MemoryStore::new();
        let mut segment = Segment::new(Arc::new(store.clone()), &header(), Some(Runs::new(1 << 30)));
        let mut made = Vec::new();
        for step in 0..60usize {
            for series in 0..3usize {
                let payload: Vec<u8> =
                    (0..[4096, 40, 3000][series]).map(|i| (i * 3 + step * 7 + series) as u8).collect();
                let histogram = if series == 2 { &[9; 21][..] } else { &[] };
                let put = |segment: &mut Segment| match series {
                    0 => segment.push_raw(&payload, |_| ()).unwrap(),
                    _ => segment.push_coded(&payload[..payload.len() - step % 3], &[], histogram).unwrap(),
                };
                let piece = segment.of_series((series > 0 || step % 5 > 0).then_some(series as u64), put);
                assert_eq!(piece.position % 8, 0);
                made.push((series, piece, payload));
            }
            segment.end().unwrap();
            let bytes = store.read_all(segment.key(), u64::MAX).unwrap();
            assert_eq!(bytes.len() as u64, segment.size());
            for (_, piece, payload) in &made {
                let at = piece.position as usize;
                assert_eq!(bytes[at..at + piece.length as usize], payload[..piece.length as usize]);
                if piece.trailer > 0 {
                    let trailer = piece.trailer_position() as usize..piece.end() as usize;
                    assert_eq!(Trailer::decode(piece, &bytes[trailer]).unwrap().histogram, [9; 21]);
                }
            }
            let mut at = 0;
            while let frame::Next::Frame { end, .. } = frame::next(&bytes, at, u64::MAX) {
                at = end;
            }
            assert_eq!(at, bytes.len() as u64, "the frames end where the log ends");
        }
        let places = |series| made.iter().filter(move |made| made.0 == series).map(|made| made.1.position);
        let together = |series| {
            places(series).zip(places(series).skip(1)).filter(|(a, b)| a.abs_diff(*b) < 4100).count()
        };
        assert!(together(1) > 50 && together(2) > 50, "{} {}", together(1), together(2));
        assert!(together(0) > 25, "what belongs to no series lies in the log: {}", together(0));
    }

    #[test]
    fn an_extent_of_runs_is_filled_with_zeros_for_who_fills_it_soon() {
        use std::os::unix::fs::MetadataExt;
        let written = |soon: bool| {
            let dir = tempfile::tempdir().unwrap();
            let store = Arc::new(drystone_store::LocalStore::create(dir.path()).unwrap());
            let mut segment = Segment::new(store.clone(), &header(), Some(Runs::new(1 << 30)));
            let mut made = Vec::new();
            for step in 0..20u8 {
                if !soon {
                    segment.kept = segment.kept.and_then(|at| at.checked_sub(SOON));
                }
                for series in 0..3u8 {
                    let payload = [step * 3 + series + 1; 4096];
                    let put = |segment: &mut Segment| segment.push_raw(&payload, |_| ()).unwrap();
                    made.push((segment.of_series(Some(series.into()), put), payload));
                }
                segment.end().unwrap();
                for (piece, payload) in &made {
                    assert!(store.read_vec(segment.key(), piece.position, 4096).unwrap() == payload);
                }
            }
            let found = dir.path().join(segment.key()).metadata().unwrap();
            assert_eq!(found.len(), segment.len);
            (found.len(), found.blocks() * 512)
        };
        let ((len, filled), (same, sparse)) = (written(true), written(false));
        assert_eq!(len, same);
        assert!(filled >= len || sparse >= len, "{filled} of {len} bytes, {sparse} of who takes his time");
        assert!(sparse >= len || sparse + (96 << 10) < filled, "{sparse} and {filled} bytes");
    }

    /// Blocks that stand beyond the end of a file take the place of others for as long as it is there.
    #[test]
    fn room_is_made_for_what_is_written_and_for_no_more() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(drystone_store::LocalStore::create(dir.path()).unwrap());
        let mut segment = Segment::new(store, &header(), None);
        let payload = vec![7; 2 * AHEAD as usize + 3 * PART + 77];
        for len in [payload.len(), 10, WORTH_TELLING as usize, 20_000, payload.len() / 3] {
            let piece = segment.push_raw(&payload[..len], |_| ()).unwrap();
            segment.end().unwrap();
            assert_eq!(piece.length, len as u64);
            assert!(segment.told <= segment.len);
            let found = dir.path().join(segment.key()).metadata().unwrap();
            assert_eq!(found.len(), segment.len);
            let preallocates = rustix::fs::statfs(dir.path()).unwrap().f_type as u32 != 0xEF53;
            assert!(preallocates || found.blocks() * 512 <= found.len() + (64 << 10), "{found:?}");
        }
        assert!(segment.told > 0);
    }
}
