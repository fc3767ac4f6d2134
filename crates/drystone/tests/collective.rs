//! Ranks that write together: what each put is there, whoever wrote it, and a failure of one is an error of all, never a hang.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use drystone::array::{Source, Target};
use drystone::collective::{Communicator, Team, TeamWriterOptions};
use drystone::format::dtype::{DType, Scalar};
use drystone::format::schema::Attrs;
use drystone::plan::selection::Selection;
use drystone::{Container, CreateOptions, Durability, Error, ErrorKind, Mode, NewVariable, Result, SchemaOp};

/// Ranks that are threads.
struct Threads {
    size: usize,
    barrier: Barrier,
    slots: Mutex<Vec<(Vec<u8>, Vec<u64>)>>,
}

struct Rank {
    rank: usize,
    all: Arc<Threads>,
}

impl Rank {
    /// Everybody's bytes and sizes.
    fn share(&self, bytes: &[u8], sizes: &[u64]) -> Vec<(Vec<u8>, Vec<u64>)> {
        self.all.slots.lock().unwrap()[self.rank] = (bytes.to_vec(), sizes.to_vec());
        self.all.barrier.wait();
        let all = self.all.slots.lock().unwrap().clone();
        self.all.barrier.wait();
        all
    }
}

impl Communicator for Rank {
    fn rank(&self) -> u32 {
        self.rank as u32
    }
    fn size(&self) -> u32 {
        self.all.size as u32
    }
    fn node(&self) -> u64 {
        0
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        let all: Vec<u8> = self.share(send, &[]).into_iter().flat_map(|(bytes, _)| bytes).collect();
        receive.copy_from_slice(&all);
        Ok(())
    }
    fn exchange(
        &self,
        send: &[u8],
        send_sizes: &[u64],
        receive: &mut [u8],
        receive_sizes: &[u64],
    ) -> Result<()> {
        let mut at = 0;
        for ((bytes, sizes), expected) in self.share(send, send_sizes).iter().zip(receive_sizes) {
            let from = sizes[..self.rank].iter().sum::<u64>() as usize;
            let len = sizes[self.rank] as usize;
            assert_eq!(len as u64, *expected);
            receive[at..at + len].copy_from_slice(&bytes[from..from + len]);
            at += len;
        }
        Ok(())
    }
}

/// Runs a program on so many ranks; what each returns.
fn program<T: Send>(size: usize, run: impl Fn(Arc<dyn Communicator>) -> T + Sync) -> Vec<T> {
    let slots = Mutex::new(vec![Default::default(); size]);
    let all = Arc::new(Threads { size, barrier: Barrier::new(size), slots });
    std::thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let rank = Rank { rank, all: all.clone() };
                scope.spawn(move || run(Arc::new(rank)))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
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
        fill: None,
        attrs: Attrs::new(),
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Rank 0 creates the variables, all see them.
fn begin(path: &Path, communicator: Arc<dyn Communicator>, cells: u64) -> Team {
    let options = CreateOptions { durability: Durability::Async };
    let team = Team::create_local(path, options, communicator).unwrap();
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
        let container = Container::open_local(&path, Mode::Read).unwrap();
        for step in 0..3 {
            let expected: Vec<f64> =
                (0..28).map(|i| 1000.0 * step as f64 + 100.0 * f64::from(i / 7) + f64::from(i % 7)).collect();
            assert_eq!(read(&container, step, 7), expected);
        }
        assert_eq!(logs(&path), files);
        // Columns side by side were joined: one block per rank that wrote.
        assert_eq!(container.reading("u", None).unwrap().blocks(Some(2)).unwrap().len(), files);
    }
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
    let container = Container::open_local(&path, Mode::Read).unwrap();
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
            // Each lays two columns, the second of which the next rank covers.
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
    let container = Container::open_local(&path, Mode::Read).unwrap();
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
        // Different steps, calls in different order, a put that fails and is answered by dropping the step.
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
    assert_eq!(Container::open_local(&path, Mode::Read).unwrap().snapshot().steps.last(), None);
    let nowhere = folder.path().join("nowhere.dry");
    for failed in program(3, |communicator| Team::open_local(&nowhere, Mode::Read, communicator).err()) {
        assert_eq!(failed.unwrap().kind(), ErrorKind::NotFound);
    }
    for failed in program(2, |c| Team::create_local(&path, CreateOptions::default(), c).err()) {
        assert_eq!(failed.unwrap().kind(), ErrorKind::Conflict);
    }
}

#[test]
fn a_writer_whose_log_is_taken_away_fails_the_step_for_all_and_a_recovery_goes_on() {
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
            // The folder of logs becomes a file: no writer can begin.
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
                .and_then(|()| team.container().recover(&drystone::Adopt::All).map(|_| ())),
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
    let container = Container::open_local(&path, Mode::Read).unwrap();
    assert_eq!(read(&container, 0, 4)[..4], [0.0, 1.0, 2.0, 3.0]);
}
