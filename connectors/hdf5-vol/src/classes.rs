//! The tables of callbacks that libraries are given: one per host, because some callbacks have no argument
//! that identifies the caller.

use std::ffi::{c_int, c_void};

use crate::calls::{
    attribute, blob, dataset, datatype, done, file, group, introspect, link, object, refuse, token,
};
use crate::file::config::Info;
use crate::library::abi::{
    AttrClass, BlobClass, Class, DatasetClass, DatatypeClass, FileClass, GroupClass, Herr, InfoClass,
    IntrospectClass, LinkClass, ObjectClass, RequestClass, TokenClass, VERSION, Void, WrapClass,
};
use crate::library::host::MAX_HOSTS;

/// The connector's number among connectors.
pub const VALUE: c_int = 5251;

/// The connector's capabilities (`H5VL_CAP_FLAG_*`): basic and more of attributes, datasets, files, groups,
/// links and objects; object references, stored datatypes, creation order, iteration, storage size, by index,
/// property lists, flush, external, hard and soft links, track times, filters, fill values. Not: threads,
/// asynchronous requests, maps, region and attribute references, user-defined links, mounting.
pub const CAPABILITIES: u64 = 0x8
    | 0x10
    | 0x20
    | 0x40
    | 0x80
    | 0x100
    | 0x200
    | 0x400
    | 0x800
    | 0x1000
    | 0x8000
    | 0x1_0000
    | 0x2_0000
    | 0x8_0000
    | 0x40_0000
    | 0x80_0000
    | 0x100_0000
    | 0x200_0000
    | 0x400_0000
    | 0x800_0000
    | 0x1000_0000
    | 0x2000_0000
    | 0x4000_0000
    | 0x8000_0000
    | 0x2_0000_0000
    | 0x8_0000_0000
    | 0x10_0000_0000;

static CLASSES: [Class; MAX_HOSTS] =
    [make::<0>(), make::<1>(), make::<2>(), make::<3>(), make::<4>(), make::<5>(), make::<6>(), make::<7>()];

/// Compares equal to the library's own class.
static NATIVE: Class = {
    let mut class = make::<0>();
    class.value = 0;
    class.name = c"native".as_ptr();
    class.info.size = 0;
    class
};

/// The class of the connector; if it claims to be native, one that compares equal to the native one.
unsafe extern "C" fn get_conn_cls(at: Void, level: c_int, out: *mut *const Class) -> Herr {
    done(at, |h| {
        let class = match level == 1 && h.context.mimic {
            true => native(),
            false => class(h.context.host.index),
        };
        // SAFETY: the library's argument.
        unsafe { *out = class };
        Ok(())
    })
}

unsafe extern "C" fn get_cap_flags(_info: *const c_void, flags: *mut u64) -> Herr {
    // SAFETY: the library's argument.
    unsafe { *flags = CAPABILITIES };
    0
}

/// The class for a host.
pub fn class(index: usize) -> *const Class {
    &CLASSES[index.min(MAX_HOSTS - 1)]
}

/// The class that is shown if the connector claims to be native.
pub fn native() -> *const Class {
    &NATIVE
}

const fn make<const H: usize>() -> Class {
    Class {
        version: VERSION,
        value: VALUE,
        name: c"drystone".as_ptr(),
        conn_version: 1,
        cap_flags: CAPABILITIES,
        initialize: Some(introspect::initialize),
        terminate: Some(introspect::terminate),
        info: InfoClass {
            size: size_of::<Info>(),
            copy: Some(introspect::info_copy),
            cmp: Some(introspect::info_cmp),
            free: Some(introspect::info_free),
            to_str: Some(introspect::info_to_str),
            from_str: Some(introspect::info_from_str),
        },
        wrap: WrapClass {
            get_object: Some(introspect::get_object),
            get_wrap_ctx: Some(introspect::get_wrap_ctx),
            wrap_object: Some(introspect::wrap_object),
            unwrap_object: Some(introspect::unwrap_object),
            free_wrap_ctx: Some(introspect::free_wrap_ctx),
        },
        attr: AttrClass {
            create: Some(attribute::create),
            open: Some(attribute::open),
            read: Some(attribute::read),
            write: Some(attribute::write),
            get: Some(attribute::get),
            specific: Some(attribute::specific),
            optional: Some(refuse),
            close: Some(attribute::close),
        },
        dataset: DatasetClass {
            create: Some(dataset::create),
            open: Some(dataset::open),
            read: Some(dataset::read),
            write: Some(dataset::write),
            get: Some(dataset::get),
            specific: Some(dataset::specific),
            optional: Some(refuse),
            close: Some(dataset::close),
        },
        datatype: DatatypeClass {
            commit: Some(datatype::commit),
            open: Some(datatype::open),
            get: Some(datatype::get),
            specific: Some(datatype::specific),
            optional: Some(refuse),
            close: Some(datatype::close),
        },
        file: FileClass {
            create: Some(file::create::<H>),
            open: Some(file::open::<H>),
            get: Some(file::get),
            specific: Some(file::specific::<H>),
            optional: Some(file::optional),
            close: Some(file::close),
        },
        group: GroupClass {
            create: Some(group::create),
            open: Some(group::open),
            get: Some(group::get),
            specific: Some(group::specific),
            optional: Some(group::optional),
            close: Some(group::close),
        },
        link: LinkClass {
            create: Some(link::create),
            copy: Some(link::copy),
            relocate: Some(link::relocate),
            get: Some(link::get),
            specific: Some(link::specific),
            optional: Some(link::optional),
        },
        object: ObjectClass {
            open: Some(object::open),
            copy: Some(object::copy),
            get: Some(object::get),
            specific: Some(object::specific),
            optional: Some(object::optional),
        },
        introspect: IntrospectClass {
            get_conn_cls: Some(get_conn_cls),
            get_cap_flags: Some(get_cap_flags),
            opt_query: Some(introspect::opt_query),
        },
        request: RequestClass { none: [0; 6] },
        blob: BlobClass {
            put: Some(blob::put),
            get: Some(blob::get),
            specific: Some(blob::specific),
            optional: None,
        },
        token: TokenClass {
            cmp: Some(token::cmp),
            to_str: Some(token::to_str),
            from_str: Some(token::from_str),
        },
        optional: Some(refuse),
    }
}
