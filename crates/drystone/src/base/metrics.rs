//! Counters of one open container: its reads, puts and commits. They only increase.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a handle and its clones since the container was opened. The difference of two values covers
        /// the time between them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Metrics { $($(#[$doc])* pub $name: u64),* }

        /// Counters that many threads add to.
        #[derive(Debug, Default)]
        pub(crate) struct Tally { $(pub(crate) $name: AtomicU64),* }

        impl Tally {
            pub(crate) fn metrics(&self) -> Metrics {
                Metrics { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl Metrics {
            /// The names and values of all counters.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

counters! {
    /// Executed plans of reads: one per call, or more if a selection has very many blocks.
    reads,
    /// Bytes of the selected cells that blocks hold.
    read_wanted_bytes,
    /// Bytes that these reads fetched from the store.
    read_bytes,
    /// Requests to the store that these reads made.
    read_requests,
    /// Sequential round trips to a far store that these reads took.
    read_rounds,
    /// Blocks that they met.
    read_blocks,
    /// Blocks that were put.
    puts,
    /// Bytes of values in them.
    put_bytes,
    /// Number of times that a writer waited for a far store to accept earlier bytes.
    stalls,
    /// Duration of these waits.
    stall_microseconds,
    /// Commits that made something visible, including changes of the schema.
    commits,
    /// Duration of these commits.
    commit_microseconds,
    /// Parts of logs that were drained from tiers.
    drained_parts,
    /// Bytes in them.
    drained_bytes,
    /// Shards that publications wrote.
    published_shards,
    /// Bytes in them.
    published_bytes,
    /// Cache hits for index pages, subchunk tables and trailers.
    cache_hits,
    /// Cache misses for them.
    cache_misses,
    /// Ranges of a far store that the cache folder, or a prefetch, held completely.
    folder_hits,
    /// Ranges that had to be requested from the home store.
    folder_misses,
    /// Bytes that came from the cache folder.
    folder_bytes,
    /// Bytes from a far store that reads waited for.
    home_bytes,
    /// Bytes that were fetched before a read wanted them.
    prefetched_bytes,
    /// Prefetched bytes that a read used.
    prefetch_used_bytes,
    /// Units of the cache folder that were damaged and fetched again.
    folder_repairs,
    /// Units that could not be stored in the cache folder or loaded from it: it was full, or failed.
    folder_failures,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_read_by_its_name() {
        let tally = Tally::default();
        add(&tally.puts, 1);
        add(&tally.put_bytes, 40);
        let metrics = tally.metrics();
        assert_eq!(metrics, Metrics { puts: 1, put_bytes: 40, ..Metrics::default() });
        assert!(metrics.named().contains(&("put_bytes", 40)));
    }
}
