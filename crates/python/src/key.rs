//! Converts Python's indexing expressions and small numbers.

use drystone::plan::selection::{self, Axis, Index, IndexError, Selection};
use drystone::plan::selection_text::{self, Item};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PySlice, PyString, PyTuple};

use crate::error::{Failure, Result, invalid, out_of_range};

/// The selection of an indexing expression.
pub(crate) struct Selected {
    /// Cells, one axis per dimension.
    pub(crate) selection: Selection,
    /// Shape of the result.
    pub(crate) shape: Vec<u64>,
    /// Whether NumPy returns a scalar for this expression if no axis is left.
    pub(crate) scalar: bool,
}

/// NumPy's basic indexing of an array of `shape`. Lists, arrays and booleans are passed as the legs of a
/// listing instead.
pub(crate) fn select(key: &Bound<'_, PyAny>, shape: &[u64]) -> Result<Selected> {
    let mut items = Vec::new();
    match key.cast::<PyTuple>() {
        Ok(tuple) => {
            for item in tuple {
                items.push(index(&item)?);
            }
        }
        Err(_) => items.push(index(key)?),
    }
    let scalar = !items.contains(&Index::Ellipsis);
    let (selection, shape) = selection::index(shape, &items).map_err(|e| match e {
        IndexError::ZeroStep { .. } => invalid(e.to_string()),
        _ => out_of_range(e.to_string()),
    })?;
    let scalar = scalar && shape.is_empty();
    Ok(Selected { selection, shape, scalar })
}

/// The items of a selection text, as NumPy's indexing takes them.
#[pyfunction]
pub(crate) fn parse_selection<'py>(py: Python<'py>, text: &str) -> Result<Bound<'py, PyTuple>> {
    let items = selection_text::parse_items(text)
        .map_err(|mistake| invalid(format!("{mistake} at character {}", mistake.column(text) + 1)))?;
    let item = |(item, _)| -> PyResult<Bound<'py, PyAny>> {
        Ok(match item {
            Item::Index(Index::Int(cell)) => cell.into_pyobject(py)?.into_any(),
            Item::Index(Index::Slice { start, stop, step }) => {
                py.get_type::<PySlice>().call1((start, stop, step))?
            }
            Item::Index(Index::Ellipsis) => py.Ellipsis().into_bound(py),
            Item::Index(Index::NewAxis) => py.None().into_bound(py),
            Item::Cells(cells) => cells.into_pyobject(py)?.into_any(),
        })
    };
    let items = items.into_iter().map(item).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, items)?)
}

fn index(item: &Bound<'_, PyAny>) -> Result<Index> {
    let py = item.py();
    if let Ok(slice) = item.cast::<PySlice>() {
        return Ok(Index::Slice {
            start: bound(&slice.getattr(pyo3::intern!(py, "start"))?)?,
            stop: bound(&slice.getattr(pyo3::intern!(py, "stop"))?)?,
            step: bound(&slice.getattr(pyo3::intern!(py, "step"))?)?,
        });
    }
    if item.is_none() {
        return Ok(Index::NewAxis);
    }
    if item.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Ellipsis);
    }
    if item.is_instance_of::<PyString>() {
        return Err(out_of_range("a member of a record is named alone: T[\"x\"][...], not T[\"x\", ...]"));
    }
    match integer(item) {
        Ok(Some(number)) => Ok(Index::Int(number)),
        _ => Err(out_of_range(format!(
            "{} is not an index: integers, slices (:), ellipsis (...), None (newaxis), and lists and arrays of integers or booleans \
             are",
            item.repr()?
        ))),
    }
}

fn bound(item: &Bound<'_, PyAny>) -> Result<Option<i64>> {
    if item.is_none() {
        return Ok(None);
    }
    integer(item)?.map(Some).ok_or_else(|| {
        out_of_range(format!(
            "a slice is made of integers and None, not {}",
            item.get_type().name().map_or_else(|_| "this".into(), |n| n.to_string())
        ))
    })
}

/// `operator.index`, clamped to 64 bits; `None` for a value that is not an integer.
fn integer(item: &Bound<'_, PyAny>) -> Result<Option<i64>> {
    let py = item.py();
    let number = match item.extract::<i64>() {
        Ok(number) => return Ok(Some(number)),
        Err(e) if e.is_instance_of::<PyOverflowError>(py) => item.call_method0("__index__")?,
        Err(_) => return Ok(None),
    };
    Ok(Some(if number.lt(0)? { i64::MIN } else { i64::MAX }))
}

/// An unsigned number.
pub(crate) fn unsigned(item: &Bound<'_, PyAny>, what: &str) -> Result<u64> {
    match integer(item)? {
        Some(n) if (0..i64::MAX).contains(&n) => Ok(n as u64),
        Some(_) => Err(invalid(format!("{what} is {item}; it must be from 0 to 2^63 - 1"))),
        None => Err(invalid(format!("{what} must be an integer, not {}", item.repr()?))),
    }
}

/// One number per dimension: a sequence, or a single integer for one dimension.
pub(crate) fn extents(item: &Bound<'_, PyAny>, what: &str) -> Result<Vec<u64>> {
    // Checking for a sequence first is faster: finding out that it is no integer is slow.
    if let Ok(parts) = item.cast::<PyTuple>() {
        return parts.iter().map(|n| unsigned(&n, what)).collect();
    }
    if integer(item)?.is_some() {
        return Ok(vec![unsigned(item, what)?]);
    }
    let parts = item.try_iter().map_err(|_| {
        invalid(format!("{what} must be integers, one per dimension, not {}", item.get_type()))
    })?;
    parts.map(|n| unsigned(&n.map_err(Failure::from)?, what)).collect()
}

/// The progression of an axis as a slice.
pub(crate) fn as_slice<'py>(py: Python<'py>, axis: &Axis) -> PyResult<Bound<'py, PyAny>> {
    let slice = py.get_type::<PySlice>();
    if axis.count == 0 {
        return slice.call1((0, 0, 1));
    }
    let end = axis.start as i128 + i128::from(axis.step) * i128::from(axis.count);
    if end < 0 {
        slice.call1((axis.start, py.None(), axis.step))
    } else {
        slice.call1((axis.start, end, axis.step))
    }
}
