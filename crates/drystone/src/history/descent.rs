//! The descent from the newest manifest to a snapshot that can be shown. It records what is missing, and decides what
//! that means.

use std::sync::Arc;

use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_format::manifest::{Manifest, Section};
use drystone_plan::tree::Pages;
use drystone_store::{Pending, Reply, Request, Store, StoreError, StoreExt};

use super::loss::{self, Losses, Trust};
use super::manifests::{below, is_void, listed, manifest_file, read_manifest};
use super::pages::{INDEX, PageLoader, SECTION, SOURCES};
use super::probing::Floors;
use super::snapshot::Snapshot;
use crate::base::error::must_exist;
use crate::base::writer_process;
use crate::{Error, ErrorKind, Result};

/// The newest usable snapshot, and what was passed over to reach it.
pub(crate) struct Head {
    pub(crate) snapshot: Snapshot,
    /// The highest manifest number in the store, whether readable or not; for a handle that may recover it, also of a
    /// lost manifest. The next commit takes a higher one.
    pub(crate) top: u64,
    /// Missing numbers up to `top`. Those below the newest manifest and above every mark are known only if all
    /// manifests were listed.
    pub(crate) gaps: Vec<u64>,
    pub(crate) warnings: Vec<String>,
    /// The losses found during the descent.
    pub(crate) losses: Losses,
}

/// The most gaps. A power cut destroys at most the manifests that were written since the last flush; this program
/// does not write a list with more gaps.
pub(super) const MANY_GAPS: u64 = 1 << 20;

/// An object that a snapshot needs and that is missing or incomplete.
pub(super) struct Missing {
    pub(super) key: String,
    pub(super) error: Error,
}

/// The descent from the newest manifest to one that can be shown. It decides what is refused and what is reported.
pub(super) struct Descent<'a> {
    store: &'a Arc<dyn Store>,
    identity: &'a Identity,
    trust: Trust,
    warnings: Vec<String>,
    losses: Losses,
    /// The highest number of a lost manifest above all others.
    lost: Option<u64>,
    /// A look for the mark of the manifest after `top`, and `top`.
    mark: Option<(Pending, u64)>,
}

/// What a warning says about a snapshot that was not flushed.
const NOT_FLUSHED: &str = "it was not flushed before a crash";

impl<'a> Descent<'a> {
    pub(super) fn new(store: &'a Arc<dyn Store>, identity: &'a Identity, trust: Trust) -> Self {
        Descent {
            store,
            identity,
            trust,
            warnings: Vec::new(),
            losses: Losses::default(),
            lost: None,
            mark: None,
        }
    }

    /// Begins a look for a mark above all manifests that were found: a hint may lag, and a mark states that the next
    /// manifest was there. [`end`](Self::end) waits for it.
    pub(super) fn expect_no_mark(&mut self, top: u64) {
        let features = self.store.features();
        // On an object store no crash destroys a manifest. A web server may serve files of any origin.
        if !features.put_is_durable || !features.uploads {
            self.mark = Some((self.store.submit(Request::Len { key: keys::mark(top + 1) }), top));
        }
    }

    fn durable(&self) -> bool {
        self.identity.durability == Durability::Durable
    }

    fn is_of_this_boot(&self, version: u64) -> Result<bool> {
        is_of_this_boot(self.store.as_ref(), &self.identity.uuid, version)
    }

    /// Handles a missing newest manifest: a hint, a mark or a log shows that there was one above all existing
    /// manifests.
    pub(super) fn newest_is_missing(&mut self, hint: Option<u64>, top: u64) -> Result<()> {
        let store = self.store.as_ref();
        let marked = newest_mark(store)?;
        let known = hint.unwrap_or(0).max(marked);
        let key = keys::manifest(top + 1);
        if known > top {
            // Marks are read after `top` was found, and commits and collections may have gone on in between. A lost
            // manifest is still missing; one that was committed since is there, or reads as a tombstone.
            if store.exists(&key)? {
                return Err(Error::not_found(format!("{key} was committed during the search")));
            }
            let flushed = marked > top || self.durable();
            let what = if flushed || self.is_of_this_boot(top)? {
                let then = if flushed { "was on stable storage" } else { "was committed in this boot" };
                let what = format!("{key} is missing although snapshot {known} {then}");
                let what = if flushed { what } else { format!("{what}: no power cut took it") };
                self.refuse_reading(&what)?;
                what
            } else {
                format!("snapshots {}..{known} are lost: they were not flushed before a crash", top + 1)
            };
            self.warnings.push(what.clone());
            self.losses.add(key, what, true);
            self.lost = Some(known);
        } else if top == 0 && hint.is_none() && has_log(store)? {
            // Blocks belong to variables, and creating a variable is a commit, so there was a manifest.
            let what =
                "no manifest is there, although writers have written: the folder \"manifest\" was lost";
            if self.durable() {
                self.refuse_reading(what)?;
            }
            let headers = loss::headers(store, &self.identity.uuid, usize::MAX)?;
            // Values may be written before the commit that creates their variables. Only the logs show whether there
            // was such a commit.
            let based = self.durable() || headers.iter().any(|(_, header)| header.base > 0);
            let this_boot = based && self.is_of_this_boot(0)?;
            if this_boot {
                self.refuse_reading(what)?;
            }
            if based {
                self.losses.add(key, what.into(), true);
            }
            let how = if this_boot { "" } else { ", or never reached the disk before a crash" };
            self.warnings.push(format!("{what}{how}; the container looks empty"));
        }
        Ok(())
    }

    /// Whether a snapshot is shown although bytes that it needs are missing. A power cut cannot have destroyed bytes
    /// that were flushed, or were written during this boot.
    pub(super) fn stays(&self, snapshot: &Snapshot) -> Result<bool> {
        let this_boot = snapshot
            .manifest
            .boot
            .as_deref()
            .is_some_and(|boot| loss::boot_of(self.store.as_ref()).is_some_and(|this| this == boot));
        Ok(this_boot || newest_mark(self.store.as_ref())? >= snapshot.version())
    }

    pub(super) fn is_not_whole(&mut self, snapshot: &Snapshot, missing: Vec<Missing>) {
        let (version, count) = (snapshot.version(), missing.len());
        let more = if count > 1 { format!(" (and {} more files)", count - 1) } else { String::new() };
        for (number, Missing { key, error }) in missing.into_iter().enumerate() {
            let message = format!("snapshot {version} is not whole, and no power cut did that: {error}");
            if number == 0 {
                self.warnings.push(format!("{message}{more}; reads that need it fail, see verify()"));
            }
            self.losses.add(key, message, false);
        }
    }

    /// The version to try next.
    pub(super) fn before(&self, version: u64) -> Result<u64> {
        Ok(match read_manifest(self.store.as_ref(), version, &self.identity.uuid) {
            Ok(manifest)
                if manifest.parent == 0 || self.store.exists(&keys::manifest(manifest.parent))? =>
            {
                manifest.parent
            }
            _ => below(self.store.as_ref(), version)?,
        })
    }

    /// Handles a version whose manifest cannot be read, so that it names no objects. Returns what is known about the
    /// cause, in words.
    pub(super) fn is_unreadable(&self, version: u64, failure: &Error) -> Result<&'static str> {
        let store = self.store.as_ref();
        if is_void(store, version) {
            return Ok(NOT_FLUSHED);
        }
        // A store that cannot list still shows the mark of this version.
        if self.durable() || newest_mark(store)? >= version || store.exists(&keys::mark(version))? {
            self.refuse_reading(&format!("snapshot {version} was flushed, but cannot be read: {failure}"))?;
            return Ok("although it was flushed");
        }
        if self.is_of_this_boot(version - 1)? {
            self.refuse_reading(&format!(
                "{failure}; it was committed in this boot, so no power cut did that"
            ))?;
            return Ok("and no power cut did that");
        }
        Ok(NOT_FLUSHED)
    }

    fn refuse_reading(&self, why: &str) -> Result<()> {
        if self.trust != Trust::Reading {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{why}; restore the file, open the remains with damaged=True (--damaged), or settle it with recover()"
        )))
    }

    /// Passes over a snapshot of which objects are missing.
    pub(super) fn pass_over(&mut self, version: u64, missing: Vec<Missing>) {
        self.pass_over_since(version, missing, NOT_FLUSHED);
    }

    pub(super) fn pass_over_since(&mut self, version: u64, missing: Vec<Missing>, cause: &str) {
        let is_void = is_void(self.store.as_ref(), version);
        for (number, Missing { key, error }) in missing.into_iter().enumerate() {
            let message = format!("snapshot {version} is passed over, {cause}: {error}");
            if number == 0 {
                self.warnings.push(format!("{message}; see recover()"));
            }
            if !is_void && !self.losses.found.iter().any(|loss| loss.key == key) {
                self.losses.add(key, message, true);
            }
        }
    }

    pub(super) fn end(
        mut self,
        snapshot: Snapshot,
        passed: Vec<Snapshot>,
        mut top: u64,
        mut gaps: Vec<u64>,
    ) -> Result<Head> {
        if let Some((mark, below)) = self.mark.take() {
            match mark.wait() {
                Ok(_) if self.lost.is_none() => self.newest_is_missing(Some(below + 1), below)?,
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A recovery commits above lost manifests, and puts voids for them.
        if let Some(lost) = self.lost.filter(|lost| self.trust == Trust::Writing && lost - top <= MANY_GAPS) {
            gaps.extend(top + 1..=lost);
            top = lost;
        }
        self.losses.steps = loss::given_up(&passed, &snapshot);
        if !self.losses.steps.is_empty() {
            let steps = loss::in_words(&self.losses.steps);
            self.warnings.push(format!("with the snapshots passed over {steps} cannot be seen"));
            for loss in self.losses.found.iter_mut().filter(|loss| loss.passed_over) {
                loss.message.push_str(&format!(" ({steps} cannot be seen)"));
            }
        }
        Ok(Head { snapshot, top, gaps, warnings: self.warnings, losses: self.losses })
    }
}

/// Whether the newest readable objects, up to a version, were written during this boot of the machine. Then no power
/// cut has destroyed what came after them.
pub(crate) fn is_of_this_boot(store: &dyn Store, uuid: &[u8; 16], version: u64) -> Result<bool> {
    let Some(boot) = loss::boot_of(store) else { return Ok(false) };
    let mut version = version;
    while version > 0 {
        match read_manifest(store, version, uuid) {
            Ok(manifest) => return Ok(manifest.boot.as_deref() == Some(boot)),
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) => {}
            Err(e) => return Err(e),
        }
        version = below(store, version)?;
    }
    let headers = loss::headers(store, uuid, loss::MOST_HEADERS)?;
    Ok(!headers.is_empty() && headers.iter().all(|(_, h)| writer_process::is_of_boot(&h.process, boot)))
}

/// Whether any writer has written. `false` if the store cannot list.
fn has_log(store: &dyn Store) -> Result<bool> {
    match store.list("log/") {
        Err(StoreError::Unsupported { .. }) => Ok(false),
        entries => Ok(!entries?.is_empty()),
    }
}

/// The newest version that a mark states as flushed.
pub(crate) fn newest_mark(store: &dyn Store) -> Result<u64> {
    listed(store, keys::parse_mark)
}

/// Loads one version and, unless it is marked, checks that the objects that it names exist. `file` holds the bytes of
/// the manifest, if they were read already.
pub(super) fn load(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (version, file): (u64, Option<Vec<u8>>),
    floors: &mut Floors<'_>,
) -> Result<(Snapshot, Vec<Missing>)> {
    if version == 0 {
        return Ok((Snapshot::empty(identity.uuid), Vec::new()));
    }
    let (manifest, file) = manifest_file(store.as_ref(), version, &identity.uuid, file)?;
    pages.hold(version, file);
    floors.ask();
    // If puts are durable, the objects that a manifest names reached stable storage before the manifest did.
    let may_be_lost = !store.features().put_is_durable;
    let checked = may_be_lost && !manifest.marked && identity.durability == Durability::Async;
    expect_pages(pages, &manifest, checked);
    let snapshot = Snapshot::load(manifest, pages)?;
    let missing = if checked { missing(store, pages, &snapshot)? } else { Vec::new() };
    Ok((snapshot, missing))
}

/// Hints the pages with which a snapshot is loaded and, if it is checked, those that the check reads.
fn expect_pages(pages: &PageLoader, manifest: &Manifest, checked: bool) {
    let sections = [&manifest.schema, &manifest.steps].into_iter().filter_map(|section| match section {
        Section::Page(page) => Some((*page, SECTION)),
        Section::Inline(_) => None,
    });
    let root = manifest.root.iter().map(|root| (root.page, INDEX));
    let sources = manifest.source_pages.iter().map(|page| (*page, SOURCES));
    let of_check = root.chain(sources).filter(|_| checked);
    pages.expect(&sections.chain(of_check).collect::<Vec<_>>());
}

/// The objects that a snapshot needs and that are missing or incomplete. Only names and lengths are checked, and the
/// root page is read.
fn missing(store: &Arc<dyn Store>, pages: &PageLoader, snapshot: &Snapshot) -> Result<Vec<Missing>> {
    let lost = |key: String, error: Error| match error.kind() {
        ErrorKind::Corrupt => Ok(Missing { key, error }),
        _ => Err(error),
    };
    let mut out = Vec::new();
    if let Some(root) = &snapshot.manifest.root {
        let page = match root.height {
            0 => pages.leaf(&root.page).map(|_| ()),
            _ => pages.branch(&root.page).map(|_| ()),
        };
        if let Err(error) = page {
            out.push(lost(keys::page_file(root.page.file), error)?);
        }
    }
    let sources = match snapshot.sources(pages) {
        Ok(sources) => sources,
        Err(error) => {
            out.push(lost("the source table".into(), error)?);
            return Ok(out);
        }
    };
    let sources: Vec<_> = sources.iter().filter(|s| s.kind == 0 && s.seg_length > 0).collect();
    // On a far store all lengths are requested together.
    let asked = sources.iter().map(|source| Request::Len { key: keys::segment(source.writer, source.part) });
    let replies = store.together(asked.collect());
    for (source, reply) in sources.iter().zip(replies) {
        let key = keys::segment(source.writer, source.part);
        match reply.map_err(must_exist) {
            Ok(Reply::Len { len }) if len < source.seg_length => {
                let error =
                    Error::corrupt(format!("{key} ends at byte {len}, {} are needed", source.seg_length));
                out.push(Missing { key, error });
            }
            Ok(_) => {}
            Err(error) => out.push(lost(key, error)?),
        }
    }
    Ok(out)
}
