//! Appends bytes that will not be read soon.

use crate::kernel::stream;

/// Like `Vec::extend_from_slice`, for bytes that are not read again soon. From some MiB on, the stores bypass the
/// caches. This saves reading the destination lines from memory, a third of the traffic, and leaves the caches to
/// computing threads.
pub fn extend_past_caches(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len());
    let len = out.len();
    if !stream::AVAILABLE || bytes.len() < stream::FAR_BUFFER {
        return out.extend_from_slice(bytes);
    }
    // SAFETY: that many bytes were reserved after `len`; a Vec that is borrowed exclusively is no part of `bytes`; all
    // bytes are written before they are counted.
    unsafe {
        stream::copy(bytes.as_ptr(), out.as_mut_ptr().add(len), bytes.len());
        stream::finish();
        out.set_len(len + bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_appended_whatever_their_number_and_place() {
        let far = stream::FAR_BUFFER;
        let bytes: Vec<u8> = (0..far + 333).map(|i| (i * 7 % 251) as u8).collect();
        for (before, len) in [(0, 0), (3, 17), (1, far), (63, far + 333), (64, far + 1)] {
            let mut out = vec![9; before];
            extend_past_caches(&mut out, &bytes[..len]);
            assert!(out[..before].iter().all(|b| *b == 9));
            assert!(out[before..] == bytes[..len], "{before} before {len}");
        }
    }
}
