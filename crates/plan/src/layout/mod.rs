//! The layout model: the chunk shape and order of a published array, and why.
//!
//! A request costs time besides its bytes. Small chunks cost requests, large ones cost bytes that are not
//! wanted. The optimum between is bandwidth times request time ([`Device::optimal_chunk`]). [`choose`]
//! minimises the cost of a mix of reads ([`Pattern`], [`predict`]) over the shapes whose size keeps the
//! bounds.
//!
//! Invariants
//! - the shard's extents are multiples of the chunk's;
//! - along steps, chunk and shard are longer than one only where a step is small, so a later step rewrites at most a
//!   small shard;
//! - the same arguments give the same layout, and its text says what was weighed.

mod block;
mod cost;
mod device;
mod even;
mod learnt;
mod order;
mod placement;
mod profile;
mod search;
mod settle;

pub use block::{
    AHEAD, CODED, CONTENDED_RAW, Cut, LOG, PARALLEL, closed_form, cut_block, predict_block, predict_read,
    read_or_decoded, under_way,
};
pub use cost::{Cost, Pattern, predict, standard_mix};
pub use device::Device;
pub use learnt::{PRIOR, kind_of, learnt_mix};
pub use order::{Order, chunk_order};
pub use placement::{Placement, Spread};
pub use profile::Profile;
pub use search::{Array, Bounds, choose, choose_as_stored, shard_of};
pub use settle::{AtDepth, Doubt, LARGE, SMALL, Turns, misfit, settle};

use std::fmt;

/// How one array is cut, and the predicted cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Extents of a chunk in cells, the step axis first if there is one.
    pub chunk: Vec<u64>,
    /// Extents of a shard in cells.
    pub shard: Vec<u64>,
    /// The order in which the chunks of a shard are stored.
    pub order: Order,
    /// Bytes per cell.
    pub item: u64,
    /// What was assumed of the store.
    pub device: Device,
    /// The reads of the mix, each with its predicted cost.
    pub weighed: Vec<(Pattern, Cost)>,
    /// Set if chunks equal the subchunks of the log, so that its blocks are copied unchanged: the cost relative to the
    /// cheapest shape.
    pub as_stored: Option<f64>,
}

impl Layout {
    /// Bytes of a chunk, decoded.
    pub fn chunk_bytes(&self) -> u64 {
        bytes_of(&self.chunk, self.item)
    }

    /// Bytes of a shard, decoded.
    pub fn shard_bytes(&self) -> u64 {
        bytes_of(&self.shard, self.item)
    }

    /// Chunks per shard along each axis.
    pub fn grid(&self) -> Vec<u64> {
        self.shard.iter().zip(&self.chunk).map(|(s, c)| s / (*c).max(1)).collect()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: u64 = self.grid().iter().product();
        writeln!(
            f,
            "chunk {} of {}, shard {} of {}: {chunks} chunks in {} order",
            extents(&self.chunk),
            bytes(self.chunk_bytes() as f64),
            extents(&self.shard),
            bytes(self.shard_bytes() as f64),
            self.order,
        )?;
        if let Some(ratio) = self.as_stored {
            writeln!(f, "as the log is cut, which can be copied: reads take {ratio:.2} of the least")?;
        }
        writeln!(f, "store: {}", self.device)?;
        let total: f64 = self.weighed.iter().map(|(pattern, _)| pattern.weight).sum();
        let equal = self.weighed.windows(2).all(|pair| pair[0].0.weight == pair[1].0.weight);
        for (pattern, cost) in &self.weighed {
            match equal {
                true => writeln!(f, "  {}: {cost}", pattern.name)?,
                false => writeln!(f, "  {}, {:.0} %: {cost}", pattern.name, 100.0 * pattern.weight / total)?,
            }
        }
        Ok(())
    }
}

fn extents(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "1".into();
    }
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut n, mut unit) = (n, 0);
    while n >= 1024.0 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n:.0} B") } else { format!("{n:.3} {}", UNITS[unit]) }
}

/// Bytes of an array of this shape. Saturates: a size that does not fit in 64 bits exceeds every bound.
fn bytes_of(shape: &[u64], item: u64) -> u64 {
    shape.iter().fold(item, |n, &extent| n.saturating_mul(extent.max(1)))
}
