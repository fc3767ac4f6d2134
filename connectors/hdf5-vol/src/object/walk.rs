//! From names, indexes and tokens to objects: links are followed, also into other files.

use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::file::far;
use crate::file::opening::{Opening, path_of};
use crate::library::abi::{Hid, Loc, P_DEFAULT, Token, access, link_type};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::library::props::List;
use crate::model::tree::{Body, Id, Object, Order, ROOT, Target};
use crate::object::context::Context;
use crate::object::handle::Handle;
use crate::object::place::ObjectRef;

/// A string that the library gave; empty without.
#[allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "callers hand on what the library gave them for this call"
)]
pub fn text<'a>(at: *const c_char) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the library gives strings that end with NUL and live through the callback.
    unsafe { CStr::from_ptr(at) }.to_bytes()
}

/// A link by its group and name.
pub struct LinkPlace {
    /// The group.
    pub group: ObjectRef,
    /// The name in it.
    pub name: Vec<u8>,
}

/// How links are followed.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// Soft and external links that may still be followed.
    pub links: u32,
    /// List of link access.
    pub lapl: Hid,
}

impl Walk {
    /// The limit of a link access list, or of one of a derived class; refuses any other id.
    pub fn by(host: &Host, lapl: Hid) -> Result<Walk> {
        let mut links = 16usize;
        // SAFETY: any id may be given; writes one number.
        if lapl != P_DEFAULT && quietly(host, || unsafe { (host.api.H5Pget_nlinks)(lapl, &mut links) }) < 0 {
            return Err(Failure::wrong_kind("not a link access property list"));
        }
        Ok(Walk { links: links.clamp(1, 1000) as u32, lapl })
    }
}

/// Follows a path from an object.
pub fn walk(from: &ObjectRef, path: &[u8], walk: &mut Walk) -> Result<ObjectRef> {
    let mut at = from.clone();
    if path.first() == Some(&b'/') {
        at = ObjectRef { context: at.context, id: ROOT, name: b"/".to_vec() };
    }
    for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".") {
        at = step(&at, name, walk)?;
    }
    Ok(at)
}

/// Follows one link.
pub fn step(group: &ObjectRef, name: &[u8], walking: &mut Walk) -> Result<ObjectRef> {
    let target = {
        let state = group.context.opening.shared.lock();
        let Some(links) = state.tree.group(group.id) else {
            return Err(Failure::not_found(format!(
                "component not found: '{}' is looked up in something that is not a group",
                String::from_utf8_lossy(name)
            )));
        };
        let link = links.links.get(name).ok_or_else(|| {
            Failure::not_found(format!("object '{}' doesn't exist", String::from_utf8_lossy(name)))
        })?;
        link.target.clone()
    };
    if !matches!(target, Target::Hard(_)) {
        walking.links = walking.links.checked_sub(1).ok_or_else(|| Failure::loops("too many links"))?;
    }
    match target {
        Target::Hard(id) => Ok(group.child(name, id)),
        Target::Soft(path) => {
            let found = walk(group, &path, walking)?;
            Ok(match Arc::ptr_eq(&found.context, &group.context) {
                true => group.child(name, found.id),
                false => found,
            })
        }
        Target::Custom(link_type::EXTERNAL, value) => external(group, &value, walking),
        Target::Custom(kind, _) => {
            Err(Failure::unsupported(format!("links of the user-defined class {kind} cannot be followed")))
        }
    }
}

/// The file and the path in it that an external link names.
pub fn unpack_external(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = value.get(1..)?.split(|b| *b == 0);
    Some((parts.next()?, parts.next()?))
}

fn external(group: &ObjectRef, value: &[u8], walking: &mut Walk) -> Result<ObjectRef> {
    let (file, path) = unpack_external(value).ok_or_else(|| Failure::damaged("an external link is empty"))?;
    let (host, opening) = (group.context.host, &group.context.opening);
    let mut prefix = [0u8; 1024];
    if walking.lapl != P_DEFAULT {
        // SAFETY: the buffer has the room that the call is told.
        quietly(host, || unsafe {
            (host.api.H5Pget_elink_prefix)(walking.lapl, prefix.as_mut_ptr().cast(), prefix.len())
        });
    }
    let prefix = prefix.split(|b| *b == 0).next().unwrap_or_default();
    let beside = opening.shared.path.parent().unwrap_or(Path::new("."));
    let asked = path_of(file);
    let is_far = |path: &Path| far::url(path.as_os_str().as_encoded_bytes()).is_some();
    let mut candidates = Vec::new();
    if asked.is_absolute() {
        candidates.push(asked.to_path_buf());
    }
    let tail = if asked.is_absolute() { asked.file_name().map(Path::new).unwrap_or(asked) } else { asked };
    if let Some(paths) = std::env::var_os("HDF5_EXT_PREFIX") {
        candidates.extend(std::env::split_paths(&paths).map(|p| p.join(tail)));
    }
    if !prefix.is_empty() {
        candidates.push(path_of(prefix).join(tail));
    }
    if is_far(asked) {
        candidates.clear();
    } else {
        candidates.push(beside.join(tail));
    }
    candidates.push(tail.to_path_buf());
    let there = |path: &Path| match is_far(path) {
        true => Opening::accessible(path.as_os_str().as_encoded_bytes()).unwrap_or(false),
        false => path.is_file(),
    };
    let place = candidates.iter().find(|path| there(path)).ok_or_else(|| {
        Failure::no_file(format!(
            "unable to open external file, external link file name = '{}'",
            String::from_utf8_lossy(file)
        ))
    })?;
    use std::os::unix::ffi::OsStrExt;
    let (mut flags, mut list) = (access::INHERITED, None);
    if walking.lapl != P_DEFAULT {
        // SAFETY: writes one number.
        quietly(host, || unsafe { (host.api.H5Pget_elink_acc_flags)(walking.lapl, &mut flags) });
        // SAFETY: gives a copy of the list that is set, which is ours then, or the default.
        let fapl = quietly(host, || unsafe { (host.api.H5Pget_elink_fapl)(walking.lapl) });
        list = (fapl > P_DEFAULT).then(|| List::own(host, fapl));
    }
    if flags == access::INHERITED {
        flags = opening.flags & (access::RDWR | access::SWMR_READ);
    }
    if list.is_none() {
        list = group.context.access.as_ref().and_then(|list| List::copy(host, list.id).ok());
    }
    let there = Opening::open(place.as_os_str().as_bytes(), flags, opening.shared.config, None)?;
    // SAFETY: another reference to an id that the group's context holds.
    unsafe { (host.api.H5Iinc_ref)(group.context.connector) };
    let context = Arc::new(Context {
        host,
        opening: there,
        connector: group.context.connector,
        mimic: group.context.mimic,
        kept: group.context.kept,
        access: list,
        file: AtomicUsize::new(0),
        creation: Mutex::default(),
    });
    walk(&ObjectRef { context, id: ROOT, name: b"/".to_vec() }, path, walking)
}

/// The group and last name of a path, on which a link operation acts.
pub fn last(from: &ObjectRef, path: &[u8], walking: &mut Walk) -> Result<LinkPlace> {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
    let cut = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
    let name = path[cut..end].to_vec();
    if name.is_empty() || name == b"." {
        return Err(Failure::invalid("no name given"));
    }
    let group = walk(from, &path[..cut], walking)?;
    Ok(LinkPlace { group, name })
}

/// The group and last name for a new link; groups between are created, with the properties of the given one,
/// if the program asks for that.
pub fn last_for_new(from: &ObjectRef, path: &[u8], between: Option<&Object>, lapl: Hid) -> Result<LinkPlace> {
    let host = from.context.host;
    if let Some(between) = between {
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let cut = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
        let mut at = from.clone();
        if path.first() == Some(&b'/') {
            at = ObjectRef { context: at.context, id: ROOT, name: b"/".to_vec() };
        }
        for name in path[..cut].split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".") {
            let there = {
                let state = at.context.opening.shared.lock();
                state.tree.group(at.id).is_some_and(|g| g.links.contains_key(name))
            };
            if there {
                at = step(&at, name, &mut Walk::by(host, lapl)?)?;
                continue;
            }
            at.context.writable()?;
            let mut state = at.context.opening.shared.lock();
            let mut made = between.clone();
            // As in native HDF5: creation order of links is as in the group that contains the new one.
            if let (Body::Group(made), Some(parent)) = (&mut made.body, state.tree.group(at.id)) {
                made.order = parent.order;
            }
            let id = state.tree.add(made);
            if !state.tree.link(at.id, name, 0, Target::Hard(id)) {
                return Err(Failure::not_found("component not found"));
            }
            state.dirty = true;
            drop(state);
            at = at.child(name, id);
        }
    }
    last(from, path, &mut Walk::by(host, lapl)?)
}

/// The object that a callback's location refers to.
pub fn locate(handle: &Handle, loc: &Loc) -> Result<ObjectRef> {
    let here = handle.place();
    // SAFETY: `kind` says which member of the union there is; strings and tokens live through the callback.
    unsafe {
        match loc.kind {
            0 => Ok(here),
            1 => {
                let by = loc.data.by_name;
                walk(&here, text(by.name), &mut Walk::by(handle.context.host, by.lapl_id)?)
            }
            2 => {
                let by = loc.data.by_idx;
                let mut walking = Walk::by(handle.context.host, by.lapl_id)?;
                let group = walk(&here, text(by.name), &mut walking)?;
                let name = nth_link(&group, Order::of(by.idx_type, by.order), by.n)?;
                step(&group, &name, &mut walking)
            }
            3 => {
                let token = loc.data.token.as_ref().ok_or_else(|| Failure::invalid("no token"))?;
                let id = id_of(token);
                let state = here.context.opening.shared.lock();
                if !state.tree.objects.contains_key(&id) {
                    return Err(Failure::not_found("no object has this token"));
                }
                let name = state.tree.path_of(id).unwrap_or_default();
                drop(state);
                Ok(ObjectRef { id, name, ..here })
            }
            _ => Err(Failure::invalid("unknown kind of location")),
        }
    }
}

impl Order {
    /// From the library's numbers.
    pub fn of(index: i32, order: i32) -> Order {
        Order { by_creation: index == 1, descending: order == 1 }
    }
}

/// Name of the link with a number in a group.
pub fn nth_link(group: &ObjectRef, order: Order, n: u64) -> Result<Vec<u8>> {
    let state = group.context.opening.shared.lock();
    let links = state.tree.group(group.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
    if order.by_creation && links.order & crate::model::tree::TRACKED == 0 {
        return Err(Failure::not_found("creation order is not tracked in this group"));
    }
    let names = state.tree.names(group.id, order);
    let name = usize::try_from(n).ok().and_then(|n| names.into_iter().nth(n));
    name.ok_or_else(|| Failure::invalid("index out of bound"))
}

/// The token of an object.
pub fn token_of(id: Id) -> Token {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&id.to_le_bytes());
    Token(token)
}

/// The object of a token.
pub fn id_of(token: &Token) -> Id {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&token.0[..8]);
    u64::from_le_bytes(bytes)
}
