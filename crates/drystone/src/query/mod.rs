//! Queries: which cells satisfy a condition, and what other variables hold there.
//!
//! ```text
//! names     what the names are, how their cells meet       plan    tiles: none, all or some cells, by statistics
//! inputs    values of the names over a box                 run     reads what is open, evaluates, term by term
//! slab      hits in C order                                gather  values at the hits
//! ```
//!
//! Statistics come first: a term that holds nowhere or everywhere in a tile costs no byte. Newest wins as in every read, and cells that nobody
//! wrote satisfy nothing (docs/decisions/102-expressions.md). docs/guide/queries.md has what users see.
//!
//! Invariants
//! - a query stays with the snapshot that it was made on;
//! - hits come in C order of the grid, steps first;
//! - memory is bound by slabs and windows, whatever the number of hits.

mod bits;
mod column;
mod gather;
mod inputs;
mod keys;
mod names;
mod plan;
mod run;
mod slab;

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use drystone_expression::{Tree, Type, parse_with_groups};
use drystone_format::MAX_NDIM;
use drystone_format::dtype::DType;
use drystone_plan::selection::{Axis, Selection};

use crate::container::Container;
use crate::schema::member::member;
use crate::{Error, Result};
use inputs::{Place, extents};
use names::{Grid, Input, Origin, Pinned, Resolved};
use plan::{Known, StepPlan, Term, Tile, ZoneSet};
pub use plan::{QueryPlan, Summary, TermSummary};
use run::{Cells, Costs, Run, TileHits};
use slab::SlabHits;

/// Hits whose values are held at a time.
const WINDOW: usize = 1 << 18;
/// Cells of the tiles that are looked at together.
const TOGETHER: u64 = 1 << 25;

/// A condition on the cells of a snapshot. Cheap to clone; several threads may use it.
#[derive(Clone)]
pub struct Query {
    asked: Arc<Asked>,
}

struct Asked {
    /// The container at the snapshot.
    container: Pinned,
    text: String,
    terms: Vec<Term>,
    inputs: Vec<Input>,
    grid: Grid,
    /// The selected cells, without the step axis; strides are positive.
    cells: Selection,
    /// Extent of the selected steps.
    steps: u64,
    /// Those that were committed: place among the selected ones, and number.
    present: Vec<(u64, u64)>,
    /// Zones of inputs without steps.
    constant: Vec<OnceLock<Arc<ZoneSet>>>,
}

/// First cell and extents of a box, the step first where there are steps.
pub type HitBox = (Vec<u64>, Vec<u64>);

/// What answering cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryReport {
    /// Bytes of values that were read.
    pub bytes: u64,
    /// Requests for them.
    pub requests: u64,
    /// What statistics decided.
    pub summary: Summary,
    /// Per term: cells that it was tried on, and those that it kept.
    pub tried: Vec<(u64, u64)>,
}

/// Some hits, in order.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// How many.
    pub rows: usize,
    /// Their coordinates, one cell after the other, the step first where the grid has steps.
    pub coords: Vec<i64>,
    /// Elements of each variable that was asked for, one after the other.
    pub values: Vec<Vec<u8>>,
    /// Which of them were written: a byte per cell, 1 or 0; `None`: all.
    pub written: Vec<Option<Vec<u8>>>,
}

impl Container {
    /// The expression of a text; `/` behind the path of a group leads into it. Errors: `InvalidArgument`, with the place in the text.
    pub fn expression(&self, text: &str) -> Result<Tree> {
        let schema = self.snapshot().schema.clone();
        let tree = parse_with_groups(text, |path| schema.groups.contains_key(path) && !path.is_empty());
        tree.map_err(|error| Error::invalid(error.render(text)))
    }

    /// A query for the cells that satisfy a condition, in the snapshot that the container shows. `over` are variables that have a say
    /// in what the grid is, though the condition may not name them.
    ///
    /// Errors: `InvalidArgument` for names that do not exist, types that do not fit and variables that cannot be joined.
    pub fn query(&self, condition: &Tree, over: &[String]) -> Result<Query> {
        self.inner.require_open()?;
        let container = Pinned { container: self.clone(), snapshot: self.snapshot() };
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

/// The terms of a condition; those with the same names are one.
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
        terms.push(Term { text: tree.to_string(), program, inputs: numbers, keys });
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
    /// The same query on a part of the cells: `cells` has an axis per dimension, without the step axis; `steps` are step numbers, ascending,
    /// which a grid without steps has none of. Hits come in C order, whatever the direction of an axis.
    pub fn within(&self, cells: Selection, steps: impl IntoIterator<Item = u64>) -> Result<Query> {
        let asked = &*self.asked;
        let shape = &asked.grid.shape;
        if cells.axes.len() != shape.len() {
            let (found, wanted) = (cells.axes.len(), shape.len());
            return Err(Error::invalid(format!("the selection has {found} axes, the grid {wanted}")));
        }
        let mut cells = cells;
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
            steps: count,
            present,
        };
        Ok(Query { asked: Arc::new(asked) })
    }

    /// The same query on a selection with the step axis first, where there are steps.
    pub fn select(&self, selection: &Selection) -> Result<Query> {
        let mut axes = selection.axes.clone();
        let mut steps = Vec::new();
        if self.asked.grid.steps && !axes.is_empty() {
            let axis = axes.remove(0);
            steps = (0..axis.count).map(|n| axis.cell(n)).collect();
            steps.sort_unstable();
        }
        self.within(Selection { axes }, steps)
    }

    /// The condition.
    pub fn text(&self) -> &str {
        &self.asked.text
    }

    /// Whether the cells have steps, which are then their first axis.
    pub fn has_steps(&self) -> bool {
        self.asked.grid.steps
    }

    /// Extent of the step axis of the snapshot.
    pub fn step_axis(&self) -> u64 {
        self.asked.grid.step_axis
    }

    /// Extents of the cells that the condition is about, without the step axis.
    pub fn grid(&self) -> &[u64] {
        &self.asked.grid.shape
    }

    /// Names of their dimensions, without the step axis; nothing where they have none.
    pub fn dims(&self) -> &[String] {
        &self.asked.grid.dims
    }

    /// The names in the condition, members behind dots.
    pub fn names(&self) -> Vec<&str> {
        self.asked.inputs.iter().map(|input| input.name.as_str()).collect()
    }

    /// The shape of the selection, the steps first where there are steps.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = Vec::with_capacity(self.asked.cells.axes.len() + 1);
        shape.extend(self.asked.grid.steps.then_some(self.asked.steps));
        shape.extend(self.asked.cells.shape());
        shape
    }

    /// What would be read: from statistics alone.
    pub fn explain(&self) -> Result<QueryPlan> {
        let (text, summary) = (self.asked.text.clone(), Summary::of(&self.asked.terms));
        let mut out = QueryPlan { text, summary, steps: 0 };
        self.each_step(|_, plan| {
            out.summary.add(&plan.sum);
            out.steps += 1;
            Ok(())
        })?;
        Ok(out)
    }

    /// The least and the greatest number of hits that there can be: from statistics alone, without reading a value.
    pub fn bounds(&self) -> Result<(u64, u64)> {
        let sum = self.explain()?.summary;
        Ok((sum.all, sum.all.saturating_add(sum.some)))
    }

    /// The number of hits.
    pub fn count(&self) -> Result<(u64, QueryReport)> {
        let mut hits = 0;
        let report = self.each_hits(true, |_, found| {
            hits += found.iter().map(TileHits::count).sum::<u64>();
            Ok(())
        })?;
        Ok((hits, report))
    }

    /// Boxes that hold all hits, each with at least one: first cell and extents, the step first where there are steps. A box is the
    /// smallest around the hits of one tile.
    pub fn boxes(&self) -> Result<(Vec<HitBox>, QueryReport)> {
        let asked = &*self.asked;
        let ndim = asked.grid.shape.len();
        let mut out = Vec::new();
        let report = self.each_hits(false, |(_, step), found| {
            for one in found {
                let (lo, hi) = hull(&one, ndim);
                let (mut offset, mut count) = (Vec::new(), Vec::new());
                if asked.grid.steps {
                    (offset, count) = (vec![step], vec![1]);
                }
                for (d, axis) in asked.cells.axes.iter().enumerate() {
                    let (first, last) = (axis.cell(lo[d]), axis.cell(hi[d] - 1));
                    offset.push(first);
                    count.push(last - first + 1);
                }
                out.push((offset, count));
            }
            Ok(())
        })?;
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((out, report))
    }

    /// Which of the selected cells are hits, a byte each, into memory of the shape of the selection that is all 0.
    pub fn mask(&self, out: &mut [u8]) -> Result<QueryReport> {
        let asked = &*self.asked;
        let shape = asked.cells.shape();
        let cells = self.shape().iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
        if cells != Some(out.len() as u64) {
            let found = out.len();
            return Err(Error::invalid(format!("{found} bytes are given for a mask of {:?}", self.shape())));
        }
        let each = shape.iter().product::<u64>() as usize;
        self.each_hits(false, |(place, _), found| {
            let step = &mut out[place as usize * each..][..each];
            for one in found {
                let own = extents(&one.lo, &one.hi, shape.len());
                match &one.cells {
                    Cells::All => {
                        bits::each_row(&shape, &one.lo[..shape.len()], &own, |at, _, len| {
                            step[at..at + len].fill(1);
                        });
                    }
                    Cells::Bits(set, _) => {
                        bits::each_row(&shape, &one.lo[..shape.len()], &own, |at, inside, len| {
                            for (n, to) in step[at..at + len].iter_mut().enumerate() {
                                let cell = inside + n;
                                *to = (set[cell / 64] >> (cell % 64) & 1) as u8;
                            }
                        });
                    }
                    Cells::Counted(_) => {}
                    Cells::Few(cells) => {
                        for cell in cells {
                            let at = run::place(u64::from(*cell), &one.lo, &own);
                            let flat = (0..shape.len()).fold(0, |n, d| n * shape[d] + at[d]);
                            step[flat as usize] = 1;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// The coordinates of all hits, one cell after the other, the step first where there are steps.
    pub fn coords(&self) -> Result<(Vec<i64>, QueryReport)> {
        let mut batches = self.batches(&[])?;
        let mut coords = Vec::new();
        while let Some(slab) = batches.next_slab()? {
            slab.coords(&self.asked.cells, self.asked.grid.steps, &mut coords);
        }
        Ok((coords, batches.report()))
    }

    /// The hits in order, with the values of variables at them.
    ///
    /// Errors: `NotFound` for a variable that is not there, `InvalidArgument` for one that does not join the grid.
    pub fn batches(&self, variables: &[String]) -> Result<Batches> {
        let mut columns = Vec::with_capacity(variables.len());
        for path in variables {
            let column = names::joined(&self.asked.container, path, &self.asked.grid)?;
            if column.reading().is_some_and(|reading| reading.variable().dtype == DType::String) {
                return Err(Error::unsupported(format!(
                    "\"{path}\" holds strings, which a query does not gather: read them by their coordinates"
                )));
            }
            columns.push(column);
        }
        Ok(Batches {
            costs: Costs::new(self.asked.terms.len()),
            constant: columns.iter().map(|_| OnceLock::new()).collect(),
            query: self.clone(),
            columns,
            next_step: 0,
            sum: Summary::of(&self.asked.terms),
            step: None,
            window: Batch::default(),
            given: 0,
        })
    }

    /// Calls `act` with the plan of each step that was committed.
    fn each_step(&self, mut act: impl FnMut((u64, u64), StepPlan) -> Result<()>) -> Result<()> {
        let asked = &*self.asked;
        for &(place, step) in &asked.present {
            let zones = asked.zones(step)?;
            act((place, step), StepPlan::new(&asked.terms, &asked.known(step, &zones)))?;
        }
        Ok(())
    }

    /// Calls `act` with the hits of some tiles of a step, tile by tile in no order.
    fn each_hits(
        &self,
        only_count: bool,
        mut act: impl FnMut((u64, u64), Vec<TileHits>) -> Result<()>,
    ) -> Result<QueryReport> {
        let asked = &*self.asked;
        let costs = Costs::new(asked.terms.len());
        let mut sum = Summary::of(&asked.terms);
        for &(place, step) in &asked.present {
            let zones = asked.zones(step)?;
            let plan = StepPlan::new(&asked.terms, &asked.known(step, &zones));
            sum.add(&plan.sum);
            let run =
                Run { known: asked.known(step, &zones), terms: &asked.terms, costs: &costs, only_count };
            let mut from = 0;
            while from < plan.tiles.len() {
                let (mut to, mut cells) = (from, 0u64);
                while to < plan.tiles.len() && (to == from || cells < TOGETHER) {
                    cells = cells.saturating_add(if plan.tiles[to].open.is_empty() {
                        0
                    } else {
                        plan.tiles[to].cells()
                    });
                    to += 1;
                }
                act((place, step), run.hits(&plan.tiles[from..to])?)?;
                from = to;
            }
        }
        Ok(report(&costs, sum))
    }
}

fn terms_again(terms: &[Term]) -> Vec<Term> {
    let again = |t: &Term| Term {
        text: t.text.clone(),
        program: t.program.clone(),
        inputs: t.inputs.clone(),
        keys: t.keys.clone(),
    };
    terms.iter().map(again).collect()
}

fn report(costs: &Costs, summary: Summary) -> QueryReport {
    let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    QueryReport {
        bytes: load(&costs.bytes),
        requests: load(&costs.requests),
        summary,
        tried: costs.tried.iter().map(|(tried, kept)| (load(tried), load(kept))).collect(),
    }
}

/// The smallest box around the hits of a tile.
fn hull(hits: &TileHits, ndim: usize) -> (Place, Place) {
    let own = extents(&hits.lo, &hits.hi, ndim);
    let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
    let mut meet = |cell: u64| {
        let at = run::place(cell, &hits.lo, &own);
        for d in 0..MAX_NDIM {
            (lo[d], hi[d]) = (lo[d].min(at[d]), hi[d].max(at[d] + 1));
        }
    };
    match &hits.cells {
        Cells::All | Cells::Counted(_) => return (hits.lo, hits.hi),
        Cells::Bits(set, _) => bits::each(set).for_each(|cell| meet(cell as u64)),
        Cells::Few(cells) => cells.iter().for_each(|cell| meet(u64::from(*cell))),
    }
    (lo, hi)
}

impl Asked {
    fn known<'a>(&'a self, step: u64, zones: &'a [Arc<ZoneSet>]) -> Known<'a> {
        Known { grid: &self.grid, inputs: &self.inputs, zones, cells: &self.cells, step }
    }

    fn zones(&self, step: u64) -> Result<Vec<Arc<ZoneSet>>> {
        self.zones_of(&self.inputs, &self.constant, step)
    }

    fn zones_of(
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
            let found = Arc::new(ZoneSet::new(reading.zones(step, &Selection { axes })?));
            if !reading.variable().steps {
                // Of two threads that find it at once, one is kept.
                let _ = known.set(found.clone());
            }
            out.push(found);
        }
        Ok(out)
    }
}

/// Hits with values, given out in order. Memory is bound by a slab and a window of hits.
pub struct Batches {
    query: Query,
    columns: Vec<Input>,
    constant: Vec<OnceLock<Arc<ZoneSet>>>,
    costs: Costs,
    sum: Summary,
    /// The next step to be looked at, among those that are present.
    next_step: usize,
    step: Option<OneStep>,
    /// Hits that were gathered, of which `given` were given out.
    window: Batch,
    given: usize,
}

/// Hits of a part of a step.
struct Slab {
    step: u64,
    lo: Place,
    shape: Vec<u64>,
    hits: SlabHits,
}

impl Slab {
    /// Appends the coordinates of the hits.
    fn coords(&self, cells: &Selection, steps: bool, out: &mut Vec<i64>) {
        let (Some((&row, outer)), Some((along, outer_axes))) =
            (self.shape.split_last(), cells.axes.split_last())
        else {
            let any = match &self.hits {
                SlabHits::Few(few) => !few.is_empty(),
                SlabHits::Bits(set) => set.iter().any(|word| *word != 0),
            };
            out.extend((any && steps).then_some(self.step as i64));
            return;
        };
        let count = match &self.hits {
            SlabHits::Few(few) => few.len(),
            SlabHits::Bits(set) => bits::count(set) as usize,
        };
        out.reserve(count * (self.shape.len() + usize::from(steps)));
        // What stands before the last coordinate stays the same along a row.
        let mut head = Vec::with_capacity(self.shape.len());
        let mut at = u64::MAX;
        let (start, step) = (along.cell(self.lo[outer.len()]) as i64, along.step);
        let mut push = |cell: u64| {
            let number = cell / row;
            if number != at {
                at = number;
                head.clear();
                head.extend(steps.then_some(self.step as i64));
                let place = run::place(number, &self.lo, outer);
                head.extend(outer_axes.iter().zip(&place).map(|(axis, at)| axis.cell(*at) as i64));
            }
            out.extend_from_slice(&head);
            out.push(start + (cell - number * row) as i64 * step);
        };
        match &self.hits {
            SlabHits::Few(few) => few.iter().for_each(|cell| push(u64::from(*cell))),
            SlabHits::Bits(set) => bits::each(set).for_each(|cell| push(cell as u64)),
        }
    }
}

/// The step at hand.
struct OneStep {
    number: u64,
    zones: Vec<Arc<ZoneSet>>,
    columns: Vec<Arc<ZoneSet>>,
    tiles: Vec<Tile>,
    slabs: VecDeque<(Place, Place)>,
    /// The slab at hand, and how far its hits were given out.
    slab: Option<(Slab, usize)>,
}

impl Batches {
    /// The types of the elements of the variables that were asked for, as they are stored.
    pub fn dtypes(&self) -> Vec<DType> {
        let of = |column: &Input| match column.reading() {
            None => DType::Scalar(drystone_format::dtype::Scalar::I64),
            Some(reading) => {
                let variable = reading.variable();
                let field = column.name.strip_prefix(reading.path()).and_then(|rest| rest.strip_prefix('.'));
                let found = field.and_then(|field| member(&variable.dtype, field));
                found.map_or_else(|| variable.dtype.clone(), |found| found.dtype)
            }
        };
        self.columns.iter().map(of).collect()
    }

    /// Bytes of an element of each variable.
    pub fn items(&self) -> Vec<u64> {
        let item = |column: &Input| column.reading().map_or(8, |reading| reading.item().into());
        self.columns.iter().map(item).collect()
    }

    /// Extents of the elements that are arrays, per variable.
    pub fn inner(&self) -> Vec<Vec<u64>> {
        let of = |column: &Input| {
            let reading = column.reading()?;
            let field = column.name.strip_prefix(reading.path())?.strip_prefix('.')?;
            Some(member(&reading.variable().dtype, field)?.shape)
        };
        self.columns.iter().map(|column| of(column).unwrap_or_default()).collect()
    }

    /// What was read so far.
    pub fn report(&self) -> QueryReport {
        report(&self.costs, self.sum.clone())
    }

    /// The next hits, at most so many; `None` behind the last.
    pub fn next(&mut self, rows: usize) -> Result<Option<Batch>> {
        let rows = rows.max(1);
        let mut out: Option<Batch> = None;
        loop {
            let have = out.as_ref().map_or(0, |batch| batch.rows);
            if have == rows {
                return Ok(out);
            }
            if self.given == self.window.rows && !self.fill()? {
                return Ok(out);
            }
            let taken = (rows - have).min(self.window.rows - self.given);
            let part = self.part(self.given..self.given + taken);
            self.given += taken;
            match &mut out {
                None => out = Some(part),
                Some(batch) => batch.append(part),
            }
        }
    }

    fn part(&self, rows: std::ops::Range<usize>) -> Batch {
        let window = &self.window;
        let count = window.rows.max(1);
        let ndim = window.coords.len() / count;
        let values = |all: &Vec<u8>| {
            let item = all.len() / count;
            all[rows.start * item..rows.end * item].to_vec()
        };
        Batch {
            rows: rows.len(),
            coords: window.coords[rows.start * ndim..rows.end * ndim].to_vec(),
            values: window.values.iter().map(values).collect(),
            written: window.written.iter().map(|w| w.as_ref().map(|w| w[rows.clone()].to_vec())).collect(),
        }
    }

    /// The next slab that has tiles.
    fn next_slab(&mut self) -> Result<Option<Slab>> {
        let query = self.query.clone();
        let asked = &*query.asked;
        let ndim = asked.grid.shape.len();
        loop {
            let Some(at) = &mut self.step else {
                let Some(&(_, number)) = asked.present.get(self.next_step) else { return Ok(None) };
                self.next_step += 1;
                let zones = asked.zones(number)?;
                let plan = StepPlan::new(&asked.terms, &asked.known(number, &zones));
                self.sum.add(&plan.sum);
                let columns = asked.zones_of(&self.columns, &self.constant, number)?;
                let slabs = slab::slabs(&asked.cells.shape(), &plan.tiles).into();
                self.step = Some(OneStep { number, zones, columns, tiles: plan.tiles, slabs, slab: None });
                continue;
            };
            let Some((lo, hi)) = at.slabs.pop_front() else {
                self.step = None;
                continue;
            };
            let known = asked.known(at.number, &at.zones);
            let run = Run { known, terms: &asked.terms, costs: &self.costs, only_count: false };
            let found = run.hits(&slab::clipped(&at.tiles, &lo, &hi))?;
            let hits = SlabHits::of(&found, &lo, &hi, ndim);
            return Ok(Some(Slab { step: at.number, lo, shape: extents(&lo, &hi, ndim), hits }));
        }
    }

    /// Gathers the next window; `false` behind the last hit.
    fn fill(&mut self) -> Result<bool> {
        let query = self.query.clone();
        let asked = &*query.asked;
        let ndim = asked.grid.shape.len();
        (self.window, self.given) = (Batch::default(), 0);
        let item = |column: &Input| column.reading().map_or(8, |reading| reading.item() as usize);
        let row = 8 * (ndim + 1) + size_of::<Place>() + self.columns.iter().map(item).sum::<usize>();
        let most = ((48 << 20) / row).clamp(1, WINDOW);
        loop {
            let has_slab = self.step.as_ref().is_some_and(|step| step.slab.is_some());
            if !has_slab {
                let Some(slab) = self.next_slab()? else { return Ok(false) };
                if let Some(at) = &mut self.step {
                    at.slab = Some((slab, 0));
                }
            }
            let Some(at) = &mut self.step else { continue };
            let Some((Slab { lo, shape, hits, .. }, from)) = &mut at.slab else { continue };
            let cells: Vec<u64> = match hits {
                SlabHits::Few(few) => few.iter().skip(*from).take(most).map(|n| u64::from(*n)).collect(),
                SlabHits::Bits(set) => bits::each_from(set, *from).take(most).map(|n| n as u64).collect(),
            };
            let Some(last) = cells.last() else {
                at.slab = None;
                continue;
            };
            *from = match hits {
                SlabHits::Few(_) => *from + cells.len(),
                SlabHits::Bits(_) => *last as usize + 1,
            };
            let places: Vec<Place> = cells.iter().map(|cell| run::place(*cell, lo, shape)).collect();
            let mut coords = Vec::with_capacity(places.len() * (ndim + 1));
            for place in &places {
                coords.extend(asked.grid.steps.then_some(at.number as i64));
                coords.extend(asked.cells.axes.iter().zip(place).map(|(axis, at)| axis.cell(*at) as i64));
            }
            let known = Known { inputs: &self.columns, ..asked.known(at.number, &at.columns) };
            let (mut values, mut written) = (Vec::new(), Vec::new());
            for number in 0..self.columns.len() {
                values.push(known.gather(number, &places, &self.costs)?);
                let mask = known.written_at(number, &places);
                let byte = |mask: Vec<u64>| {
                    (0..places.len()).map(|n| (mask[n / 64] >> (n % 64) & 1) as u8).collect()
                };
                written.push(mask.map(byte).filter(|bytes: &Vec<u8>| bytes.contains(&0)));
            }
            self.window = Batch { rows: places.len(), coords, values, written };
            return Ok(true);
        }
    }
}

impl Batch {
    fn append(&mut self, mut more: Batch) {
        for ((own, other), (values, new)) in
            self.written.iter_mut().zip(more.written).zip(self.values.iter_mut().zip(&mut more.values))
        {
            if own.is_some() || other.is_some() {
                let mut all = own.take().unwrap_or_else(|| vec![1; self.rows]);
                all.extend(other.unwrap_or_else(|| vec![1; more.rows]));
                *own = Some(all);
            }
            values.append(new);
        }
        self.coords.append(&mut more.coords);
        self.rows += more.rows;
    }
}

impl Display for QueryReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Summary { cells, none, all, some, terms, .. } = &self.summary;
        writeln!(f, "{cells} cells: {none} excluded and {all} included by statistics, {some} looked at")?;
        for (term, (tried, kept)) in terms.iter().zip(&self.tried) {
            writeln!(f, "  {}: tried on {tried} cells, kept {kept}", term.text)?;
        }
        write!(f, "  {} bytes in {} requests", self.bytes, self.requests)
    }
}
