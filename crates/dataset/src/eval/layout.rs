//! Evaluates types to sizes and offsets, and dataset variables to extents.

use std::sync::Arc;

use super::expressions::too_large;
use super::{Eval, Evaluator};
use crate::ast::{
    Expr, Extent, FillKind, Member, OrderExpr, OrderKind, StructExpr, TypeExpr, TypeKind, VarDecl,
};
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::types::{ArrayType, Field, Order, Prim, StructType, Type};
use crate::variable::{Fill, Variable};

/// The largest alignment.
const MAX_ALIGN: u64 = 1 << 30;

/// The largest size of a type, variable or fragment, in bytes.
const MAX_SIZE: u64 = i64::MAX as u64;

impl Evaluator<'_> {
    /// The layout of a type. Declared types are evaluated once.
    pub(crate) fn layout(&mut self, ty: &TypeExpr) -> Eval<Type> {
        self.charge(1)?;
        match &ty.kind {
            TypeKind::Named(name) => {
                if let Some(prim) = Prim::from_name(&name.text) {
                    return Ok(Type::Prim(prim));
                }
                self.named_type(&name.text, ty.span)
            }
            TypeKind::Bytes(length) => {
                self.count(length, "the number of bytes", 1).map(|n| Type::Prim(Prim::Bytes(n)))
            }
            TypeKind::Array { extents, element, order } => {
                let element = self.layout(element)?;
                let mut sizes = Vec::new();
                for extent in extents {
                    sizes.push(self.count(extent, "the extent of an array inside an element", 1)?);
                }
                let size = total(element.size(), &sizes).ok_or_else(|| too_large(ty.span, "this array"))?;
                let order = model_order(order.as_ref());
                Ok(Type::Array(Arc::new(ArrayType { extents: sizes, element, order, size })))
            }
            TypeKind::Struct(structure) => self.structure(structure, ty.span),
        }
    }

    fn named_type(&mut self, name: &str, span: Span) -> Eval<Type> {
        let symbols = self.symbols;
        let number = symbols.type_index.get(name).copied();
        let Some((n, decl)) = number.and_then(|n| Some((n, symbols.types.get(n)?))) else {
            return Err(Diagnostic::new(span, format!("unknown type `{name}`")).into());
        };
        if let Some(Some(known)) = self.types.get(n) {
            return Ok(known.clone());
        }
        // A type does not see the names of the fragment that uses it.
        let locals = std::mem::take(&mut self.locals);
        let ty = self.layout(&decl.ty);
        self.locals = locals;
        let ty = ty?;
        if let Some(slot) = self.types.get_mut(n) {
            *slot = Some(ty.clone());
        }
        Ok(ty)
    }

    fn structure(&mut self, structure: &StructExpr, span: Span) -> Eval<Type> {
        let (mut fields, mut end, mut align) = (Vec::new(), 0_u64, 1_u64);
        for member in &structure.members {
            match member {
                Member::Pad(bytes) => {
                    let bytes = self.count(bytes, "the padding", 0)?;
                    end = grown(end, bytes).ok_or_else(|| too_large(span, "this struct"))?;
                }
                Member::Fields { names, ty, align: written } => {
                    let ty = self.layout(ty)?;
                    let natural = if structure.packed { 1 } else { ty.align() };
                    let own = natural.max(self.alignment(written.as_ref())?);
                    align = align.max(own);
                    for name in names {
                        self.charge(1)?;
                        let place = aligned(end, own).and_then(|at| Some((at, grown(at, ty.size())?)));
                        let (offset, next) = place.ok_or_else(|| too_large(span, "this struct"))?;
                        fields.push(Field { name: (*name.text).into(), ty: ty.clone(), offset });
                        end = next;
                    }
                }
            }
        }
        align = align.max(self.alignment(structure.align.as_ref())?);
        let size = aligned(end, align).ok_or_else(|| too_large(span, "this struct"))?;
        Ok(Type::Struct(Arc::new(StructType {
            fields,
            size,
            align,
            packed: structure.packed,
            id: span.start,
        })))
    }

    /// The value of `align(n)`; 1 if there is none.
    pub(super) fn alignment(&mut self, written: Option<&Expr>) -> Eval<u64> {
        let Some(expr) = written else { return Ok(1) };
        let align = self.count(expr, "the alignment", 1)?;
        if align.is_power_of_two() && align <= MAX_ALIGN {
            return Ok(align);
        }
        let near = align.min(MAX_ALIGN).next_power_of_two();
        Err(Diagnostic::new(expr.span, format!("the alignment is {align}"))
            .label("expected a power of two, at most 2^30")
            .help(format!("the next larger power of two is {near}"))
            .into())
    }

    /// A dataset variable by its number. It is evaluated once.
    pub(crate) fn variable(&mut self, id: usize) -> Eval<Arc<Variable>> {
        if let Some(known) = self.variables.get(&id) {
            return Ok(Arc::clone(known));
        }
        let symbols = self.symbols;
        let (Some(decl), Some(&(dataset, _))) = (symbols.var_at(id), symbols.vars.get(id)) else {
            return Err(Diagnostic::new(Span::default(), "unknown dataset variable").into());
        };
        let locals = std::mem::take(&mut self.locals);
        let dataset = symbols.datasets.get(dataset).and_then(|d| d.name.as_ref()).map(|n| (*n.text).into());
        let variable = self.compute_variable(decl, dataset);
        self.locals = locals;
        let variable = Arc::new(variable?);
        self.variables.insert(id, Arc::clone(&variable));
        Ok(variable)
    }

    fn compute_variable(&mut self, decl: &VarDecl, dataset: Option<Arc<str>>) -> Eval<Variable> {
        let ty = self.layout(&decl.ty)?;
        let mut extents = Vec::new();
        for extent in &decl.extents {
            extents.push(match extent {
                Extent::Fixed(expr) => Some(self.count(expr, "the extent", 0)?),
                Extent::Growable(_) => None,
            });
        }
        let known: Vec<u64> = extents.iter().map(|e| e.unwrap_or(1).max(1)).collect();
        total(ty.size(), &known).ok_or_else(|| too_large(decl.name.span, "this variable"))?;
        let fill = decl.fill.as_ref().map(|f| fill(&f.value, &ty, f.span)).transpose()?;
        Ok(Variable {
            name: (*decl.name.text).into(),
            dataset,
            extents,
            order: model_order(decl.order.as_ref()),
            ty,
            steps: decl.steps.is_some(),
            dims: decl.dims.as_ref().map(|(names, _)| names.iter().map(|n| (*n.text).into()).collect()),
            fill,
            transform: decl.transform.as_ref().map(|t| (*t.text).into()),
            access: decl.access.as_ref().map(|t| (*t.text).into()),
        })
    }
}

fn fill(value: &FillKind, ty: &Type, span: Span) -> Eval<Fill> {
    match (ty, value) {
        (Type::Array(array), value) => fill(value, &array.element, span),
        (Type::Prim(Prim::Bytes(length)), FillKind::Text(text)) => {
            let missing = length.checked_sub(text.len() as u64);
            // The padding is at most as long as the whole text could have been, and the rest is implied.
            let missing =
                missing.filter(|&m| m <= crate::MAX_TEXT as u64).and_then(|m| usize::try_from(m).ok());
            let Some(missing) = missing else {
                let message = format!("a text of {} bytes for `bytes({length})`", text.len());
                return Err(Diagnostic::new(span, message)
                    .label("expected a text that fills the value")
                    .into());
            };
            Ok(Fill::Bytes(text.bytes().chain(std::iter::repeat_n(0, missing)).collect()))
        }
        (_, FillKind::Bool(value)) => Ok(Fill::Bool(*value)),
        (_, FillKind::Float(value)) => Ok(Fill::Float(*value)),
        (Type::Prim(prim), FillKind::Int(value)) if prim.integer_range().is_none() => {
            Ok(Fill::Float(*value as f64))
        }
        (_, FillKind::Int(value)) => Ok(Fill::Int(*value)),
        (_, FillKind::Text(_)) => Err(Diagnostic::new(span, "a text for a number").into()),
    }
}

pub(super) fn model_order(order: Option<&OrderExpr>) -> Order {
    match order.map(|o| &o.kind) {
        None | Some(OrderKind::Row) => Order::Row,
        Some(OrderKind::Col) => Order::Col,
        Some(OrderKind::Hilbert) => Order::Hilbert,
        Some(OrderKind::Morton) => Order::Morton,
        Some(OrderKind::Perm(axes)) => {
            Order::Perm(axes.iter().filter_map(|&axis| usize::try_from(axis).ok()).collect())
        }
    }
}

/// Bytes of an array; `None` if the product overflows.
pub(super) fn total(unit: u64, extents: &[u64]) -> Option<u64> {
    extents.iter().try_fold(unit, |size, &extent| size.checked_mul(extent)).filter(|&s| s <= MAX_SIZE)
}

pub(super) fn grown(end: u64, bytes: u64) -> Option<u64> {
    end.checked_add(bytes).filter(|&e| e <= MAX_SIZE)
}

pub(super) fn aligned(end: u64, align: u64) -> Option<u64> {
    end.checked_next_multiple_of(align).filter(|&e| e <= MAX_SIZE)
}
