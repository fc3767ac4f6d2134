//! Where the bytes of a program come from: the object, as the storage side reads it.

/// The bytes of one object.
pub trait Source {
    /// Fills `out` with the bytes from `offset` on.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError>;
}

/// Bytes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The object ends earlier.
    #[error("the object ends before byte {0}")]
    Short(u64),
    /// Reading failed.
    #[error("reading failed: {0}")]
    Failed(String),
}

impl Source for &[u8] {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        let end = offset.saturating_add(out.len() as u64);
        let bytes =
            usize::try_from(offset).ok().and_then(|from| self.get(from..from.checked_add(out.len())?));
        out.copy_from_slice(bytes.ok_or(SourceError::Short(end))?);
        Ok(())
    }
}
