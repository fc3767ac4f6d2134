//! Evaluates checked declarations, with the values of parameters, to sizes, offsets and index maps.
//!
//! An [`Evaluator`] holds one set of values, and evaluates types and variables once. Every step is charged to a budget,
//! so that a short text cannot cause endless work (`for k in 0..1000000000`).

mod expressions;
mod fragments;
mod layout;

use std::collections::HashMap;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::symbols::{GlobalValue, Symbols};
use crate::types::Type;
use crate::variable::Variable;

/// Most steps of one evaluation: expressions, fields, variables.
pub(crate) const BUDGET: u64 = 1 << 22;

/// Why an expression or declaration has no value.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// It depends on a parameter without a value: a global, or a fragment's own.
    Missing(Box<str>, Span),
    /// It is wrong.
    Wrong(Box<Diagnostic>),
    /// The budget is used up.
    Exhausted,
}

impl From<Diagnostic> for Stop {
    fn from(diagnostic: Diagnostic) -> Self {
        Stop::Wrong(Box::new(diagnostic))
    }
}

pub(crate) type Eval<T> = Result<T, Stop>;

/// The values of parameters.
#[derive(Clone, Copy)]
pub(crate) enum ParamValues<'v> {
    /// No parameter has a value, not even a default: every result holds for all values.
    Nothing,
    /// The named parameters have these values, and others their defaults.
    Values(&'v [(&'v str, i64)]),
}

/// A name that has a value only in one fragment or one variable.
pub(crate) struct Local<'s> {
    name: &'s str,
    value: Option<i64>,
    span: Span,
}

pub(crate) struct Evaluator<'s> {
    symbols: &'s Symbols,
    globals: Vec<Eval<i64>>,
    locals: Vec<Local<'s>>,
    types: Vec<Option<Type>>,
    variables: HashMap<usize, Arc<Variable>>,
    /// Whether no parameter has a value, so that every result is final.
    fixed: bool,
    work: u64,
}

impl<'s> Evaluator<'s> {
    pub(crate) fn new(symbols: &'s Symbols, given: ParamValues<'_>, work: u64) -> Self {
        let unknown = || Err(Stop::Missing("".into(), Span::default()));
        let mut evaluator = Self {
            symbols,
            globals: symbols.globals.iter().map(|_| unknown()).collect(),
            locals: Vec::new(),
            types: vec![None; symbols.types.len()],
            variables: HashMap::new(),
            fixed: matches!(given, ParamValues::Nothing),
            work,
        };
        let values: HashMap<&str, i64> = match given {
            ParamValues::Nothing => HashMap::new(),
            ParamValues::Values(values) => values.iter().copied().collect(),
        };
        for &n in &symbols.global_order {
            let Some(global) = symbols.globals.get(n) else { continue };
            let missing = || Err(Stop::Missing(global.name.text.clone(), global.name.span));
            let given = values.get(&*global.name.text).copied().filter(|_| global.is_param);
            let value = match (given, &global.value) {
                (Some(value), _) => Ok(value),
                (None, _) if global.is_param && evaluator.fixed => missing(),
                (None, GlobalValue::None) => missing(),
                (None, GlobalValue::SameAs(shared)) => {
                    evaluator.globals.get(*shared).cloned().unwrap_or_else(missing)
                }
                (None, GlobalValue::Expr(expr)) => evaluator.value(expr),
            };
            if let Some(slot) = evaluator.globals.get_mut(n) {
                *slot = value;
            }
        }
        evaluator
    }

    /// The rest of the budget.
    pub(crate) fn work_left(&self) -> u64 {
        self.work
    }

    /// The values of constants and parameters, or why they have none.
    pub(crate) fn globals(&self) -> &[Eval<i64>] {
        &self.globals
    }

    pub(crate) fn charge(&mut self, steps: u64) -> Eval<()> {
        match self.work.checked_sub(steps) {
            Some(left) => {
                self.work = left;
                Ok(())
            }
            None => {
                self.work = 0;
                Err(Stop::Exhausted)
            }
        }
    }
}
