//! Integer arithmetic with 64-bit values. A result that does not fit is an error at the operator, and never wraps.

use super::{Eval, Evaluator, Stop};
use crate::ast::{Binder, Expr, ExprKind, IndexExpr, Op};
use crate::check::Shape;
use crate::diagnostic::Diagnostic;
use crate::index_map::{IndexMap, Source};
use crate::span::Span;

impl Evaluator<'_> {
    /// The value of an expression without indices.
    pub(crate) fn value(&mut self, expr: &Expr) -> Eval<i64> {
        self.charge(1)?;
        match &expr.kind {
            ExprKind::Int(value) => Ok(*value),
            ExprKind::Name(name) => self.named(name, expr.span),
            ExprKind::Group(inner) => self.value(inner),
            ExprKind::Neg(inner) => {
                let value = self.value(inner)?;
                value.checked_neg().ok_or_else(|| overflow(expr.span))
            }
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                operate(*op, left, right, expr.span)
            }
            ExprKind::Min(list) => self.fold(list, i64::min),
            ExprKind::Max(list) => self.fold(list, i64::max),
        }
    }

    fn fold(&mut self, list: &[Expr], choose: fn(i64, i64) -> i64) -> Eval<i64> {
        let mut chosen = None;
        for argument in list {
            let value = self.value(argument)?;
            chosen = Some(chosen.map_or(value, |c| choose(c, value)));
        }
        Ok(chosen.unwrap_or(0))
    }

    fn named(&self, name: &str, span: Span) -> Eval<i64> {
        if let Some(local) = self.locals.iter().rev().find(|l| l.name == name) {
            return local.value.ok_or_else(|| Stop::Missing(name.into(), local.span));
        }
        match self.symbols.global_index.get(name).and_then(|&n| self.globals.get(n)) {
            Some(value) => value.clone(),
            None => Err(Diagnostic::new(span, format!("unknown name `{name}`")).into()),
        }
    }

    /// The value of an expression that counts something, at least `least`.
    pub(super) fn count(&mut self, expr: &Expr, what: &str, least: u64) -> Eval<u64> {
        let value = self.value(expr)?;
        u64::try_from(value).ok().filter(|&v| v >= least).ok_or_else(|| {
            Diagnostic::new(expr.span, format!("{what} is {value}"))
                .label(format!("expected at least {least}"))
                .into()
        })
    }

    /// The map of one index position.
    pub(super) fn index_map(&mut self, index: &IndexExpr, binders: &[Binder]) -> Eval<IndexMap> {
        let shape = Shape::of(index, binders);
        let (a, b) = self.linear(shape.dividend, binders)?;
        let (c, d) = shape.divisor.map_or(Ok((0, 1)), |divisor| self.linear(divisor, binders))?;
        let modulus = match &index.modulus {
            Some(modulus) => Some(self.count(modulus, "the period", 1)?),
            None => None,
        };
        let Some(binder) = shape.binder else {
            let index = modulus.and_then(|m| i64::try_from(m).ok()).map_or(b, |m| b.rem_euclid(m));
            return Ok(IndexMap::constant(index));
        };
        if c == 0 && d == 0 {
            let place = shape.divisor.map_or(index.span, |e| e.span);
            return Err(Diagnostic::new(place, "division by zero").label("this is 0").into());
        }
        IndexMap::new(a, b, c, d, Source::Binder(binder), modulus).ok_or_else(|| overflow(index.span))
    }

    /// An affine expression as (factor of the index, constant). The checker has verified the form.
    fn linear(&mut self, expr: &Expr, binders: &[Binder]) -> Eval<(i64, i64)> {
        let checked = |value: Option<i64>| value.ok_or_else(|| overflow(expr.span));
        match &expr.kind {
            ExprKind::Name(name) if binders.iter().any(|b| b.name.text == *name) => Ok((1, 0)),
            ExprKind::Group(inner) => self.linear(inner, binders),
            ExprKind::Neg(inner) => {
                let (a, b) = self.linear(inner, binders)?;
                Ok((checked(a.checked_neg())?, checked(b.checked_neg())?))
            }
            ExprKind::Binary(op @ (Op::Add | Op::Sub | Op::Mul), left, right) => {
                self.charge(1)?;
                let ((a, b), (c, d)) = (self.linear(left, binders)?, self.linear(right, binders)?);
                match op {
                    Op::Add => Ok((checked(a.checked_add(c))?, checked(b.checked_add(d))?)),
                    Op::Sub => Ok((checked(a.checked_sub(c))?, checked(b.checked_sub(d))?)),
                    // a or c is 0.
                    _ => {
                        let factor =
                            a.checked_mul(d).zip(b.checked_mul(c)).and_then(|(p, q)| p.checked_add(q));
                        Ok((checked(factor)?, checked(b.checked_mul(d))?))
                    }
                }
            }
            _ => Ok((0, self.value(expr)?)),
        }
    }
}

fn operate(op: Op, left: i64, right: i64, span: Span) -> Eval<i64> {
    if right == 0 && matches!(op, Op::Div | Op::Rem) {
        return Err(Diagnostic::new(span, "division by zero")
            .label(format!("this is {left} divided by 0"))
            .into());
    }
    match op {
        Op::Add => left.checked_add(right),
        Op::Sub => left.checked_sub(right),
        Op::Mul => left.checked_mul(right),
        Op::Div => left.checked_div(right),
        Op::Rem => left.checked_rem(right),
    }
    .ok_or_else(|| overflow(span))
}

fn overflow(span: Span) -> Stop {
    Diagnostic::new(span, "this number does not fit").label("integers go from -2^63 to 2^63 - 1").into()
}

pub(super) fn too_large(span: Span, what: &str) -> Stop {
    Diagnostic::new(span, format!("{what} is too large")).label("more than 2^63 - 1 bytes").into()
}
