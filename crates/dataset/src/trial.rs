//! The last part of a check: evaluates everything that can already be evaluated, to find wrong numbers early.
//!
//! It first evaluates without any parameter, where every result is final, and then with the defaults. A shared budget
//! bounds the time; the rest is checked at instantiation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::eval::{BUDGET, Evaluator, ParamValues, Stop};
use crate::fragment::{Fragment, Role};
use crate::overlap::reached;
use crate::symbols::Symbols;
use crate::types::Type;
use crate::variable::Variable;

pub(crate) fn run(symbols: &Symbols, diagnostics: &mut Diagnostics) {
    let mut work = BUDGET;
    for given in [ParamValues::Nothing, ParamValues::Values(&[])] {
        let mut trial = Trial { symbols, evaluator: Evaluator::new(symbols, given, work), diagnostics };
        let fragments = trial.all();
        if matches!(given, ParamValues::Nothing) && trial.diagnostics.is_empty() {
            trial.coverage(&fragments);
        }
        work = trial.evaluator.work_left();
    }
}

struct Trial<'s, 'd> {
    symbols: &'s Symbols,
    evaluator: Evaluator<'s>,
    diagnostics: &'d mut Diagnostics,
}

impl Trial<'_, '_> {
    /// Evaluates everything; returns the default fragments, with `None` for those that depend on parameters.
    fn all(&mut self) -> Vec<(usize, Option<Fragment>)> {
        let symbols = self.symbols;
        for value in self.evaluator.globals().to_vec() {
            self.note(value.err());
        }
        for decl in &symbols.types {
            let layout = self.evaluator.layout(&decl.ty);
            self.note(layout.err());
        }
        for id in 0..symbols.vars.len() {
            let variable = self.evaluator.variable(id);
            self.note(variable.err());
        }
        let mut defaults = Vec::new();
        if !self.diagnostics.is_empty() {
            return defaults;
        }
        for (n, decl) in symbols.fragments.iter().enumerate() {
            if self.diagnostics.full() {
                break;
            }
            let fragment = self.evaluator.fragment(decl, &[]);
            let is_default = decl.roles.first().is_some_and(|r| r.replica.is_none());
            match fragment {
                Ok(fragment) if is_default && fragment.role == Role::Default => {
                    defaults.push((n, Some(fragment)))
                }
                Ok(_) => {}
                Err(stop) => {
                    if is_default {
                        defaults.push((n, None));
                    }
                    self.note(Some(stop));
                }
            }
        }
        defaults
    }

    fn note(&mut self, stop: Option<Stop>) {
        if let Some(Stop::Wrong(diagnostic)) = stop {
            self.diagnostics.push(*diagnostic);
        }
    }

    /// Checks that the default fragments of a dataset hold all of it, if they do not depend on parameters.
    fn coverage(&mut self, fragments: &[(usize, Option<Fragment>)]) {
        let symbols = self.symbols;
        let mut of_dataset: BTreeMap<usize, Vec<(usize, Option<&Fragment>)>> = BTreeMap::new();
        for (n, fragment) in fragments {
            let Some(decl) = symbols.fragments.get(*n) else { continue };
            let first = decl.items.iter().find_map(|item| match item {
                crate::ast::FragmentItem::Var(var) => var.path.steps.first(),
                _ => None,
            });
            let id = first.and_then(|s| symbols.var_index.get(&s.name.text)).copied();
            let Some(&(dataset, _)) = id.and_then(|id| symbols.vars.get(id)) else { continue };
            of_dataset.entry(dataset).or_default().push((*n, fragment.as_ref()));
        }
        for (dataset, members) in of_dataset {
            let complete: Option<Vec<&Fragment>> = members.iter().map(|&(_, fragment)| fragment).collect();
            if let (Some(complete), Some(&(first, _))) = (complete, members.first()) {
                self.covered(dataset, &complete, first);
            }
        }
    }

    fn covered(&mut self, dataset: usize, fragments: &[&Fragment], first: usize) {
        let mut held: HashMap<(Arc<str>, Arc<str>), Option<u128>> = HashMap::new();
        for fragment in fragments {
            let Ok(leaves) = fragment.lower() else { return };
            for (column, count) in reached(&leaves) {
                let sum = held.entry(column).or_insert(Some(0));
                *sum = sum.and_then(|s| s.checked_add(count?));
            }
        }
        for (id, &(of, _)) in self.symbols.vars.iter().enumerate() {
            let (true, Some(decl)) = (of == dataset, self.symbols.var_at(id)) else { continue };
            let Ok(variable) = self.evaluator.variable(id) else { continue };
            let Some(total) = cells(&variable) else { continue };
            let mut columns = Vec::new();
            columns_of(&variable.ty, "", total, &mut columns);
            let short = columns.into_iter().find_map(|(column, total)| {
                let held =
                    held.get(&(Arc::clone(&variable.name), Arc::clone(&column))).copied().unwrap_or(Some(0));
                held.filter(|&held| held < total).map(|held| (column, held, total))
            });
            if let (Some((column, held, total)), Some(fragment)) = (short, self.symbols.fragments.get(first))
            {
                let name = crate::lowered::join(&variable.name, &column);
                self.diagnostics.push(
                    Diagnostic::new(
                        decl.name.span,
                        format!("the default fragments leave out part of `{name}`"),
                    )
                    .label(format!("they hold {held} of {total} values"))
                    .note(fragment.name.span, "the first default fragment is here"),
                );
            }
        }
    }
}

/// Number of elements of a variable, if it does not grow.
fn cells(variable: &Variable) -> Option<u128> {
    variable.extents.iter().try_fold(1_u128, |product, extent| product.checked_mul(u128::from((*extent)?)))
}

/// Adds the columns of a type, and the number of values of each.
fn columns_of(ty: &Type, path: &str, values: u128, columns: &mut Vec<(Arc<str>, u128)>) {
    match ty {
        Type::Prim(_) => columns.push((path.into(), values)),
        Type::Array(array) => {
            let inner =
                array.extents.iter().fold(values, |product, &n| product.saturating_mul(u128::from(n)));
            columns_of(&array.element, path, inner, columns);
        }
        Type::Struct(structure) => {
            for field in &structure.fields {
                columns_of(&field.ty, &crate::lowered::join(path, &field.name), values, columns);
            }
        }
    }
}
