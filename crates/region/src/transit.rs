//! In transit: results that are put with the values from which they are computed, in the same step of the log.
//!
//! A rule is an attribute of the variable that takes the results. So it is as durable as the container, and every
//! server that releases regions of its source finds it. A commit of the step commits both.
//!
//! Invariants
//! - a release and its results are in one step of the log, or neither is;
//! - the result of a reduction covers all cells of the step that are committed or were released here: a box that was
//!   released again counts once.

use std::collections::BTreeMap;

use drystone::array::{Source, Target};
use drystone::format::dtype::DType;
use drystone::format::schema::{Name, Schema, Variable};
use drystone::format::value::Value;
use drystone::plan::selection::Selection;
use drystone::{Container, NewVariable, Reading, Result, SchemaOp, Writer, WriterOptions};

use super::boxes::{Bounds, meet, outside, slabs};
use super::error::{invalid, not_found, unsupported};
use super::lease::Cells;
use super::operation::{Computed, Operation, Partial, decoded};

/// The attribute that holds a rule: `OPERATION of SOURCE`.
const RULE: &str = "drystone_on";
/// Cells that are read at once.
const CELLS: u64 = 4 << 20;
/// Steps of rules whose parts are remembered.
const REMEMBERED: usize = 4096;

/// Declares an operation that is applied to each release of `source`, a variable with steps; results go into `into`,
/// which is created.
///
/// The same declaration again changes nothing. Errors: `NotFound` if there is no such variable, `Unsupported` if its type or
/// shape cannot be computed with, `Conflict` if `into` is another variable.
pub fn compute_on_release(
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
    if !variable.steps {
        return Err(unsupported(format!(
            "\"{source}\" has no steps: results in transit are of steps; use transfer"
        )));
    }
    let rule = Value::Text(format!("{operation} of {source}"));
    let attrs = BTreeMap::from([(RULE.into(), rule)]);
    create_result(container, (source, &variable), Some(operation), into, attrs)
}

/// Creates the variable that takes the results of an operation (`None`: the values as they are).
fn create_result(
    container: &Container,
    (source, variable): (&str, &Variable),
    operation: Option<&Operation>,
    into: &str,
    attrs: BTreeMap<String, Value>,
) -> Result<()> {
    if variable.local || variable.growable.contains(&true) {
        return Err(unsupported(format!(
            "\"{source}\" has a shape of its own in each block, or grows: in transit its shape must be fixed"
        )));
    }
    let (dtype, shape) = match operation {
        Some(operation) => operation.result(&variable.dtype, &variable.shape)?,
        None => (variable.dtype.clone(), variable.shape.clone()),
    };
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
        fill: None,
        attrs,
        access: String::new(),
        meaning: if keeps_values { variable.meaning.clone() } else { None },
    };
    let into = Container::normal_path(into).to_owned();
    container.apply(vec![SchemaOp::CreateVariable(into, Box::new(new))]).map(drop)
}

/// An operation, and where its results go.
pub(super) struct Rule {
    into: String,
    operation: Operation,
    dtype: DType,
}

/// The rules of a source. An attribute that is not a rule, or whose variable could not take the results, is ignored.
fn rules(schema: &Schema, source: &str, variable: &Variable) -> Vec<Rule> {
    let followed = schema.follow(source);
    let source = followed.as_deref().unwrap_or(source);
    let mut found = Vec::new();
    for (path, name) in &schema.names {
        let Name::Variable(id) = name else { continue };
        let Some(target) = schema.variables.get(id) else { continue };
        let Some(Value::Text(text)) = target.attrs.get(RULE) else { continue };
        let Some((operation, of)) = text.split_once(" of ") else { continue };
        if of != source {
            continue;
        }
        let Ok(operation) = Operation::parse(operation) else { continue };
        let Ok((dtype, shape)) = operation.result(&variable.dtype, &variable.shape) else { continue };
        if target.dtype == dtype && target.shape == shape && target.steps {
            found.push(Rule { into: path.clone(), operation, dtype });
        }
    }
    found
}

/// The rules for the cells of a release.
pub(super) fn rules_of(container: &Container, cells: &Cells, variable: &Variable) -> Vec<Rule> {
    match cells.step {
        Some(_) => rules(&container.schema(), &cells.variable, variable),
        None => Vec::new(),
    }
}

/// Values that are put.
struct Put {
    into: String,
    dtype: DType,
    computed: Computed,
}

/// The results of one release.
#[derive(Default)]
pub(super) struct Results {
    puts: Vec<Put>,
    tallies: Vec<((String, u64), Tally)>,
}

impl Results {
    /// Puts them into the open step.
    pub(super) fn put(&self, writer: &Writer) -> Result<()> {
        self.puts.iter().try_for_each(|put| put_box(writer, &put.into, &put.dtype, &put.computed))
    }
}

fn put_box(writer: &Writer, into: &str, dtype: &DType, computed: &Computed) -> Result<()> {
    let source = Source::dense(&computed.bytes, &computed.count, dtype.item_size() as usize)?;
    writer.put(into, dtype, &source, Some(&computed.offset), None)
}

/// The parts of a reduction, for disjoint boxes.
#[derive(Clone, Default)]
struct Tally(Vec<(Bounds, Partial)>);

impl Tally {
    fn result(&self, operation: &Operation, of: &DType) -> Computed {
        let mut parts: Vec<&(Bounds, Partial)> = self.0.iter().collect();
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        let parts: Vec<&Partial> = parts.into_iter().map(|(_, part)| part).collect();
        let bytes = operation.merged(&parts, of);
        match operation {
            Operation::Histogram { bins, .. } => Computed { offset: vec![0], count: vec![*bins], bytes },
            _ => Computed { offset: Vec::new(), count: Vec::new(), bytes },
        }
    }
}

/// Parts of reductions, by result and step.
#[derive(Default)]
pub(super) struct Tallies {
    known: BTreeMap<(String, u64), Tally>,
    has_begun: bool,
    has_forgotten: bool,
}

impl Tallies {
    /// The results of a release by these rules; `bytes` if there are any. Nothing is remembered before
    /// [`Tallies::keep`].
    pub(super) fn results(
        &mut self,
        container: &Container,
        cells: &Cells,
        variable: &Variable,
        rules: Vec<Rule>,
        bytes: Option<&[u8]>,
    ) -> Result<Results> {
        let (Some(step), Some(bytes)) = (cells.step, bytes) else { return Ok(Results::default()) };
        let values = decoded(bytes, &variable.dtype)?;
        let mut results = Results::default();
        for Rule { into, operation, dtype } in rules {
            let computed = if operation.is_reduction() {
                let part = operation.partial(&values);
                let tally = self.with(container, cells, step, (into.as_str(), &operation), part)?;
                let computed = tally.result(&operation, &variable.dtype);
                results.tallies.push(((into.clone(), step), tally));
                Some(computed)
            } else {
                operation.local(cells, &variable.shape, &variable.dtype, &values)?
            };
            results.puts.extend(computed.map(|computed| Put { into, dtype, computed }));
        }
        Ok(results)
    }

    /// Remembers the parts, once the release of these results is in the log.
    pub(super) fn keep(&mut self, results: Results) {
        self.known.extend(results.tallies);
        while self.known.len() > REMEMBERED {
            let oldest = self.known.keys().min_by_key(|(_, step)| *step).cloned();
            let Some(oldest) = oldest else { return };
            self.known.remove(&oldest);
            self.has_forgotten = true;
        }
    }

    /// The parts of a step, including that of a box that is released now.
    fn with(
        &mut self,
        container: &Container,
        cells: &Cells,
        step: u64,
        (into, operation): (&str, &Operation),
        part: Partial,
    ) -> Result<Tally> {
        let new = (cells.offset.clone(), cells.count.clone());
        let known = self.known.get(&(into.to_owned(), step));
        let fits = |tally: &&Tally| tally.0.iter().all(|(at, _)| *at == new || !meet(at, &new));
        let mut tally = match known.filter(fits) {
            Some(tally) => tally.clone(),
            None => {
                // Earlier releases, of this process or a dead one, are read from a commit.
                if known.is_some() || !self.has_begun || self.has_forgotten {
                    container.commit()?;
                }
                container.refresh()?;
                stored(container, cells, step, operation)?
            }
        };
        self.has_begun = true;
        tally.0.retain(|(at, _)| *at != new);
        tally.0.push((new, part));
        Ok(tally)
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
            let values = decoded(&read(&reading, Some(step), &part)?, &reading.variable().dtype)?;
            tally.0.push((part, operation.partial(&values)));
        }
        taken.push(block);
    }
    Ok(tally)
}

fn read(reading: &Reading, step: Option<u64>, (offset, count): &Bounds) -> Result<Vec<u8>> {
    let with = |first: Option<u64>, rest: &[u64]| -> Vec<u64> {
        first.into_iter().chain(rest.iter().copied()).collect()
    };
    let (offset, count) = (with(step, offset), with(step.map(|_| 1), count));
    let item = reading.variable().dtype.item_size() as usize;
    let cells = count.iter().fold(1, |cells: u64, n| cells.saturating_mul(*n));
    let len = usize::try_from(cells).ok().and_then(|cells| cells.checked_mul(item));
    let mut bytes = Vec::new();
    let len = len.filter(|len| bytes.try_reserve_exact(*len).is_ok());
    let len = len.ok_or_else(|| invalid(format!("a box of {count:?} cells does not fit into memory")))?;
    bytes.resize(len, 0);
    reading.read(&Selection::boxed(&offset, &count), &Target::dense(&mut bytes, &count, item)?)?;
    Ok(bytes)
}

/// A transfer of the values of one variable to another.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectTransfer {
    /// Whose values.
    pub from: String,
    /// The target variable; it is created if it does not exist.
    pub to: String,
    /// One step; `None`: all committed ones, or the values of a variable without steps.
    pub step: Option<u64>,
    /// The operation that is applied; `None`: values stay unchanged.
    pub rule: Option<Operation>,
    /// Number of the request, which may be repeated.
    pub once: u64,
}

impl ObjectTransfer {
    /// Copies in one pass, slab after slab; each step of the result is a step of the log. `kept` is a writer that may
    /// be reused.
    pub(super) fn run(&self, container: &Container, kept: &mut Option<Writer>) -> Result<()> {
        container.refresh()?;
        let reading = container.reading(&self.from, None)?;
        let variable = reading.variable();
        if variable.dtype.is_blob() {
            return Err(unsupported(format!("\"{}\" holds strings, which are not carried", self.from)));
        }
        if container.variable(&self.to).is_err() {
            let from = (self.from.as_str(), variable);
            create_result(container, from, self.rule.as_ref(), &self.to, BTreeMap::new())?;
        }
        let dtype = match &self.rule {
            Some(rule) => rule.result(&variable.dtype, &variable.shape)?.0,
            None => variable.dtype.clone(),
        };
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
        let mut tally = Tally::default();
        for part in slabs(&whole, CELLS, by) {
            let bytes = read(reading, step, &part)?;
            let Some(rule) = &self.rule else {
                let (offset, count) = part;
                put_box(writer, &self.to, dtype, &Computed { offset, count, bytes })?;
                continue;
            };
            let values = decoded(&bytes, &variable.dtype)?;
            if rule.is_reduction() {
                tally.0.push((part, rule.partial(&values)));
                continue;
            }
            let (offset, count) = part;
            let cells = Cells { variable: self.from.clone(), step, offset, count };
            if let Some(computed) = rule.local(&cells, &variable.shape, &variable.dtype, &values)? {
                put_box(writer, &self.to, dtype, &computed)?;
            }
        }
        match &self.rule {
            Some(rule) if rule.is_reduction() => {
                put_box(writer, &self.to, dtype, &tally.result(rule, &variable.dtype))
            }
            _ => Ok(()),
        }
    }
}
