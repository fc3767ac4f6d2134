//! The store that the engine sees.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drystone_store::{
    Completer, Far, Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store,
    StoreError, Upload, validate_key, validate_prefix,
};

use crate::completion::{Outcome, tell, wait};
use crate::connection::{Connection, Connections, Unreachable};
use crate::library::Handle;
use crate::{Address, InvalidOption, Options};

const NOT_PERMITTED: c_int = -1;
const NO_ENTRY: c_int = -2;
const EXISTS: c_int = -17;
const RANGE: c_int = -34;
const OVERFLOW: c_int = -75;
const NO_ACCESS: c_int = -13;
const NOT_SUPPORTED: c_int = -95;
const TIMED_OUT: c_int = -110;
const NO_SPACE: [c_int; 2] = [-28, -122];
const TOO_LARGE: [c_int; 2] = [-27, -90];

/// `LIBRADOS_CREATE_EXCLUSIVE`.
const EXCLUSIVE: c_int = 1;
/// A longer buffer is made only for bytes that are there.
const TRUSTED: usize = 32 << 20;
/// What is read of an object of unknown length with one request.
const FIRST: u64 = 1 << 20;
/// The longest output of a method that is called without a limit.
const OUTPUT: usize = 34 << 20;
/// Lengths that are asked for at once by a listing.
const STATS: usize = 64;

/// A container's objects in a pool.
///
/// Clones share everything.
#[derive(Clone)]
pub struct RadosStore {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    options: Options,
    described: String,
    connections: Connections,
}

/// A write operation under construction.
struct WriteOp<'a> {
    connection: &'a Connection,
    op: Handle,
}

impl<'a> WriteOp<'a> {
    fn new(connection: &'a Connection) -> Self {
        // SAFETY: takes nothing, gives a new handle.
        let op = unsafe { (connection.api.rados_create_write_op)() };
        WriteOp { connection, op }
    }

    /// The object must not be there.
    fn create(&self) {
        // SAFETY: the operation is ours; a null category is allowed.
        unsafe { (self.connection.api.rados_write_op_create)(self.op, EXCLUSIVE, std::ptr::null()) };
    }

    fn assert_version(&self, version: u64) {
        // SAFETY: the operation is ours.
        unsafe { (self.connection.api.rados_write_op_assert_version)(self.op, version) };
    }

    /// Writes `parts` one behind the other from `at` on. librados copies them.
    fn write(&self, at: u64, parts: &[&[u8]]) {
        let mut at = at;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            // SAFETY: the operation is ours; the bytes are as long as is said.
            unsafe {
                (self.connection.api.rados_write_op_write)(self.op, part.as_ptr().cast(), part.len(), at)
            };
            at += part.len() as u64;
        }
    }

    /// Makes `parts` the whole content.
    fn write_full(&self, parts: &[&[u8]]) {
        let (first, rest) = parts.split_first().map_or((&[][..], parts), |(first, rest)| (*first, rest));
        // SAFETY: the operation is ours; the bytes are as long as is said.
        unsafe {
            (self.connection.api.rados_write_op_write_full)(self.op, first.as_ptr().cast(), first.len())
        };
        self.write(first.len() as u64, rest);
    }

    fn truncate(&self, len: u64) {
        // SAFETY: the operation is ours.
        unsafe { (self.connection.api.rados_write_op_truncate)(self.op, len) };
    }

    /// Does all of it, or nothing.
    fn execute(self, object: &CStr) -> Outcome {
        let Connection { api, io, .. } = *self.connection;
        wait(api, |completion| {
            // SAFETY: all handles are live until the operation is complete, which is waited for; no time is given.
            unsafe {
                (api.rados_aio_write_op_operate)(
                    self.op,
                    io,
                    completion,
                    object.as_ptr(),
                    std::ptr::null_mut(),
                    0,
                )
            }
        })
    }
}

impl Drop for WriteOp<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, released once.
        unsafe { (self.connection.api.rados_release_write_op)(self.op) };
    }
}

impl RadosStore {
    /// A container's objects. The cluster is asked for nothing yet.
    pub fn open(url: &str, options: Options) -> std::result::Result<RadosStore, InvalidOption> {
        let address = Address::parse(url)?;
        let described = address.to_string();
        let inner = Inner { address, options, described, connections: Connections::new() };
        Ok(RadosStore { inner: Arc::new(inner) })
    }

    /// Where it lies.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    fn connection(&self, key: &str) -> Result<Arc<Connection>> {
        let Inner { address, options, connections, .. } = &*self.inner;
        connections.get(address, options).map_err(|error| match error {
            Unreachable::Library(what) => {
                self.io(key, "reach", io::Error::new(io::ErrorKind::Unsupported, what))
            }
            Unreachable::Failed(what, code) => {
                let system = io::Error::from_raw_os_error(-code);
                let hint = match code {
                    NO_ENTRY => "; is the name right, and CEPH_CONF or the option \"conf\" set?",
                    TIMED_OUT => "; do the monitors answer?",
                    NO_ACCESS | NOT_PERMITTED => {
                        "; may the user (option \"user\") do that, and is its keyring found?"
                    }
                    _ => "",
                };
                let reason = format!("cannot {what}: {system}{hint}");
                let (key, store, operation) = (key.to_owned(), self.describe(), "reach");
                match code {
                    TIMED_OUT => StoreError::Deadline { key, store, operation, reason },
                    NO_ACCESS | NOT_PERMITTED => {
                        StoreError::PermissionDenied { key, store, operation, reason }
                    }
                    _ => self.io(&key, operation, io::Error::new(system.kind(), reason)),
                }
            }
        })
    }

    fn io(&self, key: &str, operation: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { key: key.to_owned(), store: self.describe(), operation, source }
    }

    /// What an error number of an operation means.
    fn failed(&self, key: &str, operation: &'static str, code: c_int) -> StoreError {
        let (owned, store) = (key.to_owned(), self.describe());
        match code {
            NO_ENTRY => StoreError::NotFound { key: owned, store },
            EXISTS => StoreError::AlreadyExists { key: owned, store },
            _ if NO_SPACE.contains(&code) => StoreError::NoSpace { key: owned, store, operation },
            _ if TOO_LARGE.contains(&code) => {
                let what = "it is larger than the cluster takes at once (osd_max_write_size, osd_max_object_size); \
                            publish in smaller shards";
                self.io(key, operation, io::Error::new(io::ErrorKind::FileTooLarge, what))
            }
            TIMED_OUT => {
                let reason = format!(
                    "no answer within {} s; whether it was done is unknown (are the storage daemons up?)",
                    self.inner.options.timeout
                );
                StoreError::Deadline { key: owned, store, operation, reason }
            }
            NOT_PERMITTED | NO_ACCESS => {
                let user = self.inner.options.user.as_deref().unwrap_or("admin");
                let reason =
                    format!("client.{user} may not do that; its capabilities are given by `ceph auth caps`");
                StoreError::PermissionDenied { key: owned, store, operation, reason }
            }
            code => self.io(key, operation, io::Error::from_raw_os_error(-code)),
        }
    }

    fn object(&self, key: &str) -> Result<CString> {
        validate_key(key)?;
        let reason = "it has no name in a pool";
        CString::new(self.inner.address.object(key))
            .map_err(|_| StoreError::InvalidKey { key: key.to_owned(), reason })
    }

    /// Length and version.
    fn stat(&self, connection: &Connection, key: &str, object: &CStr) -> Result<(u64, u64)> {
        let Connection { api, io, .. } = *connection;
        let (mut len, mut time) = (0u64, 0i64);
        let outcome = wait(api, |completion| {
            // SAFETY: the places live until the operation is complete, which is waited for.
            unsafe { (api.rados_aio_stat)(io, object.as_ptr(), completion, &mut len, &mut time) }
        });
        match outcome.code {
            0.. => Ok((len, outcome.version)),
            code => Err(self.failed(key, "ask for the length of", code)),
        }
    }

    fn short(&self, key: &str, offset: u64, wanted: usize, got: u64) -> StoreError {
        StoreError::ShortRead {
            key: key.to_owned(),
            store: self.describe(),
            offset,
            wanted: wanted as u64,
            got: got.min(wanted as u64),
        }
    }

    /// Reads what there is of a range; the number of bytes.
    fn read_some(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        let object = self.object(key)?;
        let connection = self.connection(key)?;
        let past = c_int::try_from(out.len()).is_err()
            || offset.checked_add(out.len() as u64).is_none_or(|e| e >> 62 > 0);
        if out.is_empty() || past {
            let (len, _) = self.stat(&connection, key, &object)?;
            return match past {
                false => Ok(0),
                true => Err(self.short(key, offset, out.len(), len.saturating_sub(offset))),
            };
        }
        let Connection { api, io, .. } = *connection;
        let outcome = wait(api, |completion| {
            // SAFETY: the buffer is exclusively ours and lives until the operation is complete, which is waited for.
            unsafe {
                (api.rados_aio_read)(
                    io,
                    object.as_ptr(),
                    completion,
                    out.as_mut_ptr().cast(),
                    out.len(),
                    offset,
                )
            }
        });
        usize::try_from(outcome.code).map_err(|_| self.failed(key, "read", outcome.code))
    }

    /// Writes under the version at which the object had a length that `accept` takes.
    fn write_when(
        &self,
        key: &str,
        operation: &'static str,
        accept: impl Fn(u64) -> Result<()>,
        build: impl Fn(&WriteOp<'_>, u64),
    ) -> Result<()> {
        let object = self.object(key)?;
        let connection = self.connection(key)?;
        // Between the look and the write another may write: then look again. An object has one writer, so this ends.
        const TRIES: usize = 16;
        for _ in 0..TRIES {
            let (len, version) = self.stat(&connection, key, &object)?;
            accept(len)?;
            let op = WriteOp::new(&connection);
            op.assert_version(version);
            build(&op, len);
            match op.execute(&object).code {
                0.. => return Ok(()),
                RANGE | OVERFLOW => {}
                code => return Err(self.failed(key, operation, code)),
            }
        }
        Err(self.failed(key, operation, RANGE))
    }

    fn conflict(&self, key: &str, expected: u64, found: u64) -> StoreError {
        StoreError::Conflict { key: key.to_owned(), store: self.describe(), expected, found }
    }

    /// Objects that are put whole never change.
    fn must_append(&self, key: &str, what: &str) -> Result<()> {
        validate_key(key)?;
        if self.inner.options.append {
            return Ok(());
        }
        let operation = format!("{what} (to '{key}') without the option \"append\"");
        Err(StoreError::Unsupported { operation, store: self.describe() })
    }

    fn exec_within(&self, key: &str, method: &str, input: &[u8], limit: usize) -> Result<Vec<u8>> {
        let (object, connection) = (self.object(key)?, self.connection(key)?);
        let (class, name) = self.method(method)?;
        let mut out = vec![0u8; limit];
        let Connection { api, io, .. } = *connection;
        let outcome = wait(api, |completion| {
            // SAFETY: names, input and output live until the operation is complete, which is waited for.
            unsafe {
                (api.rados_aio_exec)(
                    io,
                    object.as_ptr(),
                    completion,
                    class.as_ptr(),
                    name.as_ptr(),
                    input.as_ptr().cast(),
                    input.len(),
                    out.as_mut_ptr().cast(),
                    out.len(),
                )
            }
        });
        self.executed(key, method, out, outcome.code)
    }

    fn executed(&self, key: &str, method: &str, mut out: Vec<u8>, code: c_int) -> Result<Vec<u8>> {
        match code {
            0.. => {
                out.truncate(code as usize);
                Ok(out)
            }
            // The class is not listed, or not installed, or the pool does not run classes.
            NOT_PERMITTED | NOT_SUPPORTED => Err(StoreError::Unsupported {
                operation: format!("running {method} ({})", io::Error::from_raw_os_error(-code)),
                store: self.describe(),
            }),
            code => Err(self.failed(key, "run a method on", code)),
        }
    }

    /// Class and method of `class.method`.
    fn method(&self, method: &str) -> Result<(CString, CString)> {
        let (class, name) = method.split_once('.').unwrap_or((method, ""));
        match (CString::new(class), CString::new(name)) {
            (Ok(class), Ok(name)) => Ok((class, name)),
            _ => Err(StoreError::Unsupported {
                operation: format!("exec of {method:?}"),
                store: self.describe(),
            }),
        }
    }
}

/// A read of several ranges: their buffers, filled by operations under way.
struct Gathering {
    buffers: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    left: usize,
    failed: Option<StoreError>,
    completer: Option<Completer>,
}

/// Buffers that librados writes to while nobody else touches them.
struct Place(*mut u8);

// SAFETY: the memory is a buffer of a `Gathering`, which is not touched until the operation on it is complete.
unsafe impl Send for Place {}

impl RadosStore {
    /// Submits one operation for each range; the last to be complete completes the request.
    fn submit_read(&self, key: String, ranges: Vec<(u64, usize)>, buffers: Vec<Vec<u8>>) -> Pending {
        let prepared = self.object(&key).and_then(|object| Ok((object, self.connection(&key)?)));
        let (object, connection) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Pending::completed(Err(error)),
        };
        let plain = |&(offset, len): &(u64, usize)| {
            len > 0 && len <= TRUSTED && offset.checked_add(len as u64).is_some_and(|end| end >> 62 == 0)
        };
        if ranges.is_empty() || !ranges.iter().all(plain) {
            // Rare: nothing, or more than an object has. The methods that wait look at the length first.
            let (completer, pending) = Pending::waiting();
            let store = self.clone();
            let request = Request::ReadMany { key, ranges, buffers };
            let work = move || completer.complete(request.execute_on(&store));
            connection.queue.push(Vec::new(), Box::new(work));
            return pending;
        }
        let mut given = buffers.into_iter();
        let mut filled: Vec<Vec<u8>> = Vec::with_capacity(ranges.len());
        for &(_, len) in &ranges {
            let mut buffer = given.next().unwrap_or_default();
            if buffer.capacity() < len {
                buffer = vec![0; len];
            }
            buffer.resize(len, 0);
            filled.push(buffer);
        }
        let places: Vec<Place> = filled.iter_mut().map(|buffer| Place(buffer.as_mut_ptr())).collect();
        let spare = given.map(|mut buffer| {
            buffer.clear();
            buffer
        });
        let (completer, pending) = Pending::waiting();
        let gathering = Arc::new(Mutex::new(Gathering {
            buffers: filled,
            spare: spare.collect(),
            left: ranges.len(),
            failed: None,
            completer: Some(completer),
        }));
        for ((offset, len), place) in ranges.into_iter().zip(places) {
            let (gathering, store, key) = (gathering.clone(), self.clone(), key.clone());
            let told = move |outcome: Outcome| {
                let mut gathering = gathering.lock().unwrap_or_else(PoisonError::into_inner);
                let error = match usize::try_from(outcome.code) {
                    Ok(got) if got == len => None,
                    Ok(got) => Some(store.short(&key, offset, len, got as u64)),
                    Err(_) => Some(store.failed(&key, "read", outcome.code)),
                };
                if gathering.failed.is_none() {
                    gathering.failed = error;
                }
                gathering.left -= 1;
                if gathering.left > 0 {
                    return;
                }
                let mut buffers = std::mem::take(&mut gathering.buffers);
                buffers.append(&mut gathering.spare);
                let outcome = gathering.failed.take().map_or(Ok(Reply::Read { buffers }), Err);
                let completer = gathering.completer.take();
                drop(gathering);
                if let Some(completer) = completer {
                    completer.complete(outcome);
                }
            };
            let Connection { api, io, .. } = *connection;
            tell(
                api,
                &connection.under_way,
                // SAFETY: the buffer belongs to the gathering, which lives until all its operations are complete, and is not moved.
                |completion| unsafe {
                    (api.rados_aio_read)(io, object.as_ptr(), completion, place.0.cast(), len, offset)
                },
                Box::new(told),
            );
        }
        pending
    }

    fn submit_exec(&self, key: String, method: String, input: Vec<u8>, limit: usize) -> Pending {
        let prepared =
            self.object(&key).and_then(|object| Ok((object, self.connection(&key)?, self.method(&method)?)));
        let (object, connection, (class, name)) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Pending::completed(Err(error)),
        };
        let (completer, pending) = Pending::waiting();
        let mut out = vec![0u8; limit];
        let place = Place(out.as_mut_ptr());
        let store = self.clone();
        let told = move |outcome: Outcome| {
            completer.complete(
                store.executed(&key, &method, out, outcome.code).map(|output| Reply::Executed { output }),
            );
        };
        let Connection { api, io, .. } = *connection;
        tell(
            api,
            &connection.under_way,
            // SAFETY: librados copies names and input before it returns; the output's memory is held by what is told, and not moved.
            |completion| unsafe {
                (api.rados_aio_exec)(
                    io,
                    object.as_ptr(),
                    completion,
                    class.as_ptr(),
                    name.as_ptr(),
                    input.as_ptr().cast(),
                    input.len(),
                    place.0.cast(),
                    limit,
                )
            },
            Box::new(told),
        );
        pending
    }
}

impl std::fmt::Debug for RadosStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RadosStore({})", self.inner.described)
    }
}

impl Store for RadosStore {
    fn features(&self) -> Features {
        Features {
            append: self.inner.options.append,
            write_at: self.inner.options.append,
            exec: true,
            sync: true,
            put_is_durable: true,
            far: Some(Far {
                latency: Duration::from_millis(1),
                requests: self.inner.options.requests,
                seen: None,
            }),
            targets: 0,
            uploads: false,
        }
    }

    fn describe(&self) -> String {
        self.inner.described.clone()
    }

    fn device(&self) -> Option<String> {
        let fsid = self.connection("").ok().map(|connection| connection.fsid.clone());
        Some(format!("rados {} {}", fsid?, self.inner.address.pool()))
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }

    /// False: a look costs a round trip, so the engine compares the identity where it matters.
    fn watch(&self, _key: &str) -> Result<bool> {
        Ok(false)
    }

    fn unchanged(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self, key: &str) -> Result<u64> {
        let object = self.object(key)?;
        Ok(self.stat(&*self.connection(key)?, key, &object)?.0)
    }

    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        let got = self.read_some(key, offset, out)?;
        if got == out.len() { Ok(()) } else { Err(self.short(key, offset, out.len(), got as u64)) }
    }

    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let first = limit.saturating_add(1).min(FIRST) as usize;
        let mut bytes = vec![0; first];
        let got = self.read_some(key, 0, &mut bytes)?;
        if got < first {
            bytes.truncate(got);
            return Ok(Ok(bytes));
        }
        let len = self.len(key)?;
        match usize::try_from(len) {
            Ok(whole) if len <= limit => {
                bytes.resize(whole, 0);
                let rest = bytes.get_mut(first..).unwrap_or_default();
                if !rest.is_empty() {
                    self.read(key, first as u64, rest)?;
                }
                Ok(Ok(bytes))
            }
            _ => Ok(Err(len)),
        }
    }

    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        self.must_append(key, "append")?;
        if at == 0 {
            let (object, connection) = (self.object(key)?, self.connection(key)?);
            let op = WriteOp::new(&connection);
            op.create();
            op.write_full(parts);
            return match op.execute(&object).code {
                0.. => Ok(()),
                code => Err(self.failed(key, "append to", code)),
            };
        }
        let accept = |len: u64| if len == at { Ok(()) } else { Err(self.conflict(key, at, len)) };
        self.write_when(key, "append to", accept, |op, _| op.write(at, parts))
    }

    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        self.must_append(key, "write inside")?;
        let within =
            |(at, data): &(u64, &[u8])| at.checked_add(data.len() as u64).is_some_and(|end| end <= len);
        let fits = parts.iter().all(within);
        let accept =
            |found: u64| if fits && found <= len { Ok(()) } else { Err(self.conflict(key, len, found)) };
        self.write_when(key, "write inside of", accept, |op, found| {
            parts.iter().for_each(|(at, data)| op.write(*at, &[data]));
            if found < len {
                op.truncate(len);
            }
        })
    }

    fn upload(&self, key: &str) -> Result<Box<dyn Upload>> {
        validate_key(key)?;
        let operation = format!("upload in pieces (of '{key}')");
        Err(StoreError::Unsupported { operation, store: self.describe() })
    }

    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, _sync: bool) -> Result<()> {
        let (object, connection) = (self.object(key)?, self.connection(key)?);
        let op = WriteOp::new(&connection);
        if mode == PutMode::IfAbsent {
            op.create();
        }
        op.write_full(parts);
        match op.execute(&object).code {
            0.. => Ok(()),
            code => Err(self.failed(key, "put", code)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        validate_prefix(prefix)?;
        let connection = self.connection(prefix)?;
        let names = self.names(&connection, prefix)?;
        let mut entries = Vec::with_capacity(names.len());
        for some in names.chunks(STATS) {
            let asked = some.iter().map(|key| self.submit(Request::Len { key: key.clone() }));
            let asked: Vec<Pending> = asked.collect();
            for (key, len) in some.iter().zip(asked) {
                match len.wait() {
                    Ok(Reply::Len { len }) => entries.push(ListEntry { key: key.clone(), len }),
                    Ok(_) | Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn delete(&self, key: &str) -> Result<()> {
        let (object, connection) = (self.object(key)?, self.connection(key)?);
        let Connection { api, io, .. } = *connection;
        // SAFETY: all handles are live until the operation is complete, which is waited for.
        let outcome =
            wait(api, |completion| unsafe { (api.rados_aio_remove)(io, object.as_ptr(), completion) });
        match outcome.code {
            0.. | NO_ENTRY => Ok(()),
            code => Err(self.failed(key, "delete", code)),
        }
    }

    /// Puts leave nothing behind when a process is killed.
    fn sweep(&self, prefix: &str, _older: Duration) -> Result<u64> {
        validate_prefix(prefix)?;
        Ok(0)
    }

    fn sync(&self, keys: &[&str]) -> Result<()> {
        keys.iter().try_for_each(|key| validate_key(key))
    }

    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        self.exec_within(key, method, input, OUTPUT)
    }

    fn submit(&self, request: Request) -> Pending {
        match request {
            Request::ReadMany { key, ranges, buffers } => self.submit_read(key, ranges, buffers),
            Request::Exec { key, method, input, limit } => self.submit_exec(key, method, input, limit),
            Request::Expect { .. } => Pending::completed(Ok(Reply::Expected { needless: true })),
            Request::Place { .. } => Pending::completed(Ok(Reply::Placed)),
            Request::Len { key } => self.submit_len(key),
            other => {
                let connection = match self.connection("") {
                    Ok(connection) => connection,
                    Err(error) => return Pending::completed(Err(error)),
                };
                let (completer, pending) = Pending::waiting();
                let (store, keys) = (self.clone(), other.ordered_keys().to_vec());
                let work = move || completer.complete(other.execute_on(&store));
                connection.queue.push(keys, Box::new(work));
                pending
            }
        }
    }
}

impl RadosStore {
    fn submit_len(&self, key: String) -> Pending {
        let prepared = self.object(&key).and_then(|object| Ok((object, self.connection(&key)?)));
        let (object, connection) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Pending::completed(Err(error)),
        };
        let (completer, pending) = Pending::waiting();
        let mut found = Box::new((0u64, 0i64));
        let (len, time) = (&raw mut found.0, &raw mut found.1);
        let store = self.clone();
        let told = move |outcome: Outcome| {
            completer.complete(match outcome.code {
                0.. => Ok(Reply::Len { len: found.0 }),
                code => Err(store.failed(&key, "ask for the length of", code)),
            });
        };
        let Connection { api, io, .. } = *connection;
        // SAFETY: the places are held by what is told, on the heap, and read only after the operation is complete.
        let start = |completion| unsafe { (api.rados_aio_stat)(io, object.as_ptr(), completion, len, time) };
        tell(api, &connection.under_way, start, Box::new(told));
        pending
    }

    /// Keys of the container that begin with a prefix, in the order of the placement groups.
    fn names(&self, connection: &Connection, prefix: &str) -> Result<Vec<String>> {
        let Connection { api, io, .. } = *connection;
        let mut list = std::ptr::null_mut();
        // SAFETY: the place for the handle is ours.
        let opened = unsafe { (api.rados_nobjects_list_open)(io, &mut list) };
        if opened < 0 {
            return Err(self.failed(prefix, "list", opened));
        }
        let mut names = Vec::new();
        let ended = loop {
            let (mut entry, mut locator, mut space) = (std::ptr::null(), std::ptr::null(), std::ptr::null());
            // SAFETY: the list is open; the places are ours.
            let code = unsafe { (api.rados_nobjects_list_next)(list, &mut entry, &mut locator, &mut space) };
            if code < 0 {
                break code;
            }
            // SAFETY: librados gives a text that ends with a zero and lives until the next call.
            let name = unsafe { CStr::from_ptr(entry) };
            let key = name.to_str().ok().and_then(|name| self.inner.address.key(name));
            if let Some(key) = key.filter(|key| key.starts_with(prefix) && validate_key(key).is_ok()) {
                names.push(key.to_owned());
            }
        };
        // SAFETY: opened above, closed once.
        unsafe { (api.rados_nobjects_list_close)(list) };
        match ended {
            NO_ENTRY => {
                names.sort_unstable();
                names.dedup();
                Ok(names)
            }
            code => Err(self.failed(prefix, "list", code)),
        }
    }
}
