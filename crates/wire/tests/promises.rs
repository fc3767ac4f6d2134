//! Guarantees for clients and servers: every value is decoded as encoded, and changed or truncated bytes are refused.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use drystone_wire::{
    Answer, Ask, Builder, Frames, Greeting, Header, Level, MessageHead, Region, Status, decode_listing,
    encode_listing, fuzzing,
};

fn region(step: Option<u64>) -> Region {
    Region { variable: "fields/T".into(), step, axes: vec![(0, 8), (1 << 40, 1)] }
}

fn asks() -> Vec<Ask> {
    let key = || "log/a-1.seg".to_owned();
    vec![
        Ask::Len { key: key() },
        Ask::Whole { key: key(), limit: 65_536 },
        Ask::Ranges { key: key(), ranges: vec![(0, 4), (1 << 40, 0)] },
        Ask::List { prefix: "log/".into() },
        Ask::Put { key: key(), absent: true, sync: false },
        Ask::Delete { key: key() },
        Ask::Sync { keys: vec![key(), "index/1.dsx".into()] },
        Ask::Sweep { prefix: String::new(), older: 3_600_000 },
        Ask::Exec { key: key(), method: "dry.read.1".into(), limit: 65_536 },
        Ask::Lock { region: region(Some(0)), once: 77, life: 10_000 },
        Ask::Renew { fence: 5 },
        Ask::Unlock { fence: 5 },
        Ask::Release { region: region(None), once: 78, fence: 5, stable: true, kind: None },
        Ask::Release { region: region(None), once: 78, fence: 5, stable: true, kind: Some(7) },
        Ask::ReleaseShared {
            region: region(Some(1)),
            once: 80,
            fence: 0,
            stable: false,
            at: 1 << 20,
            kind: None,
        },
        Ask::ReleaseShared {
            region: region(Some(1)),
            once: 80,
            fence: 0,
            stable: false,
            at: 9,
            kind: Some(!0),
        },
        Ask::Wait { transfer: 1, stable: false },
        Ask::Commit,
        Ask::CommitRegion { region: region(Some(2)) },
        Ask::On { from: "T".into(), to: "T_smooth".into(), rule: "function:name=smooth".into() },
        Ask::Transfer {
            from: "T".into(),
            to: "t/T32".into(),
            rule: "cast:dtype=f4".into(),
            step: Some(3),
            once: 79,
        },
    ]
}

fn request() -> Vec<u8> {
    let mut body = Builder::new();
    for (n, ask) in asks().iter().enumerate() {
        body.frame(&ask.header(), &[&vec![n as u8; n * 7], b"tail"]);
    }
    body.end(Status::Ok, "")
}

#[test]
fn requests_are_decoded_as_encoded() {
    let bytes = request();
    let frames = Frames::decode(&bytes).unwrap();
    assert_eq!(frames.status(), (Status::Ok, ""));
    let found = frames.into_frames();
    assert!(found[3].1 == [[3; 21].as_slice(), b"tail"].concat());
    let found: Vec<Ask> = found.into_iter().map(|(header, _)| Ask::of_header(header).unwrap()).collect();
    assert_eq!(found, asks());
    for status in Status::ALL {
        assert_eq!(
            (Status::of_code(status.code()), Status::named(status.name())),
            (Some(status), Some(status))
        );
        let answer = Answer::To { ask: 7, status, numbers: vec![1, u64::MAX], text: "why".into() };
        assert_eq!(Answer::of_header(answer.header()), Ok(answer));
    }
    for level in Level::ALL {
        assert_eq!((Level::of_code(level.code()), Level::parse(level.name())), (Some(level), Some(level)));
    }
    assert!(Level::Received < Level::Node && Level::Home < Level::Stable);
}

#[test]
fn a_cut_body_is_an_error_and_never_short_data() {
    let bytes = request();
    for len in 0..bytes.len() {
        assert!(Frames::decode(&bytes[..len]).is_err(), "the first {len} bytes");
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = request();
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Frames::decode(&bad).is_err(), "bit {bit}");
    }
}

#[test]
fn lengths_and_counts_that_bytes_have_not_earned_cost_nothing() {
    let mut header = Header::default().encode();
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(Header::decode(&header).is_err());
    let mut body = request();
    body[16..24].copy_from_slice(&(1_u64 << 39).to_le_bytes());
    assert!(Frames::decode(&body).is_err());
}

#[test]
fn asks_with_other_texts_or_numbers_are_refused() {
    for ask in asks() {
        let header = ask.header();
        let more = Header { numbers: [header.numbers.clone(), vec![9]].concat(), ..header.clone() };
        assert!(Ask::of_header(more).is_err(), "{ask:?} with another number");
        let unknown = Header { code: 9999, ..header };
        assert!(Ask::of_header(unknown).is_err());
    }
}

#[test]
fn listings_come_back_and_odd_lines_are_refused() {
    let lines = encode_listing([("a/b", 0), ("c", u64::MAX)].into_iter());
    assert_eq!(lines, b"0 a/b\n18446744073709551615 c\n");
    assert_eq!(decode_listing(&lines).unwrap().len(), 2);
    for bad in ["1 a", "01 a\n", "a b\n", "1  \n\n", "+1 a\n", "18446744073709551616 a\n", " a\n"] {
        assert!(bad == "1  \n\n" || decode_listing(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn greetings_and_heads_of_messages_come_back_and_others_are_refused() {
    let greeting = Greeting { len: 1 << 30 };
    let bytes = greeting.encode();
    assert_eq!(bytes, *b"DRYA\x01\0\0\0\0\0\0\x40\0\0\0\0");
    assert_eq!(Greeting::decode(&bytes), Ok(greeting));
    for bit in 0..64 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Greeting::decode(&bad).is_err(), "bit {bit}");
    }
    for len in [0, 1 << 47, u64::MAX] {
        assert!(Greeting::decode(&Greeting { len }.encode()).is_err(), "{len}");
    }
    let head = MessageHead { name_len: 14, body_len: 4 << 20 };
    assert_eq!(MessageHead::decode(&head.encode()), Ok(head));
    for (name_len, body_len) in [(1025, 0), (0, (4 << 20) + 1), (u32::MAX, u32::MAX)] {
        assert!(MessageHead::decode(&MessageHead { name_len, body_len }.encode()).is_err());
    }
}

/// The bodies of the fuzz targets, on mutated valid bytes.
#[test]
fn hostile_bytes_do_no_harm() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sound = request();
    let headers: Vec<Vec<u8>> = asks().iter().map(|ask| ask.header().encode()).collect();
    let listing = encode_listing([("a/b", 5), ("c", 77)].into_iter());
    let upload = b"00112233445566778899aabbccddeeff\n1024\n".to_vec();
    for round in 0..25_000 {
        let mut bytes = match round % 5 {
            0 => sound.clone(),
            1 => headers[random() as usize % headers.len()].clone(),
            2 => Greeting { len: 1 << 20 }.encode().to_vec(),
            3 => upload.clone(),
            _ => listing.clone(),
        };
        for _ in 0..1 + random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(bytes.len().saturating_sub(random() as usize % 3));
        match round % 5 {
            0 => fuzzing::body(&bytes),
            1 => fuzzing::header(&bytes),
            2 => fuzzing::arena(&bytes),
            3 => fuzzing::upload(&bytes),
            _ => fuzzing::listing(&bytes),
        }
    }
}
