//! Working memory that is kept when a put or a read ends, and lent to the next one.
//!
//! Fresh memory is dear: the system clears each page when it is first touched, which for encoded subchunks of some MiB
//! takes as long as a fast codec needs for them.
//!
//! Invariants
//! - nothing that was in it is seen by who gets it next: what tells of content is forgotten when it is taken;
//! - what is kept is bounded: so many of each kind, each up to a size (72 MiB in all, usually far less);
//! - nobody waits for it: where the list is in use (also by a thread that a fork left behind), fresh memory is taken.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// Memory of one kind that is worth keeping.
pub(crate) trait Kept: Default + 'static {
    /// How many are kept at most, and of how many bytes each.
    const MOST: (usize, usize);

    /// Bytes that it holds.
    fn held(&self) -> usize;

    /// Forgets what it was used for.
    fn forget(&mut self);

    /// Those that are not in use.
    fn spare() -> &'static Mutex<Vec<Self>>;
}

/// Some of it; goes back when it is dropped.
pub(crate) struct Lent<T: Kept>(T);

impl<T: Kept> Lent<T> {
    /// Memory that was used before, if there is some.
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

/// What was encoded, until it is stored.
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
    fn what_is_lent_is_empty_and_what_is_too_large_is_not_kept() {
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
