//! zstd: one standard frame per subchunk, with its content size and nothing after it.
//!
//! The frame is what any zstd library reads. The declared decoded size bounds
//! everything: a frame that states another size, or none, is refused before
//! decompression, and decompression writes into the caller's buffer only.

use std::io::Cursor;

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
const DEFAULT_LEVEL: i32 = 3;

/// The zstd codec at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zstd {
    level: i32,
}

impl Zstd {
    /// Levels run from -7 (fastest) to 22 (smallest); 0 means the default, 3.
    pub fn new(level: i32) -> Result<Zstd, TransformError> {
        Zstd::checked(i64::from(level))
    }

    fn checked(level: i64) -> Result<Zstd, TransformError> {
        match i32::try_from(level) {
            Ok(0) => Ok(Zstd { level: DEFAULT_LEVEL }),
            Ok(level) if LEVELS.contains(&level) => Ok(Zstd { level }),
            _ => Err(TransformError::bad_parameter(
                "zstd",
                format!("level {level} is out of range, allowed are {} to {}", LEVELS.start(), LEVELS.end()),
            )),
        }
    }

    pub(crate) fn from_params(params: &[Param]) -> Result<Zstd, TransformError> {
        let bad = |problem: String| TransformError::bad_parameter("zstd", problem);
        let mut level = None;
        for param in params {
            match param.key_and_value() {
                (None | Some("level"), Param::Int(_)) if level.is_some() => {
                    return Err(bad(format!("the level is given twice, the second time as {param}")));
                }
                (None | Some("level"), Param::Int(value)) => level = Some(Zstd::checked(*value)?),
                (Some("checksum"), Param::Int(0)) => {}
                (Some("checksum"), _) => {
                    return Err(bad(
                        "checksum is not kept, every stored range has its own; leave it out".into()
                    ));
                }
                _ => return Err(bad(format!("expected a level as in zstd:3, found {param}"))),
            }
        }
        Ok(level.unwrap_or(Zstd { level: DEFAULT_LEVEL }))
    }

    fn failed(code: usize) -> TransformError {
        TransformError::Encode { codec: "zstd".into(), problem: zstd_safe::get_error_name(code).into() }
    }
}

impl Codec for Zstd {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: "zstd".into(), params: vec![Param::Int(i64::from(self.level))] }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        // The library's bound: 1/256 more, and up to 64 bytes for small inputs.
        decoded_len.saturating_add(decoded_len / 256).saturating_add(64)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let out_of_memory =
            || TransformError::Encode { codec: "zstd".into(), problem: "no memory for a context".into() };
        let (context, level) = match &mut scratch.compress {
            Some(kept) => kept,
            none => none.insert((CCtx::try_create().ok_or_else(out_of_memory)?, 0)),
        };
        if *level != self.level {
            context.set_parameter(CParameter::CompressionLevel(self.level)).map_err(Zstd::failed)?;
            *level = self.level;
        }
        let start = out.len();
        out.reserve(zstd_safe::compress_bound(data.len()));
        let mut tail = Cursor::new(out);
        tail.set_position(start as u64);
        context.compress2(&mut tail, data).map(drop).map_err(Zstd::failed)
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let corrupt = |what: String| Err(TransformError::corrupt(what, 0));
        if !encoded.starts_with(&MAGIC) {
            return corrupt("not a zstd frame".into());
        }
        match zstd_safe::get_frame_content_size(encoded) {
            Ok(Some(len)) if len == out.len() as u64 => {}
            Ok(Some(len)) => {
                return corrupt(format!("the zstd frame declares {len} bytes, expected {}", out.len()));
            }
            _ => return corrupt("the zstd frame does not declare its content size".into()),
        }
        match zstd_safe::find_frame_compressed_size(encoded) {
            Ok(len) if len == encoded.len() => {}
            Ok(len) => return corrupt(format!("the zstd frame ends after {len} of {} bytes", encoded.len())),
            Err(code) => return corrupt(format!("zstd frame: {}", zstd_safe::get_error_name(code))),
        }
        let context = match &mut scratch.decompress {
            Some(kept) => kept,
            none => match DCtx::try_create() {
                Some(new) => none.insert(new),
                None => return corrupt("no memory for a zstd context".into()),
            },
        };
        match context.decompress(out, encoded) {
            Ok(len) if len == out.len() => Ok(()),
            Ok(len) => corrupt(format!("the zstd frame holds {len} bytes, expected {}", out.len())),
            Err(code) => corrupt(format!("zstd frame: {}", zstd_safe::get_error_name(code))),
        }
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
