//! Batches small concurrent reads of one container into one request.
//!
//! A few such requests may be in flight at once. Reads submitted meanwhile wait, and go with the next request. A slow
//! link therefore carries few requests with many reads, and a fast link delays no read.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use drystone_wire::{Ask, Builder, CONTENT_TYPE, Status};
use hyper::Method;
use tokio::sync::oneshot;

use crate::endpoint::Endpoint;
use crate::exchange::{Attempts, Hands, Message};
use crate::failure::Failure;
use crate::replies::answers;
use crate::waiting::{Answered, Small};

/// The most batched requests in flight.
const AT_ONCE: usize = 4;
/// Bytes of a reply besides the payload.
const BESIDE: usize = 1 << 20;
/// The longest answer of a small request.
pub(crate) const SMALL: u64 = 256 << 10;

/// Submits a small request about a container; `answer` is the most bytes of its reply.
pub(crate) async fn ask(
    endpoint: &Arc<Endpoint>,
    container: &str,
    ask: Ask,
    payload: Bytes,
    answer: u64,
) -> Answered {
    let (done, outcome) = oneshot::channel();
    let small = Small { container: container.to_owned(), ask, payload, answer, done };
    if endpoint.together.push(small, AT_ONCE) {
        let endpoint = Arc::clone(endpoint);
        endpoint.handle.spawn(async move {
            // Requests submitted at the same moment join the batch.
            match endpoint.together.linger() {
                Some(moment) => tokio::time::sleep(moment).await,
                None => tokio::task::yield_now().await,
            }
            loop {
                let asks = endpoint.together.next();
                if asks.is_empty() {
                    return;
                }
                send(&endpoint, asks).await;
            }
        });
    }
    outcome.await.unwrap_or_else(|_| Err(Failure::lost("the request was given up")))
}

async fn send(endpoint: &Arc<Endpoint>, asks: Vec<Small>) {
    let failure = match exchanged(endpoint, &asks).await {
        Ok(answers) => {
            return asks.into_iter().zip(answers).for_each(|(small, answer)| drop(small.done.send(answer)));
        }
        Err(failure) => failure,
    };
    // A server refuses the whole body if it does not know one of the requests. Each request is then sent alone.
    let apart = failure.status == Some(Status::Invalid) && asks.len() > 1;
    for small in asks {
        let answer = if apart { alone(endpoint, &small).await } else { Err(failure.clone()) };
        drop(small.done.send(answer));
    }
}

async fn alone(endpoint: &Arc<Endpoint>, small: &Small) -> Answered {
    let answers = exchanged(endpoint, std::slice::from_ref(small)).await?;
    answers.into_iter().next().unwrap_or_else(|| Err(Failure::lost("the reply lacks an answer")))
}

/// Sends all of these in one request; returns their answers.
async fn exchanged(endpoint: &Arc<Endpoint>, asks: &[Small]) -> Result<Vec<Answered>, Failure> {
    let mut body = Builder::new();
    asks.iter().for_each(|small| body.frame(&small.ask.header(), &[&small.payload]));
    let container = asks.first().map_or("", |small| &small.container);
    let message = Message {
        method: Method::POST,
        path: format!("/v1/c/{container}/read"),
        headers: vec![("content-type", CONTENT_TYPE.into())],
        body: body.end(Status::Ok, "").into(),
    };
    let bytes = asks.iter().fold(0, |sum: u64, small| sum.saturating_add(small.answer));
    let limit = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(BESIDE);
    let mut attempts = Attempts::new(endpoint, Hands::Runtime);
    loop {
        let begun = Instant::now();
        let (_, reply) = attempts.done(&message, limit).await?;
        endpoint.together.took(begun.elapsed());
        let failure = match answers(reply, asks.len()) {
            Ok(answers) => return Ok(answers),
            Err(failure) => failure,
        };
        if !attempts.again(&failure).await {
            return Err(failure);
        }
    }
}
