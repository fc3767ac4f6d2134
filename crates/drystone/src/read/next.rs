//! What is likely to be read next comes together with what is read now: `drystone_plan::following` says which variables, this where they lie.

use std::time::{Duration, Instant};

use drystone_format::dtype::DType;
use drystone_format::schema::Variable;
use drystone_plan::following::{Next, together};
use drystone_plan::read_plan::Slot;
use drystone_plan::selection::{Axis, Selection};

use super::execute::{self, Sources};
use super::{ReadReport, Reading};
use crate::container::lock;
use crate::member::Column;

/// Steps of one read, and variables, that are looked up.
const STEPS: u64 = 16;
const VARIABLES: usize = 32;
/// A read that takes longer than this, and than [`PACE`] for its bytes, waited for the medium: nothing in memory is as slow, encoded bytes excepted.
const WAIT: Duration = Duration::from_micros(60);
/// Bytes a second.
const PACE: f64 = 1e9;

impl Reading {
    /// Reads by `read`, and takes note of it; has what is likely to be read next brought with it.
    pub(super) fn followed(
        &self,
        selection: &Selection,
        read: impl FnOnce() -> crate::Result<ReadReport>,
    ) -> crate::Result<ReadReport> {
        if !self.is_followed() || selection.is_empty() {
            return read();
        }
        let next = lock(&self.inner.following).begins(self.variable.id, selection);
        self.bring_next(&next, selection);
        let began = Instant::now();
        let report = read()?;
        let pace = Duration::from_secs_f64(report.read_bytes as f64 / PACE);
        lock(&self.inner.following).ended(began.elapsed() > WAIT + pace);
        Ok(report)
    }

    /// Whether its cells lie in the log, and as one member.
    fn is_followed(&self) -> bool {
        self.shelf.is_none() && matches!(self.variable.dtype, DType::Scalar(_))
    }

    /// Tells the store of what is read now, and of the same cells of the variables that follow.
    fn bring_next(&self, next: &Next, selection: &Selection) {
        let (steps, cells) = self.split(selection);
        let following: Vec<Reading> = match next {
            Next::Unknown => return,
            Next::These(variables) => {
                let known = variables.iter().filter_map(|id| self.snapshot.schema.variables.get(id));
                known.filter(|other| self.is_like(other)).map(|other| self.of(other)).collect()
            }
            Next::AllBut(read) => {
                let behind = self.variable.id.saturating_add(1)..;
                let others = self.snapshot.schema.variables.range(behind).map(|(_, other)| other);
                let others = others.filter(|other| self.is_like(other) && !read.contains(&other.id));
                others.take(VARIABLES).map(|other| self.of(other)).collect()
            }
        };
        if following.is_empty() || steps.count > STEPS {
            return lock(&self.inner.following).told(0);
        }
        let slots: Vec<_> =
            std::iter::once(self).chain(&following).map_while(|one| one.next_slots(&steps, &cells)).collect();
        let (sources, together) = (Sources::of(self), together(slots.iter().map(Vec::as_slice)));
        lock(&self.inner.following).told(together.variables);
        execute::tell(self, &together.ranges, &sources, true);
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
        Reading { variable: other.clone(), leaves, item, ..self.clone() }
    }

    /// What is wrong with it is said when it is read.
    fn next_slots(&self, steps: &Axis, cells: &Selection) -> Option<Vec<Slot>> {
        self.sought(steps, cells).ok().map(|sought| sought.slots)
    }
}
