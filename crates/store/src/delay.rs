//! A store at the end of a long link, for tests: every request takes a latency, and all requests share one
//! bandwidth.
//!
//! The inner store executes a request when it is submitted. One timer thread delivers the reply later, so any number of
//! requests may be under way without a thread for each. Requests and bytes are counted exactly. The number of *rounds*
//! is the length of the longest chain of requests in which each was submitted after the reply to the previous one: the
//! round trips that a caller waits for.
//!
//! Invariants
//! - a reply never arrives before `latency` and its share of the link have passed;
//! - the bytes of requests and replies pass the link one after the other;
//! - hints and syncs are not requests: puts are durable.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{
    Completer, Far, Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store,
    StoreError, Upload,
};

/// A request that a [`DelayStore`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The round trip it belongs to, from 1.
    pub round: u64,
    /// `read`, `whole`, `len`, `list`, `put`, `piece`, `append`, `delete`, `exec`.
    pub kind: &'static str,
    /// The object, or the prefix.
    pub key: String,
    /// Bytes in its reply, or bytes that it sends.
    pub bytes: u64,
}

/// A far store that delays the replies of `inner`. Clones share everything.
#[derive(Debug)]
pub struct DelayStore<S> {
    shared: Arc<Shared<S>>,
}

impl<S> Clone for DelayStore<S> {
    fn clone(&self) -> Self {
        DelayStore { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<S> {
    inner: S,
    latency: Duration,
    bytes_per_second: f64,
    timer: Arc<Timer>,
}

#[derive(Debug, Default)]
struct Timer {
    state: Mutex<Traffic>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Traffic {
    /// Replies by the time at which they are due.
    due: BTreeMap<(Instant, u64), Parcel>,
    submitted: u64,
    /// When the last scheduled byte will have passed the link.
    link_free: Option<Instant>,
    /// The highest round whose reply was delivered.
    arrived: u64,
    log: Vec<LoggedRequest>,
    under_way: usize,
    bytes_under_way: u64,
    peak: usize,
    peak_bytes: u64,
    runs: bool,
    closing: bool,
}

/// A reply under way.
#[derive(Debug)]
struct Parcel {
    round: u64,
    requests: usize,
    bytes: u64,
    outcome: Result<Reply>,
    completer: Completer,
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers replies when they are due, until none is left and the store is dropped.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some((&(time, id), _)) = state.due.first_key_value() else {
                if state.closing {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            if time > now {
                let waited = self.changed.wait_timeout(state, time - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if let Some(parcel) = state.due.remove(&(time, id)) {
                state.arrived = state.arrived.max(parcel.round);
                state.under_way -= parcel.requests;
                state.bytes_under_way -= parcel.bytes;
                drop(state);
                parcel.completer.complete(parcel.outcome);
                state = self.lock();
            }
        }
    }
}

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        self.timer.lock().closing = true;
        self.timer.changed.notify_all();
    }
}

impl<S: Store> DelayStore<S> {
    /// Wraps `inner`: each request takes `latency`, and the link carries `bytes_per_second`.
    pub fn new(inner: S, latency: Duration, bytes_per_second: f64) -> Self {
        let timer = Arc::default();
        DelayStore { shared: Arc::new(Shared { inner, latency, bytes_per_second, timer }) }
    }

    /// The inner store, without delay.
    pub fn inner(&self) -> &S {
        &self.shared.inner
    }

    /// All requests since the last call, in the order of submission. Clears the log; rounds start at 1 again.
    pub fn take_log(&self) -> Vec<LoggedRequest> {
        let mut state = self.shared.timer.lock();
        (state.arrived, state.peak, state.peak_bytes) = (0, 0, 0);
        // Requests that are still under way belong to no round of the new log.
        state.due.values_mut().for_each(|parcel| parcel.round = 0);
        std::mem::take(&mut state.log)
    }

    /// The largest number of requests under way at once since the last [`take_log`](Self::take_log).
    pub fn peak(&self) -> usize {
        self.shared.timer.lock().peak
    }

    /// The largest number of bytes under way at once since then.
    pub fn peak_bytes(&self) -> u64 {
        self.shared.timer.lock().peak_bytes
    }

    /// Schedules the reply of a request whose outcome is known.
    fn send(&self, asked: Vec<(&'static str, String, u64)>, outcome: Result<Reply>) -> Pending {
        let Shared { latency, bytes_per_second, timer, .. } = &*self.shared;
        let (completer, pending) = Pending::waiting();
        let bytes: u64 = asked.iter().map(|(_, _, bytes)| bytes).sum();
        let mut state = timer.lock();
        let round = state.arrived + 1;
        let first = Instant::now() + *latency;
        let begin = state.link_free.map_or(first, |free| free.max(first));
        let time = begin + Duration::from_secs_f64(bytes as f64 / bytes_per_second);
        state.link_free = Some(time);
        state.submitted += 1;
        let (id, requests) = (state.submitted, asked.len());
        state.log.extend(asked.into_iter().map(|(kind, key, bytes)| LoggedRequest {
            round,
            kind,
            key,
            bytes,
        }));
        state.under_way += requests;
        state.peak = state.peak.max(state.under_way);
        state.bytes_under_way += bytes;
        state.peak_bytes = state.peak_bytes.max(state.bytes_under_way);
        state.due.insert((time, id), Parcel { round, requests, bytes, outcome, completer });
        if !std::mem::replace(&mut state.runs, true) {
            let timer = Arc::clone(timer);
            let thread = std::thread::Builder::new().name("delay".into()).spawn(move || timer.run());
            // Without the thread no reply would arrive, so callers that wait get an error.
            if thread.is_err() {
                (state.runs, state.under_way, state.bytes_under_way) = (false, 0, 0);
                state.due.clear();
            }
        }
        drop(state);
        timer.changed.notify_all();
        pending
    }

    fn ask(&self, kind: &'static str, key: &str, bytes: u64, outcome: Result<Reply>) -> Result<Reply> {
        self.send(vec![(kind, key.to_owned(), bytes)], outcome).wait()
    }
}

/// The error for a reply of a kind that the request cannot have.
fn unexpected(reply: &Reply) -> StoreError {
    let source = std::io::Error::other(format!("unexpected reply: {reply:?}"));
    StoreError::Io { key: String::new(), store: "delayed store".into(), operation: "ask", source }
}

/// An upload: pieces pass the link one by one, and the whole object is put into the inner store at the end.
struct Delayed<S> {
    store: DelayStore<S>,
    key: String,
    pieces: Vec<u8>,
}

impl<S> std::fmt::Debug for Delayed<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "upload of {}, {} bytes so far", self.key, self.pieces.len())
    }
}

impl<S: Store> Upload for Delayed<S> {
    fn add(&mut self, data: Vec<u8>) -> Pending {
        self.pieces.extend_from_slice(&data);
        let asked = vec![("piece", self.key.clone(), data.len() as u64)];
        self.store.send(asked, Ok(Reply::Append { data }))
    }

    fn finish(self: Box<Self>) -> Pending {
        let done = self.store.inner().put(&self.key, &[&self.pieces], PutMode::IfAbsent, true);
        self.store.send(vec![("put", self.key.clone(), 0)], done.map(|()| Reply::Put { data: Vec::new() }))
    }
}

impl<S: Store + 'static> Store for DelayStore<S> {
    crate::forward!(shared.inner => device, sweep);

    fn features(&self) -> Features {
        let far = Some(Far { latency: self.shared.latency, requests: 128, seen: None, unsettled: None });
        Features { far, put_is_durable: true, uploads: true, sync: true, ..self.shared.inner.features() }
    }

    fn describe(&self) -> String {
        format!("{} far away", self.shared.inner.describe())
    }

    /// None: a far object is no file of this machine.
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// False: a far store cannot check its objects cheaply.
    fn watch(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        match self.submit(Request::Len { key: key.to_owned() }).wait()? {
            Reply::Len { len } => Ok(len),
            other => Err(unexpected(&other)),
        }
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let found = self.shared.inner.read(key, offset, out);
        let bytes = if found.is_ok() { out.len() as u64 } else { 0 };
        self.ask("read", key, bytes, found.map(|()| Reply::Deleted)).map(drop)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        match self.submit(Request::ReadWhole { key: key.to_owned(), limit }).wait()? {
            Reply::Whole { bytes } => Ok(bytes),
            other => Err(unexpected(&other)),
        }
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let done = self.shared.inner.append(key, at, parts);
        self.ask("append", key, bytes, done.map(|()| Reply::Deleted)).map(drop)
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        let bytes = parts.iter().map(|(_, part)| part.len() as u64).sum();
        let done = self.shared.inner.write_at(key, parts, len);
        self.ask("append", key, bytes, done.map(|()| Reply::Deleted)).map(drop)
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let done = self.shared.inner.put(key, parts, mode, sync);
        self.ask("put", key, bytes, done.map(|()| Reply::Deleted)).map(drop)
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        crate::validate_key(key)?;
        Ok(Box::new(Delayed { store: self.clone(), key: key.to_owned(), pieces: Vec::new() }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        match self.submit(Request::List { prefix: prefix.to_owned() }).wait()? {
            Reply::Listed { entries } => Ok(entries),
            other => Err(unexpected(&other)),
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.submit(Request::Delete { key: key.to_owned() }).wait().map(drop)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| crate::validate_key(key))
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        let done = self.shared.inner.exec(key, method, input);
        let bytes = done.as_ref().map_or(0, |out| out.len() as u64);
        let reply = done.map(|out| Reply::Whole { bytes: Ok(out) });
        match self.ask("exec", key, bytes, reply)? {
            Reply::Whole { bytes: Ok(out) } => Ok(out),
            other => Err(unexpected(&other)),
        }
    }

    fn submit(&self, request: Request) -> Pending {
        let inner = &self.shared.inner;
        let mut asked = match &request {
            Request::Expect { .. } | Request::Place { .. } | Request::Sync { .. } => {
                return match request {
                    Request::Sync { keys } => {
                        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
                        let checked = self.sync(&names);
                        Pending::completed(checked.map(|()| Reply::Sync { keys }))
                    }
                    other => Pending::completed(other.execute_on(inner)),
                };
            }
            // A request for no ranges only asks whether the object exists.
            Request::ReadMany { key, ranges, .. } if ranges.is_empty() => vec![("len", key.clone(), 0)],
            Request::ReadMany { key, ranges, .. } => {
                ranges.iter().map(|(_, len)| ("read", key.clone(), *len as u64)).collect()
            }
            Request::Len { key } => vec![("len", key.clone(), 0)],
            Request::ReadWhole { key, .. } => vec![("whole", key.clone(), 0)],
            Request::List { prefix } => vec![("list", prefix.clone(), 0)],
            Request::Delete { key } => vec![("delete", key.clone(), 0)],
            Request::Append { key, data, .. } => vec![("append", key.clone(), data.len() as u64)],
            Request::Put { key, data, .. } => vec![("put", key.clone(), data.len() as u64)],
            Request::Exec { key, .. } => vec![("exec", key.clone(), 0)],
        };
        let outcome = request.execute_on(inner);
        match &outcome {
            Ok(Reply::Whole { bytes: Ok(bytes) }) => {
                asked.iter_mut().for_each(|one| one.2 = bytes.len() as u64)
            }
            Ok(Reply::Executed { output }) => asked.iter_mut().for_each(|one| one.2 = output.len() as u64),
            // A refused request returns no bytes.
            Err(_) => asked.iter_mut().for_each(|one| one.2 = 0),
            _ => {}
        }
        self.send(asked, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    const LATENCY: Duration = Duration::from_millis(30);

    fn store() -> DelayStore<MemoryStore> {
        let inner = MemoryStore::new();
        inner.put("k", &[&[7; 1000]], PutMode::IfAbsent, false).unwrap();
        DelayStore::new(inner, LATENCY, 1e9)
    }

    #[test]
    fn any_number_of_requests_take_one_round_and_one_latency_together() {
        let store = store();
        let began = Instant::now();
        let all: Vec<_> = (0..500).map(|n| store.submit(Request::read_many("k", vec![(n, 1)]))).collect();
        all.into_iter().for_each(|one| drop(one.wait().unwrap()));
        let time = began.elapsed();
        assert!(time >= LATENCY && time < 20 * LATENCY, "{time:?}");
        assert_eq!(store.peak(), 500);
        let log = store.take_log();
        assert_eq!((log.len(), log.iter().map(|asked| asked.bytes).sum()), (500, 500u64));
        assert!(log.iter().all(|asked| asked.round == 1 && asked.kind == "read"));
    }

    #[test]
    fn a_request_after_a_reply_is_another_round() {
        let store = store();
        store.len("k").unwrap();
        store.read("k", 0, &mut [0; 10]).unwrap();
        assert!(store.read_whole("no", 9).is_err());
        let rounds: Vec<_> = store.take_log().iter().map(|asked| (asked.round, asked.kind)).collect();
        assert_eq!(rounds, [(1, "len"), (2, "read"), (3, "whole")]);
        store.len("k").unwrap();
        assert_eq!(store.take_log().first().map(|asked| asked.round), Some(1), "rounds begin again");
    }

    #[test]
    fn bytes_pass_the_link_one_after_the_other() {
        let inner = MemoryStore::new();
        inner.put("k", &[&[7; 100_000]], PutMode::IfAbsent, false).unwrap();
        let store = DelayStore::new(inner, Duration::from_millis(1), 1e6);
        let began = Instant::now();
        let read = || store.submit(Request::read_many("k", vec![(0, 50_000)]));
        let both = [read(), read()];
        both.into_iter().for_each(|one| drop(one.wait().unwrap()));
        assert!(began.elapsed() >= Duration::from_millis(100));
    }
}
