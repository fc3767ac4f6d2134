//! What does a container show if its files were cut off, end in zeros, or are gone?
//!
//! Every object is cut at every frame boundary and inside every frame. A read gives the written values, an older
//! committed state (async, not flushed, with a warning), or an error that names the file. If only unflushed bytes are
//! gone, `recover` makes the container readable again. `DRYSTONE_LONG=1` cuts at every byte of small objects.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::sync::Arc;

use drystone::{Adopt, Container, CreateOptions, Durability, Error, ErrorKind, Mode, WriterOptions};
use drystone_format::frame::{self, Next};
use drystone_store::{MemoryStore, PutMode, Store};

use crate::sample::{Content, Sample, content};

fn long() -> bool {
    std::env::var_os("DRYSTONE_LONG").is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tear {
    /// The file ends here.
    Cut(usize),
    /// The file has zeros from here on.
    Zeros(usize),
    Gone,
}

/// The positions of cuts: around every frame's boundaries, and inside every frame.
fn places(bytes: &[u8]) -> BTreeSet<usize> {
    let mut out: BTreeSet<usize> = [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)].into();
    let mut at = 0u64;
    while let Next::Frame { end, .. } = frame::next(bytes, at, u64::MAX) {
        let (from, to) = (at as usize, end as usize);
        out.extend([from, from + 1, from + 16, from + 32, from + 33, (from + to) / 2, to - 8, to - 1, to]);
        for third in 1..6 {
            out.insert(from + (to - from) * third / 6);
        }
        at = end;
    }
    if long() {
        let stride = 1 + bytes.len() / 3000;
        out.extend((0..bytes.len()).step_by(stride));
    }
    out.into_iter().filter(|p| *p < bytes.len()).collect()
}

fn tears(bytes: &[u8]) -> Vec<Tear> {
    let mut out = vec![Tear::Gone];
    for place in places(bytes) {
        out.push(Tear::Cut(place));
        if bytes[place..].iter().any(|b| *b != 0) {
            out.push(Tear::Zeros(place));
        }
    }
    out
}

fn tear(sample: &Sample, key: &str, bytes: &[u8], tear: Tear) -> Arc<MemoryStore> {
    let store = sample.copy();
    store.delete(key).unwrap();
    let mut left = bytes.to_vec();
    match tear {
        Tear::Cut(at) => left.truncate(at),
        Tear::Zeros(at) => left[at..].fill(0),
        Tear::Gone => return store,
    }
    store.put(key, &[&left], PutMode::Replace, false).unwrap();
    store
}

fn is_damage(e: &Error, key: &str, what: &dyn Fn() -> String) {
    let kind = matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound);
    assert!(kind && e.to_string().contains(key), "{}: {:?}: {e}", what(), e.kind());
}

/// Checks that every read is right, or reports damage and names the file. Returns the number that fail.
fn compare(expected: &Content, found: &Content, key: &str, what: &dyn Fn() -> String) -> usize {
    let keys = |c: &Content| c.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(expected), keys(found), "{}", what());
    let mut failed = 0;
    for ((place, found), expected) in found.iter().zip(expected.values()) {
        match found {
            Ok(cells) => assert!(cells == expected.as_ref().unwrap(), "{}: {place:?} is wrong", what()),
            Err(e) => {
                failed += 1;
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{}: {place:?}: {e}", what());
                is_damage(e, key, what);
            }
        }
    }
    failed
}

/// Checks, after a recovery, that every cell is as some version since the flush shows it, or untouched.
fn cells_are_known(sample: &Sample, found: &Content, what: &dyn Fn() -> String) {
    for (place, cells) in found {
        let cells = cells.as_ref().unwrap_or_else(|e| panic!("{}: {place:?}: {e}", what()));
        if place.0 == "own" {
            continue; // a list of blocks: compared as a set below
        }
        for (number, cell) in cells.iter().enumerate() {
            let mut known = sample.versions.iter().filter_map(|v| v.get(place)?.as_ref().ok()?.get(number));
            let fill = if place.0.starts_with("large") {
                (-1.0f32).to_le_bytes().to_vec()
            } else {
                vec![0; cell.len()]
            };
            let unborn = place.1 == Some(5); // closed and never committed: its values are checked by verify
            assert!(
                unborn || *cell == fill || known.any(|k| k == cell),
                "{}: {place:?} cell {number}",
                what()
            );
        }
    }
}

/// Checks a handle on a container whose newest manifest is lost, and which a reader refuses: nothing is changed before
/// a recovery, and afterwards the newest snapshot that is left is shown, under a number of its own.
fn is_settled(c: &Container, store: &Arc<MemoryStore>, sample: &Sample, what: &dyn Fn() -> String) {
    let (left, full) = (c.snapshot().version() as usize, sample.versions.len() - 1);
    assert!(left < full && !c.take_warnings().is_empty(), "{}: {left}", what());
    let refused = c.commit().expect_err("nothing is committed over a lost snapshot");
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{}: {refused}", what());
    let report = c.recover(&Adopt::None, &[]).unwrap_or_else(|e| panic!("{}: recover: {e}", what()));
    assert!(report.version as usize > full, "{}: {report:?}", what());
    let c = Container::open(store.clone(), Mode::Read).unwrap_or_else(|e| panic!("{}: {e}", what()));
    assert!(c.take_warnings().is_empty(), "{}", what());
    let mut found = content(&c);
    found.retain(|place, _| sample.versions[left].contains_key(place));
    assert_eq!(compare(&sample.versions[left], &found, "", what), 0, "{}", what());
}

#[test]
fn a_durable_container_never_falls_back_and_never_lies() {
    let sample = Sample::new(Durability::Durable, None);
    let full = sample.versions.len() - 1;
    let mut count = 0;
    for (key, bytes) in sample.objects() {
        for how in tears(&bytes) {
            count += 1;
            let what = || format!("{key} {how:?} of {}", bytes.len());
            let store = tear(&sample, &key, &bytes, how);
            let read = Container::open(store.clone(), Mode::Read);
            if let Err(e) = &read {
                is_damage(e, &key, &what);
            }
            let c = match Container::open(store.clone(), Mode::ReadWrite) {
                Ok(c) => c,
                Err(e) => {
                    is_damage(&e, &key, &what);
                    continue;
                }
            };
            if read.is_err() {
                is_settled(&c, &store, &sample, &what);
                continue;
            }
            assert_eq!(c.snapshot().version() as usize, full, "{}: it fell back", what());
            let failed = compare(sample.newest(), &content(&c), &key, &what);
            let report = c.verify(&mut |_, _| true).unwrap_or_else(|e| panic!("{}: verify: {e}", what()));
            let told = report.damage.iter().any(|d| d.message.contains(&key));
            assert!(failed == 0 || told, "{}: {failed} reads fail, verify says {:?}", what(), report.damage);
            match c.recover(&Adopt::All, &[]) {
                Ok(_) => {
                    let mut after = content(&c);
                    after.retain(|place, _| sample.newest().contains_key(place));
                    compare(sample.newest(), &after, &key, &what);
                }
                Err(e) => is_damage(&e, &key, &what),
            }
        }
    }
    println!("{count} tears");
}

#[test]
fn an_async_container_falls_back_with_a_warning_and_recovers() {
    let mut count = 0;
    for flush in if long() { vec![1, 2, 3, 4, 5, 6, 7, 8] } else { vec![3, 8] } {
        let sample = Sample::new(Durability::Async, Some(flush));
        let full = sample.versions.len() as u64 - 1;
        for (key, bytes) in sample.objects() {
            let safe = sample.lengths.get(&key).copied();
            for how in tears(&bytes) {
                count += 1;
                let what = || format!("flushed {flush}, {key} {how:?} of {}, {safe:?} safe", bytes.len());
                // Whether only bytes are gone that no flush covered. The hint is never trusted; the mark of a flush
                // is.
                let unflushed = key == "manifest/hint"
                    || match (how, safe) {
                        (Tear::Gone, safe) => safe.is_none(),
                        (Tear::Cut(at) | Tear::Zeros(at), safe) => at as u64 >= safe.unwrap_or(0),
                    };
                let store = tear(&sample, &key, &bytes, how);
                let c = match Container::open(store.clone(), Mode::ReadWrite) {
                    Ok(c) => c,
                    Err(e) => {
                        assert!(!unflushed, "{}: {e}", what());
                        is_damage(&e, &key, &what);
                        continue;
                    }
                };
                let version = c.snapshot().version();
                let warnings = c.take_warnings();
                if version < full {
                    let marks_gone = key.ends_with(".mark");
                    let refuses = || Container::open(store.clone(), Mode::Read).is_err();
                    assert!(
                        version >= flush || marks_gone || refuses(),
                        "{}: it fell back to {version}",
                        what()
                    );
                    assert!(!warnings.is_empty(), "{}: it fell back silently", what());
                }
                let expected = &sample.versions[version as usize];
                let failed = compare(expected, &content(&c), &key, &what);
                assert!(failed == 0 || version > flush || !unflushed, "{}: a flushed value is gone", what());
                match c.recover(&Adopt::All, &[]) {
                    Ok(report) => {
                        if unflushed {
                            let what = || format!("recovered {report:?} after {}", what());
                            let found = content(&c);
                            cells_are_known(&sample, &found, &what);
                            let first = &sample.versions[flush as usize];
                            assert!(
                                first.keys().all(|k| found.contains_key(k)),
                                "{}: something is gone",
                                what()
                            );
                        }
                    }
                    Err(e) => {
                        assert!(!unflushed, "{}: recover: {e}", what());
                        assert_eq!(e.kind(), ErrorKind::Corrupt, "{}: {e}", what());
                    }
                }
            }
        }
    }
    println!("{count} tears");
}

/// Symptom: with the folder of manifests gone, a container silently opened as an empty one. Blocks belong to
/// variables, and creating a variable is a commit, so a log without any manifest shows a loss.
#[test]
fn a_log_without_any_manifest_is_not_an_empty_container() {
    for durability in [Durability::Durable, Durability::Async] {
        let store = Arc::new(MemoryStore::new());
        let c = Container::create(store.clone(), CreateOptions { durability, ..CreateOptions::default() })
            .unwrap();
        c.apply(vec![crate::common::create("t", crate::common::f4(), &[1], |_| {})]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        w.put("t", &crate::common::f4(), &crate::common::dense(&[1; 4], &[1], 4), None, None).unwrap();
        w.close().unwrap();
        for item in store.list("manifest/").unwrap() {
            store.delete(&item.key).unwrap();
        }
        let opened = Container::open(store, Mode::Read);
        if durability == Durability::Durable {
            assert_eq!(opened.err().unwrap().kind(), ErrorKind::Corrupt);
        } else {
            assert!(opened.unwrap().take_warnings().iter().any(|w| w.contains("manifest")));
        }
    }
}
