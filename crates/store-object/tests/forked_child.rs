//! A store that was opened before a fork works in both processes, also if requests were under way. This test is a
//! program of its own, since a fork copies the locks that threads of other tests hold.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering};

use drystone_s3_rig::{Config, Rig};
use drystone_store::{PutMode, Request, Store, StoreExt};
use drystone_store_object::{FarStore, Options};

/// Symptoms in other software: children that hang in a lock, or wait for threads that stayed in the parent; parents
/// whose connections a child removed from their event queue by closing its copy. Here, threads of the parent submit,
/// read and put continuously while it forks, so that every lock is sometimes held at the moment of a fork. The child
/// has a deadline; the parent continues to read afterwards.
#[test]
fn children_work_and_parents_go_on() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
        fn alarm(seconds: u32) -> u32;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    }
    let rounds = if std::env::var_os("DRYSTONE_LONG").is_some() { 1000 } else { 60 };
    let rig = Rig::start(Config::default()).unwrap();
    let options = Options::new([
        ("aws_endpoint", rig.endpoint()),
        ("aws_access_key_id", "k".into()),
        ("aws_secret_access_key", "s".into()),
    ]);
    let store = FarStore::open("s3://bucket/run.dry", &options).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    store.put("k", &[&bytes], PutMode::Replace, true).unwrap();
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, bytes, finished) = (&store, &bytes, &finished);
            scope.spawn(move || {
                while !finished.load(Ordering::Acquire) {
                    let pending = store.submit(Request::read_many("k", vec![(7, 1000), (50_000, 9)]));
                    let put = Request::Put {
                        key: format!("by/{thread}"),
                        data: vec![1],
                        mode: PutMode::Replace,
                        sync: true,
                    };
                    let put = store.submit(put);
                    assert_eq!(pending.wait().unwrap().into_buffers()[0], bytes[7..1007]);
                    put.wait().unwrap();
                }
            });
        }
        for round in 0..rounds {
            // SAFETY: the child only uses the store, whose guarantee about forks is under test, and exits without
            // unwinding.
            let child = unsafe { fork() };
            assert!(child >= 0, "a process can be forked");
            if child == 0 {
                // SAFETY: it sets an alarm, which ends a child that hangs.
                unsafe { alarm(30) };
                let read = store.read_vec("k", 0, bytes.len()).is_ok_and(|read| read == bytes);
                let put = Request::Put {
                    key: format!("child/{round}"),
                    data: vec![2],
                    mode: PutMode::IfAbsent,
                    sync: true,
                };
                let put = store.submit(put).wait().is_ok();
                drop(store.clone());
                // SAFETY: it ends the process at once.
                unsafe { _exit(i32::from(!(read && put))) };
            }
            let mut status = 0;
            // SAFETY: the child was created above, and `status` is ours.
            assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
            if status != 0 {
                finished.store(true, Ordering::Release);
            }
            assert_eq!(status, 0, "the child of round {round} hangs (14), or read or wrote wrongly (256)");
        }
        finished.store(true, Ordering::Release);
    });
    assert_eq!(store.read_all("k", 1 << 20).unwrap(), bytes);
    assert_eq!(store.list("child/").unwrap().len(), rounds);
}
