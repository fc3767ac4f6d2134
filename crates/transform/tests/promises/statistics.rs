//! Statistics and histograms equal a plain count, however the data is divided into parts.

use crate::random::Random;
use drystone_transform::histogram::{Histogram, MAX_BINS};
use drystone_transform::stats::{Domain, ScalarKind, Stats};

const KINDS: [(ScalarKind, usize); 13] = [
    (ScalarKind::Bool, 1),
    (ScalarKind::I8, 1),
    (ScalarKind::I16, 2),
    (ScalarKind::I32, 4),
    (ScalarKind::I64, 8),
    (ScalarKind::U8, 1),
    (ScalarKind::U16, 2),
    (ScalarKind::U32, 4),
    (ScalarKind::U64, 8),
    (ScalarKind::F16, 2),
    (ScalarKind::BF16, 2),
    (ScalarKind::F32, 4),
    (ScalarKind::F64, 8),
];

/// Half precision by its definition: sign * 2^exponent * fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match (exponent, bits & 1023) {
        (31, 0) => sign * f64::INFINITY,
        (31, _) => f64::NAN,
        (0, _) => sign * fraction * 2f64.powi(-24),
        _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// One scalar as an integer or as a float.
fn plain(kind: ScalarKind, raw: &[u8]) -> Result<i128, f64> {
    let mut wide = [0; 8];
    wide[..raw.len()].copy_from_slice(raw);
    let bits = u64::from_le_bytes(wide);
    match kind {
        ScalarKind::Bool => Ok(i128::from(bits != 0)),
        ScalarKind::I8 => Ok(i128::from(bits as i8)),
        ScalarKind::I16 => Ok(i128::from(bits as i16)),
        ScalarKind::I32 => Ok(i128::from(bits as i32)),
        ScalarKind::I64 => Ok(i128::from(bits as i64)),
        ScalarKind::F16 => Err(half(bits as u16)),
        ScalarKind::BF16 => Err(f64::from(f32::from_bits((bits as u32) << 16))),
        ScalarKind::F32 => Err(f64::from(f32::from_bits(bits as u32))),
        ScalarKind::F64 => Err(f64::from_bits(bits)),
        _ => Ok(i128::from(bits)),
    }
}

fn plain_stats(kind: ScalarKind, size: usize, bytes: &[u8]) -> Stats {
    let (mut ints, mut floats, mut nans) = (Vec::new(), Vec::new(), 0);
    for raw in bytes.chunks_exact(size) {
        match plain(kind, raw) {
            Ok(int) => ints.push(int),
            Err(float) if float.is_nan() => nans += 1,
            Err(float) => floats.push(float),
        }
    }
    ints.sort();
    floats.sort_by(f64::total_cmp);
    let (min, max) = match kind.domain() {
        Some(Domain::Float) => (floats.first().map(|x| x.to_bits()), floats.last().map(|x| x.to_bits())),
        _ => (ints.first().map(|&x| x as u64), ints.last().map(|&x| x as u64)),
    };
    Stats { min, max, nans, count: (bytes.len() / size) as u64 }
}

/// Bytes of several sorts: any bits, few values, small floats with zeros and NaN, very large ranges.
fn payload(kind: ScalarKind, size: usize, flavour: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let one = random.next();
    (0..count)
        .flat_map(|_| {
            let bits = match (flavour, kind) {
                (0, _) => random.next(),
                (1, _) => one,
                (2, ScalarKind::F64) => [0, 1 << 63, f64::NAN.to_bits(), 1][random.below(4)],
                (2, ScalarKind::F32) => [0, 1 << 31, u64::from(f32::NAN.to_bits()), 1][random.below(4)],
                (2, ScalarKind::F16) => [0, 1 << 15, 0x7E00, 1][random.below(4)],
                (2, ScalarKind::BF16) => [0, 1 << 15, 0x7FC0, 1][random.below(4)],
                (3, ScalarKind::F64) => (random.below(1000) as f64 * 0.37 - 100.0).to_bits(),
                (3, ScalarKind::F32) => u64::from((random.below(1000) as f32 * 0.37 - 100.0).to_bits()),
                (3, _) => random.next() % 100,
                (4, ScalarKind::F64) => {
                    [f64::MAX, f64::MIN, 1.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324, -5e-324]
                        [random.below(7)]
                    .to_bits()
                }
                (4, ScalarKind::F32) => u64::from(
                    [f32::MAX, f32::MIN, 1.0, f32::INFINITY, 1e-45, -1e-45][random.below(6)].to_bits(),
                ),
                (4, _) => [0, u64::MAX, u64::MAX >> 1, 1 << 63, 1][random.below(5)],
                _ => u64::MAX,
            };
            bits.to_le_bytes().into_iter().take(size).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn statistics_agree_with_sorting() {
    let mut random = Random(21);
    for (kind, size) in KINDS {
        for flavour in 0..=5 {
            for count in [0, 1, 2, 31, 127, 128, 129, 5000, 40_000] {
                let bytes = payload(kind, size, flavour, count, &mut random);
                let expected = plain_stats(kind, size, &bytes);
                assert_eq!(Stats::of(kind, &bytes), expected, "{kind:?}, flavour {flavour}, {count}");
            }
        }
    }
}

#[test]
fn negative_zero_lies_below_positive_zero_in_any_order() {
    for (values, min, max) in [
        (vec![0.0, -0.0], -0.0f64, 0.0f64),
        (vec![-0.0, 0.0], -0.0, 0.0),
        (vec![-0.0], -0.0, -0.0),
        (vec![0.0, f64::NAN], 0.0, 0.0),
        (vec![1.0, -0.0], -0.0, 1.0),
        (vec![-1.0, -0.0], -1.0, -0.0),
    ] {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let stats = Stats::of(ScalarKind::F64, &bytes);
        assert_eq!((stats.min, stats.max), (Some(min.to_bits()), Some(max.to_bits())), "{values:?}");
    }
}

#[test]
fn all_nan_has_no_extremes_and_other_kinds_have_no_statistics() {
    let bytes = f32::NAN.to_le_bytes().repeat(100);
    let expected = Stats { min: None, max: None, nans: 100, count: 100 };
    assert_eq!(Stats::of(ScalarKind::F32, &bytes), expected);
    assert_eq!(Stats::of(ScalarKind::Other, &bytes), Stats::default());
    assert_eq!(Histogram::of(ScalarKind::Other, &bytes, &Stats::default()), None);
    assert_eq!(Histogram::of(ScalarKind::F32, &bytes, &expected).unwrap().counts(), []);
}

#[test]
fn merged_statistics_are_those_of_the_whole() {
    let mut random = Random(22);
    for (kind, size) in KINDS {
        for flavour in 0..=5 {
            let bytes = payload(kind, size, flavour, 500, &mut random);
            let (left, right) = bytes.split_at(random.below(501) * size);
            let mut merged = Stats::of(kind, left);
            merged.merge(kind, &Stats::of(kind, right));
            assert_eq!(merged, Stats::of(kind, &bytes), "{kind:?}, {flavour}");
            let mut updated = Stats::of(kind, left);
            updated.update(kind, right);
            assert_eq!(updated, merged);
        }
    }
}

#[test]
fn every_value_is_counted_in_the_bin_whose_edges_enclose_it() {
    let mut random = Random(23);
    for (kind, size) in KINDS {
        for flavour in 0..=5 {
            for count in [1, 2, 50, 3000] {
                let bytes = payload(kind, size, flavour, count, &mut random);
                let histogram = Histogram::of(kind, &bytes, &Stats::of(kind, &bytes)).unwrap();
                assert!(histogram.counts().len() <= MAX_BINS);
                let mut expected = vec![0u64; histogram.counts().len()];
                let (mut below, mut above) = (0, 0);
                for raw in bytes.chunks_exact(size) {
                    let bin = match plain(kind, raw) {
                        Ok(int) => int >> histogram.exponent(),
                        Err(x) if x.is_nan() => continue,
                        Err(f64::INFINITY) => {
                            above += 1;
                            continue;
                        }
                        Err(f64::NEG_INFINITY) => {
                            below += 1;
                            continue;
                        }
                        // Exact: computed as an integer multiple of 2^-1074, shifted right.
                        Err(x) => exact_bin(x, histogram.exponent()),
                    };
                    expected[usize::try_from(bin - histogram.first()).unwrap()] += 1;
                }
                assert_eq!(histogram.counts(), expected, "{kind:?}, flavour {flavour}, {count}");
                assert_eq!(histogram.infinities(), (below, above));
            }
        }
    }
}

/// Floor of x / 2^k, computed from the parts of x without float arithmetic.
fn exact_bin(x: f64, k: i16) -> i128 {
    let bits = x.to_bits();
    let stored = (bits >> 52 & 0x7FF) as i32;
    let fraction = i128::from(bits & ((1 << 52) - 1)) + if stored == 0 { 0 } else { 1 << 52 };
    let signed = if bits >> 63 == 1 { -fraction } else { fraction };
    let shift = i32::from(k) - (stored.max(1) - 1075);
    if shift >= 0 { signed >> shift.min(100) } else { signed << -shift }
}

#[test]
fn merged_histograms_are_those_of_the_whole_bit_by_bit() {
    let mut random = Random(24);
    for (kind, size) in KINDS {
        for flavours in [[0, 0], [1, 3], [3, 4], [1, 1], [2, 3], [4, 1], [2, 2], [5, 3]] {
            let [left, right] = flavours.map(|f| payload(kind, size, f, 1 + random.below(300), &mut random));
            let whole = [left.clone(), right.clone()].concat();
            let histogram = |bytes: &[u8]| Histogram::of(kind, bytes, &Stats::of(kind, bytes)).unwrap();
            let mut merged = histogram(&left);
            merged.merge(&histogram(&right)).unwrap();
            assert_eq!(merged, histogram(&whole), "{kind:?}, {flavours:?}");
        }
    }
    let mut float = Histogram::of(ScalarKind::F64, &[], &Stats::default()).unwrap();
    let int = Histogram::of(ScalarKind::I64, &[], &Stats::default()).unwrap();
    assert!(float.merge(&int).is_err());
}

#[test]
fn an_encoded_histogram_decodes_to_itself_and_its_truncations_are_refused() {
    let mut random = Random(25);
    for (kind, size) in KINDS {
        for flavour in 0..=5 {
            for count in [0, 1, 700, 70_000] {
                let bytes = payload(kind, size, flavour, count, &mut random);
                let histogram = Histogram::of(kind, &bytes, &Stats::of(kind, &bytes)).unwrap();
                let mut encoded = Vec::new();
                histogram.encode(&mut encoded);
                assert_eq!(Histogram::decode(&encoded).unwrap(), histogram);
                for len in 0..encoded.len() {
                    assert!(Histogram::decode(&encoded[..len]).is_err());
                }
            }
        }
    }
}

#[test]
fn statistics_of_other_data_do_no_harm() {
    let mut random = Random(26);
    for (kind, size) in KINDS {
        for _ in 0..200 {
            let bytes = payload(kind, size, random.below(6), 40, &mut random);
            let (min, max) = (Some(random.next()), Some(random.next()));
            let wrong = Stats { min, max, nans: 0, count: 40 };
            let histogram = Histogram::of(kind, &bytes, &wrong).unwrap();
            let mut encoded = Vec::new();
            histogram.encode(&mut encoded);
            assert_eq!(Histogram::decode(&encoded), Ok(histogram));
        }
    }
}
