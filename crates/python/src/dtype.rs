//! Element types from NumPy dtypes, and back.
//!
//! Stored types are little-endian. A big-endian NumPy type maps to the same element type; its arrays are
//! converted when they are put. Strings of any length are `str`, `"str"`, `StringDType` or h5py's
//! `string_dtype()`, and are read as arrays of `str` objects. Other objects are refused.
//!
//! Lists of numbers of any length have dtype object with h5py's metadata `vlen`. References to variables,
//! groups and boxes have dtype object with the metadata `reference` (or h5py's `ref`); their values are paths.
//!
//! `datetime64` and `timedelta64` are stored as `int64`. An enumeration (a dtype with h5py's metadata `enum`)
//! is stored as its integers. The meaning is kept beside the type.

use std::collections::BTreeMap;

use drystone::format::dtype::{DType, Member, Record, Scalar};
use drystone::format::meaning::{Meaning, Scale, Unit};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping, PyString, PyTuple, PyType};

use crate::error::{Failure, Result, invalid, unsupported};

/// An element type, and the meaning of its integers.
pub(crate) struct Element {
    pub(crate) dtype: DType,
    pub(crate) meaning: Option<Meaning>,
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        Element { dtype, meaning: None }
    }
}

impl Element {
    /// The NumPy dtype of values that are read.
    pub(crate) fn to_numpy<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        to_numpy(py, &self.dtype, self.meaning.as_ref())
    }
}

/// The element type of the caller's `dtype` argument.
pub(crate) fn parse(given: &Bound<'_, PyAny>) -> Result<Element> {
    let py = given.py();
    if given.is_none() {
        return Err(invalid("dtype is None; give one, such as \"f4\""));
    }
    if given.is(py.get_type::<PyString>()) {
        return Ok(DType::String.into());
    }
    if let Ok(text) = given.cast::<PyString>() {
        match text.to_cow()?.as_ref() {
            "str" | "string" => return Ok(DType::String.into()),
            "bfloat16" => return Ok(DType::Scalar(Scalar::BF16).into()),
            _ => {}
        }
    }
    let descr = py.import("numpy")?.getattr("dtype")?.call1((given,)).map_err(|e| {
        if e.is_instance_of::<PyTypeError>(py) || e.is_instance_of::<pyo3::exceptions::PyValueError>(py) {
            invalid(format!("{given} is not a dtype: {}", e.value(py)))
        } else {
            Failure::Python(e)
        }
    })?;
    require_plain(&descr)?;
    from_numpy(&descr)
}

/// Refuses a type that would silently be stored as another: objects that are not marked as texts.
fn require_plain(descr: &Bound<'_, PyAny>) -> Result<()> {
    let py = descr.py();
    let metadata = descr.getattr("metadata")?;
    let said = |name: &str| -> Result<Option<Bound<'_, PyAny>>> {
        if metadata.is_none() { Ok(None) } else { Ok(Some(metadata.call_method1("get", (name,))?)) }
    };
    if descr.getattr("kind")?.extract::<char>()? == 'O' {
        // h5py says `vlen`, xarray `element_type`.
        let (text, bytes) = (py.get_type::<PyString>(), py.get_type::<PyBytes>());
        let is_said = |name: &str| -> Result<bool> { Ok(said(name)?.is_some_and(|of| !of.is_none())) };
        let of = said("vlen")?.filter(|of| !of.is_none()).or(said("element_type")?);
        let is_known = of
            .is_some_and(|of| of.is(&text) || of.is(&bytes) || element_of(&of).is_ok_and(|of| of.is_some()));
        if !is_known && !is_said("reference")? && !is_said("ref")? {
            return Err(invalid(
                "dtype object says nothing about its elements; take dtype=str for strings of any length, drystone.ragged(\"f4\") for lists of numbers, or the dtype of the numbers",
            ));
        }
    }
    let names = descr.getattr("names")?;
    if !names.is_none() {
        let fields = descr.getattr("fields")?;
        for name in names.cast_into::<PyTuple>()? {
            require_plain(&fields.get_item(&name)?.get_item(0)?.getattr("base")?)?;
        }
    }
    Ok(())
}

/// The element type of a NumPy dtype.
pub(crate) fn from_numpy(descr: &Bound<'_, PyAny>) -> Result<Element> {
    element(descr, false)
}

/// The same; `inside`: of a member of a record.
fn element(descr: &Bound<'_, PyAny>, inside: bool) -> Result<Element> {
    let fields = descr.cast::<PyArrayDescr>().map_err(PyErr::from)?;
    let kind = char::from(fields.kind());
    let size = u32::try_from(fields.itemsize())
        .map_err(|_| unsupported(format!("dtype {descr} is not stored: it is longer than 4 GiB")))?;
    let scalar = |scalar: Scalar| -> Result<Element> {
        let dtype = DType::Scalar(scalar);
        let meaning = if matches!(kind, 'i' | 'u') { names(descr)? } else { None };
        if let Some(meaning) = &meaning {
            meaning.validate(&dtype).map_err(invalid)?;
        }
        Ok(Element { dtype, meaning })
    };
    match (kind, size) {
        ('b', 1) => scalar(Scalar::Bool),
        ('i', 1) => scalar(Scalar::I8),
        ('i', 2) => scalar(Scalar::I16),
        ('i', 4) => scalar(Scalar::I32),
        ('i', 8) => scalar(Scalar::I64),
        ('u', 1) => scalar(Scalar::U8),
        ('u', 2) => scalar(Scalar::U16),
        ('u', 4) => scalar(Scalar::U32),
        ('u', 8) => scalar(Scalar::U64),
        ('f', 2) => scalar(Scalar::F16),
        ('f', 4) => scalar(Scalar::F32),
        ('f', 8) => scalar(Scalar::F64),
        ('c', 8) => scalar(Scalar::C64),
        ('c', 16) => scalar(Scalar::C128),
        ('U', 0) if inside => Ok(DType::String.into()), // what NumPy makes of `str` in a list of members
        ('S' | 'U', 0) => Err(invalid(format!(
            "dtype {descr} has no length; give one (\"{kind}16\"), or take str for strings of any length"
        ))),
        ('S', n) => Ok(DType::Bytes(n).into()),
        ('U', n) => Ok(DType::Unicode(n / 4).into()),
        ('O', _) => of_objects(descr),
        ('T', _) => Ok(DType::String.into()),
        ('V', n) => from_void(descr, n),
        ('M', 8) => {
            Ok(Element { dtype: DType::Scalar(Scalar::I64), meaning: Some(Meaning::Instant(unit(descr)?)) })
        }
        ('m', 8) => {
            Ok(Element { dtype: DType::Scalar(Scalar::I64), meaning: Some(Meaning::Duration(unit(descr)?)) })
        }
        _ => Err(unsupported(format!("dtype {descr} is not stored; convert it first (numpy: .astype)"))),
    }
}

/// The element type of objects, from the metadata of their dtype: lists of numbers, references, else texts.
fn of_objects(descr: &Bound<'_, PyAny>) -> Result<Element> {
    let metadata = descr.getattr(pyo3::intern!(descr.py(), "metadata"))?;
    if metadata.is_none() {
        return Ok(DType::String.into());
    }
    let said = |name: &str| metadata.call_method1("get", (name,));
    let kind = said("reference")?;
    if !kind.is_none() {
        let meaning = match kind.extract::<String>().as_deref() {
            Ok("object") => Meaning::Object,
            Ok("region") => Meaning::Region,
            _ => {
                return Err(invalid(format!(
                    "a reference is of the kind \"object\" or \"region\", not {kind}"
                )));
            }
        };
        return Ok(Element { dtype: DType::String, meaning: Some(meaning) });
    }
    let class = said("ref")?;
    if !class.is_none() {
        let region = class.getattr("__name__")?.extract::<String>()?.starts_with("Region");
        let meaning = if region { Meaning::Region } else { Meaning::Object };
        return Ok(Element { dtype: DType::String, meaning: Some(meaning) });
    }
    let Some(of) = element_of(&said("vlen")?)? else { return Ok(DType::String.into()) };
    match from_numpy(&of)? {
        Element { dtype: DType::Scalar(scalar), meaning: None } => Ok(DType::Ragged(scalar).into()),
        _ => Err(unsupported(format!(
            "lists of {of} are not stored: the elements of a list are plain numbers"
        ))),
    }
}

/// The dtype of the elements of lists; h5py keeps it as given: a dtype, a class or a text. None for texts and bytes.
fn element_of<'py>(said: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyAny>>> {
    let py = said.py();
    if said.is_none() || said.is(py.get_type::<PyString>()) || said.is(py.get_type::<PyBytes>()) {
        return Ok(None);
    }
    Ok(Some(py.import("numpy")?.getattr("dtype")?.call1((said,))?))
}

/// The unit of a datetime or timedelta dtype.
fn unit(descr: &Bound<'_, PyAny>) -> Result<Unit> {
    let data = descr.py().import("numpy")?.call_method1("datetime_data", (descr,))?;
    let (name, count): (String, u32) = data.extract()?;
    match Scale::parse(&name) {
        Some(scale) => Ok(Unit { scale, count }),
        None => Err(invalid(format!("dtype {descr} has no unit; give one, such as \"{descr}[ns]\""))),
    }
}

/// The names of an enumeration, from h5py's metadata.
fn names(descr: &Bound<'_, PyAny>) -> Result<Option<Meaning>> {
    let metadata = descr.getattr(pyo3::intern!(descr.py(), "metadata"))?;
    if metadata.is_none() {
        return Ok(None);
    }
    let named = metadata.call_method1("get", ("enum",))?;
    if named.is_none() {
        return Ok(None);
    }
    let mut names: Vec<(String, i128)> = Vec::new();
    for item in named.cast::<PyMapping>().map_err(PyErr::from)?.items()? {
        names.push(item.extract().map_err(|_| {
            invalid(format!("an enumeration gives names to integers, which {item} does not"))
        })?);
    }
    Ok(Some(Meaning::Names(names)))
}

fn from_void(descr: &Bound<'_, PyAny>, size: u32) -> Result<Element> {
    let names = descr.getattr("names")?;
    if names.is_none() {
        let name: String = descr.getattr("name")?.extract()?;
        if name == "bfloat16" {
            return Ok(DType::Scalar(Scalar::BF16).into());
        }
        let sub = descr.getattr("subdtype")?;
        if !sub.is_none() {
            return Err(invalid(format!("dtype {descr} is an array; put its dimensions into shape=")));
        }
        return Err(unsupported(format!("dtype {descr} is not stored; name its members, or take uint8")));
    }
    let fields = descr.getattr("fields")?;
    let mut members = Vec::new();
    let mut meanings = BTreeMap::new();
    for name in names.cast_into::<PyTuple>()? {
        let field = fields.get_item(&name)?;
        let inner = field.get_item(0)?;
        let sub = inner.getattr("subdtype")?;
        let (inner, shape) =
            if sub.is_none() { (inner, Vec::new()) } else { (sub.get_item(0)?, sub.get_item(1)?.extract()?) };
        let (name, element): (String, Element) = (name.extract()?, element(&inner, true)?);
        if let Some(meaning) = element.meaning {
            meanings.insert(name.clone(), meaning);
        }
        members.push(Member { name, dtype: element.dtype, shape, offset: field.get_item(1)?.extract()? });
    }
    let meaning = (!meanings.is_empty()).then_some(Meaning::Members(meanings));
    let mut record = Record { itemsize: size, members };
    if record.members.iter().any(|member| member.dtype.has_blobs()) {
        pack(&mut record)?;
    }
    Ok(Element { dtype: DType::Record(record), meaning })
}

/// Places members one behind the other: NumPy's elements have pointers at the places of values of any length, so its
/// offsets mean nothing.
fn pack(record: &mut Record) -> Result<()> {
    let mut end = 0u64;
    for member in &mut record.members {
        let repeat = member.shape.iter().fold(1u64, |n, d| n.saturating_mul(*d));
        let size = repeat.saturating_mul(member.dtype.item_size().into());
        member.offset = u32::try_from(end).unwrap_or(u32::MAX);
        end = end.saturating_add(size);
    }
    record.itemsize =
        u32::try_from(end).map_err(|_| unsupported("a record of more than 4 GiB is not stored"))?;
    Ok(())
}

/// Whether a record has a member of fixed size.
pub(crate) fn has_fixed(record: &Record) -> bool {
    record.members.iter().any(|member| match &member.dtype {
        DType::Record(inner) => has_fixed(inner),
        other => !other.is_blob(),
    })
}

/// The NumPy dtype of the members of fixed size of a record, at their places in the engine's element.
pub(crate) fn fixed_part<'py>(
    py: Python<'py>,
    record: &Record,
    meaning: Option<&Meaning>,
) -> Result<Bound<'py, PyAny>> {
    let make = py.import(pyo3::intern!(py, "numpy"))?.getattr(pyo3::intern!(py, "dtype"))?;
    let (mut names, mut formats, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for member in &record.members {
        let below = meaning.and_then(|meaning| meaning.of_member([member.name.as_str()]));
        let inner = match &member.dtype {
            other if other.is_blob() => continue,
            DType::Record(inner) if !has_fixed(inner) => continue,
            DType::Record(inner) => fixed_part(py, inner, below)?,
            other => to_numpy(py, other, below)?,
        };
        names.push(&member.name);
        offsets.push(member.offset);
        formats.push(match member.shape.is_empty() {
            true => inner,
            false => make.call1(((inner, PyTuple::new(py, &member.shape)?),))?,
        });
    }
    let parts = PyDict::new(py);
    parts.set_item("names", PyList::new(py, names)?)?;
    parts.set_item("formats", formats)?;
    parts.set_item("offsets", offsets)?;
    parts.set_item("itemsize", record.itemsize)?;
    Ok(make.call1((parts,))?)
}

/// Whether elements of this type and their members have native byte order.
pub(crate) fn is_native(descr: &Bound<'_, PyArrayDescr>) -> Result<bool> {
    const SWAPPED: u8 = if cfg!(target_endian = "little") { b'>' } else { b'<' };
    match descr.kind() {
        b'V' => Ok(descr.getattr(pyo3::intern!(descr.py(), "isnative"))?.extract()?),
        _ => Ok(descr.byteorder() != SWAPPED),
    }
}

/// Whether values of one meaning have the same bits under another: times with the same unit, or named values
/// and plain integers.
pub(crate) fn is_same(given: Option<&Meaning>, stored: Option<&Meaning>) -> bool {
    use Meaning::{Members, Names};
    match (given, stored) {
        (None, None) | (None, Some(Names(_))) | (Some(Names(_)), None) => true,
        (Some(Names(a)), Some(Names(b))) => a.len() == b.len() && a.iter().all(|name| b.contains(name)),
        (Some(Members(a)), Some(Members(b))) => {
            a.keys().chain(b.keys()).all(|name| is_same(a.get(name), b.get(name)))
        }
        (None, Some(Members(b))) => b.values().all(|meaning| is_same(None, Some(meaning))),
        (Some(Members(a)), None) => a.values().all(|meaning| is_same(Some(meaning), None)),
        (a, b) => a == b,
    }
}

/// The NumPy dtype of values that are read; `object` for strings.
pub(crate) fn to_numpy<'py>(
    py: Python<'py>,
    dtype: &DType,
    meaning: Option<&Meaning>,
) -> Result<Bound<'py, PyAny>> {
    let make = py.import(pyo3::intern!(py, "numpy"))?.getattr(pyo3::intern!(py, "dtype"))?;
    match meaning {
        Some(meaning @ (Meaning::Instant(_) | Meaning::Duration(_))) => {
            return Ok(make.call1((meaning.to_string(),))?);
        }
        Some(Meaning::Names(names)) => {
            let named = PyDict::new(py);
            for (name, value) in names {
                named.set_item(name, *value)?;
            }
            let metadata = PyDict::new(py);
            metadata.set_item("enum", named)?;
            let how = PyDict::new(py);
            how.set_item("metadata", metadata)?;
            return Ok(make.call((to_numpy(py, dtype, None)?,), Some(&how))?);
        }
        Some(Meaning::Object) => {
            return with_metadata(&make, "reference", PyString::new(py, "object").into_any());
        }
        Some(Meaning::Region) => {
            return with_metadata(&make, "reference", PyString::new(py, "region").into_any());
        }
        Some(Meaning::Members(_)) | None => {}
    }
    let text = match dtype {
        DType::Ragged(scalar) => {
            let element = to_numpy(py, &DType::Scalar(*scalar), None)?;
            return with_metadata(&make, "vlen", element);
        }
        DType::Scalar(Scalar::BF16) => return Ok(make.call1((bfloat16(py)?,))?),
        DType::Scalar(scalar) => scalar.name().to_string(),
        DType::Bytes(n) => format!("S{n}"),
        DType::Unicode(n) => format!("<U{n}"),
        DType::String => "object".to_string(),
        DType::Record(record) => {
            let mut formats = Vec::new();
            for member in &record.members {
                let below = meaning.and_then(|meaning| meaning.of_member([member.name.as_str()]));
                let inner = match (&member.dtype, below) {
                    // As h5py says it, so that the dtype makes a variable of the same type.
                    (DType::String, None) => {
                        with_metadata(&make, "vlen", py.get_type::<PyString>().into_any())?
                    }
                    (other, below) => to_numpy(py, other, below)?,
                };
                formats.push(if member.shape.is_empty() {
                    inner
                } else {
                    make.call1(((inner, PyTuple::new(py, &member.shape)?),))?
                });
            }
            let parts = PyDict::new(py);
            parts.set_item("names", PyList::new(py, record.members.iter().map(|m| &m.name))?)?;
            parts.set_item("formats", formats)?;
            // NumPy has a pointer for a value of any length, which takes another place than a reference.
            if !dtype.has_blobs() {
                parts.set_item("offsets", PyList::new(py, record.members.iter().map(|m| m.offset))?)?;
                parts.set_item("itemsize", record.itemsize)?;
            }
            return Ok(make.call1((parts,))?);
        }
    };
    Ok(make.call1((text,))?)
}

/// The dtype object whose metadata describes its elements.
fn with_metadata<'py>(
    make: &Bound<'py, PyAny>,
    name: &str,
    value: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>> {
    let metadata = PyDict::new(make.py());
    metadata.set_item(name, value)?;
    let how = PyDict::new(make.py());
    how.set_item("metadata", metadata)?;
    Ok(make.call(("O",), Some(&how))?)
}

fn bfloat16(py: Python<'_>) -> Result<Bound<'_, PyType>> {
    let module = py.import("ml_dtypes").map_err(|_| {
        unsupported("bfloat16 needs the package ml_dtypes, which is not installed (pip install ml_dtypes)")
    })?;
    Ok(module.getattr("bfloat16")?.cast_into::<PyType>()?)
}

/// Whether the in-memory element has bytes that no member covers.
pub(crate) fn has_padding(dtype: &DType) -> bool {
    let covered: u64 = dtype.leaves().iter().map(|l| u64::from(l.size)).sum();
    covered != u64::from(dtype.item_size())
}
