//! How fast are the kernels, compared with memcpy on the same buffers?
//!
//! Bars: CRC-32C and statistics at 8 GB/s or more in cache, so that examining every byte before it is written costs
//! little compared with copying it; shuffle near memcpy. Run with
//! `cargo run --release -p drystone-transform --example codecs [KiB]`.

use std::hint::black_box;
use std::time::Instant;

use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Chain, Logical, Scratch, checks};

/// Median GB/s of `work` over `bytes` bytes, and its ratio to memcpy.
fn report(name: &str, bytes: usize, memcpy: f64, mut work: impl FnMut()) -> f64 {
    let mut rates = Vec::new();
    for _ in 0..7 {
        let mut rounds = 0u32;
        let start = Instant::now();
        while start.elapsed().as_millis() < 10 {
            work();
            rounds += 1;
        }
        rates.push(f64::from(rounds) * bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    rates.sort_by(f64::total_cmp);
    let rate = rates[rates.len() / 2];
    let ratio = if memcpy > 0.0 { rate / memcpy } else { 1.0 };
    println!("{name:<34} {:>9} KiB {rate:>8.2} GB/s  {ratio:>5.2} of memcpy", bytes >> 10);
    rate
}

fn main() -> Result<(), drystone_transform::TransformError> {
    let only = std::env::args().nth(1).and_then(|kib| kib.parse::<usize>().ok());
    let sizes = only.map_or(vec![256 << 10, 1 << 20, 16 << 20], |kib| vec![kib << 10]);
    for len in sizes {
        // A smooth field with some noise, like most simulation output, in f64 and f32.
        let doubles: Vec<u8> = (0..len / 8)
            .flat_map(|i| ((i as f64 * 1e-3).sin() + (i % 17) as f64 * 1e-6).to_le_bytes())
            .collect();
        let floats: Vec<u8> = (0..len / 4)
            .flat_map(|i| ((i as f32 * 1e-3).sin() + (i % 17) as f32 * 1e-4).to_le_bytes())
            .collect();
        let halves: Vec<u8> = (0..len / 2)
            .flat_map(|i| [(i * 7) as u8, 0x38 + (i / 300 % 8) as u8 + (i as u8 & 0x80)])
            .collect();
        let mut target = vec![0u8; len];
        let copy = report("memcpy", len, 0.0, || black_box(&mut target).copy_from_slice(black_box(&doubles)));

        let mut sums = Vec::new();
        report("crc_units, 16 KiB", len, copy, || {
            sums.clear();
            checks::crc_units(black_box(&doubles), 16 << 10, &mut sums);
        });
        for (kind, data) in [
            (ScalarKind::F32, &floats),
            (ScalarKind::F64, &doubles),
            (ScalarKind::F16, &halves),
            (ScalarKind::BF16, &halves),
            (ScalarKind::U8, &floats),
            (ScalarKind::I16, &floats),
            (ScalarKind::I32, &floats),
            (ScalarKind::I64, &doubles),
            (ScalarKind::U64, &doubles),
        ] {
            report(&format!("stats {kind:?}"), len, copy, || {
                black_box(Stats::of(kind, black_box(data)));
            });
            let stats = Stats::of(kind, data);
            report(&format!("histogram {kind:?}"), len, copy, || {
                black_box(Histogram::of(kind, black_box(data), &stats));
            });
        }
        let mut scratch = Scratch::new();
        for (text, item) in [
            ("shuffle", 2),
            ("shuffle", 4),
            ("shuffle", 8),
            ("shuffle", 16),
            ("shuffle", 3),
            ("shuffle", 12),
            ("shuffle", 24),
            ("zstd:-3", 8),
            ("zstd:1", 8),
            ("zstd:3", 8),
            ("shuffle,zstd:1", 8),
            ("shuffle,zstd:3", 8),
        ] {
            let chain = Chain::parse(text)?;
            let logical = Logical::scalars(item, (len / item) as u64);
            let mut stored = Vec::new();
            chain.encode(&doubles, &logical, &mut stored, &mut scratch)?;
            let ratio = len as f64 / stored.len() as f64;
            let mut failed = Ok(());
            report(&format!("{text} of {item}, encode ({ratio:.2}x)"), len, copy, || {
                stored.clear();
                failed = failed.clone().and(chain.encode(
                    black_box(&doubles),
                    &logical,
                    &mut stored,
                    &mut scratch,
                ));
            });
            report(&format!("{text} of {item}, decode"), len, copy, || {
                failed =
                    failed.clone().and(chain.decode(black_box(&stored), &logical, &mut target, &mut scratch));
            });
            failed?;
            assert_eq!(target, doubles);
        }
    }
    Ok(())
}
