//! The vectors of the codecs decode to what stands beside them: what was written once can always be read.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::Path;

use drystone_transform::{Chain, Logical, Scratch};

/// The text behind `"name": ` up to the end of its line.
fn member<'a>(json: &'a str, name: &str) -> &'a str {
    let (_, rest) = json.split_once(&format!("\"{name}\": ")).unwrap();
    rest.lines().next().unwrap().trim_end_matches(',')
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
        let digits = member(&json, "decoded").trim_matches('"');
        let expected: Vec<u8> = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        let mut decoded = vec![0; expected.len()];
        assert_eq!(stored[0], 0x1F, "{} is not stored raw", path.display());
        let result =
            Chain::parse(&chain).unwrap().decode(&stored, &logical, &mut decoded, &mut Scratch::new());
        assert_eq!(result, Ok(()), "{}", path.display());
        assert!(decoded == expected, "{}", path.display());
        read += 1;
    }
    assert!(read >= 26, "{read} vectors");
}
