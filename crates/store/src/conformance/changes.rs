//! The part of the contract about changes.

use super::{expect_error, pattern, write};
use crate::{PutMode, Request, Store, StoreExt};

pub(super) fn put_if_absent_leaves_what_is_there(store: &dyn Store) {
    for sync in [false, true] {
        let key = format!("dir/{sync}");
        store.put(&key, &[b"first"], PutMode::IfAbsent, sync).expect("an absent object can be put");
        expect_error!(
            store.put(&key, &[b"second"], PutMode::IfAbsent, sync),
            AlreadyExists { .. },
            "put if absent of what exists"
        );
        assert_eq!(store.read_all(&key, 100).expect("readable"), b"first", "the loser changes nothing");
    }
    assert_eq!(store.list("").expect("listing").len(), 2, "a refused put leaves nothing behind");
}

pub(super) fn an_object_is_put_after_what_it_names_or_not_at_all(store: &dyn Store) {
    write(store, "log/s", b"bytes");
    // Where puts are durable, a sync makes no request and so reports no missing object.
    let synced = !store.features().put_is_durable;
    for mode in [PutMode::IfAbsent, PutMode::Replace].into_iter().filter(|_| synced) {
        expect_error!(
            store.put_after(&["log/s", "log/absent"], "new/k", &[b"1"], mode),
            NotFound { key, .. } if key == "log/absent",
            "a put after what is not there"
        );
        assert!(
            !store.exists("new/k").expect("a question"),
            "{mode:?}: nothing names what could not be synced"
        );
    }
    store.put_after(&["log/s"], "new/k", &[b"1"], PutMode::IfAbsent).expect("what it names is there");
    expect_error!(
        store.put_after(&["log/s"], "new/k", &[b"2"], PutMode::IfAbsent),
        AlreadyExists { .. },
        "put if absent of what exists"
    );
    assert_eq!(store.read_all("new/k", 9).expect("readable"), b"1", "the loser changes nothing");
    store.put_after(&[], "new/k", &[b"3"], PutMode::Replace).expect("what names nothing can be put");
    assert_eq!(store.read_all("new/k", 9).expect("readable"), b"3", "and replaced");
    assert_eq!(store.list("").expect("listing").len(), 2, "a refused put leaves nothing behind");
}

pub(super) fn put_replaces_whole_objects(store: &dyn Store) {
    for (step, len) in [100, 7, 0, 5000].into_iter().enumerate() {
        let bytes = pattern(len, step as u8);
        store.put("k", &[&bytes], PutMode::Replace, step % 2 == 0).expect("an object can be replaced");
        assert_eq!(store.len("k").expect("length"), len as u64, "a replaced object has its new length");
        assert_eq!(store.read_all("k", 10_000).expect("readable"), bytes, "and its new bytes only");
        let (first, second) = bytes.split_at(bytes.len() / 3);
        store.put("parts", &[first, b"", second], PutMode::Replace, false).expect("parts can be put");
        assert_eq!(
            store.read_all("parts", 10_000).expect("readable"),
            bytes,
            "parts stand one behind the other"
        );
    }
}

pub(super) fn preallocated_space_is_not_seen(store: &dyn Store) {
    store.preallocate("absent", 0, 1 << 20);
    store.preallocate("../outside", 0, 1 << 20);
    assert!(store.list("").expect("listing").is_empty(), "preallocation makes no object");
    if !store.features().append {
        return;
    }
    store.append("k", 0, &[b"head"]).expect("at 0 an object is made");
    for (at, end) in [(4, 3 << 20), (4, 5), (4, 4), (9, 4), (4, u64::MAX), (u64::MAX, u64::MAX)] {
        store.preallocate("k", at, end);
        assert_eq!(
            store.read_all("k", 100).expect("readable"),
            b"head",
            "room for {at}..{end} holds nothing"
        );
    }
    let rest = pattern(2 << 20, 3);
    store.append("k", 4, &[&rest]).expect("room or not, an append succeeds");
    assert!(store.read_all("k", 3 << 20).expect("readable")[4..] == rest, "what was appended is there");
}

pub(super) fn writes_inside_lengthen_by_zeros_and_change_nothing_else(store: &dyn Store) {
    if !store.features().write_at {
        write(store, "k", b"head");
        expect_error!(store.write_at("k", &[(0, b"x")], 4), Unsupported { .. }, "a store that cannot");
        return;
    }
    expect_error!(
        store.write_at("absent", &[(0, b"x")], 8),
        NotFound { .. },
        "writing inside of what is missing"
    );
    assert!(store.write_at("../outside", &[(0, b"x")], 8).is_err(), "a bad key");
    store.append("k", 0, &[b"head"]).expect("at 0 an object is made");
    for (at, len) in [(0, 3), (4, 4), (8, 8), (u64::MAX, 9)] {
        expect_error!(
            store.write_at("k", &[(0, b"x"), (at, b"x")], len),
            Conflict { found: 4, .. },
            "beyond its end, or shorter"
        );
    }
    store.write_at("k", &[(6, b"xy")], 10).expect("it may be lengthened");
    assert_eq!(store.len("k").expect("length"), 10, "the length follows at once");
    assert_eq!(store.read_all("k", 99).expect("readable"), b"head\0\0xy\0\0", "between are zeros");
    store.write_at("k", &[(4, b"ab")], 10).expect("and filled up");
    store.append("k", 10, &[b"end"]).expect("what follows is appended");
    store.write_at("k", &[(9, b"d"), (8, b"c")], 13).expect("inside, wherever");
    store.write_at("k", &[(13, b"")], 13).expect("nothing at the end");
    assert_eq!(store.read_all("k", 99).expect("readable"), b"headabxycdend");
    let long = pattern(3 << 20, 5);
    store.write_at("k", &[(1 << 20, &long)], 5 << 20).expect("longer ones too");
    let found = store.read_all("k", 8 << 20).expect("readable");
    assert!(found[1 << 20..4 << 20] == long && found[13..1 << 20].iter().all(|byte| *byte == 0));
    assert_eq!(found.len(), 5 << 20);
}

pub(super) fn appends_go_to_the_end_and_nowhere_else(store: &dyn Store) {
    if !store.features().append {
        return;
    }
    store.append("k", 0, &[b"head", b"", b"er"]).expect("at 0 an object is made");
    expect_error!(store.append("k", 0, &[b"again"]), AlreadyExists { .. }, "making it twice");
    for wrong in [1, 5, 7, 1 << 40, u64::MAX] {
        expect_error!(
            store.append("k", wrong, &[b"x"]),
            Conflict { expected, found: 6, .. } if *expected == wrong,
            "an append that is not at the end"
        );
    }
    expect_error!(store.append("missing", 3, &[b"x"]), NotFound { .. }, "extending what is missing");
    assert_eq!(store.read_all("k", 100).expect("readable"), b"header", "refused appends change nothing");

    let mut expected = b"header".to_vec();
    for step in 0..40_u8 {
        let bytes = pattern(usize::from(step) * 97, step);
        store
            .append("k", expected.len() as u64, &[&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]])
            .expect("an append at the end succeeds");
        expected.extend_from_slice(&bytes);
        assert_eq!(store.len("k").expect("length"), expected.len() as u64, "the length follows at once");
    }
    assert!(store.read_all("k", 1 << 20).expect("readable") == expected, "appends stand in their order");

    store.put("put", &[b"12"], PutMode::IfAbsent, false).expect("put");
    store.append("put", 2, &[b"34"]).expect("what was put can be extended");
    assert_eq!(store.read_all("put", 10).expect("readable"), b"1234");

    let many: Vec<Vec<u8>> = (0..200).map(|i| pattern(i, i as u8)).collect();
    let parts: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    store.append("many", 0, &parts).expect("an append may have many parts");
    assert!(store.read_all("many", 1 << 20).expect("readable") == many.concat(), "all parts, in their order");
}

pub(super) fn without_append_nothing_is_appended(store: &dyn Store) {
    if store.features().append {
        return;
    }
    expect_error!(store.append("k", 0, &[b"x"]), Unsupported { .. }, "an append without the feature");
    let request = Request::Append { key: "k".into(), at: 0, data: b"x".to_vec() };
    expect_error!(store.submit(request).wait(), Unsupported { .. }, "a submitted append without the feature");
    assert!(!store.exists("k").expect("existence"), "an unsupported append leaves nothing");
}

pub(super) fn deleted_objects_are_gone_and_can_be_made_again(store: &dyn Store) {
    write(store, "dir/k", b"old");
    write(store, "dir/other", b"other");
    assert_eq!(store.read_all("dir/k", 9).expect("readable"), b"old");
    store.delete("dir/k").expect("an object can be deleted");
    expect_error!(store.len("dir/k"), NotFound { .. }, "what was deleted");
    expect_error!(store.read("dir/k", 0, &mut [0; 3]), NotFound { .. }, "what was deleted");
    store.delete("dir/k").expect("deleting twice is as good as once");
    store.delete("dir").expect("a folder is no object, and stays");
    assert_eq!(store.list("dir/").expect("listing").len(), 1, "what was deleted is not listed");
    write(store, "dir/k", b"new one");
    assert_eq!(store.read_all("dir/k", 9).expect("readable"), b"new one", "made again, it has its new bytes");
}

pub(super) fn sync_accepts_what_exists_only(store: &dyn Store) {
    store.sync(&[]).expect("nothing can be synced");
    write(store, "deep/er/k", b"1");
    store.put("p", &[b"2"], PutMode::IfAbsent, false).expect("put");
    store.sync(&["deep/er/k", "p", "p"]).expect("what exists can be synced");
    store.sync(&["p"]).expect("and once more");
    if !store.features().put_is_durable {
        expect_error!(store.sync(&["p", "missing"]), NotFound { .. }, "syncing what is missing");
    }
    assert_eq!(store.read_all("deep/er/k", 9).expect("readable"), b"1", "a sync changes nothing");
}

pub(super) fn exec_is_refused_where_it_is_not_offered(store: &dyn Store) {
    assert!(!store.describe().is_empty(), "a store can say where it is");
    write(store, "k", b"1");
    if !store.features().exec {
        expect_error!(store.exec("k", "anything", b""), Unsupported { .. }, "exec without the feature");
    }
}

pub(super) fn sweeping_touches_no_object(store: &dyn Store) {
    for key in ["a/b/c", "a/d", "ab"] {
        store.put(key, &[key.as_bytes()], PutMode::IfAbsent, false).expect("an absent object can be put");
    }
    let before = store.list("").expect("listing");
    store.delete("a/b/c").expect("an object can be deleted");
    for prefix in ["", "a/", "a", "none/", "a/d"] {
        store.sweep(prefix, std::time::Duration::ZERO).expect("any prefix can be swept");
    }
    expect_error!(
        store.sweep("../", std::time::Duration::ZERO),
        InvalidKey { .. },
        "sweeping outside the store"
    );
    store.put("a/b/c", &[b"a/b/c"], PutMode::IfAbsent, true).expect("what was swept can be put again");
    assert_eq!(store.list("").expect("listing"), before, "objects are where they were");
}
