//! Operations with which the ranks of a program encode parity together. A rank reads its own parts and writes its own
//! parity objects.

use std::path::{Path, PathBuf};

use drystone_format::keys;
use drystone_format::redundancy::{self, Group};
use drystone_format::staged::StagedPart;
use drystone_store::{Result, Store, StoreError};

use super::object::Writing;
use crate::store::TieredStore;
use crate::store::owner::writer_of;
use crate::tier::parity_of;

/// A parity object of this node that is being written.
pub struct ParityObject {
    writing: Writing,
    file: String,
    folder: PathBuf,
}

impl std::fmt::Debug for ParityObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParityObject").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ParityObject {
    /// Begins the object that member `number` of a group keeps.
    pub fn begin(group: &Group, number: usize) -> Result<Self> {
        let encoded = group.encode();
        let file = keys::parity_object(&redundancy::name(group.step, &encoded), number);
        let folder =
            group.members.get(number).map(|member| parity_of(Path::new(&member.folder))).unwrap_or_default();
        let writing = Writing::begin(&folder, &file, &encoded, number, group.payload(number));
        writing.map_err(|e| failed(&file, &folder, e)).map(|writing| ParityObject { writing, file, folder })
    }

    /// Adds the next bytes of the payload.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.writing.add(bytes).map_err(|e| failed(&self.file, &self.folder, e))
    }

    /// Gives the object its name.
    pub fn finish(self) -> Result<()> {
        let ParityObject { writing, file, folder } = self;
        writing.finish().map_err(|e| failed(&file, &folder, e))
    }
}

fn failed(file: &str, folder: &Path, source: std::io::Error) -> StoreError {
    let store = folder.display().to_string();
    StoreError::Io { key: file.to_owned(), store, operation: "keep parity in", source }
}

impl TieredStore {
    /// The first folder of this handle's tiers that works.
    pub fn folder(&self) -> Option<PathBuf> {
        let mut works = self.tiers().iter().filter(|tier| tier.health.aside().is_none());
        works.find_map(|tier| tier.folder().map(Path::to_path_buf))
    }

    /// Closed parts of a writer of this handle that end with a step and are not at home, ascending.
    pub fn own_parts(&self, writer: u64, step: u64) -> Vec<StagedPart> {
        let staged = self.lock();
        let mine =
            staged.iter().filter(|(_, one)| one.closed.is_some() && one.step == Some(step) && !one.is_home());
        let part = |(key, one): (&String, &crate::staged::Staged)| {
            let part = writer_of(key).filter(|(of, _)| *of == writer)?.1;
            Some(StagedPart { part, length: one.len, crc: one.crc()?, step: one.step })
                .filter(|part| part.length > 0)
        };
        let mut parts: Vec<StagedPart> = mine.filter_map(part).collect();
        parts.sort_by_key(|part| part.part);
        parts
    }

    /// Fills `out` with the bytes of a writer's parts, one after the other, from `at` on; then with zeros.
    pub fn read_parts(&self, writer: u64, parts: &[StagedPart], at: u64, out: &mut [u8]) -> Result<()> {
        let (mut at, mut rest) = (at, out);
        for part in parts {
            if at >= part.length {
                at -= part.length;
                continue;
            }
            let here = usize::try_from(part.length - at).map_or(rest.len(), |here| here.min(rest.len()));
            let (now, later) = rest.split_at_mut(here);
            self.read(&keys::segment(writer, part.part), at, now)?;
            (at, rest) = (0, later);
            if rest.is_empty() {
                return Ok(());
            }
        }
        rest.fill(0);
        Ok(())
    }
}
