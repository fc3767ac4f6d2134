//! Splits terms into conditions on one variable each, so that they can be tested where that variable's bytes are.

use drystone_expression::{Answer as Typed, Name, Program, Tree, Type};
use drystone_program::{Answer, Condition, NAME};

use super::names::{Input, Origin};

/// A term, split into conditions on one variable each.
#[derive(Debug, Clone)]
pub(super) struct Apart {
    /// For each condition: the input of the query, and the condition on its values.
    pub(super) parts: Vec<(usize, Condition)>,
    /// The same conditions as programs.
    pub(super) programs: Vec<Program>,
    /// The program that combines the conditions. `inputs` lists its inputs: a condition, or an input of the query that
    /// counts cells.
    pub(super) rest: Program,
    pub(super) inputs: Vec<Of>,
}

/// An input of the combining program.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Part(usize),
    Counted(usize),
}

impl Apart {
    /// Splits a term. `None` if the term needs more of a variable than conditions on it alone.
    pub(super) fn of(
        tree: &Tree,
        inputs: &[Input],
        number: impl Fn(&Name) -> Option<usize>,
    ) -> Option<Apart> {
        let stored = |name: &Name| {
            let input = inputs.get(number(name)?)?;
            input.reading().filter(|reading| !reading.is_derived()).map(|_| input.dtype)
        };
        let split = tree.split(NAME, stored)?;
        let part = |name: &Name| split.parts.iter().position(|(known, ..)| known == name);
        let rest = split.rest.check(|name| match (part(name), number(name)) {
            (Some(_), _) => Typed::Type(Type::Bool),
            (None, Some(number)) => Typed::Type(inputs[number].dtype),
            (None, None) => Typed::Unknown(Vec::new()),
        });
        let rest = rest.ok()?;
        let mut of = Vec::with_capacity(rest.inputs().len());
        for (name, _) in rest.inputs() {
            of.push(match (part(name), number(name)) {
                (Some(part), _) => Of::Part(part),
                (None, Some(number)) if !matches!(inputs[number].origin, Origin::Stored(_)) => {
                    Of::Counted(number)
                }
                // A derived variable is computed by the client.
                _ => return None,
            });
        }
        let condition = |(_, variable, tree): (_, Name, Tree)| {
            let input = number(&variable)?;
            Some((input, Condition { dtype: inputs[input].dtype, tree, answer: Answer::Cells }))
        };
        let parts = split.parts.clone().into_iter().map(condition).collect::<Option<Vec<_>>>()?;
        let program = |(_, one): &(usize, Condition)| one.tree.check(|_| Typed::Type(one.dtype)).ok();
        let programs = parts.iter().map(program).collect::<Option<Vec<_>>>()?;
        (!parts.is_empty()).then_some(Apart { parts, programs, rest, inputs: of })
    }

    /// The condition, if the term is one condition on one variable.
    pub(super) fn only(&self) -> Option<(usize, &Condition)> {
        match (self.parts.as_slice(), self.inputs.as_slice()) {
            ([(input, condition)], [Of::Part(_)]) => Some((*input, condition)),
            _ => None,
        }
    }
}
