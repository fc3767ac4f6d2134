//! Which places of an array were filled, where an encoded form holds elements in another order.

use crate::TransformError;

/// Marks of places. As many distinct ones as elements mean that every place occurs once.
#[derive(Default)]
pub(crate) struct Places {
    words: Vec<u64>,
}

impl Places {
    /// Marks for `len` places, none of them set.
    pub(crate) fn new(len: usize) -> Places {
        Places { words: vec![0; len.div_ceil(64)] }
    }

    /// The same, in the memory of these.
    pub(crate) fn reset(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), 0);
    }

    /// Marks a place. The caller checks that there is such a place: one behind the last is passed over.
    #[inline(always)]
    pub(crate) fn mark(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    /// Fails unless `len` places are marked. `what` names the damage, and `at` the byte.
    pub(crate) fn must_be(&self, len: u64, what: &str, at: u64) -> Result<(), TransformError> {
        match self.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == len {
            true => Ok(()),
            false => Err(TransformError::corrupt(what, at)),
        }
    }
}
