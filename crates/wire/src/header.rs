//! The header of a frame: a code, texts and numbers. The code defines their meaning; [`Ask`](crate::Ask) has
//! the table.

use crate::malformed::Malformed;

/// The longest header of a frame, in bytes.
pub const MAX_HEADER_LEN: usize = 1 << 20;

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The kind of frame.
    pub code: u16,
    /// Its texts.
    pub texts: Vec<String>,
    /// Its numbers.
    pub numbers: Vec<u64>,
}

impl Header {
    /// Encodes the header. Texts too long for a u32 length are truncated; no caller passes one.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.code.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&u32::try_from(self.texts.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.numbers.len()).unwrap_or(u32::MAX).to_le_bytes());
        for text in &self.texts {
            out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        for number in &self.numbers {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Decodes a header that uses all of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Header, Malformed> {
        if bytes.len() > MAX_HEADER_LEN {
            return Err(Malformed::new("a header of more than 1 MiB", 0));
        }
        let mut cursor = Cursor { bytes, at: 0 };
        let code = u16::from_le_bytes(cursor.take()?);
        if cursor.take::<2>()? != [0, 0] {
            return Err(Malformed::new("reserved bytes are not zero", 2));
        }
        let texts = u32::from_le_bytes(cursor.take()?) as usize;
        let numbers = u32::from_le_bytes(cursor.take()?) as usize;
        // Each text takes at least 4 bytes and each number 8, so counts beyond the bytes are refused before any
        // allocation.
        let least = texts.checked_mul(4).zip(numbers.checked_mul(8)).and_then(|(a, b)| a.checked_add(b));
        if least.is_none_or(|least| least > bytes.len() - cursor.at) {
            return Err(Malformed::new("more texts and numbers than there are bytes", 4));
        }
        let mut header = Header { code, texts: Vec::new(), numbers: Vec::new() };
        for _ in 0..texts {
            let len = u32::from_le_bytes(cursor.take()?) as usize;
            let at = cursor.at;
            let text = cursor.slice(len)?;
            let text = std::str::from_utf8(text).map_err(|_| Malformed::new("a text is not UTF-8", at))?;
            header.texts.push(text.to_owned());
        }
        for _ in 0..numbers {
            header.numbers.push(u64::from_le_bytes(cursor.take()?));
        }
        if cursor.at != bytes.len() {
            return Err(Malformed::new("bytes behind the header", cursor.at));
        }
        Ok(header)
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn slice(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| Malformed::new("it ends too early", self.at))?;
        self.at += len;
        Ok(found)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let at = self.at;
        self.slice(N)?.try_into().map_err(|_| Malformed::new("it ends too early", at))
    }
}
