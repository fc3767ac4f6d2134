//! Statistics of the chunks of a published shard: the sidecar object beside the shard (docs/format/zarr.md,
//! "Statistics").
//!
//! It belongs to the shard whose fingerprint and version it repeats, and has no meaning for another one. Values are
//! counted in the array's cells, not in the padding of chunks at its edge.

use crate::column::set;
use crate::cursor::Reader;
use crate::piece::Stats;
use crate::{Corrupt, MAX_NDIM, column, crc32c};

const MAGIC: &[u8; 8] = b"DRYSTATS";
/// Most chunks of a shard that has statistics.
pub const MAX_CHUNKS: usize = 1 << 16;

/// The values of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Chunk {
    /// Number of values, including NaN and fill; a cell may have several.
    pub values: u64,
    /// Number of cells that hold exactly the fill value; `None` if they were not counted.
    pub fills: Option<u64>,
    /// Extremes, and the number of NaN values.
    pub stats: Stats,
}

/// All chunks of one shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// The shard's fingerprint and version, as in its stamp.
    pub fingerprint: u128,
    #[allow(missing_docs)]
    pub version: u64,
    /// The counted cells of the shard along each axis, from its first cell on.
    pub extents: Vec<u64>,
    /// Chunks by their row-major number in the shard.
    pub chunks: Vec<Chunk>,
}

impl Statistics {
    /// The bytes of the object.
    ///
    /// # Panics
    /// With more than [`MAX_CHUNKS`] chunks.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.chunks.len() <= MAX_CHUNKS, "statistics are of at most {MAX_CHUNKS} chunks");
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(self.extents.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.chunks.len() as u32).to_le_bytes());
        self.extents.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        let extremes = |c: &Chunk| c.stats.min_max.unwrap_or_default();
        column::write(&mut out, &self.chunks, |c| c.values);
        column::write(&mut out, &self.chunks, |c| c.fills.map_or(0, |n| n.saturating_add(1)));
        column::write(&mut out, &self.chunks, |c| c.stats.nans);
        column::write(&mut out, &self.chunks, |c| c.stats.min_max.is_some().into());
        column::write(&mut out, &self.chunks, |c| extremes(c).0);
        column::write(&mut out, &self.chunks, |c| extremes(c).1);
        let check = crc32c(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes the object; its checksum covers all of it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let whole =
            bytes.split_last_chunk::<4>().filter(|(body, check)| **check == crc32c(body).to_le_bytes());
        let Some((body, _)) = whole else { return Err(Corrupt::new("statistics fail their checksum", 0)) };
        let r = &mut Reader::new(body);
        if &r.array::<8>()? != MAGIC {
            return Err(Corrupt::new("no statistics", 0));
        }
        let (fingerprint, version) = (u128::from_le_bytes(r.array()?), r.u64()?);
        let (axes, many) = (r.u32()? as usize, r.u32()? as usize);
        if axes > MAX_NDIM + 1 || many > MAX_CHUNKS {
            return Err(r.corrupt(format!("statistics of {many} chunks with {axes} axes")));
        }
        let extents = (0..axes).map(|_| r.u64()).collect::<Result<_, _>>()?;
        let mut chunks = vec![Chunk::default(); many];
        let items = chunks.as_mut_slice();
        column::read(r, items, "values", |c, v| set(&mut c.values, v))?;
        column::read(r, items, "fills", |c, v| {
            c.fills = v.checked_sub(1);
            Some(())
        })?;
        column::read(r, items, "NaNs", |c, v| set(&mut c.stats.nans, v))?;
        column::read(r, items, "extremes", |c, v| {
            c.stats.min_max = match v {
                0 => None,
                1 => Some((0, 0)),
                _ => return None,
            };
            Some(())
        })?;
        column::read(r, items, "least value", |c, v| {
            let Some((min, _)) = &mut c.stats.min_max else { return (v == 0).then_some(()) };
            *min = v;
            Some(())
        })?;
        column::read(r, items, "greatest value", |c, v| {
            let Some((_, max)) = &mut c.stats.min_max else { return (v == 0).then_some(()) };
            *max = v;
            Some(())
        })?;
        r.end()?;
        Ok(Statistics { fingerprint, version, extents, chunks })
    }
}
