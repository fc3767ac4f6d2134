//! Bytes to trees, as docs/format/expression.md specifies. The bytes are untrusted.
//!
//! Bytes that no encoder writes are refused. A tree has exactly one encoding, so a flipped bit never gives the
//! same tree.

use crate::builder::Builder;
use crate::encode::{BINARY, MAGIC, UNARY, VERSION, code};
use crate::error::Corrupt;
use crate::name::{MAX_PARTS, Name};
use crate::tree::{MAX_WEIGHT, NodeId, Over, Stencil, Tree, Unary};
use crate::types::Type;

/// Reads fixed-width integers and texts from the start of the bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((head, _)) = rest.split_at_checked(len) else {
            return Err(self.corrupt(format!("{len} bytes expected, {} left", rest.len())));
        };
        self.at += len;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<&'a str, Corrupt> {
        let len = self.u16()?;
        let at = self.at;
        let bytes = self.take(len.into())?;
        std::str::from_utf8(bytes).map_err(|_| Corrupt::new("a name is not UTF-8", at))
    }

    fn corrupt(&self, what: impl Into<String>) -> Corrupt {
        Corrupt::new(what, self.at)
    }
}

impl Tree {
    /// Decodes a tree.
    pub fn decode(bytes: &[u8]) -> Result<Tree, Corrupt> {
        let mut r = Reader { bytes, at: 0 };
        if &r.array::<4>()? != MAGIC {
            return Err(Corrupt::new("no encoded expression", 0));
        }
        let version = r.u16()?;
        if version != VERSION {
            return Err(Corrupt::unsupported(format!("version {version} of the encoding is not known"), 4));
        }
        let (names, nodes, reserved) = (r.u16()?, r.u16()?, r.u16()?);
        if u32::from(nodes) > MAX_WEIGHT || names > nodes || nodes == 0 || reserved != 0 {
            return Err(Corrupt::new(format!("{nodes} nodes with {names} names, reserved {reserved}"), 6));
        }
        let mut builder = Builder::new();
        let mut known: Vec<Name> = Vec::new();
        for _ in 0..names {
            known.push(name(&mut r)?);
        }
        let mut ids: Vec<NodeId> = Vec::new();
        for _ in 0..nodes {
            let at = r.at;
            let id = node(&mut r, &mut builder, &known, &ids)?;
            if id.index() != ids.len() {
                return Err(Corrupt::new("a node is stored twice or not in canonical form", at));
            }
            ids.push(id);
        }
        if r.at != bytes.len() {
            return Err(r.corrupt(format!("{} bytes too many", bytes.len() - r.at)));
        }
        let tree = match ids.last() {
            Some(&root) => builder.finish(root),
            None => return Err(r.corrupt("no nodes")),
        };
        if tree.encode() != bytes {
            return Err(Corrupt::new("the expression is not in canonical form", 0));
        }
        Ok(tree)
    }
}

fn name(r: &mut Reader<'_>) -> Result<Name, Corrupt> {
    let at = r.at;
    let (parts, offsets) = (usize::from(r.u8()?), usize::from(r.u8()?));
    if parts == 0 || parts > MAX_PARTS || offsets > MAX_PARTS {
        return Err(Corrupt::new(format!("a name of {parts} parts with {offsets} offsets"), at));
    }
    let bad = |error: crate::error::Error| Corrupt::new(error.found, at);
    let mut name = Name::new(r.text()?).map_err(bad)?;
    for _ in 1..parts {
        name = name.member(r.text()?).map_err(bad)?;
    }
    let mut neighbours = Vec::new();
    for _ in 0..offsets {
        let dim = r.text()?.to_owned();
        neighbours.push((dim, i64::from(i16::from_le_bytes(r.array()?))));
    }
    name.neighbour(neighbours).map_err(bad)
}

fn node(
    r: &mut Reader<'_>,
    builder: &mut Builder,
    names: &[Name],
    ids: &[NodeId],
) -> Result<NodeId, Corrupt> {
    let at = r.at;
    let code = r.u8()?;
    let bad = |error: crate::error::Error| Corrupt::new(error.found, at);
    let mut operand = || -> Result<NodeId, Corrupt> {
        let id = r.u16()?;
        let found = ids.get(usize::from(id)).copied();
        found.ok_or_else(|| Corrupt::new(format!("node {} has the operand {id}", ids.len()), at))
    };
    let between = |first: u8, count: usize| code.checked_sub(first).map(usize::from).filter(|&n| n < count);
    if let Some(n) = between(code::UNARY, UNARY.len()) {
        return builder.unary(UNARY[n], operand()?).map_err(bad);
    }
    if let Some(n) = between(code::CAST, Type::ALL.len()) {
        return builder.unary(Unary::Cast(Type::ALL[n]), operand()?).map_err(bad);
    }
    if let Some(n) = between(code::BINARY, BINARY.len()) {
        return builder.binary(BINARY[n], operand()?, operand()?).map_err(bad);
    }
    if let Some(n) = between(code::OVER, Over::ALL.len()) {
        let (of, dims) = (operand()?, operand()?);
        return builder.over(Over::ALL[n], of, Some(dims)).map_err(bad);
    }
    if let Some(n) = between(code::OVER_ALL, Over::ALL.len()) {
        return builder.over(Over::ALL[n], operand()?, None).map_err(bad);
    }
    if let Some(n) = between(code::CALL, Type::ALL.len()) {
        return builder.registered(Type::ALL[n], operand()?, operand()?, None).map_err(bad);
    }
    if let Some(n) = between(code::CALL_HALO, Type::ALL.len()) {
        let (function, of, halo) = (operand()?, operand()?, operand()?);
        return builder.registered(Type::ALL[n], function, of, Some(halo)).map_err(bad);
    }
    match code {
        code::DIFF => builder.stencil(Stencil::Diff, operand()?, operand()?, None),
        code::DIFF_BY => builder.stencil(Stencil::Diff, operand()?, operand()?, Some(operand()?)),
        code::SECOND => builder.stencil(Stencil::Second, operand()?, operand()?, None),
        code::SECOND_BY => builder.stencil(Stencil::Second, operand()?, operand()?, Some(operand()?)),
        code::LIST => builder.list(operand()?, operand()?),
        code::NAME => {
            let n = r.u16()?;
            let Some(name) = names.get(usize::from(n)) else {
                return Err(Corrupt::new(format!("there is no name {n}"), at));
            };
            builder.name(name.clone())
        }
        code::FALSE => builder.boolean(false),
        code::TRUE => builder.boolean(true),
        code::INTEGER => builder.integer(r.u64()?.into()),
        code::NEGATIVE => builder.integer(-i128::from(r.u64()?) - 1),
        code::FLOAT => builder.float(f64::from_bits(r.u64()?)),
        code::WHERE => builder.choose(operand()?, operand()?, operand()?),
        _ => return Err(Corrupt::unsupported(format!("the operator {code} is not known"), at)),
    }
    .map_err(bad)
}
