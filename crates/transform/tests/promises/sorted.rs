//! Sorted values are restored at their positions, and ranges of them are runs that hold the same hits as a scan.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::ops::Range;
use std::sync::Arc;

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{
    Chain, Companion, Fetched, Limit, Logical, Scratch, SearchHits, Sorted, StoredSubchunk, key_of,
    keys_between,
};

struct Encoded {
    chain: Chain,
    logical: Logical,
    data: Vec<u8>,
    /// A column of three bytes each: the number of the cell.
    column: Vec<u8>,
    stored: Vec<u8>,
    meta: Vec<u8>,
}

const NAME: [u8; Companion::NAME] = [7; Companion::NAME];

fn encoded(kind: ScalarKind, values: &[f64]) -> Encoded {
    let bytes = |x: &f64| match kind {
        ScalarKind::F32 => (*x as f32).to_le_bytes().to_vec(),
        ScalarKind::I16 => (*x as i16).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    let data: Vec<u8> = values.iter().flat_map(bytes).collect();
    let column: Vec<u8> = (0..values.len() as u32).flat_map(|n| n.to_le_bytes()[..3].to_vec()).collect();
    let logical = Logical { kind, ..Logical::scalars(kind.size(), values.len() as u64) };
    let sorted = Sorted::with(vec![(Companion { name: NAME, item: 3 }, column.clone())]).unwrap();
    let chain = Chain::from_codecs(vec![Arc::new(sorted)]).unwrap();
    let (mut stored, mut meta) = (Vec::new(), Vec::new());
    chain.encode_keeping(&data, &logical, &mut stored, &mut meta, &mut Scratch::new()).unwrap();
    Encoded { chain: Chain::parse("sorted").unwrap(), logical, data, column, stored, meta }
}

impl Encoded {
    fn form(&self) -> StoredSubchunk<'_> {
        StoredSubchunk { len: self.stored.len() as u64, meta: &self.meta, decoded_len: self.data.len() }
    }

    fn fetched(&self, ranges: &[Range<u64>]) -> Fetched<'_> {
        let run = |r: &Range<u64>| (r.start, &self.stored[r.start as usize..r.end as usize]);
        Fetched::new(ranges.iter().map(run).collect())
    }
}

#[test]
fn values_and_columns_of_every_range_are_those_of_a_scan() {
    let mut random = Random(5);
    for kind in [ScalarKind::F32, ScalarKind::F64, ScalarKind::I16] {
        for count in [2048usize, 4096, 4097, 20_000] {
            let mut values: Vec<f64> = (0..count).map(|_| random.below(5000) as f64 - 2000.0).collect();
            values[0] = -0.0;
            if kind != ScalarKind::I16 {
                (values[1], values[2]) = (f64::NAN, f64::NEG_INFINITY);
            }
            let one = encoded(kind, &values);
            let mut back = vec![0; one.data.len()];
            one.chain.decode(&one.stored, &one.logical, &mut back, &mut Scratch::new()).unwrap();
            assert!(back == one.data, "{kind:?}, {count}");
            let layout = one.chain.sorted(&one.form(), &one.logical).unwrap().unwrap();
            assert_eq!(layout.count(), count as u64);
            for (low, high) in [(-5.0, 5.0), (0.0, 0.0), (2900.0, 1e9), (-1e9, 1e9), (1e7, 1e8), (-1e8, -1e7)]
            {
                let keys = keys_between(kind, Limit::Float(low), Limit::Float(high));
                let width = kind.size();
                let each = one.data.chunks_exact(width);
                let mut wanted: Vec<u32> = (0..count as u32)
                    .zip(each)
                    .filter(|(_, value)| keys.contains(&key_of(kind, value)))
                    .map(|(n, _)| n)
                    .collect();
                let plan = one.chain.plan_search(&one.form(), &one.logical, &keys).unwrap().unwrap();
                let mut found = SearchHits::default();
                one.chain.search(&one.form(), &one.fetched(&plan), &one.logical, &keys, &mut found).unwrap();
                let mut places = found.positions.clone();
                places.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(places, wanted, "{kind:?}, {count}, {low}..{high}");
                for (place, value) in found.positions.iter().zip(found.values.chunks_exact(width)) {
                    assert_eq!(value, &one.data[*place as usize * width..][..width]);
                }
                let met = layout.meeting(&keys);
                assert!(met.end - met.start <= wanted.len() as u64 + 2 * 4096);
                let values = one.fetched(std::slice::from_ref(&layout.values(&met)));
                let some = layout.within(&met, &keys, &values).unwrap();
                assert_eq!(some.end - some.start, wanted.len() as u64);
                let column = &one.stored[{
                    let range = layout.companion(0, &some);
                    range.start as usize..range.end as usize
                }];
                for (place, value) in found.positions.iter().zip(column.chunks_exact(3)) {
                    assert_eq!(value, &one.column[*place as usize * 3..][..3]);
                }
            }
        }
    }
}

#[test]
fn damaged_heads_and_places_are_refused() {
    let values: Vec<f64> = (0..5000).map(|n| f64::from(n % 700)).collect();
    let one = encoded(ScalarKind::F32, &values);
    let mut back = vec![0; one.data.len()];
    // Restoring values does not use the fences, so only other bytes of the head are damaged.
    let head = 1 + 8 + 8 * 3 + 36;
    for at in (1..9).chain(head - 4..head) {
        let mut damaged = one.stored.clone();
        damaged[at] ^= 0x10;
        let decoded = one.chain.decode(&damaged, &one.logical, &mut back, &mut Scratch::new());
        assert!(decoded.is_err(), "byte {at}");
    }
    for at in head + 4 * 5000..head + 8 * 5000 {
        let mut damaged = one.stored.clone();
        damaged[at] ^= 1;
        let decoded = one.chain.decode(&damaged, &one.logical, &mut back, &mut Scratch::new());
        assert!(decoded.is_err(), "byte {at}");
        if at > head + 4 * 5000 + 400 {
            break;
        }
    }
    let short =
        one.chain.decode(&one.stored[..one.stored.len() - 1], &one.logical, &mut back, &mut Scratch::new());
    assert!(short.is_err());
}

#[test]
fn types_without_order_and_columns_that_do_not_fit_are_refused() {
    let chain = Chain::parse("sorted").unwrap();
    assert!(chain.check_takes(&Logical::scalars(4, 0)).is_err());
    assert!(Chain::parse("sorted:1").is_err());
    let column = |item| (Companion { name: NAME, item }, Vec::new());
    assert!(Sorted::with((0..65).map(|_| column(1)).collect()).is_err());
    assert!(Sorted::with(vec![column(1000), column(25)]).is_err());
    assert!(Sorted::with(vec![column(0)]).is_err());
    let short = Sorted::with(vec![(Companion { name: NAME, item: 2 }, vec![0; 3])]).unwrap();
    let chain = Chain::from_codecs(vec![Arc::new(short)]).unwrap();
    let logical = Logical { kind: ScalarKind::F32, ..Logical::scalars(4, 2) };
    assert!(chain.encode(&[0; 8], &logical, &mut Vec::new(), &mut Scratch::new()).is_err());
}
