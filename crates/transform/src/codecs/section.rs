//! A run of bytes inside a codec's output, stored raw or as a zstd frame, whichever is smaller.

use crate::scratch::set_len_reusing;
use crate::{Codec, Logical, Scratch, TransformError, Zstd};

/// How a section is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Raw,
    Zstd,
}

/// Sections from this length on are first tried on a sample.
const TRIED: usize = 64 << 10;
const SAMPLE: usize = 16 << 10;

impl Method {
    pub(crate) fn code(self) -> u8 {
        match self {
            Method::Raw => 0,
            Method::Zstd => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Method, TransformError> {
        match code {
            0 => Ok(Method::Raw),
            1 => Ok(Method::Zstd),
            _ => Err(TransformError::Unsupported { what: format!("a section stored by method {code}") }),
        }
    }

    /// Checks the stored length of a section of `len` bytes.
    pub(crate) fn check(self, stored: u64, len: u64) -> Result<(), TransformError> {
        match self {
            Method::Raw if stored != len => {
                Err(TransformError::corrupt(format!("{stored} raw bytes, expected {len}"), 0))
            }
            Method::Zstd if stored >= len.max(1) => {
                Err(TransformError::corrupt(format!("{stored} compressed bytes for {len}"), 0))
            }
            _ => Ok(()),
        }
    }

    /// Fills `out` with the section's decoded bytes.
    pub(crate) fn unpack(
        self,
        stored: &[u8],
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        self.check(stored.len() as u64, out.len() as u64)?;
        match self {
            Method::Raw => out.copy_from_slice(stored),
            Method::Zstd => Zstd::new(1)?.decode(stored, &nothing(), out, scratch)?,
        }
        Ok(())
    }
}

/// A description without content, since zstd needs none.
fn nothing() -> Logical {
    Logical::scalars(1, 0)
}

/// Whether a sample of the bytes shrinks below `most` of its length.
pub(crate) fn shrinks(
    bytes: &[u8],
    zstd: &Zstd,
    most: f64,
    scratch: &mut Scratch,
) -> Result<bool, TransformError> {
    let from = bytes.len().saturating_sub(SAMPLE) / 2;
    let sample = bytes.get(from..from.saturating_add(SAMPLE)).unwrap_or(bytes);
    let mut tried = std::mem::take(&mut scratch.tried);
    tried.clear();
    let result = zstd.encode(sample, &nothing(), &mut tried, scratch);
    let len = tried.len();
    scratch.tried = tried;
    result?;
    Ok((len as f64) < most * sample.len() as f64)
}

/// Appends the smaller form of `bytes` to `out`; returns which one it is.
pub(crate) fn pack(
    bytes: &[u8],
    zstd: &Zstd,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Method, TransformError> {
    let start = out.len();
    if bytes.len() < TRIED || shrinks(bytes, zstd, 0.98, scratch)? {
        zstd.encode(bytes, &nothing(), out, scratch)?;
        if out.len() - start < bytes.len() {
            return Ok(Method::Zstd);
        }
        out.truncate(start);
    }
    out.extend_from_slice(bytes);
    Ok(Method::Raw)
}

/// Unpacks a section into a buffer, which is resized to the section's length.
pub(crate) fn unpack_into(
    method: Method,
    stored: &[u8],
    len: usize,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<(), TransformError> {
    set_len_reusing(out, len);
    method.unpack(stored, out, scratch)
}
