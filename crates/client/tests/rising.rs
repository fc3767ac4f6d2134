//! Uploads in pieces: an object appears whole or not at all, whatever messages are lost, and abandoned uploads
//! leave nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

mod rig;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use drystone_client::ServerStore;
use drystone_store::{PutMode, Reply, Store, StoreError, StoreExt};
use rig::Rig;

const PIECE: usize = 300 << 10;
const RIGHTS: [&str; 3] = ["storage.read:/", "storage.create:/", "storage.modify:/"];

fn piece(number: usize) -> Vec<u8> {
    let mut piece = vec![number as u8; PIECE];
    piece.chunks_mut(1000).enumerate().for_each(|(n, line)| line[0] = n as u8);
    piece
}

fn whole(count: usize) -> Vec<u8> {
    (0..count).flat_map(piece).collect()
}

/// An upload of this many pieces.
fn rise(store: &ServerStore, key: &str, count: usize) -> Result<(), StoreError> {
    let is_there = || store.list("").unwrap().iter().any(|entry| entry.key == key);
    let was_there = is_there();
    let mut upload = store.upload(key)?;
    for number in 0..count {
        match upload.add(piece(number)).wait()? {
            Reply::Append { data } => assert!(data.is_empty() || data.len() == PIECE),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(is_there(), was_there, "nothing is seen before the end");
    upload.finish().wait().map(drop)
}

fn staged(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with('~')).count()
}

/// A container whose folder `log` exists.
fn container(rig: &Rig, server: &str, options: &[(&str, &str)]) -> ServerStore {
    let store = rig.store(&format!("{server}/scratch/a.dry"), options);
    store.put("log/x", &[b"x"], PutMode::Replace, false).unwrap();
    store
}

#[test]
fn an_object_appears_whole_and_one_that_is_there_stays() {
    let rig = Rig::start("");
    let store = rig.store(&format!("{}/scratch/a.dry", rig.unix()), &[]);
    assert!(store.features().uploads);
    store.put("identity", &[b"i"], PutMode::IfAbsent, false).unwrap();
    rise(&store, "log/a.seg", 2).unwrap(); // the folder is not there yet: it is put as a whole
    rise(&store, "log/b.seg", 7).unwrap();
    assert_eq!(store.read_all("log/a.seg", u64::MAX).unwrap(), whole(2));
    assert_eq!(store.read_all("log/b.seg", u64::MAX).unwrap(), whole(7));
    store.sync(&["log/b.seg"]).unwrap();
    assert!(matches!(rise(&store, "log/b.seg", 3), Err(StoreError::AlreadyExists { .. })));
    assert_eq!(store.len("log/b.seg").unwrap(), 7 * PIECE as u64);
    store.upload("log/none").unwrap().finish().wait().unwrap();
    assert_eq!(store.len("log/none").unwrap(), 0);
    let folder = rig.path().join("scratch/a.dry/log");
    assert_eq!(staged(&folder), 0);
    let mut given_up = store.upload("log/c.seg").unwrap();
    given_up.add(piece(0)).wait().unwrap();
    assert_eq!(staged(&folder), 1);
    drop(given_up);
    let until = Instant::now() + Duration::from_secs(20);
    while staged(&folder) > 0 {
        assert!(Instant::now() < until, "what was given up is removed");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!store.exists("log/c.seg").unwrap());
}

#[test]
fn an_upload_goes_on_where_it_was_after_the_server_came_back() {
    let rig = Rig::start("");
    let store = container(&rig, &rig.unix(), &[]);
    let mut upload = store.upload("log/a.seg").unwrap();
    upload.add(piece(0)).wait().unwrap();
    let rig = Rig::start_in(rig.stop(), "");
    upload.add(piece(1)).wait().unwrap();
    let rig = Rig::start_in(rig.stop(), "");
    upload.finish().wait().unwrap();
    assert_eq!(store.read_all("log/a.seg", u64::MAX).unwrap(), whole(2));
    let mut upload = store.upload("log/b.seg").unwrap();
    upload.add(piece(0)).wait().unwrap();
    let folder = rig.path().join("scratch/a.dry/log");
    store.sweep("log/", Duration::ZERO).unwrap();
    assert!(matches!(upload.add(piece(1)).wait(), Err(StoreError::NotFound { .. })), "what was lost is said");
    assert!(upload.finish().wait().is_err());
    assert!(staged(&folder) == 0 && !store.exists("log/b.seg").unwrap());
}

/// Forwards connections to a server, and drops every third part of its replies, with the connection.
fn losing(port: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, lost) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&lost);
    std::thread::spawn(move || {
        let replies = Arc::new(AtomicUsize::new(0));
        while let Ok((client, _)) = listener.accept() {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let (mut from, mut to, replies, lost) =
                (server, client, Arc::clone(&replies), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(len @ 1..) = from.read(&mut bytes) {
                    if replies.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
                        lost.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    if to.write_all(&bytes[..len]).is_err() {
                        break;
                    }
                }
                let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
            });
        }
    });
    (own, lost)
}

#[test]
fn a_piece_whose_reply_was_lost_is_there_once() {
    let rig = Rig::start("");
    let token = rig.token(&RIGHTS);
    let (port, lost) = losing(rig.port());
    let store = container(&rig, &format!("dry://127.0.0.1:{port}"), &[("token", &token)]);
    rise(&store, "log/a.seg", 6).unwrap();
    let direct = rig.store(&format!("{}/scratch/a.dry", rig.unix()), &[]);
    assert_eq!(direct.read_all("log/a.seg", u64::MAX).unwrap(), whole(6));
    assert!(lost.load(Ordering::Relaxed) > 2);
    assert_eq!(staged(&rig.path().join("scratch/a.dry/log")), 0);
}

#[test]
fn a_step_of_an_upload_needs_the_right_to_write_and_sound_headers() {
    let rig = Rig::start("");
    let token = rig.token(&RIGHTS);
    container(&rig, &rig.tcp(), &[("token", &token)]);
    let reader = rig.token(&["storage.read:/"]);
    let refused = rig.store(&format!("{}/scratch/a.dry", rig.tcp()), &[("token", &reader)]);
    assert!(matches!(rise(&refused, "log/a.seg", 1), Err(StoreError::PermissionDenied { .. })));
    let ask = |headers: &str, body: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", rig.port())).unwrap();
        let head = format!(
            "PATCH /v1/c/scratch/a.dry/o/log/a.seg HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.get(9..12).unwrap().to_owned()
    };
    let name = "drystone-upload: 00112233445566778899aabbccddeeff\r\n";
    for headers in [
        "".to_owned(),
        "drystone-upload: ../../../x\r\ndrystone-offset: 0\r\n".to_owned(),
        format!("{name}drystone-offset: 0\r\ndrystone-length: 0\r\n"),
        format!("{name}drystone-offset: -1\r\n"),
        format!("{name}drystone-offset: 18446744073709551615\r\n"),
    ] {
        assert_eq!(ask(&headers, "abc"), "400", "{headers}");
    }
    assert_eq!(ask(&format!("{name}drystone-offset: 3\r\n"), "abc"), "404");
    assert_eq!(ask(&format!("{name}drystone-offset: 0\r\n"), "abc"), "204");
    assert_eq!(ask(&format!("{name}drystone-offset: 0\r\n"), "xbc"), "409");
    assert_eq!(ask(&format!("{name}drystone-offset: 4\r\n"), "e"), "409");
    assert_eq!(ask(&format!("{name}drystone-length: 4\r\n"), ""), "409");
    assert_eq!(ask(name, ""), "204");
    assert_eq!(ask(&format!("{name}drystone-length: 3\r\n"), ""), "404");
    assert_eq!(staged(&rig.path().join("scratch/a.dry/log")), 0);
}
