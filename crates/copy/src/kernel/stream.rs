//! Stores that bypass the caches.
//!
//! A store to a line that is not cached first reads the line. If a destination is too large to stay in the cache, that
//! read is a third of the traffic, which stores that bypass the caches save. They are faster only for whole lines, so
//! short elements are first gathered in a small stage.
//!
//! Measured: slower than plain stores up to 1 MiB, equally fast at 4 MiB, 1.6 times as fast from 16 MiB on.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
pub(super) use register::put;
pub(crate) use stores::prefetch_for_write;
pub(super) use stores::{copy_aligned, pack, prefetch, prefetch_near};

/// A destination buffer of at least this many bytes does not stay in the cache, so copies into it bypass
/// it. (Miri is too slow for such buffers, and takes this path from a page on.)
pub(crate) const FAR_BUFFER: usize = if cfg!(miri) { 4 << 10 } else { 4 << 20 };
/// A destination buffer of at least this many bytes is assumed not to be in a processor's own caches: lines with gaps
/// between them are prefetched before they are written.
pub(super) const UNCACHED_BUFFER: usize = if cfg!(miri) { 4 << 10 } else { 1 << 20 };
/// A copy of fewer bytes than this uses plain stores even into a large buffer, since its result may be read at once.
pub(super) const FAR_COPY: u64 = if cfg!(miri) { 1 << 10 } else { 64 << 10 };

/// Whether this machine has stores that bypass the caches.
pub(crate) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// A buffer for short elements before they are stored to memory; it fits in the first-level cache.
#[repr(align(64))]
pub(super) struct Stage(MaybeUninit<[u8; Stage::LEN]>);

impl Stage {
    /// Bytes of a stage.
    pub(super) const LEN: usize = 16 << 10;

    /// An empty stage.
    pub(super) fn new() -> Stage {
        Stage(MaybeUninit::uninit())
    }

    /// Its bytes, which are uninitialised until they are written.
    pub(super) fn bytes(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Copies `len` bytes; whole destination lines bypass the caches. [`finish`] must follow the last call.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, and the two do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    let head = dst.align_offset(LINE).min(len);
    let lines = (len - head) / LINE * LINE;
    let tail = len - head - lines;
    // SAFETY: head, lines and tail make up `len`, and the lines begin at a multiple of LINE.
    unsafe {
        if head > 0 {
            std::ptr::copy_nonoverlapping(src, dst, head);
        }
        copy_aligned(src.add(head), dst.add(head), lines);
        if tail > 0 {
            std::ptr::copy_nonoverlapping(src.add(head + lines), dst.add(head + lines), tail);
        }
    }
}

/// [`copy`] of a run, while the lines of a later run at `ahead` are prefetched. The hardware prefetcher detects a
/// sequential run only when half of it has been read, and reads beyond its end. `ahead` may be any address.
///
/// Measured with every other run of 512, 1024 and 4096 bytes from memory: 78, 80 and 104 % of memcpy, and 57, 60 and 80
/// % without prefetching; for runs of 512 bytes that are 4 KiB apart, 60 % and 46 %. Prefetching all lines of a run at
/// once, before any is copied, undoes half of that from 1024 bytes on.
///
/// If `PACKED`, the lines in which a run begins or ends bypass the caches too, and the adjacent runs complete them. If
/// runs begin 16 bytes into a line, plain stores to their ends would make runs of 256 bytes take twice as long.
///
/// # Safety
/// As for [`copy`]; if `PACKED`, `len` and the address `dst` are multiples of 16.
#[inline(always)]
pub(super) unsafe fn copy_prefetching<const PACKED: bool>(
    src: *const u8,
    dst: *mut u8,
    len: usize,
    ahead: *const u8,
) {
    if PACKED {
        for at in (0..len).step_by(LINE) {
            prefetch(ahead.wrapping_add(at));
            // SAFETY: the caller's guarantee; the rest is a multiple of 16 as well.
            unsafe { copy_aligned(src.add(at), dst.add(at), LINE.min(len - at)) }
        }
        return;
    }
    let head = dst.align_offset(LINE).min(len);
    let lines = head + (len - head) / LINE * LINE;
    prefetch(ahead);
    // SAFETY: head, lines and tail make up `len`, and each line begins at a multiple of LINE.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        let mut at = head;
        while at < lines {
            prefetch(ahead.wrapping_add(at));
            copy_aligned(src.add(at), dst.add(at), LINE);
            at += LINE;
        }
        if lines < len {
            prefetch(ahead.wrapping_add(lines));
            std::ptr::copy_nonoverlapping(src.add(lines), dst.add(lines), len - lines);
        }
    }
}

/// Bytes that are stored to memory one after the other, in whole lines wherever they are adjacent.
pub(crate) struct Lines {
    line: Line,
    /// The place of the next byte.
    at: *mut u8,
    /// Where the incomplete line begins; it ends at `at`.
    from: usize,
}

#[repr(align(64))]
struct Line([u8; LINE]);

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { line: Line([0; LINE]), at: std::ptr::null_mut(), from: 0 }
    }

    /// Copies `len` bytes. An incomplete line waits for the bytes after it. While a line is stored, the one `ahead`
    /// bytes further on is prefetched.
    ///
    /// # Safety
    /// As for [`copy`]. Until [`settle`](Self::settle) is called, no other thread may use the destination.
    #[inline(always)]
    pub(crate) unsafe fn put(&mut self, mut src: *const u8, dst: *mut u8, mut len: usize, ahead: usize) {
        // SAFETY: the caller's guarantee; `off` and what is added to it stay below a line.
        unsafe {
            if dst != self.at {
                self.settle();
                (self.at, self.from) = (dst, dst.addr() % LINE);
            }
            let off = self.at.addr() % LINE;
            if off > 0 {
                let n = (LINE - off).min(len);
                prefetch_near(src.wrapping_add(ahead));
                copy_part(src, self.line.0.as_mut_ptr().add(off), n);
                self.at = self.at.add(n);
                (src, len) = (src.add(n), len - n);
                if off + n < LINE {
                    return;
                }
                // The line may begin before the destination; those bytes are not written.
                let line = self.at.wrapping_sub(LINE);
                if self.from == 0 {
                    copy_aligned(self.line.0.as_ptr(), line, LINE);
                } else {
                    let waiting = self.line.0.as_ptr().add(self.from);
                    std::ptr::copy_nonoverlapping(waiting, line.wrapping_add(self.from), LINE - self.from);
                }
                self.from = 0;
            }
            while len >= LINE {
                prefetch_near(src.wrapping_add(ahead));
                copy_aligned(src, self.at, LINE);
                self.at = self.at.add(LINE);
                (src, len) = (src.add(LINE), len - LINE);
            }
            if len > 0 {
                prefetch_near(src.wrapping_add(ahead));
                copy_part(src, self.line.0.as_mut_ptr(), len);
                self.at = self.at.add(len);
            }
        }
    }

    /// Writes the pending bytes.
    ///
    /// # Safety
    /// The destinations given to [`put`](Self::put) are still valid.
    pub(crate) unsafe fn settle(&mut self) {
        let off = self.at.addr() % LINE;
        if off > self.from {
            let waiting = off - self.from;
            // SAFETY: these bytes were given with this place.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.line.0.as_ptr().add(self.from),
                    self.at.sub(waiting),
                    waiting,
                );
            }
        }
        self.from = off;
    }
}

/// Copies less than a line, mostly a multiple of 8 bytes.
///
/// # Safety
/// As for [`copy`].
#[inline(always)]
unsafe fn copy_part(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's guarantee; every step stays below `len`.
    unsafe {
        if !len.is_multiple_of(8) {
            return std::ptr::copy_nonoverlapping(src, dst, len);
        }
        let mut at = 0;
        while at + 16 <= len {
            dst.add(at).cast::<[u64; 2]>().write_unaligned(src.add(at).cast::<[u64; 2]>().read_unaligned());
            at += 16;
        }
        if at < len {
            dst.add(at).cast::<u64>().write_unaligned(src.add(at).cast::<u64>().read_unaligned());
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stores {
    use std::arch::x86_64::*;

    use super::super::element::packed;

    /// Copies `len` bytes, a multiple of 16, to an aligned destination.
    ///
    /// # Safety
    /// As for [`super::copy`]; `dst` is aligned to 16 bytes.
    #[inline(always)]
    pub(in super::super) unsafe fn copy_aligned(src: *const u8, dst: *mut u8, len: usize) {
        let mut at = 0;
        // SAFETY: every access is below `len`, and aligned in the destination.
        unsafe {
            while at + 64 <= len {
                let (from, to) = (src.add(at).cast::<__m128i>(), dst.add(at).cast::<__m128i>());
                let line = [0, 1, 2, 3].map(|k| _mm_loadu_si128(from.add(k)));
                for (k, part) in line.into_iter().enumerate() {
                    _mm_stream_si128(to.add(k), part);
                }
                at += 64;
            }
            while at < len {
                _mm_stream_si128(dst.add(at).cast(), _mm_loadu_si128(src.add(at).cast()));
                at += 16;
            }
        }
    }

    /// Prefetches a line into the first-level cache.
    #[inline(always)]
    pub(in super::super) fn prefetch(line: *const u8) {
        // SAFETY: prefetching accesses no memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
    }

    /// Prefetches a line into the second-level cache: more of these prefetches can be under way than of those into the
    /// first.
    #[inline(always)]
    pub(in super::super) fn prefetch_near(line: *const u8) {
        // SAFETY: prefetching accesses no memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }

    /// Prefetches a line for writing, into the first-level cache.
    #[inline(always)]
    pub(crate) fn prefetch_for_write(line: *const u8) {
        // SAFETY: prefetching accesses no memory, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast()) }
    }

    /// Gathers 16 bytes of elements of `W` bytes (4 or 8) and writes them in one store.
    ///
    /// # Safety
    /// `16 / W` elements are readable from `src` on, 16 bytes writable at `dst`, which is aligned to 16.
    #[inline(always)]
    pub(in super::super) unsafe fn pack<const W: usize>(src: *const u8, stride: isize, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe { _mm_stream_si128(dst.cast(), packed::<W>(src, stride)) }
    }
}

#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::x86_64::*;

    /// Stores a register past the caches; under Miri, which does not support such stores, by a plain one.
    ///
    /// # Safety
    /// 16 bytes are writable at `dst`, a multiple of 16.
    #[inline(always)]
    pub(in super::super) unsafe fn put(register: __m128i, dst: *mut u8) {
        // SAFETY: the caller's guarantee.
        unsafe {
            match cfg!(miri) {
                true => _mm_store_si128(dst.cast(), register),
                false => _mm_stream_si128(dst.cast(), register),
            }
        }
    }
}

/// The same with plain stores, for machines that have no others.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod stores {
    /// # Safety
    /// As for [`super::copy`].
    pub(in super::super) unsafe fn copy_aligned(src: *const u8, dst: *mut u8, len: usize) {
        // SAFETY: the caller's guarantee.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
    }

    /// Does nothing: there is no prefetch here.
    pub(in super::super) fn prefetch(_line: *const u8) {}

    /// Does nothing: there is no prefetch here.
    pub(in super::super) fn prefetch_near(_line: *const u8) {}

    /// Does nothing: there is no prefetch here.
    pub(crate) fn prefetch_for_write(_line: *const u8) {}

    /// # Safety
    /// `16 / W` elements are readable from `src` on, 16 bytes are writable at `dst`.
    pub(in super::super) unsafe fn pack<const W: usize>(src: *const u8, stride: isize, dst: *mut u8) {
        for k in 0..16 / W {
            // SAFETY: the caller's guarantee.
            unsafe {
                std::ptr::copy_nonoverlapping(src.wrapping_offset(k as isize * stride), dst.add(k * W), W);
            }
        }
    }
}

/// Makes what [`copy`] wrote visible to other threads in the usual order.
pub(crate) fn finish() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
