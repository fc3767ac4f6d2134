//! The writer handle: arrays of exactly the variable's type go to the engine as they lie in memory.

use drystone::format::dtype::{DType, Scalar};
use drystone::member::member;
use drystone::{Container, ErrorKind, Level, Writer};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::dtype::Element;
use crate::error::is_missing;
use crate::error::{Failure, Result, invalid};
use crate::fragment::FragmentHandle;
use crate::ndarray::View;
use crate::{dtype, key};

/// An open writer.
#[pyclass(frozen, name = "WriterHandle", module = "drystone._core")]
pub(crate) struct WriterHandle {
    writer: Writer,
    container: Container,
}

impl WriterHandle {
    pub(crate) fn new(writer: Writer, container: Container) -> Self {
        WriterHandle { writer, container }
    }

    /// Element type and shape of a variable or member; looks again if another process may have just created it.
    fn element(&self, name: &str, field: Option<&str>) -> drystone::Result<(Element, Vec<u64>)> {
        let reading = match self.container.reading(name, field) {
            Err(e) if is_missing(&e) => {
                self.container.refresh()?;
                self.container.reading(name, field)?
            }
            other => other?,
        };
        let whole = reading.variable();
        Ok(match field.and_then(|field| member(&whole.dtype, field)) {
            Some(found) => {
                let meaning = found.meaning(whole.meaning.as_ref()).cloned();
                (Element { dtype: found.dtype, meaning }, found.shape)
            }
            None => (Element { dtype: whole.dtype.clone(), meaning: whole.meaning.clone() }, Vec::new()),
        })
    }

    /// Whether the bits of given elements are what the variable or member holds, as far as meanings go.
    fn means_the_same(&self, name: &str, field: Option<&str>, given: &Element) -> drystone::Result<bool> {
        // Other types stand for nothing but themselves, in whatever variable.
        let plain = !matches!(given.dtype, DType::Scalar(Scalar::I64) | DType::Record(_));
        if plain && given.meaning.is_none() {
            return Ok(true);
        }
        if field.is_none()
            && let Some(variable) = self.container.schema().resolve(Container::normal_path(name))
        {
            return Ok(dtype::is_same(given.meaning.as_ref(), variable.meaning.as_ref()));
        }
        let (stored, _) = self.element(name, field)?;
        Ok(dtype::is_same(given.meaning.as_ref(), stored.meaning.as_ref()))
    }
}

/// The level of that name.
pub(crate) fn parse_level(name: &str) -> Result<Level> {
    Level::parse(name).ok_or_else(|| {
        let names: Vec<String> = Level::ALL.iter().map(|level| format!("\"{level}\"")).collect();
        invalid(format!("a level is one of {}, not \"{name}\"", names.join(", ")))
    })
}

#[pymethods]
impl WriterHandle {
    /// Number in the names of its log, in hexadecimal.
    #[getter]
    fn id(&self) -> String {
        format!("{:016x}", self.writer.id())
    }

    #[getter]
    fn run(&self) -> Option<u64> {
        self.writer.run()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.writer.is_closed()
    }

    #[getter]
    fn current_step(&self) -> Option<u64> {
        self.writer.current_step()
    }

    #[pyo3(signature = (step, replace))]
    fn begin_step(&self, py: Python<'_>, step: Option<&Bound<'_, PyAny>>, replace: bool) -> Result<u64> {
        let step = step.map(|step| key::unsigned(step, "the step")).transpose()?;
        Ok(py.detach(|| self.writer.begin_step(step, replace))?)
    }

    /// Refuses a name that is no level.
    #[staticmethod]
    fn check_level(level: &str) -> Result<()> {
        parse_level(level).map(drop)
    }

    /// `level`: how safe the step is when this returns; none: as the container promises.
    fn end_step(&self, py: Python<'_>, level: Option<&str>) -> Result<()> {
        match level.map(parse_level).transpose()? {
            Some(level) => py.detach(|| self.writer.end_step_at(level))?,
            None => py.detach(|| self.writer.end_step())?,
        };
        Ok(())
    }

    fn abort_step(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.writer.abort_step())?)
    }

    /// NumPy dtype, whether it stands for values of any length, and the axes of a member.
    #[pyo3(signature = (name, field))]
    fn target<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        field: Option<&str>,
    ) -> Result<(Bound<'py, PyAny>, bool, Bound<'py, PyTuple>)> {
        let (element, shape) = py.detach(|| self.element(name, field))?;
        Ok((element.to_numpy(py)?, element.dtype.is_blob(), PyTuple::new(py, shape)?))
    }

    /// False, with nothing put, if the elements of the array are not of the variable's type.
    #[pyo3(signature = (name, array, offset, field))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        array: Bound<'py, PyUntypedArray>,
        offset: Option<&Bound<'py, PyAny>>,
        field: Option<&str>,
    ) -> Result<bool> {
        let offset = offset.map(|o| key::extents(o, "offset")).transpose()?;
        let descr = array.dtype();
        let Ok(element) = dtype::from_numpy(&descr) else { return Ok(false) };
        if !py.detach(|| self.means_the_same(name, field, &element))? {
            return Ok(false);
        }
        let mut array = array;
        if !dtype::is_native(&descr)? {
            let converted = array.call_method1("astype", (element.to_numpy(py)?,))?;
            array = converted.cast_into::<PyUntypedArray>()?;
        }
        let mut view = View::of(&array)?;
        if let Some(field) = field {
            let (_, inner) = py.detach(|| self.element(name, Some(field)))?;
            if !inner.is_empty() {
                if !view.shape().ends_with(&inner) {
                    return Err(invalid(format!(
                        "member \"{field}\" of \"{name}\" has shape {inner:?} in each element; the array has shape {:?}",
                        view.shape()
                    )));
                }
                view = match view.fold(&inner) {
                    Some(view) => view,
                    None => {
                        let dense = py.import("numpy")?.call_method1("ascontiguousarray", (&array,))?;
                        array = dense.cast_into::<PyUntypedArray>()?;
                        let view = View::of(&array)?.fold(&inner);
                        view.ok_or_else(|| invalid("the array's last axes are not the member's"))?
                    }
                };
            }
        }
        // SAFETY: `array` is referenced until this returns; that nobody changes it meanwhile is the contract of put().
        let source = unsafe { view.source()? };
        let put = py.detach(|| self.writer.put(name, &element.dtype, &source, offset.as_deref(), field));
        match put {
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                let stored = py.detach(|| self.element(name, field));
                let other = stored.is_ok_and(|(stored, _)| stored.dtype != element.dtype);
                if other { Ok(false) } else { Err(e.into()) }
            }
            done => Ok(done.map(|()| true)?),
        }
    }

    /// `values` in row-major order of `shape`: texts, or the bytes of lists.
    #[pyo3(signature = (name, shape, values, offset))]
    fn put_strings<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        shape: Vec<u64>,
        values: Bound<'py, PyList>,
        offset: Option<&Bound<'py, PyAny>>,
    ) -> Result<()> {
        let offset = offset.map(|o| key::extents(o, "offset")).transpose()?;
        let (element, _) = py.detach(|| self.element(name, None))?;
        if let DType::Ragged(_) = element.dtype {
            let lists: Vec<Bound<'py, PyBytes>> = values
                .iter()
                .map(|value| value.cast_into::<PyBytes>().map_err(|e| Failure::Python(PyErr::from(e))))
                .collect::<Result<_>>()?;
            let lists: Vec<&[u8]> = lists.iter().map(|list| list.as_bytes()).collect();
            py.detach(|| self.writer.put_strings(name, &shape, &lists, offset.as_deref()))?;
            return Ok(());
        }
        let mut kept = Vec::with_capacity(values.len());
        for value in values.iter() {
            match value.cast_into::<PyString>() {
                Ok(text) => kept.push(text),
                Err(other) => {
                    let found = other.into_inner();
                    return Err(invalid(format!("\"{name}\" holds strings, not {}", found.repr()?)));
                }
            }
        }
        let mut texts = Vec::with_capacity(kept.len());
        for text in &kept {
            let text = text
                .to_str()
                .map_err(|e| invalid(format!("a string for \"{name}\" is no valid text: {e}")))?;
            texts.push(text.as_bytes());
        }
        py.detach(|| self.writer.put_strings(name, &shape, &texts, offset.as_deref()))?;
        Ok(())
    }

    /// Puts the memory of a fragment.
    fn put_fragment(
        &self,
        py: Python<'_>,
        fragment: &Bound<'_, FragmentHandle>,
        buffer: &Bound<'_, PyUntypedArray>,
    ) -> Result<()> {
        fragment.get().write(py, &self.writer, buffer)
    }

    /// What `auto` chose: name, chain and report.
    fn choices(&self) -> Vec<(String, String, String)> {
        let all = self.writer.choices();
        all.into_iter().map(|(name, choice)| (name, choice.chain().canonical(), choice.to_string())).collect()
    }

    fn flush(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.writer.flush())?)
    }

    /// Commits values without a step and goes on; false where the writer has to be closed for that.
    fn commit(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.writer.commit())?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.writer.close())?)
    }
}
