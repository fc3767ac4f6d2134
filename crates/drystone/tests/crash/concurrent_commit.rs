//! Do all commits land, and stay, if many threads commit, write, read and recover at once?
//!
//! First with threads as the system schedules them. Then with a scheduler (shuttle) that explores interleavings of
//! store requests: every thread has its own handle, like a process, and may be interrupted before each request.
//! Replies also get lost. `DRYSTONE_LONG=1` explores twenty times as many schedules.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use drystone::{
    Adopt, Container, CreateOptions, Durability, ErrorKind, Mode, SchemaOp, Writer, WriterOptions,
};
use drystone_format::value::Value;
use drystone_store::{
    ListEntry, LocalFiles, MemoryStore, Pending, PutMode, Request, Result as StoreResult, Store, StoreError,
    StoreExt,
};
use shuttle::rand::Rng;
use shuttle::scheduler::RandomScheduler;

use crate::common::*;

fn new_container(durability: Durability) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let c =
        Container::create(store.clone(), CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    c.apply(vec![create("t", f4(), &[8, 16], |v| {
        v.steps = true;
        v.fill = Some(bytes(&[-1.0]));
    })])
    .unwrap();
    store
}

fn open(store: &(impl Store + Clone + 'static)) -> Container {
    Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap()
}

fn versions_are_dense(c: &Container) {
    let top = c.snapshot().version();
    assert_eq!(c.snapshots().unwrap(), (1..=top).collect::<Vec<_>>());
}

fn put(w: &Writer, row: u64, rows: u64, value: f32) {
    let data = bytes(&vec![value; rows as usize * 16]);
    w.put("t", &f4(), &dense(&data, &[rows, 16], 4), Some(&[row, 0]), None).unwrap();
}

#[test]
fn a_handle_that_saw_a_newer_snapshot_in_passing_commits_on_top_of_it() {
    // Opening a writer, beginning a step, a flush and a collection look for the newest snapshot without making it the
    // handle's.
    let looks: [fn(&Container); 4] = [
        |c| drop(c.writer(WriterOptions::default()).unwrap()),
        |c| assert!(c.flush().unwrap() > 0),
        |c| drop(c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap()),
        |c| drop(c.gc(&drystone::GcOptions::default(), &mut |_, _| true).unwrap()),
    ];
    for look in looks {
        let store = new_container(Durability::Async);
        let (other, c) = (open(&store), open(&store));
        let lay = |c: &Container, step: u64| {
            let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
            w.begin_step(Some(step), false).unwrap();
            put(&w, 0, 8, step as f32);
            w.end_step().unwrap();
            w.close().unwrap();
        };
        lay(&other, 0);
        look(&c);
        lay(&c, 1);
        lay(&other, 2);
        let values = floats(&read_all(&open(&store), "t"));
        let first: Vec<f32> = values.chunks(8 * 16).map(|step| step[0]).collect();
        assert_eq!(first, [0.0, 1.0, 2.0]);
    }
}

#[test]
fn eight_writers_and_two_committers_lose_nothing_while_readers_see_stable_snapshots() {
    const STEPS: u64 = 12;
    let store = new_container(Durability::Async);
    let writing = AtomicU64::new(8);
    // The content that one reader saw in a version is what all readers must see, for ever.
    let seen: Mutex<BTreeMap<u64, Vec<u8>>> = Mutex::default();
    let stable = |c: &Container| {
        let all = read_all(c, "t");
        let version = c.snapshot().version();
        let first = seen.lock().unwrap().entry(version).or_insert_with(|| all.clone()).clone();
        assert!(all == first, "snapshot {version} changed");
        for (cell, value) in floats(&all).into_iter().enumerate() {
            let (step, row) = (cell / 128, cell / 16 % 8);
            if value >= 0.0 {
                // Writer w puts rows w/2 .. w/2 + 4 with the value 100 step + w.
                let writer = value as usize % 100;
                assert_eq!(value as usize / 100, step, "a value of another step");
                assert!((writer / 2..writer / 2 + 4).contains(&row), "row {row} of writer {writer}");
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..8u64 {
            let (store, writing) = (&store, &writing);
            scope.spawn(move || {
                let w = open(store).writer(WriterOptions::default()).unwrap();
                for step in 0..STEPS {
                    w.begin_step(Some(step), false).unwrap();
                    put(&w, number / 2, 4, (100 * step + number) as f32);
                    w.end_step().unwrap();
                }
                w.close().unwrap();
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let c = open(&store);
                while writing.load(Ordering::SeqCst) > 0 {
                    c.commit().unwrap();
                }
                c.commit().unwrap();
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                let c = Container::open(store.clone(), Mode::Read).unwrap();
                let mut last = 0;
                while writing.load(Ordering::SeqCst) > 0 {
                    let old = c.at(c.snapshot().version()).unwrap();
                    c.refresh().unwrap();
                    assert!(c.snapshot().version() >= last, "a reader went back");
                    last = c.snapshot().version();
                    stable(&c);
                    stable(&old);
                }
            });
        }
    });
    let c = open(&store);
    stable(&c);
    versions_are_dense(&c);
    assert!(!c.commit().unwrap().changed);
    for step in 0..STEPS {
        let blocks = c.reading("t", None).unwrap().blocks(Some(step)).unwrap();
        let mut writers: Vec<u64> = blocks.iter().map(|b| b.writer).collect();
        writers.sort_unstable();
        writers.dedup();
        assert_eq!((blocks.len(), writers.len()), (8, 8), "each block once at step {step}");
    }
    assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
}

#[test]
fn all_commits_of_many_committers_land_in_dense_versions() {
    let store = new_container(Durability::Durable);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let c = open(store);
                for i in 0..25 {
                    let attr = [(format!("{number}-{i}"), Some(Value::Int(i)))].into();
                    assert!(c.apply(vec![SchemaOp::SetAttrs("t".into(), attr)]).unwrap());
                }
            });
        }
    });
    let c = open(&store);
    assert_eq!(c.snapshot().version(), 1 + 100);
    assert_eq!(c.variable("t").unwrap().attrs.len(), 100);
    versions_are_dense(&c);
}

fn solo(c: &Container) -> Writer {
    c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap()
}

#[test]
fn a_step_that_was_committed_stays_through_recoveries_at_the_same_time() {
    let store = new_container(Durability::Async);
    let done = AtomicBool::new(false);
    let promised: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        let (store, done, promised) = (&store, &done, &promised);
        scope.spawn(move || {
            let c = open(store);
            while !done.load(Ordering::SeqCst) {
                c.recover(&Adopt::None, &[]).unwrap();
                c.commit().unwrap();
            }
        });
        scope.spawn(move || {
            let c = open(store);
            let mut refused = 0;
            for step in 0..60 {
                c.refresh().unwrap();
                let Ok(w) = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }) else {
                    continue;
                };
                w.begin_step(Some(step), false).unwrap();
                put(&w, 0, 8, step as f32);
                match w.end_step() {
                    Ok(_) => promised.lock().unwrap().push(step),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                        refused += 1;
                    }
                }
                w.close().unwrap();
            }
            println!("{refused} steps were refused");
            done.store(true, Ordering::SeqCst);
        });
    });
    let c = open(&store);
    for step in promised.into_inner().unwrap() {
        assert!(c.snapshot().steps.contains(step), "step {step} was promised");
        assert_eq!(read_box(&c, "t", &[step, 0, 0], &[1, 8, 16]), bytes(&[step as f32; 128]));
    }
}

/// Memory in which any other thread may run before each request, and in which one of `lossy` replies to puts is lost.
#[derive(Clone, Debug)]
struct Yielding {
    inner: MemoryStore,
    lossy: Option<u32>,
    stale: bool,
}

impl Yielding {
    /// A list that was made while a writer appended data and step record: it shows the new length of one and the old
    /// length of the other.
    fn between(&self, mut list: Vec<ListEntry>) -> Vec<ListEntry> {
        list.iter_mut().filter(|i| self.stale && i.key.ends_with(".seg")).for_each(|i| i.len = 0);
        list
    }

    fn turn(&self) {
        shuttle::thread::yield_now();
    }
}

impl Store for Yielding {
    drystone_store::forward!(inner => features, describe, device, watch, unchanged, upload, exec);

    fn len(&self, key: &str) -> StoreResult<u64> {
        self.turn();
        self.inner.len(key)
    }
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
    fn read_whole(&self, key: &str, limit: u64) -> StoreResult<Result<Vec<u8>, u64>> {
        self.read_whole_by_length(key, limit)
    }
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> StoreResult<()> {
        self.turn();
        self.inner.read(key, offset, out)
    }
    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> StoreResult<()> {
        self.turn();
        self.inner.append(key, at, parts)
    }
    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> StoreResult<()> {
        self.turn();
        self.inner.write_at(key, parts, len)
    }
    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> StoreResult<()> {
        self.turn();
        self.inner.put(key, parts, mode, sync)?;
        match self.lossy {
            Some(n) if shuttle::rand::thread_rng().gen_range(0..n) == 0 => Err(StoreError::Io {
                key: key.to_owned(),
                store: self.describe(),
                operation: "put",
                source: std::io::Error::other("the reply was lost"),
            }),
            _ => Ok(()),
        }
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<ListEntry>> {
        self.turn();
        Ok(self.between(self.inner.list(prefix)?))
    }
    fn delete(&self, key: &str) -> StoreResult<()> {
        self.turn();
        self.inner.delete(key)
    }
    fn sweep(&self, prefix: &str, older: std::time::Duration) -> StoreResult<u64> {
        self.turn();
        self.inner.sweep(prefix, older)
    }
    fn sync(&self, keys: &[&str]) -> StoreResult<()> {
        self.turn();
        self.inner.sync(keys)
    }
    fn submit(&self, request: Request) -> Pending {
        self.turn();
        self.inner.submit(request)
    }
}

fn explore(schedules: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = if std::env::var_os("DRYSTONE_LONG").is_some() { schedules * 20 } else { schedules };
    let mut config = shuttle::Config::new();
    config.stack_size = 4 << 20;
    shuttle::Runner::new(RandomScheduler::new(schedules), config).run(scenario);
}

fn yielding(lossy: Option<u32>) -> Yielding {
    let store = new_container(Durability::Async);
    Yielding { inner: (*store).clone(), lossy, stale: false }
}

/// Symptom: a commit beside a live writer rarely failed with damage: the segment ends before the byte that a step
/// record promised. Cause: files are listed one after the other. The segment was listed before the writer appended to
/// both, and the step record afterwards.
#[test]
fn a_list_that_is_older_than_a_step_record_is_not_damage() {
    explore(1, || {
        let store = new_container(Durability::Durable);
        let store = Yielding { inner: (*store).clone(), lossy: None, stale: true };
        let c = open(&store);
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(Some(0), false).unwrap();
        put(&w, 0, 8, 0.0);
        w.end_step().unwrap();
        assert!(c.commit().unwrap().changed);
    });
}

#[test]
fn schedules_of_two_committers_a_writer_and_a_reader() {
    explore(3000, || {
        let store = yielding(Some(4));
        let spawn = |act: fn(&Container)| {
            let store = store.clone();
            shuttle::thread::spawn(move || act(&open(&store)))
        };
        let writer = spawn(|c| {
            let w = c.writer(WriterOptions::default()).unwrap();
            for step in 0..2 {
                w.begin_step(Some(step), false).unwrap();
                put(&w, 0, 8, step as f32);
                w.end_step().unwrap();
            }
            w.close().unwrap();
        });
        let committers = [0, 1].map(|_| {
            spawn(|c| {
                for _ in 0..2 {
                    c.commit().unwrap();
                }
            })
        });
        let reader = spawn(|c| {
            let mut last = (0, Vec::new());
            for _ in 0..3 {
                c.refresh().unwrap();
                let now = (c.snapshot().version(), read_all(c, "t"));
                assert!(now.0 > last.0 || now == last, "a snapshot changed, or a reader went back");
                let rows = floats(&now.1);
                assert!(
                    rows.chunks(128).enumerate().all(|(step, cells)| cells.iter().all(|v| *v == step as f32))
                );
                last = now;
            }
        });
        writer.join().unwrap();
        reader.join().unwrap();
        committers.into_iter().for_each(|c| c.join().unwrap());
        let c = open(&Yielding { lossy: None, ..store });
        c.commit().unwrap();
        let expected: Vec<f32> = (0..256).map(|i| (i / 128) as f32).collect();
        assert_eq!(floats(&read_all(&c, "t")), expected);
        for step in 0..2 {
            assert_eq!(c.reading("t", None).unwrap().blocks(Some(step)).unwrap().len(), 1, "a block twice");
        }
        versions_are_dense(&c);
    });
}

#[test]
fn schedules_of_single_ranks_that_commit_by_themselves() {
    explore(2500, || {
        let store = yielding(Some(5));
        let threads = [0u64, 1].map(|number| {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                // Two independent programs. Neither leaves anything uncommitted, so neither disturbs the other.
                let c = open(&store);
                let w = c.writer(WriterOptions::default()).unwrap();
                let data = bytes(&[number as f32; 16]);
                w.begin_step(Some(number), false).unwrap();
                w.put("t", &f4(), &dense(&data, &[1, 16], 4), Some(&[number, 0]), None).unwrap();
                w.end_step().unwrap();
                assert!(
                    c.commit().unwrap().snapshot.steps.contains(number),
                    "what was closed before is committed"
                );
                w.close().unwrap();
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        let c = open(&Yielding { lossy: None, ..store });
        assert!(!c.commit().unwrap().changed);
        assert_eq!(c.snapshot().steps.len(), 2);
        versions_are_dense(&c);
    });
}

/// Symptom, seen once: a step was gone although its writer had been told that it was committed. Cause: the handle was
/// opened before others committed, had seen the newest snapshot in passing, and wrote a step that it named itself on
/// top of the snapshot that it had opened. So handles are old here, some look for the newest snapshot and some do
/// not, and steps are named.
#[test]
fn schedules_of_stale_handles_that_write_steps_they_name() {
    explore(2500, || {
        let store = yielding(Some(6));
        let threads = [0u64, 1].map(|number| {
            let c = open(&store);
            shuttle::thread::spawn(move || {
                let alone = WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() };
                for step in [number, number + 2] {
                    match shuttle::rand::thread_rng().gen_range(0..4) {
                        0 => drop(c.flush()), // its reply may be lost
                        1 => drop(c.writer(WriterOptions::default()).unwrap()),
                        2 => drop(c.refresh()),
                        _ => {}
                    }
                    // One thread commits only its own log; the other commits whatever is there.
                    let options = if number == 0 { alone.clone() } else { WriterOptions::default() };
                    let w = c.writer(options).unwrap();
                    w.begin_step(Some(step), false).unwrap();
                    put(&w, 0, 8, step as f32);
                    let done = w.end_step().unwrap();
                    let done = done.unwrap_or_else(|| c.commit().unwrap());
                    assert!(done.snapshot.steps.contains(step), "what was closed is committed");
                    w.close().unwrap();
                }
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        let c = open(&Yielding { lossy: None, ..store });
        assert!(!c.commit().unwrap().changed);
        let values = floats(&read_all(&c, "t"));
        let expected: Vec<f32> = (0..4 * 128).map(|i| (i / 128) as f32).collect();
        assert_eq!(values, expected);
        versions_are_dense(&c);
    });
}

#[test]
fn schedules_of_a_commit_during_a_recovery() {
    explore(3000, || {
        let store = yielding(None);
        // Two ranks have closed step 0. Then one thread recovers, one commits, and a zombie continues to write.
        let c = open(&store);
        let ranks: Vec<Writer> = (0..2)
            .map(|r| c.writer(WriterOptions { rank: Some((r, 2)), ..WriterOptions::default() }).unwrap())
            .collect();
        for (rank, w) in ranks.iter().enumerate() {
            w.begin_step(Some(0), false).unwrap();
            put(w, 4 * rank as u64, 4, 0.0);
            w.end_step().unwrap();
        }
        let recovering = {
            let store = store.clone();
            shuttle::thread::spawn(move || open(&store).recover(&Adopt::None, &[]).unwrap())
        };
        let committing = {
            let store = store.clone();
            shuttle::thread::spawn(move || open(&store).commit().unwrap().snapshot.steps.contains(0))
        };
        let zombie = shuttle::thread::spawn(move || {
            for (rank, w) in ranks.iter().enumerate() {
                w.begin_step(Some(1), false).unwrap();
                put(w, 4 * rank as u64, 4, 1.0);
                w.end_step().unwrap();
            }
        });
        let report = recovering.join().unwrap();
        let committed = committing.join().unwrap();
        zombie.join().unwrap();
        let c = open(&store);
        let fence = c.snapshot().version();
        c.commit().unwrap();
        assert_eq!(c.snapshot().version(), fence, "nothing of a fenced run is taken any more");
        let there = c.snapshot().steps.contains(0);
        assert!(there || !committed, "the step was seen and is gone");
        assert_eq!(!there, report.discarded.contains(&0), "{report:?}");
        let all = read_all(&c, "t");
        for (step, cells) in floats(&all).chunks(128).enumerate() {
            assert!(cells.iter().all(|v| *v == step as f32), "a step is half there");
        }
        versions_are_dense(&c);
    });
}

#[test]
fn schedules_of_a_single_rank_and_a_recovery() {
    explore(2500, || {
        let store = yielding(Some(6));
        let writing = {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                let w = solo(&open(&store));
                w.begin_step(Some(0), false).unwrap();
                put(&w, 0, 8, 0.0);
                match w.end_step() {
                    Ok(done) => Some(done.is_some_and(|d| d.snapshot.steps.contains(0))),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                        None
                    }
                }
            })
        };
        let recovering = {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                open(&Yielding { lossy: None, ..store }).recover(&Adopt::All, &[]).unwrap()
            })
        };
        let written = writing.join().unwrap();
        let report = recovering.join().unwrap();
        let c = open(&Yielding { lossy: None, ..store });
        let there = c.snapshot().steps.contains(0);
        assert_eq!(written.unwrap_or(there), there, "a promise was broken: {report:?}");
        assert!(!c.commit().unwrap().changed);
        versions_are_dense(&c);
    });
}

#[test]
fn schedules_of_creating_the_same_and_another_variable() {
    explore(3000, || {
        let store = yielding(Some(5));
        let threads = [4, 4, 5].map(|n| {
            let store = store.clone();
            shuttle::thread::spawn(move || {
                let made = open(&store).apply(vec![create("new", f4(), &[n], |_| {})]);
                match made {
                    Ok(_) => Some(n),
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
                        None
                    }
                }
            })
        });
        let made: Vec<u64> = threads.into_iter().filter_map(|t| t.join().unwrap()).collect();
        let c = open(&Yielding { lossy: None, ..store });
        let shape = c.variable("new").unwrap().shape[0];
        assert_eq!(made, if shape == 4 { vec![4, 4] } else { vec![5] });
        assert_eq!(c.snapshot().version(), 2, "it was created once");
    });
}
