//! The options of publishing, and its report.

use super::nodes::Skipped;
use std::collections::BTreeMap;

use drystone_plan::layout::{Device, Layout};
use drystone_transform::CodecSpec;

use super::document::{Codec, Compression};
use crate::{Error, Result};

/// The default memory of a publication.
const MEMORY: u64 = 512 << 20;
/// The least memory, which suffices for one thread.
const LEAST_MEMORY: u64 = 128 << 20;

/// The compression of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compressor {
    /// zstd for variables with a transform, at the transform's level if that is zstd; no compression for other
    /// variables.
    #[default]
    Auto,
    /// No compression.
    None,
    /// zstd at a level from -7 to 22.
    Zstd(i32),
    /// zlib at a level from 0 to 9, after a shuffle of the bytes of each element.
    Zlib(u32),
}

/// The format of the shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Shards of Zarr v3.
    Zarr,
    /// Shards of Zarr v3 that are also HDF5 (netCDF-4) files.
    ZarrHdf5,
    /// One netCDF-4 file ([`crate::Container::publish_netcdf`]).
    Netcdf,
}

impl Format {
    /// Parses `zarr`, `zarr+hdf5` or `netcdf`. Errors: `InvalidArgument` for other texts.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim() {
            "zarr" => Ok(Format::Zarr),
            "zarr+hdf5" => Ok(Format::ZarrHdf5),
            "netcdf" => Ok(Format::Netcdf),
            _ => Err(Error::invalid(format!(
                "the format is \"zarr\", \"zarr+hdf5\" or \"netcdf\", not \"{text}\""
            ))),
        }
    }
}

impl Compressor {
    /// Parses `auto`, `none`, `zstd` or `zlib`; the last two take an optional `:LEVEL`. Errors: `InvalidArgument` for
    /// other texts.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim() {
            "auto" => return Ok(Compressor::Auto),
            "none" | "" => return Ok(Compressor::None),
            _ => {}
        }
        let specs = CodecSpec::parse_all(text).map_err(|e| Error::invalid(e.to_string()))?;
        match specs.as_slice() {
            [spec] if spec.name == "zstd" => {
                Ok(Compressor::Zstd(level_of(&specs, "zstd").unwrap_or(USUAL_ZSTD)))
            }
            [spec] if spec.name == "zlib" => {
                let level = level_of(&specs, "zlib").unwrap_or(USUAL_ZLIB);
                let level = u32::try_from(level).ok().filter(|level| *level <= 9);
                level.map(Compressor::Zlib).ok_or_else(|| Error::invalid("levels of zlib are 0 to 9"))
            }
            _ => Err(Error::invalid(format!(
                "the compressor is \"auto\", \"none\", \"zstd:LEVEL\" or \"zlib:LEVEL\", not \"{text}\""
            ))),
        }
    }

    /// The codec for a variable with this transform, whose values have `element` bytes.
    pub(super) fn of(self, transform: &str, element: u32, dual: bool) -> Result<Codec> {
        let zlib = |level| Some(Compression::Zlib { level, element });
        let compression = match self {
            Compressor::None => None,
            Compressor::Zstd(level) => Some(Compression::Zstd(level)),
            Compressor::Zlib(level) => zlib(level),
            Compressor::Auto => {
                let specs = CodecSpec::parse_all(transform).unwrap_or_default();
                match (specs.is_empty(), dual) {
                    (true, _) => None,
                    // Every HDF5 library reads zlib without plug-ins.
                    (false, true) => {
                        let level = level_of(&specs, "zlib").unwrap_or(USUAL_ZLIB);
                        zlib(u32::try_from(level).unwrap_or(USUAL_ZLIB as u32).min(9))
                    }
                    (false, false) => Some(Compression::Zstd(level_of(&specs, "zstd").unwrap_or(USUAL_ZSTD))),
                }
            }
        };
        Codec::new(compression, dual)
    }
}

const USUAL_ZSTD: i32 = 3;
const USUAL_ZLIB: i32 = 4;

/// The level of a codec in a chain.
fn level_of(specs: &[CodecSpec], name: &str) -> Option<i32> {
    specs.iter().find(|spec| spec.name == name)?.params.iter().find_map(|p| match p.key_and_value() {
        (None | Some("level"), drystone_transform::Param::Int(level)) => i32::try_from(*level).ok(),
        _ => None,
    })
}

/// Options of a publication.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishOptions {
    /// Paths of variables. `None` publishes all variables that can be published, and removes published arrays of
    /// deleted variables.
    pub variables: Option<Vec<String>>,
    /// The most memory to use, in bytes; at least 128 MiB.
    pub memory: u64,
    /// The store's cost, for the model. `None`: as measured ([`crate::Container::device`]).
    pub device: Option<Device>,
    /// Chunk extents by variable, steps first. They replace the model's choice.
    pub chunks: BTreeMap<String, Vec<u64>>,
    /// The compression of chunks.
    pub compressor: Compressor,
    /// The format of shards. `None` keeps the format of an earlier publication; a first one is Zarr only.
    pub format: Option<Format>,
}

impl Default for PublishOptions {
    fn default() -> Self {
        PublishOptions {
            variables: None,
            memory: MEMORY,
            device: None,
            chunks: BTreeMap::new(),
            compressor: Compressor::Auto,
            format: None,
        }
    }
}

impl PublishOptions {
    pub(super) fn check(&self) -> Result<()> {
        if self.memory < LEAST_MEMORY {
            return Err(Error::invalid(format!(
                "{} bytes of memory to publish with; at least {LEAST_MEMORY} are needed",
                self.memory
            )));
        }
        Ok(())
    }

    /// Refuses a format that is not a hierarchy.
    pub(super) fn check_hierarchy(&self) -> Result<()> {
        match self.format {
            Some(Format::Netcdf) => Err(Error::invalid("a netCDF file is written by publish_netcdf")),
            _ => Ok(()),
        }
    }
}

/// The outcome of a publication.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishReport {
    /// The version of the published commit.
    pub snapshot: u64,
    /// One entry per Zarr array, by path.
    pub arrays: Vec<PublishedArray>,
    /// Variables that the portable profile cannot represent, if all variables were to be published.
    pub skipped: Vec<Skipped>,
}

/// One Zarr array of a publication.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedArray {
    /// Its path in the hierarchy.
    pub node: String,
    /// The variable's path in the container.
    pub variable: String,
    /// The leaf member of a record; empty for a whole variable.
    pub member: String,
    /// Its shape in cells, steps first.
    pub shape: Vec<u64>,
    /// Extents of a chunk in cells.
    pub chunk: Vec<u64>,
    /// Extents of a shard in cells.
    pub shard: Vec<u64>,
    /// Number of shards written now.
    pub written: u64,
    /// Number of shards that were already up to date.
    pub kept: u64,
    /// Number of chunks in the written shards that were copied from the log in their stored form.
    pub copied: u64,
    /// Bytes of the shards written now.
    pub stored_bytes: u64,
    /// The model's reasons. `None` if an earlier publication fixed the layout.
    pub layout: Option<Layout>,
}
