//! Sorted replicas: the values of a variable of particles in ascending order, together with values of other variables
//! at the same cells.
//!
//! They are replicas of the blocks of the key. The other columns lie in the same pieces, each named after its
//! original block, so a query can check whether that block is still visible there.

use std::sync::Arc;

use drystone_format::dtype::{DType, Leaf};
use drystone_format::entry::Entry;
use drystone_plan::read_plan::SORTED;
use drystone_transform::{Chain, MOST_COMPANION_BYTES, MOST_COMPANIONS, Sorted};

use super::index::{IndexReport, LEAST};
use crate::commit::beside::Beside;
use crate::container::Container;
use crate::read::{Reading, SortedWith};
use crate::schema::element_type::logical;
use crate::schema::near_miss::no_such;
use crate::write::aside::Aside;
use crate::{Error, ErrorKind, Result};

/// The codec of sorted replicas.
const CHAIN: &str = "sorted";
/// The most cells that are sorted together.
const MOST_CELLS: u64 = 1 << 20;

/// A column of the group: a variable and one of its leaves.
struct Column {
    path: String,
    leaf: u32,
}

/// The columns of a group: the key and the others.
struct Columns {
    key: Column,
    others: Vec<Column>,
}

impl Container {
    /// Makes sorted replicas of a group of variables of one dimension, or of a record: one for each visible block of
    /// the key `by` in the newest snapshot, in one commit. Blocks of less than 64 KiB are left out. Later blocks are
    /// not sorted; call it again for them.
    ///
    /// `progress` receives (blocks done, blocks in all). If it returns `false`, sorting stops with `Cancelled`, and
    /// nothing is committed. Errors: `InvalidArgument` if the key has no order, or the variables have several
    /// dimensions or different shapes.
    pub fn sort(
        &self,
        name: &str,
        by: &str,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<IndexReport> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        self.sort_columns(name, by, progress)
            .map_err(|e| e.while_doing(format!("sorting \"{name}\" by \"{by}\"")))
    }

    /// Removes sorted replicas from the next snapshot; garbage collection removes their bytes. Returns how many
    /// blocks of the key had one.
    pub fn drop_sort(&self, name: &str, by: &str) -> Result<u64> {
        self.inner.require_writable()?;
        let (newest, _) = self.inner.newest()?;
        self.inner.adopt_snapshot(newest);
        let Columns { key, .. } = self.columns_of(name, by)?;
        let variable = self.leaf_reading(&key.path, key.leaf)?.variable().id;
        self.drop_replicas(variable, [key.leaf].into(), SORTED)
    }

    /// The columns of a record, or of the variables in a group.
    fn columns_of(&self, name: &str, by: &str) -> Result<Columns> {
        let name = name.trim_matches('/');
        let snapshot = self.snapshot();
        let schema = &snapshot.schema;
        let paths: Vec<String> = match schema.resolve(name) {
            Some(_) => vec![name.to_owned()],
            None if schema.groups.contains_key(name) => {
                let inside = |path: &&str| match path.rsplit_once('/') {
                    Some((group, _)) => group == name,
                    None => name.is_empty(),
                };
                schema.named().map(|(path, _)| path).filter(inside).map(str::to_owned).collect()
            }
            None => return Err(no_such(schema, name)),
        };
        let (mut key, mut others) = (None, Vec::new());
        let mut names = Vec::new();
        let mut shape = None;
        for path in paths {
            let Some(variable) = schema.resolve(&path) else { continue };
            let own = path.rsplit('/').next().unwrap_or(&path);
            for (leaf, Leaf { path: member, dtype, .. }) in (0u32..).zip(variable.dtype.leaves()) {
                let spelt = match (schema.resolve(name).is_some(), member.is_empty()) {
                    (true, _) => member.clone(),
                    (false, true) => own.to_owned(),
                    (false, false) => format!("{own}.{member}"),
                };
                let column = Column { path: path.clone(), leaf };
                let form = (variable.shape.clone(), variable.steps);
                names.push(spelt.clone());
                if spelt == by {
                    shape = Some(form);
                    key = Some(column);
                } else if !variable.local && !dtype.is_blob() && variable.shape.len() == 1 {
                    others.push((column, form));
                }
            }
        }
        let Some((key, shape)) = key.zip(shape) else {
            if names.iter().all(String::is_empty) {
                return Err(Error::invalid(format!(
                    "\"{name}\" has no members: name a record variable, or the group of \"{name}\""
                )));
            }
            return Err(Error::not_found(format!("\"{name}\" has no \"{by}\"; it has {}", names.join(", "))));
        };
        if shape.0.len() != 1 {
            let found = shape.0.len();
            return Err(Error::invalid(format!(
                "\"{by}\" has {found} dimensions: sorting needs one, as for particles"
            )));
        }
        let others =
            others.into_iter().filter(|(_, form)| *form == shape).map(|(column, _)| column).collect();
        Ok(Columns { key, others })
    }

    fn sort_columns(
        &self,
        name: &str,
        by: &str,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<IndexReport> {
        let Columns { key, others } = self.columns_of(name, by)?;
        let key = self.leaf_reading(&key.path, key.leaf)?;
        if key.variable().local || key.is_derived() {
            return Err(Error::invalid(format!("\"{by}\" is not stored as one array")));
        }
        let chain = Chain::parse(CHAIN).map_err(|e| Error::unsupported(format!("{CHAIN}: {e}")))?;
        let column = key.only_column()?;
        let is_number = column.leaf.repeat == 1
            && matches!(column.leaf.dtype, DType::Scalar(_))
            && chain.check_takes(&logical(&column.leaf, &[0])).is_ok();
        if !is_number {
            return Err(Error::invalid(format!("\"{by}\" holds no integers or floats, which have an order")));
        }
        let mut with: Vec<Reading> = Vec::with_capacity(others.len());
        for other in others {
            let reading = self.leaf_reading(&other.path, other.leaf)?;
            if !reading.is_derived() {
                with.push(reading);
            }
        }
        let bytes = with.iter().map(|reading| u64::from(reading.item())).sum::<u64>();
        if with.len() > MOST_COMPANIONS || bytes > MOST_COMPANION_BYTES {
            let columns = with.len();
            return Err(Error::unsupported(format!(
                "\"{name}\" has {columns} further columns of {bytes} bytes a cell; {MOST_COMPANIONS} of {MOST_COMPANION_BYTES} bytes can be sorted"
            )));
        }
        let steps = match key.variable().steps {
            true => key.steps()?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        let mut report = IndexReport { snapshot: self.snapshot().version(), ..IndexReport::default() };
        let mut blocks: Vec<(Option<u64>, Entry)> = Vec::new();
        for step in steps {
            let found = key.unindexed(step, SORTED, LEAST)?;
            report.indexed += found.indexed;
            blocks.extend(found.blocks.into_iter().map(|block| (step, block)));
        }
        if blocks.is_empty() {
            return Ok(report);
        }
        let mut aside = Aside::open(self.inner.clone())?;
        let total = blocks.len() as u64;
        for (done, (step, block)) in (1..).zip(&blocks) {
            let cells = |from: &[u64], count: &[u64]| {
                let (first, count) = (block.offset[0].saturating_add(from[0]), count[0]);
                let lacks = || Error::corrupt("a block that lacks cells of its own");
                let own = key.cells_of(&column, std::slice::from_ref(block), (&[first], &[count]))?;
                let mut columns = Vec::new();
                for reading in &with {
                    let Some(entry) = reading.shown_block(*step, (first, count))? else { continue };
                    let column = reading.only_column()?;
                    let values =
                        reading.cells_of(&column, std::slice::from_ref(&entry), (&[first], &[count]))?;
                    columns
                        .push((SortedWith::of(&entry).companion(reading.item()), values.ok_or_else(lacks)?));
                }
                let invalid = |e| Error::invalid(format!("{e}"));
                let sorted = Sorted::with(columns).map_err(invalid)?;
                let chain = Chain::from_codecs(vec![Arc::new(sorted)]).map_err(invalid)?;
                Ok((own.ok_or_else(lacks)?, Some(chain)))
            };
            report.bytes += aside.put(block, (SORTED, &chain, &[cut(block)]), &column, &cells)?;
            let bytes = block.count[0].saturating_mul(bytes + u64::from(column.leaf.size));
            report.decoded_bytes = report.decoded_bytes.saturating_add(bytes);
            if !progress(done, total) {
                let why = "stopped by its caller; nothing was committed";
                return Err(Error::new(ErrorKind::Cancelled, why));
            }
        }
        let beside: Beside = aside.finish()?;
        let (committed, blocks) = beside.commit(&self.inner)?;
        report.blocks = blocks;
        report.snapshot = committed.snapshot.version();
        Ok(report)
    }
}

/// The number of cells that are sorted together. It covers whole subchunks if these are decoded whole.
fn cut(block: &Entry) -> u64 {
    let own = block.cut[0].max(1);
    let most = match block.encoding.chain.is_empty() {
        true => MOST_CELLS,
        false => (MOST_CELLS / own).max(1).saturating_mul(own),
    };
    most.min(block.count[0]).max(1)
}
