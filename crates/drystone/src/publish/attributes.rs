//! Attributes as JSON: numbers, texts, lists, objects. What JSON cannot say is said as near as it can.

use drystone_format::dtype::{DType, Scalar};
use drystone_format::schema::Attrs;
use drystone_format::value::{TypedArray, Value};
use serde_json::{Map, Value as Json, json};

use super::element::{float, number};
use super::view::DECLARED;

/// The key under which we say what a node is.
pub(super) const OURS: &str = "drystone";
/// The attribute by which the CF conventions mask.
const FILL: &str = "_FillValue";

/// All attributes of a node. One of the user's that has our key gets an underscore.
pub(super) fn object(attrs: &Attrs) -> Map<String, Json> {
    let name = |key: &String| if key == OURS { format!("{key}_") } else { key.clone() };
    let shown = attrs.iter().filter(|(key, _)| *key != DECLARED);
    shown.map(|(key, value)| (name(key), json(value))).collect()
}

/// Those of an array with elements of `dtype`. xarray masks by `_FillValue`, which for floats it takes in base64 of a float64.
pub(super) fn of_array(attrs: &Attrs, dtype: &DType) -> Map<String, Json> {
    let mut all = object(attrs);
    let floats = matches!(dtype, DType::Scalar(Scalar::F16 | Scalar::F32 | Scalar::F64));
    if floats && let Some(fill) = attrs.get(FILL).and_then(as_float) {
        all.insert(FILL.into(), json!(base64(&fill.to_le_bytes())));
    }
    all
}

/// A number, also one that stands in an array alone.
pub(super) fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(x) => Some(*x),
        Value::Int(i) => Some(*i as f64),
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

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0u32, |n, (i, &b)| n | u32::from(b) << (16 - 8 * i));
        for digit in 0..4 {
            let six = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= group.len() { char::from(DIGITS[six]) } else { '=' });
        }
    }
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

/// Nested lists, or one value.
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
        DType::String => Json::Null, // not possible in a typed array
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
}
