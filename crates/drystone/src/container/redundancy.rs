//! Steps in tiers that survive the loss of nodes: when their parity is made, and which callers wait for it
//! (docs/decisions/151-parity-of-steps.md).
//!
//! Invariants
//! - parity is made of committed steps, and of steps that all ranks have ended if one of the ranks waits for it;
//! - a level is reached or exceeded: bytes that no other node can keep are drained to home.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use drystone_format::identity::Identity;
use drystone_plan::tier::redundancy::Scheme;
use drystone_store_tiers::{Kept, TieredStore, Turn};

use super::{Container, Inner};
use crate::{Error, ErrorKind, Result};

/// After this time, processes other than the step's first writer may make the parity.
const TAKES_OVER: Duration = Duration::from_millis(500);
/// How long a rank that ends its step waits for the others. Then it drains its own part to home.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pauses between attempts for a step that cannot be kept yet: the first pause and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// Refuses a scheme if there are no tiers, and a scheme that this build cannot encode.
pub(super) fn check(redundancy: Scheme, tiers: bool) -> Result<()> {
    if redundancy == Scheme::None {
        return Ok(());
    }
    if !tiers {
        return Err(Error::invalid(format!(
            "redundancy \"{redundancy}\" applies to steps in tiers, and the container has none; give tiers=[...], too"
        )));
    }
    require_code(redundancy)
}

/// The spelling of a scheme in the identity.
pub(super) fn recorded(scheme: Scheme) -> String {
    if scheme == Scheme::None { String::new() } else { scheme.to_string() }
}

/// Refuses tiers, as `Unsupported`, for a container whose scheme is unknown to this program.
pub(super) fn require_known(identity: &Identity) -> Result<()> {
    if identity.redundancy.is_empty() {
        return Ok(());
    }
    let scheme = Scheme::parse(&identity.redundancy).map_err(|_| {
        Error::unsupported(format!(
            "the container's redundancy is \"{}\", which this version does not know; update drystone, or write without tiers",
            identity.redundancy
        ))
    })?;
    require_code(scheme)
}

fn require_code(scheme: Scheme) -> Result<()> {
    match TieredStore::codes(scheme) {
        true => Ok(()),
        false => Err(Error::unsupported(format!(
            "redundancy \"{scheme}\": this build has no Reed-Solomon code (the feature reed-solomon); use \"xor:N\" or \"partner\""
        ))),
    }
}

/// Steps of this handle that no other node keeps yet. The background thread maintains this set.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    /// For each step: when it was first seen, the time of the next attempt, and the pause after it.
    steps: BTreeMap<u64, (Instant, Instant, Duration)>,
}

impl Unkept {
    /// Makes the parity of committed steps. If steps are left, returns the time until the next attempt.
    pub(super) fn look(&mut self, inner: &Inner, store: &TieredStore) -> Option<Duration> {
        let unkept = store.steps_without_parity();
        self.steps.retain(|step, _| unkept.contains(step));
        if unkept.is_empty() {
            return None;
        }
        let now = Instant::now();
        let newest = inner.newest().ok()?.0;
        for step in unkept.into_iter().filter(|step| newest.steps.contains(*step)) {
            let (since, next, pause) = self.steps.entry(step).or_insert((now, now, PAUSES.0));
            if *next > now {
                continue;
            }
            let turn = if since.elapsed() < TAKES_OVER { Turn::First } else { Turn::Any };
            // A failed attempt is repeated; the step keeps its level meanwhile.
            if !matches!(store.protect(step, None, turn), Ok(Kept::Yes)) {
                *next = Instant::now() + *pause;
                *pause = (*pause * 2).min(PAUSES.1);
            }
        }
        Some(self.steps.values().map(|(_, next, _)| next.saturating_duration_since(now)).min()?.max(PAUSES.0))
    }
}

impl Container {
    /// How data in the container's tiers survives the loss of nodes. No redundancy without tiers.
    pub fn redundancy(&self) -> Scheme {
        self.inner.scheme()
    }
}

impl Inner {
    /// How data in tiers survives the loss of nodes.
    pub(crate) fn scheme(&self) -> Scheme {
        self.tiers.as_ref().map_or(Scheme::None, |tiers| tiers.store.scheme())
    }

    /// Parts whose parity other nodes keep, by writer and number.
    pub(crate) fn kept(&self) -> Result<BTreeSet<(u64, u32)>> {
        self.tiers.as_ref().map_or(Ok(BTreeSet::new()), |tiers| Ok(tiers.store.kept()?))
    }

    /// Makes the parity of a committed step, for a caller that has waited this long.
    pub(crate) fn keep_step(&self, step: u64, waited: Duration) -> Result<()> {
        let Some(tiers) = self.tiers.as_ref().filter(|_| self.is_unpinned()) else { return Ok(()) };
        let turn = if waited < TAKES_OVER { Turn::First } else { Turn::Any };
        match tiers.store.protect(step, None, turn).map_err(Error::from) {
            Err(e) if e.kind() == ErrorKind::Unsupported => Err(e),
            // The caller checks again.
            _ => Ok(()),
        }
    }

    /// Returns once other nodes keep a writer's bytes of a step, or the bytes are home. `ranks`: number of writers of
    /// the step.
    pub(crate) fn reach_partner(&self, writer: u64, step: u64, ranks: u32) -> Result<()> {
        let Some(tiers) = self.tiers.as_ref().filter(|tiers| tiers.is_used()) else { return Ok(()) };
        let (begun, mut pause) = (Instant::now(), PAUSES.0 / 10);
        while ranks > 1 && self.scheme() != Scheme::None && begun.elapsed() < PATIENCE {
            if tiers.store.is_kept(writer, step)? {
                return Ok(());
            }
            let turn = if begun.elapsed() < TAKES_OVER { Turn::First } else { Turn::Any };
            match tiers.store.protect(step, Some(ranks), turn).map_err(Error::from) {
                Ok(Kept::Yes) => continue,
                Ok(Kept::Cannot) => break,
                Err(e) if e.kind() == ErrorKind::Unsupported => return Err(e),
                Ok(Kept::NotYet) | Err(_) => {}
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.0 * 5);
        }
        self.drain_writer(writer)
    }
}
