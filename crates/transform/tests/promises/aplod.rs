//! APLOD restores every bit, and at every level gives values within the error that it states.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::ops::Range;

use crate::random::Random;
use drystone_transform::stats::ScalarKind::{self, *};
use drystone_transform::{
    Bound, Chain, Fetched, Logical, Precision, Scratch, StoredSubchunk, TransformError, Want,
};

const KINDS: [ScalarKind; 14] = [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, Other];

struct Encoded {
    chain: Chain,
    logical: Logical,
    stored: Vec<u8>,
    decoded_len: usize,
}

impl Encoded {
    fn of(text: &str, logical: &Logical, data: &[u8]) -> Encoded {
        let chain = Chain::parse(text).unwrap();
        let mut stored = Vec::new();
        chain.encode(data, logical, &mut stored, &mut Scratch::new()).unwrap();
        assert!(stored.len() <= chain.max_encoded_len(data.len()));
        let kept = Encoded { chain, logical: logical.clone(), stored, decoded_len: data.len() };
        let mut back = vec![0xA5; data.len()];
        kept.chain.decode(&kept.stored, logical, &mut back, &mut Scratch::new()).unwrap();
        assert!(back == data, "{text} {logical:?}: the whole");
        kept
    }

    /// Returns values, guaranteed error, and number of fetched bytes.
    fn read(&self, ranges: &[Range<u64>], precision: Precision) -> (Vec<u8>, Bound, u64) {
        let form = StoredSubchunk {
            len: self.stored.len() as u64,
            meta: self.chain.meta(&self.stored),
            decoded_len: self.decoded_len,
        };
        let want = Want { ranges, precision };
        let plan = self.chain.plan_read(&form, &self.logical, &want).unwrap();
        let run = |r: &Range<u64>| (r.start, &self.stored[r.start as usize..r.end as usize]);
        let fetched = Fetched::new(plan.ranges.iter().map(run).collect());
        let mut out = vec![0xA5; self.decoded_len];
        self.chain.decode_part(&form, &fetched, &self.logical, &want, &mut out, &mut Scratch::new()).unwrap();
        (out, plan.bound, plan.ranges.iter().map(|r| r.end - r.start).sum())
    }
}

/// Numbers of a kind; if `wild`, with all of its special values.
fn numbers(kind: ScalarKind, count: usize, wild: bool, random: &mut Random) -> Vec<u8> {
    let size = kind.size();
    let mut out = Vec::new();
    for i in 0..count {
        let smooth = (i as f64 / 50.0).sin() * 300.0;
        let bits = match (kind, wild && random.below(4) == 0) {
            (F64, true) => {
                [0, 1 << 63, 1, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF0_0000_0000_0001, 0x7FFF << 48, 0x000F << 48]
                    [random.below(8)]
            }
            (F32, true) => {
                [0, 0x8000_0000, 1, 0x7F80_0000, 0xFF80_0000, 0x7F80_0001, 0x7FC0_1234, 0x007F_FFFF]
                    [random.below(8)]
            }
            (F16, true) => [0, 0x8000, 1, 0x7C00, 0xFC00, 0x7C01, 0x7E55, 0x03FF][random.below(8)],
            (BF16, true) => [0, 0x8000, 1, 0x7F80, 0xFF80, 0x7F81, 0x7FC5, 0x007F][random.below(8)],
            (_, true) => [0, u64::MAX, 1, 1 << (8 * size - 1)][random.below(4)],
            (F64, _) => smooth.to_bits(),
            (F32, _) => u64::from((smooth as f32).to_bits()),
            (F16, _) => 0x3C00 + (i as u64 * 7) % 0x1000,
            (BF16, _) => u64::from((smooth as f32).to_bits() >> 16),
            _ => smooth as i64 as u64,
        };
        out.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    out
}

/// The value of a number; infinite or NaN for special values.
fn value(kind: ScalarKind, bytes: &[u8]) -> f64 {
    let bits = bytes.iter().rev().fold(0u64, |bits, &b| bits << 8 | u64::from(b));
    let shift = 64 - 8 * bytes.len();
    match kind {
        F64 => f64::from_bits(bits),
        F32 => f64::from(f32::from_bits(bits as u32)),
        BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
        F16 => {
            let (exponent, mantissa) = ((bits >> 10 & 31) as i32, (bits & 1023) as f64);
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            sign * match exponent {
                0 => mantissa * 2f64.powi(-24),
                31 if mantissa == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                e => (1.0 + mantissa / 1024.0) * 2f64.powi(e - 15),
            }
        }
        I8 | I16 | I32 | I64 => ((bits << shift) as i64 >> shift) as f64,
        _ => bits as f64,
    }
}

#[test]
fn every_bit_of_every_kind_comes_back_whole_and_in_parts() {
    let mut random = Random(31);
    for kind in KINDS {
        for text in [
            "aplod",
            "aplod:2,1,1,4",
            "aplod:1,1,1,1,1,1,1,1",
            "aplod:3,level=3",
            "isobar",
            "alacrity",
            "alacrity:6,data=1",
            "multilevel",
        ] {
            for count in [0, 1, 2, 63, 700, 5000] {
                for wild in [false, true] {
                    let mut data = numbers(kind, count, wild, &mut random);
                    data.extend(vec![7; random.below(kind.size())]);
                    let kept = Encoded::of(text, &Logical::numbers(kind, count as u64), &data);
                    for _ in 0..3 {
                        let mut cuts: Vec<u64> =
                            (0..4).map(|_| random.below(data.len() + 1) as u64).collect();
                        cuts.sort();
                        let ranges = [cuts[0]..cuts[1], cuts[2]..cuts[3]];
                        let (out, bound, _) = kept.read(&ranges, Precision::Exact);
                        assert_eq!(bound, Bound::EXACT);
                        for r in ranges {
                            let r = r.start as usize..r.end as usize;
                            assert!(out[r.clone()] == data[r], "{kind:?} {text} {count}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_level_is_within_its_stated_error_and_special_values_are_unchanged() {
    let mut random = Random(32);
    for kind in KINDS {
        for wild in [false, true] {
            for text in ["aplod", "aplod:1,1,1,1,1,1,1,1", "aplod:3", "multilevel"] {
                let data = numbers(kind, 3000, wild, &mut random);
                let all = [0..data.len() as u64; 1];
                let kept = Encoded::of(text, &Logical::numbers(kind, 3000), &data);
                let mut last = u64::MAX;
                for level in (1..=9).rev() {
                    let (out, bound, bytes) = kept.read(&all, Precision::Level(level));
                    let told = format!("{kind:?} {text} wild {wild} level {level}: {bound:?}");
                    assert!(bytes <= last && bound.absolute.is_finite(), "{told}");
                    last = bytes;
                    let zeros_stay = text.starts_with("aplod");
                    for (was, is) in data.chunks_exact(kind.size()).zip(out.chunks_exact(kind.size())) {
                        let (a, b) = (value(kind, was), value(kind, is));
                        if !a.is_finite() {
                            assert!(a == b || a.is_nan() && b.is_nan(), "{told}: {a} became {b}");
                            continue;
                        }
                        assert!((a - b).abs() <= bound.absolute, "{told}: {a} became {b}");
                        let allowed = if a == 0.0 { 0.0 } else { bound.relative * a.abs() };
                        assert!(
                            bound.relative.is_infinite() || (a - b).abs() <= allowed,
                            "{told}: {a} became {b}"
                        );
                        let float = matches!(kind, F16 | BF16 | F32 | F64);
                        assert!(!float || !zeros_stay || a != 0.0 || was == is, "{told}: a zero became {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn planes_and_lines_of_a_small_subchunk_are_what_the_whole_is_at_that_place() {
    let mut random = Random(33);
    let logical = Logical { shape: vec![8, 8, 8], ..Logical::numbers(F64, 512) };
    for wild in [false, true] {
        let data = numbers(F64, 512, wild, &mut random);
        for text in ["aplod", "aplod:1,1,6", "aplod:8"] {
            let kept = Encoded::of(text, &logical, &data);
            let all = std::iter::once(0..4096).collect::<Vec<_>>();
            for precision in [Precision::Level(1), Precision::Level(2), Precision::Exact] {
                let (whole, bound, _) = kept.read(&all, precision);
                let every = |step: usize, first: u64| -> Vec<Range<u64>> {
                    (first..512).step_by(step).map(|i| 8 * i..8 * i + 8).collect()
                };
                let line = std::iter::once(800..864).collect();
                for ranges in [every(8, 3), every(64, 9), every(2, 0), every(100, 99), line] {
                    let (part, own, _) = kept.read(&ranges, precision);
                    for range in &ranges {
                        let at = range.start as usize..range.end as usize;
                        assert!(part[at.clone()] == whole[at], "{text} {precision:?} {range:?}");
                    }
                    assert_eq!(own, bound);
                }
            }
        }
    }
}

#[test]
fn an_error_of_zero_means_every_bit() {
    // Numbers that need few leading bits, with one whose value is right before all its bits are.
    for (special, kind) in [((-0.0f64).to_bits(), F64), (0x7FF8_0000_0000_0001, F64)] {
        let mut data: Vec<u8> = (0..4000).flat_map(|i| f64::from(i % 5).to_le_bytes()).collect();
        data[800..808].copy_from_slice(&special.to_le_bytes());
        let all = [0..data.len() as u64; 1];
        for text in ["aplod", "multilevel"] {
            let kept = Encoded::of(text, &Logical::numbers(kind, 4000), &data);
            for precision in [Precision::Exact, Precision::Absolute(0.0), Precision::Relative(0.0)] {
                let (out, bound, _) = kept.read(&all, precision);
                assert!(out == data && bound == Bound::EXACT, "{text} {precision:?}");
            }
        }
    }
}

#[test]
fn an_error_that_is_asked_for_is_kept_with_few_bytes() {
    let data: Vec<u8> = (0..50_000u64)
        .flat_map(|i| {
            ((i as f64 / 900.0).sin() + (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / 9e25)
                .to_le_bytes()
        })
        .collect();
    let all = [0..data.len() as u64; 1];
    let kept = Encoded::of("aplod", &Logical::numbers(F64, 50_000), &data);
    let (_, _, exact) = kept.read(&all, Precision::Exact);
    let (_, bound, coarse) = kept.read(&all, Precision::Relative(0.04));
    assert!(bound.relative <= 0.03126 && bound.relative > 0.01, "{bound:?}");
    assert!(coarse * 5 < exact, "{coarse} of {exact} bytes");
    let (_, bound, finer) = kept.read(&all, Precision::Absolute(1e-6));
    assert!(bound.absolute <= 1e-6 && finer > coarse && finer < exact, "{bound:?}, {finer}");
    let (out, bound, most) = kept.read(&all, Precision::Absolute(0.0));
    assert!(bound == Bound::EXACT && most == exact && out == data);
    // A part of the elements costs a part of the bytes if components are raw.
    let (_, _, part) = kept.read(&[8000..16_000; 1], Precision::Exact);
    assert!(part < exact / 4, "{part} of {exact}");
}

#[test]
fn complex_numbers_are_bounded_part_by_part() {
    let data: Vec<u8> = (0..4000).flat_map(|i| ((i as f32).sqrt() - 20.0).to_le_bytes()).collect();
    let logical = Logical { item: 8, scalar: 4, kind: F32, shape: vec![2000] };
    let kept = Encoded::of("aplod", &logical, &data);
    let (out, bound, _) = kept.read(&[0..16_000; 1], Precision::Relative(0.01));
    assert!(bound.relative > 0.0 && bound.relative <= 0.0040, "{bound:?}");
    assert!(out != data);
}

#[test]
fn damaged_heads_are_refused() {
    let data = numbers(F64, 2000, true, &mut Random(33));
    let kept = Encoded::of("aplod", &Logical::numbers(F64, 2000), &data);
    let head = kept.chain.meta(&kept.stored).to_vec();
    assert_eq!(head.len(), 1 + 4 + 4 * 6 + 3 * 17);
    let all = [0..16_000; 1];
    let want = Want { ranges: &all, precision: Precision::Level(1) };
    let mut out = vec![0; data.len()];
    let refuse = |meta: &[u8], what: &str| {
        let form = StoredSubchunk { len: kept.stored.len() as u64, meta, decoded_len: data.len() };
        let plan = kept.chain.plan_read(&form, &kept.logical, &want);
        assert!(plan.is_err(), "{what}: {plan:?}");
    };
    for len in 1..head.len() {
        refuse(&head[..len], "a short head");
    }
    for (at, byte, what) in [
        (1, 0, "version 0"),
        (1, 2, "a newer version"),
        (2, 4, "width"),
        (3, 9, "class"),
        (4, 0, "no components"),
        (4, 9, "many components"),
        (5, 3, "a sum that is too large"),
        (6, 7, "a method"),
        (29, 2, "a fill"),
    ] {
        let mut bad = head.clone();
        bad[at] = byte;
        refuse(&bad, what);
        let mut stored = kept.stored.clone();
        stored[at] = byte;
        assert!(kept.chain.decode(&stored, &kept.logical, &mut out, &mut Scratch::new()).is_err(), "{what}");
    }
    let mut bad = head.clone();
    bad[30..38].copy_from_slice(&(-1.0f64).to_le_bytes());
    refuse(&bad, "an error below 0");
    assert!(matches!(Chain::parse("aplod:0"), Err(TransformError::BadParameter { .. })));
    assert!(matches!(Chain::parse("aplod:1,level=99"), Err(TransformError::BadParameter { .. })));
    assert_eq!(Chain::parse("aplod:2,2,level=3").unwrap().canonical(), "aplod:2,2,level=3");
}

#[test]
fn a_smooth_field_at_low_precision_costs_few_bytes() {
    let wave = |i: usize, j: usize| (i as f64 * 0.05).sin() * (j as f64 * 0.04).cos() * 100.0;
    let data: Vec<u8> =
        (0..200).flat_map(|i| (0..240).map(move |j| wave(i, j))).flat_map(f64::to_le_bytes).collect();
    let logical = Logical { shape: vec![200, 240], ..Logical::numbers(F64, 1) };
    let all = [0..data.len() as u64; 1];
    let levels = Encoded::of("multilevel", &logical, &data);
    let planes = Encoded::of("aplod", &logical, &data);
    for asked in [1.0, 1e-2, 1e-4] {
        let (out, bound, bytes) = levels.read(&all, Precision::Absolute(asked));
        let (_, _, other) = planes.read(&all, Precision::Absolute(asked));
        assert!(
            bound.absolute <= asked && bytes * 4 < other * 3,
            "{asked}: {bytes} of {} and {other}",
            data.len()
        );
        for (was, is) in data.chunks_exact(8).zip(out.chunks_exact(8)) {
            assert!((value(F64, was) - value(F64, is)).abs() <= bound.absolute);
        }
    }
}
