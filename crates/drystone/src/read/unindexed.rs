//! Finds blocks that have no index of their values, and reads the cells of a block as they were put, to index them.

use std::collections::BTreeSet;

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_plan::read_plan::BINS;
use drystone_plan::resolve::{Candidate, resolve};
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::Chain;

use super::Reading;
use super::execute::{self, Sources};
use super::seeking::slot;
use crate::base::array::Target;
use crate::schema::element_type::MAX_SUBCHUNK;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The blocks of one leaf at one step, by whether they have an index.
#[derive(Debug, Default)]
pub(crate) struct Unindexed {
    /// Visible blocks without an index.
    pub(crate) blocks: Vec<Entry>,
    /// The number of blocks with an index.
    pub(crate) indexed: u64,
}

impl Reading {
    /// The blocks at a step (`None` for a variable without steps) of this reading's leaf, by whether they have an
    /// index of their values. An index is a replica of this number, or, if the number denotes bins, bins in place of
    /// the values. Blocks of fewer than `least` bytes count as neither.
    pub(crate) fn unindexed(&self, step: Option<u64>, replica: u32, least: u64) -> Result<Unindexed> {
        let steps = Axis { start: step.unwrap_or(0), step: 1, count: 1 };
        let all: Vec<Entry> = self.entries(&steps, None)?.into_values().flatten().collect();
        let age = |e: &Entry| (e.commit, e.order, e.put, e.offset);
        let has: BTreeSet<_> = all.iter().filter(|e| e.encoding.replica == replica).map(age).collect();
        let whole = |e: &Entry| Candidate { entry: e.clone(), limit: self.limit(e) };
        let put: Vec<Candidate> =
            all.iter().filter(|e| e.encoding.replica == 0 && e.encoding.part.is_none()).map(whole).collect();
        let shown = resolve(&put, &Selection::all(&self.variable.shape)).visible;
        let shown: BTreeSet<usize> = shown.iter().map(|visible| visible.candidate).collect();
        let mut out = Unindexed::default();
        for (_, Candidate { entry, .. }) in put.into_iter().enumerate().filter(|(n, _)| shown.contains(n)) {
            let bytes = entry.cells().and_then(|cells| cells.checked_mul(self.item.into()));
            if bytes.is_some_and(|bytes| bytes < least) {
                continue;
            }
            let chain = &entry.encoding.chain;
            let in_place = replica == BINS
                && !chain.is_empty()
                && Chain::parse(chain).is_ok_and(|chain| chain.has_index());
            match in_place || has.contains(&age(&entry)) {
                true => out.indexed += 1,
                false => out.blocks.push(entry),
            }
        }
        Ok(out)
    }

    /// The leaf that this reads, as an element by itself.
    pub(crate) fn only_column(&self) -> Result<Column> {
        let [only] = self.leaves.as_slice() else {
            return Err(Error::invalid(format!("\"{}\" is not one member", self.path)));
        };
        let mut column = only.clone();
        column.leaf.offset = 0;
        Ok(column)
    }

    /// The cells of a box as these blocks of one leaf contain them; `first` counts from the beginning of the
    /// variable. `None` if one of the cells is in none of the blocks.
    pub(crate) fn cells_of(
        &self,
        column: &Column,
        entries: &[Entry],
        (first, count): (&[u64], &[u64]),
    ) -> Result<Option<Vec<u8>>> {
        let (item, leaves) = (column.leaf.size, vec![column.clone()]);
        let one = Reading { item, leaves, shelf: None, ..self.clone() };
        let cells = Selection::boxed(first, count);
        let bytes = cells.cells().and_then(|n| n.checked_mul(item.into())).filter(|n| *n <= MAX_SUBCHUNK);
        let bytes = bytes.ok_or_else(|| Error::corrupt("a subchunk claims more than 16 MiB"))? as usize;
        let whole = |entry: &Entry| Candidate { entry: entry.clone(), limit: [u64::MAX; MAX_NDIM] };
        let candidates = entries.iter().map(whole).collect();
        let prepared = one.plan_one(one.leaves.clone(), vec![slot(column, candidates, cells)])?;
        if prepared.plan.fill.contains(&true) {
            return Ok(None);
        }
        let (mut out, mut shape) = (vec![0; bytes], count.to_vec());
        if one.variable.steps {
            shape.insert(0, 1);
        }
        let target = Target::dense(&mut out, &shape, item as usize)?;
        execute::run(&one, &prepared, 0, &target, &Sources::of(self))?;
        drop(target);
        Ok(Some(out))
    }
}
