//! Encodes facts as a page.

use std::collections::BTreeMap;

use drystone_format::crc32c;

use super::{Directory, MAGIC, MAX_CONTAINERS, Section};
use crate::column::Column;
use crate::facts::{Facts, Key};
use crate::identity::{self, Identity};
use crate::value::{MAX_TEXT, Value};

/// Most bytes of one column.
const MAX_COLUMN: usize = 1 << 28;

/// Collects the content of a page.
#[derive(Debug, Default)]
pub struct PageBuilder {
    identities: Vec<Identity>,
    columns: BTreeMap<Key, BTreeMap<Value, Vec<u32>>>,
}

impl PageBuilder {
    /// Builders for facts in any order. If a path occurs twice, the last facts are used. More containers than a page
    /// holds become several pages.
    pub fn pages(facts: Vec<Facts>) -> Vec<PageBuilder> {
        let by_path: BTreeMap<String, Facts> = facts.into_iter().map(|f| (f.path.clone(), f)).collect();
        let mut out: Vec<PageBuilder> = Vec::new();
        for facts in by_path.into_values() {
            if out.last().is_none_or(|page| page.identities.len() >= MAX_CONTAINERS as usize / 16) {
                out.push(PageBuilder::default());
            }
            if let Some(page) = out.last_mut() {
                page.push(facts);
            }
        }
        out
    }

    /// Adds a container; its path must be greater than those of all earlier ones.
    fn push(&mut self, facts: Facts) {
        let identity = Identity { uuid: facts.uuid, version: facts.version, time: facts.time };
        let n = self.add(identity);
        self.value(Key::own("path"), Value::Text(facts.path), n);
        for (key, value) in facts.values {
            self.value(key, value, n);
        }
    }

    pub(crate) fn add(&mut self, identity: Identity) -> u32 {
        self.identities.push(identity);
        self.identities.len() as u32 - 1
    }

    /// Adds a value of a container. Texts that are too long for questions are left out.
    pub(crate) fn value(&mut self, key: Key, value: Value, container: u32) {
        let fits = |text: &str| text.len() <= MAX_TEXT;
        if matches!(&value, Value::Text(text) if !fits(text)) || !fits(&key.object) || !fits(&key.name) {
            return;
        }
        self.columns.entry(key).or_default().entry(value).or_default().push(container);
    }

    /// Number of containers.
    pub(crate) fn len(&self) -> usize {
        self.identities.len()
    }

    /// Encodes the page; returns it, and the bytes of the directory at its end.
    pub fn encode(mut self) -> (Vec<u8>, Vec<u8>) {
        for containers in self.columns.values_mut().flat_map(BTreeMap::values_mut) {
            containers.sort_unstable();
            containers.dedup();
        }
        let mut out = MAGIC.to_vec();
        let mut put = |bytes: &[u8]| {
            let section = Section { offset: out.len() as u64, len: bytes.len() as u32, crc: crc32c(bytes) };
            out.extend_from_slice(bytes);
            section
        };
        let identities = put(&identity::encode(&self.identities));
        let mut columns = Vec::with_capacity(self.columns.len());
        for (key, values) in &self.columns {
            let bytes =
                Column::encode(values.iter().map(|(value, containers)| (value, containers.as_slice())));
            if bytes.len() <= MAX_COLUMN {
                columns.push((key.clone(), put(&bytes)));
            }
        }
        let directory = Directory { containers: self.identities.len() as u32, identities, columns }.encode();
        out.extend_from_slice(&directory);
        (out, directory)
    }
}
