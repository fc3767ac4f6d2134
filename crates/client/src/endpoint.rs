//! The state that this process keeps about a server: connections, credentials, measured latencies.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drystone_arena::Piece;
use drystone_runtime::Order;
use drystone_store::{PerProcess, process_id};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsConnector;

use crate::address::Way;
use crate::arena::Shared;
use crate::connection::{Sender, connect, connect_here};
use crate::line::Line;
use crate::options::Resolved;
use crate::tls;
use crate::waiting::Together;
use crate::{Address, InvalidAddress};

/// A server, together with the options of its requests.
pub(crate) struct Endpoint {
    pub(crate) handle: &'static Handle,
    pub(crate) options: Resolved,
    /// The value of the header `Host`.
    pub(crate) host: String,
    way: Way,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<Sender>>,
    /// Idle connections of threads that send their own requests.
    lines: Mutex<Vec<Line>>,
    /// The shortest round trip of such a thread in microseconds; 0 if there was none yet.
    seen: AtomicU64,
    turns: Arc<Semaphore>,
    /// Whether it has answered this process before.
    pub(crate) has_answered: AtomicBool,
    /// Changes of one key are executed in the order of their submission.
    pub(crate) order: Order,
    /// Small requests that wait to be sent.
    pub(crate) together: Together,
    /// Memory shared with the server.
    pub(crate) shared: Shared,
    /// Whether the last container of this process on the server was closed. If so, connections are not kept.
    rests: AtomicBool,
    token: Mutex<Option<String>>,
}

/// A connection with at most one request in flight.
pub(crate) struct Lease {
    pub(crate) sender: Sender,
    endpoint: Arc<Endpoint>,
    _turn: OwnedSemaphorePermit,
    /// Whether it was used before. If so, the server may have closed it since.
    pub(crate) is_used: bool,
}

/// An open container on a server of this machine. When a process closes the last one, it also closes its connections to
/// the server's Unix socket. A node's server therefore sees from its connections which processes have containers open.
#[derive(Debug)]
pub struct Presence {
    way: Way,
    process: u32,
}

impl Presence {
    /// Registers the container at this address until the value is dropped. `None` if the address is not that of a Unix
    /// socket.
    pub fn of(url: &str) -> Option<Presence> {
        let Address { way: way @ Way::Unix(_), .. } = Address::parse(url).ok()? else { return None };
        let mut known = known();
        *known.open.entry(way.clone()).or_default() += 1;
        known.at(&way).for_each(|endpoint| endpoint.rests.store(false, Ordering::Release));
        drop(known);
        Some(Presence { way, process: process_id() })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A child must not close its parent's connections.
        if self.process != process_id() {
            return;
        }
        let mut known = known();
        if let Some(count) = known.open.get_mut(&self.way) {
            *count -= 1;
            if *count == 0 {
                known.open.remove(&self.way);
                known.at(&self.way).for_each(|endpoint| endpoint.disconnect());
            }
        }
    }
}

/// The servers that a process uses.
#[derive(Default)]
struct Known {
    endpoints: HashMap<(Way, Resolved), Arc<Endpoint>>,
    /// Number of open containers, by server.
    open: HashMap<Way, usize>,
}

impl Known {
    fn at(&self, way: &Way) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().filter(move |((known, _), _)| known == way).map(|(_, endpoint)| endpoint)
    }
}

/// The servers of the calling process.
fn known() -> MutexGuard<'static, Known> {
    static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();

    KNOWN.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoint {
    /// The endpoint of the calling process, created by the first call.
    pub(crate) fn of(address: &Address, options: &Resolved) -> Result<Arc<Endpoint>, InvalidAddress> {
        let mut known = known();
        let way = &address.way;
        let key = (way.clone(), options.clone());
        if let Some(endpoint) = known.endpoints.get(&key) {
            // The endpoint is in use again, so its connections are kept again.
            endpoint.rests.store(false, Ordering::Release);
            return Ok(Arc::clone(endpoint));
        }
        let handle = drystone_runtime::handle()
            .map_err(|error| InvalidAddress(format!("cannot start threads for requests: {error}")))?;
        let tls = match way {
            Way::Tcp { encrypted: true, .. } => Some(tls::connector(options)?),
            _ => None,
        };
        let endpoint = Arc::new(Endpoint {
            handle,
            host: address.host(),
            way: way.clone(),
            tls,
            idle: Mutex::default(),
            lines: Mutex::default(),
            seen: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(options.max_requests)),
            has_answered: AtomicBool::new(false),
            order: Order::default(),
            together: Together::default(),
            shared: Shared::default(),
            rests: AtomicBool::new(false),
            token: Mutex::new(options.token.token()),
            options: options.clone(),
        });
        known.endpoints.insert(key, Arc::clone(&endpoint));
        Ok(endpoint)
    }

    /// Closes idle connections, and keeps none from now on. Memory that was handed out stays valid.
    fn disconnect(&self) {
        self.rests.store(true, Ordering::Release);
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        drop((idle, lines));
        self.shared.close();
    }

    /// Takes an idle connection, or opens one if there is none or `fresh` is set.
    pub(crate) async fn lease(self: &Arc<Self>, fresh: bool) -> io::Result<Lease> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| io::Error::other("the endpoint is closed"))?;
        let idle = if fresh { None } else { self.take_idle() };
        let (sender, is_used) = match idle {
            Some(sender) => (sender, true),
            None => (connect(self.handle, &self.way, self.tls.as_ref()).await?, false),
        };
        Ok(Lease { sender, endpoint: Arc::clone(self), _turn: turn, is_used })
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() && sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Whether a thread may send its own requests: the server is on this machine and the connection is not encrypted.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.way, Way::Tcp { encrypted: true, .. })
    }

    /// A connection for a thread that sends its own request, with a permit. Takes an idle one, or opens one if there is
    /// none or `fresh` is set.
    pub(crate) async fn line(&self, fresh: bool) -> io::Result<(Line, OwnedSemaphorePermit)> {
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|_| io::Error::other("the endpoint is closed"))?;
        let idle = || self.lines.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let line = match if fresh { None } else { idle() } {
            Some(line) => line,
            None => Line::new(connect_here(&self.way).await?, self.options.deadline)?,
        };
        Ok((line, turn))
    }

    /// Keeps a line for further requests, if it can take them.
    pub(crate) fn keep(&self, mut line: Line) {
        if line.is_free() && !self.rests.load(Ordering::Acquire) {
            line.is_used = true;
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// Records the round trip of a thread that sent its own request.
    pub(crate) fn answered_in(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.seen.load(Ordering::Relaxed);
        if before == 0 || time < before {
            self.seen.store(time, Ordering::Relaxed);
        }
    }

    /// The shortest round trip to a server on this machine in this process. It does not depend on the load.
    pub(crate) fn seen(&self) -> Option<Duration> {
        match self.seen.load(Ordering::Relaxed) {
            0 => None,
            time => Some(Duration::from_micros(time)),
        }
    }

    /// Memory of this many bytes that is shared with the server.
    pub(crate) fn piece(&self, len: usize) -> Option<Piece> {
        match &self.way {
            Way::Unix(socket) if self.options.arena > 0 => {
                self.shared.piece(socket, self.options.arena, self.options.deadline, len)
            }
            _ => None,
        }
    }

    /// The current token.
    pub(crate) fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the token again from its source. Returns whether it changed.
    pub(crate) fn renew_token(&self) -> bool {
        let now = self.options.token.token();
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *token, now.clone()) != now
    }
}

impl Lease {
    /// Returns the connection after the whole reply was read.
    pub(crate) fn done(self) {
        let Lease { sender, endpoint, .. } = self;
        if !sender.is_closed() && !endpoint.rests.load(Ordering::Acquire) {
            endpoint.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        }
    }
}
