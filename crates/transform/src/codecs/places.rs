//! Records which places of an array were filled, for encoded forms that hold elements in another order.

use crate::TransformError;

/// Marks of places. If as many distinct places are marked as there are elements, every place occurs once.
#[derive(Default)]
pub(crate) struct Places {
    words: Vec<u64>,
}

impl Places {
    /// Marks for `len` places, none of them set.
    pub(crate) fn new(len: usize) -> Places {
        Places { words: vec![0; len.div_ceil(64)] }
    }

    /// Like [`Places::new`], but reuses the memory.
    pub(crate) fn reset(&mut self, len: usize) {
        self.words.clear();
        self.words.resize(len.div_ceil(64), 0);
    }

    /// Marks a place. A place beyond the last is ignored; the caller checks for that.
    #[inline(always)]
    pub(crate) fn mark(&mut self, place: usize) {
        if let Some(word) = self.words.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    /// Fails unless `len` places are marked. `what` names the damage, and `at` is its offset.
    pub(crate) fn must_be(&self, len: u64, what: &str, at: u64) -> Result<(), TransformError> {
        match self.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() == len {
            true => Ok(()),
            false => Err(TransformError::corrupt(what, at)),
        }
    }
}
