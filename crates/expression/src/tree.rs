//! The tree of an expression: an array of nodes, operands first, each distinct node once.
//!
//! Why an array: passes over it are loops, so depth costs no stack, and equal parts are computed once.
//!
//! Invariants
//! - a node's operands have smaller ids; the root is the last node;
//! - nodes and names are numbered in the order of a walk that visits operands first, so equal trees are equal arrays;
//! - no node negates a constant: the constant is negative;
//! - weight and depth are within their limits, and so is the printed text.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::error::{Error, Kind};
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
    /// One operand.
    Unary(Unary, NodeId),
    /// Two operands.
    Binary(Binary, NodeId, NodeId),
    /// The second where the first holds, else the third.
    Where(NodeId, NodeId, NodeId),
}

impl Node {
    /// The operands, in order.
    pub fn operands(self) -> impl DoubleEndedIterator<Item = NodeId> {
        let (a, b, c) = match self {
            Node::Name(_) | Node::Bool(_) | Node::Integer(_) | Node::Float(_) => (None, None, None),
            Node::Unary(_, a) => (Some(a), None, None),
            Node::Binary(_, a, b) => (Some(a), Some(b), None),
            Node::Where(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }

    fn with_operands(self, new: impl Fn(NodeId) -> NodeId) -> Node {
        match self {
            Node::Unary(op, a) => Node::Unary(op, new(a)),
            Node::Binary(op, a, b) => Node::Binary(op, new(a), new(b)),
            Node::Where(a, b, c) => Node::Where(new(a), new(b), new(c)),
            leaf => leaf,
        }
    }
}

/// An expression. Equal expressions are equal trees, wherever they come from.
#[derive(Debug, Clone)]
pub struct Tree {
    nodes: Vec<Node>,
    names: Vec<Name>,
    /// Where in a text each node stands; empty if there was no text. For messages only.
    places: Vec<Option<Range<usize>>>,
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.names == other.names
    }
}

impl Eq for Tree {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, &self.names).hash(state);
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

    /// The last node, which the others belong to.
    pub fn root(&self) -> NodeId {
        NodeId(self.nodes.len().saturating_sub(1) as u16)
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

fn too_large() -> Error {
    let found = format!("the expression has more than {MAX_WEIGHT} operators, names and constants");
    Error::new(Kind::Limit, found).help("split it, or store a part of it as a derived variable")
}

/// Makes trees, from the leaves. Ids are those of the same builder.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
    names: Vec<Name>,
    measures: Vec<Measure>,
    places: Vec<Option<Range<usize>>>,
    known: HashMap<Node, NodeId>,
    known_names: HashMap<Name, u16>,
}

/// Weight and depth of a node with all below it.
#[derive(Debug, Clone, Copy)]
struct Measure {
    weight: u32,
    depth: u32,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, node: Node, own: u32) -> Result<NodeId, Error> {
        if let Some(&id) = self.known.get(&node) {
            return Ok(id);
        }
        let mut measure = Measure { weight: own, depth: 1 };
        for operand in node.operands() {
            let below = self.measures[operand.index()];
            measure.weight = measure.weight.saturating_add(below.weight);
            measure.depth = measure.depth.max(below.depth + 1);
        }
        if measure.weight > MAX_WEIGHT || self.nodes.len() > MAX_WEIGHT as usize {
            return Err(too_large());
        }
        if measure.depth > MAX_DEPTH {
            let found = format!("the expression is nested deeper than {MAX_DEPTH} operators");
            return Err(Error::new(Kind::Limit, found).help("group its terms with brackets"));
        }
        let id = NodeId(self.nodes.len() as u16);
        self.nodes.push(node);
        self.measures.push(measure);
        self.known.insert(node, id);
        Ok(id)
    }

    /// Remembers where in the text a node stands, unless it stands at an earlier place too.
    pub(crate) fn place(&mut self, id: NodeId, at: Range<usize>) {
        self.places.resize(self.nodes.len(), None);
        if let Some(place) = self.places.get_mut(id.index()) {
            place.get_or_insert(at);
        }
    }

    pub(crate) fn place_of(&self, id: NodeId) -> Option<Range<usize>> {
        self.places.get(id.index()).cloned().flatten()
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.nodes[id.index()]
    }

    /// A name.
    pub fn name(&mut self, name: Name) -> Result<NodeId, Error> {
        let weight = name.weight();
        let index = match self.known_names.get(&name) {
            Some(&index) => index,
            None if self.names.len() > MAX_WEIGHT as usize => return Err(too_large()),
            None => {
                let index = self.names.len() as u16;
                self.known_names.insert(name.clone(), index);
                self.names.push(name);
                index
            }
        };
        self.add(Node::Name(index), weight)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, value: bool) -> Result<NodeId, Error> {
        self.add(Node::Bool(value), 1)
    }

    /// An integer constant.
    pub fn integer(&mut self, value: i128) -> Result<NodeId, Error> {
        if value < i64::MIN.into() || value > u64::MAX.into() {
            let found = format!("the constant {value} has more than 64 bits");
            return Err(
                Error::new(Kind::Constant, found).help(format!("write {:?} for a float", value as f64))
            );
        }
        self.add(Node::Integer(value), 1)
    }

    /// A float constant.
    pub fn float(&mut self, value: f64) -> Result<NodeId, Error> {
        let value = if value.is_nan() { f64::NAN } else { value };
        self.add(Node::Float(value.to_bits()), 1)
    }

    /// An operator or a function of one operand.
    pub fn unary(&mut self, op: Unary, a: NodeId) -> Result<NodeId, Error> {
        match (op, self.node(a)) {
            (Unary::Neg, Node::Integer(value)) => self.integer(-value),
            (Unary::Neg, Node::Float(bits)) => self.float(-f64::from_bits(bits)),
            _ => self.add(Node::Unary(op, a), 1),
        }
    }

    /// An operator or a function of two operands.
    pub fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> Result<NodeId, Error> {
        self.add(Node::Binary(op, a, b), 1)
    }

    /// The second where the first holds, else the third.
    pub fn choose(&mut self, condition: NodeId, a: NodeId, b: NodeId) -> Result<NodeId, Error> {
        self.add(Node::Where(condition, a, b), 1)
    }

    /// All of another tree; its root's new place.
    pub fn import(&mut self, tree: &Tree) -> Result<NodeId, Error> {
        let mut new: Vec<NodeId> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let id = match *node {
                Node::Name(n) => self.name(tree.names[usize::from(n)].clone())?,
                node => self.add(node.with_operands(|id| new[id.index()]), 1)?,
            };
            new.push(id);
        }
        Ok(new[tree.root().index()])
    }

    /// The tree below `root`. What does not belong to it is left out.
    pub fn finish(&self, root: NodeId) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), names: Vec::new(), places: Vec::new() };
        let mut new: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut new_names: Vec<Option<u16>> = vec![None; self.names.len()];
        let mut open = vec![(root, false)];
        while let Some((id, seen)) = open.pop() {
            if new[id.index()].is_some() {
                continue;
            }
            let node = self.nodes[id.index()];
            if !seen {
                open.push((id, true));
                open.extend(node.operands().rev().map(|operand| (operand, false)));
                continue;
            }
            let node = match node {
                Node::Name(n) => Node::Name(*new_names[usize::from(n)].get_or_insert_with(|| {
                    tree.names.push(self.names[usize::from(n)].clone());
                    tree.names.len() as u16 - 1
                })),
                node => node.with_operands(|operand| new[operand.index()].unwrap_or(operand)),
            };
            new[id.index()] = Some(NodeId(tree.nodes.len() as u16));
            tree.nodes.push(node);
            tree.places.push(self.place_of(id));
        }
        tree
    }
}
