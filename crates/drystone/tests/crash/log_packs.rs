//! Do many short writers leave few files, whenever a process that packs their logs dies? Does every snapshot stay
//! unchanged?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, GcOptions, Mode, WriterOptions};
use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_store::{Fault, FaultStore, MemoryStore, NoAppendStore, PutMode, Script, Store, StoreExt};

use crate::common::{create, dense, f4, ramp_f32, read_all};

fn new(store: Arc<dyn Store>, durability: Durability) {
    let c = Container::create(store, CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    c.apply(vec![create("t", f4(), &[4], |_| {})]).unwrap();
    c.finish().unwrap();
}

/// The values that writer number `n` puts.
fn values(n: usize) -> Vec<u8> {
    ramp_f32(4 + n).split_off(4 * n)
}

/// Programs that open the container, put a block and close it, one after the other.
fn programs(store: &Arc<dyn Store>, numbers: std::ops::Range<usize>) {
    numbers.for_each(|n| program(store, n).unwrap());
}

fn program(store: &Arc<dyn Store>, n: usize) -> drystone::Result<()> {
    let c = Container::open(store.clone(), Mode::ReadWrite)?;
    let w = c.writer(WriterOptions::default())?;
    w.put("t", &f4(), &dense(&values(n), &[4], 4), None, None)?;
    w.close()?;
    c.finish()
}

fn files(store: &dyn Store) -> Vec<String> {
    store.list("").unwrap().into_iter().map(|item| item.key).collect()
}

fn count(store: &dyn Store, is: impl Fn(&str) -> bool) -> usize {
    files(store).iter().filter(|key| is(key)).count()
}

fn is_part(key: &str) -> bool {
    keys::parse_log(key).is_some()
}

/// Checks that the snapshot of each program is unchanged. A collection may have added others.
fn check_values(store: &Arc<dyn Store>, programs: usize, what: &str) -> Container {
    let c = Container::open(store.clone(), Mode::Read).unwrap_or_else(|e| panic!("{what}: {e}"));
    for n in 0..programs {
        assert!(read_all(&c.at(n as u64 + 2).unwrap(), "t") == values(n), "{what}: program {n}");
    }
    c
}

/// As `check_values`; also checks that everything is undamaged.
fn check(store: &Arc<dyn Store>, programs: usize, what: &str) {
    let c = check_values(store, programs, what);
    let verified = c.verify(&mut |_, _| true).unwrap();
    assert!(verified.damage.is_empty(), "{what}: {:?}", verified.damage);
}

fn collect(c: &Container) -> drystone::Result<()> {
    c.gc(&GcOptions::default(), &mut |_, _| true).map(drop)
}

#[test]
fn any_number_of_short_programs_leave_few_files_and_every_snapshot() {
    for (durability, programs) in
        [(Durability::Async, 1000), (Durability::Durable, 200), (Durability::Memory, 200)]
    {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        new(store.clone(), durability);
        for n in 0..programs {
            program(&store, n).unwrap();
            if n % 10 >= 4 {
                let left = files(&*store);
                assert!(left.len() <= 32, "{durability:?}, {n}: {} files: {left:?}", left.len());
            }
        }
        check(&store, programs, durability.name());
        let c = Container::open(store.clone(), Mode::Read).unwrap();
        let writers = c.describe().unwrap().writers;
        assert_eq!(writers.len(), programs, "info counts those whose logs are packed");
    }
}

#[test]
fn many_writers_of_one_handle_leave_few_files() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Async);
    let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
    for n in 0..300 {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.put("t", &f4(), &dense(&values(n), &[4], 4), None, None).unwrap();
        w.close().unwrap();
    }
    assert!(count(&*store, is_part) <= 2 * (64 + 8), "in the course of commits");
    c.finish().unwrap();
    assert!(files(&*store).len() <= 32, "{:?}", files(&*store));
    check(&store, 300, "one handle");
}

#[test]
fn objects_that_are_put_whole_are_packed_too() {
    let inner = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = Arc::new(NoAppendStore::new(inner.clone()));
    new(store.clone(), Durability::Durable);
    programs(&store, 0..50);
    assert!(count(&*inner, is_part) <= 12, "{:?}", files(&*inner));
    assert!(count(&*inner, |key| keys::parse_log_pack(key).is_some()) > 0);
    check(&store, 50, "without append");
}

/// A container that was made before there were packs of log parts, or with tiers.
#[test]
fn a_container_without_the_feature_keeps_its_files() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Async);
    let mut identity = Identity::decode(&store.read_all(keys::IDENTITY, 4096).unwrap()).unwrap();
    assert!(identity.features.contains(&"log-packs".to_owned()), "readers that do not know them refuse");
    identity.features.retain(|feature| feature != "log-packs");
    store.put(keys::IDENTITY, &[&identity.encode()], PutMode::Replace, true).unwrap();
    programs(&store, 0..40);
    collect(&Container::open(store.clone(), Mode::ReadWrite).unwrap()).unwrap();
    assert_eq!(count(&*store, is_part), 80);
    check(&store, 40, "as before");
}

#[test]
fn handles_at_an_older_state_read_it_from_packs_that_have_been_merged() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Async);
    programs(&store, 0..3);
    let before_packs = Container::open(store.clone(), Mode::Read).unwrap();
    programs(&store, 3..10);
    let after_one = Container::open(store.clone(), Mode::Read).unwrap();
    assert!(read_all(&after_one.at(3).unwrap(), "t") == values(1), "it knows the first pack");
    let first: Vec<String> = files(&*store).into_iter().filter(|key| key.ends_with(".pack")).collect();
    programs(&store, 10..60);
    assert!(first.iter().all(|key| !files(&*store).contains(key)), "they were merged");
    for c in [&before_packs, &after_one] {
        for n in 0..3 {
            assert!(read_all(&c.at(n as u64 + 2).unwrap(), "t") == values(n), "{n}");
        }
        assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
        assert!(c.refresh().unwrap());
        assert!(read_all(c, "t") == values(59));
    }
}

#[test]
fn a_collection_takes_parts_that_nothing_needs_out_of_packs() {
    for durability in [Durability::Async, Durability::Durable, Durability::Memory] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        new(store.clone(), durability);
        let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
        c.apply(vec![create("u", f4(), &[5, 4], |_| {})]).unwrap();
        for row in 0..5 {
            let w = c.writer(WriterOptions::default()).unwrap();
            w.put("u", &f4(), &dense(&values(row), &[1, 4], 4), Some(&[row as u64, 0]), None).unwrap();
            w.close().unwrap();
        }
        c.finish().unwrap();
        programs(&store, 0..40);
        let packed = |store: &dyn Store| -> u64 {
            let packs = store.list("log/").unwrap().into_iter();
            packs.filter(|item| keys::parse_log_pack(&item.key).is_some()).map(|item| item.len).sum()
        };
        let before = packed(&*store);
        let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
        let options = GcOptions { keep: Some(1), ..GcOptions::default() };
        let planned = c.gc(&GcOptions { dry_run: true, ..options }, &mut |_, _| true).unwrap();
        let report = c.gc(&options, &mut |_, _| true).unwrap();
        assert_eq!(report.removed.iter().filter(|(key, _)| is_part(key)).count(), 2 * 39, "{durability:?}");
        let parts = |removed: &[(String, u64)]| {
            removed.iter().filter(|(key, _)| is_part(key)).cloned().collect::<Vec<_>>()
        };
        assert_eq!(parts(&planned.removed), parts(&report.removed));
        assert!(packed(&*store) < before / 2, "{} of {before} bytes", packed(&*store));
        let shown = |c: &Container| (read_all(c, "t"), read_all(c, "u"));
        let rows: Vec<u8> = (0..5).flat_map(values).collect();
        assert!(shown(&c) == (values(39), rows.clone()));
        assert!(shown(&Container::open(store.clone(), Mode::Read).unwrap()) == (values(39), rows.clone()));
        assert_eq!(c.gc(&GcOptions::default(), &mut |_, _| true).unwrap().removed, []);
        drop(c);
        programs(&store, 40..60);
        let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
        c.gc(&GcOptions { keep: Some(1), ..GcOptions::default() }, &mut |_, _| true).unwrap();
        assert!(files(&*store).len() <= 16, "{:?}", files(&*store));
        assert!(shown(&c) == (values(59), rows));
        assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
    }
}

#[test]
fn a_packing_that_dies_at_any_change_loses_nothing_and_the_next_completes_it() {
    let stride = if std::env::var("DRYSTONE_LONG").is_ok_and(|long| long == "1") { 1 } else { 2 };
    for (durability, by_gc) in
        [(Durability::Async, true), (Durability::Async, false), (Durability::Durable, false)]
    {
        let start: Arc<dyn Store> = Arc::new(MemoryStore::new());
        new(start.clone(), durability);
        programs(&start, 0..14);
        // The handle that dies packs 5 parts, together with the existing pack.
        assert_eq!(count(&*start, is_part), 8);
        assert_eq!(count(&*start, |key| keys::parse_log_pack(key).is_some()), 1);
        let run = |script: Script| {
            let copy = MemoryStore::new();
            for item in start.list("").unwrap() {
                let bytes = start.read_all(&item.key, u64::MAX).unwrap();
                copy.put(&item.key, &[&bytes], PutMode::Replace, true).unwrap();
            }
            let store = Arc::new(FaultStore::new(copy, script).unwrap());
            let shared: Arc<dyn Store> = store.clone();
            let done = match by_gc {
                true => Container::open(shared, Mode::ReadWrite).and_then(|c| collect(&c)),
                false => program(&shared, 14),
            };
            (store, done)
        };
        let (whole, done) = run(Script::default());
        done.unwrap();
        let kept = whole.survivor();
        assert!(count(&kept, is_part) == 0, "{:?}", files(&kept));
        for at in (0..whole.changes()).step_by(stride) {
            for (fault, power) in
                [(Fault::Crash, false), (Fault::Crash, true), (Fault::LostReply, false), (Fault::Fail, false)]
            {
                let (store, _) = run(Script::seeded(at).at(at, fault));
                if power {
                    store.power_cut(at);
                }
                let what =
                    format!("{fault:?} at change {at} of {durability:?}, gc: {by_gc}, power cut: {power}");
                let survivor = store.survivor();
                for lock in survivor.list("publish/").unwrap() {
                    survivor.delete(&lock.key).unwrap();
                }
                let survivor: Arc<dyn Store> = Arc::new(survivor);
                drop(check_values(&survivor, 14, &what));
                if power && durability == Durability::Async && !by_gc {
                    continue; // what the program put itself was not flushed, and may be damaged
                }
                let c = Container::open(survivor.clone(), Mode::ReadWrite).unwrap();
                if c.lost().unwrap().is_empty() {
                    check(&survivor, 14, &what);
                } else {
                    assert!(power, "{what}");
                    c.recover(&Adopt::All, &[]).unwrap_or_else(|e| panic!("{what}: {e}"));
                }
                c.commit().unwrap();
                collect(&c).unwrap();
                drop(c);
                program(&survivor, 777).unwrap();
                collect(&Container::open(survivor.clone(), Mode::ReadWrite).unwrap()).unwrap();
                assert!(count(&*survivor, is_part) <= 4, "{what}: {:?}", files(&*survivor));
                assert_eq!(count(&*survivor, |key| keys::parse_log_pack(key).is_some()), 1, "{what}");
                check(&survivor, 14, &what);
                let c = Container::open(survivor.clone(), Mode::Read).unwrap();
                assert!(read_all(&c, "t") == values(777), "{what}");
            }
        }
    }
}

/// A power cut destroys the newest snapshots, whose logs were packed before they were flushed.
#[test]
fn parts_of_a_snapshot_that_a_power_cut_took_are_adopted_from_their_pack() {
    let mut fell_back = 0;
    for seed in 0..12 {
        let store = Arc::new(FaultStore::new(MemoryStore::new(), Script::seeded(seed)).unwrap());
        let shared: Arc<dyn Store> = store.clone();
        new(shared.clone(), Durability::Async);
        programs(&shared, 0..5);
        assert_eq!(count(&*shared, is_part), 0);
        store.power_cut(seed);
        let survivor: Arc<dyn Store> = Arc::new(store.survivor());
        let c = Container::open(survivor.clone(), Mode::ReadWrite).unwrap();
        fell_back += usize::from(c.snapshot().version() < 6);
        c.recover(&Adopt::All, &[]).unwrap();
        // Logs that are adopted again in one commit are ordered by their writers' ids.
        assert!((0..5).any(|n| read_all(&c, "t") == values(n)), "seed {seed}");
        assert_eq!(c.snapshot().entry_count(), 5, "seed {seed}: what is packed is on stable storage");
        // A manifest that the power cut tore is also reported.
        let damage = c.verify(&mut |_, _| true).unwrap().damage;
        assert!(damage.iter().all(|d| d.key.starts_with("manifest/")), "seed {seed}: {damage:?}");
    }
    assert!(fell_back > 0);
}

#[test]
fn lost_and_damaged_packs_are_reported_and_a_lost_directory_is_made_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Durable);
    programs(&store, 0..20);
    let damage = |store: &Arc<dyn Store>| {
        let c = Container::open(store.clone(), Mode::Read).unwrap();
        let found = c.verify(&mut |_, _| true).unwrap().damage;
        found.into_iter().map(|d| d.key).collect::<Vec<_>>()
    };
    let directory = store.read_all(keys::LOG_PACKS, 1 << 20).unwrap();
    let pack = files(&*store).into_iter().find(|key| keys::parse_log_pack(key).is_some()).unwrap();
    let packed = store.read_all(&pack, 1 << 30).unwrap();
    store.delete(&pack).unwrap();
    assert!(damage(&store).contains(&pack));
    assert!(damage(&store).iter().any(|key| is_part(key)), "and what it held");
    for at in [40, packed.len() - 8] {
        let mut flipped = packed.clone();
        flipped[at] ^= 1;
        store.put(&pack, &[&flipped], PutMode::Replace, true).unwrap();
        assert_eq!(damage(&store).contains(&pack), at == 40, "{:?}", damage(&store));
    }
    store.put(&pack, &[&packed[..packed.len() / 2]], PutMode::Replace, true).unwrap();
    assert!(damage(&store).contains(&pack));
    // The next packing must not treat an unreadable pack as superfluous.
    programs(&store, 20..30);
    assert!(files(&*store).contains(&pack));
    store.put(&pack, &[&packed], PutMode::Replace, true).unwrap();
    check(&store, 30, "restored");
    let directory_now = store.read_all(keys::LOG_PACKS, 1 << 20).unwrap();
    assert_ne!(directory_now, directory);
    store.put(keys::LOG_PACKS, &[&directory_now[..directory_now.len() - 8]], PutMode::Replace, true).unwrap();
    assert_eq!(damage(&store), [keys::LOG_PACKS], "the packs are found without it");
    store.delete(keys::LOG_PACKS).unwrap();
    assert!(damage(&store).contains(&keys::LOG_PACKS.to_owned()));
    let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
    let report = c.recover(&Adopt::All, &[]).unwrap();
    assert!(report.notes.iter().any(|note| note.contains(keys::LOG_PACKS)), "{:?}", report.notes);
    drop(c);
    assert!(damage(&store).is_empty());
    check_values(&store, 30, "with its directory");
}

/// Packing must not treat packs as leftovers while no directory names them.
#[test]
fn a_packing_without_a_directory_makes_it_again_first() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Memory);
    programs(&store, 0..20);
    store.delete(keys::LOG_PACKS).unwrap();
    let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
    collect(&c).unwrap();
    check(&store, 20, "after a collection");
}

#[test]
fn writers_and_readers_continue_during_packing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    new(store.clone(), Durability::Async);
    programs(&store, 0..1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|_| scope.spawn(|| programs(&store, 0..60))).collect();
        let reader = scope.spawn(|| {
            let c = Container::open(store.clone(), Mode::Read).unwrap();
            while !stop.load(Ordering::Relaxed) {
                c.refresh().unwrap();
                let last = c.snapshot().version();
                assert_eq!(read_all(&c, "t").len(), 16);
                assert_eq!(read_all(&c.at(2 + (last - 2) / 2).unwrap(), "t").len(), 16);
            }
        });
        let packer = scope.spawn(|| {
            let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
            while !stop.load(Ordering::Relaxed) {
                match collect(&c) {
                    Err(e) if e.kind() != ErrorKind::Conflict => panic!("{e}"),
                    _ => {}
                }
            }
        });
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        packer.join().unwrap();
    });
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    // A commit may take what another writer has closed, so snapshots are fewer than writers.
    let found = c.describe().unwrap();
    assert_eq!((found.entries, found.writers.len()), (181, 181), "a commit was lost");
    assert!(found.pending.is_empty(), "{:?}", found.pending);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

/// Symptom: closing handles packed no manifests once the container had 64 MiB. Cause: all its bytes counted as
/// unsynced, since a handle that was just opened has synced none itself.
#[test]
fn programs_that_put_many_bytes_leave_few_manifests() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[1 << 19], |_| {})]).unwrap();
    c.finish().unwrap();
    let cells = vec![0; 2 << 20];
    for _ in 0..60 {
        let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        w.put("t", &f4(), &dense(&cells, &[1 << 19], 4), None, None).unwrap();
        w.close().unwrap();
        c.finish().unwrap();
    }
    assert!(count(&*store, |key| keys::parse_manifest(key).is_some()) <= 16, "{:?}", files(&*store));
}
