//! Programs of many ranks: all ranks open one container together and write steps together.
//!
//! Ranks communicate through two operations that the program supplies ([`Communicator`]), so no message-passing
//! library is linked. For small steps, a few ranks write for the others (`drystone_plan::aggregation`).
//!
//! Invariants
//! - a collective call begins with a meeting, in which each rank states its call and whether it failed. A failure of
//!   one rank thus becomes an error of all, and no rank waits for one that has given up;
//! - a failure between two meetings, even a panic, does not leave the call: the next meeting reports it;
//! - a step that failed on any rank is not committed.

#[cfg(feature = "fuzzing")]
mod fuzzing;
mod meeting;
mod reader;
mod redundancy;
mod staged;
mod writer;

use std::sync::Arc;

use crate::container::{Container, CreateOptions, Location, Mode, OpenOptions};
use crate::{Error, Result};

#[cfg(feature = "fuzzing")]
pub(crate) use fuzzing::fuzz_sent;
pub use meeting::Call;
use meeting::{Act, Meeting, attempt};
pub use reader::{Readers, TeamReadReport};
pub use writer::{TeamWriter, TeamWriterOptions};

/// How the ranks of a program communicate. All ranks call the same operations in the same order.
pub trait Communicator: Send + Sync {
    /// This rank, below `size`.
    fn rank(&self) -> u32;
    /// The number of ranks, at least 1.
    fn size(&self) -> u32;
    /// A number shared by the ranks on one machine.
    fn node(&self) -> u64;
    /// Gives every rank the bytes that each rank sends, in rank order. All ranks send equally many bytes; `receive`
    /// has `size` times as many.
    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> Result<()>;
    /// Sends each rank its part of `send`, and receives likewise. `send_sizes` holds the bytes for each rank; the
    /// parts lie one after the other. The length that one rank sends to another equals the length that the other
    /// expects.
    fn exchange(
        &self,
        send: &[u8],
        send_sizes: &[u64],
        receive: &mut [u8],
        receive_sizes: &[u64],
    ) -> Result<()>;
}

/// A container that the ranks of a program have opened together. Its calls are collective: all ranks make them, in
/// the same order.
pub struct Team {
    container: Container,
    meeting: Meeting,
    pinned: bool,
}

impl Team {
    /// Creates a container: rank 0 creates it, then the others open it. At a URL every rank needs credentials.
    pub fn create(
        location: impl Into<Location>,
        options: CreateOptions,
        communicator: Arc<dyn Communicator>,
    ) -> Result<Self> {
        let location = location.into();
        let to_open = OpenOptions { store: options.store.clone(), ..OpenOptions::from(Mode::ReadWrite) };
        let first = || Container::create(location.clone(), options);
        Self::one_after_the_other(communicator, first, || Container::open(location.clone(), to_open))
    }

    /// Opens a container. All ranks that open it to read see the same snapshot for ever. At a URL every rank needs
    /// credentials.
    pub fn open(
        location: impl Into<Location>,
        options: impl Into<OpenOptions>,
        communicator: Arc<dyn Communicator>,
    ) -> Result<Self> {
        let (location, options) = (location.into(), options.into());
        let mode = options.mode;
        let open = |mode| Container::open(location.clone(), OpenOptions { mode, ..options.clone() });
        match mode {
            Mode::Append => Self::one_after_the_other(communicator, || open(mode), || open(Mode::ReadWrite)),
            Mode::Read | Mode::ReadWrite => Self::at_once(communicator, mode == Mode::Read, || open(mode)),
        }
    }

    /// Rank 0 creates the container, then the others open it.
    fn one_after_the_other(
        communicator: Arc<dyn Communicator>,
        first: impl FnOnce() -> Result<Container>,
        other: impl FnOnce() -> Result<Container>,
    ) -> Result<Self> {
        let meeting = Meeting::new(communicator);
        let is_first = meeting.rank() == 0;
        let mut opened = if is_first { attempt(first).map(Some) } else { Ok(None) };
        meeting.hold(Act::Open, [0; 4], opened.as_ref().map(|_| ()).map_err(Clone::clone))?;
        if !is_first {
            opened = attempt(other).map(Some);
        }
        meeting.hold(Act::Opened, [0; 4], opened.as_ref().map(|_| ()).map_err(Clone::clone))?;
        let container = opened?.ok_or_else(|| Error::invalid("a rank did not open the container"))?;
        Ok(Team { container, meeting, pinned: false })
    }

    /// All ranks open the existing container. Readers all use the snapshot that rank 0 found, since a commit may
    /// happen in between.
    fn at_once(
        communicator: Arc<dyn Communicator>,
        pinned: bool,
        open: impl FnOnce() -> Result<Container>,
    ) -> Result<Self> {
        let meeting = Meeting::new(communicator);
        let opened = attempt(open);
        let version = opened.as_ref().map_or(0, |container| container.snapshot().version());
        let opening = opened.as_ref().map(|_| ()).map_err(Clone::clone);
        let said = meeting.hold(Act::Open, [version, 0, 0, 0], opening)?;
        let mut container = opened?;
        let agreed = said.first().map_or(0, |values| values[0]);
        if pinned && said.iter().any(|values| values[0] != agreed) {
            let moved = attempt(|| match version == agreed {
                true => Ok(container.clone()),
                false => container.at(agreed),
            });
            meeting.hold(Act::Opened, [0; 4], moved.as_ref().map(|_| ()).map_err(Clone::clone))?;
            container = moved?;
        }
        Ok(Team { container, meeting, pinned })
    }

    /// Takes part in a collective call that this rank cannot make, so that all ranks fail instead of waiting. Returns
    /// the common error. It is this rank's own, unless the other ranks were making a different call.
    pub fn decline(communicator: Arc<dyn Communicator>, call: Call, error: Error) -> Error {
        let declined = Meeting::new(communicator).hold(call.act(), [0; 4], Err(error.clone()));
        declined.err().unwrap_or(error)
    }

    /// As [`decline`](Self::decline), for a call of this team or of its writers.
    pub fn declined(&self, call: Call, error: Error) -> Error {
        Self::decline(self.meeting.communicator.clone(), call, error)
    }

    /// This rank's handle of the container.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.meeting.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.meeting.size()
    }

    /// Exchanges the outcomes of all ranks. If a rank failed, all ranks get the same error, which names the first
    /// rank that failed. Otherwise all move to the newest snapshot, so that they see what rank 0 has done meanwhile:
    /// a variable it created, or a recovery.
    pub fn agree(&self, local: Result<()>) -> Result<()> {
        self.meeting.hold(Act::Agree, [0; 4], local)?;
        if self.pinned {
            return Ok(());
        }
        let moved = attempt(|| self.container.refresh().map(|_| ()));
        self.meeting.hold(Act::Agreed, [0; 4], moved).map(|_| ())
    }

    /// Opens a writer for all ranks together.
    ///
    /// Errors: `Conflict` if a dead run left undecided steps; recover on one rank, and call [`agree`](Self::agree).
    pub fn writer(&self, options: TeamWriterOptions) -> Result<TeamWriter> {
        TeamWriter::open(self.container.clone(), self.meeting.of_writer(), options)
    }
}
