//! Index maps as paired progressions, and their join.
//!
//! Along one dimension a fragment's index `x` corresponds to the dataset's index `y = (a·x+b)/(c·x+d)`, if that is an
//! integer inside the dataset. Such pairs form arithmetic progressions: one for `c = 0`, a few more after `mod`, single
//! points for `c ≠ 0`. Joining two of them on `y` is a linear Diophantine equation, so the join of two affine maps is
//! again a progression.
//!
//! Invariants: `n > 0`; every `x` lies in the fragment and every `y` in the dataset; steps fit in i64.

use crate::error::RuleError;

/// Most progressions of one index map.
const MOST_PIECES: usize = 1 << 16;
/// Largest `|a·d - b·c|` whose divisors are searched.
const MOST_DETERMINANT: u128 = 1 << 40;

/// The pairs `(x + sx·t, y + sy·t)` for `t` in `0..n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progression {
    pub(crate) x: i64,
    pub(crate) sx: i64,
    pub(crate) y: i64,
    pub(crate) sy: i64,
    pub(crate) n: u64,
}

/// Coefficients of `y = (a·x+b)/(c·x+d)`, taken `mod` a period if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Coefficients {
    pub(crate) a: i64,
    pub(crate) b: i64,
    pub(crate) c: i64,
    pub(crate) d: i64,
    pub(crate) modulus: Option<u64>,
}

/// Where the elements of two progressions with equal `y` lie: `count` steps on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) src: i64,
    pub(crate) src_step: i64,
    pub(crate) dst: i64,
    pub(crate) dst_step: i64,
    pub(crate) count: u64,
}

impl Progression {
    /// The single pair of a constant index.
    pub(crate) fn constant(y: i64) -> Self {
        Progression { x: 0, sx: 0, y, sy: 0, n: 1 }
    }

    /// `y = x` over the whole extent.
    pub(crate) fn identity(extent: u64) -> Option<Self> {
        (extent > 0).then_some(Progression { x: 0, sx: 1, y: 0, sy: 1, n: extent })
    }

    fn at(&self, t: i128) -> (i128, i128) {
        (i128::from(self.x) + i128::from(self.sx) * t, i128::from(self.y) + i128::from(self.sy) * t)
    }

    /// Steps `t0..t1` of the progression; `None` if there are none.
    fn part(&self, t0: i128, t1: i128) -> Option<Self> {
        if t0 >= t1 {
            return None;
        }
        let (x, y) = self.at(t0);
        let n = u64::try_from(t1 - t0).ok()?;
        Some(Progression { x: i64::try_from(x).ok()?, y: i64::try_from(y).ok()?, n, ..*self })
    }
}

impl Coefficients {
    /// All pairs with `x < x_extent` and `y < y_extent`, in order of `x`. Extents are below 2^63.
    pub(crate) fn progressions(&self, x_extent: u64, y_extent: u64) -> Result<Vec<Progression>, RuleError> {
        if x_extent == 0 || y_extent == 0 {
            return Ok(Vec::new());
        }
        let raw = if self.c == 0 { self.affine(x_extent)? } else { self.rational(x_extent)? };
        let mut pieces = Vec::new();
        for Raw { x, sx, y, sy, n } in raw {
            match self.modulus {
                None => clip(Raw { x, sx, y, sy, n }, y_extent, &mut pieces)?,
                Some(0) => return Err(RuleError::BadFragment { what: "an index is taken modulo 0" }),
                Some(period) => wrap(Raw { x, sx, y, sy, n }, i128::from(period), y_extent, &mut pieces)?,
            }
        }
        Ok(pieces)
    }

    /// `(a·x+b)/d` where it is an integer.
    fn affine(&self, x_extent: u64) -> Result<Vec<Raw>, RuleError> {
        if self.d == 0 {
            return Err(RuleError::BadFragment { what: "an index is divided by 0" });
        }
        let sign = i128::from(self.d.signum());
        let (a, b, d) = (sign * i128::from(self.a), sign * i128::from(self.b), sign * i128::from(self.d));
        let g = gcd(a, d);
        if b % g != 0 {
            return Ok(Vec::new());
        }
        let (a, b, d) = (a / g, b / g, d / g);
        let x = (-b).rem_euclid(d) * inverse(a, d) % d;
        let left = i128::from(x_extent) - x;
        let n = if left <= 0 { return Ok(Vec::new()) } else { (left - 1) / d + 1 };
        Ok(vec![Raw { x, sx: d, y: (a * x + b) / d, sy: a, n }])
    }

    /// `(a·x+b)/(c·x+d)` with `c ≠ 0`: `y` is an integer only if `c·x+d` divides `a·d - b·c`.
    fn rational(&self, x_extent: u64) -> Result<Vec<Raw>, RuleError> {
        let (a, b) = (i128::from(self.a), i128::from(self.b));
        let (c, d) = (i128::from(self.c), i128::from(self.d));
        let determinant = a * d - b * c;
        let extent = i128::from(x_extent);
        if determinant == 0 {
            if a % c != 0 {
                return Ok(Vec::new());
            }
            // `y` is the same everywhere, except where the denominator is 0.
            let hole = if d % c == 0 { (-d / c).clamp(-1, extent) } else { -1 };
            let constant = |x: i128, end: i128| Raw { x, sx: 1, y: a / c, sy: 0, n: end - x };
            let pieces = [constant(0, hole.max(0)), constant(hole + 1, extent)];
            return Ok(pieces.into_iter().filter(|piece| piece.n > 0).collect());
        }
        if determinant.unsigned_abs() > MOST_DETERMINANT {
            return Err(RuleError::TooLarge { what: "for |a·d - b·c| of an index map", most: 1 << 40 });
        }
        let mut points = Vec::new();
        let mut try_denominator = |e: i128| {
            let x = (e - d) / c;
            if (e - d) % c == 0 && (0..extent).contains(&x) && (a * x + b) % e == 0 {
                points.push(Raw { x, sx: 1, y: (a * x + b) / e, sy: 0, n: 1 });
            }
        };
        let magnitude = determinant.abs();
        let mut small = 1;
        while small * small <= magnitude {
            if magnitude % small == 0 {
                let large = magnitude / small;
                let both = [small, large];
                for e in both.into_iter().take(if small == large { 1 } else { 2 }) {
                    try_denominator(e);
                    try_denominator(-e);
                }
            }
            small += 1;
        }
        points.sort_by_key(|point| point.x);
        Ok(points)
    }
}

/// A progression before its numbers are checked.
#[derive(Clone, Copy)]
struct Raw {
    x: i128,
    sx: i128,
    y: i128,
    sy: i128,
    n: i128,
}

/// Keeps the steps whose `y` lies in the dataset.
fn clip(raw: Raw, y_extent: u64, pieces: &mut Vec<Progression>) -> Result<(), RuleError> {
    let last = i128::from(y_extent) - 1;
    let (t0, t1) = match raw.sy {
        0 => (0, if (0..=last).contains(&raw.y) { raw.n } else { 0 }),
        sy if sy > 0 => (ceil_div(-raw.y, sy), (last - raw.y).div_euclid(sy) + 1),
        sy => (ceil_div(raw.y - last, -sy), raw.y.div_euclid(-sy) + 1),
    };
    let (t0, t1) = (t0.max(0), t1.min(raw.n));
    if t0 >= t1 {
        return Ok(());
    }
    if pieces.len() == MOST_PIECES {
        return Err(RuleError::TooLarge { what: "pieces for one index map", most: MOST_PIECES as u64 });
    }
    let overflow = RuleError::Overflow { what: "an index map" };
    let fit = |value: i128| i64::try_from(value).map_err(|_| overflow.clone());
    let n = u64::try_from(t1 - t0).map_err(|_| overflow.clone())?;
    // A single pair has no step, and keeping one could overflow.
    let (sx, sy) = if n == 1 { (1, 0) } else { (raw.sx, raw.sy) };
    let (x, y) = (raw.x + raw.sx * t0, raw.y + raw.sy * t0);
    pieces.push(Progression { x: fit(x)?, sx: fit(sx)?, y: fit(y)?, sy: fit(sy)?, n });
    Ok(())
}

/// Divides a progression where its `y` passes a multiple of the period, and moves each piece into the first period.
fn wrap(raw: Raw, period: i128, y_extent: u64, pieces: &mut Vec<Progression>) -> Result<(), RuleError> {
    let mut sy = raw.sy.rem_euclid(period);
    if sy > period / 2 {
        sy -= period;
    }
    let too_many = RuleError::TooLarge { what: "pieces for one index map", most: MOST_PIECES as u64 };
    let (mut t, mut rounds) = (0, 0);
    while t < raw.n {
        rounds += 1;
        if rounds > MOST_PIECES {
            return Err(too_many);
        }
        let y = (raw.y + raw.sy * t).rem_euclid(period);
        let fits = match sy {
            0 => raw.n - t,
            sy if sy > 0 => (period - 1 - y) / sy + 1,
            sy => y / -sy + 1,
        };
        let n = fits.min(raw.n - t);
        clip(Raw { x: raw.x + raw.sx * t, sx: raw.sx, y, sy, n }, y_extent, pieces)?;
        t += n;
    }
    Ok(())
}

/// The elements that a source and a destination share along one dimension. If a source holds an element several times,
/// the first is used; a destination gets all copies of it.
pub(crate) fn join(src: &Progression, dst: &Progression) -> Option<Joined> {
    let one_to = |t: i128, dst: Progression| {
        let at = src.part(t, t + 1)?;
        let dst_step = if dst.n == 1 { 0 } else { dst.sx };
        Some(Joined { src: at.x, src_step: 0, dst: dst.x, dst_step, count: dst.n })
    };
    let gap = i128::from(dst.y) - i128::from(src.y);
    let (qs, vs) = (i128::from(src.sy), i128::from(dst.sy));
    let (ns, nd) = (i128::from(src.n), i128::from(dst.n));
    if vs == 0 || dst.n == 1 {
        // One index of the dataset, which may be wanted several times.
        return match qs {
            _ if gap == 0 => one_to(0, *dst),
            0 => None,
            _ if gap % qs == 0 && (0..ns).contains(&(gap / qs)) => one_to(gap / qs, *dst),
            _ => None,
        };
    }
    if qs == 0 || src.n == 1 {
        let r = -gap / vs;
        return if gap % vs == 0 && (0..nd).contains(&r) { one_to(0, dst.part(r, r + 1)?) } else { None };
    }
    // q + qs·t = v + vs·r, solved by t = t0 + (vs/g)·m, r = r0 + (qs/g)·m.
    let g = gcd(qs, vs);
    if gap % g != 0 {
        return None;
    }
    let (tm, rm) = (vs / g, qs / g);
    let t0 = (gap / g).rem_euclid(tm.abs()) * inverse(rm, tm.abs()) % tm.abs();
    let r0 = (qs * t0 - gap) / vs;
    let (low_t, high_t) = steps_inside(t0, tm, ns);
    let (low_r, high_r) = steps_inside(r0, rm, nd);
    let (low, high) = (low_t.max(low_r), high_t.min(high_r));
    if low > high {
        return None;
    }
    let (src_x, _) = src.at(t0 + tm * low);
    let (dst_x, _) = dst.at(r0 + rm * low);
    let count = high - low + 1;
    // With one element the steps have no meaning, and may not fit in 64 bits.
    let step =
        |unit: i64, m: i128| if count == 1 { Some(0) } else { i64::try_from(i128::from(unit) * m).ok() };
    Some(Joined {
        src: i64::try_from(src_x).ok()?,
        src_step: step(src.sx, tm)?,
        dst: i64::try_from(dst_x).ok()?,
        dst_step: step(dst.sx, rm)?,
        count: u64::try_from(count).ok()?,
    })
}

/// The `m` for which `0 <= start + step·m < n`, as a closed range.
fn steps_inside(start: i128, step: i128, n: i128) -> (i128, i128) {
    if step > 0 {
        (ceil_div(-start, step), (n - 1 - start).div_euclid(step))
    } else {
        (ceil_div(start - (n - 1), -step), start.div_euclid(-step))
    }
}

/// `value / by`, rounded up; `by` is positive.
fn ceil_div(value: i128, by: i128) -> i128 {
    -(-value).div_euclid(by)
}

/// Greatest common divisor, positive unless both are 0.
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The inverse of `a` modulo `m`, which have no common divisor; 0 if `m` is 1.
fn inverse(a: i128, m: i128) -> i128 {
    let (mut r0, mut r1) = (m, a.rem_euclid(m));
    let (mut t0, mut t1) = (0, 1);
    while r1 != 0 {
        let q = r0 / r1;
        (r0, r1) = (r1, r0 - q * r1);
        (t0, t1) = (t1, t0 - q * t1);
    }
    t0.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pieces: &[Progression]) -> Vec<(i64, i64)> {
        let expand = |p: &Progression| (0..p.n as i64).map(move |t| (t, t));
        let mut all: Vec<_> = pieces
            .iter()
            .flat_map(|p| expand(p).map(move |(t, _)| (p.x + p.sx * t, p.y + p.sy * t)))
            .collect();
        all.sort_unstable();
        all
    }

    fn brute(m: &Coefficients, xs: i64, ys: i64) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        for x in 0..xs {
            let (num, den) = (m.a * x + m.b, m.c * x + m.d);
            if den != 0 && num % den == 0 {
                let y = m.modulus.map_or(num / den, |period| (num / den).rem_euclid(period as i64));
                if (0..ys).contains(&y) {
                    all.push((x, y));
                }
            }
        }
        all
    }

    #[test]
    fn every_small_index_map_gives_the_pairs_of_its_definition() {
        for a in -4..=4 {
            for b in [-7, -1, 0, 2, 9] {
                for (c, d) in [(0, 1), (0, 2), (0, -3), (0, 4), (1, 1), (1, -2), (2, 3), (-3, 1), (2, -4)] {
                    for modulus in [None, Some(1), Some(3), Some(5)] {
                        let map = Coefficients { a, b, c, d, modulus };
                        for (xs, ys) in [(12, 9), (1, 1), (30, 4)] {
                            let found = pairs(&map.progressions(xs as u64, ys as u64).unwrap());
                            assert_eq!(found, brute(&map, xs, ys), "{map:?} {xs} {ys}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_join_holds_exactly_the_pairs_with_equal_dataset_index() {
        let maps =
            [(1, 0, 1), (2, 1, 1), (-1, 20, 1), (3, -4, 1), (1, 0, 2), (-2, 30, 3), (0, 7, 1), (5, 2, 3)];
        for (a, b, d) in maps {
            for (e, f, h) in maps {
                let map = |a, b, d| Coefficients { a, b, c: 0, d, modulus: None };
                for (src, dst) in map(a, b, d).progressions(17, 33).unwrap().iter().flat_map(|src| {
                    map(e, f, h).progressions(13, 33).unwrap().into_iter().map(|dst| (*src, dst))
                }) {
                    let mut expected = Vec::new();
                    for (u, v) in pairs(&[dst]) {
                        expected.extend(pairs(&[src]).iter().find(|(_, y)| *y == v).map(|(x, _)| (*x, u)));
                    }
                    let mut found: Vec<_> = join(&src, &dst).map_or(Vec::new(), |j| {
                        (0..j.count as i64)
                            .map(|m| (j.src + j.src_step * m, j.dst + j.dst_step * m))
                            .collect()
                    });
                    found.sort_unstable_by_key(|&(x, u)| (u, x));
                    assert_eq!(found, expected, "{src:?} {dst:?}");
                }
            }
        }
    }
}
