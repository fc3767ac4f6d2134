//! The grids of shards and chunks of one array, in cells. Pure arithmetic.

/// The cut of an array. The step axis, if there is one, comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) shape: Vec<u64>,
    pub(crate) chunk: Vec<u64>,
    pub(crate) shard: Vec<u64>,
}

/// A box of cells, `lo..hi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Box {
    pub(crate) lo: Vec<u64>,
    pub(crate) hi: Vec<u64>,
}

impl Box {
    /// The extents; zero where the box is empty.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.lo.iter().zip(&self.hi).map(|(l, h)| h.saturating_sub(*l)).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lo.iter().zip(&self.hi).any(|(l, h)| l >= h)
    }

    pub(crate) fn cells(&self) -> u64 {
        self.counts().iter().product()
    }
}

impl Box {
    /// The smallest box that contains both boxes.
    pub(crate) fn around(&self, other: &Box) -> Box {
        let lo = self.lo.iter().zip(&other.lo).map(|(a, b)| *a.min(b)).collect();
        let hi = self.hi.iter().zip(&other.hi).map(|(a, b)| *a.max(b)).collect();
        Box { lo, hi }
    }

    /// Whether the two boxes have a cell in common.
    pub(crate) fn meets(&self, other: &Box) -> bool {
        let lo = self.lo.iter().zip(&other.lo).map(|(a, b)| a.max(b));
        let hi = self.hi.iter().zip(&other.hi).map(|(a, b)| a.min(b));
        lo.zip(hi).all(|(lo, hi)| lo < hi)
    }
}

impl Grid {
    /// A grid. `None` if the extents do not fit each other, or a number exceeds 63 bits.
    pub(crate) fn new(shape: &[u64], chunk: &[u64], shard: &[u64]) -> Option<Self> {
        let whole = chunk.iter().zip(shard).all(|(c, s)| *c > 0 && *s > 0 && s % c == 0);
        let fits = |n: &[u64]| {
            n.iter().try_fold(1u64, |p, &e| p.checked_mul(e.max(1))).is_some_and(|p| p >> 63 == 0)
        };
        let grid = Grid { shape: shape.to_vec(), chunk: chunk.to_vec(), shard: shard.to_vec() };
        let same = chunk.len() == shape.len() && shard.len() == shape.len();
        (same && whole && fits(shard) && fits(&grid.shards())).then_some(grid)
    }

    /// The number of shards along each axis.
    pub(crate) fn shards(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.shard).map(|(n, s)| n.div_ceil(*s)).collect()
    }

    /// The number of chunks of a shard along each axis.
    pub(crate) fn chunks(&self) -> Vec<u64> {
        self.shard.iter().zip(&self.chunk).map(|(s, c)| s / c).collect()
    }

    /// The index of a shard from its row-major number.
    pub(crate) fn index_of(&self, number: u64) -> Vec<u64> {
        place(number, &self.shards())
    }

    /// The cells of a shard that lie in the array.
    pub(crate) fn cells_of(&self, number: u64) -> Box {
        let index = self.index_of(number);
        let lo: Vec<u64> = index.iter().zip(&self.shard).map(|(i, s)| i * s).collect();
        let ends = lo.iter().zip(&self.shard).map(|(l, s)| l.saturating_add(*s));
        let hi = ends.zip(&self.shape).map(|(end, n)| end.min(*n)).collect();
        Box { lo, hi }
    }

    /// The cells of a chunk of a shard that lie in the array.
    pub(crate) fn chunk_of(&self, shard: u64, chunk: u64) -> Box {
        let (cells, at) = (self.cells_of(shard), place(chunk, &self.chunks()));
        let lo: Vec<u64> = cells.lo.iter().zip(&at).zip(&self.chunk).map(|((l, i), c)| l + i * c).collect();
        let hi = lo.iter().zip(&self.chunk).zip(&cells.hi).map(|((l, c), h)| (l + c).min(*h)).collect();
        Box { lo, hi }
    }

    /// Numbers of the shards that overlap a box of cells; `None` if there are more than `most`.
    pub(crate) fn meeting(&self, cells: &Box, most: u64) -> Option<Vec<u64>> {
        if cells.is_empty() {
            return Some(Vec::new());
        }
        let along = |d: usize| cells.lo[d] / self.shard[d]..=(cells.hi[d] - 1) / self.shard[d];
        let mut each = (0..self.shard.len()).map(|d| along(d).end() - along(d).start() + 1);
        each.try_fold(1u64, u64::checked_mul).filter(|n| *n <= most)?;
        let mut numbers = vec![0u64];
        for (axis, many) in self.shards().into_iter().enumerate() {
            let range = along(axis);
            numbers = numbers.iter().flat_map(|n| range.clone().map(move |i| n * many + i)).collect();
        }
        Some(numbers)
    }
}

/// The index of a row-major number in a grid.
pub(crate) fn place(mut number: u64, grid: &[u64]) -> Vec<u64> {
    let mut index = vec![0; grid.len()];
    for (i, &n) in index.iter_mut().zip(grid).rev() {
        *i = number % n.max(1);
        number /= n.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_meets_the_shards_that_hold_its_cells() {
        let grid = Grid::new(&[10, 7], &[2, 1], &[4, 3]).unwrap();
        assert_eq!((grid.shards(), grid.chunks()), (vec![3, 3], vec![2, 3]));
        for lo in [[0, 0], [3, 2], [9, 6], [4, 3]] {
            for hi in [[1, 1], [4, 3], [10, 7], [9, 4]] {
                let cells = Box { lo: lo.to_vec(), hi: hi.to_vec() };
                let expected: Vec<u64> = (0..9)
                    .filter(|&number| {
                        let shard = grid.cells_of(number);
                        (0..2).all(|d| cells.lo[d].max(shard.lo[d]) < cells.hi[d].min(shard.hi[d]))
                    })
                    .collect();
                assert_eq!(grid.meeting(&cells, 9), Some(expected.clone()), "{cells:?}");
                assert!(expected.len() < 2 || grid.meeting(&cells, 1).is_none());
            }
        }
        assert_eq!(grid.cells_of(8), Box { lo: vec![8, 6], hi: vec![10, 7] });
    }

    #[test]
    fn an_array_without_axes_is_one_shard_and_one_without_cells_none() {
        let scalar = Grid::new(&[], &[], &[]).unwrap();
        assert_eq!(scalar.meeting(&Box { lo: vec![], hi: vec![] }, 1), Some(vec![0]));
        assert_eq!(scalar.cells_of(0).cells(), 1);
        assert_eq!(Grid::new(&[0, 5], &[1, 5], &[1, 5]).unwrap().shards(), [0, 1]);
        assert!(Grid::new(&[4], &[3], &[4]).is_none());
        assert!(Grid::new(&[4], &[0], &[0]).is_none());
        assert!(Grid::new(&[1], &[1 << 62], &[1 << 63]).is_none());
    }
}
