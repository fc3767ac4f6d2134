//! Expands locations to containers: those that are named, and those in named folders.

use std::path::Path;

use drystone::{Error, ErrorKind, Result, is_url, open_store};
use drystone_format::keys;
use drystone_store::StoreExt;

/// Most levels of folders that are searched.
const MAX_DEPTH: usize = 32;

/// A location as it is stored: absolute, without a trailing slash.
pub(crate) fn normal(location: &str) -> Result<String> {
    if is_url(location) {
        return Ok(location.trim_end_matches('/').to_owned());
    }
    let path = location.strip_prefix("file://").unwrap_or(location);
    let absolute = std::path::absolute(path)
        .map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("{path:?} is not a path: {e}")))?;
    let Some(text) = absolute.to_str() else {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{path:?} is not UTF-8, as paths in a catalogue are"),
        ));
    };
    Ok(if text.len() > 1 { text.trim_end_matches('/').to_owned() } else { text.to_owned() })
}

/// Folders that failed, with their errors.
pub(crate) type Failures = Vec<(String, Error)>;

/// The containers at or below a location, sorted, and the folders that could not be searched.
pub(crate) fn containers(location: &str, options: &[(String, String)]) -> Result<(Vec<String>, Failures)> {
    let location = normal(location)?;
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    if is_url(&location) {
        let store = open_store(&location, options)?;
        if store.exists(keys::IDENTITY)? {
            return Ok((vec![location], failed));
        }
        let suffix = format!("/{}", keys::IDENTITY);
        let listed = store.list("")?;
        found.extend(
            listed.iter().filter_map(|e| e.key.strip_suffix(&suffix)).map(|k| format!("{location}/{k}")),
        );
    } else {
        let path = Path::new(&location);
        if path.is_file() || path.join(keys::IDENTITY).exists() {
            return Ok((vec![location], failed));
        }
        if let Err(e) = std::fs::read_dir(path) {
            let kind =
                if e.kind() == std::io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
            return Err(Error::new(kind, format!("cannot look for containers in {location}: {e}")));
        }
        below(path, 0, &mut found, &mut failed);
    }
    if found.is_empty() && failed.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no container at or below {location}")));
    }
    found.sort();
    Ok((found, failed))
}

fn below(folder: &Path, depth: usize, found: &mut Vec<String>, failed: &mut Failures) {
    let shown = || folder.to_string_lossy().into_owned();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => {
            failed.push((shown(), Error::new(ErrorKind::Io, format!("cannot look into {}: {e}", shown()))));
            return;
        }
    };
    for entry in entries.flatten() {
        // Links are not followed, so that a folder is searched only once.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        match path.to_str() {
            Some(text) if path.join(keys::IDENTITY).exists() => found.push(text.to_owned()),
            _ if depth < MAX_DEPTH => below(&path, depth + 1, found, failed),
            _ => {}
        }
    }
}
