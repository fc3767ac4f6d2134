//! A question: the expression tree of its text as steps over keys, each operand before its use.
//!
//! A comparison has an attribute or an extreme on one side and a constant on the other; comparisons are combined with
//! and, or, not. Everything else in an expression is refused here, with its position.

use drystone::{Error, ErrorKind, Result};
use drystone_expression::{Binary, Name, Node, NodeId, Reduction, Tree, Unary, parse_question};

use crate::facts::{Key, KeyKind, OWN};
use crate::value::Value;

/// A comparison with a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The keys that a name may refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedKeys {
    /// The name as it was written.
    pub(crate) text: String,
    /// A value of any of these keys counts.
    pub(crate) keys: Vec<Key>,
    /// The key for containers that have none of `keys`.
    pub(crate) own: Option<Key>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Holds for every container, or for none.
    Constant(bool),
    /// A truth value by itself.
    Truth(NamedKeys),
    Compare(NamedKeys, Comparison, Value),
    /// Combines earlier steps.
    And(usize, usize),
    Or(usize, usize),
    Xor(usize, usize),
    Not(usize),
}

/// A question about pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub(crate) steps: Vec<Step>,
}

/// A node before it is combined with others.
enum Operand {
    NamedKeys(NamedKeys),
    Constant(Value),
    Step(usize),
}

fn refused(found: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, found)
}

const HELP: &str = "a question compares an attribute, `min(p)` or `max(p)` with a constant, as campaign == 'a*' & \
    max(p) > 3";

impl Question {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Question> {
        let tree = parse_question(text).map_err(|error| refused(error.render(text)))?;
        let mut question = Question { steps: Vec::new() };
        let mut parts: Vec<Operand> = Vec::with_capacity(tree.nodes().len());
        for &node in tree.nodes() {
            let part = question.part(&tree, node, &parts)?;
            parts.push(part);
        }
        match parts.last() {
            // The last step is the answer.
            Some(part) => question.condition(part).map(|_| question),
            None => Err(refused("the question is empty")),
        }
    }

    /// The names in the question.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &NamedKeys> {
        self.steps.iter().filter_map(|step| match step {
            Step::Truth(asked) | Step::Compare(asked, ..) => Some(asked),
            _ => None,
        })
    }

    /// The names that are conditions by themselves.
    pub(crate) fn truths(&self) -> impl Iterator<Item = &NamedKeys> {
        self.steps.iter().filter_map(|step| match step {
            Step::Truth(asked) => Some(asked),
            _ => None,
        })
    }

    fn step(&mut self, step: Step) -> Operand {
        self.steps.push(step);
        Operand::Step(self.steps.len() - 1)
    }

    fn part(&mut self, tree: &Tree, node: Node, parts: &[Operand]) -> Result<Operand> {
        let of = |id: NodeId| parts.get(id.index()).ok_or_else(|| refused("an operand is missing"));
        Ok(match node {
            Node::Name(n) => Operand::NamedKeys(asked(&tree.names()[usize::from(n)])?),
            Node::Bool(value) => Operand::Constant(Value::Bool(value)),
            Node::Integer(n) => Operand::Constant(Value::Integer(n)),
            Node::Float(bits) => Operand::Constant(Value::float(f64::from_bits(bits))),
            Node::Text(n) => Operand::Constant(Value::Text(tree.texts()[usize::from(n)].clone())),
            Node::Reduce(reduction, id) => match tree.nodes().get(id.index()) {
                Some(Node::Name(n)) => {
                    let name = &tree.names()[usize::from(*n)];
                    let kind = if reduction == Reduction::Min { KeyKind::Least } else { KeyKind::Greatest };
                    no_offsets(name)?;
                    let key = Key::new(kind, name.path(), name.members().join("."));
                    Operand::NamedKeys(NamedKeys { text: key.text(), keys: vec![key], own: None })
                }
                _ => return Err(refused(format!("min and max are of a variable or a member; {HELP}"))),
            },
            Node::Unary(Unary::Not, a) => {
                let a = self.condition(of(a)?)?;
                self.step(Step::Not(a))
            }
            Node::Binary(op @ (Binary::And | Binary::Or | Binary::Xor), a, b) => {
                let (a, b) = (self.condition(of(a)?)?, self.condition(of(b)?)?);
                self.step(match op {
                    Binary::And => Step::And(a, b),
                    Binary::Or => Step::Or(a, b),
                    _ => Step::Xor(a, b),
                })
            }
            Node::Binary(op, a, b) if op.is_comparison() => {
                let (asked, op, value) = match (of(a)?, of(b)?) {
                    (Operand::NamedKeys(asked), Operand::Constant(value)) => {
                        (asked, comparison(op, false), value)
                    }
                    (Operand::Constant(value), Operand::NamedKeys(asked)) => {
                        (asked, comparison(op, true), value)
                    }
                    _ => return Err(refused(format!("a comparison has a constant on one side; {HELP}"))),
                };
                if let Value::Bool(_) = value
                    && !matches!(op, Comparison::Eq | Comparison::Ne)
                {
                    return Err(refused(format!("`{}`: truth values have no order", asked.text)));
                }
                self.step(Step::Compare(asked.clone(), op, value.clone()))
            }
            _ => return Err(refused(format!("questions to a catalogue have no arithmetic; {HELP}"))),
        })
    }

    /// An operand as a condition.
    fn condition(&mut self, part: &Operand) -> Result<usize> {
        let step = match part {
            Operand::Step(step) => return Ok(*step),
            Operand::NamedKeys(asked) => Step::Truth(asked.clone()),
            Operand::Constant(Value::Bool(value)) => Step::Constant(*value),
            Operand::Constant(_) => return Err(refused(format!("a constant is not a condition; {HELP}"))),
        };
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }
}

/// The comparison for an operator; reversed if the constant is on the left.
fn comparison(op: Binary, turned: bool) -> Comparison {
    use Comparison::*;
    match (op, turned) {
        (Binary::Ne, _) => Ne,
        (Binary::Lt, false) | (Binary::Gt, true) => Lt,
        (Binary::Le, false) | (Binary::Ge, true) => Le,
        (Binary::Gt, false) | (Binary::Lt, true) => Gt,
        (Binary::Ge, false) | (Binary::Le, true) => Ge,
        _ => Eq,
    }
}

fn no_offsets(name: &Name) -> Result<()> {
    if name.offsets().is_empty() {
        return Ok(());
    }
    Err(refused(format!("`{name}`: containers have no neighbours")))
}

/// The keys of a name: `a` is an attribute of the container, `T.a` one of `T`, or the member `a` of the container's
/// attribute `T`.
fn asked(name: &Name) -> Result<NamedKeys> {
    no_offsets(name)?;
    let members = name.members().join(".");
    let own = OWN.iter().find(|own| members.is_empty() && **own == name.path()).map(|own| Key::own(own));
    let keys = match members.as_str() {
        "" => vec![Key::new(KeyKind::Attribute, "", name.path())],
        _ => vec![
            Key::new(KeyKind::Attribute, name.path(), members.clone()),
            Key::new(KeyKind::Attribute, "", format!("{}.{members}", name.path())),
        ],
    };
    Ok(NamedKeys { text: name.to_string(), keys, own })
}
