//! How fast are values sorted into bins, compared with copying them?
//!
//! The bar: writing with `index="bins"` at 0.8 of the speed without. A subchunk has 256 Ki values of 4 bytes: energies
//! of particles (in any order), a smooth field, and the field's values in random order. One thread, everything in
//! cache. Run with `cargo run --release -p drystone-transform --example bins`.

use std::hint::black_box;
use std::time::Instant;

use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Chain, Logical, Scratch};

/// Number of values in a subchunk.
const COUNT: usize = 1 << 18;

/// The best GB/s of `work` over `bytes` bytes.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..200 {
        let start = Instant::now();
        work();
        best = best.max(bytes as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    best
}

fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    ((*state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

fn main() -> Result<(), drystone_transform::TransformError> {
    let mut state = 7u64;
    let energies: Vec<f32> =
        (0..COUNT).map(|_| (-(uniform(&mut state) * uniform(&mut state)).ln()) as f32).collect();
    let smooth: Vec<f32> = (0..COUNT)
        .map(|i| {
            let (x, y, z) = ((i % 64) as f64, (i / 64 % 64) as f64, (i / 4096) as f64);
            ((x * 0.07).sin() + (y * 0.11).cos() * (z * 0.05).sin() + 0.01 * uniform(&mut state)) as f32
        })
        .collect();
    let mut shuffled = smooth.clone();
    for i in (1..COUNT).rev() {
        shuffled.swap(i, (uniform(&mut state) * (i + 1) as f64) as usize);
    }
    for (name, values) in [("energies", energies), ("smooth", smooth), ("shuffled", shuffled)] {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let logical = Logical { item: 4, scalar: 4, kind: ScalarKind::F32, shape: vec![COUNT as u64] };
        let mut out = vec![0u8; bytes.len()];
        let copied = rate(bytes.len(), || black_box(&mut out).copy_from_slice(black_box(&bytes)));
        let measured = rate(bytes.len(), || {
            black_box(Stats::of(ScalarKind::F32, black_box(&bytes)));
        });
        let stats = Stats::of(ScalarKind::F32, &bytes);
        let counted = rate(bytes.len(), || {
            black_box(Histogram::of(ScalarKind::F32, black_box(&bytes), &stats));
        });
        let chain = Chain::parse("alacrity:bits=13")?;
        let (mut scratch, mut encoded) = (Scratch::default(), Vec::new());
        let binned = rate(bytes.len(), || {
            encoded.clear();
            let _ = black_box(chain.encode(black_box(&bytes), &logical, &mut encoded, &mut scratch));
        });
        let mut back = vec![0u8; bytes.len()];
        let decoded = rate(bytes.len(), || {
            let _ = black_box(chain.decode(black_box(&encoded), &logical, &mut back, &mut scratch));
        });
        assert!(back == bytes, "{name} came back otherwise");
        println!(
            "{name:<10} copy {copied:>6.2}  statistics {measured:>6.2}  histogram {counted:>6.2}  bins {binned:>6.3}  \
             back {decoded:>6.3} GB/s; {:.3} of the size",
            encoded.len() as f64 / bytes.len() as f64
        );
    }
    Ok(())
}
