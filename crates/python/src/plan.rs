//! A read plan as Python sees it: printable, comparable, with its totals.

use drystone::plan::read_plan::{Choice, ReadPlan};
use pyo3::prelude::*;

/// What a read would do.
#[pyclass(frozen, eq, name = "Plan", module = "drystone._core")]
#[derive(PartialEq)]
pub(crate) struct Plan {
    plan: ReadPlan,
}

impl Plan {
    pub(crate) fn new(plan: ReadPlan) -> Self {
        Plan { plan }
    }
}

#[pymethods]
impl Plan {
    /// Requests to the store.
    #[getter]
    fn requests(&self) -> usize {
        self.plan.requests
    }

    /// (name, bytes, requests, predicted seconds, chosen) of each replica.
    #[getter]
    fn choices(&self) -> Vec<(String, u64, usize, f64, bool)> {
        let one = |c: &Choice| (c.name(), c.bytes, c.requests, c.seconds, c.chosen);
        self.plan.choices.iter().map(one).collect()
    }

    /// On a far store: round trips, one after the other; 0 where requests are not counted so.
    #[getter]
    fn rounds(&self) -> u32 {
        self.plan.rounds
    }

    /// Bytes that are read.
    #[getter]
    fn read_bytes(&self) -> u64 {
        self.plan.read_bytes
    }

    /// Bytes of the selected cells that blocks hold.
    #[getter]
    fn wanted_bytes(&self) -> u64 {
        self.plan.wanted_bytes
    }

    /// Largest absolute and relative error of the values.
    #[getter]
    fn max_errors(&self) -> (f64, f64) {
        (self.plan.bound.absolute, self.plan.bound.relative)
    }

    /// Blocks that show.
    #[getter]
    fn blocks(&self) -> usize {
        self.plan.blocks
    }

    /// Subchunks that are touched.
    #[getter]
    fn subchunks(&self) -> usize {
        self.plan.subchunks
    }

    /// Seconds that it is expected to take.
    #[getter]
    fn predicted(&self) -> Option<f64> {
        self.plan.predicted
    }

    /// Where less than every bit is read: bytes and predicted seconds of the read of all that is stored.
    #[getter]
    fn every_bit(&self) -> Option<(u64, f64)> {
        self.plan.every_bit
    }

    /// Seconds that it took, if it was measured.
    #[getter]
    fn measured(&self) -> Option<f64> {
        self.plan.measured
    }

    /// The same plan, with the seconds that it took.
    fn with_measured(&self, seconds: f64) -> Plan {
        Plan { plan: ReadPlan { measured: Some(seconds), ..self.plan.clone() } }
    }

    /// Number of the replica that is read where it has the cells; 0 is the original.
    #[getter]
    fn replica(&self) -> u32 {
        self.plan.choices.iter().find(|c| c.chosen).map_or(0, |c| c.replica)
    }

    fn __str__(&self) -> String {
        self.plan.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<drystone plan: {}>", self.plan)
    }
}
