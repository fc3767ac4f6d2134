//! Comparisons of names with texts: instants, durations and named values, which the variable stores as integers.
//!
//! [`Tree::with_words`] replaces texts by integers, as each variable defines them. Only then can the tree be typed.

use crate::builder::Builder;
use crate::error::{Error, Kind};
use crate::name::Name;
use crate::tree::{Binary, Node, NodeId, Tree, Unary};

/// The integer form of a comparison with a text: one comparison, and perhaps a value to exclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worded {
    /// The comparison.
    pub op: Binary,
    /// The integer that the name is compared with.
    pub value: i128,
    /// A value that never satisfies the comparison.
    pub except: Option<i128>,
}

impl Tree {
    /// Whether the tree contains texts.
    pub fn has_words(&self) -> bool {
        !self.texts.is_empty()
    }

    /// The tree with texts replaced by integers. `of` resolves one comparison of a name (on its left) with a
    /// text, or gives the error.
    pub fn with_words(
        &self,
        mut of: impl FnMut(&Name, Binary, &str) -> Result<Worded, String>,
    ) -> Result<Tree, Error> {
        let mut builder = Builder::new();
        let mut new: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate() {
            let id = match *node {
                Node::Name(n) => builder.name(self.names[usize::from(n)].clone())?,
                // Kept until the comparison that uses it.
                Node::Text(n) => builder.text(&self.texts[usize::from(n)])?,
                Node::Binary(op, a, b) if op.is_comparison() && self.is_word(a) != self.is_word(b) => {
                    let (op, name, word) = if self.is_word(a) { (mirrored(op), b, a) } else { (op, a, b) };
                    let made = self.worded(op, name, word, &mut of);
                    let worded = made.map_err(|found| self.about(NodeId(number as u16), found))?;
                    let value = builder.integer(worded.value)?;
                    let compared = builder.binary(worded.op, new[name.index()], value)?;
                    match worded.except {
                        None => compared,
                        Some(except) => {
                            let except = builder.integer(except)?;
                            let differs = builder.binary(Binary::Ne, new[name.index()], except)?;
                            builder.binary(Binary::And, compared, differs)?
                        }
                    }
                }
                node => {
                    if let Some(word) = node.operands().find(|id| self.is_word(*id)) {
                        let found = "a text is compared with a variable".to_owned();
                        return Err(self
                            .about(word, found)
                            .help("write a condition as `time > '2026-01-31'`"));
                    }
                    builder.add(node.with_operands(|id| new[id.index()]), 1)?
                }
            };
            if let Some(place) = self.place(NodeId(number as u16)) {
                builder.place(id, place);
            }
            new.push(id);
        }
        if self.is_word(self.root()) {
            return Err(self.about(self.root(), "a text is not a condition".to_owned()));
        }
        Ok(builder.finish(new[self.root().index()]))
    }

    /// The first name that `is_special` accepts and that is neither compared with a text nor converted by a
    /// cast, as in `i8(t)`.
    pub fn used_bare(&self, is_special: impl Fn(&Name) -> bool) -> Option<&Name> {
        let name_at = |id: NodeId| match self.nodes.get(id.index()) {
            Some(Node::Name(n)) => self.names.get(usize::from(*n)).filter(|name| is_special(name)),
            _ => None,
        };
        let bare = |node: &Node| match *node {
            Node::Unary(Unary::Cast(_), _) => None,
            Node::Binary(op, a, b) if op.is_comparison() && self.is_word(a) != self.is_word(b) => None,
            Node::Call(_, _, of, _) => name_at(of),
            node => node.operands().find_map(name_at),
        };
        name_at(self.root()).or_else(|| self.nodes.iter().find_map(bare))
    }

    fn is_word(&self, id: NodeId) -> bool {
        matches!(self.nodes.get(id.index()), Some(Node::Text(_)))
    }

    fn worded(
        &self,
        op: Binary,
        name: NodeId,
        word: NodeId,
        of: &mut impl FnMut(&Name, Binary, &str) -> Result<Worded, String>,
    ) -> Result<Worded, String> {
        let (Some(Node::Name(n)), Some(Node::Text(t))) =
            (self.nodes.get(name.index()), self.nodes.get(word.index()))
        else {
            return Err("a text is compared with a variable, not with what is computed of one".into());
        };
        of(&self.names[usize::from(*n)], op, &self.texts[usize::from(*t)])
    }

    fn about(&self, id: NodeId, found: String) -> Error {
        let error = Error::new(Kind::Type, format!("`{}`: {found}", self.excerpt(id)));
        match self.place(id) {
            Some(at) => error.at(at),
            None => error,
        }
    }
}

/// The comparison with its sides swapped.
fn mirrored(op: Binary) -> Binary {
    match op {
        Binary::Lt => Binary::Gt,
        Binary::Le => Binary::Ge,
        Binary::Gt => Binary::Lt,
        Binary::Ge => Binary::Le,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;
    use crate::parser::{parse, parse_with_words};

    fn worded(text: &str) -> Result<String, Error> {
        let tree = parse_with_words(text, |_| false)?.with_words(|name, op, word| match word.parse() {
            Ok(value) => Ok(Worded { op, value, except: (op == Binary::Lt).then_some(-1) }),
            Err(_) => Err(format!("{:?} has no value named {word:?}", name.path())),
        });
        tree.map(|tree| tree.to_string())
    }

    #[test]
    fn texts_become_integers_on_either_side() {
        assert_eq!(worded("t > '5' & u == 1").unwrap(), "t > 5 & u == 1");
        assert_eq!(worded("'5' > t").unwrap(), "t < 5 & t != -1");
        assert_eq!(worded("\"5\" == t | ~(p.x >= '6')").unwrap(), "t == 5 | ~(p.x >= 6)");
        assert_eq!(worded("'2' <= t < '7'").unwrap(), "t >= 2 & (t < 7 & t != -1)");
    }

    #[test]
    fn a_text_outside_a_comparison_with_a_name_is_refused() {
        for text in ["t + '5' > 1", "'5'", "t * 2 > '5'", "'5' == '6'", "abs('5') > 1", "t > 'x'"] {
            assert!(worded(text).is_err(), "{text}");
        }
        let error = worded("t > 'x'").unwrap_err();
        assert!(error.to_string().contains("no value named \"x\""), "{error}");
    }

    #[test]
    fn names_that_are_neither_compared_with_texts_nor_converted_are_found() {
        let bare = |text: &str| {
            let tree = parse_with_words(text, |_| false).unwrap();
            tree.used_bare(|name| name.path().starts_with('t')).map(|name| name.path().to_owned())
        };
        for text in ["t > '5'", "'5' <= t & x > 1", "i8(t) - i8(t2) > 0", "f8(t) * 2 > x", "x > 1"] {
            assert_eq!(bare(text), None, "{text}");
        }
        for text in
            ["t > 5", "t - x > 1", "t", "isnan(t)", "i8(-t) > 0", "t > '5' & x < t", "x > t2 | t > '1'"]
        {
            assert!(bare(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_tree_with_texts_has_no_type_before() {
        let tree = parse_with_words("t > 'x'", |_| false).unwrap();
        assert!(tree.has_words() && !parse("t > 1").unwrap().has_words());
        assert!(tree.check(|_| crate::Answer::Type(crate::Type::I8)).is_err());
    }
}
