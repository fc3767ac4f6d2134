//! Moving one element: the code for its exact width, chosen once per copy and inlined into the loops.

/// Moves one element from `src` to `dst`; neither needs alignment.
pub(super) trait Mover: Copy {
    /// Whether loops move four at a time, so that address arithmetic does not limit the pace. It does not with 16 bytes, where one
    /// at a time is 1.1 times as fast in the cache.
    const BY_FOURS: bool = true;

    /// For elements of `len` bytes, which must be in the mover's range.
    fn of(len: usize) -> Self;

    /// # Safety
    /// `src` is readable and `dst` writable for the element's bytes, and the two do not overlap.
    unsafe fn mv(self, src: *const u8, dst: *mut u8);
}

/// Exactly `W` bytes in one go.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const W: usize>;

impl<const W: usize> Mover for Fixed<W> {
    const BY_FOURS: bool = W != 16;

    fn of(_len: usize) -> Self {
        Fixed
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: by the caller; arrays of bytes have alignment 1.
        unsafe { *dst.cast::<[u8; W]>() = *src.cast::<[u8; W]>() }
    }
}

/// `H..=2 * H` bytes as two moves of `H` that may overlap.
#[derive(Clone, Copy)]
pub(super) struct Halves<const H: usize>(usize);

impl<const H: usize> Mover for Halves<H> {
    fn of(len: usize) -> Self {
        Halves(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        let tail = self.0 - H;
        // SAFETY: by the caller, since `H <= len`, both halves lie in the element.
        unsafe {
            let (first, last) = (*src.cast::<[u8; H]>(), *src.add(tail).cast::<[u8; H]>());
            *dst.cast::<[u8; H]>() = first;
            *dst.add(tail).cast::<[u8; H]>() = last;
        }
    }
}

/// 64 bytes and more in moves of 64, the last of which may overlap the one before.
#[derive(Clone, Copy)]
pub(super) struct Lines(usize);

impl Mover for Lines {
    fn of(len: usize) -> Self {
        Lines(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        let tail = self.0 - 64;
        let mut at = 0;
        // SAFETY: by the caller; `at < tail` keeps 64 bytes at `at` inside the element.
        unsafe {
            while at < tail {
                *dst.add(at).cast::<[u8; 64]>() = *src.add(at).cast::<[u8; 64]>();
                at += 64;
            }
            *dst.add(tail).cast::<[u8; 64]>() = *src.add(tail).cast::<[u8; 64]>();
        }
    }
}

/// Any length, by the platform's `memcpy`, which has wider moves than [`Lines`] can count on: from 192 bytes on it is 1.2 to 1.9
/// times as fast in the cache.
#[derive(Clone, Copy)]
pub(super) struct Long(usize);

impl Mover for Long {
    fn of(len: usize) -> Self {
        Long(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: by the caller.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, self.0) }
    }
}
