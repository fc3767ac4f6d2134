//! The store that the engine sees.

mod failure;
mod holders;
mod listing;
mod methods;
mod submitted;
mod write_op;

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use drystone_store::{
    Far, Features, ListEntry, LocalFiles, Pending, PutMode, Reply, Request, Result, Store, StoreError,
    Upload, validate_key, validate_prefix,
};

use crate::completion::wait;
use crate::connection::{Connection, Connections, Unreachable};
use crate::{Address, InvalidOption, Options};
use failure::{NO_ACCESS, NO_ENTRY, NOT_PERMITTED, OVERFLOW, RANGE, TIMED_OUT};
use write_op::WriteOp;

/// The longest buffer, in bytes, that is allocated before the length of the object is known.
const TRUSTED: usize = 32 << 20;
/// Bytes that one request reads of an object of unknown length.
const FIRST: u64 = 1 << 20;
/// The longest output of a method that is called without a limit.
const OUTPUT: usize = 34 << 20;
/// Lengths that a listing requests at once.
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
                unsettled: None,
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
        let (key, method, input) = (key.to_owned(), method.to_owned(), input.to_vec());
        match self.submit_exec(key, method, input, OUTPUT).wait()? {
            Reply::Executed { output } => Ok(output),
            _ => Ok(Vec::new()),
        }
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
