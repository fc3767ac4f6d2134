//! Reading and writing cells of a dataset, in the stored type.
//!
//! Small datasets stay in memory as a whole while they are written. Others are blocks: a read takes the
//! committed cells and overlays the buffered ones, oldest first. Selections that are no box go through boxes
//! around their pieces.

use std::sync::{Arc, MutexGuard};

use drystone::array::Target;
use drystone::plan::selection::Selection;

use crate::file::background;
use crate::file::heap::HEAP;
use crate::file::native;
use crate::file::patches;
use crate::file::state::{Block, FileState, Resident, Shared};
use crate::library::failure::{Failure, Result};
use crate::library::space::Cells;
use crate::model::boxes::{self, Dense};
use crate::model::tree::{Id, Space};
use crate::ranks::team::Team;

/// Datasets of at most this many bytes are kept as a whole.
const SMALL: u64 = 128 << 10;
/// Boxes around scattered pieces hold at most this many bytes.
const AROUND: u64 = 8 << 20;
/// Bytes of a page of the heap.
const PAGE: u64 = 1 << 20;
/// Most pages of the heap that are kept.
const PAGES: usize = 16;

impl Shared {
    /// Reads selected cells, one after the other in the order of transfer.
    pub fn read(self: &Arc<Self>, id: Id, cells: &Cells) -> Result<Vec<u8>> {
        let mut state = self.lock();
        state.heap.begin_read();
        let (dims, item) = state.shape(id)?;
        match cells {
            Cells::Box(first, count) => {
                let mut out = buffer(count, item)?;
                drop(self.read_box(state, id, first, count, &mut out)?);
                Ok(out)
            }
            Cells::Runs(runs) => {
                let points = runs.iter().try_fold(0u64, |a, (_, n)| a.checked_add(*n));
                let mut out = buffer(&[points.ok_or_else(too_large)?], item)?;
                for group in boxes::groups(&dims, runs, (AROUND / item as u64).max(1)) {
                    let mut around = buffer(&group.count, item)?;
                    state = self.read_box(state, id, &group.first, &group.count, &mut around)?;
                    let dense = Dense { first: &group.first, count: &group.count };
                    for piece in &group.pieces {
                        let (there, here) = piece.bytes(dense, item);
                        out[there].copy_from_slice(&around[here]);
                    }
                }
                Ok(out)
            }
        }
    }

    /// Reads a box straight into a buffer of its size.
    pub fn read_into(self: &Arc<Self>, id: Id, first: &[u64], count: &[u64], out: &mut [u8]) -> Result<()> {
        let state = self.lock();
        self.read_box(state, id, first, count, out).map(drop)
    }

    fn read_box<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
        first: &[u64],
        count: &[u64],
        out: &mut [u8],
    ) -> Result<MutexGuard<'a, FileState>> {
        let (dims, item) = state.shape(id)?;
        check_box(&dims, first, count)?;
        if out.is_empty() {
            return Ok(state);
        }
        let wanted = Dense { first, count };
        let zeros = vec![0; dims.len()];
        if let Some(resident) = state.resident.get(&id) {
            boxes::copy(Dense { first: &zeros, count: &dims }, &resident.data, wanted, out, item);
            return Ok(state);
        }
        if state.uncommitted.contains(&id) {
            state = self.commit(state)?;
        }
        let fill = state.tree.dataset(id).and_then(|d| d.unwritten().map(<[u8]>::to_vec));
        state.catch_up()?;
        state.read_committed(id, first, count, item, fill.as_deref(), out)?;
        for block in state.pending.iter().filter(|b| b.dataset == id) {
            let from = Dense { first: &block.first, count: &block.count };
            boxes::copy(from, &block.data, wanted, out, item);
        }
        state.overlay_small_writes(id, &dims, wanted, out, item);
        Ok(state)
    }

    /// Writes selected cells, given one after the other in the order of transfer.
    pub fn write(self: &Arc<Self>, id: Id, cells: &Cells, data: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        let (dims, item) = state.shape(id)?;
        if let Cells::Box(first, count) = cells {
            check_box(&dims, first, count)?;
        }
        if data.is_empty() {
            return Ok(());
        }
        let zeros = vec![0; dims.len()];
        let whole = Dense { first: &zeros, count: &dims };
        // Each rank of several writes its own cells and no others.
        if self.team.is_none()
            && state.make_resident(id, &dims, item)?
            && let Some(resident) = state.resident.get_mut(&id)
        {
            resident.dirty = true;
            match cells {
                Cells::Box(first, count) => {
                    boxes::copy(Dense { first, count }, &data, whole, &mut resident.data, item);
                }
                Cells::Runs(runs) => {
                    let mut at = 0;
                    for (start, n) in runs {
                        let (start, n) = (*start as usize * item, *n as usize * item);
                        let to = resident.data.get_mut(start..start + n).ok_or_else(outside)?;
                        to.copy_from_slice(data.get(at..at + n).ok_or_else(outside)?);
                        at += n;
                    }
                }
            }
            state.dirty = true;
            if state.resident_bytes > background::RESIDENT {
                drop(self.spill(state)?);
            }
            return Ok(());
        }
        match cells {
            Cells::Box(first, count) => {
                let state = self.spill_small_writes(state, id)?; // in their order
                let block = Block { dataset: id, first: first.clone(), count: count.clone(), data };
                drop(self.enqueue(state, block)?);
            }
            Cells::Runs(runs) => {
                for group in boxes::groups(&dims, runs, (AROUND / item as u64).max(1)) {
                    state = self.write_group(state, id, group, &data, item)?;
                }
            }
        }
        Ok(())
    }

    /// Writes pieces: one by one if they are few, else through the box around them.
    fn write_group<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
        group: boxes::Group,
        data: &[u8],
        item: usize,
    ) -> Result<MutexGuard<'a, FileState>> {
        if self.team.is_some() {
            return self.write_own(state, id, &group, data, item);
        }
        let sparse = group.pieces.len() <= 16 && group.volume() / group.elements.max(1) > 8;
        if sparse {
            for piece in group.pieces {
                let mut count = vec![1; piece.first.len()];
                if let Some(last) = count.last_mut() {
                    *last = piece.count;
                }
                let at = piece.at as usize * item;
                let bytes = data.get(at..at + piece.count as usize * item).ok_or_else(outside)?.to_vec();
                state = self.enqueue(state, Block { dataset: id, first: piece.first, count, data: bytes })?;
            }
            return Ok(state);
        }
        let mut around = buffer(&group.count, item)?;
        if group.elements < group.volume() {
            state = self.read_box(state, id, &group.first, &group.count, &mut around)?;
        }
        let dense = Dense { first: &group.first, count: &group.count };
        for piece in &group.pieces {
            let (there, here) = piece.bytes(dense, item);
            around[here].copy_from_slice(data.get(there).ok_or_else(outside)?);
        }
        self.enqueue(state, Block { dataset: id, first: group.first, count: group.count, data: around })
    }

    /// Writes exactly the cells of the pieces, in a rank of several: in as few boxes as they form, or as
    /// small writes.
    fn write_own<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
        group: &boxes::Group,
        data: &[u8],
        item: usize,
    ) -> Result<MutexGuard<'a, FileState>> {
        let (dims, _) = state.shape(id)?;
        if data.len() < (group.pieces.last().map_or(0, |p| p.at + p.count)) as usize * item {
            return Err(outside());
        }
        let bytes = group.elements as usize * item;
        let small_writes = |boxes: usize| patches::are_small_writes(boxes, bytes);
        // Along one axis pieces form no larger boxes.
        let exact = match dims.len() {
            1 if small_writes(group.pieces.len()) => None,
            _ => Some(boxes::exact(&group.pieces)),
        };
        if exact.as_ref().is_none_or(|exact| small_writes(exact.len()))
            && state.keep_small_writes(id, &dims, group, data, item, self.config.buffer)
        {
            return Ok(state);
        }
        state = self.spill_small_writes(state, id)?;
        self.write_boxes(state, id, exact.unwrap_or_else(|| boxes::exact(&group.pieces)), data, item)
    }

    /// Writes runs of cells as blocks, whatever their size.
    pub(crate) fn write_runs_exactly<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
        runs: &[(u64, u64)],
        data: &[u8],
    ) -> Result<MutexGuard<'a, FileState>> {
        let (dims, item) = state.shape(id)?;
        for group in boxes::groups(&dims, runs, (AROUND / item as u64).max(1)) {
            state = self.write_boxes(state, id, boxes::exact(&group.pieces), data, item)?;
        }
        Ok(state)
    }

    fn write_boxes<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
        id: Id,
        found: Vec<boxes::Exact<'_>>,
        data: &[u8],
        item: usize,
    ) -> Result<MutexGuard<'a, FileState>> {
        for (first, count, pieces) in found {
            let mut cells = buffer(&count, item)?;
            let dense = Dense { first: &first, count: &count };
            for piece in pieces {
                let (there, here) = piece.bytes(dense, item);
                cells[here].copy_from_slice(data.get(there).ok_or_else(outside)?);
            }
            state = self.enqueue(state, Block { dataset: id, first, count, data: cells })?;
        }
        Ok(state)
    }

    /// Makes all cells of small datasets blocks.
    fn spill<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, FileState>,
    ) -> Result<MutexGuard<'a, FileState>> {
        let resident = std::mem::take(&mut state.resident);
        state.resident_bytes = 0;
        for (id, resident) in resident.into_iter().filter(|(_, r)| r.dirty) {
            let (dims, _) = state.shape(id)?;
            let first = vec![0; dims.len()];
            state = self.enqueue(state, Block { dataset: id, first, count: dims, data: resident.data })?;
        }
        Ok(state)
    }

    /// Sets the extent of a dataset; cells that are removed and added again read as fill.
    pub fn set_extent(self: &Arc<Self>, id: Id, to: &[u64]) -> Result<()> {
        let mut state = self.lock();
        state.check()?;
        let (dims, item) = state.shape(id)?;
        let dataset = state.tree.dataset(id).ok_or_else(gone)?;
        let Space::Simple(_, max) = &dataset.space else {
            return Err(Failure::invalid("a dataset that is not an array has no extent to set"));
        };
        let max = max.clone();
        if to.len() != dims.len() || to.iter().zip(&max).any(|(n, m)| n > m) {
            return Err(Failure::range("the new extent is beyond the dataset's largest"));
        }
        let points = Space::Simple(to.to_vec(), max.clone()).points();
        if points.and_then(|n| n.checked_mul(item as u64)).is_none_or(|n| n >= 1 << 62) {
            return Err(too_large());
        }
        if to == dims {
            return Ok(());
        }
        state = self.spill_small_writes(state, id)?; // they count cells by the extent
        if let Some(resident) = state.resident.remove(&id) {
            state.resident_bytes -= resident.data.len();
            if resident.dirty {
                let first = vec![0; dims.len()];
                let block = Block { dataset: id, first, count: dims.clone(), data: resident.data };
                state = self.enqueue(state, block)?;
            }
        }
        let came_back = |high: &[u64]| !returning(&dims, to, high).is_empty();
        let dataset = state.tree.dataset(id).ok_or_else(gone)?;
        // With several ranks one fills added cells, after all earlier and before all later writes.
        let refills = self.team.as_deref().filter(|_| came_back(&dataset.high));
        if refills.is_some() {
            drop(state);
            self.flush()?;
            state = self.lock();
        }
        let dataset = state.tree.dataset_mut(id).ok_or_else(gone)?;
        let high: Vec<u64> = dataset.high.iter().zip(&dims).map(|(h, n)| *h.max(n)).collect();
        dataset.high.clone_from(&high);
        dataset.space = Space::Simple(to.to_vec(), max);
        let fill = dataset.unwritten().map_or_else(|| vec![0; item], <[u8]>::to_vec);
        state.dirty = true;
        let fills = refills.is_none_or(Team::is_first);
        for (first, count) in returning(&dims, to, &high).into_iter().filter(|_| fills) {
            // Cells that a variable does not have yet read as fill anyway: these existed before.
            for (first, count) in slabs(&first, &count, (AROUND / item as u64).max(1)) {
                let data = boxes::filled(volume(&count) as usize, Some(&fill));
                state = self.enqueue(state, Block { dataset: id, first, count, data })?;
            }
        }
        drop(state);
        match refills {
            Some(_) => self.flush(),
            None => Ok(()),
        }
    }

    /// Stores bytes of variable length; returns their offset.
    pub fn keep(self: &Arc<Self>, bytes: &[u8]) -> Result<u64> {
        let mut state = self.lock();
        state.check()?;
        if !self.writable {
            return Err(Failure::read_only("the file is open for reading only"));
        }
        if state.heap.pending.len() > background::HEAP_LIMIT && self.team.is_none() {
            state = self.commit(state)?;
        }
        let at = state.heap.stored + state.heap.pending.len() as u64;
        state.heap.pending.extend_from_slice(bytes);
        state.dirty = true;
        Ok(at)
    }

    /// Stored bytes of variable length.
    pub fn kept(self: &Arc<Self>, at: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.lock();
        let end = at.checked_add(out.len() as u64).ok_or_else(no_heap)?;
        if let Some(bytes) = &state.heap.attributes
            && end <= bytes.len() as u64
        {
            out.copy_from_slice(&bytes[at as usize..end as usize]);
            return Ok(());
        }
        let stored = state.heap.stored;
        if at >= stored {
            let (from, to) = ((at - stored) as usize, (end - stored) as usize);
            out.copy_from_slice(state.heap.pending.get(from..to).ok_or_else(no_heap)?);
            return Ok(());
        }
        if end > stored {
            return Err(no_heap());
        }
        let mut at = at;
        let mut out = out;
        while !out.is_empty() {
            let page = state.heap_page(at / PAGE)?;
            let from = (at % PAGE) as usize;
            let n = out.len().min(page.len().saturating_sub(from));
            if n == 0 {
                return Err(no_heap());
            }
            let (now, rest) = out.split_at_mut(n);
            now.copy_from_slice(&page[from..from + n]);
            (out, at) = (rest, at + n as u64);
        }
        Ok(())
    }
}

impl FileState {
    /// Extent of a dataset and bytes of an element.
    pub fn shape(&self, id: Id) -> Result<(Vec<u64>, usize)> {
        let dataset = self.tree.dataset(id).ok_or_else(gone)?;
        Ok((dataset.space.dims().to_vec(), dataset.dtype.size as usize))
    }

    /// Loads all cells of a small dataset into memory; `false` if it is not small, or was written in blocks
    /// already.
    fn make_resident(&mut self, id: Id, dims: &[u64], item: usize) -> Result<bool> {
        if self.resident.contains_key(&id) {
            return Ok(true);
        }
        let bytes = volume(dims).saturating_mul(item as u64);
        if bytes > SMALL || self.uncommitted.contains(&id) || self.pending.iter().any(|b| b.dataset == id) {
            return Ok(false);
        }
        let fill = self.tree.dataset(id).and_then(|d| d.unwritten().map(<[u8]>::to_vec));
        let mut data = vec![0; bytes as usize];
        self.catch_up()?;
        self.read_committed(id, &vec![0; dims.len()], dims, item, fill.as_deref(), &mut data)?;
        self.resident_bytes += data.len();
        self.resident.insert(id, Resident { data, dirty: false });
        Ok(true)
    }

    /// The committed cells of a box, and the fill value elsewhere.
    fn read_committed(
        &mut self,
        id: Id,
        first: &[u64],
        count: &[u64],
        item: usize,
        fill: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let nothing = |out: &mut [u8]| {
            if let Some(fill) = fill {
                out.chunks_exact_mut(item).for_each(|cell| cell.copy_from_slice(fill));
            } else {
                out.fill(0);
            }
        };
        let dataset = self.tree.dataset(id).ok_or_else(gone)?;
        let Some((variable, uid)) = dataset.variable else {
            nothing(out);
            return Ok(());
        };
        let path = self.variables.get(&variable).ok_or_else(|| {
            Failure::damaged(format!("the variable {variable} of a dataset is not in the container"))
        })?;
        let reading = self.container.reading(path, None)?;
        if reading.variable().uid != uid {
            return Err(Failure::damaged(format!("{path} is not the variable that the catalogue means")));
        }
        if reading.has_blobs() {
            return native::read_variable_length(&mut self.heap, &reading, first, count, out);
        }
        let element = crate::model::element::Element::of(&reading.variable().dtype, dataset.dtype.size);
        let there = reading.shape();
        if there.len() != element.count(count).len() || reading.item() as usize > item {
            return Err(Failure::damaged(format!("{path} has not the shape that the catalogue says")));
        }
        let zeros = vec![0; first.len()];
        let stored = Dense { first: &zeros, count: &there[..first.len()] };
        let wanted = Dense { first, count };
        let read = |first: &[u64], count: &[u64], out: &mut [u8]| -> Result<()> {
            let (first, count) = (element.first(first), element.count(count));
            let target = Target::dense(out, &count, reading.item() as usize)?;
            reading
                .read(&Selection::boxed(&first, &count), &target)
                .map_err(|e| Failure { minor: "H5E_READERROR_g\0", ..Failure::from(e) })?;
            Ok(())
        };
        match boxes::meet(stored, wanted) {
            Some((f, c)) if f == first && c == count => read(first, count, out),
            Some((f, c)) => {
                nothing(out);
                let mut part = buffer(&c, item)?;
                read(&f, &c, &mut part)?;
                boxes::copy(Dense { first: &f, count: &c }, &part, wanted, out, item);
                Ok(())
            }
            None if first.is_empty() => read(first, count, out),
            None => {
                nothing(out);
                Ok(())
            }
        }
    }

    fn heap_page(&mut self, page: u64) -> Result<Arc<Vec<u8>>> {
        if let Some(found) = self.heap.pages.get(&page) {
            return Ok(found.clone());
        }
        self.catch_up()?;
        let reading = self.container.reading(HEAP, None)?;
        let end = reading.shape().first().copied().unwrap_or(0).min(self.heap.stored);
        let from = page.checked_mul(PAGE).filter(|f| *f < end).ok_or_else(no_heap)?;
        let n = (end - from).min(PAGE);
        let mut bytes = vec![0; n as usize];
        reading.read(&Selection::boxed(&[from], &[n]), &Target::dense(&mut bytes, &[n], 1)?)?;
        if self.heap.pages.len() >= PAGES {
            self.heap.pages.pop_first();
        }
        let bytes = Arc::new(bytes);
        self.heap.pages.insert(page, bytes.clone());
        Ok(bytes)
    }
}

fn gone() -> Failure {
    Failure::not_found("the object is not a dataset, or it is gone")
}

fn outside() -> Failure {
    Failure::range("the selection leaves the dataset")
}

fn no_heap() -> Failure {
    Failure::damaged("a value of variable length lies outside the heap")
}

fn too_large() -> Failure {
    Failure::range("the selection is too large")
}

fn volume(count: &[u64]) -> u64 {
    count.iter().fold(1, |a: u64, n| a.saturating_mul(*n))
}

/// A buffer for this many cells; an error if memory does not suffice.
fn buffer(count: &[u64], item: usize) -> Result<Vec<u8>> {
    let bytes = count.iter().try_fold(item as u64, |a, n| a.checked_mul(*n)).ok_or_else(too_large)?;
    let bytes = usize::try_from(bytes).map_err(|_| too_large())?;
    let mut out = Vec::new();
    out.try_reserve_exact(bytes).map_err(|_| too_large())?;
    out.resize(bytes, 0);
    Ok(out)
}

fn check_box(dims: &[u64], first: &[u64], count: &[u64]) -> Result<()> {
    let fits = |((n, f), c): ((&u64, &u64), &u64)| f.checked_add(*c).is_some_and(|end| end <= *n);
    match dims.len() == first.len() && dims.iter().zip(first).zip(count).all(fits) {
        true => Ok(()),
        false => Err(outside()),
    }
}

/// The boxes of cells that were outside `from`, are inside `to`, and may hold older values (inside `high`).
fn returning(from: &[u64], to: &[u64], high: &[u64]) -> Vec<(Vec<u64>, Vec<u64>)> {
    let rank = from.len();
    let mut out = Vec::new();
    for d in 0..rank {
        let end = to[d].min(high[d]);
        if end <= from[d] {
            continue;
        }
        // Axes before d: existing cells; axis d: new cells; axes after: everything.
        let mut first = vec![0; rank];
        let mut count: Vec<u64> =
            (0..rank).map(|k| if k < d { from[k].min(to[k]) } else { to[k].min(high[k]) }).collect();
        first[d] = from[d];
        count[d] = end - from[d];
        if !count.contains(&0) {
            out.push((first, count));
        }
    }
    out
}

/// A box as slabs of at most this many cells, cut along the first axis.
fn slabs(first: &[u64], count: &[u64], most: u64) -> Vec<(Vec<u64>, Vec<u64>)> {
    let row = volume(&count[1..]).max(1);
    let step = (most / row).max(1);
    let mut out = Vec::new();
    let mut at = 0;
    while at < count[0] {
        let n = step.min(count[0] - at);
        let (mut f, mut c) = (first.to_vec(), count.to_vec());
        f[0] += at;
        c[0] = n;
        out.push((f, c));
        at += n;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_come_back_are_each_filled_once() {
        let (from, to, high) = ([2, 3], [5, 6], [4, 5]);
        let found = returning(&from, &to, &high);
        for x in 0..to[0] {
            for y in 0..to[1] {
                let inside = |(f, c): &(Vec<u64>, Vec<u64>)| {
                    x >= f[0] && x < f[0] + c[0] && y >= f[1] && y < f[1] + c[1]
                };
                let times = found.iter().filter(|b| inside(b)).count();
                let wanted = (x >= from[0] || y >= from[1]) && x < high[0] && y < high[1];
                assert_eq!(times, usize::from(wanted), "cell {x}, {y}");
            }
        }
    }
}
