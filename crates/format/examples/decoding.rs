//! What does it cost to read and write index pages? Bars: a leaf of 4096 entries is decoded in well under a
//! millisecond, so that a reader which touches a few leaves of an index of 10^6 blocks opens in milliseconds;
//! a regular decomposition costs little more than its checks. `cargo run --release -p drystone-format
//! --example decoding`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use drystone_format::block::decode_block;
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece, encode_block};
use drystone_format::steps::Steps;

fn main() {
    let encoding = Arc::new(Encoding { chain: "shuffle,zstd:1".into(), item: 8, ..Encoding::default() });
    let entries: Vec<Entry> = (0..4096u64).map(|i| entry(i, &encoding)).collect();
    let scattered: Vec<Entry> = entries.iter().enumerate().map(|(i, e)| scatter(i as u64, e)).collect();
    for (name, entries) in [("regular", &entries), ("scattered", &scattered)] {
        let bytes = encode_block(entries);
        let encode = best(|| _ = black_box(encode_block(black_box(entries))));
        let decode = best(|| _ = black_box(decode_block(black_box(&bytes))));
        let per = bytes.len() as f64 / entries.len() as f64;
        println!(
            "{name}: {per:.1} bytes per entry; encode {encode:.0} µs, decode {decode:.0} µs per 4096 entries"
        );
    }
    let append = best(|| {
        let mut steps = Steps::default();
        (0..100_000).for_each(|step| steps.insert(step));
        black_box(steps);
    });
    println!("append 100000 steps: {append:.0} µs");
}

/// Entry of a 16 × 16 × 16 grid of compressed 64^3 blocks: lengths and checksums differ.
fn entry(i: u64, encoding: &Arc<Encoding>) -> Entry {
    let mut e = Entry { step: 8, variable: 3, commit: 8, order: i, ndim: 3, ..Entry::default() };
    for (d, at) in [i / 256, i / 16 % 16, i % 16].into_iter().enumerate() {
        (e.offset[d], e.count[d], e.cut[d]) = (at * 64, 64, 64);
    }
    e.encoding = encoding.clone();
    (e.subchunks, e.source) = (1, i as u32);
    let check = (i as u32).wrapping_mul(0x9e37_79b9);
    e.piece =
        StoredPiece { position: 104, length: 1_000_000 + i * 7919 % 5000, check, ..StoredPiece::default() };
    e.stats = Stats { min_max: Some((i.wrapping_mul(check.into()), i << 40)), nans: 0 };
    e
}

/// The same entry with every field irregular.
fn scatter(i: u64, e: &Entry) -> Entry {
    let mut e = e.clone();
    let mut x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for d in 0..3 {
        x = x.rotate_left(23).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        e.offset[d] = x % 100_000;
    }
    e.piece.position = x >> 24;
    e
}

/// Least time of many runs, in microseconds.
fn best(mut f: impl FnMut()) -> f64 {
    let runs = (0..50).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64() * 1e6
    });
    runs.fold(f64::INFINITY, f64::min)
}
