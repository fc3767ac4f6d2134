//! Requests without waiting: reads, lengths and methods that librados completes in a thread of its own.

use std::sync::{Arc, Mutex, PoisonError};

use drystone_store::{Completer, Pending, Reply, Request, StoreError};

use super::{RadosStore, TRUSTED};
use crate::completion::{Outcome, tell};
use crate::connection::Connection;

/// A read of several ranges: their buffers, filled by operations under way.
struct Gathering {
    buffers: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    left: usize,
    failed: Option<StoreError>,
    completer: Option<Completer>,
}

/// Buffers that librados writes to while no other code touches them.
struct Place(*mut u8);

// SAFETY: the memory is a buffer of a `Gathering`, which is not touched until the operation on it is complete.
unsafe impl Send for Place {}

impl RadosStore {
    /// Submits one operation for each range; the last to be complete completes the request.
    pub(super) fn submit_read(
        &self,
        key: String,
        ranges: Vec<(u64, usize)>,
        buffers: Vec<Vec<u8>>,
    ) -> Pending {
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
                // SAFETY: the buffer belongs to the gathering, which lives until all its operations are complete, and
                // is not moved.
                |completion| unsafe {
                    (api.rados_aio_read)(io, object.as_ptr(), completion, place.0.cast(), len, offset)
                },
                Box::new(told),
            );
        }
        pending
    }

    pub(super) fn submit_exec(&self, key: String, method: String, input: Vec<u8>, limit: usize) -> Pending {
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
            // SAFETY: librados copies names and input before it returns; the output's memory is held by what is told,
            // and not moved.
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

    pub(super) fn submit_len(&self, key: String) -> Pending {
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
}
