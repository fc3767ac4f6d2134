//! Does one flipped bit, anywhere, fail exactly the reads that it affects, with an error that names the object?
//!
//! Every bit of every small object is flipped, and a sample of the bits of segments; with `DRYSTONE_LONG=1` every bit
//! of every object. Each time the container is opened again, all of it is read, and it is verified.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use drystone::{Container, CreateOptions, Durability, ErrorKind, Mode, WriterOptions};
use drystone_store::{MemoryStore, PutMode, Store};

use crate::common::{create, dense, f4, ramp_f32};
use crate::sample::{Content, Sample, content};

fn long() -> bool {
    std::env::var_os("DRYSTONE_LONG").is_some()
}

#[derive(Default, Debug)]
struct Seen {
    flips: u64,
    not_opened: u64,
    reads_failed: u64,
    harmless: u64,
}

/// Flips one bit of one object, and checks that no wrong value is ever shown.
fn flip(sample: &Sample, key: &str, bytes: &mut [u8], bit: usize, seen: &mut Seen) {
    let (at, mask) = (bit / 8, 1u8 << (bit % 8));
    bytes[at] ^= mask;
    sample.store.put(key, &[bytes], PutMode::Replace, false).unwrap();
    bytes[at] ^= mask;
    let what = || format!("bit {} of byte {at} of {key}", bit % 8);
    seen.flips += 1;
    let c = match sample.open(Mode::Read) {
        Ok(c) => c,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corrupt, "{}: {e}", what());
            let text = e.to_string();
            assert!(text.contains(key) && text.contains("byte"), "{} is told as: {text}", what());
            seen.not_opened += 1;
            return;
        }
    };
    assert_eq!(c.snapshot().version() as usize, sample.versions.len() - 1, "{}: it fell back", what());
    assert_eq!(c.take_warnings(), Vec::<String>::new(), "{}", what());
    let failed = differences(sample.newest(), &content(&c), key, &what);
    let report = c.verify(&mut |_, _| true).unwrap_or_else(|e| panic!("{}: verify: {e}", what()));
    if failed > 0 {
        seen.reads_failed += 1;
        let told = report.damage.iter().any(|d| d.message.contains(key));
        assert!(told, "{}: {failed} reads fail, verify says {:?}", what(), report.damage);
    } else {
        seen.harmless += 1;
    }
}

/// Counts the reads that fail. All others must be unchanged.
fn differences(expected: &Content, found: &Content, key: &str, what: &dyn Fn() -> String) -> usize {
    assert_eq!(expected.len(), found.len(), "{}", what());
    let mut failed = 0;
    for (((path, step), found), expected) in found.iter().zip(expected.values()) {
        match found {
            Ok(cells) => assert!(cells == expected.as_ref().unwrap(), "{}: {path} {step:?} is wrong", what()),
            Err(e) => {
                failed += 1;
                let text = e.to_string();
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{}: {path}: {e}", what());
                let path = path.trim_end_matches('#');
                let named = [key, "byte", path].iter().all(|part| text.contains(part));
                assert!(named, "{} in {path} is told as: {text}", what());
            }
        }
    }
    failed
}

fn flip_all(sample: &Sample) -> Seen {
    let mut seen = Seen::default();
    for (key, mut bytes) in sample.objects() {
        // Zeros in space reserved for further pieces mean nothing; a few bytes of them suffice.
        let near = |i: usize| &bytes[i.saturating_sub(16)..bytes.len().min(i + 16)];
        let meant: Vec<usize> =
            (0..bytes.len()).filter(|&i| i % 4096 == 7 || near(i).iter().any(|byte| *byte != 0)).collect();
        // Every bit, or about seventy per object. The stride is odd, so that every bit of a byte is reached.
        let stride = if long() { 1 } else { (meant.len() * 8 / 70) | 1 };
        for place in (meant.len() % stride..meant.len() * 8).step_by(stride) {
            flip(sample, &key, &mut bytes, meant[place / 8] * 8 + place % 8, &mut seen);
        }
        sample.store.put(&key, &[&bytes], PutMode::Replace, false).unwrap();
    }
    assert_eq!(
        differences(sample.newest(), &content(&sample.open(Mode::Read).unwrap()), "", &|| "restored".into()),
        0
    );
    println!("{seen:?}");
    seen
}

#[test]
fn every_flipped_bit_of_a_durable_container_is_found_or_harmless() {
    let seen = flip_all(&Sample::new(Durability::Durable, None));
    assert!(seen.not_opened > 100 && seen.reads_failed > 100 && seen.harmless > 100, "{seen:?}");
}

#[test]
fn every_flipped_bit_of_a_flushed_async_container_is_found_or_harmless() {
    // The last commit is the flushed one.
    let seen = flip_all(&Sample::new(Durability::Async, Some(8)));
    assert!(seen.not_opened > 100 && seen.reads_failed > 100 && seen.harmless > 100, "{seen:?}");
}

#[test]
fn a_damaged_index_page_hides_only_what_is_below_it() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(
        store.clone(),
        CreateOptions { durability: Durability::Durable, ..CreateOptions::default() },
    )
    .unwrap();
    c.apply(vec![create("a", f4(), &[3000], |_| {}), create("b", f4(), &[1], |_| {})]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let data = ramp_f32(3000);
    for (i, value) in data.chunks(4).enumerate() {
        w.put("a", &f4(), &dense(value, &[1], 4), Some(&[i as u64]), None).unwrap();
    }
    w.put("b", &f4(), &dense(&data[4..8], &[1], 4), None, None).unwrap();
    w.close().unwrap();
    let versions =
        (0..=c.snapshot().version()).map(|v| if v == 0 { Content::new() } else { content(&c) }).collect();
    let sample = Sample { store, versions, flushed: 0, lengths: Default::default() };
    let (key, mut bytes) = sample.objects().into_iter().find(|(k, _)| k.starts_with("index/")).unwrap();
    let mut seen = Seen::default();
    let stride = if long() { 37 } else { bytes.len() * 8 / 60 } | 1;
    for bit in (5..bytes.len() * 8).step_by(stride) {
        flip(&sample, &key, &mut bytes, bit, &mut seen);
    }
    // The rest of the index is still read: blocks below other leaves are verified.
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    sample.store.put(&key, &[&bytes], PutMode::Replace, false).unwrap();
    let report = sample.open(Mode::Read).unwrap().verify(&mut |_, _| true).unwrap();
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    assert!(report.entries >= 2000, "{report:?}");
    println!("{seen:?}");
    assert!(seen.reads_failed * 10 > seen.flips * 8, "{seen:?}");
}

#[test]
fn random_flips_in_a_larger_container_are_found() {
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(
        store.clone(),
        CreateOptions { durability: Durability::Durable, ..CreateOptions::default() },
    )
    .unwrap();
    let n = 60u64;
    c.apply(vec![
        create("raw", f4(), &[n, n, n], |v| v.steps = true),
        create("coded", f4(), &[n, n, n], |v| {
            v.steps = true;
            v.transform = "shuffle,zstd:1".into();
            v.chunks = Some(vec![16, 16, 16]);
        }),
    ])
    .unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..WriterOptions::default() }).unwrap();
    for _ in 0..2 {
        w.begin_step(None, false).unwrap();
        let data = ramp_f32((n * n * n / 2) as usize);
        for half in 0..2 {
            for path in ["raw", "coded"] {
                let source = dense(&data, &[n / 2, n, n], 4);
                w.put(path, &f4(), &source, Some(&[half * n / 2, 0, 0]), None).unwrap();
            }
        }
        w.end_step().unwrap();
    }
    w.close().unwrap();
    let versions =
        (0..=c.snapshot().version()).map(|v| if v == 0 { Content::new() } else { content(&c) }).collect();
    let sample = Sample { store, versions, flushed: 0, lengths: Default::default() };
    let mut objects = sample.objects();
    let total: u64 = objects.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let (mut seen, mut state) = (Seen::default(), 99u64);
    for _ in 0..if long() { 10_000 } else { 120 } {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bit = (state >> 11) % (total * 8);
        for (key, bytes) in &mut objects {
            if bit < bytes.len() as u64 * 8 {
                flip(&sample, key, bytes, bit as usize, &mut seen);
                sample.store.put(key, &[bytes], PutMode::Replace, false).unwrap();
                break;
            }
            bit -= bytes.len() as u64 * 8;
        }
    }
    println!("{seen:?}");
    assert!(seen.reads_failed * 10 > seen.flips * 8, "{seen:?}");
}
