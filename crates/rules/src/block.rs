//! Block trees: how a fragment lies in memory.
//!
//! An [`SBlock`](Block::S) is a contiguous piece that is moved as a whole. A [`TBlock`](Block::T) has members at
//! offsets, with holes between them. An [`ABlock`](Block::A) repeats one element block over dimensions, in an element
//! order.
//!
//! Invariant: `bytes` of a block is the space it takes, so the elements of an array lie that far apart.

use crate::error::RuleError;
use drystone_copy::Dtype;
use drystone_copy::span;
use drystone_curve as curve;

/// A node of a block tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A contiguous piece that is moved as a whole.
    S(SBlock),
    /// Members at offsets.
    T(TBlock),
    /// An array of one element block.
    A(ABlock),
}

/// A contiguous piece that is moved as a whole: a primitive value, or opaque bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SBlock {
    /// Its size in bytes.
    pub bytes: u64,
    /// The type of the number, if known. It is needed only for a conversion.
    pub dtype: Option<Dtype>,
}

/// A record: members that do not overlap, and the holes between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TBlock {
    /// Bytes of the whole record, padding included.
    pub bytes: u64,
    /// The members; a fragment need not have all members of the dataset's record.
    pub members: Vec<Member>,
}

/// A member of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which member of the dataset's record it is. Members with equal ids hold the same data.
    pub id: u32,
    /// Its offset in the record.
    pub offset: u64,
    /// Its own layout.
    pub block: Block,
}

/// An array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ABlock {
    /// Elements along each dimension.
    pub counts: Vec<u64>,
    /// Where each element lies.
    pub order: Order,
    /// The layout of one element.
    pub element: Box<Block>,
}

/// The order of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// The last index is the fastest.
    Row,
    /// The first index is the fastest.
    Col,
    /// Dimensions from the slowest to the fastest.
    Perm(Vec<usize>),
    /// Bytes from one element to the next, per dimension, as in NumPy. Negative strides walk backwards; the
    /// block begins at its lowest byte.
    Strides(Vec<i64>),
    /// Along the Morton (Z) curve.
    Morton,
    /// Along the Hilbert curve.
    Hilbert,
}

/// Where the elements of an array lie: by strides, or by rank along a curve.
pub(crate) enum Places {
    Strided { first: u64, strides: Vec<i64> },
    Ranked { ranks: Vec<u32>, elem: u64 },
}

impl Block {
    /// A piece of `bytes` that is moved as a whole.
    pub fn opaque(bytes: u64) -> Block {
        Block::S(SBlock { bytes, dtype: None })
    }

    /// One number.
    pub fn number(dtype: Dtype) -> Block {
        Block::S(SBlock { bytes: dtype.kind.bytes() as u64, dtype: Some(dtype) })
    }

    /// A record of `bytes` with members (id, offset, layout).
    pub fn record(bytes: u64, members: impl IntoIterator<Item = (u32, u64, Block)>) -> Block {
        let members = members.into_iter().map(|(id, offset, block)| Member { id, offset, block }).collect();
        Block::T(TBlock { bytes, members })
    }

    /// An array of this block.
    pub fn array(self, counts: impl Into<Vec<u64>>, order: Order) -> Block {
        Block::A(ABlock { counts: counts.into(), order, element: Box::new(self) })
    }

    /// Bytes from the first to the last byte of the block, padding included.
    pub fn bytes(&self) -> Result<u64, RuleError> {
        self.bytes_within(MOST_DEPTH)
    }

    fn bytes_within(&self, depth: usize) -> Result<u64, RuleError> {
        let depth = depth.checked_sub(1).ok_or(RuleError::TooLarge { what: "nested blocks", most: 64 })?;
        match self {
            Block::S(block) if block.dtype.is_some_and(|dtype| dtype.kind.bytes() as u64 != block.bytes) => {
                Err(RuleError::BadFragment { what: "a number's block has another size than its type" })
            }
            Block::S(block) if block.bytes == 0 => Err(RuleError::EmptyElement),
            Block::S(block) => Ok(block.bytes),
            Block::T(record) => {
                let mut ranges = Vec::with_capacity(record.members.len());
                for member in &record.members {
                    let end = member.offset.checked_add(member.block.bytes_within(depth)?);
                    ranges.push((member.offset, end.ok_or(RuleError::Overflow { what: "a record" })?));
                }
                ranges.sort_unstable();
                if ranges.windows(2).any(|pair| pair[1].0 < pair[0].1) {
                    return Err(RuleError::BadFragment { what: "two members of a record overlap" });
                }
                if ranges.last().is_some_and(|&(_, end)| end > record.bytes) {
                    return Err(RuleError::BadFragment {
                        what: "a member lies beyond the end of its record",
                    });
                }
                Ok(record.bytes)
            }
            Block::A(array) => array.bytes_of(array.element.bytes_within(depth)?),
        }
    }
}

/// Deepest nesting of blocks.
const MOST_DEPTH: usize = 64;

impl ABlock {
    fn bytes_of(&self, elem: u64) -> Result<u64, RuleError> {
        let overflow = RuleError::Overflow { what: "the size of an array" };
        if let Order::Strides(strides) = &self.order {
            if strides.len() != self.counts.len() {
                return Err(RuleError::BadFragment { what: "an array needs one stride per dimension" });
            }
            if self.counts.contains(&0) {
                return Ok(0);
            }
            let reach = |stride: i64, count: u64| i64::try_from(count - 1).ok()?.checked_mul(stride);
            let mut total = i64::try_from(elem).map_err(|_| overflow.clone())?;
            for (&stride, &count) in strides.iter().zip(&self.counts) {
                let reach = reach(stride, count).and_then(i64::checked_abs);
                total = reach.and_then(|reach| total.checked_add(reach)).ok_or(overflow.clone())?;
            }
            return Ok(total as u64);
        }
        let total = self.counts.iter().try_fold(elem, |total, &count| total.checked_mul(count));
        total.filter(|&total| i64::try_from(total).is_ok()).ok_or(overflow)
    }

    /// Where the elements lie. The block's size has been checked.
    pub(crate) fn places(&self) -> Result<Places, RuleError> {
        let elem = self.element.bytes()?;
        let ndim = self.counts.len();
        if self.counts.contains(&0) {
            return Ok(Places::Strided { first: 0, strides: vec![0; ndim] });
        }
        let from_fastest: Vec<usize> = match &self.order {
            Order::Row => (0..ndim).rev().collect(),
            Order::Col => (0..ndim).collect(),
            Order::Perm(slowest_first) => {
                let mut seen = slowest_first.clone();
                seen.sort_unstable();
                if !seen.into_iter().eq(0..ndim) {
                    return Err(RuleError::BadFragment {
                        what: "an order is not a permutation of the dimensions",
                    });
                }
                slowest_first.iter().rev().copied().collect()
            }
            Order::Strides(strides) => {
                let back =
                    |(&count, &stride): (&u64, &i64)| count.saturating_sub(1) * stride.min(0).unsigned_abs();
                let first = self.counts.iter().zip(strides).map(back).sum();
                return Ok(Places::Strided { first, strides: strides.clone() });
            }
            Order::Morton => return self.ranked(curve::Curve::Morton, elem),
            Order::Hilbert => return self.ranked(curve::Curve::Hilbert, elem),
        };
        let mut strides = vec![0; ndim];
        let mut stride = elem;
        for k in from_fastest {
            strides[k] = stride as i64;
            stride *= self.counts[k];
        }
        Ok(Places::Strided { first: 0, strides })
    }

    fn ranked(&self, curve: curve::Curve, elem: u64) -> Result<Places, RuleError> {
        Ok(Places::Ranked { ranks: curve::ranks(curve, &self.counts)?, elem })
    }
}

/// Proves that a block of `bytes` at `offset` ends below 2^63.
pub(crate) fn end_of(offset: u64, bytes: u64) -> Result<u64, RuleError> {
    let overflow = RuleError::Overflow { what: "the size of a fragment" };
    let bytes = usize::try_from(bytes).map_err(|_| overflow.clone())?;
    span(offset, bytes, std::iter::empty()).map(|span| span.end).ok_or(overflow)
}
