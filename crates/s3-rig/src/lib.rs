//! A scripted S3 server for tests and benchmarks.
//!
//! It implements the part of S3's protocol that object store clients use, over plain HTTP, and keeps objects in memory.
//! A [`Script`] injects faults: delays, cut replies, refusals, errors after a write was done, writes that are done
//! late, and a limit of requests per second. [`Counts`] are exact counts of requests and bytes.
//!
//! Invariants
//! - a conditional PUT is atomic: of any number of `If-None-Match: *` for one key, exactly one succeeds;
//! - signatures are not checked, except for the access key and the region in them, if the configuration requires it;
//! - a request is counted once, when its head has been read, whatever happens to it afterwards.

mod admin;
mod bucket;
mod counts;
mod link;
mod protocol;
mod script;
mod serve;
mod state;
mod xml;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use bucket::Objects;
pub use counts::Counts;
pub use script::{Action, Rule, Script};

/// The behaviour of the server where no rule applies.
#[derive(Clone, Debug)]
pub struct Config {
    /// Port on the loopback interface; 0 chooses a free one.
    pub port: u16,
    /// Delay of each request, and of each new connection.
    pub rtt: Duration,
    /// Bytes per second in each direction, shared by all connections; `None` for no limit.
    pub bytes_per_second: Option<f64>,
    /// Requests per second; beyond them the answer is 503 SlowDown.
    pub requests_per_second: Option<f64>,
    /// The buckets that exist at the start.
    pub buckets: Vec<String>,
    /// The only accepted access key; `None` accepts every key, and requests without a signature.
    pub access_key: Option<String>,
    /// The region that signatures must name; `None` accepts any region.
    pub region: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            port: 0,
            rtt: Duration::ZERO,
            bytes_per_second: None,
            requests_per_second: None,
            buckets: vec!["bucket".into()],
            access_key: None,
            region: None,
        }
    }
}

/// A server that runs in this process until it is dropped.
pub struct Rig {
    address: SocketAddr,
    state: Arc<state::State>,
    // The server's threads, which end when it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Rig {
    /// Starts a server with threads of its own.
    pub fn start(config: Config) -> std::io::Result<Rig> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let port = config.port;
        let state = Arc::new(state::State::new(config));
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", port)))?;
        let address = listener.local_addr()?;
        runtime.spawn(serve::accept(listener, Arc::clone(&state)));
        Ok(Rig { address, state, runtime: Some(runtime) })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The counts since the start, or since the last [`Rig::reset_counts`].
    pub fn counts(&self) -> Counts {
        self.state.tally().counts()
    }

    /// Resets all counters to zero.
    pub fn reset_counts(&self) {
        self.state.tally().reset();
    }

    /// Replaces the script.
    pub fn set_script(&self, script: Script) {
        *self.state.script() = script;
    }

    /// Changes the delay of each request.
    pub fn set_rtt(&self, rtt: Duration) {
        self.state.config().rtt = rtt;
    }

    /// Calls `f` with the objects, to examine or change them without a request.
    pub fn with_objects<T>(&self, f: impl FnOnce(&mut Objects) -> T) -> T {
        f(&mut self.state.objects())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rig at {}", self.endpoint())
    }
}
