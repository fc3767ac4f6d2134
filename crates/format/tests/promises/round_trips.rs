//! Encoded values are decoded to the same values.

use std::collections::BTreeSet;

use drystone_format::block::decode_block;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::cursor::Reader;
use drystone_format::dtype::DType;
use drystone_format::entry::{Entry, MAX_BLOCK_ENTRIES, encode_block};
use drystone_format::identity::{self, Durability, Identity};
use drystone_format::log::{FileHeader, GroupEntries, GroupHead, decode_group, decode_into, encode_group};
use drystone_format::manifest::Manifest;
use drystone_format::published;
use drystone_format::schema::Schema;
use drystone_format::statistics::Statistics;
use drystone_format::steps::{StepRun, Steps};
use drystone_format::value::Value;
use drystone_format::{column, frame, source, table};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::values;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_column_comes_back_and_is_no_larger_than_packed(values in values::column()) {
        let mut out = Vec::new();
        column::encode(&values, &mut out);
        prop_assert!(out.len() <= 18 + 8 * values.len());
        let mut r = Reader::new(&out);
        prop_assert_eq!(column::decode(&mut r, values.len()), Ok(values));
        prop_assert_eq!(r.remaining(), 0);
    }

    #[test]
    fn a_type_comes_back(dtype in values::dtype()) {
        prop_assert_eq!(dtype.validate(), Ok(()));
        prop_assert_eq!(DType::decode(&dtype.encode()), Ok(dtype));
    }

    #[test]
    fn leaves_of_a_type_are_disjoint_and_inside_it(dtype in values::dtype()) {
        let leaves = dtype.leaves();
        prop_assert!(!leaves.is_empty());
        let mut bytes = vec![false; dtype.item_size() as usize];
        for leaf in leaves {
            prop_assert_eq!(u64::from(leaf.size), leaf.repeat * u64::from(leaf.dtype.item_size()));
            for byte in &mut bytes[leaf.offset as usize..(leaf.offset + leaf.size) as usize] {
                prop_assert!(!std::mem::replace(byte, true));
            }
        }
    }

    #[test]
    fn a_value_comes_back(value in values::value()) {
        prop_assert_eq!(value.validate(), Ok(()));
        prop_assert_eq!(Value::decode(&value.encode()), Ok(value));
    }

    #[test]
    fn a_schema_comes_back(schema in values::schema()) {
        prop_assert_eq!(schema.validate(), Ok(()));
        prop_assert_eq!(Schema::decode(&schema.encode()), Ok(schema));
    }

    #[test]
    fn an_entry_block_comes_back(entries in values::entries()) {
        prop_assert_eq!(decode_block(&encode_block(&entries)), Ok(entries));
    }

    #[test]
    fn a_group_comes_back((head, entries) in values::group()) {
        prop_assert_eq!(decode_group(&encode_group(&head, &entries)), Ok((head, entries)));
    }

    #[test]
    fn a_branch_comes_back(branch in values::branch()) {
        prop_assert_eq!(Branch::decode(&branch.encode()), Ok(branch));
    }

    #[test]
    fn a_subchunk_table_comes_back(subchunks in values::table()) {
        prop_assert_eq!(table::decode(&table::encode(&subchunks), subchunks.len() as u64), Ok(subchunks));
    }

    #[test]
    fn a_source_page_comes_back(sources in vec(values::source(), 0..20)) {
        prop_assert_eq!(source::decode_page(&source::encode_page(&sources)), Ok(sources));
    }

    #[test]
    fn what_was_published_comes_back(arrays in vec(values::published(), 0..4), shards in values::shards()) {
        prop_assert_eq!(published::decode(&published::encode(&arrays)), Ok(arrays));
        prop_assert_eq!(published::decode_page(&published::encode_page(&shards)), Ok(shards));
    }

    #[test]
    fn statistics_of_a_shard_come_back(found in values::shard_statistics()) {
        prop_assert_eq!(Statistics::decode(&found.encode()), Ok(found));
    }

    #[test]
    fn a_manifest_comes_back(manifest in values::manifest()) {
        prop_assert_eq!(Manifest::decode(&manifest.encode().unwrap()), Ok(manifest));
    }

    #[test]
    fn a_file_header_comes_back(header in values::file_header()) {
        prop_assert_eq!(FileHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn steps_come_back(steps in values::steps()) {
        prop_assert_eq!(Steps::decode(&steps.encode()), Ok(steps));
    }

    #[test]
    fn steps_behave_as_a_set(
        inserts in vec(prop_oneof![0u64..30, 0u64..1000, any::<u64>()], 0..60),
        removals in vec(0u64..30, 0..20),
    ) {
        let (mut steps, mut model) = (Steps::default(), BTreeSet::new());
        for step in inserts {
            steps.insert(step);
            if step != u64::MAX {
                model.insert(step);
            }
            prop_assert!(steps.contains(step) || step == u64::MAX);
            prop_assert!(steps.iter().eq(model.iter().copied()));
        }
        prop_assert_eq!(steps.len(), model.len() as u64);
        prop_assert_eq!(steps.last(), model.last().copied());
        prop_assert!((0..1000).all(|step| steps.contains(step) == model.contains(&step)));
        let ascending = |model: &BTreeSet<u64>| {
            let mut ascending = Steps::default();
            model.iter().for_each(|&step| ascending.insert(step));
            ascending.runs
        };
        prop_assert_eq!(&ascending(&model), &steps.runs);
        for step in removals.into_iter().chain(model.clone().into_iter().step_by(3)) {
            steps.remove(step);
            model.remove(&step);
            prop_assert!(steps.iter().eq(model.iter().copied()));
            prop_assert_eq!(&ascending(&model), &steps.runs);
        }
    }

    #[test]
    fn an_identity_comes_back(uuid in any::<[u8; 16]>(), features in vec("\\PC{0,8}", 0..4), created in any::<String>()) {
        for durability in [Durability::Durable, Durability::Async, Durability::Memory] {
            let identity =
                Identity { version: 1, uuid, durability, redundancy: String::new(), features: features.clone(), created: created.clone() };
            prop_assert_eq!(Identity::decode(&identity.encode()), Ok(identity));
        }
    }

    #[test]
    fn a_hint_comes_back(version in 0u64..1_000_000_000_000) {
        prop_assert_eq!(identity::decode_hint(&identity::encode_hint(version)), Some(version));
        prop_assert_eq!(identity::decode_mark(&identity::encode_mark(version)), Ok(version));
    }

    #[test]
    fn frames_are_found_one_after_the_other(payloads in vec(vec(any::<u8>(), 0..40), 0..6)) {
        let mut file = Vec::new();
        for (ordinal, payload) in (0u64..).zip(&payloads) {
            frame::push(&mut file, frame::FrameKind::Group, ordinal, payload);
        }
        let mut at = 0;
        for (ordinal, expected) in (0u64..).zip(&payloads) {
            let frame::Next::Frame { header, payload, end } = frame::next(&file, at, ordinal) else {
                panic!("no frame {ordinal}");
            };
            prop_assert_eq!(payload, expected);
            prop_assert_eq!(end, at + frame::padded(header.len));
            at = end;
        }
        prop_assert_eq!(frame::next(&file, at, u64::MAX), frame::Next::End);
    }
}

#[test]
fn every_bit_of_a_nan_comes_back() {
    for bits in [0x7ff8_0000_0000_0000u64, 0xfff0_0000_0000_0001, 0x7ff4_dead_beef_0001] {
        let Value::Float(x) = Value::decode(&Value::Float(f64::from_bits(bits)).encode()).unwrap() else {
            panic!("no float");
        };
        assert_eq!(x.to_bits(), bits);
    }
}

#[test]
fn steps_that_keep_a_distance_are_one_run() {
    let mut steps = Steps::default();
    (0..100_000).for_each(|step| steps.insert(step));
    assert_eq!(steps.runs, [StepRun { first: 0, count: 100_000, stride: 1 }]);
    let mut steps = Steps::default();
    [20, 0, 40, 30, 10].into_iter().for_each(|step| steps.insert(step));
    assert_eq!(steps.runs, [StepRun { first: 0, count: 5, stride: 10 }]);
}

#[test]
fn the_later_of_two_hidings_counts() {
    let mut steps = Steps::default();
    steps.hide(7, 3);
    steps.hide(7, 9);
    steps.hide(7, 4);
    steps.hide(2, 1);
    assert_eq!((steps.hidden_below(7), steps.hidden_below(2), steps.hidden_below(3)), (9, 1, 0));
}

#[test]
fn a_regular_decomposition_of_4096_blocks_costs_its_checks() {
    let entries = values::regular_entries([16, 16, 16], 64);
    let bytes = encode_block(&entries);
    assert!(bytes.len() < 5 * entries.len(), "{} bytes", bytes.len());
    assert_eq!(decode_block(&bytes), Ok(entries));
}

#[test]
fn a_branch_over_branches_covers_them() {
    let entries = values::regular_entries([4, 4, 4], 10);
    let leaves: Vec<Child> =
        entries.chunks(8).map(|chunk| Child::of_entries(chunk, PageRef::default())).collect();
    let branch = Branch { height: 1, children: leaves };
    let above = Child::of_branch(&branch, PageRef::default());
    assert_eq!((above.entries, above.commit), (64, 9));
    assert_eq!((&above.lo[..3], &above.hi[..3]), (&[0u64, 0, 0][..], &[40u64, 40, 40][..]));
    assert_eq!(above.first, (4, 1, 0));
}

#[test]
fn entries_that_were_packed_on_the_way_make_the_same_group() {
    for count in
        [0, 1, MAX_BLOCK_ENTRIES - 1, MAX_BLOCK_ENTRIES, MAX_BLOCK_ENTRIES + 1, 3 * MAX_BLOCK_ENTRIES]
    {
        let head = GroupHead {
            step: Some(7),
            last: true,
            replace: false,
            group: 3,
            part: 0,
            entries: count as u64,
            variables: vec![(1, 9)],
            closed: 0,
        };
        let one = |n: usize| Entry { step: 8, variable: 1, put: n as u64, subchunks: 1, ..Entry::default() };
        let entries: Vec<Entry> = (0..count).map(one).collect();
        let mut packed = GroupEntries::default();
        packed.push(Entry::default());
        packed.clear();
        packed.extend(entries.iter().cloned());
        assert_eq!((packed.len(), packed.is_empty()), (count as u64, count == 0));
        assert_eq!(packed.encode(&head), encode_group(&head, &entries));
        assert_eq!(packed.few(), (count < MAX_BLOCK_ENTRIES).then_some(&entries[..]));
        let mut seen = Vec::new();
        let each = packed.each(&mut |entry| {
            seen.push(entry);
            Ok::<(), drystone_format::Corrupt>(())
        });
        each.unwrap();
        assert_eq!(seen, entries);
        let (mut read, mut many) = (GroupEntries::default(), 0);
        assert_eq!(decode_into(&packed.encode(&head), &mut read, &mut |_| many += 1), Ok(head));
        assert_eq!((read, many), (packed, count));
    }
}
