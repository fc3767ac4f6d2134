//! Reads by programs give the same values as reads by ranges, for every codec, precision and selection, and for any
//! failure.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::*;
use crate::keeper::*;
use drystone::array::Target;
use drystone::{BlockLayout, Container, CreateOptions, Mode, Precision, ReadReport, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::listing::Listing;
use drystone_plan::programs::Programs;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{MemoryStore, PutMode, Store};

const SHAPE: [u64; 3] = [20, 24, 30];

fn content(dtype: &DType) -> Vec<u8> {
    let cells = SHAPE.iter().product::<u64>();
    let value = |i: u64| ((i as f64) * 0.01).sin() * 300.0 + ((i * 7919) % 13) as f64 * 0.25;
    match dtype {
        DType::Scalar(Scalar::F32) => (0..cells).flat_map(|i| (value(i) as f32).to_le_bytes()).collect(),
        DType::Scalar(Scalar::F64) => (0..cells).flat_map(|i| value(i).to_le_bytes()).collect(),
        _ => (0..cells).flat_map(|i| (value(i) as i32).to_le_bytes()).collect(),
    }
}

fn written(objects: &Arc<MemoryStore>, dtype: &DType, transform: &str, chunks: Option<Vec<u64>>) {
    let c = Container::create(objects.clone(), CreateOptions::default()).unwrap();
    let set = |v: &mut drystone::NewVariable| {
        v.transform = transform.into();
        v.chunks = chunks;
        v.fill = None;
    };
    let (z, y, x) = (SHAPE[0], SHAPE[1], SHAPE[2]);
    c.apply(vec![create("t", dtype.clone(), &[z + 2, y, x], set)]).unwrap();
    let layout = BlockLayout::Log;
    let w = c.writer(WriterOptions { rank: Some((0, 1)), layout, ..Default::default() }).unwrap();
    let item = dtype.item_size() as usize;
    w.put("t", dtype, &dense(&content(dtype), &SHAPE, item), Some(&[0, 0, 0]), None).unwrap();
    // A smaller block lies over a part of it, so the visible part of the first block is not a box.
    let over = content(dtype)[..item * 64].to_vec();
    w.put("t", dtype, &dense(&over, &[4, 4, 4], item), Some(&[3, 5, 7]), None).unwrap();
    w.close().unwrap();
}

type Read = drystone::Result<(Vec<u8>, ReadReport)>;

fn read_box(c: &Container, selection: &Selection, precision: Precision, programs: Programs) -> Read {
    let reading = c.reading("t", None)?.with_precision(precision)?.with_programs(programs);
    let shape = selection.shape();
    let mut out = vec![0xA5; (shape.iter().product::<u64>() * u64::from(reading.item())) as usize];
    let report = reading.read(selection, &Target::dense(&mut out, &shape, reading.item() as usize)?)?;
    Ok((out, report))
}

fn read_listed(c: &Container, listing: &Listing, programs: Programs) -> Read {
    let reading = c.reading("t", None)?.with_programs(programs);
    let shape = listing.shape();
    let mut out = vec![0xA5; (shape.iter().product::<u64>() * u64::from(reading.item())) as usize];
    let report = reading.read(listing, &Target::dense(&mut out, &shape, reading.item() as usize)?)?;
    Ok((out, report))
}

const TRANSFORMS: [&str; 21] = [
    "",
    "zlib:3",
    "gzip:3",
    "bzip2",
    "szip",
    "zstd:3",
    "lz4",
    "blosc",
    "shuffle,zstd:1",
    "bitshuffle,lz4",
    "delta,zstd:1",
    "bytedelta,lz4",
    "isobar",
    "aplod:2,1,1",
    "alacrity",
    "multilevel",
    "pcodec",
    "bitround:12,shuffle,zstd:1",
    "lorenzo,shuffle,zstd:1",
    "mloc",
    "zfp",
];

#[test]
fn programs_give_what_ranges_give_for_every_codec_precision_and_selection() {
    let mut random = Random(3);
    let (mut tried, mut sent, mut refused) = (0, 0, Vec::new());
    for (scalar, transform) in [Scalar::F32, Scalar::F64, Scalar::I32]
        .into_iter()
        .flat_map(|scalar| TRANSFORMS.into_iter().map(move |transform| (scalar, transform)))
    {
        let dtype = DType::Scalar(scalar);
        let objects = Arc::new(MemoryStore::new());
        let chunks = (random.below(2) == 0).then(|| vec![10, 24, 15]);
        if std::panic::catch_unwind(|| written(&objects, &dtype, transform, chunks.clone())).is_err() {
            refused.push((scalar, transform));
            continue;
        }
        let keeper = Keeper::new(&objects, SOUND);
        let c = Container::open(keeper.clone(), Mode::Read).unwrap();
        for round in 0..12 {
            let selection =
                Selection { axes: [SHAPE[0] + 2, SHAPE[1], SHAPE[2]].map(|n| random.axis(n)).to_vec() };
            let precision = match round % 4 {
                0 | 1 => Precision::Exact,
                2 => Precision::Absolute(0.5),
                _ => Precision::Level(1 + random.below(2) as u32),
            };
            let told = format!("{scalar:?} {transform} {chunks:?} {precision:?} {selection:?}");
            let by_ranges = read_box(&c, &selection, precision, Programs::Never);
            let before = keeper.calls.load(Ordering::Relaxed);
            let there = read_box(&c, &selection, precision, Programs::Always);
            match (by_ranges, there) {
                (Ok((a, _)), Ok((b, _))) => assert_eq!(a, b, "{told}"),
                (a, b) => assert_eq!(a.is_err(), b.is_err(), "{told}: {a:?} {b:?}"),
            }
            sent += u64::from(keeper.calls.load(Ordering::Relaxed) > before);
            tried += 1;
        }
    }
    assert!(refused.len() < 6, "{refused:?}");
    assert!(sent * 10 >= tried * 9, "{sent} of {tried} reads sent a program");
}

#[test]
fn points_and_lists_are_gathered_at_the_store_too() {
    let mut random = Random(99);
    for transform in ["", "shuffle,zstd:1", "bzip2"] {
        let objects = Arc::new(MemoryStore::new());
        written(&objects, &f4(), transform, Some(vec![10, 24, 15]));
        let keeper = Keeper::new(&objects, SOUND);
        let c = Container::open(keeper.clone(), Mode::Read).unwrap();
        for _ in 0..10 {
            let cell = |random: &mut Random| SHAPE.map(|n| random.below(n));
            let many = 1 + random.below(40);
            let listing = Listing::points(3, (0..many).flat_map(|_| cell(&mut random)).collect());
            let by_ranges = read_listed(&c, &listing, Programs::Never).unwrap().0;
            assert_eq!(
                read_listed(&c, &listing, Programs::Always).unwrap().0,
                by_ranges,
                "{transform} {listing:?}"
            );
        }
        assert!(keeper.calls.load(Ordering::Relaxed) >= 10);
    }
}

#[test]
fn whatever_fails_values_are_those_of_ranges_and_one_warning_is_given() {
    for fails in SOUND..WAYS {
        let objects = Arc::new(MemoryStore::new());
        written(&objects, &f4(), "shuffle,zstd:1", Some(vec![10, 24, 15]));
        let keeper = Keeper::new(&objects, fails);
        let c = Container::open(keeper.clone(), Mode::Read).unwrap();
        let all = Selection {
            axes: vec![
                Axis { start: 0, step: 2, count: 10 },
                Axis { start: 0, step: 3, count: 8 },
                Axis { start: 1, step: 7, count: 4 },
            ],
        };
        let expected = read_box(&c, &all, Precision::Exact, Programs::Never).unwrap().0;
        for _ in 0..5 {
            assert_eq!(
                read_box(&c, &all, Precision::Exact, Programs::Always).unwrap().0,
                expected,
                "way {fails}"
            );
        }
        let warnings = c.take_warnings();
        let warns = matches!(fails, UNSUPPORTED | OLD | BROKEN);
        assert_eq!(warnings.len(), usize::from(warns), "way {fails}: {warnings:?}");
        assert!(warnings.iter().all(|warning| warning.contains("docs/guide/ceph.md")), "{warnings:?}");
    }
}

#[test]
fn the_reader_reports_damage_with_file_and_variable() {
    let objects = Arc::new(MemoryStore::new());
    written(&objects, &f4(), "", None);
    let segment = objects.list("log/").unwrap().into_iter().find(|e| e.key.ends_with(".seg")).unwrap();
    let mut bytes = objects.read_whole(&segment.key, 1 << 30).unwrap().unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    objects.put(&segment.key, &[&bytes], PutMode::Replace, false).unwrap();
    let c = Container::open(Keeper::new(&objects, SOUND), Mode::Read).unwrap();
    let all = Selection::all(&[SHAPE[0] + 2, SHAPE[1], SHAPE[2]]);
    let error = read_box(&c, &all, Precision::Exact, Programs::Always).unwrap_err();
    assert_eq!(error.kind(), drystone::ErrorKind::Corrupt);
    assert!(error.to_string().contains(&segment.key) && error.to_string().contains("\"t\""), "{error}");
}

#[test]
fn explain_states_programs_or_ranges_and_why() {
    let objects = Arc::new(MemoryStore::new());
    written(&objects, &f4(), "zstd:1", None);
    let c = Container::open(Keeper::new(&objects, SOUND), Mode::Read).unwrap();
    let selection = Selection {
        axes: vec![
            Axis { start: 0, step: 4, count: 5 },
            Axis { start: 0, step: 4, count: 6 },
            Axis { start: 0, step: 5, count: 6 },
        ],
    };
    let explain =
        |programs| c.reading("t", None).unwrap().with_programs(programs).explain(&selection).unwrap();
    let plan = explain(Programs::Always);
    assert!(plan.decisions.iter().all(|d| d.chosen) && !plan.decisions.is_empty());
    assert!(plan.to_string().contains(": read there; ranges: "), "{plan}");
    assert_eq!(explain(Programs::Auto).decisions.len(), 1);
    assert!(explain(Programs::Never).decisions.is_empty());
}

#[test]
fn a_field_of_three_moves_little_more_than_its_bytes() {
    let objects = Arc::new(MemoryStore::new());
    let c = Container::create(objects.clone(), CreateOptions::default()).unwrap();
    let n = 200_000u64;
    c.apply(vec![
        create("raw", f4(), &[n, 3], |_| {}),
        create("coded", f4(), &[n, 3], |v| v.transform = "shuffle,zstd:1".into()),
    ])
    .unwrap();
    let w = c
        .writer(WriterOptions { rank: Some((0, 1)), layout: BlockLayout::Log, ..Default::default() })
        .unwrap();
    let data = ramp_f32(3 * n as usize);
    w.put("raw", &f4(), &dense(&data, &[n, 3], 4), None, None).unwrap();
    w.put("coded", &f4(), &dense(&data, &[n, 3], 4), None, None).unwrap();
    w.close().unwrap();
    let keeper = Keeper::new(&objects, SOUND);
    let c = Container::open(keeper.clone(), Mode::Read).unwrap();
    for path in ["raw", "coded"] {
        let reading = c.reading(path, None).unwrap().with_programs(Programs::Always);
        let selection = Selection {
            axes: vec![Axis { start: 0, step: 1, count: n }, Axis { start: 1, step: 1, count: 1 }],
        };
        let mut out = vec![0; 4 * n as usize];
        let report = reading.read(&selection, &Target::dense(&mut out, &[n, 1], 4).unwrap()).unwrap();
        let wanted = 4 * n;
        assert_eq!(report.wanted_bytes, wanted);
        assert!(report.read_bytes <= wanted * 102 / 100, "{path}: {report:?}");
        assert_eq!(report.requests, 1);
        let expected: Vec<u8> = data.chunks_exact(12).flat_map(|r| r[4..8].to_vec()).collect();
        assert_eq!(out, expected);
    }
    assert!(keeper.programs.lock().unwrap().iter().all(|program| program.len() < 600));
}

#[test]
fn a_keeper_that_is_measured_slower_is_not_asked_to_read() {
    for (slow, is_chosen) in [(0, true), (400, false)] {
        let objects = Arc::new(MemoryStore::new());
        let c = Container::create(objects.clone(), CreateOptions::default()).unwrap();
        c.apply(vec![create("t", f4(), &[1 << 18, 4], |_| {})]).unwrap();
        let w = c.writer(WriterOptions { layout: BlockLayout::Log, ..Default::default() }).unwrap();
        w.put("t", &f4(), &dense(&ramp_f32(1 << 20), &[1 << 18, 4], 4), None, None).unwrap();
        w.close().unwrap();
        c.commit().unwrap();
        let keeper = Keeper::new(&objects, SOUND);
        let c = Container::open(keeper.clone(), Mode::Read).unwrap();
        keeper.link.store(50, Ordering::Relaxed);
        keeper.slow.store(slow, Ordering::Relaxed);
        let column = Selection {
            axes: vec![Axis { start: 0, step: 1, count: 1 << 18 }, Axis { start: 2, step: 1, count: 1 }],
        };
        read_box(&c, &column, Precision::Exact, Programs::Always).unwrap();
        let before = keeper.calls.load(Ordering::Relaxed);
        assert!(before > 0);
        read_box(&c, &column, Precision::Exact, Programs::Auto).unwrap();
        assert_eq!(keeper.calls.load(Ordering::Relaxed) > before, is_chosen, "{slow} ms");
    }
}
