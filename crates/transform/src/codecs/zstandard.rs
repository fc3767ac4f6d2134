//! zstd: one standard frame per subchunk, with its content size and nothing after it.
//!
//! Any zstd library reads the frame. The declared decoded size bounds everything. A frame that states another size, or
//! none, is refused before decompression, and decompression writes only into the caller's buffer.

use std::io::Cursor;

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective};

use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const LEVELS: std::ops::RangeInclusive<i32> = -7..=22;
const DEFAULT_LEVEL: i32 = 3;
/// Most bytes of a block, and bytes of a block's header.
const BLOCK: usize = 128 << 10;
const BLOCK_HEADER: usize = 3;
/// Shorter runs share blocks.
const SHORTEST_RUN: usize = 1 << 10;

/// The zstd codec at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zstd {
    level: i32,
}

impl Zstd {
    /// Levels are -7 (fastest) to 22 (smallest); 0 means the default, 3.
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

    /// Whether runs of similar bytes are so short that a block of the library would mix several under one entropy code.
    /// The fastest levels have no such code, and a very short run is not worth one.
    fn is_mixed(&self, run: usize, len: usize) -> bool {
        self.level > 0 && (SHORTEST_RUN..BLOCK).contains(&run) && run < len
    }

    fn failed(code: usize) -> TransformError {
        TransformError::Encode { codec: "zstd".into(), problem: zstd_safe::get_error_name(code).into() }
    }
}

/// One frame that begins a new block, and so a new code, with each run of this many bytes.
fn in_blocks(
    context: &mut CCtx<'static>,
    data: &[u8],
    run: usize,
    out: &mut Vec<u8>,
) -> Result<(), TransformError> {
    context.reset(ResetDirective::SessionOnly).map_err(Zstd::failed)?;
    context.set_pledged_src_size(Some(data.len() as u64)).map_err(Zstd::failed)?;
    out.reserve(zstd_safe::compress_bound(data.len()) + BLOCK_HEADER * data.len().div_ceil(run));
    let mut rest = data;
    while !rest.is_empty() {
        // A remainder that is shorter than a run is joined to the last run.
        let len = if rest.len() < 2 * run { rest.len() } else { run };
        let (now, behind) = rest.split_at(len);
        rest = behind;
        let step =
            if rest.is_empty() { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_flush };
        let (mut input, at) = (InBuffer::around(now), out.len());
        let mut output = OutBuffer::around_pos(out, at);
        let left = context.compress_stream2(&mut output, &mut input, step).map_err(Zstd::failed)?;
        if left > 0 || input.pos() < now.len() {
            let problem = "it has no room for the bytes that it makes".into();
            return Err(TransformError::Encode { codec: "zstd".into(), problem });
        }
    }
    Ok(())
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
        if let Some(run) = scratch.alike.take().filter(|run| self.is_mixed(*run, data.len())) {
            return in_blocks(context, data, run, out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chain;

    /// Doubles whose byte planes differ from each other.
    fn waves(count: usize) -> Vec<u8> {
        (0..count).flat_map(|i| (i as f64 / 700.0).sin().to_le_bytes()).collect()
    }

    #[test]
    fn planes_that_a_block_would_mix_are_coded_apart_and_come_back() {
        let (logical, scratch) = (Logical::scalars(8, 8), &mut Scratch::new());
        for count in [1024, 4096, 8000, 8001, 19_683] {
            let data = waves(count);
            for (text, gains) in [("shuffle,zstd:1", true), ("shuffle,bytedelta,zstd:9", false)] {
                let chain = Chain::parse(text).unwrap();
                let mut stored = Vec::new();
                chain.encode(&data, &logical, &mut stored, scratch).unwrap();
                let mut back = vec![0; data.len()];
                chain.decode(&stored, &logical, &mut back, scratch).unwrap();
                assert!(back == data, "{text} {count}");
                let mut shuffled = Vec::new();
                let shuffle = Chain::parse("shuffle").unwrap();
                shuffle.encode(&data, &logical, &mut shuffled, scratch).unwrap();
                let mut mixed = Vec::new();
                Zstd::new(1).unwrap().encode(&shuffled[1..], &logical, &mut mixed, scratch).unwrap();
                assert!(
                    !gains || count < 8000 || stored.len() < mixed.len(),
                    "{count} {} {}",
                    stored.len(),
                    mixed.len()
                );
            }
        }
    }

    #[test]
    fn frames_of_runs_keep_their_bound_whatever_the_bytes() {
        let (logical, scratch) = (Logical::scalars(8, 8), &mut Scratch::new());
        let mut state = 3u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        for (len, run) in [(8192, 1024), (65_536, 8192), (65_543, 8192), (5000, 1024), (300_000, 100_000)] {
            let data: Vec<u8> = (0..len).map(|_| noise()).collect();
            for level in [1, 3, 9] {
                let zstd = Zstd::new(level).unwrap();
                let mut out = vec![7; 3];
                scratch.alike = Some(run);
                zstd.encode(&data, &logical, &mut out, scratch).unwrap();
                assert!(out.len() - 3 <= zstd.max_encoded_len(len), "{len} {run} {level}: {}", out.len());
                let mut back = vec![0; len];
                zstd.decode(&out[3..], &logical, &mut back, scratch).unwrap();
                assert!(back == data && out[..3] == [7; 3]);
                assert!(scratch.alike.is_none());
            }
        }
    }
}
