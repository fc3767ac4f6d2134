//! Replicas: the same cells stored more than once, each time in another layout; a read takes the cheapest.
//!
//! One plan is made per replica, as if only the original blocks and that replica existed, and the predicted times are
//! compared. If a replica holds only a part of the cells, the rest is read from the original blocks. Published chunks
//! are the replica [`PUBLISHED`]: whole chunks, newer than every block that was published in them and older than every
//! later one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use drystone_format::entry::Encoding;

use super::{ReadPlan, Slot, Work};
use crate::counted::counted;

/// The number of the published replica in `zarr/`; no stored replica has it.
pub const PUBLISHED: u32 = u32::MAX;

/// Stored replicas from this number on are indexes that answer questions about values. Reads of arrays ignore them, so
/// a damaged index slows a question and changes no value.
pub const INDEXES: u32 = 1 << 31;
/// The replica that holds values by bins.
pub const BINS: u32 = INDEXES;
/// The replica that holds values in ascending order, with the values of other variables at the same cells.
pub const SORTED: u32 = INDEXES + 1;

/// The cost of a read from one replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Number of the replica; 0 is the original blocks, [`PUBLISHED`] the published replica.
    pub replica: u32,
    /// Bytes that would be read.
    pub bytes: u64,
    /// Requests for them.
    pub requests: usize,
    /// Predicted time, decoding included.
    pub seconds: f64,
    /// Whether the plan reads this replica.
    pub chosen: bool,
}

impl Choice {
    /// The cost of a plan that takes this many seconds.
    pub fn of(replica: u32, plan: &ReadPlan, seconds: f64) -> Choice {
        Choice { replica, bytes: plan.read_bytes, requests: plan.requests, seconds, chosen: false }
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        match self.replica {
            0 => "default".into(),
            PUBLISHED => "published".into(),
            BINS => "bins".into(),
            SORTED => "sorted".into(),
            number => format!("replica {number}"),
        }
    }
}

impl Display for Choice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        let requests = counted(self.requests as u64, "request");
        write!(f, ": {} bytes in {requests}, {:.3} ms", self.bytes, self.seconds * 1e3)?;
        f.write_str(if self.chosen { ", chosen" } else { "" })
    }
}

/// Seconds to decode and scatter the bytes of a plan.
pub(crate) fn decoding(plan: &ReadPlan, slots: &[Slot]) -> f64 {
    decoding_by_source(plan, slots).values().sum()
}

/// Seconds that one thread needs to decode and scatter what a plan reads from each source.
pub(crate) fn decoding_by_source(plan: &ReadPlan, slots: &[Slot]) -> BTreeMap<u32, f64> {
    let mut seconds = BTreeMap::new();
    let mut before = None;
    for work in &plan.works {
        let Some(slot) = slots.get(work.slot) else { continue };
        let Some(entry) = slot.candidates.get(work.entry).map(|candidate| &candidate.entry) else { continue };
        let encoding = &entry.encoding;
        let placed = work.part.cells().saturating_mul(u64::from(encoding.item)) as f64;
        let mut own = placed / PLACING + runs(work, slot) as f64 * PER_RUN;
        let piece = (entry.source, work.piece);
        if !encoding.chain.is_empty() && before.replace(piece) != Some(piece) {
            own += PER_DECODED + decoded_len(work, encoding) as f64 / rate(&encoding.chain);
        }
        *seconds.entry(entry.source).or_insert(0.0) += own;
    }
    seconds
}

/// Bytes that a plan decodes.
pub(crate) fn decoded_bytes(plan: &ReadPlan, slots: &[Slot]) -> u64 {
    coded(plan, slots).fold(0, |sum: u64, (_, len)| sum.saturating_add(len))
}

/// The pieces that a plan decodes, with their decoded bytes. A piece that several works in a row share is
/// decoded once.
fn coded<'a>(plan: &'a ReadPlan, slots: &'a [Slot]) -> impl Iterator<Item = (&'a Encoding, u64)> {
    let mut before = None;
    plan.works.iter().filter_map(move |work| {
        let entry = &slots.get(work.slot)?.candidates.get(work.entry)?.entry;
        let piece = (entry.source, work.piece);
        if entry.encoding.chain.is_empty() || before.replace(piece) == Some(piece) {
            return None;
        }
        Some((&*entry.encoding, decoded_len(work, &entry.encoding)))
    })
}

/// Bytes of a work's whole subchunk.
fn decoded_len(work: &Work, encoding: &Encoding) -> u64 {
    let cells = work.part.chunk_shape.iter().fold(1u64, |n, edge| n.saturating_mul(*edge));
    cells.saturating_mul(u64::from(encoding.room())).saturating_mul(encoding.boxes())
}

/// The number of runs of cells that a work copies: cells that are adjacent both in the subchunk and in the destination.
fn runs(work: &Work, slot: &Slot) -> u64 {
    let (mut runs, mut together) = (1u64, true);
    for (d, axis) in slot.selection.axes.iter().enumerate().rev() {
        let (Some((_, step, count)), Some(edge)) = (work.part.chunk.get(d), work.part.chunk_shape.get(d))
        else {
            break;
        };
        together &= *step == 1;
        if !together {
            runs = runs.saturating_mul(*count);
        }
        // A run continues along the next axis only if this axis is whole on both sides.
        together &= count == edge && *count == axis.count;
    }
    runs
}

/// Bytes per second that are verified and copied, not counting the time per run.
const PLACING: f64 = 2.5e9;
/// Seconds per run of cells besides its bytes.
const PER_RUN: f64 = 6e-9;
/// Seconds per decoded piece besides its bytes.
const PER_DECODED: f64 = 3e-6;

/// Decoded bytes per second of one core, in round numbers: the alternatives differ by more than machines do.
fn rate(chain: &str) -> f64 {
    let one = |codec: &str| match codec.split(':').next().unwrap_or_default().trim() {
        "crc32c" | "shuffle" | "bitshuffle" | "delta" => 5e9,
        "lz4" | "blosc" => 2e9,
        "zstd" => 1e9,
        "zlib" => 3e8,
        "bzip2" => 3e7,
        _ => 5e8,
    };
    1.0 / chain.split(',').map(|codec| 1.0 / one(codec)).sum::<f64>()
}

/// The numbers of the replicas among the candidates that a read of an array may use, ascending, without 0.
pub fn numbers(slots: &[Slot]) -> Vec<u32> {
    let all = slots.iter().flat_map(|slot| &slot.candidates).map(|c| c.entry.encoding.replica);
    let serves = |number: &u32| *number == PUBLISHED || (1..INDEXES).contains(number);
    all.filter(serves).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The slots with the original blocks and one replica (0: none) as candidates. Blocks of the replica come after
/// original blocks of the same age, so they show.
pub fn offered(slots: &[Slot], replica: u32) -> Vec<Slot> {
    let of = |slot: &Slot, number: u32| {
        slot.candidates
            .iter()
            .filter(move |c| c.entry.encoding.replica == number)
            .cloned()
            .collect::<Vec<_>>()
    };
    let one = |slot: &Slot| {
        let mut candidates = of(slot, 0);
        if replica > 0 {
            candidates.extend(of(slot, replica));
        }
        Slot { candidates, selection: slot.selection.clone(), ..*slot }
    };
    slots.iter().map(one).collect()
}
