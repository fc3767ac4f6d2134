//! Programs and replies: one encoding, budgets, any bytes, and the same values as the codecs.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use drystone_expression::{Type, parse};
use drystone_program::{
    Answer, Budget, Condition, Frame, Hits, Mode, Payload, Program, Refusal, Reply, Source, SourceError, Why,
    fuzz, fuzz_reply, run, sample,
};
use drystone_transform::Precision;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

fn frames(reply: &[u8]) -> Vec<Frame<'_>> {
    Reply::new(reply).unwrap().map(|frame| frame.unwrap()).collect()
}

fn refusal<'a>(frame: &'a Frame<'_>) -> &'a Refusal {
    match &frame.payload {
        Payload::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn is_value(frame: &Frame<'_>) -> bool {
    !matches!(frame.payload, Payload::Refused(_))
}

/// The number of cases: `long` with `DRYSTONE_LONG=1`, else `short`.
fn many(short: u64, long: u64) -> u64 {
    if std::env::var_os("DRYSTONE_LONG").is_some() { long } else { short }
}

#[test]
fn every_item_of_a_sound_program_gives_its_values() {
    for seed in 1..60 {
        let (program, object) = sample(seed);
        let bytes = program.encode().unwrap();
        assert_eq!(Program::decode(&bytes).unwrap(), program, "seed {seed}");
        let reply = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        let frames = frames(&reply);
        assert_eq!(frames.len(), program.items.len());
        for ((n, frame), item) in frames.iter().enumerate().zip(&program.items) {
            assert_eq!((frame.item, frame.place), (Some(n as u32), 0));
            match (&frame.payload, item.condition) {
                (Payload::Values(values), None) => assert_eq!(values.len() as u64, program.result_len(item)),
                (Payload::Hits(_), Some(_)) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_part_that_is_exact_has_the_values_of_the_whole() {
    let mut compared = 0;
    for seed in 1..200 {
        let (mut program, object) = sample(seed);
        program.items.retain(|item| item.condition.is_none());
        let mut whole = program.clone();
        for (a, b) in program.items.iter_mut().zip(&mut whole.items) {
            (a.mode, a.precision) = (Mode::Part, Precision::Exact);
            (b.mode, b.precision) = (Mode::Whole, Precision::Exact);
        }
        let go = |program| run(program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        let (a, b) = (go(&program), go(&whole));
        assert_eq!(frames(&a), frames(&b), "seed {seed}");
        compared += program.items.len();
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn hits_are_the_cells_that_satisfy_the_condition() {
    let mut kinds = [false; 2];
    for seed in 1..120 {
        let (mut program, object) = sample(seed);
        let least = [0.0, 100.0, 250.0, 1e9][seed as usize % 4];
        let tree = parse(&format!("value > {least} & value == value")).unwrap();
        program.conditions.clear();
        let condition = |answer| Condition { dtype: Type::F8, tree: tree.clone(), answer };
        let number = program.condition(condition(Answer::Values));
        let mut plain = program.clone();
        plain.conditions.clear();
        program.items.iter_mut().for_each(|item| item.condition = number);
        plain.items.iter_mut().for_each(|item| item.condition = None);
        let go = |program: &Program| run(program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        let (hits, values) = (go(&program), go(&plain));
        let other = |answer| {
            let mut program = program.clone();
            program.conditions = vec![condition(answer)];
            assert_eq!(Program::decode(&program.encode().unwrap()).unwrap(), program);
            go(&program)
        };
        let (places, counts) = (other(Answer::Cells), other(Answer::Count));
        let (places, counts) = (frames(&places), frames(&counts));
        for (n, (hits, values)) in frames(&hits).iter().zip(frames(&values)).enumerate() {
            let (Payload::Hits(hits), Payload::Values(values)) = (&hits.payload, values.payload) else {
                panic!("{hits:?}");
            };
            let all: Vec<f64> = values.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
            let expected: Vec<u32> = (0..all.len() as u32).filter(|i| all[*i as usize] > least).collect();
            kinds[usize::from(hits[8])] = true;
            let found = Hits::decode(hits, &condition(Answer::Values)).unwrap();
            assert_eq!(found.cells.as_ref(), Some(&expected));
            let (Payload::Hits(places), Payload::Hits(counts)) = (&places[n].payload, &counts[n].payload)
            else {
                panic!("{:?}", places[n]);
            };
            let asked = condition(Answer::Cells);
            let alone = Hits::decode(places, &asked).unwrap();
            assert_eq!((alone.cells, alone.values.len()), (Some(expected.clone()), 0));
            assert_eq!(places.len(), hits.len() - found.values.len(), "no values come back");
            let counted = Hits::decode(counts, &condition(Answer::Count)).unwrap();
            assert_eq!((counted.count as usize, counted.cells, counts.len()), (expected.len(), None, 9));
            assert!(Hits::decode(counts, &asked).is_err(), "a number where cells were asked for");
            let found: Vec<f64> = found.values.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
            assert_eq!(found, expected.iter().map(|i| all[*i as usize]).collect::<Vec<_>>());
        }
    }
    assert_eq!(kinds, [true, true], "both forms of hits occur");
}

#[test]
fn a_program_has_the_oldest_version_that_says_what_it_asks() {
    let (mut program, _) = sample(3);
    for (answer, version) in [(Answer::Values, 1), (Answer::Cells, 2), (Answer::Count, 2)] {
        program.conditions = vec![Condition { dtype: Type::F8, tree: parse("value > 1").unwrap(), answer }];
        let mut bytes = program.encode().unwrap();
        assert_eq!((program.version(), bytes[4]), (version, version as u8));
        bytes[4] = 3 - version as u8;
        assert!(Program::decode(&bytes).is_err(), "the same under the other version");
        bytes[4] = 3;
        assert_eq!(Program::decode(&bytes), Err(drystone_program::ProgramError::Version(3)));
    }
}

#[test]
fn a_condition_has_one_name_and_is_a_condition() {
    let (mut program, _) = sample(3);
    for text in ["other > 1", "value + 1", "value[x+1] > 2", "value.x > 1"] {
        program.conditions =
            vec![Condition { dtype: Type::F8, tree: parse(text).unwrap(), answer: Answer::Values }];
        assert!(Program::decode(&program.encode().unwrap()).is_err(), "{text}");
    }
}

/// A source that must not be read.
struct Untouched;

impl Source for Untouched {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), SourceError> {
        panic!("a program over its budget has read something");
    }
}

#[test]
fn a_program_over_its_budget_is_refused_before_anything_is_read() {
    let (program, _) = sample(5);
    let cost = program.cost();
    assert!(cost.bytes > 0 && cost.memory > cost.bytes && cost.steps > cost.bytes);
    let full = Budget { bytes: cost.bytes, memory: cost.memory, steps: cost.steps };
    for budget in [
        Budget { bytes: cost.bytes - 1, ..full },
        Budget { memory: cost.memory - 1, ..full },
        Budget { steps: cost.steps - 1, ..full },
    ] {
        let reply = run(&program, &mut Untouched, &budget, &mut || true);
        let frames = frames(&reply);
        assert_eq!((frames.len(), frames[0].item, refusal(&frames[0]).why), (1, None, Why::Budget));
    }
}

#[test]
fn a_program_reads_no_more_than_it_says() {
    struct Counting<'a>(&'a [u8], u64);
    impl Source for Counting<'_> {
        fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
            self.1 += out.len() as u64;
            (&mut &self.0[..]).read(offset, out)
        }
    }
    for seed in 1..100 {
        let (program, object) = sample(seed);
        let mut source = Counting(&object, 0);
        let reply = run(&program, &mut source, &Budget::OBJECT_CLASS, &mut || true);
        let cost = program.cost();
        assert!(
            source.1 <= cost.bytes && reply.len() as u64 <= cost.memory,
            "seed {seed}: {} {cost:?}",
            source.1
        );
    }
}

#[test]
fn items_behind_the_end_of_the_time_are_refused_and_the_others_are_there() {
    let (program, object) = (1..).map(sample).find(|(program, _)| program.items.len() > 3).unwrap();
    let mut left = 2;
    let reply = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || {
        left -= 1;
        left >= 0
    });
    let frames = frames(&reply);
    assert!(is_value(&frames[0]) && is_value(&frames[1]));
    assert!(frames[2..].iter().all(|frame| refusal(frame).why == Why::Time));
}

#[test]
fn a_flipped_bit_of_an_object_is_refused_and_never_a_value() {
    for seed in [2, 9, 17] {
        let (program, object) = sample(seed);
        let sound = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
        let sound = frames(&sound);
        for bit in (0..object.len() * 8).step_by(13) {
            let mut bad = object.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let reply = run(&program, &mut &bad[..], &Budget::OBJECT_CLASS, &mut || true);
            for (frame, sound) in frames(&reply).iter().zip(&sound) {
                assert!(!is_value(frame) || frame == sound, "seed {seed}, bit {bit}");
            }
        }
        let reply = run(&program, &mut &object[..8], &Budget::OBJECT_CLASS, &mut || true);
        assert!(frames(&reply).iter().all(|frame| refusal(frame).why == Why::Unreadable));
    }
}

#[test]
fn a_flipped_bit_of_a_reply_is_found() {
    let (program, object) = sample(4);
    let reply = run(&program, &mut &object[..], &Budget::OBJECT_CLASS, &mut || true);
    for bit in 0..reply.len() * 8 {
        let mut bad = reply.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let whole = Reply::new(&bad).is_ok_and(|mut frames| frames.all(|frame| frame.is_ok()));
        assert!(!whole, "bit {bit}");
    }
    for len in 0..reply.len() {
        let count = Reply::new(&reply[..len]).map_or(0, |reply| reply.filter(Result::is_ok).count());
        assert!(count < program.items.len(), "a reply that was cut at {len}");
    }
}

#[test]
fn any_bytes_are_refused_or_run_within_the_budget() {
    let mut random = Random(many(11, std::process::id().into()) | 1);
    let rounds = many(40, 7_000);
    for round in 0..rounds {
        let (program, object) = sample(round + 1);
        let sound = program.encode().unwrap();
        for _ in 0..100 {
            let mut data = sound.clone();
            for _ in 0..1 + random.below(6) {
                let at = random.below(data.len());
                match random.below(5) {
                    0 => data[at] ^= 1 << random.below(8),
                    1 => data[at] = random.below(256) as u8,
                    2 => data[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    3 => drop(data.remove(at)),
                    _ => data.insert(at, random.below(256) as u8),
                }
                if data.is_empty() {
                    data.push(0);
                }
            }
            fuzz(&data, &object);
            fuzz_reply(&data);
        }
        fuzz(&sound, &object);
    }
}

#[test]
fn programs_whose_numbers_are_changed_one_by_one_are_refused_or_run() {
    // Programs that mutated bytes seldom give: valid in form, with wrong numbers.
    let mut random = Random(many(5, u64::from(std::process::id()) + 7) | 1);
    for round in 0..many(1500, 300_000) {
        let (mut program, object) = sample(round % 97 + 1);
        let odd =
            |random: &mut Random| [0, 1, 2, 7, 255, 4096, 1 << 20, u64::MAX >> 1, u64::MAX][random.below(9)];
        for _ in 0..1 + random.below(3) {
            let many = program.items.len();
            let item = &mut program.items[random.below(many)];
            match random.below(12) {
                0 => item.piece.position = odd(&mut random),
                1 => item.piece.length = odd(&mut random),
                2 => item.piece.trailer = odd(&mut random),
                3 => item.piece.unit_log2 = random.below(70) as u8,
                4 => item.mode = [Mode::Whole, Mode::Part, Mode::Prefix][random.below(3)],
                5 => item.precision = Precision::Level(random.below(9) as u32),
                6 => item.prefix = Some(item.piece),
                7 => item.rule = random.below(5) as u16,
                8 => item.arrangement = random.below(5) as u16,
                9 => {
                    let many = program.arrangements.len();
                    let arrangement = &mut program.arrangements[random.below(many)];
                    match random.below(6) {
                        0 => arrangement.logical.item = odd(&mut random) as u32 as usize,
                        1 => arrangement.logical.scalar = 1 + random.below(9),
                        2 => {
                            arrangement.logical.shape =
                                (0..random.below(5)).map(|_| odd(&mut random) & 0xFFFF).collect()
                        }
                        3 => arrangement.chain = random.below(5) as u16,
                        4 => arrangement.logical.kind = drystone_transform::stats::ScalarKind::F32,
                        _ => arrangement.decoded = odd(&mut random) as u32,
                    }
                }
                10 => {
                    let texts = [
                        "zfp:8",
                        "szip",
                        "blosc",
                        "pcodec",
                        "isobar",
                        "alacrity",
                        "nothing",
                        "lorenzo",
                        "mloc:2,2,2,2",
                    ];
                    let many = program.chains.len();
                    program.chains[random.below(many)] = texts[random.below(texts.len())].into();
                }
                _ => item.condition = Some(random.below(3) as u16),
            }
        }
        if let Ok(bytes) = program.encode() {
            fuzz(&bytes, &object);
        }
    }
}
