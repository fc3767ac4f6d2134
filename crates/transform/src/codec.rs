//! What a codec is.
//!
//! A codec turns the bytes of one subchunk into other bytes and back. It does not split data, start threads
//! or keep checksums: the engine does. An *opaque* codec needs all its bytes to decode any; a *transparent*
//! one also decodes a part ([`Codec::transparent`]).

use crate::error::TransformError;
use crate::logical::Logical;
use crate::part::{Bound, Fetched, Pieces, Planned, Prefix, StoredSubchunk, Want};
use crate::scratch::Scratch;
use crate::search::Indexed;
use crate::text::CodecSpec;

/// One reversible encoding of a subchunk's bytes.
///
/// `decode` gets untrusted bytes: it must return an error for anything that is not exactly an output of
/// `encode` for `out.len()` bytes, and must not allocate more than a small multiple of `out.len()`.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// The text that makes this codec again: its name and all parameters that matter.
    fn spec(&self) -> CodecSpec;

    /// Longest output for `decoded_len` bytes; a decoder's stages are bounded by it.
    fn max_encoded_len(&self, decoded_len: usize) -> usize;

    /// Appends the encoded form of `data` to `out`.
    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError>;

    /// Fills `out`, whose length is the exact decoded size.
    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError>;

    /// The length of the runs of similar bytes, planes for example, in `len` encoded bytes: a compressor
    /// behind this codec does better if it does not mix them. `None` where that is unknown.
    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        let _ = (len, logical);
        None
    }

    /// Whether decoding loses precision, within a bound that the codec states.
    fn is_lossy(&self) -> bool {
        false
    }

    /// The largest error of decoded numbers, where no finite decoded one exceeds `greatest` in magnitude
    /// (infinite if that is unknown). The default for a lossy codec promises nothing.
    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let _ = (logical, greatest);
        if self.is_lossy() { Bound::UNKNOWN } else { Bound::EXACT }
    }

    /// The side for partial reads, or `None` for an opaque codec.
    fn transparent(&self) -> Option<&dyn Transparent>;
}

/// The side of a codec that can decode a part from a part, or at reduced precision.
///
/// What a partial read must know beforehand is at the head of the encoded bytes; the head is kept beside the
/// subchunk as metadata ([`Transparent::meta_len`]), so a plan needs no read of the data. Metadata is
/// untrusted like everything else.
pub trait Transparent {
    /// How many bytes at the head of `encoded`, which `encode` just made, are metadata to be kept. If that
    /// exceeds [`MAX_META_LEN`](crate::MAX_META_LEN) nothing is kept, and the subchunk is read whole.
    fn meta_len(&self, encoded: &[u8]) -> usize;

    /// Whether an encoded form longer than the data is worth keeping for what it lets readers do. Then
    /// [`Codec::max_encoded_len`] is the limit, which is below three times the data; else the data is stored
    /// raw.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether the encoded bytes hold every value in its place, so that a codec after this one sees values
    /// too, and can be asked for reduced precision, and searched.
    fn keeps_values(&self) -> bool {
        false
    }

    /// The side that finds elements by their values, or `None`.
    fn indexed(&self) -> Option<&dyn Indexed> {
        None
    }

    /// The shortest prefix of `encoded`, which `encode` just made of `decoded_len` bytes, that is worth
    /// reading by itself: it holds the head, and all bytes that some precision level below the last needs of
    /// any element. It may then be stored apart, so no bytes that [`Transparent::decode_part`] takes at once
    /// lie on both sides of its end. `None` where there is none.
    fn prefix(&self, encoded: &[u8], decoded_len: usize) -> Option<Prefix> {
        let _ = (encoded, decoded_len);
        None
    }

    /// The bytes of the `stored.len` encoded ones that the want needs. Pure arithmetic: nothing is fetched
    /// yet, and allocations are bounded by the metadata at hand and the number of wanted ranges.
    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError>;

    /// Decodes pieces that hold all wanted bytes to their places. `fetched` holds at least the bytes that
    /// `plan_read` named for the same arguments.
    fn decode_part(
        &self,
        stored: &StoredSubchunk<'_>,
        fetched: &Fetched<'_>,
        logical: &Logical,
        want: &Want<'_>,
        pieces: &mut Pieces<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError>;
}
