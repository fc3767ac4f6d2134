//! The steps in which a variable has blocks. Branches answer where they suffice: a child that holds one variable at one
//! step is not read.

use std::collections::BTreeSet;

use drystone_format::branch::Child;
use drystone_format::manifest::Root;

use super::{PageNode, Pages, Query, StepSet};

/// The key steps (step + 1; 0 is the content without step) in which `variable` has an entry that `shows(key
/// step, commit)`.
///
/// `shows` must hold for every later commit if it holds for one.
pub fn key_steps<P: Pages>(
    pages: &P,
    root: &Root,
    variable: u32,
    shows: &dyn Fn(u64, u64) -> bool,
) -> Result<BTreeSet<u64>, P::Error> {
    let query = Query { steps: StepSet::ALL, variable, member: None, bounds: None };
    let mut found = BTreeSet::new();
    below(pages, PageNode::root(pages, root)?, &query, shows, &mut found)?;
    Ok(found)
}

fn below<P: Pages>(
    pages: &P,
    place: PageNode<'_>,
    query: &Query,
    shows: &dyn Fn(u64, u64) -> bool,
    found: &mut BTreeSet<u64>,
) -> Result<(), P::Error> {
    if place.height == 0 {
        let leaf = place.leaf(pages)?;
        leaf.find(query, &mut |e| {
            if shows(e.step, e.commit) {
                found.insert(e.step);
            }
        });
        return Ok(());
    }
    let branch = place.branch(pages)?;
    for child in branch.children.iter().filter(|child| query.meets_child(child)) {
        match one_step(child) {
            Some(step) if found.contains(&step) => {}
            Some(step) if of_one_variable(child) => {
                if shows(step, child.commit) {
                    found.insert(step);
                }
            }
            _ => below(pages, place.below(child), query, shows, found)?,
        }
    }
    Ok(())
}

fn one_step(child: &Child) -> Option<u64> {
    (child.first.0 == child.last.0).then_some(child.first.0)
}

fn of_one_variable(child: &Child) -> bool {
    child.first.1 == child.last.1
}
