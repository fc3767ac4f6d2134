//! The published replica in a read: chunks of `zarr/` are candidates beside the blocks of the log.
//!
//! A chunk contains what the commits up to the published one show. So it counts as a block of that commit that is
//! newer than all its other blocks: later blocks lie above it, earlier ones are hidden. A publication may replace the
//! shard of a chunk during the read. The shard's stamp is checked after the bytes were read; if it changed, the log
//! is read instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use drystone_format::entry::{Encoding, Entry, StoredPiece};
use drystone_format::layout::Layout;
use drystone_format::published::{Array, Shard};
use drystone_format::schema::Variable;
use drystone_plan::read_plan::{PUBLISHED, ReadPlan};
use drystone_plan::resolve::Candidate;
use drystone_plan::selection::Selection;
use drystone_transform::Scratch;

use super::{Prepared, Reading};
use crate::base::sync::lock;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::published::grid::{Box, Grid};
use crate::published::shards;
use crate::published::stamp::STAMP;
use crate::schema::element_type::MAX_SUBCHUNK;
use crate::schema::member::Column;
use crate::{Error, ErrorKind, Result};

/// Source numbers from this one on denote shards. A snapshot with as many log parts does not use its shards.
const FIRST: u32 = 1 << 31;
/// The most shards that one step of a read may meet. For more, the log is read.
const MOST_SHARDS: u64 = 1 << 16;

/// The most shards whose indexes are fetched together. More are fetched one by one.
const MOST_PREFETCHED: usize = 1024;

/// The most shards that the box around listed cells may meet, and the most chunks in each.
const MOST_LISTED_SHARDS: u64 = 16;
const MOST_LISTED_CHUNKS: u64 = 1 << 14;

/// A shard that a plan reads from.
pub(super) struct Shelved {
    /// The name under which it is read: its key, or that of its generation in the cache.
    pub(super) name: String,
    key: String,
    record: Shard,
    zstd: bool,
}

impl Shelved {
    /// Decodes an index: see [`shards::decode`].
    pub(super) fn decode(
        &self,
        stored: &[u8],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> std::result::Result<(), String> {
        shards::decode(stored, self.zstd, out, scratch)
    }
}

/// The published arrays of one variable.
pub(super) struct Shelf {
    /// Arrays by member, each with its grid and the offset of the member in an element.
    pub(super) arrays: BTreeMap<u32, (Array, Grid, u32)>,
    used: Mutex<Used>,
}

/// Shards in use, by their source number less `FIRST`.
#[derive(Default)]
struct Used {
    shards: Vec<Arc<Shelved>>,
    numbers: HashMap<(u32, u64), u32>,
}

/// Sequential round trips of a plan on a far store. Checksums are requested with the bytes that they verify; stamps
/// of published shards are checked after the chunks were read.
pub(super) fn rounds(prepared: &Prepared) -> u32 {
    u32::from(prepared.plan.requests > 0) + u32::from(is_used(prepared))
}

/// Whether a plan reads published chunks.
pub(super) fn is_used(prepared: &Prepared) -> bool {
    prepared.plan.fetches.iter().any(|fetch| fetch.source >= FIRST)
}

/// Adds to the plan one request per shard for its stamp.
pub(super) fn count_stamps(plan: &mut ReadPlan) {
    let shards: BTreeSet<u32> = plan.fetches.iter().map(|f| f.source).filter(|s| *s >= FIRST).collect();
    plan.requests += shards.len();
    plan.read_bytes = plan.read_bytes.saturating_add((shards.len() * STAMP) as u64);
}

fn used(prepared: &Prepared) -> BTreeSet<u32> {
    prepared.plan.fetches.iter().map(|fetch| fetch.source).filter(|source| *source >= FIRST).collect()
}

impl Shelf {
    /// The published record of a variable's leaves in the snapshot. `None` if a read could use nothing of it.
    pub(super) fn of(
        inner: &Inner,
        snapshot: &Snapshot,
        variable: &Variable,
        columns: &[Column],
    ) -> Result<Option<Arc<Shelf>>> {
        let blobs = columns.iter().any(|column| column.leaf.dtype.is_blob());
        let none = variable.local || blobs || snapshot.manifest.source_count >= FIRST;
        if none || snapshot.manifest.published.is_none() {
            return Ok(None);
        }
        let recorded = match snapshot.published(&inner.pages) {
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                warn_of_record(inner, e, snapshot.version());
                return Ok(None);
            }
            other => other?,
        };
        let ndim = variable.shape.len() + usize::from(variable.steps);
        let array = |column: &Column| {
            let (number, item) = (column.number, column.whole);
            let mine = |a: &&Array| (a.variable, a.uid, a.member) == (variable.id, variable.uid, number);
            let array = recorded.iter().find(mine).filter(|a| a.shape.len() == ndim && ndim > 0)?;
            let bytes = array.chunk.iter().fold(u64::from(item), |n, c| n.saturating_mul(*c));
            let fits = bytes <= MAX_SUBCHUNK && array.version <= snapshot.version();
            let stacked = !variable.steps || u32::try_from(*array.chunk.first()?).is_ok();
            let grid = Grid::new(&array.shape, &array.chunk, &array.shard).filter(|_| fits && stacked)?;
            Some((number, (array.clone(), grid, item)))
        };
        let arrays: BTreeMap<_, _> = columns.iter().filter_map(array).collect();
        Ok((!arrays.is_empty()).then(|| Arc::new(Shelf { arrays, used: Mutex::default() })))
    }

    /// The members whose cells the replica may have.
    pub(super) fn members(&self) -> impl Iterator<Item = u32> {
        self.arrays.keys().copied()
    }

    /// The shard of a source number.
    pub(super) fn shard(&self, number: u32) -> Option<Arc<Shelved>> {
        lock(&self.used).shards.get(number.checked_sub(FIRST)? as usize).cloned()
    }

    /// Fetches the indexes of all shards that these steps may meet from a far store, together.
    pub(super) fn prefetch(
        &self,
        reading: &Reading,
        keys: impl Iterator<Item = u64> + Clone,
        cells: &Selection,
    ) -> Result<()> {
        if reading.inner.window().is_none() {
            return Ok(());
        }
        let mut all = BTreeMap::new();
        for (member, (array, grid, _)) in &self.arrays {
            let boxes = keys.clone().filter_map(|key| wanted(reading, array, key, cells));
            for number in boxes.filter_map(|wanted| grid.meeting(&wanted, MOST_SHARDS)).flatten() {
                if all.len() < MOST_PREFETCHED
                    && !all.contains_key(&(*member, number))
                    && let Some(record) = record(reading, array, number)?
                {
                    let name = reading.inner.shard_name(&shards::key(array, number), &record);
                    all.insert((*member, number), (name, record, shards::chunks(array)));
                }
            }
        }
        let all: Vec<_> = all.into_values().collect();
        reading.inner.shards.prefetch(reading.inner.store.as_ref(), &all);
        Ok(())
    }

    /// Adds the chunks of a step (`key`: step + 1, or 0) that may meet the cells.
    pub(super) fn offer(
        &self,
        reading: &Reading,
        member: u32,
        key: u64,
        candidates: &mut Vec<Candidate>,
        cells: &Selection,
    ) -> Result<()> {
        let Some((array, grid, _)) = self.arrays.get(&member) else { return Ok(()) };
        let Some(wanted) = wanted(reading, array, key, cells) else { return Ok(()) };
        let Some(met) = grid.meeting(&wanted, MOST_SHARDS) else { return Ok(()) };
        let (inner, chunks) = (&reading.inner, shards::chunks(array));
        let mut found = Vec::new();
        for number in met {
            if let Some(record) = record(reading, array, number)? {
                found.push((number, (shards::key(array, number), record, chunks)));
            }
        }
        for (number, (object, record, _)) in found {
            let name = inner.shard_name(&object, &record);
            let tell = |what: String| {
                inner.warn(format!("the published replica {what}"));
            };
            let index = inner.shards.index(inner.store.as_ref(), &name, &record, chunks, tell)?;
            let Some(index) = index else { continue };
            let shelved = || Shelved { name, key: object, record, zstd: array.zstd };
            let source = self.number(member, number, shelved);
            self.chunks(reading, (member, key), (number, source, &index), &wanted, candidates);
        }
        Ok(())
    }

    /// As [`offer`](Self::offer), for listed cells within a box. Applies only if few shards meet the box, since the
    /// index of each is read.
    pub(super) fn offer_listed(
        &self,
        reading: &Reading,
        member: u32,
        key: u64,
        candidates: &mut Vec<Candidate>,
        cells: &Selection,
    ) -> Result<()> {
        let Some((array, grid, _)) = self.arrays.get(&member) else { return Ok(()) };
        let Some((low, high)) = cells.bounds() else { return Ok(()) };
        let steps = usize::from(reading.variable.steps);
        let spatial = array.shape.len() - steps;
        let mut met = Box { lo: low[..spatial].to_vec(), hi: high[..spatial].to_vec() };
        if steps > 0 {
            met.lo.insert(0, key.saturating_sub(1));
            met.hi.insert(0, key);
        }
        let few = grid.meeting(&met, MOST_LISTED_SHARDS).is_some()
            && grid
                .chunks()
                .iter()
                .try_fold(1u64, |n, c| n.checked_mul(*c))
                .is_some_and(|n| n <= MOST_LISTED_CHUNKS);
        if few { self.offer(reading, member, key, candidates, cells) } else { Ok(()) }
    }

    /// The chunks of one shard that meet a box.
    fn chunks(
        &self,
        reading: &Reading,
        (member, key): (u32, u64),
        (number, source, index): (u64, u32, &shards::Index),
        wanted: &Box,
        candidates: &mut Vec<Candidate>,
    ) {
        let Some((array, grid, item)) = self.arrays.get(&member) else { return };
        let steps = usize::from(reading.variable.steps);
        let shard = grid.cells_of(number);
        let counts = grid.chunks();
        let along = |d: usize| {
            let lo = wanted.lo[d].max(shard.lo[d]) - shard.lo[d];
            let hi = wanted.hi[d].min(shard.hi[d]).saturating_sub(shard.lo[d]);
            lo / grid.chunk[d]..hi.div_ceil(grid.chunk[d])
        };
        let mut places: Vec<(u64, Vec<u64>)> = vec![(0, Vec::new())];
        for (d, many) in counts.iter().enumerate() {
            let range = along(d);
            let next = |(n, at): &(u64, Vec<u64>)| {
                let (n, at) = (*n, at.clone());
                range.clone().map(move |i| (n * many + i, [at.as_slice(), &[i]].concat())).collect::<Vec<_>>()
            };
            places = places.iter().flat_map(next).collect();
        }
        let boxes = if steps > 0 { grid.chunk[0] } else { 1 };
        let layout = match boxes {
            1 => Layout::Dense,
            _ => Layout::Stacked { boxes: boxes as u32, number: (key.saturating_sub(1) % boxes) as u32 },
        };
        let chain = if array.zstd { "zstd,crc32c" } else { "crc32c" };
        let (chain, item) = (chain.into(), *item);
        let encoding = Arc::new(Encoding { chain, item, layout, replica: PUBLISHED, part: None });
        for (chunk, at) in places {
            let Some(Some((position, length))) = index.get(chunk as usize).copied() else { continue };
            let ndim = array.shape.len() - steps;
            let mut entry = Entry {
                step: key,
                variable: array.variable,
                member: array.member,
                commit: array.version,
                order: u64::MAX,
                put: u64::MAX,
                ndim: ndim as u8,
                encoding: encoding.clone(),
                subchunks: 1,
                source,
                piece: StoredPiece { position, length, trailer: 0, unit_log2: 0, check: 0 },
                ..Entry::default()
            };
            for d in 0..ndim {
                entry.offset[d] =
                    shard.lo[steps + d].saturating_add(at[steps + d].saturating_mul(grid.chunk[steps + d]));
                entry.count[d] = grid.chunk[steps + d];
                entry.cut[d] = grid.chunk[steps + d];
            }
            let mut limit = reading.limit(&entry);
            for (l, n) in limit.iter_mut().zip(&array.shape[steps..]) {
                *l = (*l).min(*n);
            }
            candidates.push(Candidate { entry, limit });
        }
    }

    fn number(&self, member: u32, shard: u64, make: impl FnOnce() -> Shelved) -> u32 {
        let mut used = lock(&self.used);
        if let Some(number) = used.numbers.get(&(member, shard)) {
            return *number;
        }
        let number = FIRST + used.shards.len() as u32;
        used.shards.push(Arc::new(make()));
        used.numbers.insert((member, shard), number);
        number
    }

    /// Checks, after the bytes were read, that all shards are still those that were read.
    pub(super) fn still_there(&self, reading: &Reading, prepared: &Prepared) -> Result<()> {
        let used: Vec<_> = used(prepared).into_iter().filter_map(|number| self.shard(number)).collect();
        let shards: Vec<_> = used.iter().map(|shard| (shard.name.as_str(), &shard.record)).collect();
        match shards::first_moved(reading.inner.store.as_ref(), &shards)? {
            Some(key) => Err(Error::corrupt(format!("{key} was replaced while it was read"))),
            None => Ok(()),
        }
    }

    /// After a read from shards: gives up shards that were replaced. `error`: the read failed; gives up shards that it
    /// names, and reports the damage.
    pub(super) fn give_up(&self, reading: &Reading, prepared: &Prepared, error: Option<&Error>) {
        let inner = &reading.inner;
        for shard in used(prepared).into_iter().filter_map(|number| self.shard(number)) {
            let same = shards::is_same(inner.store.as_ref(), &shard.name, &shard.record).unwrap_or(false);
            let what = error.map(|error| error.to_string().replace(&shard.name, &shard.key));
            let blamed = what.filter(|what| what.contains(&shard.key));
            if let Some(what) = blamed.as_ref().filter(|_| same) {
                inner.warn(format!("the published replica is damaged, the log was read: {what}"));
            }
            if blamed.is_some() || !same {
                inner.shards.give_up(&shard.name, &shard.record);
            }
        }
    }
}

/// Reports a damaged record of published shards. Without it, the log is read. That of an expired snapshot is no damage.
fn warn_of_record(inner: &Inner, error: Error, version: u64) {
    let error = inner.reason(error, version);
    if error.kind() == ErrorKind::Corrupt {
        inner.warn(format!("{error}; the log is read"));
    }
}

/// The box of an array that contains cells of a step (`key`: step + 1, or 0); `None` if it has none of them.
fn wanted(reading: &Reading, array: &Array, key: u64, cells: &Selection) -> Option<Box> {
    let (low, high) = cells.bounds()?;
    let steps = usize::from(reading.variable.steps);
    let spatial = array.shape.len() - steps;
    let mut wanted = Box { lo: low[..spatial].to_vec(), hi: high[..spatial].to_vec() };
    if steps > 0 {
        let step = key.saturating_sub(1);
        if array.version < reading.snapshot.steps.hidden_below(step) {
            return None; // the step has been replaced
        }
        wanted.lo.insert(0, step);
        wanted.hi.insert(0, key);
    }
    wanted.hi.iter_mut().zip(&array.shape).for_each(|(hi, n)| *hi = (*hi).min(*n));
    Some(wanted)
}

/// The record of a shard.
pub(super) fn record(reading: &Reading, array: &Array, number: u64) -> Result<Option<Shard>> {
    let after = array.pages.partition_point(|page| page.first <= number);
    let Some(page) = after.checked_sub(1).and_then(|at| array.pages.get(at)) else { return Ok(None) };
    let shards = match reading.inner.pages.shards(&page.page) {
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            warn_of_record(&reading.inner, e, reading.snapshot.version());
            return Ok(None);
        }
        other => other?,
    };
    Ok(shards.binary_search_by_key(&number, |shard| shard.number).ok().and_then(|at| shards.get(at)).copied())
}
