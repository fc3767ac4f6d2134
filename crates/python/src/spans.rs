//! Spans of the engine, passed to a Python function.

use std::sync::{Mutex, PoisonError};

use drystone::{Listening, SpanKind, listen_to_spans as listen};
use pyo3::prelude::*;

/// A subscription: calls a function with spans until it is closed or collected.
#[pyclass(frozen, name = "SpanListener", module = "drystone._core")]
pub(crate) struct SpanListener(Mutex<Option<Listening>>);

#[pymethods]
impl SpanListener {
    /// Ends it.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

/// Subscribes `listener(kind, container, variable, seconds, (wanted_bytes, bytes, requests, rounds, blocks))`
/// to each read, put, drain and cache load. The Python layer reports commits, publications and recoveries
/// itself, with more details.
#[pyfunction]
pub(crate) fn listen_to_spans(listener: Py<PyAny>) -> SpanListener {
    SpanListener(Mutex::new(Some(listen(move |span| {
        if matches!(span.kind, SpanKind::Commit | SpanKind::Publish | SpanKind::Recover) {
            return;
        }
        let kind = span.kind.name();
        let v = &span.values;
        let values = (v.wanted_bytes, v.bytes, v.requests, v.rounds, v.blocks);
        // A process that is ending may have no interpreter.
        let _ = Python::try_attach(|py| {
            let seconds = span.duration.as_secs_f64();
            let told = listener.call1(py, (kind, span.container, span.variable, seconds, values));
            if let Err(error) = told {
                error.write_unraisable(py, None);
            }
        });
    }))))
}
