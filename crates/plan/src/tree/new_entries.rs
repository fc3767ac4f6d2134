//! Entries that one commit adds to the index: as values while they are few, later as sorted runs of encoded blocks.
//!
//! Why not a list: an entry takes half a kilobyte as a value and 20 to 40 bytes in a block, and a commit may add
//! millions.
//!
//! Invariants
//! - every run is in key order, and so is what [`NewEntries::in_order`] gives;
//! - a merge holds one decoded block of each run.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

use drystone_format::Corrupt;
use drystone_format::block::Block;
use drystone_format::entry::{Entry, encode_block, key_cmp};

/// Entries of one run. A commit with fewer entries encodes nothing.
const RUN: usize = 4096;
/// Entries of one block of a run: a merge holds this many of each run decoded.
const BLOCK: usize = 256;

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub struct NewEntries {
    runs: Vec<Vec<Box<[u8]>>>,
    encoded: usize,
    /// Entries in the order of arrival, fewer than a run holds.
    few: Vec<Entry>,
    steps: BTreeSet<u64>,
}

impl NewEntries {
    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) {
        if self.few.last().is_none_or(|last| last.step != entry.step) {
            self.steps.insert(entry.step);
        }
        self.few.push(entry);
        if self.few.len() >= RUN {
            self.few.sort_by(key_cmp);
            self.runs.push(self.few.chunks(BLOCK).map(|block| encode_block(block).into()).collect());
            self.encoded += self.few.len();
            self.few.clear();
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.encoded + self.few.len()
    }

    #[allow(missing_docs)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key steps (step + 1; 0 without step) that occur.
    pub fn key_steps(&self) -> &BTreeSet<u64> {
        &self.steps
    }

    /// All entries in key order. An entry that cannot be decoded ends the iteration; [`InOrder::failed`] then has the
    /// error.
    pub fn in_order(&self) -> InOrder<'_> {
        let mut few = self.few.clone();
        if !few.is_sorted_by(|a, b| key_cmp(a, b).is_le()) {
            few.sort_by(key_cmp);
        }
        let mut out = InOrder { heads: BinaryHeap::new(), failed: None };
        out.begin(Run { number: self.runs.len(), blocks: &[], block: Decoded::Values(few.into_iter()) });
        for (number, blocks) in self.runs.iter().enumerate() {
            out.begin(Run { number, blocks, block: Decoded::Values(Vec::new().into_iter()) });
        }
        out
    }
}

impl Extend<Entry> for NewEntries {
    fn extend<T: IntoIterator<Item = Entry>>(&mut self, entries: T) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

/// Entries in key order, merged from runs.
pub struct InOrder<'a> {
    heads: BinaryHeap<Head<'a>>,
    failed: Option<Corrupt>,
}

impl<'a> InOrder<'a> {
    fn begin(&mut self, mut run: Run<'a>) {
        match run.next() {
            Ok(Some(entry)) => self.heads.push(Head { entry, run }),
            Ok(None) => {}
            Err(found) => self.failed = Some(found),
        }
    }

    /// The error that ended the iteration early, if there was one.
    pub fn failed(&self) -> Option<&Corrupt> {
        self.failed.as_ref()
    }
}

impl Iterator for InOrder<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.failed.is_some() {
            return None;
        }
        let mut head = self.heads.peek_mut()?;
        match head.run.next() {
            Ok(Some(next)) => Some(std::mem::replace(&mut head.entry, next)),
            Ok(None) => Some(PeekMut::pop(head).entry),
            Err(found) => {
                self.failed = Some(found);
                Some(PeekMut::pop(head).entry)
            }
        }
    }
}

/// The rest of a run.
struct Run<'a> {
    number: usize,
    blocks: &'a [Box<[u8]>],
    block: Decoded,
}

enum Decoded {
    Values(std::vec::IntoIter<Entry>),
    Columns(Box<Block>, usize),
}

impl Run<'_> {
    fn next(&mut self) -> Result<Option<Entry>, Corrupt> {
        loop {
            match &mut self.block {
                Decoded::Values(entries) => {
                    if let Some(entry) = entries.next() {
                        return Ok(Some(entry));
                    }
                }
                Decoded::Columns(block, at) if *at < block.len() => {
                    *at += 1;
                    return Ok(Some(block.entry(*at - 1)));
                }
                Decoded::Columns(..) => {}
            }
            let Some((first, rest)) = self.blocks.split_first() else { return Ok(None) };
            self.block = Decoded::Columns(Box::new(Block::decode(first)?), 0);
            self.blocks = rest;
        }
    }
}

/// The next entry of a run. The heap's greatest head is the one that comes first in key order.
struct Head<'a> {
    entry: Entry,
    run: Run<'a>,
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        key_cmp(&other.entry, &self.entry).then_with(|| other.run.number.cmp(&self.run.number))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}
