//! Loads index pages and sections: reads, verifies against the reference, decodes, caches.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use drystone_format::block::Block;
use drystone_format::branch::{Branch, Child, PageRef};
use drystone_format::frame::{self, FrameKind};
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
    /// Its approximate size in memory.
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

/// The tag of a page: a page of the index tree, a page of the source table, or a section.
pub(crate) const INDEX: u8 = 0;
pub(crate) const SOURCES: u8 = 1;
pub(crate) const SECTION: u8 = 2;

/// Bytes of decoded pages kept per container.
const CACHE_BYTES: usize = 12 << 20;

/// A file that seems to end before this is fetched whole. That takes hardly longer than fetching one page, and saves
/// a wait for the next page.
const SHORT_FILE: u64 = 128 << 10;

/// The same limit on a far store. Fetching this takes 4 ms on a link of 1 Gbit/s, which is less than the round trip
/// it saves.
const FAR_SHORT_FILE: u64 = 512 << 10;
/// Longer pages are read individually.
const LONG_PAGE: u32 = 1 << 20;
/// The most fetched pages that wait for a reader. If there are more, all are dropped.
const MANY_PAGES: usize = 256;

/// The bytes of a page in the beginning of its file.
fn part(bytes: &[u8], page: &PageRef) -> Option<Vec<u8>> {
    let (from, len) = (usize::try_from(page.offset).ok()?, frame::HEADER + page.length as usize);
    Some(bytes.get(from..from.checked_add(len)?)?.to_vec())
}

/// Reads pages of one container.
pub(crate) struct PageLoader {
    store: Arc<dyn Store>,
    /// The file that was last hinted to the store as a whole.
    told: AtomicU64,
    cache: Cache<(PageRef, u8), Page>,
    /// The file of the manifest that was read last. Most pages that it adds to the index are read next.
    held: Mutex<Option<(u64, Vec<u8>)>>,
    /// On a far store: stored bytes of pages that were fetched together and not read yet.
    fetched: Mutex<HashMap<PageRef, Vec<u8>>>,
    /// On a far store: the beginning of the short page file that was read last.
    short: Mutex<Option<(u64, Vec<u8>)>>,
    is_far: bool,
}

impl PageLoader {
    /// The numbers of hits and misses in the page cache.
    pub(crate) fn counted(&self) -> (u64, u64) {
        self.cache.counted()
    }

    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        PageLoader {
            is_far: store.features().far.is_some(),
            store,
            told: AtomicU64::new(0),
            cache: Cache::new(CACHE_BYTES),
            held: Mutex::default(),
            fetched: Mutex::default(),
            short: Mutex::default(),
        }
    }

    /// Keeps the file of a manifest, in place of the previous one.
    pub(crate) fn hold(&self, version: u64, bytes: Vec<u8>) {
        *lock(&self.held) = Some((version, bytes));
    }

    /// The bytes of a page, if they are in the kept file.
    fn held(&self, page: &PageRef) -> Option<Vec<u8>> {
        let held = lock(&self.held);
        let (_, bytes) = held.as_ref().filter(|(version, _)| page.file == *version | keys::IN_MANIFEST)?;
        part(bytes, page)
    }

    /// The bytes of a page, if it was prefetched from a far store.
    fn fetched(&self, page: &PageRef) -> Option<Vec<u8>> {
        if !self.is_far {
            return None;
        }
        let short = lock(&self.short);
        let of_short = short.as_ref().filter(|(file, _)| page.file == *file);
        of_short.and_then(|(_, bytes)| part(bytes, page)).or_else(|| lock(&self.fetched).remove(page))
    }

    /// Whether a page needs no request.
    fn is_at_hand(&self, page: &PageRef, tag: u8) -> bool {
        let is_part = |kept: &Option<(u64, Vec<u8>)>, file: u64| {
            kept.as_ref().is_some_and(|(of, bytes)| *of == file && part(bytes, page).is_some())
        };
        self.cache.find(&(*page, tag)).is_some()
            || is_part(&lock(&self.short), page.file)
            || is_part(&lock(&self.held), page.file & !keys::IN_MANIFEST)
            || lock(&self.fetched).contains_key(page)
    }

    /// Fetches missing pages from a far store together: pages of one level of the index, or of a table.
    pub(crate) fn fetch(&self, pages: &[&PageRef], tag: u8) {
        let is_missing = |page: &&PageRef| page.length <= LONG_PAGE && !self.is_at_hand(page, tag);
        let mut missing: Vec<&PageRef> = pages.iter().copied().filter(is_missing).collect();
        missing.sort_unstable_by_key(|page| (page.file, page.offset));
        missing.dedup();
        // A single page is read when it is needed.
        if !self.is_far || missing.len() < 2 {
            return;
        }
        let files: Vec<&[&PageRef]> = missing.chunk_by(|a, b| a.file == b.file).collect();
        let requests = files.iter().map(|of_file| {
            let range = |page: &&PageRef| (page.offset, frame::HEADER + page.length as usize);
            let file = of_file.first().map_or(0, |page| page.file);
            Request::read_many(keys::page_file(file), of_file.iter().map(range).collect())
        });
        let replies = self.store.together(requests.collect());
        let mut fetched = lock(&self.fetched);
        if fetched.len() > MANY_PAGES {
            fetched.clear();
        }
        for (of_file, reply) in files.iter().zip(replies) {
            // If fetching fails, the read fails too, and reports the error.
            let Ok(reply) = reply else { continue };
            of_file
                .iter()
                .zip(reply.into_buffers())
                .for_each(|(page, bytes)| _ = fetched.insert(**page, bytes));
        }
    }

    /// Hints pages of different files of a far store that are read next, one after the other. So they arrive together.
    pub(crate) fn expect(&self, pages: &[(PageRef, u8)]) {
        if !self.is_far {
            return;
        }
        let mut files: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (page, _) in pages.iter().filter(|(page, tag)| !self.is_at_hand(page, *tag)) {
            let end = page.offset.saturating_add((frame::HEADER + page.length as usize) as u64);
            // As `read_short` reads it.
            let from = if end <= FAR_SHORT_FILE { 0 } else { page.offset };
            files.entry(page.file).or_default().push((from, end - from));
        }
        for (file, mut ranges) in files {
            let short = ranges.iter().filter(|(from, _)| *from == 0).map(|(_, len)| *len).max();
            ranges.retain(|(from, _)| *from > 0);
            ranges.extend(short.map(|len| (0, len)));
            drop(self.store.submit(Request::Expect { key: keys::page_file(file), ranges }));
        }
    }

    /// Keeps a page that this process has just written, so that the next commit need not read it back.
    pub(crate) fn keep(&self, reference: PageRef, page: Page) {
        let tag = if matches!(page, Page::Sources(_)) { SOURCES } else { INDEX };
        let bytes = page.bytes();
        self.cache.put((reference, tag), page, bytes);
    }

    /// Drops pages that the newest snapshot has replaced. Otherwise a writer that commits often would fill the memory
    /// with versions of one page. Readers of an earlier snapshot load them again.
    pub(crate) fn forget(&self, pages: &[PageRef]) {
        for page in pages {
            self.cache.forget(&(*page, INDEX));
            self.cache.forget(&(*page, SOURCES));
        }
    }

    /// The verified payload of a page, uncached.
    pub(crate) fn payload(&self, page: &PageRef, kind: FrameKind) -> Result<Vec<u8>> {
        let key = keys::page_file(page.file);
        let damaged = |c: &Corrupt| Error::damaged(&key, page.offset, c);
        let len = frame::HEADER + page.length as usize;
        if let Some(bytes) = self.fetched(page).filter(|bytes| bytes.len() == len)
            && let Ok(payload) = Self::verified(page, kind, bytes)
        {
            return Ok(payload);
        }
        if self.is_far && self.read_short(page, &key, len) {
            return self.payload(page, kind);
        }
        self.expect_all_before(page, &key, len);
        let bytes = self.store.read_vec(&key, page.offset, len).map_err(must_exist)?;
        Self::verified(page, kind, bytes).map_err(|c| damaged(&c))
    }

    /// Reads a page together with everything before it from a far store in one request, if that is short. Returns
    /// `false` if it is long, or was read in this way before.
    fn read_short(&self, page: &PageRef, key: &str, len: usize) -> bool {
        let end = page.offset.saturating_add(len as u64);
        let again = lock(&self.short)
            .as_ref()
            .is_some_and(|(file, bytes)| *file == page.file && bytes.len() as u64 >= end);
        if page.offset == 0 || end > FAR_SHORT_FILE || again {
            return false;
        }
        let Ok(bytes) = self.store.read_vec(key, 0, end as usize) else { return false };
        *lock(&self.short) = Some((page.file, bytes));
        true
    }

    /// Hints a page together with everything before it, if that is short. Trees are written from their leaves up, so
    /// the read of a small tree's root also fetches the other pages.
    fn expect_all_before(&self, page: &PageRef, key: &str, len: usize) {
        let end = page.offset.saturating_add(len as u64);
        if page.offset == 0 || end > SHORT_FILE || self.told.swap(page.file, Ordering::Relaxed) == page.file {
            return;
        }
        // A hint only: it is not awaited, and the read itself reports a failure.
        drop(self.store.submit(Request::Expect { key: key.to_owned(), ranges: vec![(0, end)] }));
    }

    /// The content of a page, if its bytes match the reference.
    fn verified(
        page: &PageRef,
        kind: FrameKind,
        mut bytes: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, Corrupt> {
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
        kind: FrameKind,
        tag: u8,
        decode: impl FnOnce(Vec<u8>) -> std::result::Result<Page, Corrupt>,
        take: impl FnOnce(&Page) -> Option<T>,
    ) -> Result<T> {
        let found = self.cache.get(&(*page, tag), || {
            // The error is reported for the stored object, not for the kept bytes.
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
            FrameKind::Section,
            SOURCES,
            |bytes| Ok(Page::Sources(Arc::new(source::decode_page(&bytes)?))),
            |p| if let Page::Sources(s) = p { Some(s.clone()) } else { None },
        )
    }

    /// A page of the published record.
    pub(crate) fn shards(&self, page: &PageRef) -> Result<Arc<Vec<Shard>>> {
        self.load(
            page,
            FrameKind::Section,
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
                FrameKind::Section,
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
            FrameKind::Branch,
            INDEX,
            |bytes| Ok(Page::Branch(Arc::new(Branch::decode(&bytes)?))),
            |p| if let Page::Branch(b) = p { Some(b.clone()) } else { None },
        )
    }

    fn leaf(&self, page: &PageRef) -> Result<Arc<Leaf>> {
        self.load(
            page,
            FrameKind::Leaf,
            INDEX,
            |bytes| Ok(Page::Leaf(Arc::new(Leaf::Columns(Box::new(Block::decode(&bytes)?))))),
            |p| if let Page::Leaf(l) = p { Some(l.clone()) } else { None },
        )
    }

    fn expect(&self, pages: &[&PageRef]) {
        if self.is_far {
            return self.fetch(pages, INDEX);
        }
        let missing: Vec<&PageRef> =
            pages.iter().copied().filter(|page| self.cache.find(&(**page, INDEX)).is_none()).collect();
        // A single page is read at once, without a hint.
        if missing.len() < 2 {
            return;
        }
        for of_file in missing.chunk_by(|a, b| a.file == b.file) {
            let Some(file) = of_file.first().map(|page| page.file) else { continue };
            let range = |page: &&PageRef| (page.offset, frame::HEADER as u64 + u64::from(page.length));
            let (key, ranges) = (keys::page_file(file), of_file.iter().map(range).collect());
            // A hint only: it is not awaited, and the read itself reports a failure.
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
