//! Regions of variables that are locked, written and released while their holder continues.
//!
//! ```text
//! mapped (memory, lock, release) ── keeper: this process, or a server
//! lock ── leases (pure) ── release ── queue, in the order of fencing numbers ── one writer ── commit
//!                                       results in transit: operation, pass, boxes (pure) ─┘
//! ```
//!
//! Invariants
//! - all releases of a container in this process go through one writer, one after the other. So of two that overlap
//!   the later one is newer, also within one commit;
//! - a release under an expired lease is refused before anything is queued;
//! - the queue holds a bounded number of bytes: a release waits while it is full;
//! - a holder that locks a region for reading and writing finds all values that were released there before,
//!   committed.

mod applied;
mod boxes;
mod error;
mod exact_sum;
mod keeper;
mod kernel;
mod lease;
mod mapped;
mod memory;
mod operation;
mod pass;
mod slab;
mod stencil;
mod stored;
mod sync;
mod transit;
mod values;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use drystone::array::Source;
use drystone::format::schema::Variable;
use drystone::{Committed, Container, Error, ErrorKind, Result, Writer, WriterOptions};

use error::{expired, invalid, unsupported};
use lease::Leases;
use pass::Pass;
use sync::lock;
use transit::{Applied, FunctionRule, Results, Rule, Rules, Tallies, rules_of};
use values::Passed;

pub use drystone_function::{Declared, Function, Functions, element_type};
pub use error::RegionError;
pub use keeper::Keeper;
pub use lease::{Cells, Lease};
pub use mapped::{Access, Mapped};
pub use memory::Memory;
pub use operation::Operation;
pub use slab::Lent;
pub use transit::ObjectTransfer;
pub use values::Values;

/// The most bytes that wait to be written.
const QUEUED: usize = 64 << 20;
/// The most released boxes that are tracked as uncommitted. For older ones, only the latest number is kept.
const UNCOMMITTED: usize = 4096;
/// The number for all releases before this table was made, such as those of a server that was killed.
const EARLIER: u64 = 1;
/// The number of transfers whose outcome is remembered.
const REMEMBERED: usize = 1 << 16;

/// The progress of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The values are in memory.
    Received,
    /// The values are in the log, and survive this process.
    Logged,
    /// The values are in the log and on stable storage.
    Stable,
    /// The values were not written.
    Failed(Error),
}

/// A release of a region with its values.
#[derive(Clone, Debug)]
pub struct Release {
    /// The cells of the values.
    pub cells: Cells,
    /// Elements of the variable's type.
    pub values: Values,
    /// The lease that the release ends. `None` if the region was not locked.
    pub fence: Option<u64>,
    /// Whether it must reach stable storage.
    pub stable: bool,
    /// The number of the request, which may be repeated.
    pub once: u64,
    /// The kind of the variable when the region was mapped. `None`: it is not known, and only lengths are checked.
    pub kind: Option<u32>,
}

/// The regions of one container that is open for writing.
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

/// A task of the writer.
enum Job {
    Release(Release),
    Transfer(ObjectTransfer),
}

impl Job {
    /// The number of bytes that it holds.
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
    /// Whether the worker has taken a job and not finished it.
    busy: bool,
    has_worker: bool,
    closed: bool,
    next: u64,
    progress: BTreeMap<u64, Progress>,
    by_request: HashMap<u64, u64>,
    /// Numbers and boxes of releases that no commit of this table has included, ascending.
    uncommitted: VecDeque<(u64, Cells)>,
    /// The latest release whose box was dropped from `uncommitted`; 0 if there is none.
    forgotten: u64,
}

impl Queue {
    /// The latest uncommitted release that may have cells of this box.
    fn latest_in(&self, cells: &Cells) -> Option<u64> {
        let known = self.uncommitted.iter().rev().find(|(_, released)| released.meets(cells));
        known.map(|(number, _)| *number).or_else(|| (self.forgotten > 0).then_some(self.forgotten))
    }

    /// Records that a commit has included all releases up to this number.
    fn committed(&mut self, number: u64) {
        self.uncommitted.retain(|(released, _)| *released > number);
        if self.forgotten <= number {
            self.forgotten = 0;
        }
    }
}

impl Regions {
    /// The regions of a container that is open for writing.
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

    /// Declares an operation that is applied to each release of `source`, a variable with steps. The results go into
    /// `into`, which is created. The same declaration again changes nothing.
    pub fn compute_on_release(&self, source: &str, operation: &Operation, into: &str) -> Result<()> {
        let shared = &self.shared;
        shared.container.refresh()?;
        transit::compute_on_release(&shared.container, source, operation, into)
    }

    /// The bytes of an element of this variable. Checks that the box lies in the variable.
    pub fn element_size(&self, cells: &Cells) -> Result<usize> {
        self.shared.element_size(cells)
    }

    /// Grants a lease on all of these boxes, as soon as no other lease has a cell of them. Waits for at most
    /// `timeout`.
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
                return Err(RegionError::Deadline("another lock holds cells of the region".into()));
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

    /// Ends a lease without a release. An expired lease is not an error.
    pub fn unlock(&self, fence: u64) {
        lock(&self.shared.leases).end(Instant::now(), fence);
        self.shared.freed.notify_all();
    }

    /// Takes the values of a region, ends its lease, and returns the number of the transfer. When this returns, the
    /// values are in memory.
    pub fn release(&self, release: Release) -> std::result::Result<u64, RegionError> {
        let number = self.accept(release);
        self.begin();
        number
    }

    /// As [`release`](Self::release), but nothing is written before [`begin`](Self::begin) or the next release. A
    /// caller that owes a client an answer sends it in between: the writing thread would compete with the client for
    /// the processor.
    pub fn accept(&self, release: Release) -> std::result::Result<u64, RegionError> {
        let shared = &self.shared;
        shared.by_newest(|| shared.accept(&release))?;
        let mut queue = lock(&shared.queue);
        if let Some(known) = queue.by_request.get(&release.once) {
            return Ok(*known);
        }
        while !queue.waiting.is_empty() && queue.bytes + release.values.held() > QUEUED {
            queue = shared.wait(queue, None);
        }
        if let Some(fence) = release.fence {
            // The lease ends when the release gets its place in the queue, so the next holder's release follows it.
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

    /// Starts to write the accepted releases.
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

    /// Starts to transfer values of one variable to another. Returns the number of the transfer, which is awaited
    /// like that of a release.
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

    /// The progress of the transfer, once it is logged (or stable) or `timeout` has passed. `None` if there is no
    /// such transfer.
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

    /// Waits until every release is logged.
    pub fn drain(&self) {
        self.begin();
        let mut queue = lock(&self.shared.queue);
        while queue.busy || !queue.waiting.is_empty() {
            queue = self.shared.wait(queue, None);
        }
    }

    /// Commits the released values, and the groups that other writers have closed.
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

    /// The number of live leases.
    pub fn leases(&self) -> usize {
        lock(&self.shared.leases).alive(Instant::now())
    }
}

impl Drop for Regions {
    /// Writes the received values before the container is closed.
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

/// A checksum of a variable's element type, and of whether it has steps. A region is mapped for one kind.
fn kind_of(variable: &Variable) -> u32 {
    drystone::format::crc32c(format!("{}|{}", variable.dtype, variable.steps).as_bytes())
}

/// The error for a region whose variable has another kind than the one for which it was mapped.
fn created_anew(cells: &Cells) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "\"{}\" was created anew with another type since the region was mapped: map it again",
            cells.variable
        ),
    )
}

/// The bytes of an element of this variable, and its kind. Checks that the box lies in the variable.
fn checked_cells(container: &Container, cells: &Cells) -> Result<(usize, u32)> {
    let snapshot = container.snapshot();
    if let Some(variable) = snapshot.schema.resolve(Container::normal_path(&cells.variable)) {
        return Ok((checked_size(variable, cells)?, kind_of(variable)));
    }
    let reading = match container.reading(&cells.variable, None) {
        // Another process may have created it in the meantime.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            container.refresh()?;
            container.reading(&cells.variable, None)?
        }
        other => other?,
    };
    let variable = reading.variable();
    Ok((checked_size(variable, cells)?, kind_of(variable)))
}

/// The bytes of an element of a variable. Checks that the box lies in the variable.
fn checked_size(variable: &Variable, cells: &Cells) -> Result<usize> {
    let path = &cells.variable;
    if variable.steps != cells.step.is_some() {
        let which = if variable.steps { "has steps: say which" } else { "has no steps" };
        return Err(invalid(format!("\"{path}\" {which}")));
    }
    if variable.dtype.item_size() == 0 || variable.dtype.has_blobs() {
        return Err(unsupported(format!("\"{path}\" holds {}, which cannot be mapped", variable.dtype)));
    }
    let ndim = variable.shape.len();
    if cells.offset.len() != ndim || cells.count.len() != ndim {
        return Err(invalid(format!(
            "\"{path}\" has {ndim} dimensions; the box has an offset in {} and a count in {}",
            cells.offset.len(),
            cells.count.len()
        )));
    }
    let fits = cells.offset.iter().zip(&cells.count).zip(variable.shape.iter().zip(&variable.growable)).all(
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
        self.by_newest(|| checked_cells(&self.container, cells)).map(|(size, _)| size)
    }

    /// Checks again by the newest snapshot what fails by that of the handle, which may have an earlier variable of the
    /// same name.
    fn by_newest<T>(&self, check: impl Fn() -> Result<T>) -> Result<T> {
        check().or_else(|_| {
            self.container.refresh()?;
            check()
        })
    }

    /// Fails unless the values fill the box, and the variable has the kind for which the region was mapped.
    fn accept(&self, release: &Release) -> Result<()> {
        let (size, kind) = checked_cells(&self.container, &release.cells)?;
        if release.kind.is_some_and(|mapped| mapped != kind) {
            return Err(created_anew(&release.cells));
        }
        let wanted = release.cells.count.iter().try_fold(size as u64, |all, n| all.checked_mul(*n));
        if wanted != Some(release.values.len() as u64) {
            return Err(invalid(format!(
                "{} bytes do not fill a box of {:?} cells of {size} bytes in \"{}\"",
                release.values.len(),
                release.cells.count,
                release.cells.variable
            )));
        }
        Ok(())
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
                    // Closing commits the values that were put without a step.
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
                Job::Release(release) => self.write(&mut writer, &mut tallies, (number, release)),
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

    /// Commits if one of the releases before this one has cells of the box and is not committed yet.
    fn commit_earlier(&self, number: u64, cells: &Cells) -> Result<()> {
        let queue = lock(&self.queue);
        let is_earlier = |(released, of): &(u64, Cells)| *released < number && of.meets(cells);
        if queue.forgotten == 0 && !queue.uncommitted.iter().any(is_earlier) {
            return Ok(());
        }
        drop(queue);
        self.container.commit()?;
        lock(&self.queue).committed(number - 1);
        Ok(())
    }

    /// The results of functions for a release. Nothing is written yet.
    fn applied(
        &self,
        number: u64,
        cells: &Cells,
        functions: &[FunctionRule],
        bytes: &[u8],
    ) -> Result<Vec<Applied>> {
        let variable = self.container.reading(&cells.variable, None)?.variable().clone();
        for around in functions.iter().filter_map(|rule| rule.neighbours(cells, &variable.shape)) {
            self.commit_earlier(number, &around)?;
        }
        self.container.refresh()?;
        let reading = self.container.reading(&cells.variable, None)?;
        functions.iter().map(|rule| rule.results(&reading, cells, bytes)).collect()
    }

    fn write(
        &self,
        kept: &mut Option<Writer>,
        tallies: &mut Tallies,
        (number, release): (u64, &Release),
    ) -> Result<()> {
        let cells = &release.cells;
        // Other processes may have added rules in the meantime, or created the variable anew.
        self.container.refresh()?;
        self.accept(release)?;
        let variable = self.container.reading(&cells.variable, None)?.variable().clone();
        let dtype = &variable.dtype;
        let Rules { operations: rules, functions } = rules_of(&self.container, cells, &variable)?;
        functions.iter().try_for_each(|rule| rule.accept(release.values.len()))?;
        // Functions see the same copy of shared memory as all others.
        let copied = if functions.is_empty() { None } else { release.values.copied()? };
        let values = copied.as_ref().unwrap_or(&release.values);
        let applied = match values {
            Values::Owned(bytes) if !functions.is_empty() => {
                self.applied(number, cells, &functions, bytes)?
            }
            _ => Vec::new(),
        };
        let others = tallies.others(&self.container, cells, &rules)?;
        let mut pass = Pass::new(rules.iter().map(Rule::operation), cells, &variable.shape, dtype)?;
        let item = dtype.item_size() as usize;
        let put_all = |writer: &Writer, pass: &mut Pass<'_>| {
            values.each(&cells.count, item, pass, |offset, count, what| {
                let at: Vec<u64> = cells.offset.iter().zip(offset).map(|(at, n)| at + n).collect();
                match what {
                    Passed::Values(bytes) => {
                        let source = Source::dense(bytes, count, item)?;
                        writer.put(&cells.variable, dtype, &source, Some(&at), None)
                    }
                    Passed::Result(n, bytes) => match rules.get(n) {
                        Some(rule) => rule.put(writer, &at, count, bytes),
                        None => Ok(()),
                    },
                }
            })
        };
        let writer = match kept.take() {
            Some(writer) => writer,
            None => self.container.writer(WriterOptions::default())?,
        };
        match cells.step {
            Some(step) => {
                writer.begin_step(Some(step), false)?;
                let put = || {
                    put_all(&writer, &mut pass)?;
                    pass.check(&cells.variable)?;
                    let results = Results::new(cells, dtype, &rules, others, pass.finish());
                    results.put(&writer)?;
                    applied.iter().try_for_each(|applied| applied.put(&writer))?;
                    Ok(results)
                };
                let results = match put() {
                    Ok(results) => results,
                    Err(error) => {
                        writer.abort_step()?;
                        return Err(error);
                    }
                };
                writer.end_step()?;
                tallies.keep(results, writer.id());
                *kept = Some(writer);
            }
            None => {
                put_all(&writer, &mut pass)?;
                pass.check(&cells.variable)?;
                // Without a step it is in the log when the writer closes.
                writer.close()?;
            }
        }
        Ok(())
    }
}
