//! The store that the engine uses.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use drystone_arena::Piece;
use drystone_runtime::block_on;
use drystone_store::{
    Far, Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError,
    Upload, process_id, validate_key, validate_prefix,
};
use drystone_wire::{Ask, Builder, CONTENT_TYPE, Status, decode_listing};
use hyper::Method;

use crate::address::Way;
use crate::arena::Link;
use crate::endpoint::Endpoint;
use crate::exchange::{Attempts, Hands, Message};
use crate::failure::Failure;
use crate::options::Resolved;
use crate::reading::{self, Object, Place};
use crate::replies::answers;
use crate::rising::Rising;
use crate::{Address, InvalidAddress, Options, Refused, putting, together, waiting};

/// A container on a server. Clones share everything; stores of one server with the same options share its connections.
#[derive(Clone)]
pub struct ServerStore {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    options: Resolved,
    described: String,
    /// The endpoint of the process that sent the first request, and that process's id.
    endpoint: OnceLock<(u32, Arc<Endpoint>)>,
}

/// The longest reply to a batch, in bytes.
const BATCH: usize = 64 << 20;
/// The most payload bytes of a request on the connection with shared memory. Larger ones use an ordinary
/// connection, where they do not delay others.
const NEAR: usize = 256 << 10;
/// The most bytes of ranges in one batch.
const TOGETHER: usize = 8 << 20;

impl ServerStore {
    /// Makes a client. Sends no request yet.
    pub fn open(url: &str, options: &Options) -> std::result::Result<ServerStore, InvalidAddress> {
        let address = Address::parse(url)?;
        let options = options.resolve()?;
        Endpoint::of(&address, &options)?;
        let described = address.to_string();
        Ok(ServerStore { inner: Arc::new(Inner { address, options, described, endpoint: OnceLock::new() }) })
    }

    /// The container's address.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    fn endpoint(&self) -> Result<Arc<Endpoint>> {
        let process = process_id();
        if let Some((_, endpoint)) = self.inner.endpoint.get().filter(|(known, _)| *known == process) {
            return Ok(Arc::clone(endpoint));
        }
        let found = Endpoint::of(&self.inner.address, &self.inner.options);
        let endpoint = found.map_err(|error| StoreError::Io {
            key: String::new(),
            store: self.inner.described.clone(),
            operation: "reach",
            source: std::io::Error::other(error),
        })?;
        // A forked child finds its parent's endpoint here, and looks up its own each time.
        let _ = self.inner.endpoint.set((process, Arc::clone(&endpoint)));
        Ok(endpoint)
    }

    /// Executes `work` and waits for it. If the server is on this machine, this thread sends the requests itself.
    fn wait<'a, T>(&'a self, work: impl AsyncFnOnce(Asking<'a>) -> Result<T>) -> Result<T> {
        let endpoint = self.endpoint()?;
        let _inside = endpoint.handle.enter();
        block_on(work(Asking { endpoint, inner: &self.inner, hands: Hands::Own }))
    }

    /// One request about regions; returns the numbers of its answer.
    pub(crate) fn asked(&self, ask: &Ask, payload: &[u8]) -> std::result::Result<Vec<u64>, Refused> {
        let failed = |error: StoreError| Refused { status: Status::Io, message: error.to_string() };
        let endpoint = self.endpoint().map_err(failed)?;
        let _inside = endpoint.handle.enter();
        let asking = Asking { endpoint, inner: &self.inner, hands: Hands::Own };
        block_on(asking.ask_with(ask, payload, "do"))
            .map(|(numbers, _)| numbers)
            .map_err(|failure| failure.refused(&self.inner.described))
    }

    /// One request about regions, on the connection with shared memory if there is one.
    pub(crate) fn asked_near(&self, ask: &Ask, payload: &[u8]) -> std::result::Result<Vec<u64>, Refused> {
        if let Some(link) = self.link().filter(|_| payload.len() <= NEAR) {
            match link.ask(self.inner.address.name(), ask, payload) {
                Ok(numbers) => return Ok(numbers),
                Err(failure) if failure.status.is_some() => {
                    return Err(failure.refused(&self.inner.described));
                }
                // It is unknown whether the request was executed, so the same request is repeated on another
                // connection.
                Err(_) => {}
            }
        }
        self.asked(ask, payload)
    }

    /// The connection with shared memory, if it is open.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.endpoint().ok()?.shared.link()
    }

    /// Memory of this many bytes that is shared with the server. `None` if the server shares none with this process.
    pub(crate) fn piece(&self, len: usize) -> Option<Piece> {
        self.endpoint().ok()?.piece(len)
    }

    fn unsupported<T>(&self, operation: impl Into<String>) -> Result<T> {
        Err(StoreError::Unsupported { operation: operation.into(), store: self.inner.described.clone() })
    }
}

impl std::fmt::Debug for ServerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ServerStore({})", self.inner.described)
    }
}

/// The parameters of requests.
struct Asking<'a> {
    endpoint: Arc<Endpoint>,
    inner: &'a Inner,
    hands: Hands,
}

impl Asking<'_> {
    fn object<'b>(&'b self, key: &'b str) -> Result<Object<'b>> {
        validate_key(key)?;
        let path = format!("/v1/c/{}/o/{key}", self.inner.address.name());
        Ok(Object { path, key, store: &self.inner.described, hands: self.hands })
    }

    async fn range(&self, key: &str, offset: u64, len: usize, sink: &mut impl reading::Sink) -> Result<()> {
        let object = self.object(key)?;
        if len == 0 {
            sink.begin(0);
            return reading::length(&self.endpoint, &object).await.map(drop);
        }
        reading::range(&self.endpoint, &object, offset, len, sink).await
    }

    /// Reads each range into its buffer.
    async fn ranges(
        &self,
        key: &str,
        ranges: &[(u64, usize)],
        buffers: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let all = ranges.iter().try_fold(0_usize, |sum, (_, len)| sum.checked_add(*len));
        let mut spare = buffers.into_iter();
        let mut filled = Vec::with_capacity(ranges.len());
        let is_one = ranges.len() == 1 && all.is_some_and(|all| all > 0 && all as u64 <= together::SMALL);
        if is_one || (ranges.len() > 1 && all.is_some_and(|all| all <= TOGETHER)) {
            let asked = ranges.iter().map(|(at, len)| (*at, *len as u64)).collect();
            let ask = Ask::Ranges { key: key.to_owned(), ranges: asked };
            let answered = match all {
                Some(all) if all as u64 <= together::SMALL => self.small(ask, Bytes::new(), all as u64).await,
                _ => self.ask(ask, "read").await,
            };
            let payload = match answered {
                Ok((_, payload)) => payload,
                Err(failure) if failure.status == Some(Status::ShortRead) => {
                    return Err(self.short(key, ranges, failure.found.unwrap_or(0)));
                }
                Err(failure) => return Err(self.object(key)?.error(&failure, "read")),
            };
            let mut rest = payload.as_slice();
            for (_, len) in ranges {
                let Some((part, behind)) = rest.split_at_checked(*len) else {
                    let failure = Failure::of(Status::Io, "the reply is shorter than requested");
                    return Err(self.object(key)?.error(&failure, "read"));
                };
                let mut buffer = spare.next().unwrap_or_default();
                buffer.clear();
                buffer.extend_from_slice(part);
                filled.push(buffer);
                rest = behind;
            }
        } else {
            if ranges.is_empty() {
                reading::length(&self.endpoint, &self.object(key)?).await?;
            }
            let reads = ranges.iter().map(|&(offset, len)| {
                let mut buffer = spare.next().unwrap_or_default();
                async move {
                    self.range(key, offset, len, &mut buffer).await?;
                    Ok::<_, StoreError>(buffer)
                }
            });
            filled.extend(futures_util::future::try_join_all(reads.collect::<Vec<_>>()).await?);
        }
        filled.extend(spare.map(|mut buffer| {
            buffer.clear();
            buffer
        }));
        Ok(filled)
    }

    fn short(&self, key: &str, ranges: &[(u64, usize)], there: u64) -> StoreError {
        let beyond = |&&(at, len): &&(u64, usize)| at.checked_add(len as u64).is_none_or(|end| end > there);
        let (offset, len) = ranges.iter().find(beyond).copied().unwrap_or_default();
        StoreError::ShortRead {
            key: key.to_owned(),
            store: self.inner.described.clone(),
            offset,
            wanted: len as u64,
            got: there.saturating_sub(offset).min(len as u64),
        }
    }

    /// One request; returns numbers and payload of the answer.
    async fn ask(&self, ask: Ask, verb: &str) -> std::result::Result<(Vec<u64>, Vec<u8>), Failure> {
        self.ask_with(&ask, &[], verb).await
    }

    /// One request with a payload.
    async fn ask_with(
        &self,
        ask: &Ask,
        payload: &[u8],
        verb: &str,
    ) -> std::result::Result<(Vec<u64>, Vec<u8>), Failure> {
        let mut body = Builder::new();
        body.frame(&ask.header(), &[payload]);
        let message = Message {
            method: Method::POST,
            path: format!("/v1/c/{}/{verb}", self.inner.address.name()),
            headers: vec![("content-type", CONTENT_TYPE.into())],
            body: body.end(Status::Ok, "").into(),
        };
        let mut attempts = Attempts::new(&self.endpoint, self.hands);
        loop {
            let (_, reply) = attempts.done(&message, BATCH + (1 << 20)).await?;
            let answered = answers(reply, 1).and_then(|answers| {
                answers.into_iter().next().unwrap_or_else(|| Err(Failure::lost("no answer")))
            });
            let failure = match answered {
                Ok(done) => return Ok(done),
                // This status is the answer. The caller may ask again, for example if a lock is not free.
                Err(failure) if failure.status.is_some_and(|status| status != Status::Busy) => {
                    return Err(failure);
                }
                Err(failure) => failure,
            };
            if !attempts.again(&failure).await {
                return Err(failure);
            }
        }
    }

    /// One small request about a container: batched with others, or sent by this thread alone.
    async fn small(&self, ask: Ask, payload: Bytes, answer: u64) -> waiting::Answered {
        if self.hands == Hands::Own && self.endpoint.is_here() {
            return self.ask_with(&ask, &payload, "read").await;
        }
        together::ask(&self.endpoint, self.inner.address.name(), ask, payload, answer).await
    }

    /// Runs a method on an object.
    async fn exec(&self, key: &str, method: String, input: Vec<u8>, limit: usize) -> Result<Vec<u8>> {
        validate_key(key)?;
        let ask = Ask::Exec { key: key.to_owned(), method, limit: limit as u64 };
        let input = Bytes::from(input);
        let answered = if (limit as u64).max(input.len() as u64) <= together::SMALL {
            self.small(ask, input, limit as u64).await
        } else {
            self.ask_with(&ask, &input, "read").await
        };
        match answered {
            Ok((_, output)) if output.len() <= limit => Ok(output),
            Ok(_) => Err(self
                .object(key)?
                .error(&Failure::of(Status::Io, "the output is longer than the limit"), "exec")),
            // A server of an earlier version does not support the request.
            Err(failure) if failure.status == Some(Status::Invalid) => {
                Err(StoreError::Unsupported { operation: "exec".into(), store: self.inner.described.clone() })
            }
            Err(failure) => Err(self.object(key)?.error(&failure, "exec")),
        }
    }

    /// The length of an object.
    async fn length(&self, key: &str) -> Result<u64> {
        validate_key(key)?;
        match self.small(Ask::Len { key: key.to_owned() }, Bytes::new(), 0).await.map(|(numbers, _)| numbers)
        {
            Ok(numbers) if numbers.len() == 1 => Ok(numbers.first().copied().unwrap_or(0)),
            Ok(_) => Err(self
                .object(key)?
                .error(&Failure::lost("the answer has no length"), "ask for the length of")),
            Err(failure) => Err(self.object(key)?.error(&failure, "ask for the length of")),
        }
    }

    /// A whole object of at most `limit` bytes, else its length. Short ones are batched with other requests.
    async fn whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        validate_key(key)?;
        let small = limit.min(together::SMALL);
        let ask = Ask::Whole { key: key.to_owned(), limit: small };
        match self.small(ask, Bytes::new(), small).await {
            Ok((numbers, bytes)) => match numbers.as_slice() {
                [] => Ok(Ok(bytes)),
                [len] if *len > limit => Ok(Err(*len)),
                _ => reading::whole(&self.endpoint, &self.object(key)?, limit).await,
            },
            Err(failure) => Err(self.object(key)?.error(&failure, "read")),
        }
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        let error = |failure: &Failure| failure.error(prefix, &self.inner.described, "list");
        let asked = self.ask(Ask::List { prefix: prefix.to_owned() }, "read").await;
        let (_, listing) = asked.map_err(|failure| error(&failure))?;
        let listed = decode_listing(&listing)
            .map_err(|bad| error(&Failure::of(Status::Io, format!("the listing is {bad}"))))?;
        let entries = listed.into_iter().map(|entry| ListEntry { key: entry.key, len: entry.len });
        let mut entries: Vec<_> = entries
            .filter(|entry| validate_key(&entry.key).is_ok() && entry.key.starts_with(prefix))
            .collect();
        entries.sort_unstable();
        Ok(entries)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let object = self.object(key)?;
        let message = Message {
            method: Method::DELETE,
            path: object.path.clone(),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        match Attempts::new(&self.endpoint, self.hands).done(&message, 4096).await {
            Ok(_) => Ok(()),
            Err(failure) => Err(object.error(&failure, "delete")),
        }
    }

    async fn sync(&self, keys: &[String]) -> Result<()> {
        keys.iter().try_for_each(|key| validate_key(key))?;
        if keys.is_empty() {
            return Ok(());
        }
        match self.ask(Ask::Sync { keys: keys.to_vec() }, "do").await {
            Ok(_) => Ok(()),
            Err(failure) => {
                let which = failure.found.and_then(|which| keys.get(usize::try_from(which).ok()?));
                let which = which.cloned().unwrap_or_else(|| keys.join(", "));
                Err(failure.error(&which, &self.inner.described, "sync"))
            }
        }
    }

    async fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        validate_prefix(prefix)?;
        let older = u64::try_from(older.as_millis()).unwrap_or(u64::MAX);
        match self.ask(Ask::Sweep { prefix: prefix.to_owned(), older }, "do").await {
            Ok((numbers, _)) => Ok(numbers.first().copied().unwrap_or(0)),
            Err(failure) => Err(failure.error(prefix, &self.inner.described, "sweep")),
        }
    }

    async fn execute(&self, request: Request) -> Result<Reply> {
        match request {
            Request::ReadMany { key, ranges, buffers } => {
                validate_key(&key)?;
                Ok(Reply::Read { buffers: self.ranges(&key, &ranges, buffers).await? })
            }
            Request::Expect { .. } => Ok(Reply::Expected { needless: true }),
            Request::Place { .. } => Ok(Reply::Placed),
            Request::Len { key } => Ok(Reply::Len { len: self.length(&key).await? }),
            Request::ReadWhole { key, limit } => Ok(Reply::Whole { bytes: self.whole(&key, limit).await? }),
            Request::List { prefix } => Ok(Reply::Listed { entries: self.list(&prefix).await? }),
            Request::Delete { key } => self.delete(&key).await.map(|()| Reply::Deleted),
            Request::Append { key, .. } => {
                validate_key(&key)?;
                let operation = format!("append (to '{key}')");
                Err(StoreError::Unsupported { operation, store: self.inner.described.clone() })
            }
            Request::Exec { key, method, input, limit } => {
                Ok(Reply::Executed { output: self.exec(&key, method, input, limit).await? })
            }
            Request::Put { key, data, mode, sync } => {
                let data = Bytes::from(data);
                putting::put(&self.endpoint, &self.object(&key)?, data.clone(), mode, sync).await?;
                // This makes no copy, unless an abandoned attempt still holds the bytes.
                Ok(Reply::Put { data: data.into() })
            }
            Request::Sync { keys } => {
                self.sync(&keys).await?;
                Ok(Reply::Sync { keys })
            }
        }
    }
}

impl Store for ServerStore {
    fn features(&self) -> Features {
        let latency = match &self.inner.address.way {
            Way::Unix(_) | Way::Tcp { encrypted: false, .. } => Duration::from_micros(500),
            Way::Tcp { .. } => Duration::from_millis(5),
        };
        Features {
            append: false,
            write_at: false,
            exec: true,
            sync: true,
            put_is_durable: false,
            uploads: true,
            far: Some(Far {
                latency,
                requests: u32::try_from(self.inner.options.max_requests).unwrap_or(u32::MAX),
                seen: self.endpoint().ok().and_then(|endpoint| endpoint.seen()),
                unsettled: None,
            }),
            targets: 0,
        }
    }

    fn describe(&self) -> String {
        self.inner.described.clone()
    }

    fn device(&self) -> Option<String> {
        Some(format!("server {}", self.inner.address.host()))
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// Returns `false`: a check costs a round trip, so the engine compares the identity where it matters.
    fn watch(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        self.wait(async |asking| reading::length(&asking.endpoint, &asking.object(key)?).await)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.wait(async |asking| asking.range(key, offset, out.len(), &mut Place { out, at: 0 }).await)
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.wait(async |asking| reading::whole(&asking.endpoint, &asking.object(key)?, limit).await)
    }

    fn append(&self, key: &str, _at: u64, _parts: &[&[u8]]) -> Result<()> {
        validate_key(key)?;
        self.unsupported(format!("append (to '{key}')"))
    }

    fn write_at(&self, key: &str, _parts: &[(u64, &[u8])], _len: u64) -> Result<()> {
        validate_key(key)?;
        self.unsupported(format!("write inside of '{key}'"))
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        let data = Bytes::from(parts.concat());
        self.wait(async |asking| putting::put(&asking.endpoint, &asking.object(key)?, data, mode, sync).await)
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        let path = format!("/v1/c/{}/o/{key}", self.inner.address.name());
        Ok(Box::new(Rising::begin(self.endpoint()?, path, key, &self.inner.described)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        self.wait(async |asking| asking.list(prefix).await)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.wait(async |asking| asking.delete(key).await)
    }

    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
        self.wait(async |asking| asking.sweep(prefix, older).await)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.wait(async |asking| asking.sync(&keys).await)
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        self.wait(async |asking| asking.exec(key, method.to_owned(), input.to_vec(), BATCH).await)
    }

    fn submit(&self, request: Request) -> Pending {
        let endpoint = match self.endpoint() {
            Ok(endpoint) => endpoint,
            Err(error) => return Pending::completed(Err(error)),
        };
        let name = self.inner.address.name();
        let names: Vec<String> = request.ordered_keys().iter().map(|key| format!("{name}/{key}")).collect();
        let mut place = endpoint.order.place(names);
        let (completer, pending) = Pending::waiting();
        let inner = Arc::clone(&self.inner);
        endpoint.handle.spawn(async move {
            place.reached().await;
            let asking = Asking { endpoint, inner: &inner, hands: Hands::Runtime };
            let outcome = asking.execute(request).await;
            drop(place);
            completer.complete(outcome);
        });
        pending
    }
}
