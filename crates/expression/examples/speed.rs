//! Does the evaluator run at memory speed when its data fits in the L2 cache?
//!
//! The bar: at least 0.8 of the speed of copying the bytes read and written; one thread, tiles of 64 Ki cells.
//! `cargo run --release -p drystone-expression --example speed`

use std::hint::black_box;
use std::time::Instant;

use drystone_expression::{Answer, Column, ColumnMut, Input, Scratch, Type, parse};

/// Cells of a tile.
const CELLS: usize = 1 << 16;
const ROUNDS: usize = 400;

fn least(mut act: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        act();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    best
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let inputs: Vec<Vec<f32>> =
        (0..3).map(|k| (0..CELLS).map(|n| ((n * 7 + k * 13) % 1000) as f32 * 0.01 - 5.0).collect()).collect();
    let wide: Vec<Vec<f64>> = inputs.iter().map(|v| v.iter().map(|x| f64::from(*x)).collect()).collect();
    println!("{:<24} {:>4} {:>12} {:>12} {:>8}", "expression", "type", "GiB/s", "copy GiB/s", "ratio");
    for text in ["2*u + 3*v - 0.5*w", "sqrt(u*u + v*v + w*w)", "u + 1"] {
        for dtype in [Type::F4, Type::F8] {
            let program = parse(text)?.check(|_| Answer::Type(dtype))?;
            let many = program.inputs().len();
            let (size, mut scratch) = (if dtype == Type::F4 { 4 } else { 8 }, Scratch::new(&program));
            let mut known = vec![0u64; CELLS.div_ceil(64)];
            let (mut out, mut wide_out) = (vec![0f32; CELLS], vec![0f64; CELLS]);
            let seconds = least(|| {
                let column = |k: usize| match dtype {
                    Type::F4 => Column::F4(&inputs[k]),
                    _ => Column::F8(&wide[k]),
                };
                let given: Vec<Input<'_>> = (0..many).map(|k| column(k).into()).collect();
                let room = match dtype {
                    Type::F4 => ColumnMut::F4(&mut out),
                    _ => ColumnMut::F8(&mut wide_out),
                };
                let _ = program.compute(&given, CELLS, &mut scratch, room, &mut known);
                black_box(&known);
            });
            let bytes = (CELLS * size * (many + 1)) as f64;
            let (from, mut to) = (vec![1u8; bytes as usize / 2], vec![0u8; bytes as usize / 2]);
            let copied = least(|| {
                to.copy_from_slice(black_box(&from));
                black_box(&to);
            });
            let rate = |seconds: f64| bytes / seconds / (1u64 << 30) as f64;
            println!(
                "{text:<24} {dtype:>4} {:>12.1} {:>12.1} {:>8.2}",
                rate(seconds),
                rate(copied),
                copied / seconds
            );
        }
    }
    Ok(())
}
