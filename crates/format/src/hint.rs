//! The contents of the hint and of flush marks (docs/format/manifest.md).
//!
//! A hint names the version from which the search for the newest manifest starts. It is replaced in place and never
//! trusted. A mark states that everything up to its version is on stable storage.

use crate::Corrupt;
use crate::manifest::MAX_VERSION;

/// The hint for a version.
pub fn encode_hint(version: u64) -> Vec<u8> {
    let mut out = encode_mark(version);
    out.extend_from_slice(format!(" {:08x}", crate::crc32c(&out)).as_bytes());
    out
}

/// The version that a hint names; None if the hint is torn or damaged, which readers must expect.
pub fn decode_hint(bytes: &[u8]) -> Option<u64> {
    let version = decode_mark(bytes.get(..12)?).ok()?;
    (encode_hint(version) == bytes).then_some(version)
}

/// The content of a version's mark.
pub fn encode_mark(version: u64) -> Vec<u8> {
    format!("{version:012}").into_bytes()
}

/// The version that a mark names: exactly 12 digits.
pub fn decode_mark(bytes: &[u8]) -> Result<u64, Corrupt> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() == 12);
    let text = text.filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let version = text.and_then(|text| text.parse().ok()).filter(|&version| version <= MAX_VERSION);
    version.ok_or_else(|| Corrupt::new("a mark is 12 digits", 0))
}
