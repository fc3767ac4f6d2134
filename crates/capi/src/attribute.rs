//! Attributes: texts, numbers and arrays of numbers; lists of numbers or texts are read as arrays.

use std::ffi::c_char;

use drystone::SchemaOp;
use drystone::format::dtype::{DType, Scalar};
use drystone::format::value::{TypedArray, Value};

use crate::argument::{bytes, bytes_mut, give, give_names, give_text, list, text, versioned};
use crate::container::{container, dry_container};
use crate::dtype::{STRING, Type, name_of, number_of, scalar};
use crate::failure::{Failure, Result, Status, guard};
use crate::memory::extents;
use crate::schema::path;

/// The properties of an attribute.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_attribute_info {
    struct_size: u32,
    type_: Type,
    length: u32,
    ndim: u32,
    shape: [u64; 8],
    size: u64,
}

versioned!(dry_attribute_info, 88);

/// An attribute in C's types.
enum CValue {
    Text(String),
    Texts(Vec<String>),
    Array(TypedArray),
}

fn plain(scalar: Scalar, shape: Vec<u64>, data: Vec<u8>) -> CValue {
    CValue::Array(TypedArray { dtype: DType::Scalar(scalar), shape, data, meaning: None })
}

fn integer(i: i128) -> Option<(Scalar, [u8; 8])> {
    let signed = i64::try_from(i).map(|i| (Scalar::I64, i.to_ne_bytes()));
    signed.or_else(|_| u64::try_from(i).map(|u| (Scalar::U64, u.to_ne_bytes()))).ok()
}

fn given(name: &str, value: &Value) -> Result<CValue> {
    let no_array = || {
        Failure::unsupported(format!(
            "the attribute \"{name}\" is neither a text, nor a number, nor an array or list of one kind of them"
        ))
    };
    Ok(match value {
        Value::Text(text) => CValue::Text(text.clone()),
        Value::Bool(b) => plain(Scalar::Bool, Vec::new(), vec![u8::from(*b)]),
        Value::Float(x) => plain(Scalar::F64, Vec::new(), x.to_ne_bytes().to_vec()),
        Value::Int(i) => {
            let (scalar, data) = integer(*i).ok_or_else(no_array)?;
            plain(scalar, Vec::new(), data.to_vec())
        }
        Value::Array(array)
            if matches!(array.dtype, DType::Scalar(_) | DType::Bytes(_) | DType::Unicode(_)) =>
        {
            CValue::Array(array.clone())
        }
        Value::List(items) => of_list(items).ok_or_else(no_array)?,
        _ => return Err(no_array()),
    })
}

/// A list whose items are all texts, all integers of 64 bits, or all numbers.
fn of_list(items: &[Value]) -> Option<CValue> {
    let shape = vec![items.len() as u64];
    let texts = items.iter().map(|v| if let Value::Text(t) = v { Some(t.clone()) } else { None });
    if let Some(texts) = texts.collect::<Option<Vec<_>>>() {
        return Some(CValue::Texts(texts));
    }
    let integers = items.iter().map(|v| match v {
        Value::Int(i) => i64::try_from(*i).ok(),
        _ => None,
    });
    if let Some(integers) = integers.collect::<Option<Vec<_>>>() {
        return Some(plain(Scalar::I64, shape, integers.iter().flat_map(|i| i.to_ne_bytes()).collect()));
    }
    let floats = items.iter().map(|v| match v {
        Value::Float(x) => Some(*x),
        Value::Int(i) if i.unsigned_abs() <= 1 << 53 => Some(*i as f64),
        _ => None,
    });
    let floats = floats.collect::<Option<Vec<_>>>()?;
    Some(plain(Scalar::F64, shape, floats.iter().flat_map(|x| x.to_ne_bytes()).collect()))
}

fn find(handle: *const dry_container, path: &str, name: &str) -> Result<Value> {
    let container = container(handle)?;
    let schema = container.schema();
    let group = schema.follow(path).and_then(|path| schema.groups.get(&path)).cloned();
    let attrs = match group {
        Some(attrs) => attrs,
        None => container.variable(path)?.attrs,
    };
    attrs.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = attrs.keys().map(String::as_str).take(16).collect();
        let owner = if path.is_empty() { "the container".into() } else { format!("\"{path}\"") };
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        Failure::not_found(format!("{owner} has no attribute \"{name}\"; it has: {known}"))
    })
}

fn change(handle: *const dry_container, path: &str, name: &str, value: Option<Value>) -> Result<()> {
    container(handle)?.apply(vec![SchemaOp::SetAttrs(path.into(), [(name.to_string(), value)].into())])?;
    Ok(())
}

/// Sets an attribute to a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_set_text_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name, value) =
            unsafe { (path(owner)?, text(name, "the name")?, text(value, "the value")?) };
        change(handle, owner, name, Some(Value::Text(value.into())))
    })
}

/// Sets an attribute to a number or an array of numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_set_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    type_: Type,
    ndim: u32,
    shape: *const u64,
    data: *const u8,
    size: u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name, shape, data) = unsafe {
            (
                path(owner)?,
                text(name, "the name")?,
                extents(shape, ndim, "the shape")?,
                bytes(data, size, "the value")?,
            )
        };
        let kind = scalar(type_).ok_or_else(|| {
            Failure::invalid(format!("an attribute has the type of a number, not dry_type {type_}"))
        })?;
        let dtype = DType::Scalar(kind);
        let array = TypedArray { dtype, shape: shape.to_vec(), data: data.to_vec(), meaning: None };
        array.validate().map_err(Failure::invalid)?;
        let value = match (kind, <[u8; 8]>::try_from(data)) {
            _ if ndim > 0 => Value::Array(array),
            (Scalar::I64, Ok(bytes)) => Value::Int(i64::from_ne_bytes(bytes).into()),
            (Scalar::F64, Ok(bytes)) => Value::Float(f64::from_ne_bytes(bytes)),
            (Scalar::Bool, _) => Value::Bool(data.first().is_some_and(|b| *b != 0)),
            _ => Value::Array(array),
        };
        change(handle, owner, name, Some(value))
    })
}

/// Removes an attribute.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_remove_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name) = unsafe { (path(owner)?, text(name, "the name")?) };
        change(handle, owner, name, None)
    })
}

/// Names of the attributes, sorted.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_attribute_names(
    handle: *const dry_container,
    owner: *const c_char,
    names: *mut c_char,
    capacity: usize,
    length: *mut usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let owner = unsafe { path(owner)? };
        let container = container(handle)?;
        let schema = container.schema();
        let group = schema.follow(owner).and_then(|path| schema.groups.get(&path));
        let found: Vec<String> = match group {
            Some(attrs) => attrs.keys().cloned().collect(),
            None => container.variable(owner)?.attrs.keys().cloned().collect(),
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_names(&found, names, capacity, length, count) }
    })
}

/// Type, shape and size of an attribute.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_attribute_describe(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    out: *mut dry_attribute_info,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name) = unsafe { (path(owner)?, text(name, "the name")?) };
        let mut info =
            dry_attribute_info { struct_size: 0, type_: STRING, length: 0, ndim: 0, shape: [0; 8], size: 0 };
        match given(name, &find(handle, owner, name)?)? {
            CValue::Text(text) => info.size = text.len() as u64 + 1,
            CValue::Texts(texts) => {
                info.ndim = 1;
                info.shape[0] = texts.len() as u64;
                info.size = texts.iter().map(|t| t.len() as u64 + 1).sum();
            }
            CValue::Array(array) => {
                info.type_ = number_of(&array.dtype);
                info.length = match array.dtype {
                    DType::Bytes(n) | DType::Unicode(n) => n,
                    _ => 0,
                };
                info.ndim = array.shape.len() as u32;
                info.shape.iter_mut().zip(&array.shape).for_each(|(to, from)| *to = *from);
                info.size = array.data.len() as u64;
            }
        }
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &info) }
    })
}

/// Copies a text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_get_text_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name) = unsafe { (path(owner)?, text(name, "the name")?) };
        let value = match given(name, &find(handle, owner, name)?)? {
            CValue::Text(text) if text.contains('\0') => {
                return Err(Failure::unsupported(format!(
                    "the text \"{name}\" holds a NUL, where C's texts end"
                )));
            }
            CValue::Text(text) => text,
            CValue::Texts(texts) => {
                // SAFETY: pointers are as drystone.h specifies.
                return unsafe { give_names(&texts, out, capacity, length, std::ptr::null_mut()) };
            }
            CValue::Array(array) => {
                return Err(Failure::invalid(format!(
                    "the attribute \"{name}\" is not a text but {}{:?}: use dry_get_attribute",
                    array.dtype, array.shape
                )));
            }
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&value, out, capacity, length) }
    })
}

/// Copies a number or an array of numbers.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_get_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    type_: Type,
    data: *mut u8,
    size: u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name) = unsafe { (path(owner)?, text(name, "the name")?) };
        let CValue::Array(array) = given(name, &find(handle, owner, name)?)? else {
            return Err(Failure::invalid(format!(
                "the attribute \"{name}\" is a text: use dry_get_text_attribute"
            )));
        };
        if number_of(&array.dtype) != type_ || array.data.len() as u64 != size {
            return Err(Failure::invalid(format!(
                "the attribute \"{name}\" is {}{} of {} bytes, not {} of {size}",
                array.dtype,
                if array.shape.is_empty() { String::new() } else { format!("{:?}", array.shape) },
                array.data.len(),
                name_of(type_)
            )));
        }
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { bytes_mut(data, size, "the place for the value")? }.copy_from_slice(&array.data);
        Ok(())
    })
}

/// Sets an attribute to a list of texts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_set_texts_attribute(
    handle: *const dry_container,
    owner: *const c_char,
    name: *const c_char,
    values: *const *const c_char,
    count: usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (owner, name, values) = unsafe {
            let values = list(values, count, "the texts")?;
            let values = values.iter().map(|t| Ok(Value::Text(text(*t, "a text of the list")?.into())));
            (path(owner)?, text(name, "the name")?, values.collect::<Result<Vec<_>>>()?)
        };
        change(handle, owner, name, Some(Value::List(values)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_kind_are_arrays() {
        let Some(CValue::Array(array)) = of_list(&[Value::Int(1), Value::Float(2.5)]) else {
            panic!("no array")
        };
        assert_eq!((array.dtype, array.shape), (DType::Scalar(Scalar::F64), vec![2]));
        let Some(CValue::Array(array)) = of_list(&[Value::Int(-1)]) else { panic!("no array") };
        assert_eq!(array.dtype, DType::Scalar(Scalar::I64));
        assert!(matches!(of_list(&[Value::Text("a".into())]), Some(CValue::Texts(_))));
        assert!(of_list(&[Value::Text("a".into()), Value::Int(1)]).is_none());
        assert!(of_list(&[Value::Int(1 << 60), Value::Float(0.5)]).is_none());
    }
}
