//! Plans a query: tiles of the selection, with what statistics decide about each term. No I/O, and printable.
//!
//! A condition is a list of terms that must all hold. For each tile, a box of cells, a term holds for no cell (the
//! tile is left out), for all cells, or for some cells; only then are values read. Terms are listed in the order in
//! which they are tested.
//!
//! Invariants
//! - the tiles of a step are disjoint; cells outside all tiles are not hits;
//! - in a tile without open terms every cell is a hit.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;
use std::sync::Arc;

use drystone_expression::{Bounds, Extremes, Outcome, Program, Scalar, Truth, Type};
use drystone_format::MAX_NDIM;
use drystone_plan::selection::Selection;

use super::apart::Apart;
use super::keys;
use super::names::{Grid, Input, Origin};
use super::place::{Place, extents};
use super::site::TermSite;
use crate::Result;
use crate::read::{IndexedZone, Reading, StoredZone, Zone, Zones};

/// The most cells of a tile if parts of subchunks can be read separately. Its values stay in a processor's cache.
const SMALL: u64 = 1 << 18;
/// The most cells of other tiles.
const LARGE: u64 = 1 << 22;

/// One of the conditions that all must hold.
pub(super) struct Term {
    /// The term as the user wrote it.
    pub(super) text: String,
    pub(super) program: Program,
    /// Its names, as indices into the names of the query.
    pub(super) inputs: Vec<usize>,
    /// The keys of the values that satisfy it, if it concerns one variable and they form a range.
    pub(super) keys: Option<RangeInclusive<u64>>,
    /// The same term split into conditions on one variable each, if it can be split.
    pub(super) apart: Option<Arc<Apart>>,
}

/// A box of cells that may have hits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) lo: [u64; MAX_NDIM],
    pub(super) hi: [u64; MAX_NDIM],
    /// The terms that statistics leave open, in the order in which they are tested.
    pub(super) open: Vec<u16>,
}

impl Tile {
    pub(super) fn cells(&self) -> u64 {
        (0..MAX_NDIM).fold(1u64, |n, d| n.saturating_mul(self.hi[d].saturating_sub(self.lo[d])))
    }
}

/// The zones of one input at one step, searchable by position. They ascend by their first cells, along `axis` first.
#[derive(Default)]
pub(super) struct ZoneSet {
    zones: Vec<Zone>,
    indexed: Vec<IndexedZone>,
    axis: usize,
    longest: u64,
    pub(super) has_voids: bool,
    /// Whether a zone cannot be read in parts.
    pub(super) has_whole: bool,
    /// For a derived variable: the inputs from which its values are computed.
    pub(super) deep: Option<Arc<Deep>>,
    /// For a derived variable: whether these are statistics of its own stored values.
    is_own: bool,
}

impl ZoneSet {
    pub(super) fn new(found: Zones) -> ZoneSet {
        let Zones { all: mut zones, indexed } = found;
        let firsts = |axis: usize| {
            let mut all: Vec<u64> = zones.iter().map(|zone| zone.lo[axis]).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let axis = (0..MAX_NDIM).rev().max_by_key(|axis| firsts(*axis)).unwrap_or(0);
        zones.sort_unstable_by_key(|zone| (zone.lo[axis], zone.lo));
        let longest = zones.iter().map(|zone| zone.hi[axis] - zone.lo[axis]).max().unwrap_or(0);
        let has_voids = zones.iter().any(|zone| zone.stored.is_none());
        let has_whole = zones.iter().any(|zone| zone.stored.is_some_and(|stored| !stored.raw));
        ZoneSet { zones, indexed, axis, longest, has_voids, has_whole, deep: None, is_own: false }
    }

    /// The zones of a derived variable that is computed. `has_voids`: some cells may be unknown. `deep`: the inputs
    /// from which values are computed.
    pub(super) fn computed(self, has_voids: bool, deep: Option<Arc<Deep>>) -> ZoneSet {
        ZoneSet { has_voids, deep, ..self }
    }

    /// The zones of the stored values of a derived variable.
    pub(super) fn own(self) -> ZoneSet {
        ZoneSet { is_own: true, ..self }
    }

    pub(super) fn all(&self) -> &[Zone] {
        &self.zones
    }

    /// The zone that equals this box, if its subchunk has an index.
    pub(super) fn indexed(&self, lo: &[u64; MAX_NDIM], hi: &[u64; MAX_NDIM]) -> Option<&IndexedZone> {
        if self.indexed.is_empty() {
            return None;
        }
        let zone = self.meeting(lo, hi).next().filter(|zone| zone.lo == *lo && zone.hi == *hi)?;
        self.indexed.get(zone.stored?.index? as usize)
    }

    /// The zones that meet a box.
    pub(super) fn meeting<'a>(
        &'a self,
        lo: &'a [u64; MAX_NDIM],
        hi: &'a [u64; MAX_NDIM],
    ) -> impl Iterator<Item = &'a Zone> + 'a {
        let near = match self
            .zones
            .binary_search_by_key(&(lo[self.axis], *lo), |zone| (zone.lo[self.axis], zone.lo))
        {
            // Zones are disjoint: if a box lies in one zone, no other zone meets it.
            Ok(n) if (0..MAX_NDIM).all(|d| hi[d] <= self.zones[n].hi[d]) => &self.zones[n..n + 1],
            _ => {
                let from = lo[self.axis].saturating_sub(self.longest);
                let first = self.zones.partition_point(|zone| zone.lo[self.axis] < from);
                let end = self.zones.partition_point(|zone| zone.lo[self.axis] < hi[self.axis]);
                self.zones.get(first..end).unwrap_or_default()
            }
        };
        near.iter().filter(move |zone| (0..MAX_NDIM).all(|d| zone.lo[d] < hi[d] && lo[d] < zone.hi[d]))
    }
}

/// The knowledge before values are read: the zones of the names at one step.
pub(super) struct Known<'a> {
    pub(super) grid: &'a Grid,
    pub(super) inputs: &'a [Input],
    /// Zones by input. Empty for names that are not stored.
    pub(super) zones: &'a [Arc<ZoneSet>],
    /// The selected cells.
    pub(super) cells: &'a Selection,
    pub(super) step: u64,
}

/// A definition with the zones of its inputs, for a selection at a step.
pub(super) struct Deep {
    pub(super) program: Program,
    /// The inputs in the order of the program.
    pub(super) inputs: Vec<Input>,
    pub(super) zones: Vec<Arc<ZoneSet>>,
    pub(super) grid: Grid,
    pub(super) cells: Selection,
    pub(super) step: u64,
}

impl Deep {
    pub(super) fn known(&self) -> Known<'_> {
        Known {
            grid: &self.grid,
            inputs: &self.inputs,
            zones: &self.zones,
            cells: &self.cells,
            step: self.step,
        }
    }

    /// The bounds of the values in a box.
    fn bounds(&self, lo: &[u64; MAX_NDIM], hi: &[u64; MAX_NDIM]) -> Bounds {
        let known = self.known();
        let of: Vec<Bounds> = (0..self.inputs.len()).map(|number| known.bounds(number, lo, hi)).collect();
        // One cell may be NaN or unknown. With fewer than three cells, statistics would say that no cell is a number.
        let cells = (0..MAX_NDIM).fold(1u64, |n, d| n.saturating_mul(hi[d].saturating_sub(lo[d]))).max(3);
        match self.program.bounds(&of) {
            Outcome::Values { extremes, nan, unknown } => {
                Bounds { extremes, nans: nan.into(), unwritten: unknown.into(), cells }
            }
            Outcome::Condition(_) => {
                Bounds { extremes: Extremes::Unknown, nans: 0, unwritten: u64::from(self.is_unsure()), cells }
            }
        }
    }

    fn is_unsure(&self) -> bool {
        self.zones.iter().any(|set| set.has_voids)
    }
}

impl Known<'_> {
    /// The box of an input for a box of the grid.
    pub(super) fn own(
        &self,
        input: usize,
        lo: &[u64; MAX_NDIM],
        hi: &[u64; MAX_NDIM],
    ) -> ([u64; MAX_NDIM], [u64; MAX_NDIM]) {
        let (mut own_lo, mut own_hi) = ([0; MAX_NDIM], [1; MAX_NDIM]);
        for (d, axis) in self.inputs[input].axes.iter().enumerate() {
            (own_lo[d], own_hi[d]) = (lo[*axis], hi[*axis]);
        }
        (own_lo, own_hi)
    }

    /// The statistics of an input in a box.
    pub(super) fn bounds(&self, number: usize, lo: &[u64; MAX_NDIM], hi: &[u64; MAX_NDIM]) -> Bounds {
        let input = &self.inputs[number];
        let counted = |least: u64, greatest: u64| {
            let extremes = Extremes::Within(Scalar::Integer(least.into()), Scalar::Integer(greatest.into()));
            Bounds { extremes, nans: 0, unwritten: 0, cells: 1 }
        };
        match (&input.origin, input.axes.first()) {
            (Origin::Step, _) => return counted(self.step, self.step),
            (Origin::Place, Some(&axis)) => {
                let along = &self.cells.axes[axis];
                let ends = (along.cell(lo[axis]), along.cell(hi[axis].saturating_sub(1)));
                return counted(ends.0.min(ends.1), ends.0.max(ends.1));
            }
            _ => {}
        }
        let (lo, hi) = self.own(number, lo, hi);
        if let Some(deep) = &self.zones[number].deep {
            return deep.bounds(&lo, &hi);
        }
        if input.reading().is_some_and(Reading::is_derived) && !self.zones[number].is_own {
            return Bounds::unknown(2);
        }
        let mut sum = Bounds { extremes: Extremes::Empty, nans: 0, unwritten: 0, cells: 0 };
        for zone in self.zones[number].meeting(&lo, &hi) {
            let one = of_zone(zone, input.dtype);
            sum.extremes = hull(sum.extremes, one.extremes);
            sum.nans = sum.nans.saturating_add(one.nans);
            sum.unwritten = sum.unwritten.saturating_add(one.unwritten);
            sum.cells = sum.cells.saturating_add(one.cells);
        }
        sum
    }

    /// The boxes that the tiles follow: the zones of the input with the grid's dimensions that has the most zones. And
    /// whether parts of a box can be read separately.
    pub(super) fn boxes(&self) -> Vec<(Place, Place, bool)> {
        let straight = (0..self.inputs.len()).filter(|n| self.inputs[*n].is_straight(self.grid));
        match straight.max_by_key(|n| self.zones[*n].all().len()) {
            Some(first) => {
                let zones = self.zones[first].all().iter();
                zones.map(|zone| (zone.lo, zone.hi, zone.stored.is_none_or(|stored| stored.raw))).collect()
            }
            None => {
                let mut hi = [1; MAX_NDIM];
                self.cells.axes.iter().zip(&mut hi).for_each(|(axis, hi)| *hi = axis.count);
                vec![([0; MAX_NDIM], hi, true)]
            }
        }
    }

    /// Whether a term holds for no cell, for all cells, or for some cells of a box.
    pub(super) fn truth(&self, term: &Term, lo: &[u64; MAX_NDIM], hi: &[u64; MAX_NDIM]) -> Truth {
        let bounds: Vec<Bounds> = term.inputs.iter().map(|input| self.bounds(*input, lo, hi)).collect();
        match term.program.bounds(&bounds) {
            Outcome::Condition(truth) => truth,
            Outcome::Values { .. } => Truth::Some,
        }
    }
}

/// The statistics of a zone in the terms of expressions.
fn of_zone(zone: &Zone, dtype: Type) -> Bounds {
    let Some(StoredZone { stats, cells, .. }) = zone.stored else {
        let cells = zone.cells();
        return Bounds { extremes: Extremes::Empty, nans: 0, unwritten: cells, cells };
    };
    let scalar = |bits: u64| match dtype {
        Type::Bool => Scalar::Bool(bits != 0),
        Type::F4 | Type::F8 => Scalar::Float(f64::from_bits(bits)),
        dtype if dtype.is_signed() => Scalar::Integer((bits as i64).into()),
        _ => Scalar::Integer(bits.into()),
    };
    let extremes = match stats.min_max {
        Some((min, max)) => Extremes::Within(scalar(min), scalar(max)),
        None if dtype.is_float() && stats.nans >= cells => Extremes::Empty,
        None => Extremes::Unknown,
    };
    Bounds { extremes, nans: stats.nans, unwritten: 0, cells }
}

/// The smallest range that contains both ranges.
fn hull(a: Extremes, b: Extremes) -> Extremes {
    let least = |x: Scalar, y: Scalar| if compares_below(y, x) { y } else { x };
    let greatest = |x: Scalar, y: Scalar| if compares_below(x, y) { y } else { x };
    match (a, b) {
        (Extremes::Unknown, _) | (_, Extremes::Unknown) => Extremes::Unknown,
        (Extremes::Empty, other) | (other, Extremes::Empty) => other,
        (Extremes::Within(a, b), Extremes::Within(c, d)) => Extremes::Within(least(a, c), greatest(b, d)),
    }
}

fn compares_below(x: Scalar, y: Scalar) -> bool {
    match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) => x < y,
        (Scalar::Integer(x), Scalar::Integer(y)) => x < y,
        (Scalar::Bool(x), Scalar::Bool(y)) => !x & y,
        _ => false,
    }
}

/// The plan of one step of a query.
#[derive(Debug, Default)]
pub(super) struct StepPlan {
    pub(super) tiles: Vec<Tile>,
    pub(super) sum: Summary,
}

/// The numbers of cells that statistics decided, and the cost of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Selected cells.
    pub cells: u64,
    /// Number of cells in tiles without hits (`none`), in tiles of hits only (`all`), and in other tiles (`some`).
    pub none: u64,
    #[allow(missing_docs)]
    pub all: u64,
    #[allow(missing_docs)]
    pub some: u64,
    /// For each term, in the order of testing at most steps.
    pub terms: Vec<TermSummary>,
    /// In a plan, the most bytes that are read, with checksums and tables. In a report, the stored bytes of the
    /// subchunks that statistics leave open.
    pub bytes: u64,
    /// The most subchunks that are read.
    pub requests: u64,
}

/// What statistics decide about one term.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TermSummary {
    /// The term.
    pub text: String,
    /// Number of tiles in which no cell (`none`), every cell (`all`), or an unknown number of cells (`some`)
    /// satisfies it.
    pub none: u64,
    #[allow(missing_docs)]
    pub all: u64,
    #[allow(missing_docs)]
    pub some: u64,
    /// The bytes, as in [`Summary::bytes`], that it needs in tiles that no term excludes.
    pub bytes: u64,
    /// The number of subchunks that hold these bytes.
    pub requests: u64,
    /// The number of open tiles in which an index of values can answer it.
    pub indexed: u64,
    /// On a far store: where the term is tested. `None` on other stores, and in reports.
    pub site: Option<TermSite>,
}

impl StepPlan {
    /// Plans one step.
    pub(super) fn new(terms: &[Term], known: &Known<'_>) -> StepPlan {
        let mut plan = StepPlan { sum: Summary::of(terms), ..StepPlan::default() };
        plan.sum.cells = known.cells.cells().unwrap_or(u64::MAX);
        if known.cells.is_empty() {
            return plan;
        }
        let mut open = Vec::with_capacity(terms.len());
        for (lo, hi, raw) in known.boxes() {
            open.clear();
            let mut none = false;
            for (number, term) in terms.iter().enumerate() {
                let sum = &mut plan.sum.terms[number];
                match known.truth(term, &lo, &hi) {
                    Truth::None => {
                        sum.none += 1;
                        none = true;
                    }
                    Truth::All => sum.all += 1,
                    Truth::Some => {
                        sum.some += 1;
                        open.push(number as u16);
                    }
                }
            }
            let cells = (0..MAX_NDIM).fold(1u64, |n, d| n.saturating_mul(hi[d] - lo[d]));
            match (none, open.is_empty()) {
                (true, _) => plan.sum.none += cells,
                (false, true) => plan.sum.all += cells,
                (false, false) => plan.sum.some += cells,
            }
            if none {
                continue;
            }
            let tile = Tile { lo, hi, open: open.clone() };
            let most = if open.is_empty() {
                u64::MAX
            } else if raw {
                SMALL
            } else {
                LARGE
            };
            split(tile, most, &mut plan.tiles);
        }
        plan.order(terms, known);
        plan.tiles.sort_by_key(|tile| tile.lo);
        let has_index = known.zones.iter().any(|zones| !zones.indexed.is_empty());
        // Rows of tiles, then planes of rows: a box is read in few runs, in whatever order its subchunks are stored.
        let passes = if has_index { 0 } else { known.grid.shape.len().max(1) };
        for _ in 0..passes {
            plan.tiles = merged(std::mem::take(&mut plan.tiles));
        }
        plan
    }

    /// Orders the open terms of each tile: first those that decide most for the fewest bytes.
    fn order(&mut self, terms: &[Term], known: &Known<'_>) {
        if let [only] = self.sum.terms.as_mut_slice() {
            (only.bytes, only.requests) = (0, 0);
        }
        let mut seen = vec![std::collections::HashSet::new(); known.inputs.len()];
        let mut counted = Vec::new();
        // What the indexes of values are expected to save.
        let mut expected = vec![Expected::default(); terms.len()];
        for tile in self.tiles.iter().filter(|tile| !tile.open.is_empty()) {
            for &number in &tile.open {
                let (term, expected) = (&terms[usize::from(number)], &mut expected[usize::from(number)]);
                for &input in &term.inputs {
                    let (lo, hi) = known.own(input, &tile.lo, &tile.hi);
                    let share = known.indexed_share(term, input, tile);
                    if let Some(share) = share {
                        self.sum.terms[usize::from(number)].indexed += 1;
                        expected.hits += share;
                        expected.tiles += 1.0;
                    }
                    for zone in known.zones[input].meeting(&lo, &hi) {
                        let Some(stored) = zone.stored else { continue };
                        expected.saved += stored.bytes as f64 * (1.0 - share.unwrap_or(1.0));
                        if seen[input].insert(zone.lo) {
                            counted.push((input, stored.bytes));
                        }
                    }
                }
            }
        }
        for (input, bytes) in counted {
            self.sum.bytes = self.sum.bytes.saturating_add(bytes);
            self.sum.requests += 1;
            for (sum, term) in self.sum.terms.iter_mut().zip(terms) {
                if term.inputs.contains(&input) {
                    sum.bytes = sum.bytes.saturating_add(bytes);
                    sum.requests += 1;
                }
            }
        }
        let rank = |number: &u16| {
            let sum = &self.sum.terms[usize::from(*number)];
            let expected = &expected[usize::from(*number)];
            let tiles = (sum.none + sum.all + sum.some).max(1) as f64;
            let kept = ((sum.all + sum.some) as f64 - expected.tiles + expected.hits) / tiles;
            (sum.bytes as f64 - expected.saved).max(1.0) / (1.0 - kept).max(1e-3)
        };
        for tile in &mut self.tiles {
            tile.open.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        }
    }

    /// Replaces the bytes of values by those that reads of the open tiles take.
    pub(super) fn count_bytes(&mut self, terms: &[Term], known: &Known<'_>) -> Result<()> {
        self.sum.bytes = 0;
        self.sum.terms.iter_mut().for_each(|term| term.bytes = 0);
        for tile in &self.tiles {
            let of = |number: &u16| &terms[usize::from(*number)].inputs;
            for (input, one) in known.inputs.iter().enumerate() {
                let Some(reading) = one.reading() else { continue };
                if !tile.open.iter().any(|number| of(number).contains(&input)) {
                    continue;
                }
                let (lo, hi) = known.own(input, &tile.lo, &tile.hi);
                let shape = extents(&lo, &hi, one.axes.len());
                let bytes = reading.planned_bytes(&known.selected(input, &lo, &shape))?;
                self.sum.bytes = self.sum.bytes.saturating_add(bytes);
                for number in tile.open.iter().filter(|number| of(number).contains(&input)) {
                    let sum = &mut self.sum.terms[usize::from(*number)];
                    sum.bytes = sum.bytes.saturating_add(bytes);
                }
            }
        }
        Ok(())
    }
}

/// What the index of a term's variable is expected to save.
#[derive(Clone, Default)]
struct Expected {
    /// Bytes of bins that the term does not read.
    saved: f64,
    /// The number of tiles in which an index is used, and the sum of the shares of their cells that are hits.
    tiles: f64,
    hits: f64,
}

impl Known<'_> {
    /// The expected share of a tile's bins that a term reads, if an index of values can answer it.
    pub(super) fn indexed_share(&self, term: &Term, number: usize, tile: &Tile) -> Option<f64> {
        let (keys, [_]) = (term.keys.as_ref()?, term.inputs.as_slice()) else { return None };
        let (input, zones) = (&self.inputs[number], &self.zones[number]);
        zones.indexed(&tile.lo, &tile.hi).filter(|_| input.is_straight(self.grid))?;
        let stored = zones.meeting(&tile.lo, &tile.hi).next()?.stored?;
        Some(keys::share(keys, input.dtype, stored.stats.min_max))
    }
}

impl Summary {
    /// The summary of no step.
    pub(super) fn of(terms: &[Term]) -> Summary {
        let of = |term: &Term| TermSummary { text: term.text.clone(), ..TermSummary::default() };
        Summary { terms: terms.iter().map(of).collect(), ..Summary::default() }
    }

    /// Adds the summary of another step.
    pub(super) fn add(&mut self, other: &Summary) {
        self.cells = self.cells.saturating_add(other.cells);
        self.none += other.none;
        self.all += other.all;
        self.some += other.some;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.requests += other.requests;
        for (sum, one) in self.terms.iter_mut().zip(&other.terms) {
            sum.none += one.none;
            sum.all += one.all;
            sum.some += one.some;
            sum.bytes = sum.bytes.saturating_add(one.bytes);
            sum.requests += one.requests;
            sum.indexed += one.indexed;
            if let Some(site) = &one.site {
                sum.site.get_or_insert_default().add(site);
            }
        }
    }
}

/// Joins neighbouring tiles with the same open terms, since one read of many small subchunks is cheaper than many
/// reads.
fn merged(tiles: Vec<Tile>) -> Vec<Tile> {
    let mut out: Vec<Tile> = Vec::with_capacity(tiles.len());
    for tile in tiles {
        if let Some(last) = out.last_mut().filter(|last| !last.open.is_empty() && last.open == tile.open) {
            let apart: Vec<usize> =
                (0..MAX_NDIM).filter(|d| (last.lo[*d], last.hi[*d]) != (tile.lo[*d], tile.hi[*d])).collect();
            if let [d] = apart[..]
                && last.hi[d] == tile.lo[d]
                && last.cells().saturating_add(tile.cells()) <= SMALL
            {
                last.hi[d] = tile.hi[d];
                continue;
            }
        }
        out.push(tile);
    }
    out
}

/// Splits a tile into tiles of at most `most` cells, along its slowest axes.
fn split(tile: Tile, most: u64, out: &mut Vec<Tile>) {
    let cells = tile.cells();
    let longest = (0..MAX_NDIM).find(|d| tile.hi[*d] - tile.lo[*d] > 1);
    let (true, Some(d)) = (cells > most, longest) else {
        out.push(tile);
        return;
    };
    let row = cells / (tile.hi[d] - tile.lo[d]);
    let rows = (most / row.max(1)).max(1);
    let mut lo = tile.lo[d];
    while lo < tile.hi[d] {
        let mut part = tile.clone();
        part.lo[d] = lo;
        part.hi[d] = tile.hi[d].min(lo.saturating_add(rows));
        lo = part.hi[d];
        split(part, most, out);
    }
}

/// The plan of a query, for display and for programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryPlan {
    /// The condition.
    pub text: String,
    /// The sum over all selected steps.
    pub summary: Summary,
    /// The number of steps.
    pub steps: u64,
}

impl Display for QueryPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Summary { cells, none, all, some, terms, bytes, requests } = &self.summary;
        writeln!(f, "{}", self.text)?;
        writeln!(
            f,
            "  {cells} cells: {none} excluded and {all} included by statistics, {some} to be tested"
        )?;
        for term in terms {
            let TermSummary { text, none, all, some, bytes, indexed, site, .. } = term;
            write!(f, "  {text}: {none} tiles none, {all} all, {some} some; at most {bytes} bytes")?;
            match indexed {
                0 => writeln!(f)?,
                tiles => writeln!(f, "; index of values in {tiles} tiles")?,
            }
            if let Some(site) = site {
                writeln!(f, "    {site}")?;
            }
        }
        write!(f, "  at most {bytes} bytes in {requests} subchunks")
    }
}
