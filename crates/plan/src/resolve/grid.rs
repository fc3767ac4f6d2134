//! A uniform grid over the regions: which of those inserted before may meet this one?
//!
//! The cells have about the size of an average region, and there are at most a few per region. A cell that one region fills
//! needs to know no other one: whatever comes later is hidden there.

use drystone_format::MAX_NDIM;

use super::region::Region;

const NONE: u32 = u32::MAX;
const FILLED: u32 = 1 << 31;

pub(super) struct Grid {
    ndim: usize,
    lo: [u64; MAX_NDIM],
    hi: [u64; MAX_NDIM],
    /// Edge of a cell in positions.
    edge: [u64; MAX_NDIM],
    stride: [usize; MAX_NDIM],
    /// Per cell the number of its newest link, or NONE; with FILLED set, that one fills the cell.
    heads: Vec<u32>,
    /// (region, link before it).
    links: Vec<(u32, u32)>,
    /// Per region the last one that was told of it.
    told: Vec<u32>,
}

impl Grid {
    pub(super) fn new(regions: &[(usize, Region)], ndim: usize) -> Grid {
        let (mut lo, mut hi) = ([u64::MAX; MAX_NDIM], [0; MAX_NDIM]);
        let mut mean = [0f64; MAX_NDIM];
        for (_, region) in regions {
            for d in 0..ndim {
                lo[d] = lo[d].min(region.lo[d]);
                hi[d] = hi[d].max(region.hi[d]);
                mean[d] += (region.hi[d] - region.lo[d]) as f64 / regions.len() as f64;
            }
        }
        let mut grid = Grid {
            ndim,
            lo,
            hi,
            edge: [1; MAX_NDIM],
            stride: [0; MAX_NDIM],
            heads: Vec::new(),
            links: Vec::with_capacity(regions.len()),
            told: vec![NONE; regions.len()],
        };
        let few = regions.len() < 8;
        let mut cells = [1u64; MAX_NDIM];
        for d in (0..ndim).filter(|_| !few) {
            let extent = hi[d].saturating_sub(lo[d]);
            cells[d] = ((extent as f64 / mean[d]).round() as u64).clamp(1, extent.max(1));
        }
        let most = regions.len() as f64;
        loop {
            for d in 0..ndim {
                grid.edge[d] = hi[d].saturating_sub(lo[d]).div_ceil(cells[d]).max(1);
            }
            let total = cells[..ndim].iter().fold(1f64, |total, &cells| total * cells as f64);
            let touched = |region: &Region| {
                let spans = (0..ndim).map(|d| grid.span(region, d));
                spans.fold(1f64, |cells, span| cells * (span.end - span.start) as f64)
            };
            let coarse = cells.iter().all(|&cells| cells == 1);
            if coarse
                || (total <= 4.0 * most
                    && regions.iter().map(|(_, region)| touched(region)).sum::<f64>() <= 12.0 * most)
            {
                break;
            }
            if let Some(finest) = cells.iter_mut().max() {
                *finest = finest.div_ceil(2);
            }
        }
        let mut total = 1usize;
        for d in (0..ndim).rev() {
            grid.stride[d] = total;
            total *= cells[d] as usize;
        }
        grid.heads = vec![NONE; total];
        grid
    }

    fn span(&self, region: &Region, d: usize) -> std::ops::Range<u64> {
        (region.lo[d] - self.lo[d]) / self.edge[d]..(region.hi[d] - 1 - self.lo[d]) / self.edge[d] + 1
    }

    /// Calls `visit` with each cell the region meets, and whether the region fills it, until it returns false.
    fn cells(&self, region: &Region, mut visit: impl FnMut(usize, bool) -> bool) -> bool {
        let mut spans = [(0u64, 1u64); MAX_NDIM];
        for (d, span) in spans.iter_mut().enumerate().take(self.ndim) {
            let cells = self.span(region, d);
            *span = (cells.start, cells.end);
        }
        let mut at = spans.map(|span| span.0);
        loop {
            let number: usize = (0..self.ndim).map(|d| at[d] as usize * self.stride[d]).sum();
            let filled = (0..self.ndim).all(|d| {
                let from = self.lo[d] + at[d] * self.edge[d];
                region.lo[d] <= from && from.saturating_add(self.edge[d]).min(self.hi[d]) <= region.hi[d]
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

    /// Tells each inserted region that shares a cell with this one, number `asking`, once.
    pub(super) fn meeting(&mut self, asking: usize, region: &Region, mut tell: impl FnMut(usize)) {
        let mut told = std::mem::take(&mut self.told);
        self.cells(region, |cell, _| {
            let mut link = self.heads[cell];
            if link != NONE {
                link &= !FILLED;
            }
            while link != NONE {
                let (other, before) = self.links[link as usize];
                if told[other as usize] != asking as u32 {
                    told[other as usize] = asking as u32;
                    tell(other as usize);
                }
                link = before;
            }
            true
        });
        self.told = told;
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
