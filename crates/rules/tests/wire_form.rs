//! An encoded rule from an untrusted source is refused, or harmless.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use drystone_rules::*;

const LEN: u64 = 4096;

fn copy(src: u64, dst: u64, elem: usize, dims: &[Dim]) -> Term {
    Term::Copy(StridedCopy::new(src, dst, elem, dims.to_vec()).unwrap())
}

/// One rule of each kind of term, inside buffers of [`LEN`] bytes.
fn samples() -> Vec<Rule> {
    let types = (Dtype::big(NumberKind::F32), Dtype::little(NumberKind::I16));
    let dims = vec![Dim::new(20, 8, 2), Dim::new(3, -4, 100)];
    let convert = ConvertCopy::new(40, 7, types, Narrowing::Saturate, dims).unwrap();
    let list = (0..9u64).map(|k| copy(k * k, 40 * k + k % 3, 4, &[Dim::new(3, 8, 12)])).collect();
    let rule = |terms| Rule::new(LEN, LEN, terms).unwrap();
    vec![
        rule(vec![]),
        rule(vec![copy(100, 200, 16, &[Dim::new(10, 48, 32), Dim::new(3, 600, 1000)])]),
        rule(vec![Term::Convert(convert.clone())]),
        rule(list),
        rule(vec![copy(0, 0, 8, &[]), Term::Convert(convert), copy(9, 9, 3, &[Dim::new(2, -3, 5)])]),
    ]
}

#[test]
fn every_kind_of_rule_comes_back_from_its_bytes() {
    for rule in samples() {
        assert_eq!(Rule::decode(&rule.encode(), LEN, LEN), Ok(rule));
    }
}

/// The worked example of docs/format/rules.md.
#[test]
fn the_documented_bytes_are_the_papers_example() {
    let boxed = |start: [i64; 2], counts: [u64; 2]| {
        MemoryLayout::boxed(0, &[80000, 80000], &start, &counts, Order::Row, Block::opaque(8)).unwrap()
    };
    let rule =
        Rule::compile(&boxed([500, 300], [5000, 6000]), &boxed([0, 0], [1000, 1000]), Narrowing::Refuse)
            .unwrap();
    let bytes = [
        0x01, 0x00, 0x80, 0xb8, 0xb8, 0x72, 0x80, 0xa4, 0xe8, 0x03, 0x01, // header
        0x00, 0x00, 0xe0, 0xa4, 0xf4, 0x01, 0xe0, 0x2b, // tag, offsets, element
        0x01, 0xf4, 0x03, 0x80, 0xee, 0x05, 0x80, 0x7d, // one loop
    ];
    assert_eq!(rule.encode(), bytes);
    assert_eq!(Rule::decode(&bytes, 240_000_000, 8_000_000), Ok(rule));
}

#[test]
fn a_rule_for_larger_buffers_than_there_are_is_refused() {
    let rule = &samples()[1];
    for (src, dst) in [(LEN - 1, LEN), (LEN, LEN - 1), (0, 0)] {
        assert!(matches!(Rule::decode(&rule.encode(), src, dst), Err(RuleError::OutOfBounds { .. })));
        assert!(matches!(
            rule.run(&vec![0; src as usize], &mut vec![0; dst as usize]),
            Err(RuleError::OutOfBounds { .. })
        ));
    }
}

#[test]
fn a_rule_that_lies_about_its_buffers_is_refused() {
    // One byte from offset 4096 of a source that claims to have 4096 bytes.
    let lie = [1, 0, 0x80, 0x20, 0x80, 0x20, 1, 0, 0x80, 0x20, 0, 1, 0];
    assert!(matches!(Rule::decode(&lie, LEN, LEN), Err(RuleError::OutOfBounds { side: Side::Source, .. })));
}

#[test]
fn other_versions_flags_and_trailing_bytes_are_refused() {
    let bytes = samples()[1].encode();
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        Rule::decode(&bytes, LEN, LEN)
    };
    assert_eq!(changed(0, 2), Err(RuleError::UnknownVersion { version: 2 }));
    assert!(matches!(changed(1, 1), Err(RuleError::Corrupt { what: "an unknown flag", .. })));
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(Rule::decode(&longer, LEN, LEN), Err(RuleError::Corrupt { .. })));
}

#[test]
fn every_shortened_encoding_is_refused() {
    for rule in samples() {
        let bytes = rule.encode();
        for len in 0..bytes.len() {
            assert!(Rule::decode(&bytes[..len], LEN, LEN).is_err(), "{len} bytes of {rule}");
        }
    }
}

#[test]
fn a_short_list_cannot_demand_much_memory() {
    // A list that claims 2^62 copies and has none.
    let mut bytes = vec![1, 0, 0, 0, 1, 2, 1, 0];
    bytes.extend([0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F]);
    assert!(matches!(Rule::decode(&bytes, LEN, LEN), Err(RuleError::TooLarge { .. })));
}

#[test]
fn a_hundred_thousand_mutations_are_refused_or_harmless() {
    let samples: Vec<Vec<u8>> = samples().iter().map(Rule::encode).collect();
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut next = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    let long = std::env::var_os("DRYSTONE_LONG").is_some();
    let rounds = if cfg!(miri) {
        100
    } else if long {
        5_000_000
    } else {
        100_000
    };
    let mut accepted = 0;
    for _ in 0..rounds {
        let mut bytes = samples[next(samples.len() as u64) as usize].clone();
        for _ in 0..1 + next(3) {
            let at = next(bytes.len() as u64) as usize;
            match next(5) {
                0 => bytes[at] ^= 1 << next(8),
                1 => bytes[at] = next(256) as u8,
                2 => bytes.insert(at, [0, 1, 0x7F, 0x80, 0xFF][next(5) as usize]),
                3 if bytes.len() > 1 => {
                    bytes.remove(at);
                }
                _ => bytes[at] = bytes[at].wrapping_add(1),
            }
        }
        accepted += u64::from(Rule::decode(&bytes, LEN, LEN).is_ok());
        fuzz_decode(&bytes);
    }
    assert!(accepted > rounds / 100, "mutations that are all refused test little: {accepted}");
}

#[test]
fn equal_rules_have_equal_names_and_others_do_not() {
    let mut names: Vec<_> = samples().iter().map(Rule::content_hash).collect();
    assert_eq!(names, samples().iter().map(Rule::content_hash).collect::<Vec<_>>());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), samples().len());
}
