//! The HDF5 description of a published array: its type, its axes with coordinates, and its attributes as netCDF and
//! CF require them.
//!
//! A text in an attribute is a row of characters of fixed length, a number keeps its type, and `_FillValue` has the
//! type of the array. Every axis is a dimension scale: a coordinate variable if there is one, otherwise a dimension
//! without values. So netCDF finds names and h5py finds scales.

use drystone_format::dtype::{DType, Scalar};
use drystone_format::meaning::Meaning;
use drystone_format::schema::{Attrs, Name, Schema, Variable};
use drystone_format::value::{TypedArray, Value};
use drystone_plan::selection::Selection;

use super::attributes;
use super::attributes::DECLARED;
use super::document::Codec;
use super::meaning::{flags, times};
use super::nodes::Array;
use crate::base::array::Target as Memory;
use crate::container::Container;
use crate::published::grid::{Box, Grid, place};
use crate::{Error, Result};
use drystone_hdf5_file::{Attribute, Chunk, Dataset, Datatype, File, Id, Number, Storage};

/// Coordinates of more bytes than this are not repeated in every shard.
const MOST_COORDINATES: u64 = 4 << 20;
/// By this text netCDF recognises a dimension without a variable.
const NO_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// The description that every file of an array contains.
pub(super) struct Description {
    /// The array's name in the file.
    name: String,
    scalar: Scalar,
    /// Whether its elements are characters.
    characters: bool,
    attributes: Vec<(String, Attribute)>,
    /// Attributes of the root group.
    global: Vec<(String, Attribute)>,
    /// The fill value of one element.
    fill: Vec<u8>,
    axes: Vec<Axis>,
}

/// An axis, and the variable that gives its coordinates, if there is one.
struct Axis {
    name: String,
    coordinate: Option<Coordinate>,
}

/// The values along a whole axis.
struct Coordinate {
    scalar: Scalar,
    values: Vec<u8>,
    attributes: Vec<(String, Attribute)>,
}

impl Description {
    /// Describes an array in a pinned container.
    pub(super) fn of(container: &Container, array: &Array) -> Result<Self> {
        let snapshot = container.snapshot();
        let schema = &snapshot.schema;
        let variable = schema.resolve(&array.variable);
        let name = array.node.rsplit('/').next().unwrap_or_default().to_owned();
        let mut attributes = Vec::new();
        if let Some(variable) = variable {
            attributes = of_variable(variable, array.element.scalar, array.meaning.as_ref());
        }
        if array.dtype == "bool" {
            attributes.push(("dtype".into(), Attribute::Text("bool".into())));
        }
        let mut axes = Vec::new();
        for (number, axis) in array.file_dims().iter().enumerate() {
            let length = array.shape.get(number).copied();
            let coordinate = match length {
                Some(length) => coordinate(container, schema, array, axis, length)?,
                None => None,
            };
            axes.push(Axis { name: axis.clone(), coordinate });
        }
        let global = schema.groups.get("").map(|attrs| typed(attrs, None)).unwrap_or_default();
        let fill = array.missing.get(..array.element.scalar.size() as usize).unwrap_or_default().to_vec();
        let (scalar, characters) = (array.element.scalar, is_characters(array));
        Ok(Description { name, scalar, characters, attributes, global, fill, axes })
    }

    /// The array's attributes.
    pub(super) fn attributes(&self) -> &[(String, Attribute)] {
        &self.attributes
    }

    /// The file of a shard that contains these cells of the array.
    pub(super) fn file(
        &self,
        grid: &Grid,
        tail: &[u64],
        codec: &Codec,
        cells: &Box,
        chunks: Vec<Chunk>,
    ) -> File {
        let mut shape = cells.counts();
        shape.extend(tail);
        let mut start = cells.lo.clone();
        start.resize(shape.len(), 0);
        let chunk = [grid.chunk.as_slice(), tail].concat();
        self.stored(Storage::Chunked { chunk, filters: codec.filters(), chunks }, &shape, &start)
    }

    /// A file with the part of the array that begins at `start`; its values may be stored elsewhere.
    pub(super) fn stored(&self, storage: Storage, shape: &[u64], start: &[u64]) -> File {
        let mut file = File::new();
        let root = file.root();
        for (name, value) in &self.global {
            file.attribute(root, name, value.clone());
        }
        // An array that is its own only axis replaces the axis.
        let own = self.axes.len() == 1 && self.axes[0].name == self.name;
        let mut scales = Vec::new();
        if !own {
            for (number, axis) in self.axes.iter().enumerate() {
                scales.push(axis.scale(&mut file, root, number, start[number], shape[number]));
            }
        }
        let taken = !own && self.axes.iter().any(|axis| axis.name == self.name);
        let name = if taken { format!("_nc4_non_coord_{}", self.name) } else { self.name.clone() };
        let datatype = match self.characters {
            true => Datatype::Text(1),
            false => datatype(&mut file, root, self.scalar),
        };
        let dataset = Dataset { datatype, shape: shape.to_vec(), fill: Some(self.fill.clone()), storage };
        let id = file.dataset(root, &name, dataset);
        for (name, value) in &self.attributes {
            file.attribute(id, name, value.clone());
        }
        if own {
            scale(&mut file, id, &self.name, 0);
        } else if !scales.is_empty() {
            for (number, scale) in scales.iter().enumerate() {
                file.attribute(*scale, "REFERENCE_LIST", Attribute::References(vec![(id, number as u32)]));
            }
            file.attribute(id, "DIMENSION_LIST", Attribute::Axes(scales.iter().map(|s| vec![*s]).collect()));
        }
        if start.iter().any(|&n| n > 0) {
            // The first cell of this part in the whole array.
            let bytes = start.iter().flat_map(|n| n.to_le_bytes()).collect();
            let datatype = Datatype::Number(Number::I64);
            let value = Attribute::Values { datatype, shape: Some(vec![start.len() as u64]), bytes };
            file.attribute(id, "drystone_offset", value);
        }
        file
    }
}

impl Axis {
    fn scale(&self, file: &mut File, root: Id, number: usize, start: u64, length: u64) -> Id {
        let values = self.coordinate.as_ref().and_then(|c| {
            let size = u64::from(c.scalar.size());
            let (from, to) = (start.checked_mul(size)?, (start + length).checked_mul(size)?);
            Some((c, c.values.get(from as usize..to as usize)?.to_vec()))
        });
        let Some((coordinate, values)) = values else {
            let id = dimension(file, root, &self.name, length);
            scale(file, id, &self.name, number);
            return id;
        };
        let datatype = number_type(coordinate.scalar);
        let dataset = Dataset { datatype, shape: vec![length], fill: None, storage: Storage::Inline(values) };
        let id = file.dataset(root, &self.name, dataset);
        scale(file, id, &self.name, number);
        for (name, value) in &coordinate.attributes {
            file.attribute(id, name, value.clone());
        }
        id
    }
}

/// A dimension without a coordinate variable.
pub(super) fn dimension(file: &mut File, group: Id, name: &str, length: u64) -> Id {
    let datatype = Datatype::Number(Number::F32);
    let id = file.dataset(
        group,
        name,
        Dataset { datatype, shape: vec![length], fill: None, storage: Storage::Nothing },
    );
    file.attribute(id, "NAME", Attribute::Text(format!("{NO_VARIABLE}{length:10}\0")));
    id
}

/// Makes a dataset the scale of a dimension. Texts end with a zero, as HDF5 expects. A dataset without values already
/// has its `NAME`. `number` counts the file's dimensions.
pub(super) fn scale(file: &mut File, id: Id, name: &str, number: usize) {
    file.attribute(id, "CLASS", Attribute::Text("DIMENSION_SCALE\0".into()));
    if !file.has_attribute(id, "NAME") {
        file.attribute(id, "NAME", Attribute::Text(format!("{name}\0")));
    }
    let bytes = (number as i32).to_le_bytes().to_vec();
    let datatype = Datatype::Number(Number::I32);
    file.attribute(id, "_Netcdf4Dimid", Attribute::Values { datatype, shape: None, bytes });
}

/// The coordinate variable of an axis. It has the axis' name and one value per cell, and is the nearest one in the
/// groups above the array.
fn coordinate(
    container: &Container,
    schema: &Schema,
    array: &Array,
    axis: &str,
    length: u64,
) -> Result<Option<Coordinate>> {
    let mut group = array.variable.as_str();
    while !group.is_empty() {
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
        let path = if group.is_empty() { axis.to_owned() } else { format!("{group}/{axis}") };
        if path == array.variable {
            continue;
        }
        let Some(Name::Variable(_)) = schema.names.get(&path) else { continue };
        let Some(found) = schema.resolve(&path) else { continue };
        let Some(scalar) = serves(found, length) else { continue };
        let mut values = vec![0; (length * u64::from(scalar.size())) as usize];
        let memory = Memory::dense(&mut values, &[length], scalar.size() as usize)?;
        container.reading(&path, None)?.read(&Selection::boxed(&[0], &[length]), &memory)?;
        return Ok(Some(Coordinate {
            scalar,
            values,
            attributes: of_variable(found, scalar, found.meaning.as_ref()),
        }));
    }
    Ok(None)
}

/// The type of a variable, if it can be the coordinates of an axis of this length.
fn serves(variable: &Variable, length: u64) -> Option<Scalar> {
    let DType::Scalar(scalar) = variable.dtype else { return None };
    let plain = !matches!(scalar, Scalar::Bool | Scalar::BF16 | Scalar::F16 | Scalar::C64 | Scalar::C128);
    let fits = variable.shape.len() == 1 && variable.shape[0] == length && !variable.steps && !variable.local;
    let small = length.checked_mul(scalar.size().into()).is_some_and(|bytes| bytes <= MOST_COORDINATES);
    (plain && fits && small && length > 0).then_some(scalar)
}

/// Whether elements are characters: bytes of fixed length. Code points of UTF-32 are numbers in HDF5.
pub(super) fn is_characters(array: &Array) -> bool {
    array.element.characters().is_some() && !array.element.is_utf32()
}

/// The type of an array's elements. netCDF finds compound types only by name; these names are those that netCDF uses.
pub(super) fn datatype(file: &mut File, group: Id, scalar: Scalar) -> Datatype {
    let (name, part) = match scalar {
        Scalar::C64 => ("_PFNC_FLOAT_COMPLEX_TYPE", Number::F32),
        Scalar::C128 => ("_PFNC_DOUBLE_COMPLEX_TYPE", Number::F64),
        _ => return number_type(scalar),
    };
    let complex = Datatype::complex(part);
    let size = complex.size();
    Datatype::Named(file.datatype(group, name, complex), size)
}

/// The type of numbers. A `bool` is an unsigned byte, as CF requires, and a `bfloat16` is stored as its bits.
pub(super) fn number_type(scalar: Scalar) -> Datatype {
    Datatype::Number(match scalar {
        Scalar::I8 => Number::I8,
        Scalar::I16 => Number::I16,
        Scalar::I32 => Number::I32,
        Scalar::I64 => Number::I64,
        Scalar::Bool | Scalar::U8 => Number::U8,
        Scalar::U16 | Scalar::BF16 => Number::U16,
        Scalar::U32 => Number::U32,
        Scalar::U64 => Number::U64,
        Scalar::F16 => Number::F16,
        Scalar::F32 => Number::F32,
        Scalar::F64 => Number::F64,
        Scalar::C64 => return Datatype::complex(Number::F32),
        Scalar::C128 => return Datatype::complex(Number::F64),
    })
}

/// Attributes in the form of HDF5 and netCDF.
///
/// `of` is the variable that they describe, or `None` for those of a group. A variable of times also gets CF's
/// `units`. Numbers keep their types; values for which HDF5 has no type become JSON.
pub fn hdf5_attributes(attrs: &Attrs, of: Option<&Variable>) -> Vec<(String, Attribute)> {
    let like = match of.map(|variable| &variable.dtype) {
        Some(DType::Scalar(scalar)) => Some(*scalar),
        _ => None,
    };
    let mut all = of.and_then(|variable| variable.meaning.as_ref()).map(times).unwrap_or_default();
    all.extend(attrs.iter().map(|(name, value)| (name.clone(), value.clone())));
    typed(&all, like)
}

/// Attributes of a variable whose elements are stored as `scalar`.
fn of_variable(variable: &Variable, scalar: Scalar, meaning: Option<&Meaning>) -> Vec<(String, Attribute)> {
    let held = |name: &str, value: &Value| {
        attributes::masks_rightly(name, &attributes::json(value), &variable.dtype)
    };
    let mut attrs = Attrs::new();
    if let Some(meaning) = meaning {
        attrs.extend(times(meaning));
        attrs.extend(flags(meaning, scalar));
    }
    let own = variable.attrs.iter().filter(|(name, value)| held(name, value));
    attrs.extend(own.map(|(name, value)| (name.clone(), value.clone())));
    typed(&attrs, Some(scalar))
}

/// Attributes with their types. `like` is the element type of the array.
pub(super) fn typed(attrs: &Attrs, like: Option<Scalar>) -> Vec<(String, Attribute)> {
    let reserved = ["CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", DECLARED];
    let shown = attrs.iter().filter(|(name, _)| !reserved.contains(&name.as_str()));
    shown.filter_map(|(name, value)| Some((name.clone(), attribute(name, value, like)?))).collect()
}

fn attribute(name: &str, value: &Value, like: Option<Scalar>) -> Option<Attribute> {
    let same_type = attributes::MASKS.contains(&name);
    if same_type
        && let Some(scalar) = like
        && let Some(bytes) = attributes::as_float(value).and_then(|x| as_scalar(scalar, x, value))
    {
        return Some(Attribute::Values { datatype: number_type(scalar), shape: None, bytes });
    }
    let one = |scalar: Scalar, bytes: Vec<u8>| Attribute::Values {
        datatype: number_type(scalar),
        shape: None,
        bytes,
    };
    Some(match value {
        Value::Null => return None,
        Value::Bool(b) => one(Scalar::U8, vec![u8::from(*b)]),
        Value::Int(i) => match (i64::try_from(*i), u64::try_from(*i)) {
            (Ok(i), _) => one(Scalar::I64, i.to_le_bytes().to_vec()),
            (_, Ok(u)) => one(Scalar::U64, u.to_le_bytes().to_vec()),
            _ => Attribute::Text(i.to_string()),
        },
        Value::Float(x) => one(Scalar::F64, x.to_le_bytes().to_vec()),
        Value::Text(text) => Attribute::Text(text.clone()),
        Value::Bytes(bytes) => many(Scalar::U8, bytes.clone()),
        Value::List(items) => list(items),
        Value::Map(_) => Attribute::Text(attributes::json(value).to_string()),
        Value::Array(array) => elements(array),
    })
}

fn many(scalar: Scalar, bytes: Vec<u8>) -> Attribute {
    let count = bytes.len() as u64 / u64::from(scalar.size().max(1));
    Attribute::Values { datatype: number_type(scalar), shape: Some(vec![count]), bytes }
}

/// A number in the type of the array, if it is a value of that type.
fn as_scalar(scalar: Scalar, x: f64, value: &Value) -> Option<Vec<u8>> {
    let whole = match value {
        Value::Int(i) => *i,
        _ if x.fract() == 0.0 && x.abs() < 9e15 => x as i128,
        _ => 0,
    };
    let is_whole = matches!(value, Value::Int(_)) || (x.fract() == 0.0 && x.abs() < 9e15);
    let fits = |size: u32, signed: bool| {
        let bits = 8 * size - u32::from(signed);
        let low = if signed { -(1i128 << bits) } else { 0 };
        (is_whole && whole >= low && whole < 1i128 << bits)
            .then(|| whole.to_le_bytes()[..size as usize].to_vec())
    };
    match scalar {
        Scalar::F16 => Some(half::f16::from_f64(x).to_le_bytes().to_vec()),
        Scalar::F32 => Some((x as f32).to_le_bytes().to_vec()),
        Scalar::F64 => Some(x.to_le_bytes().to_vec()),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => fits(scalar.size(), true),
        Scalar::Bool | Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => fits(scalar.size(), false),
        Scalar::BF16 | Scalar::C64 | Scalar::C128 => None,
    }
}

/// A list of numbers or of texts as an array; a mixed list as JSON.
fn list(items: &[Value]) -> Attribute {
    let ints: Option<Vec<i64>> = items
        .iter()
        .map(|item| match item {
            Value::Int(i) => i64::try_from(*i).ok(),
            _ => None,
        })
        .collect();
    if let Some(ints) = ints.filter(|ints| !ints.is_empty()) {
        return many(Scalar::I64, ints.iter().flat_map(|i| i.to_le_bytes()).collect());
    }
    let floats: Option<Vec<f64>> = items
        .iter()
        .map(|item| match item {
            Value::Int(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        })
        .collect();
    if let Some(floats) = floats {
        return many(Scalar::F64, floats.iter().flat_map(|x| x.to_le_bytes()).collect());
    }
    let texts: Option<Vec<String>> = items
        .iter()
        .map(|item| match item {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
        .collect();
    texts.map_or_else(
        || Attribute::Text(attributes::json(&Value::List(items.to_vec())).to_string()),
        Attribute::Texts,
    )
}

/// A typed array as an attribute. netCDF accepts numbers with at most one axis, and no float16.
fn elements(array: &TypedArray) -> Attribute {
    let text = || attributes::json(&Value::Array(array.clone()));
    let (scalar, bytes) = match &array.dtype {
        DType::Scalar(Scalar::Bool) => (Scalar::U8, array.data.clone()),
        DType::Scalar(Scalar::F16) => {
            let halves = array.data.chunks_exact(2).map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32());
            (Scalar::F32, halves.flat_map(f32::to_le_bytes).collect())
        }
        DType::Scalar(Scalar::BF16) => {
            let halves = array.data.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32());
            (Scalar::F32, halves.flat_map(f32::to_le_bytes).collect())
        }
        DType::Scalar(scalar) if !matches!(scalar, Scalar::C64 | Scalar::C128) => {
            (*scalar, array.data.clone())
        }
        _ => {
            return match text() {
                serde_json::Value::String(text) => Attribute::Text(text),
                serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => {
                    Attribute::Texts(items.iter().filter_map(|t| t.as_str().map(str::to_owned)).collect())
                }
                other => Attribute::Text(other.to_string()),
            };
        }
    };
    match array.shape.is_empty() {
        true => Attribute::Values { datatype: number_type(scalar), shape: None, bytes },
        false => many(scalar, bytes),
    }
}

/// The offsets of a shard's chunks in the file's array, in row-major order of the shard's grid.
pub(super) fn offset_of(grid: &Grid, tail: usize, number: u64) -> Vec<u64> {
    let index = place(number, &grid.chunks());
    let mut offset: Vec<u64> = index.iter().zip(&grid.chunk).map(|(i, c)| i * c).collect();
    offset.resize(offset.len() + tail, 0);
    offset
}

/// Refuses arrays that HDF5 cannot hold.
pub(super) fn check(array: &Array, grid: &Grid) -> Result<()> {
    let axes = array.shape.len() + array.file_tail().len();
    let bytes = grid.chunk.iter().fold(array.item, |n, e| n.saturating_mul(*e));
    if axes > 32 {
        return Err(Error::unsupported(format!(
            "\"{}\" has {axes} axes, HDF5 has at most 32",
            array.variable
        )));
    }
    if bytes >> 32 > 0 {
        return Err(Error::unsupported(format!("the chunks of \"{}\" have 4 GiB or more", array.variable)));
    }
    Ok(())
}
