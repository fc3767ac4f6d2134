//! The hits of a tile, and the values at the hits.

use drystone_format::MAX_NDIM;

use super::bits;
use super::place::Place;

/// The hits of a tile.
#[derive(Debug, Clone)]
pub(super) struct TileHits {
    pub(super) lo: Place,
    pub(super) hi: Place,
    pub(super) cells: Cells,
    /// For each requested column, its elements at the hits, if they were in memory when the hits were found.
    pub(super) picked: Vec<Option<Picked>>,
}

/// The results of tests at the store, before the tile's values are read by the client.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// The number of the next open term of the tile.
    pub(super) next: usize,
    /// The cells that satisfy the earlier terms, and their number.
    pub(super) alive: Option<(Vec<u64>, u64)>,
    /// The number of hits, if only that was requested.
    pub(super) counted: Option<u64>,
    /// For each column, its elements at the hits of the last term.
    pub(super) picked: Vec<Option<Picked>>,
    /// Whether the remaining terms are tested by the client.
    pub(super) is_stuck: bool,
}

/// The hits of a tile; never empty.
#[derive(Debug, Clone)]
pub(super) enum Cells {
    All,
    /// One bit per cell in row-major order, and the number of set bits.
    Bits(Vec<u64>, u64),
    /// The numbers of the hits in row-major order, ascending.
    Few(Vec<u32>),
    /// The number of hits, if only that was requested.
    Counted(u64),
}

/// Elements of one column at the hits of a tile, in the order of its cells.
#[derive(Debug, Clone, Default)]
pub(super) struct Picked {
    pub(super) values: Vec<u8>,
    /// A byte per hit: 1 if the element was written, else 0. `None` if all were written.
    pub(super) written: Option<Vec<u8>>,
}

impl TileHits {
    pub(super) fn count(&self) -> u64 {
        match &self.cells {
            Cells::All => (0..MAX_NDIM).fold(1, |n, d| n * (self.hi[d] - self.lo[d])),
            Cells::Bits(_, count) => *count,
            Cells::Few(cells) => cells.len() as u64,
            Cells::Counted(count) => *count,
        }
    }

    /// The first hit, and the end after the last one.
    pub(super) fn span(&self) -> (usize, usize) {
        match &self.cells {
            Cells::All | Cells::Counted(_) => (0, self.room()),
            Cells::Few(few) => {
                let end = few.last().map_or(0, |last| *last as usize + 1);
                (few.first().map_or(0, |first| *first as usize), end)
            }
            Cells::Bits(set, _) => {
                let first = set.iter().position(|word| *word != 0).unwrap_or(0);
                let last = set.iter().rposition(|word| *word != 0).unwrap_or(0);
                let bit = |n: usize| set.get(n).copied().unwrap_or(0);
                let begin = 64 * first + bit(first).trailing_zeros() as usize;
                (begin, 64 * last + 64 - bit(last).leading_zeros() as usize)
            }
        }
    }

    /// The number of cells of the tile.
    pub(super) fn room(&self) -> usize {
        (0..MAX_NDIM).fold(1, |n, d| n * (self.hi[d] - self.lo[d])) as usize
    }

    /// Calls `act` with each hit between two cells, by its number in the tile.
    pub(super) fn each(&self, from: usize, to: usize, mut act: impl FnMut(usize)) {
        match &self.cells {
            Cells::All => (from..to).for_each(act),
            Cells::Few(few) => {
                let few = few.iter().map(|cell| *cell as usize);
                few.skip_while(|cell| *cell < from).take_while(|cell| *cell < to).for_each(act);
            }
            Cells::Bits(set, _) => {
                let words = set.get(..to.div_ceil(64).min(set.len())).unwrap_or_default();
                bits::each_from(words, from).take_while(|cell| *cell < to).for_each(&mut act);
            }
            Cells::Counted(_) => {}
        }
    }

    /// The number of hits between two cells.
    pub(super) fn count_in(&self, from: usize, to: usize) -> usize {
        match &self.cells {
            Cells::All => to - from,
            Cells::Bits(set, _) => bits::count_run(set, from, to - from),
            Cells::Few(few) => {
                let below = |end: usize| few.partition_point(|cell| (*cell as usize) < end);
                below(to) - below(from)
            }
            Cells::Counted(_) => 0,
        }
    }

    /// Appends the elements at the hits between two cells. `from` starts with the element of the first hit.
    pub(super) fn pick(&self, begin: usize, end: usize, from: &[u8], item: usize, out: &mut Vec<u8>) {
        if let Cells::All = self.cells {
            out.extend_from_slice(from.get(..(end - begin) * item).unwrap_or_default());
            return;
        }
        let before = out.len();
        out.resize(before + self.count_in(begin, end) * item, 0);
        let out = &mut out[before..];
        macro_rules! as_wide {
            ($n:literal) => {{
                let mut slots = out.as_chunks_mut::<$n>().0.iter_mut();
                let from = from.as_chunks::<$n>().0;
                self.each(begin, end, |cell| {
                    if let (Some(slot), Some(value)) = (slots.next(), from.get(cell - begin)) {
                        *slot = *value;
                    }
                });
            }};
        }
        match item {
            1 => as_wide!(1),
            2 => as_wide!(2),
            4 => as_wide!(4),
            8 => as_wide!(8),
            _ => {
                let mut slots = out.chunks_exact_mut(item.max(1));
                self.each(begin, end, |cell| {
                    let at = (cell - begin) * item;
                    if let (Some(slot), Some(value)) = (slots.next(), from.get(at..at + item)) {
                        slot.copy_from_slice(value);
                    }
                });
            }
        }
    }

    /// A byte per hit: 1 if its cell is in the set, else 0. `None` if all are.
    pub(super) fn in_set(&self, set: Option<&[u64]>) -> Option<Vec<u8>> {
        let set = set?;
        let mut out = Vec::with_capacity(self.count() as usize);
        self.each(0, self.room(), |cell| {
            out.push((set.get(cell / 64).copied().unwrap_or(0) >> (cell % 64) & 1) as u8);
        });
        Some(out).filter(|bytes| bytes.contains(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(cells: Cells) -> TileHits {
        let (lo, mut hi) = ([0; MAX_NDIM], [1; MAX_NDIM]);
        hi[0] = 200;
        TileHits { lo, hi, cells, picked: Vec::new() }
    }

    #[test]
    fn hits_are_picked_alike_from_every_form_of_a_set() {
        let few: Vec<u32> = vec![3, 64, 65, 127, 199];
        let mut set = vec![0u64; 4];
        few.iter().for_each(|cell| set[*cell as usize / 64] |= 1 << (cell % 64));
        for item in [1usize, 2, 3, 4, 8, 12] {
            let from: Vec<u8> = (0..200 * item).map(|n| (n / item) as u8).collect();
            for one in [tile(Cells::Few(few.clone())), tile(Cells::Bits(set.clone(), 5))] {
                let mut out = Vec::new();
                one.pick(0, 200, &from, item, &mut out);
                let wanted: Vec<u8> = few.iter().flat_map(|cell| vec![*cell as u8; item]).collect();
                assert_eq!(out, wanted);
                assert_eq!(one.span(), (3, 200));
                assert_eq!((one.count_in(64, 127), one.count_in(0, 3), one.count_in(4, 200)), (2, 0, 4));
                out.clear();
                one.pick(64, 128, &from[64 * item..], item, &mut out);
                assert_eq!(out, wanted[item..4 * item]);
                assert_eq!(one.in_set(Some(&[u64::MAX, 0, u64::MAX, u64::MAX])), Some(vec![1, 0, 0, 0, 1]));
                assert_eq!(one.in_set(Some(&[u64::MAX; 4])), None);
            }
            let mut out = Vec::new();
            tile(Cells::All).pick(2, 5, &from[2 * item..], item, &mut out);
            assert_eq!(out, from[2 * item..5 * item]);
        }
    }
}
