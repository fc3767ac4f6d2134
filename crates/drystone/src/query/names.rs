//! The meaning of the names of an expression, and how their cells are joined.
//!
//! The variable with the most dimensions is the grid. Others join it by the names of their dimensions, or by equal
//! shapes if one of the two has no names. Values repeat along a dimension that a variable lacks. A name that is not a
//! variable but a dimension of one is the index of the cell along it; `step` is the number of the step.

use std::sync::Arc;

use drystone_expression::{Answer, Name, Program, Tree, Type};
use drystone_format::MAX_NDIM;

use crate::container::Container;
use crate::history::snapshot::Snapshot;
use crate::read::Reading;
use crate::schema::element_type::expression_type;
use crate::schema::grid::{self, Shaped};
use crate::schema::member::member;
use crate::{Error, Result};

/// The name of the step axis, unless a variable has this name.
pub(super) const STEP: &str = "step";

/// The source of a name's values.
#[derive(Clone)]
pub(super) enum Origin {
    /// A variable, or one member of it.
    Stored(Box<Reading>),
    /// The index of the cell along an axis.
    Place,
    /// The number of the step.
    Step,
}

/// One name of an expression.
#[derive(Clone)]
pub(super) struct Input {
    /// The name as the user wrote it.
    pub(super) name: String,
    pub(super) dtype: Type,
    pub(super) origin: Origin,
    /// The axis of the grid for each of its dimensions.
    pub(super) axes: Vec<usize>,
}

/// The cells that a query covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    /// The extents without the step axis.
    pub(super) shape: Vec<u64>,
    /// Names of the dimensions; empty if there are none.
    pub(super) dims: Vec<String>,
    pub(super) steps: bool,
    /// The extent of the step axis.
    pub(super) step_axis: u64,
}

/// The meaning of a name before it is joined to the grid.
struct Found {
    input: Input,
    shape: Vec<u64>,
    dims: Vec<String>,
    steps: bool,
}

impl Found {
    fn shaped(&self) -> Shaped<'_> {
        Shaped { name: &self.input.name, shape: &self.shape, dims: &self.dims }
    }
}

impl Input {
    /// The reading of a name that denotes a variable. `None` for other names.
    pub(super) fn reading(&self) -> Option<&Reading> {
        match &self.origin {
            Origin::Stored(reading) => Some(reading),
            Origin::Place | Origin::Step => None,
        }
    }

    /// Whether its dimensions are exactly those of the grid.
    pub(super) fn is_straight(&self, grid: &Grid) -> bool {
        self.reading().is_some() && self.axes.len() == grid.shape.len() && self.axes.is_sorted()
    }
}

/// A container at one snapshot, independent of what its handle shows later.
#[derive(Clone)]
pub(super) struct Pinned {
    pub(super) container: Container,
    pub(super) snapshot: Arc<Snapshot>,
}

impl Pinned {
    fn reading(&self, path: &str, field: Option<&str>) -> Result<Reading> {
        self.container.reading_at(self.snapshot.clone(), path, field)
    }
}

/// A tree and its terms with their types, and their names joined to the grid. `over` names further variables that
/// determine the grid.
pub(super) struct Resolved {
    pub(super) inputs: Vec<Input>,
    pub(super) grid: Grid,
    pub(super) program: Program,
}

impl Resolved {
    pub(super) fn of(container: &Pinned, tree: &Tree, over: &[String]) -> Result<Resolved> {
        let mut found: Vec<(Name, Found)> = Vec::new();
        let mut failed = None;
        let dims = dimensions(container, tree, over);
        let program = tree.check(|name| {
            let one = match stored(container, name) {
                Ok(Some(one)) => one,
                Ok(None) => match counted(name, &dims) {
                    Some(one) => one,
                    None => return Answer::Unknown(known(container, name, &dims)),
                },
                Err(Unfit::Because(reason)) => return Answer::Unfit(reason),
                Err(Unfit::Unknown(names)) => return Answer::Unknown(names),
                Err(Unfit::Failed(error)) => {
                    failed = Some(error);
                    return Answer::Unfit("cannot be read".into());
                }
            };
            let dtype = one.input.dtype;
            found.push((name.clone(), one));
            Answer::Type(dtype)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let program = program.map_err(|error| Error::invalid(error.to_string()))?;
        // The program's inputs are the names in the order in which they were requested.
        let found: Vec<Found> = found.into_iter().map(|(_, one)| one).collect();
        let mut more = Vec::new();
        for path in over {
            more.push(whole(container, path)?);
        }
        let grid = grid(&found, &more, container.snapshot.step_axis())?;
        let inputs = found.into_iter().map(|one| join(one, &grid)).collect::<Result<Vec<_>>>()?;
        Ok(Resolved { inputs, grid, program })
    }
}

/// A variable whose values are read at the cells of a grid. Records are read completely.
pub(super) fn joined(container: &Pinned, path: &str, grid: &Grid) -> Result<Input> {
    let found = match whole(container, path) {
        Err(error) if error.kind() == crate::ErrorKind::NotFound => {
            let name = Name::new(path).map_err(|e| Error::invalid(e.to_string()))?;
            counted(&name, &grid.dims).filter(|one| !one.dims.is_empty() || grid.steps).ok_or(error)?
        }
        other => other?,
    };
    join(found, grid)
}

enum Unfit {
    Because(String),
    Unknown(Vec<String>),
    Failed(Error),
}

/// The path of a name, and its members.
fn parts(name: &Name) -> (&str, Option<String>) {
    let members = name.members();
    (name.path(), (!members.is_empty()).then(|| members.join(".")))
}

fn spelt(path: &str, field: Option<&str>) -> String {
    field.map_or_else(|| path.to_owned(), |field| format!("{path}.{field}"))
}

/// The variable or member that a name denotes. `None` if there is no variable at that path.
fn stored(container: &Pinned, name: &Name) -> std::result::Result<Option<Found>, Unfit> {
    let (path, field) = parts(name);
    let schema = container.snapshot.schema.clone();
    let Some(variable) = schema.resolve(path) else {
        if schema.groups.contains_key(path) && !path.is_empty() {
            return Err(Unfit::Because("is a group, not a variable".into()));
        }
        return Ok(None);
    };
    if !name.offsets().is_empty() {
        let what = "is a neighbour, which conditions do not take: derive a variable from it".into();
        return Err(Unfit::Because(what));
    }
    let mut dtype = &variable.dtype;
    let inner;
    if let Some(field) = &field {
        let Some(found) = member(&variable.dtype, field) else {
            let leaves = variable.dtype.leaves();
            let all = leaves.iter().map(|leaf| format!("{path}.{}", leaf.path));
            return Err(Unfit::Unknown(all.filter(|name| !name.ends_with('.')).collect()));
        };
        if !found.shape.is_empty() {
            return Err(Unfit::Because("its elements are arrays, on which there are no expressions".into()));
        }
        inner = found.dtype;
        dtype = &inner;
    }
    let dtype = expression_type(dtype).map_err(Unfit::Because)?;
    if variable.local {
        return Err(Unfit::Because("is a local variable: it has blocks, not one array".into()));
    }
    let reading = container.reading(path, field.as_deref()).map_err(Unfit::Failed)?;
    Ok(Some(of_reading(spelt(path, field.as_deref()), dtype, reading)))
}

fn of_reading(name: String, dtype: Type, reading: Reading) -> Found {
    let variable = reading.variable();
    let (shape, steps) = (variable.shape.clone(), variable.steps);
    let mut dims = variable.dims.clone();
    // A coordinate variable whose dimension has no name gives the dimension its own name.
    if let (true, [_]) = (dims.is_empty(), shape.as_slice()) {
        dims = vec![String::new()];
    }
    let axes = Vec::new();
    let input = Input { name, dtype, origin: Origin::Stored(Box::new(reading)), axes };
    Found { input, shape, dims, steps }
}

/// A variable of any type by its path and members.
fn whole(container: &Pinned, path: &str) -> Result<Found> {
    let schema = container.snapshot.schema.clone();
    let reading = match (schema.resolve(path), path.split_once('.')) {
        (None, Some((path, field))) if schema.resolve(path).is_some() => {
            container.reading(path, Some(field))?
        }
        _ => container.reading(path, None)?,
    };
    let variable = reading.variable();
    if variable.local {
        return Err(Error::invalid(format!("\"{path}\" is a local variable: it has blocks, not one array")));
    }
    Ok(of_reading(path.to_owned(), Type::U1, reading))
}

/// The dimensions of the named variables.
fn dimensions(container: &Pinned, tree: &Tree, over: &[String]) -> Vec<String> {
    let schema = container.snapshot.schema.clone();
    let mut dims: Vec<String> = Vec::new();
    let paths = tree.names().iter().map(Name::path).chain(over.iter().map(String::as_str));
    for path in paths {
        let path =
            path.split_once('.').map_or(path, |(p, _)| if schema.resolve(path).is_some() { path } else { p });
        let Some(variable) = schema.resolve(path) else { continue };
        dims.extend(variable.dims.iter().cloned());
        if variable.steps {
            dims.push(STEP.into());
        }
    }
    dims.sort();
    dims.dedup();
    dims
}

/// The meaning of a name that denotes a dimension, or the step.
fn counted(name: &Name, dims: &[String]) -> Option<Found> {
    let (path, field) = parts(name);
    if field.is_some() || !name.offsets().is_empty() {
        return None;
    }
    let is_step = path == STEP;
    if !is_step && !dims.iter().any(|dim| dim == path) {
        return None;
    }
    if is_step && !dims.is_empty() && !dims.iter().any(|dim| dim == STEP) {
        return None;
    }
    let origin = if is_step { Origin::Step } else { Origin::Place };
    let dims = if is_step { Vec::new() } else { vec![path.to_owned()] };
    let input = Input { name: path.to_owned(), dtype: Type::I8, origin, axes: Vec::new() };
    Some(Found { input, shape: Vec::new(), dims, steps: is_step })
}

/// Existing names, for suggestions.
fn known(container: &Pinned, name: &Name, dims: &[String]) -> Vec<String> {
    let schema = container.snapshot.schema.clone();
    let mut names: Vec<String> = schema.named().map(|(path, _)| path.to_owned()).collect();
    if name.members().is_empty() {
        names.extend(dims.iter().cloned());
    }
    names
}

/// The grid of all names: that of the variable with the most dimensions.
fn grid(found: &[Found], more: &[Found], step_axis: u64) -> Result<Grid> {
    let stored = |one: &&Found| matches!(one.input.origin, Origin::Stored(_));
    let steps = more.iter().chain(found).any(|one| one.steps && stored(&one));
    let shapes = more.iter().chain(found).filter(stored).map(Found::shaped);
    let Some((shape, dims)) = grid::widest(shapes) else {
        return Err(Error::invalid(
            "the condition names no variable: name one, since a query is about the cells of variables",
        ));
    };
    if shape.len() > MAX_NDIM {
        return Err(Error::invalid("a variable has more dimensions than a query takes"));
    }
    let grid = Grid { shape, dims, steps, step_axis };
    for one in more {
        axes(one, &grid)?;
    }
    Ok(grid)
}

fn join(found: Found, grid: &Grid) -> Result<Input> {
    let axes = axes(&found, grid)?;
    Ok(Input { axes, ..found.input })
}

/// The axis of the grid for each dimension of a name.
fn axes(found: &Found, grid: &Grid) -> Result<Vec<usize>> {
    match found.input.origin {
        Origin::Step => Ok(Vec::new()),
        Origin::Place => {
            let axis = found.dims.first().and_then(|dim| grid.dims.iter().position(|d| d == dim));
            axis.map(|axis| vec![axis]).ok_or_else(|| {
                let (name, described) = (&found.input.name, grid::described(&grid.shape, &grid.dims));
                Error::invalid(format!("`{name}` is not a dimension of the grid {described}"))
            })
        }
        Origin::Stored(_) => grid::axes(found.shaped(), &grid.shape, &grid.dims),
    }
}
