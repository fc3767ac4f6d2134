//! Encodes the subchunks of a put, and stores strings outside the cells.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use drystone_format::table;
use drystone_transform::Prefix;

use super::block::{BlockPart, Coded, Encoder, Gathered, StoredChunk};
use crate::base::array::Source;
use crate::base::buffer_pool::Lent;
use crate::base::sync::lock;
use crate::log::extent;
use crate::log::extent::{Give, Pieces};
use crate::log::segment::Segment;
use crate::{Error, Result};

/// Stores encoded subchunks of a block that has `several`: first the separate prefixes one after the other,
/// then the remaining bytes of the subchunks.
pub(super) fn store_coded(segment: &mut Segment, coded: &[Coded], several: bool) -> Result<Vec<StoredChunk>> {
    let mut prefixes = Vec::with_capacity(coded.len());
    for coded in coded {
        let prefix = coded.prefix.filter(|_| several);
        let (first, _) = coded.bytes.split_at(prefix.map_or(0, |prefix| prefix.len));
        prefixes.push(match prefix {
            None => None,
            Some(Prefix { level, bound, .. }) => {
                let piece = segment.push_coded(first, &[], &[])?;
                Some(table::Prefix::new(&piece, level, bound.absolute, bound.relative))
            }
        });
    }
    let one = |(coded, prefix): (&Coded, Option<table::Prefix>)| {
        let (_, rest) = coded.bytes.split_at(prefix.map_or(0, |prefix| prefix.length as usize));
        Ok((segment.push_coded(rest, &coded.meta, &coded.histogram)?, coded.stats.clone(), prefix))
    };
    coded.iter().zip(prefixes).map(one).collect()
}

/// Encodes subchunks, on several threads if that pays.
pub(super) fn encode_all(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
) -> Result<Vec<Coded>> {
    let item = u64::from(part.laid.room);
    let bytes: u64 = grid.iter().map(|(_, e)| e.iter().product::<u64>() * item).sum();
    let threads = crate::base::cpus::threads().min(grid.len());
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

/// The shared state of the threads that encode a block.
struct Turns {
    /// Number of the subchunk to encode next; `stored` counts those handed to the store.
    next: usize,
    stored: usize,
    /// Encoded subchunks from `stored` on.
    ready: BTreeMap<usize, Result<Coded>>,
}

/// Subchunks between the threads that encode them and the thread that stores them.
struct Encoding<'a> {
    part: &'a BlockPart<'a>,
    data: &'a Source<'a>,
    grid: &'a [(Vec<u64>, Vec<u64>)],
    /// The most subchunks that are being encoded, or are encoded and not yet stored.
    window: usize,
    turns: Mutex<Turns>,
    moved: Condvar,
}

/// Dropping it ends the encoding for all threads, after success as after failure.
struct Ending<'a, 'e>(&'e Encoding<'a>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        lock(&self.0.turns).next = usize::MAX;
        self.0.moved.notify_all();
    }
}

/// Encodes the subchunks of `grid` on several threads and passes them to `store` in order, one or more at a
/// time. The calling thread stores subchunks that are ready, and encodes if none is. Once a subchunk of a
/// batch has a separate prefix, the rest of the batch is passed together, because prefixes stand one after
/// the other.
pub(super) fn encode_and_store(
    part: &BlockPart<'_>,
    data: &Source<'_>,
    grid: &[(Vec<u64>, Vec<u64>)],
    per_batch: usize,
    mut store: impl FnMut(&[Coded]) -> Result<()>,
) -> Result<()> {
    let threads = crate::base::cpus::threads().min(grid.len());
    if threads < 2 {
        return grid.chunks(per_batch).try_for_each(|batch| store(&encode_all(part, data, batch)?));
    }
    let turns = Turns { next: 0, stored: 0, ready: BTreeMap::new() };
    let window = per_batch.saturating_mul(2).max(threads);
    let encoding = Encoding { part, data, grid, window, turns: Mutex::new(turns), moved: Condvar::new() };
    std::thread::scope(|scope| {
        let ending = Ending(&encoding);
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(|| encoding.help())).collect();
        let done = encoding.lead(per_batch, &mut store);
        drop(ending);
        let panicked = helpers.into_iter().map(|helper| helper.join().is_err()).fold(false, |a, b| a | b);
        if panicked { Err(Error::corrupt("an encoder thread panicked; please report it")) } else { done }
    })
}

impl Encoding<'_> {
    /// Claims the next subchunk, if the window admits one.
    fn claim(&self, turns: &mut Turns) -> Option<usize> {
        let number = turns.next;
        let may = number < self.grid.len() && number < turns.stored + self.window;
        may.then(|| {
            turns.next += 1;
            number
        })
    }

    fn encode(&self, number: usize, Encoder { gathered, scratch }: &mut Encoder) {
        let Some((first, extent)) = self.grid.get(number) else { return };
        let coded = self.part.encode(self.data, first, extent, gathered, scratch);
        lock(&self.turns).ready.insert(number, coded);
        self.moved.notify_all();
    }

    fn wait<'t>(&self, turns: MutexGuard<'t, Turns>) -> MutexGuard<'t, Turns> {
        self.moved.wait(turns).unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes until no subchunk is left to claim.
    fn help(&self) {
        let ending = Ending(self);
        let mut encoder = Lent::<Encoder>::take();
        let mut turns = lock(&self.turns);
        while turns.next < self.grid.len() {
            match self.claim(&mut turns) {
                Some(number) => {
                    drop(turns);
                    self.encode(number, &mut encoder);
                    turns = lock(&self.turns);
                }
                None => turns = self.wait(turns),
            }
        }
        // The guard is forgotten: only a panic of a helper ends the work of the other threads.
        std::mem::forget(ending);
    }

    /// Stores subchunks that are ready, and encodes if none is.
    fn lead(&self, per_batch: usize, store: &mut dyn FnMut(&[Coded]) -> Result<()>) -> Result<()> {
        let mut encoder = Lent::<Encoder>::take();
        let mut batch: Vec<Coded> = Vec::new();
        let mut taken = 0;
        while taken < self.grid.len() {
            let mut turns = lock(&self.turns);
            let mut any = false;
            while let Some(coded) = turns.ready.remove(&taken) {
                batch.push(coded?);
                (taken, any) = (taken + 1, true);
                if taken.is_multiple_of(per_batch) {
                    break;
                }
            }
            if !any {
                match self.claim(&mut turns) {
                    Some(number) => {
                        drop(turns);
                        self.encode(number, &mut encoder);
                    }
                    // Another thread is encoding it, or the encoding was ended.
                    None if turns.next > self.grid.len() => {
                        return Err(Error::corrupt("encoding ended early"));
                    }
                    None => drop(self.wait(turns)),
                }
                continue;
            }
            drop(turns);
            let whole = taken.is_multiple_of(per_batch) || taken == self.grid.len();
            if whole || batch.iter().all(|coded| coded.prefix.is_none()) {
                store(&batch)?;
                batch.clear();
                lock(&self.turns).stored = taken;
                self.moved.notify_all();
            }
        }
        Ok(())
    }
}

/// Blocks of at least this size are worth a second thread.
const OVERLAP: u64 = 2 << 20;
/// The most parts between the thread that makes them and the thread that stores them.
const UNDER_WAY: usize = 3;

/// Stores the raw subchunks of blocks that share one grid, in storage order. For each subchunk it stores the
/// pieces of all blocks, so that records are split while they are in the processor's cache. The results are
/// in the given order.
///
/// With `two` threads, one makes the pieces and the other hands them to the store. Otherwise each part is
/// handed over while it is in the cache, which takes the least processor time. A third scheme, in which both
/// threads make pieces and take turns to hand them over, took 1.1 to 1.4 times as long while other programs
/// used the processors: the thread whose turn it is may not be running.
/// turn it is may not be running.)
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
        blocks.iter().map(|block| extent::room_for(size(extent, block) as usize) as u64).sum::<u64>()
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
        let (back, spare) = mpsc::channel::<Lent<extent::Part>>();
        let maker = scope.spawn(move || {
            make(&mut |part| {
                let made = std::mem::replace(part, spare.try_recv().unwrap_or_else(|_| Lent::take()));
                part.clear();
                // The receiver is gone only if storing an earlier part failed; that error is returned.
                full.send(made).map_err(|_| Error::corrupt("the storing thread ended early"))
            })
        });
        for part in ready {
            segment.add(part.bytes())?;
            // A failed send is ignored: the other thread has ended because it needs no more parts.
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
