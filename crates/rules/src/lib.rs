//! Conversion rules between memory layouts, and the kernels that run them. No I/O, no dependencies.

mod copy;
mod error;
mod fill;
mod kernel;
mod threads;

pub use copy::{Dim, StridedCopy};
pub use error::{RuleError, Side};
pub use fill::fill;
pub use threads::THREAD_THRESHOLD;
