//! Subchunk tables (docs/format/block-index.md).

use crate::column::set;
use crate::cursor::Reader;
use crate::piece::{StoredPiece, Stats};
use crate::{Corrupt, column, piece};

/// Version of tables whose subchunks may have fronts.
const FRONTS: u32 = 1;
/// An error in a table is the upper bits of that of a double; these are left out.
const BOUND_SHIFT: u32 = 40;

/// One subchunk of a cut block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Subchunk {
    /// The payload, or what follows the front of it.
    pub piece: StoredPiece,
    pub stats: Stats,
    /// The beginning of the payload, where that stands apart.
    pub front: Option<Front>,
}

/// The first bytes of an encoded subchunk, which by themselves give every element to less than full precision. They stand with those
/// of the neighbours, so that a read of many subchunks at that precision is few requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Front {
    /// Where in the file.
    pub position: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// CRC-32C of them.
    pub check: u32,
    /// The precision level that they hold, at least 1.
    pub level: u8,
    absolute: u32,
    relative: u32,
}

impl Front {
    /// A front of a level whose values are off by at most so much, absolutely and relative to their magnitude. What is kept of the
    /// errors is rounded up.
    pub fn new(piece: &StoredPiece, level: u8, absolute: f64, relative: f64) -> Front {
        let StoredPiece { position, length, check, .. } = *piece;
        Front { position, length, check, level, absolute: above(absolute), relative: above(relative) }
    }

    /// Its bytes as a stored piece.
    pub fn piece(&self) -> StoredPiece {
        let Front { position, length, check, .. } = *self;
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
            return Err("a front of level 0".into());
        }
        if rest.length == 0 || self.length.checked_add(rest.length).is_none_or(|all| all > piece::MAX_LENGTH)
        {
            return Err(format!("a front of {} bytes before {}", self.length, rest.length));
        }
        // Negative ones and NaN have greater patterns.
        if self.absolute.max(self.relative) > above(f64::INFINITY) {
            return Err("a front with an error that is none".into());
        }
        Ok(())
    }
}

/// The upper bits of the least error of that form that is not below this one.
fn above(error: f64) -> u32 {
    if error.is_nan() || error < 0.0 {
        return above(f64::INFINITY);
    }
    let bits = error.abs().to_bits();
    let cut = bits >> BOUND_SHIFT;
    // Of what lies above the greatest finite one, infinity is next.
    (cut + u64::from(cut << BOUND_SHIFT != bits)) as u32
}

/// The bytes of a subchunk table; at least one byte per eight subchunks.
pub fn encode(subchunks: &[Subchunk]) -> Vec<u8> {
    let mut out = Vec::new();
    let fronts = subchunks.iter().any(|s| s.front.is_some());
    out.extend_from_slice(&(subchunks.len() as u32).to_le_bytes());
    out.extend_from_slice(&if fronts { FRONTS } else { 0 }.to_le_bytes());
    piece::write_columns(&mut out, subchunks, |s| (&s.piece, &s.stats));
    if fronts {
        let mut add =
            |get: fn(&Front) -> u64| column::write(&mut out, subchunks, |s| s.front.as_ref().map_or(0, get));
        add(|front| front.length);
        add(|front| front.position);
        add(|front| front.check.into());
        add(|front| front.level.into());
        add(|front| front.absolute.into());
        add(|front| front.relative.into());
    }
    out.resize(out.len().max(subchunks.len().div_ceil(8)), 0);
    out
}

/// Reads a table that must have `expected_n` subchunks, the number its entry states.
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
    if version > FRONTS {
        return Err(Corrupt::new(
            format!("a subchunk table of version {version}, which a newer drystone reads"),
            4,
        ));
    }
    let mut subchunks = vec![Subchunk::default(); n];
    piece::read_columns(r, &mut subchunks, |s| (&mut s.piece, &mut s.stats))?;
    if version == FRONTS {
        column::read(r, &mut subchunks, "front length", |s, v| {
            s.front = (v > 0).then(|| Front { length: v, ..Front::default() });
            Some(())
        })?;
        column::read(r, &mut subchunks, "front position", |s, v| {
            of_front(s, v, |front| &mut front.position)
        })?;
        column::read(r, &mut subchunks, "front check", |s, v| of_front(s, v, |front| &mut front.check))?;
        column::read(r, &mut subchunks, "front level", |s, v| of_front(s, v, |front| &mut front.level))?;
        column::read(r, &mut subchunks, "front error", |s, v| of_front(s, v, |front| &mut front.absolute))?;
        column::read(r, &mut subchunks, "front relative error", |s, v| {
            of_front(s, v, |front| &mut front.relative)
        })?;
    }
    r.zeros_to_end()?;
    for (i, s) in subchunks.iter().enumerate() {
        let sound =
            s.piece.validate().and_then(|()| s.front.map_or(Ok(()), |front| front.validate(&s.piece)));
        sound.map_err(|e| r.corrupt(format!("subchunk {i}: {e}")))?;
    }
    Ok(subchunks)
}

/// Sets a number of a front; of a subchunk without one it is 0.
fn of_front<T: TryFrom<u64>>(
    subchunk: &mut Subchunk,
    value: u64,
    at: fn(&mut Front) -> &mut T,
) -> Option<()> {
    match &mut subchunk.front {
        Some(front) => set(at(front), value),
        None => (value == 0).then_some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_fronts_are_rounded_up_and_by_little() {
        let of = |error: f64| {
            let front = Front::new(&StoredPiece::default(), 1, error, error);
            assert_eq!(front.absolute().to_bits(), front.relative().to_bits());
            front.absolute()
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
