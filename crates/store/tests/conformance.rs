//! Every implementation keeps the contract.

use std::sync::Arc;

use drystone_store::{
    CountingStore, FaultStore, LocalStore, MemoryStore, NoAppendStore, Script, Store, conformance,
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
}
