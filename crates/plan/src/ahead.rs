//! Which byte ranges get a prefetch hint before the requests for them are executed.
//!
//! A reader that executes one request at a time leaves the medium idle between them. Kernels read ahead in a sequential
//! scan, but start small, and predict no scattered requests. With hints for all of them, scattered requests of 360 KiB
//! to 1 MiB and the first megabytes of a stream arrive in half the time. A store may ignore hints that continue an
//! earlier read, since the kernel reads ahead there already.
//!
//! Invariants
//! - ranges are ascending and disjoint, take little more than [`MOST`] bytes together, and contain only
//!   requested bytes and holes below a page;
//! - a long stream gets no hint: kernels do best when it is simply read in order.

use std::ops::Range;

/// Fewer requests, with fewer bytes, are not worth a hint.
const MANY: usize = 4;
const LEAST: u64 = 512 << 10;
/// Adjacent requests with more bytes together are a stream.
const STREAM: u64 = 8 << 20;
/// Hints stop after this many bytes, which the page cache must hold until they are read. With 32 MiB, the rest of a
/// scattered read of 64 MiB waited for one request of each thread at a time, and the read took 1.8 times as long
/// (`bench/local_window.py`, one member of an array of structs).
const MOST: u64 = 1 << 30;
/// A table has some dozens of bytes per subchunk.
const TABLE: u64 = 1 << 20;
/// Holes up to this size lie in pages that are read anyway.
const HOLE: u64 = 4 << 10;

/// The hints for these requests (source, bytes), which may be given in any order. A single request gets no hint, nor do
/// few requests for few bytes. On a `slow` medium scattered requests always get hints, however few their bytes.
pub fn ahead(requests: impl Iterator<Item = (u32, Range<u64>)>, slow: bool) -> Vec<(u32, Range<u64>)> {
    let mut requests: Vec<(u32, Range<u64>)> = requests.collect();
    let len = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let bytes = requests.iter().fold(0u64, |sum, (_, range)| sum.saturating_add(len(range)));
    let few = requests.len() < MANY && bytes < LEAST;
    if requests.len() < 2 || few && !slow {
        return Vec::new();
    }
    join(&mut requests);
    if few && requests.len() < 2 {
        return Vec::new();
    }
    let mut hinted = 0u64;
    requests.retain(|(_, run)| {
        let short = len(run) <= STREAM && len(run) > 0 && hinted < MOST;
        hinted += if short { len(run) } else { 0 };
        short
    });
    requests
}

/// Sorts ranges and merges those less than a page apart.
pub(crate) fn join(ranges: &mut Vec<(u32, Range<u64>)>) {
    ranges.sort_unstable_by_key(|(source, range)| (*source, range.start));
    ranges.dedup_by(|(source, next), (before, run)| {
        let joins = source == before && next.start <= run.end.saturating_add(HOLE);
        if joins {
            run.end = run.end.max(next.end);
        }
        joins
    });
}

/// The hints for subchunk tables (source, position, length). A read is planned from its tables, and without hints would
/// wait for them one by one. A single table gets no hint, nor does one that is too long to be a table: these numbers
/// have not been checked.
pub fn ahead_of_tables(tables: impl Iterator<Item = (u32, u64, u64)>) -> Vec<(u32, Range<u64>)> {
    let bytes = |(source, position, len): (u32, u64, u64)| (source, position..position.saturating_add(len));
    let mut hinted: Vec<_> = tables.filter(|(_, _, len)| *len <= TABLE).map(bytes).collect();
    hinted.sort_unstable_by_key(|(source, range)| (*source, range.start));
    if hinted.len() < 2 { Vec::new() } else { hinted }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;

    fn hinted(requests: &[Range<u64>]) -> Vec<Range<u64>> {
        ahead(requests.iter().map(|range| (0, range.clone())), false)
            .into_iter()
            .map(|(_, range)| range)
            .collect()
    }

    #[test]
    fn scattered_ranges_get_hints_in_order_and_neighbours_together() {
        let found = hinted(&[9 * M..10 * M, 0..300 * K, 300 * K + 88..600 * K, 2 * M..3 * M]);
        assert_eq!(found, [0..600 * K, 2 * M..3 * M, 9 * M..10 * M]);
        let two_sources = [(1, 0..M), (0, M..2 * M), (1, M..2 * M)];
        assert_eq!(ahead(two_sources.into_iter(), false), [(0, M..2 * M), (1, 0..2 * M)]);
    }

    #[test]
    fn one_request_few_bytes_and_long_streams_get_no_hint() {
        assert_eq!(hinted(&[0..M]), []);
        assert_eq!(hinted(&[0..4 * K, M..M + 4 * K]), []);
        assert_eq!(hinted(&(0..9).map(|k| k * M..(k + 1) * M).collect::<Vec<_>>()), []);
        assert_eq!(hinted(&(0..4).map(|k| k * M..(k + 1) * M).collect::<Vec<_>>()), [0..4 * M]);
        let some: Vec<Range<u64>> = (0..4).map(|k| k * M..k * M + K).collect();
        assert_eq!(hinted(&some), some);
        assert_eq!(hinted(&some[1..]), []);
    }

    #[test]
    fn on_a_slow_medium_a_few_scattered_bytes_get_a_hint() {
        let hinted = |requests: &[(u32, Range<u64>)]| ahead(requests.iter().cloned(), true);
        let apart = [(0, 248..33_024), (1, 248..33_024)];
        assert_eq!(hinted(&apart), apart);
        assert_eq!(hinted(&apart[..1]), []);
        assert_eq!(hinted(&[(0, 0..4 * K), (0, 5 * K..9 * K)]), [], "neighbours are one request more");
    }

    #[test]
    fn hints_stay_below_the_limit_of_bytes() {
        let many: Vec<Range<u64>> = (0..1100).map(|k| 2 * k * M..(2 * k + 1) * M).collect();
        assert_eq!(hinted(&many), many[..1024]);
        let longer: Vec<Range<u64>> = (0..200).map(|k| 10 * k * M..(10 * k + 7) * M).collect();
        assert_eq!(hinted(&longer), longer[..147], "the last of few gets a hint, too");
        assert_eq!(hinted(&[0..u64::MAX, 5..u64::MAX]), []);
    }

    #[test]
    fn tables_get_hints_together_in_the_order_in_which_they_lie() {
        let hinted = |tables: &[(u32, u64, u64)]| ahead_of_tables(tables.iter().copied());
        assert_eq!(hinted(&[(3, M, 90), (1, 7, 90), (1, 5, 2)]), [(1, 5..7), (1, 7..97), (3, M..M + 90)]);
        assert_eq!(hinted(&[(3, M, 90)]), []);
        assert_eq!(hinted(&[(3, M, 90), (3, 0, u64::MAX)]), [], "what cannot be a table is not counted");
        assert_eq!(hinted(&[(3, u64::MAX, 90), (3, 0, 9)])[1], (3, u64::MAX..u64::MAX), "it was not checked");
    }
}
