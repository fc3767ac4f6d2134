//! Boxes and what they hold: positions, parts, and which of their cells are known.

use super::Box;
use super::gather::Gather;
use super::spare::Spare;
use super::values::Array;

/// The offset of a box inside a larger box with the same axes, if its cells are contiguous there; `None` otherwise.
pub(super) fn run_of(had: &Box, own: &Box) -> Option<usize> {
    let (mut first, mut stride, mut whole) = (0, 1, true);
    for (had, own) in had.iter().zip(own).rev() {
        if own.0 < had.0 || own.1 > had.1 || (!whole && own.1 - own.0 != 1) {
            return None;
        }
        first += (own.0 - had.0) as usize * stride;
        stride *= (had.1 - had.0) as usize;
        whole &= own == had;
    }
    (had.len() == own.len()).then_some(first)
}

pub(super) fn sides<'a>(lo: &'a [u64], hi: &'a [u64]) -> impl Iterator<Item = (i64, i64)> + 'a {
    lo.iter().zip(hi).map(|(lo, hi)| (*lo as i64, *hi as i64))
}

/// First and end position of a box inside the domain.
pub(super) fn places(own: &Box) -> (Vec<u64>, Vec<u64>) {
    own.iter().map(|side| (side.0 as u64, side.1 as u64)).unzip()
}

/// A part of an array, repeated along the axes that the array lacks.
pub(super) fn part(
    had: &Box,
    had_axes: &[usize],
    array: &Array,
    own: &Box,
    axes: &[usize],
    spare: &mut Spare,
) -> Array {
    let strides = strides(&shape(had));
    let places =
        axes.iter().zip(own).map(|(axis, &(lo, hi))| match had_axes.iter().position(|a| a == axis) {
            Some(at) => (strides[at], (lo..hi).map(|p| (p - had[at].0) as usize).collect::<Vec<_>>()),
            None => (0, vec![0; (hi - lo).max(0) as usize]),
        });
    let gather = Gather::new(&places.collect::<Vec<_>>());
    let known = array.known.as_ref().map(|known| copied(&gather, known, 0));
    Array { values: gather.values(&array.values, spare), known }
}

pub(super) fn copied(gather: &Gather, from: &[u8], beyond: u8) -> Vec<u8> {
    let mut out = Vec::new();
    gather.copy(from, beyond, &mut out);
    out
}

pub(super) fn shape(own: &Box) -> Vec<usize> {
    own.iter().map(|&(lo, hi)| (hi - lo).max(0) as usize).collect()
}

pub(super) fn volume(own: &Box) -> usize {
    shape(own).into_iter().product()
}

/// Strides in elements.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        out[d] = out[d + 1] * shape[d + 1].max(1);
    }
    out
}

pub(super) fn bits(known: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        bytes.iter().enumerate().fold(0u64, |word, (n, &known)| word | u64::from(known != 0) << n)
    };
    known.chunks(64).map(word).collect()
}

pub(super) fn bytes(known: &[u64], count: usize) -> Vec<u8> {
    (0..count).map(|n| (known[n / 64] >> (n % 64) & 1) as u8).collect()
}

/// Cuts a box into parts in row-major order: whole rows, unless one row is too long.
pub(super) fn pieces(own: &Box, most: i64) -> Vec<Box> {
    let mut steps: Vec<i64> = own.iter().map(|(lo, hi)| (hi - lo).max(0)).collect();
    if steps.contains(&0) {
        return Vec::new();
    }
    let mut inner: i64 = 1;
    for step in steps.iter_mut().rev() {
        let fitting = (most / inner).max(1);
        let whole = *step;
        *step = whole.min(fitting);
        inner = if *step < whole { most } else { inner.saturating_mul(whole) };
    }
    let mut out: Vec<Box> = vec![Vec::new()];
    for (&(lo, hi), &step) in own.iter().zip(&steps) {
        let mut next = Vec::new();
        for front in &out {
            let mut from = lo;
            while from < hi {
                let mut piece = front.clone();
                piece.push((from, hi.min(from + step)));
                next.push(piece);
                from += step;
            }
        }
        out = next;
    }
    out
}
