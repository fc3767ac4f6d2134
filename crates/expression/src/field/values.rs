//! Owned values of one type.

use crate::dense::{Column, ColumnMut};
use crate::types::Type;

/// Evaluates an expression with names bound to the vectors of two values of one type. Two types: does nothing.
macro_rules! for_pair {
    ($from:expr, $to:expr, $a:ident, $b:ident => $body:expr) => {
        match ($from, $to) {
            (Values::Bool($a), Values::Bool($b)) => $body,
            (Values::I1($a), Values::I1($b)) => $body,
            (Values::I2($a), Values::I2($b)) => $body,
            (Values::I4($a), Values::I4($b)) => $body,
            (Values::I8($a), Values::I8($b)) => $body,
            (Values::U1($a), Values::U1($b)) => $body,
            (Values::U2($a), Values::U2($b)) => $body,
            (Values::U4($a), Values::U4($b)) => $body,
            (Values::U8($a), Values::U8($b)) => $body,
            (Values::F4($a), Values::F4($b)) => $body,
            (Values::F8($a), Values::F8($b)) => $body,
            _ => {}
        }
    };
}

/// Values of a box in row-major order, and which of them are known.
#[derive(Debug, Clone)]
pub struct Array {
    /// One value per cell; those of unknown cells are meaningless.
    pub values: Values,
    /// One byte per cell, 0 where the value is unknown; `None`: all are known.
    pub known: Option<Vec<u8>>,
}

macro_rules! values {
    ($($variant:ident $t:ty),*) => {
        /// Values of cells in row-major order. Truth values are bytes; 0 is false.
        #[derive(Debug, Clone)]
        #[allow(missing_docs)]
        pub enum Values {
            $($variant(Vec<$t>),)*
        }

        impl Values {
            /// That many values, all zero or false.
            pub fn new(dtype: Type, count: usize) -> Values {
                match dtype {
                    $(Type::$variant => Values::$variant(vec![<$t>::default(); count]),)*
                }
            }

            /// Their type.
            pub fn dtype(&self) -> Type {
                match self {
                    $(Values::$variant(_) => Type::$variant,)*
                }
            }

            /// Number of values.
            pub fn count(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.len(),)*
                }
            }

            /// Number of values that fit without allocation.
            pub(super) fn capacity(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.capacity(),)*
                }
            }

            /// Changes the number of values; new ones are zero.
            pub(super) fn resize(&mut self, count: usize) {
                match self {
                    $(Values::$variant(values) => values.resize(count, <$t>::default()),)*
                }
            }

            /// Copies `from`, of the same type, to positions from `at` on. Does nothing if it does not fit.
            pub(super) fn put(&mut self, at: usize, from: &Values) {
                for_pair!(self, from, to, from => {
                    if let Some(to) = to.get_mut(at..at + from.len()) {
                        to.copy_from_slice(from);
                    }
                });
            }

            /// The values as an input of a program.
            pub fn column(&self) -> Column<'_> {
                match self {
                    $(Values::$variant(values) => Column::$variant(values),)*
                }
            }

            /// The values as the output of a program.
            pub fn column_mut(&mut self) -> ColumnMut<'_> {
                match self {
                    $(Values::$variant(values) => ColumnMut::$variant(values),)*
                }
            }
        }
    };
}

values!(Bool u8, I1 i8, I2 i16, I4 i32, I8 i64, U1 u8, U2 u16, U4 u32, U8 u64, F4 f32, F8 f64);

pub(super) use for_pair;
