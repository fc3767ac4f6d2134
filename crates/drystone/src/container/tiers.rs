//! Tiers of a container: which tiers it uses, how they are drained, and which parts lie in them
//! (docs/decisions/128-staged-parts.md).
//!
//! Invariants
//! - a container whose parts may be in tiers states that in its identity, so older readers refuse it;
//! - a snapshot is marked only when all parts that it names are home and synced there;
//! - the drain needs no journal: parts that are in a tier and not at home are the remaining work.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use drystone_format::identity::{Durability, Identity};
use drystone_format::keys;
use drystone_plan::tier::drain::{PATIENCE, Pace, pause};
use drystone_plan::tier::redundancy::Scheme;
use drystone_store::{Store, StoreError};
use drystone_store_tiers::{Node, Tier, TieredStore};

use super::redundancy::Unkept;
use super::{Container, Inner};
use crate::base::metrics::{Metrics, add};
use crate::base::span::{self, SpanKind};
use crate::base::sync::lock;
use crate::base::writer_process::{self, Process};
use crate::history::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// The feature in the identity.
pub(super) const FEATURE: &str = "tiers";
/// Environment variables that name the node and its failure group.
const NODE: &str = "DRYSTONE_NODE";
const GROUP: &str = "DRYSTONE_FAILURE_GROUP";
/// `hold`: parts are not drained in the background, nor at the end. For tests.
const DRAIN: &str = "DRYSTONE_DRAIN";

/// A part ends at about this many bytes, so that it can be drained while the next one grows.
pub(crate) const PART_LIMIT: u64 = 32 << 20;
/// Number of parts per round of the drain. After each round the parts are synced and removed from the registrations.
const ROUND: usize = 16;
/// Number of parts in flight: to a local store, and to a far one.
const UNDER_WAY: (usize, usize) = (2, 4);
/// How often the drain looks for work without being woken.
const LOOK: Duration = Duration::from_millis(250);
/// Pause before another attempt to mark a snapshot that could not be marked.
const MARK_AGAIN: Duration = Duration::from_secs(5);
/// Pauses after a failed round: the first pause and the longest.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));

/// A folder that is a tier, and the most bytes of the container that it may hold. `None`: the free space of its
/// device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierFolder {
    /// The folder. The container creates its own folder in it.
    pub folder: PathBuf,
    /// The most bytes.
    pub budget: Option<u64>,
}

/// A row of the table of tiers.
#[derive(Debug, Clone, PartialEq)]
pub struct TierRow {
    /// The location of the tier.
    pub place: String,
    /// Bytes of this container's parts in the tier, as far as this handle's process wrote them or took them over.
    pub bytes: u64,
    /// Bytes that are not home.
    pub undrained: u64,
    /// The oldest step among these bytes.
    pub oldest: Option<u64>,
    /// Bytes per second of the last drain; 0 before the first.
    pub rate: f64,
    /// Number of reads that the tier answered.
    pub hits: u64,
    /// The reason why the tier is not used now, if it is not.
    pub aside: Option<String>,
}

/// A part that is not home yet.
pub use drystone_store_tiers::Away as StagedPart;

/// The tiers of a handle, and its drain.
#[derive(Debug)]
pub(crate) struct Tiers {
    pub(crate) store: Arc<TieredStore>,
    drain: Drain,
    /// Set in a team: its ranks make the parity of their steps together when they end them.
    pub(crate) in_team: AtomicBool,
}

/// The draining thread and its controls.
#[derive(Debug, Default)]
struct Drain {
    /// Number of callers that wait for the drain; `computing` counts callers that compute.
    wanted: AtomicUsize,
    computing: AtomicUsize,
    /// Parts are drained only on request.
    held: AtomicBool,
    stop: AtomicBool,
    work: Mutex<bool>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process in which the thread runs.
    pid: AtomicUsize,
    /// Number of parts that were drained; `bytes` counts their bytes.
    parts: AtomicU64,
    bytes: AtomicU64,
    /// Bytes per second of the last round.
    rate: Mutex<f64>,
    /// Parts that were found damaged or lost.
    bad: Mutex<BTreeSet<String>>,
    /// The error of the last round, if it failed.
    failure: Mutex<Option<Error>>,
    /// Whether drained parts are still listed in the registrations.
    unsaid: AtomicBool,
}

/// The node on which this process runs.
fn node() -> Node {
    let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = || Some(Process::current().host).filter(|host| !host.is_empty());
    let name = said(NODE).or_else(host).unwrap_or_else(|| "localhost".into());
    let group = said(GROUP).unwrap_or_else(|| name.clone());
    Node { name, group, boot: writer_process::boot().unwrap_or_default().to_owned() }
}

impl Tiers {
    /// For a container with the feature. The new handle has no tiers yet.
    pub(super) fn over(home: Arc<dyn Store>, identity: &Identity) -> Arc<Tiers> {
        let scheme = Scheme::parse(&identity.redundancy).unwrap_or_default();
        let store = Arc::new(TieredStore::of_container(home, identity.uuid, node(), scheme));
        Arc::new(Tiers { store, drain: Drain::default(), in_team: AtomicBool::new(false) })
    }

    /// Whether new parts of this handle's writers go to its tiers.
    pub(crate) fn is_used(&self) -> bool {
        self.store.has_tiers()
    }

    /// Wakes the drain: a part was closed.
    pub(crate) fn wake(&self) {
        *lock(&self.drain.work) = true;
        self.drain.wake.notify_all();
    }

    /// Adds the parts and bytes that were drained.
    pub(super) fn count(&self, metrics: &mut Metrics) {
        metrics.drained_parts = self.drain.parts.load(Ordering::Relaxed);
        metrics.drained_bytes = self.drain.bytes.load(Ordering::Relaxed);
    }

    fn is_held(&self) -> bool {
        self.drain.held.load(Ordering::Relaxed)
    }

    fn pace(&self) -> Pace {
        let asked = self.drain.wanted.load(Ordering::Relaxed) + self.drain.computing.load(Ordering::Relaxed);
        match asked {
            0 if self.store.is_busy() => Pace::Yield,
            0 => Pace::Share,
            _ => Pace::Full,
        }
    }

    /// Whether parts have to be drained, synced at home, or removed from a registration.
    fn has_work(&self) -> bool {
        !self.store.is_drained() || self.drain.unsaid.load(Ordering::SeqCst)
    }

    /// Drains some parts, oldest step first, syncs them at home, and removes them from the registrations. Returns
    /// `false` if there was nothing to do.
    fn round(&self) -> Result<bool> {
        if !self.has_work() {
            return Ok(false);
        }
        let mut waiting = self.store.waiting();
        // Parts that are damaged or lost come last, so that they delay no other.
        let bad = lock(&self.drain.bad).clone();
        waiting.sort_by_key(|part| bad.contains(&part.key));
        self.drain.unsaid.store(true, Ordering::SeqCst);
        waiting.truncate(ROUND);
        let (begun, bytes) = (Instant::now(), waiting.iter().map(|part| part.bytes).sum::<u64>());
        let next = AtomicUsize::new(0);
        let (failure, goes_on) = (Mutex::<Option<Error>>::default(), AtomicBool::new(false));
        let bring = || {
            while let Some(part) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
                let patience = Instant::now();
                while self.pace() == Pace::Yield && patience.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (begun, told) = (Instant::now(), span::begin(SpanKind::Drain));
                let brought = self.store.drain_part(&part.key);
                if brought.is_ok() {
                    goes_on.store(true, Ordering::Relaxed);
                    lock(&self.drain.bad).remove(&part.key);
                    add(&self.drain.parts, 1);
                    add(&self.drain.bytes, part.bytes);
                    let values = span::Values { bytes: part.bytes, requests: 1, ..Default::default() };
                    told.end(SpanKind::Drain, || self.store.describe(), &part.key, values);
                }
                if let Err(error) = brought {
                    // A part that is damaged or lost, or whose tier fails, delays no other; if home itself fails, all
                    // would fail.
                    let is_of_part = match &error {
                        StoreError::Io { source, .. } => source.kind() == std::io::ErrorKind::InvalidData,
                        error => matches!(error, StoreError::NotHome { .. }),
                    } || self.store.is_in_failed_tier(&part.key);
                    lock(&failure).get_or_insert(error.into());
                    if !is_of_part {
                        return;
                    }
                    if lock(&self.drain.bad).insert(part.key.clone()) {
                        goes_on.store(true, Ordering::Relaxed);
                    }
                }
                let asked = self.drain.wanted.load(Ordering::Relaxed) > 0;
                if self.drain.stop.load(Ordering::SeqCst) && !asked {
                    return;
                }
                std::thread::sleep(pause(self.pace(), begun.elapsed()));
            }
        };
        let most = if self.store.features().far.is_some() { UNDER_WAY.1 } else { UNDER_WAY.0 };
        match waiting.len().min(most) {
            0 => {}
            1 => bring(),
            several => std::thread::scope(|scope| (0..several).for_each(|_| _ = scope.spawn(bring))),
        }
        if bytes > 0 {
            *lock(&self.drain.rate) = bytes as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        }
        self.store.settle()?;
        self.store.register_all()?;
        self.store.collect_parity()?;
        self.drain.unsaid.store(false, Ordering::SeqCst);
        match lock(&failure).take() {
            Some(error) if !goes_on.load(Ordering::Relaxed) => Err(error),
            // The next round tries the others again, and then reports why they fail.
            Some(_) | None => Ok(true),
        }
    }

    /// Sleeps until there is work, or for this long.
    fn sleep(&self, most: Duration) {
        let drain = &self.drain;
        let mut work = lock(&drain.work);
        if !*work && !drain.stop.load(Ordering::SeqCst) {
            work = drain.wake.wait_timeout(work, most).map_or_else(|e| e.into_inner().0, |(work, _)| work);
        }
        *work = false;
    }

    /// Ends the thread after the part in flight.
    fn stop(&self) {
        self.drain.stop.store(true, Ordering::SeqCst);
        self.wake();
        let thread = lock(&self.drain.thread).take();
        let here = self.drain.pid.load(Ordering::Relaxed) == drystone_store::process_id() as usize;
        // The thread itself may hold the last handle; it cannot join itself.
        if let Some(thread) =
            thread.filter(|thread| here && thread.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

/// The loop of the thread. It ends when it is stopped or its container is gone.
fn drain_in_background(inner: &Weak<Inner>, tiers: &Arc<Tiers>) {
    let drain = &tiers.drain;
    let mut after_failure = AFTER_FAILURE.0;
    let mut tried: Option<(u64, Instant)> = None;
    let mut unkept = Unkept::default();
    while !drain.stop.load(Ordering::SeqCst) {
        // Parity comes before the drain: until a part is home, it must survive the loss of its node.
        let soon = match inner.upgrade() {
            Some(inner) if !tiers.in_team.load(Ordering::Relaxed) => unkept.look(&inner, &tiers.store),
            Some(_) => None,
            None => return,
        };
        if tiers.is_held() {
            tiers.sleep(soon.unwrap_or(LOOK).min(LOOK));
            continue;
        }
        let begun = match inner.upgrade() {
            Some(inner) => {
                let same = if tiers.has_work() { inner.require_same() } else { Ok(()) };
                same.map(|()| inner.newest_known().0)
            }
            None => return,
        };
        let done = begun.and_then(|snapshot| Ok((tiers.round()?, snapshot)));
        if let Ok((more, snapshot)) = &done {
            after_failure = AFTER_FAILURE.0;
            *lock(&drain.failure) = None;
            // Even if no parts are left here, parts on other nodes may be missing at home. So marking is tried now
            // and again later.
            let again =
                |(version, at): (u64, Instant)| version < snapshot.version() || at.elapsed() > MARK_AGAIN;
            if *more || tried.is_none_or(again) {
                tried = Some((snapshot.version(), Instant::now()));
                if let Some(inner) = inner.upgrade() {
                    // A failure is tried again, and `flush` reports it.
                    let _ = inner.mark_drained(snapshot);
                }
            }
        }
        match done {
            Ok((true, _)) => {}
            Ok((false, _)) => tiers.sleep(LOOK),
            Err(error) => {
                *lock(&drain.failure) = Some(error);
                let begun = Instant::now();
                while begun.elapsed() < after_failure && !drain.stop.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(10));
                }
                after_failure = (after_failure * 2).min(AFTER_FAILURE.1);
            }
        }
    }
}

/// Counts a caller that waits or computes, while it exists.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Container {
    /// Writes new data to tiers, nearest first. A thread of this handle drains the tiers to the container's home. It
    /// also drains parts that dead processes of this node left there. A handle that only reads looks into the tiers.
    ///
    /// Errors: `Unsupported` if the container was created without tiers; `InvalidArgument` if the handle has tiers
    /// already; errors of creating the folders.
    pub fn use_tiers(&self, folders: &[TierFolder]) -> Result<()> {
        let inner = &self.inner;
        inner.require_open()?;
        let Some(tiers) = &inner.tiers else {
            return Err(Error::unsupported(format!(
                "{} was created without tiers, so other programs would take parts that are not home for damage; create a container \
                 with tiers=[...]",
                self.location()
            )));
        };
        if folders.is_empty() {
            return Ok(());
        }
        super::redundancy::require_known(&inner.identity)?;
        let mut made = Vec::new();
        for one in folders {
            let tier = Tier::in_folder(&one.folder, &inner.identity.uuid, one.budget);
            made.push(
                tier.map_err(|e| Error::from(e).while_doing(format!("the tier {}", one.folder.display())))?,
            );
        }
        if !inner.home_appends() {
            made.push(Tier::volatile());
        }
        if !tiers.store.attach(made) {
            return Err(Error::invalid("this handle has tiers already; open another one"));
        }
        if !inner.is_unpinned() {
            return Ok(());
        }
        let held = std::env::var_os(DRAIN).is_some_and(|value| value == "hold");
        tiers.drain.held.store(held, Ordering::SeqCst);
        tiers
            .store
            .adopt_orphans()
            .map_err(|e| Error::from(e).while_doing("looking for parts left in the tiers"))?;
        tiers.drain.pid.store(drystone_store::process_id() as usize, Ordering::SeqCst);
        if !held || tiers.store.scheme() != Scheme::None {
            let (weak, of) = (Arc::downgrade(inner), tiers.clone());
            let thread = std::thread::Builder::new().name("drystone-drain".into());
            let thread = thread.spawn(move || drain_in_background(&weak, &of)).map_err(|e| {
                Error::new(ErrorKind::Io, format!("the thread that drains tiers cannot be started: {e}"))
            })?;
            *lock(&tiers.drain.thread) = Some(thread);
        }
        Ok(())
    }

    /// Drains the closed parts of this handle's writers, and those that dead processes of this node left. If all
    /// parts of the newest snapshot are then home, marks it. `go_on` receives the bytes done and the bytes in all.
    /// Errors: `Deadline` when `timeout` has passed, `Cancelled` when `go_on` returns false.
    pub fn drain(&self, timeout: Option<Duration>, go_on: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
        let inner = &self.inner;
        inner.require_open()?;
        inner.require_unpinned()?;
        let Some(tiers) = &inner.tiers else { return Ok(()) };
        if tiers.is_used() {
            tiers.store.adopt_orphans()?;
        }
        let _wanted = Counted::new(&tiers.drain.wanted);
        let begun = Instant::now();
        let left = || tiers.store.waiting().iter().map(|part| part.bytes).sum::<u64>();
        let total = left();
        loop {
            inner.require_same()?;
            let more = tiers.round()?;
            let left = left();
            if !more && left == 0 {
                tiers.store.collect_parity()?;
                // If a snapshot names parts of several processes, the last process to finish draining marks it.
                return inner.mark_drained(&inner.newest()?.0);
            }
            if !go_on(total.saturating_sub(left), total) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "the drain was stopped; drained parts stay at home",
                ));
            }
            if left > 0 && timeout.is_some_and(|timeout| begun.elapsed() >= timeout) {
                return Err(Error::new(
                    ErrorKind::Deadline,
                    format!(
                        "{left} bytes of {} are not home yet: wait longer, or see its tiers",
                        self.location()
                    ),
                ));
            }
        }
    }

    /// Tells the drain that the application computes from now on, or, with `false`, no longer. While it does not
    /// compute, the drain may use the whole node.
    pub fn computing(&self, on: bool) {
        let Some(tiers) = &self.inner.tiers else { return };
        let count = &tiers.drain.computing;
        match on {
            true => _ = count.fetch_add(1, Ordering::Relaxed),
            false => _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)),
        }
        tiers.wake();
    }

    /// The tiers of this handle, nearest first, and its cache folder, if it has one.
    pub fn tiers(&self) -> Vec<TierRow> {
        let cache = self.inner.cache_row();
        let Some(tiers) = &self.inner.tiers else { return cache.into_iter().collect() };
        let rate = *lock(&tiers.drain.rate);
        let rows = tiers.store.rows().into_iter();
        let row = |row: drystone_store_tiers::TierState| TierRow {
            place: row.place,
            bytes: row.bytes,
            undrained: row.undrained,
            oldest: row.oldest,
            rate,
            hits: row.reads,
            aside: row.aside,
        };
        rows.map(row).chain(cache).collect()
    }

    /// The error that stops the drain's progress, if there is one.
    pub fn drain_failure(&self) -> Option<Error> {
        self.inner.tiers.as_ref().and_then(|tiers| lock(&tiers.drain.failure).clone())
    }

    /// The parts that are not home, of all nodes.
    pub fn staged(&self) -> Result<Vec<StagedPart>> {
        self.inner.require_open()?;
        self.inner.away()
    }

    /// Drains the remaining parts in the handle's tiers, as its end does, unless draining is held
    /// (`DRYSTONE_DRAIN=hold`).
    pub fn drain_remaining(&self) -> Result<()> {
        let Some(tiers) = self.inner.tiers.as_ref().filter(|tiers| tiers.is_used()) else { return Ok(()) };
        let here = tiers.drain.pid.load(Ordering::Relaxed) == drystone_store::process_id() as usize;
        if !here || !self.inner.is_unpinned() || self.is_closed() {
            return Ok(());
        }
        if tiers.is_held() {
            return Ok(());
        }
        self.drain(None, &mut |_, _| true).map_err(|e| {
            e.while_doing("draining the tiers at the end (undrained parts stay there, see c.drain())")
        })
    }
}

impl Inner {
    /// Whether the home store appends. Parts then grow there when every tier is full.
    fn home_appends(&self) -> bool {
        self.store.features().append
    }

    /// The parts that are not home, of all nodes.
    pub(crate) fn away(&self) -> Result<Vec<StagedPart>> {
        match &self.tiers {
            Some(tiers) => Ok(tiers.store.away()?),
            None => Ok(Vec::new()),
        }
    }

    /// The parts named by a snapshot that are not home.
    pub(crate) fn parts_not_home(&self, snapshot: &Snapshot) -> Result<Vec<StagedPart>> {
        let mut away = self.away()?;
        if away.is_empty() {
            return Ok(away);
        }
        let sources = snapshot.sources(&self.pages)?;
        let named: BTreeSet<(u64, u32)> = sources
            .iter()
            .filter(|source| source.kind == 0 && source.seg_length > 0)
            .map(|source| (source.writer, source.part))
            .collect();
        away.retain(|part| named.contains(&part.part));
        Ok(away)
    }

    /// Drains all parts in this handle's tiers. Errors: `NotYetHome` if the snapshot names parts of other processes
    /// or nodes that are not home.
    pub(super) fn drain_all_parts(&self, snapshot: &Snapshot) -> Result<()> {
        let Some(tiers) = &self.tiers else { return Ok(()) };
        let _wanted = Counted::new(&tiers.drain.wanted);
        while tiers.round()? {}
        self.require_home(snapshot)
    }

    /// Fails with `NotYetHome` if the snapshot names parts that are not home.
    fn require_home(&self, snapshot: &Snapshot) -> Result<()> {
        let away = self.parts_not_home(snapshot)?;
        if let Some(missing) = away.iter().find(|part| part.missing) {
            return Err(self.gone(missing, &format!("snapshot {} is not home", snapshot.version())));
        }
        let Some(first) = away.first() else { return Ok(()) };
        let bytes: u64 = away.iter().filter(|part| part.node == first.node).map(|part| part.bytes).sum();
        Err(Error::not_yet_home(
            first.node.clone(),
            bytes,
            format!(
                "snapshot {} of {} is not home: {bytes} bytes are on node \"{}\" yet; wait for its drain (c.wait(step, \"home\"))",
                snapshot.version(),
                self.store.describe(),
                first.node
            ),
        ))
    }

    /// The error about a part that the tiers of this node do not have any more.
    pub(crate) fn gone(&self, part: &StagedPart, what: &str) -> Error {
        let kept = self.kept().is_ok_and(|kept| kept.contains(&part.part));
        let remedy = match kept {
            true => "recover() rebuilds them from other nodes",
            false => "recover() gives them up",
        };
        let step = part.step.map_or_else(|| "values without step".to_owned(), |step| format!("step {step}"));
        let folders =
            self.tiers.as_ref().map(|tiers| tiers.store.folders_in_words(part.part)).unwrap_or_default();
        Error::not_yet_home(
            part.node.clone(),
            part.bytes,
            format!(
                "{what} in {}: {} bytes of {step} were in tiers of node \"{}\" ({folders}), which do not have them any more; {remedy}; \
                 if the folders have moved, open the container with tiers= where they are now",
                self.store.describe(),
                part.bytes,
                part.node,
            ),
        )
    }

    /// Marks a snapshot after all its parts were drained. Does nothing if some were not, or if there is nothing to
    /// mark.
    fn mark_drained(&self, snapshot: &Arc<Snapshot>) -> Result<()> {
        if self.identity.durability != Durability::Async
            || self.require_whole().is_err()
            || self.last_marked(snapshot) >= snapshot.version()
        {
            return Ok(());
        }
        match self.require_home(snapshot) {
            Ok(()) => self.flush_snapshot(snapshot, &[], false).map(drop),
            Err(e) if e.kind() == ErrorKind::NotYetHome => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Hurries the drain: while the result exists, the drain does not yield to the application.
    pub(crate) fn prioritize_drain(&self) -> Option<Counted<'_>> {
        self.tiers.as_ref().map(|tiers| Counted::new(&tiers.drain.wanted))
    }

    /// Whether parts are drained only on request.
    pub(crate) fn is_drain_held(&self) -> bool {
        self.tiers.as_ref().is_some_and(|tiers| tiers.is_held())
    }

    /// Drains the closed parts of one writer and syncs them at home.
    pub(crate) fn drain_writer(&self, writer: u64) -> Result<()> {
        let Some(tiers) = self.tiers.as_ref().filter(|tiers| tiers.is_used()) else { return Ok(()) };
        let _wanted = Counted::new(&tiers.drain.wanted);
        for part in tiers.store.waiting() {
            if keys::parse_log(&part.key).is_some_and(|(of, ..)| of == writer) {
                tiers.store.drain_part(&part.key)?;
            }
        }
        tiers.store.settle()?;
        Ok(tiers.store.register(writer)?)
    }

    /// Ends the draining thread, if there is one.
    pub(super) fn stop_drain(&self) {
        if let Some(tiers) = self.tiers.as_ref().filter(|_| !self.pinned) {
            tiers.stop();
        }
    }

    /// Removes copies of parts that are home, after the handle was closed.
    pub(super) fn evict_drained(&self) {
        if let Some(tiers) = self.tiers.as_ref().filter(|tiers| tiers.is_used() && self.is_unpinned()) {
            tiers.store.evict_copies();
        }
    }
}
