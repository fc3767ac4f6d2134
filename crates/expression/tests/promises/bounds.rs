//! Bounds from statistics hold for all values: random expressions, values and unwritten cells.

use drystone_expression::{
    Bounds, Column, ColumnMut, Extremes, Input, Outcome, Program, Scalar, Scratch, Truth, Type,
};

use crate::random::{Random, condition, number};
use crate::{checked, program};

const CELLS: usize = 24;

macro_rules! owned {
    ($($variant:ident $t:ty),*) => {
        /// Values of one input.
        enum Owned {
            Bool(Vec<u8>),
            $($variant(Vec<$t>),)*
        }

        impl Owned {
            fn column(&self) -> Column<'_> {
                match self {
                    Owned::Bool(values) => Column::Bool(values),
                    $(Owned::$variant(values) => Column::$variant(values),)*
                }
            }

            fn column_mut(&mut self) -> ColumnMut<'_> {
                match self {
                    Owned::Bool(values) => ColumnMut::Bool(values),
                    $(Owned::$variant(values) => ColumnMut::$variant(values),)*
                }
            }

            fn zeros(dtype: Type) -> Owned {
                match dtype {
                    Type::Bool => Owned::Bool(vec![0; CELLS]),
                    $(Type::$variant => Owned::$variant(vec![0 as $t; CELLS]),)*
                }
            }
        }
    };
}

owned!(I1 i8, I2 i16, I4 i32, I8 i64, U1 u8, U2 u16, U4 u32, U8 u64, F4 f32, F8 f64);

impl Owned {
    fn scalar(&self, i: usize) -> Scalar {
        match self {
            Owned::Bool(values) => Scalar::Bool(values[i] != 0),
            Owned::F4(values) => Scalar::Float(values[i].into()),
            Owned::F8(values) => Scalar::Float(values[i]),
            Owned::I1(values) => Scalar::Integer(values[i].into()),
            Owned::I2(values) => Scalar::Integer(values[i].into()),
            Owned::I4(values) => Scalar::Integer(values[i].into()),
            Owned::I8(values) => Scalar::Integer(values[i].into()),
            Owned::U1(values) => Scalar::Integer(values[i].into()),
            Owned::U2(values) => Scalar::Integer(values[i].into()),
            Owned::U4(values) => Scalar::Integer(values[i].into()),
            Owned::U8(values) => Scalar::Integer(values[i].into()),
        }
    }

    /// Values of several sorts: small numbers, random bits, extremes, all equal.
    fn random(random: &mut Random, dtype: Type) -> Owned {
        let mut out = Owned::zeros(dtype);
        let sort = random.below(4);
        let float = |random: &mut Random, any: f64| match sort {
            0 => (random.below(200) as f64 - 100.0) / 8.0,
            1 => random.pick(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1e300, 1e-310]),
            2 => any,
            _ => 2.5,
        };
        macro_rules! fill {
            ($values:expr, $t:ty) => {
                $values.iter_mut().for_each(|x| {
                    *x = match sort {
                        0 => random.below(9) as $t,
                        1 => random.pick(&[<$t>::MIN, <$t>::MAX, 0, 1, <$t>::MIN + 1]),
                        2 => random.next() as $t,
                        _ => 3,
                    }
                })
            };
        }
        match &mut out {
            Owned::F4(values) => values.iter_mut().for_each(|x| {
                let any = f64::from(f32::from_bits(random.next() as u32));
                *x = float(random, any) as f32;
            }),
            Owned::F8(values) => values.iter_mut().for_each(|x| {
                let any = f64::from_bits(random.next());
                *x = float(random, any);
            }),
            Owned::Bool(values) => {
                values.iter_mut().for_each(|x| *x = if sort == 3 { 1 } else { random.below(2) as u8 });
            }
            Owned::I1(values) => fill!(values, i8),
            Owned::I2(values) => fill!(values, i16),
            Owned::I4(values) => fill!(values, i32),
            Owned::I8(values) => fill!(values, i64),
            Owned::U1(values) => fill!(values, u8),
            Owned::U2(values) => fill!(values, u16),
            Owned::U4(values) => fill!(values, u32),
            Owned::U8(values) => fill!(values, u64),
        }
        out
    }
}

fn less(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => !a & b,
        (Scalar::Integer(a), Scalar::Integer(b)) => a < b,
        (Scalar::Float(a), Scalar::Float(b)) => a < b,
        _ => panic!("{a} beside {b}"),
    }
}

fn is_nan(a: Scalar) -> bool {
    matches!(a, Scalar::Float(x) if x.is_nan())
}

/// The statistics that a container keeps of values.
fn statistics(values: &Owned, written: u64) -> Bounds {
    let all: Vec<Scalar> = (0..CELLS).filter(|i| written >> i & 1 == 1).map(|i| values.scalar(i)).collect();
    let numbers: Vec<Scalar> = all.iter().copied().filter(|&x| !is_nan(x)).collect();
    let extremes = match numbers.first() {
        None => Extremes::Empty,
        Some(&first) => {
            let least = numbers.iter().fold(first, |m, &x| if less(x, m) { x } else { m });
            let greatest = numbers.iter().fold(first, |m, &x| if less(m, x) { x } else { m });
            Extremes::Within(least, greatest)
        }
    };
    Bounds {
        extremes,
        nans: (all.len() - numbers.len()) as u64,
        unwritten: (CELLS - all.len()) as u64,
        cells: CELLS as u64,
    }
}

/// Evaluates both ways; true if the bounds decided a condition.
fn agree(random: &mut Random, text: &str, program: &Program) -> bool {
    let columns: Vec<(Owned, u64)> = program
        .inputs()
        .iter()
        .map(|&(_, dtype)| {
            let all = (1 << CELLS) - 1;
            let some = random.next() & all;
            (Owned::random(random, dtype), random.pick(&[all, all, some, 0]))
        })
        .collect();
    let words: Vec<[u64; 1]> = columns.iter().map(|(_, written)| [*written]).collect();
    let inputs: Vec<Input<'_>> = columns
        .iter()
        .zip(&words)
        .map(|((values, written), words)| {
            let whole = *written == (1 << CELLS) - 1;
            Input { values: values.column(), written: if whole { None } else { Some(words) } }
        })
        .collect();
    let bounds: Vec<Bounds> = columns.iter().map(|(values, written)| statistics(values, *written)).collect();
    let outcome = program.bounds(&bounds);
    let mut scratch = Scratch::new(program);
    let mut known = [0];
    let mut out = Owned::zeros(program.dtype());
    program.compute(&inputs, CELLS, &mut scratch, out.column_mut(), &mut known).unwrap();
    let shown = || {
        let inputs: Vec<String> = columns
            .iter()
            .zip(program.inputs())
            .map(|((v, w), (name, _))| {
                let values: Vec<String> = (0..CELLS).map(|i| v.scalar(i).to_string()).collect();
                format!("{name} = {} written {w:b}", values.join(" "))
            })
            .collect();
        format!("{text}\n{program}\n{}\n{outcome:?}", inputs.join("\n"))
    };
    match outcome {
        Outcome::Condition(truth) => {
            let mut hits = [0];
            let count = program.select(&inputs, CELLS, &mut scratch, &mut hits).unwrap();
            match truth {
                Truth::None => assert_eq!(count, 0, "{}", shown()),
                Truth::All => assert_eq!(count, CELLS as u64, "{}", shown()),
                Truth::Some => return false,
            }
            true
        }
        Outcome::Values { extremes, nan, unknown } => {
            for i in 0..CELLS {
                let value = out.scalar(i);
                if known[0] >> i & 1 == 0 {
                    assert!(unknown, "cell {i} is unknown\n{}", shown());
                } else if is_nan(value) {
                    assert!(nan, "cell {i} is NaN\n{}", shown());
                } else {
                    match extremes {
                        Extremes::Within(lo, hi) => {
                            assert!(!less(value, lo) && !less(hi, value), "cell {i} is {value}\n{}", shown());
                        }
                        Extremes::Empty => panic!("cell {i} is {value}\n{}", shown()),
                        Extremes::Unknown => {}
                    }
                }
            }
            false
        }
    }
}

#[test]
fn bounds_hold_for_every_value() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut seen, mut decided, mut conditions) = (0, 0, 0);
    for n in 0..30_000 {
        let size = n % 4;
        let text = if n % 8 < 4 {
            condition(&mut random, size)
        } else {
            let dtype = random.pick(&Type::ALL[1..]);
            number(&mut random, dtype, size)
        };
        let Ok(program) = checked(&text) else { continue };
        seen += 1;
        conditions += usize::from(program.dtype() == Type::Bool);
        decided += usize::from(agree(&mut random, &text, &program));
    }
    assert!(seen > 15_000, "{seen} expressions had types");
    assert!(5 * decided > conditions, "bounds decided {decided} of {conditions} conditions");
}

fn truth(text: &str, inputs: &[(f64, f64, u64, u64)]) -> Truth {
    let program = program(text);
    let bounds: Vec<Bounds> = inputs
        .iter()
        .zip(program.inputs())
        .map(|(&(lo, hi, nans, unwritten), (_, dtype))| {
            let scalar =
                |x: f64| if dtype.is_float() { Scalar::Float(x) } else { Scalar::Integer(x as i128) };
            Bounds { extremes: Extremes::Within(scalar(lo), scalar(hi)), nans, unwritten, cells: 100 }
        })
        .collect();
    match program.bounds(&bounds) {
        Outcome::Condition(truth) => truth,
        Outcome::Values { .. } => panic!("{text} is not a condition"),
    }
}

#[test]
fn statistics_decide_where_they_can() {
    assert_eq!(truth("f4_p > 3", &[(0.0, 3.0, 5, 5)]), Truth::None);
    assert_eq!(truth("f4_p > 3", &[(3.5, 9.0, 0, 0)]), Truth::All);
    assert_eq!(truth("f4_p > 3", &[(3.5, 9.0, 1, 0)]), Truth::Some, "NaN is no hit");
    assert_eq!(truth("f4_p > 3", &[(3.5, 9.0, 0, 1)]), Truth::Some, "unwritten is no hit");
    assert_eq!(truth("f4_p != 3", &[(3.5, 9.0, 1, 0)]), Truth::All, "NaN is unequal");
    assert_eq!(truth("~(f4_p > 3)", &[(0.0, 3.0, 5, 0)]), Truth::All);
    assert_eq!(truth("~(f4_p > 3)", &[(0.0, 3.0, 5, 5)]), Truth::Some);
    assert_eq!(truth("isnan(f4_p)", &[(0.0, 3.0, 0, 5)]), Truth::None);
    assert_eq!(truth("f4_p > 3 & i4_m == 2", &[(3.5, 9.0, 0, 0), (3.0, 7.0, 0, 0)]), Truth::None);
    assert_eq!(truth("f4_p > 3 | i4_m == 2", &[(3.5, 9.0, 0, 0), (1.0, 7.0, 0, 9)]), Truth::All);
    assert_eq!(truth("norm(f4_u, f4_v) > 3", &[(0.0, 2.0, 0, 0), (-2.0, 2.0, 0, 0)]), Truth::None);
    assert_eq!(truth("norm(f4_u, f4_v) > 3", &[(3.0, 4.0, 0, 0), (1.0, 2.0, 0, 0)]), Truth::All);
    assert_eq!(truth("f8_u / 2 - 1 < exp(f8_v)", &[(0.0, 2.0, 0, 0), (1.0, 2.0, 0, 0)]), Truth::All);
    assert_eq!(truth("u1_n < 300", &[(0.0, 255.0, 0, 0)]), Truth::All);
    assert_eq!(truth("i4_n % 4 == 5", &[(0.0, 255.0, 0, 0)]), Truth::None);
    assert_eq!(truth("u1_n + 1 > 0", &[(0.0, 255.0, 0, 0)]), Truth::Some, "the sum may wrap");
    assert_eq!(truth("where(f4_p > 3, f4_p, 9.0) > 2", &[(0.0, 5.0, 0, 0)]), Truth::Some);
    assert_eq!(truth("sqrt(f8_u) >= 0", &[(-1.0, 4.0, 0, 0)]), Truth::Some, "the root of -1 is NaN");
}

#[test]
fn without_statistics_nothing_is_said() {
    let program = program("f4_p > 3 | i4_m == 2");
    assert_eq!(program.bounds(&[]), Outcome::Condition(Truth::Some));
    assert_eq!(program.bounds(&[Bounds::unknown(9), Bounds::unknown(9)]), Outcome::Condition(Truth::Some));
    let extremes = Extremes::Within(Scalar::Float(9.0), Scalar::Float(1.0));
    let wrong = Bounds { extremes, nans: 0, unwritten: 0, cells: 9 };
    assert_eq!(program.bounds(&[wrong, wrong]), Outcome::Condition(Truth::Some), "the wrong way round");
}
