//! Neighbours, differences and reductions: equal to a model without tiles, bit for bit for any division into boxes.

use drystone_expression::{
    Answer, Array, Called, Cells, Edge, Error, Field, Meaning, Runner, Spare, Tile, Tree, Type, Values,
    parse, parse_along,
};

use crate::random::Random;

/// Variables in memory on a grid of two or three axes.
struct Memory {
    extents: Vec<u64>,
    /// Values, axes, and cells without a value.
    names: Vec<(Vec<f64>, Vec<usize>, Vec<u8>)>,
    read: u64,
}

impl Cells for Memory {
    type Error = Error;

    fn read(&mut self, name: usize, lo: &[u64], hi: &[u64], _: &mut Spare) -> Result<Array, Error> {
        let (values, axes, known) = &self.names[name];
        let (mut out, mut mask) = (Vec::new(), Vec::new());
        let count: u64 = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).product();
        for n in 0..count {
            let (mut rest, mut at, mut stride) = (n, 0, 1);
            for d in (0..axes.len()).rev() {
                let side = hi[d] - lo[d];
                assert!(hi[d] <= self.extents[axes[d]], "nothing beyond the domain is read");
                at += (lo[d] + rest % side) * stride;
                rest /= side;
                stride *= self.extents[axes[d]];
            }
            out.push(values[at as usize]);
            mask.push(known[at as usize]);
        }
        self.read += count;
        Ok(Array { values: Values::F8(out), known: mask.contains(&0).then_some(mask) })
    }

    fn fill(&mut self, _: usize) -> Values {
        Values::F8(vec![-7.0])
    }

    /// The sum of the cells in the halo, in row-major order, starting with the first; `index` adds the cell's index.
    fn call(&mut self, call: &Called, tile: Tile<'_>, values: &mut Values) -> Result<(), Error> {
        for ((axis, lo), n) in tile.axes.iter().zip(tile.lo).zip(tile.shape) {
            assert!(lo + *n as u64 <= self.extents[*axis], "functions are called for cells of the domain");
        }
        let Values::F8(from) = tile.values else { panic!("another type") };
        let width = |d: usize| tile.shape[d] + 2 * call.halo[d] as usize;
        let boxed = |shape: &dyn Fn(usize) -> usize| {
            (0..tile.shape.len()).fold(vec![0], |places, d| {
                places.iter().flat_map(|p| (0..shape(d)).map(move |at| p * width(d) + at)).collect()
            })
        };
        let window: Vec<usize> = boxed(&|d| 2 * call.halo[d] as usize + 1);
        let sum = |first: usize| window[1..].iter().fold(from[first], |sum, at| sum + from[first + at]);
        let mut out: Vec<f64> = boxed(&|d| tile.shape[d]).into_iter().map(sum).collect();
        if call.function == "index" {
            for (n, out) in out.iter_mut().enumerate() {
                let mut rest = n;
                for d in (0..tile.shape.len()).rev() {
                    *out += (tile.lo[d] as usize + rest % tile.shape[d]) as f64 * 1e3;
                    rest /= tile.shape[d];
                }
            }
        }
        assert_eq!((values.dtype(), values.count()), (Type::F8, out.len()));
        *values = Values::F8(out);
        Ok(())
    }

    fn coordinate(&mut self, name: usize) -> Result<Vec<f64>, Error> {
        Ok(self.names[name].0.clone())
    }
}

const DIMS: [&str; 3] = ["z", "y", "x"];

fn dims() -> Vec<String> {
    DIMS.map(String::from).to_vec()
}

fn tree(text: &str) -> Tree {
    parse_along(text, |_| false, dims()).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

/// Variables `u v w` on the grid, `a` along y, and the coordinate `x`.
fn memory(tree: &Tree, extents: &[u64], holes: bool) -> (Memory, Vec<Meaning>) {
    let mut names = Vec::new();
    let mut meanings = Vec::new();
    for name in tree.names() {
        let axes = match name.path() {
            "u" | "v" | "w" => vec![0, 1, 2],
            "a" | "y" => vec![1],
            "x" => vec![2],
            _ => vec![0],
        };
        let mut random = Random(name.path().bytes().map(u64::from).sum());
        let count: u64 = axes.iter().map(|&a| extents[a]).product();
        let values: Vec<f64> = match name.path() {
            "x" => (0..count).map(|n| (n * n) as f64 * 0.25).collect(),
            "y" | "z" => (0..count).map(|n| n as f64 * 0.5).collect(),
            _ => (0..count).map(|_| random.below(1000) as f64 / 7.0 - 60.0).collect(),
        };
        let known = (0..count).map(|_| u8::from(!holes || random.below(9) > 0)).collect();
        meanings.push(Meaning {
            answer: Answer::Type(Type::F8),
            coordinate: DIMS.contains(&name.path()),
            axes: axes.clone(),
        });
        names.push((values, axes, known));
    }
    (Memory { extents: extents.to_vec(), names, read: 0 }, meanings)
}

fn evaluate(field: &Field, memory: &mut Memory, lo: &[u64], hi: &[u64]) -> Vec<Vec<Option<u64>>> {
    let mut runner = Runner::new(field, &memory.extents.clone()).unwrap();
    let arrays = runner.run(lo, hi, memory, &mut Spare::default()).unwrap();
    arrays.iter().map(bits).collect()
}

/// The bits of each value; `None` where it is not known.
fn bits(array: &Array) -> Vec<Option<u64>> {
    let value = |n: usize| match &array.values {
        Values::F8(v) => v[n].to_bits(),
        Values::I8(v) => v[n] as u64,
        Values::Bool(v) => u64::from(v[n] != 0),
        _ => panic!("another type"),
    };
    let known = |n: usize| array.known.as_ref().is_none_or(|known| known[n] != 0);
    (0..array.values.count()).map(|n| known(n).then(|| value(n))).collect()
}

const TEXTS: [&str; 19] = [
    "diff(apply(index, u, f8), y, 1) + diff2(apply(index, u, f8, 1), z, 1)",
    "apply(index, apply(index, u, f8, 1), f8, 2)",
    "apply(sum, u, f8, 1, 0, 2)",
    "apply(sum, diff(u, y) * v, f8, 1) + mean(w)",
    "diff(apply(sum, a, f8, 2), y, 1)",
    "u[x+1] - u[x-1] + u[y+2, z-1]",
    "diff(u, x)",
    "diff(u, y, 0.5) + diff(u, z)",
    "laplacian(u)",
    "diff2(u * v, y)",
    "curl(u, v, w)",
    "norm(curl(u, v, w))",
    "div(u, v, w) / a",
    "diff(diff(sqrt(abs(u)), y), z, 2)",
    "u - mean(u, y)",
    "sum(u, x, z)",
    "where(u > mean(u), amax(v, y), min(u))",
    "count(u > 0, x)",
    "mean(diff(u, z, 1) * a)",
];

#[test]
fn the_bits_of_a_cell_do_not_depend_on_the_box_it_is_in() {
    let extents = [5u64, 6, 7];
    for text in TEXTS {
        let tree = tree(text);
        for edge in Edge::ALL {
            for holes in [false, true] {
                let (mut memory, meanings) = memory(&tree, &extents, holes);
                let field = match Field::new(&tree, &dims(), &meanings, edge) {
                    Ok(field) => field,
                    Err(error) => panic!("{text}: {error}"),
                };
                if edge == Edge::Periodic && text.contains('x') | text.contains("curl") | text.contains("div")
                {
                    continue; // The coordinate x has cells of several distances.
                }
                if edge == Edge::Periodic && text.contains("laplacian") {
                    continue;
                }
                let own: Vec<u64> = field.axes().iter().map(|&a| extents[a]).collect();
                let zero = vec![0; own.len()];
                let whole = evaluate(&field, &mut memory, &zero, &own);
                let mut random = Random(3);
                for _ in 0..12 {
                    let lo: Vec<u64> = own.iter().map(|&n| random.below(n as usize) as u64).collect();
                    let hi: Vec<u64> = lo
                        .iter()
                        .zip(&own)
                        .map(|(&lo, &n)| lo + 1 + random.below((n - lo) as usize) as u64)
                        .collect();
                    let part = evaluate(&field, &mut memory, &lo, &hi);
                    let count: u64 = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo).product();
                    for n in 0..count {
                        let (mut rest, mut at, mut stride) = (n, 0, 1);
                        for d in (0..own.len()).rev() {
                            at += (lo[d] + rest % (hi[d] - lo[d])) * stride;
                            rest /= hi[d] - lo[d];
                            stride *= own[d];
                        }
                        for (part, whole) in part.iter().zip(&whole) {
                            assert_eq!(
                                part[n as usize], whole[at as usize],
                                "{text} {edge:?} {lo:?}..{hi:?} {n}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_registered_function_gets_its_neighbours_and_the_edge_as_expressions_do() {
    let extents = [4u64, 5, 6];
    let same = [
        ("apply(sum, u, f8)", "u"),
        ("diff(apply(sum, u, f8), y, 1)", "diff(u, y, 1)"),
        ("apply(sum, u, f8, 0, 0, 1)", "u[x-1] + u + u[x+1]"),
        ("apply(sum, u * v, f8, 1, 0, 0) - a", "u[z-1] * v[z-1] + u * v + u[z+1] * v[z+1] - a"),
        (
            "apply(sum, u, f8, 0, 1, 1)",
            "u[y-1,x-1] + u[y-1] + u[y-1,x+1] + u[x-1] + u + u[x+1] + u[y+1,x-1] + u[y+1] + u[y+1,x+1]",
        ),
    ];
    for (called, written) in same {
        let (called, written) = (tree(called), tree(written));
        for edge in Edge::ALL {
            for holes in [false, true] {
                let values = |tree: &Tree| {
                    let (mut memory, meanings) = memory(tree, &extents, holes);
                    let field = Field::new(tree, &dims(), &meanings, edge).unwrap();
                    evaluate(&field, &mut memory, &[0; 3], &extents)
                };
                // Beyond the domain, a result has no values, and the fill value is that of its argument.
                if edge != Edge::Fill || !written.to_string().contains("diff") {
                    assert_eq!(values(&called), values(&written), "{called} {edge:?} {holes}");
                }
            }
        }
    }
}

#[test]
fn wrong_calls_of_registered_functions_are_refused() {
    for (text, found) in [
        ("apply(sum, u)", "a function, its argument and the type"),
        ("apply(sum, u, 3)", "the type of the result"),
        ("apply(sum, u, complex)", "the type of the result"),
        ("apply(u + v, u, f4)", "by its name"),
        ("apply(`a b`, u, f4)", "by its name"),
        ("apply(f.g, u, f4)", "by its name"),
        ("apply(sum, vector(u, v), f4)", "a vector"),
        ("apply(sum, u, f4, -1)", "from 0 to 1024"),
        ("apply(sum, u, f4, 1025)", "from 0 to 1024"),
        ("apply(sum, u, f4, x)", "from 0 to 1024"),
    ] {
        match parse(text) {
            Ok(tree) => panic!("{text} became {tree}"),
            Err(error) => assert!(error.to_string().contains(found), "{text}: {error}"),
        }
    }
    for (text, found) in
        [("apply(sum, u, f8, 1, 1)", "has 2 numbers"), ("apply(sum, mean(u), f8, 1)", "has no dimensions")]
    {
        let tree = tree(text);
        let (_, meanings) = memory(&tree, &[4, 5, 6], false);
        let error = Field::new(&tree, &dims(), &meanings, Edge::Fill).unwrap_err();
        assert!(error.to_string().contains(found), "{text}: {error}");
    }
}

/// A large box is computed in parts; its cells have the bits that they have in small boxes.
#[test]
fn a_box_that_is_computed_in_parts_has_the_bits_of_small_boxes() {
    let extents = [3u64, 40, 600];
    for text in [
        "u * v - 2",
        "diff(u, y) + diff2(v, z, 0.5)",
        "curl(u, v, w)",
        "diff(diff(u, y), x) + a",
        "grad(u)",
        "apply(sum, u + a, f8, 1)",
    ] {
        let tree = tree(text);
        for (edge, holes) in [(Edge::OneSided, false), (Edge::Nan, true), (Edge::Fill, false)] {
            let (mut memory, meanings) = memory(&tree, &extents, holes);
            let Ok(field) = Field::new(&tree, &dims(), &meanings, edge) else { continue };
            let whole = evaluate(&field, &mut memory, &[0; 3], &extents);
            let mut at = 0;
            for (z, y) in (0..3).flat_map(|z| (0..40).step_by(10).map(move |y| (z, y))) {
                let small = evaluate(&field, &mut memory, &[z, y, 0], &[z + 1, y + 10, 600]);
                for (small, whole) in small.iter().zip(&whole) {
                    assert!(small[..] == whole[at..at + small.len()], "{text} {edge:?} {z} {y}");
                }
                at += small[0].len();
            }
            let (before, mut next) = (memory.read, 0);
            let mut runner = Runner::new(&field, &extents).unwrap();
            let mut spare = Spare::default();
            let mut act = |(lo, hi): (&[u64], &[u64]), found: Vec<Array>, spare: &mut Spare| {
                let count: u64 = lo.iter().zip(hi).map(|(lo, hi)| hi - lo).product();
                assert_eq!(lo.iter().zip(&extents).fold(0, |at, (lo, n)| at * n + lo), next, "in order");
                for (array, whole) in found.iter().zip(&whole) {
                    assert!(bits(array)[..] == whole[next as usize..(next + count) as usize], "{text}");
                }
                next += count;
                found.into_iter().for_each(|array| spare.give(array));
                Ok(())
            };
            runner.run_in_parts((&[0; 3], &extents), &mut memory, &mut spare, &mut act).unwrap();
            assert_eq!(next, 3 * 40 * 600);
            let names = tree.names().iter().filter(|name| ["u", "v", "w"].contains(&name.path())).count();
            let most = names as u64 * next
                + memory.names.iter().map(|(values, ..)| values.len() as u64).sum::<u64>();
            assert!(memory.read - before <= most, "{text}: inputs are read once for all parts");
        }
    }
}

/// A cell of a model in memory.
fn cell(memory: &Memory, name: usize, z: i64, y: i64, x: i64) -> f64 {
    let at = [z, y, x];
    let inside = at.iter().zip(&memory.extents).all(|(&p, &n)| p >= 0 && p < n as i64);
    if !inside {
        return -7.0;
    }
    let (values, axes, _) = &memory.names[name];
    let place = axes.iter().fold(0, |place, &a| place * memory.extents[a] as i64 + at[a]);
    values[place as usize]
}

#[test]
fn neighbours_beyond_the_edge_are_what_the_rule_says() {
    let tree = tree("u[x+2]");
    let extents = [1u64, 1, 5];
    let (mut memory, meanings) = memory(&tree, &extents, false);
    let u = memory.names[0].0.clone();
    let mut run = |edge| {
        let field = Field::new(&tree, &dims(), &meanings, edge).unwrap();
        evaluate(&field, &mut memory, &[0, 0, 0], &[1, 1, 5]).remove(0)
    };
    let bits = |values: [f64; 5]| values.map(|v| Some(v.to_bits())).to_vec();
    assert_eq!(run(Edge::OneSided), bits([u[2], u[3], u[4], u[4], u[4]]));
    assert_eq!(run(Edge::Fill), bits([u[2], u[3], u[4], -7.0, -7.0]));
    assert_eq!(run(Edge::Periodic), bits([u[2], u[3], u[4], u[0], u[1]]));
    let nan = run(Edge::Nan);
    assert_eq!((&nan[..3], &nan[3..]), (&bits([u[2], u[3], u[4], 0.0, 0.0])[..3], &[None, None][..]));
}

#[test]
fn differences_are_those_of_the_formulas() {
    let tree = tree("vector(diff(u, x), diff(u, y), diff2(u, x), diff(u, z, 3))");
    let extents = [4u64, 5, 6];
    let (mut memory, meanings) = memory(&tree, &extents, false);
    let field = Field::new(&tree, &dims(), &meanings, Edge::OneSided).unwrap();
    let found = evaluate(&field, &mut memory, &[0, 0, 0], &extents);
    let u = tree.names().iter().position(|name| name.path() == "u").unwrap();
    let x: Vec<f64> = (0..6).map(|n| f64::from(n * n) * 0.25).collect();
    let mut n = 0;
    for k in 0..4i64 {
        for j in 0..5i64 {
            for i in 0..6i64 {
                let at = |z, y, x| cell(&memory, u, z, y, x);
                let (d1, d2) = (x[i.max(1) as usize] - x[(i - 1).max(0) as usize], {
                    let i = i.min(4) as usize;
                    x[i + 1] - x[i]
                });
                let along_x = match i {
                    0 => (at(k, j, 1) - at(k, j, 0)) / (x[1] - x[0]),
                    5 => (at(k, j, 5) - at(k, j, 4)) / (x[5] - x[4]),
                    _ => {
                        let a = -d2 / (d1 * (d1 + d2));
                        let b = (d2 - d1) / (d1 * d2);
                        let c = d1 / (d2 * (d1 + d2));
                        a * at(k, j, i - 1) + b * at(k, j, i) + c * at(k, j, i + 1)
                    }
                };
                let (lo, hi) = ((j - 1).max(0), (j + 1).min(4));
                let along_y = (at(k, hi, i) - at(k, lo, i)) / (0.5 * (hi - lo) as f64);
                let (lo, hi) = ((k - 1).max(0), (k + 1).min(3));
                let along_z = (at(hi, j, i) - at(lo, j, i)) / (3.0 * (hi - lo) as f64);
                assert_eq!(found[0][n], Some(along_x.to_bits()), "x at {k} {j} {i}");
                assert_eq!(found[1][n], Some(along_y.to_bits()), "y at {k} {j} {i}");
                assert_eq!(found[3][n], Some(along_z.to_bits()), "z at {k} {j} {i}");
                let c = i.clamp(1, 4);
                let (d1, d2) = (x[c as usize] - x[c as usize - 1], x[c as usize + 1] - x[c as usize]);
                let second = 2.0 / (d1 * (d1 + d2)) * at(k, j, c - 1)
                    + -2.0 / (d1 * d2) * at(k, j, c)
                    + 2.0 / (d2 * (d1 + d2)) * at(k, j, c + 1);
                assert_eq!(found[2][n], Some(second.to_bits()), "second at {k} {j} {i}");
                n += 1;
            }
        }
    }
}

#[test]
fn the_halo_is_known_before_anything_is_read_and_nothing_else_is() {
    let tree = tree("u[x+1] + diff(diff(u, y, 1), y, 1)");
    let extents = [9u64, 9, 9];
    let (mut memory, meanings) = memory(&tree, &extents, false);
    let field = Field::new(&tree, &dims(), &meanings, Edge::OneSided).unwrap();
    let reach = field.reach(&[2, 4, 3], &[4, 5, 6], &extents);
    assert_eq!((reach[0].lo.clone(), reach[0].hi.clone()), (vec![2, 2, 3], vec![4, 7, 7]));
    evaluate(&field, &mut memory, &[2, 4, 3], &[4, 5, 6]);
    assert_eq!(memory.read, 2 * 5 * 4);
}

#[test]
fn a_mean_skips_unwritten_cells_and_a_sum_is_that_of_numbers_added_exactly() {
    let tree = tree("vector(sum(u), mean(u), amin(u), amax(u))");
    let (mut memory, meanings) = memory(&tree, &[3, 4, 5], false);
    memory.names[0].0 = vec![1e16, 1.0, -1e16].into_iter().cycle().take(60).collect();
    memory.names[0].2 = (0..60).map(|n| u8::from(n != 0)).collect();
    let field = Field::new(&tree, &dims(), &meanings, Edge::OneSided).unwrap();
    let found = evaluate(&field, &mut memory, &[], &[]);
    let value = |n: usize| f64::from_bits(found[n][0].unwrap());
    assert_eq!((value(0), value(1)), (20.0 - 1e16, (20.0 - 1e16) / 59.0));
    assert_eq!((value(2), value(3)), (-1e16, 1e16));
}

#[test]
fn meaningless_expressions_are_refused_by_name() {
    let refused = |text: &str, extents: &[u64], expected: &str| {
        let error = match parse_along(text, |_| false, dims()) {
            Err(error) => error,
            Ok(tree) => {
                let (_, meanings) = memory(&tree, extents, false);
                match Field::new(&tree, &dims(), &meanings, Edge::OneSided) {
                    Err(error) => error,
                    Ok(field) => Runner::new(&field, extents).expect_err(text),
                }
            }
        };
        assert!(error.to_string().contains(expected), "{text}: {error}");
    };
    refused("diff(u, q)", &[5, 5, 5], "no dimension `q`");
    refused("diff(u, 3)", &[5, 5, 5], "no dimension 3");
    refused("diff(u > 1, x)", &[5, 5, 5], "truth value");
    refused("diff(a, x)", &[5, 5, 5], "does not vary");
    refused("u[x+7]", &[5, 5, 5], "8 cells along dimension 2, which has 5");
    refused("laplacian(u)", &[5, 5, 2], "needs 3 cells");
    refused("diff(u, x)", &[5, 5, 1], "needs 2 cells");
    refused("sum(u > 0)", &[5, 5, 5], "`count(c)`");
    refused("count(u)", &[5, 5, 5], "not a condition");
    refused("diff(curl(u, v, w), x)", &[5, 5, 5], "vector");
    refused("diff(u, x, 0)", &[5, 5, 5], "distance");
    refused("diff(u, x + 1)", &[5, 5, 5], "dimension is needed");
    refused("sum(u, x, x)", &[5, 5, 5], "twice");
    refused("where(curl(u, v, w) > 1, u, v)", &[5, 5, 5], "vector");
}
