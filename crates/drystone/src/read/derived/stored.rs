//! The stored values of a derived variable, or statistics of them; shown only where they are current.
//!
//! Stored values record the snapshot from which they were computed. They are current while that snapshot has the
//! newest version of everything that they need: input cells with their halo, shapes, replaced steps. Other values are
//! computed, with the same bits.
//!
//! Invariants
//! - a stored value is shown only if computing it now would give the same value;
//! - each visible part of a stored block is current as a whole or not at all.

use drystone_format::derived::Kind;
use drystone_format::entry::Entry;
use drystone_plan::read_plan::{self, Slot};
use drystone_plan::resolve::Visible;
use drystone_plan::selection::{Axis, Selection};

use super::Computed;
use crate::Result;
use crate::read::Reading;
use crate::read::execute::Sources;
use crate::read::zones::nothing;

/// Computed blocks store the version from which they were computed in the number of the put, above these low bits.
const PUT_BITS: u32 = 24;
/// A tile with more stored blocks and voids is treated as one box.
const MOST_PIECES: usize = 256;

/// The visible part of a stored block in a selection, or a void: cells of which nothing is stored.
struct StoredPiece {
    at: Positions,
    cells: Selection,
    /// The version from which the block was computed; `None` for a void.
    since: Option<u64>,
}

/// A box of positions in a selection: first and last, exclusive.
pub(super) type Positions = (Vec<u64>, Vec<u64>);

/// A part of a selection.
pub(super) struct Shown {
    pub(super) at: Positions,
    /// Whether its stored values are current; otherwise its values are computed.
    pub(super) is_current: bool,
}

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
        let pieces = stored.pieces(step, cells, false).map_err(|e| self.reason(e))?;
        let Some(since) = oldest(&pieces) else { return Ok(None) };
        let changed = self.changed_at(&computed, step, cells).map_err(|e| self.reason(e))?;
        Ok((since >= changed).then_some(stored))
    }

    /// The stored values as a variable of its own, and the parts of the cells of a step that it holds. `None` if
    /// everything is to be computed: nothing is current, or so little that computing all at once is faster. If the
    /// process lacks a function, every current part counts.
    pub(super) fn shown(
        &self,
        computed: &Computed,
        step: u64,
        cells: &Selection,
    ) -> Result<Option<(Reading, Vec<Shown>)>> {
        let stored = self.as_stored();
        let pieces = stored.pieces(step, cells, true)?;
        if pieces.iter().all(|piece| piece.since.is_none()) {
            return Ok(None);
        }
        if let Some(since) = oldest(&pieces)
            && since >= self.changed_at(computed, step, cells)?
        {
            let at = (vec![0; cells.axes.len()], cells.shape());
            return Ok(Some((stored, vec![Shown { at, is_current: true }])));
        }
        if pieces.len() > MOST_PIECES {
            return Ok(None);
        }
        let (mut out, mut held) = (Vec::new(), 0);
        for piece in pieces {
            let is_current = match piece.since {
                None => false,
                Some(since) => since >= self.changed_at(computed, step, &piece.cells)?,
            };
            held += piece.cells.cells().filter(|_| is_current).unwrap_or(0);
            out.push(Shown { at: piece.at, is_current });
        }
        let enough = if computed.lacks_a_function() { 1 } else { cells.cells().unwrap_or(0) / 2 };
        Ok((held >= enough).then_some((stored, out)))
    }

    /// The visible stored blocks in the cells of a step, and the voids between them. Together they are these cells.
    /// Without `voids`, a cell of which nothing is stored makes the answer empty.
    fn pieces(&self, step: u64, cells: &Selection, voids: bool) -> Result<Vec<StoredPiece>> {
        let slots = self.sought(&Axis { start: step, step: 1, count: 1 }, cells)?.slots;
        let mut slots = read_plan::offered(&slots, 0);
        if !matches!(&slots[..], [slot] if !slot.candidates.is_empty()) {
            return Ok(Vec::new());
        }
        let sources = Sources::of(self);
        let resolve =
            |slots: &[Slot]| read_plan::resolve_slots(slots).map_err(|e| self.plan_error(slots, &sources, e));
        let mut found = resolve(&slots)?;
        let covered = found.first().map_or(0, |resolved| resolved.covered);
        let mut blocks_from = 0;
        if covered < cells.cells().unwrap_or(u64::MAX) {
            if !voids {
                return Ok(Vec::new());
            }
            slots.iter_mut().for_each(|slot| slot.candidates.insert(0, nothing(&self.variable.shape)));
            blocks_from = 1;
            found = resolve(&slots)?;
        }
        let (Some(slot), Some(resolved)) = (slots.first(), found.first()) else { return Ok(Vec::new()) };
        let ndim = cells.axes.len();
        let piece = |v: &Visible| {
            let (lo, hi) = (v.lo[..ndim].to_vec(), v.hi[..ndim].to_vec());
            let block = slot.candidates.get(v.candidate).filter(|_| v.candidate >= blocks_from);
            StoredPiece {
                cells: within(cells, &lo, &hi),
                at: (lo, hi),
                since: block.map(|candidate| computed_from(&candidate.entry)),
            }
        };
        Ok(resolved.visible.iter().map(piece).collect())
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

    /// Boxes of a step (without the step axis) whose values should be stored because they are not current, in groups
    /// that lie together. A group has at most `most` cells, all disjoint. The caller computes all boxes of a group or
    /// none: cells without a stored value in a tile that has some cannot have one until their inputs change, and are
    /// offered again only with `voids`.
    pub(crate) fn outdated(&self, step: u64, most: u64, voids: bool) -> Result<Vec<Vec<Selection>>> {
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
                let Some((_, tile)) = tiles.get(number) else { break };
                let group = self.outdated_in(&computed, step, tile, voids)?;
                if !group.is_empty() {
                    out.push(group);
                }
            }
        }
        Ok(out)
    }

    /// The boxes of a tile that are not current: the tile itself, or some of the stored blocks and voids in it.
    fn outdated_in(
        &self,
        computed: &Computed,
        step: u64,
        tile: Selection,
        voids: bool,
    ) -> Result<Vec<Selection>> {
        let pieces = self.as_stored().pieces(step, &tile, true)?;
        let stored = || pieces.iter().filter_map(|piece| piece.since);
        let (Some(first), Some(newest)) = (stored().min(), stored().max()) else { return Ok(vec![tile]) };
        let is_settled = !voids || oldest(&pieces).is_some() || pieces.len() > MOST_PIECES;
        if is_settled && first >= self.changed_at(computed, step, &tile)? {
            return Ok(Vec::new());
        }
        if pieces.len() > MOST_PIECES {
            return Ok(vec![tile]);
        }
        let mut out = Vec::new();
        for piece in &pieces {
            let outdated = match piece.since {
                None if voids => true,
                since => since.unwrap_or(newest) < self.changed_at(computed, step, &piece.cells)?,
            };
            if outdated {
                out.push(piece.cells.clone());
            }
        }
        Ok(if out.len() == pieces.len() { vec![tile] } else { out })
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

/// The cells at the positions `lo..hi` along each axis of a selection.
fn within(cells: &Selection, lo: &[u64], hi: &[u64]) -> Selection {
    let along = |((axis, lo), hi): ((&Axis, &u64), &u64)| Axis {
        start: axis.cell(*lo),
        step: axis.step,
        count: hi - lo,
    };
    Selection { axes: cells.axes.iter().zip(lo).zip(hi).map(along).collect() }
}

/// The oldest version from which a stored block was computed; `None` with voids.
fn oldest(pieces: &[StoredPiece]) -> Option<u64> {
    pieces.iter().map(|piece| piece.since).min().flatten()
}

fn boxed(lo: &[u64], hi: &[u64]) -> Selection {
    let counts: Vec<u64> = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).collect();
    Selection::boxed(lo, &counts)
}
