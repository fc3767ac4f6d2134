//! Does a container hold exactly what was promised, if the process or the machine dies at any moment?
//!
//! Random histories run over a store that dies at one of its changes. The remaining objects are opened and compared
//! with a model that consists of a few maps. `DRYSTONE_LONG=1` runs many more histories.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, Mode, Writer, WriterOptions};
use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_store::{Fault, FaultStore, MemoryStore, PutMode, Script, Store, StoreExt};

use crate::common::{bytes, create, dense, f4, floats, ramp_f32};
use crate::history::model::{Group, State, expect, read_tags};
use crate::history::{History, Plan};

fn long() -> bool {
    std::env::var_os("DRYSTONE_LONG").is_some()
}

fn faulty(script: Script) -> Arc<FaultStore<MemoryStore>> {
    Arc::new(FaultStore::in_memory(script))
}

/// The number of changes that the history makes if nothing fails. The final state is checked too.
fn changes(plan: Plan) -> u64 {
    let store = faulty(Script::default());
    let (history, error) = History::run(store.clone(), plan);
    assert!(error.is_none(), "{plan:?}: without faults: {}", error.unwrap());
    let history = history.unwrap();
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    assert_eq!(c.snapshot().version() as usize, history.states.len() - 1, "{:?}", history.log);
    expect(&c, history.now(), false, &|| format!("{plan:?} {:?}", history.log));
    store.changes()
}

/// The state a reopened container must show, given its version.
fn state_at<'h>(history: &'h History, c: &Container, what: &dyn Fn() -> String) -> &'h State {
    let version = c.snapshot().version() as usize;
    if version == history.states.len() {
        return history.doubt.next.as_ref().unwrap_or_else(|| panic!("{}: an unknown commit", what()));
    }
    history.states.get(version).unwrap_or_else(|| panic!("{}: version {version} out of nowhere", what()))
}

/// Checks a container after a kill, or under `durable` after any crash: everything that was promised is there,
/// exactly.
fn check_promises(left: MemoryStore, history: &History, what: &dyn Fn() -> String, adopt: bool) {
    let c = Container::open(Arc::new(left), Mode::ReadWrite).unwrap_or_else(|e| panic!("{}: {e}", what()));
    let warnings = c.take_warnings();
    assert!(warnings.is_empty(), "{}: {warnings:?}", what());
    let version = c.snapshot().version() as usize;
    assert!(version + 1 >= history.states.len(), "{}: only version {version} is left", what());
    let state = state_at(history, &c, what).clone();
    expect(&c, &state, false, what);
    assert_eq!(c.snapshots().unwrap(), (1..=version as u64).collect::<Vec<_>>(), "{}", what());
    for (old, state) in history.states.iter().enumerate().skip(1).step_by(4) {
        expect(&c.at(old as u64).unwrap(), state, false, &|| format!("at({old}) of {}", what()));
    }

    // Groups that were closed and not committed: those that certainly were, and those that the interrupted operation
    // may have closed.
    let committed = version == history.states.len();
    // Where the interrupted operation landed, it committed some of them.
    let taken = |at: &usize| committed && history.doubt.taken.contains(at);
    let certain = history.pending.iter().enumerate().filter(|(at, _)| !taken(at));
    let certain: Vec<&Group> = certain.map(|(_, group)| group).collect();
    let ranked_left = certain.iter().find_map(|g| g.rank.map(|(_, n)| n));
    if let Some(n) = ranked_left {
        let refused = c.writer(WriterOptions { rank: Some((0, n + 1)), ..WriterOptions::default() });
        let refused = refused.err().unwrap_or_else(|| panic!("{}: a run mixes with a dead one", what()));
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("recover"), "{refused}");
    }
    let choice = if adopt { Adopt::All } else { Adopt::None };
    let report = c.recover(&choice, &[]).unwrap_or_else(|e| panic!("{}: recover: {e}", what()));
    assert_eq!(report.version as usize, version + 1);
    let mut outcomes = vec![state.clone()];
    if adopt {
        outcomes = vec![state.adopt(&State::complete(&certain))];
        if let Some(group) = history.doubt.group.as_ref().filter(|_| !committed) {
            let mut with = certain.clone();
            with.push(group);
            outcomes.push(state.adopt(&State::complete(&with)));
        }
    }
    let steps: BTreeSet<u64> = c.snapshot().steps.iter().collect();
    let fits = |s: &&State| s.steps == steps && same_content(&c, s);
    let Some(state) = outcomes.iter().find(fits) else {
        expect(&c, &outcomes[0], false, &|| format!("after recover({adopt}) of {}", what()));
        panic!("{}: after recover({adopt}) nothing fits", what());
    };

    // A new run continues after the last step, and the old one never reappears.
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
    let step = w.begin_step(None, false).unwrap();
    assert_eq!(step, state.steps.last().map_or(0, |s| s + 1), "{}", what());
    let Some(rows) = state.vars.get("t").map(|t| t.shape[0]) else { return };
    let data = ramp_f32(rows as usize * 8);
    w.put("t", &f4(), &dense(&data, &[rows, 8], 4), None, None).unwrap();
    w.end_step().unwrap();
    w.close().unwrap();
    let all = crate::common::read_all(&c, "t");
    assert_eq!(all[all.len() - data.len()..], data[..], "{}", what());
    let report = c.verify(&mut |_, _| true).unwrap();
    assert!(report.damage.is_empty(), "{}: {:?}", what(), report.damage);
}

fn same_content(c: &Container, state: &State) -> bool {
    state.vars.iter().all(|(path, var)| {
        let tags = read_tags(c, path, var.kind).unwrap_or_else(|e| panic!("reading {path}: {e}"));
        let axis = if var.steps { state.steps.last().map_or(0, |s| s + 1) } else { 1 };
        let cells: u64 = c.reading(path, None).unwrap().shape()[usize::from(var.steps)..].iter().product();
        let whole = crate::history::model::Block {
            put: 0,
            uid: var.uid,
            offset: vec![0; var.shape.len()],
            count: c.reading(path, None).unwrap().shape()[usize::from(var.steps)..].to_vec(),
        };
        let mut found = tags.iter();
        tags.len() as u64 == axis * cells
            && (0..axis).all(|step| {
                let step = var.steps.then_some(step);
                whole.cells().all(|(at, _)| *found.next().unwrap() == state.tag(var.uid, step, &at))
            })
    })
}

fn plans(durability: Durability, seeds: u64, operations: usize, apart: bool) -> impl Iterator<Item = Plan> {
    (0..seeds).map(move |seed| Plan { seed, durability, nranks: (seed % 4) as u32, operations, apart })
}

#[test]
fn a_kill_at_any_change_loses_nothing_that_was_promised() {
    let mut kills = 0;
    for durability in [Durability::Async, Durability::Durable] {
        for plan in plans(durability, if long() { 400 } else { 48 }, 14, false) {
            let total = changes(plan);
            let stride = if long() { 1 } else { 3 };
            for change in (plan.seed % stride..total).step_by(stride as usize) {
                let store = faulty(Script::seeded(plan.seed * 1000 + change).at(change, Fault::Crash));
                let (history, error) = History::run(store.clone(), plan);
                // The hint at the end of a commit is removed and made again; its loss may go unnoticed.
                assert!(
                    error.is_some() || change + 2 >= total,
                    "{plan:?} survived its death at change {change} of {total}"
                );
                let Some(history) = history else { continue };
                let what = || format!("kill at change {change} of {plan:?} after {:?}", history.log);
                check_promises(store.survivor(), &history, &what, change % 2 == 0);
                kills += 1;
            }
        }
    }
    println!("{kills} kills");
}

#[test]
fn a_power_cut_loses_nothing_of_a_durable_container() {
    let mut cuts = 0;
    for plan in plans(Durability::Durable, if long() { 200 } else { 40 }, 12, false) {
        let total = changes(plan);
        let stride = if long() { 1 } else { 5 };
        for change in (plan.seed % stride..total).step_by(stride as usize) {
            for seed in 0..2 {
                let store = faulty(Script::seeded(plan.seed * 1000 + change).at(change, Fault::Crash));
                let (history, _) = History::run(store.clone(), plan);
                let Some(history) = history else { continue };
                store.power_cut(seed);
                let what =
                    || format!("power cut {seed} at change {change} of {plan:?} after {:?}", history.log);
                check_promises(store.survivor(), &history, &what, (change + seed) % 2 == 0);
                cuts += 1;
            }
        }
    }
    println!("{cuts} power cuts");
}

/// Groups that were closed together: the group of a writer, or the groups of all ranks of a step.
struct Unit {
    /// Its position in the history.
    at: usize,
    writers: BTreeSet<usize>,
    order: u64,
    nranks: u32,
    step: Option<u64>,
    replace: bool,
    /// Tags by variable and cell, after overlaps within the unit are settled.
    cells: BTreeMap<(u32, Vec<u64>), i64>,
}

fn units(history: &History) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut by_step: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, group) in history.groups.iter().enumerate() {
        let number = match (group.rank, group.step) {
            (Some((_, n)), Some(step)) if n > 1 => Some(*by_step.entry(step).or_insert(units.len())),
            _ => None,
        };
        if number.is_none_or(|n| n == units.len()) {
            units.push(Unit {
                at,
                writers: BTreeSet::new(),
                order: if group.rank.is_none() { group.order } else { 0 },
                nranks: group.rank.filter(|_| group.step.is_some()).map_or(1, |(_, n)| n),
                step: group.step,
                replace: group.replace,
                cells: BTreeMap::new(),
            });
        }
        let number = number.unwrap_or(units.len() - 1);
        let unit = &mut units[number];
        unit.writers.insert(group.writer);
        for block in &group.blocks {
            unit.cells.extend(block.cells().map(|(cell, tag)| ((block.uid, cell), tag)));
        }
    }
    units
}

/// Checks a container after a power cut and `recover`. Everything that was flushed is there. Each unit that was not
/// flushed is there as a whole or not at all. Writers keep to separate cells, so only later units of the same writer
/// may hide a unit.
fn check_wholeness(c: &Container, history: &History, flushed: &State, what: &dyn Fn() -> String) {
    let steps: BTreeSet<u64> = c.snapshot().steps.iter().collect();
    assert!(steps.is_superset(&flushed.steps), "{}: steps {steps:?}, flushed {:?}", what(), flushed.steps);
    let states: Vec<&State> = history.states.iter().chain(&history.doubt.next).collect();
    let names: Vec<String> = c.schema().names.keys().cloned().collect();
    let schema = states
        .iter()
        .find(|s| s.vars.keys().eq(&names))
        .unwrap_or_else(|| panic!("{}: variables {names:?} at no time", what()));
    // Whether it existed and was then removed by an operation of the history.
    let deleted = |uid: u32| states.last().is_some_and(|s| s.var(uid).is_none());
    let units = units(history);
    // The shown tags, by (variable, step, cell).
    let mut shown: BTreeMap<(u32, Option<u64>, Vec<u64>), i64> = BTreeMap::new();
    for (path, var) in &schema.vars {
        let reading = c.reading(path, None).unwrap();
        let shape = reading.shape();
        let tags = read_tags(c, path, var.kind).unwrap_or_else(|e| panic!("{}: reading {path}: {e}", what()));
        let cells = crate::history::model::Block {
            put: 0,
            uid: var.uid,
            offset: vec![0; var.shape.len()],
            count: shape[usize::from(var.steps)..].to_vec(),
        };
        let mut found = tags.iter();
        for step in 0..if var.steps { shape[0] } else { 1 } {
            for (at, _) in cells.cells() {
                let tag = *found.next().unwrap();
                if tag != var.kind.fill() {
                    shown.insert((var.uid, var.steps.then_some(step), at), tag);
                }
            }
        }
    }
    // Every shown tag must belong to a unit that put it there.
    let mut visible = vec![false; units.len()];
    for ((uid, step, at), tag) in &shown {
        let of = units.iter().position(|u| u.step == *step && u.cells.get(&(*uid, at.clone())) == Some(tag));
        let of = of.unwrap_or_else(|| panic!("{}: variable {uid} at {step:?} {at:?} shows {tag}", what()));
        visible[of] = true;
    }
    for (number, unit) in units.iter().enumerate() {
        assert!(!visible[number] || unit.writers.len() as u32 == unit.nranks, "{}: half a step", what());
        let hidden = units.iter().enumerate().any(|(n, u)| u.replace && u.step == unit.step && n != number);
        for ((uid, at), tag) in &unit.cells {
            let there = schema.var(*uid).is_some();
            let shows = shown.get(&(*uid, unit.step, at.clone()));
            let later = |t: &i64| {
                units.iter().any(|u| {
                    // Among writers without ranks the one with the greater id may win; a writer that is opened again
                    // has another id.
                    (u.at > unit.at || u.order != unit.order)
                        && u.step == unit.step
                        && u.cells.get(&(*uid, at.clone())) == Some(t)
                })
            };
            let fine = shows == Some(tag) || shows.is_some_and(later);
            if visible[number] && !fine {
                assert!(
                    !there && deleted(*uid),
                    "{}: of what was closed as number {number}, variable {uid} at {:?} {at:?} is not there: {shows:?} for {tag}",
                    what(),
                    unit.step
                );
            }
            let promised = flushed.cells.get(&(*uid, unit.step)).and_then(|c| c.get(at)) == Some(tag);
            if promised && there && !fine {
                assert!(
                    hidden && shows.is_none(),
                    "{}: variable {uid} at {:?} {at:?} was flushed as {tag} and is {shows:?}",
                    what(),
                    unit.step
                );
            }
        }
    }
}

/// `None` if the container does not exist, which is permitted as long as nothing was flushed.
fn after_power_cut(left: &MemoryStore, flushed: usize, what: &dyn Fn() -> String) -> Option<Container> {
    match Container::open(Arc::new(left.clone()), Mode::ReadWrite) {
        Ok(c) => Some(c),
        Err(e) => {
            let lost = matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound);
            assert!(lost && flushed == 0, "{}: {:?}: {e}", what(), e.kind());
            None
        }
    }
}

#[test]
fn a_power_cut_of_an_async_container_leaves_what_was_flushed_and_nothing_half() {
    let mut cuts = 0;
    for plan in plans(Durability::Async, if long() { 300 } else { 48 }, 16, true) {
        let total = changes(plan);
        let stride = if long() { 2 } else { 7 };
        for change in (plan.seed % stride..total).step_by(stride as usize) {
            let store = faulty(Script::seeded(plan.seed * 1000 + change).at(change, Fault::Crash));
            let (history, _) = History::run(store.clone(), plan);
            let Some(history) = history else { continue };
            for seed in 0..4 {
                store.power_cut(seed);
                let left = store.survivor();
                cuts += 1;
                let what = || {
                    let log = &history.log;
                    format!(
                        "power cut {seed} at change {change} of {plan:?}, flushed {} after {log:?}",
                        history.flushed
                    )
                };
                let Some(c) = after_power_cut(&left, history.flushed, &what) else { continue };
                let version = c.snapshot().version() as usize;
                assert!(version >= history.flushed, "{}: fell back to {version}", what());
                expect(&c, state_at(&history, &c, &what), version > history.flushed, &what);
                let flushed = &history.states[history.flushed];
                let report =
                    c.recover(&Adopt::All, &[]).unwrap_or_else(|e| panic!("{}: recover: {e}", what()));
                check_wholeness(&c, &history, flushed, &|| format!("recovered {report:?} after {}", what()));
                // Earlier snapshots may be damaged if they were not flushed.
                let lost = |key: &str| {
                    (history.flushed + 1..=version.max(history.states.len()))
                        .any(|v| key == keys::manifest(v as u64))
                };
                let mut damage = c.verify(&mut |_, _| true).unwrap().damage;
                damage.retain(|d| !lost(&d.key));
                assert!(damage.is_empty(), "{}: {damage:?}", what());
                // Recovered steps stay, and a new run continues.
                let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
                let step = w.begin_step(None, false).unwrap();
                assert_eq!(step, c.snapshot().step_axis(), "{}", what());
                w.end_step().unwrap();
                w.close().unwrap();
                let again = Container::open(Arc::new(left.clone()), Mode::Read).unwrap();
                assert_eq!(again.snapshot().version(), c.snapshot().version(), "{}", what());
                assert_eq!(again.snapshot().steps.last(), Some(step), "{}", what());
                check_wholeness(&again, &history, flushed, &|| format!("opened again after {}", what()));
            }
        }
    }
    println!("{cuts} power cuts");
}

#[test]
fn a_request_that_fails_or_loses_its_reply_loses_nothing() {
    let mut faults = 0;
    for durability in [Durability::Async, Durability::Durable] {
        for plan in plans(durability, if long() { 60 } else { 4 }, 12, false) {
            let total = changes(plan);
            for fault in [Fault::Fail, Fault::LostReply, Fault::NoSpace] {
                let stride = if long() { 1 } else { 4 };
                for change in (plan.seed % stride..total).step_by(stride as usize) {
                    let store = faulty(Script::seeded(plan.seed).at(change, fault));
                    let (history, error) = History::run(store.clone(), plan);
                    let what = || {
                        let log = history.as_ref().map(|h| &h.log);
                        format!("{fault:?} at change {change} of {plan:?} after {log:?}: {error:?}")
                    };
                    if let Some(error) = &error {
                        assert_eq!(error.kind(), ErrorKind::Io, "{}", what());
                        assert!(error.to_string().contains("memory store"), "it names no place: {}", what());
                    }
                    let Some(history) = &history else { continue };
                    faults += 1;
                    check_promises(store.survivor(), history, &what, change % 2 == 0);
                }
            }
        }
    }
    println!("{faults} faults");
}

#[test]
fn a_lost_reply_to_a_manifest_is_one_commit() {
    for durability in [Durability::Async, Durability::Durable] {
        let plan = Plan { seed: 7, durability, nranks: 1, operations: 32, apart: false };
        let total = changes(plan);
        let mut settled = 0;
        for change in 0..total {
            let store = faulty(Script::seeded(1).at(change, Fault::LostReply));
            let (history, error) = History::run(store.clone(), plan);
            let Some(history) = history else { continue };
            if error.is_none() {
                settled += 1;
                let c = Container::open(store, Mode::Read).unwrap();
                assert_eq!(c.snapshots().unwrap().len(), history.states.len() - 1, "{:?}", history.log);
                expect(&c, history.now(), false, &|| format!("lost reply {change}: {:?}", history.log));
            }
        }
        assert!(settled >= 20, "only {settled} of {total} lost replies were settled");
    }
}

#[test]
fn a_full_medium_is_reported_and_commits_stay() {
    for plan in plans(Durability::Async, if long() { 40 } else { 6 }, 12, false) {
        for room in (0..if long() { 60 } else { 12 }).map(|i| 500 + i * i * 60) {
            let store = faulty(Script::seeded(plan.seed).with_space(room));
            let (history, error) = History::run(store.clone(), plan);
            let what = || format!("{room} bytes of room for {plan:?}: {error:?}");
            if let Some(error) = &error {
                assert_eq!(error.kind(), ErrorKind::Io, "{}", what());
                assert!(error.to_string().contains("no space"), "{}", what());
            }
            let Some(history) = &history else { continue };
            // While it is full, it can still be opened and read.
            let c = Container::open(store.clone(), Mode::Read).unwrap();
            expect(&c, state_at(history, &c, &what), false, &what);
            check_promises(store.survivor(), history, &what, room % 2 == 0);
        }
    }
}

#[test]
fn a_recovery_that_dies_can_be_repeated() {
    let mut kills = 0;
    for durability in [Durability::Async, Durability::Durable] {
        for plan in plans(durability, if long() { 40 } else { 6 }, 14, false) {
            let total = changes(plan);
            for change in (total / 3..total).step_by(if long() { 3 } else { 17 }) {
                let store = faulty(Script::seeded(plan.seed).at(change, Fault::Crash));
                let (history, _) = History::run(store.clone(), plan);
                let Some(history) = history else { continue };
                let left = store.survivor();
                for second in 0.. {
                    let again = FaultStore::new(copy(&left), Script::seeded(second).at(second, Fault::Crash));
                    let again = Arc::new(again.unwrap());
                    let c = Container::open(again.clone(), Mode::ReadWrite).unwrap();
                    let done = c.recover(&Adopt::All, &[]);
                    let finished = done.is_ok() && again.changes() <= second;
                    if finished {
                        break;
                    }
                    kills += 1;
                    let what =
                        || format!("killed in recovery at {second} after {change} of {plan:?}: {done:?}");
                    let found = Container::open(Arc::new(again.survivor()), Mode::ReadWrite).unwrap();
                    let steps = |c: &Container| c.snapshot().steps.iter().collect::<Vec<_>>();
                    found.recover(&Adopt::All, &[]).unwrap_or_else(|e| panic!("{}: {e}", what()));
                    let whole = Container::open(Arc::new(copy(&left)), Mode::ReadWrite).unwrap();
                    whole.recover(&Adopt::All, &[]).unwrap();
                    assert_eq!(steps(&found), steps(&whole), "{}", what());
                    let state = state_at(
                        &history,
                        &Container::open(Arc::new(copy(&left)), Mode::Read).unwrap(),
                        &what,
                    );
                    for (path, var) in &state.vars {
                        let read = |c: &Container| read_tags(c, path, var.kind).unwrap();
                        assert_eq!(read(&found), read(&whole), "{}", what());
                    }
                }
            }
        }
    }
    println!("{kills} kills");
}

fn copy(store: &MemoryStore) -> MemoryStore {
    let out = MemoryStore::new();
    for item in store.list("").unwrap() {
        out.put(&item.key, &[&store.read_all(&item.key, u64::MAX).unwrap()], PutMode::Replace, false)
            .unwrap();
    }
    out
}

fn put_row(w: &Writer, row: u64, value: f32) {
    let data = bytes(&[value; 4]);
    w.put("t", &f4(), &dense(&data, &[1, 4], 4), Some(&[row, 0]), None).unwrap();
}

fn ranks(c: &Container, nranks: u32) -> Vec<Writer> {
    (0..nranks)
        .map(|r| c.writer(WriterOptions { rank: Some((r, nranks)), ..WriterOptions::default() }).unwrap())
        .collect()
}

/// Symptom: after `recover(discard)` and a power cut, steps of the dead run reappeared among those of the next one,
/// and older values won where they overlapped. Cause: the commit that fenced the dead run was not flushed, so the
/// records of both runs were adopted together, compared by rank. Here the power fails right after the new run's step.
#[test]
fn a_fence_outlives_a_power_cut() {
    for seed in 0..40 {
        let store = faulty(Script::seeded(seed));
        let c = Container::create(
            store.clone(),
            CreateOptions { durability: Durability::Async, ..CreateOptions::default() },
        )
        .unwrap();
        c.apply(vec![create("t", f4(), &[4, 4], |v| v.steps = true)]).unwrap();
        let old = ranks(&c, 2);
        for step in 0..2 {
            for (row, w) in old.iter().enumerate() {
                w.begin_step(Some(step), false).unwrap();
                put_row(w, row as u64, 1.0);
                put_row(w, 2 + row as u64, 1.0);
                w.end_step().unwrap();
            }
            if step == 0 {
                c.commit().unwrap();
            }
        }
        c.flush().unwrap(); // step 1 is not committed, but its bytes are on the disk
        assert_eq!(c.recover(&Adopt::None, &[]).unwrap().discarded, [1]);
        let new = ranks(&c, 1);
        new[0].begin_step(Some(1), false).unwrap();
        put_row(&new[0], 1, 2.0);
        new[0].end_step().unwrap();
        store.power_cut(seed);
        let c = Container::open(Arc::new(store.survivor()), Mode::ReadWrite).unwrap();
        c.recover(&Adopt::All, &[]).unwrap();
        let all = floats(&crate::common::read_all(&c, "t"));
        assert!(all[..16].iter().all(|v| *v == 1.0), "step 0 was flushed");
        assert!(!all[16..].contains(&1.0), "the dead run is back: {all:?}");
    }
}

/// Symptom: steps of a process that outlived a recovery vanished without an error. Cause: their groups are fenced,
/// and a commit that takes nothing is not itself an error.
#[test]
fn a_fenced_writer_gets_an_error() {
    let c = crate::common::memory();
    c.apply(vec![create("t", f4(), &[4, 4], |v| v.steps = true)]).unwrap();
    let zombie = ranks(&c, 1).remove(0);
    c.recover(&Adopt::All, &[]).unwrap();
    zombie.begin_step(None, false).unwrap();
    put_row(&zombie, 0, 1.0);
    let error = zombie.end_step().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("open another writer"), "{error}");
    assert_eq!(c.snapshot().step_axis(), 0);
}

/// Symptom: after one aborted step of many blocks, manifests grew with every commit until none fitted. Cause: the
/// number of the aborted group was never settled, so each later group of the writer was listed as adopted ahead of
/// it.
#[test]
fn an_aborted_step_of_many_blocks_leaves_no_trace() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    c.apply(vec![create("t", f4(), &[4, 4], |v| v.steps = true)]).unwrap();
    let w = ranks(&c, 1).remove(0);
    w.begin_step(None, false).unwrap();
    for i in 0..8200 {
        put_row(&w, i % 4, 9.0);
    }
    w.abort_step().unwrap();
    let mut last = 0;
    for step in 0..60 {
        w.begin_step(None, false).unwrap();
        put_row(&w, step % 4, step as f32);
        let done = w.end_step().unwrap().unwrap();
        assert_eq!(done.snapshot.step_axis(), step + 1);
        last = done.snapshot.version();
    }
    assert_eq!(crate::common::floats(&crate::common::read_all(&c, "t"))[59 * 16 + 12], 59.0);
    let manifest = store.read_all(&keys::manifest(last), 1 << 20).unwrap();
    assert_eq!(Manifest::decode(&manifest).unwrap().ahead, []);
}
