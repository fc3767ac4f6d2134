//! Do reads through memory maps give the same results as reads through buffers, also if something is damaged?
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drystone::array::Target;
use drystone::{Container, CreateOptions, ErrorKind, Mode, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{CountingStore, LocalStore, MapPolicy};

use crate::common::{create, dense, read};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn opened(path: &Path, policy: MapPolicy) -> Container {
    let store = LocalStore::open(path, true).unwrap().with_map_policy(policy);
    Container::open(Arc::new(store), Mode::Read).unwrap()
}

/// A container with one array that was put in slabs along the first axis.
fn written(
    path: &Path,
    scalar: Scalar,
    shape: &[u64],
    slabs: u64,
    chunks: Option<Vec<u64>>,
    dice: &mut Dice,
) -> Vec<u8> {
    let c = Container::create(Arc::new(LocalStore::create(path).unwrap()), CreateOptions::default()).unwrap();
    let dtype = DType::Scalar(scalar);
    let item = dtype.item_size() as u64;
    c.apply(vec![create("a", dtype.clone(), shape, |new| new.chunks = chunks)]).unwrap();
    let row: u64 = shape[1..].iter().product::<u64>() * item;
    let bytes: Vec<u8> = (0..shape[0] * row).map(|_| dice.roll(256) as u8).collect();
    let w = c.writer(WriterOptions::default()).unwrap();
    for n in 0..slabs {
        let (from, to) = (shape[0] * n / slabs, shape[0] * (n + 1) / slabs);
        if from == to {
            continue;
        }
        let mut count = shape.to_vec();
        count[0] = to - from;
        let mut offset = vec![0; shape.len()];
        offset[0] = from;
        let part = &bytes[(from * row) as usize..(to * row) as usize];
        w.put("a", &dtype, &dense(part, &count, item as usize), Some(&offset), None).unwrap();
    }
    w.close().unwrap();
    c.commit().unwrap();
    bytes
}

fn segment(path: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(path.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "seg"));
    found.into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn boxes_of_any_shape_are_what_reads_through_buffers_give() {
    let mut dice = Dice(11);
    let dir = tempfile::tempdir().unwrap();
    for round in 0..24 {
        let ndim = 1 + dice.roll(3) as usize;
        let most = [300_000, 500, 66][ndim - 1];
        let shape: Vec<u64> = (0..ndim).map(|_| 1 + dice.roll(most)).collect();
        let chunks = (round % 3 > 0).then(|| shape.iter().map(|n| 1 + dice.roll(*n)).collect::<Vec<u64>>());
        // Few subchunks, so that the round is short.
        let chunks = chunks.filter(|c| {
            let parts = shape.iter().zip(c).map(|(n, c)| n.div_ceil(*c)).product::<u64>();
            parts < 300
        });
        let path = dir.path().join(format!("{round}.dry"));
        let scalar = [Scalar::F64, Scalar::F32, Scalar::U8][dice.roll(3) as usize];
        let slabs = 1 + dice.roll(4);
        written(&path, scalar, &shape, slabs, chunks, &mut dice);
        let (mapped, staged) = (opened(&path, MapPolicy::Always), opened(&path, MapPolicy::Never));
        let mut selections = vec![Selection::all(&shape)];
        for _ in 0..8 {
            let axes = shape.iter().map(|&n| {
                let start = dice.roll(n);
                let step = 1 + dice.roll(4) * dice.roll(2);
                Axis { start, step: step as i64, count: 1 + dice.roll((n - start).div_ceil(step)) }
            });
            selections.push(Selection { axes: axes.collect() });
        }
        for selection in selections {
            let expected = read(&staged, "a", &selection).unwrap();
            assert!(read(&mapped, "a", &selection).unwrap() == expected, "{shape:?} {selection:?}");
        }
    }
}

/// Rows of 129 doubles: rows begin anywhere in a cache line, and so does the destination.
#[test]
fn large_arrays_arrive_wherever_their_rows_begin_and_from_several_threads_at_once() {
    let mut dice = Dice(5);
    let dir = tempfile::tempdir().unwrap();
    let shape = [40, 120, 129];
    for (n, chunks) in [None, Some(vec![40, 31, 43]), Some(vec![7, 120, 129])].into_iter().enumerate() {
        let path = dir.path().join(format!("{n}.dry"));
        let bytes = written(&path, Scalar::F64, &shape, 1, chunks, &mut dice);
        for policy in [MapPolicy::Always, MapPolicy::Long] {
            let c = opened(&path, policy);
            std::thread::scope(|scope| {
                for shift in [0, 8, 16, 20] {
                    let (c, bytes) = (&c, &bytes);
                    scope.spawn(move || {
                        let mut out = vec![0xA5u8; bytes.len() + 64];
                        let place = &mut out[shift..shift + bytes.len()];
                        let target = Target::dense(place, &shape, 8).unwrap();
                        c.reading("a", None).unwrap().read(&Selection::all(&shape), &target).unwrap();
                        drop(target);
                        assert!(
                            out[shift..shift + bytes.len()] == bytes[..],
                            "chunks {n}, {policy:?}, {shift}"
                        );
                        assert!(out[..shift].iter().chain(&out[shift + bytes.len()..]).all(|b| *b == 0xA5));
                    });
                }
            });
        }
    }
}

#[test]
fn mapped_bytes_are_counted_and_long_reads_of_files_in_memory_are_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dry");
    let bytes = written(&path, Scalar::F64, &[600_000], 1, None, &mut Dice(1));
    let store = LocalStore::open(&path, true).unwrap().with_map_policy(MapPolicy::Always);
    let store = Arc::new(CountingStore::new(store));
    let c = Container::open(store.clone(), Mode::Read).unwrap();
    let before = store.counters();
    assert!(read(&c, "a", &Selection::all(&[600_000])).unwrap() == bytes);
    let read = (store.counters() - before).bytes_read;
    assert!((bytes.len() as u64..bytes.len() as u64 + 20_000).contains(&read), "{read}");
}

/// A bit flipped anywhere in the bytes of a read is an error that names the file and the place, as for reads through
/// buffers.
#[test]
fn a_flipped_bit_is_named_and_a_cut_file_is_an_error() {
    let mut dice = Dice(2);
    let dir = tempfile::tempdir().unwrap();
    for (n, (shape, chunks)) in
        [(vec![90_000], None), (vec![20, 60, 70], Some(vec![20, 25, 70])), (vec![30, 40], None)]
            .into_iter()
            .enumerate()
    {
        let path = dir.path().join(format!("{n}.dry"));
        let bytes = written(&path, Scalar::F64, &shape, 1, chunks, &mut dice);
        let file = segment(&path);
        let good = std::fs::read(&file).unwrap();
        let all = Selection::all(&shape);
        let mut failed = 0;
        for _ in 0..25 {
            let at = dice.roll(good.len() as u64) as usize;
            let mut bad = good.clone();
            bad[at] ^= 1 << dice.roll(8);
            std::fs::write(&file, &bad).unwrap();
            let found =
                [MapPolicy::Never, MapPolicy::Always].map(|policy| read(&opened(&path, policy), "a", &all));
            match found {
                [Ok(a), Ok(b)] => assert!(a == bytes && b == bytes, "byte {at}"),
                [Err(a), Err(b)] => {
                    assert_eq!((a.kind(), a.to_string()), (b.kind(), b.to_string()), "byte {at}");
                    assert_eq!(a.kind(), ErrorKind::Corrupt);
                    assert!(a.to_string().contains("log/"), "{a}");
                    failed += 1;
                }
                [a, b] => panic!("byte {at}: {:?} and {:?}", a.map(|_| ()), b.map(|_| ())),
            }
        }
        assert!(failed > 10, "{failed} of 25 flips were in what is read");
        for len in [Some(good.len() / 2), Some(good.len() / 8192 * 4096), Some(300), None] {
            std::fs::write(&file, &good).unwrap();
            let both = [MapPolicy::Never, MapPolicy::Always].map(|policy| opened(&path, policy));
            both.iter().for_each(|c| assert!(read(c, "a", &all).is_ok()));
            let both = [MapPolicy::Never, MapPolicy::Always].map(|policy| opened(&path, policy));
            match len {
                Some(len) => {
                    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(len as u64).unwrap();
                }
                None => std::fs::remove_file(&file).unwrap(),
            }
            let told = both.map(|c| read(&c, "a", &all).map_err(|e| (e.kind(), e.to_string())));
            match (len, told) {
                (_, [Err(a), Err(b)]) => assert_eq!(a, b, "cut at {len:?}"),
                // A process that has a removed file open still reads all of it.
                (None, told) => assert!(told.into_iter().flatten().all(|found| found == bytes)),
                (_, told) => panic!("cut at {len:?}: {:?}", told.map(|found| found.map(|_| ()))),
            }
        }
    }
}
