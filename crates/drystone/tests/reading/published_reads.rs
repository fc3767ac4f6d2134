//! Do reads give the same values from the log and from the published replica, and never a wrong one, whatever
//! happened to the shards since?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use drystone::array::Target;
use drystone::{Container, CreateOptions, Mode, PublishOptions, Reading, SchemaOp, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::listing::{Leg, Listing};
use drystone_plan::read_plan::PUBLISHED;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{LocalStore, MemoryStore, PutMode, Store, StoreExt};

use crate::common::{create, dense, f4, memory, read, read_all};

fn values(seed: u32, n: usize) -> Vec<u8> {
    (0..n as u32)
        .flat_map(|i| ((i.wrapping_mul(2_654_435_761) >> 12).wrapping_add(seed) as f32).to_le_bytes())
        .collect()
}

fn publish(c: &Container, chunks: &[(&str, &[u64])]) -> u64 {
    let chunks = chunks.iter().map(|(name, chunk)| ((*name).to_owned(), chunk.to_vec())).collect();
    let options = PublishOptions { chunks, ..PublishOptions::default() };
    c.publish(&options, &mut |_, _| true).unwrap();
    c.snapshot().version()
}

fn write(
    c: &Container,
    path: &str,
    step: Option<u64>,
    replace: bool,
    offset: &[u64],
    count: &[u64],
    seed: u32,
) {
    let w = c.writer(WriterOptions::default()).unwrap();
    if step.is_some() {
        w.begin_step(step, replace).unwrap();
    }
    let data = values(seed, count.iter().product::<u64>() as usize);
    w.put(path, &f4(), &dense(&data, count, 4), Some(offset), None).unwrap();
    if step.is_some() {
        w.end_step().unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
}

/// The values according to the log alone.
fn from_log(c: &Container, path: &str, selection: &Selection) -> Vec<u8> {
    got(&c.reading(path, None).unwrap().from_log(), selection)
}

fn got(reading: &Reading, selection: &Selection) -> Vec<u8> {
    let shape = selection.shape();
    let mut out = vec![0xA5; (shape.iter().product::<u64>() * u64::from(reading.item())) as usize];
    let target = Target::dense(&mut out, &shape, reading.item() as usize).unwrap();
    reading.read(selection, &target).unwrap();
    drop(target);
    out
}

fn is_published(c: &Container, path: &str, selection: &Selection) -> bool {
    let plan = c.reading(path, None).unwrap().explain(selection).unwrap();
    plan.choices.iter().any(|c| c.chosen && c.replica == PUBLISHED)
}

/// Reads random boxes from both. Returns how many were read from the publication.
fn compare(c: &Container, path: &str, many: u64, seed: u64) -> usize {
    let shape = c.reading(path, None).unwrap().shape();
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n.max(1)
    };
    let mut published = 0;
    for _ in 0..many {
        let axis = |&n: &u64| {
            if n == 0 {
                return Axis { start: 0, step: 1, count: 0 };
            }
            let step = 1 + below(3) as i64;
            let start = below(n);
            let count = (1 + below(n)).min((n - start).div_ceil(step.unsigned_abs()));
            let back = below(4) == 0 && count > 0;
            let last = start + step.unsigned_abs() * (count - 1);
            if back { Axis { start: last, step: -step, count } } else { Axis { start, step, count } }
        };
        let selection = Selection { axes: shape.iter().map(axis).collect() };
        let truth = from_log(c, path, &selection);
        assert!(read(c, path, &selection).unwrap() == truth, "{path} {selection:?}");
        let reading = c.reading(path, None).unwrap().by_way_of(Some(PUBLISHED));
        let plan = reading.explain(&selection).unwrap();
        published += usize::from(plan.choices.iter().any(|c| c.chosen && c.replica == PUBLISHED));
        assert!(got(&reading, &selection) == truth, "{path} {selection:?}");
    }
    published
}

/// Columns are slow to read across: every chunk of the log is one row of one cell.
fn columns(c: &Container) {
    c.apply(vec![create("t", f4(), &[90, 70], |v| v.steps = true)]).unwrap();
    for step in 0..5 {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(Some(step), false).unwrap();
        for x in 0..70 {
            let data = values(step as u32 * 100 + x as u32, 90);
            w.put("t", &f4(), &dense(&data, &[90, 1], 4), Some(&[0, x]), None).unwrap();
        }
        w.end_step().unwrap();
        w.close().unwrap();
        c.commit().unwrap();
    }
}

#[test]
fn a_read_takes_the_replica_that_costs_less_and_gives_the_same_values() {
    for chunk in [[1u64, 16, 16], [3, 32, 70]] {
        let c = memory();
        columns(&c);
        let before = c.snapshot().version();
        assert!(
            c.reading("t", None).unwrap().explain(&Selection::all(&[5, 90, 70])).unwrap().choices.is_empty()
        );
        publish(&c, &[("t", &chunk)]);
        assert_eq!(c.snapshot().version(), before + 1);
        // Chunks of three steps are decoded once for each step, so the costs are nearly equal.
        assert!(chunk[0] > 1 || is_published(&c, "t", &Selection::all(&[5, 90, 70])));
        let text = c.reading("t", None).unwrap().explain(&Selection::all(&[5, 90, 70])).unwrap().to_string();
        assert!(
            text.contains("default: ")
                && text.contains("published: ")
                && text.matches(" ms, chosen").count() == 1,
            "{text}"
        );
        assert!(
            !is_published(&c, "t", &Selection::boxed(&[2, 3, 4], &[1, 80, 1])),
            "one column is one block"
        );
        assert!(compare(&c, "t", 200, 7) > 60);

        // If nothing is new, there is no commit.
        assert_eq!(publish(&c, &[("t", &chunk)]), before + 1);

        // Later data shows on top: whole steps and parts of old ones. A step that was replaced is not read from the
        // shards.
        write(&c, "t", Some(1), false, &[5, 5], &[20, 30], 9000);
        write(&c, "t", Some(2), true, &[0, 0], &[4, 70], 9100);
        write(&c, "t", Some(6), false, &[0, 0], &[90, 70], 9200);
        assert!(compare(&c, "t", 200, 8) > 30);
        let newest = c.snapshot().version();
        let shown: Vec<Vec<u8>> = (before..=newest).map(|v| read_all(&c.at(v).unwrap(), "t")).collect();

        // After another publication, older snapshots find other shards, and read the log.
        publish(&c, &[("t", &chunk)]);
        for (version, shown) in (before..=newest).zip(&shown) {
            let old = c.at(version).unwrap();
            assert!(read_all(&old, "t") == *shown, "snapshot {version}");
            assert!(old.take_warnings().is_empty());
            compare(&old, "t", 40, version);
        }
        assert!(compare(&c, "t", 100, 9) > 30);
    }
}

#[test]
fn clips_growth_fill_values_and_records_read_the_same_both_ways() {
    let c = memory();
    c.apply(vec![create("g", f4(), &[10, 40], |v| {
        v.shape = vec![None, Some(40)];
        v.fill = Some((-7.0f32).to_le_bytes().to_vec());
    })])
    .unwrap();
    for x in 0..30 {
        write(&c, "g", None, false, &[0, x], &[37, 1], x as u32);
    }
    publish(&c, &[("g", &[8, 8])]);
    assert!(compare(&c, "g", 80, 1) > 20);
    c.apply(vec![SchemaOp::Resize("g".into(), vec![13, 40])]).unwrap();
    compare(&c, "g", 80, 2);
    write(&c, "g", None, false, &[60, 0], &[4, 40], 500);
    compare(&c, "g", 80, 3);
    let all = read_all(&c, "g");
    assert_eq!(
        &all[(20 * 40) * 4..(20 * 40) * 4 + 4],
        (-7.0f32).to_le_bytes(),
        "what grows back reads as fill"
    );
    publish(&c, &[("g", &[8, 8])]);
    compare(&c, "g", 80, 4);
}

#[test]
fn damaged_and_missing_shards_are_not_read_and_damage_is_reported() {
    let whole = Selection::all(&[5, 90, 70]);
    for damage in 0..5 {
        let store = Arc::new(MemoryStore::new());
        let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
        columns(&c);
        publish(&c, &[("t", &[1, 90, 70])]);
        let truth = from_log(&c, "t", &whole);
        let fresh = Container::open(store.clone(), Mode::Read).unwrap();
        assert!(is_published(&fresh, "t", &whole));
        let fresh = Container::open(store.clone(), Mode::Read).unwrap();
        let key = store.list("zarr/t/c/").unwrap()[0].key.clone();
        let mut bytes = store.read_all(&key, u64::MAX).unwrap();
        let len = bytes.len();
        match damage {
            0 => bytes[100] ^= 1,         // a chunk
            1 => bytes[len - 9] ^= 0x10,  // the index
            2 => bytes.truncate(len / 2), // cut short
            3 => bytes[12] ^= 4,          // the stamp
            _ => {}
        }
        match damage {
            4 => store.delete(&key).unwrap(),
            _ => store.put(&key, &[&bytes], PutMode::Replace, false).unwrap(),
        }
        assert!(read(&fresh, "t", &whole).unwrap() == truth, "damage {damage}");
        let warnings = fresh.take_warnings();
        assert_eq!(warnings.len(), usize::from(damage != 4), "{damage}: {warnings:?}");
        assert!(warnings.iter().all(|w| w.contains(&key) && w.contains("damaged")), "{warnings:?}");
        // The shard is not tried again, and the damage is not reported again.
        assert!(read(&fresh, "t", &whole).unwrap() == truth);
        assert!(fresh.take_warnings().is_empty());
    }
}

#[test]
fn no_flipped_bit_of_a_shard_is_read_as_a_value() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[16, 12], |v| v.transform = "zstd:1".into())]).unwrap();
    for x in 0..12 {
        write(&c, "t", None, false, &[0, x], &[16, 1], x as u32);
    }
    publish(&c, &[("t", &[8, 6])]);
    let whole = Selection::all(&[16, 12]);
    let truth = from_log(&c, "t", &whole);
    let key = store.list("zarr/t/c/").unwrap()[0].key.clone();
    let sound = store.read_all(&key, u64::MAX).unwrap();
    for bit in (0..sound.len() * 8).step_by(3) {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        store.put(&key, &[&bytes], PutMode::Replace, false).unwrap();
        let fresh = Container::open(store.clone(), Mode::Read).unwrap();
        assert!(read(&fresh, "t", &whole).unwrap() == truth, "bit {bit}");
    }
}

#[test]
fn snapshots_read_the_same_while_a_publisher_replaces_shards_under_them() {
    let folder = std::env::temp_dir().join(format!("drystone-published-{}", std::process::id()));
    let store = Arc::new(LocalStore::create(&folder).unwrap());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    columns(&c);
    let chunks: &[(&str, &[u64])] = &[("t", &[4, 30, 35])];
    publish(&c, chunks);
    let rounds = if std::env::var_os("DRYSTONE_LONG").is_some() { 300 } else { 12 };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (store, done) = (store.clone(), &done);
            scope.spawn(move || {
                let mut round = reader;
                while !done.load(Ordering::Relaxed) {
                    let c = Container::open(store.clone(), Mode::Read).unwrap();
                    round += 1;
                    compare(&c, "t", 12, round);
                    let versions = c.snapshots().unwrap();
                    let old = c.at(versions[round as usize * 7 % versions.len()]).unwrap();
                    if old.variable("t").is_ok() {
                        compare(&old, "t", 6, round);
                    }
                    assert!(c.take_warnings().is_empty() && old.take_warnings().is_empty());
                }
            });
        }
        for round in 0..rounds {
            // Every value of a step changes. Raw chunks of the old and the new shard lie at the same places.
            write(&c, "t", Some(round % 5), false, &[0, 0], &[90, 70], 10_000 + round as u32 * 13);
            publish(&c, chunks);
        }
        done.store(true, Ordering::Relaxed);
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn members_of_records_and_fixed_strings_are_read_from_their_arrays() {
    let c = memory();
    let record = common_record();
    c.apply(vec![create("p", record.clone(), &[64], |v| v.steps = true)]).unwrap();
    for step in 0..2u8 {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(None, false).unwrap();
        for i in 0..64u8 {
            let one: Vec<u8> = (0..20).map(|b| b * 3 + i + step).collect();
            w.put("p", &record, &dense(&one, &[1], 20), Some(&[u64::from(i)]), None).unwrap();
        }
        w.end_step().unwrap();
        w.close().unwrap();
        c.commit().unwrap();
    }
    publish(&c, &[]);
    assert!(compare(&c, "p", 40, 5) > 10);
    let name = c.reading("p", Some("name")).unwrap().by_way_of(Some(PUBLISHED));
    let plan = name.explain(&Selection::all(&[2, 64])).unwrap();
    assert!(plan.choices.iter().any(|c| c.chosen && c.replica == PUBLISHED), "{plan}");
}

fn common_record() -> DType {
    use drystone_format::dtype::{Member, Record};
    let m = |name: &str, dtype, shape: &[u32], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.iter().map(|n| (*n).into()).collect(),
        offset,
    };
    DType::Record(Record {
        itemsize: 20,
        members: vec![
            m("a", DType::Scalar(Scalar::U16), &[], 0),
            m("b", DType::Scalar(Scalar::F32), &[3], 4),
            m("name", DType::Bytes(4), &[], 16),
        ],
    })
}

#[test]
fn points_and_lists_are_read_from_the_replica_where_that_costs_less() {
    let c = memory();
    columns(&c);
    publish(&c, &[("t", &[1, 16, 16])]);
    let points: Vec<u64> = (0..40u64).flat_map(|i| [i % 5, (i * 37) % 16, (i * 11) % 16]).collect();
    let rows = Leg::list(vec![1], vec![3, 80, 41, 3]);
    let steps = Leg::Axis { axis: 0, cells: Axis { start: 4, step: -2, count: 3 } };
    let cells = Leg::Axis { axis: 2, cells: Axis { start: 0, step: 3, count: 20 } };
    for listing in [Listing::points(3, points), Listing::new(vec![steps, rows, cells])] {
        let read = |replica: Option<u32>| {
            let reading = c.reading("t", None).unwrap();
            let reading = match replica {
                None => reading.from_log(),
                Some(_) => reading.by_way_of(replica),
            };
            let shape = listing.shape();
            let mut out = vec![0xA5; shape.iter().product::<u64>() as usize * 4];
            let target = Target::dense(&mut out, &shape, 4).unwrap();
            reading.read(&listing, &target).unwrap();
            drop(target);
            out
        };
        let plan = c.reading("t", None).unwrap().explain(&listing).unwrap();
        // Neighbouring rows of columns cost the log three requests; points cost it more.
        let published = plan.choices.iter().find(|c| c.replica == PUBLISHED).unwrap();
        assert!(published.chosen || listing.legs.len() > 1, "{plan}");
        assert!(read(None) == read(Some(PUBLISHED)), "{plan}");
        assert!(read(None) == read(Some(0)));
    }
}

#[test]
fn points_come_from_the_log_where_a_shard_was_replaced_or_damaged() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    columns(&c);
    publish(&c, &[("t", &[1, 16, 16])]);
    let listing = Listing::points(3, (0..30u64).flat_map(|i| [i % 5, i % 16, (i * 7) % 16]).collect());
    let read = |reading: Reading| {
        let mut out = vec![0xA5; 30 * 4];
        let target = Target::dense(&mut out, &[30], 4).unwrap();
        reading.read(&listing, &target).unwrap();
        drop(target);
        out
    };
    let truth = read(c.reading("t", None).unwrap().from_log());
    let shards = store.list("zarr/t/c").unwrap();
    for shard in &shards {
        let mut bytes = store.read_all(&shard.key, 1 << 30).unwrap();
        let end = bytes.len() / 2;
        bytes[60..end].fill(7);
        store.put(&shard.key, &[&bytes], PutMode::Replace, false).unwrap();
    }
    assert!(read(c.reading("t", None).unwrap().by_way_of(Some(PUBLISHED))) == truth);
    assert!(c.take_warnings().iter().any(|w| w.contains("damaged")));
}
