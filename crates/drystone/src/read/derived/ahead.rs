//! Hints for the inputs of tiles that are computed soon: a tile is read and then computed, and meanwhile the next one comes from the disk.
//!
//! Planning a tile's reads takes a part of the time that computing it takes, so where files are in memory hints become rare.

use std::sync::atomic::{AtomicU64, Ordering};

use drystone_plan::selection::{Axis, Selection};

use super::{Computed, Reading};
use crate::read::prefetch::alike;
use crate::read::sources::Sources;

/// After a tile that was in memory so many more are taken to be, at most.
const MOST_SKIPPED: u64 = 32;

/// Which tiles of one read get hints.
#[derive(Default)]
pub(super) struct Ahead {
    /// The tile from which on hints are given again.
    from: AtomicU64,
    /// How many were skipped the last time.
    skipped: AtomicU64,
}

impl Ahead {
    pub(super) fn wants(&self, tile: u64) -> bool {
        tile >= self.from.load(Ordering::Relaxed)
    }

    /// A hint was given for a tile, and what it needs was in memory or not.
    pub(super) fn hinted(&self, tile: u64, in_memory: bool) {
        let skipped = match in_memory {
            true => (self.skipped.load(Ordering::Relaxed) * 2).clamp(1, MOST_SKIPPED),
            false => 0,
        };
        self.skipped.store(skipped, Ordering::Relaxed);
        self.from.store(tile + 1 + skipped, Ordering::Relaxed);
    }
}

impl Reading {
    /// Gives hints for the inputs of a box at a step, without step axes. `true`: something of it is in memory already, so all is taken to be.
    pub(super) fn hint_inputs(&self, computed: &Computed, step: u64, cells: &Selection) -> bool {
        let mut all_come = true;
        for (input, wanted) in self.needed(computed, cells) {
            if wanted.is_empty() {
                continue;
            }
            // What is wrong with an input is said when it is read.
            if input.is_derived() {
                if let Ok(Some(nested)) = input.computed() {
                    all_come &= !input.hint_inputs(&nested, step, &wanted);
                }
                continue;
            }
            let steps = Axis { start: if input.variable.steps { step } else { 0 }, step: 1, count: 1 };
            let Ok(prepared) = input.prepare(&steps, &wanted) else { continue };
            let fetches = prepared.plan.fetches.iter();
            let mut ranges: Vec<_> = fetches.map(|fetch| (fetch.source, fetch.range.clone())).collect();
            ranges.sort_unstable_by_key(|(source, range)| (*source, range.start));
            all_come &= alike(input, &ranges, &Sources::of(input));
        }
        !all_come
    }
}
