//! Aggregates small writes of interleaved ranks: each rank alone has scattered cells, all together have whole
//! rows.
//!
//! A block per small write would cost more than its cells. So small writes are buffered. In the flush, which
//! all ranks make together, they are exchanged: each rank gets a share of the rows that were touched, and
//! puts the written cells in as few blocks as possible. Where that cannot be done (the buffer is full, or a
//! file is closed without a flush), small writes become blocks.
//!
//! Invariants
//! - a rank buffers small writes only for datasets with nothing else of it waiting for the next commit, so
//!   that the order of writes is kept;
//! - only cells that some rank has written are put; each by one rank.

use std::sync::{Arc, MutexGuard};

use crate::file::patch::{Patch, Runs};
use crate::file::state::{Block, FileState, Shared};
use crate::library::failure::{Failure, Result};
use crate::model::boxes;
use crate::model::tree::Id;
use crate::ranks::team::Team;

/// Boxes with a smaller average size are small writes,
const SMALL_WRITE: usize = 4 << 10;
/// if there are at least this many of them.
const MANY: usize = 32;
/// Bytes that all ranks together send at a time.
const ROUND: usize = 32 << 20;
/// At least this share of the touched rows must have been written, or small writes stay with their ranks.
const DENSE: u64 = 4;

/// Whether this many boxes with this many bytes together are small writes.
pub fn are_small_writes(boxes: usize, bytes: usize) -> bool {
    boxes >= MANY && bytes / boxes < SMALL_WRITE
}

/// The share of a dataset's touched rows that one rank puts.
struct Share {
    /// Numbers of its cells.
    cells: std::ops::Range<u64>,
    data: Vec<u8>,
    written: Vec<bool>,
}

impl Share {
    /// The share of rank `rank` of `size`, of cells from the first to the last that was touched; `None` if it
    /// is empty.
    fn of(
        dims: &[u64],
        touched: std::ops::Range<u64>,
        (rank, size): (u64, u64),
        item: usize,
    ) -> Result<Option<Share>> {
        let row = dims[1..].iter().product::<u64>().max(1);
        let (first, last) = (touched.start / row, touched.end.div_ceil(row));
        let border = |n: u64| (first + ((last - first) as u128 * n as u128 / size as u128) as u64) * row;
        let cells = border(rank)..border(rank + 1);
        let count = (cells.end - cells.start) as usize;
        let (mut data, mut written) = (Vec::new(), Vec::new());
        let room = data.try_reserve_exact(count * item).and_then(|()| written.try_reserve_exact(count));
        room.map_err(|_| Failure::write("no memory to put the cells of all ranks together"))?;
        data.resize(count * item, 0);
        written.resize(count, false);
        Ok((count > 0).then_some(Share { cells, data, written }))
    }

    /// Takes the runs in this share, and their cells.
    fn take(&mut self, runs: Runs, data: &[u8], item: usize) {
        for (start, cells) in runs.each().zip(data.chunks_exact(runs.length as usize * item)) {
            let (from, to) = (start.max(self.cells.start), (start + runs.length).min(self.cells.end));
            if from < to {
                let (there, here) = ((from - start) as usize, (from - self.cells.start) as usize);
                let n = (to - from) as usize;
                self.data[here * item..(here + n) * item]
                    .copy_from_slice(&cells[there * item..(there + n) * item]);
                self.written[here..here + n].fill(true);
            }
        }
    }

    /// Runs of cells that were written, and the cells.
    fn found(self, item: usize) -> (Vec<(u64, u64)>, Vec<u8>) {
        if self.written.iter().all(|written| *written) {
            return (vec![(self.cells.start, self.cells.end - self.cells.start)], self.data);
        }
        let (mut runs, mut data): (Vec<(u64, u64)>, _) = (Vec::new(), Vec::new());
        for (i, _) in self.written.iter().enumerate().filter(|(_, written)| **written) {
            data.extend_from_slice(&self.data[i * item..(i + 1) * item]);
            let at = self.cells.start + i as u64;
            match runs.last_mut() {
                Some((start, n)) if *start + *n == at => *n += 1,
                _ => runs.push((at, 1)),
            }
        }
        (runs, data)
    }
}

impl FileState {
    /// Buffers the pieces of a group as small writes; `false` if they must be blocks.
    pub(crate) fn keep_small_writes(
        &mut self,
        id: Id,
        dims: &[u64],
        group: &boxes::Group,
        data: &[u8],
        item: usize,
        most: u64,
    ) -> bool {
        let bytes = group.elements as usize * item;
        let waits = self.uncommitted.contains(&id) || self.pending.iter().any(|b| b.dataset == id);
        if waits || (self.patched_bytes + bytes) as u64 > most {
            return false;
        }
        let patch = self.patches.entry(id).or_default();
        for piece in &group.pieces {
            let start = piece.first.iter().zip(dims).fold(0, |at, (first, n)| at * n + first);
            let at = piece.at as usize * item;
            patch.push(start, piece.count, &data[at..at + piece.count as usize * item]);
        }
        self.patched_bytes += bytes;
        self.dirty = true;
        true
    }

    /// Overlays a box that was read with the small writes of a dataset.
    pub(crate) fn overlay_small_writes(
        &self,
        id: Id,
        dims: &[u64],
        wanted: boxes::Dense<'_>,
        out: &mut [u8],
        item: usize,
    ) {
        let Some(patch) = self.patches.get(&id) else { return };
        for group in boxes::groups(dims, &patch.all(), 1) {
            for piece in group.pieces {
                let mut count = vec![1; piece.first.len()];
                if let Some(last) = count.last_mut() {
                    *last = piece.count;
                }
                let at = piece.at as usize * item;
                let cells = &patch.data[at..at + piece.count as usize * item];
                boxes::copy(boxes::Dense { first: &piece.first, count: &count }, cells, wanted, out, item);
            }
        }
    }

    pub(crate) fn take_patch(&mut self, id: Id) -> Option<Patch> {
        let patch = self.patches.remove(&id)?;
        self.patched_bytes -= patch.data.len();
        Some(patch)
    }
}

impl Shared {
    /// Makes the small writes of a dataset blocks.
    pub(crate) fn spill_small_writes<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
    ) -> Result<MutexGuard<'a, FileState>> {
        match state.take_patch(id) {
            Some(patch) => self.write_runs_exactly(state, id, &patch.all(), &patch.data),
            None => Ok(state),
        }
    }

    /// Makes all small writes blocks, in one rank by itself.
    pub(crate) fn spill_all_small_writes<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
    ) -> Result<MutexGuard<'a, FileState>> {
        let kept: Vec<Id> = state.patches.keys().copied().collect();
        for id in kept {
            state = self.spill_small_writes(state, id)?;
        }
        Ok(state)
    }

    /// Exchanges the small writes of all ranks, and buffers blocks in their place. All ranks call this
    /// together.
    pub(crate) fn exchange_small_writes(self: &Arc<Self>, team: &Team) -> Result<()> {
        let mut state = self.lock();
        let mut patches: Vec<(Id, Patch, Vec<u64>, usize)> = Vec::new();
        for id in state.patches.keys().copied().collect::<Vec<_>>() {
            let (Some(patch), Ok((dims, item))) = (state.take_patch(id), state.shape(id)) else { continue };
            patches.push((id, patch, dims, item));
        }
        drop(state);
        // Which cells are touched, and how many are written: the same table on all ranks.
        let mut own = Vec::new();
        for (id, patch, _, _) in &patches {
            let start = patch.runs.iter().map(|runs| runs.start).min().unwrap_or(0);
            let end = patch.runs.iter().map(|runs| runs.end()).max().unwrap_or(0);
            let count = patch.runs.iter().map(|runs| runs.count * runs.length).sum();
            Runs { start, step: 0, length: (end - start).max(1), count: 1 }.encode(*id, &mut own);
            own.extend(u64::to_le_bytes(count));
        }
        let mut table: std::collections::BTreeMap<Id, (std::ops::Range<u64>, u64)> = Default::default();
        for heard in team.exchange(&own, false, Ok(()))?.0 {
            let mut rest = &heard[..];
            while let Some((id, runs, after)) = Runs::decode(rest) {
                let Some((count, after)) = after.split_first_chunk::<8>() else { break };
                let (touched, written) = table.entry(id).or_insert((runs.start..runs.end(), 0));
                *touched = touched.start.min(runs.start)..touched.end.max(runs.end());
                *written += u64::from_le_bytes(*count);
                rest = after;
            }
        }
        table.retain(|_, (touched, written)| (touched.end - touched.start) / DENSE <= *written);
        let most = (ROUND / team.place().1 as usize).max(64 << 10);
        let mut parts = Vec::new();
        for (id, patch, _, item) in patches.iter().filter(|(id, ..)| table.contains_key(id)) {
            patch.parts(*id, *item, most, &mut parts);
        }
        let mut local = Ok(());
        let mut shares = Vec::new();
        for (id, (touched, _)) in &table {
            let (dims, item) = self.lock().shape(*id)?;
            match Share::of(&dims, touched.clone(), team.place(), item) {
                Ok(share) => shares.extend(share.map(|share| (*id, share, item))),
                Err(e) => local = Err(e),
            }
        }
        let mut parts = parts.into_iter().peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            let (heard, more) =
                team.exchange(&part, parts.peek().is_some(), std::mem::replace(&mut local, Ok(())))?;
            for said in heard {
                let mut rest = &said[..];
                while let Some((id, runs, data)) = Runs::decode(rest) {
                    let Some((_, share, item)) = shares.iter_mut().find(|(of, ..)| *of == id) else {
                        let bytes =
                            ((runs.count * runs.length) as usize).saturating_mul(self.lock().shape(id)?.1);
                        rest = data.get(bytes..).unwrap_or_default();
                        continue;
                    };
                    let bytes = ((runs.count * runs.length) as usize).saturating_mul(*item);
                    let Some((cells, after)) = data.split_at_checked(bytes) else { break };
                    share.take(runs, cells, *item);
                    rest = after;
                }
            }
            if !more {
                break;
            }
        }
        let mut state = self.lock();
        for (id, patch, _, _) in patches.iter().filter(|(id, ..)| !table.contains_key(id)) {
            state = self.write_runs_exactly(state, *id, &patch.all(), &patch.data)?;
        }
        for (id, share, item) in shares {
            let (runs, data) = share.found(item);
            let (dims, _) = state.shape(id)?;
            state = match runs[..] {
                [(start, n)] if whole_rows(&dims, start, n).is_some() => {
                    let (first, count) = whole_rows(&dims, start, n).unwrap_or_default();
                    self.enqueue(state, Block { dataset: id, first, count, data })?
                }
                _ => self.write_runs_exactly(state, id, &runs, &data)?,
            };
        }
        Ok(())
    }
}

/// The box of whole rows that a run is.
fn whole_rows(dims: &[u64], start: u64, n: u64) -> Option<(Vec<u64>, Vec<u64>)> {
    let row = dims[1..].iter().product::<u64>().max(1);
    let (mut first, mut count) = (vec![0; dims.len()], dims.to_vec());
    first[0] = start / row;
    count[0] = n / row;
    (start.is_multiple_of(row) && n.is_multiple_of(row)).then_some((first, count))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    #[test]
    fn shares_take_their_own_cells_and_return_the_written_ones() {
        // 4 rows of 3, in which two ranks write alternate cells but leave out the last.
        let item = 1;
        let mut all = Vec::new();
        for rank in 0..2 {
            let mut share = Share::of(&[4, 3], 0..12, (rank, 2), item).unwrap().unwrap();
            share.take(Runs { start: 0, step: 2, length: 1, count: 6 }, &[10, 12, 14, 16, 18, 20], item);
            share.take(Runs { start: 1, step: 2, length: 1, count: 5 }, &[11, 13, 15, 17, 19], item);
            all.push(share.found(item));
        }
        assert_eq!(all[0], (vec![(0, 6)], (10..16).collect()));
        assert_eq!(all[1], (vec![(6, 5)], (16..21).collect()));
        assert_eq!(whole_rows(&[4, 3], 0, 6), Some((vec![0, 0], vec![2, 3])));
        assert_eq!(whole_rows(&[4, 3], 6, 5), None);
        assert!(Share::of(&[2, 3], 0..6, (0, 5), item).unwrap().is_none());
    }
}
