//! A tier that hangs is abandoned after a while: puts continue, and reads that the home store can answer succeed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use drystone_store::{
    ListEntry, LocalFiles, MemoryStore, Pending, PutMode, Request, Result, Store, StoreExt,
};
use drystone_store_tiers::{Tier, TieredStore};

const PATIENCE: Duration = Duration::from_millis(40);
/// Much longer than one request may take, since the machine may be busy.
const FAR_TOO_LONG: Duration = Duration::from_secs(20);

/// A store that hangs at request number `at` and at all later ones, until it is released.
#[derive(Debug)]
struct Hanging {
    inner: MemoryStore,
    at: u64,
    requests: AtomicU64,
    /// Whether it hangs.
    held: Mutex<bool>,
    let_go: Condvar,
}

impl Hanging {
    fn at(at: u64) -> Arc<Self> {
        let (requests, held, let_go) = (AtomicU64::new(0), Mutex::new(true), Condvar::new());
        Arc::new(Hanging { inner: MemoryStore::new(), at, requests, held, let_go })
    }

    fn pass(&self) {
        if self.requests.fetch_add(1, Ordering::SeqCst) >= self.at {
            let held = self.held.lock().expect("no thread panics with it");
            drop(self.let_go.wait_while(held, |held| *held));
        }
    }

    fn let_go(&self) {
        *self.held.lock().expect("no thread panics with it") = false;
        self.let_go.notify_all();
    }
}

impl Store for Hanging {
    drystone_store::forward!(inner => features, watch, upload, sweep, exec);

    fn describe(&self) -> String {
        "a tier that hangs".into()
    }
    fn device(&self) -> Option<String> {
        None
    }
    fn local(&self) -> Option<&dyn LocalFiles> {
        None
    }
    fn unchanged(&self) -> Result<()> {
        Ok(())
    }
    fn len(&self, key: &str) -> Result<u64> {
        self.pass();
        self.inner.len(key)
    }
    fn read(&self, key: &str, offset: u64, out: &mut [u8]) -> Result<()> {
        self.pass();
        self.inner.read(key, offset, out)
    }
    fn read_whole(&self, key: &str, limit: u64) -> Result<std::result::Result<Vec<u8>, u64>> {
        self.pass();
        self.inner.read_whole(key, limit)
    }
    fn append(&self, key: &str, at: u64, parts: &[&[u8]]) -> Result<()> {
        self.pass();
        self.inner.append(key, at, parts)
    }
    fn write_at(&self, key: &str, parts: &[(u64, &[u8])], len: u64) -> Result<()> {
        self.pass();
        self.inner.write_at(key, parts, len)
    }
    fn put(&self, key: &str, parts: &[&[u8]], mode: PutMode, sync: bool) -> Result<()> {
        self.pass();
        self.inner.put(key, parts, mode, sync)
    }
    fn list(&self, prefix: &str) -> Result<Vec<ListEntry>> {
        self.pass();
        self.inner.list(prefix)
    }
    fn delete(&self, key: &str) -> Result<()> {
        self.pass();
        self.inner.delete(key)
    }
    fn sync(&self, keys: &[&str]) -> Result<()> {
        self.pass();
        self.inner.sync(keys)
    }
    fn submit(&self, request: Request) -> Pending {
        Pending::completed(request.execute_on(self))
    }
}

fn part(number: usize) -> Vec<u8> {
    (0..1000).map(|at| (at * 7 + number * 13) as u8).collect()
}

fn key(number: usize) -> String {
    format!("log/{number:016x}-0000.seg")
}

fn write(store: &TieredStore, number: usize) {
    let bytes = part(number);
    store.append(&key(number), 0, &[&bytes[..300]]).expect("another tier has room");
    store.append(&key(number), 300, &[&bytes[300..]]).expect("another tier has room");
    store.close_part(&key(number));
}

fn tiers(hanging: &Arc<Hanging>) -> Vec<Tier> {
    let first = Tier::new(hanging.clone(), None).with_patience(PATIENCE);
    vec![first, Tier::new(Arc::new(MemoryStore::new()), None)]
}

#[test]
fn whenever_a_tier_hangs_puts_go_on_and_nothing_waits_for_long() {
    for at in 0..12 {
        let hanging = Hanging::at(at);
        let store = TieredStore::new(tiers(&hanging), Arc::new(MemoryStore::new()));
        let begun = Instant::now();
        for number in 0..5 {
            write(&store, number);
        }
        // Parts that only the hanging tier has stay undrained; the others are drained.
        let _ = store.drain(|| true);
        for number in 0..5 {
            let read = store.read_all(&key(number), 2000);
            assert!(
                read.as_ref().is_ok_and(|bytes| *bytes == part(number)) || at > 1 && read.is_err(),
                "{at} {number}"
            );
        }
        assert!(begun.elapsed() < FAR_TOO_LONG, "request {at}: {:?}", begun.elapsed());
        let rows = store.rows();
        if hanging.requests.load(Ordering::SeqCst) > at {
            assert!(rows[0].aside.as_deref().is_some_and(|why| why.contains("does not answer")), "{rows:?}");
        }
        hanging.let_go();
        let drained = Instant::now();
        while store.drain(|| true).is_err() && drained.elapsed() < FAR_TOO_LONG {
            std::thread::sleep(PATIENCE);
        }
        for number in 0..5 {
            assert!(
                store.read_all(&key(number), 2000).expect("it answers again") == part(number),
                "{at} {number}"
            );
        }
    }
}

#[test]
fn a_read_that_home_can_answer_does_not_wait_for_a_tier_that_hangs() {
    let home = Arc::new(MemoryStore::new());
    (0..3).for_each(|number| home.append(&key(number), 0, &[&part(number)]).expect("new"));
    let held = Hanging::at(1);
    (0..3).for_each(|number| held.inner.append(&key(number), 0, &[&part(number)]).expect("new"));
    let store = TieredStore::new(tiers(&held), home);
    assert_eq!(store.adopt().expect("it is listed before it hangs"), 3);
    let begun = Instant::now();
    for _ in 0..50 {
        for number in 0..3 {
            assert!(store.read_all(&key(number), 2000).expect("home answers") == part(number));
        }
    }
    // Only the first request waits; then the tier is not used for a while.
    assert!(begun.elapsed() < FAR_TOO_LONG, "{:?}", begun.elapsed());
    held.let_go();
}
