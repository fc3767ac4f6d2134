//! MLOC restores everything, whatever the order of its levels, and reads only the cells that a request needs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of one byte range are what reading parts is about"
)]

use std::ops::Range;

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{
    Bound, Chain, Fetched, Limit, Logical, Precision, Scratch, SearchHits, StoredSubchunk, Want, keys_between,
};

const ORDERS: [&str; 8] = [
    "mloc",
    "mloc:order=\"V:16,S:8,P:2.1.1.4\"",
    "mloc:order=\"S:8,V:5,P:1.1\"",
    "mloc:order=\"P:1.2.1,S:8,V:3\"",
    "mloc:order=\"V:64\"",
    "mloc:order=\"S:8\"",
    "mloc:order=\"P:2.2,V:9\",level=3",
    "bitround:52,dtype=f8,mloc:order=\"S:8,P:3.5\"",
];

struct Encoded {
    chain: Chain,
    stored: Vec<u8>,
    meta: Vec<u8>,
    logical: Logical,
    data: Vec<u8>,
}

impl Encoded {
    fn new(text: &str, data: Vec<u8>, logical: Logical) -> Encoded {
        let chain = Chain::parse(text).unwrap();
        assert_eq!(Chain::parse(&chain.canonical()).unwrap().canonical(), chain.canonical());
        let (mut stored, mut meta) = (Vec::new(), Vec::new());
        chain.encode_keeping(&data, &logical, &mut stored, &mut meta, &mut Scratch::new()).unwrap();
        assert!(stored.len() <= chain.max_encoded_len(data.len()));
        Encoded { chain, stored, meta, logical, data }
    }

    fn form(&self) -> StoredSubchunk<'_> {
        StoredSubchunk { len: self.stored.len() as u64, meta: &self.meta, decoded_len: self.data.len() }
    }

    fn fetched(&self, ranges: &[Range<u64>]) -> Fetched<'_> {
        let run = |r: &Range<u64>| (r.start, &self.stored[r.start as usize..r.end as usize]);
        Fetched::new(ranges.iter().map(run).collect())
    }

    /// Reads the wanted ranges; returns the decoded subchunk, the number of bytes read, and the bound.
    fn part(&self, ranges: &[Range<u64>], precision: Precision) -> (Vec<u8>, u64, Bound) {
        let want = Want { ranges, precision };
        let plan = self.chain.plan_read(&self.form(), &self.logical, &want).unwrap();
        let mut out = vec![0xAA; self.data.len()];
        let fetched = self.fetched(&plan.ranges);
        let mut scratch = Scratch::new();
        self.chain.decode_part(&self.form(), &fetched, &self.logical, &want, &mut out, &mut scratch).unwrap();
        (out, plan.ranges.iter().map(|r| r.end - r.start).sum(), plan.bound)
    }

    fn search(&self, low: f64, high: f64) -> (Vec<(u32, Vec<u8>)>, u64, usize) {
        let keys = keys_between(self.logical.kind, Limit::Float(low), Limit::Float(high));
        let plan = self.chain.plan_search(&self.form(), &self.logical, &keys).unwrap().unwrap();
        let mut found = SearchHits::default();
        let fetched = self.fetched(&plan);
        self.chain.search(&self.form(), &fetched, &self.logical, &keys, &mut found).unwrap();
        let values = found.values.chunks_exact(self.logical.scalar).map(<[u8]>::to_vec);
        let mut pairs: Vec<_> = found.positions.into_iter().zip(values).collect();
        pairs.sort();
        (pairs, plan.iter().map(|r| r.end - r.start).sum(), plan.len())
    }
}

fn field(shape: &[u64], random: &mut Random) -> Vec<f64> {
    let count: u64 = shape.iter().product();
    (0..count).map(|i| (i as f64 * 3e-4).sin() * 50.0 + random.below(1000) as f64 * 1e-6).collect()
}

fn bytes(values: &[f64], kind: ScalarKind) -> Vec<u8> {
    match kind {
        ScalarKind::F32 => values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect(),
        ScalarKind::I16 => values.iter().flat_map(|v| ((*v * 100.0) as i16).to_le_bytes()).collect(),
        ScalarKind::U8 => values.iter().map(|v| *v as i8 as u8).collect(),
        _ => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    }
}

#[test]
fn every_order_gives_every_bit_back_whole_and_in_parts() {
    let mut random = Random(8);
    for text in ORDERS {
        for kind in [ScalarKind::F64, ScalarKind::F32, ScalarKind::I16, ScalarKind::U8] {
            if text.starts_with("bitround") && kind != ScalarKind::F64 {
                continue;
            }
            for shape in [&[40u64, 33, 21][..], &[3000], &[1, 1], &[0, 5], &[7, 900], &[]] {
                let mut data = bytes(&field(shape, &mut random), kind);
                if kind == ScalarKind::F64 && !data.is_empty() {
                    data.extend_from_slice(b"tail"); // bytes after the last whole number
                }
                let logical = Logical { shape: shape.to_vec(), ..Logical::numbers(kind, 0) };
                let kept = Encoded::new(text, data, logical);
                let mut back = vec![1; kept.data.len()];
                kept.chain.decode(&kept.stored, &kept.logical, &mut back, &mut Scratch::new()).unwrap();
                assert!(back == kept.data, "{text} {kind:?} {shape:?}");
                for _ in 0..6 {
                    let mut cuts: Vec<u64> = (0..4).map(|_| random.below(back.len() + 1) as u64).collect();
                    cuts.sort();
                    let ranges = [cuts[0]..cuts[1], cuts[2]..cuts[3]];
                    let (out, ..) = kept.part(&ranges, Precision::Exact);
                    for range in ranges {
                        let range = range.start as usize..range.end as usize;
                        assert!(out[range.clone()] == kept.data[range], "{text} {kind:?} {shape:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn vectors_and_complex_numbers_are_sorted_scalar_by_scalar() {
    let mut random = Random(9);
    let data = bytes(&field(&[20, 30, 2], &mut random), ScalarKind::F64);
    let logical = Logical { item: 16, scalar: 8, kind: ScalarKind::F64, shape: vec![20, 30] };
    let kept = Encoded::new(ORDERS[1], data, logical);
    let (out, ..) = kept.part(&[160..800], Precision::Exact);
    assert_eq!(out[160..800], kept.data[160..800]);
}

#[test]
fn less_precision_is_within_the_bound_and_a_region_or_a_first_look_costs_its_cells() {
    let mut random = Random(10);
    let shape = [32u64, 32, 64];
    let values = field(&shape, &mut random);
    let logical = Logical { shape: shape.to_vec(), ..Logical::numbers(ScalarKind::F64, 0) };
    let all = [0..values.len() as u64 * 8];
    for text in ["mloc:order=\"P:2.1.1.4,S:16,V:4\"", "mloc:order=\"S:16,V:4,P:2.1.1.4\""] {
        let kept = Encoded::new(text, bytes(&values, ScalarKind::F64), logical.clone());
        let (_, exact, _) = kept.part(&all, Precision::Exact);
        for asked in [3.0, 0.01, 1e-4] {
            let (out, read, bound) = kept.part(&all, Precision::Absolute(asked));
            assert!(bound.absolute <= asked && read < exact, "{text}: {read} of {exact} for {asked}");
            for (v, b) in values.iter().zip(out.chunks_exact(8)) {
                assert!((v - f64::from_le_bytes(b.try_into().unwrap())).abs() <= bound.absolute);
            }
        }
        let (_, coarse, _) = kept.part(&all, Precision::Level(1));
        assert!(coarse * 3 < exact, "{text}: {coarse} of {exact}");
        // A row of 64 numbers lies in four boxes of 32.
        let (_, row, _) = kept.part(&[0..512], Precision::Exact);
        assert!(row < exact / 3, "{text}: {row} of {exact}");
    }
    let kept = Encoded::new("mloc:order=\"P:2.1.1.4,S:16,V:4\"", bytes(&values, ScalarKind::F64), logical);
    let want = Want { ranges: &all, precision: Precision::Level(1) };
    let plan = kept.chain.plan_read(&kept.form(), &kept.logical, &want).unwrap();
    assert_eq!(plan.ranges.len(), 1, "precision first: the leading bytes of everything lie together");
}

#[test]
fn a_search_finds_what_a_scan_finds_and_reads_the_bins_that_meet() {
    let mut random = Random(11);
    let shape = [30u64, 40, 50];
    for kind in [ScalarKind::F64, ScalarKind::F32, ScalarKind::I16] {
        let data = bytes(&field(&shape, &mut random), kind);
        let logical = Logical { shape: shape.to_vec(), ..Logical::numbers(kind, 0) };
        for text in &ORDERS[..4] {
            let kept = Encoded::new(text, data.clone(), logical.clone());
            for (low, high) in [(-10.0, 10.0), (49.0, 60.0), (0.0, 0.0), (1e9, 2e9), (-1e9, 1e9)] {
                let keys = keys_between(kind, Limit::Float(low), Limit::Float(high));
                let elements = data.chunks_exact(kind.size()).enumerate();
                let expected: Vec<(u32, Vec<u8>)> = elements
                    .filter(|(_, e)| keys.contains(&drystone_transform::key_of(kind, e)))
                    .map(|(i, e)| (i as u32, e.to_vec()))
                    .collect();
                let (found, read, _) = kept.search(low, high);
                assert!(found == expected, "{text} {kind:?} {low}..{high}");
                assert!(low != 49.0 || read < kept.stored.len() as u64 / 2, "{text} {kind:?}: {read}");
            }
        }
    }
    let kept = Encoded::new(ORDERS[1], bytes(&field(&shape, &mut random), ScalarKind::F64), {
        Logical { shape: shape.to_vec(), ..Logical::numbers(ScalarKind::F64, 0) }
    });
    assert_eq!(kept.search(49.0, 60.0).2, 1, "value first: neighbouring bins lie together");
}

#[test]
fn damaged_heads_are_refused_or_read_within_bounds() {
    let mut random = Random(12);
    let shape = [16u64, 16, 16];
    let logical = Logical { shape: shape.to_vec(), ..Logical::numbers(ScalarKind::F32, 0) };
    let kept = Encoded::new(
        "mloc:order=\"V:4,S:8,P:2.1.1\"",
        bytes(&field(&shape, &mut random), ScalarKind::F32),
        logical,
    );
    assert!(kept.meta.len() > 100 && kept.meta[1..] == kept.stored[1..kept.meta.len()]);
    let mut refused = 0;
    for bit in 0..kept.meta.len() * 8 {
        let mut meta = kept.meta.clone();
        meta[bit / 8] ^= 1 << (bit % 8);
        let form = StoredSubchunk { meta: &meta, ..kept.form() };
        let want = Want { ranges: &[64..2000], precision: Precision::Exact };
        match kept.chain.plan_read(&form, &kept.logical, &want) {
            Ok(plan) => {
                let mut out = vec![0; kept.data.len()];
                let fetched = kept.fetched(&plan.ranges);
                let mut scratch = Scratch::new();
                drop(kept.chain.decode_part(&form, &fetched, &kept.logical, &want, &mut out, &mut scratch));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > kept.meta.len() * 4, "{refused} of {}", kept.meta.len() * 8);
}

#[test]
fn an_order_that_makes_no_sense_is_refused_with_what_would() {
    for (text, part) in [
        ("mloc:order=\"V:16,V:3\"", "twice"),
        ("mloc:order=\"X:16\"", "expected V, S or P"),
        ("mloc:order=\"V:0\"", "from 1 to 256"),
        ("mloc:order=\"S:2\"", "from 4 to"),
        ("mloc:order=\"P:2.9\"", "P:2.1.1.4"),
        ("mloc:order=5", "a text in quotes"),
        ("mloc:5", "a text in quotes"),
    ] {
        let message = Chain::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}
