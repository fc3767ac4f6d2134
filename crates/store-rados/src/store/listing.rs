//! Names of a namespace: the placement groups of a pool are asked, each for its own, some at once.
//!
//! A pool has hundreds of placement groups, and each is a round trip, whatever it holds. A commit waits for a listing,
//! so groups are not asked one after the other.

use std::ops::Range;

use drystone_store::{Result, validate_key};

use super::RadosStore;
use crate::connection::Connection;
use crate::library::{Handle, Listed};

/// Parts of the pool that are listed at once.
const SLICES: usize = 16;
/// Names that one request asks for.
const NAMES: usize = 1000;

/// A place in the order of the pool's objects, freed when it is dropped.
struct Cursor<'a> {
    connection: &'a Connection,
    at: Handle,
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: librados gave the cursor, and it is freed once.
        unsafe { (self.connection.api.rados_object_list_cursor_free)(self.connection.io, self.at) };
    }
}

impl<'a> Cursor<'a> {
    fn first(connection: &'a Connection) -> Self {
        // SAFETY: the context is live; the cursor is freed by `drop`.
        Cursor { connection, at: unsafe { (connection.api.rados_object_list_begin)(connection.io) } }
    }

    fn end(connection: &'a Connection) -> Self {
        // SAFETY: as above.
        Cursor { connection, at: unsafe { (connection.api.rados_object_list_end)(connection.io) } }
    }

    /// One of `SLICES` equal parts of the pool.
    fn slice(connection: &'a Connection, number: usize) -> Range<Self> {
        let all = Cursor::first(connection)..Cursor::end(connection);
        let part = Cursor::first(connection)..Cursor::end(connection);
        let (mut start, mut end) = (part.start.at, part.end.at);
        // SAFETY: all four are live cursors; the last two are filled and stay where they are.
        unsafe {
            (connection.api.rados_object_list_slice)(
                connection.io,
                all.start.at,
                all.end.at,
                number,
                SLICES,
                &mut start,
                &mut end,
            );
        }
        part
    }

    fn is_before(&self, other: &Cursor<'_>) -> bool {
        let Connection { api, io, .. } = *self.connection;
        // SAFETY: both are live cursors.
        unsafe {
            (api.rados_object_list_is_end)(io, self.at) == 0
                && (api.rados_object_list_cursor_cmp)(io, self.at, other.at) < 0
        }
    }
}

impl RadosStore {
    /// Keys of the container that begin with a prefix, sorted.
    pub(super) fn names(&self, connection: &Connection, prefix: &str) -> Result<Vec<String>> {
        let listed: Vec<Result<Vec<String>>> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..SLICES)
                .map(|number| {
                    let list = move || self.names_of(connection, number, prefix);
                    std::thread::Builder::new().spawn_scoped(scope, list).map_err(|_| number)
                })
                .collect();
            let gone =
                || Err(self.io(prefix, "list", std::io::Error::other("a thread of the listing ended")));
            let outcome =
                |asked: std::result::Result<std::thread::ScopedJoinHandle<'_, _>, usize>| match asked {
                    Ok(thread) => thread.join().unwrap_or_else(|_| gone()),
                    // The process has as many threads as it may have.
                    Err(number) => self.names_of(connection, number, prefix),
                };
            asked.into_iter().map(outcome).collect()
        });
        let mut names = Vec::new();
        for part in listed {
            names.append(&mut part?);
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn names_of(&self, connection: &Connection, number: usize, prefix: &str) -> Result<Vec<String>> {
        let Connection { api, io, .. } = *connection;
        let Range { start: at, end } = Cursor::slice(connection, number);
        let (mut names, mut found) = (Vec::new(), vec![Listed::NONE; NAMES]);
        while at.is_before(&end) {
            let mut next = at.at;
            // SAFETY: the cursors are live, the next place is filled into the one that was given; there is no filter;
            // there is room for as many items as are asked for.
            let code = unsafe {
                (api.rados_object_list)(
                    io,
                    at.at,
                    end.at,
                    found.len(),
                    std::ptr::null(),
                    0,
                    found.as_mut_ptr(),
                    &mut next,
                )
            };
            let Ok(many) = usize::try_from(code) else {
                return Err(self.failed(prefix, "list", code));
            };
            for item in found.iter().take(many).filter(|item| !item.name.is_null()) {
                // SAFETY: librados gave a text of this length, without a zero behind it, that lives until the items are
                // freed.
                let name = unsafe { std::slice::from_raw_parts(item.name.cast::<u8>(), item.name_len) };
                let key = std::str::from_utf8(name).ok().and_then(|name| self.inner.address.key(name));
                if let Some(key) = key.filter(|key| key.starts_with(prefix) && validate_key(key).is_ok()) {
                    names.push(key.to_owned());
                }
            }
            // SAFETY: the call above filled the items; what it did not fill is null.
            unsafe { (api.rados_object_list_free)(found.len(), found.as_mut_ptr()) };
            found.fill(Listed::NONE);
        }
        Ok(names)
    }
}
