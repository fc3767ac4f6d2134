//! The vector in tests/vectors/files is read as the text beside it describes, and hostile journals are refused.

use std::path::Path;
use std::sync::Arc;

use drystone_file_store::files::{Content, State};
use drystone_file_store::{Access, Files};
use drystone_store::{LocalStore, MemoryStore, PutMode, Store};
use proptest::prelude::*;

const UUID: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

fn vectors() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/files")
}

/// The vector, as objects of a store in memory.
fn objects() -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(vectors().join("v1")).expect("the vector");
    let mut out: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let file = file.expect("the vector");
            let name = file.file_name().to_string_lossy().into_owned();
            (format!("files/{name}"), std::fs::read(file.path()).expect("the vector"))
        })
        .collect();
    out.sort();
    out
}

fn store_of(objects: &[(String, Vec<u8>)]) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    for (key, bytes) in objects {
        store.put(key, &[bytes], PutMode::IfAbsent, false).expect("memory");
    }
    Arc::new(store)
}

#[test]
fn the_vector_is_read_as_the_text_beside_it_says() {
    let files = Files::open(store_of(&objects()), UUID, false, Access::Read).expect("it opens");
    let text = std::fs::read_to_string(vectors().join("v1.json")).expect("the text");
    let mut seen = 0;
    files
        .with_state(|state: &State| {
            for (path, ino) in state.paths() {
                let name = format!("\"{}\":", String::from_utf8_lossy(&path));
                let (_, rest) = text.split_once(&name).expect("the text names it");
                let said = rest.trim_start().to_owned();
                match &state.get(ino).expect("it is there").content {
                    Content::File { size, .. } => {
                        assert!(said.starts_with(&format!("[\n  {size},")), "{name} {said}");
                    }
                    Content::Folder { .. } => assert!(said.starts_with("null"), "{name}"),
                    Content::Link(target) => {
                        assert!(
                            said.starts_with(&format!("\"{}\"", String::from_utf8_lossy(target))),
                            "{name}"
                        );
                    }
                }
                seen += 1;
            }
        })
        .expect("it can be looked at");
    assert_eq!(seen, text.matches("\":").count());
    assert_eq!(files.verify(&mut |_| true).expect("it is verified"), vec![]);
    // The same through a local folder.
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalStore::create(folder.path()).expect("a store");
    for (key, bytes) in objects() {
        store.put(&key, &[&bytes], PutMode::IfAbsent, false).expect("a disk");
    }
    let local = Files::open(Arc::new(store), UUID, false, Access::Read).expect("it opens");
    assert_eq!(local.list().expect("it is listed"), files.list().expect("it is listed"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_is_stored_nothing_panics(
        which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in 1u8..,
        cut in any::<bool>(),
    ) {
        let mut objects = objects();
        let chosen = which.index(objects.len());
        let bytes = &mut objects[chosen].1;
        if !bytes.is_empty() {
            let place = at.index(bytes.len());
            if cut { bytes.truncate(place) } else { bytes[place] ^= flip }
        }
        if let Ok(files) = Files::open(store_of(&objects), UUID, false, Access::Read) {
            let _ = files.verify(&mut |_| true);
        }
    }

    /// Frames with right checksums, with records that no writer would write.
    #[test]
    fn hostile_records_are_refused_or_harmless(noise in prop::collection::vec(any::<u8>(), 0..400), first in 1u8..16) {
        let mut objects = objects();
        let journal = objects.iter_mut().rfind(|(key, _)| key.ends_with(".jnl")).expect("a journal");
        let mut ordinal = 0;
        let mut end = 0;
        while let drystone_format::frame::Next::Frame { end: next, .. } =
            drystone_format::frame::next(&journal.1, end, ordinal)
        {
            (end, ordinal) = (next, ordinal + 1);
        }
        let payload = [&[first][..], &noise].concat();
        drystone_format::frame::push(&mut journal.1, drystone_format::frame::FrameKind::Files, ordinal, &payload);
        if let Ok(files) = Files::open(store_of(&objects), UUID, false, Access::Read) {
            let _ = files.verify(&mut |_| true);
        }
    }
}
