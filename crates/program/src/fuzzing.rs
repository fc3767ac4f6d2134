//! Properties that hold for any bytes: the bodies of the fuzz targets, which tests also run with mutated bytes.

use drystone_curve::Curve;
use drystone_expression::{Type, parse};
use drystone_format::piece::{StoredPiece, Trailer};
use drystone_rules::{Dim, Rule, StridedCopy, Term};
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Chain, Logical, Precision, Scratch};

use crate::condition::{Hits, NAME};
use crate::cost::Budget;
use crate::interpreter::run;
use crate::program::{Answer, Arrangement, Condition, Curved, Item, Mode, Program};
use crate::reply::{Payload, Reply};

/// Limits for running a program here.
const BUDGET: Budget = Budget { bytes: 1 << 22, memory: 1 << 25, steps: 30_000_000 };

/// Decodes bytes as a program and runs it on an object. Checks that the decoded program encodes to the same bytes, and
/// that its reply is complete.
///
/// # Panics
/// If a guarantee of this crate does not hold.
#[doc(hidden)]
pub fn fuzz(data: &[u8], object: &[u8]) {
    let Ok(program) = Program::decode(data) else { return };
    assert_eq!(program.encode().as_deref(), Ok(data), "a program has one encoding");
    let mut left = 64;
    let mut more = || {
        left -= 1;
        left >= 0
    };
    let reply = run(&program, &mut &object[..], &BUDGET, &mut more);
    let frames = match Reply::new(&reply) {
        Ok(reply) => reply,
        Err(error) => panic!("{error}"),
    };
    let mut count = 0;
    for frame in frames {
        match frame {
            Ok(frame) => count += usize::from(frame.item.is_some()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(count == program.items.len() || count == 0, "an item gives one frame");
}

/// Decodes bytes as a reply.
#[doc(hidden)]
pub fn fuzz_reply(data: &[u8]) {
    let Ok(reply) = Reply::new(data) else { return };
    for frame in reply.flatten() {
        let (Payload::Hits(bytes), Ok(tree)) = (frame.payload, parse(NAME)) else { continue };
        for (answer, size) in [(Answer::Values, 1), (Answer::Cells, 0), (Answer::Count, 0)] {
            let condition = Condition { dtype: Type::Bool, tree: tree.clone(), answer };
            if let Ok(hits) = Hits::decode(bytes, &condition) {
                assert_eq!(hits.values.len(), hits.count as usize * size);
                assert!(hits.cells.is_none_or(|cells| cells.len() == hits.count as usize));
            }
        }
    }
}

/// A small object, and a program on it with an item of every form, for mutations.
#[doc(hidden)]
pub fn sample(seed: u64) -> (Program, Vec<u8>) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let chains = ["", "zstd:1", "shuffle,lz4", "aplod:2,1,1,4", "delta,zlib:1", "bzip2"];
    let (mut program, mut object) = (Program::new(), vec![0xAA; 16]);
    for _ in 0..1 + below(4) {
        let text = chains[below(chains.len() as u64) as usize];
        let (rows, columns) = (1 + below(40), 1 + below(40));
        let cells = rows * columns;
        let data: Vec<u8> =
            (0..cells).flat_map(|i| ((i as f64) * 0.37 + below(9) as f64).to_le_bytes()).collect();
        let curve = (below(4) == 0 && text != "delta,zlib:1").then_some(Curve::Hilbert);
        let shape = if curve.is_some() { vec![cells] } else { vec![rows, columns] };
        let logical = Logical { item: 8, scalar: 8, kind: ScalarKind::F64, shape };
        let (mut payload, mut meta) = (Vec::new(), Vec::new());
        let chain = match Chain::parse(text) {
            Ok(chain) => chain,
            Err(_) => Chain::identity(),
        };
        if chain.encode_keeping(&data, &logical, &mut payload, &mut meta, &mut Scratch::new()).is_err() {
            continue;
        }
        let unit_log2 = 8;
        let trailer = Trailer::of(&payload, unit_log2, Vec::new()).with_meta(&meta).encode();
        let piece = StoredPiece {
            position: object.len() as u64,
            length: payload.len() as u64,
            trailer: trailer.len() as u64,
            unit_log2,
            check: drystone_transform::checks::crc32c(&trailer),
        };
        object.extend_from_slice(&payload);
        object.resize(piece.trailer_position() as usize, 0);
        object.extend_from_slice(&trailer);
        let curve = curve.map(|curve| Curved {
            curve,
            room: 8,
            at: 0,
            item: 8,
            shape: vec![rows as u32, columns as u32],
        });
        let Some(chain) = program.chain(text) else { continue };
        let arrangement = Arrangement { chain, decoded: data.len() as u32, logical, curve };
        let Some(arrangement) = program.arrangement(arrangement) else { continue };
        for _ in 0..1 + below(3) {
            let every = 1 + below(columns);
            let taken = columns.div_ceil(every);
            let dims = vec![
                Dim::new(rows, 8 * columns as i64, 8 * taken as i64),
                Dim::new(taken, 8 * every as i64, 8),
            ];
            let Ok(copy) = StridedCopy::new(0, 0, 8, dims) else { continue };
            let Ok(rule) = Rule::new(data.len() as u64, rows * taken * 8, vec![Term::Copy(copy)]) else {
                continue;
            };
            let Some(rule) = program.rule(rule) else { continue };
            let condition = match (below(3), parse(&format!("{NAME} > 100"))) {
                (0, Ok(tree)) => {
                    let answer = [Answer::Values, Answer::Cells, Answer::Count][below(3) as usize];
                    program.condition(Condition { dtype: Type::F8, tree, answer })
                }
                _ => None,
            };
            let mode = if below(2) == 0 { Mode::Part } else { Mode::Whole };
            let precision = match (mode, below(3)) {
                (Mode::Part, 0) => Precision::Absolute(1e-3),
                (Mode::Part, 1) => Precision::Level(1 + below(3) as u32),
                _ => Precision::Exact,
            };
            program.items.push(Item { arrangement, rule, condition, mode, precision, piece, prefix: None });
        }
    }
    (program, object)
}
