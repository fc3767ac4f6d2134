//! Opens connections: those that the runtime drives, and blocking ones.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use crate::address::Way;
use crate::line::Stream;

/// A connection that accepts requests.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);

pub(crate) async fn connect(handle: &Handle, way: &Way, tls: Option<&TlsConnector>) -> io::Result<Sender> {
    let connecting = async {
        match way {
            Way::Unix(path) => driven(handle, UnixStream::connect(path).await?).await,
            Way::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let Some(tls) = tls else { return driven(handle, stream).await };
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "the host has no name that a certificate can have",
                    )
                })?;
                driven(handle, tls.connect(name, stream).await?).await
            }
        }
    };
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s")),
    }
}

/// A blocking connection to a server on this machine.
pub(crate) async fn connect_here(way: &Way) -> io::Result<Stream> {
    let connecting = async {
        match way {
            Way::Unix(path) => {
                let stream = UnixStream::connect(path).await?.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
            Way::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Tcp(stream))
            }
        }
    };
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within 10 s")),
    }
}

async fn driven<S>(handle: &Handle, stream: S) -> io::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(1 << 20);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The request in flight on the connection reports its error.
    handle.spawn(async move { drop(connection.await) });
    Ok(sender)
}
