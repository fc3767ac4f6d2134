//! Does a publication stay within the memory that it is given, however large the array is?
#![allow(
    clippy::unwrap_used,
    unsafe_code,
    reason = "a test ends at the first surprise, and counts what is allocated"
)]

mod common;
mod counting_allocator;

use std::sync::atomic::Ordering;

use drystone::{Container, CreateOptions, PublishOptions, WriterOptions};

use common::{create, dense, f4};
use counting_allocator::{HELD, MOST};

#[test]
fn a_publication_stays_within_its_memory() {
    const SIDE: u64 = 384; // 216 MiB
    const LIMIT: u64 = 128 << 20;
    let folder = tempfile::tempdir().unwrap();
    let c = Container::create(folder.path().join("run.dry"), CreateOptions::default()).unwrap();
    for (name, transform) in [("raw", ""), ("coded", "zstd:1")] {
        let new = create(name, f4(), &[SIDE, SIDE, SIDE], |v| v.transform = transform.into());
        c.apply(vec![new]).unwrap();
        let w = c.writer(WriterOptions::default()).unwrap();
        for z in (0..SIDE).step_by(64) {
            let data: Vec<u8> = (0..64 * SIDE * SIDE)
                .flat_map(|i| ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as f32).to_le_bytes())
                .collect();
            w.put(name, &f4(), &dense(&data, &[64, SIDE, SIDE], 4), Some(&[z, 0, 0]), None).unwrap();
        }
        w.close().unwrap();
        c.commit().unwrap();
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let options =
            PublishOptions { variables: Some(vec![name.into()]), memory: LIMIT, ..PublishOptions::default() };
        let report = c.publish(&options, &mut |_, _| true).unwrap();
        let used = (MOST.load(Ordering::Relaxed) - before) as u64;
        assert!(report.arrays[0].written >= 2, "{report:?}");
        assert!(used <= LIMIT, "{name}: {} MiB of {} were used", used >> 20, LIMIT >> 20);
        assert!(used > LIMIT / 16, "{name}: {used} bytes: was anything counted?");
    }
}
