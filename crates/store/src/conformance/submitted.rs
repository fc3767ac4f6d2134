//! The part of the contract about submitted requests.

use super::{expect_error, pattern, write};
use crate::{PutMode, Reply, Request, Store, StoreExt};

pub(super) fn questions_can_be_submitted_too(store: &dyn Store) {
    write(store, "a/1", &pattern(100, 1));
    write(store, "a/2", &pattern(7, 2));
    let ask = |request| store.submit(request).wait();
    let key = |key: &str| key.to_owned();
    assert_eq!(ask(Request::Len { key: key("a/1") }).expect("length"), Reply::Len { len: 100 });
    expect_error!(ask(Request::Len { key: key("a/3") }), NotFound { .. }, "the length of what is missing");
    let whole = |limit| ask(Request::ReadWhole { key: key("a/1"), limit });
    assert_eq!(whole(100).expect("readable"), Reply::Whole { bytes: Ok(pattern(100, 1)) });
    assert_eq!(whole(99).expect("readable"), Reply::Whole { bytes: Err(100) });
    expect_error!(
        ask(Request::ReadWhole { key: key("b"), limit: 9 }),
        NotFound { .. },
        "all of what is missing"
    );
    match ask(Request::List { prefix: key("a/") }).expect("listing") {
        Reply::Listed { entries } => assert_eq!(entries, store.list("a/").expect("listing")),
        other => panic!("a list is answered by a list: {other:?}"),
    }
    let written =
        store.submit(Request::Put { key: key("a/2"), data: vec![1], mode: PutMode::Replace, sync: false });
    let deleted = store.submit(Request::Delete { key: key("a/2") });
    written.wait().expect("put");
    assert_eq!(deleted.wait().expect("deleted"), Reply::Deleted);
    assert!(!store.exists("a/2").expect("existence"), "a delete comes after the put submitted before it");
    assert_eq!(ask(Request::Delete { key: key("a/2") }).expect("a delete may be repeated"), Reply::Deleted);
    expect_error!(ask(Request::Delete { key: key("../x") }), InvalidKey { .. }, "a bad key");
}

pub(super) fn requests_done_together_are_answered_in_order(store: &dyn Store) {
    for n in 0..20 {
        write(store, &format!("k{n}"), &pattern(n, n as u8));
    }
    let all = (0..21).map(|n| Request::ReadWhole { key: format!("k{n}"), limit: 100 }).collect();
    for (n, answer) in store.together(all).into_iter().enumerate() {
        match answer {
            Ok(Reply::Whole { bytes: Ok(bytes) }) => assert_eq!(bytes, pattern(n, n as u8)),
            other => expect_error!(other, NotFound { .. } if n == 20, "the last one is missing"),
        }
    }
}

pub(super) fn submitted_requests_keep_their_order_and_return_their_buffers(store: &dyn Store) {
    let bytes = pattern(50_000, 9);
    write(store, "read", &bytes);
    let ranges = vec![(40_000, 10_000), (0, 3), (2, 0), (1, 4)];
    let request = Request::ReadMany { key: "read".into(), ranges: ranges.clone(), buffers: vec![vec![7; 9]] };
    match store.submit(request).wait() {
        Ok(Reply::Read { buffers }) => {
            assert_eq!(buffers.len(), ranges.len(), "one buffer for each range");
            for ((offset, len), buffer) in ranges.into_iter().zip(buffers) {
                let start = offset as usize;
                assert!(buffer == bytes[start..start + len], "each range has its bytes");
            }
        }
        other => panic!("ranges that exist can be read: {other:?}"),
    }
    expect_error!(
        store.submit(Request::read_many("read", vec![(0, 1), (49_999, 2)])).wait(),
        ShortRead { offset: 49_999, .. },
        "a submitted read past the end"
    );
    expect_error!(store.submit(Request::read_many("no", vec![])).wait(), NotFound { .. }, "a missing object");
    expect_error!(
        store.submit(Request::read_many("../x", vec![(0, 1)])).wait(),
        InvalidKey { .. },
        "a bad key"
    );

    let data = pattern(1000, 10);
    let put = |mode| Request::Put { key: "put".into(), data: data.clone(), mode, sync: true };
    assert_eq!(
        store.submit(put(PutMode::IfAbsent)).wait().expect("put"),
        Reply::Put { data: data.clone() },
        "the buffer of a put comes back"
    );
    expect_error!(
        store.submit(put(PutMode::IfAbsent)).wait(),
        AlreadyExists { .. },
        "a submitted put if absent"
    );
    assert_eq!(store.read_all("put", 10_000).expect("readable"), data);

    let versions: Vec<_> = (0..30_u8)
        .map(|n| Request::Put {
            key: "versions".into(),
            data: vec![n; 100],
            mode: PutMode::Replace,
            sync: false,
        })
        .map(|request| store.submit(request))
        .collect();
    versions.into_iter().for_each(|pending| drop(pending.wait().expect("put")));
    assert_eq!(
        store.read_vec("versions", 0, 1).expect("readable"),
        [29],
        "the last put submitted is the last done"
    );

    if store.features().append {
        appends_keep_their_order(store);
    }
}

fn appends_keep_their_order(store: &dyn Store) {
    const PIECES: usize = 60;
    let keys = ["log/a", "log/b", "log/c"];
    let mut pending = Vec::new();
    for n in 0..PIECES {
        for (which, key) in keys.iter().enumerate() {
            let data = pattern(700, (n * 3 + which) as u8);
            pending.push(store.submit(Request::Append { key: (*key).into(), at: (n * 700) as u64, data }));
        }
    }
    let sync = store.submit(Request::Sync { keys: keys.iter().map(|&key| key.into()).collect() });
    for (i, pending) in pending.into_iter().enumerate() {
        let reply = pending.wait().expect("appends submitted in order succeed, whatever else is under way");
        assert_eq!(
            reply,
            Reply::Append { data: pattern(700, i as u8) },
            "the buffer of an append comes back"
        );
    }
    sync.wait().expect("a sync submitted behind the appends finds their objects");
    for (which, key) in keys.iter().enumerate() {
        let expected: Vec<u8> = (0..PIECES).flat_map(|n| pattern(700, (n * 3 + which) as u8)).collect();
        assert!(store.read_all(key, 1 << 20).expect("readable") == expected, "appends stand as submitted");
    }
    let late = Request::Append { key: "log/a".into(), at: 1, data: vec![1] };
    expect_error!(
        store.submit(late).wait(),
        Conflict { expected: 1, .. },
        "a submitted append at a wrong place"
    );
}
