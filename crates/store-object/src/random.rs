//! Numbers that differ between threads, processes and calls.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number between 0 and 1 that differs between threads, processes and calls.
pub(crate) fn chance() -> f64 {
    (random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A write id: 128 random bits as text, which identify a put.
pub(crate) fn write_id() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// The standard library's hasher is seeded by the system once per thread, and forks inherit the seed. So the process id
/// and a counter are hashed too, and the time, which differs for two processes with the same id.
fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(drystone_store::process_id());
    hasher.write_u64(COUNT.fetch_add(1, Ordering::Relaxed));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(now.as_nanos());
    hasher.finish()
}
