//! The part of the contract about concurrent callers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::pattern;
use crate::{PutMode, Store, StoreError, StoreExt};

pub(super) fn of_racing_creators_exactly_one_wins(store: &dyn Store) {
    const RACERS: u8 = 8;
    for round in 0..12 {
        let key = format!("race/{round}");
        let start = Barrier::new(usize::from(RACERS));
        let compete = |racer: u8| {
            start.wait();
            match store.put(&key, &[&pattern(3000, racer)], PutMode::IfAbsent, round == 0) {
                Ok(()) => Some(racer),
                Err(StoreError::AlreadyExists { .. }) => {
                    // The writer that lost can read the winner's object.
                    assert_eq!(store.len(&key).expect("the winner's object is there"), 3000);
                    None
                }
                Err(other) => panic!("a racing put may lose, but not fail: {other}"),
            }
        };
        let winners: Vec<u8> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..RACERS).map(|racer| scope.spawn(move || compete(racer))).collect();
            racers.into_iter().filter_map(|racer| racer.join().expect("no racer panics")).collect()
        });
        assert_eq!(winners.len(), 1, "exactly one of {RACERS} creators wins: {winners:?}");
        let found = store.read_all(&key, 10_000).expect("readable");
        assert!(found == pattern(3000, winners[0]), "the object is the winner's, whole");
    }
}

pub(super) fn a_replaced_object_is_never_seen_in_part(store: &dyn Store) {
    let version = |n: u8| vec![n; 200_000];
    store.put("k", &[&version(0)], PutMode::IfAbsent, false).expect("put");
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                let mut out = version(0);
                while !finished.load(Ordering::Acquire) {
                    store.read("k", 0, &mut out).expect("a replaced object is always there");
                    assert!(out.iter().all(|&byte| byte == out[0]), "one read sees one version");
                    assert!(out[0] >= last, "versions do not go back");
                    last = out[0];
                }
            });
        }
        for n in 1..40 {
            if let Err(error) = store.put("k", &[&version(n)], PutMode::Replace, false) {
                finished.store(true, Ordering::Release);
                panic!("an object can be replaced while it is read: {error}");
            }
        }
        finished.store(true, Ordering::Release);
    });
    assert_eq!(store.read_vec("k", 0, 1).expect("readable"), [39], "the last version stays");
}

pub(super) fn what_is_below_the_length_can_be_read_while_it_grows(store: &dyn Store) {
    if !store.features().append {
        return;
    }
    const PIECE: u64 = 1000;
    const PIECES: u64 = 200;
    let byte_at = |i: u64| (i % 251) as u8;
    let piece = |n: u64| (n * PIECE..(n + 1) * PIECE).map(byte_at).collect::<Vec<u8>>();
    store.append("k", 0, &[&piece(0)]).expect("append");
    let written = AtomicU64::new(PIECE);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut out = Vec::new();
                loop {
                    let promised = written.load(Ordering::Acquire);
                    let len = store.len("k").expect("length");
                    assert!(len >= promised, "the length is never less than what an append has returned for");
                    let from = promised - PIECE;
                    out.resize((len.min(promised + PIECE) - from) as usize, 0);
                    store.read("k", from, &mut out).expect("what is below the length can be read");
                    assert!(
                        out.iter().zip(from..).all(|(&byte, at)| byte == byte_at(at)),
                        "as it was appended"
                    );
                    if promised == PIECE * PIECES {
                        break;
                    }
                }
            });
        }
        for n in 1..PIECES {
            let outcome = store.append("k", n * PIECE, &[&piece(n)]);
            // The readers stop after the last piece, also when the append fails.
            written.store(if outcome.is_ok() { (n + 1) * PIECE } else { PIECE * PIECES }, Ordering::Release);
            outcome.expect("an object can grow while it is read");
        }
    });
}
