//! The keepers of locks and releases, by the handles of their containers.
//!
//! Transfers are known while the container's handle is open.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use drystone::Container;
use drystone_region::Keeper;

use crate::failure::Result;

static KEEPERS: LazyLock<Mutex<HashMap<usize, Arc<Keeper>>>> = LazyLock::new(Mutex::default);

/// The keeper of the container behind this handle.
pub(crate) fn of(handle: usize, container: &Container) -> Result<Arc<Keeper>> {
    let mut keepers = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keeper) = keepers.get(&handle) {
        return Ok(Arc::clone(keeper));
    }
    let keeper = Keeper::of(container, &[])?;
    keepers.insert(handle, Arc::clone(&keeper));
    Ok(keeper)
}

/// Called when the container's handle closes: writes what was received.
pub(crate) fn forget(handle: usize) {
    let keeper = KEEPERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    drop(keeper);
}
