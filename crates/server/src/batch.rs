//! Many asks in one request. Each ask and each answer is a frame, and answers have the order of the asks. Read programs
//! run in parallel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use drystone_store::{PutMode, StoreError, StoreExt};
use drystone_wire::{
    Answer, Ask, CONTENT_TYPE, FrameHead, Frames, Header, Status, body_head, checksum, encode_listing,
};
use hyper::body::Incoming;

use crate::asked::{Asked, blocking};
use crate::buffers::Buffers;
use crate::method::{Method, budget};
use crate::objects::{may_make, rights_to_put};
use crate::open::Opened;
use crate::reply::{Pieces, Refusal, Reply, Sent, reply};
use crate::token::Right;

/// A request of up to this length is decoded on the thread that received it, since passing it to another thread would
/// take longer.
const SHORT: usize = 64 << 10;
/// Answers that are shorter are joined with their neighbours.
const JOINED: usize = 16 << 10;
/// Short answers are sent when they have this many bytes.
const PIECE: usize = 64 << 10;
/// Reads whose answers have at most this many bytes are done on the same thread and answered with one reply.
const WHOLE: u64 = 1 << 20;

/// The result of one ask: numbers and bytes.
struct Done {
    numbers: Vec<u64>,
    payload: Bytes,
}

impl Done {
    fn numbers(numbers: Vec<u64>) -> Done {
        Done { numbers, payload: Bytes::new() }
    }

    fn payload(payload: impl Into<Bytes>) -> Done {
        Done { numbers: Vec::new(), payload: payload.into() }
    }
}

/// An ask with its payload, or with the method that it runs.
struct Parsed {
    ask: Ask,
    payload: Vec<u8>,
    method: Option<Method>,
}

pub(crate) async fn answer(asked: Asked, name: String, body: Incoming) -> Result<Reply, Refusal> {
    let (parts, mut room) = asked.body(body).await?;
    let length: usize = parts.iter().map(Bytes::len).sum();
    let parse = move || {
        let whole = parts.concat();
        let malformed =
            |bad: drystone_wire::Malformed| Refusal::new(Status::Invalid, format!("the request is {bad}"));
        let frames = Frames::decode(&whole).map_err(malformed)?;
        let granted = budget(&asked.state.config.limits);
        let mut asks = Vec::new();
        for (header, payload) in frames.into_frames() {
            let ask = Ask::of_header(header).map_err(malformed)?;
            asked.who.needs(rights(&ask), &name)?;
            let method = match &ask {
                Ask::Exec { method, .. } => Some(Method::of(method, payload, &granted)),
                _ => None,
            };
            let payload = if method.is_some() { Vec::new() } else { payload.to_vec() };
            asks.push(Parsed { ask, payload, method });
        }
        Ok((asked, name, asks))
    };
    let (asked, name, parsed) = if length <= SHORT { parse()? } else { blocking(parse).await? };
    let (workers, memory) = side_by_side(&parsed, asked.state.config.limits.memory);
    if memory > 0 {
        // The memory of the body is included, so that no request holds one part of its memory while it waits for the
        // rest.
        let held = u64::from(u32::try_from(room.num_permits()).unwrap_or(u32::MAX)) * 4096;
        drop(room);
        let most = asked.state.config.limits.memory;
        room = asked.state.admission.room((held + memory).min(most), asked.patience()?).await?;
    }
    if workers == 0 && answers(&parsed).is_some_and(|most| most <= WHOLE) {
        let parts = asked.state.quick.in_place(|| {
            let mut parts = Vec::new();
            work(&asked, &name, parsed, 0, To::Reply(&mut parts));
            Ok(parts)
        })?;
        return Ok(reply(200, CONTENT_TYPE, Sent::parts(parts)));
    }
    let (pieces, body) = Sent::pieces(None);
    tokio::task::spawn_blocking(move || {
        let _room = room;
        work(&asked, &name, parsed, workers, To::Connection(&pieces));
    });
    Ok(reply(200, CONTENT_TYPE, body))
}

/// The number of threads that run the programs before the first answer, and the memory that the programs need. With 0
/// threads, each program runs when its answer is due.
fn side_by_side(asks: &[Parsed], most: u64) -> (usize, u64) {
    let programs: Vec<u64> =
        asks.iter().filter_map(|parsed| Some(parsed.method.as_ref()?.memory(true))).collect();
    let all = programs.iter().fold(0, |sum: u64, memory| sum.saturating_add(*memory));
    // A program after a put must read the new object, so it must not run before the put.
    let reads = asks.iter().all(|parsed| rights(&parsed.ask) == [Right::Read]);
    if programs.len() > 1 && reads && all <= most / 4 * 3 {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        return (processors.min(programs.len()), all);
    }
    (0, programs.into_iter().max().unwrap_or(0))
}

/// The most bytes of all answers, if all asks only read; `None` if some do not, or if the length is unknown.
fn answers(asks: &[Parsed]) -> Option<u64> {
    asks.iter().try_fold(0_u64, |sum, parsed| {
        let most = match &parsed.ask {
            Ask::Len { .. } => 0,
            Ask::Whole { limit, .. } => *limit,
            Ask::Exec { limit, .. } => parsed.method.as_ref().map_or(0, Method::output).min(*limit),
            Ask::Ranges { ranges, .. } => {
                ranges.iter().fold(0, |sum: u64, (_, len)| sum.saturating_add(*len))
            }
            _ => return None,
        };
        Some(sum.saturating_add(most))
    })
}

fn rights(ask: &Ask) -> &'static [Right] {
    match ask {
        Ask::Len { .. } | Ask::Whole { .. } | Ask::Ranges { .. } | Ask::List { .. } | Ask::Exec { .. } => {
            &[Right::Read]
        }
        Ask::Put { key, absent, .. } => {
            rights_to_put(key, if *absent { PutMode::IfAbsent } else { PutMode::Replace })
        }
        Ask::Delete { .. }
        | Ask::Sweep { .. }
        | Ask::Lock { .. }
        | Ask::Renew { .. }
        | Ask::Unlock { .. }
        | Ask::Release { .. }
        | Ask::ReleaseShared { .. }
        | Ask::Wait { .. }
        | Ask::Transfer { .. }
        | Ask::On { .. }
        | Ask::Commit
        | Ask::CommitRegion { .. } => &[Right::Modify],
        Ask::Sync { .. } => &[Right::Modify, Right::Create],
    }
}

fn work(asked: &Asked, name: &str, asks: Vec<Parsed>, workers: usize, to: To<'_>) {
    let opened = asked.state.stores.of(&asked.state.config, name, false);
    let opened = match opened {
        Ok(opened)
            if opened.folder.is_none()
                && may_make(&asked.who, name)
                && asks.iter().any(|parsed| matches!(parsed.ask, Ask::Put { .. })) =>
        {
            asked.state.stores.of(&asked.state.config, name, true)
        }
        other => other,
    };
    let most = asked.state.config.limits.memory / 4;
    let mut sent = 0;
    let mut out = Out { to, short: body_head().to_vec() };
    let mut outputs = match &opened {
        Ok(opened) if workers > 0 => outputs(asked, opened, &asks, workers),
        _ => Vec::new(),
    }
    .into_iter();
    for (number, Parsed { ask, payload, method }) in asks.into_iter().enumerate() {
        let output = outputs.next().and_then(OnceLock::into_inner);
        let outcome = match (asked.left(), &opened) {
            (Ok(_), Ok(opened)) => match (output, &method, &ask) {
                (Some(output), ..) => output,
                (None, Some(method), Ask::Exec { key, limit, .. }) => run(asked, opened, method, key, *limit),
                _ => {
                    let state = &asked.state;
                    match state.regions.done(&state.config, name, opened, &ask, &payload) {
                        Some(outcome) => outcome.map(Done::numbers),
                        None => done(opened, &state.buffers, ask, &payload, most),
                    }
                }
            },
            (Err(refusal), _) => Err(refusal),
            (_, Err(refusal)) => Err(refusal.clone()),
        };
        let (status, text, numbers, payload) = match outcome {
            Ok(done) => (Status::Ok, String::new(), done.numbers, done.payload),
            Err(refusal) => {
                (refusal.status, refusal.message, refusal.found.into_iter().collect(), Bytes::new())
            }
        };
        let header = Answer::To { ask: number as u64, status, numbers, text }.header();
        if out.frame(&header, payload).is_err() {
            return;
        }
        sent += 1;
    }
    let end = Answer::End { frames: sent, status: Status::Ok, text: String::new() };
    let _ = out.frame(&end.header(), Bytes::new()).and_then(|()| out.flush());
}

/// The client has closed the connection.
struct Gone;

/// Where frames go.
enum To<'a> {
    /// To the connection, as soon as they are made.
    Connection(&'a Pieces),
    /// Into a reply that is sent as a whole.
    Reply(&'a mut Vec<Bytes>),
}

/// Sends frames. Short frames are joined, so that a short reply is one piece.
struct Out<'a> {
    to: To<'a>,
    short: Vec<u8>,
}

impl Out<'_> {
    fn frame(&mut self, header: &Header, payload: Bytes) -> Result<(), Gone> {
        self.short.extend_from_slice(&FrameHead::encode(header, payload.len() as u64));
        let crc = checksum(&[&payload]).to_le_bytes();
        if payload.len() < JOINED {
            self.short.extend_from_slice(&payload);
        } else {
            self.flush()?;
            self.send(payload)?;
        }
        self.short.extend_from_slice(&crc);
        if self.short.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Gone> {
        let short = std::mem::take(&mut self.short);
        if short.is_empty() { Ok(()) } else { self.send(short.into()) }
    }

    fn send(&mut self, bytes: Bytes) -> Result<(), Gone> {
        match &mut self.to {
            To::Connection(pieces) => pieces.blocking_send(Ok(bytes)).map_err(|_| Gone),
            To::Reply(parts) => {
                parts.push(bytes);
                Ok(())
            }
        }
    }
}

/// Runs the methods of all asks on `workers` threads. Returns one place for each ask, which is empty for asks without a
/// method.
fn outputs(
    asked: &Asked,
    opened: &Arc<Opened>,
    asks: &[Parsed],
    workers: usize,
) -> Vec<OnceLock<Result<Done, Refusal>>> {
    let places: Vec<OnceLock<_>> = asks.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((parsed, place)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            asks.get(number).zip(places.get(number))
        } {
            if let (Some(method), Ask::Exec { key, limit, .. }) = (&parsed.method, &parsed.ask) {
                let _ = place.set(run(asked, opened, method, key, *limit));
            }
        }
    };
    std::thread::scope(|scope| {
        (1..workers).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    places
}

fn run(asked: &Asked, opened: &Arc<Opened>, method: &Method, key: &str, limit: u64) -> Result<Done, Refusal> {
    let granted = budget(&asked.state.config.limits);
    let outcome = method.run(opened, key, limit, &granted, &mut || asked.left().is_ok());
    let metrics = &asked.state.metrics;
    if matches!(method, Method::Read(_) | Method::NotRun(_)) {
        metrics.programs.fetch_add(1, Ordering::Relaxed);
    }
    if matches!(outcome, Ok((_, true)) | Err(_)) {
        metrics.refused_programs.fetch_add(1, Ordering::Relaxed);
    }
    outcome.map(|(payload, _)| Done::payload(payload))
}

fn done(
    opened: &Arc<Opened>,
    buffers: &Arc<Buffers>,
    ask: Ask,
    payload: &[u8],
    most: u64,
) -> Result<Done, Refusal> {
    let store = &opened.store;
    let numbers = |numbers: Vec<u64>| Ok(Done::numbers(numbers));
    match ask {
        Ask::Len { key } => numbers(vec![store.len(&key)?]),
        Ask::Whole { key, limit } => match store.read_whole(&key, limit.min(most))? {
            Ok(payload) => Ok(Done::payload(payload)),
            Err(len) => numbers(vec![len]),
        },
        Ask::Ranges { key, ranges } => {
            let all = ranges
                .iter()
                .try_fold(0_u64, |sum, (_, len)| sum.checked_add(*len))
                .filter(|all| *all <= most);
            let Some(all) = all.and_then(|all| usize::try_from(all).ok()) else {
                return Err(Refusal::new(
                    Status::Invalid,
                    format!("the request asks for more than {most} bytes at once"),
                ));
            };
            let len = store.len(&key)?;
            let mut sized = Vec::with_capacity(ranges.len());
            for (at, of) in ranges {
                if at.checked_add(of).is_none_or(|end| end > len) {
                    return Err(Refusal {
                        found: Some(len),
                        ..Refusal::new(Status::ShortRead, "the object ends before the end of the range")
                    });
                }
                sized.push((at, usize::try_from(of).unwrap_or(usize::MAX)));
            }
            Ok(Done::payload(buffers.filled(all, |place| store.read_ranges(&key, &sized, place))?))
        }
        Ask::List { prefix } => {
            let entries = store.list(&prefix)?;
            let payload = encode_listing(entries.iter().map(|entry| (entry.key.as_str(), entry.len)));
            Ok(Done::payload(payload))
        }
        Ask::Put { key, absent, sync } => {
            if opened.folder.is_none() && store.features().far.is_none() {
                return Err(Refusal::new(
                    Status::NotFound,
                    "there is no such container, and the client has no right to create one",
                ));
            }
            let mode = if absent { PutMode::IfAbsent } else { PutMode::Replace };
            store.put(&key, &[payload], mode, sync)?;
            numbers(Vec::new())
        }
        Ask::Delete { key } => {
            store.delete(&key)?;
            numbers(Vec::new())
        }
        Ask::Sync { keys } => {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            match store.sync(&keys) {
                Ok(()) => numbers(Vec::new()),
                // The position of the missing object in the request.
                Err(StoreError::NotFound { key, .. }) => {
                    let which = keys.iter().position(|known| *known == key).map(|which| which as u64);
                    Err(Refusal { found: which, ..Refusal::new(Status::NotFound, "there is no such object") })
                }
                Err(error) => Err(error.into()),
            }
        }
        Ask::Lock { .. }
        | Ask::Renew { .. }
        | Ask::Unlock { .. }
        | Ask::Release { .. }
        | Ask::ReleaseShared { .. }
        | Ask::Wait { .. }
        | Ask::Transfer { .. }
        | Ask::On { .. }
        | Ask::Commit
        | Ask::CommitRegion { .. }
        | Ask::Exec { .. } => Err(Refusal::new(
            Status::Unsupported,
            "asks about regions, arenas or programs are not supported here",
        )),
        Ask::Sweep { prefix, older } => numbers(vec![store.sweep(&prefix, Duration::from_millis(older))?]),
    }
}
