//! A leaf in memory: a list of entries if this process made it, columns if it was read.

use std::borrow::Cow;

use drystone_format::block::Block;
use drystone_format::column::Numbers;
use drystone_format::entry::Entry;

use super::{Query, key};

/// The entries of a leaf, in leaf order.
#[derive(Debug)]
pub enum Leaf {
    /// Made by this process.
    Entries(Vec<Entry>),
    /// Read from a page.
    Columns(Box<Block>),
}

impl Leaf {
    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Leaf::Entries(entries) => entries.len(),
            Leaf::Columns(block) => block.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate bytes in memory.
    pub fn memory(&self) -> usize {
        match self {
            Leaf::Entries(entries) => size_of_val(entries.as_slice()),
            Leaf::Columns(block) => block.memory(),
        }
    }

    /// All entries.
    pub fn entries(&self) -> Cow<'_, [Entry]> {
        match self {
            Leaf::Entries(entries) => Cow::Borrowed(entries),
            Leaf::Columns(block) => Cow::Owned(block.entries()),
        }
    }

    /// Visits the entries that answer the query; of columns, only those entries are decoded.
    pub(super) fn find(&self, query: &Query, visit: &mut dyn FnMut(Entry)) {
        match self {
            Leaf::Entries(entries) => {
                let Some(greatest) = query.greatest() else { return };
                let from = entries.partition_point(|entry| key(entry) < query.least());
                let wanted = entries.iter().skip(from).take_while(|entry| key(entry) <= greatest);
                wanted.filter(|entry| query.meets_entry(entry)).cloned().for_each(visit);
            }
            Leaf::Columns(block) => {
                let [steps, variables, members] = block.keys();
                let mut found = places(variables, block.len(), u64::from(query.variable));
                if let Some(wanted) = query.member {
                    keep(&mut found, members, |member| member == u64::from(wanted));
                }
                keep(&mut found, steps, |step| query.steps.contains(step));
                if let Some(bounds) = &query.bounds {
                    found.retain(|&i| block.meets(i, bounds));
                }
                found.into_iter().for_each(|i| visit(block.entry(i)));
            }
        }
    }
}

/// The positions of a wanted number among `len`.
fn places(numbers: &Numbers, len: usize, wanted: u64) -> Vec<usize> {
    match numbers {
        Numbers::All(number) if *number == wanted => (0..len).collect(),
        Numbers::All(_) => Vec::new(),
        Numbers::Each(numbers) => {
            let places = numbers.iter().enumerate().filter(|(_, number)| **number == wanted);
            places.map(|(i, _)| i).collect()
        }
    }
}

/// Keeps the entries whose numbers are wanted. A number that all entries share is examined once.
fn keep(places: &mut Vec<usize>, numbers: &Numbers, wanted: impl Fn(u64) -> bool) {
    match numbers {
        Numbers::All(number) if wanted(*number) => {}
        Numbers::All(_) => places.clear(),
        Numbers::Each(_) => places.retain(|&i| wanted(numbers.at(i))),
    }
}
