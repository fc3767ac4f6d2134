//! Regions on a server: leases, releases, transfers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_arena::Piece;
use drystone_wire::{Ask, Level, Region, Status};

use crate::failure::Failure;
use crate::{Address, InvalidAddress, Options, Presence, Refused, ServerStore};

/// The regions of one container on a server.
#[derive(Clone, Debug)]
pub struct Session {
    store: ServerStore,
    _presence: Option<Arc<Presence>>,
}

/// Interval between two requests about a lock or a transfer, if the server answered at once.
const PAUSE: Duration = Duration::from_millis(5);

impl Session {
    /// Opens the regions of the container at this address. Sends no request yet.
    pub fn open(url: &str, options: &Options) -> Result<Session, InvalidAddress> {
        let store = ServerStore::open(url, options)?;
        Ok(Session { store, _presence: Presence::of(url).map(Arc::new) })
    }

    /// The description of the container, for messages.
    pub fn address(&self) -> &Address {
        self.store.address()
    }

    /// Takes a lease on the region. Returns its fencing number and its duration. Fails with [`Status::Deadline`] if the
    /// region is not free within `timeout`. The server waits only briefly, so a long wait takes many requests.
    pub fn lock(
        &self,
        region: &Region,
        timeout: Duration,
        life: Duration,
    ) -> Result<(u64, Duration), Refused> {
        let until = Instant::now() + timeout;
        let ask = Ask::Lock {
            region: region.clone(),
            once: random(),
            life: u64::try_from(life.as_millis()).unwrap_or(0),
        };
        loop {
            match self.store.asked_near(&ask, &[]) {
                Ok(numbers) => match numbers.as_slice() {
                    [fence, life] => return Ok((*fence, Duration::from_millis(*life))),
                    _ => return Err(odd()),
                },
                Err(refused) if refused.status == Status::Deadline && Instant::now() < until => {
                    std::thread::sleep(PAUSE)
                }
                Err(mut refused) => {
                    if refused.status == Status::Deadline {
                        let waited = timeout.as_secs_f64();
                        refused.message = format!("no lock within {waited} s: {}", refused.message);
                    }
                    return Err(refused);
                }
            }
        }
    }

    /// Renews the lease.
    pub fn renew(&self, fence: u64) -> Result<(), Refused> {
        self.store.asked_near(&Ask::Renew { fence }, &[]).map(drop)
    }

    /// Ends a lease without a release.
    pub fn unlock(&self, fence: u64) -> Result<(), Refused> {
        self.store.asked_near(&Ask::Unlock { fence }, &[]).map(drop)
    }

    /// Releases the values of a region; returns the number of the transfer. The server has received them when
    /// this returns. `kind` is the type for which the region was mapped.
    pub fn release(
        &self,
        region: &Region,
        bytes: &[u8],
        (fence, stable, kind): (Option<u64>, bool, u32),
    ) -> Result<u64, Refused> {
        let once = random();
        let ask =
            |kind| Ask::Release { region: region.clone(), once, fence: fence.unwrap_or(0), stable, kind };
        let numbers = typed(kind, is_unsupported, |kind| self.store.asked_near(&ask(kind), bytes))?;
        numbers.first().copied().ok_or_else(odd)
    }

    /// Memory of this many bytes that is shared with the server: values written there are released without a copy.
    /// `None` if the server is on another machine or has no memory left. [`Session::release`] then sends the caller's
    /// memory.
    pub fn memory(&self, len: usize) -> Option<Piece> {
        self.store.piece(len)
    }

    /// Releases the values of a region in shared memory. The piece must not be written to until the transfer is
    /// at level [`Level::Node`].
    pub fn release_piece(
        &self,
        region: &Region,
        piece: &Piece,
        (fence, stable, kind): (Option<u64>, bool, u32),
    ) -> Result<u64, Refused> {
        let (region, once, fence, at) = (region.clone(), random(), fence.unwrap_or(0), piece.at());
        if let Some(link) = self.store.link().filter(|link| link.has(piece)) {
            let ask = |kind| {
                let ask = Ask::ReleaseShared { region: region.clone(), once, fence, stable, at, kind };
                link.ask(self.address().name(), &ask, &[])
            };
            match typed(kind, |failure: &Failure| failure.status == Some(Status::Unsupported), ask) {
                Ok(numbers) => return numbers.first().copied().ok_or_else(odd),
                Err(failure) if failure.status.is_some() => {
                    return Err(failure.refused(&self.store.address().to_string()));
                }
                Err(_) => {}
            }
        }
        // The connection with this memory is closed. The same request is sent on an ordinary one, with the values.
        let ask = |kind| Ask::Release { region: region.clone(), once, fence, stable, kind };
        let bytes = piece.copied();
        let numbers = typed(kind, is_unsupported, |kind| self.store.asked(&ask(kind), &bytes))?;
        numbers.first().copied().ok_or_else(odd)
    }

    /// The level of a transfer once it reaches [`Level::Node`] (or [`Level::Stable`]), or after `timeout`.
    pub fn wait(&self, transfer: u64, stable: bool, timeout: Duration) -> Result<Level, Refused> {
        let until = Instant::now() + timeout;
        let wanted = if stable { Level::Stable } else { Level::Node };
        loop {
            let ask = Ask::Wait { transfer, stable };
            // The server does not wait on the connection with shared memory.
            let numbers = match timeout.is_zero() {
                true => self.store.asked_near(&ask, &[])?,
                false => self.store.asked(&ask, &[])?,
            };
            let level = numbers.first().and_then(|code| Level::of_code(*code)).ok_or_else(odd)?;
            if level >= wanted || Instant::now() >= until {
                return Ok(level);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Transfers values of one variable to another, of one step or of all. `rule` is the operation that changes them;
    /// it may be empty. Returns the number of the transfer.
    pub fn transfer(&self, from: &str, to: &str, rule: &str, step: Option<u64>) -> Result<u64, Refused> {
        let (from, to, rule) = (from.to_owned(), to.to_owned(), rule.to_owned());
        let ask = Ask::Transfer { from, to, rule, step, once: random() };
        self.store.asked(&ask, &[])?.first().copied().ok_or_else(odd)
    }

    /// Declares an operation that the server applies to each release of a variable, with results in another.
    pub fn on(&self, from: &str, to: &str, rule: &str) -> Result<(), Refused> {
        let ask = Ask::On { from: from.to_owned(), to: to.to_owned(), rule: rule.to_owned() };
        self.store.asked(&ask, &[]).map(drop)
    }

    /// Commits if values released in the region are not committed yet.
    pub fn commit_released(&self, region: &Region) -> Result<(), Refused> {
        match self.store.asked(&Ask::CommitRegion { region: region.clone() }, &[]) {
            // An older server commits everything that was released.
            Err(refused) if refused.status == Status::Unsupported => self.commit().map(drop),
            outcome => outcome.map(drop),
        }
    }

    /// Commits the released values; returns the snapshot.
    pub fn commit(&self) -> Result<u64, Refused> {
        self.store.asked(&Ask::Commit, &[])?.first().copied().ok_or_else(odd)
    }
}

/// Asks with a type, and without if the server does not know that: one of an earlier version checks only lengths.
fn typed<T, E>(
    kind: u32,
    is_unsupported: impl Fn(&E) -> bool,
    ask: impl Fn(Option<u32>) -> Result<T, E>,
) -> Result<T, E> {
    match ask(Some(kind)) {
        Err(error) if is_unsupported(&error) => ask(None),
        other => other,
    }
}

fn is_unsupported(refused: &Refused) -> bool {
    refused.status == Status::Unsupported
}

fn odd() -> Refused {
    Refused { status: Status::Io, message: "the server's answer is incomplete".into() }
}

/// A number that identifies a request when it is repeated.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    u64::from_le_bytes(bytes)
}
