//! The location of a container: a folder, a URL, or an open store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drystone_store::Store;

/// The location of a container. Paths and texts convert by `into`: a text of the form `SCHEME://...` is a URL.
#[derive(Clone)]
pub enum Location {
    /// A folder of the local file system, or the file that stands for the container in an HDF5 program.
    Folder(PathBuf),
    /// A URL of a far store or of a server.
    Url(String),
    /// An open store.
    Store(Arc<dyn Store>),
}

/// Whether a container's name is a URL of a far store rather than a path: it begins with `SCHEME://`, and the scheme
/// is not `file`.
pub fn is_url(name: &str) -> bool {
    let Some((scheme, _)) = name.split_once("://") else { return false };
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+.-".contains(&c));
    is_scheme && !scheme.eq_ignore_ascii_case("file")
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Location {
    fn from(path: &P) -> Self {
        let path = path.as_ref();
        match path.to_str().filter(|name| is_url(name)) {
            Some(url) => Location::Url(url.to_owned()),
            None => Location::Folder(path.to_owned()),
        }
    }
}

impl From<PathBuf> for Location {
    fn from(path: PathBuf) -> Self {
        Location::from(path.as_path())
    }
}

impl From<String> for Location {
    fn from(name: String) -> Self {
        Location::from(name.as_str())
    }
}

impl From<Arc<dyn Store>> for Location {
    fn from(store: Arc<dyn Store>) -> Self {
        Location::Store(store)
    }
}

impl<S: Store + 'static> From<Arc<S>> for Location {
    fn from(store: Arc<S>) -> Self {
        Location::Store(store)
    }
}

#[cfg(test)]
mod tests {
    use super::is_url;

    #[test]
    fn a_path_is_no_url() {
        for url in ["s3://bucket/run.dry", "https://host/x", "rados://pool/ns/x", "ftp://x"] {
            assert!(is_url(url), "{url}");
        }
        for path in
            ["run.dry", "/data/run.dry", "file:///data/run.dry", "FILE:///x", "c://x", "a/b://c", "://x"]
        {
            assert!(!is_url(path), "{path}");
        }
    }
}
