//! The files of a snapshot, and their folders.
//!
//! Invariant: a name can be looked up if and only if its folder lists it.

use std::collections::BTreeMap;

/// The format of an array's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Form {
    /// A header of NumPy before the cells.
    Npy,
    /// Only the cells.
    Bin,
    /// Structures of HDF5 around the cells.
    Hdf5,
    /// Structures of HDF5 too, since netCDF-4 files are HDF5 files.
    NetCdf,
}

impl Form {
    pub(crate) const ALL: [Form; 4] = [Form::Npy, Form::Bin, Form::Hdf5, Form::NetCdf];

    fn suffix(self) -> &'static str {
        match self {
            Form::Npy => "npy",
            Form::Bin => "bin",
            Form::Hdf5 => "h5",
            Form::NetCdf => "nc",
        }
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Folder,
    /// Number of the array, and the file's form.
    File(usize, Form),
}

/// The folders of a snapshot, by path; the root is "".
#[derive(Debug, Default)]
pub(crate) struct Tree {
    folders: BTreeMap<String, BTreeMap<String, Entry>>,
}

impl Tree {
    /// Builds the tree from arrays, given as path and forms, and from groups, which may be empty.
    pub(crate) fn new<'p>(
        arrays: impl IntoIterator<Item = (&'p str, Vec<Form>)>,
        groups: impl IntoIterator<Item = &'p str>,
    ) -> Self {
        let mut tree = Tree::default();
        tree.folders.insert(String::new(), BTreeMap::new());
        for group in groups {
            tree.folder(group);
        }
        for (number, (path, forms)) in arrays.into_iter().enumerate() {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            for form in forms {
                let file = format!("{name}.{}", form.suffix());
                tree.folder(above).entry(file).or_insert(Entry::File(number, form));
            }
        }
        tree
    }

    fn folder(&mut self, path: &str) -> &mut BTreeMap<String, Entry> {
        if !self.folders.contains_key(path) {
            let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
            let name = name.to_owned();
            self.folder(above).insert(name, Entry::Folder);
        }
        self.folders.entry(path.to_owned()).or_default()
    }

    /// The entries of a folder, in order of their names.
    pub(crate) fn entries(&self, folder: &str) -> Option<&BTreeMap<String, Entry>> {
        self.folders.get(folder)
    }

    /// One entry of a folder.
    pub(crate) fn entry(&self, folder: &str, name: &str) -> Option<Entry> {
        self.folders.get(folder)?.get(name).copied()
    }
}

/// The path of an entry of a folder.
pub(crate) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_lie_in_the_folders_of_their_groups() {
        let plain = vec![Form::Npy, Form::Bin];
        let arrays = [("fields/T", Form::ALL.to_vec()), ("P", plain), ("P/x", Form::ALL.to_vec())];
        let tree = Tree::new(arrays, ["", "empty", "a/b"]);
        let names = |folder: &str| -> Vec<String> {
            tree.entries(folder).map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
        };
        assert_eq!(names(""), ["P", "P.bin", "P.npy", "a", "empty", "fields"]);
        assert_eq!(names("fields"), ["T.bin", "T.h5", "T.nc", "T.npy"]);
        assert_eq!(names("P"), ["x.bin", "x.h5", "x.nc", "x.npy"]);
        assert_eq!(names("a"), ["b"]);
        assert!(tree.entries("empty").is_some_and(BTreeMap::is_empty));
        assert_eq!(tree.entry("fields", "T.h5"), Some(Entry::File(0, Form::Hdf5)));
        assert_eq!(tree.entry("fields", "T"), None);
        assert_eq!(tree.entries("nowhere"), None);
    }
}
