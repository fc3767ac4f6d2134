//! A listing of objects, as the payload of an answer: one line per object, with its length and key.

use crate::Malformed;

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length in bytes.
    pub len: u64,
}

/// Encodes the entries.
pub fn encode_listing<'a>(entries: impl Iterator<Item = (&'a str, u64)>) -> Vec<u8> {
    let mut out = String::new();
    for (key, len) in entries {
        out.push_str(&len.to_string());
        out.push(' ');
        out.push_str(key);
        out.push('\n');
    }
    out.into_bytes()
}

/// Decodes the lines. The caller checks whether keys are valid.
pub fn decode_listing(bytes: &[u8]) -> Result<Vec<Listed>, Malformed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|bad| Malformed::new("a listing is not UTF-8", bad.valid_up_to()))?;
    let mut at = 0;
    let mut entries = Vec::new();
    for line in text.split_inclusive('\n') {
        let entry = line.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let entry = entry.filter(|(len, key)| {
            !key.is_empty()
                && !len.is_empty()
                && len.bytes().all(|c| c.is_ascii_digit())
                && (*len == "0" || !len.starts_with('0'))
        });
        let entry = entry.and_then(|(len, key)| Some(Listed { len: len.parse().ok()?, key: key.to_owned() }));
        entries.push(entry.ok_or_else(|| Malformed::new("a line of a listing is not LENGTH KEY", at))?);
        at += line.len();
    }
    Ok(entries)
}
