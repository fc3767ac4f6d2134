//! The handles that the library holds: one per open file, object or attribute.
//!
//! Invariants
//! - a pointer from the library is used only if it is in the set of live handles;
//! - a handle keeps its object from being removed, and its file from being closed.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use crate::library::abi::{Hid, Void};
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::library::props::List;
use crate::library::types::Type;
use crate::model::tree::{Id, ROOT};
use crate::object::context::Context;
use crate::object::kind::ObjectKind;
use crate::object::place::ObjectRef;
use crate::object::shadow;

/// An open object.
pub struct Handle {
    /// Its opening.
    pub context: Arc<Context>,
    /// The kind of object.
    pub kind: ObjectKind,
    /// The object; for an attribute the object that has it.
    pub id: Id,
    /// The path by which it was reached.
    pub name: Vec<u8>,
    /// The type as programs see it and as it is stored, once needed.
    pub types: OnceCell<(Type, Type)>,
    /// The list it was created with, in this session.
    pub created: OnceCell<Arc<List>>,
    /// The list it was opened with.
    pub accessed: OnceCell<List>,
    /// For a file: whether the program was told that closing failed. The library then keeps the handle, and
    /// closes it again.
    pub told: Cell<bool>,
}

static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

thread_local! {
    static RAW: Cell<bool> = const { Cell::new(false) };
}

/// Whether one of our own lookups is under way, which needs handles and not what programs are shown.
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
    /// Stores a handle where the library can hold it.
    pub fn hold(context: Arc<Context>, kind: ObjectKind, id: Id, name: Vec<u8>) -> Void {
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
    pub fn object(place: ObjectRef) -> Result<(Void, ObjectKind)> {
        let kind = place.kind()?;
        Ok((Handle::hold(place.context, kind.clone(), place.id, place.name), kind))
    }

    /// The handle of its file: the program's, while that is open, so that the library finds the program's id.
    /// A library that takes the connector for native compares other pointers and would close it twice, so it
    /// gets a new one.
    pub fn file(&self) -> Void {
        let known = self.context.file.load(Ordering::SeqCst) as Void;
        let open = !self.context.mimic
            && Handle::from_void(known)
                .is_ok_and(|h| h.kind == ObjectKind::File && Arc::ptr_eq(&h.context, &self.context));
        match open {
            true => known,
            false => {
                let made = Handle::hold(self.context.clone(), ObjectKind::File, ROOT, b"/".to_vec());
                self.context.file.store(made as usize, Ordering::SeqCst);
                made
            }
        }
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

    /// The location of its object.
    pub fn place(&self) -> ObjectRef {
        ObjectRef { context: self.context.clone(), id: self.id, name: self.name.clone() }
    }

    /// The handle as the library holds it.
    pub fn void(&self) -> Void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

/// The object that the library is shown when it looks behind an id.
pub fn shown(at: Void) -> Void {
    if is_raw() {
        return at;
    }
    match Handle::from_void(at) {
        Ok(handle) if handle.context.mimic => shadow::object(handle.context.host, &handle.kind).unwrap_or(at),
        _ => at,
    }
}
