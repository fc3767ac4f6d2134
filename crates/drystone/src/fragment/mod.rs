//! Declared fragments: memory in a declared layout, filled from a container and put into it.
//!
//! ```text
//! declare: text ── check ──► variables + the text, one commit
//! fragment: text + parameters ── lower ──► pieces (strided boxes of stored members)
//!              read: select each box, into the caller's memory or through a bounded dense buffer
//!              write: put each box      coverage: each box without existing blocks
//! ```
//!
//! Invariants
//! - bytes of a fragment that correspond to nothing in the dataset are neither read nor written;
//! - a write checks everything that can be wrong before its first put.

mod coverage;
mod declare;
mod pairs;
mod piece;
mod write;

use crate::schema::column;
use crate::schema::column::Column;
use crate::schema::declared::{parsed, said};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use drystone_dataset::{Fragment, Leaf};
use drystone_format::schema::{Declaration, Variable};
use drystone_plan::read_plan::ReadPlan;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::Precision;

use crate::base::array::Target;
use crate::read::{ReadReport, Reading};
use crate::{Container, Error, Result};

pub use coverage::{Coverage, Missing};
use piece::Piece;

/// The largest dense buffer between a member and a fragment's memory.
const BUFFER: u64 = 8 << 20;

/// A column that a fragment shows.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    declared: Arc<drystone_dataset::Variable>,
    path: Arc<str>,
    column: Column,
    /// The leaves of the member, with their offsets in an element of it.
    stored: Vec<crate::schema::member::Column>,
}

impl Shown {
    fn is(&self, leaf: &Leaf) -> bool {
        self.declared.name == leaf.variable.name && self.path == leaf.column
    }
    fn same_member(&self, other: &Shown) -> bool {
        self.declared.name == other.declared.name && self.column.field == other.column.field
    }
    /// The name of the column, such as "cell.temp".
    fn label(&self) -> String {
        match &self.column.field {
            Some(field) => format!("{}.{field}", self.declared.name),
            None => self.declared.name.to_string(),
        }
    }
}

/// One instance of a declared fragment in a container.
#[derive(Clone)]
pub struct FragmentHandle {
    container: Container,
    layout: Fragment,
    leaves: Vec<Leaf>,
    columns: Vec<Shown>,
}

/// The plan of reading a fragment, which can be printed and compared.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentPlan {
    /// The layout of the fragment's memory, for display.
    pub layout: String,
    /// The reads, and for each whether it goes directly into the fragment's memory.
    pub reads: Vec<(ReadPlan, bool)>,
}

impl fmt::Display for FragmentPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.layout)?;
        for (plan, direct) in &self.reads {
            let way = if *direct { "straight into place" } else { "through a buffer" };
            write!(f, "\n{way}: {plan}")?;
        }
        Ok(())
    }
}

impl Container {
    /// The texts declared in the handle's snapshot (or open batch), in the order in which they were declared.
    pub fn declarations(&self) -> Result<Vec<Declaration>> {
        self.inner.require_open()?;
        Ok(self.schema().declarations.clone())
    }

    /// The declared fragments that need no parameters beyond those given with their text.
    pub fn whole_fragments(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for declaration in self.declarations()? {
            let program = parsed(&declaration)?;
            for fragment in program.fragments() {
                let given = |param: &&str| declaration.values.contains_key(*param);
                if fragment.params.iter().all(given) && self.fragment(fragment.name, &[]).is_ok() {
                    names.push(fragment.name.to_string());
                }
            }
        }
        Ok(names)
    }

    /// An instance of a declared fragment. `params` gives values to its own parameters, and to those parameters of
    /// the text that have no value yet.
    ///
    /// Errors: `NotFound` with the names of the existing fragments; `InvalidArgument` for missing, unknown or
    /// impossible parameters; `Conflict` if a variable that it shows does not, or no longer, match the text.
    pub fn fragment(&self, name: &str, params: &[(&str, i64)]) -> Result<FragmentHandle> {
        let (mut names, mut known) = (Vec::new(), Vec::new());
        for declaration in self.declarations()? {
            let program = parsed(&declaration)?;
            let Some(info) = program.fragments().find(|f| f.name == name) else {
                names.extend(program.fragments().map(|f| f.name.to_string()));
                known.extend(program.fragments().map(|f| format!("{}({})", f.name, f.params.join(", "))));
                continue;
            };
            let mut values: BTreeMap<&str, i64> = BTreeMap::new();
            for (param, value) in &declaration.values {
                values.insert(param, *value);
            }
            for (param, value) in params {
                let declared = values.insert(param, *value).filter(|d| d != value);
                if let Some(declared) = declared.filter(|_| !info.params.contains(param)) {
                    return Err(Error::invalid(format!(
                        "the parameter \"{param}\" is {declared}, given when the text was declared; it cannot be {value}"
                    )));
                }
            }
            let values: Vec<(&str, i64)> = values.into_iter().collect();
            let layout = program
                .instantiate(name, &values)
                .map_err(|d| Error::invalid(format!("the fragment \"{name}\": {}", said(&d))))?;
            return FragmentHandle::new(self.clone(), layout);
        }
        let known = if known.is_empty() {
            "; no fragments are declared".to_string()
        } else {
            format!("; there are: {}", known.join(", "))
        };
        let meant = drystone_suggest::did_you_mean(name, names.iter().map(String::as_str));
        let meant = meant.map(|sentence| format!("; {sentence}")).unwrap_or_default();
        Err(Error::not_found(format!("there is no fragment \"{name}\"{known}{meant}")))
    }
}

impl FragmentHandle {
    fn new(container: Container, layout: Fragment) -> Result<Self> {
        let leaves = layout.lower().map_err(|e| Error::unsupported(e.to_string()))?;
        let mut columns: Vec<Shown> = Vec::new();
        for leaf in &leaves {
            if columns.iter().any(|shown| shown.is(leaf)) {
                continue;
            }
            let column = column::column(&leaf.variable.ty, &leaf.column).ok_or_else(|| {
                Error::unsupported(format!("\"{}.{}\" cannot be stored", leaf.variable.name, leaf.column))
            })?;
            let whole = column::dtype(&leaf.variable.ty)?;
            let stored = match &column.field {
                None => crate::schema::member::Column::all(&whole),
                Some(field) => crate::schema::member::member(&whole, field)
                    .map(|found| found.columns)
                    .unwrap_or_default(),
            };
            columns.push(Shown {
                declared: leaf.variable.clone(),
                path: leaf.column.clone(),
                column,
                stored,
            });
        }
        let handle = FragmentHandle { container, layout, leaves, columns };
        for shown in &handle.columns {
            handle.stored(shown)?;
        }
        Ok(handle)
    }

    /// The layout: size, variables with offsets, extents and types, parameters.
    pub fn layout(&self) -> &Fragment {
        &self.layout
    }

    /// Whether the fragment shows a variable with steps.
    pub fn has_steps(&self) -> bool {
        self.columns.iter().any(|shown| shown.declared.steps)
    }

    /// The variable of a column, if it still matches the text.
    fn stored(&self, shown: &Shown) -> Result<Variable> {
        let declared = &shown.declared;
        let variable = self.container.variable(&declared.name)?;
        let same = variable.dtype == column::dtype(&declared.ty)?
            && variable.shape.len() == declared.extents.len() + shown.column.lead.len()
            && variable.steps == declared.steps
            && !variable.local;
        if !same {
            return Err(Error::conflict(format!(
                "the variable \"{}\" is not what the text of the fragment \"{}\" declares",
                declared.name, self.layout.name
            )));
        }
        Ok(variable)
    }

    fn check_step(&self, step: Option<u64>) -> Result<()> {
        match (self.has_steps(), step) {
            (true, None) => Err(Error::invalid(format!(
                "the fragment \"{}\" shows variables with steps: say which step",
                self.layout.name
            ))),
            (false, Some(_)) => Err(Error::invalid(format!(
                "the fragment \"{}\" shows no variable with steps: leave the step out",
                self.layout.name
            ))),
            _ => Ok(()),
        }
    }

    /// The columns to read from one snapshot, and the fragment's pieces that lie in their variables.
    fn opened(&self, precision: Precision) -> Result<(Vec<Reading>, Vec<Piece>)> {
        let mut readings = Vec::with_capacity(self.columns.len());
        let mut bounds = Vec::with_capacity(self.columns.len());
        for shown in &self.columns {
            self.stored(shown)?;
            let reading = self.container.reading(&shown.declared.name, shown.column.field.as_deref())?;
            let reading = reading.with_precision(precision)?;
            bounds.push(reading.variable().shape.clone());
            readings.push(reading);
        }
        let pieces = piece::pieces(&self.layout, &self.leaves, &self.columns, &bounds)?;
        Ok((readings, pieces))
    }

    fn column(&self, piece: &Piece) -> Result<&Shown> {
        self.columns.get(piece.column).ok_or_else(|| Error::invalid("a piece without a column"))
    }

    /// Fills `out`, which has the fragment's size, from a step (`None` if no variable has steps), at the requested
    /// precision. The report has the largest error. Unwritten cells read as the fill value. Bytes that correspond to
    /// nothing in the dataset are left unchanged. [`coverage`](Self::coverage) counts both.
    pub fn read(&self, step: Option<u64>, out: &mut [u8], precision: Precision) -> Result<ReadReport> {
        self.check_step(step)?;
        self.check_memory(out.len())?;
        let (readings, pieces) = self.opened(precision)?;
        let mut total = ReadReport::default();
        let mut buffer = Vec::new();
        for piece in pieces {
            let shown = self.column(&piece)?;
            let Some(reading) = readings.get(piece.column) else { continue };
            let step = step.filter(|_| shown.declared.steps);
            let item = shown.column.item;
            if let [part] = &piece.parts[..]
                && let Some((offset, strides)) = part.direct(item)
            {
                let (mut shape, mut strides) = (piece.shape(), strides.to_vec());
                if step.is_some() {
                    shape.insert(0, 1);
                    strides.insert(0, 0);
                }
                check_span(offset, &shape, &strides, item, out.len())?;
                // SAFETY: every element lies inside `out` (checked above), which is borrowed exclusively. A
                // fragment's layout gives each element its own bytes.
                let target = unsafe {
                    Target::new(out.as_mut_ptr().offset(offset as isize), &shape, &strides, item as usize)?
                };
                add(&mut total, reading.read(&selection(step, &piece.axes), &target)?);
                continue;
            }
            for piece in bounded(piece, item) {
                let shape = piece.shape();
                let bytes = shape.iter().fold(item, |bytes, n| bytes.saturating_mul(*n));
                resize(&mut buffer, bytes)?;
                let mut full = shape.clone();
                if step.is_some() {
                    full.insert(0, 1);
                }
                let target = Target::dense(&mut buffer, &full, item as usize)?;
                add(&mut total, reading.read(&selection(step, &piece.axes), &target)?);
                for part in &piece.parts {
                    part.scatter(&shape, item, &buffer, out)?;
                }
            }
        }
        Ok(total)
    }

    /// The plan by which [`read`](Self::read) would read.
    pub fn explain(&self, step: Option<u64>) -> Result<FragmentPlan> {
        self.check_step(step)?;
        let (readings, pieces) = self.opened(Precision::Exact)?;
        let mut reads = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            let shown = self.column(piece)?;
            let Some(reading) = readings.get(piece.column) else { continue };
            let step = step.filter(|_| shown.declared.steps);
            let mut plan = reading.explain(&selection(step, &piece.axes))?;
            if let Some(field) = &shown.column.field {
                plan.title = plan.title.replacen(' ', &format!(".{field} "), 1);
            }
            let direct = piece.parts.len() == 1
                && piece.parts.iter().all(|part| part.direct(shown.column.item).is_some());
            reads.push((plan, direct));
        }
        Ok(FragmentPlan { layout: self.layout.to_string(), reads })
    }

    fn check_memory(&self, len: usize) -> Result<()> {
        if len as u64 != self.layout.size {
            return Err(Error::invalid(format!(
                "the fragment \"{}\" has {} bytes, the memory given {len}",
                self.layout.name, self.layout.size
            )));
        }
        Ok(())
    }

    /// The container, whose current snapshot is read.
    pub fn container(&self) -> &Container {
        &self.container
    }
}

fn selection(step: Option<u64>, axes: &[Axis]) -> Selection {
    let first = step.map(|start| Axis { start, step: 1, count: 1 });
    Selection { axes: first.into_iter().chain(axes.iter().copied()).collect() }
}

fn add(total: &mut ReadReport, one: ReadReport) {
    total.wanted_bytes += one.wanted_bytes;
    total.read_bytes += one.read_bytes;
    total.requests += one.requests;
    total.blocks += one.blocks;
    total.bound = total.bound.max(one.bound);
}

/// Checks that every element of a strided array lies inside `0..len`.
fn check_span(offset: i64, shape: &[u64], strides: &[i64], item: u64, len: usize) -> Result<()> {
    let (mut low, mut high) = (i128::from(offset), i128::from(offset) + i128::from(item));
    for (n, stride) in shape.iter().zip(strides) {
        let reach = i128::from(*stride) * i128::from(n.saturating_sub(1));
        (low, high) = (low + reach.min(0), high + reach.max(0));
    }
    if low < 0 || high > len as i128 {
        return Err(Error::invalid("a part of the fragment lies outside its memory"));
    }
    Ok(())
}

fn resize(buffer: &mut Vec<u8>, bytes: u64) -> Result<()> {
    let len = usize::try_from(bytes).map_err(|_| Error::invalid("the fragment does not fit in memory"))?;
    buffer.clear();
    buffer
        .try_reserve_exact(len)
        .map_err(|_| Error::unsupported(format!("a buffer of {len} bytes cannot be allocated")))?;
    buffer.resize(len, 0);
    Ok(())
}

/// Cuts a piece so that its dense box has at most [`BUFFER`] bytes, if it can be cut.
fn bounded(piece: Piece, item: u64) -> Vec<Piece> {
    let (mut todo, mut out) = (vec![piece], Vec::new());
    while let Some(piece) = todo.pop() {
        let bytes = piece.axes.iter().fold(item, |bytes, axis| bytes.saturating_mul(axis.count));
        let first = piece.axes.iter().position(|axis| axis.count > 1);
        match first {
            Some(axis) if bytes > BUFFER && piece.is_strided() => {
                let count = piece.axes.get(axis).map_or(0, |a| a.count);
                let half = count / 2;
                todo.push(piece.cut(axis, half, count - half));
                todo.push(piece.cut(axis, 0, half));
            }
            _ => out.push(piece),
        }
    }
    out
}
