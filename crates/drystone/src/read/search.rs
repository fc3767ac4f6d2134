//! Finds cells between two values: by the index of a subchunk if its transform keeps one, else by a scan.
//!
//! Statistics of blocks and subchunks come first: blocks and subchunks that exclude the range are not read. From an
//! indexed subchunk, only the bins that meet the range are read. Unwritten cells are never found, whatever the fill
//! value is.

use std::ops::RangeInclusive;

use drystone_format::dtype::DType;
use drystone_format::entry::{Entry, StoredPiece};
use drystone_format::layout::Layout;
use drystone_format::piece::Trailer;
use drystone_plan::parts::SubchunkPart;
use drystone_plan::ranges::{at_units, decoded_len};
use drystone_plan::read_plan::Work;
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::{
    Chain, Fetched, Limit, Logical, MAX_DECODED_LEN, Precision, SearchHits, StoredSubchunk, TransformError,
    Whole, key_of, keys_between, meets,
};

use super::execute::trailers;
use super::sources::Sources;
use super::zones::is_of_index;
use super::{IndexedZone, OPTIONS, ReadReport, Reading};
use crate::base::array::Target;
use crate::schema::element_type::{kind_of, logical};
use crate::schema::member::Column;
use crate::{Error, Result};

/// Cells with values in a range, in row-major order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hits {
    /// Coordinates of the cells, one after the other, without the step axis.
    pub coords: Vec<u64>,
    /// Their elements, little-endian, one after the other.
    pub values: Vec<u8>,
    /// The number of cells.
    pub count: usize,
    /// The cost of finding them.
    pub report: ReadReport,
}

/// A stored piece that may have an index of its values.
pub(super) struct Index<'a> {
    pub(super) sources: &'a Sources<'a>,
    pub(super) source: u32,
    pub(super) step: u64,
    pub(super) piece: StoredPiece,
    pub(super) chain: &'a Chain,
    pub(super) trailer: &'a Trailer,
    pub(super) logical: Logical,
    pub(super) stored: StoredSubchunk<'a>,
    /// If the values are also stored as they were put: about how many bytes.
    pub(super) plain: Option<u64>,
    /// The error for an index that cannot be decoded.
    pub(super) damage: Error,
}

impl Index<'_> {
    fn whole(&self, keys: &RangeInclusive<u64>) -> Result<Whole> {
        let found = self.chain.whole_bins(&self.stored, &self.logical, keys);
        let none = || Whole { count: 0, rest: vec![keys.clone()] };
        Ok(found.map_err(|e| self.undecodable(&e))?.unwrap_or_else(none))
    }

    pub(super) fn undecodable(&self, error: &TransformError) -> Error {
        Error::new(self.damage.kind(), format!("{}: {error}", self.damage))
    }
}

/// Cells of a zone.
#[derive(Debug, Clone)]
pub(crate) enum ZoneCells {
    /// The numbers of the cells in row-major order, ascending.
    Few(Vec<u32>),
    /// A bit per cell, and how many are set.
    Bits(Vec<u64>, u64),
}

impl IndexedZone {
    /// The cells of the zone that are among the elements at these positions of the subchunk, or, with `other`, not
    /// among them. If the values were found, they come in the order of the cells.
    pub(super) fn cells(
        &self,
        found: &SearchHits,
        other: bool,
        (ndim, item): (usize, usize),
    ) -> (ZoneCells, Option<Vec<u8>>) {
        let positions = found.positions.as_slice();
        let has_values = !found.only_positions && !other && item > 0;
        let part = &self.part;
        let whole = part.is_whole();
        let inside = |position: &u32| {
            if whole {
                return Some(*position);
            }
            let mut rest = u64::from(*position);
            let (mut cell, mut stride) = (0, 1);
            for d in (0..ndim).rev() {
                let edge = part.chunk_shape[d].max(1);
                let (first, step, count) = part.chunk[d];
                let from = (rest % edge).checked_sub(first)?;
                let step = step.unsigned_abs().max(1);
                if from % step != 0 || from / step >= count {
                    return None;
                }
                cell += from / step * stride;
                stride *= count;
                rest /= edge;
            }
            u32::try_from(cell).ok()
        };
        let cells = part.cells() as usize;
        if !other && positions.len() < cells / 256 {
            if !has_values {
                let mut few: Vec<u32> = positions.iter().filter_map(inside).collect();
                few.sort_unstable();
                return (ZoneCells::Few(few), None);
            }
            let mut few: Vec<(u32, &[u8])> = positions
                .iter()
                .zip(found.values.chunks_exact(item))
                .filter_map(|(position, value)| Some((inside(position)?, value)))
                .collect();
            few.sort_unstable_by_key(|(cell, _)| *cell);
            let values = few.iter().flat_map(|(_, value)| value.iter().copied()).collect();
            return (ZoneCells::Few(few.into_iter().map(|(cell, _)| cell).collect()), Some(values));
        }
        let mut set = vec![if other { u64::MAX } else { 0 }; cells.div_ceil(64)];
        for cell in positions.iter().filter_map(inside) {
            if let Some(word) = set.get_mut(cell as usize / 64) {
                *word ^= 1 << (cell % 64);
            }
        }
        if let Some(last) = set.last_mut().filter(|_| !cells.is_multiple_of(64)) {
            *last &= u64::MAX >> (64 - cells % 64);
        }
        let count = set.iter().map(|word| u64::from(word.count_ones())).sum();
        let values = has_values.then(|| {
            let mut before = Vec::with_capacity(set.len());
            let mut sum = 0;
            for word in &set {
                before.push(sum);
                sum += word.count_ones() as usize;
            }
            let mut values = vec![0; sum * item];
            for (position, value) in positions.iter().zip(found.values.chunks_exact(item)) {
                let Some(cell) = inside(position).map(|cell| cell as usize) else { continue };
                let (Some(word), Some(before)) = (set.get(cell / 64), before.get(cell / 64)) else {
                    continue;
                };
                let at = (before + (word & ((1 << (cell % 64)) - 1)).count_ones() as usize) * item;
                if let Some(to) = values.get_mut(at..at + item) {
                    to.copy_from_slice(value);
                }
            }
            values
        });
        (ZoneCells::Bits(set, count), values)
    }
}

/// The complement of a range of keys, for values of this many bytes.
fn complement(keys: &RangeInclusive<u64>, width: u32) -> Vec<RangeInclusive<u64>> {
    let most = u64::MAX >> (64 - 8 * width.clamp(1, 8));
    let below = keys.start().checked_sub(1).map(|end| 0..=end);
    let above = keys.end().checked_add(1).filter(|first| *first <= most).map(|first| first..=most);
    below.into_iter().chain(above).collect()
}

/// Cells of a zone, with their elements one after the other, if these were wanted and found.
pub(crate) type Searched = (ZoneCells, Option<Vec<u8>>);

/// State that stays the same from subchunk to subchunk.
struct Search<'a> {
    sources: &'a Sources<'a>,
    keys: RangeInclusive<u64>,
    chain: Option<(String, Option<Chain>)>,
    trailers: trailers::Known,
    /// The piece that was searched last: several parts of it may be visible.
    last: Option<((u32, StoredPiece), SearchHits)>,
    hits: Hits,
}

impl Reading {
    /// The cells of a step (`None` for a variable without steps) whose values lie between two limits, both included.
    /// NaN is never included.
    ///
    /// Errors: `InvalidArgument` for types without an order (records, complex numbers, text) and for NaN as a limit;
    /// those of `read`.
    pub fn value_range(&self, step: Option<u64>, low: Limit, high: Limit) -> Result<Hits> {
        self.cells_between(step, low, high).map_err(|e| self.reason(e))
    }

    fn cells_between(&self, step: Option<u64>, low: Limit, high: Limit) -> Result<Hits> {
        let kind = match self.leaves.as_slice() {
            [Column { leaf, .. }] if leaf.repeat == 1 && matches!(leaf.dtype, DType::Scalar(_)) => {
                kind_of(&leaf.dtype)
            }
            _ => drystone_transform::stats::ScalarKind::Other,
        };
        let nan = |limit| matches!(limit, Limit::Float(x) if f64::is_nan(x));
        if kind.domain().is_none() || nan(low) || nan(high) {
            let what =
                if nan(low) || nan(high) { "a limit is NaN" } else { "it holds no single real numbers" };
            return Err(Error::invalid(format!("no range of values of \"{}\": {what}", self.path)));
        }
        let mut axes: Vec<Axis> = self.variable.shape.iter().map(|&n| Axis::full(n)).collect();
        match (self.variable.steps, step) {
            (true, Some(step)) => axes.insert(0, Axis { start: step, step: 1, count: 1 }),
            (false, None) => {}
            (true, None) => {
                return Err(Error::invalid(format!("\"{}\" has steps: say which step", self.path)));
            }
            (false, Some(_)) => return Err(Error::invalid(format!("\"{}\" has no steps", self.path))),
        }
        let selection = Selection { axes };
        self.check_selection(&selection)?;
        let keys = keys_between(kind, low, high);
        if selection.is_empty() || keys.is_empty() {
            return Ok(Hits::default());
        }
        let published = Reading { precision: Precision::Exact, ..self.clone() };
        let exact = Reading { shelf: None, ..published.clone() };
        let (steps, cells) = exact.split(&selection);
        let prepared = exact.plan(exact.sought(&steps, &cells)?)?;
        let sources = Sources::of(self);
        let mut works = Vec::new();
        for work in &prepared.plan.works {
            let entry = &prepared.slots[work.slot].candidates[work.entry].entry;
            let mut stats = entry.stats;
            if entry.subchunks > 1 {
                let table = self.table(entry, &sources)?;
                stats = usize::try_from(work.part.subchunk)
                    .ok()
                    .and_then(|i| table.get(i))
                    .map_or(stats, |s| s.stats);
            }
            if stats.min_max.is_some_and(|extremes| meets(kind, extremes, low, high)) {
                works.push((entry, work));
            }
        }
        let mut indexed = Vec::new();
        let mut last: Option<(&str, bool)> = None;
        // An index counts cells in stored order; subchunks that are not stored row by row are scanned instead.
        let by_rows =
            |entry: &Entry| entry.encoding.layout == Layout::Dense && entry.encoding.item == self.item;
        let searchable = |entry: &Entry, w: &Work| {
            by_rows(entry) && w.prefix.is_none() && w.piece.trailer > 0 && w.piece.unit_log2 > 0
        };
        for (entry, work) in works.iter().filter(|(entry, work)| searchable(entry, work)) {
            let text = entry.encoding.chain.as_str();
            let known = last.filter(|(known, _)| *known == text);
            let (_, has_index) = *last
                .insert(known.unwrap_or_else(|| (text, Chain::parse(text).is_ok_and(|c| c.has_index()))));
            if has_index {
                indexed.push((entry.source, work.piece));
            }
        }
        let trailers = trailers::for_plan(self, &sources, &indexed)?;
        let report =
            ReadReport { requests: trailers.requests, read_bytes: trailers.bytes, ..ReadReport::default() };
        let hits = Hits { report, ..Hits::default() };
        let mut search = Search { sources: &sources, keys, chain: None, trailers, last: None, hits };
        // Computed once, when the first part has to be scanned.
        let mut known = None;
        let ndim = self.variable.shape.len();
        for (entry, work) in works {
            if exact.search_index(&mut search, entry, work)? {
                continue;
            }
            let known = match &mut known {
                Some(known) => known,
                none => none.insert(published.known_chunks(step)?),
            };
            // For an older block, only those cells are visible that were visible when newer data was published.
            let older = known.as_ref().filter(|known| entry.commit <= known.version);
            match older.and_then(|known| known.narrowed(&work.part, ndim, (kind, low, high))) {
                Some(boxes) => {
                    for (first, count) in boxes {
                        published.scan(&mut search, steps.start, (&first, &count), kind)?;
                    }
                }
                None => {
                    let count: Vec<u64> =
                        work.part.chunk[..ndim].iter().map(|(_, _, count)| *count).collect();
                    exact.scan(&mut search, steps.start, (&work.part.dest[..ndim], &count), kind)?;
                }
            }
        }
        Ok(search.hits.sorted(self.variable.shape.len(), self.item as usize))
    }

    /// Finds cells of a part by the index of its subchunk. Returns `false` if there is no index.
    fn search_index(&self, search: &mut Search<'_>, entry: &Entry, work: &Work) -> Result<bool> {
        let piece = work.piece;
        let Some(trailer) = search.trailers.get(entry.source, &piece).cloned() else {
            return Ok(false);
        };
        if search.last.as_ref().is_none_or(|(known, _)| *known != (entry.source, piece)) {
            let text = &entry.encoding.chain;
            let chain = match search.chain.take() {
                Some((known, chain)) if known == *text => chain,
                _ => Chain::parse(text).ok(),
            };
            let found = match &chain {
                Some(chain) => {
                    let (place, ndim) = ((entry.source, entry.step, piece), usize::from(entry.ndim));
                    let index = self.index(search.sources, place, (&work.part, ndim), chain, &trailer)?;
                    let mut found = SearchHits::default();
                    self.search_piece(&index, &search.keys, &mut found)?.map(|read| (found, read))
                }
                None => None,
            };
            search.chain = Some((text.clone(), chain));
            let Some((found, read)) = found else { return Ok(false) };
            search.hits.report.requests += read.requests;
            search.hits.report.read_bytes += read.read_bytes;
            search.last = Some(((entry.source, piece), found));
        }
        let item = self.item as usize;
        let Some((_, found)) = &search.last else { return Ok(false) };
        let ndim = usize::from(entry.ndim);
        let part = &work.part;
        for (position, value) in found.positions.iter().zip(found.values.chunks_exact(item)) {
            let mut rest = u64::from(*position);
            let mut cell = [0u64; drystone_format::MAX_NDIM];
            let mut shows = true;
            for d in (0..ndim).rev() {
                let edge = part.chunk_shape[d].max(1);
                let (first, _, count) = part.chunk[d];
                let inside = (rest % edge).wrapping_sub(first);
                shows &= inside < count;
                cell[d] = part.dest[d].wrapping_add(inside);
                rest /= edge;
            }
            if shows {
                search.hits.push(&cell[..ndim], value);
            }
        }
        Ok(true)
    }

    /// The cells of a zone whose values have keys in a range, by the index of its subchunk. `None` if there is no
    /// index, or if reading all values is as cheap. If the values are `wanted`, they are returned too, unless most
    /// cells are hits.
    pub(crate) fn search_zone(
        &self,
        zone: &IndexedZone,
        keys: &RangeInclusive<u64>,
        wanted: bool,
    ) -> Result<Option<(Searched, ReadReport)>> {
        self.with_index(zone, |index| {
            let len = index.stored.decoded_len / self.item.max(1) as usize;
            // If more than half of the elements match, the complement is shorter.
            let whole = index.whole(keys)?;
            let other = whole.count as usize > len / 2;
            let keys = match other {
                false => vec![keys.clone()],
                true => complement(keys, self.item),
            };
            let mut found = SearchHits { only_positions: other || !wanted, ..SearchHits::default() };
            let mut report = ReadReport::default();
            for keys in keys.iter().filter(|keys| !keys.is_empty()) {
                let Some(read) = self.search_piece(index, keys, &mut found)? else { return Ok(None) };
                report.requests += read.requests;
                report.read_bytes += read.read_bytes;
            }
            Ok(Some((zone.cells(&found, other, (self.variable.shape.len(), self.item as usize)), report)))
        })
    }

    /// The number of cells that [`search_zone`](Self::search_zone) would find, if the zone is a whole subchunk.
    pub(crate) fn count_zone(
        &self,
        zone: &IndexedZone,
        keys: &RangeInclusive<u64>,
    ) -> Result<Option<(u64, ReadReport)>> {
        if !zone.part.is_whole() {
            return Ok(None);
        }
        self.with_index(zone, |index| {
            let Whole { mut count, rest } = index.whole(keys)?;
            let mut report = ReadReport::default();
            for keys in rest.iter().filter(|keys| !keys.is_empty()) {
                let mut found = SearchHits { only_positions: true, ..SearchHits::default() };
                let Some(read) = self.search_piece(index, keys, &mut found)? else { return Ok(None) };
                report.requests += read.requests;
                report.read_bytes += read.read_bytes;
                count += found.positions.len() as u64;
            }
            Ok(Some((count, report)))
        })
    }

    /// Runs `act` with the index of a zone. `None` if there is no index.
    pub(super) fn with_index<T>(
        &self,
        zone: &IndexedZone,
        act: impl FnOnce(&Index<'_>) -> Result<Option<(T, ReadReport)>>,
    ) -> Result<Option<(T, ReadReport)>> {
        let acted = || {
            let sources = Sources::of(self);
            let trailers = trailers::for_plan(self, &sources, &[(zone.source, zone.piece)])?;
            let Some(trailer) = trailers.get(zone.source, &zone.piece) else { return Ok(None) };
            let Ok(chain) = Chain::parse(&zone.encoding.chain) else { return Ok(None) };
            let (place, ndim) = ((zone.source, zone.step, zone.piece), self.variable.shape.len());
            let index = self.index(&sources, place, (&zone.part, ndim), &chain, trailer)?;
            let index = Index { plain: zone.plain, ..index };
            Ok(act(&index)?.map(|(out, mut report)| {
                report.requests += trailers.requests;
                report.read_bytes += trailers.bytes;
                (out, report)
            }))
        };
        match acted() {
            // The index is stored beside the values, which can be read instead.
            Err(e) if zone.encoding.replica > 0 && is_of_index(&e) => {
                self.warn_of_index(&e);
                Ok(None)
            }
            other => other.map_err(|e| self.reason(e)),
        }
    }

    /// A stored piece that may have an index.
    fn index<'a>(
        &self,
        sources: &'a Sources<'a>,
        (source, step, piece): (u32, u64, StoredPiece),
        (part, ndim): (&SubchunkPart, usize),
        chain: &'a Chain,
        trailer: &'a Trailer,
    ) -> Result<Index<'a>> {
        let leaf = &self.leaves[0].leaf;
        let len = decoded_len(part, u64::from(leaf.size));
        if len > MAX_DECODED_LEN as u64 {
            let what = "a subchunk claims more than 16 MiB";
            return Err(self.damaged(sources, source, step, piece.position, what));
        }
        let logical = logical(leaf, &part.chunk_shape[..ndim]);
        let stored = StoredSubchunk { len: piece.length, meta: &trailer.meta, decoded_len: len as usize };
        let damage = self.damaged(sources, source, step, piece.position, "searching");
        Ok(Index { plain: None, sources, source, step, piece, chain, trailer, logical, stored, damage })
    }

    /// Reads and searches the bins of a piece. `None` if it has no index, or if reading all of it is as cheap.
    fn search_piece(
        &self,
        index: &Index<'_>,
        keys: &RangeInclusive<u64>,
        found: &mut SearchHits,
    ) -> Result<Option<ReadReport>> {
        let Index { sources, source, step, piece, chain, logical, stored, .. } = index;
        let damaged = |at: u64, what: &str| self.damaged(sources, *source, *step, at, what);
        let planned = chain.plan_search(stored, logical, keys).map_err(|e| index.undecodable(&e))?;
        let Some(planned) = planned else { return Ok(None) };
        if planned.iter().any(|range| range.end > piece.length || range.start > range.end) {
            return Err(damaged(piece.position, "an index that leaves its subchunk"));
        }
        let unit = piece.unit();
        let ranges = at_units(&planned, unit, piece.length, OPTIONS.gap);
        // If the values are also stored without the index, those are read when many are wanted.
        let (bytes, len) =
            (ranges.iter().map(|range| range.end - range.start).sum::<u64>(), stored.decoded_len as u64);
        let plain = index.plain.or((piece.length > len.saturating_add(len / 2)).then_some(len));
        if plain.is_some_and(|plain| bytes.saturating_mul(2) > plain) {
            return Ok(None);
        }
        let mut buffers = Vec::with_capacity(ranges.len());
        let mut report = ReadReport::default();
        for range in &ranges {
            buffers.extend(self.fetch_of(index, range, &mut report)?);
        }
        let fetched = Fetched::new(buffers.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect());
        chain.search(stored, &fetched, logical, keys, found).map_err(|e| index.undecodable(&e))?;
        Ok(Some(report))
    }

    /// Finds cells of a box by reading all of it.
    fn scan(
        &self,
        search: &mut Search<'_>,
        step: u64,
        (first, count): (&[u64], &[u64]),
        kind: drystone_transform::stats::ScalarKind,
    ) -> Result<()> {
        let ndim = first.len();
        let mut selection = Selection::boxed(first, count);
        if self.variable.steps {
            selection.axes.insert(0, Axis { start: step, step: 1, count: 1 });
        }
        let item = self.item as usize;
        let bytes = count.iter().fold(item as u64, |bytes, n| bytes.saturating_mul(*n));
        if bytes > MAX_DECODED_LEN as u64 {
            let name = &self.path;
            return Err(Error::corrupt(format!(
                "a block of \"{name}\" claims a subchunk of more than 16 MiB"
            )));
        }
        let mut buffer = vec![0u8; bytes as usize];
        let report = {
            let target = Target::dense(&mut buffer, &selection.shape(), item)?;
            self.read(&selection, &target)?
        };
        search.hits.report.requests += report.requests;
        search.hits.report.read_bytes += report.read_bytes;
        let mut cell = first.to_vec();
        for value in buffer.chunks_exact(item) {
            if search.keys.contains(&key_of(kind, value)) {
                search.hits.push(&cell, value);
            }
            for d in (0..ndim).rev() {
                cell[d] += 1;
                if cell[d] < first[d] + count[d] {
                    break;
                }
                cell[d] = first[d];
            }
        }
        Ok(())
    }
}

impl Hits {
    fn push(&mut self, cell: &[u64], value: &[u8]) {
        self.coords.extend_from_slice(cell);
        self.values.extend_from_slice(value);
        self.count += 1;
    }

    fn sorted(mut self, ndim: usize, item: usize) -> Hits {
        let cell = |i: usize| self.coords.get(i * ndim..(i + 1) * ndim).unwrap_or_default();
        let mut order: Vec<usize> = (0..self.count).collect();
        order.sort_unstable_by(|&a, &b| cell(a).cmp(cell(b)));
        let coords = order.iter().flat_map(|&i| cell(i).iter().copied()).collect();
        let values =
            order.iter().flat_map(|&i| self.values[i * item..(i + 1) * item].iter().copied()).collect();
        (self.coords, self.values) = (coords, values);
        self.report.wanted_bytes = (self.count * item) as u64;
        self
    }
}
