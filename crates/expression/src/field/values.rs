//! Values of one type that belong to whoever computes them.

use crate::dense::{Column, ColumnMut};
use crate::types::Type;

/// Evaluates an expression with names for the vectors of two values of one type; nothing happens for two types.
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
    /// One per cell; those of unknown cells mean nothing.
    pub values: Values,
    /// One byte per cell, 0 where the value is not known; `None`: all are.
    pub known: Option<Vec<u8>>,
}

macro_rules! values {
    ($($variant:ident $t:ty),*) => {
        /// Values of cells in row-major order. Truth values are bytes, of which 0 is false.
        #[derive(Debug, Clone)]
        #[allow(missing_docs)]
        pub enum Values {
            $($variant(Vec<$t>),)*
        }

        impl Values {
            /// So many, all zero or false.
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

            /// How many there are.
            pub fn count(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.len(),)*
                }
            }

            /// How many there is room for.
            pub(super) fn capacity(&self) -> usize {
                match self {
                    $(Values::$variant(values) => values.capacity(),)*
                }
            }

            /// Changes their number; those that come on top are zero.
            pub(super) fn resize(&mut self, count: usize) {
                match self {
                    $(Values::$variant(values) => values.resize(count, <$t>::default()),)*
                }
            }

            /// Copies all of `from`, of the same type, to the places from `at` on; nothing happens if they do not fit.
            pub(super) fn put(&mut self, at: usize, from: &Values) {
                for_pair!(self, from, to, from => {
                    if let Some(to) = to.get_mut(at..at + from.len()) {
                        to.copy_from_slice(from);
                    }
                });
            }

            /// To be read by a program.
            pub fn column(&self) -> Column<'_> {
                match self {
                    $(Values::$variant(values) => Column::$variant(values),)*
                }
            }

            /// To be written by a program.
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
