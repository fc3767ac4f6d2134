//! Checks constants, parameters, and the names in expressions.

use super::Checker;
use crate::ast::{Binder, Expr, Name};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::symbols::{GlobalValue, Symbols, dependency_order, each_name};
use crate::types::Prim;
use drystone_suggest::did_you_mean;

/// The names that an expression may use besides constants and parameters.
#[derive(Clone, Copy, Default)]
pub(super) struct Scope<'f> {
    /// The fragment's own parameters.
    pub(super) params: &'f [Name],
    /// The counter of `for`.
    pub(super) counter: Option<&'f Name>,
    /// The indices of the variable; they have values only in index positions.
    pub(super) binders: &'f [Binder],
    pub(super) in_index: bool,
}

/// The order in which constants and defaults can be computed.
pub(super) fn global_order(symbols: &Symbols) -> Result<Vec<usize>, Diagnostic> {
    let edges: Vec<Vec<usize>> = symbols
        .globals
        .iter()
        .map(|global| match &global.value {
            GlobalValue::None => Vec::new(),
            GlobalValue::SameAs(n) => vec![*n],
            GlobalValue::Expr(expr) => {
                let mut edges = Vec::new();
                each_name(expr, &mut |name, _| edges.extend(symbols.global_index.get(name)));
                edges
            }
        })
        .collect();
    dependency_order(&edges).map_err(|cycle| {
        let named: Vec<&Name> = cycle
            .iter()
            .filter_map(|&n| symbols.globals.get(n))
            .map(|g| &g.name)
            .filter(|n| !n.text.is_empty())
            .collect();
        cyclic(&named, "is computed from itself")
    })
}

/// The message for names that depend on each other in a circle.
pub(super) fn cyclic(names: &[&Name], what: &str) -> Diagnostic {
    let (text, span) = names.first().map_or(("", Span::default()), |n| (&*n.text, n.span));
    let mut diagnostic = Diagnostic::new(span, format!("`{text}` {what}"));
    let mut chain: Vec<String> = names.iter().take(5).map(|n| format!("`{}`", n.text)).collect();
    if names.len() > 5 {
        chain.push("…".into());
    }
    chain.push(format!("`{text}`"));
    diagnostic = diagnostic.label(format!("needs {}", chain.get(1..).unwrap_or(&[]).join(", which needs ")));
    names.get(1).map_or(diagnostic.clone(), |second| {
        diagnostic.note(second.span, format!("`{}` is declared here", second.text))
    })
}

impl Checker<'_> {
    pub(super) fn globals(&mut self) {
        let symbols = self.symbols;
        for global in &symbols.globals {
            if let GlobalValue::Expr(expr) = &global.value {
                self.expression(expr, Scope::default());
            }
        }
    }

    /// Checks that every name of an expression has a value there.
    pub(super) fn expression(&mut self, expr: &Expr, scope: Scope<'_>) {
        // Suggestions take time, so none are made once no more mistakes are recorded.
        if self.diagnostics.full() {
            return;
        }
        let mut wrong = Vec::new();
        each_name(expr, &mut |name, span| wrong.extend(self.value_name(name, span, scope)));
        for diagnostic in wrong {
            self.report(diagnostic);
        }
    }

    fn value_name(&self, name: &str, span: Span, scope: Scope<'_>) -> Option<Diagnostic> {
        let is = |n: &Name| &*n.text == name;
        let bound = scope.binders.iter().any(|b| is(&b.name));
        let known = self.symbols.global_index.contains_key(name)
            || scope.params.iter().any(is)
            || scope.counter.is_some_and(is)
            || (bound && scope.in_index);
        if known {
            return None;
        }
        if bound {
            return Some(
                Diagnostic::new(span, format!("the index `{name}` has no value here"))
                    .label("expected constants and parameters only"),
            );
        }
        let unknown = Diagnostic::new(span, format!("unknown name `{name}`"));
        if self.symbols.var_index.contains_key(name) {
            return Some(
                Diagnostic::new(span, format!("`{name}` is a dataset variable, not a number"))
                    .label("expected a constant, a parameter or an index"),
            );
        }
        if self.symbols.type_index.contains_key(name) || Prim::from_name(name).is_some() {
            return Some(
                Diagnostic::new(span, format!("`{name}` is a type, not a number"))
                    .label("expected a constant or a parameter"),
            );
        }
        let locals = scope.params.iter().chain(scope.counter).map(|n| &*n.text);
        let indices = scope.binders.iter().filter(|_| scope.in_index).map(|b| &*b.name.text);
        let globals = self.symbols.globals.iter().map(|g| &*g.name.text);
        let expected = if scope.in_index {
            "expected a constant, a parameter or an index of this variable"
        } else {
            "expected a constant or a parameter"
        };
        let help = did_you_mean(name, indices.chain(locals).chain(globals));
        let declare =
            format!("declare it with `const {name} = …`, or with `param {name}` if it is given later");
        Some(unknown.label(expected).help(declare).maybe_help(help))
    }
}
