//! The loss that a chain states is never less than its real loss.
//!
//! Symptom: a variable of `zfp:precision=16` was read with a guaranteed error of 0 while its values were off by 0.19.
//! Cause: bounds were relative to the stored values, so the loss of a codec during encoding was in no bound. Here the
//! original data is compared with the decoded data, for every lossy codec, and for numbers of all magnitudes.

use crate::random::Random;
use drystone_transform::stats::{Magnitudes, ScalarKind, Stats};
use drystone_transform::{
    Bound, Chain, Codec, CodecSpec, Fetched, Logical, Precision, Scratch, StoredSubchunk, Want,
};

use ScalarKind::{BF16, F16, F32, F64};

fn bits(kind: ScalarKind, x: f64) -> Vec<u8> {
    match kind {
        F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
        BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
        F32 => (x as f32).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    }
}

fn values(kind: ScalarKind, bytes: &[u8]) -> Vec<f64> {
    let one = |b: &[u8]| match kind {
        F16 => half::f16::from_le_bytes([b[0], b[1]]).to_f64(),
        BF16 => half::bf16::from_le_bytes([b[0], b[1]]).to_f64(),
        F32 => f32::from_bits(b.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))).into(),
        _ => f64::from_bits(b.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))),
    };
    bytes.chunks_exact(kind.size()).map(one).collect()
}

/// Numbers of one sort: smooth, noise around 20, any bits, subnormal, powers of all sizes, or constant.
fn numbers(kind: ScalarKind, manner: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let one = |i: usize, random: &mut Random| {
        let noise = random.next() as f64 / u64::MAX as f64;
        match manner {
            0 => bits(kind, (i as f64 * 0.01).sin() * 30.0),
            1 => bits(kind, 20.0 + noise),
            2 => random.next().to_le_bytes()[..kind.size()].to_vec(),
            3 => bits(kind, kind.least_normal() * (noise - 0.5) * 3.0),
            4 => bits(kind, (noise - 0.5) * 2f64.powi((random.next() % 60) as i32 - 30)),
            5 => bits(kind, if i.is_multiple_of(7) { f64::NAN } else { noise }),
            6 => bits(kind, if i == 3 { f64::NEG_INFINITY } else { noise * 1e30 }),
            _ => bits(kind, -1.7),
        }
    };
    (0..count).flat_map(|i| one(i, random)).collect()
}

fn check(told: &str, kind: ScalarKind, bound: Bound, before: &[u8], after: &[u8]) {
    for (x, y) in values(kind, before).into_iter().zip(values(kind, after)) {
        if !x.is_finite() {
            assert!(x.is_nan() == y.is_nan() && (x.is_nan() || x == y), "{x:e} came back as {y:e}: {told}");
            continue;
        }
        let (off, of) = ((x - y).abs(), x.abs().max(kind.least_normal()));
        assert!(off <= bound.absolute, "{x:e} came back as {y:e}, said to be within {bound:?}: {told}");
        assert!(
            !bound.relative.is_finite() || off <= bound.relative * of,
            "{x:e} came back as {y:e}, said to be within {bound:?}: {told}"
        );
    }
}

const FLOATS: [ScalarKind; 4] = [F16, BF16, F32, F64];

fn chains(kind: ScalarKind) -> Vec<String> {
    let mut all: Vec<String> =
        [0, 1, 3, 6, 7, 10, 12, 23, 30, 52].map(|keep| format!("bitround:{keep}")).to_vec();
    all.extend(["bitround:5,shuffle,zstd:1", "bitround:5,aplod", "bitround:9,bitround:4"].map(String::from));
    if cfg!(feature = "zfp") && matches!(kind, F32 | F64) {
        all.extend([1e-9, 1e-3, 0.7, 1e3, 1e300].map(|most| format!("zfp:tolerance={most:?}")));
        all.extend([1, 3, 5, 9, 16, 24, 40, 64].map(|planes| format!("zfp:precision={planes}")));
        all.extend([1, 4, 30].map(|rate| format!("zfp:rate={rate}")));
        all.extend(
            ["zfp", "bitround:8,zfp:tolerance=0.01", "bitround:6,zfp:precision=12,zstd"].map(String::from),
        );
    }
    all
}

#[test]
fn no_error_exceeds_the_chain_s_bound_at_full_and_reduced_precision() {
    let mut random = Random(7);
    let shapes: [&[u64]; 5] = [&[1], &[300], &[20, 33], &[9, 8, 7], &[3, 5, 4, 6]];
    for kind in FLOATS {
        for text in chains(kind) {
            let chain = Chain::parse(&text).unwrap();
            for (shape, manner) in shapes.iter().flat_map(|shape| (0..8).map(move |manner| (shape, manner))) {
                let logical = Logical { shape: shape.to_vec(), ..Logical::numbers(kind, 0) };
                let data = numbers(kind, manner, shape.iter().product::<u64>() as usize, &mut random);
                let told = format!("{text}, {kind:?}, manner {manner}, {shape:?}");
                let (mut stored, mut meta, mut back) = (Vec::new(), Vec::new(), vec![0; data.len()]);
                let mut scratch = Scratch::new();
                chain.encode_keeping(&data, &logical, &mut stored, &mut meta, &mut scratch).unwrap();
                chain.decode(&stored, &logical, &mut back, &mut scratch).unwrap();
                let stats = Stats::of(kind, &back);
                let seen = Magnitudes::between(kind, stats.min.zip(stats.max), stats.nans);
                let lost = chain.loss(&logical, seen);
                check(&told, kind, lost, &data, &back);
                let unshaped = Logical { shape: Vec::new(), ..logical.clone() };
                check(&told, kind, chain.loss(&unshaped, seen), &data, &back);
                check(&told, kind, chain.loss(&logical, Magnitudes::ANY), &data, &back);
                for asked in [Precision::Level(1), Precision::Absolute(0.5), Precision::Relative(0.05)] {
                    let whole = 0..data.len() as u64;
                    let want = Want { ranges: std::slice::from_ref(&whole), precision: asked.beside(&lost) };
                    let of =
                        StoredSubchunk { len: stored.len() as u64, meta: &meta, decoded_len: data.len() };
                    let planned = chain.plan_read(&of, &logical, &want).unwrap();
                    let all = planned.bound.after(lost);
                    let fetched = Fetched::new(vec![(0, &stored)]);
                    chain.decode_part(&of, &fetched, &logical, &want, &mut back, &mut scratch).unwrap();
                    check(&format!("{told}, {asked:?}"), kind, all, &data, &back);
                    assert!(
                        matches!(asked, Precision::Level(_)) || asked.allows(&all) || !asked.allows(&lost),
                        "{asked:?} could be kept, and is not: {all:?} after {lost:?}, {told}"
                    );
                }
            }
        }
    }
}

#[test]
fn bounds_are_what_codecs_promise_and_no_promise_is_not_a_bound_of_zero() {
    let logical = |kind| Logical { shape: vec![32, 32, 32], ..Logical::numbers(kind, 0) };
    let seen = Magnitudes { least: 1.0, greatest: 4.0 };
    let loss = |text: &str, kind| Chain::parse(text).unwrap().loss(&logical(kind), seen);
    for text in ["identity", "zstd", "zfp", "aplod", "multilevel", "bitround:23,zstd", "alacrity", "mloc"] {
        assert_eq!(loss(text, F32), Bound::EXACT, "{text}");
    }
    let rounded = loss("bitround:7,shuffle,zstd:1", F32);
    assert_eq!(rounded.relative, 2f64.powi(-8));
    assert!(rounded.absolute > 4.0 / 256.0 && rounded.absolute < 4.1 / 256.0, "{rounded:?}");
    let within = loss("zfp:tolerance=0.01", F32);
    assert_eq!((within.absolute, within.relative), (0.01, 0.01 / 0.99));
    assert!(loss("zfp:precision=20", F64).absolute < 4.0 * 2f64.powi(9 - 20) * 1.1);
    // No codec guarantees anything for bytes of another kind of number, or for bytes that an earlier codec moved.
    for text in ["zfp:rate=8", "zfp:precision=2", "shuffle,zfp:tolerance=0.01", "lorenzo,bitround:9"] {
        assert_eq!(loss(text, F32), Bound::UNKNOWN, "{text}");
    }
    assert_eq!(loss("bitround:9,dtype=f4", F64), Bound::UNKNOWN);
    assert_eq!(loss("bitround:9,dtype=f4", ScalarKind::I32), Bound::UNKNOWN);
}

/// A lossy codec that states no bound.
#[derive(Debug)]
struct Silent;

impl Codec for Silent {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "silent".into(), params: Vec::new() }
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
    ) -> Result<(), drystone_transform::TransformError> {
        out.extend_from_slice(data);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _: &Logical,
        out: &mut [u8],
        _: &mut Scratch,
    ) -> Result<(), drystone_transform::TransformError> {
        out.copy_from_slice(encoded);
        Ok(())
    }

    fn is_lossy(&self) -> bool {
        true
    }

    fn transparent(&self) -> Option<&dyn drystone_transform::Transparent> {
        None
    }
}

#[test]
fn a_lossy_codec_without_a_stated_bound_has_an_unknown_bound() {
    let chain = Chain::from_codecs(vec![std::sync::Arc::new(Silent)]).unwrap();
    assert_eq!(chain.loss(&Logical::numbers(F64, 8), Magnitudes::ANY), Bound::UNKNOWN);
}

#[test]
fn errors_one_after_the_other_add_up() {
    let (a, b) = (Bound { absolute: 0.5, relative: 0.25 }, Bound { absolute: 1.0, relative: 0.5 });
    assert_eq!(a.after(b), Bound { absolute: 1.5, relative: 0.5 + 0.25 * 1.5 });
    assert_eq!((a.after(Bound::EXACT), Bound::EXACT.after(a)), (a, a));
    assert_eq!(a.after(Bound::UNKNOWN), Bound::UNKNOWN);
    assert_eq!(Bound { absolute: 1.0, relative: 0.0 }.after(Bound::UNKNOWN), Bound::UNKNOWN);
    assert_eq!(Precision::Absolute(0.1).beside(&b), Precision::Absolute(0.0));
    assert_eq!(Precision::Absolute(f64::INFINITY).beside(&Bound::UNKNOWN), Precision::Absolute(0.0));
    assert_eq!(Precision::Relative(9.0).beside(&Bound::UNKNOWN), Precision::Relative(0.0));
    assert_eq!(Precision::Level(2).beside(&b), Precision::Level(2));
}
