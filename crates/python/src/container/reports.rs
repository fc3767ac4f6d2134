//! Results of container calls for Python: tuples of numbers and texts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use drystone::plan::layout::Profile;
use drystone::{
    Calibration, Committed, Description, GcReport, Incomplete, IndexReport, PublishReport, PublishedArray,
    RecoverReport, StagedPart, TierRow, VariableUsage, VerifyReport,
};

/// (run, step, nranks, missing ranks, is an earlier close visible)
pub(super) type IncompleteStep = (u64, u64, u32, Vec<u32>, bool);
/// (version, nanoseconds since 1970, changed, incomplete steps, notes)
pub(super) type CommitResult = (u64, u64, bool, Vec<IncompleteStep>, Vec<String>);
/// (adopted, discarded, incomplete steps, notes, run, version)
pub(super) type RecoverResult = (Vec<u64>, Vec<u64>, Vec<IncompleteStep>, Vec<u64>, Vec<String>, u64, u64);
/// (files and bytes by folder, writers as (id, state, parts, bytes), run, index entries, waiting steps, do values wait,
/// incomplete steps, notes)
pub(super) type Described = (
    BTreeMap<String, (u64, u64)>,
    Vec<(u64, &'static str, u64, u64)>,
    u64,
    u64,
    Vec<u64>,
    bool,
    Vec<IncompleteStep>,
    Vec<String>,
);
/// (blocks, subchunks, stored bytes, decoded bytes, codec chains)
pub(super) type Used = (u64, u64, u64, u64, Vec<String>);
/// (object, variable, step, message)
pub(super) type DamageItem = (String, Option<String>, Option<u64>, String);
/// (entries, bytes, manifests, shards, damage, bytes not home by node)
pub(super) type VerifyResult = (u64, u64, u64, u64, Vec<DamageItem>, BTreeMap<String, u64>);
/// (folder, bytes, undrained, oldest undrained step, bytes per second, hits, why it is not used)
pub(super) type TierItem = (String, u64, u64, Option<u64>, f64, u64, Option<String>);
/// (node, part, step, bytes)
pub(super) type StagedItem = (String, String, Option<u64>, u64, bool);

/// (blocks, blocks that had an index, bytes of values, bytes of the index, snapshot)
pub(super) type IndexResult = (u64, u64, u64, u64, u64);
/// (snapshots kept, expired, index entries removed, (file, bytes) removed, bytes)
pub(super) type GcResult = (Vec<u64>, Vec<u64>, u64, Vec<(String, u64)>, u64);
/// (node, variable, member, shape, chunk, shard, shards written, kept, chunks copied, bytes written, reasons
/// for the chunk shape)
pub(super) type PublishedItem =
    (String, String, String, Vec<u64>, Vec<u64>, Vec<u64>, u64, u64, u64, u64, Option<String>);
/// (snapshot, arrays, unpublished variables with the reason, the file if it is one)
pub(super) type PublishResult = (u64, Vec<PublishedItem>, Vec<(String, String)>, Option<PathBuf>);

/// ((depth, bandwidth, seconds per request) of reads, write bandwidth, seconds per sync, cold, bytes of the probe,
/// time, as text)
pub(super) type ProfileItem = (Vec<(u32, f64, f64)>, f64, f64, Option<bool>, u64, u64, DoubtItem, String);
/// (spread, moved, load per processor, whether the machine is noisy)
pub(super) type DoubtItem = (f64, f64, Option<f64>, bool);
/// (profile, device, file it is stored in, why it is not stored)
pub(super) type CalibrationResult = (ProfileItem, Option<String>, Option<String>, Option<String>);

pub(super) fn profile(found: &Profile) -> ProfileItem {
    let reads = found.reads.iter().map(|r| (r.depth, r.bandwidth, r.request)).collect();
    let doubt = (found.doubt.spread, found.doubt.moved, found.doubt.load, found.doubt.is_noisy());
    (reads, found.write, found.sync, found.cold, found.probed, found.time, doubt, found.to_string())
}

pub(super) fn incomplete(steps: Vec<Incomplete>) -> Vec<IncompleteStep> {
    steps.into_iter().map(|i| (i.at.run, i.at.step, i.nranks, i.missing, i.again)).collect()
}

pub(super) fn committed(done: Committed) -> CommitResult {
    let snapshot = &done.snapshot;
    (snapshot.version(), snapshot.time(), done.changed, incomplete(done.incomplete), done.notes)
}

pub(super) fn described(found: Description) -> Described {
    let pending = found.pending;
    (
        found.files.into_iter().map(|(folder, count)| (folder, (count.files, count.bytes))).collect(),
        found.writers.into_iter().map(|w| (w.id, w.state.name(), w.parts, w.bytes)).collect(),
        found.run,
        found.entries,
        pending.steps,
        pending.values,
        incomplete(pending.incomplete),
        pending.notes,
    )
}

pub(super) fn used(found: &VariableUsage) -> Used {
    let chains = found.transforms.iter().cloned().collect();
    (found.blocks, found.subchunks, found.stored_bytes, found.decoded_bytes, chains)
}

pub(super) fn tier(row: TierRow) -> TierItem {
    (row.place, row.bytes, row.undrained, row.oldest, row.rate, row.hits, row.aside)
}

pub(super) fn staged(part: StagedPart) -> StagedItem {
    let name = format!("{:016x}-{:04}", part.part.0, part.part.1);
    (part.node, name, part.step, part.bytes, part.missing)
}

pub(super) fn recovered(report: RecoverReport) -> RecoverResult {
    let rest = incomplete(report.incomplete);
    (report.adopted, report.discarded, rest, report.rebuilt, report.notes, report.run, report.version)
}

fn published_array(array: PublishedArray) -> PublishedItem {
    let why = array.layout.map(|layout| layout.to_string());
    (
        array.node,
        array.variable,
        array.member,
        array.shape,
        array.chunk,
        array.shard,
        array.written,
        array.kept,
        array.copied,
        array.stored_bytes,
        why,
    )
}

pub(super) fn published(report: PublishReport, file: Option<PathBuf>) -> PublishResult {
    let arrays = report.arrays.into_iter().map(published_array).collect();
    let skipped = report.skipped.into_iter().map(|s| (s.variable, s.reason)).collect();
    (report.snapshot, arrays, skipped, file)
}

pub(super) fn collected(report: GcReport) -> GcResult {
    (report.kept, report.expired, report.superseded, report.removed, report.bytes)
}

pub(super) fn indexed(done: IndexReport) -> IndexResult {
    (done.blocks, done.indexed, done.decoded_bytes, done.bytes, done.snapshot)
}

pub(super) fn calibrated(done: Calibration) -> CalibrationResult {
    let kept = done.kept.map(|path| path.to_string_lossy().into_owned());
    (profile(&done.profile), done.device, kept, done.not_kept)
}

pub(super) fn verified(report: VerifyReport) -> VerifyResult {
    let damage = report.damage.into_iter().map(|d| (d.key, d.variable, d.step, d.message)).collect();
    (report.entries, report.bytes, report.manifests, report.shards, damage, report.away)
}
