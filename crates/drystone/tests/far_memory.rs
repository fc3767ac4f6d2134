//! The memory that a writer needs for large blocks on their way to a far store.
//!
//! Symptom: a block of 1 GiB took another GiB before it was put. Cause: on a store without append, a part of a log
//! was filled in memory, whatever the length of the block. It is now uploaded in pieces. The test counts the most
//! bytes held, besides the caller's.
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test ends at the first surprise, and counts what is allocated"
)]

mod common;
mod counting_allocator;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drystone::array::Source;
use drystone::{Container, CreateOptions, WriterOptions};
use drystone_store::{
    DelayStore, LocalFiles, MemoryStore, NoAppendStore, Pending, Reply, Result as Stored, Store, Upload,
};

use common::{create, dense, f4};
use counting_allocator::{HELD, MOST};

/// A far store that confirms pieces after a while and drops them.
#[derive(Debug)]
struct Forgetful {
    store: DelayStore<NoAppendStore<MemoryStore>>,
    pieces: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Forgotten {
    lens: Vec<usize>,
    pieces: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl Upload for Forgotten {
    fn add(&mut self, data: Vec<u8>) -> Pending {
        self.lens.push(data.len());
        let (completer, pending) = Pending::waiting();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            completer.complete(Ok(Reply::Append { data }));
        });
        pending
    }

    fn finish(self: Box<Self>) -> Pending {
        let (last, others) = self.lens.split_last().unwrap();
        assert!(others.iter().all(|len| len == &others[0]) && *last <= others[0], "{:?}", self.lens);
        self.pieces.fetch_add(self.lens.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(self.lens.iter().sum::<usize>() as u64, Ordering::Relaxed);
        Pending::completed(Ok(Reply::Put { data: Vec::new() }))
    }
}

impl Store for Forgetful {
    drystone_store::forward! {
        store =>
        features, describe, device, watch, unchanged, len, read, read_whole, append, write_at, put,
        list, delete, sweep, sync, exec, submit
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
    fn upload(&self, _key: &str) -> Stored<Box<dyn Upload>> {
        let (pieces, bytes) = (Arc::clone(&self.pieces), Arc::clone(&self.bytes));
        Ok(Box::new(Forgotten { lens: Vec::new(), pieces, bytes }))
    }
}

const EDGE: u64 = 4096;
const MIB: isize = 1 << 20;

#[test]
fn a_large_block_takes_no_more_than_32_mib_beside_the_callers() {
    // One block of 64 MiB, the same gathered from every second column, and a member of records.
    let block = vec![1u8; (EDGE * EDGE * 4) as usize];
    let wide = vec![2u8; 2 * block.len()];
    for (name, chunks) in [("whole", None), ("cut", Some(vec![256, 256])), ("gathered", None)] {
        let (pieces, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let store = DelayStore::new(NoAppendStore::new(MemoryStore::new()), Duration::from_millis(1), 1e10);
        let store = Forgetful { store, pieces: Arc::clone(&pieces), bytes: Arc::clone(&bytes) };
        let c = Container::create(Arc::new(store), CreateOptions::default()).unwrap();
        c.apply(vec![create("a", f4(), &[2 * EDGE, EDGE], |v| v.chunks = chunks.clone())]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        for n in 0..2 {
            let source = match name {
                "gathered" => strided(&wide),
                _ => dense(&block, &[EDGE, EDGE], 4),
            };
            w.put("a", &f4(), &source, Some(&[n * EDGE, 0]), None).unwrap();
        }
        w.close().unwrap();
        let most = MOST.load(Ordering::Relaxed) - before;
        assert!(most <= 32 * MIB, "{name}: {:.1} MiB", most as f64 / MIB as f64);
        let (pieces, bytes) = (pieces.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed));
        assert!(bytes > 2 * block.len() as u64 && bytes < 2 * block.len() as u64 * 101 / 100, "{bytes}");
        assert_eq!(pieces, bytes.div_ceil(11 << 19), "one object for all blocks of the part");
    }
}

/// The source of every second column.
fn strided(wide: &[u8]) -> Source<'_> {
    // SAFETY: the slice holds 4096 rows of 4096 pairs of floats.
    unsafe { Source::new(wide.as_ptr(), &[EDGE, EDGE], &[8 * EDGE as i64, 8], 4) }.unwrap()
}
