//! The stub at the path that a program names: writing and finding it.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

pub use drystone::{find_hdf5_stub as find, folder_of_hdf5_stub as folder_of};
pub use drystone_format::hdf5_stub::{FileContent, SIGNATURE, Stub};

/// Writes the stub to a path, after a user block of zeros; replaces an existing file as a whole.
pub fn write(stub: &Stub, path: &Path, userblock: u64, sync: bool) -> std::io::Result<()> {
    let bytes = stub.encode().ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidFilename, "the name is too long for a stub")
    })?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = folder.join(format!(".{}.new", stub.container));
    let result = (|| {
        let mut file = std::fs::File::create(&temporary)?;
        file.seek(SeekFrom::Start(userblock))?;
        file.write_all(&bytes)?;
        if sync {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, path)?;
        if sync {
            std::fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// Classifies the file at a path.
pub fn read(path: &Path) -> std::io::Result<FileContent> {
    Ok(find(path)?.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    #[test]
    fn a_stub_is_found_behind_a_user_block() {
        let stub = Stub { container: "x.h5.drystone".into(), uuid: [7; 16] };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.h5");
        for userblock in [0, 512, 1024, 65536] {
            write(&stub, &path, userblock, false).unwrap();
            assert_eq!(find(&path).unwrap(), (FileContent::Stub(stub.clone()), userblock));
        }
        write(&stub, &path, 1536, false).unwrap(); // not where HDF5 looks
        assert_eq!(find(&path).unwrap(), (FileContent::Other, 0));
        for text in [&b""[..], b"text", &[0; 5000]] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(find(&path).unwrap(), (FileContent::Other, 0));
        }
    }
}
