//! Uploads with a bounded number of pieces under way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{HELD, Pending, Reply, Result, Store, Upload};

/// An upload that has at most a given number of pieces under way.
#[derive(Debug)]
pub struct BoundedUpload {
    upload: Box<dyn Upload>,
    /// Pieces that have not been acknowledged, oldest first, and their lengths in bytes.
    under_way: VecDeque<(Pending, u64)>,
    /// Bytes of all pieces so far.
    sent: u64,
    most: usize,
    waits: Waits,
}

/// How long a caller waited for pieces to arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of waits.
    pub times: u64,
    /// Total time.
    pub time: Duration,
}

impl BoundedUpload {
    /// Begins an upload of the object `key`. Errors are those of [`Store::upload`].
    pub fn begin<S: Store + ?Sized>(store: &S, key: &str, most: usize) -> Result<Self> {
        Ok(BoundedUpload {
            upload: store.upload(key)?,
            under_way: VecDeque::new(),
            sent: 0,
            most,
            waits: Waits::default(),
        })
    }

    /// Adds the next piece, after waiting until fewer than `most` pieces are under way. In the first [`HELD`] bytes
    /// more pieces are allowed, since the store may withhold its replies for those until more are added.
    ///
    /// Returns the memory of a piece that has arrived, emptied, for reuse. Fails if a piece that it waited for has
    /// failed.
    pub fn add(&mut self, piece: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let mut spare = None;
        while self.under_way.len() >= self.most && self.sent > HELD {
            let Some((oldest, _)) = self.under_way.pop_front() else { break };
            let begun = (!oldest.is_ready()).then(Instant::now);
            let arrived = oldest.wait()?;
            if let Some(begun) = begun {
                self.waits.times += 1;
                self.waits.time += begun.elapsed();
            }
            if let Reply::Append { mut data } = arrived {
                data.clear();
                spare = Some(data);
            }
        }
        let len = piece.len() as u64;
        self.sent += len;
        self.under_way.push_back((self.upload.add(piece), len));
        Ok(spare)
    }

    /// How long [`add`](Self::add) has waited so far.
    pub fn waits(&self) -> Waits {
        self.waits
    }

    /// Finishes the object. Returns the pending outcome of all of it ([`Upload::finish`]), and the number of bytes
    /// under way.
    pub fn finish(self) -> (Pending, u64) {
        let bytes = self.under_way.iter().map(|(_, len)| len).sum();
        (self.upload.finish(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Completer, StoreError};

    /// Withholds the replies for the first [`HELD`] bytes, as an object store does.
    #[derive(Debug, Default)]
    struct Late {
        len: u64,
        held: Vec<(Completer, Vec<u8>)>,
    }

    impl Upload for Late {
        fn add(&mut self, data: Vec<u8>) -> Pending {
            let (completer, pending) = Pending::waiting();
            self.len += data.len() as u64;
            self.held.push((completer, data));
            if self.len > HELD {
                self.held.drain(..).for_each(|(done, data)| done.complete(Ok(Reply::Append { data })));
            }
            pending
        }

        fn finish(self: Box<Self>) -> Pending {
            Pending::completed(Ok(Reply::Put { data: Vec::new() }))
        }
    }

    fn upload(late: Late, most: usize) -> BoundedUpload {
        BoundedUpload {
            upload: Box::new(late),
            under_way: VecDeque::new(),
            sent: 0,
            most,
            waits: Waits::default(),
        }
    }

    /// A caller that waits for the first piece before it has added more than [`HELD`] bytes would wait for ever. With a
    /// bound of one piece this would happen at the second piece.
    #[test]
    fn pieces_that_a_store_holds_back_are_not_waited_for() {
        let mut upload = upload(Late::default(), 1);
        for _ in 0..4 {
            upload.add(vec![0; HELD as usize / 4]).unwrap();
        }
        upload.add(vec![0; 10]).unwrap();
        assert_eq!(upload.under_way.len(), 5);
        let spare = upload.add(vec![0; 7]).unwrap().expect("older pieces have arrived");
        assert!(spare.is_empty() && spare.capacity() > 0, "the memory of a piece is used again");
        let (outcome, bytes) = upload.finish();
        assert_eq!(bytes, 7);
        assert_eq!(outcome.wait().unwrap(), Reply::Put { data: Vec::new() });
    }

    #[test]
    fn a_failed_piece_is_reported_when_a_later_one_waits() {
        #[derive(Debug)]
        struct Fails;
        impl Upload for Fails {
            fn add(&mut self, _data: Vec<u8>) -> Pending {
                Pending::completed(Err(StoreError::Closed { store: "a test".into(), reason: "it fails" }))
            }
            fn finish(self: Box<Self>) -> Pending {
                Pending::completed(Err(StoreError::Closed { store: "a test".into(), reason: "it fails" }))
            }
        }
        let (under_way, waits) = (VecDeque::new(), Waits::default());
        let mut upload = BoundedUpload { upload: Box::new(Fails), under_way, sent: HELD, most: 1, waits };
        upload.add(vec![1]).unwrap();
        assert!(matches!(upload.add(vec![2]), Err(StoreError::Closed { .. })));
    }
}
