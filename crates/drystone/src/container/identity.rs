//! The identity of a container in a folder, read without opening the container.

use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_store::{LocalStore, StoreExt};

use crate::base::error::must_exist;
use crate::history::hint;
use crate::{Error, Result};

/// The identity of the container in a folder.
pub(super) fn identity_of(store: &LocalStore) -> Result<Identity> {
    let bytes = store.read_all(keys::IDENTITY, hint::IDENTITY_LIMIT).map_err(must_exist)?;
    Identity::decode(&bytes).map_err(|c| Error::damaged(keys::IDENTITY, 0, &c))
}
