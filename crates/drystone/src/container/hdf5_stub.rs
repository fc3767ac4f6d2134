//! Finds the stub that the HDF5 connector leaves at the file name of an HDF5 program. The stub names the container.
//!
//! Invariant: a stub that is a copy never leads a writer to the container of its original.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use drystone_format::hdf5_stub::{FileContent, LENGTH, SIGNATURE, Stub};
use drystone_store::LocalStore;

use super::identity::identity_of;

/// The end of a folder's name, behind the name of its file. A number may follow.
const EXTENSION: &str = ".drystone";

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

/// The folder of the container behind the stub at a path. If that is the folder of another file, of whose stub this one
/// is a copy, also the path of that file: such a container must be neither changed nor removed.
///
/// A stub names its folder. After stub and folder were renamed or copied together, it is the folder with the stub's own
/// name, if that has the container's identity.
pub fn folder_of(path: &Path, stub: &Stub) -> (PathBuf, Option<PathBuf>) {
    let named = path.with_file_name(&stub.container);
    let Some(own) = path.file_name().and_then(|name| name.to_str()) else { return (named, None) };
    let Some((original, number)) = parted(&stub.container).filter(|(original, _)| *original != own) else {
        return (named, None);
    };
    for number in [number, ""] {
        let beside = path.with_file_name(format!("{own}{EXTENSION}{number}"));
        let identity = LocalStore::open(&beside, true).ok().and_then(|store| identity_of(&store).ok());
        if identity.is_some_and(|identity| identity.uuid == stub.uuid) {
            return (beside, None);
        }
    }
    let original = path.with_file_name(original);
    let is_there = matches!(find(&original), Ok((FileContent::Stub(found), _)) if found == *stub);
    (named, is_there.then_some(original))
}

/// The file's name and the number in the name of a container's folder: `x.h5.drystone-2`.
fn parted(folder: &str) -> Option<(&str, &str)> {
    let at = folder.rfind(EXTENSION)?;
    let (file, number) = (&folder[..at], &folder[at + EXTENSION.len()..]);
    let is_number = number.is_empty()
        || number.strip_prefix('-').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (is_number && !file.is_empty()).then_some((file, number))
}

#[cfg(test)]
mod tests {
    use super::parted;

    #[test]
    fn the_name_of_a_folder_has_that_of_its_file() {
        assert_eq!(parted("x.h5.drystone"), Some(("x.h5", "")));
        assert_eq!(parted("x.drystone.drystone-12"), Some(("x.drystone", "-12")));
        for other in ["x.h5", ".drystone", "x.drystone-", "x.drystone-1a", "x.drystone2"] {
            assert_eq!(parted(other), None, "{other}");
        }
    }
}
