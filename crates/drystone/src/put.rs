//! From an array in the caller's memory to stored pieces: cut, gather, measure, encode.
//!
//! Nothing here knows of steps or files but the [`Segment`] it writes to.

use drystone_format::MAX_NDIM;
use drystone_format::dtype::{DType, Leaf, Scalar};
use drystone_format::entry::{Encoding, Entry, Piece, Stats as EntryStats};
use drystone_format::table::{self, Subchunk};
use drystone_rules::{Dim, StridedCopy};
use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Chain, Logical, Scratch};

use crate::array::Source;
use crate::segment::Segment;
use crate::{Error, Result};

/// No subchunk is larger than this when decoded.
pub(crate) const MAX_SUBCHUNK: u64 = 16 << 20;
/// Encoded blocks without given chunks are cut to about this.
const CODED_SUBCHUNK: u64 = 2 << 20;
/// Histograms are kept for encoded subchunks of at least this many elements.
const HISTOGRAM_CELLS: u64 = 4096;

/// The statistics kind of a leaf.
pub(crate) fn kind_of(dtype: &DType) -> ScalarKind {
    let DType::Scalar(scalar) = dtype else { return ScalarKind::Other };
    match scalar {
        Scalar::Bool => ScalarKind::Bool,
        Scalar::I8 => ScalarKind::I8,
        Scalar::I16 => ScalarKind::I16,
        Scalar::I32 => ScalarKind::I32,
        Scalar::I64 => ScalarKind::I64,
        Scalar::U8 => ScalarKind::U8,
        Scalar::U16 => ScalarKind::U16,
        Scalar::U32 => ScalarKind::U32,
        Scalar::U64 => ScalarKind::U64,
        Scalar::F16 => ScalarKind::F16,
        Scalar::BF16 => ScalarKind::BF16,
        Scalar::F32 => ScalarKind::F32,
        Scalar::F64 => ScalarKind::F64,
        Scalar::C64 | Scalar::C128 => ScalarKind::Other,
    }
}

/// What a codec is told of a subchunk of a leaf.
pub(crate) fn logical(leaf: &Leaf, shape: &[u64]) -> Logical {
    let (scalar, kind) = match &leaf.dtype {
        DType::Scalar(Scalar::C64) => (4, ScalarKind::F32),
        DType::Scalar(Scalar::C128) => (8, ScalarKind::F64),
        DType::Scalar(s) => (s.size() as usize, kind_of(&leaf.dtype)),
        DType::Unicode(_) => (4, ScalarKind::Other),
        DType::Bytes(_) => (1, ScalarKind::Other),
        _ => (8, ScalarKind::Other),
    };
    Logical { item: leaf.size as usize, scalar, kind, shape: shape.to_vec() }
}

/// The subchunk grid of a block: `chunks` if given, else cut so that no subchunk is too large.
pub(crate) fn cut(count: &[u64], chunks: Option<&[u64]>, item: u64, coded: bool) -> Vec<u64> {
    let mut edges: Vec<u64> = match chunks {
        Some(chunks) if chunks.len() == count.len() => {
            count.iter().zip(chunks).map(|(n, c)| (*n).min(*c)).collect()
        }
        _ => count.to_vec(),
    };
    let bytes = |edges: &[u64]| edges.iter().fold(item.max(1), |b, n| b.saturating_mul((*n).max(1)));
    if coded && chunks.is_none() {
        // Halve the longest edge: near-cubic pieces serve every direction.
        while bytes(&edges) > CODED_SUBCHUNK {
            let Some(longest) = edges.iter_mut().rev().max_by_key(|n| **n).filter(|n| **n > 1) else { break };
            *longest = longest.div_ceil(2);
        }
    }
    for d in 0..edges.len() {
        if bytes(&edges) > MAX_SUBCHUNK {
            let rest = bytes(&edges) / edges[d].max(1);
            edges[d] = (MAX_SUBCHUNK / rest.max(1)).clamp(1, edges[d]);
        }
    }
    edges
}

/// One leaf member of one block, ready to be stored.
pub(crate) struct BlockPart<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) chain: &'a Chain,
    pub(crate) cut: &'a [u64],
}

/// A subchunk that was gathered and encoded outside the writer's lock.
pub(crate) struct Coded {
    pub(crate) bytes: Vec<u8>,
    /// What the chain wants kept, so that a part can be read.
    pub(crate) meta: Vec<u8>,
    pub(crate) stats: Stats,
    pub(crate) histogram: Vec<u8>,
}

/// Boxes of the subchunk grid in row-major order: first cell and extent, relative to the block.
pub(crate) fn grid(count: &[u64], cut: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
    if count.contains(&0) {
        return Vec::new();
    }
    let n: Vec<u64> = count.iter().zip(cut).map(|(n, c)| n.div_ceil(*c)).collect();
    let total: u64 = n.iter().product();
    let mut at = vec![0u64; count.len()];
    let mut out = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let first: Vec<u64> = at.iter().zip(cut).map(|(i, c)| i * c).collect();
        let extent = first.iter().zip(count).zip(cut).map(|((f, n), c)| (*c).min(n - f)).collect();
        out.push((first, extent));
        for d in (0..at.len()).rev() {
            at[d] += 1;
            if at[d] < n[d] {
                break;
            }
            at[d] = 0;
        }
    }
    out
}

impl BlockPart<'_> {
    fn item(&self) -> usize {
        self.leaf.size as usize
    }

    /// Where the box lies densely in the source, if it does.
    fn dense<'s>(&self, source: &Source<'s>, first: &[u64], extent: &[u64]) -> Option<&'s [u8]> {
        let mut expected = self.item() as i64;
        for d in (0..extent.len()).rev() {
            if extent[d] > 1 {
                if source.strides()[d] != expected {
                    return None;
                }
                expected *= extent[d] as i64;
            }
        }
        let start = self.start(source, first)? as usize;
        source.bytes().get(start..start.checked_add(expected as usize)?)
    }

    fn start(&self, source: &Source<'_>, first: &[u64]) -> Option<u64> {
        let mut at = (source.start() as i64).checked_add(i64::from(self.leaf.offset))?;
        for (f, s) in first.iter().zip(source.strides()) {
            at = at.checked_add(s.checked_mul(*f as i64)?)?;
        }
        u64::try_from(at).ok()
    }

    /// Gathers a box of the source into dense row-major order.
    fn gather(&self, source: &Source<'_>, first: &[u64], extent: &[u64], out: &mut Vec<u8>) -> Result<()> {
        let item = self.item();
        let mut dims = Vec::with_capacity(extent.len());
        let mut dense = item as i64;
        for d in (0..extent.len()).rev() {
            dims.push(Dim::new(extent[d], source.strides()[d], dense));
            dense *= extent[d] as i64;
        }
        dims.reverse();
        let start = self.start(source, first).ok_or_else(|| Error::invalid("the array is too large"))?;
        let copy = StridedCopy::new(start, 0, item, dims).map_err(rule_error)?;
        out.resize(dense as usize, 0);
        copy.run(source.bytes(), out).map_err(rule_error)
    }

    /// Gathers and encodes one subchunk.
    pub(crate) fn encode(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        gathered: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Coded> {
        let data: &[u8] = match self.dense(source, first, extent) {
            Some(bytes) => bytes,
            None => {
                self.gather(source, first, extent, gathered)?;
                gathered
            }
        };
        let logical = logical(self.leaf, extent);
        let mut bytes = Vec::new();
        let failed = |e| Error::invalid(format!("encoding with {}: {e}", self.chain.canonical()));
        self.chain.encode(data, &logical, &mut bytes, scratch).map_err(failed)?;
        let meta = self.chain.meta(&bytes).to_vec();
        // Statistics speak of what will be read, which rounding may have changed.
        let mut rounded = Vec::new();
        let data = if self.chain.is_lossy() {
            rounded.resize(data.len(), 0);
            self.chain.decode(&bytes, &logical, &mut rounded, scratch).map_err(failed)?;
            rounded.as_slice()
        } else {
            data
        };
        let kind = kind_of(&self.leaf.dtype);
        let stats = Stats::of(kind, data);
        let mut histogram = Vec::new();
        if extent.iter().product::<u64>() >= HISTOGRAM_CELLS
            && let Some(h) = Histogram::of(kind, data, &stats)
        {
            h.encode(&mut histogram);
        }
        Ok(Coded { bytes, meta, stats, histogram })
    }

    /// Stores one raw subchunk.
    pub(crate) fn store_raw(
        &self,
        source: &Source<'_>,
        first: &[u64],
        extent: &[u64],
        gathered: &mut Vec<u8>,
        segment: &mut Segment,
    ) -> Result<Subchunk> {
        let data: &[u8] = match self.dense(source, first, extent) {
            Some(bytes) => bytes,
            None => {
                self.gather(source, first, extent, gathered)?;
                gathered
            }
        };
        let kind = kind_of(&self.leaf.dtype);
        let mut stats = Stats::default();
        let piece = segment.push_raw(data, |bytes| stats.update(kind, bytes))?;
        Ok(Subchunk { piece, stats: entry_stats(&stats) })
    }

    /// The index entry of a block whose subchunks are stored; several need a table first.
    pub(crate) fn entry(
        &self,
        place: &Place,
        subchunks: &[Subchunk],
        segment: &mut Segment,
        part: u32,
    ) -> Result<Entry> {
        let kind = kind_of(&self.leaf.dtype);
        let piece = match subchunks {
            [] => Piece::default(),
            [one] => one.piece,
            many => segment.push_coded(&table::encode(many), &[], &[])?,
        };
        let stats = merged(kind, subchunks);
        let pad = |v: &[u64]| {
            let mut out = [0; MAX_NDIM];
            out[..v.len()].copy_from_slice(v);
            out
        };
        Ok(Entry {
            step: place.step.map_or(0, |s| s + 1),
            variable: place.variable,
            member: place.member,
            commit: 0,
            order: 0,
            put: place.put,
            ndim: place.count.len() as u8,
            offset: pad(place.offset),
            count: pad(place.count),
            cut: pad(self.cut),
            encoding: std::sync::Arc::new(Encoding {
                chain: if self.chain.is_identity() { String::new() } else { self.chain.canonical() },
                item: self.leaf.size,
                layout: 0,
            }),
            subchunks: subchunks.len() as u64,
            source: part,
            piece,
            stats,
        })
    }
}

/// Where a block stands.
pub(crate) struct Place<'a> {
    pub(crate) step: Option<u64>,
    pub(crate) variable: u32,
    pub(crate) member: u32,
    pub(crate) put: u64,
    pub(crate) offset: &'a [u64],
    pub(crate) count: &'a [u64],
}

/// Statistics as an index entry keeps them.
pub(crate) fn entry_stats(stats: &Stats) -> EntryStats {
    EntryStats { min_max: stats.min.zip(stats.max), nans: stats.nans }
}

fn merged(kind: ScalarKind, subchunks: &[Subchunk]) -> EntryStats {
    let mut all = Stats::default();
    for s in subchunks {
        let (min, max) = s.stats.min_max.unzip();
        all.merge(kind, &Stats { min, max, nans: s.stats.nans, count: 0 });
    }
    entry_stats(&all)
}

pub(crate) fn rule_error(error: drystone_rules::RuleError) -> Error {
    Error::invalid(format!("copying: {error}"))
}
