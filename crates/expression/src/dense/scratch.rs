//! The location of each step's values: an input, a constant, or a register that steps reuse.

use super::buffer::Buffer;
use super::chain::{Chain, chains};
use super::{BLOCK, Input, REGISTER};
use crate::program::{Program, Step, StepId};
use crate::types::Type;

/// Location of a step's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// No location: no step reads the values.
    Nowhere,
    Input(u16),
    Constant(u16),
    Register(u16),
}

/// Which cells of a step are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    All,
    /// The written cells of an input.
    Input(u16),
    /// A mask that the step computes.
    Mask(u16),
}

/// Working memory of one program, reused between calls. One thread uses it at a time.
#[derive(Debug)]
pub struct Scratch {
    pub(super) places: Vec<Place>,
    pub(super) constants: Vec<Buffer>,
    pub(super) registers: Vec<Buffer>,
    pub(super) known: Vec<Known>,
    pub(super) masks: Vec<[u64; BLOCK / 64]>,
    /// Cells of a block.
    pub(super) block: usize,
    /// By step.
    pub(super) chains: Vec<Option<Chain>>,
}

impl Scratch {
    /// Allocates the memory for one program.
    pub fn new(program: &Program) -> Self {
        let chains = chains(program);
        let mut is_inner = vec![false; program.steps.len()];
        for (step, chain) in program.steps.iter().zip(&chains) {
            let Some(chain) = chain else { continue };
            step.operands().filter(|o| *o != chain.of[2]).for_each(|o| is_inner[usize::from(o)] = true);
        }
        // The steps that give the operands of a loop.
        let operands = |n: usize| -> Vec<StepId> {
            match &chains[n] {
                _ if is_inner[n] => Vec::new(),
                Some(chain) => chain.of.to_vec(),
                None => program.steps[n].operands().collect(),
            }
        };
        let mut last_use: Vec<Option<usize>> = vec![None; program.steps.len()];
        for n in 0..program.steps.len() {
            operands(n).into_iter().for_each(|operand| last_use[usize::from(operand)] = Some(n));
        }
        last_use[program.result()] = Some(usize::MAX);
        let widest = program.types.iter().map(|dtype| dtype.size()).max().unwrap_or(1);
        let block = BLOCK.min(REGISTER / widest.max(1));
        let mut scratch = Scratch {
            places: Vec::with_capacity(program.steps.len()),
            constants: Vec::new(),
            registers: Vec::new(),
            known: Vec::new(),
            masks: Vec::new(),
            block,
            chains: Vec::new(),
        };
        let mut free: Vec<(Type, u16)> = Vec::new();
        for (n, (step, dtype)) in program.steps().enumerate() {
            let place = match step {
                _ if last_use[n].is_none() => Place::Nowhere,
                Step::Constant(value) => {
                    let mut buffer = Buffer::new(dtype, 1);
                    buffer.fill(value);
                    scratch.constants.push(buffer);
                    Place::Constant((scratch.constants.len() - 1) as u16)
                }
                // Truth values in bytes are first packed into bits.
                Step::Input(i) if dtype != Type::Bool => Place::Input(i),
                _ => Place::Register(match free.iter().position(|&(t, _)| t == dtype) {
                    Some(i) => free.swap_remove(i).1,
                    None => {
                        scratch.registers.push(Buffer::new(dtype, block));
                        (scratch.registers.len() - 1) as u16
                    }
                }),
            };
            scratch.places.push(place);
            let mut ended = operands(n);
            ended.retain(|&o| last_use[usize::from(o)] == Some(n));
            ended.sort_unstable();
            ended.dedup();
            for operand in ended {
                if let Place::Register(r) = scratch.places[usize::from(operand)] {
                    free.push((program.type_of(operand), r));
                }
            }
        }
        scratch.chains = chains;
        scratch
    }

    /// Memory in bytes: one block for each value that is live at the same time.
    pub fn memory_len(&self) -> usize {
        let blocks = self.registers.iter().chain(&self.constants).map(Buffer::memory_len).sum::<usize>();
        blocks + self.masks.len() * (BLOCK / 8)
    }

    /// True if this was made for a program with that many steps.
    pub(super) fn fits(&self, program: &Program) -> bool {
        self.chains.len() == program.steps.len()
    }

    /// The mask of each step, given which inputs have unwritten cells.
    pub(super) fn plan_known(&mut self, program: &Program, inputs: &[Input<'_>]) {
        self.known.clear();
        let mut masks = 0;
        for step in &program.steps {
            let known = match *step {
                Step::Input(i) if inputs[usize::from(i)].written.is_some() => Known::Input(i),
                Step::Input(_) | Step::Constant(_) => Known::All,
                Step::Unary(_, a) => self.known[usize::from(a)],
                Step::Binary(..) | Step::Where(..) => {
                    let mut of = step.operands().map(|o| self.known[usize::from(o)]);
                    let first = of.next().unwrap_or(Known::All);
                    // If all operands are known in the same cells, so is the result.
                    if of.all(|known| known == first) {
                        first
                    } else {
                        masks += 1;
                        Known::Mask(masks - 1)
                    }
                }
            };
            self.known.push(known);
        }
        self.masks.resize(usize::from(masks), [0; BLOCK / 64]);
    }
}
