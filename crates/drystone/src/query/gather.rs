//! Values of a variable at listed cells: those that lie close together are read as a box, others one by one.

use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_plan::listing::Listing;
use drystone_plan::selection::{Axis, Selection};

use super::inputs::Place;
use super::names::Origin;
use super::plan::Known;
use super::run::{Costs, share};
use crate::Result;
use crate::base::array::Target;

/// A box is read where one of so many of its cells is asked for.
const DENSE: u64 = 32;
/// Cells that are listed together.
const LISTED: usize = 8192;

/// What is read at once.
enum Group {
    /// Cells of a box, by their numbers among those asked for.
    Box(Place, Place, Vec<u32>),
    Listed(Vec<u32>),
}

impl Known<'_> {
    /// The elements of an input at listed cells, one after the other. Cells that nobody wrote have the fill value.
    pub(super) fn gather(&self, number: usize, places: &[Place], costs: &Costs) -> Result<Vec<u8>> {
        let input = &self.inputs[number];
        let Origin::Stored(reading) = &input.origin else {
            let axis = input.axes.first().map(|axis| (*axis, &self.cells.axes[*axis]));
            let at = |place: &Place| axis.map_or(self.step, |(axis, along)| along.cell(place[axis]));
            return Ok(places.iter().flat_map(|place| at(place).to_le_bytes()).collect());
        };
        let item = reading.item() as usize;
        let ndim = input.axes.len();
        let steps = reading.variable().steps;
        let mut groups: BTreeMap<Place, Vec<u32>> = BTreeMap::new();
        let grain = self.grain(number);
        let mut last: Option<(Place, Vec<u32>)> = None;
        let own = |place: &Place| {
            let mut out = [0; MAX_NDIM];
            input.axes.iter().zip(&mut out).for_each(|(axis, out)| *out = place[*axis]);
            out
        };
        for (n, place) in places.iter().enumerate() {
            let mut key = own(place);
            key.iter_mut().zip(&grain).for_each(|(at, grain)| *at /= grain);
            match &mut last {
                Some((known, cells)) if *known == key => cells.push(n as u32),
                _ => {
                    if let Some((known, mut cells)) = last.take() {
                        groups.entry(known).or_default().append(&mut cells);
                    }
                    last = Some((key, vec![n as u32]));
                }
            }
        }
        if let Some((known, mut cells)) = last.take() {
            groups.entry(known).or_default().append(&mut cells);
        }
        let (mut work, mut single) = (Vec::new(), Vec::new());
        for cells in groups.into_values() {
            let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
            for cell in &cells {
                for (d, at) in own(&places[*cell as usize]).into_iter().enumerate() {
                    (lo[d], hi[d]) = (lo[d].min(at), hi[d].max(at + 1));
                }
            }
            let room = (0..ndim).fold(1u64, |n, d| n.saturating_mul(hi[d] - lo[d]));
            if ndim == 0 || (cells.len() as u64).saturating_mul(DENSE) >= room {
                work.push(Group::Box(lo, hi, cells));
            } else {
                single.extend(cells);
            }
        }
        work.extend(single.chunks(LISTED).map(|cells| Group::Listed(cells.to_vec())));
        let read = share(
            self.at_once(),
            work.len(),
            || (),
            |(), n| match &work[n] {
                Group::Box(lo, hi, cells) => {
                    let shape: Vec<u64> = (0..ndim).map(|d| hi[d] - lo[d]).collect();
                    let mut axes: Vec<Axis> = Vec::with_capacity(ndim + 1);
                    axes.extend(steps.then_some(Axis { start: self.step, step: 1, count: 1 }));
                    for (d, axis) in input.axes.iter().enumerate() {
                        let along = &self.cells.axes[*axis];
                        axes.push(Axis { start: along.cell(lo[d]), step: along.step, count: shape[d] });
                    }
                    let selection = Selection { axes };
                    let mut buffer = vec![0; shape.iter().product::<u64>() as usize * item];
                    let target = Target::dense(&mut buffer, &selection.shape(), item)?;
                    costs.add(&reading.read_unnoted(&selection, &target)?);
                    drop(target);
                    let mut out = Vec::with_capacity(cells.len() * item);
                    for cell in cells {
                        let at = own(&places[*cell as usize]);
                        let inside = (0..ndim).fold(0, |n, d| n * shape[d] + (at[d] - lo[d])) as usize * item;
                        out.extend_from_slice(buffer.get(inside..inside + item).unwrap_or_default());
                    }
                    Ok(out)
                }
                Group::Listed(cells) => {
                    let some: Vec<Place> = cells.iter().map(|cell| places[*cell as usize]).collect();
                    let coords = self.own_cells(number, &some);
                    let mut buffer = vec![0; some.len() * item];
                    let target = Target::dense(&mut buffer, &[some.len() as u64], item)?;
                    let listing = Listing::points(ndim + usize::from(steps), coords);
                    costs.add(&reading.read_listed_unnoted(&listing, &target)?);
                    drop(target);
                    Ok(buffer)
                }
            },
        )?;
        let mut out = vec![0; places.len() * item];
        for (group, values) in work.iter().zip(read) {
            let (Group::Box(_, _, cells) | Group::Listed(cells)) = group;
            for (cell, value) in cells.iter().zip(values.chunks_exact(item.max(1))) {
                out[*cell as usize * item..][..item].copy_from_slice(value);
            }
        }
        Ok(out)
    }

    /// The extents of the largest zone of an input, at least 1 along each axis.
    fn grain(&self, number: usize) -> Place {
        let stored = self.zones[number].all().iter().filter(|zone| zone.stored.is_some());
        let largest = stored.max_by_key(|zone| zone.cells());
        largest.map_or([u64::MAX; MAX_NDIM], |zone| {
            std::array::from_fn(|d| zone.hi[d].saturating_sub(zone.lo[d]).max(1))
        })
    }
}
