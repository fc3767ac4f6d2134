//! Attributes as JSON: numbers, texts, lists, objects. What JSON cannot say is said as near as it can.

use drystone_format::dtype::DType;
use drystone_format::schema::Attrs;
use drystone_format::value::{TypedArray, Value};
use serde_json::{Map, Value as Json, json};

use super::element::{float, number};

/// The key under which we say what a node is.
pub(super) const OURS: &str = "drystone";

/// All attributes of a node. One of the user's that has our key gets an underscore.
pub(super) fn object(attrs: &Attrs) -> Map<String, Json> {
    let name = |key: &String| if key == OURS { format!("{key}_") } else { key.clone() };
    attrs.iter().map(|(key, value)| (name(key), json(value))).collect()
}

fn json(value: &Value) -> Json {
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
    use drystone_format::dtype::Scalar;

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
