//! Verification: every byte a snapshot refers to, against its checksums; and what is damaged, named.

use std::collections::BTreeMap;
use std::sync::Arc;

use drystone_format::dtype::DType;
use drystone_format::entry::{Entry, Piece};
use drystone_format::schema::Variable;
use drystone_format::table::Subchunk;
use drystone_format::{MAX_NDIM, keys};
use drystone_plan::coalesce::coalesce;
use drystone_plan::form::Form;
use drystone_plan::tree;
use drystone_store::{Reply, Request, Store, StoreExt};
use drystone_transform::checks::crc_units;
use drystone_transform::{Chain, Logical, Scratch};

use crate::container::{Container, Inner};
use crate::error::must_exist;
use crate::put::{MAX_SUBCHUNK, logical};
use crate::read::{load_table, segment_key};
use crate::segment::crc32;
use crate::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result, head};

/// Progress is told at least after this many bytes.
const PROGRESS_BYTES: u64 = 16 << 20;

/// Entries that are checked together on a far store, and lengths that are asked for together.
const BATCH: usize = 256;
const TOGETHER: usize = 128;
/// Ranges that lie no farther apart are prefetched as one.
const NEAR: u64 = 4 << 10;

/// Something that cannot be read as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Which object, as far as known.
    pub key: String,
    /// Variable path, if one is affected.
    pub variable: Option<String>,
    /// Step, if one is affected.
    pub step: Option<u64>,
    /// What is wrong.
    pub message: String,
}

/// What a verification saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Index entries checked.
    pub entries: u64,
    /// Payload bytes read and checked.
    pub bytes: u64,
    /// Manifests checked.
    pub manifests: u64,
    /// Shards of the published replica checked.
    pub shards: u64,
    /// Of these, such as were replaced since the snapshot: it reads the log in their place.
    pub moved: u64,
    /// What was found damaged; empty means sound.
    pub damage: Vec<Damage>,
}

impl Container {
    /// The same, and also whether what the published chunks decode to is what the log holds.
    pub fn verify_values(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        let mut report = self.verify(progress)?;
        let values = self.verify_published(true, progress)?;
        report
            .damage
            .extend(values.damage.into_iter().filter(|d| d.message.contains("is not what the log holds")));
        Ok(report)
    }

    /// Checks everything the handle's snapshot refers to, the manifests of the snapshots before it, and the published replica
    /// ([`Container::verify_published`]).
    ///
    /// `progress` gets (entries done, entries in all) now and then and may return `false` to stop (`Cancelled`).
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        self.inner.require_open()?;
        let inner = &self.inner;
        let snapshot = self.snapshot();
        let mut report = VerifyReport::default();
        let mut manifests = head::Manifests::new(inner.store.as_ref(), &inner.identity.uuid);
        let damage = |key: String, message: String| Damage { key, variable: None, step: None, message };
        let mut version = snapshot.version();
        while version > 0 {
            match manifests.read(version) {
                Ok(manifest) => {
                    report.manifests += 1;
                    if let Err(e) = Snapshot::load(manifest.clone(), &inner.pages) {
                        report.damage.push(damage(keys::manifest(version), e.to_string()));
                    }
                    version = manifest.parent.min(version - 1);
                }
                // What is older has expired.
                Err(_) if head::is_gone(inner.store.as_ref(), version) => break,
                Err(e) => {
                    if !head::is_void(inner.store.as_ref(), version) {
                        report.damage.push(damage(keys::manifest(version), e.to_string()));
                    }
                    version = head::below(inner.store.as_ref(), version)?;
                }
            }
        }
        match check_logs(inner, &snapshot) {
            Ok(short) => report.damage.extend(short),
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                report.damage.push(damage("the source table".into(), e.to_string()));
            }
            Err(e) => return Err(e),
        }
        let published = self.verify_published(false, &mut |_, _| progress(0, snapshot.entry_count()))?;
        report.bytes += published.bytes;
        (report.shards, report.moved) = (published.shards, published.moved);
        report.damage.extend(published.damage);
        let Some(root) = &snapshot.manifest.root else { return Ok(report) };
        let total = root.entries;
        let mut failed: Option<Error> = None;
        let mut told = 0;
        let mut checker = Checker::new(inner, &snapshot);
        let mut pages: Vec<Error> = Vec::new();
        let mut check = |entry: &Entry, checker: &mut Checker<'_>| {
            if failed.is_some() {
                return;
            }
            report.entries += 1;
            match checker.entry(entry) {
                Ok(bytes) => report.bytes += bytes,
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                    report.damage.push(Damage {
                        key: checker.key(entry),
                        variable: checker.names.get(&entry.variable).cloned(),
                        step: entry.step.checked_sub(1),
                        message: e.to_string(),
                    });
                }
                Err(e) => failed = Some(e),
            }
            let due = report.entries.is_multiple_of(64) || report.bytes - told >= PROGRESS_BYTES;
            if due {
                told = report.bytes;
            }
            if due && !progress(report.entries, total) {
                failed = Some(Error::new(ErrorKind::Cancelled, "verification was stopped"));
            }
        };
        // On a far store entries are checked in batches, so that what they need comes together.
        let most = checker.batch();
        let mut batch: Vec<Entry> = Vec::with_capacity(most);
        let mut check_all = |batch: &mut Vec<Entry>| {
            checker.prefetch(batch);
            batch.drain(..).for_each(|entry| check(&entry, &mut checker));
        };
        let visit = &mut |entry: &Entry| {
            batch.push(entry.clone());
            if batch.len() >= most {
                check_all(&mut batch);
            }
        };
        tree::audit(&inner.pages, root, visit, &mut |e| pages.push(e));
        check_all(&mut batch);
        if let Some(error) = failed {
            return Err(error);
        }
        for error in pages {
            if error.kind() != ErrorKind::Corrupt {
                return Err(error);
            }
            report.damage.push(damage("index".into(), error.to_string()));
        }
        if !snapshot.schema.declarations.is_empty() {
            self.verify_replicas(&mut report)?;
        }
        progress(report.entries, total);
        Ok(report)
    }
}

impl Container {
    /// Compares replicas with what was put, where the index can be read.
    fn verify_replicas(&self, report: &mut VerifyReport) -> Result<()> {
        let snapshot = self.snapshot();
        for (path, _) in snapshot.schema.named() {
            let found = self.reading(path, None).and_then(|reading| {
                let steps = match reading.variable().steps {
                    true => reading.steps()?.into_iter().map(Some).collect(),
                    false => vec![None],
                };
                for step in steps {
                    for message in reading.compare_replicas(step)? {
                        report.damage.push(Damage {
                            key: "log".into(),
                            variable: Some(path.to_owned()),
                            step,
                            message,
                        });
                    }
                }
                Ok(())
            });
            match found {
                Err(e) if e.kind() != ErrorKind::Corrupt => return Err(e),
                _ => {} // what is damaged in the index was reported
            }
        }
        Ok(())
    }
}

/// Log files the snapshot refers to: are their adopted parts still sound?
fn check_logs(inner: &Inner, snapshot: &Snapshot) -> Result<Vec<Damage>> {
    let mut out = Vec::new();
    let sources = snapshot.sources(&inner.pages)?;
    let sources: Vec<_> = sources.iter().filter(|s| s.kind == 0 && s.seg_length > 0).collect();
    for some in sources.chunks(TOGETHER) {
        let lens = some.iter().map(|source| Request::Len { key: segment_key(source) }).collect();
        for (source, reply) in some.iter().zip(inner.store.together(lens)) {
            let key = segment_key(source);
            let bad = match reply.map_err(must_exist) {
                Ok(Reply::Len { len }) if len < source.seg_length => {
                    format!("{key} ends at byte {len}, {} are needed", source.seg_length)
                }
                Ok(_) => continue,
                Err(e) if e.kind() == ErrorKind::Corrupt => e.to_string(),
                Err(e) => return Err(e),
            };
            out.push(Damage { key, variable: None, step: None, message: bad });
        }
    }
    Ok(out)
}

/// Checks entries one after the other.
pub(crate) struct Checker<'a> {
    inner: &'a Inner,
    snapshot: &'a Snapshot,
    names: BTreeMap<u32, String>,
    buffer: Vec<u8>,
    decoded: Vec<u8>,
    scratch: Scratch,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(inner: &'a Inner, snapshot: &'a Snapshot) -> Self {
        let names = snapshot.schema.named().map(|(path, v)| (v.id, path.to_owned())).collect();
        Checker { inner, snapshot, names, buffer: Vec::new(), decoded: Vec::new(), scratch: Scratch::new() }
    }

    /// How many entries are best checked together.
    pub(crate) fn batch(&self) -> usize {
        if self.inner.window().is_some() { BATCH } else { 1 }
    }

    /// Tells a far store of what these entries need first: their bytes, or the tables of those that are cut.
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

    /// Tells the store of ranges, neighbours as one.
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
            // A hint: what fails is said when it is read.
            drop(self.inner.store.submit(Request::Expect { key, ranges }));
        }
    }

    fn key(&self, entry: &Entry) -> String {
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

    /// The same for an entry whose bytes lie in a given part of a writer's log, adopted or not.
    pub(crate) fn entry_in(&mut self, writer: u64, part: u32, entry: &Entry) -> Result<u64> {
        let key = keys::segment(writer, part);
        if entry.subchunks == 0 {
            return Ok(0);
        }
        let variable = self.snapshot.schema.variables.get(&entry.variable).cloned();
        let one;
        let table;
        let pieces: &[_] = if entry.subchunks == 1 {
            one = [Subchunk { piece: entry.piece, stats: entry.stats, front: None }];
            &one
        } else {
            table = load_table(self.inner, writer, part, entry)?;
            if self.inner.window().is_some() {
                let fronts = table.iter().filter_map(|subchunk| stored_range(&subchunk.front?.piece()));
                let pieces = table.iter().filter_map(|subchunk| stored_range(&subchunk.piece));
                self.expect(fronts.chain(pieces).map(|range| (key.clone(), range)).collect());
            }
            &table
        };
        let n = usize::from(entry.ndim);
        let grid = entry.grid();
        let mut place = [0; MAX_NDIM];
        let mut bytes = 0;
        // The entry was validated: its grid has as many places as it states, and so has the table.
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

    /// Verifies one stored subchunk; its payload is then in `buffer`.
    fn subchunk(&mut self, key: &str, subchunk: &Subchunk) -> Result<u64> {
        let Some(front) = &subchunk.front else { return self.piece(key, &subchunk.piece) };
        let bytes = self.piece(key, &front.piece())?;
        let mut all = std::mem::take(&mut self.buffer);
        let bytes = bytes + self.piece(key, &subchunk.piece)?;
        all.append(&mut self.buffer);
        self.buffer = all;
        Ok(bytes)
    }

    /// Verifies one stored piece; its payload is then in `buffer`.
    fn piece(&mut self, key: &str, piece: &Piece) -> Result<u64> {
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

    /// Gives the stored bytes of every subchunk of an entry to `give`, verified and not decoded.
    pub(crate) fn payloads(&mut self, entry: &Entry, give: &mut dyn FnMut(&[u8])) -> Result<()> {
        let source = self.snapshot.source(&self.inner.pages, entry.source)?;
        let key = segment_key(&source);
        let one = Subchunk { piece: entry.piece, stats: entry.stats, front: None };
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
        piece: &Piece,
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
        let leaf = variable.and_then(|v| v.dtype.leaves().into_iter().nth(entry.member as usize));
        if !raw {
            let chain = Chain::parse(&entry.encoding.chain).map_err(|e| Error::unsupported(e.to_string()))?;
            let unknown = || Logical { shape: extent.to_vec(), ..Logical::scalars(item as usize, 0) };
            let logical = form.logical(&leaf.as_ref().map_or_else(unknown, |leaf| logical(leaf, extent)));
            self.decoded.resize(len as usize, 0);
            chain.decode(&self.buffer, &logical, &mut self.decoded, &mut self.scratch).map_err(|e| {
                Error::corrupt(format!("{key} is damaged at byte {}: decoding: {e}", piece.position))
            })?;
        }
        if leaf.is_some_and(|l| l.dtype == DType::String) {
            let refs = if raw { std::mem::take(&mut self.buffer) } else { std::mem::take(&mut self.decoded) };
            let known = self.inner.store.len(key).map_err(must_exist)?;
            for r in refs.chunks_exact(16) {
                let position = u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]);
                let length = u64::from(u32::from_le_bytes([r[8], r[9], r[10], r[11]]));
                let check = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
                if length > 0 && position.checked_add(length).is_none_or(|end| end > known) {
                    return Err(Error::corrupt(format!("{key}: a string lies outside the file")));
                }
                self.buffer.resize(length as usize, 0);
                self.inner.store.read(key, position, &mut self.buffer).map_err(must_exist)?;
                if length > 0 && crc32(&self.buffer) != check {
                    return Err(Error::corrupt(format!(
                        "{key} is damaged at byte {position}: a string fails its checksum"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The bytes of the segment that a stored piece takes; `None` if its numbers overflow.
fn stored_range(piece: &Piece) -> Option<std::ops::Range<u64>> {
    let payload = if piece.trailer > 0 { piece.length.checked_next_multiple_of(4)? } else { piece.length };
    let end = piece.position.checked_add(payload)?.checked_add(piece.trailer)?;
    Some(piece.position..end)
}
