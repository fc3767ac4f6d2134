//! The logs of a thousand short programs must not make a far container slow to open.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use drystone::{Container, CreateOptions, Durability, Mode, WriterOptions};
use drystone_store::{DelayStore, LoggedRequest, MemoryStore, NoAppendStore, Store};

use crate::common::*;

const PROGRAMS: u64 = 200;

/// Each program, or each turn of one writer, puts one row.
fn written(programs: bool) -> MemoryStore {
    let objects = MemoryStore::new();
    let store: Arc<dyn Store> = Arc::new(NoAppendStore::new(objects.clone()));
    let options = CreateOptions { durability: Durability::Async, ..CreateOptions::default() };
    let c = Container::create(store.clone(), options).unwrap();
    c.apply(vec![create("t", f4(), &[PROGRAMS, 4], |_| {})]).unwrap();
    let put = |c: &Container, rows: std::ops::Range<u64>| {
        let w = c.writer(WriterOptions::default()).unwrap();
        for row in rows {
            let values = ramp_f32(4 * (row as usize + 1)).split_off(16 * row as usize);
            w.put("t", &f4(), &dense(&values, &[1, 4], 4), Some(&[row, 0]), None).unwrap();
        }
        w.close().unwrap();
    };
    match programs {
        true => (0..PROGRAMS).for_each(|row| {
            let c = Container::open(store.clone(), Mode::ReadWrite).unwrap();
            put(&c, row..row + 1);
            c.finish().unwrap();
        }),
        false => put(&c, 0..PROGRAMS),
    }
    c.finish().unwrap();
    objects
}

fn asked(objects: &MemoryStore, act: impl FnOnce(&Container)) -> Vec<LoggedRequest> {
    let far = DelayStore::new(NoAppendStore::new(objects.clone()), Duration::from_millis(1), 1e9);
    let c = Container::open(Arc::new(far.clone()), Mode::Read).unwrap();
    act(&c);
    far.take_log()
}

#[test]
fn a_cold_open_after_many_short_programs_takes_at_most_twice_the_requests_of_one_writer() {
    let (many, one) = (written(true), written(false));
    let opened = |objects: &MemoryStore| asked(objects, |_| {});
    let rounds = |log: &[LoggedRequest]| log.iter().map(|asked| asked.round).max().unwrap_or(0);
    let (many_opened, one_opened) = (opened(&many), opened(&one));
    let said: Vec<_> = many_opened.iter().map(|a| (a.round, a.kind, &a.key, a.bytes)).collect();
    assert!(
        many_opened.len() <= 2 * one_opened.len(),
        "{} for {}: {said:?}",
        many_opened.len(),
        one_opened.len()
    );
    assert!(rounds(&many_opened) <= 2 * rounds(&one_opened), "{said:?}");
    // A row lies in one log. Reading it takes the directory of packs, and the tables of a few packs.
    let row = |objects: &MemoryStore| {
        asked(objects, |c| assert!(read_box(c, "t", &[7, 0], &[1, 4]) == ramp_f32(32).split_off(112)))
    };
    let (many_read, one_read) = (row(&many), row(&one));
    let said: Vec<_> = many_read.iter().map(|a| (a.round, a.kind, &a.key, a.bytes)).collect();
    assert!(many_read.len() <= one_read.len() + 6, "{} for {}: {said:?}", many_read.len(), one_read.len());
    let all = asked(&many, |c| assert!(read_all(c, "t") == ramp_f32(4 * PROGRAMS as usize)));
    let missed = all.iter().filter(|a| a.key.ends_with(".seg")).count();
    assert!(missed <= 7 + 14, "{missed} requests for files that are packed");
}
