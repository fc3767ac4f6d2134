//! A catalogue decodes to what was encoded, and changed bytes are refused.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use drystone_hdf5_vol::fuzzing;
use drystone_hdf5_vol::model::catalogue::{Catalogue, HEADER};
use drystone_hdf5_vol::model::tree::{
    Attribute, Body, Dataset, Filter, Group, Object, Properties, ROOT, Space, StoredType, Target, Times, Tree,
};
use proptest::prelude::*;

fn dtype() -> StoredType {
    StoredType { encoded: vec![3, 0, 0x10, 8, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0], size: 4, committed: None }
}

fn tree() -> Tree {
    let mut tree = Tree::new(3, 1);
    tree.fcpl = vec![1, 2, 3];
    let group = tree.add(Object::new(Body::Group(Group::default()), Times::now(true)));
    let committed = tree.add(Object::new(Body::Type(dtype()), Times::default()));
    let dataset = Dataset {
        dtype: StoredType { committed: Some(committed), ..dtype() },
        space: Space::Simple(vec![3, 5], vec![u64::MAX, 5]),
        properties: Properties {
            layout: 2,
            chunk: vec![1, 5],
            filters: vec![Filter { id: 1, flags: 1, values: vec![4] }],
            fill_defined: 2,
            ..Properties::default()
        },
        fill: Some(vec![9, 0, 0, 0]),
        variable: Some((4, 77)),
        high: vec![4, 5],
    };
    let dataset = tree.add(Object::new(Body::Dataset(Box::new(dataset)), Times::default()));
    assert!(tree.link(ROOT, b"g", 1, Target::Hard(group)));
    assert!(tree.link(group, b"t", 0, Target::Hard(committed)));
    assert!(tree.link(group, b"d", 0, Target::Hard(dataset)));
    assert!(tree.link(ROOT, b"again", 0, Target::Hard(dataset)));
    assert!(tree.link(ROOT, b"soft", 0, Target::Soft(b"/g/d".to_vec())));
    assert!(tree.link(ROOT, b"far", 0, Target::Custom(64, b"\0x.h5\0/d\0".to_vec())));
    let value = Attribute { order: 0, cset: 1, dtype: dtype(), space: Space::Scalar, data: vec![1, 2, 3, 4] };
    tree.objects.get_mut(&dataset).unwrap().put_attribute(b"a", value);
    tree
}

#[test]
fn a_catalogue_comes_back() {
    let bytes = Catalogue::encode(&tree(), 12);
    assert_eq!(Catalogue::decode(&bytes).unwrap(), Catalogue { tree: tree(), heap: 12 });
}

#[test]
fn bytes_after_a_catalogue_are_of_an_older_one_and_ignored() {
    let mut bytes = Catalogue::encode(&tree(), 0);
    bytes.extend_from_slice(&[7; 100]);
    assert!(Catalogue::decode(&bytes).is_ok());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = Catalogue::encode(&tree(), 12);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Catalogue::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let bytes = Catalogue::encode(&tree(), 12);
    for n in 0..bytes.len() {
        assert!(Catalogue::decode(&bytes[..n]).is_err(), "{n} bytes");
    }
}

#[test]
fn with_a_valid_checksum_nothing_panics_and_values_round_trip() {
    let bytes = Catalogue::encode(&tree(), 12);
    for bit in 0..(bytes.len() - HEADER) * 8 {
        let mut bad = bytes[HEADER..].to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        fuzzing::fuzz_catalogue(&bad);
    }
}

#[test]
fn an_object_is_removed_with_its_last_link_and_with_its_dependants() {
    let mut tree = tree();
    let group = match tree.group(ROOT).unwrap().links[&b"g"[..]].target {
        Target::Hard(id) => id,
        _ => unreachable!(),
    };
    tree.unlink(ROOT, b"g").unwrap();
    assert!(tree.reap(vec![group], |id| id == group).is_empty(), "it is held open");
    let gone = tree.reap(vec![group], |_| false);
    assert_eq!(gone, [group], "the dataset has another link, and the type stays while it has it");
    let dataset = tree.plain(b"/again").unwrap();
    assert_eq!(Catalogue::decode(&Catalogue::encode(&tree, 0)).unwrap().tree, tree);
    tree.unlink(ROOT, b"again").unwrap();
    assert_eq!(tree.reap(vec![dataset], |_| false).len(), 2, "the dataset and its type");
}

/// Symptom: a file no longer opened ("a reference to a type that is not committed") after a program had deleted
/// a committed type that a dataset used. Cause: the type was removed with its last link, so the stored
/// catalogue was refused. Such catalogues are now read.
#[test]
fn a_dataset_keeps_the_definition_of_its_lost_committed_type() {
    let mut tree = tree();
    let group = tree.plain(b"/g").unwrap();
    let dataset = tree.plain(b"/again").unwrap();
    let committed = tree.plain(b"/g/t").unwrap();
    tree.unlink(group, b"t").unwrap();
    tree.objects.remove(&committed);
    let found = Catalogue::decode(&Catalogue::encode(&tree, 0)).unwrap().tree;
    assert_eq!(found.dataset(dataset).unwrap().dtype, dtype());
}

#[test]
fn a_reference_count_is_never_below_the_number_of_links() {
    let mut tree = tree();
    let dataset = tree.plain(b"/again").unwrap();
    assert!(tree.count_reference(dataset, true));
    assert_eq!(tree.references(dataset), 3);
    assert_eq!(Catalogue::decode(&Catalogue::encode(&tree, 0)).unwrap().tree, tree);
    assert!(tree.count_reference(dataset, false));
    assert!(!tree.count_reference(dataset, false), "two links lead to it");
    assert!(!tree.count_reference(12345, true));
    assert_eq!(tree.references(tree.plain(b"/g/t").unwrap()), 2, "a link and a dataset");
    tree.objects.get_mut(&dataset).unwrap().nlink = 1;
    assert!(Catalogue::decode(&Catalogue::encode(&tree, 0)).is_err(), "more links than are counted");
}

proptest! {
    #[test]
    fn any_bytes_are_a_stub_or_are_refused(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        fuzzing::fuzz_stub(&data);
        fuzzing::fuzz_catalogue(&data);
    }
}
