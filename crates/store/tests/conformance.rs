//! Every implementation fulfils the contract.

use std::sync::Arc;
use std::time::Duration;

use drystone_store::{
    CountingStore, DelayStore, FaultStore, LocalStore, MemoryStore, NoAppendStore, PrefetchStore, Script,
    Store, conformance,
};
use tempfile::TempDir;

/// A local store in a folder of its own below `dir`.
fn local(dir: &TempDir) -> LocalStore {
    let folder = tempfile::tempdir_in(dir).expect("a folder can be made").keep();
    LocalStore::create(folder).expect("a store can be made in an empty folder")
}

#[test]
fn memory_keeps_the_contract() {
    conformance::check(|| Box::new(MemoryStore::new()));
}

#[test]
fn local_files_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(local(&dir)));
}

#[test]
fn local_files_with_early_writeback_keep_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(local(&dir).with_early_writeback(true)));
}

#[test]
fn stores_without_append_keep_the_contract() {
    conformance::check(|| Box::new(NoAppendStore::new(MemoryStore::new())));
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(NoAppendStore::new(local(&dir))));
}

#[test]
fn counting_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(CountingStore::new(local(&dir))));
    conformance::check(|| Box::new(CountingStore::new(MemoryStore::new())));
    conformance::check(|| Box::new(CountingStore::new(NoAppendStore::new(MemoryStore::new()))));
}

#[test]
fn a_far_store_keeps_the_contract() {
    let far = |inner: Box<dyn Store>| DelayStore::new(inner, Duration::from_micros(50), 1e10);
    conformance::check(|| Box::new(far(Box::new(MemoryStore::new()))));
    conformance::check(|| Box::new(far(Box::new(NoAppendStore::new(MemoryStore::new())))));
    conformance::check(|| Box::new(PrefetchStore::new(far(Box::new(MemoryStore::new())))));
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(CountingStore::new(far(Box::new(local(&dir))))));
    conformance::check(|| Box::new(PrefetchStore::new(local(&dir))));
}

#[test]
fn a_script_without_faults_changes_nothing() {
    conformance::check(|| Box::new(FaultStore::in_memory(Script::default())));
    conformance::check(|| Box::new(FaultStore::in_memory(Script::default().with_space(1 << 40))));
    conformance::check(|| {
        Box::new(FaultStore::new(NoAppendStore::new(MemoryStore::new()), Script::default()).unwrap())
    });
}

#[test]
fn pointers_to_stores_are_stores() {
    conformance::check(|| {
        let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
        Box::new(shared)
    });
    conformance::check(|| Box::new(Box::new(MemoryStore::new())));
    conformance::check(|| Box::new(&*Box::leak(Box::new(MemoryStore::new()))));
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| {
        let shared: Arc<dyn Store> = Arc::new(local(&dir));
        Box::new(shared)
    });
}

#[test]
fn a_script_without_faults_changes_nothing_of_local_files() {
    let dir = tempfile::tempdir().unwrap();
    conformance::check(|| Box::new(FaultStore::new(local(&dir), Script::default()).unwrap()));
}

/// Symptom: a mapped read was not possible through a counted store without append, and preallocation was lost in
/// wrappers. Cause: the methods that only files have were default methods of `Store`, and a wrapper that did not name
/// them lost them silently. Each wrapper now reports whether it has local files, and this test has the expected
/// answers.
#[test]
fn wrappers_forward_local_files_whole_or_refuse_them_visibly() {
    let dir = tempfile::tempdir().unwrap();
    let has = |store: &dyn Store| store.local().is_some();
    assert!(has(&local(&dir)) && has(&Arc::new(local(&dir))) && has(&Box::new(local(&dir))));
    assert!(has(&CountingStore::new(local(&dir))) && has(&CountingStore::new(Arc::new(local(&dir)))));
    assert!(!has(&MemoryStore::new()) && !has(&CountingStore::new(MemoryStore::new())));
    assert!(!has(&NoAppendStore::new(local(&dir))), "code is tried as on an object store");
    assert!(!has(&FaultStore::new(local(&dir), Script::default()).unwrap()), "faults strike every request");
}
