//! ALACRITY finds the same elements between two values as a scan, and reads only the bins that may hold them.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::ops::{Range, RangeInclusive};

use crate::random::Random;
use drystone_transform::stats::ScalarKind::{self, *};
use drystone_transform::{
    Chain, Fetched, Limit, Logical, Scratch, SearchHits, StoredSubchunk, TransformError, key_of, keys_between,
};

struct Encoded {
    chain: Chain,
    logical: Logical,
    stored: Vec<u8>,
    decoded_len: usize,
}

impl Encoded {
    fn of(text: &str, kind: ScalarKind, data: &[u8]) -> Encoded {
        let chain = Chain::parse(text).unwrap();
        let logical = Logical::numbers(kind, (data.len() / kind.size()) as u64);
        let mut stored = Vec::new();
        chain.encode(data, &logical, &mut stored, &mut Scratch::new()).unwrap();
        assert_eq!(stored[0], 0x1F, "{text} {kind:?}: {} bytes", data.len());
        Encoded { chain, logical, stored, decoded_len: data.len() }
    }

    fn search(&self, low: Limit, high: Limit) -> (Vec<(u32, Vec<u8>)>, u64) {
        let meta = self.chain.meta(&self.stored);
        let form = StoredSubchunk { len: self.stored.len() as u64, meta, decoded_len: self.decoded_len };
        let keys = keys_between(self.logical.kind, low, high);
        if keys.is_empty() {
            return (Vec::new(), 0);
        }
        let plan = self.chain.plan_search(&form, &self.logical, &keys).unwrap().unwrap();
        assert!(plan.len() <= 2, "one range of lists, one of low bytes: {plan:?}");
        let run = |r: &Range<u64>| (r.start, &self.stored[r.start as usize..r.end as usize]);
        let fetched = Fetched::new(plan.iter().map(run).collect());
        let mut found = SearchHits::default();
        self.chain.search(&form, &fetched, &self.logical, &keys, &mut found).unwrap();
        let mut places = SearchHits { only_positions: true, ..SearchHits::default() };
        self.chain.search(&form, &fetched, &self.logical, &keys, &mut places).unwrap();
        assert_eq!((places.positions, places.values), (found.positions.clone(), Vec::new()));
        self.check_whole_bins(&form, &keys, found.positions.len() as u64);
        let values = found.values.chunks_exact(self.logical.scalar).map(<[u8]>::to_vec);
        let mut all: Vec<(u32, Vec<u8>)> = found.positions.into_iter().zip(values).collect();
        all.sort();
        (all, plan.iter().map(|r| r.end - r.start).sum())
    }
}

impl Encoded {
    /// Checks that whole bins, and searches of the ranges that they leave, find exactly what a search of the whole
    /// range finds.
    fn check_whole_bins(&self, form: &StoredSubchunk<'_>, keys: &RangeInclusive<u64>, expected: u64) {
        let whole = self.chain.whole_bins(form, &self.logical, keys).unwrap().unwrap();
        let mut count = whole.count;
        for keys in whole.rest {
            let all = Fetched::new(vec![(0, self.stored.as_slice())]);
            let mut found = SearchHits { only_positions: true, ..SearchHits::default() };
            self.chain.search(form, &all, &self.logical, &keys, &mut found).unwrap();
            count += found.positions.len() as u64;
        }
        assert_eq!(count, expected, "{keys:?}");
    }
}

fn numbers(kind: ScalarKind, count: usize, random: &mut Random) -> Vec<u8> {
    let wild = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 5e-324, 1e300];
    (0..count)
        .flat_map(|i| {
            let smooth = (i as f64 / 40.0).sin() * 100.0;
            let value = if random.below(20) == 0 { wild[random.below(8)] } else { smooth };
            let bits = match kind {
                F64 => value.to_bits(),
                F32 => (value as f32).to_bits().into(),
                BF16 => ((value as f32).to_bits() >> 16).into(),
                F16 if random.below(9) == 0 => [0x7E00, 0xFC00, 0x8000, 0, 1][random.below(5)],
                F16 => 0x3C00 | ((i as u64 / 7) & 0x3FF),
                _ => value as i64 as u64,
            };
            bits.to_le_bytes()[..kind.size()].to_vec()
        })
        .collect()
}

#[test]
fn a_search_finds_what_a_scan_finds() {
    let mut random = Random(61);
    let limits = [-100.5, -99.0, -1.0, 0.0, -0.0, 0.25, 33.0, 99.99, 1e9, f64::INFINITY, f64::NEG_INFINITY];
    for kind in [I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64] {
        let data = numbers(kind, 5000, &mut random);
        for text in ["alacrity", "alacrity:bits=5", "alacrity:bits=12,data=1"] {
            let kept = Encoded::of(text, kind, &data);
            for low in limits {
                for high in limits {
                    let (low, high) = (Limit::Float(low), Limit::Float(high));
                    let keys = keys_between(kind, low, high);
                    let scan: Vec<(u32, Vec<u8>)> = data
                        .chunks_exact(kind.size())
                        .enumerate()
                        .filter(|(_, v)| keys.contains(&key_of(kind, v)))
                        .map(|(i, v)| (i as u32, v.to_vec()))
                        .collect();
                    assert!(kept.search(low, high).0 == scan, "{text} {kind:?} {low:?} {high:?}");
                }
            }
        }
    }
}

#[test]
fn a_narrow_range_reads_few_bytes_and_index_and_data_are_not_larger_than_the_data() {
    let data: Vec<u8> =
        (0..100_000).flat_map(|i| ((f64::from(i) / 3000.0).sin() * 100.0).to_le_bytes()).collect();
    let kept = Encoded::of("alacrity", F64, &data);
    assert!(kept.stored.len() < data.len(), "{}", kept.stored.len());
    let (found, bytes) = kept.search(Limit::Float(50.0), Limit::Float(50.5));
    assert!(found.len() > 100 && bytes < data.len() as u64 / 40, "{} found in {bytes} bytes", found.len());
}

#[test]
fn an_index_of_other_numbers_or_a_damaged_one_is_refused() {
    let data = numbers(F32, 3000, &mut Random(62));
    let kept = Encoded::of("alacrity", F32, &data);
    let form = StoredSubchunk {
        len: kept.stored.len() as u64,
        meta: kept.chain.meta(&kept.stored),
        decoded_len: data.len(),
    };
    let keys = keys_between(I32, Limit::Int(0), Limit::Int(9));
    let wrong = kept.chain.plan_search(&form, &Logical::numbers(I32, 3000), &keys);
    assert!(matches!(wrong, Err(TransformError::Corrupt { .. })));
    let mut out = vec![0; data.len()];
    // Bytes of version, width, class, bits, data, reserved, number of bins; count and list of the first bin.
    for at in [1, 2, 3, 4, 5, 6, 9, 17, 18, 21, 22] {
        let mut bad = kept.stored.clone();
        bad[at] ^= 0x41;
        assert!(kept.chain.decode(&bad, &kept.logical, &mut out, &mut Scratch::new()).is_err(), "byte {at}");
    }
    assert!(Chain::parse("alacrity:17").is_err() && Chain::parse("alacrity:data=2").is_err());
    assert_eq!(Chain::parse("alacrity:9,data=1").unwrap().canonical(), "alacrity:bits=9,data=1");
    assert_eq!(Chain::parse("alacrity").unwrap().canonical(), "alacrity");
}
