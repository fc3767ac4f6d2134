//! The head of a body and of a frame: docs/format/wire.md, "Body" and "Frame".

use crate::checksum::checksum;
use crate::header::{Header, MAX_HEADER_LEN};
use crate::malformed::Malformed;

/// Version of the structures in this crate.
pub const VERSION: u16 = 1;
/// Size of the head of a body.
pub const BODY_HEAD_LEN: usize = 8;
/// Size of the head of a frame.
pub const FRAME_HEAD_LEN: usize = 16;

const MAGIC: &[u8; 4] = b"DRYW";

/// Encodes the head of a body.
pub fn body_head() -> [u8; BODY_HEAD_LEN] {
    let [a, b] = VERSION.to_le_bytes();
    let [m, n, o, p] = *MAGIC;
    [m, n, o, p, a, b, 0, 0]
}

/// Refuses bytes that do not begin a body of this version.
pub fn check_body_head(bytes: &[u8; BODY_HEAD_LEN]) -> Result<(), Malformed> {
    let [m, n, o, p, a, b, reserved @ ..] = bytes;
    if [*m, *n, *o, *p] != *MAGIC {
        return Err(Malformed::new("it does not begin with DRYW", 0));
    }
    if u16::from_le_bytes([*a, *b]) != VERSION {
        return Err(Malformed::new("a version that this program does not know", 4));
    }
    if *reserved != [0, 0] {
        return Err(Malformed::new("reserved bytes are not zero", 6));
    }
    Ok(())
}

/// The head of a frame: the lengths of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the header.
    pub header_len: usize,
    /// Length of the payload, which follows the header. A checksum of 4 bytes follows the payload.
    pub payload_len: u64,
    crc: u32,
}

impl FrameHead {
    /// Decodes it. [`header`](Self::header) checks the header's bytes.
    pub fn decode(bytes: &[u8; FRAME_HEAD_LEN]) -> Result<FrameHead, Malformed> {
        let [h0, h1, h2, h3, c0, c1, c2, c3, payload @ ..] = *bytes;
        let header_len = u32::from_le_bytes([h0, h1, h2, h3]) as usize;
        if header_len > MAX_HEADER_LEN {
            return Err(Malformed::new("a header of more than 1 MiB", 0));
        }
        let payload_len = u64::from_le_bytes(payload);
        if payload_len > 1 << 40 {
            return Err(Malformed::new("a payload of more than 1 TiB", 8));
        }
        Ok(FrameHead { header_len, payload_len, crc: u32::from_le_bytes([c0, c1, c2, c3]) })
    }

    /// Checks and decodes the header.
    pub fn header(&self, bytes: &[u8]) -> Result<Header, Malformed> {
        if crc(bytes, self.payload_len) != self.crc {
            return Err(Malformed::new("the checksum of the header does not match", 4));
        }
        Header::decode(bytes)
    }

    /// Encodes the head and the header of a frame whose payload has this length.
    pub fn encode(header: &Header, payload_len: u64) -> Vec<u8> {
        let header = header.encode();
        let len = u32::try_from(header.len()).unwrap_or(u32::MAX);
        let mut out = Vec::with_capacity(FRAME_HEAD_LEN + header.len());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&crc(&header, payload_len).to_le_bytes());
        out.extend_from_slice(&payload_len.to_le_bytes());
        out.extend_from_slice(&header);
        out
    }
}

fn crc(header: &[u8], payload_len: u64) -> u32 {
    let len = u32::try_from(header.len()).unwrap_or(u32::MAX);
    checksum(&[&len.to_le_bytes(), &payload_len.to_le_bytes(), header])
}
