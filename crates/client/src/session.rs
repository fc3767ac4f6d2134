//! Regions on a server: leases, releases, transfers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_arena::Piece;
use drystone_wire::{Ask, Level, Region, Status};

use crate::{Address, InvalidAddress, Options, Presence, Refused, ServerStore};

/// The regions of one container on a server.
#[derive(Clone, Debug)]
pub struct Session {
    store: ServerStore,
    _presence: Option<Arc<Presence>>,
}

/// Between two questions whether a lock is free or a transfer done, where the server answered at once.
const PAUSE: Duration = Duration::from_millis(5);

impl Session {
    /// Nothing is asked of the server yet.
    pub fn open(url: &str, options: &Options) -> Result<Session, InvalidAddress> {
        let store = ServerStore::open(url, options)?;
        Ok(Session { store, _presence: Presence::of(url).map(Arc::new) })
    }

    /// Whose container it is.
    pub fn address(&self) -> &Address {
        self.store.address()
    }

    /// A lease on the region: fencing number and life. Waits for at most `timeout`, else [`Status::Deadline`].
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
                Err(refused) => return Err(refused),
            }
        }
    }

    /// Begins the lease's time anew.
    pub fn renew(&self, fence: u64) -> Result<(), Refused> {
        self.store.asked_near(&Ask::Renew { fence }, &[]).map(drop)
    }

    /// Ends a lease without a release.
    pub fn unlock(&self, fence: u64) -> Result<(), Refused> {
        self.store.asked_near(&Ask::Unlock { fence }, &[]).map(drop)
    }

    /// Gives the values of a region back; the number of the transfer. The server has them when this returns.
    pub fn release(
        &self,
        region: &Region,
        bytes: &[u8],
        fence: Option<u64>,
        stable: bool,
    ) -> Result<u64, Refused> {
        let ask = Ask::Release { region: region.clone(), once: random(), fence: fence.unwrap_or(0), stable };
        self.store.asked_near(&ask, bytes)?.first().copied().ok_or_else(odd)
    }

    /// Memory of this many bytes that the server has, too: what is written there is released without a copy. `None`: the server is
    /// elsewhere, or has no room; then [`Session::release`] sends the caller's own memory.
    pub fn memory(&self, len: usize) -> Option<Piece> {
        self.store.piece(len)
    }

    /// Gives the values of a region back that lie in memory which the server has, too. Nobody writes to the piece until the transfer is at
    /// level [`Level::Node`].
    pub fn release_piece(
        &self,
        region: &Region,
        piece: &Piece,
        fence: Option<u64>,
        stable: bool,
    ) -> Result<u64, Refused> {
        let (region, once, fence) = (region.clone(), random(), fence.unwrap_or(0));
        if let Some(link) = self.store.link().filter(|link| link.has(piece)) {
            let ask = Ask::ReleaseShared { region: region.clone(), once, fence, stable, at: piece.at() };
            match link.ask(self.address().name(), &ask, &[]) {
                Ok(numbers) => return numbers.first().copied().ok_or_else(odd),
                Err(failure) if failure.status.is_some() => {
                    return Err(failure.refused(&self.store.address().to_string()));
                }
                Err(_) => {}
            }
        }
        // That server has gone. The same request goes to the one that is there now.
        let ask = Ask::Release { region, once, fence, stable };
        self.store.asked(&ask, &piece.copied())?.first().copied().ok_or_else(odd)
    }

    /// The level of a transfer, once it is [`Level::Node`] (or [`Level::Stable`]), or after `timeout`.
    pub fn wait(&self, transfer: u64, stable: bool, timeout: Duration) -> Result<Level, Refused> {
        let until = Instant::now() + timeout;
        let wanted = if stable { Level::Stable } else { Level::Node };
        loop {
            let ask = Ask::Wait { transfer, stable };
            // On the connection with shared memory nothing is waited for.
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

    /// Carries values of one variable to another, through an operation (empty: as they are), of one step or of all; the transfer.
    pub fn transfer(&self, from: &str, to: &str, rule: &str, step: Option<u64>) -> Result<u64, Refused> {
        let (from, to, rule) = (from.to_owned(), to.to_owned(), rule.to_owned());
        let ask = Ask::Transfer { from, to, rule, step, once: random() };
        self.store.asked(&ask, &[])?.first().copied().ok_or_else(odd)
    }

    /// Commits if values that were released in the region are not committed yet.
    pub fn commit_released(&self, region: &Region) -> Result<(), Refused> {
        match self.store.asked(&Ask::CommitRegion { region: region.clone() }, &[]) {
            // An older server commits whatever was released.
            Err(refused) if refused.status == Status::Unsupported => self.commit().map(drop),
            outcome => outcome.map(drop),
        }
    }

    /// Commits what was released; the snapshot.
    pub fn commit(&self) -> Result<u64, Refused> {
        self.store.asked(&Ask::Commit, &[])?.first().copied().ok_or_else(odd)
    }
}

fn odd() -> Refused {
    Refused { status: Status::Io, message: "the server's answer lacks what it should have".into() }
}

/// A number by which a request is known when it comes again.
fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes);
    u64::from_le_bytes(bytes)
}
