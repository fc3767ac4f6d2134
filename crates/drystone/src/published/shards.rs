//! Shard objects of the published replica, held to what a manifest recorded of them (docs/format/manifest.md, "Published section").
//!
//! Invariants
//! - an index is used only if length, CRC and stamp are the recorded ones; every chunk is checked against its own CRC-32C;
//! - a fingerprint never comes back with other values, so bytes read before a look at the stamp belong to the shard it shows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use drystone_format::published::{Array, Shard};
use drystone_store::{Store, StoreError, StoreExt};
use drystone_transform::{Codec as _, Logical, Scratch, Zstd};

use super::ROOT;
use super::stamp::{Stamp, stamp_of};
use crate::base::cache::Cache;
use crate::base::checksum::crc32;
use crate::base::sync::lock;
use crate::{Error, Result};

/// Bytes of indexes kept per container.
const CACHE: usize = 8 << 20;
/// Offset and length of a chunk that is not there.
const MISSING: u64 = u64::MAX;

/// Offset and length of each chunk of a shard by its number; `None` for those that read as fill.
pub(crate) type Index = Vec<Option<(u64, u64)>>;

/// What became of a shard since it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// It is the one; its index.
    Same(Arc<Index>),
    /// Another one stands in its place, or none.
    Moved,
    /// It is neither sound nor another sound one: what is wrong.
    Damaged(String),
}

/// What a container knows about its shards.
pub(crate) struct Shards {
    indexes: Cache<(String, u128), Index>,
    /// Those that turned out to be others, or damaged: nobody need look again.
    given_up: Mutex<HashSet<(String, u128)>>,
}

impl Default for Shards {
    fn default() -> Self {
        Shards { indexes: Cache::new(CACHE), given_up: Mutex::default() }
    }
}

impl Shards {
    /// The index of a recorded shard, if reads may use it. `tell` gets what is damaged, once.
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
        let index = self.indexes.get(&name, || match look(store, key, record, chunks)? {
            State::Same(index) => {
                let cost = index.len() * size_of::<Option<(u64, u64)>>() + key.len();
                Ok((Arc::unwrap_or_clone(index), cost))
            }
            other => {
                otherwise = Some(other);
                Err(Error::not_found(key))
            }
        });
        match (index, otherwise) {
            (Ok(index), _) => Ok(Some(index)),
            (Err(_), Some(state)) => {
                if let State::Damaged(what) = state {
                    tell(what);
                }
                self.give_up(key, record);
                Ok(None)
            }
            (Err(e), None) => Err(e),
        }
    }

    /// No later read of this snapshot's shard tries it.
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

/// Chunks of one shard of an array.
pub(crate) fn chunks(array: &Array) -> u64 {
    array.shard.iter().zip(&array.chunk).fold(1, |n: u64, (s, c)| n.saturating_mul(s / (*c).max(1)))
}

/// Whether the object is the one that was recorded now.
pub(crate) fn is_same(store: &dyn Store, key: &str, record: &Shard) -> Result<bool> {
    let stamp = Stamp { fingerprint: record.fingerprint, version: record.version };
    Ok(stamp_of(store, key, 0)? == Some(stamp))
}

/// Reads and checks the index of a shard.
pub(crate) fn look(store: &dyn Store, key: &str, record: &Shard, chunks: u64) -> Result<State> {
    let stamp = stamp_of(store, key, 0)?;
    let length = match store.len(key) {
        Err(StoreError::NotFound { .. }) => return Ok(State::Moved),
        other => other?,
    };
    let wanted = Stamp { fingerprint: record.fingerprint, version: record.version };
    match stamp {
        Some(stamp) if stamp == wanted => {}
        Some(_) => return Ok(State::Moved),
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
    let size = chunks.checked_mul(16).and_then(|n| n.checked_add(4)).filter(|n| *n <= length);
    let Some(size) = size else { return damaged(length, "it is too short for its index") };
    let from = length - size;
    let bytes = match store.read_vec(key, from, size as usize) {
        Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => return Ok(State::Moved),
        other => other?,
    };
    let (body, check) = bytes.split_at(size as usize - 4);
    if check != record.index_check.to_le_bytes() || crc32(body) != record.index_check {
        // It may have been replaced since the stamp was read.
        if !is_same(store, key, record)? {
            return Ok(State::Moved);
        }
        return damaged(from, "its index fails its checksum");
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut index = Index::with_capacity(chunks as usize);
    for pair in body.chunks_exact(16) {
        let (offset, len) = (number(&pair[..8]), number(&pair[8..]));
        if (offset, len) == (MISSING, MISSING) {
            index.push(None);
        } else if len >= 4 && offset.checked_add(len).is_some_and(|end| end <= from) {
            index.push(Some((offset, len)));
        } else {
            return damaged(from, "its index points outside of it");
        }
    }
    Ok(State::Same(Arc::new(index)))
}

/// The values of a chunk as it is stored: checked and decoded into `out`, whose length says how many bytes they are.
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
