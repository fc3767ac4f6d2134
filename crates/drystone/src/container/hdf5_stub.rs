//! Finds the stub that the HDF5 connector leaves at the file name of an HDF5 program. The stub names the container.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use drystone_format::hdf5_stub::{FileContent, LENGTH, SIGNATURE, Stub};

/// The smallest user block that HDF5 allows.
const SMALLEST_USER_BLOCK: u64 = 512;

/// The content of the file at a path, and the length of the user block before it.
///
/// As in HDF5, the signature is at the beginning, at 512 bytes, or at 1024, 2048 and so on.
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
