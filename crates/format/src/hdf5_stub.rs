//! The stub of the HDF5 connector: the regular file that an HDF5 program opens, which refers to the container
//! (docs/decisions/080-hdf5-connector.md).
//!
//! It begins with HDF5's signature, so that tools which look for HDF5 files find it. The bytes that follow
//! are no valid superblock, so that no HDF5 library reads it as a file of its own.

/// The first bytes of every HDF5 file.
pub const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
const MAGIC: &[u8; 8] = b"DRYSTONE";
/// Bytes of a stub.
pub const LENGTH: usize = 512;
const PAYLOAD: usize = 400;
const HEADER: usize = 28;

/// The content of a stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// Name of the container's folder, beside the stub.
    pub container: String,
    /// Identity of the container.
    pub uuid: [u8; 16],
}

/// What the first bytes of a file show it to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileContent {
    /// A stub.
    Stub(Stub),
    /// An HDF5 file.
    Hdf5,
    /// Any other file.
    Other,
    /// A stub with impossible content; the text says why.
    Damaged(&'static str),
}

impl Stub {
    /// The bytes of the stub; `None` if the name is too long for one.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let hex: String = self.uuid.iter().map(|b| format!("{b:02x}")).collect();
        let payload = format!("container: {}\nuuid: {hex}\n", self.container);
        if payload.len() > PAYLOAD || !plain(&self.container) {
            return None;
        }
        let mut out = Vec::with_capacity(LENGTH);
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&1u32.to_le_bytes());
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        let crc = crate::crc32c(&[&out, payload.as_bytes()].concat());
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(payload.as_bytes());
        out.extend_from_slice(b"\nThe data lie in that folder. See docs/guide/hdf5.md of Drystone.\n");
        out.resize(LENGTH, b' ');
        Some(out)
    }

    /// Classifies the first bytes of a file.
    pub fn decode(bytes: &[u8]) -> FileContent {
        if !bytes.starts_with(SIGNATURE) {
            return FileContent::Other;
        }
        if bytes.get(8..16) != Some(MAGIC) {
            return FileContent::Hdf5;
        }
        Self::decode_body(bytes).map_or_else(FileContent::Damaged, FileContent::Stub)
    }

    fn decode_body(bytes: &[u8]) -> Result<Stub, &'static str> {
        let number = |at: usize| {
            let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
            word.map(u32::from_le_bytes).ok_or("it is too short")
        };
        let (version, length, crc) = (number(16)?, number(20)? as usize, number(24)?);
        if version != 1 {
            return Err("it was written by a newer version");
        }
        if length > PAYLOAD {
            return Err("its length is impossible");
        }
        let payload = bytes.get(HEADER..HEADER + length).ok_or("it is too short")?;
        if crate::crc32c(&[&bytes[..24], payload].concat()) != crc {
            return Err("its checksum is wrong");
        }
        let text = std::str::from_utf8(payload).map_err(|_| "its text is not UTF-8")?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let container = value("container").ok_or("it names no container")?.to_string();
        if !plain(&container) {
            return Err("the name of its container is not a plain name");
        }
        let hex = value("uuid").filter(|h| h.len() == 32 && h.is_ascii()).ok_or("it has no uuid")?;
        let mut uuid = [0; 16];
        for (i, byte) in uuid.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| "its uuid is not a number")?;
        }
        Ok(Stub { container, uuid })
    }
}

/// Whether it is a name in the same folder, and not a path.
fn plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\n', '\r', '\0'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    fn stub() -> Stub {
        Stub { container: "x.h5.drystone".into(), uuid: [7; 16] }
    }

    #[test]
    fn a_stub_comes_back_and_looks_like_an_hdf5_file() {
        let bytes = stub().encode().unwrap();
        assert_eq!(bytes.len(), LENGTH);
        assert!(bytes.starts_with(SIGNATURE));
        assert_eq!(Stub::decode(&bytes), FileContent::Stub(stub()));
    }

    #[test]
    fn no_flipped_bit_leads_to_another_container() {
        let bytes = stub().encode().unwrap();
        for bit in 0..LENGTH * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match Stub::decode(&bad) {
                // the changed bit is in the part for human readers
                FileContent::Stub(found) => assert_eq!(found, stub(), "bit {bit}"),
                _ => continue,
            }
        }
    }

    #[test]
    fn a_container_elsewhere_is_refused() {
        assert_eq!(Stub { container: "../x".into(), uuid: [0; 16] }.encode(), None);
        assert_eq!(Stub::decode(b"\x89HDF\r\n\x1a\n\0\0\0\0"), FileContent::Hdf5);
        assert_eq!(Stub::decode(b"text"), FileContent::Other);
    }
}
