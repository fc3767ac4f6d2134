//! Checks the form of an index position: `(a·x + b) / (c·x + d)` with at most one x.

use super::Checker;
use super::names::Scope;
use crate::ast::{Binder, Expr, ExprKind, IndexExpr, Op};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The parts of an index position. `dividend` and `divisor` are affine in the same index.
pub(crate) struct Shape<'e> {
    /// Which of the variable's indices it uses.
    pub(crate) binder: Option<usize>,
    pub(crate) dividend: &'e Expr,
    /// Only set if the quotient uses an index; a quotient of numbers is ordinary arithmetic.
    pub(crate) divisor: Option<&'e Expr>,
}

impl<'e> Shape<'e> {
    /// Divides an index position, which the checker has accepted, into its parts.
    pub(crate) fn of(index: &'e IndexExpr, binders: &[Binder]) -> Self {
        let (dividend, divisor) = quotient(&index.value, binders);
        let binder =
            first_binder(dividend, binders).or_else(|| divisor.and_then(|d| first_binder(d, binders)));
        Shape { binder, dividend, divisor }
    }
}

fn quotient<'e>(value: &'e Expr, binders: &[Binder]) -> (&'e Expr, Option<&'e Expr>) {
    let mut bare = value;
    while let ExprKind::Group(inner) = &bare.kind {
        bare = inner;
    }
    if let ExprKind::Binary(Op::Div, left, right) = &bare.kind
        && first_binder(bare, binders).is_some()
    {
        return (left, Some(right));
    }
    (value, None)
}

/// The number of the first index that an expression uses.
fn first_binder(expr: &Expr, binders: &[Binder]) -> Option<usize> {
    let mut found = None;
    crate::symbols::each_name(expr, &mut |name, _| {
        found = found.or_else(|| binders.iter().position(|b| &*b.name.text == name));
    });
    found
}

impl Checker<'_> {
    /// Checks names and form; returns the index that it uses, and where.
    pub(super) fn index(&mut self, index: &IndexExpr, scope: Scope<'_>) -> Option<(usize, Span)> {
        let in_index = Scope { in_index: true, ..scope };
        self.expression(&index.value, in_index);
        let (dividend, divisor) = quotient(&index.value, scope.binders);
        let mut form = Form { binders: scope.binders, mentioned: None };
        let affine = form.affine(dividend).and_then(|_| divisor.map_or(Ok(false), |d| form.affine(d)));
        match affine {
            Err(diagnostic) => self.report(*diagnostic),
            Ok(divisor_mentions) => self.modulus(index, scope, divisor_mentions, form.mentioned),
        }
        form.mentioned
    }

    fn modulus(
        &mut self,
        index: &IndexExpr,
        scope: Scope<'_>,
        moving: bool,
        mentioned: Option<(usize, Span)>,
    ) {
        let Some(modulus) = &index.modulus else { return };
        self.expression(modulus, scope);
        if moving && mentioned.is_some() {
            self.report(
                Diagnostic::new(index.span, "`mod` after a divisor that depends on the index")
                    .label("expected a divisor without an index, or no `mod`"),
            );
        }
    }
}

struct Form<'b> {
    binders: &'b [Binder],
    mentioned: Option<(usize, Span)>,
}

impl Form<'_> {
    /// Whether the expression uses an index; an error if it is not affine in one.
    fn affine(&mut self, expr: &Expr) -> Result<bool, Box<Diagnostic>> {
        match &expr.kind {
            ExprKind::Int(_) => Ok(false),
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Neg(inner) | ExprKind::Group(inner) => self.affine(inner),
            ExprKind::Binary(op, left, right) => {
                let (l, r) = (self.affine(left)?, self.affine(right)?);
                let wrong = |message: &str, help: &str| {
                    Err(Box::new(
                        Diagnostic::new(expr.span, message).label("expected the form a*i + b").help(help),
                    ))
                };
                match op {
                    Op::Mul if l && r => wrong(
                        "an index is multiplied by itself",
                        "an index position must be linear in its index",
                    ),
                    Op::Div if l || r => wrong(
                        "a quotient of an index inside a larger expression",
                        "divide the whole index position, for example `(i + 4)/4` for `i/4 + 1`",
                    ),
                    Op::Rem if l || r => wrong(
                        "`%` is not defined for an index",
                        "for a periodic index write `mod`: `u[(i + 1) mod n]`",
                    ),
                    _ => Ok(l || r),
                }
            }
            ExprKind::Min(list) | ExprKind::Max(list) => {
                for argument in list {
                    if self.affine(argument)? {
                        return Err(Box::new(
                            Diagnostic::new(expr.span, "`min` and `max` are not defined for an index")
                                .label("expected the form a*i + b")
                                .help("elements that fall outside of the dataset are left out; no clamp is needed"),
                        ));
                    }
                }
                Ok(false)
            }
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Result<bool, Box<Diagnostic>> {
        let Some(binder) = self.binders.iter().position(|b| &*b.name.text == name) else { return Ok(false) };
        match self.mentioned {
            Some((first, place)) if first != binder => {
                let other = self.binders.get(first).map_or("", |b| &*b.name.text);
                Err(Box::new(
                    Diagnostic::new(span, format!("`{other}` and `{name}` in one index position"))
                        .label("expected at most one index here")
                        .note(place, format!("`{other}` is used here")),
                ))
            }
            Some(_) => Ok(true),
            None => {
                self.mentioned = Some((binder, span));
                Ok(true)
            }
        }
    }
}
