//! Programs from strangers, sent to the object class of a real cluster: every one is answered, and no storage daemon
//! dies.
//!
//! It needs the class (`make rados-class`), in `build/rados-class` or in the folder that `DRYSTONE_RADOS_CLASS` names,
//! and Ceph's daemons; where one is missing it says so and ends. `DRYSTONE_LONG=1` sends 10^6 programs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use drystone_program::{Answer, Budget, Program, Reply as Frames, run, sample};
use drystone_store::{Pending, PutMode, Reply, Request, Store};

use common::Cluster;

const READ: &str = "dry.read.1";
const READ_2: &str = "dry.read.2";
const METHODS: &[u8] = b"dry.version dry.read.1 dry.read.2";

fn class() -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/rados-class");
    let folder = std::env::var_os("DRYSTONE_RADOS_CLASS").map_or_else(built, PathBuf::from);
    folder.join("libcls_dry.so").exists().then_some(folder)
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

/// A program with some bytes changed; every fourth is sound in form.
fn changed(sound: &[u8], program: &Program, random: &mut Random) -> Vec<u8> {
    if random.below(4) == 0 {
        let mut program = program.clone();
        let many = program.items.len();
        let item = &mut program.items[random.below(many)];
        let odd = [0, 1, 7, 255, 4096, 1 << 20, u64::MAX >> 1][random.below(7)];
        match random.below(6) {
            0 => item.piece.position = odd,
            1 => item.piece.length = odd,
            2 => item.piece.trailer = odd,
            3 => item.piece.unit_log2 = random.below(64) as u8,
            4 => item.piece.check ^= 1 << random.below(32),
            _ => {
                let many = program.arrangements.len();
                let logical = &mut program.arrangements[random.below(many)].logical;
                logical.shape = (0..random.below(4)).map(|_| random.below(70_000) as u64).collect();
            }
        }
        return program.encode().unwrap_or_default();
    }
    let mut data = sound.to_vec();
    for _ in 0..1 + random.below(6) {
        let at = random.below(data.len());
        match random.below(4) {
            0 => data[at] ^= 1 << random.below(8),
            1 => data[at] = random.below(256) as u8,
            2 => drop(data.remove(at)),
            _ => data.insert(at, random.below(256) as u8),
        }
        if data.is_empty() {
            data.push(0);
        }
    }
    data
}

#[test]
fn no_program_ends_a_storage_daemon_and_each_is_answered() {
    let Some(class) = class() else {
        println!("skipped: the object class is not built; make rados-class");
        return;
    };
    let class = class.to_str().unwrap();
    let Some(cluster) = Cluster::get("DRYSTONE_TEST_CEPH_CLASS", &["--classes", class]) else { return };
    let store = cluster.open(&format!("test/hostile{}", std::process::id()), &[]);
    let methods = |key: &str| store.exec(key, "dry.version", b"").unwrap();
    let many: usize = if std::env::var_os("DRYSTONE_LONG").is_some() { 1_000_000 } else { 4000 };
    let mut random = Random(many as u64 ^ 0x5DEE_CE66);
    let mut under_way: VecDeque<Pending> = VecDeque::new();
    let (mut answered, mut failed) = (0, 0);
    let mut settle = |pending: Pending| match pending.wait() {
        Ok(Reply::Executed { output }) => {
            assert!(Frames::new(&output).unwrap().all(|frame| frame.is_ok()), "a reply is whole");
            answered += 1;
        }
        Ok(other) => panic!("{other:?}"),
        Err(error) => {
            println!("{error}");
            failed += 1;
        }
    };
    for seed in 0..16 {
        let (program, object) = sample(seed + 1);
        let key = format!("o{seed}");
        store.put(&key, &[&object], PutMode::Replace, false).unwrap();
        assert_eq!(methods(&key), METHODS);
        let sound = program.encode().unwrap();
        // The names are those of versions; both run what a program says of itself.
        let method =
            if program.conditions.iter().any(|one| one.answer != Answer::Values) { READ_2 } else { READ };
        let reply = store.exec(&key, method, &sound).unwrap();
        let here = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        assert!(reply == here, "the class gives what this library gives");
        for _ in 0..many / 16 {
            let input = changed(&sound, &program, &mut random);
            let (key, method) = (key.clone(), method.to_owned());
            under_way.push_back(store.submit(Request::Exec { key, method, input, limit: 1 << 20 }));
            if under_way.len() >= 64 {
                settle(under_way.pop_front().unwrap());
            }
        }
    }
    under_way.into_iter().for_each(&mut settle);
    assert_eq!((answered, failed), (many / 16 * 16, 0));
    for seed in 0..16 {
        assert_eq!(methods(&format!("o{seed}")), METHODS, "all daemons live");
    }
    assert_eq!(cluster.deaths(), 0, "no daemon was ended");
}
