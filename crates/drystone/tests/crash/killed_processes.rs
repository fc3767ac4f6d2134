//! Does a folder hold every promise that processes made before they were killed?
//!
//! This program runs itself again as writers and committers, which note each promise in a file after making it, and
//! kills them at random moments. A kill leaves everything that was written, so every promise must hold, under `async`
//! as under `durable`. `DRYSTONE_LONG=1`: 500 kills. Other tests here are about media that are full or read-only.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![cfg(unix)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, Mode, Writer, WriterOptions};

use crate::common::*;

const ROLE: &str = "DRYSTONE_TEST_ROLE";
const ROWS: u64 = 4;

fn long() -> bool {
    std::env::var_os("DRYSTONE_LONG").is_some()
}

/// Not a test: the program that the killed processes run.
#[test]
fn a_process_to_be_killed() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut words = role.split('|');
    let mut word = || words.next().unwrap().to_string();
    let (what, path, notes, number, of) = (word(), word(), word(), word(), word());
    let (number, of): (u32, u32) = (number.parse().unwrap(), of.parse().unwrap());
    let notes = Notes(OpenOptions::new().append(true).create(true).open(notes).unwrap());
    let c = Container::open(path, Mode::ReadWrite).unwrap();
    match what.as_str() {
        "rank" => write_steps(&c, Some((number, of)), &notes),
        "free" => write_steps(&c, None, &notes),
        "commit" => loop {
            let done = c.commit().unwrap();
            let steps = done.snapshot.steps.last().map_or(-1, |s| s as i64);
            notes.add(&format!("committed {} {steps}", done.snapshot.version()));
        },
        other => panic!("{other}"),
    }
}

/// Promises, one per line, each written at once: every line stands for a promise that was made.
struct Notes(File);

impl Notes {
    fn add(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    fn read(path: &Path) -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|l| l.split(' ').map(str::to_string).collect()).collect()
    }
}

/// The values of a row of a step.
fn row(step: u64, row: u64) -> Vec<u8> {
    bytes(&(0..500).map(|i| (step * 10_000 + row * 1000 + i) as f32).collect::<Vec<_>>())
}

fn write_steps(c: &Container, rank: Option<(u32, u32)>, notes: &Notes) {
    let w: Writer = c.writer(WriterOptions { rank, ..WriterOptions::default() }).unwrap();
    let (first, stride) = rank.unwrap_or((0, 1));
    let begin = c.snapshot().step_axis();
    for step in begin.. {
        w.begin_step(Some(step), false).unwrap();
        for y in (u64::from(first)..ROWS).step_by(stride as usize) {
            let data = row(step, y);
            w.put("raw", &f4(), &dense(&data, &[1, 500], 4), Some(&[y, 0]), None).unwrap();
            w.put("coded", &f4(), &dense(&data, &[1, 500], 4), Some(&[y, 0]), None).unwrap();
        }
        let done = w.end_step().unwrap();
        let (word, who) = if done.is_some() { ("visible", 0) } else { ("closed", first) };
        notes.add(&format!("{word} {step} {who}"));
    }
}

/// The file in which a process notes why it ended by itself, which no process should.
fn complaints(notes: &Path) -> PathBuf {
    notes.with_extension("complaints")
}

fn spawn(what: &str, path: &Path, notes: &Path, number: u32, of: u32) -> Child {
    let role = format!("{what}|{}|{}|{number}|{of}", path.display(), notes.display());
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_processes::a_process_to_be_killed", "--test-threads=1"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .stderr(OpenOptions::new().append(true).create(true).open(complaints(notes)).unwrap())
        .spawn()
        .unwrap()
}

fn setup(folder: &Path, durability: Durability) -> PathBuf {
    let path = folder.join("run.dry");
    let c = Container::create(&path, CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    c.apply(vec![
        create("raw", f4(), &[ROWS, 500], |v| v.steps = true),
        create("coded", f4(), &[ROWS, 500], |v| {
            v.steps = true;
            v.transform = "shuffle,zstd:1".into();
        }),
    ])
    .unwrap();
    path
}

/// Checks that every visible step from `from` on is complete and right. Returns the number of visible steps.
fn check_values(c: &Container, from: u64) -> u64 {
    let axis = c.snapshot().step_axis();
    assert_eq!(c.snapshot().steps.len(), axis, "steps have gaps");
    for step in from..axis {
        for path in ["raw", "coded"] {
            let found = read_box(c, path, &[step, 0, 0], &[1, ROWS, 500]);
            let expected: Vec<u8> = (0..ROWS).flat_map(|y| row(step, y)).collect();
            assert!(found == expected, "{path} at step {step} is not what was written");
        }
    }
    axis
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Starts processes, kills them all at a random time after their first promise, checks, recovers, and continues in
/// the same container.
fn kill_again_and_again(durability: Durability, team: &[(&str, u32, u32)], kills: u64, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = setup(folder.path(), durability);
    let mut dice = Dice(seed);
    let (mut known, mut promises) = (0, 0);
    for kill in 0..kills {
        let notes = folder.path().join(format!("notes-{kill}"));
        let mut processes: Vec<Child> =
            team.iter().map(|(what, number, of)| spawn(what, &path, &notes, *number, *of)).collect();
        let patience = Instant::now() + Duration::from_secs(120);
        while Notes::read(&notes).is_empty() {
            assert!(Instant::now() < patience, "nothing was promised in two minutes");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(dice.below(30_000)));
        while !processes.is_empty() {
            let mut victim = processes.remove(dice.below(processes.len() as u64) as usize);
            victim.kill().unwrap(); // SIGKILL
            let killed = victim.wait().unwrap().code().is_none();
            let why = std::fs::read_to_string(complaints(&notes)).unwrap_or_default();
            assert!(killed, "a process ended before it was killed: {why}");
            std::thread::sleep(Duration::from_micros(dice.below(3000)));
        }
        let c = Container::open(&path, Mode::ReadWrite).unwrap();
        assert_eq!(c.take_warnings(), Vec::<String>::new());
        let axis = check_values(&c, known);
        let nranks = team.iter().filter(|(what, _, _)| *what == "rank").map(|(_, _, of)| *of).max();
        let mut closed: std::collections::BTreeMap<u64, u32> = Default::default();
        for note in Notes::read(&notes) {
            promises += 1;
            match note[0].as_str() {
                "visible" => assert!(note[1].parse::<u64>().unwrap() < axis, "step {} is gone", note[1]),
                "committed" => {
                    assert!(
                        note[1].parse::<u64>().unwrap() <= c.snapshot().version(),
                        "commit {} is gone",
                        note[1]
                    );
                    assert!(note[2].parse::<i64>().unwrap() < axis as i64, "step {} is gone", note[2]);
                }
                "closed" => *closed.entry(note[1].parse().unwrap()).or_default() += 1,
                other => panic!("{other}"),
            }
        }
        let adopt = dice.below(3) > 0;
        let report = c.recover(&if adopt { Adopt::All } else { Adopt::None }, &[]).unwrap();
        known = check_values(&c, axis.min(known));
        if adopt {
            let wanted = nranks.unwrap_or(1);
            for (step, ranks) in closed {
                let there = ranks < wanted || c.snapshot().steps.contains(step);
                assert!(there, "step {step} was closed by all and not adopted: {report:?}");
            }
        } else {
            assert_eq!(known, axis, "{report:?}");
        }
    }
    println!("{kills} kills of {team:?} ({durability:?}): {promises} promises, {known} steps");
    let c = Container::open(&path, Mode::Read).unwrap();
    check_values(&c, 0);
    assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
}

fn kills(normal: u64, long_mode: u64) -> u64 {
    if long() { long_mode } else { normal }
}

#[test]
fn a_single_writer_is_killed_again_and_again() {
    kill_again_and_again(Durability::Async, &[("rank", 0, 1)], kills(6, 130), 1);
    kill_again_and_again(Durability::Durable, &[("rank", 0, 1)], kills(4, 120), 2);
}

#[test]
fn two_ranks_and_their_committer_are_killed_again_and_again() {
    let team = [("rank", 0, 2), ("rank", 1, 2), ("commit", 0, 0)];
    kill_again_and_again(Durability::Async, &team, kills(6, 130), 3);
    kill_again_and_again(Durability::Durable, &team, kills(3, 60), 4);
}

#[test]
fn a_writer_without_rank_and_two_committers_are_killed_again_and_again() {
    let team = [("free", 0, 1), ("commit", 0, 0), ("commit", 1, 0)];
    kill_again_and_again(Durability::Async, &team, kills(6, 130), 5);
}

/// A small file system, unmounted when dropped. `None`, with the reason printed, if mounting is not permitted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output();
        match done {
            Ok(done) if done.status.success() => Some(SmallDisk(folder)),
            Ok(done) => {
                println!("skipped: cannot mount a tmpfs: {}", String::from_utf8_lossy(&done.stderr).trim());
                None
            }
            Err(e) => {
                println!("skipped: cannot run mount: {e}");
                None
            }
        }
    }

    fn remount(&self, how: &str) -> bool {
        let path = self.0.path();
        Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(path)
            .status()
            .is_ok_and(|s| s.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    for durability in [Durability::Async, Durability::Durable] {
        let Some(disk) = SmallDisk::new("1m") else { return };
        let path = setup(disk.0.path(), durability);
        let c = Container::open(&path, Mode::ReadWrite).unwrap();
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        let mut visible = 0;
        let error = loop {
            let step = || {
                w.begin_step(None, false)?;
                for y in 0..ROWS {
                    for path in ["raw", "coded"] {
                        w.put(path, &f4(), &dense(&row(visible, y), &[1, 500], 4), Some(&[y, 0]), None)?;
                    }
                }
                w.end_step()
            };
            match step() {
                Ok(_) => visible += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("no space"), "{error}");
        assert!(visible > 5);
        let again = w.begin_step(None, false).err();
        if let Some(again) = again {
            assert!(again.to_string().contains("no space"), "the reason is not forgotten: {again}");
        }
        drop(w);
        let read = Container::open(&path, Mode::Read).unwrap();
        assert!(check_values(&read, 0) >= visible);
        // Once there is space again, the next run continues where this one stopped.
        assert!(disk.remount("size=64m"));
        let c = Container::open(&path, Mode::ReadWrite).unwrap();
        c.recover(&Adopt::All, &[]).unwrap();
        let steps = check_values(&c, 0);
        let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
        assert_eq!(w.begin_step(None, false).unwrap(), steps);
        w.abort_step().unwrap();
        assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
    }
}

#[test]
fn a_medium_that_cannot_be_written_to_can_be_read() {
    let Some(disk) = SmallDisk::new("4m") else { return };
    let path = setup(disk.0.path(), Durability::Async);
    assert!(disk.remount("ro"));
    let c = Container::open(&path, Mode::Read).unwrap();
    assert_eq!(check_values(&c, 0), 0);
    let error = Container::create(disk.0.path().join("other"), CreateOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let opened = Container::open(&path, Mode::ReadWrite);
    let error = opened.and_then(|c| c.apply(vec![create("more", f4(), &[1], |_| {})])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("run.dry"), "{error}");
    assert!(error.to_string().to_lowercase().contains("mounted for reading"), "{error}");
}
