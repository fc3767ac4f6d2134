//! Builds trees from the leaves up. Equal nodes are stored once; limits are checked at every step.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::{Error, Kind};
use crate::name::Name;
use crate::tree::{Binary, MAX_DEPTH, MAX_WEIGHT, Node, NodeId, Reduction, Tree, Unary, listed};

fn too_large() -> Error {
    let found = format!("the expression has more than {MAX_WEIGHT} operators, names and constants");
    Error::new(Kind::Limit, found).help("split it, or store a part of it as a derived variable")
}

/// Builds trees from the leaves up. Ids are valid only in the builder that returned them.
#[derive(Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
    names: Vec<Name>,
    texts: Vec<String>,
    measures: Vec<Measure>,
    places: Vec<Option<Range<usize>>>,
    known: HashMap<Node, NodeId>,
    known_names: HashMap<Name, u16>,
    known_texts: HashMap<String, u16>,
    /// Default dimensions of `grad`, `div`, `curl` and `laplacian`. An empty name stands for the number of its axis.
    pub(crate) dims: Option<Vec<String>>,
}

/// Weight and depth of a node, with everything below it.
#[derive(Debug, Clone, Copy)]
struct Measure {
    weight: u32,
    depth: u32,
}

impl Builder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the default dimensions of operators on fields: those of the variables in the expression.
    pub fn along(mut self, dims: Vec<String>) -> Self {
        self.dims = Some(dims);
        self
    }

    pub(crate) fn add(&mut self, node: Node, own: u32) -> Result<NodeId, Error> {
        self.accept(node)?;
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

    /// Records the position of a node in the text; the earliest position is kept.
    pub(crate) fn place(&mut self, id: NodeId, at: Range<usize>) {
        self.places.resize(self.nodes.len(), None);
        if let Some(place) = self.places.get_mut(id.index()) {
            place.get_or_insert(at);
        }
    }

    pub(crate) fn place_of(&self, id: NodeId) -> Option<Range<usize>> {
        self.places.get(id.index()).cloned().flatten()
    }

    /// The items of a list (components or dimensions); any other node is a list of itself.
    pub(crate) fn listed(&self, id: NodeId) -> Vec<NodeId> {
        listed(&self.nodes, id)
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.nodes[id.index()]
    }

    pub(crate) fn name_of(&self, number: u16) -> &Name {
        &self.names[usize::from(number)]
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

    /// A text that is compared with a name.
    pub fn text(&mut self, text: &str) -> Result<NodeId, Error> {
        let index = match self.known_texts.get(text) {
            Some(&index) => index,
            None if self.texts.len() > MAX_WEIGHT as usize => return Err(too_large()),
            None => {
                let index = self.texts.len() as u16;
                self.known_texts.insert(text.to_owned(), index);
                self.texts.push(text.to_owned());
                index
            }
        };
        self.add(Node::Text(index), 1 + text.len() as u32 / 16)
    }

    /// A reduction over all cells of a variable.
    pub(crate) fn reduce(&mut self, reduction: Reduction, a: NodeId) -> Result<NodeId, Error> {
        self.add(Node::Reduce(reduction, a), 1)
    }

    /// An operator or a function of one operand.
    pub fn unary(&mut self, op: Unary, a: NodeId) -> Result<NodeId, Error> {
        if let Some(vector) = self.each(&[a], |builder, of| builder.unary(op, of[0])) {
            return vector;
        }
        match (op, self.node(a)) {
            (Unary::Neg, Node::Integer(value)) => self.integer(-value),
            (Unary::Neg, Node::Float(bits)) => self.float(-f64::from_bits(bits)),
            _ => self.add(Node::Unary(op, a), 1),
        }
    }

    /// An operator or a function of two operands.
    pub fn binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> Result<NodeId, Error> {
        if let Some(vector) = self.each(&[a, b], |builder, of| builder.binary(op, of[0], of[1])) {
            return vector;
        }
        self.add(Node::Binary(op, a, b), 1)
    }

    /// The second operand where the first holds, else the third.
    pub fn choose(&mut self, condition: NodeId, a: NodeId, b: NodeId) -> Result<NodeId, Error> {
        self.add(Node::Where(condition, a, b), 1)
    }

    /// Copies another tree into this one; returns the id of its root.
    pub fn import(&mut self, tree: &Tree) -> Result<NodeId, Error> {
        let mut new: Vec<NodeId> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let id = match *node {
                Node::Name(n) => self.name(tree.names[usize::from(n)].clone())?,
                Node::Text(n) => self.text(&tree.texts[usize::from(n)])?,
                node => self.add(node.with_operands(|id| new[id.index()]), 1)?,
            };
            new.push(id);
        }
        Ok(new[tree.root().index()])
    }

    /// The tree below `root`. Nodes that do not belong to it are left out.
    pub fn finish(&self, root: NodeId) -> Tree {
        let mut tree = Tree { nodes: Vec::new(), names: Vec::new(), texts: Vec::new(), places: Vec::new() };
        let mut new: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut new_names: Vec<Option<u16>> = vec![None; self.names.len()];
        let mut new_texts: Vec<Option<u16>> = vec![None; self.texts.len()];
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
                Node::Text(n) => Node::Text(*new_texts[usize::from(n)].get_or_insert_with(|| {
                    tree.texts.push(self.texts[usize::from(n)].clone());
                    tree.texts.len() as u16 - 1
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

impl Tree {
    /// The terms that `&` joins at the root, in the order of the text. A cell satisfies a condition exactly where it
    /// satisfies every term, unknown values included. An expression without `&` at its root is its own only term.
    pub fn conjuncts(&self) -> Vec<Tree> {
        let mut builder = Builder::new();
        let Ok(root) = builder.import(self) else { return vec![self.clone()] };
        let (mut open, mut terms) = (vec![root], Vec::new());
        while let Some(id) = open.pop() {
            match builder.node(id) {
                Node::Binary(Binary::And, a, b) => open.extend([b, a]),
                _ if terms.contains(&id) => {}
                _ => terms.push(id),
            }
        }
        terms.into_iter().map(|id| builder.finish(id)).collect()
    }
}
