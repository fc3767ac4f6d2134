//! Strided and listed copies between memory layouts, and the kernels that run them. No I/O, no dependencies.
//!
//! [`StridedCopy`] is the canonical n-dimensional copy. [`ConvertCopy`] also converts the type of every number.
//! [`ListedCopy`] copies at lists of offsets, with a strided part at each. [`Abreast`] runs similar copies side by
//! side.
//!
//! Nothing here panics or touches memory outside the given buffers, for any requested copy.

mod abreast;
mod convert;
mod copy;
mod dim;
mod dtype;
mod error;
mod extend;
mod fill;
mod kernel;
mod listed;
mod number;
mod show;
mod threads;

pub use abreast::{Abreast, LaneBytes};
pub use convert::ConvertCopy;
pub use copy::StridedCopy;
pub use dim::{Dim, span};
pub use dtype::{Dtype, Narrowing, NumberKind};
pub use error::{CopyError, Side};
pub use extend::extend_past_caches;
pub use fill::fill;
pub use listed::ListedCopy;
pub use threads::THREAD_THRESHOLD;
