//! Where the transform permits it, parts of encoded subchunks are read without the rest. They are verified, and equal
//! to what was put.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::sync::Arc;

use crate::common::*;
use drystone::array::Target;
use drystone::{BlockLayout, Container, CreateOptions, ErrorKind, Mode, Precision, WriterOptions};
use drystone_format::dtype::{DType, Scalar};
use drystone_plan::selection::{Axis, Selection};
use drystone_store::{MemoryStore, Store, StoreExt};

/// Values that no codec can compress.
fn noise(n: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    (0..n).flat_map(|_| next().wrapping_mul(3).to_le_bytes()).collect()
}

fn written(store: &Arc<MemoryStore>, transform: &str, chunks: Option<Vec<u64>>, data: &[u8]) -> Container {
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    let set = |v: &mut drystone::NewVariable| {
        v.transform = transform.into();
        v.chunks = chunks;
    };
    c.apply(vec![create("t", f4(), &[64, 64, 64], set)]).unwrap();
    let layout = BlockLayout::Log; // parts of subchunks are what this is about
    let w = c.writer(WriterOptions { rank: Some((0, 1)), layout, ..Default::default() }).unwrap();
    w.put("t", &f4(), &dense(data, &[64, 64, 64], 4), None, None).unwrap();
    w.close().unwrap();
    Container::open(store.clone(), Mode::Read).unwrap()
}

fn cells(data: &[u8], selection: &Selection) -> Vec<u8> {
    let [z, y, x] = selection.axes[..] else { panic!("three axes") };
    let mut out = Vec::new();
    for i in 0..z.count {
        for j in 0..y.count {
            for k in 0..x.count {
                let at = ((z.cell(i) * 64 + y.cell(j)) * 64 + x.cell(k)) as usize * 4;
                out.extend_from_slice(&data[at..at + 4]);
            }
        }
    }
    out
}

#[test]
fn any_part_of_any_chain_is_what_was_put_and_planes_cost_less_than_the_whole() {
    let data = noise(64 * 64 * 64);
    let all = data.len() as u64;
    let axis = |start, step, count| Axis { start, step, count };
    let selections = [
        [axis(5, 1, 1), axis(0, 1, 64), axis(0, 1, 64)],
        [axis(0, 1, 64), axis(9, 1, 1), axis(0, 1, 64)],
        [axis(0, 1, 64), axis(0, 1, 64), axis(63, 1, 1)],
        [axis(60, -7, 8), axis(3, 5, 12), axis(40, -1, 20)],
        [axis(33, 1, 1), axis(33, 1, 1), axis(33, 1, 1)],
        [axis(0, 1, 64), axis(0, 1, 64), axis(0, 1, 64)],
    ];
    // A chain that supports partial reads, and two that cannot compress the values and store them raw.
    for transform in ["shuffle", "zstd:1", "shuffle,zstd:1"] {
        for chunks in [None, Some(vec![32, 64, 40])] {
            let c = written(&Arc::new(MemoryStore::new()), transform, chunks.clone(), &data);
            for axes in &selections {
                let selection = Selection { axes: axes.to_vec() };
                let told = format!("{transform} {chunks:?} {selection:?}");
                assert_eq!(read(&c, "t", &selection).unwrap(), cells(&data, &selection), "{told}");
            }
            let plane =
                c.reading("t", None).unwrap().explain(&Selection { axes: selections[0].to_vec() }).unwrap();
            assert!(plane.read_bytes < all / 8, "{transform}: {plane}");
        }
    }
}

#[test]
fn a_flipped_bit_fails_the_reads_that_need_it_and_no_others() {
    let data = noise(64 * 64 * 64);
    let store = Arc::new(MemoryStore::new());
    drop(written(&store, "shuffle", None, &data));
    let key = store.list("log/").unwrap().into_iter().map(|o| o.key).find(|k| k.ends_with(".seg")).unwrap();
    let mut bytes = store.read_vec(&key, 0, store.len(&key).unwrap() as usize).unwrap();
    // The middle of the first plane: elements around 32 * 64 * 64.
    let at = bytes.len() / 8;
    bytes[at] ^= 1;
    store.delete(&key).unwrap();
    store.put(&key, &[&bytes], drystone_store::PutMode::IfAbsent, false).unwrap();
    let c = Container::open(store, Mode::Read).unwrap();
    let plane =
        |z| Selection { axes: vec![Axis { start: z, step: 1, count: 1 }, Axis::full(64), Axis::full(64)] };
    let failed: Vec<u64> = (0..64).filter(|&z| read(&c, "t", &plane(z)).is_err()).collect();
    assert!(!failed.is_empty() && failed.len() < 10, "{failed:?}");
    let error = read(&c, "t", &plane(failed[0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error.to_string().contains("fails its checksum") && error.to_string().contains(".seg"),
        "{error}"
    );
    assert_eq!(read(&c, "t", &plane(0)).unwrap(), cells(&data, &plane(0)));
}

#[test]
fn a_read_reports_the_error_it_guarantees_and_fetches_only_the_components_for_it() {
    let values: Vec<f64> =
        (0..64 * 64 * 64).map(|i| (f64::from(i) / 5000.0).sin() + f64::from(i % 97) * 1e-7).collect();
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let store = Arc::new(MemoryStore::new());
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    let f8 = DType::Scalar(Scalar::F64);
    let set = |v: &mut drystone::NewVariable| {
        v.transform = "aplod".into();
        v.chunks = Some(vec![32, 64, 64]);
    };
    c.apply(vec![create("t", f8.clone(), &[64, 64, 64], set)]).unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    w.put("t", &f8, &dense(&data, &[64, 64, 64], 8), None, None).unwrap();
    w.close().unwrap();
    let c = Container::open(store, Mode::Read).unwrap();
    let all = Selection::all(&[64, 64, 64]);
    let mut last = 0;
    for asked in [1.0, 1e-2, 1e-5, 0.0] {
        let reading = c.reading("t", None).unwrap().with_precision(Precision::Absolute(asked)).unwrap();
        let mut out = vec![0; data.len()];
        let report = reading.read(&all, &Target::dense(&mut out, &[64, 64, 64], 8).unwrap()).unwrap();
        assert!(report.bound.absolute <= asked && report.read_bytes > last, "{asked}: {report:?}");
        last = report.read_bytes;
        for (v, b) in values.iter().zip(out.chunks_exact(8)) {
            let got = f64::from_le_bytes(b.try_into().unwrap());
            assert!(
                (v - got).abs() <= report.bound.absolute
                    && (v - got).abs() <= report.bound.relative * v.abs()
            );
        }
        let plan = reading.explain(&all).unwrap();
        assert_eq!((plan.read_bytes, plan.bound), (report.read_bytes, report.bound));
    }
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

/// 64^3 smooth doubles in subchunks of 16^3 with prefixes, and a container of them.
fn prefixed(store: &Arc<MemoryStore>) -> (Vec<f64>, Container) {
    let values: Vec<f64> = (0..64 * 64 * 64u32)
        .map(|i| 3.0 + (f64::from(i) / 5000.0).sin() + f64::from(i.wrapping_mul(2_654_435_761)) * 1e-15)
        .collect();
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let c = Container::create(store.clone(), CreateOptions::default()).unwrap();
    let f8 = DType::Scalar(Scalar::F64);
    let set = |v: &mut drystone::NewVariable| {
        v.transform = "aplod".into();
        v.chunks = Some(vec![16, 16, 16]);
    };
    c.apply(vec![create("t", f8.clone(), &[64, 64, 64], set)]).unwrap();
    let w = c.writer(WriterOptions { rank: Some((0, 1)), ..Default::default() }).unwrap();
    w.put("t", &f8, &dense(&data, &[64, 64, 64], 8), None, None).unwrap();
    w.close().unwrap();
    (values, Container::open(store.clone(), Mode::Read).unwrap())
}

/// Reads the cells of a box at a precision. Also returns the report of the read.
fn at(
    c: &Container,
    selection: &Selection,
    precision: Precision,
) -> drystone::Result<(Vec<f64>, drystone::ReadReport)> {
    let shape = selection.shape();
    let mut out = vec![0; shape.iter().product::<u64>() as usize * 8];
    let reading = c.reading("t", None)?.with_precision(precision)?;
    let report = reading.read(selection, &Target::dense(&mut out, &shape, 8)?)?;
    Ok((out.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(), report))
}

#[test]
fn many_small_subchunks_at_low_precision_are_few_requests_and_few_bytes() {
    let store = Arc::new(MemoryStore::new());
    let (values, c) = prefixed(&store);
    let axis = |start, step, count| Axis { start, step, count };
    let (all, one) = (axis(0, 1, 64), |start| axis(start, 1, 1));
    for axes in [
        [all, all, one(33)],
        [all, one(5), all],
        [one(63), all, all],
        [axis(60, -7, 8), axis(3, 5, 12), axis(40, -1, 20)],
        [all, all, all],
    ] {
        let selection = Selection { axes: axes.to_vec() };
        let of_cells: Vec<u8> = values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        let expected = cells(&of_cells, &selection);
        let (exact, whole) = at(&c, &selection, Precision::Exact).unwrap();
        let single: Vec<u8> = exact.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect();
        assert_eq!(single, expected);
        for asked in [Precision::Relative(0.04), Precision::Absolute(0.2), Precision::Level(1)] {
            let (found, report) = at(&c, &selection, asked).unwrap();
            let told = format!("{asked:?} {axes:?} {report:?}");
            assert!(report.requests <= 8 && report.read_bytes < whole.read_bytes / 4, "{told} {whole:?}");
            assert!(report.bound.relative < 0.04 && report.bound.absolute < 0.2, "{told}");
            for (found, exact) in found.iter().zip(&exact) {
                assert!((found - exact).abs() <= report.bound.absolute, "{told}");
                assert!((found - exact).abs() <= report.bound.relative * exact.abs(), "{told}");
            }
        }
        // Bytes that are not in the prefixes are read as well.
        let (found, report) = at(&c, &selection, Precision::Absolute(1e-4)).unwrap();
        assert!(report.bound.absolute <= 1e-4, "{axes:?} {report:?}");
        assert!(found.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= 1e-4), "{axes:?}");
    }
    assert!(c.verify(&mut |_, _| true).unwrap().damage.is_empty());
}

#[test]
fn damage_in_a_prefix_fails_the_reads_that_need_it() {
    let store = Arc::new(MemoryStore::new());
    let (values, _) = prefixed(&store);
    let key = store.list("log/").unwrap().into_iter().map(|o| o.key).find(|k| k.ends_with(".seg")).unwrap();
    let sound = store.read_vec(&key, 0, store.len(&key).unwrap() as usize).unwrap();
    let all = Selection::all(&[64, 64, 64]);
    let (mut rough, mut exact) = (0, 0);
    // Prefixes come first.
    for place in (100..5000).step_by(250).chain((5000..sound.len()).step_by(sound.len() / 20)) {
        let mut bytes = sound.clone();
        bytes[place] ^= 0x40;
        store.delete(&key).unwrap();
        store.put(&key, &[&bytes], drystone_store::PutMode::IfAbsent, false).unwrap();
        let c = Container::open(store.clone(), Mode::Read).unwrap();
        match at(&c, &all, Precision::Relative(0.04)) {
            Ok((found, report)) => {
                let within = |(a, b): (&f64, &f64)| (a - b).abs() <= report.bound.absolute;
                assert!(found.iter().zip(&values).all(within), "byte {place}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                rough += 1;
            }
        }
        match at(&c, &all, Precision::Exact) {
            Ok((found, _)) => assert!(found == values, "byte {place}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(!c.verify(&mut |_, _| true).unwrap().damage.is_empty(), "byte {place}");
                exact += 1;
            }
        }
    }
    assert!(0 < rough && rough < exact, "{rough} {exact}");
}
