//! Chooses the subchunks of a put by the cost model. The choice is made once per shape.

use std::collections::HashMap;
use std::sync::Mutex;

use drystone_format::schema::Variable;
use drystone_plan::layout::{CODED, Cut, Doubt, LOG, cut_block};
use drystone_transform::Transform;

use super::accept::transform_of;
use crate::base::sync::lock;
use crate::container::{Container, Inner};
use crate::layout::Laid;
use crate::{Error, Result};

/// Key of a choice: variable, bytes per cell, whether cells are encoded, extents.
type Shape = (u32, u32, bool, Vec<u64>);
/// Bytes of records that stay in a processor's second-level cache while they are split into members.
const TOGETHER: u64 = 2 << 20;
/// The most shapes whose choice is kept.
const MOST: usize = 1024;

/// The choices made so far.
#[derive(Debug, Default)]
pub(super) struct Cuts(Mutex<HashMap<Shape, Vec<u64>>>);

impl Cuts {
    /// Edges of the subchunks of a block of `count` cells.
    pub(super) fn of(
        &self,
        inner: &Inner,
        (path, variable): (&str, &Variable),
        count: &[u64],
        room: u32,
        coded: bool,
    ) -> Result<Vec<u64>> {
        // A block no larger than the model's least subchunk is never cut.
        let bytes = count.iter().fold(u64::from(room), |b, n| b.saturating_mul(*n));
        if bytes <= LOG.min_chunk {
            return Ok(count.to_vec());
        }
        let shape = (variable.id, room, coded, count.to_vec());
        if let Some(edges) = lock(&self.0).get(&shape) {
            return Ok(edges.clone());
        }
        let edges = cut(inner, (path, variable), count, room, coded)?.0.edges;
        let mut known = lock(&self.0);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(shape, edges.clone());
        Ok(edges)
    }

    /// Edges of the subchunks of all members of a block of records, so small that the subchunks of all
    /// members stay in the processor's cache while records are split. `None` if members are better stored one
    /// after the other: for small blocks, and on stores that read larger pieces faster.
    pub(super) fn of_records(
        &self,
        inner: &Inner,
        (path, variable): (&str, &Variable),
        members: &[Laid],
    ) -> Result<Option<Vec<u64>>> {
        let room: u64 = members.iter().map(|laid| u64::from(laid.room)).sum();
        let largest = members.iter().map(|laid| laid.room).max().unwrap_or(1);
        let Some(first) = members.first() else { return Ok(None) };
        let bytes = |edges: &[u64], room: u64| edges.iter().fold(room, |b, n| b.saturating_mul(*n));
        if bytes(&first.count, room) < TOGETHER
            || inner.device().optimal_chunk(2) > 2.0 * LOG.min_chunk as f64
        {
            return Ok(None);
        }
        let mut edges = self.of(inner, (path, variable), &first.count, largest, false)?;
        while bytes(&edges, room) > TOGETHER && bytes(&edges, largest.into()) >= 2 * LOG.min_chunk {
            let Some(edge) = edges.iter_mut().find(|edge| **edge > 1) else { break };
            *edge = edge.div_ceil(2);
        }
        Ok(Some(edges))
    }
}

/// The model's cut of a block, and the origin of the expected reads.
fn cut(
    inner: &Inner,
    (path, variable): (&str, &Variable),
    count: &[u64],
    room: u32,
    coded: bool,
) -> Result<(Cut, String)> {
    // Reads of the whole array meet all of a block; local blocks are arrays of their own.
    let shape: Vec<u64> = match variable.local || variable.shape.len() != count.len() {
        true => count.to_vec(),
        false => variable.shape.iter().zip(count).map(|(n, c)| *n.max(c)).collect(),
    };
    let (mix, from) = inner.expected(path, variable, &shape)?;
    let bounds = if coded { CODED } else { LOG };
    Ok((cut_block(count, u64::from(room), coded, &mix, &inner.device(), &bounds), from))
}

impl Container {
    /// The model's cut of a block of `count` cells of a variable, and the origin of the expected reads. The
    /// block is encoded if the variable has a transform.
    pub fn cut_of(&self, path: &str, count: &[u64]) -> Result<(Cut, String)> {
        let variable = self.variable(path)?;
        if count.len() != variable.shape.len() && !variable.local {
            let n = variable.shape.len();
            return Err(Error::invalid(format!(
                "a block of \"{path}\" has {n} extents, not {}",
                count.len()
            )));
        }
        let room = variable.dtype.leaves().first().map_or(1, |leaf| leaf.size);
        let coded = match transform_of(path, &variable, self.inner.config.as_deref())? {
            Transform::Chain(chain) => !chain.is_identity(),
            Transform::Auto(_) => true,
        };
        let (mut cut, from) = cut(&self.inner, (path, &variable), count, room, coded)?;
        cut.doubt = self.inner.profile().map(|profile| profile.doubt).filter(Doubt::is_noisy);
        Ok((cut, from))
    }
}
