//! Each codec refuses truncated and mutated bytes, and false lengths, without a panic and without large allocations.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use crate::random::Random;
use drystone_transform::{Chain, Logical, Scratch, TransformError, fuzz_codec, fuzz_lz4};

const CODECS: &[&str] = &[
    "lz4",
    "zlib:6",
    "gzip:6",
    "bzip2:1",
    "szip:32",
    "szip:8:ec",
    "bitshuffle,lz4",
    "shuffle,bytedelta,zlib:1",
    "pcodec:8,dtype=f4",
    "pcodec:4,dtype=i2",
    "blosc:lz4:5:shuffle,blocksize=512",
    "blosc:zstd:3:bitshuffle,blocksize=1024",
    "blosc:zlib:6:noshuffle,blocksize=256",
    "aplod",
    "isobar:1",
    "isobar:6,solver=\"zlib\",order=\"row\"",
    "alacrity",
    "multilevel",
    "mloc",
    "mloc:order=\"P:1.1,S:4,V:3\"",
    #[cfg(feature = "zfp")]
    "zfp:dtype=f4",
];

fn field() -> Vec<u8> {
    (0..600u32)
        .flat_map(|i| ((i as f32 * 0.02).sin() as i32 as f32 + (i / 40) as f32).to_le_bytes())
        .collect()
}

fn stored(text: &str, data: &[u8], logical: &Logical) -> Vec<u8> {
    let mut stored = Vec::new();
    Chain::parse(text).unwrap().encode(data, logical, &mut stored, &mut Scratch::new()).unwrap();
    assert_eq!(stored[0], 0x1F, "{text} compresses this, so it is not stored raw");
    stored
}

#[test]
fn every_truncation_and_every_wrong_size_is_refused() {
    let logical = Logical::scalars(4, 600);
    let mut scratch = Scratch::new();
    for &text in CODECS {
        let chain = Chain::parse(text).unwrap();
        let bytes = stored(text, &field(), &logical);
        let mut out = vec![0; 2400];
        for len in 0..bytes.len() {
            let refused = chain.decode(&bytes[..len], &logical, &mut out, &mut scratch);
            assert!(
                matches!(refused, Err(TransformError::Corrupt { .. })),
                "{text}, {len} of {}",
                bytes.len()
            );
        }
        for len in [0, 1, 2396, 2399, 2401, 2404, 4800] {
            let logical = Logical::scalars(4, len as u64 / 4);
            let refused = chain.decode(&bytes, &logical, &mut vec![0; len], &mut scratch);
            assert!(refused.is_err(), "{text}, {len} bytes declared");
        }
        chain.decode(&bytes, &logical, &mut out, &mut scratch).unwrap();
        assert!(out == field());
    }
}

#[test]
fn bytes_after_the_end_are_refused() {
    for &text in CODECS {
        let logical = Logical::scalars(4, 600);
        let mut bytes = stored(text, &field(), &logical);
        bytes.push(0);
        let refused =
            Chain::parse(text).unwrap().decode(&bytes, &logical, &mut vec![0; 2400], &mut Scratch::new());
        assert!(refused.is_err(), "{text}");
    }
}

#[test]
fn mutations_of_every_codec_do_no_harm() {
    let rounds = if std::env::var_os("DRYSTONE_LONG").is_some() { 200_000 } else { 4_000 };
    let mut random = Random(51);
    for (pick, text) in drystone_transform::FUZZED_CODECS.iter().enumerate() {
        let logical = Logical::scalars(4, 600);
        let mut seeds = Vec::new();
        for data in [field(), vec![7; 2400], field()[..40].to_vec()] {
            let mut seed = vec![pick as u8, 4, data.len() as u8, (data.len() >> 8) as u8];
            let logical = Logical { shape: vec![data.len() as u64 / 4], ..logical.clone() };
            Chain::parse(text).unwrap().encode(&data, &logical, &mut seed, &mut Scratch::new()).unwrap();
            assert!(fuzz_codec(&seed), "the fuzz target reaches {text}, which takes what it made");
            seeds.push(seed);
        }
        for round in 0..rounds {
            let mut bytes = seeds[round % seeds.len()].clone();
            for _ in 0..=random.below(4) {
                let at = 4 + random.below(bytes.len() - 4);
                match random.below(7) {
                    0 => bytes[at] = random.next() as u8,
                    1 | 2 => bytes[at] ^= 1 << random.below(8),
                    3 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    4 => bytes.truncate(at.max(6)),
                    5 => bytes.insert(at, random.next() as u8),
                    _ => bytes[at] = bytes[4 + random.below(bytes.len() - 4)],
                }
            }
            fuzz_codec(&bytes);
        }
    }
}

#[test]
fn lz4_round_trips_within_any_limit() {
    let rounds = if std::env::var_os("DRYSTONE_LONG").is_some() { 500_000 } else { 20_000 };
    let mut random = Random(77);
    let mut taken = 0;
    for round in 0..rounds {
        let shift = random.below(8);
        let mut bytes = vec![(random.next() as u8) >> shift, 0, random.next() as u8];
        let longest = 1 << random.below(12);
        while bytes.len() < longest {
            let scale = random.below(9);
            let count = 1 + random.below(1 << scale);
            if random.below(3) == 0 {
                bytes.extend((0..count).map(|_| random.next() as u8));
            } else {
                let from = random.below(bytes.len());
                bytes.extend_from_within(from..bytes.len().min(from + count));
            }
        }
        if round % 100 == 0 {
            bytes[1] = random.next() as u8;
        }
        taken += usize::from(fuzz_lz4(&bytes));
    }
    assert!(taken > rounds / 3 && taken < rounds * 19 / 20, "{taken} of {rounds}");
}

#[test]
fn a_bomb_ends_where_the_declared_size_ends() {
    // 4 MiB of zeros, encoded by each codec itself and then declared to be 16 000 bytes.
    let zeros = vec![0; 4 << 20];
    let mut scratch = Scratch::new();
    for &text in CODECS {
        let chain = Chain::parse(text).unwrap();
        let bomb = stored(text, &zeros, &Logical::scalars(4, 1 << 20));
        let refused = chain.decode(&bomb, &Logical::scalars(4, 4000), &mut vec![0; 16_000], &mut scratch);
        assert!(matches!(refused, Err(TransformError::Corrupt { .. })), "{text}: {refused:?}");
    }
}
