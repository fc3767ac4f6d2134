//! A snapshot as a Zarr hierarchy: documents and chunks by key.

use std::collections::BTreeMap;

use drystone::ZarrView;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;

/// A snapshot as a Zarr hierarchy that is nowhere stored.
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

    /// Paths of variables that are not shown, and why.
    #[getter]
    fn skipped(&self) -> BTreeMap<String, String> {
        self.view.skipped().iter().map(|s| (s.variable.clone(), s.reason.clone())).collect()
    }

    /// Path of the variable, and whether its encoding was declared by a client; `None` if the node is no array.
    fn array(&self, node: &str) -> Option<(String, bool)> {
        self.view.array(node).map(|(path, declared)| (path.to_owned(), declared))
    }

    fn has_chunk(&self, py: Python<'_>, node: &str, index: Vec<u64>) -> Result<bool> {
        Ok(py.detach(|| self.view.has_chunk(node, &index))?)
    }

    /// Whether commits after a given one wrote to a chunk.
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
