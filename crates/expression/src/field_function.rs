//! Operators on fields (differences, vectors, reductions), and the nodes that each one becomes.
//!
//! `grad`, `div`, `curl`, `laplacian`, `cross`, `dot` and `norm` are expanded when the tree is built. So a tree
//! has only first and second differences along one dimension, reductions, and lists of components.
//!
//! Invariants
//! - a list is the root of a tree, names the dimensions of a reduction, or is the halo of a call;
//! - a dimension is a name without members and offsets, or the number of an axis;
//! - components have one order in every operator: along x, y, z, then along the other dimensions in their order.

use crate::builder::Builder;
use crate::error::{Error, Kind};
use crate::tree::{Binary, Node, NodeId, Over, Stencil};
use crate::types::Type;

/// The most components of a vector.
const MAX_COMPONENTS: usize = 16;
/// The bound (exclusive) of axis numbers.
const MAX_AXES: i128 = 32;

/// The widest halo of a registered function, in cells.
pub const MAX_HALO: u16 = 1024;
/// The longest name of a registered function, in bytes.
const MAX_FUNCTION: usize = 64;

/// The dimensions along which the first components of a vector point, if a variable has them.
const NAMES: [&str; 3] = ["x", "y", "z"];

/// A function of fields or vectors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldFunction {
    Diff,
    Diff2,
    Laplacian,
    Grad,
    Div,
    Curl,
    Cross,
    Dot,
    Vector,
    Component,
    Apply,
}

/// How a registered function is called.
const APPLY: &str = "write `apply(smooth, u, f4, 1)`: name, argument, type of the result, cells of halo";

/// True if a registered function may have this name.
pub fn is_function_name(name: &str) -> bool {
    let is_sound = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.');
    (1..=MAX_FUNCTION).contains(&name.len()) && name.bytes().all(is_sound)
}

fn wrong(found: impl Into<String>, help: &str) -> Error {
    Error::new(Kind::Syntax, found).help(help)
}

impl Builder {
    /// Checks that lists stand only where they are allowed, and that dimensions and distances are valid.
    pub(crate) fn accept(&self, node: Node) -> Result<(), Error> {
        let is_list = |id: NodeId| matches!(self.node(id), Node::List(..));
        let vector = || {
            let help = "take a component(v, 0), or its norm(v)";
            Err(Error::new(Kind::Type, "a vector stands where a number is needed").help(help))
        };
        match node {
            Node::List(front, last) => {
                if is_list(last) {
                    return vector();
                }
                if self.listed(front).len() >= MAX_COMPONENTS {
                    let found = format!("a vector has more than {MAX_COMPONENTS} components");
                    return Err(Error::new(Kind::Limit, found));
                }
                Ok(())
            }
            Node::Over(_, of, dims) => {
                if is_list(of) {
                    return vector();
                }
                let dims = dims.map(|dims| self.listed(dims)).unwrap_or_default();
                for (n, &dim) in dims.iter().enumerate() {
                    self.dimension(dim)?;
                    if dims[..n].contains(&dim) {
                        return Err(Error::new(Kind::Syntax, "a reduction names a dimension twice"));
                    }
                }
                Ok(())
            }
            Node::Stencil(_, of, dim, by) => {
                if is_list(of) {
                    return vector();
                }
                self.dimension(dim)?;
                let distance = match by.map(|by| self.node(by)) {
                    None => 1.0,
                    Some(Node::Integer(n)) => n as f64,
                    Some(Node::Float(bits)) => f64::from_bits(bits),
                    Some(_) => f64::NAN,
                };
                if distance.is_finite() && distance != 0.0 {
                    return Ok(());
                }
                Err(wrong(
                    "the distance between cells is a number and not 0",
                    "write `diff(u, x)`, which takes it from the coordinate variable `x`, or `diff(u, x, 0.5)`",
                ))
            }
            Node::Call(_, function, of, halo) => {
                let is_named = match self.node(function) {
                    Node::Name(n) => {
                        let name = self.name_of(n);
                        let is_plain = name.members().is_empty() && name.offsets().is_empty();
                        is_plain && is_function_name(name.path())
                    }
                    _ => false,
                };
                if !is_named {
                    return Err(wrong(
                        "a registered function is called by its name, between backticks if it has `-` or `.`",
                        APPLY,
                    ));
                }
                if is_list(of) {
                    return vector();
                }
                let cells = halo.map(|halo| self.listed(halo)).unwrap_or_default();
                let fits = |id: &NodeId| matches!(self.node(*id), Node::Integer(n) if (0..=MAX_HALO.into()).contains(&n));
                match cells.iter().all(fits) {
                    true => Ok(()),
                    false => Err(wrong(format!("a halo is a number of cells from 0 to {MAX_HALO}"), APPLY)),
                }
            }
            node if node.operands().any(is_list) => vector(),
            _ => Ok(()),
        }
    }

    /// Whether a node is only a name. Its values are numbers, also those of a derived vector, which has its components
    /// along its last dimension.
    pub(crate) fn is_bare(&self, id: NodeId) -> bool {
        matches!(self.node(id), Node::Name(_))
    }

    /// The error for an operator on vectors that gets a name.
    pub(crate) fn no_vector(&self, function: &str, id: NodeId) -> Error {
        let name = match self.node(id) {
            Node::Name(n) => self.name_of(n).path(),
            _ => "u",
        };
        let found = format!("`{function}` takes a vector, and `{name}` is a number for each cell");
        let help = format!(
            "write `vector(u, v, w)` or a vector's definition; the components of a derived vector lie along its last \
             dimension, so its norm is `sqrt(sum({name}*{name}, component))`"
        );
        Error::new(Kind::Type, found).help(help)
    }

    fn dimension(&self, dim: NodeId) -> Result<(), Error> {
        let fits = match self.node(dim) {
            Node::Name(n) => {
                let name = self.name_of(n);
                name.members().is_empty() && name.offsets().is_empty()
            }
            Node::Integer(n) => (0..MAX_AXES).contains(&n),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(wrong("a dimension is needed, by its name or its number", "write `diff(u, x)` or `diff(u, 0)`"))
    }

    /// The difference operators.
    pub fn stencil(
        &mut self,
        op: Stencil,
        of: NodeId,
        dim: NodeId,
        by: Option<NodeId>,
    ) -> Result<NodeId, Error> {
        self.add(Node::Stencil(op, of, dim, by), 1)
    }

    /// A reduction over some dimensions, or over all.
    pub fn over(&mut self, op: Over, of: NodeId, dims: Option<NodeId>) -> Result<NodeId, Error> {
        self.add(Node::Over(op, of, dims), 1)
    }

    /// A registered function with a result of a type. `halo` is a number of cells, or a list with one for each axis.
    pub fn registered(
        &mut self,
        to: Type,
        function: NodeId,
        of: NodeId,
        halo: Option<NodeId>,
    ) -> Result<NodeId, Error> {
        self.add(Node::Call(to, function, of, halo), 1)
    }

    /// A list with one more item.
    pub fn list(&mut self, front: NodeId, last: NodeId) -> Result<NodeId, Error> {
        self.add(Node::List(front, last), 1)
    }

    fn vector(&mut self, components: &[NodeId]) -> Result<NodeId, Error> {
        let Some((&first, rest)) = components.split_first() else {
            return Err(wrong("a vector has no components", "write `vector(u, v, w)`"));
        };
        rest.iter().try_fold(first, |list, &next| self.list(list, next))
    }

    pub(crate) fn over_listed(&mut self, op: Over, of: NodeId, dims: &[NodeId]) -> Result<NodeId, Error> {
        let dims = if dims.is_empty() { None } else { Some(self.vector(dims)?) };
        self.over(op, of, dims)
    }

    /// Applies an operator to each component; `None` if no operand is a vector. A number is used for every component.
    pub(crate) fn each(
        &mut self,
        operands: &[NodeId],
        mut make: impl FnMut(&mut Builder, &[NodeId]) -> Result<NodeId, Error>,
    ) -> Option<Result<NodeId, Error>> {
        if !operands.iter().any(|&id| matches!(self.node(id), Node::List(..))) {
            return None;
        }
        let lists: Vec<Vec<NodeId>> = operands.iter().map(|&id| self.listed(id)).collect();
        let count = lists.iter().map(Vec::len).max().unwrap_or(1);
        if let Some(other) = lists.iter().map(Vec::len).find(|&n| n != 1 && n != count) {
            let found = format!("vectors of {count} and of {other} components have no common operator");
            return Some(Err(Error::new(Kind::Type, found)));
        }
        let mut out = Vec::with_capacity(count);
        for n in 0..count {
            let of: Vec<NodeId> =
                lists.iter().map(|list| list[if list.len() == 1 { 0 } else { n }]).collect();
            match make(self, &of) {
                Ok(id) => out.push(id),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(self.vector(&out))
    }

    /// The default dimensions, for operators whose text names none.
    fn own_dims(&mut self, function: &str) -> Result<Vec<NodeId>, Error> {
        let Some(dims) = self.dims.clone() else {
            let found = format!("`{function}` does not say along which dimensions");
            let help = format!("name them, as in `{function}(u, x, y)`");
            return Err(Error::new(Kind::Syntax, found).help(help));
        };
        let mut out = Vec::with_capacity(dims.len());
        for (n, dim) in dims.iter().enumerate() {
            out.push(self.dim(dim, n)?);
        }
        Ok(out)
    }

    /// The default dimensions in the order of a vector's components: x, y and z first, then the others as they are.
    fn vector_dims(&mut self, function: &str) -> Result<Vec<NodeId>, Error> {
        let dims = self.own_dims(function)?;
        let names = self.dims.clone().unwrap_or_default();
        let rank = |n: &usize| {
            NAMES.iter().position(|name| names.get(*n).is_some_and(|dim| dim == name)).unwrap_or(NAMES.len())
        };
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(rank);
        Ok(order.into_iter().map(|n| dims[n]).collect())
    }

    fn dim(&mut self, name: &str, number: usize) -> Result<NodeId, Error> {
        match name {
            "" => self.integer(number as i128),
            name => {
                let name = crate::name::Name::new(name)?;
                self.name(name)
            }
        }
    }

    /// The dimensions of the components of a vector: x, y, z if the variables have these names, else all in the order
    /// of [`Self::vector_dims`].
    fn component_dims(&mut self, function: &str, count: usize) -> Result<Vec<NodeId>, Error> {
        let named: Vec<&str> = NAMES.into_iter().take(count).collect();
        let known = self.dims.clone();
        if known.as_ref().is_none_or(|dims| named.iter().all(|name| dims.iter().any(|dim| dim == name))) {
            return named.into_iter().enumerate().map(|(n, name)| self.dim(name, n)).collect();
        }
        let dims = self.vector_dims(function)?;
        if dims.len() == count {
            return Ok(dims);
        }
        let found = format!(
            "`{function}` of {count} components needs {count} dimensions; the variables have {}",
            dims.len()
        );
        let help = match count {
            2 => format!("name them: `{function}(u, v, x, y)`"),
            _ => format!("name them: `{function}(u, v, w, x, y, z)`"),
        };
        Err(Error::new(Kind::Syntax, found).help(help))
    }

    /// The components, and one dimension for each.
    fn vector_and_dims(
        &mut self,
        function: &str,
        arguments: &[NodeId],
    ) -> Result<(Vec<NodeId>, Vec<NodeId>), Error> {
        let mut all: Vec<NodeId> = arguments.iter().flat_map(|&id| self.listed(id)).collect();
        let count = match all.len() {
            2 | 4 => 2,
            3 | 6 => 3,
            found => {
                let help = format!(
                    "write `{function}(u, v)`, `{function}(u, v, w)` or `{function}(u, v, w, x, y, z)`"
                );
                return Err(wrong(format!("`{function}` has {found} arguments"), &help));
            }
        };
        let dims = all.split_off(count);
        let dims = if dims.is_empty() { self.component_dims(function, count)? } else { dims };
        Ok((all, dims))
    }

    fn difference(&mut self, of: NodeId, along: NodeId) -> Result<NodeId, Error> {
        self.stencil(Stencil::Diff, of, along, None)
    }

    fn minus(&mut self, a: NodeId, b: NodeId) -> Result<NodeId, Error> {
        self.binary(Binary::Sub, a, b)
    }

    fn sum(&mut self, terms: &[NodeId]) -> Result<NodeId, Error> {
        let Some((&first, rest)) = terms.split_first() else {
            return Err(wrong("nothing is summed", "name a dimension"));
        };
        rest.iter().try_fold(first, |sum, &next| self.binary(Binary::Add, sum, next))
    }

    /// Expands an operator on fields, given its arguments.
    pub(crate) fn field(&mut self, function: FieldFunction, arguments: &[NodeId]) -> Result<NodeId, Error> {
        use FieldFunction::*;
        match (function, arguments) {
            (Diff, &[of, dim]) => self.difference(of, dim),
            (Diff, &[of, dim, by]) => self.stencil(Stencil::Diff, of, dim, Some(by)),
            (Diff2, &[of, dim]) => self.stencil(Stencil::Second, of, dim, None),
            (Diff2, &[of, dim, by]) => self.stencil(Stencil::Second, of, dim, Some(by)),
            (Laplacian, &[of, ref dims @ ..]) => {
                let dims = if dims.is_empty() { self.own_dims("laplacian")? } else { dims.to_vec() };
                let mut terms = Vec::with_capacity(dims.len());
                for dim in dims {
                    terms.push(self.stencil(Stencil::Second, of, dim, None)?);
                }
                self.sum(&terms)
            }
            (Grad, &[of, ref dims @ ..]) => {
                let dims = if dims.is_empty() { self.vector_dims("grad")? } else { dims.to_vec() };
                let mut components = Vec::with_capacity(dims.len());
                for dim in dims {
                    components.push(self.difference(of, dim)?);
                }
                self.vector(&components)
            }
            (Div, arguments) => {
                let (of, dims) = self.vector_and_dims("div", arguments)?;
                let mut terms = Vec::with_capacity(of.len());
                for (of, dim) in of.into_iter().zip(dims) {
                    terms.push(self.difference(of, dim)?);
                }
                self.sum(&terms)
            }
            (Curl, arguments) => {
                let (of, along) = self.vector_and_dims("curl", arguments)?;
                let mut turn = |a: usize, b: usize| {
                    let (first, second) =
                        (self.difference(of[b], along[a])?, self.difference(of[a], along[b])?);
                    self.minus(first, second)
                };
                if of.len() == 2 {
                    return turn(0, 1);
                }
                let components = [turn(1, 2)?, turn(2, 0)?, turn(0, 1)?];
                self.vector(&components)
            }
            // Two arguments are two vectors: their components are not put together and halved.
            (Dot, &[name, other]) if self.is_bare(name) && self.is_bare(other) => {
                Err(self.no_vector("dot", name))
            }
            (Dot | Cross, &[u, v]) if self.listed(u).len() != self.listed(v).len() => {
                let name = if matches!(function, Dot) { "dot" } else { "cross" };
                match [u, v].into_iter().find(|&id| self.is_bare(id)) {
                    Some(bare) => Err(self.no_vector(name, bare)),
                    None => {
                        let (u, v) = (self.listed(u).len(), self.listed(v).len());
                        let found = format!("`{name}` of vectors of {u} and of {v} components");
                        Err(wrong(found, "give two vectors with as many components"))
                    }
                }
            }
            (Cross, arguments) => {
                let all: Vec<NodeId> = arguments.iter().flat_map(|&id| self.listed(id)).collect();
                let (n, help) =
                    (all.len() / 2, "write `cross(u, v)` of vectors, or `cross(u1, u2, u3, v1, v2, v3)`");
                if !matches!(all.len(), 4 | 6) {
                    return Err(wrong(format!("`cross` has {} components", all.len()), help));
                }
                let (u, v) = all.split_at(n);
                let mut turn = |a: usize, b: usize| {
                    let first = self.binary(Binary::Mul, u[a], v[b])?;
                    let second = self.binary(Binary::Mul, u[b], v[a])?;
                    self.minus(first, second)
                };
                if n == 2 {
                    return turn(0, 1);
                }
                let components = [turn(1, 2)?, turn(2, 0)?, turn(0, 1)?];
                self.vector(&components)
            }
            (Dot, arguments) => {
                let all: Vec<NodeId> = arguments.iter().flat_map(|&id| self.listed(id)).collect();
                if all.is_empty() || all.len() % 2 == 1 {
                    let found = format!("`dot` has {} components", all.len());
                    return Err(wrong(found, "write `dot(u, v)` of vectors, or `dot(u1, u2, v1, v2)`"));
                }
                let (u, v) = all.split_at(all.len() / 2);
                let mut terms = Vec::with_capacity(u.len());
                for (&a, &b) in u.iter().zip(v) {
                    terms.push(self.binary(Binary::Mul, a, b)?);
                }
                self.sum(&terms)
            }
            (Apply, &[name, of, to, ref halo @ ..]) => {
                let to = match self.node(to) {
                    Node::Name(n) => Type::from_name(self.name_of(n).path()),
                    _ => None,
                };
                let to = to.ok_or_else(|| wrong("the third argument is the type of the result", APPLY))?;
                let halo = match halo {
                    [] => None,
                    cells => Some(self.vector(cells)?),
                };
                self.registered(to, name, of, halo)
            }
            (Vector, arguments) => self.vector(arguments),
            (Component, &[name, _]) if self.is_bare(name) => Err(self.no_vector("component", name)),
            (Component, &[of, number]) => {
                let all = self.listed(of);
                let found = match self.node(number) {
                    Node::Integer(n) => usize::try_from(n).ok().and_then(|n| all.get(n).copied()),
                    _ => None,
                };
                found.ok_or_else(|| {
                    let found = format!("the vector has the components 0 to {}", all.len() - 1);
                    wrong(found, "write `component(v, 0)`")
                })
            }
            (Diff | Diff2, _) => Err(wrong("a difference has two or three arguments", "write `diff(u, x)`")),
            (Laplacian | Grad, _) => Err(wrong("a field is needed", "write `laplacian(u)` or `grad(u)`")),
            (Apply, _) => Err(wrong("a function, its argument and the type of its result are needed", APPLY)),
            (Component, _) => Err(wrong("`component` has two arguments", "write `component(v, 0)`")),
        }
    }
}
