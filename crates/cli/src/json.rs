//! JSON, written only. Numbers that JSON cannot say (NaN, infinities) become strings.

use std::fmt::{self, Display, Formatter};

/// A JSON document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
    /// As `Object`, with names that come from a container.
    Named(Vec<(String, Json)>),
    /// A document that was written before.
    Written(String),
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

/// A list of what can be JSON.
pub(crate) fn list<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Json {
    Json::List(items.into_iter().map(Into::into).collect())
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{b}"),
            Json::Int(i) => write!(f, "{i}"),
            Json::Float(x) if x.is_finite() => write!(f, "{x:?}"),
            Json::Float(x) if x.is_nan() => f.write_str("\"NaN\""),
            Json::Float(x) => f.write_str(if *x > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }),
            Json::Text(text) => quote(f, text),
            Json::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(items) => object(f, items.iter().map(|(k, v)| (*k, v))),
            Json::Named(items) => object(f, items.iter().map(|(k, v)| (k.as_str(), v))),
            Json::Written(text) => f.write_str(text),
        }
    }
}

fn object<'a>(f: &mut Formatter<'_>, items: impl Iterator<Item = (&'a str, &'a Json)>) -> fmt::Result {
    f.write_str("{")?;
    for (i, (name, value)) in items.enumerate() {
        f.write_str(if i == 0 { "" } else { ", " })?;
        quote(f, name)?;
        write!(f, ": {value}")?;
    }
    f.write_str("}")
}

fn quote(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
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
