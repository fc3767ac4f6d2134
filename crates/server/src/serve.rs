//! The server as a whole: start, stop, signals.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::face::Page;
use crate::listen::{Bound, accept};
use crate::state::State;
use crate::{Config, InvalidConfig, log};

/// A server that runs on threads of its own until it is stopped or dropped.
#[derive(Debug)]
pub struct Server {
    runtime: Option<Runtime>,
    addresses: Vec<String>,
    stop: watch::Sender<bool>,
    accepting: Vec<JoinHandle<()>>,
    state: StateOf,
}

/// The state, whose debug output shows no content.
struct StateOf(Arc<State>);

impl std::fmt::Debug for StateOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl Server {
    /// Starts to listen. When this returns, the server accepts requests.
    pub fn start(config: Config) -> Result<Server, InvalidConfig> {
        Server::start_with(config, None)
    }

    /// Like [`start`](Self::start), with the page of containers.
    pub fn start_with(config: Config, page: Option<Arc<dyn Page>>) -> Result<Server, InvalidConfig> {
        // This fails if the program has installed another provider, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Builder::new_multi_thread()
            .worker_threads(std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8))
            .max_blocking_threads(config.limits.requests * 2 + 16)
            .thread_name("drystone-serve")
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| InvalidConfig(format!("cannot start threads: {error}")))?;
        let state = Arc::new(State::new(config, page)?);
        if state.config.tokens.is_none()
            && state.config.listen.iter().any(|one| matches!(one, crate::config::Listener::Tcp(_)))
        {
            log::line(
                "warning",
                &[("reason", json!("no tokens are configured: all requests over TCP are refused"))],
            );
        }
        let (stop, stopped) = watch::channel(false);
        let (mut addresses, mut accepting) = (Vec::new(), Vec::new());
        let mut bound = Vec::new();
        for listener in &state.config.listen {
            bound.push(runtime.block_on(Bound::bind(listener))?);
        }
        for one in bound {
            addresses.push(one.address());
            accepting.push(runtime.spawn(accept(one, Arc::clone(&state), stopped.clone())));
        }
        runtime.spawn(watched(Arc::clone(&state), stopped));
        Ok(Server { runtime: Some(runtime), addresses, stop, accepting, state: StateOf(state) })
    }

    /// The addresses on which it listens, in the order of the configuration. A configured port of 0 is replaced by the
    /// port that the system chose.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Accepts no more requests, and ends when those under way are answered, or after `within`. Returns whether all
    /// were answered.
    pub fn stop(mut self, within: Duration) -> bool {
        let _ = self.stop.send(true);
        let until = Instant::now() + within;
        let mut is_done = false;
        if let Some(runtime) = self.runtime.take() {
            for accepting in std::mem::take(&mut self.accepting) {
                let _ = runtime.block_on(accepting);
            }
            while !is_done && Instant::now() < until {
                is_done = self.state.0.metrics.under_way() == 0;
                std::thread::sleep(Duration::from_millis(5));
            }
            self.state.0.arenas.close();
            self.state.0.regions.close();
            // The kernel sends complete replies from the buffers of the sockets.
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
        is_done
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The time between two checks whether clients are connected.
const LOOK: Duration = Duration::from_millis(200);

/// Reloads tokens and certificates when their files change.
async fn watched(state: Arc<State>, mut stopped: watch::Receiver<bool>) {
    while tokio::time::timeout(Duration::from_secs(1), stopped.wait_for(|stopped| *stopped)).await.is_err() {
        let state = Arc::clone(&state);
        let _ = tokio::task::spawn_blocking(move || state.reload()).await;
    }
}

/// Serves in the foreground until SIGTERM or Ctrl-C, and then finishes the requests under way. Calls `ready` with the
/// addresses.
pub fn serve_until_signal(
    config: Config,
    page: Option<Arc<dyn Page>>,
    ready: impl FnOnce(&[String]),
) -> Result<(), InvalidConfig> {
    serve_while(config, page, None, ready)
}

/// Like [`serve_until_signal`]. Also ends when no client has been connected for `idle`.
pub(crate) fn serve_while(
    config: Config,
    page: Option<Arc<dyn Page>>,
    idle: Option<Duration>,
    ready: impl FnOnce(&[String]),
) -> Result<(), InvalidConfig> {
    let failed = |error: io::Error| InvalidConfig(format!("cannot wait for signals: {error}"));
    let server = Server::start_with(config, page)?;
    let waiting = Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
    let signals = waiting.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        Ok::<_, io::Error>((
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        ))
    });
    let (mut terminate, mut interrupt, mut hangup) = signals.map_err(failed)?;
    log::line("serving", &[("addresses", json!(server.addresses()))]);
    ready(server.addresses());
    let mut used = Instant::now();
    waiting.block_on(async {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => drop(server.state.0.reload()),
                () = tokio::time::sleep(LOOK), if idle.is_some() => {}
            }
            if server.state.0.is_used() {
                used = Instant::now();
            }
            if idle.is_some_and(|idle| used.elapsed() > idle) {
                break;
            }
        }
    });
    log::line("stopping", &[]);
    let is_done = server.stop(Duration::from_secs(30));
    log::line("stopped", &[("complete", json!(is_done))]);
    Ok(())
}
