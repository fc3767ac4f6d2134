//! The loops of each type, compiled for several processors.

use drystone_vectorised::vectorised;

use super::bits;
use super::buffer::Buffer;
use super::chain::Chain;
use super::number::{self, Number};
use crate::tree::{Binary, Unary};

vectorised! {
    /// A function whose result has the operand's type.
    pub(super) fn unary<T: Number>(op: Unary, a: &[T], out: &mut [T]) {
        T::unary(op, a, out)
    }
}

vectorised! {
    /// An operator whose result has the operands' type.
    pub(super) fn binary<T: Number>(op: Binary, a: &[T], b: &[T], out: &mut [T]) {
        T::binary(op, a, b, out)
    }
}

vectorised! {
    /// Two operators in one loop.
    pub(super) fn chain<T: Number>(chain: &Chain, a: &[T], b: &[T], c: &[T], out: &mut [T]) {
        T::chain(chain, a, b, c, out)
    }
}

vectorised! {
    /// One bit per value, from a test.
    pub(super) fn test<T: Number>(op: Unary, a: &[T], out: &mut [u64]) {
        T::test(op, a, out)
    }
}

vectorised! {
    /// One bit per pair, from a comparison operator.
    pub(super) fn compare<T: Number>(op: Binary, a: &[T], b: &[T], out: &mut [u64]) {
        number::compare(op, a, b, out)
    }
}

vectorised! {
    /// A conversion to the type of a buffer.
    pub(super) fn cast<T: Number>(a: &[T], out: &mut Buffer, cells: usize) {
        T::cast(a, out, cells)
    }
}

vectorised! {
    /// Selects each value from one side or the other.
    pub(super) fn choose<T: Number>(condition: &[u64], a: &[T], b: &[T], out: &mut [T]) {
        bits::choose(condition, a, b, out)
    }
}

/// Copies values; that of a constant is repeated.
pub(super) fn copy<T: Copy>(a: &[T], out: &mut [T]) {
    match a {
        &[x] => out.fill(x),
        _ => out.copy_from_slice(a),
    }
}
