//! The contract between the engine and whatever holds its bytes.
//!
//! [`Store`] has only what a transport must truly provide, without default methods: a wrapper that forgot one
//! would silently lose what the inner store can do. What only files can do is [`LocalFiles`]; comfort for callers is in [`StoreExt`].

use std::sync::Arc;
use std::time::Duration;

use crate::request::{grow_to, must_check_length};
use crate::{LocalFiles, Pending, Reply, Request, Result, StoreError};

/// What a store can do beyond the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// `append` works; otherwise objects are put whole and never change.
    pub append: bool,
    /// `write_at` works, in objects that were appended to.
    pub write_at: bool,
    /// `exec` runs at least one method where the bytes are.
    pub exec: bool,
    /// `sync` and `put(.., sync: true)` make bytes survive a power cut. A store without it accepts both and
    /// promises nothing more than before.
    pub sync: bool,
    /// What `put` has acknowledged survives a power cut, whether or not it was asked to: a sync costs nothing.
    pub put_is_durable: bool,
    /// A round trip takes milliseconds, and many requests may be under way at once; `None` for memory and files.
    pub far: Option<Far>,
    /// Storage targets among which [`Request::Place`] chooses; 0 where all objects lie in one place.
    pub targets: u32,
}

/// What a reader of a far store has to know before it has measured anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// The usual time from a request to its first byte: the class, not a measurement.
    pub latency: Duration,
    /// Largest number of requests under way at once that is worth it.
    pub requests: u32,
}

/// What `put` does with an object that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// Leave it and fail with [`StoreError::AlreadyExists`]. Of any number of writers exactly one succeeds.
    IfAbsent,
    /// Replace it; a reader sees the old bytes or the new, never a mixture within one read.
    Replace,
}

/// One object in a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListEntry {
    /// Its whole key, prefix included.
    pub key: String,
    /// Its length in bytes when it was looked at.
    pub len: u64,
}

/// A keeper of named byte strings.
///
/// All methods may be called from any number of threads at once, and other processes may use the same objects.
/// Keys are checked first ([`validate_key`](crate::validate_key)); a bad one is [`StoreError::InvalidKey`]
/// and nothing is touched. A store need not be able to hold both `a` and `a/b`.
///
/// *Seen*: what a method has done when it returns `Ok` is seen by every call that begins afterwards.
/// *Killed*: when the process dies, what had returned `Ok` stays; of an append under way any prefix may stay, of a
/// put or delete under way all or nothing.
/// *Power cut*: what a sync covered stays. Of bytes appended since, any subset of 512-byte sectors may be there, the
/// others read as anything; an object put without sync may be absent, the former one, whole or damaged; a delete may
/// be undone.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// What this store offers; constant over its life.
    fn features(&self) -> Features;

    /// Where the bytes are, for messages to people: a path, a URL.
    fn describe(&self) -> String;

    /// What the bytes lie on: the same text for stores whose requests cost the same, also in other processes and later. `None`
    /// where that is not known, or nothing lies anywhere.
    fn device(&self) -> Option<String>;

    /// What only local files can do; `None` for every other store. A wrapper forwards it whole, or returns `None` so that every read
    /// and write goes through its own methods.
    fn local(&self) -> Option<&dyn LocalFiles>;

    /// From now on the store is the one that has this object: [`unchanged`](Store::unchanged) fails where it was removed or replaced by
    /// another, and so does every change, before it does anything. `false`: this store does not look, the caller compares the object itself.
    fn watch(&self, key: &str) -> Result<bool>;

    /// Whether what is watched is still there: else [`StoreError::Removed`] or [`StoreError::Replaced`].
    fn unchanged(&self) -> Result<()>;

    /// Length of the object in bytes, or [`StoreError::NotFound`].
    fn len(&self, key: &str) -> Result<u64>;

    /// Fills all of `out` with the bytes from `offset`, or fails with [`StoreError::ShortRead`] where the
    /// object ends before; then the content of `out` is unspecified. Reading nothing succeeds at any offset
    /// of an object that exists.
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()>;

    /// The object as a whole, if it is at most `limit` bytes long; else its length. It is one request wherever the transport can.
    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>>;

    /// Adds `parts`, one behind the other, to the end of the object, which is at byte `at`.
    ///
    /// `at == 0` creates the object and fails with [`StoreError::AlreadyExists`] if it is there, even if it is
    /// empty; an `at` other than the current length is [`StoreError::Conflict`]; both leave everything as it was. An
    /// object has one writer: two appends at once to one key are the caller's error, and may both seem to succeed.
    /// Readers may read below the length while it grows. After [`StoreError::NoSpace`], [`StoreError::Deadline`] or [`StoreError::Io`] any
    /// prefix of `parts` may have been added: ask for the length.
    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()>;

    /// Writes each of `parts` over the bytes from its place on, after which the object is `len` bytes long: as long as it was, or longer
    /// by zeros. Parts are disjoint.
    ///
    /// The object is there, or it is [`StoreError::NotFound`]; all parts end at `len` at the latest and `len` is no less than the length,
    /// or it is [`StoreError::Conflict`] and nothing is changed. The object has one writer, as for [`append`](Store::append). It is for
    /// bytes that nobody was told of yet: who reads them meanwhile, or after an error, finds any mixture. In a power cut they are as
    /// bytes that were appended. [`StoreError::Unsupported`] where [`Features::write_at`] says so.
    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()>;

    /// Makes `parts`, one behind the other, the whole content of the object, atomically: a reader sees nothing of it or everything,
    /// also when this process is killed meanwhile. With `sync` it survives a power cut, name and bytes, when this
    /// returns; a power cut before that leaves nothing of it or everything, too: bytes become durable before the name.
    /// After [`StoreError::Io`] or [`StoreError::Deadline`] it may have been done: read it back.
    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()>;

    /// All objects whose key begins with `prefix`, which may end anywhere in a key, sorted by key.
    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>>;

    /// Removes the object; `Ok` also where there is none, since a delete whose reply was lost is sent again, and a far store cannot tell.
    /// Reads under way finish with the old bytes or fail.
    fn delete(&self, key: &str) -> Result<()>;

    /// Clears away what `put`s of processes that were killed have left at the keys that begin with `prefix`, and folders that
    /// hold nothing; how many things were removed. No object is touched.
    ///
    /// With `older` of zero the caller knows that nobody puts or appends to such keys meanwhile: what is under way would fail. Else
    /// only what nobody has written to for so long is removed, and no folder.
    fn sweep(&self, prefix: &str, older: Duration) -> Result<u64>;

    /// Makes the present bytes and the names of these objects survive a power cut. An absent one is [`StoreError::NotFound`], except where
    /// [`Features::put_is_durable`] holds: there is nothing to do then, and nothing is asked. After any error none of them may be taken as
    /// safe.
    fn sync(&self, keys: &[&str]) -> Result<()>;

    /// Runs `method` on the object where it lies; [`StoreError::Unsupported`] where the far side runs nothing.
    fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>>;

    /// The same operations without waiting, on buffers the store owns until they come back in the reply.
    ///
    /// Appends, puts and syncs that share a key are executed in the order of submission, so a sync covers the
    /// appends submitted before it; reads wait for nothing. A store may execute at once. How much is under way
    /// is the caller's to limit.
    fn submit(&self, request: Request) -> Pending;
}

/// What [`LocalFiles::read_seen`] shows are multiples of this many bytes, as a power of two.
pub const SEEN_LOG2: u8 = 16;

/// Comfort on top of [`Store`], for callers; implemented for every store.
pub trait StoreExt: Store {
    /// The `len` bytes at `offset`. A length that the object does not have costs no memory.
    fn read_vec(&self, key: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if must_check_length(len) {
            self.expect_range(key, offset, len)?;
        }
        let mut out = Vec::new();
        grow_to(&mut out, len);
        self.read(key, offset, &mut out)?;
        Ok(out)
    }

    /// The whole object, which must not be longer than `limit` bytes: an object that others wrote decides
    /// nothing about our memory.
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

    /// [`LocalFiles::read_seen`], or else a read of which all is shown at once.
    fn read_seen(&self, key: &str, offset: u64, out: &mut [u8], seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(files) = self.local() {
            return files.read_seen(key, offset, out, seen);
        }
        self.read(key, offset, out)?;
        seen(out);
        Ok(())
    }

    /// Several ranges, offset and length, one behind the other into `out`, whose length is their sum. Each is a request; a far store has all
    /// of them under way at once.
    fn read_ranges(&self, key: &str, ranges: &[(u64, usize)], out: &mut [u8]) -> Result<()> {
        if let Some(files) = self.local() {
            return files.read_ranges(key, ranges, out);
        }
        let mut rest = out;
        if self.features().far.is_some() && ranges.len() > 1 {
            let reply = self.submit(Request::read_many(key, ranges.to_vec())).wait()?;
            for (bytes, &(_, len)) in reply.into_buffers().iter().zip(ranges) {
                let (part, behind) = rest.split_at_mut(len.min(rest.len()));
                part.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                rest = behind;
            }
            return Ok(());
        }
        for &(offset, len) in ranges {
            let (part, behind) = rest.split_at_mut(len.min(rest.len()));
            self.read(key, offset, part)?;
            rest = behind;
        }
        Ok(())
    }

    /// [`LocalFiles::read_parts`], or else one read whose bytes are copied to the parts.
    fn read_parts(&self, key: &str, offset: u64, parts: &mut [&mut [u8]]) -> Result<()> {
        if let Some(files) = self.local() {
            return files.read_parts(key, offset, parts);
        }
        if let [part] = parts {
            return self.read(key, offset, part);
        }
        let mut bytes = vec![0; parts.iter().map(|part| part.len()).sum()];
        self.read(key, offset, &mut bytes)?;
        let mut rest = bytes.as_slice();
        for part in parts {
            let (first, behind) = rest.split_at(part.len());
            part.copy_from_slice(first);
            rest = behind;
        }
        Ok(())
    }

    /// [`put`](Store::put) with `sync`, of an object that names others: it is there only once the present bytes and the names of the
    /// objects `first` survive a power cut, as after a [`sync`](Store::sync) of them. After an error none of `first` may be taken as
    /// safe.
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> Result<()> {
        if let Some(files) = self.local() {
            return files.put_after(first, key, parts, mode);
        }
        self.sync(first)?;
        self.put(key, parts, mode, true)
    }

    /// [`LocalFiles::preallocate`], where there are local files.
    fn preallocate(&self, key: &str, at: u64, end: u64) {
        if let Some(files) = self.local() {
            files.preallocate(key, at, end);
        }
    }

    /// Does all requests, together where the store is far, else one after the other in this thread; the outcomes in their order. How
    /// many are under way is not limited: for handfuls.
    fn together(&self, requests: Vec<Request>) -> Vec<Result<Reply>> {
        if self.features().far.is_none() {
            return requests.into_iter().map(|request| request.execute_on(self)).collect();
        }
        let pending: Vec<Pending> = requests.into_iter().map(|request| self.submit(request)).collect();
        pending.into_iter().map(Pending::wait).collect()
    }

    /// [`Store::read_whole`] by two requests, for transports that have no better.
    fn read_whole_by_length(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        let len = self.len(key)?;
        match usize::try_from(len) {
            Ok(fits) if len <= limit => self.read_vec(key, 0, fits).map(Ok),
            _ => Ok(Err(len)),
        }
    }

    /// Whether there is an object of that name.
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

impl<S: Store + ?Sized> StoreExt for S {}

macro_rules! forward_to_pointee {
    ($pointer:ty) => {
        impl<S: Store + ?Sized> Store for $pointer {
            fn features(&self) -> Features {
                (**self).features()
            }
            fn describe(&self) -> String {
                (**self).describe()
            }
            fn device(&self) -> Option<String> {
                (**self).device()
            }
            fn local(&self) -> Option<&dyn LocalFiles> {
                (**self).local()
            }
            fn watch(&self, key: &str) -> Result<bool> {
                (**self).watch(key)
            }
            fn unchanged(&self) -> Result<()> {
                (**self).unchanged()
            }
            fn len(&self, key: &str) -> Result<u64> {
                (**self).len(key)
            }
            fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
                (**self).read(key, offset, out)
            }
            fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
                (**self).read_whole(key, limit)
            }
            fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
                (**self).append(key, at, parts)
            }
            fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
                (**self).write_at(key, parts, len)
            }
            fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
                (**self).put(key, parts, mode, sync)
            }
            fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
                (**self).list(prefix)
            }
            fn delete(&self, key: &str) -> Result<()> {
                (**self).delete(key)
            }
            fn sweep(&self, prefix: &str, older: Duration) -> Result<u64> {
                (**self).sweep(prefix, older)
            }
            fn sync(&self, keys: &[&str]) -> Result<()> {
                (**self).sync(keys)
            }
            fn exec(&self, key: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
                (**self).exec(key, method, input)
            }
            fn submit(&self, request: Request) -> Pending {
                (**self).submit(request)
            }
        }
    };
}

forward_to_pointee!(Arc<S>);
forward_to_pointee!(Box<S>);
forward_to_pointee!(&S);
