//! Publishing: committed steps of the log become an ordinary Zarr v3 hierarchy under `zarr/` (docs/format/zarr.md).
//!
//! ```text
//! schema -> nodes: which arrays and groups    index -> changes: a fingerprint per shard
//! model, or existing layout -> grid           ─► convert: read, encode, put whole shards, on several threads
//!                                             ─► documents: each array's zarr.json, the root's last
//! ```
//!
//! Invariants
//! - an object is put as a whole: a reader sees the old or the new shard, even if this process is killed;
//! - an array's `shape` is written after its shards, and the root's consolidated metadata after all arrays, so all
//!   steps appear at once;
//! - every shard contains a stamp with the fingerprint of its content, so a rerun writes only shards that changed,
//!   and completes unfinished work;
//! - one publisher at a time works on a container ([`keeper_lock`]);
//! - the record of the existing shards is committed last ([`record`]), so a reader of a snapshot can distinguish its
//!   shards from later ones.

mod attributes;
mod base64;
mod changes;
mod clear;
mod computed;
mod convert;
mod dense;
mod document;
mod element;
mod flat;
mod hdf5;
mod meaning;
mod netcdf;
mod nodes;
mod options;
pub(crate) mod record;
mod shard;
mod texts;
mod view;

use crate::published::ROOT;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drystone_dataset::Axes;
use drystone_format::identity::Durability;
use drystone_format::published::Shard;
use drystone_plan::layout::{self, Bounds, Device, Layout, Pattern};
use drystone_store::{PutMode, Store, StoreExt};
use serde_json::Value as Json;

use crate::base::metrics::add;
use crate::base::span::{self, SpanKind};
use crate::container::{Container, keeper_lock};
use crate::published::grid::Grid;
use crate::{Error, ErrorKind, Result};
use changes::Changes;
use convert::Task;
use document::{Codec, Document};
use nodes::{Array, Nodes};

pub use flat::{FlatArray, Frame};
pub use hdf5::hdf5_attributes;
pub use netcdf::netcdf_path;
pub use nodes::Skipped;
pub use options::{Compressor, Format, PublishOptions, PublishReport, PublishedArray};
pub use view::ZarrView;
/// The greatest length of a metadata document, in bytes.
const MOST_JSON: u64 = 256 << 20;

/// An array with all decisions about its replica.
struct Target {
    array: Array,
    grid: Grid,
    codec: Codec,
    /// The reasons for its layout. `None` if it keeps the layout of an earlier publication.
    layout: Option<Layout>,
    changes: Changes,
    /// The HDF5 description of its shards, if they are HDF5 files.
    description: Option<hdf5::Description>,
}

impl Container {
    /// Publishes the newest commit; see [`PublishOptions`].
    ///
    /// `progress` receives the decoded bytes done and in all after each shard. If it returns `false`, publishing
    /// stops with `Cancelled`: the shards published so far are valid, and the next call continues. Errors: `Conflict`
    /// if another process is publishing, or if a foreign object has the name of an array. Steps that are committed
    /// meanwhile are left to the next call.
    pub fn publish(
        &self,
        options: &PublishOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PublishReport> {
        self.inner.require_writable()?;
        options.check()?;
        options.check_hierarchy()?;
        let begun = span::begin(SpanKind::Publish);
        let done = keeper_lock::take_in_time(&self.inner).and_then(|lock| {
            let done = self.publish_locked(options, progress);
            let released = lock.release();
            done.and_then(|report| released.map(|()| report))
        });
        let report = done.map_err(|e| e.while_doing(format!("publishing {}", self.location())))?;
        let values = span::Values {
            bytes: report.arrays.iter().map(|array| array.stored_bytes).sum(),
            blocks: report.arrays.iter().map(|array| array.written).sum(),
            ..Default::default()
        };
        add(&self.inner.tally.published_shards, values.blocks);
        add(&self.inner.tally.published_bytes, values.bytes);
        begun.end(SpanKind::Publish, || self.inner.store.describe(), "", values);
        Ok(report)
    }

    /// The expected reads that determine an array's layout.
    fn expected_of(&self, array: &Array) -> Result<Vec<Pattern>> {
        let cells = array.shape.get(usize::from(array.steps)..).unwrap_or_default();
        let names = array.dims.iter().skip(usize::from(array.steps)).take(cells.len());
        let names: Vec<&str> = names.map(String::as_str).collect();
        let axes = Axes { count: cells.len(), names: &names, steps: array.steps };
        let configured = self.inner.configured_access(&array.variable, &axes)?;
        Ok(match configured.as_ref().or(array.access.as_ref()) {
            Some(access) => crate::layout::declared_mix(access, &array.shape, array.steps),
            None => match layout::learnt_mix(&self.inner.learnt(array.uid), &array.shape, array.steps) {
                Some((mix, _)) => mix,
                None => layout::standard_mix(&array.shape, array.steps),
            },
        })
    }

    fn publish_locked(
        &self,
        options: &PublishOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PublishReport> {
        let version = self.inner.newest()?.0.version();
        let pinned = self.at(version)?;
        let snapshot = pinned.snapshot();
        let nodes = Nodes::of(&snapshot, options.variables.as_deref())?;
        let store = self.inner.store.as_ref();
        store.sweep(ROOT, Duration::ZERO)?;
        let there = Published::load(store, &self.inner.identity.uuid)?;
        there.check_foreign(&nodes)?;

        let device = options.device.unwrap_or_else(|| self.device());
        let mut targets = Vec::new();
        let mut replaced = Vec::new();
        for array in &nodes.arrays {
            let known = there.documents.get(&array.node);
            let (grid, codec, layout, kept) =
                decide(&pinned, array, known, options, &device, &self.expected_of(array)?)?;
            if known.is_some() && !kept {
                replaced.push(array.node.clone());
            }
            let description = match codec.dual {
                true => {
                    hdf5::check(array, &grid)?;
                    Some(hdf5::Description::of(&pinned, array)?)
                }
                false => None,
            };
            let changes = Changes::default();
            targets.push(Target { array: array.clone(), grid, codec, layout, changes, description });
        }
        for node in nodes.groups.keys() {
            if there.documents.get(node).is_some_and(|d| d.is_array()) {
                replaced.push(node.clone());
            }
        }
        let sync = self.inner.identity.durability != Durability::Memory;
        let there = if replaced.is_empty() {
            there
        } else {
            clear::replaced(store, &there, &replaced, sync)?;
            // A shard may have the name of a folder that is empty now.
            store.sweep(ROOT, Duration::ZERO)?;
            Published::load(store, &self.inner.identity.uuid)?
        };

        changes::find(&pinned.inner, &snapshot, &mut targets)?;
        computed::find(&pinned, &snapshot, &mut targets)?;
        targets.iter_mut().try_for_each(Target::count_metadata)?;
        let mut tasks = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            tasks.extend(Task::of(number, target, &there.objects));
        }
        let known = record::known(&self.inner, &snapshot)?;
        let run =
            convert::Run { container: &pinned, store, targets: &targets, version, sync, known: Some(&known) };
        let done = run.all(&tasks, options.memory, progress)?;

        // All shards are complete, so documents may now show them.
        let mut documents: BTreeMap<String, Json> = BTreeMap::new();
        let whole = options.variables.is_none();
        for (node, known) in &there.documents {
            if nodes.known.contains(node) && known.ours && !whole {
                documents.insert(node.clone(), known.json.clone());
            }
        }
        let about = document::About { uuid: &self.inner.identity.uuid, version };
        for (node, group) in &nodes.groups {
            documents.insert(node.clone(), about.group(group));
        }
        for target in &targets {
            documents
                .insert(target.array.node.clone(), about.array(&target.array, &target.grid, &target.codec));
        }
        let root = about.root(&mut documents)?;
        for (node, json) in &documents {
            put_document(store, &there, node, json, sync)?;
        }
        // If a commit changed nothing published, the root stays as it is.
        if there.documents.get("").is_none_or(|known| !document::same_but_version(&known.json, &root)) {
            put_document(store, &there, "", &root, sync)?;
        }

        let keep: BTreeSet<String> = targets.iter().flat_map(Target::keys).collect();
        let cleared = clear::leftover(store, &there, &nodes, &keep, whole)?;
        if cleared {
            store.sweep(ROOT, Duration::ZERO)?;
        }
        let recorded: Vec<(&Target, Vec<Shard>)> =
            targets.iter().zip(&done).map(|(target, (_, shards))| (target, shards.clone())).collect();
        let gone = replaced.into_iter().filter(|node| nodes.groups.contains_key(node)).collect();
        record::commit(&self.inner, version, &recorded, whole, &gone)?;
        let arrays = targets.into_iter().zip(done).map(|(t, (tally, _))| t.report(tally)).collect();
        Ok(PublishReport { snapshot: version, arrays, skipped: nodes.skipped })
    }
}

fn put_document(store: &dyn Store, there: &Published, node: &str, json: &Json, sync: bool) -> Result<()> {
    if there.documents.get(node).is_some_and(|d| d.json == *json) {
        return Ok(());
    }
    let mut text = serde_json::to_vec_pretty(json)
        .map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("the metadata of \"{node}\": {e}")))?;
    text.push(b'\n');
    Ok(store.put(&document::key(node), &[&text], PutMode::Replace, sync)?)
}

/// Decides how an array is cut and encoded: as it is published already if no other options were given, otherwise as
/// the model says. Also returns whether nothing changes.
fn decide(
    container: &Container,
    array: &Array,
    known: Option<&Document>,
    options: &PublishOptions,
    device: &Device,
    mix: &[Pattern],
) -> Result<(Grid, Codec, Option<Layout>, bool)> {
    let before = known.and_then(|d| d.layout_of(array));
    // An array without axes has no shard that could be a file. HDF5 stores texts of any length outside chunks.
    let dual = document::is_sharded(array)
        && !array.element.is_text()
        && options.format.map_or(before.as_ref().is_some_and(|b| b.1.dual), |f| f == Format::ZarrHdf5);
    let codec = options.compressor.of(&array.transform, array.element.scalar.size(), dual)?;
    let asked = options.chunks.get(&array.variable);
    if let Some((grid, kept)) = before
        && asked.is_none_or(|chunk| *chunk == grid.chunk)
    {
        let same = options.compressor == Compressor::Auto && kept.dual == dual;
        let codec = if same { kept } else { codec };
        return Ok((grid, codec, None, codec == kept));
    }
    let bounds = Bounds { max_shard: Bounds::PORTABLE.max_shard.min(options.memory / 4), ..Bounds::PORTABLE };
    let cells = layout::Array { shape: &array.shape, item: array.item, steps: array.steps };
    let scalar = array.element.scalar.size() as u64;
    // Computed values and texts of any length are not in the log in their published form.
    let is_in_log = !array.derived && !array.element.is_text();
    let stored = match asked {
        None if is_in_log => container.leaf_reading(&array.variable, array.leaf)?.cut_of_log()?,
        _ => None,
    };
    let mut layout = match stored.filter(|(_, chain)| codec.is_chain(chain, scalar)) {
        Some((mut cut, _)) => {
            if array.steps {
                cut.insert(0, 1);
            }
            layout::choose_as_stored(cells, mix, device, &bounds, &cut)
        }
        None => layout::choose(cells, mix, device, &bounds),
    };
    if let Some(chunk) = asked {
        if chunk.len() != array.shape.len() || chunk.contains(&0) {
            return Err(Error::invalid(format!(
                "chunks of {chunk:?} for \"{}\", which has {} axes (the step is the first); each extent is at least 1",
                array.variable,
                array.shape.len()
            )));
        }
        layout.chunk.clone_from(chunk);
        layout.shard = layout::shard_of(cells, chunk, &bounds);
        for (pattern, cost) in &mut layout.weighed {
            *cost = layout::predict(&array.shape, array.item, chunk, &pattern.count, device);
        }
    }
    let grid = Grid::new(&array.shape, &layout.chunk, &layout.shard).ok_or_else(|| {
        Error::invalid(format!("chunks of {:?} for \"{}\" are too large", layout.chunk, array.variable))
    })?;
    Ok((grid, codec, Some(layout), false))
}

/// The objects under `zarr/`.
struct Published {
    /// Documents by node; the root is "".
    documents: BTreeMap<String, Document>,
    /// All other objects, by key.
    objects: BTreeMap<String, u64>,
}

impl Published {
    fn load(store: &dyn Store, uuid: &[u8; 16]) -> Result<Self> {
        let mut documents = BTreeMap::new();
        let mut objects = BTreeMap::new();
        for entry in store.list(ROOT)? {
            match document::node_of(&entry.key) {
                Some(node) => {
                    let bytes = store.read_all(&entry.key, MOST_JSON)?;
                    documents.insert(node.to_owned(), Document::parse(&bytes, uuid));
                }
                None => _ = objects.insert(entry.key, entry.len),
            }
        }
        Ok(Published { documents, objects })
    }

    /// Refuses nodes that would replace foreign ones.
    fn check_foreign(&self, nodes: &Nodes) -> Result<()> {
        let wanted = nodes.groups.keys().chain(nodes.arrays.iter().map(|a| &a.node));
        for node in wanted {
            if self.documents.get(node).is_some_and(|d| !d.ours) {
                return Err(Error::conflict(format!(
                    "{} was not published from this container; move it away, or rename the variable",
                    document::key(node)
                )));
            }
        }
        Ok(())
    }
}

impl Target {
    /// Adds the other content of a shard's file to its fingerprint: attributes, coordinates, shape.
    fn count_metadata(&mut self) -> Result<()> {
        let Some(description) = &self.description else { return Ok(()) };
        for (&shard, sum) in &mut self.changes.shards {
            let cells = self.grid.cells_of(shard);
            let tail = self.array.file_tail();
            let file = description.file(&self.grid, &tail, &self.codec, &cells, Vec::new());
            changes::count(sum, &file.metadata(0)?.bytes);
        }
        Ok(())
    }

    /// The existing objects under the array's name, each with its number if it is a shard of the current shape.
    fn objects<'t>(
        &'t self,
        objects: &'t BTreeMap<String, u64>,
    ) -> impl Iterator<Item = (&'t String, Option<u64>)> {
        let prefix = format!("{ROOT}{}/c", self.array.node);
        let shards = self.grid.shards();
        let from = objects.range(prefix.clone()..).map(|(key, _)| key);
        from.take_while(move |key| key.starts_with(&prefix)).map(move |key| {
            let tail = format!("{ROOT}{}/c", self.array.node).len();
            let index = key[tail..].split('/').skip(1).map(|part| part.parse::<u64>().ok());
            let index: Option<Vec<u64>> = index.take(shards.len()).collect();
            let inside =
                index.filter(|i| i.len() == shards.len() && i.iter().zip(&shards).all(|(i, n)| i < n));
            let number =
                inside.map(|index| index.iter().zip(&shards).fold(0, |number, (i, n)| number * n + i));
            (key, number.filter(|&number| self.key(number) == *key))
        })
    }

    /// Keys of the objects of the array.
    fn keys(&self) -> Vec<String> {
        let shards = self.changes.shards.keys();
        shards.flat_map(|&shard| [Some(self.key(shard)), self.sidecar(shard)]).flatten().collect()
    }

    /// Decoded bytes of the shards that have values.
    fn bytes(&self) -> u64 {
        let cells = self.changes.shards.keys().map(|&shard| self.grid.cells_of(shard).cells());
        cells.fold(0, |n, c| n.saturating_add(c.saturating_mul(self.array.item)))
    }

    /// The key of a shard.
    fn key(&self, shard: u64) -> String {
        let mut key = format!("{ROOT}{}/c", self.array.node);
        for index in self.grid.index_of(shard) {
            key.push_str(&format!("/{index}"));
        }
        for _ in &self.array.element.tail {
            key.push_str("/0");
        }
        key
    }

    fn report(self, tally: convert::Tally) -> PublishedArray {
        PublishedArray {
            node: self.array.node,
            variable: self.array.variable,
            member: self.array.member,
            shape: self.grid.shape,
            chunk: self.grid.chunk,
            shard: self.grid.shard,
            written: tally.written,
            kept: tally.kept,
            copied: tally.copied,
            stored_bytes: tally.stored,
            layout: self.layout,
        }
    }
}
