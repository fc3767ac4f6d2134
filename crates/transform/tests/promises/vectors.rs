//! The vectors of the codecs decode to the bytes beside them: data that was written once can always be read.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::Path;

use drystone_transform::{Chain, Logical, Scratch};

/// The text after `"name": ` up to the end of its line.
fn member<'a>(json: &'a str, name: &str) -> &'a str {
    let (_, rest) = json.split_once(&format!("\"{name}\": ")).unwrap();
    rest.lines().next().unwrap().trim_end_matches(',')
}

/// The bytes of a member, which is in hexadecimal digits.
fn bytes(json: &str, name: &str) -> Vec<u8> {
    let digits = member(json, name).trim_matches('"');
    let byte = |i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap();
    (0..digits.len() / 2).map(byte).collect()
}

#[test]
fn every_vector_decodes_to_the_bytes_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/codecs");
    let mut read = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "bin") {
            continue;
        }
        let (stored, json) =
            (fs::read(&path).unwrap(), fs::read_to_string(path.with_extension("json")).unwrap());
        let chain = member(&json, "chain")
            .strip_prefix('"')
            .unwrap()
            .strip_suffix('"')
            .unwrap()
            .replace("\\\"", "\"");
        let logical = Logical {
            scalar: member(&json, "scalar").parse().unwrap(),
            shape: member(&json, "shape")
                .trim_matches(['[', ']'])
                .split(", ")
                .map(|n| n.parse().unwrap())
                .collect(),
            ..Logical::scalars(member(&json, "item").parse().unwrap(), 0)
        };
        if chain.starts_with("zfp") && cfg!(not(feature = "zfp")) {
            continue;
        }
        let expected = bytes(&json, "decoded");
        let mut decoded = vec![0; expected.len()];
        assert_eq!(stored[0], 0x1F, "{} is not stored raw", path.display());
        let result =
            Chain::parse(&chain).unwrap().decode(&stored, &logical, &mut decoded, &mut Scratch::new());
        assert_eq!(result, Ok(()), "{}", path.display());
        assert!(decoded == expected, "{}", path.display());
        // For streams of the zfp library, encoding the same numbers here gives the same bytes.
        if path.file_name().unwrap().to_str().unwrap().starts_with("v1_zfpy") {
            let written = if json.contains("\"written\"") { bytes(&json, "written") } else { expected };
            let mut made = Vec::new();
            Chain::parse(&chain).unwrap().encode(&written, &logical, &mut made, &mut Scratch::new()).unwrap();
            assert!(made == stored, "{}", path.display());
        }
        read += 1;
    }
    assert!(read >= 26, "{read} vectors");
}
