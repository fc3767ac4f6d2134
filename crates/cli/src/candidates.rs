//! Completions that depend on earlier words: the variables of a container.
//!
//! The completion engine passes a completer only the word to complete. So the earlier words are stored here
//! during one completion. The first of them that names a container determines which variables are offered.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap_complete::CompletionCandidate;
use drystone::{Container, Mode};

thread_local! {
    static WORDS: RefCell<Vec<OsString>> = const { RefCell::new(Vec::new()) };
}

/// Runs a completion of a line with these words.
pub(crate) fn with_words<T>(words: &[OsString], complete: impl FnOnce() -> T) -> T {
    WORDS.set(words.to_vec());
    let completed = complete();
    WORDS.take();
    completed
}

/// Variables whose names start with the word. A container that cannot be opened offers none: the user is still typing.
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
