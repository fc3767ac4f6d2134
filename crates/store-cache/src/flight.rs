//! Prefetched ranges: those under way, and those in memory because no folder holds them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use drystone_plan::tier::cover::Units;
use drystone_store::{FRESH, Pending};

/// A range is requested right after it is claimed. A thread that waits longer than this for the request is in a forked
/// child, which lacks the thread that would send it.
const CLAIMED: Duration = Duration::from_secs(1);

/// A prefetched range.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The era in which it was requested.
    pub(crate) era: u64,
    pub(crate) key: String,
    pub(crate) range: Range<u64>,
    since: Instant,
    read: AtomicU64,
    content: Mutex<Content>,
    asked: Condvar,
}

#[derive(Debug)]
enum Content {
    /// It is about to be requested.
    Claimed,
    UnderWay(Option<Pending>),
    Here(Arc<Vec<u8>>),
    Failed,
}

impl Flight {
    pub(crate) fn new(era: u64, key: &str, range: Range<u64>) -> Self {
        let (content, asked) = (Mutex::new(Content::Claimed), Condvar::new());
        let (key, since, read) = (key.to_owned(), Instant::now(), AtomicU64::new(0));
        Flight { era, key, range, since, read, content, asked }
    }

    /// Records that its request is under way.
    pub(crate) fn begins(&self, pending: Pending) {
        *self.content.lock().unwrap_or_else(PoisonError::into_inner) = Content::UnderWay(Some(pending));
        self.asked.notify_all();
    }

    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Waits for the bytes and returns them. All waiting threads share one reply. `None` if the request failed; the
    /// read then repeats it and reports the error.
    pub(crate) fn bytes(&self) -> Option<Arc<Vec<u8>>> {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let claimed = |content: &mut Content| matches!(content, Content::Claimed);
        let waited = self.asked.wait_timeout_while(content, CLAIMED, claimed);
        let (mut content, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Content::UnderWay(pending) = &mut *content {
            let reply = pending.take().map(Pending::wait);
            let bytes = reply.and_then(Result::ok).and_then(|reply| reply.into_buffers().pop());
            let whole = bytes.filter(|bytes| bytes.len() as u64 == self.len());
            *content = whole.map_or(Content::Failed, |bytes| Content::Here(Arc::new(bytes)));
        }
        match &*content {
            Content::Here(bytes) => Some(Arc::clone(bytes)),
            _ => None,
        }
    }

    /// Records that this many bytes of it were read. Returns how many of them were read for the first time.
    pub(crate) fn was_read(&self, bytes: u64) -> u64 {
        let before = self.read.fetch_add(bytes, Ordering::Relaxed);
        bytes.min(self.len().saturating_sub(before))
    }

    /// Number of bytes that have not been read yet.
    pub(crate) fn unread(&self) -> u64 {
        self.len().saturating_sub(self.read.load(Ordering::Relaxed))
    }
}

/// All flights, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flights(VecDeque<Arc<Flight>>);

impl Flights {
    pub(crate) fn add(&mut self, flight: &Arc<Flight>) {
        self.0.push_back(Arc::clone(flight));
    }

    pub(crate) fn remove(&mut self, flight: &Arc<Flight>) {
        self.0.retain(|other| !Arc::ptr_eq(other, flight));
    }

    /// Drops the flights of an object that has changed.
    pub(crate) fn forget(&mut self, key: &str) {
        self.0.retain(|flight| flight.key != key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn units(&self, key: &str) -> Units {
        let mut units = Units::default();
        self.0
            .iter()
            .filter(|flight| flight.key == key)
            .for_each(|flight| units.insert(flight.range.clone()));
        units
    }

    pub(crate) fn find(&self, key: &str, range: &Range<u64>) -> Option<Arc<Flight>> {
        self.0.iter().find(|flight| flight.key == key && flight.range == *range).cloned()
    }

    /// Drops ranges until `len` more bytes fit into `room`: first those of which bytes were read, oldest first, then
    /// those that were requested longer than [`FRESH`] ago. Returns `false` if the remaining ranges leave too little
    /// space.
    pub(crate) fn make_room(&mut self, len: u64, room: u64) -> bool {
        let held = |all: &VecDeque<Arc<Flight>>| all.iter().map(|flight| flight.len()).sum::<u64>();
        let mut over = (held(&self.0) + len).saturating_sub(room);
        let may_go: [fn(&Flight) -> bool; 2] = [|f| f.unread() < f.len(), |f| f.since.elapsed() > FRESH];
        for may_go in may_go {
            self.0.retain(|flight| {
                let goes = over > 0 && may_go(flight);
                over -= if goes { over.min(flight.len()) } else { 0 };
                !goes
            });
        }
        over == 0
    }
}
