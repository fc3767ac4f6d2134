//! Records with members of any length, as NumPy's structured arrays with objects for these members.
//!
//! The engine gives the cells as they are in memory, and the values of each member of any length beside them. Members
//! are assigned by name, since NumPy's elements have pointers at the places of the engine's references.

use drystone::Records;
use drystone::format::dtype::{DType, Record};
use drystone::format::meaning::Meaning;
use drystone::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::ReadingHandle;
use super::values::{lists, strings};
use crate::dtype;
use crate::error::{Failure, Result};

/// The values of the members of any length that are still to be placed, in the order of the leaves.
type Left = std::vec::IntoIter<Vec<Vec<u8>>>;

impl ReadingHandle {
    /// Whether what is read are records with members of any length.
    pub(crate) fn holds_objects(&self) -> bool {
        self.dtype().has_blobs() && !self.dtype().is_blob()
    }

    /// Cells of this shape as a structured array, which has the axes of the member too.
    pub(crate) fn structured<'py>(
        &self,
        py: Python<'py>,
        records: Records,
        shape: &[u64],
    ) -> Result<Bound<'py, PyAny>> {
        let DType::Record(record) = self.dtype() else { return Err(odd("no record")) };
        let mut full = shape.to_vec();
        full.extend(self.inner());
        let numpy = py.import("numpy")?;
        let axes = PyTuple::new(py, &full)?;
        let out = numpy.call_method1("empty", (&axes, self.descr(py)?))?;
        let fixed = dtype::fixed_part(py, record, self.meaning())?;
        let bytes = PyBytes::new(py, &records.cells);
        let fixed = match full.contains(&0) {
            true => numpy.call_method1("zeros", (axes, fixed))?,
            false => numpy.call_method1("frombuffer", (bytes, fixed))?.call_method1("reshape", (axes,))?,
        };
        let mut left = records.values.into_iter();
        each(py, self.inner(), &mut |at| {
            place(py, record, self.meaning(), &out.get_item(&at)?, Some(&fixed.get_item(&at)?), &mut left)
        })?;
        Ok(out)
    }

    /// The element that unwritten cells read as.
    pub(super) fn structured_fill<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let variable = self.reading.variable();
        let DType::Record(record) = &variable.dtype else { return Err(odd("no record")) };
        let meaning = variable.meaning.as_ref();
        let numpy = py.import("numpy")?;
        let zeros = vec![0; variable.dtype.item_size() as usize];
        let bytes = PyBytes::new(py, variable.fill.as_ref().unwrap_or(&zeros));
        let fixed = numpy.call_method1("frombuffer", (bytes, dtype::fixed_part(py, record, meaning)?))?;
        let out = numpy.call_method1("empty", (1, dtype::to_numpy(py, &variable.dtype, meaning)?))?;
        let leaves = variable.dtype.leaves().into_iter().filter(|leaf| leaf.dtype.is_blob());
        let empty: Vec<Vec<Vec<u8>>> = leaves.map(|leaf| vec![Vec::new(); leaf.repeat as usize]).collect();
        place(py, record, meaning, &out, Some(&fixed), &mut empty.into_iter())?;
        Ok(out.get_item(0)?)
    }
}

/// Fills an array of records: fixed members from `fixed`, the others with what is left.
fn place<'py>(
    py: Python<'py>,
    record: &Record,
    meaning: Option<&Meaning>,
    out: &Bound<'py, PyAny>,
    fixed: Option<&Bound<'py, PyAny>>,
    left: &mut Left,
) -> Result<()> {
    for member in &record.members {
        let name = member.name.as_str();
        let below = meaning.and_then(|meaning| meaning.of_member([name]));
        let own = out.get_item(name)?;
        if member.dtype.is_blob() {
            let values = left.next().ok_or_else(|| odd("a member of any length without values"))?;
            let shape: Vec<u64> = own.getattr("shape")?.extract()?;
            let values = match &member.dtype {
                DType::Ragged(number) => {
                    let descr = dtype::to_numpy(py, &member.dtype, below)?;
                    lists(py, *number, &descr, values, &shape, false)?
                }
                _ => strings(py, values, &shape, false)?,
            };
            own.set_item(py.Ellipsis(), values)?;
        } else if let (DType::Record(inner), true) = (&member.dtype, member.dtype.has_blobs()) {
            let fixed =
                fixed.filter(|_| dtype::has_fixed(inner)).map(|fixed| fixed.get_item(name)).transpose()?;
            each(py, &member.shape, &mut |at| {
                let fixed = fixed.as_ref().map(|fixed| fixed.get_item(&at)).transpose()?;
                place(py, inner, below, &own.get_item(&at)?, fixed.as_ref(), left)
            })?;
        } else if let Some(fixed) = fixed {
            own.set_item(py.Ellipsis(), fixed.get_item(name)?)?;
        }
    }
    Ok(())
}

/// Calls `act` with the index of each element of an array that is the last axes, in row-major order.
fn each<'py>(
    py: Python<'py>,
    shape: &[u64],
    act: &mut dyn FnMut(Bound<'py, PyTuple>) -> Result<()>,
) -> Result<()> {
    let mut at = vec![0u64; shape.len()];
    for _ in 0..shape.iter().product::<u64>() {
        let mut index = vec![py.Ellipsis().into_bound(py).into_any()];
        for i in &at {
            index.push(i.into_pyobject(py).map_err(PyErr::from)?.into_any());
        }
        act(PyTuple::new(py, index)?)?;
        for (i, n) in at.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    Ok(())
}

fn odd(what: &str) -> Failure {
    Failure::Engine(Error::new(
        ErrorKind::Corrupt,
        format!("the cells of a record do not fit its type: {what}"),
    ))
}
