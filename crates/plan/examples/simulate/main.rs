//! A simulated parallel file system, read through the real planner and placement: shows what layouts do on systems
//! larger than any at hand.
//!
//! `cargo run -p drystone-plan --example simulate -- planes|sweep|scale` prints one JSON object per line;
//! bench/simulator/run.py draws them and checks the bars. Nothing is measured but the simulated clock, so a
//! run gives the same on every machine.
#![allow(clippy::unwrap_used, reason = "an example ends at the first surprise")]

mod clients;
mod data;

use clients::{Machine, Outcome, simulate};
use data::{Layout, World};
use drystone_plan::layout::{Device, LOG, Spread, closed_form, cut_block, standard_mix};

const MACHINE: Machine =
    Machine { bandwidth: 250e6, seek: 8e-3, request: 2e-3, link: 200e6, in_flight: 8, rpc: 1 << 20 };
const BLOCK: u64 = 256;
const ITEM: u64 = 8;

fn device() -> Device {
    Device { bandwidth: MACHINE.bandwidth, request: MACHINE.seek + MACHINE.request }
}

/// Into how many parts the closed form cuts along j and along k; those cuts serve the planes across these two axes.
fn closed() -> u64 {
    closed_form(&[BLOCK; 3], ITEM, &[1, 2], &device())[1]
}

/// The cut that a writer takes if no mix of reads is declared: its extents serve planes across all three axes, boxes
/// and whole blocks.
fn cut() -> Vec<u64> {
    let count = [BLOCK; 3];
    cut_block(&count, ITEM, false, &standard_mix(&count, false), &device(), &LOG).edges
}

fn say(experiment: &str, layout: &str, more: &str, out: &Outcome) {
    println!(
        "{{\"experiment\": \"{experiment}\", \"layout\": \"{layout}\", {more}, \"seconds\": {:.6}, \"requests\": {}, \"bytes\": {}}}",
        out.seconds, out.requests, out.bytes
    );
}

fn planes(writers: u64, targets: u64) {
    let ways = closed();
    let layouts = [
        ("contiguous", Layout::Contiguous),
        ("one chunk", Layout::Whole),
        ("hilbert", Layout::Cut { ways, spread: Spread::Hilbert }),
        ("lattice", Layout::Cut { ways, spread: Spread::Lattice }),
    ];
    for (name, layout) in layouts {
        let world = World::new(writers, targets, layout, device());
        for readers in [32, 64, 128, 256, 512] {
            for axis in 0..3 {
                for stored in [true, false] {
                    let plans = world.plane(axis, readers, stored);
                    let more = format!("\"axis\": {axis}, \"readers\": {readers}, \"stored\": {stored}");
                    say("planes", name, &more, &simulate(&MACHINE, targets, plans));
                }
            }
        }
    }
}

fn sweep(writers: u64, targets: u64, readers: u64) {
    let cut = cut();
    let (ways_j, ways_k) = (BLOCK.div_ceil(cut[1]), BLOCK.div_ceil(cut[2]));
    for spread in [Spread::Hilbert, Spread::Lattice] {
        for ways in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 32] {
            let world = World::new(writers, targets, Layout::Cut { ways, spread }, device());
            for axis in 0..3 {
                let name = if spread == Spread::Hilbert { "hilbert" } else { "lattice" };
                for stored in [true, false] {
                    let out = simulate(&MACHINE, targets, world.plane(axis, readers, stored));
                    let more = format!(
                        "\"axis\": {axis}, \"readers\": {readers}, \"stored\": {stored}, \"ways\": {ways}, \"closed\": {}, \"cut\": {cut:?}, \
                         \"model\": [{ways_j}, {ways_k}]",
                        closed()
                    );
                    say("sweep", name, &more, &out);
                }
            }
        }
    }
}

fn scale(writers: u64, targets: u64, readers: u64) {
    let ways = closed();
    let layouts = [
        ("one chunk", Layout::Whole),
        ("hilbert", Layout::Cut { ways, spread: Spread::Hilbert }),
        ("lattice", Layout::Cut { ways, spread: Spread::Lattice }),
    ];
    for (name, layout) in layouts {
        let world = World::new(writers, targets, layout, device());
        let out = simulate(&MACHINE, targets, world.many(readers));
        say(
            "scale",
            name,
            &format!("\"readers\": {readers}, \"writers\": {writers}, \"targets\": {targets}"),
            &out,
        );
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("planes") => planes(8, 160),
        Some("sweep") => [32, 64, 112, 128].into_iter().for_each(|readers| sweep(8, 160, readers)),
        Some("scale") => scale(40, 10_000, 100_000),
        _ => eprintln!("say planes, sweep or scale"),
    }
}
