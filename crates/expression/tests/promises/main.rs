//! What expressions promise: docs/decisions/102-expressions.md, line by line.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod bounds;
mod bytes;
mod fields;
mod loops;
mod numpy;
mod questions;
mod random;
mod texts;
mod three_values;
mod types;

use drystone_expression::{Answer, Error, Name, Program, Tree, Type, parse};

/// Types of variables by the first letters of their names: `f4_a` is an f4.
fn by_name(name: &Name) -> Answer {
    let whole = name.members().last().map_or(name.path(), String::as_str);
    let prefix = whole.split('_').next().unwrap_or_default();
    match Type::from_name(prefix) {
        Some(dtype) => Answer::Type(dtype),
        None if whole == "text" => Answer::Unfit("it holds texts, on which there are no conditions".into()),
        None => Answer::Unknown(vec!["pressure".into(), "i4_mask".into(), "fields/p".into()]),
    }
}

fn tree(text: &str) -> Tree {
    parse(text).unwrap_or_else(|error| panic!("{}", error.render(text)))
}

fn checked(text: &str) -> Result<Program, Error> {
    tree(text).check(by_name)
}

fn program(text: &str) -> Program {
    checked(text).unwrap_or_else(|error| panic!("{}", error.render(text)))
}
