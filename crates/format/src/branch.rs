//! Branch pages of the index tree (docs/format/block-index.md).

use crate::cbor::{Sink, Source};
use crate::column::set;
use crate::cursor::Reader;
use crate::entry::{Entry, key_cmp, z_cmp};
use crate::{Corrupt, MAX_NDIM, column};

/// Location of a page: page file, offset of its frame, payload length and payload CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub struct PageRef {
    pub file: u64,
    pub offset: u64,
    pub length: u32,
    pub crc: u32,
}

/// One child of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Child {
    /// (step, variable, member) of the first key in the child.
    pub first: (u64, u32, u32),
    /// Offset in the first key.
    pub first_offset: [u64; MAX_NDIM],
    /// Lower bounds of the box that contains all boxes in the child.
    pub last: (u64, u32, u32),
    /// Bounding box of all boxes in the child, `hi` exclusive.
    pub lo: [u64; MAX_NDIM],
    /// Upper bounds of that box, exclusive.
    pub hi: [u64; MAX_NDIM],
    /// Number of entries below.
    pub entries: u64,
    /// Greatest commit below.
    pub commit: u64,
    /// The child's page.
    pub page: PageRef,
}

/// A branch page: `height` 1 means the children are leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Branch {
    pub height: u8,
    pub children: Vec<Child>,
}

/// Most children of one branch.
pub const MAX_CHILDREN: usize = 256;

/// Greatest height of the tree; a branch of height 1 has leaves below it.
pub const MAX_HEIGHT: u8 = 16;

impl PageRef {
    pub(crate) fn write(&self, out: &mut Sink) {
        out.array(4).u64(self.file).u64(self.offset).u64(self.length.into()).u64(self.crc.into());
    }

    pub(crate) fn read(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        source.tuple(4)?;
        Self::read_fields(source)
    }

    pub(crate) fn read_fields(source: &mut Source<'_>) -> Result<Self, Corrupt> {
        Ok(PageRef { file: source.u64()?, offset: source.u64()?, length: source.u32()?, crc: source.u32()? })
    }
}

impl Child {
    /// The child that is a leaf page with these entries, in any order. A leaf has at least one.
    pub fn of_entries(entries: &[Entry], page: PageRef) -> Child {
        let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
        for entry in entries {
            let end = entry.end();
            lo = std::array::from_fn(|d| lo[d].min(entry.offset[d]));
            hi = std::array::from_fn(|d| hi[d].max(end[d]));
        }
        let key = |e: &Entry| (e.step, e.variable, e.member);
        let first = entries.iter().min_by(|a, b| key_cmp(a, b));
        let last = entries.iter().map(key).max();
        Child {
            first: first.map(key).unwrap_or_default(),
            first_offset: first.map(|e| e.offset).unwrap_or_default(),
            last: last.unwrap_or_default(),
            lo: if entries.is_empty() { hi } else { lo },
            hi,
            entries: entries.len() as u64,
            commit: entries.iter().map(|e| e.commit).max().unwrap_or(0),
            page,
        }
    }

    /// The child that is this branch. A branch has at least one child.
    pub fn of_branch(branch: &Branch, page: PageRef) -> Child {
        let mut children = branch.children.iter();
        let Some(first) = children.next() else { return Child { page, ..Child::default() } };
        let mut whole = Child { page, ..first.clone() };
        for child in children {
            whole.last = whole.last.max(child.last);
            whole.lo = std::array::from_fn(|d| whole.lo[d].min(child.lo[d]));
            whole.hi = std::array::from_fn(|d| whole.hi[d].max(child.hi[d]));
            whole.entries = whole.entries.saturating_add(child.entries);
            whole.commit = whole.commit.max(child.commit);
        }
        whole
    }
}

impl Branch {
    /// The bytes of a branch block.
    ///
    /// # Panics
    /// With more than [`MAX_CHILDREN`] children.
    pub fn encode(&self) -> Vec<u8> {
        let children = &self.children;
        assert!(children.len() <= MAX_CHILDREN, "a branch has at most {MAX_CHILDREN} children");
        let used = |d: &usize| children.iter().any(|c| (c.first_offset[*d], c.lo[*d], c.hi[*d]) != (0, 0, 0));
        let dims = (0..MAX_NDIM).rev().find(used).map_or(0, |d| d + 1);
        let mut out = Vec::new();
        out.extend_from_slice(&(children.len() as u32).to_le_bytes());
        out.extend_from_slice(&[dims as u8, self.height, 0, 0]);
        column::write(&mut out, children, |c| c.first.0);
        column::write(&mut out, children, |c| c.first.1.into());
        column::write(&mut out, children, |c| c.first.2.into());
        for d in 0..dims {
            column::write(&mut out, children, |c| c.first_offset[d]);
        }
        column::write(&mut out, children, |c| c.last.0);
        column::write(&mut out, children, |c| c.last.1.into());
        column::write(&mut out, children, |c| c.last.2.into());
        for d in 0..dims {
            column::write(&mut out, children, |c| c.lo[d]);
        }
        for d in 0..dims {
            column::write(&mut out, children, |c| c.hi[d]);
        }
        column::write(&mut out, children, |c| c.entries);
        column::write(&mut out, children, |c| c.commit);
        column::write(&mut out, children, |c| c.page.file);
        column::write(&mut out, children, |c| c.page.offset);
        column::write(&mut out, children, |c| c.page.length.into());
        column::write(&mut out, children, |c| c.page.crc.into());
        out
    }

    /// Decodes a branch block: at least one child, in key order, with lower bounds not above upper bounds.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let r = &mut Reader::new(bytes);
        let n = r.u32()? as usize;
        let (dims, height, reserved) = (usize::from(r.u8()?), r.u8()?, r.u16()?);
        if n == 0 || n > MAX_CHILDREN || dims > MAX_NDIM || reserved != 0 {
            return Err(Corrupt::new("impossible head of a branch", 0));
        }
        if height == 0 || height > MAX_HEIGHT {
            return Err(Corrupt::new(format!("a branch of height {height}"), 5));
        }
        let mut children = vec![Child::default(); n];
        let items = children.as_mut_slice();
        column::read(r, items, "first step", |c, v| set(&mut c.first.0, v))?;
        column::read(r, items, "first variable", |c, v| set(&mut c.first.1, v))?;
        column::read(r, items, "first member", |c, v| set(&mut c.first.2, v))?;
        for d in 0..dims {
            column::read(r, items, "first offset", |c, v| set(&mut c.first_offset[d], v))?;
        }
        column::read(r, items, "last step", |c, v| set(&mut c.last.0, v))?;
        column::read(r, items, "last variable", |c, v| set(&mut c.last.1, v))?;
        column::read(r, items, "last member", |c, v| set(&mut c.last.2, v))?;
        for d in 0..dims {
            column::read(r, items, "lo", |c, v| set(&mut c.lo[d], v))?;
        }
        for d in 0..dims {
            column::read(r, items, "hi", |c, v| set(&mut c.hi[d], v).filter(|()| c.lo[d] <= v))?;
        }
        column::read(r, items, "entries", |c, v| set(&mut c.entries, v).filter(|()| v > 0))?;
        column::read(r, items, "commit", |c, v| set(&mut c.commit, v))?;
        column::read(r, items, "page file", |c, v| set(&mut c.page.file, v))?;
        column::read(r, items, "page offset", |c, v| set(&mut c.page.offset, v))?;
        column::read(r, items, "page length", |c, v| set(&mut c.page.length, v))?;
        column::read(r, items, "page crc", |c, v| set(&mut c.page.crc, v))?;
        r.end()?;
        let follows = |a: &Child, b: &Child| {
            a.last <= b.first
                && a.first.cmp(&b.first).then_with(|| z_cmp(&a.first_offset, &b.first_offset)).is_le()
        };
        if !children.iter().all(|c| c.first <= c.last) || !children.is_sorted_by(follows) {
            return Err(r.corrupt("children of a branch are not in key order"));
        }
        Ok(Branch { height, children })
    }
}
