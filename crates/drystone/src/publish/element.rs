//! Element types and values in Zarr's terms: the data type of each leaf, fill values, numbers in attributes.
//!
//! A text is one value in Zarr. In HDF5 a text of fixed length is a row of characters, which netCDF can read.

use drystone_format::dtype::{DType, Scalar};
use serde_json::{Value as Json, json};

use super::base64::base64;

/// A leaf's element in an array: a type that every reader knows, and the cell's own axes, which follow the axes of
/// cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    /// The type of one value, or of a text's characters.
    pub(super) scalar: Scalar,
    /// Extents of the cell's own axes, for a member that is an array.
    pub(super) tail: Vec<u64>,
    pub(super) text: Text,
}

/// Whether values are texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// Values are numbers.
    No,
    /// Texts of this many characters, padded with zeros.
    Fixed(u32),
    /// Texts of any length.
    Any,
}

impl Element {
    /// The element of a leaf of this type with `shape` values per cell. `None` for lists of any length and for
    /// records.
    pub(super) fn of(dtype: &DType, shape: &[u64]) -> Option<Self> {
        let (scalar, text) = match dtype {
            // No common reader knows this type, so its bits are published.
            DType::Scalar(Scalar::BF16) => (Scalar::U16, Text::No),
            DType::Scalar(scalar) => (*scalar, Text::No),
            DType::Bytes(n) => (Scalar::U8, Text::Fixed(*n)),
            DType::Unicode(n) => (Scalar::U32, Text::Fixed(*n)),
            DType::String => (Scalar::U8, Text::Any),
            DType::Ragged(_) | DType::Record(_) => return None,
        };
        Some(Element { scalar, tail: shape.to_vec(), text })
    }

    /// Whether values are texts of any length.
    pub(super) fn is_text(&self) -> bool {
        self.text == Text::Any
    }

    /// Whether values are texts of fixed length in UTF-32.
    pub(super) fn is_utf32(&self) -> bool {
        matches!(self.text, Text::Fixed(_)) && self.scalar == Scalar::U32
    }

    /// The number of characters of a text of fixed length.
    pub(super) fn characters(&self) -> Option<u64> {
        match self.text {
            Text::Fixed(n) => Some(n.into()),
            Text::No | Text::Any => None,
        }
    }

    /// Zarr's data type.
    pub(super) fn data_type(&self) -> Json {
        let (name, characters) = match (self.text, self.scalar) {
            (Text::No, scalar) => return json!(scalar.name()),
            (Text::Any, _) => return json!("string"),
            (Text::Fixed(n), Scalar::U32) => ("fixed_length_utf32", n),
            (Text::Fixed(n), _) => ("null_terminated_bytes", n),
        };
        let bytes = u64::from(characters) * u64::from(self.scalar.size());
        json!({"name": name, "configuration": {"length_bytes": bytes}})
    }

    /// Zarr's `fill_value` for the bytes of one cell; `None` if the values of a cell differ, which Zarr cannot express.
    pub(super) fn fill_value(&self, cell: &[u8]) -> Option<Json> {
        if self.is_text() {
            return Some(json!(""));
        }
        let size = self.scalar.size() as usize;
        let first = cell.get(..size)?;
        if !cell.chunks_exact(size).all(|value| value == first) {
            return None;
        }
        let Some(characters) = self.characters() else { return Some(exact(self.scalar, first)) };
        let text = cell.get(..size * characters as usize)?;
        match self.is_utf32() {
            true => utf8(text).and_then(|text| String::from_utf8(text).ok()).map(Json::String),
            // zarr-python omits the zeros at the end of a text.
            false => Some(json!(base64(trimmed(text)))),
        }
    }
}

/// A text without its padding.
fn trimmed(text: &[u8]) -> &[u8] {
    text.iter().rposition(|byte| *byte != 0).map_or(&[], |last| &text[..=last])
}

/// Converts a UTF-32 text to UTF-8, without its padding. `None` if it is not valid Unicode.
pub(super) fn utf8(text: &[u8]) -> Option<Vec<u8>> {
    let codes = text.chunks_exact(4).map(|code| u32::from_le_bytes([code[0], code[1], code[2], code[3]]));
    let all: Option<String> = codes.map(char::from_u32).collect();
    all.map(|text| text.trim_end_matches('\0').as_bytes().to_vec())
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// A value with all its bits: NaNs other than the standard one are in hexadecimal.
fn exact(scalar: Scalar, bytes: &[u8]) -> Json {
    let usual = match scalar {
        Scalar::F16 => 0x7e00,
        Scalar::F32 => 0x7fc0_0000,
        Scalar::F64 => 0x7ff8_0000_0000_0000,
        Scalar::C64 | Scalar::C128 => {
            let part = if scalar == Scalar::C64 { Scalar::F32 } else { Scalar::F64 };
            let (re, im) = bytes.split_at(part.size() as usize);
            return json!([exact(part, re), exact(part, im)]);
        }
        _ => return number(scalar, bytes),
    };
    match number(scalar, bytes) {
        Json::String(text) if text == "NaN" && bits(bytes) != usual => {
            Json::String(format!("0x{:0width$x}", bits(bytes), width = bytes.len() * 2))
        }
        other => other,
    }
}

/// A value as a number. Values for which JSON has no number are texts, as Zarr writes them.
pub(super) fn number(scalar: Scalar, bytes: &[u8]) -> Json {
    let unsigned = bits(bytes);
    let signed = |width: u32| (unsigned << (64 - width)) as i64 >> (64 - width);
    match scalar {
        Scalar::Bool => json!(unsigned != 0),
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => json!(unsigned),
        Scalar::I8 => json!(signed(8)),
        Scalar::I16 => json!(signed(16)),
        Scalar::I32 => json!(signed(32)),
        Scalar::I64 => json!(signed(64)),
        Scalar::F16 => float(half::f16::from_bits(unsigned as u16).to_f64()),
        Scalar::BF16 => float(half::bf16::from_bits(unsigned as u16).to_f64()),
        Scalar::F32 => float(f64::from(f32::from_bits(unsigned as u32))),
        Scalar::F64 => float(f64::from_bits(unsigned)),
        Scalar::C64 | Scalar::C128 => {
            let part = if scalar == Scalar::C64 { Scalar::F32 } else { Scalar::F64 };
            let (re, im) = bytes.split_at(bytes.len() / 2);
            json!([number(part, re), number(part, im)])
        }
    }
}

/// A float as JSON, which has no NaN and no infinity.
pub(super) fn float(x: f64) -> Json {
    if x.is_nan() {
        json!("NaN")
    } else if x.is_infinite() {
        json!(if x > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        json!(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_are_exact() {
        let fill = |scalar: Scalar, bytes: &[u8]| {
            Element::of(&DType::Scalar(scalar), &[]).unwrap().fill_value(bytes).unwrap().to_string()
        };
        assert_eq!(fill(Scalar::F32, &f32::NAN.to_le_bytes()), "\"NaN\"");
        assert_eq!(fill(Scalar::F32, &0x7fc0_0001u32.to_le_bytes()), "\"0x7fc00001\"");
        assert_eq!(fill(Scalar::F64, &f64::NEG_INFINITY.to_le_bytes()), "\"-Infinity\"");
        assert_eq!(fill(Scalar::F64, &(-0.0f64).to_le_bytes()), "-0.0");
        assert_eq!(fill(Scalar::I8, &[0xff]), "-1");
        assert_eq!(fill(Scalar::U64, &[0xff; 8]), "18446744073709551615");
        assert_eq!(fill(Scalar::I64, &i64::MIN.to_le_bytes()), "-9223372036854775808");
        assert_eq!(fill(Scalar::C64, &[0, 0, 0x80, 0x3f, 0, 0, 0xc0, 0x7f]), "[1.0,\"NaN\"]");
        assert_eq!(fill(Scalar::Bool, &[1]), "true");
        assert_eq!(fill(Scalar::BF16, &[0x80, 0x3f]), "16256");
    }

    #[test]
    fn a_cell_of_unequal_values_has_no_fill_value() {
        let text = Element::of(&DType::Bytes(3), &[2]).unwrap();
        assert_eq!((text.tail.as_slice(), text.characters()), (&[2][..], Some(3)));
        let expected = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}});
        assert_eq!(text.data_type(), expected);
        assert_eq!(text.fill_value(&[0; 6]), Some(json!("")));
        assert_eq!(text.fill_value(b"aaaaaa"), Some(json!("YWFh")));
        assert_eq!(text.fill_value(b"abcabc"), None);
    }

    #[test]
    fn texts_of_utf32_are_texts_in_zarr() {
        let text = Element::of(&DType::Unicode(2), &[]).unwrap();
        let expected = json!({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}});
        assert_eq!(text.data_type(), expected);
        let cell = |codes: [u32; 2]| codes.iter().flat_map(|code| code.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(text.fill_value(&cell([0, 0])), Some(json!("")));
        assert_eq!(text.fill_value(&cell([0xe9, 0xe9])), Some(json!("éé")));
        assert_eq!(text.fill_value(&cell([0xd800, 0xd800])), None, "no Unicode");
        assert_eq!(utf8(&cell([0x61, 0])), Some(b"a".to_vec()));
        assert_eq!(Element::of(&DType::String, &[]).unwrap().data_type(), json!("string"));
    }
}
