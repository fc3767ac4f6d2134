//! Ids that no other process picks, made from the operating system's hasher seeds, the time and a counter.
//!
//! They are not cryptographic. Collisions that would matter are detected: files are created only if absent. Write ids
//! have 128 bits.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds since 1970, later than every earlier answer in this process, also where the clock was set back.
pub(crate) fn later() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let (mut last, now) = (LAST.load(Ordering::SeqCst), now());
    loop {
        let next = now.max(last.saturating_add(1));
        match LAST.compare_exchange_weak(last, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return next,
            Err(seen) => last = seen,
        }
    }
}

/// A number of 64 bits, different in every call, process and fork.
pub(crate) fn id64() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(now());
    hasher.write_u32(drystone_store::process_id());
    hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
    hasher.finish()
}

/// A number of 128 bits.
pub(crate) fn id128() -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&id64().to_le_bytes());
    out[8..].copy_from_slice(&id64().to_le_bytes());
    out
}

/// "host:pid", for people who read a log.
pub(crate) fn origin() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// The current time in ISO 8601, UTC, to the second.
pub(crate) fn timestamp() -> String {
    let seconds = now() / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Proleptic Gregorian date of a day number since 1970-01-01 (counting 400-year eras from 1 March of year 0).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let day_of_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * day_of_year + 2) / 153;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * m + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_right() {
        assert_eq!(super::civil(0), (1970, 1, 1));
        assert_eq!(super::civil(19_782), (2024, 2, 29));
        assert_eq!(super::civil(20_778), (2026, 11, 21));
    }
}
