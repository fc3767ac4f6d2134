//! From a selection to slots: finds, by column, the visible entries of each step that may hold its cells.

use std::collections::{BTreeMap, BTreeSet};

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_plan::read_plan::{INDEXES, Slot};
use drystone_plan::resolve::Candidate;
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tree::{self, Query, StepSet};
use drystone_transform::Logical;

use super::{Prepared, Reading};
use crate::Result;
use crate::schema::element_type::logical;
use crate::schema::member::Column;

/// The columns to plan, with a slot for each column at each step.
pub(super) struct Sought {
    pub(super) columns: Vec<Column>,
    pub(super) slots: Vec<Slot>,
}

impl Sought {
    pub(super) fn candidates(&self) -> usize {
        self.slots.iter().map(|slot| slot.candidates.len()).sum()
    }
}

/// The candidates of one step, by member.
type Candidates = BTreeMap<u32, Vec<Candidate>>;

impl Reading {
    /// Splits a selection into the step axis (one pseudo step for variables without steps) and the other axes.
    pub(super) fn split(&self, selection: &Selection) -> (Axis, Selection) {
        if self.variable.steps {
            (selection.axes[0], Selection { axes: selection.axes[1..].to_vec() })
        } else {
            (Axis { start: 0, step: 1, count: 1 }, selection.clone())
        }
    }

    /// Visible entries of the given steps that may meet a box, by key step.
    pub(super) fn entries(
        &self,
        steps: &Axis,
        bounds: Option<([u64; MAX_NDIM], [u64; MAX_NDIM])>,
    ) -> Result<BTreeMap<u64, Vec<Entry>>> {
        self.require_stored("blocks")?;
        let mut found: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        let Some(root) = &self.snapshot.manifest.root else { return Ok(found) };
        let set = if self.variable.steps {
            let last = steps.cell(steps.count - 1);
            StepSet {
                first: steps.start.min(last) + 1,
                count: steps.count,
                stride: steps.step.unsigned_abs(),
            }
        } else {
            StepSet::one(0)
        };
        let query = Query { steps: set, variable: self.variable.id, member: None, bounds };
        let wanted: BTreeSet<u32> = self.leaves.iter().map(|column| column.number).collect();
        tree::find(&self.inner.pages, root, &query, &mut |entry| {
            let hidden = entry.step > 0 && entry.commit < self.snapshot.steps.hidden_below(entry.step - 1);
            if !hidden && wanted.contains(&entry.member) {
                // Usually a step has one entry. A larger allocation would be taken from the system and given back
                // each time.
                found.entry(entry.step).or_insert_with(|| Vec::with_capacity(1)).push(entry);
            }
        })
        .map_err(|e| e.while_doing(format!("reading variable \"{}\"", self.path)))?;
        Ok(found)
    }

    /// Whether commits after a version may have changed cells of a box. Always true for derived variables.
    pub(crate) fn has_changed_since(&self, version: u64, selection: &Selection) -> Result<bool> {
        if self.is_derived() || self.variable.clips.iter().any(|(commit, _)| *commit > version) {
            return Ok(true);
        }
        let (steps, cells) = self.split(selection);
        let mut all = (0..steps.count).map(|n| steps.cell(n));
        if self.variable.steps && all.any(|step| self.snapshot.steps.hidden_below(step) > version) {
            return Ok(true);
        }
        let entries = self.entries(&steps, cells.bounds())?;
        Ok(entries.values().flatten().any(|entry| entry.commit > version))
    }

    /// For each axis, the first coordinate of an entry's cells that a shrink removed.
    pub(super) fn limit(&self, entry: &Entry) -> [u64; MAX_NDIM] {
        let mut limit = [u64::MAX; MAX_NDIM];
        for (commit, shape) in &self.variable.clips {
            if entry.commit <= *commit {
                for (l, n) in limit.iter_mut().zip(shape) {
                    *l = (*l).min(*n);
                }
            }
        }
        limit
    }

    /// Plans cells of steps.
    pub(super) fn prepare(&self, steps: &Axis, cells: &Selection) -> Result<Prepared> {
        self.by_log_or(&|reading| reading.plan(reading.sought(steps, cells)?))
    }

    /// The slots of a read: one per step and column, in that order.
    pub(super) fn sought(&self, steps: &Axis, cells: &Selection) -> Result<Sought> {
        let mut entries = self.entries(steps, cells.bounds())?;
        let columns = self.columns(entries.values().flatten());
        let mut slots = Vec::with_capacity(steps.count as usize * columns.len());
        if let Some(shelf) = &self.shelf {
            let key = |i| if self.variable.steps { steps.cell(i) + 1 } else { 0 };
            shelf.prefetch(self, (0..steps.count).map(key), cells)?;
        }
        for i in 0..steps.count {
            let key = if self.variable.steps { steps.cell(i) + 1 } else { 0 };
            let found = self.candidates(entries.remove(&key).unwrap_or_default());
            self.slots_of(&columns, self.with_shelf(found, key, cells)?, cells, &mut slots);
        }
        Ok(Sought { columns, slots })
    }

    /// Cuts columns so that each entry has all of a column or nothing of it. An entry may hold only a part of a
    /// member.
    pub(super) fn columns<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Vec<Column> {
        let mut cuts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for entry in entries {
            if let Some(from) = entry.encoding.part {
                cuts.entry(entry.member)
                    .or_default()
                    .extend([from, from.saturating_add(entry.encoding.item)]);
            }
        }
        let mut out = Vec::with_capacity(self.leaves.len());
        for column in &self.leaves {
            let Some(cuts) = cuts.get(&column.number) else {
                out.push(column.clone());
                continue;
            };
            let range = column.range();
            let mut from = range.start;
            for &at in cuts.iter().filter(|at| **at > range.start && **at < range.end).chain([&range.end]) {
                out.push(column.narrowed(from..at));
                from = at;
            }
        }
        out
    }

    /// Groups the entries of one step by member.
    pub(super) fn candidates(&self, entries: Vec<Entry>) -> Candidates {
        let mut found = Candidates::new();
        let each = (entries.len() / self.leaves.len().max(1)).max(1);
        for entry in entries.into_iter().filter(|entry| self.indexes || entry.encoding.replica < INDEXES) {
            let limit = self.limit(&entry);
            let of_member = found.entry(entry.member).or_insert_with(|| Vec::with_capacity(each));
            of_member.push(Candidate { entry, limit });
        }
        found
    }

    /// Adds the published chunks of the step (`key`: step + 1, or 0), if they may be read.
    fn with_shelf(&self, mut found: Candidates, key: u64, cells: &Selection) -> Result<Candidates> {
        if let Some(shelf) = &self.shelf {
            for member in shelf.members() {
                shelf.offer(self, member, key, found.entry(member).or_default(), cells)?;
            }
        }
        Ok(found)
    }

    /// Appends the slots of one step, one per column.
    pub(super) fn slots_of(
        &self,
        columns: &[Column],
        mut found: Candidates,
        cells: &Selection,
        slots: &mut Vec<Slot>,
    ) {
        for (at, column) in columns.iter().enumerate() {
            let wanted_again = columns[at + 1..].iter().any(|later| later.number == column.number);
            let all =
                if wanted_again { found.get(&column.number).cloned() } else { found.remove(&column.number) };
            let mut candidates = all.unwrap_or_default();
            candidates.retain(|c| holds(&c.entry, column));
            slots.push(slot(column, candidates, cells.clone()));
        }
    }
}

/// Whether an entry holds a column. It has all of the column or nothing of it.
pub(super) fn holds(entry: &Entry, column: &Column) -> bool {
    let Some(from) = entry.encoding.part else { return true };
    let (have, want) = (from..from.saturating_add(entry.encoding.item), column.range());
    have.start <= want.start && want.end <= have.end
}

/// The slot of a column.
pub(super) fn slot(column: &Column, candidates: Vec<Candidate>, selection: Selection) -> Slot {
    let Logical { scalar, kind, .. } = logical(&column.leaf, &[]);
    let (item, from, whole) = (column.leaf.size.into(), column.from.into(), column.whole.into());
    Slot { candidates, selection, item, from, whole, scalar: scalar as u64, kind }
}
