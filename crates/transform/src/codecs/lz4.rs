//! lz4: the decoded length in four bytes, then one LZ4 block. The fastest compressor here.

mod block;
mod encode;

use crate::params::{Params, named_int};
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const HEADER_LEN: usize = 4;

/// The largest acceleration, as in the C library.
const MOST_ACCELERATED: i64 = 65_537;

/// The lz4 codec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lz4 {
    acceleration: u32,
}

impl Lz4 {
    pub(crate) fn from_params(params: &[Param]) -> Result<Lz4, TransformError> {
        let given =
            Params::read("lz4", &["acceleration"], params)?.int("acceleration", 0..=MOST_ACCELERATED)?;
        Ok(Lz4 { acceleration: given.map_or(1, |given| given.max(1) as u32) })
    }
}

/// Appends one LZ4 block of `data` if it takes at most `most` bytes, and returns whether it did. A larger acceleration
/// is faster and finds fewer copies.
pub(crate) fn encode_block(data: &[u8], acceleration: u32, most: usize, out: &mut Vec<u8>) -> bool {
    encode::encode(data, acceleration, most, out)
}

/// Fills `out` from one LZ4 block; `at` is the block's offset, for messages.
pub(crate) fn decode_block(block: &[u8], out: &mut [u8], at: u64) -> Result<(), TransformError> {
    let expected = out.len();
    let told =
        |damage| TransformError::corrupt(format!("the lz4 block {damage}, expected {expected} bytes"), at);
    block::decode(block, out).map_err(told)
}

impl Codec for Lz4 {
    fn spec(&self) -> CodecSpec {
        let params = (self.acceleration > 1).then(|| named_int("acceleration", self.acceleration.into()));
        CodecSpec { name: "lz4".into(), params: params.into_iter().collect() }
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(decoded_len / 10).saturating_add(20 + HEADER_LEN)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let len = u32::try_from(data.len()).map_err(|_| TransformError::TooLarge { len: data.len() })?;
        out.extend_from_slice(&len.to_le_bytes());
        // A limit of the longest length never refuses a block.
        encode_block(data, self.acceleration, encode::bound(data.len()), out);
        Ok(())
    }

    fn decode(
        &self,
        encoded: &[u8],
        _logical: &Logical,
        out: &mut [u8],
        _scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let Some((len, block)) = encoded.split_first_chunk::<HEADER_LEN>() else {
            return Err(TransformError::corrupt("ends within the lz4 length", 0));
        };
        let len = u32::from_le_bytes(*len) as usize;
        if len != out.len() {
            let what = format!("the lz4 block declares {len} bytes, expected {}", out.len());
            return Err(TransformError::corrupt(what, 0));
        }
        decode_block(block, out, HEADER_LEN as u64)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
