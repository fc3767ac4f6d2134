//! Types of datasets and attributes as they are stored: both sides, and the committed type, if it is one.

use crate::file::opening::Opening;
use crate::library::abi::{self, Hid};
use crate::library::failure::{Failure, Result};
use crate::library::host::Host;
use crate::library::types::{self, Type};
use crate::model::tree::{Id, StoredType};
use crate::object::handle::{Handle, behind};
use crate::object::kind::ObjectKind;

/// The committed type behind a type id, if it is in the same file.
pub(crate) fn committed(host: &Host, id: Hid, opening: &Opening) -> Option<Id> {
    // SAFETY: any id may be given.
    if unsafe { (host.api.H5Tcommitted)(id) } <= 0 {
        return None;
    }
    let handle = behind(host, id)?;
    let same = std::ptr::eq(&*handle.context.opening.shared, &*opening.shared);
    (same && handle.kind == ObjectKind::Datatype).then_some(handle.id)
}

/// The type as programs see it and as it is stored.
pub(crate) fn both(h: &Handle, stored: &StoredType) -> Result<(Type, Type)> {
    let host = h.context.host;
    let seen = types::decode(host, &stored.encoded)?;
    let disk = types::disk(host, h.void(), h.context.connector, seen.id, &stored.encoded)?;
    if disk.size() != stored.size as usize {
        return Err(Failure::damaged(format!(
            "an element has {} bytes in the file, {} by its type",
            stored.size,
            disk.size()
        )));
    }
    Ok((seen, disk))
}

/// An id of a committed type of the same file.
pub(crate) fn committed_id(h: &Handle, id: Id) -> Result<Hid> {
    let host = h.context.host;
    let name = h.context.opening.shared.lock().tree.path_of(id).unwrap_or_default();
    let handle = Handle::hold(h.context.clone(), ObjectKind::Datatype, id, name);
    // SAFETY: a handle of ours and its kind.
    let found = unsafe { (host.api.H5VLwrap_register)(handle, abi::id::DATATYPE) };
    if found < 0 {
        let _ = Handle::close(handle);
        return Err(Failure::library("cannot open a committed datatype"));
    }
    Ok(found)
}
