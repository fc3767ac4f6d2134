//! Shard objects of the published replica, checked against the record in a manifest (docs/format/manifest.md,
//! "Published section").
//!
//! Invariants
//! - an index is used only if length, CRC and stamp equal the recorded ones; every chunk is checked against its own
//!   CRC-32C;
//! - a fingerprint never reappears with other values, so bytes that were read before a stamp was checked belong to
//!   the shard of that stamp.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use drystone_format::published::{Array, Shard};
use drystone_store::{Reply, Request, Store, StoreError, StoreExt};
use drystone_transform::{Codec as _, Logical, Scratch, Zstd};

use super::ROOT;
use super::stamp::{STAMP, Stamp, stamp_of, user_block};
use crate::base::cache::Cache;
use crate::base::checksum::crc32;
use crate::base::sync::lock;
use crate::{Error, ErrorKind, Result};

/// Bytes of indexes that are cached per container.
const CACHE: usize = 8 << 20;
/// The most indexes that are fetched together from a far store, and the greatest length of one.
const TOGETHER: usize = 64;
const LONGEST: u64 = 1 << 20;
/// Offset and length of a chunk that does not exist.
const MISSING: u64 = u64::MAX;

/// Offset and length of each chunk of a shard by its number. `None` for chunks that read as fill.
pub(crate) type Index = Vec<Option<(u64, u64)>>;

/// The state of a shard compared with its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It is the recorded shard; holds its index.
    Same(Arc<Index>),
    /// Replaced by another shard, or deleted.
    Moved,
    /// Damaged; holds the reason.
    Damaged(String),
}

/// The shards of a container: cached indexes, and shards that were given up.
pub(crate) struct Shards {
    indexes: Cache<(String, u128), Index>,
    /// Shards that were found replaced or damaged; they are not read again.
    given_up: Mutex<HashSet<(String, u128)>>,
}

impl Default for Shards {
    fn default() -> Self {
        Shards { indexes: Cache::new(CACHE), given_up: Mutex::default() }
    }
}

impl Shards {
    /// The index of a recorded shard, if reads may use it. `tell` receives, once, that it is damaged or
    /// may not be read.
    pub(crate) fn index(
        &self,
        store: &dyn Store,
        key: &str,
        record: &Shard,
        chunks: u64,
        tell: impl FnOnce(String),
    ) -> Result<Option<Arc<Index>>> {
        let name = (key.to_owned(), record.fingerprint);
        if lock(&self.given_up).contains(&name) {
            return Ok(None);
        }
        let mut otherwise = None;
        let index = self.indexes.get(&name, || match look(store, key, record, chunks) {
            Ok(State::Same(index)) => {
                let cost = index.len() * size_of::<Option<(u64, u64)>>() + key.len();
                Ok((Arc::unwrap_or_clone(index), cost))
            }
            Ok(other) => {
                otherwise = Some(match other {
                    State::Damaged(what) => format!("is damaged, the log is read: {what}"),
                    _ => String::new(),
                });
                Err(Error::not_found(key))
            }
            // Values do not depend on the replica, so one that may not be read is as good as none.
            Err(e) if e.kind() == ErrorKind::Permission => {
                otherwise = Some(format!("may not be read, the log is read: {e}"));
                Err(e)
            }
            Err(e) => Err(e),
        });
        match (index, otherwise) {
            (Ok(index), _) => Ok(Some(index)),
            (Err(_), Some(what)) => {
                if !what.is_empty() {
                    tell(what);
                }
                self.give_up(key, record);
                Ok(None)
            }
            (Err(e), None) => Err(e),
        }
    }

    /// Fetches unknown indexes of these shards (key, record, number of chunks) from a far store together.
    /// [`index`](Self::index) later reports differences from the record.
    pub(crate) fn prefetch(&self, store: &dyn Store, wanted: &[(String, Shard, u64)]) {
        if store.features().far.is_none() {
            return;
        }
        let missing: Vec<_> = wanted
            .iter()
            .filter(|(key, record, _)| {
                let name = (key.clone(), record.fingerprint);
                !lock(&self.given_up).contains(&name) && self.indexes.find(&name).is_none()
            })
            .filter_map(|(key, record, chunks)| Some((key, record, index_at(record.length, *chunks)?)))
            .filter(|(_, _, at)| at.end - at.start <= LONGEST)
            .collect();
        for some in missing.chunks(TOGETHER) {
            let requests = some.iter().flat_map(|(key, _, at)| {
                let ranges = vec![(0, STAMP), (at.start, (at.end - at.start) as usize)];
                [Request::Len { key: (*key).clone() }, Request::read_many((*key).clone(), ranges)]
            });
            let mut replies = store.together(requests.collect()).into_iter();
            for (key, record, at) in some {
                let (Some(len), Some(read)) = (replies.next(), replies.next()) else { return };
                let (Ok(Reply::Len { len }), Ok(Reply::Read { buffers })) = (len, read) else { continue };
                let [stamp, index, ..] = buffers.as_slice() else { continue };
                let found = Stamp::decode(stamp);
                if len == record.length
                    && found == Some(stamp_of_record(record))
                    && let Ok(index) = parse(index, record, at.start)
                {
                    let cost = index.len() * size_of::<Option<(u64, u64)>>() + key.len();
                    self.indexes.put(((*key).clone(), record.fingerprint), index, cost);
                }
            }
        }
    }

    /// Excludes the shard from later reads of this snapshot.
    pub(crate) fn give_up(&self, key: &str, record: &Shard) {
        lock(&self.given_up).insert((key.to_owned(), record.fingerprint));
    }
}

/// The key of a shard.
pub(crate) fn key(array: &Array, number: u64) -> String {
    let mut key = format!("{ROOT}{}/c", array.node);
    let grid: Vec<u64> = array.shape.iter().zip(&array.shard).map(|(n, s)| n.div_ceil((*s).max(1))).collect();
    let mut index = vec![0; grid.len()];
    let mut rest = number;
    for (i, &n) in index.iter_mut().zip(&grid).rev() {
        (*i, rest) = (rest % n.max(1), rest / n.max(1));
    }
    index.iter().for_each(|i| key.push_str(&format!("/{i}")));
    (0..array.tail).for_each(|_| key.push_str("/0"));
    key
}

/// The number of chunks in one shard of an array.
pub(crate) fn chunks(array: &Array) -> u64 {
    array.shard.iter().zip(&array.chunk).fold(1, |n: u64, (s, c)| n.saturating_mul(s / (*c).max(1)))
}

/// The first bytes of a recorded shard.
pub(crate) fn first_bytes(record: &Shard) -> [u8; STAMP] {
    stamp_of_record(record).encode()
}

fn stamp_of_record(record: &Shard) -> Stamp {
    Stamp { fingerprint: record.fingerprint, version: record.version }
}

/// Whether the object is still the recorded one.
pub(crate) fn is_same(store: &dyn Store, key: &str, record: &Shard) -> Result<bool> {
    Ok(stamp_of(store, key, 0)? == Some(stamp_of_record(record)))
}

/// The first of these shards that is no longer the recorded one. On a far store the stamps are read together.
pub(crate) fn first_moved<'s>(store: &dyn Store, shards: &[(&'s str, &Shard)]) -> Result<Option<&'s str>> {
    if store.features().far.is_none() {
        for (key, record) in shards {
            if !is_same(store, key, record)? {
                return Ok(Some(*key));
            }
        }
        return Ok(None);
    }
    for some in shards.chunks(2 * TOGETHER) {
        let stamps = some.iter().map(|(key, _)| Request::read_many(*key, vec![(0, STAMP)])).collect();
        for ((key, record), reply) in some.iter().zip(store.together(stamps)) {
            let stamp = match reply.map(Reply::into_buffers) {
                Ok(buffers) => buffers.first().and_then(|bytes| Stamp::decode(bytes)),
                Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => None,
                Err(e) => return Err(e.into()),
            };
            if stamp != Some(stamp_of_record(record)) {
                return Ok(Some(*key));
            }
        }
    }
    Ok(None)
}

/// Position and length of the index, with its checksum, in a shard of this length.
fn index_at(length: u64, chunks: u64) -> Option<Range<u64>> {
    let size = chunks.checked_mul(16).and_then(|n| n.checked_add(4)).filter(|n| *n <= length)?;
    Some(length - size..length)
}

/// Reads and checks the index of a shard.
pub(crate) fn look(store: &dyn Store, key: &str, record: &Shard, chunks: u64) -> Result<State> {
    let stamp = stamp_of(store, key, 0)?;
    let length = match store.len(key) {
        Err(StoreError::NotFound { .. }) => return Ok(State::Moved),
        other => other?,
    };
    let wanted = stamp_of_record(record);
    match stamp {
        Some(stamp) if stamp == wanted => {}
        Some(_) => return Ok(State::Moved),
        // A shard that is an HDF5 file too has replaced it.
        None if stamp_of(store, key, user_block(chunks) - STAMP as u64)?.is_some() => {
            return Ok(State::Moved);
        }
        None => {
            return Ok(State::Damaged(format!("{key} is damaged at byte 0: its stamp fails its checksum")));
        }
    }
    let damaged = |at: u64, what: &str| Ok(State::Damaged(format!("{key} is damaged at byte {at}: {what}")));
    if length != record.length {
        return damaged(
            length.min(record.length),
            &format!("it is {length} bytes long instead of {}", record.length),
        );
    }
    let Some(at) = index_at(length, chunks) else {
        return damaged(length, "it is too short for its index");
    };
    let from = at.start;
    let bytes = match store.read_vec(key, from, (at.end - from) as usize) {
        Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => return Ok(State::Moved),
        other => other?,
    };
    match parse(&bytes, record, from) {
        Ok(index) => Ok(State::Same(Arc::new(index))),
        // It may have been replaced after the stamp was read.
        Err(_) if !is_same(store, key, record)? => Ok(State::Moved),
        Err(what) => damaged(from, what),
    }
}

/// The stamp of a shard object, whether it is an HDF5 file too or not.
pub(crate) fn any_stamp(store: &dyn Store, key: &str, chunks: u64) -> Result<Option<Stamp>> {
    match stamp_of(store, key, 0)? {
        None => stamp_of(store, key, user_block(chunks) - STAMP as u64),
        found => Ok(found),
    }
}

/// Decodes an index whose bytes begin at `from`. An error describes the damage.
fn parse(bytes: &[u8], record: &Shard, from: u64) -> std::result::Result<Index, &'static str> {
    let (body, check) = bytes.split_last_chunk::<4>().ok_or("it is too short for its index")?;
    if *check != record.index_check.to_le_bytes() || crc32(body) != record.index_check {
        return Err("its index fails its checksum");
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut index = Index::with_capacity(body.len() / 16);
    for pair in body.chunks_exact(16) {
        let (offset, len) = (number(&pair[..8]), number(&pair[8..]));
        if (offset, len) == (MISSING, MISSING) {
            index.push(None);
        } else if len >= 4 && offset.checked_add(len).is_some_and(|end| end <= from) {
            index.push(Some((offset, len)));
        } else {
            return Err("its index points outside the shard");
        }
    }
    Ok(index)
}

/// Checks the stored bytes of a chunk and decodes them into `out`, whose length is the number of decoded bytes.
pub(crate) fn decode(
    stored: &[u8],
    zstd: bool,
    out: &mut [u8],
    scratch: &mut Scratch,
) -> std::result::Result<(), String> {
    let (payload, check) = stored.split_last_chunk::<4>().ok_or("a chunk is shorter than its checksum")?;
    if crc32(payload) != u32::from_le_bytes(*check) {
        return Err("a chunk fails its checksum".into());
    }
    if zstd {
        let zstd = Zstd::new(0).map_err(|e| e.to_string())?;
        let logical = Logical::scalars(1, out.len() as u64);
        return zstd.decode(payload, &logical, out, scratch).map_err(|e| format!("decoding a chunk: {e}"));
    }
    if payload.len() != out.len() {
        return Err(format!("a chunk has {} bytes instead of {}", payload.len(), out.len()));
    }
    out.copy_from_slice(payload);
    Ok(())
}
