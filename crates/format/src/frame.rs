//! Frames: a checked header around every record of a file (docs/format/frame.md).
//!
//! A torn or overwritten record is recognised before any of its bytes are used. The caller decides whether a torn
//! record is the normal end of a log or damage, since it knows what refers to the bytes.

use crate::Corrupt;
use crate::cursor::Reader;

/// Bytes of a frame header.
pub const HEADER: usize = 32;

/// Greatest payload length.
pub const MAX_PAYLOAD: u64 = 1 << 40;

const MAGIC: [u8; 4] = *b"DRYF";

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// File header.
    File = 1,
    /// Stored pieces. They carry their own CRCs; the CRC of the frame is 0.
    Extent,
    /// Blocks of a process group.
    Group,
    /// Voids the open group.
    Abort,
    /// Closes a part.
    Close,
    /// An entry block.
    Leaf,
    /// A branch block.
    Branch,
    /// Schema, steps or sources.
    Section,
    /// A manifest.
    Manifest,
    /// Records of a journal of files.
    Files,
}

impl FrameKind {
    fn from_u16(kind: u16) -> Option<Self> {
        use FrameKind::*;
        Some(match kind {
            1 => File,
            2 => Extent,
            3 => Group,
            4 => Abort,
            5 => Close,
            6 => Leaf,
            7 => Branch,
            8 => Section,
            9 => Manifest,
            10 => Files,
            _ => return None,
        })
    }
}

/// A frame header with a valid CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub ordinal: u64,
    /// Payload bytes, without padding.
    pub len: u64,
    pub payload_crc: u32,
}

/// The header of a frame.
pub fn header(kind: FrameKind, ordinal: u64, len: u64, payload_crc: u32) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[0..4].copy_from_slice(&MAGIC);
    out[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
    out[8..16].copy_from_slice(&len.to_le_bytes());
    out[16..24].copy_from_slice(&ordinal.to_le_bytes());
    out[24..28].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = crate::crc32c(&out[..28]);
    out[28..32].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Appends a whole frame: header, payload, zeros to a multiple of 8 bytes (counted from the start of the
/// frame).
pub fn push(out: &mut Vec<u8>, kind: FrameKind, ordinal: u64, payload: &[u8]) {
    let crc = if kind == FrameKind::Extent { 0 } else { crate::crc32c(payload) };
    out.extend_from_slice(&header(kind, ordinal, payload.len() as u64, crc));
    out.extend_from_slice(payload);
    out.resize(out.len() + payload.len().next_multiple_of(8) - payload.len(), 0);
}

/// Bytes of a frame with `len` payload bytes: header, payload and padding.
pub fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(8).and_then(|n| n.checked_add(HEADER as u64)).unwrap_or(u64::MAX)
}

/// Decodes a header from the first 32 bytes. The caller compares the ordinal.
pub fn parse_header(bytes: &[u8]) -> Result<FrameHeader, Corrupt> {
    let mut r = Reader::new(bytes);
    let raw: [u8; HEADER] = r.array()?;
    let mut r = Reader::new(&raw);
    if r.array()? != MAGIC {
        return Err(Corrupt::new("no frame: wrong magic", 0));
    }
    let (kind, reserved) = (r.u16()?, r.u16()?);
    let (len, ordinal, payload_crc, crc) = (r.u64()?, r.u64()?, r.u32()?, r.u32()?);
    if crate::crc32c(&raw[..28]) != crc {
        return Err(Corrupt::new("frame header fails its CRC", 0));
    }
    if reserved != 0 {
        return Err(Corrupt::new("reserved field of a frame header is not 0", 6));
    }
    if len > MAX_PAYLOAD {
        return Err(Corrupt::new(format!("frame of {len} bytes, at most {MAX_PAYLOAD}"), 8));
    }
    let kind =
        FrameKind::from_u16(kind).ok_or_else(|| Corrupt::new(format!("unknown frame kind {kind}"), 4))?;
    if kind == FrameKind::Extent && payload_crc != 0 {
        return Err(Corrupt::new("an extent frame has no payload CRC", 24));
    }
    Ok(FrameHeader { kind, ordinal, len, payload_crc })
}

/// Compares length and CRC of a payload with its header; for an extent only the length.
pub fn check_payload(header: &FrameHeader, payload: &[u8]) -> Result<(), Corrupt> {
    if payload.len() as u64 != header.len {
        return Err(Corrupt::new(
            format!("payload of {} bytes, the frame states {}", payload.len(), header.len),
            0,
        ));
    }
    if header.kind != FrameKind::Extent && crate::crc32c(payload) != header.payload_crc {
        return Err(Corrupt::new("frame payload fails its CRC", 0));
    }
    Ok(())
}

/// The content at an offset of a framed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole frame.
    Frame {
        /// Its header.
        header: FrameHeader,
        /// Its payload, CRC checked (except for extents).
        payload: &'a [u8],
        /// Offset of the next frame.
        end: u64,
    },
    /// The bytes end here, at a frame boundary.
    End,
    /// No whole, valid frame with the wanted ordinal.
    Torn(Corrupt),
}

/// The frame at offset `at` of a file's bytes. Its ordinal must be `ordinal`; `u64::MAX` accepts any.
pub fn next(bytes: &[u8], at: u64, ordinal: u64) -> Next<'_> {
    if at == bytes.len() as u64 {
        return Next::End;
    }
    match whole(bytes, at, ordinal) {
        Ok((header, payload, end)) => Next::Frame { header, payload, end },
        Err(e) => Next::Torn(Corrupt { what: e.what, at: at.saturating_add(e.at) }),
    }
}

fn whole(bytes: &[u8], at: u64, ordinal: u64) -> Result<(FrameHeader, &[u8], u64), Corrupt> {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let rest = rest.ok_or_else(|| Corrupt::new(format!("the file ends at byte {}", bytes.len()), 0))?;
    let header = parse_header(rest)?;
    if ordinal != u64::MAX && header.ordinal != ordinal {
        return Err(Corrupt::new(format!("frame number {}, expected {ordinal}", header.ordinal), 16));
    }
    let mut r = Reader::new(rest);
    r.take(HEADER)?;
    let len = usize::try_from(header.len).map_err(|_| r.corrupt("frame longer than memory"))?;
    let payload = r.take(len)?;
    check_payload(&header, payload).map_err(|e| Corrupt::new(e.what, HEADER))?;
    let padding = r.take(len.next_multiple_of(8) - len)?;
    if padding.iter().any(|&b| b != 0) {
        return Err(r.corrupt("frame padding is not zero"));
    }
    Ok((header, payload, at.saturating_add(padded(header.len))))
}
