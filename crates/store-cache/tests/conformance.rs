//! A store with a cache in front fulfils the contract of stores, whatever is cached.

use std::sync::Arc;
use std::time::Duration;

use drystone_store::{DelayStore, MemoryStore, NoAppendStore, Store, conformance};
use drystone_store_cache::{CacheStore, Folder};

#[test]
fn a_cached_store_keeps_the_contract_of_its_home() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let folder = || {
        let root = tempfile::tempdir_in(&dir).expect("a folder can be made").keep();
        Folder::open(&root, Some(64 << 20)).expect("a cache can be made")
    };
    let over = |home: Arc<dyn Store>, folder| CacheStore::for_keys(home, [7; 16], folder, |_| true);
    conformance::check(|| Box::new(over(Arc::new(MemoryStore::new()), Some(folder()))));
    conformance::check(|| Box::new(over(Arc::new(MemoryStore::new()), None)));
    conformance::check(|| Box::new(over(Arc::new(NoAppendStore::new(MemoryStore::new())), Some(folder()))));
    conformance::check(|| {
        let far = DelayStore::new(MemoryStore::new(), Duration::from_micros(200), 1e10);
        Box::new(over(Arc::new(far), Some(folder())))
    });
    conformance::check(|| Box::new(CacheStore::new(Arc::new(MemoryStore::new()), [7; 16], Some(folder()))));
}
