//! Joins the cells of variables: the one with the most dimensions is the grid, and the others join it.
//!
//! Dimensions are joined by their names, or by equal shapes if one of the two variables has no names. Values repeat
//! along a dimension that a variable lacks. Queries and derived variables both follow this rule.

use crate::{Error, Result};

/// A shape without the step axis, with names of its dimensions. An empty list or an empty name means no name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaped<'a> {
    pub(crate) name: &'a str,
    pub(crate) shape: &'a [u64],
    pub(crate) dims: &'a [String],
}

/// The shape of the grid, with the names of its dimensions if it has any. `None` if there are no variables.
pub(crate) fn widest<'a>(all: impl Iterator<Item = Shaped<'a>> + Clone) -> Option<(Vec<u64>, Vec<String>)> {
    let mut each = all.clone();
    let first = each.next()?;
    let widest =
        each.fold(first, |widest, one| if one.shape.len() > widest.shape.len() { one } else { widest });
    let mut dims = widest.dims.to_vec();
    // A single dimension without a name takes the name of the variable: coordinates are named after their dimension.
    if dims.iter().all(String::is_empty) {
        dims.clear();
    }
    if dims.is_empty() {
        // The names of a variable with the same shape.
        let named = |one: &Shaped<'_>| {
            one.shape == widest.shape && !one.dims.is_empty() && !one.dims.iter().any(String::is_empty)
        };
        if let Some(same) = all.clone().find(named) {
            dims = same.dims.to_vec();
        }
    }
    Some((widest.shape.to_vec(), dims))
}

/// The axis of the grid for each dimension of a variable.
pub(crate) fn axes(one: Shaped<'_>, grid_shape: &[u64], grid_dims: &[String]) -> Result<Vec<usize>> {
    let Shaped { name, shape, dims } = one;
    let straight = || (0..grid_shape.len()).collect::<Vec<_>>();
    if shape.is_empty() {
        return Ok(Vec::new());
    }
    let refused = || {
        Error::invalid(format!(
            "`{name}` {} cannot be joined with {}: dimensions of one name must have one extent; give the variables the same \
             shape, or names of dimensions (dims=)",
            described(shape, dims),
            described(grid_shape, grid_dims)
        ))
    };
    let unnamed = |dims: &[String]| dims.is_empty() || dims.iter().any(String::is_empty);
    let mut dims = dims.to_vec();
    if unnamed(&dims) && shape.len() == 1 {
        // A coordinate variable has the name of its dimension.
        let last = name.rsplit('/').next().unwrap_or(name).to_owned();
        if shape != grid_shape || grid_dims.contains(&last) {
            dims = vec![last];
        }
    }
    if unnamed(&dims) || unnamed(grid_dims) || dims == grid_dims {
        return if shape == grid_shape { Ok(straight()) } else { Err(refused()) };
    }
    let mut axes = Vec::with_capacity(dims.len());
    for (dim, extent) in dims.iter().zip(shape) {
        let axis = grid_dims.iter().position(|d| d == dim).filter(|axis| grid_shape[*axis] == *extent);
        match axis {
            Some(axis) if !axes.contains(&axis) => axes.push(axis),
            _ => return Err(refused()),
        }
    }
    Ok(axes)
}

/// A shape as `(y=3, x=4)`.
pub(crate) fn described(shape: &[u64], dims: &[String]) -> String {
    let named = |(d, n): (usize, &u64)| match dims.get(d).filter(|dim| !dim.is_empty()) {
        Some(dim) => format!("{dim}={n}"),
        None => n.to_string(),
    };
    format!("({})", shape.iter().enumerate().map(named).collect::<Vec<_>>().join(", "))
}
