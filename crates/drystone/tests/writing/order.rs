//! The newest write wins where blocks overlap: what a writer commits by itself is not overtaken by steps that other
//! writers closed before it and that wait for a commit.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use drystone::{Adopt, Container, CreateOptions, Durability, ErrorKind, Mode, Writer, WriterOptions};
use drystone_format::frame::{self, Next};
use drystone_format::keys;
use drystone_store::{
    Counters, CountingStore, Fault, FaultStore, MemoryStore, NoAppendStore, PutMode, Script, Store, StoreExt,
};

use crate::common::{bytes, create, dense, f4, floats, read_all};

/// The order of writers without ranks is random where the time of closing does not count.
const ROUNDS: usize = 6;

fn made(store: Arc<dyn Store>, durability: Durability) -> Container {
    let c = Container::create(store, CreateOptions { durability, ..CreateOptions::default() }).unwrap();
    let steps = create("t", f4(), &[4], |v| v.steps = true);
    c.apply(vec![steps, create("once", f4(), &[4], |_| {})]).unwrap();
    c
}

fn free(c: &Container) -> Writer {
    c.writer(WriterOptions::default()).unwrap()
}

fn ranked(c: &Container, rank: u32, nranks: u32) -> Writer {
    c.writer(WriterOptions { rank: Some((rank, nranks)), ..WriterOptions::default() }).unwrap()
}

/// Puts one value into `count` cells from `first` on, and leaves the step open.
fn put(w: &Writer, step: u64, value: f32, (first, count): (u64, usize), replace: bool) {
    w.begin_step(Some(step), replace).unwrap();
    w.put("t", &f4(), &dense(&bytes(&vec![value; count]), &[count as u64], 4), Some(&[first]), None).unwrap();
}

/// Closes a step with one value in all cells.
fn close(w: &Writer, step: u64, value: f32) {
    put(w, step, value, (0, 4), false);
    w.end_step().unwrap();
}

fn shown(c: &Container, step: u64) -> Vec<f32> {
    c.refresh().unwrap();
    floats(&read_all(c, "t"))[step as usize * 4..][..4].to_vec()
}

/// Checks that a commit changes nothing of a step, so that nothing older waits for it.
fn stays(c: &Container, step: u64, values: [f32; 4]) {
    assert_eq!(shown(c, step), values);
    c.commit().unwrap();
    assert_eq!(shown(c, step), values, "after another commit");
    assert_eq!(c.verify(&mut |_, _| true).unwrap().damage, []);
}

fn stores() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(NoAppendStore::new(MemoryStore::new()))]
}

/// Symptom: the older value of a cell showed. Cause: a writer that commits its own step took nothing else, so a step
/// that another writer had closed before got a later commit, and its values won.
#[test]
fn an_own_commit_takes_what_others_closed_of_the_step_before() {
    for durability in [Durability::Async, Durability::Durable] {
        for store in stores() {
            let c = made(store, durability);
            let (a, b) = (free(&c), ranked(&c, 0, 1));
            close(&a, 0, 1.0);
            close(&a, 1, 1.0);
            put(&b, 0, 2.0, (1, 2), false);
            let done = b.end_step().unwrap().unwrap();
            assert_eq!(done.snapshot.steps.iter().collect::<Vec<_>>(), [0], "other steps go on waiting");
            stays(&c, 0, [1.0, 2.0, 2.0, 1.0]);
            assert_eq!(shown(&c, 1), [1.0; 4]);
            // The next step of the same writers: one waits on, and another is taken out of order.
            close(&a, 2, 3.0);
            close(&a, 3, 3.0);
            close(&b, 3, 4.0);
            stays(&c, 3, [4.0; 4]);
            assert_eq!(shown(&c, 2), [3.0; 4]);
        }
    }
}

#[test]
fn an_own_commit_orders_several_writers_by_closing() {
    for _ in 0..ROUNDS {
        let c = made(Arc::new(MemoryStore::new()), Durability::Async);
        let (a, b, own) = (free(&c), free(&c), ranked(&c, 0, 1));
        for (n, w) in [&a, &b, &a, &b].into_iter().enumerate() {
            put(w, 0, n as f32 + 1.0, (0, 4 - n), false);
            w.end_step().unwrap();
        }
        put(&own, 0, 5.0, (0, 1), false);
        own.end_step().unwrap();
        stays(&c, 0, [5.0, 3.0, 2.0, 1.0]);
    }
}

#[test]
fn an_own_commit_of_another_handle_takes_older_steps() {
    for _ in 0..ROUNDS {
        let store = Arc::new(MemoryStore::new());
        let first = made(store.clone(), Durability::Async);
        let second = Container::open(store, Mode::ReadWrite).unwrap();
        let own = ranked(&second, 0, 1);
        close(&free(&first), 0, 1.0);
        close(&own, 0, 2.0);
        stays(&first, 0, [2.0; 4]);
    }
}

/// Symptom: the older value of a cell showed. Cause: as above, with a step that an earlier program had left.
#[test]
fn an_own_commit_takes_what_an_earlier_program_left_of_the_step() {
    for store in stores() {
        let c = made(store.clone(), Durability::Async);
        let (a, b) = (free(&c), free(&c));
        close(&a, 0, 1.0);
        close(&b, 1, 1.0);
        a.close().unwrap();
        b.close().unwrap();
        drop((a, b, c));
        let c = Container::open(store, Mode::ReadWrite).unwrap();
        let own = ranked(&c, 0, 1);
        close(&own, 0, 2.0);
        stays(&c, 0, [2.0; 4]);
        assert_eq!(shown(&c, 1), [1.0; 4]);
    }
}

#[test]
fn a_step_whose_own_commit_failed_is_older_than_what_follows() {
    let store = Arc::new(FaultStore::in_memory(Script::default()));
    drop(made(store.clone(), Durability::Async));
    let before = store.changes();
    for change in 0..8 {
        let script = Script::default().at(before + change, Fault::Fail);
        let store = Arc::new(FaultStore::in_memory(script));
        let c = made(store.clone(), Durability::Async);
        let a = ranked(&c, 0, 1);
        put(&a, 0, 1.0, (0, 4), false);
        let failed = a.end_step().is_err();
        let _ = a.close(); // its end may be what fails
        let again = Container::open(store, Mode::ReadWrite).unwrap();
        let Ok(b) = again.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }) else {
            assert!(failed, "change {change}");
            continue;
        };
        put(&b, 0, 2.0, (0, 2), false);
        if b.end_step().is_err() {
            continue; // the change that fails is one of the second writer
        }
        let rest = floats(&read_all(&again, "t"))[2];
        assert!(failed || rest == 1.0);
        stays(&again, 0, [2.0, 2.0, rest, rest]);
    }
}

#[test]
fn an_own_commit_takes_the_step_of_a_team_only_if_every_rank_has_closed_it() {
    for complete in [false, true] {
        for other_process in [false, true] {
            let store = Arc::new(MemoryStore::new());
            let c = made(store.clone(), Durability::Async);
            let own =
                c.writer(WriterOptions { rank: Some((0, 1)), run: Some(7), ..Default::default() }).unwrap();
            let team = [ranked(&c, 0, 2), ranked(&c, 1, 2)];
            put(&team[0], 0, 1.0, (0, 3), false);
            put(&team[1], 0, 2.0, (2, 2), false);
            team[0].end_step().unwrap();
            if complete {
                team[1].end_step().unwrap();
            }
            if other_process {
                close(&free(&c), 0, 0.5); // closed later than the team, if that is complete
            }
            put(&own, 0, 3.0, (0, 1), false);
            let done = own.end_step().unwrap().unwrap();
            assert!(done.changed && done.incomplete.is_empty());
            let below = if other_process { [0.5; 3] } else { [1.0, 2.0, 2.0] };
            if complete {
                stays(&c, 0, [3.0, below[0], below[1], below[2]]);
                continue;
            }
            // The team is not complete: it stays invisible, and closes its step later than the own commit.
            let fill = if other_process { 0.5 } else { 0.0 };
            assert_eq!(shown(&c, 0), [3.0, fill, fill, fill]);
            assert_eq!(c.commit().unwrap().incomplete.len(), 1);
            team[1].end_step().unwrap();
            c.commit().unwrap();
            stays(&c, 0, [1.0, 1.0, 2.0, 2.0]);
        }
    }
}

/// A team is closed when its last rank is, and a later own commit takes it although an earlier one could not.
#[test]
fn a_team_that_an_own_commit_left_is_taken_by_a_later_one() {
    let c = made(Arc::new(MemoryStore::new()), Durability::Async);
    let own = c.writer(WriterOptions { rank: Some((0, 1)), run: Some(7), ..Default::default() }).unwrap();
    let team = [ranked(&c, 0, 2), ranked(&c, 1, 2)];
    close(&team[0], 0, 1.0);
    close(&own, 0, 2.0);
    close(&team[1], 0, 3.0);
    put(&own, 0, 4.0, (0, 1), false);
    own.end_step().unwrap();
    stays(&c, 0, [4.0, 3.0, 3.0, 3.0]);
}

#[test]
fn ranks_in_doubt_do_not_stop_an_own_commit() {
    let c = made(Arc::new(MemoryStore::new()), Durability::Async);
    let own = c.writer(WriterOptions { rank: Some((0, 1)), run: Some(7), ..Default::default() }).unwrap();
    let twice = [ranked(&c, 0, 2), ranked(&c, 0, 2)];
    twice.iter().for_each(|w| close(w, 0, 1.0));
    close(&own, 0, 2.0);
    assert_eq!(shown(&c, 0), [2.0; 4]);
    assert_eq!(c.commit().unwrap_err().kind(), ErrorKind::Conflict);
    c.recover(&Adopt::All, &[]).unwrap();
    stays(&c, 0, [2.0; 4]);
}

#[test]
fn replacements_hide_what_was_closed_before_them_and_nothing_else() {
    for (older, newer) in [(true, false), (false, true), (true, true)] {
        for _ in 0..ROUNDS {
            let c = made(Arc::new(MemoryStore::new()), Durability::Async);
            let (a, own) = (free(&c), ranked(&c, 0, 1));
            close(&own, 0, 1.0);
            put(&a, 0, 2.0, (0, 2), older);
            a.end_step().unwrap();
            put(&own, 0, 3.0, (1, 2), newer);
            own.end_step().unwrap();
            let expected = match (older, newer) {
                (_, true) => [0.0, 3.0, 3.0, 0.0],
                (true, false) => [2.0, 3.0, 3.0, 0.0],
                (false, false) => [2.0, 3.0, 3.0, 1.0],
            };
            stays(&c, 0, expected);
        }
    }
}

/// The logs are listed only if another writer of the process is known to have closed the same step.
#[test]
fn an_own_commit_of_a_step_that_nobody_else_closed_makes_no_further_request() {
    let requests = |others: &[u64]| {
        let store = Arc::new(CountingStore::new(MemoryStore::new()));
        let c = made(store.clone(), Durability::Async);
        let (a, own) = (free(&c), ranked(&c, 0, 1));
        close(&own, 0, 1.0);
        others.iter().for_each(|step| close(&a, *step, 2.0));
        put(&own, 1, 3.0, (0, 4), false);
        let before = store.counters();
        own.end_step().unwrap();
        let taken = store.counters() - before;
        let before = store.counters();
        close(&own, 1, 4.0);
        (taken, store.counters() - before)
    };
    let (alone, again) = requests(&[]);
    assert_eq!(alone.lists, 0, "{alone}");
    let (apart, _) = requests(&[0, 2, 3]);
    let made = |n: Counters| (n.lists, n.lens, n.reads, n.appends, n.puts, n.deletes, n.syncs);
    assert_eq!(made(apart), made(alone));
    let (joined, after) = requests(&[1]);
    assert_eq!(joined.lists, 1, "{joined}");
    assert_eq!(after.lists, 0, "what was taken is forgotten: {after}");
    assert_eq!(after.reads, again.reads, "{after}");
}

/// Damage in another writer's log is a warning, not an error of the writer that ends its step.
#[test]
fn a_damaged_log_of_another_writer_does_not_stop_an_own_commit() {
    for durability in [Durability::Async, Durability::Durable] {
        let store = Arc::new(MemoryStore::new());
        let c = made(store.clone(), durability);
        let (a, own) = (free(&c), ranked(&c, 0, 1));
        close(&a, 0, 1.0);
        close(&a, 1, 1.0);
        let key = keys::idx(a.id(), 0);
        let mut bytes = store.read_all(&key, 1 << 20).unwrap();
        let Next::Frame { end, .. } = frame::next(&bytes, 0, 0) else {
            panic!("a log begins with its header")
        };
        bytes[end as usize + 40] ^= 0xFF; // in the first step record; a valid one follows
        store.put(&key, &[&bytes], PutMode::Replace, true).unwrap();
        close(&own, 0, 2.0);
        assert_eq!(shown(&c, 0), [2.0; 4], "{durability:?}");
        assert!(c.take_warnings().iter().any(|warning| warning.contains("damaged")), "{durability:?}");
    }
}

/// Values without a step of which the commit failed are older than those of a writer that follows.
#[test]
fn values_without_a_step_keep_the_order_of_closing_after_a_failed_commit() {
    let put_once = |c: &Container, value: f32, count: usize| {
        let w = free(c);
        let values = bytes(&vec![value; count]);
        w.put("once", &f4(), &dense(&values, &[count as u64], 4), None, None).unwrap();
        w
    };
    let store = Arc::new(FaultStore::in_memory(Script::default()));
    let c = made(store.clone(), Durability::Async);
    let before = store.changes();
    put_once(&c, 1.0, 4).close().unwrap();
    let mut failures = 0;
    for change in before..store.changes() {
        let store = Arc::new(FaultStore::in_memory(Script::default().at(change, Fault::Fail)));
        let c = made(store, Durability::Async);
        let first = put_once(&c, 1.0, 4);
        failures += u32::from(first.close().is_err());
        put_once(&c, 2.0, 2).close().unwrap();
        let rest = floats(&read_all(&c, "once"))[3];
        assert_eq!(floats(&read_all(&c, "once")), [2.0, 2.0, rest, rest]);
        c.commit().unwrap();
        assert_eq!(floats(&read_all(&c, "once"))[..2], [2.0, 2.0], "change {change}");
    }
    assert!(failures > 0);
}

/// Sealed values wait for the commit that names their writers, and no other writer's commit takes a part of them.
#[test]
fn an_own_commit_leaves_sealed_values_to_their_commit() {
    let c = made(Arc::new(MemoryStore::new()), Durability::Async);
    let once = |first: u64, value: f32| {
        let w = free(&c);
        w.put("once", &f4(), &dense(&bytes(&[value; 2]), &[2], 4), Some(&[first]), None).unwrap();
        w
    };
    let sealed = [once(0, 1.0), once(2, 1.0)];
    sealed.iter().for_each(|w| w.seal().unwrap());
    once(1, 2.0).close().unwrap();
    assert_eq!(floats(&read_all(&c, "once")), [0.0, 2.0, 2.0, 0.0]);
    assert!(c.commit_sealed(&sealed.map(|w| w.id()), |_, _| Ok(false)).unwrap().changed);
}
