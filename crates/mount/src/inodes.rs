//! Inodes of views: the file or folder of each number.
//!
//! Invariants
//! - an inode number means the same node for the life of the mount;
//! - a file belongs to one snapshot, or is one stored file; its size and its bytes never change.

use std::collections::HashMap;

use crate::tree::Form;

/// The file or folder of an inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Root,
    /// `/view`
    Views,
    /// `/fragments`
    Fragments,
    /// A folder of a snapshot; `None` for the newest.
    Folder(Option<u64>, String),
    /// A file of a snapshot: the array and its form. `latest` is true if it was found below `latest`.
    Array {
        version: u64,
        latest: bool,
        array: usize,
        form: Form,
    },
    /// A fragment of the snapshot that was newest when it was found.
    Fragment(u64, String),
    /// A folder of the Zarr hierarchy of a snapshot, and whether it was found below `latest`. A folder has one path; a
    /// file may have several.
    ZarrFolder(u64, bool, String),
    /// A document or a chunk of that hierarchy.
    ZarrFile(u64, String),
    /// A folder of a published replica.
    StoredFolder(String),
    /// A file of a published replica, and its identity in the underlying file system.
    Stored(String, Identity),
}

/// The identity of a file in the underlying file system: a path that is published again is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Time of its last change, in nanoseconds since 1970.
    pub(crate) changed: i64,
}

impl Node {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Node::Array { .. } | Node::Fragment(..) | Node::ZarrFile(..) | Node::Stored(..))
    }

    /// Whether any range of it can be produced by itself. Chunks of Zarr are decoded whole.
    pub(crate) fn has_ranges(&self) -> bool {
        matches!(self, Node::Array { .. } | Node::Fragment(..))
    }

    /// The snapshot of a file whose name means another file after the next commit.
    pub(crate) fn as_newest(&self) -> Option<u64> {
        match self {
            Node::Array { version, latest: true, .. } | Node::Fragment(version, _) => Some(*version),
            _ => None,
        }
    }
}

/// Numbers of nodes.
#[derive(Default)]
pub(crate) struct Inodes {
    nodes: Vec<Node>,
    numbers: HashMap<Node, u64>,
}

impl Inodes {
    /// The number of a node. The first one, the root, has 1.
    pub(crate) fn number(&mut self, node: &Node) -> u64 {
        if let Some(number) = self.numbers.get(node) {
            return *number;
        }
        self.nodes.push(node.clone());
        let number = self.nodes.len() as u64;
        self.numbers.insert(node.clone(), number);
        number
    }

    /// The node of a number.
    pub(crate) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }
}
