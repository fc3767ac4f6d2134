//! Committed datatypes.

use std::ffi::c_char;

use crate::calls::{args, creation, done, loc, made};
use crate::library::abi::{DatatypeGet, Herr, Hid, IdSpecific, Loc, Req, Void};
use crate::library::failure::{Failure, Result};
use crate::library::props::{self, List};
use crate::library::types;
use crate::model::tree::{Body, Object, StoredType, Times};
use crate::object::handle::Handle;
use crate::object::kind::ObjectKind;
use crate::object::walk::{Walk, locate, text, walk};

pub(crate) unsafe extern "C" fn commit(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    type_id: Hid,
    lcpl: Hid,
    tcpl: Hid,
    tapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        let host = h.context.host;
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        let encoded = types::encode(host, type_id)?;
        let disk = types::disk(host, h.void(), h.context.connector, type_id, &encoded)?;
        let size = u32::try_from(disk.size()).map_err(|_| Failure::unsupported("elements of over 4 GiB"))?;
        let (order, phase, times) = props::of_object(host, tcpl);
        let body = Body::Type(StoredType { encoded, size, committed: None });
        let mut object = Object::new(body, Times::now(times));
        object.attribute_order = order;
        object.phase = phase;
        let place = creation::add(&from, text(name), lcpl, tapl, object)?;
        Ok(Handle::object(place)?.0)
    })
}

pub(crate) unsafe extern "C" fn open(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    tapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        let place = walk(&from, text(name), &mut Walk::by(h.context.host, tapl)?)?;
        if place.kind()? != ObjectKind::Datatype {
            return Err(Failure::wrong_kind("not a named datatype"));
        }
        Ok(Handle::object(place)?.0)
    })
}

/// The encoding of a committed type, as the library of this handle writes it.
fn encoded(h: &Handle) -> Result<Vec<u8>> {
    let stored = {
        let state = h.context.opening.shared.lock();
        match state.tree.objects.get(&h.id).map(|o| &o.body) {
            Some(Body::Type(t)) => t.encoded.clone(),
            _ => return Err(Failure::wrong_kind("not a named datatype")),
        }
    };
    // Sequences of references are rebuilt, so that they compare equal to the type that the program committed.
    types::encode(h.context.host, types::decode(h.context.host, &stored)?.id)
}

pub(crate) unsafe extern "C" fn get(at: Void, args_at: *mut DatatypeGet, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => *args.args.size = encoded(h)?.len(),
                1 => {
                    let asked = args.args.binary;
                    let bytes = encoded(h)?;
                    let n = bytes.len().min(asked.size);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), asked.buf.cast(), n);
                }
                2 => {
                    let list = List::new(h.context.host, "H5P_CLS_DATATYPE_CREATE_ID_g\0")?;
                    let (order, phase, times) = {
                        let state = h.context.opening.shared.lock();
                        let object = state.tree.objects.get(&h.id);
                        let object = object.ok_or_else(|| Failure::not_found("the datatype is gone"))?;
                        (object.attribute_order, object.phase, object.times.tracked)
                    };
                    props::set_object(h.context.host, &list, order, phase, times);
                    args.args.id = list.give();
                }
                op => return Err(Failure::unsupported(format!("query {op} of a datatype"))),
            }
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn specific(at: Void, args_at: *mut IdSpecific, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments.
        match unsafe { args(args_at) }?.op {
            0 => h.context.opening.flush(),
            _ => Ok(()),
        }
    })
}

pub(crate) unsafe extern "C" fn close(at: Void, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |_| Handle::close(at))
}
