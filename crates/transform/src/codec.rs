//! What a codec is.
//!
//! A codec turns the bytes of one subchunk into other bytes and back. It
//! splits nothing, starts no threads and keeps no checksums: the engine does.
//! An *opaque* codec needs all its bytes to give any back; a *transparent*
//! one also answers for a part ([`Codec::transparent`]).

use crate::error::TransformError;
use crate::logical::Logical;
use crate::part::{Bound, Fetched, Front, Pieces, Planned, StoredSubchunk, Want};
use crate::scratch::Scratch;
use crate::search::Indexed;
use crate::text::CodecSpec;

/// One reversible encoding of a subchunk's bytes.
///
/// `decode` gets bytes from outside: it must return an error for anything
/// that is not exactly what `encode` makes for `out.len()` bytes, and must not
/// allocate more than a small multiple of `out.len()`.
pub trait Codec: Send + Sync + std::fmt::Debug {
    /// The text that makes this codec again: name and all parameters that matter.
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

    /// How long the runs of alike bytes are that `len` encoded ones consist of, planes for example: a compressor behind it does better
    /// where it does not mix them. `None` where nothing is known.
    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        let _ = (len, logical);
        None
    }

    /// Whether decoding gives back something else than what was encoded, within a bound that the codec states.
    fn is_lossy(&self) -> bool {
        false
    }

    /// How far decoded numbers may be off those that were encoded, where no finite decoded one exceeds `greatest` in magnitude
    /// (infinite if that is not known). A lossy codec that does not say promises nothing.
    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let _ = (logical, greatest);
        if self.is_lossy() { Bound::UNKNOWN } else { Bound::EXACT }
    }

    /// The partial read side, or `None` for an opaque codec.
    fn transparent(&self) -> Option<&dyn Transparent>;
}

/// The side of a codec that can decode a part from a part, or to less than full precision.
///
/// What it needs to know beforehand it writes at the head of its encoded bytes; the head is kept beside the subchunk as
/// metadata ([`Transparent::meta_len`]), so a plan costs no look at the data. Metadata comes from outside like everything else.
pub trait Transparent {
    /// How many bytes at the head of `encoded`, which `encode` just made, are metadata to be kept. Nothing over
    /// [`MAX_META_LEN`](crate::MAX_META_LEN) is kept: the subchunk is then read whole.
    fn meta_len(&self, encoded: &[u8]) -> usize;

    /// Whether the encoded form is worth keeping though it is longer than the data, for what it lets readers do. Then
    /// [`Codec::max_encoded_len`] is the limit, which is below three times the data; else data is stored raw instead.
    fn may_grow(&self) -> bool {
        false
    }

    /// Whether the encoded bytes hold every value in its place, so that a codec after this one sees values too: it can then be
    /// asked for less precision, and searched.
    fn keeps_values(&self) -> bool {
        false
    }

    /// The side that finds elements by their values, or `None`.
    fn indexed(&self) -> Option<&dyn Indexed> {
        None
    }

    /// The shortest beginning of `encoded`, which `encode` just made of `decoded_len` bytes, that is worth being read by itself: it
    /// holds the head, and all that some level of precision below the last needs of any element. It may then be kept apart: no bytes
    /// that [`Transparent::decode_part`] takes at once lie on both sides of its end. `None` where there is none.
    fn front(&self, encoded: &[u8], decoded_len: usize) -> Option<Front> {
        let _ = (encoded, decoded_len);
        None
    }

    /// Which of the `stored.len` encoded bytes the want needs. Pure arithmetic: nothing is fetched yet, and what it allocates
    /// is bounded by the metadata at hand and the number of wanted ranges.
    fn plan_read(
        &self,
        stored: &StoredSubchunk<'_>,
        logical: &Logical,
        want: &Want<'_>,
    ) -> Result<Planned, TransformError>;

    /// Puts decoded pieces that hold all that is wanted to their places. `fetched` holds at least what
    /// `plan_read` asked for the same arguments.
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
