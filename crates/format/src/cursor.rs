//! A cursor over untrusted bytes: every read is checked against the remaining length.

use crate::Corrupt;

/// Reads fixed-width little-endian integers and byte runs from a slice. A failed read leaves the position unchanged.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The error "`what` at the present position".
    pub fn corrupt(&self, what: impl Into<String>) -> Corrupt {
        Corrupt::new(what, self.at)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Corrupt> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.split_at_checked(n) {
            Some((head, _)) => {
                self.at += n;
                Ok(head)
            }
            None => Err(self.corrupt(format!("{n} bytes expected, {} left", rest.len()))),
        }
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// The next byte, without consuming it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Requires that all remaining bytes are zero, and consumes them.
    pub fn zeros_to_end(&mut self) -> Result<(), Corrupt> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match rest.iter().position(|&b| b != 0) {
            Some(i) => Err(Corrupt::new("padding is not zero", self.at + i)),
            None => {
                self.at = self.bytes.len();
                Ok(())
            }
        }
    }

    /// Requires that no bytes remain.
    pub fn end(&self) -> Result<(), Corrupt> {
        match self.remaining() {
            0 => Ok(()),
            n => Err(self.corrupt(format!("{n} bytes too many"))),
        }
    }
}
