//! Plans listings: cells are grouped by the subchunk they lie in, so that each subchunk is read and decoded once.
//!
//! Visible blocks are resolved for the box around the cells, as for any read. Then the cells in each visible box are
//! looked up, and only blocks that hold some of them are planned.

use std::ops::Range;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::table::Subchunk;

use super::cells::{Cells, Picks, bytes, merged};
use super::coded::{self, Chains};
use super::piece::{StoredForm, SubchunkLocation, Unfit};
use super::{Block, Options, PlanError, Planner, ReadPlan, Slot, resolve_slots};
use crate::form::Form;
use crate::listing::{Leg, Listing, locate};
use crate::parts::SubchunkPart;
use crate::resolve::{Candidate, Resolved, Visible};

/// The visible boxes of the listings, and which cells lie in each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedCells {
    /// Per slot: visible boxes that hold some cell (in the enclosing box of the listing), and the number of
    /// cells they hold.
    pub resolved: Vec<Resolved>,
    /// Per slot and visible box: the cells of each leg in it.
    picked: Vec<Vec<Vec<Picked>>>,
}

/// The cells of one leg that lie in a box.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Picked {
    /// Positions of a progression.
    Interval(Range<u64>),
    /// Numbers of listed cells.
    Numbers(Vec<u32>),
}

impl Picked {
    fn count(&self) -> u64 {
        match self {
            Picked::Interval(range) => range.end - range.start,
            Picked::Numbers(numbers) => numbers.len() as u64,
        }
    }
}

/// Resolves which blocks are visible in each slot. A slot's selection is the enclosing box of the listing with the same
/// number.
///
/// A list holds fewer than 2^32 cells.
pub fn find(slots: &[Slot], listings: &[Listing]) -> Result<ListedCells, PlanError> {
    let mut found = ListedCells { resolved: resolve_slots(slots)?, picked: Vec::with_capacity(slots.len()) };
    for ((slot, listing), resolved) in slots.iter().zip(listings).zip(&mut found.resolved) {
        let mut boxes: Vec<([u64; MAX_NDIM], [u64; MAX_NDIM])> = Vec::with_capacity(resolved.visible.len());
        for visible in &resolved.visible {
            let (mut lo, mut hi) = (visible.lo, visible.hi);
            for (d, axis) in slot.selection.axes.iter().enumerate().take(MAX_NDIM) {
                (lo[d], hi[d]) = (lo[d].saturating_add(axis.start), hi[d].saturating_add(axis.start));
            }
            boxes.push((lo, hi));
        }
        let legs: Vec<Vec<Picked>> = listing.legs.iter().map(|leg| picked(leg, &boxes)).collect();
        let mut kept = Vec::new();
        let mut visible = Vec::new();
        resolved.covered = 0;
        let mut legs: Vec<_> = legs.into_iter().map(Vec::into_iter).collect();
        for shown in &resolved.visible {
            let here: Vec<Picked> = legs.iter_mut().filter_map(Iterator::next).collect();
            let cells = here.iter().fold(1u64, |cells, picked| cells.saturating_mul(picked.count()));
            if cells > 0 {
                resolved.covered = resolved.covered.saturating_add(cells);
                visible.push(*shown);
                kept.push(here);
            }
        }
        resolved.visible = visible;
        found.picked.push(kept);
    }
    Ok(found)
}

/// Per box, the cells of a leg in it.
fn picked(leg: &Leg, boxes: &[([u64; MAX_NDIM], [u64; MAX_NDIM])]) -> Vec<Picked> {
    match leg {
        Leg::Axis { axis, cells } => {
            boxes.iter().map(|(lo, hi)| Picked::Interval(cells.meeting(lo[*axis], hi[*axis]))).collect()
        }
        Leg::List { axes, places, .. } if axes.is_empty() => {
            let all: Vec<u32> = (0..places.len() as u32).collect();
            boxes.iter().map(|_| Picked::Numbers(all.clone())).collect()
        }
        Leg::List { axes, cells, .. } => {
            let along = |of: &[u64; MAX_NDIM]| axes.iter().map(|&axis| of[axis]).collect::<Vec<u64>>();
            let owned: Vec<_> = boxes.iter().map(|(lo, hi)| (along(lo), along(hi))).collect();
            let projected: Vec<_> = owned.iter().map(|(lo, hi)| (&lo[..], &hi[..])).collect();
            let mut out = vec![Picked::Numbers(Vec::new()); boxes.len()];
            for pairs in locate(cells, axes.len(), &projected).chunk_by(|a, b| a.0 == b.0) {
                let Some(place) = pairs.first().and_then(|pair| out.get_mut(pair.0 as usize)) else {
                    continue;
                };
                *place = Picked::Numbers(pairs.iter().map(|pair| pair.1).collect());
            }
            out
        }
    }
}

/// Plans the listings, each for the slot with its number. `found` is the result of [`find`]. `tables` gives, by slot
/// and candidate, the decoded table of each block that [`needed_tables`](super::needed_tables) names for it. `metas`
/// gives the metadata of a piece in a source if it is known.
pub fn plan_listings<'t, 'm>(
    slots: &[Slot],
    listings: &[Listing],
    found: &ListedCells,
    tables: impl Fn(usize, usize) -> &'t [Subchunk],
    metas: impl Fn(u32, &StoredPiece) -> Option<&'m [u8]>,
    options: &Options,
) -> Result<ReadPlan, PlanError> {
    let mut planner = Planner::new(options);
    let mut chains = Chains::default();
    let each = slots.iter().zip(listings).zip(found.resolved.iter().zip(&found.picked));
    for (number, ((slot, listing), (resolved, picked))) in each.enumerate() {
        planner.plan.fill.push(listing.cells() != Some(resolved.covered));
        let wanted = resolved.covered.saturating_mul(slot.item);
        planner.plan.wanted_bytes = planner.plan.wanted_bytes.saturating_add(wanted);
        let shown: Vec<(&Visible, &Vec<Picked>)> = resolved.visible.iter().zip(picked).collect();
        for visible in shown.chunk_by(|a, b| a.0.candidate == b.0.candidate) {
            let Some(candidate) = visible.first().map(|(visible, _)| visible.candidate) else { continue };
            let Some(Candidate { entry, .. }) = slot.candidates.get(candidate) else { continue };
            let fail = |unfit: Unfit| unfit.at(number, candidate);
            let stored = StoredForm::check(entry, slot).map_err(fail)?;
            let table = if entry.subchunks > 1 { tables(number, candidate) } else { &[] };
            stored.check_table(entry, table).map_err(fail)?;
            let form = &stored.form;
            let mut made: Vec<(SubchunkPart, Cells)> =
                visible.iter().flat_map(|(_, picked)| by_subchunk(entry, form, listing, picked)).collect();
            made.sort_by_key(|(part, _)| part.subchunk);
            planner.plan.blocks += 1;
            planner.plan.subchunks += made.chunk_by(|a, b| a.0.subchunk == b.0.subchunk).count();
            let block = Block { slot: number, candidate, entry, stored };
            let (mut before, alone) = (None, made.len() == 1);
            for (part, cells) in made {
                let listed = usize::try_from(part.subchunk).ok().and_then(|number| table.get(number));
                let stored = listed.map_or(SubchunkLocation::whole(entry.piece), SubchunkLocation::of);
                block.stored.check_place(&stored, &part).map_err(fail)?;
                let again = before.replace(part.subchunk) == Some(part.subchunk);
                let stats = listed.map_or(&entry.stats, |listed| &listed.stats);
                let shape = part.chunk_shape.get(..usize::from(entry.ndim)).unwrap_or_default();
                planner.lost = chains.loss(entry, (number, slot), shape, stats);
                let precision = options.precision.beside(&planner.lost);
                planner.precision = precision;
                if let Some(prefix) = stored.enough(precision) {
                    planner.add_prefix(&block, (part, Some(Box::new(cells))), stored, prefix);
                    continue;
                }
                let unit = block.stored.coded_unit(&stored.piece);
                if unit == 0 || !coded::pays(&stored, &part, Some(&cells), alone, (options, precision)) {
                    planner.add_cells(&block, part, cells, stored, again);
                    continue;
                }
                match metas(entry.source, &stored.piece) {
                    None => planner.add_unknown(&block, part, Some(Box::new(cells)), stored),
                    Some(meta) => {
                        let what = (&part, Some(&cells));
                        let asked = chains
                            .ask(entry, slot, what, &stored, meta, (options, precision))
                            .map_err(fail)?;
                        planner.add_coded(&block, (part, Some(Box::new(cells))), stored, again, asked);
                    }
                }
            }
        }
    }
    Ok(planner.finish())
}

impl Planner<'_> {
    /// Decides how the cells of one subchunk are read. `again` says that the previous cells were in the same piece.
    fn add_cells(
        &mut self,
        block: &Block<'_>,
        part: SubchunkPart,
        cells: Cells,
        place: SubchunkLocation,
        again: bool,
    ) {
        let piece = place.piece;
        let (gap, most) = (self.options.gap, self.options.max_request);
        let stored_len = piece.end() - piece.position;
        let (unit, room) = (block.stored.unit(&piece), block.stored.form.room);
        if unit == 0 || unit >= piece.length {
            return self.add_whole(block, part, Some(Box::new(cells)), place);
        }
        let groups = cells.clone().divided(room, gap.max(unit), most);
        let ranges: Vec<Range<u64>> =
            groups.iter().map(|group| bytes(group, room, unit, piece.length)).collect();
        let (read, requests) = merged(ranges.clone(), gap);
        let cost = read.saturating_add(piece.trailer).saturating_add((requests + 1).saturating_mul(gap));
        if stored_len <= most && stored_len.saturating_add(gap) <= cost {
            return self.add_whole(block, part, Some(Box::new(cells)), place);
        }
        let trailer = Some(self.trailer(block, &piece, again));
        for (group, range) in groups.into_iter().zip(ranges) {
            self.add_ranges(block, (part, Some(Box::new(group))), place, vec![range], trailer);
        }
    }
}

/// Cells of one leg in one row of subchunks.
struct Class {
    /// The contribution of the row to the number of the subchunk.
    subchunk: u64,
    /// (dimension, row, least and greatest cell inside the row).
    rows: Vec<(usize, u64, u64, u64)>,
    cells: Inside,
}

/// Cells inside a row of subchunks.
enum Inside {
    /// First cell along the one dimension, step, count, place.
    Run(u64, i64, u64, u64),
    /// Cells along the dimensions, one after the other, and their places.
    List(Vec<u64>, Vec<u64>),
}

/// The picked cells, by subchunk of a block. The entry was validated, and holds all of them.
fn by_subchunk(
    entry: &Entry,
    form: &Form,
    listing: &Listing,
    picked: &[Picked],
) -> Vec<(SubchunkPart, Cells)> {
    let ndim = usize::from(entry.ndim).min(MAX_NDIM);
    let mut stride = [0u64; MAX_NDIM];
    let mut grid = 1u64;
    for d in (0..ndim).rev() {
        stride[d] = grid;
        grid = grid.saturating_mul(entry.count[d].div_ceil(entry.cut[d].max(1)));
    }
    let classes: Vec<Vec<Class>> =
        listing.legs.iter().zip(picked).map(|(leg, picked)| classes(entry, &stride, leg, picked)).collect();
    let mut out = Vec::new();
    if classes.iter().any(Vec::is_empty) {
        return out;
    }
    let mut at = vec![0; classes.len()];
    loop {
        let chosen: Vec<&Class> = classes.iter().zip(&at).map(|(classes, &i)| &classes[i]).collect();
        out.push(joined(entry, form, &chosen));
        let Some(l) = (0..at.len()).rev().find(|&l| at[l] + 1 < classes[l].len()) else { return out };
        at[l] += 1;
        at[l + 1..].fill(0);
    }
}

fn classes(entry: &Entry, stride: &[u64; MAX_NDIM], leg: &Leg, picked: &Picked) -> Vec<Class> {
    let cut = |d: usize| entry.cut[d].max(1);
    let inner = |d: usize, cell: u64| cell.saturating_sub(entry.offset[d]);
    match (leg, picked) {
        (Leg::Axis { axis: d, cells }, Picked::Interval(range)) => {
            let (d, mut at) = (*d, range.start);
            let mut out = Vec::new();
            while at < range.end {
                let cell = inner(d, cells.cell(at));
                let row = cell / cut(d);
                let (from, to) = (row * cut(d), (row * cut(d)).saturating_add(cut(d)));
                let same = |position: u64| (from..to).contains(&inner(d, cells.cell(position)));
                let steps = cells.step.unsigned_abs().max(1);
                let room = if cells.step > 0 { to - 1 - cell } else { cell - from };
                let count = (room / steps).saturating_add(1).min(range.end - at);
                debug_assert!(same(at + count - 1));
                let last = inner(d, cells.cell(at + count - 1)) - from;
                let first = cell - from;
                out.push(Class {
                    subchunk: row.saturating_mul(stride[d]),
                    rows: vec![(d, row, first.min(last), first.max(last))],
                    cells: Inside::Run(first, cells.step, count, at),
                });
                at += count;
            }
            out
        }
        (Leg::List { axes, cells, places }, Picked::Numbers(numbers)) => {
            let width = axes.len();
            let coordinates = |k: u32| &cells[k as usize * width..][..width];
            let subchunk = |k: u32| {
                let along = axes.iter().zip(coordinates(k));
                along.fold(0u64, |sum, (&d, &cell)| {
                    sum.saturating_add((inner(d, cell) / cut(d)).saturating_mul(stride[d]))
                })
            };
            let mut keyed: Vec<(u64, u32)> = numbers.iter().map(|&k| (subchunk(k), k)).collect();
            keyed.sort_unstable();
            let class = |same: &[(u64, u32)]| {
                let (subchunk, first) = same.first().copied().unwrap_or_default();
                let mut rows: Vec<(usize, u64, u64, u64)> = Vec::with_capacity(width);
                for (&d, &cell) in axes.iter().zip(coordinates(first)) {
                    rows.push((d, inner(d, cell) / cut(d), u64::MAX, 0));
                }
                let mut inside = Vec::with_capacity(same.len() * width);
                for &(_, k) in same {
                    for (row, &cell) in rows.iter_mut().zip(coordinates(k)) {
                        let cell = inner(row.0, cell) % cut(row.0);
                        (row.2, row.3) = (row.2.min(cell), row.3.max(cell));
                        inside.push(cell);
                    }
                }
                let places = same.iter().map(|&(_, k)| places[k as usize]).collect();
                Class { subchunk, rows, cells: Inside::List(inside, places) }
            };
            keyed.chunk_by(|a, b| a.0 == b.0).map(class).collect()
        }
        _ => Vec::new(),
    }
}

/// One subchunk and its cells, from the row of each leg that it lies in.
fn joined(entry: &Entry, form: &Form, chosen: &[&Class]) -> (SubchunkPart, Cells) {
    let mut part = SubchunkPart {
        subchunk: 0,
        chunk_shape: [1; MAX_NDIM],
        chunk: [(0, 1, 1); MAX_NDIM],
        dest: [0; MAX_NDIM],
    };
    for class in chosen {
        part.subchunk = part.subchunk.saturating_add(class.subchunk);
        for &(d, row, least, greatest) in &class.rows {
            let cut = entry.cut[d].max(1);
            let rest = entry.count[d].saturating_sub(row.saturating_mul(cut));
            part.chunk_shape[d] = cut.min(rest).max(1);
            part.chunk[d] = (least, 1, greatest.saturating_sub(least).saturating_add(1));
        }
    }
    let mut stride = [0u64; MAX_NDIM];
    let mut cells = 1u64;
    // A curve is unrolled before its cells are placed.
    let rows = form.unrolled();
    let stored = if form.curve.is_some() { &rows } else { form };
    for d in stored.dims().rev() {
        stride[d] = cells;
        cells = cells.saturating_mul(part.chunk_shape[d]);
    }
    let legs = chosen.iter().map(|class| match &class.cells {
        Inside::Run(first, step, count, place) => {
            let along = class.rows.first().map_or(1, |row| stride[row.0]);
            Picks::Run {
                from: first.saturating_mul(along),
                step: if *count > 1 { step.saturating_mul(along as i64) } else { 0 },
                count: *count,
                place: *place,
            }
        }
        Inside::List(inside, places) => {
            let elements = |cell: &[u64]| {
                let along = cell.iter().zip(&class.rows);
                along.fold(0u64, |sum, (&cell, row)| sum.saturating_add(cell.saturating_mul(stride[row.0])))
            };
            let width = class.rows.len();
            let mut picks: Vec<(u64, u64)> = match width {
                0 => places.iter().map(|&place| (0, place)).collect(),
                _ => inside.chunks(width).map(elements).zip(places.iter().copied()).collect(),
            };
            picks.sort_unstable();
            Picks::List(picks)
        }
    });
    let cells = Cells { legs: legs.collect() };
    (part, cells)
}
