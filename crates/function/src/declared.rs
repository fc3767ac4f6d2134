//! The properties of a function, as its owner declares them.

use std::time::Duration;

use drystone_expression::{MAX_HALO, is_function_name};
use drystone_format::dtype::Scalar;

use crate::{Error, Result};

/// The most dimensions of a tile.
pub(crate) const NDIM: usize = 8;

/// The properties of a function, as its owner declares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The name by which rules name it.
    pub name: String,
    /// The type that it reads.
    pub input: Scalar,
    /// The type that it writes.
    pub output: Scalar,
    /// The cells that it needs on each side, by dimension. Tiles have as many dimensions.
    pub halo: Vec<u64>,
    /// Whether several threads may call it at once.
    pub thread_safe: bool,
    /// The time for the results of one release.
    pub deadline: Duration,
    /// The most bytes of a release and its results.
    pub memory: u64,
}

impl Declared {
    /// The default of `deadline`.
    pub const DEADLINE: Duration = Duration::from_secs(10);
    /// The default of `memory`.
    pub const MEMORY: u64 = 256 << 20;

    /// Checks the declaration. Errors name the value.
    pub fn check(&self) -> Result<()> {
        if !is_function_name(&self.name) {
            return Err(Error::Invalid(format!(
                "{:?} is no name of a function: it has 1 to 64 letters, digits, '_', '-' and '.'",
                self.name
            )));
        }
        if self.halo.is_empty() || self.halo.len() > NDIM {
            return Err(Error::Invalid(format!(
                "a function has 1 to {NDIM} dimensions, not {}",
                self.halo.len()
            )));
        }
        if let Some(halo) = self.halo.iter().find(|halo| **halo > u64::from(MAX_HALO)) {
            return Err(Error::Invalid(format!("a halo has at most {MAX_HALO} cells, not {halo}")));
        }
        for scalar in [self.input, self.output] {
            code(scalar).ok_or_else(|| {
                Error::Invalid(format!(
                    "functions take truth values, integers and floats, not {}",
                    scalar.name()
                ))
            })?;
        }
        if self.deadline.is_zero() {
            return Err(Error::Invalid("a deadline is longer than 0".into()));
        }
        Ok(())
    }
}

/// The element type of a text: `f4`, or NumPy's name, as `float32`.
pub fn element_type(text: &str) -> Option<Scalar> {
    let short = |scalar: Scalar| {
        code(scalar).is_some_and(|code| {
            let kind = char::from(u8::try_from(code >> 8).unwrap_or(0));
            text.strip_prefix(kind).is_some_and(|size| size == scalar.size().to_string())
        })
    };
    Scalar::all()
        .find(|scalar| short(*scalar))
        .or_else(|| Scalar::parse(text).filter(|scalar| code(*scalar).is_some()))
}

/// The header's code of a type: the letter of NumPy's kind, and the size.
pub(crate) fn code(scalar: Scalar) -> Option<u32> {
    use Scalar::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let kind = match scalar {
        Bool => b'b',
        I8 | I16 | I32 | I64 => b'i',
        U8 | U16 | U32 | U64 => b'u',
        F16 | F32 | F64 => b'f',
        _ => return None,
    };
    Some(u32::from(kind) << 8 | scalar.size())
}
