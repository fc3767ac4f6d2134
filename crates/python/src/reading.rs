//! Reading a variable, or one member of a record: indexing, boxes, blocks.

mod arguments;
mod arrays;
mod records;
mod values;

use std::sync::{Mutex, PoisonError};

use drystone::format::dtype::DType;
use drystone::format::meaning::Meaning;
use drystone::member::{FoundMember, member};
use drystone::plan::selection::{Axis, Selection};
use drystone::{BlockInfo, Error, ErrorKind, Keep, ReadReport, Reading, Wanted};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::error::{Failure, Result};
use crate::listing::{self, AnyLength, PlannedHandle, TilesHandle};
use crate::plan::Plan;
use crate::progress::watched;
use crate::{dtype, key};
use arguments::limit;
pub(crate) use arguments::precision;

/// A variable of a snapshot for reading: whole elements, or one member of a record.
#[pyclass(frozen, name = "ReadingHandle", module = "drystone._core")]
pub(crate) struct ReadingHandle {
    reading: Reading,
    /// The member that is read; `None`: the whole element.
    member: Option<FoundMember>,
}

impl ReadingHandle {
    pub(crate) fn new(reading: Reading, path: Option<&str>) -> Result<Self> {
        let found = path.and_then(|path| member(&reading.variable().dtype, path));
        Ok(ReadingHandle { reading, member: found })
    }

    fn dtype(&self) -> &DType {
        self.member.as_ref().map_or(&self.reading.variable().dtype, |m| &m.dtype)
    }

    /// The meaning of the elements' integers.
    fn meaning(&self) -> Option<&Meaning> {
        let whole = self.reading.variable().meaning.as_ref();
        self.member.as_ref().map_or(whole, |member| member.meaning(whole))
    }

    /// The NumPy dtype of what is read.
    fn descr<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        dtype::to_numpy(py, self.dtype(), self.meaning())
    }

    /// Inner axes of the member.
    pub(crate) fn inner(&self) -> &[u64] {
        self.member.as_ref().map_or(&[], |m| &m.shape)
    }

    fn full_shape(&self) -> Vec<u64> {
        let mut shape = self.reading.shape();
        shape.extend(self.inner());
        shape
    }

    pub(crate) fn holds_strings(&self) -> bool {
        self.dtype().is_blob()
    }

    fn block_dict<'py>(
        &self,
        py: Python<'py>,
        descr: &Bound<'py, PyAny>,
        block: BlockInfo,
    ) -> Result<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        if let Some((min, max)) = block.min_max {
            out.set_item("min", self.scalar_of(descr, min)?)?;
            out.set_item("max", self.scalar_of(descr, max)?)?;
        }
        out.set_item("step", block.step)?;
        out.set_item("offset", PyTuple::new(py, block.offset)?)?;
        out.set_item("shape", PyTuple::new(py, block.count)?)?;
        out.set_item("chunks", PyTuple::new(py, block.cut)?)?;
        out.set_item("commit", block.commit)?;
        out.set_item("writer", block.writer)?;
        out.set_item("put", block.put)?;
        out.set_item("nbytes", block.stored_bytes)?;
        out.set_item("layout", (!block.layout.is_empty()).then_some(&block.layout))?;
        out.set_item("place", block.place)?;
        out.set_item("nans", block.nans)?;
        out.set_item("transform", Some(block.transform).filter(|t| !t.is_empty()))?;
        out.set_item("members", PyTuple::new(py, block.members)?)?;
        Ok(out)
    }
}

#[pymethods]
impl ReadingHandle {
    /// The snapshot that it reads.
    #[getter]
    fn snapshot(&self) -> u64 {
        self.reading.snapshot().version()
    }

    /// The shape for a reader: the step axis first, the inner axes of a member last.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.full_shape())?)
    }

    /// The NumPy dtype of what is read.
    #[getter]
    fn element<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.descr(py)
    }

    #[getter]
    fn strings(&self) -> bool {
        self.holds_strings()
    }

    #[getter]
    fn item(&self) -> u32 {
        self.reading.item()
    }

    /// The inner axes of the member.
    #[getter(inner)]
    fn inner_shape<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.inner())?)
    }

    #[getter]
    fn members(&self) -> Vec<String> {
        match self.dtype() {
            DType::Record(record) => record.members.iter().map(|m| m.name.clone()).collect(),
            _ => Vec::new(),
        }
    }

    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>> {
        let dims = &self.reading.variable().dims;
        Ok(if dims.is_empty() { None } else { Some(PyTuple::new(py, dims)?) })
    }

    #[getter]
    fn has_steps(&self) -> bool {
        self.reading.variable().steps
    }

    #[getter]
    fn local(&self) -> bool {
        self.reading.variable().local
    }

    #[getter]
    fn transform(&self) -> Option<&str> {
        Some(self.reading.variable().transform.as_str()).filter(|t| !t.is_empty())
    }

    #[getter]
    fn access(&self) -> Option<&str> {
        Some(self.reading.variable().access.as_str()).filter(|t| !t.is_empty())
    }

    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyTuple>>> {
        Ok(self.reading.variable().chunks.as_ref().map(|c| PyTuple::new(py, c)).transpose()?)
    }

    #[getter]
    fn growable<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, &self.reading.variable().growable)?)
    }

    /// Bytes of the fill value of one element (of the whole record); None if it is zero.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.reading.variable().fill.as_ref().map(|f| PyBytes::new(py, f))
    }

    /// Whether its values are records with members of any length, which NumPy has as objects.
    #[getter]
    fn objects(&self) -> bool {
        self.holds_objects()
    }

    /// The value of unwritten cells of a variable of such records.
    fn record_fill<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.structured_fill(py)
    }

    /// How a derived variable is computed: text, kind, edge rule, and the path of each input that still exists.
    /// None for stored values.
    #[getter]
    #[allow(clippy::type_complexity, reason = "a tuple for Python")]
    fn derived(&self) -> Option<(String, &'static str, &'static str, Vec<(String, Option<String>)>)> {
        let found = self.reading.derived()?;
        Some((found.text, found.kind, found.edge, found.inputs))
    }

    /// The reason why the values of a derived variable cannot be computed, in any process.
    #[getter]
    fn unfit(&self) -> Option<String> {
        self.reading.unfit()
    }

    /// A function that this process does not have, and without which no value can be read.
    #[getter]
    fn lacking(&self) -> Option<String> {
        self.reading.lacking()
    }

    /// Committed steps in which the variable has a block.
    fn steps(&self, py: Python<'_>) -> Result<Vec<u64>> {
        Ok(py.detach(|| self.reading.steps())?)
    }

    /// NumPy's basic indexing.
    fn select<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let selected = key::select(key, &self.full_shape())?;
        let outer = selected.selection.axes.len() - self.inner().len();
        let (cells, inner) = selected.selection.axes.split_at(outer);
        let selection = Selection { axes: cells.to_vec() };
        let counts = selection.shape();
        let mut array = if self.holds_strings() {
            let (values, _) = py.detach(|| self.reading.read_strings(&selection))?;
            self.blobs(py, values, &counts, false)?
        } else if self.holds_objects() {
            let (records, _) = py.detach(|| self.reading.read_records(&selection))?;
            self.structured(py, records, &counts)?
        } else {
            let array = self.new_array(py, &counts)?;
            self.read_into(&array, &counts, false, &|out| self.reading.read(&selection, out))?;
            array.into_any()
        };
        if !inner.is_empty() {
            let mut slices = vec![py.Ellipsis().into_bound(py)];
            for axis in inner {
                slices.push(key::as_slice(py, axis)?);
            }
            array = array.get_item(PyTuple::new(py, slices)?)?;
        }
        let shape = PyTuple::new(py, &selected.shape)?;
        let array = array.call_method1(pyo3::intern!(py, "reshape"), (shape,))?;
        if selected.scalar { Ok(array.get_item(PyTuple::empty(py))?) } else { Ok(array) }
    }

    /// The plan of `select`.
    fn explain(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<Plan> {
        let mut selected = key::select(key, &self.full_shape())?;
        selected.selection.axes.truncate(selected.selection.axes.len() - self.inner().len());
        Ok(Plan::new(py.detach(|| self.reading.explain(&selected.selection))?))
    }

    /// The same variable, read only as exactly as requested.
    fn with_precision(
        &self,
        error: Option<f64>,
        relative: bool,
        level: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let reading = self.reading.clone().with_precision(precision(error, relative, level)?)?;
        Ok(ReadingHandle { reading, member: self.member.clone() })
    }

    /// The same variable, with float64 optionally rounded to float32.
    fn narrowed(&self) -> Result<Self> {
        Ok(ReadingHandle { reading: self.reading.clone().narrowed()?, member: self.member.clone() })
    }

    /// The largest absolute and relative error of rounding values up to a magnitude to float32.
    #[staticmethod]
    fn narrowed_bound(absolute: f64, relative: f64, largest: f32) -> (f64, f64) {
        let bound = drystone::narrowed_bound(drystone::Bound { absolute, relative }, largest);
        (bound.absolute, bound.relative)
    }

    /// The same variable, always read from a replica, whatever the cost.
    fn by_way_of(&self, replica: u32) -> Self {
        ReadingHandle { reading: self.reading.clone().by_way_of(Some(replica)), member: self.member.clone() }
    }

    /// Reads a box of one step, into `out` if it is given; also returns the largest absolute and relative error.
    #[pyo3(signature = (step, offset, count, out))]
    fn read_box<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
        offset: Option<&Bound<'py, PyAny>>,
        count: Option<&Bound<'py, PyAny>>,
        out: Option<Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, f64, f64)> {
        let (selection, count) = self.box_of(step, offset, count)?;
        let mut full = count.clone();
        full.extend(self.inner());
        let out = match out {
            Some(out) => Some(self.check_out(out, &full)?),
            None => None,
        };
        if self.dtype().has_blobs() {
            let array = if self.holds_strings() {
                let (values, _) = py.detach(|| self.reading.read_strings(&selection))?;
                self.blobs(py, values, &count, false)?
            } else {
                let (records, _) = py.detach(|| self.reading.read_records(&selection))?;
                self.structured(py, records, &count)?
            };
            let array = array.call_method1("reshape", (PyTuple::new(py, &full)?,))?;
            let Some(out) = out else { return Ok((array, 0.0, 0.0)) };
            py.import("numpy")?.call_method1("copyto", (&out, array))?;
            return Ok((out.into_any(), 0.0, 0.0));
        }
        let array = match out {
            Some(out) => out,
            None => self.new_array(py, &count)?,
        };
        let one_step = self.reading.variable().steps;
        let report = self.read_into(&array, &count, one_step, &|out| self.reading.read(&selection, out))?;
        Ok((array.into_any(), report.bound.absolute, report.bound.relative))
    }

    /// Stored statistics of a step: blocks, cells, NaNs, minimum, maximum, histogram. The histogram is
    /// (exponent, first, counts, infinities): bin i starts at (first + i) * 2^exponent. `cells` is an indexing
    /// expression without the step: only blocks and subchunks that meet the box around these cells count then.
    #[pyo3(signature = (step, cells=None))]
    fn statistics<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
        cells: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyTuple>> {
        let step = self.block_step(step)?;
        let cells = match cells {
            Some(cells) => Some(key::select(cells, &self.reading.variable().shape)?.selection),
            None => None,
        };
        let found = py.detach(|| match &cells {
            Some(cells) => self.reading.statistics_within(step, cells),
            None => self.reading.statistics(step),
        })?;
        let descr = self.descr(py)?;
        let extremes = match found.min_max {
            Some((min, max)) => (self.scalar_of(&descr, min)?, self.scalar_of(&descr, max)?),
            None => (None, None),
        };
        let histogram =
            found.histogram.map(|h| (h.exponent(), h.first(), h.counts().to_vec(), h.infinities()));
        Ok((found.blocks, found.cells, found.nans, extremes.0, extremes.1, histogram).into_pyobject(py)?)
    }

    /// Published statistics of a step, if any: version, chunks, values, NaNs, fill cells, minimum, maximum.
    fn published_statistics<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyTuple>>> {
        let step = self.block_step(step)?;
        let Some(found) = py.detach(|| self.reading.published_statistics(step))? else { return Ok(None) };
        let descr = self.descr(py)?;
        let extremes = match found.min_max {
            Some((min, max)) => (self.scalar_of(&descr, min)?, self.scalar_of(&descr, max)?),
            None => (None, None),
        };
        let counts =
            (found.version, found.chunks, found.values, found.nans, found.fills, extremes.0, extremes.1);
        Ok(Some(counts.into_pyobject(py)?))
    }

    /// Coordinates and values of the cells between two values.
    #[pyo3(signature = (step, low, high))]
    fn value_range<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
        low: &Bound<'py, PyAny>,
        high: &Bound<'py, PyAny>,
    ) -> Result<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64, u64)> {
        let step = self.block_step(step)?;
        let (low, high) = (limit(low)?, limit(high)?);
        let hits = py.detach(|| self.reading.value_range(step, low, high))?;
        let coords: Vec<u8> = hits.coords.iter().flat_map(|c| c.to_ne_bytes()).collect();
        let report = hits.report;
        Ok((PyBytes::new(py, &coords), PyBytes::new(py, &hits.values), report.read_bytes, report.requests))
    }

    /// Plans the read of a product of legs (see `listing::listing`), to be executed once or repeatedly.
    #[pyo3(signature = (legs))]
    fn plan(slf: &Bound<'_, Self>, legs: &Bound<'_, PyAny>) -> Result<PlannedHandle> {
        let wanted = Wanted::from(listing::listing(legs)?);
        let reading = &slf.get().reading;
        let planned = slf.py().detach(|| reading.planned(wanted))?;
        Ok(PlannedHandle::new(planned, slf.clone().unbind()))
    }

    /// Reads a product of legs once, into `out` if it is given. Returns an array with an axis per leg and the
    /// inner axes of the member, and its largest absolute and relative error.
    #[pyo3(signature = (legs, out))]
    fn read_listed<'py>(
        &self,
        py: Python<'py>,
        legs: &Bound<'py, PyAny>,
        out: Option<Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyAny>, f64, f64)> {
        let wanted = Wanted::from(listing::listing(legs)?);
        let reading = &self.reading;
        let report = Mutex::new(ReadReport::default());
        let array = listing::read(
            self,
            py,
            &wanted.shape(),
            out,
            &|out| {
                let found = reading.read(&wanted, out)?;
                *report.lock().unwrap_or_else(PoisonError::into_inner) = found;
                Ok(found)
            },
            &AnyLength {
                texts: &|| Ok(reading.read_strings(&wanted)?.0),
                records: &|| Ok(reading.read_records(&wanted)?.0),
            },
        )?;
        let bound = report.into_inner().unwrap_or_else(PoisonError::into_inner).bound;
        Ok((array, bound.absolute, bound.relative))
    }

    /// Cuts a box, a (start, step, count) per axis, into tiles of at most `most` cells. `in_rows`: for a file
    /// in row-major order, the smallest efficient write in bytes.
    #[pyo3(signature = (axes, most, in_rows=None))]
    fn tiles(
        &self,
        py: Python<'_>,
        axes: Vec<(u64, i64, u64)>,
        most: u64,
        in_rows: Option<u64>,
    ) -> Result<TilesHandle> {
        let axes = axes.into_iter().map(|(start, step, count)| Axis { start, step, count }).collect();
        let selection = Selection { axes };
        let reading = &self.reading;
        Ok(TilesHandle::new(py.detach(|| reading.tiles(&selection, most, in_rows))?))
    }

    /// Announces tiles that will be read in order.
    fn announce(&self, tiles: &TilesHandle) {
        self.reading.announce(tiles.tiles());
    }

    /// Loads (0), pins (1) or unpins (2) a box in the cache, a (start, step, count) per axis: bytes wanted,
    /// fetched, held.
    fn keep(
        &self,
        py: Python<'_>,
        axes: Vec<(u64, i64, u64)>,
        what: u8,
        progress: Option<Py<PyAny>>,
    ) -> Result<(u64, u64, u64)> {
        let axes = axes.into_iter().map(|(start, step, count)| Axis { start, step, count }).collect();
        let selection = Selection { axes };
        let keep = match what {
            0 => Keep::Warm,
            1 => Keep::Pin,
            _ => Keep::Unpin,
        };
        let done = watched(py, progress.as_ref(), |progress| self.reading.keep(&selection, keep, progress))?;
        Ok((done.wanted_bytes, done.fetched_bytes, done.held_bytes))
    }

    /// The blocks written in a step, oldest first.
    #[pyo3(signature = (step))]
    fn blocks<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Bound<'py, PyDict>>> {
        let step = self.block_step(step)?;
        let blocks = py.detach(|| self.reading.blocks(step))?;
        let descr = self.descr(py)?;
        blocks.into_iter().map(|block| self.block_dict(py, &descr, block)).collect()
    }

    /// Blocks as written, even where they overlap: one, or all of the step.
    #[pyo3(signature = (step, number))]
    fn read_blocks<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
        number: Option<&Bound<'py, PyAny>>,
    ) -> Result<Vec<Bound<'py, PyAny>>> {
        let step = self.block_step(step)?;
        let number = number.map(|n| key::unsigned(n, "the number of the block")).transpose()?;
        let mut blocks = py.detach(|| self.reading.written(step))?;
        if let Some(number) = number {
            let have = blocks.len();
            let index = usize::try_from(number).ok().filter(|i| *i < have).ok_or_else(|| {
                Failure::Engine(Error::new(
                    ErrorKind::NotFound,
                    format!("there is no block {number}: {have} were written there"),
                ))
            })?;
            blocks = vec![blocks.swap_remove(index)];
        }
        blocks.iter().map(|block| self.block_value(py, block)).collect()
    }
}
