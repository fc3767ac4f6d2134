//! Encoded trees: vectors, flipped bits, any bytes.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use drystone_expression::{Tree, fuzz, parse};

use crate::random::{Random, any_tree};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/expressions")
}

/// The texts of the vectors. They were written once; a reader of any version reads them.
const VECTORS: [(&str, &str); 8] = [
    ("v1_condition", "p > 3e-5 & (abs(u) < 1 | mask == 2)"),
    ("v1_speed", "sqrt(u * u + v * v)"),
    ("v1_names", "`fields/p`.x[x+1, y-2] - `a``b` * `not`[`time step`-64]"),
    (
        "v1_constants",
        "true | false | 0 < -1 | 18446744073709551615 > -9223372036854775808 | nan != -inf | -0.0 == 1e300",
    ),
    (
        "v1_unary",
        "~bool(i1(i2(i4(i8(u1(u2(u4(u8(f4(f8(-invert(abs(sign(floor(ceil(trunc(round(sqrt(cbrt(exp(expm1(log(log2(\
         log10(log1p(sin(cos(tan(asin(acos(atan(sinh(cosh(tanh(u))))))))))))))))))))))))))))))))))) | isnan(u) | \
         isinf(u) | isfinite(u)",
    ),
    (
        "v1_binary",
        "a == b ^ a != b & a < b | a <= b & a > b ^ a >= b | \
         where(c, a << b >> a + b - a * b / a // b % a ** b, min(a, max(b, atan2(a, hypot(a, b))))) > 0",
    ),
    (
        "v1_fields",
        "vector(diff(u, x), diff(v, y, 2), diff2(u, 0), diff2(u, x, 0.5), mean(sum(u, x, y)), amin(u, x), amax(u), \
         count(u > 0.0, y), i8(any(u > 0.0)), i8(all(u > 0.0, x)))",
    ),
    (
        "v1_apply",
        "vector(apply(smooth, u, f4), apply(`my-filter.2`, u * u, f8, 1), apply(smooth, u, bool, 2, 0, 1))",
    ),
];

#[test]
fn every_vector_is_read_and_written_as_the_text_beside_it() {
    for (name, text) in VECTORS {
        let path = folder().join(format!("{name}.bin"));
        let tree = parse(text).unwrap_or_else(|error| panic!("{}", error.render(text)));
        assert_eq!(tree.to_string(), text, "vectors have canonical texts");
        let json = fs::read_to_string(path.with_extension("json")).unwrap();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        assert!(json.contains(&format!("\"text\": \"{quoted}\"")), "{json}");
        let bytes = fs::read(&path).unwrap();
        assert_eq!(Tree::decode(&bytes).unwrap(), tree, "{name}");
        assert_eq!(tree.encode(), bytes, "{name}");
    }
    let files =
        fs::read_dir(folder()).unwrap().filter(|f| f.as_ref().unwrap().path().extension().unwrap() == "bin");
    assert_eq!(files.count(), VECTORS.len());
}

#[test]
fn the_document_quotes_a_vector() {
    let document = fs::read_to_string(folder().join("../../../docs/format/expression.md")).unwrap();
    let (_, rest) = document.split_once("```hex expressions/v1_speed.bin\n").unwrap();
    let (body, _) = rest.split_once("```").unwrap();
    let digits = body.lines().flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
    let bytes: Vec<u8> = digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect();
    assert_eq!(bytes, fs::read(folder().join("v1_speed.bin")).unwrap());
}

#[test]
fn random_trees_survive_their_encoding() {
    let mut random = Random(0xdead_beef);
    let mut seen: HashMap<Vec<u8>, Tree> = HashMap::new();
    for n in 0..2000 {
        let tree = any_tree(&mut random, 1 + n % 60);
        let bytes = tree.encode();
        assert_eq!(Tree::decode(&bytes).unwrap(), tree, "{tree}");
        if let Some(other) = seen.insert(bytes, tree.clone()) {
            assert_eq!(other, tree);
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_another_tree_but_never_the_same() {
    for (name, text) in VECTORS {
        let tree = parse(text).unwrap();
        let good = tree.encode();
        let mut refused = 0;
        for bit in 0..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fuzz(&bytes);
            match Tree::decode(&bytes) {
                Ok(other) => assert_ne!(other, tree, "{name}: bit {bit}"),
                Err(error) => {
                    assert!(error.at <= bytes.len() as u64 && !error.what.is_empty());
                    refused += 1;
                }
            }
        }
        assert!(refused > 3 * good.len(), "{name}: {refused} of {} bits", 8 * good.len());
    }
}

#[test]
fn shortened_and_lengthened_bytes_are_refused() {
    for (name, text) in VECTORS {
        let mut good = parse(text).unwrap().encode();
        for len in 0..good.len() {
            assert!(Tree::decode(&good[..len]).is_err(), "{name}: {len} bytes");
        }
        good.push(0);
        assert!(Tree::decode(&good).is_err(), "{name}");
    }
}

#[test]
fn bytes_of_a_newer_writer_are_unsupported() {
    let good = parse("sqrt(u)").unwrap().encode();
    let mut version = good.clone();
    version[4] = 2;
    assert!(Tree::decode(&version).unwrap_err().unsupported);
    let mut operator = good.clone();
    let last = good.len() - 3;
    operator[last] = 250;
    assert!(Tree::decode(&operator).unwrap_err().unsupported);
    let mut operand = good.clone();
    operand[last + 1] = 1;
    assert!(!Tree::decode(&operand).unwrap_err().unsupported, "an operand that does not come first");
}

#[test]
fn any_bytes_and_any_text_have_an_answer() {
    const WORDS: [&str; 40] = [
        "p", "u[x+1]", "`a b`", "P.x", "3", "0.5", "1e300", "nan", "inf", "true", "(", ")", "[", "]", ",",
        "&", "|", "^", "~", "not ", " and ", " or ", "==", "<", ">=", "+", "-", "*", "/", "//", "%", "**",
        "<<", "sqrt(", "where(", "min(", "i8(", "isnan(", "é", "\u{0}",
    ];
    let mut random = Random(42);
    for n in 0..20_000 {
        let mut bytes: Vec<u8> = match n % 4 {
            0 => (0..random.below(40)).flat_map(|_| random.pick(&WORDS).bytes()).collect(),
            1 => any_tree(&mut random, 1 + n % 30).to_string().into_bytes(),
            _ => any_tree(&mut random, 1 + n % 30).encode(),
        };
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len().max(1));
            match random.below(3) {
                0 if !bytes.is_empty() => bytes[at] = random.next() as u8,
                1 if !bytes.is_empty() => _ = bytes.remove(at),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        fuzz(&bytes);
    }
}
