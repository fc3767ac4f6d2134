//! A Python function as a source of credentials.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use drystone::{Credentials, Supplied};
use pyo3::prelude::*;

/// The function that `drystone.location.supplier` makes of the caller's: returns names with values, and seconds
/// since 1970 or None.
pub(crate) struct Callback(Py<PyAny>);

impl Callback {
    pub(crate) fn of(function: Option<Py<PyAny>>) -> Option<Arc<dyn Credentials>> {
        Some(Arc::new(Callback(function?)))
    }
}

impl Credentials for Callback {
    fn id(&self) -> usize {
        self.0.as_ptr().addr()
    }

    fn supply(&self) -> Result<Supplied, String> {
        // No Python function can be called while the interpreter ends.
        let ended = || Err("Python is ending".into());
        Python::try_attach(|py| {
            let given = self.0.bind(py).call0().and_then(|said| said.extract());
            let (values, expires): (Vec<(String, String)>, Option<f64>) = given.map_err(|error| {
                let kind = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
                // The exception's text may contain a secret, so Python reports it as an exception that cannot
                // be caught.
                error.write_unraisable(py, Some(self.0.bind(py)));
                format!("it raised {kind}, which is shown on standard error")
            })?;
            let after = |seconds: f64| Duration::try_from_secs_f64(seconds.max(0.0)).ok();
            let expires = expires.and_then(after).and_then(|after| SystemTime::UNIX_EPOCH.checked_add(after));
            Ok(Supplied { values, expires })
        })
        .unwrap_or_else(ended)
    }
}
