//! Orders of entries (docs/format/index.md), and what a branch says about its children.

use std::cmp::Ordering;

use drystone_format::MAX_NDIM;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::entry::Entry;

pub(crate) fn z_cmp(a: &[u64; MAX_NDIM], b: &[u64; MAX_NDIM]) -> Ordering {
    let (mut decisive, mut greatest) = (0, 0u64);
    for (d, (x, y)) in a.iter().zip(b).enumerate() {
        let differing = x ^ y;
        if greatest < differing && greatest < (greatest ^ differing) {
            (decisive, greatest) = (d, differing);
        }
    }
    a[decisive].cmp(&b[decisive])
}

fn triple(entry: &Entry) -> (u64, u32, u32) {
    (entry.step, entry.variable, entry.member)
}

pub(crate) fn newest_cmp(a: &Entry, b: &Entry) -> Ordering {
    (a.commit, a.order, a.put).cmp(&(b.commit, b.order, b.put))
}

pub(crate) fn key_cmp(a: &Entry, b: &Entry) -> Ordering {
    triple(a).cmp(&triple(b)).then_with(|| z_cmp(&a.offset, &b.offset)).then_with(|| newest_cmp(a, b))
}

pub(crate) fn leaf_cmp(a: &Entry, b: &Entry) -> Ordering {
    triple(a).cmp(&triple(b)).then_with(|| a.offset.cmp(&b.offset)).then_with(|| newest_cmp(a, b))
}

pub(crate) fn child_of_entries(entries: &[Entry], page: PageRef) -> Option<Child> {
    let first = entries.iter().min_by(|a, b| key_cmp(a, b))?;
    let last = entries.iter().max_by(|a, b| key_cmp(a, b))?;
    let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
    for entry in entries {
        for d in 0..MAX_NDIM {
            lo[d] = lo[d].min(entry.offset[d]);
            hi[d] = hi[d].max(entry.offset[d].saturating_add(entry.count[d]));
        }
    }
    Some(Child {
        first: triple(first),
        first_offset: first.offset,
        last: triple(last),
        lo,
        hi,
        entries: entries.len() as u64,
        commit: entries.iter().map(|e| e.commit).max()?,
        page,
    })
}

pub(crate) fn child_of_branch(branch: &Branch, page: PageRef) -> Option<Child> {
    let (first, last) = (branch.children.first()?, branch.children.last()?);
    let mut child = Child { last: last.last, entries: 0, page, ..first.clone() };
    for below in &branch.children {
        for d in 0..MAX_NDIM {
            child.lo[d] = child.lo[d].min(below.lo[d]);
            child.hi[d] = child.hi[d].max(below.hi[d]);
        }
        child.entries = child.entries.saturating_add(below.entries);
        child.commit = child.commit.max(below.commit);
    }
    Some(child)
}
