//! Many asks in one request: frames in, frames out, in the same order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use drystone_store::{PutMode, StoreError, StoreExt};
use drystone_wire::{
    Answer, Ask, CONTENT_TYPE, FrameHead, Frames, Header, Status, body_head, checksum, encode_listing,
};
use hyper::body::Incoming;

use crate::asked::{Asked, blocking};
use crate::objects::{may_make, rights_to_put};
use crate::open::Opened;
use crate::reply::{Pieces, Refusal, Reply, Sent, reply};
use crate::token::Right;

/// What one ask did: numbers and bytes.
struct Done {
    numbers: Vec<u64>,
    payload: Vec<u8>,
}

pub(crate) async fn answer(asked: Asked, name: String, body: Incoming) -> Result<Reply, Refusal> {
    let (parts, room) = asked.body(body).await?;
    let (asked, name, parsed) = blocking(move || {
        let whole = parts.concat();
        let malformed =
            |bad: drystone_wire::Malformed| Refusal::new(Status::Invalid, format!("the request is {bad}"));
        let frames = Frames::decode(&whole).map_err(malformed)?;
        let mut asks = Vec::new();
        for (header, payload) in frames.into_frames() {
            let ask = Ask::of_header(header).map_err(malformed)?;
            asked.who.needs(rights(&ask), &name)?;
            asks.push((ask, payload.to_vec()));
        }
        Ok((asked, name, asks))
    })
    .await?;
    let (pieces, body) = Sent::pieces(None);
    tokio::task::spawn_blocking(move || {
        let _room = room;
        work(&asked, &name, parsed, &pieces);
    });
    Ok(reply(200, CONTENT_TYPE, body))
}

fn rights(ask: &Ask) -> &'static [Right] {
    match ask {
        Ask::Len { .. } | Ask::Whole { .. } | Ask::Ranges { .. } | Ask::List { .. } => &[Right::Read],
        Ask::Put { key, absent, .. } => {
            rights_to_put(key, if *absent { PutMode::IfAbsent } else { PutMode::Replace })
        }
        Ask::Delete { .. }
        | Ask::Sweep { .. }
        | Ask::Lock { .. }
        | Ask::Renew { .. }
        | Ask::Unlock { .. }
        | Ask::Release { .. }
        | Ask::Wait { .. }
        | Ask::Commit => &[Right::Modify],
        Ask::Sync { .. } => &[Right::Modify, Right::Create],
    }
}

fn work(asked: &Asked, name: &str, asks: Vec<(Ask, Vec<u8>)>, pieces: &Pieces) {
    let opened = asked.state.stores.of(&asked.state.config, name, false);
    let opened = match opened {
        Ok(opened)
            if opened.folder.is_none()
                && may_make(&asked.who, name)
                && asks.iter().any(|(ask, _)| matches!(ask, Ask::Put { .. })) =>
        {
            asked.state.stores.of(&asked.state.config, name, true)
        }
        other => other,
    };
    let most = asked.state.config.limits.memory / 4;
    let mut sent = 0;
    if send(pieces, Bytes::copy_from_slice(&body_head())).is_err() {
        return;
    }
    for (number, (ask, payload)) in asks.into_iter().enumerate() {
        let outcome = match (asked.left(), &opened) {
            (Ok(_), Ok(opened)) => {
                let state = &asked.state;
                match state.regions.done(&state.config, name, opened, &ask, &payload) {
                    Some(outcome) => outcome.map(|numbers| Done { numbers, payload: Vec::new() }),
                    None => done(opened, ask, &payload, most),
                }
            }
            (Err(refusal), _) => Err(refusal),
            (_, Err(refusal)) => Err(refusal.clone()),
        };
        let (status, text, numbers, payload) = match outcome {
            Ok(done) => (Status::Ok, String::new(), done.numbers, done.payload),
            Err(refusal) => {
                (refusal.status, refusal.message, refusal.found.into_iter().collect(), Vec::new())
            }
        };
        let header = Answer::To { ask: number as u64, status, numbers, text }.header();
        if frame(pieces, &header, payload).is_err() {
            return;
        }
        sent += 1;
    }
    let _ = frame(
        pieces,
        &Answer::End { frames: sent, status: Status::Ok, text: String::new() }.header(),
        Vec::new(),
    );
}

/// The client has gone.
struct Gone;

fn send(pieces: &Pieces, bytes: Bytes) -> Result<(), Gone> {
    pieces.blocking_send(Ok(bytes)).map_err(|_| Gone)
}

fn frame(pieces: &Pieces, header: &Header, payload: Vec<u8>) -> Result<(), Gone> {
    let mut head = FrameHead::encode(header, payload.len() as u64);
    let crc = checksum(&[&payload]).to_le_bytes();
    // Short frames are one piece.
    if payload.len() < 16 << 10 {
        head.extend_from_slice(&payload);
        head.extend_from_slice(&crc);
        return send(pieces, head.into());
    }
    send(pieces, head.into())?;
    send(pieces, payload.into())?;
    send(pieces, Bytes::copy_from_slice(&crc))
}

fn done(opened: &Arc<Opened>, ask: Ask, payload: &[u8], most: u64) -> Result<Done, Refusal> {
    let store = &opened.store;
    let numbers = |numbers: Vec<u64>| Ok(Done { numbers, payload: Vec::new() });
    match ask {
        Ask::Len { key } => numbers(vec![store.len(&key)?]),
        Ask::Whole { key, limit } => match store.read_whole(&key, limit.min(most))? {
            Ok(payload) => Ok(Done { numbers: Vec::new(), payload }),
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
                    format!("more than {most} bytes are asked for at once"),
                ));
            };
            let len = store.len(&key)?;
            let mut sized = Vec::with_capacity(ranges.len());
            for (at, of) in ranges {
                if at.checked_add(of).is_none_or(|end| end > len) {
                    return Err(Refusal {
                        found: Some(len),
                        ..Refusal::new(Status::ShortRead, "the object ends before")
                    });
                }
                sized.push((at, usize::try_from(of).unwrap_or(usize::MAX)));
            }
            let mut payload = vec![0; all];
            store.read_ranges(&key, &sized, &mut payload)?;
            Ok(Done { numbers: Vec::new(), payload })
        }
        Ask::List { prefix } => {
            let entries = store.list(&prefix)?;
            let payload = encode_listing(entries.iter().map(|entry| (entry.key.as_str(), entry.len)));
            Ok(Done { numbers: Vec::new(), payload })
        }
        Ask::Put { key, absent, sync } => {
            if opened.folder.is_none() && store.features().far.is_none() {
                return Err(Refusal::new(
                    Status::NotFound,
                    "there is no such container, and no right to make one",
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
                // Which of them is not there.
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
        | Ask::Wait { .. }
        | Ask::Commit => Err(Refusal::new(Status::Unsupported, "this is about regions")),
        Ask::Sweep { prefix, older } => numbers(vec![store.sweep(&prefix, Duration::from_millis(older))?]),
    }
}
