//! Regions of variables that are locked, written and released while their holder goes on.
//!
//! ```text
//! mapped (memory, lock, release) ── keeper: this process, or a server
//! lock ── leases (pure) ── release ── queue, in the order of fencing numbers ── one writer ── commit
//!                                                    results in transit: operation, boxes (pure) ─┘
//! ```
//!
//! Invariants
//! - all releases of a container in this process go through one writer, one after the other, so of two that overlap the
//!   later one is newer, also within one commit;
//! - a release under an expired lease is refused before anything is queued;
//! - the queue holds a bounded number of bytes: beyond that a release waits;
//! - whoever locks a region to read and write it finds all values that were released there before, committed.

mod boxes;
mod error;
mod keeper;
mod lease;
mod mapped;
mod memory;
mod operation;
mod sync;
mod transit;
mod values;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drystone::array::Source;
use drystone::format::schema::Variable;
use drystone::{Committed, Container, Error, ErrorKind, Result, Writer, WriterOptions};

use error::{expired, invalid, unsupported};
use lease::Leases;
use sync::lock;
use transit::{Results, Tallies, rules_of};

pub use error::RegionError;
pub use keeper::Keeper;
pub use lease::{Cells, Lease};
pub use mapped::{Access, Mapped};
pub use memory::Memory;
pub use operation::Operation;
pub use transit::{ObjectTransfer, compute_on_release};
pub use values::{Lent, Values};

/// The most bytes that wait to be written.
const QUEUED: usize = 64 << 20;
/// Number of released boxes that are known to be uncommitted; of older ones only the latest number is.
const UNCOMMITTED: usize = 4096;
/// The number that stands for all releases before this table was made: those of a server that was killed, for example.
const EARLIER: u64 = 1;
/// Number of transfers whose outcome is remembered.
const REMEMBERED: usize = 1 << 16;

/// The progress of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// In memory.
    Received,
    /// In the log: it survives this process.
    Logged,
    /// In the log, and on stable storage.
    Stable,
    /// It was not written.
    Failed(Error),
}

/// A region that is released with its values.
#[derive(Clone, Debug)]
pub struct Release {
    /// Where they belong.
    pub cells: Cells,
    /// Elements of the variable's type.
    pub values: Values,
    /// The lease that ends with it; `None`: the region was not locked.
    pub fence: Option<u64>,
    /// Whether it must reach stable storage.
    pub stable: bool,
    /// Number of the request, which may be repeated.
    pub once: u64,
}

/// The regions of one container, opened to write.
pub struct Regions {
    shared: Arc<Shared>,
}

struct Shared {
    container: Container,
    leases: Mutex<Leases>,
    freed: Condvar,
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// What the writer does.
enum Job {
    Release(Release),
    Transfer(ObjectTransfer),
}

impl Job {
    /// Bytes that it holds.
    fn bytes(&self) -> usize {
        match self {
            Job::Release(release) => release.values.held(),
            Job::Transfer(_) => 0,
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Job)>,
    bytes: usize,
    /// The worker has taken a job and not finished it.
    busy: bool,
    has_worker: bool,
    closed: bool,
    next: u64,
    progress: BTreeMap<u64, Progress>,
    by_request: HashMap<u64, u64>,
    /// Numbers and boxes of releases that no commit of this table has included, ascending.
    uncommitted: VecDeque<(u64, Cells)>,
    /// The latest release whose box was dropped from `uncommitted`; 0: none.
    forgotten: u64,
}

impl Queue {
    /// The latest uncommitted release that may have cells of this box.
    fn latest_in(&self, cells: &Cells) -> Option<u64> {
        let known = self.uncommitted.iter().rev().find(|(_, released)| released.meets(cells));
        known.map(|(number, _)| *number).or_else(|| (self.forgotten > 0).then_some(self.forgotten))
    }

    /// A commit has included all releases up to this number.
    fn committed(&mut self, number: u64) {
        self.uncommitted.retain(|(released, _)| *released > number);
        if self.forgotten <= number {
            self.forgotten = 0;
        }
    }
}

impl Regions {
    /// For a container that is open to write.
    pub fn new(container: Container) -> Self {
        // Later tables, also of other processes on this machine, use higher numbers.
        let from = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let shared = Shared {
            container,
            leases: Mutex::new(Leases::new(u64::try_from(from).unwrap_or(0))),
            freed: Condvar::new(),
            queue: Mutex::new(Queue { next: EARLIER, forgotten: EARLIER, ..Queue::default() }),
            changed: Condvar::new(),
        };
        Regions { shared: Arc::new(shared) }
    }

    /// The container.
    pub fn container(&self) -> &Container {
        &self.shared.container
    }

    /// Bytes of an element of this variable, after a check that the box lies in it.
    pub fn element_size(&self, cells: &Cells) -> Result<usize> {
        self.shared.element_size(cells)
    }

    /// Grants a lease on all of these boxes, as soon as no other lease has a cell of them; waits for at most `timeout`.
    pub fn lock(
        &self,
        cells: &[Cells],
        timeout: Duration,
        life: Duration,
        once: u64,
    ) -> std::result::Result<Lease, RegionError> {
        for one in cells {
            self.shared.element_size(one)?;
        }
        let until = Instant::now() + timeout;
        let mut leases = lock(&self.shared.leases);
        loop {
            let now = Instant::now();
            let free = match leases.acquire(now, cells, life, once) {
                Ok(lease) => return Ok(lease),
                Err(free) => free,
            };
            if now >= until {
                return Err(RegionError::Deadline(format!(
                    "the region could not be locked within {:.3} s: another lock holds cells of it",
                    timeout.as_secs_f64()
                )));
            }
            let wait = free.min(until).saturating_duration_since(now).max(Duration::from_millis(1));
            leases = match self.shared.freed.wait_timeout(leases, wait) {
                Ok((leases, _)) => leases,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Restarts the lease's time.
    pub fn renew(&self, fence: u64) -> std::result::Result<(), RegionError> {
        if lock(&self.shared.leases).renew(Instant::now(), fence) { Ok(()) } else { Err(expired()) }
    }

    /// Ends a lease without a release. An expired one is no error.
    pub fn unlock(&self, fence: u64) {
        lock(&self.shared.leases).end(Instant::now(), fence);
        self.shared.freed.notify_all();
    }

    /// Takes the values of a region, ends its lease, and returns the number of the transfer. The values are in memory
    /// when this returns.
    pub fn release(&self, release: Release) -> std::result::Result<u64, RegionError> {
        let number = self.accept(release);
        self.begin();
        number
    }

    /// The same, but nothing is written before [`begin`](Self::begin) or the next release. A caller that owes a client an
    /// answer sends it before: the thread that writes would compete for the processor with the client.
    pub fn accept(&self, release: Release) -> std::result::Result<u64, RegionError> {
        let shared = &self.shared;
        let size = shared.element_size(&release.cells)?;
        let wanted = release.cells.count.iter().try_fold(size as u64, |all, n| all.checked_mul(*n));
        if wanted != Some(release.values.len() as u64) {
            return Err(invalid(format!(
                "{} bytes do not fill a box of {:?} cells of {size} bytes in \"{}\"",
                release.values.len(),
                release.cells.count,
                release.cells.variable
            ))
            .into());
        }
        let mut queue = lock(&shared.queue);
        if let Some(known) = queue.by_request.get(&release.once) {
            return Ok(*known);
        }
        while !queue.waiting.is_empty() && queue.bytes + release.values.held() > QUEUED {
            queue = shared.wait(queue, None);
        }
        if let Some(fence) = release.fence {
            // The lease ends when the release gets its place in the queue: what is locked next is released after it.
            let mut leases = lock(&shared.leases);
            let now = Instant::now();
            if !leases.covers(now, fence, &release.cells) {
                return Err(expired());
            }
            leases.end(now, fence);
        }
        let once = release.once;
        let number = shared.push(queue, Job::Release(release), once);
        shared.freed.notify_all();
        Ok(number)
    }

    /// Starts to write what was accepted.
    pub fn begin(&self) {
        let mut queue = lock(&self.shared.queue);
        if queue.waiting.is_empty() {
            return;
        }
        if !std::mem::replace(&mut queue.has_worker, true) {
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || shared.work());
        }
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Starts to transfer values of one variable to another; returns the number of the transfer, which is awaited like
    /// that of a release.
    pub fn transfer(&self, transfer: ObjectTransfer) -> Result<u64> {
        let queue = lock(&self.shared.queue);
        if let Some(known) = queue.by_request.get(&transfer.once) {
            return Ok(*known);
        }
        let once = transfer.once;
        let number = self.shared.push(queue, Job::Transfer(transfer), once);
        self.begin();
        Ok(number)
    }

    /// The progress of the transfer, once it is logged (or stable) or `timeout` has passed. `None`: there is no such
    /// transfer.
    pub fn wait(&self, transfer: u64, stable: bool, timeout: Duration) -> Option<Progress> {
        let until = Instant::now() + timeout;
        let mut queue = lock(&self.shared.queue);
        loop {
            let progress = queue.progress.get(&transfer)?.clone();
            let is_done = match progress {
                Progress::Received => false,
                Progress::Logged => !stable,
                Progress::Stable | Progress::Failed(_) => true,
            };
            let left = until.saturating_duration_since(Instant::now());
            if is_done || left.is_zero() {
                return Some(progress);
            }
            queue = self.shared.wait(queue, Some(left));
        }
    }

    /// Waits until everything that was released is logged.
    pub fn drain(&self) {
        self.begin();
        let mut queue = lock(&self.shared.queue);
        while queue.busy || !queue.waiting.is_empty() {
            queue = self.shared.wait(queue, None);
        }
    }

    /// Commits what was released, and what other writers have closed.
    pub fn commit(&self) -> Result<Committed> {
        let released = lock(&self.shared.queue).next;
        self.drain();
        let committed = self.shared.container.commit()?;
        lock(&self.shared.queue).committed(released);
        Ok(committed)
    }

    /// Commits if values that were released in this box are not committed yet. Releases that failed have no values.
    pub fn commit_released(&self, cells: &Cells) -> Result<()> {
        let Some(latest) = lock(&self.shared.queue).latest_in(cells) else { return Ok(()) };
        self.begin();
        while matches!(self.wait(latest, false, Duration::from_secs(1)), Some(Progress::Received)) {}
        self.shared.container.commit()?;
        lock(&self.shared.queue).committed(latest);
        Ok(())
    }

    /// Leases that are alive.
    pub fn leases(&self) -> usize {
        lock(&self.shared.leases).alive(Instant::now())
    }
}

impl Drop for Regions {
    /// Writes what was received before the container is closed.
    fn drop(&mut self) {
        self.begin();
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        drop(queue);
        self.shared.changed.notify_all();
        let mut queue = lock(&self.shared.queue);
        while queue.has_worker {
            queue = self.shared.wait(queue, None);
        }
    }
}

/// Bytes of an element of this variable, after a check that the box lies in it.
fn element_size(container: &Container, cells: &Cells) -> Result<usize> {
    let snapshot = container.snapshot();
    if let Some(variable) = snapshot.schema.resolve(Container::normal_path(&cells.variable)) {
        return checked_size(variable, cells);
    }
    let reading = match container.reading(&cells.variable, None) {
        // Another process may have created it since.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            container.refresh()?;
            container.reading(&cells.variable, None)?
        }
        other => other?,
    };
    checked_size(reading.variable(), cells)
}

/// Bytes in an element of a variable in which the box must lie.
fn checked_size(variable: &Variable, cells: &Cells) -> Result<usize> {
    let path = &cells.variable;
    if variable.steps != cells.step.is_some() {
        let which = if variable.steps { "has steps: say which" } else { "has no steps" };
        return Err(invalid(format!("\"{path}\" {which}")));
    }
    if variable.dtype.item_size() == 0 || variable.dtype.is_blob() {
        return Err(unsupported(format!("\"{path}\" holds {}, which cannot be mapped", variable.dtype)));
    }
    let fits = cells.offset.len() == variable.shape.len()
        && cells.count.len() == variable.shape.len()
        && cells.offset.iter().zip(&cells.count).zip(variable.shape.iter().zip(&variable.growable)).all(
            |((at, n), (extent, growable))| {
                at.checked_add(*n).is_some_and(|end| *n > 0 && (*growable || end <= *extent))
            },
        );
    if !fits {
        return Err(Error::new(
            ErrorKind::OutOfRange,
            format!(
                "the box at {:?} of {:?} cells does not lie in \"{path}\" {:?}",
                cells.offset, cells.count, variable.shape
            ),
        ));
    }
    Ok(variable.dtype.item_size() as usize)
}

impl Shared {
    /// Adds a job and returns its number.
    fn push(&self, mut queue: MutexGuard<'_, Queue>, job: Job, once: u64) -> u64 {
        queue.next += 1;
        let number = queue.next;
        queue.by_request.insert(once, number);
        queue.progress.insert(number, Progress::Received);
        queue.bytes += job.bytes();
        if let Job::Release(release) = &job {
            if queue.uncommitted.len() == UNCOMMITTED {
                queue.forgotten = queue.uncommitted.pop_front().map_or(0, |(oldest, _)| oldest);
            }
            queue.uncommitted.push_back((number, release.cells.clone()));
        }
        queue.waiting.push_back((number, job));
        number
    }

    fn wait<'a>(&'a self, queue: MutexGuard<'a, Queue>, within: Option<Duration>) -> MutexGuard<'a, Queue> {
        let within = within.unwrap_or(Duration::from_secs(1));
        match self.changed.wait_timeout(queue, within) {
            Ok((queue, _)) => queue,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }

    fn element_size(&self, cells: &Cells) -> Result<usize> {
        element_size(&self.container, cells)
    }

    /// Writes releases in their order, until the regions are dropped.
    fn work(&self) {
        let (mut writer, mut tallies) = (None, Tallies::default());
        loop {
            let mut queue = lock(&self.queue);
            let (number, job) = loop {
                if let Some(first) = queue.waiting.pop_front() {
                    break first;
                }
                if queue.closed {
                    queue.has_worker = false;
                    drop(queue);
                    // Closing commits what was put without a step.
                    let closed = writer.take().map_or(Ok(()), |writer: Writer| writer.close());
                    drop(closed);
                    self.changed.notify_all();
                    return;
                }
                queue = self.wait(queue, None);
            };
            queue.bytes -= job.bytes();
            queue.busy = true;
            drop(queue);
            let stable = matches!(&job, Job::Release(release) if release.stable);
            let done = match &job {
                Job::Release(release) => self.write(&mut writer, &mut tallies, release),
                Job::Transfer(transfer) => transfer.run(&self.container, &mut writer),
            };
            let outcome = done.and_then(|()| {
                if stable {
                    self.container.commit()?;
                    self.container.flush()?;
                }
                Ok(())
            });
            let progress = match outcome {
                Ok(()) if stable => Progress::Stable,
                Ok(()) => Progress::Logged,
                Err(error) => {
                    writer = None;
                    Progress::Failed(error)
                }
            };
            let mut queue = lock(&self.queue);
            queue.busy = false;
            if progress == Progress::Stable {
                queue.committed(number);
            }
            queue.progress.insert(number, progress);
            if queue.progress.len() > REMEMBERED {
                let oldest = queue.progress.keys().next().copied();
                oldest.map(|oldest| queue.progress.remove(&oldest));
                let kept = oldest.unwrap_or(0);
                queue.by_request.retain(|_, number| *number > kept);
            }
            drop(queue);
            self.changed.notify_all();
        }
    }

    fn write(&self, kept: &mut Option<Writer>, tallies: &mut Tallies, release: &Release) -> Result<()> {
        let cells = &release.cells;
        if cells.step.is_some() {
            // Other processes may have added rules since.
            self.container.refresh()?;
        }
        let variable = self.container.reading(&cells.variable, None)?.variable().clone();
        let dtype = &variable.dtype;
        let rules = rules_of(&self.container, cells, &variable);
        let whole = if rules.is_empty() { None } else { Some(release.values.whole()) };
        let results = tallies.results(&self.container, cells, &variable, rules, whole.as_deref())?;
        // If results were computed from a copy, that copy is stored.
        let copied = match whole {
            Some(Cow::Owned(bytes)) => Some(Values::Owned(bytes)),
            _ => None,
        };
        let values = copied.as_ref().unwrap_or(&release.values);
        let item = dtype.item_size() as usize;
        let put_all = |writer: &Writer| {
            values.each(&cells.count, item, |offset, count, bytes| {
                let at: Vec<u64> = cells.offset.iter().zip(offset).map(|(at, n)| at + n).collect();
                writer.put(&cells.variable, dtype, &Source::dense(bytes, count, item)?, Some(&at), None)
            })
        };
        let writer = match kept.take() {
            Some(writer) => writer,
            None => self.container.writer(WriterOptions::default())?,
        };
        match cells.step {
            Some(step) => {
                writer.begin_step(Some(step), false)?;
                let put = |results: &Results| {
                    put_all(&writer)?;
                    results.put(&writer)
                };
                if let Err(error) = put(&results) {
                    writer.abort_step()?;
                    return Err(error);
                }
                writer.end_step()?;
                tallies.keep(results);
                *kept = Some(writer);
            }
            None => {
                put_all(&writer)?;
                // Without a step it is in the log when the writer closes.
                writer.close()?;
            }
        }
        Ok(())
    }
}
