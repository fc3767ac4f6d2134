//! Cell listings, prepared read plans, and tiles of large selections, for Python.

use drystone::array::Target;
use drystone::plan::listing::{Leg, Listing};
use drystone::plan::selection::Axis;
use drystone::plan::tiles::Tiles;
use drystone::{Planned, ReadReport, Records};
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;

use crate::error::{Result, invalid};
use crate::plan::Plan;
use crate::reading::ReadingHandle;

/// A product of legs. A leg is (axis, start, step, count), or (axes, coordinates cell by cell as a dense array
/// of int64, number of cells).
pub(crate) fn listing(legs: &Bound<'_, PyAny>) -> Result<Listing> {
    let mut out = Vec::new();
    for leg in legs.try_iter()? {
        let leg = leg?;
        out.push(match leg.extract::<(usize, u64, i64, u64)>() {
            Ok((axis, start, step, count)) => Leg::Axis { axis, cells: Axis { start, step, count } },
            Err(_) => {
                let (axes, cells, count) = leg.extract::<(Vec<usize>, PyReadonlyArray1<'_, i64>, u64)>()?;
                let cells = cells.as_slice().map_err(|_| invalid("coordinates must be dense"))?;
                // A negative coordinate becomes too large, and is refused as such.
                let cells = cells.iter().map(|&cell| cell as u64).collect();
                Leg::List { axes, cells, places: (0..count).collect() }
            }
        });
    }
    Ok(Listing::new(out))
}

/// How values of any length are read: alone, or as members of records.
pub(crate) struct AnyLength<'a> {
    pub(crate) texts: &'a (dyn Fn() -> drystone::Result<Vec<Vec<u8>>> + Sync),
    pub(crate) records: &'a (dyn Fn() -> drystone::Result<Records> + Sync),
}

/// Reads into `out`, or into a new array, with `shape` and the axes of the member.
pub(crate) fn read<'py>(
    handle: &ReadingHandle,
    py: Python<'py>,
    shape: &[u64],
    out: Option<Bound<'py, PyAny>>,
    act: &(dyn Fn(&Target<'_>) -> drystone::Result<ReadReport> + Sync),
    any: &AnyLength<'_>,
) -> Result<Bound<'py, PyAny>> {
    let mut full = shape.to_vec();
    full.extend(handle.inner());
    let out: Option<Bound<'py, PyUntypedArray>> = out.map(|out| handle.check_out(out, &full)).transpose()?;
    if handle.holds_strings() || handle.holds_objects() {
        let array = if handle.holds_strings() {
            handle.blobs(py, py.detach(any.texts)?, shape, false)?
        } else {
            handle.structured(py, py.detach(any.records)?, shape)?
        };
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

/// A read that was planned, to be executed repeatedly.
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
    /// Reads into `out`, or into a new array, with an axis per leg and the axes of the member.
    #[pyo3(signature = (out))]
    fn read<'py>(&self, py: Python<'py>, out: Option<Bound<'py, PyAny>>) -> Result<Bound<'py, PyAny>> {
        let planned = &self.planned;
        let shape = planned.wanted().shape();
        let any = AnyLength { texts: &|| planned.read_strings(), records: &|| planned.read_records() };
        read(self.reading.get(), py, &shape, out, &|out| planned.read(out), &any)
    }

    /// The plan.
    fn explain(&self, py: Python<'_>) -> Result<Plan> {
        Ok(Plan::new(py.detach(|| self.planned.explain())?))
    }
}

/// The tiles of a selection.
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

/// Per axis: the start of a tile in the result, and its start, step and count.
type Piece = Vec<(u64, u64, i64, u64)>;

#[pymethods]
impl TilesHandle {
    fn __len__(&self) -> usize {
        usize::try_from(self.tiles.len()).unwrap_or(usize::MAX)
    }

    /// A tile by its index; None behind the last.
    fn get(&self, number: u64) -> Option<Piece> {
        let (place, piece) = self.tiles.get(number)?;
        let axes = place.into_iter().zip(piece.axes);
        Some(axes.map(|(place, axis)| (place, axis.start, axis.step, axis.count)).collect())
    }
}
