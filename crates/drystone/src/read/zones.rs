//! Zones: parts of a selection with statistics of their values, known before any value is read.
//!
//! A zone is the visible part of one stored subchunk, or a box of unwritten cells. Positions are counted along the
//! axes of the selection, without strides.
//!
//! Invariants
//! - the zones of a step are disjoint, and together they are the whole selection;
//! - statistics cover all cells of the subchunk, of which the zone may be a part; so a zone has no value that they
//!   exclude.

use std::sync::Arc;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece};
use drystone_format::layout::Layout;
use drystone_plan::listing::Listing;
use drystone_plan::parts::{SubchunkPart, parts};
use drystone_plan::programs::Programs;
use drystone_plan::ranges::decoded_len;
use drystone_plan::read_plan::{self, BINS, SORTED, Slot};
use drystone_plan::resolve::Candidate;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::Chain;

use super::sources::Sources;
use super::{ReadReport, Reading};
use crate::base::array::Target;
use crate::base::cpus::threads;
use crate::{Error, ErrorKind, Result};

/// The most concurrent reads of a far store, each with its own window.
const MOST_AT_ONCE: u32 = 16;

/// Commit, rank or writer, put: decides which of two blocks is newer.
pub(crate) type Age = (u64, u64, u64);

/// Selected cells in one subchunk, or unwritten cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    /// First position along each axis of the selection; 0 beyond.
    pub(crate) lo: [u64; MAX_NDIM],
    /// End position along each axis; 1 beyond.
    pub(crate) hi: [u64; MAX_NDIM],
    /// The subchunk; `None` for unwritten cells.
    pub(crate) stored: Option<StoredZone>,
}

/// The subchunk of a zone, with its statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredZone {
    /// Statistics of all values of the subchunk.
    pub(crate) stats: Stats,
    /// Number of cells of the subchunk.
    pub(crate) cells: u64,
    /// Stored bytes of the subchunk.
    pub(crate) bytes: u64,
    /// Whether parts of it can be read separately.
    pub(crate) raw: bool,
    /// Its number in `indexed`, if it has an index of its values.
    pub(crate) index: Option<u32>,
    /// Commit, order and put of its block.
    pub(crate) age: Age,
}

/// A zone whose subchunk has an index of its values.
#[derive(Debug, Clone)]
pub(crate) struct IndexedZone {
    /// The position of the zone's cells in the subchunk.
    pub(crate) part: SubchunkPart,
    pub(super) source: u32,
    pub(super) piece: StoredPiece,
    pub(super) step: u64,
    pub(super) encoding: Arc<Encoding>,
    /// About how many bytes the values take that are stored without the index, if they are.
    pub(super) plain: Option<u64>,
}

impl IndexedZone {
    /// Whether the values are also stored without the index.
    pub(crate) fn is_beside(&self) -> bool {
        self.encoding.replica > 0
    }
}

/// The zones of a step.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    pub(crate) all: Vec<Zone>,
    pub(crate) indexed: Vec<IndexedZone>,
}

impl Zone {
    /// Number of cells.
    pub(crate) fn cells(&self) -> u64 {
        self.lo.iter().zip(&self.hi).fold(1, |cells, (lo, hi)| cells.saturating_mul(hi.saturating_sub(*lo)))
    }
}

/// `len` in the proportion of `stored` to `of`; `len` if that is unknown.
fn share(len: u64, stored: u64, of: u64) -> u64 {
    match u128::from(of) {
        0 => len,
        of => u64::try_from(u128::from(len) * u128::from(stored) / of).unwrap_or(u64::MAX),
    }
}

impl Reading {
    /// Whether the bytes are on a far store.
    pub(crate) fn is_far(&self) -> bool {
        self.inner.window().is_some()
    }

    /// Whether the store may run read programs and should be asked.
    pub(crate) fn runs_there(&self) -> bool {
        self.is_far() && self.inner.store.features().exec && self.programs != Programs::Never
    }

    /// The zones of one step, in no order, for a selection without the step axis. `step` is ignored for a variable
    /// without steps.
    pub(crate) fn zones(&self, step: u64, cells: &Selection) -> Result<Zones> {
        self.zones_of(step, cells).map_err(|e| self.reason(e))
    }

    fn zones_of(&self, step: u64, cells: &Selection) -> Result<Zones> {
        let mut out = Zones::default();
        if cells.is_empty() {
            return Ok(out);
        }
        let log = Reading { indexes: true, ..self.clone().from_log() };
        let mut slots = log.sought(&Axis { start: step, step: 1, count: 1 }, cells)?.slots;
        // A member has one slot. If arrays in it were put in parts, it has several, and nothing is known about the
        // whole.
        if slots.len() != 1 {
            slots.clear();
        }
        if slots.is_empty() {
            out.all.push(Zone {
                lo: [0; MAX_NDIM],
                hi: ends(cells),
                stored: Some(StoredZone::unknown(cells)),
            });
            return Ok(out);
        }
        for number in [SORTED, BINS] {
            if !slots[0].candidates.iter().any(|c| c.entry.encoding.replica == number) {
                continue;
            }
            match log.zones_by(&slots, number) {
                Err(e) if is_of_index(&e) => self.warn_of_index(&e),
                other => return other,
            }
        }
        log.zones_by(&slots, 0)
    }

    /// How many bytes the originals take, and how many their values: of the blocks whose tables need no request, and
    /// of the largest other one.
    fn stored_share(&self, slots: &[Slot], sources: &Sources<'_>) -> Result<(u64, u64)> {
        let originals = || {
            slots
                .iter()
                .flat_map(|slot| &slot.candidates)
                .map(|c| &c.entry)
                .filter(|e| e.encoding.replica == 0)
        };
        let values = |e: &Entry| e.cells().unwrap_or(u64::MAX).saturating_mul(u64::from(self.item));
        if originals().all(|e| e.encoding.chain.is_empty()) {
            return Ok((1, 1));
        }
        let (mut stored, mut of) = (0u64, 0u64);
        for entry in originals().filter(|e| e.subchunks == 1) {
            (stored, of) = (stored.saturating_add(entry.piece.length), of.saturating_add(values(entry)));
        }
        if let Some(largest) = originals().filter(|e| e.subchunks > 1).max_by_key(|e| values(e)) {
            let table = self.table(largest, sources)?;
            stored = table.iter().fold(stored, |sum, one| sum.saturating_add(one.piece.length));
            of = of.saturating_add(values(largest));
        }
        Ok((stored, of))
    }

    /// The zones from the originals, or from a replica where it has the cells.
    fn zones_by(&self, all: &[Slot], replica: u32) -> Result<Zones> {
        let (log, mut out) = (self, Zones::default());
        let mut slots = read_plan::offered(all, replica);
        let Some(slot) = slots.first_mut() else { return Ok(out) };
        let ndim = slot.selection.axes.len();
        // Cells that only this added block covers were never written.
        slot.candidates.insert(0, nothing(&self.variable.shape));
        let sources = Sources::of(log);
        let plain = match replica {
            0 => None,
            _ => Some(log.stored_share(all, &sources)?),
        };
        let found = read_plan::resolve_slots(&slots).map_err(|e| log.plan_error(&slots, &sources, e))?;
        let tables = log.tables(&slots, &found, &sources)?;
        let (Some(slot), Some(resolved)) = (slots.first(), found.first()) else { return Ok(out) };
        for shown in resolved.visible.chunk_by(|a, b| a.candidate == b.candidate) {
            let Some(Candidate { entry, .. }) = shown.first().and_then(|v| slot.candidates.get(v.candidate))
            else {
                continue;
            };
            if shown.first().is_some_and(|first| first.candidate == 0) {
                out.all.extend(shown.iter().map(|v| Zone { lo: v.lo, hi: v.hi, stored: None }));
                continue;
            }
            let table = shown.first().and_then(|v| tables.get(&(0, v.candidate)));
            let raw = entry.encoding.chain.is_empty();
            // An index counts cells in stored order; subchunks that are not stored row by row are scanned instead.
            let by_rows = entry.encoding.layout == Layout::Dense && entry.encoding.item == self.item;
            let has_index =
                !raw && by_rows && Chain::parse(&entry.encoding.chain).is_ok_and(|c| c.has_index());
            for visible in shown {
                for part in parts(entry, &slot.selection, visible) {
                    let listed = usize::try_from(part.subchunk).ok();
                    let listed = table.as_ref().and_then(|table| table.get(listed?));
                    let (stats, piece, prefix) = listed
                        .map_or((entry.stats, entry.piece, None), |one| (one.stats, one.piece, one.prefix));
                    let searchable =
                        has_index && prefix.is_none() && piece.trailer > 0 && piece.unit_log2 > 0;
                    let index = searchable.then(|| {
                        let (source, step, encoding) = (entry.source, entry.step, entry.encoding.clone());
                        let len = decoded_len(&part, u64::from(self.item));
                        let plain = plain.map(|(stored, of)| share(len, stored, of));
                        out.indexed.push(IndexedZone { part, source, piece, step, encoding, plain });
                        out.indexed.len() as u32 - 1
                    });
                    let whole = part.chunk_shape[..ndim].iter();
                    let cells = whole.fold(1u64, |cells, n| cells.saturating_mul(*n));
                    let (mut lo, mut hi) = ([0; MAX_NDIM], [1; MAX_NDIM]);
                    for d in 0..ndim {
                        (lo[d], hi[d]) = (part.dest[d], part.dest[d].saturating_add(part.chunk[d].2));
                    }
                    let bytes = piece.length;
                    let age = (entry.commit, entry.order, entry.put);
                    let stored = Some(StoredZone { stats, cells, bytes, raw, index, age });
                    out.all.push(Zone { lo, hi, stored });
                }
            }
        }
        Ok(out)
    }

    /// The boxes of a box in which no cell was ever written, at a step (`None`: of a variable without steps). They are
    /// disjoint; each is its first cell and its extents. Values that are computed at reading count as written.
    pub fn unwritten(
        &self,
        step: Option<u64>,
        offset: &[u64],
        count: &[u64],
    ) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        if self.is_derived() {
            return Ok(Vec::new());
        }
        let voids = self.voids(step.unwrap_or(0), &Selection::boxed(offset, count))?;
        let whole = |(lo, hi): (Vec<u64>, Vec<u64>)| {
            let first = lo.iter().zip(offset).map(|(at, offset)| at + offset).collect();
            (first, hi.iter().zip(&lo).map(|(end, at)| end - at).collect())
        };
        Ok(voids.into_iter().map(whole).collect())
    }

    /// The unwritten boxes of a selection at a step: first positions and ends. Arrays may be put in parts; a cell is
    /// unwritten if all its parts are.
    pub(crate) fn voids(&self, step: u64, cells: &Selection) -> Result<Vec<(Vec<u64>, Vec<u64>)>> {
        let log = self.clone().from_log();
        let slots = log.sought(&Axis { start: step, step: 1, count: 1 }, cells)?.slots;
        let sources = Sources::of(&log);
        let (mut voids, ndim) = (None::<Vec<(Vec<u64>, Vec<u64>)>>, cells.axes.len());
        for mut slot in read_plan::offered(&slots, 0) {
            slot.candidates.insert(0, nothing(&self.variable.shape));
            let slot = [slot];
            let found = read_plan::resolve_slots(&slot).map_err(|e| log.plan_error(&slot, &sources, e))?;
            let visible = found.iter().flat_map(|resolved| &resolved.visible).filter(|v| v.candidate == 0);
            let own: Vec<_> = visible.map(|v| (v.lo[..ndim].to_vec(), v.hi[..ndim].to_vec())).collect();
            voids = Some(match voids {
                None => own,
                Some(before) => before.iter().flat_map(|a| own.iter().filter_map(|b| common(a, b))).collect(),
            });
        }
        Ok(voids.unwrap_or_default())
    }

    /// The best number of concurrent reads: one per processor, or as many as a far store keeps in flight.
    pub(crate) fn at_once(&self) -> usize {
        let far = self.inner.window().map_or(0, |window| window.requests.min(MOST_AT_ONCE) as usize);
        threads().max(far)
    }

    /// Reads a box like `read`, for the engine itself: the read is not observed.
    pub(crate) fn read_unnoted(&self, selection: &Selection, out: &Target<'_>) -> Result<ReadReport> {
        self.check_read(selection, out)?;
        self.read_box(selection, out).map_err(|e| self.reason(e))
    }

    /// Reads listed cells like `read_listed`, for the engine itself: the read is not observed.
    pub(crate) fn read_listed_unnoted(&self, listing: &Listing, out: &Target<'_>) -> Result<ReadReport> {
        self.read_cells(listing, out).map_err(|e| self.reason(e))
    }
}

impl Reading {
    /// Warns that an index is not used and that its values are scanned.
    pub(super) fn warn_of_index(&self, error: &Error) {
        let warning = format!(
            "the index of \"{}\" is left out, and values are scanned: {error}; drop_index() and index() make it again",
            self.path
        );
        self.inner.warn_once(warning);
    }
}

/// Whether an error concerns an index that is stored beside the values, so that the values can be read.
pub(super) fn is_of_index(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Unsupported)
}

impl StoredZone {
    /// The statistics of cells about which nothing is known.
    fn unknown(cells: &Selection) -> StoredZone {
        let cells = cells.cells().unwrap_or(u64::MAX);
        StoredZone { stats: Stats::default(), cells, bytes: 0, raw: true, index: None, age: (0, 0, 0) }
    }
}

fn ends(cells: &Selection) -> [u64; MAX_NDIM] {
    let mut hi = [1; MAX_NDIM];
    for (hi, axis) in hi.iter_mut().zip(&cells.axes) {
        *hi = axis.count;
    }
    hi
}

/// The common part of two boxes, given by first positions and ends.
fn common(a: &(Vec<u64>, Vec<u64>), b: &(Vec<u64>, Vec<u64>)) -> Option<(Vec<u64>, Vec<u64>)> {
    let lo: Vec<u64> = a.0.iter().zip(&b.0).map(|(a, b)| *a.max(b)).collect();
    let hi: Vec<u64> = a.1.iter().zip(&b.1).map(|(a, b)| *a.min(b)).collect();
    lo.iter().zip(&hi).all(|(lo, hi)| lo < hi).then_some((lo, hi))
}

/// A block that is older than all others and contains all cells of a shape.
pub(super) fn nothing(shape: &[u64]) -> Candidate {
    let mut entry = Entry { ndim: shape.len() as u8, subchunks: 1, ..Entry::default() };
    for (d, n) in shape.iter().enumerate().take(MAX_NDIM) {
        (entry.count[d], entry.cut[d]) = (*n, (*n).max(1));
    }
    Candidate { entry, limit: [u64::MAX; MAX_NDIM] }
}
