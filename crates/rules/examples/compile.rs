//! What does a rule cost?
//!
//! Bars: composing two 8-dimensional fragments takes microseconds; a rule for one tile has under 64 bytes.
//! `cargo run --release -p drystone-rules --example compile`
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::Instant;

use drystone_rules::*;

/// Median microseconds of one call, over batches that are long enough for the clock.
fn microseconds<T>(mut body: impl FnMut() -> T) -> f64 {
    let mut times: Vec<f64> = (0..51)
        .map(|_| {
            let start = Instant::now();
            (0..200).for_each(|_| drop(black_box(body())));
            start.elapsed().as_secs_f64() / 200.0 * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn report(name: &str, make: impl Fn() -> (MemoryLayout, MemoryLayout)) {
    let (src, dst) = make();
    let rule = Rule::compile(&src, &dst, Narrowing::Refuse).unwrap();
    let bytes = rule.encode();
    let (src_len, dst_len) = (src.len(), dst.len());
    println!(
        "{name:<34} {:6.2} {:6.2} {:6.2} {:6.2} {:6.2} {:5} {:5}",
        microseconds(&make),
        microseconds(|| Rule::compile(&src, &dst, Narrowing::Refuse).unwrap()),
        microseconds(|| rule.split(Pack::Destination).unwrap()),
        microseconds(|| rule.encode()),
        microseconds(|| Rule::decode(&bytes, src_len, dst_len).unwrap()),
        rule.terms().len(),
        bytes.len(),
    );
}

fn main() {
    println!("microseconds for                   2 frags   rule  split encode decode terms bytes");
    let boxed = |shape: &[u64], start: &[i64], counts: &[u64], order| {
        MemoryLayout::boxed(0, shape, start, counts, order, Block::opaque(8)).unwrap()
    };
    report("a 2-d tile of a row-major array", || {
        let shape = [80000, 80000];
        (
            boxed(&shape, &[500, 300], &[5000, 6000], Order::Row),
            boxed(&shape, &[0, 0], &[1000, 1000], Order::Row),
        )
    });
    report("8-d boxes, row to column", || {
        let shape = [64; 8];
        (boxed(&shape, &[3; 8], &[20; 8], Order::Row), boxed(&shape, &[10; 8], &[30; 8], Order::Col))
    });
    report("8-d strided views", || {
        let view = |a: i64, b: i64, count: u64| {
            let axis = |k| Axis { extent: 1000, map: IndexMap::affine(k, a, b) };
            let path = vec![Step::Index((0..8).map(axis).collect())];
            MemoryLayout::single(0, path, Block::opaque(4).array([count; 8], Order::Row)).unwrap()
        };
        (view(2, 1, 40), view(3, 4, 30))
    });
    report("3-d periodic halo", || {
        let axis = |k| Axis { extent: 256, map: IndexMap::affine(k, 1, -1).modulo(256) };
        let halo = MemoryLayout::single(
            0,
            vec![Step::Index((0..3).map(axis).collect())],
            Block::opaque(8).array([66; 3], Order::Row),
        );
        (boxed(&[256; 3], &[0; 3], &[256; 3], Order::Row), halo.unwrap())
    });
    report("a record of 32 members to columns", || {
        let count = 1000;
        let width = |k: u64| [4, 8, 2, 8][k as usize % 4];
        let members = (0..32).map(|k| (k as u32, 8 * k, Block::opaque(width(k))));
        let record = Block::record(256, members);
        let column = |k: u64| View {
            var: 0,
            offset: 8 * count * k,
            path: vec![
                Step::Index(vec![Axis { extent: count, map: IndexMap::binder(0) }]),
                Step::Member(k as u32),
            ],
            block: Block::opaque(width(k)).array([count], Order::Row),
        };
        let aos = MemoryLayout::boxed(0, &[count], &[0], &[count], Order::Row, record).unwrap();
        (aos, MemoryLayout::new((0..32).map(column).collect(), 8 * count * 32).unwrap())
    });
}
