//! `drystone._core`: what the Python package is made of.
//!
//! It converts arguments and results and maps errors; it decides nothing. People use the classes in `python/drystone`, which
//! are documented there; `python/drystone/_core.pyi` is the contract between the two.
//!
//! Invariant: the interpreter lock is released whenever the engine is called, and never taken by the engine but for progress.

mod arrow;
mod catalog;
mod codec;
mod container;
mod dtype;
mod error;
mod expression;
mod fragment;
mod key;
mod listing;
mod ndarray;
mod plan;
mod query;
mod reading;
mod regions;
mod rules;
mod transform;
mod value;
mod writer;
mod zarr;

use pyo3::prelude::*;

/// The dtype in which values of a variable created with `dtype` are read; `object` for strings.
#[pyfunction]
fn element_dtype<'py>(
    py: Python<'py>,
    dtype: &Bound<'py, PyAny>,
) -> error::Result<(Bound<'py, PyAny>, bool)> {
    let parsed = dtype::parse(dtype)?;
    Ok((dtype::to_numpy(py, &parsed)?, parsed == drystone::format::dtype::DType::String))
}

/// Finds room for the first `end` bytes of a file that is being written, where that makes writing them faster.
#[pyfunction]
fn find_room(py: Python<'_>, path: std::path::PathBuf, end: u64) {
    py.detach(|| drystone::store::preallocate(&path, end));
}

/// A recorded transform as people type it.
#[pyfunction]
fn readable_transform(text: &str) -> String {
    drystone::transform::readable(text)
}

/// Runs the `drystone` command with `args` (the program's name first) and returns its exit code.
#[pyfunction]
fn cli_main(py: Python<'_>, args: Vec<std::ffi::OsString>) -> i32 {
    py.detach(|| drystone_cli::run(args))
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
    use super::find_room;
    #[pymodule_export]
    use super::fragment::FragmentHandle;
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
    use super::regions::RegionsHandle;
    #[pymodule_export]
    use super::rules::{LayoutHandle, RuleHandle};
    #[pymodule_export]
    use super::writer::WriterHandle;
    #[pymodule_export]
    use super::zarr::ZarrHandle;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
