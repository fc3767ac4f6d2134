//! Buffers that outlive a put or a read and are reused by the next one.
//!
//! Fresh memory is expensive: the kernel clears each page at its first use. For encoded subchunks of some MiB that
//! takes as long as a fast codec.
//!
//! Invariants
//! - the next user of a buffer never sees its old content: `forget` clears everything that describes it;
//! - the pool is bounded: each kind of buffer has a greatest number and a greatest size (96 MiB in all, usually far
//!   less);
//! - taking a buffer never waits: fresh memory is used while another thread holds the list, or if a fork left it
//!   locked.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// Buffers of one kind that are worth pooling.
pub(crate) trait Kept: Default + 'static {
    /// The most pooled buffers, and the most bytes of each.
    const MOST: (usize, usize);

    /// The number of bytes that it holds.
    fn held(&self) -> usize;

    /// Clears everything that describes the old content.
    fn forget(&mut self);

    /// The pooled buffers that are not in use.
    fn spare() -> &'static Mutex<Vec<Self>>;
}

/// A buffer from the pool. It returns to the pool when it is dropped.
pub(crate) struct Lent<T: Kept>(T);

impl<T: Kept> Lent<T> {
    /// A buffer from the pool, or a new one.
    pub(crate) fn take() -> Lent<T> {
        let mut kept = T::spare().try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
        kept.forget();
        Lent(kept)
    }
}

impl<T: Kept> Drop for Lent<T> {
    fn drop(&mut self) {
        let (count, bytes) = T::MOST;
        if self.0.held() <= bytes
            && let Ok(mut spare) = T::spare().try_lock()
            && spare.len() < count
        {
            spare.push(std::mem::take(&mut self.0));
        }
    }
}

impl<T: Kept> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Kept> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Encoded bytes until they are stored.
impl Kept for Vec<u8> {
    const MOST: (usize, usize) = (8, 3 << 20);

    fn held(&self) -> usize {
        self.capacity()
    }

    fn forget(&mut self) {
        self.clear();
    }

    fn spare() -> &'static Mutex<Vec<Self>> {
        static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
        &SPARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_buffers_are_empty_and_too_large_ones_are_not_pooled() {
        let mut one = Lent::<Vec<u8>>::take();
        one.extend_from_slice(&[7; 1000]);
        drop(one);
        assert!(Lent::<Vec<u8>>::take().is_empty());
        drop((0..20).map(|_| Lent::<Vec<u8>>::take()).collect::<Vec<_>>());
        Lent::<Vec<u8>>::take().reserve(Vec::<u8>::MOST.1 + 1);
        let spare = Vec::<u8>::spare().lock().unwrap();
        assert!(spare.len() <= Vec::<u8>::MOST.0);
        assert!(spare.iter().all(|kept| kept.held() <= Vec::<u8>::MOST.1));
    }
}
