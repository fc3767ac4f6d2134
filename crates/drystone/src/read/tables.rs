//! Subchunk tables: read, verified, decoded, and kept in the handle's cache.

use std::sync::Arc;

use drystone_format::entry::Entry;
use drystone_format::keys;
use drystone_format::table::{self, Subchunk};
use drystone_store::{StoreError, StoreExt};

use super::Reading;
use super::sources::Sources;
use crate::base::checksum::crc32;
use crate::base::error::must_exist;
use crate::container::Inner;
use crate::{Error, Result};

/// A table that is longer than this is read from a far store only after asking for the length of its object.
pub(super) const FAR_TABLE: u64 = 1 << 20;

impl Reading {
    /// The subchunk table of a cut block.
    pub(crate) fn table(&self, entry: &Entry, sources: &Sources<'_>) -> Result<Arc<Vec<Subchunk>>> {
        let source = sources.get(entry.source)?;
        load_table(&self.inner, source.writer, source.part, entry)
            .map_err(|e| e.while_doing(format!("variable \"{}\"", self.path)))
    }
}

/// Reads, verifies and keeps a subchunk table.
pub(crate) fn load_table(inner: &Inner, writer: u64, part: u32, entry: &Entry) -> Result<Arc<Vec<Subchunk>>> {
    let piece = &entry.piece;
    let key = keys::segment(writer, part);
    inner.tables.get(&(writer, part, piece.position), || {
        let damaged =
            |what: String| Error::corrupt(format!("{key} is damaged at byte {}: {what}", piece.position));
        // On a far store, asking for the length takes as long as reading the table, and the read reports the same
        // error.
        let is_far = inner.store.features().far.is_some() && piece.length <= FAR_TABLE;
        let known = if is_far { u64::MAX } else { inner.store.len(&key).map_err(must_exist)? };
        if piece.position.checked_add(piece.length).is_none_or(|end| end > known) || piece.trailer > 0 {
            return Err(damaged(format!("the subchunk table leaves the file, which ends at byte {known}")));
        }
        let bytes = match inner.store.read_vec(&key, piece.position, piece.length as usize) {
            Err(StoreError::ShortRead { got, .. }) if is_far => {
                let end = piece.position.saturating_add(got);
                return Err(damaged(format!("the subchunk table leaves the file, which ends at byte {end}")));
            }
            other => other.map_err(must_exist)?,
        };
        decode_table(entry, &key, &bytes)
    })
}

/// Decodes a table; also returns its size in memory.
pub(super) fn decode_table(entry: &Entry, key: &str, bytes: &[u8]) -> Result<(Vec<Subchunk>, usize)> {
    let piece = &entry.piece;
    let damaged =
        |what: String| Error::corrupt(format!("{key} is damaged at byte {}: {what}", piece.position));
    if crc32(bytes) != piece.check {
        return Err(damaged("the subchunk table fails its checksum".into()));
    }
    let table = table::decode(bytes, entry.subchunks).map_err(|c| Error::damaged(key, piece.position, &c))?;
    let cost = table.len() * size_of::<Subchunk>();
    Ok((table, cost))
}
