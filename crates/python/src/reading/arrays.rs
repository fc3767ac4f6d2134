//! NumPy arrays that a read fills: new ones, and the caller's.

use drystone::ReadReport;
use drystone::array::Target;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::ReadingHandle;
use crate::dtype;
use crate::error::{Result, invalid};
use crate::ndarray::{View, empty};

impl ReadingHandle {
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

    /// Reads with `act` into the array, whose leading axes are `cells`. `one_step`: the read has a leading step axis.
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
                // SAFETY: `array` is referenced until this returns. As for any NumPy array that is read into,
                // the contract is that no other thread uses it meanwhile.
                let target = unsafe { view.target()? };
                Ok(py.detach(|| act(&target))?)
            }
            None if array.is_c_contiguous() => {
                Err(invalid("the array to read into does not have the axes of the member that is read"))
            }
            None => {
                // The engine cannot write its elements one by one: read into a dense array and copy.
                let dense = self.new_array(py, cells)?;
                let report = self.read_into(&dense, cells, one_step, act)?;
                py.import("numpy")?.call_method1("copyto", (array, dense))?;
                Ok(report)
            }
        }
    }

    /// The caller's `out`, if it can hold elements of this type in `shape`.
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
}
