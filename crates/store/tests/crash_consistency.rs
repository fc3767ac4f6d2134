//! FaultStore models crashes as the contract allows: everything guaranteed survives, and nothing appears that was not
//! written.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::collections::BTreeMap;

use drystone_store::{Fault, FaultStore, MemoryStore, PutMode, Request, Script, Store, StoreError, StoreExt};

fn content(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    match store.read_all(key, u64::MAX) {
        Ok(bytes) => Some(bytes),
        Err(StoreError::NotFound { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Writes as the engine does: appends, syncs, and a put that records the progress. Stops at the first error. Returns
/// the number of marks whose put returned.
fn write_log(store: &dyn Store) -> Result<u64, (u64, StoreError)> {
    let mut at = 0;
    for mark in 0..6_u8 {
        let step = || {
            store.append("log/w.seg", at, &[&[mark + 1; 700], &[mark + 1; 900]])?;
            store.append("log/w.idx", u64::from(mark) * 10, &[&[mark + 1; 10]])?;
            store.sync(&["log/w.seg", "log/w.idx"])?;
            store.put(&format!("marks/{mark}"), &[&[mark + 1; 1000]], PutMode::IfAbsent, true)
        };
        step().map_err(|error| (u64::from(mark), error))?;
        at += 1600;
    }
    Ok(6)
}

fn expect_marked(found: &MemoryStore, marks: u64) {
    for mark in 0..marks {
        let value = mark as u8 + 1;
        assert_eq!(content(found, &format!("marks/{mark}")).unwrap(), vec![value; 1000]);
        assert_eq!(found.read_vec("log/w.seg", mark * 1600, 1600).unwrap(), vec![value; 1600]);
        assert_eq!(found.read_vec("log/w.idx", mark * 10, 10).unwrap(), vec![value; 10]);
    }
}

#[test]
fn synced_bytes_survive_a_crash_at_any_change_and_any_power_cut() {
    let complete = FaultStore::in_memory(Script::default());
    assert!(write_log(&complete).is_ok());
    let changes = complete.changes();
    assert_eq!(changes, 24);
    for change in 0..changes {
        for seed in 0..25 {
            let store = FaultStore::in_memory(Script::seeded(seed).at(change, Fault::Crash));
            let (marks, error) = write_log(&store).unwrap_err();
            assert!(matches!(error, StoreError::Closed { .. }), "{error}");
            assert!(matches!(store.list(""), Err(StoreError::Closed { .. })), "a dead process asks nothing");
            expect_marked(&store.survivor(), marks);
            store.power_cut(seed);
            expect_marked(&store.survivor(), marks);
        }
    }
}

#[test]
fn a_kill_leaves_everything_done_and_a_beginning_of_the_append_under_way() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let store = FaultStore::in_memory(Script::seeded(seed).at(2, Fault::Crash));
        store.put("p", &[b"whole"], PutMode::IfAbsent, false).unwrap();
        store.append("a", 0, &[b"0123"]).unwrap();
        assert!(store.append("a", 4, &[b"45", b"6789"]).is_err());
        let found = store.survivor();
        assert_eq!(content(&found, "p").unwrap(), b"whole");
        let left = content(&found, "a").unwrap();
        assert!(left.len() >= 4 && b"0123456789".starts_with(&left), "{left:?}");
        lengths.insert(left.len());
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn a_power_cut_keeps_any_sectors_written_inside_and_harms_no_others() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let store = FaultStore::in_memory(Script::seeded(seed));
        store.append("a", 0, &[&[1; 2048]]).unwrap();
        store.sync(&["a"]).unwrap();
        store.write_at("a", &[(100, &[2; 1000]), (2048, &[3; 100])], 4096).unwrap();
        assert_eq!(store.len("a").unwrap(), 4096);
        store.power_cut(seed);
        let left = content(&store.survivor(), "a").unwrap();
        assert!((2048..=4096).contains(&left.len()));
        assert!(left[..100] == [1; 100] && left[1100..2048] == [1; 948], "untouched sectors are unchanged");
        let sectors = [100..512, 512..1024, 1024..1100].map(|sector| {
            let all = |value| left[sector.clone()].iter().all(|byte| *byte == value);
            assert!(all(1) || all(2), "a sector is as it was, or as it was written");
            all(2)
        });
        seen.insert(sectors);
    }
    assert_eq!(seen.len(), 8, "any of them");
    let store = FaultStore::in_memory(Script::default().at(1, Fault::Crash));
    store.append("a", 0, &[b"0123456789"]).unwrap();
    assert!(store.write_at("a", &[(2, b"ab"), (6, b"cd")], 10).is_err());
    let left = content(&store.survivor(), "a").unwrap();
    assert!(
        [&b"0123456789"[..], b"01a3456789", b"01ab456789", b"01ab45c789", b"01ab45cd89"].contains(&&left[..])
    );
}

#[test]
fn a_put_or_delete_under_way_is_done_wholly_or_not_at_all() {
    let mut seen = BTreeMap::new();
    for seed in 0..50 {
        let store = FaultStore::in_memory(Script::seeded(seed).at(1, Fault::Crash));
        store.put("k", &[b"old"], PutMode::IfAbsent, true).unwrap();
        assert!(store.put("k", &[b"new"], PutMode::Replace, true).is_err());
        *seen.entry(content(&store.survivor(), "k")).or_insert(0) += 1;

        let store = FaultStore::in_memory(Script::seeded(seed).at(1, Fault::Crash));
        store.put("d", &[b"old"], PutMode::IfAbsent, true).unwrap();
        assert!(store.delete("d").is_err());
        assert!(content(&store.survivor(), "d").is_none_or(|bytes| bytes == b"old"));

        let store = FaultStore::in_memory(Script::seeded(seed).at(1, Fault::Crash));
        store.put("a", &[b"old"], PutMode::IfAbsent, true).unwrap();
        assert!(store.put("a", &[b"new"], PutMode::IfAbsent, true).is_err());
        assert_eq!(content(&store.survivor(), "a").unwrap(), b"old", "a put that would lose changes nothing");
    }
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), [Some(b"new".to_vec()), Some(b"old".to_vec())]);
}

#[test]
fn a_power_cut_may_lose_tear_and_reorder_what_was_not_synced() {
    let (mut lost, mut whole, mut shorter, mut torn_at_full_length, mut out_of_order) = (0, 0, 0, 0, 0);
    let (mut put_lost, mut put_damaged, mut undeleted) = (0, 0, 0);
    for seed in 0..300 {
        let store = FaultStore::in_memory(Script::default());
        store.append("synced", 0, &[&[1; 1000]]).unwrap();
        store.put("gone", &[b"gone"], PutMode::IfAbsent, true).unwrap();
        store.sync(&["synced"]).unwrap();
        store.append("synced", 1000, &[&[2; 3000]]).unwrap();
        store.append("first", 0, &[&[3; 10]]).unwrap();
        store.append("second", 0, &[&[4; 10]]).unwrap();
        store.put("put", &[&[5; 5000]], PutMode::IfAbsent, false).unwrap();
        store.delete("gone").unwrap();
        store.power_cut(seed);
        let found = store.survivor();

        let bytes = content(&found, "synced").unwrap();
        assert_eq!(
            bytes[..1000],
            [1; 1000],
            "synced bytes survive, also in the sector that was written again"
        );
        assert!(bytes.len() <= 4000, "no more than was written");
        let intact = bytes[1000..].iter().all(|&byte| byte == 2);
        lost += i32::from(bytes.len() == 1000);
        whole += i32::from(bytes.len() == 4000 && intact);
        shorter += i32::from(bytes.len() < 4000 && bytes.len() > 1000);
        torn_at_full_length += i32::from(bytes.len() == 4000 && !intact);
        let (first, second) = (content(&found, "first"), content(&found, "second"));
        out_of_order += i32::from(first.is_none() && second.is_some());
        match content(&found, "put") {
            None => put_lost += 1,
            Some(bytes) => put_damaged += i32::from(bytes != [5; 5000]),
        }
        undeleted += i32::from(content(&found, "gone").is_some());
    }
    for (what, times) in [
        ("whole", whole),
        ("shorter", shorter),
        ("torn at full length", torn_at_full_length),
        ("out of order", out_of_order),
        ("put lost", put_lost),
        ("put damaged", put_damaged),
        ("undeleted", undeleted),
    ] {
        assert!(
            times > 5,
            "{what}: only {times} of 300; a test that relies on it would not see it ({lost} lost)"
        );
    }
}

#[test]
fn an_object_replaced_without_sync_is_afterwards_the_old_or_the_new_one_possibly_damaged() {
    let mut seen = [0; 2];
    for seed in 0..100 {
        let store = FaultStore::in_memory(Script::default());
        store.put("k", &[b"the old content"], PutMode::IfAbsent, true).unwrap();
        store.put("k", &[b"new"], PutMode::Replace, false).unwrap();
        store.power_cut(seed);
        let left = content(&store.survivor(), "k").expect("one of them is there");
        if left == b"the old content" {
            seen[0] += 1;
        } else {
            assert!(left.len() <= 3);
            seen[1] += 1;
        }
    }
    assert!(seen.iter().all(|&times| times > 10), "{seen:?}");
}

#[test]
fn the_same_script_and_seed_leave_the_same_survivor() {
    let run = || {
        let store = FaultStore::in_memory(Script::seeded(3).one_in(9, Fault::Crash));
        let _ = write_log(&store);
        store.power_cut(5);
        let found = store.survivor();
        found.list("").unwrap().into_iter().map(|e| (content(&found, &e.key), e)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_lost_reply_is_an_error_for_something_that_was_done() {
    let store =
        FaultStore::in_memory(Script::default().at(0, Fault::LostReply).at_nth_read(0, Fault::LostReply));
    let outcome = store.put("k", &[b"v"], PutMode::IfAbsent, true);
    assert!(matches!(outcome, Err(StoreError::Io { .. })), "{outcome:?}");
    assert!(store.put("k", &[b"v"], PutMode::IfAbsent, true).unwrap_err().is_already_exists());
    assert!(store.read("k", 0, &mut [0; 1]).is_err());
    assert_eq!(content(&store, "k").unwrap(), b"v");
    store.power_cut(0);
    assert_eq!(content(&store.survivor(), "k").unwrap(), b"v");
}

#[test]
fn a_failed_change_was_not_done() {
    let store = FaultStore::in_memory(Script::default().at(0, Fault::Fail));
    let pending = store.submit(Request::Append { key: "k".into(), at: 0, data: vec![1; 8] });
    assert!(matches!(pending.wait(), Err(StoreError::Io { .. })));
    assert_eq!(content(&store, "k"), None);
    store.append("k", 0, &[&[1; 8]]).unwrap();
}

#[test]
fn short_reads_are_injected_and_the_buffer_is_spoilt() {
    let store = FaultStore::in_memory(Script::seeded(1).at_nth_read(1, Fault::ShortRead));
    store.put("k", &[&[1; 100]], PutMode::IfAbsent, false).unwrap();
    let mut out = [0; 100];
    store.read("k", 0, &mut out).unwrap();
    let outcome = store.read("k", 0, &mut out);
    assert!(
        matches!(outcome, Err(StoreError::ShortRead { wanted: 100, got, .. }) if got < 100),
        "{outcome:?}"
    );
    assert_ne!(out, [1; 100]);
    store.read("k", 0, &mut out).unwrap();
}

#[test]
fn when_space_runs_out_an_append_leaves_a_beginning_and_a_put_nothing() {
    let store = FaultStore::in_memory(Script::default().with_space(1000));
    store.append("k", 0, &[&[1; 900]]).unwrap();
    assert!(matches!(
        store.put("p", &[&[2; 200]], PutMode::IfAbsent, false),
        Err(StoreError::NoSpace { .. })
    ));
    assert!(!store.exists("p").unwrap());
    let outcome = store.append("k", 900, &[&[3; 150], &[4; 50]]);
    assert!(matches!(&outcome, Err(StoreError::NoSpace { key, .. }) if key == "k"), "{outcome:?}");
    assert_eq!(store.len("k").unwrap(), 1000, "the caller finds out by asking");
    assert_eq!(store.survivor().len("k").unwrap(), 1000);
    store.sync(&["k"]).unwrap();
    store.delete("k").unwrap();
}

#[test]
fn new_objects_are_listed_late_where_the_script_says_so() {
    let store = FaultStore::in_memory(Script::default().with_list_delay(3));
    store.put("k", &[b""], PutMode::IfAbsent, false).unwrap();
    let mut polls = 0;
    while store.list("").unwrap().is_empty() {
        assert!(store.exists("k").unwrap(), "only listings are late");
        polls += 1;
        assert!(polls < 10, "it is listed in the end");
    }
    assert!(polls > 0);
}

#[test]
fn existing_objects_count_as_durable() {
    let inner = MemoryStore::new();
    inner.put("k", &[b"before"], PutMode::IfAbsent, false).unwrap();
    let store = FaultStore::new(inner, Script::default()).unwrap();
    store.power_cut(9);
    assert_eq!(content(&store.survivor(), "k").unwrap(), b"before");
}

#[test]
fn survivors_do_not_share_their_objects() {
    let store = FaultStore::in_memory(Script::default());
    store.put("k", &[b"1"], PutMode::IfAbsent, true).unwrap();
    store.kill();
    store.survivor().put("k", &[b"2"], PutMode::Replace, false).unwrap();
    assert_eq!(content(&store.survivor(), "k").unwrap(), b"1");
}
