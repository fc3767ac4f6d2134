//! Pages and manifests of catalogues: vectors, flipped bits, arbitrary bytes.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use drystone_catalog::{Column, Directory, Facts, Key, KeyKind, Manifest, PageBuilder, PageRef, Value, fuzz};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/catalog")
}

/// Facts of three containers, in another order than that of their paths.
fn facts() -> Vec<Facts> {
    let attribute = |name: &str| Key::new(KeyKind::Attribute, "", name);
    let facts = |path: &str, n: u8, values: Vec<(Key, Value)>| Facts {
        path: path.to_owned(),
        uuid: [n; 16],
        version: u64::from(n),
        time: 1_700_000_000_000_000_000 + u64::from(n),
        values,
    };
    vec![
        facts(
            "/data/b.dry",
            2,
            vec![
                (attribute("campaign"), Value::Text("alphabet".into())),
                (attribute("dt"), Value::float(-0.0)),
                (attribute("done"), Value::Bool(false)),
                (Key::new(KeyKind::Greatest, "fields/p", "x"), Value::float(f64::NAN)),
            ],
        ),
        facts(
            "/data/a.dry",
            1,
            vec![
                (attribute("campaign"), Value::Text("alpha".into())),
                (attribute("campaign"), Value::Text("größe".into())),
                (attribute("dt"), Value::Integer(-(1 << 63))),
                (attribute("done"), Value::Bool(true)),
                (Key::new(KeyKind::Attribute, "p", "units"), Value::Text("Pa".into())),
                (Key::own("name"), Value::Text("a.dry".into())),
            ],
        ),
        facts(
            "s3://bucket/c.dry",
            3,
            vec![
                (attribute("campaign"), Value::Text("alpha".into())),
                (attribute("dt"), Value::Integer(u64::MAX.into())),
                (Key::new(KeyKind::Least, "p", ""), Value::float(-1.5)),
            ],
        ),
    ]
}

fn page() -> (Vec<u8>, Vec<u8>) {
    PageBuilder::pages(facts()).pop().unwrap().encode()
}

fn manifest() -> Manifest {
    let page = |n: u8, containers, hidden| PageRef {
        id: [n; 16],
        containers,
        len: 4096 * u64::from(n),
        directory: 321,
        crc: 0x1234_5678,
        hidden,
    };
    Manifest {
        number: 7,
        uuid: [9; 16],
        pages: vec![page(1, 1000, vec![0, 1, 900, 999]), page(2, 1, vec![])],
    }
}

#[test]
fn every_vector_is_what_is_written_today() {
    for (name, bytes) in [("v1_page", page().0), ("v1_manifest", manifest().encode())] {
        let stored = fs::read(folder().join(format!("{name}.bin"))).unwrap();
        assert_eq!(stored, bytes, "{name}");
    }
    assert_eq!(Manifest::decode(&fs::read(folder().join("v1_manifest.bin")).unwrap()).unwrap(), manifest());
}

#[test]
fn the_document_quotes_a_vector() {
    let document = fs::read_to_string(folder().join("../../../docs/format/catalog.md")).unwrap();
    let (_, rest) = document.split_once("```hex catalog/v1_manifest.bin\n").unwrap();
    let (body, _) = rest.split_once("```").unwrap();
    let digits = body.lines().flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
    let quoted: Vec<u8> = digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect();
    assert_eq!(quoted, fs::read(folder().join("v1_manifest.bin")).unwrap());
}

#[test]
fn a_page_holds_what_was_put_into_it() {
    let (page, directory) = page();
    let directory = Directory::decode(&directory, page.len() as u64).unwrap();
    assert_eq!(directory.containers, 3);
    let keys: Vec<String> = directory.columns.iter().map(|(key, _)| key.text()).collect();
    assert_eq!(keys, ["campaign", "done", "dt", "p.units", "min(p)", "max(fields/p.x)", "name", "path"]);
    for (_, section) in &directory.columns {
        let from = section.offset as usize;
        Column::decode(&page[from..from + section.len as usize], 3).unwrap();
    }
}

#[test]
fn no_flipped_bit_of_a_manifest_goes_unnoticed() {
    let bytes = manifest().encode();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&flipped).is_err(), "bit {bit}");
    }
    for end in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn any_bytes_have_an_answer() {
    let (page, directory) = page();
    let mut seeds =
        vec![manifest().encode(), directory.clone(), page.clone(), b"a == 'x*' & max(p.x) > 3".to_vec()];
    let columns = Directory::decode(&directory, page.len() as u64).unwrap().columns;
    seeds.extend(columns.iter().map(|(_, s)| page[s.offset as usize..][..s.len as usize].to_vec()));
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below.max(1)
    };
    let rounds = if std::env::var_os("DRYSTONE_LONG").is_some() { 200_000 } else { 4000 };
    for round in 0..rounds {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random(3) {
            match random(4) {
                0 => bytes.truncate(random(bytes.len() + 1)),
                1 => bytes.insert(random(bytes.len() + 1), random(256) as u8),
                _ => {
                    let at = random(bytes.len());
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = if random(2) == 0 { random(256) as u8 } else { *byte ^ (1 << random(8)) };
                    }
                }
            }
        }
        fuzz(&bytes);
    }
    seeds.iter().for_each(|seed| fuzz(seed));
}

/// Writes the vectors, once.
#[test]
#[ignore = "vectors are never written again"]
fn write_vectors() {
    for (name, bytes) in [("v1_page", page().0), ("v1_manifest", manifest().encode())] {
        let path = folder().join(format!("{name}.bin"));
        assert!(!path.exists(), "{name} is there already");
        fs::write(path, bytes).unwrap();
    }
}
