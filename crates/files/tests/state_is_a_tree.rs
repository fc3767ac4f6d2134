//! The records of a journal produce the same state as a model of folders, and a state survives encoding and decoding.

use std::collections::BTreeMap;

use drystone_files::{Body, Content, Extent, Owner, ROOT, Record, State};
use drystone_format::files::{decode, encode};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Act {
    Make(Vec<u8>, bool),
    Remove(Vec<u8>, bool),
    Rename(Vec<u8>, Vec<u8>, bool),
    Write(Vec<u8>, u64, u64),
    Cut(Vec<u8>, u64),
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4)
        .prop_map(|parts| parts.join("/").into_bytes())
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (path(), any::<bool>()).prop_map(|(p, f)| Act::Make(p, f)),
        1 => (path(), any::<bool>()).prop_map(|(p, f)| Act::Remove(p, f)),
        2 => (path(), path(), any::<bool>()).prop_map(|(a, b, x)| Act::Rename(a, b, x)),
        2 => (path(), 0u64..100, 1u64..50).prop_map(|(p, at, len)| Act::Write(p, at, len)),
        1 => (path(), 0u64..120).prop_map(|(p, size)| Act::Cut(p, size)),
    ]
}

/// Files by path, with their bytes; folders have none.
type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn is_folder(model: &Model, path: &[u8]) -> bool {
    path.is_empty() || model.get(path) == Some(&None)
}

fn below(path: &[u8], folder: &[u8]) -> bool {
    path == folder || path.starts_with(&[folder, b"/"].concat())
}

fn move_below(model: &mut Model, from: &[u8], to: &[u8]) -> Model {
    let names: Vec<_> = model.keys().filter(|name| below(name, from)).cloned().collect();
    names
        .into_iter()
        .filter_map(|name| model.remove(&name).map(|body| ([to, &name[from.len()..]].concat(), body)))
        .collect()
}

fn on_model(model: &mut Model, act: &Act, number: u8) {
    match act {
        Act::Make(path, folder) => {
            if is_folder(model, split(path).0) && !model.contains_key(path) {
                model.insert(path.clone(), (!folder).then(Vec::new));
            }
        }
        Act::Remove(path, folder) => {
            let empty = model.keys().filter(|name| below(name, path)).count() == 1;
            if model.get(path).is_some_and(|body| body.is_none() == *folder) && empty {
                model.remove(path);
            }
        }
        Act::Rename(from, to, exchange) => {
            let Some(body) = model.get(from).cloned() else { return };
            if from == to || !is_folder(model, split(to).0) || below(to, from) {
                return;
            }
            match (model.get(to).cloned(), exchange) {
                (None, true) => return,
                (Some(_), true) if below(from, to) => return,
                (Some(_), true) => {
                    let mut there = move_below(model, to, from);
                    let mut here = move_below(model, from, to);
                    model.append(&mut there);
                    model.append(&mut here);
                    return;
                }
                (Some(other), false) => {
                    let empty = model.keys().filter(|name| below(name, to)).count() == 1;
                    if other.is_none() != body.is_none() || !empty {
                        return;
                    }
                    model.remove(to);
                }
                (None, false) => {}
            }
            let mut moved = move_below(model, from, to);
            model.append(&mut moved);
        }
        Act::Write(path, at, len) => {
            if let Some(Some(bytes)) = model.get_mut(path) {
                let end = (at + len) as usize;
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at as usize..end].fill(number);
            }
        }
        Act::Cut(path, size) => {
            if let Some(Some(bytes)) = model.get_mut(path) {
                bytes.resize(*size as usize, 0);
            }
        }
    }
}

fn on_state(state: &State, act: &Act, number: u8) -> Option<Record> {
    let folder = |path: &[u8]| state.find(split(path).0);
    let owner = Owner { uid: 1, gid: 2 };
    match act {
        Act::Make(path, is_folder) => {
            let body = if *is_folder { Body::Folder } else { Body::File };
            state.make(folder(path)?, split(path).1, body, 0o644, owner, 5).ok()
        }
        Act::Remove(path, is_folder) => state.remove(folder(path)?, split(path).1, *is_folder, 6).ok(),
        Act::Rename(from, to, exchange) => {
            let (from, to) = ((folder(from)?, split(from).1), (folder(to)?, split(to).1));
            state.moved(from, to, (*exchange, false), 7).ok().flatten()
        }
        Act::Write(path, offset, len) => {
            let extent = Extent { offset: *offset, len: *len, log: number.into(), position: 0 };
            Some(Record::Extents { ino: state.find(path)?, mtime: 8, extents: vec![extent] })
        }
        Act::Cut(path, size) => Some(Record::Size { ino: state.find(path)?, size: *size, time: 9 }),
    }
}

fn shown(state: &State) -> Model {
    let show = |ino: u64| match &state.get(ino).expect("a path names an inode").content {
        Content::File { size, extents } => {
            assert!(extents.end() <= *size);
            let mut bytes = Vec::new();
            for piece in extents.pieces(0..*size) {
                let value = piece.place.map_or(0, |(log, _)| log as u8);
                bytes.resize(piece.range.end as usize, value);
            }
            Some(bytes)
        }
        _ => None,
    };
    state.paths().into_iter().map(|(path, ino)| (path, show(ino))).collect()
}

proptest! {
    #[test]
    fn records_amount_to_a_tree_of_folders(acts in prop::collection::vec(act(), 1..80)) {
        let (mut model, mut state) = (Model::new(), State::default());
        let mut journal = Vec::new();
        for (number, act) in acts.iter().enumerate() {
            let number = number as u8 + 1;
            on_model(&mut model, act, number);
            if let Some(record) = on_state(&state, act, number) {
                state.apply(&record);
                journal.push(record);
            }
            prop_assert_eq!(&shown(&state), &model);
        }
        let reached = |folder: u64| state.entries(folder).map(|e| e.values().filter(|i| state.entries(**i).is_some()).count());
        for (ino, inode) in state.inodes() {
            if let Some(folders) = reached(ino) {
                prop_assert_eq!(inode.links() as usize, folders + 2);
            }
        }
        // The same records give the same state, also after encoding and decoding.
        let mut again = State::default();
        for record in decode(&encode(&journal)).expect("what was encoded can be read") {
            again.apply(&record);
        }
        prop_assert_eq!(&again, &state);
        // So do the records of the whole state.
        let mut whole = State::default();
        for record in decode(&encode(&state.records())).expect("what was encoded can be read") {
            whole.apply(&record);
        }
        prop_assert_eq!(&whole, &state);
    }
}

#[test]
fn records_about_what_is_gone_change_nothing() {
    let mut state = State::default();
    let before = state.clone();
    for record in [
        Record::Size { ino: 77, size: 5, time: 0 },
        Record::Attrs { ino: 77, attrs: Default::default() },
        Record::Make { ino: 5, parent: 77, name: b"x".to_vec(), attrs: Default::default(), body: Body::File },
    ] {
        state.apply(&record);
    }
    assert_eq!(state.paths(), before.paths());
    assert_eq!(state.find(b""), Some(ROOT));
}
