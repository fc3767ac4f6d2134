//! What a writer keeps in memory of the blocks that it was given and has not committed.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test ends at the first surprise, and counts what is allocated"
)]

mod common;
mod counting_allocator;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use drystone::{Container, CreateOptions, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_store::{LocalStore, MemoryStore, Store};

use common::{create, dense};
use counting_allocator::{HELD, MOST};

/// What tests of this file hold is counted together.
static ALONE: Mutex<()> = Mutex::new(());

/// Symptom: 10^6 blocks of one value, put without a step, took 0.5 to 0.9 KB of memory each until the writer was closed. Cause: each
/// was kept as an index entry with room for eight dimensions and an encoding of its own. They are kept as the blocks of the frame that they will be
/// written in; here the bytes that are held after 200,000 puts, and the most there were, are counted.
#[test]
fn a_block_that_waits_for_its_commit_takes_less_than_160_bytes() {
    const N: u64 = 200_000;
    const MOST_EACH: isize = 160;
    for (local, steps) in [(true, false), (true, true), (false, true)] {
        let _alone = ALONE.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = match local {
            true => Arc::new(LocalStore::create(folder.path()).unwrap()),
            false => Arc::new(MemoryStore::new()),
        };
        let c = Container::create(store, CreateOptions::default()).unwrap();
        let f8 = DType::Scalar(Scalar::F64);
        c.apply(vec![create("t", f8.clone(), &[N], |v| v.steps = steps)]).unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
        if steps {
            w.begin_step(None, false).unwrap();
        }
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        for i in 0..N {
            w.put("t", &f8, &dense(&(i as f64).to_le_bytes(), &[1], 8), Some(&[i]), None).unwrap();
        }
        let each = (MOST.load(Ordering::Relaxed) - before) / N as isize;
        assert!(each < MOST_EACH, "{each} bytes for a block; local {local}, steps {steps}");
        if steps {
            w.end_step().unwrap();
        }
        w.close().unwrap();
        let step = steps.then_some(0);
        assert_eq!(c.reading("t", None).unwrap().blocks(step).unwrap().len() as u64, N);
    }
}

/// Symptom: the commit of 10^6 tiny blocks took 1 KB of memory for each. Cause: the entries that it adopts were values three times over: as
/// read from the log, as adopted, and sorted for the index. They are kept as encoded blocks; here the most bytes that a commit holds
/// beyond those before it are counted, with the index pages that it writes among them.
#[test]
fn a_commit_takes_less_than_100_bytes_for_an_entry() {
    const N: u64 = 200_000;
    const MOST_EACH: isize = 100;
    for (steps, turned) in [(false, false), (true, false), (true, true)] {
        let _alone = ALONE.lock().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(LocalStore::create(folder.path()).unwrap());
        let c = Container::create(store, CreateOptions::default()).unwrap();
        let f8 = DType::Scalar(Scalar::F64);
        c.apply(vec![create("t", f8.clone(), &[N], |v| v.steps = steps)]).unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
        if steps {
            w.begin_step(None, false).unwrap();
        }
        for i in 0..N {
            // Each entry far from the one before: nothing is in order.
            let at = if turned { i * 7919 % N } else { i };
            w.put("t", &f8, &dense(&(at as f64).to_le_bytes(), &[1], 8), Some(&[at]), None).unwrap();
        }
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        if steps {
            w.end_step().unwrap();
        }
        w.close().unwrap();
        let each = (MOST.load(Ordering::Relaxed) - before) / N as isize;
        assert!(each < MOST_EACH, "{each} bytes for an entry; steps {steps}, turned {turned}");
        assert_eq!(c.snapshot().entry_count(), N);
        let found = c.reading("t", None).unwrap().blocks(steps.then_some(0)).unwrap();
        assert_eq!(found.len() as u64, N);
    }
}
