//! Checks types: names are known, no type contains itself, fields have different names, depth and width are bounded.

use std::collections::HashMap;

use super::Checker;
use super::names::{Scope, cyclic};
use crate::ast::{Expr, Member, OrderExpr, OrderKind, TypeExpr, TypeKind};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::span::Span;
use crate::symbols::{FieldPlace, Symbols, dependency_order, fields};
use crate::types::Prim;
use drystone_suggest::did_you_mean;

/// Calls `visit` with a type and all types written inside it, from the outside in.
fn each_type<'t>(ty: &'t TypeExpr, visit: &mut impl FnMut(&'t TypeExpr)) {
    visit(ty);
    match &ty.kind {
        TypeKind::Named(_) | TypeKind::Bytes(_) => {}
        TypeKind::Array { element, .. } => each_type(element, visit),
        TypeKind::Struct(structure) => {
            for member in &structure.members {
                if let Member::Fields { ty, .. } = member {
                    each_type(ty, visit);
                }
            }
        }
    }
}

/// All types of the text, declared and anonymous.
fn written_types(symbols: &Symbols) -> impl Iterator<Item = &TypeExpr> {
    let of_vars = symbols.datasets.iter().flat_map(|d| d.vars.iter().map(|v| &v.ty));
    symbols.types.iter().map(|t| &t.ty).chain(of_vars)
}

/// Makes the table of fields. If two fields have the same name, the first counts.
pub(super) fn index_fields(symbols: &mut Symbols, diagnostics: &mut Diagnostics) {
    let mut tables = HashMap::new();
    for ty in written_types(symbols) {
        each_type(ty, &mut |inner| {
            let TypeKind::Struct(structure) = &inner.kind else { return };
            let mut table: HashMap<Box<str>, FieldPlace> = HashMap::new();
            for (ordinal, (member, name, _)) in fields(structure).enumerate() {
                if let Some(first) = table.get(&name.text) {
                    diagnostics.push(
                        Diagnostic::new(name.span, format!("the field `{}` is declared twice", name.text))
                            .note(first.span, "it is first declared here"),
                    );
                } else {
                    table.insert(name.text.clone(), FieldPlace { ordinal, member, span: name.span });
                }
            }
            tables.insert(inner.span.start, table);
        });
    }
    symbols.fields = tables;
}

fn type_edges(symbols: &Symbols) -> Vec<Vec<usize>> {
    let edges_of = |ty| {
        let mut edges = Vec::new();
        each_type(ty, &mut |inner: &TypeExpr| {
            if let TypeKind::Named(name) = &inner.kind {
                edges.extend(symbols.type_index.get(&name.text).copied());
            }
        });
        edges
    };
    symbols.types.iter().map(|t| edges_of(&t.ty)).collect()
}

/// The types, each after those of which it consists.
pub(super) fn order(symbols: &Symbols) -> Result<Vec<usize>, Diagnostic> {
    dependency_order(&type_edges(symbols)).map_err(|cycle| {
        let named: Vec<_> = cycle.iter().filter_map(|&n| symbols.types.get(n)).map(|t| &t.name).collect();
        let diagnostic = cyclic(&named, "contains itself");
        let chain = diagnostic.label.replace("needs", "contains");
        diagnostic
            .label(chain)
            .help("a type has a fixed size, so it cannot hold itself; store an index instead")
    })
}

/// The depth of a type, and the number of its primitive members.
#[derive(Clone, Copy)]
struct Measure {
    depth: usize,
    leaves: u64,
}

impl<'s> Checker<'s> {
    pub(super) fn types(&mut self) {
        let symbols = self.symbols;
        for decl in &symbols.types {
            if Prim::names().any(|n| n == &*decl.name.text) {
                self.report(
                    Diagnostic::new(decl.name.span, format!("`{}` is a primitive type", decl.name.text))
                        .label("expected a name of your own"),
                );
            }
            self.type_expression(&decl.ty);
        }
        for dataset in &symbols.datasets {
            for var in &dataset.vars {
                self.type_expression(&var.ty);
            }
        }
        self.measure_all();
    }

    fn type_expression(&mut self, ty: &TypeExpr) {
        match &ty.kind {
            TypeKind::Named(name) => self.type_name(&name.text, name.span),
            TypeKind::Bytes(length) => self.expression(length, Scope::default()),
            TypeKind::Array { extents, element, order } => {
                for extent in extents {
                    self.expression(extent, Scope::default());
                }
                self.rank(extents.len(), ty.span);
                self.order(order.as_ref(), extents.len());
                self.type_expression(element);
            }
            TypeKind::Struct(structure) => {
                if fields(structure).next().is_none() {
                    self.report(
                        Diagnostic::new(ty.span, "a struct without fields")
                            .help("give it at least one field, for example `x float64`"),
                    );
                }
                for member in &structure.members {
                    match member {
                        Member::Pad(bytes) => self.expression(bytes, Scope::default()),
                        Member::Fields { ty, align, .. } => {
                            self.type_expression(ty);
                            self.optional(align.as_ref());
                        }
                    }
                }
                self.optional(structure.align.as_ref());
            }
        }
    }

    fn optional(&mut self, expr: Option<&Expr>) {
        if let Some(expr) = expr {
            self.expression(expr, Scope::default());
        }
    }

    fn type_name(&mut self, name: &str, span: Span) {
        let full = self.diagnostics.full();
        if full || Prim::from_name(name).is_some() || self.symbols.type_index.contains_key(name) {
            return;
        }
        let symbols: &'s Symbols = self.symbols;
        let declared = symbols.types.iter().map(|t| &*t.name.text);
        let foreign = match name {
            "int" | "long" | "integer" | "int_t" => Some("integers say their size: `int32` or `int64`"),
            "uint" | "unsigned" | "size_t" => Some("integers say their size: `uint32` or `uint64`"),
            "float" | "f32" | "f4" | "real" | "single" => Some("did you mean `float32`?"),
            "double" | "f64" | "f8" | "real8" => Some("did you mean `float64`?"),
            "half" | "f16" | "f2" => Some("did you mean `float16`?"),
            "char" | "byte" | "u8" => Some("did you mean `uint8`, or `bytes(n)` for n of them?"),
            "string" | "str" | "text" => Some("a text of fixed length is `bytes(n)`"),
            "complex" => Some("did you mean `complex64` or `complex128`?"),
            _ => None,
        };
        let help = foreign.map(str::to_owned).or_else(|| did_you_mean(name, Prim::names().chain(declared)));
        self.report(
            Diagnostic::new(span, format!("unknown type `{name}`"))
                .label("expected a primitive type or a declared one")
                .help(format!("declare it with `type {name} …`"))
                .maybe_help(help),
        );
    }

    pub(super) fn rank(&mut self, rank: usize, span: Span) {
        if rank > crate::MAX_NDIM {
            let label = format!("{rank} dimensions; at most {} are allowed", crate::MAX_NDIM);
            self.report(Diagnostic::new(span, "too many dimensions").label(label));
        }
    }

    /// Checks that a permutation names each dimension once, and that a curve has dimensions.
    pub(super) fn order(&mut self, order: Option<&OrderExpr>, rank: usize) {
        let Some(OrderExpr { kind, span }) = order else { return };
        let dims = if rank == 1 { "dimension" } else { "dimensions" };
        match kind {
            OrderKind::Row => {}
            OrderKind::Perm(axes) => {
                let mut seen: Vec<i64> = axes.clone();
                seen.sort_unstable();
                if !seen.iter().copied().eq((0..rank).map(|n| n as i64)) {
                    let all: Vec<String> = (0..rank.min(8)).map(|n| n.to_string()).collect();
                    self.report(
                        Diagnostic::new(*span, "this is not a permutation of the dimensions")
                            .label(format!("expected each of {} once", all.join(", ")))
                            .help(format!(
                                "the array has {rank} {dims}; list them from the slowest to the contiguous \
                                one"
                            )),
                    );
                }
            }
            OrderKind::Col | OrderKind::Hilbert | OrderKind::Morton if rank == 0 => {
                let message = "a single element has no order";
                self.report(Diagnostic::new(*span, message).label("expected no order, or extents before it"));
            }
            OrderKind::Col | OrderKind::Hilbert | OrderKind::Morton => {}
        }
    }

    fn measure_all(&mut self) {
        let symbols = self.symbols;
        let Ok(order) = order(symbols) else { return };
        let mut known: Vec<Option<Measure>> = vec![None; symbols.types.len()];
        for n in order {
            let Some(decl) = symbols.types.get(n) else { continue };
            let measure = self.measured(&decl.ty, &known, decl.name.span);
            if let Some(slot) = known.get_mut(n) {
                *slot = Some(measure);
            }
        }
        for var in symbols.datasets.iter().flat_map(|d| &d.vars) {
            self.measured(&var.ty, &known, var.name.span);
        }
    }

    /// The measure of a type, cut to the limits, so that a type that exceeds them is reported once and not for every
    /// use.
    fn measured(&mut self, ty: &TypeExpr, known: &[Option<Measure>], span: Span) -> Measure {
        let mut measure = self.measure(ty, known);
        if measure.depth > crate::MAX_DEPTH {
            self.report(
                Diagnostic::new(span, "this type is nested too deeply")
                    .label(format!("at most {} levels of types within types are allowed", crate::MAX_DEPTH)),
            );
            measure.depth = 0;
        }
        if measure.leaves > crate::MAX_MEMBERS {
            self.report(
                Diagnostic::new(span, "this type has too many members")
                    .label(format!("at most {} primitive members are allowed", crate::MAX_MEMBERS))
                    .help("many members of one type are better an array"),
            );
            measure.leaves = 1;
        }
        measure
    }

    fn measure(&self, ty: &TypeExpr, known: &[Option<Measure>]) -> Measure {
        let inner = match &ty.kind {
            TypeKind::Bytes(_) => Measure { depth: 0, leaves: 1 },
            TypeKind::Named(name) => {
                let declared = self.symbols.type_index.get(&name.text);
                let found = declared.and_then(|&n| known.get(n).copied().flatten());
                found.unwrap_or(Measure { depth: 0, leaves: 1 })
            }
            TypeKind::Array { element, .. } => self.measure(element, known),
            TypeKind::Struct(structure) => {
                let mut whole = Measure { depth: 0, leaves: 0 };
                for member in &structure.members {
                    if let Member::Fields { names, ty, .. } = member {
                        let part = self.measure(ty, known);
                        whole.depth = whole.depth.max(part.depth);
                        whole.leaves =
                            whole.leaves.saturating_add(part.leaves.saturating_mul(names.len() as u64));
                    }
                }
                whole
            }
        };
        Measure { depth: inner.depth + 1, leaves: inner.leaves }
    }
}
