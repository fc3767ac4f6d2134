//! Statistics of published shards, in objects beside them: `zarr/NODE/.drystone/statistics/0.1.2`
//! (docs/format/zarr.md).
//!
//! Other readers of a hierarchy never look there. A sidecar is put before its shard and names the shard's
//! fingerprint, so it is used for that shard only. It can be made again, and never holds the only copy of a value.

use drystone_copy::{Dim, StridedCopy};
use drystone_format::entry::Stats as Extremes;
use drystone_format::published::{Array, Shard};
use drystone_format::statistics::{Chunk, Statistics};
use drystone_store::{Store, StoreError, StoreExt};
use drystone_transform::stats::{ScalarKind, Stats};

use super::ROOT;
use super::grid::{Grid, place};
use crate::Result;
use crate::base::array::dense_strides;
use crate::base::error::rule_error;

/// The folder of an array's statistics, below its node.
pub(crate) const FOLDER: &str = ".drystone/statistics";
/// The greatest length of a sidecar.
const MOST: u64 = 4 << 20;

/// The key of the statistics of the shard at an index of the grid.
pub(crate) fn key(node: &str, index: &[u64]) -> String {
    let index: Vec<String> = index.iter().map(u64::to_string).collect();
    format!("{ROOT}{node}/{FOLDER}/{}", index.join("."))
}

/// Counts statistics of cells. `bytes` holds all cells densely; elements have the length of `fill`, and scalars have
/// `scalar` bytes.
pub(crate) fn count(kind: ScalarKind, scalar: u64, fill: &[u8], bytes: &[u8]) -> Chunk {
    let found = Stats::of(kind, bytes);
    let stats = Extremes { min_max: found.min.zip(found.max), nans: found.nans };
    Chunk { values: bytes.len() as u64 / scalar.max(1), fills: Some(fills(bytes, fill)), stats }
}

fn fills(bytes: &[u8], fill: &[u8]) -> u64 {
    fn of<const N: usize>(bytes: &[u8], fill: [u8; N]) -> usize {
        bytes.as_chunks::<N>().0.iter().filter(|cell| **cell == fill).count()
    }
    let many = match *fill {
        [a] => of(bytes, [a]),
        [a, b] => of(bytes, [a, b]),
        [a, b, c, d] => of(bytes, [a, b, c, d]),
        [a, b, c, d, e, f, g, h] => of(bytes, [a, b, c, d, e, f, g, h]),
        _ => bytes.chunks_exact(fill.len().max(1)).filter(|cell| *cell == fill).count(),
    };
    many as u64
}

/// The cells of a chunk that lie in the array, densely: the first `counts` cells along each of the `extents`.
pub(crate) fn within(chunk: &[u8], extents: &[u64], counts: &[u64], item: u64) -> Result<Vec<u8>> {
    let len = counts.iter().fold(item, |n, c| n.saturating_mul(*c)).min(chunk.len() as u64);
    let mut out = vec![0; len as usize];
    let (src, dst) = (dense_strides(extents, item)?, dense_strides(counts, item)?);
    let dims = counts.iter().zip(src.iter().zip(&dst)).map(|(n, (s, d))| Dim::new(*n, *s, *d)).collect();
    StridedCopy::new(0, 0, item as usize, dims)
        .and_then(|copy| copy.run(chunk, &mut out))
        .map_err(rule_error)?;
    Ok(out)
}

/// The statistics under a key, if they belong to this shard with these cells. `None` if they are missing or damaged.
pub(crate) fn load(
    store: &dyn Store,
    key: &str,
    (fingerprint, version): (u128, u64),
    (extents, chunks): (&[u64], u64),
) -> Result<Option<Statistics>> {
    let same = |s: &Statistics| {
        (s.fingerprint, s.version) == (fingerprint, version)
            && s.extents == extents
            && s.chunks.len() as u64 == chunks
    };
    Ok(any(store, key)?.filter(same))
}

/// Whether an object holds statistics of a shard.
pub(crate) fn is_one(store: &dyn Store, key: &str) -> Result<bool> {
    Ok(any(store, key)?.is_some())
}

fn any(store: &dyn Store, key: &str) -> Result<Option<Statistics>> {
    match store.len(key).and_then(|len| if len > MOST { Ok(Vec::new()) } else { store.read_all(key, MOST) }) {
        Ok(bytes) => Ok(Statistics::decode(&bytes).ok()),
        Err(StoreError::NotFound { .. } | StoreError::ShortRead { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The statistics of a shard that a manifest records.
pub(crate) fn of_record(
    store: &dyn Store,
    array: &Array,
    grid: &Grid,
    shard: &Shard,
) -> Result<Option<Statistics>> {
    let key = key(&array.node, &place(shard.number, &grid.shards()));
    let extents = grid.cells_of(shard.number).counts();
    let chunks = grid.chunks().iter().product();
    load(store, &key, (shard.fingerprint, shard.version), (&extents, chunks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_cells_are_counted_whatever_their_size() {
        for size in [1usize, 2, 3, 4, 8, 16] {
            let (fill, other) = (vec![7; size], vec![8; size]);
            let bytes = [fill.as_slice(), &other, &fill, &fill, &other].concat();
            assert_eq!(fills(&bytes, &fill), 3, "{size}");
        }
        let nan = f32::NAN.to_le_bytes();
        let cells = [1.0f32.to_le_bytes(), nan, (-2.0f32).to_le_bytes(), nan].concat();
        let found = count(ScalarKind::F32, 4, &nan, &cells);
        assert_eq!((found.values, found.fills, found.stats.nans), (4, Some(2), 2));
        assert_eq!(found.stats.min_max, Some(((-2f64).to_bits(), 1f64.to_bits())));
    }

    #[test]
    fn only_the_cells_that_the_array_has_are_within_a_chunk() {
        let chunk: Vec<u8> = (0..12).collect();
        assert_eq!(within(&chunk, &[3, 4], &[2, 3], 1).unwrap(), [0, 1, 2, 4, 5, 6]);
        assert_eq!(within(&chunk, &[3, 2], &[1, 2], 2).unwrap(), [0, 1, 2, 3]);
    }
}
