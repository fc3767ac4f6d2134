//! Fetches ranges into the folder on demand, and keeps them there.

use std::ops::Range;

use drystone_store::{Pending, Request, Result, StoreError};

use super::{CacheStore, LONGEST};

/// The result of warming.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Bytes that were requested.
    pub wanted: u64,
    /// Bytes of those that were fetched from the home store.
    pub fetched: u64,
    /// Bytes of those that are in the folder now.
    pub held: u64,
}

impl CacheStore {
    /// Fetches ranges into the folder. `go_on` gets the bytes done and the total, and stops the fetch by returning
    /// false. Errors are those of the home store; missing objects are skipped. Without a folder nothing is done.
    pub fn warm(
        &self,
        wanted: &[(String, Range<u64>)],
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Warmed> {
        let shared = &self.shared;
        let (mut warmed, era) = (Warmed::default(), shared.now());
        let wanted: Vec<_> = wanted.iter().filter(|(key, _)| (shared.is_cached)(key)).collect();
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
        go_on(done, warmed.wanted);
        warmed.held = wanted.iter().map(|(key, range)| shared.held(key, range)).sum();
        Ok(warmed)
    }

    /// How many bytes of these ranges are in the folder; `None` without one.
    pub fn held(&self, wanted: &[(String, Range<u64>)]) -> Option<u64> {
        self.shared.folder.as_ref()?;
        let cached = wanted.iter().filter(|(key, _)| (self.shared.is_cached)(key));
        Some(cached.map(|(key, range)| self.shared.held(key, range)).sum())
    }

    /// Pins or unpins ranges: units with a pinned byte are not evicted. Returns `false` if there is no folder.
    pub fn pin(&self, wanted: &[(String, Range<u64>)], pinned: bool) -> Result<bool> {
        let shared = &self.shared;
        let Some(folder) = &shared.folder else { return Ok(false) };
        for (key, range) in wanted.iter().filter(|(key, _)| (shared.is_cached)(key)) {
            match pinned {
                true => folder.pin(&shared.uuid, key, range)?,
                false => folder.unpin(&shared.uuid, key, range)?,
            }
        }
        Ok(true)
    }
}
