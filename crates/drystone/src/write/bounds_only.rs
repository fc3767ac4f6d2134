//! Blocks that store statistics without values, for derived variables of the kind "bounds".

use drystone_transform::{Codec, CodecSpec, Logical, Scratch, TransformError, Transparent};

/// The transform's name in entries, in place of a codec chain. No codec has this name.
pub(crate) const NAME: &str = "bounds";

/// Stands for values that are not stored. It neither encodes nor decodes.
#[derive(Debug)]
pub(super) struct BoundsOnly;

impl BoundsOnly {
    fn refuse() -> TransformError {
        TransformError::Unsupported { what: "the values of a block that has statistics alone".into() }
    }
}

impl Codec for BoundsOnly {
    fn spec(&self) -> CodecSpec {
        CodecSpec { name: NAME.into(), params: Vec::new() }
    }

    fn max_encoded_len(&self, _: usize) -> usize {
        0
    }

    fn encode(&self, _: &[u8], _: &Logical, _: &mut Vec<u8>, _: &mut Scratch) -> Result<(), TransformError> {
        Err(Self::refuse())
    }

    fn decode(&self, _: &[u8], _: &Logical, _: &mut [u8], _: &mut Scratch) -> Result<(), TransformError> {
        Err(Self::refuse())
    }

    fn transparent(&self) -> Option<&dyn Transparent> {
        None
    }
}
