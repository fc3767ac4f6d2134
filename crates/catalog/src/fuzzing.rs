//! Properties that hold for any bytes: the body of the fuzz target, which tests also run with mutated bytes.

use std::sync::Arc;

use crate::answer::answer;
use crate::column::Column;
use crate::manifest::Manifest;
use crate::page::Directory;
use crate::question::Question;

/// Decodes bytes as each structure of a catalogue and as a question. Whatever decodes is queried and encoded again.
///
/// # Panics
/// If a guarantee of this crate does not hold.
pub fn fuzz(data: &[u8]) {
    if let Ok(manifest) = Manifest::decode(data) {
        assert_eq!(
            Manifest::decode(&manifest.encode()).as_ref(),
            Ok(&manifest),
            "a manifest is what it encodes to"
        );
    }
    if let Ok(directory) = Directory::decode(data, 1 << 20) {
        let again = Directory::decode(&directory.encode(), 1 << 20);
        assert_eq!(again.as_ref(), Ok(&directory), "a directory is what it encodes to");
    }
    let _ = crate::identity::decode(data, 3);
    let column = Column::decode(data, 64).ok().map(Arc::new);
    let asked = ["a == 3", "a != 'x*y' & ~(a < 2.5)", "a | a == nan", "1 <= a <= 'z'"];
    let text = std::str::from_utf8(data).unwrap_or_default();
    for text in asked.into_iter().chain([text]) {
        if let Ok(question) = Question::parse(text) {
            let found = answer(&question, 64, |_| Ok::<_, ()>(column.clone()));
            assert!(found.is_ok_and(|found| found.iter().all(|n| n < 64)), "{text}");
        }
    }
}
