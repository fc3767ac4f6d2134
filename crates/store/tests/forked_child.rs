//! A process may fork while the local store is in use. This test is a program of its own: locks of the C library that
//! threads of *other* tests hold at the fork would stay locked in the child, and it would hang although the store is
//! right.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::sync::atomic::{AtomicBool, Ordering};

use drystone_store::{LocalFiles, LocalStore, MapPolicy, PutMode, Request, Store, StoreError, StoreExt};

/// Reads and writes in a child, whatever locks of the store the parent's threads hold at the fork.
#[test]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges of one")]
fn a_forked_child_can_use_the_store_whatever_the_parents_threads_were_doing() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn alarm(seconds: u32) -> u32;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap().with_map_policy(MapPolicy::Always);
    for i in 0..200_u8 {
        store.put(&format!("k{i}"), &[&[i; 100]], PutMode::Replace, false).unwrap();
    }
    let carried = store.map("k1", &[10..90]).unwrap();
    let use_all_of_it = |round: u32| -> bool {
        // SAFETY: no process writes to these objects.
        let lent = |of: &drystone_store::Mapped, i: u8| unsafe { of.bytes(&(10..90)) } == Some(&[i; 80]);
        let lent = lent(&carried, 1) && store.map("k2", &[10..90]).is_some_and(|of| lent(&of, 2));
        let read = (0..200_u8).all(|i| store.read_vec(&format!("k{i}"), 50, 50).is_ok_and(|b| b == [i; 50]));
        let key = format!("child/{round}");
        let submitted =
            store.submit(Request::Append { key: key.clone(), at: 0, data: vec![1; 10] }).wait().is_ok();
        read && lent && submitted && store.sync(&[&key]).is_ok() && store.list("child/").is_ok()
    };
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !finished.load(Ordering::Relaxed) {
                    let pending: Vec<_> = (0..200)
                        .map(|i| store.submit(Request::read_many(format!("k{i}"), vec![(0, 100)])))
                        .collect();
                    pending.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
                }
            });
        }
        for round in 0..15 {
            let before_fork = store.submit(Request::read_many("k1", vec![(0, 1)]));
            // SAFETY: the child uses the store, which this test is about, and the allocator, which the C library makes
            // usable after a fork. Then it exits without running code of the parent.
            let child = unsafe { fork() };
            if child == 0 {
                // SAFETY: the argument is a plain number. If the child hangs, the alarm ends it and the test fails.
                unsafe { alarm(20) };
                let carried_over = before_fork.wait();
                let own_number = drystone_store::process_id() == std::process::id();
                let closed = matches!(carried_over, Err(StoreError::Closed { .. }));
                let ok = use_all_of_it(round) && closed && own_number;
                // SAFETY: ends the process at once.
                unsafe { _exit(if ok { 0 } else { 1 }) };
            }
            let child = rustix::process::Pid::from_raw(child).expect("fork succeeds");
            let (_, status) = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty())
                .unwrap()
                .unwrap();
            let status = (status.exit_status(), status.terminating_signal());
            if status != (Some(0), None) || before_fork.wait().is_err() {
                finished.store(true, Ordering::Relaxed);
                panic!("round {round}: the child ended with {status:?}");
            }
        }
        finished.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.list("child/").unwrap().len(), 15, "what children wrote the parent sees");
}
