//! Evaluates the stages of a field over boxes.

use std::collections::HashMap;

use super::Box;
use super::boxes::{bits, bytes, copied, part, pieces, places, run_of, shape, sides, strides, volume};
use super::call::{Called, Tile};
use super::gather::{Gather, OUTSIDE};
use super::kernel::{self, Distances};
use super::lines::Lines;
use super::reduce::Reducing;
use super::spare::Spare;
use super::stages::{Edge, Field, Spacing, What};
use super::values::{Array, Values};
use crate::dense::{Input, Scratch};
use crate::error::{Error, Kind};
use crate::program::Program;
use crate::tree::Stencil;
use crate::types::Type;

/// Cells of an operand that a reduction holds in memory at a time.
const PIECE: i64 = 1 << 18;
/// Bytes of result computed at a time where values need neighbours. All stages of such a part stay in the CPU cache.
const CACHED: i64 = 64 << 10;
/// The same if neighbours are themselves computed from neighbours, which are recomputed at every part's border.
const CACHED_DEEP: i64 = 512 << 10;

/// The most bytes of a tile of a function with its halo, unless the halo is the smaller part of it.
const MOST_AROUND: u64 = 1 << 30;

/// The source of the values of names.
pub trait Cells {
    /// The error of a read.
    type Error: From<Error>;

    /// Reads the values of a name, by its index in the tree, over a box inside the domain: positions along its
    /// axes of the grid, ascending. `spare` has memory for them.
    fn read(&mut self, name: usize, lo: &[u64], hi: &[u64], spare: &mut Spare) -> Result<Array, Self::Error>;

    /// The value of an unwritten cell of a name: one value.
    fn fill(&mut self, name: usize) -> Values;

    /// Has a registered function compute the values of a tile, which have their type and count. Errors: a function that
    /// is not known, or fails.
    fn call(&mut self, call: &Called, tile: Tile<'_>, values: &mut Values) -> Result<(), Self::Error>;

    /// All values of a coordinate, by the index of its name: the coordinates of the cells along an axis.
    fn coordinate(&mut self, name: usize) -> Result<Vec<f64>, Self::Error>;
}

/// Takes the first and end position of a part, and its values. It may return arrays to the spare memory.
pub type Act<'a, E> = dyn FnMut((&[u64], &[u64]), Vec<Array>, &mut Spare) -> Result<(), E> + 'a;

/// Values of stages over boxes.
struct Found<'h> {
    own: Vec<Option<(Box, Array)>>,
    /// Values of inputs that were read before and are kept.
    held: &'h [Option<(Box, Array)>],
}

/// Evaluates one field on one domain, repeatedly. One thread uses it at a time.
#[derive(Debug)]
pub struct Runner<'f> {
    field: &'f Field,
    extents: Vec<u64>,
    scratch: HashMap<usize, Scratch>,
    distances: HashMap<usize, Distances>,
    /// Reductions computed so far, with their boxes.
    reduced: HashMap<usize, (Box, Array)>,
}

impl<'f> Runner<'f> {
    /// A runner for a domain of these extents, one per axis of the grid. Errors: a domain too small for its
    /// neighbours.
    pub fn new(field: &'f Field, extents: &[u64]) -> Result<Self, Error> {
        field.check_extents(extents)?;
        if extents.iter().any(|&n| n > i64::MAX as u64 / 4) {
            return Err(Error::new(Kind::Limit, "the domain is too large"));
        }
        let extents = extents.to_vec();
        Ok(Runner {
            field,
            extents,
            scratch: HashMap::new(),
            distances: HashMap::new(),
            reduced: HashMap::new(),
        })
    }

    fn wanted(&self, lo: &[u64], hi: &[u64]) -> Vec<(usize, Box)> {
        let axes = self.field.axes();
        let own: Box = (0..axes.len()).map(|d| (lo[d] as i64, hi[d] as i64)).collect();
        self.field.results.iter().map(|&result| (result, self.field.project(axes, &own, result))).collect()
    }

    /// The values of a box of the result, given by positions along the field's axes; one array per component.
    pub fn run<C: Cells>(
        &mut self,
        lo: &[u64],
        hi: &[u64],
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Vec<Array>, C::Error> {
        let whole: Box = sides(lo, hi).collect();
        let parts = self.parts(&whole);
        if parts.len() < 2 {
            return self.part(&whole, &[], cells, spare);
        }
        let held = self.inputs(lo, hi, cells, spare)?;
        let count = volume(&whole);
        let mut out: Vec<Array> = Vec::new();
        let mut at = 0;
        for part in &parts {
            for (n, array) in self.part(part, &held, cells, spare)?.into_iter().enumerate() {
                if out.len() == n {
                    out.push(Array { values: spare.take(array.values.dtype(), count), known: None });
                }
                // Parts are in row-major order, whole rows each.
                let to = &mut out[n];
                to.values.put(at, &array.values);
                if let Some(known) = &array.known {
                    let all = to.known.get_or_insert_with(|| spare.take_known(count, 1));
                    all[at..at + known.len()].copy_from_slice(known);
                }
                spare.give(array);
            }
            at += volume(part);
        }
        held.into_iter().flatten().for_each(|(_, array)| spare.give(array));
        Ok(out)
    }

    /// Evaluates a box part by part: `act` gets the first and end position of each part, and its values. Inputs
    /// are read once, and intermediate results stay in the CPU cache.
    pub fn run_in_parts<C: Cells>(
        &mut self,
        (lo, hi): (&[u64], &[u64]),
        cells: &mut C,
        spare: &mut Spare,
        act: &mut Act<'_, C::Error>,
    ) -> Result<(), C::Error> {
        let whole: Box = sides(lo, hi).collect();
        let parts = self.parts(&whole);
        let held = if parts.len() < 2 { Vec::new() } else { self.inputs(lo, hi, cells, spare)? };
        for part in &parts {
            let found = self.part(part, &held, cells, spare)?;
            let (lo, hi) = places(part);
            act((&lo, &hi), found, spare)?;
        }
        held.into_iter().flatten().for_each(|(_, array)| spare.give(array));
        Ok(())
    }

    /// Reads the values of all inputs that a box of the result needs.
    fn inputs<C: Cells>(
        &self,
        lo: &[u64],
        hi: &[u64],
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Vec<Option<(Box, Array)>>, C::Error> {
        let field = self.field;
        let mut held: Vec<Option<(Box, Array)>> = vec![None; field.stages.len()];
        let boxes = field.boxes(&self.wanted(lo, hi), &self.extents);
        self.check_halos(&boxes)?;
        for (n, own) in boxes.into_iter().enumerate() {
            if let (Some(own), What::Input(name)) = (own, &field.stages[n].what) {
                let array = self.input(*name, n, &own, cells, spare)?;
                held[n] = Some((own, array));
            }
        }
        Ok(held)
    }

    /// The parts in which a box of the result is computed, in row-major order.
    fn parts(&self, whole: &Box) -> Vec<Box> {
        if !self.field.is_cut() {
            return vec![whole.clone()];
        }
        let bytes = if self.field.depth() < 2 { CACHED } else { CACHED_DEEP };
        pieces(whole, (bytes / self.field.dtype().size().max(1) as i64).max(1))
    }

    /// The values of one part.
    fn part<C: Cells>(
        &mut self,
        whole: &Box,
        held: &[Option<(Box, Array)>],
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Vec<Array>, C::Error> {
        let (lo, hi) = places(whole);
        let wanted = self.wanted(&lo, &hi);
        let axes = self.field.axes();
        let mut found = self.stages(&wanted, held, cells, spare)?;
        let mut out = Vec::with_capacity(wanted.len());
        for (n, (result, _)) in wanted.iter().enumerate() {
            let own_axes = &self.field.stages[*result].axes;
            let again = wanted[n + 1..].iter().any(|(later, _)| later == result);
            let fits = found.own[*result].as_ref().is_some_and(|(own, _)| own_axes == axes && own == whole);
            if fits
                && !again
                && let Some((_, array)) = found.own[*result].take()
            {
                out.push(array);
                continue;
            }
            let (own, array) = taken(&found, *result)?;
            out.push(part(own, own_axes, array, whole, axes, spare));
        }
        found.own.into_iter().flatten().for_each(|(_, array)| spare.give(array));
        Ok(out)
    }

    /// The values of some stages over boxes. Values that only other stages need are dropped after their last use.
    fn stages<'h, C: Cells>(
        &mut self,
        wanted: &[(usize, Box)],
        held: &'h [Option<(Box, Array)>],
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Found<'h>, C::Error> {
        let field = self.field;
        let boxes = field.boxes(wanted, &self.extents);
        self.check_halos(&boxes)?;
        let mut last_use = vec![usize::MAX; field.stages.len()];
        for (n, stage) in field.stages.iter().enumerate() {
            if boxes[n].is_some() {
                match &stage.what {
                    What::Shift(of, _) | What::Difference(_, of, ..) => last_use[*of] = n,
                    What::Call(call) => last_use[call.of] = n,
                    What::Compute(_, of) => of.iter().for_each(|&of| last_use[of] = n),
                    What::Input(_) | What::Reduce(..) => {}
                }
            }
        }
        wanted.iter().for_each(|(result, _)| last_use[*result] = usize::MAX);
        let mut done = Found { own: vec![None; field.stages.len()], held };
        for (n, own) in boxes.into_iter().enumerate() {
            let Some(own) = own else { continue };
            if held.get(n).is_some_and(Option::is_some) {
                continue;
            }
            let array = match &field.stages[n].what {
                What::Input(name) => self.input(*name, n, &own, cells, spare)?,
                What::Reduce(..) => {
                    self.reduce(n, &own, cells, spare)?;
                    let (had, array) = &self.reduced[&n];
                    let axes = &field.stages[n].axes;
                    if *had == own { array.clone() } else { part(had, axes, array, &own, axes, spare) }
                }
                What::Shift(of, offsets) => self.shift(*of, offsets, &own, &done, spare)?,
                What::Difference(op, of, axis, spacing) => {
                    let distances = self.distances(n, *spacing, cells)?;
                    if field.edge == Edge::Periodic && matches!(distances, Distances::Each(_)) {
                        let found = format!(
                            "`{}`: a periodic dimension has cells of one distance; its coordinates do not",
                            field.text(n)
                        );
                        let help = "give a number, as in `diff(u, x, 0.5)`, or choose another edge rule";
                        return Err(Error::new(Kind::Argument, found).help(help).into());
                    }
                    self.difference(*op, *of, *axis, &distances, n, &own, &done, spare)?
                }
                What::Call(call) => self.call(call, n, &own, &done, cells, spare)?,
                What::Compute(program, of) => self.compute(n, program, of, &own, &done, spare)?,
            };
            done.own[n] = Some((own, array));
            for (other, &last) in last_use.iter().enumerate() {
                if last == n
                    && let Some((_, array)) = done.own[other].take()
                {
                    spare.give(array);
                }
            }
        }
        Ok(done)
    }

    /// Reads the values of a name over a box that may reach beyond the domain.
    fn input<C: Cells>(
        &self,
        name: usize,
        n: usize,
        own: &Box,
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Array, C::Error> {
        let axes = &self.field.stages[n].axes;
        let mut inside = true;
        for (axis, (lo, hi)) in axes.iter().zip(own) {
            inside &= *lo >= 0 && *hi <= self.extents[*axis] as i64;
        }
        if inside {
            let lo: Vec<u64> = own.iter().map(|side| side.0 as u64).collect();
            let hi: Vec<u64> = own.iter().map(|side| side.1 as u64).collect();
            return self.checked(cells.read(name, &lo, &hi, spare)?, own, n);
        }
        // The part inside is read once. Along a periodic axis, all positions are read.
        let (mut lo, mut hi, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, &(from, to)) in axes.iter().zip(own) {
            let extent = self.extents[*axis] as i64;
            let (first, end) = match self.field.edge {
                Edge::Periodic if extent > 0 && (from < 0 || to > extent) => (0, extent),
                _ => (from.clamp(0, extent), to.clamp(0, extent)),
            };
            let place = |p: i64| match self.field.edge {
                Edge::Periodic if extent > 0 => (p.rem_euclid(extent) - first) as usize,
                _ if p >= first && p < end => (p - first) as usize,
                _ => OUTSIDE,
            };
            places.push((from..to).map(place).collect::<Vec<_>>());
            lo.push(first as u64);
            hi.push(end.max(first) as u64);
        }
        let shape: Vec<usize> = lo.iter().zip(&hi).map(|(lo, hi)| (hi - lo) as usize).collect();
        let read: Box = lo.iter().zip(&hi).map(|(&lo, &hi)| (lo as i64, hi as i64)).collect();
        let array = self.checked(cells.read(name, &lo, &hi, spare)?, &read, n)?;
        let gather = Gather::new(&strides(&shape).into_iter().zip(places).collect::<Vec<_>>());
        let mut values = gather.values(&array.values, spare);
        let mut known = match &array.known {
            Some(known) => Some(copied(&gather, known, 0)),
            None if self.field.edge == Edge::Nan => Some(copied(&gather, &vec![1; array.values.count()], 0)),
            None => None,
        };
        match self.field.edge {
            Edge::Fill => {
                gather.fill_beyond(&cells.fill(name), &mut values);
                if let (Some(known), Some(inside)) = (&mut known, &array.known) {
                    // Cells beyond the domain take the fill value.
                    *known = copied(&gather, inside, 1);
                }
            }
            Edge::OneSided | Edge::Periodic | Edge::Nan => {}
        }
        spare.give(array);
        Ok(Array { values, known })
    }

    /// Refuses arrays that do not match the request: they come from the caller's code.
    fn checked<E: From<Error>>(&self, array: Array, own: &Box, n: usize) -> Result<Array, E> {
        let cells = volume(own);
        let stage = &self.field.stages[n];
        let fits = array.values.count() == cells
            && array.values.dtype() == stage.dtype
            && array.known.as_ref().is_none_or(|known| known.len() == cells);
        if fits {
            return Ok(array);
        }
        let found = format!(
            "`{}`: {} values of {} are given for {cells} cells of {}",
            self.field.text(n),
            array.values.count(),
            array.values.dtype(),
            stage.dtype
        );
        Err(Error::new(Kind::Argument, found).into())
    }

    fn distances<C: Cells>(
        &mut self,
        n: usize,
        spacing: Spacing,
        cells: &mut C,
    ) -> Result<Distances, C::Error> {
        if let Some(known) = self.distances.get(&n) {
            return Ok(known.clone());
        }
        let distances = match spacing {
            Spacing::Number(h) => Distances::Number(h),
            Spacing::Coordinates(name) => match self.field.edge {
                Edge::Periodic => Distances::of_periodic(&cells.coordinate(name)?),
                _ => Distances::of(&cells.coordinate(name)?),
            },
        };
        self.distances.insert(n, distances.clone());
        Ok(distances)
    }

    fn shift(
        &self,
        of: usize,
        offsets: &[(usize, i64)],
        own: &Box,
        done: &Found<'_>,
        spare: &mut Spare,
    ) -> Result<Array, Error> {
        let (had, array) = taken(done, of)?;
        let axes = &self.field.stages[of].axes;
        let mut places = Vec::with_capacity(axes.len());
        for ((axis, &(lo, hi)), &(first, _)) in axes.iter().zip(own).zip(had) {
            let by = offsets.iter().find(|(a, _)| a == axis).map_or(0, |&(_, by)| by);
            let last = self.extents[*axis] as i64 - 1;
            let one_sided = self.field.edge == Edge::OneSided;
            let place = |p: i64| if one_sided { (p + by).clamp(0, last) } else { p + by };
            places.push((lo..hi).map(|p| (place(p) - first) as usize).collect::<Vec<_>>());
        }
        let gather = Gather::new(&strides(&shape(had)).into_iter().zip(places).collect::<Vec<_>>());
        let known = array.known.as_ref().map(|known| copied(&gather, known, 0));
        Ok(Array { values: gather.values(&array.values, spare), known })
    }

    /// Calls a registered function for a box. A cell is known if all cells in its halo are. The function is called for
    /// cells of the domain only: beyond it, a periodic edge repeats them, and other edges have no values.
    fn call<C: Cells>(
        &self,
        call: &Called,
        n: usize,
        own: &Box,
        done: &Found<'_>,
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Array, C::Error> {
        let axes = &self.field.stages[n].axes;
        let inside = self.field.inside(axes, own, &self.extents);
        let found = self.called(call, n, &inside, done, cells, spare)?;
        if inside == *own {
            return Ok(found);
        }
        let is_periodic = self.field.edge == Edge::Periodic;
        let mut sources = Vec::with_capacity(axes.len());
        for ((axis, &(lo, hi)), &(first, end)) in axes.iter().zip(own).zip(&inside) {
            let extent = self.extents[*axis] as i64;
            let place = |p: i64| match if is_periodic { p.rem_euclid(extent.max(1)) } else { p } {
                p if p >= first && p < end => (p - first) as usize,
                _ => OUTSIDE,
            };
            sources.push((lo..hi).map(place).collect::<Vec<_>>());
        }
        let gather = Gather::new(&strides(&shape(&inside)).into_iter().zip(sources).collect::<Vec<_>>());
        let mut values = gather.values(&found.values, spare);
        let all = || vec![1; found.values.count()];
        // A variable of these values has NaN or zero beyond the domain, as its fill value.
        let beyond = u8::from(self.field.edge == Edge::Fill);
        let known = match &found.known {
            Some(known) => Some(copied(&gather, known, beyond)),
            None if self.field.edge == Edge::Nan => Some(copied(&gather, &all(), beyond)),
            None => None,
        };
        let fill = match call.to {
            Type::F4 => Values::F4(vec![f32::NAN]),
            Type::F8 => Values::F8(vec![f64::NAN]),
            other => Values::new(other, 1),
        };
        gather.fill_beyond(&fill, &mut values);
        spare.give(found);
        Ok(Array { values, known })
    }

    fn called<C: Cells>(
        &self,
        call: &Called,
        n: usize,
        own: &Box,
        done: &Found<'_>,
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<Array, C::Error> {
        if volume(own) == 0 {
            return Ok(Array { values: spare.take(call.to, 0), known: None });
        }
        let given = self.shift(call.of, &[], &call.grown(own), done, spare)?;
        let known = given.known.as_ref().map(|known| call.known(known, own));
        let axes = &self.field.stages[n].axes;
        let tile = Tile { axes, lo: &places(own).0, shape: &shape(own), values: &given.values };
        let mut values = spare.take(call.to, volume(own));
        if known.as_ref().is_none_or(|known| known.contains(&1)) {
            cells.call(call, tile, &mut values)?;
        }
        spare.give(given);
        self.checked(Array { values, known }, own, n)
    }

    /// Refuses tiles of functions that their halo makes enormous.
    fn check_halos(&self, boxes: &[Option<Box>]) -> Result<(), Error> {
        for (n, stage) in self.field.stages.iter().enumerate() {
            let (What::Call(call), Some(own)) = (&stage.what, &boxes[n]) else { continue };
            let inside = self.field.inside(&stage.axes, own, &self.extents);
            let bytes = |own: &Box| {
                let sides = own.iter().map(|(lo, hi)| hi.saturating_sub(*lo).max(0) as u64);
                sides.fold(call.from.size() as u64, u64::saturating_mul)
            };
            let (tile, around) = (bytes(&inside), bytes(&call.grown(&inside)));
            if around > MOST_AROUND && around / 8 > tile {
                let found = format!(
                    "`{}`: with its halo, a tile of {tile} bytes has {around}, and at most {MOST_AROUND} are allowed",
                    self.field.text(n)
                );
                return Err(Error::new(Kind::Limit, found).help("use a function with a smaller halo"));
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "one difference has that many parts")]
    fn difference(
        &self,
        op: Stencil,
        of: usize,
        along: usize,
        distances: &Distances,
        n: usize,
        own: &Box,
        done: &Found<'_>,
        spare: &mut Spare,
    ) -> Result<Array, Error> {
        let (had, array) = taken(done, of)?;
        let axes = &self.field.stages[of].axes;
        let extent = self.extents[along] as i64;
        let Some(at) = axes.iter().position(|axis| *axis == along) else {
            return Err(Error::new(Kind::Argument, "a difference along an axis that does not exist"));
        };
        let taps: Vec<kernel::Tap> =
            (own[at].0..own[at].1).map(|p| distances.tap(op, self.field.edge, p, extent)).collect();
        let lines = Lines { had, own, at, taps: &taps };
        let mut values = spare.take(self.field.stages[n].dtype, volume(own));
        let done = match (&array.values, &mut values) {
            (Values::F4(from), Values::F4(to)) => lines.differences(op, from, to),
            (Values::F8(from), Values::F8(to)) => lines.differences(op, from, to),
            _ => return Err(Error::new(Kind::Argument, "a difference of values that are not floats")),
        };
        if done.is_none() {
            return Err(Error::new(Kind::Argument, "a difference of cells that were not computed"));
        }
        let known = array.known.as_ref().map(|known| {
            let [before, here, behind] = lines.gathers();
            let mut out = copied(&before, known, 0);
            for other in [here, behind] {
                out.iter_mut().zip(copied(&other, known, 0)).for_each(|(out, more)| *out &= more);
            }
            out
        });
        Ok(Array { values, known })
    }

    fn compute(
        &mut self,
        n: usize,
        program: &Program,
        of: &[usize],
        own: &Box,
        done: &Found<'_>,
        spare: &mut Spare,
    ) -> Result<Array, Error> {
        let field = self.field;
        let count = volume(own);
        let axes = &field.stages[n].axes;
        // Each operand: its offset in its array, or a copy of its cells.
        let mut spread: Vec<(usize, Option<Array>)> = Vec::with_capacity(of.len());
        for &operand in of {
            let (had, array) = taken(done, operand)?;
            let own_axes = &field.stages[operand].axes;
            spread.push(match run_of(had, own).filter(|_| own_axes == axes) {
                Some(first) => (first, None),
                None => (0, Some(part(had, own_axes, array, own, axes, spare))),
            });
        }
        let mut masks: Vec<Option<Vec<u64>>> = Vec::with_capacity(of.len());
        let mut inputs: Vec<Input<'_>> = Vec::with_capacity(of.len());
        for (&operand, (first, copy)) in of.iter().zip(&spread) {
            let array = match copy {
                Some(array) => array,
                None => taken(done, operand)?.1,
            };
            let known = array.known.as_ref().and_then(|known| known.get(*first..*first + count));
            masks.push(known.map(bits));
            inputs.push(Input { values: array.values.column().from(*first), written: None });
        }
        inputs.iter_mut().zip(&masks).for_each(|(input, mask)| input.written = mask.as_deref());
        let mut values = spare.take(field.stages[n].dtype, count);
        let mut known = vec![0; count.div_ceil(64)];
        let scratch = self.scratch.entry(n).or_insert_with(|| Scratch::new(program));
        program.compute(&inputs, count, scratch, values.column_mut(), &mut known)?;
        let any = masks.iter().any(Option::is_some);
        spread.into_iter().filter_map(|(_, copy)| copy).for_each(|array| spare.give(array));
        Ok(Array { values, known: any.then(|| bytes(&known, count)) })
    }

    /// Computes a reduction over a box of its result, unless it is cached.
    fn reduce<C: Cells>(
        &mut self,
        n: usize,
        own: &Box,
        cells: &mut C,
        spare: &mut Spare,
    ) -> Result<(), C::Error> {
        let field = self.field;
        let What::Reduce(op, of, reduced) = &field.stages[n].what else { return Ok(()) };
        if let Some((had, _)) = self.reduced.get(&n)
            && own.iter().zip(had).all(|(own, had)| had.0 <= own.0 && own.1 <= had.1)
        {
            return Ok(());
        }
        let whole = field.whole(n, own, *of, reduced, &self.extents);
        let axes = &field.stages[*of].axes;
        let mut reducing = Reducing::new(*op, field.stages[*of].dtype, volume(own));
        // The position of a cell in the result, from its positions along the axes of the operand.
        let own_strides = strides(&shape(own));
        let kept = &field.stages[n].axes;
        let to: Vec<usize> = axes
            .iter()
            .map(|axis| kept.iter().position(|a| a == axis).map_or(0, |at| own_strides[at]))
            .collect();
        for piece in pieces(&whole, PIECE) {
            let mut found = self.stages(&[(*of, piece.clone())], &[], cells, spare)?;
            let Some((_, array)) = found.own[*of].take() else { continue };
            let shape = shape(&piece);
            let row = shape.last().copied().unwrap_or(1);
            let moves = to.last().is_some_and(|stride| *stride > 0);
            let rows = volume(&piece).checked_div(row).unwrap_or(0);
            let mut at = vec![0usize; shape.len()];
            for number in 0..rows {
                let place: usize =
                    (0..shape.len()).map(|d| to[d] * (at[d] + (piece[d].0 - whole[d].0) as usize)).sum();
                reducing.row(&array.values, number * row, row, array.known.as_deref(), place, moves);
                for d in (0..shape.len().saturating_sub(1)).rev() {
                    at[d] += 1;
                    if at[d] < shape[d] {
                        break;
                    }
                    at[d] = 0;
                }
            }
            spare.give(array);
        }
        let (values, known) = reducing.finish(field.stages[n].dtype);
        self.reduced.insert(n, (own.clone(), Array { values, known }));
        Ok(())
    }
}

fn taken<'a>(done: &'a Found<'_>, stage: usize) -> Result<(&'a Box, &'a Array), Error> {
    let held = || done.held.get(stage).and_then(Option::as_ref);
    match done.own.get(stage).and_then(Option::as_ref).or_else(held) {
        Some((own, array)) => Ok((own, array)),
        None => Err(Error::new(Kind::Argument, "a stage is used before it is computed")),
    }
}
