//! What does it cost to plan a read? Bars: 20,000 blocks well under 50 ms, 100,000 disjoint blocks resolved in 0.2 s,
//! one point in microseconds.
//!
//! `cargo bench -p drystone-plan`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use drystone_format::entry::{Encoding, Entry, StoredPiece};
use drystone_plan::read_plan::{Options, Slot, plan, resolve_slots};
use drystone_plan::resolve::{Candidate, resolve};
use drystone_plan::selection::{Axis, Selection};
use drystone_transform::stats::ScalarKind;

const EDGE: u64 = 32;

/// `shape` blocks of 32 x 32 x 32 raw 4-byte elements. `shift` moves each block by this many cells, so that blocks of
/// two grids overlap.
fn blocks(shape: [u64; 3], commit: u64, shift: u64) -> Vec<Candidate> {
    let encoding = Arc::new(Encoding { chain: String::new(), item: 4, ..Encoding::default() });
    let mut made = Vec::new();
    for z in 0..shape[0] {
        for y in 0..shape[1] {
            for x in 0..shape[2] {
                let length = EDGE * EDGE * EDGE * 4;
                let position = made.len() as u64 * (length + 64);
                let piece = StoredPiece { position, length, trailer: 32, unit_log2: 14, check: 0 };
                let mut entry = Entry { commit, ndim: 3, subchunks: 1, piece, ..Entry::default() };
                entry.encoding = encoding.clone();
                for (d, at) in [z, y, x].into_iter().enumerate() {
                    (entry.offset[d], entry.count[d], entry.cut[d]) = (at * EDGE + shift, EDGE, EDGE);
                }
                made.push(Candidate { entry, limit: [u64::MAX; 8] });
            }
        }
    }
    made
}

fn measure<T>(what: &str, times: u32, mut run: impl FnMut() -> T) {
    black_box(run());
    let start = Instant::now();
    for _ in 0..times {
        black_box(run());
    }
    println!("{what:<64} {:>12.1} us", start.elapsed().as_secs_f64() * 1e6 / f64::from(times));
}

fn planned(slot: &Slot) -> usize {
    let slots = std::slice::from_ref(slot);
    let resolved = resolve_slots(slots).expect("sound");
    plan(slots, &resolved, |_, _| &[], |_, _| None, &Options::default()).expect("sound").requests
}

fn main() {
    let all = |shape: [u64; 3]| Selection::all(&shape.map(|n| n * EDGE));
    let many = blocks([50, 40, 50], 1, 0);
    measure("resolve 100,000 disjoint blocks", 5, || resolve(&many, &all([50, 40, 50])));
    let strided = Selection {
        axes: vec![Axis { start: 1599, step: -7, count: 228 }, Axis::full(1280), Axis::full(1600)],
    };
    measure("resolve 100,000 disjoint blocks, every 7th plane backwards", 5, || resolve(&many, &strided));
    let mut two = blocks([20, 20, 20], 1, 0);
    two.extend(blocks([20, 20, 20], 2, 11));
    measure("resolve 8,000 blocks over 8,000, shifted", 5, || resolve(&two, &all([20, 20, 20])));
    let rewrites: Vec<Candidate> = (0..1000).flat_map(|commit| blocks([4, 4, 4], commit, 0)).collect();
    measure("resolve 1,000 rewrites of 64 blocks", 5, || resolve(&rewrites, &all([4, 4, 4])));

    let shape = [25, 20, 40];
    let whole = Slot {
        candidates: blocks(shape, 1, 0),
        selection: all(shape),
        item: 4,
        from: 0,
        whole: 4,
        scalar: 4,
        kind: ScalarKind::F32,
    };
    measure("resolve and plan 20,000 whole blocks", 10, || planned(&whole));
    let mut axes = all(shape).axes;
    axes[2] = Axis { start: 3, step: 32, count: 40 };
    let pencils = Slot { selection: Selection { axes }, ..whole };
    measure("resolve and plan one plane of each of 20,000 blocks", 10, || planned(&pencils));
    let point = Slot {
        candidates: blocks([1, 1, 1], 1, 0),
        selection: Selection::boxed(&[5, 6, 7], &[1, 1, 1]),
        item: 4,
        from: 0,
        whole: 4,
        scalar: 4,
        kind: ScalarKind::F32,
    };
    measure("resolve and plan one point", 10_000, || planned(&point));
}
