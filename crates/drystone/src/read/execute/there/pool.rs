//! Observations about the object servers of a pool: whether they run programs, how fast they are, and how fast the
//! link is.
//!
//! Observations are kept per device in the process, so that containers on the same pool share them. A pool that
//! refused programs is asked again after a while, since servers are upgraded.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drystone_plan::layout::Device;
use drystone_plan::programs::{Programs, Rates};
use drystone_store::{Store, StoreError};

use super::{READ, READ_2, VERSION};
use crate::base::cpus::threads;
use crate::base::sync::lock;
use crate::container::Inner;

/// Time after which a pool that refused programs is asked again.
const AGAIN: Duration = Duration::from_secs(600);
/// A link is measured with a read of this many bytes, then with longer ones until one takes notably longer than the
/// first.
const PROBES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
/// A read that takes this many seconds longer than the first is notably longer: the link is slow, and needs no
/// further measurement.
const NOTABLE: f64 = 2e-3;
/// Number of reads by ranges after which programs are tried again. Earlier observations may have been made at a bad
/// moment.
const TRY_AGAIN: u32 = 64;
/// A single observation changes a rate by no more than these factors.
const FACTORS: (f64, f64) = (0.2, 20.0);
/// Transfers of fewer bytes are too short to show a rate.
const TELLING: u64 = 1 << 20;

/// Observations about one pool.
pub(super) struct Pool {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When the pool refused to run programs, and its reason.
    refused: Option<(Instant, String)>,
    /// The pool has stated that it runs programs.
    speaks: bool,
    /// The pool has stated that it also runs programs of version 2.
    counts: bool,
    /// The measured link.
    link: Option<Device>,
    /// Bytes per second that the servers decode and gather.
    there: Option<f64>,
    /// The factor by which reads by ranges took longer than predicted.
    here: Option<f64>,
    /// Reads by ranges since the last program.
    passed: u32,
    /// Number of calls that failed for other reasons.
    failures: u32,
}

static POOLS: Mutex<Option<HashMap<String, Arc<Pool>>>> = Mutex::new(None);

/// The observations about the pool of a store.
pub(super) fn of(store: &dyn Store) -> Arc<Pool> {
    let name = store.device().unwrap_or_else(|| store.describe());
    let mut pools = lock(&POOLS);
    let pools = pools.get_or_insert_default();
    pools.entry(name).or_insert_with(|| Arc::new(Pool { known: Mutex::default() })).clone()
}

impl Pool {
    /// The cost of programs and of ranges as far as it was measured, or why no program is run. The first call asks
    /// the pool for its version, and measures the link with the beginning of a range that would be read anyway. If
    /// programs are always sent, the link is not measured.
    pub(super) fn rates(
        &self,
        inner: &Inner,
        key: &str,
        range: &Range<u64>,
        programs: Programs,
    ) -> Result<Rates, String> {
        let (speaks, mut link, (there, here, trial)) = {
            let mut known = lock(&self.known);
            match &known.refused {
                Some((at, what)) if at.elapsed() < AGAIN => return Err(what.clone()),
                Some(_) => *known = Known::default(),
                None => {}
            }
            let trial = known.there.is_none() || known.passed >= TRY_AGAIN;
            (known.speaks, known.link, (known.there, known.here, trial))
        };
        if !speaks && !self.asks(inner, key) {
            let known = lock(&self.known);
            let unknown = || "the store did not say which read programs it runs".to_owned();
            return Err(known.refused.as_ref().map_or_else(unknown, |(_, what)| what.clone()));
        }
        if link.is_none() && programs == Programs::Auto {
            link = self.probe(inner, key, range);
        }
        let device = link.filter(|_| inner.profile().is_none()).unwrap_or_else(|| inner.device());
        let (there, here) = (there.unwrap_or(Rates::THERE), here.unwrap_or(1.0));
        Ok(Rates { device, there, here, threads: threads(), trial, narrow: false })
    }

    /// Whether the pool runs programs of version 2, which count the hits of a condition. Known after
    /// [`rates`](Self::rates).
    pub(super) fn counts(&self) -> bool {
        lock(&self.known).counts
    }

    /// Asks whether the pool runs programs.
    fn asks(&self, inner: &Inner, key: &str) -> bool {
        let store = inner.store.as_ref();
        match store.exec(key, VERSION, &[]) {
            Ok(versions) if speaks(&versions, READ) => {
                let mut known = lock(&self.known);
                (known.speaks, known.counts) = (true, speaks(&versions, READ_2));
                return true;
            }
            Ok(_) => {
                self.refuse(inner, &format!("{} runs read programs of another version", store.describe()))
            }
            Err(error) => self.failed(inner, &error),
        }
        false
    }

    fn probe(&self, inner: &Inner, key: &str, range: &Range<u64>) -> Option<Device> {
        // The faster of two reads counts: other load can only slow a read down.
        let timed = |len: u64| {
            let len = len.min(range.end.saturating_sub(range.start));
            let mut bytes = vec![0; usize::try_from(len).ok()?];
            let mut least = f64::INFINITY;
            for _ in 0..2 {
                let began = Instant::now();
                inner.store.read(key, range.start, &mut bytes).ok()?;
                least = least.min(began.elapsed().as_secs_f64());
                if least >= NOTABLE {
                    break;
                }
            }
            Some((len as f64, least))
        };
        let assumed = inner.device();
        let [first, longer @ ..] = PROBES;
        let (few, short) = timed(first)?;
        let mut bandwidth = assumed.bandwidth;
        for len in longer {
            let (many, long) = timed(len)?;
            if many >= 2.0 * few && long > short {
                bandwidth = (many - few) / (long - short);
            }
            if long - short >= NOTABLE {
                break;
            }
        }
        let link = Device { bandwidth, request: assumed.request };
        lock(&self.known).link = Some(link);
        Some(link)
    }

    fn refuse(&self, inner: &Inner, what: &str) {
        let first = {
            let mut known = lock(&self.known);
            known.refused.replace((Instant::now(), what.to_owned())).is_none()
        };
        if first {
            inner.warn(format!(
                "{what}: reads fetch ranges instead, with the same values (docs/guide/ceph.md and docs/guide/server.md, \"Read programs\")"
            ));
        }
    }

    /// Records a failed call. Programs are not tried again for a while if the call is not supported, or if calls keep
    /// failing. A missing object was packed meanwhile, or its pack was merged; that says nothing about the pool.
    pub(super) fn failed(&self, inner: &Inner, error: &StoreError) {
        if matches!(error, StoreError::NotFound { .. }) {
            return;
        }
        const MOST: u32 = 3;
        let failures = {
            let mut known = lock(&self.known);
            known.failures += 1;
            known.failures
        };
        if matches!(error, StoreError::Unsupported { .. }) || failures >= MOST {
            self.refuse(inner, &format!("read programs are not run: {error}"));
        }
    }

    /// Records the duration of calls, the bytes transferred, and the bytes that were read and decoded for them.
    pub(super) fn took(&self, time: Duration, bytes: u64, decoded: u64, calls: usize) {
        if decoded < TELLING {
            return;
        }
        let mut known = lock(&self.known);
        (known.failures, known.passed) = (0, 0);
        let link = known.link.map_or(0.0, |link| link.seconds(calls as f64, bytes as f64));
        // The servers took the time that the link did not take; at least a tenth.
        let spent = (time.as_secs_f64() - link).max(time.as_secs_f64() * 0.1).max(1e-6);
        let seen = decoded as f64 / spent;
        known.there = Some(known.there.map_or(seen, |before| 0.5 * (before + seen)));
    }
}

impl Pool {
    /// Records the duration of a read by ranges that was predicted to take `predicted` seconds.
    pub(super) fn ranges_took(&self, time: Duration, predicted: f64, bytes: u64) {
        let mut known = lock(&self.known);
        known.passed = known.passed.saturating_add(1);
        if bytes < TELLING || predicted <= 0.0 {
            return;
        }
        let before = known.here.unwrap_or(1.0);
        let seen = (before * time.as_secs_f64() / predicted).clamp(FACTORS.0, FACTORS.1);
        known.here = Some((before * seen).sqrt());
    }
}

/// Whether a reply to `dry.version` names a method.
fn speaks(versions: &[u8], wanted: &str) -> bool {
    std::str::from_utf8(versions).is_ok_and(|text| text.split_whitespace().any(|method| method == wanted))
}
