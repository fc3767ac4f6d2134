//! The published replica: the arrays of the Zarr hierarchy and every shard that held a snapshot's values
//! (docs/format/manifest.md, "Published section").
//!
//! A shard object may be replaced at any time. Its record tells whether an object is still the recorded one. Records
//! are on pages that later manifests share, so publishing a few of many shards writes few records.

use crate::branch::PageRef;
use crate::cbor::{Sink, Source};
use crate::column::set;
use crate::cursor::Reader;
use crate::{Corrupt, MAX_NDIM, column};

/// Most shards on one page.
pub const PAGE_SHARDS: usize = 4096;

/// One published array: a leaf member of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Its path below `zarr/`.
    pub node: String,
    /// Id and uid of the variable, and the number of the leaf member.
    pub variable: u32,
    #[allow(missing_docs)]
    pub uid: u64,
    #[allow(missing_docs)]
    pub member: u32,
    /// The commit whose values the shards hold.
    pub version: u64,
    /// Extents in cells, the step axis first: of the array, of a chunk, and of a shard.
    pub shape: Vec<u64>,
    #[allow(missing_docs)]
    pub chunk: Vec<u64>,
    #[allow(missing_docs)]
    pub shard: Vec<u64>,
    /// Number of axes behind those of the cells, each one chunk long: for an array member, or for a fixed-length
    /// string.
    pub tail: u32,
    /// Whether chunks are zstd frames; else they are raw bytes.
    pub zstd: bool,
    /// The pages of its shards, in the order of their numbers.
    pub pages: Vec<ShardPage>,
}

/// A page of shards, and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPage {
    /// Number of its first shard.
    pub first: u64,
    /// Shards on it, at least 1.
    pub count: u32,
    /// Where it is.
    pub page: PageRef,
}

/// One shard object as it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shard {
    /// Row-major number in the grid of shards.
    pub number: u64,
    /// The commit from which it was made, and the fingerprint of its sources. Its stamp has both.
    pub version: u64,
    #[allow(missing_docs)]
    pub fingerprint: u128,
    /// Bytes of the object.
    pub length: u64,
    /// CRC of its index, the last 4 bytes of the object.
    pub index_check: u32,
}

impl Array {
    /// Checks that the numbers are consistent.
    pub fn validate(&self) -> Result<(), String> {
        let ndim = self.shape.len();
        let axes = 0..=MAX_NDIM + 1;
        if !axes.contains(&ndim) || self.chunk.len() != ndim || self.shard.len() != ndim {
            return Err(format!(
                "{ndim} axes, cut by {} and gathered by {}",
                self.chunk.len(),
                self.shard.len()
            ));
        }
        let whole = self.chunk.iter().zip(&self.shard).all(|(c, s)| *c > 0 && *s > 0 && s % c == 0);
        let fits = |n: &[u64]| {
            n.iter().try_fold(1u64, |p, &e| p.checked_mul(e.max(1))).is_some_and(|p| p >> 63 == 0)
        };
        let shards: Vec<u64> =
            self.shape.iter().zip(&self.shard).map(|(n, s)| n.div_ceil((*s).max(1))).collect();
        if !whole || !fits(&self.shard) || !fits(&shards) {
            return Err(format!("chunks {:?} in shards {:?} of {:?}", self.chunk, self.shard, self.shape));
        }
        if self.tail > 64 {
            return Err(format!("{} axes of a cell", self.tail));
        }
        let ascend = self.pages.is_sorted_by(|a, b| a.first < b.first);
        let sized = self.pages.iter().all(|p| (1..=PAGE_SHARDS as u32).contains(&p.count));
        if !ascend || !sized {
            return Err("pages of shards are out of order or empty".into());
        }
        Ok(())
    }

    fn write(&self, out: &mut Sink) {
        out.map(11).u64(0).text(&self.node).u64(1).u64(self.variable.into()).u64(2).u64(self.uid);
        out.u64(3).u64(self.member.into()).u64(4).u64(self.version);
        for (key, extents) in [(5, &self.shape), (6, &self.chunk), (7, &self.shard)] {
            out.u64(key).array(extents.len());
            extents.iter().for_each(|n| _ = out.u64(*n));
        }
        out.u64(8).bool(self.zstd).u64(9).u64(self.tail.into()).u64(10).array(self.pages.len());
        for page in &self.pages {
            page.page.write(out.array(3).u64(page.first).u64(page.count.into()));
        }
    }

    fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        let (mut node, mut variable, mut uid, mut member, mut version) = (None, None, None, None, None);
        let (mut shape, mut chunk, mut shard, mut zstd) = (None, None, None, None);
        let (mut tail, mut pages) = (None, None);
        source.fields(|source, key| {
            match key {
                0 => node = Some(source.text()?.to_owned()),
                1 => variable = Some(source.u32()?),
                2 => uid = Some(source.u64()?),
                3 => member = Some(source.u32()?),
                4 => version = Some(source.u64()?),
                5 => shape = Some(source.list(Source::u64)?),
                6 => chunk = Some(source.list(Source::u64)?),
                7 => shard = Some(source.list(Source::u64)?),
                8 => zstd = Some(source.bool()?),
                9 => tail = Some(source.u32()?),
                10 => {
                    pages = Some(source.list(|source| {
                        source.tuple(3)?;
                        let (first, count) = (source.u64()?, source.u32()?);
                        Ok(ShardPage { first, count, page: PageRef::read(source)? })
                    })?);
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let array = Array {
            node: source.need(node, "node")?,
            variable: source.need(variable, "variable")?,
            uid: source.need(uid, "uid")?,
            member: source.need(member, "member")?,
            version: source.need(version, "version")?,
            shape: source.need(shape, "shape")?,
            chunk: source.need(chunk, "chunk")?,
            shard: source.need(shard, "shard")?,
            zstd: source.need(zstd, "compression")?,
            tail: source.need(tail, "axes of a cell")?,
            pages: source.need(pages, "pages of shards")?,
        };
        array.validate().map_err(|e| source.corrupt(format!("published array {:?}: {e}", array.node)))?;
        Ok(array)
    }
}

/// The bytes of the section. `decode` refuses what `validate` refuses.
pub fn encode(arrays: &[Array]) -> Vec<u8> {
    let mut out = Sink::new();
    out.array(arrays.len());
    arrays.iter().for_each(|array| array.write(&mut out));
    out.finish()
}

/// Reads the section.
pub fn decode(bytes: &[u8]) -> Result<Vec<Array>, Corrupt> {
    let mut source = Source::new(bytes);
    let arrays = source.list(Array::read)?;
    source.end()?;
    Ok(arrays)
}

/// The bytes of a page of shards.
///
/// # Panics
/// With more than [`PAGE_SHARDS`] shards.
pub fn encode_page(shards: &[Shard]) -> Vec<u8> {
    assert!(shards.len() <= PAGE_SHARDS, "a page holds at most {PAGE_SHARDS} shards");
    let mut out = Vec::new();
    out.extend_from_slice(&(shards.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    column::write(&mut out, shards, |s| s.number);
    column::write(&mut out, shards, |s| s.version);
    column::write(&mut out, shards, |s| s.fingerprint as u64);
    column::write(&mut out, shards, |s| (s.fingerprint >> 64) as u64);
    column::write(&mut out, shards, |s| s.length);
    column::write(&mut out, shards, |s| s.index_check.into());
    out
}

/// Decodes a page of shards; their numbers ascend.
pub fn decode_page(bytes: &[u8]) -> Result<Vec<Shard>, Corrupt> {
    let r = &mut Reader::new(bytes);
    let (n, reserved) = (r.u32()? as usize, r.u32()?);
    if n > PAGE_SHARDS || reserved != 0 {
        return Err(Corrupt::new("impossible head of a page of shards", 0));
    }
    let mut shards = vec![Shard::default(); n];
    let items = shards.as_mut_slice();
    column::read(r, items, "shard number", |s, v| set(&mut s.number, v))?;
    column::read(r, items, "shard version", |s, v| set(&mut s.version, v))?;
    column::read(r, items, "fingerprint", |s, v| set(&mut s.fingerprint, v))?;
    column::read(r, items, "fingerprint", |s, v| {
        s.fingerprint |= u128::from(v) << 64;
        Some(())
    })?;
    column::read(r, items, "shard length", |s, v| set(&mut s.length, v))?;
    column::read(r, items, "index check", |s, v| set(&mut s.index_check, v))?;
    r.end()?;
    if !shards.is_sorted_by(|a, b| a.number < b.number) {
        return Err(r.corrupt("shards are out of order"));
    }
    Ok(shards)
}
