//! Values of attributes and statistics, in one total order.
//!
//! The order is truth values, numbers, NaN, texts. Integers and floats are compared exactly, whatever their size. An
//! integer and a float of the same value are adjacent, the integer first.

use std::cmp::Ordering;

/// Most bytes of a text; longer texts are not catalogued.
pub(crate) const MAX_TEXT: usize = 1024;

/// The value of an attribute or a statistic.
#[derive(Debug, Clone)]
pub enum Value {
    /// A truth value.
    Bool(bool),
    /// From -2^63 to 2^64 - 1.
    Integer(i128),
    /// A float, possibly NaN; zero has no sign.
    Float(f64),
    /// A text.
    Text(String),
}

/// The classes of comparable values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Bool,
    Number,
    Nan,
    Text,
}

/// A value whose text is stored elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Borrowed<'a> {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(&'a str),
}

impl Borrowed<'_> {
    pub(crate) fn class(self) -> Class {
        match self {
            Borrowed::Bool(_) => Class::Bool,
            Borrowed::Float(x) if x.is_nan() => Class::Nan,
            Borrowed::Integer(_) | Borrowed::Float(_) => Class::Number,
            Borrowed::Text(_) => Class::Text,
        }
    }

    /// The order of values by magnitude: 3 and 3.0 are equal.
    pub(crate) fn compare(self, other: Borrowed<'_>) -> Ordering {
        match (self, other) {
            (Borrowed::Bool(a), Borrowed::Bool(b)) => a.cmp(&b),
            (Borrowed::Text(a), Borrowed::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Borrowed::Integer(a), Borrowed::Integer(b)) => a.cmp(&b),
            (Borrowed::Integer(a), Borrowed::Float(b)) if !b.is_nan() => exact(a, b),
            (Borrowed::Float(a), Borrowed::Integer(b)) if !a.is_nan() => exact(b, a).reverse(),
            (Borrowed::Float(a), Borrowed::Float(b)) => {
                a.partial_cmp(&b).unwrap_or_else(|| self.classes(other))
            }
            _ => self.classes(other),
        }
    }

    fn classes(self, other: Borrowed<'_>) -> Ordering {
        self.class().cmp(&other.class())
    }

    /// The order in which values are stored; no two different values are equal in it.
    pub(crate) fn order(self, other: Borrowed<'_>) -> Ordering {
        let float = |v: Borrowed<'_>| matches!(v, Borrowed::Float(_));
        self.compare(other).then_with(|| float(self).cmp(&float(other)))
    }
}

/// Compares an integer of at most 65 bits with a float that is not NaN.
fn exact(a: i128, b: f64) -> Ordering {
    if b >= 2f64.powi(65) {
        return Ordering::Less;
    }
    if b <= -(2f64.powi(65)) {
        return Ordering::Greater;
    }
    // Within 65 bits, the integral part is an exact integer.
    let whole = b.trunc();
    a.cmp(&(whole as i128)).then_with(|| 0.0.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal))
}

impl Value {
    pub(crate) fn borrowed(&self) -> Borrowed<'_> {
        match self {
            Value::Bool(b) => Borrowed::Bool(*b),
            Value::Integer(n) => Borrowed::Integer(*n),
            Value::Float(x) => Borrowed::Float(*x),
            Value::Text(text) => Borrowed::Text(text),
        }
    }

    /// A float in its canonical form: NaN has one form, and zero has no sign.
    pub fn float(x: f64) -> Value {
        Value::Float(if x.is_nan() { f64::NAN } else { x + 0.0 })
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.borrowed().order(other.borrowed())
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn integers_and_floats_compare_exactly() {
        let big = i128::from(u64::MAX);
        assert!(Value::Integer(big) < Value::float(big as f64), "the float is 2^64");
        assert!(Value::Integer(1 << 53) < Value::Integer((1 << 53) + 1));
        assert!(Value::float((1u64 << 53) as f64) < Value::Integer((1 << 53) + 1));
        assert!(Value::Integer(-3) < Value::float(-2.5) && Value::float(-2.5) < Value::Integer(-2));
        assert!(Value::Integer(3) < Value::float(3.0) && Value::float(3.0) < Value::float(3.5));
        assert!(Value::float(f64::INFINITY) < Value::float(f64::NAN));
        assert_eq!(Value::float(-0.0), Value::float(0.0));
    }
}
