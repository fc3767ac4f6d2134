//! `zarr.json`: the metadata of arrays and groups, in a form that zarr-python, TensorStore and zarrs all accept.
//!
//! Documents use object form everywhere, no member that a reader could refuse, sharding outermost, and consolidated
//! metadata in the root group, as zarr-python writes it.

use std::collections::BTreeMap;

use drystone_transform::{Shuffle, Zlib, Zstd};
use serde_json::{Map, Value as Json, json};

use super::attributes::OURS;
use super::nodes::Array;
use crate::published::ROOT;
use crate::published::grid::Grid;
use crate::{Error, ErrorKind, Result};
use drystone_hdf5_file::Filter;

const NAME: &str = "zarr.json";

/// The encoding of chunks: little-endian bytes, optional compression, a checksum. Also whether shards are HDF5 files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Codec {
    compression: Option<Compression>,
    /// The shard's index precedes the chunks, in the user block of an HDF5 file.
    pub(super) dual: bool,
}

/// Compression that HDF5 and Zarr both support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// zstd, at a level from -7 to 22.
    Zstd(i32),
    /// zlib, at a level from 0 to 9, after a shuffle of the bytes of elements of this size; size 1 means no shuffle.
    Zlib { level: u32, element: u32 },
}

impl Codec {
    /// Errors: `InvalidArgument` for a level that zstd does not have.
    pub(super) fn new(compression: Option<Compression>, dual: bool) -> Result<Self> {
        let codec = Codec { compression, dual };
        codec.encoder().map_err(|e| Error::invalid(e.to_string()))?;
        Ok(codec)
    }

    /// The codecs that encode a chunk, in order.
    pub(super) fn encoder(
        &self,
    ) -> std::result::Result<
        Vec<std::boxed::Box<dyn drystone_transform::Codec>>,
        drystone_transform::TransformError,
    > {
        let mut all: Vec<std::boxed::Box<dyn drystone_transform::Codec>> = Vec::new();
        match self.compression {
            None => {}
            Some(Compression::Zstd(level)) => all.push(std::boxed::Box::new(Zstd::new(level)?)),
            Some(Compression::Zlib { level, element }) => {
                if element > 1 {
                    all.push(std::boxed::Box::new(Shuffle::new()));
                }
                all.push(std::boxed::Box::new(Zlib::new(level)));
            }
        }
        Ok(all)
    }

    /// Bytes of the shuffled elements.
    pub(super) fn element(&self) -> u32 {
        match self.compression {
            Some(Compression::Zlib { element, .. }) => element,
            _ => 1,
        }
    }

    /// The codecs as HDF5 filters. HDF5 has no CRC-32C filter: the checksum follows the bytes that HDF5 sees.
    pub(super) fn filters(&self) -> Vec<Filter> {
        let filter = |id, name, values| Filter { id, name, values };
        match self.compression {
            None => Vec::new(),
            Some(Compression::Zstd(level)) => {
                vec![filter(32015, "Zstandard compression", vec![level as u32])]
            }
            Some(Compression::Zlib { level, element }) => {
                let shuffle = (element > 1).then(|| filter(2, "shuffle", vec![element]));
                shuffle.into_iter().chain([filter(1, "deflate", vec![level])]).collect()
            }
        }
    }

    pub(super) fn is_zstd(&self) -> bool {
        matches!(self.compression, Some(Compression::Zstd(_)))
    }

    /// Whether manifests can record such chunks.
    pub(super) fn is_plain_or_zstd(&self) -> bool {
        self.compression.is_none() || self.is_zstd()
    }

    /// Whether bytes that the log stores with this chain equal those of a chunk, for scalars of `scalar` bytes.
    pub(super) fn is_chain(&self, chain: &str, scalar: u64) -> bool {
        match self.compression {
            None => chain.is_empty(),
            Some(Compression::Zstd(level)) => chain == format!("zstd:{level}"),
            Some(Compression::Zlib { level, element: 1 }) => chain == format!("zlib:{level}"),
            Some(Compression::Zlib { level, element }) => {
                u64::from(element) == scalar && chain == format!("shuffle,zlib:{level}")
            }
        }
    }

    fn json(&self, array: &Array) -> Json {
        let mut chain = vec![match array.element.is_text() {
            true => json!({"name": "vlen-utf8"}),
            false => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        }];
        match self.compression {
            None => {}
            Some(Compression::Zstd(level)) => {
                chain.push(json!({"name": "zstd", "configuration": {"level": level, "checksum": false}}));
            }
            Some(Compression::Zlib { level, element }) => {
                if element > 1 {
                    chain.push(
                        json!({"name": "numcodecs.shuffle", "configuration": {"elementsize": element}}),
                    );
                }
                chain.push(json!({"name": "numcodecs.zlib", "configuration": {"level": level}}));
            }
        }
        chain.push(json!({"name": "crc32c"}));
        Json::Array(chain)
    }

    /// The codec that a document declares. Comparing documents shows whether it is exactly that codec.
    fn parse(codecs: &Json, dual: bool) -> Option<Self> {
        let find = |name: &str| codecs.as_array()?.iter().find(|c| c["name"] == name);
        let number = |codec: &Json, key: &str| codec["configuration"][key].as_i64();
        let compression = if let Some(zstd) = find("zstd") {
            Some(Compression::Zstd(i32::try_from(number(zstd, "level")?).ok()?))
        } else if let Some(zlib) = find("numcodecs.zlib") {
            let element = find("numcodecs.shuffle").map_or(Some(1), |c| number(c, "elementsize"))?;
            let level = u32::try_from(number(zlib, "level")?).ok()?;
            Some(Compression::Zlib { level, element: u32::try_from(element).ok()? })
        } else {
            None
        };
        Codec::new(compression, dual).ok()
    }
}

/// A stored document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) json: Json,
    /// Whether it was published from this container. A document that is not valid JSON (after a power cut) counts as
    /// ours.
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

    /// The layout and encoding of the array, if the document describes exactly this array, apart from its shape.
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
        let grid = Grid::new(&array.shape, &chunk, &shard)?;
        let codec = Codec::parse(codecs, configuration["index_location"] == "start")?;
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

/// The origin that every document states.
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
        let mut json = describe(array, grid, codec);
        json["attributes"] = self.attributes(array);
        json
    }

    /// The attributes of an array, including our own.
    pub(super) fn attributes(&self, array: &Array) -> Json {
        let mut ours = identity(array);
        ours.insert("container".into(), json!(hex(self.uuid)));
        ours.insert("variable".into(), json!(array.variable));
        let mut attributes = array.attributes.clone();
        attributes.insert(OURS.into(), Json::Object(ours));
        Json::Object(attributes)
    }

    /// The root's document: that of its group, which contains all other documents. Removes the root from `documents`.
    pub(super) fn root(&self, documents: &mut BTreeMap<String, Json>) -> Result<Json> {
        let mut root = documents
            .remove("")
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "the hierarchy has no root".to_owned()))?;
        if let Some(ours) = root["attributes"].get_mut(OURS).and_then(Json::as_object_mut) {
            ours.insert("snapshot".into(), json!(self.version));
        }
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

/// Whether two root documents differ only in the version of the snapshot.
pub(super) fn same_but_version(a: &Json, b: &Json) -> bool {
    let plain = |json: &Json| {
        let mut json = json.clone();
        json["attributes"][OURS]["snapshot"].take();
        json
    };
    a.is_object() && b.is_object() && plain(a) == plain(b)
}

/// The root's document without the nodes that are about to be removed.
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

/// Identifies the variable of an array, independently of its name.
fn identity(array: &Array) -> Map<String, Json> {
    let uid = format!("{:016x}", array.uid);
    let ours = json!({"id": array.id, "uid": uid, "member": array.member, "dtype": array.dtype});
    ours.as_object().cloned().unwrap_or_default()
}

/// An array's document without attributes.
pub(super) fn describe(array: &Array, grid: &Grid, codec: &Codec) -> Json {
    let codecs = if is_sharded(array) {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": array.with_tail(&grid.chunk),
            "codecs": codec.json(array),
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": if codec.dual { "start" } else { "end" },
        }}])
    } else {
        codec.json(array)
    };
    skeleton(array, grid, codecs)
}

/// The document of an array in a virtual hierarchy. Its objects are single chunks of uncompressed values.
pub(super) fn virtual_array(array: &Array, grid: &Grid) -> Json {
    let codecs = match array.element.is_text() {
        true => json!([{"name": "vlen-utf8"}]),
        false => json!([{"name": "bytes", "configuration": {"endian": "little"}}]),
    };
    skeleton(array, grid, codecs)
}

fn skeleton(array: &Array, grid: &Grid, codecs: Json) -> Json {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": array.with_tail(&grid.shape),
        "data_type": array.data_type(),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.with_tail(&grid.shard)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": array.fill_value,
        "codecs": codecs,
        "dimension_names": array.dims,
    })
}

/// Whether the array has shards. An array without axes is one chunk and has none.
pub(super) fn is_sharded(array: &Array) -> bool {
    !array.shape.is_empty() || !array.element.tail.is_empty()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
