//! The part of the contract about reads.

use super::{expect_error, pattern, write};
use crate::{ListEntry, PutMode, SEEN_LOG2, Store, StoreExt};

pub(super) fn a_missing_object_is_not_found(store: &dyn Store) {
    write(store, "folder/there", b"x");
    for key in ["missing", "folder/missing", "folder", "no/such/folder"] {
        expect_error!(store.len(key), NotFound { .. }, "length of what is missing");
        expect_error!(store.read(key, 0, &mut [0; 1]), NotFound { .. }, "reading what is missing");
        expect_error!(store.read(key, 0, &mut []), NotFound { .. }, "reading nothing of what is missing");
        store.delete(key).expect("deleting what is missing succeeds");
        assert!(!store.exists(key).expect("existence can be asked for"), "{key} does not exist");
    }
}

pub(super) fn reads_are_exact(store: &dyn Store) {
    let bytes = pattern(10_000, 1);
    write(store, "a/object", &bytes);
    assert_eq!(store.len("a/object").expect("what was written has a length"), 10_000);
    for (offset, len) in [(0, 1), (0, 10_000), (1, 511), (511, 2), (4095, 4098), (9_999, 1)] {
        let mut out = vec![0xAA; len];
        store.read("a/object", offset as u64, &mut out).expect("bytes that are there can be read");
        assert_eq!(out, bytes[offset..offset + len], "the bytes at {offset}+{len} are the ones written");
    }
    let ranges = [(9_000, 1000), (5, 0), (0, 3), (2, 7000)];
    let mut out = vec![0xAA; 8003];
    store.read_ranges("a/object", &ranges, &mut out).expect("ranges that are there can be read");
    let expected: Vec<u8> =
        ranges.iter().flat_map(|&(at, len)| &bytes[at as usize..at as usize + len]).copied().collect();
    assert_eq!(out, expected, "ranges come one behind the other");
    expect_error!(
        store.read_ranges("a/object", &[(0, 4), (9_999, 2)], &mut [0; 6]),
        ShortRead { offset: 9_999, wanted: 2, got: 1, .. },
        "a range beyond the end"
    );
    expect_error!(
        store.read_ranges("a/missing", &[(0, 4)], &mut [0; 4]),
        NotFound { .. },
        "ranges of what is missing"
    );
}

pub(super) fn reading_past_the_end_is_a_short_read(store: &dyn Store) {
    write(store, "k", &pattern(100, 2));
    for (offset, wanted, there) in [(0, 101, 100), (99, 2, 1), (100, 1, 0), (5000, 7, 0), (u64::MAX, 3, 0)] {
        let mut out = vec![0; wanted as usize];
        expect_error!(
            store.read("k", offset, &mut out),
            ShortRead { offset: o, wanted: w, got, .. } if *o == offset && *w == wanted && *got == there,
            format!("{wanted} bytes at {offset} of 100")
        );
    }
}

pub(super) fn empty_objects_and_empty_reads_work(store: &dyn Store) {
    store.put("put", &[b""], PutMode::IfAbsent, false).expect("an empty object can be put");
    let mut keys = vec!["put"];
    if store.features().append {
        store.append("appended", 0, &[]).expect("an empty object can be made by an append");
        keys.push("appended");
    }
    for &key in &keys {
        assert_eq!(store.len(key).expect("an empty object exists"), 0);
        store.read(key, 0, &mut []).expect("nothing can be read of nothing");
        store.read(key, 77, &mut []).expect("nothing can be read anywhere");
        expect_error!(store.read(key, 0, &mut [0]), ShortRead { got: 0, .. }, "one byte of an empty object");
    }
    assert_eq!(store.list("").expect("listing").len(), keys.len(), "empty objects are listed");
}

pub(super) fn large_objects_come_back_whole(store: &dyn Store) {
    let bytes = pattern(5 << 20, 3);
    write(store, "written", &bytes);
    store.put("put", &[&bytes], PutMode::IfAbsent, false).expect("5 MiB can be put");
    for key in ["written", "put"] {
        let whole = store.read_all(key, u64::MAX).expect("5 MiB can be read");
        assert!(whole == bytes, "5 MiB come back as they were written ({key})");
        let shorter = store.read_whole(key, (5 << 20) - 1).expect("the length of 5 MiB can be had");
        assert_eq!(shorter.err(), Some(5 << 20), "what is longer than the limit is not read");
    }
    expect_error!(store.read_whole("no", 9), NotFound { .. }, "all of what is missing");
    let end = store.read_vec("put", (5 << 20) - 3, 3).expect("the end can be read");
    assert_eq!(end, bytes[bytes.len() - 3..]);
}

pub(super) fn what_is_read_is_shown_in_order_and_once(store: &dyn Store) {
    let bytes = pattern(3 << 20, 4);
    write(store, "k", &bytes);
    for (offset, len) in [(0, 3 << 20), (7, 700_001), (1, 1), (0, 0)] {
        let (mut out, mut shown, mut parts) = (vec![0; len], Vec::new(), Vec::new());
        let mut see = |part: &[u8]| {
            shown.extend_from_slice(part);
            parts.push(part.len());
        };
        store.read_seen("k", offset as u64, &mut out, &mut see).expect("bytes that are there can be read");
        assert!(out == bytes[offset..offset + len], "the bytes at {offset}+{len} are the ones written");
        assert!(shown == out, "each byte is shown once, in order");
        parts.pop();
        assert!(
            parts.iter().all(|n| n % (1 << SEEN_LOG2) == 0),
            "only the last part is of any length: {parts:?}"
        );
    }
    let short = store.read_seen("k", 1 << 20, &mut vec![0; (2 << 20) + 1], &mut |_| ());
    expect_error!(short, ShortRead { .. }, "past the end");
    expect_error!(
        store.read_seen("no", 0, &mut [], &mut |_| ()),
        NotFound { .. },
        "nothing of what is missing"
    );
}

pub(super) fn one_range_comes_into_several_buffers(store: &dyn Store) {
    let bytes = pattern(300_000, 5);
    write(store, "k", &bytes);
    for (offset, lens) in
        [(0, vec![300_000]), (9, vec![1, 0, 70_000, 4, 100_000, 0]), (300_000, vec![0]), (5, vec![])]
    {
        let mut buffers: Vec<Vec<u8>> = lens.iter().map(|len| vec![0; *len]).collect();
        let mut parts: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        store.read_parts("k", offset as u64, &mut parts).expect("bytes that are there can be read");
        let found = buffers.concat();
        assert!(found == bytes[offset..offset + found.len()], "the bytes at {offset} are the ones written");
    }
    let (mut a, mut b) = ([0; 10], [0; 11]);
    let short = store.read_parts("k", 299_980, &mut [&mut a, &mut b]);
    expect_error!(short, ShortRead { .. }, "past the end");
    expect_error!(store.read_parts("no", 0, &mut [&mut a]), NotFound { .. }, "of what is missing");
}

/// Reads through `LocalFiles` give the same bytes as reads through `Store`, and a wrapper forwards all of its
/// methods.
pub(super) fn local_files_are_the_same_objects(store: &dyn Store) {
    let Some(files) = store.local() else { return };
    let bytes = pattern(6 << 20, 6);
    write(store, "k", &bytes);
    let (mut a, mut b) = (vec![0; 100], vec![0; 1000]);
    files.read_parts("k", 5, &mut [&mut a, &mut b]).expect("bytes that are there can be read");
    assert!([a, b].concat() == bytes[5..1105], "parts have the bytes of the object");
    let mut out = vec![0; 30];
    files.read_ranges("k", &[(10, 10), (0, 20)], &mut out).expect("ranges that are there can be read");
    assert!(out[..10] == bytes[10..20] && out[10..] == bytes[..20], "ranges come one behind the other");
    let mut shown = 0;
    files.read_seen("k", 0, &mut out, &mut |part| shown += part.len()).expect("readable");
    assert_eq!(shown, 30, "all bytes are shown");
    files.prefetch("k", 0..1 << 30);
    files.prefetch_shared("missing", 0..9);
    files.preallocate("k", 6 << 20, 7 << 20);
    assert_eq!(store.len("k").expect("length"), 6 << 20, "preallocation is not seen");
    let range: std::ops::Range<u64> = 7..5 << 20;
    if let Some(mapped) = files.map("k", std::slice::from_ref(&range)) {
        assert!(files.maps_from().is_some(), "what maps says from which size on");
        // SAFETY: no thread writes to the object.
        let seen = unsafe { mapped.bytes(&(9..4 << 20)) }.expect("a part of what was mapped");
        assert!(seen == &bytes[9..4 << 20], "mapped bytes are the object's");
        // SAFETY: as above.
        assert!(unsafe { mapped.bytes(&(0..9)) }.is_none(), "what was not asked for is not there");
    }
    files.put_after(&["k"], "named", &[b"1", b"", b"2"], PutMode::IfAbsent).expect("what it names is there");
    assert_eq!(store.read_all("named", 9).expect("readable"), b"12");
    let refused = files.put_after(&["missing"], "other", &[b"1"], PutMode::IfAbsent);
    expect_error!(refused, NotFound { .. }, "naming what is missing");
    assert!(!store.exists("other").expect("existence"), "an object that names what is missing is not put");
    files.evict("k").expect("an object can be evicted");
    expect_error!(files.evict("missing"), NotFound { .. }, "evicting what is missing");
    assert!(store.read_all("k", 6 << 20).expect("readable") == bytes, "an evicted object is as it was");
}

pub(super) fn listing_is_sorted_and_by_prefix(store: &dyn Store) {
    // Byte order: '-' < '.' < '/' < digits < capitals < '_' < small letters.
    let keys = ["a-b", "a.b", "a/1", "a/b/deep", "a/bc", "a0", "log/Z", "log/z"];
    for (len, key) in keys.iter().enumerate().rev() {
        write(store, key, &pattern(len, 4));
    }
    for prefix in ["", "a", "a/", "a/b", "a/b/", "a/bc", "a/bcd", "log/Z", "missing/", "lo", "a."] {
        let found = store.list(prefix).expect("any beginning of a key can be listed");
        let expected: Vec<ListEntry> = keys
            .iter()
            .enumerate()
            .filter(|(_, key)| key.starts_with(prefix))
            .map(|(len, key)| ListEntry { key: (*key).into(), len: len as u64 })
            .collect();
        assert_eq!(found, expected, "all keys that begin with '{prefix}', sorted, with their lengths");
    }
    expect_error!(store.list("/a"), InvalidKey { .. }, "a prefix that begins no key");
}

pub(super) fn keys_are_checked_by_every_method(store: &dyn Store) {
    let long = "x".repeat(1025);
    for key in
        ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".", "space d", "nul\0", "ü", "a~b", &long]
    {
        let promise = format!("the key {key:?}");
        expect_error!(store.len(key), InvalidKey { .. }, promise);
        expect_error!(store.read(key, 0, &mut [0]), InvalidKey { .. }, promise);
        expect_error!(store.read(key, 0, &mut []), InvalidKey { .. }, promise);
        expect_error!(store.put(key, &[b"x"], PutMode::IfAbsent, false), InvalidKey { .. }, promise);
        expect_error!(store.put(key, &[b"x"], PutMode::Replace, true), InvalidKey { .. }, promise);
        expect_error!(store.read_whole(key, 9), InvalidKey { .. }, promise);
        expect_error!(store.delete(key), InvalidKey { .. }, promise);
        expect_error!(store.sync(&[key]), InvalidKey { .. }, promise);
        if store.features().append {
            expect_error!(store.append(key, 0, &[b"x"]), InvalidKey { .. }, promise);
            expect_error!(store.append(key, 5, &[b"x"]), InvalidKey { .. }, promise);
        }
    }
    assert_eq!(store.list("").expect("listing"), [], "refused keys leave nothing");
}
