//! What does the local store cost beyond the system calls it makes?
//!
//! Bar to beat: the same bytes through `std::fs::File` alone. Each line shows the medians of several rounds, which
//! alternate between the two, and their ratio. The file is on the file system of the temporary folder (set TMPDIR),
//! reads are warm.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run may stop")]

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use drystone_store::{LocalStore, PutMode, Request, Store};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 9;

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::create(dir.path()).unwrap();
    let path = |name: &str| dir.path().join(name);
    let block = vec![7_u8; 64 * MIB];

    compare("append 64 MiB in one call", block.len(), |round| {
        let ours = time(|| store.append(&format!("a{round}"), 0, &[&block]).unwrap());
        let file = File::create(path("raw")).unwrap();
        let one_write = time(|| file.write_all_at(&block, 0).unwrap());
        store.delete(&format!("a{round}")).unwrap();
        std::fs::remove_file(path("raw")).unwrap();
        (ours, one_write)
    });
    compare("append 64 MiB in one call, against pieces of 1 MiB", block.len(), |round| {
        let ours = time(|| store.append(&format!("p{round}"), 0, &[&block]).unwrap());
        let file = File::create(path("raw")).unwrap();
        let pieces = time(|| {
            for (n, piece) in block.chunks(MIB).enumerate() {
                file.write_all_at(piece, (n * MIB) as u64).unwrap();
            }
        });
        store.delete(&format!("p{round}")).unwrap();
        std::fs::remove_file(path("raw")).unwrap();
        (ours, pieces)
    });

    let sync_after = |store: &LocalStore, name: String| {
        let spent = time(|| {
            for n in 0..64_usize {
                store.append(&name, (n * MIB) as u64, &[&block[..MIB]]).unwrap();
            }
            store.sync(&[&name]).unwrap();
        });
        store.delete(&name).unwrap();
        spent
    };
    let early = LocalStore::create(dir.path()).unwrap().with_early_writeback(true);
    compare("64 appends of 1 MiB and a sync, early write-back against without", block.len(), |round| {
        (sync_after(&early, format!("e{round}")), sync_after(&store, format!("l{round}")))
    });

    store.append("read", 0, &[&block]).unwrap();
    let raw = File::open(path("read")).unwrap();
    let mut out = vec![0; block.len()];
    compare("read 64 MiB, warm", block.len(), |_| {
        (time(|| store.read("read", 0, &mut out).unwrap()), {
            let mut out = vec![1; block.len()];
            time(|| raw.read_exact_at(&mut out, 0).unwrap())
        })
    });
    for size in [4 << 10, 64 << 10] {
        let mut out = vec![0; size];
        let offsets: Vec<u64> = (0..2000_u64).map(|i| i * 7919 % 1000 * 65_536).collect();
        compare(&format!("2000 reads of {} KiB, warm", size >> 10), size * 2000, |_| {
            let ours =
                time(|| offsets.iter().for_each(|&at| store.read("read", at, black_box(&mut out)).unwrap()));
            let theirs =
                time(|| offsets.iter().for_each(|&at| raw.read_exact_at(black_box(&mut out), at).unwrap()));
            (ours, theirs)
        });
    }
    compare("submit and wait for one read of 4 KiB, 2000 times, against blocking reads", 2000 * 4096, |_| {
        let mut buffers = vec![vec![0; 4096]];
        let submitted = time(|| {
            for _ in 0..2000 {
                let request = Request::ReadMany {
                    key: "read".into(),
                    ranges: vec![(0, 4096)],
                    buffers: std::mem::take(&mut buffers),
                };
                buffers = store.submit(request).wait().unwrap().into_buffers();
            }
        });
        let mut out = vec![0; 4096];
        (submitted, time(|| (0..2000).for_each(|_| store.read("read", 0, black_box(&mut out)).unwrap())))
    });

    let small = [1; 1024];
    compare("100 puts if absent of 1 KiB, with sync against without", 100 * 1024, |round| {
        let puts = |sync| {
            time(|| {
                for n in 0..100 {
                    store
                        .put(&format!("put/{round}-{n}-{sync}"), &[&small], PutMode::IfAbsent, sync)
                        .unwrap();
                }
            })
        };
        (puts(true), puts(false))
    });
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn compare(what: &str, bytes: usize, mut round: impl FnMut(usize) -> (Duration, Duration)) {
    round(ROUNDS);
    let (mut first, mut second): (Vec<_>, Vec<_>) = (0..ROUNDS).map(&mut round).unzip();
    first.sort_unstable();
    second.sort_unstable();
    let (first, second) = (first[ROUNDS / 2].as_secs_f64(), second[ROUNDS / 2].as_secs_f64());
    let rate = |seconds: f64| bytes as f64 / MIB as f64 / seconds;
    println!(
        "{what}: {:.2} ms ({:.0} MiB/s) | {:.2} ms ({:.0} MiB/s) | time ratio {:.2}",
        first * 1e3,
        rate(first),
        second * 1e3,
        rate(second),
        first / second
    );
}
