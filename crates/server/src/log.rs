//! The log: one JSON object per line, on standard error.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// Writes a line with the time, the event and the fields. Errors are ignored: the server continues if standard error is
/// closed.
pub(crate) fn line(event: &str, fields: &[(&str, Value)]) {
    let mut object = Map::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    object.insert("time".into(), json!((now.as_secs_f64() * 1e3).round() / 1e3));
    object.insert("event".into(), json!(event));
    for (name, value) in fields {
        object.insert((*name).into(), value.clone());
    }
    let mut text = Value::Object(object).to_string();
    text.push('\n');
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
