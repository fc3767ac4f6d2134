//! What a shell can offer for a word that depends on the words before it: the variables of a container.
//!
//! The completion engine hands a completer the word alone. The words before it are kept here for the time of one
//! completion; the first that names a container is the one whose variables are offered.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap_complete::CompletionCandidate;
use drystone::{Container, Mode};

thread_local! {
    static WORDS: RefCell<Vec<OsString>> = const { RefCell::new(Vec::new()) };
}

/// Runs a completion of a line of these words.
pub(crate) fn with_words<T>(words: &[OsString], complete: impl FnOnce() -> T) -> T {
    WORDS.set(words.to_vec());
    let completed = complete();
    WORDS.take();
    completed
}

/// Variables whose names begin with the word. A container that cannot be opened offers none: the user is still typing.
pub(crate) fn variables(word: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = word.to_str() else { return Vec::new() };
    let words = WORDS.with_borrow(Vec::clone);
    let Some(container) =
        words.iter().skip(2).map(Path::new).find(|path| path.join("drystone.json").is_file())
    else {
        return Vec::new();
    };
    let Ok(container) = Container::open(container, Mode::Read) else { return Vec::new() };
    let snapshot = container.snapshot();
    let names = snapshot.schema.names.keys().filter(|name| name.starts_with(word));
    names.map(CompletionCandidate::new).collect()
}
