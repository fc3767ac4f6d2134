//! Values as Python objects: scalars, texts and lists of any length, blocks.

use drystone::Written;
use drystone::format::dtype::{DType, Scalar};
use drystone::format::meaning::Meaning;
use drystone::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::ReadingHandle;
use crate::dtype;
use crate::error::{Failure, Result};

impl ReadingHandle {
    /// Values of any length: texts, or arrays of the numbers of each list. `shape` is that of the cells; the axes of a
    /// member follow.
    pub(crate) fn blobs<'py>(
        &self,
        py: Python<'py>,
        values: Vec<Vec<u8>>,
        shape: &[u64],
        scalar: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let mut full = shape.to_vec();
        full.extend(self.inner());
        match self.dtype() {
            DType::Ragged(number) => lists(py, *number, &self.descr(py)?, values, &full, scalar),
            _ => strings(py, values, &full, scalar),
        }
    }

    /// The value that is stored as bits in an index entry, as a scalar of `descr`.
    pub(super) fn scalar_of<'py>(
        &self,
        descr: &Bound<'py, PyAny>,
        bits: u64,
    ) -> Result<Option<Bound<'py, PyAny>>> {
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

    /// An array; a scalar if the block has no dimensions.
    pub(super) fn block_value<'py>(&self, py: Python<'py>, block: &Written) -> Result<Bound<'py, PyAny>> {
        let shape = block.shape();
        let scalar = shape.is_empty() && self.inner().is_empty();
        if self.holds_strings() {
            let (values, _) = py.detach(|| self.reading.read_strings(block))?;
            return self.blobs(py, values, shape, scalar);
        }
        if self.holds_objects() {
            let (records, _) = py.detach(|| self.reading.read_records(block))?;
            let array = self.structured(py, records, shape)?;
            return if scalar { Ok(array.get_item(PyTuple::empty(py))?) } else { Ok(array) };
        }
        let array = self.new_array(py, shape)?;
        self.read_into(&array, shape, false, &|out| self.reading.read(block, out))?;
        let array = array.into_any();
        if scalar { Ok(array.get_item(PyTuple::empty(py))?) } else { Ok(array) }
    }
}

/// Lists of numbers: one array, or an object array of arrays that own their memory.
pub(super) fn lists<'py>(
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
    // One by one: NumPy would turn lists of equal length into another axis.
    for (n, one) in arrays.into_iter().enumerate() {
        array.set_item(n, one)?;
    }
    Ok(array.call_method1("reshape", (PyTuple::new(py, shape)?,))?)
}

/// Strings: one `str`, or an object array of them.
pub(super) fn strings<'py>(
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
