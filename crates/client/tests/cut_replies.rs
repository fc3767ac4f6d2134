//! Threads that send their own requests, against a faulty server: truncated or malformed replies, and
//! connections that are closed while idle.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drystone_client::{Options, Presence, ServerStore};
use drystone_store::{Store, StoreError};

/// How a scripted server treats its connections after a reply.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// They stay open.
    Open,
    /// The server closes them without announcing it.
    Closed,
}

/// A server that answers each request with the next of these replies, and then hangs. Returns the received heads of
/// requests.
fn scripted(answers: Vec<(String, After)>) -> (ServerStore, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            while let Some(head) = head(&mut stream) {
                seen.lock().unwrap().push(head);
                let Some((answer, after)) = answers.next() else { break };
                stream.write_all(answer.as_bytes()).unwrap();
                if after == After::Closed {
                    drop(stream.shutdown(Shutdown::Both));
                    break;
                }
            }
            kept.push(stream);
        }
    });
    let options = Options::new([("timeout", "1s"), ("token", "word")]);
    (ServerStore::open(&format!("dry://127.0.0.1:{port}/run42"), &options).unwrap(), heads)
}

/// The head of the next request, which has no body.
fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn range(first: u64, bytes: &str, there: u64, tag: &str) -> String {
    let last = first + bytes.len() as u64 - 1;
    format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\n\
         content-range: bytes {first}-{last}/{there}\r\netag: \"{tag}\"\r\n\r\n{bytes}",
        bytes.len()
    )
}

/// The same reply, truncated to this many bytes of the body.
fn cut(mut reply: String, missing: usize) -> String {
    reply.truncate(reply.len() - missing);
    reply
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_costs_no_call() {
    let whole = |bytes: &str| (range(0, bytes, 5, "a"), After::Closed);
    let (store, heads) = scripted(vec![whole("hello"), whole("world")]);
    let mut out = [0; 5];
    store.read("log/x", 0, &mut out).unwrap();
    assert_eq!(&out, b"hello");
    store.read("log/x", 0, &mut out).unwrap();
    assert_eq!(&out, b"world");
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 2, "nothing was asked twice");
    assert!(heads[0].starts_with("GET /v1/c/run42/o/log/x HTTP/1.1\r\nhost: "), "{}", heads[0]);
    assert!(
        heads[0].contains("\r\nauthorization: Bearer word\r\n")
            && heads[0].contains("\r\nrange: bytes=0-4\r\n")
    );
    let seen = store.features().far.unwrap().seen;
    assert!(seen.is_some_and(|seen| seen < Duration::from_secs(1)), "{seen:?}");
}

#[test]
fn the_rest_of_a_reply_that_was_cut_is_asked_for_and_is_of_the_same_version() {
    let (store, heads) = scripted(vec![
        (cut(range(3, "abcdefgh", 100, "v1"), 5), After::Closed),
        (range(6, "defgh", 100, "v1"), After::Open),
    ]);
    let mut out = [0; 8];
    store.read("log/x", 3, &mut out).unwrap();
    assert_eq!(&out, b"abcdefgh");
    let heads = heads.lock().unwrap();
    assert!(
        heads[1].contains("\r\nrange: bytes=6-10\r\n") && heads[1].contains("\r\nif-match: \"v1\"\r\n"),
        "{}",
        heads[1]
    );
}

#[test]
fn a_malformed_reply_is_an_error_by_the_deadline_and_never_data() {
    let begun = Instant::now();
    let answers = [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 206 Partial Content\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
    ];
    let (store, _) = scripted(answers.map(|answer| (answer.to_owned(), After::Closed)).into());
    let mut out = [7; 5];
    let refused = store.read("log/x", 0, &mut out);
    assert!(matches!(refused, Err(StoreError::Io { .. } | StoreError::Deadline { .. })), "{refused:?}");
    let (store, _) = scripted(Vec::new());
    assert!(store.len("log/x").is_err(), "a server that hangs");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A node's server sees from its connections whether a process has a container open. It ends when none has.
#[test]
fn the_last_container_that_is_closed_closes_the_connections_to_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let url = format!("drys+unix://{}:/run", socket.display());
    let server = std::thread::spawn(move || {
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut heads, mut byte) = (Vec::new(), [0]);
            while let Ok(1) = stream.read(&mut byte) {
                heads.push(byte[0]);
                if heads.ends_with(b"\r\n\r\n") {
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n").unwrap();
                }
            }
            ends.push(heads.windows(5).filter(|part| part == b"HEAD ").count());
        }
        ends
    });
    let store = ServerStore::open(&url, &Options::new([("timeout", "9s")])).unwrap();
    let (first, second) = (Presence::of(&url).unwrap(), Presence::of(&url).unwrap());
    assert_eq!(store.len("a").unwrap(), 7);
    drop(first);
    assert_eq!(store.len("a").unwrap(), 7);
    drop(second);
    // The server accepts one connection at a time, so the first has ended. The second one is not kept either.
    assert_eq!(store.len("a").unwrap(), 7);
    assert_eq!(server.join().unwrap(), [2, 1]);
    assert!(Presence::of("dry://localhost/run").is_none() && Presence::of("/run.dry").is_none());
}
