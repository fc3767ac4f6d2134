//! A publication dies at any of its changes. Afterwards every array reads as it was before or as it will be, by its
//! own document and by the root's. The next publication makes exactly the objects that an undisturbed one makes.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use drystone::{Container, CreateOptions, ErrorKind, Mode, PublishOptions, SchemaOp, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_store::{Fault, FaultStore, MemoryStore, Script, Store, StoreExt};
use serde_json::Value as Json;

use crate::common::{create, dense, f4};

fn i4() -> DType {
    DType::Scalar(Scalar::I32)
}

fn put(c: &Container, step: Option<u64>, path: &str, offset: &[u64], shape: &[u64], value: f32) {
    let count: u64 = shape.iter().product();
    let bytes: Vec<u8> = (0..count).flat_map(|i| (value + i as f32).to_le_bytes()).collect();
    let w = c.writer(WriterOptions::default()).unwrap();
    if let Some(step) = step {
        w.begin_step(Some(step), false).unwrap();
    }
    let dtype = c.variable(path).unwrap().dtype;
    w.put(path, &dtype, &dense(&bytes, shape, 4), Some(offset), None).unwrap();
    if step.is_some() {
        w.end_step().unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
}

/// The state before: published once.
fn before(store: Arc<dyn Store>) -> Container {
    let c = Container::create(store, CreateOptions::default()).unwrap();
    let steps = |new: &mut drystone::NewVariable| new.steps = true;
    c.apply(vec![
        create("T", f4(), &[6, 5], steps),
        create("U", f4(), &[8], steps),
        create("S", f4(), &[7], |_| {}),
        create("gone", f4(), &[4], |_| {}),
        create("one", f4(), &[], |_| {}),
    ])
    .unwrap();
    for step in 0..2 {
        put(&c, Some(step), "T", &[0, 0], &[6, 5], 100.0 * step as f32 + 1.0);
        put(&c, Some(step), "U", &[0], &[8], 7.0);
    }
    for (path, shape) in [("S", &[7][..]), ("gone", &[4]), ("one", &[])] {
        put(&c, None, path, &vec![0; shape.len()], shape, 5.0);
    }
    c.publish(&PublishOptions::default(), &mut |_, _| true).unwrap();
    c
}

/// The changes before the publication that dies.
fn change(c: &Container) {
    put(c, Some(0), "T", &[1, 1], &[2, 3], -50.0);
    put(c, Some(2), "T", &[0, 0], &[6, 5], 300.0);
    put(c, None, "one", &[], &[], 6.0);
    c.apply(vec![SchemaOp::Resize("U".into(), vec![3])]).unwrap();
    c.apply(vec![SchemaOp::Delete("gone".into())]).unwrap();
    c.apply(vec![SchemaOp::Delete("S".into())]).unwrap();
    c.apply(vec![create("S", i4(), &[9], |_| {})]).unwrap();
    put(c, None, "S", &[0], &[9], 2.0);
}

fn read_json(store: &dyn Store, key: &str) -> Option<Json> {
    store.read_all(key, 1 << 20).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

fn extents(json: &Json) -> Vec<usize> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// The words of an array, according to its document: a small reader for arrays of one shard without compression.
fn words(store: &dyn Store, node: &str, document: &Json) -> (Vec<usize>, Vec<u32>) {
    let shape = extents(&document["shape"]);
    let codec = &document["codecs"][0];
    let object = |key: &str| store.read_all(key, 1 << 24).ok();
    let word = |bytes: &[u8], i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap());
    let checked = |bytes: &[u8]| {
        let (data, check) = bytes.split_at(bytes.len() - 4);
        assert_eq!(crc32c(data).to_le_bytes(), check, "{node}: a torn chunk");
        data.to_vec()
    };
    if shape.is_empty() {
        let bytes = object(&format!("zarr/{node}/c")).map(|b| checked(&b));
        return (shape, vec![bytes.map_or(0, |b| word(&b, 0))]);
    }
    let (shard, chunk) = (
        extents(&document["chunk_grid"]["configuration"]["chunk_shape"]),
        extents(&codec["configuration"]["chunk_shape"]),
    );
    let grid: Vec<usize> = shard.iter().zip(&chunk).map(|(s, c)| s / c).collect();
    assert!(shape.iter().zip(&shard).all(|(n, s)| n <= s), "{node} is of one shard");
    let key = format!("zarr/{node}/c{}", "/0".repeat(shape.len()));
    let cells: usize = shape.iter().product();
    let Some(bytes) = object(&key) else { return (shape, vec![0; cells]) };
    let chunks: usize = grid.iter().product();
    let index = checked(&bytes[bytes.len() - 16 * chunks - 4..]);
    let mut out = vec![0; cells];
    let place = |mut i: usize, extents: &[usize]| {
        let mut at = vec![0; extents.len()];
        for (a, n) in at.iter_mut().zip(extents).rev() {
            (*a, i) = (i % n, i / n);
        }
        at
    };
    let number = |at: &[usize], extents: &[usize]| at.iter().zip(extents).fold(0, |n, (a, e)| n * e + a);
    for (i, value) in out.iter_mut().enumerate() {
        let at = place(i, &shape);
        let which: Vec<usize> = at.iter().zip(&chunk).map(|(a, c)| a / c).collect();
        let inside: Vec<usize> = at.iter().zip(&chunk).map(|(a, c)| a % c).collect();
        let entry = number(&which, &grid) * 16;
        let field = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().unwrap());
        let (offset, length) = (field(entry), field(entry + 8));
        if offset != u64::MAX {
            let data = checked(&bytes[offset as usize..(offset + length) as usize]);
            *value = word(&data, number(&inside, &chunk));
        }
    }
    (shape, out)
}

fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| {
        std::array::from_fn(|byte| {
            (0..8).fold(byte as u32, |c, _| if c & 1 == 1 { c >> 1 ^ 0x82f6_3b78 } else { c >> 1 })
        })
    });
    !bytes.iter().fold(!0u32, |crc, &b| TABLE[usize::from(crc as u8 ^ b)] ^ crc >> 8)
}

type Arrays = BTreeMap<String, (Vec<usize>, Vec<u32>)>;

/// All arrays by the root's document, and by their own documents.
fn visible(store: &dyn Store) -> [Arrays; 2] {
    let root = read_json(store, "zarr/zarr.json").unwrap();
    let listed = root["consolidated_metadata"]["metadata"].as_object().unwrap();
    let by_root = listed.iter().filter(|(_, d)| d["node_type"] == "array");
    let by_root = by_root.map(|(node, d)| (node.clone(), words(store, node, d))).collect();
    let mut by_themselves = Arrays::new();
    for node in ["T", "U", "S", "gone", "one"] {
        if let Some(document) = read_json(store, &format!("zarr/{node}/zarr.json")) {
            by_themselves.insert(node.into(), words(store, node, &document));
        }
    }
    [by_root, by_themselves]
}

/// The array cut to a shape, with missing cells as fill: this is what a document of that shape shows of it.
fn seen_as((from, words): &(Vec<usize>, Vec<u32>), shape: &[usize]) -> Vec<u32> {
    let cells: usize = shape.iter().product();
    (0..cells)
        .map(|mut i| {
            let mut at = vec![0; shape.len()];
            for (a, n) in at.iter_mut().zip(shape).rev() {
                (*a, i) = (i % n, i / n);
            }
            let inside = at.iter().zip(from).all(|(a, n)| a < n);
            if inside { words[at.iter().zip(from).fold(0, |n, (a, e)| n * e + a)] } else { 0 }
        })
        .collect()
}

fn zarr_objects(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let all = store.list("zarr/").unwrap();
    all.into_iter().map(|e| (e.key.clone(), store.read_all(&e.key, 1 << 24).unwrap())).collect()
}

/// Removes the dead process' lock. The test cannot show that the process is dead, since it is this process.
fn remove_lock(store: &dyn Store) {
    for entry in store.list("publish/").unwrap() {
        store.delete(&entry.key).unwrap();
    }
}

#[test]
fn a_publication_that_dies_at_any_change_shows_old_or_new_and_a_rerun_completes_it() {
    let run = |script: Script, from: &MemoryStore| {
        let faulty = Arc::new(FaultStore::new(copy(from), script).unwrap());
        let c = Container::open(faulty.clone(), Mode::ReadWrite).unwrap();
        let done = c.publish(&PublishOptions::default(), &mut |_, _| true);
        (faulty, done)
    };
    let start = Arc::new(MemoryStore::new());
    let c = before(start.clone());
    let old = visible(&*start)[0].clone();
    change(&c);
    drop(c);
    let (undisturbed, done) = run(Script::default(), &start);
    done.unwrap();
    let goal = undisturbed.survivor();
    let new = visible(&goal)[0].clone();
    assert_eq!(new.keys().collect::<Vec<_>>(), ["S", "T", "U", "one"]);
    assert_eq!((&old["T"].0, &new["T"].0, &new["U"].0), (&vec![2, 6, 5], &vec![3, 6, 5], &vec![3, 3]));
    assert!(goal.list("publish/").unwrap().is_empty());
    let mut steps_seen = std::collections::BTreeSet::new();
    let long = std::env::var_os("DRYSTONE_LONG").is_some();
    for at in 0..undisturbed.changes() {
        for (number, fault) in [Fault::Crash, Fault::LostReply, Fault::Fail].into_iter().enumerate() {
            if number > 0 && !long && at % 4 != number as u64 {
                continue;
            }
            let (faulty, done) = run(Script::seeded(at).at(at, fault), &start);
            let what = format!("{fault:?} at change {at}");
            if fault == Fault::Crash {
                assert!(done.is_err(), "{what}");
            }
            let left = faulty.survivor();
            for arrays in visible(&left) {
                for (node, seen) in &arrays {
                    let of = |all: &Arrays| all.get(node).map(|a| seen_as(a, &seen.0));
                    let shape_known =
                        [&old, &new].iter().any(|all| all.get(node).is_some_and(|a| a.0 == seen.0));
                    assert!(shape_known, "{what}: {node} has shape {:?}", seen.0);
                    let right = of(&old).as_ref() == Some(&seen.1) || of(&new).as_ref() == Some(&seen.1);
                    assert!(right, "{what}: {node} is neither as it was nor as it will be: {seen:?}");
                    if node == "T" {
                        steps_seen.insert(seen.0[0]);
                        let (before, after) = (of(&old).unwrap(), of(&new).unwrap());
                        assert!(
                            seen.0[0] == 2 || seen.1 == after && before != after,
                            "{what}: a step before its data"
                        );
                    }
                }
            }
            remove_lock(&left);
            let again = Arc::new(left);
            let c = Container::open(again.clone(), Mode::ReadWrite).unwrap();
            c.publish(&PublishOptions::default(), &mut |_, _| true).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(zarr_objects(&*again), zarr_objects(&goal), "{what}: the rerun makes the same");
            assert!(again.list("publish/").unwrap().is_empty(), "{what}");
        }
    }
    assert_eq!(steps_seen.into_iter().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_full_store_is_an_error_and_leaves_what_was_published() {
    let start = Arc::new(MemoryStore::new());
    let c = before(start.clone());
    let old = visible(&*start)[0].clone();
    change(&c);
    let faulty =
        Arc::new(FaultStore::new(copy(&start), Script::default().one_in(4, Fault::NoSpace)).unwrap());
    let c = Container::open(faulty.clone(), Mode::ReadWrite).unwrap();
    let error = c.publish(&PublishOptions::default(), &mut |_, _| true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().starts_with("publishing "), "{error}");
    let seen = visible(&faulty.survivor())[0].clone();
    assert!(seen.keys().all(|node| old.contains_key(node)));
}

fn copy(store: &MemoryStore) -> MemoryStore {
    let copy = MemoryStore::new();
    for entry in store.list("").unwrap() {
        let bytes = store.read_all(&entry.key, u64::MAX).unwrap();
        copy.put(&entry.key, &[&bytes], drystone_store::PutMode::Replace, false).unwrap();
    }
    copy
}
