//! The level of safety of each step, and waiting until a step has reached a level.
//!
//! Invariants
//! - a step is `stable` only if its newest blocks are covered by a mark, or by a synced manifest;
//! - a step is `lost` if this node should have a part of it, no tier answers for it, and no other node keeps it;
//! - asking for levels changes nothing; waiting for `stable` through a handle that may write flushes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use drystone_format::identity::Durability;
use drystone_plan::tier::level::Level;
use drystone_plan::tree;

use crate::base::sync::lock;
use crate::container::{Container, Inner, StagedPart};
use crate::history::descent;
use crate::history::manifests;
use crate::history::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// Pauses between two looks: the first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

impl Container {
    /// The level of each committed step of the newest snapshot. One pass over the index if commits are not flushed.
    pub fn levels(&self) -> Result<BTreeMap<u64, Level>> {
        self.inner.require_open()?;
        let (newest, _) = self.inner.newest()?;
        levels(&self.inner, &newest)
    }

    /// The levels for metrics. On a far store they are those of the handle's current snapshot, and are requested once
    /// per snapshot; a flush by another handle shows with the next snapshot.
    pub fn known_levels(&self) -> Result<BTreeMap<u64, Level>> {
        let inner = &self.inner;
        if inner.window().is_none() || inner.tiers.is_some() {
            return self.levels();
        }
        inner.require_open()?;
        let snapshot = self.snapshot();
        let of = (snapshot.version(), inner.last_marked(&snapshot));
        if let Some((_, known)) = lock(&inner.asked_levels).as_ref().filter(|(known, _)| *known == of) {
            return Ok(known.clone());
        }
        let found = levels(inner, &snapshot)?;
        *lock(&inner.asked_levels) = Some((of, found.clone()));
        Ok(found)
    }

    /// Waits until a step is committed and has this level. `go_on` is called at every look. Errors: `NotYetHome` at
    /// once if the tiers of this node have lost a part of it, with what to do; `Deadline` when `timeout` has passed;
    /// `Cancelled` when `go_on` returns false.
    pub fn wait_for(
        &self,
        step: u64,
        level: Level,
        timeout: Option<Duration>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        let _hurry = self.inner.prioritize_drain();
        loop {
            let mut found = self.levels()?.get(&step).copied();
            if level == Level::Partner && found.is_some_and(|found| found < level) {
                self.inner.keep_step(step, begun.elapsed())?;
                found = self.levels()?.get(&step).copied();
            }
            let flushes = level == Level::Stable && self.inner.is_unpinned() && !self.inner.is_drain_held();
            if found.is_some_and(|found| found < level) && flushes {
                match self.flush() {
                    // Other nodes have to drain their parts first.
                    Err(e) if e.kind() == ErrorKind::NotYetHome => {}
                    flushed => _ = flushed?,
                }
                found = self.levels()?.get(&step).copied();
            }
            if found.is_some_and(|found| found >= level) {
                return Ok(());
            }
            if found.is_some_and(|found| found < Level::Home) {
                self.inner.require_kept(step, level)?;
            }
            if !go_on() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    format!("the wait for step {step} was stopped"),
                ));
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                let state = match found {
                    Some(found) => format!("it is at level \"{found}\""),
                    None => "it is not committed".into(),
                };
                return Err(Error::new(
                    ErrorKind::Deadline,
                    format!(
                        "step {step} of {} did not reach level \"{level}\" in time: {state}; wait longer, or see levels()",
                        self.location()
                    ),
                ));
            }
            std::thread::sleep(left.map_or(pause, |left| pause.min(left)));
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

impl Inner {
    /// `NotYetHome` if the tiers of this node have lost a part of a step, so that it cannot reach a level.
    fn require_kept(&self, step: u64, level: Level) -> Result<()> {
        let away = self.parts_not_home(&self.newest()?.0)?;
        match away.iter().find(|part| part.missing && part.step == Some(step)) {
            Some(part) => Err(self.gone(part, &format!("step {step} cannot reach level \"{level}\""))),
            None => Ok(()),
        }
    }
}

fn levels(inner: &Inner, snapshot: &Snapshot) -> Result<BTreeMap<u64, Level>> {
    let all = |level: Level| snapshot.steps.iter().map(|step| (step, level)).collect();
    let away = inner.parts_not_home(snapshot)?;
    let durable = inner.identity.durability == Durability::Durable || inner.store.features().put_is_durable;
    if !away.is_empty() {
        return levels_with(inner, snapshot, away, durable);
    }
    if durable || snapshot.manifest.marked {
        return Ok(all(Level::Stable));
    }
    let marked = inner.last_marked(snapshot).max(descent::newest_mark(inner.store.as_ref())?);
    if marked >= snapshot.version() {
        return Ok(all(Level::Stable));
    }
    levels_with(inner, snapshot, Vec::new(), false)
}

/// The levels, from the entries of the index. `away`: writers and numbers of the parts that are not home. `durable`:
/// bytes at home are stable.
fn levels_with(
    inner: &Inner,
    snapshot: &Snapshot,
    away: Vec<StagedPart>,
    durable: bool,
) -> Result<BTreeMap<u64, Level>> {
    let marked = inner.last_marked(snapshot).max(descent::newest_mark(inner.store.as_ref())?);
    let sources = if away.is_empty() { Vec::new() } else { snapshot.sources(&inner.pages)? };
    let away: BTreeMap<(u64, u32), bool> = away.into_iter().map(|part| (part.part, part.missing)).collect();
    // A step is stable if the newest flushed snapshot contains it and nothing was written to it since.
    let flushed = match marked {
        0 => None,
        marked => manifests::read_manifest(inner.store.as_ref(), marked, &inner.identity.uuid)
            .and_then(|manifest| Snapshot::load(manifest, &inner.pages))
            .ok(),
    };
    let kept = if away.is_empty() { BTreeSet::new() } else { inner.kept()? };
    // The level of each source that is not home: that of its part.
    let level_of = |part: (u64, u32)| match (kept.contains(&part), away.get(&part)?) {
        (false, true) => Some(Level::Lost),
        (true, false) => Some(Level::Partner),
        // In the tiers of its node alone, or of other nodes alone.
        (false, false) | (true, true) => Some(Level::Node),
    };
    let of_source: BTreeMap<u32, Level> = (0..)
        .zip(&sources)
        .filter(|(_, source)| source.kind == 0)
        .filter_map(|(number, source)| Some((number, level_of((source.writer, source.part))?)))
        .collect();
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let mut staged: BTreeMap<u64, Level> = BTreeMap::new();
    if let Some(root) = &snapshot.manifest.root {
        tree::entries(&inner.pages, root, &mut |entry| {
            if entry.commit > marked {
                written.extend(entry.step.checked_sub(1));
            }
            if let (Some(level), Some(step)) = (of_source.get(&entry.source), entry.step.checked_sub(1)) {
                let least = staged.entry(step).or_insert(*level);
                *least = (*least).min(*level);
            }
        })?;
    }
    let level = |step: u64| {
        if let Some(level) = staged.get(&step) {
            return *level;
        }
        if durable {
            return Level::Stable;
        }
        let is_flushed = flushed.as_ref().is_some_and(|flushed| flushed.steps.contains(step));
        let is_same = !written.contains(&step) && snapshot.steps.hidden_below(step) <= marked;
        if is_flushed && is_same { Level::Stable } else { Level::Home }
    };
    Ok(snapshot.steps.iter().map(|step| (step, level(step))).collect())
}
