//! Dataset variables: extents, dimension names, fill values, expected reads.

use std::collections::HashMap;

use super::Checker;
use super::names::Scope;
use crate::access::{Access, Axes};
use crate::ast::{Extent, FillExpr, FillKind, Name, Text, TypeExpr, TypeKind, VarDecl};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::types::Prim;

impl Checker<'_> {
    pub(super) fn datasets(&mut self) {
        let symbols = self.symbols;
        let mut names: HashMap<Option<&str>, Span> = HashMap::new();
        for dataset in &symbols.datasets {
            let name = dataset.name.as_ref().map(|n| &*n.text);
            if let Some(first) = names.insert(name, dataset.span) {
                let message = match name {
                    Some(name) => format!("the dataset `{name}` is declared twice"),
                    None => "a second dataset without a name".into(),
                };
                self.report(
                    Diagnostic::new(dataset.span, message)
                        .note(first, "the first is declared here")
                        .help("put the variables into one block, or name the datasets"),
                );
            }
            for var in &dataset.vars {
                self.variable(var);
            }
        }
    }

    fn variable(&mut self, var: &VarDecl) {
        for extent in &var.extents {
            if let Extent::Fixed(expr) = extent {
                self.expression(expr, Scope::default());
            }
        }
        self.rank(var.extents.len(), var.name.span);
        if var.extents.len() > crate::MAX_NDIM {
            return;
        }
        self.order(var.order.as_ref(), var.extents.len());
        if let Some((names, span)) = &var.dims {
            self.dim_names(names, *span, var);
        }
        if let Some(fill) = &var.fill {
            self.fill(fill, var);
        }
        if let Some(access) = &var.access {
            self.access(access, var);
        }
    }

    fn access(&mut self, access: &Text, var: &VarDecl) {
        let names: Vec<&str> = var
            .dims
            .iter()
            .flat_map(|(names, _)| names)
            .map(|name| &*name.text)
            .take(var.extents.len())
            .collect();
        let axes = Axes { count: var.extents.len(), names: &names, steps: var.steps.is_some() };
        if let Err(mut wrong) = Access::parse(&access.text, &axes) {
            let inside = access.span.start + 1;
            wrong.span = Span { start: wrong.span.start + inside, end: wrong.span.end + inside };
            self.report(wrong);
        }
    }

    fn dim_names(&mut self, names: &[Name], span: Span, var: &VarDecl) {
        let rank = var.extents.len();
        if names.len() != rank {
            let mut diagnostic =
                Diagnostic::new(span, format!("`{}` has {}", var.name.text, dimensions(rank)))
                    .label(format!("expected {rank} names, found {}", names.len()));
            if var.steps.is_some() && names.len() == rank + 1 {
                diagnostic = diagnostic.help("the steps are not a dimension here; leave their name out");
            }
            return self.report(diagnostic);
        }
        for (n, name) in names.iter().enumerate() {
            if let Some(first) = names.iter().take(n).find(|first| first.text == name.text) {
                self.report(
                    Diagnostic::new(name.span, format!("two dimensions are named `{}`", name.text))
                        .note(first.span, "the first is here"),
                );
            }
        }
    }

    fn fill(&mut self, fill: &FillExpr, var: &VarDecl) {
        let Some((ty, shown)) = self.innermost(&var.ty) else { return };
        let expected = match (ty, &fill.value) {
            (Some(Prim::Bool), FillKind::Bool(_)) => return,
            (Some(Prim::Bool), _) => "expected `true` or `false`".to_owned(),
            (Some(Prim::Bytes(_)), FillKind::Text(_)) => return,
            (Some(Prim::Bytes(_)), _) => "expected a text in double quotes".to_owned(),
            (Some(prim), value) => match (prim.integer_range(), value) {
                (Some((low, high)), FillKind::Int(n)) if (low..=high).contains(n) => return,
                (Some((low, high)), _) => format!("expected an integer from {low} to {high}"),
                (None, FillKind::Int(_) | FillKind::Float(_)) => return,
                (None, _) => "expected a number, `nan` or `inf`".to_owned(),
            },
            (None, _) => {
                return self.report(
                    Diagnostic::new(fill.span, "a record has no single fill value")
                        .label("expected no `fill`: members of records start as zero"),
                );
            }
        };
        self.report(
            Diagnostic::new(fill.span, format!("this is not a value of type `{shown}`"))
                .label(expected)
                .note(var.ty.span, "the type is given here"),
        );
    }

    /// The type of an element, or of the elements of its arrays (`None` for a record), and its name. `None` if the type
    /// is unknown, which has been reported.
    fn innermost<'t>(&'t self, ty: &'t TypeExpr) -> Option<(Option<Prim>, &'t str)> {
        match &self.symbols.resolve(ty).kind {
            TypeKind::Named(name) => Prim::from_name(&name.text).map(|prim| (Some(prim), &*name.text)),
            TypeKind::Bytes(_) => Some((Some(Prim::Bytes(0)), "bytes")),
            TypeKind::Array { element, .. } => self.innermost(element),
            TypeKind::Struct(_) => Some((None, "struct")),
        }
    }
}

/// "2 dimensions", with the right plural.
pub(super) fn dimensions(rank: usize) -> String {
    match rank {
        0 => "no dimensions".into(),
        1 => "1 dimension".into(),
        n => format!("{n} dimensions"),
    }
}
