//! Verification of the published replica: checks every recorded shard against its record, and every chunk in it.

use drystone_format::dtype::DType;
use drystone_format::keys;
use drystone_format::published::{Array, Shard};
use drystone_format::schema::Variable;
use drystone_format::statistics::Chunk;
use drystone_plan::selection::Selection;
use drystone_store::StoreExt;
use drystone_transform::Scratch;

use super::verify::{Damage, VerifyReport};
use crate::base::array::Target;
use crate::container::Container;
use crate::publish::record;
use crate::published::grid::Grid;
use crate::published::shards;
use crate::published::shards::State;
use crate::published::sidecar;
use crate::read::Reading;
use crate::schema::element_type::{MAX_SUBCHUNK, kind_of};
use crate::{Error, ErrorKind, Result};

/// Buffers of one verification.
#[derive(Default)]
struct Buffers {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    expected: Vec<u8>,
    scratch: Scratch,
}

impl Container {
    /// Checks the published replica that the handle's snapshot records. Stamp, length and index of every shard are
    /// compared with the record, and every chunk with its checksum; with `values`, decoded chunks are also compared
    /// with the log as it was when they were published. If that snapshot has expired, chunks that later snapshots
    /// wrote to are not compared. Statistics beside a shard must match the values; missing ones are not damage.
    ///
    /// A shard that was replaced by another valid one is counted and is not damage: the snapshot reads the log there.
    /// A missing shard is damage only in the newest snapshot. `progress` receives (shards done, shards in all), and
    /// stops the verification by returning `false`.
    pub(super) fn verify_published(
        &self,
        values: bool,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<VerifyReport> {
        self.inner.require_open()?;
        let mut report = VerifyReport::default();
        let snapshot = self.snapshot();
        let arrays = match snapshot.published(&self.inner.pages) {
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                let key = keys::manifest(snapshot.version());
                report.damage.push(Damage { key, variable: None, step: None, message: e.to_string() });
                return Ok(report);
            }
            other => other?,
        };
        let total = arrays.iter().flat_map(|a| &a.pages).map(|p| u64::from(p.count)).sum();
        let mut buffers = Buffers::default();
        for array in arrays.iter() {
            let its = |(_, v): &(&str, &Variable)| (v.id, v.uid) == (array.variable, array.uid);
            // Shards of deleted variables belong to no variable, and are skipped.
            let Some((path, _)) = snapshot.schema.named().find(its) else { continue };
            let path = path.to_owned();
            let leaf = self.leaf_reading(&path, array.member)?;
            let expected = match values.then(|| self.published_from(array, &path, &leaf)).transpose() {
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    let key = keys::manifest(array.version);
                    report.damage.push(Damage {
                        key,
                        variable: Some(path.clone()),
                        step: None,
                        message: e.to_string(),
                    });
                    None
                }
                other => other?,
            };
            let records = match record::shards(&self.inner, array) {
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    let key = keys::manifest(snapshot.version());
                    report.damage.push(Damage {
                        key,
                        variable: Some(path),
                        step: None,
                        message: e.to_string(),
                    });
                    continue;
                }
                other => other?,
            };
            for shard in records {
                let key = shards::key(array, shard.number);
                let mut damage = |message: String| {
                    report.damage.push(Damage {
                        key: key.clone(),
                        variable: Some(path.clone()),
                        step: None,
                        message,
                    });
                };
                match self.verify_shard((array, &leaf), &shard, &key, expected.as_ref(), &mut buffers)? {
                    Found::Sound(bytes) => report.bytes += bytes,
                    Found::Other => report.moved += 1,
                    Found::Damaged(what) => damage(what),
                }
                report.shards += 1;
                if !progress(report.shards, total) {
                    return Err(Error::new(ErrorKind::Cancelled, "verification was stopped"));
                }
            }
        }
        Ok(report)
    }

    /// The values from which an array was published, or those of the handle's snapshot if that snapshot has expired.
    fn published_from(&self, array: &Array, path: &str, leaf: &Reading) -> Result<Expected> {
        match self.at(array.version) {
            Ok(then) => Ok(Expected { log: then.leaf_reading(path, array.member)?, unless_since: None }),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Ok(Expected { log: leaf.clone(), unless_since: Some(array.version) })
            }
            Err(e) => Err(e),
        }
    }

    fn verify_shard(
        &self,
        (array, leaf): (&Array, &Reading),
        shard: &Shard,
        key: &str,
        expected: Option<&Expected>,
        buffers: &mut Buffers,
    ) -> Result<Found> {
        let store = self.inner.store.as_ref();
        let index = match shards::look(store, key, shard, shards::chunks(array))? {
            State::Same(index) => index,
            State::Damaged(what) => return Ok(Found::Damaged(what)),
            State::Moved if self.inner.is_outdated()? => return Ok(Found::Other),
            State::Moved => {
                // A shard of a later snapshot is one that a publisher has written and not recorded yet.
                let there = shards::any_stamp(store, key, shards::chunks(array))?;
                return Ok(match there {
                    Some(stamp) if stamp.version < shard.version => Found::Damaged(format!(
                        "{key} is not the shard that was published of snapshot {}, but one of snapshot {}; publish again",
                        shard.version, stamp.version
                    )),
                    None if !store.exists(key)? => Found::Damaged(format!("{key} is missing; publish again")),
                    _ => Found::Other,
                });
            }
        };
        let item = u64::from(leaf.item());
        let grid = Grid::new(&array.shape, &array.chunk, &array.shard);
        let beside = match &grid {
            Some(grid) => sidecar::of_record(store, array, grid, shard)?,
            None => None,
        };
        let cells =
            array.chunk.iter().try_fold(item, |n, c| n.checked_mul(*c)).filter(|n| *n <= 16 * MAX_SUBCHUNK);
        let Some(len) = cells else {
            return Ok(Found::Damaged(format!("{key}: a chunk claims {cells:?} bytes")));
        };
        let mut bytes = (index.len() * 16 + 4) as u64;
        for (number, place) in index.iter().enumerate() {
            buffers.decoded.resize(len as usize, 0);
            match place {
                None if expected.is_none() && beside.is_none() => continue,
                None => {
                    let fill = leaf.fill_bytes();
                    buffers
                        .decoded
                        .chunks_mut(item.max(1) as usize)
                        .for_each(|cell| cell.copy_from_slice(&fill));
                }
                Some((at, length)) => {
                    bytes += length;
                    buffers.stored.resize(*length as usize, 0);
                    let read = store
                        .read(key, *at, &mut buffers.stored)
                        .map_err(Error::from)
                        .map_err(|e| e.to_string());
                    let checked = read.and_then(|()| {
                        shards::decode(
                            &buffers.stored,
                            array.zstd,
                            &mut buffers.decoded,
                            &mut buffers.scratch,
                        )
                        .map_err(|what| format!("{key} is damaged at byte {at}: {what}"))
                    });
                    if let Err(what) = checked {
                        return Ok(if shards::is_same(store, key, shard)? {
                            Found::Damaged(what)
                        } else {
                            Found::Other
                        });
                    }
                }
            }
            let told = beside.as_ref().and_then(|beside| beside.chunks.get(number));
            if let (Some(told), Some(grid)) = (told, &grid)
                && !is_told((grid, shard.number, number as u64), leaf, told, &buffers.decoded)?
            {
                let wrong = format!(
                    "the statistics of {key} are not those of chunk {number}; remove them and publish"
                );
                return Ok(if shards::is_same(store, key, shard)? {
                    Found::Damaged(wrong)
                } else {
                    Found::Other
                });
            }
            let Some(expected) = expected else { continue };
            let differs = match same_values(array, item, (shard.number, number as u64), expected, buffers) {
                Ok(true) => None,
                Ok(false) => Some(format!("{key}: chunk {number} differs from the log")),
                Err(e) if e.kind() == ErrorKind::NotYetHome => None,
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    Some(format!("{key}: chunk {number} cannot be compared with the log: {e}"))
                }
                Err(e) => return Err(e),
            };
            if let Some(differs) = differs {
                return Ok(if shards::is_same(store, key, shard)? {
                    Found::Damaged(differs)
                } else {
                    Found::Other
                });
            }
        }
        Ok(if shards::is_same(store, key, shard)? { Found::Sound(bytes) } else { Found::Other })
    }
}

/// The values that a replica must have.
struct Expected {
    log: Reading,
    /// Chunks with blocks of later snapshots are not compared: reads take those from the log.
    unless_since: Option<u64>,
}

enum Found {
    /// It is intact; holds the number of bytes read.
    Sound(u64),
    Other,
    Damaged(String),
}

/// Whether the statistics of a chunk match its values.
fn is_told(
    (grid, shard, chunk): (&Grid, u64, u64),
    leaf: &Reading,
    told: &Chunk,
    decoded: &[u8],
) -> Result<bool> {
    let counts = grid.chunk_of(shard, chunk).counts();
    let leaves = leaf.variable().dtype.leaves();
    let Some(found) = leaf.leaf_number().and_then(|number| leaves.get(number as usize)) else {
        return Ok(true);
    };
    if counts.contains(&0) {
        return Ok(*told == Chunk::default());
    }
    let inside = sidecar::within(decoded, &grid.chunk, &counts, leaf.item().into())?;
    let scalar = match &found.dtype {
        DType::Bytes(_) => 1,
        DType::Unicode(_) => 4,
        other => other.item_size().into(),
    };
    let mut real = sidecar::count(kind_of(&found.dtype), scalar, &leaf.fill_bytes(), &inside);
    real.fills = real.fills.filter(|_| told.fills.is_some());
    Ok(real == *told)
}

/// Whether the chunk in `decoded` equals the log's values.
fn same_values(
    array: &Array,
    item: u64,
    (shard, chunk): (u64, u64),
    expected: &Expected,
    buffers: &mut Buffers,
) -> Result<bool> {
    let Some(grid) = Grid::new(&array.shape, &array.chunk, &array.shard) else { return Ok(false) };
    let part = grid.chunk_of(shard, chunk);
    if part.is_empty() {
        return Ok(true);
    }
    let counts = part.counts();
    let selection = Selection::boxed(&part.lo, &counts);
    if let Some(version) = expected.unless_since
        && expected.log.has_changed_since(version, &selection)?
    {
        return Ok(true);
    }
    buffers.expected.clear();
    buffers.expected.resize((part.cells() * item) as usize, 0);
    let target = Target::dense(&mut buffers.expected, &counts, item as usize)?;
    expected.log.read(&selection, &target)?;
    drop(target);
    // Compares row by row, since the chunk in memory has full width.
    let row = (counts.last().copied().unwrap_or(1) * item) as usize;
    let wide = (grid.chunk.last().copied().unwrap_or(1) * item) as usize;
    Ok(buffers.expected.chunks(row.max(1)).enumerate().all(|(number, expected)| {
        let mut rest = number as u64;
        let mut from = 0u64;
        let mut apart = 1u64;
        for d in (0..counts.len().saturating_sub(1)).rev() {
            from += (rest % counts[d]) * apart;
            rest /= counts[d];
            apart *= grid.chunk[d];
        }
        let from = from as usize * wide;
        buffers.decoded.get(from..from + row) == Some(expected)
    }))
}
