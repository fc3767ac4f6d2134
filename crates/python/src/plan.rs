//! A read plan for Python: printable, comparable, with totals.

use drystone::plan::read_plan::{Choice, ReadPlan};
use pyo3::prelude::*;

/// The plan of a read.
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

    /// Round trips in sequence on a far store; 0 where requests are not counted.
    #[getter]
    fn rounds(&self) -> u32 {
        self.plan.rounds
    }

    /// Bytes that are read.
    #[getter]
    fn read_bytes(&self) -> u64 {
        self.plan.read_bytes
    }

    /// Bytes of the selected cells that blocks contain.
    #[getter]
    fn wanted_bytes(&self) -> u64 {
        self.plan.wanted_bytes
    }

    /// Largest absolute and relative error of the values.
    #[getter]
    fn max_errors(&self) -> (f64, f64) {
        (self.plan.bound.absolute, self.plan.bound.relative)
    }

    /// Blocks that contribute cells.
    #[getter]
    fn blocks(&self) -> usize {
        self.plan.blocks
    }

    /// Subchunks that are read.
    #[getter]
    fn subchunks(&self) -> usize {
        self.plan.subchunks
    }

    /// Predicted seconds.
    #[getter]
    fn predicted(&self) -> Option<f64> {
        self.plan.predicted
    }

    /// If a read takes less than full precision: bytes and predicted seconds at full precision.
    #[getter]
    fn every_bit(&self) -> Option<(u64, f64)> {
        self.plan.every_bit
    }

    /// Measured seconds, if measured.
    #[getter]
    fn measured(&self) -> Option<f64> {
        self.plan.measured
    }

    /// The same plan, with its measured seconds.
    fn with_measured(&self, seconds: f64) -> Plan {
        Plan { plan: ReadPlan { measured: Some(seconds), ..self.plan.clone() } }
    }

    /// Index of the replica that is read where it has the cells; 0 is the original.
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
