//! The vectors of programs and replies are read, written and run.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::PathBuf;

use drystone_curve::Curve;
use drystone_expression::{Type, parse};
use drystone_format::piece::{StoredPiece, Trailer};
use drystone_program::{Answer, Arrangement, Budget, Condition, Curved, Item, Mode, Program, run};
use drystone_rules::{Dim, Rule, StridedCopy, Term};
use drystone_transform::checks::crc32c;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Logical, Precision};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/programs")
}

/// An object of two raw pieces: 24 little-endian f4 (0, 1, 2, ...), checked as a whole; and 8 f4 along a Hilbert curve
/// through 2 x 4 cells. Each has a trailer with one check per 16 bytes.
fn object() -> (Vec<u8>, StoredPiece, StoredPiece) {
    let mut bytes: Vec<u8> = vec![0xEE; 32];
    let plain: Vec<u8> = (0..24).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let first = StoredPiece { position: 32, length: 96, trailer: 0, unit_log2: 0, check: crc32c(&plain) };
    bytes.extend(&plain);
    let curved: Vec<u8> = (0..8).flat_map(|i| (100.0 + i as f32).to_le_bytes()).collect();
    let trailer = Trailer::of(&curved, 4, Vec::new()).encode();
    let position = bytes.len() as u64;
    let second = StoredPiece {
        position,
        length: 32,
        trailer: trailer.len() as u64,
        unit_log2: 4,
        check: crc32c(&trailer),
    };
    bytes.extend(&curved);
    bytes.extend(&trailer);
    (bytes, first, second)
}

fn logical(shape: &[u64]) -> Logical {
    Logical { item: 4, scalar: 4, kind: ScalarKind::F32, shape: shape.to_vec() }
}

fn gather(source: u64, at: u64, dims: &[(u64, i64)]) -> Rule {
    let mut dst = 4;
    let mut loops = Vec::new();
    for (count, stride) in dims.iter().rev() {
        loops.push(Dim::new(*count, *stride, dst));
        dst *= *count as i64;
    }
    Rule::new(source, dst as u64, vec![Term::Copy(StridedCopy::new(at, 0, 4, loops).unwrap())]).unwrap()
}

/// One field of three.
fn field() -> Program {
    let (_, first, _) = object();
    let mut program = Program::new();
    let chain = program.chain("").unwrap();
    let arrangement = Arrangement { chain, decoded: 96, logical: logical(&[8, 3]), curve: None };
    let arrangement = program.arrangement(arrangement).unwrap();
    let rule = program.rule(gather(96, 4, &[(8, 12)])).unwrap();
    let (mode, precision) = (Mode::Whole, Precision::Exact);
    program.items.push(Item {
        arrangement,
        rule,
        condition: None,
        mode,
        precision,
        piece: first,
        prefix: None,
    });
    program
}

/// The same where it is above 10, and the first column of the cells along the curve.
fn two() -> Program {
    let (_, _, second) = object();
    let mut program = field();
    let tree = parse("value > 10").unwrap();
    program.items[0].condition =
        program.condition(Condition { dtype: Type::F4, tree, answer: Answer::Values });
    let curve = Some(Curved { curve: Curve::Hilbert, room: 4, at: 0, item: 4, shape: vec![2, 4] });
    let arrangement = Arrangement { chain: 0, decoded: 32, logical: logical(&[8]), curve };
    let arrangement = program.arrangement(arrangement).unwrap();
    let rule = program.rule(gather(32, 0, &[(2, 16)])).unwrap();
    let (mode, precision) = (Mode::Part, Precision::Absolute(0.5));
    program.items.push(Item {
        arrangement,
        rule,
        condition: None,
        mode,
        precision,
        piece: second,
        prefix: None,
    });
    program
}

/// The field again, with conditions: which cells, how many, cells and values, none.
fn hits() -> Program {
    let mut program = field();
    let item = program.items.remove(0);
    for (answer, text) in [
        (Answer::Cells, "value > 10"),
        (Answer::Count, "value > 10"),
        (Answer::Values, "value >= 4 & value != 7"),
        (Answer::Cells, "value > 100"),
    ] {
        let tree = parse(text).unwrap();
        let condition = program.condition(Condition { dtype: Type::F4, tree, answer });
        program.items.push(Item { condition, ..item });
    }
    program
}

/// A program that cannot be run on the object: encoded pieces with a prefix.
fn encoded() -> Program {
    let mut program = Program::new();
    let chain = program.chain("multilevel:3").unwrap();
    let arrangement = Arrangement { chain, decoded: 4096, logical: logical(&[32, 32]), curve: None };
    let arrangement = program.arrangement(arrangement).unwrap();
    let rule = program.rule(gather(4096, 128, &[(32, 4)])).unwrap();
    for n in 0..3 {
        let piece = StoredPiece {
            position: 1 << 20 | n << 12,
            length: 900 + n,
            trailer: 24,
            unit_log2: 9,
            check: 7 * n as u32,
        };
        let prefix =
            Some(StoredPiece { position: n << 8, length: 200, trailer: 0, unit_log2: 0, check: 0xABCD });
        let (mode, precision) = match n {
            0 => (Mode::Prefix, Precision::Level(1)),
            1 => (Mode::Part, Precision::Relative(0.25)),
            _ => (Mode::Whole, Precision::Exact),
        };
        program.items.push(Item { arrangement, rule, condition: None, mode, precision, piece, prefix });
    }
    program
}

#[test]
fn every_vector_is_read_and_written_as_the_program_beside_it() {
    for (name, program) in
        [("v1_field", field()), ("v1_two", two()), ("v1_encoded", encoded()), ("v2_hits", hits())]
    {
        let bytes = fs::read(folder().join(format!("{name}.bin"))).unwrap();
        assert_eq!(Program::decode(&bytes).as_ref(), Ok(&program), "{name}");
        assert_eq!(program.encode().unwrap(), bytes, "{name}");
    }
}

#[test]
fn the_object_of_the_vectors_gives_their_replies() {
    let (object, ..) = object();
    assert_eq!(fs::read(folder().join("v1_object.bin")).unwrap(), object);
    for (name, program) in [("v1_field", field()), ("v1_two", two()), ("v2_hits", hits())] {
        let reply = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        assert_eq!(fs::read(folder().join(format!("{name}_reply.bin"))).unwrap(), reply, "{name}");
    }
}

#[test]
fn the_document_quotes_a_vector() {
    let document = fs::read_to_string(folder().join("../../../docs/format/read-program.md")).unwrap();
    let mut quoted = 0;
    for part in document.split("```hex programs/").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        let (body, _) = rest.split_once("```").unwrap();
        let digits =
            body.lines().flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
        let bytes: Vec<u8> = digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
        assert_eq!(bytes, fs::read(folder().join(name.trim())).unwrap(), "{name}");
        quoted += 1;
    }
    assert_eq!(quoted, 2);
}
