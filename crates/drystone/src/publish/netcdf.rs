//! One netCDF-4 file of a whole container. Chunks are written as they are encoded, or copied from published shards;
//! the metadata follows them.
//!
//! The file lies at a path of the local file system, not in a store, since users take it elsewhere. It is written
//! under a temporary name and renamed, so readers see the old file or the complete new one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use drystone_format::dtype::Scalar;
use drystone_store::{StoreExt, WholeFile};

use super::convert::{Run, encode};
use super::dense::read;
use super::hdf5::{self as said, Description, datatype, number_type, offset_of, typed};
use super::nodes::{Array, Nodes};
use super::options::{Format, PublishOptions, PublishReport};
use super::{Published, Target, changes, computed, convert, decide, document, texts};
use crate::base::checksum::crc32;
use crate::container::Container;
use crate::published::grid::Box;
use crate::published::stamp::stamp_of;
use crate::{Error, ErrorKind, Result};
use drystone_hdf5_file::{self as hdf5, Attribute, Chunk, Dataset, File, Id, Storage};

/// The greatest length of a shard object, in bytes.
const MOST_SHARD: u64 = 1 << 31;

/// The default path of the netCDF file of a container in a folder: in its `netcdf/`, under the folder's name.
pub fn netcdf_path(folder: &Path) -> PathBuf {
    let name = folder.file_stem().map_or_else(|| "data".into(), ToOwned::to_owned);
    folder.join("netcdf").join(name).with_extension("nc")
}

impl Container {
    /// Writes the newest commit as one netCDF-4 file at a local path, replacing an existing file. The format in
    /// `options` is ignored. In the report, `kept` counts shards whose chunks were copied from a publication
    /// (`zarr+hdf5`), and `written` those that were encoded.
    pub fn publish_netcdf(
        &self,
        path: &Path,
        options: &PublishOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PublishReport> {
        options.check()?;
        let done = self.write_netcdf(path, options, progress);
        done.map_err(|e| e.while_doing(format!("publishing {} as {}", self.location(), path.display())))
    }

    fn write_netcdf(
        &self,
        path: &Path,
        options: &PublishOptions,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PublishReport> {
        let version = self.inner.newest()?.0.version();
        let pinned = self.at(version)?;
        let snapshot = pinned.snapshot();
        let chosen = options.variables.as_deref();
        let nodes = Nodes::of(&snapshot, chosen)?.in_netcdf(chosen.is_some())?;
        let store = self.inner.store.as_ref();
        let there = Published::load(store, &self.inner.identity.uuid)?;
        let options = PublishOptions { format: Some(Format::ZarrHdf5), ..options.clone() };
        let device = options.device.unwrap_or_else(|| self.device());
        let mut targets = Vec::new();
        for array in &nodes.arrays {
            let known = there.documents.get(&array.node);
            let (grid, codec, layout, _) =
                decide(&pinned, array, known, &options, &device, &self.expected_of(array)?)?;
            said::check(array, &grid)?;
            let description = Some(Description::of(&pinned, array)?);
            let array = array.clone();
            targets.push(Target { array, grid, codec, layout, changes: Default::default(), description });
        }
        changes::find(&pinned.inner, &snapshot, &mut targets)?;
        computed::find(&pinned, &snapshot, &mut targets)?;
        targets.iter_mut().try_for_each(Target::count_metadata)?;
        let run = Run::new(&pinned, store, &targets, version);
        let mut out = Output::create(path)?;
        let mut laid = Vec::new();
        let mut tallies = Vec::new();
        let total = targets.iter().map(Target::bytes).fold(0u64, u64::saturating_add);
        let mut done = 0;
        for target in &targets {
            let (chunks, tally) = out.lay(&run, target, &mut |bytes| {
                done += bytes;
                progress(done, total)
            })?;
            laid.push(chunks);
            tallies.push(tally);
        }
        let file = structure(&pinned, &nodes, &targets, laid)?;
        out.finish(&file)?;
        let arrays = targets.into_iter().zip(tallies).map(|(t, tally)| t.report(tally)).collect();
        Ok(PublishReport { snapshot: version, arrays, skipped: nodes.skipped })
    }
}

/// The position of an array's values in the file.
enum Laid {
    Chunks(Vec<Chunk>),
    /// The only value of an array without axes.
    Value(Vec<u8>),
}

/// The file while it is being written.
struct Output<'a> {
    path: &'a Path,
    file: std::io::BufWriter<WholeFile>,
    at: u64,
}

fn io(path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{}: {error}", path.display()))
}

impl<'a> Output<'a> {
    fn create(path: &'a Path) -> Result<Self> {
        if path.file_name().is_none() {
            return Err(Error::invalid("the path of a file is needed"));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|e| io(folder, e))?;
        }
        let file = WholeFile::create(path).map_err(|e| io(path, e))?;
        let mut out = Output { path, file: std::io::BufWriter::new(file), at: 0 };
        out.write(&[0; hdf5::SUPERBLOCK as usize])?;
        Ok(out)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| io(self.path, e))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes the chunks of an array, shard by shard.
    fn lay(
        &mut self,
        run: &Run<'_>,
        target: &Target,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(Laid, convert::Tally)> {
        let array = &target.array;
        let doing = |e: Error| e.while_doing(format!("variable \"{}\"", array.variable));
        let mut tally = convert::Tally::default();
        if !document::is_sharded(array) {
            let mut value = Vec::new();
            let reading = run.container.leaf_reading(&array.variable, array.leaf)?;
            let cell = Box { lo: Vec::new(), hi: Vec::new() };
            if has_texts(array) {
                let texts = texts::read(&reading, array, &cell).map_err(doing)?;
                return Ok((Laid::Value(self.refer(texts.iter().map(Vec::as_slice))?), tally));
            }
            read(array, &reading, &cell, &mut value).map_err(doing)?;
            return Ok((Laid::Value(value), tally));
        }
        let prepared = run.prepare(target)?;
        if has_texts(array) {
            return self.lay_texts(target, &prepared, progress).map_err(doing);
        }
        let mut buffers = convert::Buffers::default();
        let mut laid = Vec::new();
        for (&shard, &fingerprint) in &target.changes.shards {
            let cells = target.grid.cells_of(shard);
            let chunks = match copied(run, target, shard, fingerprint)? {
                Some(chunks) => {
                    tally.kept += 1;
                    chunks
                }
                None => {
                    tally.written += 1;
                    let chunks = encode(target, &prepared, shard, &mut buffers).map_err(doing)?.chunks;
                    tally.copied += buffers.take_copied();
                    chunks
                }
            };
            for &number in prepared.order() {
                let Some(chunk) = chunks.get(number as usize).and_then(Option::as_deref) else { continue };
                // The checksum at the end belongs to Zarr only.
                let Some((body, _)) = chunk.split_last_chunk::<4>() else { continue };
                let mut offset = offset_of(&target.grid, array.file_tail().len(), number.into());
                offset.iter_mut().zip(&cells.lo).for_each(|(o, lo)| *o += lo);
                laid.push(Chunk { offset, address: self.at, len: body.len() as u64 });
                self.write(body)?;
                tally.stored += body.len() as u64;
            }
            if !progress(cells.cells().saturating_mul(array.item)) {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by its caller"));
            }
        }
        Ok((Laid::Chunks(laid), tally))
    }

    /// Writes the texts of an array chunk by chunk: the texts into a heap, then the chunk of references.
    fn lay_texts(
        &mut self,
        target: &Target,
        prepared: &convert::Prepared,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(Laid, convert::Tally)> {
        let (array, grid) = (&target.array, &target.grid);
        let mut tally = convert::Tally::default();
        let mut laid = Vec::new();
        let each = array.element.tail.iter().product::<u64>().max(1) as usize;
        for &shard in target.changes.shards.keys() {
            tally.written += 1;
            for &number in prepared.order() {
                let cells = grid.chunk_of(shard, number.into());
                if cells.is_empty() {
                    continue;
                }
                let texts = texts::read(prepared.reading(), array, &cells)?;
                if texts.iter().all(Vec::is_empty) {
                    continue;
                }
                let counts = cells.counts();
                let inside = |number| texts::inside(number, &counts, &grid.chunk);
                let many = grid.chunk.iter().product::<u64>();
                let all = (0..many).flat_map(|number| {
                    let first = inside(number).map(|at| at * each);
                    (0..each).map(move |n| first.map(|first| first + n))
                });
                let text = |at: usize| texts.get(at).map_or(&[][..], Vec::as_slice);
                let chunk = self.refer(all.map(|at| at.map_or(&[][..], text)))?;
                let mut offset = cells.lo.clone();
                offset.resize(offset.len() + array.element.tail.len(), 0);
                laid.push(Chunk { offset, address: self.at, len: chunk.len() as u64 });
                self.write(&chunk)?;
                tally.stored += chunk.len() as u64;
            }
            if !progress(grid.cells_of(shard).cells().saturating_mul(array.item)) {
                return Err(Error::new(ErrorKind::Cancelled, "stopped by its caller"));
            }
        }
        Ok((Laid::Chunks(laid), tally))
    }

    /// Writes texts into a heap. Returns the references.
    fn refer<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) -> Result<Vec<u8>> {
        self.write(&vec![0; (hdf5::padded(self.at) - self.at) as usize])?;
        let mut heap = hdf5::Heap::at(self.at);
        let mut out = Vec::new();
        for text in texts {
            let len =
                u32::try_from(text.len()).map_err(|_| Error::unsupported("a string of 4 GiB or more"))?;
            out.extend_from_slice(&heap.put(len, text));
        }
        self.write(&heap.bytes())?;
        Ok(out)
    }

    /// Writes the metadata, and renames the file.
    fn finish(mut self, file: &File) -> Result<()> {
        let begin = hdf5::padded(self.at);
        self.write(&vec![0; (begin - self.at) as usize])?;
        let metadata = file.metadata(begin)?;
        self.write(&metadata.bytes)?;
        let superblock = hdf5::superblock(0, metadata.root, self.at);
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&superblock));
        let flushed = written.and_then(|()| self.file.into_inner().map_err(|e| e.into_error()));
        flushed.and_then(|file| file.finish(true)).map_err(|e| io(self.path, e))?;
        Ok(())
    }
}

/// The published chunks of a shard, if they are up to date. Each ends with its checksum, which was verified.
fn copied(
    run: &Run<'_>,
    target: &Target,
    shard: u64,
    fingerprint: u128,
) -> Result<Option<Vec<Option<Vec<u8>>>>> {
    let key = target.key(shard);
    let stamp = stamp_of(run.store, &key, target.stamp_at())?;
    if stamp.is_none_or(|s| s.fingerprint != fingerprint) {
        return Ok(None);
    }
    let object = run.store.read_all(&key, MOST_SHARD)?;
    let many = target.grid.chunks().iter().product::<u64>() as usize;
    let mut chunks = Vec::with_capacity(many);
    for entry in object.chunks_exact(16).take(many) {
        let (offset, len) = entry.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let (offset, len) = (number(offset), number(len));
        if offset == u64::MAX {
            chunks.push(None);
            continue;
        }
        let end = offset.checked_add(len).map(|end| end as usize);
        let bytes = end.and_then(|end| object.get(offset as usize..end));
        let sound = bytes.and_then(|b| b.split_last_chunk::<4>());
        match sound.filter(|(body, check)| crc32(body).to_le_bytes() == **check) {
            Some(_) => chunks.push(bytes.map(<[u8]>::to_vec)),
            // The shard is damaged, or was just replaced; its chunks are encoded again.
            None => return Ok(None),
        }
    }
    Ok((chunks.len() == many).then_some(chunks))
}

/// Whether the file stores texts of any length for this array. UTF-32 texts become such texts, since netCDF supports
/// them.
fn has_texts(array: &Array) -> bool {
    array.element.is_text() || array.element.is_utf32()
}

/// The array's extents in the file.
fn shape_of(array: &Array, cells: &[u64]) -> Vec<u64> {
    if has_texts(array) { array.with_tail(cells) } else { array.file_shape(cells) }
}

/// A dimension of the file and the datasets that use it.
struct Dimension {
    id: Id,
    length: u64,
    users: Vec<(Id, u32)>,
}

/// Groups, dimensions and datasets of the file.
fn structure(container: &Container, nodes: &Nodes, targets: &[Target], laid: Vec<Laid>) -> Result<File> {
    let snapshot = container.snapshot();
    let mut file = File::new();
    let mut groups: BTreeMap<&str, Id> = BTreeMap::new();
    let used: BTreeSet<&str> = targets.iter().flat_map(|t| ancestors(&t.array.node)).collect();
    for node in nodes.groups.keys() {
        if node.is_empty() {
            groups.insert("", file.root());
        } else if used.contains(node.as_str()) || targets.len() == nodes.arrays.len() {
            let (above, name) = node.rsplit_once('/').unwrap_or(("", node));
            let inside = groups.get(above).copied().unwrap_or_else(|| file.root());
            groups.insert(node, file.group(inside, name));
        }
        if let (Some(&id), Some(attrs)) = (groups.get(node.as_str()), snapshot.schema.groups.get(node)) {
            for (name, value) in typed(attrs, None) {
                file.attribute(id, &name, value);
            }
        }
    }
    // Dimensions by group and name.
    let mut dimensions: BTreeMap<(&str, String), Dimension> = BTreeMap::new();
    let mut taken: BTreeSet<(&str, String)> = BTreeSet::new();
    let mut datasets: Vec<Option<Id>> = Vec::new();
    let place = |target: &Target| -> (&str, String) {
        let node = target.array.node.as_str();
        let at = node.rfind('/').unwrap_or(0);
        // The key in `groups` lives as long as the map.
        let above = nodes.groups.get_key_value(&node[..at]).map_or("", |(key, _)| key.as_str());
        (above, node[at..].trim_start_matches('/').to_owned())
    };
    for (target, laid) in targets.iter().zip(laid) {
        let (above, name) = place(target);
        taken.insert((above, name.clone()));
        let group = groups.get(above).copied().unwrap_or_else(|| file.root());
        let array = &target.array;
        let (texts, size) = (has_texts(array), array.element.scalar.size() as usize);
        let datatype = match texts {
            true => hdf5::Datatype::AnyText,
            false if said::is_characters(array) => hdf5::Datatype::Text(1),
            false => datatype_once(&mut file, &mut taken, &mut groups, array.element.scalar),
        };
        let fill = array.missing.get(..size).filter(|_| !texts).map(<[u8]>::to_vec);
        let storage = match laid {
            Laid::Value(bytes) => Storage::Inline(bytes),
            Laid::Chunks(chunks) => {
                let chunk = shape_of(array, &target.grid.chunk);
                let filters = if texts { Vec::new() } else { target.codec.filters() };
                Storage::Chunked { chunk, filters, chunks }
            }
        };
        let shape = shape_of(array, &array.shape);
        let id = file.dataset(group, &name, Dataset { datatype, shape: shape.clone(), fill, storage });
        for (name, value) in target.description.iter().flat_map(Description::attributes) {
            file.attribute(id, name, value.clone());
        }
        datasets.push(Some(id));
        // An array that is its own only axis.
        if let ([axis], [length]) = (array.dims.as_slice(), shape.as_slice())
            && *axis == name
        {
            dimensions.insert((above, name), Dimension { id, length: *length, users: Vec::new() });
        }
    }
    for (target, id) in targets.iter().zip(&datasets) {
        let (above, name) = place(target);
        let (Some(id), array) = (id, &target.array) else { continue };
        if dimensions.get(&(above, name)).is_some_and(|d| d.id == *id) {
            continue;
        }
        let mut axes = Vec::new();
        // Texts have no axis of characters, so the names end before it.
        let lengths = shape_of(array, &array.shape);
        for (axis, (name, length)) in array.file_dims().into_iter().zip(lengths).enumerate() {
            let visible = std::iter::once(above).chain(ancestors(above)).chain([""]);
            let known = visible.into_iter().find_map(|group| {
                let group = nodes.groups.get_key_value(group).map_or("", |(key, _)| key.as_str());
                let key = (group, name.clone());
                dimensions.get(&key).is_some_and(|d| d.length == length).then_some(key)
            });
            let key = match known {
                Some(key) => key,
                None => {
                    let mut key = (above, name.clone());
                    while taken.contains(&key) || dimensions.contains_key(&key) {
                        key.1.push('_');
                    }
                    let group = groups.get(above).copied().unwrap_or_else(|| file.root());
                    let id = said::dimension(&mut file, group, &key.1, length);
                    dimensions.insert(key.clone(), Dimension { id, length, users: Vec::new() });
                    key
                }
            };
            if let Some(dimension) = dimensions.get_mut(&key) {
                axes.push(vec![dimension.id]);
                dimension.users.push((*id, axis as u32));
            }
        }
        if !axes.is_empty() {
            file.attribute(*id, "DIMENSION_LIST", Attribute::Axes(axes));
        }
    }
    for (number, ((_, name), dimension)) in dimensions.iter().enumerate() {
        said::scale(&mut file, dimension.id, name, number);
        if !dimension.users.is_empty() {
            file.attribute(dimension.id, "REFERENCE_LIST", Attribute::References(dimension.users.clone()));
        }
    }
    Ok(file)
}

/// The types of complex numbers. Each has one name, in the root.
fn datatype_once<'n>(
    file: &mut File,
    taken: &mut BTreeSet<(&'n str, String)>,
    groups: &mut BTreeMap<&'n str, Id>,
    scalar: Scalar,
) -> hdf5::Datatype {
    let mark = match scalar {
        Scalar::C64 => "\0c64",
        Scalar::C128 => "\0c128",
        _ => return number_type(scalar),
    };
    if let Some(&id) = groups.get(mark) {
        return hdf5::Datatype::Named(id, scalar.size());
    }
    let root = file.root();
    let made = datatype(file, root, scalar);
    if let hdf5::Datatype::Named(id, _) = made {
        groups.insert(mark, id);
        taken.insert(("", mark.to_owned()));
    }
    made
}

/// The nodes above a node, nearest first. The root is left out.
fn ancestors(node: &str) -> impl Iterator<Item = &str> {
    let mut at = node;
    std::iter::from_fn(move || {
        at = at.rsplit_once('/')?.0;
        Some(at)
    })
}
