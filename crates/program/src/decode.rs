//! Decodes programs. A decoded program is valid: its numbers are indices of existing entries, rules stay inside decoded
//! subchunks, and conditions have types.

use drystone_curve::Curve;
use drystone_expression::Tree;
use drystone_format::column;
use drystone_format::cursor::Reader;
use drystone_format::piece::{MAX_LENGTH, StoredPiece};
use drystone_format::{Corrupt, MAX_NDIM};
use drystone_rules::Rule;
use drystone_transform::{Logical, MAX_DECODED_LEN, Precision};

use crate::condition;
use crate::encode::{ANSWERS, COLUMNS, KINDS, MAGIC, TYPES};
use crate::program::{
    Answer, Arrangement, Condition, Curved, Item, MAX_ITEMS, MAX_PROGRAM_LEN, MAX_RESULT_LEN, Mode, Program,
    ProgramError, VERSION,
};

/// Longest text of a chain.
const MAX_CHAIN: usize = 1024;
/// Most cells of a subchunk along a curve (docs/format/block-index.md).
const MOST_CURVED: u64 = 1 << 20;

impl From<Corrupt> for ProgramError {
    fn from(corrupt: Corrupt) -> Self {
        ProgramError::Malformed { what: corrupt.what, at: corrupt.at }
    }
}

impl Program {
    /// Decodes a program. Uses memory in proportion to the length of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Program, ProgramError> {
        if bytes.len() > MAX_PROGRAM_LEN {
            return Err(ProgramError::TooLarge(format!("{} bytes", bytes.len())));
        }
        let r = &mut Reader::new(bytes);
        if r.array()? != MAGIC {
            return Err(Corrupt::new("not a read program", 0).into());
        }
        let version = r.u16()?;
        if !(1..=VERSION).contains(&version) {
            return Err(ProgramError::Version(version));
        }
        if r.u16()? != 0 {
            return Err(r.corrupt("an unknown flag").into());
        }
        let counts = [r.u16()?, r.u16()?, r.u16()?, r.u16()?];
        let items = r.u32()? as usize;
        if items > MAX_ITEMS {
            return Err(ProgramError::TooLarge(format!("{items} items")));
        }
        let [chains, arrangements, rules, conditions] = counts;
        let mut program = Program::new();
        for _ in 0..chains {
            program.chains.push(chain(r)?);
        }
        for _ in 0..arrangements {
            program.arrangements.push(arrangement(r, program.chains.len())?);
        }
        for _ in 0..rules {
            program.rules.push(rule(r)?);
        }
        for _ in 0..conditions {
            program.conditions.push(condition(r, version)?);
        }
        program.items = read_items(r, items)?;
        r.end()?;
        program.check()?;
        // A program has only one encoding, so an accepted program means the same to every reader.
        if program.encode()? != bytes {
            return Err(Corrupt::new("a program in another encoding than its own", 0).into());
        }
        Ok(program)
    }

    /// Checks the parts of the program against each other.
    fn check(&self) -> Result<(), Corrupt> {
        for (number, item) in self.items.iter().enumerate() {
            self.check_item(item).map_err(|what| Corrupt::new(format!("item {number}: {what}"), 0))?;
        }
        Ok(())
    }

    fn check_item(&self, item: &Item) -> Result<(), String> {
        let arrangement =
            self.arrangements.get(usize::from(item.arrangement)).ok_or("no such arrangement")?;
        let rule = self.rules.get(usize::from(item.rule)).ok_or("no such rule")?;
        if rule.src_len() != arrangement.source_len() {
            let (rule, there) = (rule.src_len(), arrangement.source_len());
            return Err(format!("a rule for {rule} bytes on {there}"));
        }
        let condition = match item.condition {
            Some(number) => Some(self.conditions.get(usize::from(number)).ok_or("no such condition")?),
            None => None,
        };
        if let Some(condition) = condition
            && !rule.dst_len().is_multiple_of(condition.dtype.size() as u64)
        {
            return Err(format!("{} bytes of {} values", rule.dst_len(), condition.dtype));
        }
        item.piece.validate()?;
        let raw = self.chains.get(usize::from(arrangement.chain)).is_some_and(String::is_empty);
        if raw && item.prefix.is_some() {
            return Err("a prefix of a raw subchunk".into());
        }
        if let Some(prefix) = &item.prefix {
            prefix.validate()?;
            if prefix.length == 0 || prefix.length > MAX_LENGTH {
                return Err("an empty prefix".into());
            }
        }
        let stored = item.piece.length.saturating_add(item.prefix.map_or(0, |prefix| prefix.length));
        // A chain may make bytes a little longer; a codec that may expand, by a small factor.
        if item.piece.length == 0
            || stored > 4 * MAX_DECODED_LEN as u64
            || item.piece.trailer > MAX_DECODED_LEN as u64
        {
            return Err(format!("{stored} bytes stored"));
        }
        if raw && item.piece.length != u64::from(arrangement.decoded) {
            return Err(format!("{} raw bytes for {} decoded ones", item.piece.length, arrangement.decoded));
        }
        match item.mode {
            Mode::Whole if item.precision != Precision::Exact => Err("a whole subchunk is exact".into()),
            Mode::Part if item.piece.trailer == 0 => Err("a part of a piece without a trailer".into()),
            Mode::Part if item.piece.unit_log2 == 0 => Err("a part of a piece without units".into()),
            Mode::Prefix if item.prefix.is_none() => Err("no prefix".into()),
            _ => Ok(()),
        }
    }
}

fn chain(r: &mut Reader<'_>) -> Result<String, Corrupt> {
    let len = usize::from(r.u16()?);
    if len > MAX_CHAIN {
        return Err(r.corrupt(format!("a chain of {len} bytes")));
    }
    let text = std::str::from_utf8(r.take(len)?).map_err(|_| r.corrupt("a chain that is not UTF-8"))?;
    Ok(text.to_owned())
}

fn extents<T: From<u32>>(r: &mut Reader<'_>, most: usize) -> Result<Vec<T>, Corrupt> {
    let ndim = usize::from(r.u8()?);
    if ndim > most {
        return Err(r.corrupt(format!("{ndim} axes")));
    }
    (0..ndim).map(|_| Ok(T::from(r.u32()?))).collect()
}

fn arrangement(r: &mut Reader<'_>, chains: usize) -> Result<Arrangement, Corrupt> {
    let chain = r.u16()?;
    if usize::from(chain) >= chains {
        return Err(r.corrupt("no such chain"));
    }
    let decoded = r.u32()?;
    if decoded == 0 || decoded as usize > MAX_DECODED_LEN {
        return Err(r.corrupt(format!("a subchunk of {decoded} decoded bytes")));
    }
    let (item, scalar) = (r.u32()? as usize, r.u32()? as usize);
    let kind = *KINDS.get(usize::from(r.u8()?)).ok_or_else(|| r.corrupt("an unknown kind of element"))?;
    // A stack of boxes has one axis more than a box.
    let shape: Vec<u64> = extents(r, MAX_NDIM + 1)?;
    if item == 0 || item > MAX_DECODED_LEN || scalar == 0 || scalar > item {
        return Err(r.corrupt(format!("elements of {item} bytes with scalars of {scalar}")));
    }
    let logical = Logical { item, scalar, kind, shape };
    let curve = match r.u8()? {
        0 => None,
        1 => Some(Curve::Morton),
        2 => Some(Curve::Hilbert),
        _ => return Err(r.corrupt("an unknown curve")),
    };
    let curve = match curve {
        None => None,
        Some(curve) => Some(curved(r, curve, decoded)?),
    };
    Ok(Arrangement { chain, decoded, logical, curve })
}

fn curved(r: &mut Reader<'_>, curve: Curve, decoded: u32) -> Result<Curved, Corrupt> {
    let (room, at, item) = (r.u32()?, r.u32()?, r.u32()?);
    let curved = Curved { curve, room, at, item, shape: extents(r, MAX_NDIM)? };
    let cells = curved.cells();
    if item == 0 || u64::from(at) + u64::from(item) > u64::from(room) {
        return Err(r.corrupt(format!("{item} bytes at {at} of cells of {room}")));
    }
    if cells > MOST_CURVED || cells.saturating_mul(room.into()) != u64::from(decoded) {
        return Err(r.corrupt(format!("{cells} cells of {room} bytes in {decoded}")));
    }
    Ok(curved)
}

fn counted<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Corrupt> {
    let len = r.u32()? as usize;
    r.take(len)
}

fn rule(r: &mut Reader<'_>) -> Result<Rule, Corrupt> {
    let rule = Rule::decode(counted(r)?, MAX_DECODED_LEN as u64, MAX_RESULT_LEN);
    rule.map_err(|error| r.corrupt(format!("a rule: {error}")))
}

fn condition(r: &mut Reader<'_>, version: u16) -> Result<Condition, Corrupt> {
    let dtype = *TYPES.get(usize::from(r.u8()?)).ok_or_else(|| r.corrupt("an unknown type"))?;
    let answer = match version {
        1 => Answer::Values,
        _ => *ANSWERS.get(usize::from(r.u8()?)).ok_or_else(|| r.corrupt("an unknown answer"))?,
    };
    let tree = Tree::decode(counted(r)?).map_err(|error| r.corrupt(format!("a condition: {error}")))?;
    let condition = Condition { dtype, tree, answer };
    condition::typed(&condition).map_err(|error| r.corrupt(format!("a condition: {error}")))?;
    Ok(condition)
}

fn read_items(r: &mut Reader<'_>, count: usize) -> Result<Vec<Item>, Corrupt> {
    let at = r.position();
    let mut columns: [Vec<u64>; COLUMNS] = Default::default();
    for column in &mut columns {
        *column = column::decode(r, count)?;
    }
    let item = |n: usize| {
        let mut row = [0; COLUMNS];
        for (to, column) in row.iter_mut().zip(&columns) {
            *to = column.get(n).copied().unwrap_or_default();
        }
        item(&row).ok_or_else(|| Corrupt::new(format!("item {n} has a number out of range"), at))
    };
    (0..count).map(item).collect()
}

fn item(row: &[u64; COLUMNS]) -> Option<Item> {
    let [arrangement, rule, condition, mode, kind, value, rest @ ..] = *row;
    let [position, length, trailer, unit_log2, check, prefix, prefix_length, prefix_check] = rest;
    let precision = match kind {
        0 => (value == 0).then_some(Precision::Exact)?,
        1 | 2 => {
            let most = f64::from_bits(value);
            (most >= 0.0).then_some(())?;
            if kind == 1 { Precision::Absolute(most) } else { Precision::Relative(most) }
        }
        3 => Precision::Level(u32::try_from(value).ok().filter(|level| *level > 0)?),
        _ => return None,
    };
    let mode = match mode {
        0 => Mode::Whole,
        1 => Mode::Part,
        2 => Mode::Prefix,
        _ => return None,
    };
    let piece = |position, length, trailer, unit_log2: u64, check: u64| {
        let (unit_log2, check) = (u8::try_from(unit_log2).ok()?, u32::try_from(check).ok()?);
        Some(StoredPiece { position, length, trailer, unit_log2, check })
    };
    let prefix = match (prefix, prefix_length, prefix_check) {
        (0, 0, 0) => None,
        _ => Some(piece(prefix, prefix_length, 0, 0, prefix_check)?),
    };
    Some(Item {
        arrangement: u16::try_from(arrangement).ok()?,
        rule: u16::try_from(rule).ok()?,
        condition: match condition {
            0 => None,
            number => Some(u16::try_from(number - 1).ok()?),
        },
        mode,
        precision,
        piece: piece(position, length, trailer, unit_log2, check)?,
        prefix,
    })
}
