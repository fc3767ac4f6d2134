//! Reading: index, plan, execute. `drystone_plan` decides which bytes are read and how; this room reads them.
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
mod report;
mod requirements;
mod search;
mod seeking;
mod selected;
mod sidecars;
mod sorted;
mod sources;
mod statistics;
mod stored;
mod strings;
mod tables;
mod unindexed;
mod zones;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use drystone_format::schema::Variable;
use drystone_format::table::Subchunk;
use drystone_plan::coalesce::{GAP, REQUEST};
use drystone_plan::listing::Listing;
use drystone_plan::programs::Programs;
use drystone_plan::read_plan::{Options, ReadPlan, Slot};
use drystone_plan::resolve::Resolved;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::Precision;

use crate::base::array::Target;
use crate::container::{Container, Inner};
use crate::history::snapshot::Snapshot;
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
use report::Carried;
pub use report::ReadReport;
pub use search::Hits;
pub(crate) use search::ZoneCells;
use seeking::Sought;
pub use selected::Selected;
pub use sidecars::PublishedStatistics;
pub(crate) use sorted::SortedWith;
use sources::Sources;
pub(crate) use sources::segment_key;
pub use statistics::StoredStatistics;
pub use strings::Records;
pub(crate) use tables::load_table;
pub(crate) use zones::{IndexedZone, StoredZone, Zone, Zones};

/// How requests are merged on local files. Wider gaps are not read: many requests are hinted ahead, and a device
/// serves them together.
const OPTIONS: Options = Options { gap: GAP, max_request: REQUEST, precision: Precision::Exact };
/// The number of candidates that are planned at a time. It bounds the memory of plans.
const BATCH: usize = 20_000;

/// A variable of a snapshot, ready to be read.
#[derive(Clone)]
pub struct Reading {
    inner: Arc<Inner>,
    snapshot: Arc<Snapshot>,
    path: String,
    variable: Arc<Variable>,
    /// The columns of an element that are read.
    leaves: Vec<Column>,
    /// Size in bytes of the element, or part of an element, that is read.
    item: u32,
    /// Required precision of the values.
    precision: Precision,
    /// Its published replica, if reads may use it.
    shelf: Option<Arc<Shelf>>,
    /// The replica to read, whatever its cost.
    forced: Option<u32>,
    /// Whether programs may be sent to the store.
    programs: Programs,
    /// Whether a server may round float64 values to float32.
    narrow: bool,
    /// Whether this is a user's read, which is observed, rather than the engine's own.
    noted: bool,
    /// Whether replicas that index values are considered.
    indexes: bool,
    /// Its definition as a derived variable, filled at the first use.
    computed: OnceLock<Arc<derived::Computed>>,
}

impl Container {
    /// The variable at a path in the handle's snapshot, or one member of its records (`field`).
    pub fn reading(&self, path: &str, field: Option<&str>) -> Result<Reading> {
        self.reading_at(self.snapshot(), path, field)
    }

    /// As [`reading`](Self::reading), in a snapshot that the handle shows or showed.
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
            // The variable is in the open batch, or the lookup fails. The id belongs to no variable of the snapshot:
            // the id in the batch may meanwhile belong to another variable.
            None => Variable { id: snapshot.schema.next_id, ..self.variable(path)? },
        };
        Reading::open(self.inner.clone(), snapshot, path, variable, field)
    }

    /// One leaf member of a variable by its number. Members inside arrays of records have no path, but have a number.
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
    /// The same reading for the engine itself: its reads are not observed.
    pub(crate) fn unnoted(mut self) -> Reading {
        self.noted = false;
        self
    }

    /// Opens a variable of a snapshot.
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

    /// The same reading at reduced precision: some transforms then read fewer bytes. The report has the guaranteed
    /// bound. Errors: `InvalidArgument` for a negative or undefined error and for level 0. Reads return the same
    /// error for values that lost more than that when they were written.
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

    /// The same reading, from the log only: published replicas are ignored.
    pub fn from_log(mut self) -> Reading {
        self.shelf = None;
        self
    }

    /// The same reading, from this replica wherever it has the cells, whatever the cost. 0 is the original,
    /// [`PUBLISHED`](read_plan::PUBLISHED) the published replica. `None` chooses the cheapest.
    pub fn by_way_of(mut self, replica: Option<u32>) -> Reading {
        self.forced = replica;
        self
    }

    /// The same reading, with or without programs at the store, whatever they cost. The values are the same.
    pub fn with_programs(mut self, programs: Programs) -> Reading {
        self.programs = programs;
        self
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The schema entry.
    pub fn variable(&self) -> &Variable {
        &self.variable
    }

    /// The number of the leaf member that it reads, if it reads a single one.
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

    /// Bytes of an element as it is read.
    pub fn item(&self) -> u32 {
        self.item
    }

    /// The snapshot that it reads.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The element that unwritten cells read as.
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

    /// Records the extents of a read for the observed reads.
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

    /// Finds the reason for a read's error: the snapshot may have expired, or the container may be gone.
    fn reason(&self, error: Error) -> Error {
        self.inner.reason(error, self.snapshot.version())
    }

    fn read_box(&self, selection: &Selection, out: &Target<'_>) -> Result<ReadReport> {
        Ok(self.read_and_look(selection, out)?.0)
    }

    /// Reads a box. Also returns whether it may contain unwritten cells.
    fn read_and_look(&self, selection: &Selection, out: &Target<'_>) -> Result<(ReadReport, bool)> {
        let mut report = ReadReport::default();
        // Published chunks contain fill values for unwritten cells.
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

    /// The number of steps in the first batch: about half of [`BATCH`] entries if every step has equally many. Steps
    /// that are planned together are requested together.
    fn first_batch(&self) -> u64 {
        let each = self.snapshot.entry_count() / self.snapshot.steps.len().max(1);
        (BATCH as u64 / 2 / each.max(1)).clamp(64, 1 << 16)
    }

    /// A number that is equal for all readings of the same values, in every process.
    pub(crate) fn fingerprint(&self, more: impl std::fmt::Debug) -> u64 {
        let columns: Vec<_> = self.leaves.iter().map(Column::numbers).collect();
        let version = self.snapshot.version();
        let text = format!("{} {version} {columns:?} {} {:?} {more:?}", self.path, self.item, self.precision);
        // FNV-1a gives the same result in every build, unlike the hashers of the standard library.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// How requests are merged on this store.
    fn options(&self) -> Options {
        let options = Options { precision: self.precision, ..OPTIONS };
        match self.inner.window() {
            None => options,
            Some(window) => window.options(&self.inner.device(), options),
        }
    }
}

type Tables = BTreeMap<(usize, usize), Arc<Vec<Subchunk>>>;

/// A plan with the data from which it was made.
struct Prepared {
    /// The columns of an element that are read; the slots repeat these.
    columns: Vec<Column>,
    slots: Vec<Slot>,
    /// The listing of each slot, if listed cells are read; empty for a box.
    listings: Vec<Listing>,
    resolved: Vec<Resolved>,
    plan: ReadPlan,
}

/// The setting of read programs in `DRYSTONE_PROGRAMS`; unknown words are ignored.
fn programs_asked() -> Programs {
    static ASKED: std::sync::OnceLock<Programs> = std::sync::OnceLock::new();
    *ASKED.get_or_init(|| {
        let asked = std::env::var("DRYSTONE_PROGRAMS").ok();
        asked.and_then(|text| Programs::parse(&text)).unwrap_or_default()
    })
}
