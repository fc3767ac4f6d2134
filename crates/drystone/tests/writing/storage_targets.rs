//! Do log parts and shards lie on the given storage targets, and does every operation find them there?
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use drystone::{
    Adopt, Container, CreateOptions, GcOptions, Mode, OpenOptions, PublishOptions, Targets, WriterOptions,
};
use drystone_plan::layout::{Placement, Spread};

use crate::common::{create, dense, f4, ramp_f32, read_all};

const SHAPE: [u64; 2] = [64, 96];
const BLOCK: [u64; 2] = [16, 24];
const RANKS: u32 = 16;
const TARGETS: usize = 5;

fn folders(folder: &Path, many: usize) -> Vec<PathBuf> {
    (0..many).map(|n| folder.join(format!("disk{n}"))).collect()
}

/// Sixteen ranks in a grid of 4 x 4 put one block each at every step.
fn write(c: &Container, steps: std::ops::Range<u64>) {
    for step in steps {
        for rank in 0..RANKS {
            let options = WriterOptions { rank: Some((rank, RANKS)), ..WriterOptions::default() };
            let w = c.writer(options).unwrap();
            w.begin_step(Some(step), false).unwrap();
            let offset = [u64::from(rank / 4) * BLOCK[0], u64::from(rank % 4) * BLOCK[1]];
            let data: Vec<u8> = ramp_f32((BLOCK[0] * BLOCK[1]) as usize)
                .chunks(4)
                .flat_map(|b| {
                    (f32::from_le_bytes(b.try_into().unwrap()) + (1000 * rank) as f32 + step as f32)
                        .to_le_bytes()
                })
                .collect();
            w.put("t", &f4(), &dense(&data, &BLOCK, 4), Some(&offset), None).unwrap();
            w.end_step().unwrap();
            w.close().unwrap();
        }
        c.commit().unwrap();
    }
}

fn container(path: &Path, targets: &Targets) -> Container {
    let options = CreateOptions { targets: Some(targets.clone()), ..CreateOptions::default() };
    let c = Container::create(path, options).unwrap();
    c.apply(vec![create("t", f4(), &SHAPE, |v| v.steps = true)]).unwrap();
    c
}

fn publish(c: &Container) -> u64 {
    let chunks = BTreeMap::from([("t".to_owned(), vec![1, 16, 24])]);
    let options = PublishOptions { chunks, ..PublishOptions::default() };
    c.publish(&options, &mut |_, _| true).unwrap().arrays[0].written
}

/// The files below a folder, without those of the targets' own folders. Links are followed.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { out.push(path) }
        }
    }
    out.sort();
    out
}

fn on_targets(folder: &Path) -> Vec<usize> {
    folders(folder, TARGETS).iter().map(|target| files(target).len()).collect()
}

#[test]
fn each_process_writes_to_the_target_of_its_place_in_the_grid() {
    for (name, spread) in [("lattice", Spread::Lattice), ("hilbert", Spread::Hilbert)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.dry");
        let c = container(&path, &Targets::parse(folders(folder.path(), TARGETS), name).unwrap());
        write(&c, 0..1);
        let placement = Placement::new(&[4, 4], TARGETS as u64, spread).unwrap();
        for file in files(&path.join("log")).iter().filter(|f| f.extension().is_some_and(|e| e == "seg")) {
            let real = std::fs::read_link(file).unwrap();
            let bytes = std::fs::read(&real).unwrap();
            // The first value identifies the rank.
            let first = |rank: u32| ((1000 * rank) as f32).to_le_bytes();
            let rank = (0..RANKS).find(|&rank| {
                bytes
                    .windows(8)
                    .any(|w| w[..4] == first(rank) && w[4..] == ((1000 * rank + 1) as f32).to_le_bytes())
            });
            let rank = u64::from(rank.unwrap());
            let target = placement.of(&[rank / 4, rank % 4]);
            assert!(
                real.starts_with(folder.path().join(format!("disk{target}"))),
                "{name}: rank {rank}: {real:?}"
            );
        }
        assert_eq!(on_targets(folder.path()).iter().sum::<usize>(), RANKS as usize);
        assert_eq!(Container::targets(&path).unwrap().unwrap().1, name);
    }
}

#[test]
fn later_handles_write_publish_verify_and_collect_on_the_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    drop(container(&path, &Targets::parse(folders(folder.path(), TARGETS), "lattice").unwrap()));
    let c = Container::open(&path, Mode::ReadWrite).unwrap();
    write(&c, 0..2);
    assert!(publish(&c) >= 1);
    let before = read_all(&c, "t");
    // A publication replaces a shard: the file is a new one, and the previous one is gone.
    write(&c, 2..3);
    assert_eq!(publish(&c), 1);
    let shards: Vec<PathBuf> = files(&path.join("zarr/t/c"));
    assert!(shards.iter().all(|shard| std::fs::read_link(shard).is_ok()), "{shards:?}");
    let logs = 3 * RANKS as usize;
    assert_eq!(on_targets(folder.path()).iter().sum::<usize>(), logs + shards.len());
    assert!(on_targets(folder.path()).iter().all(|many| *many > 0));
    assert!(read_all(&c, "t").starts_with(&before));
    let report = c.verify(&mut |_, _| true).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    // Overwritten steps are collected, wherever their logs lie.
    for step in 0..3 {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(Some(step), true).unwrap();
        w.put("t", &f4(), &dense(&vec![0; 64 * 96 * 4], &SHAPE, 4), Some(&[0, 0]), None).unwrap();
        w.end_step().unwrap();
        w.close().unwrap();
        c.commit().unwrap();
    }
    c.gc(&GcOptions { keep: Some(1), ..GcOptions::default() }, &mut |_, _| true).unwrap();
    // The remaining short logs are packed, and packs lie in the container.
    assert_eq!(on_targets(folder.path()).iter().sum::<usize>(), shards.len());
    assert_eq!(
        files(&path.join("log")).iter().filter(|file| file.extension().is_some_and(|e| e == "pack")).count(),
        1
    );
    assert!(read_all(&c, "t").iter().all(|b| *b == 0));
}

#[test]
fn a_dead_run_is_recovered_from_its_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    let c = container(&path, &Targets::parse(folders(folder.path(), TARGETS), "lattice").unwrap());
    for rank in 0..2 {
        let options = WriterOptions { rank: Some((rank, 2)), ..WriterOptions::default() };
        let w = c.writer(options).unwrap();
        w.begin_step(Some(0), false).unwrap();
        let data = ramp_f32(32 * 96);
        w.put("t", &f4(), &dense(&data, &[32, 96], 4), Some(&[u64::from(rank) * 32, 0]), None).unwrap();
        w.end_step().unwrap();
        std::mem::forget(w);
    }
    drop(c);
    let c = Container::open(&path, Mode::ReadWrite).unwrap();
    let report = c.recover(&Adopt::All, &[]).unwrap();
    assert_eq!(report.adopted.len(), 1);
    assert_eq!(read_all(&c, "t"), [ramp_f32(32 * 96), ramp_f32(32 * 96)].concat());
}

#[test]
fn a_target_that_is_gone_is_named_and_others_may_take_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    let c = container(&path, &Targets::parse(folders(folder.path(), TARGETS), "lattice").unwrap());
    write(&c, 0..1);
    publish(&c);
    drop(c);
    let lost = folder.path().join("disk0");
    std::fs::rename(&lost, folder.path().join("aside")).unwrap();
    let error = Container::open(&path, Mode::ReadWrite).err().unwrap();
    assert!(error.to_string().contains(lost.to_str().unwrap()), "{error}");
    assert!(error.to_string().contains("mounted"), "{error}");
    assert!(!lost.exists(), "a target that is not there is not made anew");
    // New objects go elsewhere from now on; existing ones are found where they are.
    std::fs::rename(folder.path().join("aside"), &lost).unwrap();
    let others = Targets::parse(vec![folder.path().join("new")], "hilbert").unwrap();
    let with_others = |mode: Mode| OpenOptions { targets: Some(others.clone()), ..mode.into() };
    let c = Container::open(&path, with_others(Mode::ReadWrite)).unwrap();
    write(&c, 1..2);
    assert_eq!(files(&folder.path().join("new")).len(), RANKS as usize);
    assert_eq!(read_all(&c, "t").len(), 2 * 64 * 96 * 4);
    assert!(Container::open(&path, with_others(Mode::Read)).is_err());
}

#[test]
fn remains_of_a_killed_publication_on_a_target_are_swept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dry");
    let c = container(&path, &Targets::parse(folders(folder.path(), TARGETS), "lattice").unwrap());
    write(&c, 0..1);
    publish(&c);
    let own = files(&folder.path().join("disk1")).remove(0);
    let own = own
        .ancestors()
        .find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("run.dry-")))
        .unwrap()
        .to_owned();
    let orphan = own.join("zarr/t/c/0/0/0~1-2-3");
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "half").unwrap();
    let before = read_all(&c, "t");
    publish(&c);
    assert!(!orphan.exists());
    assert!(read_all(&c, "t") == before);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}
