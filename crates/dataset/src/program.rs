//! A checked text: its declarations, and how sizes and fragments are computed from them.

use std::sync::Arc;

use crate::ast::FragmentDecl;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::eval::{BUDGET, Eval, Evaluator, ParamValues, Stop};
use crate::fragment::Fragment;
use crate::span::Span;
use crate::symbols::Symbols;
use crate::types::Type;
use crate::variable::Variable;
use drystone_suggest::did_you_mean;

/// A text without mistakes. Everything that depends on parameters is computed when their values are given, as pairs of
/// name and value. The same pairs always give the same result.
#[derive(Clone, Debug)]
pub struct Program {
    symbols: Symbols,
}

/// What is known about a fragment without the values of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentInfo<'p> {
    /// Its name.
    pub name: &'p str,
    /// The parameters that distinguish its instances.
    pub params: Vec<&'p str>,
    /// Whether it is the canonical stored form.
    pub is_default: bool,
    /// Whether it is a stored replica.
    pub is_replica: bool,
}

/// Checks a text. Finds all mistakes that can be detected without the values of parameters, up to
/// [`crate::MAX_DIAGNOSTICS`].
pub fn check(text: &str) -> Result<Program, Diagnostics> {
    let parsed = crate::parse(text);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let mut diagnostics = Diagnostics::default();
    let (mut symbols, twice) = Symbols::collect(parsed.file);
    for twice in twice {
        diagnostics.push(
            Diagnostic::new(
                twice.second.span,
                format!("the {} `{}` is declared twice", twice.what, twice.second.text),
            )
            .note(twice.first, "it is first declared here"),
        );
    }
    crate::check::check(&mut symbols, &mut diagnostics);
    let program = Program { symbols };
    if diagnostics.is_empty() {
        crate::trial::run(&program.symbols, &mut diagnostics);
    }
    diagnostics.sort();
    if diagnostics.is_empty() { Ok(program) } else { Err(diagnostics) }
}

impl Program {
    /// The constants with their values for these parameters, in the order of the text.
    pub fn constants(&self, values: &[(&str, i64)]) -> Result<Vec<(&str, i64)>, Diagnostics> {
        self.known_params(values, &[], Span::default())?;
        let evaluator = Evaluator::new(&self.symbols, ParamValues::Values(values), BUDGET);
        let globals = self.symbols.globals.iter().zip(evaluator.globals());
        globals
            .filter(|(global, _)| !global.is_param && !global.name.text.is_empty())
            .map(|(global, value)| Ok((&*global.name.text, explained(value.clone(), global.name.span)?)))
            .collect()
    }

    /// The parameters declared with `param`, and whether they have a default.
    pub fn params(&self) -> impl Iterator<Item = (&str, bool)> {
        let params = self.symbols.globals.iter().filter(|g| g.is_param);
        params.map(|g| (&*g.name.text, !matches!(g.value, crate::symbols::GlobalValue::None)))
    }

    /// The fragments, in the order of the text.
    pub fn fragments(&self) -> impl Iterator<Item = FragmentInfo<'_>> {
        self.symbols.fragments.iter().map(|f| FragmentInfo {
            name: &f.name.text,
            params: f.params.iter().map(|p| &*p.text).collect(),
            is_default: f.roles.first().is_some_and(|r| r.replica.is_none()),
            is_replica: f.roles.first().is_some_and(|r| r.replica.is_some()),
        })
    }

    /// The names of the dataset variables, in the order of the text.
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        (0..self.symbols.vars.len()).filter_map(|n| self.symbols.var_at(n)).map(|v| &*v.name.text)
    }

    /// A dataset variable, as it is created in a container.
    pub fn variable(&self, name: &str, values: &[(&str, i64)]) -> Result<Arc<Variable>, Diagnostics> {
        let (id, span) = self.find_variable(name)?;
        self.known_params(values, &[], span)?;
        explained(Evaluator::new(&self.symbols, ParamValues::Values(values), BUDGET).variable(id), span)
    }

    /// All of a dataset variable as one fragment, laid out as declared. It is an error for a growable variable.
    pub fn whole(&self, variable: &str, values: &[(&str, i64)]) -> Result<Fragment, Diagnostics> {
        let (id, span) = self.find_variable(variable)?;
        self.known_params(values, &[], span)?;
        explained(Evaluator::new(&self.symbols, ParamValues::Values(values), BUDGET).whole(id), span)
    }

    /// The layout of a declared type.
    pub fn type_layout(&self, name: &str, values: &[(&str, i64)]) -> Result<Type, Diagnostics> {
        let found = self.symbols.type_index.get(name).and_then(|&n| self.symbols.types.get(n));
        let known = || self.symbols.types.iter().map(|t| &*t.name.text);
        let decl = found.ok_or_else(|| unknown("type", name, known()))?;
        self.known_params(values, &[], decl.name.span)?;
        let mut evaluator = Evaluator::new(&self.symbols, ParamValues::Values(values), BUDGET);
        explained(evaluator.layout(&decl.ty), decl.name.span)
    }

    /// One instance of a fragment. Every parameter on which the fragment depends needs a value here or a default.
    /// Values of other declared parameters are ignored.
    pub fn instantiate(&self, fragment: &str, values: &[(&str, i64)]) -> Result<Fragment, Diagnostics> {
        let found = self.symbols.fragment_index.get(fragment).and_then(|&n| self.symbols.fragments.get(n));
        let known = || self.symbols.fragments.iter().map(|f| &*f.name.text);
        let decl: &FragmentDecl = found.ok_or_else(|| unknown("fragment", fragment, known()))?;
        let own: Vec<&str> = decl.params.iter().map(|p| &*p.text).collect();
        self.known_params(values, &own, decl.name.span)?;
        let mut evaluator = Evaluator::new(&self.symbols, ParamValues::Values(values), BUDGET);
        explained(evaluator.fragment(decl, values), decl.name.span)
    }

    fn find_variable(&self, name: &str) -> Result<(usize, Span), Diagnostics> {
        let found = self.symbols.var_index.get(name).copied();
        let id = found.ok_or_else(|| unknown("dataset variable", name, self.variable_names()))?;
        Ok((id, self.symbols.var_at(id).map_or(Span::default(), |v| v.name.span)))
    }

    /// Refuses a value for a parameter that does not exist: a mistake that would otherwise go unnoticed.
    fn known_params(&self, values: &[(&str, i64)], own: &[&str], span: Span) -> Result<(), Diagnostics> {
        for (n, (name, _)) in values.iter().enumerate() {
            if !own.contains(name) && !self.params().any(|(param, _)| param == *name) {
                let known = own.iter().copied().chain(self.params().map(|(param, _)| param));
                let help = did_you_mean(name, known);
                let message = format!("a value is given for `{name}`, which is no parameter");
                return Err(Diagnostics::from(Diagnostic::new(span, message).maybe_help(help)));
            }
            if values.iter().take(n).any(|(earlier, _)| earlier == name) {
                let message = format!("two values are given for the parameter `{name}`");
                return Err(Diagnostics::from(Diagnostic::new(span, message)));
            }
        }
        Ok(())
    }
}

fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Diagnostics {
    let message = format!("the text declares no {what} `{name}`");
    Diagnostics::from(Diagnostic::new(Span::default(), message).maybe_help(did_you_mean(name, known)))
}

fn explained<T>(value: Eval<T>, span: Span) -> Result<T, Diagnostics> {
    value.map_err(|stop| {
        Diagnostics::from(match stop {
            Stop::Wrong(diagnostic) => *diagnostic,
            Stop::Missing(param, declared) => {
                Diagnostic::new(span, format!("the parameter `{param}` has no value"))
                    .note(declared, "it is declared here")
                    .help(format!("give it one, or a default: `param {param} = …`"))
            }
            Stop::Exhausted => Diagnostic::new(span, "this is too large to be computed")
                .help("make `for` ranges shorter, or use an index instead of a counter"),
        })
    })
}
