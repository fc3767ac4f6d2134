//! A chain decodes exactly what it encoded: whole or in parts, for every element size and length.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "lists of one byte range are what reading parts is about"
)]

use std::ops::Range;
use std::sync::Arc;

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{
    Bound, Chain, Codec, CodecSpec, Fetched, Limit, Logical, MAX_DECODED_LEN, Precision, Scratch, SearchHits,
    Shuffle, StoredSubchunk, TransformError, Transparent, Want, Zstd, keys_between,
};

const CHAINS: [&str; 15] = [
    "identity",
    "shuffle",
    "shuffle:3",
    "zstd:-7",
    "zstd",
    "shuffle,zstd:1",
    "zstd:1,shuffle,zstd:2",
    "shuffle:2,shuffle:4,shuffle:8,zstd:1",
    "isobar",
    "shuffle:4,isobar:1",
    "bitshuffle",
    "bitshuffle:2,shuffle:3",
    "shuffle,blosc:lz4:5:noshuffle,blocksize=256",
    "blosc:zstd:1:shuffle,blocksize=512,shuffle:5,isobar:1",
    "shuffle:8,bitshuffle:4,shuffle,blosc:zlib:1:noshuffle,blocksize=1024",
];

/// Half noise, half a slow ramp: some of it compresses at every length.
fn field(len: usize, random: &mut Random) -> Vec<u8> {
    (0..len).map(|i| if i / 64 % 2 == 0 { random.next() as u8 } else { (i / 256) as u8 }).collect()
}

#[test]
fn every_chain_gives_every_length_back_for_every_element_size() {
    let mut random = Random(1);
    let mut scratch = Scratch::new();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        for item in (1..=17).chain([24, 32, 33, 48, 64, 65, 1000]) {
            for len in [0, 1, 2, item - 1, item, 7 * item + 1, 64 * item, 5000, 5001] {
                let data = field(len, &mut random);
                let logical = Logical::scalars(item, (len / item) as u64);
                let mut stored = b"before".to_vec();
                chain.encode(&data, &logical, &mut stored, &mut scratch).unwrap();
                let stored = stored.strip_prefix(b"before").unwrap();
                assert!(stored.len() <= chain.max_encoded_len(len), "{text}, item {item}, length {len}");
                let mut back = vec![0xAA; len];
                chain.decode(stored, &logical, &mut back, &mut scratch).unwrap();
                assert!(back == data, "{text}, item {item}, length {len}");
            }
        }
    }
}

/// Plans a read, fetches only the planned bytes, and decodes them. Unwanted bytes may stay 0xAA.
fn read_part(
    chain: &Chain,
    stored: &[u8],
    meta: &[u8],
    decoded_len: usize,
    logical: &Logical,
    ranges: &[Range<u64>],
) -> Vec<u8> {
    let form = StoredSubchunk { len: stored.len() as u64, meta, decoded_len };
    let want = Want { ranges, precision: Precision::Exact };
    let plan = chain.plan_read(&form, logical, &want).unwrap();
    assert_eq!(plan.bound, Bound::EXACT);
    let run = |r: &Range<u64>| (r.start, &stored[r.start as usize..r.end as usize]);
    let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
    let mut out = vec![0xAA; decoded_len];
    chain.decode_part(&form, &fetched, logical, &want, &mut out, &mut Scratch::new()).unwrap();
    out
}

#[test]
fn a_planned_part_holds_the_wanted_bytes_with_and_without_kept_metadata() {
    let mut random = Random(2);
    let mut scratch = Scratch::new();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        for compressible in [true, false] {
            for item in [1, 3, 4, 8, 12, 16, 40] {
                let len = 1 + random.below(3000);
                let data = if compressible { vec![3; len] } else { field(len, &mut random) };
                let logical = Logical::scalars(item, (len / item) as u64);
                let (mut stored, mut kept) = (Vec::new(), Vec::new());
                chain.encode_keeping(&data, &logical, &mut stored, &mut kept, &mut scratch).unwrap();
                assert!(kept.starts_with(chain.meta(&stored)), "{text}");
                for _ in 0..20 {
                    let mut cuts: Vec<u64> = (0..4).map(|_| random.below(len + 1) as u64).collect();
                    cuts.sort();
                    let ranges = [cuts[0]..cuts[1], cuts[2]..cuts[3]];
                    for meta in [kept.as_slice(), &[]] {
                        let out = read_part(&chain, &stored, meta, len, &logical, &ranges);
                        for range in &ranges {
                            let range = range.start as usize..range.end as usize;
                            assert!(
                                out[range.clone()] == data[range],
                                "{text}, item {item}, {ranges:?} of {len}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn transparent_and_raw_subchunks_ask_only_for_what_a_part_needs() {
    let logical = Logical::scalars(4, 1000);
    let plan = |text: &str, data: &[u8], with_meta: bool, wanted: &[Range<u64>]| {
        let chain = Chain::parse(text).unwrap();
        let (mut stored, mut kept) = (Vec::new(), Vec::new());
        chain.encode_keeping(data, &logical, &mut stored, &mut kept, &mut Scratch::new()).unwrap();
        let meta = if with_meta { kept.as_slice() } else { &[] };
        let form = StoredSubchunk { len: stored.len() as u64, meta, decoded_len: data.len() };
        let plan = chain.plan_read(&form, &logical, &Want { ranges: wanted, precision: Precision::Exact });
        plan.unwrap().ranges.into_iter().map(|r| (r.start, r.end)).collect::<Vec<_>>()
    };
    let data = field(4000, &mut Random(3));
    assert_eq!(plan("identity", &data, false, &[40..48, 50..60]), [(40, 48), (50, 60)]);
    assert_eq!(
        plan("shuffle", &data, true, &[41..48; 1]),
        [(11, 13), (1011, 1013), (2011, 2013), (3011, 3013)]
    );
    assert_eq!(plan("shuffle", &data, true, &[0..8, 3992..4000]).len(), 5);
    assert_eq!(plan("shuffle", &data, true, &[0..4000; 1]), [(1, 4001)]);
    assert_eq!(plan("shuffle", &data, true, &[9..9; 1]), []);
    let noise: Vec<u8> = (0..4000).scan(Random(4), |r, _| Some(r.next() as u8)).collect();
    assert_eq!(plan("shuffle,zstd:3", &noise, true, &[10..20; 1]), [(11, 21)]);
    assert_eq!(plan("shuffle,zstd:3", &noise, false, &[10..20; 1]), [(0, 4001)]);
}

#[test]
fn a_part_goes_through_every_codec_of_a_chain_and_costs_a_part() {
    let numbers: Vec<u8> =
        (0..1u32 << 16).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 12).to_le_bytes()).collect();
    let logical = Logical::numbers(ScalarKind::U32, 1 << 16);
    for (text, most) in [
        ("bitshuffle,blosc:lz4:5:noshuffle,blocksize=512", 4),
        ("shuffle,blosc:zstd:3:noshuffle,blocksize=4096", 8),
        ("shuffle,shuffle:1,blosc:zstd:1:noshuffle,blocksize=2048", 8),
    ] {
        let chain = Chain::parse(text).unwrap();
        let (mut stored, mut meta) = (Vec::new(), Vec::new());
        chain.encode_keeping(&numbers, &logical, &mut stored, &mut meta, &mut Scratch::new()).unwrap();
        let form = StoredSubchunk { len: stored.len() as u64, meta: &meta, decoded_len: numbers.len() };
        let want = Want { ranges: &[100_000..100_400; 1], precision: Precision::Exact };
        let plan = chain.plan_read(&form, &logical, &want).unwrap();
        let read: u64 = plan.ranges.iter().map(|r| r.end - r.start).sum();
        assert!(read < stored.len() as u64 / most, "{text}: {read} of {}", stored.len());
        let part = read_part(&chain, &stored, &meta, numbers.len(), &logical, want.ranges);
        assert_eq!(part[100_000..100_400], numbers[100_000..100_400]);
        // Damaged metadata of any stage gives an error or wanted bytes of the right length, and never a panic.
        for bit in 0..meta.len() * 8 {
            let mut damaged = meta.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let form = StoredSubchunk { meta: &damaged, ..form };
            let Ok(plan) = chain.plan_read(&form, &logical, &want) else { continue };
            let run = |r: &Range<u64>| (r.start, &stored[r.start as usize..r.end as usize]);
            let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
            let mut out = vec![0; numbers.len()];
            drop(chain.decode_part(&form, &fetched, &logical, &want, &mut out, &mut Scratch::new()));
        }
    }
}

#[test]
fn rounding_before_a_codec_of_components_or_bins_leaves_it_its_precision_and_its_index() {
    let values: Vec<f32> = (0..1u32 << 15).map(|i| (i as f32 * 1e-3).sin() * 30.0).collect();
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let logical = Logical::numbers(ScalarKind::F32, values.len() as u64);
    let kept = |text: &str| {
        let chain = Chain::parse(text).unwrap();
        let (mut stored, mut meta) = (Vec::new(), Vec::new());
        chain.encode_keeping(&data, &logical, &mut stored, &mut meta, &mut Scratch::new()).unwrap();
        (chain, stored, meta)
    };
    let (chain, stored, meta) = kept("bitround:12,aplod");
    let form = StoredSubchunk { len: stored.len() as u64, meta: &meta, decoded_len: data.len() };
    let all = [0..data.len() as u64; 1];
    let bytes = |precision| {
        let plan = chain.plan_read(&form, &logical, &Want { ranges: &all, precision }).unwrap();
        (plan.ranges.iter().map(|r| r.end - r.start).sum::<u64>(), plan.bound)
    };
    let (exact, coarse) = (bytes(Precision::Exact), bytes(Precision::Absolute(0.2)));
    assert!(
        coarse.0 < exact.0 && coarse.1.absolute > 0.0 && coarse.1.absolute <= 0.2,
        "{coarse:?} {exact:?}"
    );
    let (chain, stored, meta) = kept("bitround:12,alacrity");
    assert!(chain.has_index());
    let form = StoredSubchunk { len: stored.len() as u64, meta: &meta, decoded_len: data.len() };
    let keys = keys_between(ScalarKind::F32, Limit::Float(29.0), Limit::Float(31.0));
    let plan = chain.plan_search(&form, &logical, &keys).unwrap().unwrap();
    let run = |r: &Range<u64>| (r.start, &stored[r.start as usize..r.end as usize]);
    let mut found = SearchHits::default();
    let fetched = Fetched::new(plan.iter().map(run).collect());
    chain.search(&form, &fetched, &logical, &keys, &mut found).unwrap();
    let expected = values.iter().filter(|v| **v >= 29.0).count();
    assert!(found.positions.len().abs_diff(expected) < 40 && found.positions.len() > 100);
    assert!(!Chain::parse("shuffle,alacrity").unwrap().has_index(), "shuffled bytes are no values");
}

#[test]
fn wanted_ranges_that_leave_the_subchunk_or_do_not_ascend_are_refused() {
    let (chain, logical) = (Chain::parse("shuffle").unwrap(), Logical::scalars(4, 10));
    let form = StoredSubchunk { len: 41, meta: &[0x1F], decoded_len: 40 };
    for ranges in [vec![0..41], vec![8..12, 4..6], vec![Range { start: 6, end: 5 }], vec![0..u64::MAX]] {
        let want = Want { ranges: &ranges, precision: Precision::Exact };
        assert!(matches!(chain.plan_read(&form, &logical, &want), Err(TransformError::InvalidArgument(_))));
    }
    let want = Want { ranges: &[0..4; 1], precision: Precision::Exact };
    assert!(chain.plan_read(&StoredSubchunk { len: 40, ..form }, &logical, &want).is_err());
    assert!(chain.plan_read(&StoredSubchunk { len: 42, ..form }, &logical, &want).is_err());
}

#[test]
fn noise_grows_by_one_byte_and_nothing_else_grows() {
    let mut scratch = Scratch::new();
    let noise: Vec<u8> = (0..100_000).scan(Random(5), |r, _| Some(r.next() as u8)).collect();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        for len in [0, 1, 15, 16, 1000, 100_000] {
            let mut stored = Vec::new();
            chain.encode(&noise[..len], &Logical::scalars(8, 1), &mut stored, &mut scratch).unwrap();
            assert_eq!(stored.len(), len + usize::from(!chain.is_identity()), "{text}, {len}");
        }
    }
}

#[test]
fn the_stored_zstd_frame_is_one_that_any_zstd_reads() {
    let data = vec![7u8; 10_000];
    let mut stored = Vec::new();
    let chain = Chain::parse("zstd:19").unwrap();
    chain.encode(&data, &Logical::scalars(1, 10_000), &mut stored, &mut Scratch::new()).unwrap();
    assert_eq!(stored[0], 0x1F);
    assert_eq!(zstd::bulk::decompress(&stored[1..], 10_000).unwrap(), data);
}

#[test]
fn the_examples_of_the_specification_are_what_is_stored() {
    let chain = Chain::parse("shuffle,zstd:3").unwrap();
    let stored = |data: &[u8]| {
        let mut stored = Vec::new();
        chain.encode(data, &Logical::scalars(4, 1), &mut stored, &mut Scratch::new()).unwrap();
        stored
    };
    assert_eq!(stored(&[0xAA, 0xBB, 0xCC, 0xDD]), [0x10, 0xAA, 0xBB, 0xCC, 0xDD]);
    assert!(stored(&[0; 4000]).starts_with(&[0x1F, 0xA0, 0x0F, 0, 0, 0x28, 0xB5, 0x2F, 0xFD]));
}

#[test]
fn a_subchunk_over_the_limit_is_refused_on_both_sides() {
    let logical = Logical::scalars(1, 1);
    let mut scratch = Scratch::new();
    let mut big = vec![0; MAX_DECODED_LEN + 1];
    for text in ["identity", "zstd:1"] {
        let chain = Chain::parse(text).unwrap();
        let mut out = b"kept".to_vec();
        let refused = chain.encode(&big, &logical, &mut out, &mut scratch);
        assert_eq!(refused, Err(TransformError::TooLarge { len: MAX_DECODED_LEN + 1 }));
        assert_eq!(out, b"kept");
        let refused = chain.decode(&[0x10], &logical, &mut big, &mut scratch);
        assert_eq!(refused, Err(TransformError::TooLarge { len: MAX_DECODED_LEN + 1 }));
    }
    let chain = Chain::parse("shuffle,zstd:1").unwrap();
    let data = &big[..MAX_DECODED_LEN];
    let mut stored = Vec::new();
    chain.encode(data, &Logical::scalars(8, 1), &mut stored, &mut scratch).unwrap();
    let mut back = vec![1; MAX_DECODED_LEN];
    chain.decode(&stored, &Logical::scalars(8, 1), &mut back, &mut scratch).unwrap();
    assert!(back == data && stored.len() < 10_000);
}

/// A third party's codec: an opaque codec that adds 1 to every byte.
#[derive(Debug)]
struct Increment;

impl Codec for Increment {
    fn spec(&self) -> CodecSpec {
        CodecSpec::named("increment")
    }
    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len
    }
    fn encode(
        &self,
        data: &[u8],
        _: &Logical,
        out: &mut Vec<u8>,
        _: &mut Scratch,
    ) -> Result<(), TransformError> {
        out.extend(data.iter().map(|byte| byte.wrapping_add(1)));
        Ok(())
    }
    fn decode(
        &self,
        encoded: &[u8],
        _: &Logical,
        out: &mut [u8],
        _: &mut Scratch,
    ) -> Result<(), TransformError> {
        if encoded.len() != out.len() {
            return Err(TransformError::Corrupt { what: "wrong length".into(), at: 0 });
        }
        out.iter_mut().zip(encoded).for_each(|(to, from)| *to = from.wrapping_sub(1));
        Ok(())
    }
    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}

#[test]
fn a_third_party_codec_works_in_a_chain() {
    let chain = Chain::from_codecs(vec![
        Arc::new(Shuffle::new()),
        Arc::new(Increment),
        Arc::new(Zstd::new(1).unwrap()),
    ])
    .unwrap();
    assert_eq!(chain.canonical(), "shuffle,increment,zstd:1");
    let data = vec![9; 999];
    let logical = Logical::scalars(4, 249);
    let (mut stored, mut back) = (Vec::new(), vec![0; 999]);
    chain.encode(&data, &logical, &mut stored, &mut Scratch::new()).unwrap();
    chain.decode(&stored, &logical, &mut back, &mut Scratch::new()).unwrap();
    assert_eq!(back, data);
    let nine: Vec<Arc<dyn Codec>> = (0..9).map(|_| Arc::new(Increment) as Arc<dyn Codec>).collect();
    assert!(Chain::from_codecs(nine).is_err());
}

#[test]
fn working_memory_is_reused_and_carries_nothing_over() {
    let mut shared = Scratch::new();
    let mut random = Random(6);
    for round in 0..200 {
        let chain = Chain::parse(CHAINS[random.below(CHAINS.len())]).unwrap();
        let len = random.below(20_000);
        let data = field(len, &mut random);
        let logical = Logical::scalars(1 + random.below(20), 1);
        let (mut with_shared, mut with_fresh) = (Vec::new(), Vec::new());
        chain.encode(&data, &logical, &mut with_shared, &mut shared).unwrap();
        chain.encode(&data, &logical, &mut with_fresh, &mut Scratch::new()).unwrap();
        assert!(with_shared == with_fresh, "round {round}: {}", chain.canonical());
        let _ = chain.decode(&with_shared[..with_shared.len() / 2], &logical, &mut vec![0; len], &mut shared);
        let mut back = vec![0; len];
        chain.decode(&with_fresh, &logical, &mut back, &mut shared).unwrap();
        assert!(back == data);
    }
}
