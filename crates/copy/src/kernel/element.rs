//! Moves one element. The code for its exact width is chosen once per copy and inlined into the loops.

/// Moves one element from `src` to `dst`; neither needs to be aligned.
pub(super) trait Mover: Copy {
    /// Whether loops move four elements at a time, so that address arithmetic does not limit the speed.
    const BY_FOURS: bool = true;

    /// Bytes of an element if loops without prefetching move eight at a time, computing each address from the previous
    /// one; else 0. For 1 to 16 bytes in the cache this is 1.02 to 1.1 times as fast as four or one at a time (Zen 5).
    const BY_EIGHTS: usize = 0;

    /// Whether loops prefetch the lines of later elements.
    const PREFETCHES: bool = false;

    /// Whether loops prefetch destination lines that several elements share.
    const PREFETCHES_SHARED: bool = false;

    /// The mover for elements of `len` bytes, which must be in its range.
    fn of(len: usize) -> Self;

    /// # Safety
    /// `src` is readable and `dst` writable for the element's bytes, and the two do not overlap.
    unsafe fn mv(self, src: *const u8, dst: *mut u8);

    /// Moves two elements to adjacent places; for movers of fixed length ([`BY_EIGHTS`](Self::BY_EIGHTS)).
    ///
    /// # Safety
    /// As for [`mv`](Self::mv), for both elements.
    #[inline(always)]
    unsafe fn two(self, first: *const u8, second: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe {
            self.mv(first, dst);
            self.mv(second, dst.add(Self::BY_EIGHTS));
        }
    }
}

/// Moves `W` bytes, 16 at a time with ascending addresses. Stores in descending order, which compilers choose for a
/// copy of known length, take more than twice as long in the cache if elements begin inside lines.
///
/// # Safety
/// `src` is readable and `dst` writable for `W` bytes, and the two do not overlap.
#[inline(always)]
pub(super) unsafe fn exactly<const W: usize>(src: *const u8, dst: *mut u8) {
    let mut at = 0;
    // SAFETY: the caller's guarantee.
    unsafe {
        while at + 16 <= W {
            sixteen(src.add(at), dst.add(at));
            at += 16;
        }
        std::ptr::copy_nonoverlapping(src.add(at), dst.add(at), W % 16);
    }
}

/// # Safety
/// As for [`exactly`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn sixteen(src: *const u8, dst: *mut u8) {
    use std::arch::x86_64::{_mm_loadu_si128, _mm_storeu_si128};
    // SAFETY: the caller's guarantee; neither needs alignment.
    unsafe { _mm_storeu_si128(dst.cast(), _mm_loadu_si128(src.cast())) }
}

/// # Safety
/// As for [`exactly`].
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn sixteen(src: *const u8, dst: *mut u8) {
    // SAFETY: the caller's guarantee.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, 16) }
}

/// Moves two elements of 8 bytes by one store. With fewer instructions per element, more loads from memory are under
/// way.
///
/// # Safety
/// `first` and `second` are readable for 8 bytes, `dst` is writable for 16.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn eight_twice(first: *const u8, second: *const u8, dst: *mut u8) {
    use std::arch::x86_64::{_mm_loadl_epi64, _mm_storeu_si128, _mm_unpacklo_epi64};
    // SAFETY: the caller's guarantee; none needs alignment.
    unsafe {
        let both = _mm_unpacklo_epi64(_mm_loadl_epi64(first.cast()), _mm_loadl_epi64(second.cast()));
        _mm_storeu_si128(dst.cast(), both);
    }
}

/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn eight_twice(first: *const u8, second: *const u8, dst: *mut u8) {
    // SAFETY: the caller's guarantee.
    unsafe {
        exactly::<8>(first, dst);
        exactly::<8>(second, dst.add(8));
    }
}

/// Moves exactly `W` bytes at once.
#[derive(Clone, Copy)]
pub(super) struct Fixed<const W: usize>;

impl<const W: usize> Mover for Fixed<W> {
    const BY_FOURS: bool = W != 16;
    const BY_EIGHTS: usize = if matches!(W, 1 | 2 | 4 | 8 | 16) { W } else { 0 };
    const PREFETCHES: bool = W <= 8;
    const PREFETCHES_SHARED: bool = W <= 16;

    fn of(_len: usize) -> Self {
        Fixed
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe { exactly::<W>(src, dst) }
    }

    #[inline(always)]
    unsafe fn two(self, first: *const u8, second: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe {
            if W == 8 {
                return eight_twice(first, second, dst);
            }
            exactly::<W>(first, dst);
            exactly::<W>(second, dst.add(W));
        }
    }
}

/// Moves `H..=2 * H` bytes by two moves of `H`, which may overlap.
#[derive(Clone, Copy)]
pub(super) struct Halves<const H: usize>(usize);

impl<const H: usize> Mover for Halves<H> {
    fn of(len: usize) -> Self {
        Halves(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        let tail = self.0 - H;
        // SAFETY: the caller's guarantee, since `H <= len`, both halves lie in the element.
        unsafe {
            exactly::<H>(src, dst);
            exactly::<H>(src.add(tail), dst.add(tail));
        }
    }
}

/// Moves 64 bytes and more, 64 at a time, beginning at multiples of 16 in the destination. The first 16 bytes and the
/// last move are exceptions, and may overlap the others.
///
/// No store crosses a line, and addresses ascend. In the cache this is as fast as one long `memcpy`; a `memcpy` per
/// element, or wider stores that cross lines, take 1.2 to 2 times as long.
#[derive(Clone, Copy)]
pub(super) struct Lines(usize);

impl Lines {
    /// The longest element for these movers; for longer ones `memcpy` is fast.
    pub(super) const LONGEST: usize = 2048;

    /// Moves an element, and calls `each` with the address of every 64 bytes of it.
    ///
    /// # Safety
    /// As for [`Mover::mv`].
    #[inline(always)]
    pub(super) unsafe fn mv_calling(self, src: *const u8, dst: *mut u8, mut each: impl FnMut(usize)) {
        let tail = self.0 - 64;
        let mut at = dst.addr().wrapping_neg() % 16;
        // SAFETY: the caller's guarantee; `at < tail` keeps 64 bytes at `at` inside the element, which has 64 bytes or
        // more.
        unsafe {
            if at > 0 {
                exactly::<16>(src, dst);
            }
            while at < tail {
                each(at);
                exactly::<64>(src.add(at), dst.add(at));
                at += 64;
            }
            each(tail);
            exactly::<64>(src.add(tail), dst.add(tail));
        }
    }
}

impl Mover for Lines {
    const BY_FOURS: bool = false;

    fn of(len: usize) -> Self {
        Lines(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe { self.mv_calling(src, dst, |_| ()) }
    }
}

/// Moves any length by the platform's `memcpy`.
#[derive(Clone, Copy)]
pub(super) struct Long(usize);

impl Mover for Long {
    fn of(len: usize) -> Self {
        Long(len)
    }

    #[inline(always)]
    unsafe fn mv(self, src: *const u8, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, self.0) }
    }
}

/// Reads 16 bytes of elements of `W` bytes (4 or 8) into one register.
///
/// # Safety
/// `16 / W` elements are readable from `src` on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) unsafe fn packed<const W: usize>(src: *const u8, stride: isize) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::{_mm_set_epi32, _mm_set_epi64x};
    // SAFETY: the caller's guarantee; none needs alignment.
    unsafe {
        if W == 8 {
            let at = |k: isize| src.wrapping_offset(k * stride).cast::<i64>().read_unaligned();
            _mm_set_epi64x(at(1), at(0))
        } else {
            let at = |k: isize| src.wrapping_offset(k * stride).cast::<i32>().read_unaligned();
            _mm_set_epi32(at(3), at(2), at(1), at(0))
        }
    }
}
