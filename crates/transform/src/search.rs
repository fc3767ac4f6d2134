//! Finds the elements of a subchunk between two values by an index.

use std::ops::{Range, RangeInclusive};

use crate::{Fetched, Logical, StoredSubchunk, TransformError};

/// The elements found by a search.
#[derive(Clone, Debug, Default)]
pub struct SearchHits {
    /// Their numbers in the subchunk, in no particular order.
    pub positions: Vec<u32>,
    /// Their bytes, one element after the other; empty if only positions are wanted.
    pub values: Vec<u8>,
    /// Whether only positions are wanted.
    pub only_positions: bool,
}

/// The elements in a range of keys that an index knows before its lists are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Number of elements in the bins that lie completely in the range.
    pub count: u64,
    /// The remaining parts of the range, where single elements must be examined.
    pub rest: Vec<RangeInclusive<u64>>,
}

impl SearchHits {
    pub(crate) fn push(&mut self, position: u32, value: &[u8]) {
        self.positions.push(position);
        if !self.only_positions {
            self.values.extend_from_slice(value);
        }
    }
}

/// The interface of a codec that has an index of the values. Ranges of values are given as keys
/// ([`keys_between`](crate::keys_between)) of the kind of number in [`Logical`].
pub trait Indexed {
    /// The encoded bytes that a search needs, ascending; none if no element can lie in the range.
    fn plan_search(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Vec<Range<u64>>, TransformError>;

    /// Counts the elements of bins that lie completely in the range, from the metadata alone.
    fn whole_bins(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Whole, TransformError>;

    /// Adds every element whose key lies in the range to `found`.
    fn search(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut SearchHits,
    ) -> Result<(), TransformError>;
}
