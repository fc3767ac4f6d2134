//! Tests conversions of type, byte order and place of numbers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use drystone_rules::*;

fn line(count: u64, dtype: Dtype) -> MemoryLayout {
    MemoryLayout::boxed(0, &[count], &[0], &[count], Order::Row, Block::number(dtype)).unwrap()
}

fn convert(from: Dtype, to: Dtype, narrowing: Narrowing, src: &[u8]) -> Result<Vec<u8>, RuleError> {
    let count = (src.len() / from.kind.bytes()) as u64;
    let rule = Rule::compile(&line(count, from), &line(count, to), narrowing)?;
    let mut dst = vec![0xEE; count as usize * to.kind.bytes()];
    rule.run(src, &mut dst)?;
    let halves = rule.split(Pack::Destination)?;
    let (mut buffer, mut again) = (vec![0; halves.buffer_len as usize], vec![0xEE; dst.len()]);
    halves.gather.run(src, &mut buffer)?;
    halves.scatter.run(&buffer, &mut again)?;
    assert_eq!(dst, again);
    assert_eq!(halves.buffer_len, count * from.kind.bytes().min(to.kind.bytes()) as u64);
    Ok(dst)
}

macro_rules! le {
    ($($value:expr),*) => { [$($value.to_le_bytes().to_vec()),*].concat() };
}

#[test]
fn widening_keeps_every_value() {
    let (f32s, f64s) =
        (le!(1.5f32, -0.0f32, f32::MAX, f32::INFINITY), le!(1.5f64, -0.0f64, f32::MAX as f64, f64::INFINITY));
    let (from, to) = (Dtype::little(NumberKind::F32), Dtype::little(NumberKind::F64));
    assert_eq!(convert(from, to, Narrowing::Refuse, &f32s), Ok(f64s));
    let (from, to) = (Dtype::little(NumberKind::U8), Dtype::little(NumberKind::I16));
    assert_eq!(convert(from, to, Narrowing::Refuse, &[0, 7, 255]), Ok(le!(0i16, 7i16, 255i16)));
    let (from, to) = (Dtype::little(NumberKind::I16), Dtype::little(NumberKind::F32));
    assert_eq!(convert(from, to, Narrowing::Refuse, &le!(-32768i16, 5i16)), Ok(le!(-32768f32, 5f32)));
}

#[test]
fn lossy_conversions_are_refused_unless_a_policy_is_chosen() {
    let all = NumberKind::ALL;
    let refused = |from: NumberKind, to: NumberKind| {
        let rule =
            Rule::compile(&line(3, Dtype::little(from)), &line(3, Dtype::little(to)), Narrowing::Refuse);
        matches!(rule, Err(RuleError::Incompatible { .. }))
    };
    let lossy: usize = all.iter().map(|&from| all.iter().filter(|&&to| refused(from, to)).count()).sum();
    // 14 identities; u8 and i8 widen to 12 and 9 others, u16 and i16 to 8 and 6, u32 and i32 to 4 and 3, u64
    // and i64 to none; f16 and bf16 to f32, f64 and both complex ones, f32 to three, f64 to c128, c64 to
    // c128.
    assert_eq!(lossy, 196 - 14 - (12 + 9) - (8 + 6) - (4 + 3) - (4 + 4) - 3 - 1 - 1);
    assert!(refused(NumberKind::BF16, NumberKind::F16) && refused(NumberKind::F16, NumberKind::BF16));
    assert!(refused(NumberKind::C64, NumberKind::F64) && refused(NumberKind::U16, NumberKind::F16));
    assert!(refused(NumberKind::I64, NumberKind::F64));
    assert!(refused(NumberKind::I32, NumberKind::F32));
    assert!(!refused(NumberKind::U32, NumberKind::F64));
}

#[test]
fn narrowing_follows_the_declared_policy() {
    let (from, to) = (Dtype::little(NumberKind::I32), Dtype::little(NumberKind::U8));
    let src = le!(-5i32, 3i32, 255i32, 256i32, 1000i32);
    assert_eq!(convert(from, to, Narrowing::Saturate, &src), Ok(vec![0, 3, 255, 255, 255]));
    assert_eq!(convert(from, to, Narrowing::Wrap, &src), Ok(vec![251, 3, 255, 0, 232]));
    let (from, to) = (Dtype::little(NumberKind::F64), Dtype::little(NumberKind::I16));
    let src = le!(1.9f64, -1.9f64, f64::NAN, 1e9f64, -1e9f64);
    let expected = le!(1i16, -1i16, 0i16, i16::MAX, i16::MIN);
    assert_eq!(convert(from, to, Narrowing::Saturate, &src), Ok(expected.clone()));
    assert_eq!(convert(from, to, Narrowing::Wrap, &src), Ok(expected));
    let (from, to) = (Dtype::little(NumberKind::F64), Dtype::little(NumberKind::F32));
    let src = le!(1e300f64, 0.1f64);
    assert_eq!(convert(from, to, Narrowing::Saturate, &src), Ok(le!(f32::INFINITY, 0.1f32)));
}

#[test]
fn short_floats_and_complex_numbers_convert() {
    let (half, brain) = (Dtype::little(NumberKind::F16), Dtype::big(NumberKind::BF16));
    let halves = le!(0x3C00u16, 0xC100u16, 0x0001u16, 0x7C00u16);
    let f32s = le!(1.0f32, -2.5f32, 1.0f32 / 16_777_216.0, f32::INFINITY);
    assert_eq!(convert(half, Dtype::little(NumberKind::F32), Narrowing::Refuse, &halves), Ok(f32s.clone()));
    assert_eq!(convert(Dtype::little(NumberKind::F32), half, Narrowing::Saturate, &f32s), Ok(halves.clone()));
    let big = vec![0x3F, 0x80, 0xC0, 0x20, 0x33, 0x80, 0x7F, 0x80];
    assert_eq!(convert(half, brain, Narrowing::Saturate, &halves), Ok(big.clone()));
    let i8s = vec![1, 0xFE, 0, 127];
    assert_eq!(convert(brain, Dtype::little(NumberKind::I8), Narrowing::Saturate, &big), Ok(i8s));
    let (c64, c128) = (Dtype::little(NumberKind::C64), Dtype::big(NumberKind::C128));
    let pairs = le!(1.5f32, -2.0f32, 3.0f32, 1e-3f32);
    let wide: Vec<u8> =
        [1.5f64, -2.0, 3.0, f64::from(1e-3f32)].iter().flat_map(|v| v.to_be_bytes()).collect();
    assert_eq!(convert(c64, c128, Narrowing::Refuse, &pairs), Ok(wide.clone()));
    assert_eq!(convert(c128, c64, Narrowing::Saturate, &wide), Ok(pairs.clone()));
    assert_eq!(convert(c64, Dtype::little(NumberKind::I16), Narrowing::Wrap, &pairs), Ok(le!(1i16, 3i16)));
    let reals = le!(7u32, 9u32);
    let expected = le!(7f64, 0f64, 9f64, 0f64);
    assert_eq!(
        convert(Dtype::little(NumberKind::U32), Dtype::little(NumberKind::C128), Narrowing::Refuse, &reals),
        Ok(expected)
    );
}

#[test]
fn byte_order_changes_on_the_way_in_both_directions() {
    for kind in NumberKind::ALL {
        let width = kind.bytes();
        let src: Vec<u8> = (0..width * 40).map(|k| (k * 7) as u8).collect();
        // A complex number is two numbers, and the bytes of each are reversed in place.
        let part = if matches!(kind, NumberKind::C64 | NumberKind::C128) { width / 2 } else { width };
        let swapped: Vec<u8> = src.chunks(part).flat_map(|number| number.iter().rev().copied()).collect();
        for (from, to) in [(Dtype::big(kind), Dtype::little(kind)), (Dtype::little(kind), Dtype::big(kind))] {
            assert_eq!(convert(from, to, Narrowing::Refuse, &src), Ok(swapped.clone()), "{kind:?}");
        }
        let same = Dtype::big(kind);
        assert_eq!(convert(same, same, Narrowing::Refuse, &src), Ok(src));
    }
    let big: Vec<u8> = [1.5f32.to_be_bytes(), (-2.0f32).to_be_bytes()].concat();
    let found = convert(Dtype::big(NumberKind::F32), Dtype::little(NumberKind::F64), Narrowing::Refuse, &big);
    assert_eq!(found, Ok(le!(1.5f64, -2.0f64)));
}

#[test]
fn a_transposed_field_of_a_record_converts_on_the_way() {
    let (rows, cols) = (37u64, 300u64);
    let record =
        Block::record(9, [(0, 1, Block::number(Dtype::big(NumberKind::I16))), (1, 3, Block::opaque(6))]);
    let src = MemoryLayout::boxed(0, &[rows, cols], &[0, 0], &[rows, cols], Order::Row, record).unwrap();
    let axes = vec![
        Axis { extent: rows, map: IndexMap::binder(1) },
        Axis { extent: cols, map: IndexMap::affine(0, -1, cols as i64 - 1) },
    ];
    let path = vec![Step::Index(axes), Step::Member(0)];
    let number = Block::number(Dtype::little(NumberKind::F64));
    let dst = MemoryLayout::single(0, path, number.array([cols, rows], Order::Row)).unwrap();
    let rule = Rule::compile(&src, &dst, Narrowing::Refuse).unwrap();
    assert_eq!(rule.terms().len(), 1);
    let value = |row: u64, col: u64| (row * 300 + col) as i16 - 5000;
    let mut bytes = vec![0; src.len() as usize];
    for (k, cell) in bytes.chunks_mut(9).enumerate() {
        cell[1..3].copy_from_slice(&value(k as u64 / cols, k as u64 % cols).to_be_bytes());
    }
    let mut found = vec![0; dst.len() as usize];
    rule.run(&bytes, &mut found).unwrap();
    for (k, number) in found.chunks(8).enumerate() {
        let (col, row) = (cols - 1 - k as u64 / rows, k as u64 % rows);
        assert_eq!(f64::from_le_bytes(number.try_into().unwrap()), f64::from(value(row, col)));
    }
}

#[test]
fn members_of_one_record_are_copied_in_one_pass_and_exactly() {
    // Large enough to be walked in blocks: members of 4, 8 and 2 bytes of records of 24.
    let count = if cfg!(miri) { 1200u64 } else { 60_000 };
    let member = |bytes| Block::opaque(bytes);
    let record = Block::record(24, [(0, 0, member(4)), (1, 8, member(8)), (2, 16, member(2))]);
    let aos = MemoryLayout::boxed(0, &[count], &[0], &[count], Order::Row, record).unwrap();
    let column = |id, offset, bytes| View {
        var: 0,
        offset,
        path: vec![Step::Index(vec![Axis { extent: count, map: IndexMap::binder(0) }]), Step::Member(id)],
        block: member(bytes).array([count], Order::Row),
    };
    let views = vec![column(0, 0, 4), column(1, 4 * count, 8), column(2, 12 * count, 2)];
    let soa = MemoryLayout::new(views, 14 * count).unwrap();
    let src: Vec<u8> = (0..aos.len() as u32).map(|k| (k.wrapping_mul(2654435761) >> 11) as u8).collect();
    let there = Rule::compile(&aos, &soa, Narrowing::Refuse).unwrap();
    let back = Rule::compile(&soa, &aos, Narrowing::Refuse).unwrap();
    for threads in [1, 3] {
        let mut columns = vec![0; soa.len() as usize];
        there.run_threaded(&src, &mut columns, threads).unwrap();
        for k in (0..count as usize).step_by(97) {
            let (c, n) = (&columns, count as usize);
            assert_eq!(c[4 * k..][..4], src[24 * k..][..4]);
            assert_eq!(c[4 * n + 8 * k..][..8], src[24 * k + 8..][..8]);
            assert_eq!(c[12 * n + 2 * k..][..2], src[24 * k + 16..][..2]);
        }
        let mut again = vec![0; aos.len() as usize];
        back.run_threaded(&columns, &mut again, threads).unwrap();
        let held = |k: usize| k % 24 < 4 || (8..18).contains(&(k % 24));
        assert!((0..src.len()).all(|k| again[k] == if held(k) { src[k] } else { 0 }));
    }
}
