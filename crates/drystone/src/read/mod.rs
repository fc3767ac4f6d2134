//! Reading: index, plan, execute. What is read and how is decided by `drystone_plan`; this does it.
//!
//! Invariants
//! - every byte that reaches the caller was verified against a checksum of the snapshot's index;
//! - a cell that no visible block holds reads as the fill value, and nothing else does;
//! - a failed read is an error that names file, offset and variable.

mod blocks;
pub(crate) mod checker;
mod covered;
mod derived;
mod execute;
mod listing;
mod narrowed;
mod planning;
mod prefetch;
mod published;
mod replicas;
mod search;
mod sidecars;
mod sorted;
mod sources;
mod statistics;
mod stored;
mod strings;
mod unindexed;
mod zones;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use drystone_format::MAX_NDIM;
use drystone_format::entry::Entry;
use drystone_format::keys;
use drystone_format::schema::Variable;
use drystone_format::source::Source;
use drystone_format::table::{self, Subchunk};
use drystone_plan::layout::Device;
use drystone_plan::listing::Listing;
use drystone_plan::programs::Programs;
use drystone_plan::read_plan::{INDEXES, Options, ReadPlan, Slot};
use drystone_plan::resolve::{Candidate, Resolved};
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tree::{self, Query, StepSet};
use drystone_store::{StoreError, StoreExt};
use drystone_transform::{Bound, Logical, Precision};

use crate::base::array::Target;
use crate::base::checksum::crc32;
use crate::base::error::must_exist;
use crate::container::{Container, Inner};
use crate::history::snapshot::Snapshot;
use crate::schema::element_type::logical;
use crate::schema::member::{Column, member, no_member};
use crate::{Error, Result};

pub(crate) use blocks::share;
pub use blocks::{BlockInfo, Written};
pub use derived::Derivation;
pub(crate) use derived::first_put;
pub(crate) use execute::{Trial, Tried, Way};
pub use listing::{Planned, Wanted};
pub use narrowed::narrowed_bound;
pub use prefetch::WarmReport;
use published::Shelf;
pub use search::Hits;
pub(crate) use search::ZoneCells;
pub use sidecars::PublishedStatistics;
pub(crate) use sorted::SortedWith;
use sources::Sources;
pub use statistics::StoredStatistics;
pub(crate) use zones::{IndexedZone, StoredZone, Zone, Zones};

/// Requests of 1 MiB stay in a processor's cache until they are verified and placed. A hole of one check unit costs about a
/// request; wider ones are left out, since the store is told of many requests ahead and a device then serves them together.
const OPTIONS: Options = Options { gap: 16 << 10, max_request: 1 << 20, precision: Precision::Exact };
/// A longer table is not read from a far store before its object was asked for its length.
const FAR_TABLE: u64 = 1 << 20;
/// Candidates planned at a time: bounds the memory of plans.
const BATCH: usize = 20_000;

/// What a read cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadReport {
    /// Bytes of the selected cells that blocks hold.
    pub wanted_bytes: u64,
    /// Bytes read from segments.
    pub read_bytes: u64,
    /// Requests to the store for them.
    pub requests: u64,
    /// Blocks that show.
    pub blocks: u64,
    /// Guaranteed largest error of the values against those that were put: what a lossy transform lost, and what was not read.
    pub bound: Bound,
}

/// A variable of a snapshot, to be read.
#[derive(Clone)]
pub struct Reading {
    inner: Arc<Inner>,
    snapshot: Arc<Snapshot>,
    path: String,
    variable: Arc<Variable>,
    /// What is read of an element.
    leaves: Vec<Column>,
    /// Size of the (sub-)element that is read.
    item: u32,
    /// How exact the values have to be.
    precision: Precision,
    /// What of it was published, where a read may use it.
    shelf: Option<Arc<Shelf>>,
    /// The replica to read, whatever it costs.
    forced: Option<u32>,
    /// Whether programs may be sent to where the bytes are.
    programs: Programs,
    /// Whether values of float64 may come rounded to float32.
    narrow: bool,
    /// Whether it is somebody's read, and not one of the engine's own.
    noted: bool,
    /// Whether replicas that answer questions about values are looked at.
    indexes: bool,
    /// How its values are computed, once it was asked.
    computed: OnceLock<Arc<derived::Computed>>,
}

impl Container {
    /// The variable at a path in the handle's snapshot, to be read: whole elements, or one member of a record (`field`).
    pub fn reading(&self, path: &str, field: Option<&str>) -> Result<Reading> {
        self.reading_at(self.snapshot(), path, field)
    }

    /// The same in a snapshot that the handle shows or showed.
    pub(crate) fn reading_at(
        &self,
        snapshot: Arc<Snapshot>,
        path: &str,
        field: Option<&str>,
    ) -> Result<Reading> {
        self.inner.require_open()?;
        let path = Self::normal_path(path);
        let variable = match snapshot.schema.resolve(path) {
            Some(v) => v.clone(),
            // In the open batch, or the error. No cell of the snapshot has the id; that of the batch may be another's meanwhile.
            None => Variable { id: snapshot.schema.next_id, ..self.variable(path)? },
        };
        Reading::open(self.inner.clone(), snapshot, path, variable, field)
    }

    /// One leaf member of a variable by its number: also those that no path leads to, inside arrays of records.
    pub(crate) fn leaf_reading(&self, path: &str, leaf: u32) -> Result<Reading> {
        let mut reading = self.reading(path, None)?;
        reading.leaves.retain(|column| column.number == leaf);
        let Some(only) = reading.leaves.first_mut().map(|column| &mut column.leaf) else {
            return Err(Error::not_found(format!("\"{path}\" has no member number {leaf}")));
        };
        only.offset = 0;
        reading.item = only.size;
        reading.noted = false;
        Ok(reading.from_log())
    }
}

impl Reading {
    /// The same, as a read of the engine's own.
    pub(crate) fn unnoted(mut self) -> Reading {
        self.noted = false;
        self
    }

    /// A variable of a snapshot.
    pub(crate) fn open(
        inner: Arc<Inner>,
        snapshot: Arc<Snapshot>,
        path: &str,
        variable: Variable,
        field: Option<&str>,
    ) -> Result<Reading> {
        let (leaves, item) = match field {
            None => (Column::all(&variable.dtype), variable.dtype.item_size()),
            Some(field) => {
                let Some(found) = member(&variable.dtype, field) else {
                    return Err(no_member(&variable.dtype, path, field));
                };
                (found.columns, found.size)
            }
        };
        let variable = Arc::new(variable);
        let (path, precision) = (path.to_string(), Precision::Exact);
        let shelf = Shelf::of(&inner, &snapshot, &variable, &leaves)?;
        let (noted, programs) = (inner.learns(), programs_asked());
        Ok(Reading {
            inner,
            snapshot,
            path,
            variable,
            leaves,
            item,
            precision,
            shelf,
            indexes: false,
            forced: None,
            programs,
            narrow: false,
            noted,
            computed: OnceLock::new(),
        })
    }

    /// Shape as a reader sees it: the step axis first if there are steps.
    pub fn shape(&self) -> Vec<u64> {
        let mut shape = Vec::with_capacity(self.variable.shape.len() + 1);
        if self.variable.steps {
            shape.push(self.snapshot.step_axis());
        }
        shape.extend(&self.variable.shape);
        shape
    }

    /// The same, to be read only as exactly as this asks for: where a transform can, it reads fewer bytes. What was guaranteed is
    /// in the report. Errors: `InvalidArgument` for a negative or undefined error and for level 0; and from reads of values that lost
    /// more than the error when they were written.
    pub fn with_precision(mut self, precision: Precision) -> Result<Reading> {
        match precision {
            Precision::Absolute(most) | Precision::Relative(most) if most.is_nan() || most < 0.0 => {
                return Err(Error::invalid(format!("the largest error is {most}; give 0 or more")));
            }
            Precision::Level(0) => return Err(Error::invalid("precision level 0; the first level is 1")),
            _ => self.precision = precision,
        }
        if self.is_derived() {
            derived::only_exact(&self.path, precision)?;
        }
        Ok(self)
    }

    /// Refuses what would be less exact than was asked for: bytes that were not written cannot be read.
    fn require_precision(&self, bound: &Bound) -> Result<()> {
        let (what, most) = match self.precision {
            Precision::Absolute(most) => ("", most),
            Precision::Relative(most) => (" of their magnitude", most),
            Precision::Exact | Precision::Level(_) => return Ok(()),
        };
        if self.precision.allows(bound) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "\"{}\" cannot be read within {most:e}{what}: its transform lost more when it was written ({bound}); ask for that much, or \
             read without an error, which gives what is stored",
            self.path
        )))
    }

    /// The same, to be read from the log alone, whatever was published.
    pub fn from_log(mut self) -> Reading {
        self.shelf = None;
        self
    }

    /// The same, to be read by way of this replica wherever it has the cells, whatever that costs: 0 is what was put,
    /// [`PUBLISHED`](read_plan::PUBLISHED) what was published. `None`: the cheapest.
    pub fn by_way_of(mut self, replica: Option<u32>) -> Reading {
        self.forced = replica;
        self
    }

    /// The same, with or without programs where the bytes are, whatever they cost. Values are the same.
    pub fn with_programs(mut self, programs: Programs) -> Reading {
        self.programs = programs;
        self
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The schema entry.
    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// The number of the leaf member that it reads, if it is one.
    pub(crate) fn leaf_number(&self) -> Option<u32> {
        match self.leaves.as_slice() {
            [only] => Some(only.number),
            _ => None,
        }
    }

    /// The numbers of the leaf members that it reads.
    pub(crate) fn leaf_numbers(&self) -> BTreeSet<u32> {
        self.leaves.iter().map(|column| column.number).collect()
    }

    /// Bytes per element that a read delivers.
    pub fn item(&self) -> u32 {
        self.item
    }

    /// The snapshot it reads.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The element that cells read as which nobody wrote.
    pub(crate) fn fill_bytes(&self) -> Vec<u8> {
        let mut element = vec![0; self.item as usize];
        let leaves = self.variable.dtype.leaves();
        for Column { number, leaf, from, .. } in &self.leaves {
            let (Some(fill), Some(whole)) = (&self.variable.fill, leaves.get(*number as usize)) else {
                continue;
            };
            let (at, to, size) = ((whole.offset + from) as usize, leaf.offset as usize, leaf.size as usize);
            if let (Some(value), Some(place)) = (fill.get(at..at + size), element.get_mut(to..to + size)) {
                place.copy_from_slice(value);
            }
        }
        element
    }

    fn require_array(&self) -> Result<()> {
        if self.variable.local {
            return Err(Error::invalid(format!(
                "\"{}\" is a local variable: it has blocks, not one array; use read_block or blocks",
                self.path
            )));
        }
        Ok(())
    }

    fn check_selection(&self, selection: &Selection) -> Result<()> {
        self.require_array()?;
        let shape = self.shape();
        if selection.axes.len() != shape.len() {
            return Err(Error::invalid(format!(
                "the selection has {} axes, \"{}\" has {}",
                selection.axes.len(),
                self.path,
                shape.len()
            )));
        }
        for (d, (axis, n)) in selection.axes.iter().zip(&shape).enumerate() {
            if axis.count == 0 {
                continue;
            }
            let last = i128::from(axis.start) + i128::from(axis.step) * i128::from(axis.count - 1);
            if axis.start >= *n || last < 0 || last >= i128::from(*n) {
                return Err(Error::new(
                    crate::ErrorKind::OutOfRange,
                    format!("the selection leaves \"{}\" in axis {d}, which has {n} cells", self.path),
                ));
            }
        }
        Ok(())
    }

    /// Reads a selection (step axis first) into `out`, whose shape is the selection's.
    ///
    /// Errors: `OutOfRange`, `InvalidArgument` (shape or element size of `out`), `Corrupt` (naming file and offset), `Io`.
    pub fn read(&self, selection: &Selection, out: &Target<'_>) -> Result<ReadReport> {
        self.note_box(selection);
        self.check_read(selection, out)?;
        let read = || self.inner.unless_cached(|| self.read_box(selection, out));
        self.predicted_before(selection, read).map_err(|e| self.reason(e))
    }

    /// Takes note of the extents of a read.
    fn note_box(&self, selection: &Selection) {
        if self.noted && !selection.is_empty() {
            self.inner.seen.note_box(self.variable.uid, selection, &self.shape(), self.variable.steps);
        }
    }

    fn note_listing(&self, listing: &Listing) {
        if self.noted && !listing.is_empty() {
            self.inner.seen.note_listing(self.variable.uid, listing, &self.shape(), self.variable.steps);
        }
    }

    /// The reason for an error of a read: what looks like damage may be the end of the snapshot or of the container.
    fn reason(&self, error: Error) -> Error {
        self.inner.reason(error, self.snapshot.version())
    }

    fn read_box(&self, selection: &Selection, out: &Target<'_>) -> Result<ReadReport> {
        Ok(self.read_and_look(selection, out)?.0)
    }

    /// Reads a box; with whether it may have cells that nobody wrote.
    fn read_and_look(&self, selection: &Selection, out: &Target<'_>) -> Result<(ReadReport, bool)> {
        let mut report = ReadReport::default();
        // What was published of cells that nobody wrote is there as fill.
        let mut has_voids = self.shelf.is_some();
        if selection.is_empty() {
            return Ok((report, false));
        }
        if let Some(computed) = self.computed()? {
            return Ok((self.read_computed(&computed, selection, out, None)?, true));
        }
        let (steps, cells) = self.split(selection);
        let sources = Sources::of(self);
        let mut from = 0;
        let mut batch = self.first_batch();
        while from < steps.count {
            let many = batch.min(steps.count - from);
            let range = Axis { start: steps.cell(from), step: steps.step, count: many };
            let found = Cell::new(0);
            let prepared = self.by_log_or(&|reading| {
                let sought = reading.sought(&range, &cells)?;
                found.set(sought.candidates());
                prefetch::blocks(reading, &sought.slots, &sources);
                reading.plan(sought)
            })?;
            let found = found.get();
            let carried = execute::run(self, &prepared, from, out, &sources)?;
            report.add_carried(&prepared.plan, carried);
            has_voids |= prepared.plan.fill.contains(&true);
            from += many;
            if found < BATCH / 2 {
                batch = (batch * 2).min(1 << 16);
            }
            if found > BATCH {
                batch = (batch / 2).max(1);
            }
        }
        Ok((report, has_voids))
    }

    /// Steps that are planned together at first: those that have no more than half of [`BATCH`] entries if each has as many as the others.
    /// What is planned together is asked for together.
    fn first_batch(&self) -> u64 {
        let each = self.snapshot.entry_count() / self.snapshot.steps.len().max(1);
        (BATCH as u64 / 2 / each.max(1)).clamp(64, 1 << 16)
    }

    /// Whether `read` would take these.
    pub(crate) fn check_read(&self, selection: &Selection, out: &Target<'_>) -> Result<()> {
        self.check_selection(selection)?;
        self.check_target(&selection.shape(), out)?;
        self.require_no_strings()
    }

    /// A number that readings of the same values share, in every process.
    pub(crate) fn fingerprint(&self, more: impl std::fmt::Debug) -> u64 {
        let columns: Vec<_> = self.leaves.iter().map(Column::numbers).collect();
        let version = self.snapshot.version();
        let text = format!("{} {version} {columns:?} {} {:?} {more:?}", self.path, self.item, self.precision);
        // FNV-1a: the same in every build, unlike the hashers of the standard library.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// What `read` of the selection would do.
    pub fn explain(&self, selection: &Selection) -> Result<ReadPlan> {
        self.check_selection(selection)?;
        let mut plan = ReadPlan::default();
        if let Some(computed) = self.computed()?.filter(|_| !selection.is_empty()) {
            plan = self.explain_computed(&computed, selection)?;
        } else if !selection.is_empty() {
            let (steps, cells) = self.split(selection);
            plan = self.explained(&|reading| reading.prepare(&steps, &cells))?;
        }
        let axes: Vec<String> = selection
            .axes
            .iter()
            .map(|a| match (a.count, a.step) {
                (1, _) => a.start.to_string(),
                (n, 1) => format!("{}:{}", a.start, a.start + n),
                (n, s) => format!("{} cells from {} by {s}", n, a.start),
            })
            .collect();
        plan.title = format!("{} [{}]", self.path, axes.join(", "));
        Ok(plan)
    }

    /// A plan with what it is expected to take, how much of it will be under way, and where less than every bit is read, what that would
    /// take.
    fn explained(&self, plan: &dyn Fn(&Reading) -> Result<Prepared>) -> Result<ReadPlan> {
        let time = |prepared: &Prepared| self.predicted(prepared, Device::ASSUMED);
        let prepared = plan(self)?;
        let predicted = Some(time(&prepared));
        let mut every_bit = None;
        if self.precision != Precision::Exact {
            let exact = plan(&Reading { precision: Precision::Exact, ..self.clone() })?;
            every_bit = Some((exact.plan.read_bytes, time(&exact)));
        }
        let decisions = execute::decisions(self, &prepared)?;
        let local = execute::explained(self, &prepared);
        let cached = match &self.inner.cache {
            Some(cache) => cache.held(&self.ranges_of(&prepared.plan)?),
            None => None,
        };
        let window = self.inner.window();
        let rounds = window.map_or(0, |_| published::rounds(&prepared));
        Ok(ReadPlan { predicted, every_bit, decisions, local, window, rounds, cached, ..prepared.plan })
    }

    /// How requests are merged on this store.
    fn options(&self) -> Options {
        let options = Options { precision: self.precision, ..OPTIONS };
        match self.inner.window() {
            None => options,
            Some(window) => window.options(&self.inner.device(), options),
        }
    }

    fn check_target(&self, shape: &[u64], out: &Target<'_>) -> Result<()> {
        if out.shape() != shape {
            return Err(Error::invalid(format!("out has shape {:?}, the selection {shape:?}", out.shape())));
        }
        if out.item() != self.item as usize {
            return Err(Error::invalid(format!(
                "out has elements of {} bytes, \"{}\" of {}",
                out.item(),
                self.path,
                self.item
            )));
        }
        Ok(())
    }

    /// The step axis (one pseudo step for variables without) and the others.
    fn split(&self, selection: &Selection) -> (Axis, Selection) {
        if self.variable.steps {
            (selection.axes[0], Selection { axes: selection.axes[1..].to_vec() })
        } else {
            (Axis { start: 0, step: 1, count: 1 }, selection.clone())
        }
    }

    /// Visible entries of the given steps that may meet a box, by key step.
    fn entries(
        &self,
        steps: &Axis,
        bounds: Option<([u64; MAX_NDIM], [u64; MAX_NDIM])>,
    ) -> Result<BTreeMap<u64, Vec<Entry>>> {
        self.require_stored("blocks")?;
        let mut found: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        let Some(root) = &self.snapshot.manifest.root else { return Ok(found) };
        let set = if self.variable.steps {
            let last = steps.cell(steps.count - 1);
            StepSet {
                first: steps.start.min(last) + 1,
                count: steps.count,
                stride: steps.step.unsigned_abs(),
            }
        } else {
            StepSet::one(0)
        };
        let query = Query { steps: set, variable: self.variable.id, member: None, bounds };
        let wanted: BTreeSet<u32> = self.leaves.iter().map(|column| column.number).collect();
        tree::find(&self.inner.pages, root, &query, &mut |entry| {
            let hidden = entry.step > 0 && entry.commit < self.snapshot.steps.hidden_below(entry.step - 1);
            if !hidden && wanted.contains(&entry.member) {
                // Most often one for each step: room for more would have to be taken from the system's lists and given back.
                found.entry(entry.step).or_insert_with(|| Vec::with_capacity(1)).push(entry);
            }
        })
        .map_err(|e| e.while_doing(format!("reading variable \"{}\"", self.path)))?;
        Ok(found)
    }

    /// Cells of an entry at or beyond this are cut away by a shrink.
    fn limit(&self, entry: &Entry) -> [u64; MAX_NDIM] {
        let mut limit = [u64::MAX; MAX_NDIM];
        for (commit, shape) in &self.variable.clips {
            if entry.commit <= *commit {
                for (l, n) in limit.iter_mut().zip(shape) {
                    *l = (*l).min(*n);
                }
            }
        }
        limit
    }

    /// Plans cells of steps.
    fn prepare(&self, steps: &Axis, cells: &Selection) -> Result<Prepared> {
        self.by_log_or(&|reading| reading.plan(reading.sought(steps, cells)?))
    }

    /// One slot per step and column, in that order.
    fn sought(&self, steps: &Axis, cells: &Selection) -> Result<Sought> {
        let mut entries = self.entries(steps, cells.bounds())?;
        let columns = self.columns(entries.values().flatten());
        let mut slots = Vec::with_capacity(steps.count as usize * columns.len());
        if let Some(shelf) = &self.shelf {
            let key = |i| if self.variable.steps { steps.cell(i) + 1 } else { 0 };
            shelf.prefetch(self, (0..steps.count).map(key), cells)?;
        }
        for i in 0..steps.count {
            let key = if self.variable.steps { steps.cell(i) + 1 } else { 0 };
            let found = self.candidates(entries.remove(&key).unwrap_or_default());
            self.slots_of(&columns, self.with_shelf(found, key, cells)?, cells, &mut slots);
        }
        Ok(Sought { columns, slots })
    }

    /// What is read, cut so that each entry holds all of a column or nothing of it: an entry may be a part of a member.
    fn columns<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> Vec<Column> {
        let mut cuts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for entry in entries {
            if let Some(from) = entry.encoding.part {
                cuts.entry(entry.member)
                    .or_default()
                    .extend([from, from.saturating_add(entry.encoding.item)]);
            }
        }
        let mut out = Vec::with_capacity(self.leaves.len());
        for column in &self.leaves {
            let Some(cuts) = cuts.get(&column.number) else {
                out.push(column.clone());
                continue;
            };
            let range = column.range();
            let mut from = range.start;
            for &at in cuts.iter().filter(|at| **at > range.start && **at < range.end).chain([&range.end]) {
                out.push(column.narrowed(from..at));
                from = at;
            }
        }
        out
    }

    /// The entries of one step by member.
    fn candidates(&self, entries: Vec<Entry>) -> Candidates {
        let mut found = Candidates::new();
        let each = (entries.len() / self.leaves.len().max(1)).max(1);
        for entry in entries.into_iter().filter(|entry| self.indexes || entry.encoding.replica < INDEXES) {
            let limit = self.limit(&entry);
            let of_member = found.entry(entry.member).or_insert_with(|| Vec::with_capacity(each));
            of_member.push(Candidate { entry, limit });
        }
        found
    }

    /// With the published chunks of the step (`key`: step + 1, or 0), where they may be read.
    fn with_shelf(&self, mut found: Candidates, key: u64, cells: &Selection) -> Result<Candidates> {
        if let Some(shelf) = &self.shelf {
            for member in shelf.members() {
                shelf.offer(self, member, key, found.entry(member).or_default(), cells)?;
            }
        }
        Ok(found)
    }

    /// Appends the slots of one step: one per column.
    fn slots_of(&self, columns: &[Column], mut found: Candidates, cells: &Selection, slots: &mut Vec<Slot>) {
        for (at, column) in columns.iter().enumerate() {
            let wanted_again = columns[at + 1..].iter().any(|later| later.number == column.number);
            let all =
                if wanted_again { found.get(&column.number).cloned() } else { found.remove(&column.number) };
            let mut candidates = all.unwrap_or_default();
            candidates.retain(|c| holds(&c.entry, column));
            slots.push(slot(column, candidates, cells.clone()));
        }
    }

    /// The subchunk table of a cut block.
    pub(crate) fn table(&self, entry: &Entry, sources: &Sources<'_>) -> Result<Arc<Vec<Subchunk>>> {
        let source = sources.get(entry.source)?;
        load_table(&self.inner, source.writer, source.part, entry)
            .map_err(|e| e.while_doing(format!("variable \"{}\"", self.path)))
    }
}

/// Whether an entry, which has all of a column or nothing, has it.
fn holds(entry: &Entry, column: &Column) -> bool {
    let Some(from) = entry.encoding.part else { return true };
    let (have, want) = (from..from.saturating_add(entry.encoding.item), column.range());
    have.start <= want.start && want.end <= have.end
}

/// The slot of a column.
fn slot(column: &Column, candidates: Vec<Candidate>, selection: Selection) -> Slot {
    let Logical { scalar, kind, .. } = logical(&column.leaf, &[]);
    let (item, from, whole) = (column.leaf.size.into(), column.from.into(), column.whole.into());
    Slot { candidates, selection, item, from, whole, scalar: scalar as u64, kind }
}

/// What is to be planned: columns, and a slot for each at each step.
struct Sought {
    columns: Vec<Column>,
    slots: Vec<Slot>,
}

impl Sought {
    fn candidates(&self) -> usize {
        self.slots.iter().map(|slot| slot.candidates.len()).sum()
    }
}

/// What may be read of one step, by member.
type Candidates = BTreeMap<u32, Vec<Candidate>>;

type Tables = BTreeMap<(usize, usize), Arc<Vec<Subchunk>>>;

/// A plan with what it was made of.
struct Prepared {
    /// What is read of an element; slots repeat these.
    columns: Vec<Column>,
    slots: Vec<Slot>,
    /// The listing of each slot, if listed cells are read and not a box.
    listings: Vec<Listing>,
    resolved: Vec<Resolved>,
    plan: ReadPlan,
}

/// What a plan cost when it was carried out: less than it says where bytes were gathered where they lie.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    read_bytes: u64,
    requests: u64,
}

impl Carried {
    fn of(plan: &ReadPlan) -> Carried {
        Carried { read_bytes: plan.read_bytes, requests: plan.requests as u64 }
    }

    fn add(&mut self, other: &Carried) {
        self.read_bytes += other.read_bytes;
        self.requests += other.requests;
    }
}

impl ReadReport {
    /// Adds a plan that was carried out.
    fn add_carried(&mut self, plan: &ReadPlan, carried: Carried) {
        self.add(plan);
        self.read_bytes = (self.read_bytes - plan.read_bytes).saturating_add(carried.read_bytes);
        self.requests = (self.requests - plan.requests as u64).saturating_add(carried.requests);
    }

    /// Adds what another read cost.
    fn join(&mut self, other: &ReadReport) {
        self.wanted_bytes += other.wanted_bytes;
        self.read_bytes += other.read_bytes;
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.bound = self.bound.max(other.bound);
    }

    fn add(&mut self, plan: &ReadPlan) {
        self.wanted_bytes += plan.wanted_bytes;
        self.read_bytes += plan.read_bytes;
        self.requests += plan.requests as u64;
        self.blocks += plan.blocks as u64;
        self.bound = self.bound.max(plan.bound);
    }
}

/// What `DRYSTONE_PROGRAMS` says of read programs; anything else than its words is as if it were not set.
fn programs_asked() -> Programs {
    static ASKED: std::sync::OnceLock<Programs> = std::sync::OnceLock::new();
    *ASKED.get_or_init(|| {
        let asked = std::env::var("DRYSTONE_PROGRAMS").ok();
        asked.and_then(|text| Programs::parse(&text)).unwrap_or_default()
    })
}

pub(crate) fn segment_key(source: &Source) -> String {
    keys::segment(source.writer, source.part)
}

/// Reads, verifies and keeps a subchunk table.
pub(crate) fn load_table(inner: &Inner, writer: u64, part: u32, entry: &Entry) -> Result<Arc<Vec<Subchunk>>> {
    let piece = &entry.piece;
    let key = keys::segment(writer, part);
    inner.tables.get(&(writer, part, piece.position), || {
        let damaged =
            |what: String| Error::corrupt(format!("{key} is damaged at byte {}: {what}", piece.position));
        // A question takes as long as the table itself on a far store, whose read says as much.
        let is_far = inner.store.features().far.is_some() && piece.length <= FAR_TABLE;
        let known = if is_far { u64::MAX } else { inner.store.len(&key).map_err(must_exist)? };
        if piece.position.checked_add(piece.length).is_none_or(|end| end > known) || piece.trailer > 0 {
            return Err(damaged(format!("the subchunk table leaves the file, which ends at byte {known}")));
        }
        let bytes = match inner.store.read_vec(&key, piece.position, piece.length as usize) {
            Err(StoreError::ShortRead { got, .. }) if is_far => {
                let end = piece.position.saturating_add(got);
                return Err(damaged(format!("the subchunk table leaves the file, which ends at byte {end}")));
            }
            other => other.map_err(must_exist)?,
        };
        decode_table(entry, &key, &bytes)
    })
}

/// The table that is stored as these bytes, and what it costs in memory.
fn decode_table(entry: &Entry, key: &str, bytes: &[u8]) -> Result<(Vec<Subchunk>, usize)> {
    let piece = &entry.piece;
    let damaged =
        |what: String| Error::corrupt(format!("{key} is damaged at byte {}: {what}", piece.position));
    if crc32(bytes) != piece.check {
        return Err(damaged("the subchunk table fails its checksum".into()));
    }
    let table = table::decode(bytes, entry.subchunks).map_err(|c| Error::damaged(key, piece.position, &c))?;
    let cost = table.len() * size_of::<Subchunk>();
    Ok((table, cost))
}
