//! The checks of a text that need no values of parameters.
//!
//! Names are checked first, then types, datasets and fragments. A check that depends on a wrong declaration is left
//! out, so that one mistake gives one message.

mod datasets;
mod defaults;
mod fragments;
mod index;
mod names;
mod types;

pub(crate) use index::Shape;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::symbols::Symbols;

pub(crate) struct Checker<'s> {
    symbols: &'s Symbols,
    diagnostics: &'s mut Diagnostics,
}

/// Checks the declarations and completes the tables of `symbols` that need checked names.
pub(crate) fn check(symbols: &mut Symbols, diagnostics: &mut Diagnostics) {
    match names::global_order(symbols) {
        Ok(order) => symbols.global_order = order,
        Err(cycle) => diagnostics.push(cycle),
    }
    let before = diagnostics.iter().len();
    types::index_fields(symbols, diagnostics);
    if let Err(cycle) = types::order(symbols) {
        diagnostics.push(cycle);
        return;
    }
    let mut checker = Checker { symbols, diagnostics };
    checker.types();
    // Paths can only be followed through correct types.
    let sound = checker.diagnostics.iter().len() == before;
    checker.globals();
    checker.datasets();
    if sound {
        checker.fragments();
    }
}

impl Checker<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}
