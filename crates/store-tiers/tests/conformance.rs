//! A store of tiers keeps the contract of stores.

use std::sync::Arc;

use drystone_store::{LocalStore, MemoryStore, conformance};
use drystone_store_tiers::{Tier, TieredStore};

fn tier(budget: Option<u64>) -> Tier {
    Tier::new(Arc::new(MemoryStore::new()), budget)
}

#[test]
fn tiers_over_memory_keep_the_contract() {
    conformance::check(|| Box::new(TieredStore::new(vec![tier(None)], Arc::new(MemoryStore::new()))));
    let all = |tiers| TieredStore::for_keys(tiers, Arc::new(MemoryStore::new()), |_| true);
    conformance::check(|| Box::new(all(vec![tier(None)])));
    conformance::check(|| Box::new(all(vec![tier(Some(1000)), tier(None)])));
    conformance::check(|| Box::new(all(vec![tier(Some(100))])));
    conformance::check(|| Box::new(all(Vec::new())));
}

#[test]
fn tiers_over_files_keep_the_contract() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let local = || {
        let folder = tempfile::tempdir_in(&dir).expect("a folder can be made").keep();
        LocalStore::create(folder).expect("a store can be made")
    };
    conformance::check(|| {
        let tiers = vec![Tier::new(Arc::new(local()), Some(1 << 16)), Tier::new(Arc::new(local()), None)];
        Box::new(TieredStore::for_keys(tiers, Arc::new(local()), |_| true))
    });
}
