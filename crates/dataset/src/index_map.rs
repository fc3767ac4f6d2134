//! One index position: maps an index of the fragment to an index of the dataset.
//!
//! The map is exact: where `(a·x + b) / (c·x + d)` is not an integer, or its divisor is zero, the element has no
//! counterpart.

use crate::run::Run;

/// What an index position depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The index of the fragment with this number.
    Binder(usize),
    /// No index: the result is `b`, with a = 0, c = 0, d = 1 and no modulus.
    Constant,
}

/// `y = (a·x + b) / (c·x + d)`, then `mod modulus` if there is one. It is normalised: the four coefficients have no
/// common divisor, and `d > 0` if `c = 0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexMap {
    /// Factor of x in the dividend.
    pub a: i64,
    /// Constant of the dividend.
    pub b: i64,
    /// Factor of x in the divisor; 0 for affine maps.
    pub c: i64,
    /// Constant of the divisor.
    pub d: i64,
    /// The meaning of x.
    pub source: Source,
    /// The period, at least 1; the result then lies in `0..modulus`.
    pub modulus: Option<u64>,
}

/// The indices of the dataset, inside an extent, to which a run of x is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// `first, first + step, …, last`; each occurs `repeats` times.
    Steps { first: i128, last: i128, step: i128, count: i128, repeats: i128 },
    /// None.
    Empty,
    /// A few indices, each at most once, which are not listed here (c ≠ 0).
    Scattered,
}

impl IndexMap {
    /// The map that does not change the fragment's index.
    pub fn identity(binder: usize) -> Self {
        Self { a: 1, b: 0, c: 0, d: 1, source: Source::Binder(binder), modulus: None }
    }

    /// The map that always gives `index`.
    pub fn constant(index: i64) -> Self {
        Self { a: 0, b: index, c: 0, d: 1, source: Source::Constant, modulus: None }
    }

    /// A normalised map; `None` if the divisor is zero for every x, or a normalised number does not fit.
    pub(crate) fn new(a: i64, b: i64, c: i64, d: i64, source: Source, modulus: Option<u64>) -> Option<Self> {
        if c == 0 && d == 0 {
            return None;
        }
        let [mut a, mut b, mut c, mut d] = [a, b, c, d].map(i128::from);
        let divisor = gcd(gcd(a, b), gcd(c, d)).max(1);
        let sign = if (c == 0 && d < 0) || c < 0 { -divisor } else { divisor };
        (a, b, c, d) = (a / sign, b / sign, c / sign, d / sign);
        let fit = |v: i128| i64::try_from(v).ok();
        Some(Self { a: fit(a)?, b: fit(b)?, c: fit(c)?, d: fit(d)?, source, modulus })
    }

    /// The index of the dataset for x; `None` if there is none.
    pub fn apply(&self, x: u64) -> Option<i64> {
        let x = i128::from(x);
        let [a, b, c, d] = [self.a, self.b, self.c, self.d].map(i128::from);
        let divisor = c.checked_mul(x)?.checked_add(d)?;
        let dividend = a.checked_mul(x)?.checked_add(b)?;
        if dividend.checked_rem(divisor)? != 0 {
            return None;
        }
        let y = dividend.checked_div(divisor)?;
        let y = self.modulus.map_or(Some(y), |m| y.checked_rem_euclid(i128::from(m)))?;
        i64::try_from(y).ok()
    }

    /// Whether two values of x can have the same result even without a modulus.
    pub(crate) fn repeats(&self) -> bool {
        i128::from(self.a) * i128::from(self.d) == i128::from(self.b) * i128::from(self.c)
    }

    /// The image of the run of x inside `0..extent`. The modulus is ignored: lowering has removed it.
    pub(crate) fn image(&self, run: Run, extent: Option<u64>) -> Image {
        let bound = extent.map_or(i128::from(i64::MAX), i128::from);
        let [a, b, c, d] = [self.a, self.b, self.c, self.d].map(i128::from);
        let (start, count) = (i128::from(run.start), i128::from(run.count));
        if count == 0 {
            return Image::Empty;
        }
        let single = |y: i128, repeats: i128| {
            let inside = (0..bound).contains(&y) && repeats > 0;
            let steps = Image::Steps { first: y, last: y, step: 1, count: 1, repeats };
            if inside { steps } else { Image::Empty }
        };
        if self.source == Source::Constant {
            return single(b, 1);
        }
        if self.repeats() {
            let (top, bottom) = if c == 0 { (b, d) } else { (a, c) };
            let pole = c != 0 && d % c == 0 && (start..start + count).contains(&(-d / c));
            return if top % bottom == 0 {
                single(top / bottom, count - i128::from(pole))
            } else {
                Image::Empty
            };
        }
        if c != 0 {
            return Image::Scattered;
        }
        let common = gcd(a, d);
        if b % common != 0 {
            return Image::Empty;
        }
        let (a, b, d) = (a / common, b / common, d / common);
        let first_x = (-b).rem_euclid(d) * inverse(a.rem_euclid(d), d) % d;
        let first_y = (a * first_x + b) / d;
        // x = first_x + d·t must lie in the run, and y = first_y + a·t in the extent.
        let mut low = div_ceil(start - first_x, d);
        let mut high = div_floor(start + count - 1 - first_x, d);
        let (to_zero, to_bound) = (-first_y, bound - 1 - first_y);
        let (from, to) = if a > 0 {
            (div_ceil(to_zero, a), div_floor(to_bound, a))
        } else {
            (div_ceil(to_bound, a), div_floor(to_zero, a))
        };
        (low, high) = (low.max(from), high.min(to));
        if low > high {
            return Image::Empty;
        }
        let (p, q) = (first_y + a * low, first_y + a * high);
        Image::Steps { first: p.min(q), last: p.max(q), step: a.abs(), count: high - low + 1, repeats: 1 }
    }

    /// Cuts a run of x where the modulus wraps. Returns for each piece its run and its map without modulus; `None` if
    /// there are more than `limit` pieces. A map without modulus is one piece; so is one with c ≠ 0, which the checker
    /// does not combine with a modulus.
    pub(crate) fn unwrap_period(&self, run: Run, limit: usize) -> Option<Vec<(Run, IndexMap)>> {
        let Some(modulus) = self.modulus else { return Some(vec![(run, *self)]) };
        let period = i128::from(modulus);
        let [a, b, d] = [self.a, self.b, self.d].map(i128::from);
        let (start, count) = (i128::from(run.start), i128::from(run.count));
        if count == 0 {
            return Some(Vec::new());
        }
        let turn = |x: i128| div_floor(a * x + b, d * period);
        let (p, q) = (turn(start), turn(start + count - 1));
        let (first, last) = (p.min(q), p.max(q));
        if usize::try_from(last - first).map_or(true, |turns| turns >= limit) {
            return None;
        }
        let mut pieces = Vec::new();
        for turn in first..=last {
            // turn·period·d <= a·x + b < (turn + 1)·period·d
            let (from, to) = (turn * period * d - b, (turn + 1) * period * d - b);
            let (low, high) = match a {
                0 => (start, start + count),
                1.. => (div_ceil(from, a), div_ceil(to, a)),
                _ => (div_floor(to, a) + 1, div_floor(from, a) + 1),
            };
            let (low, high) = (low.max(start), high.min(start + count));
            if low < high {
                let b = i64::try_from(b - turn * period * d).ok()?;
                let run = Run { start: u64::try_from(low).ok()?, count: u64::try_from(high - low).ok()? };
                pieces.push((run, IndexMap { b, modulus: None, ..*self }));
            }
        }
        Some(pieces)
    }
}

impl std::fmt::Display for IndexMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Source::Binder(n) = self.source else { return write!(f, "{}", self.b) };
        let linear = |factor: i64, constant: i64| match (factor, constant) {
            (0, k) => format!("{k}"),
            (1, 0) => format!("x{n}"),
            (a, 0) => format!("{a}*x{n}"),
            (1, k) => format!("x{n} {} {}", if k < 0 { '-' } else { '+' }, k.unsigned_abs()),
            (a, k) => format!("{a}*x{n} {} {}", if k < 0 { '-' } else { '+' }, k.unsigned_abs()),
        };
        let dividend = linear(self.a, self.b);
        match (self.c, self.d) {
            (0, 1) => f.write_str(&dividend)?,
            (c, d) => write!(f, "({dividend})/({})", linear(c, d))?,
        }
        self.modulus.map_or(Ok(()), |m| write!(f, " mod {m}"))
    }
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The inverse of `a` modulo `m`, which have no common divisor, with 0 <= a < m; 0 if m = 1.
pub(crate) fn inverse(a: i128, m: i128) -> i128 {
    let (mut r0, mut r1, mut s0, mut s1) = (m, a, 0, 1);
    while r1 != 0 {
        let quotient = r0 / r1;
        (r0, r1) = (r1, r0 - quotient * r1);
        (s0, s1) = (s1, s0 - quotient * s1);
    }
    s0.rem_euclid(m)
}

pub(crate) fn div_floor(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

pub(crate) fn div_ceil(a: i128, b: i128) -> i128 {
    -div_floor(-a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every small map against the definition, index by index.
    #[test]
    fn the_image_of_a_run_is_what_its_elements_reach() {
        for a in -4..=4_i64 {
            for b in -7..=7 {
                for d in 1..=4 {
                    let Some(map) = IndexMap::new(a, b, 0, d, Source::Binder(0), None) else { continue };
                    let run = Run { start: 2, count: 7 };
                    let expected: Vec<i64> =
                        (2..9).filter_map(|x| map.apply(x)).filter(|y| (0..6).contains(y)).collect();
                    match map.image(run, Some(6)) {
                        Image::Empty => assert!(expected.is_empty(), "{map}: {expected:?}"),
                        Image::Steps { first, last, step, count, repeats } => {
                            let mut got: Vec<i64> = (0..count)
                                .flat_map(|t| (0..repeats).map(move |_| (first + t * step) as i64))
                                .collect();
                            let mut expected = expected.clone();
                            expected.sort_unstable();
                            got.sort_unstable();
                            assert_eq!(got, expected, "{map}");
                            assert_eq!(last, first + (count - 1) * step);
                        }
                        Image::Scattered => panic!("{map} is affine"),
                    }
                }
            }
        }
    }

    #[test]
    fn the_pieces_of_a_periodic_map_say_the_same_as_the_map() {
        for a in -3..=3_i64 {
            for b in -9..=9 {
                for d in 1..=3 {
                    for m in 1..=5 {
                        let Some(map) = IndexMap::new(a, b, 0, d, Source::Binder(0), Some(m)) else {
                            continue;
                        };
                        let run = Run { start: 1, count: 11 };
                        let pieces = map.unwrap_period(run, 1000).unwrap();
                        let most = (11 * a.unsigned_abs()).div_ceil(m) + 1;
                        assert!(pieces.len() as u64 <= most, "{map}: {} pieces", pieces.len());
                        for x in 1..12 {
                            let of_pieces: Vec<i64> = pieces
                                .iter()
                                .filter(|(run, _)| (run.start..run.start + run.count).contains(&x))
                                .filter_map(|(_, piece)| piece.apply(x))
                                .collect();
                            assert_eq!(
                                of_pieces,
                                map.apply(x).into_iter().collect::<Vec<_>>(),
                                "{map} at {x}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_coefficients_do_not_overflow() {
        for a in [i64::MIN, -1, 0, 1, i64::MAX] {
            for b in [i64::MIN, -1, 0, i64::MAX] {
                for c in [i64::MIN, 0, i64::MAX] {
                    for d in [i64::MIN, 0, 1, i64::MAX] {
                        let Some(map) = IndexMap::new(a, b, c, d, Source::Binder(0), None) else { continue };
                        let run = Run { start: 0, count: i64::MAX as u64 };
                        map.image(run, Some(i64::MAX as u64));
                        map.apply(i64::MAX as u64);
                        if c == 0 {
                            IndexMap { modulus: Some(i64::MAX as u64), ..map }.unwrap_period(run, 100);
                            IndexMap { modulus: Some(1), ..map }.unwrap_period(run, 100);
                        }
                    }
                }
            }
        }
    }
}
