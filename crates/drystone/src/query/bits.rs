//! Sets of cells of a box. A set has one bit per cell in row-major order, the first in the lowest bit of the first
//! word.

/// The number of words for a set of this many cells.
pub(super) fn words(cells: usize) -> usize {
    cells.div_ceil(64)
}

/// The number of cells in a set.
pub(super) fn count(bits: &[u64]) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The number of cells of a run that are in the set.
pub(super) fn count_run(bits: &[u64], from: usize, len: usize) -> usize {
    let (mut at, end, mut count) = (from, from + len, 0);
    while at < end {
        let offset = at % 64;
        let taken = (64 - offset).min(end - at);
        let mask = (u64::MAX >> (64 - taken)) << offset;
        count += (bits.get(at / 64).map_or(0, |word| word & mask)).count_ones() as usize;
        at += taken;
    }
    count
}

/// Adds a run of cells to a set, or, if `value` is false, removes it.
pub(super) fn put_run(bits: &mut [u64], from: usize, len: usize, value: bool) {
    let (mut at, end) = (from, from + len);
    while at < end {
        let offset = at % 64;
        let taken = (64 - offset).min(end - at);
        let mask = (u64::MAX >> (64 - taken)) << offset;
        if let Some(word) = bits.get_mut(at / 64) {
            *word = if value { *word | mask } else { *word & !mask };
        }
        at += taken;
    }
}

/// Copies a run of cells of one set into another.
pub(super) fn copy_run(from: &[u64], from_at: usize, to: &mut [u64], to_at: usize, len: usize) {
    let mut done = 0;
    while done < len {
        let (source, target) = (from_at + done, to_at + done);
        let offset = target % 64;
        let taken = (64 - offset).min(len - done);
        let shift = source % 64;
        let low = from.get(source / 64).map_or(0, |word| word >> shift);
        let high = match shift {
            0 => 0,
            _ => from.get(source / 64 + 1).map_or(0, |word| word << (64 - shift)),
        };
        let mask = u64::MAX >> (64 - taken);
        if let Some(word) = to.get_mut(target / 64) {
            *word = *word & !(mask << offset) | ((low | high) & mask) << offset;
        }
        done += taken;
    }
}

/// The numbers of the cells in a set, ascending.
pub(super) fn each(bits: &[u64]) -> impl Iterator<Item = usize> + '_ {
    bits.iter().enumerate().flat_map(|(n, &word)| set_bits(64 * n, word))
}

/// The numbers of the cells in a set from a given cell on, ascending.
pub(super) fn each_from(bits: &[u64], from: usize) -> impl Iterator<Item = usize> + '_ {
    let first = from / 64;
    let head = bits.get(first).map_or(0, |word| word & u64::MAX << (from % 64));
    let rest = bits.get(first + 1..).unwrap_or_default().iter().copied();
    std::iter::once(head).chain(rest).enumerate().flat_map(move |(n, word)| set_bits(64 * (first + n), word))
}

/// The numbers of the cells whose bits are set in a word. The word's first bit is cell `base`.
fn set_bits(base: usize, word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
        rest &= rest - 1;
        Some(base + bit)
    })
}

/// Calls `act` for each row of a box within a larger one, with the position of the row's first cell in the larger box
/// and in the box.
pub(super) fn each_row(shape: &[u64], lo: &[u64], count: &[u64], mut act: impl FnMut(usize, usize, usize)) {
    let Some((&row, outer)) = count.split_last() else {
        act(0, 0, 1);
        return;
    };
    if count.contains(&0) {
        return;
    }
    let mut strides = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as usize;
    }
    let first: usize = lo.iter().zip(&strides).map(|(lo, stride)| *lo as usize * stride).sum();
    let mut at = vec![0u64; outer.len()];
    let mut inside = 0;
    loop {
        let outer_at: usize = at.iter().zip(&strides).map(|(at, stride)| *at as usize * stride).sum();
        act(first + outer_at, inside, row as usize);
        inside += row as usize;
        let Some(d) = (0..outer.len()).rev().find(|&d| at[d] + 1 < outer[d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

/// A set with a bit for each byte that is not 0.
pub(super) fn packed(known: &[u8]) -> Vec<u64> {
    let mut out = vec![0; words(known.len())];
    for (n, _) in known.iter().enumerate().filter(|(_, known)| **known != 0) {
        out[n / 64] |= 1 << (n % 64);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            self.0 ^ self.0 >> 33
        }

        fn below(&mut self, n: u64) -> u64 {
            self.next() % n
        }
    }

    #[test]
    fn runs_are_put_and_copied_as_cell_by_cell() {
        let mut random = Random(3);
        for _ in 0..2000 {
            let mut from: Vec<u64> = (0..4).map(|_| random.next()).collect();
            let mut to: Vec<u64> = (0..4).map(|_| random.next()).collect();
            let (len, source) = (random.below(130) as usize, random.below(120) as usize);
            let target = random.below(120) as usize;
            let bit = |bits: &[u64], at: usize| bits[at / 64] >> (at % 64) & 1;
            let expected: Vec<u64> = (0..256usize)
                .map(|at| match at.checked_sub(target) {
                    Some(n) if n < len => bit(&from, source + n),
                    _ => bit(&to, at),
                })
                .collect();
            copy_run(&from, source, &mut to, target, len);
            assert_eq!((0..256).map(|at| bit(&to, at)).collect::<Vec<_>>(), expected);
            let value = len % 2 == 0;
            put_run(&mut from, target, len, value);
            assert!((target..target + len).all(|at| (bit(&from, at) == 1) == value));
            assert_eq!(each(&to).count() as u64, count(&to));
            let inside = (target..target + len).filter(|at| bit(&to, *at) == 1).count();
            assert_eq!(count_run(&to, target, len), inside);
            let wanted: Vec<usize> = each(&to).filter(|cell| *cell >= target).collect();
            assert_eq!(each_from(&to, target).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn rows_of_a_box_have_the_positions_of_its_cells() {
        let mut rows = Vec::new();
        each_row(&[3, 4, 5], &[1, 2, 3], &[2, 2, 2], |at, inside, len| rows.push((at, inside, len)));
        assert_eq!(rows, [(33, 0, 2), (38, 2, 2), (53, 4, 2), (58, 6, 2)]);
        let mut rows = Vec::new();
        each_row(&[], &[], &[], |at, inside, len| rows.push((at, inside, len)));
        assert_eq!(rows, [(0, 0, 1)]);
    }
}
