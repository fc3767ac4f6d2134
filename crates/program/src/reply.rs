//! The result of a program: frames, each with its check. Refusals are frames too.

use drystone_format::Corrupt;
use drystone_format::cursor::Reader;
use drystone_transform::checks::crc32c;

use crate::program::ProgramError;

const MAGIC: [u8; 4] = *b"DRYR";
const VERSION: u16 = 1;
/// Bytes before the first frame.
pub const REPLY_HEADER: usize = 8;
/// Bytes of a frame besides its payload.
pub const FRAME_OVERHEAD: usize = 20;

const VALUES: u16 = 0;
const HITS: u16 = 1;
const REFUSED: u16 = 2;
/// The item number of a frame that is about the whole program.
const PROGRAM: u32 = u32::MAX;

/// Why an item, or a program, returned nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The program is malformed.
    Malformed,
    /// The version of the program is not supported.
    Version,
    /// The program costs more than the budget.
    Budget,
    /// Time is up: this item and the following ones were not run.
    Time,
    /// Stored bytes fail their check or cannot be decoded.
    Damaged,
    /// A codec or an encoding is not supported.
    Unsupported,
    /// The object ends too early, or reading it failed.
    Unreadable,
    /// A reason that this library does not know.
    Other(u16),
}

/// A reason with its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub why: Why,
    /// The explanation, for users.
    pub what: String,
}

/// The answer to a program, checked frame by frame.
#[derive(Debug, Clone)]
pub struct Reply<'a> {
    rest: Reader<'a>,
}

/// The result of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The item; `None` if the frame is about the whole program.
    pub item: Option<u32>,
    /// Offset of its bytes in the result of the item.
    pub place: u32,
    /// The result.
    pub payload: Payload<'a>,
}

/// Payload of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Gathered bytes.
    Values(&'a [u8]),
    /// Cells that satisfy the condition, as [`Hits::decode`](crate::Hits::decode) decodes them.
    Hits(&'a [u8]),
    /// Nothing, for this reason.
    Refused(Refusal),
}

impl Why {
    fn code(self) -> u16 {
        match self {
            Why::Malformed => 1,
            Why::Version => 2,
            Why::Budget => 3,
            Why::Time => 4,
            Why::Damaged => 5,
            Why::Unsupported => 6,
            Why::Unreadable => 7,
            Why::Other(code) => code,
        }
    }

    fn of(code: u16) -> Why {
        match code {
            1 => Why::Malformed,
            2 => Why::Version,
            3 => Why::Budget,
            4 => Why::Time,
            5 => Why::Damaged,
            6 => Why::Unsupported,
            7 => Why::Unreadable,
            other => Why::Other(other),
        }
    }
}

impl Refusal {
    /// A reason with its explanation.
    pub fn new(why: Why, what: impl Into<String>) -> Refusal {
        Refusal { why, what: what.into() }
    }

    /// The reply to a program that is not run.
    pub fn reply(&self) -> Vec<u8> {
        let mut out = Vec::new();
        begin(&mut out);
        put_refusal(&mut out, None, self);
        out
    }
}

impl From<ProgramError> for Refusal {
    fn from(error: ProgramError) -> Self {
        let why = match error {
            ProgramError::Version(_) => Why::Version,
            ProgramError::Malformed { .. } => Why::Malformed,
            ProgramError::TooLarge(_) => Why::Budget,
        };
        Refusal::new(why, error.to_string())
    }
}

pub(crate) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    out.extend(0u16.to_le_bytes());
}

fn open(out: &mut Vec<u8>, item: Option<u32>, kind: u16) -> usize {
    let at = out.len();
    out.extend(item.unwrap_or(PROGRAM).to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend([0; 10]);
    at
}

fn close(out: &mut Vec<u8>, at: usize) {
    let len = (out.len().saturating_sub(at + FRAME_OVERHEAD - 4)) as u32;
    if let Some(place) = out.get_mut(at + 12..at + 16) {
        place.copy_from_slice(&len.to_le_bytes());
    }
    let check = crc32c(out.get(at..).unwrap_or_default());
    out.extend(check.to_le_bytes());
}

/// Adds a frame whose payload `fill` appends; on an error nothing is added.
pub(crate) fn put<E>(
    out: &mut Vec<u8>,
    item: u32,
    hits: bool,
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let at = open(out, Some(item), if hits { HITS } else { VALUES });
    match fill(out) {
        Ok(()) => close(out, at),
        Err(error) => {
            out.truncate(at);
            return Err(error);
        }
    }
    Ok(())
}

/// Adds a frame that refuses an item, or the program.
pub(crate) fn put_refusal(out: &mut Vec<u8>, item: Option<u32>, refusal: &Refusal) {
    const LONGEST: usize = 512;
    let at = open(out, item, REFUSED);
    out.extend(refusal.why.code().to_le_bytes());
    let text = &refusal.what;
    let end = (0..=LONGEST.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    out.extend(text.as_bytes().iter().take(end));
    close(out, at);
}

impl<'a> Reply<'a> {
    /// Decodes the header of a reply. Each frame is checked when it is taken.
    pub fn new(bytes: &'a [u8]) -> Result<Reply<'a>, Corrupt> {
        let mut rest = Reader::new(bytes);
        if rest.array()? != MAGIC {
            return Err(Corrupt::new("not a reply to a read program", 0));
        }
        match (rest.u16()?, rest.u16()?) {
            (VERSION, 0) => Ok(Reply { rest }),
            (version, _) => Err(rest.corrupt(format!("a reply of version {version}"))),
        }
    }

    fn frame(&mut self) -> Result<Frame<'a>, Corrupt> {
        let r = &mut self.rest;
        let mut ahead = r.clone();
        ahead.take(12)?;
        let len = ahead.u32()? as usize;
        let mut whole = r.clone();
        let checked = whole.take(len.checked_add(16).ok_or_else(|| r.corrupt("a frame of 4 GiB"))?)?;
        if whole.u32()? != crc32c(checked) {
            return Err(r.corrupt("a frame fails its checksum"));
        }
        let (item, kind, reserved, place) = (r.u32()?, r.u16()?, r.u16()?, r.u32()?);
        r.take(4)?;
        let bytes = r.take(len)?;
        r.take(4)?;
        if reserved != 0 {
            return Err(r.corrupt("an unknown flag of a frame"));
        }
        let payload = match kind {
            VALUES => Payload::Values(bytes),
            HITS => Payload::Hits(bytes),
            REFUSED => {
                let inner = &mut Reader::new(bytes);
                let why = Why::of(inner.u16()?);
                let what = String::from_utf8_lossy(inner.take(inner.remaining())?).into_owned();
                Payload::Refused(Refusal { why, what })
            }
            other => return Err(r.corrupt(format!("a frame of kind {other}"))),
        };
        Ok(Frame { item: (item != PROGRAM).then_some(item), place, payload })
    }
}

impl<'a> Iterator for Reply<'a> {
    type Item = Result<Frame<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.remaining() == 0 {
            return None;
        }
        let frame = self.frame();
        if frame.is_err() {
            // After damage, the next offset is unknown.
            self.rest = Reader::new(&[]);
        }
        Some(frame)
    }
}
