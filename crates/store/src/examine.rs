//! Examines whether a store keeps the guarantees that containers rely on. Each is tested in a folder of its own, which
//! is removed afterwards.
//!
//! A guarantee that held in a few rounds may still fail in others; a guarantee that failed once is not kept. Nothing
//! outside the folder is read or changed.

use std::hash::{BuildHasher, RandomState};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::error::{Result, StoreError};
use crate::process::process_id;
use crate::request::{Reply, Request};
use crate::store::{PutMode, Store, StoreExt};

/// The outcome of one guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarantee {
    /// What was tested.
    pub what: &'static str,
    /// Whether it held; `None` if it was not tested, or is irrelevant here.
    pub kept: Option<bool>,
    /// The finding, as a sentence.
    pub found: String,
    /// What to do if it did not hold.
    pub remedy: &'static str,
}

/// The result of examining a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// Each guarantee, in the order in which they were tested.
    pub guarantees: Vec<Guarantee>,
    /// Median time of a request for a few bytes.
    pub latency: Option<Duration>,
    /// Bytes per second of one large read and one large write.
    pub bandwidth: Option<(f64, f64)>,
    /// Objects that could not be removed.
    pub left: Vec<String>,
}

/// Rounds of each race, and writers in it.
const ROUNDS: u64 = 8;
const RACERS: usize = 8;
/// The size of an object that far stores upload in parts.
const LARGE: usize = 17 << 20;

/// Examines a store. The first failure that says nothing about a guarantee, such as missing rights, is returned as an
/// error.
pub fn examine(store: &dyn Store) -> Result<Examination> {
    let folder = Folder { store, prefix: format!("drystone-doctor-{:016x}-{:016x}/", random(), random()) };
    let mut guarantees = Vec::new();
    let is_readonly = match store.put(&folder.key("first"), &[b"first"], PutMode::IfAbsent, true) {
        Err(StoreError::ReadOnly { .. } | StoreError::Unsupported { .. }) => true,
        outcome => {
            outcome?;
            false
        }
    };
    if is_readonly {
        let found =
            "this store is read only: containers behind it can be opened, nothing else was tried".into();
        guarantees.push(Guarantee { what: "it takes objects", kept: None, found, remedy: "" });
        return Ok(Examination { guarantees, latency: None, bandwidth: None, left: Vec::new() });
    }
    guarantees.push(folder.raced()?);
    guarantees.push(folder.read_after_write()?);
    guarantees.push(folder.listed()?);
    guarantees.push(folder.ranges()?);
    guarantees.push(folder.absent()?);
    let (large, bandwidth) = folder.large()?;
    guarantees.push(large);
    let latency = folder.latency()?;
    Ok(Examination { guarantees, latency: Some(latency), bandwidth: Some(bandwidth), left: folder.remove() })
}

/// A number that differs in every call and process.
fn random() -> u64 {
    RandomState::new().hash_one(process_id())
}

struct Folder<'a> {
    store: &'a dyn Store,
    prefix: String,
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Folder<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Removes the objects that were created; returns those that remain.
    fn remove(&self) -> Vec<String> {
        let entries = self.store.list(&self.prefix).unwrap_or_default();
        let deletes = entries.into_iter().map(|entry| Request::Delete { key: entry.key }).collect();
        drop(self.store.together(deletes));
        // The prefix has no slash, so that the folder itself is removed too.
        let _ = self.store.sweep(self.prefix.trim_end_matches('/'), Duration::ZERO);
        self.store.list(&self.prefix).unwrap_or_default().into_iter().map(|entry| entry.key).collect()
    }

    /// Several writers create one key at once. Exactly one must win, and its bytes must stay.
    fn raced(&self) -> Result<Guarantee> {
        let mut wrong = None;
        for round in 0..ROUNDS {
            let key = self.key(&format!("race/{round}"));
            let start = Barrier::new(RACERS);
            let outcomes: Vec<_> = std::thread::scope(|scope| {
                let race = |n: usize| {
                    let (key, start) = (&key, &start);
                    scope.spawn(move || {
                        start.wait();
                        self.store.put(key, &[&[n as u8; 64]], PutMode::IfAbsent, true)
                    })
                };
                let racers: Vec<_> = (0..RACERS).map(race).collect();
                racers.into_iter().filter_map(|racer| racer.join().ok()).collect()
            });
            let winners: Vec<usize> =
                outcomes.iter().enumerate().filter(|(_, outcome)| outcome.is_ok()).map(|(n, _)| n).collect();
            for outcome in outcomes {
                match outcome {
                    Ok(()) | Err(StoreError::AlreadyExists { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            let there = self.store.read_all(&key, 1024)?;
            match winners.as_slice() {
                [winner] if there == [*winner as u8; 64] => {}
                [_] => wrong = Some("a creator won, and its object was replaced".to_owned()),
                winners => wrong = Some(format!("{} of {RACERS} creators of one object won", winners.len())),
            }
        }
        let found = format!("{RACERS} creators at once, {ROUNDS} times: one won each time");
        Ok(Guarantee {
            what: "create if absent",
            kept: Some(wrong.is_none()),
            found: wrong.unwrap_or(found),
            remedy: "two commits at once may both seem to succeed, and one is lost: write from one process at a \
                     time, or use another store",
        })
    }

    fn read_after_write(&self) -> Result<Guarantee> {
        let key = self.key("replaced");
        let mut stale = 0;
        for round in 0..ROUNDS as u8 {
            self.store.put(&key, &[&[round; 128]], PutMode::Replace, true)?;
            stale += u64::from(self.store.read_all(&key, 1024)? != [round; 128]);
        }
        Ok(Guarantee {
            what: "read after write",
            kept: Some(stale == 0),
            found: format!("{stale} of {ROUNDS} reads after a write returned the old bytes"),
            remedy: "a cache lies between: ask the server itself",
        })
    }

    /// Every new object must be listed at once, and no deleted one.
    fn listed(&self) -> Result<Guarantee> {
        let names: Vec<String> = (0..12).map(|n| self.key(&format!("list/{:02}", n * 7 % 12))).collect();
        for name in &names {
            self.store.put(name, &[b"x"], PutMode::IfAbsent, true)?;
        }
        let mut wanted: Vec<String> = names.clone();
        wanted.sort();
        let keys = || -> Result<Vec<String>> {
            Ok(self.store.list(&self.key("list/"))?.into_iter().map(|entry| entry.key).collect())
        };
        let all = keys()? == wanted;
        self.store.delete(&wanted[3])?;
        let gone = !keys()?.contains(&wanted[3]);
        Ok(Guarantee {
            what: "list after write",
            kept: Some(all && gone),
            found: match (all, gone) {
                (true, true) => "12 new objects are listed in order, and one that was deleted is not".into(),
                (false, _) => {
                    "objects that were just written are missing in the list, or out of order".into()
                }
                (true, false) => "an object that was deleted is still listed".into(),
            },
            remedy: "commits of other processes may be missed: use another store",
        })
    }

    fn ranges(&self) -> Result<Guarantee> {
        let key = self.key("ranges");
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8 ^ n as u8).collect();
        self.store.put(&key, &[&bytes], PutMode::Replace, true)?;
        let mut right = true;
        for (offset, len) in [(0, 10), (777, 4096), (99_990, 10)] {
            right &= self.store.read_vec(&key, offset, len)? == bytes[offset as usize..offset as usize + len];
        }
        let behind = self.store.read_vec(&key, 99_990, 20);
        let short = matches!(behind, Err(StoreError::ShortRead { got: 10, .. }));
        Ok(Guarantee {
            what: "ranges",
            kept: Some(right && short),
            found: match (right, short) {
                (true, true) => "ranges are exact, and a range beyond the end is reported".into(),
                (false, _) => "a range held other bytes than those that were written there".into(),
                (true, false) => "a range beyond the end was not reported".into(),
            },
            remedy: "reads would be damaged (checksums find it): use another store",
        })
    }

    fn absent(&self) -> Result<Guarantee> {
        let key = self.key("absent");
        let told = matches!(self.store.len(&key), Err(StoreError::NotFound { .. }));
        let deleted = self.store.delete(&key);
        let is_fine = told && deleted.is_ok();
        let found = match (&deleted, told) {
            (Err(error), _) => format!("deleting what is absent fails: {error}"),
            (_, false) => "an absent object is not reported as absent".into(),
            _ => "an absent object is reported as absent, and deleting it succeeds".to_owned(),
        };
        let remedy = "give the right to list the bucket: without it an absent object looks forbidden";
        Ok(Guarantee { what: "absent objects", kept: Some(is_fine), found, remedy })
    }

    /// A large object, which far stores upload in parts, must be complete and created once.
    fn large(&self) -> Result<(Guarantee, (f64, f64))> {
        let key = self.key("large");
        let mut state = random();
        let bytes: Vec<u8> = (0..LARGE / 8)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.to_le_bytes()
            })
            .collect();
        let begun = Instant::now();
        self.store.put(&key, &[&bytes], PutMode::IfAbsent, true)?;
        let written = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let same = self.store.read_all(&key, LARGE as u64)? == bytes;
        let read = begun.elapsed().as_secs_f64();
        let again = self.store.put(&key, &[&bytes], PutMode::IfAbsent, true);
        let once = matches!(again, Err(StoreError::AlreadyExists { .. }));
        let found = match (same, once) {
            (true, true) => "17 MiB come back as they were, and are created once".into(),
            (false, _) => "17 MiB came back with other bytes".into(),
            (true, false) => "an object that was there was created again".to_owned(),
        };
        let remedy =
            "the server does not keep the condition of a large upload: write from one process at a time";
        let guarantee = Guarantee { what: "large objects", kept: Some(same && once), found, remedy };
        Ok((guarantee, (LARGE as f64 / read, LARGE as f64 / written)))
    }

    fn latency(&self) -> Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..9 {
            let begun = Instant::now();
            let asked = vec![Request::Len { key: self.key("first") }];
            for reply in self.store.together(asked) {
                let Reply::Len { .. } = reply? else { continue };
            }
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalStore, MemoryStore, NoAppendStore};

    #[test]
    fn stores_that_keep_the_contract_are_found_to_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let stores: [Box<dyn Store>; 3] = [
            Box::new(MemoryStore::new()),
            Box::new(NoAppendStore::new(MemoryStore::new())),
            Box::new(LocalStore::create(dir.path()).unwrap()),
        ];
        for store in stores {
            let found = examine(&store).unwrap();
            assert_eq!(found.guarantees.len(), 6);
            for guarantee in &found.guarantees {
                assert_eq!(guarantee.kept, Some(true), "{guarantee:?}");
            }
            assert!(found.left.is_empty() && store.list("").unwrap().is_empty());
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "not even a folder");
        }
    }
}
