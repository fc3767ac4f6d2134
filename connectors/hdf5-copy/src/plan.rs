//! The objects to copy: each once, with its links, in creation order where that is tracked.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::api::{BY_CREATION, BY_NAME, DEFAULT, Hdf5, Hid, INCREASING, LinkInfo, Token, done, text};
use crate::{Failure, Result};

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectKind {
    /// With links.
    Group,
    /// With values.
    Dataset,
    /// A committed type.
    Type,
}

/// An object, under the first path that leads to it.
pub(crate) struct Object {
    pub(crate) path: String,
    pub(crate) kind: ObjectKind,
    /// The creation order of a group.
    pub(crate) links: Vec<Link>,
}

/// A link of a group.
pub(crate) struct Link {
    pub(crate) name: String,
    /// The character set of the name, according to the link.
    pub(crate) encoding: c_int,
    pub(crate) to: To,
}

/// The target of a link.
pub(crate) enum To {
    /// The object with this number.
    Object(usize),
    /// A path.
    Soft(Vec<u8>),
    /// A path in another file, as HDF5 packs both.
    External(Vec<u8>),
}

/// All objects, the root first; the objects of a group come after it.
pub(crate) struct Plan {
    pub(crate) objects: Vec<Object>,
    /// The number of the object with a token.
    pub(crate) numbers: BTreeMap<Token, usize>,
}

impl Plan {
    /// Walks through a file, breadth first.
    pub(crate) fn of(hdf5: &Hdf5, file: Hid) -> Result<Plan> {
        let mut plan = Plan { objects: Vec::new(), numbers: BTreeMap::new() };
        let root = open(hdf5, file, "/")?;
        plan.numbers.insert(hdf5.info(root.hid)?.token, 0);
        plan.objects.push(Object { path: "/".into(), kind: ObjectKind::Group, links: Vec::new() });
        let mut waiting = VecDeque::from([0]);
        while let Some(number) = waiting.pop_front() {
            let path = plan.objects[number].path.clone();
            let group = open(hdf5, file, &path)?;
            let mut links = Vec::new();
            for found in links_of(hdf5, group.hid, &path)? {
                let below = format!("{}/{}", path.trim_end_matches('/'), found.name);
                let to = match found.kind {
                    0 => {
                        let object = open(hdf5, group.hid, &found.name)?;
                        let info = hdf5.info(object.hid)?;
                        let next = plan.objects.len();
                        let at = *plan.numbers.entry(info.token).or_insert(next);
                        if at == next {
                            let kind = match info.kind {
                                0 => ObjectKind::Group,
                                1 => ObjectKind::Dataset,
                                2 => ObjectKind::Type,
                                other => {
                                    return Err(Failure(format!(
                                        "{below} is an object of unknown kind {other}"
                                    )));
                                }
                            };
                            plan.objects.push(Object { path: below, kind, links: Vec::new() });
                            if kind == ObjectKind::Group {
                                waiting.push_back(next);
                            }
                        }
                        To::Object(at)
                    }
                    1 => To::Soft(value(hdf5, group.hid, &found, &below)?),
                    64 => To::External(value(hdf5, group.hid, &found, &below)?),
                    other => {
                        return Err(Failure(format!(
                            "{below} is a link of a kind made by a program ({other})"
                        )));
                    }
                };
                links.push(Link { name: found.name, encoding: found.encoding, to });
            }
            plan.objects[number].links = links;
        }
        Ok(plan)
    }
}

/// Opens an object.
pub(crate) fn open<'h>(hdf5: &'h Hdf5, at: Hid, path: &str) -> Result<crate::api::Id<'h>> {
    let name = text(path)?;
    // SAFETY: the name ends with NUL.
    hdf5.id(unsafe { (hdf5.H5Oopen)(at, name.as_ptr(), DEFAULT) }, || format!("{path} cannot be opened"))
}

/// A link as found in the source.
struct FoundLink {
    name: String,
    kind: c_int,
    encoding: c_int,
    size: u64,
}

fn links_of(hdf5: &Hdf5, group: Hid, path: &str) -> Result<Vec<FoundLink>> {
    unsafe extern "C" fn note(_: Hid, name: *const c_char, info: *const LinkInfo, out: *mut c_void) -> c_int {
        // SAFETY: the library's name and struct, and the vector that is given below.
        let (name, info, out) = unsafe { (CStr::from_ptr(name), &*info, &mut *out.cast::<Vec<FoundLink>>()) };
        let Ok(name) = name.to_str() else { return -1 };
        out.push(FoundLink {
            name: name.into(),
            kind: info.kind,
            encoding: info.encoding,
            size: info.value[0],
        });
        0
    }
    let mut found: Vec<FoundLink> = Vec::new();
    let out = (&raw mut found).cast();
    // SAFETY: the callback has the library's signature and is done when the call returns.
    unsafe {
        let list = hdf5.id((hdf5.H5Gget_create_plist)(group), || {
            format!("{path} has creation properties that cannot be read")
        })?;
        let mut order: c_uint = 0;
        (hdf5.H5Pget_link_creation_order)(list.hid, &mut order);
        let by = if order & 1 != 0 { BY_CREATION } else { BY_NAME };
        done((hdf5.H5Literate2)(group, by, INCREASING, std::ptr::null_mut(), note, out), || {
            format!("the links of {path} cannot be listed, or a name is not UTF-8")
        })?;
    }
    Ok(found)
}

fn value(hdf5: &Hdf5, group: Hid, link: &FoundLink, path: &str) -> Result<Vec<u8>> {
    let unreadable = || format!("where the link {path} leads cannot be read");
    let size = usize::try_from(link.size)
        .ok()
        .filter(|size| *size < 1 << 20)
        .ok_or_else(|| Failure(unreadable()))?;
    let mut out = vec![0u8; size + 1];
    let name = text(&link.name)?;
    // SAFETY: the buffer is as large as is said.
    let code = unsafe { (hdf5.H5Lget_val)(group, name.as_ptr(), out.as_mut_ptr().cast(), size, DEFAULT) };
    done(code, unreadable)?;
    Ok(out)
}
