//! Stored pieces: payload, CRCs of its units, metadata, histogram; and blob references (docs/format/log.md,
//! Segment and Blobs).
//!
//! A trailer holds the CRC of each unit, so that a part of a raw piece is verified without reading the whole piece. The
//! trailer itself is verified against the `check` of the index entry.

use crate::column::set;
use crate::cursor::Reader;
use crate::{Corrupt, column};

/// Greatest payload, trailer and unit length.
pub const MAX_LENGTH: u64 = 1 << 40;

/// Most bytes of metadata of a piece.
pub const MAX_META: usize = 64 << 10;

/// First byte of metadata in a trailer. A histogram begins with its version instead.
const META_TAG: u8 = b'M';

/// Bytes of a blob reference.
pub const BLOB_REF: usize = 16;

/// Where a stored piece lies and how it is verified (docs/format/log.md, Segment).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct StoredPiece {
    pub position: u64,
    pub length: u64,
    pub trailer: u64,
    pub unit_log2: u8,
    pub check: u32,
}

/// Minimum and maximum as 64-bit patterns, if there are any, and the number of NaNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Stats {
    pub min_max: Option<(u64, u64)>,
    pub nans: u64,
}

impl StoredPiece {
    /// Bytes of a unit, which one CRC of the trailer covers. At least 1.
    pub fn unit(&self) -> u64 {
        match self.unit_log2 {
            0 => self.length.max(1),
            log2 => 1u64.checked_shl(log2.into()).unwrap_or(u64::MAX),
        }
    }

    /// Number of units.
    pub fn units(&self) -> u64 {
        self.length.div_ceil(self.unit())
    }

    /// Where in the file the trailer begins: after the payload and its padding to 4 bytes.
    pub fn trailer_position(&self) -> u64 {
        self.position.saturating_add(self.length.checked_next_multiple_of(4).unwrap_or(u64::MAX))
    }

    /// Where in the file the piece ends.
    pub fn end(&self) -> u64 {
        match self.trailer {
            0 => self.position.saturating_add(self.length),
            trailer => self.trailer_position().saturating_add(trailer),
        }
    }

    /// Checks that the lengths are possible and that the CRCs fit in the trailer.
    pub fn validate(&self) -> Result<(), String> {
        if self.length > MAX_LENGTH
            || self.trailer > MAX_LENGTH
            || 1u64 << self.unit_log2.min(63) > MAX_LENGTH
        {
            return Err(format!("impossible piece {self:?}"));
        }
        if self.end() == u64::MAX {
            return Err(format!("a piece at {} of {} bytes", self.position, self.length));
        }
        if self.trailer > 0 && self.trailer < self.units() * 4 {
            return Err(format!("a trailer of {} bytes for {} units", self.trailer, self.units()));
        }
        Ok(())
    }

    /// Verifies the payload of a piece that has no trailer.
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), Corrupt> {
        if payload.len() as u64 != self.length || crate::crc32c(payload) != self.check {
            return Err(Corrupt::new(format!("a stored piece of {} bytes fails its CRC", self.length), 0));
        }
        Ok(())
    }
}

/// The bytes that follow the payload of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trailer {
    /// CRC of each unit of the payload.
    pub checks: Vec<u32>,
    /// Bytes that the transform needs before a partial read; may be empty, and has at most [`MAX_META`]
    /// bytes.
    pub meta: Vec<u8>,
    /// Distribution of the decoded elements, which the transform crate decodes; may be empty.
    pub histogram: Vec<u8>,
}

impl Trailer {
    /// The CRCs of a payload's units. `unit_log2` 0 makes the whole payload one unit.
    pub fn of(payload: &[u8], unit_log2: u8, histogram: Vec<u8>) -> Self {
        let unit = match unit_log2 {
            0 => payload.len().max(1),
            log2 => 1usize.checked_shl(log2.into()).unwrap_or(usize::MAX),
        };
        Trailer { checks: payload.chunks(unit).map(crate::crc32c).collect(), meta: Vec::new(), histogram }
    }

    /// The trailer with this metadata; more than [`MAX_META`] bytes are left out.
    pub fn with_meta(mut self, meta: &[u8]) -> Self {
        self.meta = if meta.len() > MAX_META { Vec::new() } else { meta.to_vec() };
        self
    }

    /// The bytes of the trailer; their CRC is the piece's `check`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out: Vec<u8> = self.checks.iter().flat_map(|c| c.to_le_bytes()).collect();
        if !self.meta.is_empty() {
            out.extend_from_slice(&((self.meta.len() as u32) << 8 | u32::from(META_TAG)).to_le_bytes());
            out.extend_from_slice(&self.meta);
        }
        out.extend_from_slice(&self.histogram);
        out
    }

    /// Verifies and decodes the trailer of `piece`.
    pub fn decode(piece: &StoredPiece, bytes: &[u8]) -> Result<Self, Corrupt> {
        if bytes.len() as u64 != piece.trailer || crate::crc32c(bytes) != piece.check {
            return Err(Corrupt::new(
                format!("the trailer of a piece at {} fails its CRC", piece.position),
                0,
            ));
        }
        let r = &mut Reader::new(bytes);
        let len = piece.units().checked_mul(4).and_then(|n| usize::try_from(n).ok());
        let checks = r.take(len.unwrap_or(usize::MAX))?;
        let mut words = Reader::new(checks);
        let checks = (0..checks.len() / 4).map(|_| words.u32()).collect::<Result<_, _>>()?;
        let mut rest = r.take(r.remaining())?;
        let mut meta = Vec::new();
        if rest.first() == Some(&META_TAG) {
            let r = &mut Reader::new(rest);
            let len = (r.u32()? >> 8) as usize;
            if len == 0 || len > MAX_META {
                return Err(Corrupt::new(format!("{len} bytes of metadata"), 0));
            }
            meta = r.take(len)?.to_vec();
            rest = r.take(r.remaining())?;
            if rest.first() == Some(&META_TAG) {
                return Err(Corrupt::new("metadata twice in a trailer", 0));
            }
        }
        Ok(Trailer { checks, meta, histogram: rest.to_vec() })
    }

    /// Verifies whole units of the piece's payload, starting at unit number `first`. The last unit of a piece
    /// may be shorter.
    pub fn check(&self, piece: &StoredPiece, first: u64, bytes: &[u8]) -> Result<(), Corrupt> {
        let unit = usize::try_from(piece.unit()).unwrap_or(usize::MAX);
        let begin = first.saturating_mul(piece.unit());
        let left = piece.length.saturating_sub(begin);
        let whole =
            bytes.len() as u64 == left || (bytes.len() as u64) < left && bytes.len().is_multiple_of(unit);
        if !whole {
            return Err(Corrupt::new(format!("{} bytes are not whole units", bytes.len()), 0));
        }
        let checks =
            usize::try_from(first).ok().and_then(|first| self.checks.get(first..)).unwrap_or_default();
        let mut checks = checks.iter();
        for (i, chunk) in bytes.chunks(unit).enumerate() {
            if checks.next() != Some(&crate::crc32c(chunk)) {
                let at = begin.saturating_add((i as u64).saturating_mul(piece.unit()));
                return Err(Corrupt { what: "a unit of a stored piece fails its CRC".into(), at });
            }
        }
        Ok(())
    }
}

/// Reference to a variable-length element: the location of its bytes in the same segment part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct BlobRef {
    pub position: u64,
    pub length: u32,
    pub crc: u32,
}

impl BlobRef {
    /// The reference to a blob at `position`, which is ignored for an empty blob.
    pub fn of(position: u64, blob: &[u8]) -> Self {
        match blob {
            [] => BlobRef::default(),
            blob => BlobRef { position, length: blob.len() as u32, crc: crate::crc32c(blob) },
        }
    }

    /// The 16 bytes of the element.
    pub fn encode(&self) -> [u8; BLOB_REF] {
        let mut out = [0; BLOB_REF];
        out[0..8].copy_from_slice(&self.position.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..16].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// Reads the 16 bytes of an element.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let r = &mut Reader::new(bytes);
        let blob = BlobRef { position: r.u64()?, length: r.u32()?, crc: r.u32()? };
        r.end()?;
        if blob.length == 0 && blob != BlobRef::default() {
            return Err(Corrupt::new("an empty blob has a place", 0));
        }
        if blob.position.checked_add(blob.length.into()).is_none() {
            return Err(Corrupt::new(format!("a blob at {}", blob.position), 0));
        }
        Ok(blob)
    }

    /// Verifies the bytes of the blob.
    pub fn check(&self, blob: &[u8]) -> Result<(), Corrupt> {
        if blob.len() as u64 != u64::from(self.length) || (self.length > 0 && crate::crc32c(blob) != self.crc)
        {
            return Err(Corrupt::new(format!("a blob at {} fails its CRC", self.position), 0));
        }
        Ok(())
    }
}

/// Appends the columns position, length, trailer, unit_log2, check, flags, min, max, nans.
pub(crate) fn write_columns<T>(out: &mut Vec<u8>, items: &[T], get: impl Fn(&T) -> (&StoredPiece, &Stats)) {
    column::write(out, items, |t| get(t).0.position);
    column::write(out, items, |t| get(t).0.length);
    column::write(out, items, |t| get(t).0.trailer);
    column::write(out, items, |t| get(t).0.unit_log2.into());
    column::write(out, items, |t| get(t).0.check.into());
    column::write(out, items, |t| get(t).1.min_max.is_some().into());
    column::write(out, items, |t| get(t).1.min_max.map_or(0, |(min, _)| min));
    column::write(out, items, |t| get(t).1.min_max.map_or(0, |(_, max)| max));
    column::write(out, items, |t| get(t).1.nans);
}

/// Reads the columns of `write_columns`. The pieces are not validated yet.
pub(crate) fn read_columns<T>(
    r: &mut Reader<'_>,
    items: &mut [T],
    get: impl Fn(&mut T) -> (&mut StoredPiece, &mut Stats),
) -> Result<(), Corrupt> {
    column::read(r, items, "position", |t, v| set(&mut get(t).0.position, v))?;
    column::read(r, items, "length", |t, v| set(&mut get(t).0.length, v))?;
    column::read(r, items, "trailer length", |t, v| set(&mut get(t).0.trailer, v))?;
    column::read(r, items, "unit", |t, v| set(&mut get(t).0.unit_log2, v))?;
    column::read(r, items, "check", |t, v| set(&mut get(t).0.check, v))?;
    column::read(r, items, "flags", |t, v| {
        get(t).1.min_max = match v {
            0 => None,
            1 => Some((0, 0)),
            _ => return None,
        };
        Some(())
    })?;
    column::read(r, items, "minimum", |t, v| match &mut get(t).1.min_max {
        Some((min, _)) => set(min, v),
        None => (v == 0).then_some(()),
    })?;
    column::read(r, items, "maximum", |t, v| match &mut get(t).1.min_max {
        Some((_, max)) => set(max, v),
        None => (v == 0).then_some(()),
    })?;
    column::read(r, items, "number of NaNs", |t, v| set(&mut get(t).1.nans, v))
}
