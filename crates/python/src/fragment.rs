//! A fragment of a container: its layout as NumPy describes memory, and calls that read and write it.

use drystone::plan::selection::Axis;
use drystone::{Error, ErrorKind, FragmentHandle as Fragment, Writer};
use drystone_dataset::{ArrayType, Order, Prim, Type};
use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::dtype;
use crate::error::{Failure, Result, invalid};
use crate::key;
use crate::ndarray::View;
use crate::reading::precision;

/// (variable, member, axes as start, step, count)
type MissingCells = (String, Option<String>, Vec<(u64, i64, u64)>);
/// (name, counter of a `for`, offset, shape, strides or None along a curve, dtype)
type VarLayout<'py> = (String, Option<i64>, u64, Vec<u64>, Option<Vec<u64>>, Bound<'py, PyAny>);

/// One instance of a declared fragment.
#[pyclass(frozen, name = "FragmentHandle", module = "drystone._core")]
pub(crate) struct FragmentHandle {
    fragment: Fragment,
}

impl FragmentHandle {
    pub(crate) fn new(fragment: Fragment) -> Self {
        FragmentHandle { fragment }
    }

    pub(crate) fn write(
        &self,
        py: Python<'_>,
        writer: &Writer,
        buffer: &Bound<'_, PyUntypedArray>,
    ) -> Result<()> {
        let (first, len) = View::of(buffer)?.dense_bytes().ok_or_else(not_dense)?;
        // SAFETY: `buffer` is a live array of `len` dense bytes (checked), referenced until this returns. The
        // contract of write() is that no other thread changes it meanwhile.
        let data = unsafe { bytes(first, len) };
        Ok(py.detach(|| self.fragment.write(writer, data))?)
    }
}

fn not_dense() -> Failure {
    invalid("a fragment's memory is a dense array of bytes")
}

/// # Safety
/// Unless `len` is 0, `first` is readable for `len` bytes, and they do not change during `'a`.
unsafe fn bytes<'a>(first: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller guarantees it; an empty slice needs no memory.
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(first, len) } }
}

#[pymethods]
impl FragmentHandle {
    #[getter]
    fn name(&self) -> String {
        self.fragment.layout().name.to_string()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.fragment.layout().size
    }

    #[getter]
    fn align(&self) -> u64 {
        self.fragment.layout().align
    }

    #[getter]
    fn has_steps(&self) -> bool {
        self.fragment.has_steps()
    }

    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for (name, value) in &self.fragment.layout().params {
            out.set_item(&**name, value)?;
        }
        Ok(out)
    }

    /// The arrays of the fragment in the order of memory.
    fn layout<'py>(&self, py: Python<'py>) -> Result<Vec<VarLayout<'py>>> {
        let mut out = Vec::new();
        for var in &self.fragment.layout().vars {
            let mut shape = var.extents.clone();
            let mut strides = var.strides();
            if strides.is_none() {
                shape = vec![shape.iter().product()];
                strides = Some(vec![var.element.size()]);
            }
            let (element, curved) = unfold(&var.element, &mut shape, strides.as_mut());
            let strides = strides.filter(|_| !curved);
            out.push((
                var.name.to_string(),
                var.iteration,
                var.offset,
                shape,
                strides,
                numpy_type(py, element)?,
            ));
        }
        Ok(out)
    }

    /// Fills the buffer; returns the largest absolute and relative error.
    fn read(
        &self,
        py: Python<'_>,
        step: Option<&Bound<'_, PyAny>>,
        buffer: &Bound<'_, PyUntypedArray>,
        error: Option<f64>,
        relative: bool,
        level: Option<&Bound<'_, PyAny>>,
    ) -> Result<(f64, f64)> {
        let precision = precision(error, relative, level)?;
        let step = step.map(|step| key::unsigned(step, "the step")).transpose()?;
        let view = View::of(buffer)?;
        let (first, len) = view.dense_bytes().filter(|_| view.is_writable()).ok_or_else(not_dense)?;
        // SAFETY: `buffer` is a live, writable array of `len` dense bytes (checked), referenced until this returns. As
        // for any NumPy array that is read into, the contract is that no other thread uses it meanwhile.
        let out = if len == 0 { &mut [][..] } else { unsafe { std::slice::from_raw_parts_mut(first, len) } };
        let bound = py.detach(|| self.fragment.read(step, out, precision))?.bound;
        Ok((bound.absolute, bound.relative))
    }

    fn coverage(
        &self,
        py: Python<'_>,
        step: Option<&Bound<'_, PyAny>>,
    ) -> Result<(u64, u64, u64, u64, Vec<MissingCells>)> {
        let step = step.map(|step| key::unsigned(step, "the step")).transpose()?;
        let found = py.detach(|| self.fragment.coverage(step))?;
        let axes = |axes: Vec<Axis>| axes.into_iter().map(|a| (a.start, a.step, a.count)).collect();
        let places = found.places.into_iter().map(|m| (m.variable, m.field, axes(m.axes))).collect();
        Ok((found.wanted, found.covered, found.unmapped, found.missing, places))
    }

    fn explain(&self, py: Python<'_>, step: Option<&Bound<'_, PyAny>>) -> Result<String> {
        let step = step.map(|step| key::unsigned(step, "the step")).transpose()?;
        Ok(py.detach(|| self.fragment.explain(step))?.to_string())
    }

    fn __str__(&self) -> String {
        self.fragment.layout().to_string()
    }
}

/// The element below directly nested arrays, whose dimensions are appended; true if one of them follows a curve.
fn unfold<'t>(ty: &'t Type, shape: &mut Vec<u64>, mut strides: Option<&mut Vec<u64>>) -> (&'t Type, bool) {
    let (mut ty, mut curved) = (ty, false);
    while let Type::Array(array) = ty {
        let array: &ArrayType = array;
        let extents: Vec<Option<u64>> = array.extents.iter().copied().map(Some).collect();
        let inner: Option<Vec<u64>> =
            array.order.strides(&extents, array.element.size()).into_iter().collect();
        shape.extend(&array.extents);
        match (inner, &mut strides) {
            (Some(inner), Some(strides)) => strides.extend(inner),
            _ => curved = true,
        }
        ty = &array.element;
    }
    (ty, curved)
}

/// A declared type as a NumPy dtype: structs with the offsets and the size that the language defines.
fn numpy_type<'py>(py: Python<'py>, ty: &Type) -> Result<Bound<'py, PyAny>> {
    let make = py.import(pyo3::intern!(py, "numpy"))?.getattr(pyo3::intern!(py, "dtype"))?;
    match ty {
        Type::Prim(Prim::Bytes(n)) => Ok(make.call1((format!("S{n}"),))?),
        Type::Prim(Prim::Bfloat16) => dtype::parse(pyo3::types::PyString::new(py, "bfloat16").as_any())
            .and_then(|parsed| parsed.to_numpy(py)),
        Type::Prim(prim) => Ok(make.call1((prim.name(),))?),
        Type::Array(array) => {
            if array.order != Order::Row {
                return Err(Failure::from(Error::new(
                    ErrorKind::Unsupported,
                    "NumPy has no member arrays in another order than row",
                )));
            }
            let inner = numpy_type(py, &array.element)?;
            Ok(make.call1(((inner, PyTuple::new(py, &array.extents)?),))?)
        }
        Type::Struct(structure) => {
            let formats: Vec<_> =
                structure.fields.iter().map(|f| numpy_type(py, &f.ty)).collect::<Result<_>>()?;
            let parts = PyDict::new(py);
            parts.set_item("names", PyList::new(py, structure.fields.iter().map(|f| &*f.name))?)?;
            parts.set_item("formats", formats)?;
            parts.set_item("offsets", PyList::new(py, structure.fields.iter().map(|f| f.offset))?)?;
            parts.set_item("itemsize", structure.size)?;
            Ok(make.call1((parts,))?)
        }
    }
}
