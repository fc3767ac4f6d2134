//! A store of tiers fulfils the contract of stores.

use std::sync::Arc;

use drystone_store::{LocalStore, MemoryStore, NoAppendStore, Store, conformance};
use drystone_store_tiers::{Node, Tier, TieredStore};

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
fn the_store_of_a_container_keeps_the_contract_of_its_home() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let node = Node { name: "a".into(), group: "a".into(), boot: String::new() };
    let container = |home: Arc<dyn Store>, with: bool| {
        let store = TieredStore::of_container(
            home,
            [7; 16],
            node.clone(),
            drystone_plan::tier::redundancy::Scheme::None,
        );
        assert!(store.attach(if with { vec![tier(None)] } else { Vec::new() }));
        Box::new(store)
    };
    for with in [false, true] {
        conformance::check(|| container(Arc::new(MemoryStore::new()), with));
        conformance::check(|| container(Arc::new(NoAppendStore::new(MemoryStore::new())), with));
        conformance::check(|| {
            let folder = tempfile::tempdir_in(&dir).expect("a folder can be made").keep();
            container(Arc::new(LocalStore::create(folder).expect("a store can be made")), with)
        });
    }
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
