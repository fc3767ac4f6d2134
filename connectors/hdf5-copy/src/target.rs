//! Writes the copy: types first, then objects and links group by group, then values and references to other
//! objects.

use std::ffi::{CStr, c_int};

use crate::api::{DEFAULT, Hdf5, Hid, Id, TRUNCATE, Token, done, text};
use crate::attributes::{self, Types, kind_in_target, names};
use crate::blocks;
use crate::plan::{ObjectKind, Plan, To, open};
use crate::references::References;
use crate::{Copied, Failure, Result};

/// Creates the file at `path`; when this returns, it is complete and closed.
pub(crate) fn write(hdf5: &Hdf5, source: Hid, plan: &Plan, path: &CStr) -> Result<Copied> {
    let access = hdf5.native_access()?;
    // SAFETY: the name ends with NUL; plain calls with ids of this library.
    let file = unsafe {
        let how = hdf5.id((hdf5.H5Fget_create_plist)(source), || {
            "the file has creation properties that cannot be read".into()
        })?;
        let made = (hdf5.H5Fcreate)(path.as_ptr(), TRUNCATE, how.hid, access.hid);
        hdf5.id(made, || format!("{} cannot be made", path.to_string_lossy()))?
    };
    let copied = {
        let mut making =
            Making { hdf5, source, target: file.hid, plan, types: Types::new(), tokens: Vec::new() };
        making.types()?;
        making.objects()?;
        let dangling = making.values()?;
        let count = |kind| plan.objects.iter().filter(|object| object.kind == kind).count() as u64;
        Copied {
            groups: count(ObjectKind::Group),
            datasets: count(ObjectKind::Dataset),
            types: count(ObjectKind::Type),
            dangling,
        }
    };
    let hid = file.hid;
    std::mem::forget(file);
    // SAFETY: the id is owned here; what closing could not write is an error.
    done(unsafe { (hdf5.H5Fclose)(hid) }, || format!("{} cannot be closed", path.to_string_lossy()))?;
    Ok(copied)
}

struct Making<'a> {
    hdf5: &'a Hdf5,
    source: Hid,
    target: Hid,
    plan: &'a Plan,
    types: Types<'a>,
    /// Ids of the copies, by number.
    tokens: Vec<Token>,
}

impl<'a> Making<'a> {
    /// Commits the types with which datasets and attributes are created; links to them follow.
    fn types(&mut self) -> Result<()> {
        for object in self.plan.objects.iter().filter(|object| object.kind == ObjectKind::Type) {
            let from = open(self.hdf5, self.source, &object.path)?;
            let failed = || format!("the type {} cannot be made", object.path);
            // SAFETY: plain calls with ids of this library.
            unsafe {
                let how = self.hdf5.id((self.hdf5.H5Tget_create_plist)(from.hid), failed)?;
                let copy = self.hdf5.id((self.hdf5.H5Tcopy)(from.hid), failed)?;
                done((self.hdf5.H5Tcommit_anon)(self.target, copy.hid, how.hid, DEFAULT), failed)?;
                self.types.insert(self.hdf5.info(from.hid)?.token, copy);
            }
        }
        Ok(())
    }

    /// All objects with their attributes, and all links, each group's in order.
    fn objects(&mut self) -> Result<()> {
        let mut made = vec![false; self.plan.objects.len()];
        made[0] = true;
        self.attributes(0, false)?;
        for (number, object) in self.plan.objects.iter().enumerate() {
            if object.kind != ObjectKind::Group {
                continue;
            }
            let group = open(self.hdf5, self.target, &object.path)?;
            for link in &object.links {
                let name = text(&link.name)?;
                let path = format!("{}/{}", object.path.trim_end_matches('/'), link.name);
                let naming = self.naming(link.encoding)?;
                let failed = || format!("the link {path} cannot be made");
                // SAFETY: names end with NUL; plain calls with ids of this library.
                unsafe {
                    match &link.to {
                        To::Soft(to) => {
                            let to = to.as_ptr().cast();
                            done(
                                (self.hdf5.H5Lcreate_soft)(to, group.hid, name.as_ptr(), naming.hid, DEFAULT),
                                failed,
                            )?;
                        }
                        To::External(packed) => {
                            let (mut flags, mut file, mut at) = (0, std::ptr::null(), std::ptr::null());
                            let packed = (packed.as_ptr().cast(), packed.len() - 1);
                            done(
                                (self.hdf5.H5Lunpack_elink_val)(
                                    packed.0, packed.1, &mut flags, &mut file, &mut at,
                                ),
                                failed,
                            )?;
                            let code = (self.hdf5.H5Lcreate_external)(
                                file,
                                at,
                                group.hid,
                                name.as_ptr(),
                                naming.hid,
                                DEFAULT,
                            );
                            done(code, failed)?;
                        }
                        To::Object(to) if made[*to] => {
                            let first = text(&self.plan.objects[*to].path)?;
                            let code = (self.hdf5.H5Lcreate_hard)(
                                self.target,
                                first.as_ptr(),
                                group.hid,
                                name.as_ptr(),
                                naming.hid,
                                DEFAULT,
                            );
                            done(code, failed)?;
                        }
                        To::Object(to) => {
                            self.object(*to, group.hid, &name, naming.hid)?;
                            made[*to] = true;
                            self.attributes(*to, false)?;
                        }
                    }
                }
            }
            debug_assert!(made[number]);
        }
        for object in &self.plan.objects {
            let copy = open(self.hdf5, self.target, &object.path)?;
            self.tokens.push(self.hdf5.info(copy.hid)?.token);
        }
        Ok(())
    }

    /// Creates one object at its first path.
    fn object(&self, number: usize, group: Hid, name: &CStr, naming: Hid) -> Result<()> {
        let object = &self.plan.objects[number];
        let from = open(self.hdf5, self.source, &object.path)?;
        let failed = || format!("{} cannot be made", object.path);
        // SAFETY: the name ends with NUL; plain calls with ids of this library.
        unsafe {
            match object.kind {
                ObjectKind::Group => {
                    let how = self.hdf5.id((self.hdf5.H5Gget_create_plist)(from.hid), failed)?;
                    let made = (self.hdf5.H5Gcreate2)(group, name.as_ptr(), naming, how.hid, DEFAULT);
                    self.hdf5.id(made, failed)?;
                }
                ObjectKind::Type => {
                    let token = self.hdf5.info(from.hid)?.token;
                    let copy = self.types.get(&token).ok_or_else(|| Failure(failed()))?;
                    done((self.hdf5.H5Olink)(copy.hid, group, name.as_ptr(), naming, DEFAULT), failed)?;
                }
                ObjectKind::Dataset => {
                    let stored = blocks::OpenDataset::of(self.hdf5, from, &object.path)?;
                    let kind = kind_in_target(self.hdf5, stored.kind.hid, &self.types)?;
                    let made = (self.hdf5.H5Dcreate2)(
                        group,
                        name.as_ptr(),
                        kind.hid,
                        stored.space.hid,
                        naming,
                        stored.list.hid,
                        DEFAULT,
                    );
                    self.hdf5.id(made, || format!("{} (a filter that is not there?)", failed()))?;
                }
            }
        }
        Ok(())
    }

    /// The link creation list for this character set.
    fn naming(&self, encoding: c_int) -> Result<Id<'a>> {
        // SAFETY: plain calls with ids of this library.
        unsafe {
            let class = self.hdf5.global("H5P_CLS_LINK_CREATE_ID_g\0");
            let list = self.hdf5.id((self.hdf5.H5Pcreate)(class), || "no list".into())?;
            (self.hdf5.H5Pset_char_encoding)(list.hid, encoding);
            Ok(list)
        }
    }

    /// Creates the attributes of an object, and writes those without references; later, those with
    /// references.
    fn attributes(&self, number: usize, later: bool) -> Result<u64> {
        let Making { hdf5, .. } = *self;
        let object = &self.plan.objects[number];
        let path = &object.path;
        let from = open(hdf5, self.source, path)?;
        let to = open(hdf5, self.target, path)?;
        let silent = || format!("{path} has creation properties that cannot be read");
        let mut references = self.references();
        // SAFETY: names end with NUL; values are as the library wrote them; plain calls with ids of this library.
        unsafe {
            let list = match object.kind {
                ObjectKind::Group => (hdf5.H5Gget_create_plist)(from.hid),
                ObjectKind::Dataset => (hdf5.H5Dget_create_plist)(from.hid),
                ObjectKind::Type => (hdf5.H5Tget_create_plist)(from.hid),
            };
            let list = hdf5.id(list, silent)?;
            for name in names(hdf5, from.hid, list.hid, path)? {
                let stored = attributes::OpenAttribute::open(hdf5, from.hid, &name, path)?;
                let failed = || format!("the attribute {name:?} of {path} cannot be copied");
                let made = if later {
                    (hdf5.H5Aopen)(to.hid, name.as_ptr(), DEFAULT)
                } else {
                    let how = hdf5.id((hdf5.H5Aget_create_plist)(stored.attribute.hid), failed)?;
                    let kind = kind_in_target(hdf5, stored.kind.hid, &self.types)?;
                    (hdf5.H5Acreate2)(to.hid, name.as_ptr(), kind.hid, stored.space.hid, how.hid, DEFAULT)
                };
                let made = hdf5.id(made, failed)?;
                if stored.count == 0 || stored.shape.refers() != later {
                    continue;
                }
                let mut values = stored.values(path)?;
                references.translate(&stored.shape, values.at(), stored.count)?;
                done((hdf5.H5Awrite)(made.hid, stored.kind.hid, values.at().cast_const().cast()), failed)?;
            }
        }
        Ok(references.dangling)
    }

    fn references(&self) -> References<'_> {
        References {
            hdf5: self.hdf5,
            plan: self.plan,
            source: self.source,
            target: self.target,
            copies: &self.tokens,
            dangling: 0,
        }
    }

    /// The values of all datasets, and the attributes with references.
    fn values(&mut self) -> Result<u64> {
        let mut references = self.references();
        for (number, object) in self.plan.objects.iter().enumerate() {
            references.dangling += self.attributes(number, true)?;
            if object.kind != ObjectKind::Dataset {
                continue;
            }
            let path = &object.path;
            let from = blocks::OpenDataset::of(self.hdf5, open(self.hdf5, self.source, path)?, path)?;
            let to = open(self.hdf5, self.target, path)?;
            let fill = from.fill();
            from.each_block(path, |values, count, selected| {
                let at = values.at();
                // SAFETY: the block's values, as the library wrote them.
                unsafe {
                    if let Some(fill) = &fill {
                        let bytes = std::slice::from_raw_parts(at, count * fill.len());
                        if bytes.chunks_exact(fill.len()).all(|cell| cell == fill) {
                            return Ok(());
                        }
                    }
                    references.translate(&from.shape, at, count)?;
                    let (kind, memory) = (values.kind, values.space);
                    let code =
                        (self.hdf5.H5Dwrite)(to.hid, kind, memory, selected, DEFAULT, at.cast_const().cast());
                    done(code, || format!("values of {path} cannot be written"))
                }
            })?;
        }
        Ok(references.dangling)
    }
}
