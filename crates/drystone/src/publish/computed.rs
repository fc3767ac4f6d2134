//! One fingerprint per shard of a derived variable, over everything that its inputs hold in the steps of the shard.
//!
//! A value may need any cells of its step, so this is coarser than for variables that hold values: a shard is written
//! again if anything in one of its steps has changed. Stored values of a derived variable are ignored, since
//! computing them gives the same values.

use std::collections::{BTreeMap, BTreeSet};

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_format::schema::{Schema, Variable};
use drystone_plan::tree::{self, Query, StepSet};

use super::Target;
use super::changes::{Fingerprint, MOST_SHARDS, fingerprint, seed};
use crate::container::Container;
use crate::history::snapshot::Snapshot;
use crate::published::grid::Box;
use crate::{Error, Result};

/// Finds the fingerprints of all shards of the targets that are derived.
pub(super) fn find(container: &Container, snapshot: &Snapshot, targets: &mut [Target]) -> Result<()> {
    for target in targets.iter_mut().filter(|target| target.array.derived) {
        let path = target.array.variable.clone();
        find_in(container, snapshot, target)
            .map_err(|e| e.while_doing(format!("variable \"{path}\", which is derived")))?;
    }
    Ok(())
}

fn find_in(container: &Container, snapshot: &Snapshot, target: &mut Target) -> Result<()> {
    let all = target.grid.shards().iter().try_fold(1u64, |n, s| n.checked_mul(*s));
    let all = all
        .filter(|n| *n <= MOST_SHARDS)
        .ok_or_else(|| Error::unsupported(format!("more than {MOST_SHARDS} shards; give larger chunks")))?;
    let schema = &snapshot.schema;
    let inputs = inputs_of(schema, target.array.id);
    let steps = match target.array.steps {
        true => container.leaf_reading(&target.array.variable, target.array.leaf)?.steps()?,
        false => Vec::new(),
    };
    // Consecutive shards along the step axis have the same steps.
    let each = target.grid.shard.first().copied().filter(|_| target.array.steps).unwrap_or(u64::MAX).max(1);
    let mut common = definition(schema, target, &inputs, &container.inner.identity.uuid);
    let mut rows: BTreeMap<u64, u128> = BTreeMap::new();
    for id in &inputs {
        let Some(input) = schema.variables.get(id).filter(|input| input.derived.is_none()) else { continue };
        entries(container, snapshot, input, &mut |entry| {
            let value = fingerprint(entry, &place_of(entry));
            let sum = match entry.step.checked_sub(1) {
                Some(step) => rows.entry(step / each).or_default(),
                None => &mut common,
            };
            *sum = sum.wrapping_add(value);
        })?;
    }
    for shard in 0..all {
        let cells = target.grid.cells_of(shard);
        let mut sum = common;
        if target.array.steps {
            let (Some(&lo), Some(&hi)) = (cells.lo.first(), cells.hi.first()) else { continue };
            let next = steps.get(steps.partition_point(|step| *step < lo));
            if next.is_none_or(|step| *step >= hi) {
                continue;
            }
            sum = sum.wrapping_add(rows.get(&(lo / each)).copied().unwrap_or_default());
        }
        target.changes.shards.insert(shard, sum);
    }
    Ok(())
}

/// The ids of all variables on which a derived variable depends.
fn inputs_of(schema: &Schema, id: u32) -> BTreeSet<u32> {
    let (mut found, mut next) = (BTreeSet::new(), vec![id]);
    while let Some(id) = next.pop() {
        let derived = schema.variables.get(&id).and_then(|variable| variable.derived.as_ref());
        let inputs = derived.iter().flat_map(|derived| &derived.inputs).map(|input| input.variable);
        next.extend(inputs.filter(|input| found.insert(*input)).collect::<Vec<_>>());
    }
    found
}

/// Everything besides cells of the inputs that determines values: definitions, shapes, fill values.
fn definition(schema: &Schema, target: &Target, inputs: &BTreeSet<u32>, uuid: &[u8; 16]) -> u128 {
    let mut sum = Fingerprint::new();
    let itself = std::iter::once(&target.array.id);
    for variable in itself.chain(inputs).filter_map(|id| schema.variables.get(id)) {
        sum.absorb(variable.uid);
        sum.absorb_bytes(variable.fill.as_deref().unwrap_or_default());
        variable.shape.iter().for_each(|extent| sum.absorb(*extent));
        for (commit, shape) in &variable.clips {
            sum.absorb(*commit);
            shape.iter().for_each(|extent| sum.absorb(*extent));
        }
        if let Some(derived) = &variable.derived {
            sum.absorb_bytes(&derived.tree);
            sum.absorb(derived.edge as u64);
        }
    }
    sum.value().wrapping_add(seed(target, uuid))
}

/// Calls `visit` with every visible entry of a variable in the snapshot.
fn entries(
    container: &Container,
    snapshot: &Snapshot,
    variable: &Variable,
    visit: &mut dyn FnMut(&Entry),
) -> Result<()> {
    let Some(root) = &snapshot.manifest.root else { return Ok(()) };
    let steps = match variable.steps {
        true => StepSet { first: 1, count: snapshot.step_axis(), stride: 1 },
        false => StepSet::one(0),
    };
    let query = Query { steps, variable: variable.id, member: None, bounds: None };
    tree::find(&container.inner.pages, root, &query, &mut |entry| {
        let hidden = entry.step > 0 && entry.commit < snapshot.steps.hidden_below(entry.step - 1);
        if !hidden && entry.encoding.replica == 0 {
            visit(&entry);
        }
    })?;
    Ok(())
}

/// The box of an entry, with its step and its member as further axes.
fn place_of(entry: &Entry) -> Box {
    let ndim = usize::from(entry.ndim).min(MAX_NDIM);
    let mut lo = vec![entry.step, u64::from(entry.member)];
    lo.extend(&entry.offset[..ndim]);
    let mut hi = vec![entry.step, u64::from(entry.member)];
    hi.extend(entry.offset.iter().zip(&entry.count).take(ndim).map(|(from, n)| from.saturating_add(*n)));
    Box { lo, hi }
}
