//! Values of any length, alone or as members of records: first the cells with their 16-byte references, then the blobs
//! that these name (docs/format/log.md, "Blobs").

use std::collections::BTreeMap;

use drystone_plan::coalesce::{Fetch, coalesce};
use drystone_plan::selection::{Axis, Selection};

use super::execute;
use super::sources::Sources;
use super::{Prepared, ReadReport, Reading, segment_key};
use crate::base::array::Target;
use crate::base::checksum::crc32;
use crate::base::error::must_exist;
use crate::schema::member::Column;
use crate::{Error, Result};

/// Bytes of a reference.
const REFERENCE: usize = 16;
/// Gaps between blobs up to this size are read.
const GAP: u64 = 64 << 10;
/// Requests for blobs are merged up to this size.
const MAX_REQUEST: u64 = 4 << 20;

/// Cells of records with members of any length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// The cells one after the other, as they are in memory. At the places of members of any length there are
    /// references, which mean nothing outside of the container.
    pub cells: Vec<u8>,
    /// For each leaf member of any length, in the order of the leaves: its values, cell by cell.
    pub values: Vec<Vec<Vec<u8>>>,
}

/// What a read of values of any length fills: the elements with their references, and the values that these name.
pub(super) struct Holder {
    cells: Vec<u8>,
    values: Vec<Vec<u8>>,
}

impl Holder {
    fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

/// A reference: its byte in the cells, the number of its value, and the source that the value lies in.
type Held = (usize, usize, u32);

impl Reading {
    /// Whether it reads values of any length, alone or as members of records.
    pub fn has_blobs(&self) -> bool {
        self.leaves.iter().any(|column| column.leaf.dtype.is_blob())
    }

    /// How many values of any length a cell has.
    fn values_per_cell(&self) -> u64 {
        self.blob_columns().map(|column| column.leaf.repeat).sum()
    }

    fn blob_columns(&self) -> impl Iterator<Item = &Column> {
        self.leaves.iter().filter(|column| column.leaf.dtype.is_blob())
    }

    pub(super) fn require_strings(&self) -> Result<()> {
        match self.leaves.iter().find(|column| !column.leaf.dtype.is_blob()) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!(
                "\"{}\" holds {}, not strings{}",
                self.path,
                self.variable.dtype,
                if self.has_blobs() { " alone: read a member" } else { "" }
            ))),
        }
    }

    /// The values of a member of any length alone, from all that was read.
    pub(super) fn only_values((holder, report): (Holder, ReadReport)) -> (Vec<Vec<u8>>, ReadReport) {
        (holder.values, report)
    }

    /// The values of each member separately.
    pub(super) fn as_records(&self, (holder, report): (Holder, ReadReport)) -> (Records, ReadReport) {
        let repeats: Vec<usize> = self.blob_columns().map(|column| column.leaf.repeat as usize).collect();
        let cells = holder.values.len() / repeats.iter().sum::<usize>().max(1);
        let mut values: Vec<Vec<Vec<u8>>> = repeats.iter().map(|n| Vec::with_capacity(n * cells)).collect();
        let mut all = holder.values.into_iter();
        for _ in 0..cells {
            for (own, repeat) in values.iter_mut().zip(&repeats) {
                own.extend(all.by_ref().take(*repeat));
            }
        }
        (Records { cells: holder.cells, values }, report)
    }

    pub(super) fn blobs_in(&self, selection: &Selection) -> Result<(Holder, ReadReport)> {
        self.check_selection(selection)?;
        let mut out = self.no_values(selection.cells())?;
        let mut report = ReadReport::default();
        if out.is_empty() {
            return Ok((out, report));
        }
        let (steps, rest) = self.split(selection);
        for i in 0..steps.count {
            let one = Axis { start: steps.cell(i), step: 1, count: 1 };
            let prepared = self.plan(self.sought(&one, &rest)?)?;
            report.add(&prepared.plan);
            self.blobs_of(&prepared, (i, steps.count), &mut out)?;
        }
        Ok((out, report))
    }

    /// Room for the values of this many cells, all of them empty.
    pub(super) fn no_values(&self, cells: Option<u64>) -> Result<Holder> {
        let room = |each: u64| cells.and_then(|n| usize::try_from(n.checked_mul(each)?).ok());
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        let sizes = room(self.item.into()).zip(room(self.values_per_cell()));
        let fits = sizes.filter(|(cells, each)| {
            bytes.try_reserve_exact(*cells).is_ok() && values.try_reserve_exact(*each).is_ok()
        });
        let Some((size, count)) = fits else {
            return Err(Error::invalid(format!(
                "the strings of \"{}\" do not fit into memory; read a part",
                self.path
            )));
        };
        bytes.resize(size, 0);
        values.resize(count, Vec::new());
        Ok(Holder { cells: bytes, values })
    }

    /// Reads the cells of one slot per column, and the values that their references name, into the given part of the
    /// cells: the number of the part, and how many there are.
    pub(super) fn blobs_of(&self, prepared: &Prepared, part: (u64, u64), out: &mut Holder) -> Result<()> {
        let sources = Sources::of(self);
        let Some(slot) = prepared.slots.first() else { return Ok(()) };
        let shape = slot.selection.shape();
        let item = self.item as usize;
        let cells = out.cells.len() / item.max(1) / part.1.max(1) as usize;
        let first = cells * part.0 as usize;
        {
            let mut full = shape.clone();
            if self.variable.steps {
                full.insert(0, 1);
            }
            let own = out.cells.get_mut(first * item..(first + cells) * item).unwrap_or_default();
            execute::run(self, prepared, 0, &Target::dense(own, &full, item)?, &sources)?;
        }
        let mut held: Vec<Held> = Vec::new();
        let slots = prepared.slots.iter().zip(&prepared.resolved).zip(&prepared.columns);
        for ((slot, resolved), column) in slots {
            let Some(places) = self.places(column) else { continue };
            for visible in &resolved.visible {
                let source = slot.candidates[visible.candidate].entry.source;
                let cells = cells_of(&visible.lo[..shape.len()], &visible.hi[..shape.len()], &shape);
                held.extend(cells.flat_map(|cell| places.of(first + cell, source)));
            }
        }
        self.texts(held, out)
    }

    /// The same for a listing of this shape.
    pub(super) fn blobs_of_listed(&self, prepared: &Prepared, shape: &[u64], out: &mut Holder) -> Result<()> {
        let sources = Sources::of(self);
        execute::run(
            self,
            prepared,
            0,
            &Target::dense(&mut out.cells, shape, self.item as usize)?,
            &sources,
        )?;
        let mut held: Vec<Held> = Vec::new();
        for work in &prepared.plan.works {
            let source = prepared.slots[work.slot].candidates[work.entry].entry.source;
            let column = prepared.columns.get(work.slot % prepared.columns.len().max(1));
            let Some(own) = column.and_then(|column| self.places(column)) else { continue };
            let mut places = vec![0u64];
            for (picks, n) in work.cells.iter().flat_map(|cells| &cells.legs).zip(shape) {
                let along = |at: &u64| {
                    let at = *at;
                    (0..picks.count()).filter_map(|i| picks.get(i)).map(move |(_, place)| at * n + place)
                };
                places = places.iter().flat_map(along).collect();
            }
            held.extend(places.into_iter().flat_map(|place| own.of(place as usize, source)));
        }
        self.texts(held, out)
    }

    /// Where the references of a column are in a cell; `None` if it has none.
    fn places(&self, column: &Column) -> Option<Places> {
        if !column.leaf.dtype.is_blob() {
            return None;
        }
        let mut before = 0;
        for own in self.blob_columns() {
            let (all, part) = (own.range(), column.range());
            if own.number == column.number && all.start <= part.start && part.end <= all.end {
                return Some(Places {
                    item: self.item as usize,
                    per_cell: self.values_per_cell() as usize,
                    offset: column.leaf.offset as usize,
                    first: before + (part.start - all.start) as usize / REFERENCE,
                    count: column.leaf.repeat as usize,
                });
            }
            before += own.leaf.repeat as usize;
        }
        None
    }

    /// Reads the values that references name.
    fn texts(&self, held: Vec<Held>, out: &mut Holder) -> Result<()> {
        let sources = Sources::of(self);
        let Holder { cells, values } = out;
        let mut wanted: Vec<(u32, std::ops::Range<u64>, (usize, u32))> = Vec::new();
        for (at, number, source) in held {
            let Some(r) = cells.get(at..at + REFERENCE) else { continue };
            let position = u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]);
            let len = u32::from_le_bytes([r[8], r[9], r[10], r[11]]);
            let check = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
            if len > 0 {
                let end = position.checked_add(u64::from(len)).ok_or_else(|| {
                    Error::corrupt(format!("variable \"{}\": a string's place is out of range", self.path))
                })?;
                wanted.push((source, position..end, (number, check)));
            }
        }
        let fetches = coalesce(wanted, GAP, MAX_REQUEST);
        let mut take = |fetch: &Fetch<(usize, u32)>, bytes: &[u8]| {
            for (range, (number, check)) in &fetch.items {
                let at = (range.start - fetch.range.start) as usize;
                let value = bytes.get(at..at + (range.end - range.start) as usize).unwrap_or_default();
                if crc32(value) != *check {
                    let key = sources.key(fetch.source)?;
                    return Err(Error::corrupt(format!(
                        "{key} is damaged at byte {}: a string fails its checksum (variable \"{}\")",
                        range.start, self.path
                    )));
                }
                if let Some(place) = values.get_mut(*number) {
                    *place = value.to_vec();
                }
            }
            Ok(())
        };
        // A far store reports a range beyond the end of its object; asking for the length first would take as long.
        let long = fetches.iter().any(|fetch| fetch.len() > MAX_REQUEST);
        if self.inner.window().is_some() && !long {
            return self.fetch_all(&sources, &fetches, &mut take);
        }
        let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
        for fetch in fetches {
            let source = sources.get(fetch.source)?;
            let key = segment_key(&source);
            let known = match lengths.get(&fetch.source) {
                Some(n) => *n,
                None => {
                    let n = self.inner.store.len(&key).map_err(must_exist)?;
                    lengths.insert(fetch.source, n);
                    n
                }
            };
            if fetch.range.end > known {
                return Err(Error::corrupt(format!(
                    "{key} is damaged: it ends at byte {known}, a string of variable \"{}\" lies at {}..{}",
                    self.path, fetch.range.start, fetch.range.end
                )));
            }
            let mut bytes = vec![0; (fetch.range.end - fetch.range.start) as usize];
            self.inner
                .store
                .read(&key, fetch.range.start, &mut bytes)
                .map_err(|e| must_exist(e).while_doing(format!("reading variable \"{}\"", self.path)))?;
            take(&fetch, &bytes)?;
        }
        Ok(())
    }
}

/// Where the references of a column are.
struct Places {
    /// Bytes of a cell, and its values of any length.
    item: usize,
    per_cell: usize,
    /// The first reference in the cell, the number of its value, and how many follow each other.
    offset: usize,
    first: usize,
    count: usize,
}

impl Places {
    fn of(&self, cell: usize, source: u32) -> impl Iterator<Item = Held> {
        let (at, number) = (cell * self.item + self.offset, cell * self.per_cell + self.first);
        (0..self.count).map(move |k| (at + k * REFERENCE, number + k, source))
    }
}

/// Row-major numbers of the cells of a box.
fn cells_of(lo: &[u64], hi: &[u64], shape: &[u64]) -> impl Iterator<Item = usize> {
    let count: u64 = lo.iter().zip(hi).map(|(l, h)| h - l).product();
    let (lo, hi, shape) = (lo.to_vec(), hi.to_vec(), shape.to_vec());
    (0..count).map(move |mut i| {
        let mut at = 0u64;
        let mut stride = 1u64;
        for d in (0..shape.len()).rev() {
            let extent = hi[d] - lo[d];
            at += (lo[d] + i % extent) * stride;
            i /= extent;
            stride *= shape[d];
        }
        at as usize
    })
}
