//! Verification: checks every byte to which a snapshot refers against its checksum, and reports damage.

use std::collections::BTreeMap;

use drystone_format::entry::Entry;
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_plan::tree;
use drystone_store::{Reply, Request, StoreError, StoreExt, TOGETHER};

use crate::base::error::must_exist;
use crate::base::sync::lock;
use crate::container::{Container, Inner};
use crate::history::snapshot::Snapshot;
use crate::history::{loss, manifests};
use crate::read::checker::Checker;
use crate::read::segment_key;
use crate::{Error, ErrorKind, Result};

/// The most bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 16 << 20;

/// An object that cannot be read as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The key of the object, as far as known.
    pub key: String,
    /// Path of the affected variable, if there is one.
    pub variable: Option<String>,
    /// The affected step, if there is one.
    pub step: Option<u64>,
    /// The description of the damage.
    pub message: String,
}

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Index entries checked.
    pub entries: u64,
    /// Payload bytes read and checked.
    pub bytes: u64,
    /// Manifests checked.
    pub manifests: u64,
    /// Shards of the published replica checked.
    pub shards: u64,
    /// Shards that were replaced since the snapshot. Reads of the snapshot use the log there.
    pub moved: u64,
    /// The damage found; empty if there is none.
    pub damage: Vec<Damage>,
    /// Bytes that are not home, by the node whose tiers hold them. Bytes on other nodes were not read.
    pub away: BTreeMap<String, u64>,
}

/// The most snapshots that expire one after another while they are verified.
const TRIES: usize = 20;

impl Container {
    /// As [`verify`](Self::verify); also compares decoded published chunks with the log.
    pub fn verify_values(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        self.verify_all(true, progress)
    }

    /// Checks everything to which the handle's snapshot refers, the manifests of earlier snapshots, and the published
    /// replica ([`Container::verify_published`]). If that snapshot expires meanwhile and something of it is missing,
    /// the handle moves to the newest snapshot, which is checked instead.
    ///
    /// `progress` receives (entries done, entries in all) now and then. If it returns `false`, verification stops
    /// with `Cancelled`.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        self.verify_all(false, progress)
    }

    fn verify_all(&self, values: bool, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        for _ in 0..TRIES {
            let version = self.snapshot().version();
            let found = self.verify_once(values, progress);
            let is_doubtful = match &found {
                Ok(report) => !report.damage.is_empty(),
                Err(e) => matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::NotFound),
            };
            // A garbage collection that runs beside removes what only an expired snapshot needs.
            if !is_doubtful || !manifests::is_gone(self.inner.store.as_ref(), version) {
                return found;
            }
            if !self.refresh()? {
                break;
            }
        }
        Err(Error::not_found(
            "the snapshot expired while it was verified: garbage collection removed it; verify a newer one",
        ))
    }

    fn verify_once(&self, values: bool, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<VerifyReport> {
        self.inner.require_open()?;
        self.inner.require_same()?;
        let inner = &self.inner;
        let _home = inner.bypass_cache();
        let snapshot = self.snapshot();
        let mut report = VerifyReport::default();
        let damage = |key: String, message: String| Damage { key, variable: None, step: None, message };
        let mut manifests = manifests::Manifests::new(inner.store.as_ref(), &inner.identity.uuid);
        let mut version = snapshot.version();
        while version > 0 {
            match manifests.read(version) {
                Ok(manifest) => {
                    report.manifests += 1;
                    if let Err(e) = Snapshot::load(manifest.clone(), &inner.pages) {
                        report.damage.push(damage(keys::manifest(version), e.to_string()));
                    }
                    version = manifest.parent.min(version - 1);
                }
                // Older snapshots have expired.
                Err(_) if manifests::is_gone(inner.store.as_ref(), version) => break,
                Err(e) => {
                    if !manifests::is_void(inner.store.as_ref(), version) {
                        report.damage.push(damage(keys::manifest(version), e.to_string()));
                    }
                    version = manifests::below(inner.store.as_ref(), version)?;
                }
            }
        }
        for loss in lock(&inner.losses).clone().found {
            report.damage.push(damage(loss.key, loss.message));
        }
        for (key, message) in inner.broken_packs()?.into_iter().chain(inner.broken_log_packs()?) {
            report.damage.push(damage(key, message));
        }
        for part in inner.parts_not_home(&snapshot)? {
            // If this node's tiers should have a part and do not, that is damage: waiting for its drain would not
            // help.
            if part.missing {
                let key = keys::segment(part.part.0, part.part.1);
                let message = inner.gone(&part, "a part that is not home is lost").to_string();
                report.damage.push(Damage { key, variable: None, step: part.step, message });
                continue;
            }
            *report.away.entry(part.node).or_default() += part.bytes;
        }
        if let Some(tiers) = &inner.tiers {
            report.damage.extend(tiers.store.broken()?.into_iter().map(|(key, what)| damage(key, what)));
        }
        for (key, began_on) in lost_bases(inner, &snapshot)? {
            let known = |d: &Damage| d.key == key;
            if !report.damage.iter().any(known) {
                let what = format!("{key} is missing, although {began_on} was begun on it");
                report.damage.push(damage(key, what));
            }
        }
        match check_logs(inner, &snapshot) {
            Ok(short) => {
                let new = |d: &Damage| !report.damage.iter().any(|known| known.key == d.key);
                let short: Vec<Damage> = short.into_iter().filter(new).collect();
                report.damage.extend(short);
                report.damage.extend(check_records(inner, &snapshot)?);
            }
            Err(e) if e.kind() == ErrorKind::Corrupt => {
                report.damage.push(damage("the source table".into(), e.to_string()));
            }
            Err(e) => return Err(e),
        }
        let published = self.verify_published(values, &mut |_, _| progress(0, snapshot.entry_count()))?;
        report.bytes += published.bytes;
        (report.shards, report.moved) = (published.shards, published.moved);
        report.damage.extend(published.damage);
        report.bytes += self.verify_files(&mut report.damage, &mut || progress(0, snapshot.entry_count()))?;
        let Some(root) = &snapshot.manifest.root else { return Ok(report) };
        let total = root.entries;
        let mut failed: Option<Error> = None;
        let mut told = 0;
        let mut checker = Checker::new(inner, &snapshot);
        let mut pages: Vec<Error> = Vec::new();
        let mut has_replicas = false;
        let mut check = |entry: &Entry, checker: &mut Checker<'_>| {
            if failed.is_some() {
                return;
            }
            report.entries += 1;
            has_replicas |= entry.encoding.replica > 0;
            match checker.entry(entry) {
                Ok(bytes) => report.bytes += bytes,
                Err(e) if e.kind() == ErrorKind::NotYetHome => {}
                Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                    report.damage.push(Damage {
                        key: checker.key(entry),
                        variable: checker.names.get(&entry.variable).cloned(),
                        step: entry.step.checked_sub(1),
                        message: e.to_string(),
                    });
                }
                Err(e) => failed = Some(e),
            }
            let due = report.entries.is_multiple_of(64) || report.bytes - told >= PROGRESS_BYTES;
            if due {
                told = report.bytes;
            }
            if due && !progress(report.entries, total) {
                failed = Some(Error::new(ErrorKind::Cancelled, "verification was stopped"));
            }
        };
        // On a far store entries are checked in batches, so that their bytes are requested together.
        let most = checker.batch();
        let mut batch: Vec<Entry> = Vec::with_capacity(most);
        let mut check_all = |batch: &mut Vec<Entry>| {
            checker.prefetch(batch);
            batch.drain(..).for_each(|entry| check(&entry, &mut checker));
        };
        let visit = &mut |entry: &Entry| {
            batch.push(entry.clone());
            if batch.len() >= most {
                check_all(&mut batch);
            }
        };
        tree::audit(&inner.pages, root, visit, &mut |e| pages.push(e));
        check_all(&mut batch);
        if let Some(error) = failed {
            return Err(error);
        }
        for error in pages {
            if error.kind() != ErrorKind::Corrupt {
                return Err(error);
            }
            report.damage.push(damage("index".into(), error.to_string()));
        }
        if has_replicas {
            self.verify_replicas(&mut report)?;
        }
        progress(report.entries, total);
        Ok(report)
    }
}

impl Container {
    /// Compares replicas with their originals, if the index can be read.
    fn verify_replicas(&self, report: &mut VerifyReport) -> Result<()> {
        let snapshot = self.snapshot();
        // Derived variables have no blocks, so no replicas.
        for (path, _) in snapshot.schema.named().filter(|(_, variable)| variable.derived.is_none()) {
            let found = self.reading(path, None).and_then(|reading| {
                let steps = match reading.variable().steps {
                    true => reading.steps()?.into_iter().map(Some).collect(),
                    false => vec![None],
                };
                for step in steps {
                    for message in reading.compare_replicas(step)? {
                        report.damage.push(Damage {
                            key: "log".into(),
                            variable: Some(path.to_owned()),
                            step,
                            message,
                        });
                    }
                }
                Ok(())
            });
            match found {
                Err(e) if e.kind() != ErrorKind::Corrupt => return Err(e),
                _ => {} // damage of the index was already reported
            }
        }
        Ok(())
    }
}

/// Checks that the log files to which the snapshot refers contain their adopted parts.
pub(crate) fn check_logs(inner: &Inner, snapshot: &Snapshot) -> Result<Vec<Damage>> {
    let mut out = Vec::new();
    let sources = snapshot.sources(&inner.pages)?;
    let sources: Vec<_> = sources.iter().filter(|s| s.kind == 0 && s.seg_length > 0).collect();
    for some in sources.chunks(TOGETHER) {
        let lens = some.iter().map(|source| Request::Len { key: segment_key(source) }).collect();
        for (source, reply) in some.iter().zip(inner.store.together(lens)) {
            let key = segment_key(source);
            let bad = match reply.map_err(must_exist) {
                Ok(Reply::Len { len }) if len < source.seg_length => {
                    format!("{key} ends at byte {len}, {} are needed", source.seg_length)
                }
                Ok(_) => continue,
                Err(e) if e.kind() == ErrorKind::Corrupt => e.to_string(),
                Err(e) => return Err(e),
            };
            out.push(Damage { key, variable: None, step: None, message: bad });
        }
    }
    Ok(out)
}

/// Step records whose file is missing or ends before the part that commits took from it. Reads do not need step
/// records. A power cut may destroy them, except during the boot in which they were written. Under `durable` only the
/// file must exist (docs/decisions/007-small-commits.md).
fn check_records(inner: &Inner, snapshot: &Snapshot) -> Result<Vec<Damage>> {
    let durable = inner.identity.durability == Durability::Durable;
    let boot = loss::boot_of(inner.store.as_ref());
    if !durable && (boot.is_none() || snapshot.manifest.boot.as_deref() != boot) {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    let sources = snapshot.sources(&inner.pages)?;
    let sources: Vec<_> = sources.iter().filter(|s| s.kind == 0 && s.seg_length > 0).collect();
    for some in sources.chunks(TOGETHER) {
        let lens = some.iter().map(|s| Request::Len { key: keys::idx(s.writer, s.part) }).collect();
        for (source, reply) in some.iter().zip(inner.store.together(lens)) {
            let key = keys::idx(source.writer, source.part);
            let message = match reply {
                Ok(Reply::Len { len }) if len < source.watermark && !durable => {
                    format!("{key} ends at byte {len}, {} were read from it", source.watermark)
                }
                Ok(_) => continue,
                Err(StoreError::NotFound { .. }) => {
                    format!("{key} is missing: the step records of writer {:016x}", source.writer)
                }
                Err(e) => return Err(e.into()),
            };
            out.push(Damage { key, variable: None, step: None, message });
        }
    }
    Ok(out)
}

/// Missing manifests above the snapshot, with the files that writers began on top of them.
fn lost_bases(inner: &Inner, snapshot: &Snapshot) -> Result<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    for (file, header) in loss::headers(inner.store.as_ref(), &inner.identity.uuid, usize::MAX)? {
        let key = keys::manifest(header.base);
        // A later manifest, made by a recovery, has settled that.
        let later = snapshot.manifest.time > header.time;
        if header.base > snapshot.version()
            && !later
            && !out.contains_key(&key)
            && !inner.store.exists(&key)?
        {
            out.insert(key, file);
        }
    }
    Ok(out)
}
