//! The logical description of a subchunk, kept apart from its bytes: stores see only the bytes, codecs see both.

use crate::TransformError;
use crate::stats::ScalarKind;
use crate::stats::class::Class;

/// The meaning of one subchunk's bytes.
///
/// It is not stored with the subchunk: the index has it, and encoding and decoding must get the same description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logical {
    /// Bytes of one element; a vector or a complex number is one element.
    pub item: usize,
    /// Bytes of a scalar in the element: 4 for `f4`, 8 for either half of a `complex128`.
    pub scalar: usize,
    /// The kind of the scalars: `F64` for `complex128`, `Other` for text and opaque bytes.
    pub kind: ScalarKind,
    /// Elements along each axis, slowest first; empty for a single value.
    pub shape: Vec<u64>,
}

impl Logical {
    /// A one-dimensional run of `count` plain scalars of `item` bytes of unknown kind.
    pub fn scalars(item: usize, count: u64) -> Logical {
        Logical { item, scalar: item, kind: ScalarKind::Other, shape: vec![count] }
    }

    /// A one-dimensional run of `count` numbers of a kind.
    pub fn numbers(kind: ScalarKind, count: u64) -> Logical {
        let size = kind.size();
        Logical { item: size, scalar: size, kind, shape: vec![count] }
    }

    /// Fails unless the scalars have this class and width in bytes. `what` names what was found instead.
    pub(crate) fn must_hold(&self, class: Class, width: usize, what: &str) -> Result<(), TransformError> {
        match width == self.scalar && class == Class::of(self.kind, self.scalar) {
            true => Ok(()),
            false => Err(TransformError::corrupt(what, 1)),
        }
    }
}
