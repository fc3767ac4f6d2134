//! Is a loss without a power cut distinguished from a loss by a power cut?
//!
//! Containers lie in real folders, where manifests name the boot. `reboot` changes the recorded boot, as if the bytes
//! had been written in another one.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drystone::{Adopt, Container, CreateOptions, ErrorKind, Mode, OpenOptions, WriterOptions};
use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::log::FileHeader;
use drystone_format::manifest::Manifest;
use drystone_store::{LocalFiles, LocalStore, Result as Stored, Store};

use crate::common::{dense, f4, ramp_f32, read_all};

fn names_boots() -> bool {
    Path::new("/proc/sys/kernel/random/boot_id").exists()
}

fn of(folder: &Path, part: &str, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join(part)).unwrap().map(|entry| entry.unwrap().path());
    let mut out: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    out.sort();
    out
}

fn manifests(folder: &Path) -> Vec<(PathBuf, Manifest)> {
    let read = |path: PathBuf| (path.clone(), Manifest::decode(&fs::read(path).unwrap()).unwrap());
    of(folder, "manifest", ".dsm").into_iter().map(read).collect()
}

/// Rewrites the manifest; the bytes before it stay as they are.
fn rewrite(path: &Path, manifest: &Manifest) {
    let bytes = fs::read(path).unwrap();
    let (mut at, mut ordinal) = (0, 0);
    while let Next::Frame { header, end, .. } = frame::next(&bytes, at, ordinal) {
        if header.kind == FrameKind::Manifest {
            break;
        }
        (at, ordinal) = (end, ordinal + 1);
    }
    fs::write(path, manifest.encode_after(bytes[..at as usize].to_vec(), ordinal).unwrap()).unwrap();
}

fn reboot(folder: &Path) {
    for (path, mut manifest) in manifests(folder) {
        manifest.boot = manifest.boot.map(|_| "another boot of the machine".into());
        rewrite(&path, &manifest);
    }
}

fn step(c: &Container, step: u64) {
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
    w.begin_step(Some(step), false).unwrap();
    w.put("t", &f4(), &dense(&ramp_f32(32), &[4, 8], 4), None, None).unwrap();
    w.end_step().unwrap();
    w.close().unwrap();
}

fn container(folder: &Path) -> Container {
    let c = Container::create(folder, CreateOptions::default()).unwrap();
    c.apply(vec![crate::common::create("t", f4(), &[4, 8], |v| v.steps = true)]).unwrap();
    step(&c, 0);
    step(&c, 1);
    c
}

#[test]
fn manifests_name_the_boot_within_which_everything_unflushed_was_written() {
    if !names_boots() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let c = container(folder.path());
    let boot = manifests(folder.path())[0].1.boot.clone();
    assert!(boot.is_some() && manifests(folder.path()).iter().all(|(_, m)| m.boot == boot));
    // After a reboot, older bytes are not of this boot until they are flushed.
    drop(c);
    reboot(folder.path());
    let c = Container::open(folder.path(), Mode::ReadWrite).unwrap();
    step(&c, 2);
    assert_eq!(manifests(folder.path()).last().unwrap().1.boot, None);
    c.flush().unwrap();
    step(&c, 3);
    assert_eq!(manifests(folder.path()).last().unwrap().1.boot, boot);
    // A log states the snapshot on which it was begun.
    let headers = of(folder.path(), "log", ".idx").into_iter().map(|path| {
        let bytes = fs::read(path).unwrap();
        let Next::Frame { payload, .. } = frame::next(&bytes, 0, 0) else { panic!("no header") };
        FileHeader::decode(payload).unwrap().base
    });
    let mut bases: Vec<u64> = headers.collect();
    bases.sort_unstable();
    assert_eq!(bases, [1, 2, 3, 4]);
}

#[test]
fn a_lost_segment_of_this_boot_fails_the_reads_that_need_it_and_nothing_falls_back() {
    if !names_boots() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let version = container(folder.path()).snapshot().version();
    let lost = of(folder.path(), "log", ".seg").remove(0);
    let bytes = fs::read(&lost).unwrap();
    let name = lost.file_name().unwrap().to_str().unwrap().to_owned();
    for cut in [None, Some(0), Some(bytes.len() / 2)] {
        match cut {
            None => fs::remove_file(&lost).unwrap(),
            Some(len) => fs::write(&lost, &bytes[..len]).unwrap(),
        }
        let c = Container::open(folder.path(), Mode::Read).unwrap();
        assert_eq!(c.snapshot().version(), version, "{cut:?}");
        assert!(c.take_warnings()[0].contains(&name));
        assert!(c.lost().unwrap().iter().any(|d| d.key.contains(&name)), "{cut:?}");
        let report = c.verify(&mut |_, _| true).unwrap();
        assert!(report.damage.iter().any(|d| d.message.contains(&name)), "{cut:?}: {report:?}");
        fs::write(&lost, &bytes).unwrap();
    }
    let c = Container::open(folder.path(), Mode::Read).unwrap();
    assert!(c.take_warnings().is_empty() && c.lost().unwrap().is_empty());
    assert_eq!(read_all(&c, "t").len(), 2 * 32 * 4);
}

#[test]
fn the_same_loss_in_another_boot_is_passed_over_and_nothing_is_committed_before_a_recovery() {
    let folder = tempfile::tempdir().unwrap();
    let version = container(folder.path()).snapshot().version();
    reboot(folder.path());
    let newest = Container::open(folder.path(), Mode::Read).unwrap();
    assert_eq!(newest.snapshot().version(), version);
    for path in of(folder.path(), "log", ".seg") {
        fs::remove_file(path).unwrap();
    }
    let c = Container::open(folder.path(), Mode::ReadWrite).unwrap();
    assert!(c.snapshot().version() < version);
    let warnings = c.take_warnings().join("; ");
    assert!(warnings.contains("steps 0..1 cannot be seen"), "{warnings}");
    let refused = [
        c.apply(vec![crate::common::create("u", f4(), &[2], |_| {})]).err(),
        c.commit().err(),
        c.flush().err(),
        c.begin_batch().err(),
        c.writer(WriterOptions::default()).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("recover()"), "{error}");
    }
    let report = c.recover(&Adopt::All, &[]).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("steps 0..1")), "{:?}", report.notes);
    step(&c, 0);
    drop(c);
    let c = Container::open(folder.path(), Mode::Read).unwrap();
    assert!(c.take_warnings().is_empty() && c.lost().unwrap().is_empty());
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

#[test]
fn a_newest_manifest_that_this_boot_lost_refuses_readers_and_waits_for_a_recovery() {
    if !names_boots() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    drop(container(folder.path()));
    let newest = of(folder.path(), "manifest", ".dsm").pop().unwrap();
    fs::write(&newest, b"DRYF and then nothing that is a frame").unwrap();
    let error = Container::open(folder.path(), Mode::Read).err().unwrap();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("recover()"), "{error}");
    let damaged = OpenOptions { damaged: true, ..Mode::Read.into() };
    assert!(Container::open(folder.path(), damaged).unwrap().snapshot().version() > 0);
    let c = Container::open(folder.path(), Mode::ReadWrite).unwrap();
    assert_eq!(c.commit().err().unwrap().kind(), ErrorKind::Corrupt);
    // The group in the log is adopted again.
    assert_eq!(c.recover(&Adopt::All, &[]).unwrap().adopted, [1]);
    assert_eq!(read_all(&Container::open(folder.path(), Mode::Read).unwrap(), "t").len(), 256);
}

/// A store that cannot watch an object.
#[derive(Debug)]
struct Unwatched(LocalStore);

impl Store for Unwatched {
    drystone_store::forward! {
        0 =>
        features, describe, device, read_whole, len, read, append, write_at, put, upload, list,
        delete, sweep, sync, exec, submit
    }

    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
    fn watch(&self, _key: &str) -> Stored<bool> {
        Ok(false)
    }
    fn unchanged(&self) -> Stored<()> {
        Ok(())
    }
}

#[test]
fn on_a_store_that_does_not_watch_the_engine_compares_the_uuid() {
    let folder = tempfile::tempdir().unwrap();
    drop(container(folder.path()));
    for watches in [true, false] {
        let local = LocalStore::open(folder.path(), false).unwrap();
        let store: Arc<dyn Store> = if watches { Arc::new(local) } else { Arc::new(Unwatched(local)) };
        let c = Container::open(store, Mode::ReadWrite).unwrap();
        let identity = folder.path().join("drystone.json");
        let kept = fs::read(&identity).unwrap();
        fs::remove_file(&identity).unwrap();
        assert_eq!(c.refresh().err().unwrap().kind(), ErrorKind::NotFound);
        let other = tempfile::tempdir().unwrap();
        drop(Container::create(other.path(), CreateOptions::default()).unwrap());
        fs::copy(other.path().join("drystone.json"), &identity).unwrap();
        assert_eq!(c.refresh().err().unwrap().kind(), ErrorKind::Conflict);
        let before = of(folder.path(), "manifest", "").len();
        assert_eq!(c.commit().err().unwrap().kind(), ErrorKind::Conflict);
        drop(c);
        assert_eq!(of(folder.path(), "manifest", "").len(), before);
        fs::write(&identity, kept).unwrap();
    }
}
