//! Bounds the requests that are under way at once, and the bytes of requests in memory.
//!
//! Requests get their turns in the order of arrival. A request waits in the queue, or for up to [`DOOR`] in front of a
//! full queue. If it does not get in, it is refused before anything is done, and its client repeats it. A client that
//! repeats requests at random times would get fewer turns than one that waits, so few requests are refused. In front of
//! the queue, a request holds only its connection and the head that it sent. One client has at most half of all turns,
//! so it cannot lock out the others.

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
/// The longest time for which a request waits in front of a full queue.
const DOOR: Duration = Duration::from_secs(1);

/// The bounds of a server.
pub(crate) struct Admission {
    turns: Arc<Semaphore>,
    share: usize,
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
    memory: Arc<Semaphore>,
    memory_units: u32,
    waiting: AtomicUsize,
    queue: Semaphore,
}

/// The turn of a request. It counts for the server and for its client.
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
            queue: Semaphore::new(limits.queue.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Number of requests that wait for a turn or for memory.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Number of bytes of requests in memory.
    pub(crate) fn memory_used(&self) -> u64 {
        (self.memory_units as usize).saturating_sub(self.memory.available_permits()) as u64 * UNIT
    }

    /// Waits for a turn, for at most `within`.
    pub(crate) async fn turn(&self, client: &str, within: Duration) -> Result<Turn, Refusal> {
        let own = self.share_of(client);
        let _waits = Waits::begin(&self.waiting);
        let Ok(_queued) = tokio::time::timeout(DOOR.min(within), self.queue.acquire()).await else {
            return Err(busy("the queue is full"));
        };
        let both = async {
            let mine = Arc::clone(&own).acquire_owned().await.ok()?;
            Some((mine, Arc::clone(&self.turns).acquire_owned().await.ok()?))
        };
        match tokio::time::timeout(within, both).await {
            Ok(Some((mine, all))) => Ok(Turn { _own: (mine, own), _all: all }),
            _ => Err(busy("no turn came in time")),
        }
    }

    /// Waits for memory for this many bytes, for at most `within`.
    pub(crate) async fn room(&self, bytes: u64, within: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok().filter(|units| *units <= self.memory_units);
        let Some(units) = units else {
            return Err(Refusal::new(
                Status::NoSpace,
                format!(
                    "{bytes} bytes in one request are more than the server holds at once ({}); its operator can \
                     raise limits.memory",
                    u64::from(self.memory_units) * UNIT
                ),
            ));
        };
        let _waits = Waits::begin(&self.waiting);
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

struct Waits<'a>(&'a AtomicUsize);

impl Waits<'_> {
    fn begin(waiting: &AtomicUsize) -> Waits<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn busy(why: &str) -> Refusal {
    Refusal::new(Status::Busy, format!("the server has too much to do ({why}); nothing was done, ask again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(requests: usize, queue: usize) -> Admission {
        Admission::new(&Limits { requests, queue, ..Limits::default() })
    }

    #[test]
    fn a_request_waits_a_moment_in_front_of_a_full_queue_and_is_then_sent_away() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let Ok(runtime) = runtime else { panic!("no runtime") };
        runtime.block_on(asked());
    }

    async fn asked() {
        let admission = Arc::new(admission(1, 1));
        let within = Duration::from_secs(10);
        let Ok(first) = admission.turn("a", within).await else { panic!("the first has its turn") };
        let waits = |client: &'static str| {
            let admission = Arc::clone(&admission);
            tokio::spawn(async move { admission.turn(client, within).await.map(drop) })
        };
        let queued = waits("b");
        tokio::task::yield_now().await;
        let refused = waits("c").await;
        assert!(matches!(refused, Ok(Err(Refusal { status: Status::Busy, .. }))));
        let in_front = waits("d");
        tokio::time::sleep(DOOR / 2).await;
        assert_eq!(admission.waiting(), 2);
        drop(first);
        assert!(matches!(queued.await, Ok(Ok(()))) && matches!(in_front.await, Ok(Ok(()))), "in their order");
        assert_eq!(admission.waiting(), 0);
    }
}
