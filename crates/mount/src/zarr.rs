//! The Zarr hierarchy of a snapshot as folders and files.
//!
//! Invariants
//! - a path is a node, its document (`zarr.json`), a chunk of an array (`c/0/2`), or a folder of chunks;
//! - a chunk that was not written is no file: readers of Zarr use the fill value for it.

use std::collections::BTreeMap;

use drystone::{Error, ErrorKind, Result, ZarrView};

/// Name of a node's document.
const DOCUMENT: &str = "zarr.json";
/// The folder of an array's chunks.
const CHUNKS: &str = "c";

/// The meaning of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Node(String),
    Document(String),
    /// A chunk of an array; with fewer numbers than axes, a folder of chunks.
    Chunk(String, Vec<u64>),
}

/// The nodes of a hierarchy: their paths and, for arrays, the number of chunks along each axis.
#[derive(Debug, Default)]
struct Names {
    nodes: BTreeMap<String, Option<Vec<u64>>>,
}

/// A snapshot as a Zarr hierarchy.
pub(crate) struct ZarrTree {
    view: ZarrView,
    documents: BTreeMap<String, String>,
    names: Names,
}

fn missing() -> Error {
    Error::new(ErrorKind::NotFound, "no such file")
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

impl Names {
    fn place(&self, path: &str) -> Option<Place> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == DOCUMENT && self.nodes.contains_key(above) {
            return Some(Place::Document(above.to_owned()));
        }
        if self.nodes.contains_key(path) {
            return Some(Place::Node(path.to_owned()));
        }
        let ends = path.match_indices('/').map(|(at, _)| at);
        let (node, counts) =
            ends.map(|at| &path[..at]).find_map(|node| Some((node, self.nodes.get(node)?.as_ref()?)))?;
        let mut parts = path.get(node.len() + 1..)?.split('/');
        if parts.next() != Some(CHUNKS) {
            return None;
        }
        let index: Vec<u64> = parts.map(number).collect::<Option<_>>()?;
        let inside = index.len() <= counts.len() && index.iter().zip(counts).all(|(i, n)| i < n);
        inside.then(|| Place::Chunk(node.to_owned(), index))
    }

    fn is_folder(&self, place: &Place) -> bool {
        match place {
            Place::Node(_) => true,
            Place::Document(_) => false,
            Place::Chunk(node, index) => {
                self.nodes.get(node).and_then(Option::as_ref).is_some_and(|counts| index.len() < counts.len())
            }
        }
    }

    /// Names of the nodes directly below one.
    fn below(&self, node: &str) -> Vec<String> {
        let prefix = if node.is_empty() { String::new() } else { format!("{node}/") };
        let inside = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let names = inside.map(|(path, _)| &path[prefix.len()..]);
        names.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect()
    }
}

impl ZarrTree {
    pub(crate) fn new(view: ZarrView) -> Self {
        let documents: BTreeMap<String, String> =
            view.documents().map(|(node, text)| (node.to_owned(), text)).collect();
        let nodes = documents.keys().map(|node| {
            let counts = view.chunk_counts(node).map(|(counts, _)| counts);
            (node.clone(), counts)
        });
        let names = Names { nodes: nodes.collect() };
        ZarrTree { view, documents, names }
    }

    /// Whether a path is a folder. Fails with `NotFound` if nothing has this path.
    pub(crate) fn is_folder(&self, path: &str) -> Result<bool> {
        let place = self.names.place(path).ok_or_else(missing)?;
        let folder = self.names.is_folder(&place);
        match &place {
            Place::Chunk(node, index) if !folder && !self.view.has_chunk(node, index)? => Err(missing()),
            _ => Ok(folder),
        }
    }

    /// The entries of a folder, and whether each is a folder.
    pub(crate) fn entries(&self, path: &str) -> Result<Vec<(String, bool)>> {
        if path.is_empty() && self.documents.is_empty() {
            // The container is still empty.
            return Ok(Vec::new());
        }
        match self.names.place(path).ok_or_else(missing)? {
            Place::Node(node) => {
                let mut out = vec![(DOCUMENT.to_owned(), false)];
                if let Some(Some(counts)) = self.names.nodes.get(&node) {
                    out.push((CHUNKS.to_owned(), !counts.is_empty()));
                }
                out.extend(self.names.below(&node).into_iter().map(|name| (name, true)));
                Ok(out)
            }
            Place::Chunk(node, index) => {
                let axes = self.view.chunk_counts(&node).map_or(0, |(counts, _)| counts.len());
                let mut names: Vec<u64> = self
                    .view
                    .chunks(&node)?
                    .iter()
                    .filter(|chunk| chunk.starts_with(&index))
                    .filter_map(|chunk| chunk.get(index.len()).copied())
                    .collect();
                names.sort_unstable();
                names.dedup();
                let folders = index.len() + 1 < axes;
                Ok(names.into_iter().map(|name| (name.to_string(), folders)).collect())
            }
            Place::Document(_) => Err(Error::new(ErrorKind::InvalidArgument, "not a folder")),
        }
    }

    /// The size of a file in bytes.
    pub(crate) fn size(&self, path: &str) -> Result<u64> {
        match self.names.place(path).ok_or_else(missing)? {
            Place::Chunk(node, _) => match self.view.chunk_counts(&node).and_then(|(_, bytes)| bytes) {
                Some(bytes) => Ok(bytes),
                None => Ok(self.bytes(path)?.len() as u64),
            },
            _ => Ok(self.bytes(path)?.len() as u64),
        }
    }

    /// The bytes of a file.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        match self.names.place(path).ok_or_else(missing)? {
            Place::Document(node) => {
                self.documents.get(&node).map(|text| text.clone().into_bytes()).ok_or_else(missing)
            }
            Place::Chunk(node, index) => self.view.chunk(&node, &index)?.ok_or_else(missing),
            Place::Node(_) => Err(Error::new(ErrorKind::InvalidArgument, "not a file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let nodes = [("", None), ("f", None), ("f/T", Some(vec![3, 2])), ("one", Some(vec![]))];
        Names { nodes: nodes.map(|(node, counts)| (node.to_owned(), counts)).into() }
    }

    #[test]
    fn paths_are_nodes_documents_and_chunks() {
        let names = names();
        let chunk = |node: &str, index: &[u64]| Some(Place::Chunk(node.into(), index.into()));
        assert_eq!(names.place(""), Some(Place::Node(String::new())));
        assert_eq!(names.place("zarr.json"), Some(Place::Document(String::new())));
        assert_eq!(names.place("f/T/zarr.json"), Some(Place::Document("f/T".into())));
        assert_eq!(names.place("f/T/c"), chunk("f/T", &[]));
        assert_eq!(names.place("f/T/c/2/1"), chunk("f/T", &[2, 1]));
        assert_eq!(names.place("one/c"), chunk("one", &[]));
        for wrong in ["f/T/c/3/0", "f/T/c/02", "f/T/c/0/0/0", "f/T/d", "g", "f/c/0", "f/T/c/0/zarr.json"] {
            assert_eq!(names.place(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_chunk_has_as_many_numbers_as_its_array_has_axes() {
        let names = names();
        let folder = |path: &str| names.place(path).is_some_and(|place| names.is_folder(&place));
        assert!(folder("f/T/c") && folder("f/T/c/1") && folder("f/T"));
        assert!(!folder("f/T/c/1/1") && !folder("one/c") && !folder("zarr.json"));
        assert_eq!(names.below(""), ["f", "one"]);
        assert_eq!(names.below("f"), ["T"]);
    }
}
