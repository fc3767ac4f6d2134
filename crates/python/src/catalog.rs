//! Catalogues: every call releases the interpreter lock while containers are looked at.

use drystone_catalog::{AddReport, Catalog};
use pyo3::prelude::*;

use crate::error::Result;

/// (added, unchanged, (path, error))
type Added = (u64, u64, Vec<(String, String)>);
/// (path, uuid in hexadecimal, snapshot, nanoseconds since 1970, stale)
type FoundItem = (String, String, u64, u64, bool);
/// (found, gone, closed)
type FoundResult = (Vec<FoundItem>, u64, u64);
/// (containers, pages, bytes, damage, stale, gone, closed)
type CheckResult = (u64, u64, u64, Vec<String>, Vec<String>, Vec<String>, u64);

fn added(report: AddReport) -> Added {
    let failed = report.failed.into_iter().map(|(path, error)| (path, error.to_string())).collect();
    (report.added, report.unchanged, failed)
}

/// An open catalogue.
#[pyclass(frozen, name = "CatalogHandle", module = "drystone._core")]
pub(crate) struct CatalogHandle {
    catalog: Catalog,
}

#[pymethods]
impl CatalogHandle {
    /// Opens the catalogue at a path or a URL; creates it if there is none and `make` is set.
    #[staticmethod]
    fn open(py: Python<'_>, location: &str, store: Vec<(String, String)>, make: bool) -> Result<Self> {
        Ok(CatalogHandle { catalog: py.detach(|| Catalog::open(location, &store, make))? })
    }

    #[getter]
    fn location(&self) -> &str {
        self.catalog.location()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.catalog.version()
    }

    fn count(&self, py: Python<'_>) -> Result<u64> {
        py.detach(|| self.catalog.refresh())?;
        Ok(self.catalog.len())
    }

    fn add(&self, py: Python<'_>, locations: Vec<String>) -> Result<Added> {
        Ok(added(py.detach(|| self.catalog.add(&locations))?))
    }

    fn forget(&self, py: Python<'_>, locations: Vec<String>) -> Result<u64> {
        Ok(py.detach(|| self.catalog.forget(&locations))?)
    }

    fn rebuild(&self, py: Python<'_>) -> Result<Added> {
        Ok(added(py.detach(|| self.catalog.rebuild())?))
    }

    fn find(&self, py: Python<'_>, question: &str, fresh: bool) -> Result<FoundResult> {
        let report = py.detach(|| self.catalog.find(question, fresh))?;
        let item = |found: drystone_catalog::FoundContainer| {
            let uuid = found.uuid.iter().map(|b| format!("{b:02x}")).collect();
            (found.path, uuid, found.version, found.time, found.stale)
        };
        Ok((report.found.into_iter().map(item).collect(), report.gone, report.closed))
    }

    fn names(&self, py: Python<'_>) -> Result<Vec<String>> {
        Ok(py.detach(|| self.catalog.names())?)
    }

    /// Reads everything and checks every container; with `update` changed ones are read again.
    fn check(&self, py: Python<'_>, update: bool) -> Result<CheckResult> {
        let report = py.detach(|| if update { self.catalog.update() } else { self.catalog.check() })?;
        let (containers, pages, bytes) = (report.containers, report.pages, report.bytes);
        Ok((containers, pages, bytes, report.damage, report.stale, report.gone, report.closed))
    }
}
