//! The writer handle: arrays of exactly the variable's type are passed to the engine without a copy.

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

    /// Element type and shape of a variable or member; refreshes once if it is missing, since another process
    /// may have just created it.
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

    /// Whether the given elements have the meaning of the variable or member, so that their bits can be stored.
    fn means_the_same(&self, name: &str, field: Option<&str>, given: &Element) -> drystone::Result<bool> {
        // Other types have no meaning beside the type, whatever the variable.
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

/// Parses the name of a level.
pub(crate) fn parse_level(name: &str) -> Result<Level> {
    Level::parse(name).ok_or_else(|| {
        let names: Vec<String> = Level::ALL.iter().map(|level| format!("\"{level}\"")).collect();
        invalid(format!("a level is one of {}, not \"{name}\"", names.join(", ")))
    })
}

#[pymethods]
impl WriterHandle {
    /// The number in the names of its log, in hexadecimal.
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

    /// Refuses an unknown level.
    #[staticmethod]
    fn check_level(level: &str) -> Result<()> {
        parse_level(level).map(drop)
    }

    /// `level`: the level the step has reached when this returns; none: the container's default.
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

    /// NumPy dtype, whether values have any length, and the inner axes of a member.
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

    /// Returns false, and puts nothing, if the elements of the array are not of the variable's type.
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
        if element.dtype.has_blobs() || !py.detach(|| self.means_the_same(name, field, &element))? {
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
        // SAFETY: `array` is referenced until this returns; the contract of put() is that no other thread
        // changes it meanwhile.
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

    /// `values` in row-major order of `shape`, which has the axes of a member too: texts, or the bytes of lists.
    #[pyo3(signature = (name, shape, values, offset, field))]
    fn put_strings<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        shape: Vec<u64>,
        values: Bound<'py, PyList>,
        offset: Option<&Bound<'py, PyAny>>,
        field: Option<&str>,
    ) -> Result<()> {
        let offset = offset.map(|o| key::extents(o, "offset")).transpose()?;
        let (element, inner) = py.detach(|| self.element(name, field))?;
        let cells = shape.strip_suffix(&inner[..]).ok_or_else(|| {
            invalid(format!(
                "member \"{}\" of \"{name}\" has shape {inner:?} in each element; the array has shape {shape:?}",
                field.unwrap_or_default()
            ))
        })?;
        let kept = Given::of(&element.dtype, &values, name)?;
        let values = kept.bytes(name)?;
        py.detach(|| self.writer.put_strings(name, cells, &values, offset.as_deref(), field))?;
        Ok(())
    }

    /// Whole records, or a member that is a record, with members of any length: `fixed` has the others, by the dtype of
    /// `fixed_part`, and `values` a list for each member of any length, as `put_strings` takes it.
    #[pyo3(signature = (name, fixed, values, offset, field))]
    fn put_records<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        fixed: Bound<'py, PyUntypedArray>,
        values: Vec<Bound<'py, PyList>>,
        offset: Option<&Bound<'py, PyAny>>,
        field: Option<&str>,
    ) -> Result<()> {
        let offset = offset.map(|o| key::extents(o, "offset")).transpose()?;
        let (element, inner) = py.detach(|| self.element(name, field))?;
        let view = View::of(&fixed)?;
        let view = view.fold(&inner).ok_or_else(|| invalid("the array's last axes are not the member's"))?;
        let leaves: Vec<_> = element.dtype.leaves().into_iter().filter(|leaf| leaf.dtype.is_blob()).collect();
        let kept = values
            .iter()
            .enumerate()
            .map(|(n, values)| match leaves.get(n % leaves.len().max(1)) {
                Some(leaf) => Given::of(&leaf.dtype, values, &format!("{name}\" member \"{}", leaf.path)),
                None => Err(invalid(format!("\"{name}\" has no members of any length"))),
            })
            .collect::<Result<Vec<_>>>()?;
        let values = kept.iter().map(|given| given.bytes(name)).collect::<Result<Vec<_>>>()?;
        // SAFETY: `fixed` is referenced until this returns, and is known to the caller alone.
        let source = unsafe { view.source()? };
        let whole = (&source, &values[..]);
        py.detach(|| self.writer.put_records(name, &element.dtype, whole, offset.as_deref(), field))?;
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

    /// The choices of `auto`: name, chain and report.
    fn choices(&self) -> Vec<(String, String, String)> {
        let all = self.writer.choices();
        all.into_iter().map(|(name, choice)| (name, choice.chain().canonical(), choice.to_string())).collect()
    }

    fn flush(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.writer.flush())?)
    }

    /// Commits values without a step and continues; false if only closing the writer can commit them.
    fn commit(&self, py: Python<'_>) -> Result<bool> {
        Ok(py.detach(|| self.writer.commit())?)
    }

    fn close(&self, py: Python<'_>) -> Result<()> {
        Ok(py.detach(|| self.writer.close())?)
    }
}

/// Values of any length as Python has them, in the order of the cells.
enum Given<'py> {
    Texts(Vec<Bound<'py, PyString>>),
    Lists(Vec<Bound<'py, PyBytes>>),
}

impl<'py> Given<'py> {
    fn of(dtype: &DType, values: &Bound<'py, PyList>, name: &str) -> Result<Self> {
        if let DType::Ragged(_) = dtype {
            let bytes = |value: Bound<'py, PyAny>| {
                value.cast_into::<PyBytes>().map_err(|e| Failure::Python(PyErr::from(e)))
            };
            return Ok(Given::Lists(values.iter().map(bytes).collect::<Result<_>>()?));
        }
        let text = |value: Bound<'py, PyAny>| match value.cast_into::<PyString>() {
            Ok(text) => Ok(text),
            Err(other) => {
                let found = other.into_inner();
                Err(invalid(format!("\"{name}\" holds strings, not {}", found.repr()?)))
            }
        };
        Ok(Given::Texts(values.iter().map(text).collect::<Result<_>>()?))
    }

    fn bytes(&self, name: &str) -> Result<Vec<&[u8]>> {
        match self {
            Given::Lists(lists) => Ok(lists.iter().map(|list| list.as_bytes()).collect()),
            Given::Texts(texts) => texts
                .iter()
                .map(|text| {
                    let text = text.to_str();
                    let wrong = |e| invalid(format!("a string for \"{name}\" is no valid text: {e}"));
                    Ok(text.map_err(wrong)?.as_bytes())
                })
                .collect(),
        }
    }
}
