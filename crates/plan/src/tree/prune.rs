//! Removing entries, and listing the pages in use: for garbage collection.
//!
//! Pages without a dead entry are reused; those with one are emitted anew. The tree keeps its height.

use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::entry::Entry;
use drystone_format::manifest::Root;

use super::{Emit, PageNode, Pages};

enum Outcome {
    Same,
    Gone,
    New(Box<Child>),
}

/// The index without the entries that are `dead`; `None` if no entry is left. The old index stays valid.
pub fn prune<P: Pages>(
    pages: &P,
    root: &Root,
    dead: &dyn Fn(&Entry) -> bool,
    emit: &mut dyn Emit,
) -> Result<Option<Root>, P::Error> {
    Ok(match prune_below(pages, PageNode::root(pages, root)?, dead, emit)? {
        Outcome::Same => Some(*root),
        Outcome::Gone => None,
        Outcome::New(child) => Some(Root { page: child.page, height: root.height, entries: child.entries }),
    })
}

fn prune_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    dead: &dyn Fn(&Entry) -> bool,
    emit: &mut dyn Emit,
) -> Result<Outcome, P::Error> {
    if place.height == 0 {
        let leaf = place.leaf(pages)?;
        let kept: Vec<Entry> = leaf.entries().iter().filter(|entry| !dead(entry)).cloned().collect();
        return Ok(match kept.len() {
            n if n == leaf.len() => Outcome::Same,
            0 => {
                emit.replaces(place.page);
                Outcome::Gone
            }
            _ => {
                emit.replaces(place.page);
                let child = Child::of_entries(&kept, PageRef::default());
                Outcome::New(Box::new(Child { page: emit.leaf(kept), ..child }))
            }
        });
    }
    let branch = place.branch(pages)?;
    let (mut children, mut same) = (Vec::with_capacity(branch.children.len()), true);
    for child in &branch.children {
        match prune_below(pages, place.below(child), dead, emit)? {
            Outcome::Same => children.push(child.clone()),
            Outcome::Gone => same = false,
            Outcome::New(new) => {
                same = false;
                children.push(*new);
            }
        }
    }
    if same {
        return Ok(Outcome::Same);
    }
    emit.replaces(place.page);
    if children.is_empty() {
        return Ok(Outcome::Gone);
    }
    let branch = Branch { height: place.height, children };
    let child = Child::of_branch(&branch, PageRef::default());
    Ok(Outcome::New(Box::new(Child { page: emit.branch(branch), ..child })))
}

/// Visits pages of the index, parents first; nothing below a page for which `visit` returns false is visited. Leaves
/// are not read.
pub fn each_page<P: Pages>(
    pages: &P,
    root: &Root,
    visit: &mut dyn FnMut(&PageRef) -> bool,
) -> Result<(), P::Error> {
    each_below(pages, PageNode::root(pages, root)?, visit)
}

fn each_below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    visit: &mut dyn FnMut(&PageRef) -> bool,
) -> Result<(), P::Error> {
    if !visit(place.page) || place.height == 0 {
        return Ok(());
    }
    let branch = place.branch(pages)?;
    branch.children.iter().try_for_each(|child| each_below(pages, place.below(child), visit))
}
