//! What the library holds of us: one handle per open file, object or attribute, and the way from names to objects.
//!
//! Invariants
//! - a pointer that comes back is used only if it is in the set of live handles;
//! - a handle keeps its object from being removed, and its file from being closed.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{Hid, Loc, P_DEFAULT, Token, Void, access, link_type};
use crate::config::Mimic;
use crate::failure::{Failure, Result};
use crate::host::{Host, quietly};
use crate::opening::{Opening, path_of};
use crate::props::List;
use crate::publish;
use crate::shadow;
use crate::tree::{Body, Id, Order, ROOT, Target};
use crate::types::Type;

/// What all handles of one opening share.
pub struct Context {
    /// The library.
    pub host: &'static Host,
    /// The opening.
    pub opening: Arc<Opening>,
    /// Our id in that library.
    pub connector: Hid,
    /// Do we claim to be native?
    pub mimic: bool,
    /// What the program's access list says and is told again, though it means nothing here.
    pub kept: Kept,
    /// A copy of that list, which is given back whole; not of several ranks, where a copy would be a message to all.
    pub access: Option<List>,
    /// The list that a dataset was created with last.
    pub creation: Mutex<Option<Arc<List>>>,
}

/// Settings of an access list: the oldest and newest format, and the chunk cache.
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Kept {
    pub versions: Option<(i32, i32)>,
    pub cache: Option<(i32, usize, usize, f64)>,
}

impl Kept {
    fn of(host: &Host, fapl: Hid) -> Kept {
        let (mut oldest, mut newest, mut elements, mut slots, mut bytes, mut weight) = (0, 0, 0, 0, 0, 0.0);
        // SAFETY: writes numbers.
        quietly(host, || unsafe {
            let versions = (host.api.H5Pget_libver_bounds)(fapl, &mut oldest, &mut newest) >= 0;
            let cache =
                (host.api.H5Pget_cache)(fapl, &mut elements, &mut slots, &mut bytes, &mut weight) >= 0;
            Kept {
                versions: versions.then_some((oldest, newest)),
                cache: cache.then_some((elements, slots, bytes, weight)),
            }
        })
    }

    /// Says it to a list.
    pub fn give(self, host: &Host, list: Hid) {
        // SAFETY: a list of ours, and numbers.
        quietly(host, || unsafe {
            if let Some((oldest, newest)) = self.versions {
                (host.api.H5Pset_libver_bounds)(list, oldest, newest);
            }
            if let Some((elements, slots, bytes, weight)) = self.cache {
                (host.api.H5Pset_cache)(list, elements, slots, bytes, weight);
            }
        });
    }
}

impl Context {
    /// For an opening through a file access list.
    pub fn new(host: &'static Host, opening: Arc<Opening>, fapl: Hid) -> Arc<Context> {
        let mimic = match opening.shared.config.mimic {
            Mimic::Auto => host.may_mimic(),
            Mimic::On => true,
            Mimic::Off => false,
        };
        let mut connector: Hid = -1;
        // SAFETY: writes one id, whose reference we keep.
        quietly(host, || unsafe { (host.api.H5Pget_vol_id)(fapl, &mut connector) });
        let access = if opening.team().is_none() { List::copy(host, fapl).ok() } else { None };
        let kept = Kept::of(host, fapl);
        Arc::new(Context { host, opening, connector, mimic, kept, access, creation: Mutex::default() })
    }

    /// A copy of a list that a dataset is created with. Programs create many with one list, and a comparison costs less than a copy.
    pub fn copy_of(&self, list: Hid) -> Option<Arc<List>> {
        let mut last = self.creation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = last.as_ref().filter(|last| last.says_the_same(list)) {
            return Some(same.clone());
        }
        last.clone_from(&List::copy(self.host, list).ok().map(Arc::new));
        last.clone()
    }

    /// Refuses to change what was opened for reading.
    pub fn writable(&self) -> Result<()> {
        match self.opening.writable() {
            true => Ok(()),
            false => Err(Failure::read_only("no write intent on file")),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Where objects outlived their file's id, nobody is left to whom the library would give an error.
        if let Err(failure) = publish::at_the_end(self) {
            eprintln!("drystone: {}", failure.message);
        }
        if self.connector > 0 {
            // SAFETY: the reference that `new` got.
            quietly(self.host, || unsafe { (self.host.api.H5Idec_ref)(self.connector) });
        }
    }
}

/// What is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Group,
    Dataset,
    Datatype,
    /// An attribute of the object, by its name.
    Attribute(Vec<u8>),
}

/// Something open.
pub struct Handle {
    /// Its opening.
    pub context: Arc<Context>,
    /// What it is.
    pub kind: Kind,
    /// The object; of an attribute that which has it.
    pub id: Id,
    /// The path by which it was reached.
    pub name: Vec<u8>,
    /// The type as programs see it and as it lies in the file, once they are needed.
    pub types: OnceCell<(Type, Type)>,
    /// The list it was created with, in this session.
    pub created: OnceCell<Arc<List>>,
    /// The list it was opened with.
    pub accessed: OnceCell<List>,
    /// Of a file: was the program told that closing failed? The library then keeps the handle, and closes it once more.
    pub told: Cell<bool>,
}

static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static RAW: Cell<bool> = const { Cell::new(false) };
}

/// Is a lookup of our own under way, which wants handles and not what programs are shown?
pub fn is_raw() -> bool {
    RAW.get()
}

/// Our handle behind an id of the library, if it is one.
pub fn behind(host: &Host, id: Hid) -> Option<&'static Handle> {
    RAW.set(true);
    // SAFETY: any id may be given; what comes back is checked before it is used.
    let found = quietly(host, || unsafe { (host.api.H5VLobject)(id) });
    RAW.set(false);
    Handle::from_void(found).ok()
}

impl Handle {
    /// Puts a handle where the library can hold it.
    pub fn hold(context: Arc<Context>, kind: Kind, id: Id, name: Vec<u8>) -> Void {
        context.opening.shared.lock().hold(id);
        let handle = Handle {
            context,
            kind,
            id,
            name,
            types: OnceCell::new(),
            created: OnceCell::new(),
            told: Cell::new(false),
            accessed: OnceCell::new(),
        };
        let at = Box::into_raw(Box::new(handle));
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(at as usize);
        at.cast()
    }

    /// A handle for an object.
    pub fn object(place: Place) -> Result<(Void, Kind)> {
        let kind = place.kind()?;
        Ok((Handle::hold(place.context, kind.clone(), place.id, place.name), kind))
    }

    /// The handle that the library holds.
    pub fn from_void<'a>(at: Void) -> Result<&'a Handle> {
        if LIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(&(at as usize)) {
            // SAFETY: it is live, and only `close`, called once by the library for each, ends that.
            return Ok(unsafe { &*at.cast::<Handle>() });
        }
        Err(Failure::wrong_kind("not an object of this connector"))
    }

    /// Ends a handle.
    pub fn close(at: Void) -> Result<()> {
        Handle::from_void(at)?;
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&(at as usize));
        // SAFETY: it was live, and is so no longer.
        let handle = unsafe { Box::from_raw(at.cast::<Handle>()) };
        handle.context.opening.shared.lock().release(handle.id);
        drop(handle);
        Ok(())
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place { context: self.context.clone(), id: self.id, name: self.name.clone() }
    }

    /// As the library holds it.
    pub fn void(&self) -> Void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// An object of an open file.
#[derive(Clone)]
pub struct Place {
    /// The opening.
    pub context: Arc<Context>,
    /// The object.
    pub id: Id,
    /// The path by which it was reached.
    pub name: Vec<u8>,
}

impl Place {
    /// What it is.
    pub fn kind(&self) -> Result<Kind> {
        let state = self.context.opening.shared.lock();
        match state.tree.objects.get(&self.id).map(|o| &o.body) {
            Some(Body::Group(_)) => Ok(Kind::Group),
            Some(Body::Dataset(_)) => Ok(Kind::Dataset),
            Some(Body::Type(_)) => Ok(Kind::Datatype),
            None => Err(Failure::not_found("the object is gone")),
        }
    }

    fn child(&self, name: &[u8], id: Id) -> Place {
        Place { context: self.context.clone(), id, name: join(&self.name, name) }
    }
}

/// A path in a group.
pub fn join(group: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = group.to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

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
    pub group: Place,
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
    /// By a list of link access.
    pub fn by(host: &Host, lapl: Hid) -> Walk {
        let mut links = 16usize;
        if lapl != P_DEFAULT {
            // SAFETY: writes one number.
            quietly(host, || unsafe { (host.api.H5Pget_nlinks)(lapl, &mut links) });
        }
        Walk { links: links.clamp(1, 1000) as u32, lapl }
    }
}

/// Follows a path from an object.
pub fn walk(from: &Place, path: &[u8], walk: &mut Walk) -> Result<Place> {
    let mut at = from.clone();
    if path.first() == Some(&b'/') {
        at = Place { context: at.context, id: ROOT, name: b"/".to_vec() };
    }
    for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".") {
        at = step(&at, name, walk)?;
    }
    Ok(at)
}

/// Follows one link.
pub fn step(group: &Place, name: &[u8], walking: &mut Walk) -> Result<Place> {
    let target = {
        let state = group.context.opening.shared.lock();
        let Some(links) = state.tree.group(group.id) else {
            return Err(Failure::not_found(format!(
                "component not found: '{}' is looked up in what is no group",
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

fn external(group: &Place, value: &[u8], walking: &mut Walk) -> Result<Place> {
    let (file, path) =
        unpack_external(value).ok_or_else(|| Failure::damaged("an external link says nothing"))?;
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
    candidates.push(beside.join(tail));
    candidates.push(tail.to_path_buf());
    let place = candidates.iter().find(|c| c.is_file()).ok_or_else(|| {
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
        creation: Mutex::default(),
    });
    walk(&Place { context, id: ROOT, name: b"/".to_vec() }, path, walking)
}

/// The group and last name of a path: what a link operation acts on.
pub fn last(from: &Place, path: &[u8], walking: &mut Walk) -> Result<LinkPlace> {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
    let cut = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
    let name = path[cut..end].to_vec();
    if name.is_empty() || name == b"." {
        return Err(Failure::invalid("no name given"));
    }
    let group = walk(from, &path[..cut], walking)?;
    Ok(LinkPlace { group, name })
}

/// The group and last name for a new link; groups between are made if the program asks for that.
pub fn last_for_new(from: &Place, path: &[u8], make: bool, lapl: Hid) -> Result<LinkPlace> {
    let host = from.context.host;
    if make {
        let end = path.iter().rposition(|b| *b != b'/').map_or(0, |i| i + 1);
        let cut = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |i| i + 1);
        let mut at = from.clone();
        if path.first() == Some(&b'/') {
            at = Place { context: at.context, id: ROOT, name: b"/".to_vec() };
        }
        for name in path[..cut].split(|b| *b == b'/').filter(|n| !n.is_empty() && *n != b".") {
            let there = {
                let state = at.context.opening.shared.lock();
                state.tree.group(at.id).is_some_and(|g| g.links.contains_key(name))
            };
            if there {
                at = step(&at, name, &mut Walk::by(host, lapl))?;
                continue;
            }
            at.context.writable()?;
            let mut state = at.context.opening.shared.lock();
            let body = Body::Group(crate::tree::Group::default());
            let id = state.tree.add(crate::tree::Object::new(body, crate::tree::Times::now(false)));
            if !state.tree.link(at.id, name, 0, Target::Hard(id)) {
                return Err(Failure::not_found("component not found"));
            }
            state.dirty = true;
            drop(state);
            at = at.child(name, id);
        }
    }
    last(from, path, &mut Walk::by(host, lapl))
}

/// The object that a callback's location means.
pub fn locate(handle: &Handle, loc: &Loc) -> Result<Place> {
    let here = handle.place();
    // SAFETY: `kind` says which member of the union there is; strings and tokens live through the callback.
    unsafe {
        match loc.kind {
            0 => Ok(here),
            1 => {
                let by = loc.data.by_name;
                walk(&here, text(by.name), &mut Walk::by(handle.context.host, by.lapl_id))
            }
            2 => {
                let by = loc.data.by_idx;
                let mut walking = Walk::by(handle.context.host, by.lapl_id);
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
                Ok(Place { id, name, ..here })
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
pub fn nth_link(group: &Place, order: Order, n: u64) -> Result<Vec<u8>> {
    let state = group.context.opening.shared.lock();
    let links = state.tree.group(group.id).ok_or_else(|| Failure::wrong_kind("not a group"))?;
    if order.by_creation && links.order & crate::tree::TRACKED == 0 {
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

/// What the library is shown for a handle when it looks behind an id.
pub fn shown(at: Void) -> Void {
    if is_raw() {
        return at;
    }
    match Handle::from_void(at) {
        Ok(handle) if handle.context.mimic => shadow::object(handle.context.host, &handle.kind).unwrap_or(at),
        _ => at,
    }
}
