//! Reuses the memory of arrays from box to box.
//!
//! The kernel zeroes fresh memory page by page, which takes as long as the computation. So arrays that are no
//! longer needed are kept, and the next arrays of their type reuse them.

use super::values::{Array, Values};
use crate::types::Type;

/// The most arrays that are kept; a box needs few at a time.
const MOST: usize = 16;

/// Arrays to reuse. One thread uses it at a time.
#[derive(Debug, Default)]
pub struct Spare {
    values: Vec<Values>,
    known: Vec<Vec<u8>>,
}

impl Spare {
    /// Memory for `count` values of a type. Its content is meaningless until it is written.
    pub fn take(&mut self, dtype: Type, count: usize) -> Values {
        let alike = self.values.iter().enumerate().filter(|(_, values)| values.dtype() == dtype);
        // The smallest array that suffices.
        let fitting = alike.filter(|(_, values)| values.capacity() >= count);
        match fitting.min_by_key(|(_, values)| values.capacity()).map(|(n, _)| n) {
            None => Values::new(dtype, count),
            Some(n) => {
                let mut values = self.values.swap_remove(n);
                values.resize(count);
                values
            }
        }
    }

    /// A byte per cell, all of this value.
    pub(super) fn take_known(&mut self, count: usize, value: u8) -> Vec<u8> {
        let mut known = self.known.pop().unwrap_or_default();
        known.clear();
        known.resize(count, value);
        known
    }

    /// Memory in bytes.
    pub fn memory_len(&self) -> usize {
        let values = self.values.iter().map(|values| values.capacity() * values.dtype().size());
        values.chain(self.known.iter().map(Vec::capacity)).sum()
    }

    /// Keeps the memory of an array that is no longer needed.
    pub fn give(&mut self, array: Array) {
        if array.values.capacity() > 0 {
            self.values.push(array.values);
        }
        self.known.extend(array.known);
        if self.values.len() > MOST
            && let Some((least, _)) =
                self.values.iter().enumerate().min_by_key(|(_, values)| values.capacity())
        {
            self.values.swap_remove(least);
        }
        self.known.truncate(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: Type, count: usize) -> Array {
        Array { values: Values::new(dtype, count), known: None }
    }

    #[test]
    fn room_is_that_of_an_array_of_the_same_type_that_is_large_enough() {
        let mut spare = Spare::default();
        spare.give(array(Type::F4, 100));
        spare.give(array(Type::F4, 10));
        spare.give(array(Type::F8, 1000));
        let taken = spare.take(Type::F4, 9);
        assert_eq!((taken.count(), taken.capacity() < 100), (9, true));
        assert_eq!(spare.take(Type::F4, 200).count(), 200);
        assert_eq!((spare.take(Type::F4, 99).capacity(), spare.take(Type::F8, 0).capacity()), (100, 1000));
        assert_eq!(spare.memory_len(), 0);
        spare.give(array(Type::F8, 3));
        assert_eq!(spare.memory_len(), 24);
    }

    #[test]
    fn few_arrays_are_kept() {
        let mut spare = Spare::default();
        (1..3 * MOST).for_each(|n| spare.give(Array { known: Some(vec![1; n]), ..array(Type::U1, n) }));
        assert_eq!((spare.values.len(), spare.known.len()), (MOST, MOST));
        assert_eq!(spare.take(Type::U1, 3 * MOST - 1).count(), 3 * MOST - 1);
        assert!(spare.take_known(3, 1) == [1, 1, 1]);
    }
}
