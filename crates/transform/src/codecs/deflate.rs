//! zlib and gzip: one stream per subchunk, which any zlib or gzip library reads.
//!
//! The two differ only in the bytes around the deflated data (RFC 1950, RFC 1952). Output is written into a buffer of
//! the declared size, so a decompression bomb stops at the end of the buffer.

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use crate::params::Params;
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

/// First bytes of every gzip member made here: deflate, no name, no time. The level hint and the system follow.
const GZIP_MAGIC: [u8; 8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0];
const GZIP_HEADER: usize = 10;
const GZIP_TRAILER: usize = 8;

/// Longest deflated form of `len` bytes with its header: stored blocks, and a margin for weak levels.
fn bound(len: usize) -> usize {
    len.saturating_add(len / 8).saturating_add(64)
}

fn level_of(name: &'static str, params: &[Param]) -> Result<u32, TransformError> {
    let level = Params::read(name, &["level"], params)?.int("level", -1..=9)?;
    // zlib writes its default level as -1.
    Ok(level.filter(|level| *level >= 0).map_or(6, |level| level as u32))
}

fn deflate(
    name: &str,
    level: u32,
    wrapped: bool,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TransformError> {
    let mut stream = Compress::new(Compression::new(level), wrapped);
    out.reserve(bound(data.len()));
    let failed = |problem: String| TransformError::Encode { codec: name.into(), problem };
    loop {
        let rest = data.get(stream.total_in() as usize..).unwrap_or_default();
        let status = stream.compress_vec(rest, out, FlushCompress::Finish);
        match status.map_err(|error| failed(error.to_string()))? {
            Status::StreamEnd => return Ok(()),
            Status::Ok | Status::BufError => out.reserve(4096),
        }
    }
}

/// Inflates all of `encoded` into all of `out`; the error says what did not fit.
fn inflate(wrapped: bool, encoded: &[u8], out: &mut [u8]) -> Result<(), TransformError> {
    let corrupt = |what: String, at: u64| Err(TransformError::corrupt(what, at));
    let mut stream = Decompress::new(wrapped);
    let mut status = Status::BufError;
    if !out.is_empty() {
        status = match stream.decompress(encoded, out, FlushDecompress::Finish) {
            Ok(status) => status,
            Err(error) => return corrupt(format!("deflated data: {error}"), stream.total_in()),
        };
    }
    if status != Status::StreamEnd && stream.total_out() == out.len() as u64 {
        // The output is complete. The remaining bytes must be the end of the stream, without further output.
        let rest = encoded.get(stream.total_in() as usize..).unwrap_or_default();
        status = match stream.decompress(rest, &mut [0], FlushDecompress::Finish) {
            Ok(status) => status,
            Err(error) => return corrupt(format!("deflated data: {error}"), stream.total_in()),
        };
    }
    let (taken, made) = (stream.total_in(), stream.total_out());
    if made > out.len() as u64 {
        return corrupt(format!("deflated data holds more than {} bytes", out.len()), taken);
    }
    if status != Status::StreamEnd || made != out.len() as u64 {
        return corrupt(format!("deflated data gives {made} bytes, expected {}", out.len()), taken);
    }
    if taken != encoded.len() as u64 {
        return corrupt(format!("deflated data ends after {taken} of {} bytes", encoded.len()), taken);
    }
    Ok(())
}

/// The zlib codec at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zlib {
    level: u32,
}

impl Zlib {
    /// `level` is 0 (stored) to 9 (smallest); larger levels are treated as 9.
    pub fn new(level: u32) -> Zlib {
        Zlib { level: level.min(9) }
    }

    pub(crate) fn from_params(params: &[Param]) -> Result<Zlib, TransformError> {
        Ok(Zlib { level: level_of("zlib", params)? })
    }
}

impl Codec for Zlib {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "zlib".into(), params: vec![Param::Int(i64::from(self.level))] }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        bound(decoded_len)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        deflate("zlib", self.level, true, data, out)
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        inflate(true, encoded, out)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}

/// The gzip codec at one level: one member without name and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gzip {
    level: u32,
}

impl Gzip {
    pub(crate) fn from_params(params: &[Param]) -> Result<Gzip, TransformError> {
        Ok(Gzip { level: level_of("gzip", params)? })
    }
}

impl Codec for Gzip {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "gzip".into(), params: vec![Param::Int(i64::from(self.level))] }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        bound(decoded_len)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let level_hint = match self.level {
            9 => 2,
            1 => 4,
            _ => 0,
        };
        out.extend_from_slice(&GZIP_MAGIC);
        out.extend_from_slice(&[level_hint, 0xFF]);
        deflate("gzip", self.level, false, data, out)?;
        let mut crc = Crc::new();
        crc.update(data);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let end = encoded.len().saturating_sub(GZIP_TRAILER);
        let parts = encoded.get(GZIP_HEADER..end).zip(encoded.get(end..).and_then(|t| t.split_first_chunk()));
        let Some((body, (crc, len))) = parts.filter(|_| encoded.starts_with(&GZIP_MAGIC)) else {
            return Err(TransformError::corrupt("not a gzip member without name and time", 0));
        };
        if len != (out.len() as u32).to_le_bytes() {
            let what = format!("the gzip member declares another length than {}", out.len());
            return Err(TransformError::corrupt(what, end as u64 + 4));
        }
        inflate(false, body, out)?;
        let mut found = Crc::new();
        found.update(out);
        if found.sum() != u32::from_le_bytes(*crc) {
            return Err(TransformError::corrupt("the gzip checksum does not match", end as u64));
        }
        Ok(())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
