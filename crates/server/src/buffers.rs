//! Reuses memory for replies and for long bodies of requests. Memory that the system provides anew for each of them
//! costs more time than the bytes in it.
//!
//! Invariants
//! - the memory that is kept is bounded. Memory in use is bounded by admission, as replies are;
//! - a reply contains only bytes that were read for it, and a body only bytes that have arrived.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Memory that is kept for further replies and bodies, in bytes.
const KEPT: usize = 32 << 20;
/// Shorter replies and bodies get memory of their own, which is not reused.
const LEAST: usize = 64 << 10;

/// Memory of replies that were sent, kept for further ones.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    buffers: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Memory of one reply. It is returned when the reply was sent.
struct Lent {
    buffer: Vec<u8>,
    len: usize,
    home: Arc<Buffers>,
}

/// A body that is collected while it arrives.
pub(crate) struct Gathered {
    lent: Lent,
    len: usize,
}

impl Gathered {
    /// Adds the next bytes. Bytes beyond the announced length are dropped.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..bytes.len().min(self.len - self.lent.len)).unwrap_or_default();
        let end = self.lent.len + bytes.len();
        let buffer = &mut self.lent.buffer;
        if buffer.len() < end {
            // Memory is not touched before bytes for it arrive.
            buffer.truncate(self.lent.len);
            buffer.extend_from_slice(bytes);
        } else if let Some(place) = buffer.get_mut(self.lent.len..end) {
            place.copy_from_slice(bytes);
        }
        self.lent.len = end;
    }

    /// The body.
    pub(crate) fn done(self) -> Bytes {
        Bytes::from_owner(self.lent)
    }
}

impl Buffers {
    /// Memory for a body of this length, unless it is short, or so long that its memory would not be kept.
    pub(crate) fn gather(self: &Arc<Self>, len: usize) -> Option<Gathered> {
        if !(LEAST..=KEPT / 2).contains(&len) {
            return None;
        }
        let mut buffer = self.take(len);
        buffer.reserve_exact(len.saturating_sub(buffer.len()));
        Some(Gathered { lent: Lent { buffer, len: 0, home: Arc::clone(self) }, len })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `len` bytes, filled by `fill`.
    pub(crate) fn filled<E>(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Bytes, E> {
        if len < LEAST {
            let mut own = vec![0; len];
            fill(&mut own)?;
            return Ok(own.into());
        }
        let mut lent = Lent { buffer: self.take(len), len, home: Arc::clone(self) };
        if lent.buffer.len() < len {
            lent.buffer.resize(len, 0);
        }
        match lent.buffer.get_mut(..len) {
            Some(place) => fill(place)?,
            None => fill(&mut [])?,
        }
        Ok(Bytes::from_owner(lent))
    }

    /// Takes the shortest kept buffer that is long enough; an empty one if there is none.
    fn take(&self, len: usize) -> Vec<u8> {
        let mut kept = self.lock();
        let fits = |(_, buffer): &(usize, &Vec<u8>)| buffer.len() >= len;
        let best = kept.buffers.iter().enumerate().filter(fits).min_by_key(|(_, buffer)| buffer.len());
        let Some(number) = best.map(|(number, _)| number) else { return Vec::new() };
        let buffer = kept.buffers.remove(number).unwrap_or_default();
        kept.bytes = kept.bytes.saturating_sub(buffer.len());
        buffer
    }

    /// Keeps a buffer, and drops those that were kept longest if there are too many bytes.
    fn put(&self, buffer: Vec<u8>) {
        if buffer.is_empty() || buffer.len() > KEPT {
            return;
        }
        let mut kept = self.lock();
        kept.bytes += buffer.len();
        kept.buffers.push_back(buffer);
        while kept.bytes > KEPT
            && let Some(oldest) = kept.buffers.pop_front()
        {
            kept.bytes = kept.bytes.saturating_sub(oldest.len());
        }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_shows_nothing_of_the_reply_before() {
        let home = Arc::new(Buffers::default());
        let fill = |value: u8| {
            move |place: &mut [u8]| -> Result<(), ()> {
                place.fill(value);
                Ok(())
            }
        };
        let first = home.filled(LEAST + 100, fill(7)).unwrap();
        let place = first.as_ptr();
        assert_eq!((first.len(), first.iter().all(|byte| *byte == 7)), (LEAST + 100, true));
        drop(first);
        let second = home.filled(LEAST, fill(9)).unwrap();
        assert_eq!((second.as_ptr(), second.len()), (place, LEAST));
        assert!(second.iter().all(|byte| *byte == 9));
        let third = home.filled(LEAST, fill(1)).unwrap();
        assert!(third.as_ptr() != place, "memory is lent once");
        drop(home.filled(LEAST, |_| Err::<(), ()>(())));
        drop((second, third));
        assert!(home.lock().bytes <= KEPT && home.lock().buffers.len() == 3, "and of what failed");
        let mut body = home.gather(LEAST + 3).unwrap();
        body.push(&[5; 70_000]);
        let body = body.done();
        assert_eq!(
            (body.len(), body.iter().all(|byte| *byte == 5)),
            (LEAST + 3, true),
            "no more than was announced"
        );
        assert_eq!(body.as_ptr(), place, "in memory of a reply");
        drop(body);
        let large = home.filled(KEPT + 1, fill(1)).unwrap();
        drop(large);
        assert_eq!(home.lock().buffers.len(), 3, "what is too large is not kept");
        (0..40).map(|_| home.filled(1 << 20, fill(1)).unwrap()).collect::<Vec<_>>().clear();
        assert!(
            home.lock().bytes <= KEPT && home.take(LEAST).len() == 1 << 20,
            "what was kept longest makes room"
        );
    }
}
