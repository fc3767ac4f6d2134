//! Attributes.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};

use crate::calls::{args, bytes, done, give_text, loc, made, stored, with_id};
use crate::library::abi::{AttrGet, AttrInfo, AttrSpecific, Herr, Hid, Loc, P_DEFAULT, Req, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::quietly;
use crate::library::props::List;
use crate::library::space;
use crate::library::types::{self, Type};
use crate::model::tree::{Attribute, Object, Order, StoredType, TRACKED};
use crate::object::handle::Handle;
use crate::object::kind::ObjectKind;
use crate::object::place::ObjectRef;
use crate::object::walk::{Walk, locate, text};

fn missing(name: &[u8]) -> Failure {
    Failure::no_attribute(format!("can't locate attribute: '{}'", String::from_utf8_lossy(name)))
}

/// The attribute behind a handle, as it is now.
fn of(h: &Handle) -> Result<Attribute> {
    let ObjectKind::Attribute(name) = &h.kind else { return Err(Failure::wrong_kind("not an attribute")) };
    let state = h.context.opening.shared.lock();
    let found = state.tree.objects.get(&h.id).and_then(|o| o.attributes.get(name));
    found.cloned().ok_or_else(|| missing(name))
}

fn types_of(h: &Handle) -> Result<&(Type, Type)> {
    if h.types.get().is_none() {
        let made = stored::both(h, &of(h)?.dtype)?;
        let _ = h.types.set(made);
    }
    h.types.get().ok_or_else(|| Failure::library("no datatype"))
}

fn hold(place: ObjectRef, name: &[u8]) -> Void {
    Handle::hold(place.context, ObjectKind::Attribute(name.to_vec()), place.id, place.name)
}

pub(crate) unsafe extern "C" fn create(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    type_id: Hid,
    space_id: Hid,
    acpl: Hid,
    aapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        let host = h.context.host;
        // SAFETY: the library's arguments.
        let place = locate(h, unsafe { loc(loc_at) }?)?;
        place.context.writable()?;
        Walk::by(host, aapl)?; // lists of attribute access are lists of link access
        let name = text(name);
        let space = space::extent(host, space_id)?;
        types::refuse_regions(host, type_id)?;
        let encoded = types::encode(host, type_id)?;
        let disk = types::disk(host, h.void(), h.context.connector, type_id, &encoded)?;
        let size = u32::try_from(disk.size()).map_err(|_| Failure::unsupported("elements of over 4 GiB"))?;
        let committed = stored::committed(host, type_id, &place.context.opening);
        let mut cset = 0;
        if acpl != P_DEFAULT {
            // SAFETY: any id may be given; writes one number.
            if quietly(host, || unsafe { (host.api.H5Pget_char_encoding)(acpl, &mut cset) }) < 0 {
                return Err(Failure::wrong_kind("not an attribute creation property list"));
            }
        }
        let attribute = Attribute {
            order: 0,
            cset: cset as u8,
            dtype: StoredType { encoded, size, committed },
            space,
            data: Vec::new(),
        };
        let mut state = place.context.opening.shared.lock();
        let gone = || Failure::not_found("the object is gone");
        let object = state.tree.objects.get_mut(&place.id).ok_or_else(gone)?;
        if object.attributes.contains_key(name) {
            return Err(Failure {
                major: "H5E_ATTR_g\0",
                minor: "H5E_ALREADYEXISTS_g\0",
                message: "attribute already exists".into(),
            });
        }
        object.put_attribute(name, attribute);
        state.dirty = true;
        drop(state);
        Ok(hold(place, name))
    })
}

pub(crate) unsafe extern "C" fn open(
    at: Void,
    loc_at: *const Loc,
    name: *const c_char,
    aapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        Walk::by(h.context.host, aapl)?;
        // SAFETY: the library's arguments; `kind` says which member of the union there is.
        let loc = unsafe { loc(loc_at) }?;
        let mut name = text(name).to_vec();
        let place = match loc.kind {
            2 => {
                // SAFETY: as above.
                let by = unsafe { loc.data.by_idx };
                let mut to = *loc;
                to.kind = 1;
                to.data.by_name = crate::library::abi::LocByName { name: by.name, lapl_id: by.lapl_id };
                let place = locate(h, &to)?;
                name = nth(&place, Order::of(by.idx_type, by.order), by.n)?;
                place
            }
            _ => locate(h, loc)?,
        };
        let state = place.context.opening.shared.lock();
        if !state.tree.objects.get(&place.id).is_some_and(|o| o.attributes.contains_key(&name)) {
            return Err(missing(&name));
        }
        drop(state);
        Ok(hold(place, &name))
    })
}

fn nth(place: &ObjectRef, order: Order, n: u64) -> Result<Vec<u8>> {
    let state = place.context.opening.shared.lock();
    let names = state.tree.attribute_names(place.id, order);
    let name = usize::try_from(n).ok().and_then(|n| names.into_iter().nth(n));
    name.ok_or_else(|| Failure::invalid("index out of bound"))
}

pub(crate) unsafe extern "C" fn read(at: Void, type_id: Hid, buf: Void, dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        let host = h.context.host;
        let attribute = of(h)?;
        let points = attribute.space.points().unwrap_or(0);
        let program = types::plain(host, type_id)?;
        let (_, disk) = types_of(h)?;
        let room = points as usize * program.size();
        if room == 0 {
            return Ok(());
        }
        let data = match attribute.data.is_empty() {
            true => vec![0; points as usize * disk.size()],
            false => attribute.data,
        };
        let background = (types::needs_background(disk, &program) && !program.is_variable())
            // SAFETY: the program promises room for the attribute.
            .then(|| unsafe { bytes(buf.cast_const(), room) }.to_vec());
        let data = types::convert(host, disk, &program, points, data, background, dxpl)?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), buf.cast::<u8>(), room) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn write(
    at: Void,
    type_id: Hid,
    buf: *const c_void,
    dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        let host = h.context.host;
        h.context.writable()?;
        let attribute = of(h)?;
        let points = attribute.space.points().unwrap_or(0);
        let program = types::plain(host, type_id)?;
        let (_, disk) = types_of(h)?;
        // SAFETY: the program promises that its buffer holds the attribute.
        let data = unsafe { bytes(buf, points as usize * program.size()) }.to_vec();
        let background = Some(attribute.data).filter(|d| disk.has_members() && !d.is_empty());
        let data = types::convert(host, &program, disk, points, data, background, dxpl)?;
        let ObjectKind::Attribute(name) = &h.kind else { return Ok(()) };
        let mut state = h.context.opening.shared.lock();
        let object = state.tree.objects.get_mut(&h.id);
        let found = object.and_then(|o| o.attributes.get_mut(name)).ok_or_else(|| missing(name))?;
        found.data = data;
        state.dirty = true;
        Ok(())
    })
}

fn info(attribute: &Attribute, corder: u32) -> AttrInfo {
    AttrInfo { corder_valid: true, corder, cset: i32::from(attribute.cset), data_size: bytes_of(attribute) }
}

fn bytes_of(attribute: &Attribute) -> u64 {
    attribute.space.points().unwrap_or(0) * u64::from(attribute.dtype.size)
}

/// The creation order of an object's attribute as programs see it: where it is not tracked, the position
/// among the existing ones.
fn creation_order(object: &Object, attribute: &Attribute) -> u32 {
    match object.attribute_order & TRACKED != 0 {
        true => attribute.order,
        false => object.attributes.values().filter(|other| other.order < attribute.order).count() as u32,
    }
}

/// Name, description and owner of the attribute that a location (and a name) refers to.
fn find(h: &Handle, loc: &Loc, name: *const c_char) -> Result<(Vec<u8>, AttrInfo)> {
    let mut wanted = text(name).to_vec();
    let place = match (&h.kind, loc.kind) {
        (ObjectKind::Attribute(own), 0) => {
            wanted.clone_from(own);
            h.place()
        }
        (_, 2) => {
            // SAFETY: `kind` says which member of the union there is.
            let by = unsafe { loc.data.by_idx };
            let mut to = *loc;
            to.kind = 1;
            to.data.by_name = crate::library::abi::LocByName { name: by.name, lapl_id: by.lapl_id };
            let place = locate(h, &to)?;
            wanted = nth(&place, Order::of(by.idx_type, by.order), by.n)?;
            place
        }
        _ => locate(h, loc)?,
    };
    let state = place.context.opening.shared.lock();
    let object = state.tree.objects.get(&place.id).ok_or_else(|| missing(&wanted))?;
    let found = object.attributes.get(&wanted).ok_or_else(|| missing(&wanted))?;
    let info = info(found, creation_order(object, found));
    Ok((wanted, info))
}

pub(crate) unsafe extern "C" fn get(at: Void, args_at: *mut AttrGet, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |h| {
        let host = h.context.host;
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let args = args(args_at)?;
            match args.op {
                0 => {
                    let list = List::new(host, "H5P_CLS_ATTRIBUTE_CREATE_ID_g\0")?;
                    (host.api.H5Pset_char_encoding)(list.id, i32::from(of(h)?.cset));
                    args.args.id = list.give();
                }
                1 => {
                    let asked = args.args.info;
                    *super::args(asked.info)? = find(h, &asked.loc, asked.name)?.1;
                }
                2 => {
                    let asked = args.args.name;
                    let (name, _) = find(h, &asked.loc, std::ptr::null())?;
                    give_text(&name, asked.buf, asked.buf_size, asked.len);
                }
                3 => args.args.id = space::create(host, &of(h)?.space)?,
                4 => *args.args.size = bytes_of(&of(h)?),
                5 => {
                    args.args.id = match of(h)?.dtype.committed {
                        Some(id) => stored::committed_id(h, id)?,
                        None => Type::copy(host, types_of(h)?.0.id)?.give(),
                    }
                }
                op => return Err(Failure::unsupported(format!("query {op} of an attribute"))),
            }
        }
        Ok(())
    })
}

fn remove(place: &ObjectRef, name: &[u8]) -> Result<()> {
    place.context.writable()?;
    let mut state = place.context.opening.shared.lock();
    let object = state.tree.objects.get_mut(&place.id).ok_or_else(|| missing(name))?;
    let removed = object.attributes.remove(name).ok_or_else(|| missing(name))?;
    if object.attributes.is_empty() {
        object.next_attribute = 0;
    }
    state.dirty = true;
    if let Some(id) = removed.dtype.committed {
        state.reap(id); // the object was kept for this attribute if it has no links
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn specific(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut AttrSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    super::with(at, -1, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        let (loc, args) = unsafe { (loc(loc_at)?, args(args_at)?) };
        let place = locate(h, loc)?;
        // SAFETY: as above.
        unsafe {
            match args.op {
                0 => remove(&place, text(args.args.name))?,
                1 => {
                    let by = args.args.by_idx;
                    remove(&place, &nth(&place, Order::of(by.idx_type, by.order), by.n)?)?;
                }
                2 => {
                    let asked = args.args.exists;
                    let state = place.context.opening.shared.lock();
                    let object = state.tree.objects.get(&place.id);
                    *asked.exists = object.is_some_and(|o| o.attributes.contains_key(text(asked.name)));
                }
                3 => return iterate(place, args),
                4 => {
                    place.context.writable()?;
                    let asked = args.args.rename;
                    let (old, new) = (text(asked.old), text(asked.new));
                    let mut state = place.context.opening.shared.lock();
                    let object = state.tree.objects.get_mut(&place.id).ok_or_else(|| missing(old))?;
                    if object.attributes.contains_key(new) && old != new {
                        return Err(Failure::exists("an attribute with the new name exists"));
                    }
                    let attribute = object.attributes.remove(old).ok_or_else(|| missing(old))?;
                    object.attributes.insert(new.to_vec(), attribute);
                    state.dirty = true;
                }
                op => return Err(Failure::unsupported(format!("operation {op} on an attribute"))),
            }
        }
        Ok(0)
    })
}

fn iterate(place: ObjectRef, args: &mut AttrSpecific) -> Result<Herr> {
    // SAFETY: the caller has looked at `op`.
    let asked = unsafe { args.args.iterate };
    let op = asked.op.ok_or_else(|| Failure::invalid("no function to call"))?;
    let list: Vec<(Vec<u8>, AttrInfo)> = {
        let state = place.context.opening.shared.lock();
        let object = state.tree.objects.get(&place.id);
        let object = object.ok_or_else(|| Failure::not_found("the object is gone"))?;
        // For attributes whose order is not tracked, the position of each.
        let mut places = BTreeMap::new();
        if object.attribute_order & TRACKED == 0 {
            let mut orders: Vec<u32> = object.attributes.values().map(|a| a.order).collect();
            orders.sort_unstable();
            places.extend(orders.into_iter().zip(0u32..));
        }
        let names = state.tree.attribute_names(place.id, Order::of(asked.idx_type, asked.order));
        names
            .into_iter()
            .filter_map(|name| {
                let found = object.attributes.get(&name)?;
                let info = info(found, places.get(&found.order).copied().unwrap_or(found.order));
                Some((name, info))
            })
            .collect()
    };
    // SAFETY: may be null.
    let skip = unsafe { asked.idx.as_ref() }.copied().unwrap_or(0) as usize;
    if skip > 0 && skip >= list.len() {
        return Err(Failure::invalid("invalid index specified"));
    }
    let index = asked.idx;
    with_id(place, |id| {
        for (i, (name, info)) in list.iter().enumerate().skip(skip) {
            let Ok(name) = CString::new(name.clone()) else { continue };
            // SAFETY: the program's function, called as it expects.
            let rc = unsafe { op(id, name.as_ptr(), info, asked.op_data) };
            // SAFETY: may be null.
            if let Some(index) = unsafe { index.as_mut() } {
                *index = i as u64 + 1;
            }
            if rc != 0 {
                return rc;
            }
        }
        0
    })
}

pub(crate) unsafe extern "C" fn close(at: Void, _dxpl: Hid, _req: Req) -> Herr {
    done(at, |_| Handle::close(at))
}
