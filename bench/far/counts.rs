//! What do an open, a plane and many ranges cost on a far store, in requests, round trips and time?
//!
//! Bar to beat: bytes / bandwidth + 2 round trips for what fits the window, and a cold open of 20,000 blocks in at most
//! 5 requests and 2 rounds. The link is simulated (`DelayStore`): counts and rounds are exact; times hold for a machine
//! that does nothing else. A line is one latency. Run it by `cargo bench -p drystone --bench far`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone::array::{Source, Target};
use drystone::format::dtype::{DType, Scalar};
use drystone::plan::selection::Selection;
use drystone::{Container, CreateOptions, Durability, Mode, NewVariable, SchemaOp, WriterOptions};
use drystone_store::{DelayStore, MemoryStore, NoAppendStore};

/// Bytes per second of the link: 1 Gbit/s.
const LINK: f64 = 125e6;

fn main() {
    let small = written(&["a"], [20_000, 64]);
    // Variables turn by turn: the ranges of one lie apart.
    let few = written(&["a", "b"], [64, 256 << 10]);
    let many = written(&["a", "b"], [1024, 16 << 10]);
    for latency in [1, 10, 30, 100].map(Duration::from_millis) {
        println!("\nlatency {latency:?}, link {} MB/s", LINK / 1e6);
        question("cold open of 20,000 blocks", &small, latency, |_| {});
        question("  and a first row of it", &small, latency, |c| read(c, [1, 64]));
        question("64 ranges of 1 MiB", &few, latency, |c| read(c, [64, 256 << 10]));
        question("1,024 ranges of 64 KiB", &many, latency, |c| read(c, [1024, 16 << 10]));
    }
}

/// Variables of `rows` blocks of so many floats each, put turn by turn.
fn written(names: &[&str], [rows, cells]: [u64; 2]) -> MemoryStore {
    let objects = MemoryStore::new();
    let store = Arc::new(NoAppendStore::new(objects.clone()));
    let c =
        Container::create(store, CreateOptions { durability: Durability::Async, ..CreateOptions::default() })
            .unwrap();
    let f4 = DType::Scalar(Scalar::F32);
    let variable = NewVariable {
        dtype: f4.clone(),
        shape: vec![Some(rows), Some(cells)],
        dims: Vec::new(),
        steps: false,
        local: false,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Default::default(),
    };
    let create = |name: &&str| SchemaOp::CreateVariable((*name).into(), Box::new(variable.clone()));
    c.apply(names.iter().map(create).collect()).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    for row in 0..rows {
        for name in names {
            let block = vec![row as u8; cells as usize * 4];
            let source = Source::dense(&block, &[1, cells], 4).unwrap();
            w.put(name, &f4, &source, Some(&[row, 0]), None).unwrap();
        }
    }
    w.close().unwrap();
    c.settle();
    objects
}

/// The first cells of the first variable.
fn read(c: &Container, count: [u64; 2]) {
    let mut out = vec![0; (count[0] * count[1] * 4) as usize];
    let target = Target::dense(&mut out, &count, 4).unwrap();
    c.reading("a", None).unwrap().read(&Selection::boxed(&[0, 0], &count), &target).unwrap();
}

/// Opens the container anew, and prints what that and `act` cost together.
fn question(name: &str, objects: &MemoryStore, latency: Duration, act: impl Fn(&Container)) {
    let store = DelayStore::new(NoAppendStore::new(objects.clone()), latency, LINK);
    let began = Instant::now();
    let c = Container::open(Arc::new(store.clone()), Mode::Read).unwrap();
    act(&c);
    let time = began.elapsed();
    let (peak, log) = (store.peak(), store.take_log());
    let bytes: u64 = log.iter().map(|asked| asked.bytes).sum();
    let rounds = log.iter().map(|asked| asked.round).max().unwrap_or(0);
    let least = bytes as f64 / LINK + 2.0 * latency.as_secs_f64();
    println!(
        "{name:28} {:5} requests, {rounds:3} rounds, {peak:4} under way, {:8.1} KiB, {:7.1} ms ({:.2} of bytes and 2 round trips)",
        log.len(),
        bytes as f64 / 1024.0,
        time.as_secs_f64() * 1e3,
        time.as_secs_f64() / least,
    );
}
