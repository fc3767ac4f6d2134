//! Every codec restores every kind of number, exactly or within the bound it states, and its output keeps the length
//! bound.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use crate::random::Random;
use drystone_transform::stats::ScalarKind::{self, *};
use drystone_transform::{Chain, Logical, Scratch, TransformError};

const KINDS: [(&str, ScalarKind, usize); 13] = [
    ("i1", I8, 1),
    ("i2", I16, 2),
    ("i4", I32, 4),
    ("i8", I64, 8),
    ("u1", U8, 1),
    ("u2", U16, 2),
    ("u4", U32, 4),
    ("u8", U64, 8),
    ("f2", F16, 2),
    ("bf2", BF16, 2),
    ("f4", F32, 4),
    ("f8", F64, 8),
    ("bool", Bool, 1),
];

/// Chains that accept any bytes.
const ANY: [&str; 26] = [
    "bitshuffle",
    "bitshuffle:3",
    "delta",
    "delta:2",
    "bytedelta",
    "lorenzo",
    "lorenzo:1",
    "lorenzo:2,shuffle,zstd:1",
    "shuffle,bytedelta,zstd:1",
    "delta,shuffle,zstd:1",
    "bitshuffle,lz4",
    "lz4",
    "lz4:acceleration=8",
    "blosc:lz4:1:bitshuffle",
    "zlib",
    "zlib:0",
    "zlib:1",
    "gzip:1",
    "gzip:9",
    "bzip2:1",
    "szip",
    "szip:8:ec",
    "blosc",
    "blosc:zstd:3:bitshuffle",
    "blosc:zlib:4:noshuffle,blocksize=512",
    "blosc:lz4:0:shuffle",
];

/// Chains that interpret numbers.
const BY_KIND: [&str; 12] = [
    "aplod",
    "aplod:1,1,1,1",
    "isobar",
    "isobar:6,solver=\"zlib\",order=\"row\"",
    "alacrity",
    "alacrity:data=1",
    "multilevel",
    "mloc",
    "mloc:order=\"P:1.1,S:4,V:3\"",
    "mloc:order=\"S:8\"",
    "lorenzo,szip",
    "bitround:52,mloc",
];

/// Numbers of `size` bytes, of several sorts: constant, a ramp, a rough field, noise, and noise among equal values.
fn numbers(manner: usize, size: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let mut data: Vec<u8> = (0..len.div_ceil(size))
        .flat_map(|i| {
            let value = match manner {
                0 => 0x4048_F5C3_4048_F5C3,
                1 => i as u64 * 3,
                2 => f64::to_bits((i as f64 * 0.01).sin() + random.below(16) as f64 * 1e-9),
                3 => random.next(),
                _ if i % 7 == 0 => random.next(),
                _ => u64::MAX,
            };
            let bytes = value.to_le_bytes();
            if manner == 2 { bytes[8 - size..].to_vec() } else { bytes[..size].to_vec() }
        })
        .collect();
    data.truncate(len);
    data
}

fn stored(chain: &Chain, data: &[u8], logical: &Logical, scratch: &mut Scratch) -> Vec<u8> {
    let mut stored = b"before".to_vec();
    chain.encode(data, logical, &mut stored, scratch).unwrap();
    stored.split_off(6)
}

fn shapes(count: usize) -> Vec<Vec<u64>> {
    let count = count as u64;
    match count {
        0 => vec![vec![0], vec![3, 0]],
        1 => vec![vec![], vec![1, 1, 1]],
        _ if count.is_multiple_of(6) => vec![vec![count], vec![count / 6, 2, 3], vec![2, count / 2]],
        _ => vec![vec![count], vec![count, 1]],
    }
}

#[test]
fn every_codec_gives_every_kind_of_number_back_in_every_shape() {
    let mut random = Random(41);
    let mut scratch = Scratch::new();
    for text in ANY {
        let chain = Chain::parse(text).unwrap();
        // These codecs depend on widths, not kinds, so one kind of each width suffices.
        for (name, _, size) in KINDS.into_iter().take(4) {
            for components in [1, 2] {
                let item = size * components;
                for count in [0, 1, 7, 636] {
                    for manner in 0..5 {
                        let data = numbers(manner, size, item * count, &mut random);
                        for shape in shapes(count) {
                            let logical = Logical { scalar: size, shape, ..Logical::scalars(item, 0) };
                            let case = format!("{text}, {components} x {name}, manner {manner}");
                            comes_back(&chain, &data, &logical, &mut scratch, &case);
                        }
                    }
                }
            }
        }
    }
}

/// Checks that stored data is decoded to itself.
fn comes_back(chain: &Chain, data: &[u8], logical: &Logical, scratch: &mut Scratch, case: &str) {
    let bytes = stored(chain, data, logical, scratch);
    let mut back = vec![0xAA; data.len()];
    chain.decode(&bytes, logical, &mut back, scratch).unwrap();
    assert!(back == data, "{case}, {logical:?}");
}

#[test]
fn codecs_that_sort_by_value_give_every_kind_of_number_back_in_every_shape() {
    let mut random = Random(43);
    let mut scratch = Scratch::new();
    for text in BY_KIND {
        let chain = Chain::parse(text).unwrap();
        for (name, kind, size) in KINDS {
            for components in [1, 2] {
                let item = size * components;
                for count in [0, 1, 7, 636] {
                    for manner in 0..5 {
                        // Noise contains NaNs with every payload, infinities, zeros of both signs, and subnormal
                        // numbers.
                        let data = numbers(manner, size, item * count, &mut random);
                        for shape in shapes(count) {
                            let logical = Logical { item, scalar: size, kind, shape };
                            if chain.check_takes(&logical).is_err() {
                                assert!(text.starts_with("bitround") && name.starts_with(['i', 'u', 'b']));
                                continue;
                            }
                            let case = format!("{text}, {components} x {name}, manner {manner}");
                            comes_back(&chain, &data, &logical, &mut scratch, &case);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn lengths_that_are_no_whole_elements_come_back_too() {
    let mut random = Random(42);
    let mut scratch = Scratch::new();
    for text in ANY.into_iter().chain(["pcodec:8,dtype=f4", "pcodec:1,dtype=i8,delta=1"]) {
        let chain = Chain::parse(text).unwrap();
        for _ in 0..60 {
            let item = 1 + random.below(17);
            let len = random.below(3000);
            let data = numbers(random.below(5), 1 + random.below(8), len, &mut random);
            let scalar = [1, 2, 4, 8, item][random.below(5)];
            let logical = Logical { scalar, ..Logical::scalars(item, (len / item) as u64) };
            let bytes = stored(&chain, &data, &logical, &mut scratch);
            let mut back = vec![0; len];
            chain.decode(&bytes, &logical, &mut back, &mut scratch).unwrap();
            assert!(back == data, "{text}, {len} bytes of {logical:?}");
        }
    }
}

#[test]
fn pcodec_gives_every_bit_of_numbers_back_nan_payloads_and_zero_signs_included() {
    let mut random = Random(43);
    let mut scratch = Scratch::new();
    for (name, kind, size) in KINDS {
        for level in [0, 4, 8] {
            let chain = Chain::parse(&format!("pcodec:{level}")).unwrap();
            if matches!(kind, I8 | U8 | Bool) {
                let message = chain.check_takes(&Logical::numbers(kind, 3)).unwrap_err().to_string();
                assert!(message.contains("use zstd"), "{name}: {message}");
                continue;
            }
            for components in [1, 2, 3] {
                for count in [0, 1, 300, 6000] {
                    for manner in 0..5 {
                        let data = numbers(manner, size, size * components * count, &mut random);
                        let item = size * components;
                        let logical = Logical { item, ..Logical::numbers(kind, count as u64) };
                        let bytes = stored(&chain, &data, &logical, &mut scratch);
                        let mut back = vec![0; data.len()];
                        chain.decode(&bytes, &logical, &mut back, &mut scratch).unwrap();
                        assert!(
                            back == data,
                            "{name} x {components}, level {level}, {count}, manner {manner}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_output_of_every_codec_keeps_the_bound_that_decoding_demands() {
    // In the middle of a chain, an output above its bound could be written but not read, so chains of two codecs are
    // tested.
    let mut random = Random(44);
    let mut scratch = Scratch::new();
    for text in ANY.into_iter().chain(["pcodec:8,dtype=f4", "pcodec:12,dtype=u8", "pcodec:0,dtype=u2"]) {
        let chain = Chain::parse(&format!("{text},zstd:1")).unwrap();
        for count in [1, 3, 33, 5000] {
            for manner in 0..5 {
                // Noise that zstd shrinks, since half of it is zeros, so that the chain is not stored raw.
                let mut data = numbers(manner, 8, 8 * count, &mut random);
                if manner == 3 {
                    data.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = 0);
                }
                for shape in [vec![count as u64], vec![count as u64, 1]] {
                    let logical = Logical { shape, ..Logical::scalars(8, 0) };
                    let bytes = stored(&chain, &data, &logical, &mut scratch);
                    let mut back = vec![0; data.len()];
                    chain.decode(&bytes, &logical, &mut back, &mut scratch).unwrap();
                    assert!(back == data, "{text}, {count}, manner {manner}");
                }
            }
        }
    }
}

#[test]
fn rounded_floats_stay_within_the_stated_bound_and_decode_to_themselves() {
    let mut random = Random(45);
    let mut scratch = Scratch::new();
    for keep in [0, 3, 7, 12, 22, 23] {
        let chain = Chain::parse(&format!("bitround:{keep},dtype=f4,shuffle,zstd:1")).unwrap();
        let mut values: Vec<f32> = (0..5000).map(|_| f32::from_bits(random.next() as u32)).collect();
        values.extend([
            0.0,
            -0.0,
            f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MIN_POSITIVE,
            f32::MAX,
            1e-45,
        ]);
        let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let logical = Logical::scalars(4, values.len() as u64);
        let bytes = stored(&chain, &data, &logical, &mut scratch);
        let mut back = vec![0; data.len()];
        chain.decode(&bytes, &logical, &mut back, &mut scratch).unwrap();
        for (x, bytes) in values.iter().zip(back.as_chunks().0) {
            let y = f32::from_le_bytes(*bytes);
            if !x.is_finite() || *x == 0.0 {
                assert_eq!(x.to_bits(), y.to_bits());
                continue;
            }
            let scale = f64::from(x.abs().max(f32::MIN_POSITIVE));
            let bound = scale * 2f64.powi(-keep - 1);
            assert!((f64::from(*x) - f64::from(y)).abs() <= bound, "{x} keeping {keep}: {y}");
        }
        let again = stored(&chain, &back, &logical, &mut scratch);
        let mut twice = vec![0; data.len()];
        chain.decode(&again, &logical, &mut twice, &mut scratch).unwrap();
        assert!(twice == back, "rounding what was rounded changes nothing");
    }
}

#[test]
fn a_codec_that_cannot_take_the_data_says_what_can() {
    for (text, part) in [
        ("bitround", "there is no default"),
        ("bitround:3,dtype=i4", "floating-point numbers only"),
        ("bitround:60", "allowed are 0 to 52"),
        ("pcodec:13", "allowed are 0 to 12"),
        ("delta:3", "allowed are 1, 2, 4 and 8"),
        ("szip:7", "even numbers of pixels"),
        ("szip:64", "allowed are 2 to 32"),
        ("szip:32:xx", "allowed are nn, ec"),
        ("zlib:10", "level 10 is out of range, allowed are -1 to 9"),
        ("zlib:1,level=2", "given twice"),
        ("zlib:speed=2", "it takes level"),
        ("lz4:70000", "allowed are 0 to 65537"),
        ("blosc:blosclz", "use lz4 or zstd"),
        ("blosc:lz4hc", "use zstd"),
        ("blosc:lz4:11", "allowed are 0 to 9"),
        ("blosc:lz4:5:nibbles", "noshuffle, shuffle, bitshuffle"),
        ("blosc:lz4:5:1,blocksize=3", "too small"),
    ] {
        let message = Chain::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    for text in ["bitround:3", "pcodec"] {
        // of what is no number
        let chain = Chain::parse(text).unwrap();
        let refused = chain.encode(&[0; 64], &Logical::scalars(4, 16), &mut Vec::new(), &mut Scratch::new());
        assert!(matches!(refused, Err(TransformError::BadParameter { .. })), "{text}: {refused:?}");
    }
}

#[test]
fn recorded_parameters_make_the_same_codec_again() {
    for (given, recorded) in [
        ("zlib", "zlib:6"),
        ("zlib:-1", "zlib:6"),
        ("gzip:level=9", "gzip:9"),
        ("bzip2", "bzip2:9"),
        ("LZ4", "lz4"),
        ("lz4:0", "lz4"),
        ("lz4:7", "lz4:acceleration=7"),
        ("szip", "szip:32"),
        ("szip:16,coding=ec", "szip:16,\"ec\""),
        ("bitshuffle:4", "bitshuffle:4"),
        ("bitround:7,dtype=f4", "bitround:7,dtype=\"f4\""),
        ("pcodec", "pcodec:8"),
        ("pcodec:4,dtype=f8,delta=2", "pcodec:4,dtype=\"f8\",delta=2"),
        ("blosc", "blosc:\"lz4\",5,\"shuffle\""),
        ("blosc:zstd:3:2,blocksize=4096", "blosc:\"zstd\",3,\"bitshuffle\",blocksize=4096"),
    ] {
        let chain = Chain::parse(given).unwrap();
        assert_eq!(chain.canonical(), recorded);
        assert_eq!(Chain::parse(recorded).unwrap().canonical(), recorded);
    }
}
