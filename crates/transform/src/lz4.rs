//! lz4: the decoded length in four bytes, then one LZ4 block. The fastest compressor here.

mod block;

use crate::params::Params;
use crate::scratch::set_len_reusing;
use crate::{Codec, CodecSpec, Logical, Param, Scratch, TransformError, Transparent};

const HEADER_LEN: usize = 4;

/// The lz4 codec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lz4;

impl Lz4 {
    pub(crate) fn from_params(params: &[Param]) -> Result<Lz4, TransformError> {
        // Zarr objects carry an acceleration; only the default is what this encoder does.
        Params::read("lz4", &["acceleration"], params)?.int("acceleration", 0..=1)?;
        Ok(Lz4)
    }
}

/// Longest LZ4 block of `len` bytes.
fn block_bound(len: usize) -> usize {
    lz4_flex::block::get_maximum_output_size(len)
}

/// Appends one LZ4 block of `data`. It is made in `tried`, which is used again: room for the longest block need not be cleared.
pub(crate) fn encode_block(
    data: &[u8],
    out: &mut Vec<u8>,
    tried: &mut Vec<u8>,
) -> Result<(), TransformError> {
    set_len_reusing(tried, tried.len().max(block_bound(data.len())));
    let len = lz4_flex::block::compress_into(data, tried)
        .map_err(|error| TransformError::Encode { codec: "lz4".into(), problem: error.to_string() })?;
    out.extend_from_slice(tried.get(..len).unwrap_or_default());
    Ok(())
}

/// Fills `out` from one LZ4 block; `at` is where the block stands, for messages.
pub(crate) fn decode_block(block: &[u8], out: &mut [u8], at: u64) -> Result<(), TransformError> {
    let expected = out.len();
    let told =
        |damage| TransformError::corrupt(format!("the lz4 block {damage}, expected {expected} bytes"), at);
    block::decode(block, out).map_err(told)
}

impl Codec for Lz4 {
    fn spec(&self) -> CodecSpec {
        CodecSpec::named("lz4")
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len.saturating_add(decoded_len / 10).saturating_add(20 + HEADER_LEN)
    }

    fn encode(
        &self,
        data: &[u8],
        _logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        let len = u32::try_from(data.len()).map_err(|_| TransformError::TooLarge { len: data.len() })?;
        out.extend_from_slice(&len.to_le_bytes());
        encode_block(data, out, &mut scratch.tried)
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
