//! Attribute values: numbers, strings, lists, dictionaries, arrays; NumPy scalars and arrays keep their dtype.

use std::collections::BTreeMap;

use drystone::format::schema::Attrs;
use drystone::format::value::{TypedArray, Value};
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple,
};

use crate::dtype::{self, Element};
use crate::error::{Result, invalid, unsupported};

/// Deeper nesting is refused before it can exhaust the stack; the format's own limit is lower.
const MAX_DEPTH: usize = 64;

/// A Python value as it is stored.
pub(crate) fn from_python(given: &Bound<'_, PyAny>) -> Result<Value> {
    from_nested(given, 0)
}

fn from_nested(given: &Bound<'_, PyAny>, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(invalid("an attribute is nested too deeply (or contains itself)"));
    }
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::Text(
            text.to_cow().map_err(|e| invalid(format!("an attribute is not valid text: {e}")))?.into(),
        ));
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = given.cast::<PyByteArray>() {
        return Ok(Value::Bytes(bytes.to_vec()));
    }
    if given.hasattr("dtype")? || given.is_instance_of::<pyo3::types::PyComplex>() {
        return from_array(given, depth);
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Value::Bool(truth.is_true()));
    }
    if given.is_instance_of::<PyInt>() {
        return match given.extract::<i128>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(e) if e.is_instance_of::<PyOverflowError>(given.py()) => {
                Err(invalid(format!("the integer {given} needs more than 64 bits")))
            }
            Err(e) => Err(e.into()),
        };
    }
    if let Ok(number) = given.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        let items = given.try_iter()?.map(|item| from_nested(&item?, depth + 1));
        return Ok(Value::List(items.collect::<Result<_>>()?));
    }
    if let Ok(map) = given.cast::<PyMapping>() {
        let mut out = BTreeMap::new();
        for item in map.items()? {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
            out.insert(name(&key)?, from_nested(&value, depth + 1)?);
        }
        return Ok(Value::Map(out));
    }
    Err(invalid(format!(
        "an attribute cannot be of type {}: numbers, strings, bytes, lists, dictionaries and NumPy arrays can",
        given.get_type().qualname()?
    )))
}

/// A Python value for a message, escaped and shortened.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.py().import("builtins").and_then(|m| m.call_method1("ascii", (value,)));
    let text = text.map_or_else(|_| String::new(), |text| text.to_string());
    if text.len() <= 80 { text } else { format!("{} ...", text.chars().take(76).collect::<String>()) }
}

/// The key of an attribute.
pub(crate) fn name(key: &Bound<'_, PyAny>) -> Result<String> {
    match key.cast::<PyString>() {
        Ok(text) => Ok(text
            .to_cow()
            .map_err(|_| invalid(format!("the name of an attribute is not valid text: {}", shown(key))))?
            .into()),
        Err(_) => Err(invalid(format!("the name of an attribute is a string, not {}", key.repr()?))),
    }
}

/// A NumPy array or scalar (or an object that converts to one).
fn from_array(given: &Bound<'_, PyAny>, depth: usize) -> Result<Value> {
    let py = given.py();
    let masked = py.import("drystone.values")?.call_method1("is_masked", (given,))?;
    if masked.is_truthy()? {
        return Err(invalid("an attribute cannot hold a masked array: give array.filled(value)"));
    }
    let array = py.import("numpy")?.call_method1("asarray", (given,))?;
    let descr = array.getattr("dtype")?;
    let kind: char = descr.getattr("kind")?.extract()?;
    if matches!(kind, 'O' | 'T') {
        return from_nested(&array.call_method0("tolist")?, depth + 1);
    }
    let element = dtype::from_numpy(&descr)?;
    let little = if descr.getattr("isnative")?.extract()? {
        array
    } else {
        array.call_method1("astype", (element.to_numpy(py)?,))?
    };
    let shape = little.cast::<PyUntypedArray>()?.shape().iter().map(|n| *n as u64).collect();
    let data = little.call_method0("tobytes")?.cast_into::<PyBytes>()?.as_bytes().to_vec();
    let Element { dtype, meaning } = element;
    let array = TypedArray { dtype, shape, data, meaning };
    array.validate().map_err(|why| unsupported(format!("an attribute cannot hold this array: {why}")))?;
    Ok(Value::Array(array))
}

/// A stored value as a Python object.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> Result<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py).map_err(PyErr::from)?.into_any(),
        Value::Float(number) => PyFloat::new(py, *number).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| to_python(py, item)).collect::<Result<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Map(items) => dict(py, items)?.into_any(),
        Value::Array(array) => {
            let descr = dtype::to_numpy(py, &array.dtype, array.meaning.as_ref())?;
            let numpy = py.import("numpy")?;
            // The bytearray belongs to the array alone, so the array can be writable.
            let bytes = PyByteArray::new(py, &array.data);
            let flat = if array.data.is_empty() {
                numpy.call_method1("empty", (0, descr))?
            } else {
                numpy.call_method1("frombuffer", (bytes, descr))?
            };
            let shaped = flat.call_method1("reshape", (PyTuple::new(py, &array.shape)?,))?;
            if array.shape.is_empty() { shaped.get_item(PyTuple::empty(py))? } else { shaped }
        }
    })
}

/// Attributes (or a map inside one) as a dictionary.
pub(crate) fn dict<'py>(py: Python<'py>, items: &BTreeMap<String, Value>) -> Result<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (key, value) in items {
        out.set_item(key, to_python(py, value)?)?;
    }
    Ok(out)
}

/// Attributes from a mapping, or none.
pub(crate) fn attrs(given: Option<&Bound<'_, PyAny>>) -> Result<Attrs> {
    let Some(given) = given else { return Ok(Attrs::new()) };
    match from_python(given)? {
        Value::Map(attrs) => Ok(attrs),
        _ => Err(invalid("attributes are given as a dictionary")),
    }
}
