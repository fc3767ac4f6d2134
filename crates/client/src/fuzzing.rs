//! The body of a fuzz target, for fuzz/ and the test that runs it.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hyper::Method;

use crate::line::{Line, Stream};

/// The longest reply that is tried. It fits in a socket's buffer, so one thread can write and read it.
const LONGEST: usize = 64 << 10;

/// Any bytes from a server give a reply whose body is no longer than they are, or an error. The first byte
/// chooses how much is read at a time.
pub fn reply(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
    let Ok((mut server, client)) = UnixStream::pair() else { return };
    if server.write_all(bytes).and_then(|()| server.shutdown(Shutdown::Write)).is_err() {
        return;
    }
    let Ok(mut line) = Line::new(Stream::Unix(client), Duration::from_secs(5)) else { return };
    let method = if piece % 8 == 0 { Method::HEAD } else { Method::GET };
    if line.head(&method).is_err() {
        return;
    }
    let said = line.left();
    let (mut out, mut got) = (vec![0; usize::from(*piece) + 1], 0);
    while let Ok(len) = line.fill(&mut out) {
        if len == 0 {
            assert!(said.is_none_or(|said| said == got as u64), "a body ends where its length says");
            assert!(line.left() == Some(0), "0 bytes are its end");
            return;
        }
        got += len;
        assert!(got <= bytes.len(), "no byte is there that was not sent");
    }
    assert!(!line.is_free(), "after an error nothing is asked by it");
}
