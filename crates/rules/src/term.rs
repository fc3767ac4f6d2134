//! The terms of a rule: copies, and copies that convert.

use std::fmt;
use std::ops::Range;

use drystone_copy::{ConvertCopy, StridedCopy};

use crate::error::RuleError;

/// One term of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Term {
    /// Moves bytes unchanged.
    Copy(StridedCopy),
    /// Changes the type or byte order of numbers.
    Convert(ConvertCopy),
}

impl Term {
    /// Bytes written.
    pub fn bytes(&self) -> u64 {
        match self {
            Term::Copy(copy) => copy.bytes(),
            Term::Convert(convert) => convert.bytes(),
        }
    }

    /// The range from the lowest to the highest byte that is read.
    pub fn src_span(&self) -> Range<u64> {
        match self {
            Term::Copy(copy) => copy.src_span(),
            Term::Convert(convert) => convert.src_span(),
        }
    }

    /// The range from the lowest to the highest byte that is written.
    pub fn dst_span(&self) -> Range<u64> {
        match self {
            Term::Copy(copy) => copy.dst_span(),
            Term::Convert(convert) => convert.dst_span(),
        }
    }

    /// Checks that buffers of these sizes hold every byte that is touched.
    pub fn check(&self, src_len: u64, dst_len: u64) -> Result<(), RuleError> {
        match self {
            Term::Copy(copy) => copy.check(src_len, dst_len)?,
            Term::Convert(convert) => convert.check(src_len, dst_len)?,
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Copy(copy) => copy.fmt(f),
            Term::Convert(convert) => convert.fmt(f),
        }
    }
}
