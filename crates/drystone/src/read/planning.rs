//! From slots to a plan: loads the tables and checksums that it needs, and chooses the cheapest replica.

use std::ops::Range;

use drystone_format::entry::{Entry, StoredPiece};
use drystone_plan::ahead::ahead_of_tables;
use drystone_plan::coalesce::{Fetch, coalesce};
use drystone_plan::layout::{Device, predict_read, under_way};
use drystone_plan::local_read::groups;
use drystone_plan::read_plan::{self, Choice, PlanError, Slot};
use drystone_plan::resolve::Resolved;

use super::execute::trailers;
use super::prefetch;
use super::sources::Sources;
use super::tables::{FAR_TABLE, decode_table};
use super::{Prepared, Reading, Sought, Tables, published};
use crate::base::cpus::threads;
use crate::schema::member::Column;
use crate::{Error, Result};

/// The assumed device for comparing replicas on a store that was not measured. Requests go out together.
const UNMEASURED: Device = Device { bandwidth: 1e9, request: 3e-5 };

/// Round trips of a read of published shards: one each for indexes, chunks and stamps.
const LOOKS: f64 = 3.0;

impl Reading {
    /// Plans a read with the cheapest replica, or with the original if there are no replicas.
    pub(super) fn plan(&self, sought: Sought) -> Result<Prepared> {
        self.cheapest(sought, &|columns, slots| self.plan_one(columns, slots))
    }

    /// Plans with published chunks among the candidates. On a far store they are considered only if reading the log
    /// takes longer than finding them, because indexes and stamps of shards take two more round trips.
    pub(super) fn by_log_or(&self, plan: &dyn Fn(&Reading) -> Result<Prepared>) -> Result<Prepared> {
        if self.shelf.is_none() || self.forced.is_some() || self.inner.window().is_none() {
            return plan(self);
        }
        // If planning from the log fails, the missing bytes may still have been published.
        if let Ok(mut prepared) = plan(&self.clone().from_log()) {
            let seconds = self.predicted(&prepared, UNMEASURED);
            let wanted = self.inner.device().seconds(1.0, prepared.plan.wanted_bytes as f64);
            if seconds <= LOOKS * self.inner.far_latency() + wanted {
                let choice = Choice { chosen: true, ..Choice::of(0, &prepared.plan, seconds) };
                prepared.plan.choices = vec![choice];
                return Ok(prepared);
            }
        }
        plan(self)
    }

    /// The cheapest of the plans that `one` makes of the original with each replica.
    pub(super) fn cheapest(
        &self,
        sought: Sought,
        one: &dyn Fn(Vec<Column>, Vec<Slot>) -> Result<Prepared>,
    ) -> Result<Prepared> {
        let Sought { columns, slots } = sought;
        let replicas = read_plan::numbers(&slots);
        if replicas.is_empty() {
            return one(columns, slots);
        }
        let mut best: Option<(f64, Prepared)> = None;
        let mut choices: Vec<Choice> = Vec::with_capacity(replicas.len() + 1);
        for replica in std::iter::once(0).chain(replicas) {
            let mut prepared = one(columns.clone(), read_plan::offered(&slots, replica))?;
            published::count_stamps(&mut prepared.plan);
            let seconds = self.predicted(&prepared, UNMEASURED);
            let mut choice = Choice::of(replica, &prepared.plan, seconds);
            let better = match (self.forced, &best) {
                (_, None) => true,
                (Some(forced), _) => replica == forced,
                (None, Some((least, _))) => choice.seconds < *least,
            };
            if better {
                choices.iter_mut().for_each(|c| c.chosen = false);
                choice.chosen = true;
                best = Some((choice.seconds, prepared));
            }
            choices.push(choice);
        }
        let Some((_, mut prepared)) = best else {
            return one(columns, slots);
        };
        prepared.plan.choices = choices;
        Ok(prepared)
    }

    pub(super) fn plan_one(&self, columns: Vec<Column>, slots: Vec<Slot>) -> Result<Prepared> {
        let sources = Sources::of(self);
        let resolved = read_plan::resolve_slots(&slots).map_err(|e| self.plan_error(&slots, &sources, e))?;
        let tables = self.tables(&slots, &resolved, &sources)?;
        let get = |slot, candidate| tables.get(&(slot, candidate)).map_or(&[][..], |t| t.as_slice());
        let options = self.options();
        let error = |e| self.plan_error(&slots, &sources, e);
        let mut plan = read_plan::plan(&slots, &resolved, get, |_, _| None, &options).map_err(error)?;
        if !plan.unknown.is_empty() {
            let known = trailers::for_plan(self, &sources, &plan.unknown)?;
            let meta = |source: u32, piece: &StoredPiece| Some(known.get(source, piece)?.meta.as_slice());
            plan = read_plan::plan(&slots, &resolved, get, meta, &options).map_err(error)?;
        }
        Ok(Prepared { columns, slots, listings: Vec::new(), resolved, plan })
    }

    /// The tables of the visible blocks that are cut, by slot and candidate.
    pub(super) fn tables(
        &self,
        slots: &[Slot],
        resolved: &[Resolved],
        sources: &Sources<'_>,
    ) -> Result<Tables> {
        let (mut tables, mut missing) = (Tables::new(), Vec::new());
        for at in read_plan::needed_tables(slots, resolved) {
            let entry = &slots[at.0].candidates[at.1].entry;
            let source = sources.get(entry.source)?;
            match self.inner.tables.find(&(source.writer, source.part, entry.piece.position)) {
                Some(table) => drop(tables.insert(at, table)),
                None => missing.push((at, entry)),
            }
        }
        if self.inner.window().is_none() {
            let place = |entry: &Entry| (entry.source, entry.piece.position, entry.piece.length);
            let ahead = ahead_of_tables(missing.iter().map(|(_, entry)| place(entry)));
            prefetch::alike(self, &ahead, sources);
        }
        self.fetch_tables(&missing, sources)?;
        for (at, entry) in missing {
            tables.insert(at, self.table(entry, sources)?);
        }
        Ok(tables)
    }

    /// Fetches tables into the cache: all at once from a far store, many per call from a file. A table that fails is
    /// read again individually, which reports the error.
    fn fetch_tables(&self, missing: &[((usize, usize), &Entry)], sources: &Sources<'_>) -> Result<()> {
        let wanted = missing.iter().map(|(_, entry)| *entry).filter(|entry| entry.piece.length <= FAR_TABLE);
        let mut wanted: Vec<(u32, Range<u64>, &Entry)> = wanted
            .map(|entry| (entry.source, entry.piece.position, entry.piece.length, entry))
            .map(|(source, at, len, entry)| (source, at..at.saturating_add(len), entry))
            .collect();
        if wanted.len() < 2 {
            return Ok(());
        }
        wanted.sort_by_key(|(source, range, _)| (*source, range.start));
        wanted.dedup_by_key(|(source, range, _)| (*source, range.start));
        let options = self.options();
        let fetches = coalesce(wanted, options.gap, options.max_request);
        let mut keep = |fetch: &Fetch<&Entry>, bytes: &[u8]| {
            let source = sources.get(fetch.source)?;
            for (range, entry) in &fetch.items {
                let within =
                    (range.start - fetch.range.start) as usize..(range.end - fetch.range.start) as usize;
                let Some(bytes) = bytes.get(within) else { continue };
                let key = (source.writer, source.part, entry.piece.position);
                if entry.piece.trailer == 0
                    && let Ok((table, cost)) = decode_table(entry, "", bytes)
                {
                    self.inner.tables.put(key, table, cost);
                }
            }
            Ok(())
        };
        if self.inner.window().is_some() {
            return self.fetch_all(sources, &fetches, &mut keep);
        }
        let mut buffer = Vec::new();
        for group in groups(&fetches.iter().collect::<Vec<_>>()) {
            let group = &fetches[group];
            if self.read_group(sources, group, &mut buffer).is_err() {
                continue;
            }
            let mut bytes = &buffer[..];
            for fetch in group {
                let (own, behind) = bytes.split_at(fetch.len() as usize);
                bytes = behind;
                keep(fetch, own)?;
            }
        }
        Ok(())
    }

    pub(super) fn plan_error(&self, slots: &[Slot], sources: &Sources<'_>, error: PlanError) -> Error {
        let (slot, candidate, corrupt) = match &error {
            PlanError::Corrupt { slot, candidate, .. } => (*slot, *candidate, true),
            PlanError::Unsupported { slot, candidate, .. } => (*slot, *candidate, false),
        };
        let place = slots.get(slot).and_then(|s| s.candidates.get(candidate)).map_or_else(String::new, |c| {
            let key = sources.key(c.entry.source).unwrap_or_else(|_| "an unknown source".into());
            format!("{key} at byte {}: ", c.entry.piece.position)
        });
        let message = format!("variable \"{}\": {place}{error}", self.path);
        if corrupt { Error::corrupt(message) } else { Error::unsupported(message) }
    }
}

impl Reading {
    /// Predicted seconds of a plan on the measured store. If it was not measured: on the store's assumed far device,
    /// else on `near`.
    pub(super) fn predicted(&self, prepared: &Prepared, near: Device) -> f64 {
        let (depth, working) = under_way(&prepared.plan, &prepared.slots, threads());
        if self.inner.window().is_some() {
            return f64::from(published::rounds(prepared)) * self.inner.far_latency()
                + predict_read(&prepared.plan, &prepared.slots, &self.inner.device(), working);
        }
        let device = self.inner.profile().map_or(near, |profile| profile.device(depth));
        predict_read(&prepared.plan, &prepared.slots, &device, working)
    }
}
