//! The verbs of a reading: `read`, `read_strings`, `read_records` and `explain` take any selection.

use drystone_plan::layout::Device;
use drystone_plan::listing::Listing;
use drystone_plan::read_plan::ReadPlan;
use drystone_plan::selection::Selection;
use drystone_transform::Precision;

use super::blocks::Written;
use super::listing::Wanted;
use super::strings::{Holder, Records};
use super::{Prepared, ReadReport, Reading, execute, published};
use crate::Result;
use crate::base::array::Target;

/// The selected cells. References to the three kinds of selections convert by `into`.
#[derive(Clone, Copy)]
pub enum Selected<'a> {
    /// A strided box, step axis first.
    Box(&'a Selection),
    /// Listed cells, step axis first; what is read has one axis per leg.
    Listed(&'a Listing),
    /// One block exactly as it was written, whatever overlaps it.
    Block(&'a Written),
}

impl<'a> From<&'a Selection> for Selected<'a> {
    fn from(selection: &'a Selection) -> Self {
        Selected::Box(selection)
    }
}

impl<'a> From<&'a Listing> for Selected<'a> {
    fn from(listing: &'a Listing) -> Self {
        Selected::Listed(listing)
    }
}

impl<'a> From<&'a Written> for Selected<'a> {
    fn from(block: &'a Written) -> Self {
        Selected::Block(block)
    }
}

impl<'a> From<&'a Wanted> for Selected<'a> {
    fn from(wanted: &'a Wanted) -> Self {
        match wanted {
            Wanted::Box(selection) => Selected::Box(selection),
            Wanted::Listed(listing) => Selected::Listed(listing),
        }
    }
}

impl Reading {
    /// Reads cells into `out`, which has the shape of the selection.
    ///
    /// Errors: `OutOfRange`, `InvalidArgument` (shape or element size of `out`), `Corrupt` (naming file and offset),
    /// `Io`.
    pub fn read<'a>(&self, cells: impl Into<Selected<'a>>, out: &Target<'_>) -> Result<ReadReport> {
        match cells.into() {
            Selected::Box(selection) => self.read_selection(selection, out),
            Selected::Listed(listing) => self.read_listed(listing, out),
            Selected::Block(block) => self.read_written(block, out),
        }
    }

    /// Reads cells of a string variable or member: one value per cell in row-major order, those of a member that is an
    /// array cell by cell; empty where nothing was written.
    pub fn read_strings<'a>(&self, cells: impl Into<Selected<'a>>) -> Result<(Vec<Vec<u8>>, ReadReport)> {
        self.require_strings()?;
        Ok(Self::only_values(self.blobs_of_cells(cells.into())?))
    }

    /// Reads cells of records with members of any length, which are empty where nothing was written.
    pub fn read_records<'a>(&self, cells: impl Into<Selected<'a>>) -> Result<(Records, ReadReport)> {
        Ok(self.as_records(self.blobs_of_cells(cells.into())?))
    }

    fn blobs_of_cells(&self, cells: Selected<'_>) -> Result<(Holder, ReadReport)> {
        match cells {
            Selected::Box(selection) => self.blobs_in(selection),
            Selected::Listed(listing) => self.blobs_at(listing),
            Selected::Block(block) => self.blobs_of_block(block),
        }
        .map_err(|e| self.reason(e))
    }

    /// The plan by which [`Reading::read`] would read these cells.
    pub fn explain<'a>(&self, cells: impl Into<Selected<'a>>) -> Result<ReadPlan> {
        match cells.into() {
            Selected::Box(selection) => self.explain_box(selection),
            Selected::Listed(listing) => self.explain_listed(listing),
            Selected::Block(block) => self.explain_block(block),
        }
    }

    pub(super) fn read_selection(&self, selection: &Selection, out: &Target<'_>) -> Result<ReadReport> {
        self.note_box(selection);
        self.check_read(selection, out)?;
        let read = || self.inner.unless_cached(|| self.read_box(selection, out));
        self.predicted_before(selection, read).map_err(|e| self.reason(e))
    }

    /// The bytes that a read of a box takes, with checksums and tables.
    pub(crate) fn planned_bytes(&self, selection: &Selection) -> Result<u64> {
        if selection.is_empty() {
            return Ok(0);
        }
        if let Some(computed) = self.computed()? {
            return Ok(self.explain_computed(&computed, selection)?.read_bytes);
        }
        let (steps, cells) = self.split(selection);
        Ok(self.prepare(&steps, &cells)?.plan.read_bytes)
    }

    pub(super) fn explain_box(&self, selection: &Selection) -> Result<ReadPlan> {
        self.check_selection(selection)?;
        let mut plan = ReadPlan::default();
        if let Some(computed) = self.computed()?.filter(|_| !selection.is_empty()) {
            plan = self.explain_computed(&computed, selection)?;
        } else if !selection.is_empty() {
            let (steps, cells) = self.split(selection);
            plan = self.explained(&|reading| reading.prepare(&steps, &cells))?;
        }
        let axes: Vec<String> = selection
            .axes
            .iter()
            .map(|a| match (a.count, a.step) {
                (1, _) => a.start.to_string(),
                (n, 1) => format!("{}:{}", a.start, a.start + n),
                (n, s) => format!("{} cells from {} by {s}", n, a.start),
            })
            .collect();
        plan.title = format!("{} [{}]", self.path, axes.join(", "));
        Ok(plan)
    }

    /// Completes a plan with the predicted time and the requests in flight. At reduced precision it also adds the
    /// cost of full precision.
    pub(super) fn explained(&self, plan: &dyn Fn(&Reading) -> Result<Prepared>) -> Result<ReadPlan> {
        let time = |prepared: &Prepared| self.predicted(prepared, Device::ASSUMED);
        let prepared = plan(self)?;
        let predicted = Some(time(&prepared));
        let mut every_bit = None;
        if self.precision != Precision::Exact {
            let exact = plan(&Reading { precision: Precision::Exact, ..self.clone() })?;
            every_bit = Some((exact.plan.read_bytes, time(&exact)));
        }
        let decisions = execute::decisions(self, &prepared)?;
        let local = execute::explained(self, &prepared);
        let cached = match &self.inner.cache {
            Some(cache) => cache.held(&self.ranges_of(&prepared.plan)?),
            None => None,
        };
        let window = self.inner.window();
        let rounds = window.map_or(0, |_| published::rounds(&prepared));
        Ok(ReadPlan { predicted, every_bit, decisions, local, window, rounds, cached, ..prepared.plan })
    }
}
