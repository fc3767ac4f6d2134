//! Engine errors as the exceptions of `drystone.errors`, one class per kind.

use drystone::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An error of this module: the engine's, or a Python exception.
#[derive(Debug)]
pub(crate) enum Failure {
    /// From the engine.
    Engine(Error),
    /// From Python: raised as it is.
    Python(PyErr),
}

/// Result of this module.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for Failure {
    fn from(error: pyo3::CastError<'a, 'py>) -> Self {
        Failure::Python(error.into())
    }
}

impl From<pyo3::CastIntoError<'_>> for Failure {
    fn from(error: pyo3::CastIntoError<'_>) -> Self {
        Failure::Python(error.into())
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => error,
            Failure::Engine(error) => Python::attach(|py| raise(py, &error)),
        }
    }
}

fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error.kind() {
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::InvalidArgument => "InvalidArgumentError",
        ErrorKind::OutOfRange => "OutOfRangeError",
        ErrorKind::Io => "IoError",
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::Permission => "PermissionError",
        ErrorKind::Deadline => "DeadlineError",
        ErrorKind::NotYetHome => "NotYetHome",
    };
    let class = py
        .import("drystone.errors")
        .and_then(|errors| errors.getattr(name))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match class {
        Ok(class) => match error.away() {
            Some(away) => PyErr::from_type(class, (error.to_string(), away.node.clone(), away.bytes)),
            None => PyErr::from_type(class, error.to_string()),
        },
        Err(missing) => missing,
    }
}

/// The caller's arguments are wrong.
pub(crate) fn invalid(message: impl Into<String>) -> Failure {
    Failure::Engine(Error::new(ErrorKind::InvalidArgument, message))
}

/// A feature that this version does not support.
pub(crate) fn unsupported(message: impl Into<String>) -> Failure {
    Failure::Engine(Error::new(ErrorKind::Unsupported, message))
}

/// An index outside the array, or something that is not an index.
pub(crate) fn out_of_range(message: impl Into<String>) -> Failure {
    Failure::Engine(Error::new(ErrorKind::OutOfRange, message))
}

/// True for `NotFound`: the caller may refresh and look again.
pub(crate) fn is_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
