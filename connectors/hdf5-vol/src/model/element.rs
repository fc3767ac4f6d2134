//! How an HDF5 element is stored in the container: as a type of the engine where there is one, members by
//! name, else as bytes.

use drystone::NewVariable;
use drystone::format::MAX_NDIM;
use drystone::format::dtype::{DType, Scalar, limit};
use drystone::format::schema::Attrs;

use crate::model::encoded::{StoredType, class, is_big_endian, kind};
use crate::model::record::{meaning, record};
use crate::model::tree::{Dataset, Filter, Space};

/// A variable's type, and whether a trailing axis holds the bytes of an element.
#[derive(Debug, Clone)]
pub struct Element {
    /// The type of one cell of the variable.
    pub dtype: DType,
    /// Bytes of an element, where they have an axis of their own.
    pub trailing: Option<u64>,
}

impl Element {
    /// For a variable that stores elements of this many bytes.
    pub fn of(dtype: &DType, size: u32) -> Self {
        let trailing = (dtype.item_size() != size).then_some(u64::from(size));
        Element { dtype: dtype.clone(), trailing }
    }

    /// A first cell, with the axis of bytes.
    pub fn first(&self, first: &[u64]) -> Vec<u64> {
        first.iter().copied().chain(self.trailing.map(|_| 0)).collect()
    }

    /// Sizes, with the axis of bytes.
    pub fn count(&self, count: &[u64]) -> Vec<u64> {
        count.iter().copied().chain(self.trailing).collect()
    }
}

/// The variable for a dataset; `None` for one without values.
pub fn variable(dataset: &Dataset) -> Option<NewVariable> {
    if dataset.space == Space::Null {
        return None;
    }
    let size = dataset.dtype.size;
    let enum_big = is_big_endian(&dataset.dtype.encoded, size)
        && dataset.dtype.encoded.get(2).is_some_and(|b| i32::from(b & 0x0f) == class::ENUM);
    let (dtype, trailing) = match kind(&dataset.dtype.encoded, size) {
        StoredType::Number(scalar) if !enum_big => (DType::Scalar(scalar), false),
        _ if u64::from(size) <= limit::ITEM_SIZE => {
            (record(&dataset.dtype.encoded, size).unwrap_or(DType::Bytes(size)), false)
        }
        _ => (DType::Scalar(Scalar::U8), true),
    };
    let (dims, max) = match &dataset.space {
        Space::Simple(dims, max) => (dims.clone(), max.clone()),
        _ => (Vec::new(), Vec::new()),
    };
    let mut shape: Vec<Option<u64>> = dims.iter().zip(&max).map(|(n, m)| (n == m).then_some(*n)).collect();
    if trailing {
        shape.push(Some(u64::from(size)));
    }
    if shape.len() > MAX_NDIM {
        return None;
    }
    let meaning = if trailing { None } else { meaning(&dataset.dtype.encoded, &dtype) };
    Some(NewVariable {
        transform: transform(&dataset.properties.filters, &dtype),
        fill: dataset.unwritten().filter(|_| !trailing).map(<[u8]>::to_vec),
        dtype,
        shape,
        dims: Vec::new(),
        steps: false,
        local: false,
        chunks: None,
        attrs: Attrs::new(),
        access: String::new(),
        meaning,
    })
}

/// Filters that map to a transform, or to nothing because the engine always does the same (checksums).
pub fn is_known_filter(id: i32) -> bool {
    matches!(id, 1..=6 | 307 | 32000 | 32001 | 32004 | 32008 | 32015)
}

/// The transform for a pipeline of filters.
fn transform(filters: &[Filter], dtype: &DType) -> String {
    let number = matches!(dtype, DType::Scalar(_)) && dtype.item_size() > 1;
    let mut words: Vec<String> = Vec::new();
    for filter in filters {
        let value = |i: usize, default: u32| filter.values.get(i).copied().unwrap_or(default);
        let word = match filter.id {
            1 => format!("zlib:{}", value(0, 6).clamp(1, 9)),
            2 if number => "shuffle".into(),
            307 => "bzip2".into(),
            4..=6 => "zstd:1".into(),
            32008 if number => "bitshuffle".into(),
            32000 | 32001 | 32004 => "lz4".into(),
            32015 => format!("zstd:{}", value(0, 3).clamp(1, 19)),
            _ => continue,
        };
        words.push(word);
    }
    if words.iter().all(|w| w.contains("shuffle")) { String::new() } else { words.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_recognised_by_their_encoding() {
        let f64le = [3, 0, 0x11, 0x20, 0x3f, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3, 0, 0];
        assert_eq!(kind(&f64le, 8), StoredType::Number(Scalar::F64));
        let i32be = [3, 0, 0x10, 0x09, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0];
        assert_eq!(kind(&i32be, 4), StoredType::Number(Scalar::I32));
        assert!(is_big_endian(&i32be, 4) && !is_big_endian(&f64le, 8));
        assert_eq!(kind(&i32be, 8), StoredType::Bytes);
        assert_eq!(kind(&[3, 0], 4), StoredType::Bytes);
    }

    #[test]
    fn pipelines_become_chains() {
        let f = |id, values: &[u32]| Filter { id, flags: 0, values: values.to_vec() };
        let number = DType::Scalar(Scalar::F32);
        assert_eq!(transform(&[f(2, &[4]), f(1, &[4])], &number), "shuffle,zlib:4");
        assert_eq!(transform(&[f(2, &[4]), f(1, &[4])], &DType::Bytes(20)), "zlib:4");
        assert_eq!(transform(&[f(3, &[])], &number), "");
    }
}
