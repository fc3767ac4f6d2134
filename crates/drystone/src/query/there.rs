//! Tests terms at the store: conditions go out to a store that runs read programs, and hits come back.
//!
//! A term is split into conditions on one variable each ([`Tree::split`]); the client combines their results, as
//! bits. Terms are tested in order, each on all tiles that the earlier ones left, so that a term costs one round of
//! requests. The client tests terms that join values of several variables, and terms for which only a few cells are
//! left.
//!
//! Invariants
//! - a term is settled for a whole tile, or left to [`run`](super::run);
//! - hits are those of the values as a read returns them: unwritten cells satisfy no condition.

use std::collections::BTreeMap;

use drystone_expression::{Column, Input as Given, Scratch};
use drystone_program::{Answer, Condition};

use super::apart::{Apart, Of};
use super::bits;
use super::column::Values;
use super::hits::{Begun, Picked};
use super::inputs::Loaded;
use super::place::extents;
use super::plan::{Known, StepPlan, Term, Tile};
use super::run::{Run, SPARSE};
use super::site::TermSite;
use crate::read::{Reading, Trial, Tried, Way};
use crate::{Error, Result};

impl Run<'_> {
    /// Tests terms at the store, on all tiles. Does nothing on a store that runs no programs.
    pub(super) fn there(&self, tiles: &[Tile]) -> Result<Vec<Begun>> {
        let mut begun: Vec<Begun> = tiles.iter().map(|_| Begun::default()).collect();
        if !self.known.inputs.iter().any(|input| input.reading().is_some_and(Reading::runs_there)) {
            return Ok(begun);
        }
        loop {
            let mut groups: BTreeMap<(u16, u8), Vec<usize>> = BTreeMap::new();
            for (number, (tile, begun)) in tiles.iter().zip(&begun).enumerate() {
                if let Some(term) = self.next_there(tile, begun) {
                    let answer = self.answer(tile, &self.terms[usize::from(term)]);
                    groups.entry((term, answer as u8)).or_default().push(number);
                }
            }
            if groups.is_empty() {
                return Ok(begun);
            }
            for ((term, _), members) in groups {
                self.round(usize::from(term), tiles, &members, &mut begun)?;
            }
        }
    }

    /// The next term of a tile that is tested at the store.
    fn next_there(&self, tile: &Tile, begun: &Begun) -> Option<u16> {
        let term = *tile.open.get(begun.next)?;
        let apart = self.terms[usize::from(term)].apart.as_ref()?;
        // A few remaining cells are read by the client: that takes fewer bytes than a bit for each other cell.
        let is_sparse = begun.alive.as_ref().is_some_and(|(_, count)| *count * SPARSE < tile.cells());
        if begun.is_stuck || is_sparse || begun.counted.is_some() {
            return None;
        }
        (!self.known.is_indexed(apart, &self.terms[usize::from(term)], tile)).then_some(term)
    }

    /// The part of a term's answer that is useful in a tile.
    fn answer(&self, tile: &Tile, term: &Term) -> Answer {
        let Some((input, _)) = term.apart.as_ref().and_then(|apart| apart.only()) else {
            return Answer::Cells;
        };
        if tile.open.len() > 1 || !self.known.inputs[input].is_straight(self.known.grid) {
            return Answer::Cells;
        }
        match (self.only_count, self.keep.contains(&Some(input))) {
            (true, _) => Answer::Count,
            (false, true) => Answer::Values,
            (false, false) => Answer::Cells,
        }
    }

    /// Tests one term on some tiles.
    fn round(&self, number: usize, tiles: &[Tile], members: &[usize], begun: &mut [Begun]) -> Result<()> {
        let (term, Some(&first)) = (&self.terms[number], members.first()) else { return Ok(()) };
        let Some(apart) = &term.apart else { return Ok(()) };
        let answer = self.answer(&tiles[first], term);
        let mut found: Vec<Vec<Option<Tried>>> = Vec::with_capacity(apart.parts.len());
        for (input, condition) in &apart.parts {
            let Some(reading) = self.known.inputs[*input].reading() else { return Ok(()) };
            let condition = Condition { answer, ..condition.clone() };
            let trials =
                members.iter().map(|tile| self.known.trial(*input, &tiles[*tile])).collect::<Vec<_>>();
            let (tried, report) = reading.try_there(&trials, &condition)?;
            self.costs.add(&report);
            self.costs.there(&report);
            found.push(tried);
        }
        let mut scratch = None;
        for (n, &member) in members.iter().enumerate() {
            let (tile, begun) = (&tiles[member], &mut begun[member]);
            let parts: Option<Vec<Tried>> = found.iter_mut().map(|part| part[n].take()).collect();
            let Some(mut parts) = parts else {
                begun.is_stuck = true;
                continue;
            };
            let cells = tile.cells();
            let before = begun.alive.as_ref().map_or(cells, |(_, count)| *count);
            begun.next += 1;
            let (set, count) = match (apart.only(), parts.as_mut_slice()) {
                (Some(_), [only]) if answer == Answer::Count => {
                    begun.counted = Some(only.count);
                    self.costs.tried(number, before, only.count);
                    continue;
                }
                (Some((input, _)), [only]) if self.known.inputs[input].is_straight(self.known.grid) => {
                    if answer == Answer::Values {
                        let own = |column: &Option<usize>| *column == Some(input);
                        let picked = |_| Picked { values: only.values.clone(), written: None };
                        begun.picked = self
                            .keep
                            .iter()
                            .map(|column| Some(column).filter(|c| own(c)).map(picked))
                            .collect();
                    }
                    (std::mem::take(&mut only.cells), only.count)
                }
                _ => self.joined(
                    apart,
                    tile,
                    &parts,
                    scratch.get_or_insert_with(|| Scratch::new(&apart.rest)),
                )?,
            };
            begun.alive = Some(match begun.alive.take() {
                None => (set, count),
                Some((mut alive, _)) => {
                    alive.iter_mut().zip(&set).for_each(|(a, b)| *a &= b);
                    let count = bits::count(&alive);
                    (alive, count)
                }
            });
            let left = begun.alive.as_ref().map_or(0, |(_, count)| *count);
            self.costs.tried(number, before, left);
            if left == 0 {
                begun.next = tile.open.len();
            }
        }
        Ok(())
    }

    /// The cells of a tile that satisfy a term whose parts were tested.
    fn joined(
        &self,
        apart: &Apart,
        tile: &Tile,
        parts: &[Tried],
        scratch: &mut Scratch,
    ) -> Result<(Vec<u64>, u64)> {
        let cells = tile.cells() as usize;
        let mut truths: Vec<(Vec<u8>, Option<Vec<u64>>)> = Vec::with_capacity(parts.len());
        for ((input, _), part) in apart.parts.iter().zip(parts) {
            let (written, _) = self.known.written_in(*input, &tile.lo, &tile.hi)?;
            truths.push((self.known.spread_bits(*input, tile, &part.cells), written));
        }
        let mut counted: Vec<Option<Loaded>> = Vec::with_capacity(apart.inputs.len());
        for of in &apart.inputs {
            counted.push(match of {
                Of::Part(_) => None,
                Of::Counted(input) => {
                    let mut loaded = Loaded::new(self.known.inputs[*input].dtype);
                    self.known.load(*input, &tile.lo, &tile.hi, &mut loaded)?;
                    Some(loaded)
                }
            });
        }
        let given = |(of, counted): (&Of, &'_ Option<Loaded>)| match (of, counted) {
            (Of::Part(part), _) => {
                let (truth, written) = &truths[*part];
                Some((truth.as_slice(), written.as_deref()))
            }
            _ => None,
        };
        let truth_of: Vec<_> = apart.inputs.iter().zip(&counted).map(given).collect();
        let given: Vec<Given<'_>> = truth_of
            .iter()
            .zip(&counted)
            .filter_map(|(truth, counted)| match (truth, counted) {
                (Some((values, written)), _) => {
                    Some(Given { values: Column::Bool(values), written: *written })
                }
                (None, Some(loaded)) => Some(loaded.given()),
                (None, None) => None,
            })
            .collect();
        let mut set = vec![0; bits::words(cells)];
        let count = apart.rest.select(&given, cells, scratch, &mut set);
        Ok((set, count.map_err(|error| Error::invalid(error.to_string()))?))
    }
}

impl Known<'_> {
    /// The cells of an input in a tile.
    fn trial(&self, input: usize, tile: &Tile) -> Trial {
        let (lo, hi) = self.own(input, &tile.lo, &tile.hi);
        let shape = extents(&lo, &hi, self.inputs[input].axes.len());
        Trial { selection: self.selected(input, &lo, &shape) }
    }

    /// Whether an index of values answers a term in a tile.
    fn is_indexed(&self, apart: &Apart, term: &Term, tile: &Tile) -> bool {
        match (apart.only(), &term.keys) {
            (Some((input, _)), Some(_)) => self.zones[input].indexed(&tile.lo, &tile.hi).is_some(),
            _ => false,
        }
    }

    /// A byte for each cell of a tile, from the bits of an input's own cells.
    fn spread_bits(&self, input: usize, tile: &Tile, set: &[u64]) -> Vec<u8> {
        let (lo, hi) = self.own(input, &tile.lo, &tile.hi);
        let own = extents(&lo, &hi, self.inputs[input].axes.len());
        let cells = own.iter().product::<u64>() as usize;
        let mut truth: Vec<u8> = vec![0; cells];
        bits::each(set).take_while(|cell| *cell < cells).for_each(|cell| truth[cell] = 1);
        if self.inputs[input].is_straight(self.grid) {
            return truth;
        }
        let shape = extents(&tile.lo, &tile.hi, self.grid.shape.len());
        let mut out = Values::Bool(Vec::new());
        Values::Bool(truth).spread(&shape, &self.strides(input, &own), &mut out);
        match out {
            Values::Bool(spread) => spread,
            _ => Vec::new(),
        }
    }
}

/// Reports where a term is tested at a step, and why.
pub(super) fn site(
    known: &Known<'_>,
    number: usize,
    term: &Term,
    plan: &StepPlan,
) -> Result<Option<TermSite>> {
    let is_open = |tile: &&Tile| tile.open.contains(&(number as u16));
    let open: Vec<&Tile> = plan.tiles.iter().filter(is_open).collect();
    let is_far = term.inputs.iter().any(|input| known.inputs[*input].reading().is_some_and(Reading::is_far));
    if open.is_empty() || !is_far {
        return Ok(None);
    }
    let mut site = TermSite { tiles: open.len() as u64, ..TermSite::default() };
    let Some(apart) = &term.apart else {
        site.reason = Some("it joins values of several variables, or computed ones".into());
        return Ok(Some(site));
    };
    let tried: Vec<&&Tile> = open.iter().filter(|tile| !known.is_indexed(apart, term, tile)).collect();
    if tried.len() < open.len() {
        site.reason = Some("an index of values answers it".into());
    }
    let mut least = tried.len();
    for (input, condition) in &apart.parts {
        let Some(reading) = known.inputs[*input].reading() else { continue };
        let trials: Vec<Trial> = tried.iter().map(|tile| known.trial(*input, tile)).collect();
        if trials.is_empty() {
            continue;
        }
        let Way { there, programs, ranges, reason, .. } = reading.way_of(&trials, condition)?;
        least = least.min(there);
        site.programs += programs.0;
        site.bytes += programs.1;
        site.instead += ranges.0;
        site.reason = site.reason.take().or(reason);
    }
    site.there = least as u64;
    Ok(Some(site))
}
