//! Element types, paths and pieces: what is possible and what is refused.

use std::collections::BTreeMap;

use drystone_format::derived::{Derived, Edge, Input, Kind};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_format::entry::StoredPiece;
use drystone_format::keys;
use drystone_format::piece::{BlobRef, Trailer};
use drystone_format::schema::{Name, Schema, Variable, check_path};

fn member(name: &str, dtype: DType, shape: &[u64], offset: u32) -> Member {
    Member { name: name.into(), dtype, shape: shape.to_vec(), offset }
}

fn record(itemsize: u32, members: Vec<Member>) -> DType {
    DType::Record(Record { itemsize, members })
}

fn f32s() -> DType {
    DType::Scalar(Scalar::F32)
}

#[test]
fn an_array_of_records_has_the_leaves_of_each_element() {
    let inner = record(8, vec![member("x", f32s(), &[], 0), member("n", DType::Scalar(Scalar::U16), &[], 4)]);
    let dtype = record(44, vec![member("id", f32s(), &[3], 0), member("a", inner, &[2, 2], 12)]);
    assert_eq!(dtype.validate(), Ok(()));
    let leaves: Vec<(String, u32, u32)> =
        dtype.leaves().into_iter().map(|l| (l.path, l.offset, l.size)).collect();
    let expected = [
        ("id", 0, 12),
        ("a[0,0].x", 12, 4),
        ("a[0,0].n", 16, 2),
        ("a[0,1].x", 20, 4),
        ("a[0,1].n", 24, 2),
        ("a[1,0].x", 28, 4),
        ("a[1,0].n", 32, 2),
        ("a[1,1].x", 36, 4),
        ("a[1,1].n", 40, 2),
    ];
    assert_eq!(leaves, expected.map(|(path, offset, size)| (path.to_owned(), offset, size)));
    assert_eq!(dtype.to_string(), "record{id: float32[3], a: record{x: float32, n: uint16}[2][2]}");
}

#[test]
fn names_of_primitives_are_read_back() {
    for scalar in Scalar::all() {
        assert_eq!(Scalar::parse(scalar.name()), Some(scalar));
    }
    assert_eq!(Scalar::parse("float128"), None);
    assert_eq!((Scalar::C128.size(), Scalar::C128.name()), (16, "complex128"));
    assert_eq!((Scalar::Bool.size(), DType::Unicode(3).item_size(), DType::String.item_size()), (1, 12, 16));
}

#[test]
fn impossible_types_are_refused_with_a_reason() {
    let nested =
        |depth: usize| (0..depth).fold(f32s(), |inner, _| record(4, vec![member("m", inner, &[], 0)]));
    assert_eq!(nested(16).validate(), Ok(()));
    let refused = [
        (record(8, vec![member("x", f32s(), &[], 0), member("y", f32s(), &[], 2)]), "overlaps"),
        (record(6, vec![member("x", f32s(), &[], 4)]), "ends at byte 8"),
        (record(8, vec![member("x", f32s(), &[], 0), member("x", f32s(), &[], 4)]), "are named"),
        (record(8, vec![member("", f32s(), &[], 0)]), "cannot name"),
        (record(8, vec![]), "needs a member"),
        (record(15, vec![member("s", DType::String, &[], 0)]), "ends at byte 16"),
        (record(70_000, vec![member("x", f32s(), &[], 0)]), "70000 bytes"),
        (record(64, vec![member("x", f32s(), &[1 << 62, 8], 0)]), "shape"),
        (record(64, vec![member("x", f32s(), &[0], 0)]), "shape"),
        (record(8192, vec![member("x", record(4, vec![member("y", f32s(), &[], 0)]), &[1025], 0)]), "leaf"),
        (nested(17), "nested"),
        (DType::Bytes(0), "0 bytes"),
        (DType::Unicode(u32::MAX), "bytes"),
    ];
    for (dtype, reason) in refused {
        let error = dtype.validate().unwrap_err();
        assert!(error.contains(reason), "{error}");
        assert!(DType::decode(&dtype.encode()).is_err());
    }
}

#[test]
fn members_of_any_length_are_references_of_16_bytes() {
    let inner =
        record(20, vec![member("x", f32s(), &[], 0), member("l", DType::Ragged(Scalar::I16), &[], 4)]);
    let dtype = record(72, vec![member("s", DType::String, &[2], 0), member("in", inner, &[2], 32)]);
    assert_eq!(DType::decode(&dtype.encode()), Ok(dtype.clone()));
    assert!(
        dtype.has_blobs() && !dtype.is_blob() && !record(4, vec![member("x", f32s(), &[], 0)]).has_blobs()
    );
    let leaves = dtype.leaves();
    let leaves: Vec<_> = leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.offset, leaf.size)).collect();
    let inner = [("in[0].x", 32, 4), ("in[0].l", 36, 16), ("in[1].x", 52, 4), ("in[1].l", 56, 16)];
    assert_eq!(leaves, [&[("s", 0, 32)][..], &inner].concat());
}

#[test]
fn a_fill_value_refers_to_no_blob() {
    let members = vec![member("x", f32s(), &[], 0), member("s", DType::String, &[], 4)];
    let of = |fill: Vec<u8>| {
        let mut schema = Schema::empty();
        schema.next_id = 1;
        let dtype = record(20, members.clone());
        let variable = Variable { dtype, fill: Some(fill), ..variable(0) };
        schema.variables.insert(0, variable);
        schema
    };
    let zeros = of([&7f32.to_le_bytes()[..], &[0; 16]].concat());
    assert_eq!(Schema::decode(&zeros.encode()), Ok(zeros));
    for at in 4..20 {
        let mut fill = vec![0; 20];
        fill[at] = 1;
        let error = of(fill.clone()).validate().unwrap_err();
        assert!(error.contains("\"s\""), "{error}");
        assert!(Schema::decode(&of(fill).encode()).is_err());
    }
}

#[test]
fn paths_are_checked() {
    for path in ["a", "fields/temperature", "a b/ü"] {
        assert_eq!(check_path(path), Ok(()));
    }
    for path in ["", "/a", "a/", "a//b", ".", "a/../b", "a\0b", &"x".repeat(1025), &"a/".repeat(64), "a/."] {
        assert!(check_path(path).is_err(), "{path:?}");
    }
}

fn variable(id: u32) -> Variable {
    Variable {
        id,
        dtype: f32s(),
        shape: vec![],
        growable: vec![],
        dims: vec![],
        steps: false,
        local: false,
        transform: String::new(),
        chunks: None,
        fill: None,
        attrs: BTreeMap::new(),
        created: 1,
        uid: 0,
        access: String::new(),
        meaning: None,
        derived: None,
        clips: vec![],
    }
}

#[test]
fn links_lead_to_variables_and_groups_but_not_in_circles() {
    let mut schema = Schema::empty();
    schema.next_id = 1;
    schema.variables.insert(0, variable(0));
    schema.groups.insert("run/fields".into(), BTreeMap::new());
    schema.names.insert("run/fields/t".into(), Name::Variable(0));
    let mut link = |path: &str, target: &str| {
        schema.names.insert(path.into(), Name::Link(target.into()));
    };
    link("t", "run/fields/t");
    link("latest", "run");
    link("again", "latest/fields");
    link("a", "b");
    link("b", "a");
    link("dangling", "nothing");
    link("grows", "grows/x");
    (1..=16).for_each(|i| link(&format!("c{i}"), &if i == 1 { "t".into() } else { format!("c{}", i - 1) }));
    assert_eq!(schema.validate(), Ok(()));
    for path in ["run/fields/t", "t", "latest/fields/t", "again/t", "c15"] {
        assert_eq!(schema.resolve(path).map(|v| v.id), Some(0), "{path}");
    }
    for path in ["a", "b", "dangling", "grows", "grows/y", "c16", "run/fields", "nothing", ""] {
        assert_eq!(schema.resolve(path), None, "{path}");
    }
    assert_eq!(schema.follow("latest/fields"), Some("run/fields".into()));
    assert_eq!(schema.named().map(|(path, v)| (path, v.id)).collect::<Vec<_>>(), [("run/fields/t", 0)]);
}

#[test]
fn keys_are_read_in_one_spelling_only() {
    assert_eq!(keys::segment(0xabc, 3), "log/0000000000000abc-0003.seg");
    assert_eq!(keys::parse_log("log/0000000000000abc-0003.seg"), Some((0xabc, 3, false)));
    assert_eq!(keys::parse_log("log/0000000000000abc-12345.idx"), Some((0xabc, 12345, true)));
    assert_eq!(keys::parse_manifest(&keys::manifest(17)), Some(17));
    assert_eq!(keys::parse_mark(&keys::mark(17)), Some(17));
    assert_eq!(keys::parse_pages(&keys::pages(u64::MAX)), Some(u64::MAX));
    for key in [
        "log/0000000000000ABC-0003.seg",
        "log/0000000000000abc-3.seg",
        "log/0000000000000abc-00003.seg",
        "log/+000000000000abc-0003.seg",
        "log/0000000000000abc-0003.tmp",
    ] {
        assert_eq!(keys::parse_log(key), None, "{key}");
    }
    assert_eq!(keys::parse_manifest("manifest/17.dsm"), None);
    assert_eq!(keys::parse_manifest("manifest/000000000017.mark"), None);
}

#[test]
fn a_part_of_a_piece_is_verified_by_its_units() {
    let payload: Vec<u8> = (0..100u8).collect();
    let trailer = Trailer::of(&payload, 5, vec![]);
    let bytes = trailer.encode();
    let mut framed = Vec::new();
    drystone_format::frame::push(&mut framed, drystone_format::frame::FrameKind::Group, 0, &bytes);
    let check = drystone_format::frame::parse_header(&framed).unwrap().payload_crc;
    let piece = StoredPiece { position: 64, length: 100, trailer: 16, unit_log2: 5, check };
    assert_eq!((piece.units(), piece.trailer_position(), piece.end()), (4, 164, 180));
    let trailer = Trailer::decode(&piece, &bytes).unwrap();
    assert_eq!(trailer.check(&piece, 0, &payload), Ok(()));
    assert_eq!(trailer.check(&piece, 1, &payload[32..96]), Ok(()));
    assert_eq!(trailer.check(&piece, 3, &payload[96..]), Ok(()));
    assert!(trailer.check(&piece, 1, &payload[32..95]).is_err());
    assert!(trailer.check(&piece, 4, b"x").is_err());
    let mut damaged = payload.clone();
    damaged[70] ^= 1;
    assert_eq!(trailer.check(&piece, 0, &damaged).unwrap_err().at, 64);
    assert_eq!(trailer.check(&piece, 0, &damaged[..64]), Ok(()));
}

#[test]
fn metadata_stands_between_the_checks_and_the_histogram() {
    let payload = [7u8; 100];
    let trailer = Trailer::of(&payload, 5, b"\x01histogram".to_vec()).with_meta(b"Meta");
    let bytes = trailer.encode();
    assert_eq!(&bytes[16..], b"M\x04\0\0Meta\x01histogram");
    let piece = |bytes: &[u8]| {
        let check = BlobRef::of(0, bytes).crc;
        StoredPiece { position: 0, length: 100, trailer: bytes.len() as u64, unit_log2: 5, check }
    };
    assert_eq!(Trailer::decode(&piece(&bytes), &bytes), Ok(trailer));
    for bad in [&b"M\0\0\0"[..], b"M\x05\0\0meta", b"M", b"M\x01\0\0aM\x01\0\0b"] {
        let bytes = [&bytes[..16], bad].concat();
        assert!(Trailer::decode(&piece(&bytes), &bytes).is_err(), "{bad:?}");
    }
    assert!(Trailer::of(&payload, 5, vec![]).with_meta(&vec![1; (64 << 10) + 1]).meta.is_empty());
}

#[test]
fn an_empty_blob_has_no_place() {
    assert_eq!(BlobRef::of(96, b""), BlobRef::default());
    let blob = BlobRef::of(96, b"text");
    assert_eq!(BlobRef::decode(&blob.encode()), Ok(blob));
    assert_eq!((blob.check(b"text"), blob.check(b"tent").is_err()), (Ok(()), true));
    assert!(BlobRef::decode(&BlobRef { length: 0, ..blob }.encode()).is_err());
}

/// A schema with a variable that is derived from another.
fn derived_schema() -> Schema {
    let mut schema = Schema::empty();
    schema.next_id = 2;
    let inputs = vec![Input { name: "u".into(), variable: 0 }];
    let derived = Derived {
        kind: Kind::Virtual,
        edge: Edge::Fill,
        text: "u * 2".into(),
        tree: b"DRYX".to_vec(),
        inputs,
    };
    for (id, derived) in [None, Some(Box::new(derived))].into_iter().enumerate() {
        schema.variables.insert(id as u32, Variable { derived, ..variable(id as u32) });
        schema.names.insert(format!("v{id}"), Name::Variable(id as u32));
    }
    schema
}

#[test]
fn a_name_of_a_derived_variable_has_a_kind_of_its_own() {
    let bytes = derived_schema().encode();
    assert_eq!(Schema::decode(&bytes).as_ref(), Ok(&derived_schema()));
    // `"v0": [0, 0]`, then `"v1": [2, 1]`.
    let at = bytes.windows(6).position(|w| w == b"\x62v1\x82\x02\x01").expect("the name is there");
    for kind in [0, 1, 3] {
        let mut other = bytes.clone();
        other[at + 4] = kind;
        assert!(Schema::decode(&other).is_err(), "kind {kind}");
    }
}

#[test]
fn a_derived_variable_is_younger_than_its_inputs() {
    let with = |change: &dyn Fn(&mut Derived)| {
        let mut schema = derived_schema();
        change(schema.variables.get_mut(&1).and_then(|v| v.derived.as_mut()).expect("it is derived"));
        Schema::decode(&schema.encode()).map(|_| ())
    };
    assert_eq!(with(&|_| ()), Ok(()));
    let circle = with(&|d| d.inputs[0].variable = 1).expect_err("a circle");
    assert!(circle.what.contains("which is no older"), "{circle:?}");
    assert!(with(&|d| d.inputs.clear()).is_err());
    assert!(with(&|d| d.inputs.push(d.inputs[0].clone())).is_err());
    assert!(with(&|d| d.text = "u".repeat(1 + (256 << 10))).is_err());
    assert!(with(&|d| d.tree = vec![0; 1 + (256 << 10)]).is_err());
}
