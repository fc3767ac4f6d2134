//! Which error does a user get for wrong paths, arrays, steps or ranks? Each mistake has a kind, its message names
//! what was wrong and what to do, and nothing changes.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use drystone::{Adopt, Container, CreateOptions, Error, ErrorKind, Mode, SchemaOp, Writer, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_format::value::Value;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{MemoryStore, PutMode, Store, StoreExt};

use crate::common::*;

/// Checks that the error has this kind, and that its message contains all these parts.
#[track_caller]
fn told(error: Option<Error>, kind: ErrorKind, parts: &[&str]) {
    let error = error.expect("an error");
    assert_eq!(error.kind(), kind, "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

fn with_variable() -> Container {
    let c = memory();
    c.apply(vec![
        create("fields/temperature", f4(), &[4, 6], |v| v.steps = true),
        create("once", f4(), &[3], |_| {}),
        create("text", DType::String, &[2], |_| {}),
    ])
    .unwrap();
    c
}

fn solo(c: &Container) -> Writer {
    c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap()
}

#[test]
fn a_missing_path_a_file_and_an_empty_folder_have_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    told(Container::open(at("no.dry"), Mode::Read).err(), ErrorKind::NotFound, &["no.dry", "check the path"]);
    std::fs::write(at("file"), "x").unwrap();
    told(Container::open(at("file"), Mode::Read).err(), ErrorKind::NotFound, &["not a container", "a file"]);
    let clash = Container::create(at("file"), CreateOptions::default()).err();
    told(clash, ErrorKind::Conflict, &["a file is there"]);
    std::fs::create_dir(at("empty")).unwrap();
    let empty = Container::open(at("empty"), Mode::ReadWrite).err();
    told(empty, ErrorKind::NotFound, &["is not a container", "drystone.json"]);
    let parent = Container::create(at("file").join("below"), CreateOptions::default()).err();
    told(parent, ErrorKind::Io, &["below"]);
    Container::create(at("is.dry"), CreateOptions::default()).unwrap();
    let again = Container::create(at("is.dry"), CreateOptions::default()).err();
    told(again, ErrorKind::Conflict, &["already holds a container", "open it"]);
    Container::open(at("is.dry"), Mode::Append).unwrap();
    Container::open(at("new.dry"), Mode::Append).unwrap();
}

#[test]
fn a_newer_format_or_an_unknown_feature_asks_for_a_newer_program() {
    let store = Arc::new(MemoryStore::new());
    Container::create(store.clone(), CreateOptions::default()).unwrap();
    let identity = Identity::decode(&store.read_all(keys::IDENTITY, 1 << 16).unwrap()).unwrap();
    let reopen = |identity: Identity| {
        store.put(keys::IDENTITY, &[&identity.encode()], PutMode::Replace, false).unwrap();
        Container::open(store.clone(), Mode::Read).err()
    };
    let newer = reopen(Identity { version: 2, ..identity.clone() });
    told(newer, ErrorKind::Unsupported, &["format version 2", "newer drystone"]);
    let feature = reopen(Identity { features: vec!["quantum".into()], ..identity });
    told(feature, ErrorKind::Unsupported, &["quantum", "newer drystone"]);
    store.put(keys::IDENTITY, &[b"{}"], PutMode::Replace, false).unwrap();
    told(Container::open(store.clone(), Mode::Read).err(), ErrorKind::Corrupt, &["drystone.json", "byte"]);
}

#[test]
fn an_unknown_name_is_answered_with_what_is_there() {
    let c = with_variable();
    told(
        c.reading("fields/temprature", None).err(),
        ErrorKind::NotFound,
        &["did you mean \"fields/temperature\"?"],
    );
    told(c.reading("entirely/other", None).err(), ErrorKind::NotFound, &["fields/temperature", "once"]);
    told(memory().reading("t", None).err(), ErrorKind::NotFound, &["no variables"]);
    told(c.reading("once", Some("x")).err(), ErrorKind::NotFound, &["no member \"x\""]);
    told(c.at(99).err(), ErrorKind::NotFound, &["no snapshot 99"]);
    let gone = c.apply(vec![SchemaOp::Delete("onse".into())]).err();
    told(gone, ErrorKind::NotFound, &["did you mean \"once\"?"]);
    let w = solo(&c);
    let put = w.put("onc", &f4(), &dense(&bytes(&[1.0]), &[1], 4), None, None).err();
    told(put, ErrorKind::NotFound, &["did you mean \"once\"?"]);
}

#[test]
fn a_wrong_block_says_what_would_fit_and_spoils_nothing() {
    let c = with_variable();
    let w = solo(&c);
    w.begin_step(None, false).unwrap();
    let t = "fields/temperature";
    let data = bytes(&[1.0; 24]);
    let bad = |dtype: &DType, data: &[u8], shape: &[u64], offset: Option<&[u64]>, item: usize| {
        w.put(t, dtype, &dense(data, shape, item), offset, None).err()
    };
    let invalid = ErrorKind::InvalidArgument;
    told(bad(&DType::Scalar(Scalar::F64), &[0; 192], &[4, 6], None, 8), invalid, &["float32", "float64", t]);
    told(bad(&f4(), &data, &[24], None, 4), invalid, &["1 dimensions", "[4, 6]"]);
    told(
        bad(&f4(), &data, &[4, 6], Some(&[1, 0]), 4),
        invalid,
        &["leaves the variable's shape", "dimension 0"],
    );
    told(bad(&f4(), &data, &[4, 6], Some(&[0]), 4), invalid, &["1 entries for 2 dimensions"]);
    told(bad(&f4(), &data, &[4, 6], Some(&[0, u64::MAX - 2]), 4), invalid, &["dimension 1"]);
    let strings = w.put_strings(t, &[1], &[b"x"], None, None).err();
    told(strings, invalid, &["float32", "not strings"]);
    let floats = w.put("text", &DType::String, &dense(&[0; 32], &[2], 16), None, None).err();
    told(floats, invalid, &["give strings"]);
    let count = w.put_strings("text", &[2], &[b"x"], None, None).err();
    told(count, invalid, &["does not fit the shape"]);
    // After all this the step continues.
    w.put(t, &f4(), &dense(&data, &[4, 6], 4), None, None).unwrap();
    w.end_step().unwrap();
    assert_eq!(read_all(&c, t), data);
}

#[test]
fn a_selection_outside_the_array_is_out_of_range() {
    let c = with_variable();
    let r = c.reading("once", None).unwrap();
    let mut out = vec![0; 16];
    let target = drystone::array::Target::dense(&mut out, &[4], 4).unwrap();
    told(r.read(&Selection::boxed(&[0], &[4]), &target).err(), ErrorKind::OutOfRange, &["axis 0", "3 cells"]);
    let back = Selection { axes: vec![Axis { start: 2, step: -1, count: 4 }] };
    told(r.read(&back, &target).err(), ErrorKind::OutOfRange, &["axis 0"]);
    let far = Selection { axes: vec![Axis { start: 1, step: i64::MAX, count: u64::MAX }] };
    told(r.explain(&far).err(), ErrorKind::OutOfRange, &["axis 0"]);
    told(
        r.read(&Selection::boxed(&[0], &[3]), &target).err(),
        ErrorKind::InvalidArgument,
        &["shape [4]", "[3]"],
    );
    told(r.read(&Selection::all(&[3, 1]), &target).err(), ErrorKind::InvalidArgument, &["2 axes"]);
    let t = c.reading("fields/temperature", None).unwrap();
    told(t.block(Some(0), 0).err(), ErrorKind::NotFound, &["no step 0"]);
    told(r.blocks(Some(0)).err(), ErrorKind::InvalidArgument, &["has no steps"]);
    told(r.block(None, 0).err(), ErrorKind::NotFound, &["0 block(s)"]);
}

#[test]
fn steps_are_opened_and_closed_in_turn() {
    let c = with_variable();
    let w = solo(&c);
    let one = bytes(&[1.0; 24]);
    let outside = w.put("fields/temperature", &f4(), &dense(&one, &[4, 6], 4), None, None).err();
    told(outside, ErrorKind::InvalidArgument, &["inside a step"]);
    told(w.end_step().err(), ErrorKind::InvalidArgument, &["no step is open"]);
    w.begin_step(Some(3), false).unwrap();
    told(w.begin_step(None, false).err(), ErrorKind::InvalidArgument, &["step 3 is open"]);
    told(w.close().err(), ErrorKind::InvalidArgument, &["step 3", "dropped"]);
    told(w.begin_step(None, false).err(), ErrorKind::InvalidArgument, &["closed"]);
    w.close().unwrap();
    assert_eq!(c.snapshot().step_axis(), 0);
    told(solo(&c).begin_step(Some(1 << 62), false).err(), ErrorKind::InvalidArgument, &["too large"]);
}

#[test]
fn a_closed_or_read_only_handle_says_so() {
    let c = with_variable();
    let old = c.at(c.snapshot().version()).unwrap();
    told(old.commit().err(), ErrorKind::InvalidArgument, &["earlier snapshot"]);
    let store = Arc::new(MemoryStore::new());
    Container::create(store.clone(), CreateOptions::default()).unwrap();
    let reader = Container::open(store, Mode::Read).unwrap();
    for error in [
        reader.commit().err(),
        reader.writer(WriterOptions::default()).err(),
        reader.apply(vec![SchemaOp::Delete("x".into())]).err(),
        reader.recover(&Adopt::All, &[]).err(),
        reader.flush().err(),
        reader.begin_batch().err(),
    ] {
        told(error, ErrorKind::InvalidArgument, &["reading only", "r+"]);
    }
    c.close();
    let closed = [
        c.commit().err(),
        c.refresh().err(),
        c.reading("once", None).err(),
        c.snapshots().err(),
        c.at(1).err(),
        c.verify(&mut |_, _| true).err(),
    ];
    for error in closed {
        told(error, ErrorKind::InvalidArgument, &["closed"]);
    }
}

/// Attributes without a name were stored, although HDF5 and netCDF have none, and so were attributes with a NUL,
/// which C read as two names.
#[test]
fn an_attribute_has_a_name() {
    let c = with_variable();
    for (name, wrong) in [("", "empty name"), ("two\0names", "name \"two\\0names\" with a NUL")] {
        let attrs = || [(name.to_string(), Value::Int(1))].into();
        let set = |path: &str| SchemaOp::SetAttrs(path.into(), [(name.into(), Some(Value::Int(1)))].into());
        for (op, owner) in [
            (set(""), "the container"),
            (set("once"), "\"once\""),
            (SchemaOp::CreateGroup(String::new(), attrs()), "the container"),
            (SchemaOp::CreateGroup("group".into(), attrs()), "\"group\""),
            (create("new", f4(), &[], |v| v.attrs = attrs()), "\"new\""),
        ] {
            told(c.apply(vec![op]).err(), ErrorKind::InvalidArgument, &["attribute", owner, wrong]);
        }
        let remove = SchemaOp::SetAttrs("once".into(), [(name.into(), None)].into());
        told(c.apply(vec![remove]).err(), ErrorKind::NotFound, &["no attribute"]);
    }
}

/// Texts in C end at a NUL, so a dimension with a NUL had another name there. Paths have no NUL either.
#[test]
fn names_have_no_nul() {
    let c = with_variable();
    let dims = create("new", f4(), &[2], |v| v.dims = vec!["x\0y".into()]);
    told(
        c.apply(vec![dims]).err(),
        ErrorKind::InvalidArgument,
        &["\"new\"", "dimension name \"x\\0y\"", "NUL"],
    );
    for op in [
        create("n\0w", f4(), &[], |_| {}),
        SchemaOp::CreateGroup("n\0w".into(), [].into()),
        SchemaOp::Rename("once".into(), "n\0w".into()),
        SchemaOp::Link("n\0w".into(), "once".into()),
    ] {
        told(c.apply(vec![op]).err(), ErrorKind::InvalidArgument, &["NUL"]);
    }
}

/// A variable of a batch was reported as "there is no variable". A put to a variable that the batch replaces was lost
/// when the batch ended.
#[test]
fn a_put_within_a_batch_goes_to_no_other_variable() {
    let c = with_variable();
    let w = solo(&c);
    let put = |path: &str| w.put(path, &f4(), &dense(&bytes(&[1.0]), &[], 4), None, None).err();
    c.begin_batch().unwrap();
    c.apply(vec![create("new", f4(), &[], |_| ()), SchemaOp::Link("also".into(), "new".into())]).unwrap();
    told(put("new"), ErrorKind::InvalidArgument, &["batch", "makes the variable \"new\"", "when it ends"]);
    told(put("/also/"), ErrorKind::InvalidArgument, &["makes the variable \"also\""]);
    c.apply(vec![SchemaOp::Delete("once".into())]).unwrap();
    told(put("once"), ErrorKind::InvalidArgument, &["takes away the variable \"once\""]);
    c.apply(vec![create("once", f4(), &[], |_| ())]).unwrap();
    told(put("once"), ErrorKind::InvalidArgument, &["replaces the variable \"once\""]);
    told(put("nowhere"), ErrorKind::NotFound, &["no variable"]);
    c.end_batch(true).unwrap();
    assert_eq!([put("also"), put("once")], [None, None]);
}

/// Symptom to expect: none. If a program dies in a step, the steps that it ended remain, and the next program
/// continues after them.
#[test]
fn a_writer_that_dies_in_a_step_leaves_the_steps_before_it() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[4], |v| v.steps = true)]).unwrap();
    {
        let w = solo(&c);
        for value in [1.0, 2.0] {
            w.begin_step(None, false).unwrap();
            w.put("t", &f4(), &dense(&bytes(&[value; 4]), &[4], 4), None, None).unwrap();
            if value < 2.0 {
                w.end_step().unwrap();
            }
        }
        w.flush().unwrap(); // dropped with step 1 open
    }
    let c = Container::open(store, Mode::ReadWrite).unwrap();
    assert_eq!(floats(&read_all(&c, "t")), [1.0; 4]);
    assert!(!c.commit().unwrap().changed);
    let w = solo(&c);
    assert_eq!(w.begin_step(None, false).unwrap(), 1);
    w.abort_step().unwrap();
}

#[test]
fn wrong_missing_and_duplicate_ranks_are_named() {
    let c = with_variable();
    let open =
        |rank, nranks| c.writer(WriterOptions { rank: Some((rank, nranks)), ..WriterOptions::default() });
    told(open(2, 2).err(), ErrorKind::InvalidArgument, &["rank 2 of 2", "0..nranks-1"]);
    told(open(0, 0).err(), ErrorKind::InvalidArgument, &["rank 0 of 0"]);
    let run = c.writer(WriterOptions { run: Some(1), ..WriterOptions::default() }).err();
    told(run, ErrorKind::InvalidArgument, &["a run is for writers with a rank"]);
    let data = bytes(&[1.0; 24]);
    let write = |w: &Writer| {
        w.begin_step(Some(0), false).unwrap();
        w.put("fields/temperature", &f4(), &dense(&data, &[4, 6], 4), None, None).unwrap();
        w.end_step().unwrap();
    };
    // Of three ranks the last one is missing.
    let (a, b, twice) = (open(0, 3).unwrap(), open(1, 3).unwrap(), open(1, 3).unwrap());
    write(&a);
    write(&b);
    let done = c.commit().unwrap();
    assert!(!done.changed);
    assert_eq!((done.incomplete[0].nranks, done.incomplete[0].missing.clone()), (3, vec![2]));
    assert!(done.incomplete[0].to_string().contains("not closed it: 2"), "{}", done.incomplete[0]);
    // The same rank again.
    write(&twice);
    told(c.commit().err(), ErrorKind::Conflict, &["rank 1 of step 0", "two writers", "recover"]);
    // Another number of ranks, before this is settled.
    told(open(0, 2).err(), ErrorKind::Conflict, &["3 ranks", "one of 2", "recover(adopt=True)"]);
    assert_eq!(c.snapshot().step_axis(), 0);
    let report = c.recover(&Adopt::All, &[]).unwrap();
    assert_eq!(report.incomplete[0].missing, [2]);
    write(&open(0, 1).unwrap());
    assert_eq!(read_all(&c, "fields/temperature"), data);
}

#[test]
fn writers_that_disagree_on_the_number_of_ranks_do_not_commit() {
    let c = with_variable();
    // Both writers are open before either has written anything.
    let writers = [(0, 2), (1, 3)]
        .map(|rank| c.writer(WriterOptions { rank: Some(rank), ..WriterOptions::default() }).unwrap());
    for w in &writers {
        w.begin_step(Some(0), false).unwrap();
        w.end_step().unwrap();
    }
    told(c.commit().err(), ErrorKind::Conflict, &["disagree on the number of ranks", "2 and 3", "recover"]);
    c.recover(&Adopt::None, &[]).unwrap();
    assert_eq!(c.snapshot().step_axis(), 0);
}

#[test]
fn an_impossible_variable_is_refused_with_the_reason() {
    let c = memory();
    let refused = |op: SchemaOp| c.apply(vec![op]).err();
    let invalid = ErrorKind::InvalidArgument;
    told(refused(create("a/../b", f4(), &[1], |_| {})), invalid, &["cannot name a variable"]);
    told(refused(create("", f4(), &[1], |_| {})), invalid, &["cannot name a variable"]);
    told(refused(create("t", f4(), &[1; 9], |_| {})), invalid, &["9 dimensions", "at most 8"]);
    told(refused(create("t", f4(), &[1 << 40, 1 << 40], |_| {})), invalid, &["too large"]);
    told(
        refused(create("t", f4(), &[4], |v| v.fill = Some(vec![0; 8]))),
        invalid,
        &["fill value has 8 bytes"],
    );
    told(refused(create("t", f4(), &[4], |v| v.chunks = Some(vec![0]))), invalid, &["chunk edge of 0"]);
    told(refused(create("t", f4(), &[4], |v| v.transform = "zsdt".into())), invalid, &["transform", "zsdt"]);
    told(refused(create("t", f4(), &[4, 4], |v| v.dims = vec!["x".into(), "x".into()])), invalid, &["twice"]);
    c.apply(vec![create("t", f4(), &[4], |_| {})]).unwrap();
    assert!(!c.apply(vec![create("t", f4(), &[4], |_| {})]).unwrap(), "the identical one again is no change");
    told(refused(create("t", f4(), &[5], |_| {})), ErrorKind::Conflict, &["shape", "[4]"]);
    told(refused(create("t/below", f4(), &[5], |_| {})), ErrorKind::Conflict, &["\"t\" is not a group"]);
    assert_eq!(c.snapshot().version(), 1);
}
