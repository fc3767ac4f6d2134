//! Meetings: each rank says what it does and how it has fared, and hears the same of all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Communicator;
use crate::{Error, ErrorKind, Result};

/// What a rank is calling; the names are for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Open,
    Opened,
    Agree,
    Agreed,
    OpenWriter,
    BeginStep,
    EndStep,
    Written,
    Committed,
    AbortStep,
    Close,
    Read,
    Fetched,
}

/// A collective call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Creating or opening a container.
    Open,
    /// Opening a writer.
    OpenWriter,
    /// Beginning a step.
    BeginStep,
    /// Reading together.
    Read,
}

impl Call {
    pub(super) fn act(self) -> Act {
        match self {
            Call::Open => Act::Open,
            Call::OpenWriter => Act::OpenWriter,
            Call::BeginStep => Act::BeginStep,
            Call::Read => Act::Read,
        }
    }
}

const ACTS: [(Act, &str); 13] = [
    (Act::Open, "open"),
    (Act::Opened, "open"),
    (Act::Agree, "agree"),
    (Act::Agreed, "agree"),
    (Act::OpenWriter, "open a writer"),
    (Act::BeginStep, "begin a step"),
    (Act::EndStep, "end a step"),
    (Act::Written, "end a step"),
    (Act::Committed, "end a step"),
    (Act::AbortStep, "abort a step"),
    (Act::Close, "close a writer"),
    (Act::Read, "read"),
    (Act::Fetched, "read"),
];

const KINDS: [ErrorKind; 8] = [
    ErrorKind::NotFound,
    ErrorKind::Corrupt,
    ErrorKind::Conflict,
    ErrorKind::Unsupported,
    ErrorKind::InvalidArgument,
    ErrorKind::OutOfRange,
    ErrorKind::Io,
    ErrorKind::Cancelled,
];

/// Bytes that each rank says: act, kind of error (0: none), length of the message, four numbers, the message.
const WORDS: usize = 512;
const TEXT: usize = 36;

/// Runs what must not leave a collective call: a panic becomes an error, which the next meeting tells.
pub(super) fn attempt<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("");
        Err(Error::new(ErrorKind::Io, format!("a mistake in drystone, please report it: {text}")))
    })
}

/// The ranks of a program, who meet.
#[derive(Clone)]
pub(super) struct Meeting {
    pub(super) communicator: Arc<dyn Communicator>,
}

impl Meeting {
    pub(super) fn new(communicator: Arc<dyn Communicator>) -> Self {
        Meeting { communicator }
    }

    pub(super) fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.communicator.size()
    }

    /// Holds a meeting: the numbers that all ranks said, in their order, or the error of the first that failed.
    pub(super) fn hold(&self, act: Act, values: [u64; 4], local: Result<()>) -> Result<Vec<[u64; 4]>> {
        let said = encode(act, values, &local);
        let mut heard = vec![0; WORDS * self.size() as usize];
        self.communicator.all_gather(&said, &mut heard)?;
        let mut out = Vec::with_capacity(self.size() as usize);
        let mut failed = None;
        for (rank, words) in heard.chunks_exact(WORDS).enumerate() {
            let (theirs, values, result) = decode(words).ok_or_else(|| {
                Error::corrupt(format!("rank {rank} said what no rank says: is the communicator right?"))
            })?;
            if theirs != act && failed.is_none() {
                failed = Some(Error::invalid(format!(
                    "rank {rank} calls to {}, rank {} to {}: collective calls are made by all ranks in one order",
                    name(theirs),
                    self.rank(),
                    name(act)
                )));
            }
            if let (Err(e), None) = (result, &failed) {
                failed = Some(e.while_doing(format!("on rank {rank} of {}", self.size())));
            }
            out.push(values);
        }
        match (failed, local) {
            (None, _) => Ok(out),
            // Its own failure is told in full, where it happened.
            (Some(_), Err(own)) => Err(own),
            (Some(failed), Ok(())) => Err(failed),
        }
    }
}

fn name(act: Act) -> &'static str {
    ACTS.iter().find(|(a, _)| *a == act).map_or("", |(_, name)| name)
}

fn encode(act: Act, values: [u64; 4], local: &Result<()>) -> Vec<u8> {
    let mut out = vec![0; WORDS];
    out[0] = ACTS.iter().position(|(a, _)| *a == act).map_or(u8::MAX, |at| at as u8);
    for (to, value) in out[4..TEXT].chunks_exact_mut(8).zip(values) {
        to.copy_from_slice(&value.to_le_bytes());
    }
    if let Err(e) = local {
        out[1] = KINDS.iter().position(|kind| *kind == e.kind()).map_or(0, |at| at as u8) + 1;
        let text = e.to_string();
        let mut len = text.len().min(WORDS - TEXT);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        out[2..4].copy_from_slice(&(len as u16).to_le_bytes());
        out[TEXT..TEXT + len].copy_from_slice(&text.as_bytes()[..len]);
    }
    out
}

pub(super) fn decode(words: &[u8]) -> Option<(Act, [u64; 4], Result<()>)> {
    let (act, _) = ACTS.get(usize::from(*words.first()?))?;
    let mut values = [0; 4];
    for (value, from) in values.iter_mut().zip(words.get(4..TEXT)?.chunks_exact(8)) {
        *value = u64::from_le_bytes(from.try_into().ok()?);
    }
    let result = match words.get(1)?.checked_sub(1) {
        None => Ok(()),
        Some(kind) => {
            let len = u16::from_le_bytes(words.get(2..4)?.try_into().ok()?);
            let text = String::from_utf8_lossy(words.get(TEXT..TEXT + usize::from(len))?);
            Err(Error::new(*KINDS.get(usize::from(kind))?, text.into_owned()))
        }
    };
    Some((*act, values, result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let long = "ä".repeat(400);
        for local in [Ok(()), Err(Error::conflict("no")), Err(Error::new(ErrorKind::Cancelled, long))] {
            let (act, values, heard) = decode(&encode(Act::Close, [1, 2, u64::MAX, 4], &local)).unwrap();
            assert_eq!((act, values), (Act::Close, [1, 2, u64::MAX, 4]));
            assert_eq!(heard.as_ref().map_err(Error::kind), local.as_ref().map_err(Error::kind));
        }
        assert!(decode(&[0xff; WORDS]).is_none());
        assert!(decode(&[]).is_none());
    }

    #[test]
    fn a_panic_waits_for_the_meeting() {
        let found = attempt::<()>(|| panic!("the sky fell"));
        assert!(found.unwrap_err().to_string().contains("the sky fell"));
    }
}
