//! Runs the steps of a program on one block of cells.
//!
//! Each step takes its register out of the scratch memory, computes it from its operands, and puts it back.
//! Operands lie in other registers, in inputs or in constants, so no step reads the register that it writes.

use super::buffer::{Buffer, Typed};
use super::kernel;
use super::number::Number;
use super::scratch::{Known, Place, Scratch};
use super::{BLOCK, Column, ColumnMut, Input, bits};
use crate::program::{Program, Step, StepId};
use crate::tree::{Binary, Unary};
use crate::types::Type;

/// A block: cells that are evaluated together.
pub(super) struct Block<'a> {
    pub(super) program: &'a Program,
    pub(super) inputs: &'a [Input<'a>],
    pub(super) start: usize,
    pub(super) cells: usize,
}

/// Evaluates an expression with `$T` bound to the number type of a step.
macro_rules! for_numbers {
    ($dtype:expr, $T:ident => $body:expr, $other:expr) => {
        match $dtype {
            Type::I1 => {
                type $T = i8;
                $body
            }
            Type::I2 => {
                type $T = i16;
                $body
            }
            Type::I4 => {
                type $T = i32;
                $body
            }
            Type::I8 => {
                type $T = i64;
                $body
            }
            Type::U1 => {
                type $T = u8;
                $body
            }
            Type::U2 => {
                type $T = u16;
                $body
            }
            Type::U4 => {
                type $T = u32;
                $body
            }
            Type::U8 => {
                type $T = u64;
                $body
            }
            Type::F4 => {
                type $T = f32;
                $body
            }
            Type::F8 => {
                type $T = f64;
                $body
            }
            Type::Bool => $other,
        }
    };
}

impl Block<'_> {
    pub(super) fn words(&self) -> usize {
        self.cells.div_ceil(64)
    }

    /// The numbers of a step; of a constant, one.
    fn numbers<'s, T: Typed>(&'s self, scratch: &'s Scratch, step: StepId) -> &'s [T] {
        let values = match scratch.places[usize::from(step)] {
            Place::Input(i) => {
                T::column(&self.inputs[usize::from(i)].values).get(self.start..).unwrap_or_default()
            }
            Place::Constant(c) => return T::buffer(&scratch.constants[usize::from(c)]),
            Place::Register(r) => T::buffer(&scratch.registers[usize::from(r)]),
            Place::Nowhere => &[],
        };
        values.get(..self.cells).unwrap_or_default()
    }

    /// The truth values of a step.
    pub(super) fn bits<'s>(&self, scratch: &'s Scratch, step: StepId) -> &'s [u64] {
        match scratch.places[usize::from(step)] {
            Place::Constant(c) => scratch.constants[usize::from(c)].words(),
            Place::Register(r) => scratch.registers[usize::from(r)].words(),
            Place::Input(_) | Place::Nowhere => &[],
        }
    }

    /// Which cells of a step are known; `None`: all.
    pub(super) fn known<'s>(&'s self, scratch: &'s Scratch, step: StepId) -> Option<&'s [u64]> {
        match scratch.known[usize::from(step)] {
            Known::All => None,
            Known::Input(i) => self.inputs[usize::from(i)].written.and_then(|w| w.get(self.start / 64..)),
            Known::Mask(m) => Some(&scratch.masks[usize::from(m)]),
        }
    }

    /// The cells of a register that a step writes.
    fn room<'r, T: Typed>(&self, register: &'r mut Buffer) -> &'r mut [T] {
        T::buffer_mut(register).get_mut(..self.cells).unwrap_or_default()
    }

    /// Runs the steps before `end`.
    pub(super) fn run(&self, scratch: &mut Scratch, end: usize) {
        for (n, &step) in self.program.steps.iter().enumerate() {
            if let Place::Register(r) = scratch.places[n]
                && n < end
            {
                let mut out = std::mem::take(&mut scratch.registers[usize::from(r)]);
                self.step(scratch, n, &mut out);
                scratch.registers[usize::from(r)] = out;
            }
            // The operands' values are still valid: a register is reused only after the last step that reads it.
            if let Known::Mask(m) = scratch.known[n]
                && !matches!(step, Step::Unary(..))
            {
                let mask = self.mask(scratch, step);
                scratch.masks[usize::from(m)] = mask;
            }
        }
    }

    /// The last step, if it can write its numbers directly to the caller's memory, which saves a copy.
    pub(super) fn direct(&self) -> Option<usize> {
        let last = self.program.steps.len().checked_sub(1)?;
        let (step, dtype) = (self.program.steps[last], self.program.types[last]);
        let is_plain = match step {
            Step::Unary(op, _) => !matches!(op, Unary::Cast(_)),
            Step::Binary(..) => true,
            _ => false,
        };
        (is_plain && dtype != Type::Bool && self.program.result() == last).then_some(last)
    }

    /// Computes the last step into the caller's memory.
    pub(super) fn put_last(&self, scratch: &Scratch, values: &mut ColumnMut<'_>) {
        let (from, end) = (self.start, self.start + self.cells);
        let Some(last) = self.program.steps.len().checked_sub(1) else { return };
        for_numbers!(
            self.program.types[last],
            T => self.numbers_of(scratch, last, T::room(values).get_mut(from..end).unwrap_or_default()),
            {}
        );
    }

    /// Computes the numbers of a step whose operands have the type of its result.
    fn numbers_of<T: Typed + Number>(&self, scratch: &Scratch, n: usize, out: &mut [T]) {
        let of = |step| self.numbers::<T>(scratch, step);
        match (&scratch.chains[n], self.program.steps[n]) {
            (Some(chain), _) => {
                let [a, b, c] = chain.of;
                kernel::chain(chain, of(a), of(b), of(c), out);
            }
            (None, Step::Unary(op, a)) => kernel::unary(op, of(a), out),
            (None, Step::Binary(op, a, b)) => kernel::binary(op, of(a), of(b), out),
            _ => {}
        }
    }

    fn step(&self, scratch: &Scratch, n: usize, out: &mut Buffer) {
        let (step, dtype) = (self.program.steps[n], self.program.types[n]);
        match step {
            Step::Input(i) => {
                if let (Column::Bool(bytes), Buffer::Bits(words)) = (&self.inputs[usize::from(i)].values, out)
                {
                    bits::test(&bytes[self.start..][..self.cells], words, |byte| byte != 0);
                }
            }
            Step::Constant(_) => {}
            Step::Unary(op, a) => self.unary(scratch, n, (op, a), out),
            Step::Binary(op, a, b) => self.binary(scratch, n, (op, a, b), out),
            Step::Where(c, a, b) => {
                let condition = self.bits(scratch, c);
                for_numbers!(
                    dtype,
                    T => {
                        let (a, b) = (self.numbers::<T>(scratch, a), self.numbers::<T>(scratch, b));
                        kernel::choose(condition, a, b, self.room(out));
                    },
                    {
                        let (a, b) = (self.bits(scratch, a), self.bits(scratch, b));
                        if let Buffer::Bits(out) = out {
                            for (((out, c), a), b) in out.iter_mut().zip(condition).zip(a).zip(b) {
                                *out = c & a | !c & b;
                            }
                        }
                    }
                );
            }
        }
    }

    fn unary(&self, scratch: &Scratch, n: usize, (op, a): (Unary, StepId), out: &mut Buffer) {
        let (from, dtype) = (self.program.type_of(a), self.program.types[n]);
        match (op, out) {
            (Unary::Cast(_), out) => for_numbers!(
                from,
                T => kernel::cast(self.numbers::<T>(scratch, a), out, self.cells),
                for_numbers!(
                    dtype,
                    T => bits::spread(self.bits(scratch, a), T::buffer_mut(out), 0 as T, 1 as T),
                    {}
                )
            ),
            (Unary::Not, Buffer::Bits(out)) => {
                out.iter_mut().zip(self.bits(scratch, a)).for_each(|(out, a)| *out = !a);
            }
            (op, Buffer::Bits(out)) => for_numbers!(
                from,
                T => kernel::test(op, self.numbers::<T>(scratch, a), out),
                {}
            ),
            (_, out) => for_numbers!(
                dtype,
                T => self.numbers_of::<T>(scratch, n, self.room(out)),
                {}
            ),
        }
    }

    fn binary(&self, scratch: &Scratch, n: usize, (op, a, b): (Binary, StepId, StepId), out: &mut Buffer) {
        let (from, other) = (self.program.type_of(a), self.program.type_of(b));
        match (from, other, out) {
            (Type::Bool, _, Buffer::Bits(out)) => {
                let pairs = self.bits(scratch, a).iter().zip(self.bits(scratch, b));
                for (out, (a, b)) in out.iter_mut().zip(pairs) {
                    *out = match op {
                        Binary::And => a & b,
                        Binary::Or => a | b,
                        Binary::Eq => !(a ^ b),
                        _ => a ^ b,
                    };
                }
            }
            // Exact for both signs: both operands are converted to 128 bits.
            (Type::I8, Type::U8, Buffer::Bits(out)) => {
                let (a, b) = (self.numbers::<i64>(scratch, a), self.numbers::<u64>(scratch, b));
                mixed(op, a, b, out);
            }
            (Type::U8, Type::I8, Buffer::Bits(out)) => {
                let (a, b) = (self.numbers::<u64>(scratch, a), self.numbers::<i64>(scratch, b));
                mixed(op, a, b, out);
            }
            (from, _, Buffer::Bits(out)) => for_numbers!(
                from,
                T => kernel::compare(op, self.numbers::<T>(scratch, a), self.numbers::<T>(scratch, b), out),
                {}
            ),
            (from, _, out) => for_numbers!(
                from,
                T => self.numbers_of::<T>(scratch, n, self.room(out)),
                {}
            ),
        }
    }

    /// Which cells of a step are known if some operands have unknown cells.
    fn mask(&self, scratch: &Scratch, step: Step) -> [u64; BLOCK / 64] {
        let all = [u64::MAX; BLOCK / 64];
        let known = |step| self.known(scratch, step).unwrap_or(&all);
        let mut out = [0; BLOCK / 64];
        let words = self.words();
        match step {
            Step::Binary(op @ (Binary::And | Binary::Or), a, b) if self.program.type_of(a) == Type::Bool => {
                let (ka, kb) = (known(a), known(b));
                let (a, b) = (self.bits(scratch, a), self.bits(scratch, b));
                let flip = if op == Binary::And { u64::MAX } else { 0 };
                for i in 0..words {
                    // One side decides alone: false in an `&`, true in an `|`.
                    out[i] = ka[i] & kb[i] | ka[i] & (a[i] ^ flip) | kb[i] & (b[i] ^ flip);
                }
            }
            Step::Binary(_, a, b) => {
                let (ka, kb) = (known(a), known(b));
                (0..words).for_each(|i| out[i] = ka[i] & kb[i]);
            }
            Step::Where(c, a, b) => {
                let (kc, ka, kb) = (known(c), known(a), known(b));
                let c = self.bits(scratch, c);
                (0..words).for_each(|i| out[i] = kc[i] & (c[i] & ka[i] | !c[i] & kb[i]));
            }
            Step::Input(_) | Step::Constant(_) | Step::Unary(..) => out = all,
        }
        out
    }

    /// Copies the result to the caller's memory.
    pub(super) fn put(&self, scratch: &Scratch, values: &mut ColumnMut<'_>) {
        let result = self.program.result;
        macro_rules! copy {
            ($out:expr) => {
                kernel::copy(self.numbers(scratch, result), &mut $out[self.start..][..self.cells])
            };
        }
        match values {
            ColumnMut::Bool(out) => {
                bits::spread(self.bits(scratch, result), &mut out[self.start..][..self.cells], 0, 1);
            }
            ColumnMut::I1(out) => copy!(out),
            ColumnMut::I2(out) => copy!(out),
            ColumnMut::I4(out) => copy!(out),
            ColumnMut::I8(out) => copy!(out),
            ColumnMut::U1(out) => copy!(out),
            ColumnMut::U2(out) => copy!(out),
            ColumnMut::U4(out) => copy!(out),
            ColumnMut::U8(out) => copy!(out),
            ColumnMut::F4(out) => copy!(out),
            ColumnMut::F8(out) => copy!(out),
        }
    }
}

/// Compares integers whose types have no common type.
fn mixed<T: Copy + Into<i128>, U: Copy + Into<i128>>(op: Binary, a: &[T], b: &[U], out: &mut [u64]) {
    let order = |x: T, y: U| -> std::cmp::Ordering { x.into().cmp(&y.into()) };
    match op {
        Binary::Eq => bits::compare(a, b, out, |x, y| order(x, y).is_eq()),
        Binary::Ne => bits::compare(a, b, out, |x, y| order(x, y).is_ne()),
        Binary::Lt => bits::compare(a, b, out, |x, y| order(x, y).is_lt()),
        Binary::Le => bits::compare(a, b, out, |x, y| order(x, y).is_le()),
        Binary::Gt => bits::compare(a, b, out, |x, y| order(x, y).is_gt()),
        _ => bits::compare(a, b, out, |x, y| order(x, y).is_ge()),
    }
}
