//! Reading derived variables tile by tile, each computed from the cells of the inputs that it needs.
//!
//! ```text
//! mod       opens the inputs, cuts the selection into tiles, distributes them to threads
//! listed    listed cells: boxes around neighbouring ones
//! evaluate  one box: the definition, and the values of its inputs by ordinary reads
//! order     which tile is next, and which inputs are hinted before
//! stored    stored values, and where they are current
//! memory    values as memory
//! ```
//!
//! Invariants
//! - a value depends on its cell alone, whichever selection, tile or thread computes it;
//! - a cell counts as written if all cells that its value needs were written; others read as the fill value;
//! - memory holds only the tiles being computed.

mod evaluate;
mod listed;
mod memory;
mod order;
mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drystone_copy::{Dim, StridedCopy};
use drystone_expression::{Array, Called, Program, Spare, Type, Values};
use drystone_format::derived::Kind;
use drystone_function::Functions;
use drystone_plan::listing::Listing;
use drystone_plan::read_plan::ReadPlan;
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tiles::Grain;
use drystone_transform::{Bound, Precision};

use super::{ReadReport, Reading};
use crate::base::array::Target;
use crate::base::buffer_pool::Lent;
use crate::base::cpus::threads;
use crate::base::sync::lock;
use crate::schema::derived::{self, Origin, expression_edge};
use crate::{Error, Result};
use evaluate::Evaluator;
use order::{Order, Piece, Tile};
pub(crate) use stored::first_put;

/// Bytes of values being computed in all threads together.
const ROOM: u64 = 24 << 20;
/// The most steps for which an explanation checks whether their stored values are current.
const MOST_ASKED: u64 = 1 << 10;
/// The same limit for a far store, where each tile takes many requests. Neighbouring tiles read shared cells twice,
/// and every tile waits for round trips.
const FAR_ROOM: u64 = 128 << 20;
/// The fewest and the most cells of a tile.
const LEAST: u64 = 1 << 12;
const MOST: u64 = 1 << 19;
/// The most cells of a tile whose values need neighbours. The larger a tile, the fewer cells are read twice.
const MOST_WITH_HALO: u64 = 1 << 20;

/// A definition with the readings of its inputs.
pub(super) struct Computed {
    derivation: derived::Derivation,
    /// The reading for each name of the tree; `None` for names that are not variables.
    inputs: Vec<Option<Reading>>,
    /// The definitions of inputs that are themselves derived.
    nested: Vec<Option<Arc<Computed>>>,
    /// Whether each value depends on its own cell only.
    pointwise: bool,
    bytes_per_cell: u64,
}

/// A name in a program: a variable, or, without a reading, the index of the cell along an axis or the step.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) dtype: Type,
    /// For each dimension, its axis in the result.
    pub(crate) axes: Vec<usize>,
    pub(crate) reading: Option<Reading>,
}

/// The definition of a derived variable, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The expression, as it was given.
    pub text: String,
    /// The kind: which values are stored. "virtual", "bounds" or "stored".
    pub kind: &'static str,
    /// How cells beyond the edge of the domain are treated.
    pub edge: &'static str,
    /// The names of the inputs in the expression, and their current paths; `None` for a deleted one.
    pub inputs: Vec<(String, Option<String>)>,
}

impl Reading {
    /// The definition of a derived variable; `None` for other variables.
    pub fn derived(&self) -> Option<Derivation> {
        let derived = self.variable.derived.as_deref()?;
        let schema = &self.snapshot.schema;
        let path = |id: u32| schema.named().find(|(_, v)| v.id == id).map(|(path, _)| path.to_owned());
        let inputs = derived.inputs.iter().map(|input| (input.name.clone(), path(input.variable))).collect();
        let (kind, edge) = (derived.kind.name(), expression_edge(derived.edge).name());
        Some(Derivation { text: derived.text.clone(), kind, edge, inputs })
    }

    /// A function that this process does not have, and without which no value can be read; `None` for variables whose
    /// values are stored, and those that cannot be computed for other reasons.
    pub fn lacking(&self) -> Option<String> {
        let derived = self.variable.derived.as_deref()?;
        derived::Derivation::lacking(&self.snapshot.schema, &self.path, derived).ok().flatten()
    }

    /// The reason why the values of a derived variable cannot be computed, in any process; `None` if they can.
    pub fn unfit(&self) -> Option<String> {
        let derived = self.variable.derived.as_deref()?;
        let checked = derived::Derivation::check(&self.snapshot.schema, &self.path, derived);
        checked.err().map(|why| why.to_string())
    }

    /// Number of components of a value; they are the last axis if there are several.
    pub(crate) fn components(&self) -> Result<u64> {
        Ok(self.computed()?.map_or(1, |computed| computed.derivation.field.components() as u64))
    }

    /// Whether the variable's values are computed.
    pub(crate) fn is_derived(&self) -> bool {
        self.variable.derived.is_some()
    }

    /// The definition, ready to be evaluated; `None` for a variable that is not derived.
    pub(super) fn computed(&self) -> Result<Option<Arc<Computed>>> {
        let Some(definition) = self.variable.derived.as_deref() else { return Ok(None) };
        if let Some(known) = self.computed.get() {
            return Ok(Some(known.clone()));
        }
        let schema = &self.snapshot.schema;
        if schema.variables.get(&self.variable.id).is_none_or(|v| v.uid != self.variable.uid) {
            return Err(Error::invalid(format!(
                "\"{}\" is derived in a batch that has not ended: end it, then read",
                self.path
            )));
        }
        let derivation = derived::Derivation::of(schema, &self.path, definition)?;
        derivation
            .field
            .check_extents(&derivation.shape)
            .map_err(|wrong| Error::invalid(format!("\"{}\", which is derived: {wrong}", self.path)))?;
        let (mut inputs, mut nested) = (Vec::new(), Vec::new());
        for origin in &derivation.origins {
            let Origin::Variable { id, member, .. } = origin else {
                inputs.push(None);
                nested.push(None);
                continue;
            };
            let name = definition.inputs.iter().find(|input| input.variable == *id).map(|input| &input.name);
            let reading = self.by_id(*id, name.map_or("", String::as_str), member.as_deref())?;
            nested.push(reading.computed()?);
            inputs.push(Some(reading));
        }
        let all = nested.iter().flatten();
        let pointwise = !derivation.field.reaches()
            && !derivation.field.reduces()
            && all.clone().all(|computed| computed.pointwise);
        let bytes_per_cell = all.fold(derivation.field.bytes_per_cell(), |bytes, n| bytes + n.bytes_per_cell);
        let made = Arc::new(Computed { derivation, inputs, nested, pointwise, bytes_per_cell });
        Ok(Some(self.computed.get_or_init(|| made).clone()))
    }

    /// A variable of the same snapshot by its id, whatever its current path.
    fn by_id(&self, id: u32, name: &str, field: Option<&str>) -> Result<Reading> {
        let schema = &self.snapshot.schema;
        let path = match schema.resolve(name) {
            Some(variable) if variable.id == id => name,
            _ => schema.named().find(|(_, variable)| variable.id == id).map_or(name, |(path, _)| path),
        };
        let Some(variable) = schema.variables.get(&id) else {
            return Err(Error::not_found(format!("variable {id} does not exist")));
        };
        let mut reading =
            Reading::open(self.inner.clone(), self.snapshot.clone(), path, variable.clone(), field)?;
        reading.noted = false;
        reading.programs = self.programs;
        Ok(reading)
    }

    /// Refuses operations that only stored values support.
    pub(super) fn require_stored(&self, what: &str) -> Result<()> {
        match &self.variable.derived {
            None => Ok(()),
            Some(derived) => Err(Error::invalid(format!(
                "\"{}\" is derived ({}): it has no {what}; its inputs may have them",
                self.path, derived.text
            ))),
        }
    }

    /// Reads a box of computed values.
    pub(super) fn read_computed(
        &self,
        computed: &Computed,
        selection: &Selection,
        out: &Target<'_>,
        mask: Option<&Target<'_>>,
    ) -> Result<ReadReport> {
        let (steps, cells) = self.split(selection);
        let lines = self.cut(computed, steps.cell(0), &cells)?;
        let near = self.inner.window().is_none();
        let order = Order::new(steps, &cells, lines, computed.input_bytes(), near);
        let shared = std::sync::Mutex::new((ReadReport::default(), None::<Error>));
        let stop = AtomicBool::new(false);
        let many = order.at_least(self.tiles_at_once(computed));
        let holds_values = self.stored_kind() == Some(Kind::Stored);
        let work = || {
            let mut at_step: Option<(u64, Evaluator<'_>)> = None;
            let (mut report, mut spare) = (ReadReport::default(), Lent::<Spare>::take());
            let mut act = || -> Result<()> {
                while let Some(mut tile) = order.take().filter(|_| !stop.load(Ordering::Relaxed)) {
                    let step = steps.cell(tile.row);
                    let announced = std::mem::take(&mut tile.announced);
                    let found = if holds_values { self.shown(computed, step, &tile.cells)? } else { None };
                    let (stored, parts) = found.unzip();
                    let mut rest = vec![];
                    match (&stored, parts) {
                        (Some(stored), Some(parts)) => {
                            for part in parts {
                                let tile = tile.at(&part.at.0, &part.at.1);
                                match part.is_current {
                                    true => {
                                        report.join(&self.stored_tile(computed, stored, step, &tile, out)?)
                                    }
                                    false => rest.push(tile),
                                }
                            }
                        }
                        _ => rest.push(tile),
                    }
                    if rest.is_empty() {
                        continue;
                    }
                    for (step, cells) in announced {
                        self.announce_inputs(computed, step, &cells);
                    }
                    if at_step.as_ref().is_none_or(|(at, _)| *at != step) {
                        let selected = computed.pointwise.then_some(cells.axes.as_slice());
                        at_step = Some((step, Evaluator::new(computed, step, selected, holds_values)?));
                    }
                    let Some((_, evaluator)) = &mut at_step else { return Ok(()) };
                    for tile in rest {
                        self.tile(computed, evaluator, &tile, out, mask, &mut spare)?;
                        report.join(&evaluator.take_report());
                    }
                }
                Ok(())
            };
            let done = act();
            let mut shared = lock(&shared);
            shared.0.join(&report);
            if let Err(error) = done {
                stop.store(true, Ordering::Relaxed);
                shared.1.get_or_insert(error);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..many {
                scope.spawn(work);
            }
            work();
        });
        let (mut report, error) = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(error) = error {
            return Err(error);
        }
        if report.bound != Bound::EXACT {
            report.bound = Bound::UNKNOWN;
        }
        Ok(report)
    }

    /// The number of tiles that are computed at once, one per thread.
    fn tiles_at_once(&self, computed: &Computed) -> u64 {
        // Reductions of all cells are computed once.
        if computed.reduces() { 1 } else { threads() as u64 }
    }

    /// The lines along which the inputs are cut, and the most cells of a tile.
    fn cut(&self, computed: &Computed, step: u64, cells: &Selection) -> Result<(Vec<Grain>, u64)> {
        let many = self.tiles_at_once(computed);
        let (room, greatest) = match self.inner.window() {
            Some(_) => (FAR_ROOM, u64::MAX),
            None if computed.pointwise => (ROOM, MOST),
            None => (ROOM, MOST_WITH_HALO),
        };
        let mut most = (room / many / computed.bytes_per_cell.max(1)).clamp(LEAST, greatest);
        // Components are cells of the result that share their input cells.
        most = most.saturating_mul(computed.derivation.field.components() as u64);
        let mut grain = Vec::new();
        if let Some((input, wanted)) = self.alike(computed, step, cells)? {
            let (found, largest) = input.grain(&wanted)?;
            grain = found.into_iter().skip(usize::from(input.variable.steps)).collect();
            // A subchunk that can only be decoded whole is decoded once.
            if let Some(cells) = largest {
                most = most.max(cells);
            }
        }
        if !computed.pointwise {
            // A strided box computes the cells in between as well.
            let between = cells.axes.iter().map(|axis| axis.step.unsigned_abs().max(1));
            most = (most / between.fold(1, u64::saturating_mul)).max(1);
        }
        Ok((grain, most))
    }

    /// An input whose dimensions equal those of the result without its components, and the part of it that is read.
    /// `None` if there is none.
    fn alike(
        &self,
        computed: &Computed,
        step: u64,
        cells: &Selection,
    ) -> Result<Option<(Reading, Selection)>> {
        let derivation = &computed.derivation;
        for (origin, input) in derivation.origins.iter().zip(&computed.inputs) {
            let (Origin::Variable { axes, .. }, Some(input)) = (origin, input) else { continue };
            if axes != derivation.field.axes() || input.shape().contains(&0) {
                continue;
            }
            // Components form a last axis that no input has.
            let mut wanted = Selection { axes: cells.axes.iter().take(axes.len()).copied().collect() };
            if input.variable.steps {
                wanted.axes.insert(0, Axis { start: step, step: 1, count: 1 });
            }
            return Ok(Some((input.clone(), wanted)));
        }
        Ok(None)
    }

    /// The input that is cut like the result, for a selection that includes the step axis.
    pub(super) fn alike_whole(&self, selection: &Selection) -> Result<Option<(Reading, Selection)>> {
        let Some(computed) = self.computed()?.filter(|computed| computed.has_one_component()) else {
            return Ok(None);
        };
        let (steps, cells) = self.split(selection);
        let Some((input, mut wanted)) = self.alike(&computed, steps.start, &cells)? else { return Ok(None) };
        if let Some(first) = wanted.axes.first_mut().filter(|_| input.variable.steps) {
            *first = steps;
        }
        Ok(Some((input, wanted)))
    }

    /// Computes one tile and copies it to its place.
    fn tile(
        &self,
        computed: &Computed,
        evaluator: &mut Evaluator<'_>,
        tile: &Tile,
        out: &Target<'_>,
        mask: Option<&Target<'_>>,
        spare: &mut Spare,
    ) -> Result<()> {
        let (place, part) = (&tile.place, &tile.cells);
        let (mut lo, mut hi) = (place.to_vec(), place.to_vec());
        for (d, axis) in part.axes.iter().enumerate() {
            if computed.pointwise {
                hi[d] = place[d] + axis.count;
                continue;
            }
            let ends = [axis.start, axis.cell(axis.count.saturating_sub(1))];
            (lo[d], hi[d]) = (ends[0].min(ends[1]), ends[0].max(ends[1]) + 1);
        }
        evaluator.in_parts((&lo, &hi), spare, &mut |lo, hi, array| {
            let shape: Vec<u64> = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).collect();
            let strides = memory::dense(&shape);
            let selected = computed.pointwise;
            let part = if selected { tile.positions(lo, &shape) } else { tile.within(lo, hi) };
            self.filled(array);
            let (bytes, _) = memory::bytes(&array.values);
            self.place(selected, bytes, (lo, &strides), &part, out)?;
            if let (Some(mask), Some(known)) = (mask, &array.known) {
                self.place(selected, known, (lo, &strides), &part, mask)?;
            }
            Ok(())
        })
    }

    /// Reads one tile of stored values and copies it to its place.
    fn stored_tile(
        &self,
        computed: &Computed,
        stored: &Reading,
        step: u64,
        tile: &Tile,
        out: &Target<'_>,
    ) -> Result<ReadReport> {
        let part = &tile.cells;
        let shape = part.shape();
        let strides = memory::dense(&shape);
        let count = shape.iter().product::<u64>() as usize;
        let mut values = Values::new(computed.derivation.field.dtype(), count);
        let mut selection = part.clone();
        let (mut own_shape, mut own_strides) = (shape.clone(), strides.clone());
        if self.variable.steps {
            selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
            own_shape.insert(0, 1);
            own_strides.insert(0, 1);
        }
        own_strides.iter_mut().zip(&own_shape).filter(|(_, n)| **n == 1).for_each(|(stride, _)| *stride = 1);
        let target = memory::target(&mut values, &own_shape, &own_strides)?;
        let report = stored.read_box(&selection, &target)?;
        drop(target);
        let (bytes, _) = memory::bytes(&values);
        self.place(true, bytes, (&[], &strides), &tile.whole(), out)?;
        Ok(report)
    }

    /// Copies the cells of a part, which are dense from `lo`, to their places in the target. `selected`: the part
    /// consists only of cells of the selection.
    fn place(
        &self,
        selected: bool,
        bytes: &[u8],
        (lo, strides): (&[u64], &[u64]),
        part: &Piece,
        out: &Target<'_>,
    ) -> Result<()> {
        let (mut from, mut dims) = (0, Vec::with_capacity(strides.len()));
        let skip = usize::from(self.variable.steps);
        let mut to = out.start() as i64;
        if skip == 1 {
            to += out.strides()[0] * part.row as i64;
        }
        let item = out.item() as u64;
        for (d, axis) in part.cells.axes.iter().enumerate() {
            let (along, first) = if selected { (1, 0) } else { (axis.step, axis.start - lo[d]) };
            from += first * strides[d] * item;
            let own = out.strides()[d + skip];
            to += own * part.place[d] as i64;
            dims.push(Dim::new(axis.count, along * (strides[d] * item) as i64, own));
        }
        let copy =
            StridedCopy::new(from, to as u64, out.item(), dims).map_err(|e| Error::invalid(e.to_string()))?;
        let (base, len) = out.raw();
        // SAFETY: this read borrows the target exclusively, and tiles are disjoint cells of it; the copy checks its
        // bounds.
        let done = unsafe { copy.run_raw(bytes.as_ptr(), bytes.len(), base, len) };
        done.map_err(|e| Error::invalid(e.to_string()))
    }

    /// Writes the fill value over unknown values, and normalises truth values to 0 or 1.
    pub(super) fn filled(&self, array: &mut Array) {
        if let Values::Bool(values) = &mut array.values {
            values.iter_mut().for_each(|value| *value = u8::from(*value != 0));
        }
        let Some(known) = &array.known else { return };
        let fill = self.fill_bytes();
        let (bytes, item) = memory::bytes_mut(&mut array.values);
        if fill.len() != item {
            return;
        }
        for (value, _) in bytes.chunks_exact_mut(item).zip(known).filter(|(_, known)| **known == 0) {
            value.copy_from_slice(&fill);
        }
    }

    /// Reads a box of computed values, and a byte per cell in row-major order that says whether it is known. `None`:
    /// all are.
    pub(crate) fn read_known(
        &self,
        selection: &Selection,
        out: &Target<'_>,
    ) -> Result<(ReadReport, Option<Vec<u8>>)> {
        self.check_read(selection, out)?;
        let Some(computed) = self.computed()?.filter(|_| !selection.is_empty()) else {
            return Ok((ReadReport::default(), None));
        };
        let shape = selection.shape();
        let mut known = vec![1; shape.iter().product::<u64>() as usize];
        let mask = Target::dense(&mut known, &shape, 1)?;
        let report =
            self.read_computed(&computed, selection, out, Some(&mask)).map_err(|e| self.reason(e))?;
        Ok((report, known.contains(&0).then_some(known)))
    }

    /// For each listed cell, a byte that says whether it is known; `None`: all are.
    pub(crate) fn known_at(&self, listing: &Listing) -> Result<Option<Vec<u8>>> {
        let Some(computed) = self.computed()?.filter(|_| !listing.is_empty()) else { return Ok(None) };
        let (shape, item) = (listing.shape(), self.item as usize);
        let cells = shape.iter().product::<u64>() as usize;
        let (mut values, mut known) = (vec![0; cells * item], vec![1; cells]);
        let out = Target::dense(&mut values, &shape, item)?;
        let mask = Target::dense(&mut known, &shape, 1)?;
        self.read_computed_cells(&computed, listing, &out, Some(&mask)).map_err(|e| self.reason(e))?;
        Ok(known.contains(&0).then_some(known))
    }

    /// Whether cells of a step in a selection (without the step axis) may be unknown.
    pub(crate) fn may_be_unknown(&self, step: u64, cells: &Selection) -> Result<bool> {
        let Some(computed) = self.computed()? else {
            return Ok(!cells.is_empty() && !self.voids(step, cells)?.is_empty());
        };
        if cells.is_empty() {
            return Ok(false);
        }
        if computed.derivation.field.edge() == drystone_expression::Edge::Nan
            && computed.derivation.field.reaches()
        {
            return Ok(true);
        }
        for (input, wanted) in self.needed(&computed, cells) {
            if input.may_be_unknown(step, &wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The program and its inputs in order, if each value depends on its own cell only.
    pub(crate) fn parts(&self) -> Result<Option<(Program, Vec<Part>)>> {
        let Some(computed) = self.computed()? else { return Ok(None) };
        let derivation = &computed.derivation;
        let Some((program, names)) = derivation.field.pointwise() else { return Ok(None) };
        let part = |name: usize| {
            let (reading, axes) = match &derivation.origins[name] {
                Origin::Variable { axes, .. } => (computed.inputs[name].clone(), axes.clone()),
                Origin::Place(axis) => (None, vec![*axis]),
                Origin::Step | Origin::Dimension => (None, Vec::new()),
            };
            let spelt = reading.as_ref().map_or_else(String::new, |reading| reading.path.clone());
            Part { name: spelt, dtype: derivation.types[name], axes, reading }
        };
        Ok(Some((program.clone(), names.into_iter().map(part).collect())))
    }

    /// The part of each input that a selection needs, without step axes.
    fn needed<'c>(&self, computed: &'c Computed, cells: &Selection) -> Vec<(&'c Reading, Selection)> {
        let derivation = &computed.derivation;
        let (mut lo, mut hi, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for axis in cells.axes.iter().take(derivation.field.axes().len()) {
            let ends = [axis.start, axis.cell(axis.count.saturating_sub(1))];
            lo.push(ends[0].min(ends[1]));
            hi.push(ends[0].max(ends[1]) + 1);
        }
        for reach in derivation.field.reach(&lo, &hi, &derivation.shape) {
            let (Origin::Variable { axes, .. }, Some(input)) =
                (&derivation.origins[reach.name], &computed.inputs[reach.name])
            else {
                continue;
            };
            let along = |axis: &usize| {
                let at = reach.axes.iter().position(|other| other == axis).unwrap_or_default();
                let own = derivation.field.axes().iter().position(|other| other == axis);
                match own.filter(|_| computed.pointwise) {
                    Some(own) => cells.axes[own],
                    None => Axis { start: reach.lo[at], step: 1, count: reach.hi[at] - reach.lo[at] },
                }
            };
            out.push((input, Selection { axes: axes.iter().map(along).collect() }));
        }
        out
    }

    /// The plans of the reads of the inputs for a selection.
    pub(super) fn explain_computed(&self, computed: &Computed, selection: &Selection) -> Result<ReadPlan> {
        let (steps, cells) = self.split(selection);
        if self.stored_kind() == Some(Kind::Stored) {
            let current = |n| self.current(steps.cell(n), &cells);
            let mut all = (0..steps.count.min(MOST_ASKED)).map(current);
            if let Some(stored) = all.next().transpose()?.flatten()
                && steps.count <= MOST_ASKED
                && all.all(|one| one.is_ok_and(|one| one.is_some()))
            {
                return stored.explain(selection);
            }
        }
        let mut plan = ReadPlan::default();
        let mut predicted = Some(0.0);
        for (input, mut wanted) in self.needed(computed, &cells) {
            if input.variable.steps {
                wanted.axes.insert(0, steps);
            }
            let part = input.explain(&wanted)?;
            plan.wanted_bytes = plan.wanted_bytes.saturating_add(part.wanted_bytes);
            plan.read_bytes = plan.read_bytes.saturating_add(part.read_bytes);
            plan.requests += part.requests;
            plan.blocks += part.blocks;
            plan.subchunks += part.subchunks;
            plan.bound = plan.bound.max(part.bound);
            predicted = predicted.zip(part.predicted).map(|(all, own)| all + own);
            plan.inputs.push(part);
        }
        if plan.bound != Bound::EXACT {
            plan.bound = Bound::UNKNOWN;
        }
        plan.predicted = predicted;
        Ok(plan)
    }

    /// Whether a derived variable has no values at a step because an input has no block there.
    pub(crate) fn is_absent(&self, step: u64) -> Result<bool> {
        self.computed()?.map_or(Ok(false), |computed| computed.is_absent(step))
    }

    /// The committed steps in which every input with steps has a block.
    pub(super) fn computed_steps(&self, computed: &Computed) -> Result<Vec<u64>> {
        let mut out: Option<Vec<u64>> = None;
        for input in computed.inputs.iter().flatten().filter(|input| input.variable.steps) {
            let steps = input.steps()?;
            out = Some(match out {
                None => steps,
                Some(known) => known.into_iter().filter(|step| steps.binary_search(step).is_ok()).collect(),
            });
        }
        Ok(out.unwrap_or_default())
    }
}

impl Computed {
    /// Whether a step has no values because an input has no block there, although the definition could give some.
    fn is_absent(&self, step: u64) -> Result<bool> {
        Ok(self.derivation.field.may_ignore_inputs() && !self.has(step)?)
    }

    /// Whether every input with steps has a block in a step.
    fn has(&self, step: u64) -> Result<bool> {
        for (input, nested) in self.inputs.iter().zip(&self.nested) {
            let has = match (input, nested) {
                (_, Some(nested)) => nested.has(step)?,
                (Some(input), None) if input.variable.steps => input.has_blocks(step)?,
                _ => true,
            };
            if !has {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_one_component(&self) -> bool {
        self.derivation.field.components() == 1
    }

    /// Bytes of the inputs that one value needs, including the inputs of derived inputs.
    fn input_bytes(&self) -> u64 {
        let own = self.inputs.iter().zip(&self.nested).map(|(input, nested)| match (input, nested) {
            (_, Some(nested)) => nested.input_bytes(),
            (Some(input), None) => u64::from(input.item),
            (None, None) => 0,
        });
        own.sum()
    }

    /// Whether the definition, or that of an input without stored values, calls a function that this process does not
    /// have.
    fn lacks_a_function(&self) -> bool {
        let lacks = |call: &Called| Functions::of_process().find(&call.function).is_err();
        let is_kept = |input: &Reading| input.stored_kind() == Some(Kind::Stored);
        self.derivation.field.calls().any(lacks)
            || self.inputs.iter().zip(&self.nested).any(|(input, nested)| match (input, nested) {
                (Some(input), Some(nested)) => !is_kept(input) && nested.lacks_a_function(),
                _ => false,
            })
    }

    /// Whether a value may need all cells along an axis.
    fn reduces(&self) -> bool {
        self.derivation.field.reduces() || self.nested.iter().flatten().any(|nested| nested.reduces())
    }
}

/// The error for requesting computed values at less than full precision.
pub(super) fn only_exact(path: &str, precision: Precision) -> Result<()> {
    match precision {
        Precision::Exact => Ok(()),
        _ => Err(Error::invalid(format!(
            "\"{path}\" is derived: the error of its inputs does not bound that of its values; read it without a largest error"
        ))),
    }
}
