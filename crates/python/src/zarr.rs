//! A snapshot as a Zarr hierarchy: documents and chunks by key.

use std::collections::BTreeMap;

use drystone::ZarrView;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;

/// A virtual Zarr hierarchy of a snapshot; nothing is stored.
#[pyclass(frozen, name = "ZarrHandle", module = "drystone._core")]
pub(crate) struct ZarrHandle {
    view: ZarrView,
}

impl ZarrHandle {
    pub(crate) fn new(view: ZarrView) -> Self {
        ZarrHandle { view }
    }
}

#[pymethods]
impl ZarrHandle {
    #[getter]
    fn version(&self) -> u64 {
        self.view.version()
    }

    /// Metadata documents by node; the root's under "".
    #[getter]
    fn documents(&self) -> BTreeMap<String, String> {
        self.view.documents().map(|(node, text)| (node.to_owned(), text)).collect()
    }

    /// Paths of variables that are left out, and why.
    #[getter]
    fn skipped(&self) -> BTreeMap<String, String> {
        self.view.skipped().iter().map(|s| (s.variable.clone(), s.reason.clone())).collect()
    }

    /// Path of the variable, and whether the client declared its encoding; `None` if the node is not an array.
    fn array(&self, node: &str) -> Option<(String, bool)> {
        self.view.array(node).map(|(path, declared)| (path.to_owned(), declared))
    }

    fn has_chunk(&self, py: Python<'_>, node: &str, index: Vec<u64>) -> Result<bool> {
        Ok(py.detach(|| self.view.has_chunk(node, &index))?)
    }

    /// Whether a commit after the given one wrote to a chunk.
    fn has_chunk_since(&self, py: Python<'_>, node: &str, index: Vec<u64>, deleted: u64) -> Result<bool> {
        Ok(py.detach(|| self.view.has_chunk_since(node, &index, deleted))?)
    }

    fn chunks(&self, py: Python<'_>, node: &str) -> Result<Vec<Vec<u64>>> {
        Ok(py.detach(|| self.view.chunks(node))?)
    }

    fn chunk<'py>(
        &self,
        py: Python<'py>,
        node: &str,
        index: Vec<u64>,
    ) -> Result<Option<Bound<'py, PyBytes>>> {
        let bytes = py.detach(|| self.view.chunk(node, &index))?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }
}
