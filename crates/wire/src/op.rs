//! Requests (asks) and answers: the meaning of headers. docs/format/wire.md, "Asks", has the same table.

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
    pub(super) const ON: u16 = 41;
    pub(super) const RELEASE_TYPED: u16 = 42;
    pub(super) const RELEASE_SHARED_TYPED: u16 = 43;
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

/// A request of a client. Bytes to be written are the payload of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The length of an object. Answer: number 0.
    Len {
        /// The object.
        key: String,
    },
    /// The bytes of an object of limited length. Answer: its bytes as payload; if it is longer, number 0: its length.
    Whole {
        /// The object.
        key: String,
        /// The length limit in bytes.
        limit: u64,
    },
    /// Ranges of an object. Answer: their bytes, concatenated, as payload.
    Ranges {
        /// The object.
        key: String,
        /// Offset and length of each, in bytes.
        ranges: Vec<(u64, u64)>,
    },
    /// Lists the objects whose keys start with a prefix. Answer: a listing as payload.
    List {
        /// The prefix of the keys.
        prefix: String,
    },
    /// Makes the payload the content of an object.
    Put {
        /// The object.
        key: String,
        /// Only if the object does not exist.
        absent: bool,
        /// The object is on stable storage when the answer comes.
        sync: bool,
    },
    /// Removes an object, if it exists.
    Delete {
        /// The object.
        key: String,
    },
    /// Flushes objects to stable storage. Answer of not-found: number 0, the index of the key without an object.
    Sync {
        /// The objects.
        keys: Vec<String>,
    },
    /// Removes leftovers of killed processes. Answer: number 0, how many were removed.
    Sweep {
        /// The prefix of the keys.
        prefix: String,
        /// Only leftovers without a write for this many milliseconds.
        older: u64,
    },
    /// Runs a method on an object; the payload is its input. Answer: its output as payload.
    Exec {
        /// The object.
        key: String,
        /// The method, as docs/format/read-program.md names it.
        method: String,
        /// The longest useful output, in bytes.
        limit: u64,
    },
    /// A lease on a region. The server waits for it only briefly; then it answers with the status deadline, and
    /// the client asks again under the same number. Answer: number 0, the fencing number; number 1, the
    /// duration in milliseconds.
    Lock {
        /// The region.
        region: Region,
        /// Number of the request: the same request gets the same lease.
        once: u64,
        /// The duration of the lease in milliseconds; 0: the server's default.
        life: u64,
    },
    /// Renews a lease.
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
        /// The lease that ends with it; 0: none.
        fence: u64,
        /// Whether the values must reach stable storage.
        stable: bool,
        /// The type for which the region was mapped: the CRC-32C of the variable's element type and whether it has
        /// steps. The server refuses values for a variable of another type. `None`: only lengths are checked.
        kind: Option<u32>,
    },
    /// Like [`Ask::Release`], but the content of the region is in the connection's arena. Only on connections
    /// with an arena.
    ReleaseShared {
        /// The region.
        region: Region,
        /// Number of the request: the same request is done once.
        once: u64,
        /// The lease that ends with it; 0: none.
        fence: u64,
        /// Whether the values must reach stable storage.
        stable: bool,
        /// Offset of the first byte in the arena.
        at: u64,
        /// The type for which the region was mapped, as in [`Ask::Release`].
        kind: Option<u32>,
    },
    /// The level of a transfer; the server waits only briefly. Answer: number 0, the code of a level.
    Wait {
        /// The transfer.
        transfer: u64,
        /// Whether to wait for stable storage.
        stable: bool,
    },
    /// Transfers values of one variable to another. Answer: number 0, the transfer.
    Transfer {
        /// The source variable.
        from: String,
        /// The destination variable.
        to: String,
        /// The operation; empty: values stay unchanged.
        rule: String,
        /// One step; `None`: all.
        step: Option<u64>,
        /// Number of the request: the same request is done once.
        once: u64,
    },
    /// Declares an operation that the server applies to each release of a variable.
    On {
        /// The source variable.
        from: String,
        /// The variable for the results, which is created.
        to: String,
        /// The operation.
        rule: String,
    },
    /// Commits the released values, and everything that writers have closed. Answer: number 0, the snapshot.
    Commit,
    /// Commits if values released in this region are not committed yet. A read after a lock then sees
    /// everything that earlier holders released.
    CommitRegion {
        /// The region.
        region: Region,
    },
}

impl Ask {
    /// The header of the request.
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
            Ask::Release { region, once, fence, stable, kind } => {
                let code = if kind.is_some() { code::RELEASE_TYPED } else { code::RELEASE };
                let numbers = [*once, *fence, u64::from(*stable)].into_iter().chain(kind.map(u64::from));
                (code, texts(&[&region.variable]), numbers.chain(region.numbers()).collect())
            }
            Ask::ReleaseShared { region, once, fence, stable, at, kind } => {
                let code = if kind.is_some() { code::RELEASE_SHARED_TYPED } else { code::RELEASE_SHARED };
                let numbers = [*once, *fence, u64::from(*stable), *at].into_iter().chain(kind.map(u64::from));
                (code, texts(&[&region.variable]), numbers.chain(region.numbers()).collect())
            }
            Ask::Transfer { from, to, rule, step, once } => (
                code::TRANSFER,
                texts(&[from, to, rule]),
                vec![*once, u64::from(step.is_some()), step.unwrap_or(0)],
            ),
            Ask::On { from, to, rule } => (code::ON, texts(&[from, to, rule]), Vec::new()),
            Ask::Wait { transfer, stable } => (code::WAIT, Vec::new(), vec![*transfer, u64::from(*stable)]),
            Ask::Commit => (code::COMMIT, Vec::new(), Vec::new()),
            Ask::CommitRegion { region } => {
                (code::COMMIT_REGION, texts(&[&region.variable]), region.numbers().collect())
            }
        };
        Header { code, texts, numbers }
    }

    /// Decodes it. A code that this version does not know is a separate error.
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
        if code == code::ON {
            let [from, to, rule] = <[String; 3]>::try_from(texts).map_err(|_| wrong())?;
            return if numbers.is_empty() { Ok(Ask::On { from, to, rule }) } else { Err(wrong()) };
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
                Ok(Ask::Release { region, once: *once, fence: *fence, stable: flag(*stable)?, kind: None })
            }
            (code::RELEASE_TYPED, [once, fence, stable, kind, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                let kind = Some(u32::try_from(*kind).map_err(|_| wrong())?);
                Ok(Ask::Release { region, once: *once, fence: *fence, stable: flag(*stable)?, kind })
            }
            (code::RELEASE_SHARED, [once, fence, stable, at, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                let (once, fence, at) = (*once, *fence, *at);
                Ok(Ask::ReleaseShared { region, once, fence, stable: flag(*stable)?, at, kind: None })
            }
            (code::RELEASE_SHARED_TYPED, [once, fence, stable, at, kind, region @ ..]) => {
                let region = Region::of(key, region).ok_or_else(wrong)?;
                let (once, fence, at) = (*once, *fence, *at);
                let kind = Some(u32::try_from(*kind).map_err(|_| wrong())?);
                Ok(Ask::ReleaseShared { region, once, fence, stable: flag(*stable)?, at, kind })
            }
            (code::COMMIT_REGION, region) => {
                Ok(Ask::CommitRegion { region: Region::of(key, region).ok_or_else(wrong)? })
            }
            (16..=24 | 32..=43, _) => Err(wrong()),
            _ => Err(Malformed::new("an ask that this version does not know", 0)),
        }
    }
}

/// The result of one request of a body, or of the body itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to a request.
    To {
        /// The index of the request in the body, from 0.
        ask: u64,
        /// Its status.
        status: Status,
        /// The numbers that the table of requests defines.
        numbers: Vec<u64>,
        /// A message for people, after a failure.
        text: String,
    },
    /// The last frame.
    End {
        /// Number of frames before it.
        frames: u64,
        /// The status of the body.
        status: Status,
        /// A message for people, after a failure.
        text: String,
    },
}

impl Answer {
    /// The header of the answer.
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

    /// Decodes it.
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

    /// Whether this header ends a request or reply body.
    pub fn is_end(header: &Header) -> bool {
        header.code == code::END
    }
}
