//! Fragments as plain arrays of primitive values: the input for compiling rules.
//!
//! Every leaf is one column of the dataset (a variable and the path to one primitive member), restricted to a box of
//! the fragment's indices. Member arrays that are taken whole have become further indices, and boxes are cut so that no
//! `mod` is needed. An element's address is `offset` plus, for each level, the element's rank in the level's order
//! times its unit.

use std::sync::Arc;

use crate::fragment::{DatasetDim, Fragment, FragmentVar};
use crate::index_map::IndexMap;
use crate::run::Run;
use crate::types::{Order, Prim, Type};
use crate::variable::Variable;

/// Most leaves of one fragment.
pub const MAX_LEAVES: usize = 1 << 14;

/// One level of arrays: elements of `unit` bytes in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// The number of values of each index; empty for a single element.
    pub extents: Vec<u64>,
    /// The order of the elements.
    pub order: Order,
    /// Bytes from one element to the next in that order.
    pub unit: u64,
}

impl Level {
    /// Bytes between neighbours for each index; `None` along a curve.
    pub fn strides(&self) -> Option<Vec<u64>> {
        let extents: Vec<Option<u64>> = self.extents.iter().copied().map(Some).collect();
        self.order.strides(&extents, self.unit).into_iter().collect()
    }
}

/// One column of the dataset, restricted to one box of the fragment.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The number of the fragment's variable to which it belongs.
    pub var: usize,
    /// The dataset variable.
    pub variable: Arc<Variable>,
    /// The path to the primitive member, with names separated by dots; empty if the element is primitive.
    pub column: Arc<str>,
    /// The type of a value.
    pub prim: Prim,
    /// Bytes from the beginning of the fragment to the value at index 0 of every level.
    pub offset: u64,
    /// The fragment's arrays, outermost first; the sequence of their indices is that of the leaf's indices.
    pub levels: Vec<Level>,
    /// The values of each index that belong to this leaf.
    pub runs: Vec<Run>,
    /// Bytes from the beginning of a dataset element to the value, at index 0 of every member array.
    pub dataset_offset: u64,
    /// The dataset's dimensions: the variable's, then those of member arrays on the path. Their maps refer to the
    /// leaf's indices, not counted from `start`, and have no modulus.
    pub dims: Vec<DatasetDim>,
}

impl Leaf {
    /// The dataset index of an element, given by the leaf's indices; `None` if it is outside the leaf or the dataset,
    /// or has no counterpart.
    pub fn dataset_index(&self, index: &[u64]) -> Option<Vec<u64>> {
        let inside = |(&x, run): (&u64, &Run)| x.checked_sub(run.start).is_some_and(|x| x < run.count);
        if index.len() != self.runs.len() || !index.iter().zip(&self.runs).all(inside) {
            return None;
        }
        self.dims
            .iter()
            .map(|dim| {
                let x = match dim.map.source {
                    crate::Source::Binder(n) => *index.get(n)?,
                    crate::Source::Constant => 0,
                };
                let y = u64::try_from(dim.map.apply(x)?).ok()?;
                dim.extent.is_none_or(|extent| y < extent).then_some(y)
            })
            .collect()
    }

    /// The bytes between neighbours for each index of the leaf; `None` if some level follows a curve.
    pub fn strides(&self) -> Option<Vec<u64>> {
        let levels: Option<Vec<Vec<u64>>> = self.levels.iter().map(Level::strides).collect();
        Some(levels?.into_iter().flatten().collect())
    }

    /// Bytes from the beginning of the fragment to an element; `None` along a curve.
    pub fn address(&self, index: &[u64]) -> Option<u64> {
        let strides = self.strides()?;
        let along: Option<u64> =
            index.iter().zip(&strides).try_fold(0_u64, |sum, (x, s)| sum.checked_add(x.checked_mul(*s)?));
        self.offset.checked_add(along?)
    }
}

/// The fragment has more than [`MAX_LEAVES`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLeaves {
    /// The number of the variable at which the limit was exceeded.
    pub var: usize,
}

impl std::fmt::Display for TooManyLeaves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the fragment falls into more than {MAX_LEAVES} pieces; use fewer variables or longer periods"
        )
    }
}

impl std::error::Error for TooManyLeaves {}

impl Fragment {
    /// The fragment's leaves, in the order of its variables. Variables without elements have none.
    pub fn lower(&self) -> Result<Vec<Leaf>, TooManyLeaves> {
        let mut leaves = Vec::new();
        for (number, var) in self.vars.iter().enumerate() {
            lower_var(number, var, &mut leaves).ok_or(TooManyLeaves { var: number })?;
        }
        Ok(leaves)
    }
}

fn lower_var(number: usize, var: &FragmentVar, leaves: &mut Vec<Leaf>) -> Option<()> {
    if var.extents.contains(&0) {
        return Some(());
    }
    let level = Level { extents: var.extents.clone(), order: var.order.clone(), unit: var.element.size() };
    let whole: Vec<Run> = var.extents.iter().map(|&count| Run { start: 0, count }).collect();
    let boxes = without_periods(&whole, &var.dims)?;
    for (runs, dims) in boxes {
        for field in &var.fields {
            let leaf = Leaf {
                var: number,
                variable: Arc::clone(&var.variable),
                column: Arc::clone(&field.path),
                prim: Prim::Bool,
                offset: var.offset.checked_add(field.offset)?,
                levels: vec![level.clone()],
                runs: runs.clone(),
                dataset_offset: field.dataset_offset,
                dims: dims.clone(),
            };
            flatten(leaf, &field.ty, leaves)?;
        }
    }
    Some(())
}

/// Splits a part of an element into its primitive values. Types are at most [`crate::MAX_DEPTH`] deep.
fn flatten(mut leaf: Leaf, ty: &Type, leaves: &mut Vec<Leaf>) -> Option<()> {
    match ty {
        Type::Prim(prim) => {
            if leaves.len() >= MAX_LEAVES {
                return None;
            }
            leaf.prim = *prim;
            leaves.push(leaf);
            Some(())
        }
        Type::Array(array) => {
            let unit = array.element.size();
            let extents: Vec<Option<u64>> = array.extents.iter().copied().map(Some).collect();
            for (&count, stride) in array.extents.iter().zip(array.order.strides(&extents, unit)) {
                let map = IndexMap::identity(leaf.runs.len());
                leaf.runs.push(Run { start: 0, count });
                leaf.dims.push(DatasetDim { extent: Some(count), stride, map });
            }
            leaf.levels.push(Level { extents: array.extents.clone(), order: array.order.clone(), unit });
            flatten(leaf, &array.element, leaves)
        }
        Type::Struct(structure) => {
            for field in &structure.fields {
                let mut part = leaf.clone();
                part.column = join(&leaf.column, &field.name);
                part.offset = part.offset.checked_add(field.offset)?;
                part.dataset_offset = part.dataset_offset.checked_add(field.offset)?;
                flatten(part, &field.ty, leaves)?;
            }
            Some(())
        }
    }
}

/// Joins two paths; either may be empty.
pub(crate) fn join(path: &str, rest: &str) -> Arc<str> {
    let dot = if path.is_empty() || rest.is_empty() { "" } else { "." };
    format!("{path}{dot}{rest}").into()
}

/// Cuts a box where periodic maps wrap. Each index is used in at most one map, so the pieces of the box are the
/// products of the pieces of its indices.
fn without_periods(whole: &[Run], dims: &[DatasetDim]) -> Option<Vec<(Vec<Run>, Vec<DatasetDim>)>> {
    let mut boxes = vec![(whole.to_vec(), dims.to_vec())];
    for (position, dim) in dims.iter().enumerate() {
        let (crate::Source::Binder(binder), Some(_)) = (dim.map.source, dim.map.modulus) else { continue };
        let pieces = dim.map.unwrap_period(*whole.get(binder)?, MAX_LEAVES)?;
        if pieces.len().checked_mul(boxes.len())? > MAX_LEAVES {
            return None;
        }
        boxes = boxes
            .iter()
            .flat_map(|(runs, dims)| {
                pieces.iter().map(move |&(run, map)| {
                    let (mut runs, mut dims) = (runs.clone(), dims.clone());
                    if let (Some(r), Some(d)) = (runs.get_mut(binder), dims.get_mut(position)) {
                        (*r, d.map) = (run, map);
                    }
                    (runs, dims)
                })
            })
            .collect();
    }
    Some(boxes)
}
