//! Collects the facts of a container: attributes, ranges of values from the index, names. Reads no array values.

use drystone::{Container, Extreme, Mode, OpenOptions, Result, is_url};
use drystone_format::dtype::{DType, Scalar};
use drystone_format::schema::{Attrs, Name};
use drystone_format::value::{TypedArray, Value as Attribute};

use crate::facts::{Facts, Key, KeyKind};
use crate::value::Value;

/// Most values of one attribute; longer lists are not catalogued.
const MAX_VALUES: usize = 64;

/// Opens a container and collects its facts. The options are for containers at URLs.
pub(crate) fn look(path: &str, options: &[(String, String)]) -> Result<Facts> {
    let options = if is_url(path) { options } else { &[] };
    let container = Container::open(path, OpenOptions { store: options.into(), ..Mode::Read.into() })?;
    let snapshot = container.snapshot();
    let mut values = Vec::new();
    let schema = &snapshot.schema;
    for (object, attrs) in &schema.groups {
        attributes(object, attrs, &mut values);
    }
    for (path, name) in &schema.names {
        if let Name::Variable(id) = name
            && let Some(variable) = schema.variables.get(id)
        {
            attributes(path, &variable.attrs, &mut values);
            values.push((Key::own("variable"), Value::Text(path.clone())));
        }
    }
    for range in container.value_ranges()? {
        for (kind, extreme) in [(KeyKind::Least, range.least), (KeyKind::Greatest, range.greatest)] {
            let value = match extreme {
                Extreme::Integer(n) => Value::Integer(n),
                Extreme::Float(x) => Value::float(x),
            };
            values.push((Key::new(kind, &range.variable, &range.member), value));
        }
    }
    let uuid = container.identity().uuid;
    let (version, time) = (snapshot.version(), snapshot.time());
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let hex: String = uuid.iter().map(|b| format!("{b:02x}")).collect();
    values.push((Key::own("name"), Value::Text(name.to_owned())));
    values.push((Key::own("snapshot"), Value::Integer(version.into())));
    values.push((Key::own("steps"), Value::Integer(snapshot.step_axis().into())));
    values.push((Key::own("uuid"), Value::Text(hex)));
    Ok(Facts { path: path.to_owned(), uuid, version, time, values })
}

fn attributes(object: &str, attrs: &Attrs, out: &mut Vec<(Key, Value)>) {
    for (name, value) in attrs {
        flatten(object, name, value, out);
    }
}

/// Adds the values of an attribute: the items of a list, and those below each name of a dictionary.
fn flatten(object: &str, name: &str, value: &Attribute, out: &mut Vec<(Key, Value)>) {
    let mut push = |value: Value| out.push((Key::new(KeyKind::Attribute, object, name), value));
    match value {
        Attribute::Bool(b) => push(Value::Bool(*b)),
        Attribute::Int(n) => push(Value::Integer(*n)),
        Attribute::Float(x) => push(Value::float(*x)),
        Attribute::Text(text) => push(Value::Text(text.clone())),
        Attribute::List(items) => {
            for item in items.iter().take(MAX_VALUES).filter(|item| !matches!(item, Attribute::List(_))) {
                flatten(object, name, item, out);
            }
        }
        Attribute::Map(items) => {
            for (member, item) in items {
                flatten(object, &format!("{name}.{member}"), item, out);
            }
        }
        Attribute::Array(array) => elements(array).into_iter().for_each(push),
        Attribute::Null | Attribute::Bytes(_) => {}
    }
}

/// The elements of a small array of numbers or texts.
fn elements(array: &TypedArray) -> Vec<Value> {
    let size = array.dtype.item_size() as usize;
    if size == 0 || array.data.len() / size > MAX_VALUES {
        return Vec::new();
    }
    array.data.chunks_exact(size).filter_map(|bytes| element(&array.dtype, bytes)).collect()
}

fn element(dtype: &DType, bytes: &[u8]) -> Option<Value> {
    fn le<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match dtype {
        DType::Scalar(scalar) => match scalar {
            Scalar::Bool => Value::Bool(bytes.first() != Some(&0)),
            Scalar::I8 => Value::Integer(i8::from_le_bytes(le(bytes)?).into()),
            Scalar::I16 => Value::Integer(i16::from_le_bytes(le(bytes)?).into()),
            Scalar::I32 => Value::Integer(i32::from_le_bytes(le(bytes)?).into()),
            Scalar::I64 => Value::Integer(i64::from_le_bytes(le(bytes)?).into()),
            Scalar::U8 => Value::Integer(u8::from_le_bytes(le(bytes)?).into()),
            Scalar::U16 => Value::Integer(u16::from_le_bytes(le(bytes)?).into()),
            Scalar::U32 => Value::Integer(u32::from_le_bytes(le(bytes)?).into()),
            Scalar::U64 => Value::Integer(u64::from_le_bytes(le(bytes)?).into()),
            Scalar::F32 => Value::float(f32::from_le_bytes(le(bytes)?).into()),
            Scalar::F64 => Value::float(f64::from_le_bytes(le(bytes)?)),
            Scalar::F16 | Scalar::BF16 | Scalar::C64 | Scalar::C128 => return None,
        },
        DType::Bytes(_) => {
            let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
            Value::Text(std::str::from_utf8(bytes.get(..end)?).ok()?.to_owned())
        }
        DType::Unicode(_) => {
            let chars =
                bytes.chunks_exact(4).map(|c| le(c).and_then(|c| char::from_u32(u32::from_le_bytes(c))));
            let text: String = chars.collect::<Option<String>>()?;
            Value::Text(text.trim_end_matches('\0').to_owned())
        }
        DType::String | DType::Ragged(_) | DType::Record(_) => return None,
    })
}
