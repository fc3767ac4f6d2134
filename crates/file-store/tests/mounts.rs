//! Mounts of the same files: what each shows, that they agree, and what remains of one that was killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drystone_file_store::files::{Body, Owner, ROOT, SetAttrs, TimeChange};
use drystone_file_store::{Access, Failure, Files, Life, Registry, Seen};
use drystone_store::{Fault, FaultStore, LocalStore, MemoryStore, Script, Store};
use proptest::prelude::*;

const OWNER: Owner = Owner { uid: 1, gid: 1 };

/// Registrations in these tests: `me` or `me 17`, and `dead` once the process has ended. A process that is `away` may
/// live.
const REGISTRY: Registry = Registry {
    text: |alone| alone.map_or("me".into(), |count| format!("me {count}")),
    look: |text| {
        let (name, count) = text.split_once(' ').unwrap_or((text, ""));
        let life = match name {
            "dead" => Life::Ended,
            "away" => Life::Unknown,
            _ => Life::Lives,
        };
        Seen { life, alone: count.parse().ok(), collects: name == "gc" }
    },
    lease: Duration::from_millis(300),
};

fn write_access() -> Access {
    Access::Write { registry: REGISTRY, owner: OWNER, alone: false }
}

fn open(store: &Arc<dyn Store>) -> Arc<Files> {
    Files::open(store.clone(), [7; 16], false, write_access()).expect("the files open")
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Makes a mount do nothing more, as if its process were gone.
fn kill(files: Arc<Files>) {
    std::mem::forget(files);
}

fn content(files: &Files, ino: u64) -> Vec<u8> {
    let mut out = vec![0xEE; files.stat(ino).expect("the file is there").size as usize + 10];
    let len = files.read(ino, 0, &mut out).expect("its bytes are sound");
    out.truncate(len);
    out
}

fn ino(files: &Files, name: &[u8]) -> u64 {
    match files.make(ROOT, name, Body::File, 0o644, OWNER) {
        Ok(stat) => stat.ino,
        Err(_) => files.entry(ROOT, name).expect("it is there").ino,
    }
}

#[derive(Debug, Clone)]
enum Act {
    Write(u8, u16, u16),
    Append(u8, u16),
    Cut(u8, u16),
    Zero(u8, u16, u16),
    Commit(u8),
    Remove(u8),
    Rename(u8, u8),
    Reopen,
    Other,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0u8..3, 0u16..40000, 1u16..30000).prop_map(|(f, a, l)| Act::Write(f, a, l)),
        2 => (0u8..3, 1u16..20000).prop_map(|(f, l)| Act::Append(f, l)),
        2 => (0u8..3, 0u16..50000).prop_map(|(f, s)| Act::Cut(f, s)),
        1 => (0u8..3, 0u16..40000, 1u16..30000).prop_map(|(f, a, l)| Act::Zero(f, a, l)),
        2 => (0u8..3).prop_map(Act::Commit),
        1 => (0u8..3).prop_map(Act::Remove),
        1 => (0u8..3, 0u8..3).prop_map(|(a, b)| Act::Rename(a, b)),
        1 => Just(Act::Reopen),
        3 => Just(Act::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn two_mounts_show_what_arrays_of_bytes_show(acts in prop::collection::vec(act(), 1..60)) {
        let store = memory();
        let (mut files, mut other) = (open(&store), open(&store));
        let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for (number, act) in acts.into_iter().enumerate() {
            let name = |f: u8| vec![b'a' + f];
            let value = (number % 250) as u8 + 1;
            match act {
                Act::Write(f, at, len) => {
                    let bytes = vec![value; len as usize];
                    let handle = files.open_file(ino(&files, &name(f))).expect("it opens");
                    files.write(&handle, Some(at.into()), &bytes).expect("it is written");
                    // The other mount sees the file after it is closed.
                    files.close(&handle).expect("it closes");
                    let all = model.entry(name(f)).or_default();
                    let end = (at as usize) + bytes.len();
                    all.resize(all.len().max(end), 0);
                    all[at as usize..end].copy_from_slice(&bytes);
                }
                Act::Append(f, len) => {
                    let handle = files.open_file(ino(&files, &name(f))).expect("it opens");
                    files.write(&handle, None, &vec![value; len as usize]).expect("it is written");
                    files.close(&handle).expect("it closes");
                    model.entry(name(f)).or_default().extend(vec![value; len as usize]);
                }
                Act::Cut(f, size) => {
                    files.set(ino(&files, &name(f)), SetAttrs::default(), Some(size.into())).expect("it is cut");
                    model.entry(name(f)).or_default().resize(size.into(), 0);
                }
                Act::Zero(f, at, len) => {
                    files.zero(ino(&files, &name(f)), at.into(), len.into(), true).expect("it is zeroed");
                    let all = model.entry(name(f)).or_default();
                    let end = at as usize + len as usize;
                    all.resize(all.len().max(end), 0);
                    all[at as usize..end].fill(0);
                }
                Act::Commit(f) => {
                    let ino = ino(&files, &name(f));
                    files.sync(Some(ino)).expect("it is synced");
                    model.entry(name(f)).or_default();
                }
                Act::Remove(f) => {
                    let gone = model.remove(&name(f)).is_some();
                    prop_assert_eq!(files.remove(ROOT, &name(f), false).is_ok(), gone);
                }
                Act::Rename(a, b) => {
                    let done = files.rename((ROOT, &name(a)), (ROOT, &name(b)), false, false).is_ok();
                    prop_assert_eq!(done, model.contains_key(&name(a)));
                    if a != b && let Some(bytes) = model.remove(&name(a)) {
                        model.insert(name(b), bytes);
                    }
                }
                Act::Reopen => {
                    files.shut().expect("it shuts");
                    kill(files);
                    files = open(&store);
                }
                Act::Other => std::mem::swap(&mut files, &mut other),
            }
            let shown: BTreeMap<Vec<u8>, Vec<u8>> = files
                .entries(ROOT)
                .expect("the root is there")
                .into_iter()
                .map(|(name, stat)| (name, content(&files, stat.ino)))
                .collect();
            prop_assert!(shown == model, "after act {}", number);
        }
        prop_assert_eq!(files.verify(&mut |_| true).expect("it can be verified"), vec![]);
    }
}

#[test]
fn a_read_sees_uncommitted_writes_of_its_mount() {
    let store = memory();
    let (files, other) = (open(&store), open(&store));
    let made = ino(&files, b"x");
    let handle = files.open_file(made).expect("it opens");
    files.write(&handle, Some(5), b"world").expect("it is written");
    assert_eq!(content(&files, made), b"\0\0\0\0\0world");
    assert_eq!(other.entry(ROOT, b"x").expect("it is there").size, 0);
    files.close(&handle).expect("it closes");
    assert_eq!(content(&other, other.entry(ROOT, b"x").expect("it is there").ino), b"\0\0\0\0\0world");
}

#[test]
fn an_open_file_shows_what_another_mount_commits() {
    // Programs on several nodes tell each other what they have synced, and read it with handles that they have open (in
    // MPI: sync, barrier, sync). Symptom: such reads showed the state of the time when the file was opened or last
    // looked up.
    let store = memory();
    let files = open(&store);
    let made = ino(&files, b"x");
    let handle = files.open_file(made).expect("it opens");
    let other = open(&store);
    let held = other.open_file(made).expect("it opens");
    for round in 1..5u8 {
        files.write(&handle, Some(u64::from(round)), &[round; 3]).expect("it is written");
        files.sync(Some(made)).expect("it is synced");
        let mut out = [0; 10];
        assert_eq!(other.read(held.ino(), 0, &mut out).expect("sound bytes"), usize::from(round) + 3);
        assert_eq!(out[usize::from(round)..][..3], [round; 3]);
    }
}

#[test]
fn a_file_without_a_name_stays_for_those_that_have_it_open() {
    let store = memory();
    let files = open(&store);
    let made = ino(&files, b"x");
    let handle = files.open_file(made).expect("it opens");
    files.write(&handle, Some(0), b"before").expect("it is written");
    files.remove(ROOT, b"x", false).expect("it is removed");
    files.write(&handle, Some(6), b" and after").expect("it is written");
    assert_eq!(content(&files, made), b"before and after");
    assert_eq!(files.stat(made).expect("it is open").links, 0);
    files.close(&handle).expect("it closes");
    assert_eq!(content(&files, made), b"before and after", "whoever looked it up may still open it");
    files.forget(made, 1);
    assert!(matches!(files.stat(made), Err(Failure::Stale)));
}

/// Symptom: bytes that were written to a removed file were gone a second later. Cause: a mount that fell behind reads the
/// journal again, and so removed the file again, as it had been then.
#[test]
fn a_removed_file_keeps_later_writes_while_other_mounts_are_busy() {
    let store = memory();
    let mounts = [open(&store), open(&store)];
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (files, name) in mounts.iter().zip([b"one", b"two"]) {
            let done = &done;
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    files.make(ROOT, name, Body::File, 0o644, OWNER).expect("it is made");
                    files.remove(ROOT, name, false).expect("it is removed");
                }
            });
        }
        let files = &mounts[0];
        let mut found = Vec::new();
        for _ in 0..10 {
            let made = ino(files, b"x");
            let handle = files.open_file(made).expect("it opens");
            files.write(&handle, Some(0), b"before").expect("it is written");
            files.remove(ROOT, b"x", false).expect("it is removed");
            files.write(&handle, Some(0), b"behind and longer").expect("it is written");
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_millis(150) {
                found.push(content(files, made));
            }
            files.close(&handle).expect("it closes");
            files.forget(made, 1);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(found.iter().all(|found| found == b"behind and longer"));
    });
}

/// Symptom: programs that append, or lock, were refused beside a garbage collection.
#[test]
fn a_garbage_collection_is_no_mount_that_changes_files() {
    let store = memory();
    let collector = Registry { text: |_| "gc".into(), ..REGISTRY };
    let before = open_as(&store, collector, false).expect("the collector opens");
    let files = open(&store);
    assert!(files.grants_locks());
    assert!(!files.is_shared().expect("it is known"));
    drop(before);
    let later = open_as(&store, collector, false).expect("the collector opens");
    assert!(!files.is_shared().expect("it is known"));
    let other = open(&store);
    assert!(files.is_shared().expect("it is known"));
    assert!(!other.grants_locks());
    assert!(matches!(open_as(&store, REGISTRY, true), Err(Failure::Taken { .. })));
    drop((later, other));
}

#[test]
fn only_committed_writes_survive_a_kill() {
    let store = memory();
    for round in 0..20u8 {
        let files = open(&store);
        let made = ino(&files, b"x");
        let handle = files.open_file(made).expect("it opens");
        files.write(&handle, Some(u64::from(round) * 3), &[round; 3]).expect("it is written");
        files.sync(Some(made)).expect("it is synced");
        files.write(&handle, Some(0), &[99; 100]).expect("it is written");
        kill(files);
        let again = open(&store);
        let all: Vec<u8> = (0..=round).flat_map(|i| [i; 3]).collect();
        let found = again.entry(ROOT, b"x").expect("it is there").ino;
        assert_eq!(content(&again, found), all);
        kill(again);
    }
}

#[test]
fn a_torn_end_of_the_journal_is_given_up_and_the_rest_goes_on() {
    let store = memory();
    let files = open(&store);
    let made = ino(&files, b"x");
    kill(files);
    let last = store
        .list("files/")
        .expect("memory")
        .into_iter()
        .rfind(|i| i.key.ends_with(".jnl"))
        .expect("a journal");
    store.append(&last.key, last.len, &[&[0x44; 20]]).expect("memory");
    let again = open(&store);
    assert_eq!(again.entry(ROOT, b"x").expect("it is there").ino, made);
    ino(&again, b"y");
    drop(again);
    let third = open(&store);
    assert_eq!(third.entries(ROOT).expect("the root").len(), 2);
}

#[test]
fn a_claim_of_a_dead_mount_delays_others_only_briefly() {
    let store = memory();
    let files = open(&store);
    ino(&files, b"x");
    store.put("files/000000000002.claim", &[], drystone_store::PutMode::IfAbsent, false).expect("memory");
    ino(&files, b"y");
    let other = open(&store);
    assert_eq!(other.entries(ROOT).expect("the root").len(), 2);
}

#[test]
fn one_of_many_concurrent_mounts_creates_each_name_and_all_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let store: Arc<dyn Store> = Arc::new(LocalStore::create(folder.path()).expect("a store"));
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let store = store.clone();
                scope.spawn(move || {
                    let files = open(&store);
                    let mut made = 0;
                    for number in 0..40 {
                        let name = format!("f{number}").into_bytes();
                        made += usize::from(files.make(ROOT, &name, Body::File, 0o644, OWNER).is_ok());
                        let ino = files.entry(ROOT, &name).expect("somebody made it").ino;
                        let handle = files.open_file(ino).expect("it opens");
                        files.write(&handle, None, b"x").expect("it is written");
                        files.close(&handle).expect("it closes");
                    }
                    made
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(made, 40);
    let files = open(&store);
    assert_eq!(files.usage().expect("it can be counted").files, 40);
    assert_eq!(files.verify(&mut |_| true).expect("it can be verified"), vec![]);
}

#[test]
fn a_long_journal_is_followed_by_a_whole_state_and_old_ones_go() {
    let store = memory();
    let files = open(&store);
    let other = open(&store);
    let made = ino(&files, b"x");
    let long = vec![b'v'; 60000];
    for number in 0..400u32 {
        files.set_attribute(made, b"user.a", Some(&long), (false, false)).expect("it is set");
        if number % 100 == 0 {
            other
                .set_attribute(made, b"user.b", Some(&number.to_le_bytes()), (false, false))
                .expect("it is set");
        }
    }
    let journals =
        store.list("files/").expect("memory").into_iter().filter(|i| i.key.ends_with(".jnl")).count();
    assert!(journals <= 4, "{journals} journals");
    assert_eq!(other.attributes(made).expect("it is there").len(), 2);
    let reader = Files::open(store.clone(), [7; 16], false, Access::Read).expect("it opens");
    assert_eq!(reader.attributes(made).expect("it is there")[1].1, 300u32.to_le_bytes());
    assert!(matches!(reader.remove(ROOT, b"x", false), Err(Failure::ReadOnly)));
}

#[test]
fn logs_that_nothing_needs_are_collected_and_others_stay() {
    let store = memory();
    let files = open(&store);
    for name in [b"a", b"b"] {
        let handle = files.open_file(ino(&files, name)).expect("it opens");
        files.write(&handle, Some(0), &[1; 100_000]).expect("it is written");
        files.sync(Some(handle.ino())).expect("it is synced");
        std::mem::forget(handle);
    }
    files.remove(ROOT, b"a", false).expect("it is removed");
    kill(files);
    let mount =
        store.list("files/").expect("memory").into_iter().find(|i| i.key.ends_with(".mount")).expect("one");
    store.put(&mount.key, &[b"dead"], drystone_store::PutMode::Replace, false).expect("memory");
    let next = open(&store);
    assert_eq!(next.collect(true).expect("it looks").len(), 1);
    let gone = next.collect(false).expect("it collects");
    assert_eq!(gone.iter().map(|(_, len)| len).sum::<u64>(), 100_000);
    assert_eq!(next.collect(false).expect("it collects"), vec![]);
    assert_eq!(content(&next, next.entry(ROOT, b"b").expect("it is there").ino), vec![1; 100_000]);
}

#[test]
fn damage_is_found_and_never_read() {
    let store = memory();
    let files = open(&store);
    let handle = files.open_file(ino(&files, b"x")).expect("it opens");
    files.write(&handle, Some(0), &[5; 100_000]).expect("it is written");
    files.close(&handle).expect("it closes");
    let log =
        store.list("files/").expect("memory").into_iter().find(|i| i.key.ends_with(".dat")).expect("a log");
    let mut bytes = vec![5; 100_000];
    bytes[50_000] = 6;
    store.put(&log.key, &[&bytes], drystone_store::PutMode::Replace, false).expect("memory");
    let damaged = files.verify(&mut |_| true).expect("it can be verified");
    assert_eq!(damaged.len(), 1);
    assert_eq!(damaged[0].path, "x");
    let mut out = [0; 10];
    assert!(files.read(handle.ino(), 50_000, &mut out).is_err());
    assert!(files.read(handle.ino(), 90_000, &mut out).is_ok());
}

fn open_as(store: &Arc<dyn Store>, registry: Registry, alone: bool) -> Result<Arc<Files>, Failure> {
    Files::open(store.clone(), [7; 16], false, Access::Write { registry, owner: OWNER, alone })
}

/// Processes of another machine.
const AWAY: Registry = Registry { text: |alone| format!("away {}", alone.unwrap_or_default()), ..REGISTRY };

fn mounts(store: &Arc<dyn Store>) -> usize {
    store.list("files/").expect("memory").iter().filter(|item| item.key.ends_with(".mount")).count()
}

#[test]
fn a_mount_that_is_alone_and_others_that_write_exclude_each_other() {
    let store = memory();
    let alone = open_as(&store, REGISTRY, true).expect("there is no other");
    for other in [false, true] {
        match open_as(&store, REGISTRY, other) {
            Err(Failure::Taken { process, alone: true, .. }) => assert!(process.starts_with("me ")),
            other => panic!("{:?}", other.map(|_| "it opened")),
        }
    }
    Files::open(store.clone(), [7; 16], false, Access::Read).expect("readers are not excluded");
    assert_eq!(mounts(&store), 1, "who was refused is not registered");
    alone.shut().expect("it ends");
    let shared = open_as(&store, REGISTRY, false).expect("there is no other");
    assert!(matches!(open_as(&store, REGISTRY, true), Err(Failure::Taken { alone: false, .. })));
    open_as(&store, REGISTRY, false).expect("both share").shut().expect("it ends");
    shared.shut().expect("it ends");
}

#[test]
fn a_mount_elsewhere_that_gives_signs_of_life_stays_alone() {
    let store = memory();
    let _alone = open_as(&store, AWAY, true).expect("there is no other");
    let patient = Registry { lease: Duration::from_secs(20), ..REGISTRY };
    assert!(matches!(open_as(&store, patient, false), Err(Failure::Taken { alone: true, .. })));
}

/// Symptom: on a full disk, a mount that was alone took the claim that it had made itself for that of another mount, and
/// every file was an I/O error until it was mounted again.
#[test]
fn a_mount_that_is_alone_goes_on_after_a_full_disk() {
    let act = |files: &Files, name: &[u8], bytes: &[u8]| -> Result<u64, Failure> {
        let ino = match files.make(ROOT, name, Body::File, 0o644, OWNER) {
            Ok(stat) => stat.ino,
            Err(Failure::Refused(_)) => files.entry(ROOT, name).expect("it is there").ino,
            Err(other) => return Err(other),
        };
        let handle = files.open_file(ino)?;
        files.write(&handle, Some(0), bytes)?;
        files.commit(ino)?;
        files.close(&handle)?;
        Ok(ino)
    };
    // Changes before: those of a mount that meets no fault.
    let calm = Arc::new(FaultStore::in_memory(Script::default()));
    let store: Arc<dyn Store> = calm.clone();
    let files = open_as(&store, REGISTRY, true).expect("there is no other");
    act(&files, b"kept", b"acknowledged").expect("there is space");
    let first = calm.changes();
    drop(files);
    for begin in first..first + 8 {
        for length in [1, 2, 3, 5, 8] {
            let script =
                (begin..begin + length).fold(Script::default(), |script, n| script.at(n, Fault::NoSpace));
            let faults = Arc::new(FaultStore::in_memory(script));
            let store: Arc<dyn Store> = faults.clone();
            let files = open_as(&store, REGISTRY, true).expect("there is no other");
            let kept = act(&files, b"kept", b"acknowledged").expect("there is space");
            let mut done = None;
            for round in 0..20 {
                match act(&files, b"next", &[round; 50]) {
                    Ok(ino) => done = Some((ino, round)),
                    Err(Failure::Store(_)) => {}
                    Err(other) => panic!("{begin} {length} {round}: {other}"),
                }
                assert_eq!(content(&files, kept), b"acknowledged", "{begin} {length} {round}");
            }
            let (ino, round) = done.expect("space is free again");
            assert_eq!((content(&files, ino), round), (vec![19; 50], 19), "{begin} {length}");
            files.shut().expect("it ends");
            let again = open_as(&store, REGISTRY, true).expect("there is no other");
            assert_eq!(content(&again, kept), b"acknowledged");
            assert_eq!(content(&again, ino), [19; 50], "{begin} {length}");
        }
    }
}

/// A mount that was alone stood still for longer than its lease, and another one began to write. Once it goes on, it may
/// overwrite nothing: pages of the kernel hold the neighbouring bytes as they were before.
#[test]
fn a_mount_that_lost_its_lease_commits_nothing_more() {
    let store = memory();
    let alone = open_as(&store, AWAY, true).expect("there is no other");
    let handle = alone.open_file(ino(&alone, b"x")).expect("it opens");
    alone.write(&handle, Some(0), b"first").expect("it is written");
    alone.commit(handle.ino()).expect("nobody has taken over");
    let hasty = Registry { lease: Duration::ZERO, ..REGISTRY };
    let other = open_as(&store, hasty, false).expect("the lease is over");
    let there = other.open_file(handle.ino()).expect("it opens");
    other.write(&there, Some(0), b"other").expect("it is written");
    other.close(&there).expect("it closes");
    let late = alone.write(&handle, Some(0), b"later").and_then(|()| alone.commit(handle.ino()));
    assert!(matches!(late, Err(Failure::Fenced)), "{late:?}");
    assert!(matches!(alone.stat(handle.ino()), Err(Failure::Fenced)));
    assert!(matches!(alone.make(ROOT, b"y", Body::File, 0o644, OWNER), Err(Failure::Fenced)));
    assert_eq!(content(&other, handle.ino()), b"other");
}

#[test]
fn a_mount_that_was_removed_from_the_list_notices_it() {
    let store = memory();
    let alone = open_as(&store, AWAY, true).expect("there is no other");
    let key =
        store.list("files/").expect("memory").into_iter().find(|i| i.key.ends_with(".mount")).expect("one");
    store.delete(&key.key).expect("memory");
    let begun = std::time::Instant::now();
    while alone.stat(ROOT).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not notice");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(matches!(alone.stat(ROOT), Err(Failure::Fenced)));
    assert_eq!(mounts(&store), 0, "it does not register again");
}

#[test]
fn the_kernel_sets_the_times_of_what_a_mount_alone_writes() {
    let store = memory();
    let alone = open_as(&store, REGISTRY, true).expect("there is no other");
    let handle = alone.open_file(ino(&alone, b"x")).expect("it opens");
    let set = SetAttrs { mtime: Some(TimeChange::To(7)), ctime: Some(9), ..SetAttrs::default() };
    alone.set(handle.ino(), set, None).expect("it is set");
    for committed in [false, true] {
        alone.write(&handle, Some(u64::from(committed)), b"ab").expect("it is written");
        if committed {
            alone.commit(handle.ino()).expect("it is committed");
        }
        let attrs = alone.stat(handle.ino()).expect("it is there").attrs;
        assert_eq!((attrs.mtime, attrs.ctime), (7, 9), "{committed}");
    }
    alone.remove(ROOT, b"x", false).expect("it is removed");
    alone.write(&handle, Some(0), b"cd").expect("it stays for its handle");
    assert_eq!(alone.stat(handle.ino()).expect("it is open").attrs.mtime, 7);
    assert_eq!(content(&alone, handle.ino()), b"cdb");
}
