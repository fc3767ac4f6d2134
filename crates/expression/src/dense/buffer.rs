//! Values of any type: columns from outside, buffers of one block.

use super::BLOCK;
use crate::constant::Scalar;
use crate::types::Type;

macro_rules! typed {
    ($($variant:ident $t:ty),*) => {
        /// Values of one input. Truth values are bytes; 0 is false.
        #[derive(Debug, Clone, Copy)]
        #[allow(missing_docs)]
        pub enum Column<'a> {
            Bool(&'a [u8]),
            $($variant(&'a [$t]),)*
        }

        impl<'a> Column<'a> {
            /// The type of the values.
            pub fn dtype(&self) -> Type {
                match self {
                    Column::Bool(_) => Type::Bool,
                    $(Column::$variant(_) => Type::$variant,)*
                }
            }

            /// The values from an index on.
            pub(crate) fn from(self, first: usize) -> Column<'a> {
                match self {
                    Column::Bool(values) => Column::Bool(values.get(first..).unwrap_or_default()),
                    $(Column::$variant(values) => Column::$variant(values.get(first..).unwrap_or_default()),)*
                }
            }

            /// Number of values.
            pub fn count(&self) -> usize {
                match self {
                    Column::Bool(values) => values.len(),
                    $(Column::$variant(values) => values.len(),)*
                }
            }
        }

        /// Memory for the values of a result. Truth values are bytes, 0 or 1.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub enum ColumnMut<'a> {
            Bool(&'a mut [u8]),
            $($variant(&'a mut [$t]),)*
        }

        impl ColumnMut<'_> {
            /// The type of the values.
            pub fn dtype(&self) -> Type {
                match self {
                    ColumnMut::Bool(_) => Type::Bool,
                    $(ColumnMut::$variant(_) => Type::$variant,)*
                }
            }

            /// Number of values that fit.
            pub fn count(&self) -> usize {
                match self {
                    ColumnMut::Bool(values) => values.len(),
                    $(ColumnMut::$variant(values) => values.len(),)*
                }
            }
        }

        /// Values of one block, or the one number of a constant. Constant truth values fill a block.
        #[derive(Debug)]
        pub(super) enum Buffer {
            Bits(Vec<u64>),
            $($variant(Vec<$t>),)*
        }

        impl Buffer {
            pub(super) fn new(dtype: Type, cells: usize) -> Self {
                match dtype {
                    Type::Bool => Buffer::Bits(vec![0; BLOCK / 64]),
                    $(Type::$variant => Buffer::$variant(vec![Default::default(); cells]),)*
                }
            }

            /// Sets every cell to the value.
            pub(super) fn fill(&mut self, value: Scalar) {
                let (integer, float) = match value {
                    Scalar::Bool(b) => (i128::from(b), f64::from(u8::from(b))),
                    Scalar::Integer(n) => (n, n as f64),
                    Scalar::Float(x) => (0, x),
                };
                match self {
                    Buffer::Bits(words) => words.fill(if integer == 0 { 0 } else { u64::MAX }),
                    Buffer::I1(values) => values.fill(integer as i8),
                    Buffer::I2(values) => values.fill(integer as i16),
                    Buffer::I4(values) => values.fill(integer as i32),
                    Buffer::I8(values) => values.fill(integer as i64),
                    Buffer::U1(values) => values.fill(integer as u8),
                    Buffer::U2(values) => values.fill(integer as u16),
                    Buffer::U4(values) => values.fill(integer as u32),
                    Buffer::U8(values) => values.fill(integer as u64),
                    Buffer::F4(values) => values.fill(float as f32),
                    Buffer::F8(values) => values.fill(float),
                }
            }
        }

        $(impl Typed for $t {
            fn column<'a>(column: &Column<'a>) -> &'a [Self] {
                if let Column::$variant(values) = column { values } else { &[] }
            }

            fn room<'a>(column: &'a mut ColumnMut<'_>) -> &'a mut [Self] {
                if let ColumnMut::$variant(values) = column { values } else { &mut [] }
            }

            fn buffer(buffer: &Buffer) -> &[Self] {
                if let Buffer::$variant(values) = buffer { values } else { &[] }
            }

            fn buffer_mut(buffer: &mut Buffer) -> &mut [Self] {
                if let Buffer::$variant(values) = buffer { values } else { &mut [] }
            }
        })*
    };
}

/// A type that columns and buffers can hold. Asked for another type, they return an empty slice; no program does so.
pub(super) trait Typed: Sized + 'static {
    fn column<'a>(column: &Column<'a>) -> &'a [Self];
    fn room<'a>(column: &'a mut ColumnMut<'_>) -> &'a mut [Self];
    fn buffer(buffer: &Buffer) -> &[Self];
    fn buffer_mut(buffer: &mut Buffer) -> &mut [Self];
}

typed!(I1 i8, I2 i16, I4 i32, I8 i64, U1 u8, U2 u16, U4 u32, U8 u64, F4 f32, F8 f64);

impl Default for Buffer {
    fn default() -> Self {
        Buffer::Bits(Vec::new())
    }
}

impl Buffer {
    pub(super) fn memory_len(&self) -> usize {
        match self {
            Buffer::Bits(words) => 8 * words.len(),
            Buffer::I1(values) => values.len(),
            Buffer::U1(values) => values.len(),
            Buffer::I2(values) => 2 * values.len(),
            Buffer::U2(values) => 2 * values.len(),
            Buffer::I4(values) => 4 * values.len(),
            Buffer::U4(values) => 4 * values.len(),
            Buffer::F4(values) => 4 * values.len(),
            Buffer::I8(values) => 8 * values.len(),
            Buffer::U8(values) => 8 * values.len(),
            Buffer::F8(values) => 8 * values.len(),
        }
    }

    /// The words of a buffer of truth values.
    pub(super) fn words(&self) -> &[u64] {
        if let Buffer::Bits(words) = self { words } else { &[] }
    }
}
