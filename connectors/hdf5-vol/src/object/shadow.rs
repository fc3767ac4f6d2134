//! Objects for a library that takes the connector for native and looks behind an id: an object of the same
//! kind in a small native file that exists only in memory.
//!
//! The library casts such objects to structs of its own, for example to learn how many bytes an address has.
//! It must find real ones there. Values and names never come from this file.

use std::sync::{Mutex, PoisonError};

use crate::library::abi::{Hid, P_DEFAULT, Void, access};
use crate::library::host::{Host, MAX_HOSTS, quietly};
use crate::library::props::List;
use crate::object::kind::ObjectKind;

/// Pointers to the native objects: file, group, dataset, datatype, attribute.
#[derive(Clone, Copy)]
struct Shadow([usize; 5]);

static SHADOWS: Mutex<[Option<Shadow>; MAX_HOSTS]> = Mutex::new([None; MAX_HOSTS]);

/// The native object for a kind; `None` where none could be made.
pub fn object(host: &'static Host, kind: &ObjectKind) -> Option<Void> {
    let known = *SHADOWS.lock().unwrap_or_else(PoisonError::into_inner).get(host.index)?;
    let at = |s: Shadow| match kind {
        ObjectKind::File => s.0[0],
        ObjectKind::Group => s.0[1],
        ObjectKind::Dataset => s.0[2],
        ObjectKind::Datatype => s.0[3],
        ObjectKind::Attribute(_) => s.0[4],
    };
    known.map(|s| at(s) as Void).filter(|p| !p.is_null())
}

/// Makes the file once per library; later lookups find it. Called where calls of the library are safe.
pub fn prepare(host: &'static Host) {
    let there = |s: &[Option<Shadow>; MAX_HOSTS]| s.get(host.index).is_some_and(Option::is_some);
    if there(&SHADOWS.lock().unwrap_or_else(PoisonError::into_inner)) {
        return;
    }
    let made = quietly(host, || make(host));
    if let (Some(made), Some(slot)) =
        (made, SHADOWS.lock().unwrap_or_else(PoisonError::into_inner).get_mut(host.index))
    {
        *slot = Some(made);
    }
}

fn make(host: &'static Host) -> Option<Shadow> {
    let api = &host.api;
    let fapl = List::new(host, "H5P_CLS_FILE_ACCESS_ID_g\0").ok()?;
    // SAFETY: calls of the public interface with valid ids and static strings. The ids stay open for the life
    // of the process, so that the pointers stay valid.
    unsafe {
        let native = (api.H5VLget_connector_id_by_name)(c"native".as_ptr());
        if native < 0 || (api.H5Pset_vol)(fapl.id, native, std::ptr::null()) < 0 {
            return None;
        }
        if (api.H5Pset_fapl_core)(fapl.id, 4096, false) < 0 {
            return None;
        }
        let name = c"drystone-shadow.h5";
        let file = (api.H5Fcreate)(name.as_ptr(), access::TRUNC, P_DEFAULT, fapl.id);
        let group = (api.H5Gcreate2)(file, c"g".as_ptr(), P_DEFAULT, P_DEFAULT, P_DEFAULT);
        let space = (api.H5Screate)(0);
        let byte: Hid = host.global("H5T_STD_U8LE_g\0");
        let dataset = (api.H5Dcreate2)(file, c"d".as_ptr(), byte, space, P_DEFAULT, P_DEFAULT, P_DEFAULT);
        let dtype = (api.H5Tcopy)(byte);
        (api.H5Tcommit2)(file, c"t".as_ptr(), dtype, P_DEFAULT, P_DEFAULT, P_DEFAULT);
        let attribute = (api.H5Acreate2)(file, c"a".as_ptr(), byte, space, P_DEFAULT, P_DEFAULT);
        (api.H5Sclose)(space);
        if [file, group, dataset, dtype, attribute].iter().any(|id| *id < 0) {
            return None;
        }
        Some(Shadow([file, group, dataset, dtype, attribute].map(|id| (api.H5VLobject)(id) as usize)))
    }
}
