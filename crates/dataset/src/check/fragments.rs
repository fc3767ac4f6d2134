//! Checks fragments: paths exist, indices are used once, and all variables belong to one dataset.

use std::collections::HashMap;

use super::Checker;
use super::datasets::dimensions;
use super::defaults::Defaults;
use super::names::Scope;
use crate::ast::{
    FragmentDecl, FragmentItem, FragmentVarDecl, Name, Path, Step, TypeExpr, TypeKind, VarDecl,
};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::symbols::fields;
use drystone_suggest::did_you_mean;

impl<'s> Checker<'s> {
    pub(super) fn fragments(&mut self) {
        let symbols = self.symbols;
        let mut defaults = Defaults::new();
        for fragment in &symbols.fragments {
            if self.diagnostics.full() {
                return;
            }
            self.fragment(fragment);
            let is_default = fragment.roles.iter().any(|r| r.replica.is_none());
            if is_default && self.diagnostics.is_empty() {
                self.remember(fragment, &mut defaults);
            }
        }
        if self.diagnostics.is_empty() {
            self.left_out(&defaults);
        }
    }

    fn fragment(&mut self, fragment: &'s FragmentDecl) {
        if let Some(first) = fragment.params.get(crate::MAX_PARAMS) {
            let label = format!("at most {} are allowed", crate::MAX_PARAMS);
            return self.report(Diagnostic::new(first.span, "too many parameters").label(label));
        }
        self.fragment_params(&fragment.params);
        let scope = Scope { params: &fragment.params, ..Scope::default() };
        if let [first, second, ..] = &*fragment.roles {
            self.report(
                Diagnostic::new(second.span, "a fragment has one purpose")
                    .label("expected `{`")
                    .note(first.span, "its purpose is given here")
                    .help("declare a second fragment for the other purpose"),
            );
        }
        for replica in fragment.roles.iter().filter_map(|r| r.replica.as_ref()) {
            self.expression(replica, Scope::default());
        }
        let mut names: HashMap<&str, Span> = HashMap::new();
        let mut dataset: Option<(usize, Span)> = None;
        for item in &fragment.items {
            if self.diagnostics.full() {
                return;
            }
            let var = match item {
                FragmentItem::Pad(bytes) | FragmentItem::Align(bytes) => {
                    self.expression(bytes, scope);
                    continue;
                }
                FragmentItem::Var(var) => var,
            };
            if let Some(&first) = names.get(&*var.name.text) {
                self.report(
                    Diagnostic::new(
                        var.name.span,
                        format!("the variable `{}` is declared twice", var.name.text),
                    )
                    .note(first, "it is first declared here"),
                );
            }
            names.insert(&var.name.text, var.name.span);
            let Some(of) = self.fragment_var(fragment, var) else { continue };
            match dataset {
                Some((first, place)) if first != of => self.report(
                    Diagnostic::new(var.path.span, "a fragment shows one dataset")
                        .label("this variable belongs to another")
                        .note(place, "the first variable is taken from here"),
                ),
                _ => dataset = Some((of, var.path.span)),
            }
        }
        if names.is_empty() {
            let message = format!("the fragment `{}` holds nothing", fragment.name.text);
            self.report(
                Diagnostic::new(fragment.name.span, message)
                    .help("give it a variable, for example `var t[i:10] = data[i]`"),
            );
        }
    }

    fn fragment_params(&mut self, params: &[Name]) {
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for param in params {
            if let Some(first) = seen.insert(&param.text, param.span) {
                self.report(
                    Diagnostic::new(param.span, format!("the parameter `{}` is named twice", param.text))
                        .note(first, "it is first named here"),
                );
            }
            let global =
                self.symbols.global_index.get(&param.text).and_then(|&n| self.symbols.globals.get(n));
            if let Some(constant) = global.filter(|g| !g.is_param) {
                self.report(
                    Diagnostic::new(param.span, format!("`{}` is a constant", param.text))
                        .label("expected the name of a parameter")
                        .note(constant.name.span, "the constant is declared here"),
                );
            }
        }
    }

    /// Checks one variable; returns the dataset to which it belongs.
    fn fragment_var(&mut self, fragment: &'s FragmentDecl, var: &'s FragmentVarDecl) -> Option<usize> {
        let outer = Scope { params: &fragment.params, ..Scope::default() };
        let counter = var.repeat.as_ref().map(|r| &r.name);
        if let Some(repeat) = &var.repeat {
            self.expression(&repeat.from, outer);
            self.expression(&repeat.to, outer);
            self.not_hidden(&repeat.name, "the counter", outer);
        }
        let scope = Scope { counter, binders: &var.binders, ..outer };
        self.rank(var.binders.len(), var.name.span);
        if var.binders.len() > crate::MAX_NDIM {
            return None;
        }
        for (n, binder) in var.binders.iter().enumerate() {
            self.expression(&binder.extent, scope);
            self.not_hidden(&binder.name, "the index", Scope { binders: &[], ..scope });
            if let Some(first) = var.binders.iter().take(n).find(|b| b.name.text == binder.name.text) {
                self.report(
                    Diagnostic::new(
                        binder.name.span,
                        format!("two indices are named `{}`", binder.name.text),
                    )
                    .note(first.name.span, "the first is here"),
                );
            }
        }
        self.order(var.order.as_ref(), var.binders.len());
        if let Some(align) = &var.align {
            self.expression(align, scope);
        }
        let found = self.path(&var.path, scope);
        self.indices(fragment, var, scope);
        found
    }

    /// Refuses a local name that hides a constant or parameter, since it would be mistaken for that.
    fn not_hidden(&mut self, name: &Name, what: &str, scope: Scope<'_>) {
        let global = self.symbols.global_index.get(&name.text).and_then(|&n| self.symbols.globals.get(n));
        let local = scope.params.iter().chain(scope.counter).find(|p| p.text == name.text);
        let Some(hidden) = local.or(global.map(|g| &g.name)) else { return };
        if hidden.span == name.span {
            return;
        }
        self.report(
            Diagnostic::new(name.span, format!("{what} `{}` hides another name", name.text))
                .label("expected a name that means nothing else here")
                .note(hidden.span, format!("`{}` is declared here", name.text)),
        );
    }

    /// Follows a path through the types; returns the dataset in which it begins.
    fn path(&mut self, path: &Path, scope: Scope<'_>) -> Option<usize> {
        let symbols = self.symbols;
        let (first, rest) = path.steps.split_first()?;
        let Some(&id) = symbols.var_index.get(&first.name.text) else {
            self.report(self.unknown_variable(&first.name));
            return None;
        };
        let (var, &(dataset, _)) = (symbols.var_at(id)?, symbols.vars.get(id)?);
        let mut ty = self.index_variable(first, var, scope)?;
        let mut owner = &first.name;
        for step in rest {
            let (field, span) = self.field(&step.name, owner, ty)?;
            ty = self.index_field(step, field, span)?;
            owner = &step.name;
        }
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for name in path.select.iter().flatten() {
            self.field(name, owner, ty)?;
            if let Some(first) = seen.insert(&name.text, name.span) {
                self.report(
                    Diagnostic::new(name.span, format!("the field `{}` is selected twice", name.text))
                        .note(first, "it is selected here already"),
                );
            }
        }
        Some(dataset)
    }

    fn unknown_variable(&self, name: &Name) -> Diagnostic {
        let diagnostic = Diagnostic::new(name.span, format!("unknown dataset variable `{}`", name.text));
        if self.symbols.vars.is_empty() {
            return diagnostic.label("the text declares no dataset").help("add `dataset { var … }`");
        }
        let vars = (0..self.symbols.vars.len()).filter_map(|n| self.symbols.var_at(n)).map(|v| &*v.name.text);
        let mut help = did_you_mean(&name.text, vars);
        let named =
            self.symbols.datasets.iter().any(|d| d.name.as_ref().is_some_and(|n| n.text == name.text));
        if named {
            help = Some(format!("`{}` is a dataset; a path begins with one of its variables", name.text));
        }
        diagnostic.label("expected a variable of a dataset").maybe_help(help)
    }

    fn index_variable(&mut self, step: &Step, var: &'s VarDecl, scope: Scope<'_>) -> Option<&'s TypeExpr> {
        let (rank, given) = (var.extents.len(), step.index.len());
        let element = self.symbols.resolve(&var.ty);
        if let Some(ty) = given.checked_sub(rank).and_then(|more| self.inside_arrays(element, more)) {
            return Some(ty);
        }
        let mut diagnostic =
            Diagnostic::new(step.span, format!("`{}` has {}", step.name.text, dimensions(rank)))
                .label(format!("expected {}, found {given}", indices(rank)))
                .note(var.name.span, "it is declared here");
        if given < rank {
            let names = ["i", "j", "k", "l"];
            let own = (0..rank).map(|n| {
                scope
                    .binders
                    .get(n)
                    .map(|b| &*b.name.text)
                    .or(names.get(n).copied())
                    .unwrap_or("…")
                    .to_owned()
            });
            let example: Vec<String> = own.take(6).collect();
            diagnostic = diagnostic.help(format!(
                "every dimension gets an index or a number: `{}[{}]`",
                step.name.text,
                example.join(", ")
            ));
        }
        self.report(diagnostic);
        None
    }

    /// The type that `given` indices of an element lead to: each takes one dimension of its arrays, from the outside
    /// in.
    fn inside_arrays(&self, mut ty: &'s TypeExpr, mut given: usize) -> Option<&'s TypeExpr> {
        while given > 0 {
            let TypeKind::Array { extents, element, .. } = &ty.kind else { return None };
            given = given.checked_sub(extents.len())?;
            ty = self.symbols.resolve(element);
        }
        Some(ty)
    }

    /// The declared type of a field, and where it is declared.
    fn field(&mut self, name: &Name, owner: &Name, ty: &'s TypeExpr) -> Option<(&'s TypeExpr, Span)> {
        let structure = match &ty.kind {
            TypeKind::Struct(structure) => structure,
            TypeKind::Array { extents, .. } => {
                self.report(
                    Diagnostic::new(name.span, format!("`{}` is an array", owner.text))
                        .label("expected brackets before `.`")
                        .help(format!(
                            "say which of its elements: {} after `{}`",
                            if extents.len() == 1 { "`[k]`" } else { "`[k, …]`" },
                            owner.text
                        )),
                );
                return None;
            }
            TypeKind::Named(_) | TypeKind::Bytes(_) => {
                let shown = if let TypeKind::Named(n) = &ty.kind { &*n.text } else { "bytes" };
                self.report(
                    Diagnostic::new(name.span, format!("`{}` has no fields", owner.text))
                        .label(format!("its type is `{shown}`")),
                );
                return None;
            }
        };
        if let Some(place) = self.symbols.field(ty.span.start, &name.text)
            && let Some(crate::ast::Member::Fields { ty, .. }) = structure.members.get(place.member)
        {
            return Some((ty, place.span));
        }
        let known = fields(structure).map(|(_, field, _)| &*field.text);
        let help = did_you_mean(&name.text, known).or_else(|| {
            let some: Vec<String> =
                fields(structure).take(8).map(|(_, f, _)| format!("`{}`", f.text)).collect();
            Some(format!("its fields are {}", some.join(", ")))
        });
        self.report(
            Diagnostic::new(name.span, format!("`{}` has no field `{}`", owner.text, name.text))
                .maybe_help(help),
        );
        None
    }

    fn index_field(&mut self, step: &Step, ty: &'s TypeExpr, declared: Span) -> Option<&'s TypeExpr> {
        let field = self.symbols.resolve(ty);
        if let Some(ty) = self.inside_arrays(field, step.index.len()) {
            return Some(ty);
        }
        let given = step.index.len();
        let diagnostic = match &field.kind {
            TypeKind::Array { extents, .. } => {
                let rank = extents.len();
                Diagnostic::new(step.span, format!("`{}` has {}", step.name.text, dimensions(rank)))
                    .label(format!("expected {}, found {given}", indices(rank)))
            }
            _ => Diagnostic::new(step.span, format!("`{}` is not an array", step.name.text))
                .label("expected no brackets"),
        };
        self.report(diagnostic.note(declared, "it is declared here"));
        None
    }

    /// Checks that every index is used in at most one position, and in stored fragments in exactly one.
    fn indices(&mut self, fragment: &FragmentDecl, var: &FragmentVarDecl, scope: Scope<'_>) {
        let mut used: Vec<Option<Span>> = vec![None; var.binders.len()];
        for index in var.path.steps.iter().flat_map(|s| &s.index) {
            let Some((binder, span)) = self.index(index, scope) else { continue };
            match used.get_mut(binder) {
                Some(Some(first)) => {
                    let first = *first;
                    let name = var.binders.get(binder).map_or("", |b| &*b.name.text);
                    self.report(
                        Diagnostic::new(span, format!("the index `{name}` is used in two positions"))
                            .label("expected another index or a number")
                            .note(first, "it is used here already")
                            .help("a fragment is a box of the dataset; diagonals are not"),
                    );
                }
                Some(slot) => *slot = Some(span),
                None => {}
            }
        }
        let stored = fragment.roles.first();
        for (binder, used) in var.binders.iter().zip(used) {
            if let (Some(role), None) = (stored, used) {
                self.report(
                    Diagnostic::new(
                        binder.name.span,
                        format!("the index `{}` is not used", binder.name.text),
                    )
                    .label("all its values would name the same element")
                    .note(role.span, "a stored fragment holds every element once"),
                );
            }
        }
    }
}

fn indices(count: usize) -> String {
    match count {
        0 => "no index".into(),
        1 => "1 index".into(),
        n => format!("{n} indices"),
    }
}
