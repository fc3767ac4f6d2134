//! Checks stored blocks against their checksums, one after the other.

use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::schema::Variable;
use drystone_format::table::Subchunk;
use drystone_format::{MAX_NDIM, keys};
use drystone_plan::coalesce::coalesce;
use drystone_plan::form::Form;
use drystone_store::{Request, Store};
use drystone_transform::checks::crc_units;
use drystone_transform::{Chain, Logical, Scratch};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::checksum::crc32;
use crate::base::error::must_exist;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::read::{load_table, segment_key};
use crate::schema::element_type::{MAX_SUBCHUNK, logical};
use crate::{Error, Result};

/// Number of entries that are checked together on a far store.
const BATCH: usize = 256;
/// Ranges that lie no farther apart are prefetched as one.
const NEAR: u64 = 4 << 10;
/// Bytes of strings that are read at once, unless one string is longer.
const STRINGS: u64 = 4 << 20;

/// Checks entries one after the other.
pub(crate) struct Checker<'a> {
    inner: &'a Inner,
    snapshot: &'a Snapshot,
    pub(crate) names: BTreeMap<u32, String>,
    buffer: Vec<u8>,
    decoded: Vec<u8>,
    scratch: Scratch,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(inner: &'a Inner, snapshot: &'a Snapshot) -> Self {
        let names = snapshot.schema.named().map(|(path, v)| (v.id, path.to_owned())).collect();
        Checker { inner, snapshot, names, buffer: Vec::new(), decoded: Vec::new(), scratch: Scratch::new() }
    }

    /// The number of entries that a caller should check together.
    pub(crate) fn batch(&self) -> usize {
        if self.inner.window().is_some() { BATCH } else { 1 }
    }

    /// Hints to a far store which bytes these entries need first: their payloads, or the tables of cut ones.
    pub(crate) fn prefetch(&self, entries: &[Entry]) {
        if self.inner.window().is_none() {
            return;
        }
        let range = |entry: &Entry| {
            let source = self.snapshot.source(&self.inner.pages, entry.source).ok()?;
            Some((segment_key(&source), stored_range(&entry.piece)?))
        };
        self.expect(entries.iter().filter(|entry| entry.subchunks > 0).filter_map(range).collect());
    }

    /// Hints ranges to the store; neighbouring ranges are merged.
    fn expect(&self, ranges: Vec<(String, std::ops::Range<u64>)>) {
        let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
        let mut items = Vec::with_capacity(ranges.len());
        for (key, range) in ranges {
            let next = numbers.len() as u32;
            items.push((*numbers.entry(key).or_insert(next), range, ()));
        }
        let fetches = coalesce(items, NEAR, 1 << 20);
        for (key, number) in numbers {
            let of_key = fetches.iter().filter(|fetch| fetch.source == number);
            let ranges = of_key.map(|fetch| (fetch.range.start, fetch.len())).collect();
            // A hint only: the read itself reports a failure.
            drop(self.inner.store.submit(Request::Expect { key, ranges }));
        }
    }

    pub(crate) fn key(&self, entry: &Entry) -> String {
        self.snapshot
            .source(&self.inner.pages, entry.source)
            .map_or_else(|_| "index".into(), |s| segment_key(&s))
    }

    /// Reads and checks all bytes of an entry; returns how many.
    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<u64> {
        let source = self.snapshot.source(&self.inner.pages, entry.source)?;
        if source.kind != 0 {
            return Err(Error::unsupported(format!(
                "source {} is of an unknown kind {}",
                entry.source, source.kind
            )));
        }
        self.entry_in(source.writer, source.part, entry)
    }

    /// Like [`entry`](Self::entry), for an entry whose bytes lie in a given part of a writer's log, adopted or not.
    pub(crate) fn entry_in(&mut self, writer: u64, part: u32, entry: &Entry) -> Result<u64> {
        let key = keys::segment(writer, part);
        if entry.subchunks == 0 {
            return Ok(0);
        }
        let variable = self.snapshot.schema.variables.get(&entry.variable).cloned();
        let one;
        let table;
        let pieces: &[_] = if entry.subchunks == 1 {
            one = [Subchunk { piece: entry.piece, stats: entry.stats, prefix: None }];
            &one
        } else {
            table = load_table(self.inner, writer, part, entry)?;
            if self.inner.window().is_some() {
                let prefixes = table.iter().filter_map(|subchunk| stored_range(&subchunk.prefix?.piece()));
                let pieces = table.iter().filter_map(|subchunk| stored_range(&subchunk.piece));
                self.expect(prefixes.chain(pieces).map(|range| (key.clone(), range)).collect());
            }
            &table
        };
        if entry.encoding.chain == "bounds" {
            return Ok(0); // statistics only
        }
        let n = usize::from(entry.ndim);
        let grid = entry.grid();
        let mut place = [0; MAX_NDIM];
        let mut bytes = 0;
        // The entry was validated: grid and table have the stated number of subchunks.
        for subchunk in pieces {
            let (_, extent) = entry.subchunk_box(&place);
            bytes += self.subchunk(&key, subchunk)?;
            self.decode(&key, entry, variable.as_ref(), &subchunk.piece, &extent[..n])?;
            for d in (0..n).rev() {
                place[d] += 1;
                if place[d] < grid[d] {
                    break;
                }
                place[d] = 0;
            }
        }
        Ok(bytes)
    }

    /// Verifies one stored subchunk, and leaves its payload in `buffer`.
    fn subchunk(&mut self, key: &str, subchunk: &Subchunk) -> Result<u64> {
        let Some(prefix) = &subchunk.prefix else { return self.piece(key, &subchunk.piece) };
        let bytes = self.piece(key, &prefix.piece())?;
        let mut all = std::mem::take(&mut self.buffer);
        let bytes = bytes + self.piece(key, &subchunk.piece)?;
        all.append(&mut self.buffer);
        self.buffer = all;
        Ok(bytes)
    }

    /// Verifies one stored piece, and leaves its payload in `buffer`.
    fn piece(&mut self, key: &str, piece: &StoredPiece) -> Result<u64> {
        let damaged = |at: u64, what: &str| Error::corrupt(format!("{key} is damaged at byte {at}: {what}"));
        let range = stored_range(piece)
            .ok_or_else(|| damaged(piece.position, "a stored piece's numbers are out of range"))?;
        let len = range.end - range.start;
        if len > 3 * MAX_SUBCHUNK + (1 << 18) || piece.length > len {
            return Err(damaged(piece.position, "a stored piece is too long"));
        }
        self.buffer.resize(len as usize, 0);
        self.inner.store.read(key, range.start, &mut self.buffer).map_err(must_exist)?;
        let (payload, rest) = self.buffer.split_at(piece.length as usize);
        if piece.trailer == 0 {
            if crc32(payload) != piece.check {
                return Err(damaged(piece.position, "the data fails its checksum"));
            }
        } else {
            let trailer = &rest[rest.len() - piece.trailer as usize..];
            if crc32(trailer) != piece.check {
                return Err(damaged(piece.position + piece.length, "the checksums fail their checksum"));
            }
            let unit = if piece.unit_log2 == 0 { payload.len().max(1) } else { 1 << piece.unit_log2.min(40) };
            let mut sums = Vec::new();
            crc_units(payload, unit, &mut sums);
            let stored = trailer.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            if sums.len() * 4 > trailer.len() {
                return Err(damaged(piece.position, "there are too few checksums"));
            }
            if let Some(bad) = sums.iter().zip(stored).position(|(a, b)| *a != b) {
                return Err(damaged(piece.position + (bad * unit) as u64, "the data fails its checksum"));
            }
        }
        self.buffer.truncate(piece.length as usize);
        Ok(len)
    }

    /// Passes the stored bytes of each subchunk of an entry to `give`: verified and still encoded.
    pub(crate) fn payloads(&mut self, entry: &Entry, give: &mut dyn FnMut(&[u8])) -> Result<()> {
        let source = self.snapshot.source(&self.inner.pages, entry.source)?;
        let key = segment_key(&source);
        let one = Subchunk { piece: entry.piece, stats: entry.stats, prefix: None };
        let subchunks = match entry.subchunks {
            0 => Arc::default(),
            1 => Arc::new(vec![one]),
            _ => load_table(self.inner, source.writer, source.part, entry)?,
        };
        for subchunk in subchunks.iter() {
            self.subchunk(&key, subchunk)?;
            give(&self.buffer);
        }
        Ok(())
    }

    /// Decodes the payload in `buffer`, and checks the blobs of strings.
    fn decode(
        &mut self,
        key: &str,
        entry: &Entry,
        variable: Option<&Variable>,
        piece: &StoredPiece,
        extent: &[u64],
    ) -> Result<()> {
        let form = Form::of(entry).ok_or_else(|| {
            Error::unsupported(format!("{key}: {:?}, which this program cannot read", entry.encoding.layout))
        })?;
        let item = form.room;
        let len = extent.iter().try_fold(item, |b, n| b.checked_mul(*n)).filter(|b| *b <= MAX_SUBCHUNK);
        let len = len.ok_or_else(|| Error::corrupt(format!("{key}: a subchunk claims more than 16 MiB")))?;
        let raw = entry.encoding.chain.is_empty();
        if raw && len != piece.length {
            return Err(Error::corrupt(format!(
                "{key} at byte {}: a raw subchunk has the wrong length",
                piece.position
            )));
        }
        // Decoding values of a deleted variable would need its element type. Their checksums were compared.
        let Some(variable) = variable else { return Ok(()) };
        let leaf = variable.dtype.leaves().into_iter().nth(entry.member as usize);
        if !raw {
            let chain = Chain::parse(&entry.encoding.chain).map_err(|e| Error::unsupported(e.to_string()))?;
            let unknown = || Logical { shape: extent.to_vec(), ..Logical::scalars(item as usize, 0) };
            let logical = form.logical(&leaf.as_ref().map_or_else(unknown, |leaf| logical(leaf, extent)));
            self.decoded.resize(len as usize, 0);
            chain.decode(&self.buffer, &logical, &mut self.decoded, &mut self.scratch).map_err(|e| {
                Error::corrupt(format!("{key} is damaged at byte {}: decoding: {e}", piece.position))
            })?;
        }
        if leaf.is_some_and(|l| l.dtype.is_blob()) {
            let refs = if raw { std::mem::take(&mut self.buffer) } else { std::mem::take(&mut self.decoded) };
            self.blobs(key, &refs)?;
        }
        Ok(())
    }

    /// Checks the strings of references: those that lie near each other are read at once.
    fn blobs(&mut self, key: &str, refs: &[u8]) -> Result<()> {
        let known = self.inner.store.len(key).map_err(must_exist)?;
        let mut blobs = Vec::with_capacity(refs.len() / 16);
        for r in refs.as_chunks::<16>().0 {
            let position = u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]);
            let length = u64::from(u32::from_le_bytes([r[8], r[9], r[10], r[11]]));
            let check = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
            let end = position.checked_add(length).filter(|end| *end <= known);
            match end {
                _ if length == 0 => {}
                Some(end) => blobs.push((0, position..end, check)),
                None => return Err(Error::corrupt(format!("{key}: a string lies outside the file"))),
            }
        }
        for fetch in coalesce(blobs, NEAR, STRINGS) {
            let first = fetch.range.start;
            self.buffer.resize(fetch.len() as usize, 0);
            self.inner.store.read(key, first, &mut self.buffer).map_err(must_exist)?;
            for (range, check) in fetch.items {
                let bytes = &self.buffer[(range.start - first) as usize..(range.end - first) as usize];
                if crc32(bytes) != check {
                    return Err(Error::corrupt(format!(
                        "{key} is damaged at byte {}: a string fails its checksum",
                        range.start
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The bytes of the segment that a stored piece occupies; `None` if its numbers overflow.
fn stored_range(piece: &StoredPiece) -> Option<std::ops::Range<u64>> {
    let payload = if piece.trailer > 0 { piece.length.checked_next_multiple_of(4)? } else { piece.length };
    let end = piece.position.checked_add(payload)?.checked_add(piece.trailer)?;
    Some(piece.position..end)
}
