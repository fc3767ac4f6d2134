//! Attribute values as text and JSON.

use drystone::format::schema::Attrs;
use drystone::format::value::Value;

use crate::element;
use crate::json::Json;

/// Attributes as a JSON object.
pub(crate) fn json(attrs: &Attrs) -> Json {
    Json::Named(attrs.iter().map(|(name, value)| (name.clone(), json_of(value))).collect())
}

/// One value, for people.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => element::quoted(text),
        Value::List(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", ")),
        Value::Map(items) => {
            let items =
                items.iter().map(|(name, value)| format!("{}: {}", element::quoted(name), text(value)));
            format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
        }
        Value::Array(array) => {
            element::text((&array.dtype, array.meaning.as_ref()), &array.shape, &array.data)
        }
        other => json_of(other).to_string(),
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i) => Json::Int(*i),
        Value::Float(x) => Json::Float(*x),
        Value::Text(text) => Json::Text(text.clone()),
        Value::Bytes(bytes) => Json::Text(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        Value::List(items) => Json::List(items.iter().map(json_of).collect()),
        Value::Map(items) => Json::Named(items.iter().map(|(k, v)| (k.clone(), json_of(v))).collect()),
        Value::Array(array) => {
            element::json((&array.dtype, array.meaning.as_ref()), &array.shape, &array.data)
        }
    }
}
