//! Objects that arrive in pieces, each in a request of its own.
//!
//! A piece is written while it arrives, so only one part of a body is in memory. docs/format/wire.md specifies the
//! headers.
//!
//! Invariants
//! - an object is invisible until its upload ends, and is then complete;
//! - a repeated piece changes nothing, and a piece that does not follow the bytes already there is refused;
//! - an upload survives a restart of the server: it is a file beside the object, created by the first piece.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use drystone_store::{PutMode, Staging, Store, StoreError};
use drystone_wire::{LENGTH, OFFSET, Status, UPLOAD, UploadStep};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use crate::asked::{Asked, STALL, blocking};
use crate::objects::rights_to_put;
use crate::reply::{Refusal, Reply, Sent, reply};

/// The most bytes of a body that count as held in memory.
const HELD: u64 = 1 << 20;

pub(crate) async fn answer(
    asked: Asked,
    name: String,
    key: String,
    body: Incoming,
) -> Result<Reply, Refusal> {
    asked.who.needs(rights_to_put(&key, PutMode::IfAbsent), &name)?;
    let said = |name: &str| asked.headers.get(name).map(|value| value.to_str());
    let text =
        |name: &str| said(name).transpose().map_err(|_| invalid("a header of an upload is not a text"));
    let id =
        text(UPLOAD)?.ok_or_else(|| invalid("a PATCH is a step of an upload and must name it"))?.to_owned();
    let step = UploadStep::parse(&id, text(OFFSET)?, text(LENGTH)?);
    let step = step.map_err(|bad| invalid(format!("the request is {bad}")))?;
    let staging = {
        let (state, name, key, id) =
            (std::sync::Arc::clone(&asked.state), name.clone(), key.clone(), id.clone());
        blocking(move || {
            let opened = state.stores.of(&state.config, &name, false)?;
            let folder = opened.folder.as_deref().filter(|_| opened.store.local().is_some());
            let folder = folder.ok_or_else(elsewhere)?;
            Ok(Staging::new(folder, &key, &id)?)
        })
        .await?
    };
    match step {
        UploadStep::Piece { offset } => piece(&asked, staging, offset, body).await?,
        UploadStep::End { length } => {
            asked.left()?;
            let once = format!("{} {name} {key} {id}", asked.who.label());
            let work = blocking(move || Ok(staging.end(length)?));
            let state = std::sync::Arc::clone(&asked.state);
            // An upload that is being ended is finished even if the client disconnects.
            let work = tokio::spawn(async move { state.idempotence.once(Some(once), work).await });
            work.await.unwrap_or_else(|_| Err(Refusal::unfinished()))?;
        }
        UploadStep::Abandon => blocking(move || Ok(staging.abandon()?)).await?,
    }
    Ok(reply(204, "text/plain", Sent::whole(Bytes::new())))
}

/// Writes the bytes of a body while they arrive.
async fn piece(asked: &Asked, staging: Staging, offset: u64, mut body: Incoming) -> Result<(), Refusal> {
    let Some(len) = body.size_hint().exact() else {
        return Err(invalid("the request must say how long its body is (Content-Length)"));
    };
    let end = offset
        .checked_add(len)
        .ok_or_else(|| invalid("the offset and the length of the piece are too large"))?;
    let _room = asked.state.admission.room(len.min(HELD), asked.patience()?).await?;
    let quick = &asked.state.quick;
    let mut staged = quick.in_place(|| match staging.open(offset == 0) {
        Err(StoreError::NotFound { .. }) => {
            Err(Refusal::new(Status::NotFound, "the server has no pieces of this upload: begin again"))
        }
        opened => Ok(opened?),
    })?;
    let mut at = offset;
    loop {
        let cut = || Refusal::new(Status::Io, "the body broke off; the piece may come again");
        let frame = match tokio::time::timeout(STALL, body.frame()).await {
            Err(_) | Ok(Some(Err(_))) => return Err(cut()),
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        asked.state.metrics.bytes_in.fetch_add(data.len() as u64, Ordering::Relaxed);
        quick.in_place(|| Ok(staged.add(at, &data)?))?;
        at = at.saturating_add(data.len() as u64);
    }
    if at == end { Ok(()) } else { Err(invalid("the body does not have the announced length")) }
}

fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(Status::Invalid, why)
}

fn elsewhere() -> Refusal {
    Refusal::new(Status::Unsupported, "this container does not support uploads in pieces: put whole objects")
}
