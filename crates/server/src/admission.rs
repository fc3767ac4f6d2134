//! How much is under way at once: requests, and bytes of requests in memory.
//!
//! A request waits for its turn in the order of arrival. A queue that is full is told so before anything is done, and the client comes
//! again. One client has at most a half of all turns, so that others are not locked out by it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use drystone_wire::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Limits;
use crate::reply::Refusal;

/// Units of memory, in bytes.
const UNIT: u64 = 4096;

/// What bounds a server.
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    share: usize,
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
    memory: Arc<Semaphore>,
    memory_units: u32,
    waiting: AtomicUsize,
    queue: usize,
}

/// A request's turn, and its client's.
pub(crate) struct Turn {
    _own: (OwnedSemaphorePermit, Arc<Semaphore>),
    _all: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        let units = u32::try_from(limits.memory / UNIT).unwrap_or(u32::MAX >> 4).min(u32::MAX >> 4);
        Admission {
            turns: Arc::new(Semaphore::new(limits.requests)),
            share: limits.requests.div_ceil(2),
            shares: Mutex::default(),
            memory: Arc::new(Semaphore::new(units as usize)),
            memory_units: units,
            waiting: AtomicUsize::new(0),
            queue: limits.queue,
        }
    }

    /// Requests that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Bytes of requests in memory.
    pub(crate) fn memory_used(&self) -> u64 {
        (self.memory_units as usize).saturating_sub(self.memory.available_permits()) as u64 * UNIT
    }

    /// Waits for a turn, for at most `within`.
    pub(crate) async fn turn(&self, client: &str, within: Duration) -> Result<Turn, Refusal> {
        let own = self.share_of(client);
        let _queued = Queued::join(&self.waiting, self.queue)?;
        let both = async {
            let mine = Arc::clone(&own).acquire_owned().await.ok()?;
            Some((mine, Arc::clone(&self.turns).acquire_owned().await.ok()?))
        };
        match tokio::time::timeout(within, both).await {
            Ok(Some((mine, all))) => Ok(Turn { _own: (mine, own), _all: all }),
            _ => Err(busy("no turn came in time")),
        }
    }

    /// Waits for room for so many bytes, for at most `within`.
    pub(crate) async fn room(&self, bytes: u64, within: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok().filter(|units| *units <= self.memory_units);
        let Some(units) = units else {
            return Err(Refusal::new(
                Status::NoSpace,
                format!(
                    "{bytes} bytes in one request are more than the server holds at once ({}); its operator can raise limits.memory",
                    u64::from(self.memory_units) * UNIT
                ),
            ));
        };
        let _queued = Queued::join(&self.waiting, self.queue)?;
        match tokio::time::timeout(within, Arc::clone(&self.memory).acquire_many_owned(units)).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(busy("no memory became free in time")),
        }
    }

    fn share_of(&self, client: &str) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = shares.get(client).and_then(Weak::upgrade) {
            return own;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.share));
        shares.insert(client.to_owned(), Arc::downgrade(&own));
        own
    }
}

struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn join(waiting: &'a AtomicUsize, most: usize) -> Result<Queued<'a>, Refusal> {
        let queued = Queued(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(busy("the queue is full"));
        }
        Ok(queued)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn busy(why: &str) -> Refusal {
    Refusal::new(Status::Busy, format!("the server has too much to do ({why}); nothing was done, ask again"))
}
