//! Meetings: each rank states its call and its outcome, and receives the statements of all ranks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Communicator;
use crate::{Error, ErrorKind, Result};

/// The call that a rank makes. The names appear in messages.
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
    Keep,
    Kept,
    Safe,
}

/// A collective call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Creates or opens a container.
    Open,
    /// Opens a writer.
    OpenWriter,
    /// Begins a step.
    BeginStep,
    /// Ends a step.
    EndStep,
    /// Reads collectively.
    Read,
}

impl Call {
    pub(super) fn act(self) -> Act {
        match self {
            Call::Open => Act::Open,
            Call::OpenWriter => Act::OpenWriter,
            Call::BeginStep => Act::BeginStep,
            Call::EndStep => Act::EndStep,
            Call::Read => Act::Read,
        }
    }
}

const ACTS: [(Act, &str); 16] = [
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
    (Act::Keep, "end a step"),
    (Act::Kept, "end a step"),
    (Act::Safe, "end a step"),
];

const KINDS: [ErrorKind; 11] = [
    ErrorKind::NotFound,
    ErrorKind::Corrupt,
    ErrorKind::Conflict,
    ErrorKind::Unsupported,
    ErrorKind::InvalidArgument,
    ErrorKind::OutOfRange,
    ErrorKind::Io,
    ErrorKind::Cancelled,
    ErrorKind::Permission,
    ErrorKind::Deadline,
    ErrorKind::NotYetHome,
];

/// Bytes of a rank's statement: act, kind of error (0: none), length of the message that follows, four numbers. It is
/// short, since every rank receives the statements of all ranks.
const WORDS: usize = 36;
/// Bytes of an error's message. It is sent in a second round.
const TEXT: usize = 476;
/// Bytes that rank 0 sends to the others: words, and a message or other data. With their envelope they stay within 4
/// KiB, which is usually sent without a handshake.
const TOLD: usize = 4000;

/// A rank's decoded statement.
type Said = (Act, [u64; 4], Option<ErrorKind>, usize);

/// Runs code that must not leave a collective call. A panic becomes an error, which the next meeting reports.
pub(super) fn attempt<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("");
        Err(Error::new(ErrorKind::Io, format!("a bug in drystone, please report it: {text}")))
    })
}

/// Holds the meetings of a program's ranks.
#[derive(Clone)]
pub(super) struct Meeting {
    pub(super) communicator: Arc<dyn Communicator>,
    /// For meetings of a writer: a rank has closed it while another called something else, and comes to no further
    /// meeting.
    parted: Option<Arc<AtomicBool>>,
}

impl Meeting {
    pub(super) fn new(communicator: Arc<dyn Communicator>) -> Self {
        Meeting { communicator, parted: None }
    }

    /// The meetings of a writer with the same ranks.
    pub(super) fn of_writer(&self) -> Self {
        Meeting { communicator: self.communicator.clone(), parted: Some(Arc::default()) }
    }

    /// Whether a rank has closed, so that no meeting is held any more.
    pub(super) fn has_parted(&self) -> bool {
        self.parted.as_ref().is_some_and(|parted| parted.load(Ordering::Acquire))
    }

    pub(super) fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    pub(super) fn size(&self) -> u32 {
        self.communicator.size()
    }

    /// Holds a meeting. Returns the numbers of all ranks in rank order, or the error of the first rank that failed.
    pub(super) fn hold(&self, act: Act, values: [u64; 4], local: Result<()>) -> Result<Vec<[u64; 4]>> {
        if self.has_parted() {
            return Err(local
                .err()
                .unwrap_or_else(|| Error::invalid("another rank has closed this writer: close it, too")));
        }
        let size = self.size() as usize;
        let text = local.as_ref().err().map(text_of).unwrap_or_default();
        let mut heard = vec![0; WORDS * size];
        let words = encode(act, values, local.as_ref().err().map(Error::kind), text.len());
        self.communicator.all_gather(&words, &mut heard)?;
        // All ranks have received the same statements, so all know whether a message follows.
        let said: Vec<Said> =
            heard.chunks_exact(WORDS).map(decode).collect::<Option<_>>().ok_or_else(strange)?;
        let closes = said.iter().any(|(theirs, ..)| *theirs == Act::Close);
        let differ = said.iter().any(|(theirs, ..)| *theirs != act);
        if let Some(parted) = self.parted.as_ref().filter(|_| closes && differ) {
            parted.store(true, Ordering::Release);
        }
        let mut texts =
            vec![0; if said.iter().any(|(_, _, kind, _)| kind.is_some()) { TEXT * size } else { 0 }];
        if !texts.is_empty() {
            let mut mine = text.into_bytes();
            mine.resize(TEXT, 0);
            self.communicator.all_gather(&mine, &mut texts)?;
        }
        for (rank, (theirs, _, kind, len)) in said.iter().enumerate() {
            let failed = if theirs != &act {
                Some(self.other_call(rank, *theirs, act))
            } else {
                let text = texts.get(TEXT * rank..).and_then(|texts| texts.get(..*len)).unwrap_or_default();
                kind.map(|kind| self.failed_on(rank, kind, text))
            };
            if let Some(failed) = failed {
                // A rank that failed itself returns its own error, with the full message.
                return Err(local.err().unwrap_or(failed));
            }
        }
        Ok(said.into_iter().map(|(_, values, ..)| values).collect())
    }

    /// Rank 0 sends its outcome to the others, with numbers and bytes if it succeeded. The arguments of other ranks
    /// are ignored. Bytes beyond the limit are not sent.
    pub(super) fn tell(&self, act: Act, own: Result<([u64; 4], Vec<u8>)>) -> Result<([u64; 4], Vec<u8>)> {
        let others = self.size() as usize - 1;
        let (first, share) = (self.rank() == 0, TOLD as u64);
        let mut sizes = vec![0; others + 1];
        if first {
            let said = match &own {
                Ok((values, more)) => told(act, *values, None, more),
                Err(e) => told(act, [0; 4], Some(e.kind()), text_of(e).as_bytes()),
            };
            sizes[1..].fill(share);
            self.communicator.exchange(&said.repeat(others), &sizes, &mut [], &vec![0; others + 1])?;
            return own;
        }
        let mut heard = [0; TOLD];
        sizes[0] = share;
        self.communicator.exchange(&[], &vec![0; others + 1], &mut heard, &sizes)?;
        let (words, rest) = heard.split_at(WORDS);
        let (theirs, values, kind, len) = decode(words).ok_or_else(strange)?;
        let more = rest.get(..len).ok_or_else(strange)?;
        match kind {
            _ if theirs != act => Err(self.other_call(0, theirs, act)),
            Some(kind) => Err(self.failed_on(0, kind, more)),
            None => Ok((values, more.to_vec())),
        }
    }

    fn other_call(&self, rank: usize, theirs: Act, own: Act) -> Error {
        Error::invalid(format!(
            "rank {rank} calls to {}, rank {} to {}: collective calls are made by all ranks in one order",
            name(theirs),
            self.rank(),
            name(own)
        ))
    }

    fn failed_on(&self, rank: usize, kind: ErrorKind, text: &[u8]) -> Error {
        let error = Error::new(kind, String::from_utf8_lossy(text).into_owned());
        error.while_doing(format!("on rank {rank} of {}", self.size()))
    }
}

fn strange() -> Error {
    Error::corrupt("a rank sent a malformed message; check the communicator")
}

fn name(act: Act) -> &'static str {
    ACTS.iter().find(|(a, _)| *a == act).map_or("", |(_, name)| name)
}

/// The message of an error, truncated for sending.
fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    let mut len = text.len().min(TEXT);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    text.truncate(len);
    text
}

fn encode(act: Act, values: [u64; 4], kind: Option<ErrorKind>, len: usize) -> [u8; WORDS] {
    let mut out = [0; WORDS];
    out[0] = ACTS.iter().position(|(a, _)| *a == act).map_or(u8::MAX, |at| at as u8);
    if let Some(kind) = kind {
        out[1] = KINDS.iter().position(|known| *known == kind).map_or(0, |at| at as u8) + 1;
    }
    out[2..4].copy_from_slice(&(len as u16).to_le_bytes());
    for (to, value) in out[4..].chunks_exact_mut(8).zip(values) {
        to.copy_from_slice(&value.to_le_bytes());
    }
    out
}

/// The message of rank 0 to the other ranks.
fn told(act: Act, values: [u64; 4], kind: Option<ErrorKind>, more: &[u8]) -> Vec<u8> {
    let more = if more.len() > TOLD - WORDS { &[] } else { more };
    let mut out = encode(act, values, kind, more.len()).to_vec();
    out.extend_from_slice(more);
    out.resize(TOLD, 0);
    out
}

pub(super) fn decode(words: &[u8]) -> Option<Said> {
    let (act, _) = ACTS.get(usize::from(*words.first()?))?;
    let mut values = [0; 4];
    for (value, from) in values.iter_mut().zip(words.get(4..WORDS)?.chunks_exact(8)) {
        *value = u64::from_le_bytes(from.try_into().ok()?);
    }
    let kind = match words.get(1)?.checked_sub(1) {
        None => None,
        Some(kind) => Some(*KINDS.get(usize::from(kind))?),
    };
    let len = u16::from_le_bytes(words.get(2..4)?.try_into().ok()?);
    Some((*act, values, kind, usize::from(len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_survive_encoding() {
        for kind in [None, Some(ErrorKind::Conflict), Some(ErrorKind::Cancelled), Some(ErrorKind::Deadline)] {
            let said = (Act::Close, [1, 2, u64::MAX, 4], kind, 7);
            assert_eq!(decode(&encode(said.0, said.1, kind, 7)), Some(said));
        }
        let long = text_of(&Error::new(ErrorKind::Cancelled, "a".to_string() + &"ä".repeat(400)));
        assert_eq!((long.len(), long.ends_with('ä')), (TEXT - 1, true));
        assert_eq!(told(Act::Close, [0; 4], None, &[1; TOLD])[..WORDS], encode(Act::Close, [0; 4], None, 0));
        assert_eq!(decode(&[0xff; WORDS]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn a_panic_waits_for_the_meeting() {
        let found = attempt::<()>(|| panic!("the sky fell"));
        assert!(found.unwrap_err().to_string().contains("the sky fell"));
    }
}
