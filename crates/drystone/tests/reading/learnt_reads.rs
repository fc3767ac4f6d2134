//! Do observed reads shape later blocks, and does learning never harm a read?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::sync::Arc;

use drystone::{Container, CreateOptions, Mode, PublishOptions, Wanted, WriterOptions};
use drystone_format::{keys, reads};
use drystone_plan::layout::PRIOR;
use drystone_plan::listing::Listing;
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{LocalStore, MemoryStore, PutMode, Store, StoreExt};

use crate::common::{create, dense, f4, ramp_f32, read};

const EDGE: u64 = 64;

fn with_cube(store: Arc<dyn Store>) -> Container {
    let c = Container::create(store, CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[EDGE, EDGE, EDGE], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let data = ramp_f32((EDGE * EDGE * EDGE) as usize);
    w.put("t", &f4(), &dense(&data, &[EDGE; 3], 4), Some(&[0, 0, 0]), None).unwrap();
    w.close().unwrap();
    c
}

fn planes(c: &Container, times: u64) {
    for z in 0..times {
        read(c, "t", &Selection::boxed(&[z % EDGE, 0, 0], &[1, EDGE, EDGE])).unwrap();
    }
}

fn reopened(store: &Arc<MemoryStore>, mode: Mode) -> Container {
    Container::open(store.clone(), mode).unwrap()
}

#[test]
fn blocks_and_chunks_are_shaped_for_the_reads_that_were_made() {
    let store = Arc::new(MemoryStore::new());
    let c = with_cube(store.clone());
    assert_eq!(c.cut_of("t", &[512, 512, 512]).unwrap().1, "default mix (none declared)");
    planes(&c, 40);
    // Every second cell: it counts by the extent that it spans.
    let strided = [Axis { start: 1, step: 1, count: 1 }, Axis { start: 0, step: 2, count: EDGE / 2 }];
    let axes = vec![strided[0], strided[1], Axis { start: 0, step: 1, count: EDGE }];
    read(&c, "t", &Selection { axes }).unwrap();
    c.close();
    let c = reopened(&store, Mode::ReadWrite);
    assert_eq!(c.learnt_reads("t").unwrap(), [(41, vec![1, 0, 0])]);
    let (cut, from) = c.cut_of("t", &[512, 512, 512]).unwrap();
    assert!(from.contains("learnt from 41"), "{from}");
    assert!(cut.to_string().contains("seen: 1 x all x all"), "{cut}");
    let report = c.publish(&PublishOptions::default(), &mut |_, _| true).unwrap();
    let why = report.arrays[0].layout.as_ref().unwrap().to_string();
    assert!(why.contains("seen: 1 x all x all"), "{why}");
    // Reads by publishing are not counted.
    drop(c);
    assert_eq!(reopened(&store, Mode::Read).learnt_reads("t").unwrap(), [(41, vec![1, 0, 0])]);
}

#[test]
fn listed_cells_and_planned_reads_count_too() {
    let store = Arc::new(MemoryStore::new());
    let c = with_cube(store.clone());
    let reading = c.reading("t", None).unwrap();
    let points: Vec<u64> = (0..30).flat_map(|i| [i, i * 2, i]).collect();
    let listing = Listing::points(3, points);
    let mut out = vec![0; 30 * 4];
    let target = drystone::array::Target::dense(&mut out, &[30], 4).unwrap();
    reading.read(&listing, &target).unwrap();
    let planned = reading.planned(Wanted::Box(Selection::boxed(&[0, 0, 0], &[20, 20, 20]))).unwrap();
    let mut cube = vec![0; 8000 * 4];
    for _ in 0..7 {
        let target = drystone::array::Target::dense(&mut cube, &[20, 20, 20], 4).unwrap();
        planned.read(&target).unwrap();
    }
    drop((planned, reading, c));
    let c = reopened(&store, Mode::Read);
    assert_eq!(c.learnt_reads("t").unwrap(), [(30, vec![1, 1, 1]), (7, vec![16, 16, 16])]);
}

#[test]
fn few_reads_and_readers_write_nothing() {
    let store = Arc::new(MemoryStore::new());
    let c = with_cube(store.clone());
    planes(&c, PRIOR - 1);
    c.close();
    drop(c);
    let c = reopened(&store, Mode::Read);
    planes(&c, 100);
    drop(c);
    assert!(!store.exists(keys::READS).unwrap());
}

#[test]
fn observations_that_cannot_be_stored_or_parsed_do_no_harm() {
    let store = Arc::new(MemoryStore::new());
    drop(with_cube(store.clone()));
    for bad in [&b"nonsense"[..], &[], &[0xff; 4000]] {
        store.put(keys::READS, &[bad], PutMode::Replace, false).unwrap();
        let c = reopened(&store, Mode::ReadWrite);
        assert_eq!(c.cut_of("t", &[512, 512, 512]).unwrap().1, "default mix (none declared)");
        planes(&c, 30);
        drop(c);
        assert_eq!(reopened(&store, Mode::Read).learnt_reads("t").unwrap(), [(30, vec![1, 0, 0])]);
    }
    // The folder is gone when the handle ends.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    let c = with_cube(Arc::new(LocalStore::create(&path).unwrap()));
    planes(&c, 30);
    std::fs::remove_dir_all(&path).unwrap();
    drop(c);
    assert!(!path.exists());
}

#[test]
fn a_configuration_switches_it_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    let configured = |learn: &str| std::fs::write(folder.path().join("drystone.toml"), learn).unwrap();
    let open = |path: &Path| Container::open(path, Mode::ReadWrite).unwrap();
    drop(with_cube(Arc::new(LocalStore::create(&path).unwrap())));
    configured("learn = false\n");
    let c = open(&path);
    planes(&c, 30);
    drop(c);
    assert!(!path.join(keys::READS).exists());
    configured("learn = true\n");
    let c = open(&path);
    planes(&c, 30);
    drop(c);
    assert!(reads::decode(&std::fs::read(path.join(keys::READS)).unwrap()).is_ok());
    assert_eq!(open(&path).learnt_reads("t").unwrap(), [(30, vec![1, 0, 0])]);
    configured("learn = false\n");
    assert_eq!(open(&path).learnt_reads("t").unwrap(), []);
}
