//! The tree of an expression: an array of nodes, operands first, each distinct node once.
//!
//! Why an array: passes over it are loops, so depth costs no stack, and equal parts are computed once.
//!
//! Invariants
//! - a node's operands have smaller ids; the root is the last node;
//! - nodes and names are numbered in the order of a walk that visits operands first, so equal trees are equal arrays;
//! - no node negates a constant: the constant is negative;
//! - weight and depth are within their limits, and so is the printed text.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::name::Name;
use crate::types::Type;

/// Nodes of a tree as it is printed, at most: shared parts count each time, long names more than once.
pub const MAX_WEIGHT: u32 = 4096;
/// Nodes from the root to the farthest leaf, at most.
pub const MAX_DEPTH: u32 = 256;

/// The place of a node in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u16);

impl NodeId {
    /// The place as an index.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// An operator or a function of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Unary {
    /// The complement of a condition.
    Not,
    Neg,
    /// Flips every bit of an integer.
    Invert,
    Abs,
    Sign,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest integer, halves to the even one.
    Round,
    Sqrt,
    Cbrt,
    Exp,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    IsNan,
    IsInf,
    IsFinite,
    /// To a type.
    Cast(Type),
}

/// An operator or a function of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Or,
    Xor,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Min,
    Max,
    Atan2,
    Hypot,
}

impl Binary {
    /// True for `== != < <= > >=`.
    pub fn is_comparison(self) -> bool {
        use Binary::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

/// What a question makes of all cells of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The least value.
    Min,
    /// The greatest value.
    Max,
}

/// A finite difference along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stencil {
    /// The first: central inside, as `numpy.gradient`.
    Diff,
    /// The second, of three neighbouring cells.
    Second,
}

/// What all cells along some dimensions become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// The sum.
    Sum,
    /// The arithmetic mean.
    Mean,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// How many cells satisfy a condition.
    Count,
    /// Whether a cell does.
    Any,
    /// Whether every cell does.
    All,
}

impl Over {
    /// Every reduction, in the order of their codes.
    pub const ALL: [Over; 7] =
        [Over::Sum, Over::Mean, Over::Min, Over::Max, Over::Count, Over::Any, Over::All];

    /// The name in texts; `min` and `max` of several operands compare them cell by cell.
    pub fn name(self) -> &'static str {
        match self {
            Over::Sum => "sum",
            Over::Mean => "mean",
            Over::Min => "amin",
            Over::Max => "amax",
            Over::Count => "count",
            Over::Any => "any",
            Over::All => "all",
        }
    }
}

/// One node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// A name, by its place in [`Tree::names`].
    Name(u16),
    /// `true` or `false`.
    Bool(bool),
    /// An integer between the least of i8 and the greatest of u8.
    Integer(i128),
    /// A float by its bits; NaN has one form.
    Float(u64),
    /// A text, by its place in [`Tree::texts`]: in questions only.
    Text(u16),
    /// One value of all cells: in questions only.
    Reduce(Reduction, NodeId),
    /// One operand.
    Unary(Unary, NodeId),
    /// Two operands.
    Binary(Binary, NodeId, NodeId),
    /// The second where the first holds, else the third.
    Where(NodeId, NodeId, NodeId),
    /// A difference of the first along the dimension that the second names; the third is the distance of cells, if it is given.
    Stencil(Stencil, NodeId, NodeId, Option<NodeId>),
    /// All cells along the dimensions that the second names, one or a list; along all dimensions without.
    Over(Over, NodeId, Option<NodeId>),
    /// What the first lists, and one more: components of a vector, or dimensions.
    List(NodeId, NodeId),
}

impl Node {
    /// The operands, in order.
    pub fn operands(self) -> impl DoubleEndedIterator<Item = NodeId> {
        let (a, b, c) = match self {
            Node::Name(_) | Node::Bool(_) | Node::Integer(_) | Node::Float(_) | Node::Text(_) => {
                (None, None, None)
            }
            Node::Unary(_, a) | Node::Reduce(_, a) => (Some(a), None, None),
            Node::Binary(_, a, b) | Node::List(a, b) => (Some(a), Some(b), None),
            Node::Stencil(_, a, dim, by) => (Some(a), Some(dim), by),
            Node::Over(_, a, dims) => (Some(a), dims, None),
            Node::Where(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }

    pub(crate) fn with_operands(self, new: impl Fn(NodeId) -> NodeId + Copy) -> Node {
        match self {
            Node::Unary(op, a) => Node::Unary(op, new(a)),
            Node::Reduce(reduction, a) => Node::Reduce(reduction, new(a)),
            Node::Binary(op, a, b) => Node::Binary(op, new(a), new(b)),
            Node::Where(a, b, c) => Node::Where(new(a), new(b), new(c)),
            Node::Stencil(op, a, dim, by) => Node::Stencil(op, new(a), new(dim), by.map(new)),
            Node::Over(op, a, dims) => Node::Over(op, new(a), dims.map(new)),
            Node::List(a, b) => Node::List(new(a), new(b)),
            leaf => leaf,
        }
    }
}

/// An expression. Equal expressions are equal trees, wherever they come from.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: Vec<Name>,
    pub(crate) texts: Vec<String>,
    /// Where in a text each node stands; empty if there was no text. For messages only.
    pub(crate) places: Vec<Option<Range<usize>>>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.names == other.names && self.texts == other.texts
    }
}

impl Eq for Tree {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, &self.names, &self.texts).hash(state);
    }
}

impl Tree {
    /// The nodes, operands first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The names, each once, in the order of their first use.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The texts of a question, each once, in the order of their first use.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The last node, which the others belong to.
    pub fn root(&self) -> NodeId {
        NodeId(self.nodes.len().saturating_sub(1) as u16)
    }

    /// What a list holds; anything else is a list of itself.
    pub fn listed(&self, id: NodeId) -> Vec<NodeId> {
        listed(&self.nodes, id)
    }

    /// How many values a cell has: the components of a vector, else 1.
    pub fn components(&self) -> usize {
        self.listed(self.root()).len()
    }

    pub(crate) fn place(&self, id: NodeId) -> Option<Range<usize>> {
        self.places.get(id.index()).cloned().flatten()
    }

    /// How far neighbours reach along each dimension: least and greatest offset, 0 included, sorted by dimension.
    pub fn halo(&self) -> Vec<(&str, i16, i16)> {
        let mut out: Vec<(&str, i16, i16)> = Vec::new();
        for offset in self.names.iter().flat_map(|name| name.offsets()) {
            match out.iter_mut().find(|(dim, ..)| *dim == offset.dim) {
                Some((_, least, greatest)) => {
                    *least = offset.by.min(*least);
                    *greatest = offset.by.max(*greatest);
                }
                None => out.push((&offset.dim, offset.by.min(0), offset.by.max(0))),
            }
        }
        out.sort_unstable();
        out
    }
}

/// What a list among nodes holds; anything else is a list of itself.
pub(crate) fn listed(nodes: &[Node], id: NodeId) -> Vec<NodeId> {
    let (mut out, mut at) = (Vec::new(), id);
    while let Some(&Node::List(front, last)) = nodes.get(at.index()) {
        out.push(last);
        at = front;
    }
    out.push(at);
    out.reverse();
    out
}
