//! Reads points, index lists and masks; plans reads once; cuts selections into pieces.
//!
//! A listing is planned in batches of listed cells and steps. This bounds the memory of plans, however many cells are
//! requested.

use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::layout::Layout;
use drystone_plan::listing::{AtSteps, Listing, batches, progressions};
use drystone_plan::read_plan::{self, ReadPlan, Slot};
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tiles::{Grain, Tiles, planes_together};

use super::execute;
use super::execute::trailers;
use super::sources::Sources;
use super::strings::{Holder, Records};
use super::{BATCH, Prepared, ReadReport, Reading, Sought};
use crate::base::array::Target;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The number of listed cells that are planned at a time: about 16 MiB of plan if each cell lies in its own subchunk.
const LISTED: usize = 1 << 15;
/// The most steps of a plan that is kept for repeated reads.
const KEPT_STEPS: u64 = 1 << 12;

impl Reading {
    pub(super) fn read_listed(&self, listing: &Listing, out: &Target<'_>) -> Result<ReadReport> {
        self.note_listing(listing);
        self.inner.unless_cached(|| self.read_cells(listing, out)).map_err(|e| self.reason(e))
    }

    pub(super) fn read_cells(&self, listing: &Listing, out: &Target<'_>) -> Result<ReadReport> {
        self.check_listing(listing)?;
        self.check_target(&listing.shape(), out)?;
        self.require_no_strings()?;
        if let Some(computed) = self.computed()? {
            return self.read_computed_cells(&computed, listing, out, None);
        }
        let sources = Sources::of(self);
        let mut report = ReadReport::default();
        self.each_batch(listing, &mut |prepared| {
            let carried = execute::run(self, &prepared, 0, out, &sources)?;
            report.add_carried(&prepared.plan, carried);
            Ok(())
        })?;
        Ok(report)
    }

    pub(super) fn blobs_at(&self, listing: &Listing) -> Result<(Holder, ReadReport)> {
        self.check_listing(listing)?;
        let mut out = self.no_values(listing.cells())?;
        let mut report = ReadReport::default();
        self.each_batch(listing, &mut |prepared| {
            report.add(&prepared.plan);
            self.blobs_of_listed(&prepared, &listing.shape(), &mut out)
        })?;
        Ok((out, report))
    }

    pub(super) fn explain_listed(&self, listing: &Listing) -> Result<ReadPlan> {
        self.check_listing(listing)?;
        let mut plan = ReadPlan::default();
        if let Some(computed) = self.computed()?.filter(|_| !listing.is_empty()) {
            plan = self.explain_computed(&computed, &listing.enclosing())?;
        } else if !listing.is_empty() {
            plan = self.explained(&|reading| reading.prepare_listed(reading.at_steps(listing)))?;
        }
        let legs: Vec<String> = listing.shape().iter().map(u64::to_string).collect();
        plan.title = format!("{} {{{} cells}}", self.path, legs.join(" x "));
        Ok(plan)
    }

    /// Plans a read once, to be executed any number of times. If the plan is too large to be kept, each execution
    /// plans again.
    pub fn planned(&self, wanted: Wanted) -> Result<Planned> {
        let prepared = match &wanted {
            // The inputs are planned tile by tile when they are read.
            _ if self.computed()?.is_some() => {
                match &wanted {
                    Wanted::Box(selection) => self.check_selection(selection)?,
                    Wanted::Listed(listing) => self.check_listing(listing)?,
                }
                None
            }
            Wanted::Box(selection) => {
                self.check_selection(selection)?;
                let (steps, cells) = self.split(selection);
                let small = !selection.is_empty() && steps.count <= KEPT_STEPS;
                if small { Some(self.sought(&steps, &cells)?) } else { None }
                    .filter(|sought| sought.candidates() <= BATCH)
                    .map(|sought| self.plan(sought))
                    .transpose()?
            }
            Wanted::Listed(listing) => {
                self.check_listing(listing)?;
                let small = listing.legs.iter().all(|leg| leg.count() <= KEPT_STEPS);
                (small && !listing.is_empty())
                    .then(|| self.prepare_listed(self.at_steps(listing)))
                    .transpose()?
                    .filter(|made| made.plan.works.len() <= BATCH)
            }
        };
        Ok(Planned { reading: self.clone(), wanted, prepared })
    }

    /// Cuts a selection into pieces of at most `most` cells, along the lines in which its blocks are cut. Blocks
    /// whose planes can be read separately are cut across, so that a piece has as many whole rows as possible.
    ///
    /// `in_rows` is for a file that holds the selection row by row. If planes can be read separately, each piece then
    /// lies in one place of the file. A piece is as short as reads stay fast, and has at least `in_rows` bytes.
    pub fn tiles(&self, selection: &Selection, most: u64, in_rows: Option<u64>) -> Result<Tiles> {
        self.check_selection(selection)?;
        match in_rows {
            Some(least) => self.tiles_in_rows(selection, most, least),
            None => Ok(Tiles::new(selection, &self.grain(selection)?.0, most)),
        }
    }

    /// The lines along which blocks are cut, and the number of cells of a subchunk if subchunks can only be read
    /// whole.
    pub(super) fn grain(&self, selection: &Selection) -> Result<(Vec<Grain>, Option<u64>)> {
        let (mut grain, largest) = self.steps_apart(selection)?;
        if let Some(entry) = &largest {
            let own = entry.offset.iter().zip(&entry.cut).take(selection.axes.len() - grain.len());
            grain.extend(own.map(|(offset, cut)| Grain { phase: *offset, length: *cut }));
            let first = usize::from(self.variable.steps);
            if let [slowest, rows @ ..] = &mut grain[first..]
                && planes_lie_apart(entry)
                && !rows.is_empty()
            {
                let item = u64::from(entry.encoding.item);
                let plane = rows.iter().fold(item, |bytes, row| bytes.saturating_mul(row.length));
                slowest.length = planes_together(slowest.length, plane);
            }
        }
        let whole = largest.filter(|entry| !planes_lie_apart(entry));
        let cells = whole
            .map(|e| e.cut.iter().take(e.ndim.into()).fold(1u64, |n, cut| n.saturating_mul((*cut).max(1))));
        Ok((grain, cells))
    }

    fn tiles_in_rows(&self, selection: &Selection, most: u64, least: u64) -> Result<Tiles> {
        let (mut grain, largest) = self.steps_apart(selection)?;
        match largest {
            Some(entry) if planes_lie_apart(&entry) => {
                let first = grain.len();
                let whole =
                    |axis: usize| Grain { phase: 0, length: if axis == first { 1 } else { u64::MAX } };
                grain.extend((first..selection.axes.len()).map(whole));
                let own = selection.axes.iter().skip(first + 1);
                let plane = own.fold(1u64, |cells, axis| cells.saturating_mul(axis.count));
                let fewest = cells_in_rows(&entry, selection.axes.len() - first, plane)
                    .max(least / u64::from(self.item.max(1)));
                Ok(Tiles::new(selection, &grain, most.min(fewest)))
            }
            _ => self.tiles(selection, most, None),
        }
    }

    /// The lines between steps, and the largest block of the selection's first step, or else of its last step.
    fn steps_apart(&self, selection: &Selection) -> Result<(Vec<Grain>, Option<Entry>)> {
        let grain = if self.variable.steps { vec![Grain { phase: 0, length: 1 }] } else { Vec::new() };
        if selection.is_empty() {
            return Ok((grain, None));
        }
        if self.is_derived() {
            let Some((input, wanted)) = self.alike_whole(selection)? else { return Ok((grain, None)) };
            return Ok((grain, input.steps_apart(&wanted)?.1));
        }
        let (steps, cells) = self.split(selection);
        let ends = [steps.start, steps.cell(steps.count - 1)];
        let mut largest: Option<Entry> = None;
        for step in ends {
            let one = Axis { start: step, step: 1, count: 1 };
            for entry in self.entries(&one, cells.bounds())?.into_values().flatten() {
                let bytes = |e: &Entry| e.count.iter().fold(1u64, |n, c| n.saturating_mul((*c).max(1)));
                if largest.as_ref().is_none_or(|l| bytes(l) < bytes(&entry)) {
                    largest = Some(entry);
                }
            }
            if largest.is_some() {
                break;
            }
        }
        Ok((grain, largest))
    }

    fn check_listing(&self, listing: &Listing) -> Result<()> {
        self.require_array()?;
        if !listing.check(&self.shape()) {
            return Err(Error::new(
                crate::ErrorKind::OutOfRange,
                format!(
                    "some of the requested cells are not in \"{}\", of shape {:?}",
                    self.path,
                    self.shape()
                ),
            ));
        }
        Ok(())
    }

    /// Plans the listing batch by batch, and passes on each plan.
    fn each_batch(&self, listing: &Listing, act: &mut dyn FnMut(Prepared) -> Result<()>) -> Result<()> {
        if listing.is_empty() {
            return Ok(());
        }
        for part in batches(listing, self.variable.steps, LISTED) {
            if !self.variable.steps {
                act(self.prepare_listed(vec![(0, part)])?)?;
                continue;
            }
            let divided = AtSteps::new(&part);
            let keys: Vec<u64> = divided.steps().map(|step| step + 1).collect();
            let (mut from, mut batch) = (0, 64);
            while from < keys.len() {
                let to = keys.len().min(from + batch);
                let some = (from..to).map(|i| (keys[i], divided.at(i))).collect();
                let prepared = self.prepare_listed(some)?;
                let found: usize = prepared.slots.iter().map(|s| s.candidates.len()).sum();
                act(prepared)?;
                from = to;
                batch = if found < BATCH / 2 { (batch * 2).min(1 << 14) } else { (batch / 2).max(1) };
            }
        }
        Ok(())
    }

    /// Splits a listing by key step.
    fn at_steps(&self, listing: &Listing) -> Vec<(u64, Listing)> {
        if !self.variable.steps {
            return vec![(0, listing.clone())];
        }
        let divided = AtSteps::new(listing);
        divided.steps().enumerate().map(|(i, step)| (step + 1, divided.at(i))).collect()
    }

    /// Plans listings within steps. They are given by ascending key step.
    fn prepare_listed(&self, wanted: Vec<(u64, Listing)>) -> Result<Prepared> {
        self.by_log_or(&|reading| reading.plan_listings(wanted.clone()))
    }

    fn plan_listings(&self, wanted: Vec<(u64, Listing)>) -> Result<Prepared> {
        let boxes: Vec<Selection> = wanted.iter().map(|(_, listing)| listing.enclosing()).collect();
        let mut bounds: Option<([u64; MAX_NDIM], [u64; MAX_NDIM])> = None;
        for (lo, hi) in boxes.iter().filter_map(Selection::bounds) {
            let (low, high) = bounds.get_or_insert((lo, hi));
            for d in 0..MAX_NDIM {
                (low[d], high[d]) = (low[d].min(lo[d]), high[d].max(hi[d]));
            }
        }
        let mut entries = BTreeMap::new();
        let keys: Vec<u64> = wanted.iter().map(|(key, _)| *key).collect();
        for run in progressions(&keys) {
            let steps = Axis { start: run.start.saturating_sub(1), ..run };
            entries.append(&mut self.entries(&steps, bounds)?);
        }
        let columns = self.columns(entries.values().flatten());
        let (mut slots, mut listings): (Vec<Slot>, Vec<Listing>) = (Vec::new(), Vec::new());
        for ((key, listing), cells) in wanted.into_iter().zip(boxes) {
            let mut found: Vec<Entry> = entries.remove(&key).unwrap_or_default();
            if self.has_blobs() {
                found.retain(|entry| entry.encoding.replica == 0);
            }
            let mut found = self.candidates(found);
            if let Some(shelf) = &self.shelf {
                for member in shelf.members() {
                    shelf.offer_listed(self, member, key, found.entry(member).or_default(), &cells)?;
                }
            }
            self.slots_of(&columns, found, &cells, &mut slots);
            listings.resize(slots.len(), listing);
        }
        let plan = |columns, slots| self.plan_listed(columns, slots, listings.clone());
        self.cheapest(Sought { columns, slots }, &plan)
    }

    /// Plans one listing per slot, with all candidates of the slot.
    fn plan_listed(
        &self,
        columns: Vec<Column>,
        slots: Vec<Slot>,
        listings: Vec<Listing>,
    ) -> Result<Prepared> {
        let sources = Sources::of(self);
        let fail = |e| self.plan_error(&slots, &sources, e);
        let found = read_plan::find(&slots, &listings).map_err(fail)?;
        let tables = self.tables(&slots, &found.resolved, &sources)?;
        let get = |slot, candidate| tables.get(&(slot, candidate)).map_or(&[][..], |t| t.as_slice());
        let options = self.options();
        let mut plan =
            read_plan::plan_listings(&slots, &listings, &found, get, |_, _| None, &options).map_err(fail)?;
        if !plan.unknown.is_empty() {
            let known = trailers::for_plan(self, &sources, &plan.unknown)?;
            let meta = |source: u32, piece: &StoredPiece| Some(known.get(source, piece)?.meta.as_slice());
            plan = read_plan::plan_listings(&slots, &listings, &found, get, meta, &options).map_err(fail)?;
        }
        Ok(Prepared { columns, slots, listings, resolved: found.resolved, plan })
    }

    /// The plan of the same read from the originals only, without replicas.
    pub(super) fn without_replicas(&self, prepared: &Prepared) -> Result<Prepared> {
        let (columns, slots) = (prepared.columns.clone(), read_plan::offered(&prepared.slots, 0));
        match prepared.listings.is_empty() {
            true => self.plan_one(columns, slots),
            false => self.plan_listed(columns, slots, prepared.listings.clone()),
        }
    }
}

/// The cells that a planned read selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// A strided box.
    Box(Selection),
    /// Listed cells.
    Listed(Listing),
}

impl From<Listing> for Wanted {
    /// A box if the legs form one.
    fn from(listing: Listing) -> Self {
        listing.as_box().map_or(Wanted::Listed(listing), Wanted::Box)
    }
}

impl Wanted {
    /// The shape of what is read.
    pub fn shape(&self) -> Vec<u64> {
        match self {
            Wanted::Box(selection) => selection.shape(),
            Wanted::Listed(listing) => listing.shape(),
        }
    }
}

/// A read that was planned once. It keeps its snapshot; several threads may execute it at once.
pub struct Planned {
    reading: Reading,
    wanted: Wanted,
    prepared: Option<Prepared>,
}

impl Planned {
    /// The cells that it reads.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The cost of the read; `None` if its plan is too large to be kept.
    pub(crate) fn cost(&self) -> Option<ReadReport> {
        let mut report = ReadReport::default();
        report.add(&self.prepared.as_ref()?.plan);
        Some(report)
    }

    /// Reads into `out`, which has the shape of the selection. Errors are those of [`Reading::read`].
    pub fn read(&self, out: &Target<'_>) -> Result<ReadReport> {
        let reading = &self.reading;
        let Some(prepared) = &self.prepared else {
            return reading.read(&self.wanted, out);
        };
        reading.require_no_strings()?;
        reading.check_target(&self.wanted.shape(), out)?;
        reading.inner.require_open()?;
        match &self.wanted {
            Wanted::Box(selection) => reading.note_box(selection),
            Wanted::Listed(listing) => reading.note_listing(listing),
        }
        let run = execute::run(reading, prepared, 0, out, &Sources::of(reading));
        let carried = run.map_err(|e| reading.reason(e))?;
        let mut report = ReadReport::default();
        report.add_carried(&prepared.plan, carried);
        Ok(report)
    }

    /// Reads a string variable: one value per cell in row-major order.
    pub fn read_strings(&self) -> Result<Vec<Vec<u8>>> {
        Ok(self.reading.read_strings(&self.wanted)?.0)
    }

    /// Reads records with members of any length.
    pub fn read_records(&self) -> Result<Records> {
        Ok(self.reading.read_records(&self.wanted)?.0)
    }

    /// The plan.
    pub fn explain(&self) -> Result<ReadPlan> {
        self.reading.explain(&self.wanted)
    }
}

/// Whether planes of this block's subchunks can be read separately: the subchunks are stored raw, row by row.
fn planes_lie_apart(entry: &Entry) -> bool {
    entry.encoding.chain.is_empty() && entry.encoding.layout == Layout::Dense
}

/// The fewest cells that are read fast together, in planes of this many cells. Their part of each subchunk is then a
/// long run.
fn cells_in_rows(entry: &Entry, ndim: usize, plane: u64) -> u64 {
    const RUN: u64 = 32 << 10;
    let own = u64::from(entry.encoding.item);
    let rows = entry.cut.iter().take(ndim).skip(1).fold(own, |bytes, edge| bytes.saturating_mul(*edge));
    let planes = RUN.div_ceil(rows.max(1)).min(entry.cut.first().copied().unwrap_or(1));
    planes.saturating_mul(plane)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use drystone_format::entry::Encoding;

    use super::*;

    #[test]
    fn planes_of_encoded_blocks_cannot_be_read_separately() {
        for (chain, expected) in [("", true), ("zstd", false), ("shuffle,lz4", false)] {
            let encoding = Encoding { chain: chain.to_owned(), item: 8, ..Encoding::default() };
            assert_eq!(
                planes_lie_apart(&Entry { encoding: Arc::new(encoding), ..Entry::default() }),
                expected
            );
        }
    }
}
