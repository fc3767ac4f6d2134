//! Element types: numbers of the header's `dry_type`, lengths and records, as the engine's types and back.

use std::ffi::c_char;

use drystone::format::dtype::{DType, Member, Record, Scalar, limit};

use crate::argument::{list, options, text, versioned};
use crate::failure::{Failure, Result};
use crate::memory::extents;

/// `dry_type` of the header.
pub(crate) type Type = i32;

/// `DRY_BYTES`: the first after the scalars, which count from 1.
pub(crate) const BYTES: Type = 16;
/// `DRY_UNICODE`
pub(crate) const UNICODE: Type = 17;
/// `DRY_STRING`
pub(crate) const STRING: Type = 18;
/// `DRY_RECORD`
pub(crate) const RECORD: Type = 19;
/// `DRY_RAGGED`
pub(crate) const RAGGED: Type = 20;

/// A member of a record, as C describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_member {
    name: *const c_char,
    type_: Type,
    length: u32,
    offset: u64,
    record: *const dry_record,
    shape: *const u64,
    ndim: u32,
    reserved: u32,
}

/// A record, as C describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct dry_record {
    struct_size: u32,
    member_size: u32,
    item_size: u64,
    members: *const dry_member,
    member_count: u32,
    reserved: u32,
}

versioned!(dry_record, 32, reserved);

/// The number of a scalar.
pub(crate) fn number(scalar: Scalar) -> Type {
    scalar as Type + 1
}

/// A type's name in the header, as messages use it.
pub(crate) fn name_of(number: Type) -> String {
    match number {
        BYTES => "DRY_BYTES".into(),
        UNICODE => "DRY_UNICODE".into(),
        STRING => "DRY_STRING".into(),
        RECORD => "DRY_RECORD".into(),
        RAGGED => "DRY_RAGGED".into(),
        other => scalar(other).map_or_else(|| format!("dry_type {other}"), |found| found.to_string()),
    }
}

/// The scalar of a number.
pub(crate) fn scalar(number: Type) -> Option<Scalar> {
    Scalar::all().find(|s| self::number(*s) == number)
}

/// The number of a type, without lengths and members.
pub(crate) fn number_of(dtype: &DType) -> Type {
    match dtype {
        DType::Scalar(scalar) => number(*scalar),
        DType::Bytes(_) => BYTES,
        DType::Unicode(_) => UNICODE,
        DType::String => STRING,
        DType::Record(_) => RECORD,
        DType::Ragged(_) => RAGGED,
    }
}

/// The `length` of a type: of bytes and characters, and of lists the type of their elements; else 0.
pub(crate) fn length_of(dtype: &DType) -> u32 {
    match dtype {
        DType::Bytes(n) | DType::Unicode(n) => *n,
        DType::Ragged(scalar) => number(*scalar).unsigned_abs(),
        DType::Scalar(_) | DType::String | DType::Record(_) => 0,
    }
}

/// A type from its number, its length (of `DRY_BYTES`, `DRY_UNICODE` and `DRY_RAGGED`) and its record.
pub(crate) unsafe fn parse(number: Type, length: u32, record: *const dry_record) -> Result<DType> {
    // SAFETY: guaranteed by the caller.
    unsafe { nested(number, length, record, 0) }
}

unsafe fn nested(number: Type, length: u32, record: *const dry_record, depth: usize) -> Result<DType> {
    if number != RECORD && !record.is_null() {
        return Err(Failure::invalid("a record is given for a type that is not DRY_RECORD"));
    }
    match number {
        BYTES | UNICODE if length == 0 => {
            Err(Failure::invalid("DRY_BYTES and DRY_UNICODE need a length, in bytes and in characters"))
        }
        BYTES => Ok(DType::Bytes(length)),
        UNICODE => Ok(DType::Unicode(length)),
        STRING => Ok(DType::String),
        RAGGED => match i32::try_from(length).ok().and_then(scalar) {
            Some(scalar) => Ok(DType::Ragged(scalar)),
            None => Err(Failure::invalid(
                "DRY_RAGGED needs the type of its numbers as its length: DRY_FLOAT32, ...",
            )),
        },
        RECORD if record.is_null() => Err(Failure::invalid("DRY_RECORD needs a record, which is NULL")),
        RECORD if depth >= limit::NESTING => {
            Err(Failure::invalid(format!("records nested deeper than {}", limit::NESTING)))
        }
        // SAFETY: guaranteed by the caller.
        RECORD => unsafe { members(record, depth) },
        _ => scalar(number).map(DType::Scalar).ok_or_else(|| unknown(number)),
    }
}

fn unknown(number: Type) -> Failure {
    let never = if number == 0 { ": the type was not set" } else { "" };
    Failure::invalid(format!("{number} is not an element type (dry_type){never}"))
}

unsafe fn members(given: *const dry_record, depth: usize) -> Result<DType> {
    // SAFETY: guaranteed by the caller.
    let record = unsafe { options(given)? };
    let itemsize =
        u32::try_from(record.item_size).map_err(|_| Failure::invalid("the record is too large"))?;
    if record.member_size as usize != size_of::<dry_member>() {
        return Err(Failure::invalid(format!(
            "dry_record has member_size {}: set it to sizeof(dry_member), which is {} in this library",
            record.member_size,
            size_of::<dry_member>()
        )));
    }
    if record.member_count as usize > limit::LEAVES {
        return Err(Failure::invalid(format!("a record with more than {} members", limit::LEAVES)));
    }
    // SAFETY: the record states the number of its members.
    let given = unsafe { list(record.members, record.member_count as usize, "the members of the record")? };
    let mut members = Vec::with_capacity(given.len());
    for member in given {
        // SAFETY: guaranteed by the caller, for each member.
        let (name, dtype, shape) = unsafe {
            (
                text(member.name, "the name of a member")?,
                nested(member.type_, member.length, member.record, depth + 1)?,
                extents(member.shape, member.ndim, "the shape of a member")?,
            )
        };
        let offset = u32::try_from(member.offset).map_err(|_| {
            Failure::invalid(format!("member \"{name}\" is too far from the record's beginning"))
        })?;
        members.push(Member { name: name.into(), dtype, shape: shape.to_vec(), offset });
    }
    let dtype = DType::Record(Record { itemsize, members });
    dtype.validate().map_err(Failure::invalid)?;
    Ok(dtype)
}

/// The bytes of an element that is put or read, which must be `inner` elements of `dtype`.
///
/// The caller's type is compared, and `item_size` too, which must be given where the type alone does not
/// determine it.
pub(crate) fn check_element(
    what: &str,
    dtype: &DType,
    inner: &[u64],
    given: Type,
    item_size: u64,
) -> Result<u64> {
    let wanted = number_of(dtype);
    if given != wanted {
        if scalar(given).is_none() && !(BYTES..=RECORD).contains(&given) {
            return Err(unknown(given));
        }
        return Err(Failure::invalid(format!(
            "{what} has elements of type {dtype}, the memory is said to have {}; convert it first",
            name_of(given)
        )));
    }
    if wanted == STRING {
        return Err(Failure::invalid(format!(
            "{what} holds strings: use dry_put_strings, dry_read_strings and dry_read_block_strings"
        )));
    }
    let size = inner.iter().fold(u64::from(dtype.item_size()), |size, n| size.saturating_mul(*n));
    let told = matches!(dtype, DType::Scalar(_)) && inner.is_empty();
    match item_size {
        0 if told => Ok(size),
        given if given == size => Ok(size),
        0 => Err(Failure::invalid(format!(
            "{what} has elements of {size} bytes ({dtype}{inner:?}): set item_size in the options to the size of yours"
        ))),
        given => Err(Failure::invalid(format!(
            "{what} has elements of {size} bytes ({dtype}{inner:?}), not {given}"
        ))),
    }
}
