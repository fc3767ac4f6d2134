//! Finding the newest manifest (docs/format/manifest.md, "Marks, hint, and finding the newest").
//!
//! A power cut may destroy any manifest that was not flushed, even one with newer ones above it. Such a gap would stop
//! a forward probe too early. A handle that may write therefore lists all numbers once, and fills gaps with *voids*
//! before it commits or marks anything.
//!
//! Invariants
//! - opening never falls back past a manifest known to be on stable storage, and never without a warning;
//! - under `durable` it never falls back at all;
//! - below a flush mark there are no gaps, so every hint leads beyond every mark.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use drystone_format::frame::{self, FrameKind, Next};
use drystone_format::identity::{self, Durability, Identity};
use drystone_format::keys;
use drystone_format::manifest::Manifest;
use drystone_plan::tree::Pages;
use drystone_store::{Pending, PutMode, Reply, Request, Store, StoreError, StoreExt};

use super::loss::{self, Losses, Trust};
use super::packs::{GONE, Packed};
use super::pages::PageLoader;
pub(crate) use super::probing::MANIFEST_LIMIT;
use super::probing::{Floors, probe, read_hint, take_floor};
use super::snapshot::Snapshot;
use crate::base::error::must_exist;
use crate::base::{random, writer_process};
use crate::{Error, ErrorKind, Result};

/// A power cut destroys no more manifests than were written since the last flush; a list with larger gaps was not
/// written by this program.
const MANY_GAPS: usize = 1 << 20;
/// No identity is longer.
pub(crate) const IDENTITY_LIMIT: u64 = 64 << 10;

/// The content of a void, which stands for a manifest that a power cut destroyed.
const VOID: &[u8] = b"void";

/// The newest usable snapshot, and what was passed over to reach it.
pub(crate) struct Head {
    pub(crate) snapshot: Snapshot,
    /// Highest manifest number in the store, readable or not: the next commit goes above it.
    pub(crate) top: u64,
    /// Missing numbers below `top` and above every mark (known only if all were listed).
    pub(crate) gaps: Vec<u64>,
    pub(crate) warnings: Vec<String>,
    /// What was lost on the way.
    pub(crate) losses: Losses,
}

/// Where to look for the newest manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// From the hint forward.
    Hint,
    /// Forward from this number, or from the hint.
    From(u64),
    /// In a list of all manifests, which also finds those beyond a gap.
    List,
}

/// Reads one manifest.
pub(crate) fn read_manifest(store: &dyn Store, version: u64, uuid: &[u8; 16]) -> Result<Manifest> {
    Ok(manifest_file(store, version, uuid)?.0)
}

/// Reads manifests in order, the newest first; from a far store several at a time.
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

    /// Reads the manifest of a version, as [`read_manifest`] does.
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
            // The read itself reports the error.
            None => read_manifest(self.store, version, self.uuid),
        }
    }
}

/// One manifest, and the file at whose end it stands.
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

/// The manifest at the end of a file, and the file.
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
/// Writing the hint at each commit would cost more than a small commit: one file created, another one freed. So the
/// hint may lag: by at most [`LAG`] commits while the handle is open ([`FAR_LAG`] where a probe is a look into a folder
/// and a crash does not require a search for losses), and not at all after it is closed. Probing forward from the hint
/// finds the rest.
#[derive(Debug, Default)]
pub(crate) struct Hint {
    committed: AtomicU64,
    written: AtomicU64,
    /// The last hint was submitted, and its completion was not awaited.
    unsure: AtomicBool,
    /// When it was submitted last, in nanoseconds since 1970.
    submitted: AtomicU64,
    /// The process that committed: a forked child has nothing to settle for its parent.
    pid: AtomicU32,
}

const LAG: u64 = 8;
const FAR_LAG: u64 = 64;
/// The least time between two hints on a far store, in nanoseconds: Google Cloud Storage takes about one write per
/// second to one key.
const PAUSE: u64 = 1_000_000_000;

impl Hint {
    /// A version was committed.
    pub(crate) fn committed(&self, store: &dyn Store, version: u64, durability: Durability) {
        let near = is_near(store, durability);
        let lag = if near { LAG } else { FAR_LAG };
        self.committed.fetch_max(version, Ordering::Relaxed);
        self.pid.store(drystone_store::process_id(), Ordering::Relaxed);
        let written = self.written.load(Ordering::Relaxed);
        if written == 0 || version >= written.saturating_add(lag) {
            // On a far store the hint is not awaited: a round trip takes longer than what a lagging hint costs.
            match store.features().far {
                Some(_) if near => {
                    let now = random::now();
                    if now.saturating_sub(self.submitted.load(Ordering::Relaxed)) >= PAUSE {
                        self.submitted.store(now, Ordering::Relaxed);
                        drop(self.submit(store, version));
                    }
                }
                _ => self.write(store, version, near),
            }
        }
    }

    fn submit(&self, store: &dyn Store, version: u64) -> Pending {
        let data = identity::encode_hint(version);
        let (key, mode) = (keys::HINT.into(), PutMode::Replace);
        self.unsure.store(true, Ordering::Relaxed);
        self.written.fetch_max(version, Ordering::Relaxed);
        store.submit(Request::Put { key, data, mode, sync: false })
    }

    /// The request for what [`settle`](Self::settle) would write to a far store; the caller waits for it. `None`: there
    /// is nothing to write.
    pub(crate) fn last(&self, store: &dyn Store) -> Option<Pending> {
        let owed = store.features().far.is_some() && self.is_owed();
        owed.then(|| {
            let put = self.submit(store, self.committed.load(Ordering::Relaxed));
            self.unsure.store(false, Ordering::Relaxed);
            put
        })
    }

    /// Whether this process has committed through the handle.
    pub(crate) fn is_ours(&self) -> bool {
        self.committed.load(Ordering::Relaxed) > 0
            && self.pid.load(Ordering::Relaxed) == drystone_store::process_id()
    }

    /// Whether [`settle`](Self::settle) would write.
    pub(crate) fn is_owed(&self) -> bool {
        let behind = self.committed.load(Ordering::Relaxed) > self.written.load(Ordering::Relaxed);
        (behind || self.unsure.load(Ordering::Relaxed))
            && self.pid.load(Ordering::Relaxed) == drystone_store::process_id()
    }

    /// Writes the hint if it lags: the handle makes no further commits.
    pub(crate) fn settle(&self, store: &dyn Store, durability: Durability) {
        if self.is_owed() {
            self.unsure.store(false, Ordering::Relaxed);
            self.write(store, self.committed.load(Ordering::Relaxed), is_near(store, durability));
        }
    }

    /// Writes the hint anew after a recovery has dealt with a hint above all manifests.
    pub(crate) fn renew(&self, store: &dyn Store, version: u64, durability: Durability) {
        self.write(store, version, is_near(store, durability));
    }

    /// A failure costs only time at the next open, and so does a moment without a hint. The old file is removed first:
    /// ext4 starts to write a file to the device when it replaces another by a rename, which takes several times as
    /// long as to remove one and create the other.
    fn write(&self, store: &dyn Store, version: u64, near: bool) {
        let mode = if near { PutMode::Replace } else { PutMode::IfAbsent };
        if !near {
            let _ = store.delete(keys::HINT);
        }
        let _ = store.put(keys::HINT, &[&identity::encode_hint(version)], mode, false);
        self.written.fetch_max(version, Ordering::Relaxed);
    }
}

/// Whether the hint must be close to the newest manifest. Under `durable` a hint above all manifests proves that one
/// was lost; in a store without append each probe is a request.
fn is_near(store: &dyn Store, durability: Durability) -> bool {
    durability == Durability::Durable || !store.features().append
}

/// Announces to the store that [`find`] comes next: the hint may be fetched while the identity is read.
pub(crate) fn expect(store: &dyn Store) {
    drop(store.submit(Request::Expect { key: keys::HINT.into(), ranges: vec![(0, 1)] }));
}

/// The identity and the hint of a far store, fetched together. `None`: the store is not far, and they are read one
/// after the other.
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
        // It is longer than any identity; reading it reports that.
        Ok(_) => None,
        Err(e) => Some((Err(e), hint)),
    }
}

/// Whether these bytes are a tombstone: whole frames, each a multiple of 8 bytes long, and the mark.
fn ends_gone(bytes: &[u8]) -> bool {
    bytes.len() % 8 == GONE.len() && bytes.ends_with(GONE)
}

/// Whether a tombstone stands for this version.
pub(crate) fn is_gone(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), MANIFEST_LIMIT).is_ok_and(|bytes| ends_gone(&bytes))
}

/// The pages that precede a manifest, or the tombstone in its place.
pub(crate) fn pages_of(store: &dyn Store, version: u64) -> Result<Vec<u8>> {
    let key = keys::manifest(version);
    let mut bytes = store.read_all(&key, MANIFEST_LIMIT).map_err(must_exist)?;
    let (mut at, mut ordinal) = (0u64, 0u64);
    loop {
        match frame::next(&bytes, at, ordinal) {
            Next::Frame { header, end, .. } if header.kind != FrameKind::Manifest => {
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

/// Whether a void stands for this version.
pub(crate) fn is_void(store: &dyn Store, version: u64) -> bool {
    store.read_all(&keys::manifest(version), VOID.len() as u64).is_ok_and(|bytes| bytes == VOID)
}

/// Puts a void for a version whose manifest is missing, or (`replace`) unreadable and abandoned.
pub(crate) fn put_void(store: &dyn Store, version: u64, replace: bool) -> Result<()> {
    let mode = if replace { PutMode::Replace } else { PutMode::IfAbsent };
    match store.put(&keys::manifest(version), &[VOID], mode, false) {
        Ok(()) | Err(StoreError::AlreadyExists { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The highest manifest number, found by probing forward.
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

/// The highest manifest number in a list; 0 where the store cannot list. That is the case behind a web server, where
/// every closed writer has left a hint, from which probing finds the rest.
fn listed(store: &dyn Store, parse: impl Fn(&str) -> Option<u64>) -> Result<u64> {
    let entries = match store.list("manifest/") {
        Err(StoreError::Unsupported { .. }) => return Ok(0),
        entries => entries?,
    };
    Ok(entries.iter().filter_map(|e| parse(&e.key)).max().unwrap_or(0))
}

/// The greatest listed manifest number below `version`; 0 if there is none.
pub(crate) fn below(store: &dyn Store, version: u64) -> Result<u64> {
    listed(store, |key| keys::parse_manifest(key).filter(|v| *v < version))
}

/// Whether there is a manifest above `version`.
pub(crate) fn has_newer(store: &dyn Store, version: u64) -> Result<bool> {
    Ok(store.exists(&keys::manifest(version + 1))?)
}

/// The most attempts to find a newest snapshot that does not expire before it is loaded.
const TRIES: usize = 1000;

/// Finds the newest snapshot. `hint` is `None` where it was not read yet; `packs` is the store if manifests may be
/// packed.
pub(crate) fn find(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (look, mut hint): (Look, Option<Option<u64>>),
    trust: Trust,
    packs: Option<&Packed>,
) -> Result<Head> {
    // In other stores every answer takes packs into account.
    let packs = packs.filter(|_| store.features().far.is_some());
    let mut tries = 0;
    loop {
        let mut floors = Floors { packs, rests_on: 0, is_settled: false };
        let found = find_once(store, pages, identity, (look, hint.take()), (trust, &mut floors));
        match found {
            Err(e) if e.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
            // It was packed during the search.
            Ok(_) if !floors.hold()? && tries < TRIES => tries += 1,
            other => return other,
        }
    }
}

fn find_once(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (look, hint): (Look, Option<Option<u64>>),
    (trust, floors): (Trust, &mut Floors<'_>),
) -> Result<Head> {
    let is_far = store.features().far.is_some();
    let mut hint = match look {
        // This manifest exists, so no hint can be above all manifests. Asking from here takes one round trip.
        Look::From(from) if is_far && from > 0 => Some(from),
        _ => hint.unwrap_or_else(|| read_hint(store.as_ref())),
    };
    let probes = is_far && look != Look::List;
    if let Some(packs) = floors.packs.filter(|_| !probes || hint.is_none_or(|from| from == 0)) {
        // There is no request with which the floor could be fetched.
        floors.rests_on = packs.look()?.version;
        hint = if floors.rests_on > 0 { Some(hint.unwrap_or(0).max(floors.rests_on)) } else { hint };
    }
    let mut known = None;
    if let Some(from) = hint.filter(|from| probes && *from > 0) {
        (known, floors.rests_on) = probe(store.as_ref(), from, floors.packs)?;
        hint = Some(from.max(floors.rests_on));
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
    let mut way = Way { store, identity, trust, warnings: Vec::new(), losses: Losses::default() };
    if hint.is_none_or(|h| h > top) {
        way.newest_is_missing(hint, top)?;
    }
    let mut passed = Vec::new();
    let mut version = top;
    loop {
        let file = known.take().filter(|(of, _)| *of == version).and_then(|(_, bytes)| bytes);
        let failure = match load(store, pages, identity, (version, file), floors) {
            Ok((snapshot, missing)) if missing.is_empty() => return Ok(way.end(snapshot, passed, top, gaps)),
            Ok(_) if is_gone(store.as_ref(), version) => {
                return Err(Error::not_found(format!("snapshot {version} has expired")));
            }
            Ok((snapshot, missing)) if way.stays(&snapshot)? => {
                way.is_not_whole(&snapshot, missing);
                return Ok(way.end(snapshot, passed, top, gaps));
            }
            Ok((snapshot, missing)) => {
                passed.push(snapshot);
                way.pass_over(version, missing);
                version = way.before(version)?;
                continue;
            }
            // A garbage collection was faster; there is a newer one.
            Err(_) if is_gone(store.as_ref(), version) => {
                return Err(Error::not_found(format!("snapshot {version} has expired")));
            }
            Err(e) if e.kind() == ErrorKind::Corrupt || is_void(store.as_ref(), version) => {
                way.is_unreadable(version, &e)?;
                e
            }
            Err(e) => return Err(e),
        };
        way.pass_over(version, vec![Missing { key: keys::manifest(version), error: failure }]);
        version = way.before(version)?;
    }
}

/// An object that a snapshot needs and that is missing or incomplete.
struct Missing {
    key: String,
    error: Error,
}

/// The descent from the newest manifest to one that can be shown: what is refused, and what is reported.
struct Way<'a> {
    store: &'a Arc<dyn Store>,
    identity: &'a Identity,
    trust: Trust,
    warnings: Vec<String>,
    losses: Losses,
}

impl Way<'_> {
    fn durable(&self) -> bool {
        self.identity.durability == Durability::Durable
    }

    fn is_of_this_boot(&self, version: u64) -> Result<bool> {
        is_of_this_boot(self.store.as_ref(), &self.identity.uuid, version)
    }

    /// A hint, a mark or a log shows that there was a manifest above all existing ones.
    fn newest_is_missing(&mut self, hint: Option<u64>, top: u64) -> Result<()> {
        let store = self.store.as_ref();
        let marked = newest_mark(store)?;
        let known = hint.unwrap_or(0).max(marked);
        let key = keys::manifest(top + 1);
        if known > top {
            if marked > top || self.durable() {
                let what = format!("{key} is missing although snapshot {known} was on stable storage");
                self.refuse(&format!("{what}; restore it from a backup"))?;
                self.losses.add(key, what, true);
            } else if self.is_of_this_boot(top)? {
                let what = format!(
                    "{key} is missing although snapshot {known} was committed in this boot: no power cut took it"
                );
                self.refuse_reading(&what)?;
                self.losses.add(key, what, true);
            } else {
                let what =
                    format!("snapshots {}..{known} are lost: they were not flushed before a crash", top + 1);
                self.losses.add(key, what, true);
            }
            self.warnings.extend(self.losses.found.last().map(|loss| loss.message.clone()));
        } else if top == 0 && hint.is_none() && has_log(store)? {
            // Blocks belong to variables, and creating one is a commit: there was a manifest.
            let what =
                "no manifest is there, although writers have written: the folder \"manifest\" was lost";
            if self.durable() {
                self.refuse(&format!("{what}; restore it from a backup"))?;
            }
            let headers = loss::headers(store, &self.identity.uuid, usize::MAX)?;
            // Values may be written before the commit that creates their variables: only the logs show whether there
            // was one.
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

    /// Whether a snapshot is shown although bytes that it needs are missing. A power cut cannot have destroyed what was
    /// flushed, or written during this boot.
    fn stays(&self, snapshot: &Snapshot) -> Result<bool> {
        let this_boot = snapshot
            .manifest
            .boot
            .as_deref()
            .is_some_and(|boot| loss::boot_of(self.store.as_ref()).is_some_and(|this| this == boot));
        Ok(this_boot || newest_mark(self.store.as_ref())? >= snapshot.version())
    }

    fn is_not_whole(&mut self, snapshot: &Snapshot, missing: Vec<Missing>) {
        let (version, count) = (snapshot.version(), missing.len());
        let more = if count > 1 { format!(" (and {} more files)", count - 1) } else { String::new() };
        for (number, Missing { key, error }) in missing.into_iter().enumerate() {
            let message = format!("snapshot {version} is not whole, and no power cut did that: {error}");
            if number == 0 {
                self.warnings.push(format!("{message}{more}; what needs it cannot be read, see verify()"));
            }
            self.losses.add(key, message, false);
        }
    }

    /// The version to try next.
    fn before(&self, version: u64) -> Result<u64> {
        Ok(match read_manifest(self.store.as_ref(), version, &self.identity.uuid) {
            Ok(manifest)
                if manifest.parent == 0 || self.store.exists(&keys::manifest(manifest.parent))? =>
            {
                manifest.parent
            }
            _ => below(self.store.as_ref(), version)?,
        })
    }

    /// What is left of a version names no objects.
    fn is_unreadable(&self, version: u64, failure: &Error) -> Result<()> {
        if version == 0 || self.durable() {
            if version > 0 && self.trust == Trust::Damaged {
                return Ok(());
            }
            return Err(Error::corrupt(failure.to_string()));
        }
        if is_void(self.store.as_ref(), version) {
            return Ok(());
        }
        if newest_mark(self.store.as_ref())? >= version {
            let flushed = format!("snapshot {version} was flushed, but cannot be read: {failure}");
            return self.refuse(&flushed);
        }
        if self.trust == Trust::Reading && self.is_of_this_boot(version - 1)? {
            self.refuse_reading(&format!(
                "{failure}; it was committed in this boot, so no power cut did that"
            ))?;
        }
        Ok(())
    }

    fn refuse(&self, why: &str) -> Result<()> {
        if self.trust == Trust::Damaged { Ok(()) } else { Err(Error::corrupt(why)) }
    }

    fn refuse_reading(&self, why: &str) -> Result<()> {
        if self.trust != Trust::Reading {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "{why}; restore the file, open what is left with damaged=True (--damaged), or settle it with recover()"
        )))
    }

    fn pass_over(&mut self, version: u64, missing: Vec<Missing>) {
        let is_void = is_void(self.store.as_ref(), version);
        for (number, Missing { key, error }) in missing.into_iter().enumerate() {
            let message =
                format!("snapshot {version} is passed over, it was not flushed before a crash: {error}");
            if number == 0 {
                self.warnings.push(format!("{message}; see recover()"));
            }
            if !is_void && !self.losses.found.iter().any(|loss| loss.key == key) {
                self.losses.add(key, message, true);
            }
        }
    }

    fn end(mut self, snapshot: Snapshot, passed: Vec<Snapshot>, top: u64, gaps: Vec<u64>) -> Head {
        self.losses.steps = loss::given_up(&passed, &snapshot);
        if !self.losses.steps.is_empty() {
            let steps = loss::in_words(&self.losses.steps);
            self.warnings.push(format!("with the snapshots passed over {steps} cannot be seen"));
            for loss in self.losses.found.iter_mut().filter(|loss| loss.passed_over) {
                loss.message.push_str(&format!(" ({steps} cannot be seen)"));
            }
        }
        Head { snapshot, top, gaps, warnings: self.warnings, losses: self.losses }
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

/// Whether any writer has written; false where the store cannot list.
fn has_log(store: &dyn Store) -> Result<bool> {
    match store.list("log/") {
        Err(StoreError::Unsupported { .. }) => Ok(false),
        entries => Ok(!entries?.is_empty()),
    }
}

/// The newest version that a mark shows as flushed.
pub(crate) fn newest_mark(store: &dyn Store) -> Result<u64> {
    listed(store, keys::parse_mark)
}

/// Loads one version and, unless it is marked, checks that the objects that it names exist. `file`: the bytes of the
/// manifest, if they were read already.
fn load(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    identity: &Identity,
    (version, file): (u64, Option<Vec<u8>>),
    floors: &mut Floors<'_>,
) -> Result<(Snapshot, Vec<Missing>)> {
    if version == 0 {
        return Ok((Snapshot::empty(identity.uuid), Vec::new()));
    }
    let (manifest, file) = match file {
        Some(bytes) => manifest_of(bytes, version, &identity.uuid)?,
        None => manifest_file(store.as_ref(), version, &identity.uuid)?,
    };
    pages.hold(version, file);
    let snapshot = Snapshot::load(manifest, pages)?;
    // Where puts are durable, the objects that a manifest names reached stable storage before the manifest did.
    let may_be_lost = !store.features().put_is_durable;
    let checked = may_be_lost && !snapshot.manifest.marked && identity.durability == Durability::Async;
    let missing = if checked { missing(store, pages, &snapshot, floors)? } else { Vec::new() };
    Ok((snapshot, missing))
}

/// Objects that a snapshot needs and that are missing or incomplete. Only names and lengths are checked, and the root
/// page is read.
fn missing(
    store: &Arc<dyn Store>,
    pages: &PageLoader,
    snapshot: &Snapshot,
    floors: &mut Floors<'_>,
) -> Result<Vec<Missing>> {
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
    // On a far store all are requested together, with the floor.
    let asked = sources.iter().map(|source| Request::Len { key: keys::segment(source.writer, source.part) });
    let mut asked: Vec<Request> = asked.collect();
    let floor_goes_along = floors.packs.filter(|_| !asked.is_empty());
    asked.extend(floor_goes_along.map(|_| Packed::request()));
    let mut replies = store.together(asked);
    if let Some(packs) = floor_goes_along {
        take_floor(packs, replies.pop())?;
        floors.is_settled = true;
    }
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
