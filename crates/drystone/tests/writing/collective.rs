//! Ranks that write together: every put is stored, whichever rank wrote it, and a failure of one rank is an error of
//! all, never a hang.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::ranks::program;
use drystone::array::{Source, Target};
use drystone::collective::{Call, Communicator, Readers, Team, TeamWriterOptions};
use drystone::{Container, CreateOptions, Durability, Error, ErrorKind, Mode, NewVariable, Result, SchemaOp};
use drystone_format::dtype::{DType, Scalar};
use drystone_format::schema::Attrs;
use drystone_plan::selection::{Axis, Selection};

/// Counts the rounds of one rank. When rank 0 reports a commit, in the second exchange of a step, this communicator
/// hides the manifest until all ranks have continued.
struct Counting {
    inner: Arc<dyn Communicator>,
    container: std::path::PathBuf,
    /// For each all-gather the bytes that each rank sent, and the number of exchanges.
    rounds: Mutex<(Vec<usize>, usize)>,
    hidden: Mutex<Option<std::path::PathBuf>>,
}

impl Communicator for Counting {
    fn rank(&self) -> u32 {
        self.inner.rank()
    }
    fn size(&self) -> u32 {
        self.inner.size()
    }
    fn node(&self) -> u64 {
        self.inner.node()
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.rounds.lock().unwrap().0.push(send.len());
        self.inner.all_gather(send, receive)?;
        if let Some(manifest) = self.hidden.lock().unwrap().take() {
            std::fs::rename(manifest.with_extension("hidden"), manifest).unwrap();
        }
        Ok(())
    }
    fn exchange(&self, send: &[u8], to: &[u64], receive: &mut [u8], from: &[u64]) -> Result<()> {
        let exchanges = &mut self.rounds.lock().unwrap().1;
        *exchanges += 1;
        if self.rank() == 0 && *exchanges == 2 {
            let files = std::fs::read_dir(self.container.join("manifest")).unwrap();
            let manifests = files.map(|file| file.unwrap().path());
            let newest = manifests.filter(|file| file.extension().is_some_and(|e| e == "dsm")).max().unwrap();
            std::fs::rename(&newest, newest.with_extension("hidden")).unwrap();
            *self.hidden.lock().unwrap() = Some(newest);
        }
        self.inner.exchange(send, to, receive, from)
    }
}

const F64: DType = DType::Scalar(Scalar::F64);

fn variable(shape: &[u64], steps: bool, local: bool) -> NewVariable {
    NewVariable {
        dtype: F64,
        shape: shape.iter().map(|n| Some(*n)).collect(),
        dims: Vec::new(),
        steps,
        local,
        transform: String::new(),
        chunks: None,
        access: String::new(),
        meaning: None,
        fill: None,
        attrs: Attrs::new(),
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Rank 0 creates the variables, and all ranks see them.
fn begin(path: &Path, communicator: Arc<dyn Communicator>, cells: u64) -> Team {
    begin_as(path, communicator, cells, Durability::Async)
}

fn begin_as(path: &Path, communicator: Arc<dyn Communicator>, cells: u64, durability: Durability) -> Team {
    let team =
        Team::create(path, CreateOptions { durability, ..CreateOptions::default() }, communicator).unwrap();
    let made = match team.rank() {
        0 => team
            .container()
            .apply(vec![
                SchemaOp::CreateVariable("u".into(), Box::new(variable(&[4, cells], true, false))),
                SchemaOp::CreateVariable("mine".into(), Box::new(variable(&[], true, true))),
                SchemaOp::CreateVariable("once".into(), Box::new(variable(&[cells], false, false))),
            ])
            .map(|_| ()),
        _ => Ok(()),
    };
    team.agree(made).unwrap();
    team
}

/// The column of a rank: four rows, one cell each.
fn column(step: u64, rank: u32) -> Vec<u8> {
    bytes(&[0.0, 1.0, 2.0, 3.0].map(|row| 1000.0 * step as f64 + 100.0 * row + f64::from(rank)))
}

fn read(container: &Container, step: u64, cells: u64) -> Vec<f64> {
    let reading = container.reading("u", None).unwrap();
    let mut out = vec![0; 32 * cells as usize];
    let selection = Selection::boxed(&[step, 0, 0], &[1, 4, cells]);
    reading.read(&selection, &Target::dense(&mut out, &[1, 4, cells], 8).unwrap()).unwrap();
    out.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn logs(path: &Path) -> usize {
    std::fs::read_dir(path.join("log"))
        .unwrap()
        .filter(|f| f.as_ref().unwrap().path().extension().unwrap() == "seg")
        .count()
}

#[test]
fn small_blocks_of_many_ranks_are_written_by_few_and_read_as_they_were_put() {
    let folder = tempfile::tempdir().unwrap();
    for (writers, files) in [(None, 1), (Some(3), 3), (Some(7), 7)] {
        let path = folder.path().join(format!("{files}.dry"));
        program(7, |communicator| {
            let team = begin(&path, communicator, 7);
            let writer = team.writer(TeamWriterOptions { writers }).unwrap();
            for step in 0..3 {
                assert_eq!(writer.begin_step(None, false).unwrap(), step);
                let data = column(step, team.rank());
                let source = Source::dense(&data, &[4, 1], 8).unwrap();
                writer.put("/u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
                let version = writer.end_step().unwrap();
                assert_eq!(version, team.container().snapshot().version());
                assert_eq!(team.container().snapshot().steps.last(), Some(step));
            }
            writer.close().unwrap();
        });
        let container = Container::open(&path, Mode::Read).unwrap();
        for step in 0..3 {
            let expected: Vec<f64> =
                (0..28).map(|i| 1000.0 * step as f64 + 100.0 * f64::from(i / 7) + f64::from(i % 7)).collect();
            assert_eq!(read(&container, step, 7), expected);
        }
        assert_eq!(logs(&path), files);
        // Columns side by side were joined into one block per rank that wrote.
        assert_eq!(container.reading("u", None).unwrap().blocks(Some(2)).unwrap().len(), files);
    }
}

/// A step of small blocks costs mostly rounds of messages and requests to the file system, so rounds are counted. If
/// one rank writes, there are two all-gathers of 36 bytes per rank, and two exchanges; if several ranks write, one
/// more. The manifest is hidden when rank 0 reports it, to show that the other ranks do not open it.
#[test]
fn a_step_takes_few_rounds_and_sends_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    for (writers, expected) in [(1, (vec![36; 2], 2)), (3, (vec![36; 3], 2))] {
        let path = folder.path().join(format!("{writers}.dry"));
        program(4, |inner| {
            let (rounds, hidden) = Default::default();
            let counting = Arc::new(Counting { inner, container: path.clone(), rounds, hidden });
            let team = begin(&path, counting.clone(), 4);
            let writer = team.writer(TeamWriterOptions { writers: Some(writers) }).unwrap();
            for step in 0..6 {
                *counting.rounds.lock().unwrap() = Default::default();
                writer.begin_step(None, false).unwrap();
                let data = column(step, team.rank());
                let source = Source::dense(&data, &[4, 1], 8).unwrap();
                writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
                let version = writer.end_step().unwrap();
                assert_eq!(*counting.rounds.lock().unwrap(), expected);
                let snapshot = team.container().snapshot();
                assert_eq!((snapshot.version(), snapshot.steps.last()), (version, Some(step)));
            }
            writer.close().unwrap();
        });
        assert_eq!(read(&Container::open(&path, Mode::Read).unwrap(), 5, 4)[..2], [5000.0, 5001.0]);
    }
}

/// A schema in the manifest makes it longer than the message of rank 0, so the other ranks read the manifest.
#[test]
fn a_manifest_too_long_to_be_sent_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.dry");
    program(3, |communicator| {
        let team = begin(&path, communicator, 3);
        let many = (0..50)
            .map(|i| SchemaOp::CreateVariable(format!("{i:090}"), Box::new(variable(&[], true, false))));
        let made = if team.rank() == 0 { team.container().apply(many.collect()).map(|_| ()) } else { Ok(()) };
        team.agree(made).unwrap();
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        for step in 0..3 {
            writer.begin_step(Some(step), false).unwrap();
            let data = column(step, team.rank());
            let source = Source::dense(&data, &[4, 1], 8).unwrap();
            writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
            let version = writer.end_step().unwrap();
            let snapshot = team.container().snapshot();
            assert_eq!((snapshot.version(), snapshot.steps.last()), (version, Some(step)));
        }
        writer.close().unwrap();
        let manifest = path.join(format!("manifest/{:012}.dsm", team.container().snapshot().version()));
        let long = std::fs::metadata(manifest).unwrap().len();
        assert!((5000..9000).contains(&long), "{long}");
    });
}

#[test]
fn large_blocks_are_written_by_each_rank_and_steps_may_change_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.dry");
    let cells = 600_000; // four rows of one rank's half are 9.6 MB
    program(2, |communicator| {
        let team = begin(&path, communicator, cells);
        let rank = u64::from(team.rank());
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        let large = bytes(&vec![rank as f64 + 1.0; 4 * cells as usize / 2]);
        for step in 0..4 {
            writer.begin_step(Some(step), false).unwrap();
            if step % 2 == 0 {
                let source = Source::dense(&large, &[4, cells / 2], 8).unwrap();
                writer.put("u", &F64, &source, Some(&[0, rank * cells / 2]), None).unwrap();
            } else {
                let data = column(step, team.rank());
                writer
                    .put("u", &F64, &Source::dense(&data, &[4, 1], 8).unwrap(), Some(&[0, rank]), None)
                    .unwrap();
            }
            writer.end_step().unwrap();
        }
        writer.close().unwrap();
    });
    let container = Container::open(&path, Mode::Read).unwrap();
    let found = read(&container, 2, cells);
    assert!(found[..300_000].iter().all(|v| *v == 1.0) && found[300_000..600_000].iter().all(|v| *v == 2.0));
    assert_eq!(read(&container, 3, cells)[..2], [3000.0, 3001.0]);
    assert!(container.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

#[test]
fn values_of_a_rank_stay_its_own_and_overlaps_show_the_later_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("local.dry");
    program(4, |communicator| {
        let team = begin(&path, communicator, 5);
        let rank = u64::from(team.rank());
        let writer = team.writer(TeamWriterOptions { writers: Some(2) }).unwrap();
        writer
            .put("once", &F64, &Source::dense(&bytes(&[rank as f64]), &[1], 8).unwrap(), Some(&[rank]), None)
            .unwrap();
        for step in 0..2 {
            writer.begin_step(None, false).unwrap();
            // Each rank puts two columns. The next rank covers the second one.
            let two = bytes(&[rank as f64; 8]);
            writer.put("u", &F64, &Source::dense(&two, &[4, 2], 8).unwrap(), Some(&[0, rank]), None).unwrap();
            if step == 1 {
                let own = bytes(&[10.0 + rank as f64]);
                writer.put("mine", &F64, &Source::dense(&own, &[], 8).unwrap(), None, None).unwrap();
            }
            writer.end_step().unwrap();
        }
        writer.close().unwrap();
    });
    let container = Container::open(&path, Mode::Read).unwrap();
    for step in 0..2 {
        assert_eq!(read(&container, step, 5)[..5], [0.0, 1.0, 2.0, 3.0, 3.0]);
    }
    assert_eq!(container.reading("mine", None).unwrap().blocks(Some(1)).unwrap().len(), 4);
    let mut out = vec![0; 32];
    let once = container.reading("once", None).unwrap();
    once.read(&Selection::boxed(&[0], &[4]), &Target::dense(&mut out, &[4], 8).unwrap()).unwrap();
    assert_eq!(out, bytes(&[0.0, 1.0, 2.0, 3.0]));
}

#[test]
fn a_failure_of_one_rank_is_an_error_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fails.dry");
    let said = program(3, |communicator| {
        let team = begin(&path, communicator, 3);
        let failed =
            if team.rank() == 1 { Err(Error::new(ErrorKind::Io, "the disk is gone")) } else { Ok(()) };
        let told = team.agree(failed).unwrap_err();
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        // Different steps, calls in different order, and a failed put after which the step is dropped.
        let different = writer.begin_step(Some(team.rank().into()), false).unwrap_err();
        assert_eq!(different.kind(), ErrorKind::InvalidArgument);
        let order = match team.rank() {
            0 => writer.begin_step(None, false).map(|_| ()),
            _ => team.agree(Ok(())),
        };
        assert!(order.unwrap_err().to_string().contains("in one order"));
        writer.begin_step(Some(5), false).unwrap();
        let data = column(0, team.rank());
        let source = Source::dense(&data, &[4, 1], 8).unwrap();
        assert!(writer.put("u", &F64, &source, Some(&[0, 9]), None).is_err());
        writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
        writer.abort_step().unwrap();
        assert!(writer.end_step().is_err());
        writer.begin_step(Some(6), false).unwrap();
        assert_eq!(writer.close().unwrap_err().kind(), ErrorKind::InvalidArgument);
        (told.kind(), told.to_string())
    });
    assert!(said.iter().all(|(kind, text)| *kind == ErrorKind::Io && text.contains("the disk is gone")));
    assert!(said[0].1.contains("on rank 1 of 3"));
    assert_eq!(Container::open(&path, Mode::Read).unwrap().snapshot().steps.last(), None);
    let nowhere = folder.path().join("nowhere.dry");
    for failed in program(3, |communicator| Team::open(&nowhere, Mode::Read, communicator).err()) {
        assert_eq!(failed.unwrap().kind(), ErrorKind::NotFound);
    }
    for failed in program(2, |c| Team::create(&path, CreateOptions::default(), c).err()) {
        assert_eq!(failed.unwrap().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn a_rank_that_closes_out_of_order_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("parted.dry");
    let said = program(3, |communicator| {
        let team = begin(&path, communicator, 3);
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        writer.begin_step(Some(0), false).unwrap();
        let out_of_order = match team.rank() {
            2 => writer.close().unwrap_err(),
            _ => writer.end_step().map(drop).unwrap_err(),
        };
        assert!(writer.begin_step(Some(1), false).is_err());
        let closed = writer.close();
        assert!(closed.is_ok() || closed.unwrap_err().to_string().contains("blocks are dropped"));
        // A writer that is opened now is another one.
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        writer.begin_step(Some(1), false).unwrap();
        let declined = match team.rank() {
            1 => writer.declined(Call::EndStep, Error::new(ErrorKind::InvalidArgument, "no such level")),
            _ => writer.end_step().map(drop).unwrap_err(),
        };
        assert!(declined.to_string().contains("no such level"));
        writer.end_step().unwrap();
        writer.close().unwrap();
        out_of_order.to_string()
    });
    assert!(said.iter().any(|text| text.contains("in one order")), "{said:?}");
    assert_eq!(Container::open(&path, Mode::Read).unwrap().snapshot().steps.last(), Some(1));
}

#[test]
fn a_writer_that_loses_its_log_fails_the_step_for_all_and_a_recovery_continues() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taken.dry");
    program(4, |communicator| {
        let team = begin(&path, communicator, 4);
        let writer = team.writer(TeamWriterOptions { writers: Some(2) }).unwrap();
        writer.begin_step(None, false).unwrap();
        let data = column(0, team.rank());
        let source = Source::dense(&data, &[4, 1], 8).unwrap();
        let place = [0, u64::from(team.rank())];
        writer.put("u", &F64, &source, Some(&place), None).unwrap();
        team.agree(Ok(())).unwrap();
        if team.rank() == 3 {
            // The folder of logs becomes a file, so no writer can begin.
            let _ = std::fs::remove_dir_all(path.join("log"));
            std::fs::write(path.join("log"), b"").unwrap();
        }
        team.agree(Ok(())).unwrap();
        let failed = writer.end_step().unwrap_err();
        assert!(writer.begin_step(None, false).unwrap_err().to_string().contains("earlier step"), "{failed}");
        let _ = writer.close();
        let settled = match team.rank() {
            0 => std::fs::remove_file(path.join("log"))
                .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
                .and_then(|()| team.container().recover(&drystone::Adopt::All, &[]).map(|_| ())),
            _ => Ok(()),
        };
        team.agree(settled).unwrap();
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        assert_eq!(writer.run(), 1);
        writer.begin_step(None, false).unwrap();
        writer.put("u", &F64, &source, Some(&place), None).unwrap();
        writer.end_step().unwrap();
        writer.close().unwrap();
    });
    let container = Container::open(&path, Mode::Read).unwrap();
    assert_eq!(read(&container, 0, 4)[..4], [0.0, 1.0, 2.0, 3.0]);
}

/// The lengths of all files with step records.
fn records(path: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let files = std::fs::read_dir(path.join("log")).unwrap().map(|file| file.unwrap().path());
    let records = files.filter(|file| file.extension().unwrap() == "idx");
    records.map(|file| (file.clone(), file.metadata().unwrap().len())).collect()
}

/// The writers of a team do not sync their step records, because the commit follows at once. So a power cut may
/// destroy those of committed steps, except the first, with which the header is synced.
#[test]
fn a_power_cut_takes_only_step_records_that_a_durable_commit_has_settled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.dry");
    let write = |team: &Team, writers, steps: std::ops::Range<u64>| {
        let writer = team.writer(TeamWriterOptions { writers: Some(writers) }).unwrap();
        for step in steps {
            writer.begin_step(Some(step), false).unwrap();
            let data = column(step, team.rank());
            let source = Source::dense(&data, &[4, 1], 8).unwrap();
            writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
            writer.end_step().unwrap();
            team.agree(Ok(())).unwrap();
        }
        writer
    };
    let synced: Vec<_> = program(3, |communicator| {
        let team = begin_as(&path, communicator, 3, Durability::Durable);
        let writer = write(&team, 2, 0..1);
        let first = records(&path);
        team.agree(Ok(())).unwrap();
        writer.close().unwrap();
        // The first step of a log is synced with its header; the others are not.
        std::mem::forget(write(&team, 2, 1..3));
        first
    });
    let closed: Vec<_> = synced[0].iter().map(|(file, _)| file.clone()).collect();
    for (file, len) in records(&path).into_iter().filter(|(file, _)| !closed.contains(file)) {
        std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len * 2 / 3).unwrap();
    }
    program(2, |communicator| {
        let team = Team::open(&path, Mode::ReadWrite, communicator).unwrap();
        assert_eq!(team.container().snapshot().steps.last(), Some(2));
        let writer = team.writer(TeamWriterOptions { writers: Some(2) }).unwrap();
        writer.begin_step(None, false).unwrap();
        let data = column(3, team.rank());
        let source = Source::dense(&data, &[4, 1], 8).unwrap();
        writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
        writer.end_step().unwrap();
        writer.close().unwrap();
    });
    let container = Container::open(&path, Mode::Read).unwrap();
    for step in 0..3 {
        let expected: Vec<f64> =
            (0..12).map(|i| 1000.0 * step as f64 + 100.0 * f64::from(i / 3) + f64::from(i % 3)).collect();
        assert_eq!(read(&container, step, 3), expected);
    }
    assert_eq!(read(&container, 3, 3)[..2], [3000.0, 3001.0]);
    assert!(container.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

/// Every `ranks`-th column of `u`, beginning with the rank's.
fn every(rank: u32, ranks: u32, cells: u64) -> Selection {
    let (rank, ranks) = (u64::from(rank), u64::from(ranks));
    let columns = Axis { start: rank, step: ranks as i64, count: (cells - rank).div_ceil(ranks) };
    Selection { axes: vec![Axis { start: 0, step: 1, count: 1 }, Axis::full(4), columns] }
}

#[test]
fn interleaved_parts_are_read_once_for_all_and_large_parts_by_each_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("joint.dry");
    let (ranks, cells) = (4, 120_000);
    let costs = program(ranks as usize, |communicator| {
        let team = begin(&path, communicator, cells);
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        writer.begin_step(None, false).unwrap();
        let (rank, share) = (u64::from(team.rank()), cells / u64::from(ranks));
        let numbers: Vec<f64> =
            (0..4 * share).map(|i| (i / share * cells + rank * share + i % share) as f64).collect();
        let data = bytes(&numbers);
        let source = Source::dense(&data, &[4, share], 8).unwrap();
        writer.put("u", &F64, &source, Some(&[0, rank * share]), None).unwrap();
        writer.end_step().unwrap();
        writer.close().unwrap();

        let reading = team.container().reading("u", None).unwrap();
        let mut found = Vec::new();
        for readers in [Readers::Alone, Readers::Count(1), Readers::Count(3), Readers::Cheapest] {
            let selection = every(team.rank(), ranks, cells);
            let shape = selection.shape();
            let mut out = vec![0; 8 * shape.iter().product::<u64>() as usize];
            let target = Target::dense(&mut out, &shape, 8).unwrap();
            let report = team.read(&reading, &selection, &target, readers).unwrap();
            let expected: Vec<f64> = (0..4 * share)
                .map(|i| (i / share * cells + i % share * u64::from(ranks) + rank) as f64)
                .collect();
            assert!(out == bytes(&expected), "{readers:?}");
            found.push(report);
        }
        // The rank's own block: there is nothing to share.
        let mine = Selection::boxed(&[0, 0, rank * share], &[1, 4, share]);
        let mut out = vec![0; data.len()];
        let target = Target::dense(&mut out, &[1, 4, share], 8).unwrap();
        found.push(team.read(&reading, &mine, &target, Readers::Cheapest).unwrap());
        assert!(out == data);
        found
    });
    let sum = |way: usize| costs.iter().map(|found| found[way].read.read_bytes).sum::<u64>();
    let all = 32 * cells;
    assert!(sum(0) >= 4 * all, "alone each rank reads all: {}", sum(0));
    assert!(sum(1) < all + all / 10 && sum(2) < all + all / 3 && sum(3) < all + all / 3);
    assert_eq!(costs[1][1].read.requests, 0);
    let readers: Vec<usize> = costs[2].iter().map(|found| found.readers).collect();
    assert_eq!(readers[..3], [0, 1, 3]);
    assert!(readers[3] > 0 && readers[4] == 0, "{readers:?}");
}

#[test]
fn a_read_that_one_rank_cannot_make_fails_on_all_and_no_rank_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reads.dry");
    program(3, |communicator| {
        let team = begin(&path, communicator.clone(), 6);
        let writer = team.writer(TeamWriterOptions::default()).unwrap();
        writer.begin_step(None, false).unwrap();
        let data = column(0, team.rank());
        let source = Source::dense(&data, &[4, 1], 8).unwrap();
        writer.put("u", &F64, &source, Some(&[0, team.rank().into()]), None).unwrap();
        writer.end_step().unwrap();
        writer.close().unwrap();
        let reading = team.container().reading("u", None).unwrap();
        let read = |selection: &Selection, readers| {
            let shape = selection.shape();
            let mut out = vec![0; 8 * shape.iter().product::<u64>() as usize];
            team.read(&reading, selection, &Target::dense(&mut out, &shape, 8).unwrap(), readers).map(|_| out)
        };
        // One selection leaves the array, one rank passes another variable, and one rank cannot state its selection.
        let far = Selection::boxed(&[0, 0, if team.rank() == 2 { 6 } else { 0 }], &[1, 4, 1]);
        assert_eq!(read(&far, Readers::Cheapest).unwrap_err().kind(), ErrorKind::OutOfRange);
        let other = team.container().reading(if team.rank() == 1 { "once" } else { "u" }, None).unwrap();
        let selection =
            Selection { axes: other.shape().iter().map(|_| Axis { start: 0, step: 1, count: 1 }).collect() };
        let mut out = vec![0; 8];
        let target = Target::dense(&mut out, &selection.shape(), 8).unwrap();
        let failed = team.read(&other, &selection, &target, Readers::Count(2)).unwrap_err();
        assert!(failed.to_string().contains("of one variable"), "{failed}");
        let all = every(team.rank(), 3, 6);
        let failed = match team.rank() {
            0 => team.declined(Call::Read, Error::new(ErrorKind::InvalidArgument, "no memory was given")),
            _ => read(&all, Readers::Count(1)).unwrap_err(),
        };
        assert!(failed.to_string().contains("no memory was given"), "{failed}");
        // A rank that wants nothing takes part as well.
        let nothing = Selection::boxed(&[0, 0, 0], &[1, 4, 0]);
        let found = read(if team.rank() == 1 { &nothing } else { &all }, Readers::Count(2)).unwrap();
        assert_eq!(found.len(), if team.rank() == 1 { 0 } else { 64 });
        // Damage that one reader finds is an error of all.
        team.agree(Ok(())).unwrap();
        if team.rank() == 0 {
            for file in std::fs::read_dir(path.join("log")).unwrap().map(|f| f.unwrap().path()) {
                if file.extension().is_some_and(|e| e == "seg") {
                    let mut bytes = std::fs::read(&file).unwrap();
                    bytes.iter_mut().for_each(|b| *b ^= 0xff);
                    std::fs::write(&file, bytes).unwrap();
                }
            }
        }
        team.agree(Ok(())).unwrap();
        assert_eq!(read(&all, Readers::Count(1)).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(read(&all, Readers::Alone).unwrap_err().kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn texts_and_fragments_go_through_a_team_as_arrays_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("texts.dry");
    program(3, |communicator| {
        let team = begin(&path, communicator, 3);
        let made = match team.rank() {
            0 => {
                let texts = NewVariable { dtype: DType::String, ..variable(&[3, 2], true, false) };
                let text = "type P struct { v [3]float32; k int32 }
                    dataset { var f[9] float32 steps; var p[3] P steps }
                    fragment part(r) { var f[i:3] = f[i + 3*r] }
                    fragment component(r) { var v[i:1] = p[i + r].v[1] }";
                let container = team.container();
                container
                    .apply(vec![SchemaOp::CreateVariable("texts".into(), Box::new(texts))])
                    .and_then(|_| container.declare(text, &[]))
                    .map(|_| ())
            }
            _ => Ok(()),
        };
        team.agree(made).unwrap();
        let writer = team.writer(TeamWriterOptions { writers: Some(2) }).unwrap();
        writer.begin_step(None, false).unwrap();
        let rank = team.rank();
        let long = "x".repeat(rank as usize * 50);
        writer
            .put_strings("texts", &[1, 2], &[b"a", long.as_bytes()], Some(&[rank.into(), 0]), None)
            .unwrap();
        assert!(writer.put_strings("texts", &[1, 2], &[b"a"], None, None).is_err());
        let fragment = team.container().fragment("part", &[("r", rank.into())]).unwrap();
        let values: Vec<u8> =
            (0..3u8).flat_map(|i| (f32::from(i) + rank as f32 * 10.0).to_le_bytes()).collect();
        fragment.write(&writer, &values).unwrap();
        let component = team.container().fragment("component", &[("r", rank.into())]).unwrap();
        component.write(&writer, &(5.0 + rank as f32).to_le_bytes()).unwrap();
        writer.end_step().unwrap();
        writer.close().unwrap();
    });
    let container = Container::open(&path, Mode::Read).unwrap();
    let (texts, _) = container
        .reading("texts", None)
        .unwrap()
        .read_strings(&Selection::boxed(&[0, 0, 0], &[1, 3, 2]))
        .unwrap();
    assert_eq!(texts.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1, 50, 1, 100]);
    let mut out = vec![0; 36];
    let f = container.reading("f", None).unwrap();
    f.read(&Selection::boxed(&[0, 0], &[1, 9]), &Target::dense(&mut out, &[1, 9], 4).unwrap()).unwrap();
    let found: Vec<f32> = out.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(found, [0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0, 21.0, 22.0]);
    let v = container.reading("p", Some("v")).unwrap();
    v.read(&Selection::boxed(&[0, 0], &[1, 3]), &Target::dense(&mut out, &[1, 3], 12).unwrap()).unwrap();
    let found: Vec<f32> = out.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(found, [0.0, 5.0, 0.0, 0.0, 6.0, 0.0, 0.0, 7.0, 0.0]);
}

/// Small changes of valid messages, and random bytes, for the decoders of messages between ranks.
#[test]
fn messages_of_a_broken_communicator_are_refused_or_harmless() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let cases = if std::env::var_os("DRYSTONE_LONG").is_some() { 2_000_000 } else { 40_000 };
    for case in 0..cases {
        let mut data = Vec::new();
        if case % 2 == 0 {
            // Wishes of three axes, mostly with small numbers.
            data.push(3);
            for _ in 0..1 + random() % 5 {
                let mut wish = 3u64.to_le_bytes().to_vec();
                for _ in 0..3 {
                    let small = |n: u64| if n.is_multiple_of(31) { n } else { n % 50 };
                    wish.extend_from_slice(&small(random()).to_le_bytes());
                    wish.extend_from_slice(&((random() % 7) as i64 - 3).to_le_bytes());
                    wish.extend_from_slice(&small(random()).to_le_bytes());
                }
                wish.resize(8 + 24 * 9, 0);
                data.extend_from_slice(&wish);
            }
        } else {
            // A block with a name of a few letters, or anything.
            for n in [random() % 4, random() % 2, random() % 3, random() % 9] {
                data.extend_from_slice(&(n as u32).to_le_bytes());
            }
            data.extend((0..random() % 120).map(|_| (random() % if case % 3 == 0 { 256 } else { 3 }) as u8));
        }
        drystone::fuzzing::fuzz_sent(&data);
    }
}
