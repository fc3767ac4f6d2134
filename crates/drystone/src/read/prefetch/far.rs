//! The ranges of objects that a selection needs, for the cache operations: prefetch, warm, pin.

use std::ops::Range;

use drystone_plan::read_plan::ReadPlan;
use drystone_plan::selection::{Axis, Selection};

use crate::Result;
use crate::container::{Container, Keep};
use crate::read::Reading;
use crate::read::sources::Sources;

/// The outcome of [`Container::warm`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WarmReport {
    /// Bytes of logs that the selection needs.
    pub wanted_bytes: u64,
    /// Bytes that were fetched from the home store.
    pub fetched_bytes: u64,
    /// Bytes that are now in the cache.
    pub held_bytes: u64,
}

impl Reading {
    /// The ranges of log parts that a read of the selection needs. Finding them loads subchunk tables into the cache.
    pub(in crate::read) fn ranges(&self, selection: &Selection) -> Result<Vec<(String, Range<u64>)>> {
        let mut found = Vec::new();
        if selection.is_empty() {
            return Ok(found);
        }
        let (steps, cells) = self.split(selection);
        let mut from = 0;
        while from < steps.count {
            let many = self.first_batch().min(steps.count - from);
            let some = Axis { start: steps.cell(from), step: steps.step, count: many };
            let prepared = self.prepare(&some, &cells)?;
            found.extend(self.ranges_of(&prepared.plan)?);
            from += many;
        }
        Ok(found)
    }

    /// The ranges of a plan, by the keys of the objects that hold them.
    pub(in crate::read) fn ranges_of(&self, plan: &ReadPlan) -> Result<Vec<(String, Range<u64>)>> {
        let sources = Sources::of(self);
        let trailers = plan.trailers.iter().map(|fetch| (fetch.source, &fetch.range));
        let payloads = plan.fetches.iter().map(|fetch| (fetch.source, &fetch.range));
        let placed = |key: String, range: std::ops::Range<u64>| match &self.inner.log_packs {
            Some(packs) => packs.placed_range(key, range),
            None => Ok((key, range)),
        };
        trailers
            .chain(payloads)
            .map(|(source, range)| Ok(placed(sources.key(source)?, range.clone())?))
            .collect()
    }

    /// Fetches the bytes that the selection needs into the cache folder, pins them there, or unpins them. `go_on`
    /// receives the bytes done and the bytes in all; it stops the work by returning false.
    ///
    /// Errors: those of [`read`](Self::read); `InvalidArgument` if the handle has no cache folder; `Cancelled`.
    pub fn keep(
        &self,
        selection: &Selection,
        keep: Keep,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<WarmReport> {
        self.check_selection(selection)?;
        let container = Container { inner: self.inner.clone() };
        let warmed = self.ranges(selection).and_then(|ranges| container.keep(&ranges, keep, go_on));
        let warmed = warmed.map_err(|e| self.reason(e))?;
        Ok(WarmReport { wanted_bytes: warmed.wanted, fetched_bytes: warmed.fetched, held_bytes: warmed.held })
    }
}
