//! Loops over blocks give the bits of single operations.

use drystone_expression::{
    Answer, Binary, Column, ColumnMut, Input, Program, Scalar, Scratch, Step, Type, Unary, parse,
};

use crate::random::Random;

/// Computes one cell step by step.
fn one_by_one(program: &Program, cells: &[f64; 3]) -> f64 {
    let mut values: Vec<f64> = Vec::new();
    for (step, dtype) in program.steps() {
        let of = |n: u16| values[usize::from(n)];
        let value = match step {
            Step::Input(i) => cells[usize::from(i)],
            Step::Constant(value) => match value {
                Scalar::Float(x) => x,
                other => panic!("{other} in {program}"),
            },
            Step::Unary(Unary::Sqrt, a) => of(a).sqrt(),
            Step::Binary(op, a, b) => match op {
                Binary::Add => of(a) + of(b),
                Binary::Sub => of(a) - of(b),
                Binary::Mul => of(a) * of(b),
                Binary::Div => of(a) / of(b),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        // An operation on f4 rounds as if it were computed in f8 and rounded: f8 has more than twice the digits.
        values.push(if dtype == Type::F4 { f64::from(value as f32) } else { value });
    }
    values[program.result()]
}

#[test]
fn steps_that_run_as_one_loop_round_as_single_steps_do() {
    let random = &mut Random(0x6472_7973_746f_6e65);
    const CELLS: usize = 1500;
    for round in 0..400 {
        let dtype = if round % 2 == 0 { Type::F4 } else { Type::F8 };
        let mut terms: Vec<String> = (0..3 + random.below(6))
            .map(|_| match random.below(5) {
                0 => format!("{}.{}", random.below(9), random.below(90)),
                _ => random.pick(&["u", "v", "w"]).to_owned(),
            })
            .collect();
        while terms.len() > 1 {
            let (a, b) = (terms.swap_remove(random.below(terms.len())), random.below(terms.len()));
            let op = random.pick(&["+", "-", "*", "+", "-", "*", "/"]);
            terms[b] = match random.below(12) {
                0 => format!("sqrt({a} {op} {})", terms[b]),
                // The same operand twice, which is then no operand of one loop.
                1 => format!("(({a}) {op} ({a})) - {}", terms[b]),
                2 => format!("({} {op} ({a}))", terms[b]),
                _ => format!("(({a}) {op} {})", terms[b]),
            };
        }
        let text = &terms[0];
        let Ok(program) = parse(text).unwrap().check(|_| Answer::Type(dtype)) else { continue };
        if program.dtype() != dtype {
            continue;
        }
        let mut value = || match random.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => -0.0,
            _ => f64::from((random.next() as i32) as f32) / 65536.0,
        };
        let cells: Vec<[f64; 3]> = (0..CELLS).map(|_| [value(), value(), value()]).collect();
        let columns: Vec<Vec<f64>> = (0..3).map(|k| cells.iter().map(|c| c[k]).collect()).collect();
        let narrow: Vec<Vec<f32>> = columns.iter().map(|c| c.iter().map(|x| *x as f32).collect()).collect();
        let inputs: Vec<Input<'_>> = (0..program.inputs().len())
            .map(|k| if dtype == Type::F4 { Column::F4(&narrow[k]) } else { Column::F8(&columns[k]) }.into())
            .collect();
        let (mut out, mut wide) = (vec![0f32; CELLS], vec![0f64; CELLS]);
        let room = if dtype == Type::F4 { ColumnMut::F4(&mut out) } else { ColumnMut::F8(&mut wide) };
        let mut known = vec![0; CELLS.div_ceil(64)];
        program.compute(&inputs, CELLS, &mut Scratch::new(&program), room, &mut known).unwrap();
        for (n, cell) in cells.iter().enumerate() {
            let found = if dtype == Type::F4 { f64::from(out[n]) } else { wide[n] };
            let expected = one_by_one(&program, cell);
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{text} of {cell:?}: {found}, not {expected}");
        }
    }
}
