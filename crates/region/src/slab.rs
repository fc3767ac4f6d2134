//! Slabs: parts of a dense box that are one run of bytes each; and memory from which they are copied. Pure.

/// Memory that another process may write to meanwhile.
pub trait Lent: Send + Sync {
    /// Its bytes.
    fn len(&self) -> usize;
    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Copies the bytes from `at` on, which must lie in it.
    fn copy_out(&self, at: usize, out: &mut [u8]);
}

/// A part of a dense box that is one run of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slab {
    /// First cell within the box.
    pub(super) offset: Vec<u64>,
    /// Extents.
    pub(super) count: Vec<u64>,
    /// First byte.
    pub(super) at: usize,
    /// Bytes.
    pub(super) len: usize,
}

/// A dense box in runs of at most `most` bytes, one element at least. Pure.
pub(super) fn slabs(count: &[u64], item: usize, most: usize) -> Vec<Slab> {
    let most = (most / item.max(1)).max(1) as u64;
    // Axes after `axis` fit as a whole, and some cells of `axis` with them.
    let mut axis = count.len();
    let mut inner = 1_u64;
    while axis > 0 && inner.saturating_mul(count.get(axis - 1).copied().unwrap_or(1)) <= most {
        axis -= 1;
        inner = inner.saturating_mul(count.get(axis).copied().unwrap_or(1));
    }
    let bytes = |cells: u64| usize::try_from(cells).unwrap_or(usize::MAX).saturating_mul(item);
    let Some(cut) = axis.checked_sub(1) else {
        let len = bytes(count.iter().product());
        return vec![Slab { offset: vec![0; count.len()], count: count.to_vec(), at: 0, len }];
    };
    let rows = (most / inner.max(1)).max(1);
    let mut out = Vec::new();
    let (mut offset, mut at) = (vec![0; count.len()], 0);
    let extent = |axis: usize| count.get(axis).copied().unwrap_or(0);
    loop {
        let first = offset.get(cut).copied().unwrap_or(0);
        let n = rows.min(extent(cut).saturating_sub(first));
        let part = (0..count.len()).map(|axis| match axis.cmp(&cut) {
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => n,
            std::cmp::Ordering::Greater => extent(axis),
        });
        let len = bytes(n.saturating_mul(inner));
        out.push(Slab { offset: offset.clone(), count: part.collect(), at, len });
        at += len;
        // The next run: the index counts up like an odometer.
        let mut axis = cut;
        let mut by = n;
        loop {
            let Some(place) = offset.get_mut(axis) else { return out };
            *place += by;
            if *place < extent(axis) {
                break;
            }
            *place = 0;
            by = 1;
            match axis.checked_sub(1) {
                Some(above) => axis = above,
                None => return out,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_the_whole_box_in_runs_that_are_short_enough() {
        for count in [vec![], vec![7], vec![3, 5], vec![2, 1, 9], vec![1, 4, 2, 3], vec![5, 100]] {
            let cells: u64 = count.iter().product();
            for most in [1, 4, 12, 40, 64, 10_000] {
                let (item, mut at) = (4, 0);
                for slab in slabs(&count, item, most) {
                    assert_eq!(slab.at, at, "{count:?} in {most}");
                    assert_eq!(slab.len, slab.count.iter().product::<u64>() as usize * item);
                    assert!(slab.len <= most.max(item));
                    // Its first cell is the one at this byte.
                    let index = slab.offset.iter().zip(&count).fold(0, |index, (o, n)| index * n + o);
                    assert_eq!(index as usize * item, at);
                    at += slab.len;
                }
                assert_eq!(at, cells as usize * item, "{count:?} in {most}");
            }
        }
    }
}
