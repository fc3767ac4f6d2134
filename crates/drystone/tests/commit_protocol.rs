//! Can any interleaving of committers, a writer and a reader lose a step, show half of one, or change a snapshot?
//!
//! A scheduler (shuttle) chooses the order of all store operations, thousands of times. Every thread has its own handle, so that
//! they share nothing but the store; one schedule in three loses replies of manifest puts on the way.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use common::{bytes, create, dense, f4, floats, read_all};
use drystone::store::{
    Features, ListEntry, MemoryStore, Pending, PutMode, Request, Result as StoreResult, Store, StoreError,
};
use drystone::{Container, CreateOptions, Mode, WriterOptions};
use shuttle::rand::Rng;
use shuttle::thread;

/// Lets the scheduler choose before every operation; may lose the reply to a put that was done.
#[derive(Debug, Clone)]
struct Yielding {
    store: MemoryStore,
    lose: bool,
}

impl Yielding {
    fn turn(&self) -> &MemoryStore {
        thread::yield_now();
        &self.store
    }
}

impl Store for Yielding {
    fn features(&self) -> Features {
        self.store.features()
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
    fn len(&self, key: &str) -> StoreResult<u64> {
        self.turn().len(key)
    }
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> StoreResult<()> {
        self.turn().read(key, offset, out)
    }
    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> StoreResult<()> {
        self.turn().append(key, at, parts)
    }
    fn put(&self, key: &str, data: &[u8], mode: PutMode, sync: bool) -> StoreResult<()> {
        self.turn().put(key, data, mode, sync)?;
        if self.lose && key.ends_with(".dsm") && shuttle::rand::thread_rng().gen_bool(0.3) {
            let source = std::io::Error::other("the reply was lost");
            return Err(StoreError::Io { key: key.into(), store: self.describe(), operation: "put", source });
        }
        Ok(())
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<ListEntry>> {
        self.turn().list(prefix)
    }
    fn delete(&self, key: &str) -> StoreResult<()> {
        self.turn().delete(key)
    }
    fn sync(&self, keys: &[&str]) -> StoreResult<()> {
        self.turn().sync(keys)
    }
    fn exec(&self, key: &str, method: &str, input: &[u8]) -> StoreResult<Vec<u8>> {
        self.turn().exec(key, method, input)
    }
    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}

fn open(store: &Yielding) -> Container {
    Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap()
}

/// What a snapshot shows of `t`, checked to hold whole steps only: both cells of a step are put one after the other.
fn whole_steps(c: &Container) -> Vec<f32> {
    let all = floats(&read_all(c, "t"));
    for (step, cells) in all.chunks(2).enumerate() {
        assert_eq!(cells[0], cells[1], "step {step} is visible in half");
    }
    all
}

fn race(steps: u64, lose: bool) {
    let store = Yielding { store: MemoryStore::new(), lose };
    let c = Container::create(Arc::new(store.clone()), CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[2], |v| v.steps = true)]).unwrap();
    let seen: Arc<Mutex<BTreeMap<u64, Vec<f32>>>> = Arc::default();
    let mut threads = Vec::new();
    for name in ["a", "b"] {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            let c = open(&store);
            for _ in 0..2 {
                c.commit().unwrap();
            }
            c.apply(vec![create(name, f4(), &[1], |_| {}), create("both", f4(), &[1], |_| {})]).unwrap();
        }));
    }
    let writing = store.clone();
    threads.push(thread::spawn(move || {
        let w = open(&writing).writer(WriterOptions::default()).unwrap();
        for step in 0..steps {
            assert_eq!(w.begin_step(Some(step), false).unwrap(), step);
            for cell in 0..2 {
                let value = bytes(&[step as f32 + 1.0]);
                w.put("t", &f4(), &dense(&value, &[1], 4), Some(&[cell]), None).unwrap();
            }
            w.end_step().unwrap();
        }
        w.close().unwrap();
    }));
    let (reading, noted) = (store.clone(), seen.clone());
    threads.push(thread::spawn(move || {
        let c = open(&reading);
        for _ in 0..3 {
            let shown = whole_steps(&c);
            assert_eq!(shown, whole_steps(&c), "a snapshot changed under its reader");
            noted.lock().unwrap().insert(c.snapshot().version(), shown);
            c.refresh().unwrap();
        }
    }));
    for thread in threads {
        thread.join().unwrap();
    }
    let c = open(&store);
    c.commit().unwrap();
    let expected: Vec<f32> = (0..steps).flat_map(|s| [s as f32 + 1.0; 2]).collect();
    assert_eq!(whole_steps(&c), expected, "a step was lost");
    for name in ["a", "b", "both"] {
        assert!(c.variable(name).is_ok(), "the creation of {name} was lost");
    }
    let versions = c.snapshots().unwrap();
    assert_eq!(versions, (1..=c.snapshot().version()).collect::<Vec<_>>(), "commits follow each other");
    for (version, shown) in seen.lock().unwrap().iter() {
        assert_eq!(whole_steps(&c.at(*version).unwrap()), *shown, "snapshot {version} changed later");
    }
}

fn rounds(normal: usize) -> usize {
    if std::env::var_os("DRYSTONE_LONG").is_some() { normal * 50 } else { normal }
}

#[test]
fn no_schedule_loses_a_step_or_shows_half_of_one() {
    shuttle::check_random(|| race(2, false), rounds(800));
}

#[test]
fn rare_schedules_of_few_preemptions_are_no_different() {
    shuttle::check_pct(|| race(2, false), rounds(800), 3);
}

#[test]
fn lost_replies_neither_lose_nor_double_a_commit() {
    shuttle::check_random(|| race(2, true), rounds(800));
}

#[test]
fn ranks_of_a_step_become_visible_together_whoever_commits() {
    shuttle::check_random(
        || {
            let store = Yielding { store: MemoryStore::new(), lose: false };
            let c = Container::create(Arc::new(store.clone()), CreateOptions::default()).unwrap();
            c.apply(vec![create("t", f4(), &[2], |v| v.steps = true)]).unwrap();
            let threads: Vec<_> = (0..2u32)
                .map(|rank| {
                    let store = store.clone();
                    thread::spawn(move || {
                        let c = open(&store);
                        let w =
                            c.writer(WriterOptions { rank: Some((rank, 2)), ..Default::default() }).unwrap();
                        w.begin_step(None, false).unwrap();
                        let at = [u64::from(rank)];
                        w.put("t", &f4(), &dense(&bytes(&[5.0]), &[1], 4), Some(&at), None).unwrap();
                        w.end_step().unwrap();
                        let done = c.commit().unwrap();
                        assert!(done.snapshot.step_axis() == 1 || done.incomplete.len() == 1);
                        w.close().unwrap();
                    })
                })
                .collect();
            let reader = open(&store);
            for _ in 0..2 {
                whole_steps(&reader);
                reader.refresh().unwrap();
            }
            for thread in threads {
                thread.join().unwrap();
            }
            let c = open(&store);
            c.refresh().unwrap();
            assert_eq!(floats(&read_all(&c, "t")), [5.0, 5.0], "the last to commit makes the step visible");
        },
        rounds(500),
    );
}
