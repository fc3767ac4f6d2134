//! What the names of an expression are, and how their cells meet.
//!
//! The variable with the most dimensions is the grid. Others join it by the names of their dimensions, or, where one of both has no names,
//! by equal shapes; a dimension that one lacks repeats its values. A name that is no variable but a dimension of one is the number of
//! the cell along it; `step` is the number of the step.

use std::sync::Arc;

use drystone_expression::{Answer, Name, Program, Tree, Type};
use drystone_format::MAX_NDIM;
use drystone_format::dtype::{DType, Scalar};

use crate::container::Container;
use crate::history::snapshot::Snapshot;
use crate::read::Reading;
use crate::schema::member::member;
use crate::{Error, Result};

/// The name of the step axis, unless a variable has it.
pub(super) const STEP: &str = "step";

/// Where the values of a name come from.
#[derive(Clone)]
pub(super) enum Origin {
    /// A variable, or one member of it.
    Stored(Box<Reading>),
    /// The number of the cell along an axis.
    Place,
    /// The number of the step.
    Step,
}

/// One name of an expression.
#[derive(Clone)]
pub(super) struct Input {
    /// As people type it.
    pub(super) name: String,
    pub(super) dtype: Type,
    pub(super) origin: Origin,
    /// The axis of the grid that each of its dimensions lies along.
    pub(super) axes: Vec<usize>,
}

/// The cells that a query is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    /// Extents without the step axis.
    pub(super) shape: Vec<u64>,
    /// Names of the dimensions, or nothing.
    pub(super) dims: Vec<String>,
    pub(super) steps: bool,
    /// Extent of the step axis.
    pub(super) step_axis: u64,
}

/// What a name was found to be, before it is known how it joins the others.
struct Found {
    input: Input,
    shape: Vec<u64>,
    dims: Vec<String>,
    steps: bool,
}

impl Input {
    /// The values of a name as an element of a variable; `None` for names that are none.
    pub(super) fn reading(&self) -> Option<&Reading> {
        match &self.origin {
            Origin::Stored(reading) => Some(reading),
            Origin::Place | Origin::Step => None,
        }
    }

    /// Whether its dimensions are the grid's, one for one.
    pub(super) fn is_straight(&self, grid: &Grid) -> bool {
        self.reading().is_some() && self.axes.len() == grid.shape.len() && self.axes.is_sorted()
    }
}

/// A container at one of its snapshots, whatever the handle shows later.
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

/// Types the tree and its terms, and joins the names; `over` are further variables that have a say in what the grid is.
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
        // The program's inputs are the names in the order in which they were asked for.
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

/// A variable whose values are to be had at the cells of a grid; records are read whole.
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

/// The path of a name and its members behind dots.
fn parts(name: &Name) -> (&str, Option<String>) {
    let members = name.members();
    (name.path(), (!members.is_empty()).then(|| members.join(".")))
}

fn spelt(path: &str, field: Option<&str>) -> String {
    field.map_or_else(|| path.to_owned(), |field| format!("{path}.{field}"))
}

/// A variable or member that a name stands for; `None` if there is no variable of that path.
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
    let dtype = type_of(dtype).map_err(Unfit::Because)?;
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
    // A coordinate variable without a name for its dimension has its own.
    if let (true, [_]) = (dims.is_empty(), shape.as_slice()) {
        dims = vec![String::new()];
    }
    let axes = Vec::new();
    let input = Input { name, dtype, origin: Origin::Stored(Box::new(reading)), axes };
    Found { input, shape, dims, steps }
}

/// A variable by its path, members behind dots, of any type.
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

/// The type in expressions, or what completes "`name` ...".
fn type_of(dtype: &DType) -> std::result::Result<Type, String> {
    let scalar = match dtype {
        DType::Scalar(scalar) => *scalar,
        DType::Record(record) => {
            let first = record.members.first().map_or("x", |member| &member.name);
            return Err(format!("it is a record: name a member, as `.{first}`"));
        }
        DType::Bytes(_) | DType::Unicode(_) | DType::String => {
            return Err("it holds texts, on which there are no conditions".into());
        }
    };
    Ok(match scalar {
        Scalar::Bool => Type::Bool,
        Scalar::I8 => Type::I1,
        Scalar::I16 => Type::I2,
        Scalar::I32 => Type::I4,
        Scalar::I64 => Type::I8,
        Scalar::U8 => Type::U1,
        Scalar::U16 => Type::U2,
        Scalar::U32 => Type::U4,
        Scalar::U64 => Type::U8,
        Scalar::F32 => Type::F4,
        Scalar::F64 => Type::F8,
        Scalar::F16 | Scalar::BF16 | Scalar::C64 | Scalar::C128 => {
            return Err(format!("it is {dtype}, on which there are no expressions"));
        }
    })
}

/// The dimensions of the variables that are named.
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

/// A name that is a dimension, or the step.
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

/// Names that exist, for suggestions.
fn known(container: &Pinned, name: &Name, dims: &[String]) -> Vec<String> {
    let schema = container.snapshot.schema.clone();
    let mut names: Vec<String> = schema.named().map(|(path, _)| path.to_owned()).collect();
    if name.members().is_empty() {
        names.extend(dims.iter().cloned());
    }
    names
}

/// The grid of all names: that of the one with the most dimensions.
fn grid(found: &[Found], more: &[Found], step_axis: u64) -> Result<Grid> {
    let stored = |one: &&Found| matches!(one.input.origin, Origin::Stored(_));
    let mut all = more.iter().chain(found).filter(stored);
    let Some(first) = all.next() else {
        return Err(Error::invalid(
            "the condition names no variable: name one, since a query is about the cells of variables",
        ));
    };
    let steps = more.iter().chain(found).any(|one| one.steps && stored(&one));
    let widest =
        all.fold(first, |widest, one| if one.shape.len() > widest.shape.len() { one } else { widest });
    if widest.shape.len() > MAX_NDIM {
        return Err(Error::invalid("a variable has more dimensions than a query takes"));
    }
    let dims = widest.dims.clone();
    // A single dimension without a name has the name of the variable, for those that are named after their dimension.
    let dims = if dims.iter().all(String::is_empty) { Vec::new() } else { dims };
    let mut grid = Grid { shape: widest.shape.clone(), dims, steps, step_axis };
    if grid.dims.is_empty() {
        // Names of one that has the same shape.
        let same = more.iter().chain(found).filter(stored);
        if let Some(named) = same.clone().find(|one| {
            one.shape == grid.shape && !one.dims.is_empty() && !one.dims.iter().any(String::is_empty)
        }) {
            grid.dims = named.dims.clone();
        }
    }
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
    let straight = || (0..grid.shape.len()).collect::<Vec<_>>();
    let name = &found.input.name;
    match found.input.origin {
        Origin::Step => return Ok(Vec::new()),
        Origin::Place => {
            let axis = found.dims.first().and_then(|dim| grid.dims.iter().position(|d| d == dim));
            return axis.map(|axis| vec![axis]).ok_or_else(|| {
                Error::invalid(format!(
                    "`{name}` is no dimension of the grid {}",
                    described(&grid.shape, &grid.dims)
                ))
            });
        }
        Origin::Stored(_) => {}
    }
    if found.shape.is_empty() {
        return Ok(Vec::new());
    }
    let refused = || {
        Error::invalid(format!(
            "`{name}` {} cannot be joined with {}: dimensions of one name must have one extent; give the variables the same \
             shape, or names of dimensions (dims=)",
            described(&found.shape, &found.dims),
            described(&grid.shape, &grid.dims)
        ))
    };
    let unnamed = |dims: &[String]| dims.is_empty() || dims.iter().any(String::is_empty);
    let mut dims = found.dims.clone();
    if unnamed(&dims) && found.shape.len() == 1 {
        // A coordinate variable is named like its dimension.
        let last = name.rsplit('/').next().unwrap_or(name).to_owned();
        if found.shape != grid.shape || grid.dims.contains(&last) {
            dims = vec![last];
        }
    }
    if unnamed(&dims) || unnamed(&grid.dims) {
        return if found.shape == grid.shape { Ok(straight()) } else { Err(refused()) };
    }
    if dims == grid.dims {
        return if found.shape == grid.shape { Ok(straight()) } else { Err(refused()) };
    }
    let mut axes = Vec::with_capacity(dims.len());
    for (dim, extent) in dims.iter().zip(&found.shape) {
        let axis = grid.dims.iter().position(|d| d == dim).filter(|axis| grid.shape[*axis] == *extent);
        match axis {
            Some(axis) if !axes.contains(&axis) => axes.push(axis),
            _ => return Err(refused()),
        }
    }
    Ok(axes)
}

/// A shape as `(y=3, x=4)`.
fn described(shape: &[u64], dims: &[String]) -> String {
    let named = |(d, n): (usize, &u64)| match dims.get(d).filter(|dim| !dim.is_empty()) {
        Some(dim) => format!("{dim}={n}"),
        None => n.to_string(),
    };
    format!("({})", shape.iter().enumerate().map(named).collect::<Vec<_>>().join(", "))
}
