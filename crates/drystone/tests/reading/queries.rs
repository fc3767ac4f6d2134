//! What do queries request from the store? Statistics decide without reading values, and a damaged value is found
//! when it is read.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use drystone::{Container, CreateOptions, ErrorKind, Mode, WriterOptions};
use drystone_format::identity::Durability;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{CountingStore, MemoryStore};

use crate::common::{bytes, create, dense, f4};

const CELLS: u64 = 1 << 16;
const BLOCKS: u64 = 16;

/// A ramp in separate blocks, one writer for each half, on a counting store. The container is opened again, so that
/// nothing is in memory.
fn ramp() -> (Arc<CountingStore<MemoryStore>>, Container) {
    let store = Arc::new(CountingStore::new(MemoryStore::new()));
    let c = Container::create(
        store.clone(),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    c.apply(vec![create("p", f4(), &[CELLS], |_| {}), create("u", f4(), &[CELLS], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let each = CELLS / BLOCKS;
    for n in 0..BLOCKS {
        let values: Vec<f32> = (0..each).map(|cell| (n * each + cell) as f32).collect();
        let falling: Vec<f32> = values.iter().map(|value| -value).collect();
        w.put("p", &f4(), &dense(&bytes(&values), &[each], 4), Some(&[n * each]), None).unwrap();
        w.put("u", &f4(), &dense(&bytes(&falling), &[each], 4), Some(&[n * each]), None).unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    (store, c)
}

#[test]
fn whole_blocks_and_bounds_are_answered_without_reading_the_log() {
    let (store, c) = ramp();
    let each = CELLS / BLOCKS;
    let condition = c.expression(&format!("p >= {} & u > -1e9", each)).unwrap();
    let query = c.query(&condition, &[]).unwrap();
    // The index is read once.
    query.bounds().unwrap();
    let before = store.counters();
    assert_eq!(query.bounds().unwrap(), (CELLS - each, CELLS - each));
    let (count, report) = query.count().unwrap();
    assert_eq!((count, report.bytes, report.requests), (CELLS - each, 0, 0));
    let (coords, _) = query.coords().unwrap();
    assert_eq!((coords.len() as u64, coords[0]), (CELLS - each, each as i64));
    assert_eq!(store.counters() - before, Default::default());
}

#[test]
fn only_the_block_that_statistics_leave_open_is_read() {
    let (store, c) = ramp();
    let each = CELLS / BLOCKS;
    let condition = c.expression(&format!("p < {}", 5 * each + 10)).unwrap();
    let query = c.query(&condition, &[]).unwrap();
    query.bounds().unwrap();
    let before = store.counters();
    let (count, report) = query.count().unwrap();
    assert_eq!(count, 5 * each + 10);
    let asked = store.counters() - before;
    assert_eq!(asked.bytes_read, report.bytes);
    assert!(asked.bytes_read >= 4 * each && asked.bytes_read < 6 * each, "{asked}");
}

#[test]
fn a_second_condition_reads_the_few_cells_that_the_first_one_left() {
    let (store, c) = ramp();
    let condition = c.expression("p == 20000 & u > -30000.5").unwrap();
    let query = c.query(&condition, &[]).unwrap();
    query.bounds().unwrap();
    let before = store.counters();
    assert_eq!(query.coords().unwrap().0, [20_000]);
    let asked = store.counters() - before;
    // One block of p is read; statistics decide about u there.
    assert!(asked.bytes_read < 6 * CELLS / BLOCKS, "{asked}");
}

#[test]
fn selections_beyond_the_grid_and_foreign_memory_are_refused() {
    let (_, c) = ramp();
    let query = c.query(&c.expression("p > 3").unwrap(), &[]).unwrap();
    let axis = |start, step, count| Selection { axes: vec![Axis { start, step, count }] };
    let kind = |selection: &Selection| query.select(selection).map(|_| ()).unwrap_err().kind();
    assert_eq!(kind(&axis(CELLS, 1, 1)), ErrorKind::OutOfRange);
    assert_eq!(kind(&axis(0, 1, CELLS + 1)), ErrorKind::OutOfRange);
    assert_eq!(kind(&axis(3, -1, 5)), ErrorKind::OutOfRange);
    assert_eq!(kind(&Selection::default()), ErrorKind::InvalidArgument);
    assert_eq!(query.mask(&mut [0; 8]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // A descending axis selects the same cells; an empty one selects none.
    assert_eq!(query.select(&axis(9, -2, 5)).unwrap().count().unwrap().0, 3);
    assert_eq!(query.select(&axis(0, 1, 0)).unwrap().count().unwrap().0, 0);
    assert!(c.query(&c.expression("p + 1").unwrap(), &[]).is_err());
    assert!(c.query(&c.expression("q > 1").unwrap(), &[]).is_err());
}
