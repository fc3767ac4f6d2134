//! How close to memcpy are the kernels?
//!
//! Bars: 80 % of memcpy for runs of 512 bytes (aim: 90 % from 256 bytes) and 50 % (aim: 60 %) for an 8-byte transpose
//! of 4096 x 4096. Each case alternates with a memcpy of equally many bytes between the same buffers. The table shows
//! medians; its last column is the ratio of the best times, for busy machines.
//! `cargo run --release -p drystone-copy --example kernels -- [MIB] [plain] [FILTER]`: MIB moved per case (default 64);
//! `plain` leaves out huge pages and alignment.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::time::Instant;

use drystone_copy::{Dim, StridedCopy};

/// A buffer whose pages are touched before the clock runs; huge pages if the system has them.
struct Buffer {
    base: *mut u8,
    layout: Layout,
    skew: usize,
}

impl Buffer {
    fn new(len: usize, plain: bool) -> Buffer {
        let layout = Layout::from_size_align(len + 64, 2 << 20).unwrap();
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        #[cfg(target_os = "linux")]
        if !plain {
            unsafe extern "C" {
                fn madvise(addr: *mut u8, len: usize, advice: i32) -> i32;
            }
            const HUGE_PAGES: i32 = 14;
            // SAFETY: the range is the allocation just made; the advice does not change its content.
            unsafe { madvise(base, len, HUGE_PAGES) };
        }
        let mut buffer = Buffer { base, layout, skew: if plain { 16 } else { 0 } };
        for (k, byte) in buffer.bytes().iter_mut().enumerate() {
            *byte = (k % 251) as u8;
        }
        buffer
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `skew + len` is inside the allocation, which is initialised.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.skew), self.layout.size() - 64) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) }
    }
}

fn seconds(mut body: impl FnMut()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64()
}

/// The median and the shortest of some times.
fn median_and_best(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

struct Bench {
    plain: bool,
    filter: String,
}

impl Bench {
    /// Prints one line: the case, its speed, that of memcpy, and the ratio.
    fn case(&self, name: &str, copy: &StridedCopy, threads: usize) {
        if !name.contains(&self.filter) {
            return;
        }
        let bytes = copy.bytes() as usize;
        let mut src = Buffer::new((copy.src_span().end as usize).max(bytes), self.plain);
        let mut dst = Buffer::new((copy.dst_span().end as usize).max(bytes), self.plain);
        let (src, dst) = (src.bytes(), dst.bytes());
        let rounds = (2 << 30) / bytes.max(64 << 20);
        let repeat = ((64 << 20) / bytes).max(1);
        let (mut ours, mut memcpy) = (Vec::new(), Vec::new());
        let whole = StridedCopy::contiguous(0, 0, bytes as u64).unwrap();
        for _ in 0..rounds.clamp(9, 31) {
            memcpy.push(seconds(|| {
                for _ in 0..repeat {
                    whole.run_threaded(black_box(src), black_box(dst), threads).unwrap();
                }
            }));
            ours.push(seconds(|| {
                for _ in 0..repeat {
                    copy.run_threaded(black_box(src), black_box(dst), threads).unwrap();
                }
            }));
        }
        let ((ours, our_best), (memcpy, memcpy_best)) = (median_and_best(ours), median_and_best(memcpy));
        let pace = |time| (bytes * repeat) as f64 / time / 1e9;
        let (ratio, best) = (100.0 * memcpy / ours, 100.0 * memcpy_best / our_best);
        println!("{name:<44} {:8.2} {:8.2} {ratio:6.0} % {best:6.0} %", pace(ours), pace(memcpy));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plain = args.iter().any(|arg| arg == "plain");
    let mib = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(64u64);
    let filter =
        args.iter().find(|arg| *arg != "plain" && arg.parse::<u64>().is_err()).cloned().unwrap_or_default();
    let bench = Bench { plain, filter };
    let total = mib << 20;
    println!("{:<44} {:>8} {:>8} {:>8} {:>8}", "case", "GB/s", "memcpy", "ratio", "of bests");
    for elem in [1i64, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512, 1024, 4096] {
        for times in [2, 3, 8] {
            let (n, far) = (total / elem as u64, elem * times);
            let both = |name, s, d| {
                let copy = StridedCopy::new(0, 0, elem as usize, vec![Dim::new(n, s, d)]).unwrap();
                bench.case(&format!("{name} {elem} of every {far} bytes"), &copy, 1);
            };
            both("gather", far, elem);
            both("scatter", elem, far);
        }
    }
    for run in [64, 256, 512, 4096] {
        let rows = total / run as u64;
        let copy = StridedCopy::new(0, 0, run, vec![Dim::new(rows, 3 * run as i64, 2 * run as i64)]).unwrap();
        bench.case(&format!("runs of {run}, apart on both sides"), &copy, 1);
    }
    for elem in [1i64, 2, 4, 8, 16, 3, 12, 24] {
        for (n, what) in
            [(4096u64, "4096 square"), (4100, "4100 square"), (512, "512 square"), (64, "64 square")]
        {
            let copy = transpose(n, n, elem);
            for threads in if n == 4096 { 1..=2 } else { 1..=1 } {
                bench.case(&format!("transpose {elem} bytes, {what}, {threads} thr"), &copy, threads);
            }
        }
    }
    for (fields, elem) in [(2i64, 4i64), (3, 8), (4, 4), (8, 8)] {
        let n = total / (fields * elem) as u64;
        let soa = [Dim::new(fields as u64, elem, elem * n as i64), Dim::new(n, fields * elem, elem)];
        let aos = soa.map(|dim| Dim::new(dim.count, dim.dst_stride, dim.src_stride));
        for (name, dims) in [("aos to soa", soa), ("soa to aos", aos)] {
            let copy = StridedCopy::new(0, 0, elem as usize, dims.to_vec()).unwrap();
            bench.case(&format!("{name}, {fields} fields of {elem}"), &copy, 1);
        }
    }
    let (n, e) = (256i64, 8i64);
    let cube = |s: [i64; 3]| {
        let dst = [n * n * e, n * e, e];
        let dims = (0..3).map(|k| Dim::new(n as u64, s[k], dst[k])).collect();
        StridedCopy::new(0, 0, e as usize, dims).unwrap()
    };
    bench.case("cube 256, axes reversed", &cube([e, n * e, n * n * e]), 1);
    bench.case("cube 256, last two swapped", &cube([n * n * e, e, n * e]), 1);
    bench.case("cube 256, first two swapped", &cube([n * e, n * n * e, e]), 1);
}

fn transpose(rows: u64, cols: u64, elem: i64) -> StridedCopy {
    let dims = vec![Dim::new(rows, cols as i64 * elem, elem), Dim::new(cols, elem, rows as i64 * elem)];
    StridedCopy::new(0, 0, elem as usize, dims).unwrap()
}
