//! Reductions take cells in row-major order of the domain, so a result does not depend on how the cells were read.
//!
//! Sums of floats are compensated (two-sum), which is about as accurate as summing in twice the precision. A
//! row along the last axis is summed in a fixed number of lanes.

use super::values::Values;
use crate::tree::Over;
use crate::types::Type;

const LANES: usize = 8;

/// The state of a reduction: one entry per cell of the result.
#[derive(Debug)]
pub(super) struct Reducing {
    op: Over,
    state: State,
    /// Cells with a value.
    known: Vec<u64>,
}

#[derive(Debug)]
enum State {
    /// The sum, and its rounding error.
    Floats(Vec<(f64, f64)>),
    /// A sum or a count, wrapping.
    Integers(Vec<i64>),
    /// The minimum or maximum of integers.
    Extreme(Vec<i128>),
    /// The minimum or maximum of floats; NaN after any NaN.
    FloatExtreme(Vec<f64>),
    Truth(Vec<bool>),
}

/// The sum of two numbers, and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

fn add(state: &mut (f64, f64), value: f64) {
    let (sum, lost) = two_sum(state.0, value);
    *state = (sum, state.1 + lost);
}

/// An element of a row.
trait Number: Copy {
    fn float(self) -> f64;
    fn integer(self) -> i128;
}

macro_rules! numbers {
    ($($t:ty),*) => { $(impl Number for $t {
        fn float(self) -> f64 { self as f64 }
        fn integer(self) -> i128 { self as i128 }
    })* };
}

numbers!(i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);

impl Reducing {
    pub(super) fn new(op: Over, from: Type, count: usize) -> Reducing {
        let state = match op {
            Over::Mean => State::Floats(vec![(0.0, 0.0); count]),
            Over::Sum if from.is_float() => State::Floats(vec![(0.0, 0.0); count]),
            Over::Sum | Over::Count => State::Integers(vec![0; count]),
            Over::Min if from.is_float() => State::FloatExtreme(vec![f64::INFINITY; count]),
            Over::Max if from.is_float() => State::FloatExtreme(vec![f64::NEG_INFINITY; count]),
            Over::Min => State::Extreme(vec![i128::MAX; count]),
            Over::Max => State::Extreme(vec![i128::MIN; count]),
            Over::Any => State::Truth(vec![false; count]),
            Over::All => State::Truth(vec![true; count]),
        };
        Reducing { op, state, known: vec![0; count] }
    }

    /// Adds a row of cells of a source, starting at element `at`. The first cell contributes to result `to`. If
    /// `moves`, each next cell contributes to the next result; otherwise all contribute to `to`. `known`: which
    /// cells have a value.
    pub(super) fn row(
        &mut self,
        values: &Values,
        at: usize,
        count: usize,
        known: Option<&[u8]>,
        to: usize,
        moves: bool,
    ) {
        macro_rules! take {
            ($values:expr) => {
                self.cells(&$values[at..at + count], known.map(|known| &known[at..at + count]), to, moves)
            };
        }
        match values {
            Values::Bool(v) => take!(v),
            Values::I1(v) => take!(v),
            Values::I2(v) => take!(v),
            Values::I4(v) => take!(v),
            Values::I8(v) => take!(v),
            Values::U1(v) => take!(v),
            Values::U2(v) => take!(v),
            Values::U4(v) => take!(v),
            Values::U8(v) => take!(v),
            Values::F4(v) => take!(v),
            Values::F8(v) => take!(v),
        }
    }

    fn cells<T: Number>(&mut self, row: &[T], known: Option<&[u8]>, to: usize, moves: bool) {
        if let Some(known) = known {
            for (n, (&value, &known)) in row.iter().zip(known).enumerate() {
                if known != 0 {
                    let place = to + if moves { n } else { 0 };
                    self.known[place] += 1;
                    self.cell(value, place);
                }
            }
            return;
        }
        if moves {
            self.known[to..to + row.len()].iter_mut().for_each(|n| *n += 1);
            if let State::Floats(states) = &mut self.state {
                states[to..].iter_mut().zip(row).for_each(|(state, value)| add(state, value.float()));
                return;
            }
            for (n, &value) in row.iter().enumerate() {
                self.cell(value, to + n);
            }
            return;
        }
        self.known[to] += row.len() as u64;
        if let State::Floats(states) = &mut self.state {
            let mut lanes = [(0.0, 0.0); LANES];
            let chunks = row.chunks_exact(LANES);
            let rest = chunks.remainder();
            for chunk in chunks {
                lanes.iter_mut().zip(chunk).for_each(|(lane, value)| add(lane, value.float()));
            }
            lanes.iter_mut().zip(rest).for_each(|(lane, value)| add(lane, value.float()));
            for (sum, lost) in lanes {
                add(&mut states[to], sum);
                states[to].1 += lost;
            }
            return;
        }
        for &value in row {
            self.cell(value, to);
        }
    }

    fn cell<T: Number>(&mut self, value: T, place: usize) {
        let least = self.op == Over::Min;
        match &mut self.state {
            State::Floats(states) => add(&mut states[place], value.float()),
            State::Integers(sums) => {
                let more = if self.op == Over::Count {
                    i64::from(value.integer() != 0)
                } else {
                    value.integer() as i64
                };
                sums[place] = sums[place].wrapping_add(more);
            }
            State::Extreme(all) => {
                let (known, value) = (&mut all[place], value.integer());
                *known = if least { value.min(*known) } else { value.max(*known) };
            }
            State::FloatExtreme(all) => {
                let (known, value) = (&mut all[place], value.float());
                if value.is_nan() || (!known.is_nan() && if least { value < *known } else { value > *known })
                {
                    *known = value;
                }
            }
            State::Truth(all) => {
                let holds = value.integer() != 0;
                all[place] = if self.op == Over::Any { all[place] || holds } else { all[place] && holds };
            }
        }
    }

    /// The results, and which of them are known: those with at least one known cell.
    pub(super) fn finish(self, dtype: Type) -> (Values, Option<Vec<u8>>) {
        let (mut out, known) = (Values::new(dtype, self.known.len()), &self.known);
        let float = |n: usize, (sum, lost): (f64, f64)| {
            let sum = if sum.is_finite() { sum + lost } else { sum };
            if self.op == Over::Mean { sum / known[n] as f64 } else { sum }
        };
        macro_rules! put {
            ($out:expr, $t:ty) => {
                match &self.state {
                    State::Floats(all) => $out
                        .iter_mut()
                        .zip(all)
                        .enumerate()
                        .for_each(|(n, (out, s))| *out = float(n, *s) as $t),
                    State::Integers(all) => $out.iter_mut().zip(all).for_each(|(out, n)| *out = *n as $t),
                    State::Extreme(all) => $out.iter_mut().zip(all).for_each(|(out, n)| *out = *n as $t),
                    State::FloatExtreme(all) => $out.iter_mut().zip(all).for_each(|(out, x)| *out = *x as $t),
                    State::Truth(all) => {
                        $out.iter_mut().zip(all).for_each(|(out, b)| *out = u8::from(*b) as $t)
                    }
                }
            };
        }
        match &mut out {
            Values::Bool(v) => put!(v, u8),
            Values::I1(v) => put!(v, i8),
            Values::I2(v) => put!(v, i16),
            Values::I4(v) => put!(v, i32),
            Values::I8(v) => put!(v, i64),
            Values::U1(v) => put!(v, u8),
            Values::U2(v) => put!(v, u16),
            Values::U4(v) => put!(v, u32),
            Values::U8(v) => put!(v, u64),
            Values::F4(v) => put!(v, f32),
            Values::F8(v) => put!(v, f64),
        }
        let all = known.iter().all(|&n| n > 0);
        (out, (!all).then(|| known.iter().map(|&n| u8::from(n > 0)).collect()))
    }
}
