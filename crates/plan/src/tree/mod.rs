//! The persistent index tree: answers "which stored blocks meet this box, in these steps?"
//!
//! Why a tree: a restart file can hold millions of blocks and readers ask for thin slabs. Entries are ordered
//! by step, variable, member and Z-order of their offset (docs/format/block-index.md), so that both a slab
//! and a step touch few pages, and new steps are appended at the right edge. Pages are never changed:
//! [`insert`] emits new ones along the paths it touches.
//!
//! Invariants
//! - the first key of a child is not above any key in it, its last key not below any, its box holds all boxes in it;
//! - heights fall by one from a branch to its children, so no chain of references is longer than the root's height;
//! - every count of entries equals the number found below it, or the page that disagrees is refused.

mod insert;
mod leaf;
mod new_entries;
mod prune;
mod steps;
#[cfg(test)]
mod tests;

pub use insert::{BRANCH_FANOUT, LEAF_CAPACITY, insert};
pub use leaf::Leaf;
pub use new_entries::{InOrder, NewEntries};
pub use prune::{each_page, prune};
pub use steps::key_steps;

use std::sync::Arc;

use drystone_format::MAX_NDIM;
use drystone_format::branch::{Branch, Child, MAX_HEIGHT, PageRef};
use drystone_format::entry::{Entry, leaf_cmp, z_cmp};
use drystone_format::manifest::Root;

/// A source of pages. An implementation reads, verifies and decodes a page, and may cache it.
pub trait Pages {
    /// The error of a failed load.
    type Error;
    /// The branch at a reference.
    fn branch(&self, page: &PageRef) -> Result<Arc<Branch>, Self::Error>;
    /// The leaf at a reference.
    fn leaf(&self, page: &PageRef) -> Result<Arc<Leaf>, Self::Error>;
    /// Announces that these pages will be loaded soon, one after the other, so they may be prefetched together.
    fn expect(&self, pages: &[&PageRef]);
    /// The error for a page that was read, but contradicts the page that refers to it.
    fn invalid(&self, page: &PageRef, what: String) -> Self::Error;
}

/// A sink of new pages: encodes a page and returns where it will be stored.
pub trait Emit {
    /// A leaf of entries in leaf order.
    fn leaf(&mut self, entries: Vec<Entry>) -> PageRef;
    /// A branch whose children were emitted before or exist already.
    fn branch(&mut self, branch: Branch) -> PageRef;
    /// Reports a page of the old tree that is not part of the new one.
    fn replaces(&mut self, page: &PageRef);
}

/// Key steps (step + 1; 0 is the content without step) `first, first + stride, …`, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StepSet {
    pub first: u64,
    pub count: u64,
    pub stride: u64,
}

impl StepSet {
    /// Every step, and entries without one.
    pub const ALL: StepSet = StepSet { first: 0, count: u64::MAX, stride: 1 };

    /// One key step.
    pub fn one(key_step: u64) -> StepSet {
        StepSet { first: key_step, count: 1, stride: 1 }
    }

    /// The greatest member; `None` if there is none.
    pub fn last(&self) -> Option<u64> {
        let more = self.count.checked_sub(1)?;
        Some(self.first.saturating_add(more.saturating_mul(self.stride)))
    }

    /// Whether a key step belongs to the set.
    pub fn contains(&self, key_step: u64) -> bool {
        self.meets(key_step, key_step)
    }

    /// Whether a member lies in `lo..=hi`.
    pub fn meets(&self, lo: u64, hi: u64) -> bool {
        let Some(last) = self.last() else { return false };
        let Some(ahead) = lo.checked_sub(self.first) else { return lo <= hi && hi >= self.first };
        let next = ahead.div_ceil(self.stride.max(1)).checked_mul(self.stride.max(1));
        next.and_then(|next| self.first.checked_add(next)).is_some_and(|next| next <= hi && next <= last)
    }
}

/// Pages below one that are prefetched before they are loaded: more than devices read at once.
const TOGETHER: usize = 32;

/// What [`find`] looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Which key steps.
    pub steps: StepSet,
    /// Which variable.
    pub variable: u32,
    /// One leaf member, or all.
    pub member: Option<u32>,
    /// Only blocks that have a cell in `lo..hi`. Dimensions with `lo >= hi` are ignored: a
    /// [`Selection`](crate::selection::Selection) leaves those it does not have at zero. `None` finds blocks
    /// without cells too.
    pub bounds: Option<([u64; MAX_NDIM], [u64; MAX_NDIM])>,
}

type Key = (u64, u32, u32);

impl Query {
    fn least(&self) -> Key {
        (self.steps.first, self.variable, self.member.unwrap_or(0))
    }

    fn greatest(&self) -> Option<Key> {
        Some((self.steps.last()?, self.variable, self.member.unwrap_or(u32::MAX)))
    }

    /// Whether a child with these first and last keys can hold a wanted key.
    fn key_between(&self, first: Key, last: Key) -> bool {
        let above_first = (self.variable, self.member.unwrap_or(u32::MAX)) >= (first.1, first.2);
        let below_last = (self.variable, self.member.unwrap_or(0)) <= (last.1, last.2);
        if first.0 == last.0 {
            return self.steps.contains(first.0) && above_first && below_last;
        }
        (above_first && self.steps.contains(first.0))
            || (below_last && self.steps.contains(last.0))
            || (last.0 - first.0 > 1 && self.steps.meets(first.0 + 1, last.0 - 1))
    }

    fn meets_box(&self, lo: &[u64], hi: &[u64]) -> bool {
        let Some((from, to)) = &self.bounds else { return true };
        let mut each = lo.iter().zip(hi).zip(from.iter().zip(to));
        each.all(|((lo, hi), (from, to))| from >= to || (lo < to && from < hi))
    }

    fn meets_child(&self, child: &Child) -> bool {
        self.key_between(child.first, child.last) && self.meets_box(&child.lo, &child.hi)
    }

    fn meets_entry(&self, entry: &Entry) -> bool {
        if !(entry.variable == self.variable
            && self.member.is_none_or(|member| member == entry.member)
            && self.steps.contains(entry.step))
        {
            return false;
        }
        if self.bounds.is_none() {
            return true;
        }
        let ndim = usize::from(entry.ndim).min(MAX_NDIM);
        let end = entry.end();
        !entry.count[..ndim].contains(&0) && self.meets_box(&entry.offset[..ndim], &end[..ndim])
    }
}

fn key(entry: &Entry) -> Key {
    (entry.step, entry.variable, entry.member)
}

/// A page, with its description in its parent or in the manifest.
#[derive(Clone, Copy)]
struct PageNode<'a> {
    page: &'a PageRef,
    height: u8,
    entries: u64,
}

impl<'a> PageNode<'a> {
    fn root<P: Pages>(pages: &P, root: &'a Root) -> Result<Self, P::Error> {
        if root.height > MAX_HEIGHT {
            let what = format!("the index is {} pages high, at most {MAX_HEIGHT} are allowed", root.height);
            return Err(pages.invalid(&root.page, what));
        }
        Ok(PageNode { page: &root.page, height: root.height, entries: root.entries })
    }

    /// The node of a child. The caller has seen a branch of height `self.height`, which is at least 1.
    fn below(&self, child: &'a Child) -> PageNode<'a> {
        PageNode { page: &child.page, height: self.height.saturating_sub(1), entries: child.entries }
    }

    fn leaf<P: Pages>(&self, pages: &P) -> Result<Arc<Leaf>, P::Error> {
        let leaf = pages.leaf(self.page)?;
        if leaf.len() as u64 != self.entries {
            let what = format!("a leaf has {} entries where {} are announced", leaf.len(), self.entries);
            return Err(pages.invalid(self.page, what));
        }
        Ok(leaf)
    }

    fn branch<P: Pages>(&self, pages: &P) -> Result<Arc<Branch>, P::Error> {
        let branch = pages.branch(self.page)?;
        if branch.height != self.height {
            let what = format!("a branch has height {} where {} is announced", branch.height, self.height);
            return Err(pages.invalid(self.page, what));
        }
        let below = branch.children.iter().try_fold(0u64, |sum, child| sum.checked_add(child.entries));
        if below != Some(self.entries) || branch.children.is_empty() {
            let what =
                format!("a branch has {below:?} entries below it where {} are announced", self.entries);
            return Err(pages.invalid(self.page, what));
        }
        Ok(branch)
    }
}

impl PageNode<'_> {
    /// The branch, if it matches its description in its parent.
    fn checked_branch<P: Pages>(&self, pages: &P, said: Option<&Child>) -> Result<Arc<Branch>, P::Error> {
        let branch = self.branch(pages)?;
        let sorted = branch.children.is_sorted_by(|a, b| a.first <= b.first && a.last <= b.last);
        let held = said.is_none_or(|parent| branch.children.iter().all(|child| holds_child(parent, child)));
        if !sorted || !held {
            return Err(pages.invalid(self.page, "a branch is not what its parent says".into()));
        }
        Ok(branch)
    }
}

/// Visits every entry that answers the query, in leaf order within a leaf and in key order of leaves. Loads
/// only the pages whose keys and boxes may hold an answer.
pub fn find<P: Pages>(
    pages: &P,
    root: &Root,
    query: &Query,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), P::Error> {
    let Some(greatest) = query.greatest() else { return Ok(()) };
    find_below(pages, PageNode::root(pages, root)?, query, greatest, visit)
}

fn find_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    query: &Query,
    greatest: Key,
    visit: &mut dyn FnMut(Entry),
) -> Result<(), P::Error> {
    if place.height == 0 {
        place.leaf(pages)?.find(query, visit);
        return Ok(());
    }
    let least = query.least();
    let branch = place.branch(pages)?;
    let from = branch.children.partition_point(|child| child.last < least);
    let between = branch.children.iter().skip(from).take_while(|child| child.first <= greatest);
    let wanted: Vec<&Child> = between.filter(|child| query.meets_child(child)).collect();
    for together in wanted.chunks(TOGETHER) {
        pages.expect(&together.iter().map(|child| &child.page).collect::<Vec<_>>());
        for child in together {
            find_below(pages, place.below(child), query, greatest, visit)?;
        }
    }
    Ok(())
}

/// Visits every entry of the index.
pub fn entries<P: Pages>(pages: &P, root: &Root, visit: &mut dyn FnMut(&Entry)) -> Result<(), P::Error> {
    walk_below(pages, PageNode::root(pages, root)?, None, &mut |_, _| {}, visit)
}

/// Visits every reachable entry, and reports each page that cannot be read or does not match its reference.
/// For `verify`: one damaged page hides only what is below it.
pub fn audit<P: Pages>(
    pages: &P,
    root: &Root,
    visit: &mut dyn FnMut(&Entry),
    damaged: &mut dyn FnMut(P::Error),
) {
    match PageNode::root(pages, root) {
        Ok(place) => audit_below(pages, place, None, visit, damaged),
        Err(error) => damaged(error),
    }
}

fn audit_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    said: Option<&Child>,
    visit: &mut dyn FnMut(&Entry),
    damaged: &mut dyn FnMut(P::Error),
) {
    if place.height == 0 {
        if let Err(error) = walk_below(pages, place, said, &mut |_, _| {}, visit) {
            damaged(error);
        }
        return;
    }
    match place.checked_branch(pages, said) {
        Ok(branch) => branch
            .children
            .iter()
            .for_each(|child| audit_below(pages, place.below(child), Some(child), visit, damaged)),
        Err(error) => damaged(error),
    }
}

/// Visits every page of the index with its height, parents first, and checks everything that a branch says
/// about its children. For `verify`.
pub fn walk<P: Pages>(
    pages: &P,
    root: &Root,
    visit_page: &mut dyn FnMut(&PageRef, u8),
) -> Result<(), P::Error> {
    walk_below(pages, PageNode::root(pages, root)?, None, visit_page, &mut |_| {})
}

fn walk_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    said: Option<&Child>,
    visit_page: &mut dyn FnMut(&PageRef, u8),
    visit: &mut dyn FnMut(&Entry),
) -> Result<(), P::Error> {
    visit_page(place.page, place.height);
    if place.height == 0 {
        let leaf = place.leaf(pages)?;
        let leaf = leaf.entries();
        let sorted = leaf.is_sorted_by(|a, b| leaf_cmp(a, b).is_le());
        if !sorted || !said.is_none_or(|child| leaf.iter().all(|entry| holds_entry(child, entry))) {
            return Err(pages.invalid(place.page, "a leaf is not what its parent says".into()));
        }
        leaf.iter().for_each(visit);
        return Ok(());
    }
    let branch = place.checked_branch(pages, said)?;
    branch
        .children
        .iter()
        .try_for_each(|child| walk_below(pages, place.below(child), Some(child), visit_page, visit))
}

fn holds_entry(parent: &Child, entry: &Entry) -> bool {
    let ndim = usize::from(entry.ndim).min(MAX_NDIM);
    let empty = entry.count[..ndim].contains(&0);
    let inside = |d: usize| {
        let end = entry.offset[d].checked_add(entry.count[d]);
        parent.lo[d] <= entry.offset[d] && end.is_some_and(|end| end <= parent.hi[d])
    };
    let first = parent.first.cmp(&key(entry));
    parent.last >= key(entry)
        && first.then_with(|| z_cmp(&parent.first_offset, &entry.offset)).is_le()
        && parent.commit >= entry.commit
        && (empty || (0..ndim).all(inside))
}

fn holds_child(parent: &Child, child: &Child) -> bool {
    parent.first <= child.first
        && parent.last >= child.last
        && parent.commit >= child.commit
        && (0..MAX_NDIM).all(|d| parent.lo[d] <= child.lo[d] && parent.hi[d] >= child.hi[d])
}
