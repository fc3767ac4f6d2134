//! A scripted S3 server for tests and benchmarks.
//!
//! It speaks the part of S3's protocol that object store clients use, over plain HTTP, and keeps objects in memory. A
//! [`Script`] says what goes wrong: delays, cut replies, refusals, errors after the write landed, writes that land
//! late, and a limit of requests per second. [`Counts`] say exactly what was asked for.
//!
//! Invariants
//! - a conditional PUT is atomic: of any number of `If-None-Match: *` on one key exactly one lands;
//! - signatures are not checked, only the access key and the region named in them, if the configuration asks for it;
//! - a request is counted once, when its head was read, whatever happens to it afterwards.

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

/// How the server behaves where no rule says otherwise.
#[derive(Clone, Debug)]
pub struct Config {
    /// Port on the loopback interface; 0 takes a free one.
    pub port: u16,
    /// Delay of each request, and of each new connection.
    pub rtt: Duration,
    /// Bytes per second in each direction, shared by all connections. `None`: as fast as it goes.
    pub bytes_per_second: Option<f64>,
    /// Requests per second beyond which the answer is 503 SlowDown.
    pub requests_per_second: Option<f64>,
    /// The buckets that exist at the start.
    pub buckets: Vec<String>,
    /// The only access key that is let in; `None`: everybody is, also without a signature.
    pub access_key: Option<String>,
    /// The region that signatures must name; `None`: any.
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
    // Ends the server's threads when it is dropped.
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

    /// What was asked for since the start or the last [`Rig::reset_counts`].
    pub fn counts(&self) -> Counts {
        self.state.tally().counts()
    }

    /// Starts all counters at zero.
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

    /// The objects, to look at or to change behind the clients' backs.
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
