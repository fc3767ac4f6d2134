//! Attributes as JSON: numbers, texts, lists, objects. Values that JSON lacks are written as closely as possible.

use drystone_format::dtype::{DType, Scalar};
use drystone_format::schema::Attrs;
use drystone_format::value::{TypedArray, Value};
use serde_json::{Map, Value as Json, json};

use super::base64::{base64, from_base64};
use super::element::{float, number};

/// The attribute that holds the `zarr.json` that a Zarr client declared, as text without shape and attributes. Zarr
/// does not show it.
pub(super) const DECLARED: &str = "drystone.zarr";

/// The key of Drystone's own description of a node.
pub(super) const OURS: &str = "drystone";
/// The attributes that mark masked values in the CF conventions.
const FILL: &str = "_FillValue";
pub(super) const MASKS: [&str; 2] = [FILL, "missing_value"];

/// All attributes of a node. A user's attribute with our key gets an underscore.
pub(super) fn object(attrs: &Attrs) -> Map<String, Json> {
    let name = |key: &String| if key == OURS { format!("{key}_") } else { key.clone() };
    let shown = attrs.iter().filter(|(key, _)| *key != DECLARED);
    shown.map(|(key, value)| (name(key), json(value))).collect()
}

/// The attributes of an array with elements of `dtype`. xarray masks cells by `_FillValue`, which it expects in
/// base64 of a float64 for floats. A mask that is not a value of the type is left out: readers would convert it to
/// the nearest value and mask that.
pub(super) fn of_array(attrs: &Attrs, dtype: &DType) -> Map<String, Json> {
    let mut all = object(attrs);
    all.retain(|name, value| masks_rightly(name, value, dtype));
    let DType::Scalar(scalar) = dtype else { return all };
    if !matches!(scalar, Scalar::C64 | Scalar::C128)
        && let Some(Json::Array(items)) = all.get_mut(FILL)
    {
        let one = if items.len() == 1 { items.pop() } else { None };
        match one {
            Some(one) => all.insert(FILL.into(), one),
            None => all.remove(FILL), // xarray accepts one, and cannot open a hierarchy with more
        };
    }
    let is_float = matches!(scalar, Scalar::F16 | Scalar::F32 | Scalar::F64);
    if is_float
        && all.contains_key(FILL)
        && let Some(fill) = attrs.get(FILL).and_then(as_float)
    {
        all.insert(FILL.into(), json!(base64(&fill.to_le_bytes())));
    }
    all
}

/// Whether an attribute is not a mask, or is a mask that is a value of the type.
pub(super) fn masks_rightly(name: &str, value: &Json, dtype: &DType) -> bool {
    match dtype {
        DType::Scalar(Scalar::C64 | Scalar::C128) => true, // xarray writes real and imaginary parts
        DType::Scalar(scalar) if MASKS.contains(&name) => holds(*scalar, value),
        _ => true,
    }
}

/// Whether each number of an attribute is a value of the type, except for rounding. Readers see bfloat16 as its bits.
fn holds(scalar: Scalar, value: &Json) -> bool {
    let bits = 8 * scalar.size();
    match (scalar, value) {
        (_, Json::Array(items)) => items.iter().all(|item| holds(scalar, item)),
        (Scalar::BF16, _) => false,
        (Scalar::Bool, Json::Bool(_)) => true,
        (Scalar::Bool, Json::Number(n)) => n.as_u64().is_some_and(|n| n < 2),
        (Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64, Json::Number(n)) => {
            whole(n).is_some_and(|n| (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&n))
        }
        (Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64, Json::Number(n)) => {
            whole(n).is_some_and(|n| (0..1i128 << bits).contains(&n))
        }
        (_, Json::Number(n)) => n.as_f64().is_some_and(|x| match scalar {
            Scalar::F16 => half::f16::from_f64(x).is_finite(),
            Scalar::F32 => (x as f32).is_finite(),
            _ => true,
        }),
        (Scalar::F16 | Scalar::F32 | Scalar::F64, Json::String(text)) => {
            ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()) || from_base64(text).is_some()
        }
        _ => false,
    }
}

fn whole(number: &serde_json::Number) -> Option<i128> {
    number
        .as_i128()
        .or_else(|| number.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i128))
}

/// A number that is alone or the only element of an array or list, or is in base64 as xarray passes it to Zarr.
pub(super) fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Int(i) => Some(*i as f64),
        Value::List(items) if items.len() == 1 => as_float(&items[0]),
        Value::Text(text) => from_base64(text),
        Value::Array(array) if array.data.len() == array.dtype.item_size() as usize => {
            let (DType::Scalar(scalar), Ok(bytes)) = (&array.dtype, <[u8; 8]>::try_from(padded(&array.data)))
            else {
                return None;
            };
            let bits = u64::from_le_bytes(bytes);
            match scalar {
                Scalar::F16 => Some(half::f16::from_bits(bits as u16).to_f64()),
                Scalar::F32 => Some(f64::from(f32::from_bits(bits as u32))),
                Scalar::F64 => Some(f64::from_bits(bits)),
                _ => number(*scalar, &array.data).as_f64(),
            }
        }
        _ => None,
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(8, 0);
    out
}

pub(super) fn json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => json!(b),
        Value::Int(i) => match (i64::try_from(*i), u64::try_from(*i)) {
            (Ok(i), _) => json!(i),
            (_, Ok(u)) => json!(u),
            _ => json!(i.to_string()),
        },
        Value::Float(x) => float(*x),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(bytes),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(items) => items.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
        Value::Array(array) => typed(array),
    }
}

/// A typed array as nested lists, or as one value.
fn typed(array: &TypedArray) -> Json {
    let item = array.dtype.item_size() as usize;
    let mut items: Vec<Json> =
        array.data.chunks_exact(item.max(1)).map(|e| element(&array.dtype, e)).collect();
    for &n in array.shape.iter().skip(1).rev() {
        let n = usize::try_from(n).unwrap_or(usize::MAX).max(1);
        items = items.chunks(n).map(|row| Json::Array(row.to_vec())).collect();
    }
    match array.shape.is_empty() {
        true => items.pop().unwrap_or(Json::Null),
        false => Json::Array(items),
    }
}

fn element(dtype: &DType, bytes: &[u8]) -> Json {
    match dtype {
        DType::Scalar(scalar) => number(*scalar, bytes),
        DType::Bytes(_) => {
            let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
            json!(String::from_utf8_lossy(&bytes[..end]))
        }
        DType::Unicode(_) => {
            let codes = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let text: String =
                codes.map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            json!(text.trim_end_matches('\0'))
        }
        DType::String | DType::Ragged(_) => Json::Null, // a typed array cannot hold these
        DType::Record(_) => dtype
            .leaves()
            .into_iter()
            .filter_map(|leaf| {
                let at = leaf.offset as usize;
                let values = bytes.get(at..at + leaf.size as usize)?;
                let item = leaf.dtype.item_size() as usize;
                let mut all: Vec<Json> = values.chunks_exact(item).map(|v| element(&leaf.dtype, v)).collect();
                let value = if leaf.repeat == 1 { all.pop()? } else { Json::Array(all) };
                Some((leaf.path, value))
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_value_of_floats_is_written_as_xarray_reads_it() {
        let attrs: Attrs =
            [(FILL.to_string(), Value::Float(f64::NAN)), ("units".into(), Value::Text("K".into()))].into();
        let floats = of_array(&attrs, &DType::Scalar(Scalar::F32));
        assert_eq!(floats[FILL], json!("AAAAAAAA+H8="));
        assert_eq!(floats["units"], json!("K"));
        let whole: Attrs = [(FILL.to_string(), Value::Int(-1))].into();
        assert_eq!(of_array(&whole, &DType::Scalar(Scalar::I32))[FILL], json!(-1));
        assert_eq!(base64(b"a"), "YQ==");
    }

    #[test]
    fn attributes_are_json_that_any_reader_takes() {
        let array = |shape: &[u64], values: &[f32]| {
            Value::Array(TypedArray {
                dtype: DType::Scalar(Scalar::F32),
                shape: shape.to_vec(),
                data: values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                meaning: None,
            })
        };
        let attrs: Attrs = [
            ("units".to_string(), Value::Text("K".into())),
            ("drystone".into(), Value::Int(i128::from(u64::MAX))),
            ("scalar".into(), array(&[], &[0.5])),
            ("matrix".into(), array(&[2, 2], &[1.0, 2.0, f32::NAN, f32::INFINITY])),
            ("empty".into(), array(&[0, 3], &[])),
            ("list".into(), Value::List(vec![Value::Null, Value::Bool(true), Value::Bytes(vec![7])])),
        ]
        .into();
        assert_eq!(
            Json::Object(object(&attrs)),
            json!({"units": "K", "drystone_": u64::MAX, "scalar": 0.5, "matrix": [[1.0, 2.0], ["NaN", "Infinity"]],
                   "empty": [], "list": [null, true, [7]]})
        );
    }

    #[test]
    fn masks_are_values_of_the_type() {
        let number = |x: f64| json!(x);
        for (scalar, held, others) in [
            (
                Scalar::I16,
                vec![json!(-32768), number(7.0)],
                vec![json!(32768), number(1.5), json!("NaN"), json!(null), json!(true)],
            ),
            (
                Scalar::U8,
                vec![json!(255), json!([0, 1])],
                vec![json!(-1), json!([0, 256]), json!("x"), number(1e300)],
            ),
            (Scalar::U64, vec![json!(u64::MAX)], vec![json!(-1), number(1e19)]),
            (Scalar::I64, vec![json!(i64::MIN)], vec![json!(u64::MAX)]),
            (Scalar::Bool, vec![json!(true), json!(0)], vec![json!(7), number(0.5)]),
            (
                Scalar::F32,
                vec![number(0.1), json!("-Infinity"), json!([1, "NaN"])],
                vec![number(1e300), json!("none"), json!({})],
            ),
            (Scalar::F64, vec![number(1e300), json!(3)], vec![json!(false)]),
            (Scalar::BF16, vec![], vec![json!(3)]),
        ] {
            held.iter().for_each(|value| assert!(holds(scalar, value), "{scalar:?} {value}"));
            others.iter().for_each(|value| assert!(!holds(scalar, value), "{scalar:?} {value}"));
        }
        let attrs =
            |value| Attrs::from([("_FillValue".to_string(), value), ("units".to_string(), Value::Int(1))]);
        let of = |value, scalar| of_array(&attrs(value), &DType::Scalar(scalar)).contains_key("_FillValue");
        assert!(of(Value::Int(1), Scalar::I16) && !of(Value::Float(1.5), Scalar::I16));
        for x in [1.5, -0.0, f64::NAN, 1e300, f64::NEG_INFINITY] {
            let text = base64(&x.to_le_bytes());
            assert_eq!(from_base64(&text).map(f64::to_bits), Some(x.to_bits()));
            assert!(of(Value::Text(text.clone()), Scalar::F32) && !of(Value::Text(text), Scalar::I16));
        }
        assert!(
            ["", "=", "none", "AAAAAAAAAA=", "AAAAAAAA-H8="].iter().all(|text| from_base64(text).is_none())
        );
        let two = Value::List(vec![Value::Int(1), Value::Int(2)]);
        assert!(!of(two.clone(), Scalar::I16) && !of(two, Scalar::F64));
        let one = attrs(Value::List(vec![Value::Int(1)]));
        assert_eq!(of_array(&one, &DType::Scalar(Scalar::I16)).get("_FillValue"), Some(&json!(1)));
        assert_eq!(
            of_array(&one, &DType::Scalar(Scalar::F64)).get("_FillValue"),
            Some(&json!(base64(&1f64.to_le_bytes())))
        );
        assert!(of(Value::Float(1.5), Scalar::F32) && !of(Value::Text("no".into()), Scalar::F32));
    }
}
