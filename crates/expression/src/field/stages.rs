//! Cuts a tree into stages, operands first.
//!
//! A stage holds values over a box along its own axes. Between stages, ordinary programs compute on cells.

use std::collections::HashMap;

use super::call::Called;
use crate::builder::Builder;
use crate::check::Answer;
use crate::error::{Error, Kind};
use crate::name::Name;
use crate::program::Program;
use crate::tree::{Node, NodeId, Over, Stencil, Tree, Unary};
use crate::types::Type;
use drystone_suggest::did_you_mean;

/// The deepest nesting of reductions.
const MAX_NESTED: usize = 8;

/// The edge rule: what lies beyond the edge of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// Differences are one-sided; a neighbour beyond the edge is the cell at the edge.
    OneSided,
    /// The fill value of each variable.
    Fill,
    /// The cells at the opposite end.
    Periodic,
    /// Nothing: a value that needs such a cell is NaN.
    Nan,
}

impl Edge {
    /// Every rule, in the order of their codes.
    pub const ALL: [Edge; 4] = [Edge::OneSided, Edge::Fill, Edge::Periodic, Edge::Nan];

    /// The name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Edge::OneSided => "one_sided",
            Edge::Fill => "fill",
            Edge::Periodic => "periodic",
            Edge::Nan => "nan",
        }
    }

    /// The rule of a name.
    pub fn from_name(name: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.name() == name)
    }
}

/// The meaning of a name on the grid.
#[derive(Debug, Clone)]
pub struct Meaning {
    /// The type of its values.
    pub answer: Answer,
    /// The axes of the grid along which it varies, ascending.
    pub axes: Vec<usize>,
    /// True if it holds the coordinates of the cells along the dimension of the same name.
    pub coordinate: bool,
}

/// The source of the distances between cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spacing {
    /// One number for all cells.
    Number(f64),
    /// The coordinate variable with this index, along the axis.
    Coordinates(usize),
}

/// The computation of a stage.
#[derive(Debug, Clone)]
pub(super) enum What {
    /// Reads a name, by its index in the tree.
    Input(usize),
    /// Another stage, shifted: axes and cells along them.
    Shift(usize, Vec<(usize, i64)>),
    /// A difference along an axis.
    Difference(Stencil, usize, usize, Spacing),
    /// A reduction over some axes.
    Reduce(Over, usize, Vec<usize>),
    /// A registered function of another stage.
    Call(Called),
    /// A program whose inputs are other stages.
    Compute(Box<Program>, Vec<usize>),
}

/// Values over a box of some axes.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) what: What,
    pub(super) dtype: Type,
    /// Axes of the grid, ascending.
    pub(super) axes: Vec<usize>,
}

/// A tree that is ready to be evaluated over boxes of a grid.
#[derive(Debug, Clone)]
pub struct Field {
    pub(super) stages: Vec<Stage>,
    /// The stage of each component.
    pub(super) results: Vec<usize>,
    pub(super) edge: Edge,
    axes: Vec<usize>,
    dtype: Type,
    texts: Vec<String>,
}

impl Field {
    /// Types a tree on a grid whose dimensions have these names, or none. `meanings` describes each of the
    /// tree's names.
    pub fn new(tree: &Tree, dims: &[String], meanings: &[Meaning], edge: Edge) -> Result<Field, Error> {
        let mut cutter = Cutter {
            tree,
            dims,
            meanings,
            stages: Vec::new(),
            nested: Vec::new(),
            texts: Vec::new(),
            made: HashMap::new(),
            inputs: HashMap::new(),
        };
        let components = tree.listed(tree.root());
        let mut results = Vec::new();
        for &id in &components {
            results.push(cutter.stage(id, None)?);
        }
        let dtypes: Vec<Type> = results.iter().map(|&s| cutter.stages[s].dtype).collect();
        let mut dtype = dtypes[0];
        for &other in &dtypes {
            dtype = dtype.promote(other).ok_or_else(|| {
                let found = format!("the components of a vector are {dtype} and {other}");
                Error::new(Kind::Type, found).help("cast them to one type")
            })?;
        }
        for (result, &id) in results.iter_mut().zip(&components) {
            if cutter.stages[*result].dtype != dtype {
                *result = cutter.stage(id, Some(dtype))?;
            }
        }
        let mut axes: Vec<usize> = results.iter().flat_map(|&s| cutter.stages[s].axes.clone()).collect();
        axes.sort_unstable();
        axes.dedup();
        let Cutter { stages, texts, .. } = cutter;
        let field = Field { stages, results, edge, axes, dtype, texts };
        if edge == Edge::Nan && field.reaches() && !dtype.is_float() {
            let found = format!("the edge rule \"nan\" needs a float; the result is {dtype}");
            return Err(Error::new(Kind::Type, found).help("cast it by f8(...), or choose another rule"));
        }
        Ok(field)
    }

    /// The type of its values.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// The axes of the grid along which the result varies, ascending.
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Number of values per cell: the components of a vector, else 1.
    pub fn components(&self) -> usize {
        self.results.len()
    }

    /// The edge rule.
    pub fn edge(&self) -> Edge {
        self.edge
    }

    /// The program and the indices of its names, if the field is a program on cells and nothing else.
    pub fn pointwise(&self) -> Option<(&Program, Vec<usize>)> {
        let &[result] = &self.results[..] else { return None };
        let What::Compute(program, of) = &self.stages[result].what else { return None };
        let name = |&stage: &usize| match self.stages[stage].what {
            What::Input(name) => Some(name),
            _ => None,
        };
        Some((program, of.iter().map(name).collect::<Option<Vec<_>>>()?))
    }

    /// True if a value may depend on cells other than its own.
    pub fn reaches(&self) -> bool {
        self.stages
            .iter()
            .any(|stage| matches!(stage.what, What::Shift(..) | What::Difference(..) | What::Call(_)))
    }

    /// The calls of registered functions.
    pub fn calls(&self) -> impl Iterator<Item = &Called> {
        self.stages.iter().filter_map(|stage| match &stage.what {
            What::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The longest chain of stages in which each needs neighbours of the one before.
    pub(super) fn depth(&self) -> usize {
        let mut depth: Vec<usize> = Vec::with_capacity(self.stages.len());
        for stage in &self.stages {
            depth.push(match &stage.what {
                What::Input(_) | What::Reduce(..) => 0,
                What::Shift(of, _) | What::Difference(_, of, ..) => depth[*of] + 1,
                // A call takes as long as a few operations, so its parts are as large as those of two.
                What::Call(call) => depth[call.of] + 2,
                What::Compute(_, of) => of.iter().map(|&of| depth[of]).max().unwrap_or(0),
            });
        }
        depth.into_iter().max().unwrap_or(0)
    }

    /// True if a value may depend on all cells along an axis.
    pub fn reduces(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.what, What::Reduce(..)))
    }

    /// True if a value may be known where an input is not: by `where`, `&`, `|` and reductions, and beyond an edge that
    /// has the fill value.
    pub fn may_ignore_inputs(&self) -> bool {
        let programs = self
            .stages
            .iter()
            .any(|stage| matches!(&stage.what, What::Compute(program, _) if program.may_ignore_inputs()));
        programs || self.reduces() || self.edge == Edge::Fill && self.reaches()
    }

    /// True if boxes are computed part by part. A reduction is computed once for all parts.
    pub(super) fn is_cut(&self) -> bool {
        !self.reduces()
    }

    /// Bytes of memory per cell of a box, masks included: the most that an evaluation holds. If a box is
    /// computed part by part, only its inputs are held whole.
    pub fn bytes_per_cell(&self) -> u64 {
        let cut = self.is_cut();
        let held = |stage: &&Stage| !cut || matches!(stage.what, What::Input(_));
        self.stages.iter().filter(held).map(|stage| stage.dtype.size() as u64 + 1).sum()
    }

    /// The text of a stage, shortened if long, for messages.
    pub(super) fn text(&self, stage: usize) -> &str {
        self.texts.get(stage).map_or("", String::as_str)
    }
}

struct Cutter<'t> {
    tree: &'t Tree,
    dims: &'t [String],
    meanings: &'t [Meaning],
    stages: Vec<Stage>,
    /// The nesting of reductions below each stage.
    nested: Vec<usize>,
    texts: Vec<String>,
    made: HashMap<(NodeId, Option<Type>), usize>,
    inputs: HashMap<usize, usize>,
}

impl Cutter<'_> {
    /// The stage of a node, cast to a type if one is given.
    fn stage(&mut self, id: NodeId, cast: Option<Type>) -> Result<usize, Error> {
        // The operands of stages come first, in order, so that depth takes no stack.
        for n in self.below(id) {
            if self.is_leaf(n) && !self.made.contains_key(&(n, None)) {
                let stage = self.leaf(n).map_err(|error| self.located(error, n))?;
                self.made.insert((n, None), stage);
            }
        }
        self.computed(id, cast)
    }

    /// The node and every node below it, operands first, without those that only name dimensions.
    fn below(&self, id: NodeId) -> Vec<NodeId> {
        let mut seen = vec![false; id.index() + 1];
        seen[id.index()] = true;
        for n in (0..=id.index()).rev() {
            if seen[n] {
                for operand in self.tree.nodes()[n].value_operands() {
                    seen[operand.index()] = true;
                }
            }
        }
        (0..=id.index()).filter(|&n| seen[n]).map(|n| NodeId(n as u16)).collect()
    }

    /// Whether a node is a stage of its own, which programs take as input.
    fn is_leaf(&self, id: NodeId) -> bool {
        matches!(
            self.tree.nodes()[id.index()],
            Node::Name(_) | Node::Stencil(..) | Node::Over(..) | Node::Call(..)
        )
    }

    fn located(&self, error: Error, id: NodeId) -> Error {
        match self.tree.place(id) {
            Some(at) if error.at.is_none() => error.at(at),
            _ => error,
        }
    }

    fn push(&mut self, what: What, dtype: Type, axes: Vec<usize>, nested: usize, text: String) -> usize {
        self.stages.push(Stage { what, dtype, axes });
        self.nested.push(nested);
        self.texts.push(text);
        self.stages.len() - 1
    }

    fn leaf(&mut self, id: NodeId) -> Result<usize, Error> {
        let text = self.tree.excerpt(id);
        match self.tree.nodes()[id.index()] {
            Node::Name(n) => self.name(usize::from(n), text),
            Node::Stencil(op, of, dim, by) => {
                let axis = self.axis(dim)?;
                let plain = self.computed(of, None)?;
                let dtype = match self.stages[plain].dtype {
                    Type::F4 => Type::F4,
                    Type::Bool => {
                        let error =
                            Error::new(Kind::Type, format!("`{text}`: a truth value has no difference"));
                        return Err(error.help("cast it by f8(i1(...))"));
                    }
                    _ => Type::F8,
                };
                let of =
                    if self.stages[plain].dtype == dtype { plain } else { self.computed(of, Some(dtype))? };
                let axes = self.stages[of].axes.clone();
                if !axes.contains(&axis) {
                    let found =
                        format!("`{text}`: what is differentiated does not vary along this dimension");
                    return Err(Error::new(Kind::Type, found));
                }
                let spacing = self.spacing(dim, by);
                let nested = self.nested[of];
                Ok(self.push(What::Difference(op, of, axis, spacing), dtype, axes, nested, text))
            }
            Node::Over(op, of, dims) => {
                let of = self.computed(of, None)?;
                let from = self.stages[of].dtype;
                let dtype = match op {
                    Over::Count | Over::Any | Over::All if from != Type::Bool => {
                        let found = format!("`{text}`: the operand is {from}, not a condition");
                        return Err(Error::new(Kind::Type, found).help("compare it, as in `count(p > 3)`"));
                    }
                    Over::Count => Type::I8,
                    Over::Any | Over::All => Type::Bool,
                    _ if from == Type::Bool => {
                        let found = format!("`{text}`: the operand is a condition, not a number");
                        return Err(Error::new(Kind::Type, found).help("`count(c)` counts where it holds"));
                    }
                    Over::Min | Over::Max => from,
                    Over::Mean if from.is_integer() => Type::F8,
                    Over::Sum if from.is_signed() => Type::I8,
                    Over::Sum if from.is_unsigned() => Type::U8,
                    Over::Sum | Over::Mean => from,
                };
                let own = self.stages[of].axes.clone();
                let mut reduced = Vec::new();
                match dims {
                    None => reduced = own.clone(),
                    Some(dims) => {
                        for dim in self.tree.listed(dims) {
                            reduced.push(self.axis(dim)?);
                        }
                    }
                }
                reduced.sort_unstable();
                reduced.dedup();
                if let Some(axis) = reduced.iter().find(|axis| !own.contains(axis)) {
                    let found = format!("`{text}`: what is reduced does not vary along dimension {axis}");
                    return Err(Error::new(Kind::Type, found));
                }
                let nested = self.nested[of] + 1;
                if nested > MAX_NESTED {
                    let found = format!("more than {MAX_NESTED} reductions are nested");
                    return Err(Error::new(Kind::Limit, found));
                }
                let axes = own.into_iter().filter(|axis| !reduced.contains(axis)).collect();
                Ok(self.push(What::Reduce(op, of, reduced), dtype, axes, nested, text))
            }
            Node::Call(to, function, of, halo) => {
                let Node::Name(name) = self.tree.nodes()[function.index()] else {
                    return Err(Error::new(Kind::Argument, "the name of a function is expected"));
                };
                let function = self.tree.names()[usize::from(name)].path().to_owned();
                let of = self.computed(of, None)?;
                let axes = self.stages[of].axes.clone();
                let halo = self.halo(halo, axes.len()).map_err(|found| {
                    Error::new(Kind::Type, format!("`{text}`: {found}"))
                        .help("give one number of cells, or one for each dimension")
                })?;
                let nested = self.nested[of];
                let call = Called { function, of, from: self.stages[of].dtype, to, halo };
                Ok(self.push(What::Call(call), to, axes, nested, text))
            }
            _ => Err(Error::new(Kind::Argument, "a leaf is expected")),
        }
    }

    /// The cells of halo along each axis.
    fn halo(&self, halo: Option<NodeId>, axes: usize) -> Result<Vec<i64>, String> {
        let cells = |id: NodeId| match self.tree.nodes()[id.index()] {
            Node::Integer(n) => i64::try_from(n).unwrap_or(i64::MAX),
            _ => i64::MAX,
        };
        let given: Vec<i64> =
            halo.map(|halo| self.tree.listed(halo)).unwrap_or_default().into_iter().map(cells).collect();
        match given[..] {
            _ if axes == 0 => Err("its argument has no dimensions".to_owned()),
            [] => Ok(vec![0; axes]),
            [one] => Ok(vec![one; axes]),
            _ if given.len() == axes => Ok(given),
            _ => Err(format!("the halo has {} numbers; its argument has {axes} dimensions", given.len())),
        }
    }

    fn name(&mut self, n: usize, text: String) -> Result<usize, Error> {
        let name = &self.tree.names()[n];
        let Some(meaning) = self.meanings.get(n) else {
            return Err(Error::new(Kind::Argument, format!("`{name}` is not described")));
        };
        let dtype = match &meaning.answer {
            Answer::Type(dtype) => *dtype,
            Answer::Unfit(reason) => return Err(Error::new(Kind::Type, format!("`{name}` {reason}"))),
            Answer::Unknown(known) => {
                let error =
                    Error::new(Kind::Unknown, format!("`{name}`: there is no such variable or member"));
                return Err(error.maybe_help(did_you_mean(name.path(), known.iter().map(String::as_str))));
            }
        };
        let axes = meaning.axes.clone();
        let mut offsets = Vec::new();
        for offset in name.offsets() {
            let axis = self.dim(&offset.dim)?;
            if !axes.contains(&axis) {
                let found = format!("`{name}` does not vary along `{}`", offset.dim);
                return Err(Error::new(Kind::Type, found));
            }
            offsets.push((axis, i64::from(offset.by)));
        }
        // Names that differ only in their offsets share their values.
        let plain = (0..n).find(|&m| {
            let other = &self.tree.names()[m];
            other.path() == name.path() && other.members() == name.members()
        });
        let first = plain.unwrap_or(n);
        let input = match self.inputs.get(&first) {
            Some(&input) => input,
            None => {
                let input = self.push(What::Input(n), dtype, axes.clone(), 0, text.clone());
                self.inputs.insert(first, input);
                input
            }
        };
        if offsets.is_empty() {
            return Ok(input);
        }
        Ok(self.push(What::Shift(input, offsets), dtype, axes, 0, text))
    }

    fn dim(&self, name: &str) -> Result<usize, Error> {
        if let Some(axis) = self.dims.iter().position(|dim| dim == name) {
            return Ok(axis);
        }
        let error = Error::new(Kind::Unknown, format!("there is no dimension `{name}`"));
        if self.dims.iter().all(String::is_empty) {
            return Err(error.help("the dimensions have no names: write their numbers, as in `diff(u, 0)`"));
        }
        Err(error.maybe_help(
            did_you_mean(name, self.dims.iter().map(String::as_str))
                .or_else(|| Some(format!("the dimensions are {}", self.dims.join(", ")))),
        ))
    }

    fn axis(&self, dim: NodeId) -> Result<usize, Error> {
        match self.tree.nodes()[dim.index()] {
            Node::Name(n) => self.dim(self.tree.names()[usize::from(n)].path()),
            Node::Integer(n) => match usize::try_from(n).ok().filter(|&n| n < self.dims.len()) {
                Some(axis) => Ok(axis),
                None => {
                    let found = format!("there is no dimension {n}: there are {}", self.dims.len());
                    Err(Error::new(Kind::Unknown, found))
                }
            },
            _ => Err(Error::new(Kind::Argument, "a dimension is expected")),
        }
    }

    fn spacing(&self, dim: NodeId, by: Option<NodeId>) -> Spacing {
        match by.map(|by| self.tree.nodes()[by.index()]) {
            Some(Node::Integer(n)) => return Spacing::Number(n as f64),
            Some(Node::Float(bits)) => return Spacing::Number(f64::from_bits(bits)),
            _ => {}
        }
        match self.tree.nodes()[dim.index()] {
            Node::Name(n) if self.meanings.get(usize::from(n)).is_some_and(|m| m.coordinate) => {
                Spacing::Coordinates(n.into())
            }
            _ => Spacing::Number(1.0),
        }
    }

    /// The stage of a node whose leaves are stages.
    fn computed(&mut self, id: NodeId, cast: Option<Type>) -> Result<usize, Error> {
        if let Some(&known) = self.made.get(&(id, cast)) {
            return Ok(known);
        }
        let mut builder = Builder::new();
        let mut new: HashMap<NodeId, NodeId> = HashMap::new();
        let mut leaves: Vec<(Name, usize)> = Vec::new();
        for n in self.reachable(id) {
            let node = self.tree.nodes()[n.index()];
            let made = match self.made.get(&(n, None)) {
                Some(&stage) if self.is_leaf(n) => {
                    let name = self.leaf_name(n, stage)?;
                    leaves.push((name.clone(), stage));
                    builder.name(name)
                }
                _ => match node {
                    Node::Bool(value) => builder.boolean(value),
                    Node::Integer(value) => builder.integer(value),
                    Node::Float(bits) => builder.float(f64::from_bits(bits)),
                    node => builder.add(node.with_operands(|id| new.get(&id).copied().unwrap_or(id)), 1),
                },
            };
            new.insert(n, made?);
        }
        let mut root = new.get(&id).copied().ok_or_else(|| Error::new(Kind::Argument, "no node"))?;
        if let Some(to) = cast {
            root = builder.unary(Unary::Cast(to), root)?;
        }
        let tree = builder.finish(root);
        let stages = &self.stages;
        let program = tree.check(|name| match leaves.iter().find(|(known, _)| known == name) {
            Some(&(_, stage)) => Answer::Type(stages[stage].dtype),
            None => Answer::Unknown(Vec::new()),
        })?;
        let of: Vec<usize> = program
            .inputs()
            .iter()
            .filter_map(|(name, _)| leaves.iter().find(|(known, _)| known == name).map(|&(_, stage)| stage))
            .collect();
        let mut axes: Vec<usize> = of.iter().flat_map(|&s| self.stages[s].axes.clone()).collect();
        axes.sort_unstable();
        axes.dedup();
        let nested = of.iter().map(|&s| self.nested[s]).max().unwrap_or(0);
        let dtype = program.dtype();
        let text = self.tree.excerpt(id);
        let stage = self.push(What::Compute(Box::new(program), of), dtype, axes, nested, text);
        self.made.insert((id, cast), stage);
        Ok(stage)
    }

    /// The nodes of a program: those that are not below its leaves.
    fn reachable(&self, id: NodeId) -> Vec<NodeId> {
        let mut seen = vec![false; id.index() + 1];
        seen[id.index()] = true;
        for n in (0..=id.index()).rev() {
            if seen[n] && !self.is_leaf(NodeId(n as u16)) {
                for operand in self.tree.nodes()[n].operands() {
                    seen[operand.index()] = true;
                }
            }
        }
        (0..=id.index()).filter(|&n| seen[n]).map(|n| NodeId(n as u16)).collect()
    }

    /// A name for the values of a leaf that no variable of the tree has.
    fn leaf_name(&self, id: NodeId, stage: usize) -> Result<Name, Error> {
        if let Node::Name(n) = self.tree.nodes()[id.index()] {
            let name = &self.tree.names()[usize::from(n)];
            if name.offsets().is_empty() {
                return Ok(name.clone());
            }
        }
        let mut path = format!("{} #{stage}", self.tree.excerpt(id));
        while self.tree.names().iter().any(|name| name.path() == path) {
            path.push('#');
        }
        Name::new(path)
    }
}
