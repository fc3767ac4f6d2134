//! Queries: conversion of selections and results.

use std::sync::{Mutex, PoisonError};

use drystone::{Batches, HitBox, Query, QueryReport, Summary};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::Result;
use crate::{dtype, key};

/// A condition on the cells of a snapshot.
#[pyclass(frozen, name = "QueryHandle", module = "drystone._core")]
pub(crate) struct QueryHandle {
    query: Query,
}

/// A term: text; tiles with no, all and some hits; bytes; subchunks; where it is evaluated.
type TermItem = (String, u64, u64, u64, u64, u64, Option<String>);
/// Cells; those with no, all and some hits; bytes; requests; terms; per term, cells tested and kept; the report
/// as text.
/// Step, first cell and extents of a tile, condition, decision, bytes, reason.
type Row = (Option<u64>, Vec<u64>, Vec<u64>, String, &'static str, u64, String);
type ReportItem = (u64, u64, u64, u64, u64, u64, Vec<TermItem>, Vec<(u64, u64)>, String);
/// Rows; coordinates; values and masks of the variables.
type BatchItem<'py> = (usize, Bound<'py, PyArray1<i64>>, Vec<Bytes<'py>>, Vec<Option<Bytes<'py>>>);
type Bytes<'py> = Bound<'py, PyArray1<u8>>;
/// Bytes, dtype, inner axes of the elements.
type ColumnItem<'py> = (Bytes<'py>, Bound<'py, PyAny>, Vec<u64>);

impl QueryHandle {
    pub(crate) fn new(query: Query) -> Self {
        QueryHandle { query }
    }
}

fn terms(summary: &Summary) -> Vec<TermItem> {
    let one = |t: &drystone::TermSummary| {
        let site = t.site.as_ref().map(ToString::to_string);
        (t.text.clone(), t.none, t.all, t.some, t.bytes, t.requests, site)
    };
    summary.terms.iter().map(one).collect()
}

fn report(report: &QueryReport) -> ReportItem {
    let Summary { cells, none, all, some, .. } = report.summary;
    let (bytes, requests) = (report.bytes, report.requests);
    let (terms, tried) = (terms(&report.summary), report.tried.clone());
    (cells, none, all, some, bytes, requests, terms, tried, report.to_string())
}

#[pymethods]
impl QueryHandle {
    #[getter]
    fn text(&self) -> &str {
        self.query.text()
    }

    /// Extents of the grid, without the step axis.
    #[getter]
    fn grid<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.query.grid())?)
    }

    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.query.dims())?)
    }

    /// The shape of the selection, steps first if there are steps, without the axes that indexing drops.
    fn extents(&self) -> Vec<u64> {
        self.query.shape()
    }

    /// Extent of the step axis.
    #[getter]
    fn step_axis(&self) -> u64 {
        self.query.step_axis()
    }

    #[getter]
    fn has_steps(&self) -> bool {
        self.query.has_steps()
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.query.names().into_iter().map(str::to_owned).collect()
    }

    /// The same query restricted to an indexing expression, without the step axis, and to steps. Also returns
    /// the shape of the result.
    fn within(&self, selection: &Bound<'_, PyAny>, steps: Vec<u64>) -> Result<(QueryHandle, Vec<u64>)> {
        let selected = key::select(selection, self.query.grid())?;
        let query = self.query.within(selected.selection, steps)?;
        Ok((QueryHandle { query }, selected.shape))
    }

    /// Number of steps, and the predicted report.
    fn explain(&self, py: Python<'_>) -> Result<(u64, ReportItem)> {
        let plan = py.detach(|| self.query.explain())?;
        let Summary { cells, none, all, some, bytes, requests, .. } = plan.summary;
        let said = terms(&plan.summary);
        let text = plan.to_string();
        Ok((plan.steps, (cells, none, all, some, bytes, requests, said, Vec::new(), text)))
    }

    /// The first rows of the plan.
    fn explain_rows(&self, py: Python<'_>, limit: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        py.detach(|| {
            self.query.explain_rows(&mut |row| {
                if rows.len() < limit {
                    rows.push((row.step, row.offset, row.shape, row.term, row.decided, row.bytes, row.why));
                }
                rows.len() < limit
            })
        })?;
        Ok(rows)
    }

    fn bounds(&self, py: Python<'_>) -> Result<(u64, u64)> {
        Ok(py.detach(|| self.query.bounds())?)
    }

    fn count(&self, py: Python<'_>) -> Result<(u64, ReportItem)> {
        let (count, cost) = py.detach(|| self.query.count())?;
        Ok((count, report(&cost)))
    }

    /// Boxes of hits: first cells and extents.
    fn boxes(&self, py: Python<'_>) -> Result<(Vec<HitBox>, ReportItem)> {
        let (boxes, cost) = py.detach(|| self.query.boxes())?;
        Ok((boxes, report(&cost)))
    }

    /// The coordinates of all hits, concatenated.
    fn coords<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyArray1<i64>>, ReportItem)> {
        let found = py.detach(|| self.query.find())?;
        // NumPy's own memory: it requests large pages for large arrays.
        let array = PyArray1::<i64>::zeros(py, found.rows() * found.width(), false);
        {
            let mut out = array.try_readwrite().map_err(|e| crate::error::invalid(e.to_string()))?;
            let out = out.as_slice_mut().map_err(|e| crate::error::invalid(e.to_string()))?;
            py.detach(|| found.coords(out))?;
        }
        Ok((array, report(found.report())))
    }

    /// Fills a zeroed byte array of the shape of the selection.
    fn mask(&self, py: Python<'_>, out: &Bound<'_, pyo3::PyAny>) -> Result<ReportItem> {
        let array = out.cast::<PyArray1<u8>>()?;
        let mut out = array.try_readwrite().map_err(|e| crate::error::invalid(e.to_string()))?;
        let bytes = out.as_slice_mut().map_err(|e| crate::error::invalid(e.to_string()))?;
        let cost = py.detach(|| self.query.mask(bytes))?;
        Ok(report(&cost))
    }

    /// Number of hits; and for each variable the elements at all hits as bytes, their NumPy dtype and their
    /// inner axes.
    fn values<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
    ) -> Result<(usize, Vec<ColumnItem<'py>>, ReportItem)> {
        let (found, dtypes, inner) = py.detach(|| {
            let batches = self.query.batches(&names)?;
            Ok::<_, drystone::Error>((self.query.values(&names)?, batches.dtypes(), batches.inner()))
        })?;
        let mut columns = Vec::with_capacity(names.len());
        for ((values, (dtype, meaning)), inner) in found.values.into_iter().zip(&dtypes).zip(inner) {
            let element = dtype::to_numpy(py, dtype, meaning.as_ref())?;
            columns.push((PyArray1::from_vec(py, values), element, inner));
        }
        Ok((found.rows, columns, report(&found.report)))
    }

    /// The hits, with values of these variables.
    fn batches(&self, py: Python<'_>, names: Vec<String>) -> Result<BatchesHandle> {
        let batches = py.detach(|| self.query.batches(&names))?;
        Ok(BatchesHandle { batches: Mutex::new(batches) })
    }
}

/// An iterator over hits, in order.
#[pyclass(frozen, name = "BatchesHandle", module = "drystone._core")]
pub(crate) struct BatchesHandle {
    batches: Mutex<Batches>,
}

impl BatchesHandle {
    fn lock(&self) -> std::sync::MutexGuard<'_, Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl BatchesHandle {
    /// The NumPy dtypes of the variables, and the inner axes of their elements.
    fn elements<'py>(&self, py: Python<'py>) -> Result<Vec<(Bound<'py, PyAny>, Vec<u64>)>> {
        let (dtypes, inner) = py.detach(|| {
            let batches = self.lock();
            (batches.dtypes(), batches.inner())
        });
        let of = |(dtype, meaning): &(_, Option<_>)| dtype::to_numpy(py, dtype, meaning.as_ref());
        dtypes.iter().zip(inner).map(|(element, inner)| Ok((of(element)?, inner))).collect()
    }

    fn report(&self, py: Python<'_>) -> ReportItem {
        report(&py.detach(|| self.lock().report()))
    }

    /// The next hits, at most this many; None at the end.
    fn next<'py>(&self, py: Python<'py>, rows: usize) -> Result<Option<BatchItem<'py>>> {
        let Some(batch) = py.detach(|| self.lock().next(rows))? else { return Ok(None) };
        let bytes = |values: Vec<u8>| PyArray1::from_vec(py, values);
        let values = batch.values.into_iter().map(bytes).collect();
        let written = batch.written.into_iter().map(|mask| mask.map(bytes)).collect();
        Ok(Some((batch.rows, PyArray1::from_vec(py, batch.coords), values, written)))
    }
}
