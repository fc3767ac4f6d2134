//! Read-ahead hints for local files: for the read that begins, and for the reads predicted to follow.

use std::ops::Range;

use drystone_format::dtype::DType;
use drystone_plan::in_order::in_order;
use drystone_plan::read_plan::Slot;
use drystone_store::{Reply, Request};

use crate::read::Reading;
use crate::read::sources::Sources;

/// Hints the ranges that a plan reads now. `slow`: the read may have to wait for the medium.
pub(in crate::read) fn now(
    reading: &Reading,
    ranges: &[(u32, Range<u64>)],
    slow: bool,
    sources: &Sources<'_>,
) {
    if slow {
        for of_source in ranges.chunk_by(|a, b| a.0 == b.0) {
            one(reading, of_source, sources);
        }
    } else {
        // Earlier reads were in memory: once a part of this read is in memory too, the rest is assumed to be.
        alike(reading, ranges, sources);
    }
}

/// Like [`now`], but stops after the first source that is already in memory; the others are assumed to be, too.
pub(in crate::read) fn alike(reading: &Reading, ranges: &[(u32, Range<u64>)], sources: &Sources<'_>) {
    ranges.chunk_by(|a, b| a.0 == b.0).all(|of_source| one(reading, of_source, sources));
}

/// Hints the ranges of one source. Returns `false` if they were in memory already.
fn one(reading: &Reading, ranges: &[(u32, Range<u64>)], sources: &Sources<'_>) -> bool {
    let Some(Ok(key)) = ranges.first().map(|(source, _)| sources.key(*source)) else { return true };
    let ranges = ranges.iter().map(|(_, range)| (range.start, range.end - range.start)).collect();
    // A hint only: it is not awaited, and the read itself reports a failure.
    let told = reading.inner.store.submit(Request::Expect { key, ranges });
    !(told.is_ready() && matches!(told.wait(), Ok(Reply::Expected { needless: true })))
}

/// Hints blocks together with subchunk tables that are not cached: blocks that are read whole, and others while a
/// concurrent reader wants the rest. Errors appear when the blocks are read.
pub(in crate::read) fn blocks(reading: &Reading, slots: &[Slot], sources: &Sources<'_>) {
    let Some(files) = reading.inner.store.local() else { return };
    // Members of a record are stored side by side: a table does not follow its own subchunks.
    if reading.shelf.is_some() || !matches!(reading.variable.dtype, DType::Scalar(_)) {
        return;
    }
    for block in in_order(slots) {
        let (Ok(source), Ok(key)) = (sources.get(block.source), sources.key(block.source)) else {
            continue;
        };
        if reading.inner.tables.find(&(source.writer, source.part, block.table)).is_some() {
            continue;
        }
        if block.whole {
            files.prefetch(&key, block.bytes);
        } else {
            files.prefetch_shared(&key, block.bytes);
        }
    }
}
