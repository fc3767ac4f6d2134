//! The state shared by all handles of one opening.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use crate::file::config::Mimic;
use crate::file::opening::Opening;
use crate::file::publish;
use crate::library::abi::Hid;
use crate::library::failure::{Failure, Result};
use crate::library::host::{Host, quietly};
use crate::library::props::List;

/// The state shared by all handles of one opening.
pub struct Context {
    /// The library.
    pub host: &'static Host,
    /// The opening.
    pub opening: Arc<Opening>,
    /// Our id in that library.
    pub connector: Hid,
    /// Whether the connector claims to be native.
    pub mimic: bool,
    /// The program's access settings, which it may ask for again, though they have no effect here.
    pub kept: AccessSettings,
    /// A copy of that list, which is returned whole; not with several ranks, where a copy would be a message
    /// to all.
    pub access: Option<List>,
    /// The handle of the file that the program opened, by its address; 0 if there was none. It may be closed.
    pub file: AtomicUsize,
    /// The list of the last dataset creation.
    pub creation: Mutex<Option<Arc<List>>>,
}

/// Settings of an access list: the oldest and newest format, and the chunk cache.
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct AccessSettings {
    pub versions: Option<(i32, i32)>,
    pub cache: Option<(i32, usize, usize, f64)>,
}

impl AccessSettings {
    fn of(host: &Host, fapl: Hid) -> AccessSettings {
        let (mut oldest, mut newest, mut elements, mut slots, mut bytes, mut weight) = (0, 0, 0, 0, 0, 0.0);
        // SAFETY: writes numbers.
        quietly(host, || unsafe {
            let versions = (host.api.H5Pget_libver_bounds)(fapl, &mut oldest, &mut newest) >= 0;
            let cache =
                (host.api.H5Pget_cache)(fapl, &mut elements, &mut slots, &mut bytes, &mut weight) >= 0;
            AccessSettings {
                versions: versions.then_some((oldest, newest)),
                cache: cache.then_some((elements, slots, bytes, weight)),
            }
        })
    }

    /// Applies the settings to a list.
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
        let kept = AccessSettings::of(host, fapl);
        Arc::new(Context {
            host,
            opening,
            connector,
            mimic,
            kept,
            access,
            file: AtomicUsize::new(0),
            creation: Mutex::default(),
        })
    }

    /// A copy of a dataset creation list. Programs create many datasets with one list, and a comparison costs
    /// less than a copy.
    pub fn copy_of(&self, list: Hid) -> Option<Arc<List>> {
        let mut last = self.creation.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = last.as_ref().filter(|last| last.says_the_same(list)) {
            return Some(same.clone());
        }
        last.clone_from(&List::copy(self.host, list).ok().map(Arc::new));
        last.clone()
    }

    /// Makes the file a genuine HDF5 file, if that is configured and this is its last opening.
    pub fn publish(&self) -> Result<()> {
        publish::at_the_end(self.host, self.connector, &self.opening)
    }

    /// Refuses to change a file that was opened for reading.
    pub fn writable(&self) -> Result<()> {
        match self.opening.writable() {
            true => Ok(()),
            false => Err(Failure::read_only("no write intent on file")),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // If objects outlived their file's id, the library has no caller left for the error.
        if let Err(failure) = self.publish() {
            eprintln!("drystone: {}", failure.message);
        }
        if self.connector > 0 {
            // SAFETY: the reference that `new` got.
            quietly(self.host, || unsafe { (self.host.api.H5Idec_ref)(self.connector) });
        }
    }
}
