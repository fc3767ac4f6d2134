//! Groups.

use std::ffi::c_char;

use crate::calls::{args, creation, done, loc, made};
use crate::library::abi::{GetObjInfo, GroupGet, GroupSpecific, Herr, Hid, Loc, OptionalArgs, Req, Void};
use crate::library::failure::{Failure, Result};
use crate::library::props::{self, List};
use crate::model::tree::{Body, Group, Id, Object, Target, Times};
use crate::object::handle::Handle;
use crate::object::kind::ObjectKind;
use crate::object::walk::{Walk, locate, step, text, walk};

pub(crate) unsafe extern "C" fn create(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    lcpl: Hid,
    gcpl: Hid,
    gapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        let (order, attributes, phase, times) = props::of_group(h.context.host, gcpl);
        let body = Body::Group(Group { order, ..Group::default() });
        let mut object = Object::new(body, Times::now(times));
        object.attribute_order = attributes;
        object.phase = phase;
        let place = creation::add(&from, text(name), lcpl, gapl, object)?;
        Ok(Handle::object(place)?.0)
    })
}

pub(crate) unsafe extern "C" fn open(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    gapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        // SAFETY: the library's arguments.
        let from = locate(h, unsafe { loc(loc_at) }?)?;
        let place = walk(&from, text(name), &mut Walk::by(h.context.host, gapl)?)?;
        if place.kind()? != ObjectKind::Group {
            return Err(Failure::wrong_kind("not a group"));
        }
        Ok(Handle::object(place)?.0)
    })
}

pub(crate) unsafe extern "C" fn get(at: Void, args_at: *mut GroupGet, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => args.args.id = gcpl(h)?.give(),
                1 => {
                    let asked = args.args.info;
                    let place = locate(h, &asked.loc)?;
                    let info = super::args(asked.info)?;
                    let state = place.context.opening.shared.lock();
                    let group =
                        state.tree.group(place.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
                    info.storage_type = if group.links.len() > 8 { 2 } else { 1 };
                    info.nlinks = group.links.len() as u64;
                    info.max_corder = if group.order == 0 { 0 } else { group.next_order };
                    info.mounted = false;
                }
                op => return Err(Failure::unsupported(format!("query {op} of a group"))),
            }
        }
        Ok(())
    })
}

fn gcpl(h: &Handle) -> Result<List> {
    let host = h.context.host;
    let (order, attributes, phase, times) = {
        let state = h.context.opening.shared.lock();
        let object = state.tree.objects.get(&h.id).ok_or_else(|| Failure::not_found("the group is gone"))?;
        let order = if let Body::Group(g) = &object.body { g.order } else { 0 };
        (order, object.attribute_order, object.phase, object.times.tracked)
    };
    let list = List::new(host, "H5P_CLS_GROUP_CREATE_ID_g\0")?;
    // SAFETY: plain numbers.
    unsafe { (host.api.H5Pset_link_creation_order)(list.id, u32::from(order)) };
    props::set_object(host, &list, attributes, phase, times);
    Ok(list)
}

pub(crate) unsafe extern "C" fn specific(
    at: Void,
    args_at: *mut GroupSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments.
        match unsafe { args(args_at) }?.op {
            2 => h.context.opening.flush(),
            3 => h.context.opening.shared.refresh(),
            _ => Err(Failure::unsupported("mounting files is not supported by the drystone connector")),
        }
    })
}

/// H5Gget_objinfo, by which h5py compares objects.
pub(crate) unsafe extern "C" fn optional(
    at: Void,
    args_at: *mut OptionalArgs,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments, of this operation.
        unsafe {
            let args = args(args_at)?;
            if args.op_type != 1 {
                return Err(Failure::unsupported(format!("group operation {}", args.op_type)));
            }
            let asked = super::args(args.args.cast::<GetObjInfo>())?;
            let mut walking = Walk::by(h.context.host, 0)?;
            let mut linklen = 0;
            let mut place = None;
            let mut kind = 3; // a soft link
            if asked.loc.kind == 1 && !asked.follow {
                let by = asked.loc.data.by_name;
                if let Ok(at) = crate::object::walk::last(&h.place(), text(by.name), &mut walking) {
                    let state = at.group.context.opening.shared.lock();
                    let link = state.tree.group(at.group.id).and_then(|g| g.links.get(&at.name));
                    let link = link.ok_or_else(|| Failure::not_found("no such link"))?.clone();
                    drop(state);
                    match link.target {
                        Target::Hard(_) => place = Some(step(&at.group, &at.name, &mut walking)?),
                        Target::Soft(path) => linklen = path.len() + 1,
                        Target::Custom(..) => kind = 4,
                    }
                } else {
                    place = Some(locate(h, &asked.loc)?);
                }
            } else {
                place = Some(locate(h, &asked.loc)?);
            }
            let Some(stat) = asked.stat.as_mut() else { return Ok(()) };
            *stat = crate::library::abi::GroupStat { kind, linklen, ..Default::default() };
            if let Some(place) = place {
                stat.kind = match place.kind()? {
                    ObjectKind::Dataset => 1,
                    ObjectKind::Datatype => 2,
                    _ => 0,
                };
                let shared = &place.context.opening.shared;
                let state = shared.lock();
                if let Some(object) = state.tree.objects.get(&place.id) {
                    stat.nlink = state.tree.references(place.id);
                    stat.mtime = object.times.changed;
                }
                stat.fileno = [shared.number, 0];
                stat.objno = [place.id as Id, 0];
            }
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn close(at: Void, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |_| Handle::close(at))
}
