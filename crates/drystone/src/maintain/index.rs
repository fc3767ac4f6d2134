//! Indexes of values that are added later: bins, stored as replicas of blocks that were written without them.
//!
//! Rewritten blocks would be newer, and could hide data that another writer put meanwhile. A replica has the age of
//! its block, so it hides nothing, and a newer block hides both.

use std::collections::BTreeSet;

use drystone_format::dtype::{DType, Leaf};
use drystone_format::entry::Entry;
use drystone_plan::read_plan::BINS;
use drystone_transform::Chain;

use crate::commit::beside::Beside;
use crate::commit::dead::Dead;
use crate::commit::transaction::{Change, Decision, transact};
use crate::container::Container;
use crate::read::Reading;
use crate::schema::element_type::logical;
use crate::write::aside::Aside;
use crate::write::block;
use crate::{Error, ErrorKind, Result};

/// The codec of bins. Variables that are created with bins use the same one.
const CHAIN: &str = "alacrity:bits=13";
/// Smaller blocks are read whole in any case, so they get no index.
pub(super) const LEAST: u64 = 64 << 10;
/// The most cells of a subchunk of bins: queries are fastest at this size (docs/benchmarks/query.md).
const MOST_CELLS: u64 = 1 << 18;

/// The kind of an index, by the conditions that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    /// Values in bins: a query for a range of values reads few bytes.
    Bins,
    /// Least and greatest value of every subchunk, which all blocks have.
    Zones,
}

/// The result of indexing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// The number of blocks that were indexed. Each member of a record counts.
    pub blocks: u64,
    /// The number of blocks that already had an index.
    pub indexed: u64,
    /// The bytes of the indexed values.
    pub decoded_bytes: u64,
    /// The bytes of the index.
    pub bytes: u64,
    /// The version of the snapshot that contains the index.
    pub snapshot: u64,
}

impl IndexKind {
    /// Parses `bins` or `zones`.
    pub fn parse(text: &str) -> Result<IndexKind> {
        match text {
            "bins" => Ok(IndexKind::Bins),
            "zones" => Ok(IndexKind::Zones),
            _ => {
                Err(Error::invalid(format!("the kind of an index is \"bins\" or \"zones\", not \"{text}\"")))
            }
        }
    }
}

impl Container {
    /// Indexes the visible blocks of a variable, or of a member (`P.x`), in the newest snapshot that have no index,
    /// in one commit. Blocks of less than 64 KiB are left out. Later blocks are not indexed; call it again for them.
    ///
    /// `progress` receives (blocks done, blocks in all). If it returns `false`, indexing stops with `Cancelled`, and
    /// nothing is committed. Errors: `InvalidArgument` if values have no order that bins support.
    pub fn index(
        &self,
        name: &str,
        kind: IndexKind,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<IndexReport> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        let (path, field) = self.member_named(name);
        let mut act = || match kind {
            IndexKind::Bins => self.index_bins(path, field, progress),
            IndexKind::Zones => self.reading(path, field).map(|reading| IndexReport {
                snapshot: reading.snapshot().version(),
                ..IndexReport::default()
            }),
        };
        act().map_err(|e| e.while_doing(format!("indexing \"{name}\"")))
    }

    /// Removes the indexes that [`Container::index`] made of a variable, or of a member, from the next snapshot;
    /// garbage collection removes their bytes. Returns how many blocks had one. Bins in place of values stay, since
    /// they are the values.
    pub fn drop_index(&self, name: &str) -> Result<u64> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        let (path, field) = self.member_named(name);
        let (variable, members) = self.indexable(path, field)?;
        self.drop_replicas(variable, members.into_iter().map(|(number, _)| number).collect(), BINS)
    }

    /// Removes the replicas with one number from the next snapshot. Returns how many there were.
    pub(super) fn drop_replicas(&self, variable: u32, members: BTreeSet<u32>, number: u32) -> Result<u64> {
        let mut dropped = 0;
        let done = transact(&self.inner, |base, _| {
            let dead = Dead::replicas(&self.inner, base, (variable, &members, number))?;
            dropped = dead.len();
            if dropped == 0 {
                return Ok(Decision::Keep { incomplete: Vec::new(), notes: Vec::new() });
            }
            Ok(Decision::Apply(Box::new(Change { dead: Some(dead), ..Change::default() })))
        })?;
        self.inner.adopt_snapshot(done.snapshot);
        Ok(dropped)
    }

    /// The path of a variable, and of a member if the name continues with a dot.
    fn member_named<'n>(&self, name: &'n str) -> (&'n str, Option<&'n str>) {
        let name = name.trim_matches('/');
        let snapshot = self.snapshot();
        let is_variable = |path: &str| snapshot.schema.resolve(path).is_some();
        let mut dots = name.match_indices('.').map(|(at, _)| (&name[..at], &name[at + 1..]));
        match dots.rfind(|(path, _)| !is_variable(name) && is_variable(path)) {
            Some((path, field)) => (path, Some(field)),
            None => (name, None),
        }
    }

    /// The id of a variable, and its leaves that bins support, with their numbers.
    fn indexable(&self, path: &str, field: Option<&str>) -> Result<(u32, Vec<(u32, Leaf)>)> {
        let reading = self.reading(path, field)?;
        let variable = reading.variable();
        if variable.local {
            let why = "is a local variable: it has blocks and no array, and cannot be queried";
            return Err(Error::invalid(format!("\"{path}\" {why}")));
        }
        let wanted = reading.leaf_numbers();
        let leaves = (0u32..).zip(variable.dtype.leaves()).filter(|(number, _)| wanted.contains(number));
        let chain = chain()?;
        let fits = |leaf: &Leaf| leaf.repeat == 1 && chain.check_takes(&logical(leaf, &[0])).is_ok();
        let found: Vec<(u32, Leaf)> =
            leaves.filter(|(_, leaf)| matches!(leaf.dtype, DType::Scalar(_)) && fits(leaf)).collect();
        if found.is_empty() {
            return Err(Error::invalid(format!(
                "\"{path}\" holds {}: bins are for integers and floats, and for members of records that are such",
                variable.dtype
            )));
        }
        Ok((variable.id, found))
    }

    fn index_bins(
        &self,
        path: &str,
        field: Option<&str>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<IndexReport> {
        let (_, leaves) = self.indexable(path, field)?;
        let mut report = IndexReport::default();
        let mut todo: Vec<(Reading, Vec<Entry>)> = Vec::new();
        for (number, _) in leaves {
            let reading = self.leaf_reading(path, number)?;
            let steps = match reading.variable().steps {
                true => reading.steps()?.into_iter().map(Some).collect(),
                false => vec![None],
            };
            let mut blocks = Vec::new();
            for step in steps {
                let found = reading.unindexed(step, BINS, LEAST)?;
                report.indexed += found.indexed;
                blocks.extend(found.blocks);
            }
            todo.push((reading, blocks));
        }
        let total = todo.iter().map(|(_, blocks)| blocks.len() as u64).sum();
        report.snapshot = self.snapshot().version();
        if total == 0 {
            return Ok(report);
        }
        let chain = chain()?;
        let mut aside = Aside::open(self.inner.clone())?;
        let mut done = 0;
        for (reading, blocks) in &todo {
            let column = reading.only_column()?;
            for block in blocks {
                let cut = cut(block);
                let first = &block.offset[..usize::from(block.ndim)];
                let cells = |from: &[u64], count: &[u64]| {
                    let at: Vec<u64> = first.iter().zip(from).map(|(a, b)| a + b).collect();
                    let found = reading.cells_of(&column, std::slice::from_ref(block), (&at, count))?;
                    let found = found.ok_or_else(|| Error::corrupt("a block that lacks cells of its own"))?;
                    Ok((found, None))
                };
                report.bytes += aside.put(block, (BINS, &chain, &cut), &column, &cells)?;
                let bytes = block.cells().unwrap_or(0).saturating_mul(column.leaf.size.into());
                report.decoded_bytes = report.decoded_bytes.saturating_add(bytes);
                done += 1;
                if !progress(done, total) {
                    let why = "stopped by its caller; nothing was committed";
                    return Err(Error::new(ErrorKind::Cancelled, why));
                }
            }
        }
        let beside: Beside = aside.finish()?;
        let (committed, blocks) = beside.commit(&self.inner)?;
        report.blocks = blocks;
        report.snapshot = committed.snapshot.version();
        Ok(report)
    }
}

fn chain() -> Result<Chain> {
    Chain::parse(CHAIN).map_err(|e| Error::unsupported(format!("{CHAIN}: {e}")))
}

/// The subchunks for the bins of a block: its own if these are decoded whole, else whole rows of at most
/// [`MOST_CELLS`] cells.
fn cut(block: &Entry) -> Vec<u64> {
    let ndim = usize::from(block.ndim);
    let mut cut =
        block::cut(&block.count[..ndim], Some(&block.cut[..ndim]), block.encoding.item.into(), false);
    if !block.encoding.chain.is_empty() {
        return cut;
    }
    for d in 0..ndim {
        let cells = cut.iter().fold(1u64, |cells, edge| cells.saturating_mul((*edge).max(1)));
        if cells <= MOST_CELLS {
            break;
        }
        let others = cells / cut[d].max(1);
        cut[d] = (MOST_CELLS / others.max(1)).clamp(1, cut[d].max(1));
    }
    cut
}
