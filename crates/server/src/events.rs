//! Waits for commits: a request is answered when there is a newer snapshot.
//!
//! Commits need not pass through this server, so it polls the container. A poll that finds no change costs one request
//! for one object.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone::{Container, ErrorKind, Mode};
use drystone_wire::Status;
use serde_json::json;

use crate::asked::{Asked, blocking};
use crate::reply::{Refusal, Reply, Sent, reply};
use crate::token::Right;

/// The time between two polls.
const LOOK: Duration = Duration::from_millis(200);
/// The longest wait, even if the client allows more.
const WAIT: Duration = Duration::from_secs(60);

/// Answers with the newest snapshot once its number is above `after`, or when the time is over.
pub(crate) async fn answer(asked: Asked, name: String, after: u64) -> Result<Reply, Refusal> {
    asked.who.needs(&[Right::Read], &name)?;
    // Some time is left for the reply to arrive.
    let within = asked.left()?.min(WAIT).mul_f64(0.9);
    let until = Instant::now() + within;
    let state = Arc::clone(&asked.state);
    let container = blocking(move || {
        let opened = state.stores.of(&state.config, &name, false)?;
        Container::open(Arc::clone(&opened.store), Mode::Read).map_err(|error| refused(&error))
    })
    .await?;
    loop {
        let looking = container.clone();
        let newest = blocking(move || {
            looking.refresh().map_err(|error| refused(&error))?;
            Ok(looking.snapshot().version())
        })
        .await?;
        if newest > after || Instant::now() >= until {
            let page = json!({ "snapshot": newest }).to_string();
            return Ok(reply(200, "application/json", Sent::whole(page)));
        }
        tokio::time::sleep(LOOK.min(until.saturating_duration_since(Instant::now()))).await;
    }
}

fn refused(error: &drystone::Error) -> Refusal {
    let status = match error.kind() {
        ErrorKind::NotFound => Status::NotFound,
        ErrorKind::Corrupt => Status::Corrupt,
        ErrorKind::Unsupported => Status::Unsupported,
        _ => Status::Io,
    };
    Refusal::new(status, "the newest snapshot cannot be found")
}
