//! Encodes and decodes single subchunks, for the package's Zarr codec.

use std::cell::RefCell;

use drystone_transform::{Chain, Scratch};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::dtype;
use crate::error::{Failure, Result, invalid};

thread_local! {
    /// Buffers for decoding, kept by each decoding thread.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// The canonical text of a chain; an error if the text is invalid.
#[pyfunction]
pub(crate) fn chain_text(transform: &str) -> Result<String> {
    drystone::Config::load_plugins()?;
    let chain = Chain::parse(transform).map_err(|e| invalid(format!("transform: {e}")))?;
    Ok(chain.canonical())
}

/// Encodes one subchunk: `data` is dense and little-endian, with elements of `dtype` in `shape`.
#[pyfunction]
pub(crate) fn encode_subchunk<'py>(
    py: Python<'py>,
    transform: &str,
    dtype: &Bound<'py, PyAny>,
    shape: Vec<u64>,
    data: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyBytes>> {
    let chain = Chain::parse(transform).map_err(|e| invalid(format!("transform: {e}")))?;
    let logical = drystone::logical_of(&dtype::parse(dtype)?.dtype, &shape)?;
    let data = PyBuffer::<u8>::get(data)?.to_vec(py)?;
    let stored = py.detach(|| {
        let mut stored = Vec::new();
        chain.encode(&data, &logical, &mut stored, &mut Scratch::new()).map(|()| stored)
    });
    Ok(PyBytes::new(py, &stored.map_err(|e| invalid(format!("encoding with {transform}: {e}")))?))
}

/// Decodes one subchunk.
#[pyfunction]
pub(crate) fn decode_subchunk<'py>(
    py: Python<'py>,
    transform: &str,
    dtype: &Bound<'py, PyAny>,
    shape: Vec<u64>,
    stored: &Bound<'py, PyAny>,
) -> Result<Bound<'py, PyBytes>> {
    let chain = Chain::parse(transform).map_err(|e| invalid(format!("transform: {e}")))?;
    let logical = drystone::logical_of(&dtype::parse(dtype)?.dtype, &shape)?;
    let copied;
    let stored = match stored.cast::<PyBytes>() {
        Ok(bytes) => bytes.as_bytes(),
        Err(_) => {
            copied = PyBuffer::<u8>::get(stored)?.to_vec(py)?;
            &copied
        }
    };
    let len = shape.iter().try_fold(logical.item as u64, |len, n| len.checked_mul(*n));
    let len = len.and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
    if len > drystone_transform::MAX_DECODED_LEN {
        return Err(invalid("a subchunk has at most 16 MiB; use smaller chunks".to_owned()));
    }
    PyBytes::new_with(py, len, |data| {
        let decoded =
            py.detach(|| SCRATCH.with_borrow_mut(|scratch| chain.decode(stored, &logical, data, scratch)));
        decoded.map_err(|e| {
            let what = format!("decoding with {transform}: {e}");
            Failure::from(drystone::Error::new(drystone::ErrorKind::Corrupt, what)).into()
        })
    })
    .map_err(Failure::from)
}
