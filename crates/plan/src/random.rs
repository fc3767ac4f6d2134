//! Reproducible numbers for tests: the same seed gives the same case on every machine.

use std::sync::Arc;

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Encoding, Entry, Stats, StoredPiece};

/// A splitmix generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In `0..n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// In `lo..hi`.
    pub(crate) fn within(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below((hi - lo) as u64) as i64
    }
}

/// An uncut raw entry of 4-byte elements over a box, made by commit `commit`.
pub(crate) fn block(offset: &[u64], count: &[u64], commit: u64) -> Entry {
    let pad = |values: &[u64]| {
        let mut all = [0; MAX_NDIM];
        all[..values.len()].copy_from_slice(values);
        all
    };
    let empty = count.contains(&0);
    Entry {
        step: 0,
        variable: 0,
        member: 0,
        commit,
        order: 0,
        put: 0,
        ndim: offset.len() as u8,
        offset: pad(offset),
        count: pad(count),
        cut: pad(count),
        encoding: Arc::new(Encoding { chain: String::new(), item: 4, ..Encoding::default() }),
        subchunks: u64::from(!empty),
        source: 0,
        piece: StoredPiece::default(),
        stats: Stats::default(),
    }
}
