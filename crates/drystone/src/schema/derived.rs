//! Derived variables in a schema: turns a text into a definition, and finds the meaning of a definition.
//!
//! A definition refers to its inputs by their ids, so renaming an input changes nothing. An input is older than the
//! variables derived from it, so there are no circles. The shape of a derived variable follows its inputs: `settle`
//! updates it before a schema is stored.

use std::collections::{BTreeMap, BTreeSet};

use drystone_expression::{
    Answer, Called, Error as Wrong, Field, Meaning, Name, Role, Tree, Type, parse_along,
};
use drystone_format::MAX_NDIM;
use drystone_format::derived::{Derived, Edge, Input, Kind};
use drystone_format::dtype::{DType, Scalar};
use drystone_format::schema::{Attrs, Schema, Variable};
use drystone_format::value::Value;
use drystone_function::Functions;

use super::element_type::expression_type;
use super::grid::{self, Shaped};
use super::member::member;
use super::times::refuse_bare_times;
use super::units::{self, Unit};
use crate::{Error, Result};

/// The longest chain of derived variables in which each is an input of the next.
const MAX_DEPTH: usize = 16;
/// The most evaluations of definitions that one value may need.
const MAX_EVALUATIONS: usize = 256;
/// The attribute that holds the unit of measure.
const UNITS: &str = "units";
/// The name of the step, unless a dimension has it.
const STEP: &str = "step";

/// The definition of a derived variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The expression.
    pub text: String,
    /// Which values are stored: "virtual", "bounds" or "stored".
    pub kind: String,
    /// How cells beyond the edge of the domain are treated: "one_sided", "fill", "periodic" or "nan".
    pub edge: String,
    /// Attributes.
    pub attrs: Attrs,
}

/// The source of a name's values.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A variable, or a member of one. `axes` gives the grid's axis for each of its dimensions.
    Variable { id: u32, member: Option<String>, axes: Vec<usize> },
    /// The index of the cell along an axis.
    Place(usize),
    /// The number of the step.
    Step,
    /// The name denotes a dimension only, without values.
    Dimension,
}

/// A definition that is ready to be evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Derivation {
    pub(crate) field: Field,
    /// The origin of each name of the tree.
    pub(crate) origins: Vec<Origin>,
    /// The type of each name.
    pub(crate) types: Vec<Type>,
    /// The grid without the step axis.
    pub(crate) shape: Vec<u64>,
    dims: Vec<String>,
    pub(crate) steps: bool,
}

impl Derivation {
    /// Finds the meaning of a definition for the variable at a path. An error names the variable and the input that
    /// does not fit.
    pub(crate) fn of(schema: &Schema, path: &str, derived: &Derived) -> Result<Derivation> {
        let tree = Tree::decode(&derived.tree).map_err(|found| match found.unsupported {
            true => Error::unsupported(format!(
                "\"{path}\" is derived by an expression of a newer version: {found}"
            )),
            false => Error::corrupt(format!("the definition of \"{path}\" is damaged: {found}")),
        })?;
        check_nesting(schema, path, derived)?;
        Derivation::of_tree(schema, path, &tree, &derived.inputs, derived.edge)
            .map_err(|e| e.while_doing(format!("\"{path}\", which is derived")))
    }

    /// Checks that values can be computed: the definition and those of all derived inputs are valid, no input was
    /// deleted, and the inputs have enough cells for the neighbours that it names.
    pub(crate) fn check(schema: &Schema, path: &str, derived: &Derived) -> Result<()> {
        // This call finds nesting that is too deep first, so the recursion is bounded.
        let derivation = Derivation::of(schema, path, derived)?;
        let fits = derivation.field.check_extents(&derivation.shape);
        fits.map_err(|wrong| {
            Error::invalid(wrong.to_string()).while_doing(format!("\"{path}\", which is derived"))
        })?;
        for input in &derived.inputs {
            let of = schema.variables.get(&input.variable).and_then(|variable| variable.derived.as_ref());
            if let Some(of) = of {
                Derivation::check(schema, &input.name, of)?;
            }
        }
        Ok(())
    }

    /// A function that computing the values calls and this process does not have, if there is one. Stored values are
    /// read without their function. Errors: those of `check`.
    pub(crate) fn lacking(schema: &Schema, path: &str, derived: &Derived) -> Result<Option<String>> {
        if derived.kind == Kind::Stored {
            return Ok(None);
        }
        let derivation = Derivation::of(schema, path, derived)?;
        let lacks = |call: &&Called| Functions::of_process().find(&call.function).is_err();
        if let Some(call) = derivation.field.calls().find(lacks) {
            return Ok(Some(call.function.clone()));
        }
        for input in &derived.inputs {
            let of = schema.variables.get(&input.variable).and_then(|variable| variable.derived.as_ref());
            if let Some(of) = of
                && let Some(function) = Derivation::lacking(schema, &input.name, of)?
            {
                return Ok(Some(function));
            }
        }
        Ok(None)
    }

    fn of_tree(schema: &Schema, path: &str, tree: &Tree, inputs: &[Input], edge: Edge) -> Result<Derivation> {
        let roles = tree.roles();
        let mut found: Vec<Option<&Variable>> = Vec::with_capacity(tree.names().len());
        for (name, role) in tree.names().iter().zip(&roles) {
            let input = inputs.binary_search_by(|input| input.name.as_str().cmp(name.path())).ok();
            found.push(match input.filter(|_| *role > Role::Function).map(|at| &inputs[at]) {
                None => None,
                Some(input) => Some(schema.variables.get(&input.variable).ok_or_else(|| {
                    // The name of the definition; the input may have been renamed before it was deleted.
                    let deleted = match schema.resolve(&input.name) {
                        None => format!("its input \"{}\" was deleted", input.name),
                        Some(_) => format!(
                            "its input, which was called \"{0}\", was deleted (\"{0}\" is another variable now)",
                            input.name
                        ),
                    };
                    Error::not_found(format!("{deleted}; derive \"{path}\" again, or delete it too"))
                })?),
            });
        }
        let shaped = tree.names().iter().zip(&found).zip(&roles).filter_map(|((name, variable), role)| {
            let variable = variable.filter(|_| *role == Role::Value)?;
            Some(Shaped { name: name.path(), shape: &variable.shape, dims: &variable.dims })
        });
        let Some((shape, dims)) = grid::widest(shaped) else {
            let mut values = tree.names().iter().zip(&roles).filter(|(_, role)| **role == Role::Value);
            let first = values.next().map(|(name, _)| name);
            let unknown = first.map(|name| of_dimension(schema, name, &[], true).1);
            if let (Some(name), Some(Answer::Unknown(known))) = (first, unknown.map(|m| m.answer)) {
                let near = drystone_suggest::did_you_mean(name.path(), known.iter().map(String::as_str));
                let near = near.map(|near| format!("; {near}")).unwrap_or_default();
                return Err(Error::invalid(format!("`{}`: there is no such variable{near}", spelt(name))));
            }
            return Err(Error::invalid(
                "it names no variable: a derived variable has the cells of those that it names",
            ));
        };
        let (mut origins, mut types, mut meanings) = (Vec::new(), Vec::new(), Vec::new());
        let mut steps = false;
        for ((name, variable), role) in tree.names().iter().zip(&found).zip(&roles) {
            let is_value = *role == Role::Value;
            let (origin, meaning) = match variable {
                Some(variable) => {
                    steps |= variable.steps;
                    of_variable(name, variable, (&shape, &dims), is_value)?
                }
                None => of_dimension(schema, name, &dims, is_value),
            };
            types.push(match &meaning.answer {
                Answer::Type(dtype) => *dtype,
                _ => Type::I8,
            });
            origins.push(origin);
            meanings.push(meaning);
        }
        let dims_or_none = if dims.is_empty() { vec![String::new(); shape.len()] } else { dims.clone() };
        let field = Field::new(tree, &dims_or_none, &meanings, expression_edge(edge))?;
        if origins.iter().any(|origin| matches!(origin, Origin::Step)) && !steps {
            return Err(Error::invalid(format!(
                "no variable that it names has steps, so there is no `{STEP}`"
            )));
        }
        Ok(Derivation { field, origins, types, shape, dims, steps })
    }

    /// The shape of the result without the step axis. Components are the last axis.
    pub(crate) fn result_shape(&self) -> Vec<u64> {
        let mut shape: Vec<u64> = self.field.axes().iter().map(|axis| self.shape[*axis]).collect();
        if self.field.components() > 1 {
            shape.push(self.field.components() as u64);
        }
        shape
    }

    fn result_dims(&self) -> Vec<String> {
        if self.dims.is_empty() {
            return Vec::new();
        }
        let mut dims: Vec<String> = self.field.axes().iter().map(|axis| self.dims[*axis].clone()).collect();
        if self.field.components() > 1 {
            let mut name = "component".to_owned();
            while self.dims.contains(&name) {
                name.push('_');
            }
            dims.push(name);
        }
        dims
    }
}

/// The edge rule as expressions name it.
pub(crate) fn expression_edge(edge: Edge) -> drystone_expression::Edge {
    match edge {
        Edge::OneSided => drystone_expression::Edge::OneSided,
        Edge::Fill => drystone_expression::Edge::Fill,
        Edge::Periodic => drystone_expression::Edge::Periodic,
        Edge::Nan => drystone_expression::Edge::Nan,
    }
}

/// The meaning of a name that denotes a variable.
fn of_variable(
    name: &Name,
    variable: &Variable,
    (shape, dims): (&[u64], &[String]),
    is_value: bool,
) -> Result<(Origin, Meaning)> {
    let unfit = |reason: String| Error::invalid(format!("`{}` {reason}", spelt(name)));
    if variable.local {
        return Err(unfit("is a local variable: it has blocks, not one array".into()));
    }
    let inner;
    let (mut dtype, mut field) = (&variable.dtype, None);
    if !name.members().is_empty() {
        let path = name.members().join(".");
        let Some(found) = member(&variable.dtype, &path) else {
            let leaves = variable.dtype.leaves();
            let near = drystone_suggest::did_you_mean(&path, leaves.iter().map(|leaf| leaf.path.as_str()));
            let near = near.map(|near| format!("; {near}")).unwrap_or_default();
            return Err(unfit(format!("is not a member of it{near}")));
        };
        if !found.shape.is_empty() {
            return Err(unfit("has elements that are arrays, on which there are no expressions".into()));
        }
        inner = found.dtype;
        dtype = &inner;
        field = Some(path);
    }
    let dtype = expression_type(dtype).map_err(|reason| unfit(format!("cannot be an input: {reason}")))?;
    let axes =
        grid::axes(Shaped { name: name.path(), shape: &variable.shape, dims: &variable.dims }, shape, dims)?;
    let is_coordinate = is_coordinate(name, variable, dtype);
    if !is_value && !is_coordinate {
        return Err(unfit(
            "is not a coordinate variable, which has one dimension and no steps: use one, or give a number"
                .into(),
        ));
    }
    let mut own = axes.clone();
    own.sort_unstable();
    let meaning = Meaning { answer: Answer::Type(dtype), axes: own, coordinate: is_coordinate };
    Ok((Origin::Variable { id: variable.id, member: field, axes }, meaning))
}

fn is_coordinate(name: &Name, variable: &Variable, dtype: Type) -> bool {
    variable.shape.len() == 1 && !variable.steps && dtype != Type::Bool && name.members().is_empty()
}

/// The meaning of a name that denotes no variable.
fn of_dimension(schema: &Schema, name: &Name, dims: &[String], is_value: bool) -> (Origin, Meaning) {
    let path = name.path();
    let plain = name.members().is_empty() && name.offsets().is_empty();
    let answer = Answer::Type(Type::I8);
    if let Some(axis) = dims.iter().position(|dim| dim == path).filter(|_| plain) {
        let origin = if is_value { Origin::Place(axis) } else { Origin::Dimension };
        return (origin, Meaning { answer, axes: vec![axis], coordinate: false });
    }
    if plain && path == STEP && is_value {
        return (Origin::Step, Meaning { answer, axes: Vec::new(), coordinate: false });
    }
    let mut known: Vec<String> = schema.named().map(|(path, _)| path.to_owned()).collect();
    known.extend(dims.iter().cloned());
    (Origin::Dimension, Meaning { answer: Answer::Unknown(known), axes: Vec::new(), coordinate: false })
}

fn spelt(name: &Name) -> String {
    [name.path()].into_iter().chain(name.members().iter().map(String::as_str)).collect::<Vec<_>>().join(".")
}

/// The variable that a definition creates, with the given id and uid.
pub(crate) fn define(schema: &Schema, path: &str, new: &Definition, id: u32, uid: u64) -> Result<Variable> {
    let bad = |why: String| Error::invalid(format!("\"{path}\" cannot be derived: {why}"));
    let kind = Kind::from_name(&new.kind).ok_or_else(|| {
        bad(format!("there is no kind \"{}\"; write \"virtual\", \"bounds\" or \"stored\"", new.kind))
    })?;
    let edge = drystone_expression::Edge::from_name(&new.edge).ok_or_else(|| {
        bad(format!(
            "there is no edge rule \"{}\"; write \"one_sided\", \"fill\", \"periodic\" or \"nan\"",
            new.edge
        ))
    })?;
    let edge =
        Edge::ALL[drystone_expression::Edge::ALL.iter().position(|one| *one == edge).unwrap_or_default()];
    let (tree, inputs) = read(schema, &new.text).map_err(|wrong| bad(wrong.render(&new.text)))?;
    refuse_bare_times(schema, &tree).map_err(|wrong| bad(wrong.to_string()))?;
    if tree.names().iter().zip(tree.roles()).any(|(name, role)| name.path() == path && role > Role::Function)
    {
        return Err(bad("it would be derived from itself; choose another name".into()));
    }
    let mut derived =
        Derived { kind, edge, text: new.text.clone(), tree: tree.encode(), inputs: inputs.clone() };
    let whole = Derivation::of_tree(schema, path, &tree, &inputs, edge);
    let meaning = whole.map_err(|e| Error::new(e.kind(), bad(e.to_string()).to_string()))?;
    derived.inputs = inputs;
    derived.validate(id).map_err(bad)?;
    check_nesting(schema, path, &derived)?;
    meaning.field.check_extents(&meaning.shape).map_err(|wrong| bad(wrong.to_string()))?;
    let shape = meaning.result_shape();
    if shape.len() > MAX_NDIM {
        return Err(bad(format!("it has {} dimensions; at most {MAX_NDIM} are supported", shape.len())));
    }
    let mut attrs = new.attrs.clone();
    if !attrs.contains_key(UNITS)
        && let Some(text) = units_of(schema, &tree, &derived.inputs).map_err(&bad)?
    {
        attrs.insert(UNITS.to_owned(), Value::Text(text));
    }
    let dtype = DType::Scalar(scalar_of(meaning.field.dtype()));
    let fill = match meaning.field.dtype() {
        Type::F4 => Some(f32::NAN.to_le_bytes().to_vec()),
        Type::F8 => Some(f64::NAN.to_le_bytes().to_vec()),
        _ => None,
    };
    Ok(Variable {
        id,
        dtype,
        growable: vec![false; shape.len()],
        shape,
        dims: meaning.result_dims(),
        steps: meaning.steps,
        local: false,
        transform: String::new(),
        chunks: None,
        fill,
        attrs,
        created: 0,
        clips: Vec::new(),
        uid,
        access: String::new(),
        meaning: None,
        derived: Some(Box::new(derived)),
    })
}

/// The text of the unit that values have according to the attributes of the inputs. `None` if it is unknown. An error
/// states which units do not fit.
fn units_of(schema: &Schema, tree: &Tree, inputs: &[Input]) -> std::result::Result<Option<String>, String> {
    let text = |name: &Name| {
        let input = inputs.iter().find(|input| input.name == name.path() && name.members().is_empty())?;
        match schema.variables.get(&input.variable)?.attrs.get(UNITS)? {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        }
    };
    let texts: Vec<Option<&str>> = tree.names().iter().map(text).collect();
    let known: Vec<Option<Unit>> = texts.iter().map(|text| text.and_then(Unit::parse)).collect();
    let Some(found) = units::of_tree(tree, &known)? else { return Ok(None) };
    // If the unit is that of an input, it is spelled as in the input.
    let same = known.iter().zip(&texts).find(|(unit, _)| unit.is_some_and(|unit| unit == found));
    Ok(same.and_then(|(_, text)| text.map(str::to_owned)).or_else(|| found.text()))
}

/// Parses a text. Also returns the variables that its names denote, by name.
fn read(schema: &Schema, text: &str) -> std::result::Result<(Tree, Vec<Input>), Wrong> {
    let is_group = |path: &str| !path.is_empty() && schema.groups.contains_key(path);
    // `laplacian(u)` without dimensions uses those of the variables that the tree names; they replace these defaults.
    let mut dims: Vec<String> = ["x", "y", "z"].map(String::from).to_vec();
    for _ in 0..3 {
        let tree = parse_along(text, is_group, dims.clone())?;
        let own = dims_of(schema, &tree);
        if own == dims {
            break;
        }
        dims = own;
    }
    let tree = parse_along(text, is_group, dims)?;
    let inputs = inputs_of(schema, &tree);
    Ok((tree, inputs))
}

/// The dimensions of the grid of the variables whose values a tree uses. Names are empty where dimensions have none.
fn dims_of(schema: &Schema, tree: &Tree) -> Vec<String> {
    let roles = tree.roles();
    let named = tree.names().iter().zip(&roles).filter(|(_, role)| **role == Role::Value);
    let found: Vec<(&str, &Variable)> =
        named.filter_map(|(name, _)| Some((name.path(), schema.resolve(name.path())?))).collect();
    let shaped = found.iter().map(|(name, v)| Shaped { name, shape: &v.shape, dims: &v.dims });
    match grid::widest(shaped) {
        None => Vec::new(),
        Some((shape, dims)) if dims.is_empty() => vec![String::new(); shape.len()],
        Some((_, dims)) => dims,
    }
}

/// The variables that the names of a tree denote: by their paths, and coordinates of dimensions in the groups of
/// these variables.
fn inputs_of(schema: &Schema, tree: &Tree) -> Vec<Input> {
    let roles = tree.roles();
    let named = || tree.names().iter().zip(&roles);
    let mut found: BTreeMap<&str, u32> = BTreeMap::new();
    let mut groups: BTreeSet<String> = BTreeSet::new();
    for (name, _) in named().filter(|(_, role)| **role == Role::Value) {
        if let Some(variable) = schema.resolve(name.path()) {
            found.insert(name.path(), variable.id);
            groups.insert(schema.follow(name.path()).unwrap_or_default());
        }
    }
    for (name, _) in named().filter(|(_, role)| **role > Role::Function) {
        if !found.contains_key(name.path())
            && let Some(variable) = groups.iter().find_map(|path| coordinate(schema, path, name.path()))
        {
            found.insert(name.path(), variable.id);
        }
    }
    found.into_iter().map(|(name, variable)| Input { name: name.to_owned(), variable }).collect()
}

/// The coordinate variable of a dimension of the variable at a path: in its group, or in one above it.
fn coordinate<'s>(schema: &'s Schema, path: &str, dim: &str) -> Option<&'s Variable> {
    let mut group = path;
    loop {
        group = group.rfind('/').map_or("", |at| &group[..at]);
        let name = if group.is_empty() { dim.to_owned() } else { format!("{group}/{dim}") };
        if let Some(variable) = schema.resolve(&name) {
            let is_numeric = expression_type(&variable.dtype).is_ok_and(|dtype| dtype != Type::Bool);
            let own = variable.dims.is_empty() || variable.dims == [dim];
            return Some(variable)
                .filter(|v| v.shape.len() == 1 && !v.steps && !v.local && is_numeric && own);
        }
        if group.is_empty() {
            return None;
        }
    }
}

/// Refuses definitions that depend on too many others, so that a value takes bounded time and memory.
fn check_nesting(schema: &Schema, path: &str, derived: &Derived) -> Result<()> {
    // Inputs are older, so ascending ids visit them first.
    let mut known: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let measure = |derived: &Derived, known: &BTreeMap<u32, (usize, usize)>| {
        let below = derived.inputs.iter().filter_map(|input| known.get(&input.variable));
        below.fold((1, 1usize), |(deep, all), (depth, more)| (deep.max(depth + 1), all.saturating_add(*more)))
    };
    for (id, variable) in &schema.variables {
        if let Some(derived) = &variable.derived {
            known.insert(*id, measure(derived, &known));
        }
    }
    let (depth, evaluations) = measure(derived, &known);
    if depth <= MAX_DEPTH && evaluations <= MAX_EVALUATIONS {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "\"{path}\" stands on {depth} derived variables in a row, and its values need {evaluations} evaluations; {MAX_DEPTH} and \
         {MAX_EVALUATIONS} are possible: derive it from fewer"
    )))
}

pub(crate) fn scalar_of(dtype: Type) -> Scalar {
    match dtype {
        Type::Bool => Scalar::Bool,
        Type::I1 => Scalar::I8,
        Type::I2 => Scalar::I16,
        Type::I4 => Scalar::I32,
        Type::I8 => Scalar::I64,
        Type::U1 => Scalar::U8,
        Type::U2 => Scalar::U16,
        Type::U4 => Scalar::U32,
        Type::U8 => Scalar::U64,
        Type::F4 => Scalar::F32,
        Type::F8 => Scalar::F64,
    }
}

/// Updates the shapes of derived variables to those of their inputs, in the commit of a version on a base. A variable
/// whose inputs no longer fit keeps its shape; reading it is then an error. Stored values that the change makes wrong
/// are cut away; if a value may need cells at an edge that has moved, all are.
pub(crate) fn settle(schema: &mut Schema, base: &Schema, version: u64) {
    let derived: Vec<u32> = schema.variables.values().filter(|v| v.derived.is_some()).map(|v| v.id).collect();
    // Derived variables whose values may have changed although nothing was put.
    let mut moved: BTreeSet<u32> = BTreeSet::new();
    for id in derived {
        let Some(definition) = schema.variables.get(&id).and_then(|variable| variable.derived.clone()) else {
            continue;
        };
        let meaning = Derivation::of(schema, "", &definition);
        let shape_of = |schema: &Schema, id: u32| schema.variables.get(&id).map(|v| v.shape.clone());
        // Inputs that do not fit now may fit again later, when nothing shows this change any more.
        let far = meaning.as_ref().map_or(true, |m| m.field.reaches() || m.field.reduces());
        let is_moved =
            definition.inputs.iter().map(|input| input.variable).any(|input| {
                moved.contains(&input) || far && shape_of(schema, input) != shape_of(base, input)
            });
        let shape = meaning.ok().map(|meaning| meaning.result_shape());
        let Some(variable) = schema.variables.get_mut(&id) else { continue };
        if let Some(shape) = shape.filter(|shape| shape.len() == variable.shape.len()) {
            variable.shape = shape;
        }
        if is_moved {
            // Applies even if none of its values are stored, since values computed from it may be. Older cuts no
            // longer matter.
            moved.insert(id);
            variable.clips = vec![(version, vec![0; variable.shape.len()])];
            continue;
        }
        let Some(before) = base.variables.get(&id) else { continue };
        let shrinks = variable.shape.iter().zip(&before.shape).any(|(new, old)| new < old);
        if definition.kind != Kind::Virtual && shrinks {
            variable.clips.retain(|(commit, _)| *commit < version);
            variable.clips.push((version, variable.shape.clone()));
        }
    }
}
