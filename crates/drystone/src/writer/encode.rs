//! Encoding the subchunks of a put, and storing what does not lie in cells.

use drystone_transform::Scratch;

use crate::array::Source;
use crate::put::{BlockPart, Coded, Gathered, StoredChunk};
use crate::segment::Segment;
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

/// Encodes batch after batch; while one is stored, by `store`, the next is encoded. With one thread they take turns.
pub(super) fn encode_ahead<'g>(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    mut batches: impl Iterator<Item = &'g [(Vec<u64>, Vec<u64>)]>,
    mut store: impl FnMut(Vec<Coded>) -> Result<()>,
) -> Result<()> {
    if crate::read::threads() < 2 {
        return batches.try_for_each(|batch| store(encode_all(part, data, batch)?));
    }
    std::thread::scope(|scope| {
        let begin = |batch: &'g [(Vec<u64>, Vec<u64>)]| scope.spawn(move || encode_all(part, data, batch));
        let mut ahead = batches.next().map(begin);
        while let Some(made) = ahead {
            let coded = made
                .join()
                .unwrap_or_else(|_| Err(Error::corrupt("an encoder thread panicked; please report it")))?;
            ahead = batches.next().map(begin);
            store(coded)?;
        }
        Ok(())
    })
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
