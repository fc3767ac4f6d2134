//! The tree of an expression: an array of nodes, operands first, each distinct node stored once.
//!
//! Why an array: passes over it are loops, so depth takes no stack, and common subexpressions are computed once.
//!
//! Invariants
//! - a node's operands have smaller ids; the root is the last node;
//! - nodes and names are numbered by a walk that visits operands first, so equal trees are equal arrays;
//! - no node negates a constant: the constant is negative;
//! - weight and depth are within their limits, and so is the printed text.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::name::Name;
use crate::types::Type;

/// The most nodes of a printed tree: shared parts count each time, long names more than once.
pub const MAX_WEIGHT: u32 = 4096;
/// The most nodes from the root to a leaf.
pub const MAX_DEPTH: u32 = 256;

/// The index of a node in its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u16);

impl NodeId {
    /// The id as an array index.
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
    /// Rounds to the nearest integer, halves to the even one.
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
    /// A cast to a type.
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

/// A reduction in a question: over all cells of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

/// A finite difference along one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stencil {
    /// The first derivative: central inside, as in `numpy.gradient`.
    Diff,
    /// The second derivative, from three neighbouring cells.
    Second,
}

/// A reduction along some dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// The sum.
    Sum,
    /// The arithmetic mean.
    Mean,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// How many cells satisfy a condition.
    Count,
    /// Whether any cell satisfies it.
    Any,
    /// Whether every cell satisfies it.
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
    /// A name, by its index in [`Tree::names`].
    Name(u16),
    /// `true` or `false`.
    Bool(bool),
    /// An integer between the least of i8 and the greatest of u8.
    Integer(i128),
    /// A float by its bits; NaN has one form.
    Float(u64),
    /// A text, by its index in [`Tree::texts`]. Only in questions.
    Text(u16),
    /// A reduction over all cells. Only in questions.
    Reduce(Reduction, NodeId),
    /// One operand.
    Unary(Unary, NodeId),
    /// Two operands.
    Binary(Binary, NodeId, NodeId),
    /// The second operand where the first holds, else the third.
    Where(NodeId, NodeId, NodeId),
    /// The difference of the first operand along the dimension that the second names. The third is the spacing,
    /// if given.
    Stencil(Stencil, NodeId, NodeId, Option<NodeId>),
    /// A reduction over the dimensions that the second operand names (one or a list), or over all dimensions.
    Over(Over, NodeId, Option<NodeId>),
    /// A list: the items of the first operand, and one more. Items are components of a vector, dimensions, or the
    /// halo of a call.
    List(NodeId, NodeId),
    /// A registered function with a result of this type. Operands: its name, its argument, and its halo: a number of
    /// cells for all axes, a list with one for each, or none.
    Call(Type, NodeId, NodeId, Option<NodeId>),
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Only for a registered function.
    Function,
    /// For a dimension.
    Dimension,
    /// For values.
    Value,
}

impl Node {
    /// The operands whose values the node uses, in order. Others name dimensions and functions.
    pub fn value_operands(self) -> impl DoubleEndedIterator<Item = NodeId> {
        let only = match self {
            Node::Stencil(_, of, ..) | Node::Over(_, of, _) | Node::Call(_, _, of, _) => Some(of),
            _ => None,
        };
        self.operands().filter(move |id| only.is_none_or(|only| *id == only))
    }

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
            Node::Call(_, function, a, halo) => (Some(function), Some(a), halo),
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
            Node::Call(to, function, a, halo) => Node::Call(to, new(function), new(a), halo.map(new)),
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
    /// The position of each node in the text; empty if there was no text. For messages only.
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

    /// The last node: the root.
    pub fn root(&self) -> NodeId {
        NodeId(self.nodes.len().saturating_sub(1) as u16)
    }

    /// The items of a list; any other node is a list of itself.
    pub fn listed(&self, id: NodeId) -> Vec<NodeId> {
        listed(&self.nodes, id)
    }

    /// Number of values per cell: the components of a vector, else 1.
    pub fn components(&self) -> usize {
        self.listed(self.root()).len()
    }

    /// What each name stands for. A name that stands for several things has the greatest of these roles.
    pub fn roles(&self) -> Vec<Role> {
        let (mut is_value, mut roles) =
            (vec![false; self.nodes.len()], vec![Role::Function; self.names.len()]);
        if let Some(root) = is_value.last_mut() {
            *root = true;
        }
        for (n, node) in self.nodes.iter().enumerate().rev() {
            if is_value[n] {
                node.value_operands().for_each(|of| is_value[of.index()] = true);
            }
            let mut take = |id: NodeId, role: Role| {
                if let Node::Name(name) = self.nodes[id.index()] {
                    let known = &mut roles[usize::from(name)];
                    *known = role.max(*known);
                }
            };
            match *node {
                Node::Name(_) if is_value[n] => take(NodeId(n as u16), Role::Value),
                Node::Stencil(_, _, dim, _) => take(dim, Role::Dimension),
                Node::Over(_, _, Some(dims)) => {
                    self.listed(dims).into_iter().for_each(|dim| take(dim, Role::Dimension));
                }
                _ => {}
            }
        }
        roles
    }

    pub(crate) fn place(&self, id: NodeId) -> Option<Range<usize>> {
        self.places.get(id.index()).cloned().flatten()
    }

    /// The reach of neighbours along each dimension: smallest and largest offset, 0 included, sorted by dimension.
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

/// The items of a list among `nodes`; any other node is a list of itself.
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
