//! Encoding the subchunks of a put, and storing what does not lie in cells.

use std::sync::mpsc;

use drystone_format::table;
use drystone_transform::Front;

use crate::array::Source;
use crate::lent::Lent;
use crate::pieces::{self, Give, Pieces};
use crate::put::{BlockPart, Coded, Encoder, Gathered, StoredChunk};
use crate::segment::Segment;
use crate::{Error, Result};

/// Stores encoded subchunks of a block that has `several`: first the fronts that stand apart, one behind the other, then the others
/// and what follows the fronts.
pub(super) fn store_coded(segment: &mut Segment, coded: &[Coded], several: bool) -> Result<Vec<StoredChunk>> {
    let mut fronts = Vec::with_capacity(coded.len());
    for coded in coded {
        let front = coded.front.filter(|_| several);
        let (first, _) = coded.bytes.split_at(front.map_or(0, |front| front.len));
        fronts.push(match front {
            None => None,
            Some(Front { level, bound, .. }) => {
                let piece = segment.push_coded(first, &[], &[])?;
                Some(table::Front::new(&piece, level, bound.absolute, bound.relative))
            }
        });
    }
    let one = |(coded, front): (&Coded, Option<table::Front>)| {
        let (_, rest) = coded.bytes.split_at(front.map_or(0, |front| front.length as usize));
        Ok((segment.push_coded(rest, &coded.meta, &coded.histogram)?, coded.stats.clone(), front))
    };
    coded.iter().zip(fronts).map(one).collect()
}

/// Encodes subchunks, in parallel where it pays.
pub(super) fn encode_all(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
) -> Result<Vec<Coded>> {
    let item = u64::from(part.laid.room);
    let bytes: u64 = grid.iter().map(|(_, e)| e.iter().product::<u64>() * item).sum();
    let threads = crate::processors::threads().min(grid.len());
    let run = |range: &[(Vec<u64>, Vec<u64>)]| -> Result<Vec<Coded>> {
        let Encoder { gathered, scratch } = &mut *Lent::<Encoder>::take();
        range.iter().map(|(f, e)| part.encode(data, f, e, gathered, scratch)).collect()
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
    if crate::processors::threads() < 2 {
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

/// Blocks of at least this size are worth a second thread.
const OVERLAP: u64 = 2 << 20;
/// Parts on their way from the thread that makes them to the one that hands them over.
const UNDER_WAY: usize = 3;

/// Stores the raw subchunks of blocks that have one grid, given in the order in which they are to stand: of each subchunk all
/// blocks' pieces, so that records are taken apart while they are in the processor's cache. The answers are in the order given.
///
/// With `two` threads one makes the pieces and the other hands them over; without, each part is handed over while it is in the
/// cache, which takes the least of a processor. (Both threads making shares of the subchunks and handing them over in turn took 1.1 to
/// 1.4 times as long where other programs wanted the processors: whoever has the turn may not be running.)
pub(super) fn store_gathered(
    blocks: &[BlockPart<'_>],
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
    segment: &mut Segment,
    two: bool,
) -> Result<Vec<Vec<StoredChunk>>> {
    let cells = |extent: &[u64]| extent.iter().product::<u64>();
    let size = |extent: &[u64], block: &BlockPart<'_>| cells(extent) * u64::from(block.laid.room);
    let of_chunk = |(_, extent): &(Vec<u64>, Vec<u64>)| {
        blocks.iter().map(|block| pieces::room_for(size(extent, block) as usize) as u64).sum::<u64>()
    };
    let total: u64 = grid.iter().map(of_chunk).sum();
    let base = segment.begin(total);
    let make = |give: &mut Give<'_>| -> Result<Vec<Vec<StoredChunk>>> {
        let (mut pieces, mut gathered) = (Pieces::new(base, give), Gathered::default());
        let mut stored: Vec<Vec<StoredChunk>> =
            blocks.iter().map(|_| Vec::with_capacity(grid.len())).collect();
        for (first, extent) in grid {
            for (block, stored) in blocks.iter().zip(&mut stored) {
                stored.push(block.add_raw(data, first, extent, &mut gathered, &mut pieces)?);
            }
        }
        pieces.finish()?;
        Ok(stored)
    };
    if !two || total < OVERLAP {
        return make(&mut |part| {
            segment.add(part.bytes())?;
            part.clear();
            Ok(())
        });
    }
    std::thread::scope(|scope| {
        let (full, ready) = mpsc::sync_channel(UNDER_WAY - 1);
        let (back, spare) = mpsc::channel::<Lent<pieces::Part>>();
        let maker = scope.spawn(move || {
            make(&mut |part| {
                let made = std::mem::replace(part, spare.try_recv().unwrap_or_else(|_| Lent::take()));
                part.clear();
                // Nobody takes it where an earlier one could not be handed over, which is the error that is told.
                full.send(made).map_err(|_| Error::corrupt("what was made is not taken"))
            })
        });
        for part in ready {
            segment.add(part.bytes())?;
            // The other thread has ended when it needs no more.
            let _ = back.send(part);
        }
        maker
            .join()
            .unwrap_or_else(|_| Err(Error::corrupt("a thread that gathers panicked; please report it")))
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
