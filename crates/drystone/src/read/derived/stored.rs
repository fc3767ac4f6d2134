//! The stored values of a derived variable, or statistics of them; shown only where they are current.
//!
//! Stored values record the snapshot from which they were computed. They are current while that snapshot has the
//! newest version of everything that they need: input cells with their halo, shapes, replaced steps. Other values are
//! computed, with the same bits.
//!
//! Invariants
//! - a stored value is shown only if computing it now would give the same value;
//! - a box is current as a whole or not at all.

use drystone_format::derived::Kind;
use drystone_format::entry::Entry;
use drystone_plan::read_plan;
use drystone_plan::selection::{Axis, Selection};

use super::Computed;
use crate::Result;
use crate::read::Reading;
use crate::read::execute::Sources;

/// Computed blocks store the version from which they were computed in the number of the put, above these low bits.
const PUT_BITS: u32 = 24;

/// The first put number of blocks that are computed from a snapshot.
pub(crate) fn first_put(version: u64) -> u64 {
    version << PUT_BITS
}

/// The version from which a block of a derived variable was computed.
fn computed_from(entry: &Entry) -> u64 {
    entry.put >> PUT_BITS
}

impl Reading {
    /// The kind of stored values or statistics; `None` for a variable that is not derived, or is derived and stores
    /// nothing.
    pub(crate) fn stored_kind(&self) -> Option<Kind> {
        self.variable.derived.as_ref().map(|derived| derived.kind).filter(|kind| *kind != Kind::Virtual)
    }

    /// The same variable as if it held its own values: the stored ones, current or not.
    pub(crate) fn as_stored(&self) -> Reading {
        let mut variable = (*self.variable).clone();
        variable.derived = None;
        let mut reading = self.clone().from_log();
        reading.variable = std::sync::Arc::new(variable);
        reading.computed = std::sync::OnceLock::new();
        reading.noted = false;
        reading
    }

    /// The stored values as a variable of its own, if all visible stored values in the cells of a step (without the
    /// step axis) are current.
    pub(crate) fn current(&self, step: u64, cells: &Selection) -> Result<Option<Reading>> {
        if self.stored_kind().is_none() || cells.is_empty() {
            return Ok(None);
        }
        let Some(computed) = self.computed()? else { return Ok(None) };
        let stored = self.as_stored();
        let Some(since) = stored.shown_since(step, cells)? else { return Ok(None) };
        let changed = self.changed_at(&computed, step, cells)?;
        Ok((since >= changed).then_some(stored))
    }

    /// The oldest version from which a visible value in the cells was computed; `None` if some cells have none.
    fn shown_since(&self, step: u64, cells: &Selection) -> Result<Option<u64>> {
        let slots = self.sought(&Axis { start: step, step: 1, count: 1 }, cells)?.slots;
        let mut slots = read_plan::offered(&slots, 0);
        let [slot] = &mut slots[..] else { return Ok(None) };
        if slot.candidates.is_empty() {
            return Ok(None);
        }
        let wanted = cells.cells().unwrap_or(u64::MAX);
        let sources = Sources::of(self);
        let found = read_plan::resolve_slots(&slots).map_err(|e| self.plan_error(&slots, &sources, e))?;
        let (Some(slot), Some(resolved)) = (slots.first(), found.first()) else { return Ok(None) };
        if resolved.covered < wanted {
            return Ok(None);
        }
        let shown = resolved.visible.iter().filter_map(|v| slot.candidates.get(v.candidate));
        Ok(shown.map(|candidate| computed_from(&candidate.entry)).min())
    }

    /// The last version that changed the values of these cells of a step.
    fn changed_at(&self, computed: &Computed, step: u64, cells: &Selection) -> Result<u64> {
        let mut last = self.shape_changed(step);
        for (input, wanted) in self.needed(computed, cells) {
            let own = match input.computed()? {
                Some(nested) => input.changed_at(&nested, step, &wanted)?,
                None => input.put_at(step, &wanted)?,
            };
            last = last.max(own);
        }
        // Values that use the index of a cell depend on the whole axis.
        let is_coordinate = |input: &&Reading| input.variable.shape.len() == 1;
        for input in computed.inputs.iter().flatten().filter(is_coordinate) {
            let whole = Selection::all(&input.variable.shape);
            let own = match input.computed()? {
                Some(nested) => input.changed_at(&nested, step, &whole)?,
                None => input.put_at(step, &whole)?,
            };
            last = last.max(own);
        }
        Ok(last)
    }

    /// The last version that put something into these cells of a step, or changed the shape.
    fn put_at(&self, step: u64, cells: &Selection) -> Result<u64> {
        let mut last = self.shape_changed(step);
        if cells.is_empty() {
            return Ok(last);
        }
        let log = self.clone().from_log();
        let found = log.entries(&Axis { start: step, step: 1, count: 1 }, cells.bounds())?;
        for entry in found.into_values().flatten() {
            last = last.max(entry.commit);
        }
        Ok(last)
    }

    /// The last version that shrank the shape, or replaced the step.
    fn shape_changed(&self, step: u64) -> u64 {
        let cut = self.variable.clips.iter().map(|(commit, _)| *commit).max().unwrap_or(0);
        match self.variable.steps {
            true => cut.max(self.snapshot.steps.hidden_below(step)),
            false => cut,
        }
    }

    /// Disjoint boxes of a step (without the step axis) whose values should be stored: those that are not current.
    /// Each has at most `most` cells.
    pub(crate) fn outdated(&self, step: u64, most: u64) -> Result<Vec<Selection>> {
        let Some(computed) = self.computed()? else { return Ok(Vec::new()) };
        let whole = Selection::all(&self.variable.shape);
        if whole.is_empty() {
            return Ok(Vec::new());
        }
        let mut boxes: Vec<Selection> = Vec::new();
        let alike = self.alike(&computed, step, &whole)?;
        match alike.filter(|(input, _)| computed.has_one_component() && !input.is_derived()) {
            // The boxes are the blocks of an input, so that one writer's values are computed together.
            Some((input, _)) => {
                let written = input.written_boxes(step, &whole)?;
                boxes.extend(written.iter().map(|(lo, hi)| boxed(lo, hi)));
            }
            None => boxes.push(whole),
        }
        let mut out = Vec::new();
        for one in boxes {
            let tiles = drystone_plan::tiles::Tiles::new(&one, &[], most);
            for number in 0..tiles.len() {
                let Some((_, part)) = tiles.get(number) else { break };
                if self.current(step, &part)?.is_none() {
                    out.push(part);
                }
            }
        }
        Ok(out)
    }

    /// Disjoint boxes of cells that were written.
    fn written_boxes(&self, step: u64, cells: &Selection) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        let log = self.clone().from_log();
        let slots = log.sought(&Axis { start: step, step: 1, count: 1 }, cells)?.slots;
        let slots = read_plan::offered(&slots, 0);
        let sources = Sources::of(&log);
        let found = read_plan::resolve_slots(&slots).map_err(|e| log.plan_error(&slots, &sources, e))?;
        let ndim = cells.axes.len();
        let all = found.first().map(|resolved| resolved.visible.as_slice()).unwrap_or_default();
        Ok(all.iter().map(|v| (v.lo[..ndim].to_vec(), v.hi[..ndim].to_vec())).collect())
    }
}

fn boxed(lo: &[u64], hi: &[u64]) -> Selection {
    let counts: Vec<u64> = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).collect();
    Selection::boxed(lo, &counts)
}
