//! On a counting store: bytes that are likely to be read next are requested early, each byte once, without delaying
//! reads.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drystone::{
    CacheFolder, Container, CreateOptions, ErrorKind, Keep, Metrics, Mode, OpenOptions, StoreOptions,
    WriterOptions,
};
use drystone_plan::selection::Selection;
use drystone_store::{DelayStore, LoggedRequest, MemoryStore, NoAppendStore, PutMode, Store, StoreExt};

use crate::common::*;

type Far = DelayStore<NoAppendStore<MemoryStore>>;

/// Cells per side of the plane, and of one of its blocks.
const N: u64 = 512;
const EDGE: u64 = 64;

/// Variables of these names, with `steps` planes in blocks of 64 x 64 cells.
fn written(names: &[&str], steps: u64) -> MemoryStore {
    let objects = MemoryStore::new();
    let store = Arc::new(NoAppendStore::new(objects.clone()));
    let c = Container::create(store, CreateOptions::default()).unwrap();
    c.apply(names.iter().map(|name| create(name, f4(), &[N, N], |new| new.steps = true)).collect()).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    for t in 0..steps {
        w.begin_step(Some(t), false).unwrap();
        for (number, name) in names.iter().enumerate() {
            for at in (0..N / EDGE).flat_map(|y| (0..N / EDGE).map(move |x| [y * EDGE, x * EDGE])) {
                let cells: Vec<f32> =
                    (0..EDGE * EDGE).map(|n| value(number, t, at[0] + n / EDGE, at[1] + n % EDGE)).collect();
                w.put(name, &f4(), &dense(&bytes(&cells), &[EDGE, EDGE], 4), Some(&at), None).unwrap();
            }
        }
        w.end_step().unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
    c.settle();
    objects
}

fn value(variable: usize, t: u64, y: u64, x: u64) -> f32 {
    (variable as u64 * 7_000_003 + t * 1_000_003 + y * N + x) as f32
}

fn far(objects: &MemoryStore) -> Far {
    DelayStore::new(NoAppendStore::new(objects.clone()), Duration::from_millis(10), 1e9)
}

fn opened(store: &Far, cache: Option<&Path>) -> Container {
    let cache = cache.map(|folder| CacheFolder { folder: folder.to_owned(), budget: Some(256 << 20) });
    let store_options = StoreOptions { cache, ..StoreOptions::default() };
    let options = OpenOptions { store: store_options, ..Mode::Read.into() };
    Container::open(Arc::new(store.clone()), options).unwrap()
}

/// Reads boxes (offset and count, step first) like an analysis that computes for a while after each. Returns for each
/// read whether it needed nothing from home.
fn analyse(c: &Container, name: &str, number: usize, boxes: &[([u64; 3], [u64; 3])]) -> Vec<bool> {
    let mut hits = Vec::new();
    for (offset, count) in boxes {
        let before = c.metrics();
        let found = floats(&read_box(c, name, offset, count));
        let mut found = found.iter();
        for t in offset[0]..offset[0] + count[0] {
            for y in offset[1]..offset[1] + count[1] {
                for x in offset[2]..offset[2] + count[2] {
                    assert_eq!(found.next(), Some(&value(number, t, y, x)), "{name} {t} {y} {x}");
                }
            }
        }
        hits.push(c.metrics().home_bytes == before.home_bytes);
        std::thread::sleep(Duration::from_millis(25));
    }
    hits
}

/// Tiles with a halo, row by row.
fn tiles(t: u64, edge: u64, halo: u64) -> Vec<([u64; 3], [u64; 3])> {
    let span = |k: u64| {
        let start = (k * edge).saturating_sub(halo);
        (start, ((k + 1) * edge + halo).min(N) - start)
    };
    let each = N / edge;
    let tile = |(y, x): (u64, u64)| ([t, span(y).0, span(x).0], [1, span(y).1, span(x).1]);
    (0..each).flat_map(|y| (0..each).map(move |x| (y, x))).map(tile).collect()
}

fn payload(log: &[LoggedRequest]) -> u64 {
    log.iter().filter(|asked| asked.key.ends_with(".seg")).map(|asked| asked.bytes).sum()
}

fn share(hits: &[bool]) -> f64 {
    let later = &hits[2..];
    later.iter().filter(|hit| **hit).count() as f64 / later.len() as f64
}

#[test]
fn tiles_with_halos_are_there_before_they_are_read_and_no_byte_is_fetched_twice() {
    let objects = written(&["T"], 1);
    let dir = tempfile::tempdir().unwrap();
    let store = far(&objects);
    let c = opened(&store, Some(dir.path()));
    store.take_log();
    let hits = analyse(&c, "T", 0, &tiles(0, 64, 1));
    assert!(share(&hits) >= 0.95, "{hits:?}");
    let asked = payload(&store.take_log());
    let all: u64 =
        objects.list("log/").unwrap().iter().filter(|o| o.key.ends_with(".seg")).map(|o| o.len).sum();
    assert!(asked <= all, "{asked} of {all} bytes: every halo was fetched once");
    // Another handle on the same folder requests only metadata.
    let c = opened(&store, Some(dir.path()));
    store.take_log();
    let hits = analyse(&c, "T", 0, &tiles(0, 128, 2)[..6]);
    assert!(hits.iter().all(|hit| *hit) && payload(&store.take_log()) == 0, "{hits:?}");
}

#[test]
fn the_next_step_and_the_one_before_are_there_and_without_a_folder_nothing_is_fetched_ahead() {
    let objects = written(&["T"], 16);
    let mut boxes: Vec<_> = (0..16).map(|t| ([t, 64, 128], [1, 128, 192])).collect();
    for reversed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = far(&objects);
        let c = opened(&store, Some(dir.path()));
        let hits = analyse(&c, "T", 0, &boxes);
        assert!(share(&hits) >= 0.95, "reversed {reversed}: {hits:?}");
        boxes.reverse();
    }
    let c = opened(&far(&objects), None);
    analyse(&c, "T", 0, &boxes);
    assert_eq!(c.metrics().prefetched_bytes, 0);
}

#[test]
fn the_same_cells_of_the_next_variable_are_there() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let objects = written(&names, 2);
    let dir = tempfile::tempdir().unwrap();
    let store = far(&objects);
    let c = opened(&store, Some(dir.path()));
    let mut hits = BTreeMap::new();
    for (number, name) in names.iter().enumerate() {
        hits.insert(*name, analyse(&c, name, number, &[([0, 0, 0], [1, 128, 128])])[0]);
    }
    assert!(!hits["a"] && hits["c"] && hits["d"], "{hits:?}");
}

#[test]
fn random_reads_prefetch_few_useless_bytes() {
    let objects = written(&["T"], 1);
    let dir = tempfile::tempdir().unwrap();
    let store = far(&objects);
    let c = opened(&store, Some(dir.path()));
    let mut state = 99u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for _ in 0..120 {
        let offset = [0, 8 * below(60), 8 * below(60)];
        read_box(&c, "T", &offset, &[1, 32, 32]);
        std::thread::sleep(Duration::from_millis(1));
    }
    let Metrics { prefetched_bytes, prefetch_used_bytes, home_bytes, .. } = c.metrics();
    let wasted = prefetched_bytes - prefetch_used_bytes;
    assert!(wasted * 20 <= home_bytes, "{wasted} bytes in vain beside {home_bytes}");
}

#[test]
fn warmed_bytes_need_no_home_and_pinned_bytes_are_reported() {
    let objects = written(&["T", "P"], 2);
    let dir = tempfile::tempdir().unwrap();
    let store = far(&objects);
    let c = opened(&store, Some(dir.path()));
    let one = Selection::boxed(&[1, 0, 0], &[1, N, N]);
    let reading = c.reading("T", None).unwrap();
    let report = reading.keep(&one, Keep::Pin, &mut |_, _| true).unwrap();
    assert!(report.wanted_bytes >= N * N * 4 && report.held_bytes == report.wanted_bytes, "{report:?}");
    let again = reading.keep(&one, Keep::Warm, &mut |_, _| true).unwrap();
    assert_eq!((again.fetched_bytes, again.held_bytes), (0, report.held_bytes));
    store.take_log();
    assert!(analyse(&c, "T", 0, &[([1, 0, 0], [1, N, N])])[0]);
    assert_eq!(payload(&store.take_log()), 0);
    reading.keep(&one, Keep::Unpin, &mut |_, _| true).unwrap();
    let row = c.tiers().pop().unwrap();
    assert!(row.bytes > N * N * 4 && row.hits > 0 && row.place == dir.path().display().to_string());
    let stopped = c.reading("P", None).unwrap().keep(&one, Keep::Warm, &mut |_, _| false).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let without = opened(&store, None).reading("T", None).unwrap().keep(&one, Keep::Warm, &mut |_, _| true);
    assert_eq!(without.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Symptom: a home that once gave wrong bytes made every later read of them fail, since the cache kept them with a
/// checksum of its own. The manifest's checksum finds them, the cache drops them, and home is read again.
#[test]
fn bytes_that_were_wrong_when_they_were_cached_are_fetched_again() {
    let objects = written(&["T"], 1);
    let dir = tempfile::tempdir().unwrap();
    let store = far(&objects);
    let key =
        objects.list("log/").unwrap().into_iter().map(|o| o.key).find(|key| key.ends_with(".seg")).unwrap();
    let sound = objects.read_all(&key, u64::MAX).unwrap();
    let wrong: Vec<u8> = sound.iter().enumerate().map(|(n, b)| if n > 4096 { b ^ 1 } else { *b }).collect();
    objects.put(&key, &[&wrong], PutMode::Replace, false).unwrap();
    let c = opened(&store, Some(dir.path()));
    let whole = Selection::boxed(&[0, 0, 0], &[1, N, N]);
    let reading = c.reading("T", None).unwrap();
    reading.keep(&whole, Keep::Warm, &mut |_, _| true).unwrap();
    assert_eq!(read(&c, "T", &whole).unwrap_err().kind(), ErrorKind::Corrupt, "home is damaged too");
    reading.keep(&whole, Keep::Warm, &mut |_, _| true).unwrap();
    objects.put(&key, &[&sound], PutMode::Replace, false).unwrap();
    assert!(!analyse(&c, "T", 0, &[([0, 0, 0], [1, N, N])])[0], "home was asked again");
    assert!(analyse(&c, "T", 0, &[([0, 0, 0], [1, N, N])])[0]);
    // Verification reads from home, not from the cache.
    objects.put(&key, &[&wrong], PutMode::Replace, false).unwrap();
    assert!(!c.verify(&mut |_, _| true).unwrap().damage.is_empty(), "verify looks at home");
}
