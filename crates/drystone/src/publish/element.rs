//! Element types and values in Zarr's words: the data type of each leaf, fill values, numbers in attributes.

use drystone_format::dtype::{DType, Scalar};
use serde_json::{Value as Json, json};

/// A leaf's element as an array has it: a type that every reader knows, and axes behind those of the cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element {
    /// Zarr's name of the data type.
    pub(super) name: &'static str,
    /// What one value is.
    pub(super) scalar: Scalar,
    /// Extents of the axes that a cell has of its own: of a member that is an array, of a fixed string its characters.
    pub(super) tail: Vec<u64>,
}

impl Element {
    /// Of a leaf of this type, `shape` of them per cell. `None` for strings of any length and records.
    pub(super) fn of(dtype: &DType, shape: &[u64]) -> Option<Self> {
        let (scalar, length) = match dtype {
            // No common reader knows the type; its bits are published.
            DType::Scalar(Scalar::BF16) => (Scalar::U16, None),
            DType::Scalar(scalar) => (*scalar, None),
            DType::Bytes(n) => (Scalar::U8, Some(*n)),
            DType::Unicode(n) => (Scalar::U32, Some(*n)),
            DType::String | DType::Record(_) => return None,
        };
        let tail = shape.iter().copied().chain(length.map(u64::from)).collect();
        Some(Element { name: scalar.name(), scalar, tail })
    }

    /// Strings of any length.
    pub(super) fn text() -> Self {
        Element { name: "string", scalar: Scalar::U8, tail: Vec::new() }
    }

    pub(super) fn is_text(&self) -> bool {
        self.name == "string"
    }

    /// Zarr's `fill_value` for the bytes of one cell; `None` if the values of a cell differ, which Zarr cannot say.
    pub(super) fn fill_value(&self, cell: &[u8]) -> Option<Json> {
        if self.is_text() {
            return Some(json!(""));
        }
        let size = self.scalar.size() as usize;
        let first = cell.get(..size)?;
        cell.chunks_exact(size).all(|value| value == first).then(|| exact(self.scalar, first))
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// A value to the bit: NaNs other than the usual one in hexadecimal.
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

/// A value as a number; what JSON has no number for is a text, as Zarr writes it.
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

/// JSON has no NaN and no infinity.
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
        assert_eq!((text.name, text.tail.as_slice()), ("uint8", &[2, 3][..]));
        assert_eq!(text.fill_value(&[0; 6]), Some(json!(0)));
        assert_eq!(text.fill_value(b"abcabc"), None);
        assert!(Element::of(&DType::String, &[]).is_none());
    }
}
