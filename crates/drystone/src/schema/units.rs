//! Units of measure of expressions: SI units with prefixes, as `units` attributes spell them.
//!
//! A text that cannot be parsed, an offset unit such as `degC`, and a number have no known unit. They are never
//! refused.
//!
//! Invariants
//! - only known units can lead to a refusal;
//! - the unit of a result is stated only if its text means exactly that unit.

use drystone_expression::{Binary, Node, NodeId, Over, Stencil, Tree, Unary};

/// Powers of metre, kilogram, second, ampere, kelvin, mole and candela, with a factor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    factor: f64,
    powers: [i8; 7],
}

const BASE: [&str; 7] = ["m", "kg", "s", "A", "K", "mol", "cd"];

/// Symbols that take prefixes: symbol, factor, powers.
const SYMBOLS: [(&str, f64, [i8; 7]); 21] = [
    ("m", 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("g", 1e-3, [0, 1, 0, 0, 0, 0, 0]),
    ("s", 1.0, [0, 0, 1, 0, 0, 0, 0]),
    ("A", 1.0, [0, 0, 0, 1, 0, 0, 0]),
    ("K", 1.0, [0, 0, 0, 0, 1, 0, 0]),
    ("mol", 1.0, [0, 0, 0, 0, 0, 1, 0]),
    ("cd", 1.0, [0, 0, 0, 0, 0, 0, 1]),
    ("Hz", 1.0, [0, 0, -1, 0, 0, 0, 0]),
    ("N", 1.0, [1, 1, -2, 0, 0, 0, 0]),
    ("Pa", 1.0, [-1, 1, -2, 0, 0, 0, 0]),
    ("bar", 1e5, [-1, 1, -2, 0, 0, 0, 0]),
    ("J", 1.0, [2, 1, -2, 0, 0, 0, 0]),
    ("W", 1.0, [2, 1, -3, 0, 0, 0, 0]),
    ("C", 1.0, [0, 0, 1, 1, 0, 0, 0]),
    ("V", 1.0, [2, 1, -3, -1, 0, 0, 0]),
    ("T", 1.0, [0, 1, -2, -1, 0, 0, 0]),
    ("Wb", 1.0, [2, 1, -2, -1, 0, 0, 0]),
    ("ohm", 1.0, [2, 1, -3, -2, 0, 0, 0]),
    ("F", 1.0, [-2, -1, 4, 2, 0, 0, 0]),
    ("H", 1.0, [2, 1, -2, -2, 0, 0, 0]),
    ("L", 1e-3, [3, 0, 0, 0, 0, 0, 0]),
];

/// Symbols that take no prefixes.
const WHOLE: [(&str, f64, [i8; 7]); 13] = [
    ("min", 60.0, [0, 0, 1, 0, 0, 0, 0]),
    ("h", 3600.0, [0, 0, 1, 0, 0, 0, 0]),
    ("hour", 3600.0, [0, 0, 1, 0, 0, 0, 0]),
    ("d", 86400.0, [0, 0, 1, 0, 0, 0, 0]),
    ("day", 86400.0, [0, 0, 1, 0, 0, 0, 0]),
    ("second", 1.0, [0, 0, 1, 0, 0, 0, 0]),
    ("seconds", 1.0, [0, 0, 1, 0, 0, 0, 0]),
    ("meter", 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("meters", 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("metre", 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("metres", 1.0, [1, 0, 0, 0, 0, 0, 0]),
    ("kelvin", 1.0, [0, 0, 0, 0, 1, 0, 0]),
    ("rad", 1.0, [0; 7]),
];

const PREFIXES: [(&str, f64); 20] = [
    ("da", 1e1),
    ("Y", 1e24),
    ("Z", 1e21),
    ("E", 1e18),
    ("P", 1e15),
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("h", 1e2),
    ("d", 1e-1),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("µ", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
    ("a", 1e-18),
    ("z", 1e-21),
];

impl Unit {
    /// The unit of dimensionless numbers.
    const ONE: Unit = Unit { factor: 1.0, powers: [0; 7] };

    /// Parses a unit: factors with integer powers, such as `m s-1`, `m/s`, `kg m^-3` or `hPa`. `None` if the text is
    /// not understood.
    pub(crate) fn parse(text: &str) -> Option<Unit> {
        let (mut unit, mut divided) = (Unit::ONE, false);
        let spaced = text.replace("**", "^").replace('/', " / ").replace(['*', '.', '·'], " ");
        for word in spaced.split_whitespace() {
            if word == "/" {
                if divided {
                    return None;
                }
                divided = true;
                continue;
            }
            let at = word.find(|c: char| c == '^' || c == '-' || c == '+' || c.is_ascii_digit());
            let (symbol, power) = match at {
                Some(0) if word == "1" => ("1", 1),
                Some(at) if at > 0 => (&word[..at], word[at..].trim_start_matches('^').parse::<i8>().ok()?),
                None => (word, 1),
                Some(_) => return None,
            };
            let one = if symbol == "1" { Unit::ONE } else { symbol_of(symbol)? };
            unit = unit.times(one.to(if divided { power.checked_neg()? } else { power })?)?;
            divided = false;
        }
        (!divided).then_some(unit)
    }

    fn times(self, other: Unit) -> Option<Unit> {
        let mut powers = self.powers;
        for (power, more) in powers.iter_mut().zip(other.powers) {
            *power = power.checked_add(more)?;
        }
        Some(Unit { factor: self.factor * other.factor, powers })
    }

    fn to(self, power: i8) -> Option<Unit> {
        let mut powers = self.powers;
        for own in &mut powers {
            *own = own.checked_mul(power)?;
        }
        Some(Unit { factor: self.factor.powi(power.into()), powers })
    }

    fn root(self, n: i8) -> Option<Unit> {
        let powers = self.powers.map(|power| power / n);
        let whole = self.powers.iter().all(|power| power % n == 0);
        whole.then(|| Unit { factor: self.factor.powf(1.0 / f64::from(n)), powers })
    }

    fn is_number(self) -> bool {
        self.powers == [0; 7]
    }

    fn is(self, other: Unit) -> bool {
        let (a, b) = (self.factor, other.factor);
        self.powers == other.powers && (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
    }

    /// The unit as a text in base units, if its factor is 1.
    pub(crate) fn text(self) -> Option<String> {
        if !self.is(Unit { factor: 1.0, ..self }) {
            return None;
        }
        let factors = BASE.iter().zip(self.powers).filter(|(_, power)| *power != 0);
        let texts: Vec<String> = factors
            .map(|(symbol, power)| if power == 1 { (*symbol).to_owned() } else { format!("{symbol}{power}") })
            .collect();
        Some(if texts.is_empty() { "1".to_owned() } else { texts.join(" ") })
    }
}

fn symbol_of(text: &str) -> Option<Unit> {
    let plain = |text: &str| {
        let found = SYMBOLS.iter().chain(&WHOLE).find(|(symbol, ..)| *symbol == text);
        found.map(|&(_, factor, powers)| Unit { factor, powers })
    };
    plain(text).or_else(|| {
        PREFIXES.iter().find_map(|(prefix, by)| {
            let rest = text.strip_prefix(prefix)?;
            let &(_, factor, powers) = SYMBOLS.iter().find(|(symbol, ..)| *symbol == rest)?;
            Some(Unit { factor: factor * by, powers })
        })
    })
}

/// The unit of the value of a tree, given the units of its names. `None` if it is unknown. An error states which
/// operands do not fit.
pub(crate) fn of_tree(tree: &Tree, names: &[Option<Unit>]) -> Result<Option<Unit>, String> {
    let mut units: Vec<Option<Unit>> = Vec::with_capacity(tree.nodes().len());
    for node in tree.nodes() {
        let of = |id: NodeId| units.get(id.index()).copied().flatten();
        let alike = |a: NodeId, b: NodeId| -> Result<Option<Unit>, String> {
            match (of(a), of(b)) {
                (Some(x), Some(y)) if !x.is(y) => Err(mismatch(tree, (a, x), (b, y))),
                (Some(x), Some(_)) => Ok(Some(x)),
                // A number may have any unit.
                (x, y) => Ok(x.or(y).filter(|_| is_constant(tree, a) || is_constant(tree, b))),
            }
        };
        let unit = match *node {
            Node::Name(n) => names.get(usize::from(n)).copied().flatten(),
            Node::Unary(op, a) => of_unary(tree, op, a, of(a))?,
            Node::Binary(op, a, b) => match op {
                Binary::Add | Binary::Sub | Binary::Min | Binary::Max | Binary::Hypot | Binary::Mod => {
                    alike(a, b)?
                }
                Binary::Mul => match (of(a), of(b), is_constant(tree, a), is_constant(tree, b)) {
                    (Some(x), Some(y), ..) => x.times(y),
                    (None, Some(y), true, _) => Some(y),
                    (Some(x), None, _, true) => Some(x),
                    _ => None,
                },
                Binary::Div => match (of(a), of(b), is_constant(tree, a), is_constant(tree, b)) {
                    (Some(x), Some(y), ..) => y.to(-1).and_then(|y| x.times(y)),
                    (None, Some(y), true, _) => y.to(-1),
                    (Some(x), None, _, true) => Some(x),
                    _ => None,
                },
                Binary::Pow => of(a).and_then(|x| match constant(tree, b) {
                    Some(0.5) => x.root(2),
                    Some(power) if power.fract() == 0.0 && power.abs() < 100.0 => x.to(power as i8),
                    _ => None,
                }),
                op if op.is_comparison() || op == Binary::Atan2 => {
                    alike(a, b)?;
                    None
                }
                _ => None,
            },
            Node::Where(_, a, b) => alike(a, b)?,
            Node::Stencil(op, a, dim, distance) => {
                // A distance given as a number has no known unit.
                let along = of(dim).filter(|_| distance.is_none());
                let along = match op {
                    Stencil::Diff => along,
                    Stencil::Second => along.and_then(|unit| unit.to(2)),
                };
                of(a).zip(along.and_then(|unit| unit.to(-1))).and_then(|(x, y)| x.times(y))
            }
            Node::Over(Over::Count | Over::Any | Over::All, ..) => None,
            Node::Over(_, a, _) => of(a),
            Node::List(a, b) => of(a).zip(of(b)).filter(|(x, y)| x.is(*y)).map(|(x, _)| x),
            _ => None,
        };
        units.push(unit);
    }
    Ok(units.last().copied().flatten())
}

fn of_unary(tree: &Tree, op: Unary, a: NodeId, unit: Option<Unit>) -> Result<Option<Unit>, String> {
    use Unary::*;
    match op {
        Neg | Abs | Floor | Ceil | Trunc | Round | Cast(_) => Ok(unit),
        Sqrt => Ok(unit.and_then(|unit| unit.root(2))),
        Cbrt => Ok(unit.and_then(|unit| unit.root(3))),
        Exp | Expm1 | Log | Log2 | Log10 | Log1p | Sin | Cos | Tan | Asin | Acos | Atan | Sinh | Cosh
        | Tanh => match unit.filter(|unit| !unit.is_number()) {
            None => Ok(None),
            Some(unit) => Err(format!(
                "`{}` has the unit {}, and the function takes numbers without one: divide it by a value of that unit",
                tree.excerpt(a),
                spelt(unit)
            )),
        },
        _ => Ok(None),
    }
}

fn is_constant(tree: &Tree, id: NodeId) -> bool {
    matches!(tree.nodes()[id.index()], Node::Integer(_) | Node::Float(_))
}

fn constant(tree: &Tree, id: NodeId) -> Option<f64> {
    match tree.nodes()[id.index()] {
        Node::Integer(n) => Some(n as f64),
        Node::Float(bits) => Some(f64::from_bits(bits)),
        _ => None,
    }
}

fn mismatch(tree: &Tree, (a, x): (NodeId, Unit), (b, y): (NodeId, Unit)) -> String {
    let (left, right) = (tree.excerpt(a), tree.excerpt(b));
    if x.powers == y.powers {
        return format!(
            "`{left}` and `{right}` are in units that differ by a factor of {:e}: scale one of them, and give the unit of the result",
            y.factor / x.factor
        );
    }
    format!("`{left}` has the unit {} and `{right}` {}: they cannot be added or compared", spelt(x), spelt(y))
}

fn spelt(unit: Unit) -> String {
    match (unit.text(), Unit { factor: 1.0, ..unit }.text()) {
        (Some(text), _) => text,
        (None, Some(text)) => format!("{:e} {text}", unit.factor),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        Unit::parse(a).unwrap().is(Unit::parse(b).unwrap())
    }

    #[test]
    fn texts_are_parsed_as_units() {
        assert!(same("m/s", "m s-1") && same("km h^-1", "1 km/h") && !same("hPa", "Pa"));
        assert!(same("kg m2 s-2", "J") && same("N*m", "J") && same("mm", "mm") && !same("mm", "m"));
        for unknown in ["degC", "furlong", "m//s", "m/", "^2", "m1000", "days since 1970-01-01"] {
            assert_eq!(Unit::parse(unknown), None, "{unknown}");
        }
        assert_eq!(Unit::parse("kg m-1 s-2").unwrap().text().as_deref(), Some("m-1 kg s-2"));
        assert_eq!(Unit::parse("km").unwrap().text(), None);
        assert_eq!(Unit::parse("").unwrap().text().as_deref(), Some("1"));
    }

    #[test]
    fn trees_have_units_or_name_the_operands_that_do_not_fit() {
        let unit = |text: &str| {
            let tree = drystone_expression::parse(text).unwrap();
            let of = |name: &drystone_expression::Name| match name.path() {
                "u" | "v" => Unit::parse("m/s"),
                "x" => Unit::parse("km"),
                "t" => Unit::parse("s"),
                _ => None,
            };
            let names: Vec<Option<Unit>> = tree.names().iter().map(of).collect();
            of_tree(&tree, &names).map(|unit| unit.and_then(|unit| unit.text()))
        };
        let known = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(unit("sqrt(u*u + v*v)"), known("m s-1"));
        assert_eq!(unit("2*u - 1.5"), known("m s-1"));
        assert_eq!(unit("u**2 / 2"), known("m2 s-2"));
        assert_eq!(unit("u*t"), known("m"));
        assert_eq!(unit("1 / t"), known("s-1"));
        assert_eq!(unit("q + u"), Ok(None));
        assert_eq!(unit("diff(u, t)"), known("m s-2"));
        assert_eq!(unit("diff2(u, t)"), known("m s-3"));
        assert!(unit("u + t").unwrap_err().contains("m s-1"));
        assert!(unit("x + u*t").unwrap_err().contains("factor"));
        assert!(unit("u > t").is_err() && unit("exp(u)").is_err() && unit("exp(u/v)").is_ok());
    }
}
