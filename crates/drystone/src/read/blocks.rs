//! Blocks as they were written: lists them, and reads one without the blocks that overlap it.

use drystone_format::MAX_NDIM;
use drystone_format::entry::{Entry, StoredPiece, newest_cmp};
use drystone_plan::read_plan::ReadPlan;
use drystone_plan::resolve::Candidate;
use drystone_plan::selection::{Axis, Selection};
use drystone_plan::tree;

use super::checker::Checker;
use super::execute;
use super::seeking::{Sought, holds, slot};
use super::sources::Sources;
use super::strings::Holder;
use super::{Prepared, ReadReport, Reading, segment_key};
use crate::base::array::Target;
use crate::schema::member::Column;
use crate::{Error, Result};

/// One written block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockInfo {
    /// The step of the block.
    pub step: Option<u64>,
    /// The first cell.
    pub offset: Vec<u64>,
    /// The extents.
    pub count: Vec<u64>,
    /// Edges of its subchunks.
    pub cut: Vec<u64>,
    /// The commit that made it visible.
    pub commit: u64,
    /// The rank, or the id of the writer.
    pub writer: u64,
    /// The number of the put within its writer.
    pub put: u64,
    /// Stored bytes of all its members (payloads without tables).
    pub stored_bytes: u64,
    /// Least and greatest value as 64-bit patterns of the member's kind, if the variable is a primitive with an order.
    pub min_max: Option<(u64, u64)>,
    /// The number of NaNs in it.
    pub nans: u64,
    /// The codec chain; empty for raw.
    pub transform: String,
    /// The arrangement of its cells (of its first member); empty is dense row-major.
    pub layout: String,
    /// The bytes of the block: the object, first byte and end. Bytes of other blocks may lie between.
    pub place: Option<(String, u64, u64)>,
    /// The members of the record that were written; empty for a primitive.
    pub members: Vec<String>,
}

/// A written block that was found and not read yet: its index entries, one per member, at least one.
pub struct Written(Vec<Entry>);

impl Written {
    /// The extents of the block.
    pub fn shape(&self) -> &[u64] {
        &self.0[0].count[..usize::from(self.0[0].ndim)]
    }
}

impl Reading {
    /// The committed steps in which the variable has a visible block, ascending. Empty for a variable without steps.
    pub fn steps(&self) -> Result<Vec<u64>> {
        if let Some(computed) = self.computed()? {
            return self.computed_steps(&computed);
        }
        let Some(root) = self.snapshot.manifest.root.as_ref().filter(|_| self.variable.steps) else {
            return Ok(Vec::new());
        };
        let hidden = &self.snapshot.steps;
        let shows = |key: u64, commit: u64| key > 0 && commit >= hidden.hidden_below(key - 1);
        let keys = tree::key_steps(&self.inner.pages, root, self.variable.id, &shows);
        let keys = keys.map_err(|e| self.reason(e))?;
        let mut steps: Vec<u64> = keys.into_iter().filter(|key| *key > 0).map(|key| key - 1).collect();
        if !self.variable.clips.is_empty() {
            let shown = steps.iter().map(|step| self.shows(*step)).collect::<Result<Vec<bool>>>();
            let mut shown = shown.map_err(|e| self.reason(e))?.into_iter();
            steps.retain(|_| shown.next().unwrap_or(false));
        }
        Ok(steps)
    }

    /// Whether a block of a step has cells within the shape, to which a resize may have cut it.
    fn shows(&self, step: u64) -> Result<bool> {
        let entries = self.entries(&Axis { start: step, step: 1, count: 1 }, None)?;
        Ok(entries.values().flatten().any(|entry| {
            let limit = self.limit(entry);
            (0..usize::from(entry.ndim)).all(|d| entry.offset[d] < limit[d])
        }))
    }

    /// Whether the variable, which is stored and has steps, has a block in a step.
    pub(super) fn has_blocks(&self, step: u64) -> Result<bool> {
        let entries = self.entries(&Axis { start: step, step: 1, count: 1 }, None)?;
        Ok(entries.values().any(|at_step| !at_step.is_empty()))
    }

    /// The entries of one step, grouped by block. Blocks are in the order of "newest wins", oldest first.
    pub(super) fn block_entries(&self, step: Option<u64>) -> Result<Vec<Vec<Entry>>> {
        let steps = match (self.variable.steps, step) {
            (true, Some(s)) => Axis { start: s, step: 1, count: 1 },
            (false, None) => Axis { start: 0, step: 1, count: 1 },
            (true, None) => {
                return Err(Error::invalid(format!("\"{}\" has steps: say which step", self.path)));
            }
            (false, Some(_)) => return Err(Error::invalid(format!("\"{}\" has no steps", self.path))),
        };
        if let Some(s) = step
            && !self.snapshot.steps.contains(s)
        {
            return Err(Error::not_found(format!("there is no step {s}; see steps")));
        }
        if self.is_derived() {
            return Ok(Vec::new());
        }
        let mut entries: Vec<Entry> = self.entries(&steps, None)?.into_values().flatten().collect();
        entries.retain(|entry| entry.encoding.replica == 0);
        // A put that was cut into tiles is several blocks.
        let place = |e: &Entry| (e.offset, e.count, e.member, e.encoding.part);
        entries.sort_by(|a, b| newest_cmp(a, b).then_with(|| place(a).cmp(&place(b))));
        let mut blocks: Vec<Vec<Entry>> = Vec::new();
        for entry in entries {
            match blocks.last_mut() {
                Some(block)
                    if newest_cmp(&block[0], &entry).is_eq()
                        && (block[0].offset, block[0].count) == (entry.offset, entry.count)
                        && (block[0].member, block[0].encoding.part)
                            != (entry.member, entry.encoding.part) =>
                {
                    block.push(entry)
                }
                _ => blocks.push(vec![entry]),
            }
        }
        if self.variable.local {
            blocks = newest_of_each_writer(blocks);
        }
        Ok(blocks)
    }

    /// The blocks written in a step (`None` for a variable without), oldest first.
    pub fn blocks(&self, step: Option<u64>) -> Result<Vec<BlockInfo>> {
        self.described_blocks(step).map_err(|e| self.reason(e))
    }

    fn described_blocks(&self, step: Option<u64>) -> Result<Vec<BlockInfo>> {
        let sources = Sources::of(self);
        let mut out = Vec::new();
        for block in self.block_entries(step)? {
            let e = &block[0];
            let n = usize::from(e.ndim);
            let mut stored_bytes = 0u64;
            let (mut from, mut to) = (u64::MAX, 0);
            for entry in &block {
                let mut bytes = 0u64;
                let mut add = |piece: StoredPiece| {
                    bytes = bytes.saturating_add(piece.length);
                    (from, to) = (from.min(piece.position), to.max(piece.end()));
                };
                match entry.subchunks {
                    0 => {}
                    1 => add(entry.piece),
                    _ => self.table(entry, &sources)?.iter().for_each(|s| {
                        add(s.piece);
                        s.prefix.iter().for_each(|prefix| add(prefix.piece()));
                    }),
                }
                stored_bytes = stored_bytes.saturating_add(share(entry, bytes));
            }
            let place = match sources.get(e.source) {
                Ok(source) if from < to => Some((segment_key(&source), from, to)),
                _ => None,
            };
            // Ranks are below 2^32. Greater orders are ids of writers, or contain the time of closing.
            let writer = match sources.get(e.source) {
                Ok(source) if e.order > u64::from(u32::MAX) => source.writer,
                _ => e.order,
            };
            let simple = block.len() == 1 && self.leaves.len() == 1;
            out.push(BlockInfo {
                step: e.step.checked_sub(1),
                offset: e.offset[..n].to_vec(),
                count: e.count[..n].to_vec(),
                cut: e.cut[..n].to_vec(),
                commit: e.commit,
                writer,
                put: e.put,
                stored_bytes,
                min_max: if simple { e.stats.min_max } else { None },
                nans: block.iter().fold(0, |n: u64, e| n.saturating_add(e.stats.nans)),
                transform: e.encoding.chain.clone(),
                layout: e.encoding.layout.to_string(),
                place,
                members: self.names(&block),
            });
        }
        Ok(out)
    }

    /// The members that the block holds, completely or in part.
    fn names(&self, block: &[Entry]) -> Vec<String> {
        let paths = block.iter().filter_map(|e| self.leaves.iter().find(|column| column.number == e.member));
        let mut names: Vec<String> = paths.map(|c| c.leaf.path.clone()).filter(|p| !p.is_empty()).collect();
        names.dedup();
        names
    }

    /// The blocks written in a step, in the order of `blocks`, each ready to be read.
    pub fn written(&self, step: Option<u64>) -> Result<Vec<Written>> {
        let found = self.block_entries(step).map_err(|e| self.reason(e))?;
        Ok(found.into_iter().map(Written).collect())
    }

    /// Passes the stored bytes of each subchunk of a block to `give`, in order: verified and still encoded. For
    /// blocks that this program cannot decode.
    pub fn stored(&self, step: Option<u64>, number: usize, give: &mut dyn FnMut(&[u8])) -> Result<()> {
        let block = self.block(step, number)?;
        let mut checker = Checker::new(&self.inner, &self.snapshot);
        let checked = block.0.iter().try_for_each(|entry| checker.payloads(entry, give));
        checked.map_err(|e| self.reason(e))
    }

    /// One of the blocks written in a step, by its number in the order of `blocks`, ready to be read.
    pub fn block(&self, step: Option<u64>, number: usize) -> Result<Written> {
        let mut blocks = self.written(step)?;
        if number >= blocks.len() {
            return Err(Error::not_found(format!(
                "\"{}\" has {} block(s){}; there is no block {number}",
                self.path,
                blocks.len(),
                step.map_or_else(String::new, |s| format!(" at step {s}"))
            )));
        }
        Ok(blocks.swap_remove(number))
    }

    fn prepare_block(&self, block: &Written) -> Result<(Vec<u64>, Option<Prepared>)> {
        let block = &block.0;
        let n = usize::from(block[0].ndim);
        let (offset, count) = (block[0].offset[..n].to_vec(), block[0].count[..n].to_vec());
        if count.contains(&0) {
            return Ok((count, None));
        }
        let cells = Selection::boxed(&offset, &count);
        let columns = self.columns(block.iter());
        let slot_of = |column: &Column| {
            let candidates = block
                .iter()
                .filter(|e| e.member == column.number && holds(e, column))
                .map(|e| Candidate { entry: e.clone(), limit: [u64::MAX; MAX_NDIM] })
                .collect();
            slot(column, candidates, cells.clone())
        };
        let slots = columns.iter().map(slot_of).collect();
        Ok((count, Some(self.plan(Sought { columns, slots })?)))
    }

    pub(super) fn read_written(&self, block: &Written, out: &Target<'_>) -> Result<ReadReport> {
        self.read_whole_block(block, out).map_err(|e| self.reason(e))
    }

    fn read_whole_block(&self, block: &Written, out: &Target<'_>) -> Result<ReadReport> {
        self.require_no_strings()?;
        let (count, prepared) = self.prepare_block(block)?;
        self.check_target(&count, out)?;
        let Some(prepared) = prepared else { return Ok(ReadReport::default()) };
        let sources = Sources::of(self);
        let mut shape = out.shape().to_vec();
        let mut strides = out.strides().to_vec();
        if self.variable.steps {
            shape.insert(0, 1);
            strides.insert(0, 0);
        }
        let (base, _) = out.raw();
        // SAFETY: this is the memory of `out`, borrowed exclusively for this call, with a first axis of length 1.
        let target = unsafe { Target::new(base.add(out.start()), &shape, &strides, out.item())? };
        let carried = execute::run(self, &prepared, 0, &target, &sources)?;
        let mut report = ReadReport::default();
        report.add_carried(&prepared.plan, carried);
        Ok(report)
    }

    pub(super) fn blobs_of_block(&self, block: &Written) -> Result<(Holder, ReadReport)> {
        let (count, prepared) = self.prepare_block(block)?;
        let mut out = self.no_values(count.iter().try_fold(1u64, |n, c| n.checked_mul(*c)))?;
        let mut report = ReadReport::default();
        if let Some(prepared) = prepared {
            report.add(&prepared.plan);
            self.blobs_of(&prepared, (0, 1), &mut out)?;
        }
        Ok((out, report))
    }

    pub(super) fn explain_block(&self, block: &Written) -> Result<ReadPlan> {
        let mut plan = ReadPlan::default();
        if !block.shape().contains(&0) {
            let no_cells = || Error::invalid(format!("the block of \"{}\" has no cells", self.path));
            plan = self.explained(&|reading| reading.prepare_block(block)?.1.ok_or_else(no_cells))?;
        }
        let extents: Vec<String> = block.shape().iter().map(u64::to_string).collect();
        plan.title = format!("{} block {{{} cells}}", self.path, extents.join(" x "));
        Ok(plan)
    }
}

/// A member's share of the bytes of a piece that several members share.
pub(crate) fn share(entry: &Entry, bytes: u64) -> u64 {
    let (item, room) = (entry.encoding.item, entry.encoding.room().max(1));
    let share = u128::from(bytes) * u128::from(item) / u128::from(room);
    u64::try_from(share).unwrap_or(bytes)
}

/// One value or array per writer (and step): if a member was put several times, the newest put counts. Members that
/// were put separately are joined if their arrays have the same shape.
fn newest_of_each_writer(blocks: Vec<Vec<Entry>>) -> Vec<Vec<Entry>> {
    let mut by_writer: std::collections::BTreeMap<u64, Vec<Entry>> = std::collections::BTreeMap::new();
    for block in blocks.into_iter().rev() {
        let joined = by_writer.entry(block[0].order).or_default();
        for entry in block {
            let fits = joined.first().is_none_or(|e| e.ndim == entry.ndim && e.count == entry.count);
            // A put of a part hides earlier puts of the whole, or of other parts.
            let hidden = |e: &Entry| {
                e.member == entry.member
                    && (e.encoding.part.is_none() || e.encoding.part == entry.encoding.part)
            };
            if fits && !joined.iter().any(hidden) {
                joined.push(entry);
            }
        }
    }
    let mut out: Vec<Vec<Entry>> = by_writer.into_values().collect();
    out.iter_mut().for_each(|block| block.sort_by_key(|e| e.member));
    out
}
