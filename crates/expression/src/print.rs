//! Trees to texts: prints the canonical text, which parses to the same tree.
//!
//! Brackets stand only where the parser needs them, and around comparisons after `~`.

use std::fmt;

use crate::function::{binary_name, unary_name};
use crate::parser::{OPERATORS, binds};
use crate::tree::{Binary, Node, NodeId, Reduction, Stencil, Tree, Unary};

/// Binds tighter than every operator: names, calls, unsigned constants.
const ATOM: u8 = binds::POWER + 1;

/// An item that is still to be written.
enum Piece {
    Text(&'static str),
    /// A node, in brackets if it binds looser.
    Node(NodeId, u8),
}

impl Tree {
    fn write(&self, f: &mut dyn fmt::Write, id: NodeId) -> fmt::Result {
        let mut open = vec![Piece::Node(id, 0)];
        while let Some(piece) = open.pop() {
            match piece {
                Piece::Text(text) => f.write_str(text)?,
                Piece::Node(id, tightest) => {
                    let node = self.nodes()[id.index()];
                    let binds = binds_of(node);
                    if binds < tightest {
                        f.write_char('(')?;
                        open.push(Piece::Text(")"));
                    }
                    match node {
                        Node::Name(n) => write!(f, "{}", self.names()[usize::from(n)])?,
                        Node::Text(n) => write!(f, "'{}'", self.texts()[usize::from(n)].replace('\'', "''"))?,
                        Node::Bool(value) => write!(f, "{value}")?,
                        Node::Integer(value) => write!(f, "{value}")?,
                        Node::Float(bits) if f64::from_bits(bits).is_nan() => f.write_str("nan")?,
                        Node::Float(bits) => write!(f, "{:?}", f64::from_bits(bits))?,
                        node => open.extend(self.pieces(id, node, binds).into_iter().rev()),
                    }
                }
            }
        }
        Ok(())
    }

    /// The text of a part, shortened if long, for messages.
    pub fn excerpt(&self, id: NodeId) -> String {
        let mut out = Cut { text: String::new() };
        let cut = self.write(&mut out, id).is_err();
        out.text + if cut { "..." } else { "" }
    }
}

impl Tree {
    /// The items of a node with operands, in the order of the text.
    fn pieces(&self, id: NodeId, node: Node, binds: u8) -> Vec<Piece> {
        let (function, operands) = match node {
            Node::Stencil(Stencil::Diff, ..) => ("diff", node.operands().collect()),
            Node::Stencil(Stencil::Second, ..) => ("diff2", node.operands().collect()),
            Node::List(..) => ("vector", self.listed(id)),
            Node::Call(to, function, of, halo) => {
                let cells = halo.map(|halo| self.listed(halo)).unwrap_or_default();
                let mut out = called("apply", vec![function, of]);
                let end = out.pop();
                out.extend([Piece::Text(", "), Piece::Text(to.name())]);
                out.extend(cells.into_iter().flat_map(|n| [Piece::Text(", "), Piece::Node(n, 0)]));
                out.extend(end);
                return out;
            }
            Node::Over(op, a, None) => (op.name(), vec![a]),
            Node::Over(op, a, Some(dims)) => (op.name(), [vec![a], self.listed(dims)].concat()),
            _ => return pieces(node, binds),
        };
        called(function, operands)
    }
}

/// The items of a call.
fn called(function: &'static str, operands: Vec<NodeId>) -> Vec<Piece> {
    let mut out = vec![Piece::Text(function)];
    for (n, operand) in operands.into_iter().enumerate() {
        out.push(Piece::Text(if n == 0 { "(" } else { ", " }));
        out.push(Piece::Node(operand, 0));
    }
    out.push(Piece::Text(")"));
    out
}

/// The items of an operator or a function and its operands, in the order of the text.
fn pieces(node: Node, binds: u8) -> Vec<Piece> {
    let function = match node {
        Node::Unary(Unary::Neg, a) => return vec![Piece::Text("-"), Piece::Node(a, binds)],
        // `~a == b` needs no brackets, but would be misread.
        Node::Unary(Unary::Not, a) => return vec![Piece::Text("~"), Piece::Node(a, binds::SHIFT)],
        Node::Unary(op, _) => unary_name(op),
        Node::Where(..) => "where",
        Node::Binary(op, a, b) => match (binary_name(op), OPERATORS.iter().find(|(_, o, _)| *o == op)) {
            (None, Some(&(sign, ..))) => {
                // Without brackets, a chain of comparisons would differ in meaning. `**` is right-associative.
                let strict = op.is_comparison() || op == Binary::Pow;
                let left = if strict { binds + 1 } else { binds };
                let right = if op == Binary::Pow { binds::NEGATE } else { binds + 1 };
                let [space, gap] = [Piece::Text(" "), Piece::Text(" ")];
                return vec![Piece::Node(a, left), space, Piece::Text(sign), gap, Piece::Node(b, right)];
            }
            (name, _) => name.unwrap_or_default(),
        },
        Node::Reduce(Reduction::Min, _) => "min",
        Node::Reduce(Reduction::Max, _) => "max",
        Node::Name(_) | Node::Bool(_) | Node::Integer(_) | Node::Float(_) | Node::Text(_) => "",
        Node::Stencil(..) | Node::Over(..) | Node::List(..) | Node::Call(..) => "",
    };
    called(function, node.operands().collect())
}

/// A text with a bounded length.
struct Cut {
    text: String,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            if self.text.len() >= 60 {
                return Err(fmt::Error);
            }
            self.text.push(c);
        }
        Ok(())
    }
}

fn binds_of(node: Node) -> u8 {
    match node {
        Node::Integer(value) if value < 0 => binds::NEGATE,
        Node::Float(bits) if f64::from_bits(bits).is_sign_negative() => binds::NEGATE,
        Node::Unary(Unary::Neg, _) => binds::NEGATE,
        Node::Unary(Unary::Not, _) => binds::NOT,
        Node::Binary(op, ..) => {
            OPERATORS.iter().find(|(_, o, _)| *o == op).map_or(ATOM, |&(.., binds)| binds)
        }
        _ => ATOM,
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, self.root())
    }
}
