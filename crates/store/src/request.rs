//! Submit and complete: requests that own their buffers while they are under way.
//!
//! The caller submits a [`Request`], does other work, and gets a [`Reply`] from the [`Pending`], with the buffers in
//! it. Fresh memory is expensive (every page must be zeroed and mapped), so buffers are passed in both directions and
//! can be reused.
//!
//! Dropping a `Pending` does not cancel its request. In a forked child, waiting for a request of the parent fails with
//! [`StoreError::Closed`]: the threads that would complete it stayed in the parent.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::{ListEntry, PutMode, Result, Store, StoreError, StoreExt, process_id};

/// An operation with its arguments.
#[derive(Debug)]
pub enum Request {
    /// Read several ranges of one object.
    ReadMany {
        /// The object.
        key: String,
        /// Offset and length, in bytes, of each range; in any order, overlapping or not.
        ranges: Vec<(u64, usize)>,
        /// Memory to use for the ranges, in their order; its content is overwritten. Missing buffers are allocated.
        buffers: Vec<Vec<u8>>,
    },
    /// Ranges that will be read soon, one after the other: a store with a slow medium may prefetch them. It is a hint:
    /// it promises nothing, and the object need not exist.
    Expect {
        /// The object.
        key: String,
        /// Offset and length, in bytes, of each range.
        ranges: Vec<(u64, u64)>,
    },
    /// Chooses the storage target on which an object, which does not exist yet, will be created. A store without
    /// targets ignores this. The object has the same key in any case.
    Place {
        /// The object.
        key: String,
        /// Number of the target, below [`Features::targets`](crate::Features).
        target: u32,
    },
    /// See [`Store::len`].
    Len {
        /// The object.
        key: String,
    },
    /// See [`Store::read_whole`].
    ReadWhole {
        /// The object.
        key: String,
        /// The longest object that is read, in bytes.
        limit: u64,
    },
    /// See [`Store::list`].
    List {
        /// The prefix of the keys.
        prefix: String,
    },
    /// See [`Store::delete`].
    Delete {
        /// The object.
        key: String,
    },
    /// See [`Store::append`].
    Append {
        /// The object.
        key: String,
        /// Its present length in bytes.
        at: u64,
        /// The bytes to append.
        data: Vec<u8>,
    },
    /// See [`Store::put`].
    Put {
        /// The object.
        key: String,
        /// Its new content.
        data: Vec<u8>,
        /// What to do if the object exists.
        mode: PutMode,
        /// Whether the object must survive a power cut once the reply arrives.
        sync: bool,
    },
    /// See [`Store::sync`].
    Sync {
        /// The objects.
        keys: Vec<String>,
    },
    /// See [`Store::exec`].
    Exec {
        /// The object.
        key: String,
        /// The method to run on it.
        method: String,
        /// The input of the method.
        input: Vec<u8>,
        /// The longest output that is useful, in bytes: a longer one is an error.
        limit: usize,
    },
}

/// The reply to a completed request, with its buffers.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::ReadMany`]: one buffer per range, filled, exactly as long as the range.
    Read {
        /// The bytes; unused buffers of the request follow, empty.
        buffers: Vec<Vec<u8>>,
    },
    /// To [`Request::Expect`].
    Expected {
        /// Whether the hint was useless: the bytes seem to be in memory, or do not exist, or the store does not
        /// prefetch. Hints for similar ranges are then useless too.
        needless: bool,
    },
    /// To [`Request::Place`].
    Placed,
    /// To [`Request::Len`].
    Len {
        /// Length in bytes.
        len: u64,
    },
    /// To [`Request::ReadWhole`].
    Whole {
        /// The object, or its length if that exceeds the limit.
        bytes: std::result::Result<Vec<u8>, u64>,
    },
    /// To [`Request::List`].
    Listed {
        /// The objects, sorted by key.
        entries: Vec<ListEntry>,
    },
    /// To [`Request::Delete`].
    Deleted,
    /// To [`Request::Append`].
    Append {
        /// The caller's buffer.
        data: Vec<u8>,
    },
    /// To [`Request::Put`].
    Put {
        /// The caller's buffer.
        data: Vec<u8>,
    },
    /// To [`Request::Sync`].
    Sync {
        /// The caller's keys.
        keys: Vec<String>,
    },
    /// To [`Request::Exec`].
    Executed {
        /// The output of the method.
        output: Vec<u8>,
    },
}

impl Reply {
    /// Only the buffers, whichever request it was.
    pub fn into_buffers(self) -> Vec<Vec<u8>> {
        match self {
            Reply::Read { buffers } => buffers,
            Reply::Append { data } | Reply::Put { data } => vec![data],
            Reply::Whole { bytes: Ok(data) } => vec![data],
            Reply::Executed { output } => vec![output],
            Reply::Expected { .. }
            | Reply::Placed
            | Reply::Len { .. }
            | Reply::Whole { .. }
            | Reply::Listed { .. }
            | Reply::Deleted
            | Reply::Sync { .. } => Vec::new(),
        }
    }
}

impl Request {
    /// A request for ranges in fresh memory.
    pub fn read_many(key: impl Into<String>, ranges: Vec<(u64, usize)>) -> Self {
        Request::ReadMany { key: key.into(), ranges, buffers: Vec::new() }
    }

    /// The objects whose other changes this request must wait for: none for reads.
    pub fn ordered_keys(&self) -> &[String] {
        match self {
            Request::ReadMany { .. }
            | Request::Expect { .. }
            | Request::Place { .. }
            | Request::Len { .. }
            | Request::ReadWhole { .. }
            | Request::Exec { .. }
            | Request::List { .. } => &[],
            Request::Append { key, .. } | Request::Put { key, .. } | Request::Delete { key } => {
                std::slice::from_ref(key)
            }
            Request::Sync { keys } => keys,
        }
    }

    /// Executes it now, in this thread, by the blocking methods of `store`. Stores without a queue implement
    /// [`Store::submit`] with it, and stores with a queue execute requests with it.
    pub fn execute_on<S: Store + ?Sized>(self, store: &S) -> Result<Reply> {
        match self {
            Request::ReadMany { key, ranges, mut buffers } => {
                read_ranges(store, &key, &ranges, &mut buffers)?;
                Ok(Reply::Read { buffers })
            }
            Request::Expect { .. } => Ok(Reply::Expected { needless: true }),
            Request::Place { .. } => Ok(Reply::Placed),
            Request::Len { key } => Ok(Reply::Len { len: store.len(&key)? }),
            Request::ReadWhole { key, limit } => Ok(Reply::Whole { bytes: store.read_whole(&key, limit)? }),
            Request::List { prefix } => Ok(Reply::Listed { entries: store.list(&prefix)? }),
            Request::Delete { key } => store.delete(&key).map(|()| Reply::Deleted),
            Request::Exec { key, method, input, limit } => {
                let output = store.exec(&key, &method, &input)?;
                if output.len() > limit {
                    return Err(StoreError::Io {
                        key,
                        store: store.describe(),
                        operation: "run a method on",
                        source: std::io::Error::other(format!(
                            "the output has {} bytes, at most {limit} were requested",
                            output.len()
                        )),
                    });
                }
                Ok(Reply::Executed { output })
            }
            Request::Append { key, at, data } => {
                store.append(&key, at, &[&data])?;
                Ok(Reply::Append { data })
            }
            Request::Put { key, data, mode, sync } => {
                store.put(&key, &[&data], mode, sync)?;
                Ok(Reply::Put { data })
            }
            Request::Sync { keys } => {
                let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                store.sync(&names)?;
                Ok(Reply::Sync { keys })
            }
        }
    }
}

fn read_ranges<S: Store + ?Sized>(
    store: &S,
    key: &str,
    ranges: &[(u64, usize)],
    buffers: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let unearned = |(index, range): (usize, &(u64, usize))| {
        must_check_length(range.1) && buffers.get(index).is_none_or(|buffer| buffer.capacity() < range.1)
    };
    if ranges.iter().enumerate().any(unearned) {
        for &(offset, len) in ranges {
            store.expect_range(key, offset, len)?;
        }
    }
    if ranges.is_empty() {
        store.len(key)?;
    }
    buffers.resize_with(buffers.len().max(ranges.len()), Vec::new);
    for (&(offset, len), buffer) in ranges.iter().zip(buffers.iter_mut()) {
        grow_to(buffer, len);
        store.read(key, offset, buffer)?;
    }
    buffers.iter_mut().skip(ranges.len()).for_each(Vec::clear);
    Ok(())
}

/// Whether the length is so large that the object's length must be checked before memory is allocated.
pub(crate) fn must_check_length(len: usize) -> bool {
    const TRUSTED: usize = 1 << 20;
    len > TRUSTED
}

/// Makes `buffer` exactly `len` long, touching only memory that it did not have before.
pub(crate) fn grow_to(buffer: &mut Vec<u8>, len: usize) {
    if buffer.capacity() < len {
        // Fresh memory is zeroed by the kernel, page by page as it is filled; growing would copy the old bytes.
        *buffer = vec![0; len];
    } else {
        buffer.resize(len, 0);
    }
}

/// A request that has been submitted.
#[derive(Debug)]
#[must_use = "the outcome of a submitted request is known only by waiting for it"]
pub struct Pending(Progress);

#[derive(Debug)]
enum Progress {
    Done(Result<Reply>),
    Waiting {
        slot: Arc<Slot>,
        process: u32,
    },
    /// The outcome of another request, transformed.
    Then(Box<Pending>, Step),
}

/// Transforms an outcome, in the thread that takes it.
struct Step(Box<dyn FnOnce(Result<Reply>) -> Result<Reply> + Send>);

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Step")
    }
}

/// An outcome with the steps that still have to be applied, first step first.
#[derive(Debug)]
struct Arrival {
    number: usize,
    outcome: Result<Reply>,
    steps: Vec<Step>,
}

impl Arrival {
    fn taken(self) -> (usize, Result<Reply>) {
        let outcome = self.steps.into_iter().fold(self.outcome, |outcome, step| (step.0)(outcome));
        (self.number, outcome)
    }
}

/// Where an outcome is delivered: under which number, and with which steps.
#[derive(Debug)]
struct Forward {
    number: usize,
    arrivals: Arc<Arrivals>,
    steps: Vec<Step>,
}

#[derive(Debug, Default)]
struct Slot {
    content: Mutex<Content>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Content {
    outcome: Option<Result<Reply>>,
    /// Where the outcome is delivered, if it is forwarded.
    forwarded: Option<Forward>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcomes of many requests in the order of arrival, for a caller with a window of requests that waits for whichever
/// arrives next. Any number of threads may wait.
#[derive(Debug, Default)]
pub struct Arrivals {
    arrived_so_far: Mutex<Arrived>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Arrived {
    queue: VecDeque<Arrival>,
    closed: bool,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.arrived_so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number and outcome of the request that arrived first; waits until there is one. `None` after
    /// [`close`](Self::close).
    pub fn wait(&self) -> Option<(usize, Result<Reply>)> {
        let mut arrived = self.lock();
        loop {
            if arrived.closed {
                return None;
            }
            if let Some(first) = arrived.queue.pop_front() {
                drop(arrived);
                return Some(first.taken());
            }
            arrived = self.changed.wait(arrived).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all waiting threads. Outcomes that arrived and were not taken, or arrive later, are dropped.
    pub fn close(&self) {
        let mut arrived = self.lock();
        arrived.closed = true;
        arrived.queue.clear();
        drop(arrived);
        self.changed.notify_all();
    }

    fn push(&self, arrival: Arrival) {
        let mut arrived = self.lock();
        if !arrived.closed {
            arrived.queue.push_back(arrival);
        }
        drop(arrived);
        self.changed.notify_one();
    }
}

impl Pending {
    /// A request whose outcome is already known.
    pub fn completed(outcome: Result<Reply>) -> Self {
        Pending(Progress::Done(outcome))
    }

    /// A request that another thread completes, for implementors of stores.
    pub fn waiting() -> (Completer, Pending) {
        let slot = Arc::new(Slot::default());
        (
            Completer { slot: Some(Arc::clone(&slot)) },
            Pending(Progress::Waiting { slot, process: process_id() }),
        )
    }

    /// The same request, whose outcome `step` transforms. The step runs in the thread that takes the outcome, and not
    /// at all if none does.
    pub fn then(self, step: impl FnOnce(Result<Reply>) -> Result<Reply> + Send + 'static) -> Self {
        Pending(Progress::Then(Box::new(self), Step(Box::new(step))))
    }

    /// Whether `wait` would return at once, except for steps that [`then`](Self::then) added.
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Progress::Done(_) => true,
            Progress::Then(before, _) => before.is_ready(),
            Progress::Waiting { process, .. } if *process != process_id() => true,
            Progress::Waiting { slot, .. } => slot.lock().outcome.is_some(),
        }
    }

    /// Waits until the request is completed or has failed. After a failure the buffers are lost.
    pub fn wait(self) -> Result<Reply> {
        let (slot, process) = match self.0 {
            Progress::Done(outcome) => return outcome,
            Progress::Then(before, step) => return (step.0)(before.wait()),
            Progress::Waiting { slot, process } => (slot, process),
        };
        if process != process_id() {
            return Err(forked());
        }
        let mut content = slot.lock();
        loop {
            if let Some(outcome) = content.outcome.take() {
                return outcome;
            }
            content = slot.arrived.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Delivers the outcome to `arrivals` under this number as soon as it exists.
    pub fn deliver_to(self, arrivals: &Arc<Arrivals>, number: usize) {
        let (mut progress, mut steps) = (self.0, Vec::new());
        while let Progress::Then(before, step) = progress {
            steps.insert(0, step);
            progress = before.0;
        }
        let outcome = match progress {
            Progress::Done(outcome) => outcome,
            Progress::Waiting { process, .. } if process != process_id() => Err(forked()),
            Progress::Waiting { slot, .. } => {
                let mut content = slot.lock();
                match content.outcome.take() {
                    Some(outcome) => outcome,
                    None => {
                        content.forwarded = Some(Forward { number, arrivals: Arc::clone(arrivals), steps });
                        return;
                    }
                }
            }
            Progress::Then(..) => return, // the loop above has removed these
        };
        arrivals.push(Arrival { number, outcome, steps });
    }
}

fn forked() -> StoreError {
    StoreError::Closed {
        store: "the submitting process".into(),
        reason: "the request was submitted before a fork; only the parent can wait for it",
    }
}

/// The other end of a [`Pending`]. If it is dropped without an outcome, the waiting caller gets
/// [`StoreError::Closed`].
#[derive(Debug)]
pub struct Completer {
    slot: Option<Arc<Slot>>,
}

impl Completer {
    /// Delivers the outcome.
    pub fn complete(mut self, outcome: Result<Reply>) {
        self.deliver(outcome);
    }

    fn deliver(&mut self, outcome: Result<Reply>) {
        if let Some(slot) = self.slot.take() {
            let mut content = slot.lock();
            if let Some(Forward { number, arrivals, steps }) = content.forwarded.take() {
                drop(content);
                arrivals.push(Arrival { number, outcome, steps });
                return;
            }
            content.outcome = Some(outcome);
            drop(content);
            slot.arrived.notify_all();
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.deliver(Err(StoreError::Closed {
            store: "the store".into(),
            reason: "it ended before the request was executed; whether it was done is unknown",
        }));
    }
}

/// Whether all parts, each at its offset, end at or before `len`.
pub(crate) fn end_within(parts: &[(u64, &[u8])], len: u64) -> bool {
    let end = |(at, data): &(u64, &[u8])| at.checked_add(data.len() as u64);
    parts.iter().all(|part| end(part).is_some_and(|end| end <= len))
}

/// An upload of an object, begun by [`Store::upload`]. No part of the object is visible before
/// [`finish`](Upload::finish) has succeeded; then all of it is. If the upload is dropped before that, nothing remains:
/// sent pieces are removed in the background.
///
/// Pieces follow each other in the order of `add`. All but the last have the same length, at least [`PIECE`]. The
/// caller limits how many are under way, as [`BoundedUpload`](crate::BoundedUpload) does. A store may withhold its
/// replies for the first [`HELD`] bytes until more are added or the upload ends, so a caller that waits for a reply
/// must have more bytes under way.
pub trait Upload: Send + std::fmt::Debug {
    /// Adds the next piece. The reply is [`Reply::Append`] with memory to reuse, which may be empty.
    fn add(&mut self, data: Vec<u8>) -> Pending;

    /// Ends the object after the pieces so far. The reply is [`Reply::Put`] without data. The error is `AlreadyExists`
    /// if an object of that name existed, unless the store cannot tell. It fails if a piece has failed.
    fn finish(self: Box<Self>) -> Pending;
}

/// The least length of each piece but the last, in bytes.
pub const PIECE: usize = 5 << 20;

/// A store may withhold the first pieces, up to this many bytes together, to see whether one request suffices.
pub const HELD: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn buffers_given_with_a_read_are_the_ones_that_come_back() {
        let store = MemoryStore::new();
        store.put("k", &[b"0123456789"], PutMode::IfAbsent, false).unwrap();
        let given = vec![Vec::with_capacity(64), vec![9; 3], Vec::with_capacity(7)];
        let addresses: Vec<_> = given.iter().map(Vec::as_ptr).collect();
        let request = Request::ReadMany { key: "k".into(), ranges: vec![(2, 4), (9, 1)], buffers: given };
        let buffers = store.submit(request).wait().unwrap().into_buffers();
        assert_eq!(buffers, [b"2345".to_vec(), b"9".to_vec(), vec![]]);
        assert_eq!(buffers.iter().map(Vec::as_ptr).collect::<Vec<_>>(), addresses);
    }

    #[test]
    fn a_length_that_no_object_has_is_refused_before_memory_is_spent() {
        let store = MemoryStore::new();
        store.put("k", &[b"short"], PutMode::IfAbsent, false).unwrap();
        let absurd = isize::MAX as usize;
        assert!(matches!(store.read_vec("k", 0, absurd), Err(StoreError::ShortRead { got: 5, .. })));
        let outcome = store.submit(Request::read_many("k", vec![(0, 1), (1, absurd)])).wait();
        assert!(matches!(outcome, Err(StoreError::ShortRead { offset: 1, got: 4, .. })), "{outcome:?}");
        assert!(store.read_all("k", 4).is_err());
        assert_eq!(store.read_all("k", 5).unwrap(), b"short");
    }

    #[test]
    fn a_completer_that_is_dropped_fails_the_request_instead_of_leaving_it_waiting() {
        let (completer, pending) = Pending::waiting();
        assert!(!pending.is_ready());
        drop(completer);
        assert!(pending.is_ready());
        assert!(matches!(pending.wait(), Err(StoreError::Closed { .. })));
    }

    #[test]
    fn an_outcome_delivered_by_another_thread_is_received() {
        let (completer, pending) = Pending::waiting();
        let thread = std::thread::spawn(move || completer.complete(Ok(Reply::Put { data: vec![1] })));
        assert_eq!(pending.wait().unwrap(), Reply::Put { data: vec![1] });
        thread.join().unwrap();
    }

    #[test]
    fn steps_run_in_the_thread_that_takes_the_outcome() {
        let longer = |outcome: Result<Reply>| match outcome? {
            Reply::Len { len } => Ok(Reply::Len { len: len + 1 }),
            other => Ok(other),
        };
        let twice = |outcome: Result<Reply>| match outcome? {
            Reply::Len { len } => Ok(Reply::Len { len: len * 2 }),
            other => Ok(other),
        };
        let now = Pending::completed(Ok(Reply::Len { len: 1 })).then(longer).then(twice);
        assert!(now.is_ready());
        assert_eq!(now.wait().unwrap(), Reply::Len { len: 4 });
        let arrivals = Arc::default();
        let (completer, pending) = Pending::waiting();
        let by = std::sync::Arc::new(Mutex::new(None));
        let noted = Arc::clone(&by);
        let pending = pending.then(longer).then(twice).then(move |outcome| {
            *noted.lock().unwrap() = Some(std::thread::current().id());
            outcome
        });
        assert!(!pending.is_ready());
        pending.deliver_to(&arrivals, 7);
        std::thread::spawn(move || completer.complete(Ok(Reply::Len { len: 2 }))).join().unwrap();
        assert!(matches!(arrivals.wait(), Some((7, Ok(Reply::Len { len: 6 })))));
        assert_eq!(*by.lock().unwrap(), Some(std::thread::current().id()));
    }

    #[test]
    fn outcomes_are_delivered_in_the_order_in_which_they_arrive() {
        let arrivals = Arc::default();
        let (first, later) = Pending::waiting();
        let (dropped, lost) = Pending::waiting();
        later.deliver_to(&arrivals, 1);
        lost.deliver_to(&arrivals, 2);
        Pending::completed(Ok(Reply::Placed)).deliver_to(&arrivals, 3);
        let (done, before) = Pending::waiting();
        done.complete(Ok(Reply::Deleted));
        before.deliver_to(&arrivals, 4);
        assert!(matches!(arrivals.wait(), Some((3, Ok(Reply::Placed)))));
        assert!(matches!(arrivals.wait(), Some((4, Ok(Reply::Deleted)))));
        let thread = std::thread::spawn(move || {
            drop(dropped);
            first.complete(Ok(Reply::Len { len: 5 }));
        });
        assert!(matches!(arrivals.wait(), Some((2, Err(StoreError::Closed { .. })))));
        assert!(matches!(arrivals.wait(), Some((1, Ok(Reply::Len { len: 5 })))));
        thread.join().unwrap();
        let waiting = Arc::clone(&arrivals);
        let thread = std::thread::spawn(move || waiting.wait().is_none());
        arrivals.close();
        assert!(thread.join().unwrap(), "waiting threads are woken");
        Pending::completed(Ok(Reply::Placed)).deliver_to(&arrivals, 5);
        assert!(arrivals.wait().is_none(), "and nothing comes any more");
    }
}
