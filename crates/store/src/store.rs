//! The contract between the engine and the store of its bytes.
//!
//! [`Store`] has only the methods that every transport must provide. None has a default, since a wrapper that forgot
//! one would silently lose an ability of the inner store. [`LocalFiles`] has the operations that only files support;
//! [`StoreExt`] has convenience methods.

use std::sync::Arc;
use std::time::Duration;

use crate::request::{grow_to, must_check_length};
use crate::{LocalFiles, Pending, Reply, Request, Result, StoreError, Upload};

/// The features of a store beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `append` works; otherwise objects are put whole and never change.
    pub append: bool,
    /// `write_at` works on objects that were appended to.
    pub write_at: bool,
    /// `exec` runs at least one method on the storage side.
    pub exec: bool,
    /// `sync` and `put(.., sync: true)` make bytes survive a power cut. A store without this feature accepts both and
    /// guarantees nothing more.
    pub sync: bool,
    /// An acknowledged `put` survives a power cut, with or without `sync`: a sync costs nothing.
    pub put_is_durable: bool,
    /// `upload` works: an object may be uploaded in pieces.
    pub uploads: bool,
    /// A round trip takes milliseconds, and many requests may be under way at once; `None` for memory and files.
    pub far: Option<Far>,
    /// Number of storage targets among which [`Request::Place`] chooses; 0 if all objects lie in one place.
    pub targets: u32,
}

/// The features of a far store that a reader must know before it has measured anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// The typical time from a request to its first byte: the class of the store, not a measurement.
    pub latency: Duration,
    /// Largest useful number of requests under way at once.
    pub requests: u32,
    /// The same time as this process has measured it, if it got enough replies. It is used for predictions. Stored
    /// layouts depend on `latency` instead, so that they do not depend on the time of day.
    pub seen: Option<Duration>,
    /// How long from now on a removal, whose connection broke and which was repeated, may still be executed: it would
    /// also remove an object that was put meanwhile.
    pub unsettled: Option<Duration>,
}

/// What `put` does with an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Keep it and fail with [`StoreError::AlreadyExists`]. Exactly one of any number of concurrent writers succeeds.
    IfAbsent,
    /// Replace it; a reader sees the old bytes or the new, never a mixture within one read.
    Replace,
}

/// One object in a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListEntry {
    /// Its full key, prefix included.
    pub key: String,
    /// Its length in bytes at the time of the listing.
    pub len: u64,
}

/// A store of named byte strings.
///
/// All methods may be called from any number of threads at once, and other processes may use the same objects. Keys are
/// checked first ([`validate_key`](crate::validate_key)); an invalid key is [`StoreError::InvalidKey`], and nothing is
/// changed. A store need not support both `a` and `a/b` at the same time.
///
/// *Visibility*: every call that begins after a method returned `Ok` sees its effect. *Kill*: when the process dies,
/// every effect of a call that returned `Ok` stays. Any prefix of an append under way may stay, and all or nothing of a
/// put or delete under way. *Power cut*: what a sync covered stays. Any subset of the 512-byte sectors appended since
/// then may stay; the others have any content. An object put without sync may be absent, the previous one, complete or
/// damaged. A delete may be undone.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// The features of this store; constant over its life.
    fn features(&self) -> Features;

    /// Where the bytes are, for messages: a path, a URL.
    fn describe(&self) -> String;

    /// Identifies the medium: the same text for stores whose requests cost the same, also in other processes and later.
    /// `None` if it is unknown, or there is no medium.
    fn device(&self) -> Option<String>;

    /// The operations that only local files support; `None` for every other store. A wrapper forwards all of it, or
    /// returns `None` so that every read and write goes through its own methods.
    fn local(&self) -> Option<&dyn LocalFiles>;

    /// Identifies the store by this object from now on. If the object is removed or replaced,
    /// [`unchanged`](Store::unchanged) fails, and so does every change before it has any effect. Returns `false` if
    /// this store cannot watch; then the caller compares the object itself.
    fn watch(&self, key: &str) -> Result<bool>;

    /// Checks that the watched object still exists; else [`StoreError::Removed`] or [`StoreError::Replaced`].
    fn unchanged(&self) -> Result<()>;

    /// Length of the object in bytes, or [`StoreError::NotFound`].
    fn len(&self, key: &str) -> Result<u64>;

    /// Fills all of `out` with the bytes from `offset`, or fails with [`StoreError::ShortRead`] if the object ends
    /// before that; then the content of `out` is unspecified. Reading 0 bytes succeeds at any offset of an existing
    /// object.
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()>;

    /// The whole object if it is at most `limit` bytes long; else its length. It is one request if the transport
    /// supports that.
    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>>;

    /// Appends `parts`, one after the other, to the object, which ends at byte `at`.
    ///
    /// `at == 0` creates the object and fails with [`StoreError::AlreadyExists`] if it exists, even if it is empty; an
    /// `at` other than the current length is [`StoreError::Conflict`]; both change nothing. An object has one writer:
    /// two concurrent appends to one key are an error of the caller, and may both seem to succeed. Readers may read
    /// below the length while it grows. After [`StoreError::NoSpace`], [`StoreError::Deadline`] or [`StoreError::Io`],
    /// any prefix of `parts` may have been appended; the length tells how much.
    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()>;

    /// Writes each of `parts` at its offset over the bytes there. Afterwards the object is `len` bytes long: as long as
    /// before, or extended with zeros. Parts must be disjoint.
    ///
    /// The object must exist, else [`StoreError::NotFound`]. All parts must end at or before `len`, and `len` must not
    /// be less than the present length, else [`StoreError::Conflict`] and nothing is changed. The object has one
    /// writer, as for [`append`](Store::append). The method is for bytes that no reader knows yet: a concurrent read,
    /// or one after an error, may find any mixture of old and new bytes. In a power cut the bytes are treated like
    /// appended ones. [`StoreError::Unsupported`] without [`Features::write_at`].
    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()>;

    /// Makes `parts`, one after the other, the whole content of the object, atomically: a reader sees all of it or
    /// nothing, even if this process is killed meanwhile. With `sync`, name and bytes survive a power cut once this
    /// returns. An earlier power cut also leaves all of it or nothing: bytes become durable before the name. After
    /// [`StoreError::Io`] or [`StoreError::Deadline`] the put may have been done; read the object back to find out.
    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()>;

    /// Begins an upload of an object in pieces ([`Upload`]). No other process may put to the key meanwhile. A finished
    /// upload is as durable as a put without sync: [`sync`](Store::sync) makes it survive a power cut.
    /// [`StoreError::Unsupported`] without [`Features::uploads`].
    fn upload(&self, key: &str) -> Result<Box<dyn Upload>>;

    /// All objects whose key begins with `prefix`, which may end anywhere in a key, sorted by key.
    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>>;

    /// Removes the object. Returns `Ok` also if there is none: a delete whose reply was lost is repeated, and a far
    /// store cannot tell. Reads under way finish with the old bytes or fail.
    fn delete(&self, key: &str) -> Result<()>;

    /// Removes the remains of `put`s of killed processes at keys that begin with `prefix`, and empty folders; returns
    /// the number of removed files and folders. No object is changed.
    ///
    /// If `older` is zero, the caller guarantees that no process puts or appends to such keys meanwhile; such a call
    /// may fail. Otherwise only files that were not written to for that long are removed, and no folders.
    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64>;

    /// Makes the present bytes and the names of these objects survive a power cut. An absent one is
    /// [`StoreError::NotFound`], except with [`Features::put_is_durable`], where no request is made. After any error,
    /// none of them may be considered durable.
    fn sync(&self, keys: &[&str]) -> Result<()>;

    /// Runs `method` on the object on the storage side; [`StoreError::Unsupported`] if the storage side runs no
    /// methods.
    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>>;

    /// The same operations without waiting. The store owns the buffers until the reply returns them.
    ///
    /// Appends, puts and syncs that share a key are executed in the order of submission, so a sync covers the appends
    /// submitted before it. Reads do not wait for other requests. A store may execute a request at once. The caller
    /// limits how many requests are under way.
    fn submit(&self, request: Request) -> Pending;
}

/// The parts that [`LocalFiles::read_seen`] passes on are multiples of this many bytes, as a power of two.
pub const SEEN_LOG2: u8 = 16;

/// Most small requests that callers submit together: they fill the window of a far store, and their replies are short.
pub const TOGETHER: usize = 128;

/// Convenience methods for callers, on every [`Store`].
pub trait StoreExt: Store {
    /// The `len` bytes at `offset`. No memory is allocated for a length that the object does not have.
    fn read_vec(&self, key: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if must_check_length(len) {
            self.expect_range(key, offset, len)?;
        }
        let mut out = Vec::new();
        grow_to(&mut out, len);
        self.read(key, offset, &mut out)?;
        Ok(out)
    }

    /// The whole object, which must not be longer than `limit` bytes: untrusted objects must not decide how much memory
    /// is used.
    fn read_all(&self, key: &str, limit: u64) -> Result<Vec<u8>> {
        self.read_whole(key, limit)?.map_err(|len| StoreError::Io {
            key: key.to_owned(),
            store: self.describe(),
            operation: "read whole",
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!(
                    "it is {len} bytes long where at most {limit} are expected; it is damaged or not ours"
                ),
            ),
        })
    }

    /// [`LocalFiles::read_seen`], or else a read that passes on all bytes at once.
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        match self.local() {
            Some(files) => files.read_seen(key, offset, out, seen),
            None => by_requests::read_seen(self, key, offset, out, seen),
        }
    }

    /// Reads several ranges (offset and length), one after the other, into `out`, whose length is their sum. Each is a
    /// request; a far store has all of them under way at once.
    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        match self.local() {
            Some(files) => files.read_ranges(key, ranges, out),
            None => by_requests::read_ranges(self, key, ranges, out),
        }
    }

    /// [`LocalFiles::read_parts`], or else one read whose bytes are copied to the parts.
    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        match self.local() {
            Some(files) => files.read_parts(key, offset, parts),
            None => by_requests::read_parts(self, key, offset, parts),
        }
    }

    /// A [`put`](Store::put) with `sync` of an object that names others. It appears only once the present bytes and the
    /// names of the objects `first` survive a power cut, as after a [`sync`](Store::sync) of them. After an error, none
    /// of `first` may be considered durable.
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        if let Some(files) = self.local() {
            return files.put_after(first, key, parts, mode);
        }
        self.sync(first)?;
        self.put(key, parts, mode, true)
    }

    /// [`LocalFiles::preallocate`] if there are local files; else nothing.
    fn preallocate(&self, key: &str, at: u64, end: u64) {
        if let Some(files) = self.local() {
            files.preallocate(key, at, end);
        }
    }

    /// Executes all requests: together if the store is far, else one after the other in this thread. Returns the
    /// outcomes in order. The number under way is not limited, so pass at most [`TOGETHER`].
    fn together(&self, requests: Vec<Request>) -> Vec<Result<Reply>> {
        if self.features().far.is_none() {
            return requests.into_iter().map(|request| request.execute_on(self)).collect();
        }
        let pending: Vec<Pending> = requests.into_iter().map(|request| self.submit(request)).collect();
        pending.into_iter().map(Pending::wait).collect()
    }

    /// Removes objects; in a far store, [`TOGETHER`] of them at once. After a failure the rest may remain.
    fn delete_all(&self, keys: &[String]) -> Result<()> {
        for some in keys.chunks(TOGETHER) {
            let deletes = some.iter().map(|key| Request::Delete { key: key.clone() }).collect();
            self.together(deletes).into_iter().try_for_each(|done| done.map(drop))?;
        }
        Ok(())
    }

    /// [`Store::read_whole`] by two requests, for transports that cannot do it by one.
    fn read_whole_by_length(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let len = self.len(key)?;
        match usize::try_from(len) {
            Ok(fits) if len <= limit => self.read_vec(key, 0, fits).map(Ok),
            _ => Ok(Err(len)),
        }
    }

    /// Whether there is an object with this key.
    fn exists(&self, key: &str) -> Result<bool> {
        match self.len(key) {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Fails with [`StoreError::ShortRead`] unless the object has `len` bytes at `offset`.
    fn expect_range(&self, key: &str, offset: u64, len: usize) -> Result<()> {
        let there = self.len(key)?.saturating_sub(offset);
        if there >= len as u64 {
            return Ok(());
        }
        Err(StoreError::ShortRead {
            key: key.to_owned(),
            store: self.describe(),
            offset,
            wanted: len as u64,
            got: there,
        })
    }
}

/// The reads of [`LocalFiles`] by requests of [`Store`], for objects that are not local files.
pub mod by_requests {
    use crate::{Request, Result, Store};

    /// A read that passes on all bytes once they have arrived.
    pub fn read_seen<S: Store + ?Sized>(
        store: &S,
        key: &str,
        offset: u64,
        out: &mut [u8],
        seen: &mut dyn FnMut(&[u8]),
    ) -> Result<()> {
        store.read(key, offset, out)?;
        seen(out);
        Ok(())
    }

    /// Reads several ranges (offset and length), one after the other, into `out`, whose length is their sum. A far
    /// store has all requests under way at once.
    pub fn read_ranges<S: Store + ?Sized>(
        store: &S,
        key: &str,
        ranges: &[(u64, usize)],
        out: &mut [u8],
    ) -> Result<()> {
        let mut rest = out;
        if store.features().far.is_some() && ranges.len() > 1 {
            let reply = store.submit(Request::read_many(key, ranges.to_vec())).wait()?;
            for (bytes, &(_, len)) in reply.into_buffers().iter().zip(ranges) {
                let (part, behind) = rest.split_at_mut(len.min(rest.len()));
                part.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                rest = behind;
            }
            return Ok(());
        }
        for &(offset, len) in ranges {
            let (part, behind) = rest.split_at_mut(len.min(rest.len()));
            store.read(key, offset, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// One read whose bytes are copied to `parts`.
    pub fn read_parts<S: Store + ?Sized>(
        store: &S,
        key: &str,
        offset: u64,
        parts: &mut [&mut [u8]],
    ) -> Result<()> {
        if let [part] = parts {
            return store.read(key, offset, part);
        }
        let mut bytes = vec![0; parts.iter().map(|part| part.len()).sum()];
        store.read(key, offset, &mut bytes)?;
        let mut rest = bytes.as_slice();
        for part in parts {
            let (first, behind) = rest.split_at(part.len());
            part.copy_from_slice(first);
            rest = behind;
        }
        Ok(())
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

macro_rules! forward_to_pointee {
    ($($pointer:ty),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer {
            crate::forward! {
                * =>
                features, describe, device, local, watch, unchanged, len, read, read_whole, append, write_at, put,
                upload, list, delete, sweep, sync, exec, submit
            }
        }
    )*};
}

forward_to_pointee!(Arc<S>, Box<S>, &S);
