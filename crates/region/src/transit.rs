//! Results in transit: they are put together with the values from which they are computed, in the same step of the
//! log.
//!
//! A rule is an attribute of the variable that takes the results. So it is as durable as the container, and every
//! server that releases regions of its source finds it. One commit of the step makes both visible.
//!
//! Invariants
//! - a release and its results are both in one step of the log, or neither is;
//! - the result of a reduction covers all cells of the step that are committed or were released here. A box that was
//!   released again counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drystone::array::Source;
use drystone::format::dtype::DType;
use drystone::format::schema::{Name, Schema, Variable};
use drystone::format::value::Value;
use drystone::{Container, Error, NewVariable, Reading, Result, SchemaOp, Writer, WriterOptions};

use super::applied;
use super::boxes::{Bounds, aligned, meet, outside, slabs};
use super::error::{invalid, not_found, unsupported};
use super::lease::Cells;
use super::operation::{Computed, Operation};
use super::pass::{From, Outcome, Partial, Pass, merged};
use super::slab::Slab;
use super::stored::{of, read};
use drystone_function::{Function, Functions};

/// The attribute that holds a rule: `OPERATION of SOURCE`.
const RULE: &str = "drystone_on";
/// The attribute that says which variable that source is, whatever its name: `UUID of the container:ID`.
const SOURCE: &str = "drystone_on_source";
/// The number of cells that are read at once.
const CELLS: u64 = 4 << 20;
/// The number of steps of rules whose parts are remembered.
const REMEMBERED: usize = 4096;

/// Declares an operation that is applied to each release of `source`, a variable with steps. The results go into
/// `into`, which is created.
///
/// The same declaration again changes nothing. Errors: `NotFound` if there is no such variable, or no such function
/// registered; `Unsupported` if its type or shape cannot be computed with; `Conflict` if `into` is another
/// variable.
pub(super) fn compute_on_release(
    container: &Container,
    source: &str,
    operation: &Operation,
    into: &str,
) -> Result<()> {
    let source = Container::normal_path(source);
    let variable = container.variable(source)?;
    let followed = container.schema().follow(source);
    let source = followed.as_deref().unwrap_or(source);
    if variable.attrs.contains_key(RULE) {
        return Err(unsupported(format!(
            "\"{source}\" is itself a result: name the variable that it is computed from"
        )));
    }
    if variable.derived.is_some() {
        return Err(invalid(format!(
            "\"{source}\" is derived, so nothing is released to it: name one of its inputs, or derive the result"
        )));
    }
    if !variable.steps {
        return Err(unsupported(format!(
            "\"{source}\" has no steps: results in transit are of steps; use transfer"
        )));
    }
    let rule = Value::Text(format!("{operation} of {source}"));
    let attrs = match container.variable(into) {
        // The same declaration again.
        Ok(target) if target.attrs.get(RULE) == Some(&rule) => {
            target.attrs.into_iter().filter(|(name, _)| name == RULE || name == SOURCE).collect()
        }
        _ => {
            let of = Value::Text(format!("{}:{}", container_name(container), variable.id));
            BTreeMap::from([(RULE.into(), rule), (SOURCE.into(), of)])
        }
    };
    let made = match operation {
        Operation::Function { name } => result_of(&*Functions::of_process().find(name)?, source, &variable)?,
        operation => operation.result(&variable.dtype, &variable.shape)?,
    };
    create_result(container, (source, &variable), (Some(operation), made), into, attrs)
}

/// The uuid of a container, as text.
fn container_name(container: &Container) -> String {
    container.identity().uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The id of the source in a rule's attribute. `None` if there is none in this container: the variable with the results
/// was copied from another one, the source was deleted, or an earlier version made the rule.
fn source_id(container: &str, schema: &Schema, target: &Variable) -> Option<u32> {
    let Some(Value::Text(text)) = target.attrs.get(SOURCE) else { return None };
    let (uuid, id) = text.split_once(':')?;
    let id = id.parse().ok().filter(|_| uuid == container)?;
    schema.variables.contains_key(&id).then_some(id)
}

/// Type and shape of a function's result. Fails if the function cannot be applied to the source.
fn result_of(function: &Function, source: &str, variable: &Variable) -> Result<(DType, Vec<u64>)> {
    let declared = function.declared();
    let (input, ndim) = (DType::Scalar(declared.input), declared.halo.len());
    if variable.dtype != input || variable.shape.len() != ndim {
        return Err(invalid(format!(
            "function {:?} reads {input} in {ndim} dimensions; \"{source}\" holds {} in {}",
            declared.name,
            variable.dtype,
            variable.shape.len()
        )));
    }
    if declared.halo.iter().zip(&variable.shape).any(|(halo, extent)| halo > extent) {
        return Err(invalid(format!(
            "the halo {:?} of function {:?} is wider than \"{source}\" {:?}",
            declared.halo, declared.name, variable.shape
        )));
    }
    Ok((DType::Scalar(declared.output), variable.shape.clone()))
}

/// Creates the variable that takes the results of an operation (`None`: unchanged values), of this type and shape.
fn create_result(
    container: &Container,
    (source, variable): (&str, &Variable),
    (operation, (dtype, shape)): (Option<&Operation>, (DType, Vec<u64>)),
    into: &str,
    attrs: BTreeMap<String, Value>,
) -> Result<()> {
    if variable.local || variable.growable.contains(&true) {
        return Err(unsupported(format!(
            "\"{source}\" has a shape of its own in each block, or grows: in transit its shape must be fixed"
        )));
    }
    let keeps_values = matches!(operation, None | Some(Operation::Stride { .. }));
    let dims = if shape.len() == variable.shape.len() { variable.dims.clone() } else { Vec::new() };
    let new = NewVariable {
        dtype,
        shape: shape.into_iter().map(Some).collect(),
        dims,
        steps: variable.steps,
        local: false,
        transform: String::new(),
        chunks: None,
        fill: if keeps_values { variable.fill.clone() } else { None },
        attrs,
        access: String::new(),
        meaning: if keeps_values { variable.meaning.clone() } else { None },
    };
    let into = Container::normal_path(into).to_owned();
    container.apply(vec![SchemaOp::CreateVariable(into, Box::new(new))]).map(drop)
}

/// An operation, and the variable that takes its results.
pub(super) struct Rule {
    into: String,
    /// The source and the variable that takes the results, by id: names may be given to other variables.
    ids: (u32, u32),
    operation: Operation,
    dtype: DType,
}

/// A registered function, and the variable that takes its results.
pub(super) struct FunctionRule {
    into: String,
    function: Arc<Function>,
}

/// The rules of a source.
#[derive(Default)]
pub(super) struct Rules {
    /// Operations.
    pub(super) operations: Vec<Rule>,
    /// Registered functions.
    pub(super) functions: Vec<FunctionRule>,
}

/// The rules of a source, which they name by its id or, where that is not known, by its path. An attribute that is not
/// a rule, or whose variable could not take the results, is ignored.
/// A function that is not known here, or does not fit, is an error: its results would be missing.
fn rules(container: &Container, source: &str, variable: &Variable) -> Result<Rules> {
    let (schema, uuid) = (container.schema(), container_name(container));
    let followed = schema.follow(source);
    let source = followed.as_deref().unwrap_or(source);
    let mut found = Rules::default();
    for (path, name) in &schema.names {
        let Name::Variable(id) = name else { continue };
        let Some(target) = schema.variables.get(id) else { continue };
        let Some(Value::Text(text)) = target.attrs.get(RULE) else { continue };
        let Some((operation, of)) = text.split_once(" of ") else { continue };
        let is_of_source = match source_id(&uuid, &schema, target) {
            Some(id) => id == variable.id,
            None => of == source,
        };
        if !is_of_source {
            continue;
        }
        let Ok(operation) = Operation::parse(operation) else { continue };
        if let Operation::Function { name } = &operation {
            let named = |error: Error| {
                Error::new(
                    error.kind(),
                    format!(
                        "\"{path}\" takes results of \"{source}\": {error}; or delete \"{path}\" to release without"
                    ),
                )
            };
            let function = Functions::of_process().find(name).map_err(|error| named(error.into()))?;
            let made = result_of(&function, source, variable).map_err(named)?;
            if made != (target.dtype.clone(), target.shape.clone()) || !target.steps {
                let (dtype, shape) = made;
                return Err(named(invalid(format!(
                    "function {name:?} makes {dtype} {shape:?}, and the variable holds {} {:?}",
                    target.dtype, target.shape
                ))));
            }
            found.functions.push(FunctionRule { into: path.clone(), function });
            continue;
        }
        let Ok((dtype, shape)) = operation.result(&variable.dtype, &variable.shape) else { continue };
        if target.dtype == dtype && target.shape == shape && target.steps {
            found.operations.push(Rule { into: path.clone(), ids: (variable.id, *id), operation, dtype });
        }
    }
    Ok(found)
}

/// The rules for the cells of a release.
pub(super) fn rules_of(container: &Container, cells: &Cells, variable: &Variable) -> Result<Rules> {
    match cells.step {
        Some(_) => rules(container, &cells.variable, variable),
        None => Ok(Rules::default()),
    }
}

impl FunctionRule {
    /// The part of the source that its results depend on beside the released box; `None` if there is none.
    pub(super) fn neighbours(&self, cells: &Cells, shape: &[u64]) -> Option<Cells> {
        applied::neighbours(&self.function, cells, shape)
    }

    /// Fails if a release of this many bytes is beyond the memory of the function.
    pub(super) fn accept(&self, len: usize) -> Result<()> {
        applied::accept(self.function.declared(), len as u64, 0)
    }

    /// Its results for a release.
    pub(super) fn results(&self, reading: &Reading, cells: &Cells, bytes: &[u8]) -> Result<Applied> {
        let computed = applied::results(&self.function, reading, cells, bytes)?;
        let dtype = DType::Scalar(self.function.declared().output);
        Ok(Applied { into: self.into.clone(), dtype, computed })
    }
}

/// The results of a function for one release.
pub(super) struct Applied {
    into: String,
    dtype: DType,
    computed: Vec<Computed>,
}

impl Applied {
    /// Puts them into the open step.
    pub(super) fn put(&self, writer: &Writer) -> Result<()> {
        self.computed.iter().try_for_each(|computed| put_box(writer, &self.into, &self.dtype, computed))
    }
}

/// Cells that are put.
struct Put {
    into: String,
    dtype: DType,
    computed: Computed,
}

/// The results of one release.
#[derive(Default)]
pub(super) struct Results {
    puts: Vec<Put>,
    tallies: Vec<(Of, Tally)>,
}

impl Results {
    /// The results of these rules: `outcomes` for the cells of the release, and `others` for the other cells of the
    /// step.
    pub(super) fn new(
        cells: &Cells,
        of: &DType,
        rules: &[Rule],
        others: Vec<Option<Tally>>,
        outcomes: Vec<Outcome>,
    ) -> Self {
        let mut results = Results::default();
        for ((rule, others), outcome) in rules.iter().zip(others).zip(outcomes) {
            let computed = match outcome {
                Outcome::Cells(computed) => computed,
                Outcome::Part(part) => {
                    let mut tally = others.unwrap_or_default();
                    tally.0.push(((cells.offset.clone(), cells.count.clone()), part));
                    let computed = tally.result(&rule.operation, of);
                    results.tallies.push(((rule.ids, cells.step.unwrap_or(0)), tally));
                    Some(computed)
                }
            };
            let (into, dtype) = (rule.into.clone(), rule.dtype.clone());
            results.puts.extend(computed.map(|computed| Put { into, dtype, computed }));
        }
        results
    }

    /// Puts them into the open step.
    pub(super) fn put(&self, writer: &Writer) -> Result<()> {
        self.puts.iter().try_for_each(|put| put_box(writer, &put.into, &put.dtype, &put.computed))
    }
}

impl Rule {
    /// What is computed.
    pub(super) fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Puts the results for the cells of a box, one for each.
    pub(super) fn put(&self, writer: &Writer, offset: &[u64], count: &[u64], bytes: &[u8]) -> Result<()> {
        let source = Source::dense(bytes, count, self.dtype.item_size() as usize)?;
        writer.put(&self.into, &self.dtype, &source, Some(offset), None)
    }
}

fn put_box(writer: &Writer, into: &str, dtype: &DType, computed: &Computed) -> Result<()> {
    let source = Source::dense(&computed.bytes, &computed.count, dtype.item_size() as usize)?;
    writer.put(into, dtype, &source, Some(&computed.offset), None)
}

/// The parts of a reduction, for disjoint boxes.
#[derive(Clone, Default)]
pub(super) struct Tally(Vec<(Bounds, Partial)>);

impl Tally {
    fn result(&self, operation: &Operation, of: &DType) -> Computed {
        let bytes = merged(operation, self.0.iter().map(|(_, part)| part), of);
        match operation {
            Operation::Histogram { bins, .. } => Computed { offset: vec![0], count: vec![*bins], bytes },
            _ => Computed { offset: Vec::new(), count: Vec::new(), bytes },
        }
    }
}

/// The ids of the source and the result of a reduction, and a step.
type Of = ((u32, u32), u64);

/// Parts of reductions.
#[derive(Default)]
pub(super) struct Tallies {
    /// With the snapshot up to which blocks of other writers are in the parts.
    known: BTreeMap<Of, (Tally, u64)>,
    /// The snapshot of the last call of [`Tallies::others`].
    version: u64,
    /// The writers of the releases.
    writers: BTreeSet<u64>,
    /// The sources and results for which earlier releases were looked for.
    begun: BTreeSet<(u32, u32)>,
    has_forgotten: bool,
}

impl Tallies {
    /// The parts of the step outside the cells of a release, by rule; `None` for a rule that is no reduction. Commits
    /// what is in the log where they are not known. Nothing is remembered before [`Tallies::keep`].
    pub(super) fn others(
        &mut self,
        container: &Container,
        cells: &Cells,
        rules: &[Rule],
    ) -> Result<Vec<Option<Tally>>> {
        let Some(step) = cells.step else { return Ok(Vec::new()) };
        rules
            .iter()
            .map(|rule| match rule.operation.is_reduction() {
                true => self.outside(container, cells, (rule.ids, step), &rule.operation).map(Some),
                false => Ok(None),
            })
            .collect()
    }

    /// Remembers the parts, once the release of these results is in the log of this writer.
    pub(super) fn keep(&mut self, results: Results, writer: u64) {
        self.writers.insert(writer);
        self.known.extend(results.tallies.into_iter().map(|(of, tally)| (of, (tally, self.version))));
        while self.known.len() > REMEMBERED {
            let oldest = self.known.keys().min_by_key(|(_, step)| *step).cloned();
            let Some(oldest) = oldest else { return };
            self.known.remove(&oldest);
            self.has_forgotten = true;
        }
    }

    /// The parts of a step outside a box that is released now.
    fn outside(
        &mut self,
        container: &Container,
        cells: &Cells,
        of: Of,
        operation: &Operation,
    ) -> Result<Tally> {
        let (ids, step) = of;
        let new = (cells.offset.clone(), cells.count.clone());
        let known = self.known.get(&of);
        let fits = |tally: &Tally| tally.0.iter().all(|(at, _)| *at == new || !meet(at, &new));
        let complete = match known {
            Some((tally, since)) if fits(tally) => !self.others_wrote(container, cells, step, *since)?,
            _ => false,
        };
        let mut tally = match known.filter(|_| complete) {
            Some((tally, _)) => tally.clone(),
            None => {
                // Earlier releases, of this process or a dead one, are read from a commit.
                if known.is_some() || !self.begun.contains(&ids) || self.has_forgotten {
                    container.commit()?;
                }
                container.refresh()?;
                stored(container, cells, step, operation)?
            }
        };
        self.begun.insert(ids);
        self.version = container.snapshot().version();
        tally.0.retain(|(at, _)| *at != new);
        Ok(tally)
    }

    /// Whether a later snapshot than this one has blocks of the step that are no releases.
    fn others_wrote(&self, container: &Container, cells: &Cells, step: u64, since: u64) -> Result<bool> {
        let reading = container.reading(&cells.variable, None)?;
        if reading.snapshot().version() == since || !reading.snapshot().steps.contains(step) {
            return Ok(false);
        }
        let blocks = reading.blocks(Some(step))?;
        Ok(blocks.iter().any(|block| block.commit > since && !self.writers.contains(&block.writer)))
    }
}

/// The parts of the committed cells of a step, without those of a box.
fn stored(container: &Container, cells: &Cells, step: u64, operation: &Operation) -> Result<Tally> {
    let reading = container.reading(&cells.variable, None)?;
    let mut tally = Tally::default();
    if !reading.snapshot().steps.contains(step) {
        return Ok(tally);
    }
    let mut taken = vec![(cells.offset.clone(), cells.count.clone())];
    for block in reading.blocks(Some(step))?.iter().rev() {
        let block = (block.offset.clone(), block.count.clone());
        let mut left = vec![block.clone()];
        for other in &taken {
            left = left.iter().flat_map(|part| outside(part, other)).collect();
        }
        for part in left.iter().flat_map(|part| slabs(part, CELLS, 1)) {
            let part = of(&cells.variable, Some(step), part);
            let bytes = read(&reading, Some(step), &part)?;
            if let (_, Outcome::Part(made)) = outcome(&reading, operation, &part, &bytes)? {
                tally.0.push(((part.offset, part.count), made));
            }
        }
        taken.push(block);
    }
    Ok(tally)
}

/// What an operation makes of a box: a result for each cell, or another outcome.
fn outcome(
    reading: &Reading,
    operation: &Operation,
    cells: &Cells,
    bytes: &[u8],
) -> Result<(Option<Vec<u8>>, Outcome)> {
    let variable = reading.variable();
    let mut pass = Pass::new([operation], cells, &variable.shape, &variable.dtype)?;
    let slab =
        Slab { offset: vec![0; cells.count.len()], count: cells.count.clone(), at: 0, len: bytes.len() };
    let each = pass.take(&slab, From::Here(bytes)).pop().map(|(_, bytes)| bytes);
    pass.check(&cells.variable)?;
    let outcome = pass.finish().pop().unwrap_or(Outcome::Cells(None));
    Ok((each, outcome))
}

/// A transfer of the values of one variable to another.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectTransfer {
    /// The source variable.
    pub from: String,
    /// The target variable. It is created if it does not exist.
    pub to: String,
    /// The step. `None`: all committed steps, or the values of a variable without steps.
    pub step: Option<u64>,
    /// The operation that is applied. `None`: values stay unchanged.
    pub rule: Option<Operation>,
    /// The number of the request, which may be repeated.
    pub once: u64,
}

impl ObjectTransfer {
    /// Copies in one pass, slab after slab. Each step of the result is a step of the log. `kept` is a writer that may
    /// be reused.
    pub(super) fn run(&self, container: &Container, kept: &mut Option<Writer>) -> Result<()> {
        container.refresh()?;
        let reading = container.reading(&self.from, None)?;
        let variable = reading.variable();
        if variable.dtype.has_blobs() {
            return Err(unsupported(format!(
                "\"{}\" holds strings or lists, which cannot be transferred",
                self.from
            )));
        }
        let made = match &self.rule {
            Some(rule) => rule.result(&variable.dtype, &variable.shape)?,
            None => (variable.dtype.clone(), variable.shape.clone()),
        };
        let dtype = made.0.clone();
        let steps: Vec<Option<u64>> = match (variable.steps, self.step) {
            (true, Some(step)) if !reading.snapshot().steps.contains(step) => {
                return Err(not_found(format!(
                    "there is no step {step} of \"{}\" that is committed",
                    self.from
                )));
            }
            (true, Some(step)) => vec![Some(step)],
            (true, None) => reading.steps()?.into_iter().map(Some).collect(),
            (false, None) => vec![None],
            (false, Some(_)) => return Err(invalid(format!("\"{}\" has no steps", self.from))),
        };
        if container.variable(&self.to).is_err() {
            let from = (self.from.as_str(), variable);
            create_result(container, from, (self.rule.as_ref(), made), &self.to, BTreeMap::new())?;
        }
        for step in steps {
            let writer = match kept.take() {
                Some(writer) => writer,
                None => container.writer(WriterOptions::default())?,
            };
            let Some(number) = step else {
                self.put_all(&reading, None, &writer, &dtype)?;
                writer.close()?;
                continue;
            };
            writer.begin_step(Some(number), false)?;
            if let Err(error) = self.put_all(&reading, step, &writer, &dtype) {
                writer.abort_step()?;
                return Err(error);
            }
            writer.end_step()?;
            *kept = Some(writer);
        }
        Ok(())
    }

    fn put_all(&self, reading: &Reading, step: Option<u64>, writer: &Writer, dtype: &DType) -> Result<()> {
        let variable = reading.variable();
        let by = match self.rule {
            Some(Operation::Downsample { factor }) => factor,
            Some(Operation::Stride { by }) => by,
            _ => 1,
        };
        let whole = (vec![0; variable.shape.len()], variable.shape.clone());
        if whole.1.contains(&0) {
            return Ok(());
        }
        // Blocks of cells whose mean is taken are left out as a whole.
        let widened = if matches!(self.rule, Some(Operation::Downsample { .. })) { by } else { 1 };
        let mut tally = Tally::default();
        for slab in slabs(&whole, CELLS, by) {
            let mut written = vec![slab.clone()];
            for void in reading.unwritten(step, &slab.0, &slab.1)? {
                let void = aligned(&void, widened, &variable.shape);
                written = written.iter().flat_map(|part| outside(part, &void)).collect();
            }
            for part in written {
                let cells = of(&self.from, step, part);
                let bytes = read(reading, step, &cells)?;
                let Some(rule) = &self.rule else {
                    let Cells { offset, count, .. } = cells;
                    put_box(writer, &self.to, dtype, &Computed { offset, count, bytes })?;
                    continue;
                };
                match outcome(reading, rule, &cells, &bytes)? {
                    (Some(bytes), _) => {
                        let Cells { offset, count, .. } = cells;
                        put_box(writer, &self.to, dtype, &Computed { offset, count, bytes })?;
                    }
                    (None, Outcome::Part(part)) => tally.0.push(((cells.offset, cells.count), part)),
                    (None, Outcome::Cells(Some(computed))) => put_box(writer, &self.to, dtype, &computed)?,
                    (None, Outcome::Cells(None)) => {}
                }
            }
        }
        match &self.rule {
            Some(rule) if rule.is_reduction() && !tally.0.is_empty() => {
                put_box(writer, &self.to, dtype, &tally.result(rule, &variable.dtype))
            }
            _ => Ok(()),
        }
    }
}
