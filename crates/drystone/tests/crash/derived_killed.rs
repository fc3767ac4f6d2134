//! The commit that stores computed values of derived variables follows the commit of their inputs. It dies at any of
//! its changes here. Reads must give what a computation from the inputs gives, before and after the values are stored
//! again.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::sync::Arc;

use drystone::{Container, CreateOptions, Definition, Mode, SchemaOp, StoredDerived, WriterOptions};
use drystone_store::{Fault, FaultStore, MemoryStore, PutMode, Script, Store, StoreExt};

use crate::common::{bytes, create, dense, f4, floats, read_all};

const SHAPE: [u64; 2] = [6, 8];
/// Each definition becomes one variable whose values are stored, one whose statistics are stored, and one that is
/// computed.
const TEXTS: [(&str, &str); 2] = [("speed", "sqrt(u*u + v*v)"), ("lap", "diff2(u, x, 1) + diff2(u, y, 1)")];
const KINDS: [&str; 3] = ["stored", "bounds", "virtual"];

fn values(seed: u32, n: usize) -> Vec<u8> {
    let value = |i: usize| ((i as u32 * 37 + seed * 101) % 97) as f32 / 7.0 - 5.0;
    bytes(&(0..n).map(value).collect::<Vec<_>>())
}

fn put(c: &Container, step: u64, seed: u32, offset: [u64; 2], shape: [u64; 2]) -> drystone::Result<()> {
    let w = c.writer(WriterOptions::default())?;
    w.begin_step(Some(step), false)?;
    for (n, name) in ["u", "v"].into_iter().enumerate() {
        let block = values(seed + n as u32, (shape[0] * shape[1]) as usize);
        w.put(name, &f4(), &dense(&block, &shape, 4), Some(&offset), None)?;
    }
    w.end_step()?;
    w.close()?;
    c.commit().map(drop)
}

/// A run with one step; all its values are stored.
fn before(store: Arc<dyn Store>) {
    let c = Container::create(store, CreateOptions::default()).unwrap();
    let named = |new: &mut drystone::NewVariable| {
        new.steps = true;
        new.dims = vec!["y".into(), "x".into()];
    };
    c.apply(vec![create("u", f4(), &SHAPE, named), create("v", f4(), &SHAPE, named)]).unwrap();
    for (name, text) in TEXTS {
        for kind in KINDS {
            let definition = Definition {
                text: text.into(),
                kind: kind.into(),
                edge: "one_sided".into(),
                attrs: Default::default(),
            };
            c.apply(vec![SchemaOp::Derive(format!("{name}_{kind}"), Box::new(definition))]).unwrap();
        }
    }
    put(&c, 0, 1, [0, 0], SHAPE).unwrap();
    assert_eq!(c.store_derived(None, None, None).unwrap(), StoredDerived::default(), "the commit stored it");
}

/// The changes during which the process dies: a part of an input is put again, and a step is added.
fn change(c: &Container) -> drystone::Result<()> {
    put(c, 0, 5, [2, 1], [3, 4])?;
    put(c, 1, 9, [0, 0], SHAPE)
}

fn copy(store: &MemoryStore) -> MemoryStore {
    let copy = MemoryStore::new();
    for entry in store.list("").unwrap() {
        let bytes = store.read_all(&entry.key, u64::MAX).unwrap();
        copy.put(&entry.key, &[&bytes], PutMode::Replace, false).unwrap();
    }
    copy
}

/// Checks that all kinds of a definition read the same.
fn check(c: &Container, what: &str) {
    for (name, _) in TEXTS {
        let computed = read_all(c, &format!("{name}_virtual"));
        let expected = floats(&computed);
        for kind in ["stored", "bounds"] {
            let path = format!("{name}_{kind}");
            assert_eq!(read_all(c, &path), computed, "{what}: {path}");
            // Statistics that are not current would exclude parts that have hits.
            let condition = c.expression(&format!("{path} > 3 & {path} < 9")).unwrap();
            let (found, _) = c.query(&condition, &[]).unwrap().count().unwrap();
            let wanted = expected.iter().filter(|value| **value > 3.0 && **value < 9.0).count();
            assert_eq!(found, wanted as u64, "{what}: {path}");
        }
    }
    // Computed here from the inputs, by other code.
    let (u, v) = (floats(&read_all(c, "u")), floats(&read_all(c, "v")));
    let speed: Vec<f32> = u.iter().zip(&v).map(|(u, v)| (u * u + v * v).sqrt()).collect();
    assert_eq!(floats(&read_all(c, "speed_stored")), speed, "{what}");
}

#[test]
fn a_commit_of_stored_values_that_dies_at_any_change_leaves_only_values_computed_from_the_inputs() {
    let run = |script: Script, from: &MemoryStore| {
        let faulty = Arc::new(FaultStore::new(copy(from), script).unwrap());
        let done = Container::open(faulty.clone(), Mode::ReadWrite).and_then(|c| change(&c));
        (faulty, done)
    };
    let start = Arc::new(MemoryStore::new());
    before(start.clone());
    let (undisturbed, done) = run(Script::default(), &start);
    done.unwrap();
    let whole = Container::open(Arc::new(undisturbed.survivor()), Mode::ReadWrite).unwrap();
    check(&whole, "undisturbed");
    assert_eq!(whole.store_derived(None, None, None).unwrap(), StoredDerived::default());

    let long = std::env::var_os("DRYSTONE_LONG").is_some();
    // The numbers of steps seen, and whether values are left to be stored.
    let mut seen = BTreeSet::new();
    for at in 0..undisturbed.changes() {
        for (number, fault) in [Fault::Crash, Fault::LostReply, Fault::Fail].into_iter().enumerate() {
            if number > 0 && !long && at % 4 != number as u64 {
                continue;
            }
            let (faulty, _) = run(Script::seeded(at).at(at, fault), &start);
            let what = format!("{fault:?} at change {at}");
            let left = Arc::new(faulty.survivor());
            let c = Container::open(left, Mode::ReadWrite).unwrap_or_else(|e| panic!("{what}: {e}"));
            check(&c, &what);
            let stored = c.store_derived(None, None, None).unwrap_or_else(|e| panic!("{what}: {e}"));
            c.refresh().unwrap();
            seen.insert((c.reading("u", None).unwrap().steps().unwrap().len(), stored.blocks > 0));
            check(&c, &format!("{what}, stored anew"));
            assert_eq!(c.store_derived(None, None, None).unwrap(), StoredDerived::default(), "{what}");
        }
    }
    // It died before and after each of the two commits of each change.
    assert_eq!(seen, BTreeSet::from([(1, false), (1, true), (2, false), (2, true)]));
}
