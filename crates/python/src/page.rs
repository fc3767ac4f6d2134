//! The page of a server, implemented in Python: its files and answers.

use std::sync::Arc;

use drystone_cli::{Page, PageAnswer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A function that returns the object with `file(name)` and `answer(place, name, question, query, most)`.
pub(crate) struct PythonPage(Py<PyAny>);

impl PythonPage {
    pub(crate) fn shared(made: Py<PyAny>) -> Arc<dyn Page> {
        Arc::new(PythonPage(made))
    }
}

impl Page for PythonPage {
    fn file(&self, name: &str) -> Option<(Vec<u8>, String)> {
        Python::attach(|py| {
            let found = self.0.bind(py).call0().and_then(|page| page.call_method1("file", (name,)));
            let found = found.and_then(|found| found.extract::<Option<(Bound<'_, PyBytes>, String)>>());
            found.ok().flatten().map(|(body, kind)| (body.as_bytes().to_vec(), kind))
        })
    }

    fn answer(&self, place: &str, name: &str, question: &str, query: &str, most: u64) -> PageAnswer {
        Python::attach(|py| {
            let asked = || -> PyResult<PageAnswer> {
                let page = self.0.bind(py).call0()?;
                let found = page.call_method1("answer", (place, name, question, query, most))?;
                let (status, kind, body): (u16, String, Bound<'_, PyBytes>) = found.extract()?;
                Ok(PageAnswer { status, kind, body: body.as_bytes().to_vec() })
            };
            asked().unwrap_or_else(|error| {
                error.write_unraisable(py, None);
                let body = br#"{"error":"the server's Python failed; its log says how"}"#.to_vec();
                PageAnswer { status: 500, kind: "application/json; charset=utf-8".into(), body }
            })
        })
    }
}
