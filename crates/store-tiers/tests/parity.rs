//! Parity of parts in tiers, made by several threads and processes at once.

use std::path::Path;
use std::sync::Arc;

use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{MemoryStore, Store, StoreExt};
use drystone_store_tiers::{Node, Tier, TieredStore, Turn};

const UUID: [u8; 16] = [7; 16];
const LENGTH: usize = 3 << 20;

fn key(writer: u64) -> String {
    format!("log/{writer:016x}-0000.seg")
}

fn bytes(writer: u64) -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 + at / 251 + writer as usize * 13) as u8).collect()
}

fn handle(home: &Arc<MemoryStore>, name: &str, tier: Option<&Path>) -> TieredStore {
    let node = Node { name: name.into(), group: name.into(), boot: String::new() };
    let store = TieredStore::of_container(home.clone(), UUID, node, Scheme::Partner);
    if let Some(tier) = tier {
        let tier = Tier::in_folder(tier, &UUID, None).expect("a folder can be made");
        assert!(store.attach(vec![tier.with_free(|| None, 0)]));
    }
    store
}

/// Symptom: a step that had reached "partner" was lost with one node. Cause: the background thread and a caller of
/// `wait` encoded the same group into the same temporary file. One truncated it just before the other renamed it, so
/// that an incomplete object was stated to be complete.
#[test]
fn a_group_that_several_threads_encode_at_once_survives_the_loss_of_a_node() {
    for _ in 0..20 {
        let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
        let handles: Vec<TieredStore> = [1, 2]
            .map(|writer: u64| {
                let name = format!("n{writer}");
                let store = handle(&home, &name, Some(&dir.path().join(&name)));
                store.append(&key(writer), 0, &[&bytes(writer)]).expect("there is room");
                store.close_part_at(&key(writer), Some(0));
                store.register(writer).expect("home takes it");
                store
            })
            .into();
        let others: Vec<TieredStore> =
            (0..2).map(|_| handle(&home, "n1", Some(&dir.path().join("n1")))).collect();
        std::thread::scope(|scope| {
            for store in handles.iter().chain(&others) {
                for _ in 0..2 {
                    scope.spawn(|| store.protect(0, None, Turn::Any).expect("the folders take it"));
                }
            }
        });
        assert_eq!(handles[0].kept().expect("readable"), [(1, 0), (2, 0)].into());
        drop((handles, others));
        std::fs::remove_dir_all(dir.path().join("n2")).expect("it can be removed");
        let spare = handle(&home, "spare", None);
        let lost = spare.lost_parts(&["n2".into()]).expect("registered");
        assert_eq!(lost.len(), 1);
        let rebuilt = spare.rebuild(&lost, &["n2".into()]).expect("home takes it");
        assert_eq!((rebuilt.parts.len(), rebuilt.notes), (1, vec![]));
        assert!(home.read_all(&key(2), 1 << 30).expect("it is home") == bytes(2));
    }
}
