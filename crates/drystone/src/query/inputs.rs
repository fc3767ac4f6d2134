//! The values of an expression's names over a box, or at listed cells, with masks of the written cells.
//!
//! Every evaluation of an expression on stored data reads its inputs through this module. It repeats values of names
//! with fewer dimensions, generates indices of cells, and marks unwritten cells.

use drystone_expression::{Input as Given, Scratch, Type};
use drystone_plan::listing::Listing;
use drystone_plan::selection::{Axis, Selection};

use super::bits;
use super::column::Values;
use super::hits::{Picked, TileHits};
use super::names::Origin;
use super::place::{Place, extents};
use super::plan::Known;
use crate::Result;
use crate::read::{ReadReport, Reading};

/// The values of one input, and a mask of the written cells.
pub(super) struct Loaded {
    pub(super) values: Values,
    /// One bit per cell. `None` if all cells were written.
    pub(super) written: Option<Vec<u64>>,
    /// For a derived variable that is computed: its inputs, and memory for computing.
    pub(super) of: Vec<Loaded>,
    pub(super) scratch: Option<Scratch>,
}

impl Loaded {
    pub(super) fn new(dtype: Type) -> Loaded {
        Loaded { values: Values::new(dtype), written: None, of: Vec::new(), scratch: None }
    }

    /// The values as an input of an expression.
    pub(super) fn given(&self) -> Given<'_> {
        Given { values: self.values.column(), written: self.written.as_deref() }
    }

    /// The values of a tile at its hits, if all cells of the tile were written.
    pub(super) fn pick(&self, hits: &TileHits) -> Picked {
        let ((bytes, item), mut values) = (self.values.bytes(), Vec::new());
        hits.pick(0, hits.room(), bytes, item, &mut values);
        Picked { values, written: None }
    }
}

impl Known<'_> {
    /// The best number of concurrent reads.
    pub(super) fn at_once(&self) -> usize {
        let all = self.inputs.iter().filter_map(|input| input.reading());
        all.map(|reading| reading.at_once()).max().unwrap_or(1)
    }

    /// The values of an input over a box of the grid.
    pub(super) fn load(&self, number: usize, lo: &Place, hi: &Place, out: &mut Loaded) -> Result<ReadReport> {
        let input = &self.inputs[number];
        let shape = extents(lo, hi, self.grid.shape.len());
        let cells = shape.iter().product::<u64>() as usize;
        out.written = None;
        let Origin::Stored(reading) = &input.origin else {
            out.values.resize(cells);
            self.count(&input.origin, input.axes.first().copied(), lo, &shape, &mut out.values);
            return Ok(ReadReport::default());
        };
        let (own_lo, own_hi) = self.own(number, lo, hi);
        let straight = input.is_straight(self.grid);
        if let Some(deep) = self.zones[number].deep.as_deref().filter(|_| straight) {
            return deep.compute(&own_lo, &own_hi, out);
        }
        if reading.is_derived() {
            let own_shape = extents(&own_lo, &own_hi, input.axes.len());
            let selection = self.selected(number, &own_lo, &own_shape);
            let mut own = Values::new(input.dtype);
            own.resize(selection.cells().unwrap_or(0) as usize);
            let (report, known) = reading.read_known(&selection, &own.target(&selection.shape())?)?;
            out.written = self.mask(number, &own_shape, &shape, known);
            match input.is_straight(self.grid) {
                true => out.values = own,
                false => own.spread(&shape, &self.strides(number, &own_shape), &mut out.values),
            }
            return Ok(report);
        }
        let any;
        (out.written, any) = self.written_in(number, lo, hi)?;
        if !any {
            out.values.resize(cells);
            return Ok(ReadReport::default());
        }
        let ndim = input.axes.len();
        let own_shape = extents(&own_lo, &own_hi, ndim);
        let mut axes: Vec<Axis> = Vec::with_capacity(ndim + 1);
        if reading.variable().steps {
            axes.push(Axis { start: self.step, step: 1, count: 1 });
        }
        for (d, axis) in input.axes.iter().enumerate() {
            let along = &self.cells.axes[*axis];
            axes.push(Axis { start: along.cell(own_lo[d]), step: along.step, count: own_shape[d] });
        }
        let selection = Selection { axes };
        let count = own_shape.iter().product::<u64>() as usize;
        if input.is_straight(self.grid) {
            out.values.resize(count);
            return reading.read_unnoted(&selection, &out.values.target(&selection.shape())?);
        }
        let mut own = Values::new(input.dtype);
        own.resize(count);
        let report = reading.read_unnoted(&selection, &own.target(&selection.shape())?)?;
        own.spread(&shape, &self.strides(number, &own_shape), &mut out.values);
        Ok(report)
    }

    /// The number of cells of an input's box from one cell of the grid to the next, by axis; 0 along axes that the
    /// input lacks.
    pub(super) fn strides(&self, number: usize, own_shape: &[u64]) -> Vec<usize> {
        let mut strides = vec![0usize; self.grid.shape.len()];
        let mut stride = 1;
        for (d, axis) in self.inputs[number].axes.iter().enumerate().rev() {
            strides[*axis] = stride;
            stride *= own_shape[d] as usize;
        }
        strides
    }

    /// The values of an input at listed cells.
    pub(super) fn load_cells(&self, number: usize, places: &[Place], out: &mut Loaded) -> Result<ReadReport> {
        let input = &self.inputs[number];
        out.values.resize(places.len());
        out.written = None;
        let Origin::Stored(reading) = &input.origin else {
            if let Values::I8(values) = &mut out.values {
                let axis = input.axes.first().map(|axis| (*axis, &self.cells.axes[*axis]));
                for (value, place) in values.iter_mut().zip(places) {
                    *value = axis.map_or(self.step, |(axis, along)| along.cell(place[axis])) as i64;
                }
            }
            return Ok(ReadReport::default());
        };
        out.written = self.written_at(number, places)?;
        let coords = self.own_cells(number, places);
        let ndim = input.axes.len() + usize::from(reading.variable().steps);
        let target = out.values.target(&[places.len() as u64])?;
        if ndim == 0 {
            drop(target);
            let mut own = Values::new(input.dtype);
            own.resize(1);
            let report = reading.read_unnoted(&Selection::default(), &own.target(&[])?)?;
            own.spread(&[places.len() as u64], &[0], &mut out.values);
            return Ok(report);
        }
        reading.read_listed_unnoted(&Listing::points(ndim, coords), &target)
    }

    /// Coordinates of listed cells in the variable of an input. If it has steps, the step comes first.
    pub(super) fn own_cells(&self, number: usize, places: &[Place]) -> Vec<u64> {
        let input = &self.inputs[number];
        let steps = input.reading().is_some_and(|reading| reading.variable().steps);
        let mut coords = Vec::with_capacity(places.len() * (input.axes.len() + 1));
        for place in places {
            if steps {
                coords.push(self.step);
            }
            coords.extend(input.axes.iter().map(|axis| self.cells.axes[*axis].cell(place[*axis])));
        }
        coords
    }

    /// A bit per cell of a box of the grid that says whether it was written, `None` if all were. Also returns whether
    /// any was.
    pub(super) fn written_in(
        &self,
        number: usize,
        lo: &Place,
        hi: &Place,
    ) -> Result<(Option<Vec<u64>>, bool)> {
        let (input, zones) = (&self.inputs[number], &self.zones[number]);
        if !zones.has_voids {
            return Ok((None, true));
        }
        if input.reading().is_some_and(Reading::is_derived) {
            return Ok((self.known_in(number, lo, hi)?, true));
        }
        let shape = extents(lo, hi, self.grid.shape.len());
        let cells = shape.iter().product::<u64>() as usize;
        let (own_lo, own_hi) = self.own(number, lo, hi);
        let (mut written, mut any) = (None, false);
        for zone in zones.meeting(&own_lo, &own_hi) {
            if zone.stored.is_some() {
                any = true;
                continue;
            }
            let mask = written.get_or_insert_with(|| vec![u64::MAX; bits::words(cells)]);
            let (mut first, mut count) = (vec![0; shape.len()], shape.clone());
            for (d, axis) in input.axes.iter().enumerate() {
                let (from, to) = (zone.lo[d].max(lo[*axis]), zone.hi[d].min(hi[*axis]));
                (first[*axis], count[*axis]) = (from - lo[*axis], to - from);
            }
            bits::each_row(&shape, &first, &count, |at, _, len| bits::put_run(mask, at, len, false));
        }
        Ok((written, any))
    }

    /// A bit per listed cell that says whether it was written. `None` if all were.
    pub(super) fn written_at(&self, number: usize, places: &[Place]) -> Result<Option<Vec<u64>>> {
        let zones = &self.zones[number];
        if !zones.has_voids || places.is_empty() {
            return Ok(None);
        }
        if let Some(reading) = self.inputs[number].reading().filter(|reading| reading.is_derived()) {
            let ndim = self.inputs[number].axes.len() + usize::from(reading.variable().steps);
            let known = match ndim {
                0 => self
                    .known_in(number, &places[0], &places[0].map(|at| at + 1))?
                    .map(|_| vec![0; places.len()]),
                ndim => reading.known_at(&Listing::points(ndim, self.own_cells(number, places)))?,
            };
            return Ok(known.map(|known| bits::packed(&known)));
        }
        let mut mask = vec![0; bits::words(places.len())];
        for (n, place) in places.iter().enumerate() {
            let end = place.map(|at| at + 1);
            let (lo, hi) = self.own(number, place, &end);
            let written = zones.meeting(&lo, &hi).any(|zone| zone.stored.is_some());
            mask[n / 64] |= u64::from(written) << (n % 64);
        }
        Ok(Some(mask))
    }

    /// Writes the indices of cells along an axis, or the step numbers.
    fn count(&self, origin: &Origin, axis: Option<usize>, lo: &Place, shape: &[u64], out: &mut Values) {
        let Values::I8(values) = out else { return };
        let (Origin::Place, Some(axis)) = (origin, axis) else {
            values.fill(self.step as i64);
            return;
        };
        let inner: u64 = shape[axis + 1..].iter().product();
        let along = &self.cells.axes[axis];
        for (n, run) in values.chunks_mut(inner.max(1) as usize).enumerate() {
            run.fill(along.cell(lo[axis] + n as u64 % shape[axis].max(1)) as i64);
        }
    }
}
