//! Statistics of derived variables: the bounds of their inputs, propagated through the definition.
//!
//! Nothing is stored for this. If a value needs more than its own cell, it has no bounds until it is computed.

use std::sync::Arc;

use drystone_expression::Scratch;
use drystone_format::MAX_NDIM;
use drystone_format::derived::Kind;
use drystone_format::entry::Stats;
use drystone_plan::selection::{Axis, Selection};

use super::bits;
use super::column::Values;
use super::inputs::Loaded;
use super::names::{Grid, Input, Origin};
use super::place::{Place, extents};
use super::plan::{Deep, Known, ZoneSet};
use crate::base::array::Target;
use crate::read::{ReadReport, Reading, StoredZone, Zone, Zones};
use crate::{Error, Result};

/// The zones of a reading at a step, for a selection without the step axis.
pub(super) fn zone_set(reading: &Reading, step: u64, cells: &Selection) -> Result<ZoneSet> {
    if !reading.is_derived() {
        return Ok(ZoneSet::new(reading.zones(step, cells)?));
    }
    if reading.is_absent(step)? {
        return Ok(ZoneSet::default());
    }
    if let Some(stored) = reading.current(step, cells)? {
        return own_zones(reading, &stored, step, cells);
    }
    let unsure = reading.may_be_unknown(step, cells)?;
    let Some((program, parts)) = reading.parts()? else {
        let hi = ends(&cells.shape());
        return Ok(ZoneSet::new(zones(vec![(zone_of([0; MAX_NDIM], hi), 0, true)])).computed(unsure, None));
    };
    let shape = reading.variable().shape.clone();
    let (mut inputs, mut sets) = (Vec::new(), Vec::new());
    for part in parts {
        let origin = match (part.reading, part.axes.first()) {
            (Some(reading), _) => Origin::Stored(Box::new(reading)),
            (None, Some(_)) => Origin::Place,
            (None, None) => Origin::Step,
        };
        sets.push(match &origin {
            Origin::Stored(reading) => {
                let axes = part.axes.iter().map(|axis| cells.axes[*axis]).collect();
                Arc::new(zone_set(reading, step, &Selection { axes })?)
            }
            Origin::Place | Origin::Step => Arc::default(),
        });
        inputs.push(Input { name: part.name, dtype: part.dtype, origin, axes: part.axes });
    }
    let grid = Grid { shape, dims: Vec::new(), steps: reading.variable().steps, step_axis: 0 };
    let deep = Deep { program, inputs, zones: sets, grid, cells: cells.clone(), step };
    let found = deep.boxes();
    Ok(ZoneSet::new(zones(found)).computed(unsure, Some(Arc::new(deep))))
}

/// The zones of stored values, all of which are current. If only statistics are stored, the bytes are those of the
/// inputs, in proportion.
fn own_zones(reading: &Reading, stored: &Reading, step: u64, cells: &Selection) -> Result<ZoneSet> {
    let mut found = stored.zones(step, cells)?;
    if reading.stored_kind() == Some(Kind::Bounds) {
        let mut selection = cells.clone();
        if reading.variable().steps {
            selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
        }
        let all = cells.cells().unwrap_or(u64::MAX).max(1) as f64;
        let bytes = reading.explain(&selection)?.read_bytes as f64;
        for stored in found.all.iter_mut().filter_map(|zone| zone.stored.as_mut()) {
            stored.bytes = (bytes * stored.cells as f64 / all).ceil() as u64;
            stored.raw = true;
        }
    }
    Ok(ZoneSet::new(found).own())
}

impl Deep {
    /// The values of a box. The inputs are read as the query reads its own, and nothing else is read.
    pub(super) fn compute(&self, lo: &Place, hi: &Place, out: &mut Loaded) -> Result<ReadReport> {
        let known = self.known();
        let Loaded { values, written, of, scratch } = out;
        if of.len() != self.inputs.len() {
            *of = self.inputs.iter().map(|input| Loaded::new(input.dtype)).collect();
        }
        let mut report = ReadReport::default();
        for (number, loaded) in of.iter_mut().enumerate() {
            report.join(&known.load(number, lo, hi, loaded)?);
        }
        let cells = extents(lo, hi, self.grid.shape.len()).iter().product::<u64>() as usize;
        values.resize(cells);
        let given: Vec<_> = of.iter().map(Loaded::given).collect();
        let scratch = scratch.get_or_insert_with(|| Scratch::new(&self.program));
        let mut mask = vec![0; bits::words(cells)];
        let done = self.program.compute(&given, cells, scratch, values.column_mut(), &mut mask);
        done.map_err(|error| Error::invalid(error.to_string()))?;
        *written = of.iter().any(|loaded| loaded.written.is_some()).then_some(mask);
        Ok(report)
    }

    /// The zones of the input that has the most zones, with the bytes of all inputs, and whether parts can be read
    /// separately.
    /// separately.
    fn boxes(&self) -> Vec<(Zone, u64, bool)> {
        let straight = (0..self.inputs.len()).filter(|n| self.inputs[*n].is_straight(&self.grid));
        let lines = straight.max_by_key(|n| self.zones[*n].all().len()).map(|n| self.zones[n].all());
        let whole = [zone_of([0; MAX_NDIM], ends(&self.cells.shape()))];
        let known = self.known();
        let of = |zone: &Zone| {
            let (mut bytes, mut raw) = (0u64, true);
            for number in 0..self.inputs.len() {
                let (lo, hi) = known.own(number, &zone.lo, &zone.hi);
                for stored in self.zones[number].meeting(&lo, &hi).filter_map(|zone| zone.stored) {
                    bytes = bytes.saturating_add(stored.bytes);
                    raw &= stored.raw;
                }
            }
            (zone_of(zone.lo, zone.hi), bytes, raw)
        };
        lines.unwrap_or(&whole).iter().map(of).collect()
    }
}

fn zone_of(lo: Place, hi: Place) -> Zone {
    Zone { lo, hi, stored: None }
}

fn zones(found: Vec<(Zone, u64, bool)>) -> Zones {
    let of = |(zone, bytes, raw): (Zone, u64, bool)| {
        let (stats, age) = (Stats::default(), (0, 0, 0));
        let stored = StoredZone { stats, cells: zone.cells(), bytes, raw, index: None, age };
        Zone { stored: Some(stored), ..zone }
    };
    Zones { all: found.into_iter().map(of).collect(), indexed: Vec::new() }
}

fn ends(shape: &[u64]) -> Place {
    let mut hi = [1; MAX_NDIM];
    shape.iter().zip(&mut hi).for_each(|(n, hi)| *hi = *n);
    hi
}

impl Known<'_> {
    /// The known cells of a box of the grid, for a derived input.
    pub(super) fn known_in(&self, number: usize, lo: &Place, hi: &Place) -> Result<Option<Vec<u64>>> {
        let input = &self.inputs[number];
        let Origin::Stored(reading) = &input.origin else { return Ok(None) };
        let shape = extents(lo, hi, self.grid.shape.len());
        let (own_lo, own_hi) = self.own(number, lo, hi);
        let own_shape = extents(&own_lo, &own_hi, input.axes.len());
        let selection = self.selected(number, &own_lo, &own_shape);
        let (item, count) = (reading.item() as usize, own_shape.iter().product::<u64>() as usize);
        let mut values = vec![0; count * item];
        let out = Target::dense(&mut values, &selection.shape(), item)?;
        let known = reading.read_known(&selection, &out)?.1;
        Ok(self.mask(number, &own_shape, &shape, known))
    }

    /// The cells of a box of an input. If the input has steps, the step comes first.
    pub(super) fn selected(&self, number: usize, own_lo: &Place, own_shape: &[u64]) -> Selection {
        let input = &self.inputs[number];
        let mut axes: Vec<Axis> = Vec::with_capacity(own_shape.len() + 1);
        if input.reading().is_some_and(|reading| reading.variable().steps) {
            axes.push(Axis { start: self.step, step: 1, count: 1 });
        }
        for (d, axis) in input.axes.iter().enumerate() {
            let along = &self.cells.axes[*axis];
            axes.push(Axis { start: along.cell(own_lo[d]), step: along.step, count: own_shape[d] });
        }
        Selection { axes }
    }

    /// Spreads a byte per cell of a box of an input over the box of the grid.
    fn spread(&self, number: usize, own_shape: &[u64], shape: &[u64], known: Vec<u8>) -> Vec<u8> {
        if self.inputs[number].is_straight(self.grid) {
            return known;
        }
        let mut out = Values::U1(Vec::new());
        Values::U1(known).spread(shape, &self.strides(number, own_shape), &mut out);
        match out {
            Values::U1(out) => out,
            _ => Vec::new(),
        }
    }

    /// Converts bytes of a box of an input into bits of the box of the grid.
    pub(super) fn mask(
        &self,
        number: usize,
        own: &[u64],
        shape: &[u64],
        known: Option<Vec<u8>>,
    ) -> Option<Vec<u64>> {
        known.map(|known| bits::packed(&self.spread(number, own, shape, known)))
    }
}
