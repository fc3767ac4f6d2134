//! Bodies of the fuzz targets: any bytes must decode to a value or an error, and a value must survive a round
//! trip.

use crate::file::stub::{FileContent, Stub};
use crate::model::catalogue::Catalogue;

/// A stub.
pub fn fuzz_stub(data: &[u8]) {
    if let FileContent::Stub(stub) = Stub::decode(data) {
        let bytes = stub.encode();
        assert!(
            bytes.is_some_and(|b| Stub::decode(&b) == FileContent::Stub(stub)),
            "a stub does not come back"
        );
    }
}

/// A catalogue; its checksum is corrected first, so that the decoder behind it is reached.
pub fn fuzz_catalogue(data: &[u8]) {
    let mut bytes = b"DRYHDF5C\x01\0\0\0".to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(data).to_le_bytes());
    bytes.extend_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.extend_from_slice(data);
    let size = data.get(6..10).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    let _ = crate::model::record::record(data, size); // types lie in the catalogue
    if let Ok(found) = Catalogue::decode(&bytes) {
        let again = Catalogue::encode(&found.tree, found.heap);
        assert_eq!(Catalogue::decode(&again).as_ref(), Ok(&found), "a catalogue does not come back");
    }
}
