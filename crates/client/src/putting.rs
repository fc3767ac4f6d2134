//! Puts an object as a whole.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use drystone_store::{PutMode, Result};
use drystone_wire::Status;
use hyper::Method;

use crate::endpoint::Endpoint;
use crate::exchange::{Attempts, Message};
use crate::reading::{self, Object};

/// A unique name: 32 hexadecimal digits.
pub(crate) fn random_name() -> String {
    let (mut name, mut random) = (String::new(), [0; 16]);
    let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random);
    for byte in random {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Puts an object; with `sync`, it is on stable storage when this returns.
pub(crate) async fn put(
    endpoint: &Arc<Endpoint>,
    object: &Object<'_>,
    data: Bytes,
    mode: PutMode,
    sync: bool,
) -> Result<()> {
    let mut headers = vec![("idempotency-key", random_name())];
    if mode == PutMode::IfAbsent {
        headers.push(("if-none-match", "*".into()));
    }
    if sync {
        headers.push(("drystone-sync", "1".into()));
    }
    let message = Message { method: Method::PUT, path: object.path.clone(), headers, body: data.clone() };
    let mut attempts = Attempts::new(endpoint, object.hands);
    let failure = match attempts.done(&message, 4096).await {
        Ok(_) => return Ok(()),
        Err(failure) => failure,
    };
    // A restarted server has lost its record of earlier requests, so the stored object is compared.
    if failure.status == Some(Status::AlreadyExists)
        && attempts.in_doubt
        && let Ok(there) = reading::whole(endpoint, object, data.len() as u64).await?
        && there == data
    {
        return Ok(());
    }
    Err(object.error(&failure, if mode == PutMode::IfAbsent { "create" } else { "put" }))
}
