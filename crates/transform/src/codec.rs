//! The trait of codecs.
//!
//! A codec turns the bytes of one subchunk into other bytes and back. The engine, not the codec, splits data, starts
//! threads and keeps checksums. An *opaque* codec needs all its bytes to decode any of them; a *transparent* one can
//! also decode a part ([`Codec::transparent`]).

use crate::error::TransformError;
use crate::logical::Logical;
use crate::part::{Bound, Fetched, Pieces, Planned, Prefix, StoredSubchunk, Want};
use crate::scratch::Scratch;
use crate::search::Indexed;
use crate::text::CodecSpec;

/// One reversible encoding of a subchunk's bytes.
///
/// `decode` gets untrusted bytes. It must return an error for anything that is not an output of `encode` for
/// `out.len()` bytes, and must not allocate more than a small multiple of `out.len()`.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// The text from which the same codec can be made: its name and all parameters that matter.
    fn spec(&self) -> CodecSpec;

    /// Longest output for `decoded_len` bytes. It bounds the stages of a decoder.
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

    /// The length of the runs of similar bytes, for example planes, in `len` encoded bytes; `None` if unknown. A
    /// compressor after this codec does better if it does not mix them.
    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        let _ = (len, logical);
        None
    }

    /// Whether decoding loses precision, within a bound that the codec states.
    fn is_lossy(&self) -> bool {
        false
    }

    /// The largest error of decoded numbers, where no finite decoded number exceeds `greatest` in magnitude (infinite
    /// if unknown). The default for a lossy codec guarantees nothing.
    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let _ = (logical, greatest);
        if self.is_lossy() { Bound::UNKNOWN } else { Bound::EXACT }
    }

    /// The interface for partial reads; `None` for an opaque codec.
    fn transparent(&self) -> Option<&dyn Transparent>;
}

/// The interface of a codec that can decode a part from a part, or at reduced precision.
///
/// The head of the encoded bytes has everything that a partial read must know beforehand. It is kept beside the
/// subchunk as metadata ([`Transparent::meta_len`]), so planning a read reads no data. Metadata is untrusted too.
pub trait Transparent {
    /// The number of bytes at the head of `encoded`, an output of `encode`, that are kept as metadata. If it exceeds
    /// [`MAX_META_LEN`](crate::MAX_META_LEN), none are kept, and the subchunk is read whole.
    fn meta_len(&self, encoded: &[u8]) -> usize;

    /// Whether an encoded form longer than the data is kept because of what it lets readers do. If so,
    /// [`Codec::max_encoded_len`], which is below three times the data, is the limit; else longer data is stored raw.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether the encoded bytes hold every value in its place, so that a later codec sees values too, and can be
    /// searched or asked for reduced precision.
    fn keeps_values(&self) -> bool {
        false
    }

    /// The interface that finds elements by their values, if there is one.
    fn indexed(&self) -> Option<&dyn Indexed> {
        None
    }

    /// The shortest prefix of `encoded`, an output of `encode` for `decoded_len` bytes, that is worth reading by
    /// itself; `None` if there is none. It holds the head and all bytes that some precision level below the last needs.
    /// It may be stored apart, so no range that [`Transparent::decode_part`] gets at once crosses its end.
    fn prefix(&self, encoded: &[u8], decoded_len: usize) -> Option<Prefix> {
        let _ = (encoded, decoded_len);
        None
    }

    /// Which of the `stored.len` encoded bytes the want needs. This is pure arithmetic: nothing is fetched yet, and
    /// allocations are bounded by the metadata and the number of wanted ranges.
    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError>;

    /// Decodes pieces that together hold all wanted bytes, and writes them to their places. `fetched` holds at least
    /// the bytes that `plan_read` named for the same arguments.
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
