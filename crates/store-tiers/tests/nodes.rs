//! Parts of a container in the tiers of several nodes: registered before they are needed, adopted from dead processes,
//! and never treated as lost while they exist.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{
    DelayStore, Fault, FaultStore, LocalStore, MemoryStore, PutMode, Script, Store, StoreError, StoreExt,
};
use drystone_store_tiers::{Node, Tier, TieredStore};

const UUID: [u8; 16] = [7; 16];
const WRITER: u64 = 5;

fn key(part: u32) -> String {
    format!("log/{WRITER:016x}-{part:04}.seg")
}

fn bytes(part: u32) -> Vec<u8> {
    (0..1000).map(|at: u32| (at * 7 + part * 13) as u8).collect()
}

fn node(name: &str) -> Node {
    Node { name: name.into(), group: name.into(), boot: String::new() }
}

/// A handle of a process on a node; `tier` is its tier, if it has one.
fn handle(home: &Arc<MemoryStore>, name: &str, tier: Option<&Path>) -> TieredStore {
    let store = TieredStore::of_container(home.clone(), UUID, node(name), Scheme::None);
    if let Some(tier) = tier {
        let tier = Tier::in_folder(tier, &UUID, None).expect("a folder can be made");
        assert!(store.attach(vec![tier.with_free(|| None, 0)]));
    }
    store
}

fn write(store: &TieredStore, part: u32) {
    store.append(&key(part), 0, &[&bytes(part)]).expect("there is room");
    store.close_part_at(&key(part), Some(part.into()));
    store.register(WRITER).expect("home takes it");
}

fn drain(store: &TieredStore) {
    store.drain(|| true).expect("home takes all");
    store.settle().expect("home syncs");
    store.register_all().expect("home takes it");
}

/// Symptom: a commit warned of damage, or failed under `durable`, where another process registered a part after this one
/// had read the registrations.
#[test]
fn a_part_that_was_registered_meanwhile_has_a_length() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let (a, b) = (handle(&home, "a", Some(dir.path())), handle(&home, "b", None));
    assert!(matches!(b.len(&key(0)), Err(StoreError::NotFound { .. })));
    write(&a, 0);
    assert_eq!(b.len(&key(0)).expect("registered"), 1000);
}

#[test]
fn a_registered_part_is_there_for_every_node_and_read_where_its_tier_is() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let a = handle(&home, "a", Some(dir.path()));
    write(&a, 0);
    assert!(!home.exists(&key(0)).expect("known"));
    // Another process of the node needs no tiers. A process on another node gets an error that says where the bytes
    // are.
    assert!(handle(&home, "a", None).read_all(&key(0), 1 << 20).expect("readable") == bytes(0));
    let b = handle(&home, "b", None);
    assert_eq!(b.len(&key(0)).expect("registered"), 1000);
    assert_eq!(b.list("log/").expect("listed").len(), 1);
    match b.read(&key(0), 0, &mut [0; 10]) {
        Err(StoreError::NotHome { node, left: 1000, step: Some(0), .. }) => assert_eq!(node, "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(b.away().expect("known").len(), 1);
    drain(&a);
    assert!(b.read_all(&key(0), 1 << 20).expect("home has it") == bytes(0));
    assert!(b.away().expect("known").is_empty() && home.list("tiers/").expect("listed").is_empty());
}

#[test]
fn the_parts_of_a_dead_process_are_adopted_once_and_those_of_a_living_one_never() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let a = handle(&home, "a", Some(dir.path()));
    write(&a, 0);
    write(&a, 1);
    a.append(&key(2), 0, &[b"never promised"]).expect("there is room");
    let living = handle(&home, "a", Some(dir.path()));
    assert_eq!(living.adopt_orphans().expect("looked"), 0);
    drop(a);
    let next = handle(&home, "a", Some(dir.path()));
    assert_eq!(next.adopt_orphans().expect("looked"), 2);
    assert_eq!(handle(&home, "a", Some(dir.path())).adopt_orphans().expect("looked"), 0);
    drain(&next);
    for part in 0..2 {
        assert!(home.read_all(&key(part), 1 << 20).expect("home") == bytes(part));
    }
    assert!(!home.exists(&key(2)).expect("known") && home.list("tiers/").expect("listed").is_empty());
    // The folder stays while another handle has it open, which can still write there.
    next.evict_copies();
    drop(next);
    write(&living, 7);
    assert!(living.rows().iter().all(|tier| tier.aside.is_none() && tier.bytes > 0), "{:?}", living.rows());
    drain(&living);
    living.evict_copies();
    drop(living);
    assert!(std::fs::read_dir(dir.path()).expect("a folder").next().is_none(), "nothing is left in the tier");
}

/// Symptom: committed steps were lost. Two nodes used one folder as tier; the second one removed the parts of the first,
/// since its own registrations did not name them.
#[test]
fn parts_of_another_node_in_a_shared_folder_stay_there() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let a = handle(&home, "a", Some(dir.path()));
    write(&a, 0);
    a.append(&key(1), 0, &[b"never promised"]).expect("there is room");
    drop(a);
    let b = handle(&home, "b", Some(dir.path()));
    assert_eq!(b.adopt_orphans().expect("looked"), 0);
    drain(&b);
    assert_eq!(b.away().expect("known").len(), 1);
    drop(b);
    let next = handle(&home, "a", Some(dir.path()));
    assert_eq!(next.adopt_orphans().expect("looked"), 1);
    drain(&next);
    assert!(home.read_all(&key(0), 1 << 20).expect("home") == bytes(0));
}

#[test]
fn parts_that_were_registered_under_an_earlier_name_of_the_machine_are_adopted() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let named = |name: &str| {
        let node = Node { boot: "this boot".into(), ..node(name) };
        let store = TieredStore::of_container(home.clone(), UUID, node, Scheme::None);
        let tier = Tier::in_folder(dir.path(), &UUID, None).expect("a folder can be made");
        assert!(store.attach(vec![tier.with_free(|| None, 0)]));
        store
    };
    let a = named("a");
    write(&a, 0);
    write(&a, 1);
    assert_eq!(named("b").adopt_orphans().expect("looked"), 0, "its writer lives");
    drop(a);
    let b = named("b");
    assert_eq!(b.adopt_orphans().expect("looked"), 2);
    b.drain_part(&key(0)).expect("home takes it");
    b.settle().expect("home syncs");
    b.register_all().expect("home takes it");
    let away = handle(&home, "c", None).away().expect("known");
    assert_eq!(away.iter().map(|away| (away.node.as_str(), away.part.1)).collect::<Vec<_>>(), [("a", 1)]);
    drain(&b);
    assert!(home.read_all(&key(1), 1 << 20).expect("home") == bytes(1));
    assert!(home.list("tiers/").expect("listed").is_empty());
}

/// Symptom: acknowledged steps were lost. A registration whose connection broke was put again, and newer ones followed;
/// then the object store executed the first request, or its removal.
#[test]
fn requests_that_a_far_home_executes_late_change_no_registration() {
    let (inner, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let home = Arc::new(DelayStore::new(inner.clone(), Duration::ZERO, f64::INFINITY));
    let start = || {
        let store = TieredStore::of_container(home.clone(), UUID, node("a"), Scheme::None);
        let tier = Tier::in_folder(dir.path(), &UUID, None).expect("a folder can be made");
        assert!(store.attach(vec![tier.with_free(|| None, 0)]));
        store
    };
    let a = start();
    let mut late = std::collections::BTreeMap::new();
    for part in 0..6 {
        write(&a, part);
        for entry in inner.list("tiers/").expect("listed") {
            late.insert(entry.key.clone(), inner.read_all(&entry.key, 1 << 20).expect("it is there"));
        }
        if part == 2 {
            drain(&a);
            assert!(inner.list("tiers/").expect("listed").is_empty());
        }
    }
    assert_eq!(late.len(), 6);
    let newest = late.keys().next_back().expect("there are some").clone();
    for (key, bytes) in &late {
        inner.put(key, &[bytes], PutMode::Replace, false).expect("there is room");
    }
    let reader = TieredStore::of_container(home.clone(), UUID, node("b"), Scheme::None);
    assert_eq!(reader.away().expect("known").iter().map(|a| a.part.1).collect::<Vec<_>>(), [3, 4, 5]);
    for key in late.keys().filter(|key| **key != newest) {
        inner.delete(key).expect("it was there");
    }
    // Another process goes on, with a number of its own.
    drop(a);
    let next = start();
    assert_eq!(next.adopt_orphans().expect("looked"), 3);
    next.drain_part(&key(3)).expect("home takes it");
    next.settle().expect("home syncs");
    next.register_all().expect("home takes it");
    inner.delete(&newest).expect("it was there");
    assert_eq!(reader.away().expect("known").iter().map(|a| a.part.1).collect::<Vec<_>>(), [4, 5]);
    drain(&next);
    assert!(inner.list("tiers/").expect("listed").is_empty());
    (0..6).for_each(|part| assert!(inner.read_all(&key(part), 1 << 20).expect("home") == bytes(part)));
}

/// A failed put may not count as the one before: then the last good registration would be removed with the next put,
/// which may fail as well.
#[test]
fn registrations_that_could_not_be_put_remove_no_good_one() {
    let (inner, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    // Puts fail; the removals in between succeed.
    let script = [2, 4, 6, 8].into_iter().fold(Script::seeded(1), |script, n| script.at(n, Fault::Fail));
    let faults = FaultStore::new(inner.clone(), script).expect("an empty store");
    let home = Arc::new(DelayStore::new(faults, Duration::ZERO, f64::INFINITY));
    let a = TieredStore::of_container(home.clone(), UUID, node("a"), Scheme::None);
    let tier = Tier::in_folder(dir.path(), &UUID, None).expect("a folder can be made");
    assert!(a.attach(vec![tier.with_free(|| None, 0)]));
    write(&a, 0);
    write(&a, 1);
    let away = || handle(&inner, "b", None).away().expect("known").len();
    for part in 2..6 {
        a.append(&key(part), 0, &[&bytes(part)]).expect("there is room");
        a.close_part_at(&key(part), Some(part.into()));
        a.register(WRITER).expect_err("home takes nothing");
        assert!(away() >= 2, "part {part}");
    }
    a.register(WRITER).expect("home takes it");
    assert_eq!(away(), 6);
    assert!(inner.list("tiers/").expect("listed").len() <= 3);
}

#[test]
fn a_released_writer_is_adopted_while_it_exists_and_goes_on_with_what_is_registered() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let first = handle(&home, "a", Some(dir.path()));
    write(&first, 0);
    write(&first, 1);
    let lost = std::fs::read_dir(dir.path()).expect("a folder").next().expect("one").expect("one").path();
    first.evict_copies();
    std::fs::remove_file(lost.join("parts").join(key(1))).expect("it was there");
    let next = handle(&home, "a", Some(dir.path()));
    assert_eq!(next.adopt_orphans().expect("looked"), 1);
    drain(&next);
    drop(next);
    assert!(
        first.read_all(&key(0), 1 << 20).expect("home has it") == bytes(0),
        "another handle has drained it"
    );
    // The first handle writes on. The part that nobody finds stays registered.
    write(&first, 2);
    let away = handle(&home, "b", None).away().expect("known");
    assert_eq!(away.iter().map(|away| away.part.1).collect::<Vec<_>>(), [1, 2]);
    first.drain_part(&key(2)).expect("home takes it");
    first.settle().expect("home syncs");
    first.register(WRITER).expect("home takes it");
    assert!(home.read_all(&key(2), 1 << 20).expect("home") == bytes(2));
    let away = handle(&home, "b", None).away().expect("known");
    assert_eq!(away.iter().map(|away| away.part.1).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_part_whose_tier_is_gone_stays_registered_until_it_is_given_up() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let a = handle(&home, "a", Some(dir.path()));
    write(&a, 0);
    write(&a, 1);
    drop(a);
    let own = std::fs::read_dir(dir.path()).expect("a folder").next().expect("one").expect("one").path();
    std::fs::remove_file(own.join("parts").join(key(0))).expect("it was there");
    let next = handle(&home, "a", Some(dir.path()));
    assert_eq!(next.adopt_orphans().expect("looked"), 1);
    drain(&next);
    assert!(next.read_all(&key(1), 1 << 20).expect("home") == bytes(1));
    match next.read(&key(0), 0, &mut [0; 10]) {
        Err(StoreError::NotHome { remedy, .. }) => assert!(remedy.contains("recover()"), "{remedy}"),
        other => panic!("{other:?}"),
    }
    assert!(
        handle(&home, "b", None).lost_parts(&[]).expect("looked").is_empty(),
        "another node judges nothing"
    );
    assert_eq!(handle(&home, "b", None).lost_parts(&["a".into()]).expect("looked").len(), 1);
    let lost = next.lost_parts(&[]).expect("looked");
    assert_eq!(lost.len(), 1);
    next.mark_missing(&lost).expect("known");
    assert!(matches!(next.read(&key(0), 0, &mut [0; 10]), Err(StoreError::NotFound { .. })));
    next.unregister_missing().expect("home takes it");
    assert!(home.list("tiers/").expect("listed").is_empty());
}

#[test]
fn a_damaged_registration_is_reported_and_changes_nothing_else() {
    let (home, dir) = (Arc::new(MemoryStore::new()), tempfile::tempdir().expect("a folder"));
    let a = handle(&home, "a", Some(dir.path()));
    write(&a, 0);
    let registration = home.list("tiers/").expect("listed").remove(0).key;
    home.write_at(&registration, &[(30, b"!")], home.len(&registration).expect("there"))
        .expect("memory takes it");
    let b = handle(&home, "b", None);
    assert_eq!(b.broken().expect("looked").len(), 1);
    assert!(a.read_all(&key(0), 1 << 20).expect("its own") == bytes(0));
}

/// A part longer than a piece is drained in pieces. A drain that was killed in the middle continues where it stopped,
/// unless a power cut changed the bytes at home.
#[test]
fn a_long_part_goes_home_in_pieces_and_goes_on_after_a_kill() {
    let long: Vec<u8> = (0..20_000_001u32).map(|at| (at ^ (at >> 9)) as u8).collect();
    for begun in [&long[..9_000_000], &[9; 17][..]] {
        let (home, near) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let home = Arc::new(LocalStore::create(home.path()).expect("a store"));
        let store = TieredStore::of_container(home.clone(), UUID, node("a"), Scheme::None);
        let tier = Tier::in_folder(near.path(), &UUID, None).expect("a folder");
        assert!(store.attach(vec![tier.with_free(|| None, 0)]));
        store.append(&key(0), 0, &[&long]).expect("there is room");
        store.close_part_at(&key(0), Some(3));
        home.append(&key(0), 0, &[begun]).expect("what a killed drain left");
        store.drain_part(&key(0)).expect("it goes on");
        assert!(home.read_all(&key(0), 1 << 30).expect("home") == long);
    }
}
