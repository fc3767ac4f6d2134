//! A grid over the regions, which finds the earlier regions that may meet a new one.
//!
//! Its lines lie where regions begin. So each block of a rectilinear decomposition, even or not, meets and fills
//! exactly one cell, and dense areas get more lines. There are at most a few cells per region. A cell that one region
//! fills records no other region, since every later one is hidden there.

use drystone_format::MAX_NDIM;

use super::region::Region;

const NONE: u32 = u32::MAX;
const FILLED: u32 = 1 << 31;

/// Most cells per region, and most cells that a region meets on average.
const CELLS: f64 = 4.0;
const MEETINGS: f64 = 12.0;

pub(super) struct Grid {
    ndim: usize,
    /// Where the cells begin along each axis, ascending.
    lines: [Vec<u64>; MAX_NDIM],
    /// Where the last cell ends.
    hi: [u64; MAX_NDIM],
    stride: [usize; MAX_NDIM],
    /// Per cell its newest link, or NONE; with FILLED set, that region fills the cell.
    heads: Vec<u32>,
    /// (region, link before it).
    links: Vec<(u32, u32)>,
    /// Per region the last one that visited it.
    seen: Vec<u32>,
}

impl Grid {
    /// A grid for these regions, none of which is empty. It contains no region yet.
    pub(super) fn new(regions: &[(usize, Region)], ndim: usize) -> Grid {
        let mut grid = Grid {
            ndim,
            lines: [const { Vec::new() }; MAX_NDIM],
            hi: [0; MAX_NDIM],
            stride: [0; MAX_NDIM],
            heads: Vec::new(),
            links: Vec::with_capacity(regions.len()),
            seen: vec![NONE; regions.len()],
        };
        for d in 0..ndim {
            let lines = &mut grid.lines[d];
            lines.extend(regions.iter().map(|(_, region)| region.lo[d]));
            lines.sort_unstable();
            lines.dedup();
            grid.hi[d] = regions.iter().map(|(_, region)| region.hi[d]).max().unwrap_or(0);
            if regions.len() < 8 {
                lines.truncate(1);
            }
        }
        while !grid.is_affordable(regions) {
            let Some(finest) = grid.lines.iter_mut().max_by_key(|lines| lines.len()) else { break };
            let mut number = 0;
            finest.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        let mut total = 1;
        for d in (0..ndim).rev() {
            grid.stride[d] = total;
            total *= grid.lines[d].len();
        }
        grid.heads = vec![NONE; total];
        grid
    }

    fn is_affordable(&self, regions: &[(usize, Region)]) -> bool {
        let cells = self.lines[..self.ndim].iter().fold(1f64, |cells, lines| cells * lines.len() as f64);
        let meetings = |region: &Region| {
            let spans = (0..self.ndim).map(|d| self.span(region, d));
            spans.fold(1f64, |cells, (from, to)| cells * (to - from) as f64)
        };
        let on_average = |every: usize| {
            let sample = regions.iter().step_by(every);
            let number = sample.len() as f64;
            sample.map(|(_, region)| meetings(region)).sum::<f64>() <= MEETINGS * number
        };
        // A sample shows well enough whether the grid is too fine.
        cells <= 1.0
            || (cells <= CELLS * regions.len() as f64
                && on_average(regions.len() / 1000 + 1)
                && on_average(1))
    }

    /// The range of cells along an axis that a region meets.
    fn span(&self, region: &Region, d: usize) -> (usize, usize) {
        let lines = &self.lines[d];
        let from = lines.partition_point(|&line| line <= region.lo[d]).saturating_sub(1);
        (from, lines.partition_point(|&line| line < region.hi[d]))
    }

    /// Calls `visit` with each cell that the region meets, and whether the region fills it, until `visit` returns
    /// false.
    fn cells(&self, region: &Region, mut visit: impl FnMut(usize, bool) -> bool) -> bool {
        let mut spans = [(0, 1); MAX_NDIM];
        for (d, span) in spans.iter_mut().enumerate().take(self.ndim) {
            *span = self.span(region, d);
        }
        let mut at = spans.map(|span| span.0);
        loop {
            let number: usize = (0..self.ndim).map(|d| at[d] * self.stride[d]).sum();
            let filled = (0..self.ndim).all(|d| {
                let end = self.lines[d].get(at[d] + 1).unwrap_or(&self.hi[d]);
                region.lo[d] <= self.lines[d][at[d]] && *end <= region.hi[d]
            });
            if !visit(number, filled) {
                return false;
            }
            let mut d = self.ndim;
            loop {
                if d == 0 {
                    return true;
                }
                d -= 1;
                at[d] += 1;
                if at[d] < spans[d].1 {
                    break;
                }
                at[d] = spans[d].0;
            }
        }
    }

    /// Whether every cell the region meets is filled by one inserted region.
    pub(super) fn is_filled(&self, region: &Region) -> bool {
        self.cells(region, |cell, _| self.heads[cell] != NONE && self.heads[cell] & FILLED != 0)
    }

    /// Visits once each inserted region that shares a cell with this one, which is number `asking`.
    pub(super) fn meeting(&mut self, asking: usize, region: &Region, mut visit: impl FnMut(usize)) {
        let mut seen = std::mem::take(&mut self.seen);
        self.cells(region, |cell, _| {
            let mut link = self.heads[cell];
            if link != NONE {
                link &= !FILLED;
            }
            while link != NONE {
                let (other, before) = self.links[link as usize];
                if seen[other as usize] != asking as u32 {
                    seen[other as usize] = asking as u32;
                    visit(other as usize);
                }
                link = before;
            }
            true
        });
        self.seen = seen;
    }

    pub(super) fn insert(&mut self, number: usize, region: &Region) {
        let mut heads = std::mem::take(&mut self.heads);
        let mut links = std::mem::take(&mut self.links);
        self.cells(region, |cell, fills| {
            let head = &mut heads[cell];
            let filled = *head != NONE && *head & FILLED != 0;
            if !filled {
                links.push((number as u32, if fills { NONE } else { *head }));
                *head = (links.len() - 1) as u32 | if fills { FILLED } else { 0 };
            }
            true
        });
        (self.heads, self.links) = (heads, links);
    }
}
