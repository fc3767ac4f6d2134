//! This crate writes and reads exactly the bodies in tests/vectors/wire. They are never rewritten: with
//! `DRYSTONE_NEW_VECTORS=1` the test writes vectors whose files do not exist.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::fmt::Write;
use std::path::Path;

use drystone_wire::{Answer, Ask, Builder, Frames, Header, Region, Status};

type Body = Vec<(Header, Vec<u8>)>;

fn bodies() -> Vec<(&'static str, Body)> {
    let ask = |ask: Ask| ask.header();
    let region = |step| Region { variable: "T".into(), step, axes: vec![(0, 8), (5, 1)] };
    let key = || "log/0123456789abcdef-0001.seg".to_owned();
    let answer =
        |ask, status, numbers, text: &str| Answer::To { ask, status, numbers, text: text.into() }.header();
    vec![
        ("v1_len", vec![(ask(Ask::Len { key: "a".into() }), vec![])]),
        (
            "v1_request",
            vec![
                (ask(Ask::Whole { key: key(), limit: 65_536 }), vec![]),
                (ask(Ask::Ranges { key: key(), ranges: vec![(0, 16), (1 << 40, 7)] }), vec![]),
                (ask(Ask::List { prefix: "log/".into() }), vec![]),
                (ask(Ask::Put { key: "manifest/hint".into(), absent: false, sync: true }), b"0123".to_vec()),
                (ask(Ask::Delete { key: key() }), vec![]),
                (ask(Ask::Sync { keys: vec![key(), "drystone.json".into()] }), vec![]),
                (ask(Ask::Sweep { prefix: String::new(), older: 3_600_000 }), vec![]),
            ],
        ),
        (
            "v1_regions",
            vec![
                (ask(Ask::Lock { region: region(Some(3)), once: 77, life: 10_000 }), vec![]),
                (ask(Ask::Renew { fence: 9 }), vec![]),
                (ask(Ask::Unlock { fence: 9 }), vec![]),
                (
                    ask(Ask::Release { region: region(None), once: 78, fence: 9, stable: true, kind: None }),
                    vec![1, 2, 3, 4],
                ),
                (ask(Ask::Wait { transfer: 1, stable: false }), vec![]),
                (ask(Ask::Commit), vec![]),
            ],
        ),
        ("v1_commit_region", vec![(ask(Ask::CommitRegion { region: region(Some(3)) }), vec![])]),
        (
            "v1_on",
            vec![(
                ask(Ask::On { from: "T".into(), to: "T_smooth".into(), rule: "function:name=smooth".into() }),
                vec![],
            )],
        ),
        (
            "v1_exec",
            vec![
                (ask(Ask::Exec { key: key(), method: "dry.version".into(), limit: 4096 }), vec![]),
                (
                    ask(Ask::Exec { key: key(), method: "dry.read.1".into(), limit: 1 << 20 }),
                    b"DRYP".to_vec(),
                ),
            ],
        ),
        (
            "v1_transfer",
            vec![
                (
                    ask(Ask::Transfer {
                        from: "T".into(),
                        to: "t/T32".into(),
                        rule: "cast:dtype=f4".into(),
                        step: Some(3),
                        once: 79,
                    }),
                    vec![],
                ),
                (
                    ask(Ask::Transfer {
                        from: "T".into(),
                        to: "U".into(),
                        rule: String::new(),
                        step: None,
                        once: 80,
                    }),
                    vec![],
                ),
            ],
        ),
        (
            "v1_release_shared",
            vec![(
                ask(Ask::ReleaseShared {
                    region: region(Some(3)),
                    once: 81,
                    fence: 9,
                    stable: false,
                    at: 1 << 20,
                    kind: None,
                }),
                vec![],
            )],
        ),
        (
            "v1_release_typed",
            vec![
                (
                    ask(Ask::Release {
                        region: region(None),
                        once: 82,
                        fence: 0,
                        stable: false,
                        kind: Some(7),
                    }),
                    vec![1, 2, 3, 4],
                ),
                (
                    ask(Ask::ReleaseShared {
                        region: region(Some(3)),
                        once: 83,
                        fence: 9,
                        stable: true,
                        at: 1 << 20,
                        kind: Some(u32::MAX),
                    }),
                    vec![],
                ),
            ],
        ),
        (
            "v1_reply",
            vec![
                (answer(0, Status::Ok, vec![], ""), b"whole".to_vec()),
                (answer(1, Status::ShortRead, vec![1000], "the object ends before"), vec![]),
                (answer(2, Status::Ok, vec![], ""), b"5 log/a\n0 log/b\n".to_vec()),
                (answer(3, Status::Denied, vec![], "kein Recht: \u{e4}"), vec![]),
            ],
        ),
    ]
}

fn encoded(body: &Body) -> Vec<u8> {
    let mut builder = Builder::new();
    body.iter().for_each(|(header, payload)| builder.frame(header, &[payload]));
    builder.end(Status::Ok, "")
}

fn value(body: &Body) -> String {
    let end = Answer::End { frames: body.len() as u64, status: Status::Ok, text: String::new() }.header();
    let frames = body.iter().cloned().chain([(end, Vec::new())]).map(|(header, payload)| {
        let numbers: Vec<String> = header.numbers.iter().map(|n| format!("\"{n}\"")).collect();
        let hex = payload.iter().fold(String::new(), |mut out, byte| {
            write!(out, "{byte:02x}").unwrap();
            out
        });
        format!(
            "  {{\"code\": {}, \"texts\": {:?}, \"numbers\": [{}], \"payload\": \"{hex}\"}}",
            header.code,
            header.texts,
            numbers.join(", ")
        )
    });
    format!("{{\"structure\": \"wire\", \"frames\": [\n{}\n]}}\n", frames.collect::<Vec<_>>().join(",\n"))
}

#[test]
fn the_vectors_are_what_is_written_and_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/wire");
    for (name, body) in bodies() {
        let path = folder.join(format!("{name}.bin"));
        if std::env::var_os("DRYSTONE_NEW_VECTORS").is_some() && !path.exists() {
            std::fs::write(&path, encoded(&body)).unwrap();
            std::fs::write(path.with_extension("json"), value(&body)).unwrap();
        }
        let stored = std::fs::read(&path).unwrap();
        assert!(stored == encoded(&body), "{name} is written as it always was");
        let found: Body = Frames::decode(&stored)
            .unwrap()
            .into_frames()
            .into_iter()
            .map(|(h, p)| (h, p.to_vec()))
            .collect();
        assert!(found == body, "{name} is read as it was written");
    }
}
