//! The needs of retained manifests: files that hold their pages, and log parts that hold their bytes.

use std::collections::BTreeSet;

use drystone_format::branch::PageRef;
use drystone_format::manifest::{Manifest, Section};
use drystone_format::source::Source;
use drystone_plan::tree;

use crate::Result;
use crate::container::Inner;
use crate::history::snapshot::Snapshot;

/// Files and log parts that manifests need.
#[derive(Default)]
pub(super) struct Needed {
    /// Pages that were visited, together with everything below them.
    pages: BTreeSet<(u64, u64)>,
    files: BTreeSet<u64>,
    parts: BTreeSet<(u64, u32)>,
}

impl Needed {
    /// The needs of all these manifests. An unreadable page is an error, since the objects that it names are unknown.
    pub(super) fn of(inner: &Inner, manifests: &[Manifest]) -> Result<Needed> {
        let mut needed = Needed::default();
        for manifest in manifests {
            needed.add_pages(inner, manifest)?;
            for page in &manifest.source_pages {
                needed.add_sources(&inner.pages.sources(page)?);
            }
        }
        Ok(needed)
    }

    /// Adds the pages of one manifest.
    pub(super) fn add_pages(&mut self, inner: &Inner, manifest: &Manifest) -> Result<()> {
        self.files.insert(drystone_format::keys::IN_MANIFEST | manifest.version);
        let sections = [&manifest.schema, &manifest.steps].into_iter().chain(&manifest.published);
        for section in sections {
            if let Section::Page(page) = section {
                self.add(page);
            }
        }
        manifest.source_pages.iter().for_each(|page| _ = self.add(page));
        let snapshot = Snapshot::load(manifest.clone(), &inner.pages)?;
        for array in snapshot.published(&inner.pages)?.iter() {
            array.pages.iter().for_each(|page| _ = self.add(&page.page));
        }
        match &manifest.root {
            Some(root) => tree::each_page(&inner.pages, root, &mut |page| self.add(page)),
            None => Ok(()),
        }
    }

    /// Adds the parts that hold needed bytes.
    pub(super) fn add_sources(&mut self, sources: &[Source]) {
        let used = sources.iter().filter(|s| s.kind == 0 && s.seg_length > 0);
        self.parts.extend(used.map(|s| (s.writer, s.part)));
    }

    /// Adds a page. Returns whether it is new.
    fn add(&mut self, page: &PageRef) -> bool {
        self.files.insert(page.file);
        self.pages.insert((page.file, page.offset))
    }

    pub(super) fn has_file(&self, file: u64) -> bool {
        self.files.contains(&file)
    }

    pub(super) fn has_part(&self, writer: u64, part: u32) -> bool {
        self.parts.contains(&(writer, part))
    }
}
