//! Requests over HTTP/1.1: the request, what the script does to it, and the answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::admin;
use crate::counts::Started;
use crate::protocol::{Asked, Said, done, failed, refusal, refused as refused_for};
use crate::script::Action;
use crate::state::State;
use crate::xml;

/// Bytes that pass the link at a time.
const PIECE: usize = 64 << 10;

/// Serves connections until the runtime ends.
pub(crate) async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(&state)))),
            // The process may run out of descriptors for a while.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let rtt = state.config().rtt;
    tokio::time::sleep(rtt).await;
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { answer(state, request).await }
    });
    // A connection that a script cuts, or a client drops, ends with an error that is ignored.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The error of a connection that ends without an answer.
#[derive(Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut by the script")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Sent>, Cut> {
    let asked = Asked::new(&request);
    if asked.bucket == admin::PATH {
        let method = asked.method.clone();
        let body = request.into_body().collect().await.map_err(|_| Cut)?.to_bytes();
        return Ok(sent(admin::answer(&state, &method, &body), None, None, None));
    }
    let number = state.requests.fetch_add(1, Ordering::Relaxed);
    let kind = asked.kind();
    let started = state.tally.start(kind);
    let config = state.config().clone();
    tokio::time::sleep(config.rtt).await;
    let body = match received(&state, request.into_body(), config.bytes_per_second).await {
        Ok(body) => body,
        Err(cut) => {
            state.tally.end(&started, 0);
            return Err(cut);
        }
    };
    let refused =
        if state.limit.admits(config.requests_per_second) { refusal(&config, &asked) } else { Some(503) };
    let action = if refused.is_some() { None } else { state.script().pick(kind, &asked.key) };
    if let Some(Action::DelayBefore(wait)) = action {
        tokio::time::sleep(wait).await;
    }
    let body = match (&action, body.split_first()) {
        (Some(Action::Garble), Some((first, rest))) => [&[first ^ 1], rest].concat().into(),
        _ => body,
    };
    let said = match (refused, &action) {
        (None, _) if !asked.vouches_for(&body) => Said::text(400, xml::error(400, "BadDigest", number)),
        (Some(status), _) => failed(status, number),
        (None, Some(Action::Status(status))) => failed(*status, number),
        (None, Some(Action::Refuse(status, code, region))) => {
            refused_for(*status, code, region.as_deref(), number)
        }
        (None, Some(Action::Late(wait))) => {
            let (state, wait) = (Arc::clone(&state), *wait);
            state.tally.end(&started, 0);
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                done(&mut state.objects(), &asked, body, number);
            });
            return Err(Cut);
        }
        (None, Some(Action::StatusAfterLanding(status))) => {
            done(&mut state.objects(), &asked, body, number);
            failed(*status, number)
        }
        _ => done(&mut state.objects(), &asked, body, number),
    };
    match action {
        Some(Action::DelayAfter(wait)) => tokio::time::sleep(wait).await,
        Some(Action::Cut(None)) => {
            state.tally.end(&started, 0);
            return Err(Cut);
        }
        _ => {}
    }
    let cut = if let Some(Action::Cut(at)) = action { at } else { None };
    let trickle = if let Some(Action::Trickle(wait)) = action { Some(wait) } else { None };
    let said = said.with("x-amz-request-id", format!("RIG{number:013}"));
    Ok(sent(said, cut, trickle, Some((state, started, config.bytes_per_second))))
}

/// Receives the body of a request at the speed of the link.
async fn received(state: &State, mut body: Incoming, rate: Option<f64>) -> Result<Bytes, Cut> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Cut)?;
        if let Some(data) = frame.data_ref() {
            whole.extend_from_slice(data);
            state.tally.bytes(data.len() as u64, 0);
            state.inward.pass(data.len(), rate).await;
        }
    }
    Ok(whole.into())
}

/// A reply's body: pieces as they pass the link, and an error where the script cuts it.
pub(crate) struct Sent(mpsc::Receiver<Result<Frame<Bytes>, Cut>>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.poll_recv(context)
    }
}

fn sent(
    said: Said,
    cut: Option<u64>,
    trickle: Option<Duration>,
    counted: Option<(Arc<State>, Started, Option<f64>)>,
) -> Response<Sent> {
    let (sender, receiver) = mpsc::channel(1);
    let mut response = Response::builder().status(said.status);
    for (name, value) in &said.headers {
        response = response.header(name, value);
    }
    if said.status != 204 {
        response = response.header("content-length", said.len.unwrap_or(said.body.len() as u64));
    }
    let status = said.status;
    tokio::spawn(async move {
        let mut rest = said.body;
        let mut left = cut.map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        // The end is counted before the last piece is sent, so that a client that has received everything finds it
        // counted.
        let mut counted = counted;
        loop {
            let most = if trickle.is_some() { 1 } else { PIECE };
            let take = rest.len().min(most).min(left.unwrap_or(most));
            if let Some(wait) = trickle {
                tokio::time::sleep(wait).await;
            }
            let piece = rest.split_to(take);
            let is_last = rest.is_empty() || left.is_some_and(|left| left <= take);
            if let Some((state, _, rate)) = &counted {
                state.outward.pass(take, *rate).await;
                state.tally.bytes(0, take as u64);
            }
            if is_last && let Some((state, started, _)) = counted.take() {
                state.tally.end(&started, status);
            }
            if take > 0 && sender.send(Ok(Frame::data(piece))).await.is_err() {
                // The client has disconnected.
                if let Some((state, started, _)) = counted.take() {
                    state.tally.end(&started, status);
                }
                return;
            }
            if let Some(left) = &mut left {
                *left -= take;
            }
            if is_last {
                if left.is_some() {
                    let _ = sender.send(Err(Cut)).await;
                }
                return;
            }
        }
    });
    // Status and headers made here are well-formed, except for what a client put into metadata.
    response.body(Sent(receiver)).unwrap_or_else(|_| {
        let (_, receiver) = mpsc::channel(1);
        let mut response = Response::new(Sent(receiver));
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
