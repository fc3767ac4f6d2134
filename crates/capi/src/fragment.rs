//! Declared fragments: their layout, and reads and writes of their memory.

use std::ffi::c_char;

use drystone::format::dtype::Scalar;
use drystone::{FragmentHandle, Precision};
use drystone_dataset::{Prim, Type as Declared};

use crate::argument::optional_step;
use crate::argument::{bytes, bytes_mut, give, give_text, handle_place, text, versioned};
use crate::container::{container, dry_container};
use crate::dtype::{BYTES, RECORD, Type, number};
use crate::failure::{Failure, Result, Status, guard};
use crate::handle::{Handled, get, keep, take};
use crate::reading::{dry_read_report, give_report};
use crate::schema::{dry_parameter, parameters};
use crate::writer::{dry_writer, writer};

/// The handle of a fragment.
#[repr(C)]
pub(crate) struct dry_fragment {
    _private: [u8; 0],
}

impl Handled for FragmentHandle {
    type Opaque = dry_fragment;
    const KIND: u64 = 4;
}

/// The properties of a fragment.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_fragment_info {
    struct_size: u32,
    has_steps: u32,
    size: u64,
    align: u64,
    array_count: u64,
}

versioned!(dry_fragment_info, 32);

/// An array in a fragment's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_fragment_array {
    struct_size: u32,
    type_: Type,
    length: u32,
    ndim: u32,
    offset: u64,
    item_size: u64,
    shape: [u64; 16],
    strides: [u64; 16],
    iteration: i64,
    has_iteration: u32,
    has_strides: u32,
}

versioned!(dry_fragment_array, 304);

/// Which cells of a fragment a container holds.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_coverage {
    struct_size: u32,
    reserved: u32,
    wanted: u64,
    covered: u64,
    unmapped: u64,
    missing: u64,
}

versioned!(dry_coverage, 40);

fn fragment(handle: *const dry_fragment) -> Result<std::sync::Arc<FragmentHandle>> {
    get(handle)
}

/// Opens an instance of a declared fragment.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_open(
    handle: *const dry_container,
    name: *const c_char,
    given: *const dry_parameter,
    count: usize,
    out: *mut *mut dry_fragment,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, given, out) =
            unsafe { (text(name, "the name")?, parameters(given, count)?, handle_place(out)?) };
        *out = keep(container(handle)?.fragment(name, &given)?);
        Ok(())
    })
}

/// Closes a fragment's handle.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_fragment_close(handle: *mut dry_fragment) -> Status {
    guard(|| take::<FragmentHandle>(handle).map(|_| ()))
}

/// Describes a fragment.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_describe(
    handle: *const dry_fragment,
    out: *mut dry_fragment_info,
) -> Status {
    guard(|| {
        let fragment = fragment(handle)?;
        let layout = fragment.layout();
        let info = dry_fragment_info {
            struct_size: 0,
            has_steps: fragment.has_steps().into(),
            size: layout.size,
            align: layout.align,
            array_count: layout.vars.len() as u64,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &info) }
    })
}

fn prim(prim: Prim) -> (Type, u32) {
    match prim {
        Prim::Bytes(n) => (BYTES, u32::try_from(n).unwrap_or(u32::MAX)),
        other => (Scalar::parse(other.name()).map_or(0, number), 0),
    }
}

/// One array of a fragment, in the order of memory.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_array_at(
    handle: *const dry_fragment,
    number: usize,
    out: *mut dry_fragment_array,
    name: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        let fragment = fragment(handle)?;
        let vars = &fragment.layout().vars;
        let var = vars.get(number).ok_or_else(|| {
            Failure::not_found(format!("the fragment has {} arrays; there is no array {number}", vars.len()))
        })?;
        let mut shape = var.extents.clone();
        let mut strides = var.strides();
        let mut element = &var.element;
        while let Declared::Array(array) = element {
            let extents: Vec<Option<u64>> = array.extents.iter().copied().map(Some).collect();
            let inner: Option<Vec<u64>> =
                array.order.strides(&extents, array.element.size()).into_iter().collect();
            shape.extend(&array.extents);
            strides = strides.zip(inner).map(|(outer, inner)| [outer, inner].concat());
            element = &array.element;
        }
        let (type_, bytes) = match element {
            Declared::Prim(found) => prim(*found),
            _ => (RECORD, 0),
        };
        let mut info = dry_fragment_array {
            struct_size: 0,
            type_,
            length: bytes,
            ndim: shape.len() as u32,
            offset: var.offset,
            item_size: element.size(),
            shape: [0; 16],
            strides: [0; 16],
            iteration: var.iteration.unwrap_or(0),
            has_iteration: var.iteration.is_some().into(),
            has_strides: strides.is_some().into(),
        };
        if shape.len() > info.shape.len() {
            return Err(Failure::unsupported(format!(
                "the array \"{}\" has {} dimensions",
                var.name,
                shape.len()
            )));
        }
        info.shape.iter_mut().zip(&shape).for_each(|(to, from)| *to = *from);
        info.strides.iter_mut().zip(strides.iter().flatten()).for_each(|(to, from)| *to = *from);
        // SAFETY: pointers are as drystone.h specifies.
        unsafe {
            give(out, &info)?;
            if name.is_null() && length.is_null() {
                return Ok(());
            }
            give_text(&var.name, name, capacity, length)
        }
    })
}

/// Fills memory of the fragment's size from the container.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_read(
    handle: *const dry_fragment,
    step: i64,
    out: *mut u8,
    size: u64,
    report: *mut dry_read_report,
) -> Status {
    guard(|| {
        let fragment = fragment(handle)?;
        // SAFETY: pointers are as drystone.h specifies; the caller does not use the memory until this returns.
        unsafe {
            let out = bytes_mut(out, size, "the memory of the fragment")?;
            give_report(report, &fragment.read(optional_step(step)?, out, Precision::Exact)?, 0)
        }
    })
}

/// Writes the fragment's memory through a writer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_write(
    handle: *const dry_fragment,
    through: *const dry_writer,
    data: *const u8,
    size: u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies; the memory does not change until this returns.
        let data = unsafe { bytes(data, size, "the memory of the fragment")? };
        writer(through)?.put_fragment(fragment(handle)?.as_ref(), data)
    })
}

/// The cells of the fragment, and which of them exist.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_coverage(
    handle: *const dry_fragment,
    step: i64,
    out: *mut dry_coverage,
) -> Status {
    guard(|| {
        let found = fragment(handle)?.coverage(optional_step(step)?)?;
        let coverage = dry_coverage {
            struct_size: 0,
            reserved: 0,
            wanted: found.wanted,
            covered: found.covered,
            unmapped: found.unmapped,
            missing: found.missing,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give(out, &coverage) }
    })
}

/// The plan of a read of the fragment, as text.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_fragment_explain(
    handle: *const dry_fragment,
    step: i64,
    out: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    guard(|| {
        let plan = fragment(handle)?.explain(optional_step(step)?)?;
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_text(&plan.to_string(), out, capacity, length) }
    })
}
