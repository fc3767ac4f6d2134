//! Checks that the default fragments of a dataset together hold every field of every variable.
//!
//! Whether they hold every element depends on numbers, which `trial` checks.

use std::collections::HashMap;

use super::Checker;
use crate::ast::{FragmentDecl, FragmentItem, TypeExpr, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::symbols::fields;

/// The fields that the default fragments hold, as a tree of names.
#[derive(Default)]
pub(super) struct Held {
    whole: bool,
    parts: HashMap<Box<str>, Held>,
}

/// For each dataset, the position of its first default fragment, and the fields that all of them hold of each variable.
pub(super) type Defaults = HashMap<usize, (Span, HashMap<usize, Held>)>;

impl Checker<'_> {
    pub(super) fn remember(&self, fragment: &FragmentDecl, defaults: &mut Defaults) {
        for item in &fragment.items {
            let FragmentItem::Var(var) = item else { continue };
            let Some((first, rest)) = var.path.steps.split_first() else { continue };
            let Some(&id) = self.symbols.var_index.get(&first.name.text) else { continue };
            let Some(&(dataset, _)) = self.symbols.vars.get(id) else { continue };
            let (_, held) = defaults.entry(dataset).or_insert_with(|| (fragment.name.span, HashMap::new()));
            let mut held = held.entry(id).or_default();
            for step in rest {
                held = held.parts.entry(step.name.text.clone()).or_default();
            }
            match &var.path.select {
                None => held.whole = true,
                Some(names) => {
                    for name in names {
                        held.parts.entry(name.text.clone()).or_default().whole = true;
                    }
                }
            }
        }
    }

    /// Reports variables and fields that no default fragment of their dataset holds.
    pub(super) fn left_out(&mut self, defaults: &Defaults) {
        let symbols = self.symbols;
        let nothing = Held::default();
        for (id, &(dataset, _)) in symbols.vars.iter().enumerate() {
            let (Some((place, held)), Some(var)) = (defaults.get(&dataset), symbols.var_at(id)) else {
                continue;
            };
            let found = held.get(&id).unwrap_or(&nothing);
            let ty = symbols.resolve(&var.ty);
            if let Some(path) = self.missing(ty, found) {
                let name = crate::lowered::join(&var.name.text, &path);
                self.report(
                    Diagnostic::new(var.name.span, format!("no default fragment holds `{name}`"))
                        .label("the default fragments of a dataset must hold all of it")
                        .note(*place, "the first default fragment is here")
                        .help(format!("add a variable with the path `{name}` to a default fragment")),
                );
            }
        }
    }

    /// The first part of a type that is not held, as a path from the type.
    fn missing(&self, ty: &TypeExpr, held: &Held) -> Option<String> {
        if held.whole {
            return None;
        }
        match &ty.kind {
            TypeKind::Array { element, .. } => self.missing(self.symbols.resolve(element), held),
            TypeKind::Struct(structure) if !held.parts.is_empty() => {
                fields(structure).find_map(|(_, name, ty)| {
                    let Some(part) = held.parts.get(&name.text) else { return Some(name.text.to_string()) };
                    let inner = self.missing(self.symbols.resolve(ty), part)?;
                    Some(crate::lowered::join(&name.text, &inner).to_string())
                })
            }
            _ => Some(String::new()),
        }
    }
}
