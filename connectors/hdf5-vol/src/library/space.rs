//! Selections of the library as boxes and runs.
//!
//! A run is a range of consecutive elements in row-major order of the whole extent. The library's own
//! iterator gives them, in the order of transfer, so points, strided and combined selections are handled
//! alike.

use crate::library::abi::{Hid, S_ALL, S_BLOCK};
use crate::library::failure::{Failure, Result};
use crate::library::host::Host;
use crate::model::tree::Space;

/// The selected elements of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cells {
    /// A box: first cell and sizes.
    Box(Vec<u64>, Vec<u64>),
    /// First element and number of each run, in the order of transfer.
    Runs(Vec<(u64, u64)>),
}

/// A selection, and its number of elements.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Selected {
    pub cells: Cells,
    pub points: u64,
}

/// The extent of a dataspace id.
pub fn extent(host: &Host, id: Hid) -> Result<Space> {
    let api = &host.api;
    // SAFETY: the arrays have room for 32 dimensions, the most there are.
    unsafe {
        match (api.H5Sget_simple_extent_type)(id) {
            0 => Ok(Space::Scalar),
            2 => Ok(Space::Null),
            1 => {
                let (mut dims, mut max) = ([0u64; 32], [0u64; 32]);
                let rank = (api.H5Sget_simple_extent_dims)(id, dims.as_mut_ptr(), max.as_mut_ptr());
                let rank = usize::try_from(rank).ok().filter(|r| *r <= 32);
                let rank = rank.ok_or_else(|| Failure::library("cannot get the extent of a dataspace"))?;
                Ok(match rank {
                    0 => return Err(Failure::invalid("the dataspace has no extent")), // H5Screate(H5S_SIMPLE), and no more
                    _ => Space::Simple(dims[..rank].to_vec(), max[..rank].to_vec()),
                })
            }
            _ => Err(Failure::wrong_kind("not a dataspace")),
        }
    }
}

/// A new dataspace id.
pub fn create(host: &Host, space: &Space) -> Result<Hid> {
    let api = &host.api;
    // SAFETY: the arrays have as many elements as the rank says.
    let id = unsafe {
        match space {
            Space::Null => (api.H5Screate)(2),
            Space::Scalar => (api.H5Screate)(0),
            Space::Simple(dims, max) => {
                (api.H5Screate_simple)(dims.len() as i32, dims.as_ptr(), max.as_ptr())
            }
        }
    };
    if id < 0 { Err(Failure::library("cannot make a dataspace")) } else { Ok(id) }
}

/// The selection of a dataspace id; `whole` is the extent that `H5S_ALL` stands for.
pub fn selected(host: &Host, id: Hid, whole: &Space) -> Result<Selected> {
    let all = |space: &Space| Selected {
        cells: Cells::Box(vec![0; space.dims().len()], space.dims().to_vec()),
        points: space.points().unwrap_or(0),
    };
    match id {
        S_ALL => return Ok(all(whole)),
        S_BLOCK => return Err(Failure::invalid("H5S_BLOCK cannot select elements in a file")),
        _ => {}
    }
    let api = &host.api;
    let bad = || Failure::invalid("not a valid dataspace selection");
    // SAFETY: arrays have room for 32 dimensions; ids are checked by the library.
    unsafe {
        let points = u64::try_from((api.H5Sget_select_npoints)(id)).map_err(|_| bad())?;
        if points == 0 {
            return Ok(Selected { cells: Cells::Runs(Vec::new()), points });
        }
        let space = extent(host, id)?;
        let rank = space.dims().len();
        let kind = (api.H5Sget_select_type)(id);
        if rank == 0 || kind == 3 {
            return Ok(all(&space));
        }
        if (api.H5Sselect_valid)(id) <= 0 {
            return Err(Failure::range("the selection leaves the dataspace"));
        }
        if kind == 2 || points == 1 {
            let (mut first, mut last) = ([0u64; 32], [0u64; 32]);
            if (api.H5Sget_select_bounds)(id, first.as_mut_ptr(), last.as_mut_ptr()) < 0 {
                return Err(bad());
            }
            let count: Vec<u64> =
                (0..rank).map(|d| (last[d].saturating_sub(first[d])).saturating_add(1)).collect();
            if count.iter().try_fold(1u64, |a, n| a.checked_mul(*n)) == Some(points) {
                return Ok(Selected { cells: Cells::Box(first[..rank].to_vec(), count), points });
            }
        }
        Ok(Selected { cells: Cells::Runs(runs(host, id)?), points })
    }
}

/// Runs of a selection.
fn runs(host: &Host, id: Hid) -> Result<Vec<(u64, u64)>> {
    const MANY: usize = 4096;
    let api = &host.api;
    let mut out: Vec<(u64, u64)> = Vec::new();
    // SAFETY: the arrays hold as many entries as the library is told.
    unsafe {
        let iter = (api.H5Ssel_iter_create)(id, 1, 0);
        if iter < 0 {
            return Err(Failure::library("cannot walk through a selection"));
        }
        let (mut offsets, mut lengths) = (vec![0u64; MANY], vec![0usize; MANY]);
        loop {
            let (mut sequences, mut elements) = (0usize, 0usize);
            let rc = (api.H5Ssel_iter_get_seq_list)(
                iter,
                MANY,
                1 << 40,
                &mut sequences,
                &mut elements,
                offsets.as_mut_ptr(),
                lengths.as_mut_ptr(),
            );
            if rc < 0 || sequences > MANY {
                (api.H5Ssel_iter_close)(iter);
                return Err(Failure::library("cannot walk through a selection"));
            }
            if sequences == 0 {
                break;
            }
            for (at, n) in offsets[..sequences].iter().zip(&lengths[..sequences]) {
                match out.last_mut() {
                    Some((last, many)) if *last + *many == *at => *many += *n as u64,
                    _ => out.push((*at, *n as u64)),
                }
            }
        }
        (api.H5Ssel_iter_close)(iter);
    }
    Ok(out)
}

/// The elements of a memory selection as runs, in the order of transfer.
///
/// `file` is the file's selection, and `points` its number of elements: `H5S_ALL` in memory means the same
/// elements there.
pub fn memory(host: &Host, id: Hid, file_id: Hid, whole: &Space, points: u64) -> Result<Vec<(u64, u64)>> {
    if id == S_BLOCK {
        return Ok(vec![(0, points)]);
    }
    let (id, space) = match id {
        S_ALL if file_id == S_ALL => return Ok(vec![(0, points)]),
        S_ALL => (file_id, extent(host, file_id)?),
        _ => (id, whole.clone()),
    };
    let selected = selected(host, id, &space)?;
    if selected.points != points {
        return Err(Failure::invalid(format!(
            "{} elements are selected in memory, {points} in the file",
            selected.points
        )));
    }
    match selected.cells {
        Cells::Runs(runs) => Ok(runs),
        Cells::Box(first, count) => {
            let extent = extent(host, id)?;
            Ok(rows(extent.dims(), &first, &count))
        }
    }
}

/// The runs of a box in an extent.
pub fn rows(extent: &[u64], first: &[u64], count: &[u64]) -> Vec<(u64, u64)> {
    let rank = extent.len();
    if rank == 0 {
        return vec![(0, 1)];
    }
    if count.contains(&0) {
        return Vec::new();
    }
    // Trailing axes that are whole make longer runs.
    let mut axis = rank - 1;
    let mut run = count[axis];
    while axis > 0 && count[axis] == extent[axis] {
        axis -= 1;
        run *= count[axis];
    }
    let mut strides = vec![1u64; rank];
    for d in (0..rank - 1).rev() {
        strides[d] = strides[d + 1] * extent[d + 1];
    }
    let mut out = Vec::new();
    let mut at = vec![0u64; axis];
    let tail: u64 = (axis..rank).map(|d| first[d] * strides[d]).sum();
    loop {
        let head: u64 = (0..axis).map(|d| (first[d] + at[d]) * strides[d]).sum();
        out.push((head + tail, run));
        let Some(d) = (0..axis).rev().find(|&d| at[d] + 1 < count[d]) else { return out };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}
