//! Loading index pages and sections: read, verify against the reference that named them, decode, keep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use drystone_format::block::Block;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::frame::{self, Kind};
use drystone_format::manifest::Section;
use drystone_format::published::{self, Shard};
use drystone_format::source::{self, Source};
use drystone_format::{Corrupt, keys};
use drystone_plan::tree::{self, Leaf};
use drystone_store::{Reply, Request, Store, StoreExt};

use crate::base::cache::Cache;
use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::{Error, Result};

/// Decoded pages of any kind.
pub(crate) enum Page {
    Leaf(Arc<Leaf>),
    Branch(Arc<Branch>),
    Sources(Arc<Vec<Source>>),
    Shards(Arc<Vec<Shard>>),
    Section(Arc<Vec<u8>>),
}

impl Page {
    /// What it takes in memory, about.
    fn bytes(&self) -> usize {
        match self {
            Page::Leaf(leaf) => leaf.memory(),
            Page::Branch(branch) => branch.children.len() * size_of::<Child>(),
            Page::Sources(sources) => sources.len() * size_of::<Source>(),
            Page::Shards(sources) => sources.len() * size_of::<Shard>(),
            Page::Section(bytes) => bytes.len(),
        }
    }
}

/// What a page is read as: a page of the index tree, of the source table, or a section.
const INDEX: u8 = 0;
const SOURCES: u8 = 1;
const SECTION: u8 = 2;

/// Bytes of decoded pages kept per container.
const CACHE_BYTES: usize = 12 << 20;

/// A file that ends, as far as a page shows, before this is wanted as a whole: it takes a medium little longer than a page of it, and the next
/// page is then not waited for.
const SHORT_FILE: u64 = 128 << 10;

/// Reads pages of one container.
pub(crate) struct PageLoader {
    store: Arc<dyn Store>,
    /// The file of which the store was told last as a whole.
    told: AtomicU64,
    cache: Cache<(PageRef, u8), Page>,
    /// The file of the manifest that was looked at last: most of what it adds to the index is asked for next.
    held: Mutex<Option<(u64, Vec<u8>)>>,
}

impl PageLoader {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        PageLoader { store, told: AtomicU64::new(0), cache: Cache::new(CACHE_BYTES), held: Mutex::default() }
    }

    /// Keeps the file of a manifest, in place of another one.
    pub(crate) fn hold(&self, version: u64, bytes: Vec<u8>) {
        *lock(&self.held) = Some((version, bytes));
    }

    /// Bytes of a page in the file that is kept.
    fn held(&self, page: &PageRef) -> Option<Vec<u8>> {
        let held = lock(&self.held);
        let (_, bytes) = held.as_ref().filter(|(version, _)| page.file == *version | keys::IN_MANIFEST)?;
        let (from, len) = (usize::try_from(page.offset).ok()?, frame::HEADER + page.length as usize);
        Some(bytes.get(from..from.checked_add(len)?)?.to_vec())
    }

    /// Keeps a page that this process has just written, so that the next commit need not read it back.
    pub(crate) fn keep(&self, reference: PageRef, page: Page) {
        let tag = if matches!(page, Page::Sources(_)) { SOURCES } else { INDEX };
        let bytes = page.bytes();
        self.cache.put((reference, tag), page, bytes);
    }

    /// Forgets pages of which the newest snapshot has others: a writer that commits often would fill the memory with one version of a page
    /// after the other. Who still reads an earlier snapshot loads them again.
    pub(crate) fn forget(&self, pages: &[PageRef]) {
        for page in pages {
            self.cache.forget(&(*page, INDEX));
            self.cache.forget(&(*page, SOURCES));
        }
    }

    /// The verified payload of a page, uncached.
    pub(crate) fn payload(&self, page: &PageRef, kind: Kind) -> Result<Vec<u8>> {
        let key = keys::page_file(page.file);
        let damaged = |c: &Corrupt| Error::damaged(&key, page.offset, c);
        let len = frame::HEADER + page.length as usize;
        self.expect_all_before(page, &key, len);
        let bytes = self.store.read_vec(&key, page.offset, len).map_err(must_exist)?;
        Self::verified(page, kind, bytes).map_err(|c| damaged(&c))
    }

    /// Tells the store of a page and of what stands before it, where that is little: trees are written from their leaves up, so who
    /// reads the root of a small one finds the rest on its way.
    fn expect_all_before(&self, page: &PageRef, key: &str, len: usize) {
        let end = page.offset.saturating_add(len as u64);
        if page.offset == 0 || end > SHORT_FILE || self.told.swap(page.file, Ordering::Relaxed) == page.file {
            return;
        }
        // A hint: nobody waits for it, and a failure shows in the read itself.
        drop(self.store.submit(Request::Expect { key: key.to_owned(), ranges: vec![(0, end)] }));
    }

    /// What a page holds, if its bytes are the ones that its reference describes.
    fn verified(page: &PageRef, kind: Kind, mut bytes: Vec<u8>) -> std::result::Result<Vec<u8>, Corrupt> {
        let header = frame::parse_header(&bytes[..frame::HEADER])?;
        if header.kind != kind || header.len != u64::from(page.length) || header.payload_crc != page.crc {
            return Err(Corrupt::new("this is not the page its reference describes", 0));
        }
        bytes.drain(..frame::HEADER);
        frame::check_payload(&header, &bytes)?;
        Ok(bytes)
    }

    fn load<T>(
        &self,
        page: &PageRef,
        kind: Kind,
        tag: u8,
        decode: impl FnOnce(Vec<u8>) -> std::result::Result<Page, Corrupt>,
        take: impl FnOnce(&Page) -> Option<T>,
    ) -> Result<T> {
        let found = self.cache.get(&(*page, tag), || {
            // What is wrong with it is said of what is stored.
            let held = self.held(page).and_then(|bytes| Self::verified(page, kind, bytes).ok());
            let payload = held.map_or_else(|| self.payload(page, kind), Ok)?;
            let made = decode(payload).map_err(|c| {
                Error::damaged(&keys::page_file(page.file), page.offset + frame::HEADER as u64, &c)
            })?;
            let bytes = made.bytes();
            Ok::<_, Error>((made, bytes))
        })?;
        take(&found).ok_or_else(|| tree::Pages::invalid(self, page, "a page of another kind".into()))
    }

    pub(crate) fn sources(&self, page: &PageRef) -> Result<Arc<Vec<Source>>> {
        self.load(
            page,
            Kind::Section,
            SOURCES,
            |bytes| Ok(Page::Sources(Arc::new(source::decode_page(&bytes)?))),
            |p| if let Page::Sources(s) = p { Some(s.clone()) } else { None },
        )
    }

    /// A page of the record of what was published.
    pub(crate) fn shards(&self, page: &PageRef) -> Result<Arc<Vec<Shard>>> {
        self.load(
            page,
            Kind::Section,
            3,
            |bytes| Ok(Page::Shards(Arc::new(published::decode_page(&bytes)?))),
            |p| if let Page::Shards(s) = p { Some(s.clone()) } else { None },
        )
    }

    pub(crate) fn section(&self, section: &Section) -> Result<Arc<Vec<u8>>> {
        match section {
            Section::Inline(bytes) => Ok(Arc::new(bytes.clone())),
            Section::Page(page) => self.load(
                page,
                Kind::Section,
                SECTION,
                |bytes| Ok(Page::Section(Arc::new(bytes))),
                |p| if let Page::Section(s) = p { Some(s.clone()) } else { None },
            ),
        }
    }
}

impl tree::Pages for PageLoader {
    type Error = Error;

    fn branch(&self, page: &PageRef) -> Result<Arc<Branch>> {
        self.load(
            page,
            Kind::Branch,
            INDEX,
            |bytes| Ok(Page::Branch(Arc::new(Branch::decode(&bytes)?))),
            |p| if let Page::Branch(b) = p { Some(b.clone()) } else { None },
        )
    }

    fn leaf(&self, page: &PageRef) -> Result<Arc<Leaf>> {
        self.load(
            page,
            Kind::Leaf,
            INDEX,
            |bytes| Ok(Page::Leaf(Arc::new(Leaf::Columns(Box::new(Block::decode(&bytes)?))))),
            |p| if let Page::Leaf(l) = p { Some(l.clone()) } else { None },
        )
    }

    fn expect(&self, pages: &[&PageRef]) {
        let missing: Vec<&PageRef> =
            pages.iter().copied().filter(|page| self.cache.find(&(**page, INDEX)).is_none()).collect();
        // One is read at once.
        if missing.len() < 2 {
            return;
        }
        for of_file in missing.chunk_by(|a, b| a.file == b.file) {
            let Some(file) = of_file.first().map(|page| page.file) else { continue };
            let range = |page: &&PageRef| (page.offset, frame::HEADER as u64 + u64::from(page.length));
            let (key, ranges) = (keys::page_file(file), of_file.iter().map(range).collect());
            // A hint: nobody waits for it, and a failure shows in the read itself.
            let told = self.store.submit(Request::Expect { key, ranges });
            if told.is_ready() && matches!(told.wait(), Ok(Reply::Expected { needless: true })) {
                return;
            }
        }
    }

    fn invalid(&self, page: &PageRef, what: String) -> Error {
        Error::corrupt(format!(
            "{} is damaged: the page at byte {}: {what}",
            keys::page_file(page.file),
            page.offset
        ))
    }
}
