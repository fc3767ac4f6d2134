//! Can a container made by a stranger, with right checksums and wrong numbers, make the engine panic, hang, or
//! allocate memory without bound?
//!
//! The bodies of the fuzz targets run with random bytes for a bounded time; `DRYSTONE_LONG=1` for a minute.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use drystone::fuzzing::{fuzz_hostile, fuzz_open};

/// The memory that opening, reading and verifying may need at once: the engine's buffers, its caches, and the
/// caller's.
const MEMORY: usize = 192 << 20;

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(size: usize) {
    let used = USED.fetch_add(size, Ordering::Relaxed) + size;
    PEAK.fetch_max(used, Ordering::Relaxed);
    if size > 1 << 30 {
        let seed = CURRENT.load(Ordering::Relaxed);
        eprintln!(
            "DRYSTONE_SEED={seed} asks for {size} bytes\n{}",
            std::backtrace::Backtrace::force_capture()
        );
        std::process::abort();
    }
}

// SAFETY: every request is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static PANICKED: Mutex<Option<String>> = Mutex::new(None);
static CURRENT: AtomicU64 = AtomicU64::new(0);

/// Ends the program if one case does not end.
fn watch() {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        std::thread::park_timeout(Duration::from_millis(200));
        let now = CURRENT.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > Duration::from_secs(120) {
            eprintln!("DRYSTONE_SEED={now} does not end");
            std::process::abort();
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let len = self.next() % most;
        (0..len).map(|_| self.next() as u8).collect()
    }
}

#[test]
fn nothing_a_stranger_writes_panics_hangs_or_takes_memory_without_bound() {
    let long = std::env::var_os("DRYSTONE_LONG").is_some();
    let seed = std::env::var("DRYSTONE_SEED").ok().and_then(|s| s.parse().ok());
    let budget = Duration::from_secs(if long { 120 } else { 6 });
    let begin = Instant::now();
    let mut cases = 0;
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    drop(std::thread::spawn(watch));
    if seed.is_none() {
        // Each place is reported once, with the first seed that leads there.
        std::panic::set_hook(Box::new(|info| {
            *PANICKED.lock().unwrap() = Some(info.to_string());
        }));
    }
    while begin.elapsed() < budget {
        let case = seed.unwrap_or(cases);
        CURRENT.store(case, Ordering::Relaxed);
        let mut random = Random(case);
        let data = random.bytes(120);
        PEAK.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
        let (before, start) = (USED.load(Ordering::Relaxed), Instant::now());
        let run =
            std::panic::catch_unwind(|| if case % 10 == 9 { fuzz_open(&data) } else { fuzz_hostile(&data) });
        let (took, peak) = (start.elapsed(), PEAK.load(Ordering::Relaxed).saturating_sub(before));
        if run.is_err() {
            let place = PANICKED.lock().unwrap().take().unwrap_or_default();
            found.entry(place).or_insert(case);
        }
        if took > Duration::from_secs(20) {
            found.entry(format!("it takes {took:?}")).or_insert(case);
        }
        if peak > MEMORY {
            found.entry("it takes too much memory".into()).or_insert(case);
        }
        cases += 1;
        if seed.is_some() {
            break;
        }
    }
    let _ = std::panic::take_hook();
    println!("{cases} cases");
    assert!(found.is_empty(), "what happens, and with which DRYSTONE_SEED: {found:#?}");
    assert!(cases > 100 || seed.is_some());
}
