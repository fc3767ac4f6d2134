//! Subchunk tables (docs/format/block-index.md).

use crate::column::set;
use crate::cursor::Reader;
use crate::piece::{Stats, StoredPiece};
use crate::{Corrupt, column, piece};

/// Version of tables whose subchunks may have prefixes.
const PREFIXES: u32 = 1;
/// An error bound in a table is stored as the upper bits of a double; this many lower bits are left out.
const BOUND_SHIFT: u32 = 40;

/// One subchunk of a cut block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Subchunk {
    /// The payload; with a prefix, the rest of the payload.
    pub piece: StoredPiece,
    pub stats: Stats,
    /// The prefix of the payload, if it is stored apart.
    pub prefix: Option<Prefix>,
}

/// The first bytes of an encoded subchunk, which by themselves give every element at reduced precision.
/// Prefixes of neighbours are stored together, so that a read of many subchunks at that precision takes few
/// requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prefix {
    /// Its position in the file.
    pub position: u64,
    /// Its length in bytes, at least 1.
    pub length: u64,
    /// CRC-32C of its bytes.
    pub check: u32,
    /// The precision level of the prefix, at least 1.
    pub level: u8,
    absolute: u32,
    relative: u32,
}

impl Prefix {
    /// A prefix of a level with these largest errors: absolute, and relative to the magnitude. The stored errors are
    /// rounded up.
    pub fn new(piece: &StoredPiece, level: u8, absolute: f64, relative: f64) -> Prefix {
        let StoredPiece { position, length, check, .. } = *piece;
        Prefix { position, length, check, level, absolute: above(absolute), relative: above(relative) }
    }

    /// Its bytes as a stored piece.
    pub fn piece(&self) -> StoredPiece {
        let Prefix { position, length, check, .. } = *self;
        StoredPiece { position, length, trailer: 0, unit_log2: 0, check }
    }

    /// The largest absolute error of a value; may be infinite.
    pub fn absolute(&self) -> f64 {
        f64::from_bits(u64::from(self.absolute) << BOUND_SHIFT)
    }

    /// The largest error of a value relative to its magnitude; may be infinite.
    pub fn relative(&self) -> f64 {
        f64::from_bits(u64::from(self.relative) << BOUND_SHIFT)
    }

    fn validate(&self, rest: &StoredPiece) -> Result<(), String> {
        self.piece().validate()?;
        if self.level == 0 {
            return Err("a prefix of level 0".into());
        }
        if rest.length == 0 || self.length.checked_add(rest.length).is_none_or(|all| all > piece::MAX_LENGTH)
        {
            return Err(format!("a prefix of {} bytes before {}", self.length, rest.length));
        }
        // Negative errors and NaN have greater bit patterns.
        if self.absolute.max(self.relative) > above(f64::INFINITY) {
            return Err("a prefix with an invalid error bound".into());
        }
        Ok(())
    }
}

/// The upper bits of the least representable error that is not below this one.
fn above(error: f64) -> u32 {
    if error.is_nan() || error < 0.0 {
        return above(f64::INFINITY);
    }
    let bits = error.abs().to_bits();
    let cut = bits >> BOUND_SHIFT;
    // The greatest finite error is followed by infinity.
    (cut + u64::from(cut << BOUND_SHIFT != bits)) as u32
}

/// The bytes of a subchunk table; at least one byte per eight subchunks.
pub fn encode(subchunks: &[Subchunk]) -> Vec<u8> {
    let mut out = Vec::new();
    let prefixes = subchunks.iter().any(|s| s.prefix.is_some());
    out.extend_from_slice(&(subchunks.len() as u32).to_le_bytes());
    out.extend_from_slice(&if prefixes { PREFIXES } else { 0 }.to_le_bytes());
    piece::write_columns(&mut out, subchunks, |s| (&s.piece, &s.stats));
    if prefixes {
        let mut add = |get: fn(&Prefix) -> u64| {
            column::write(&mut out, subchunks, |s| s.prefix.as_ref().map_or(0, get))
        };
        add(|prefix| prefix.length);
        add(|prefix| prefix.position);
        add(|prefix| prefix.check.into());
        add(|prefix| prefix.level.into());
        add(|prefix| prefix.absolute.into());
        add(|prefix| prefix.relative.into());
    }
    out.resize(out.len().max(subchunks.len().div_ceil(8)), 0);
    out
}

/// Decodes a table, which must have `expected_n` subchunks, the number in its entry.
pub fn decode(bytes: &[u8], expected_n: u64) -> Result<Vec<Subchunk>, Corrupt> {
    let r = &mut Reader::new(bytes);
    let (n, version) = (r.u32()?, r.u32()?);
    let n = n as usize;
    if n as u64 != expected_n || n.div_ceil(8) > bytes.len() {
        let len = bytes.len();
        return Err(Corrupt::new(
            format!("{n} subchunks in a table of {len} bytes, {expected_n} expected"),
            0,
        ));
    }
    if version > PREFIXES {
        return Err(Corrupt::new(
            format!("a subchunk table of version {version}, which a newer drystone reads"),
            4,
        ));
    }
    let mut subchunks = vec![Subchunk::default(); n];
    piece::read_columns(r, &mut subchunks, |s| (&mut s.piece, &mut s.stats))?;
    if version == PREFIXES {
        column::read(r, &mut subchunks, "prefix length", |s, v| {
            s.prefix = (v > 0).then(|| Prefix { length: v, ..Prefix::default() });
            Some(())
        })?;
        column::read(r, &mut subchunks, "prefix position", |s, v| {
            of_prefix(s, v, |prefix| &mut prefix.position)
        })?;
        column::read(r, &mut subchunks, "prefix check", |s, v| of_prefix(s, v, |prefix| &mut prefix.check))?;
        column::read(r, &mut subchunks, "prefix level", |s, v| of_prefix(s, v, |prefix| &mut prefix.level))?;
        column::read(r, &mut subchunks, "prefix error", |s, v| {
            of_prefix(s, v, |prefix| &mut prefix.absolute)
        })?;
        column::read(r, &mut subchunks, "prefix relative error", |s, v| {
            of_prefix(s, v, |prefix| &mut prefix.relative)
        })?;
    }
    r.zeros_to_end()?;
    for (i, s) in subchunks.iter().enumerate() {
        let sound =
            s.piece.validate().and_then(|()| s.prefix.map_or(Ok(()), |prefix| prefix.validate(&s.piece)));
        sound.map_err(|e| r.corrupt(format!("subchunk {i}: {e}")))?;
    }
    Ok(subchunks)
}

/// Sets a number of a prefix. For a subchunk without prefix, the number is 0.
fn of_prefix<T: TryFrom<u64>>(
    subchunk: &mut Subchunk,
    value: u64,
    at: fn(&mut Prefix) -> &mut T,
) -> Option<()> {
    match &mut subchunk.prefix {
        Some(prefix) => set(at(prefix), value),
        None => (value == 0).then_some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_prefixes_are_rounded_up_and_by_little() {
        let of = |error: f64| {
            let prefix = Prefix::new(&StoredPiece::default(), 1, error, error);
            assert_eq!(prefix.absolute().to_bits(), prefix.relative().to_bits());
            prefix.absolute()
        };
        for exact in [0.0, 1.0, 0.03125, f64::INFINITY] {
            assert_eq!(of(exact), exact);
        }
        for error in [1e-3, 0.1, 7.3e-300, 1e300, 0.031_249_999] {
            assert!((error..=error * 1.000_25).contains(&of(error)), "{error}");
        }
        assert!(of(5e-324) > 0.0 && of(f64::MAX) == f64::INFINITY);
        assert!(of(f64::NAN) == f64::INFINITY && of(-1.0) == f64::INFINITY);
    }
}
