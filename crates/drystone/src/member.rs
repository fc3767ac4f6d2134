//! Members of records by path ("velocity.x").

use drystone_format::dtype::DType;

/// A member found by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its element type.
    pub dtype: DType,
    /// Elements per record element, as an array; empty for one.
    pub shape: Vec<u64>,
    /// Bytes from the beginning of the record.
    pub offset: u32,
    /// Bytes it takes.
    pub size: u32,
    /// Number of its first leaf, and how many leaves it has.
    pub first_leaf: usize,
    /// See `first_leaf`.
    pub leaf_count: usize,
}

/// The member of a record at a dotted path; inside arrays of records there is no path.
pub fn member(dtype: &DType, path: &str) -> Option<Found> {
    let DType::Record(record) = dtype else { return None };
    let mut before = 0;
    for m in &record.members {
        let elements: u64 = m.shape.iter().product();
        let per_element = if matches!(m.dtype, DType::Record(_)) { elements as usize } else { 1 };
        let leaf_count = m.dtype.leaves().len() * per_element;
        if m.name == path {
            return Some(Found {
                dtype: m.dtype.clone(),
                shape: m.shape.clone(),
                offset: m.offset,
                size: u32::try_from(elements.checked_mul(u64::from(m.dtype.item_size()))?).ok()?,
                first_leaf: before,
                leaf_count,
            });
        }
        if let Some(rest) = path.strip_prefix(&m.name).and_then(|r| r.strip_prefix('.'))
            && m.shape.is_empty()
            && let Some(mut inner) = member(&m.dtype, rest)
        {
            inner.offset += m.offset;
            inner.first_leaf += before;
            return Some(inner);
        }
        before += leaf_count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_format::dtype::{Member, Record, Scalar};

    #[test]
    fn nested_members_are_found_with_their_leaves() {
        let f4 = DType::Scalar(Scalar::F32);
        let m = |name: &str, dtype: &DType, shape: Vec<u64>, offset| Member {
            name: name.into(),
            dtype: dtype.clone(),
            shape,
            offset,
        };
        let inner = DType::Record(Record {
            itemsize: 8,
            members: vec![m("x", &f4, vec![], 0), m("y", &f4, vec![], 4)],
        });
        let outer = DType::Record(Record {
            itemsize: 36,
            members: vec![
                m("id", &f4, vec![], 0),
                m("p", &inner, vec![2], 4),
                m("v", &inner, vec![], 20),
                m("t", &f4, vec![2], 28),
            ],
        });
        let leaves = outer.leaves();
        for path in ["id", "v", "v.y", "t", "p"] {
            let found = member(&outer, path).unwrap();
            let mine = &leaves[found.first_leaf..found.first_leaf + found.leaf_count];
            assert_eq!(mine[0].offset, found.offset, "{path}");
            assert_eq!(mine.iter().map(|l| l.size).sum::<u32>(), found.size, "{path}");
        }
        assert!(member(&outer, "p.x").is_none());
        assert!(member(&outer, "w").is_none());
    }
}
