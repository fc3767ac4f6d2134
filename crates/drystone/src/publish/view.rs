//! A snapshot as a virtual Zarr v3 hierarchy: documents are made from the schema, and chunks are read from the log on
//! request.
//!
//! A variable that a Zarr client created carries the document that the client declared ([`DECLARED`]). Its chunks use
//! the client's encoding, so the caller encodes them (the Python face does so, with zarr-python's codecs). All other
//! arrays are cut as their blocks are stored, and their chunks are uncompressed values.
//!
//! Invariants
//! - a view never changes: it is pinned to one snapshot;
//! - a chunk exists if any of its cells was written; otherwise it reads as the document's fill value.

use super::attributes::DECLARED;
use std::collections::BTreeMap;

use drystone_format::MAX_NDIM;
use drystone_format::schema::{Attrs, Schema};
use drystone_format::value::Value;
use drystone_plan::layout::{self, Bounds, Device};
use drystone_plan::tree::{self, Query, StepSet};
use serde_json::{Map, Value as Json, json};

use super::Target;
use super::changes::{self, Changes};
use super::convert::cut;
use super::dense::read;
use super::document::{self, Codec};
use super::nodes::{Array, Nodes, Skipped};
use super::texts;
use crate::container::Container;
use crate::published::grid::{Box, Grid};
use crate::{Error, Result};
/// The smallest chunks, in bytes, that are cut like stored blocks. Smaller ones would cost more in requests than they
/// save in bytes.
const LEAST_CHUNK: u64 = 128 << 10;
/// The number of cells of a chunk of strings.
const TEXTS: u64 = 4096;

/// A snapshot as a Zarr hierarchy.
pub struct ZarrView {
    container: Container,
    /// Documents by node; the root is "".
    documents: BTreeMap<String, Json>,
    arrays: BTreeMap<String, Shown>,
    skipped: Vec<Skipped>,
}

struct Shown {
    target: Target,
    declared: bool,
}

impl Container {
    /// The handle's snapshot as a Zarr hierarchy. With `consolidated`, the root's document contains all others;
    /// without it, only if a Zarr client stored it so.
    pub fn zarr_view(&self, consolidated: bool) -> Result<ZarrView> {
        self.hierarchy(consolidated, None)
    }

    /// The handle's snapshot as a Zarr hierarchy of files. Chunks are uncompressed values, whatever a Zarr client
    /// declared, and the root's document contains all others. `chunks` keeps the cut of arrays by variable and
    /// member: a program may read the document of one snapshot and a chunk of a later one, and the chunk must be cut
    /// as the document says.
    pub fn zarr_files(&self, chunks: &mut BTreeMap<(u64, u32), Vec<u64>>) -> Result<ZarrView> {
        self.hierarchy(true, Some(chunks))
    }

    fn hierarchy(
        &self,
        consolidated: bool,
        mut chunks: Option<&mut BTreeMap<(u64, u32), Vec<u64>>>,
    ) -> Result<ZarrView> {
        let container = self.at(self.snapshot().version())?;
        let snapshot = container.snapshot();
        let schema = &snapshot.schema;
        let nodes = Nodes::exact(&snapshot)?;
        let about = document::About { uuid: &self.identity().uuid, version: snapshot.version() };
        let mut documents = BTreeMap::new();
        let mut arrays = BTreeMap::new();
        for (node, attributes) in &nodes.groups {
            documents.insert(node.clone(), declared_group(schema, node, attributes, &about));
        }
        for array in nodes.arrays {
            let declared = schema.resolve(&array.variable).and_then(|v| declared(&v.attrs));
            let declared = declared.filter(|_| array.member.is_empty() && chunks.is_none());
            let declared = declared.and_then(|json| accept(&array, json));
            let (grid, mut json) = match &declared {
                Some((grid, json)) => (grid.clone(), json.clone()),
                None => {
                    let key = (array.uid, array.leaf);
                    let before = chunks.as_deref().and_then(|chunks| chunks.get(&key));
                    let grid = match before.and_then(|chunk| Grid::new(&array.shape, chunk, chunk)) {
                        Some(grid) => grid,
                        None => container.stored_grid(&array)?,
                    };
                    if let Some(chunks) = &mut chunks {
                        chunks.insert(key, grid.chunk.clone());
                    }
                    let json = document::virtual_array(&array, &grid);
                    (grid, json)
                }
            };
            json["attributes"] = match declared {
                Some(_) => Json::Object(array.attributes.clone()),
                None => about.attributes(&array),
            };
            documents.insert(array.node.clone(), json);
            let codec = Codec::new(None, false)?;
            let node = array.node.clone();
            let changes = Changes::default();
            let target = Target { array, grid, codec, layout: None, changes, description: None };
            arrays.insert(node, Shown { target, declared: declared.is_some() });
        }
        let root = schema.groups.get("");
        let asked = root.and_then(declared).is_some_and(|json| json["consolidated"] == true);
        // A container without content has no hierarchy.
        if documents.len() == 1 && arrays.is_empty() && root.is_none_or(Attrs::is_empty) {
            documents.clear();
        } else if consolidated || asked {
            let root = about.root(&mut documents)?;
            documents.insert(String::new(), root);
        }
        Ok(ZarrView { container, documents, arrays, skipped: nodes.skipped })
    }

    /// The cut of an array that declares none: that of the newest blocks, unless they are small; then that of the
    /// model.
    fn stored_grid(&self, array: &Array) -> Result<Grid> {
        let too_large = || Error::invalid(format!("the chunks of \"{}\" are too large", array.variable));
        let first = usize::from(array.steps);
        let limit = |extents: &[u64]| -> Vec<u64> {
            let cells = extents.iter().zip(&array.shape[first..]);
            let mut chunk = vec![1; first];
            chunk.extend(cells.map(|(extent, n)| (*extent).min(*n).max(1)));
            chunk
        };
        if array.element.is_text() {
            let mut chunk = limit(&vec![u64::MAX; array.shape.len() - first]);
            while chunk.iter().fold(1u64, |n, e| n.saturating_mul(*e)) > TEXTS {
                let Some(longest) = chunk.iter_mut().max() else { break };
                *longest = longest.div_ceil(2);
            }
            return Grid::new(&array.shape, &chunk, &chunk).ok_or_else(too_large);
        }
        let snapshot = self.snapshot();
        let given = snapshot.schema.resolve(&array.variable).and_then(|v| v.chunks.clone());
        if let Some(chunk) = given.filter(|c| c.len() + first == array.shape.len()).map(|c| limit(&c)) {
            return Grid::new(&array.shape, &chunk, &chunk).ok_or_else(too_large);
        }
        let mut stored: Option<Vec<u64>> = None;
        if let Some(root) = &snapshot.manifest.root {
            let step = if array.steps { snapshot.step_axis() } else { 0 };
            let query = Query {
                steps: StepSet::one(step),
                variable: array.id,
                member: Some(array.leaf),
                bounds: None,
            };
            tree::find(&self.inner.pages, root, &query, &mut |entry| {
                let n = usize::from(entry.ndim).min(MAX_NDIM);
                if n + first == array.shape.len() && stored.is_none() {
                    let cut = entry.cut[..n].iter().zip(&entry.count[..n]);
                    stored = Some(
                        cut.map(|(cut, count)| if *cut > 0 { *cut.min(count) } else { *count }).collect(),
                    );
                }
            })?;
        }
        let bytes = |chunk: &[u64]| chunk.iter().fold(array.item, |n, e| n.saturating_mul(*e));
        if let Some(chunk) = stored.map(|stored| limit(&stored))
            && (bytes(&chunk) >= LEAST_CHUNK || chunk[first..] == array.shape[first..])
        {
            return Grid::new(&array.shape, &chunk, &chunk).ok_or_else(too_large);
        }
        let cells = layout::Array { shape: &array.shape, item: array.item, steps: array.steps };
        let mix = layout::standard_mix(&array.shape, array.steps);
        // Measurements of the store are not used: all processes at this snapshot must cut the array in the same way.
        let chunk = layout::choose(cells, &mix, &Device::ASSUMED, &Bounds::PORTABLE).chunk;
        Grid::new(&array.shape, &chunk, &chunk).ok_or_else(too_large)
    }
}

/// The document that a Zarr client declared.
fn declared(attrs: &Attrs) -> Option<Json> {
    match attrs.get(DECLARED)? {
        Value::Text(text) => serde_json::from_str(text).ok().filter(Json::is_object),
        _ => None,
    }
}

/// The declared document with the variable's current shape, if it fits the variable.
fn accept(array: &Array, mut json: Json) -> Option<(Grid, Json)> {
    let extents = json["chunk_grid"]["configuration"]["chunk_shape"].as_array()?;
    // An axis without cells may have chunks of extent 0.
    let chunk: Option<Vec<u64>> = extents.iter().map(|n| Some(n.as_u64()?.max(1))).collect();
    let shape: Vec<u64> = array.shape.clone();
    let chunk = chunk.filter(|c| c.len() == shape.len())?;
    let grid = Grid::new(&shape, &chunk, &chunk)?;
    json["shape"] = json!(shape);
    Some((grid, json))
}

fn declared_group(
    schema: &Schema,
    node: &str,
    attributes: &Map<String, Json>,
    about: &document::About<'_>,
) -> Json {
    match schema.groups.get(node).and_then(declared) {
        Some(_) => json!({"zarr_format": 3, "node_type": "group", "attributes": attributes}),
        None => about.group(attributes),
    }
}

impl ZarrView {
    /// The version of the snapshot.
    pub fn version(&self) -> u64 {
        self.container.snapshot().version()
    }

    /// The metadata documents by node; that of the root is under "". Empty for a container without content.
    pub fn documents(&self) -> impl Iterator<Item = (&str, String)> {
        self.documents.iter().map(|(node, json)| (node.as_str(), json.to_string()))
    }

    /// Variables that are not shown: local ones, since their blocks are not one array.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The variable of an array, and whether its chunks use an encoding that a Zarr client declared. `None` if the
    /// node is not an array.
    pub fn array(&self, node: &str) -> Option<(&str, bool)> {
        self.arrays.get(node).map(|shown| (shown.target.array.variable.as_str(), shown.declared))
    }

    /// The number of chunks along each axis of an array, and the bytes of each chunk, unless it holds strings of any
    /// length. `None` if the node is not an array.
    pub fn chunk_counts(&self, node: &str) -> Option<(Vec<u64>, Option<u64>)> {
        let target = &self.arrays.get(node)?.target;
        let mut counts = target.grid.shards();
        counts.extend(target.array.element.tail.iter().map(|_| 1));
        let cells = target.grid.chunk.iter().fold(target.array.item, |n, extent| n.saturating_mul(*extent));
        Some((counts, (!target.array.element.is_text()).then_some(cells)))
    }

    fn shown(&self, node: &str) -> Result<&Shown> {
        self.arrays.get(node).ok_or_else(|| Error::not_found(format!("there is no array {node}")))
    }

    /// The cells of a chunk, by its index along all axes. `None` if the array has no cells there.
    fn cells(shown: &Shown, index: &[u64]) -> Option<Box> {
        let grid = &shown.target.grid;
        let (own, tail) = index.split_at_checked(grid.shape.len())?;
        let many = grid.shards();
        let inside = own.iter().zip(&many).all(|(i, n)| i < n);
        (inside && tail.len() == shown.target.array.element.tail.len() && tail.iter().all(|&i| i == 0))
            .then(|| grid.cells_of(own.iter().zip(&many).fold(0, |number, (i, n)| number * n + i)))
    }

    /// The chunks of computed values, which the index does not contain: they exist for the steps of the inputs.
    fn computed(&self, shown: &Shown) -> Result<Vec<Vec<u64>>> {
        let (array, grid) = (&shown.target.array, &shown.target.grid);
        let steps = self.container.leaf_reading(&array.variable, array.leaf)?.steps()?;
        let many = grid.shards().iter().product::<u64>();
        let each = grid.chunk.first().copied().unwrap_or(1).max(1);
        let is_there = |index: &Vec<u64>| {
            let first = index.first().map_or(0, |index| index * each);
            !array.steps || steps.iter().any(|step| (first..first + each).contains(step))
        };
        Ok((0..many).map(|number| grid.index_of(number)).filter(is_there).collect())
    }

    /// Whether any cell of a chunk was written.
    pub fn has_chunk(&self, node: &str, index: &[u64]) -> Result<bool> {
        let shown = self.shown(node)?;
        let Some(cells) = Self::cells(shown, index) else { return Ok(false) };
        if shown.target.array.derived {
            return Ok(self.computed(shown)?.iter().any(|known| known == index));
        }
        changes::any(&self.container.inner, &self.container.snapshot(), &shown.target, &cells, 0)
    }

    /// Whether commits after `deleted`, the commit that deleted the chunk, wrote to it.
    pub fn has_chunk_since(&self, node: &str, index: &[u64], deleted: u64) -> Result<bool> {
        let shown = self.shown(node)?;
        let Some(cells) = Self::cells(shown, index) else { return Ok(false) };
        changes::any(&self.container.inner, &self.container.snapshot(), &shown.target, &cells, deleted)
    }

    /// Indices of the chunks with written cells, in row-major order.
    pub fn chunks(&self, node: &str) -> Result<Vec<Vec<u64>>> {
        let shown = self.shown(node)?;
        if shown.target.array.derived {
            return self.computed(shown);
        }
        let target = &shown.target;
        let copy = Target {
            array: target.array.clone(),
            grid: target.grid.clone(),
            codec: target.codec,
            layout: None,
            changes: Changes::default(),
            description: None,
        };
        let mut found = [copy];
        changes::find(&self.container.inner, &self.container.snapshot(), &mut found)?;
        let tail = vec![0; target.array.element.tail.len()];
        let index = |&number: &u64| [target.grid.index_of(number), tail.clone()].concat();
        Ok(found[0].changes.shards.keys().map(index).collect())
    }

    /// The bytes of a chunk, encoded as its document says. `None` if no cell was written. Errors: `Unsupported` for
    /// an array whose encoding a client declared; read its box and encode that instead.
    pub fn chunk(&self, node: &str, index: &[u64]) -> Result<Option<Vec<u8>>> {
        let shown = self.shown(node)?;
        let target = &shown.target;
        if shown.declared {
            return Err(Error::unsupported(format!(
                "the chunks of {node} have the encoding of the client that declared it: read the box and encode it"
            )));
        }
        let Some(cells) = Self::cells(shown, index) else { return Ok(None) };
        let written = match target.array.derived {
            true => self.has_chunk(node, index)?,
            false => changes::any(&self.container.inner, &self.container.snapshot(), target, &cells, 0)?,
        };
        if !written {
            return Ok(None);
        }
        let array = &target.array;
        if array.element.is_text() {
            return self.texts(target, &cells).map(Some);
        }
        let reading = self.container.leaf_reading(&array.variable, array.leaf)?;
        let mut slab = Vec::new();
        read(array, &reading, &cells, &mut slab)?;
        if cells.counts() == target.grid.chunk {
            return Ok(Some(slab));
        }
        let mut chunk = Vec::new();
        cut(array, &target.grid.chunk, (&cells, &slab), &cells, &mut chunk)?;
        Ok(Some(chunk))
    }

    fn texts(&self, target: &Target, cells: &Box) -> Result<Vec<u8>> {
        let reading = self.container.leaf_reading(&target.array.variable, target.array.leaf)?;
        let texts = texts::read(&reading, &target.array, cells)?;
        texts::vlen(&texts, &cells.counts(), &target.grid.chunk)
    }
}
