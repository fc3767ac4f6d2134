//! Which bytes of an arena are free. Pure. Allocation is first fit from the beginning, so that memory is reused early.

use std::collections::BTreeMap;

/// Pieces begin at multiples of this: a page, so that two pieces share neither a page nor a cache line.
pub(crate) const ALIGN: usize = 4096;

/// Free ranges, as offset and length. No two are adjacent.
#[derive(Debug)]
pub(crate) struct Room {
    free: BTreeMap<usize, usize>,
}

impl Room {
    pub(crate) fn new(len: usize) -> Room {
        let len = len - len % ALIGN;
        Room { free: (len > 0).then_some((0, len)).into_iter().collect() }
    }

    /// Allocates this many bytes, not 0, and returns their offset; `None` if no range is long enough.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let len = rounded(len)?;
        let (at, room) = self.free.iter().map(|(at, room)| (*at, *room)).find(|(_, room)| *room >= len)?;
        self.free.remove(&at);
        if room > len {
            self.free.insert(at + len, room - len);
        }
        Some(at)
    }

    /// Frees the bytes that [`Room::take`] allocated for this length.
    pub(crate) fn give(&mut self, mut at: usize, len: usize) {
        let Some(mut len) = rounded(len) else { return };
        if let Some((before, room)) = self.free.range(..at).next_back().map(|(at, room)| (*at, *room))
            && before + room == at
        {
            self.free.remove(&before);
            (at, len) = (before, len + room);
        }
        if let Some(behind) = self.free.remove(&(at + len)) {
            len += behind;
        }
        self.free.insert(at, len);
    }
}

fn rounded(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a model that records which pages are allocated, on random requests.
    #[test]
    fn no_byte_is_given_twice_and_all_come_back() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let pages = 64;
        let (mut room, mut taken, mut held) = (Room::new(pages * ALIGN + 5), vec![false; pages], Vec::new());
        for _ in 0..20_000 {
            if random(2) == 0 && !held.is_empty() {
                let (at, len): (usize, usize) = held.swap_remove(random(held.len()));
                room.give(at, len);
                taken[at / ALIGN..(at + len).div_ceil(ALIGN)].fill(false);
                continue;
            }
            let len = 1 + random(9 * ALIGN);
            let need = len.div_ceil(ALIGN);
            let fits = taken.windows(need).any(|run| run.iter().all(|taken| !taken));
            match room.take(len) {
                Some(at) => {
                    let run = &mut taken[at / ALIGN..at / ALIGN + need];
                    assert!(at % ALIGN == 0 && run.iter().all(|taken| !*taken));
                    run.fill(true);
                    held.push((at, len));
                }
                None => assert!(!fits, "there was a run of {need} pages"),
            }
        }
        held.into_iter().for_each(|(at, len)| room.give(at, len));
        assert_eq!(room.take(pages * ALIGN), Some(0));
        assert_eq!(room.take(1), None);
        assert_eq!(room.take(usize::MAX), None);
    }
}
