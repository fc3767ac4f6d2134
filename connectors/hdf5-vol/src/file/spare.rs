//! Reused memory for buffered cells. Fresh memory costs a program as much as the copy into it, since the
//! kernel clears it page by page. So buffers are kept for the next burst of writes, and fresh memory is
//! requested in huge pages.
//!
//! Invariant: kept buffers take no more bytes than were allowed when they were returned.

/// Smaller buffers come from the allocator directly.
const LARGE: usize = 1 << 20;

/// Memory that was used before.
#[derive(Default)]
pub struct Spare {
    kept: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spare {
    /// An empty buffer with this capacity.
    pub(crate) fn take(&mut self, room: usize) -> Vec<u8> {
        let fits = |v: &Vec<u8>| (room..=room.saturating_mul(2)).contains(&v.capacity());
        match self.kept.iter().position(fits) {
            Some(at) if room >= LARGE => {
                let found = self.kept.swap_remove(at);
                self.bytes -= found.capacity();
                found
            }
            _ => fresh(room),
        }
    }

    /// Keeps the buffer for later, if all kept buffers then take at most this many bytes.
    pub(crate) fn give(&mut self, mut memory: Vec<u8>, most: u64) {
        if memory.capacity() >= LARGE && (self.bytes + memory.capacity()) as u64 <= most {
            memory.clear();
            self.bytes += memory.capacity();
            self.kept.push(memory);
        }
    }
}

fn fresh(room: usize) -> Vec<u8> {
    const HUGE: usize = 2 << 20;
    let memory = Vec::with_capacity(room);
    let begin = (memory.as_ptr() as usize).next_multiple_of(HUGE);
    let end = (memory.as_ptr() as usize + memory.capacity()) / HUGE * HUGE;
    if begin < end {
        // SAFETY: whole pages within memory that is ours; the advice changes no byte, and a refusal has no
        // effect.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_buffers_are_reused_and_no_more_are_kept_than_allowed() {
        let mut spare = Spare::default();
        let mut first = spare.take(3 * LARGE);
        assert!(first.is_empty() && first.capacity() >= 3 * LARGE);
        first.push(1);
        let place = first.as_ptr();
        spare.give(first, 4 << 20);
        spare.give(Vec::with_capacity(2 * LARGE), 4 << 20); // both would be too much
        let again = spare.take(2 * LARGE);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert_eq!((spare.kept.len(), spare.bytes), (0, 0));
    }

    #[test]
    fn much_larger_memory_is_not_taken_for_little() {
        let mut spare = Spare::default();
        spare.give(Vec::with_capacity(64 << 20), 64 << 20);
        assert!(spare.take(LARGE).capacity() < 64 << 20);
        assert_eq!(spare.bytes, 64 << 20);
    }
}
