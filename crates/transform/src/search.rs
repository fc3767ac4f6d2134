//! Finding the elements of a subchunk between two values by its index.

use std::ops::{Range, RangeInclusive};

use crate::{Fetched, Logical, Stored, TransformError};

/// Elements that were found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Their numbers in the subchunk, in no particular order.
    pub positions: Vec<u32>,
    /// Their bytes, one element after the other.
    pub values: Vec<u8>,
}

impl Found {
    pub(crate) fn push(&mut self, position: u32, value: &[u8]) {
        self.positions.push(position);
        self.values.extend_from_slice(value);
    }
}

/// The side of a codec that keeps an index of the values. Ranges of values are given as keys
/// ([`keys_between`](crate::keys_between)) of the kind of number that [`Logical`] tells.
pub trait Indexed {
    /// Which of the encoded bytes a search needs, ascending; none if nothing can lie in the range.
    fn plan_search(
        &self,
        stored: &Stored<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
    ) -> Result<Vec<Range<u64>>, TransformError>;

    /// Adds every element whose key lies in the range to `found`.
    fn search(
        &self,
        stored: &Stored<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        keys: &RangeInclusive<u64>,
        found: &mut Found,
    ) -> Result<(), TransformError>;
}
