//! Objects of any kind: opening, copying, looking up, visiting.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use crate::calls::{args, done, give_text, loc, made, with_id};
use crate::library::abi::{
    GetNativeInfo, Herr, Hid, Loc, NativeInfo, ObjectGet, ObjectInfo, ObjectSpecific, OptionalArgs,
    P_DEFAULT, Req, Void, object_type,
};
use crate::library::failure::{Failure, Result};
use crate::library::host::quietly;
use crate::library::nulls::References;
use crate::library::props;
use crate::library::space::Cells;
use crate::model::tree::{Body, Id, Object, Order, Space, Target};
use crate::object::handle::Handle;
use crate::object::kind::ObjectKind;
use crate::object::place::{ObjectRef, join};
use crate::object::walk::{Walk, last_for_new, locate, text, token_of, walk};

pub(crate) unsafe extern "C" fn open(
    at: Void,
    loc_at: *const Loc,
    opened: *mut c_int,
    _dxpl: Hid,
    _req: Req,
) -> Void {
    made(at, |h| {
        // SAFETY: the library's arguments.
        let place = locate(h, unsafe { loc(loc_at) }?)?;
        let (handle, kind) = Handle::object(place)?;
        // SAFETY: as above.
        unsafe { *opened = kind.id_type() };
        Ok(handle)
    })
}

pub(crate) unsafe extern "C" fn get(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut ObjectGet,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let (loc, args) = (loc(loc_at)?, args(args_at)?);
            match args.op {
                0 => *args.args.file = h.file(),
                1 => {
                    let asked = args.args.name;
                    give_text(&name(&locate(h, loc)?), asked.buf, asked.size, asked.len);
                }
                2 => *args.args.kind = kind(&locate(h, loc)?)?,
                3 => *super::args(args.args.info.info)? = info(&locate(h, loc)?)?,
                op => return Err(Failure::unsupported(format!("query {op} of an object"))),
            }
        }
        Ok(())
    })
}

/// The path of an object: the one by which it was reached if that still leads there, else any other, else
/// none.
fn name(place: &ObjectRef) -> Vec<u8> {
    let state = place.context.opening.shared.lock();
    let here = !place.name.is_empty()
        && (state.tree.plain(&place.name) == Some(place.id)
            || state.tree.plain(&place.name).is_none() && has_soft(&state.tree, &place.name));
    if here && state.tree.objects.get(&place.id).is_some_and(|o| o.nlink > 0) {
        return place.name.clone();
    }
    state.tree.path_of(place.id).unwrap_or_default()
}

/// Whether a path passes through a link that is not hard.
fn has_soft(tree: &crate::model::tree::Tree, path: &[u8]) -> bool {
    let mut at = crate::model::tree::ROOT;
    for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty()) {
        match tree.group(at).and_then(|g| g.links.get(name)).map(|l| &l.target) {
            Some(Target::Hard(id)) => at = *id,
            Some(_) => return true,
            None => return false,
        }
    }
    false
}

fn kind(place: &ObjectRef) -> Result<c_int> {
    Ok(match place.kind()? {
        ObjectKind::Dataset => object_type::DATASET,
        ObjectKind::Datatype => object_type::DATATYPE,
        _ => object_type::GROUP,
    })
}

fn info(place: &ObjectRef) -> Result<ObjectInfo> {
    let kind = kind(place)?;
    let shared = &place.context.opening.shared;
    let state = shared.lock();
    let object = state.tree.objects.get(&place.id).ok_or_else(|| Failure::not_found("the object is gone"))?;
    Ok(ObjectInfo {
        fileno: shared.number,
        token: token_of(place.id),
        kind,
        rc: state.tree.references(place.id),
        atime: object.times.access,
        mtime: object.times.modified,
        ctime: object.times.changed,
        btime: object.times.born,
        num_attrs: object.attributes.len() as u64,
    })
}

pub(crate) unsafe extern "C" fn specific(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut ObjectSpecific,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    super::with(at, -1, |h| {
        // SAFETY: the library's arguments; `op` says which member of the union there is.
        unsafe {
            let (loc, args) = (loc(loc_at)?, args(args_at)?);
            match args.op {
                0 => {
                    let place = locate(h, loc)?;
                    change_references(&place, args.args.delta)?;
                }
                1 => *args.args.exists = exists(h, loc)?,
                2 => *super::args(args.args.token)? = token_of(locate(h, loc)?.id),
                3 => return visit(&locate(h, loc)?, args),
                4 => h.context.opening.flush()?,
                5 => h.context.opening.shared.refresh()?,
                op => return Err(Failure::unsupported(format!("operation {op} on an object"))),
            }
        }
        Ok(0)
    })
}

/// Increments the reference count of an object, or decrements it again. At zero the object is removed, once
/// nothing holds it open.
fn change_references(place: &ObjectRef, delta: c_int) -> Result<()> {
    place.context.writable()?;
    let mut state = place.context.opening.shared.lock();
    for _ in 0..delta.unsigned_abs() {
        if !state.tree.count_reference(place.id, delta > 0) {
            return Err(Failure::invalid(
                "an object's reference count cannot fall below the number of hard links that lead to it",
            ));
        }
    }
    state.dirty = true;
    state.reap(place.id);
    Ok(())
}

fn exists(h: &Handle, loc: &Loc) -> Result<bool> {
    if loc.kind != 1 {
        return Ok(locate(h, loc).is_ok());
    }
    // SAFETY: `kind` says which member of the union there is.
    let by = unsafe { loc.data.by_name };
    let name = text(by.name);
    let mut walking = Walk::by(h.context.host, by.lapl_id)?;
    if name.iter().all(|b| *b == b'/') && !name.is_empty() {
        return Ok(true);
    }
    // The last link must exist; its target need not.
    let at = crate::object::walk::last(&h.place(), name, &mut walking)?;
    let there = {
        let state = at.group.context.opening.shared.lock();
        state.tree.group(at.group.id).is_some_and(|g| g.links.contains_key(&at.name))
    };
    if !there {
        return Err(Failure::not_found("component not found"));
    }
    Ok(crate::object::walk::step(&at.group, &at.name, &mut walking).is_ok())
}

/// Objects below a group, each once, by the first path that leads there, groups before their content.
fn below(place: &ObjectRef, order: Order) -> Vec<(Vec<u8>, Id)> {
    let state = place.context.opening.shared.lock();
    let mut out = vec![(b".".to_vec(), place.id)];
    let mut seen = BTreeSet::from([place.id]);
    let names = |id: Id| {
        let tracked = state.tree.group(id).is_some_and(|g| g.order & 1 != 0);
        state.tree.names(id, Order { by_creation: order.by_creation && tracked, ..order }).into_iter()
    };
    let mut look = vec![(place.id, Vec::new(), names(place.id))];
    while let Some((group, path, mut rest)) = look.pop() {
        let Some(name) = rest.next() else { continue };
        let full: Vec<u8> = if path.is_empty() { name.clone() } else { [&path[..], b"/", &name].concat() };
        look.push((group, path, rest));
        if let Some(Target::Hard(id)) =
            state.tree.group(group).and_then(|g| Some(g.links.get(&name)?.target.clone()))
            && seen.insert(id)
        {
            out.push((full.clone(), id));
            if state.tree.group(id).is_some() {
                look.push((id, full, names(id)));
            }
        }
    }
    out
}

fn visit(place: &ObjectRef, args: &mut ObjectSpecific) -> Result<Herr> {
    // SAFETY: the caller has looked at `op`.
    let asked = unsafe { args.args.visit };
    let op = asked.op.ok_or_else(|| Failure::invalid("no function to call"))?;
    let list = below(place, Order::of(asked.idx_type, asked.order));
    with_id(place.clone(), |id| {
        for (name, object) in &list {
            let (Ok(name), Ok(info)) =
                (CString::new(name.clone()), info(&ObjectRef { id: *object, ..place.clone() }))
            else {
                continue;
            };
            // SAFETY: the program's function, called as it expects.
            let rc = unsafe { op(id, name.as_ptr(), &info, asked.op_data) };
            if rc != 0 {
                return rc;
            }
        }
        0
    })
}

/// Comments, and storage information that h5py asks for.
pub(crate) unsafe extern "C" fn optional(
    at: Void,
    loc_at: *const Loc,
    args_at: *mut OptionalArgs,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(at, |h| {
        // SAFETY: the library's arguments, of the operation that they say.
        unsafe {
            let (loc, args) = (loc(loc_at)?, args(args_at)?);
            let place = locate(h, loc)?;
            match args.op_type {
                0 => {
                    #[repr(C)]
                    struct Comment {
                        size: usize,
                        buf: *mut c_char,
                        len: *mut usize,
                    }
                    let asked = super::args(args.args.cast::<Comment>())?;
                    let state = place.context.opening.shared.lock();
                    let comment = state.tree.objects.get(&place.id).map(|o| o.comment.clone());
                    give_text(&comment.unwrap_or_default(), asked.buf, asked.size, asked.len);
                }
                1 => {
                    place.context.writable()?;
                    let comment = text(*args.args.cast::<*const c_char>()).to_vec();
                    let mut state = place.context.opening.shared.lock();
                    if let Some(object) = state.tree.objects.get_mut(&place.id) {
                        object.comment = comment;
                    }
                    state.dirty = true;
                }
                5 => {
                    let asked = super::args(args.args.cast::<GetNativeInfo>())?;
                    *super::args(asked.info)? =
                        NativeInfo { version: 2, nchunks: 1, ..NativeInfo::default() };
                }
                op => {
                    return Err(Failure::unsupported(format!(
                        "object operation {op} is only there for native files"
                    )));
                }
            }
        }
        Ok(())
    })
}

/// The options of a copy.
struct Copying {
    shallow: bool,
    soft: bool,
    external: bool,
    attributes: bool,
    references: bool,
    done: BTreeMap<Id, Id>,
}

pub(crate) unsafe extern "C" fn copy(
    from: Void,
    from_loc: *const Loc,
    from_name: *const c_char,
    to: Void,
    to_loc: *const Loc,
    to_name: *const c_char,
    ocpypl: Hid,
    lcpl: Hid,
    _dxpl: Hid,
    _req: Req,
) -> Herr {
    done(from, |source| {
        let host = source.context.host;
        let target = Handle::from_void(to)?;
        // SAFETY: the library's arguments.
        let (a, b) = unsafe { (loc(from_loc)?, loc(to_loc)?) };
        let object = walk(&locate(source, a)?, text(from_name), &mut Walk::by(host, P_DEFAULT)?)?;
        let mut flags = 0;
        if ocpypl != P_DEFAULT {
            // SAFETY: writes one number.
            quietly(host, || unsafe { (host.api.H5Pget_copy_object)(ocpypl, &mut flags) });
        }
        let (make, cset) = props::of_link(host, lcpl)?;
        let at =
            last_for_new(&locate(target, b)?, text(to_name), make.then(Object::group).as_ref(), P_DEFAULT)?;
        at.group.context.writable()?;
        {
            let state = at.group.context.opening.shared.lock();
            let group = state.tree.group(at.group.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
            if group.links.contains_key(&at.name) {
                return Err(Failure::exists("destination object already exists"));
            }
        }
        let mut copying = Copying {
            shallow: flags & 1 != 0,
            soft: flags & 2 != 0,
            external: flags & 4 != 0,
            references: flags & 8 != 0,
            attributes: flags & 0x10 == 0,
            done: BTreeMap::new(),
        };
        if copying.references {
            return Err(Failure::unsupported("copying what references point to is not supported"));
        }
        let path = join(&at.group.name, &at.name);
        // With several ranks the first one copies the values that all have written before.
        let opening = &at.group.context.opening;
        let together = opening.team().is_some();
        if together {
            object.context.opening.flush()?;
            opening.flush()?;
        }
        let id = copy_object(&object, &at.group, &path, 0, &mut copying)?;
        let mut state = opening.shared.lock();
        if !state.tree.link(at.group.id, &at.name, cset, Target::Hard(id)) {
            return Err(Failure::exists("destination object already exists"));
        }
        state.dirty = true;
        drop(state);
        if together { opening.flush() } else { Ok(()) }
    })
}

/// Copies an object into the file of `to`; returns its id there.
fn copy_object(
    from: &ObjectRef,
    to: &ObjectRef,
    path: &[u8],
    depth: u32,
    copying: &mut Copying,
) -> Result<Id> {
    if let Some(id) = copying.done.get(&from.id) {
        return Ok(*id);
    }
    let (source, target) = (&from.context.opening.shared, &to.context.opening.shared);
    let same = Arc::ptr_eq(source, target);
    let original = {
        let state = source.lock();
        state.tree.objects.get(&from.id).cloned().ok_or_else(|| Failure::not_found("the object is gone"))?
    };
    let mut object = Object { nlink: 0, ..original.clone() };
    if !copying.attributes {
        object.attributes.clear();
    }
    let host = from.context.host;
    for attribute in object.attributes.values_mut() {
        if !same {
            attribute.dtype.committed = None;
            attribute.data =
                carry(host, from, to, &attribute.dtype.encoded, std::mem::take(&mut attribute.data))?;
        }
    }
    match &mut object.body {
        Body::Dataset(dataset) => {
            dataset.variable = None;
            dataset.high = vec![0; dataset.space.dims().len()];
            if !same {
                dataset.dtype.committed = None;
                if let Some(fill) = dataset.fill.take() {
                    dataset.fill = Some(carry(host, from, to, &dataset.dtype.encoded, fill)?);
                }
            }
        }
        Body::Group(group) => group.links.clear(),
        Body::Type(_) => {}
    }
    let id = {
        let mut state = target.lock();
        let id = state.tree.add(object);
        // No link leads there yet: held, so that it is not removed as garbage.
        state.hold(id);
        if let Ok(text) = std::str::from_utf8(path) {
            state.named.insert(id, text.to_string());
        }
        state.dirty = true;
        id
    };
    copying.done.insert(from.id, id);
    let result = match &original.body {
        Body::Dataset(dataset) => copy_values(from, to, id, &dataset.space, &dataset.dtype.encoded),
        Body::Group(group) if !(copying.shallow && depth > 0) => {
            copy_links(from, &ObjectRef { id, name: path.to_vec(), ..to.clone() }, group, depth, copying)
        }
        _ => Ok(()),
    };
    if let Some(n) = target.lock().open.get_mut(&id) {
        *n -= 1;
    }
    target.lock().open.retain(|_, n| *n > 0);
    result.map(|()| id)
}

fn copy_links(
    from: &ObjectRef,
    to: &ObjectRef,
    group: &crate::model::tree::Group,
    depth: u32,
    copying: &mut Copying,
) -> Result<()> {
    if depth > 1000 {
        return Err(Failure::loops("groups are nested too deeply to be copied"));
    }
    let mut links: Vec<_> = group.links.iter().collect();
    links.sort_by_key(|(_, l)| l.order);
    for (name, link) in links {
        let path = join(&to.name, name);
        let expand = match &link.target {
            Target::Hard(_) => true,
            Target::Soft(_) => copying.soft,
            Target::Custom(..) => copying.external,
        };
        let found = match expand {
            true => crate::object::walk::step(from, name, &mut Walk::by(from.context.host, P_DEFAULT)?).ok(),
            false => None,
        };
        let target = match found {
            Some(child) => {
                let file = Arc::ptr_eq(&child.context.opening.shared, &from.context.opening.shared);
                let mut other = Copying { done: BTreeMap::new(), ..*copying_like(copying) };
                let id = match file {
                    true => copy_object(&child, to, &path, depth + 1, copying)?,
                    false => copy_object(&child, to, &path, depth + 1, &mut other)?,
                };
                Target::Hard(id)
            }
            None => link.target.clone(),
        };
        let mut state = to.context.opening.shared.lock();
        state.tree.link(to.id, name, link.cset, target);
    }
    Ok(())
}

fn copying_like(c: &Copying) -> Box<Copying> {
    Box::new(Copying {
        shallow: c.shallow,
        soft: c.soft,
        external: c.external,
        attributes: c.attributes,
        references: c.references,
        done: BTreeMap::new(),
    })
}

/// Copies the values of a dataset, a slab at a time.
fn copy_values(from: &ObjectRef, to: &ObjectRef, id: Id, space: &Space, encoded: &[u8]) -> Result<()> {
    let (source, target) = (&from.context.opening.shared, &to.context.opening.shared);
    let dims = space.dims().to_vec();
    let item = source.lock().shape(from.id)?.1;
    let others_do = to.context.opening.team().is_some_and(|team| !team.is_first());
    if space.points().unwrap_or(0) == 0 || others_do {
        return Ok(());
    }
    let row: u64 = dims.iter().skip(1).product::<u64>().max(1);
    let step = ((8 << 20) / (row * item as u64)).max(1);
    let rows = dims.first().copied().unwrap_or(1);
    let same = Arc::ptr_eq(source, target);
    let mut at = 0;
    while at < rows {
        let n = step.min(rows - at);
        let (mut first, mut count) = (vec![0; dims.len()], dims.clone());
        if !dims.is_empty() {
            first[0] = at;
            count[0] = n;
        }
        let cells = Cells::Box(first, count);
        let mut data = source.read(from.id, &cells)?;
        if !same {
            data = carry(from.context.host, from, to, encoded, data)?;
        }
        target.write(id, &cells, data)?;
        at += n;
    }
    Ok(())
}

/// Converts elements of one file to elements of another: values of variable length are copied from heap to heap, and
/// references become null.
fn carry(
    host: &'static crate::library::host::Host,
    from: &ObjectRef,
    to: &ObjectRef,
    encoded: &[u8],
    mut data: Vec<u8>,
) -> Result<Vec<u8>> {
    use crate::library::types;
    let seen = types::decode(host, encoded)?;
    let references = References::of(&seen)?;
    let clear = |data: &mut [u8]| -> Result<()> {
        let Some(references) = &references else { return Ok(()) };
        // SAFETY: elements of the type; the library has made their sequences.
        data.chunks_exact_mut(seen.size().max(1)).try_for_each(|element| unsafe { references.clear(element) })
    };
    if data.is_empty() {
        return Ok(data);
    }
    if !seen.is_variable() {
        clear(&mut data)?;
        return Ok(data);
    }
    let (a, _) = Handle::object(ObjectRef { id: crate::model::tree::ROOT, ..from.clone() })?;
    let (b, _) = Handle::object(ObjectRef { id: crate::model::tree::ROOT, ..to.clone() })?;
    let result = (|| {
        let plain = types::plain(host, seen.id)?;
        let there = types::disk(host, a, from.context.connector, seen.id, encoded)?;
        let here = types::disk(host, b, to.context.connector, seen.id, encoded)?;
        let n = (data.len() / there.size().max(1)) as u64;
        let mut memory = types::convert(host, &there, &plain, n, data, None, P_DEFAULT)?;
        // A reference of its own stays in `memory`, which frees it.
        let mut copied = memory.clone();
        let out =
            clear(&mut copied).and_then(|()| types::convert(host, &plain, &here, n, copied, None, P_DEFAULT));
        types::reclaim(host, &plain, n, &mut memory);
        out
    })();
    Handle::close(a)?;
    Handle::close(b)?;
    result
}
