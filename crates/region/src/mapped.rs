//! A region with memory for its values: mapped, locked, released.
//!
//! Invariants
//! - after a release whose values were not copied, [`Mapped::memory`] waits until they are in the log. A caller that
//!   asks for the memory each time never changes values that are being written;
//! - a lock with renewal is renewed until it is released or ended, or its region is dropped.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use drystone::array::Target;
use drystone::plan::selection::Selection;
use drystone::{Container, Level, Result};

use super::error::{RegionError, invalid};
use super::keeper::Keeper;
use super::lease::Cells;
use super::memory::Memory;
use super::sync::lock;
use super::{checked_cells, created_anew, kind_of};

/// The purposes for which a region is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether its memory is filled with committed values.
    pub read: bool,
    /// Whether its values may be released into the container.
    pub write: bool,
}

/// A mapped region.
#[derive(Debug)]
pub struct Mapped {
    keeper: Arc<Keeper>,
    cells: Cells,
    /// The kind of the variable for which it is mapped.
    kind: u32,
    access: Access,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    memory: Option<Arc<Memory>>,
    /// The length of the memory in bytes.
    len: usize,
    /// A transfer that still reads the memory.
    reading: Option<u64>,
    lock: Option<Held>,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    fence: u64,
    renewal: Option<Arc<Renewal>>,
}

/// Signals the end to the thread that renews a lease.
#[derive(Debug, Default)]
struct Renewal {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Renewal {
    fn begin(keeper: &Arc<Keeper>, fence: u64, every: Duration) -> Arc<Renewal> {
        let renewal = Arc::new(Renewal::default());
        let (keeper, own) = (Arc::clone(keeper), Arc::clone(&renewal));
        std::thread::spawn(move || {
            while !own.ended_within(every) {
                // The release reports an expired lease; other failures may be temporary.
                if let Err(RegionError::LeaseExpired(_)) = keeper.renew(fence) {
                    return;
                }
            }
        });
        renewal
    }

    fn ended_within(&self, time: Duration) -> bool {
        let ended = lock(&self.ended);
        match self.changed.wait_timeout_while(ended, time, |ended| !*ended) {
            Ok((ended, _)) => *ended,
            Err(poisoned) => *poisoned.into_inner().0,
        }
    }

    fn end(&self) {
        *lock(&self.ended) = true;
        self.changed.notify_all();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.end();
        }
    }
}

impl Mapped {
    /// A box of a variable at one step, checked against the handle's snapshot. Its memory is allocated at the first
    /// use.
    ///
    /// Errors: `InvalidArgument` for a step of a variable without steps, or for none of one with steps; `OutOfRange`
    /// if the box is not in the variable; `Unsupported` if its elements have no fixed size.
    pub fn new(keeper: Arc<Keeper>, container: &Container, cells: Cells, access: Access) -> Result<Mapped> {
        let (item, kind) = checked_cells(container, &cells)?;
        let item = item as u64;
        let len = cells.count.iter().try_fold(item, |all, n| all.checked_mul(*n));
        let len = len.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= isize::MAX as usize);
        let len = len.ok_or_else(|| invalid("the region does not fit the address space"))?;
        // Locks compare paths.
        let cells = Cells { variable: Container::normal_path(&cells.variable).to_owned(), ..cells };
        let state = State { len, ..State::default() };
        Ok(Mapped { keeper, cells, kind, access, state: Mutex::new(state) })
    }

    /// The purposes for which it is mapped.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The keeper that takes its releases.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The box.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Its memory: dense elements in C order. Waits until no release reads it any more. The caller synchronises
    /// writes to it.
    pub fn memory(&self) -> std::result::Result<Arc<Memory>, RegionError> {
        let (memory, reading) = {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(invalid("the region is closed").into());
            }
            let memory = match &state.memory {
                Some(memory) => Arc::clone(memory),
                None => {
                    let made = self.keeper.memory(state.len)?;
                    state.memory = Some(Arc::clone(&made));
                    made
                }
            };
            (memory, state.reading)
        };
        if let Some(transfer) = reading {
            // The transfer reports why it failed. The memory is free either way.
            while matches!(self.keeper.wait(transfer, false, Duration::from_secs(1)), Ok(Level::Received)) {}
            let mut state = lock(&self.state);
            if state.reading == Some(transfer) {
                state.reading = None;
            }
        }
        Ok(memory)
    }

    /// The fencing number of its write lock.
    pub fn fence(&self) -> Option<u64> {
        lock(&self.state).lock.as_ref().map(|held| held.fence)
    }

    /// Whether a transfer may still read its memory.
    pub fn is_read(&self) -> bool {
        lock(&self.state).reading.is_some()
    }

    /// Locks the box for writing, as soon as no other lease has a cell of it. Waits for at most `timeout`. The lease
    /// expires after `life` (zero: the default) unless it is renewed, which a thread of this process does if `renew`
    /// is set. The memory stays unchanged. If the region is also mapped for reading, everything that earlier holders
    /// released in the box is committed when this returns, so a load of the newest commit misses none of it.
    pub fn lock(
        &self,
        timeout: Duration,
        life: Duration,
        renew: bool,
    ) -> std::result::Result<u64, RegionError> {
        if !self.access.write {
            return Err(invalid("the region was mapped to be read: map it to write").into());
        }
        self.require_free()?;
        let lease = self.keeper.lock(&self.cells, timeout, life)?;
        if self.access.read
            && let Err(error) = self.keeper.commit_released(&self.cells)
        {
            // If this fails, the lease ends by itself.
            drop(self.keeper.unlock(lease.fence));
            return Err(error);
        }
        let renewal = renew.then(|| Renewal::begin(&self.keeper, lease.fence, lease.life / 3));
        lock(&self.state).lock = Some(Held { fence: lease.fence, renewal });
        Ok(lease.fence)
    }

    fn require_free(&self) -> Result<()> {
        let state = lock(&self.state);
        if state.closed {
            return Err(invalid("the region is closed"));
        }
        if state.lock.is_some() {
            return Err(invalid("the region is locked: release it first"));
        }
        Ok(())
    }

    /// Releases the values, and ends the lock if there is one. Returns the transfer. `LeaseExpired`: nothing was
    /// written.
    pub fn release(&self, stable: bool) -> std::result::Result<u64, RegionError> {
        if !self.access.write {
            return Err(invalid("the region was mapped to be read: there is nothing to release").into());
        }
        let memory = self.memory()?;
        let held = lock(&self.state).lock.take();
        let (transfer, is_read) = self.keeper.release(
            &self.cells,
            &memory,
            (held.as_ref().map(|held| held.fence), stable, self.kind),
        )?;
        lock(&self.state).reading = is_read.then_some(transfer);
        Ok(transfer)
    }

    /// Ends the lock. Changes in the memory are not written.
    pub fn unlock(&self) -> std::result::Result<(), RegionError> {
        let held = lock(&self.state).lock.take();
        held.map_or(Ok(()), |held| self.keeper.unlock(held.fence))
    }

    /// Fills the memory with the values of the newest commit.
    pub fn load_newest(&self) -> std::result::Result<(), RegionError> {
        self.load(self.keeper.newest()?)
    }

    /// Fills the memory with the values of a handle's snapshot. Unwritten cells get the fill value.
    pub fn load(&self, from: &Container) -> std::result::Result<(), RegionError> {
        let memory = self.memory()?;
        let reading = from.reading(&self.cells.variable, None)?;
        let variable = reading.variable();
        if kind_of(variable) != self.kind {
            return Err(created_anew(&self.cells).into());
        }
        let item = variable.dtype.item_size() as usize;
        let first = self.cells.step.map(|step| (step, 1));
        let axes = self.cells.offset.iter().copied().zip(self.cells.count.iter().copied());
        let (offset, count): (Vec<u64>, Vec<u64>) = first.into_iter().chain(axes).unzip();
        let shape = reading.shape();
        let is_there = offset.len() == shape.len()
            && offset.iter().zip(&count).zip(&shape).all(|((at, n), extent)| at + n <= *extent);
        let strides = drystone::array::dense_strides(&count, item as u64)?;
        if is_there {
            // SAFETY: the memory has an element for each cell of the box, and only the region uses it while it is
            // loaded.
            let target = unsafe { Target::new(memory.pointer(), &count, &strides, item)? };
            reading.read(&Selection::boxed(&offset, &count), &target)?;
            return Ok(());
        }
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.pointer(), memory.len()) };
        match &variable.fill {
            Some(fill) if fill.len() == item => {
                bytes.chunks_mut(item).for_each(|cell| cell.copy_from_slice(fill))
            }
            _ => bytes.fill(0),
        }
        Ok(())
    }

    /// Ends the lock, and frees the memory. A second call does nothing.
    pub fn close(&self) -> std::result::Result<(), RegionError> {
        let ended = self.unlock();
        let mut state = lock(&self.state);
        state.closed = true;
        if let (Some(memory), Some(transfer)) = (state.memory.take(), state.reading.take()) {
            self.keeper.park(transfer, memory);
        }
        ended
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        drop(self.close());
    }
}
