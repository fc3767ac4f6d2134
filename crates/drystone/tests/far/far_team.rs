//! Ranks that write together into an object store, over HTTP. Every put is stored, and a failure of one rank is an
//! error of all.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use drystone::array::{Source, Target};
use drystone::collective::{Readers, Team, TeamWriterOptions};
use drystone::{Container, CreateOptions, ErrorKind, Mode, OpenOptions, StoreOptions};
use drystone_plan::selection::Selection;
use drystone_s3_rig::{Config, Rig};

use crate::common::*;
use crate::ranks::program;

const URL: &str = "s3://bucket/runs/team.dry";
const RANKS: u64 = 5;

fn create_options(store: &StoreOptions) -> CreateOptions {
    CreateOptions { store: store.clone(), ..CreateOptions::default() }
}

fn open_options(store: &StoreOptions) -> OpenOptions {
    OpenOptions { store: store.clone(), ..Mode::Read.into() }
}

fn options(rig: &Rig) -> StoreOptions {
    let pairs = [
        ("aws_endpoint", rig.endpoint()),
        ("aws_access_key_id", "the-key-id".into()),
        ("aws_secret_access_key", "the-secret".into()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).as_slice().into()
}

#[test]
fn ranks_write_steps_into_an_object_store_together_and_read_them() {
    let rig = Rig::start(Config::default()).unwrap();
    let options = options(&rig);
    program(RANKS as usize, |communicator| {
        let team = Team::create(URL, create_options(&options), communicator).unwrap();
        let made = match team.rank() {
            0 => team.container().apply(vec![create("u", f4(), &[RANKS, 10], |v| v.steps = true)]).map(drop),
            _ => Ok(()),
        };
        team.agree(made).unwrap();
        let writer = team.writer(TeamWriterOptions { writers: Some(2) }).unwrap();
        for step in 0..3 {
            assert_eq!(writer.begin_step(None, false).unwrap(), step);
            let cells = ramp_f32(10);
            let source = Source::dense(&cells, &[1, 10], 4).unwrap();
            writer.put("u", &f4(), &source, Some(&[team.rank().into(), 0]), None).unwrap();
            writer.end_step().unwrap();
        }
        writer.close().unwrap();
    });
    program(RANKS as usize, |communicator| {
        let team = Team::open(URL, open_options(&options), communicator).unwrap();
        let mut out = vec![0; 40];
        let mine = Selection::boxed(&[2, team.rank().into(), 0], &[1, 1, 10]);
        let target = Target::dense(&mut out, &[1, 1, 10], 4).unwrap();
        let reading = team.container().reading("u", None).unwrap();
        team.read(&reading, &mine, &target, Readers::Count(2)).unwrap();
        assert_eq!(out, ramp_f32(10));
    });
    let c = Container::open(URL, open_options(&options)).unwrap();
    assert_eq!(c.snapshot().step_axis(), 3);
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

/// Rank 0 is refused, and all ranks get the error. No rank waits.
#[test]
fn a_container_that_is_there_is_a_conflict_of_all_ranks() {
    let rig = Rig::start(Config::default()).unwrap();
    let options = options(&rig);
    Container::create(URL, create_options(&options)).unwrap();
    let refused = program(3, |communicator| {
        Team::create(URL, create_options(&options), communicator).map(drop).unwrap_err()
    });
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Conflict), "{refused:?}");
}
