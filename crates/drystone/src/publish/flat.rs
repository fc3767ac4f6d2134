//! Arrays of a snapshot as files: each file is one array, dense in row-major order, produced when it is read.
//!
//! A `.bin` file contains only the cells. A `.npy` file has NumPy's header before them. An HDF5 file, which netCDF-4
//! can read, has a superblock before the cells and its metadata after them. A record variable is one file as a whole,
//! and one file per member.
//!
//! Invariants
//! - the same snapshot gives the same bytes each time;
//! - only the cells that meet the requested bytes are read, and a failed read is an error, never wrong bytes;
//! - the cells of `.npy` and HDF5 files begin at a multiple of 64 bytes, so that they can be mapped.

use std::collections::BTreeSet;

use drystone_format::dtype::{DType, Record, Scalar};
use drystone_format::meaning::Meaning;
use drystone_hdf5_file::{self as hdf5, Storage};
use drystone_plan::linear;
use drystone_plan::selection::Selection;

use super::hdf5::Description;
use super::nodes::{Array, Nodes};
use crate::base::array::Target;
use crate::read::Reading;
use crate::schema::derived::Derivation;
use crate::{Container, Error, Result};

/// The offset of the cells in an HDF5 file.
const HDF5_CELLS: u64 = 4096;
/// Cells of a `.npy` file begin at a multiple of this, as NumPy writes them.
const NPY_ALIGNMENT: usize = 64;

/// One array of a snapshot that can be shown as a file.
pub struct FlatArray {
    path: String,
    reading: Reading,
    /// Extents in cells, steps first.
    shape: Vec<u64>,
    /// Bytes of a cell.
    item: u64,
    /// NumPy's description of a cell's type, as in a `.npy` header.
    descr: String,
    /// The axes of a cell in a `.npy` file.
    own: Vec<u64>,
    /// The array as HDF5 shows it. `None` for whole records.
    array: Option<Array>,
    container: Container,
}

/// The bytes around the cells of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The bytes before the cells.
    pub head: Vec<u8>,
    /// The bytes after the cells.
    pub tail: Vec<u8>,
}

impl Container {
    /// The arrays of the handle's snapshot that can be shown as files, by path. Strings of any length and local
    /// variables cannot, and neither can derived variables whose inputs were deleted. A record variable is one array as
    /// a whole, and one array per member at `VARIABLE/MEMBER`.
    pub fn flat_arrays(&self) -> Result<Vec<FlatArray>> {
        let container = self.at(self.snapshot().version())?;
        let snapshot = container.snapshot();
        let nodes = Nodes::exact(&snapshot)?;
        let (mut out, mut gone) = (Vec::new(), BTreeSet::new());
        for (path, variable) in snapshot.schema.named() {
            if let Some(derived) = &variable.derived
                && Derivation::check(&snapshot.schema, path, derived).is_err()
            {
                gone.insert(path);
            }
            let record = matches!(variable.dtype, DType::Record(_)) && !gone.contains(path);
            if !record || variable.local || path.starts_with('.') || has_text(&variable.dtype) {
                continue;
            }
            let reading = container.reading(path, None)?;
            out.push(FlatArray {
                path: path.to_owned(),
                shape: reading.shape(),
                item: reading.item().into(),
                descr: descr(&variable.dtype, variable.meaning.as_ref()),
                own: Vec::new(),
                reading,
                array: None,
                container: container.clone(),
            });
        }
        for array in nodes.arrays {
            if array.element.is_text() || gone.contains(array.variable.as_str()) {
                continue;
            }
            let reading = container.leaf_reading(&array.variable, array.leaf)?;
            let leaf = snapshot.schema.resolve(&array.variable).and_then(|variable| {
                let leaf = variable.dtype.leaves().into_iter().nth(array.leaf as usize)?;
                Some(leaf.dtype)
            });
            let Some(leaf) = leaf else { continue };
            out.push(FlatArray {
                path: array.node.clone(),
                shape: array.shape.clone(),
                item: array.item,
                descr: descr(&leaf, array.meaning.as_ref()),
                own: array.element.tail.clone(),
                reading,
                array: Some(array),
                container: container.clone(),
            });
        }
        out.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(out)
    }
}

impl FlatArray {
    /// Path of the variable, followed by the member of a record.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The number of bytes of all cells.
    pub fn size(&self) -> Result<u64> {
        let size = self.shape.iter().try_fold(self.item, |n, extent| n.checked_mul(*extent));
        size.ok_or_else(|| Error::invalid(format!("\"{}\" has more than 2^64 bytes", self.path)))
    }

    /// Extents in cells, steps first.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Whether it is a whole record variable, which has no HDF5 file.
    pub fn is_record(&self) -> bool {
        self.array.is_none()
    }

    /// Whether netCDF libraries can read its HDF5 file. They know no float of 2 bytes, and crash on one.
    pub fn is_netcdf(&self) -> bool {
        self.array.as_ref().is_some_and(|array| array.element.scalar != Scalar::F16)
    }

    /// NumPy's description of the type of a cell.
    pub fn descr(&self) -> &str {
        &self.descr
    }

    /// The header of a `.npy` file, version 1 or 2 (NumPy's NEP 1).
    pub fn npy(&self) -> Frame {
        let axes: Vec<String> = self.shape.iter().chain(&self.own).map(u64::to_string).collect();
        let shape = match axes.as_slice() {
            [one] => format!("({one},)"),
            _ => format!("({})", axes.join(", ")),
        };
        let text = format!("{{'descr': {}, 'fortran_order': False, 'shape': {shape}, }}", self.descr);
        let long = text.len() + 1 + 2 * NPY_ALIGNMENT > usize::from(u16::MAX);
        let before = if long { 12 } else { 10 };
        let padded = (before + text.len() + 1).next_multiple_of(NPY_ALIGNMENT);
        let len = padded - before;
        let mut head = b"\x93NUMPY".to_vec();
        head.extend_from_slice(&[1 + u8::from(long), 0]);
        match long {
            true => head.extend_from_slice(&(len as u32).to_le_bytes()),
            false => head.extend_from_slice(&(len as u16).to_le_bytes()),
        }
        head.extend_from_slice(text.as_bytes());
        head.resize(padded - 1, b' ');
        head.push(b'\n');
        Frame { head, tail: Vec::new() }
    }

    /// The frame that makes the cells an HDF5 file, which netCDF-4 can read if [`is_netcdf`](Self::is_netcdf): the
    /// array, its attributes, its axes with their coordinates. Errors: `Unsupported` for whole records, whose members
    /// have separate files.
    pub fn hdf5(&self) -> Result<Frame> {
        let Some(array) = &self.array else {
            return Err(Error::unsupported(format!(
                "\"{}\" is a record: each of its members is a file",
                self.path
            )));
        };
        let description = Description::of(&self.container, array)?;
        let size = self.size()?;
        // A text of fixed length is one element in NumPy, and a row of characters in HDF5.
        let shape = array.file_shape(&array.shape);
        let storage = Storage::Contiguous { address: HDF5_CELLS, len: size };
        let file = description.stored(storage, &shape, &vec![0; shape.len()]);
        let end = size
            .checked_add(HDF5_CELLS)
            .ok_or_else(|| Error::invalid("the array is too large for a file"))?;
        let begin = hdf5::padded(end);
        let metadata = file.metadata(begin)?;
        let mut tail = vec![0; (begin - end) as usize];
        tail.extend_from_slice(&metadata.bytes);
        let mut head = hdf5::superblock(0, metadata.root, end + tail.len() as u64).to_vec();
        head.resize(HDF5_CELLS as usize, 0);
        Ok(Frame { head, tail })
    }

    /// Fills `out` with the bytes of the cells in row-major order, from `offset` on.
    ///
    /// Errors: `InvalidArgument` beyond the last cell, and errors of reads.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end =
            offset.checked_add(out.len() as u64).filter(|end| self.size().is_ok_and(|size| *end <= size));
        let end =
            end.ok_or_else(|| Error::invalid(format!("a range beyond the end of \"{}\"", self.path)))?;
        if out.is_empty() {
            return Ok(());
        }
        let (from, to) = (offset / self.item, end.div_ceil(self.item));
        if from * self.item == offset && to * self.item == end {
            return self.cells(from, to, out);
        }
        let len =
            usize::try_from((to - from) * self.item).map_err(|_| Error::invalid("the range is too large"))?;
        let mut whole = vec![0; len];
        self.cells(from, to, &mut whole)?;
        let skipped = (offset - from * self.item) as usize;
        if let Some(wanted) = whole.get(skipped..skipped + out.len()) {
            out.copy_from_slice(wanted);
        }
        Ok(())
    }

    fn cells(&self, from: u64, to: u64, mut out: &mut [u8]) -> Result<()> {
        for (offset, count) in linear::boxes(&self.shape, from, to) {
            let cells: u64 = count.iter().product();
            let (now, rest) = out.split_at_mut((cells * self.item) as usize);
            let memory = Target::dense(now, &count, self.item as usize)?;
            self.reading.read(&Selection::boxed(&offset, &count), &memory)?;
            out = rest;
        }
        Ok(())
    }
}

/// Whether it contains strings of any length.
fn has_text(dtype: &DType) -> bool {
    dtype.leaves().iter().any(|leaf| leaf.dtype.is_blob())
}

/// NumPy's description of a type, as a Python literal. NumPy has no bfloat16, so that is two bytes without a meaning.
fn descr(dtype: &DType, meaning: Option<&Meaning>) -> String {
    match (dtype, meaning) {
        (_, Some(Meaning::Instant(unit))) => return format!("'<M8{unit}'"),
        (_, Some(Meaning::Duration(unit))) => return format!("'<m8{unit}'"),
        _ => {}
    }
    match dtype {
        DType::Scalar(Scalar::BF16) => "'|V2'".into(),
        DType::Scalar(Scalar::Bool) => "'|b1'".into(),
        DType::Scalar(scalar) => {
            let size = scalar.size();
            let kind = match scalar {
                Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => 'i',
                Scalar::F16 | Scalar::F32 | Scalar::F64 => 'f',
                Scalar::C64 | Scalar::C128 => 'c',
                _ => 'u',
            };
            format!("'{}{kind}{size}'", if size == 1 { '|' } else { '<' })
        }
        DType::Bytes(n) => format!("'|S{n}'"),
        DType::Unicode(n) => format!("'<U{n}'"),
        DType::String | DType::Ragged(_) => "'|V16'".into(),
        DType::Record(record) => of_record(record, meaning),
    }
}

/// The members of a record in the order of their offsets. Gaps between them are members without a name, as NumPy
/// writes them.
fn of_record(record: &Record, meaning: Option<&Meaning>) -> String {
    let mut members: Vec<_> = record.members.iter().collect();
    members.sort_by_key(|member| member.offset);
    let mut parts = Vec::new();
    let mut at = 0;
    let padding = |from: u32, to: u32, parts: &mut Vec<String>| {
        if to > from {
            parts.push(format!("('', '|V{}')", to - from));
        }
    };
    for member in members {
        padding(at, member.offset, &mut parts);
        let name = python_text(&member.name);
        let meaning = meaning.and_then(|whole| whole.of_member([member.name.as_str()]));
        let descr = descr(&member.dtype, meaning);
        let many: u64 = member.shape.iter().product();
        parts.push(match member.shape.as_slice() {
            [] => format!("({name}, {descr})"),
            shape => {
                let extents: String = shape.iter().map(|n| format!("{n},")).collect();
                format!("({name}, {descr}, ({extents}))")
            }
        });
        at = member.offset + member.dtype.item_size() * many as u32;
    }
    padding(at, record.itemsize, &mut parts);
    format!("[{}]", parts.join(", "))
}

/// A text as an ASCII Python literal, since headers of version 1 are Latin-1.
fn python_text(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('\'');
    out
}
