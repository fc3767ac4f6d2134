//! Long-running work with a Python progress function, which may stop it.

use pyo3::prelude::*;
use pyo3::types::PyBool;

use crate::error::{Failure, Result};

/// Runs long work without the interpreter lock, and reports its progress to Python. The work stops if
/// `progress` returns `False` or raises, or on a signal. An exception is raised to the caller.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> drystone::Result<T> + Send,
) -> Result<T> {
    let mut raised: Option<PyErr> = None;
    let done = py.detach(|| {
        work(&mut |done, total| {
            Python::attach(|py| {
                let called = py.check_signals().and_then(|()| match progress {
                    Some(callback) => {
                        let answer = callback.call1(py, (done, total))?;
                        Ok(!answer.bind(py).is(PyBool::new(py, false)))
                    }
                    None => Ok(true),
                });
                called.unwrap_or_else(|error| {
                    raised = Some(error);
                    false
                })
            })
        })
    });
    match raised {
        Some(error) => Err(Failure::Python(error)),
        None => Ok(done?),
    }
}
