//! Reads ranges; pieces go to a [`Sink`] as they arrive.
//!
//! A range of more than [`SPLIT`] bytes is read by several requests. All of them must see the same version of the
//! object by its entity tag; otherwise the whole range is read again. If a reply breaks off, the rest is requested.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use drystone_store::StoreError;
use futures_util::stream::{FuturesUnordered, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult};
use tokio::sync::mpsc;

use crate::attempt::{Attempts, Failure, Place, What, attempt, attempt_in};
use crate::flow::Outcome;
use crate::gate::Turn;
use crate::provider::Client;
use crate::wire::Notes;

/// The largest request, in bytes.
pub(crate) const SPLIT: usize = 8 << 20;
/// How many times a range is read again because the object was replaced meanwhile.
const REPLACED: usize = 20;

/// Bytes, and their offset within the requested range.
pub(crate) type Piece = (usize, Bytes);

/// Where pieces go.
pub(crate) enum Sink {
    /// To a thread that copies them to their place.
    Thread(mpsc::Sender<Piece>),
    /// To a buffer, whose length is given or that of what arrives. Its memory is touched when the first piece arrives.
    Buffer(Mutex<Vec<u8>>, Option<usize>),
}

impl Sink {
    pub(crate) fn buffer(mut memory: Vec<u8>, len: Option<usize>) -> Sink {
        memory.clear();
        Sink::Buffer(Mutex::new(memory), len)
    }

    /// Passes a piece on; returns whether a receiver took it.
    async fn put(&self, at: usize, piece: Bytes) -> bool {
        match self {
            Sink::Thread(sender) => sender.send((at, piece)).await.is_ok(),
            Sink::Buffer(bytes, len) => {
                let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                let end = at + piece.len();
                if bytes.len() < end {
                    let len = len.unwrap_or(end).max(end);
                    if bytes.is_empty() && bytes.capacity() < len && len > end {
                        // Fresh memory is zeroed by the system.
                        *bytes = vec![0; len];
                    } else {
                        bytes.resize(len, 0);
                    }
                }
                bytes[at..end].copy_from_slice(&piece);
                true
            }
        }
    }

    /// The buffer; empty for a thread.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        match self {
            Sink::Thread(_) => Vec::new(),
            Sink::Buffer(bytes, _) => bytes.into_inner().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The version that all requests for one range must see.
type Version = Arc<Mutex<Option<String>>>;

/// Reads `len` bytes, at least one, from `offset`. Pieces arrive in any order; if one arrives again, the last one
/// counts.
pub(crate) async fn range(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    offset: u64,
    len: usize,
    sink: &Sink,
) -> Result<(), StoreError> {
    for _ in 0..REPLACED {
        let version = Version::default();
        let parts = (0..len)
            .step_by(SPLIT)
            .map(|at| part(client, path, place, offset, at..len.min(at + SPLIT), sink, Arc::clone(&version)));
        let mut parts: FuturesUnordered<_> = parts.collect();
        let mut replaced = false;
        while let Some(outcome) = parts.next().await {
            match outcome {
                Ok(()) => {}
                Err(End::Replaced) => replaced = true,
                Err(End::Error(error)) => return Err(error),
            }
        }
        if !replaced {
            return Ok(());
        }
    }
    Err(StoreError::Io {
        key: place.key.to_owned(),
        store: place.store.to_owned(),
        operation: place.operation,
        source: std::io::Error::other("it was replaced again and again while it was read; try again"),
    })
}

/// Why a part was not read.
enum End {
    /// The object has been replaced.
    Replaced,
    Error(StoreError),
}

async fn part(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    offset: u64,
    wanted: Range<usize>,
    sink: &Sink,
    version: Version,
) -> Result<(), End> {
    let mut attempts = Attempts::new(client);
    let mut reached = Reached { at: wanted.start, furthest: wanted.start };
    while reached.at < wanted.end {
        let tag = version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let asked = offset + reached.at as u64..offset + wanted.end as u64;
        let failure = match begun(client, path, &attempts, Some(asked.clone()), tag.clone()).await {
            Ok((turn, reply)) => {
                if !agrees(&version, &reply) {
                    return Err(End::Replaced);
                }
                let there = reply.meta.size;
                let arrived =
                    arriving(client, turn, reply, asked, &mut reached, offset, sink, &mut attempts).await;
                if arrived.is_ok() && reached.at >= wanted.end {
                    return Ok(());
                }
                if arrived.is_ok() && there < offset + wanted.end as u64 {
                    return Err(End::Error(short(place, offset, wanted.end, there)));
                }
                // Without a version it is unknown to which object the rest would belong.
                if version.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                    reached.at = wanted.start;
                }
                arrived.err().unwrap_or_else(shorter)
            }
            Err(failure) => failure,
        };
        match failure.what {
            What::Condition if tag.is_some() => return Err(End::Replaced),
            What::OutOfRange => {
                let there = match head(client, path, place).await {
                    Ok(reply) => reply.meta.size,
                    Err(error) => return Err(End::Error(error)),
                };
                return Err(End::Error(short(place, offset, wanted.end, there)));
            }
            // If another request noticed it meanwhile, this one ends here too; later ones request the whole.
            What::RangesIgnored => {
                client.ignores_ranges.store(true, Ordering::Relaxed);
                continue;
            }
            _ => {}
        }
        if !attempts.again(&failure).await {
            return Err(End::Error(attempts.error(&failure, place)));
        }
    }
    Ok(())
}

/// How far a part has been read.
struct Reached {
    /// The next byte that is needed.
    at: usize,
    /// The end of what any attempt has read. Only bytes behind it are progress: an object without a version is read
    /// from the beginning by each attempt, and replies that always break off would otherwise be awaited for ever.
    furthest: usize,
}

/// The failure of a reply that ended normally, but too early.
fn shorter() -> Failure {
    Failure::new(What::Again, "the reply was shorter than announced")
}

/// Whether the reply is of the version that the other requests saw; the first one determines it.
fn agrees(version: &Version, reply: &GetResult) -> bool {
    let Some(tag) = &reply.meta.e_tag else { return true };
    let mut version = version.lock().unwrap_or_else(PoisonError::into_inner);
    version.get_or_insert_with(|| tag.clone()) == tag
}

fn short(place: &Place<'_>, offset: u64, wanted: usize, there: u64) -> StoreError {
    StoreError::ShortRead {
        key: place.key.to_owned(),
        store: place.store.to_owned(),
        offset,
        wanted: wanted as u64,
        got: there.saturating_sub(offset).min(wanted as u64),
    }
}

/// Passes on the bytes of `asked` that arrive, and advances `reached`.
#[expect(clippy::too_many_arguments, reason = "the state of one request, and nothing that lives longer")]
async fn arriving(
    client: &Client,
    mut turn: Turn,
    reply: GetResult,
    asked: Range<u64>,
    reached: &mut Reached,
    offset: u64,
    sink: &Sink,
    attempts: &mut Attempts<'_>,
) -> Result<(), Failure> {
    let mut from = reply.range.start;
    let stall = client.deadline / 3;
    let mut stream = reply.into_stream();
    let mut moved = 0;
    loop {
        let next = match tokio::time::timeout(stall, stream.next()).await {
            Ok(None) => break,
            Ok(Some(Ok(bytes))) => bytes,
            Ok(Some(Err(error))) => {
                turn.ended(Outcome::Answered, moved);
                return Err(Failure::new(What::Again, format!("the reply broke off: {}", innermost(&error))));
            }
            Err(_) => {
                turn.ended(Outcome::Lost, moved);
                return Err(Failure::new(
                    What::Again,
                    format!("nothing more within {:.1} s", stall.as_secs_f64()),
                ));
            }
        };
        moved += next.len() as u64;
        // A server without ranges sends all bytes from the beginning.
        let begin = asked.start.saturating_sub(from).min(next.len() as u64) as usize;
        let end = asked.end.saturating_sub(from).min(next.len() as u64) as usize;
        let place = (from + begin as u64).saturating_sub(offset) as usize;
        from += next.len() as u64;
        if begin < end {
            let piece = next.slice(begin..end);
            reached.at = place + piece.len();
            let new = reached.at.saturating_sub(reached.furthest);
            reached.furthest += new;
            let is_late = attempts.arrived(new as u64);
            if !sink.put(place, piece).await {
                turn.abandoned();
                return Err(Failure::new(What::Permanent, "no caller waits for the reply"));
            }
            if is_late && reached.at < (asked.end - offset) as usize {
                turn.ended(Outcome::Lost, moved);
                return Err(Failure::new(What::Again, "the reply came slower than 1 KiB per second"));
            }
        }
        if from >= asked.end {
            break;
        }
    }
    turn.ended(Outcome::Answered, moved);
    Ok(())
}

/// Sends a request and waits until its reply begins. If the reply is late, the request is sent a second time; the first
/// answer counts, even a refusal. If both requests fail temporarily, the more informative failure is returned.
async fn begun(
    client: &Client,
    path: &Path,
    attempts: &Attempts<'_>,
    asked: Option<Range<u64>>,
    tag: Option<String>,
) -> Result<(Turn, GetResult), Failure> {
    // The time that a request waits for its turn is not the server's.
    let once = |turn: Turn| async {
        let mut options = GetOptions { if_match: tag.clone(), ..GetOptions::default() };
        if !client.ignores_ranges.load(Ordering::Relaxed) {
            options.range = asked.clone().map(GetRange::Bounded);
        }
        let begun = Instant::now();
        let (turn, outcome) = attempt_in(
            turn,
            attempts,
            attempts.limit(0),
            Notes::default(),
            client.objects().get_opts(path, options),
        )
        .await;
        if outcome.is_ok() {
            client.hedge.lock().unwrap_or_else(PoisonError::into_inner).answered(begun.elapsed());
        }
        outcome.map(|reply| (turn, reply))
    };
    let turn = attempts.turn().await;
    let late = client.hedge.lock().unwrap_or_else(PoisonError::into_inner).begins();
    let first = once(turn);
    let Some(late) = late else { return first.await };
    let mut first = std::pin::pin!(first);
    tokio::select! {
        biased;
        outcome = &mut first => return outcome,
        () = tokio::time::sleep(late) => {}
    }
    if !client.hedge.lock().unwrap_or_else(PoisonError::into_inner).may_repeat() {
        return first.await;
    }
    let second = async { once(attempts.turn().await).await };
    let mut second = std::pin::pin!(second);
    let (sooner, first_ended) = tokio::select! {
        biased;
        outcome = &mut first => (outcome, true),
        outcome = &mut second => (outcome, false),
    };
    let failed = match sooner {
        Err(failure) if failure.what == What::Again => failure,
        answer => return answer,
    };
    let later = if first_ended { second.await } else { first.await };
    later.map_err(|later| match later.what == What::Again && later.answer.status == 0 {
        true => failed,
        false => later,
    })
}

/// The whole object if it is at most `limit` bytes long; else its length.
pub(crate) async fn whole(
    client: &Client,
    path: &Path,
    place: &Place<'_>,
    limit: u64,
) -> Result<Result<Vec<u8>, u64>, StoreError> {
    let mut attempts = Attempts::new(client);
    let mut reached = Reached { at: 0, furthest: 0 };
    loop {
        reached.at = 0;
        let failure = match begun(client, path, &attempts, None, None).await {
            Ok((mut turn, reply)) => {
                let len = reply.meta.size;
                let Some(len) = usize::try_from(len).ok().filter(|len| *len as u64 <= limit) else {
                    turn.abandoned();
                    return Ok(Err(len));
                };
                let sink = Sink::buffer(Vec::new(), None);
                let asked = 0..len as u64;
                match arriving(client, turn, reply, asked, &mut reached, 0, &sink, &mut attempts).await {
                    Ok(()) if reached.at == len => return Ok(Ok(sink.into_buffer())),
                    Ok(()) => shorter(),
                    Err(failure) => failure,
                }
            }
            Err(failure) => failure,
        };
        if !attempts.again(&failure).await {
            return Err(attempts.error(&failure, place));
        }
    }
}

/// The metadata of the object, without its bytes.
pub(crate) async fn head(client: &Client, path: &Path, place: &Place<'_>) -> Result<GetResult, StoreError> {
    let mut attempts = Attempts::new(client);
    loop {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let request = client.objects().get_opts(path, options);
        let (turn, outcome) = attempt(&attempts, attempts.limit(0), Notes::default(), request).await;
        drop(turn);
        match outcome {
            Ok(reply) => return Ok(reply),
            Err(failure) if attempts.again(&failure).await => {}
            Err(failure) => return Err(attempts.error(&failure, place)),
        }
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
