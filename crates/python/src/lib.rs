//! `drystone._core`: the native part of the Python package.
//!
//! It converts arguments and results, and maps errors; it decides nothing. Users call the classes in
//! `python/drystone`, which document them. `python/drystone/_core.pyi` is the contract between the two.
//!
//! Invariant: the interpreter lock is released whenever the engine is called. The engine takes it only for
//! progress, spans that a function listens to, credentials, and the page of a server.

mod arrow;
mod catalog;
mod codec;
mod container;
mod credentials;
mod dtype;
mod error;
mod expression;
mod fragment;
mod key;
mod listing;
mod ndarray;
mod page;
mod plan;
mod progress;
mod query;
mod reading;
mod regions;
mod rules;
mod spans;
mod transform;
mod value;
mod writer;
mod zarr;

use pyo3::prelude::*;

/// The dtype in which a variable created with `dtype` is read; `object` for strings and lists of numbers.
#[pyfunction]
fn element_dtype<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyAny>,
) -> error::Result<(Bound<'py, PyAny>, bool)> {
    let parsed = dtype::parse(dtype)?;
    let strings = parsed.dtype.is_blob();
    Ok((parsed.to_numpy(py)?, strings))
}

/// The dtype of the members of fixed size of records created with `dtype`, at their places in the engine's element.
#[pyfunction]
fn fixed_part<'py>(py: Python<'py>, dtype: &Bound<'py, PyAny>) -> error::Result<Bound<'py, PyAny>> {
    let parsed = dtype::parse(dtype)?;
    match &parsed.dtype {
        drystone::format::dtype::DType::Record(record) => {
            dtype::fixed_part(py, record, parsed.meaning.as_ref())
        }
        other => Err(error::invalid(format!("{other} is no record"))),
    }
}

/// Preallocates the first `end` bytes of a file that is being written, if that makes writing faster.
#[pyfunction]
fn find_room(py: Python<'_>, path: std::path::PathBuf, end: u64) {
    py.detach(|| drystone_store::preallocate(&path, end));
}

/// (what, whether it holds, the finding, the remedy) of each guarantee; seconds per request; bytes per second
/// read and written; objects that could not be removed.
type Examined =
    (Vec<(&'static str, Option<bool>, String, &'static str)>, Option<f64>, Option<(f64, f64)>, Vec<String>);

/// Tests whether the store at a path or URL fulfils what containers rely on.
#[pyfunction]
fn examine(py: Python<'_>, place: &str, options: Vec<(String, String)>) -> error::Result<Examined> {
    let found = py.detach(|| {
        let store = drystone::open_store(place, &options)?;
        drystone_store::examine(store.as_ref()).map_err(|error| {
            let error = drystone::Error::from(error);
            drystone::Error::new(error.kind(), format!("trying {}: {error}", store.describe()))
        })
    })?;
    let promises = found.guarantees.into_iter().map(|p| (p.what, p.kept, p.found, p.remedy)).collect();
    Ok((promises, found.latency.map(|time| time.as_secs_f64()), found.bandwidth, found.left))
}

/// A recorded transform, as users write it.
#[pyfunction]
fn readable_transform(text: &str) -> String {
    drystone_transform::readable(text)
}

/// Runs the `drystone` command with `args` (the program's name first).
///
/// Returns its exit code, or, for a command that runs in Python, its arguments as JSON. `page` returns the
/// object with the server's page: its methods are `file` and `answer`.
#[pyfunction]
#[pyo3(signature = (args, page=None))]
fn cli_main(py: Python<'_>, args: Vec<std::ffi::OsString>, page: Option<Py<PyAny>>) -> (i32, Option<String>) {
    match py.detach(|| drystone_cli::run(args, page.map(page::PythonPage::shared))) {
        drystone_cli::Done::Code(code) => (code, None),
        drystone_cli::Done::InPython(handed) => (0, Some(handed)),
    }
}

/// The commands of `cli_main` and their arguments, as JSON.
#[pyfunction]
fn cli_grammar() -> String {
    drystone_cli::grammar()
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::arrow::{arrow_schema, arrow_stream};
    #[pymodule_export]
    use super::catalog::CatalogHandle;
    #[pymodule_export]
    use super::cli_grammar;
    #[pymodule_export]
    use super::cli_main;
    #[pymodule_export]
    use super::codec::{chain_text, decode_subchunk, encode_subchunk};
    #[pymodule_export]
    use super::container::ContainerHandle;
    #[pymodule_export]
    use super::element_dtype;
    #[pymodule_export]
    use super::expression::ExpressionHandle;
    #[pymodule_export]
    use super::fixed_part;
    #[pymodule_export]
    use super::fragment::FragmentHandle;
    #[pymodule_export]
    use super::key::parse_selection;
    #[pymodule_export]
    use super::listing::{PlannedHandle, TilesHandle};
    #[pymodule_export]
    use super::plan::Plan;
    #[pymodule_export]
    use super::query::{BatchesHandle, QueryHandle};
    #[pymodule_export]
    use super::readable_transform;
    #[pymodule_export]
    use super::reading::ReadingHandle;
    #[pymodule_export]
    use super::regions::{RegionHandle, RegionMemory, RegionsHandle, register_function};
    #[pymodule_export]
    use super::rules::{LayoutHandle, RuleHandle};
    #[pymodule_export]
    use super::spans::{SpanListener, listen_to_spans};
    #[pymodule_export]
    use super::writer::WriterHandle;
    #[pymodule_export]
    use super::zarr::ZarrHandle;
    #[pymodule_export]
    use super::{examine, find_room};
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
