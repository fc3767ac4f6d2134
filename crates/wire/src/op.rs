//! Asks and answers: what headers mean. docs/format/wire.md, "Asks", has the same table.

use crate::{Header, Malformed, Status};

/// The codes of headers.
mod code {
    pub(super) const END: u16 = 0;
    pub(super) const ANSWER: u16 = 1;
    pub(super) const LEN: u16 = 16;
    pub(super) const WHOLE: u16 = 17;
    pub(super) const RANGES: u16 = 18;
    pub(super) const LIST: u16 = 19;
    pub(super) const PUT: u16 = 20;
    pub(super) const DELETE: u16 = 21;
    pub(super) const SYNC: u16 = 22;
    pub(super) const SWEEP: u16 = 23;
    pub(super) const EXEC: u16 = 24;
    pub(super) const LOCK: u16 = 32;
    pub(super) const RENEW: u16 = 33;
    pub(super) const UNLOCK: u16 = 34;
    pub(super) const RELEASE: u16 = 35;
    pub(super) const WAIT: u16 = 36;
    pub(super) const COMMIT: u16 = 37;
    pub(super) const TRANSFER: u16 = 38;
    pub(super) const RELEASE_SHARED: u16 = 39;
    pub(super) const COMMIT_REGION: u16 = 40;
}

/// A box of cells of one variable and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Path of the variable.
    pub variable: String,
    /// The step; `None` for variables without steps.
    pub step: Option<u64>,
    /// First cell and extent along each axis.
    pub axes: Vec<(u64, u64)>,
}

impl Region {
    /// The most axes of a region.
    const AXES: usize = 32;

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let step = [u64::from(self.step.is_some()), self.step.unwrap_or(0)];
        step.into_iter().chain(self.axes.iter().flat_map(|(at, n)| [*at, *n]))
    }

    fn of(variable: String, numbers: &[u64]) -> Option<Region> {
        let (step, axes) = match numbers {
            [0, 0, axes @ ..] => (None, axes),
            [1, step, axes @ ..] => (Some(*step), axes),
            _ => return None,
        };
        let (pairs, []) = axes.as_chunks::<2>() else { return None };
        let axes: Vec<(u64, u64)> = pairs.iter().map(|[at, n]| (*at, *n)).collect();
        (axes.len() <= Self::AXES).then_some(Region { variable, step, axes })
    }
}

/// One thing that a client asks for. What is written travels as the payload of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The length of an object. Answer: number 0.
    Len {
        /// The object.
        key: String,
    },
    /// An object that is at most this long. Answer: its bytes as payload, or number 0, its length, where it is longer.
    Whole {
        /// The object.
        key: String,
        /// Bytes.
        limit: u64,
    },
    /// Ranges of an object. Answer: their bytes, one behind the other, as payload.
    Ranges {
        /// The object.
        key: String,
        /// Offset and length of each, in bytes.
        ranges: Vec<(u64, u64)>,
    },
    /// The objects whose key begins with this. Answer: a listing as payload.
    List {
        /// Beginning of their keys.
        prefix: String,
    },
    /// Makes the payload the content of an object.
    Put {
        /// The object.
        key: String,
        /// Only where there is none.
        absent: bool,
        /// It survives a power cut when the answer comes.
        sync: bool,
    },
    /// Removes an object, if it is there.
    Delete {
        /// The object.
        key: String,
    },
    /// Makes objects survive a power cut. Answer of not-found: number 0, which of the keys has no object.
    Sync {
        /// The objects.
        keys: Vec<String>,
    },
    /// Clears away what killed processes left. Answer: number 0, the number of things removed.
    Sweep {
        /// Beginning of keys.
        prefix: String,
        /// Only what nobody has written to for so long, in milliseconds.
        older: u64,
    },
    /// Runs a method on an object; the payload is its input. Answer: its output as payload.
    Exec {
        /// The object.
        key: String,
        /// The method, as docs/format/read-program.md names it.
        method: String,
        /// The longest output that is of use, in bytes.
        limit: u64,
    },
    /// A lease on a region. The server waits for it only briefly; then the answer is the status deadline, and the client asks again under
    /// the same number. Answer: number 0, the fencing number; number 1, its life in milliseconds.
    Lock {
        /// The region.
        region: Region,
        /// Number of the request: the same request gets the same lease.
        once: u64,
        /// The life of the lease in milliseconds; 0: as the server has it.
        life: u64,
    },
    /// Begins a lease's time anew.
    Renew {
        /// Its fencing number.
        fence: u64,
    },
    /// Ends a lease without a release.
    Unlock {
        /// Its fencing number.
        fence: u64,
    },
    /// The payload, elements in C order, is the content of the region. Answer: number 0, the transfer.
    Release {
        /// The region.
        region: Region,
        /// Number of the request: the same request is done once.
        once: u64,
        /// The lease that ends with it; 0: nobody locked.
        fence: u64,
        /// It shall come to stable storage.
        stable: bool,
    },
    /// Bytes of the connection's arena are the content of the region; else as [`Ask::Release`]. On connections with an arena alone.
    ReleaseShared {
        /// The region.
        region: Region,
        /// Number of the request: the same request is done once.
        once: u64,
        /// The lease that ends with it; 0: nobody locked.
        fence: u64,
        /// It shall come to stable storage.
        stable: bool,
        /// Offset of the first byte in the arena.
        at: u64,
    },
    /// How far a transfer has come; the server waits only briefly. Answer: number 0, the code of a level.
    Wait {
        /// The transfer.
        transfer: u64,
        /// Whether stable storage is waited for.
        stable: bool,
    },
    /// Carries values of one variable to another. Answer: number 0, the transfer.
    Transfer {
        /// Whose values.
        from: String,
        /// Where they go.
        to: String,
        /// What is computed of them; empty: they stay as they are.
        rule: String,
        /// One step; `None`: all.
        step: Option<u64>,
        /// Number of the request: the same request is done once.
        once: u64,
    },
    /// Commits what was released, and what all writers have closed. Answer: number 0, the snapshot.
    Commit,
    /// Commits if values that were released in this region are not committed yet: a lock is then followed by a read of
    /// all that earlier holders of it released.
    CommitRegion {
        /// The region.
        region: Region,
    },
}

impl Ask {
    /// The header that says it.
    pub fn header(&self) -> Header {
        let texts = |texts: &[&String]| texts.iter().map(|text| (*text).clone()).collect();
        let (code, texts, numbers) = match self {
            Ask::Len { key } => (code::LEN, texts(&[key]), Vec::new()),
            Ask::Whole { key, limit } => (code::WHOLE, texts(&[key]), vec![*limit]),
            Ask::Ranges { key, ranges } => {
                (code::RANGES, texts(&[key]), ranges.iter().flat_map(|(at, len)| [*at, *len]).collect())
            }
            Ask::List { prefix } => (code::LIST, texts(&[prefix]), Vec::new()),
            Ask::Put { key, absent, sync } => {
                (code::PUT, texts(&[key]), vec![u64::from(*absent), u64::from(*sync)])
            }
            Ask::Delete { key } => (code::DELETE, texts(&[key]), Vec::new()),
            Ask::Sync { keys } => (code::SYNC, keys.clone(), Vec::new()),
            Ask::Sweep { prefix, older } => (code::SWEEP, texts(&[prefix]), vec![*older]),
            Ask::Exec { key, method, limit } => (code::EXEC, texts(&[key, method]), vec![*limit]),
            Ask::Lock { region, once, life } => (
                code::LOCK,
                texts(&[&region.variable]),
                [*once, *life].into_iter().chain(region.numbers()).collect(),
            ),
            Ask::Renew { fence } => (code::RENEW, Vec::new(), vec![*fence]),
            Ask::Unlock { fence } => (code::UNLOCK, Vec::new(), vec![*fence]),
            Ask::Release { region, once, fence, stable } => {
                let numbers = [*once, *fence, u64::from(*stable)].into_iter().chain(region.numbers());
                (code::RELEASE, texts(&[&region.variable]), numbers.collect())
            }
            Ask::ReleaseShared { region, once, fence, stable, at } => {
                let numbers = [*once, *fence, u64::from(*stable), *at].into_iter().chain(region.numbers());
                (code::RELEASE_SHARED, texts(&[&region.variable]), numbers.collect())
            }
            Ask::Transfer { from, to, rule, step, once } => (
                code::TRANSFER,
                texts(&[from, to, rule]),
                vec![*once, u64::from(step.is_some()), step.unwrap_or(0)],
            ),
            Ask::Wait { transfer, stable } => (code::WAIT, Vec::new(), vec![*transfer, u64::from(*stable)]),
            Ask::Commit => (code::COMMIT, Vec::new(), Vec::new()),
            Ask::CommitRegion { region } => {
                (code::COMMIT_REGION, texts(&[&region.variable]), region.numbers().collect())
            }
        };
        Header { code, texts, numbers }
    }

    /// Reads it. A code that this version does not know is an error that says so.
    pub fn of_header(header: Header) -> Result<Ask, Malformed> {
        let Header { code, texts, numbers } = header;
        let wrong = || Malformed::new("an ask with other texts or numbers than its code has", 4);
        if code == code::SYNC {
            return if numbers.is_empty() { Ok(Ask::Sync { keys: texts }) } else { Err(wrong()) };
        }
        let flag = |number: u64| if number < 2 { Ok(number == 1) } else { Err(wrong()) };
        if texts.is_empty() {
            return match (code, numbers.as_slice()) {
                (code::RENEW, [fence]) => Ok(Ask::Renew { fence: *fence }),
                (code::UNLOCK, [fence]) => Ok(Ask::Unlock { fence: *fence }),
                (code::WAIT, [transfer, stable]) => {
                    Ok(Ask::Wait { transfer: *transfer, stable: flag(*stable)? })
                }
                (code::COMMIT, []) => Ok(Ask::Commit),
                _ => Err(wrong()),
            };
        }
        if code == code::EXEC {
            let [key, method] = <[String; 2]>::try_from(texts).map_err(|_| wrong())?;
            let [limit] = <[u64; 1]>::try_from(numbers).map_err(|_| wrong())?;
            return Ok(Ask::Exec { key, method, limit });
        }
        if code == code::TRANSFER {
            let [from, to, rule] = <[String; 3]>::try_from(texts).map_err(|_| wrong())?;
            let (once, step) = match numbers.as_slice() {
                [once, 0, 0] => (*once, None),
                [once, 1, step] => (*once, Some(*step)),
                _ => return Err(wrong()),
            };
            return Ok(Ask::Transfer { from, to, rule, step, once });
        }
        let [key] = <[String; 1]>::try_from(texts).map_err(|_| wrong())?;
        match (code, numbers.as_slice()) {
            (code::LEN, []) => Ok(Ask::Len { key }),
            (code::WHOLE, [limit]) => Ok(Ask::Whole { key, limit: *limit }),
            (code::RANGES, pairs) if pairs.len() % 2 == 0 => {
                let (pairs, _) = pairs.as_chunks::<2>();
                Ok(Ask::Ranges { key, ranges: pairs.iter().map(|[at, len]| (*at, *len)).collect() })
            }
            (code::LIST, []) => Ok(Ask::List { prefix: key }),
            (code::PUT, [absent, sync]) => Ok(Ask::Put { key, absent: flag(*absent)?, sync: flag(*sync)? }),
            (code::DELETE, []) => Ok(Ask::Delete { key }),
            (code::SWEEP, [older]) => Ok(Ask::Sweep { prefix: key, older: *older }),
            (code::LOCK, [once, life, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                Ok(Ask::Lock { region, once: *once, life: *life })
            }
            (code::RELEASE, [once, fence, stable, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                Ok(Ask::Release { region, once: *once, fence: *fence, stable: flag(*stable)? })
            }
            (code::RELEASE_SHARED, [once, fence, stable, at, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                let (once, fence, at) = (*once, *fence, *at);
                Ok(Ask::ReleaseShared { region, once, fence, stable: flag(*stable)?, at })
            }
            (code::COMMIT_REGION, region) => {
                Ok(Ask::CommitRegion { region: Region::of(key, region).ok_or_else(wrong)? })
            }
            (16..=24 | 32..=40, _) => Err(wrong()),
            _ => Err(Malformed::new("an ask that this version does not know", 0)),
        }
    }
}

/// How one ask of a body ended, or the body itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To the ask of this number, counted from 0 in the request.
    To {
        /// Which ask.
        ask: u64,
        /// How it ended.
        status: Status,
        /// What the ask's table says.
        numbers: Vec<u64>,
        /// For a person, where it went wrong.
        text: String,
    },
    /// The last frame.
    End {
        /// Frames before it.
        frames: u64,
        /// How the body ended.
        status: Status,
        /// For a person, where it went wrong.
        text: String,
    },
}

impl Answer {
    /// The header that says it.
    pub fn header(&self) -> Header {
        match self {
            Answer::To { ask, status, numbers, text } => Header {
                code: code::ANSWER,
                texts: vec![text.clone()],
                numbers: [*ask, status.code()].into_iter().chain(numbers.iter().copied()).collect(),
            },
            Answer::End { frames, status, text } => {
                Header { code: code::END, texts: vec![text.clone()], numbers: vec![*frames, status.code()] }
            }
        }
    }

    /// Reads it.
    pub fn of_header(header: Header) -> Result<Answer, Malformed> {
        let wrong = || Malformed::new("an answer with other texts or numbers than its code has", 4);
        let [text] = <[String; 1]>::try_from(header.texts).map_err(|_| wrong())?;
        let status = |code: u64| Status::of_code(code).ok_or_else(|| Malformed::new("an unknown status", 4));
        match (header.code, header.numbers.as_slice()) {
            (code::END, [frames, end]) => Ok(Answer::End { frames: *frames, status: status(*end)?, text }),
            (code::ANSWER, [ask, end, rest @ ..]) => {
                Ok(Answer::To { ask: *ask, status: status(*end)?, numbers: rest.to_vec(), text })
            }
            (code::END | code::ANSWER, _) => Err(wrong()),
            _ => Err(Malformed::new("neither an answer nor an end", 0)),
        }
    }

    /// Whether this header ends a body, of either direction.
    pub fn is_end(header: &Header) -> bool {
        header.code == code::END
    }
}
