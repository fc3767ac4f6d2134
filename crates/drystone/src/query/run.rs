//! Finds the hits of one step: reads the values of open tiles on several threads, and evaluates the terms in order.
//!
//! If the earlier terms left only a few cells of a tile, a term reads only those cells, together with those of other
//! tiles. The values of a tile stay in memory only until its last term.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use drystone_expression::{Extremes, Outcome as Bounded, Program, Scalar, Scratch, Truth};
use drystone_transform::Companion;

use super::bits;
use super::hits::{Begun, Cells, Picked, TileHits};
use super::inputs::Loaded;
use super::place::{Place, extents, place};
use super::plan::{Known, Term, Tile};
use crate::base::sync::lock;
use crate::read::{ReadReport, SortedWith, ZoneCells};
use crate::{Error, Result};

/// If fewer than one in this many cells is left, further terms read single cells.
pub(super) const SPARSE: u64 = 128;
/// The number of scattered cells that are read and evaluated together.
pub(super) const LISTED: usize = 8192;

/// The cost of a query so far.
#[derive(Debug, Default)]
pub(super) struct Costs {
    pub(super) bytes: AtomicU64,
    pub(super) requests: AtomicU64,
    /// Programs among the requests.
    pub(super) programs: AtomicU64,
    /// For each term: the number of cells on which it was tested, and of those that satisfied it.
    pub(super) tried: Vec<(AtomicU64, AtomicU64)>,
}

impl Costs {
    pub(super) fn new(terms: usize) -> Costs {
        Costs { tried: (0..terms).map(|_| Default::default()).collect(), ..Default::default() }
    }

    pub(super) fn add(&self, report: &ReadReport) {
        self.bytes.fetch_add(report.read_bytes, Ordering::Relaxed);
        self.requests.fetch_add(report.requests, Ordering::Relaxed);
    }

    /// Counts programs that tested conditions at the store.
    pub(super) fn there(&self, report: &ReadReport) {
        self.programs.fetch_add(report.requests, Ordering::Relaxed);
    }

    pub(super) fn tried(&self, term: usize, cells: u64, kept: u64) {
        if let Some((tried, left)) = self.tried.get(term) {
            tried.fetch_add(cells, Ordering::Relaxed);
            left.fetch_add(kept, Ordering::Relaxed);
        }
    }
}

/// The memory of one thread, reused from tile to tile.
struct Worker {
    scratch: Vec<Option<Scratch>>,
    loaded: Vec<(Loaded, bool)>,
    hits: Vec<u64>,
}

/// The few cells of a tile that are left for further terms.
struct Deferred {
    tile: usize,
    /// The number of the next open term of the tile.
    next: usize,
    cells: Vec<u32>,
}

/// Evaluates the terms of one step.
pub(super) struct Run<'a> {
    pub(super) known: Known<'a>,
    pub(super) terms: &'a [Term],
    pub(super) costs: &'a Costs,
    /// Whether only the number of hits is wanted.
    pub(super) only_count: bool,
    /// For each column returned with the hits, the input that equals it, if there is one.
    pub(super) keep: &'a [Option<usize>],
    /// The columns, if any are returned with the hits.
    pub(super) columns: Option<Known<'a>>,
}

impl Run<'_> {
    /// The hits in these tiles, in the order of the tiles. Tiles without hits are left out.
    pub(super) fn hits(&self, tiles: &[Tile]) -> Result<Vec<TileHits>> {
        let begun: Vec<Mutex<Begun>> = self.there(tiles)?.into_iter().map(Mutex::new).collect();
        let first = share(
            self.known.at_once(),
            tiles.len(),
            || self.worker(),
            |worker, n| self.tile(worker, n, &tiles[n], std::mem::take(&mut *lock(&begun[n]))),
        )?;
        let mut found: Vec<Option<TileHits>> = Vec::with_capacity(tiles.len());
        let mut deferred = Vec::new();
        for one in first {
            match one {
                Outcome::Hits(hits) => found.push(hits),
                Outcome::Left(left) => {
                    found.push(None);
                    deferred.push(left);
                }
            }
        }
        self.deferred(tiles, deferred, &mut found)?;
        Ok(found.into_iter().flatten().collect())
    }

    fn worker(&self) -> Worker {
        let loaded = self.known.inputs.iter().map(|input| (Loaded::new(input.dtype), false)).collect();
        Worker { scratch: self.terms.iter().map(|_| None).collect(), loaded, hits: Vec::new() }
    }

    /// Tests the open terms of a tile.
    fn tile(&self, worker: &mut Worker, number: usize, tile: &Tile, begun: Begun) -> Result<Outcome> {
        let with = |cells| TileHits { lo: tile.lo, hi: tile.hi, cells, picked: Vec::new() };
        if tile.open.is_empty() {
            return Ok(Outcome::Hits(Some(with(Cells::All))));
        }
        let cells = tile.cells() as usize;
        let Begun { next: first, mut alive, counted, picked, .. } = begun;
        if let Some(count) = counted {
            return Ok(Outcome::Hits((count > 0).then(|| with(Cells::Counted(count)))));
        }
        if alive.as_ref().is_some_and(|(_, count)| *count == 0) {
            return Ok(Outcome::Hits(None));
        }
        worker.loaded.iter_mut().for_each(|(_, is_here)| *is_here = false);
        for (next, &number_of_term) in tile.open.iter().enumerate().skip(first) {
            let term_number = usize::from(number_of_term);
            let term = &self.terms[term_number];
            let is_here = term.inputs.iter().all(|input| worker.loaded[*input].1);
            let is_sparse = alive.as_ref().is_some_and(|(_, count)| *count * SPARSE < cells as u64);
            if !is_here
                && (!is_sparse || self.is_read_whole(term, tile))
                && let Some((found, picked)) = self.search(term, tile)?
            {
                let mut hits = with(found);
                let count = hits.count();
                let before = alive.as_ref().map_or(cells as u64, |(_, count)| *count);
                if alive.is_none() && next + 1 == tile.open.len() {
                    self.costs.tried(term_number, before, count);
                    hits.picked = picked;
                    return Ok(Outcome::Hits((count > 0).then_some(hits)));
                }
                let mut set = match hits.cells {
                    Cells::Bits(set, _) => set,
                    Cells::Few(few) => {
                        let mut set = vec![0; bits::words(cells)];
                        few.iter().for_each(|cell| set[*cell as usize / 64] |= 1 << (cell % 64));
                        set
                    }
                    // A number of cells suffices only if no other term is open.
                    Cells::All | Cells::Counted(_) => vec![u64::MAX; bits::words(cells)],
                };
                let mut count = count;
                if let Some((others, _)) = &alive {
                    set.iter_mut().zip(others).for_each(|(a, b)| *a &= b);
                    count = bits::count(&set);
                }
                self.costs.tried(term_number, before, count);
                if count == 0 {
                    return Ok(Outcome::Hits(None));
                }
                alive = Some((set, count));
                continue;
            }
            if let Some((set, _)) = alive.as_ref().filter(|_| is_sparse && !is_here) {
                let cells = bits::each(set).map(|cell| cell as u32).collect();
                return Ok(Outcome::Left(Deferred { tile: number, next, cells }));
            }
            for &input in &term.inputs {
                let (loaded, is_here) = &mut worker.loaded[input];
                if *is_here {
                    continue;
                }
                loaded.written = None;
                let alike =
                    self.alike(term, input, tile).is_some_and(|value| loaded.values.fill(value, cells));
                if !alike {
                    let report = self.known.load(input, &tile.lo, &tile.hi, loaded)?;
                    self.costs.add(&report);
                    *is_here = true;
                }
            }
            let scratch = worker.scratch[term_number].get_or_insert_with(|| Scratch::new(&term.program));
            let given: Vec<_> = term.inputs.iter().map(|input| worker.loaded[*input].0.given()).collect();
            worker.hits.resize(bits::words(cells), 0);
            let selected = term.program.select(&given, cells, scratch, &mut worker.hits);
            let mut count = selected.map_err(|error| Error::invalid(error.to_string()))?;
            let before = alive.as_ref().map_or(cells as u64, |(_, count)| *count);
            match &mut alive {
                None => alive = Some((worker.hits.clone(), count)),
                Some((set, left)) => {
                    set.iter_mut().zip(&worker.hits).for_each(|(a, b)| *a &= b);
                    count = bits::count(set);
                    *left = count;
                }
            }
            self.costs.tried(term_number, before, count);
            if count == 0 {
                return Ok(Outcome::Hits(None));
            }
        }
        let cells = match alive {
            None => Cells::All,
            Some((_, count)) if count == cells as u64 => Cells::All,
            Some((set, count)) if count * SPARSE < cells as u64 => {
                Cells::Few(bits::each(&set).map(|cell| cell as u32).collect())
            }
            Some((set, count)) => Cells::Bits(set, count),
        };
        let mut hits = with(cells);
        if first == tile.open.len() {
            hits.picked = picked;
            return Ok(Outcome::Hits(Some(hits)));
        }
        let here = |input: &Option<usize>| {
            let (loaded, is_here) = &worker.loaded[(*input)?];
            // Unwritten cells in this memory do not hold the fill value, so it is used only if all were written.
            (*is_here && loaded.written.is_none()).then(|| loaded.pick(&hits))
        };
        hits.picked = self.keep.iter().map(here).collect();
        Ok(Outcome::Hits(Some(hits)))
    }

    /// If statistics decide every condition of a term on an input, for all cells of a tile: one of its values there.
    /// All others satisfy the same conditions, so they need not be read.
    fn alike(&self, term: &Term, input: usize, tile: &Tile) -> Option<Scalar> {
        let apart = term.apart.as_deref()?;
        let bounds = self.known.bounds(input, &tile.lo, &tile.hi);
        let Extremes::Within(least, _) = bounds.extremes else { return None };
        let decides = |program: &Program| {
            matches!(program.bounds(&[bounds]), Bounded::Condition(Truth::None | Truth::All))
        };
        let own = || apart.parts.iter().zip(&apart.programs).filter(|((of, _), _)| *of == input);
        let is_split = self.known.inputs[input].reading().is_some() && own().next().is_some();
        let is_decided = bounds.unwritten == 0 && own().all(|(_, program)| decides(program));
        (is_split && is_decided).then_some(least)
    }

    /// Whether single cells cost as much as the whole tile, so that the index of the tile's subchunk is used even for
    /// few cells.
    fn is_read_whole(&self, term: &Term, tile: &Tile) -> bool {
        let (Some(_), [input]) = (&term.keys, term.inputs.as_slice()) else { return false };
        let zone = self.known.zones[*input].indexed(&tile.lo, &tile.hi);
        self.known.inputs[*input].is_straight(self.known.grid) && zone.is_some_and(|zone| !zone.is_beside())
    }

    /// The cells of a tile that satisfy a term, by the index of the tile's subchunk, with the values of requested
    /// columns at these cells that are in memory. `None` if there is no index.
    fn search(&self, term: &Term, tile: &Tile) -> Result<Option<(Cells, Vec<Option<Picked>>)>> {
        let (Some(keys), [input]) = (&term.keys, term.inputs.as_slice()) else { return Ok(None) };
        let one = &self.known.inputs[*input];
        let Some(reading) = one.reading().filter(|_| one.is_straight(self.known.grid)) else {
            return Ok(None);
        };
        let Some(zone) = self.known.zones[*input].indexed(&tile.lo, &tile.hi) else { return Ok(None) };
        if self.only_count
            && tile.open.len() == 1
            && let Some((count, report)) = reading.count_zone(zone, keys)?
        {
            self.costs.add(&report);
            return Ok(Some((Cells::Counted(count), Vec::new())));
        }
        let picked = |values: &Vec<u8>| Picked { values: values.clone(), written: None };
        let is_key = |column: &Option<usize>| *column == Some(*input);
        let is_last = tile.open.len() == 1;
        let others: Vec<Option<Companion>> = match is_last {
            true => (0..self.keep.len()).map(|column| self.companion(column, tile)).collect(),
            false => Vec::new(),
        };
        if let Some((((cells, values), others), report)) = reading.search_sorted(zone, keys, &others)? {
            self.costs.add(&report);
            let own = |(column, other): (&Option<usize>, Option<Vec<u8>>)| match is_key(column) {
                true => values.as_ref().map(picked),
                false => other.map(|values| Picked { values, written: None }),
            };
            let picked = self.keep.iter().zip(others).map(own).collect();
            return Ok(Some((of_zone(cells), picked)));
        }
        let wanted = is_last && self.keep.iter().any(is_key);
        let Some(((cells, values), report)) = reading.search_zone(zone, keys, wanted)? else {
            return Ok(None);
        };
        self.costs.add(&report);
        let here = |column: &Option<usize>| values.as_ref().filter(|_| is_key(column)).map(picked);
        Ok(Some((of_zone(cells), self.keep.iter().map(here).collect())))
    }

    /// The name under which a column's values in a tile are stored sorted, if one block contains them all.
    fn companion(&self, number: usize, tile: &Tile) -> Option<Companion> {
        let known = self.columns.as_ref()?;
        let (input, zones) = (known.inputs.get(number)?, known.zones.get(number)?);
        let reading = input.reading().filter(|reading| !reading.is_derived())?;
        let member = reading.leaf_number().filter(|_| input.is_straight(known.grid))?;
        let mut ages = zones.meeting(&tile.lo, &tile.hi).map(|zone| zone.stored.map(|stored| stored.age));
        let age = ages.next()??;
        let one = SortedWith { variable: reading.variable().id, member, age };
        ages.all(|other| other == Some(age)).then(|| one.companion(reading.item()))
    }

    /// Tests the remaining terms on few cells each.
    fn deferred(
        &self,
        tiles: &[Tile],
        mut waiting: Vec<Deferred>,
        found: &mut [Option<TileHits>],
    ) -> Result<()> {
        while let Some(term) = waiting.iter().map(|one| tiles[one.tile].open[one.next]).min() {
            let (mut now, rest): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|one| tiles[one.tile].open[one.next] == term);
            waiting = rest;
            let mut groups = Vec::new();
            let (mut from, mut many) = (0, 0);
            for (n, one) in now.iter().enumerate() {
                many += one.cells.len();
                if many >= LISTED || n + 1 == now.len() {
                    groups.push(from..n + 1);
                    (from, many) = (n + 1, 0);
                }
            }
            let term = usize::from(term);
            let kept = share(
                self.known.at_once(),
                groups.len(),
                || self.worker(),
                |worker, n| self.listed(worker, term, tiles, &now[groups[n].clone()]),
            )?;
            for (one, cells) in now.iter_mut().zip(kept.into_iter().flatten()) {
                one.cells = cells;
                one.next += 1;
            }
            for one in now.into_iter().filter(|one| !one.cells.is_empty()) {
                let tile = &tiles[one.tile];
                if one.next < tile.open.len() {
                    waiting.push(one);
                } else {
                    let cells = Cells::Few(one.cells);
                    found[one.tile] = Some(TileHits { lo: tile.lo, hi: tile.hi, cells, picked: Vec::new() });
                }
            }
        }
        Ok(())
    }

    /// The cells of several tiles that satisfy a term.
    fn listed(
        &self,
        worker: &mut Worker,
        number: usize,
        tiles: &[Tile],
        group: &[Deferred],
    ) -> Result<Vec<Vec<u32>>> {
        let term = &self.terms[number];
        let ndim = self.known.grid.shape.len();
        let mut places: Vec<Place> = Vec::new();
        for one in group {
            let tile = &tiles[one.tile];
            let shape = extents(&tile.lo, &tile.hi, ndim);
            places.extend(one.cells.iter().map(|cell| place(u64::from(*cell), &tile.lo, &shape)));
        }
        for &input in &term.inputs {
            let report = self.known.load_cells(input, &places, &mut worker.loaded[input].0)?;
            self.costs.add(&report);
        }
        let scratch = worker.scratch[number].get_or_insert_with(|| Scratch::new(&term.program));
        let given: Vec<_> = term.inputs.iter().map(|input| worker.loaded[*input].0.given()).collect();
        worker.hits.resize(bits::words(places.len()), 0);
        let selected = term.program.select(&given, places.len(), scratch, &mut worker.hits);
        let count = selected.map_err(|error| Error::invalid(error.to_string()))?;
        self.costs.tried(number, places.len() as u64, count);
        let mut at = 0;
        let mut kept = Vec::with_capacity(group.len());
        for one in group {
            let own = one.cells.iter().zip(at..).filter(|(_, n)| worker.hits[n / 64] >> (n % 64) & 1 == 1);
            kept.push(own.map(|(cell, _)| *cell).collect());
            at += one.cells.len();
        }
        Ok(kept)
    }
}

fn of_zone(cells: ZoneCells) -> Cells {
    match cells {
        ZoneCells::Few(few) => Cells::Few(few),
        ZoneCells::Bits(set, count) => Cells::Bits(set, count),
    }
}

enum Outcome {
    Hits(Option<TileHits>),
    Left(Deferred),
}

/// Runs `count` jobs on several threads; each thread has its own worker. The results are in order.
pub(super) fn share<W, T: Send>(
    threads: usize,
    count: usize,
    worker: impl Fn() -> W + Sync,
    act: impl Fn(&mut W, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(count);
    if threads < 2 {
        let mut own = worker();
        return (0..count).map(|n| act(&mut own, n)).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let failed: Mutex<Option<Error>> = Mutex::new(None);
    let take = || {
        let mut own = worker();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            match act(&mut own, n) {
                Ok(result) => lock(&done).push((n, result)),
                Err(error) => {
                    lock(&failed).get_or_insert(error);
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(take)));
        take();
    });
    if let Some(error) = lock(&failed).take() {
        return Err(error);
    }
    let mut done = std::mem::take(&mut *lock(&done));
    done.sort_by_key(|(n, _)| *n);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
