//! A connection that the calling thread writes to and reads from itself.
//!
//! Between two processes of one machine, a request and its reply take less time than handing either to another thread.
//! A call that waits for one request therefore sends it here, if the server is on this machine and the connection is
//! not encrypted. Submitted and encrypted requests use the connections of the runtime.
//!
//! Invariants
//! - a line has one request in flight; it is dropped if a reply was not read to its end;
//! - a head has at most [`HEAD`] bytes; a body has a length or is chunked; everything else is refused;
//! - bytes of a body go from the socket to the caller's memory without an intermediate copy.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Method, StatusCode};

/// The longest head of a reply, in bytes.
const HEAD: usize = 16 << 10;
/// The most headers of a reply.
const HEADERS: usize = 64;
/// Bytes read together with a head: a short reply takes one read, and little of a long one is copied.
const FIRST: usize = 4 << 10;
/// The longest line with the length of a chunk, in bytes.
const SIZE: usize = 256;

/// The two kinds of sockets.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The part of a body that has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// This many bytes.
    Rest(u64),
    /// `left` bytes of a chunk, then further chunks. `is_first` is true if no chunk has been read.
    Chunks { left: u64, is_first: bool },
    /// The body has been read completely, or there is none.
    Ended,
}

/// A connection that the calling thread writes to and reads from.
#[derive(Debug)]
pub(crate) struct Line {
    stream: Stream,
    /// Received bytes; those at `from..to` have not been used.
    arrived: Vec<u8>,
    from: usize,
    to: usize,
    body: Body,
    /// Whether the server closes the connection after this reply.
    closes: bool,
    /// Whether it answered a request before. If so, the server may have closed it since.
    pub(crate) is_used: bool,
    /// The read timeout that is set on the socket.
    patience: Option<Duration>,
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Stream::Tcp(stream) => stream.read(out),
                Stream::Unix(stream) => stream.read(out),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    fn set_times(&self, read: Duration, write: Option<Duration>) -> io::Result<()> {
        let read = Some(read.max(Duration::from_millis(1)));
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(read)?,
            Stream::Unix(stream) => stream.set_read_timeout(read)?,
        }
        match (self, write) {
            (_, None) => Ok(()),
            (Stream::Tcp(stream), write) => stream.set_write_timeout(write),
            (Stream::Unix(stream), write) => stream.set_write_timeout(write),
        }
    }
}

impl Line {
    /// A line over a blocking connection. A write may take as long as `deadline`.
    pub(crate) fn new(stream: Stream, deadline: Duration) -> io::Result<Line> {
        let deadline = deadline.max(Duration::from_millis(1));
        stream.set_times(deadline, Some(deadline))?;
        Ok(Line {
            stream,
            arrived: vec![0; FIRST],
            from: 0,
            to: 0,
            body: Body::Ended,
            closes: false,
            is_used: false,
            patience: Some(deadline),
        })
    }

    /// Sends a request: its head, then its body.
    pub(crate) fn send(&mut self, mut head: Vec<u8>, body: &[u8]) -> io::Result<()> {
        // A second system call costs more than a short copy.
        if body.len() <= 16 << 10 {
            head.extend_from_slice(body);
            return self.stream.write_all(&head);
        }
        self.stream.write_all(&head)?;
        self.stream.write_all(body)
    }

    /// Sets the read timeout.
    pub(crate) fn wait_for(&mut self, patience: Duration) -> io::Result<()> {
        if self.patience != Some(patience) {
            self.stream.set_times(patience, None)?;
            self.patience = Some(patience);
        }
        Ok(())
    }

    /// The head of the reply to a request of this method.
    pub(crate) fn head(&mut self, method: &Method) -> io::Result<(StatusCode, HeaderMap)> {
        loop {
            if let Some((status, headers)) = self.parsed()? {
                if status.is_informational() {
                    continue;
                }
                self.body = body(method, status, &headers)?;
                let says = |word: &str| {
                    let value = headers.get(CONNECTION).and_then(|value| value.to_str().ok());
                    value.is_some_and(|value| {
                        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
                    })
                };
                self.closes |= says("close");
                return Ok((status, headers));
            }
            self.more(HEAD)?;
        }
    }

    /// The head, once all of it has arrived.
    fn parsed(&mut self) -> io::Result<Option<(StatusCode, HeaderMap)>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let bytes = self.arrived.get(self.from..self.to).unwrap_or_default();
        let len = match head.parse(bytes) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(odd("the head of the reply is not HTTP")),
        };
        if head.version != Some(1) {
            self.closes = true;
        }
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or_else(|| odd("the reply has no status"))?;
        let mut found = HeaderMap::with_capacity(head.headers.len());
        for header in head.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes());
            let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) else {
                return Err(odd("a header of the reply is malformed"));
            };
            found.append(name, value);
        }
        self.from += len;
        Ok(Some((status, found)))
    }

    /// Waits for more bytes, and reads at most `most`.
    fn more(&mut self, most: usize) -> io::Result<()> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
        if self.to == self.arrived.len() {
            if self.from > 0 {
                self.arrived.copy_within(self.from..self.to, 0);
                (self.from, self.to) = (0, self.to - self.from);
            } else if self.arrived.len() < most {
                self.arrived.resize((2 * self.arrived.len()).min(most), 0);
            } else {
                return Err(odd("the head or a line of the reply is too long"));
            }
        }
        let room = self.arrived.get_mut(self.to..).unwrap_or_default();
        match self.stream.read(room)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => {
                self.to += len;
                Ok(())
            }
        }
    }

    /// Bytes left in the body, if its length is known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.body {
            Body::Rest(left) => Some(left),
            Body::Ended => Some(0),
            Body::Chunks { .. } => None,
        }
    }

    /// Reads the next bytes of the body, as many as have arrived. Waits for the first one. Returns 0 if the body has
    /// ended or `out` is empty.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Body::Chunks { left: 0, is_first } = self.body {
            self.body = match self.chunk(is_first)? {
                0 => Body::Ended,
                left => Body::Chunks { left, is_first: false },
            };
        }
        let left = match self.body {
            Body::Rest(left) | Body::Chunks { left, .. } => left,
            Body::Ended => return Ok(0),
        };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = out.get_mut(..most).unwrap_or_default();
        if out.is_empty() {
            return Ok(0);
        }
        let len = self.take(out)?;
        self.body = match self.body {
            Body::Rest(left) if left == len as u64 => Body::Ended,
            Body::Rest(left) => Body::Rest(left - len as u64),
            Body::Chunks { left, is_first } => Body::Chunks { left: left - len as u64, is_first },
            Body::Ended => Body::Ended,
        };
        Ok(len)
    }

    fn take(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let arrived = self.arrived.get(self.from..self.to).unwrap_or_default();
        if !arrived.is_empty() {
            let len = arrived.len().min(out.len());
            let (now, _) = arrived.split_at(len);
            out.get_mut(..len).unwrap_or_default().copy_from_slice(now);
            self.from += len;
            return Ok(len);
        }
        match self.stream.read(out)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(len),
        }
    }

    /// The length of the next chunk; 0 at the end of the body, after its trailing headers were read and ignored.
    fn chunk(&mut self, is_first: bool) -> io::Result<u64> {
        if !is_first && !self.text()?.is_empty() {
            return Err(odd("a chunk of the reply is longer than it says"));
        }
        let text = self.text()?;
        let digits = text.split(';').next().unwrap_or_default().trim();
        let is_number = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit());
        let len = u64::from_str_radix(digits, 16).ok().filter(|_| is_number);
        let len = len.ok_or_else(|| odd("a chunk of the reply has no length"))?;
        if len > 0 {
            return Ok(len);
        }
        for _ in 0..=HEADERS {
            if self.text()?.is_empty() {
                return Ok(0);
            }
        }
        Err(odd("too many headers follow the last chunk of the reply"))
    }

    /// The text up to the next end of line.
    fn text(&mut self) -> io::Result<String> {
        loop {
            let arrived = self.arrived.get(self.from..self.to).unwrap_or_default();
            if let Some(len) = arrived.windows(2).position(|pair| pair == b"\r\n") {
                let (text, _) = arrived.split_at(len);
                let text = std::str::from_utf8(text).map_err(|_| odd("a line of the reply is not text"))?;
                let text = text.to_owned();
                self.from += len + 2;
                return Ok(text);
            }
            if arrived.len() > SIZE {
                return Err(odd("a line of the reply is too long"));
            }
            self.more(FIRST.max(self.arrived.len()))?;
        }
    }

    /// Whether it can take another request: the reply was read to its end, no bytes follow it, and the server
    /// keeps it open.
    pub(crate) fn is_free(&self) -> bool {
        self.body == Body::Ended && !self.closes && self.from == self.to
    }
}

/// The kind of body that a reply has.
fn body(method: &Method, status: StatusCode, headers: &HeaderMap) -> io::Result<Body> {
    if method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Body::Ended);
    }
    if let Some(coding) = headers.get(TRANSFER_ENCODING) {
        let is_chunked = coding.as_bytes().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || headers.contains_key(CONTENT_LENGTH) {
            return Err(odd("the transfer encoding of the reply is not supported"));
        }
        return Ok(Body::Chunks { left: 0, is_first: true });
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let text = lengths.next().and_then(|value| value.to_str().ok());
    let len = text.filter(|text| text.bytes().all(|c| c.is_ascii_digit())).and_then(|text| text.parse().ok());
    match (len, lengths.next()) {
        (Some(0), None) => Ok(Body::Ended),
        (Some(len), None) => Ok(Body::Rest(len)),
        _ => Err(odd("the reply has no valid Content-Length")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;

    /// Reads these bytes as a client does. They arrive in pieces of this length.
    fn read(bytes: &[u8], piece: usize, method: &Method) -> io::Result<(u16, Vec<u8>, bool)> {
        let (mut server, client) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let sender = std::thread::spawn(move || {
            bytes.chunks(piece).for_each(|piece| drop(server.write_all(piece)));
        });
        let mut line = Line::new(Stream::Unix(client), Duration::from_secs(5)).unwrap();
        let outcome = line.head(method).and_then(|(status, _)| {
            let (mut body, mut part) = (Vec::new(), [0; 7]);
            loop {
                match line.fill(&mut part)? {
                    0 => return Ok((status.as_u16(), body, line.is_free())),
                    len => body.extend_from_slice(&part[..len]),
                }
            }
        });
        drop(line);
        sender.join().unwrap();
        outcome
    }

    #[test]
    fn bodies_end_where_their_length_or_the_last_chunk_says() {
        let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
            3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: r\r\n\r\n";
        let cases: [(&[u8], &[u8]); 5] = [
            (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
            (b"HTTP/1.1 206 Partial\r\nContent-Length: 0\r\n\r\n", b""),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx", b"x"),
            (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
            (chunks, b"abc0123456789"),
        ];
        for (bytes, body) in cases {
            for piece in [1, 3, 1000] {
                let (_, found, is_free) = read(bytes, piece, &Method::GET).unwrap();
                assert_eq!((found.as_slice(), is_free), (body, true), "{piece}");
            }
        }
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(read(head, 9, &Method::HEAD).unwrap(), (200, Vec::new(), true));
    }

    #[test]
    fn a_line_is_used_again_only_where_the_next_reply_begins_behind_this_one() {
        let closed = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx";
        assert_eq!(read(closed, 100, &Method::GET).unwrap(), (200, b"x".to_vec(), false));
        let old = b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx";
        assert!(!read(old, 100, &Method::GET).unwrap().2);
        let more = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n";
        assert!(!read(more, 100, &Method::GET).unwrap().2, "an answer to nothing");
    }

    #[test]
    fn a_malformed_reply_is_an_error_and_never_shorter_data() {
        let long = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &vec![b'a'; HEAD]].concat();
        let cases: [&[u8]; 14] = [
            b"",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            b"HTTP/1.1 200 OK\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxy",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
            &long,
        ];
        for bytes in cases {
            assert!(read(bytes, 50, &Method::GET).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
