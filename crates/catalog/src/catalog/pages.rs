//! Loads directories and columns: they are read, verified against their checksums, decoded and cached.

use std::collections::HashMap;
use std::sync::Arc;

use drystone::{Error, Result};
use drystone_format::{Corrupt, crc32c};
use drystone_store::StoreExt;

use super::{Catalog, damaged, lock};
use crate::column::Column;
use crate::facts::{Facts, Key};
use crate::identity::{self, Identity};
use crate::manifest::PageRef;
use crate::page::{Directory, PageBuilder, Section};
use crate::value::{Borrowed, Value};

/// Most bytes of decoded columns in the cache.
const KEPT: usize = 64 << 20;

/// The cache of decoded columns. It is emptied when it grows too large.
#[derive(Debug, Default)]
pub(super) struct Cache {
    directories: HashMap<[u8; 16], Arc<Directory>>,
    columns: HashMap<([u8; 16], u64), Arc<Column>>,
    identities: HashMap<[u8; 16], Arc<Vec<Identity>>>,
    bytes: usize,
}

/// A page: an object in the store, or bytes that are not stored yet.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) at: PageRef,
    pub(super) bytes: Option<Arc<Vec<u8>>>,
}

/// Makes a page from a builder, with the reference that names it.
pub(super) fn page_of(builder: PageBuilder, id: [u8; 16]) -> Page {
    let containers = builder.len() as u32;
    let (bytes, directory) = builder.encode();
    let (len, crc) = (bytes.len() as u64, crc32c(&directory));
    let at = PageRef { id, containers, len, directory: directory.len() as u32, crc, hidden: Vec::new() };
    Page { at, bytes: Some(Arc::new(bytes)) }
}

impl Catalog {
    fn bytes(&self, page: &Page, offset: u64, len: u32, crc: u32) -> Result<Vec<u8>> {
        let bytes = match &page.bytes {
            Some(all) => {
                let from = offset as usize;
                all.get(from..from.saturating_add(len as usize)).unwrap_or_default().to_vec()
            }
            None => self.store.read_vec(&page.at.key(), offset, len as usize)?,
        };
        if crc32c(&bytes) != crc {
            return Err(damaged(
                &page.at.key(),
                &Corrupt { what: "bytes fail their CRC".into(), at: offset },
            ));
        }
        Ok(bytes)
    }

    pub(super) fn directory(&self, page: &Page) -> Result<Arc<Directory>> {
        if let Some(known) = lock(&self.cache).directories.get(&page.at.id) {
            return Ok(known.clone());
        }
        let offset = page.at.len - u64::from(page.at.directory);
        let bytes = self.bytes(page, offset, page.at.directory, page.at.crc)?;
        let found = Directory::decode(&bytes, offset).map_err(|c| damaged(&page.at.key(), &c))?;
        if found.containers != page.at.containers {
            return Err(damaged(&page.at.key(), &Corrupt::new("it has another number of containers", 0)));
        }
        let found = Arc::new(found);
        lock(&self.cache).directories.insert(page.at.id, found.clone());
        Ok(found)
    }

    fn section(&self, page: &Page, section: Section) -> Result<Vec<u8>> {
        self.bytes(page, section.offset, section.len, section.crc)
    }

    /// The column of a key, if the page has it.
    pub(super) fn column(&self, page: &Page, key: &Key) -> Result<Option<Arc<Column>>> {
        let directory = self.directory(page)?;
        let Some(section) = directory.find(key) else { return Ok(None) };
        let place = (page.at.id, section.offset);
        if let Some(known) = lock(&self.cache).columns.get(&place) {
            return Ok(Some(known.clone()));
        }
        let bytes = self.section(page, section)?;
        let column = Column::decode(&bytes, directory.containers).map_err(|c| damaged(&page.at.key(), &c))?;
        let column = Arc::new(column);
        let mut cache = lock(&self.cache);
        cache.bytes += column.memory();
        if cache.bytes > KEPT {
            *cache = Cache { bytes: column.memory(), ..Cache::default() };
        }
        cache.columns.insert(place, column.clone());
        Ok(Some(column))
    }

    /// The paths of a page. Containers are numbered in their order.
    pub(super) fn paths(&self, page: &Page) -> Result<Arc<Column>> {
        let found = self.column(page, &Key::own("path"))?;
        found.filter(|paths| paths.len() == page.at.containers as usize).ok_or_else(|| {
            damaged(&page.at.key(), &Corrupt::new("it has not one path for each container", 0))
        })
    }

    pub(super) fn identities(&self, page: &Page) -> Result<Arc<Vec<Identity>>> {
        if let Some(known) = lock(&self.cache).identities.get(&page.at.id) {
            return Ok(known.clone());
        }
        let directory = self.directory(page)?;
        let bytes = self.section(page, directory.identities)?;
        let found =
            identity::decode(&bytes, directory.containers).map_err(|c| damaged(&page.at.key(), &c))?;
        let found = Arc::new(found);
        let mut cache = lock(&self.cache);
        cache.bytes += found.len() * size_of::<Identity>();
        cache.identities.insert(page.at.id, found.clone());
        Ok(found)
    }

    /// All facts of the shown containers of a page, for merging.
    pub(super) fn facts(&self, page: &Page) -> Result<Vec<Facts>> {
        let (paths, identities) = (self.paths(page)?, self.identities(page)?);
        let mut facts: Vec<Facts> = identities
            .iter()
            .enumerate()
            .map(|(n, id)| {
                let path = text(&paths, n);
                Facts { path, uuid: id.uuid, version: id.version, time: id.time, values: Vec::new() }
            })
            .collect();
        let directory = self.directory(page)?;
        for (key, section) in directory.columns.iter().filter(|(key, _)| *key != Key::own("path")) {
            let bytes = self.section(page, *section)?;
            let column =
                Column::decode(&bytes, directory.containers).map_err(|c| damaged(&page.at.key(), &c))?;
            for n in 0..column.len() {
                let value = match column.value(n) {
                    Some(Borrowed::Bool(b)) => Value::Bool(b),
                    Some(Borrowed::Integer(i)) => Value::Integer(i),
                    Some(Borrowed::Float(x)) => Value::Float(x),
                    Some(Borrowed::Text(text)) => Value::Text(text.to_owned()),
                    None => continue,
                };
                for &container in column.containers(n..n + 1) {
                    if let Some(facts) = facts.get_mut(container as usize) {
                        facts.values.push((key.clone(), value.clone()));
                    }
                }
            }
        }
        let mut n = 0;
        facts.retain(|_| {
            n += 1;
            page.at.hidden.binary_search(&(n - 1)).is_err()
        });
        Ok(facts)
    }

    /// The pages of the newest manifest.
    pub(super) fn pages(&self) -> Vec<Page> {
        self.manifest().pages.iter().map(|at| Page { at: at.clone(), bytes: None }).collect()
    }

    /// Drops decoded columns of pages that no longer exist.
    pub(super) fn forget_decoded(&self) {
        *lock(&self.cache) = Cache::default();
    }
}

/// The text at an index of a column.
pub(super) fn text(column: &Column, n: usize) -> String {
    match column.value(n) {
        Some(Borrowed::Text(text)) => text.to_owned(),
        _ => String::new(),
    }
}

/// The number of the container with a path in a page.
pub(super) fn number(paths: &Column, path: &str) -> Option<u32> {
    let at = paths.partition(|v| matches!(v, Borrowed::Text(text) if text < path));
    matches!(paths.value(at), Some(Borrowed::Text(text)) if text == path).then_some(at as u32)
}

/// Whether an error means that a page no longer exists, since another process merged it.
pub(super) fn is_missing(error: &Error) -> bool {
    error.kind() == drystone::ErrorKind::NotFound
}
