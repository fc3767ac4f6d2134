//! Pairs of steps that run as one loop, so that the first result is never written to memory.
//!
//! Each operation rounds as it does alone: nothing is fused into one instruction.

use crate::program::{Program, Step, StepId};
use crate::tree::Binary;

/// A step and the step before that gives one of its operands and nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) first: Binary,
    pub(super) second: Binary,
    /// The operands of the first step, and the other operand of the second.
    pub(super) of: [StepId; 3],
    /// True if the first result is the left operand of the second step.
    pub(super) is_left: bool,
}

/// The chain that ends at each step, if one does. No step is in two chains.
pub(super) fn chains(program: &Program) -> Vec<Option<Chain>> {
    let mut uses = vec![0; program.steps.len()];
    for operand in program.steps.iter().flat_map(|step| step.operands()) {
        uses[usize::from(operand)] += 1;
    }
    uses[program.result()] += 1;
    let mut chains: Vec<Option<Chain>> = Vec::with_capacity(program.steps.len());
    for (step, dtype) in program.steps() {
        let chain = match step {
            Step::Binary(second, left, right) if dtype.is_float() && is_short(second) => {
                let first = |inner: StepId| match program.steps[usize::from(inner)] {
                    Step::Binary(first, a, b)
                        if is_short(first)
                            && uses[usize::from(inner)] == 1
                            && chains[usize::from(inner)].is_none() =>
                    {
                        Some((first, a, b))
                    }
                    _ => None,
                };
                let chain = |inner, other, is_left| {
                    first(inner).map(|(first, a, b)| Chain { first, second, of: [a, b, other], is_left })
                };
                chain(left, right, true).or_else(|| chain(right, left, false))
            }
            _ => None,
        };
        chains.push(chain);
    }
    chains
}

/// Whether an operator takes no longer than the loads and stores of its loop.
fn is_short(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Sub | Binary::Mul)
}
