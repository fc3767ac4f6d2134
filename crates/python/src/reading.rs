//! Reading a variable, or one member of a record: indexing, boxes, blocks.

use std::sync::{Mutex, PoisonError};

use drystone::array::Target;
use drystone::format::dtype::{DType, Scalar};
use drystone::format::meaning::Meaning;
use drystone::member::{FoundMember, member};
use drystone::plan::selection::{Axis, Selection};
use drystone::{BlockInfo, Error, ErrorKind, Keep, Limit, Precision, ReadReport, Reading, Wanted, Written};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::error::{Failure, Result, invalid, out_of_range};
use crate::listing::{self, PlannedHandle, TilesHandle};
use crate::ndarray::{View, empty};
use crate::plan::Plan;
use crate::progress::watched;
use crate::{dtype, key};

/// A variable of a snapshot, to be read: whole elements, or one member of a record.
#[pyclass(frozen, name = "ReadingHandle", module = "drystone._core")]
pub(crate) struct ReadingHandle {
    reading: Reading,
    /// The member that is read, if it is not the whole element.
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

    /// What the elements stand for.
    fn meaning(&self) -> Option<&Meaning> {
        let whole = self.reading.variable().meaning.as_ref();
        self.member.as_ref().map_or(whole, |member| member.meaning(whole))
    }

    /// The NumPy dtype of what is read.
    fn descr<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        dtype::to_numpy(py, self.dtype(), self.meaning())
    }

    /// Axes that the member brings.
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

    /// Values of any length: texts, or arrays of the numbers of each list.
    pub(crate) fn blobs<'py>(
        &self,
        py: Python<'py>,
        values: Vec<Vec<u8>>,
        shape: &[u64],
        scalar: bool,
    ) -> Result<Bound<'py, PyAny>> {
        match self.dtype() {
            DType::Ragged(number) => lists(py, *number, &self.descr(py)?, values, shape, scalar),
            _ => strings(py, values, shape, scalar),
        }
    }

    /// A new array for `cells` of elements.
    pub(crate) fn new_array<'py>(
        &self,
        py: Python<'py>,
        cells: &[u64],
    ) -> Result<Bound<'py, PyUntypedArray>> {
        let mut shape = cells.to_vec();
        shape.extend(self.inner());
        empty(&self.descr(py)?, &shape, dtype::has_padding(self.dtype()))
    }

    /// Reads with `act` into the array, whose leading axes are `cells`; `one_step`: what is read has a step axis before them.
    pub(crate) fn read_into(
        &self,
        array: &Bound<'_, PyUntypedArray>,
        cells: &[u64],
        one_step: bool,
        act: &(dyn Fn(&Target<'_>) -> drystone::Result<ReadReport> + Sync),
    ) -> Result<ReadReport> {
        let py = array.py();
        let view = View::of(array)?;
        if !view.is_writable() {
            return Err(invalid("out is read-only"));
        }
        match view.fold(self.inner()).filter(View::has_distinct_elements) {
            Some(view) => {
                let view = if one_step { view.with_leading_axis() } else { view };
                // SAFETY: `array` is referenced until this returns; that nobody else uses it meanwhile is the contract of reading
                // into an array, as it is NumPy's own.
                let target = unsafe { view.target()? };
                Ok(py.detach(|| act(&target))?)
            }
            None if array.is_c_contiguous() => {
                Err(invalid("the array to read into does not have the axes of the member that is read"))
            }
            None => {
                // Its elements lie where the engine cannot write them one by one: by way of a dense array.
                let dense = self.new_array(py, cells)?;
                let report = self.read_into(&dense, cells, one_step, act)?;
                py.import("numpy")?.call_method1("copyto", (array, dense))?;
                Ok(report)
            }
        }
    }

    /// `out` of a read, if it can take elements of this type in `shape`.
    pub(crate) fn check_out<'py>(
        &self,
        out: Bound<'py, PyAny>,
        shape: &[u64],
    ) -> Result<Bound<'py, PyUntypedArray>> {
        let Ok(array) = out.cast::<PyUntypedArray>() else {
            return Err(invalid(format!("out is a NumPy array, not a {}", out.get_type().name()?)));
        };
        let given = array.dtype();
        let expected = self.descr(out.py())?;
        if !given.eq(&expected)? {
            return Err(invalid(format!("out has dtype {given}, the variable {expected}")));
        }
        let found: Vec<u64> = array.shape().iter().map(|n| *n as u64).collect();
        if found != shape {
            return Err(invalid(format!("out has shape {found:?}, what is read {shape:?}")));
        }
        if !View::of(array)?.is_writable() {
            return Err(invalid("out is read-only"));
        }
        Ok(array.clone())
    }

    fn box_of(
        &self,
        step: Option<&Bound<'_, PyAny>>,
        offset: Option<&Bound<'_, PyAny>>,
        count: Option<&Bound<'_, PyAny>>,
    ) -> Result<(Selection, Vec<u64>)> {
        let shape = self.reading.shape();
        let steps = self.reading.variable().steps;
        let cells = &shape[usize::from(steps)..];
        let offset = match offset {
            Some(offset) => key::extents(offset, "offset")?,
            None => vec![0; cells.len()],
        };
        let rest = || cells.iter().zip(&offset).map(|(n, o)| n.saturating_sub(*o)).collect();
        let count: Vec<u64> = count.map_or_else(|| Ok(rest()), |count| key::extents(count, "count"))?;
        if offset.len() != cells.len() || count.len() != cells.len() {
            return Err(invalid(format!(
                "offset has {} and count {} entries, the variable {} dimensions{}",
                offset.len(),
                count.len(),
                cells.len(),
                if steps { " (the step axis aside)" } else { "" }
            )));
        }
        for (d, n) in cells.iter().enumerate() {
            if offset[d].checked_add(count[d]).is_none_or(|end| end > *n) {
                return Err(out_of_range(format!(
                    "the box at offset {offset:?} with count {count:?} leaves the shape {cells:?} in dimension {d}"
                )));
            }
        }
        let mut selection = Selection::boxed(&offset, &count);
        if steps {
            let step = self
                .step_number(step, shape[0])?
                .ok_or_else(|| invalid("the variable has steps: say which (step=)"))?;
            selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
        } else if step.is_some() {
            return Err(invalid("the variable has no steps: leave step= out"));
        }
        Ok((selection, count))
    }

    /// A step; negative ones count from the end.
    fn step_number(&self, step: Option<&Bound<'_, PyAny>>, axis: u64) -> Result<Option<u64>> {
        let Some(step) = step else { return Ok(None) };
        let selected = key::select(step, &[axis])?;
        match (selected.shape.is_empty(), selected.selection.axes.first()) {
            (true, Some(at)) => Ok(Some(at.start)),
            _ => Err(invalid(format!("step is one number, not {}", step.repr()?))),
        }
    }

    fn block_step(&self, step: Option<&Bound<'_, PyAny>>) -> Result<Option<u64>> {
        self.step_number(step, self.reading.snapshot().step_axis())
    }

    /// The value that a pattern of an index entry stands for, as a scalar of `descr`.
    fn scalar_of<'py>(&self, descr: &Bound<'py, PyAny>, bits: u64) -> Result<Option<Bound<'py, PyAny>>> {
        use Scalar::*;
        let DType::Scalar(scalar) = self.dtype() else { return Ok(None) };
        if matches!(self.meaning(), Some(Meaning::Instant(_) | Meaning::Duration(_))) {
            let count = descr.py().import("numpy")?.getattr("int64")?.call1((bits as i64,))?;
            return Ok(Some(count.call_method1("view", (descr,))?));
        }
        let class = descr.getattr("type")?;
        Ok(Some(match scalar {
            Bool => class.call1((bits != 0,))?,
            I8 | I16 | I32 | I64 => class.call1((bits as i64,))?,
            U8 | U16 | U32 | U64 => class.call1((bits,))?,
            F16 | BF16 | F32 | F64 => class.call1((f64::from_bits(bits),))?,
            C64 | C128 => return Ok(None),
        }))
    }

    /// An array, or where the block has no dimensions a scalar.
    fn block_value<'py>(&self, py: Python<'py>, block: &Written) -> Result<Bound<'py, PyAny>> {
        let shape = block.shape();
        let scalar = shape.is_empty() && self.inner().is_empty();
        if self.holds_strings() {
            let (values, _) = py.detach(|| self.reading.read_strings(block))?;
            return self.blobs(py, values, shape, scalar);
        }
        let array = self.new_array(py, shape)?;
        self.read_into(&array, shape, false, &|out| self.reading.read(block, out))?;
        let array = array.into_any();
        if scalar { Ok(array.get_item(PyTuple::empty(py))?) } else { Ok(array) }
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

    /// As a reader sees it: the step axis first, those of a member last.
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

    /// The axes that the member brings.
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

    /// Bytes of the fill value of one element (of the whole record); nothing if it is zero.
    #[getter]
    fn fill<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.reading.variable().fill.as_ref().map(|f| PyBytes::new(py, f))
    }

    /// How it is computed: text, kind, edge rule, and the path of each input, if it is still there; nothing if it holds values.
    #[getter]
    #[allow(clippy::type_complexity, reason = "a tuple for Python")]
    fn derived(&self) -> Option<(String, &'static str, &'static str, Vec<(String, Option<String>)>)> {
        let found = self.reading.derived()?;
        Some((found.text, found.kind, found.edge, found.inputs))
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
        if self.holds_strings() {
            let (values, _) = py.detach(|| self.reading.read_strings(&selection))?;
            return self.blobs(py, values, &selected.shape, selected.scalar);
        }
        let counts = selection.shape();
        let array = self.new_array(py, &counts)?;
        self.read_into(&array, &counts, false, &|out| self.reading.read(&selection, out))?;
        let mut array = array.into_any();
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

    /// What `select` would do.
    fn explain(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> Result<Plan> {
        let mut selected = key::select(key, &self.full_shape())?;
        selected.selection.axes.truncate(selected.selection.axes.len() - self.inner().len());
        Ok(Plan::new(py.detach(|| self.reading.explain(&selected.selection))?))
    }

    /// The same variable, to be read only as exactly as asked.
    fn with_precision(
        &self,
        error: Option<f64>,
        relative: bool,
        level: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self> {
        let reading = self.reading.clone().with_precision(precision(error, relative, level)?)?;
        Ok(ReadingHandle { reading, member: self.member.clone() })
    }

    /// The same variable, of which float64 may come rounded to float32.
    fn narrowed(&self) -> Result<Self> {
        Ok(ReadingHandle { reading: self.reading.clone().narrowed()?, member: self.member.clone() })
    }

    /// The largest absolute and relative error behind the rounding to float32, of values up to a magnitude.
    #[staticmethod]
    fn narrowed_bound(absolute: f64, relative: f64, largest: f32) -> (f64, f64) {
        let bound = drystone::narrowed_bound(drystone::Bound { absolute, relative }, largest);
        (bound.absolute, bound.relative)
    }

    /// The same variable, to be read by way of a replica, whatever it costs.
    fn by_way_of(&self, replica: u32) -> Self {
        ReadingHandle { reading: self.reading.clone().by_way_of(Some(replica)), member: self.member.clone() }
    }

    /// A box of one step, into `out` if it is given, and its largest absolute and relative error.
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
        if self.holds_strings() {
            let (values, _) = py.detach(|| self.reading.read_strings(&selection))?;
            let array = self.blobs(py, values, &count, false)?;
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

    /// What is stored about the values of a step: blocks, cells, NaNs, least and greatest value, histogram. The histogram is
    /// (exponent, first, counts, infinities): bin i begins at (first + i) * 2^exponent.
    fn statistics<'py>(
        &self,
        py: Python<'py>,
        step: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyTuple>> {
        let step = self.block_step(step)?;
        let found = py.detach(|| self.reading.statistics(step))?;
        let descr = self.descr(py)?;
        let extremes = match found.min_max {
            Some((min, max)) => (self.scalar_of(&descr, min)?, self.scalar_of(&descr, max)?),
            None => (None, None),
        };
        let histogram =
            found.histogram.map(|h| (h.exponent(), h.first(), h.counts().to_vec(), h.infinities()));
        Ok((found.blocks, found.cells, found.nans, extremes.0, extremes.1, histogram).into_pyobject(py)?)
    }

    /// What was published of a step, if anything that tells was: version, chunks, values, NaNs, cells that are fill, least and
    /// greatest value.
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

    /// Plans the read of a product of legs (see `listing::listing`), to be carried out once or more often.
    #[pyo3(signature = (legs))]
    fn plan(slf: &Bound<'_, Self>, legs: &Bound<'_, PyAny>) -> Result<PlannedHandle> {
        let wanted = Wanted::from(listing::listing(legs)?);
        let reading = &slf.get().reading;
        let planned = slf.py().detach(|| reading.planned(wanted))?;
        Ok(PlannedHandle::new(planned, slf.clone().unbind()))
    }

    /// Reads a product of legs once, into `out` if it is given: an array with an axis per leg and those of the member, and its
    /// largest absolute and relative error.
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
            &|| Ok(reading.read_strings(&wanted)?.0),
        )?;
        let bound = report.into_inner().unwrap_or_else(PoisonError::into_inner).bound;
        Ok((array, bound.absolute, bound.relative))
    }

    /// Cuts a box, a (start, step, count) per axis, into pieces of at most `most` cells; `in_rows`: for a file that holds it row by row, to
    /// which so many bytes are worth writing at once.
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

    /// Pieces that are going to be read in order.
    fn announce(&self, tiles: &TilesHandle) {
        self.reading.announce(tiles.tiles());
    }

    /// Warms (0), pins (1) or unpins (2) a box, a (start, step, count) per axis: bytes wanted, fetched, held.
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

    /// Blocks as they were written, whatever overlaps them: one, or all of the step.
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

/// An end of a range of values.
fn limit(value: &Bound<'_, PyAny>) -> Result<Limit> {
    if let Ok(whole) = value.extract::<i128>() {
        return Ok(Limit::Int(whole));
    }
    Ok(Limit::Float(value.extract::<f64>()?))
}

/// What `max_error=`, `relative=` and `precision=` of a read say together.
pub(crate) fn precision(
    error: Option<f64>,
    relative: bool,
    level: Option<&Bound<'_, PyAny>>,
) -> Result<Precision> {
    match (error, level) {
        (None, None) if relative => {
            Err(invalid("relative=True says how max_error is meant; give max_error too"))
        }
        (None, None) => Ok(Precision::Exact),
        (Some(_), Some(_)) => Err(invalid("give max_error or precision, not both")),
        (Some(error), None) if relative => Ok(Precision::Relative(error)),
        (Some(error), None) => Ok(Precision::Absolute(error)),
        (None, Some(level)) => {
            let level = key::unsigned(level, "the precision level")?;
            Ok(Precision::Level(u32::try_from(level).unwrap_or(u32::MAX)))
        }
    }
}

/// Lists of numbers as one array, or as an object array of arrays, each of its own memory.
fn lists<'py>(
    py: Python<'py>,
    number: Scalar,
    descr: &Bound<'py, PyAny>,
    values: Vec<Vec<u8>>,
    shape: &[u64],
    scalar: bool,
) -> Result<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let element = dtype::to_numpy(py, &DType::Scalar(number), None)?;
    let size = number.size() as usize;
    let mut arrays = Vec::with_capacity(values.len());
    for value in values {
        if value.len() % size != 0 {
            let found =
                format!("a stored list has {} bytes, no multiple of the {size} of {number}", value.len());
            return Err(Failure::Engine(Error::new(ErrorKind::Corrupt, found)));
        }
        let bytes = pyo3::types::PyByteArray::new(py, &value);
        arrays.push(numpy.call_method1("frombuffer", (bytes, &element))?);
    }
    if scalar && arrays.len() == 1 {
        return Ok(arrays.swap_remove(0));
    }
    let array = numpy.call_method1("empty", (arrays.len(), descr))?;
    // One by one: NumPy would take lists of equal length for one more axis.
    for (n, one) in arrays.into_iter().enumerate() {
        array.set_item(n, one)?;
    }
    Ok(array.call_method1("reshape", (PyTuple::new(py, shape)?,))?)
}

/// Strings as one `str`, or as an object array of them.
fn strings<'py>(
    py: Python<'py>,
    values: Vec<Vec<u8>>,
    shape: &[u64],
    scalar: bool,
) -> Result<Bound<'py, PyAny>> {
    let mut texts = Vec::with_capacity(values.len());
    for value in &values {
        let text = std::str::from_utf8(value).map_err(|e| {
            Failure::Engine(Error::new(ErrorKind::Corrupt, format!("a stored string is not UTF-8: {e}")))
        })?;
        texts.push(PyString::new(py, text));
    }
    if scalar && texts.len() == 1 {
        return Ok(texts.swap_remove(0).into_any());
    }
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("empty", (texts.len(), "O"))?;
    array.set_item(py.Ellipsis(), PyList::new(py, texts)?)?;
    Ok(array.call_method1("reshape", (PyTuple::new(py, shape)?,))?)
}
