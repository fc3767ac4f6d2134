//! Formats one element as text or JSON. Bytes are in memory order, little-endian.
//!
//! Floats show the fewest digits that read back as the same value of their own type.

use std::borrow::Cow;
use std::cell::RefCell;

use drystone::format::dtype::{DType, Record, Scalar};
use drystone::format::meaning::Meaning;
use drystone_format::instant::{NAT, duration_text, text as instant_text};
use drystone_format::meaning::described;
use half::{bf16, f16};

use crate::json::{Json, written};

/// An element type, and the meaning of its integers (instants, durations, named values).
#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) dtype: &'a DType,
    pub(crate) meaning: Option<&'a Meaning>,
    /// Where values of any length are taken from, in the order of the leaves, in place of the references in the bytes.
    pub(crate) values: Option<&'a Values>,
}

/// The values of any length of one cell that are still to be shown.
pub(crate) type Values = RefCell<std::vec::IntoIter<Vec<u8>>>;

/// The bytes of a value of any length.
fn any_length<'a>(kind: Element<'_>, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match kind.values {
        Some(values) => Cow::Owned(values.borrow_mut().next().unwrap_or_default()),
        None => Cow::Borrowed(bytes),
    }
}

impl<'a> From<&'a DType> for Element<'a> {
    fn from(dtype: &'a DType) -> Self {
        Element { dtype, meaning: None, values: None }
    }
}

impl<'a> From<(&'a DType, Option<&'a Meaning>)> for Element<'a> {
    fn from((dtype, meaning): (&'a DType, Option<&'a Meaning>)) -> Self {
        Element { dtype, meaning, values: None }
    }
}

impl std::fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&described(self.dtype, self.meaning))
    }
}

/// Formats an element. `shape` is the inner shape of a record's member; empty otherwise.
pub(crate) fn text<'a>(kind: impl Into<Element<'a>>, shape: &[u64], bytes: &[u8]) -> String {
    let kind = kind.into();
    let Some((_, inner)) = shape.split_first() else { return text_of_one(kind, bytes) };
    let parts: Vec<String> = split(kind.dtype, shape, bytes).map(|part| text(kind, inner, part)).collect();
    format!("[{}]", parts.join(", "))
}

/// Formats an element as JSON. Complex numbers are pairs; records are objects. Fixed bytes are text, with
/// `\xNN` for anything but printable ASCII. Instants are ISO 8601 texts; durations and named values are
/// integers. A missing instant or duration is null.
pub(crate) fn json<'a>(kind: impl Into<Element<'a>>, shape: &[u64], bytes: &[u8]) -> Json {
    let kind = kind.into();
    let Some((_, inner)) = shape.split_first() else { return json_of_one(kind, bytes) };
    Json::List(split(kind.dtype, shape, bytes).map(|part| json(kind, inner, part)).collect())
}

/// A quoted string, with unprintable characters escaped.
pub(crate) fn quoted(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&crate::plain::plain(&c.to_string())),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The elements along the first axis of an array member.
fn split<'a>(dtype: &DType, shape: &[u64], bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let cells: u64 = shape.iter().skip(1).product();
    bytes.chunks_exact((cells as usize * dtype.item_size() as usize).max(1))
}

/// The integer of an instant or duration.
fn count(bytes: &[u8]) -> i64 {
    bytes.try_into().map_or(NAT, i64::from_le_bytes)
}

fn text_of_one(kind: Element<'_>, bytes: &[u8]) -> String {
    match kind.meaning {
        Some(Meaning::Instant(unit)) => return instant_text(count(bytes), *unit),
        Some(Meaning::Duration(unit)) => return duration_text(count(bytes), *unit),
        Some(Meaning::Names(names)) => {
            let number = text_of_one(kind.dtype.into(), bytes);
            let named = names.iter().find(|(_, value)| value.to_string() == number);
            return named.map_or(number, |(name, _)| crate::plain::plain(name).to_string());
        }
        Some(Meaning::Members(_) | Meaning::Object | Meaning::Region) | None => {}
    }
    match kind.dtype {
        DType::Scalar(scalar) => scalar_text(*scalar, bytes),
        DType::Bytes(_) => format!("\"{}\"", ascii(bytes).replace('"', "\\\"")),
        DType::Unicode(_) => quoted(&utf32(bytes)),
        DType::String => quoted(&String::from_utf8_lossy(&any_length(kind, bytes))),
        DType::Ragged(scalar) => {
            let bytes = any_length(kind, bytes);
            let items: Vec<String> =
                bytes.chunks_exact(scalar.size() as usize).map(|item| scalar_text(*scalar, item)).collect();
            format!("[{}]", items.join(", "))
        }
        DType::Record(record) => {
            let members = members(record, kind, bytes).map(|(name, kind, shape, bytes)| {
                format!("{}: {}", crate::plain::plain(name), text(kind, shape, bytes))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
    }
}

fn json_of_one(kind: Element<'_>, bytes: &[u8]) -> Json {
    match kind.meaning {
        Some(Meaning::Instant(_) | Meaning::Duration(_)) if count(bytes) == NAT => return Json::Null,
        Some(Meaning::Instant(unit)) => return Json::Text(instant_text(count(bytes), *unit)),
        _ => {}
    }
    match kind.dtype {
        DType::Scalar(Scalar::C64 | Scalar::C128) => {
            let (real, imaginary) = bytes.split_at(bytes.len() / 2);
            let part = if bytes.len() == 8 { Scalar::F32 } else { Scalar::F64 };
            Json::List(vec![number(&scalar_text(part, real)), number(&scalar_text(part, imaginary))])
        }
        DType::Scalar(scalar) => number(&scalar_text(*scalar, bytes)),
        DType::Bytes(_) => Json::Text(ascii(bytes)),
        DType::Unicode(_) => Json::Text(utf32(bytes)),
        DType::String => Json::Text(String::from_utf8_lossy(&any_length(kind, bytes)).into_owned()),
        DType::Ragged(scalar) => {
            let bytes = any_length(kind, bytes);
            let items = bytes.chunks_exact(scalar.size() as usize);
            Json::List(items.map(|item| json_of_one((&DType::Scalar(*scalar)).into(), item)).collect())
        }
        DType::Record(record) => Json::Named(
            members(record, kind, bytes)
                .map(|(name, kind, shape, bytes)| (name.to_string(), json(kind, shape, bytes)))
                .collect(),
        ),
    }
}

fn number(text: &str) -> Json {
    match text {
        "nan" => Json::Float(f64::NAN),
        "inf" => Json::Float(f64::INFINITY),
        "-inf" => Json::Float(f64::NEG_INFINITY),
        text => written(text),
    }
}

fn members<'a>(
    record: &'a Record,
    whole: Element<'a>,
    bytes: &'a [u8],
) -> impl Iterator<Item = (&'a str, Element<'a>, &'a [u64], &'a [u8])> {
    record.members.iter().filter_map(move |m| {
        let cells: u64 = m.shape.iter().product();
        let from = m.offset as usize;
        let len = cells as usize * m.dtype.item_size() as usize;
        let below = whole.meaning.and_then(|meaning| meaning.of_member([m.name.as_str()]));
        let kind = Element { dtype: &m.dtype, meaning: below, ..whole };
        Some((m.name.as_str(), kind, m.shape.as_slice(), bytes.get(from..from.checked_add(len)?)?))
    })
}

fn scalar_text(scalar: Scalar, bytes: &[u8]) -> String {
    let mut wide = [0u8; 16];
    let n = bytes.len().min(16);
    wide[..n].copy_from_slice(&bytes[..n]);
    let low = u64::from_le_bytes([wide[0], wide[1], wide[2], wide[3], wide[4], wide[5], wide[6], wide[7]]);
    let high =
        u64::from_le_bytes([wide[8], wide[9], wide[10], wide[11], wide[12], wide[13], wide[14], wide[15]]);
    match scalar {
        Scalar::Bool => (low as u8 != 0).to_string(),
        Scalar::I8 => (low as i8).to_string(),
        Scalar::I16 => (low as i16).to_string(),
        Scalar::I32 => (low as i32).to_string(),
        Scalar::I64 => (low as i64).to_string(),
        Scalar::U8 => (low as u8).to_string(),
        Scalar::U16 => (low as u16).to_string(),
        Scalar::U32 => (low as u32).to_string(),
        Scalar::U64 => low.to_string(),
        Scalar::F16 => {
            let value = f16::from_bits(low as u16);
            real(shortest(value.to_f64(), |x| f16::from_f64(x).to_bits() == value.to_bits()))
        }
        Scalar::BF16 => {
            let value = bf16::from_bits(low as u16);
            real(shortest(value.to_f64(), |x| bf16::from_f64(x).to_bits() == value.to_bits()))
        }
        Scalar::F32 => real(f32::from_bits(low as u32)),
        Scalar::F64 => real(f64::from_bits(low)),
        Scalar::C64 => complex(&scalar_text(Scalar::F32, &wide[..4]), &scalar_text(Scalar::F32, &wide[4..8])),
        Scalar::C128 => complex(&real(f64::from_bits(low)), &real(f64::from_bits(high))),
    }
}

fn complex(real: &str, imaginary: &str) -> String {
    let plus = if imaginary.starts_with('-') { "" } else { "+" };
    format!("{real}{plus}{imaginary}j")
}

/// `1.0`, `1e-7`, `nan`, `inf`: Rust's shortest form, in NumPy's spelling.
fn real(value: impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    if text == "NaN" { "nan".into() } else { text }
}

/// The number with the fewest decimal digits that satisfies `same`.
fn shortest(value: f64, same: impl Fn(f64) -> bool) -> f64 {
    if !value.is_finite() {
        return value;
    }
    (0..8).filter_map(|digits| format!("{value:.digits$e}").parse().ok()).find(|x| same(*x)).unwrap_or(value)
}

/// Fixed bytes without trailing padding.
fn ascii(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    let mut out = String::with_capacity(end);
    for byte in &bytes[..end] {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(char::from(*byte)),
            other => out.push_str(&format!("\\x{other:02x}")),
        }
    }
    out
}

fn utf32(bytes: &[u8]) -> String {
    let points = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let text: String = points.map(|p| char::from_u32(p).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.trim_end_matches('\0').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone::format::dtype::Member;

    fn one(scalar: Scalar, bytes: &[u8]) -> (String, String) {
        let dtype = DType::Scalar(scalar);
        (text(&dtype, &[], bytes), json(&dtype, &[], bytes).to_string())
    }
    fn same(text: &str) -> (String, String) {
        (text.into(), text.into())
    }

    #[test]
    fn scalars_show_the_digits_their_type_has() {
        assert_eq!(one(Scalar::Bool, &[1]), same("true"));
        assert_eq!(one(Scalar::I8, &[0xFF]), same("-1"));
        assert_eq!(one(Scalar::I64, &i64::MIN.to_le_bytes()), same("-9223372036854775808"));
        assert_eq!(one(Scalar::U64, &u64::MAX.to_le_bytes()), same("18446744073709551615"));
        assert_eq!(one(Scalar::F16, &f16::from_f32(0.1).to_le_bytes()), same("0.1"));
        assert_eq!(one(Scalar::F16, &f16::MAX.to_le_bytes()), same("65500.0"));
        assert_eq!(one(Scalar::BF16, &bf16::from_f32(5.3).to_le_bytes()), same("5.3"));
        assert_eq!(one(Scalar::BF16, &bf16::from_f32(1e38).to_le_bytes()).0, "1e38");
        assert_eq!(one(Scalar::F32, &0.1f32.to_le_bytes()), same("0.1"));
        assert_eq!(one(Scalar::F64, &0.1f64.to_le_bytes()), same("0.1"));
        assert_eq!(one(Scalar::F64, &(-0.0f64).to_le_bytes()), same("-0.0"));
        assert_eq!(one(Scalar::F32, &f32::NAN.to_le_bytes()), ("nan".into(), "\"NaN\"".into()));
        assert_eq!(
            one(Scalar::F64, &f64::NEG_INFINITY.to_le_bytes()),
            ("-inf".into(), "\"-Infinity\"".into())
        );
    }

    #[test]
    fn every_half_reads_back_as_itself() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let brain = bf16::from_bits(bits);
            if half.is_finite() {
                let shown: f64 = one(Scalar::F16, &bits.to_le_bytes()).0.parse().unwrap();
                assert_eq!(f16::from_f64(shown).to_bits(), bits);
            }
            if brain.is_finite() {
                let shown: f64 = one(Scalar::BF16, &bits.to_le_bytes()).0.parse().unwrap();
                assert_eq!(bf16::from_f64(shown).to_bits(), bits);
            }
        }
    }

    #[test]
    fn complex_numbers_are_pairs() {
        let bytes: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(one(Scalar::C64, &bytes), ("1.5-2.0j".into(), "[1.5,-2.0]".into()));
        let bytes: Vec<u8> = [0.1f64, f64::NAN].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(one(Scalar::C128, &bytes), ("0.1+nanj".into(), "[0.1,\"NaN\"]".into()));
    }

    #[test]
    fn strings_lose_their_padding_and_keep_everything_else() {
        assert_eq!(text(&DType::Bytes(6), &[], b"a\"\\\xff\0\0"), r#""a\"\\\xff""#);
        assert_eq!(json(&DType::Bytes(4), &[], b"a\xff\0\0").to_string(), r#""a\\xff""#);
        let points: Vec<u8> = ['é' as u32, 0x1F600, 0xD800, 0].iter().flat_map(|p| p.to_le_bytes()).collect();
        assert_eq!(text(&DType::Unicode(4), &[], &points), "\"é\u{1F600}\u{FFFD}\"");
        assert_eq!(text(&DType::String, &[], "x\u{1b}[2J\n\"".as_bytes()), "\"x\\u{1b}[2J\\n\\\"\"");
    }

    #[test]
    fn times_and_named_values_are_shown_by_their_meaning() {
        use drystone::format::meaning::{Scale, Unit};
        let int = DType::Scalar(Scalar::I64);
        let unit = Unit { scale: Scale::Second, count: 1 };
        let (instant, duration) = (Meaning::Instant(unit), Meaning::Duration(unit));
        let shown = |meaning, value: i64| {
            let bytes = value.to_le_bytes();
            (text((&int, Some(meaning)), &[], &bytes), json((&int, Some(meaning)), &[], &bytes).to_string())
        };
        assert_eq!(shown(&instant, 1), ("1970-01-01T00:00:01".into(), "\"1970-01-01T00:00:01\"".into()));
        assert_eq!(shown(&duration, -5), ("-5 s".into(), "-5".into()));
        assert_eq!(shown(&instant, i64::MIN), ("NaT".into(), "null".into()));
        let names = Meaning::Names(vec![("red".into(), 1)]);
        assert_eq!(shown(&names, 1), ("red".into(), "1".into()));
        assert_eq!(shown(&names, 2), same("2"));
        let member =
            |name: &str, offset| Member { name: name.into(), dtype: int.clone(), shape: vec![], offset };
        let record = DType::Record(Record { itemsize: 16, members: vec![member("t", 0), member("n", 8)] });
        let whole = Meaning::Members([("t".to_string(), instant)].into());
        assert_eq!(text((&record, Some(&whole)), &[], &[0; 16]), "{t: 1970-01-01T00:00:00, n: 0}");
        assert_eq!(Element::from((&record, Some(&whole))).to_string(), "record{t: datetime64[s], n: int64}");
    }

    #[test]
    fn records_show_their_members() {
        let m = |name: &str, dtype: DType, shape: &[u64], offset| Member {
            name: name.into(),
            dtype,
            shape: shape.to_vec(),
            offset,
        };
        let pair = Record {
            itemsize: 4,
            members: vec![
                m("x", DType::Scalar(Scalar::U8), &[], 0),
                m("y", DType::Scalar(Scalar::I16), &[], 2),
            ],
        };
        let whole = DType::Record(Record {
            itemsize: 14,
            members: vec![
                m("p", DType::Record(pair), &[2], 0),
                m("g", DType::Scalar(Scalar::U8), &[2, 3], 8),
            ],
        });
        let bytes = [1, 0, 2, 0, 3, 0, 0xFF, 0xFF, 1, 2, 3, 4, 5, 6];
        assert_eq!(
            text(&whole, &[], &bytes),
            "{p: [{x: 1, y: 2}, {x: 3, y: -1}], g: [[1, 2, 3], [4, 5, 6]]}"
        );
        let read: serde_json::Value = serde_json::from_str(&json(&whole, &[], &bytes).to_string()).unwrap();
        let expected =
            serde_json::json!({"p": [{"x": 1, "y": 2}, {"x": 3, "y": -1}], "g": [[1, 2, 3], [4, 5, 6]]});
        assert_eq!(read, expected);
    }
}
