//! The vectors in tests/vectors/ are read as the values beside them, and the documents quote them.

use std::fs;
use std::path::{Path, PathBuf};

use drystone_format::block::decode_block;
use drystone_format::branch::{Branch, PageRef};
use drystone_format::frame::{self, Next};
use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_format::piece::Trailer;
use drystone_format::source::decode_page;

use crate::describe::describe;
use crate::json::Json;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn vectors() -> PathBuf {
    root().join("tests/vectors")
}

#[test]
fn every_vector_is_read_as_the_value_beside_it() {
    let mut n = 0;
    for file in fs::read_dir(vectors()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "bin") {
            continue;
        }
        let expected = fs::read_to_string(path.with_extension("json")).unwrap();
        let structure = expected.split('"').nth(3).unwrap();
        let value = describe(structure, &fs::read(&path).unwrap()).unwrap();
        let found = Json::object([("structure", Json::Text(structure.into())), ("value", value)]).pretty();
        assert_eq!(found, expected, "{}", path.display());
        n += 1;
    }
    assert!(n >= 45, "{n} vectors");
}

/// Bytes of the hexadecimal blocks of a document: the fence names the file, `;` begins a comment.
fn quoted(document: &str) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    for block in document.split("```hex ").skip(1) {
        let (name, rest) = block.split_once('\n').expect("a block of lines");
        let (body, _) = rest.split_once("```").expect("a block of lines");
        let digits =
            body.lines().flat_map(|line| line.split(';').next().unwrap_or_default().split_whitespace());
        out.push((
            name.to_owned(),
            digits.map(|d| u8::from_str_radix(d, 16).expect("hexadecimal")).collect(),
        ));
    }
    out
}

#[test]
fn the_documents_quote_the_vectors() {
    let documents = [
        "columns",
        "frame",
        "identity",
        "staged",
        "redundancy",
        "cache-unit",
        "block-index",
        "log",
        "manifest",
        "packs",
        "log-packs",
    ];
    for document in documents {
        let text = fs::read_to_string(root().join(format!("docs/format/{document}.md"))).unwrap();
        let quoted = quoted(&text);
        assert!(!quoted.is_empty(), "{document}.md has no worked example");
        for (name, bytes) in quoted {
            assert_eq!(bytes, fs::read(vectors().join(&name)).unwrap(), "{name} in {document}.md");
        }
    }
}

/// The payload of the frame that a page reference names.
fn page(page: &PageRef) -> Vec<u8> {
    let file = fs::read(vectors().join("v1_container").join(keys::pages(page.file))).expect("a page file");
    let Next::Frame { header, payload, .. } = frame::next(&file, page.offset, u64::MAX) else {
        panic!("no frame at {}", page.offset);
    };
    assert_eq!((header.len, header.payload_crc), (page.length.into(), page.crc));
    payload.to_vec()
}

#[test]
fn every_piece_of_the_container_is_found_and_sound() {
    let container = vectors().join("v1_container");
    let manifest = Manifest::decode(&fs::read(container.join(keys::manifest(3))).unwrap()).unwrap();
    let sources = decode_page(&page(&manifest.source_pages[0])).unwrap();
    let root = manifest.root.unwrap();
    let branch = Branch::decode(&page(&root.page)).unwrap();
    assert_eq!((branch.height, branch.children.len()), (root.height, 2));
    let mut entries = 0;
    for child in branch.children {
        let leaf = decode_block(&page(&child.page)).unwrap();
        assert_eq!(leaf.len() as u64, child.entries);
        for entry in &leaf {
            let source = &sources[entry.source as usize];
            let segment = fs::read(container.join(keys::segment(source.writer, source.part))).unwrap();
            let piece = entry.piece;
            let at = |from: u64, len: u64| &segment[from as usize..(from + len) as usize];
            let payload = at(piece.position, piece.length);
            if piece.trailer == 0 {
                piece.check_payload(payload).unwrap();
            } else {
                let trailer = Trailer::decode(&piece, at(piece.trailer_position(), piece.trailer)).unwrap();
                trailer.check(&piece, 0, payload).unwrap();
            }
        }
        entries += child.entries;
    }
    assert_eq!(entries, root.entries);
}
