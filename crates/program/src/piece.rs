//! One stored subchunk: reads it as far as an item needs it, verifies it, and decodes it.

use std::ops::Range;

use drystone_curve::{Curve, ranks};
use drystone_format::piece::{StoredPiece, Trailer};
use drystone_transform::checks::{crc32c, verify_units};
use drystone_transform::ranges::join;
use drystone_transform::{Chain, Fetched, Scratch, StoredSubchunk, TransformError, Want};

use crate::cost::stored_len;
use crate::gathered::wanted;
use crate::program::{Arrangement, Curved, Item, Mode, Program};
use crate::reply::{Refusal, Why};
use crate::source::{Source, SourceError};

/// Holes up to this size are read over, since a read on the storage side costs little.
const GAP: u64 = 16 << 10;

/// Buffers that are reused from item to item.
#[derive(Default)]
pub(crate) struct Workbench {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    unrolled: Vec<u8>,
    scratch: Scratch,
    /// The item whose whole decoded (and unrolled) subchunk is kept.
    holds: Option<Held>,
    chain: Option<(u16, Chain)>,
    ranks: Option<Ranks>,
}

/// The ranks of the cells of a shape along a curve.
type Ranks = ((Curve, Vec<u32>), Vec<u32>);
type Held = (u16, Mode, StoredPiece, Option<StoredPiece>);

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        Refusal::new(Why::Unreadable, error.to_string())
    }
}

impl From<TransformError> for Refusal {
    fn from(error: TransformError) -> Self {
        let why = match error {
            TransformError::Corrupt { .. } => Why::Damaged,
            _ => Why::Unsupported,
        };
        Refusal::new(why, format!("decoding: {error}"))
    }
}

fn damaged(what: impl Into<String>) -> Refusal {
    Refusal::new(Why::Damaged, what)
}

/// Sets the length of a buffer; a failed allocation is a refusal.
fn sized(buffer: &mut Vec<u8>, len: usize) -> Result<(), Refusal> {
    if let Some(more) = len.checked_sub(buffer.len()) {
        let short = |_| Refusal::new(Why::Budget, format!("{len} bytes of memory cannot be allocated"));
        buffer.try_reserve_exact(more).map_err(short)?;
    }
    buffer.resize(len, 0);
    Ok(())
}

impl Workbench {
    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let ranks = self.ranks.as_ref().map_or(0, |(_, ranks)| 4 * ranks.capacity());
        let buffers = self.stored.capacity() + self.decoded.capacity() + self.unrolled.capacity();
        buffers + ranks + self.scratch.held()
    }

    /// Drops what belongs to one program: the decoded subchunk, and the chain of each number.
    pub(crate) fn forget(&mut self) {
        (self.holds, self.chain) = (None, None);
    }

    /// The bytes from which the rule of an item gathers. Bytes that the rule does not read are unspecified.
    pub(crate) fn source_of<S: Source + ?Sized>(
        &mut self,
        program: &Program,
        item: &Item,
        source: &mut S,
    ) -> Result<&[u8], Refusal> {
        let malformed = || Refusal::new(Why::Malformed, "a number outside its table");
        let arrangement = program.arrangements.get(usize::from(item.arrangement)).ok_or_else(malformed)?;
        let rule = program.rules.get(usize::from(item.rule)).ok_or_else(malformed)?;
        let held = (item.arrangement, item.mode, item.piece, item.prefix);
        if item.mode == Mode::Whole && self.holds == Some(held) {
            return Ok(self.result(arrangement));
        }
        self.holds = None;
        let text = program.chains.get(usize::from(arrangement.chain)).ok_or_else(malformed)?;
        let chain = match self.chain.take() {
            Some((number, chain)) if number == item.arrangement => chain,
            _ => Chain::parse(text)?,
        };
        sized(&mut self.decoded, arrangement.decoded as usize)?;
        let done = match item.mode {
            Mode::Whole => self.whole(&chain, arrangement, item, source),
            Mode::Part | Mode::Prefix => {
                let unit = arrangement.curve.as_ref().map_or(1, |_| arrangement.decoded.into());
                let unit = if unit == 1 { arrangement.logical.item as u64 } else { unit };
                let ranges = match &arrangement.curve {
                    None => wanted(rule, unit, arrangement.decoded.into()),
                    Some(_) => std::iter::once(0..u64::from(arrangement.decoded)).collect(),
                };
                self.part(&chain, arrangement, item, &ranges, source)
            }
        };
        self.chain = Some((item.arrangement, chain));
        done?;
        if let Some(curved) = &arrangement.curve {
            self.unroll(curved)?;
        }
        self.holds = (item.mode == Mode::Whole).then_some(held);
        Ok(self.result(arrangement))
    }

    fn result(&self, arrangement: &Arrangement) -> &[u8] {
        if arrangement.curve.is_some() { &self.unrolled } else { &self.decoded }
    }

    fn whole<S: Source + ?Sized>(
        &mut self,
        chain: &Chain,
        arrangement: &Arrangement,
        item: &Item,
        source: &mut S,
    ) -> Result<(), Refusal> {
        let (piece, prefix) = (&item.piece, item.prefix);
        let before = prefix.map_or(0, |prefix| prefix.length) as usize;
        let len = piece.length as usize;
        let padded = (piece.end() - piece.position) as usize;
        let raw = chain.is_identity() && piece.trailer == 0;
        if raw {
            source.read(piece.position, &mut self.decoded)?;
            return whole_is_sound(piece, &self.decoded, &[]);
        }
        sized(&mut self.stored, stored_len(item) as usize)?;
        if let Some(prefix) = prefix {
            let place = self.stored.get_mut(..before).unwrap_or_default();
            source.read(prefix.position, place)?;
            prefix_is_sound(&prefix, place)?;
        }
        let place = self.stored.get_mut(before..before.saturating_add(padded)).unwrap_or_default();
        source.read(piece.position, place)?;
        let (payload, rest) = place.split_at(len.min(place.len()));
        whole_is_sound(piece, payload, rest)?;
        let stored = self.stored.get(..before.saturating_add(len)).unwrap_or_default();
        chain.decode(stored, &arrangement.logical, &mut self.decoded, &mut self.scratch)?;
        Ok(())
    }

    /// Decodes the wanted bytes of a subchunk at their offsets.
    fn part<S: Source + ?Sized>(
        &mut self,
        chain: &Chain,
        arrangement: &Arrangement,
        item: &Item,
        ranges: &[Range<u64>],
        source: &mut S,
    ) -> Result<(), Refusal> {
        let (piece, prefix) = (&item.piece, item.prefix);
        let before = prefix.map_or(0, |prefix| prefix.length);
        let mut prefixes = Vec::new();
        if item.mode == Mode::Part && chain.is_identity() {
            let trailer = trailer(piece, source)?;
            for range in at_units(ranges, piece) {
                let place =
                    self.decoded.get_mut(range.start as usize..range.end as usize).unwrap_or_default();
                source.read(piece.position.saturating_add(range.start), place)?;
                units_are_sound(piece, &trailer, range.start, place)?;
            }
            return Ok(());
        }
        let trailer = match item.mode {
            Mode::Prefix => None,
            _ => Some(trailer(piece, source)?),
        };
        let reads_prefix = item.mode == Mode::Prefix;
        if let Some(prefix) = prefix.filter(|_| reads_prefix) {
            prefixes = read_prefix(&prefix, source)?;
        }
        let meta = trailer.as_ref().map_or(prefixes.as_slice(), |trailer| trailer.meta.as_slice());
        let decoded_len = arrangement.decoded as usize;
        let stored = StoredSubchunk { len: before.saturating_add(piece.length), meta, decoded_len };
        let want = Want { ranges, precision: item.precision };
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        if let Some(trailer) = &trailer {
            let planned = chain.plan_read(&stored, &arrangement.logical, &want)?;
            let behind = |at: u64| at.saturating_sub(before);
            if let Some(prefix) = prefix.filter(|_| planned.ranges.first().is_some_and(|r| r.start < before))
            {
                runs.push((0, read_prefix(&prefix, source)?));
            }
            let rest: Vec<Range<u64>> =
                planned.ranges.iter().map(|r| behind(r.start)..behind(r.end)).collect();
            for range in at_units(&rest, piece) {
                let mut bytes = Vec::new();
                sized(&mut bytes, (range.end - range.start) as usize)?;
                source.read(piece.position.saturating_add(range.start), &mut bytes)?;
                units_are_sound(piece, trailer, range.start, &bytes)?;
                let at = before.saturating_add(range.start);
                // Adjacent runs are joined: a codec expects its bytes in one run.
                match runs.last_mut() {
                    Some((from, last)) if *from + last.len() as u64 == at => last.extend_from_slice(&bytes),
                    _ => runs.push((at, bytes)),
                }
            }
        } else {
            runs.push((0, prefixes.clone()));
        }
        let fetched = Fetched::new(runs.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect());
        let (decoded, scratch) = (&mut self.decoded, &mut self.scratch);
        chain.decode_part(&stored, &fetched, &arrangement.logical, &want, decoded, scratch)?;
        Ok(())
    }

    /// Copies the elements row by row, without other bytes of their cells.
    fn unroll(&mut self, curved: &Curved) -> Result<(), Refusal> {
        let key = (curved.curve, curved.shape.clone());
        let table = match self.ranks.take() {
            Some((known, table)) if known == key => table,
            _ => {
                let shape: Vec<u64> = curved.shape.iter().map(|n| u64::from(*n)).collect();
                ranks(curved.curve, &shape)
                    .map_err(|error| Refusal::new(Why::Unsupported, error.to_string()))?
            }
        };
        let (room, at, item) = (curved.room as usize, curved.at as usize, curved.item as usize);
        sized(&mut self.unrolled, table.len().saturating_mul(item))?;
        for (cell, rank) in self.unrolled.chunks_exact_mut(item).zip(&table) {
            let from = *rank as usize * room + at;
            let bytes = self.decoded.get(from..from + item);
            cell.copy_from_slice(bytes.ok_or_else(|| damaged("a subchunk does not fit its curve"))?);
        }
        self.ranks = Some((key, table));
        Ok(())
    }
}

fn read_prefix<S: Source + ?Sized>(prefix: &StoredPiece, source: &mut S) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    sized(&mut bytes, prefix.length as usize)?;
    source.read(prefix.position, &mut bytes)?;
    prefix_is_sound(prefix, &bytes)?;
    Ok(bytes)
}

fn prefix_is_sound(prefix: &StoredPiece, bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.len() as u64 == prefix.length && crc32c(bytes) == prefix.check {
        return Ok(());
    }
    Err(damaged(format!("the prefix of a subchunk at byte {} fails its checksum", prefix.position)))
}

fn trailer<S: Source + ?Sized>(piece: &StoredPiece, source: &mut S) -> Result<Trailer, Refusal> {
    let mut bytes = Vec::new();
    sized(&mut bytes, piece.trailer as usize)?;
    source.read(piece.trailer_position(), &mut bytes)?;
    Trailer::decode(piece, &bytes).map_err(|error| damaged(error.to_string()))
}

/// Compares a payload with its check, or with the checks in the trailer at the end of `rest`.
fn whole_is_sound(piece: &StoredPiece, payload: &[u8], rest: &[u8]) -> Result<(), Refusal> {
    let fails = || damaged(format!("a subchunk at byte {} fails its checksum", piece.position));
    if piece.trailer == 0 {
        return piece.check_payload(payload).map_err(|_| fails());
    }
    let from = rest.len().saturating_sub(piece.trailer as usize);
    let trailer = Trailer::decode(piece, rest.get(from..).unwrap_or_default());
    let trailer = trailer.map_err(|error| damaged(error.to_string()))?;
    let unit = usize::try_from(piece.unit()).unwrap_or(usize::MAX);
    verify_units(payload, unit, &trailer.checks).map_err(|_| fails())
}

fn units_are_sound(piece: &StoredPiece, trailer: &Trailer, start: u64, bytes: &[u8]) -> Result<(), Refusal> {
    let first = start / piece.unit().max(1);
    trailer.check(piece, first, bytes).map_err(|error| damaged(error.to_string()))
}

/// Ascending ranges of a payload, rounded outward to its units, and joined where they are then close.
fn at_units(ranges: &[Range<u64>], piece: &StoredPiece) -> Vec<Range<u64>> {
    let (unit, len) = (piece.unit().max(1), piece.length);
    let mut out = Vec::with_capacity(ranges.len());
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let high = range.end.div_ceil(unit).saturating_mul(unit).min(len);
        join(&mut out, (range.start / unit * unit).min(len)..high, GAP);
    }
    out
}
