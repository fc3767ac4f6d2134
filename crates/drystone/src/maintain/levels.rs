//! The level of safety of each step, and waiting until a step has reached one.
//!
//! Invariants
//! - a step is `stable` only if its newest blocks are covered by a mark, or by a synced manifest;
//! - asking changes nothing; waiting for `stable` through a handle that may write flushes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use drystone_format::identity::Durability;
use drystone_plan::tier::level::Level;
use drystone_plan::tree;

use crate::container::{Container, Inner};
use crate::history::descent;
use crate::history::manifests;
use crate::history::snapshot::Snapshot;
use crate::{Error, ErrorKind, Result};

/// Pauses between looks: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));

impl Container {
    /// The level of each committed step of the newest snapshot. One pass over the index if commits are not flushed.
    pub fn levels(&self) -> Result<BTreeMap<u64, Level>> {
        self.inner.require_open()?;
        let (newest, _) = self.inner.newest()?;
        levels(&self.inner, &newest)
    }

    /// Waits until a step is committed and has this level. `Deadline` when `timeout` has passed; `Cancelled` when
    /// `go_on`, which is called at every look, returns false.
    pub fn wait_for(
        &self,
        step: u64,
        level: Level,
        timeout: Option<Duration>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        let _hurry = self.inner.hurry_drain();
        loop {
            let mut found = self.levels()?.get(&step).copied();
            if level == Level::Partner && found.is_some_and(|found| found < level) {
                self.inner.keep_step(step, begun.elapsed())?;
                found = self.levels()?.get(&step).copied();
            }
            let flushes = level == Level::Stable && self.inner.is_unpinned() && !self.inner.is_drain_held();
            if found.is_some_and(|found| found < level) && flushes {
                match self.flush() {
                    // Other nodes have to bring their parts home first.
                    Err(e) if e.kind() == ErrorKind::NotYetHome => {}
                    flushed => _ = flushed?,
                }
                found = self.levels()?.get(&step).copied();
            }
            if found.is_some_and(|found| found >= level) {
                return Ok(());
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

fn levels(inner: &Inner, snapshot: &Snapshot) -> Result<BTreeMap<u64, Level>> {
    let all = |level: Level| snapshot.steps.iter().map(|step| (step, level)).collect();
    let away: BTreeSet<(u64, u32)> = inner.away_of(snapshot)?.into_iter().map(|part| part.part).collect();
    let durable = inner.identity.durability == Durability::Durable || inner.store.features().put_is_durable;
    if !away.is_empty() {
        return levels_with(inner, snapshot, &away, durable);
    }
    if durable || snapshot.manifest.marked {
        return Ok(all(Level::Stable));
    }
    let marked = inner.last_marked(snapshot).max(descent::newest_mark(inner.store.as_ref())?);
    if marked >= snapshot.version() {
        return Ok(all(Level::Stable));
    }
    levels_with(inner, snapshot, &BTreeSet::new(), false)
}

/// The same from the entries of the index. `away`: writers and numbers of the parts that are not home. `durable`: what
/// is home is stable.
fn levels_with(
    inner: &Inner,
    snapshot: &Snapshot,
    away: &BTreeSet<(u64, u32)>,
    durable: bool,
) -> Result<BTreeMap<u64, Level>> {
    let marked = inner.last_marked(snapshot).max(descent::newest_mark(inner.store.as_ref())?);
    let sources = if away.is_empty() { Vec::new() } else { snapshot.sources(&inner.pages)? };
    let is_away: BTreeSet<u32> = (0..)
        .zip(&sources)
        .filter(|(_, source)| source.kind == 0 && away.contains(&(source.writer, source.part)))
        .map(|(number, _)| number)
        .collect();
    // A step is stable if the newest flushed snapshot contains it and nothing was written to it since.
    let flushed = match marked {
        0 => None,
        marked => manifests::read_manifest(inner.store.as_ref(), marked, &inner.identity.uuid)
            .and_then(|manifest| Snapshot::load(manifest, &inner.pages))
            .ok(),
    };
    // Parts that exist only in the tiers of their node.
    let kept = if away.is_empty() { BTreeSet::new() } else { inner.kept()? };
    let is_alone: BTreeSet<u32> = (0..)
        .zip(&sources)
        .filter(|(_, source)| !kept.contains(&(source.writer, source.part)))
        .map(|(number, _)| number)
        .filter(|number| is_away.contains(number))
        .collect();
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let mut staged: BTreeSet<u64> = BTreeSet::new();
    let mut alone: BTreeSet<u64> = BTreeSet::new();
    if let Some(root) = &snapshot.manifest.root {
        tree::entries(&inner.pages, root, &mut |entry| {
            if entry.commit > marked {
                written.extend(entry.step.checked_sub(1));
            }
            if is_away.contains(&entry.source) {
                staged.extend(entry.step.checked_sub(1));
            }
            if is_alone.contains(&entry.source) {
                alone.extend(entry.step.checked_sub(1));
            }
        })?;
    }
    let level = |step: u64| {
        if staged.contains(&step) {
            return if alone.contains(&step) { Level::Node } else { Level::Partner };
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
