//! The contract of stores, kept by a real cluster; and what is said where there is none.
//!
//! The cluster of `DRYSTONE_TEST_CEPH` (the path of a configuration) is used, or one is started for the test. Where
//! Ceph's daemons are not installed, the tests say so and end.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use drystone_store::{PutMode, Request, Store, StoreError, StoreExt, conformance};
use drystone_store_rados::{Options, RadosStore};

use common::Cluster;

#[test]
fn a_pool_keeps_the_contract() {
    let Some(cluster) = Cluster::get("DRYSTONE_TEST_CEPH", &[]) else { return };
    let number = AtomicU32::new(0);
    let process = std::process::id();
    for append in ["true", "false"] {
        for prefix in ["", "/some/run.dry"] {
            conformance::check(|| {
                let n = number.fetch_add(1, Ordering::Relaxed);
                Box::new(cluster.open(&format!("test/c{process}-{n}{prefix}"), &[("append", append)]))
            });
        }
    }
    neighbours_are_not_seen(&cluster);
    a_second_writer_is_refused(&cluster);
    errors_name_what_was_asked(&cluster);
    requests_outlive_their_store(&cluster);
}

fn neighbours_are_not_seen(cluster: &Cluster) {
    let place = format!("test/n{}", std::process::id());
    let (a, b) = (cluster.open(&format!("{place}/a"), &[]), cluster.open(&format!("{place}/ab"), &[]));
    a.put("k", &[b"1"], PutMode::IfAbsent, false).unwrap();
    b.put("k", &[b"22"], PutMode::IfAbsent, false).unwrap();
    assert_eq!((a.list("").unwrap().len(), a.read_all("k", 9).unwrap()), (1, b"1".to_vec()));
    assert_eq!((b.list("k").unwrap()[0].len, b.list("x").unwrap().len()), (2, 0));
    assert_eq!(a.device(), b.device());
    assert!(a.device().unwrap().starts_with("rados "));
}

fn a_second_writer_is_refused(cluster: &Cluster) {
    let place = format!("test/w{}", std::process::id());
    let (a, b) = (cluster.open(&place, &[("append", "true")]), cluster.open(&place, &[("append", "true")]));
    a.append("log/x", 0, &[b"head"]).unwrap();
    assert!(matches!(b.append("log/x", 0, &[b"other"]), Err(StoreError::AlreadyExists { .. })));
    b.append("log/x", 4, &[b"more"]).unwrap();
    assert!(matches!(
        a.append("log/x", 4, &[b"mine"]),
        Err(StoreError::Conflict { expected: 4, found: 8, .. })
    ));
    assert_eq!(a.read_all("log/x", 99).unwrap(), b"headmore");
}

fn errors_name_what_was_asked(cluster: &Cluster) {
    let lost = cluster.open("nopool/x", &[]).list("").unwrap_err().to_string();
    assert!(lost.contains("nopool") && lost.contains("CEPH_CONF"), "{lost}");
    let conf = [("conf", "/nowhere/ceph.conf")];
    let store = RadosStore::open("rados://test/x", Options::new(conf).unwrap()).unwrap();
    let lost = store.len("k").unwrap_err().to_string();
    assert!(lost.contains("/nowhere/ceph.conf") && lost.contains("rados://test/x"), "{lost}");
    let store = cluster.open("test/x", &[]);
    store.put("k", &[b"1"], PutMode::Replace, false).unwrap();
    let lost = store.exec("k", "nothing.here", b"").unwrap_err();
    assert!(matches!(lost, StoreError::Unsupported { .. }), "{lost}");
    let large = vec![0; 100 << 20];
    let lost = store.put("large", &[&large], PutMode::IfAbsent, false).unwrap_err().to_string();
    assert!(lost.contains("osd_max_write_size"), "{lost}");
}

fn requests_outlive_their_store(cluster: &Cluster) {
    let store = cluster.open("test/o", &[]);
    let bytes = vec![7; 1 << 20];
    store.put("k", &[&bytes], PutMode::Replace, false).unwrap();
    let pending: Vec<_> =
        (0..40).map(|_| store.submit(Request::read_many("k", vec![(0, 1 << 20)]))).collect();
    drop(store);
    for one in pending {
        assert_eq!(one.wait().unwrap().into_buffers(), std::slice::from_ref(&bytes));
    }
}

#[test]
fn without_the_library_the_message_says_what_to_install() {
    let store = RadosStore::open("rados://pool/namespace/x", Options::default()).unwrap();
    // Where it is installed, no cluster answers at the default place, or one does; neither is our matter here.
    if let Err(error) = store.len("k") {
        let text = error.to_string();
        assert!(text.contains("rados://pool/namespace/x"), "{text}");
        if text.contains("not installed") {
            assert!(text.contains("librados2"), "{text}");
        }
    }
}
