//! Fills adjacent bytes with one repeated element.

/// Most bytes that one repetition copies, so that they are read from the first-level cache.
const STRETCH: usize = 4096;

/// Repeats the `elem` bytes at `src` over `len` bytes at `dst`; `elem` divides `len`.
///
/// # Safety
/// `src` is readable for `elem` bytes, `dst` writable for `len`, `0 < elem <= len`, and the two do not overlap.
pub(super) unsafe fn splat(src: *const u8, elem: usize, dst: *mut u8, len: usize) {
    // SAFETY: the caller's guarantee; every write stays below `len`, and copies within `dst` go from a filled
    // prefix to the bytes right after it, in pieces no longer than the prefix.
    unsafe {
        let first = *src;
        if std::slice::from_raw_parts(src, elem).iter().all(|&byte| byte == first) {
            return std::ptr::write_bytes(dst, first, len);
        }
        std::ptr::copy_nonoverlapping(src, dst, elem);
        let mut filled = elem;
        while filled < len {
            let whole = filled.min(STRETCH.next_multiple_of(elem)).min(len - filled);
            std::ptr::copy_nonoverlapping(dst, dst.add(filled), whole);
            filled += whole;
        }
    }
}
