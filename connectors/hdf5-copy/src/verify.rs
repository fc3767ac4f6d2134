//! Reads the copy again and compares it with the source: every object, link, attribute and value.

use std::ffi::{CStr, c_char};

use crate::api::{Hdf5, Hid, READ_ONLY, Token};
use crate::attributes::{self, names};
use crate::blocks;
use crate::plan::{ObjectKind, Plan, To, open};
use crate::shape::{List, Reference, Shape};
use crate::{Failure, Result};

/// An error that names the first object that differs.
pub(crate) fn same(hdf5: &Hdf5, source: Hid, plan: &Plan, path: &CStr) -> Result<()> {
    let access = hdf5.native_access()?;
    // SAFETY: the name ends with NUL.
    let file = unsafe { (hdf5.H5Fopen)(path.as_ptr(), READ_ONLY, access.hid) };
    let file = hdf5.id(file, || format!("{} cannot be opened again", path.to_string_lossy()))?;
    let copy = Plan::of(hdf5, file.hid)?;
    if copy.objects.len() != plan.objects.len() {
        return Err(differs("the number of objects"));
    }
    let mut tokens: Vec<Token> = vec![[0; 16]; copy.objects.len()];
    for (token, number) in &copy.numbers {
        tokens[*number] = *token;
    }
    let comparing = Comparing { hdf5, plan, copies: tokens };
    for (a, b) in plan.objects.iter().zip(&copy.objects) {
        let alike = a.path == b.path && a.kind == b.kind && a.links.len() == b.links.len();
        let links = a.links.iter().zip(&b.links).all(|(x, y)| {
            x.name == y.name
                && match (&x.to, &y.to) {
                    (To::Object(x), To::Object(y)) => x == y,
                    (To::Soft(x), To::Soft(y)) | (To::External(x), To::External(y)) => x == y,
                    _ => false,
                }
        });
        if !alike || !links {
            return Err(differs(&a.path));
        }
        comparing.object(source, file.hid, &a.path, a.kind)?;
    }
    Ok(())
}

fn differs(what: &str) -> Failure {
    Failure(format!("the copy differs: {what}"))
}

struct Comparing<'a> {
    hdf5: &'a Hdf5,
    plan: &'a Plan,
    copies: Vec<Token>,
}

impl Comparing<'_> {
    fn object(&self, source: Hid, target: Hid, path: &str, kind: ObjectKind) -> Result<()> {
        let hdf5 = self.hdf5;
        let (a, b) = (open(hdf5, source, path)?, open(hdf5, target, path)?);
        let silent = || format!("{path} has creation properties that cannot be read");
        // SAFETY: plain calls with ids of this library.
        let lists = unsafe {
            let list = match kind {
                ObjectKind::Group => hdf5.H5Gget_create_plist,
                ObjectKind::Dataset => hdf5.H5Dget_create_plist,
                ObjectKind::Type => hdf5.H5Tget_create_plist,
            };
            (hdf5.id(list(a.hid), silent)?, hdf5.id(list(b.hid), silent)?)
        };
        let listed = names(hdf5, a.hid, lists.0.hid, path)?;
        if listed != names(hdf5, b.hid, lists.1.hid, path)? {
            return Err(differs(path));
        }
        for name in listed {
            let x = attributes::OpenAttribute::open(hdf5, a.hid, &name, path)?;
            let y = attributes::OpenAttribute::open(hdf5, b.hid, &name, path)?;
            let (mut left, mut right) = (x.values(path)?, y.values(path)?);
            // SAFETY: values as the library wrote them.
            let alike = x.shape == y.shape
                && x.count == y.count
                && unsafe { self.elements(&x.shape, left.at(), right.at(), x.count) };
            if !alike {
                return Err(differs(&format!("the attribute {name:?} of {path}")));
            }
        }
        if kind == ObjectKind::Dataset {
            let x = blocks::OpenDataset::of(hdf5, a, path)?;
            let y = blocks::OpenDataset::of(hdf5, b, path)?;
            if x.shape != y.shape || x.has_values != y.has_values {
                return Err(differs(path));
            }
            x.each_block(path, |values, count, selected| {
                let mut other = y.read(values.space, selected, count, path)?;
                // SAFETY: as above.
                let alike = unsafe { self.elements(&x.shape, values.at(), other.at(), count) };
                if alike { Ok(()) } else { Err(differs(&format!("a value of {path}"))) }
            })?;
        }
        Ok(())
    }

    /// # Safety
    /// Both lead to this many elements of the shape.
    unsafe fn elements(&self, shape: &Shape, a: *const u8, b: *const u8, count: usize) -> bool {
        // SAFETY: as the caller vouches.
        unsafe {
            if let Shape::Plain(size) = shape {
                return std::slice::from_raw_parts(a, count * size)
                    == std::slice::from_raw_parts(b, count * size);
            }
            (0..count).all(|n| self.element(shape, a.add(n * shape.size()), b.add(n * shape.size())))
        }
    }

    /// # Safety
    /// Both lead to an element of the shape.
    unsafe fn element(&self, shape: &Shape, a: *const u8, b: *const u8) -> bool {
        // SAFETY: members, texts and lists are where the library stored them.
        unsafe {
            match shape {
                Shape::Plain(_) => self.elements(shape, a, b, 1),
                Shape::Compound(members, _) => members
                    .iter()
                    .all(|(offset, member)| self.elements(member, a.add(*offset), b.add(*offset), 1)),
                Shape::Array(count, base) => self.elements(base, a, b, *count),
                Shape::Text => {
                    let text = |at: *const u8| {
                        let at = at.cast::<*const c_char>().read_unaligned();
                        if at.is_null() { &b""[..] } else { CStr::from_ptr(at).to_bytes() }
                    };
                    text(a) == text(b)
                }
                Shape::List(base) => {
                    let (a, b) = (a.cast::<List>().read_unaligned(), b.cast::<List>().read_unaligned());
                    a.len == b.len && (a.len == 0 || self.elements(base, a.at, b.at, a.len))
                }
                Shape::Reference(kind, size) => {
                    let (a, b) = (std::slice::from_raw_parts(a, *size), std::slice::from_raw_parts(b, *size));
                    self.reference(*kind, a, b)
                }
            }
        }
    }

    /// Null stays null, and an object is its copy. The library makes regions from the same selection.
    fn reference(&self, kind: Reference, a: &[u8], b: &[u8]) -> bool {
        let null = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if kind != Reference::Object {
            return null(a) == null(b);
        }
        let mut token: Token = [0; 16];
        let length = a.len().min(8);
        token[..length].copy_from_slice(&a[..length]);
        match self.plan.numbers.get(&token).and_then(|number| self.copies.get(*number)) {
            Some(copy) => copy[..length] == b[..length],
            None => null(b),
        }
    }
}
