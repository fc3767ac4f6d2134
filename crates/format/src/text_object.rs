//! Small JSON objects that end with a CRC of all bytes before it: registrations and parity groups.

use serde_json::{Map, Value};

/// The last member begins with this text; eight digits and [`END`] follow.
const CRC: &str = "\"crc32c\": \"";
const END: &str = "\"\n}\n";

/// The object that begins with `head`, up to the member `crc32c`.
pub(crate) fn seal(head: String) -> Vec<u8> {
    let crc = crate::crc32c(head.as_bytes());
    format!("{head}{CRC}{crc:08x}{END}").into_bytes()
}

/// The CRC at the end of an object.
pub(crate) fn crc_of(bytes: &[u8]) -> Option<u32> {
    let at = bytes.len().checked_sub(8 + END.len())?;
    let digits = std::str::from_utf8(bytes.get(at..at + 8)?).ok()?;
    u32::try_from(hex(digits, 8)?).ok()
}

/// The members of an object of at most `most` bytes, whose CRC, format and version are right. The error says what is
/// wrong.
pub(crate) fn open(
    bytes: &[u8],
    most: u64,
    (format, version): (&str, u64),
) -> Result<Map<String, Value>, String> {
    if bytes.len() as u64 > most {
        return Err("it is too long".into());
    }
    let at = bytes.len().checked_sub(CRC.len() + 8 + END.len());
    let (head, tail) = at.and_then(|at| bytes.split_at_checked(at)).ok_or("it is too short")?;
    if tail != format!("{CRC}{:08x}{END}", crate::crc32c(head)).as_bytes() {
        return Err("it fails its CRC".into());
    }
    let Value::Object(json) = serde_json::from_slice(bytes).map_err(|e| e.to_string())? else {
        return Err("an object expected".into());
    };
    if json.get("format").and_then(Value::as_str) != Some(format) {
        return Err(format!("the format is not {format:?}"));
    }
    if json.get("version").and_then(Value::as_u64) != Some(version) {
        return Err("a version that this reader does not know".into());
    }
    Ok(json)
}

/// A text member of at most `most` bytes.
pub(crate) fn text<'a>(json: &'a Map<String, Value>, name: &str, most: usize) -> Result<&'a str, String> {
    let text = json.get(name).and_then(Value::as_str).filter(|text| text.len() <= most);
    text.ok_or_else(|| format!("the member {name:?} is missing, or not a text"))
}

/// A list member of at most `most` values.
pub(crate) fn list<'a>(
    json: &'a Map<String, Value>,
    name: &str,
    most: usize,
) -> Result<&'a Vec<Value>, String> {
    let list = json.get(name).and_then(Value::as_array).filter(|list| list.len() <= most);
    list.ok_or_else(|| format!("the member {name:?} is not a list of at most {most} items"))
}

/// An unsigned integer member.
pub(crate) fn number(json: &Map<String, Value>, name: &str) -> Result<u64, String> {
    json.get(name)
        .and_then(Value::as_u64)
        .ok_or_else(|| format!("the member {name:?} is missing, or not a number"))
}

/// A number of `digits` hexadecimal digits in lower case. If there are more than sixteen, the last sixteen count.
pub(crate) fn hex(text: &str, digits: usize) -> Option<u64> {
    let lower = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == digits && text.bytes().all(lower)).then_some(())?;
    u64::from_str_radix(text.get(digits.saturating_sub(16)..)?, 16).ok()
}
