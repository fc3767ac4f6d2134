//! Are small pieces that a writer appends step after step adjacent, and does every promise about them hold?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use drystone::{Container, CreateOptions, ErrorKind, Mode, Writer, WriterOptions};
use drystone_format::identity::Durability;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{Counters, CountingStore, Fault, FaultStore, LocalStore, MemoryStore, Script, Store};

use crate::common::{bytes, create, dense, f4, floats, read};

const VARIABLES: usize = 10;
const EDGE: u64 = 32;

fn value(step: u64, variable: usize, cell: u64) -> f32 {
    (step * 100_003 + variable as u64 * 1009 + cell) as f32
}

fn cells(step: u64, variable: usize) -> Vec<u8> {
    bytes(&(0..EDGE * EDGE).map(|cell| value(step, variable, cell)).collect::<Vec<_>>())
}

fn made(store: Arc<dyn Store>, durability: Durability, transform: &str) -> Container {
    let c = Container::create(store, CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    let new = |n| {
        create(&format!("v{n}"), f4(), &[EDGE, EDGE], |new| {
            (new.steps, new.transform) = (true, transform.into());
        })
    };
    c.apply((0..VARIABLES).map(new).collect()).unwrap();
    c
}

fn write_step(w: &Writer, step: u64) {
    w.begin_step(Some(step), false).unwrap();
    for n in 0..VARIABLES {
        w.put(&format!("v{n}"), &f4(), &dense(&cells(step, n), &[EDGE, EDGE], 4), None, None).unwrap();
    }
    w.end_step().unwrap();
}

fn alone() -> WriterOptions {
    WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }
}

/// The cells of a variable in steps `0..steps`.
fn series(c: &Container, variable: usize, steps: u64) -> Vec<f32> {
    let axes = [steps, EDGE, EDGE].map(|count| Axis { start: 0, step: 1, count }).to_vec();
    floats(&read(c, &format!("v{variable}"), &Selection { axes }).unwrap())
}

fn expected(variable: usize, steps: u64) -> Vec<f32> {
    (0..steps).flat_map(|step| (0..EDGE * EDGE).map(move |cell| value(step, variable, cell))).collect()
}

/// The requests of a fresh reader for a series of 200 steps.
fn asked(durability: Durability, transform: &str) -> Counters {
    let dir = tempfile::tempdir().unwrap();
    let c = made(Arc::new(LocalStore::create(dir.path()).unwrap()), durability, transform);
    let w = c.writer(alone()).unwrap();
    (0..200).for_each(|step| write_step(&w, step));
    w.close().unwrap();
    let store = Arc::new(CountingStore::new(LocalStore::open(dir.path(), true).unwrap()));
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    assert_eq!(series(&c, 3, 200), expected(3, 200));
    let asked = store.counters();
    for n in 0..VARIABLES {
        assert_eq!(series(&c, n, 200), expected(n, 200));
    }
    asked
}

#[test]
fn the_series_of_a_small_variable_is_few_requests() {
    let (raw, coded) = (asked(Durability::Async, ""), asked(Durability::Async, "shuffle,zstd:1"));
    assert!(raw.reads < 60, "200 pieces of 4 KiB in runs of 64 KiB: {raw}");
    assert!(coded.reads < 60, "200 pieces that are shorter: {coded}");
    // Pieces that are synced at each step lie together step by step.
    let durable = asked(Durability::Durable, "");
    assert!(durable.reads > 200, "{durable}");
}

/// Symptom: reading the series of a cell through 2,000 cut blocks asked for the length of the file, and looked its
/// name up, once for each of 2,000 subchunk tables. Tables are now read many per call, with one lookup.
#[test]
fn tables_of_many_blocks_are_read_in_few_calls() {
    const STEPS: u64 = 30;
    let dir = tempfile::tempdir().unwrap();
    let c = made(Arc::new(LocalStore::create(dir.path()).unwrap()), Durability::Async, "");
    c.apply(vec![create("large", f4(), &[64, 64, 64], |new| new.steps = true)]).unwrap();
    let w = c.writer(alone()).unwrap();
    for step in 0..STEPS {
        let block: Vec<f32> = (0..64 * 64 * 64).map(|cell| value(step, 1, cell)).collect();
        w.begin_step(Some(step), false).unwrap();
        w.put("large", &f4(), &dense(&bytes(&block), &[64, 64, 64], 4), None, None).unwrap();
        w.end_step().unwrap();
    }
    w.close().unwrap();
    let store = Arc::new(CountingStore::new(LocalStore::open(dir.path(), true).unwrap()));
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let reading = c.reading("large", None).unwrap();
    let cut = reading.explain(&Selection::boxed(&[0, 5, 6, 7], &[1, 1, 1, 1])).unwrap();
    assert!(cut.requests > 0);
    let before = store.counters();
    let cell = Selection::boxed(&[0, 5, 6, 7], &[STEPS, 1, 1, 1]);
    let found = floats(&read(&c, "large", &cell).unwrap());
    let asked = store.counters() - before;
    let at = (5 * 64 + 6) * 64 + 7;
    assert_eq!(found, (0..STEPS).map(|step| value(step, 1, at)).collect::<Vec<_>>());
    assert!(asked.lens <= 2, "{asked}");
}

#[test]
fn every_step_is_seen_when_it_ends_and_a_snapshot_stays_as_it_is() {
    let store = MemoryStore::new();
    let c = made(Arc::new(store.clone()), Durability::Async, "");
    let w = c.writer(alone()).unwrap();
    let mut before: Vec<(u64, Container)> = Vec::new();
    for step in 0..70 {
        write_step(&w, step);
        let seen = Container::open(Arc::new(store.clone()), Mode::Read).unwrap();
        assert_eq!(series(&seen, 7, step + 1), expected(7, step + 1));
        if step % 9 == 0 {
            before.push((step + 1, seen));
        }
    }
    drop(w); // without close, as if it had been killed
    for (steps, seen) in before {
        assert_eq!(series(&seen, 2, steps), expected(2, steps));
    }
    let report = Container::open(Arc::new(store), Mode::Read).unwrap().verify(&mut |_, _| true).unwrap();
    assert!(report.damage.is_empty(), "{report:?}");
}

/// Two blocks per variable, some steps without one of them, steps that replace others, a second writer at the same
/// time, short parts.
#[test]
fn blocks_that_come_and_go_are_what_was_put() {
    for segment_limit in [None, Some(1 << 20), Some(1 << 16)] {
        let store = MemoryStore::new();
        let c = Container::create(Arc::new(store.clone()), CreateOptions::default()).unwrap();
        c.apply(vec![create("t", f4(), &[4, 64], |new| new.steps = true)]).unwrap();
        let options = || WriterOptions { segment_limit, ..WriterOptions::default() };
        let writers = [c.writer(options()).unwrap(), c.writer(options()).unwrap()];
        let mut model: Vec<Vec<f32>> = Vec::new();
        for step in 0..120u64 {
            let mut whole = vec![0f32; 256];
            for (n, w) in writers.iter().enumerate() {
                w.begin_step(Some(step), false).unwrap();
                for half in 0..2u64 {
                    if (step + half + n as u64).is_multiple_of(7) {
                        continue;
                    }
                    let row = 2 * n as u64 + half;
                    let values: Vec<f32> = (0..64).map(|x| (step * 1000 + row * 64 + x) as f32).collect();
                    whole[row as usize * 64..][..64].copy_from_slice(&values);
                    w.put("t", &f4(), &dense(&bytes(&values), &[1, 64], 4), Some(&[row, 0]), None).unwrap();
                }
                w.end_step().unwrap();
            }
            model.push(whole);
            if step % 31 == 30 {
                c.commit().unwrap();
            }
        }
        writers.iter().for_each(|w| w.close().unwrap());
        c.commit().unwrap();
        let seen = Container::open(Arc::new(store), Mode::Read).unwrap();
        let axes = [120, 4, 64].map(|count| Axis { start: 0, step: 1, count }).to_vec();
        assert_eq!(floats(&read(&seen, "t", &Selection { axes }).unwrap()), model.concat());
        assert!(seen.verify(&mut |_, _| true).unwrap().damage.is_empty());
    }
}

/// Ten steps, of which those before the sixth are flushed. Returns how many ended.
fn ten_steps(store: Arc<dyn Store>) -> u64 {
    let run = |ended: &mut u64| -> drystone::Result<()> {
        let c = Container::create(store, CreateOptions::default())?;
        c.apply(vec![create("t", f4(), &[2, 700], |new| new.steps = true)])?;
        let w = c.writer(alone())?;
        for step in 0..10 {
            w.begin_step(Some(step), false)?;
            for row in 0..2 {
                let values: Vec<f32> = (0..700).map(|x| value(step, row as usize, x)).collect();
                w.put("t", &f4(), &dense(&bytes(&values), &[1, 700], 4), Some(&[row, 0]), None)?;
            }
            w.end_step()?;
            *ended = step + 1;
            if step == 5 {
                c.flush()?;
            }
        }
        w.close()
    };
    let mut ended = 0;
    let _ = run(&mut ended);
    ended
}

fn row_of_ten_steps(c: &Container, step: u64, row: u64) -> drystone::Result<bool> {
    let axes = [(step, 1), (row, 1), (0, 700)].map(|(start, count)| Axis { start, step: 1, count }).to_vec();
    let expected: Vec<f32> = (0..700).map(|x| value(step, row as usize, x)).collect();
    Ok(floats(&read(c, "t", &Selection { axes })?) == expected)
}

#[test]
fn a_crash_at_any_change_leaves_the_pieces_of_runs_whole_or_reported() {
    let complete = Arc::new(FaultStore::in_memory(Script::default()));
    assert_eq!(ten_steps(complete.clone()), 10);
    let (mut kept, mut told) = (0, 0);
    for change in 0..complete.changes() {
        for seed in 0..6 {
            let store = Arc::new(FaultStore::in_memory(Script::seeded(seed).at(change, Fault::Crash)));
            let ended = ten_steps(store.clone());
            if let Ok(c) = Container::open(Arc::new(store.survivor()), Mode::Read) {
                let steps = c.snapshot().steps.iter().count() as u64;
                assert!((ended..=ended + 1).contains(&steps), "killed at {change}: {steps} of {ended}");
                for step in 0..steps {
                    assert!(row_of_ten_steps(&c, step, 0).unwrap() && row_of_ten_steps(&c, step, 1).unwrap());
                }
            } else {
                assert_eq!(ended, 0, "killed at {change}");
            }
            store.power_cut(seed);
            let Ok(c) = Container::open(Arc::new(store.survivor()), Mode::Read) else {
                assert!(ended < 7, "power cut at {change}, after the flush");
                continue;
            };
            let steps = c.snapshot().steps.iter().count() as u64;
            assert!(ended < 7 || steps >= 6, "power cut at {change}: {steps} of {ended}");
            for (step, row) in (0..steps).flat_map(|step| [(step, 0), (step, 1)]) {
                match row_of_ten_steps(&c, step, row) {
                    Ok(right) => {
                        assert!(right, "power cut at {change}: step {step}");
                        kept += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                        assert!(
                            ended < 7 || step >= 6,
                            "power cut at {change}: step {step} was flushed: {error}"
                        );
                        told += 1;
                    }
                }
            }
        }
    }
    assert!(kept > 100 && told > 10, "{kept} {told}");
}
