//! Fragments: which part of a dataset they hold, and how it lies in memory.
//!
//! A fragment is a list of views. A view names a variable of the dataset and a path into it; its block tree describes
//! the layout of the elements. The outermost array's dimensions are the view's *binders*, which the path's index maps
//! turn into indexes of the dataset.
//!
//! Invariants of a [`MemoryLayout`]
//! - every block ends inside `len`, which is below 2^63;
//! - every dataset dimension on the path has exactly one index map, every binder is used at most once;
//! - leaves (one per primitive member) are computed once, when the fragment is made.

use std::ops::Range;

use crate::block::{ABlock, Block, Order, Places, end_of};
use crate::error::RuleError;
use crate::progression::{Coefficients, Progression};
use drystone_copy::Dtype;

/// Most leaves (primitive members) of a fragment.
const MOST_LEAVES: usize = 1 << 16;
/// Coefficients of index maps are below this, so that products of two fit in 127 bits.
const MOST_COEFFICIENT: i64 = 1 << 61;

/// How an index of the dataset is computed from a view's binder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexMap {
    binder: Option<usize>,
    coefficients: Coefficients,
}

impl IndexMap {
    /// The index of binder number `binder`, unchanged.
    pub const fn binder(binder: usize) -> Self {
        IndexMap::rational(binder, 1, 0, 0, 1)
    }

    /// `a·x + b`.
    pub const fn affine(binder: usize, a: i64, b: i64) -> Self {
        IndexMap::rational(binder, a, b, 0, 1)
    }

    /// `(a·x + b)/(c·x + d)` where that is an integer; other elements have no counterpart.
    pub const fn rational(binder: usize, a: i64, b: i64, c: i64, d: i64) -> Self {
        IndexMap { binder: Some(binder), coefficients: Coefficients { a, b, c, d, modulus: None } }
    }

    /// The same index for all elements.
    pub const fn constant(index: i64) -> Self {
        let coefficients = Coefficients { a: 0, b: index, c: 0, d: 1, modulus: None };
        IndexMap { binder: None, coefficients }
    }

    /// The index modulo `period` (never negative), as for periodic halos.
    pub const fn modulo(mut self, period: u64) -> Self {
        self.coefficients.modulus = Some(period);
        self
    }
}

/// One dimension of the dataset, and the index that a view has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The dataset's extent.
    pub extent: u64,
    /// The map to the dataset's index. Outside `0..extent` there are no elements.
    pub map: IndexMap,
}

/// A step into a dataset variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into an array: one axis per dimension.
    Index(Vec<Axis>),
    /// Into the member of a record with this id.
    Member(u32),
}

/// A view: a part of one variable of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The variable of the dataset; equal numbers name the same data.
    pub var: u32,
    /// The offset of the view's block in the fragment.
    pub offset: u64,
    /// The path from the variable to the view's elements.
    pub path: Vec<Step>,
    /// The layout of the elements. If it is an array, its dimensions are the binders; arrays further inside are whole
    /// arrays of the dataset.
    pub block: Block,
}

/// A part of a dataset with a memory layout of its own.
#[derive(Debug, Clone)]
pub struct MemoryLayout {
    len: u64,
    pub(crate) leaves: Vec<Leaf>,
}

/// One primitive member of a view, with everything that a join needs.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    /// The variable, then a member id or [`INDEX`] for each step: leaves with equal keys hold the same data.
    pub(crate) key: Vec<u32>,
    pub(crate) view: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) binders: Vec<Binder>,
    pub(crate) curves: Vec<CurveArray>,
    pub(crate) axes: Vec<LeafAxis>,
}

/// Represents an array step in a leaf's key.
const INDEX: u32 = u32::MAX;

/// One dimension of the fragment's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binder {
    pub(crate) extent: u64,
    pub(crate) place: Advance,
}

/// How a binder advances through memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Advance {
    Stride(i64),
    /// By rank, together with the other dimensions of its array.
    Curve,
}

/// An array whose elements are found by rank.
#[derive(Debug, Clone)]
pub(crate) struct CurveArray {
    pub(crate) binders: Range<usize>,
    pub(crate) ranks: Vec<u32>,
    pub(crate) elem: u64,
}

/// One dimension of the dataset as a leaf sees it.
#[derive(Debug, Clone)]
pub(crate) struct LeafAxis {
    pub(crate) extent: u64,
    pub(crate) binder: Option<usize>,
    pub(crate) pieces: Vec<Progression>,
}

impl MemoryLayout {
    /// A fragment of `len` bytes with these views. Checks that every view lies inside it, and that its path and its
    /// block agree.
    pub fn new(views: Vec<View>, len: u64) -> Result<Self, RuleError> {
        end_of(0, len)?;
        let mut leaves = Vec::new();
        for (number, view) in views.iter().enumerate() {
            if end_of(view.offset, view.block.bytes()?)? > len {
                return Err(RuleError::BadFragment { what: "a view lies beyond the end of its fragment" });
            }
            view.flatten(number, &mut leaves)?;
        }
        Ok(MemoryLayout { len, leaves })
    }

    /// A fragment with one view that begins at 0 and fills it.
    pub fn single(var: u32, path: Vec<Step>, block: Block) -> Result<Self, RuleError> {
        let len = block.bytes()?;
        MemoryLayout::new(vec![View { var, offset: 0, path, block }], len)
    }

    /// A box of an n-dimensional variable: `counts` elements from `start` on, of an array of `shape`.
    pub fn boxed(
        var: u32,
        shape: &[u64],
        start: &[i64],
        counts: &[u64],
        order: Order,
        element: Block,
    ) -> Result<Self, RuleError> {
        if shape.len() != start.len() || shape.len() != counts.len() {
            return Err(RuleError::BadFragment { what: "shape, start and counts differ in length" });
        }
        let axis = |k: usize| Axis { extent: shape[k], map: IndexMap::affine(k, 1, start[k]) };
        let path = vec![Step::Index((0..shape.len()).map(axis).collect())];
        MemoryLayout::single(var, path, element.array(counts, order))
    }

    /// The same fragment with only one of its leaves.
    pub(crate) fn with_leaf(&self, leaf: &Leaf) -> MemoryLayout {
        MemoryLayout { len: self.len, leaves: vec![leaf.clone()] }
    }

    /// Size in bytes, holes included.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the fragment has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl View {
    /// Adds this view's leaves.
    fn flatten(&self, view: usize, leaves: &mut Vec<Leaf>) -> Result<(), RuleError> {
        let mut leaf = Leaf {
            key: vec![self.var],
            view,
            offset: self.offset,
            bytes: 0,
            dtype: None,
            binders: Vec::new(),
            curves: Vec::new(),
            axes: Vec::new(),
        };
        let element = match &self.block {
            Block::A(array) => {
                leaf.enter(array)?;
                &*array.element
            }
            other => other,
        };
        let mut used = vec![false; leaf.binders.len()];
        for step in &self.path {
            match step {
                Step::Member(id) => leaf.key.push(check_id(*id)?),
                Step::Index(axes) => {
                    leaf.key.push(INDEX);
                    for axis in axes {
                        leaf.axes.push(axis.resolve(&leaf.binders, &mut used)?);
                    }
                }
            }
        }
        descend(leaf, element, leaves)
    }
}

impl Axis {
    fn resolve(&self, binders: &[Binder], used: &mut [bool]) -> Result<LeafAxis, RuleError> {
        let Coefficients { a, b, c, d, .. } = self.map.coefficients;
        if [a, b, c, d].iter().any(|value| value.unsigned_abs() > MOST_COEFFICIENT as u64) {
            return Err(RuleError::Overflow { what: "a coefficient of an index map" });
        }
        end_of(0, self.extent)?;
        let x_extent = match self.map.binder {
            None => 1,
            Some(binder) => match used.get_mut(binder) {
                None => {
                    return Err(RuleError::BadFragment {
                        what: "an index map names a binder that is not there",
                    });
                }
                Some(true) => return Err(RuleError::BadFragment { what: "a binder is used in two indexes" }),
                Some(used) => {
                    *used = true;
                    binders[binder].extent
                }
            },
        };
        let pieces = self.map.coefficients.progressions(x_extent, self.extent)?;
        let pieces = match self.map.binder {
            None => pieces.iter().map(|piece| Progression::constant(piece.y)).collect(),
            Some(_) => pieces,
        };
        Ok(LeafAxis { extent: self.extent, binder: self.map.binder, pieces })
    }
}

impl Leaf {
    /// Adds an array's dimensions as binders.
    fn enter(&mut self, array: &ABlock) -> Result<(), RuleError> {
        let from = self.binders.len();
        match array.places()? {
            Places::Strided { first, strides } => {
                self.offset += first;
                let binder = |(&extent, stride)| Binder { extent, place: Advance::Stride(stride) };
                self.binders.extend(array.counts.iter().zip(strides).map(binder));
            }
            Places::Ranked { ranks, elem } => {
                let place = Advance::Curve;
                self.binders.extend(array.counts.iter().map(|&extent| Binder { extent, place }));
                self.curves.push(CurveArray { binders: from..self.binders.len(), ranks, elem });
            }
        }
        Ok(())
    }
}

/// Adds the leaves below `block`. The recursion is as deep as the block tree, whose depth was checked.
fn descend(mut leaf: Leaf, block: &Block, leaves: &mut Vec<Leaf>) -> Result<(), RuleError> {
    match block {
        Block::S(piece) => {
            if leaves.len() == MOST_LEAVES {
                return Err(RuleError::TooLarge { what: "members in a fragment", most: MOST_LEAVES as u64 });
            }
            (leaf.bytes, leaf.dtype) = (piece.bytes, piece.dtype);
            leaves.push(leaf);
            Ok(())
        }
        Block::T(record) => record.members.iter().try_for_each(|member| {
            let mut leaf = leaf.clone();
            leaf.offset += member.offset;
            leaf.key.push(check_id(member.id)?);
            descend(leaf, &member.block, leaves)
        }),
        Block::A(array) => {
            let from = leaf.binders.len();
            leaf.enter(array)?;
            leaf.key.push(INDEX);
            for (k, &extent) in array.counts.iter().enumerate() {
                end_of(0, extent)?;
                let pieces = Progression::identity(extent).into_iter().collect();
                leaf.axes.push(LeafAxis { extent, binder: Some(from + k), pieces });
            }
            descend(leaf, &array.element, leaves)
        }
    }
}

fn check_id(id: u32) -> Result<u32, RuleError> {
    if id == INDEX { Err(RuleError::BadFragment { what: "a member has the id 2^32 - 1" }) } else { Ok(id) }
}
