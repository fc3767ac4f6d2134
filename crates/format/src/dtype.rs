//! Element types: primitives, fixed and variable-length strings, lists of numbers, records.
//!
//! A record is stored member by member, so the type knows its leaf members: paths, offsets in the in-memory
//! element, sizes.

use std::fmt;

use crate::Corrupt;
use crate::cbor::{Sink, Source};

/// A primitive element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

/// An element type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DType {
    /// A primitive.
    Scalar(Scalar),
    /// Fixed-length bytes (NumPy `S`), length in bytes, at least 1.
    Bytes(u32),
    /// Fixed-length Unicode (NumPy `U`), length in UTF-32 code points, at least 1.
    Unicode(u32),
    /// UTF-8 string of any length; an element is a 16-byte blob reference when stored.
    String,
    /// List of numbers of any length (*ragged*). A stored element is a 16-byte blob reference, as for strings.
    Ragged(Scalar),
    /// Record with members at given byte offsets.
    Record(Record),
}

/// A record type; `itemsize` may be larger than its members together (padding).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// Bytes from one element to the next in memory.
    pub itemsize: u32,
    /// Members in declaration order; they do not overlap.
    pub members: Vec<Member>,
}

/// One member of a record: `shape` elements of `dtype` at `offset`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Member {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub offset: u32,
}

/// A leaf member: the part of a record that is stored as one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Dotted path; empty for a variable that is not a record.
    pub path: String,
    /// Primitive, fixed string, `String` or `Ragged`.
    pub dtype: DType,
    /// Number of `dtype` elements in it (product of the member shapes on the path).
    pub repeat: u64,
    /// Byte offset in the in-memory element.
    pub offset: u32,
    /// Bytes in memory: `repeat` x item size.
    pub size: u32,
}

impl Leaf {
    /// Whether an element in memory, as a fill value is, refers to a blob in this member. A fill value may not: where
    /// nothing was written, values of any length are empty.
    pub fn fills_with_blob(&self, element: &[u8]) -> bool {
        let at = self.offset as usize;
        let mut place = element.get(at..at.saturating_add(self.size as usize)).unwrap_or_default().iter();
        self.dtype.is_blob() && place.any(|byte| *byte != 0)
    }
}

/// Limits that every stored type keeps; see [`DType::validate`].
pub mod limit {
    /// Most bytes of one element in memory.
    pub const ITEM_SIZE: u64 = 64 * 1024;
    /// Most levels of records inside records.
    pub const NESTING: usize = 16;
    /// Most leaf members of one type.
    pub const LEAVES: usize = 1024;
    /// Most bytes of a member's name.
    pub const NAME: usize = 1024;
}

const SCALARS: [(Scalar, &str, u32); 15] = [
    (Scalar::Bool, "bool", 1),
    (Scalar::I8, "int8", 1),
    (Scalar::I16, "int16", 2),
    (Scalar::I32, "int32", 4),
    (Scalar::I64, "int64", 8),
    (Scalar::U8, "uint8", 1),
    (Scalar::U16, "uint16", 2),
    (Scalar::U32, "uint32", 4),
    (Scalar::U64, "uint64", 8),
    (Scalar::F16, "float16", 2),
    (Scalar::BF16, "bfloat16", 2),
    (Scalar::F32, "float32", 4),
    (Scalar::F64, "float64", 8),
    (Scalar::C64, "complex64", 8),
    (Scalar::C128, "complex128", 16),
];

impl Scalar {
    /// All scalars, in declaration order.
    pub fn all() -> impl Iterator<Item = Scalar> {
        SCALARS.into_iter().map(|(scalar, _, _)| scalar)
    }

    /// Bytes of one element.
    pub const fn size(self) -> u32 {
        SCALARS[self as usize].2
    }

    /// The name the format uses, which is NumPy's where NumPy has the type.
    pub const fn name(self) -> &'static str {
        SCALARS[self as usize].1
    }

    /// The type with that name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        SCALARS.into_iter().find(|&(_, n, _)| n == name).map(|(scalar, _, _)| scalar)
    }
}

impl DType {
    /// Whether an element refers to a blob of any length that holds its value: strings and lists of numbers.
    pub fn is_blob(&self) -> bool {
        matches!(self, DType::String | DType::Ragged(_))
    }

    /// Whether an element has values of any length: it is one, or it is a record with such a member.
    pub fn has_blobs(&self) -> bool {
        match self {
            DType::Record(record) => record.members.iter().any(|member| member.dtype.has_blobs()),
            other => other.is_blob(),
        }
    }

    /// Bytes of one element in memory; for strings and lists, the 16 bytes of the reference. Saturates for types that
    /// `validate` refuses.
    pub fn item_size(&self) -> u32 {
        match self {
            DType::Scalar(scalar) => scalar.size(),
            DType::Bytes(n) => *n,
            DType::Unicode(n) => n.saturating_mul(4),
            DType::String | DType::Ragged(_) => 16,
            DType::Record(record) => record.itemsize,
        }
    }

    /// The leaf members, depth first in declaration order; a type that is not a record is its own leaf, with an empty
    /// path.
    ///
    /// An array of records contributes the members of each of its elements, with paths like `a[2].x` or
    /// `a[0,1].x`. For types that `validate` refuses, some leaves may be missing.
    pub fn leaves(&self) -> Vec<Leaf> {
        let mut out = Vec::new();
        match self {
            DType::Record(record) => record.leaves("", 0, 0, &mut out),
            other => out.push(Leaf {
                path: String::new(),
                dtype: other.clone(),
                repeat: 1,
                offset: 0,
                size: other.item_size(),
            }),
        }
        out
    }

    /// Checks all limits. The error names the one that the type violates.
    pub fn validate(&self) -> Result<(), String> {
        self.count_leaves(0)?;
        let mut paths = std::collections::BTreeSet::new();
        for leaf in self.leaves() {
            if let Some(twice) = paths.replace(leaf.path) {
                return Err(format!("two members have the path {twice:?}"));
            }
        }
        Ok(())
    }

    fn count_leaves(&self, depth: usize) -> Result<usize, String> {
        let size = match self {
            DType::Unicode(n) => u64::from(*n) * 4,
            other => u64::from(other.item_size()),
        };
        if size == 0 || size > limit::ITEM_SIZE {
            return Err(format!("an element of {size} bytes; 1 to {} are possible", limit::ITEM_SIZE));
        }
        match self {
            DType::Record(record) => record.count_leaves(depth),
            _ => Ok(1),
        }
    }
}

impl Member {
    /// The number of elements in the member, and their bytes; an error if they exceed the limits of an element.
    fn extent(&self) -> Result<(u64, u64), String> {
        let repeat = self.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let size = repeat.and_then(|n| n.checked_mul(self.dtype.item_size().into()));
        match (repeat, size) {
            (Some(n @ 1..), Some(size)) if size <= limit::ITEM_SIZE => Ok((n, size)),
            _ => Err(format!("member {:?} has the impossible shape {:?}", self.name, self.shape)),
        }
    }
}

impl Record {
    fn leaves(&self, prefix: &str, base: u32, depth: usize, out: &mut Vec<Leaf>) {
        for member in &self.members {
            let Ok((repeat, size)) = member.extent() else { continue };
            let path = match prefix {
                "" => member.name.clone(),
                prefix => format!("{prefix}.{}", member.name),
            };
            let offset = base.saturating_add(member.offset);
            let DType::Record(inner) = &member.dtype else {
                out.push(Leaf { path, dtype: member.dtype.clone(), repeat, offset, size: size as u32 });
                continue;
            };
            for i in 0..repeat {
                if depth >= limit::NESTING || out.len() > limit::LEAVES {
                    return;
                }
                let path = match member.shape.as_slice() {
                    [] => path.clone(),
                    shape => format!("{path}[{}]", index_text(shape, i)),
                };
                // The result is below the limit of item sizes, so it does not overflow.
                let offset = offset.saturating_add(inner.itemsize.saturating_mul(i as u32));
                inner.leaves(&path, offset, depth + 1, out);
            }
        }
    }

    fn count_leaves(&self, depth: usize) -> Result<usize, String> {
        if depth >= limit::NESTING {
            return Err(format!("records nested deeper than {}", limit::NESTING));
        }
        if self.members.is_empty() {
            return Err("a record needs a member".into());
        }
        let mut names = std::collections::BTreeSet::new();
        let mut places = Vec::new();
        let mut leaves = 0usize;
        for member in &self.members {
            let name = &member.name;
            if name.is_empty() || name.len() > limit::NAME || name.contains('\0') {
                return Err(format!("{name:?} cannot name a member"));
            }
            if !names.insert(name.as_str()) {
                return Err(format!("two members are named {name:?}"));
            }
            if member.shape.len() > crate::MAX_NDIM {
                return Err(format!("member {name:?} has more than {} dimensions", crate::MAX_NDIM));
            }
            let inner = member.dtype.count_leaves(depth + 1)?;
            let (repeat, size) = member.extent()?;
            let elements = if matches!(member.dtype, DType::Record(_)) { repeat as usize } else { 1 };
            leaves = leaves.saturating_add(inner.saturating_mul(elements));
            if leaves > limit::LEAVES {
                return Err(format!("a record with more than {} leaf members", limit::LEAVES));
            }
            places.push((u64::from(member.offset), u64::from(member.offset) + size, name));
        }
        places.sort();
        let mut free = 0;
        for (begin, end, name) in places {
            if begin < free {
                return Err(format!("member {name:?} overlaps another"));
            }
            if end > u64::from(self.itemsize) {
                return Err(format!("member {name:?} ends at byte {end} of {}", self.itemsize));
            }
            free = end;
        }
        Ok(leaves)
    }
}

/// Row-major index `i` in `shape`, as text.
fn index_text(shape: &[u64], mut i: u64) -> String {
    let mut digits: Vec<String> = Vec::new();
    for &d in shape.iter().rev() {
        let d = d.max(1);
        digits.push((i % d).to_string());
        i /= d;
    }
    digits.reverse();
    digits.join(",")
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DType::Scalar(scalar) => scalar.fmt(f),
            DType::Bytes(n) => write!(f, "bytes({n})"),
            DType::Unicode(n) => write!(f, "unicode({n})"),
            DType::String => f.write_str("string"),
            DType::Ragged(scalar) => write!(f, "ragged({scalar})"),
            DType::Record(record) => {
                f.write_str("record{")?;
                for (i, member) in record.members.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", member.name, member.dtype)?;
                    for d in &member.shape {
                        write!(f, "[{d}]")?;
                    }
                }
                f.write_str("}")
            }
        }
    }
}

impl DType {
    /// The CBOR item of docs/format/manifest.md.
    pub fn encode(&self) -> Vec<u8> {
        let mut sink = Sink::new();
        self.write(&mut sink);
        sink.finish()
    }

    /// Reads one CBOR item and validates it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut source = Source::new(bytes);
        let dtype = Self::read(&mut source)?;
        source.end()?;
        Ok(dtype)
    }

    pub(crate) fn write(&self, out: &mut Sink) {
        match self {
            DType::Scalar(scalar) => out.text(scalar.name()),
            DType::String => out.text("string"),
            DType::Bytes(n) => out.array(2).u64(0).u64((*n).into()),
            DType::Unicode(n) => out.array(2).u64(1).u64((*n).into()),
            DType::Ragged(scalar) => out.array(2).u64(3).text(scalar.name()),
            DType::Record(record) => {
                out.array(3).u64(2).u64(record.itemsize.into()).array(record.members.len());
                for member in &record.members {
                    out.array(4).text(&member.name);
                    member.dtype.write(out);
                    out.array(member.shape.len());
                    for &d in &member.shape {
                        out.u64(d);
                    }
                    out.u64(member.offset.into());
                }
                out
            }
        };
    }

    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        let at = source.position();
        let dtype = Self::read_nested(source, 0)?;
        dtype.validate().map_err(|e| Corrupt::new(format!("type: {e}"), at))?;
        Ok(dtype)
    }

    fn read_nested(source: &mut Source<'_>, depth: usize) -> Result<Self, Corrupt> {
        if depth > limit::NESTING {
            return Err(source.corrupt("type: nested too deep"));
        }
        if source.kind()? == minicbor::data::Type::String {
            let name = source.text()?;
            return match (name, Scalar::parse(name)) {
                (_, Some(scalar)) => Ok(DType::Scalar(scalar)),
                ("string", None) => Ok(DType::String),
                _ => Err(source.corrupt(format!("unknown type {name:?}"))),
            };
        }
        let n = source.array()?;
        match (source.u64()?, n) {
            (0, 2) => Ok(DType::Bytes(source.u32()?)),
            (1, 2) => Ok(DType::Unicode(source.u32()?)),
            (3, 2) => {
                let name = source.text()?;
                let scalar = Scalar::parse(name);
                scalar
                    .map(DType::Ragged)
                    .ok_or_else(|| source.corrupt(format!("a list of the unknown type {name:?}")))
            }
            (2, 3) => {
                let itemsize = source.u32()?;
                let members = source.list(|source| {
                    source.tuple(4)?;
                    Ok(Member {
                        name: source.text()?.to_owned(),
                        dtype: Self::read_nested(source, depth + 1)?,
                        shape: source.list(Source::u64)?,
                        offset: source.u32()?,
                    })
                })?;
                Ok(DType::Record(Record { itemsize, members }))
            }
            (kind, n) => Err(source.corrupt(format!("unknown type [{kind}, …] of {n} items"))),
        }
    }
}
