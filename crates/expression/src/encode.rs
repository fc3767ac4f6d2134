//! Trees to bytes, as docs/format/expression.md specifies.

use crate::tree::{Binary, Node, Over, Stencil, Tree, Unary};

pub(crate) const MAGIC: &[u8; 4] = b"DRYX";
pub(crate) const VERSION: u16 = 1;

/// Node codes. Operators are numbered from these bases.
pub(crate) mod code {
    pub(crate) const NAME: u8 = 0;
    pub(crate) const FALSE: u8 = 1;
    pub(crate) const TRUE: u8 = 2;
    pub(crate) const INTEGER: u8 = 3;
    pub(crate) const NEGATIVE: u8 = 4;
    pub(crate) const FLOAT: u8 = 5;
    pub(crate) const WHERE: u8 = 6;
    pub(crate) const LIST: u8 = 7;
    /// Registered functions by the type of their result, without a halo and with one.
    pub(crate) const CALL: u8 = 120;
    pub(crate) const CALL_HALO: u8 = 136;
    /// Only in questions; no decoder accepts it.
    pub(crate) const QUESTION: u8 = 15;
    pub(crate) const UNARY: u8 = 16;
    pub(crate) const DIFF: u8 = 45;
    pub(crate) const DIFF_BY: u8 = 46;
    pub(crate) const SECOND: u8 = 47;
    pub(crate) const SECOND_BY: u8 = 48;
    /// Reductions over named dimensions, and over all dimensions.
    pub(crate) const OVER: u8 = 49;
    pub(crate) const OVER_ALL: u8 = 56;
    pub(crate) const CAST: u8 = 64;
    pub(crate) const BINARY: u8 = 96;
}

/// Operators of one operand, in the order of their codes. Never reordered.
pub(crate) const UNARY: [Unary; 29] = {
    use Unary::*;
    [
        Not, Neg, Invert, Abs, Sign, Floor, Ceil, Trunc, Round, Sqrt, Cbrt, Exp, Expm1, Log, Log2, Log10,
        Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, IsNan, IsInf, IsFinite,
    ]
};

/// Operators of two operands, in the order of their codes. Never reordered.
pub(crate) const BINARY: [Binary; 22] = {
    use Binary::*;
    [
        Or, Xor, And, Eq, Ne, Lt, Le, Gt, Ge, Shl, Shr, Add, Sub, Mul, Div, FloorDiv, Mod, Pow, Min, Max,
        Atan2, Hypot,
    ]
};

impl Tree {
    /// Encodes the tree; equal trees give equal bytes. Every decoder refuses a question with texts or reductions.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let header = [VERSION, self.names().len() as u16, self.nodes().len() as u16, 0];
        header.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        for name in self.names() {
            out.extend_from_slice(&[name.parts().len() as u8, name.offsets().len() as u8]);
            name.parts().iter().for_each(|part| text(&mut out, part));
            for offset in name.offsets() {
                text(&mut out, &offset.dim);
                out.extend_from_slice(&offset.by.to_le_bytes());
            }
        }
        for &node in self.nodes() {
            out.push(code_of(node));
            match node {
                Node::Name(n) => out.extend_from_slice(&n.to_le_bytes()),
                Node::Bool(_) => {}
                Node::Integer(n) => {
                    let magnitude = if n < 0 { -(n + 1) } else { n };
                    out.extend_from_slice(&(magnitude as u64).to_le_bytes());
                }
                Node::Float(bits) => out.extend_from_slice(&bits.to_le_bytes()),
                Node::Text(n) => out.extend_from_slice(&n.to_le_bytes()),
                node => node.operands().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes())),
            }
        }
        out
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn position<T: PartialEq>(of: &T, all: &[T]) -> u8 {
    all.iter().position(|op| op == of).unwrap_or_default() as u8
}

fn code_of(node: Node) -> u8 {
    match node {
        Node::Name(_) => code::NAME,
        Node::Bool(false) => code::FALSE,
        Node::Bool(true) => code::TRUE,
        Node::Integer(n) if n < 0 => code::NEGATIVE,
        Node::Integer(_) => code::INTEGER,
        Node::Float(_) => code::FLOAT,
        Node::Where(..) => code::WHERE,
        Node::Text(_) | Node::Reduce(..) => code::QUESTION,
        Node::List(..) => code::LIST,
        Node::Stencil(Stencil::Diff, _, _, None) => code::DIFF,
        Node::Stencil(Stencil::Diff, ..) => code::DIFF_BY,
        Node::Stencil(Stencil::Second, _, _, None) => code::SECOND,
        Node::Stencil(Stencil::Second, ..) => code::SECOND_BY,
        Node::Over(op, _, Some(_)) => code::OVER + position(&op, &Over::ALL),
        Node::Over(op, _, None) => code::OVER_ALL + position(&op, &Over::ALL),
        Node::Call(to, _, _, None) => code::CALL + position(&to, &crate::types::Type::ALL),
        Node::Call(to, ..) => code::CALL_HALO + position(&to, &crate::types::Type::ALL),
        Node::Unary(Unary::Cast(to), _) => code::CAST + position(&to, &crate::types::Type::ALL),
        Node::Unary(op, _) => code::UNARY + position(&op, &UNARY),
        Node::Binary(op, ..) => code::BINARY + position(&op, &BINARY),
    }
}
