//! Answers without values: the plan of a query, the number of its hits, boxes around them, and their mask.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::Ordering;

use drystone_format::MAX_NDIM;

use super::asked::Query;
use super::bits;
use super::hits::{Cells, TileHits};
use super::place::{self, Place, extents};
use super::plan::{QueryPlan, StepPlan, Summary};
use super::run::{Costs, Run};
use super::there::site;
use crate::{Error, Result};

/// The number of cells of the tiles that are processed together.
const TOGETHER: u64 = 1 << 25;

/// First cell and extents of a box. If there are steps, the step comes first.
pub type HitBox = (Vec<u64>, Vec<u64>);

/// The cost of answering a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryReport {
    /// Bytes of values that were read.
    pub bytes: u64,
    /// Requests for these bytes.
    pub requests: u64,
    /// Requests that were programs, which tested conditions at the store.
    pub programs: u64,
    /// The tiles that statistics decided.
    pub summary: Summary,
    /// For each term: the number of cells on which it was tested, and of those that satisfied it.
    pub tried: Vec<(u64, u64)>,
}

impl Query {
    /// The plan of the query, from statistics alone. On a far store it also states where each term is tested; the
    /// store may be asked whether it runs programs.
    pub fn explain(&self) -> Result<QueryPlan> {
        self.planned(true)
    }

    fn planned(&self, with_sites: bool) -> Result<QueryPlan> {
        let asked = &*self.asked;
        let (text, summary) = (asked.text.clone(), Summary::of(&asked.terms));
        let mut out = QueryPlan { text, summary, steps: 0 };
        for &(_, step) in &asked.present {
            let zones = asked.zones(step)?;
            let known = asked.known(step, &zones);
            let mut plan = StepPlan::new(&asked.terms, &known);
            if with_sites {
                plan.count_bytes(&asked.terms, &known)?;
                for (number, term) in asked.terms.iter().enumerate() {
                    plan.sum.terms[number].site = site(&known, number, term, &plan)?;
                }
            }
            out.summary.add(&plan.sum);
            out.steps += 1;
        }
        Ok(out)
    }

    /// The least and greatest possible number of hits, from statistics alone. Reads no values.
    pub fn bounds(&self) -> Result<(u64, u64)> {
        let sum = self.planned(false)?.summary;
        Ok((sum.all, sum.all.saturating_add(sum.some)))
    }

    /// The number of hits.
    pub fn count(&self) -> Result<(u64, QueryReport)> {
        let mut hits = 0;
        let report = self.each_hits(true, |_, found| {
            hits += found.iter().map(TileHits::count).sum::<u64>();
            Ok(())
        })?;
        Ok((hits, report))
    }

    /// Boxes that together contain all hits; each has at least one hit. A box is given by its first cell and extents,
    /// the step first if there are steps. It is the smallest box around the hits of one tile.
    pub fn boxes(&self) -> Result<(Vec<HitBox>, QueryReport)> {
        let asked = &*self.asked;
        let ndim = asked.grid.shape.len();
        let mut out = Vec::new();
        let report = self.each_hits(false, |(_, step), found| {
            for one in found {
                let (lo, hi) = hull(&one, ndim);
                let (mut offset, mut count) = (Vec::new(), Vec::new());
                if asked.grid.steps {
                    (offset, count) = (vec![step], vec![1]);
                }
                for (d, axis) in asked.cells.axes.iter().enumerate() {
                    let (first, last) = (axis.cell(lo[d]), axis.cell(hi[d] - 1));
                    offset.push(first);
                    count.push(last - first + 1);
                }
                out.push((offset, count));
            }
            Ok(())
        })?;
        out.sort_by(|a, b| a.0.cmp(&b.0));
        Ok((out, report))
    }

    /// Sets a byte for each selected cell that is a hit. `out` holds zeros and has the shape of the selection.
    pub fn mask(&self, out: &mut [u8]) -> Result<QueryReport> {
        let asked = &*self.asked;
        let shape = asked.cells.shape();
        let cells = self.shape().iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
        if cells != Some(out.len() as u64) {
            let found = out.len();
            return Err(Error::invalid(format!("{found} bytes are given for a mask of {:?}", self.shape())));
        }
        let each = shape.iter().product::<u64>() as usize;
        let report = self.each_hits(false, |(place, _), found| {
            let step = &mut out[place as usize * each..][..each];
            for one in found {
                let own = extents(&one.lo, &one.hi, shape.len());
                match &one.cells {
                    Cells::All => {
                        bits::each_row(&shape, &one.lo[..shape.len()], &own, |at, _, len| {
                            step[at..at + len].fill(1);
                        });
                    }
                    Cells::Bits(set, _) => {
                        bits::each_row(&shape, &one.lo[..shape.len()], &own, |at, inside, len| {
                            for (n, to) in step[at..at + len].iter_mut().enumerate() {
                                let cell = inside + n;
                                *to = (set[cell / 64] >> (cell % 64) & 1) as u8;
                            }
                        });
                    }
                    Cells::Counted(_) => {}
                    Cells::Few(cells) => {
                        for cell in cells {
                            let at = place::place(u64::from(*cell), &one.lo, &own);
                            let flat = (0..shape.len()).fold(0, |n, d| n * shape[d] + at[d]);
                            step[flat as usize] = 1;
                        }
                    }
                }
            }
            Ok(())
        })?;
        turn(out, &self.shape(), &asked.turned);
        Ok(report)
    }

    /// Calls `act` with the hits of some tiles of a step. Tiles come in any order.
    fn each_hits(
        &self,
        only_count: bool,
        mut act: impl FnMut((u64, u64), Vec<TileHits>) -> Result<()>,
    ) -> Result<QueryReport> {
        let asked = &*self.asked;
        let costs = Costs::new(asked.terms.len());
        let mut sum = Summary::of(&asked.terms);
        for &(place, step) in &asked.present {
            let zones = asked.zones(step)?;
            let plan = StepPlan::new(&asked.terms, &asked.known(step, &zones));
            sum.add(&plan.sum);
            let run = Run {
                known: asked.known(step, &zones),
                terms: &asked.terms,
                costs: &costs,
                only_count,
                keep: &[],
                columns: None,
            };
            let mut from = 0;
            while from < plan.tiles.len() {
                let (mut to, mut cells) = (from, 0u64);
                while to < plan.tiles.len() && (to == from || cells < TOGETHER) {
                    cells = cells.saturating_add(if plan.tiles[to].open.is_empty() {
                        0
                    } else {
                        plan.tiles[to].cells()
                    });
                    to += 1;
                }
                act((place, step), run.hits(&plan.tiles[from..to])?)?;
                from = to;
            }
        }
        Ok(report(&costs, sum))
    }
}

pub(super) fn report(costs: &Costs, summary: Summary) -> QueryReport {
    let load = |n: &std::sync::atomic::AtomicU64| n.load(Ordering::Relaxed);
    QueryReport {
        bytes: load(&costs.bytes),
        requests: load(&costs.requests),
        programs: load(&costs.programs),
        summary,
        tried: costs.tried.iter().map(|(tried, kept)| (load(tried), load(kept))).collect(),
    }
}

/// The smallest box around the hits of a tile.
fn hull(hits: &TileHits, ndim: usize) -> (Place, Place) {
    let own = extents(&hits.lo, &hits.hi, ndim);
    let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
    let mut meet = |cell: u64| {
        let at = place::place(cell, &hits.lo, &own);
        for d in 0..MAX_NDIM {
            (lo[d], hi[d]) = (lo[d].min(at[d]), hi[d].max(at[d] + 1));
        }
    };
    match &hits.cells {
        Cells::All | Cells::Counted(_) => return (hits.lo, hits.hi),
        Cells::Bits(set, _) => bits::each(set).for_each(|cell| meet(cell as u64)),
        Cells::Few(cells) => cells.iter().for_each(|cell| meet(u64::from(*cell))),
    }
    (lo, hi)
}

impl Display for QueryReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Summary { cells, none, all, some, terms, .. } = &self.summary;
        writeln!(f, "{cells} cells: {none} excluded and {all} included by statistics, {some} tested")?;
        for (term, (tried, kept)) in terms.iter().zip(&self.tried) {
            writeln!(f, "  {}: tried on {tried} cells, kept {kept}", term.text)?;
        }
        write!(f, "  {} bytes in {} requests", self.bytes, self.requests)?;
        match self.programs {
            0 => Ok(()),
            1 => write!(f, ", 1 of them a program"),
            programs => write!(f, ", {programs} of them programs"),
        }
    }
}

/// Reverses an array of bytes along some of its axes.
fn turn(bytes: &mut [u8], shape: &[u64], turned: &[bool]) {
    let mut below = bytes.len();
    for (&extent, &turned) in shape.iter().zip(turned) {
        let around = below;
        below = below.checked_div(extent as usize).unwrap_or(0);
        if !turned || below == 0 {
            continue;
        }
        for rows in bytes.chunks_exact_mut(around) {
            rows.reverse();
            rows.chunks_exact_mut(below).for_each(<[u8]>::reverse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::turn;

    #[test]
    fn turned_axes_are_reversed_and_others_not() {
        let turned = |shape: &[u64], axes: &[bool]| {
            let mut bytes: Vec<u8> = (0..shape.iter().product::<u64>() as u8).collect();
            turn(&mut bytes, shape, axes);
            bytes
        };
        assert_eq!(turned(&[2, 3], &[false, false]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(turned(&[2, 3], &[true, false]), [3, 4, 5, 0, 1, 2]);
        assert_eq!(turned(&[2, 3], &[false, true]), [2, 1, 0, 5, 4, 3]);
        assert_eq!(turned(&[2, 3], &[true, true]), [5, 4, 3, 2, 1, 0]);
        assert_eq!(turned(&[2, 1, 3], &[true, true, true]), [5, 4, 3, 2, 1, 0]);
        assert_eq!(turned(&[], &[]), [0]);
        assert!(turned(&[0, 3], &[true, true]).is_empty());
    }
}
