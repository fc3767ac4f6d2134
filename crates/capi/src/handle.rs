//! Handles: C holds numbers in the shape of pointers, which are looked up in a table.
//!
//! Invariants
//! - a handle is never dereferenced, so a wrong one is an error and nothing worse;
//! - a number is assigned once: a closed handle never refers to another object;
//! - no address of a program looks like a handle, because bit 62 is set (addresses of programs end below it).

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::failure::{Failure, Result};

const _: () = assert!(usize::BITS == 64, "handles need pointers of 64 bits");

/// Set in every handle.
const MARK: u64 = 1 << 62;
/// Bits of the kind, above four that are 0 as in an aligned address.
const KIND_BITS: u32 = 4;
const KIND_SHIFT: u32 = 4;

/// The kinds of objects behind handles.
pub(crate) trait Handled: Send + Sync + 'static {
    /// The type that the header declares.
    type Opaque;
    /// Its number, below 16.
    const KIND: u64;
}

/// Names of the kinds for messages, by their numbers.
const NAMES: [&str; 9] =
    ["nothing", "container", "writer", "variable", "fragment", "rule", "team", "query", "region"];

type Objects = HashMap<u64, Arc<dyn Any + Send + Sync>>;

static OBJECTS: LazyLock<RwLock<Objects>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

fn name(kind: u64) -> &'static str {
    NAMES.get(kind as usize).copied().unwrap_or("nothing")
}

/// Stores an object; returns its handle.
pub(crate) fn keep<T: Handled>(object: T) -> *mut T::Opaque {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let handle = MARK | number << (KIND_SHIFT + KIND_BITS) | T::KIND << KIND_SHIFT;
    OBJECTS.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(object));
    std::ptr::without_provenance_mut(handle as usize)
}

/// The object of a handle, which another thread may close meanwhile.
pub(crate) fn get<T: Handled>(handle: *const T::Opaque) -> Result<Arc<T>> {
    let handle = handle.addr() as u64;
    let found = OBJECTS.read().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned();
    found.and_then(|object| object.downcast().ok()).ok_or_else(|| wrong::<T>(handle))
}

/// Removes a handle and returns its object; `None` for NULL.
pub(crate) fn take<T: Handled>(handle: *mut T::Opaque) -> Result<Option<Arc<T>>> {
    if handle.is_null() {
        return Ok(None);
    }
    get::<T>(handle)?; // of this kind, or the error
    let handle = handle.addr() as u64;
    let object = OBJECTS.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    object.and_then(|object| object.downcast().ok()).map(Some).ok_or_else(|| wrong::<T>(handle))
}

fn wrong<T: Handled>(handle: u64) -> Failure {
    let wanted = name(T::KIND);
    if handle == 0 {
        return Failure::invalid(format!("the handle of the {wanted} is NULL"));
    }
    let kind = handle >> KIND_SHIFT & ((1 << KIND_BITS) - 1);
    let number = (handle & !MARK) >> (KIND_SHIFT + KIND_BITS);
    let given = handle & MARK != 0
        && handle & !(MARK - 1) == MARK
        && handle & ((1 << KIND_SHIFT) - 1) == 0
        && (1..NEXT.load(Ordering::Relaxed)).contains(&number)
        && (1..NAMES.len() as u64).contains(&kind);
    Failure::invalid(match given {
        false => format!(
            "{handle:#x} is not a handle of a {wanted}: give one that this library gave, in this process"
        ),
        true if kind != T::KIND => format!("a handle of a {} was given for a {wanted}", name(kind)),
        true => format!("the handle of the {wanted} was closed before"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Pebble(u8);
    impl Handled for Pebble {
        type Opaque = u8;
        const KIND: u64 = 1;
    }
    #[derive(Debug)]
    struct Slab;
    impl Handled for Slab {
        type Opaque = u16;
        const KIND: u64 = 2;
    }

    fn said<T: Handled + std::fmt::Debug>(handle: usize) -> String {
        format!("{:?}", get::<T>(std::ptr::without_provenance(handle)).unwrap_err())
    }

    #[test]
    fn a_handle_is_its_object_until_it_is_closed() {
        let handle = keep(Pebble(7));
        assert_eq!(get::<Pebble>(handle).unwrap().0, 7);
        assert_eq!(take::<Pebble>(handle).unwrap().unwrap().0, 7);
        assert!(said::<Pebble>(handle.addr()).contains("closed before"));
        assert!(take::<Pebble>(handle).is_err());
        assert!(take::<Pebble>(std::ptr::null_mut()).unwrap().is_none());
    }

    #[test]
    fn wrong_handles_give_different_errors() {
        let pebble = keep(Pebble(0));
        assert!(said::<Slab>(pebble.addr()).contains("of a container was given for a writer"));
        assert!(said::<Pebble>(0).contains("NULL"));
        let local = 0u8;
        for foreign in [1, usize::MAX, (&raw const local).addr(), pebble.addr() + 1, pebble.addr() | 1 << 60]
        {
            assert!(said::<Pebble>(foreign).contains("is not a handle"), "{foreign:#x}");
        }
    }
}
