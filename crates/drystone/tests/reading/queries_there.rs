//! Conditions tested at the store give the same answers as conditions tested by the client, and transfer few of the
//! bytes. That holds for any failure, too.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::*;
use crate::keeper::*;
use drystone::{Container, CreateOptions, HitBox, Mode, Query, QueryReport, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::programs::Programs;
use drystone_plan::selection::Selection;
use drystone_store::MemoryStore;

const SHAPE: [u64; 2] = [60, 50];
const STEPS: u64 = 3;

fn f8() -> DType {
    DType::Scalar(Scalar::F64)
}

fn i4() -> DType {
    DType::Scalar(Scalar::I32)
}

/// Values with NaN; neighbours differ.
fn noise(random: &mut Random, many: u64) -> Vec<f32> {
    let one = |random: &mut Random| match random.below(12) {
        0 => f32::NAN,
        _ => random.below(2000) as f32 * 0.01 - 10.0,
    };
    (0..many).map(|_| one(random)).collect()
}

/// Variables of other types, cuts and codecs: `p` has overlaps and unwritten cells, `lat` has only the first axis,
/// `k` has no steps.
fn filled(random: &mut Random) -> Arc<MemoryStore> {
    let objects = Arc::new(MemoryStore::new());
    let c = Container::create(objects.clone(), CreateOptions::default()).unwrap();
    let [y, x] = SHAPE;
    let along = |steps: bool, dims: &[&str], chunks: Option<Vec<u64>>, transform: &str| {
        let dims: Vec<String> = dims.iter().map(|dim| (*dim).to_owned()).collect();
        let transform = transform.to_owned();
        move |v: &mut drystone::NewVariable| {
            (v.steps, v.dims, v.chunks, v.transform) = (steps, dims, chunks, transform);
        }
    };
    c.apply(vec![
        create("p", f4(), &[y, x], along(true, &["y", "x"], Some(vec![13, 20]), "shuffle,zstd:1")),
        create("u", f8(), &[y, x], along(true, &["y", "x"], Some(vec![60, 9]), "")),
        create("k", i4(), &[y, x], along(false, &["y", "x"], None, "delta,zstd:1")),
        create("lat", f4(), &[y], along(false, &["y"], None, "")),
    ])
    .unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let cells = y * x;
    for step in 0..STEPS {
        w.begin_step(Some(step), false).unwrap();
        let p = bytes(&noise(random, 40 * x));
        w.put("p", &f4(), &dense(&p, &[40, x], 4), Some(&[5, 0]), None).unwrap();
        let over = bytes(&noise(random, 12 * 12));
        let at = [random.below(y - 12), random.below(x - 12)];
        w.put("p", &f4(), &dense(&over, &[12, 12], 4), Some(&at), None).unwrap();
        let u: Vec<u8> = noise(random, cells).iter().flat_map(|v| f64::from(*v).to_le_bytes()).collect();
        w.put("u", &f8(), &dense(&u, &[y, x], 8), None, None).unwrap();
        w.end_step().unwrap();
    }
    let k: Vec<u8> = (0..cells).flat_map(|_| (random.below(9) as i32).to_le_bytes()).collect();
    w.put("k", &i4(), &dense(&k, &[y, x], 4), None, None).unwrap();
    let lat: Vec<f32> = (0..y).map(|n| n as f32).collect();
    w.put("lat", &f4(), &dense(&bytes(&lat), &[y], 4), None, None).unwrap();
    w.close().unwrap();
    c.commit().unwrap();
    objects
}

/// A condition of random shape.
fn condition(random: &mut Random, depth: u64) -> String {
    if depth > 0 && random.below(3) > 0 {
        let (a, b) = (condition(random, depth - 1), condition(random, depth - 1));
        return match random.below(5) {
            0 => format!("~({a})"),
            1 => format!("({a}) ^ ({b})"),
            2 => format!("({a}) | ({b})"),
            _ => format!("({a}) & ({b})"),
        };
    }
    let level = random.below(2000) as f64 * 0.01 - 10.0;
    match random.below(10) {
        0 | 1 => format!("p > {level:?}"),
        2 => format!("abs(p) <= {level:?}"),
        3 | 4 => format!("u < {level:?}"),
        5 => "isnan(p)".into(),
        6 => format!("k == {}", random.below(9)),
        7 => format!("lat < {}.0", random.below(SHAPE[0])),
        8 => format!("x > {}", random.below(SHAPE[1])),
        _ => "u != u | p > u".into(),
    }
}

/// The count, the coordinates, the mask, the values of `u` and `p` at the hits, and the boxes.
type Answers = (u64, Vec<i64>, Vec<u8>, Vec<Vec<u8>>, Vec<HitBox>);

/// All answers of a query.
fn answers(query: &Query) -> Answers {
    let mut mask = vec![0; query.shape().iter().product::<u64>() as usize];
    query.mask(&mut mask).unwrap();
    let values = query.values(&["u".into(), "p".into()]).unwrap();
    let boxes = query.boxes().unwrap().0;
    (query.count().unwrap().0, query.coords().unwrap().0, mask, values.values, boxes)
}

fn ask(c: &Container, text: &str) -> Query {
    let over = ["u".to_owned()];
    c.query(&c.condition(text).unwrap(), &over).unwrap()
}

#[test]
fn conditions_tested_at_the_store_have_the_same_answers() {
    let mut random = Random(11);
    let (mut calls, mut there) = (0, 0);
    for round in 0..6 {
        let objects = filled(&mut random);
        let keeper = Keeper::new(&objects, SOUND);
        let far = Container::open(keeper.clone(), Mode::Read).unwrap();
        let near = Container::open(objects.clone(), Mode::Read).unwrap();
        for _ in 0..40 {
            let text = condition(&mut random, 3);
            let cells = Selection { axes: SHAPE.map(|n| random.axis(n)).to_vec() };
            let steps: Vec<u64> = (0..STEPS).filter(|_| random.below(3) > 0).collect();
            let within = |c: &Container| ask(c, &text).within(cells.clone(), steps.clone()).unwrap();
            let told = format!("round {round}: {text} {cells:?} {steps:?}");
            let here = answers(&within(&near));
            let query = within(&far).with_programs(Programs::Always);
            let before = keeper.calls.load(Ordering::Relaxed);
            assert_eq!(answers(&query), here, "{told}");
            calls += u64::from(keeper.calls.load(Ordering::Relaxed) > before);
            there += u64::from(query.count().unwrap().1.programs > 0);
        }
    }
    assert!(calls > 150 && there > 120, "{calls} queries sent programs, {there} counts did");
}

/// Uniform values in blocks of 16 Ki cells; statistics decide nothing.
fn even() -> (Arc<Keeper>, Container, u64) {
    let objects = Arc::new(MemoryStore::new());
    let c = Container::create(objects.clone(), CreateOptions::default()).unwrap();
    let cells = 1u64 << 18;
    let cut = |v: &mut drystone::NewVariable| v.chunks = Some(vec![1 << 14]);
    c.apply(vec![create("p", f8(), &[cells], cut), create("u", f8(), &[cells], cut)]).unwrap();
    let w = c.writer(WriterOptions::default()).unwrap();
    let of =
        |by: u64| -> Vec<u8> { (0..cells).flat_map(|n| ((n * by % 65_536) as f64).to_le_bytes()).collect() };
    w.put("p", &f8(), &dense(&of(40_503), &[cells], 8), None, None).unwrap();
    w.put("u", &f8(), &dense(&of(30_011), &[cells], 8), None, None).unwrap();
    w.close().unwrap();
    c.commit().unwrap();
    let keeper = Keeper::new(&objects, SOUND);
    let c = Container::open(keeper.clone(), Mode::Read).unwrap();
    (keeper, c, 8 * cells)
}

#[test]
fn a_count_moves_a_few_bytes_and_cells_a_bit_each() {
    let (_, c, stored) = even();
    let query = |text: &str| {
        let query = c.query(&c.condition(text).unwrap(), &[]).unwrap().with_programs(Programs::Always);
        // The tables of blocks are read once.
        query.count().unwrap();
        query
    };
    let half = query("p < 32768.0");
    let (count, report) = half.count().unwrap();
    assert_eq!((count, report.requests, report.programs), (stored / 16, 1, 1));
    assert!(report.bytes < 4 << 10, "{report:?}");
    let (_, report) = half.coords().unwrap();
    assert!(report.bytes < stored / 64 + (4 << 10), "a bit for each cell: {report:?}");
    let few = query("p < 64.0");
    let (coords, report) = few.coords().unwrap();
    assert_eq!(coords.len() as u64, stored / 8 / 1024);
    assert!(report.bytes < 4 * coords.len() as u64 + (4 << 10), "four bytes for each hit: {report:?}");
    let columns = few.values(&["p".into()]).unwrap();
    assert!(columns.report.bytes < 12 * coords.len() as u64 + (4 << 10), "{:?}", columns.report);
    assert_eq!(columns.report.requests, 1, "values come with the cells");
    let two = query("p < 32768.0 | u < 100.0");
    let (_, report) = two.count().unwrap();
    assert!(report.bytes < stored / 32 + (8 << 10), "a bit of both for each cell: {report:?}");
    let by_ranges =
        |query: &Query| -> QueryReport { query.with_programs(Programs::Never).count().unwrap().1 };
    assert!(by_ranges(&half).bytes >= stored && by_ranges(&two).bytes >= 2 * stored);
}

#[test]
fn whatever_fails_answers_are_those_of_local_reads() {
    for fails in (SOUND..WAYS).chain([EARLIER]) {
        let mut random = Random(5);
        let objects = filled(&mut random);
        let near = Container::open(objects.clone(), Mode::Read).unwrap();
        let keeper = Keeper::new(&objects, fails);
        let far = Container::open(keeper.clone(), Mode::Read).unwrap();
        for text in ["p > 1.0", "u < 0.0 & k == 3", "p > 1.0 | ~(u < 0.5)"] {
            let expected = answers(&ask(&near, text));
            for _ in 0..3 {
                let query = ask(&far, text).with_programs(Programs::Always);
                assert_eq!(answers(&query), expected, "way {fails}: {text}");
            }
        }
        if fails == EARLIER {
            let programs = keeper.programs.lock().unwrap();
            assert!(programs.iter().all(|program| program[4] == 1), "no condition is sent");
        }
    }
}

#[test]
fn explain_states_where_each_condition_is_tested_and_why() {
    let (keeper, c, _) = even();
    let explain = |text: &str, programs| {
        let query = c.query(&c.condition(text).unwrap(), &[]).unwrap();
        query.with_programs(programs).explain().unwrap()
    };
    let plan = explain("p < 64.0 & u > p", Programs::Always);
    let sites: Vec<_> = plan.summary.terms.iter().map(|term| term.site.clone().unwrap()).collect();
    assert_eq!((sites[0].there, sites[0].programs, &sites[0].reason), (sites[0].tiles, 1, &None), "{plan}");
    assert_eq!(sites[1].there, 0);
    let text = plan.to_string();
    assert!(text.contains("tried there in ") && text.contains("where ranges take "), "{text}");
    assert!(text.contains("tried here: it joins values of several variables"), "{text}");
    let text = explain("p < 64.0", Programs::Never).to_string();
    assert!(text.contains("tried here: read programs are switched off"), "{text}");
    let calls = keeper.calls.load(Ordering::Relaxed);
    assert_eq!(calls, 0, "explain runs no program");
    let near = memory();
    near.apply(vec![create("p", f4(), &[4], |_| {})]).unwrap();
    let w = near.writer(WriterOptions::default()).unwrap();
    w.put("p", &f4(), &dense(&bytes(&[1.0, 2.0, 3.0, 4.0]), &[4], 4), None, None).unwrap();
    w.close().unwrap();
    near.commit().unwrap();
    let plan = near.query(&near.condition("p > 2").unwrap(), &[]).unwrap().explain().unwrap();
    assert_eq!(plan.summary.terms[0].site, None, "on this machine there is no other place");
}

/// Without this test: programs move so few bytes that a slow keeper might be asked again and again.
#[test]
fn a_keeper_that_is_measured_slower_is_not_chosen() {
    for (slow, is_chosen) in [(0, true), (400, false)] {
        let (keeper, c, _) = even();
        keeper.link.store(50, Ordering::Relaxed);
        keeper.slow.store(slow, Ordering::Relaxed);
        let query = c.query(&c.condition("p < 64.0").unwrap(), &[]).unwrap();
        // It is asked once, whatever that costs.
        assert_eq!(query.with_programs(Programs::Always).count().unwrap().1.programs, 1);
        let query = query.with_programs(Programs::Auto);
        let report = query.count().unwrap().1;
        assert_eq!(report.programs > 0, is_chosen, "{slow} ms: {report}");
        let plan = query.explain().unwrap().to_string();
        let said = if is_chosen { "tried there in " } else { "tried here: programs would take " };
        assert!(plan.contains(said), "{plan}");
    }
}
