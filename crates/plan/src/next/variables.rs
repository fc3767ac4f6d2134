//! Predicts which variables are read next. A reader that has read the same cells of two variables, as at a restart,
//! most likely reads these cells of others.
//!
//! A program that reads one variable after the other waits for the medium at each, though all could be read at once. It
//! does not announce its next reads, but it repeats them at every step.
//!
//! Invariants
//! - nothing is prefetched for a reader that did not wait: data in memory needs no hint;
//! - after the same cells of two variables, all others are predicted once; later, those are predicted that were read
//!   together before.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

use drystone_format::entry::Entry;

use crate::ahead::join;
use crate::in_order::{extent_of_cut, wanted};
use crate::read_plan::Slot;
use crate::selection::Selection;

/// Variables that are remembered, and prefetched together.
const VARIABLES: usize = 64;
/// A restart reads at most this many steps at a time.
const STEPS: u64 = 16;
/// Prefetching more bytes together gains nothing: each variable alone keeps a medium busy.
const MOST: u64 = 4 << 20;
/// Larger variables are prefetched in file order, after the current one, up to this size.
const LONG: u64 = 16 << 20;
/// A longer block is prefetched whole only if at least one cell in this many is wanted.
const LEAST_PART: u128 = 2;
/// A shorter block is prefetched however little of it is wanted: it costs no more than its request.
const SHORT: u64 = 64 << 10;

/// The variables that are likely to be read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// No prediction.
    Unknown,
    /// The same cells of these variables, in this order.
    These(Vec<u32>),
    /// The same cells of all variables that have them and come after these, which were read; or before these, if
    /// variables are read backwards.
    Behind(Vec<u32>),
}

impl Next {
    /// The variables that are likely to follow, by their numbers and in the order of reading. Only variables that have
    /// the cells follow. The iterator is lazy: it examines no more variables than the caller takes.
    pub fn among<'a, V>(&'a self, all: &'a BTreeMap<u32, V>) -> Box<dyn Iterator<Item = &'a V> + 'a> {
        match self {
            Next::Unknown => Box::new(iter::empty()),
            Next::These(variables) => Box::new(variables.iter().filter_map(|id| all.get(id))),
            Next::Behind(read) => {
                let unread = |(id, variable)| (!read.contains(id)).then_some(variable);
                match *read.as_slice() {
                    [.., before, last] if last < before => {
                        Box::new(all.range(..last).rev().filter_map(unread))
                    }
                    [.., last] => Box::new(all.range(last..).filter_map(unread)),
                    [] => Box::new(iter::empty()),
                }
            }
        }
    }
}

/// What one reader has read, as far as it predicts the next read. Variables are identified by their numbers.
#[derive(Debug, Default)]
pub struct Variables {
    /// The cells of the last read.
    cells: Option<Selection>,
    /// The variables from which they were read.
    read: Vec<u32>,
    /// Two or more variables whose cells were read before the current ones.
    before: Vec<u32>,
    /// Whether the last read waited for the medium, if there was one.
    waited: Option<bool>,
    /// The state of the prediction for these cells.
    says: Says,
    /// Whether a guess has been made.
    guessed: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Says {
    #[default]
    NothingYet,
    /// How many prefetched variables have not been read yet.
    Ahead(usize),
    NothingMore,
}

impl Variables {
    /// Reports that cells of a variable, in this many steps, are about to be read. Returns which variables are likely
    /// to follow with the same cells. A caller that prefetches them reports it by
    /// [`prefetched`](Variables::prefetched).
    pub fn begins(&mut self, variable: u32, cells: &Selection, steps: u64) -> Next {
        if self.cells.as_ref() != Some(cells) {
            let read = std::mem::take(&mut self.read);
            if read.len() > 1 {
                self.before = read;
            }
            (self.cells, self.says) = (Some(cells.clone()), Says::NothingYet);
        }
        if steps > STEPS || self.read.len() >= VARIABLES || self.read.contains(&variable) {
            return Next::Unknown;
        }
        self.read.push(variable);
        let goes_on = match &mut self.says {
            Says::NothingYet if self.waited == Some(true) => false,
            // The last prefetched variable is being read; the next ones are prefetched meanwhile.
            Says::Ahead(rest @ ..=1) => {
                *rest = 0;
                true
            }
            Says::Ahead(rest) => {
                *rest -= 1;
                return Next::Unknown;
            }
            _ => return Next::Unknown,
        };
        if let Some(rest) = self.before.strip_prefix(self.read.as_slice()) {
            return if rest.is_empty() { Next::Unknown } else { Next::These(rest.to_vec()) };
        }
        if self.read.len() < 2 || self.guessed && !goes_on {
            return Next::Unknown;
        }
        self.guessed = true;
        Next::Behind(self.read.clone())
    }

    /// Reports that this many of the predicted variables were prefetched.
    pub fn prefetched(&mut self, variables: usize) {
        self.says = if variables == 0 { Says::NothingMore } else { Says::Ahead(variables) };
    }

    /// Reports that the read ended, and whether it waited for the medium.
    pub fn ended(&mut self, waited: bool) {
        self.waited = Some(waited);
    }

    /// Whether the next read may wait for the medium, judged by the last one.
    pub fn may_wait(&self) -> bool {
        self.waited != Some(false)
    }
}

/// The byte ranges of a hint.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Byte ranges of sources: ascending and disjoint, or in the order in which they will be read.
    pub ranges: Vec<(u32, Range<u64>)>,
    /// How many variables they belong to, not counting the first.
    pub variables: usize,
    /// Whether the variables are large and are prefetched in this order.
    pub in_order: bool,
}

/// The hint that lets the cells of some variables be read together. `variables` are their slots in the order of
/// reading; the first is read now. The hint is empty unless it covers more than the first variable. For large variables
/// whose blocks are wanted whole, each hint covers only the next one.
pub fn together(variables: impl IntoIterator<Item = Vec<Slot>>) -> Together {
    let (mut found, mut bytes) = (Together::default(), 0u64);
    // For a large variable, either other processes read the rest at the same time, or nothing reads it.
    let mut parts = false;
    for (n, slots) in variables.into_iter().take(VARIABLES).enumerate() {
        let blocks: Vec<_> = slots.iter().flat_map(blocks).collect();
        let own = blocks.iter().fold(0u64, |sum, (_, range)| sum.saturating_add(range.end - range.start));
        bytes = bytes.saturating_add(own);
        let long = n < 2 && bytes > MOST;
        if long && own > LONG || bytes > MOST && n > 1 {
            break;
        }
        found.in_order |= long;
        parts |= !slots.iter().all(is_of_whole_blocks);
        found.ranges.extend(blocks);
        found.variables = n;
    }
    if found.variables == 0 || found.in_order && parts {
        return Together::default();
    }
    if !found.in_order {
        join(&mut found.ranges);
    }
    found
}

/// Where those blocks of a slot lie of which enough is wanted.
fn blocks(slot: &Slot) -> impl Iterator<Item = (u32, Range<u64>)> {
    slot.candidates.iter().map(|candidate| &candidate.entry).filter_map(|entry| {
        let (range, (wanted, all)) = (extent(entry)?, wanted(entry, &slot.selection)?);
        let enough = range.end - range.start <= SHORT || wanted >= all.div_ceil(LEAST_PART);
        (wanted > 0 && enough).then_some((entry.source, range))
    })
}

/// Whether all cells of a slot's blocks are wanted.
fn is_of_whole_blocks(slot: &Slot) -> bool {
    let mut entries = slot.candidates.iter().map(|candidate| &candidate.entry);
    entries
        .all(|entry| wanted(entry, &slot.selection).is_some_and(|(wanted, all)| wanted == 0 || wanted == all))
}

/// Where a block lies, if its entry says so.
fn extent(entry: &Entry) -> Option<Range<u64>> {
    match entry.subchunks {
        1 => Some(entry.piece.position..entry.piece.end()),
        _ => extent_of_cut(entry),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use drystone_format::entry::Encoding;
    use drystone_transform::stats::ScalarKind;

    use super::*;
    use crate::random::block;
    use crate::resolve::Candidate;

    fn cells(step: u64) -> Selection {
        Selection::boxed(&[step, 0], &[1, 8])
    }

    /// Reads variables one after the other, each of which waits; returns the prediction before each.
    fn read(following: &mut Variables, step: u64, variables: &[u32]) -> Vec<Next> {
        let each = |&variable: &u32| {
            let next = following.begins(variable, &cells(step), 1);
            match &next {
                Next::Unknown => {}
                Next::These(variables) => following.prefetched(variables.len()),
                Next::Behind(_) => following.prefetched(3),
            }
            following.ended(true);
            next
        };
        variables.iter().map(each).collect()
    }

    #[test]
    fn after_two_variables_the_others_are_predicted_and_at_the_next_cells_those_read_before() {
        let mut following = Variables::default();
        let said = read(&mut following, 0, &[7, 8, 9, 4]);
        assert_eq!(said, [Next::Unknown, Next::Behind(vec![7, 8]), Next::Unknown, Next::Unknown]);
        let said = read(&mut following, 1, &[7, 8, 9, 4]);
        assert_eq!(said[0], Next::These(vec![8, 9, 4]));
        assert_eq!(said[1..], [Next::Unknown, Next::Unknown, Next::Unknown]);
        let said = read(&mut following, 2, &[8, 7, 8]);
        assert_eq!(
            said,
            [Next::Unknown, Next::Unknown, Next::Unknown],
            "others come, and it was guessed once"
        );
    }

    #[test]
    fn while_the_last_prefetched_one_is_read_more_are_prefetched() {
        let mut following = Variables::default();
        let said = read(&mut following, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 8, 9]);
        let predicted = |n: &usize| said[*n] != Next::Unknown;
        assert_eq!((0..said.len()).filter(predicted).collect::<Vec<_>>(), [1, 4, 7], "three at a time");
        assert_eq!(said[4], Next::Behind(vec![1, 2, 3, 4, 5]), "3, 4, 5 were prefetched");
        following.prefetched(0);
        assert_eq!(read(&mut following, 0, &[11, 12]), [Next::Unknown, Next::Unknown], "there is no more");
    }

    #[test]
    fn variables_follow_in_the_direction_in_which_they_are_read() {
        let all: BTreeMap<u32, u32> = (2..9).map(|id| (id, id)).collect();
        let among = |next: Next| next.among(&all).copied().collect::<Vec<_>>();
        assert_eq!(among(Next::Behind(vec![3, 5])), [6, 7, 8]);
        assert_eq!(among(Next::Behind(vec![8, 7])), [6, 5, 4, 3, 2]);
        assert_eq!(among(Next::Behind(vec![4, 8, 6])), [5, 3, 2], "4 was read");
        assert_eq!(among(Next::Behind(vec![4, 3, 7])), [8], "behind the last");
        assert_eq!(among(Next::These(vec![8, 1, 3])), [8, 3], "1 is gone");
        assert_eq!(among(Next::Behind(vec![])), [0_u32; 0]);
        assert_eq!(among(Next::Unknown), [0_u32; 0]);
    }

    #[test]
    fn long_reads_say_nothing_of_what_follows() {
        let mut following = Variables::default();
        let many = Selection::boxed(&[0, 0], &[STEPS + 1, 8]);
        for variable in 0..4 {
            assert_eq!(following.begins(variable, &many, STEPS + 1), Next::Unknown);
            following.ended(true);
        }
    }

    #[test]
    fn no_prediction_for_a_reader_that_does_not_wait_or_reads_one_variable() {
        let mut following = Variables::default();
        assert!(following.may_wait(), "nothing was read yet");
        for (variable, step) in [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)] {
            assert_eq!(following.begins(variable, &cells(step), 1), Next::Unknown);
            following.ended(false);
        }
        assert!(!following.may_wait());
        let mut following = Variables::default();
        for step in 0..9 {
            assert_eq!(read(&mut following, step, &[1]), [Next::Unknown]);
        }
        assert_eq!(read(&mut following, 9, &[1, 1]), [Next::Unknown, Next::Unknown], "it is one");
    }

    #[test]
    fn one_variable_alone_changes_nothing_of_what_was_read_together() {
        let mut following = Variables::default();
        read(&mut following, 0, &[3, 5]);
        assert_eq!(read(&mut following, 1, &[9]), [Next::Unknown]);
        assert_eq!(read(&mut following, 2, &[3]), [Next::These(vec![5])]);
    }

    #[test]
    fn only_some_variables_are_remembered() {
        let mut following = Variables::default();
        let many: Vec<u32> = (0..200).collect();
        read(&mut following, 0, &many);
        assert_eq!(following.read.len(), VARIABLES);
    }

    /// A slot of one cut block at `position`, with this many rows of 8 bytes, of which `wanted` are wanted.
    fn slot(source: u32, position: u64, subchunks: u64, rows: u64, wanted: u64) -> Vec<Slot> {
        let mut entry = block(&[0, 0], &[rows, 8], 0);
        entry.encoding = Arc::new(Encoding { item: 1, ..Encoding::default() });
        (entry.source, entry.subchunks) = (source, subchunks);
        (entry.piece.position, entry.piece.length, entry.piece.trailer) =
            (position, rows.saturating_mul(8), 8);
        if subchunks > 1 {
            entry.piece.length = 50;
        }
        vec![Slot {
            candidates: vec![Candidate { entry, limit: [u64::MAX; 8] }],
            selection: Selection::boxed(&[0, 0], &[wanted, 8]),
            item: 1,
            from: 0,
            whole: 1,
            scalar: 1,
            kind: ScalarKind::U8,
        }]
    }

    fn of(slots: &[Vec<Slot>]) -> (Vec<(u32, Range<u64>)>, usize) {
        let found = together(slots.iter().cloned());
        assert!(!found.in_order, "they are short");
        (found.ranges, found.variables)
    }

    #[test]
    fn blocks_of_several_variables_get_hints_in_the_order_in_which_they_lie() {
        let (first, second) = (slot(1, 5000, 1, 100, 100), slot(1, 248, 1, 100, 1));
        let (apart, cut) = (slot(0, 90_000, 1, 100, 9), slot(2, 100_000, 2, 10_000, 5000));
        let one = (1, 248..5808);
        assert_eq!(
            of(&[first.clone(), second.clone()]),
            (vec![one.clone()], 1),
            "less than a page lies between"
        );
        let all = vec![(0, 90_000..90_808), one, (2, 20_000..100_050)];
        assert_eq!(of(&[first.clone(), second, apart, cut]), (all, 3));
        assert_eq!(of(std::slice::from_ref(&first)), (vec![], 0), "it is about to be read");
        assert_eq!(of(&[]), (vec![], 0));
        let little = slot(2, 100_000, 2, 10_000, 4999);
        assert_eq!(of(&[first.clone(), little]).0, [(1, 5000..5808)], "most of it is not wanted");
        let nothing = slot(2, 100_000, 1, 10, 0);
        assert_eq!(of(&[first, nothing]).0, [(1, 5000..5808)]);
    }

    #[test]
    fn hints_stay_below_the_limit_of_bytes() {
        let large = |n: u64| slot(0, n << 21, 1, 1 << 17, 1 << 17);
        assert_eq!(of(&[large(0), large(2), large(4), large(6)]).1, 2, "of 1 MiB, little more each");
        let alien = slot(0, 9, 1, u64::MAX, u64::MAX);
        assert_eq!(of(&[large(0), alien]), (vec![], 0), "entries were not checked");
        let small = |n: u64| slot(0, n << 12, 1, 10, 10);
        assert_eq!(together((0..200).map(small)).variables, VARIABLES - 1);
    }

    #[test]
    fn of_large_variables_the_next_one_is_prefetched() {
        let long = |n: u64, rows: u64| slot(1, n << 25, 1, rows, rows);
        let len = |rows: u64| rows * 8 + 8;
        let [a, b] = [3 << 17, 2 << 18];
        let found = together([long(2, a), long(1, b), long(3, a)]);
        let ranges = vec![(1, 2 << 25..(2 << 25) + len(a)), (1, 1 << 25..(1 << 25) + len(b))];
        assert_eq!(found, Together { ranges, variables: 1, in_order: true });
        assert_eq!(together([long(1, a), long(2, 1)]).variables, 1, "a short one behind it fits");
        let part = slot(2, 1 << 25, 1, a, a - 1);
        assert_eq!(together([long(1, a), part]), Together::default(), "the rest is not wanted");
        assert_eq!(together([long(1, a), long(2, 3 << 20)]), Together::default(), "too long");
        assert_eq!(together([long(1, 3 << 20), long(2, a)]), Together::default(), "it is long enough itself");
    }
}
