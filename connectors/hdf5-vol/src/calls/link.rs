//! Links: hard, soft, external; copying, moving, deleting, iteration.

use std::ffi::{CString, c_int};
use std::sync::Arc;

use crate::calls::{args, bytes, done, give_text, loc, with_id};
use crate::library::abi::{
    Herr, Hid, LinkCreate, LinkGet, LinkInfo, LinkInfoUnion, LinkSpecific, Loc, OptionalArgs, Req, Void,
    link_type,
};
use crate::library::failure::{Failure, Result};
use crate::library::props;
use crate::model::tree::{Link, Object, Order, TRACKED, Target};
use crate::object::handle::Handle;
use crate::object::place::ObjectRef;
use crate::object::walk::{LinkPlace, Walk, last, last_for_new, locate, nth_link, text, token_of, walk};

/// The link that a location refers to.
fn find(h: &Handle, loc: &Loc) -> Result<LinkPlace> {
    let here = h.place();
    // SAFETY: `kind` says which member of the union there is.
    unsafe {
        match loc.kind {
            1 => {
                let by = loc.data.by_name;
                last(&here, text(by.name), &mut Walk::by(h.context.host, by.lapl_id)?)
            }
            2 => {
                let by = loc.data.by_idx;
                let group = walk(&here, text(by.name), &mut Walk::by(h.context.host, by.lapl_id)?)?;
                let name = nth_link(&group, Order::of(by.idx_type, by.order), by.n)?;
                Ok(LinkPlace { group, name })
            }
            _ => Err(Failure::invalid("a link is found by its name or index")),
        }
    }
}

fn new_name(h: &Handle, loc: &Loc, lcpl: Hid, lapl: Hid) -> Result<(LinkPlace, u8)> {
    if loc.kind != 1 {
        return Err(Failure::invalid("a new link needs a name"));
    }
    // SAFETY: `kind` says so.
    let name = text(unsafe { loc.data.by_name.name });
    let (make, cset) = props::of_link(h.context.host, lcpl)?;
    Ok((last_for_new(&h.place(), name, make.then(Object::group).as_ref(), lapl)?, cset))
}

fn of(place: &LinkPlace) -> Result<Link> {
    let state = place.group.context.opening.shared.lock();
    let link = state.tree.group(place.group.id).and_then(|g| g.links.get(&place.name));
    link.cloned().ok_or_else(|| {
        Failure::not_found(format!("link '{}' doesn't exist", String::from_utf8_lossy(&place.name)))
    })
}

/// Puts a new link.
fn put(at: &LinkPlace, cset: u8, target: Target) -> Result<()> {
    at.group.context.writable()?;
    let mut state = at.group.context.opening.shared.lock();
    let group = state.tree.group(at.group.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
    if group.links.contains_key(&at.name) {
        return Err(Failure::exists(format!("name already exists: '{}'", String::from_utf8_lossy(&at.name))));
    }
    if !state.tree.link(at.group.id, &at.name, cset, target) {
        return Err(Failure::not_found("the object of the link is gone"));
    }
    state.dirty = true;
    Ok(())
}

/// Whether both objects are in the same file.
fn same_file(a: &ObjectRef, b: &ObjectRef) -> bool {
    Arc::ptr_eq(&a.context.opening.shared, &b.context.opening.shared)
}

pub(crate) unsafe extern "C" fn create(
    args_at: *mut LinkCreate,
    at: Void,
    loc_at: *const Loc,
    lcpl: Hid,
    lapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    // SAFETY: the library's arguments.
    let op = unsafe { args_at.as_ref() }.map_or(-1, |a| a.op);
    // A hard link may have only the object's location: then `at` is null.
    let at = match (at.is_null(), op) {
        // SAFETY: `op` says which member of the union there is.
        (true, 0) => unsafe { (*args_at).args.hard.obj },
        _ => at,
    };
    done(at, |h| {
        // SAFETY: as above.
        let (args, loc) = unsafe { (args(args_at)?, loc(loc_at)?) };
        let (to, cset) = new_name(h, loc, lcpl, lapl)?;
        // SAFETY: `op` says which member of the union there is.
        unsafe {
            match args.op {
                0 => {
                    let hard = args.args.hard;
                    let source = if hard.obj.is_null() { h } else { Handle::from_void(hard.obj)? };
                    let object = locate(source, &hard.loc)?;
                    if !same_file(&object, &to.group) {
                        return Err(Failure::invalid("a hard link cannot lead to another file"));
                    }
                    put(&to, cset, Target::Hard(object.id))
                }
                1 => put(&to, cset, Target::Soft(text(args.args.target).to_vec())),
                2 => {
                    let ud = args.args.ud;
                    if ud.kind != link_type::EXTERNAL {
                        return Err(Failure::unsupported("user-defined links other than external ones"));
                    }
                    put(&to, cset, Target::Custom(ud.kind, bytes(ud.buf, ud.size).to_vec()))
                }
                op => Err(Failure::unsupported(format!("link of kind {op}"))),
            }
        }
    })
}

/// Source and destination of a copy or move: either handle may be null, which then means the other.
fn both<'a>(from: Void, to: Void) -> Result<(&'a Handle, &'a Handle)> {
    let source = if from.is_null() { to } else { from };
    let target = if to.is_null() { from } else { to };
    Ok((Handle::from_void(source)?, Handle::from_void(target)?))
}

pub(crate) unsafe extern "C" fn copy(
    from: Void,
    from_loc: *const Loc,
    to: Void,
    to_loc: *const Loc,
    lcpl: Hid,
    lapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(if from.is_null() { to } else { from }, |_| {
        let (source, target) = both(from, to)?;
        // SAFETY: the library's arguments.
        let (a, b) = unsafe { (loc(from_loc)?, loc(to_loc)?) };
        let link = find(source, a)?;
        let value = of(&link)?.target;
        let (at, cset) = new_name(target, b, lcpl, lapl)?;
        if matches!(value, Target::Hard(_)) && !same_file(&link.group, &at.group) {
            return Err(Failure::invalid("a hard link cannot lead to another file"));
        }
        put(&at, cset, value)
    })
}

pub(crate) unsafe extern "C" fn relocate(
    from: Void,
    from_loc: *const Loc,
    to: Void,
    to_loc: *const Loc,
    lcpl: Hid,
    lapl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(if from.is_null() { to } else { from }, |_| {
        let (source, target) = both(from, to)?;
        // SAFETY: the library's arguments.
        let (a, b) = unsafe { (loc(from_loc)?, loc(to_loc)?) };
        let link = find(source, a)?;
        let old = of(&link)?;
        let (at, cset) = new_name(target, b, lcpl, lapl)?;
        if !same_file(&link.group, &at.group) {
            return Err(Failure::invalid("a link cannot be moved to another file"));
        }
        let cset = if lcpl == 0 { old.cset } else { cset };
        put(&at, cset, old.target)?;
        let mut state = link.group.context.opening.shared.lock();
        state.tree.unlink(link.group.id, &link.name);
        Ok(())
    })
}

/// The description of a link for the library.
pub(crate) fn info(link: &Link, tracked: bool) -> LinkInfo {
    let (kind, u) = match &link.target {
        Target::Hard(id) => (link_type::HARD, LinkInfoUnion { token: token_of(*id) }),
        Target::Soft(path) => (link_type::SOFT, LinkInfoUnion { size: path.len() + 1 }),
        Target::Custom(kind, value) => (*kind, LinkInfoUnion { size: value.len() }),
    };
    LinkInfo {
        kind,
        corder_valid: tracked,
        corder: if tracked { link.order } else { 0 },
        cset: c_int::from(link.cset),
        u,
    }
}

fn tracked(place: &ObjectRef) -> bool {
    let state = place.context.opening.shared.lock();
    state.tree.group(place.id).is_some_and(|g| g.order & TRACKED != 0)
}

pub(crate) unsafe extern "C" fn get(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut LinkGet,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let (loc, args) = (loc(loc_at)?, args(args_at)?);
            let place = find(h, loc)?;
            let link = of(&place)?;
            match args.op {
                0 => *super::args(args.args.info)? = info(&link, tracked(&place.group)),
                1 => {
                    let asked = args.args.name;
                    give_text(&place.name, asked.name, asked.size, asked.len);
                }
                2 => {
                    let asked = args.args.val;
                    let value = match link.target {
                        Target::Hard(_) => return Err(Failure::invalid("a hard link has no value")),
                        Target::Soft(mut path) => {
                            path.push(0);
                            path
                        }
                        Target::Custom(_, value) => value,
                    };
                    let n = value.len().min(asked.size);
                    if !asked.buf.is_null() {
                        std::ptr::copy_nonoverlapping(value.as_ptr(), asked.buf.cast(), n);
                    }
                }
                op => return Err(Failure::unsupported(format!("query {op} of a link"))),
            }
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn specific(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut LinkSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    super::with(at, -1, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let (loc, args) = (loc(loc_at)?, args(args_at)?);
            match args.op {
                0 => {
                    let place = find(h, loc)?;
                    place.group.context.writable()?;
                    let mut state = place.group.context.opening.shared.lock();
                    let gone = state.tree.unlink(place.group.id, &place.name);
                    let link = gone.ok_or_else(|| Failure::not_found("no such link"))?;
                    state.dirty = true;
                    if let Target::Hard(id) = link.target {
                        state.reap(id);
                    }
                }
                1 => *args.args.exists = exists(h, loc)?,
                2 => return iterate(locate(h, loc)?, args),
                op => return Err(Failure::unsupported(format!("operation {op} on a link"))),
            }
        }
        Ok(0)
    })
}

fn exists(h: &Handle, loc: &Loc) -> Result<bool> {
    if loc.kind == 1 {
        // SAFETY: `kind` says which member of the union there is.
        let by = unsafe { loc.data.by_name };
        let name = text(by.name);
        if name.iter().all(|b| *b == b'/') && !name.is_empty() {
            return Ok(true); // the root
        }
        let place = last(&h.place(), name, &mut Walk::by(h.context.host, by.lapl_id)?)?;
        return Ok(of(&place).is_ok());
    }
    Ok(find(h, loc).is_ok())
}

/// A link with its path relative to the start of an iteration.
type Visited = (Vec<u8>, LinkInfo);

fn list(place: &ObjectRef, order: Order) -> Result<Vec<Visited>> {
    let state = place.context.opening.shared.lock();
    let group = state.tree.group(place.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
    if order.by_creation && group.order & TRACKED == 0 {
        return Err(Failure::not_found("creation order is not tracked in this group"));
    }
    let tracked = group.order & TRACKED != 0;
    let names = state.tree.names(place.id, order);
    Ok(names
        .into_iter()
        .filter_map(|n| Some((info(group.links.get(&n)?, tracked), n)))
        .map(|(i, n)| (n, i))
        .collect())
}

/// All links below a group, each group entered once.
fn list_below(place: &ObjectRef, order: Order) -> Result<Vec<Visited>> {
    let mut out = Vec::new();
    let mut seen = std::collections::BTreeSet::from([place.id]);
    let mut look = vec![(place.clone(), Vec::new(), list(place, order)?.into_iter())];
    while let Some((group, path, mut rest)) = look.pop() {
        let Some((name, info)) = rest.next() else { continue };
        let full: Vec<u8> = if path.is_empty() { name.clone() } else { [&path[..], b"/", &name].concat() };
        out.push((full.clone(), info));
        look.push((group.clone(), path, rest));
        let child = {
            let state = group.context.opening.shared.lock();
            match state.tree.group(group.id).and_then(|g| g.links.get(&name)).map(|l| &l.target) {
                Some(Target::Hard(id)) if state.tree.group(*id).is_some() && seen.insert(*id) => Some(*id),
                _ => None,
            }
        };
        if let Some(id) = child {
            let place = ObjectRef { id, ..group.clone() };
            // If a group below does not track creation order, its links are sorted by name.
            let below =
                list(&place, order).or_else(|_| list(&place, Order { by_creation: false, ..order }))?;
            look.push((place, full, below.into_iter()));
        }
    }
    Ok(out)
}

fn iterate(place: ObjectRef, args: &mut LinkSpecific) -> Result<Herr> {
    // SAFETY: the caller has looked at `op`.
    let asked = unsafe { args.args.iterate };
    let op = asked.op.ok_or_else(|| Failure::invalid("no function to call"))?;
    let order = Order::of(asked.idx_type, asked.order);
    let links = if asked.recursive { list_below(&place, order)? } else { list(&place, order)? };
    // SAFETY: may be null.
    let skip = unsafe { asked.idx.as_ref() }.copied().unwrap_or(0) as usize;
    if skip > 0 && skip >= links.len() {
        return Err(Failure::invalid("invalid index specified"));
    }
    with_id(place, |id| {
        for (i, (name, info)) in links.iter().enumerate().skip(skip) {
            let Ok(name) = CString::new(name.clone()) else { continue };
            // SAFETY: the program's function, called as it expects.
            let rc = unsafe { op(id, name.as_ptr(), info, asked.op_data) };
            // SAFETY: may be null.
            if let Some(index) = unsafe { asked.idx.as_mut() } {
                *index = i as u64 + 1;
            }
            if rc != 0 {
                return rc;
            }
        }
        0
    })
}

pub(crate) unsafe extern "C" fn optional(
    at: Void,
    _loc: *const Loc,
    _args: *mut OptionalArgs,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |_| Err(Failure::unsupported("there are no optional operations on links")))
}
