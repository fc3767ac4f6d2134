//! Codecs whose encoded form is as long as the data: they reorder bytes or take differences.

use crate::{Bound, Codec, CodecSpec, Logical, Scratch, TransformError, Transparent};

/// The methods of such a codec. [`Codec`] is implemented for every type that has them.
pub(crate) trait SameLength: Send + Sync + std::fmt::Debug {
    /// As [`Codec::spec`].
    fn spec(&self) -> CodecSpec;

    /// Appends the encoded form of `data`, which is as long.
    fn apply(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError>;

    /// Fills `out` from equally many encoded bytes. Any bytes are a valid encoded form.
    fn undo(&self, encoded: &[u8], logical: &Logical, out: &mut [u8], scratch: &mut Scratch);

    /// As [`Codec::alike`].
    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        let _ = (len, logical);
        None
    }

    /// As [`Codec::is_lossy`].
    fn is_lossy(&self) -> bool {
        false
    }

    /// As [`Codec::loss`].
    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        let _ = (logical, greatest);
        if self.is_lossy() { Bound::UNKNOWN } else { Bound::EXACT }
    }

    /// As [`Codec::transparent`].
    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}

/// Refuses encoded bytes whose length differs from the decoded length.
pub(crate) fn check(encoded: u64, decoded: u64, codec: &str) -> Result<(), TransformError> {
    if encoded == decoded {
        return Ok(());
    }
    Err(TransformError::corrupt(format!("{encoded} bytes of {codec}, expected {decoded}"), 0))
}

impl<T: SameLength> Codec for T {
    fn spec(&self) -> CodecSpec {
        SameLength::spec(self)
    }

    fn max_encoded_len(&self, decoded_len: usize) -> usize {
        decoded_len
    }

    fn encode(
        &self,
        data: &[u8],
        logical: &Logical,
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        out.reserve(data.len());
        self.apply(data, logical, out, scratch)
    }

    fn decode(
        &self,
        encoded: &[u8],
        logical: &Logical,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), TransformError> {
        check(encoded.len() as u64, out.len() as u64, &SameLength::spec(self).name)?;
        self.undo(encoded, logical, out, scratch);
        Ok(())
    }

    fn alike(&self, len: usize, logical: &Logical) -> Option<usize> {
        SameLength::alike(self, len, logical)
    }

    fn is_lossy(&self) -> bool {
        SameLength::is_lossy(self)
    }

    fn loss(&self, logical: &Logical, greatest: f64) -> Bound {
        SameLength::loss(self, logical, greatest)
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        SameLength::transparent(self)
    }
}
