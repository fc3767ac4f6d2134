//! Answers a request: finds its route, checks its rights, admits it, and does its work.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_wire::Status;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request};
use serde_json::json;

use crate::asked::{Asked, Peer, Who};
use crate::page::Part;
use crate::reply::{Refusal, Reply, Sent, reply, text};
use crate::route::Route;
use crate::state::State;
use crate::token::Right;
use crate::{arena, batch, events, log, objects, page, upload};

/// The reply to a request.
pub(crate) async fn answer(
    state: Arc<State>,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Reply, Infallible> {
    let route = Route::parse(request.method(), request.uri().path(), request.uri().query());
    let mut who = client_of(&state, &peer, request.headers());
    if let (Who::Nobody, Route::Page { .. }) = (&who, &route) {
        who = page::client_of(&state, request.headers());
    }
    let is_page = matches!(route, Route::Page { part: Part::Whole | Part::Form, .. });
    let label = who.label();
    let container = route.container().unwrap_or("").to_owned();
    let mut started = state.metrics.start(route.label(), &container, &label);
    let (name, is_head) = (route.label(), request.method() == Method::HEAD);
    let outcome = routed(&state, who, route, request, &label).await;
    let (mut reply, refusal) = match outcome {
        Ok(reply) => (reply, None),
        Err(refusal) if is_page && refusal.status == Status::Denied => (page::form(&refusal), Some(refusal)),
        Err(refusal) => (refusal.reply(), Some(refusal)),
    };
    let status = reply.status().as_u16();
    started.status = status;
    if status >= 500 || state.config.log_requests || matches!(status, 401 | 403) {
        let mut fields = vec![
            ("route", json!(name)),
            ("container", json!(container)),
            ("client", json!(label)),
            ("status", json!(status)),
            ("ms", json!((started.elapsed().as_secs_f64() * 1e6).round() / 1e3)),
        ];
        if let Some(refusal) = refusal {
            fields.push(("reason", json!(refusal.message)));
        }
        log::line("request", &fields);
    }
    if !is_head {
        reply.body_mut().hold(started);
        reply.body_mut().count_in(&state.metrics);
    }
    Ok(reply)
}

fn client_of(state: &State, peer: &Peer, headers: &HeaderMap) -> Who {
    if let Peer::SameUser(uid) = peer {
        return Who::SameUser(*uid);
    }
    let word = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let word = word.and_then(|value| {
        let (scheme, word) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(word.trim())
    });
    word.and_then(|word| state.token(word)).map_or(Who::Nobody, Who::Token)
}

async fn routed(
    state: &Arc<State>,
    who: Who,
    route: Route,
    request: Request<Incoming>,
    client: &str,
) -> Result<Reply, Refusal> {
    if route == Route::Arena {
        return arena::answer(state, &who, client, request);
    }
    let (head, body) = request.into_parts();
    match &route {
        Route::Health => return Ok(text(200, "ok\n")),
        Route::Metrics => {
            if !state.config.open_metrics && matches!(who, Who::Nobody) {
                return Err(Refusal {
                    needs_token: true,
                    ..Refusal::new(Status::Denied, "/metrics needs a token")
                });
            }
            return Ok(metrics(state));
        }
        // The reply is the same for all names, so it reveals nothing.
        Route::Page { part: Part::Bare, .. } => return Ok(page::moved()),
        Route::Page { name, part: Part::Form, .. } => {
            return page::signed_in(state, name, &head.headers, body).await;
        }
        _ => {}
    }
    // A client without a right learns nothing, not even which paths exist.
    if matches!(who, Who::Nobody) {
        let name = route.container().unwrap_or("").to_owned();
        who.needs(&[Right::Read], &name)?;
    }
    let allowed =
        head.headers.get("drystone-deadline").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let allowed = Duration::from_millis(allowed.unwrap_or(30_000).min(600_000));
    let asked =
        Asked { state: Arc::clone(state), who, headers: head.headers, until: Instant::now() + allowed };
    if matches!(route, Route::Unknown | Route::Method) {
        let known = if route == Route::Unknown {
            "there is no such path"
        } else {
            "this path does not support this method"
        };
        return Err(Refusal::new(
            if route == Route::Unknown { Status::NotFound } else { Status::ReadOnly },
            known,
        ));
    }
    if let Route::Events { name, after } = route {
        // This request only waits, so it takes no turn.
        return events::answer(asked, name, after).await;
    }
    let turn = state.admission.turn(client, asked.patience()?).await?;
    let mut reply = match route {
        Route::Object { name, key, verb } => objects::answer(asked, name, key, verb, body).await?,
        Route::Upload { name, key } => upload::answer(asked, name, key, body).await?,
        Route::List { name, prefix } => objects::list(asked, name, prefix).await?,
        Route::Batch { name } => batch::answer(asked, name, body).await?,
        Route::Page { name, part, query } => page::answer(asked, name, part, query).await?,
        Route::Health
        | Route::Metrics
        | Route::Arena
        | Route::Events { .. }
        | Route::Unknown
        | Route::Method => text(404, "there is no such path\n"),
    };
    reply.body_mut().hold(turn);
    Ok(reply)
}

fn metrics(state: &State) -> Reply {
    let page = state.metrics.page(&[
        (
            "requests_waiting",
            "Requests that wait for a turn or for memory.",
            state.admission.waiting() as u64,
        ),
        ("request_memory_bytes", "Memory that bodies of requests hold.", state.admission.memory_used()),
        ("leases", "Live leases on regions.", state.regions.leases() as u64),
        ("arenas", "Clients that share memory with the server.", state.arenas.count() as u64),
        ("arena_bytes", "Bytes of that memory, used or not.", state.arenas.bytes()),
        ("open_containers", "Stores of containers that are open.", state.stores.count() as u64),
    ]);
    reply(200, "text/plain; version=0.0.4; charset=utf-8", Sent::whole(page))
}
