//! A snapshot: one manifest and the state that it names. It never changes.

use std::sync::{Arc, OnceLock};

use drystone_format::manifest::{Manifest, Section};
use drystone_format::published;
use drystone_format::schema::Schema;
use drystone_format::source::{PAGE_SOURCES, Source};
use drystone_format::steps::Steps;
use drystone_format::{Corrupt, keys};

use super::pages::{PageLoader, SOURCES};
use crate::{Error, Result};

/// One committed state of a container.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) manifest: Manifest,
    /// Names, groups, variables, attributes.
    pub schema: Arc<Schema>,
    /// Committed steps.
    pub steps: Arc<Steps>,
    /// The arrays of the published replica; loaded at the first use.
    pub(crate) published: OnceLock<Arc<Vec<published::Array>>>,
}

impl Snapshot {
    /// The state before the first commit: version 0, without content.
    pub(crate) fn empty(uuid: [u8; 16]) -> Self {
        let mut schema = Schema::default();
        schema.groups.insert(String::new(), Default::default());
        let manifest = Manifest {
            version: 0,
            parent: 0,
            write_id: [0; 16],
            uuid,
            time: 0,
            marked: true,
            last_marked: 0,
            fence: 0,
            schema: Section::Inline(schema.encode()),
            steps: Section::Inline(Steps::default().encode()),
            source_pages: Vec::new(),
            source_count: 0,
            root: None,
            ahead: Vec::new(),
            published: None,
            boot: None,
        };
        Snapshot::of(manifest, Arc::new(schema), Arc::new(Steps::default()))
    }

    /// Loads the sections that the manifest names directly: schema and steps.
    pub(crate) fn load(manifest: Manifest, pages: &PageLoader) -> Result<Self> {
        let schema = Self::load_schema(&manifest, pages)?;
        Self::with_schema(manifest, schema, pages)
    }

    /// As [`load`](Self::load), but takes the schema of an earlier snapshot if it has not changed.
    pub(crate) fn after(earlier: &Self, manifest: Manifest, pages: &PageLoader) -> Result<Self> {
        let schema = if manifest.schema == earlier.manifest.schema {
            earlier.schema.clone()
        } else {
            Self::load_schema(&manifest, pages)?
        };
        Self::with_schema(manifest, schema, pages)
    }

    fn load_schema(manifest: &Manifest, pages: &PageLoader) -> Result<Arc<Schema>> {
        let schema = Schema::decode(&pages.section(&manifest.schema)?);
        schema.map(Arc::new).map_err(|c| Self::broken("the schema", manifest, &c))
    }

    fn with_schema(manifest: Manifest, schema: Arc<Schema>, pages: &PageLoader) -> Result<Self> {
        let steps = Steps::decode(&pages.section(&manifest.steps)?)
            .map_err(|c| Self::broken("the step list", &manifest, &c))?;
        Ok(Snapshot::of(manifest, schema, Arc::new(steps)))
    }

    fn broken(part: &str, manifest: &Manifest, found: &Corrupt) -> Error {
        Error::corrupt(format!("{part} of {} is damaged: {found}", keys::manifest(manifest.version)))
    }

    /// Joins a manifest and its sections.
    pub(crate) fn of(manifest: Manifest, schema: Arc<Schema>, steps: Arc<Steps>) -> Self {
        Snapshot { manifest, schema, steps, published: OnceLock::new() }
    }

    /// The arrays of the published replica at the time of this snapshot's commit.
    pub(crate) fn published(&self, pages: &PageLoader) -> Result<Arc<Vec<published::Array>>> {
        if let Some(known) = self.published.get() {
            return Ok(known.clone());
        }
        let arrays = match &self.manifest.published {
            None => Vec::new(),
            Some(section) => published::decode(&pages.section(section)?).map_err(|c| {
                let key = keys::manifest(self.version());
                Error::corrupt(format!("the published record of {key} is damaged: {c}"))
            })?,
        };
        Ok(self.published.get_or_init(|| Arc::new(arrays)).clone())
    }

    /// The number of the commit that made the snapshot; 0 before the first.
    pub fn version(&self) -> u64 {
        self.manifest.version
    }

    /// The time of the commit, in nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        self.manifest.time
    }

    /// The number of its index entries: one per block and leaf member.
    pub fn entry_count(&self) -> u64 {
        self.manifest.root.map_or(0, |r| r.entries)
    }

    /// The length of the step axis: last committed step + 1.
    pub fn step_axis(&self) -> u64 {
        self.steps.last().map_or(0, |s| s + 1)
    }

    /// One source by its number.
    pub(crate) fn source(&self, pages: &PageLoader, number: u32) -> Result<Source> {
        let page = number as usize / PAGE_SOURCES;
        let list = self.manifest.source_pages.get(page).ok_or_else(|| self.no_source(number))?;
        let sources = pages.sources(list)?;
        sources.get(number as usize % PAGE_SOURCES).cloned().ok_or_else(|| self.no_source(number))
    }

    /// The whole source table.
    pub(crate) fn sources(&self, pages: &PageLoader) -> Result<Vec<Source>> {
        let mut all = Vec::with_capacity(self.manifest.source_pages.len() * PAGE_SOURCES);
        pages.fetch(&self.manifest.source_pages.iter().collect::<Vec<_>>(), SOURCES);
        for page in &self.manifest.source_pages {
            all.extend(pages.sources(page)?.iter().cloned());
        }
        if all.len() != self.manifest.source_count as usize {
            return Err(Error::corrupt(format!(
                "{} states {} sources, its pages hold {}",
                keys::manifest(self.version()),
                self.manifest.source_count,
                all.len()
            )));
        }
        Ok(all)
    }

    fn no_source(&self, number: u32) -> Error {
        Error::corrupt(format!("{} has no source {number}", keys::manifest(self.version())))
    }
}
