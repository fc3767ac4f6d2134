//! Damaged, truncated and hostile bytes are refused without a panic and without large allocations.

use crate::random::Random;
use drystone_transform::histogram::Histogram;
use drystone_transform::stats::{ScalarKind, Stats};
use drystone_transform::{Chain, Logical, Scratch, TransformError, fuzz_decode};

const CHAINS: [&str; 4] = ["shuffle", "zstd:1", "shuffle,zstd:1", "zstd:1,shuffle,zstd:1"];

fn ramp() -> Vec<u8> {
    (0..600u32).flat_map(|i| (i / 3).to_le_bytes()).collect()
}

#[test]
fn every_truncation_is_refused() {
    let logical = Logical::scalars(4, 600);
    let mut scratch = Scratch::new();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        let mut stored = Vec::new();
        chain.encode(&ramp(), &logical, &mut stored, &mut scratch).unwrap();
        let mut out = vec![0; 2400];
        for len in 0..stored.len() {
            let refused = chain.decode(&stored[..len], &logical, &mut out, &mut scratch);
            assert!(matches!(refused, Err(TransformError::Corrupt { .. })), "{text}, {len}: {refused:?}");
        }
        stored.push(0);
        assert!(chain.decode(&stored, &logical, &mut out, &mut scratch).is_err(), "{text}, one byte more");
    }
}

#[test]
fn a_wrong_declared_size_is_refused() {
    let logical = Logical::scalars(4, 600);
    let mut scratch = Scratch::new();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        let mut stored = Vec::new();
        chain.encode(&ramp(), &logical, &mut stored, &mut scratch).unwrap();
        for len in [0, 1, 2399, 2401, 4800] {
            assert!(
                chain.decode(&stored, &logical, &mut vec![0; len], &mut scratch).is_err(),
                "{text}, {len}"
            );
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_or_gives_the_declared_size() {
    let logical = Logical::scalars(4, 600);
    let mut scratch = Scratch::new();
    for text in CHAINS {
        let chain = Chain::parse(text).unwrap();
        let mut stored = Vec::new();
        chain.encode(&ramp(), &logical, &mut stored, &mut scratch).unwrap();
        let mut out = vec![0; 2400];
        for bit in 0..stored.len() * 8 {
            stored[bit / 8] ^= 1 << (bit % 8);
            let result = chain.decode(&stored, &logical, &mut out, &mut scratch);
            assert!(bit >= 8 || result.is_err(), "{text}: mode byte {:#x} was taken", stored[0]);
            stored[bit / 8] ^= 1 << (bit % 8);
        }
        chain.decode(&stored, &logical, &mut out, &mut scratch).unwrap();
        assert_eq!(out, ramp());
    }
}

#[test]
fn a_hundred_thousand_mutations_do_no_harm() {
    let mut random = Random(11);
    let mut scratch = Scratch::new();
    let mut seeds = Vec::new();
    for (pick, text) in [
        "identity",
        "zstd:1",
        "shuffle",
        "shuffle,zstd:1",
        "zstd:1,shuffle:3",
        "zstd,shuffle,zstd",
        "aplod",
        "aplod:1,1,1,1",
        "isobar",
        "alacrity",
        "alacrity:data=1",
        "multilevel",
    ]
    .into_iter()
    .enumerate()
    {
        let data = &ramp()[..random.below(2400)];
        let mut seed = vec![pick as u8, 4];
        seed.extend((data.len() as u16).to_le_bytes());
        Chain::parse(text)
            .unwrap()
            .encode(data, &Logical::numbers(ScalarKind::F32, 1), &mut seed, &mut scratch)
            .unwrap();
        fuzz_decode(&seed);
        seeds.push(seed);
        seeds.push([&[0, 0, 0, 0], text.as_bytes()].concat());
    }
    for kind in [ScalarKind::F32, ScalarKind::U16, ScalarKind::I64] {
        let mut seed = vec![0; 4];
        Histogram::of(kind, &ramp(), &Stats::of(kind, &ramp())).unwrap().encode(&mut seed);
        seeds.push(seed);
    }
    for round in 0..100_000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            match random.below(6) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                3 => bytes.truncate(at.max(1)),
                4 => bytes.insert(at, random.next() as u8),
                _ => {
                    let from = random.below(bytes.len());
                    bytes[at] = bytes[from];
                }
            }
        }
        fuzz_decode(&bytes);
    }
}

#[test]
fn a_bomb_is_stopped_by_the_declared_size() {
    // 64 MiB of zeros in a few KiB. The frame states its true size, and is refused for it.
    let bomb = zstd::bulk::compress(&vec![0u8; 64 << 20], 1).unwrap();
    let mut stored = vec![0x1F];
    stored.extend(&bomb);
    let chain = Chain::parse("zstd").unwrap();
    let logical = Logical::scalars(1, 1);
    let mut out = vec![0; 16_000];
    let refused = chain.decode(&stored, &logical, &mut out, &mut Scratch::new());
    assert!(refused.unwrap_err().to_string().contains("declares 67108864 bytes, expected 16000"));

    // The same as an inner stage, whose declared length is bounded by what the codec could have produced.
    let chain = Chain::parse("zstd,zstd").unwrap();
    for inner in [u32::MAX, 64 << 20, 17_000] {
        let stored = [&[0x1F], inner.to_le_bytes().as_slice(), &bomb].concat();
        let refused = chain.decode(&stored, &logical, &mut out, &mut Scratch::new());
        assert!(refused.unwrap_err().to_string().contains("are possible"), "{inner}");
    }
}

#[test]
fn frames_that_are_not_one_whole_sized_frame_are_refused() {
    let chain = Chain::parse("zstd").unwrap();
    let logical = Logical::scalars(1, 1);
    let half = zstd::bulk::compress(&[5; 500], 1).unwrap();
    let two = [&[0x1F], half.as_slice(), &half].concat();
    let skippable = [&[0x1F, 0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 1, 2, 3, 4], half.as_slice()].concat();
    let unsized_frame =
        [&[0x1F], zstd::stream::encode_all([5u8; 1000].as_slice(), 1).unwrap().as_slice()].concat();
    let no_magic = [0x1F, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    for (stored, part) in [
        (two, "declares 500 bytes"),
        (skippable, "not a zstd frame"),
        (unsized_frame, "does not declare"),
        (no_magic.to_vec(), "not a zstd frame"),
    ] {
        let refused = chain.decode(&stored, &logical, &mut [0; 1000], &mut Scratch::new());
        assert!(refused.clone().unwrap_err().to_string().contains(part), "{refused:?}");
    }
    let trailing = [&[0x1F], half.as_slice(), b"x"].concat();
    let refused = chain.decode(&trailing, &logical, &mut [0; 500], &mut Scratch::new());
    assert!(refused.unwrap_err().to_string().contains("ends after"));
}

#[test]
fn a_newer_version_is_told_apart_from_damage() {
    let chain = Chain::parse("zstd").unwrap();
    let logical = Logical::scalars(1, 1);
    let mut scratch = Scratch::new();
    let newer = chain.decode(&[0x20, 1], &logical, &mut [0], &mut scratch);
    assert!(matches!(newer, Err(TransformError::Unsupported { .. })));
    for mode in [0x00, 0x0F, 0x11, 0x1E] {
        let damaged = chain.decode(&[mode, 1], &logical, &mut [0], &mut scratch);
        assert!(matches!(damaged, Err(TransformError::Corrupt { .. })), "{mode:#x}");
    }
}
