//! Accepts connections and reads requests from them.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use crate::InvalidConfig;
use crate::answer::answer;
use crate::asked::Peer;
use crate::config::Listener;
use crate::processes::Entered;
use crate::state::State;

/// Time limit of a handshake, and of the head of a request.
const HELLO: Duration = Duration::from_secs(30);

/// A listening socket.
pub(crate) enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Bound {
    pub(crate) async fn bind(listener: &Listener) -> Result<Bound, InvalidConfig> {
        match listener {
            Listener::Tcp(address) => match TcpListener::bind(address).await {
                Ok(listener) => Ok(Bound::Tcp(listener)),
                Err(error) => Err(InvalidConfig(format!("cannot listen on {address}: {error}"))),
            },
            Listener::Unix(path) => {
                let cannot = |error: io::Error| {
                    InvalidConfig(format!("cannot listen on unix:{}: {error}", path.display()))
                };
                // A killed server leaves its socket behind. A running server accepts a connection.
                if path.exists() {
                    if UnixStream::connect(path).await.is_ok() {
                        return Err(cannot(io::Error::new(
                            io::ErrorKind::AddrInUse,
                            "another server listens there",
                        )));
                    }
                    if std::os::unix::fs::FileTypeExt::is_socket(
                        &path.metadata().map_err(cannot)?.file_type(),
                    ) {
                        std::fs::remove_file(path).map_err(cannot)?;
                    }
                }
                let listener = UnixListener::bind(path).map_err(cannot)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
                Ok(Bound::Unix(listener, path.clone()))
            }
        }
    }

    /// The address as a URL shows it.
    pub(crate) fn address(&self) -> String {
        match self {
            Bound::Tcp(listener) => listener.local_addr().map_or_else(|_| String::new(), |at| at.to_string()),
            Bound::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

/// Accepts connections until `stop` is set.
pub(crate) async fn accept(bound: Bound, state: Arc<State>, mut stop: watch::Receiver<bool>) {
    loop {
        let taken = tokio::select! {
            biased;
            _ = stop.wait_for(|stopped| *stopped) => break,
            taken = take(&bound) => taken,
        };
        let Ok(stream) = taken else {
            // The process may have run out of file descriptors for a while.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let open = state.metrics.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Counted(Arc::clone(&state));
        if open as usize >= state.config.limits.connections {
            state.metrics.refused_connections.fetch_add(1, Ordering::Relaxed);
            drop(connection);
            continue;
        }
        let stop = stop.clone();
        tokio::spawn(async move {
            let state = &connection.0;
            match stream {
                Stream::Tcp(stream) => tcp(state, stream, stop).await,
                Stream::Unix(stream) => {
                    let peer = peer(&stream);
                    serve(state, stream, peer, stop).await;
                }
            }
            drop(connection);
        });
    }
    if let Bound::Unix(_, path) = &bound {
        remove_socket(path);
    }
}

fn remove_socket(path: &Path) {
    let _ = std::fs::remove_file(path);
}

struct Counted(Arc<State>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

async fn take(bound: &Bound) -> io::Result<Stream> {
    match bound {
        Bound::Tcp(listener) => listener.accept().await.map(|(stream, _)| Stream::Tcp(stream)),
        Bound::Unix(listener, _) => listener.accept().await.map(|(stream, _)| Stream::Unix(stream)),
    }
}

/// The user and the process at the other end, as the kernel reports them.
fn peer(stream: &UnixStream) -> (Peer, Option<i32>) {
    let own = std::fs::metadata("/proc/self").map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    match (stream.peer_cred(), own) {
        (Ok(peer), Ok(own)) if peer.uid() == own => (Peer::SameUser(own), peer.pid()),
        _ => (Peer::Far, None),
    }
}

async fn tcp(state: &Arc<State>, stream: TcpStream, stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = state.acceptor() else {
        return serve(state, stream, (Peer::Far, None), stop).await;
    };
    // On the loopback interface a client may send plain HTTP. The first byte shows whether it begins a TLS handshake.
    let is_loopback = stream.local_addr().is_ok_and(|at| at.ip().is_loopback());
    if is_loopback {
        let mut first = [0; 1];
        match tokio::time::timeout(HELLO, stream.peek(&mut first)).await {
            Ok(Ok(1)) if first != [0x16] => return serve(state, stream, (Peer::Far, None), stop).await,
            Ok(Ok(1)) => {}
            _ => return,
        }
    }
    if let Ok(Ok(stream)) = tokio::time::timeout(HELLO, acceptor.accept(stream)).await {
        serve(state, stream, (Peer::Far, None), stop).await;
    }
}

/// Answers the requests of a connection until it ends. If `stop` is set, it ends after the request under way. An idle
/// connection is closed after a while, unless it is the only one of a process of this machine.
async fn serve<S>(
    state: &Arc<State>,
    stream: S,
    (peer, process): (Peer, Option<i32>),
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::new(AtomicU64::new(0));
    let (counted, of) = (Arc::clone(&asked), Arc::clone(state));
    let service = service_fn(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        answer(Arc::clone(&of), peer.clone(), request)
    });
    let mut entered = process.map(|process| state.processes.enter(process));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).max_buf_size(1 << 20);
    builder.header_read_timeout(entered.is_none().then_some(HELLO));
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut before = 0;
    // If the client drops the connection, its error is ignored.
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stopped| *stopped) => break,
            () = tokio::time::sleep(HELLO), if entered.is_some() => {}
        }
        let now = asked.load(Ordering::Relaxed);
        if std::mem::replace(&mut before, now) == now
            && entered.as_mut().is_some_and(Entered::leave_unless_last)
        {
            break;
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
