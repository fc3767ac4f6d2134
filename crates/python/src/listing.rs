//! Listed cells, plans that are kept, and pieces of large selections, as Python sees them.

use drystone::array::Target;
use drystone::plan::listing::{Leg, Listing};
use drystone::plan::selection::Axis;
use drystone::plan::tiles::Tiles;
use drystone::{Planned, ReadReport};
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use crate::error::{Result, invalid};
use crate::plan::Plan;
use crate::reading::ReadingHandle;

/// A product of legs: each is (axis, start, step, count), or (axes, coordinates cell by cell as a dense array of int64, number of
/// cells).
pub(crate) fn listing(legs: &Bound<'_, PyAny>) -> Result<Listing> {
    let mut out = Vec::new();
    for leg in legs.try_iter()? {
        let leg = leg?;
        out.push(match leg.extract::<(usize, u64, i64, u64)>() {
            Ok((axis, start, step, count)) => Leg::Axis { axis, cells: Axis { start, step, count } },
            Err(_) => {
                let (axes, cells, count) = leg.extract::<(Vec<usize>, PyReadonlyArray1<'_, i64>, u64)>()?;
                let cells = cells.as_slice().map_err(|_| invalid("coordinates must be dense"))?;
                // What is negative becomes too large, and is refused with it.
                let cells = cells.iter().map(|&cell| cell as u64).collect();
                Leg::List { axes, cells, places: (0..count).collect() }
            }
        });
    }
    Ok(Listing::new(out))
}

/// Reads into `out`, or a new array, of `shape` and the axes of the member.
pub(crate) fn read<'py>(
    handle: &ReadingHandle,
    py: Python<'py>,
    shape: &[u64],
    out: Option<Bound<'py, PyAny>>,
    act: &(dyn Fn(&Target<'_>) -> drystone::Result<ReadReport> + Sync),
    texts: &(dyn Fn() -> drystone::Result<Vec<Vec<u8>>> + Sync),
) -> Result<Bound<'py, PyAny>> {
    let mut full = shape.to_vec();
    full.extend(handle.inner());
    let out: Option<Bound<'py, PyUntypedArray>> = out.map(|out| handle.check_out(out, &full)).transpose()?;
    if handle.holds_strings() {
        let array = handle.blobs(py, py.detach(texts)?, shape, false)?;
        let Some(out) = out else { return Ok(array) };
        py.import("numpy")?.call_method1("copyto", (&out, array))?;
        return Ok(out.into_any());
    }
    let array = match out {
        Some(out) => out,
        None => handle.new_array(py, shape)?,
    };
    handle.read_into(&array, shape, false, act)?;
    Ok(array.into_any())
}

/// A read that was planned once.
#[pyclass(frozen, name = "PlannedHandle", module = "drystone._core")]
pub(crate) struct PlannedHandle {
    planned: Planned,
    reading: Py<ReadingHandle>,
}

impl PlannedHandle {
    pub(crate) fn new(planned: Planned, reading: Py<ReadingHandle>) -> Self {
        PlannedHandle { planned, reading }
    }
}

#[pymethods]
impl PlannedHandle {
    /// Reads, into `out` if it is given: an array with an axis per leg and those of the member.
    #[pyo3(signature = (out))]
    fn read<'py>(&self, py: Python<'py>, out: Option<Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>> {
        let planned = &self.planned;
        let shape = planned.wanted().shape();
        read(self.reading.get(), py, &shape, out, &|out| planned.read(out), &|| planned.read_strings())
    }

    /// The plan.
    fn explain(&self, py: Python<'_>) -> Result<Plan> {
        Ok(Plan::new(py.detach(|| self.planned.explain())?))
    }
}

/// The pieces of a selection.
#[pyclass(frozen, name = "TilesHandle", module = "drystone._core")]
pub(crate) struct TilesHandle {
    tiles: Tiles,
}

impl TilesHandle {
    pub(crate) fn new(tiles: Tiles) -> Self {
        TilesHandle { tiles }
    }

    pub(crate) fn tiles(&self) -> &Tiles {
        &self.tiles
    }
}

/// Per axis: where a piece begins in the result, and its start, step and count.
type Piece = Vec<(u64, u64, i64, u64)>;

#[pymethods]
impl TilesHandle {
    fn __len__(&self) -> usize {
        usize::try_from(self.tiles.len()).unwrap_or(usize::MAX)
    }

    /// A piece by its number; nothing if there are not as many.
    fn get(&self, number: u64) -> Option<Piece> {
        let (place, piece) = self.tiles.get(number)?;
        let axes = place.into_iter().zip(piece.axes);
        Some(axes.map(|(place, axis)| (place, axis.start, axis.step, axis.count)).collect())
    }
}
