//! Prefetching: starts reads of bytes that are needed now, or are likely to be needed next.
//!
//! `drystone_plan::next` predicts the following reads; its modules `ahead` and `in_order` choose the ranges. This
//! module makes the requests. Local files get hints, and the kernel reads ahead by itself. For a far store, a thread
//! fetches the bytes into the cache.
//!
//! Invariants
//! - predictions cost nothing noticeable to a reader of files that did not wait for the medium;
//! - a separate thread plans and fetches predicted reads, and only while no read waits.

mod far;
mod hints;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::dtype::DType;
use drystone_format::schema::Variable;
use drystone_plan::next::{Begun, Link, Next, together};
use drystone_plan::read_plan::Slot;
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tiles::Tiles;

use super::sources::Sources;
use super::{ReadReport, Reading};
use crate::base::sync::lock;
use crate::schema::member::Column;

pub use far::WarmReport;
pub(super) use hints::{alike, blocks, now};

/// A read that takes longer than this, and than [`PACE`] for its bytes, waited for the medium: only decoding is as
/// slow as that for bytes in memory.
const WAIT: Duration = Duration::from_micros(60);
/// Bytes per second.
const PACE: f64 = 1e9;
/// Number of following variables whose same cells are fetched from a far store.
const VARIABLES: usize = 4;

/// Whether the next read of the handle may wait for the medium, judged by the last read.
pub(super) fn may_wait(reading: &Reading) -> bool {
    lock(&reading.inner.predictor).variables.may_wait()
}

impl Reading {
    /// Reads by calling `read`, observes the duration, then prefetches the predicted next reads.
    pub(super) fn predicted_before(
        &self,
        selection: &Selection,
        read: impl FnOnce() -> crate::Result<ReadReport>,
    ) -> crate::Result<ReadReport> {
        let is_far = self.inner.window().is_some() && prefetches();
        let is_predicted = if is_far { self.is_predicted_far() } else { self.is_predicted() };
        if !is_predicted || selection.is_empty() {
            return read();
        }
        let steps = self.split(selection).0.count;
        let next = lock(&self.inner.predictor).variables.begins(self.variable.id, selection, steps);
        if is_far {
            self.prefetch_far(&next, selection);
        } else {
            self.prefetch_variables(&next, selection);
        }
        let began = Instant::now();
        let report = read()?;
        let pace = Duration::from_secs_f64(report.read_bytes as f64 / PACE);
        lock(&self.inner.predictor).variables.ended(began.elapsed() > WAIT + pace);
        if is_far {
            self.inner.prefetcher.read_ended();
        }
        Ok(report)
    }

    /// Announces that these pieces will be read in order, each by [`read`](Self::read). They are prefetched from a
    /// far store.
    pub fn announce(&self, pieces: &Tiles) {
        if self.inner.window().is_some() && prefetches() && self.is_predicted_far() {
            lock(&self.inner.predictor).announce(self.variable.id, pieces.clone());
        }
    }

    /// Whether predictions apply: its cells lie in the log, as one member.
    fn is_predicted(&self) -> bool {
        self.shelf.is_none() && self.is_predicted_far()
    }

    /// Whether predictions apply on a far store. Published shards, which may be read instead, are not prefetched.
    fn is_predicted_far(&self) -> bool {
        !self.is_derived() && matches!(self.variable.dtype, DType::Scalar(_))
    }

    /// Hints to files what is read now, and the same cells of the predicted variables.
    fn prefetch_variables(&self, next: &Next, selection: &Selection) {
        // On a far store all requests of a read are in flight at once, so hints would be useless.
        if *next == Next::Unknown || self.inner.window().is_some() {
            return;
        }
        let (steps, cells) = self.split(selection);
        let slots = self.alike_of(next).map_while(|other| other.next_slots(&steps, &cells));
        let together = together(self.next_slots(&steps, &cells).into_iter().chain(slots));
        lock(&self.inner.predictor).variables.prefetched(together.variables);
        let sources = Sources::of(self);
        if !together.in_order {
            return alike(self, &together.ranges, &sources);
        }
        for (source, range) in together.ranges {
            if let (Some(files), Ok(key)) = (self.inner.store.local(), sources.key(source)) {
                files.prefetch(&key, range);
            }
        }
    }

    /// Tells the thread which predicted reads to fetch from a far store.
    fn prefetch_far(&self, next: &Next, selection: &Selection) {
        let Some(cache) = self.inner.cache.clone() else { return };
        let device = self.inner.device();
        let link =
            Link { latency: self.inner.far_latency(), bandwidth: device.bandwidth, room: cache.room() };
        let shape = self.shape();
        let begun = Begun {
            variable: self.variable.id,
            cells: selection,
            shape: &shape,
            has_steps: self.variable.steps,
            item: u64::from(self.item),
            computed: self.inner.prefetcher.since_last_read().map(|computed| computed.as_secs_f64()),
        };
        let ahead = lock(&self.inner.predictor).boxes(&begun, &link);
        if ahead.jumped {
            self.inner.prefetcher.forget();
        }
        let mut wanted: Vec<(Reading, Selection)> = Vec::new();
        let bytes = selection.cells().unwrap_or(u64::MAX).saturating_mul(u64::from(self.item));
        if bytes.saturating_mul(VARIABLES as u64) <= link.room {
            let others: Vec<Reading> = self.alike_of(next).take(VARIABLES).collect();
            if *next != Next::Unknown {
                lock(&self.inner.predictor).variables.prefetched(others.len());
            }
            wanted.extend(others.into_iter().map(|other| (other, selection.clone())));
        }
        wanted.extend(ahead.boxes.into_iter().map(|cells| (self.clone(), cells)));
        for (reading, cells) in wanted {
            let cache = Arc::clone(&cache);
            self.inner.prefetcher.take(Box::new(move |go_on| {
                if reading.inner.require_open().is_err() {
                    return;
                }
                // The read itself reports the error.
                if let Ok(ranges) = reading.ranges(&cells) {
                    cache.prefetch(&ranges, go_on);
                }
            }));
        }
    }

    /// The readings of the following variables, up to the first that does not have the same cells.
    fn alike_of<'a>(&'a self, next: &'a Next) -> impl Iterator<Item = Reading> + 'a {
        let all = &self.snapshot.schema.variables;
        next.among(all).filter(move |other| self.is_like(other)).map(move |other| self.of(other))
    }

    /// Whether another variable has the same cells.
    fn is_like(&self, other: &Variable) -> bool {
        let same = (other.steps, &other.shape) == (self.variable.steps, &self.variable.shape);
        same && !other.local && matches!(other.dtype, DType::Scalar(_))
    }

    /// A reading of another variable, for its blocks only.
    fn of(&self, other: &Variable) -> Reading {
        let leaves = Column::all(&other.dtype);
        let item = other.dtype.item_size();
        Reading { variable: Arc::new(other.clone()), leaves, item, ..self.clone() }
    }

    /// The slots of a predicted read. `None` on an error, which the read itself reports.
    fn next_slots(&self, steps: &Axis, cells: &Selection) -> Option<Vec<Slot>> {
        self.sought(steps, cells).ok().map(|sought| sought.slots)
    }
}

/// `DRYSTONE_PREFETCH=off` turns prefetching from a far store off, for measurements.
fn prefetches() -> bool {
    static ON: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ON.get_or_init(|| std::env::var_os("DRYSTONE_PREFETCH").is_none_or(|value| value != "off"))
}
