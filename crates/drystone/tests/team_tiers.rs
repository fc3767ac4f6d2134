//! Ranks of several nodes that make parity of each other's parts through their communicator.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;
mod ranks;

use std::sync::Arc;

use drystone::array::{Source, Target};
use drystone::collective::{Communicator, Team, TeamWriterOptions};
use drystone::{Adopt, Container, CreateOptions, Level, Mode, Result, Scheme, TierFolder};
use drystone_plan::selection::Selection;

use common::*;
use ranks::program;

const CELLS: u64 = 60_000;

/// The same ranks, each on its own node.
struct Nodes(Arc<dyn Communicator>);

impl Communicator for Nodes {
    fn rank(&self) -> u32 {
        self.0.rank()
    }
    fn size(&self) -> u32 {
        self.0.size()
    }
    fn node(&self) -> u64 {
        self.0.rank().into()
    }
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.0.all_gather(send, receive)
    }
    fn exchange(
        &self,
        send: &[u8],
        send_sizes: &[u64],
        receive: &mut [u8],
        receive_sizes: &[u64],
    ) -> Result<()> {
        self.0.exchange(send, send_sizes, receive, receive_sizes)
    }
}

/// Two steps of ranks with a tier each, the second step at a level. Returns the number of their parts at home, and
/// the folders of the tiers.
fn run(folder: &std::path::Path, ranks: usize, writers: u32, scheme: Scheme, level: Level) {
    let home = folder.join("run.dry");
    let options = CreateOptions { tiers: true, redundancy: scheme, ..CreateOptions::default() };
    program(ranks, |communicator| {
        let team = Team::create(&home, options.clone(), Arc::new(Nodes(communicator))).unwrap();
        let near = folder.join(format!("near{}", team.rank()));
        team.container().use_tiers(&[TierFolder { folder: near, budget: None }]).unwrap();
        let made = match team.rank() {
            0 => team
                .container()
                .apply(vec![create("u", f4(), &[ranks as u64, CELLS], |v| v.steps = true)])
                .map(drop),
            _ => Ok(()),
        };
        team.agree(made).unwrap();
        let writer = team.writer(TeamWriterOptions { writers: Some(writers) }).unwrap();
        for step in 0..2 {
            writer.begin_step(None, false).unwrap();
            let cells = ramp_f32(CELLS as usize);
            let source = Source::dense(&cells, &[1, CELLS], 4).unwrap();
            writer.put("u", &f4(), &source, Some(&[team.rank().into(), 0]), None).unwrap();
            writer.end_step_at((step == 1).then_some(level)).unwrap();
        }
        writer.close().unwrap();
        let levels = team.container().levels().unwrap();
        assert!(levels.values().all(|found| *found == level), "{levels:?}");
        // As if all processes were killed here.
        team.container().close();
    });
}

/// The environment belongs to the whole process, so one test does everything.
#[test]
fn ranks_keep_parity_of_each_other_and_lost_nodes_come_back() {
    // SAFETY: this binary has one test, and no other thread yet.
    unsafe { std::env::set_var("DRYSTONE_DRAIN", "hold") };
    let cases = [("partner", 3, 3, 1), ("xor:8", 4, 4, 1), ("xor:8", 3, 1, 1), ("partner", 4, 2, 1)];
    let cases = cases.into_iter().chain(cfg!(feature = "reed-solomon").then_some(("rs:3+2", 5, 5, 2)));
    for (scheme, ranks, writers, lost) in cases {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), ranks, writers, Scheme::parse(scheme).unwrap(), Level::Partner);
        let home = folder.path().join("run.dry");
        // Ranks that wrote, as every first rank does.
        for rank in 0..lost {
            std::fs::remove_dir_all(folder.path().join(format!("near{rank}"))).unwrap();
        }
        let c = Container::open(&home, Mode::ReadWrite).unwrap();
        let report = c.recover(&Adopt::All, &[]).unwrap();
        assert_eq!(report.rebuilt, [0, 1], "{scheme} of {ranks}, {writers} write: {:?}", report.notes);
        let reading = c.reading("u", None).unwrap();
        for step in 0..2 {
            let mut out = vec![0; CELLS as usize * 4];
            for rank in 0..ranks as u64 {
                let target = Target::dense(&mut out, &[1, 1, CELLS], 4).unwrap();
                reading.read(&Selection::boxed(&[step, rank, 0], &[1, 1, CELLS]), &target).unwrap();
                assert_eq!(out, ramp_f32(CELLS as usize));
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 2, 2, Scheme::None, Level::Node);
    let home = tempfile::tempdir().unwrap();
    run(home.path(), 2, 2, Scheme::Partner, Level::Partner);
}
