//! A container far away: how many requests, how many round trips, and how many under way at once.
//!
//! The store is one of this process behind a link with latency and bandwidth, which counts. Counts and round trips are exact; times are
//! compared with what bytes and round trips take, with room for a machine that does something else.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone::plan::selection::{Axis, Selection};
use drystone::store::{Asked, DelayStore, MemoryStore, NoAppendStore};
use drystone::{Container, CreateOptions, Durability, Mode, WriterOptions};

use common::*;

type Far = DelayStore<NoAppendStore<MemoryStore>>;

/// The objects of `objects` behind 30 ms and 1 Gbit/s.
fn far(objects: &MemoryStore) -> Far {
    behind(objects, Duration::from_millis(30))
}

fn behind(objects: &MemoryStore, latency: Duration) -> Far {
    DelayStore::new(NoAppendStore::new(objects.clone()), latency, 125e6)
}

/// Writes a container into memory, without a link.
fn written(write: impl FnOnce(&Container)) -> MemoryStore {
    let objects = MemoryStore::new();
    let store = Arc::new(NoAppendStore::new(objects.clone()));
    let c = Container::create(store, CreateOptions { durability: Durability::Async }).unwrap();
    write(&c);
    c.settle();
    objects
}

fn opened(store: &Far) -> Container {
    Container::open(Arc::new(store.clone()), Mode::Read).unwrap()
}

fn rounds(log: &[Asked]) -> u64 {
    log.iter().map(|asked| asked.round).max().unwrap_or(0)
}

fn total(log: &[Asked]) -> u64 {
    log.iter().map(|asked| asked.bytes).sum()
}

fn shown(log: &[Asked]) -> String {
    log.iter().map(|a| format!("\n  round {}: {} {} ({} bytes)", a.round, a.kind, a.key, a.bytes)).collect()
}

/// A 2-dimensional variable of `grid` blocks of `edge` cells a side, each put by itself.
fn blocks(c: &Container, path: &str, grid: [u64; 2], edge: u64) {
    let shape = grid.map(|n| n * edge);
    c.apply(vec![create(path, f4(), &shape, |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let mut cells = vec![0; (edge * edge * 4) as usize];
    for at in (0..grid[0]).flat_map(|i| (0..grid[1]).map(move |j| [i, j])) {
        for (n, cell) in cells.chunks_exact_mut(4).enumerate() {
            let (row, column) = (at[0] * edge + n as u64 / edge, at[1] * edge + n as u64 % edge);
            cell.copy_from_slice(&((row * shape[1] + column) as f32).to_le_bytes());
        }
        let offset = at.map(|n| n * edge);
        w.put(path, &f4(), &dense(&cells, &[edge, edge], 4), Some(&offset), None).unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
}

/// Symptom: 1,024 ranges took 16 s at 30 ms, as long as one after the other on two threads. Cause: requests under way were bound to threads,
/// one each. Here they go out until the window is full: this counts how many were under way, and how many round trips that took.
#[test]
fn requests_under_way_are_bound_by_the_window_and_not_by_threads() {
    // Two variables turn by turn: what is read of one lies apart in the segment.
    const MANY: u64 = 1024;
    const CELLS: u64 = 16 << 10;
    let objects = written(|c| {
        c.apply(vec![create("a", f4(), &[MANY, CELLS], |_| {}), create("b", f4(), &[MANY, CELLS], |_| {})]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        for row in 0..MANY {
            for name in ["a", "b"] {
                let cells: Vec<u8> = (0..CELLS).flat_map(|n| ((row * CELLS + n) as f32).to_le_bytes()).collect();
                w.put(name, &f4(), &dense(&cells, &[1, CELLS], 4), Some(&[row, 0]), None).unwrap();
            }
        }
        w.close().unwrap();
        c.commit().unwrap();
    });
    let store = far(&objects);
    let c = opened(&store);
    let reading = c.reading("a", None).unwrap();
    let all = Selection::all(&[MANY, CELLS]);
    let plan = reading.explain(&all).unwrap();
    assert!(plan.to_string().contains("window: 128 requests"), "{plan}");
    let requests = plan.requests as u64;
    assert!(requests >= MANY, "{plan}");
    store.take_log();
    let began = Instant::now();
    let found = read(&c, "a", &all).unwrap();
    let time = began.elapsed();
    assert!(floats(&found).iter().enumerate().all(|(n, found)| *found == n as f32));
    assert_eq!(store.peak(), 128, "as many as the window holds");
    let log = store.take_log();
    assert_eq!(log.len() as u64, requests, "{}", shown(&log[..20]));
    // Bytes take 0.54 s, 8 windows 0.24 s; one after the other it would be 15 s on two threads.
    let bytes = Duration::from_secs_f64(total(&log) as f64 / 125e6);
    assert!(time < 3 * (bytes + Duration::from_millis(60)), "{time:?} for {bytes:?} of bytes");
}

#[test]
fn what_fits_the_window_is_asked_for_in_one_round() {
    let objects = written(|c| blocks(c, "a", [10, 10], 64));
    let store = far(&objects);
    let c = opened(&store);
    // Index pages and sources once; then only data.
    read_box(&c, "a", &[0, 0], &[1, 1]);
    store.take_log();
    // A column of cells: one cell of each row.
    let column = Selection { axes: vec![Axis { start: 0, step: 1, count: 640 }, Axis { start: 7, step: 1, count: 1 }] };
    let found = read(&c, "a", &column).unwrap();
    assert!(floats(&found).iter().enumerate().all(|(row, found)| *found == (row * 640 + 7) as f32));
    let log = store.take_log();
    assert_eq!(rounds(&log), 1, "{}", shown(&log));
}

/// Goal A-1: a cold open of 20,000 blocks in at most 5 requests, 2 rounds and 128 KiB, and the first plane's data asked for in round 4.
#[test]
fn a_container_of_20_000_blocks_opens_in_two_round_trips() {
    let objects = written(|c| blocks(c, "a", [200, 100], 8));
    let store = behind(&objects, Duration::from_millis(60));
    let c = opened(&store);
    let log = store.take_log();
    assert!(log.len() <= 5 && rounds(&log) <= 2 && total(&log) <= 128 << 10, "{}", shown(&log));
    let plane = read_box(&c, "a", &[3, 0], &[1, 800]);
    assert!(floats(&plane).iter().enumerate().all(|(n, found)| *found == (3 * 800 + n) as f32));
    let log = store.take_log();
    let data = log.iter().find(|asked| asked.key.ends_with(".seg")).map(|asked| asked.round);
    assert!(data.is_some_and(|round| round <= 2), "data in round 4, opening included: {}", shown(&log));
}
