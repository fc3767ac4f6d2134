//! The cost of a read.

use drystone_plan::read_plan::ReadPlan;
use drystone_transform::Bound;

/// The cost of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadReport {
    /// Bytes of the selected cells that blocks hold.
    pub wanted_bytes: u64,
    /// Bytes read from segments.
    pub read_bytes: u64,
    /// Requests to the store for these bytes.
    pub requests: u64,
    /// Number of visible blocks.
    pub blocks: u64,
    /// Guaranteed largest error of the values, against the values that were put. It includes the transform's loss and
    /// the loss by reading at reduced precision.
    pub bound: Bound,
}

/// The actual cost of a plan. It is less than planned if the store gathered bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    pub(super) read_bytes: u64,
    pub(super) requests: u64,
}

impl Carried {
    pub(super) fn of(plan: &ReadPlan) -> Carried {
        Carried { read_bytes: plan.read_bytes, requests: plan.requests as u64 }
    }

    pub(super) fn add(&mut self, other: &Carried) {
        self.read_bytes += other.read_bytes;
        self.requests += other.requests;
    }
}

impl ReadReport {
    /// Adds a plan that was executed.
    pub(super) fn add_carried(&mut self, plan: &ReadPlan, carried: Carried) {
        self.add(plan);
        self.read_bytes = (self.read_bytes - plan.read_bytes).saturating_add(carried.read_bytes);
        self.requests = (self.requests - plan.requests as u64).saturating_add(carried.requests);
    }

    /// Adds the cost of another read.
    pub(crate) fn join(&mut self, other: &ReadReport) {
        self.wanted_bytes += other.wanted_bytes;
        self.read_bytes += other.read_bytes;
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.bound = self.bound.max(other.bound);
    }

    pub(super) fn add(&mut self, plan: &ReadPlan) {
        self.wanted_bytes += plan.wanted_bytes;
        self.read_bytes += plan.read_bytes;
        self.requests += plan.requests as u64;
        self.blocks += plan.blocks as u64;
        self.bound = self.bound.max(plan.bound);
    }
}
