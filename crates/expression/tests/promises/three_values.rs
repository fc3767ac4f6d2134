//! Unwritten cells are unknown; some results are known nevertheless.

use drystone_expression::{Column, ColumnMut, Input, Scratch};

use crate::program;

/// Every pair of true, false and unknown, as two columns of nine cells.
const A: [u8; 9] = [1, 1, 1, 0, 0, 0, 1, 0, 1];
const B: [u8; 9] = [1, 0, 1, 1, 0, 1, 1, 0, 0];
const A_WRITTEN: [u64; 1] = [0b0_0011_1111];
const B_WRITTEN: [u64; 1] = [0b0_1101_1011];

/// One letter per cell: t, f, or ? for unknown.
fn letters(text: &str) -> String {
    let program = program(text);
    let inputs: Vec<Input<'_>> = program
        .inputs()
        .iter()
        .map(|(name, _)| match name.path() {
            "bool_a" => Input { values: Column::Bool(&A), written: Some(&A_WRITTEN) },
            _ => Input { values: Column::Bool(&B), written: Some(&B_WRITTEN) },
        })
        .collect();
    let (mut values, mut known, mut hits) = ([9; 9], [u64::MAX], [u64::MAX]);
    let mut scratch = Scratch::new(&program);
    program.compute(&inputs, 9, &mut scratch, ColumnMut::Bool(&mut values), &mut known).unwrap();
    program.select(&inputs, 9, &mut scratch, &mut hits).unwrap();
    let letter = |i: usize| match (known[0] >> i & 1, values[i]) {
        (0, _) => '?',
        (_, 1) => 't',
        _ => 'f',
    };
    let out: String = (0..9).map(letter).collect();
    let hit: String = (0..9).map(|i| if hits[0] >> i & 1 == 1 { 't' } else { '.' }).collect();
    assert_eq!(out.replace(['f', '?'], "."), hit, "unknown is no hit: {text}");
    assert_eq!((known[0] | hits[0]) >> 9, 0, "nothing is set beyond the cells");
    out
}

#[test]
fn conditions_have_three_values() {
    assert_eq!(letters("bool_a"), "tttfff???");
    assert_eq!(letters("bool_b"), "tf?tf?tf?");
    assert_eq!(letters("~bool_a"), "fffttt???");
    assert_eq!(letters("bool_a & bool_b"), "tf?fff?f?");
    assert_eq!(letters("bool_a | bool_b"), "ttttf?t??");
    assert_eq!(letters("bool_a ^ bool_b"), "ft?tf????");
    assert_eq!(letters("bool_a == bool_b"), "tf?ft????");
    assert_eq!(letters("bool_a & true"), "tttfff???");
    assert_eq!(letters("bool_a & false"), "fffffffff");
    assert_eq!(letters("bool_a | true"), "ttttttttt");
    assert_eq!(letters("where(bool_a, bool_b, true)"), "tf?ttt???");
    assert_eq!(letters("where(bool_a, true, false)"), "tttfff???");
}

#[test]
fn not_is_the_complement_among_known_cells() {
    for text in ["bool_a & bool_b", "bool_a | ~bool_b", "where(bool_b, bool_a, false)", "bool_a != bool_b"] {
        let swapped: String = letters(text)
            .chars()
            .map(|c| {
                if c == 't' {
                    'f'
                } else if c == 'f' {
                    't'
                } else {
                    c
                }
            })
            .collect();
        assert_eq!(letters(&format!("~({text})")), swapped, "{text}");
    }
}

#[test]
fn values_are_unknown_where_an_input_that_matters_is() {
    let program = program("where(f8_a > 1, f8_b, f8_a + 1)");
    let (a, b) = ([0.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]);
    let inputs = [
        Input { values: Column::F8(&a), written: Some(&[0b0111]) },
        Input { values: Column::F8(&b), written: Some(&[0b1010]) },
    ];
    let (mut out, mut known) = ([0.0; 4], [0]);
    let mut scratch = Scratch::new(&program);
    program.compute(&inputs, 4, &mut scratch, ColumnMut::F8(&mut out), &mut known).unwrap();
    assert_eq!((out[0], out[1], known[0]), (1.0, 20.0, 0b0011), "the first needs no b; the last has no a");
}

#[test]
fn nan_satisfies_isnan_and_unequal_only() {
    let a = [f64::NAN];
    for (text, hit) in [
        ("f8_a == f8_a", 0),
        ("f8_a < 1", 0),
        ("f8_a <= f8_a", 0),
        ("f8_a > 1", 0),
        ("f8_a >= 1", 0),
        ("f8_a != 1", 1),
        ("f8_a != f8_a", 1),
        ("f8_a == nan", 0),
        ("isnan(f8_a)", 1),
        ("isfinite(f8_a)", 0),
        ("~(f8_a > 1)", 1),
        ("isnan(min(f8_a, 1))", 1),
        ("isnan(max(1, f8_a))", 1),
        ("isnan(clip(f8_a, 0, 1))", 1),
    ] {
        let (program, mut hits) = (program(text), [0]);
        let inputs = vec![Input::from(Column::F8(&a)); program.inputs().len()];
        let count = program.select(&inputs, 1, &mut Scratch::new(&program), &mut hits).unwrap();
        assert_eq!(count, hit, "{text}");
    }
}

#[test]
fn blocks_of_any_length_agree() {
    let cells = 3 * drystone_expression::BLOCK + 77;
    let a: Vec<f32> = (0..cells).map(|i| (i % 1009) as f32).collect();
    let b: Vec<i32> = (0..cells as i32).collect();
    let written: Vec<u64> =
        (0..cells.div_ceil(64)).map(|i| 0x9e37_79b9_7f4a_7c15u64.rotate_left(i as u32)).collect();
    let program = program("f4_a * 2 > 500 & (i4_b % 3 == 0 | f4_a < 600)");
    let mut scratch = Scratch::new(&program);
    let is_written = |i: usize| written[i / 64] >> (i % 64) & 1 == 1;
    for count in [0, 1, 63, 64, 65, 4095, 4096, 4097, cells] {
        let inputs = [
            Input { values: Column::F4(&a), written: None },
            Input { values: Column::I4(&b), written: Some(&written) },
        ];
        let mut hits = vec![u64::MAX; cells.div_ceil(64)];
        let found = program.select(&inputs, count, &mut scratch, &mut hits).unwrap();
        let holds = |i: usize| {
            let first = a[i] * 2.0 > 500.0;
            let second = a[i] < 600.0 || is_written(i) && b[i] % 3 == 0;
            first && second
        };
        for i in 0..cells {
            assert_eq!(hits[i / 64] >> (i % 64) & 1 == 1, i < count && holds(i), "cell {i} of {count}");
        }
        assert_eq!(found as usize, (0..count).filter(|&i| holds(i)).count());
    }
}

#[test]
fn a_constant_takes_the_memory_of_one_value() {
    let terms = |n: i32| (0..n).map(|i| format!("i4_a == {}", 3 * i)).collect::<Vec<_>>().join(" | ");
    let (few, many) = (program(&terms(12)), program(&terms(200)));
    let mut scratch = Scratch::new(&many);
    assert_eq!(scratch.memory_len(), Scratch::new(&few).memory_len() + 188 * size_of::<i32>());
    let values: Vec<i32> = (0..1000).collect();
    let mut hits = [0; 16];
    let count = many.select(&[Column::I4(&values).into()], 1000, &mut scratch, &mut hits).unwrap();
    assert_eq!(count, 200);
    assert!((0..1000).all(|i| (hits[i / 64] >> (i % 64) & 1 == 1) == (i % 3 == 0 && i < 600)));
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let (condition, values) = (program("f4_a > i4_b"), program("f4_a + 1"));
    let (a, b) = ([0f32; 10], [0i32; 10]);
    let good = [Input::from(Column::F4(&a)), Input::from(Column::I4(&b))];
    let mut hits = [0; 1];
    let mut scratch = Scratch::new(&condition);
    assert!(condition.select(&good, 10, &mut scratch, &mut hits).is_ok());
    assert!(condition.select(&good[..1], 10, &mut scratch, &mut hits).is_err());
    assert!(condition.select(&[good[1], good[0]], 10, &mut scratch, &mut hits).is_err());
    assert!(condition.select(&good, 11, &mut scratch, &mut hits).is_err());
    assert!(condition.select(&good, 10, &mut scratch, &mut []).is_err());
    assert!(condition.select(&good, 10, &mut Scratch::new(&values), &mut hits).is_err());
    let masked = [Input { written: Some(&[]), ..good[0] }, good[1]];
    assert!(condition.select(&masked, 10, &mut scratch, &mut hits).is_err());
    let mut scratch = Scratch::new(&values);
    assert!(values.select(&good[..1], 10, &mut scratch, &mut hits).is_err());
    let mut out = [0f64; 10];
    assert!(values.compute(&good[..1], 10, &mut scratch, ColumnMut::F8(&mut out), &mut hits).is_err());
}
