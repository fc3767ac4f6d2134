//! The limit of a subchunk's size.

/// The longest subchunk, in decoded bytes, that any chain encodes or decodes.
pub const MAX_DECODED_LEN: usize = 16 << 20;
