//! Declared fragments compared with a brute-force model: every value by its index map, one at a time.
#![allow(clippy::unwrap_used)]

use crate::common::{bytes, create, f4, floats, memory, read_all};
use drystone::{Container, ErrorKind, FragmentHandle, Precision, WriterOptions};
use drystone_dataset::{Fragment, Leaf};

const TEXT: &str = "
param n = 4
const NX = 12
const NY = 10
type Inner struct { a int8; b [2]float32 }
type Cell struct { vel [3]float64; inn Inner; temp, pres float64; many [2]Inner }
dataset {
    var u[NX, NY] float32
    var cell[NX, NY] Cell
    var t[NX, NY] float32 steps fill -1
    var grid[NX] [2, 3]int16
    var grow[*, NY] float32 fill 7
}
fragment tile(r, c) { var u[i:6, j:5] = u[i + 6*r, j + 5*c] }
fragment halo(r, c) { var u[i:8, j:7] = u[i + 6*r - 1, j + 5*c - 1] }
fragment ring { var u[i:14, j:12] col = u[i - 1 mod NX, j - 1 mod NY] }
fragment turned { var u[j:NY, i:NX] = u[i, j] }
fragment reversed { var u[i:NX, j:NY] = u[11 - i, 9 - j] }
fragment decimated { var u[i:4, j:5] = u[3*i + 1, 2*j] }
fragment spread { var u[i:20, j:NY] = u[(i + 3)/2, j] }
fragment rational { var u[i:30, j:2] = u[(2*i + 24)/(i + 1), j] }
fragment again { var u[k:3, i:NX, j:NY] = u[i, j]; var v[j:NY] = u[3, j] }
fragment row { pad 3; var one = u[2, 3]; align 16; var r[j:NY] = u[4, j] }
fragment vectors { var v[i:NX, j:NY] col = cell[i, j].vel }
fragment vz { var v[i:NX, j:NY] = cell[i, j].vel[2] }
fragment each { for s in 0..3 var v[j:NY, i:NX] = cell[i, j].vel[s] }
fragment some { var v[i:NX, j:3] = cell[i, 2*j].{pres, inn, temp} }
fragment deep { var b[i:NX, j:NY] = cell[i, j].inn.b[1]; var m[k:2, i:NX] = cell[i, 4].many[k].a }
fragment arrays { var m[i:NX, j:NY] = cell[i, j].many }
fragment whole { var cell[i:NX, j:NY] = cell[i, j] }
fragment soa { var vel[i:NX, j:NY] = cell[i, j].vel; var inn[i:NX, j:NY] = cell[i, j].inn; var t[i:NX, j:NY] = cell[i, j].temp
    var p[i:NX, j:NY] = cell[i, j].pres; var many[i:NX, j:NY] = cell[i, j].many }
fragment steps(r) { var t[i:4, j:NY] = t[i + 4*r, j] }
fragment matrices { var g[i:NX] = grid[i] }
fragment entries { var g[i:NX, b:3] = grid[i, 1, b] }
fragment tail { var g[i:5, j:NY] = grow[i + 2, j] }
fragment morton { var u[i:4, j:4] morton = u[i + 2, j + 1] }
fragment hilbert { var p[i:NX, j:NY] hilbert = cell[i, j].{temp, pres} }
";

fn declared() -> Container {
    let c = memory();
    let names = c.declare(TEXT, &[]).unwrap();
    assert_eq!(names, ["u", "cell", "t", "grid", "grow"]);
    c
}

/// Bytes in which every byte differs from its neighbours.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn write(f: &FragmentHandle, data: &[u8]) -> drystone::Result<()> {
    let writer = f.container().writer(WriterOptions::default())?;
    f.write(&writer, data)?;
    writer.close()?;
    Ok(())
}

fn fragment(c: &Container, name: &str, params: &[(&str, i64)]) -> FragmentHandle {
    c.fragment(name, params).unwrap()
}

fn read(f: &FragmentHandle, step: Option<u64>) -> Vec<u8> {
    let mut out = vec![0; f.layout().size as usize];
    f.read(step, &mut out, Precision::Exact).unwrap();
    out
}

/// Calls `act` with every index of a leaf.
fn each_index(leaf: &Leaf, mut act: impl FnMut(&[u64])) {
    let total: u64 = leaf.runs.iter().map(|run| run.count).product();
    for n in 0..total {
        let mut rest = n;
        let mut index = vec![0; leaf.runs.len()];
        for (slot, run) in index.iter_mut().zip(&leaf.runs).rev() {
            *slot = run.start + rest % run.count;
            rest /= run.count;
        }
        act(&index);
    }
}

/// The position of a dataset value in the dense array of the whole variable, laid out as declared.
fn dense_place(leaf: &Leaf, index: &[u64]) -> usize {
    let own = leaf.variable.extents.len();
    let mut cell = 0;
    for (extent, i) in leaf.variable.extents.iter().zip(index) {
        cell = cell * extent.unwrap_or(u64::MAX) + i;
    }
    let inside: u64 = leaf.dims[own..].iter().zip(&index[own..]).map(|(d, i)| d.stride.unwrap() * i).sum();
    (cell * leaf.variable.ty.size() + leaf.dataset_offset + inside) as usize
}

/// The expected content of the fragment, from the dense arrays of its variables.
fn expected(layout: &Fragment, dense: &dyn Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut out = vec![0; layout.size as usize];
    for leaf in layout.lower().unwrap() {
        let whole = dense(&leaf.variable.name);
        each_index(&leaf, |index| {
            if let Some(place) = leaf.dataset_index(index) {
                let (from, to) = (dense_place(&leaf, &place), leaf.address(index).unwrap() as usize);
                let size = leaf.prim.size() as usize;
                out[to..to + size].copy_from_slice(&whole[from..from + size]);
            }
        });
    }
    out
}

/// Fills `u`, `cell` and `grid`. Returns a function that gives their values, laid out as declared.
fn filled() -> (Container, impl Fn(&str) -> Vec<u8>) {
    let c = declared();
    let size = |name: &str| {
        let program = drystone_dataset::check(TEXT).unwrap();
        program.whole(name, &[]).unwrap().size as usize
    };
    let sizes = ["u", "cell", "grid"].map(|name| (name, size(name)));
    let dense = move |name: &str| {
        let (n, (_, len)) = sizes.iter().enumerate().find(|(_, (known, _))| *known == name).unwrap();
        noise(*len, n as u64 + 1)
    };
    let writer = c.writer(WriterOptions::default()).unwrap();
    for name in ["u", "cell", "grid"] {
        let reading = c.reading(name, None).unwrap();
        let data = dense(name);
        let source = crate::common::dense(&data, &reading.shape(), reading.item() as usize);
        writer.put(name, &reading.variable().dtype, &source, None, None).unwrap();
    }
    writer.close().unwrap();
    (c, dense)
}

#[test]
fn every_value_is_the_one_that_its_index_map_names() {
    let (c, dense) = filled();
    let tiles: Vec<Vec<(&str, i64)>> =
        (0..2).flat_map(|r| (0..2).map(move |c| vec![("r", r), ("c", c)])).collect();
    let none = vec![Vec::new()];
    for name in [
        "tile",
        "halo",
        "ring",
        "turned",
        "reversed",
        "decimated",
        "spread",
        "rational",
        "again",
        "row",
        "vectors",
        "vz",
        "each",
        "some",
        "deep",
        "arrays",
        "whole",
        "soa",
        "matrices",
        "entries",
    ] {
        for params in if matches!(name, "tile" | "halo") { &tiles } else { &none } {
            let f = fragment(&c, name, params);
            assert_eq!(read(&f, None), expected(f.layout(), &dense), "{name} {params:?}");
        }
    }
}

#[test]
fn bytes_without_a_counterpart_are_left_alone() {
    let (c, dense) = filled();
    for (name, params) in
        [("halo", vec![("r", 1), ("c", 1)]), ("row", vec![]), ("spread", vec![]), ("some", vec![])]
    {
        let f = fragment(&c, name, &params);
        let mut out = vec![0xEE; f.layout().size as usize];
        f.read(None, &mut out, Precision::Exact).unwrap();
        let mut values = vec![false; out.len()];
        for leaf in f.layout().lower().unwrap() {
            each_index(&leaf, |index| {
                if leaf.dataset_index(index).is_some() {
                    let at = leaf.address(index).unwrap() as usize;
                    values[at..at + leaf.prim.size() as usize].fill(true);
                }
            });
        }
        let expected = expected(f.layout(), &dense);
        for (at, byte) in out.iter().enumerate() {
            assert_eq!(*byte, if values[at] { expected[at] } else { 0xEE }, "{name} at {at}");
        }
    }
}

#[test]
fn a_value_written_by_one_fragment_is_read_by_any_other() {
    for name in [
        "tile",
        "turned",
        "reversed",
        "decimated",
        "spread",
        "vectors",
        "each",
        "some",
        "arrays",
        "whole",
        "soa",
        "matrices",
    ] {
        let c = declared();
        let params: &[(&str, i64)] = if name == "tile" { &[("r", 1), ("c", 0)] } else { &[] };
        let f = fragment(&c, name, params);
        let mut data = noise(f.layout().size as usize, 77);
        write(&f, &data).unwrap();
        let back = read(&f, None);
        // Only bytes with a counterpart are kept.
        let mut kept = vec![false; data.len()];
        for leaf in f.layout().lower().unwrap() {
            each_index(&leaf, |index| {
                if leaf.dataset_index(index).is_some() {
                    let at = leaf.address(index).unwrap() as usize;
                    kept[at..at + leaf.prim.size() as usize].fill(true);
                }
            });
        }
        data.iter_mut().zip(&kept).filter(|(_, kept)| !**kept).for_each(|(byte, _)| *byte = 0);
        assert_eq!(back, data, "{name}");
    }
    let c = declared();
    for r in 0..2 {
        for k in 0..2 {
            let f = fragment(&c, "tile", &[("r", r), ("c", k)]);
            let value = |i: i64, j: i64| (100 * (i + 6 * r) + j + 5 * k) as f32;
            let tile: Vec<f32> = (0..6).flat_map(|i| (0..5).map(move |j| value(i, j))).collect();
            write(&f, &bytes(&tile)).unwrap();
        }
    }
    let whole: Vec<f32> = (0..12).flat_map(|i| (0..10).map(move |j| (100 * i + j) as f32)).collect();
    assert_eq!(floats(&read_all(&c, "u")), whole);
}

#[test]
fn missing_values_are_reported_and_not_guessed() {
    let c = declared();
    write(&fragment(&c, "tile", &[("r", 0), ("c", 0)]), &bytes(&[1.0; 30])).unwrap();
    let f = fragment(&c, "halo", &[("r", 0), ("c", 0)]);
    let report = f.coverage(None).unwrap();
    assert_eq!((report.wanted, report.covered, report.unmapped, report.missing), (56, 30, 14, 12));
    let cells: u64 = report.places.iter().map(|m| m.axes.iter().map(|a| a.count).product::<u64>()).sum();
    assert_eq!(cells, report.missing);
    let whole = fragment(&c, "whole", &[]).coverage(None).unwrap();
    assert_eq!((whole.wanted, whole.missing), (120 * 14, 120 * 14));
    let spread = fragment(&c, "spread", &[]).coverage(None).unwrap();
    assert_eq!((spread.wanted, spread.unmapped), (200, 100));
}

#[test]
fn steps_are_named_and_tiles_of_one_step_come_from_many_writers() {
    let c = declared();
    let f = |r| fragment(&c, "steps", &[("r", r)]);
    assert_eq!(
        f(0).read(None, &mut [0; 160], Precision::Exact).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    let err = write(&f(0), &[0; 160]).unwrap_err();
    assert!(err.to_string().contains("inside a step"), "{err}");
    for r in [0, 2] {
        let w = c.writer(WriterOptions::default()).unwrap();
        w.begin_step(Some(3), false).unwrap();
        f(r).write(&w, &bytes(&[r as f32 + 1.0; 40])).unwrap();
        w.end_step().unwrap();
        w.close().unwrap();
    }
    c.commit().unwrap();
    assert_eq!(floats(&read(&f(2), Some(3))), [3.0; 40]);
    assert_eq!(floats(&read(&f(1), Some(3))), [-1.0; 40]);
    assert_eq!(f(1).coverage(Some(3)).unwrap().missing, 40);
    assert_eq!(f(0).coverage(Some(3)).unwrap().covered, 40);
    assert_eq!(f(0).coverage(Some(1)).unwrap().missing, 40);
    let plan = f(2).explain(Some(3)).unwrap();
    assert_eq!((plan.reads.len(), plan.reads[0].1), (1, true));
    assert!(plan.to_string().contains("straight into place: t"), "{plan}");
}

#[test]
fn growable_variables_grow_and_the_rest_is_unmapped() {
    let c = declared();
    let f = fragment(&c, "tail", &[]);
    assert_eq!(f.coverage(None).unwrap().unmapped, 50);
    write(&f, &bytes(&[2.0; 50])).unwrap();
    assert_eq!(c.variable("grow").unwrap().shape, [7, 10]);
    assert_eq!(floats(&read(&f, None)), [2.0; 50]);
    assert_eq!(floats(&read_all(&c, "grow"))[..20], [7.0; 20]);
}

#[test]
fn curves_are_read_and_written() {
    let (c, dense) = filled();
    let u: Vec<u8> = dense("u");
    let morton = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)];
    let out = read(&fragment(&c, "morton", &[]), None);
    for (n, (i, j)) in morton.into_iter().enumerate() {
        let at = ((i + 2) * 10 + j + 1) * 4;
        assert_eq!(out[4 * n..4 * n + 4], u[at..at + 4], "{n}");
    }
    let f = fragment(&c, "hilbert", &[]);
    let data = noise(f.layout().size as usize, 5);
    write(&f, &data).unwrap();
    assert_eq!(read(&f, None), data);
}

#[test]
fn a_write_that_would_not_be_exact_is_refused() {
    let c = declared();
    let refused = |name: &str| {
        let f = fragment(&c, name, &[]);
        let err = write(&f, &vec![0; f.layout().size as usize]).unwrap_err();
        (err.kind(), err.to_string())
    };
    for (name, kind, says) in
        [("again", ErrorKind::InvalidArgument, "twice"), ("ring", ErrorKind::InvalidArgument, "twice")]
    {
        let (found, message) = refused(name);
        assert!(found == kind && message.contains(says), "{name}: {message}");
    }
    let f = fragment(&c, "turned", &[]);
    assert_eq!(f.read(None, &mut [0; 3], Precision::Exact).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn declaring_again_changes_nothing_and_contradictions_are_refused() {
    let c = declared();
    let version = c.snapshot().version();
    c.declare(TEXT, &[]).unwrap();
    assert_eq!(c.snapshot().version(), version);
    assert_eq!(c.declarations().unwrap().len(), 1);
    let fails = |text: &str, values: &[(&str, i64)]| c.declare(text, values).unwrap_err();
    assert_eq!(fails("dataset { var u[3] int8 }", &[]).kind(), ErrorKind::Conflict);
    assert_eq!(
        fails("dataset { var x[3] int8 }\nfragment tile { var x[i:3] = x[i] }", &[]).kind(),
        ErrorKind::Conflict
    );
    assert!(c.variable("x").is_err(), "nothing of a refused text stays");
    let err = fails("dataset { var x[3] flaot32 }", &[]);
    assert_eq!(err.kind(), ErrorKind::InvalidArgument);
    assert!(err.to_string().contains("did you mean `float32`?"), "{err}");
    let err = fails("param k\ndataset { var x[k] int8 }", &[]);
    assert!(err.to_string().contains("`k` has no value"), "{err}");
    assert!(fails("dataset { var x[3] int8 }", &[("q", 1)]).to_string().contains("no parameter"));
}

#[test]
fn parameters_given_when_declaring_hold() {
    let c = memory();
    let text = "param k, m\ndataset { var x[k] int16 }\nfragment part(r) { var x[i:m] = x[i + m*r] }";
    c.declare(text, &[("k", 12)]).unwrap();
    assert_eq!(c.variable("x").unwrap().shape, [12]);
    let f = c.fragment("part", &[("r", 2), ("m", 4)]).unwrap();
    assert_eq!(f.layout().size, 8);
    let says = |name: &str, params: &[(&str, i64)]| c.fragment(name, params).err().unwrap().to_string();
    assert!(says("part", &[("r", 2)]).contains("`m` has no value"));
    assert!(says("part", &[("r", 2), ("m", 4), ("k", 3)]).contains("it cannot be 3"));
    assert!(says("part", &[("r", 2), ("m", 4), ("s", 3)]).contains("no parameter"));
    assert!(says("prat", &[]).contains("there are: part(r)"));
}

#[test]
fn a_variable_that_is_no_longer_what_the_text_says_is_a_conflict() {
    let c = declared();
    c.apply(vec![drystone::SchemaOp::Delete("u".into()), create("u", f4(), &[3], |_| {})]).unwrap();
    let err = c.fragment("tile", &[("r", 0), ("c", 0)]).err().unwrap();
    assert_eq!(err.kind(), ErrorKind::Conflict);
}
