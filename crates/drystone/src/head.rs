//! Finding the newest manifest (docs/format/manifest.md, "Marks, hint, and finding the newest").
//!
//! A power cut may take any manifest that was not flushed, also one below others: a gap, at which probing forward would end.
//! So a handle that may write looks for the highest number in a list, once, and closes gaps with *voids* before it commits or
//! marks anything.
//!
//! Invariants
//! - opening never falls back past a manifest known to be on stable storage, and never without a warning;
//! - under `durable` it never falls back at all;
//! - below a flush mark there are no gaps, so every hint leads beyond every mark.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use drystone_format::frame::{self, Kind, Next};
use drystone_format::identity::{self, Durability, Identity};
use drystone_format::keys;
use drystone_format::manifest::{MAX_MANIFEST, MAX_PAGES, Manifest};
use drystone_plan::tree::Pages;
use drystone_store::{PutMode, Reply, Request, Store, StoreError, StoreExt};

use crate::error::must_exist;
use crate::gc::GONE;
use crate::pages::PageLoader;
use crate::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// A power cut takes no more manifests than were made since the last flush; a list with larger holes is not of our making.
const MANY_GAPS: usize = 1 << 20;
/// Manifests with their pages are at most this long.
const MANIFEST_LIMIT: u64 = (MAX_PAGES + MAX_MANIFEST + 4096) as u64;

/// No identity is longer.
pub(crate) const IDENTITY_LIMIT: u64 = 64 << 10;

/// The content of a void: it stands for a manifest that a power cut took, or whose bytes it took.
const VOID: &[u8] = b"void";

/// The newest usable snapshot, and what had to be passed over to reach it.
pub(crate) struct Head {
    pub(crate) snapshot: Snapshot,
    /// Highest manifest number in the store, sound or not: the next commit goes above it.
    pub(crate) top: u64,
    /// Numbers below `top` and above every mark that are missing (known only if all were listed).
    pub(crate) gaps: Vec<u64>,
    pub(crate) warnings: Vec<String>,
}

/// Where to look for the newest manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// From the hint forward.
    Hint,
    /// From this number, or the hint, forward.
    From(u64),
    /// In a list of all: finds what lies beyond a gap.
    List,
}

/// Reads one manifest.
pub(crate) fn read_manifest(store: &dyn Store, version: u64, uuid: &[u8; 16]) -> Result<Manifest> {
    Ok(manifest_file(store, version, uuid)?.0)
}

/// Reads manifests one after the other, the newest first; those of a far store several at a time.
pub(crate) struct Manifests<'a> {
    store: &'a dyn Store,
    uuid: &'a [u8; 16],
    fetched: BTreeMap<u64, Vec<u8>>,
}

/// Manifests that are fetched together.
const TOGETHER: u64 = 32;

impl<'a> Manifests<'a> {
    pub(crate) fn new(store: &'a dyn Store, uuid: &'a [u8; 16]) -> Self {
        Manifests { store, uuid, fetched: BTreeMap::new() }
    }

    /// [`read_manifest`] of a version.
    pub(crate) fn read(&mut self, version: u64) -> Result<Manifest> {
        if self.store.features().far.is_none() {
            return read_manifest(self.store, version, self.uuid);
        }
        if !self.fetched.contains_key(&version) {
            let numbers = (version.saturating_sub(TOGETHER - 1).max(1)..=version).rev();
            let whole = |version| Request::ReadWhole { key: keys::manifest(version), limit: MANIFEST_LIMIT };
            let replies = self.store.together(numbers.clone().map(whole).collect());
            self.fetched.clear();
            for (number, reply) in numbers.zip(replies) {
                if let Ok(Reply::Whole { bytes: Ok(bytes) }) = reply {
                    self.fetched.insert(number, bytes);
                }
            }
        }
        match self.fetched.remove(&version) {
            Some(bytes) => Ok(manifest_of(bytes, version, self.uuid)?.0),
            // Reading it says what is wrong.
            None => read_manifest(self.store, version, self.uuid),
        }
    }
}

/// One manifest, and the file that it ends.
fn manifest_file(store: &dyn Store, version: u64, uuid: &[u8; 16]) -> Result<(Manifest, Vec<u8>)> {
    let key = keys::manifest(version);
    match store.read_all(&key, MANIFEST_LIMIT) {
        Ok(bytes) => manifest_of(bytes, version, uuid),
        Err(StoreError::NotFound { .. }) => {
            Err(Error::not_found(format!("there is no snapshot {version}: {key} is not there")))
        }
        Err(e) => Err(e.into()),
    }
}

/// The manifest that a file ends, and the file.
fn manifest_of(bytes: Vec<u8>, version: u64, uuid: &[u8; 16]) -> Result<(Manifest, Vec<u8>)> {
    let key = keys::manifest(version);
    if bytes == VOID {
        return Err(Error::not_found(format!(
            "snapshot {version} was lost in a power cut before it was flushed ({key} says so)"
        )));
    }
    if ends_gone(&bytes) {
        return Err(Error::not_found(format!(
            "snapshot {version} has expired: garbage collection removed it"
        )));
    }
    let manifest = Manifest::decode(&bytes).map_err(|c| Error::damaged(&key, 0, &c))?;
    if manifest.version != version || manifest.uuid != *uuid {
        return Err(Error::corrupt(format!(
            "{key} is damaged: it is manifest {} of another name or container",
            manifest.version
        )));
    }
    Ok((manifest, bytes))
}

/// Keeps `manifest/hint` near the newest manifest.
///
/// Renewing it at each commit would cost more than a small commit: a file made, another one freed. So it may lag: by at most [`LAG`]
/// commits of a handle while that lives ([`FAR_LAG`] where a probe is a look into a folder and no crash is followed by asking what is
/// lost), by none when it is closed. Probing from it makes that up.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    committed: AtomicU64,
    written: AtomicU64,
    /// The last one was submitted, and nobody has waited for it.
    unsure: AtomicBool,
    /// The process that committed: a forked child has nothing to settle for its parent.
    pid: AtomicU32,
}

const LAG: u64 = 8;
const FAR_LAG: u64 = 64;

impl Hint {
    /// A version was committed.
    pub(crate) fn committed(&self, store: &dyn Store, version: u64, durability: Durability) {
        let near = is_near(store, durability);
        let lag = if near { LAG } else { FAR_LAG };
        self.committed.fetch_max(version, Ordering::Relaxed);
        self.pid.store(drystone_store::process_id(), Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        if written == 0 || version >= written.saturating_add(lag) {
            // On a far store nobody waits for it: a round trip is longer than what a lagging hint costs.
            match store.features().far {
                Some(_) if near => self.submit(store, version),
                _ => self.write(store, version, near),
            }
        }
    }

    fn submit(&self, store: &dyn Store, version: u64) {
        let data = identity::encode_hint(version);
        let (key, mode) = (keys::HINT.into(), PutMode::Replace);
        drop(store.submit(Request::Put { key, data, mode, sync: false }));
        self.unsure.store(true, Ordering::Relaxed);
        self.written.fetch_max(version, Ordering::Relaxed);
    }

    /// Nothing more is to be expected.
    pub(crate) fn settle(&self, store: &dyn Store, durability: Durability) {
        let committed = self.committed.load(Ordering::Relaxed);
        let behind = committed > self.written.load(Ordering::Relaxed);
        if (behind || self.unsure.swap(false, Ordering::Relaxed))
            && self.pid.load(Ordering::Relaxed) == drystone_store::process_id()
        {
            self.write(store, committed, is_near(store, durability));
        }
    }

    /// A failure costs only time at the next open, and so does a moment without a hint: ext4 begins to write a file to the device when it
    /// takes another's name, which takes several times as long as to remove the one and make the other.
    fn write(&self, store: &dyn Store, version: u64, near: bool) {
        let mode = if near { PutMode::Replace } else { PutMode::IfAbsent };
        if !near {
            let _ = store.delete(keys::HINT);
        }
        let _ = store.put(keys::HINT, &[&identity::encode_hint(version)], mode, false);
        self.written.fetch_max(version, Ordering::Relaxed);
    }
}

/// Under `durable` a hint above all manifests is evidence that one was lost; without append a probe is a request.
fn is_near(store: &dyn Store, durability: Durability) -> bool {
    durability == Durability::Durable || !store.features().append
}

/// Tells the store that [`find`] comes next: the hint may be fetched while the identity is read.
pub(crate) fn expect(store: &dyn Store) {
    drop(store.submit(Request::Expect { key: keys::HINT.into(), ranges: vec![(0, 1)] }));
}

/// The identity and the hint of a far store, fetched at once. `None`: the store is not far, and they are read one after the other.
pub(crate) fn begin(store: &dyn Store) -> Option<(drystone_store::Result<Vec<u8>>, Option<u64>)> {
    store.features().far?;
    let whole = |key: &str, limit| Request::ReadWhole { key: key.into(), limit };
    let asked = vec![whole(keys::IDENTITY, IDENTITY_LIMIT), whole(keys::HINT, 64)];
    let [identity, hint] = <[_; 2]>::try_from(store.together(asked)).ok()?;
    let hint = match hint {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => identity::decode_hint(&bytes),
        _ => None,
    };
    match identity {
        Ok(Reply::Whole { bytes: Ok(bytes) }) => Some((Ok(bytes), hint)),
        // Longer than any identity; reading it says so.
        Ok(_) => None,
        Err(e) => Some((Err(e), hint)),
    }
}

/// Manifests that are read together at first: the one that is thought to be the newest, and those behind it.
const FIRST: u64 = 3;
/// More of them are asked for at once, only whether they are there: twice as many each time, from the first number to the second.
const PROBES: (u64, u64) = (8, 64);

/// The newest manifest of a far store from `from` on, with its bytes if they were read; manifests are asked for several at a time. `None`:
/// `from` is not there, or larger than a manifest can be.
fn probe(store: &dyn Store, from: u64) -> Result<Option<(u64, Option<Vec<u8>>)>> {
    let (mut found, mut next) = (None, from);
    let whole = |version| Request::ReadWhole { key: keys::manifest(version), limit: MANIFEST_LIMIT };
    for reply in store.together((from..from.saturating_add(FIRST)).map(whole).collect()) {
        match reply {
            Ok(Reply::Whole { bytes: Ok(bytes) }) => found = Some((next, Some(bytes))),
            Err(StoreError::NotFound { .. }) => return Ok(found),
            Err(e) => return Err(e.into()),
            Ok(_) => return Ok(None),
        }
        next = next.saturating_add(1);
    }
    // It is behind by more than a commit or two: perhaps the hint is not.
    if let Some(hint) = read_hint(store).filter(|hint| *hint > next)
        && store.exists(&keys::manifest(hint))?
    {
        (found, next) = (Some((hint, None)), hint.saturating_add(1));
    }
    let mut many = PROBES.0;
    loop {
        let len = |version| Request::Len { key: keys::manifest(version) };
        for reply in store.together((next..next.saturating_add(many)).map(len).collect()) {
            match reply {
                Ok(_) => found = Some((next, None)),
                Err(StoreError::NotFound { .. }) => return Ok(found),
                Err(e) => return Err(e.into()),
            }
            next = next.saturating_add(1);
        }
        many = (many * 2).min(PROBES.1);
    }
}

fn read_hint(store: &dyn Store) -> Option<u64> {
    let bytes = store.read_all(keys::HINT, 64).ok()?;
    identity::decode_hint(&bytes)
}

/// A tombstone: whole frames, each a multiple of 8 bytes long, and the mark.
fn ends_gone(bytes: &[u8]) -> bool {
    bytes.len() % 8 == GONE.len() && bytes.ends_with(GONE)
}

/// Does a tombstone stand for this version?
pub(crate) fn is_gone(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), MANIFEST_LIMIT).is_ok_and(|bytes| ends_gone(&bytes))
}

/// The pages in front of a manifest, or of the tombstone in its place.
pub(crate) fn pages_of(store: &dyn Store, version: u64) -> Result<Vec<u8>> {
    let key = keys::manifest(version);
    let mut bytes = store.read_all(&key, MANIFEST_LIMIT).map_err(must_exist)?;
    let (mut at, mut ordinal) = (0u64, 0u64);
    loop {
        match frame::next(&bytes, at, ordinal) {
            Next::Frame { header, end, .. } if header.kind != Kind::Manifest => {
                (at, ordinal) = (end, ordinal + 1)
            }
            Next::Frame { .. } => break,
            _ if bytes.get(at as usize..) == Some(GONE.as_slice()) => break,
            Next::Torn(c) => return Err(Error::damaged(&key, at, &c)),
            Next::End => return Err(Error::corrupt(format!("{key} is damaged: it ends without a manifest"))),
        }
    }
    bytes.truncate(at as usize);
    Ok(bytes)
}

/// Does a void stand for this version?
pub(crate) fn is_void(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), VOID.len() as u64).is_ok_and(|bytes| bytes == VOID)
}

/// Puts a void for a version whose manifest is missing, or (`replace`) not readable and given up.
pub(crate) fn put_void(store: &dyn Store, version: u64, replace: bool) -> Result<()> {
    let mode = if replace { PutMode::Replace } else { PutMode::IfAbsent };
    match store.put(&keys::manifest(version), &[VOID], mode, false) {
        Ok(()) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Highest manifest number by probing forward.
fn top(store: &dyn Store, hint: Option<u64>, look: Look) -> Result<u64> {
    let from = if let Look::From(known) = look { known } else { 0 };
    let mut version = match hint {
        Some(v) if v <= from => from,
        Some(v) if store.exists(&keys::manifest(v))? => v,
        _ if from > 0 => from,
        _ => listed(store, keys::parse_manifest)?,
    };
    while store.exists(&keys::manifest(version + 1))? {
        version += 1;
    }
    Ok(version)
}

/// 0 also where nothing can be listed: behind a web server, where every commit that was closed has left a hint, and probing finds the rest.
fn listed(store: &dyn Store, parse: impl Fn(&str) -> Option<u64>) -> Result<u64> {
    let entries = match store.list("manifest/") {
        Err(StoreError::Unsupported { .. }) => return Ok(0),
        entries => entries?,
    };
    Ok(entries.iter().filter_map(|e| parse(&e.key)).max().unwrap_or(0))
}

/// The greatest manifest number below `version` that is listed; 0 if there is none.
pub(crate) fn below(store: &dyn Store, version: u64) -> Result<u64> {
    listed(store, |key| keys::parse_manifest(key).filter(|v| *v < version))
}

/// Is there a manifest above `version`?
pub(crate) fn has_newer(store: &dyn Store, version: u64) -> Result<bool> {
    Ok(store.exists(&keys::manifest(version + 1))?)
}

/// Looks so often for a newest snapshot that does not expire before it is loaded.
const TRIES: usize = 1000;

/// Finds the newest snapshot.
pub(crate) fn find(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    look: Look,
    mut hint: Option<Option<u64>>,
) -> Result<Head> {
    let mut tries = 0;
    loop {
        match find_once(store, pages, identity, look, hint.take()) {
            Err(e) if e.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

fn find_once(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    look: Look,
    hint: Option<Option<u64>>,
) -> Result<Head> {
    let durable = identity.durability == Durability::Durable;
    let is_far = store.features().far.is_some();
    let hint = match look {
        // It has been seen, so no hint can be above all manifests. Asking from there takes one round trip.
        Look::From(from) if is_far && from > 0 => Some(from),
        _ => hint.unwrap_or_else(|| read_hint(store.as_ref())),
    };
    let mut known = None;
    if let Some(from) = hint.filter(|from| is_far && look != Look::List && *from > 0) {
        known = probe(store.as_ref(), from)?;
    }
    let mut gaps = Vec::new();
    let top = if look == Look::List {
        let (mut numbers, mut marked) = (Vec::new(), 0);
        for item in store.list("manifest/")? {
            numbers.extend(keys::parse_manifest(&item.key));
            marked = keys::parse_mark(&item.key).unwrap_or(0).max(marked);
        }
        let mut next = marked.max(numbers.first().map_or(0, |n| n - 1)) + 1;
        for &number in numbers.iter().filter(|n| **n > marked) {
            gaps.extend((next..number).take(MANY_GAPS - gaps.len().min(MANY_GAPS)));
            next = number + 1;
        }
        numbers.last().copied().unwrap_or(0)
    } else {
        match &known {
            Some((version, _)) => *version,
            None => top(store.as_ref(), hint, look)?,
        }
    };
    let mut warnings = Vec::new();
    if hint.is_none_or(|h| h > top) {
        let marked = newest_mark(store.as_ref())?;
        let known = hint.unwrap_or(0).max(marked);
        if marked > top || (durable && known > top) {
            return Err(Error::corrupt(format!(
                "{} is missing although snapshot {known} was on stable storage; restore it from a backup",
                keys::manifest(top + 1)
            )));
        }
        if known > top {
            warnings.push(format!(
                "snapshots {}..{known} are lost: they were not flushed before a crash",
                top + 1
            ));
        }
    }
    if top == 0 && hint.is_none() && has_log(store.as_ref())? {
        // Blocks belong to variables, and creating one is a commit: there was a manifest.
        let what = "no manifest is there, although writers have written: the folder \"manifest\" was lost";
        if durable {
            return Err(Error::corrupt(format!("{what}; restore it from a backup")));
        }
        warnings.push(format!("{what}, or never reached the disk before a crash; the container looks empty"));
    }
    let mut version = top;
    loop {
        let file = known.take().filter(|(of, _)| *of == version).and_then(|(_, bytes)| bytes);
        let failure = match load(store, pages, identity, version, file) {
            Ok(snapshot) => return Ok(Head { snapshot, top, gaps, warnings }),
            // A collection was faster; there is a newer one.
            Err(_) if is_gone(store.as_ref(), version) => {
                return Err(Error::not_found(format!("snapshot {version} has expired")));
            }
            Err(e) if e.kind() == ErrorKind::Corrupt || is_void(store.as_ref(), version) => e,
            Err(e) => return Err(e),
        };
        if durable || version == 0 {
            return Err(Error::corrupt(failure.to_string()));
        }
        if newest_mark(store.as_ref())? >= version {
            return Err(failure.while_doing(format!("snapshot {version} was flushed, but cannot be read")));
        }
        warnings.push(format!(
            "snapshot {version} is passed over, it was not flushed before a crash: {failure}; see recover()"
        ));
        version = match read_manifest(store.as_ref(), version, &identity.uuid) {
            Ok(manifest) if manifest.parent == 0 || store.exists(&keys::manifest(manifest.parent))? => {
                manifest.parent
            }
            _ => below(store.as_ref(), version)?,
        };
    }
}

/// Whether writers have written; not where nothing can be listed.
fn has_log(store: &dyn Store) -> Result<bool> {
    match store.list("log/") {
        Err(StoreError::Unsupported { .. }) => Ok(false),
        entries => Ok(!entries?.is_empty()),
    }
}

/// The newest version that a mark says was flushed.
pub(crate) fn newest_mark(store: &dyn Store) -> Result<u64> {
    listed(store, keys::parse_mark)
}

/// Loads one version and, unless it is marked, checks that what it names survived.
/// `file`: the bytes of the manifest, where they were read already.
fn load(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    version: u64,
    file: Option<Vec<u8>>,
) -> Result<Snapshot> {
    if version == 0 {
        return Ok(Snapshot::empty(identity.uuid));
    }
    let (manifest, file) = match file {
        Some(bytes) => manifest_of(bytes, version, &identity.uuid)?,
        None => manifest_file(store.as_ref(), version, &identity.uuid)?,
    };
    pages.hold(version, file);
    let snapshot = Snapshot::load(manifest, pages)?;
    // Where puts are durable, what a manifest names was there for good before the manifest was.
    let may_be_lost = !store.features().put_is_durable;
    if may_be_lost && !snapshot.manifest.marked && identity.durability == Durability::Async {
        check_survived(store, pages, &snapshot)?;
    }
    Ok(snapshot)
}

fn check_survived(store: &Arc<dyn Store>, pages: &PageLoader, snapshot: &Snapshot) -> Result<()> {
    if let Some(root) = &snapshot.manifest.root {
        if root.height == 0 {
            pages.leaf(&root.page)?;
        } else {
            pages.branch(&root.page)?;
        }
    }
    for source in snapshot.sources(pages)?.iter().filter(|s| s.kind == 0 && s.seg_length > 0) {
        let key = keys::segment(source.writer, source.part);
        let len = store.len(&key).map_err(must_exist)?;
        if len < source.seg_length {
            return Err(Error::corrupt(format!(
                "{key} ends at byte {len}, {} are needed",
                source.seg_length
            )));
        }
    }
    Ok(())
}
