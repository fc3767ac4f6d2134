//! Evaluates a definition over boxes, with the values of its inputs.

use drystone_expression::{Array, Called, Cells, Runner, Spare, Tile, Values};
use drystone_format::derived::Kind;
use drystone_format::dtype::Scalar;
use drystone_function::{Aligned, Declared, Functions, Job};
use drystone_plan::selection::{Axis, Selection};

use super::Computed;
use super::memory::{bytes, bytes_mut, dense, target};
use crate::read::{ReadReport, Reading};
use crate::schema::derived::{Origin, scalar_of};
use crate::{Error, Result};

/// Receives the first and last position of a part, and its values.
pub(super) type Act<'a> = dyn FnMut(&[u64], &[u64], &mut Array) -> Result<()> + 'a;

/// Evaluates one definition at one step. One thread uses it at a time.
pub(super) struct Evaluator<'c> {
    computed: &'c Computed,
    runner: Runner<'c>,
    inputs: Inputs<'c>,
    /// The component at each position along the last axis, if positions are those of a selection.
    components: Option<Axis>,
    /// Whether the result has no values at this step, although the definition could give some.
    absent: bool,
}

/// Reads the inputs of a definition.
struct Inputs<'c> {
    computed: &'c Computed,
    step: u64,
    /// The cells at the positions along each axis of the grid.
    cells: Vec<Axis>,
    /// Evaluators of derived inputs, by name; each is created at its first use.
    nested: Vec<Option<Box<Evaluator<'c>>>>,
    /// Whether positions are those of a selection.
    selected: bool,
    patient: bool,
    /// Memory for the input and the output of a function's next call.
    memory: (Aligned, Aligned),
    report: ReadReport,
}

impl<'c> Evaluator<'c> {
    /// Evaluates at a step over the cells of the result. With `selected`, evaluates over the positions of a selection
    /// of cells; each value then depends on its own cell only. With `patient`, a function that the process does not
    /// have is an error only where it is called: cells of which nothing is known need no call.
    pub(super) fn new(
        computed: &'c Computed,
        step: u64,
        selected: Option<&[Axis]>,
        patient: bool,
    ) -> Result<Evaluator<'c>> {
        let derivation = &computed.derivation;
        // Before anything is read.
        for call in derivation.field.calls() {
            match Functions::of_process().find(&call.function) {
                Ok(function) => require_fit(function.declared(), call)?,
                Err(drystone_function::Error::NotFound(_)) if patient => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut cells: Vec<Axis> = derivation.shape.iter().map(|n| Axis::full(*n)).collect();
        let mut components = None;
        if let Some(selected) = selected {
            let axes = derivation.field.axes();
            axes.iter().zip(selected).for_each(|(axis, own)| cells[*axis] = *own);
            components = selected.get(axes.len()).copied();
        }
        let extents: Vec<u64> = cells.iter().map(|axis| axis.count).collect();
        let nested = computed.inputs.iter().map(|_| None).collect();
        let report = ReadReport::default();
        let (selected, memory) = (selected.is_some(), Default::default());
        let inputs = Inputs { computed, step, cells, nested, selected, patient, memory, report };
        let absent = computed.is_absent(step)?;
        let runner = Runner::new(&derivation.field, &extents)?;
        Ok(Evaluator { computed, runner, inputs, components, absent })
    }

    /// Values of a box of which no cell is known.
    fn unknown(&self, lo: &[u64], hi: &[u64], spare: &mut Spare) -> Array {
        let count = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).product::<u64>() as usize;
        Array {
            values: spare.take(self.computed.derivation.field.dtype(), count),
            known: Some(vec![0; count]),
        }
    }

    /// The cost of the reads since the last call.
    pub(super) fn take_report(&mut self) -> ReadReport {
        let mut report = std::mem::take(&mut self.inputs.report);
        for nested in self.inputs.nested.iter_mut().flatten() {
            report.join(&nested.take_report());
        }
        report
    }

    /// The values of a box of the result, components last.
    pub(super) fn values(&mut self, lo: &[u64], hi: &[u64], spare: &mut Spare) -> Result<Array> {
        if self.absent {
            return Ok(self.unknown(lo, hi, spare));
        }
        let ndim = self.computed.derivation.field.axes().len();
        let found = self.runner.run(&lo[..ndim], &hi[..ndim], &mut self.inputs, spare)?;
        joined(found, &self.chosen(lo[ndim..].first().zip(hi[ndim..].first())), spare)
    }

    /// Passes the values of a box to `act` part by part, with the first and last position of each part.
    pub(super) fn in_parts(
        &mut self,
        (lo, hi): (&[u64], &[u64]),
        spare: &mut Spare,
        act: &mut Act<'_>,
    ) -> Result<()> {
        if self.absent {
            let mut array = self.unknown(lo, hi, spare);
            act(lo, hi, &mut array)?;
            spare.give(array);
            return Ok(());
        }
        let ndim = self.computed.derivation.field.axes().len();
        let chosen = self.chosen(lo[ndim..].first().zip(hi[ndim..].first()));
        let mut place = |(part_lo, part_hi): (&[u64], &[u64]), found, spare: &mut Spare| {
            let mut array = joined(found, &chosen, spare)?;
            act(&[part_lo, &lo[ndim..]].concat(), &[part_hi, &hi[ndim..]].concat(), &mut array)?;
            spare.give(array);
            Ok(())
        };
        self.runner.run_in_parts((&lo[..ndim], &hi[..ndim]), &mut self.inputs, spare, &mut place)
    }

    /// The components at positions along the last axis; empty if there is no such axis.
    fn chosen(&self, places: Option<(&u64, &u64)>) -> Vec<usize> {
        let places = places.map_or(0..0, |(lo, hi)| *lo..*hi);
        places.map(|place| self.components.map_or(place, |axis| axis.cell(place)) as usize).collect()
    }
}

/// The chosen components as one array.
fn joined(mut found: Vec<Array>, chosen: &[usize], spare: &mut Spare) -> Result<Array> {
    if found.len() == 1 {
        return found.pop().ok_or_else(|| Error::invalid("nothing was computed"));
    }
    let array = interleaved(&found, chosen, spare);
    found.into_iter().for_each(|one| spare.give(one));
    Ok(array)
}

/// Number of cells whose components are interleaved at a time. They stay in the processor's cache.
const TOGETHER: usize = 1024;

/// Interleaves components: the chosen components of each cell, one after the other.
fn interleaved(found: &[Array], chosen: &[usize], spare: &mut Spare) -> Array {
    let (cells, dtype) = (found[0].values.count(), found[0].values.dtype());
    let mut values = spare.take(dtype, cells * chosen.len());
    let mut known = found.iter().any(|one| one.known.is_some()).then(|| vec![1; cells * chosen.len()]);
    let (to, item) = bytes_mut(&mut values);
    let parts: Vec<&[u8]> = chosen
        .iter()
        .filter_map(|at| found.get(*at))
        .map(|one| super::memory::bytes(&one.values).0)
        .collect();
    match item {
        1 => interleave::<1>(&parts, to),
        2 => interleave::<2>(&parts, to),
        4 => interleave::<4>(&parts, to),
        _ => interleave::<8>(&parts, to),
    }
    for (at, array) in chosen.iter().filter_map(|component| found.get(*component)).enumerate() {
        if let (Some(known), Some(own)) = (&mut known, &array.known) {
            known.iter_mut().skip(at).step_by(chosen.len()).zip(own).for_each(|(to, from)| *to = *from);
        }
    }
    Array { values, known }
}

/// Writes the elements of several arrays in turn; each element has `N` bytes.
fn interleave<const N: usize>(parts: &[&[u8]], to: &mut [u8]) {
    let to = to.as_chunks_mut::<N>().0;
    for (block, to) in to.chunks_mut(TOGETHER * parts.len().max(1)).enumerate() {
        for (at, part) in parts.iter().enumerate() {
            let from = part.as_chunks::<N>().0.get(block * TOGETHER..).unwrap_or_default();
            to.iter_mut().skip(at).step_by(parts.len()).zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}

impl<'c> Inputs<'c> {
    /// The values of a variable at positions of its axes, which ascend along the grid. `axes` names the grid's axis
    /// for each dimension of the variable.
    fn variable(
        &mut self,
        name: usize,
        axes: &[usize],
        (lo, hi): (&[u64], &[u64]),
        spare: &mut Spare,
    ) -> Result<Array> {
        let computed = self.computed;
        let Some(reading) = &computed.inputs[name] else {
            return Err(Error::invalid("an input is not open"));
        };
        let mut sorted = axes.to_vec();
        sorted.sort_unstable();
        let shape: Vec<u64> = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).collect();
        let strides = dense(&shape);
        let rank = |axis: &usize| sorted.iter().position(|other| other == axis).unwrap_or_default();
        let count = shape.iter().product::<u64>() as usize;
        let dtype = computed.derivation.types[name];
        let own_shape: Vec<u64> = axes.iter().map(|axis| shape[rank(axis)]).collect();
        let own_strides: Vec<u64> = axes.iter().map(|axis| strides[rank(axis)]).collect();
        if count == 0 {
            return Ok(Array { values: Values::new(dtype, 0), known: None });
        }
        // Stored values are read where they are current; the read computes the others.
        let is_kept = reading.stored_kind() == Some(Kind::Stored);
        if computed.nested[name].is_some() && !is_kept {
            let (own_lo, own_hi): (Vec<u64>, Vec<u64>) =
                axes.iter().map(|axis| (lo[rank(axis)], hi[rank(axis)])).unzip();
            let found = self.nested(name, axes)?.values(&own_lo, &own_hi, spare)?;
            if axes.is_sorted() {
                return Ok(found);
            }
            let array = turned(&found, &own_shape, &own_strides);
            spare.give(found);
            return Ok(array);
        }
        // The read below writes every cell.
        let mut values = spare.take(dtype, count);
        let cells = Selection {
            axes: axes
                .iter()
                .map(|axis| {
                    let (along, rank) = (self.cells[*axis], rank(axis));
                    Axis { start: along.cell(lo[rank]), step: along.step, count: shape[rank] }
                })
                .collect(),
        };
        let (has_voids, unknown) = {
            let (mut shape, mut strides, mut selection) =
                (own_shape.clone(), own_strides.clone(), cells.clone());
            if reading.variable().steps {
                shape.insert(0, 1);
                strides.insert(0, count as u64);
                selection.axes.insert(0, Axis { start: self.step, step: 1, count: 1 });
            }
            // A single cell of a leading axis needs no stride.
            strides.iter_mut().zip(&shape).filter(|(_, n)| **n == 1).for_each(|(stride, _)| *stride = 1);
            let out = target(&mut values, &shape, &strides)?;
            if is_kept {
                let (report, known) = reading.read_known(&selection, &out)?;
                self.report.join(&report);
                (false, known)
            } else {
                reading.check_read(&selection, &out)?;
                let (report, has_voids) = reading.read_and_look(&selection, &out)?;
                self.report.join(&report);
                (has_voids, None)
            }
        };
        let mut known = unknown.map(|unknown| in_order(&unknown, &own_shape, &own_strides));
        if has_voids {
            for (first, end) in reading.voids(self.step, &cells)? {
                let known = known.get_or_insert_with(|| vec![1u8; count]);
                clear(known, &first, &end, &own_strides);
            }
        }
        Ok(Array { values, known })
    }

    fn nested(&mut self, name: usize, axes: &[usize]) -> Result<&mut Evaluator<'c>> {
        let Some(computed) = self.computed.nested[name].as_deref() else {
            return Err(Error::invalid("an input is not open"));
        };
        if self.nested[name].is_none() {
            let selected: Vec<Axis> = axes.iter().map(|axis| self.cells[*axis]).collect();
            let selected = self.selected.then_some(selected.as_slice());
            self.nested[name] = Some(Box::new(Evaluator::new(computed, self.step, selected, self.patient)?));
        }
        self.nested[name].as_deref_mut().ok_or_else(|| Error::invalid("an input is not open"))
    }
}

impl Cells for Inputs<'_> {
    type Error = Error;

    fn read(&mut self, name: usize, lo: &[u64], hi: &[u64], spare: &mut Spare) -> Result<Array> {
        let computed = self.computed;
        let values = match &computed.derivation.origins[name] {
            Origin::Variable { axes, .. } => return self.variable(name, axes, (lo, hi), spare),
            Origin::Place(axis) => {
                let along = self.cells[*axis];
                (lo[0]..hi[0]).map(|place| along.cell(place) as i64).collect()
            }
            Origin::Step => vec![self.step as i64],
            Origin::Dimension => return Err(Error::invalid("a name of a dimension has no values")),
        };
        Ok(Array { values: Values::I8(values), known: None })
    }

    fn fill(&mut self, name: usize) -> Values {
        let computed = self.computed;
        let mut values = Values::new(computed.derivation.types[name], 1);
        if let Some(reading) = &computed.inputs[name] {
            let fill = reading.fill_bytes();
            let (bytes, _) = bytes_mut(&mut values);
            if bytes.len() == fill.len() {
                bytes.copy_from_slice(&fill);
            }
        }
        values
    }

    fn call(&mut self, call: &Called, tile: Tile<'_>, values: &mut Values) -> Result<()> {
        let function = Functions::of_process().find(&call.function)?;
        let (given, _) = bytes(tile.values);
        let count: Vec<u64> = tile.shape.iter().map(|n| *n as u64).collect();
        let offset = tile.axes.iter().zip(tile.lo).map(|(axis, lo)| self.cells[*axis].cell(*lo)).collect();
        let step = self.computed.derivation.steps.then_some(self.step);
        let (input, output) = std::mem::take(&mut self.memory);
        let mut input =
            input.resized(given.len()).ok_or_else(|| Error::invalid("a tile does not fit into memory"))?;
        input.bytes_mut().copy_from_slice(given);
        let mut job = Some(Job { step, offset, count, input, output });
        let mut only =
            |_| -> Result<Job> { job.take().ok_or_else(|| Error::invalid("a tile was made twice")) };
        function.run(1, &mut only, &mut |_, job| {
            let ((to, _), made) = (bytes_mut(values), job.made());
            let len = to.len().min(made.len());
            to[..len].copy_from_slice(&made[..len]);
            self.memory = (job.input, job.output);
        })?;
        Ok(())
    }

    fn coordinate(&mut self, name: usize) -> Result<Vec<f64>> {
        let computed = self.computed;
        let Some(reading) = &computed.inputs[name] else {
            return Err(Error::invalid("a coordinate is not open"));
        };
        let count = reading.variable().shape.first().copied().unwrap_or(0);
        let array = self.whole(name, reading, count)?;
        if array.known.is_some_and(|known| known.contains(&0)) {
            return Err(Error::invalid(format!(
                "not all cells of the coordinate \"{}\" were written: write it, or give the distance as a number",
                reading.path()
            )));
        }
        Ok(floats(&array.values))
    }
}

impl Inputs<'_> {
    /// All cells of a coordinate variable, whatever part is selected.
    fn whole(&self, name: usize, reading: &Reading, count: u64) -> Result<Array> {
        if let Some(nested) = self.computed.nested[name].as_deref() {
            let mut own = Evaluator::new(nested, self.step, None, self.patient)?;
            return own.values(&[0], &[count], &mut Spare::default());
        }
        let mut values = Values::new(self.computed.derivation.types[name], count as usize);
        let selection = Selection::boxed(&[0], &[count]);
        let out = target(&mut values, &[count], &[1])?;
        let (_, has_voids) = reading.read_and_look(&selection, &out)?;
        let voids = if has_voids { reading.voids(0, &selection)? } else { Vec::new() };
        Ok(Array { values, known: (!voids.is_empty()).then(|| vec![0; count as usize]) })
    }
}

/// Refuses a function whose declaration differs from the call in the definition.
fn require_fit(declared: &Declared, call: &Called) -> Result<()> {
    let shown = |input: Scalar, output: Scalar, halo: &[u64]| {
        format!("{} to {} with the halo {halo:?}", input.name(), output.name())
    };
    let halo: Vec<u64> = call.halo.iter().map(|cells| cells.unsigned_abs()).collect();
    let wanted = shown(scalar_of(call.from), scalar_of(call.to), &halo);
    let found = shown(declared.input, declared.output, &declared.halo);
    if wanted == found {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the definition calls function {:?} for {wanted}; the registered one is for {found}",
        call.function
    )))
}

fn floats(values: &Values) -> Vec<f64> {
    match values {
        Values::Bool(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::I1(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::I2(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::I4(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::I8(v) => v.iter().map(|x| *x as f64).collect(),
        Values::U1(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::U2(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::U4(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::U8(v) => v.iter().map(|x| *x as f64).collect(),
        Values::F4(v) => v.iter().map(|x| f64::from(*x)).collect(),
        Values::F8(v) => v.clone(),
    }
}

/// Marks the cells of a box as unknown. The box is in the order of the strides.
fn clear(known: &mut [u8], first: &[u64], end: &[u64], strides: &[u64]) {
    each_cell(first, end, strides, &mut |at| {
        if let Some(known) = known.get_mut(at as usize) {
            *known = 0;
        }
    });
}

/// Calls `act` for each cell of a box, in row-major order, with its position by strides.
fn each_cell(first: &[u64], end: &[u64], strides: &[u64], act: &mut dyn FnMut(u64)) {
    if first.iter().zip(end).any(|(first, end)| first >= end) {
        return;
    }
    let mut at = first.to_vec();
    loop {
        act(at.iter().zip(strides).map(|(at, stride)| at * stride).sum());
        let Some(d) = (0..at.len()).rev().find(|d| at[*d] + 1 < end[*d]) else { return };
        at[d] += 1;
        at[d + 1..].copy_from_slice(&first[d + 1..]);
    }
}

/// Rearranges a byte for each cell of a dense box into the order of strides.
fn in_order(from: &[u8], shape: &[u64], strides: &[u64]) -> Vec<u8> {
    let (mut out, mut next) = (vec![0; from.len()], from.iter());
    each_cell(&vec![0; shape.len()], shape, strides, &mut |at| {
        if let (Some(to), Some(from)) = (out.get_mut(at as usize), next.next()) {
            *to = *from;
        }
    });
    out
}

/// Rearranges values of a dense box into the order of strides.
fn turned(from: &Array, shape: &[u64], strides: &[u64]) -> Array {
    let mut values = Values::new(from.values.dtype(), from.values.count());
    let known = from.known.as_ref().map(|known| in_order(known, shape, strides));
    let (source, item) = super::memory::bytes(&from.values);
    let (to, _) = bytes_mut(&mut values);
    let mut number = 0usize;
    each_cell(&vec![0; shape.len()], shape, strides, &mut |at| {
        let at = at as usize;
        to[at * item..][..item].copy_from_slice(&source[number * item..][..item]);
        number += 1;
    });
    Array { values, known }
}
