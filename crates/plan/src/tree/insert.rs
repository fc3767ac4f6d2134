//! Adding entries to the index: path copying, in bulk.
//!
//! One pass from left to right gives each leaf its new entries; only pages on the path to a changed leaf are emitted
//! again. A page that overflows at the right edge of the tree, because a later step was appended, stays full, and the
//! rest goes to a new page. Any other page is split evenly, so that both halves have space.
//!
//! Steps are appended one by one. Once the leaf at the right edge has [`TAIL`] entries it is left unchanged, and a new
//! leaf begins. A few such leaves are joined when they fill one. So a commit emits a quarter of a leaf rather than half
//! of one.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use drystone_format::branch::{Branch, Child, MAX_HEIGHT, PageRef};
use drystone_format::entry::{Encoding, Entry, key_cmp, leaf_cmp, z_cmp};
use drystone_format::manifest::Root;

use super::{Emit, InOrder, NewEntries, PageNode, Pages, key};

/// Most entries of a leaf.
pub const LEAF_CAPACITY: usize = 512;
/// A leaf at the right edge gets no entries of later steps once it has this many.
const TAIL: usize = LEAF_CAPACITY / 4;
/// With up to this many entries, pages that are not at the end of the tree are filled evenly.
const SPLIT: usize = 16 * LEAF_CAPACITY;
/// Most children of a branch.
pub const BRANCH_FANOUT: usize = 128;

/// Adds entries to an index (`None`: an empty one) and returns the new root; the old root stays valid. `None` is
/// returned only if there was no root and no entry. A child is emitted before its parent. Takes memory for the entries
/// of a few leaves.
pub fn insert<P: Pages>(
    pages: &P,
    root: Option<&Root>,
    entries: &NewEntries,
    emit: &mut dyn Emit,
) -> Result<Option<Root>, P::Error> {
    if entries.is_empty() {
        return Ok(root.copied());
    }
    let mut new = entries.in_order().peekable();
    let (mut level, mut height) = match root {
        None => (leaves_in_order(new.by_ref(), emit), 0),
        Some(root) => {
            let place = PageNode::root(pages, root)?;
            (insert_below(pages, place, &mut new, None, emit)?, root.height)
        }
    };
    // No entries follow a block that could not be decoded: the pages emitted so far are no valid index.
    let before: u64 = root.map_or(0, |root| root.entries);
    let after = level.iter().fold(0u64, |sum, child| sum.saturating_add(child.entries));
    if after != before.saturating_add(entries.len() as u64) {
        let page = level.first().map(|child| child.page).unwrap_or_default();
        return Err(pages.invalid(&page, format!("{after} entries, not {before} and {} more", entries.len())));
    }
    while level.len() > 1 {
        if height >= MAX_HEIGHT {
            let page = level.first().map(|child| child.page).unwrap_or_default();
            return Err(pages.invalid(&page, format!("the index would grow above {MAX_HEIGHT} pages")));
        }
        height += 1;
        level = branches(level, height, true, emit);
    }
    Ok(level.first().map(|child| Root { page: child.page, height, entries: child.entries }))
}

/// New entries in key order.
type Incoming<'a> = Peekable<InOrder<'a>>;

/// Replaces the page at `place` by pages of its height that also hold the new entries below `bound`.
fn insert_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    new: &mut Incoming<'_>,
    bound: Option<&Child>,
    emit: &mut dyn Emit,
) -> Result<Vec<Child>, P::Error> {
    if place.height == 0 {
        let old = place.leaf(pages)?;
        let old = old.entries();
        let greatest = old.iter().max_by(|a, b| key_cmp(a, b));
        let appended =
            bound.is_none() && greatest.zip(new.peek()).is_none_or(|(old, new)| key_cmp(old, new).is_le());
        if appended && old.len() >= TAIL {
            let mut level = vec![Child::of_entries(&old, *place.page)];
            level.extend(leaves_in_order(new, emit));
            return Ok(level);
        }
        emit.replaces(place.page);
        let here = std::iter::from_fn(|| new.next_if(|entry| falls_before(entry, bound)));
        let mut all = Merged::new(old.into_owned(), here);
        if appended {
            return Ok(leaves_in_order(&mut all, emit));
        }
        // An evenly split page has space in both halves. With very many entries, most pages are filled.
        let some: Vec<Entry> = all.by_ref().take(SPLIT).collect();
        let even = all.peek().is_none();
        let mut level = leaves(some, !even, emit);
        level.extend(leaves_in_order(&mut all, emit));
        return Ok(level);
    }
    let branch = place.branch(pages)?;
    emit.replaces(place.page);
    let mut children = Vec::with_capacity(branch.children.len() + 1);
    let mut appended = bound.is_none();
    let joined = if bound.is_none() { to_join(&branch) } else { branch.children.len() };
    let mut before = 0;
    for (number, child) in branch.children.iter().enumerate() {
        if number == joined {
            before = children.len();
        }
        let end = branch.children.get(number + 1).or(bound);
        let affected = new.peek().is_some_and(|entry| falls_before(entry, end));
        if affected && number >= joined {
            let mut old: Vec<Entry> = Vec::new();
            for child in &branch.children[joined..] {
                emit.replaces(&child.page);
                old.extend_from_slice(&place.below(child).leaf(pages)?.entries());
            }
            children.truncate(before);
            children.extend(leaves_in_order(&mut Merged::new(old, new), emit));
            break;
        }
        if affected {
            children.extend(insert_below(pages, place.below(child), new, end, emit)?);
            appended &= number + 1 == branch.children.len();
        } else {
            children.push(child.clone());
        }
    }
    Ok(branches(children, place.height, appended, emit))
}

/// Old and new entries, in key order. Where keys are equal, old entries come first.
struct Merged<I: Iterator<Item = Entry>> {
    old: Peekable<IntoIter<Entry>>,
    new: Peekable<I>,
}

impl<I: Iterator<Item = Entry>> Merged<I> {
    fn new(mut old: Vec<Entry>, new: I) -> Self {
        sort(&mut old, key_cmp);
        Merged { old: old.into_iter().peekable(), new: new.peekable() }
    }

    fn peek(&mut self) -> Option<&Entry> {
        self.old.peek().or_else(|| self.new.peek())
    }
}

impl<I: Iterator<Item = Entry>> Iterator for Merged<I> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        match (self.old.peek(), self.new.peek()) {
            (Some(old), Some(new)) if key_cmp(old, new).is_gt() => self.new.next(),
            (Some(_), _) => self.old.next(),
            _ => self.new.next(),
        }
    }
}

/// Index of the first of the leaves at the end of a branch that are to be joined; the number of children if there are
/// none.
fn to_join(branch: &Branch) -> usize {
    let all = branch.children.len();
    if branch.height != 1 {
        return all;
    }
    let small = |child: &&Child| child.entries < LEAF_CAPACITY as u64;
    let small: Vec<&Child> = branch.children.iter().rev().take_while(small).collect();
    let entries: u64 = small.iter().map(|child| child.entries).sum();
    if small.len() > 1 && entries >= LEAF_CAPACITY as u64 { all - small.len() } else { all }
}

fn falls_before(entry: &Entry, bound: Option<&Child>) -> bool {
    bound.is_none_or(|child| {
        key(entry).cmp(&child.first).then_with(|| z_cmp(&entry.offset, &child.first_offset)).is_lt()
    })
}

fn leaves(entries: Vec<Entry>, fill: bool, emit: &mut dyn Emit) -> Vec<Child> {
    if (1..=LEAF_CAPACITY).contains(&entries.len()) {
        return vec![leaf(entries, emit)];
    }
    let sizes = page_sizes(entries.len(), LEAF_CAPACITY, fill);
    let mut entries = entries.into_iter();
    sizes.map(|size| leaf(entries.by_ref().take(size).collect(), emit)).collect()
}

/// Full leaves of entries in key order.
fn leaves_in_order(entries: &mut dyn Iterator<Item = Entry>, emit: &mut dyn Emit) -> Vec<Child> {
    let mut made = Vec::new();
    loop {
        let page: Vec<Entry> = entries.take(LEAF_CAPACITY).collect();
        if page.is_empty() {
            return made;
        }
        made.push(leaf(page, emit));
    }
}

fn leaf(mut page: Vec<Entry>, emit: &mut dyn Emit) -> Child {
    sort(&mut page, leaf_cmp);
    share_encodings(&mut page);
    let child = Child::of_entries(&page, PageRef::default());
    Child { page: emit.leaf(page), ..child }
}

/// Steps come one by one, so most lists are sorted already. A sort would allocate memory before it noticed.
fn sort(entries: &mut [Entry], order: fn(&Entry, &Entry) -> Ordering) {
    if !entries.is_sorted_by(|a, b| order(a, b).is_le()) {
        entries.sort_by(order);
    }
}

/// Lets adjacent entries with equal encodings share one allocation; comparing them again then compares pointers.
fn share_encodings(page: &mut [Entry]) {
    let mut last: Option<Arc<Encoding>> = None;
    for entry in page {
        match &last {
            Some(known) if Arc::ptr_eq(known, &entry.encoding) => {}
            Some(known) if *known == entry.encoding => entry.encoding = known.clone(),
            _ => last = Some(entry.encoding.clone()),
        }
    }
}

fn branches(mut children: Vec<Child>, height: u8, fill: bool, emit: &mut dyn Emit) -> Vec<Child> {
    let mut made = Vec::new();
    for size in page_sizes(children.len(), BRANCH_FANOUT, fill) {
        let rest = children.split_off(size);
        let branch = Branch { height, children: std::mem::replace(&mut children, rest) };
        let child = Child::of_branch(&branch, PageRef::default());
        made.push(Child { page: emit.branch(branch), ..child });
    }
    made
}

/// How many of `total` items each page gets: as many as fit, or as evenly as possible.
fn page_sizes(total: usize, capacity: usize, fill: bool) -> impl Iterator<Item = usize> {
    let pages = total.div_ceil(capacity);
    (0..pages).map(move |page| match fill {
        true => capacity.min(total - page * capacity),
        false => total * (page + 1) / pages - total * page / pages,
    })
}
