//! Encoding the subchunks of a put, and storing what does not lie in cells.

use std::sync::mpsc;

use drystone_transform::Scratch;

use crate::array::Source;
use crate::put::{self, BlockPart, Coded, Gathered, StoredChunk};
use crate::segment::{Batch, Segment};
use crate::{Error, Result};

pub(super) fn store_coded(segment: &mut Segment, coded: &Coded) -> Result<StoredChunk> {
    Ok((segment.push_coded(&coded.bytes, &coded.meta, &coded.histogram)?, coded.stats.clone()))
}

/// Encodes subchunks, in parallel where it pays.
pub(super) fn encode_all(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
) -> Result<Vec<Coded>> {
    let item = u64::from(part.laid.room);
    let bytes: u64 = grid.iter().map(|(_, e)| e.iter().product::<u64>() * item).sum();
    let threads = crate::read::threads().min(grid.len());
    let run = |range: &[(Vec<u64>, Vec<u64>)]| -> Result<Vec<Coded>> {
        let mut gathered = Gathered::default();
        let mut scratch = Scratch::new();
        range.iter().map(|(f, e)| part.encode(data, f, e, &mut gathered, &mut scratch)).collect()
    };
    if threads < 2 || bytes < 1 << 20 {
        return run(grid);
    }
    let share = grid.len().div_ceil(threads);
    let results: Vec<Result<Vec<Coded>>> = std::thread::scope(|scope| {
        let handles: Vec<_> = grid.chunks(share).map(|range| scope.spawn(move || run(range))).collect();
        handles
            .into_iter()
            .map(|h| {
                h.join()
                    .unwrap_or_else(|_| Err(Error::corrupt("an encoder thread panicked; please report it")))
            })
            .collect()
    });
    let mut out = Vec::with_capacity(grid.len());
    for result in results {
        out.extend(result?);
    }
    Ok(out)
}

/// Bytes gathered, checked and measured while those before are handed to the store.
const BATCH: usize = 2 << 20;
/// Blocks of at least this size are worth a second thread.
const OVERLAP: usize = 2 << 20;

/// Stores the raw subchunks of a block that is cut, along the curve; the answer is in the order of their numbers.
pub(super) fn store_cut(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
    segment: &mut Segment,
) -> Result<Vec<StoredChunk>> {
    let order = put::stored_order(&part.laid.count, part.cut);
    let size = |(_, extent): &(Vec<u64>, Vec<u64>)| {
        extent.iter().product::<u64>() as usize * part.laid.room as usize
    };
    let total: usize = grid.iter().map(size).sum();
    let mut turns: Vec<&[usize]> = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (n, chunk) in order.iter().enumerate() {
        bytes += grid.get(*chunk).map_or(0, size);
        if bytes >= BATCH || n + 1 == order.len() {
            turns.push(&order[from..=n]);
            (from, bytes) = (n + 1, 0);
        }
    }
    let fill =
        |turn: &[usize], gathered: &mut Gathered, mut batch: Batch| -> Result<(Batch, Vec<StoredChunk>)> {
            batch.clear();
            let chunks = turn.iter().filter_map(|&n| grid.get(n));
            let stored: Result<Vec<StoredChunk>> = chunks
                .map(|(first, extent)| part.batch_raw(data, first, extent, gathered, &mut batch))
                .collect();
            Ok((batch, stored?))
        };
    let mut stored = Vec::with_capacity(grid.len());
    let mut store = |segment: &mut Segment, batch: &Batch, chunks: Vec<StoredChunk>| -> Result<()> {
        let base = segment.push_batch(batch)?;
        stored.extend(chunks.into_iter().map(|(mut piece, stats)| {
            piece.position += base;
            (piece, stats)
        }));
        Ok(())
    };
    if total < OVERLAP || crate::read::threads() < 2 {
        let (mut gathered, mut spare) = (Gathered::default(), Batch::default());
        for turn in turns {
            let (batch, chunks) = fill(turn, &mut gathered, spare)?;
            store(segment, &batch, chunks)?;
            spare = batch;
        }
    } else {
        std::thread::scope(|scope| -> Result<()> {
            let (full, ready) = mpsc::sync_channel(1);
            let (back, spare) = mpsc::channel::<Batch>();
            scope.spawn(move || {
                let mut gathered = Gathered::default();
                for turn in turns {
                    let done = fill(turn, &mut gathered, spare.try_recv().unwrap_or_default());
                    let failed = done.is_err();
                    if full.send(done).is_err() || failed {
                        return;
                    }
                }
            });
            for done in ready {
                let (batch, chunks) = done?;
                store(segment, &batch, chunks)?;
                // The other thread has ended when it needs no more.
                let _ = back.send(batch);
            }
            Ok(())
        })?;
    }
    Ok(put::numbered(&order, stored))
}

/// Stores one string in the segment's blob heap; returns its 16-byte reference.
pub(super) fn blob(segment: &mut Segment, value: &[u8]) -> Result<[u8; 16]> {
    let mut out = [0; 16];
    if !value.is_empty() {
        let piece = segment.push_coded(value, &[], &[])?;
        out[..8].copy_from_slice(&piece.position.to_le_bytes());
        out[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
        out[12..].copy_from_slice(&piece.check.to_le_bytes());
    }
    Ok(out)
}
