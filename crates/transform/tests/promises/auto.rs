//! `auto` tries chains, chooses the best for its goal, reports its trials, and never stores more than raw.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use crate::random::Random;
use drystone_transform::stats::ScalarKind;
use drystone_transform::{Auto, Chain, Choice, Goal, Logical, Sample, Scratch, Transform, Trial};

fn auto(text: &str) -> Auto {
    match Transform::parse(text).unwrap() {
        Transform::Auto(auto) => auto,
        Transform::Chain(chain) => panic!("{chain:?}"),
    }
}

/// A clock that advances equally at every call, so every trial takes the same time.
fn even_clock() -> impl FnMut() -> Duration {
    let mut asked = 0;
    move || {
        asked += 1;
        Duration::from_millis(asked)
    }
}

fn smooth() -> Sample {
    let at = |i: usize| {
        ((i / 1024) as f32 * 0.05).sin() + ((i / 32 % 32) as f32 * 0.07).cos() + (i % 32) as f32 * 1e-3
    };
    let data = (0..32 * 32 * 32).flat_map(|i| at(i).to_le_bytes()).collect();
    let logical = Logical { shape: vec![32, 32, 32], ..Logical::numbers(ScalarKind::F32, 0) };
    Sample { data, logical }
}

fn noise() -> Sample {
    let mut random = Random(71);
    let data = (0..16_384).flat_map(|_| random.next().to_le_bytes()).collect();
    Sample { data, logical: Logical::numbers(ScalarKind::F64, 16_384) }
}

/// Numbers between 1 and 2: one and a half of their eight bytes are constant.
fn mostly_different() -> Sample {
    let mut random = Random(72);
    let mut number = || 1.0 + (random.next() >> 12) as f64 / (1u64 << 52) as f64;
    let data = (0..16_384).flat_map(|_| number().to_le_bytes()).collect();
    Sample { data, logical: Logical::numbers(ScalarKind::F64, 16_384) }
}

fn choose(text: &str, sample: Sample) -> Choice {
    auto(text).choose(&[sample], None, &mut even_clock(), &mut Scratch::new()).unwrap()
}

#[test]
fn the_smallest_of_all_that_was_tried_wins_where_size_is_the_goal() {
    let choice = choose("auto:size", smooth());
    let least = choice.trials().iter().map(|trial| trial.bytes).min().unwrap();
    let won = choice.trials().iter().find(|t| t.chain.canonical() == choice.chain().canonical()).unwrap();
    assert_eq!(won.bytes, least);
    assert!(choice.expected_share() < 0.7, "{choice}");
    assert!(choice.trials().len() > 10);
}

#[test]
fn noise_is_stored_as_it_is() {
    for text in ["auto", "auto:size", "auto:speed", "auto:read"] {
        assert!(choose(text, noise()).chain().is_identity(), "{text}");
    }
}

#[test]
fn a_slow_store_is_worth_more_work_and_memory_is_worth_none() {
    // By this clock encoding takes a millisecond per trial; storing 128 KiB takes 0.7 ms at the default bandwidth.
    let clock = |asked: &mut u64| {
        *asked += 1;
        Duration::from_millis(*asked)
    };
    let pick = |text: &str, clock: &mut dyn FnMut() -> Duration| {
        auto(text).choose(&[smooth()], None, clock, &mut Scratch::new()).unwrap().chain().canonical()
    };
    // The first trial is identity. A clock that stands still during it makes it free.
    let (mut slow_asked, mut fast_asked) = (0, 0);
    let slow = pick("auto:bandwidth=1", &mut || clock(&mut slow_asked));
    let mut first_free = || {
        fast_asked += 1;
        Duration::from_millis(if fast_asked <= 2 { 0 } else { fast_asked })
    };
    let fast = pick("auto:bandwidth=100000", &mut first_free);
    assert_ne!(slow, "identity");
    assert_eq!(fast, "identity");
}

#[test]
fn a_chain_that_lost_the_first_sample_by_far_is_not_tried_again() {
    let text = |place: usize| {
        let samples = [noise(), smooth(), noise()];
        let middle = [samples[place].clone(), samples[1].clone(), samples[2 - place].clone()];
        auto("auto:size").choose(&middle, None, &mut even_clock(), &mut Scratch::new()).unwrap()
    };
    let choice = text(0);
    let most = choice.trials().iter().map(|trial| trial.sampled).max().unwrap();
    let (once, thrice): (Vec<_>, Vec<_>) = choice.trials().iter().partition(|trial| trial.sampled < most);
    let won = choice.trials().iter().find(|t| t.chain.canonical() == choice.chain().canonical()).unwrap();
    assert!(once.len() > 3 && !thrice.is_empty() && won.sampled == most, "{choice}");
    assert!(once.iter().any(|trial| trial.chain.is_identity()), "{choice}");
}

#[test]
fn with_slow_storage_only_the_few_cheapest_chains_see_all_samples() {
    let samples = [mostly_different(), mostly_different(), mostly_different()];
    let choice =
        auto("auto:bandwidth=1").choose(&samples, None, &mut even_clock(), &mut Scratch::new()).unwrap();
    let most = choice.trials().iter().map(|trial| trial.sampled).max().unwrap();
    let everywhere = choice.trials().iter().filter(|trial| trial.sampled == most);
    assert_eq!((everywhere.count(), most), (6, 3 * samples[0].data.len()), "{choice}");
    let mut sizes: Vec<f64> =
        choice.trials().iter().map(|trial| trial.bytes as f64 / trial.sampled as f64).collect();
    sizes.sort_by(f64::total_cmp);
    assert_eq!(choice.expected_share(), sizes[0], "{choice}");
}

#[test]
fn a_reader_s_time_counts_only_fetching_and_decoding() {
    // By this clock every step takes a random time, up to that of fetching everything.
    let (mut random, mut now) = (Random(5), Duration::ZERO);
    let mut clock = || {
        now += Duration::from_micros(random.next() % 131_072);
        now
    };
    let choice =
        auto("auto:read,bandwidth=1").choose(&[smooth()], None, &mut clock, &mut Scratch::new()).unwrap();
    let cost = |trial: &&Trial| Duration::from_micros(trial.bytes as u64) + trial.decode;
    let least = choice.trials().iter().min_by_key(cost).unwrap();
    assert_eq!(choice.chain().canonical(), least.chain.canonical(), "{choice}");
    let encoded = |trial: &&Trial| cost(trial) + trial.encode;
    let other = choice.trials().iter().min_by_key(encoded).unwrap();
    assert_ne!(other.chain.canonical(), least.chain.canonical(), "a clock that tells nothing");
}

#[test]
fn every_candidate_gives_every_bit_back() {
    let mut scratch = Scratch::new();
    for kind in [
        ScalarKind::F32,
        ScalarKind::F64,
        ScalarKind::I16,
        ScalarKind::U8,
        ScalarKind::Bool,
        ScalarKind::Other,
    ] {
        for goal in [Goal::Store, Goal::Size] {
            let logical = Logical { shape: vec![10, 20, 15], ..Logical::numbers(kind, 0) };
            let data: Vec<u8> = (0..3000 * kind.size()).map(|i| (i * i / 77) as u8).collect();
            for chain in (Auto { goal, bandwidth: None }).candidates(&logical) {
                assert!(!chain.is_lossy());
                let (mut stored, mut back) = (Vec::new(), vec![0; data.len()]);
                chain.encode(&data, &logical, &mut stored, &mut scratch).unwrap();
                chain.decode(&stored, &logical, &mut back, &mut scratch).unwrap();
                assert!(back == data, "{kind:?} {}", chain.canonical());
            }
        }
    }
}

#[test]
fn samples_lie_inside_the_block_and_are_a_small_part_of_it() {
    let mut random = Random(72);
    for _ in 0..2000 {
        let ndim = random.below(5);
        let shape: Vec<u64> = (0..ndim).map(|_| 1 + random.below(200) as u64).collect();
        let total: u64 = shape.iter().product();
        let boxes = Auto::boxes(&shape, 16_384);
        let mut sampled = 0;
        for (first, extent) in &boxes {
            assert!(
                first.iter().zip(extent).zip(&shape).all(|((f, e), n)| *e > 0 && f + e <= *n),
                "{shape:?}"
            );
            let along = extent.last().zip(shape.last());
            let whole_groups = |(e, n): (&u64, &u64)| *e < 8 || e == n || e.is_multiple_of(8);
            assert!(along.is_none_or(whole_groups), "{extent:?} of {shape:?}");
            sampled += extent.iter().product::<u64>();
        }
        assert!(sampled > 0 && (sampled <= 4 * 3 * 4096 || sampled <= total / 2), "{sampled} of {shape:?}");
    }
    assert!(Auto::boxes(&[3, 0, 5], 100).is_empty());
}

#[test]
fn the_report_names_what_was_tried_and_marks_what_won() {
    let choice = choose("auto:size", smooth());
    let report = choice.to_string();
    assert!(report.starts_with("auto:\"size\": fewest bytes"), "{report}");
    let won = report.lines().find(|line| line.starts_with('*')).unwrap();
    assert!(won.contains(&choice.chain().canonical()), "{report}");
    assert_eq!(report.lines().count(), 2 + choice.trials().len());
}

#[test]
fn auto_is_text_like_any_transform_and_stands_alone() {
    for (given, recorded) in [
        ("auto", "auto"),
        ("AUTO:size", "auto:\"size\""),
        ("auto:store", "auto"),
        ("auto:bandwidth=200", "auto:bandwidth=200"),
        ("auto:speed", "auto:\"speed\""),
        ("auto:read,bandwidth=500", "auto:\"read\",bandwidth=500"),
        ("shuffle,zstd:1", "shuffle,zstd:1"),
        ("", "identity"),
    ] {
        let transform = Transform::parse(given).unwrap();
        assert_eq!(transform.canonical(), recorded);
        assert_eq!(Transform::parse(recorded).unwrap().canonical(), recorded);
    }
    for (text, part) in [
        ("auto,zstd", "stands alone"),
        ("auto:small", "allowed are store, size, speed"),
        ("auto:bandwidth=0", "allowed are 1 to"),
    ] {
        let message = Transform::parse(text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
    assert!(Chain::parse("auto").is_err());
}
