//! Produced pieces of files: those that programs read now, and those that they will read next.
//!
//! Invariants
//! - pieces of a file never overlap, so no byte is produced by two threads at once;
//! - a read may wait for a piece that is being produced, but a thread that produces one never waits for another;
//! - all pieces together have at most [`ROOM`] bytes, and none remains when the last file is closed.

use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::locks::locked;

/// The most bytes of all pieces together.
const ROOM: u64 = 64 << 20;
/// Number of threads that produce pieces in advance.
const MAKERS: usize = 2;

/// The pieces of all files of a mount.
#[derive(Default)]
pub(crate) struct Pieces {
    state: Mutex<State>,
    changed: Condvar,
    makers: Mutex<Option<Sender<Work>>>,
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    pieces: Vec<Piece>,
    /// Number of reads: the clock for the order in which pieces were used.
    clock: u64,
}

struct Piece {
    file: u64,
    range: Range<u64>,
    /// `None` while they are being produced.
    bytes: Option<Arc<Vec<u8>>>,
    used: u64,
    /// Whether a sequential reader has read it to its end.
    passed: bool,
}

/// A piece that is being produced. Dropping it without [`finish`](Making::finish) gives the piece up.
pub(crate) struct Making {
    pieces: Arc<Pieces>,
    file: u64,
    pub(crate) range: Range<u64>,
    /// Buffer for the bytes; it may be longer than the range.
    buffer: Vec<u8>,
}

/// A part of the bytes of a read.
pub(crate) struct Part {
    bytes: Arc<Vec<u8>>,
    within: Range<usize>,
    /// The piece to which the bytes belong.
    pub(crate) piece: Range<u64>,
}

impl Part {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.within.clone()).unwrap_or_default()
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl State {
    /// The parts of pieces that make up a range; `None` if one is missing.
    fn cover(&mut self, file: u64, asked: &Range<u64>) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        let mut at = asked.start;
        self.clock += 1;
        while at < asked.end {
            let place =
                self.pieces.iter().position(|piece| piece.file == file && piece.range.contains(&at))?;
            let piece = self.pieces.get_mut(place)?;
            let end = asked.end.min(piece.range.end);
            let within = (at - piece.range.start) as usize..(end - piece.range.start) as usize;
            let bytes = piece.bytes.clone()?;
            piece.used = self.clock;
            piece.passed |= end == piece.range.end;
            parts.push(Part { bytes, within, piece: piece.range.clone() });
            at = end;
        }
        Some(parts)
    }

    /// Removes the piece that is needed least, and returns its buffer: one that was read to its end or, if `must`, the
    /// one used longest ago.
    fn take_out(&mut self, must: bool) -> Option<Vec<u8>> {
        let idle = |piece: &Piece| piece.bytes.as_ref().is_some_and(|bytes| Arc::strong_count(bytes) == 1);
        let candidates = self.pieces.iter().enumerate().filter(|(_, p)| idle(p) && (must || p.passed));
        let (place, _) = candidates.min_by_key(|(_, piece)| (!piece.passed, piece.used))?;
        Arc::try_unwrap(self.pieces.swap_remove(place).bytes?).ok()
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.range.end - piece.range.start).sum()
    }
}

impl Pieces {
    /// The bytes of a range, in order; waits for pieces that are being produced. `None` if some are missing.
    pub(crate) fn find(&self, file: u64, asked: &Range<u64>) -> Option<Vec<Part>> {
        let mut state = locked(&self.state);
        loop {
            if let Some(parts) = state.cover(file, asked) {
                return Some(parts);
            }
            let comes = |p: &Piece| p.file == file && p.bytes.is_none() && meet(&p.range, asked);
            if !state.pieces.iter().any(comes) {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Begins to produce a piece. `None` if a part of it exists or is being produced, or if there is no space.
    pub(crate) fn begin(self: &Arc<Self>, file: u64, range: Range<u64>) -> Option<Making> {
        let len = range.end.saturating_sub(range.start);
        let mut state = locked(&self.state);
        if len > ROOM || state.pieces.iter().any(|p| p.file == file && meet(&p.range, &range)) {
            return None;
        }
        // A buffer that was read lately is still in the processor's caches, so it is reused.
        let mut buffer = state.take_out(false);
        while state.bytes() + len > ROOM {
            buffer = Some(state.take_out(true)?);
        }
        let used = state.clock;
        state.pieces.push(Piece { file, range: range.clone(), bytes: None, used, passed: false });
        drop(state);
        let mut buffer = buffer.unwrap_or_default();
        if buffer.len() < len as usize {
            buffer.resize(len as usize, 0);
        }
        Some(Making { pieces: self.clone(), file, range, buffer })
    }

    /// Lets another thread do work for which no program waits.
    pub(crate) fn beside(&self, work: impl FnOnce() + Send + 'static) {
        let mut makers = locked(&self.makers);
        let sender = makers.get_or_insert_with(|| {
            let (sender, receiver) = channel::<Work>();
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..MAKERS {
                let receiver = receiver.clone();
                std::thread::spawn(move || work_on(&receiver));
            }
            sender
        });
        // If no thread takes the work, it is dropped, which gives up its piece.
        let _ = sender.send(Box::new(work));
    }

    /// Whether there is a piece of a file.
    pub(crate) fn has(&self, file: u64) -> bool {
        locked(&self.state).pieces.iter().any(|piece| piece.file == file)
    }

    /// Drops the pieces of a file that is no longer open; those that are being produced stay.
    pub(crate) fn forget(&self, file: u64) {
        locked(&self.state).pieces.retain(|piece| piece.file != file || piece.bytes.is_none());
    }
}

fn work_on(works: &Mutex<Receiver<Work>>) {
    loop {
        let next = locked(works).recv();
        match next {
            Ok(work) => work(),
            Err(_) => return,
        }
    }
}

impl Making {
    /// The buffer for the bytes.
    pub(crate) fn buffer(&mut self) -> &mut [u8] {
        let len = (self.range.end - self.range.start) as usize;
        self.buffer.get_mut(..len).unwrap_or_default()
    }

    /// Records that the bytes are complete.
    pub(crate) fn finish(mut self) {
        let bytes = Arc::new(std::mem::take(&mut self.buffer));
        let mut state = locked(&self.pieces.state);
        if let Some(piece) = state.pieces.iter_mut().find(|p| p.file == self.file && p.range == self.range) {
            piece.bytes = Some(bytes);
        }
        // `drop` then finds the bytes complete.
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let given_up = |p: &Piece| p.file == self.file && p.range == self.range && p.bytes.is_none();
        locked(&self.pieces.state).pieces.retain(|piece| !given_up(piece));
        self.pieces.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pieces: &Arc<Pieces>, file: u64, range: Range<u64>) -> bool {
        let Some(mut making) = pieces.begin(file, range.clone()) else { return false };
        let start = range.start;
        making.buffer().iter_mut().enumerate().for_each(|(n, byte)| *byte = (start + n as u64) as u8);
        making.finish();
        true
    }

    fn found(pieces: &Pieces, file: u64, asked: Range<u64>) -> Option<Vec<u8>> {
        let parts = pieces.find(file, &asked)?;
        Some(parts.iter().flat_map(|part| part.bytes().to_vec()).collect())
    }

    #[test]
    fn a_read_across_pieces_gets_the_bytes_of_both() {
        let pieces = Arc::new(Pieces::default());
        assert!(made(&pieces, 1, 0..100) && made(&pieces, 1, 100..200) && made(&pieces, 2, 0..50));
        assert_eq!(found(&pieces, 1, 90..110), Some((90..110).collect()));
        assert_eq!(found(&pieces, 1, 150..201), None);
        assert_eq!(found(&pieces, 2, 10..20), Some((10..20).collect()));
        assert!(!made(&pieces, 1, 199..300));
        pieces.forget(1);
        assert_eq!(found(&pieces, 1, 0..10), None);
    }

    #[test]
    fn a_reader_waits_for_a_piece_that_is_made_and_not_for_one_given_up() {
        let pieces = Arc::new(Pieces::default());
        for gives_up in [false, true] {
            let mut making = pieces.begin(1, 0..10).expect("nothing is there");
            let reader = std::thread::spawn({
                let pieces = pieces.clone();
                move || found(&pieces, 1, 2..4)
            });
            pieces.beside(move || {
                making.buffer().fill(7);
                if !gives_up {
                    making.finish();
                }
            });
            assert_eq!(reader.join().expect("it ends"), (!gives_up).then(|| vec![7, 7]));
            pieces.forget(1);
        }
    }

    #[test]
    fn passed_pieces_go_first_and_room_is_bounded() {
        let pieces = Arc::new(Pieces::default());
        let (len, mut made_count) = (ROOM / 4, 0);
        for n in 0..6u64 {
            made_count += u64::from(made(&pieces, 1, n * len..(n + 1) * len));
        }
        assert_eq!(made_count, 6);
        assert!(locked(&pieces.state).bytes() <= ROOM);
        let last = 5 * len;
        let held = pieces.find(1, &(last..last + len)).expect("the newest is there");
        assert_eq!(held[0].bytes().len(), len as usize);
        drop(held);
        assert!(made(&pieces, 2, 0..10));
        assert!(found(&pieces, 1, last..last + 1).is_none(), "it was passed");
    }
}
