//! Do many small commits leave few files, whenever a process that packs them dies? Does every snapshot stay
//! unchanged?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, GcOptions, Mode, WriterOptions};
use drystone_format::keys;
use drystone_plan::selection::Selection;
use drystone_store::{Fault, FaultStore, MemoryStore, NoAppendStore, PutMode, Script, Store, StoreExt};

use crate::common::{create, dense, f4, ramp_f32, read, read_all};

const ALL: [Durability; 3] = [Durability::Async, Durability::Durable, Durability::Memory];

fn container(store: Arc<dyn Store>, durability: Durability) -> Container {
    let c = Container::create(store, CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    c.apply(vec![create("t", f4(), &[4], |_| {})]).unwrap();
    c
}

/// The values of assignment number `n`.
fn values(n: usize) -> Vec<u8> {
    ramp_f32(4 + n).split_off(4 * n)
}

/// Assigns by one writer, so that each assignment is a commit.
fn assign(c: &Container, numbers: std::ops::Range<usize>) {
    let mut w = c.writer(WriterOptions::default()).unwrap();
    for n in numbers {
        w.put("t", &f4(), &dense(&values(n), &[4], 4), None, None).unwrap();
        // On a store without append, a writer commits when it closes.
        if !w.commit().unwrap() {
            w.close().unwrap();
            w = c.writer(WriterOptions::default()).unwrap();
        }
    }
    w.close().unwrap();
}

fn files(store: &dyn Store) -> Vec<String> {
    store.list("").unwrap().into_iter().map(|item| item.key).collect()
}

/// Checks that each of the first assignments has its snapshot, after the one that made the variable. A collection may
/// have added others.
fn check_values(store: &Arc<dyn Store>, assignments: usize, what: &str) -> Container {
    let c = Container::open(store.clone(), Mode::Read).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(c.snapshots().unwrap().len() > assignments, "{what}: {:?}", c.snapshots());
    for n in 0..assignments {
        assert!(read_all(&c.at(n as u64 + 2).unwrap(), "t") == values(n), "{what}: assignment {n}");
    }
    c
}

/// As `check_values`; also checks that everything is undamaged.
fn check(store: &Arc<dyn Store>, assignments: usize, what: &str) {
    let c = check_values(store, assignments, what);
    let verified = c.verify(&mut |_, _| true).unwrap();
    assert!(verified.damage.is_empty(), "{what}: {:?}", verified.damage);
}

#[test]
fn a_thousand_assignments_leave_few_files_and_every_snapshot() {
    for durability in ALL {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let c = container(store.clone(), durability);
        assign(&c, 0..1000);
        c.finish().unwrap();
        let left = files(&*store);
        assert!(left.len() <= 32, "{durability:?}: {} files: {left:?}", left.len());
        check(&store, 1000, durability.name());
    }
}

/// Counts the manifests that are synced individually.
#[derive(Debug)]
struct Syncs {
    inner: MemoryStore,
    manifests: AtomicU64,
}

impl Store for Syncs {
    drystone_store::forward!(inner => features, describe, device, local, watch, unchanged, len, read, read_whole, append);
    drystone_store::forward!(inner => write_at, put, upload, list, delete, sweep, exec, submit);

    fn sync(&self, keys: &[&str]) -> drystone_store::Result<()> {
        let manifests = keys.iter().filter(|key| keys::parse_manifest(key).is_some()).count();
        self.manifests.fetch_add(manifests as u64, Ordering::Relaxed);
        self.inner.sync(keys)
    }
}

/// Syncing many manifests individually would take most of the time of a flush.
#[test]
fn a_flush_takes_many_manifests_to_stable_storage_in_packs() {
    for (flushes, most) in [(1, 8), (4, 24)] {
        let syncs = Arc::new(Syncs { inner: MemoryStore::new(), manifests: AtomicU64::new(0) });
        let store: Arc<dyn Store> = syncs.clone();
        let c = container(store.clone(), Durability::Async);
        for n in 0..flushes {
            assign(&c, 200 * n / flushes..200 * (n + 1) / flushes);
            c.flush().unwrap();
        }
        c.finish().unwrap();
        let synced = syncs.manifests.load(Ordering::Relaxed);
        assert!(synced <= most, "{flushes} flushes: {synced} manifests were synced by themselves");
        check(&store, 200, "packed by a flush");
    }
}

#[test]
fn a_store_that_cannot_append_keeps_one_object_per_commit() {
    let inner = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = Arc::new(NoAppendStore::new(inner.clone()));
    let c = container(store.clone(), Durability::Durable);
    assign(&c, 0..100);
    c.finish().unwrap();
    assert!(files(&*inner).iter().all(|key| key != keys::FLOOR && keys::parse_pack(key).is_none()));
    assert_eq!(files(&*inner).iter().filter(|key| keys::parse_manifest(key).is_some()).count(), 101);
}

#[test]
fn handles_that_saw_an_older_state_find_the_newest_and_commit_on_it() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let c = container(store.clone(), Durability::Durable);
    assign(&c, 0..2);
    let [reader, writer] =
        [Mode::Read, Mode::ReadWrite].map(|mode| Container::open(store.clone(), mode).unwrap());
    let ready = writer.writer(WriterOptions::default()).unwrap();
    let old = reader.snapshot().version();
    assign(&c, 2..300);
    assert!(!files(&*store).contains(&keys::manifest(old + 1)), "it is packed");
    // A commit without looking, on a base that was packed long ago: the number above it is free as a file.
    ready.put("t", &f4(), &dense(&values(777), &[4], 4), None, None).unwrap();
    ready.commit().unwrap();
    assert_eq!(writer.snapshot().version(), 302);
    assert!(!files(&*store).contains(&keys::manifest(old + 1)), "the lost commit's manifest is removed");
    assert!(read_all(&reader, "t") == values(1), "it stays what it was");
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.snapshot().version(), 302);
    assert!(read_all(&reader, "t") == values(777));
    for n in 0..300 {
        assert!(read_all(&reader.at(n as u64 + 2).unwrap(), "t") == values(n), "assignment {n}");
    }
}

#[test]
fn a_manifest_below_the_floor_of_a_killed_loser_is_not_a_snapshot() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let c = container(store.clone(), Durability::Durable);
    assign(&c, 0..10);
    let reader = Container::open(store.clone(), Mode::Read).unwrap();
    let bogus = store.read_all(&keys::manifest(11), 1 << 20).unwrap();
    assign(&c, 10..200);
    // The process was killed between the put and the look at the floor.
    store.put(&keys::manifest(12), &[&bogus], PutMode::IfAbsent, true).unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.snapshot().version(), 201);
    check(&store, 200, "beside it");
    c.gc(&GcOptions::default(), &mut |_, _| true).unwrap();
    assert!(!files(&*store).contains(&keys::manifest(12)));
    check(&store, 200, "after a collection");
}

#[test]
fn a_collection_leaves_few_files_and_expired_snapshots_are_reported() {
    for durability in ALL {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let c = container(store.clone(), durability);
        assign(&c, 0..300);
        let keep = |keep| GcOptions { keep: Some(keep), ..GcOptions::default() };
        let report = c.gc(&keep(100), &mut |_, _| true).unwrap();
        assert_eq!(report.kept.len(), 100);
        assert_eq!(report.expired.len(), 202);
        assert!(files(&*store).len() < 24, "{:?}", files(&*store));
        assert!(c.at(100).err().unwrap().to_string().contains("expired"));
        for n in 202..300 {
            assert!(read_all(&c.at(n as u64 + 2).unwrap(), "t") == values(n), "{n}");
        }
        c.gc(&keep(1), &mut |_, _| true).unwrap();
        assert!(files(&*store).len() < 16, "{:?}", files(&*store));
        assert!(read_all(&c, "t") == values(299));
        assert_eq!(c.gc(&GcOptions::default(), &mut |_, _| true).unwrap().removed, []);
        let fresh = Container::open(store.clone(), Mode::ReadWrite).unwrap();
        assert!(fresh.take_warnings().is_empty());
        assert_eq!(fresh.snapshots().unwrap().len(), 1);
        assign(&fresh, 300..301);
        assert!(read_all(&fresh, "t") == values(300));
    }
}

#[test]
fn a_packing_that_dies_at_any_change_loses_nothing_and_the_next_completes_it() {
    let stride = if std::env::var("DRYSTONE_LONG").is_ok_and(|long| long == "1") { 1 } else { 3 };
    for durability in [Durability::Async, Durability::Durable] {
        let start = Arc::new(MemoryStore::new());
        let c = container(start.clone(), durability);
        assign(&c, 0..90);
        c.flush().unwrap();
        assign(&c, 90..100);
        c.flush().unwrap();
        drop(c);
        let run = |script: Script| {
            let copy = MemoryStore::new();
            for item in start.list("").unwrap() {
                let bytes = start.read_all(&item.key, u64::MAX).unwrap();
                copy.put(&item.key, &[&bytes], PutMode::Replace, true).unwrap();
            }
            let store = Arc::new(FaultStore::new(copy, script).unwrap());
            let done = Container::open(store.clone(), Mode::ReadWrite)
                .and_then(|c| c.gc(&GcOptions::default(), &mut |_, _| true));
            (store, done)
        };
        let (whole, done) = run(Script::default());
        done.unwrap();
        assert!(whole.changes() > 20, "{}", whole.changes());
        for at in (0..whole.changes()).step_by(stride).chain([1, 2, 4, 5]) {
            for (fault, power) in
                [(Fault::Crash, false), (Fault::Crash, true), (Fault::LostReply, false), (Fault::Fail, false)]
            {
                let (store, _) = run(Script::seeded(at).at(at, fault));
                if power {
                    store.power_cut(at);
                }
                let what = format!("{fault:?} at change {at} of {durability:?}, power cut: {power}");
                let survivor = store.survivor();
                for lock in survivor.list("publish/").unwrap() {
                    survivor.delete(&lock.key).unwrap();
                }
                let survivor: Arc<dyn Store> = Arc::new(survivor);
                drop(check_values(&survivor, 100, &what));
                let c = Container::open(survivor.clone(), Mode::ReadWrite).unwrap();
                if c.lost().unwrap().is_empty() {
                    check(&survivor, 100, &what);
                } else {
                    // A power cut took the collection's own commit. Nothing is committed before that is settled.
                    let refused = c.gc(&GcOptions::default(), &mut |_, _| true).unwrap_err();
                    assert!(power && refused.to_string().contains("recover()"), "{what}: {refused}");
                    c.recover(&Adopt::All, &[]).unwrap_or_else(|e| panic!("{what}: {e}"));
                }
                assign(&c, 100..101);
                c.gc(&GcOptions::default(), &mut |_, _| true).unwrap();
                assert!(files(&*survivor).len() < 16, "{what}: {:?}", files(&*survivor));
                drop(c);
                check(&survivor, 100, &what);
                let c = Container::open(survivor.clone(), Mode::Read).unwrap();
                assert!(read_all(&c, "t") == values(100), "{what}");
            }
        }
    }
}

/// Under `async`, a closing handle syncs everything that its manifests need, and then packs the manifests, which are
/// not synced yet.
#[test]
fn a_power_cut_while_unflushed_commits_are_packed_leaves_what_was_flushed_and_nothing_half() {
    const FLUSHED: usize = 20;
    let stride = if std::env::var("DRYSTONE_LONG").is_ok_and(|long| long == "1") { 1 } else { 9 };
    let run = |script: Script| {
        let store = Arc::new(FaultStore::new(MemoryStore::new(), script).unwrap());
        let mut flushed = false;
        let mut act = || -> drystone::Result<()> {
            let options = CreateOptions { durability: Durability::Async, ..CreateOptions::default() };
            let c = Container::create(store.clone(), options)?;
            c.apply(vec![create("t", f4(), &[4], |_| {})])?;
            let w = c.writer(WriterOptions::default())?;
            for n in 0..60 {
                w.put("t", &f4(), &dense(&values(n), &[4], 4), None, None)?;
                w.commit()?;
                if n + 1 == FLUSHED {
                    c.flush()?;
                    flushed = true;
                }
            }
            w.close()?;
            c.finish()
        };
        let _ = act();
        (store, flushed)
    };
    let (whole, flushed) = run(Script::default());
    assert!(flushed);
    assert!(files(&whole.survivor()).iter().any(|key| keys::parse_pack(key).is_some()), "it packs");
    whole.power_cut(1);
    let kept: Arc<dyn Store> = Arc::new(whole.survivor());
    assert!(Container::open(kept, Mode::Read).unwrap().snapshot().version() > 50, "what is packed is safe");
    let mut packing = 0;
    for at in (0..whole.changes()).step_by(stride) {
        let (store, flushed) = run(Script::seeded(at).at(at, Fault::Crash));
        packing += u64::from(files(&store.survivor()).iter().any(|key| keys::parse_pack(key).is_some()));
        for seed in 0..3 {
            store.power_cut(seed);
            let what = format!("power cut {seed} at change {at}");
            let survivor: Arc<dyn Store> = Arc::new(store.survivor());
            let c = match Container::open(survivor.clone(), Mode::ReadWrite) {
                Ok(c) => c,
                Err(e) if !flushed && matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {
                    continue;
                }
                Err(e) => panic!("{what}: {e}"),
            };
            let newest = c.snapshot().version() as usize;
            assert!(!flushed || newest > FLUSHED, "{what}: fell back to {newest}");
            for version in 2..=newest {
                let shown = c.at(version as u64).and_then(|then| read(&then, "t", &Selection::all(&[4])));
                match shown {
                    Ok(shown) => assert!(shown == values(version - 2), "{what}: snapshot {version}"),
                    Err(e) => assert!(!flushed || version > FLUSHED + 1, "{what}: snapshot {version}: {e}"),
                }
            }
            c.recover(&Adopt::All, &[]).unwrap_or_else(|e| panic!("{what}: {e}"));
            let number = if newest >= 2 { 0..1 } else { 0..0 };
            assign(&c, number.clone());
            c.finish().unwrap();
            drop(c);
            let again = Container::open(survivor, Mode::Read).unwrap();
            assert!(number.is_empty() || read_all(&again, "t") == values(0), "{what}");
        }
    }
    assert!(packing > 2, "some cuts fell into the packing");
}

#[test]
fn lost_and_damaged_packs_are_reported_and_a_lost_floor_is_made_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let c = container(store.clone(), Durability::Durable);
    assign(&c, 0..200);
    drop(c);
    let damage = |store: &Arc<dyn Store>| {
        let c = Container::open(store.clone(), Mode::Read).unwrap();
        let found = c.verify(&mut |_, _| true).unwrap().damage;
        found.into_iter().map(|d| d.key).collect::<Vec<_>>()
    };
    let floor = store.read_all(keys::FLOOR, 1 << 20).unwrap();
    let pack = files(&*store).into_iter().find(|key| keys::parse_pack(key).is_some()).unwrap();
    let packed = store.read_all(&pack, 1 << 30).unwrap();
    store.delete(&pack).unwrap();
    assert!(damage(&store).contains(&pack));
    let mut flipped = packed.clone();
    flipped[40] ^= 1;
    store.put(&pack, &[&flipped], PutMode::Replace, true).unwrap();
    assert!(damage(&store).contains(&pack));
    store.put(&pack, &[&packed], PutMode::Replace, true).unwrap();
    check(&store, 200, "restored");
    store.put(keys::FLOOR, &[&floor[..floor.len() - 8]], PutMode::Replace, true).unwrap();
    assert_eq!(damage(&store), [keys::FLOOR], "the packs are found without it");
    store.delete(keys::FLOOR).unwrap();
    assert!(damage(&store).contains(&keys::FLOOR.to_owned()));
    // Neither a handle that opens the remains nor one that collects treats a pack as a leftover.
    let packs = |store: &Arc<dyn Store>| -> Vec<String> {
        files(&**store).into_iter().filter(|key| keys::parse_pack(key).is_some()).collect()
    };
    let before = packs(&store);
    if let Ok(c) = Container::open(store.clone(), Mode::ReadWrite) {
        drop(c.gc(&GcOptions::default(), &mut |_, _| true));
        drop(c.commit());
    }
    assert_eq!(packs(&store), before);
    let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
    let report = c.recover(&Adopt::All, &[]).unwrap();
    assert!(report.notes.iter().any(|note| note.contains(keys::FLOOR)), "{:?}", report.notes);
    assert!(damage(&store).is_empty());
    assert!(read_all(&c.at(5).unwrap(), "t") == values(3));
}

#[test]
fn writers_and_readers_continue_during_packing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let c = container(store.clone(), Durability::Durable);
    assign(&c, 0..1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let store = store.clone();
                scope.spawn(move || {
                    let c = Container::open(store, Mode::ReadWrite).unwrap();
                    assign(&c, 0..150);
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let c = Container::open(store.clone(), Mode::Read).unwrap();
            let mut last = 0;
            while !stop.load(Ordering::Relaxed) {
                c.refresh().unwrap();
                let version = c.snapshot().version();
                assert!(version >= last, "{version} after {last}");
                last = version;
                assert_eq!(read_all(&c, "t").len(), 16);
                assert_eq!(read_all(&c.at(1 + last / 2).unwrap(), "t").len(), 16);
            }
        });
        let packer = scope.spawn(|| {
            let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
            while !stop.load(Ordering::Relaxed) {
                match c.gc(&GcOptions::default(), &mut |_, _| true) {
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
    // A commit may take what another writer has closed, so snapshots are fewer than assignments.
    let found = c.describe().unwrap();
    assert_eq!(found.entries, 451, "a commit was lost");
    assert!(found.pending.is_empty(), "{:?}", found.pending);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}
