//! Values of expressions as memory to read into and to copy from.

use std::sync::Mutex;

use drystone_expression::{Spare, Values};

use crate::Result;
use crate::base::array::Target;
use crate::base::buffer_pool::Kept;

/// Memory for values of inputs and results, reused for the next tile or the next read.
impl Kept for Spare {
    const MOST: (usize, usize) = (2, 12 << 20);

    fn held(&self) -> usize {
        self.memory_len()
    }

    // The old content is not erased: the next user overwrites it.
    fn forget(&mut self) {}

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Spare>> = Mutex::new(Vec::new());
        &SPARE
    }
}

macro_rules! each {
    ($values:expr, $v:ident => $body:expr) => {
        match $values {
            Values::Bool($v) => $body,
            Values::I1($v) => $body,
            Values::I2($v) => $body,
            Values::I4($v) => $body,
            Values::I8($v) => $body,
            Values::U1($v) => $body,
            Values::U2($v) => $body,
            Values::U4($v) => $body,
            Values::U8($v) => $body,
            Values::F4($v) => $body,
            Values::F8($v) => $body,
        }
    };
}

/// The bytes of the values, and the bytes per value.
pub(super) fn bytes(values: &Values) -> (&[u8], usize) {
    each!(values, v => {
        let len = size_of_val(v.as_slice());
        // SAFETY: the bytes are those of a slice of numbers, which have no padding; they are borrowed with it.
        (unsafe { std::slice::from_raw_parts(v.as_ptr().cast(), len) }, len.checked_div(v.len()).unwrap_or(1))
    })
}

/// The mutable bytes of the values, and the bytes per value.
pub(super) fn bytes_mut(values: &mut Values) -> (&mut [u8], usize) {
    each!(values, v => {
        let len = size_of_val(v.as_slice());
        let item = len.checked_div(v.len()).unwrap_or(1);
        // SAFETY: as in `bytes`; the borrow is exclusive, and every pattern of bits is a value of each of the types.
        (unsafe { std::slice::from_raw_parts_mut(v.as_mut_ptr().cast(), len) }, item)
    })
}

/// The memory of the values as a target to read into, with strides in cells.
pub(super) fn target<'v>(values: &'v mut Values, shape: &[u64], strides: &[u64]) -> Result<Target<'v>> {
    let (count, item) =
        each!(&*values, v => (v.len() as u64, size_of_val(v.as_slice()).checked_div(v.len()).unwrap_or(1)));
    let last = shape.iter().zip(strides).map(|(n, stride)| n.saturating_sub(1).saturating_mul(*stride));
    if shape.iter().product::<u64>() != count || last.fold(0, u64::saturating_add) >= count.max(1) {
        return Err(crate::Error::invalid(format!("{count} values are given for a box of {shape:?}")));
    }
    let strides: Vec<i64> = strides.iter().map(|stride| (stride * item as u64) as i64).collect();
    let first = each!(values, v => v.as_mut_ptr().cast::<u8>());
    // SAFETY: the elements belong to a vector that is borrowed exclusively as long as the target lives. The last
    // element is among its values, and every bit pattern is a value of each of the types.
    unsafe { Target::new(first, shape, &strides, item) }
}

/// The strides in cells of a dense box.
pub(super) fn dense(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1u64; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = strides[d + 1].saturating_mul(shape[d + 1].max(1));
    }
    strides
}
