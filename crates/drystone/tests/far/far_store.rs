//! A container on a far store: the number of requests, of round trips, and of requests in flight.
//!
//! The store is in this process, behind a counting link with latency and bandwidth. Counts and round trips are exact.
//! Times are compared with those of bytes and round trips, with a margin for a loaded machine.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone::{
    Adopt, Container, CreateOptions, Durability, ErrorKind, GcOptions, Mode, PublishOptions, WriterOptions,
};
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{
    DelayStore, Fault, FaultStore, LoggedRequest, MemoryStore, NoAppendStore, PutMode, Script, Store,
};

use crate::common::*;
use crate::sample::{Sample, content};

type Far = DelayStore<NoAppendStore<MemoryStore>>;

/// The objects of `objects`, behind 30 ms and 1 Gbit/s.
fn far(objects: &MemoryStore) -> Far {
    behind(objects, Duration::from_millis(30))
}

fn behind(objects: &MemoryStore, latency: Duration) -> Far {
    DelayStore::new(NoAppendStore::new(objects.clone()), latency, 125e6)
}

/// Writes a container into memory, without a link.
fn written(write: impl FnOnce(&Container)) -> MemoryStore {
    let objects = MemoryStore::new();
    let store = Arc::new(NoAppendStore::new(objects.clone()));
    let c =
        Container::create(store, CreateOptions { durability: Durability::Async, ..CreateOptions::default() })
            .unwrap();
    write(&c);
    c.settle();
    objects
}

fn opened(store: &Far) -> Container {
    Container::open(Arc::new(store.clone()), Mode::Read).unwrap()
}

fn rounds(log: &[LoggedRequest]) -> u64 {
    log.iter().map(|asked| asked.round).max().unwrap_or(0)
}

fn total(log: &[LoggedRequest]) -> u64 {
    log.iter().map(|asked| asked.bytes).sum()
}

fn shown(log: &[LoggedRequest]) -> String {
    log.iter().map(|a| format!("\n  round {}: {} {} ({} bytes)", a.round, a.kind, a.key, a.bytes)).collect()
}

/// A 2-dimensional variable of `grid` blocks with `edge` cells per side. Each block is put separately.
fn blocks(c: &Container, path: &str, grid: [u64; 2], edge: u64) {
    let shape = grid.map(|n| n * edge);
    c.apply(vec![create(path, f4(), &shape, |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let mut cells = vec![0; (edge * edge * 4) as usize];
    for at in (0..grid[0]).flat_map(|i| (0..grid[1]).map(move |j| [i, j])) {
        for (n, cell) in cells.chunks_exact_mut(4).enumerate() {
            let (row, column) = (at[0] * edge + n as u64 / edge, at[1] * edge + n as u64 % edge);
            cell.copy_from_slice(&((row * shape[1] + column) as f32).to_le_bytes());
        }
        let offset = at.map(|n| n * edge);
        w.put(path, &f4(), &dense(&cells, &[edge, edge], 4), Some(&offset), None).unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
}

/// Symptom: 1,024 ranges took 16 s at 30 ms, as long as if two threads had requested them one after the other. Cause:
/// each thread had one request in flight. Requests now go out until the window is full. The test counts the requests
/// in flight, and the round trips.
#[test]
fn the_window_and_not_threads_bound_requests_in_flight() {
    // Two variables are put alternately, so the blocks of one do not adjoin in the segment.
    const MANY: u64 = 1024;
    const CELLS: u64 = 16 << 10;
    let objects = written(|c| {
        c.apply(vec![create("a", f4(), &[MANY, CELLS], |_| {}), create("b", f4(), &[MANY, CELLS], |_| {})])
            .unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        for row in 0..MANY {
            for name in ["a", "b"] {
                let cells: Vec<u8> =
                    (0..CELLS).flat_map(|n| ((row * CELLS + n) as f32).to_le_bytes()).collect();
                w.put(name, &f4(), &dense(&cells, &[1, CELLS], 4), Some(&[row, 0]), None).unwrap();
            }
        }
        w.close().unwrap();
        c.commit().unwrap();
    });
    let store = far(&objects);
    let c = opened(&store);
    let reading = c.reading("a", None).unwrap();
    let all = Selection::all(&[MANY, CELLS]);
    let plan = reading.explain(&all).unwrap();
    assert!(plan.to_string().contains("window: 128 requests"), "{plan}");
    let requests = plan.requests as u64;
    assert!(requests >= MANY, "{plan}");
    store.take_log();
    let began = Instant::now();
    let found = read(&c, "a", &all).unwrap();
    let time = began.elapsed();
    assert!(floats(&found).iter().enumerate().all(|(n, found)| *found == n as f32));
    assert_eq!(store.peak(), 128, "as many as the window holds");
    assert!(store.peak_bytes() <= 28 << 20, "memory is bound by bytes, too: {}", store.peak_bytes());
    let log = store.take_log();
    assert_eq!(log.len() as u64, requests, "{}", shown(&log[..20]));
    // Bytes take 0.54 s, and 8 windows 0.24 s. One after the other on two threads, requests would take 15 s.
    let bytes = Duration::from_secs_f64(total(&log) as f64 / 125e6);
    assert!(time < 3 * (bytes + Duration::from_millis(60)), "{time:?} for {bytes:?} of bytes");
}

/// The window's bytes bound long requests: memory is the caller's buffer and 32 MiB.
#[test]
fn bytes_in_flight_are_bounded_if_requests_are_long() {
    let objects = written(|c| blocks(c, "a", [3, 3], 1536));
    let store = far(&objects);
    let c = opened(&store);
    store.take_log();
    let all = read_all(&c, "a");
    assert!(floats(&all).iter().enumerate().step_by(1000).all(|(n, found)| *found == n as f32));
    let (bytes, log) = (store.peak_bytes(), store.take_log());
    assert!(total(&log) > 80 << 20 && (8 << 20..=28 << 20).contains(&bytes), "{bytes} of {}", total(&log));
}

#[test]
fn ranges_that_fit_the_window_take_one_round() {
    let objects = written(|c| blocks(c, "a", [10, 10], 64));
    let store = far(&objects);
    let c = opened(&store);
    // Index pages and sources are read once; then only data.
    read_box(&c, "a", &[0, 0], &[1, 1]);
    store.take_log();
    // A column of cells has one cell of each row.
    let column = Selection {
        axes: vec![Axis { start: 0, step: 1, count: 640 }, Axis { start: 7, step: 1, count: 1 }],
    };
    let found = read(&c, "a", &column).unwrap();
    assert!(floats(&found).iter().enumerate().all(|(row, found)| *found == (row * 640 + 7) as f32));
    let log = store.take_log();
    assert_eq!(rounds(&log), 1, "{}", shown(&log));
}

/// Goal A-1: a cold open of 20,000 blocks takes at most 5 requests, 2 rounds and 128 KiB, and the first plane's data
/// is requested in round 4.
#[test]
fn a_container_of_20_000_blocks_opens_in_two_round_trips() {
    let objects = written(|c| blocks(c, "a", [200, 100], 8));
    let store = behind(&objects, Duration::from_millis(60));
    let c = opened(&store);
    let log = store.take_log();
    assert!(log.len() <= 5 && rounds(&log) <= 2 && total(&log) <= 128 << 10, "{}", shown(&log));
    let plane = read_box(&c, "a", &[3, 0], &[1, 800]);
    assert!(floats(&plane).iter().enumerate().all(|(n, found)| *found == (3 * 800 + n) as f32));
    let log = store.take_log();
    let data = log.iter().find(|asked| asked.key.ends_with(".seg")).map(|asked| asked.round);
    assert!(data.is_some_and(|round| round <= 2), "data in round 4, opening included: {}", shown(&log));
}

/// For all kinds of variables, codecs, strings and partial reads, a far store gives the same values as a near one.
#[test]
fn a_far_container_shows_what_a_near_one_shows() {
    for durability in [Durability::Durable, Durability::Async] {
        let sample = Sample::new(durability, None);
        let store = DelayStore::new(sample.copy(), Duration::from_micros(200), 1e9);
        let c = Container::open(Arc::new(store.clone()), Mode::Read).unwrap();
        assert_eq!(c.snapshot().version() as usize, sample.versions.len() - 1);
        let (near, far) = (sample.newest(), content(&c));
        assert_eq!(near.len(), far.len());
        for ((name, near), far) in near.iter().zip(far.values()) {
            assert!(near.as_ref().unwrap() == far.as_ref().unwrap(), "{name:?}");
        }
        let report = c.verify(&mut |_, _| true).unwrap();
        let expected = sample.open(Mode::Read).unwrap().verify(&mut |_, _| true).unwrap();
        assert_eq!(report, expected);
        let c = Container::open(Arc::new(store), Mode::ReadWrite).unwrap();
        c.recover(&Adopt::All, &[]).unwrap();
        let near = sample.open(Mode::ReadWrite).unwrap();
        near.recover(&Adopt::All, &[]).unwrap();
        assert_eq!(content(&c).len(), content(&near).len());
    }
}

#[test]
fn damage_is_found_by_far_reads_too_and_named() {
    let sample = Sample::new(Durability::Durable, None);
    let (mut flips, mut failed) = (0, 0);
    for (key, mut bytes) in sample.objects().into_iter().filter(|(key, _)| !key.starts_with("hints")) {
        let step = (bytes.len() / 12).max(1);
        for at in (step / 2..bytes.len()).step_by(step) {
            bytes[at] ^= 1 << (at % 8);
            let objects = sample.copy();
            objects.put(&key, &[&bytes], PutMode::Replace, false).unwrap();
            bytes[at] ^= 1 << (at % 8);
            flips += 1;
            let store = DelayStore::new(objects, Duration::from_micros(20), 1e10);
            let c = match Container::open(Arc::new(store), Mode::Read) {
                Ok(c) => c,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corrupt, "{key} at {at}: {e}");
                    failed += 1;
                    continue;
                }
            };
            for ((name, right), found) in sample.newest().iter().zip(content(&c).values()) {
                match found {
                    Ok(found) => {
                        assert!(found == right.as_ref().unwrap(), "{key} at {at}: {name:?} is wrong")
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::Corrupt, "{key} at {at}: {e}");
                        assert!(e.to_string().contains(&key), "{key} at {at} is told as {e}");
                        failed += 1;
                    }
                }
            }
        }
    }
    assert!(flips > 60 && failed > 30, "{flips} {failed}");
}

/// A request that fails ends the read with its error: no thread waits for requests that no longer go out, and nothing
/// wrong is shown.
#[test]
fn a_failing_request_ends_a_far_read_and_no_thread_waits() {
    let objects = written(|c| blocks(c, "a", [40, 40], 16));
    let (mut errors, mut fine) = (0, 0);
    for seed in 0..60 {
        let script =
            Script::seeded(seed).one_read_in(9, if seed % 2 == 0 { Fault::Fail } else { Fault::ShortRead });
        let faulty = FaultStore::new(objects.clone(), script).unwrap();
        let store = DelayStore::new(NoAppendStore::new(faulty), Duration::from_micros(300), 1e9);
        let Ok(c) = Container::open(Arc::new(store), Mode::Read) else { continue };
        match read(&c, "a", &Selection::all(&[640, 640])) {
            Ok(found) => {
                assert!(floats(&found).iter().enumerate().all(|(n, found)| *found == n as f32));
                fine += 1;
            }
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0 && fine > 0, "{errors} {fine}");
}

/// Symptom: a commit took three round trips for each writer. Cause: their logs were read one after the other.
#[test]
fn a_commit_of_many_writers_takes_few_round_trips() {
    const WRITERS: u64 = 100;
    let objects = written(|c| {
        c.apply(vec![create("a", f4(), &[WRITERS, 10], |v| v.steps = true)]).unwrap();
        for row in 0..WRITERS {
            let rank = Some((row as u32, WRITERS as u32));
            let w = c.writer(WriterOptions { rank, ..WriterOptions::default() }).unwrap();
            w.begin_step(Some(0), false).unwrap();
            w.put("a", &f4(), &dense(&ramp_f32(10), &[1, 10], 4), Some(&[row, 0]), None).unwrap();
            w.end_step().unwrap();
            w.close().unwrap();
        }
    });
    let store = far(&objects);
    let c = Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap();
    let log = store.take_log();
    assert!(rounds(&log) <= 3, "opening to write: {}", shown(&log));
    assert!(c.commit().unwrap().changed);
    let log = store.take_log();
    assert!(log.len() as u64 >= WRITERS && rounds(&log) <= 8, "{} requests: {}", log.len(), shown(&log));
    c.flush().unwrap();
    let log = store.take_log();
    // Checks whether it is still this container and the newest snapshot, and puts the mark.
    assert!(log.len() <= 3, "what was put is durable, so a flush is a mark: {}", shown(&log));
    assert_eq!(read_all(&c, "a"), ramp_f32(10).repeat(WRITERS as usize));
}

#[test]
fn verifying_and_collecting_garbage_take_few_round_trips() {
    let objects = written(|c| {
        blocks(c, "a", [30, 30], 16);
        let c2 = &c;
        for n in 0..40_u64 {
            let w = c2.writer(WriterOptions::default()).unwrap();
            w.put("a", &f4(), &dense(&ramp_f32(10), &[1, 10], 4), Some(&[n, 0]), None).unwrap();
            w.close().unwrap();
            c2.commit().unwrap();
        }
    });
    let store = far(&objects);
    let c = Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap();
    store.take_log();
    let report = c.verify(&mut |_, _| true).unwrap();
    assert_eq!((report.damage.as_slice(), report.manifests), (&[][..], 42));
    let log = store.take_log();
    assert!(rounds(&log) <= 25, "verify: {} rounds, {} requests: {}", rounds(&log), log.len(), shown(&log));
    let report = c.gc(&GcOptions { keep: Some(1), ..GcOptions::default() }, &mut |_, _| true).unwrap();
    assert!(report.expired.len() >= 40);
    let log = store.take_log();
    let deletes: Vec<_> =
        log.iter().filter(|asked| asked.kind == "delete").map(|asked| asked.round).collect();
    println!("gc: {} requests in {} rounds", log.len(), rounds(&log));
    let in_rounds: std::collections::BTreeSet<_> = deletes.iter().collect();
    assert!(in_rounds.len() <= 2 + deletes.len() / 128, "{}", shown(&log));
}

#[test]
fn a_handle_that_looks_for_newer_snapshots_asks_once() {
    let objects = written(|c| blocks(c, "a", [2, 2], 8));
    let store = far(&objects);
    let c = opened(&store);
    store.take_log();
    c.refresh().unwrap();
    let log = store.take_log();
    assert_eq!(rounds(&log), 1, "{}", shown(&log));
    // Another handle commits many times, and its hint lags.
    let other = Container::open(Arc::new(NoAppendStore::new(objects.clone())), Mode::ReadWrite).unwrap();
    for n in 0..30 {
        other.apply(vec![create(&format!("n{n}"), f4(), &[1], |_| {})]).unwrap();
    }
    c.refresh().unwrap();
    let log = store.take_log();
    assert_eq!(c.snapshot().version(), other.snapshot().version());
    assert!(rounds(&log) <= 6, "{}", shown(&log));
    let log_of_open = {
        let fresh = far(&objects);
        let again = opened(&fresh);
        assert_eq!(again.snapshot().version(), other.snapshot().version());
        fresh.take_log()
    };
    assert!(rounds(&log_of_open) <= 5, "{}", shown(&log_of_open));
}

/// The requests that are waited for. The hint is left out: it goes out at most once a second and is not awaited.
fn waited_for(store: &Far) -> Vec<LoggedRequest> {
    let mut log = store.take_log();
    log.retain(|asked| asked.key != "manifest/hint");
    log
}

/// A step of a writer without other ranks, through a handle that has just made its variable. The test counts the
/// requests besides data, and the round trips.
///
/// Symptom: 7 requests, and 6 round trips. Cause: opening the writer and committing each checked whether the
/// container was still the same, and requests were made one after the other.
#[test]
fn a_step_asks_for_five_things_beside_its_data() {
    let objects = written(|c| c.apply(vec![create("a", f4(), &[10], |v| v.steps = true)]).map(drop).unwrap());
    let store = behind(&objects, Duration::from_millis(60));
    let c = Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap();
    store.take_log();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
    let log = store.take_log();
    assert!(log.len() == 2 && rounds(&log) == 1, "opening the writer: {}", shown(&log));
    for step in 0..2 {
        w.begin_step(Some(step), false).unwrap();
        w.put("a", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
        w.end_step().unwrap();
        let log = waited_for(&store);
        // The check of the container's identity, the record and the manifest.
        let beside = log.iter().filter(|asked| !asked.key.ends_with(".seg")).count();
        assert!(beside == 3 && rounds(&log) == 3, "step {step}: {}", shown(&log));
    }
    w.close().unwrap();
    assert_eq!(store.take_log(), []);
}

#[test]
fn a_commit_asks_once_whether_it_is_still_the_same_container() {
    let objects = written(|c| {
        c.apply(vec![create("a", f4(), &[10], |v| v.steps = true)]).unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        w.begin_step(Some(0), false).unwrap();
        w.put("a", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
        w.end_step().unwrap();
    });
    let store = far(&objects);
    let c = Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap();
    let identities = |log: &[LoggedRequest]| log.iter().filter(|asked| asked.key == "drystone.json").count();
    store.take_log();
    assert!(!c.commit().unwrap().changed);
    let log = store.take_log();
    assert!(log.len() == 3 && rounds(&log) == 1, "nothing new: {}", shown(&log));
    c.apply(vec![create("b", f4(), &[10], |_| {})]).unwrap();
    let log = waited_for(&store);
    assert!(identities(&log) == 1 && rounds(&log) == 2, "a variable: {}", shown(&log));
    let w = c.writer(WriterOptions::default()).unwrap();
    w.put("b", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
    store.take_log();
    w.close().unwrap();
    let log = waited_for(&store);
    assert!(identities(&log) == 1 && rounds(&log) == 3, "values without a step: {}", shown(&log));
}

/// A handle that made its container flushes it at its end: the mark and the hint are put together.
#[test]
fn the_end_of_a_handle_that_made_its_container_takes_two_round_trips() {
    let store = far(&MemoryStore::new());
    let c = Container::create(
        Arc::new(store.clone()),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    for name in ["a", "b", "c"] {
        c.apply(vec![create(name, f4(), &[10], |_| {})]).unwrap();
    }
    store.take_log();
    c.finish().unwrap();
    let log = store.take_log();
    assert!(log.len() == 4 && rounds(&log) == 2, "{}", shown(&log));
    let keys: Vec<&str> = log.iter().map(|asked| asked.key.as_str()).collect();
    assert!(keys.contains(&"manifest/hint"), "{keys:?}");
    drop(c);
    assert_eq!(store.take_log(), [], "nothing is owed any more");
}

/// A writer without other ranks checks the identity only when it ends a step. In a container that was replaced or
/// removed meanwhile, it changes nothing, except for data that nothing names.
#[test]
fn a_writer_whose_container_was_replaced_records_and_commits_nothing() {
    let fill = |c: &Container| c.apply(vec![create("a", f4(), &[10], |v| v.steps = true)]).map(drop).unwrap();
    for replaced in [true, false] {
        for ranks in [Some((0, 1)), None] {
            let objects = written(fill);
            let c = Container::open(Arc::new(far(&objects)), Mode::ReadWrite).unwrap();
            let w = c.writer(WriterOptions { rank: ranks, ..WriterOptions::default() }).unwrap();
            if ranks.is_some() {
                w.begin_step(Some(0), false).unwrap();
                w.put("a", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
            } else {
                w.put("a", &f4(), &dense(&ramp_f32(10), &[1, 10], 4), None, None).unwrap_err();
                c.apply(vec![create("b", f4(), &[10], |_| {})]).unwrap();
                w.put("b", &f4(), &dense(&ramp_f32(10), &[10], 4), None, None).unwrap();
            }
            for entry in objects.list("").unwrap() {
                objects.delete(&entry.key).unwrap();
            }
            if replaced {
                let store = Arc::new(NoAppendStore::new(objects.clone()));
                let other = Container::create(
                    store,
                    CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
                )
                .unwrap();
                fill(&other);
            }
            let before = objects.list("").unwrap();
            let refused = match ranks {
                Some(_) => w.end_step().map(drop).unwrap_err(),
                None => w.close().unwrap_err(),
            };
            let expected = if replaced { ErrorKind::Conflict } else { ErrorKind::NotFound };
            assert_eq!(refused.kind(), expected, "{refused}");
            drop((w, c));
            let after = objects.list("").unwrap();
            let new: Vec<&str> = after
                .iter()
                .filter(|entry| !before.contains(entry))
                .map(|entry| entry.key.as_str())
                .collect();
            assert!(new.iter().all(|key| key.ends_with(".seg")), "{new:?}");
        }
    }
}

const ROW: u64 = 128 << 10;

/// Writes a step of `rows` blocks of 512 KiB. Each part of the writer's log holds two.
fn write_step(c: &Container, rows: u64) -> drystone::Result<()> {
    let all = ramp_f32((rows * ROW) as usize);
    let segment_limit = Some(1 << 20);
    let w = c.writer(WriterOptions { rank: Some((0, 1)), segment_limit, ..WriterOptions::default() })?;
    w.begin_step(Some(0), false)?;
    for (row, cells) in (0..rows).zip(all.chunks(ROW as usize * 4)) {
        w.put("a", &f4(), &dense(cells, &[1, ROW], 4), Some(&[row, 0]), None)?;
    }
    w.end_step()?;
    w.close()
}

/// Symptom: 1 GiB was uploaded in 43 objects one after the other, with a round trip for each segment and for each
/// record. Cause: a part was put by a blocking call. Now several parts are in flight, and the record of each follows
/// all bytes before it.
#[test]
fn parts_go_up_several_at_a_time_and_each_record_after_its_bytes() {
    const ROWS: u64 = 40;
    let objects =
        written(|c| c.apply(vec![create("a", f4(), &[ROWS, ROW], |v| v.steps = true)]).map(drop).unwrap());
    let store = DelayStore::new(NoAppendStore::new(objects.clone()), Duration::from_millis(150), 1e9);
    let c = Container::open(Arc::new(store.clone()), Mode::ReadWrite).unwrap();
    store.take_log();
    write_step(&c, ROWS).unwrap();
    let peak = store.peak();
    assert!((5..=26).contains(&peak), "{peak} under way: 24 MiB of segments, and a record");
    let log = store.take_log();
    let mut done = 0;
    for asked in log.iter().filter(|asked| asked.kind == "put" && asked.key.starts_with("log/")) {
        if asked.key.ends_with(".idx") {
            let of = |a: &&LoggedRequest| {
                a.key.ends_with(".seg") && a.key[..a.key.len() - 4] <= asked.key[..asked.key.len() - 4]
            };
            assert!(log.iter().filter(of).all(|segment| segment.round < asked.round), "{}", shown(&log));
            done += 1;
        }
    }
    assert!(done >= ROWS / 2, "{}", shown(&log));
    // One after the other, 20 parts would take 3 round trips each: segment, record, and the commit's look at the
    // record.
    assert!(rounds(&log) < 35, "{}", shown(&log));
    let cells = read_all(&opened(&store), "a");
    assert!(floats(&cells).iter().enumerate().all(|(n, found)| *found == n as f32));
}

/// If a process dies at any request of such a step, the step is complete or absent, and the remains can be recovered.
#[test]
fn a_step_of_parts_in_flight_is_complete_or_absent_whenever_its_writer_dies() {
    const ROWS: u64 = 7;
    let create_a =
        |c: &Container| c.apply(vec![create("a", f4(), &[ROWS, ROW], |v| v.steps = true)]).map(drop);
    let run = |fault: Option<u64>| {
        let script = fault.map_or(Script::default(), |at| Script::seeded(at).at(at, Fault::Crash));
        let faulty = Arc::new(FaultStore::in_memory(script));
        let far = DelayStore::new(NoAppendStore::new(faulty.clone()), Duration::from_micros(300), 1e10);
        let options = CreateOptions { durability: Durability::Async, ..CreateOptions::default() };
        let written = Container::create(Arc::new(far), options).and_then(|c| {
            create_a(&c)?;
            write_step(&c, ROWS)
        });
        (faulty, written.is_ok())
    };
    let (whole, done) = run(None);
    assert!(done);
    let changes = whole.changes();
    assert!(changes > 12, "{changes}");
    let (mut none, mut all) = (0, 0);
    for at in 0..changes {
        let (faulty, _) = run(Some(at));
        let left = Arc::new(NoAppendStore::new(faulty.survivor()));
        let Ok(c) = Container::open(left, Mode::ReadWrite) else { continue };
        c.recover(&Adopt::All, &[]).unwrap();
        if c.snapshot().steps.iter().next().is_none() {
            none += 1;
            continue;
        }
        let cells = read_all(&c, "a");
        assert!(
            floats(&cells).iter().enumerate().all(|(n, found)| *found == n as f32),
            "killed at change {at}"
        );
        all += 1;
    }
    assert!(none > 3 && all > 0, "{none} {all}");
}

/// Symptom: a series through published shards took three round trips for each shard, and one more. Cause: stamp,
/// length and index of a shard were requested one after the other, and so were the shards.
#[test]
fn published_shards_are_looked_at_together() {
    const STEPS: u64 = 64;
    let objects = written(|c| {
        c.apply(vec![create("a", f4(), &[64, 64], |v| v.steps = true)]).unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        for step in 0..STEPS {
            w.begin_step(Some(step), false).unwrap();
            let cells: Vec<u8> =
                (0..64 * 64).flat_map(|n| ((step * 10_000 + n) as f32).to_le_bytes()).collect();
            w.put("a", &f4(), &dense(&cells, &[64, 64], 4), None, None).unwrap();
            w.end_step().unwrap();
        }
        w.close().unwrap();
        let chunks = [("a".to_owned(), vec![1, 2, 2])].into();
        c.publish(&PublishOptions { chunks, ..PublishOptions::default() }, &mut |_, _| true).unwrap();
    });
    let shards = objects.list("zarr/a/c/").unwrap().len();
    let store = far(&objects);
    let c = opened(&store);
    let published = Some(drystone_plan::read_plan::PUBLISHED);
    let reading = c.reading("a", None).unwrap().by_way_of(published);
    let axis = |start, count| Axis { start, step: 1, count };
    let series = Selection { axes: vec![axis(0, STEPS), axis(17, 1), axis(40, 1)] };
    store.take_log();
    let mut out = vec![0; STEPS as usize * 4];
    let target = drystone::array::Target::dense(&mut out, &[STEPS, 1, 1], 4).unwrap();
    reading.read(&series, &target).unwrap();
    drop(target);
    let right: Vec<f32> = (0..STEPS).map(|step| (step * 10_000 + 17 * 64 + 40) as f32).collect();
    assert_eq!(floats(&out), right);
    let log = store.take_log();
    assert!(log.iter().any(|asked| asked.key.starts_with("zarr/")), "{}", shown(&log));
    assert!(shards > 2 && rounds(&log) <= 5, "{shards} shards: {}", shown(&log));
}

#[test]
fn strings_are_requested_together() {
    let objects = written(|c| {
        c.apply(vec![create("s", drystone_format::dtype::DType::String, &[40], |_| {})]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        for n in 0..40_u64 {
            // Texts are longer than a gap that is read, so each is a request.
            let text = n.to_string().repeat(60_000);
            w.put_strings("s", &[1], &[text.as_bytes()], Some(&[n]), None).unwrap();
        }
        w.close().unwrap();
        c.commit().unwrap();
    });
    let store = far(&objects);
    let c = opened(&store);
    let reading = c.reading("s", None).unwrap();
    store.take_log();
    let every_second = Selection { axes: vec![Axis { start: 0, step: 2, count: 20 }] };
    let (found, _) = reading.read_strings(&every_second).unwrap();
    assert!(
        found.iter().enumerate().all(|(n, text)| *text == (2 * n).to_string().repeat(60_000).into_bytes())
    );
    let log = store.take_log();
    assert!(log.len() > 20 && rounds(&log) <= 6, "{}", shown(&log));
}

/// A writer that is faster than its link waits, and its metrics report that. A read at a known place takes one round
/// trip.
#[test]
fn round_trips_and_waits_for_the_link_are_counted() {
    const CELLS: u64 = 1 << 20;
    let store = DelayStore::new(NoAppendStore::new(MemoryStore::new()), Duration::from_millis(5), 125e6);
    let c = Container::create(
        Arc::new(store.clone()),
        CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
    )
    .unwrap();
    c.apply(vec![create("a", f4(), &[16, CELLS], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let cells = vec![1; 4 * CELLS as usize];
    let began = Instant::now();
    w.put("a", &f4(), &dense(&cells, &[1, CELLS], 4), Some(&[0, 0]), None).unwrap();
    assert_eq!(c.metrics().stalls, 0, "there is room for 24 MiB");
    for row in 1..16 {
        w.put("a", &f4(), &dense(&cells, &[1, CELLS], 4), Some(&[row, 0]), None).unwrap();
    }
    w.close().unwrap();
    let most = began.elapsed().as_micros() as u64;
    c.commit().unwrap();
    let metrics = c.metrics();
    assert!(metrics.stalls > 0, "64 MiB went out by 8");
    assert!((1..=most).contains(&metrics.stall_microseconds), "{} of {most}", metrics.stall_microseconds);
    assert_eq!(metrics.read_rounds, 0);
    let c = opened(&store);
    read_box(&c, "a", &[0, 0], &[1, 8]);
    let before = c.metrics().read_rounds;
    read_box(&c, "a", &[3, 0], &[1, 8]);
    assert_eq!(c.metrics().read_rounds - before, 1);
}
