//! The performance of a far store and its behaviour with a bad one: requests under way, rates, late replies, large
//! objects, remains of killed processes, messages.

use std::time::{Duration, Instant};

use drystone_s3_rig::{Action, Config, Rig, Rule, Script};
use drystone_store::{Pending, PutMode, Reply, Request, Store, StoreError, StoreExt};
use drystone_store_object::{FarStore, Options};

fn store_at(rig: &Rig, more: &[(&str, &str)]) -> FarStore {
    let mut pairs = vec![
        ("aws_endpoint".to_owned(), rig.endpoint()),
        ("aws_access_key_id".into(), "the-key-id".into()),
        ("aws_secret_access_key".into(), "the-secret".into()),
    ];
    pairs.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    FarStore::open("s3://bucket/run.dry", &Options::new(pairs)).expect("the address is valid")
}

/// Bytes that differ from their neighbours, so that every position can be recognised.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ ((i >> 8) as u8).wrapping_mul(17) ^ ((i >> 16) as u8))
        .collect()
}

/// The form of goal A-2: the latency is paid about twice, whatever the number of ranges.
#[test]
fn many_ranges_cost_the_latency_a_few_times_and_not_each() {
    let rtt = Duration::from_millis(30);
    let rig = Rig::start(Config { rtt, ..Config::default() }).unwrap();
    let store = store_at(&rig, &[]);
    let bytes = pattern(1 << 20);
    store.put("k", &[&bytes], PutMode::Replace, false).unwrap();
    let ranges: Vec<(u64, usize)> = (0..256).map(|n| (n * 4096, 4096)).collect();
    // The number of requests under way adapts while they are sent.
    for round in 0..4 {
        rig.reset_counts();
        let begun = Instant::now();
        let buffers = store.submit(Request::read_many("k", ranges.clone())).wait().unwrap().into_buffers();
        let took = begun.elapsed();
        assert!(buffers.concat() == bytes);
        let counts = rig.counts();
        assert!(counts.of("GET") <= 256 * 108 / 100, "{counts:?}");
        assert!(counts.peak >= 16, "{counts:?}");
        // One after the other they would take 7.7 s.
        assert!(round < 3 || took < Duration::from_millis(1500), "{took:?} {counts:?}");
    }
}

#[test]
fn one_object_is_read_by_several_requests_and_is_one_version() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[]);
    let bytes = pattern(20 << 20);
    rig.with_objects(|objects| objects.put("bucket", "run.dry/k", bytes.clone()));
    rig.reset_counts();
    let mut out = vec![0; bytes.len()];
    store.read("k", 0, &mut out).unwrap();
    assert!(out == bytes);
    assert_eq!(rig.counts().of("GET"), 3, "8, 8 and 4 MiB");
    // Each reply breaks off once at some point, and the rest is requested.
    rig.set_script(Script::new(1).rule(Rule::new(Action::Cut(Some(3_000_000))).of_kind("GET").times(3)));
    rig.reset_counts();
    out.fill(0);
    store.read("k", 0, &mut out).unwrap();
    assert!(out == bytes);
    assert!(rig.counts().bytes_out < 22 << 20, "what had arrived is not sent again: {:?}", rig.counts());
}

/// Two versions are never mixed if an object is replaced while it is read; see also the conformance suite.
#[test]
fn parts_of_two_versions_are_never_mixed() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[]);
    let put = |n: u8| rig.with_objects(|objects| objects.put("bucket", "run.dry/k", vec![n; 17 << 20]));
    put(0);
    let late = Action::DelayBefore(Duration::from_millis(300));
    rig.set_script(Script::new(1).rule(Rule::new(late).of_kind("GET").skipping(1).times(1)));
    let pending = store.submit(Request::read_many("k", vec![(0, 17 << 20)]));
    std::thread::sleep(Duration::from_millis(150));
    put(1);
    let bytes = pending.wait().unwrap().into_buffers().concat();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
}

#[test]
fn large_objects_go_up_in_parts_and_are_there_whole_or_not_at_all() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[("timeout", "3s")]);
    let bytes = pattern((20 << 20) + 5);
    store.put("k", &[&bytes[..7], &bytes[7..]], PutMode::IfAbsent, true).unwrap();
    assert!(store.read_all("k", 64 << 20).unwrap() == bytes);
    assert_eq!((rig.counts().of("PUT_PART"), rig.counts().of("COMPLETE_UPLOAD")), (3, 1));
    let again = store.put("k", &[&bytes], PutMode::IfAbsent, true);
    assert!(matches!(again, Err(StoreError::AlreadyExists { .. })), "{again:?}");

    // The reply to the last request is lost: the upload was completed, and the second attempt finds no upload.
    for action in [Action::Cut(None), Action::StatusAfterLanding(500)] {
        rig.set_script(Script::new(1).rule(Rule::new(action).of_kind("COMPLETE_UPLOAD").times(1)));
        for (key, mode) in [("lost/a", PutMode::IfAbsent), ("lost/b", PutMode::Replace)] {
            let key = format!("{key}/{:?}", rig.counts().total());
            let key = key.replace(|c: char| !c.is_ascii_alphanumeric() && c != '/', "-");
            store.put(&key, &[&bytes], mode, true).unwrap();
            assert_eq!(store.len(&key).unwrap(), bytes.len() as u64);
        }
    }

    // A part that cannot be sent: nothing is left, and no object is visible.
    rig.set_script(Script::new(1).rule(Rule::new(Action::Status(500)).of_kind("PUT_PART").skipping(1)));
    assert!(store.put("broken", &[&bytes], PutMode::Replace, true).is_err());
    assert!(!store.exists("broken").unwrap());
    assert_eq!(rig.with_objects(|objects| objects.open_uploads()), 0);
}

#[test]
fn uploads_of_the_killed_are_swept_and_those_under_way_are_not() {
    let rig = Rig::start(Config::default()).unwrap();
    let store = store_at(&rig, &[("timeout", "1s")]);
    let bytes = vec![1; 16 << 20];
    // The process dies: its parts stay, since no process aborts the upload.
    let no_abort = Rule::new(Action::Status(500)).of_kind("ABORT_UPLOAD");
    rig.set_script(Script::new(1).rule(Rule::new(Action::Status(400)).of_kind("PUT_PART")).rule(no_abort));
    assert!(store.put("log/1-0.seg", &[&bytes], PutMode::Replace, true).is_err());
    assert!(store.put("other", &[&bytes], PutMode::Replace, true).is_err());
    rig.set_script(Script::default());
    assert_eq!(rig.with_objects(|objects| objects.open_uploads()), 2);
    assert_eq!(store.sweep("log/", Duration::from_secs(3600)).unwrap(), 0, "it may be under way");
    rig.with_objects(|objects| objects.age_uploads(Duration::from_secs(7200)));
    assert_eq!(store.sweep("log/", Duration::from_secs(3600)).unwrap(), 1);
    assert_eq!(store.sweep("", Duration::ZERO).unwrap(), 1);
    assert_eq!(rig.with_objects(|objects| objects.open_uploads()), 0);
}

/// Goal A-6: the user sees no error, the limit is reached, and the server is not flooded.
#[test]
fn a_server_that_limits_the_rate_is_used_and_not_flooded() {
    const LIMIT: f64 = 200.0;
    let rig = Rig::start(Config { requests_per_second: Some(LIMIT), ..Config::default() }).unwrap();
    let store = store_at(&rig, &[("timeout", "60s")]);
    rig.with_objects(|objects| objects.put("bucket", "run.dry/k", pattern(4096)));
    let begun = Instant::now();
    let pending: Vec<Pending> =
        (0..1600).map(|n| store.submit(Request::read_many("k", vec![(n % 4000, 16)]))).collect();
    for pending in pending {
        pending.wait().unwrap();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sent = rig.counts().total() as f64;
    println!("{:.0} of {LIMIT} per second, {:.0} sent", 1600.0 / seconds, sent / seconds);
    assert!(1600.0 / seconds >= 0.85 * LIMIT, "{:.0} of {LIMIT} per second", 1600.0 / seconds);
    assert!(sent / seconds <= 2.0 * LIMIT, "{:.0} sent per second", sent / seconds);
}

/// Goal A-6: one reply in twenty is a second late. With repeated requests, the latest of a hundred reads takes at most
/// twice the time of most, for at most 8 % more requests. A read here has a megabyte, whose bytes take time too, and a
/// repeated request cannot be answered before a second round trip. `DRYSTONE_LONG=1` checks the full goal. Otherwise
/// the machine may be busy: of six late replies, three may count.
#[test]
fn replies_that_are_late_are_asked_for_again() {
    const LEN: usize = 1 << 20;
    let rtt = Duration::from_millis(20);
    let rig = Rig::start(Config { rtt, bytes_per_second: Some(60e6), ..Config::default() }).unwrap();
    let store = store_at(&rig, &[]);
    rig.with_objects(|objects| objects.put("bucket", "run.dry/k", pattern(LEN)));
    let mut out = vec![0; LEN];
    let mut read = || {
        let begun = Instant::now();
        store.read("k", 0, &mut out).unwrap();
        begun.elapsed()
    };
    for _ in 0..30 {
        read();
    }
    let is_long = std::env::var_os("DRYSTONE_LONG").is_some();
    let (count, times_half, latest) = if is_long { (400, 2, 396) } else { (120, 5, 116) };
    let late = Action::DelayBefore(Duration::from_secs(1));
    rig.set_script(Script::new(9).rule(Rule::new(late).of_kind("GET").share(0.05)));
    rig.reset_counts();
    let mut times: Vec<Duration> = (0..count).map(|_| read()).collect();
    times.sort_unstable();
    let (half, most) = (times[count / 2], times[latest]);
    let asked = rig.counts().of("GET");
    println!("p50 {half:?}, read {latest} {most:?}, {asked} requests for {count} reads");
    assert!(most <= times_half * half, "{half:?} {:?}", &times[count * 9 / 10..]);
    assert!(asked <= count as u64 * 108 / 100, "{:?}", rig.counts());
}

#[test]
fn a_missing_bucket_is_named_and_is_no_missing_object() {
    let rig = Rig::start(Config::default()).unwrap();
    let options = Options::new([
        ("aws_endpoint", rig.endpoint()),
        ("aws_access_key_id", "the-key-id".into()),
        ("aws_secret_access_key", "the-secret".into()),
    ]);
    let store = FarStore::open("s3://nowhere/run.dry", &options).unwrap();
    for outcome in [
        store.read_all("k", 9).map(drop),
        store.read("k", 0, &mut [0; 4]),
        store.put("k", &[b"x"], PutMode::IfAbsent, false),
        store.list("").map(drop),
    ] {
        let Err(error @ StoreError::Io { .. }) = outcome else { panic!("{outcome:?}") };
        let message = error.to_string();
        for part in ["S3 answered 404 NoSuchBucket", "\"nowhere\"", "request RIG", "1 attempt"] {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }
}

#[test]
fn secrets_are_in_no_text() {
    let rig = Rig::start(Config { access_key: Some("another".into()), ..Config::default() }).unwrap();
    let store = store_at(&rig, &[("aws_session_token", "the-token"), ("timeout", "1s")]);
    let mut texts = vec![store.describe(), format!("{store:?}"), store.device().unwrap_or_default()];
    let failed = store.put("k", &[b"x"], PutMode::IfAbsent, false).unwrap_err();
    texts.extend([failed.to_string(), format!("{failed:?}")]);
    let failed = store.sweep("", Duration::ZERO);
    texts.push(format!("{failed:?}"));
    for text in texts {
        for secret in ["the-key-id", "the-secret", "the-token", "Signature"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[test]
fn a_web_server_is_read_and_neither_listed_nor_written() {
    let rig = Rig::start(Config::default()).unwrap();
    rig.with_objects(|objects| objects.put("bucket", "any/path/run.dry/k", pattern(1000)));
    let url = format!("{}/bucket/any/path/run.dry", rig.endpoint());
    let store = FarStore::open(&url, &Options::default()).unwrap();
    assert_eq!(store.len("k").unwrap(), 1000);
    assert_eq!(store.read_vec("k", 10, 20).unwrap(), pattern(1000)[10..30]);
    assert!(matches!(store.read("k", 990, &mut [0; 20]), Err(StoreError::ShortRead { got: 10, .. })));
    assert!(matches!(store.len("absent"), Err(StoreError::NotFound { .. })));
    assert!(matches!(store.list(""), Err(StoreError::Unsupported { .. })));
    assert!(matches!(store.put("k", &[b"x"], PutMode::Replace, false), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(store.delete("k"), Err(StoreError::ReadOnly { .. })));
    assert_eq!(rig.counts().of("PUT") + rig.counts().of("DELETE") + rig.counts().of("LIST"), 0);
}

/// Like Python's own `http.server` and other simple servers.
#[test]
fn a_web_server_that_knows_no_ranges_is_read_too() {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut first = String::new();
                let _ = reader.read_line(&mut first);
                let mut line = String::from("x");
                while !line.trim().is_empty() {
                    line.clear();
                    let _ = reader.read_line(&mut line);
                }
                let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nLast-Modified: Wed, 01 Jul 2026 01:02:03 GMT\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(head.as_bytes());
                if first.starts_with("GET") {
                    let _ = stream.write_all(&pattern(1000));
                }
            });
        }
    });
    let store = FarStore::open(&format!("http://{address}/run.dry"), &Options::default()).unwrap();
    assert_eq!(store.read_vec("k", 10, 20).unwrap(), pattern(1000)[10..30]);
    let ranges = vec![(0, 5), (500, 400), (999, 1)];
    match store.submit(Request::read_many("k", ranges)).wait().unwrap() {
        Reply::Read { buffers } => assert_eq!(buffers[1], pattern(1000)[500..900]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(store.read("k", 990, &mut [0; 20]), Err(StoreError::ShortRead { got: 10, .. })));
}
