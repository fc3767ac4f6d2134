//! Rules between boxes of arrays in memory: compiled, applied, encoded for other processes, and decoded.
//!
//! Invariant: a rule runs only on two memories that are long enough and disjoint.

use std::ffi::c_char;

use drystone_rules::{Axis, Block, Dtype, IndexMap, MemoryLayout, Narrowing, Order, Rule, Step, View};

use crate::argument::{
    bytes, bytes_mut, give, give_list, give_text, handle_place, list, optional_list, versioned,
};
use crate::dtype::{Type, scalar};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::memory::{extents, span};

/// The handle of a rule.
#[repr(C)]
pub(crate) struct dry_rule {
    _private: [u8; 0],
}

impl Handled for Rule {
    type Opaque = dry_rule;
    const KIND: u64 = 5;
}

/// A box of an array, and its layout in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_layout {
    type_: Type,
    ndim: u32,
    start: *const i64,
    shape: *const u64,
    strides: *const i64,
    offset: u64,
}

/// The properties of a rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_rule_info {
    struct_size: u32,
    reserved: u32,
    src_size: u64,
    dst_size: u64,
    moved: u64,
    hash: [u8; 16],
}

versioned!(dry_rule_info, 48);

/// The extents of the abstract array: large enough for both boxes.
const EXTENT: u64 = 1 << 60;

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::invalid(error.to_string())
}

fn element(type_: Type) -> Result<Block> {
    let scalar = scalar(type_)
        .ok_or_else(|| Failure::invalid(format!("{type_} is not a type of a number (dry_type)")))?;
    Ok(match drystone::rule_kind(scalar) {
        Some(kind) => Block::number(Dtype { kind, big_endian: cfg!(target_endian = "big") }),
        None => Block::opaque(scalar.size().into()),
    })
}

unsafe fn fragment(given: *const dry_layout, count: usize, what: &str) -> Result<MemoryLayout> {
    // SAFETY: guaranteed by the caller: `count` layouts.
    let given = unsafe { list(given, count, what)? };
    let (mut views, mut end) = (Vec::with_capacity(given.len()), 0u64);
    for layout in given {
        let element = element(layout.type_)?;
        let item = element.bytes().map_err(refused)?;
        // SAFETY: guaranteed by the caller: an entry per dimension, or NULL for start and strides.
        let (shape, start, strides) = unsafe {
            let shape = extents(layout.shape, layout.ndim, "the shape of a layout")?;
            let start = optional_list(layout.start, shape.len(), "the start of a layout")?;
            (shape, start, optional_list(layout.strides, shape.len(), "the strides of a layout")?)
        };
        let order = match strides {
            Some(strides) => {
                if strides.iter().any(|s| *s < 0) {
                    return Err(Failure::unsupported("the strides of a layout are not negative"));
                }
                let span = span(shape, strides, item)?;
                end = end
                    .max(layout.offset.checked_add(span).ok_or_else(|| refused("the layout is too large"))?);
                Order::Strides(strides.to_vec())
            }
            None => {
                let dense = shape.iter().try_fold(item, |size, n| size.checked_mul(*n));
                let dense = dense.and_then(|size| layout.offset.checked_add(size));
                end = end.max(dense.ok_or_else(|| refused("the layout is too large"))?);
                Order::Row
            }
        };
        let axis = |n: usize| {
            let from = start.and_then(|start| start.get(n)).copied().unwrap_or(0);
            Axis { extent: EXTENT, map: IndexMap::affine(n, 1, from) }
        };
        let path = vec![Step::Index((0..shape.len()).map(axis).collect())];
        views.push(View { var: 0, offset: layout.offset, path, block: element.array(shape.to_vec(), order) });
    }
    MemoryLayout::new(views, end).map_err(refused)
}

/// Compiles the conversion from boxes in one memory to boxes in another.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_compile(
    src: *const dry_layout,
    src_count: usize,
    dst: *const dry_layout,
    dst_count: usize,
    narrowing: i32,
    out: *mut *mut dry_rule,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (src, dst, out) = unsafe {
            (
                fragment(src, src_count, "the layouts of the source")?,
                fragment(dst, dst_count, "the layouts of the destination")?,
                handle_place(out)?,
            )
        };
        let narrowing = match narrowing {
            0 => Narrowing::Refuse,
            1 => Narrowing::Saturate,
            2 => Narrowing::Wrap,
            other => return Err(Failure::invalid(format!("{other} is not a narrowing (dry_narrowing)"))),
        };
        *out = keep(Rule::compile(&src, &dst, narrowing).map_err(refused)?);
        Ok(())
    })
}

/// Decodes a rule, checked against the sizes of the memories to which it will be applied.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_decode(
    encoded: *const u8,
    size: u64,
    src_size: u64,
    dst_size: u64,
    out: *mut *mut dry_rule,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (encoded, out) = unsafe { (bytes(encoded, size, "the encoded rule")?, handle_place(out)?) };
        *out = keep(Rule::decode(encoded, src_size, dst_size).map_err(refused)?);
        Ok(())
    })
}

/// Closes a rule's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_rule_close(handle: *mut dry_rule) -> Status {
    guard(|| take::<Rule>(handle).map(|_| ()))
}

/// The rule as bytes, for another process.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_encode(
    handle: *const dry_rule,
    out: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> Status {
    guard(|| {
        let encoded = get::<Rule>(handle)?.encode();
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_list(&encoded, "the encoded rule", out, capacity, size) }
    })
}

/// Describes a rule.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_describe(
    handle: *const dry_rule,
    out: *mut dry_rule_info,
) -> Status {
    guard(|| {
        let rule = get::<Rule>(handle)?;
        let info = dry_rule_info {
            struct_size: 0,
            reserved: 0,
            src_size: rule.src_len(),
            dst_size: rule.dst_len(),
            moved: rule.bytes(),
            hash: rule.content_hash(),
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &info) }
    })
}

/// The rule as text, for people.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_text(
    handle: *const dry_rule,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        let text = get::<Rule>(handle)?.to_string();
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&text, out, capacity, length) }
    })
}

/// Fills the destination from the source.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rule_apply(
    handle: *const dry_rule,
    src: *const u8,
    src_size: u64,
    dst: *mut u8,
    dst_size: u64,
) -> Status {
    guard(|| {
        let rule = get::<Rule>(handle)?;
        let (from, to) = (src.addr() as u64, dst.addr() as u64);
        let apart = from.saturating_add(src_size) <= to || to.saturating_add(dst_size) <= from;
        if src_size > 0 && dst_size > 0 && !apart {
            return Err(Failure::invalid("the source and the destination share memory"));
        }
        // SAFETY: pointers are as drystone.h specifies. The memories are disjoint (checked), and only this call
        // uses them until it returns.
        let (src, dst) =
            unsafe { (bytes(src, src_size, "the source")?, bytes_mut(dst, dst_size, "the destination")?) };
        rule.run(src, dst).map_err(refused)
    })
}
