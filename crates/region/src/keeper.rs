//! The keeper of a container's locks and releases: this process, or the server that serves the container.
//!
//! Invariants
//! - all handles of one container in a process have one keeper, so they see each other's locks;
//! - memory that a release did not copy stays unchanged, and is given to no other region, until its values are in the
//!   log.
#![cfg_attr(
    not(feature = "object"),
    allow(dead_code, unused_imports, reason = "these are for containers on servers")
)]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use drystone::{Container, Level, Result};
#[cfg(feature = "object")]
use drystone::{Error, ErrorKind, Mode, OpenOptions};
#[cfg(feature = "object")]
use drystone_client::{Options, Refused, Region, Session, Status};

use super::error::{RegionError, invalid};
use super::lease::{Cells, Lease};
use super::memory::{Memory, Released};
use super::operation::Operation;
use super::sync::lock;
use super::transit::compute_on_release;
use super::{ObjectTransfer, Progress, Regions, Release, Values};

/// The default life of a lease.
const LIFE: Duration = Duration::from_secs(10);
/// The largest region that is copied when it is released. Copying it takes less time than waiting for its memory.
pub(super) const SMALL: usize = 256 << 10;
/// The longest wait for memory of earlier releases. Then a region gets memory of its own.
const PATIENCE: Duration = Duration::from_secs(30);

/// The keeper of one container.
pub struct Keeper {
    way: Way,
    newest: OnceLock<Container>,
    /// Memory that was given up before its values were in the log, in the order of the transfers.
    parked: Mutex<VecDeque<(u64, Arc<Memory>)>>,
}

enum Way {
    Here(Regions),
    #[cfg(feature = "object")]
    Server {
        session: Session,
        options: Vec<(String, String)>,
    },
}

/// A number that identifies a request. Within one process a counter suffices.
fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Keeper {
    /// The keeper of a container to which this handle may write. `options` are those of its store, if it is on a
    /// server.
    pub fn of(container: &Container, options: &[(String, String)]) -> Result<Arc<Keeper>> {
        type Known = HashMap<(u32, [u8; 16]), Weak<Keeper>>;
        static HERE: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

        if !container.is_writable() {
            return Err(invalid("regions are written in a container that was opened to write (mode \"r+\")"));
        }
        #[cfg(feature = "object")]
        if let Some(server) = Self::on_server(container, options)? {
            return Ok(Arc::new(server));
        }
        let _ = options;
        let key = (std::process::id(), container.identity().uuid);
        let mut known = lock(&HERE);
        if let Some(keeper) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(keeper);
        }
        known.retain(|_, keeper| keeper.strong_count() > 0);
        let keeper = Arc::new(Self::new(Way::Here(Regions::new(container.again()?))));
        known.insert(key, Arc::downgrade(&keeper));
        Ok(keeper)
    }

    fn new(way: Way) -> Keeper {
        Keeper { way, newest: OnceLock::new(), parked: Mutex::default() }
    }

    /// A lease on a box, as soon as no other lease has a cell of it. Waits for at most `timeout`. A life of zero
    /// stands for the default.
    pub fn lock(
        &self,
        cells: &Cells,
        timeout: Duration,
        life: Duration,
    ) -> std::result::Result<Lease, RegionError> {
        match &self.way {
            Way::Here(regions) => {
                let life = if life.is_zero() { LIFE } else { life };
                regions.lock(std::slice::from_ref(cells), timeout, life, number()).map_err(
                    |error| match error {
                        RegionError::Deadline(why) => RegionError::Deadline(format!(
                            "no lock within {} s: {why}",
                            timeout.as_secs_f64()
                        )),
                        error => error,
                    },
                )
            }
            #[cfg(feature = "object")]
            Way::Server { session, .. } => {
                let (fence, life) = session.lock(&region(cells), timeout, life).map_err(of_server)?;
                Ok(Lease { fence, life })
            }
        }
    }

    /// Commits if values that were released in the box are not committed yet.
    pub(super) fn commit_released(&self, cells: &Cells) -> std::result::Result<(), RegionError> {
        match &self.way {
            Way::Here(regions) => Ok(regions.commit_released(cells)?),
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.commit_released(&region(cells)).map_err(of_server),
        }
    }

    /// Restarts the lease's time.
    pub fn renew(&self, fence: u64) -> std::result::Result<(), RegionError> {
        match &self.way {
            Way::Here(regions) => regions.renew(fence),
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.renew(fence).map_err(of_server),
        }
    }

    /// Ends a lease without a release.
    pub fn unlock(&self, fence: u64) -> std::result::Result<(), RegionError> {
        match &self.way {
            Way::Here(regions) => {
                regions.unlock(fence);
                Ok(())
            }
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.unlock(fence).map_err(of_server),
        }
    }

    /// Memory of this many bytes, all zero. It is shared with the server, if that is on this machine and has space.
    pub fn memory(&self, len: usize) -> Result<Arc<Memory>> {
        #[cfg(feature = "object")]
        if let Way::Server { session, .. } = &self.way
            && len > SMALL
        {
            let until = Instant::now() + PATIENCE;
            loop {
                if let Some(piece) = session.memory(len) {
                    return Ok(Arc::new(Memory::shared(piece)));
                }
                // Memory of earlier releases returns when their values are written.
                if !self.reclaim(until.saturating_duration_since(Instant::now())) {
                    break;
                }
            }
        }
        Memory::own(len).map(Arc::new)
    }

    /// Takes the values of a region, and ends its lease. Returns the transfer, and whether the memory must stay
    /// unchanged until the transfer is at level `node`. `kind` is that of the variable when the region was mapped.
    pub(super) fn release(
        &self,
        cells: &Cells,
        memory: &Arc<Memory>,
        (fence, stable, kind): (Option<u64>, bool, u32),
    ) -> std::result::Result<(u64, bool), RegionError> {
        let is_small = memory.len() <= SMALL;
        match &self.way {
            Way::Here(regions) => {
                let values = match is_small {
                    true => Values::Owned(memory.copied()),
                    false => Values::Lent(Arc::new(Released(Arc::clone(memory)))),
                };
                let (cells, kind) = (cells.clone(), Some(kind));
                let release = Release { cells, values, fence, stable, once: number(), kind };
                Ok((regions.release(release)?, !is_small))
            }
            #[cfg(feature = "object")]
            Way::Server { session, .. } => {
                let region = region(cells);
                let released = match memory.piece() {
                    Some(piece) => session
                        .release_piece(&region, piece, (fence, stable, kind))
                        .map(|transfer| (transfer, true)),
                    None => session
                        .release(&region, &memory.copied(), (fence, stable, kind))
                        .map(|transfer| (transfer, false)),
                };
                released.map_err(of_server)
            }
        }
    }

    /// Keeps memory that its region no longer needs, until its values are in the log.
    pub(super) fn park(&self, transfer: u64, memory: Arc<Memory>) {
        if memory.is_shared() {
            lock(&self.parked).push_back((transfer, memory));
        }
    }

    /// Frees parked memory whose values are in the log. Waits up to `timeout` for the first of them. Returns whether
    /// any was freed.
    /// any was freed.
    fn reclaim(&self, timeout: Duration) -> bool {
        let (mut freed, mut timeout) = (false, timeout);
        loop {
            let Some(first) = lock(&self.parked).front().map(|(transfer, _)| *transfer) else { return freed };
            // A transfer that failed, or is unknown, no longer needs its memory.
            if matches!(self.wait(first, false, timeout), Ok(Level::Received)) {
                return freed;
            }
            let mut parked = lock(&self.parked);
            if parked.front().is_some_and(|(transfer, _)| *transfer == first) {
                parked.pop_front();
            }
            (freed, timeout) = (true, Duration::ZERO);
        }
    }

    /// The level of a transfer, once it is in the log (or stable), or after `timeout`.
    pub fn wait(
        &self,
        transfer: u64,
        stable: bool,
        timeout: Duration,
    ) -> std::result::Result<Level, RegionError> {
        match &self.way {
            Way::Here(regions) => match regions.wait(transfer, stable, timeout) {
                Some(Progress::Received) => Ok(Level::Received),
                Some(Progress::Logged) => Ok(Level::Node),
                Some(Progress::Stable) => Ok(Level::Stable),
                Some(Progress::Failed(error)) => Err(error.into()),
                None => Err(invalid("there is no such transfer").into()),
            },
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.wait(transfer, stable, timeout).map_err(of_server),
        }
    }

    /// Declares an operation that is applied to each release of `source`, where the container is released: at its
    /// server, or in this process. The results go into `into`, which is created. `container` is the caller's handle,
    /// which has `into` afterwards.
    pub fn compute_on_release(
        &self,
        container: &Container,
        source: &str,
        operation: &Operation,
        into: &str,
    ) -> std::result::Result<(), RegionError> {
        #[cfg(feature = "object")]
        if let (Way::Server { session, .. }, Operation::Function { .. }) = (&self.way, operation) {
            // Only the server knows its functions.
            let path = Container::normal_path;
            session.on(path(source), path(into), &operation.to_string()).map_err(of_server)?;
            container.refresh()?;
            return Ok(());
        }
        Ok(compute_on_release(container, source, operation, into)?)
    }

    /// Starts to transfer values of one variable to another, through an operation (empty: unchanged). Returns the
    /// transfer.
    /// transfer.
    pub fn transfer(
        &self,
        from: &str,
        to: &str,
        rule: &str,
        step: Option<u64>,
    ) -> std::result::Result<u64, RegionError> {
        let (from, to) = (Container::normal_path(from), Container::normal_path(to));
        match &self.way {
            Way::Here(regions) => {
                let rule = if rule.is_empty() { None } else { Some(Operation::parse(rule)?) };
                let (from, to) = (from.to_owned(), to.to_owned());
                Ok(regions.transfer(ObjectTransfer { from, to, rule, step, once: number() })?)
            }
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.transfer(from, to, rule, step).map_err(of_server),
        }
    }

    /// Commits the released values, and the groups that all writers have closed. Returns the snapshot.
    pub fn commit(&self) -> std::result::Result<u64, RegionError> {
        match &self.way {
            Way::Here(regions) => Ok(regions.commit()?.snapshot.version()),
            #[cfg(feature = "object")]
            Way::Server { session, .. } => session.commit().map_err(of_server),
        }
    }

    /// A handle on the newest snapshot, for reading.
    pub(super) fn newest(&self) -> Result<&Container> {
        let container = match &self.way {
            Way::Here(regions) => regions.container(),
            #[cfg(feature = "object")]
            Way::Server { session, options } => match self.newest.get() {
                Some(container) => container,
                None => {
                    let options = OpenOptions { store: options.as_slice().into(), ..Mode::Read.into() };
                    let opened = Container::open(session.address().to_string(), options)?;
                    return Ok(self.newest.get_or_init(|| opened));
                }
            },
        };
        container.refresh()?;
        Ok(container)
    }

    #[cfg(feature = "object")]
    fn on_server(container: &Container, options: &[(String, String)]) -> Result<Option<Keeper>> {
        let place = container.location();
        let is_server =
            place.split_once("://").is_some_and(|(scheme, _)| drystone_client::SCHEMES.contains(&scheme));
        if !is_server {
            return Ok(None);
        }
        let session = Session::open(&place, &Options::new(options.iter().cloned()));
        let session = session.map_err(|error| invalid(error.to_string()))?;
        Ok(Some(Self::new(Way::Server { session, options: options.to_vec() })))
    }
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.way {
            Way::Here(_) => "Keeper(this process)",
            #[cfg(feature = "object")]
            Way::Server { .. } => "Keeper(a server)",
        })
    }
}

#[cfg(feature = "object")]
fn region(cells: &Cells) -> Region {
    let axes = cells.offset.iter().copied().zip(cells.count.iter().copied()).collect();
    Region { variable: cells.variable.clone(), step: cells.step, axes }
}

#[cfg(feature = "object")]
fn of_server(refused: Refused) -> RegionError {
    let kind = match refused.status {
        Status::LeaseExpired => return RegionError::LeaseExpired(refused.message),
        Status::Deadline => return RegionError::Deadline(refused.message),
        Status::NotFound => ErrorKind::NotFound,
        Status::Corrupt => ErrorKind::Corrupt,
        Status::Conflict | Status::AlreadyExists => ErrorKind::Conflict,
        Status::Invalid => ErrorKind::InvalidArgument,
        Status::Unsupported => ErrorKind::Unsupported,
        Status::Denied => ErrorKind::Permission,
        Status::NotYetHome => ErrorKind::NotYetHome,
        _ => ErrorKind::Io,
    };
    RegionError::Engine(Error::new(kind, refused.message))
}
