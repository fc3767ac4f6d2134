//! The body of the fuzz target: what must hold for any bytes. Tests also run it with mutated bytes.

use crate::bounds::{Bounds, Extremes, Outcome, Truth};
use crate::check::Answer;
use crate::constant::Scalar;
use crate::dense::{Column, Input, Scratch};
use crate::field::{Array, Called, Cells, Edge, Field, Meaning, Runner, Spare, Tile, Values};
use crate::parser::{parse, parse_question, parse_with_words};
use crate::program::Program;
use crate::tree::Tree;
use crate::types::Type;
use crate::words::Worded;

/// Parses bytes as a text and decodes them as a tree. Each result is printed, encoded, typed and evaluated.
///
/// # Panics
/// If a promise of this crate does not hold.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        match parse(text) {
            Ok(tree) => examine(&tree),
            Err(error) => assert!(!error.render(text).is_empty(), "an error says something"),
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(tree) = parse_with_words(text, |_| false)
    {
        let number = |_: &_, op, word: &str| match word.len() {
            0 => Err(String::from("no word")),
            n => Ok(Worded { op, value: n as i128, except: (n > 3).then_some(-1) }),
        };
        if let Ok(tree) = tree.with_words(number) {
            assert!(!tree.has_words(), "no text is left");
            examine(&tree);
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(question) = parse_question(text)
    {
        let printed = question.to_string();
        match parse_question(&printed) {
            Ok(again) => assert_eq!(again, question, "{printed}"),
            Err(error) => panic!("{printed}: {error}"),
        }
        let _ = question.check(|_| Answer::Type(Type::F8));
    }
    if let Ok(tree) = Tree::decode(data) {
        assert_eq!(tree.encode(), data, "a tree has one encoding");
        examine(&tree);
    }
}

fn examine(tree: &Tree) {
    let printed = tree.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(&again, tree, "{printed}"),
        Err(error) => panic!("{printed}: {error}"),
    }
    match Tree::decode(&tree.encode()) {
        Ok(again) => assert_eq!(&again, tree, "{printed}"),
        Err(error) => panic!("{printed}: {error}"),
    }
    let _ = tree.halo();
    evaluate_field(tree);
    for first in 0..3 {
        // The letters of a name choose its type, so that every type occurs.
        let program = tree.check(|name| {
            let sum: usize = name.to_string().bytes().map(usize::from).sum();
            Answer::Type(Type::ALL[(first + sum) % Type::ALL.len()])
        });
        if let Ok(program) = program {
            evaluate(&program);
        }
    }
}

/// Evaluates the tree as a field on a small grid: the value of a cell must not depend on its box.
fn evaluate_field(tree: &Tree) {
    const DIMS: [&str; 2] = ["y", "x"];
    if tree.names().len() > 8 || tree.nodes().len() > 200 {
        return;
    }
    let meanings: Vec<Meaning> = tree
        .names()
        .iter()
        .map(|name| Meaning {
            answer: Answer::Type(if name.path().len() % 2 == 0 { Type::I4 } else { Type::F8 }),
            axes: if DIMS.contains(&name.path()) { vec![1] } else { vec![0, 1] },
            coordinate: name.path() == "x",
        })
        .collect();
    for edge in Edge::ALL {
        let Ok(field) = Field::new(tree, &DIMS.map(String::from), &meanings, edge) else { continue };
        let Ok(mut runner) = Runner::new(&field, &[4, 5]) else { continue };
        let extents: Vec<u64> = field.axes().iter().map(|&axis| [4, 5][axis]).collect();
        let zero = vec![0; extents.len()];
        let (mut counted, mut spare) = (Counted(meanings.clone()), Spare::default());
        let Ok(whole) = runner.run(&zero, &extents, &mut counted, &mut spare) else { continue };
        let last: Vec<u64> = extents.iter().map(|n| n - 1).collect();
        match runner.run(&last, &extents, &mut counted, &mut spare) {
            Ok(part) => {
                for (part, whole) in part.iter().zip(&whole) {
                    let bits = |array: &Array, n: usize| match &array.values {
                        Values::F8(v) => v[n].to_bits(),
                        other => u64::try_from(other.count()).unwrap_or(0).min(1),
                    };
                    assert_eq!(bits(part, 0), bits(whole, whole.values.count() - 1), "{tree}");
                }
            }
            Err(error) => panic!("{tree}: {error}"),
        }
    }
}

/// Values that identify the position of their cell.
struct Counted(Vec<Meaning>);

impl Cells for Counted {
    type Error = crate::error::Error;

    fn read(&mut self, name: usize, lo: &[u64], hi: &[u64], _: &mut Spare) -> Result<Array, Self::Error> {
        let mut places = vec![0u64];
        for (from, to) in lo.iter().zip(hi) {
            places = places.iter().flat_map(|&p| (*from..*to).map(move |n| 7 * p + n)).collect();
        }
        let values = match self.0[name].answer {
            Answer::Type(Type::I4) => Values::I4(places.iter().map(|&p| p as i32 - 9).collect()),
            _ => Values::F8(places.iter().map(|&p| (p * p) as f64 - 20.5).collect()),
        };
        Ok(Array { values, known: None })
    }

    fn fill(&mut self, name: usize) -> Values {
        match self.0[name].answer {
            Answer::Type(Type::I4) => Values::I4(vec![0]),
            _ => Values::F8(vec![0.0]),
        }
    }

    /// The value at the first corner of the halo, so a function that needs its neighbours.
    fn call(&mut self, call: &Called, tile: Tile<'_>, values: &mut Values) -> Result<(), Self::Error> {
        let width: Vec<usize> = tile.shape.iter().zip(&call.halo).map(|(n, h)| n + 2 * *h as usize).collect();
        let mut places = vec![0];
        for (n, width) in tile.shape.iter().zip(&width) {
            places = places.iter().flat_map(|&p| (0..*n).map(move |at| p * width + at)).collect();
        }
        if let (Values::F8(from), Values::F8(to)) = (tile.values, values) {
            to.iter_mut().zip(places).for_each(|(to, place)| *to = from[place]);
        }
        Ok(())
    }

    fn coordinate(&mut self, _: usize) -> Result<Vec<f64>, Self::Error> {
        Ok(vec![0.0, 1.0, 3.0, 4.0, 9.0])
    }
}

/// Values of every type, near the points where results change. Bounds must agree with the results.
fn evaluate(program: &Program) {
    if program.inputs().len() > 16 {
        return;
    }
    const CELLS: usize = 8;
    let f8 = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, -1.5, 1e300, f64::MIN_POSITIVE];
    let f4 = f8.map(|x| x as f32);
    let (i8s, i4, i2) = (
        [i64::MIN, -1, 0, 1, 2, 63, 64, i64::MAX],
        [i32::MIN, -7, 0, 1, 3, 31, 32, i32::MAX],
        [1i16, -1, 0, 15, 16, 7, i16::MIN, i16::MAX],
    );
    let (i1, u1) = ([i8::MIN, -1, 0, 1, 7, 8, 2, i8::MAX], [0u8, 1, 2, 7, 8, 128, 254, 255]);
    let (u2, u4, u8s) = (
        [0u16, 1, 2, 15, 16, 9, 8, u16::MAX],
        [0u32, 1, 2, 31, 32, 5, 6, u32::MAX],
        [0u64, 1, 2, 63, 64, 9, 1 << 63, u64::MAX],
    );
    let bools = [0u8, 1, 1, 0, 0, 1, 255, 0];
    let written = [0b1110_1111u64];
    let columns = |dtype: Type| match dtype {
        Type::Bool => (Column::Bool(&bools), Scalar::Bool(false), Scalar::Bool(true)),
        Type::I1 => (Column::I1(&i1), integer(i8::MIN), integer(i8::MAX)),
        Type::I2 => (Column::I2(&i2), integer(i16::MIN), integer(i16::MAX)),
        Type::I4 => (Column::I4(&i4), integer(i32::MIN), integer(i32::MAX)),
        Type::I8 => (Column::I8(&i8s), integer(i64::MIN), integer(i64::MAX)),
        Type::U1 => (Column::U1(&u1), integer(0u8), integer(u8::MAX)),
        Type::U2 => (Column::U2(&u2), integer(0u16), integer(u16::MAX)),
        Type::U4 => (Column::U4(&u4), integer(0u32), integer(u32::MAX)),
        Type::U8 => (Column::U8(&u8s), integer(0u64), integer(u64::MAX)),
        Type::F4 => (Column::F4(&f4), Scalar::Float(-1.5), Scalar::Float(f64::INFINITY)),
        Type::F8 => (Column::F8(&f8), Scalar::Float(-1.5), Scalar::Float(f64::INFINITY)),
    };
    let inputs: Vec<Input<'_>> = program
        .inputs()
        .iter()
        .enumerate()
        .map(|(n, &(_, dtype))| Input { values: columns(dtype).0, written: (n % 2 == 1).then_some(&written) })
        .collect();
    let bounds: Vec<Bounds> = program
        .inputs()
        .iter()
        .enumerate()
        .map(|(n, &(_, dtype))| {
            let (_, least, greatest) = columns(dtype);
            let unwritten = if n % 2 == 1 { 1 } else { 0 };
            let nans = u64::from(dtype.is_float());
            Bounds { extremes: Extremes::Within(least, greatest), nans, unwritten, cells: CELLS as u64 }
        })
        .collect();
    let outcome = program.bounds(&bounds);
    let mut hits = [0];
    if let Ok(count) = program.select(&inputs, CELLS, &mut Scratch::new(program), &mut hits) {
        match outcome {
            Outcome::Condition(Truth::None) => assert_eq!(count, 0, "{program}"),
            Outcome::Condition(Truth::All) => assert_eq!(count, CELLS as u64, "{program}"),
            _ => {}
        }
    }
}

fn integer(n: impl Into<i128>) -> Scalar {
    Scalar::Integer(n.into())
}
