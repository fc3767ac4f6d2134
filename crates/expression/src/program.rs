//! A typed tree: a list of steps, operands first. Each step has one type, and every conversion is a step.

use std::fmt;

use crate::constant::Scalar;
use crate::function::{binary_name, unary_name};
use crate::name::Name;
use crate::parser::OPERATORS;
use crate::tree::{Binary, Unary};
use crate::types::Type;

/// The index of a step.
pub(crate) type StepId = u16;

/// The computation of a step from earlier ones.
///
/// The operands of one operator have one type, except for `where`, whose first operand is bool, and comparisons
/// of i8 with u8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An input, by its index in [`Program::inputs`].
    Input(u16),
    /// One value for all cells.
    Constant(Scalar),
    /// One operand.
    Unary(Unary, u16),
    /// Two operands.
    Binary(Binary, u16, u16),
    /// The second operand where the first holds, else the third.
    Where(u16, u16, u16),
}

impl Step {
    pub(crate) fn operands(self) -> impl Iterator<Item = StepId> {
        let (a, b, c) = match self {
            Step::Input(_) | Step::Constant(_) => (None, None, None),
            Step::Unary(_, a) => (Some(a), None, None),
            Step::Binary(_, a, b) => (Some(a), Some(b), None),
            Step::Where(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }
}

/// A typed expression, ready to be evaluated: on statistics or on values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(crate) inputs: Vec<(Name, Type)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) types: Vec<Type>,
    pub(crate) result: StepId,
}

impl Program {
    /// The required inputs, in this order: names with their types.
    pub fn inputs(&self) -> &[(Name, Type)] {
        &self.inputs
    }

    /// The steps with their types.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (Step, Type)> {
        self.steps.iter().copied().zip(self.types.iter().copied())
    }

    /// True if a value may be known where an input is not: by `where`, `&` and `|`.
    pub fn may_ignore_inputs(&self) -> bool {
        let ignores =
            |step: &Step| matches!(step, Step::Where(..) | Step::Binary(Binary::And | Binary::Or, ..));
        self.steps.iter().any(ignores)
    }

    /// The step that gives the result; it need not be the last.
    pub fn result(&self) -> usize {
        self.result.into()
    }

    /// The type of the result.
    pub fn dtype(&self) -> Type {
        self.type_of(self.result)
    }

    pub(crate) fn type_of(&self, step: StepId) -> Type {
        self.types[usize::from(step)]
    }

    pub(crate) fn push(&mut self, step: Step, dtype: Type) -> StepId {
        self.steps.push(step);
        self.types.push(dtype);
        (self.steps.len() - 1) as StepId
    }
}

/// One line per step: `2: bool = 0 > 1`.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (step, dtype)) in self.steps().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{n}: {dtype} = ")?;
            match step {
                Step::Input(i) => write!(f, "{}", self.inputs[usize::from(i)].0)?,
                Step::Constant(value) => write!(f, "constant {value}")?,
                Step::Unary(op, a) => write!(f, "{} #{a}", unary_name(op))?,
                Step::Binary(op, a, b) => {
                    let sign = OPERATORS.iter().find(|(_, o, _)| *o == op).map(|&(sign, ..)| sign);
                    write!(f, "#{a} {} #{b}", sign.or(binary_name(op)).unwrap_or_default())?;
                }
                Step::Where(c, a, b) => write!(f, "where #{c} #{a} #{b}")?,
            }
        }
        Ok(())
    }
}
