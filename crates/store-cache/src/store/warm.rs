//! Fetches ranges into the folder on demand, and keeps them there.

use std::collections::BTreeSet;
use std::ops::Range;

use drystone_store::{Pending, Request, Result, StoreError};

use super::{CacheStore, LONGEST, lock};

/// The result of [`CacheStore::warm`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Bytes that were requested.
    pub wanted: u64,
    /// Number of those bytes that were fetched from the home store.
    pub fetched: u64,
    /// Number of those bytes that are in the folder now.
    pub held: u64,
}

impl CacheStore {
    /// Fetches ranges into the folder. `go_on` gets the bytes done and the total, and stops the fetch by returning
    /// false. Missing objects are skipped; other errors of the home store are returned. Without a folder, the fetched
    /// bytes are dropped.
    pub fn warm(
        &self,
        wanted: &[(String, Range<u64>)],
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Warmed> {
        let shared = &self.shared;
        let (mut warmed, era) = (Warmed::default(), shared.now());
        let wanted: Vec<_> = wanted.iter().filter(|(key, _)| shared.is_cached(key)).collect();
        warmed.wanted = wanted.iter().map(|(_, range)| range.end - range.start).sum();
        let most = shared.home.features().far.map_or(1, |far| far.requests.clamp(1, 8)) as usize;
        let mut holes: Vec<(&str, Range<u64>)> = Vec::new();
        for (key, range) in &wanted {
            for hole in shared.holes(key, range) {
                let parts = (hole.start..hole.end).step_by(LONGEST as usize);
                holes.extend(parts.map(|at| (key.as_str(), at..hole.end.min(at + LONGEST))));
            }
        }
        let missing: u64 = holes.iter().map(|(_, range)| range.end - range.start).sum();
        let mut done = warmed.wanted.saturating_sub(missing);
        for some in holes.chunks(most) {
            if !go_on(done, warmed.wanted) {
                break;
            }
            let ask = |(key, range): &(&str, Range<u64>)| {
                shared
                    .home
                    .submit(Request::read_many(*key, vec![(range.start, (range.end - range.start) as usize)]))
            };
            let _doubted: Vec<_> = some.iter().map(|(key, _)| shared.doubted(key)).collect();
            let pending: Vec<Pending> = some.iter().map(ask).collect();
            for ((key, range), pending) in some.iter().zip(pending) {
                let bytes = match pending.wait() {
                    Ok(reply) => reply.into_buffers().pop().unwrap_or_default(),
                    Err(StoreError::NotFound { .. }) => continue,
                    Err(other) => return Err(other),
                };
                warmed.fetched += bytes.len() as u64;
                done += bytes.len() as u64;
                shared.keep(era, key, range.start, &bytes, 0);
            }
        }
        let names: BTreeSet<&str> = wanted.iter().map(|(key, _)| key.as_str()).collect();
        for name in names.into_iter().filter(|name| shared.is_in_doubt(name)) {
            shared.confirm(name)?;
        }
        go_on(done, warmed.wanted);
        // Units that were fetched first may have been evicted for later ones, so the folder is listed again.
        wanted.iter().for_each(|(key, _)| lock(shared.index.get()).forget(key));
        warmed.held = wanted.iter().map(|(key, range)| shared.held(key, range)).sum();
        Ok(warmed)
    }

    /// How many bytes of these ranges are in the folder; `None` without one.
    pub fn held(&self, wanted: &[(String, Range<u64>)]) -> Option<u64> {
        self.shared.folder.as_ref()?;
        let cached = wanted.iter().filter(|(key, _)| self.shared.is_cached(key));
        Some(cached.map(|(key, range)| self.shared.held(key, range)).sum())
    }

    /// Pins or unpins ranges: units with a pinned byte are not evicted. Returns `false` if there is no folder.
    pub fn pin(&self, wanted: &[(String, Range<u64>)], pinned: bool) -> Result<bool> {
        let shared = &self.shared;
        let Some(folder) = &shared.folder else { return Ok(false) };
        for (key, range) in wanted.iter().filter(|(key, _)| shared.is_cached(key)) {
            match pinned {
                true => folder.pin(&shared.uuid, key, range)?,
                false => folder.unpin(&shared.uuid, key, range)?,
            }
        }
        Ok(true)
    }
}
