//! A query: the terms of its condition, the names in them, and the cells that it covers.

use std::sync::{Arc, OnceLock};

use drystone_expression::{Tree, Type, parse_with_groups, parse_with_words};
use drystone_plan::programs::Programs;
use drystone_plan::selection::{Axis, Selection};

use super::apart::Apart;
use super::derived::zone_set;
use super::keys;
use super::names::{Grid, Input, Origin, Pinned, Resolved};
use super::plan::{Known, Term, ZoneSet};
use super::words::without_words;
use crate::container::Container;
use crate::{Error, Result};

/// A condition on the cells of a snapshot. Cheap to clone; several threads may use it.
#[derive(Clone)]
pub struct Query {
    pub(super) asked: Arc<Asked>,
}

pub(super) struct Asked {
    /// The container at the snapshot.
    pub(super) container: Pinned,
    pub(super) text: String,
    pub(super) terms: Vec<Term>,
    pub(super) inputs: Vec<Input>,
    pub(super) grid: Grid,
    /// The selected cells, without the step axis; strides are positive.
    pub(super) cells: Selection,
    /// Which axes were selected from the last cell to the first: the steps, if there are any, and those of `cells`.
    pub(super) turned: Vec<bool>,
    /// Number of selected steps.
    pub(super) steps: u64,
    /// The committed steps among them: position among the selected steps, and step number.
    pub(super) present: Vec<(u64, u64)>,
    /// Zones of inputs without steps.
    pub(super) constant: Vec<OnceLock<Arc<ZoneSet>>>,
}

impl Container {
    /// Parses an expression. The path of a group followed by `/` leads into the group. Errors: `InvalidArgument`,
    /// with the position in the text.
    pub fn expression(&self, text: &str) -> Result<Tree> {
        let schema = self.snapshot().schema.clone();
        let tree = parse_with_groups(text, |path| schema.groups.contains_key(path) && !path.is_empty());
        tree.map_err(|error| Error::invalid(error.render(text)))
    }

    /// Parses the condition of a query: an expression in which texts may be compared with times and named values.
    pub fn condition(&self, text: &str) -> Result<Tree> {
        let schema = self.snapshot().schema.clone();
        let tree = parse_with_words(text, |path| schema.groups.contains_key(path) && !path.is_empty());
        tree.map_err(|error| Error::invalid(error.render(text)))
    }

    /// A query for the cells that satisfy a condition, in the container's current snapshot. `over` names further
    /// variables that determine the grid, whether or not the condition uses them.
    ///
    /// Errors: `InvalidArgument` for names that do not exist, types that do not fit, and variables that cannot be
    /// joined.
    pub fn query(&self, condition: &Tree, over: &[String]) -> Result<Query> {
        self.inner.require_open()?;
        let container = Pinned { container: self.clone(), snapshot: self.snapshot() };
        let condition = &without_words(&container.snapshot.schema, condition)?;
        let Resolved { inputs, grid, program } = Resolved::of(&container, condition, over)?;
        if program.dtype() != Type::Bool {
            let found = program.dtype();
            return Err(Error::invalid(format!(
                "a query needs a condition; `{condition}` is {found}: compare it, as `{condition} > 0`"
            )));
        }
        let terms = terms(condition, &inputs)?;
        let cells = Selection::all(&grid.shape);
        let constant = inputs.iter().map(|_| OnceLock::new()).collect();
        let asked = Asked {
            container,
            text: condition.to_string(),
            terms,
            inputs,
            cells,
            turned: Vec::new(),
            steps: 0,
            present: Vec::new(),
            constant,
            grid,
        };
        let query = Query { asked: Arc::new(asked) };
        let steps = Axis::full(query.asked.grid.step_axis);
        let cells = query.asked.cells.clone();
        query.within(cells, (0..steps.count).map(|i| steps.cell(i)))
    }
}

/// The terms of a condition. Terms that use the same names are joined.
fn terms(condition: &Tree, inputs: &[Input]) -> Result<Vec<Term>> {
    let mut terms: Vec<Term> = Vec::new();
    let mut by_names: Vec<(Vec<usize>, Tree)> = Vec::new();
    for tree in condition.conjuncts() {
        let mut numbers: Vec<usize> = tree.names().iter().filter_map(|name| number(name, inputs)).collect();
        numbers.sort_unstable();
        match by_names.iter_mut().find(|(known, _)| *known == numbers) {
            Some((_, known)) => *known = both(known, &tree)?,
            None => by_names.push((numbers, tree)),
        }
    }
    for (_, tree) in by_names {
        let types = |name: &drystone_expression::Name| match number(name, inputs) {
            Some(number) => drystone_expression::Answer::Type(inputs[number].dtype),
            None => drystone_expression::Answer::Unknown(Vec::new()),
        };
        let program = tree.check(types).map_err(|error| Error::invalid(error.to_string()))?;
        let numbers = program.inputs().iter().filter_map(|(name, _)| number(name, inputs)).collect();
        let keys = keys::of(&program);
        let apart = Apart::of(&tree, inputs, |name| number(name, inputs)).map(Arc::new);
        terms.push(Term { text: tree.to_string(), program, inputs: numbers, keys, apart });
    }
    Ok(terms)
}

fn number(name: &drystone_expression::Name, inputs: &[Input]) -> Option<usize> {
    let whole = [name.path()].into_iter().chain(name.members().iter().map(String::as_str));
    let whole = whole.collect::<Vec<_>>().join(".");
    inputs.iter().position(|input| input.name == whole)
}

fn both(a: &Tree, b: &Tree) -> Result<Tree> {
    let mut builder = drystone_expression::Builder::new();
    let joined = (|| {
        let (a, b) = (builder.import(a)?, builder.import(b)?);
        let root = builder.binary(drystone_expression::Binary::And, a, b)?;
        Ok(builder.finish(root))
    })();
    joined.map_err(|error: drystone_expression::Error| Error::invalid(error.to_string()))
}

impl Query {
    /// The same query on a part of the cells. `cells` has an axis per dimension, without the step axis. `steps` are
    /// ascending step numbers; empty if the grid has no steps. Hits come in C order, whatever the direction of an
    /// axis; a mask has the directions of the selection.
    pub fn within(&self, cells: Selection, steps: impl IntoIterator<Item = u64>) -> Result<Query> {
        self.turned_within(cells, steps, false)
    }

    fn turned_within(
        &self,
        cells: Selection,
        steps: impl IntoIterator<Item = u64>,
        steps_are_turned: bool,
    ) -> Result<Query> {
        let asked = &*self.asked;
        let shape = &asked.grid.shape;
        if cells.axes.len() != shape.len() {
            let (found, wanted) = (cells.axes.len(), shape.len());
            return Err(Error::invalid(format!("the selection has {found} axes, the grid {wanted}")));
        }
        let mut cells = cells;
        let turned = cells.axes.iter().map(|axis| axis.step < 0 && axis.count > 1);
        let turned = asked.grid.steps.then_some(steps_are_turned).into_iter().chain(turned).collect();
        for (d, (axis, n)) in cells.axes.iter_mut().zip(shape).enumerate() {
            if axis.count == 0 {
                *axis = Axis { start: 0, step: 1, count: 0 };
                continue;
            }
            let last = i128::from(axis.start) + i128::from(axis.step) * i128::from(axis.count - 1);
            if axis.start >= *n || last < 0 || last >= i128::from(*n) {
                return Err(Error::new(
                    crate::ErrorKind::OutOfRange,
                    format!("the selection leaves the grid in axis {d}, which has {n} cells"),
                ));
            }
            if axis.step < 1 || axis.count == 1 {
                *axis = Axis {
                    start: axis.start.min(last as u64),
                    step: axis.step.saturating_abs().max(1),
                    count: axis.count,
                };
            }
        }
        let (mut count, mut present, mut last) = (0, Vec::new(), None);
        if asked.grid.steps {
            let committed = &asked.container.snapshot.steps;
            for step in steps {
                if step >= asked.grid.step_axis || last.is_some_and(|last| last >= step) {
                    return Err(Error::invalid(format!(
                        "the steps of a query ascend and are below {}; {step} is not",
                        asked.grid.step_axis
                    )));
                }
                if committed.contains(step) {
                    present.push((count, step));
                }
                (count, last) = (count + 1, Some(step));
            }
        } else {
            (count, present) = (1, vec![(0, 0)]);
        }
        let asked = Asked {
            container: asked.container.clone(),
            text: asked.text.clone(),
            terms: terms_again(&asked.terms),
            inputs: asked.inputs.clone(),
            grid: asked.grid.clone(),
            constant: asked.inputs.iter().map(|_| OnceLock::new()).collect(),
            cells,
            turned,
            steps: count,
            present,
        };
        Ok(Query { asked: Arc::new(asked) })
    }

    /// The same query, with or without programs at the store, whatever they cost. The answers are the same.
    pub fn with_programs(&self, programs: Programs) -> Query {
        let asked = &*self.asked;
        let with = |input: &Input| match &input.origin {
            Origin::Stored(reading) => {
                let reading = reading.as_ref().clone().with_programs(programs);
                Input { origin: Origin::Stored(Box::new(reading)), ..input.clone() }
            }
            _ => input.clone(),
        };
        let asked = Asked {
            container: asked.container.clone(),
            text: asked.text.clone(),
            terms: terms_again(&asked.terms),
            inputs: asked.inputs.iter().map(with).collect(),
            grid: asked.grid.clone(),
            constant: asked.inputs.iter().map(|_| OnceLock::new()).collect(),
            cells: asked.cells.clone(),
            turned: asked.turned.clone(),
            steps: asked.steps,
            present: asked.present.clone(),
        };
        Query { asked: Arc::new(asked) }
    }

    /// The same query on a selection whose first axis is the step axis, if there are steps.
    pub fn select(&self, selection: &Selection) -> Result<Query> {
        let mut axes = selection.axes.clone();
        let (mut steps, mut is_turned) = (Vec::new(), false);
        if self.asked.grid.steps && !axes.is_empty() {
            let axis = axes.remove(0);
            steps = (0..axis.count).map(|n| axis.cell(n)).collect();
            steps.sort_unstable();
            is_turned = axis.step < 0;
        }
        self.turned_within(Selection { axes }, steps, is_turned)
    }

    /// The condition.
    pub fn text(&self) -> &str {
        &self.asked.text
    }

    /// Whether the cells have a step axis, which then comes first.
    pub fn has_steps(&self) -> bool {
        self.asked.grid.steps
    }

    /// The extent of the snapshot's step axis.
    pub fn step_axis(&self) -> u64 {
        self.asked.grid.step_axis
    }

    /// The extents of the grid, without the step axis.
    pub fn grid(&self) -> &[u64] {
        &self.asked.grid.shape
    }

    /// Names of their dimensions, without the step axis; empty if they have none.
    pub fn dims(&self) -> &[String] {
        &self.asked.grid.dims
    }

    /// The names in the condition, with their members.
    pub fn names(&self) -> Vec<&str> {
        self.asked.inputs.iter().map(|input| input.name.as_str()).collect()
    }

    /// The shape of the selection, the steps first if there are steps.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = Vec::with_capacity(self.asked.cells.axes.len() + 1);
        shape.extend(self.asked.grid.steps.then_some(self.asked.steps));
        shape.extend(self.asked.cells.shape());
        shape
    }
}

fn terms_again(terms: &[Term]) -> Vec<Term> {
    let again = |t: &Term| Term {
        text: t.text.clone(),
        program: t.program.clone(),
        inputs: t.inputs.clone(),
        keys: t.keys.clone(),
        apart: t.apart.clone(),
    };
    terms.iter().map(again).collect()
}

impl Asked {
    pub(super) fn known<'a>(&'a self, step: u64, zones: &'a [Arc<ZoneSet>]) -> Known<'a> {
        Known { grid: &self.grid, inputs: &self.inputs, zones, cells: &self.cells, step }
    }

    pub(super) fn zones(&self, step: u64) -> Result<Vec<Arc<ZoneSet>>> {
        self.zones_of(&self.inputs, &self.constant, step)
    }

    pub(super) fn zones_of(
        &self,
        inputs: &[Input],
        constant: &[OnceLock<Arc<ZoneSet>>],
        step: u64,
    ) -> Result<Vec<Arc<ZoneSet>>> {
        let mut out = Vec::with_capacity(inputs.len());
        for (input, known) in inputs.iter().zip(constant) {
            let Origin::Stored(reading) = &input.origin else {
                out.push(Arc::default());
                continue;
            };
            if let Some(known) = known.get() {
                out.push(known.clone());
                continue;
            }
            let axes = input.axes.iter().map(|axis| self.cells.axes[*axis]).collect();
            let found = Arc::new(zone_set(reading, step, &Selection { axes })?);
            if !reading.variable().steps {
                // If two threads compute it at the same time, one result is kept.
                let _ = known.set(found.clone());
            }
            out.push(found);
        }
        Ok(out)
    }
}
