//! Finds the indices of the dataset that correspond to indices of a fragment, as arithmetic progressions of pairs.
//!
//! An affine map gives one progression. A map whose divisor depends on the index gives single pairs: `c·x + d` must
//! divide `a·d - b·c`. Maps have no modulus here, since lowering has removed it.

use drystone_dataset::{IndexMap, Run, Source};

use crate::{Error, Result};

/// The largest `|a·d - b·c|` whose divisors are searched.
const MOST_DETERMINANT: u128 = 1 << 40;
/// The most pairs that are listed individually.
const MOST_PAIRS: u64 = 1 << 16;

/// The pairs `(x + sx·t, y + sy·t)` for t in 0..n; n is at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pairs {
    pub(crate) x: u64,
    pub(crate) sx: u64,
    pub(crate) y: u64,
    pub(crate) sy: i64,
    pub(crate) n: u64,
}

/// The pairs of a map for x in `run` with y in `0..bound`.
pub(crate) fn pairs(map: &IndexMap, run: Run, bound: u64) -> Result<Vec<Pairs>> {
    let bound = i128::from(bound.min(i64::MAX as u64));
    let [a, b, c, d] = [map.a, map.b, map.c, map.d].map(i128::from);
    if map.source == Source::Constant {
        let inside = (0..bound).contains(&b);
        return Ok(if inside { vec![Pairs { x: 0, sx: 0, y: b as u64, sy: 0, n: 1 }] } else { Vec::new() });
    }
    if run.count == 0 {
        return Ok(Vec::new());
    }
    if c != 0 {
        return listed(map, run, bound);
    }
    if a == 0 {
        let y = b / d;
        let inside = b % d == 0 && (0..bound).contains(&y);
        let all = Pairs { x: run.start, sx: 1, y: y as u64, sy: 0, n: run.count };
        return Ok(if inside { vec![all] } else { Vec::new() });
    }
    Ok(affine(a, b, d, run, bound).into_iter().collect())
}

/// `d·y = a·x + b` with d > 0 and a ≠ 0.
fn affine(a: i128, b: i128, d: i128, run: Run, bound: i128) -> Option<Pairs> {
    let common = gcd(a, d);
    if b % common != 0 {
        return None;
    }
    let (a, b, d) = (a / common, b / common, d / common);
    let first_x = (-b).rem_euclid(d) * inverse(a.rem_euclid(d), d) % d;
    let first_y = (a * first_x + b) / d;
    // x = first_x + d·t, y = first_y + a·t
    let (start, end) = (i128::from(run.start), i128::from(run.start) + i128::from(run.count));
    let mut low = ceil(start - first_x, d);
    let mut high = (end - 1 - first_x).div_euclid(d);
    let (from, to) = if a > 0 {
        (ceil(-first_y, a), (bound - 1 - first_y).div_euclid(a))
    } else {
        (ceil(first_y - bound + 1, -a), first_y.div_euclid(-a))
    };
    (low, high) = (low.max(from), high.min(to));
    let n = u64::try_from(high - low + 1).ok().filter(|n| *n > 0)?;
    Some(Pairs {
        x: u64::try_from(first_x + d * low).ok()?,
        sx: u64::try_from(d).ok()?,
        y: u64::try_from(first_y + a * low).ok()?,
        sy: i64::try_from(a).ok()?,
        n,
    })
}

/// The pairs of a map with c ≠ 0, by x.
fn listed(map: &IndexMap, run: Run, bound: i128) -> Result<Vec<Pairs>> {
    let [a, b, c, d] = [map.a, map.b, map.c, map.d].map(i128::from);
    let determinant = (a * d - b * c).unsigned_abs();
    let mut found: Vec<u64> = Vec::new();
    if determinant == 0 {
        if run.count > MOST_PAIRS {
            return Err(unsupported(map));
        }
        found.extend(run.start..run.start + run.count);
    } else {
        if determinant > MOST_DETERMINANT {
            return Err(unsupported(map));
        }
        let mut divisor = 1;
        while divisor * divisor <= determinant {
            if determinant % divisor == 0 {
                for part in [divisor, determinant / divisor].map(|p| p as i128) {
                    for value in [part, -part] {
                        let x = (value - d) / c;
                        if (value - d) % c == 0
                            && let Ok(x) = u64::try_from(x)
                            && x.checked_sub(run.start).is_some_and(|x| x < run.count)
                        {
                            found.push(x);
                        }
                    }
                }
            }
            divisor += 1;
        }
        found.sort_unstable();
        found.dedup();
    }
    let single = |x: u64| {
        let y = map.apply(x).filter(|y| (0..bound).contains(&i128::from(*y)))?;
        Some(Pairs { x, sx: 0, y: y as u64, sy: 0, n: 1 })
    };
    Ok(found.into_iter().filter_map(single).collect())
}

fn unsupported(map: &IndexMap) -> Error {
    Error::unsupported(format!(
        "the index map {map} has too many indices with a counterpart; use a divisor without an index"
    ))
}

fn ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The inverse of a modulo m, for coprime a and m; 0 for m = 1.
fn inverse(a: i128, m: i128) -> i128 {
    let (mut old, mut new) = ((a, 1), (m, 0));
    while new.0 != 0 {
        let q = old.0 / new.0;
        (old, new) = (new, (old.0 - q * new.0, old.1 - q * new.1));
    }
    old.1.rem_euclid(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pairs_are_those_that_applying_the_map_finds() {
        let mut tried = 0;
        for a in -3..=3 {
            for b in -4..=6 {
                for (c, d) in [(0, 1), (0, 2), (0, 3), (1, 1), (2, -1), (-1, 4)] {
                    let map = IndexMap { a, b, c, d, source: Source::Binder(0), modulus: None };
                    for run in
                        [Run { start: 0, count: 12 }, Run { start: 5, count: 4 }, Run { start: 3, count: 0 }]
                    {
                        let bound = 9;
                        let expected: Vec<(u64, u64)> = (run.start..run.start + run.count)
                            .filter_map(|x| {
                                Some((x, u64::try_from(map.apply(x)?).ok().filter(|y| *y < bound)?))
                            })
                            .collect();
                        let mut found: Vec<(u64, u64)> = pairs(&map, run, bound)
                            .unwrap()
                            .iter()
                            .flat_map(|p| {
                                (0..p.n).map(|t| {
                                    (p.x + p.sx * t, p.y.wrapping_add((p.sy as u64).wrapping_mul(t)))
                                })
                            })
                            .collect();
                        found.sort_unstable();
                        assert_eq!(found, expected, "{map:?} {run:?}");
                        tried += expected.len();
                    }
                }
            }
        }
        assert!(tried > 1000);
    }
}
