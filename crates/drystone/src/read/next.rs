//! What is likely to be read next comes together with what is read now: `drystone_plan::following` says which variables, this where they lie.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::dtype::DType;
use drystone_format::schema::Variable;
use drystone_plan::following::{Next, together};
use drystone_plan::read_plan::Slot;
use drystone_plan::selection::{Axis, Selection};

use super::execute::{self, Sources};
use super::{ReadReport, Reading};
use crate::base::sync::lock;
use crate::schema::member::Column;

/// A read that takes longer than this, and than [`PACE`] for its bytes, waited for the medium: nothing in memory is as slow, encoded bytes excepted.
const WAIT: Duration = Duration::from_micros(60);
/// Bytes a second.
const PACE: f64 = 1e9;

impl Reading {
    /// Reads by `read`, and takes note of it; prefetches what is likely to be read next.
    pub(super) fn followed(
        &self,
        selection: &Selection,
        read: impl FnOnce() -> crate::Result<ReadReport>,
    ) -> crate::Result<ReadReport> {
        if !self.is_followed() || selection.is_empty() {
            return read();
        }
        let next =
            lock(&self.inner.following).begins(self.variable.id, selection, self.split(selection).0.count);
        self.prefetch_next(&next, selection);
        let began = Instant::now();
        let report = read()?;
        let pace = Duration::from_secs_f64(report.read_bytes as f64 / PACE);
        lock(&self.inner.following).ended(began.elapsed() > WAIT + pace);
        Ok(report)
    }

    /// Whether its cells lie in the log, and as one member.
    fn is_followed(&self) -> bool {
        self.shelf.is_none() && !self.is_derived() && matches!(self.variable.dtype, DType::Scalar(_))
    }

    /// Prefetches what is read now, and the same cells of the variables that follow.
    fn prefetch_next(&self, next: &Next, selection: &Selection) {
        // A far store has all requests of a read under way at once.
        if *next == Next::Unknown || self.inner.window().is_some() {
            return;
        }
        let (steps, cells) = self.split(selection);
        let all = &self.snapshot.schema.variables;
        let following = next.among(all).filter(|other| self.is_like(other));
        let slots = following.map_while(|other| self.of(other).next_slots(&steps, &cells));
        let together = together(self.next_slots(&steps, &cells).into_iter().chain(slots));
        lock(&self.inner.following).prefetched(together.variables);
        let sources = Sources::of(self);
        if !together.in_order {
            return execute::prefetch_alike(self, &together.ranges, &sources);
        }
        for (source, range) in together.ranges {
            if let (Some(files), Ok(key)) = (self.inner.store.local(), sources.key(source)) {
                files.prefetch(&key, range);
            }
        }
    }

    /// Whether another variable has the same cells.
    fn is_like(&self, other: &Variable) -> bool {
        let same = (other.steps, &other.shape) == (self.variable.steps, &self.variable.shape);
        same && !other.local && matches!(other.dtype, DType::Scalar(_))
    }

    /// The reading of another variable, for its blocks alone.
    fn of(&self, other: &Variable) -> Reading {
        let leaves = Column::all(&other.dtype);
        let item = other.dtype.item_size();
        Reading { variable: Arc::new(other.clone()), leaves, item, ..self.clone() }
    }

    /// What is wrong with it is said when it is read.
    fn next_slots(&self, steps: &Axis, cells: &Selection) -> Option<Vec<Slot>> {
        self.sought(steps, cells).ok().map(|sought| sought.slots)
    }
}
