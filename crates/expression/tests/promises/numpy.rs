//! Results equal NumPy's: numpy_values.py wrote tests/vectors/expressions/numpy_values.txt.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use drystone_expression::{Column, ColumnMut, Input, Scratch, Type};

use crate::program;

const CELLS: usize = 32;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
}

macro_rules! columns {
    ($($variant:ident $t:ty),*) => {
        enum Values {
            Bool(Vec<u8>),
            $($variant(Vec<$t>),)*
        }

        impl Values {
            fn new(dtype: Type, bytes: &[u8]) -> Self {
                match dtype {
                    Type::Bool => Values::Bool(bytes.to_vec()),
                    $(Type::$variant => {
                        let one = |b: &[u8]| <$t>::from_le_bytes(b.try_into().unwrap());
                        Values::$variant(bytes.chunks(size_of::<$t>()).map(one).collect())
                    })*
                }
            }

            fn column(&self) -> Column<'_> {
                match self {
                    Values::Bool(values) => Column::Bool(values),
                    $(Values::$variant(values) => Column::$variant(values),)*
                }
            }

            fn column_mut(&mut self) -> ColumnMut<'_> {
                match self {
                    Values::Bool(values) => ColumnMut::Bool(values),
                    $(Values::$variant(values) => ColumnMut::$variant(values),)*
                }
            }

            fn bytes(&self) -> Vec<u8> {
                match self {
                    Values::Bool(values) => values.clone(),
                    $(Values::$variant(values) => values.iter().flat_map(|x| x.to_le_bytes()).collect(),)*
                }
            }
        }
    };
}

columns!(I1 i8, I2 i16, I4 i32, I8 i64, U1 u8, U2 u16, U4 u32, U8 u64, F4 f32, F8 f64);

/// The bits of one value, ordered as the floats are, and whether it is NaN.
fn place(dtype: Type, value: &[u8]) -> (i64, bool) {
    let ordered = |bits: i64, least: i64| if bits < 0 { least.wrapping_sub(bits) } else { bits };
    match dtype {
        Type::F4 => {
            let x = f32::from_le_bytes(value.try_into().unwrap());
            (ordered((x.to_bits() as i32).into(), i32::MIN.into()), x.is_nan())
        }
        Type::F8 => {
            let x = f64::from_le_bytes(value.try_into().unwrap());
            (ordered(x.to_bits() as i64, i64::MIN), x.is_nan())
        }
        _ => (0, false),
    }
}

fn same(mode: &str, dtype: Type, expected: &[u8], found: &[u8]) -> bool {
    let ((a, a_nan), (b, b_nan)) = (place(dtype, expected), place(dtype, found));
    if a_nan || b_nan || !dtype.is_float() {
        return a_nan && b_nan || expected == found;
    }
    match mode {
        "exact" => expected == found,
        "signless" => a == b,
        ulps => a.abs_diff(b) <= ulps.parse().unwrap(),
    }
}

#[test]
fn results_are_numpys() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/expressions/numpy_values.txt");
    let file = fs::read_to_string(file).unwrap();
    let mut inputs: HashMap<&str, Values> = HashMap::new();
    let (mut seen, mut wrong) = (0, Vec::new());
    for line in file.lines() {
        let (mode, rest) = line.split_once(' ').unwrap();
        if mode == "input" {
            let words: Vec<&str> = rest.split(' ').collect();
            inputs.insert(words[0], Values::new(Type::from_name(words[1]).unwrap(), &bytes(words[2])));
            continue;
        }
        let mut fields = rest.rsplitn(3, " | ");
        let expected = bytes(fields.next().unwrap());
        let dtype = Type::from_name(fields.next().unwrap()).unwrap();
        let text = fields.next().unwrap();
        let program = program(text);
        assert_eq!(program.dtype(), dtype, "{text}");
        let given: Vec<Input<'_>> =
            program.inputs().iter().map(|(name, _)| inputs[name.path()].column().into()).collect();
        let mut out = Values::new(dtype, &vec![0; CELLS * dtype.size()]);
        let mut known = [0];
        program.compute(&given, CELLS, &mut Scratch::new(&program), out.column_mut(), &mut known).unwrap();
        assert_eq!(known[0], (1 << CELLS) - 1, "{text}");
        let found = out.bytes();
        for i in 0..CELLS {
            let at = i * dtype.size()..(i + 1) * dtype.size();
            if !same(mode, dtype, &expected[at.clone()], &found[at.clone()]) {
                wrong.push(format!(
                    "{text}: cell {i} is {:02x?}, NumPy's {:02x?}",
                    &found[at.clone()],
                    &expected[at]
                ));
            }
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(seen > 900, "{seen} expressions");
}
