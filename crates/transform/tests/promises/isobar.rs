//! ISOBAR compresses exactly the columns that are compressible.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Chain, Fetched, Logical, Precision, Scratch, StoredSubchunk, Want};

/// Numbers with smooth leading bytes, and noise in the last four.
fn measured(count: usize) -> Vec<u8> {
    let mut random = Random(41);
    let value = |i: usize, noise: u64| ((i as f64 / 3000.0).sin() * 9.0).to_bits() >> 32 << 32 | noise >> 32;
    (0..count).flat_map(|i| value(i, random.next()).to_le_bytes()).collect()
}

fn stored(text: &str, data: &[u8]) -> Vec<u8> {
    let mut stored = Vec::new();
    let logical = Logical::numbers(ScalarKind::F64, data.len() as u64 / 8);
    Chain::parse(text).unwrap().encode(data, &logical, &mut stored, &mut Scratch::new()).unwrap();
    stored
}

#[test]
fn noise_is_left_alone_and_the_rest_compressed() {
    let data = measured(50_000);
    let bytes = stored("isobar", &data);
    assert_eq!(bytes[..4], [0x1F, 1, 8, 0xE0], "mode, version, width, columns");
    let frame = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
    assert_eq!(bytes.len(), 8 + frame + 5 * 50_000);
    assert!(frame < 60_000, "{frame}");
    assert!(bytes.len() <= stored("shuffle,zstd:3", &data).len() + 1000);
    // All noise is stored raw. Equal numbers become one frame.
    let noise: Vec<u8> = (0..80_000).scan(Random(5), |r, _| Some(r.next() as u8)).collect();
    assert_eq!(stored("isobar", &noise)[0], 0x10);
    assert_eq!(stored("isobar", &[7; 80_000])[3], 0xFF);
}

#[test]
fn a_part_takes_the_frame_and_a_part_of_each_raw_column() {
    let data = measured(50_000);
    let bytes = stored("isobar", &data);
    let frame = u64::from(u32::from_le_bytes(bytes[4..8].try_into().unwrap()));
    let (chain, logical) = (Chain::parse("isobar").unwrap(), Logical::numbers(ScalarKind::F64, 50_000));
    let form = StoredSubchunk { len: bytes.len() as u64, meta: chain.meta(&bytes), decoded_len: data.len() };
    let want = Want { ranges: &[8000..16_000; 1], precision: Precision::Exact };
    let plan = chain.plan_read(&form, &logical, &want).unwrap();
    assert_eq!(plan.ranges.iter().map(|r| r.end - r.start).sum::<u64>(), frame + 5 * 1000);
    let run = |r: &std::ops::Range<u64>| (r.start, &bytes[r.start as usize..r.end as usize]);
    let mut out = vec![0; data.len()];
    let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
    chain.decode_part(&form, &fetched, &logical, &want, &mut out, &mut Scratch::new()).unwrap();
    assert_eq!(out[8000..16_000], data[8000..16_000]);
}

#[test]
fn the_solver_and_its_order_are_given_or_chosen_for_the_least_bytes() {
    let data = measured(50_000);
    let logical = Logical::numbers(ScalarKind::F64, 50_000);
    let mut sizes = Vec::new();
    for text in [
        "isobar:6,solver=zstd,order=column",
        "isobar:6,solver=zlib",
        "isobar:6,order=row",
        "isobar:6,solver=zlib,order=row",
    ] {
        let bytes = stored(text, &data);
        let chain = Chain::parse(text).unwrap();
        assert_eq!(Chain::parse(&chain.canonical()).unwrap().canonical(), chain.canonical());
        let mut back = vec![0; data.len()];
        chain.decode(&bytes, &logical, &mut back, &mut Scratch::new()).unwrap();
        assert!(back == data, "{text}");
        let form =
            StoredSubchunk { len: bytes.len() as u64, meta: chain.meta(&bytes), decoded_len: data.len() };
        let want = Want { ranges: &[800..1600; 1], precision: Precision::Exact };
        let plan = chain.plan_read(&form, &logical, &want).unwrap();
        let run = |r: &std::ops::Range<u64>| (r.start, &bytes[r.start as usize..r.end as usize]);
        let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
        let mut out = vec![0; data.len()];
        chain.decode_part(&form, &fetched, &logical, &want, &mut out, &mut Scratch::new()).unwrap();
        assert_eq!(out[800..1600], data[800..1600], "{text}");
        // Any parameters of the codec decode it, since the head states how it was encoded.
        Chain::parse("isobar").unwrap().decode(&bytes, &logical, &mut back, &mut Scratch::new()).unwrap();
        sizes.push(bytes.len());
        for len in 0..40.min(bytes.len()) {
            assert!(chain.decode(&bytes[..len], &logical, &mut back, &mut Scratch::new()).is_err());
        }
    }
    let chosen = stored("isobar:6,prefer=ratio", &data).len();
    let least = *sizes.iter().min().unwrap();
    assert!(chosen <= least + least / 50, "{chosen} of {sizes:?}");
    assert_eq!(stored("isobar:6,prefer=speed", &data).len(), sizes[0]);
}

#[test]
fn damaged_heads_are_refused() {
    let data = measured(5000);
    let bytes = stored("isobar", &data);
    let (chain, logical) = (Chain::parse("isobar").unwrap(), Logical::numbers(ScalarKind::F64, 5000));
    let mut out = vec![0; data.len()];
    for (at, byte) in
        [(1, 0), (1, 9), (2, 0), (2, 7), (2, 200), (3, 0), (3, 0x70), (3, 0xF8), (4, 1), (7, 255)]
    {
        let mut bad = bytes.clone();
        bad[at] = byte;
        assert!(chain.decode(&bad, &logical, &mut out, &mut Scratch::new()).is_err(), "byte {at} is {byte}");
    }
}
