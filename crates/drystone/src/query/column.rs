//! The values of one input in memory, in a type that expressions accept.

use drystone_expression::{Column, ColumnMut, Scalar, Type};

use crate::Result;
use crate::base::array::{Target, dense_strides};

/// A number from a constant of expressions, if it has that value.
trait Of: Sized {
    fn of(scalar: Scalar) -> Option<Self>;
}

macro_rules! of {
    ($($t:ty),*) => {$(
        impl Of for $t {
            fn of(scalar: Scalar) -> Option<Self> {
                match scalar {
                    Scalar::Bool(value) => Some(value.into()),
                    Scalar::Integer(value) => value.try_into().ok(),
                    Scalar::Float(_) => None,
                }
            }
        }
    )*};
}

of! { i8, i16, i32, i64, u8, u16, u32, u64 }

impl Of for f64 {
    fn of(scalar: Scalar) -> Option<Self> {
        if let Scalar::Float(value) = scalar { Some(value) } else { None }
    }
}

impl Of for f32 {
    fn of(scalar: Scalar) -> Option<Self> {
        f64::of(scalar).map(|value| value as f32).filter(|value| Some(f64::from(*value)) == f64::of(scalar))
    }
}

macro_rules! columns {
    ($($variant:ident $t:ty),*) => {
        /// Values, one per cell of a box in row-major order.
        #[derive(Debug, Clone)]
        pub(super) enum Values {
            $($variant(Vec<$t>),)*
        }

        impl Values {
            /// No values of a type.
            pub(super) fn new(dtype: Type) -> Values {
                match dtype {
                    $(Type::$variant => Values::$variant(Vec::new()),)*
                }
            }

            /// Resizes to this many values. Their content is unspecified.
            pub(super) fn resize(&mut self, count: usize) {
                match self {
                    $(Values::$variant(values) => values.resize(count, <$t>::default()),)*
                }
            }

            /// Becomes this many times one value. Does nothing and returns false if the value is of another type.
            pub(super) fn fill(&mut self, scalar: Scalar, count: usize) -> bool {
                match self {
                    $(Values::$variant(values) => {
                        let Some(value) = <$t as Of>::of(scalar) else { return false };
                        values.clear();
                        values.resize(count, value);
                    })*
                }
                true
            }

            /// The values as an input of an expression.
            pub(super) fn column(&self) -> Column<'_> {
                match self {
                    $(Values::$variant(values) => Column::$variant(values),)*
                }
            }

            /// The values as memory for the result of an expression.
            pub(super) fn column_mut(&mut self) -> ColumnMut<'_> {
                match self {
                    $(Values::$variant(values) => ColumnMut::$variant(values),)*
                }
            }

            /// The bytes of the values, and the bytes per value.
            pub(super) fn bytes(&self) -> (&[u8], usize) {
                match self {
                    $(Values::$variant(values) => {
                        let len = size_of_val(values.as_slice());
                        // SAFETY: the bytes are those of a slice of numbers without padding, and are borrowed with it.
                        (unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), len) }, size_of::<$t>())
                    })*
                }
            }

            fn memory(&mut self) -> (*mut u8, usize, usize) {
                match self {
                    $(Values::$variant(values) => {
                        (values.as_mut_ptr().cast(), values.len(), size_of::<$t>())
                    })*
                }
            }

            /// Repeats and reorders values of a box with fewer axes, or with axes in another order, over a box.
            /// `strides` has the number of elements from one cell to the next along each axis of that box; 0 where
            /// the value repeats.
            pub(super) fn spread(&self, shape: &[u64], strides: &[usize], out: &mut Values) {
                match (self, out) {
                    $((Values::$variant(from), Values::$variant(to)) => spread(from, shape, strides, to),)*
                    _ => {}
                }
            }
        }
    };
}

columns! { Bool u8, I1 i8, I2 i16, I4 i32, I8 i64, U1 u8, U2 u16, U4 u32, U8 u64, F4 f32, F8 f64 }

impl Values {
    /// The memory of the values as a target to read into. The shape has as many cells as there are values.
    pub(super) fn target(&mut self, shape: &[u64]) -> Result<Target<'_>> {
        let (first, count, item) = self.memory();
        let cells = shape.iter().try_fold(1usize, |cells, n| cells.checked_mul(usize::try_from(*n).ok()?));
        if cells != Some(count) {
            return Err(crate::Error::invalid(format!("{count} values are given for a box of {shape:?}")));
        }
        let strides = dense_strides(shape, item as u64)?;
        // SAFETY: the elements belong to a vector that is borrowed exclusively as long as the target lives. The shape
        // was compared with its length, the strides are dense, and every bit pattern is a value of each of the types.
        unsafe { Target::new(first, shape, &strides, item) }
    }
}

fn spread<T: Copy>(from: &[T], shape: &[u64], strides: &[usize], to: &mut Vec<T>) {
    to.clear();
    let Some((&row, outer)) = shape.split_last() else {
        to.extend(from.first());
        return;
    };
    let step = strides.last().copied().unwrap_or(0);
    let mut at = vec![0u64; outer.len()];
    if shape.contains(&0) {
        return;
    }
    loop {
        let first: usize = at.iter().zip(strides).map(|(at, stride)| *at as usize * stride).sum();
        match step {
            0 => to.extend(
                from.get(first).map(|value| std::iter::repeat_n(*value, row as usize)).into_iter().flatten(),
            ),
            1 => to.extend(from.get(first..first + row as usize).unwrap_or_default()),
            step => to.extend(from.get(first..).unwrap_or_default().iter().step_by(step).take(row as usize)),
        }
        let Some(d) = (0..outer.len()).rev().find(|&d| at[d] + 1 < outer[d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_repeated_and_turned() {
        let from = Values::I4(vec![1, 2, 3]);
        let mut out = Values::new(Type::I4);
        from.spread(&[2, 3], &[0, 1], &mut out);
        assert!(matches!(&out, Values::I4(v) if *v == [1, 2, 3, 1, 2, 3]));
        from.spread(&[3, 2], &[1, 0], &mut out);
        assert!(matches!(&out, Values::I4(v) if *v == [1, 1, 2, 2, 3, 3]));
        let square = Values::I4(vec![1, 2, 3, 4]);
        square.spread(&[2, 2], &[1, 2], &mut out);
        assert!(matches!(&out, Values::I4(v) if *v == [1, 3, 2, 4]));
    }
}
