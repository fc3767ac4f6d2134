//! The values of a release: bytes of this process, or memory that another process may still write to.
//!
//! Invariants
//! - of lent memory each byte is read once, by a copy; checksums, codecs and results in transit see only the copy;
//! - a copy has bounded length, however long the release is, unless results in transit need all of it.

use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of lent memory that are copied at once.
const SLAB: usize = 32 << 20;

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

/// Elements of the variable's type, dense, in C order.
#[derive(Clone)]
pub enum Values {
    /// Bytes that nobody changes.
    Owned(Vec<u8>),
    /// Memory of another process; it is held until it has been written.
    Lent(Arc<dyn Lent>),
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if matches!(self, Values::Owned(_)) { "owned" } else { "lent" };
        write!(f, "{} bytes, {kind}", self.len())
    }
}

/// A part of a dense box that is one run of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slab {
    offset: Vec<u64>,
    count: Vec<u64>,
    at: usize,
    len: usize,
}

impl Values {
    /// Bytes.
    pub fn len(&self) -> usize {
        match self {
            Values::Owned(bytes) => bytes.len(),
            Values::Lent(memory) => memory.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of this process that it occupies.
    pub(super) fn held(&self) -> usize {
        match self {
            Values::Owned(bytes) => bytes.len(),
            Values::Lent(_) => 0,
        }
    }

    /// All of them.
    pub(super) fn whole(&self) -> Cow<'_, [u8]> {
        match self {
            Values::Owned(bytes) => Cow::Borrowed(bytes),
            Values::Lent(memory) => {
                let mut out = vec![0; memory.len()];
                memory.copy_out(0, &mut out);
                Cow::Owned(out)
            }
        }
    }

    /// Passes on a box of `count` elements of `item` bytes, part by part if it has to be copied: offset and extents
    /// within the box, and bytes.
    pub(super) fn each<E>(
        &self,
        count: &[u64],
        item: usize,
        mut with: impl FnMut(&[u64], &[u64], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Values::Owned(bytes) => with(&vec![0; count.len()], count, bytes),
            Values::Lent(memory) => {
                let mut copy = Vec::new();
                for slab in slabs(count, item, SLAB) {
                    copy.resize(slab.len, 0);
                    memory.copy_out(slab.at, &mut copy);
                    with(&slab.offset, &slab.count, &copy)?;
                }
                Ok(())
            }
        }
    }
}

/// A dense box in runs of at most `most` bytes, one element at least. Pure.
fn slabs(count: &[u64], item: usize, most: usize) -> Vec<Slab> {
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

    struct Memory(Vec<u8>);

    impl Lent for Memory {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn copy_out(&self, at: usize, out: &mut [u8]) {
            out.copy_from_slice(&self.0[at..at + out.len()]);
        }
    }

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

    #[test]
    fn lent_memory_takes_no_room_of_the_queue_and_comes_as_it_is() {
        let bytes: Vec<u8> = (0..=255).collect();
        let lent = Values::Lent(Arc::new(Memory(bytes.clone())));
        assert_eq!((lent.len(), lent.held(), &*lent.whole()), (256, 0, &*bytes));
        let mut seen = Vec::new();
        lent.each(&[16, 8], 2, |_, _, part| {
            seen.extend_from_slice(part);
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(seen, bytes);
        assert_eq!(Values::Owned(bytes).held(), 256);
    }
}
