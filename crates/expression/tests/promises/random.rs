//! Random trees and values, the same in every run.

use drystone_expression::{Binary, Builder, Error, Name, NodeId, Tree, Type, Unary, functions};

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

const OPERATORS: [Binary; 17] = {
    use Binary::*;
    [Or, Xor, And, Eq, Ne, Lt, Le, Gt, Ge, Shl, Shr, Add, Sub, Mul, Div, FloorDiv, Mod]
};

/// A tree of about `size` nodes, of any form: most have no types.
pub(crate) fn any_tree(random: &mut Random, size: usize) -> Tree {
    loop {
        let mut builder = Builder::new();
        // A constant that is negated may leave its range.
        if let Ok(root) = any_node(random, &mut builder, size) {
            return builder.finish(root);
        }
    }
}

fn any_node(random: &mut Random, b: &mut Builder, size: usize) -> Result<NodeId, Error> {
    if size < 2 {
        return match random.below(8) {
            0 => b.boolean(random.below(2) == 0),
            1 => b.integer(random.next().into()),
            2 => b.integer((random.next() as i64).into()),
            3 => b.float(f64::from_bits(random.next())),
            4 => {
                let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 3e-5, 1e300, -2.5];
                b.float(random.pick(&floats))
            }
            5 => b.name(Name::new(random.pick(&["a/b", "not", "a`b", "x y", "é", "_", "3"]))?.member("x")?),
            6 => {
                let offsets = [("x".to_owned(), random.below(9) as i64 - 4), ("y z".to_owned(), 1)];
                b.name(Name::new("u")?.neighbour(offsets)?)
            }
            _ => b.name(Name::new(random.pick(&["u", "v", "mask", "sqrt"]))?),
        };
    }
    let below = size - 1;
    match random.below(8) {
        0 => {
            let a = any_node(random, b, below)?;
            b.unary(random.pick(&[Unary::Neg, Unary::Not]), a)
        }
        1 => {
            let names: Vec<&str> = functions().collect();
            let first = any_node(random, b, below / 2)?;
            let function = random.pick(&names);
            match b.call(function, &[first]) {
                Ok(id) => Ok(id),
                Err(_) => {
                    let second = any_node(random, b, below / 2)?;
                    b.call(function, &[first, second]).or(Ok(second))
                }
            }
        }
        2 => {
            let [c, x, y] = [(); 3].map(|()| any_node(random, b, below / 3));
            b.choose(c?, x?, y?)
        }
        3 => {
            let (x, y) = (any_node(random, b, below / 2)?, any_node(random, b, below / 2)?);
            b.binary(Binary::Pow, x, y)
        }
        _ => {
            let part = random.below(below);
            let (x, y) = (any_node(random, b, part)?, any_node(random, b, below - part)?);
            b.binary(random.pick(&OPERATORS), x, y)
        }
    }
}

/// The text of a number of a type.
pub(crate) fn number(random: &mut Random, dtype: Type, size: usize) -> String {
    let name = |random: &mut Random| format!("{dtype}_{}", random.pick(&["a", "b"]));
    if size == 0 {
        return match random.below(6) {
            0 if dtype.is_float() => {
                random.pick(&["0.0", "1.5", "-2.0", "inf", "3e-5", "1e30", "nan", "-0.0"]).to_owned()
            }
            0 => random.pick(&["0", "1", "3", "7", "100"]).to_owned(),
            _ => name(random),
        };
    }
    let one = |random: &mut Random| number(random, dtype, size - 1);
    match random.below(14) {
        0 => format!("-({})", one(random)),
        1 => format!("abs({})", one(random)),
        2 => format!("sign({})", one(random)),
        3..=5 => {
            let op = random.pick(&["+", "-", "*"]);
            format!("({}) {op} ({})", one(random), one(random))
        }
        6 => {
            let op = random.pick(&["//", "%"]);
            format!("({}) {op} ({})", one(random), one(random))
        }
        7 => {
            let op = random.pick(&["min", "max", "clip"]);
            let third = if op == "clip" { format!(", {}", one(random)) } else { String::new() };
            format!("{op}({}, {}{third})", one(random), one(random))
        }
        8 => format!("where({}, {}, {})", condition(random, size - 1), one(random), one(random)),
        9 => {
            let from = random.pick(&Type::ALL[1..]);
            format!("{dtype}({})", number(random, from, size - 1))
        }
        10 => format!("({}) ** {}", name(random), random.pick(&["0", "1", "2", "3", "7"])),
        11 | 12 if dtype.is_float() => {
            let all = [
                "sqrt", "cbrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
                "acos", "atan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "round",
            ];
            format!("{}({})", random.pick(&all), one(random))
        }
        11 => {
            let op = random.pick(&["&", "|", "^", "<<", ">>"]);
            format!("({}) {op} ({})", one(random), one(random))
        }
        12 => format!("invert({})", one(random)),
        _ if dtype.is_float() => match random.below(4) {
            0 => format!("hypot({}, {})", one(random), one(random)),
            1 => format!("atan2({}, {})", one(random), one(random)),
            2 => format!("({}) ** ({})", one(random), random.pick(&["-3.0", "0.3", "-1.0", "0.5", "1e10"])),
            _ => format!("({}) / ({})", one(random), one(random)),
        },
        _ => name(random),
    }
}

/// The text of a condition.
pub(crate) fn condition(random: &mut Random, size: usize) -> String {
    let dtype = random.pick(&Type::ALL[1..]);
    if size == 0 {
        return match random.below(5) {
            0 => random.pick(&["bool_a", "bool_b", "true", "false"]).to_owned(),
            1 => format!("isnan({})", number(random, Type::F8, 0)),
            _ => {
                let op = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("{} {op} {}", number(random, dtype, 0), number(random, dtype, 0))
            }
        };
    }
    match random.below(9) {
        0 => format!("~({})", condition(random, size - 1)),
        1..=3 => {
            let op = random.pick(&["&", "|", "^", "==", "!="]);
            format!("({}) {op} ({})", condition(random, size - 1), condition(random, size - 1))
        }
        4 => {
            let [c, a, b] = [(); 3].map(|()| condition(random, size - 1));
            format!("where({c}, {a}, {b})")
        }
        5 => format!("bool({})", number(random, dtype, size - 1)),
        6 => {
            let test = random.pick(&["isnan", "isinf", "isfinite"]);
            format!("{test}({})", number(random, dtype, size - 1))
        }
        7 => {
            let op = random.pick(&["<", "==", ">="]);
            let (x, y) = if random.below(2) == 0 { (Type::I8, Type::U8) } else { (Type::U8, Type::I2) };
            format!("({}) {op} ({})", number(random, x, size - 1), number(random, y, size - 1))
        }
        _ => {
            let op = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
            format!("({}) {op} ({})", number(random, dtype, size - 1), number(random, dtype, size - 1))
        }
    }
}
