//! A part of a blosc subchunk is decoded only from the blocks that hold it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::ops::Range;

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{
    Chain, Fetched, Logical, Planned, Precision, Scratch, StoredSubchunk, TransformError, Want,
};

struct Case {
    chain: Chain,
    logical: Logical,
    data: Vec<u8>,
    stored: Vec<u8>,
}

impl Case {
    fn new(text: &str, data: Vec<u8>) -> Case {
        let (chain, logical) =
            (Chain::parse(text).unwrap(), Logical::numbers(ScalarKind::F32, data.len() as u64 / 4));
        let mut stored = Vec::new();
        chain.encode(&data, &logical, &mut stored, &mut Scratch::new()).unwrap();
        Case { chain, logical, data, stored }
    }

    fn form<'a>(&self, meta: &'a [u8]) -> StoredSubchunk<'a> {
        StoredSubchunk { len: self.stored.len() as u64, meta, decoded_len: self.data.len() }
    }

    fn plan(&self, meta: &[u8], ranges: &[Range<u64>]) -> Result<Planned, TransformError> {
        self.chain.plan_read(&self.form(meta), &self.logical, &Want { ranges, precision: Precision::Exact })
    }

    /// Reads only the planned ranges.
    fn read(&self, meta: &[u8], ranges: &[Range<u64>]) -> Result<Vec<u8>, TransformError> {
        let plan = self.plan(meta, ranges)?;
        let run = |r: &Range<u64>| (r.start, &self.stored[r.start as usize..r.end as usize]);
        let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
        let want = Want { ranges, precision: Precision::Exact };
        let mut out = vec![0xAA; self.data.len()];
        let mut scratch = Scratch::new();
        self.chain.decode_part(&self.form(meta), &fetched, &self.logical, &want, &mut out, &mut scratch)?;
        Ok(out)
    }
}

fn smooth(count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| ((i / 9) as f32).to_le_bytes()).collect()
}

#[test]
fn a_part_asks_for_its_blocks_only() {
    let case = Case::new("blosc:lz4:5:shuffle,blocksize=1024", smooth(10_000));
    let meta = case.chain.meta(&case.stored).to_vec();
    assert_eq!(meta.len(), 1 + 16 + 4 * 40, "the head and forty places");
    let blocks = |ranges: &[Range<u64>]| -> u64 {
        case.plan(&meta, ranges).unwrap().ranges.iter().map(|r| r.end - r.start).sum()
    };
    let whole = blocks(&[0..40_000; 1]);
    assert_eq!(whole, case.stored.len() as u64 - meta.len() as u64);
    assert!(blocks(&[5000..5004; 1]) < whole / 15);
    assert_eq!(case.plan(&meta, &[0..4, 39_996..40_000]).unwrap().ranges.len(), 2);
    assert_eq!(case.plan(&meta, &[1000..1004, 1020..1028]).unwrap().ranges.len(), 1);
    assert_eq!(case.plan(&[], &[5000..5004; 1]).unwrap().ranges, [0..case.stored.len() as u64; 1]);
}

#[test]
fn every_part_of_every_frame_holds_what_was_written() {
    let mut random = Random(61);
    let noise: Vec<u8> = (0..9001).map(|_| random.next() as u8).collect();
    for text in [
        "blosc:lz4:5:shuffle,blocksize=256",
        "blosc:zstd:3:bitshuffle,blocksize=512",
        "blosc:zlib:1:noshuffle,blocksize=1000",
        "blosc:zstd:1:shuffle",
        "blosc:lz4:0:shuffle",
    ] {
        for data in [smooth(2500), smooth(2500)[..9001].to_vec(), noise.clone(), vec![5; 300]] {
            let case = Case::new(text, data);
            for _ in 0..40 {
                let len = case.data.len();
                let mut cuts: Vec<u64> = (0..4).map(|_| random.below(len + 1) as u64).collect();
                cuts.sort();
                let ranges = [cuts[0]..cuts[1], cuts[2]..cuts[3]];
                for meta in [case.chain.meta(&case.stored), &[]] {
                    let out = case.read(meta, &ranges).unwrap();
                    for range in &ranges {
                        let range = range.start as usize..range.end as usize;
                        assert!(out[range.clone()] == case.data[range], "{text}, {ranges:?} of {len}");
                    }
                }
            }
        }
    }
}

#[test]
fn metadata_that_contradicts_the_frame_is_refused_or_read_right() {
    let case = Case::new("blosc:lz4:5:shuffle,blocksize=1024", smooth(10_000));
    let meta = case.chain.meta(&case.stored).to_vec();
    for bit in 0..meta.len() * 8 {
        let mut damaged = meta.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        // A wrong offset of a block is detected where it is used: in the plan, or when the block is missing.
        let _ = case.read(&damaged, &[100..120, 30_000..30_100]);
    }
    for len in 1..meta.len() {
        let short = &meta[..len];
        assert!(case.read(short, &[39_000..39_100; 1]).is_err(), "{len} bytes of metadata");
    }
}
