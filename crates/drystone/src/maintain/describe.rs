//! Describes a container in numbers: files, writers, variables, and steps that wait for a commit. Writes nothing.
//!
//! The result is for people; nothing in the engine depends on it. File sizes and pending steps are those at the time
//! of the call. Everything else is that of the handle's snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drystone_format::source::SourceState;
use drystone_format::steps::Steps;
use drystone_format::{MAX_NDIM, keys};
use drystone_plan::tree;
use drystone_store::StoreError;

use crate::commit::adoption;
use crate::commit::adoption::{Books, Damaged, Logs, Scope, Verdict};
use crate::commit::transaction::Incomplete;
use crate::container::Container;
use crate::history::snapshot::Snapshot;
use crate::log::scan::{Group, WriterLog};
use crate::read::{load_table, share};
use crate::{ErrorKind, Result};

/// Identifies a block of a variable: step, commit, rank or writer, put, first cell.
type BlockKey = (u64, u64, u64, u64, [u64; MAX_NDIM]);

/// The contents of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Number and bytes of files by top folder (`log`, `index`, `manifest`, `zarr`, …). The key is empty for files
    /// beside the folders.
    pub files: BTreeMap<String, FileCount>,
    /// Every writer that left a log, by its id.
    pub writers: Vec<WriterInfo>,
    /// The number of fences, which is the run that ranked writers now join.
    pub run: u64,
    /// The number of index entries of the snapshot: one per block and leaf member.
    pub entries: u64,
    /// The steps and values that the next commit would take, and those it could not take.
    pub pending: Pending,
}

/// A number of files and the bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FileCount {
    pub files: u64,
    pub bytes: u64,
}

/// One writer's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterInfo {
    /// Its id, which names its files.
    pub id: u64,
    /// The number of files into which its log was cut.
    pub parts: u64,
    /// Bytes of its segments and step records, as stored.
    pub bytes: u64,
    /// Its state in the snapshot.
    pub state: WriterState,
}

/// The state of a writer in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// No commit has taken anything from it yet.
    Unseen,
    /// It may write more.
    Open,
    /// Everything it wrote is settled.
    Closed,
    /// A recovery fenced it.
    Fenced,
}

impl WriterState {
    /// The state as one word.
    pub const fn name(self) -> &'static str {
        match self {
            WriterState::Unseen => "unseen",
            WriterState::Open => "open",
            WriterState::Closed => "closed",
            WriterState::Fenced => "fenced",
        }
    }
}

/// Steps and values that writers have left beyond the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pending {
    /// Steps that the next commit would make visible (or change), ascending.
    pub steps: Vec<u64>,
    /// Whether values without a step are pending as well.
    pub values: bool,
    /// Steps that not all ranks have closed. No commit takes them.
    pub incomplete: Vec<Incomplete>,
    /// Damage, conflicts and other remarks for the user.
    pub notes: Vec<String>,
}

impl Pending {
    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && !self.values && self.incomplete.is_empty()
    }
}

/// The size of one variable in the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VariableUsage {
    /// Number of blocks, including overwritten ones, without those of replaced steps.
    pub blocks: u64,
    /// Number of their subchunks, over all members.
    pub subchunks: u64,
    /// Payload bytes as stored. Strings count with their references only.
    pub stored_bytes: u64,
    /// The bytes of the same cells in memory.
    pub decoded_bytes: u64,
    /// Steps that have a block; of a derived variable, steps in which every input has one.
    pub steps: Steps,
    /// The codec chains in use. The empty text means raw.
    pub transforms: BTreeSet<String>,
    /// Shapes of the subchunks of cut blocks, at most [`MOST_CUTS`]. `None` stands for blocks that are not cut.
    pub cuts: BTreeSet<Option<Vec<u64>>>,
}

/// The most different cuts that are reported for a variable.
pub(crate) const MOST_CUTS: usize = 8;

/// Takes every group that a commit may take.
struct Any {
    fence: bool,
}

impl Verdict for Any {
    fn keep(&self, _: &WriterLog, _: &Group) -> bool {
        true
    }
    fn fence(&self) -> bool {
        self.fence
    }
}

impl Container {
    /// Describes the container: files, writers, pending steps. Lists the store, and reads the unsettled ends of logs.
    pub fn describe(&self) -> Result<Description> {
        self.inner.require_open()?;
        self.inner.require_same()?;
        let snapshot = self.snapshot();
        let mut out = Description {
            run: snapshot.manifest.fence,
            entries: snapshot.entry_count(),
            ..Description::default()
        };
        let mut states: BTreeMap<u64, WriterState> = BTreeMap::new();
        for source in snapshot.sources(&self.inner.pages)?.iter().filter(|s| s.kind == 0) {
            let state = match source.state {
                SourceState::Open => WriterState::Open,
                SourceState::Closed => WriterState::Closed,
                SourceState::Fenced => WriterState::Fenced,
            };
            let known = states.entry(source.writer).or_insert(state);
            if *known == WriterState::Closed {
                *known = state;
            }
        }
        let mut writers: BTreeMap<u64, WriterInfo> = BTreeMap::new();
        let files = match self.inner.store.list("") {
            // A store behind a web server cannot list: only the manifest's content is known.
            Err(StoreError::Unsupported { .. }) => {
                let known = |(&id, &state)| WriterInfo { id, parts: 0, bytes: 0, state };
                out.writers = states.iter().map(known).collect();
                return Ok(out);
            }
            files => files?,
        };
        for file in files {
            let folder = file.key.split_once('/').map_or("", |(folder, _)| folder);
            let count = out.files.entry(folder.to_string()).or_default();
            count.files += 1;
            count.bytes += file.len;
            if let Some((id, _, is_idx)) = keys::parse_log(&file.key) {
                let state = states.get(&id).copied().unwrap_or(WriterState::Unseen);
                let writer = writers.entry(id).or_insert(WriterInfo { id, parts: 0, bytes: 0, state });
                writer.parts += u64::from(is_idx);
                writer.bytes += file.len;
            }
        }
        let packed = self.inner.log_packs.as_ref().map(|logs| logs.look()).transpose()?;
        for (key, len) in packed.iter().flat_map(|packed| packed.files()) {
            let Some((id, _, is_idx)) = keys::parse_log(&key) else { continue };
            let state = states.get(&id).copied().unwrap_or(WriterState::Unseen);
            let writer = writers.entry(id).or_insert(WriterInfo { id, parts: 0, bytes: 0, state });
            writer.parts += u64::from(is_idx);
            writer.bytes += len;
        }
        let (logs, notes) = adoption::gather(&self.inner, &snapshot, Damaged::GiveUp, Logs::All)?;
        let books = Books::new(&snapshot, snapshot.sources(&self.inner.pages)?);
        for log in &logs {
            // The log ended after the last commit, which does not show that. Nothing more will come.
            let ended = log.is_closed() && !adoption::has_pending(log, &books);
            if let Some(writer) = writers.get_mut(&log.header.id)
                && writer.state == WriterState::Open
                && ended
            {
                writer.state = WriterState::Closed;
            }
        }
        out.writers = writers.into_values().collect();
        out.pending = self.pending_of(&snapshot, &logs, notes)?;
        Ok(out)
    }

    /// Steps and values that writers have closed beyond the handle's snapshot. Commits nothing.
    pub fn pending(&self) -> Result<Pending> {
        self.inner.require_open()?;
        let base = self.snapshot();
        let (logs, notes) = adoption::gather(&self.inner, &base, Damaged::GiveUp, Logs::All)?;
        self.pending_of(&base, &logs, notes)
    }

    fn pending_of(
        &self,
        base: &Arc<Snapshot>,
        logs: &[WriterLog],
        mut notes: Vec<String>,
    ) -> Result<Pending> {
        let sources = base.sources(&self.inner.pages)?;
        let version = base.version() + 1;
        let plan = |fence| adoption::plan(base, sources.clone(), logs, Scope::All, version, &Any { fence });
        let change = match plan(false) {
            Err(e) if e.kind() == ErrorKind::Conflict => {
                notes.push(e.to_string());
                plan(true)?
            }
            other => other?,
        };
        notes.extend(change.notes);
        let mut steps: BTreeSet<u64> =
            change.entries.key_steps().iter().filter_map(|key| key.checked_sub(1)).collect();
        if let Some(after) = &change.steps {
            steps.extend(adoption::new_steps(base, logs, after));
        }
        Ok(Pending {
            steps: steps.into_iter().collect(),
            values: change.entries.key_steps().contains(&0),
            incomplete: change.incomplete,
            notes,
        })
    }

    /// The usage of every variable in the snapshot, by its id, wherever its bytes are. Links add nothing. Reads the
    /// whole index. `stored_bytes` are 0 unless requested, since computing them reads the tables of cut blocks.
    pub fn usage(&self, with_stored_bytes: bool) -> Result<BTreeMap<u32, VariableUsage>> {
        self.inner.require_open()?;
        self.inner.require_same()?;
        let snapshot = self.snapshot();
        let mut out: BTreeMap<u32, VariableUsage> =
            snapshot.schema.variables.keys().map(|id| (*id, VariableUsage::default())).collect();
        let Some(root) = &snapshot.manifest.root else { return Ok(out) };
        // A block of a record has one entry per leaf member. These entries share step and put.
        let mut seen: BTreeMap<u32, BTreeSet<BlockKey>> = BTreeMap::new();
        let mut failed = None;
        tree::entries(&self.inner.pages, root, &mut |entry| {
            let step = entry.step.checked_sub(1);
            let hidden = step.is_some_and(|s| entry.commit < snapshot.steps.hidden_below(s));
            let Some(usage) = out.get_mut(&entry.variable).filter(|_| !hidden && failed.is_none()) else {
                return;
            };
            let several = snapshot
                .schema
                .variables
                .get(&entry.variable)
                .is_some_and(|v| matches!(&v.dtype, drystone_format::dtype::DType::Record(_)));
            let block = (entry.step, entry.commit, entry.order, entry.put, entry.offset);
            let replica = entry.encoding.replica > 0;
            if replica {
                // Each member's bytes are stored, but the decoded size is counted once.
            } else if !several || seen.entry(entry.variable).or_default().insert(block) {
                usage.blocks += 1;
            }
            if let Some(step) = step.filter(|step| usage.steps.last() != Some(*step)) {
                usage.steps.insert(step);
            }
            let bytes = entry.cells().and_then(|n| n.checked_mul(u64::from(entry.encoding.item)));
            if !replica {
                usage.decoded_bytes = usage.decoded_bytes.saturating_add(bytes.unwrap_or(u64::MAX));
            }
            usage.subchunks = usage.subchunks.saturating_add(entry.subchunks);
            if !usage.transforms.contains(&entry.encoding.chain) {
                usage.transforms.insert(entry.encoding.chain.clone());
            }
            let cut = entry.cut.get(..usize::from(entry.ndim)).filter(|_| entry.subchunks > 1);
            let known = |cut: &Option<Vec<u64>>| cut.as_deref() == entry.cut.get(..usize::from(entry.ndim));
            if !replica && entry.subchunks > 0 && usage.cuts.len() < MOST_CUTS {
                let is_new =
                    if cut.is_some() { !usage.cuts.iter().any(known) } else { !usage.cuts.contains(&None) };
                if is_new {
                    usage.cuts.insert(cut.map(<[u64]>::to_vec));
                }
            }
            let stored = match entry.subchunks {
                _ if !with_stored_bytes => Ok(0),
                0 => Ok(0),
                1 => Ok(entry.piece.length),
                _ => snapshot.source(&self.inner.pages, entry.source).and_then(|source| {
                    let table = load_table(&self.inner, source.writer, source.part, entry)?;
                    let lengths =
                        table.iter().map(|s| s.prefix.map_or(0, |prefix| prefix.length) + s.piece.length);
                    Ok(lengths.fold(0, u64::saturating_add))
                }),
            };
            match stored {
                Ok(bytes) => usage.stored_bytes = usage.stored_bytes.saturating_add(share(entry, bytes)),
                Err(e) => failed = Some(e),
            }
        })?;
        for (path, variable) in snapshot.schema.named().filter(|(_, v)| v.steps && v.derived.is_some()) {
            // A variable that cannot be computed has no steps.
            let steps = self.reading_at(snapshot.clone(), path, None).and_then(|reading| reading.steps());
            if let Some(usage) = out.get_mut(&variable.id) {
                usage.steps = Steps::default();
                steps.unwrap_or_default().into_iter().for_each(|step| usage.steps.insert(step));
            }
        }
        failed.map_or(Ok(out), Err)
    }
}
