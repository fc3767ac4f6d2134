//! Sources: the parts of logs and the published shards that hold the bytes of a read, by number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use drystone_format::keys;
use drystone_format::source::Source;

use crate::base::sync::lock;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;
use crate::read::Reading;
use crate::read::published::{Shelf, Shelved};
use crate::{Error, Result};

/// The key of the object that holds a part of a log.
pub(crate) fn segment_key(source: &Source) -> String {
    keys::segment(source.writer, source.part)
}

/// Sources by number, looked up once per read.
pub(crate) struct Sources<'a> {
    inner: &'a Inner,
    snapshot: &'a Snapshot,
    shelf: Option<&'a Shelf>,
    known: Mutex<HashMap<u32, Arc<Source>>>,
}

impl<'a> Sources<'a> {
    pub(in crate::read) fn of(reading: &'a Reading) -> Self {
        Sources {
            inner: &reading.inner,
            snapshot: &reading.snapshot,
            shelf: reading.shelf.as_deref(),
            known: Mutex::new(HashMap::new()),
        }
    }

    /// The shard, if the number denotes a shard.
    pub(in crate::read) fn shard(&self, number: u32) -> Option<Arc<Shelved>> {
        self.shelf.and_then(|shelf| shelf.shard(number))
    }

    /// The key of the source's object.
    pub(in crate::read) fn key(&self, number: u32) -> Result<String> {
        match self.shard(number) {
            Some(shard) => Ok(shard.name.clone()),
            None => Ok(segment_key(&*self.get(number)?)),
        }
    }

    /// The object that holds the source's bytes, and the position at which they begin there: 0, except in a pack.
    pub(in crate::read) fn place(&self, number: u32) -> Result<(String, u64)> {
        let key = self.key(number)?;
        Ok(match &self.inner.log_packs {
            Some(logs) => {
                let (key, range) = logs.placed_range(key, 0..u64::MAX)?;
                (key, range.start)
            }
            None => (key, 0),
        })
    }

    /// The part of a log. Errors: `Unsupported` if its kind is unknown to this version.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<Source>> {
        if let Some(source) = lock(&self.known).get(&number) {
            return Ok(source.clone());
        }
        let source = Arc::new(self.snapshot.source(&self.inner.pages, number)?);
        if source.kind != 0 {
            return Err(Error::unsupported(format!(
                "source {number} is of kind {}, which this program cannot read; use a newer drystone",
                source.kind
            )));
        }
        lock(&self.known).insert(number, source.clone());
        Ok(source)
    }
}
