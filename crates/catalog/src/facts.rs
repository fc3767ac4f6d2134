//! The facts about a container: values by key, and the snapshot to which they belong.

use crate::value::Value;

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// An attribute `name` of the group or variable `object`; of the container itself if `object` is empty.
    Attribute,
    /// The least value of the variable `object`, or of its member `name`.
    Least,
    /// The greatest value of the same.
    Greatest,
    /// A fact that every container has: its path, name, snapshot, variables, steps, or identity.
    Own,
}

impl KeyKind {
    pub(crate) const ALL: [KeyKind; 4] =
        [KeyKind::Attribute, KeyKind::Least, KeyKind::Greatest, KeyKind::Own];
}

/// The name of a value in questions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct Key {
    pub kind: KeyKind,
    pub object: String,
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(kind: KeyKind, object: impl Into<String>, name: impl Into<String>) -> Self {
        Key { kind, object: object.into(), name: name.into() }
    }

    /// A key that every container has.
    pub fn own(name: &str) -> Self {
        Key::new(KeyKind::Own, "", name)
    }

    /// The key as questions write it.
    pub fn text(&self) -> String {
        let of = match (self.object.as_str(), self.name.as_str()) {
            ("", name) => name.to_owned(),
            (object, "") => object.to_owned(),
            (object, name) => format!("{object}.{name}"),
        };
        match self.kind {
            KeyKind::Attribute | KeyKind::Own => of,
            KeyKind::Least => format!("min({of})"),
            KeyKind::Greatest => format!("max({of})"),
        }
    }
}

/// The names of [`KeyKind::Own`].
pub(crate) const OWN: [&str; 6] = ["path", "name", "snapshot", "steps", "variable", "uuid"];

/// Everything that a catalogue stores about one container.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The location: an absolute path or a URL.
    pub path: String,
    /// Its identity.
    pub uuid: [u8; 16],
    /// Number of the snapshot.
    pub version: u64,
    /// Time of its commit, in nanoseconds since 1970.
    pub time: u64,
    /// Values; a key may have several.
    pub values: Vec<(Key, Value)>,
}
