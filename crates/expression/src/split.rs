//! Splits a condition into parts about one variable each, which can be tested separately.
//!
//! `p > 3 | abs(u) < 1` becomes `a | b` with the parts `value > 3` of `p` and `abs(value) < 1` of `u`. Each
//! part is as large as possible, so a condition about one variable is one part, its negations included.
//!
//! Invariants
//! - replace each part by its truth values, unknown where its variable was not written: the rest then has the
//!   value of the whole condition on every cell.

use crate::builder::Builder;
use crate::check::Answer;
use crate::error::Error;
use crate::name::Name;
use crate::tree::{Node, NodeId, Tree};
use crate::types::Type;

/// The most nodes of a condition that is split: each part is typed separately.
const MOST: usize = 256;

/// A condition split into parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The condition, in which the names of [`parts`](Split::parts) are truth values.
    pub rest: Tree,
    /// The name in the rest, the variable, and the condition on it.
    pub parts: Vec<(Name, Name, Tree)>,
}

/// The variables below a node that can be tested separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Nothing,
    One(u16),
    Several,
}

impl Tree {
    /// Splits a condition. `type_of` gives the type of each variable that a part may be about; names without a
    /// type stay in the rest. A part calls its variable `value`. `None`: some variable is used outside a
    /// condition on it alone, as in `a > b`.
    pub fn split(&self, value: &str, type_of: impl Fn(&Name) -> Option<Type>) -> Option<Split> {
        // A constant that is true makes a condition hold even where its variable was not written.
        if self.nodes.len() > MOST
            || self.nodes.iter().any(|node| matches!(node, Node::Bool(_) | Node::Text(_)))
        {
            return None;
        }
        let mut of: Vec<Of> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let own = match node {
                Node::Name(n) => match self.names.get(usize::from(*n)).and_then(&type_of) {
                    Some(_) => Of::One(*n),
                    None => Of::Several,
                },
                node => node.operands().map(|a| of[a.index()]).fold(Of::Nothing, both),
            };
            of.push(own);
        }
        let mut all = Builder::new();
        all.import(self).ok()?;
        let mut split = Cutting { tree: self, all, of, parts: Vec::new(), new: vec![None; self.nodes.len()] };
        split.cut(value, &type_of).ok()?
    }
}

fn both(a: Of, b: Of) -> Of {
    match (a, b) {
        (Of::Nothing, other) | (other, Of::Nothing) => other,
        (a, b) if a == b => a,
        _ => Of::Several,
    }
}

struct Cutting<'t> {
    tree: &'t Tree,
    /// Copies all nodes of the tree, with the same ids.
    all: Builder,
    of: Vec<Of>,
    parts: Vec<(Name, Name, Tree)>,
    /// The node of the rest for each node of the tree visited so far.
    new: Vec<Option<NodeId>>,
}

impl Cutting<'_> {
    fn cut(&mut self, value: &str, type_of: &impl Fn(&Name) -> Option<Type>) -> Result<Option<Split>, Error> {
        let mut rest = Builder::new();
        let mut open = vec![(self.tree.root(), false)];
        while let Some((id, is_below_done)) = open.pop() {
            let at = id.index();
            if self.new[at].is_some() {
                continue;
            }
            if is_below_done {
                let node =
                    self.tree.nodes[at].with_operands(|operand| self.new[operand.index()].unwrap_or(operand));
                self.new[at] = Some(rest.add(node, 1)?);
                continue;
            }
            match (self.of[at], self.tree.nodes[at]) {
                (Of::One(n), node) => match self.part(id, n, value, type_of)? {
                    Some(name) => self.new[at] = Some(rest.name(name)?),
                    None if matches!(node, Node::Name(_)) => return Ok(None),
                    // A number can contain a condition, as in `where(a > 1, 1, 2)`.
                    None => open_below(&mut open, id, node),
                },
                (_, Node::Name(n)) => {
                    self.new[at] = Some(rest.name(self.tree.names[usize::from(n)].clone())?);
                }
                (_, node) => open_below(&mut open, id, node),
            }
        }
        let Some(root) = self.new[self.tree.root().index()] else { return Ok(None) };
        Ok(Some(Split { rest: rest.finish(root), parts: std::mem::take(&mut self.parts) }))
    }

    /// Makes a node that is a condition on one variable into a part; returns its name in the rest.
    fn part(
        &mut self,
        id: NodeId,
        variable: u16,
        value: &str,
        type_of: &impl Fn(&Name) -> Option<Type>,
    ) -> Result<Option<Name>, Error> {
        let variable = &self.tree.names[usize::from(variable)];
        let Some(dtype) = type_of(variable) else { return Ok(None) };
        let below = self.all.finish(id);
        let (mut builder, mut new) = (Builder::new(), Vec::with_capacity(below.nodes.len()));
        for node in &below.nodes {
            let id = match *node {
                Node::Name(_) => builder.name(Name::new(value)?)?,
                node => builder.add(node.with_operands(|operand: NodeId| new[operand.index()]), 1)?,
            };
            new.push(id);
        }
        let tree = builder.finish(new[below.root().index()]);
        let is_condition =
            tree.check(|_| Answer::Type(dtype)).is_ok_and(|program| program.dtype() == Type::Bool);
        if !is_condition {
            return Ok(None);
        }
        let mut number = self.parts.len();
        let name = loop {
            let name = Name::new(format!("part {number}"))?;
            if !self.tree.names.contains(&name) && !self.parts.iter().any(|(known, ..)| *known == name) {
                break name;
            }
            number += 1;
        };
        self.parts.push((name.clone(), variable.clone(), tree));
        Ok(Some(name))
    }
}

fn open_below(open: &mut Vec<(NodeId, bool)>, id: NodeId, node: Node) {
    open.push((id, true));
    open.extend(node.operands().rev().map(|operand| (operand, false)));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn split(text: &str) -> Option<(String, Vec<String>)> {
        let type_of = |name: &Name| match name.path() {
            "x" => None,
            "flag" => Some(Type::Bool),
            _ => Some(Type::F4),
        };
        let found = parse(text).unwrap().split("value", type_of)?;
        let parts = found.parts.iter().map(|(name, of, tree)| format!("{}: {of}: {tree}", name.path()));
        Some((found.rest.to_string(), parts.collect()))
    }

    #[test]
    fn a_condition_on_one_variable_is_one_part() {
        for (text, part) in [
            ("p > 3", "value > 3"),
            ("p > 3 & ~(p > 5) | isnan(p)", "value > 3 & ~(value > 5) | isnan(value)"),
            ("where(p > 1, p, 2.0) < 3", "where(value > 1, value, 2.0) < 3"),
        ] {
            let found = split(text).unwrap();
            assert_eq!(found, ("`part 0`".into(), vec![format!("part 0: p: {part}")]), "{text}");
        }
        assert_eq!(split("flag").unwrap().1, ["part 0: flag: value"]);
        assert_eq!(split("P.u > 1").unwrap().1, ["part 0: P.u: value > 1"]);
    }

    #[test]
    fn several_variables_are_parts_of_one_condition() {
        let (rest, parts) = split("p > 3 | ~(abs(u) < 1 & x > 7)").unwrap();
        assert_eq!(rest, "`part 0` | ~(`part 1` & x > 7)");
        assert_eq!(parts, ["part 0: p: value > 3", "part 1: u: abs(value) < 1"]);
    }

    #[test]
    fn conditions_that_need_more_than_truth_values_are_not_split() {
        for text in ["p > u", "p + x > 3", "p > 1 | p > u", "p > 1 | true", "where(p > 1, u, 2.0) > 3"] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}
