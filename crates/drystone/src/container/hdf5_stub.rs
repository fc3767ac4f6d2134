//! Finds what the HDF5 connector leaves at the name that an HDF5 program gave: a stub, which says where the container is.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use drystone_format::hdf5_stub::{FileContent, LENGTH, SIGNATURE, Stub};

/// HDF5 allows no smaller user block.
const SMALLEST_USER_BLOCK: u64 = 512;

/// What the file at a path is, and how many bytes of its user stand before that.
///
/// As in HDF5, the signature is at the beginning, or at 512 bytes, or at twice as many, and so on.
pub fn find(path: &Path) -> std::io::Result<(FileContent, u64)> {
    let mut file = File::open(path)?;
    let mut at = 0;
    loop {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(at))?;
        (&mut file).take(LENGTH as u64).read_to_end(&mut bytes)?;
        match Stub::decode(&bytes) {
            FileContent::Other if bytes.len() < SIGNATURE.len() || at > 1 << 61 => {
                return Ok((FileContent::Other, 0));
            }
            FileContent::Other => at = if at == 0 { SMALLEST_USER_BLOCK } else { at * 2 },
            found => return Ok((found, at)),
        }
    }
}
