//! Puts are read back: boxes, strides, overlaps, records, strings, chunks and codecs, over every kind of store.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use crate::common::*;
use drystone::array::Target;
use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, Mode, SchemaOp, WriterOptions};
use drystone_format::dtype::{DType, Member, Record, Scalar};
use drystone_plan::listing::Listing;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{FaultStore, MemoryStore, NoAppendStore, Script, StoreExt};
use std::sync::Arc;

#[test]
fn a_block_comes_back_from_every_kind_of_store() {
    for durability in [Durability::Durable, Durability::Async, Durability::Memory] {
        let stores: Vec<Arc<dyn drystone_store::Store>> =
            vec![Arc::new(MemoryStore::new()), Arc::new(NoAppendStore::new(MemoryStore::new()))];
        for store in stores {
            let c =
                Container::create(store.clone(), CreateOptions { durability, ..CreateOptions::default() })
                    .unwrap();
            c.apply(vec![create("t", f4(), &[4, 6, 8], |v| v.steps = true)]).unwrap();
            let data = ramp_f32(4 * 6 * 8);
            let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
            w.begin_step(None, false).unwrap();
            w.put("t", &f4(), &dense(&data, &[4, 6, 8], 4), None, None).unwrap();
            assert!(w.end_step().unwrap().unwrap().changed);
            w.close().unwrap();
            let again = Container::open(store.clone(), Mode::Read).unwrap();
            assert_eq!(read_all(&again, "t"), data);
            assert_eq!(again.reading("t", None).unwrap().shape(), [1, 4, 6, 8]);
        }
    }
}

/// Requests that are planned together go to the store together. If a series were cut into batches, each would wait
/// for the one before.
#[test]
fn a_series_of_many_steps_is_read_by_the_requests_of_its_plan() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[4], |v| v.steps = true), create("u", f4(), &[4], |v| v.steps = true)])
        .unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    let steps = 300;
    for step in 0..steps {
        w.begin_step(None, false).unwrap();
        for path in ["t", "u"] {
            let cells = [step as f32, 1.0, 2.0, 3.0];
            w.put(path, &f4(), &dense(&bytes(&cells), &[4], 4), None, None).unwrap();
        }
        w.end_step().unwrap();
    }
    w.close().unwrap();
    let reading = c.reading("t", None).unwrap();
    let series = Selection {
        axes: vec![Axis { start: 0, step: 1, count: steps }, Axis { start: 0, step: 1, count: 1 }],
    };
    let plan = reading.explain(&series).unwrap();
    let mut found = vec![0; steps as usize * 4];
    let report = reading.read(&series, &Target::dense(&mut found, &[steps, 1], 4).unwrap()).unwrap();
    assert_eq!(floats(&found), (0..steps).map(|step| step as f32).collect::<Vec<_>>());
    assert_eq!((report.requests, report.read_bytes), (plan.requests as u64, plan.read_bytes));
    assert_eq!(report.requests, 1, "small steps lie side by side in the log");
}

/// Symptom: the checksums of some pieces were not found. A piece that is not staged may end at any byte of the file.
/// The checksums of the next piece, which is staged, were padded to a multiple of 4 counted from that byte, rather
/// than from the piece's own beginning.
#[test]
fn pieces_behind_a_large_one_of_an_odd_length_are_read_back() {
    use drystone_format::dtype::{DType, Scalar};
    let u1 = DType::Scalar(Scalar::U8);
    let noise = |seed: u64, len: usize| -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u8
        };
        (0..len).map(|_| next()).collect()
    };
    for transform in ["identity", "shuffle", "aplod", "zstd:1"] {
        let c = memory();
        let w = c.writer(WriterOptions::default()).unwrap();
        let mut expected = Vec::new();
        for (n, len) in [300_001, 20_001, 300_002, 30_003, 700_003, 17_002, 9, 20_003].into_iter().enumerate()
        {
            let (path, data) = (format!("v{n}"), noise(n as u64, len));
            let shape = [len as u64];
            c.apply(vec![create(&path, u1.clone(), &shape, |v| v.transform = transform.into())]).unwrap();
            w.put(&path, &u1, &dense(&data, &shape, 1), None, None).unwrap();
            expected.push((path, data));
        }
        w.close().unwrap();
        for (path, data) in &expected {
            assert!(read_all(&c, path) == *data, "{path}, {} bytes, {transform}", data.len());
        }
        assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, [], "{transform}");
    }
}

/// Subchunks are stored while others are encoded: those of one batch and of several, with and without prefixes.
#[test]
fn a_block_of_many_encoded_subchunks_comes_back_and_its_prefixes_stand_together() {
    for transform in ["shuffle,zstd:1", "aplod", "blosc:lz4:5:shuffle"] {
        for edge in [80u64, 140] {
            let c = memory();
            let (shape, cut) = ([edge; 3], vec![32; 3]);
            let made = create("t", f4(), &shape, |v| (v.transform, v.chunks) = (transform.into(), Some(cut)));
            c.apply(vec![made]).unwrap();
            let data = ramp_f32((edge * edge * edge) as usize);
            let w = c.writer(WriterOptions::default()).unwrap();
            w.put("t", &f4(), &dense(&data, &shape, 4), None, None).unwrap();
            w.close().unwrap();
            assert!(read_all(&c, "t") == data, "{transform}, {edge}");
            assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, [], "{transform}, {edge}");
            if transform == "aplod" {
                let rough = drystone_transform::Precision::Relative(0.1);
                let reading = c.reading("t", None).unwrap().with_precision(rough).unwrap();
                let whole = Selection {
                    axes: shape.iter().map(|&count| Axis { start: 0, step: 1, count }).collect(),
                };
                let plan = reading.explain(&whole).unwrap();
                let batches = (edge.div_ceil(32).pow(3) * 4 * 32 * 32 * 32).div_ceil(8 << 20);
                assert!(plan.requests as u64 <= 2 * batches, "{plan}");
            }
        }
    }
}

#[test]
fn a_store_that_is_full_while_subchunks_are_encoded_is_an_error() {
    let store = Arc::new(FaultStore::in_memory(Script::default().with_space(50_000)));
    let c = Container::create(store, CreateOptions::default()).unwrap();
    let made = create("t", f4(), &[140; 3], |v| {
        (v.transform, v.chunks) = ("shuffle,zstd:1".into(), Some(vec![16; 3]));
    });
    c.apply(vec![made]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let noise = |n: u32| n.wrapping_mul(2_654_435_761).rotate_left(n % 31).wrapping_mul(40_503);
    let data: Vec<u8> = (0..140 * 140 * 140).flat_map(|n| noise(n).to_le_bytes()).collect();
    let error = w.put("t", &f4(), &dense(&data, &[140; 3], 4), None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[test]
fn writers_without_ranks_wait_for_a_commit_and_newest_wins() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[4], |v| v.steps = true), create("once", f4(), &[2], |_| {})]).unwrap();
    let a = c.writer(WriterOptions::default()).unwrap();
    let b = c.writer(WriterOptions::default()).unwrap();
    for (w, x) in [(&a, 1.0f32), (&b, 2.0)] {
        assert_eq!(w.begin_step(Some(0), false).unwrap(), 0);
        w.put("t", &f4(), &dense(&bytes(&[x, x]), &[2], 4), Some(&[1]), None).unwrap();
        assert!(w.end_step().unwrap().is_none());
    }
    assert_eq!(c.snapshot().step_axis(), 0, "nothing is visible before the commit");
    assert!(c.commit().unwrap().changed);
    assert!(!c.commit().unwrap().changed, "nothing is new");
    let first = floats(&read_all(&c, "t"));
    assert!(first == [0.0, 1.0, 1.0, 0.0] || first == [0.0, 2.0, 2.0, 0.0]);
    // A later commit wins, whichever writer made it.
    a.begin_step(Some(0), false).unwrap();
    a.put("t", &f4(), &dense(&bytes(&[7.0]), &[1], 4), Some(&[2]), None).unwrap();
    a.put("once", &f4(), &dense(&bytes(&[5.0, 6.0]), &[2], 4), None, None).unwrap();
    a.end_step().unwrap();
    c.commit().unwrap();
    assert_eq!(floats(&read_all(&c, "t"))[2], 7.0);
    assert_eq!(floats(&read_all(&c, "once")), [0.0, 0.0], "values without step wait for the close");
    a.close().unwrap();
    assert_eq!(floats(&read_all(&c, "once")), [5.0, 6.0]);
    b.close().unwrap();
}

#[test]
fn variables_and_their_first_values_become_visible_in_one_commit() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    let op = create("new", f4(), &[4], |_| {});
    let SchemaOp::CreateVariable(_, new) = &op else { panic!("an operation that creates") };
    let declared = new.declared("new", c.schema().next_id, 77).unwrap();
    let write = |x: f32| {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.put_to(("new", &declared), &f4(), &dense(&bytes(&[x, x]), &[2], 4), Some(&[1])).unwrap();
        w.seal().unwrap();
        w.sync().unwrap();
        w.id()
    };
    let (lost, taken) = (write(5.0), write(6.0));
    // A commit that does not create the variable takes nothing, and reports why.
    let done = c.commit().unwrap();
    assert!(
        !done.changed && done.notes.iter().any(|note| note.contains("never committed")),
        "{:?}",
        done.notes
    );
    assert!(c.schema().resolve("new").is_none());
    let done = c.commit_sealed(&[taken], |schema, version| {
        let changed = op.apply(schema, version)?;
        schema.variables.values_mut().for_each(|variable| variable.uid = 77);
        Ok(changed)
    });
    assert_eq!(done.unwrap().snapshot.version(), 1);
    assert_eq!(c.flush_after(&[taken]).unwrap(), 1);
    let again = Container::open(store, Mode::ReadWrite).unwrap();
    assert_eq!(floats(&read_all(&again, "new")), [0.0, 6.0, 6.0, 0.0]);
    // The same variable, by id and uid: blocks that were put for it earlier can still be taken.
    again.commit_sealed(&[lost], |_, _| Ok(false)).unwrap();
    assert_eq!(floats(&read_all(&again, "new")), [0.0, 5.0, 5.0, 0.0]);
}

#[test]
fn a_step_of_a_run_is_visible_when_every_rank_closed_it() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[3], |v| v.steps = true)]).unwrap();
    let writers: Vec<_> = (0..3)
        .map(|r| c.writer(WriterOptions { rank: Some((r, 3)), ..Default::default() }).unwrap())
        .collect();
    for (r, w) in writers.iter().enumerate().take(2) {
        w.begin_step(None, false).unwrap();
        w.put("t", &f4(), &dense(&bytes(&[r as f32 + 1.0]), &[1], 4), Some(&[r as u64]), None).unwrap();
        w.end_step().unwrap();
    }
    let done = c.commit().unwrap();
    assert!(!done.changed);
    assert_eq!(done.incomplete[0].missing, [2]);
    assert!(done.incomplete[0].to_string().contains("step 0"), "{}", done.incomplete[0]);
    writers[2].begin_step(None, false).unwrap();
    writers[2].put("t", &f4(), &dense(&bytes(&[3.0]), &[1], 4), Some(&[2]), None).unwrap();
    writers[2].end_step().unwrap();
    assert!(c.commit().unwrap().changed);
    assert_eq!(floats(&read_all(&c, "t")), [1.0, 2.0, 3.0]);
}

/// Symptom: a step showed the replacement of one rank beside the earlier blocks of the other. Cause: the commit
/// counted ranks, not how often each rank had closed the step.
#[test]
fn a_replacement_of_a_step_is_visible_when_every_rank_has_closed_it() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[2], |v| v.steps = true)]).unwrap();
    let writers: Vec<_> = (0..2)
        .map(|r| c.writer(WriterOptions { rank: Some((r, 2)), ..Default::default() }).unwrap())
        .collect();
    let close = |rank: usize, value: f32, replace: bool| {
        let w = &writers[rank];
        w.begin_step(Some(0), replace).unwrap();
        w.put("t", &f4(), &dense(&bytes(&[value]), &[1], 4), Some(&[rank as u64]), None).unwrap();
        w.end_step().unwrap();
    };
    let shown = |expected: [f32; 2], missing: &[u32]| {
        let done = c.commit().unwrap();
        assert_eq!(floats(&read_all(&c, "t")), expected);
        let found: Vec<_> = done.incomplete.iter().map(|i| (i.missing.clone(), i.again)).collect();
        assert_eq!(found, if missing.is_empty() { vec![] } else { vec![(missing.to_vec(), true)] });
    };
    close(0, 1.0, false);
    close(1, 2.0, false);
    close(0, 11.0, true);
    shown([1.0, 2.0], &[1]);
    shown([1.0, 2.0], &[1]);
    let text = c.commit().unwrap().incomplete[0].to_string();
    assert!(text.contains("visible as before: of 2 ranks, one has not closed it again: 1"), "{text}");
    close(1, 12.0, true);
    shown([11.0, 12.0], &[]);
    // Several replacements, of which the last is closed by one rank only.
    close(1, 22.0, true);
    close(0, 21.0, true);
    close(1, 32.0, true);
    shown([21.0, 22.0], &[0]);
    // A group that adds to a step, and replaces nothing, needs no other rank to add.
    close(0, 31.0, true);
    close(0, 41.0, false);
    shown([41.0, 32.0], &[]);
}

#[test]
fn a_dead_run_is_settled_by_recover_and_never_mixes_with_the_next() {
    for adopt in [true, false] {
        let c = memory();
        c.apply(vec![create("t", f4(), &[2], |v| v.steps = true)]).unwrap();
        let old: Vec<_> = (0..2)
            .map(|r| c.writer(WriterOptions { rank: Some((r, 2)), ..Default::default() }).unwrap())
            .collect();
        for step in 0..2 {
            for (r, w) in old.iter().enumerate() {
                if step == 1 && r == 1 {
                    continue; // dies here
                }
                w.begin_step(None, false).unwrap();
                w.put("t", &f4(), &dense(&bytes(&[step as f32 + 1.0]), &[1], 4), Some(&[r as u64]), None)
                    .unwrap();
                w.end_step().unwrap();
            }
        }
        let refused = c.writer(WriterOptions { rank: Some((0, 2)), ..Default::default() }).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("recover"), "{refused}");
        let refused = c.writer(WriterOptions { rank: Some((0, 3)), ..Default::default() }).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        let report = c.recover(&if adopt { Adopt::All } else { Adopt::None }, &[]).unwrap();
        assert_eq!(report.adopted, if adopt { vec![0] } else { vec![] });
        assert_eq!(report.discarded, if adopt { vec![] } else { vec![0] });
        assert_eq!(report.incomplete.iter().map(|one| one.at.step).collect::<Vec<_>>(), [1]);
        assert_eq!(report.run, 1);
        // The dead run writes again; nothing of it becomes visible.
        old[1].begin_step(Some(1), false).unwrap();
        old[1].put("t", &f4(), &dense(&bytes(&[9.0]), &[1], 4), Some(&[1]), None).unwrap();
        old[1].end_step().unwrap();
        assert!(!c.commit().unwrap().changed);
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
        assert_eq!(w.begin_step(None, false).unwrap(), u64::from(adopt));
        w.put("t", &f4(), &dense(&bytes(&[4.0, 5.0]), &[2], 4), None, None).unwrap();
        w.end_step().unwrap();
        let all = floats(&read_all(&c, "t"));
        assert_eq!(all, if adopt { vec![1.0, 1.0, 4.0, 5.0] } else { vec![4.0, 5.0] });
    }
}

#[test]
fn chunked_and_coded_blocks_read_back_in_any_box() {
    for transform in ["", "zstd:3", "shuffle,zstd:1", "shuffle"] {
        for chunks in [None, Some(vec![3, 4, 5])] {
            let c = memory();
            c.apply(vec![create("t", f4(), &[10, 11, 12], |v| {
                v.transform = transform.into();
                v.chunks = chunks.clone();
                v.fill = Some(bytes(&[-1.0]));
            })])
            .unwrap();
            let data = ramp_f32(8 * 9 * 10);
            let w = c.writer(WriterOptions::default()).unwrap();
            w.put("t", &f4(), &dense(&data, &[8, 9, 10], 4), Some(&[1, 2, 1]), None).unwrap();
            w.close().unwrap();
            let all = floats(&read_all(&c, "t"));
            for (i, x) in all.iter().enumerate() {
                let (z, y, x_) = (i / 132, i / 12 % 11, i % 12);
                let inside = (1..9).contains(&z) && (2..11).contains(&y) && (1..11).contains(&x_);
                let expected = if inside { ((z - 1) * 90 + (y - 2) * 10 + x_ - 1) as f32 } else { -1.0 };
                assert_eq!(*x, expected, "{transform} {chunks:?} at {z},{y},{x_}");
            }
            assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
        }
    }
}

#[test]
fn large_raw_blocks_are_read_in_part_and_verified() {
    let c = memory();
    let n = 160u64;
    c.apply(vec![create("t", f4(), &[n, n, n], |_| {})]).unwrap();
    let data = ramp_f32((n * n * n) as usize);
    let w = c.writer(WriterOptions::default()).unwrap();
    w.put("t", &f4(), &dense(&data, &[n, n, n], 4), None, None).unwrap();
    w.close().unwrap();
    assert_eq!(read_all(&c, "t"), data);
    let expected = floats(&data);
    for axis in 0..3 {
        let mut offset = [0, 0, 0];
        let mut count = [n, n, n];
        offset[axis] = 77;
        count[axis] = 1;
        let got = floats(&read_box(&c, "t", &offset, &count));
        for (i, g) in got.iter().enumerate() {
            let (a, b) = (i as u64 / n, i as u64 % n);
            let at = match axis {
                0 => (77 * n + a) * n + b,
                1 => (a * n + 77) * n + b,
                _ => (a * n + b) * n + 77,
            };
            assert_eq!(*g, expected[at as usize]);
        }
    }
}

#[test]
fn shrinking_and_growing_back_reads_fill() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[4], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    w.put("t", &f4(), &dense(&bytes(&[1.0, 2.0, 3.0, 4.0]), &[4], 4), None, None).unwrap();
    w.close().unwrap();
    let before = c.snapshot().version();
    c.apply(vec![SchemaOp::Resize("t".into(), vec![2])]).unwrap();
    assert_eq!(floats(&read_all(&c, "t")), [1.0, 2.0]);
    c.apply(vec![SchemaOp::Resize("t".into(), vec![5])]).unwrap();
    assert_eq!(floats(&read_all(&c, "t")), [1.0, 2.0, 0.0, 0.0, 0.0]);
    assert_eq!(floats(&read_all(&c.at(before).unwrap(), "t")), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn strings_of_any_length_come_back() {
    let c = memory();
    c.apply(vec![create("s", drystone_format::dtype::DType::String, &[2, 3], |v| v.steps = true)]).unwrap();
    let long = "x".repeat(3 << 20);
    let values: Vec<&[u8]> = vec![b"a", b"", "grün".as_bytes(), long.as_bytes()];
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    w.begin_step(None, false).unwrap();
    w.put_strings("s", &[2, 2], &values, Some(&[0, 1]), None).unwrap();
    w.end_step().unwrap();
    let r = c.reading("s", None).unwrap();
    let (got, _) = r.read_strings(&drystone_plan::selection::Selection::all(&r.shape())).unwrap();
    let got: Vec<&[u8]> = got.iter().map(Vec::as_slice).collect();
    assert_eq!(got, [b"".as_slice(), b"a", b"", b"", "grün".as_bytes(), long.as_bytes()]);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

/// A record of a number, two texts and a list: each member is a column of its own, put together or by itself.
#[test]
fn records_have_members_of_any_length() {
    let member = |name: &str, dtype, shape: &[u64], offset| Member {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let dtype = DType::Record(Record {
        itemsize: 52,
        members: vec![
            member("n", DType::Scalar(Scalar::I32), &[], 0),
            member("words", DType::String, &[2], 4),
            member("list", DType::Ragged(Scalar::I16), &[], 36),
        ],
    });
    let c = memory();
    c.apply(vec![create("r", dtype.clone(), &[3], |v| v.steps = true)]).unwrap();
    let numbers: Vec<u8> = (1..=3i32).flat_map(|n| [&n.to_le_bytes()[..], &[0xEE; 48]].concat()).collect();
    let data = dense(&numbers, &[3], 52);
    let words: Vec<&[u8]> = vec![b"a", b"", b"b", "grün".as_bytes(), b"", b"c"];
    let lists: Vec<&[u8]> = vec![&[1, 0], &[], &[1, 0, 2, 0]];
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    w.begin_step(None, false).unwrap();
    for wrong in
        [vec![words.clone()], vec![lists.clone(), words.clone()], vec![words[..5].to_vec(), lists.clone()]]
    {
        let kind = w.put_records("r", &dtype, (&data, &wrong), None, None).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::InvalidArgument);
    }
    assert!(w.put("r", &dtype, &data, None, None).is_err(), "references are the engine's own");
    assert!(w.put_strings("r", &[3], &words[..3], None, None).is_err(), "of which member?");
    assert!(w.put_strings("r", &[1], &[&[0xFF], b""], None, Some("words")).is_err(), "no UTF-8");
    w.put_records("r", &dtype, (&data, &[words.clone(), lists.clone()]), None, None).unwrap();
    w.put_strings("r", &[1], &[b"later"], Some(&[1]), Some("words[1]")).unwrap();
    let long = "x".repeat(3 << 20);
    w.put_strings("r", &[2], &[long.as_bytes(), b"", b"", b""], Some(&[1]), Some("words")).unwrap();
    w.put_strings("r", &[1], &[b"last"], Some(&[2]), Some("words[0]")).unwrap();
    w.end_step().unwrap();

    let all = Selection::all(&[1, 3]);
    let expected: Vec<&[u8]> = vec![b"a", b"", long.as_bytes(), b"", b"last", b""];
    let whole = c.reading("r", None).unwrap();
    let (records, report) = whole.read_records(&all).unwrap();
    assert_eq!(records.values.len(), 2);
    assert_eq!(records.values[0], expected);
    assert_eq!(records.values[1], lists);
    let found: Vec<i32> =
        records.cells.chunks(52).map(|cell| i32::from_le_bytes(cell[..4].try_into().unwrap())).collect();
    assert_eq!(found, [1, 2, 3]);
    assert!(report.requests <= 4, "one plan for all members: {}", report.requests);
    let member = |path: &str| c.reading("r", Some(path)).unwrap();
    assert_eq!(member("words").read_strings(&all).unwrap().0, expected);
    assert_eq!(member("words[0]").read_strings(&all).unwrap().0, [expected[0], expected[2], expected[4]]);
    assert_eq!(member("list").read_strings(&Selection::boxed(&[0, 2], &[1, 1])).unwrap().0, [lists[2]]);
    let points = Listing::points(2, vec![0, 2, 0, 0]);
    let (listed, _) = whole.read_records(&points).unwrap();
    assert_eq!(listed.values[0], [expected[4], expected[5], expected[0], expected[1]]);
    assert_eq!(listed.values[1], [lists[2], lists[0]]);
    let mut out = vec![0; 3 * 52];
    for refused in [
        whole.read(&all, &Target::dense(&mut out, &[1, 3], 52).unwrap()).err(),
        whole.read_strings(&all).err(),
    ] {
        assert!(refused.unwrap().to_string().contains("member"));
    }
    let block = whole.block(Some(0), 0).unwrap();
    assert_eq!(whole.read_records(&block).unwrap().0.values[0], words);
    assert_eq!(whole.blocks(Some(0)).unwrap()[0].members, ["n", "words", "list"]);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

#[test]
fn snapshots_stay_as_they_were_and_replace_hides_a_step() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[2], |v| v.steps = true)]).unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    let write = |step: u64, replace: bool, at: u64, x: f32| {
        w.begin_step(Some(step), replace).unwrap();
        w.put("t", &f4(), &dense(&bytes(&[x]), &[1], 4), Some(&[at]), None).unwrap();
        w.end_step().unwrap().unwrap().snapshot.version()
    };
    let first = write(3, false, 0, 1.0);
    let second = write(3, false, 1, 2.0);
    let third = write(3, true, 1, 3.0);
    for (version, expected) in [(first, [1.0, 0.0]), (second, [1.0, 2.0]), (third, [0.0, 3.0])] {
        let all = floats(&read_all(&c.at(version).unwrap(), "t"));
        assert_eq!(all[6..], expected);
        assert_eq!(all[..6], [0.0; 6], "missing steps read as fill");
    }
    assert_eq!(c.snapshots().unwrap(), (1..=third).collect::<Vec<_>>());
}

#[test]
fn a_writer_outlives_the_handle_it_came_from() {
    let c = memory();
    c.apply(vec![create("t", f4(), &[1], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let other = Container::clone(&c);
    c.close();
    w.put("t", &f4(), &dense(&bytes(&[3.0]), &[1], 4), None, None).unwrap();
    w.close().unwrap();
    assert!(other.commit().is_err(), "a closed handle does nothing more");
}

#[test]
fn a_hint_that_lags_hides_no_commit_and_closing_brings_it_up_to_date() {
    for (durability, most) in [(Durability::Durable, 8), (Durability::Async, 64)] {
        let store = MemoryStore::new();
        let hinted = || {
            let bytes = store.read_all("manifest/hint", 64).unwrap();
            drystone_format::identity::decode_hint(&bytes).unwrap()
        };
        let c = Container::create(
            Arc::new(store.clone()),
            CreateOptions { durability, ..CreateOptions::default() },
        )
        .unwrap();
        let mut lagged = 0;
        for i in 0..150u64 {
            c.apply(vec![create(&format!("v{i}"), f4(), &[1], |_| {})]).unwrap();
            let newest = c.snapshot().version();
            lagged = lagged.max(newest - hinted());
            let reader = Container::open(Arc::new(store.clone()), Mode::Read).unwrap();
            assert_eq!(reader.snapshot().version(), newest);
        }
        assert_eq!(lagged, most - 1);
        assert!(hinted() < c.snapshot().version());
        c.close();
        assert_eq!(hinted(), c.snapshot().version());
    }
}
