//! Runs one copy on several threads.

use crate::copy::StridedCopy;
use crate::error::CopyError;

/// Copies of fewer bytes run on one thread, since starting threads would cost more than it saves.
pub const THREAD_THRESHOLD: u64 = if cfg!(miri) { 4 << 10 } else { 4 << 20 };

/// A buffer that several threads write, each to its own cells.
#[derive(Clone, Copy)]
struct SharedDst(*mut u8, usize);

// SAFETY: the pointer is only used for cells that one thread alone writes; see `run_threaded`.
unsafe impl Send for SharedDst {}

impl StridedCopy {
    /// Like [`run`](Self::run), on up to `threads` threads, which end before it returns. Copies below
    /// [`THREAD_THRESHOLD`] bytes, and all copies if `threads` is 0 or 1, run on this thread.
    pub fn run_threaded(&self, src: &[u8], dst: &mut [u8], threads: usize) -> Result<(), CopyError> {
        if threads <= 1 || self.bytes() < THREAD_THRESHOLD {
            return self.run(src, dst);
        }
        self.check(src.len() as u64, dst.len() as u64)?;
        let mut pieces = self.split(threads);
        let last = pieces.pop();
        let shared = SharedDst(dst.as_mut_ptr(), dst.len());
        std::thread::scope(|scope| {
            for piece in &pieces {
                scope.spawn(move || {
                    let SharedDst(dst, len) = { shared };
                    // SAFETY: `dst` stays exclusively borrowed until the scope ends, and the pieces
                    // of a split write disjoint cells.
                    unsafe { piece.run_raw(src.as_ptr(), src.len(), dst, len) }
                });
            }
            // SAFETY: as above.
            last.map_or(Ok(()), |piece| unsafe { piece.run_raw(src.as_ptr(), src.len(), shared.0, shared.1) })
        })
    }
}
