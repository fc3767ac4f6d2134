//! Decodes and encodes the heads of codecs: little-endian numbers, each checked against the available bytes.

use crate::TransformError;

/// A little-endian number of at most 8 bytes.
#[inline(always)]
pub(crate) fn load(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// A reader of the beginning of a codec's bytes.
pub(crate) struct Head<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Head<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Head<'a> {
        Head { bytes, at: 0 }
    }

    /// Number of bytes read so far.
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], TransformError> {
        let taken = self.at.checked_add(len).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| self.corrupt("ends within its head"))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TransformError> {
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or_else(|| self.corrupt("ends within its head"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TransformError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TransformError> {
        self.array().map(u32::from_le_bytes)
    }

    /// An error bound: at least 0, possibly infinite.
    pub(crate) fn bound(&mut self) -> Result<f64, TransformError> {
        let bound = self.array().map(f64::from_le_bytes)?;
        if bound >= 0.0 { Ok(bound) } else { Err(self.corrupt(&format!("an error of {bound}"))) }
    }

    /// The version byte at the beginning of every head.
    pub(crate) fn version(&mut self, codec: &str, newest: u8) -> Result<u8, TransformError> {
        match self.u8()? {
            0 => Err(self.corrupt("version 0")),
            version if version > newest => {
                Err(TransformError::Unsupported { what: format!("{codec} of version {version}") })
            }
            version => Ok(version),
        }
    }

    /// The error for damage at the current offset.
    pub(crate) fn corrupt(&self, what: &str) -> TransformError {
        TransformError::corrupt(what, self.at as u64)
    }
}
