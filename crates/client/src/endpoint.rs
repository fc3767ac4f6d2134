//! A server as this process knows it: connections, the right to use them, and what was learnt.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use drystone_arena::Piece;
use drystone_runtime::{Order, PerProcess};
use drystone_store::process_id;
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

/// A server, with the options under which it is asked.
pub(crate) struct Endpoint {
    pub(crate) handle: &'static Handle,
    pub(crate) options: Resolved,
    /// The value of the header `Host`.
    pub(crate) host: String,
    way: Way,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<Sender>>,
    /// Connections of threads that do their own requests, while none does.
    lines: Mutex<Vec<Line>>,
    /// The least microseconds from a request of such a thread to its reply; 0: there was none.
    seen: AtomicU64,
    turns: Arc<Semaphore>,
    /// It has answered this process before.
    pub(crate) has_answered: AtomicBool,
    /// Changes of one key are done in the order of their submission.
    pub(crate) order: Order,
    /// Small asks that wait for a request.
    pub(crate) together: Together,
    /// Memory shared with the server.
    pub(crate) shared: Shared,
    /// The last container of this process on the server was closed: no connection is kept.
    rests: AtomicBool,
    token: Mutex<Option<String>>,
}

/// A connection for one request at a time.
pub(crate) struct Lease {
    pub(crate) sender: Sender,
    endpoint: Arc<Endpoint>,
    _turn: OwnedSemaphorePermit,
    /// It was used before, so the server may have closed it by now.
    pub(crate) is_used: bool,
}

/// A container on a server of this machine is open in this process. When the last one is closed, the connections to the
/// server's Unix socket are closed, too. So a server of the node sees from its connections who has a container open.
#[derive(Debug)]
pub struct Presence {
    way: Way,
    process: u32,
}

impl Presence {
    /// That of the container at this address, until it is dropped. `None`: the address is no Unix socket of a server.
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
        // Connections of a parent are not a child's to close.
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

/// The servers of a process.
#[derive(Default)]
struct Known {
    endpoints: HashMap<(Way, Resolved), Arc<Endpoint>>,
    /// Containers that are open.
    open: HashMap<Way, usize>,
}

impl Known {
    fn at(&self, way: &Way) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().filter(move |((known, _), _)| known == way).map(|(_, endpoint)| endpoint)
    }
}

/// Those of the calling process.
fn known() -> MutexGuard<'static, Known> {
    static KNOWN: PerProcess<Mutex<Known>> = PerProcess::new();

    let Ok(known) = KNOWN.get(|| Ok::<_, Infallible>(Mutex::default()));
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoint {
    /// The endpoint of the calling process; made at the first call.
    pub(crate) fn of(address: &Address, options: &Resolved) -> Result<Arc<Endpoint>, InvalidAddress> {
        let mut known = known();
        let way = &address.way;
        let key = (way.clone(), options.clone());
        if let Some(endpoint) = known.endpoints.get(&key) {
            // It is used again, so its connections are kept again.
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
            token: Mutex::new(options.token.word()),
            options: options.clone(),
        });
        known.endpoints.insert(key, Arc::clone(&endpoint));
        Ok(endpoint)
    }

    /// Closes connections that are kept for further requests, and keeps none. Memory that was handed out stays.
    fn disconnect(&self) {
        self.rests.store(true, Ordering::Release);
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        drop((idle, lines));
        self.shared.close();
    }

    /// A connection, an idle one where there is one and `fresh` does not forbid it.
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

    /// Whether a thread may do its requests by itself: the server is on this machine, and nothing is encrypted.
    pub(crate) fn is_here(&self) -> bool {
        !matches!(self.way, Way::Tcp { encrypted: true, .. })
    }

    /// A connection for a thread that does its request by itself, and its turn. An idle one where there is one and `fresh` does not
    /// forbid it.
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

    /// A request of a thread that did it by itself was answered after so long.
    pub(crate) fn answered_in(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.seen.load(Ordering::Relaxed);
        if before == 0 || time < before {
            self.seen.store(time, Ordering::Relaxed);
        }
    }

    /// The least time from a request to its reply that this process has seen of a server on this machine: load makes no link slow.
    pub(crate) fn seen(&self) -> Option<Duration> {
        match self.seen.load(Ordering::Relaxed) {
            0 => None,
            time => Some(Duration::from_micros(time)),
        }
    }

    /// Memory of this many bytes that the server has, too.
    pub(crate) fn piece(&self, len: usize) -> Option<Piece> {
        match &self.way {
            Way::Unix(socket) if self.options.arena > 0 => {
                self.shared.piece(socket, self.options.arena, self.options.deadline, len)
            }
            _ => None,
        }
    }

    /// The token of requests.
    pub(crate) fn token(&self) -> Option<String> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the token again where it came from; whether it is another one.
    pub(crate) fn renew_token(&self) -> bool {
        let now = self.options.token.word();
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *token, now.clone()) != now
    }
}

impl Lease {
    /// Gives the connection back, after the whole reply was read.
    pub(crate) fn done(self) {
        let Lease { sender, endpoint, .. } = self;
        if !sender.is_closed() && !endpoint.rests.load(Ordering::Acquire) {
            endpoint.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        }
    }
}
