//! The structures of `drystone_transform.h`, field by field.

use std::ffi::{c_char, c_void};

/// The version of the interface.
pub(super) const ABI: u32 = 1;

pub(super) const OK: i32 = 0;
pub(super) const DAMAGED: i32 = 1;
pub(super) const INVALID: i32 = 2;
pub(super) const UNSUPPORTED: i32 = 3;

pub(super) const LOSSY: u64 = 1;
pub(super) const MAY_GROW: u64 = 2;
pub(super) const KEEPS_VALUES: u64 = 4;

#[repr(C)]
pub(super) struct Host {
    pub(super) struct_size: u32,
    pub(super) reserved: u32,
    pub(super) context: *mut c_void,
    pub(super) say: extern "C" fn(*mut c_void, *const c_char),
}

#[repr(C)]
pub(super) struct Subchunk {
    pub(super) struct_size: u32,
    pub(super) kind: u32,
    pub(super) element_size: u64,
    pub(super) scalar_size: u64,
    pub(super) ndim: u64,
    pub(super) shape: *const u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) end: u64,
}

#[repr(C)]
pub(super) struct Stored {
    pub(super) struct_size: u32,
    pub(super) reserved: u32,
    pub(super) length: u64,
    pub(super) decoded_length: u64,
    pub(super) meta: *const u8,
    pub(super) meta_length: u64,
}

#[repr(C)]
pub(super) struct Want {
    pub(super) struct_size: u32,
    pub(super) precision: u32,
    pub(super) max_error: f64,
    pub(super) level: u32,
    pub(super) reserved: u32,
    pub(super) count: u64,
    pub(super) ranges: *const ByteRange,
}

#[repr(C)]
pub(super) struct Plan {
    pub(super) struct_size: u32,
    pub(super) reserved: u32,
    pub(super) context: *mut c_void,
    pub(super) read: extern "C" fn(*mut c_void, u64, u64) -> i32,
    pub(super) bound: extern "C" fn(*mut c_void, f64, f64),
}

#[repr(C)]
pub(super) struct Parts {
    pub(super) struct_size: u32,
    pub(super) reserved: u32,
    pub(super) context: *mut c_void,
    pub(super) fetched: extern "C" fn(*mut c_void, u64, u64) -> *const u8,
    pub(super) place: extern "C" fn(*mut c_void, u64, u64) -> *mut u8,
}

type State = *const c_void;
pub(super) type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void, *const Host) -> i32;
pub(super) type Encode =
    unsafe extern "C" fn(State, *const Subchunk, *const u8, u64, *mut u8, u64, *mut u64, *const Host) -> i32;
pub(super) type Decode =
    unsafe extern "C" fn(State, *const Subchunk, *const u8, u64, *mut u8, u64, *const Host) -> i32;
pub(super) type PlanRead =
    unsafe extern "C" fn(State, *const Subchunk, *const Stored, *const Want, *const Plan, *const Host) -> i32;
pub(super) type DecodePart = unsafe extern "C" fn(
    State,
    *const Subchunk,
    *const Stored,
    *const Want,
    *const Parts,
    *const Host,
) -> i32;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Codec {
    pub(super) struct_size: u32,
    pub(super) abi: u32,
    pub(super) name: *const c_char,
    pub(super) flags: u64,
    pub(super) open: Option<Open>,
    pub(super) close: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(super) max_encoded_length: Option<unsafe extern "C" fn(State, u64) -> u64>,
    pub(super) encode: Option<Encode>,
    pub(super) decode: Option<Decode>,
    pub(super) meta_length: Option<unsafe extern "C" fn(State, *const u8, u64) -> u64>,
    pub(super) plan_read: Option<PlanRead>,
    pub(super) decode_part: Option<DecodePart>,
}

/// The least size of a codec's structure: everything up to `decode`.
pub(super) const LEAST: usize = std::mem::offset_of!(Codec, meta_length);

pub(super) type Entry = unsafe extern "C" fn(u32, u32) -> *const Codec;
