//! The functions of expressions: their names, and the nodes that each one becomes.

use crate::builder::Builder;
use crate::error::{Error, Kind};
use crate::field_function::FieldFunction;
use crate::parser::OPERATORS;
use crate::tree::{Binary, NodeId, Over, Unary};
use crate::types::Type;
use drystone_suggest::did_you_mean;

/// The expansion of a function.
#[derive(Debug, Clone, Copy)]
enum Form {
    One(Unary),
    Two(Binary),
    /// A chain of two or more operands, from the left.
    Fold(Binary),
    Where,
    /// `min(max(x, low), high)`.
    Clip,
    /// The square root of the sum of squares of one or more operands.
    Norm,
    /// An operator on fields or vectors.
    Field(FieldFunction),
    /// A reduction over the dimensions after the operand, or over all.
    Reduce(Over),
}

/// Canonical names stand first.
const FUNCTIONS: [(&str, Form); 68] = {
    use crate::field_function::FieldFunction::*;
    use Form::{Clip, Field, Fold, Norm, One, Reduce, Two, Where};
    [
        ("invert", One(Unary::Invert)),
        ("abs", One(Unary::Abs)),
        ("sign", One(Unary::Sign)),
        ("floor", One(Unary::Floor)),
        ("ceil", One(Unary::Ceil)),
        ("trunc", One(Unary::Trunc)),
        ("round", One(Unary::Round)),
        ("sqrt", One(Unary::Sqrt)),
        ("cbrt", One(Unary::Cbrt)),
        ("exp", One(Unary::Exp)),
        ("expm1", One(Unary::Expm1)),
        ("log", One(Unary::Log)),
        ("log2", One(Unary::Log2)),
        ("log10", One(Unary::Log10)),
        ("log1p", One(Unary::Log1p)),
        ("sin", One(Unary::Sin)),
        ("cos", One(Unary::Cos)),
        ("tan", One(Unary::Tan)),
        ("asin", One(Unary::Asin)),
        ("acos", One(Unary::Acos)),
        ("atan", One(Unary::Atan)),
        ("sinh", One(Unary::Sinh)),
        ("cosh", One(Unary::Cosh)),
        ("tanh", One(Unary::Tanh)),
        ("isnan", One(Unary::IsNan)),
        ("isinf", One(Unary::IsInf)),
        ("isfinite", One(Unary::IsFinite)),
        ("min", Fold(Binary::Min)),
        ("max", Fold(Binary::Max)),
        ("atan2", Two(Binary::Atan2)),
        ("hypot", Two(Binary::Hypot)),
        ("where", Where),
        ("clip", Clip),
        ("norm", Norm),
        ("fabs", One(Unary::Abs)),
        ("absolute", One(Unary::Abs)),
        ("rint", One(Unary::Round)),
        ("ln", One(Unary::Log)),
        ("arcsin", One(Unary::Asin)),
        ("arccos", One(Unary::Acos)),
        ("arctan", One(Unary::Atan)),
        ("arctan2", Two(Binary::Atan2)),
        ("minimum", Fold(Binary::Min)),
        ("maximum", Fold(Binary::Max)),
        ("pow", Two(Binary::Pow)),
        ("power", Two(Binary::Pow)),
        ("magnitude", Norm),
        ("diff", Field(Diff)),
        ("diff2", Field(Diff2)),
        ("laplacian", Field(Laplacian)),
        ("grad", Field(Grad)),
        ("gradient", Field(Grad)),
        ("div", Field(Div)),
        ("divergence", Field(Div)),
        ("curl", Field(Curl)),
        ("cross", Field(Cross)),
        ("dot", Field(Dot)),
        ("vector", Field(Vector)),
        ("component", Field(Component)),
        ("apply", Field(Apply)),
        ("sum", Reduce(Over::Sum)),
        ("mean", Reduce(Over::Mean)),
        ("amin", Reduce(Over::Min)),
        ("amax", Reduce(Over::Max)),
        ("count", Reduce(Over::Count)),
        ("any", Reduce(Over::Any)),
        ("all", Reduce(Over::All)),
        ("average", Reduce(Over::Mean)),
    ]
};

/// Functions that users may expect and that do not exist, each with advice.
const ABSENT: [(&str, &str); 1] = [("isclose", "write `abs(a - b) <= tolerance`")];

fn form(name: &str) -> Option<Form> {
    let cast = || Type::from_name(name).map(|t| Form::One(Unary::Cast(t)));
    FUNCTIONS.iter().find(|(n, _)| *n == name).map(|&(_, form)| form).or_else(cast)
}

/// True if an expression may call this.
pub fn is_function(name: &str) -> bool {
    form(name).is_some()
}

/// The names of all functions. Casts have the names of their types.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|&(name, _)| name).chain(Type::ALL.into_iter().map(Type::name))
}

/// The function name of an operator of one operand.
pub(crate) fn unary_name(op: Unary) -> &'static str {
    match op {
        Unary::Cast(to) => to.name(),
        Unary::Neg => "-",
        Unary::Not => "~",
        _ => FUNCTIONS.iter().find(|(_, f)| matches!(f, Form::One(o) if *o == op)).map_or("", |(n, _)| n),
    }
}

/// The function name of an operator of two operands, if it is called as a function.
pub(crate) fn binary_name(op: Binary) -> Option<&'static str> {
    match op {
        Binary::Min => Some("min"),
        Binary::Max => Some("max"),
        Binary::Atan2 => Some("atan2"),
        Binary::Hypot => Some("hypot"),
        _ => None,
    }
}

impl Builder {
    /// Applies a function or an operator, by its sign: `sqrt`, `-` of one or two operands, `&`.
    pub fn apply(&mut self, name: &str, operands: &[NodeId]) -> Result<NodeId, Error> {
        let operator = OPERATORS.iter().find(|(sign, ..)| *sign == name).map(|&(_, op, _)| op);
        match (name, operator, operands) {
            ("-", _, &[a]) => self.unary(Unary::Neg, a),
            ("~", _, &[a]) => self.unary(Unary::Not, a),
            (_, Some(op), &[a, b]) => self.binary(op, a, b),
            _ => self.call(name, operands),
        }
    }

    /// Applies a function to its arguments.
    pub fn call(&mut self, function: &str, arguments: &[NodeId]) -> Result<NodeId, Error> {
        let Some(form) = form(function) else {
            let error = Error::new(Kind::Unknown, format!("there is no function `{function}`"));
            let absent = ABSENT.iter().find(|(name, _)| *name == function);
            return Err(match absent {
                Some((_, help)) => error.help(*help),
                None => error.maybe_help(did_you_mean(function, functions())),
            });
        };
        match (form, arguments) {
            (Form::One(op), &[a]) => self.unary(op, a),
            (Form::Two(op), &[a, b]) => self.binary(op, a, b),
            (Form::Where, &[c, a, b]) => self.choose(c, a, b),
            (Form::Clip, &[x, low, high]) => {
                let raised = self.binary(Binary::Max, x, low)?;
                self.binary(Binary::Min, raised, high)
            }
            (Form::Field(function), arguments) => self.field(function, arguments),
            (Form::Reduce(op), &[of, ref dims @ ..]) => self.over_listed(op, of, dims),
            (Form::Fold(Binary::Min), &[of]) => self.over(Over::Min, of, None),
            (Form::Fold(Binary::Max), &[of]) => self.over(Over::Max, of, None),
            (Form::Fold(op), &[first, second, ref rest @ ..]) => {
                let mut out = self.binary(op, first, second)?;
                for &next in rest {
                    out = self.binary(op, out, next)?;
                }
                Ok(out)
            }
            (Form::Norm, &[name]) if self.is_bare(name) => Err(self.no_vector("norm", name)),
            (Form::Norm, &[vector]) if self.listed(vector).len() > 1 => {
                let components = self.listed(vector);
                self.call(function, &components)
            }
            (Form::Norm, &[first, ref rest @ ..]) => {
                let mut sum = self.binary(Binary::Mul, first, first)?;
                for &next in rest {
                    let square = self.binary(Binary::Mul, next, next)?;
                    sum = self.binary(Binary::Add, sum, square)?;
                }
                self.unary(Unary::Sqrt, sum)
            }
            (form, _) => Err(wrong_count(function, form, arguments.len())),
        }
    }
}

fn wrong_count(function: &str, form: Form, found: usize) -> Error {
    let wanted = match form {
        Form::One(_) => format!("write `{function}(x)`"),
        Form::Two(_) => format!("write `{function}(a, b)`"),
        Form::Where => "write `where(condition, a, b)`".to_owned(),
        Form::Clip => "write `clip(x, low, high)`".to_owned(),
        Form::Fold(_) => format!("write `{function}(a, b)`"),
        Form::Norm => format!("write `{function}(u, v)`"),
        Form::Field(_) | Form::Reduce(_) => format!("write `{function}(u, x)`"),
    };
    let plural = if found == 1 { "" } else { "s" };
    Error::new(Kind::Syntax, format!("`{function}` has {found} argument{plural}")).help(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_has_the_name_of_another() {
        let mut names: Vec<&str> = functions().collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
