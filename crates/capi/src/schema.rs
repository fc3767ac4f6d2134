//! The schema: variables, groups, links and their names.

use std::ffi::c_char;

use drystone::format::schema::{Attrs, Name};
use drystone::{Container, NewVariable, SchemaOp};

use crate::argument::{bytes, give_names, list, optional_list, optional_text, options, set, text, versioned};
use crate::container::{container, dry_container};
use crate::dtype::{Type, dry_record, parse};
use crate::failure::{Failure, Result, Status, guard};
use crate::memory::extents;

/// A variable to be created.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_variable_options {
    struct_size: u32,
    type_: Type,
    length: u32,
    ndim: u32,
    record: *const dry_record,
    shape: *const u64,
    dims: *const *const c_char,
    transform: *const c_char,
    chunks: *const u64,
    chunk_ndim: u32,
    has_steps: u32,
    local: u32,
    dims_count: u32,
    fill: *const u8,
    fill_size: u64,
    access: *const c_char,
}

versioned!(dry_variable_options, 88);

/// `DRY_GROWS`: an extent that grows as blocks are put.
const GROWS: u64 = u64::MAX;

fn apply(handle: *const dry_container, op: SchemaOp) -> Result<()> {
    container(handle)?.apply(vec![op])?;
    Ok(())
}

/// A normalised path.
pub(crate) unsafe fn path<'a>(given: *const c_char) -> Result<&'a str> {
    // SAFETY: guaranteed by the caller.
    Ok(Container::normal_path(unsafe { text(given, "the path")? }))
}

unsafe fn new_variable(given: &dry_variable_options) -> Result<NewVariable> {
    // SAFETY: the structure is as drystone.h specifies.
    unsafe {
        let shape = extents(given.shape, given.ndim, "the shape")?;
        if ![0, given.ndim].contains(&given.dims_count) {
            return Err(Failure::invalid(format!(
                "dims has {} entries, the shape has {}: there is one name per dimension",
                given.dims_count, given.ndim
            )));
        }
        let dims = match optional_list(given.dims, given.ndim as usize, "dims")? {
            Some(dims) => dims
                .iter()
                .map(|name| Ok(text(*name, "a name of dims")?.to_string()))
                .collect::<Result<_>>()?,
            None => Vec::new(),
        };
        let chunks = extents(given.chunks, given.chunk_ndim, "chunks")?;
        let fill = bytes(given.fill, given.fill_size, "the fill value")?;
        Ok(NewVariable {
            dtype: parse(given.type_, given.length, given.record)?,
            shape: shape.iter().map(|n| (*n != GROWS).then_some(*n)).collect(),
            dims,
            steps: given.has_steps != 0,
            local: given.local != 0,
            transform: optional_text(given.transform, "the transform")?.unwrap_or("").to_string(),
            chunks: (given.chunk_ndim > 0).then(|| chunks.to_vec()),
            fill: (given.fill_size > 0).then(|| fill.to_vec()),
            attrs: Attrs::new(),
            access: optional_text(given.access, "access")?.unwrap_or("").to_string(),
            meaning: None,
        })
    }
}

/// Creates a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_create_variable(
    handle: *const dry_container,
    name: *const c_char,
    given: *const dry_variable_options,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, new) = unsafe { (path(name)?, new_variable(&options(given)?)?) };
        apply(handle, SchemaOp::CreateVariable(name.into(), Box::new(new)))
    })
}

/// Creates a group.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_create_group(
    handle: *const dry_container,
    name: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let name = unsafe { path(name)? };
        apply(handle, SchemaOp::CreateGroup(name.into(), Attrs::new()))
    })
}

/// Sets the shape of a variable.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_resize(
    handle: *const dry_container,
    name: *const c_char,
    ndim: u32,
    shape: *const u64,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, shape) = unsafe { (path(name)?, extents(shape, ndim, "the shape")?) };
        apply(handle, SchemaOp::Resize(name.into(), shape.to_vec()))
    })
}

/// Gives a variable, link or group another path.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_rename(
    handle: *const dry_container,
    from: *const c_char,
    to: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (from, to) = unsafe { (path(from)?, path(to)?) };
        apply(handle, SchemaOp::Rename(from.into(), to.into()))
    })
}

/// Removes a name; for a group, everything below.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_delete(handle: *const dry_container, name: *const c_char) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let name = unsafe { path(name)? };
        apply(handle, SchemaOp::Delete(name.into()))
    })
}

/// Makes a path a link to another.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_link(
    handle: *const dry_container,
    name: *const c_char,
    target: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (name, target) = unsafe { (path(name)?, path(target)?) };
        apply(handle, SchemaOp::Link(name.into(), target.into()))
    })
}

/// Collects changes of the schema until `dry_end_batch`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_begin_batch(handle: *const dry_container) -> Status {
    guard(|| Ok(container(handle)?.begin_batch()?))
}

/// Commits the collected changes, or drops them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn dry_end_batch(handle: *const dry_container, commit: i32) -> Status {
    guard(|| Ok(container(handle)?.end_batch(commit != 0)?))
}

/// The kind of object at a path.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_kind_of(
    handle: *const dry_container,
    name: *const c_char,
    kind: *mut i32,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let name = unsafe { path(name)? };
        let schema = container(handle)?.schema();
        let found = match schema.follow(name) {
            None => 0,
            Some(path) if schema.groups.contains_key(&path) => 2,
            Some(_) => 1,
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { set(kind, found, "kind") }
    })
}

/// Paths of the variables or of the groups, sorted.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_names(
    handle: *const dry_container,
    kind: i32,
    names: *mut c_char,
    capacity: usize,
    length: *mut usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        let schema = container(handle)?.schema();
        let is_variable = |(path, name): &(&String, &Name)| match name {
            Name::Variable(_) => true,
            Name::Link(_) => schema.resolve(path).is_some(),
        };
        let found: Vec<String> = match kind {
            1 => schema.names.iter().filter(is_variable).map(|(path, _)| path.clone()).collect(),
            2 => schema.groups.keys().filter(|path| !path.is_empty()).cloned().collect(),
            other => return Err(Failure::invalid(format!("{other} is not a kind of names (dry_kind)"))),
        };
        // SAFETY: pointers are as drystone.h specifies.
        unsafe { give_names(&found, names, capacity, length, count) }
    })
}

/// Names and values of parameters in the dataset language.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_parameter {
    name: *const c_char,
    value: i64,
}

/// The parameters of a list.
pub(crate) unsafe fn parameters<'a>(
    given: *const dry_parameter,
    count: usize,
) -> Result<Vec<(&'a str, i64)>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let given: &[dry_parameter] = list(given, count, "the parameters")?;
        given.iter().map(|p| Ok((text(p.name, "the name of a parameter")?, p.value))).collect()
    }
}

/// Declares a text in the dataset language.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn dry_declare(
    handle: *const dry_container,
    declaration: *const c_char,
    given: *const dry_parameter,
    count: usize,
) -> Status {
    guard(|| {
        // SAFETY: pointers are as drystone.h specifies.
        let (declaration, given) = unsafe { (text(declaration, "the text")?, parameters(given, count)?) };
        container(handle)?.declare(declaration, &given)?;
        Ok(())
    })
}
