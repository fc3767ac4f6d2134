//! `zarr.json`: the metadata of arrays and groups, written so that zarr-python, TensorStore and zarrs all take it.
//!
//! Object form everywhere, no member that a reader could refuse, sharding outermost, consolidated metadata in the root group
//! as zarr-python writes it.

use std::collections::BTreeMap;

use drystone_transform::Zstd;
use serde_json::{Map, Value as Json, json};

use super::ROOT;
use super::attributes::OURS;
use super::grid::Grid;
use super::nodes::Array;
use crate::{Error, ErrorKind, Result};

const NAME: &str = "zarr.json";

/// How a chunk is encoded: little-endian bytes, zstd at a level or not, a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Codec {
    level: Option<i32>,
}

impl Codec {
    /// `InvalidArgument` for a level that zstd does not have.
    pub(super) fn new(level: Option<i32>) -> Result<Self> {
        let codec = Codec { level };
        codec.zstd().map_err(|e| Error::invalid(e.to_string()))?;
        Ok(codec)
    }

    pub(super) fn zstd(&self) -> std::result::Result<Option<Zstd>, drystone_transform::TransformError> {
        self.level.map(Zstd::new).transpose()
    }

    pub(super) fn is_zstd(&self) -> bool {
        self.level.is_some()
    }

    fn json(&self) -> Json {
        let mut chain = vec![json!({"name": "bytes", "configuration": {"endian": "little"}})];
        chain.extend(
            self.level
                .map(|level| json!({"name": "zstd", "configuration": {"level": level, "checksum": false}})),
        );
        chain.push(json!({"name": "crc32c"}));
        Json::Array(chain)
    }
}

/// A document as it is in the store.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) json: Json,
    /// Published from this container. What cannot be read as JSON (of a power cut) counts as ours.
    pub(super) ours: bool,
}

/// The key of a node's document.
pub(super) fn key(node: &str) -> String {
    if node.is_empty() { format!("{ROOT}{NAME}") } else { format!("{ROOT}{node}/{NAME}") }
}

/// The node whose document has this key.
pub(super) fn node_of(key: &str) -> Option<&str> {
    let path = key.strip_prefix(ROOT)?.strip_suffix(NAME)?;
    if path.is_empty() { Some(path) } else { path.strip_suffix('/') }
}

impl Document {
    pub(super) fn parse(bytes: &[u8], uuid: &[u8; 16]) -> Self {
        let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
        let ours = json.is_null() || json["attributes"][OURS]["container"] == hex(uuid);
        Document { json, ours }
    }

    pub(super) fn is_array(&self) -> bool {
        self.json["node_type"] == "array"
    }

    /// How the array is cut and encoded, if the document is of this very array in everything but its shape.
    pub(super) fn layout_of(&self, array: &Array) -> Option<(Grid, Codec)> {
        let ndim = array.shape.len();
        let extents = |json: &Json| -> Option<Vec<u64>> {
            let all: Option<Vec<u64>> = json.as_array()?.iter().map(Json::as_u64).collect();
            all.filter(|all| all.len() == ndim + array.element.tail.len()).map(|mut all| {
                all.truncate(ndim);
                all
            })
        };
        let shard = extents(&self.json["chunk_grid"]["configuration"]["chunk_shape"])?;
        let outer = &self.json["codecs"][0];
        let sharded = outer["name"] == "sharding_indexed";
        let configuration = &outer["configuration"];
        let chunk = if sharded { extents(&configuration["chunk_shape"])? } else { shard.clone() };
        let codecs = if sharded { &configuration["codecs"] } else { &self.json["codecs"] };
        let zstd = codecs.as_array()?.iter().find(|c| c["name"] == "zstd");
        let level = zstd.map(|c| c["configuration"]["level"].as_i64()).map(|l| i32::try_from(l?).ok());
        let level = match level {
            Some(level) => Some(level?),
            None => None,
        };
        let grid = Grid::new(&array.shape, &chunk, &shard)?;
        let codec = Codec::new(level).ok()?;
        let about = self.json["attributes"][OURS].clone();
        let mut same = describe(array, &grid, &codec);
        let mut there = self.json.clone();
        for json in [&mut same, &mut there] {
            let members = json.as_object_mut()?;
            members.remove("shape");
            members.remove("attributes");
            members.remove("dimension_names");
        }
        let mut us = about.as_object()?.clone();
        us.remove("container");
        us.remove("variable");
        (same == there && us == identity(array)).then_some((grid, codec))
    }
}

/// What every document says about where it comes from.
pub(super) struct About<'a> {
    pub(super) uuid: &'a [u8; 16],
    pub(super) version: u64,
}

impl About<'_> {
    pub(super) fn group(&self, attributes: &Map<String, Json>) -> Json {
        let mut attributes = attributes.clone();
        attributes.insert(OURS.into(), json!({"container": hex(self.uuid)}));
        json!({"zarr_format": 3, "node_type": "group", "attributes": attributes})
    }

    pub(super) fn array(&self, array: &Array, grid: &Grid, codec: &Codec) -> Json {
        let mut ours = identity(array);
        ours.insert("container".into(), json!(hex(self.uuid)));
        ours.insert("variable".into(), json!(array.variable));
        let mut attributes = array.attributes.clone();
        attributes.insert(OURS.into(), Json::Object(ours));
        let mut json = describe(array, grid, codec);
        json["attributes"] = Json::Object(attributes);
        json
    }

    /// The root's document: that of its group, with all others in it. Takes the root from `documents`.
    pub(super) fn root(&self, documents: &mut BTreeMap<String, Json>) -> Result<Json> {
        let mut root = documents
            .remove("")
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the hierarchy has no root".to_owned()))?;
        root["attributes"][OURS]["snapshot"] = json!(self.version);
        let mut all = Map::new();
        for (node, json) in documents {
            let mut json = json.clone();
            if json["node_type"] == "group" {
                json["consolidated_metadata"] = inline(Map::new());
            }
            all.insert(node.clone(), json);
        }
        root["consolidated_metadata"] = inline(all);
        Ok(root)
    }
}

/// Whether two documents of the root differ in nothing but the number of the snapshot.
pub(super) fn same_but_version(a: &Json, b: &Json) -> bool {
    let plain = |json: &Json| {
        let mut json = json.clone();
        json["attributes"][OURS]["snapshot"].take();
        json
    };
    a.is_object() && b.is_object() && plain(a) == plain(b)
}

/// The root's document without some nodes, which are about to go.
pub(super) fn without(root: &Json, nodes: &[String]) -> Json {
    let mut root = root.clone();
    if let Some(all) = root["consolidated_metadata"]["metadata"].as_object_mut() {
        nodes.iter().for_each(|node| _ = all.remove(node));
    }
    root
}

fn inline(metadata: Map<String, Json>) -> Json {
    json!({"kind": "inline", "must_understand": false, "metadata": metadata})
}

/// Which variable an array is, apart from its names.
fn identity(array: &Array) -> Map<String, Json> {
    let uid = format!("{:016x}", array.uid);
    let ours = json!({"id": array.id, "uid": uid, "member": array.member, "dtype": array.dtype});
    ours.as_object().cloned().unwrap_or_default()
}

/// An array's document without attributes.
pub(super) fn describe(array: &Array, grid: &Grid, codec: &Codec) -> Json {
    let tail = &array.element.tail;
    let with_tail = |cells: &[u64]| -> Vec<u64> { cells.iter().chain(tail).copied().collect() };
    let codecs = if is_sharded(array) {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": with_tail(&grid.chunk),
            "codecs": codec.json(),
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        }}])
    } else {
        codec.json()
    };
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": with_tail(&grid.shape),
        "data_type": array.element.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": with_tail(&grid.shard)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": array.fill_value,
        "codecs": codecs,
        "dimension_names": array.dims,
    })
}

/// An array without axes is one chunk: there is nothing to cut.
pub(super) fn is_sharded(array: &Array) -> bool {
    !array.shape.is_empty() || !array.element.tail.is_empty()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
