//! Evaluation on values, one block of cells at a time, so that intermediate results stay in the cache.
//!
//! Truth values are bits. The value of an unwritten cell is meaningless; a mask tells which cells are known.
//!
//! Invariants
//! - a register is written by one step and read by later ones before another step writes it;
//! - blocks begin at multiples of 64 cells, so masks are cut at words.

mod bits;
mod block;
mod buffer;
mod chain;
#[allow(unsafe_code, reason = "loops for the instructions that were detected")]
mod kernel;
mod number;
#[allow(unsafe_code, reason = "an instruction that the compiler does not choose by itself")]
mod pack;
mod scratch;

pub use buffer::{Column, ColumnMut};
pub(crate) use number::{binary_f4, binary_f8, unary_f4, unary_f8};
pub use scratch::Scratch;

use crate::error::{Error, Kind};
use crate::program::Program;
use crate::types::Type;
use block::Block;

/// The most cells of a block.
pub const BLOCK: usize = 4096;

/// Bytes of a block of one value. The values that a step reads and writes stay in the CPU's first cache.
const REGISTER: usize = 8 << 10;

/// Values of one input.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// One value per cell; those of unwritten cells are meaningless.
    pub values: Column<'a>,
    /// One bit per cell, the first in the lowest bit of the first word, set where the cell is written. `None`:
    /// all cells are.
    pub written: Option<&'a [u64]>,
}

impl<'a> From<Column<'a>> for Input<'a> {
    fn from(values: Column<'a>) -> Self {
        Input { values, written: None }
    }
}

impl Program {
    /// Finds the cells that satisfy a condition: sets one bit for each and returns their number. Unknown is no hit.
    pub fn select(
        &self,
        inputs: &[Input<'_>],
        cells: usize,
        scratch: &mut Scratch,
        hits: &mut [u64],
    ) -> Result<u64, Error> {
        if self.dtype() != Type::Bool {
            return Err(argument(format!("a condition is needed, the expression is {}", self.dtype())));
        }
        let room = 64 * hits.len();
        self.accept(inputs, cells, scratch, room)?;
        let mut count = 0;
        let most = scratch.block;
        for start in (0..cells).step_by(most) {
            let block = Block { program: self, inputs, start, cells: most.min(cells - start) };
            block.run(scratch, usize::MAX);
            let out = &mut hits[start / 64..][..block.words()];
            out.copy_from_slice(&block.bits(scratch, self.result)[..block.words()]);
            if let Some(known) = block.known(scratch, self.result) {
                out.iter_mut().zip(known).for_each(|(hit, known)| *hit &= known);
            }
            bits::cut(out, block.cells);
            count += out.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        if let Some(rest) = hits.get_mut(cells.div_ceil(64)..) {
            rest.fill(0);
        }
        Ok(count)
    }

    /// Computes the values of `cells` cells. A bit of `known` is clear where an input that matters is unwritten.
    pub fn compute(
        &self,
        inputs: &[Input<'_>],
        cells: usize,
        scratch: &mut Scratch,
        mut values: ColumnMut<'_>,
        known: &mut [u64],
    ) -> Result<(), Error> {
        if values.dtype() != self.dtype() {
            let found = format!("the result is {}, the room for it {}", self.dtype(), values.dtype());
            return Err(argument(found));
        }
        let room = values.count().min(64 * known.len());
        self.accept(inputs, cells, scratch, room)?;
        let most = scratch.block;
        for start in (0..cells).step_by(most) {
            let block = Block { program: self, inputs, start, cells: most.min(cells - start) };
            match block.direct() {
                Some(last) => {
                    block.run(scratch, last);
                    block.put_last(scratch, &mut values);
                }
                None => {
                    block.run(scratch, usize::MAX);
                    block.put(scratch, &mut values);
                }
            }
            let out = &mut known[start / 64..][..block.words()];
            match block.known(scratch, self.result) {
                Some(mask) => out.copy_from_slice(&mask[..block.words()]),
                None => out.fill(u64::MAX),
            }
            bits::cut(out, block.cells);
        }
        if let Some(rest) = known.get_mut(cells.div_ceil(64)..) {
            rest.fill(0);
        }
        Ok(())
    }

    /// Checks the caller's arguments.
    fn accept(
        &self,
        inputs: &[Input<'_>],
        cells: usize,
        scratch: &mut Scratch,
        room: usize,
    ) -> Result<(), Error> {
        if inputs.len() != self.inputs.len() {
            return Err(argument(format!("{} inputs are needed, {} given", self.inputs.len(), inputs.len())));
        }
        for ((name, dtype), input) in self.inputs.iter().zip(inputs) {
            let (given, count) = (input.values.dtype(), input.values.count());
            if given != *dtype {
                return Err(argument(format!("`{name}` is {dtype}, its values are {given}")));
            }
            let masked = input.written.map_or(cells, |written| 64 * written.len());
            if count < cells || masked < cells {
                let found = format!("`{name}` has {} values for {cells} cells", count.min(masked));
                return Err(argument(found));
            }
        }
        if room < cells {
            return Err(argument(format!("there is room for {room} results of {cells} cells")));
        }
        if !scratch.fits(self) {
            return Err(argument("the scratch memory was made for another program"));
        }
        scratch.plan_known(self, inputs);
        Ok(())
    }
}

fn argument(found: impl Into<String>) -> Error {
    Error::new(Kind::Argument, found)
}
