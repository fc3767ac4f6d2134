//! Errors of callbacks for the library, and the mapping from the engine's errors to its codes.

use crate::library::host::Host;

/// An error for the library's stack. The names are those of its id variables, with a NUL.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Class of the error (`H5E_FILE_g`).
    pub major: &'static str,
    /// What went wrong (`H5E_CANTOPENFILE_g`).
    pub minor: &'static str,
    /// For people.
    pub message: String,
}

/// The result of a callback.
pub type Result<T> = std::result::Result<T, Failure>;

macro_rules! kinds {
    ($($name:ident = $major:literal, $minor:literal;)*) => {
        impl Failure {
            $(#[allow(missing_docs)]
            pub fn $name(message: impl Into<String>) -> Self {
                Failure { major: concat!($major, "\0"), minor: concat!($minor, "\0"), message: message.into() }
            })*
        }
    };
}

kinds! {
    exists = "H5E_LINK_g", "H5E_EXISTS_g";
    not_found = "H5E_SYM_g", "H5E_NOTFOUND_g";
    no_attribute = "H5E_ATTR_g", "H5E_NOTFOUND_g";
    no_file = "H5E_FILE_g", "H5E_CANTOPENFILE_g";
    file_exists = "H5E_FILE_g", "H5E_FILEEXISTS_g";
    file_open = "H5E_FILE_g", "H5E_FILEOPEN_g";
    read_only = "H5E_ARGS_g", "H5E_WRITEERROR_g";
    invalid = "H5E_ARGS_g", "H5E_BADVALUE_g";
    range = "H5E_ARGS_g", "H5E_BADRANGE_g";
    wrong_kind = "H5E_ARGS_g", "H5E_BADTYPE_g";
    unsupported = "H5E_VOL_g", "H5E_UNSUPPORTED_g";
    damaged = "H5E_FILE_g", "H5E_BADFILE_g";
    write = "H5E_IO_g", "H5E_WRITEERROR_g";
    read = "H5E_IO_g", "H5E_READERROR_g";
    flush = "H5E_FILE_g", "H5E_CANTFLUSH_g";
    library = "H5E_VOL_g", "H5E_CANTGET_g";
    loops = "H5E_LINK_g", "H5E_NLINKS_g";
}

impl Failure {
    /// Pushes it on the library's stack.
    pub fn push(&self, host: &Host) {
        host.push_error(self.major, self.minor, &self.message);
    }
}

impl From<drystone::Error> for Failure {
    fn from(e: drystone::Error) -> Self {
        use drystone::ErrorKind as K;
        match e.kind() {
            K::NotFound | K::Corrupt => Failure::damaged(e.to_string()),
            K::Unsupported => Failure::unsupported(e.to_string()),
            K::Io | K::Conflict | K::Cancelled => Failure::write(e.to_string()),
            _ => Failure::invalid(e.to_string()),
        }
    }
}

/// The error of a file operation, in the words from which h5py parses the number.
pub fn system(path: &std::path::Path, what: &str, e: &std::io::Error) -> Failure {
    let number = e.raw_os_error().unwrap_or(0);
    let message = format!("{what}: name = '{}', errno = {number}, error message = '{e}'", path.display());
    match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::file_exists(message),
        _ => Failure::no_file(message),
    }
}
