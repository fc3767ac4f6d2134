//! Attribute values: CBOR values and typed arrays.

use std::collections::BTreeMap;

use crate::Corrupt;
use crate::cbor::{Sink, Source};
use crate::dtype::DType;
use crate::meaning::Meaning;

/// An attribute's value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    /// From -2^63 to 2^64-1.
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
    Array(TypedArray),
}

/// A typed array or (shape empty) scalar: dense row-major little-endian bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TypedArray {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub data: Vec<u8>,
    pub meaning: Option<Meaning>,
}

/// Greatest nesting of lists and maps in a value.
pub const MAX_DEPTH: usize = 32;

/// CBOR tag of a typed array.
const TYPED_ARRAY: u64 = 40000;

impl TypedArray {
    /// Bytes that `dtype` and `shape` require, if they are possible at all.
    fn expected_len(&self) -> Option<u64> {
        let n = self.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?;
        n.checked_mul(self.dtype.item_size().into())
    }

    /// Checks the type, the number of dimensions, and the length of the data.
    pub fn validate(&self) -> Result<(), String> {
        self.dtype.validate()?;
        if self.dtype.has_blobs() {
            return Err("a typed array cannot hold strings or lists of any length; use a list".into());
        }
        if self.shape.len() > crate::MAX_NDIM {
            return Err(format!("a typed array has at most {} dimensions", crate::MAX_NDIM));
        }
        if let Some(meaning) = &self.meaning {
            meaning.validate(&self.dtype)?;
        }
        match self.expected_len() {
            Some(len) if len == self.data.len() as u64 => Ok(()),
            _ => Err(format!("{} bytes for {}{:?}", self.data.len(), self.dtype, self.shape)),
        }
    }
}

impl Value {
    /// Checks nesting, the range of integers, and typed arrays: a valid value is stored and read back
    /// exactly.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_at(0)
    }

    fn validate_at(&self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("a value nested deeper than {MAX_DEPTH}"));
        }
        match self {
            Value::Int(i) if i64::try_from(*i).is_err() && u64::try_from(*i).is_err() => {
                Err(format!("the integer {i} needs more than 64 bits"))
            }
            Value::List(items) => items.iter().try_for_each(|item| item.validate_at(depth + 1)),
            Value::Map(items) => items.values().try_for_each(|item| item.validate_at(depth + 1)),
            Value::Array(array) => array.validate(),
            _ => Ok(()),
        }
    }

    /// One CBOR item. `decode` refuses what `validate` refuses.
    pub fn encode(&self) -> Vec<u8> {
        let mut sink = Sink::new();
        self.write(&mut sink);
        sink.finish()
    }

    /// Reads one CBOR item.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let value = Self::read(&mut source)?;
        source.end()?;
        Ok(value)
    }

    pub(crate) fn write(&self, out: &mut Sink) {
        match self {
            Value::Null => out.null(),
            Value::Bool(b) => out.bool(*b),
            Value::Int(i) => out.integer(*i),
            Value::Float(x) => out.f64(*x),
            Value::Text(text) => out.text(text),
            Value::Bytes(bytes) => out.bytes(bytes),
            Value::List(items) => {
                out.array(items.len());
                items.iter().for_each(|item| item.write(out));
                out
            }
            Value::Map(items) => {
                out.map(items.len());
                for (key, item) in items {
                    out.text(key);
                    item.write(out);
                }
                out
            }
            Value::Array(array) => {
                out.tag(TYPED_ARRAY).array(3 + usize::from(array.meaning.is_some()));
                array.dtype.write(out);
                out.array(array.shape.len());
                for &d in &array.shape {
                    out.u64(d);
                }
                out.bytes(&array.data);
                if let Some(meaning) = &array.meaning {
                    meaning.write(out);
                }
                out
            }
        };
    }

    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        Self::read_at(source, 0)
    }

    fn read_at(source: &mut Source<'_>, depth: usize) -> Result<Self, Corrupt> {
        use minicbor::data::Type;
        if depth > MAX_DEPTH {
            return Err(source.corrupt(format!("a value nested deeper than {MAX_DEPTH}")));
        }
        Ok(match source.kind()? {
            Type::Null => {
                source.null()?;
                Value::Null
            }
            Type::Bool => Value::Bool(source.bool()?),
            Type::F64 => Value::Float(source.f64()?),
            Type::String => Value::Text(source.text()?.to_owned()),
            Type::Bytes => Value::Bytes(source.bytes()?.to_vec()),
            Type::Array => Value::List(source.list(|source| Self::read_at(source, depth + 1))?),
            Type::Map => {
                let mut items = BTreeMap::new();
                source.entries(|source, key| {
                    items.insert(key.to_owned(), Self::read_at(source, depth + 1)?);
                    Ok(())
                })?;
                Value::Map(items)
            }
            Type::Tag => Value::Array(read_array(source)?),
            _ => {
                let i = source.integer()?;
                if i < i64::MIN.into() {
                    return Err(source.corrupt(format!("the integer {i} needs more than 64 bits")));
                }
                Value::Int(i)
            }
        })
    }
}

fn read_array(source: &mut Source<'_>) -> Result<TypedArray, Corrupt> {
    let tag = source.tag()?;
    if tag != TYPED_ARRAY {
        return Err(source.corrupt(format!("unknown tag {tag}")));
    }
    let items = source.array()?;
    if !(3..=4).contains(&items) {
        return Err(source.corrupt(format!("a typed array of {items} items; 3 or 4 are possible")));
    }
    let array = TypedArray {
        dtype: DType::read(source)?,
        shape: source.list(Source::u64)?,
        data: source.bytes()?.to_vec(),
        meaning: (items == 4).then(|| Meaning::read(source)).transpose()?,
    };
    array.validate().map_err(|e| source.corrupt(format!("typed array: {e}")))?;
    Ok(array)
}
