//! Rules between ad-hoc layouts: boxes of n-D arrays, with strides and record members.
//!
//! Invariant: a rule runs only on buffers that are dense, long enough and disjoint.

use std::collections::BTreeMap;

use drystone::format::dtype::DType;
use drystone_rules::{Axis, Block, Dtype, IndexMap, MemoryLayout, Narrowing, Order, Rule, Step, View};
use numpy::npyffi::flags::{NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_F_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::dtype;
use crate::error::{Result, invalid};

/// One box of an array.
#[derive(Clone)]
struct Part {
    shape: Vec<u64>,
    start: Vec<i64>,
    strides: Vec<i64>,
    offset: u64,
    field: Vec<String>,
    dtype: DType,
    big_endian: bool,
}

/// Boxes of one abstract array in a piece of memory.
#[pyclass(frozen, name = "LayoutHandle", module = "drystone._core")]
pub(crate) struct LayoutHandle {
    parts: Vec<Part>,
    len: u64,
}

/// A compiled conversion.
#[pyclass(frozen, eq, hash, name = "RuleHandle", module = "drystone._core")]
#[derive(PartialEq, Hash)]
pub(crate) struct RuleHandle {
    rule: Rule,
}

/// The shape of the abstract array: the smallest that contains all boxes.
const EXTENT: u64 = 1 << 60;

fn refused(error: impl std::fmt::Display) -> crate::error::Failure {
    invalid(error.to_string())
}

/// Numbers for member names, the same on both sides of a rule.
#[derive(Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    fn id(&mut self, name: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(name.to_string()).or_insert(next)
    }

    fn block(&mut self, dtype: &DType, big_endian: bool) -> Block {
        match dtype {
            DType::Record(record) => {
                let mut members = Vec::new();
                for member in &record.members {
                    let mut block = self.block(&member.dtype, big_endian);
                    if !member.shape.is_empty() {
                        block = block.array(member.shape.clone(), Order::Row);
                    }
                    members.push((self.id(&member.name), u64::from(member.offset), block));
                }
                Block::record(record.itemsize.into(), members)
            }
            DType::Scalar(scalar) => match drystone::rule_kind(*scalar) {
                Some(kind) => Block::number(Dtype { kind, big_endian }),
                None => Block::opaque(scalar.size().into()),
            },
            other => Block::opaque(other.item_size().into()),
        }
    }

    fn fragment(&mut self, layout: &LayoutHandle) -> Result<MemoryLayout> {
        let mut views = Vec::with_capacity(layout.parts.len());
        for part in &layout.parts {
            let axis =
                |(n, start): (usize, &i64)| Axis { extent: EXTENT, map: IndexMap::affine(n, 1, *start) };
            let mut path = vec![Step::Index(part.start.iter().enumerate().map(axis).collect())];
            path.extend(part.field.iter().map(|name| Step::Member(self.id(name))));
            let element = self.block(&part.dtype, part.big_endian);
            let block = element.array(part.shape.clone(), Order::Strides(part.strides.clone()));
            views.push(View { var: 0, offset: part.offset, path, block });
        }
        MemoryLayout::new(views, layout.len).map_err(refused)
    }
}

#[pymethods]
impl LayoutHandle {
    #[new]
    fn new(
        shape: Vec<u64>,
        descr: &Bound<'_, PyAny>,
        strides: Vec<i64>,
        start: Vec<i64>,
        offset: u64,
        field: Vec<String>,
        big_endian: bool,
    ) -> Result<Self> {
        let dtype = dtype::parse(descr)?.dtype;
        if dtype.has_blobs() {
            return Err(invalid("values of any length have no layout"));
        }
        if strides.len() != shape.len() || start.len() != shape.len() {
            return Err(invalid("shape, strides and start have the same number of entries"));
        }
        let too_large = || invalid("the layout is larger than 2^63 bytes");
        let mut len = u64::from(dtype.item_size());
        for (n, stride) in shape.iter().zip(&strides) {
            let reach = stride.unsigned_abs().checked_mul(n.saturating_sub(1)).ok_or_else(too_large)?;
            len = len.checked_add(reach).ok_or_else(too_large)?;
        }
        let len = if shape.contains(&0) { 0 } else { len };
        let len = len.checked_add(offset).filter(|n| i64::try_from(*n).is_ok()).ok_or_else(too_large)?;
        let layout = LayoutHandle {
            parts: vec![Part { shape, start, strides, offset, field, dtype, big_endian }],
            len,
        };
        Names::default().fragment(&layout)?;
        Ok(layout)
    }

    /// Both layouts in one memory.
    fn join(&self, other: &Self) -> Self {
        let parts = self.parts.iter().chain(&other.parts).cloned().collect();
        LayoutHandle { parts, len: self.len.max(other.len) }
    }

    /// Bytes from the beginning of the memory to the end of the last box.
    #[getter]
    fn size(&self) -> u64 {
        self.len
    }
}

#[pymethods]
impl RuleHandle {
    #[staticmethod]
    fn compile(py: Python<'_>, src: &LayoutHandle, dst: &LayoutHandle, narrowing: &str) -> Result<Self> {
        let narrowing = match narrowing {
            "refuse" => Narrowing::Refuse,
            "saturate" => Narrowing::Saturate,
            "wrap" => Narrowing::Wrap,
            _ => {
                return Err(invalid(format!(
                    "narrowing is \"refuse\", \"saturate\" or \"wrap\", not \"{narrowing}\""
                )));
            }
        };
        let mut names = Names::default();
        let (src, dst) = (names.fragment(src)?, names.fragment(dst)?);
        Ok(RuleHandle { rule: py.detach(|| Rule::compile(&src, &dst, narrowing)).map_err(refused)? })
    }

    #[staticmethod]
    fn decode(data: &[u8], src_len: u64, dst_len: u64) -> Result<Self> {
        Ok(RuleHandle { rule: Rule::decode(data, src_len, dst_len).map_err(refused)? })
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.rule.encode())
    }

    #[getter]
    fn src_len(&self) -> u64 {
        self.rule.src_len()
    }

    #[getter]
    fn dst_len(&self) -> u64 {
        self.rule.dst_len()
    }

    #[getter]
    fn moved(&self) -> u64 {
        self.rule.bytes()
    }

    fn apply(&self, py: Python<'_>, src: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> Result<()> {
        let ((from, from_len, _), (to, to_len, writable)) = (memory(src, "src")?, memory(out, "out")?);
        if !writable {
            return Err(invalid("out is read-only"));
        }
        let (a, b) = (from as usize, to as usize);
        if from_len > 0 && to_len > 0 && a < b + to_len && b < a + from_len {
            return Err(invalid("src and out share memory"));
        }
        // SAFETY: both are live, dense and (out) writable arrays of these lengths, disjoint (all checked), and
        // referenced until this returns. The contract of apply() is that no other thread writes them meanwhile.
        let (src, dst) = unsafe {
            let src = if from_len == 0 { &[][..] } else { std::slice::from_raw_parts(from, from_len) };
            let dst = if to_len == 0 { &mut [][..] } else { std::slice::from_raw_parts_mut(to, to_len) };
            (src, dst)
        };
        let ran = match to_len < WORTH_A_SWITCH {
            true => self.rule.run(src, dst),
            false => py.detach(|| self.rule.run(src, dst)),
        };
        ran.map_err(refused)
    }

    /// A hash of sixteen bytes; equal rules have the same, in every process.
    fn content_hash<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.rule.content_hash())
    }

    fn __str__(&self) -> String {
        self.rule.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<drystone rule: {}>", self.rule)
    }
}

/// Smallest fill, in bytes, that releases the interpreter lock. Less takes tens of microseconds.
const WORTH_A_SWITCH: usize = 1 << 20;

/// The first byte of an array that is dense in either order, its length in bytes, and whether it is writable.
fn memory(array: &Bound<'_, PyAny>, what: &str) -> Result<(*mut u8, usize, bool)> {
    let Ok(array) = array.cast::<PyUntypedArray>() else {
        let other = array.get_type().name()?;
        return Err(invalid(format!("{what} is a NumPy array, not a {other}")));
    };
    let object = array.as_array_ptr();
    // SAFETY: `array` is a live ndarray, so the pointer and the fields behind it are valid.
    let (data, flags) = unsafe { ((*object).fields.data.cast::<u8>(), (*object).fields.flags) };
    if flags & (NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS) == 0 {
        return Err(invalid(format!("{what} is dense memory, row by row; give the array it is a view of")));
    }
    let dtype = array.dtype();
    if dtype.has_object() {
        return Err(invalid(format!("{what} holds Python objects, which are more than their bytes")));
    }
    let len = array.shape().iter().product::<usize>() * dtype.itemsize(); // a live array fits into memory
    Ok((data, len, flags & NPY_ARRAY_WRITEABLE != 0))
}
