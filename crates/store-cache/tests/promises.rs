//! The guarantees of a cache: bytes are fetched once, shared by processes and verified at each load, and its failures
//! cause no errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drystone_store::{
    CountingStore, DelayStore, Fault, FaultStore, LocalStore, MemoryStore, PutMode, Request, Script, Store,
};
use drystone_store_cache::{CacheStore, FIRST, Folder, generation};

const KEY: &str = "log/0123456789abcdef-0000.seg";
const LEN: usize = 3 << 20;

fn content() -> Vec<u8> {
    (0..LEN as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A home store with one object, and a counter in front of it.
fn home() -> Arc<CountingStore<MemoryStore>> {
    let memory = MemoryStore::new();
    memory.put(KEY, &[&content()], PutMode::IfAbsent, false).expect("memory takes it");
    Arc::new(CountingStore::new(memory))
}

fn cache(home: &Arc<CountingStore<MemoryStore>>, root: &Path, budget: u64) -> CacheStore {
    let folder = Folder::open(root, Some(budget)).expect("a folder can be made");
    CacheStore::new(Arc::clone(home) as Arc<dyn Store>, [5; 16], Some(folder))
}

/// Reads a range with `read` and with `submit`, and compares the bytes.
fn check(store: &CacheStore, at: usize, len: usize) {
    let expected = &content()[at..at + len];
    let mut out = vec![0; len];
    store.read(KEY, at as u64, &mut out).expect("it can be read");
    assert!(out == expected, "read {at} {len}");
    let request = Request::read_many(KEY, vec![(at as u64, len), (at as u64, len.min(7))]);
    let buffers = store.submit(request).wait().expect("it can be read").into_buffers();
    assert!(buffers[0] == expected && buffers[1] == expected[..len.min(7)], "submitted {at} {len}");
}

fn fetched(home: &CountingStore<MemoryStore>) -> u64 {
    home.counters().bytes_read
}

/// The files of units.
fn units(root: &Path) -> Vec<PathBuf> {
    let entries =
        |path: &Path| std::fs::read_dir(path).expect("a folder").map(|e| e.expect("an entry").path());
    let objects: Vec<PathBuf> =
        entries(root).flat_map(|container| entries(&container).collect::<Vec<_>>()).collect();
    objects.iter().flat_map(|object| entries(object).collect::<Vec<_>>()).collect()
}

#[test]
fn every_byte_is_fetched_once_also_where_ranges_overlap() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 64 << 20);
    for at in [0, 60_000, 120_000] {
        check(&store, at, 70_000);
    }
    assert_eq!(fetched(&home), 190_000, "10,000 bytes of each next range were there");
    check(&store, 5, 189_000);
    assert_eq!(fetched(&home), 190_000);
    assert_eq!(store.counts().home_bytes, 190_000);
}

#[test]
fn two_handles_share_one_folder_without_being_told() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let (one, other) = (cache(&home, dir.path(), 64 << 20), cache(&home, dir.path(), 64 << 20));
    check(&other, 0, 100);
    check(&one, 1 << 20, 1 << 20);
    std::thread::sleep(Duration::from_millis(60));
    let before = fetched(&home);
    check(&other, 1 << 20, 1 << 20);
    assert_eq!(fetched(&home), before);
    let another = CacheStore::new(
        Arc::clone(&home) as Arc<dyn Store>,
        [6; 16],
        Some(Folder::open(dir.path(), None).expect("a folder")),
    );
    check(&another, 1 << 20, 1 << 20);
    assert_eq!(fetched(&home), before + (1 << 20), "another container has its own");
}

#[test]
fn every_flipped_bit_is_found_and_fetched_again() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    check(&cache(&home, dir.path(), 64 << 20), 1000, 60);
    let [unit] = units(dir.path()).try_into().expect("one unit");
    let sound = std::fs::read(&unit).expect("it can be read");
    for bit in 0..sound.len() * 8 {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&unit, &bytes).expect("it can be written");
        let before = fetched(&home);
        let store = cache(&home, dir.path(), 64 << 20);
        check(&store, 1000, 60);
        assert_eq!((fetched(&home) - before, store.counts().repaired), (60, 1), "bit {bit}");
        assert_eq!(std::fs::read(&unit).expect("it is there again"), sound);
    }
    for cut in [0, 1, 40, sound.len() - 1] {
        std::fs::write(&unit, &sound[..cut]).expect("it can be written");
        check(&cache(&home, dir.path(), 64 << 20), 1000, 60);
    }
}

#[test]
fn distrusted_units_are_fetched_again() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 64 << 20);
    assert!(!store.evict_recent(), "nothing was loaded");
    check(&store, 0, 5000);
    assert!(store.evict_recent() && units(dir.path()).is_empty());
    check(&store, 0, 5000);
    assert_eq!(fetched(&home), 10_000);
}

#[test]
fn the_budget_holds_and_what_is_pinned_stays() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 1 << 20);
    let first = [(KEY.to_owned(), 0..100_000)];
    let warmed = store.warm(&first, &mut |_, _| true).expect("it can be warmed");
    assert_eq!((warmed.wanted, warmed.fetched, warmed.held), (100_000, 100_000, 100_000));
    assert!(store.pin(&first, true).expect("it can be pinned"));
    for n in 1..30 {
        check(&store, n * 100_000, 100_000);
        let bytes: u64 = units(dir.path()).iter().map(|unit| unit.metadata().expect("a file").len()).sum();
        assert!(bytes <= 1 << 20, "{bytes}");
    }
    assert!(store.counts().evicted_bytes > 0);
    let before = fetched(&home);
    check(&store, 0, 100_000);
    assert_eq!(fetched(&home), before, "it was pinned");
    store.pin(&[(KEY.to_owned(), 0..LEN as u64)], false).expect("it can be unpinned");
    for n in 1..30 {
        check(&store, n * 100_000, 100_000);
    }
    let before = fetched(&home);
    check(&store, 0, 100_000);
    assert!(fetched(&home) > before, "it went with the others");
}

#[test]
fn a_folder_that_is_full_or_fails_or_is_gone_is_no_error() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    for fault in [Fault::NoSpace, Fault::Fail] {
        let home = home();
        let local = LocalStore::create(dir.path().join(format!("{fault:?}"))).expect("a folder");
        let script = Script::seeded(1).one_in(1, fault).one_read_in(1, Fault::Fail);
        let failing: Arc<dyn Store> = Arc::new(FaultStore::new(local, script).expect("it is empty"));
        let folder = Folder::over(failing, dir.path(), Some(64 << 20));
        let store = CacheStore::new(Arc::clone(&home) as Arc<dyn Store>, [5; 16], Some(folder));
        check(&store, 0, 50_000);
        check(&store, 0, 50_000);
        assert!(store.counts().failures > 0 && store.state().expect("a folder").aside.is_some(), "{fault:?}");
    }
    let home = home();
    let store = cache(&home, &dir.path().join("gone"), 64 << 20);
    check(&store, 0, 50_000);
    std::fs::remove_dir_all(dir.path().join("gone")).expect("it can be removed");
    check(&store, 0, 50_000);
    check(&store, 10, 500_000);
}

/// Symptom: after `rm -r` of the cache folder, a handle that was open never used the cache again. Cause: units are put
/// below the folder, which nothing made again. Reads after the removal are counted at the home store.
#[test]
fn a_folder_that_was_removed_is_made_again_and_used() {
    let dir = tempfile::tempdir().expect("a folder");
    let (home, root) = (home(), dir.path().join("cache"));
    let store = cache(&home, &root, 64 << 20);
    check(&store, 0, 1 << 20);
    for _ in 0..2 {
        std::fs::remove_dir_all(&root).expect("it can be removed");
        check(&store, 0, 1 << 20);
        check(&store, 1 << 20, 1 << 20);
        let before = fetched(&home);
        check(&store, 0, 2 << 20);
        assert_eq!(fetched(&home), before, "the bytes come from the folder");
        assert!(!units(&root).is_empty());
        let state = store.state().expect("a folder");
        assert_eq!((state.aside, store.take_warning()), (None, None));
        let held: u64 = units(&root).iter().map(|unit| unit.metadata().expect("a file").len()).sum();
        assert_eq!(state.bytes, held);
    }
}

#[test]
fn a_folder_that_cannot_be_made_again_is_warned_of_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (home, parent) = (home(), dir.path().join("disk"));
    std::fs::create_dir(&parent).expect("a folder");
    let store = cache(&home, &parent.join("cache"), 64 << 20);
    check(&store, 0, 1 << 20);
    std::fs::remove_dir_all(&parent).expect("it can be removed");
    check(&store, 1 << 20, 1 << 20);
    let warning = store.take_warning().expect("a warning");
    assert!(warning.contains("disk/cache") && warning.contains("removed"), "{warning}");
    check(&store, 0, 1 << 20);
    assert_eq!(store.take_warning(), None);
    std::fs::create_dir(&parent).expect("a folder");
    std::thread::sleep(Duration::from_millis(1100)); // the pause after a failure
    check(&store, 0, 2 << 20);
    let before = fetched(&home);
    check(&store, 0, 2 << 20);
    assert_eq!(fetched(&home), before, "it is used again");
}

#[test]
fn reads_join_what_was_prefetched_and_a_prefetch_waits_for_reads() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    for with_folder in [false, true] {
        let memory = MemoryStore::new();
        memory.put(KEY, &[&content()], PutMode::IfAbsent, false).expect("memory takes it");
        let far = DelayStore::new(memory, Duration::from_millis(400), 1e9);
        let folder = with_folder.then(|| Folder::open(dir.path(), None).expect("a folder"));
        let store = CacheStore::new(Arc::new(far.clone()), [5; 16], folder);
        let wanted = [(KEY.to_owned(), 0..200_000u64), (KEY.to_owned(), 300_000..400_000)];
        std::thread::scope(|scope| {
            let fetching = scope.spawn(|| store.prefetch(&wanted, &|| true));
            std::thread::sleep(Duration::from_millis(100));
            check(&store, 0, 200_000);
            fetching.join().expect("it ends");
        });
        check(&store, 350_000, 50_000);
        let asked: u64 = far.take_log().iter().map(|asked| asked.bytes).sum();
        assert_eq!(asked, 300_000, "nothing was asked for twice");
        let counts = store.counts();
        assert_eq!((counts.prefetched_bytes, counts.home_bytes), (300_000, 0));
        assert!(counts.prefetch_used_bytes >= 250_000, "{counts:?}");
        // A read that waits for the home store comes first, and a prefetch that is no longer wanted ends.
        let go_on = AtomicBool::new(true);
        std::thread::scope(|scope| {
            let read = scope.spawn(|| check(&store, 1 << 20, 1000));
            std::thread::sleep(Duration::from_millis(100));
            let fetching = scope.spawn(|| {
                store.prefetch(&[(KEY.to_owned(), 2_000_000..2_100_000)], &|| go_on.load(Ordering::SeqCst));
            });
            std::thread::sleep(Duration::from_millis(100));
            go_on.store(false, Ordering::SeqCst);
            fetching.join().expect("it ends");
            read.join().expect("it ends");
        });
        assert!(far.take_log().iter().all(|asked| asked.bytes < 100_000), "it was not begun");
    }
}

#[test]
fn random_reads_from_many_threads_give_what_home_has() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    // The budget is so small that units are evicted all the time.
    let stores = [cache(&home, dir.path(), 600_000), cache(&home, dir.path(), 600_000)];
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &stores[thread as usize % 2];
            scope.spawn(move || {
                let mut state = thread + 1;
                let mut below = |n: u64| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 33) % n
                };
                for _ in 0..60 {
                    let len = 1 + below(90_000) as usize;
                    check(store, below((LEN - len) as u64) as usize, len);
                }
            });
        }
    });
}

#[test]
fn a_unit_is_verified_once_in_a_process_and_noticed_when_it_is_replaced_or_gone() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 64 << 20);
    check(&store, 0, 300_000);
    let [unit] = units(dir.path()).try_into().expect("one unit");
    check(&store, 70_000, 100);
    let sound = std::fs::read(&unit).expect("it can be read");
    let before = fetched(&home);
    // A damaged file replaces the unit under its name. The open file is no longer used, and the new one is verified.
    let mut bytes = sound.clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(unit.with_extension("new"), &bytes).expect("it can be written");
    std::fs::rename(unit.with_extension("new"), &unit).expect("it can be renamed");
    check(&store, 299_000, 1000);
    assert!(fetched(&home) > before, "the bytes came from home");
    std::fs::remove_dir_all(dir.path()).expect("it can be removed");
    check(&store, 0, 300_000);
}

#[test]
fn many_units_keep_few_files_open() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 64 << 20);
    for n in 0..400 {
        check(&store, n * 4096, 4096);
    }
    let before = fetched(&home);
    (0..400).for_each(|n| check(&store, n * 4096, 4096));
    assert_eq!(fetched(&home), before);
    let open = std::fs::read_dir("/proc/self/fd").expect("a folder").count();
    assert!(open < 300, "{open}");
}

const SHARD: &str = "zarr/T/c/0/0";

/// A generation of a shard, whose bytes all follow from a number.
fn shard(number: u8) -> Vec<u8> {
    (0..200_000u32).map(|n| (n / 1000) as u8 ^ number).collect()
}

/// The name under which a generation is read.
fn name(number: u8) -> String {
    let bytes = shard(number);
    let first = bytes[..FIRST].try_into().expect("it is long enough");
    generation(SHARD, first, bytes.len() as u64)
}

fn publish(home: &CountingStore<MemoryStore>, number: u8) {
    home.put(SHARD, &[&shard(number)], PutMode::Replace, false).expect("memory takes it");
}

/// Reads as the engine does: some bytes, then the first ones. Returns whether all are of the generation.
fn reads(store: &CacheStore, number: u8, at: usize, len: usize) -> bool {
    let many =
        |ranges| store.submit(Request::read_many(name(number), ranges)).wait().expect("it can be read");
    let found = many(vec![(at as u64, len), (at as u64 + 7, 3)]).into_buffers();
    let first = many(vec![(0, FIRST)]).into_buffers();
    let sound = first[0] == shard(number)[..FIRST];
    assert!(!sound || found[0] == shard(number)[at..at + len], "wrong bytes pass for those of {number}");
    sound
}

#[test]
fn a_generation_of_a_shard_is_cached_and_never_taken_for_another() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    publish(&home, 1);
    let store = cache(&home, dir.path(), 64 << 20);
    assert!(reads(&store, 1, 5000, 90_000));
    let before = home.counters();
    assert!(reads(&store, 1, 5000, 90_000));
    let other = cache(&home, dir.path(), 64 << 20);
    assert!(reads(&other, 1, 6000, 1000), "another process uses the folder");
    assert_eq!(other.len(&name(1)).expect("its name says it"), 200_000);
    assert_eq!(home.counters(), before, "nothing was asked at home");
    publish(&home, 2);
    assert!(reads(&other, 1, 6000, 1000), "what is cached of the old one stays right");
    assert!(!reads(&store, 1, 150_000, 1000), "bytes of the new one are not those of the old one");
    assert!(!reads(&store, 1, 5000, 1000), "a process that knows asks at home from now on");
    assert!(reads(&store, 2, 150_000, 1000) && reads(&other, 2, 150_000, 1000));
    for number in [1, 2] {
        let fresh = cache(&home, dir.path(), 64 << 20);
        assert!(reads(&fresh, number, 5500, 500));
    }
}

#[test]
fn bytes_of_a_generation_are_kept_only_when_its_first_bytes_were_read_after_them() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    publish(&home, 1);
    let store = cache(&home, dir.path(), 64 << 20);
    let request = |ranges| store.submit(Request::read_many(name(1), ranges)).wait().expect("it can be read");
    request(vec![(70_000, 1000)]);
    request(vec![(0, FIRST), (90_000, 1000)]);
    assert!(units(dir.path()).is_empty(), "it may have been another one");
    request(vec![(0, FIRST)]);
    assert_eq!(units(dir.path()).len(), 3);
    let warmed = store.warm(&[(name(1), 70_000..90_000)], &mut |_, _| true).expect("it can be warmed");
    assert_eq!((warmed.wanted, warmed.fetched, warmed.held), (20_000, 19_000, 20_000));
    publish(&home, 2);
    let warmed = store.warm(&[(name(1), 0..200_000)], &mut |_, _| true).expect("it can be tried");
    assert!(warmed.held < 30_000, "{warmed:?}");
    // A long read is compared before its end, so that little is held in memory.
    assert!(reads(&store, 2, 100, 150_000));
}

#[test]
fn a_clock_that_jumps_changes_only_what_is_evicted_first() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 1 << 20);
    let hour = Duration::from_secs(3600);
    for n in 0..60 {
        check(&store, n * 50_000, 50_000);
        let now = std::time::SystemTime::now();
        let jumped = if n % 2 == 0 { now + hour * 100_000 } else { now - hour * 400_000 };
        for unit in units(dir.path()).iter().skip(n % 3) {
            let file = std::fs::File::options().append(true).open(unit).expect("a file");
            file.set_modified(jumped).expect("a file system that keeps times");
        }
        let bytes: u64 = units(dir.path()).iter().map(|unit| unit.metadata().expect("a file").len()).sum();
        assert!(bytes <= 1 << 20, "{bytes}");
    }
    let fresh = cache(&home, dir.path(), 1 << 20);
    (0..60).for_each(|n| check(&fresh, n * 50_000, 50_000));
}

#[test]
fn more_than_the_budget_cannot_be_pinned_and_warming_says_how_much_is_held() {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let home = home();
    let store = cache(&home, dir.path(), 1 << 20);
    let all: Vec<_> = (0..20).map(|n| (KEY.to_owned(), n * 150_000..(n + 1) * 150_000)).collect();
    let warmed = store.warm(&all, &mut |_, _| true).expect("it can be warmed");
    assert_eq!((warmed.wanted, warmed.fetched), (3_000_000, 3_000_000));
    assert!((450_000..=1 << 20).contains(&warmed.held), "{warmed:?}");
    assert_eq!(store.held(&all), Some(warmed.held));
    store.pin(&all, true).expect("it can be pinned");
    let size = || units(dir.path()).iter().map(|unit| unit.metadata().expect("a file").len()).sum::<u64>();
    check(&store, 0, LEN);
    assert!(size() <= 1 << 20, "{}", size());
    let before = fetched(&home);
    let again = store.warm(&all, &mut |_, _| true).expect("it can be warmed");
    assert!(again.held >= warmed.held, "pinned: {again:?}");
    assert!(fetched(&home) > before);
    store.pin(&all, false).expect("it can be unpinned");
    let last = [(KEY.to_owned(), 3_000_000..LEN as u64)];
    let warmed = store.warm(&last, &mut |_, _| true).expect("it can be warmed");
    assert_eq!(warmed.held, warmed.wanted, "there is room again");
}
