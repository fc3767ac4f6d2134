//! A container that HDF5 programs did not write, as an HDF5 file for reading.
//!
//! Variables are datasets, and groups, links and attributes are what they are in the container. Steps are the first
//! axis, which is unlimited. The values of derived variables are computed when they are read. Local variables, whose
//! blocks are not one array, and types that HDF5 does not have are left out.
//!
//! Invariant: an object keeps its number as long as its path leads to an object of the same kind, so open
//! handles refer to the refreshed objects.

use std::collections::BTreeMap;

use drystone::format::dtype::DType;
use drystone::format::schema::{Attrs, Name, Schema, Variable};
use drystone::plan::selection::Selection;
use drystone::{Container, Reading, hdf5_attributes};
use drystone_hdf5_file::Attribute as Value;

use crate::file::heap::{CATALOGUE, Heap};
use crate::library::failure::{Failure, Result};
use crate::model::native_type::{self, VARIABLE};
use crate::model::tree::{
    Attribute, Body, Dataset, Group, Id, Object, Properties, ROOT, Space, Target, Times, Tree,
};

/// Layout of a dataset (`H5D_layout_t`).
const CONTIGUOUS: u8 = 1;
const CHUNKED: u8 = 2;

/// Whether a container was filled without HDF5. An empty one is the file of a program that was killed before
/// its first flush.
pub(super) fn is_native(schema: &Schema) -> bool {
    schema.resolve(CATALOGUE).is_none()
        && (!schema.variables.is_empty() || schema.groups.keys().any(|path| !path.is_empty()))
}

/// The objects of a container, with the numbers that they had `before`, and the texts of their attributes.
pub(super) fn content(container: &Container, before: Option<&Tree>) -> (Tree, Heap) {
    let mut texts = Vec::new();
    let tree = tree(container, before, &mut texts);
    (tree, Heap::of_attributes(texts))
}

fn tree(container: &Container, before: Option<&Tree>, texts: &mut Vec<u8>) -> Tree {
    let schema = container.schema();
    let known = before.map(paths).unwrap_or_default();
    let mut tree = Tree::new(0, 0);
    tree.next = before.map_or(tree.next, |before| before.next);
    for path in schema.groups.keys().filter(|path| is_shown(path)) {
        group(&mut tree, &known, path);
    }
    for (path, attrs) in schema.groups.iter().filter(|(path, _)| is_shown(path)) {
        let id = group(&mut tree, &known, path);
        if let Some(object) = tree.objects.get_mut(&id) {
            put_attributes(object, texts, attrs, None);
        }
    }
    for (path, name) in schema.names.iter().filter(|(path, _)| is_shown(path)) {
        let (above, own) = path.rsplit_once('/').unwrap_or(("", path));
        match name {
            Name::Link(target) => {
                let above = group(&mut tree, &known, above);
                tree.link(above, own.as_bytes(), 1, Target::Soft(format!("/{target}").into_bytes()));
            }
            Name::Variable(id) => {
                let Some(variable) = schema.variables.get(id) else { continue };
                let Some(dataset) = dataset(container, path, variable) else { continue };
                let mut object = Object::new(Body::Dataset(Box::new(dataset)), Times::now(false));
                put_attributes(&mut object, texts, &variable.attrs, Some(variable));
                let above = group(&mut tree, &known, above);
                let id = add(&mut tree, known.get(&(path.clone(), false)).copied(), object);
                tree.link(above, own.as_bytes(), 1, Target::Hard(id));
            }
        }
    }
    tree
}

/// The names that begin with a point belong to the connector and to Zarr stores.
fn is_shown(path: &str) -> bool {
    !path.split('/').any(|name| name.starts_with('.'))
}

/// The numbers of objects by path, and whether they are groups.
fn paths(tree: &Tree) -> BTreeMap<(String, bool), Id> {
    let mut found = BTreeMap::new();
    let mut look = vec![(String::new(), ROOT)];
    while let Some((path, id)) = look.pop() {
        let group = tree.group(id);
        for (name, link) in group.map(|group| group.links.iter()).into_iter().flatten() {
            let (Target::Hard(id), Ok(name)) = (&link.target, std::str::from_utf8(name)) else { continue };
            look.push((if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }, *id));
        }
        found.insert((path, group.is_some()), id);
    }
    found
}

fn add(tree: &mut Tree, known: Option<Id>, object: Object) -> Id {
    match known {
        Some(id) => {
            tree.objects.insert(id, object);
            id
        }
        None => tree.add(object),
    }
}

/// The group at a path, created with its parents.
fn group(tree: &mut Tree, known: &BTreeMap<(String, bool), Id>, path: &str) -> Id {
    let mut at = ROOT;
    for (end, _) in path.match_indices('/').chain([(path.len(), "")]).filter(|(end, _)| *end > 0) {
        let name = path[..end].rsplit('/').next().unwrap_or_default().as_bytes();
        let there = tree.group(at).and_then(|group| group.links.get(name)).map(|link| link.target.clone());
        at = match there {
            Some(Target::Hard(id)) => id,
            _ => {
                let object = Object::new(Body::Group(Group::default()), Times::now(false));
                let id = add(tree, known.get(&(path[..end].to_owned(), true)).copied(), object);
                tree.link(at, name, 1, Target::Hard(id));
                id
            }
        };
    }
    at
}

/// A variable as a dataset; `None` if HDF5 cannot show it.
fn dataset(container: &Container, path: &str, variable: &Variable) -> Option<Dataset> {
    if variable.local {
        return None;
    }
    let dtype = native_type::stored(&variable.dtype, variable.meaning.as_ref())?;
    let steps = u64::from(variable.steps);
    // The inputs of a derived variable determine its shape. If one was deleted, the error comes when it is read.
    let now = container.reading(path, None).map(|reading| reading.shape().to_vec());
    let dims = now.unwrap_or_else(|_| {
        let axis = container.snapshot().step_axis();
        (0..steps).map(|_| axis).chain(variable.shape.iter().copied()).collect()
    });
    let grows = |axis: usize| match axis.checked_sub(steps as usize) {
        None => true,
        Some(axis) => variable.growable.get(axis).copied().unwrap_or(false),
    };
    let max: Vec<u64> = dims.iter().enumerate().map(|(i, n)| if grows(i) { u64::MAX } else { *n }).collect();
    let mut properties = Properties {
        layout: CONTIGUOUS,
        fill_defined: 1,
        fill_time: 2,
        alloc_time: 2,
        ..Properties::default()
    };
    if max.contains(&u64::MAX) {
        let own = variable.chunks.as_ref().filter(|chunks| chunks.len() == variable.shape.len());
        let cells = own.unwrap_or(&variable.shape).iter().map(|n| (*n).clamp(1, u64::from(u32::MAX)));
        properties.layout = CHUNKED;
        properties.chunk = (0..steps).map(|_| 1).chain(cells).collect();
    }
    Some(Dataset {
        fill: variable.fill.clone().filter(|fill| fill.len() == dtype.size as usize),
        dtype,
        high: dims.clone(),
        space: if dims.is_empty() { Space::Scalar } else { Space::Simple(dims, max) },
        properties,
        variable: Some((variable.id, variable.uid)),
    })
}

fn put_attributes(object: &mut Object, texts: &mut Vec<u8>, attrs: &Attrs, of: Option<&Variable>) {
    for (name, value) in hdf5_attributes(attrs, of) {
        if let Some(attribute) = attribute(value, texts) {
            object.put_attribute(name.as_bytes(), attribute);
        }
    }
}

/// Values as they are stored in an attribute.
fn attribute(value: Value, kept: &mut Vec<u8>) -> Option<Attribute> {
    let mut texts = |all: &[String]| -> Option<Vec<u8>> {
        let mut data = Vec::new();
        for text in all {
            data.extend(element(kept, 0, text.as_bytes(), 1)?);
        }
        Some(data)
    };
    let line = |n: u64| Space::Simple(vec![n], vec![n]);
    let (dtype, space, data) = match value {
        Value::Values { datatype, shape, bytes } => {
            let space = shape.map_or(Space::Scalar, |shape| Space::Simple(shape.clone(), shape));
            (native_type::plain(&datatype)?, space, bytes)
        }
        Value::Text(text) => (native_type::stored(&DType::String, None)?, Space::Scalar, texts(&[text])?),
        Value::Texts(all) => {
            (native_type::stored(&DType::String, None)?, line(all.len() as u64), texts(&all)?)
        }
        Value::Axes(_) | Value::References(_) => return None,
    };
    let expected = space.points()?.checked_mul(u64::from(dtype.size))?;
    (data.len() as u64 == expected).then_some(Attribute { order: 0, cset: 1, dtype, space, data })
}

/// Appends the bytes of an element of variable length to `kept`, whose first byte has the offset `first`.
/// Returns the element as stored: its number of items, and their offset. `None` if there are too many items.
fn element(kept: &mut Vec<u8>, first: u64, bytes: &[u8], item: usize) -> Option<[u8; VARIABLE as usize]> {
    let mut out = [0; VARIABLE as usize];
    let count = u32::try_from(bytes.len() / item).ok()?;
    if count > 0 {
        let at = first + kept.len() as u64;
        kept.extend_from_slice(bytes);
        out[..4].copy_from_slice(&count.to_le_bytes());
        out[4..12].copy_from_slice(&at.to_le_bytes());
        out[12..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    }
    Some(out)
}

/// Reads texts, lists, or records with such members: their bytes go to the heap in memory; `out` gets lengths and
/// offsets in their places.
pub(super) fn read_variable_length(
    heap: &mut Heap,
    reading: &Reading,
    first: &[u64],
    count: &[u64],
    out: &mut [u8],
) -> Result<()> {
    let wanted = Selection::boxed(first, count);
    let DType::Record(_) = &reading.variable().dtype else {
        return read_texts(heap, reading, &wanted, out);
    };
    let (records, _) = reading.read_records(&wanted)?;
    let moves = moves(&reading.variable().dtype)
        .ok_or_else(|| Failure::unsupported("a record whose elements are too large for HDF5"))?;
    let item = reading.item() as usize;
    let size = moves.last().map_or(0, |last| last.to + last.size());
    let cells = records.cells.chunks_exact(item.max(1));
    if size == 0 || out.len() != cells.len() * size {
        return Err(another_size());
    }
    for (number, (cell, out)) in cells.zip(out.chunks_exact_mut(size)).enumerate() {
        for part in &moves {
            let to = &mut out[part.to..part.to + part.size()];
            match &part.values {
                None => {
                    to.copy_from_slice(cell.get(part.from..part.from + part.len).ok_or_else(another_size)?)
                }
                Some(Values { leaf, item }) => {
                    let own = records
                        .values
                        .get(*leaf)
                        .and_then(|v| v.get(number * part.len..))
                        .unwrap_or_default();
                    if own.len() < part.len {
                        return Err(another_size());
                    }
                    for (to, bytes) in to.chunks_exact_mut(VARIABLE as usize).zip(own) {
                        to.copy_from_slice(&kept_element(heap, bytes, *item)?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// A leaf member of a record: where the engine has it, and where HDF5 does.
struct Move {
    from: usize,
    to: usize,
    /// Bytes of a member of fixed size; the number of values of another.
    len: usize,
    values: Option<Values>,
}

/// Values of any length.
struct Values {
    /// The number of the member among those of any length.
    leaf: usize,
    /// Bytes of an item of a value.
    item: usize,
}

impl Move {
    /// Bytes of the member in HDF5's element.
    fn size(&self) -> usize {
        if self.values.is_some() { self.len * VARIABLE as usize } else { self.len }
    }
}

/// The leaf members of a record, in the order of their places. `None` if an element is too large for HDF5.
fn moves(dtype: &DType) -> Option<Vec<Move>> {
    let mut leaf = 0;
    let mut found = Vec::new();
    for member in dtype.leaves() {
        let values = member.dtype.is_blob().then(|| Values { leaf, item: item_of(&member.dtype) });
        leaf += usize::from(values.is_some());
        let len = if values.is_some() { member.repeat as usize } else { member.size as usize };
        found.push((member.offset, Move { from: member.offset as usize, to: 0, len, values }));
    }
    found.sort_by_key(|(offset, _)| *offset);
    let mut many = 0;
    for (offset, part) in &mut found {
        part.to = native_type::stored_offset(*offset, many)? as usize;
        many += if part.values.is_some() { part.len as u64 } else { 0 };
    }
    Some(found.into_iter().map(|(_, part)| part).collect())
}

fn another_size() -> Failure {
    Failure::damaged("elements of variable length have another size than their type")
}

/// Bytes of an item of a text or list.
fn item_of(dtype: &DType) -> usize {
    match dtype {
        DType::Ragged(scalar) => scalar.size() as usize,
        _ => 1,
    }
}

/// A value as stored; its bytes go to the heap in memory.
fn kept_element(heap: &mut Heap, bytes: &[u8], item: usize) -> Result<[u8; VARIABLE as usize]> {
    element(&mut heap.pending, heap.stored, bytes, item)
        .ok_or_else(|| Failure::range("a value of 4 GiB or more"))
}

fn read_texts(heap: &mut Heap, reading: &Reading, wanted: &Selection, out: &mut [u8]) -> Result<()> {
    let (cells, _) = reading.read_strings(wanted)?;
    if out.len() != cells.len() * VARIABLE as usize {
        return Err(another_size());
    }
    let item = item_of(&reading.variable().dtype);
    for (out, bytes) in out.chunks_exact_mut(VARIABLE as usize).zip(&cells) {
        out.copy_from_slice(&kept_element(heap, bytes, item)?);
    }
    Ok(())
}
