//! Members of records by path ("velocity.x"), and parts of array members ("velocity\[2\]", "cell\[0\].t\[1:3\]").
//!
//! A path leads to whole leaf members. If it ends in an index of an array of numbers, it leads to some elements of a
//! leaf.

use drystone_format::dtype::{DType, Leaf, Member};
use drystone_format::meaning::Meaning;

use crate::Error;

/// A member found by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMember {
    /// Its element type.
    pub dtype: DType,
    /// Shape of its elements per record element; empty for a single one.
    pub shape: Vec<u64>,
    /// Bytes from the beginning of the record to the first element.
    pub offset: u32,
    /// Bytes of the elements, which are adjacent.
    pub size: u32,
    /// Names of the enclosing members, outermost first.
    pub(crate) names: Vec<String>,
    /// The columns in which it is stored.
    pub(crate) columns: Vec<Column>,
}

impl FoundMember {
    /// The meaning of its elements, given the meaning of the record.
    pub fn meaning<'a>(&self, whole: Option<&'a Meaning>) -> Option<&'a Meaning> {
        whole?.of_member(self.names.iter().map(String::as_str))
    }
}

/// A leaf member, or a run of elements of a leaf that is an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The number of the leaf in the type.
    pub(crate) number: u32,
    /// The elements: `repeat` and `size` describe them, `offset` is their offset in the element that is read or put.
    pub(crate) leaf: Leaf,
    /// Bytes of the leaf before these elements.
    pub(crate) from: u32,
    /// Bytes of the whole leaf.
    pub(crate) whole: u32,
}

impl Column {
    /// A whole leaf.
    pub(crate) fn of(number: usize, leaf: Leaf) -> Column {
        Column { number: number as u32, whole: leaf.size, from: 0, leaf }
    }

    /// Identifies the column among those of its variable: the leaf, the bytes of the leaf, and their offset in the
    /// element that is read or put.
    pub(crate) fn numbers(&self) -> [u32; 4] {
        [self.number, self.from, self.leaf.size, self.leaf.offset]
    }

    /// The column of a type with these numbers. `None` if the type has no such leaf, or the leaf no such elements.
    pub(crate) fn numbered(dtype: &DType, [number, from, size, offset]: [u32; 4]) -> Option<Column> {
        let leaf = dtype.leaves().into_iter().nth(number as usize)?;
        let whole = Column::of(number as usize, leaf);
        let element = u64::from(whole.whole) / whole.leaf.repeat.max(1);
        let end = from.checked_add(size).filter(|end| size > 0 && *end <= whole.whole)?;
        let elements = element > 0 && u64::from(from) % element == 0 && u64::from(size) % element == 0;
        let mut column = elements.then(|| whole.narrowed(from..end))?;
        column.leaf.offset = offset;
        Some(column)
    }

    /// All leaves of a type.
    pub(crate) fn all(dtype: &DType) -> Vec<Column> {
        dtype.leaves().into_iter().enumerate().map(|(n, leaf)| Column::of(n, leaf)).collect()
    }

    /// Whether it is a part of a leaf.
    pub(crate) fn is_part(&self) -> bool {
        self.leaf.size != self.whole
    }

    /// Its bytes within the leaf.
    pub(crate) fn range(&self) -> std::ops::Range<u32> {
        self.from..self.from.saturating_add(self.leaf.size)
    }

    /// The part of the column with the bytes `range` of the leaf.
    pub(crate) fn narrowed(&self, range: std::ops::Range<u32>) -> Column {
        let mut part = self.clone();
        let element = u64::from(self.leaf.size) / self.leaf.repeat.max(1);
        part.leaf.offset += range.start - self.from;
        part.leaf.size = range.end - range.start;
        part.leaf.repeat = u64::from(part.leaf.size) / element.max(1);
        part.from = range.start;
        part
    }
}

/// The member of a record at a path: names joined by dots, with an index after each array of records (`cell[2].x`).
/// The last name may also have slices (`v[0:2, 1]`). Indices count from 0.
pub fn member(dtype: &DType, path: &str) -> Option<FoundMember> {
    let mut found = find(dtype, path)?;
    let leaves = dtype.leaves();
    for column in &mut found.columns {
        column.leaf.path.clone_from(&leaves.get(column.number as usize)?.path);
    }
    Some(found)
}

fn find(dtype: &DType, path: &str) -> Option<FoundMember> {
    let DType::Record(record) = dtype else { return None };
    let mut before = 0;
    let mut candidates = Vec::new();
    for m in &record.members {
        if let Some(rest) = path.strip_prefix(&m.name) {
            candidates.push((rest.len(), m, before));
        }
        let records = if matches!(m.dtype, DType::Record(_)) { m.shape.iter().product::<u64>() } else { 1 };
        before += m.dtype.leaves().len() * usize::try_from(records).ok()?;
    }
    // A member whose own name looks like a longer path takes precedence over a part of another member.
    candidates.sort_by_key(|(rest, ..)| *rest);
    candidates.into_iter().find_map(|(rest, m, first)| within(m, &path[path.len() - rest..], first))
}

/// The member that the `rest` of a path selects in `m`, whose first leaf has the number `first`.
fn within(m: &Member, rest: &str, first: usize) -> Option<FoundMember> {
    let (index, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']').map(|(index, rest)| (Some(index), rest))?,
        None => (None, rest),
    };
    let (shape, elements) = match index {
        Some(index) => picked(index, &m.shape)?,
        None => (m.shape.clone(), (0..m.shape.iter().product()).collect()),
    };
    let item = m.dtype.item_size();
    let at = |element: u64| u32::try_from(element.checked_mul(item.into())?).ok();
    if let Some(inner) = rest.strip_prefix('.') {
        let (&[element], []) = (&elements[..], &shape[..]) else { return None };
        let mut found = find(&m.dtype, inner)?;
        found.offset = found.offset.checked_add(m.offset)?.checked_add(at(element)?)?;
        let skipped = first + m.dtype.leaves().len() * element as usize;
        found.columns.iter_mut().for_each(|c| c.number += skipped as u32);
        found.names.insert(0, m.name.clone());
        return Some(found);
    }
    if !rest.is_empty() {
        return None;
    }
    let mut columns: Vec<Column> = Vec::new();
    for (n, &element) in elements.iter().enumerate() {
        let place = at(n as u64)?;
        if let DType::Record(_) = m.dtype {
            for (i, mut leaf) in m.dtype.leaves().into_iter().enumerate() {
                leaf.offset += place;
                columns.push(Column::of(first + m.dtype.leaves().len() * element as usize + i, leaf));
            }
            continue;
        }
        let from = at(element)?;
        match columns.last_mut() {
            Some(run) if run.range().end == from => {
                run.leaf.size += item;
                run.leaf.repeat += 1;
            }
            _ => {
                let leaf = Leaf {
                    path: String::new(),
                    dtype: m.dtype.clone(),
                    repeat: 1,
                    offset: place,
                    size: item,
                };
                let whole = at(m.shape.iter().product())?;
                columns.push(Column { number: first as u32, leaf, from, whole });
            }
        }
    }
    Some(FoundMember {
        dtype: m.dtype.clone(),
        shape,
        offset: m.offset.checked_add(at(*elements.first()?)?)?,
        size: at(elements.len() as u64)?,
        names: vec![m.name.clone()],
        columns,
    })
}

/// The shape that an index such as `1, 0:2` selects from an array, and the numbers of the selected elements, row by
/// row. Axes without an index are taken whole.
fn picked(index: &str, shape: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let mut left = shape.iter();
    let (mut kept, mut elements) = (Vec::new(), vec![0u64]);
    let mut take = |n: u64, range: std::ops::Range<u64>| {
        elements = elements.iter().flat_map(|e| range.clone().map(move |i| e * n + i)).collect();
    };
    for one in index.split(',') {
        let n = *left.next()?;
        let range = match one.split_once(':') {
            None => number(one).map(|i| i..i + 1)?,
            Some((from, to)) => {
                let from = if from.trim().is_empty() { 0 } else { number(from)? };
                let to = if to.trim().is_empty() { n } else { number(to)? };
                kept.push(to.checked_sub(from)?);
                from..to
            }
        };
        if range.start >= range.end || range.end > n {
            return None;
        }
        take(n, range);
    }
    for &n in left {
        kept.push(n);
        take(n, 0..n);
    }
    Some((kept, elements))
}

/// The error for a variable without the requested member. It lists the members that exist.
pub(crate) fn no_member(dtype: &DType, path: &str, field: &str) -> Error {
    let leaves = dtype.leaves();
    let known: Vec<&str> = leaves.iter().map(|l| l.path.as_str()).collect();
    Error::not_found(match dtype {
        DType::Record(_) => format!("\"{path}\" has no member \"{field}\"; it has: {}", known.join(", ")),
        _ => format!("\"{path}\" has no member \"{field}\": it is not a record, but {dtype}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drystone_format::dtype::{Record, Scalar};

    fn outer() -> DType {
        let f4 = DType::Scalar(Scalar::F32);
        let m = |name: &str, dtype: &DType, shape: Vec<u64>, offset| Member {
            name: name.into(),
            dtype: dtype.clone(),
            shape,
            offset,
        };
        let inner = DType::Record(Record {
            itemsize: 12,
            members: vec![m("x", &f4, vec![], 0), m("y", &f4, vec![2], 4)],
        });
        DType::Record(Record {
            itemsize: 76,
            members: vec![
                m("id", &f4, vec![], 0),
                m("p", &inner, vec![2], 4),
                m("v", &inner, vec![], 28),
                m("t", &f4, vec![3, 2], 40),
                m("t[1]", &f4, vec![], 64),
            ],
        })
    }

    #[test]
    fn nested_members_are_found_with_their_leaves() {
        let outer = outer();
        let leaves = outer.leaves();
        for (path, numbers) in [
            ("id", &[0][..]),
            ("v", &[5, 6]),
            ("v.y", &[6]),
            ("t", &[7]),
            ("p", &[1, 2, 3, 4]),
            ("p[1].y", &[4]),
        ] {
            let found = member(&outer, path).unwrap();
            let mine: Vec<usize> = found.columns.iter().map(|c| c.number as usize).collect();
            assert_eq!(mine, numbers, "{path}");
            for column in &found.columns {
                let leaf = &leaves[column.number as usize];
                assert_eq!(leaf.offset, found.offset + column.leaf.offset, "{path}");
                assert_eq!((&leaf.path, leaf.size), (&column.leaf.path, column.leaf.size), "{path}");
                assert!(!column.is_part());
            }
        }
    }

    #[test]
    fn a_part_of_an_array_is_runs_of_its_elements() {
        let outer = outer();
        for (path, shape, offset, runs) in [
            ("t[1, 0]", &[][..], 48, &[(8, 0, 4)][..]),
            ("t[0]", &[2], 40, &[(0, 0, 8)]),
            ("t[0:2]", &[2, 2], 40, &[(0, 0, 16)]),
            ("t[:, 1]", &[3], 44, &[(4, 0, 4), (12, 4, 4), (20, 8, 4)]),
            ("t[1:, 1:2]", &[2, 1], 52, &[(12, 0, 4), (20, 4, 4)]),
            ("v.y[1]", &[], 36, &[(4, 0, 4)]),
            ("p[1].y[0:1]", &[1], 20, &[(0, 0, 4)]),
        ] {
            let found = member(&outer, path).unwrap();
            let mine: Vec<_> = found.columns.iter().map(|c| (c.from, c.leaf.offset, c.leaf.size)).collect();
            assert_eq!((&found.shape[..], found.offset, &mine[..]), (shape, offset, runs), "{path}");
            assert!(found.columns.iter().all(Column::is_part), "{path}");
        }
        assert_eq!(member(&outer, "p[1:2]").unwrap().columns.len(), 2);
        assert_eq!(member(&outer, "t[1]").unwrap().offset, 64, "this is a member of that name");
    }

    #[test]
    fn paths_that_lead_nowhere_are_not_found() {
        let outer = outer();
        for path in [
            "p.x",
            "p[0:1].x",
            "p[2].x",
            "w",
            "t[3]",
            "t[0, 0, 0]",
            "t[2:1]",
            "t[-1]",
            "t[1",
            "t]",
            "id[0]",
            "v.",
            "t[0]x",
            "",
        ] {
            assert!(member(&outer, path).is_none(), "{path}");
        }
    }
}
