//! Writes JSON. Numbers that JSON cannot express (NaN, infinities) become strings.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON document.
#[derive(Debug, Clone)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
    /// Like `Object`, with names that come from a container.
    Named(Vec<(String, Json)>),
    /// A number whose digits are already formatted.
    Written(Box<RawValue>),
}

macro_rules! from_integer {
    ($($t:ty),*) => {$(
        impl From<$t> for Json {
            fn from(value: $t) -> Self {
                Json::Int(value as i128)
            }
        }
    )*};
}
from_integer!(u8, u32, u64, usize, i64, i128);

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Json::Bool(value)
    }
}

impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Json::Float(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Json::Text(value.to_string())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Json::Text(value)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Json::Null, Into::into)
    }
}

/// A list of values that convert to JSON.
pub(crate) fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
    Json::List(items.into_iter().map(Into::into).collect())
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => to.serialize_unit(),
            Json::Bool(value) => to.serialize_bool(*value),
            Json::Int(value) => to.serialize_i128(*value),
            Json::Float(value) if value.is_finite() => to.serialize_f64(*value),
            Json::Float(value) if value.is_nan() => to.serialize_str("NaN"),
            Json::Float(value) => to.serialize_str(if *value > 0.0 { "Infinity" } else { "-Infinity" }),
            Json::Text(text) => to.serialize_str(text),
            Json::List(items) => to.collect_seq(items),
            Json::Object(items) => to.collect_map(items.iter().map(|(name, value)| (name, value))),
            Json::Named(items) => to.collect_map(items.iter().map(|(name, value)| (name, value))),
            Json::Written(text) => text.serialize(to),
        }
    }
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// A number, written with exactly these digits.
pub(crate) fn written(digits: &str) -> Json {
    RawValue::from_string(digits.to_owned()).map_or_else(|_| digits.into(), Json::Written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_a_json_reader_reads() {
        let json = Json::Named(vec![
            ("a\"\\\n\u{1b}é".into(), list([1.5, -0.0, 1e300, 5e-324, 1e16])),
            ("n".into(), Json::Float(f64::NAN)),
            ("big".into(), Json::from(u64::MAX)),
            ("o".into(), Json::Object(vec![("x", Json::Null), ("y", Json::Bool(true))])),
        ]);
        let read: serde_json::Value = serde_json::from_str(&json.to_string()).unwrap();
        let expected = serde_json::json!({
            "a\"\\\n\u{1b}é": [1.5, -0.0, 1e300, 5e-324, 1e16], "n": "NaN", "big": u64::MAX, "o": {"x": null, "y": true}
        });
        assert_eq!(read, expected);
    }
}
