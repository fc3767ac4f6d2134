//! Does a slow store get hints for the reads that follow, and a fast one none?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use drystone::{Container, CreateOptions, Durability, Mode, WriterOptions};
use drystone_store::{
    LocalFiles, Mapped, MemoryStore, Pending, PutMode, Request, Result as StoreResult, Store, StoreExt,
};

use crate::common::*;

const VARIABLES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CELLS: u64 = 2000;

/// A store whose reads take milliseconds, on demand, and which records the hints that it gets.
#[derive(Debug)]
struct Slow {
    inner: Arc<MemoryStore>,
    slow: AtomicBool,
    told: Mutex<Vec<(String, Range<u64>)>>,
    fetched: Mutex<Vec<Range<u64>>>,
}

impl Slow {
    /// None: every read goes through this store.
    fn files_of(&self, _key: &str) -> Option<&dyn LocalFiles> {
        None
    }
}

impl Store for Slow {
    drystone_store::forward! {
        inner =>
        features, describe, device, len, watch, unchanged, append, write_at, put, upload, list,
        delete, sweep, sync, exec
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        Some(self)
    }
    fn read_whole(&self, key: &str, limit: u64) -> StoreResult<Result<Vec<u8>, u64>> {
        self.read_whole_by_length(key, limit)
    }
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> StoreResult<()> {
        if self.slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.inner.read(key, offset, out)
    }
    fn submit(&self, request: Request) -> Pending {
        if let Request::Expect { key, ranges } = &request {
            let ranges = ranges.iter().map(|(at, len)| (key.clone(), *at..at + len));
            self.told.lock().unwrap().extend(ranges);
        }
        self.inner.submit(request)
    }
}

/// Records `prefetch`, as files are read ahead.
impl LocalFiles for Slow {
    fn prefetch(&self, _key: &str, range: Range<u64>) {
        self.fetched.lock().unwrap().push(range);
    }
    drystone_store::forward_files!(files_of => read_seen, read_ranges, read_parts);
    fn prefetch_shared(&self, _key: &str, _range: Range<u64>) {}
    fn maps_from(&self) -> Option<u64> {
        None
    }
    fn map(&self, _key: &str, _ranges: &[Range<u64>]) -> Option<Mapped> {
        None
    }
    fn preallocate(&self, _key: &str, _at: u64, _end: u64) {}
    fn put_after(&self, first: &[&str], key: &str, parts: &[&[u8]], mode: PutMode) -> StoreResult<()> {
        self.sync(first)?;
        self.put(key, parts, mode, true)
    }
    fn evict(&self, _key: &str) -> StoreResult<Option<bool>> {
        Ok(None)
    }
}

/// Five variables of two steps with 8,000 bytes per step each, and one with other cells.
fn filled() -> Arc<Slow> {
    filled_with(CELLS)
}

fn filled_with(cells: u64) -> Arc<Slow> {
    let inner = Arc::new(MemoryStore::new());
    let c = Container::create(
        inner.clone(),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    let with_steps = |name: &str, cells: u64| create(name, f4(), &[cells], |v| v.steps = true);
    let other = with_steps("other", 10);
    c.apply(VARIABLES.iter().map(|name| with_steps(name, cells)).chain([other]).collect()).unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
    for step in 0..2 {
        w.begin_step(Some(step), false).unwrap();
        for name in VARIABLES {
            w.put(name, &f4(), &dense(&ramp_f32(cells as usize), &[cells], 4), None, None).unwrap();
        }
        w.put("other", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
        w.end_step().unwrap();
    }
    w.close().unwrap();
    Arc::new(Slow { inner, slow: AtomicBool::new(true), told: Mutex::default(), fetched: Mutex::default() })
}

/// Reads all cells of a step of these variables. Returns, for each read, how many bytes of the log were hinted.
fn hinted_by(store: &Arc<Slow>, c: &Container, step: u64, names: &[&str]) -> Vec<u64> {
    let each = |name: &&str| {
        store.told.lock().unwrap().clear();
        assert_eq!(read_box(c, name, &[step, 0], &[1, CELLS]), ramp_f32(CELLS as usize));
        let told = store.told.lock().unwrap();
        let logs = told.iter().filter(|(key, _)| key.starts_with("log/"));
        logs.map(|(_, range)| range.end - range.start).sum()
    };
    names.iter().map(each).collect()
}

#[test]
fn a_slow_store_gets_hints_for_the_other_variables_at_the_second_read_and_for_all_at_the_next_step() {
    let store = filled();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let told = hinted_by(&store, &c, 0, &VARIABLES);
    assert_eq!((told[0], &told[2..]), (0, &[0, 0, 0][..]));
    assert!((4 * 8000..4 * 8000 + 200).contains(&told[1]), "{told:?}");
    let told = hinted_by(&store, &c, 1, &VARIABLES);
    assert!((5 * 8000..5 * 8000 + 200).contains(&told[0]), "{told:?}");
    assert_eq!(told[1..], [0, 0, 0, 0]);
}

#[test]
fn a_backward_reader_gets_hints_for_earlier_variables() {
    let store = filled();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let told = hinted_by(&store, &c, 0, &["e", "d", "c", "b", "a"]);
    assert!((4 * 8000..4 * 8000 + 200).contains(&told[1]), "{told:?}");
    assert_eq!(told[2..], [0, 0, 0]);
}

/// Variables of 3 MB: while one is read, the next one is prefetched, and nothing further.
#[test]
fn the_next_long_variable_is_prefetched_after_each() {
    const LONG: u64 = 750_000;
    let store = filled_with(LONG);
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let each = |name: &&str| {
        store.fetched.lock().unwrap().clear();
        assert_eq!(read_box(&c, name, &[0, 0], &[1, LONG]), ramp_f32(LONG as usize));
        let fetched = std::mem::take(&mut *store.fetched.lock().unwrap());
        let lens: Vec<u64> = fetched.iter().map(|range| (range.end - range.start) / (LONG * 4)).collect();
        assert!(fetched.is_sorted_by_key(|range| range.start), "{fetched:?}");
        lens.iter().sum::<u64>()
    };
    let fetched: Vec<u64> = VARIABLES.iter().map(each).collect();
    assert_eq!(fetched[1..], [2, 2, 2, 0], "the variable itself and the next one: {fetched:?}");
}

#[test]
fn a_reader_of_two_variables_of_five_gets_hints_for_the_others_once() {
    let store = filled();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    assert!(hinted_by(&store, &c, 0, &["b", "d"])[1] > 0);
    let told = hinted_by(&store, &c, 1, &["b", "d"]);
    assert!((2 * 8000..2 * 8000 + 200).contains(&told[0]), "what was read before: {told:?}");
    assert_eq!(hinted_by(&store, &c, 0, &["a", "c"]), [0, 0], "nothing is known of these");
}

#[test]
fn a_fast_store_gets_no_hints() {
    let store = filled();
    store.slow.store(false, Ordering::Relaxed);
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    // The first reads of a process may be slow.
    hinted_by(&store, &c, 0, &["a", "a", "a"]);
    for _ in 0..20 {
        let told: u64 = (0..2).flat_map(|step| hinted_by(&store, &c, step, &VARIABLES)).sum();
        if told == 0 {
            return;
        }
    }
    panic!("reads from memory were taken for slow ones, twenty times");
}

/// Symptom: a restart from four logs that were in memory spent a fifth of its time asking whether they were. Cause:
/// it asked for every log, although the previous read and the answer for the first log show that no read waits.
#[test]
fn a_fast_store_is_asked_for_one_of_many_logs_and_a_slow_one_for_all() {
    const LOGS: u32 = 5;
    const EACH: u64 = 25_000;
    let all = u64::from(LOGS) * EACH;
    let inner = Arc::new(MemoryStore::new());
    let c = Container::create(
        inner.clone(),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    c.apply(vec![create("a", f4(), &[all], |_| ())]).unwrap();
    let ramp = ramp_f32(EACH as usize);
    for rank in 0..LOGS {
        let options = WriterOptions { rank: Some((rank, LOGS)), ..WriterOptions::default() };
        let w = c.writer(options).unwrap();
        w.put("a", &f4(), &dense(&ramp, &[EACH], 4), Some(&[u64::from(rank) * EACH]), None).unwrap();
        w.close().unwrap();
    }
    c.commit().unwrap();
    let expected = ramp.repeat(LOGS as usize);
    for (slow, logs) in [(false, 1), (true, LOGS as usize)] {
        let slow = AtomicBool::new(slow);
        let (told, fetched) = (Mutex::default(), Mutex::default());
        let store = Arc::new(Slow { inner: inner.clone(), slow, told, fetched });
        let c = Container::open(store.clone(), Mode::Read).unwrap();
        let asked = || {
            store.told.lock().unwrap().clear();
            assert_eq!(read_box(&c, "a", &[0], &[all]), expected);
            let told = store.told.lock().unwrap();
            told.iter().filter(|(key, _)| key.starts_with("log/")).count()
        };
        // The previous read decides, and may have been slow for another reason.
        assert!((0..20).any(|n| asked() == logs && n > 0), "{} logs of a store", asked());
    }
}

/// Symptom: a program that opened a container of some thousand blocks that was not in memory, and read a little of
/// it, waited three times for a file of 45 KB. Cause: its root, the table of logs and the leaves were requested one
/// after the other.
#[test]
fn a_short_index_is_fetched_whole_and_once() {
    const BLOCKS: u64 = 4000;
    let inner = Arc::new(MemoryStore::new());
    let c = Container::create(
        inner.clone(),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    c.apply(vec![create("a", f4(), &[BLOCKS], |_| ())]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    for n in 0..BLOCKS {
        w.put("a", &f4(), &dense(&(n as f32).to_le_bytes(), &[1], 4), Some(&[n]), None).unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
    let (told, fetched) = (Mutex::default(), Mutex::default());
    let store = Arc::new(Slow { inner, slow: AtomicBool::new(false), told, fetched });
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    for from in [0, BLOCKS - 5, 1000] {
        let cells: Vec<u8> = (from..from + 5).flat_map(|n| (n as f32).to_le_bytes()).collect();
        assert_eq!(read_box(&c, "a", &[from], &[5]), cells);
    }
    let told = store.told.lock().unwrap();
    let index: Vec<_> = told.iter().filter(|(key, _)| key.starts_with("index/")).collect();
    let [(key, range)] = index[..] else { panic!("{index:?}") };
    // Frames are padded to eight bytes.
    assert_eq!((range.start, range.end.next_multiple_of(8)), (0, store.len(key).unwrap()));
}

#[test]
fn damage_of_hinted_bytes_is_reported_when_they_are_read() {
    let store = filled();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let objects = store.inner.list("log/").unwrap();
    let log = objects.into_iter().find(|object| object.key.ends_with(".seg")).unwrap().key;
    let all = {
        let mut all = vec![0; store.inner.len(&log).unwrap() as usize];
        store.inner.read(&log, 0, &mut all).unwrap();
        all
    };
    // The first step's c lies after its a and b.
    let mut damaged = all.clone();
    damaged[2 * 8000 + 4000] ^= 1;
    store.inner.put(&log, &[&damaged], PutMode::Replace, false).unwrap();
    hinted_by(&store, &c, 0, &["a", "b"]);
    let selection = drystone_plan::selection::Selection::boxed(&[0, 0], &[1, CELLS]);
    assert_eq!(read(&c, "c", &selection).unwrap_err().kind(), drystone::ErrorKind::Corrupt);
    hinted_by(&store, &c, 0, &["d", "e"]);
}
