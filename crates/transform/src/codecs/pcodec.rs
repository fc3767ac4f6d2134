//! pcodec: numbers in bins with entropy-coded offsets. Modes and deltas are detected from the data.
//!
//! The bytes are one standalone `.pco` file. Elements of several scalars (complex numbers, vectors) are separated: all
//! first scalars, in chunks of their own, then all second ones. Integers of 8 bits, booleans and text are not
//! supported.

use pco::data_types::Number;
use pco::standalone::{DecompressorItem, FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};

use crate::number;
use crate::params::{Params, named_int};
use crate::stats::ScalarKind;
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const DEFAULT_LEVEL: usize = 8;
/// Numbers in one chunk of the file.
const CHUNK_COUNT: usize = 1 << 18;

/// The pcodec codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pcodec {
    level: usize,
    /// Order of the deltas; detected for each chunk if not given.
    delta: Option<usize>,
    kind: Option<ScalarKind>,
}

impl Pcodec {
    pub(crate) fn from_params(params: &[Param]) -> Result<Pcodec, TransformError> {
        let params = Params::read("pcodec", &["level", "dtype", "delta"], params)?;
        let level = params.int("level", 0..=12)?.map_or(DEFAULT_LEVEL, |level| level as usize);
        let delta = params.int("delta", 0..=7)?.map(|order| order as usize);
        let kind = number::from_params(&params)?;
        if let Some(kind) = kind {
            check_kind(kind)?;
        }
        Ok(Pcodec { level, delta, kind })
    }

    fn config(&self) -> ChunkConfig {
        let delta = match self.delta {
            None => DeltaSpec::Auto,
            Some(0) => DeltaSpec::NoOp,
            Some(order) => DeltaSpec::TryConsecutive(order),
        };
        ChunkConfig::default()
            .with_compression_level(self.level)
            .with_mode_spec(ModeSpec::Auto)
            .with_delta_spec(delta)
    }

    fn encode_as<T: Word<N>, const N: usize>(
        &self,
        data: &[u8],
        lag: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        let failed = |error: pco::errors::PcoError| TransformError::Encode {
            codec: "pcodec".into(),
            problem: error.to_string(),
        };
        let (words, tail) = data.as_chunks::<N>();
        let file = FileCompressor::default().with_n_hint(words.len());
        file.write_header(&mut *out).map_err(failed)?;
        let mut numbers: Vec<T> = Vec::with_capacity(words.len().div_ceil(lag));
        for first in 0..lag.min(words.len()) {
            numbers.clear();
            if lag == 1 {
                numbers.extend(words.iter().map(|word| T::read(*word)));
            } else {
                numbers.extend(words.iter().skip(first).step_by(lag).map(|word| T::read(*word)));
            }
            // Chunks have equal lengths, since a short last one would compress badly.
            let per_chunk = numbers.len().div_ceil(numbers.len().div_ceil(CHUNK_COUNT));
            for chunk in numbers.chunks(per_chunk) {
                let mut config = self.config();
                config.paging_spec = PagingSpec::Exact(vec![chunk.len()]);
                file.chunk_compressor(chunk, &config)
                    .and_then(|mut chunk| chunk.write(&mut *out))
                    .map_err(failed)?;
            }
        }
        file.write_footer(&mut *out).map_err(failed)?;
        out.extend_from_slice(tail);
        Ok(())
    }

    fn decode_as<T: Word<N>, const N: usize>(
        encoded: &[u8],
        lag: usize,
        out: &mut [u8],
    ) -> Result<(), TransformError> {
        let corrupt = |what: String| TransformError::corrupt(what, 0);
        let failed = |error: pco::errors::PcoError| corrupt(format!("pcodec file: {error}"));
        let (words, tail) = out.as_chunks_mut::<N>();
        let at = encoded.len().checked_sub(tail.len());
        let Some((encoded, end)) = at.and_then(|at| encoded.split_at_checked(at)) else {
            return Err(corrupt("ends before the bytes that belong to no whole number".into()));
        };
        tail.copy_from_slice(end);
        let mut numbers = vec![T::default(); words.len()];
        let mut rest = numbers.as_mut_slice();
        let (file, mut source) = FileDecompressor::new(encoded).map_err(failed)?;
        loop {
            match file.chunk_decompressor::<T, _>(source).map_err(failed)? {
                DecompressorItem::EndOfData([]) => break,
                DecompressorItem::EndOfData(more) => {
                    return Err(corrupt(format!("{} bytes after the end of the pcodec file", more.len())));
                }
                DecompressorItem::Chunk(mut chunk) => {
                    let (count, room) = (chunk.n(), rest.len());
                    let Some((target, after)) = rest.split_at_mut_checked(count) else {
                        return Err(corrupt(format!(
                            "a pcodec chunk of {count} numbers, at most {room} fit"
                        )));
                    };
                    let progress = chunk.read(target).map_err(failed)?;
                    if progress.n_processed != count {
                        return Err(corrupt(format!(
                            "a pcodec chunk gives {} numbers, not {count}",
                            progress.n_processed
                        )));
                    }
                    rest = after;
                    source = chunk.into_src();
                }
            }
        }
        if !rest.is_empty() {
            return Err(corrupt(format!("the pcodec file lacks {} numbers", rest.len())));
        }
        if lag == 1 {
            words.iter_mut().zip(&numbers).for_each(|(word, number)| *word = number.write());
            return Ok(());
        }
        let mut numbers = numbers.iter();
        for first in 0..lag.min(words.len()) {
            for (word, number) in words.iter_mut().skip(first).step_by(lag).zip(&mut numbers) {
                *word = number.write();
            }
        }
        Ok(())
    }
}

/// Refuses types that pcodec does not support; the error names those that it does.
fn check_kind(kind: ScalarKind) -> Result<(), TransformError> {
    match kind {
        ScalarKind::Bool | ScalarKind::Other | ScalarKind::I8 | ScalarKind::U8 => {
            let problem = "compresses numbers of 2, 4 or 8 bytes; for other data use zstd, or bitshuffle,zstd:1 for \
                bool";
            Err(TransformError::bad_parameter("pcodec", problem))
        }
        _ => Ok(()),
    }
}

/// A number of `N` bytes in pcodec's type. Bfloat16 is treated as an integer; the order of its bits is that of the
/// values of one sign.
trait Word<const N: usize>: Number + Default {
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
}

macro_rules! word {
    ($($type:ty, $size:literal;)*) => {$(
        impl Word<$size> for $type {
            fn read(bytes: [u8; $size]) -> Self { <$type>::from_le_bytes(bytes) }
            fn write(self) -> [u8; $size] { self.to_le_bytes() }
        }
    )*};
}
word! { i16, 2; i32, 4; i64, 8; u16, 2; u32, 4; u64, 8; half::f16, 2; f32, 4; f64, 8; }

macro_rules! with_word {
    ($kind:expr, $function:ident($($argument:expr),*)) => {
        match $kind {
            ScalarKind::I16 | ScalarKind::BF16 => $function!(i16, 2, $($argument),*),
            ScalarKind::I32 => $function!(i32, 4, $($argument),*),
            ScalarKind::I64 => $function!(i64, 8, $($argument),*),
            ScalarKind::U16 => $function!(u16, 2, $($argument),*),
            ScalarKind::U32 => $function!(u32, 4, $($argument),*),
            ScalarKind::U64 => $function!(u64, 8, $($argument),*),
            ScalarKind::F16 => $function!(half::f16, 2, $($argument),*),
            ScalarKind::F32 => $function!(f32, 4, $($argument),*),
            ScalarKind::F64 => $function!(f64, 8, $($argument),*),
            kind @ (ScalarKind::Bool | ScalarKind::Other | ScalarKind::I8 | ScalarKind::U8) => check_kind(kind),
        }
    };
}

/// Number of scalars of `kind` in one element.
fn lag(kind: ScalarKind, logical: &Logical) -> usize {
    let size = kind.size();
    if logical.item.is_multiple_of(size) { (logical.item / size).max(1) } else { 1 }
}

impl Codec for Pcodec {
    fn spec(&self) -> CodecSpec {
        let mut params = vec![Param::Int(self.level as i64)];
        params.extend(self.kind.and_then(number::to_param));
        params.extend(self.delta.map(|order| named_int("delta", order as i64)));
        CodecSpec { name: "pcodec".into(), params }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        // Incompressible chunks take their numbers, a bin table and a head. There is at least one chunk per scalar of
        // an element.
        decoded_len.saturating_add(decoded_len / 4).saturating_add(8192)
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let kind = self.kind.unwrap_or(logical.kind);
        let lag = lag(kind, logical);
        macro_rules! run {
            ($type:ty, $size:literal, $data:expr) => {
                self.encode_as::<$type, $size>($data, lag, out)
            };
        }
        with_word!(kind, run(data))
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let kind = self.kind.unwrap_or(logical.kind);
        let lag = lag(kind, logical);
        macro_rules! run {
            ($type:ty, $size:literal, $encoded:expr) => {
                Pcodec::decode_as::<$type, $size>($encoded, lag, out)
            };
        }
        with_word!(kind, run(encoded))
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
