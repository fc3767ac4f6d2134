//! Stores of containers, which are opened once and kept open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use drystone_format::keys;
use drystone_program::Bench;
use drystone_store::{LocalStore, MemoryStore, Store, StoreError};
use drystone_wire::Status;

use crate::Config;
use crate::place::{Place, check_below, place};
use crate::reply::Refusal;

/// If more stores are open, those that no request uses are closed.
const KEPT: usize = 256;

/// A store of a container.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// The container's folder, if it lies in one.
    pub(crate) folder: Option<PathBuf>,
    /// Memory of programs that ran on it. It is not shared with other containers, so programs on them never see bytes
    /// of this one.
    benches: Mutex<Vec<Bench>>,
}

/// Memory that is kept for further programs of a container: the most benches, and the most bytes of each.
const BENCHES: (usize, usize) = (4, 8 << 20);

impl Opened {
    fn new(store: Arc<dyn Store>, folder: Option<PathBuf>) -> Self {
        Opened { store, folder, benches: Mutex::default() }
    }

    /// Calls `work` with memory for a program.
    pub(crate) fn with_bench<T>(&self, work: impl FnOnce(&mut Bench) -> T) -> T {
        let benches = || self.benches.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = benches().pop();
        let mut bench = kept.unwrap_or_default();
        let done = work(&mut bench);
        let mut benches = benches();
        if benches.len() < BENCHES.0 && bench.held() <= BENCHES.1 {
            benches.push(bench);
        }
        done
    }
}

#[derive(Default)]
pub(crate) struct Stores {
    open: Mutex<HashMap<String, Arc<Opened>>>,
}

impl Stores {
    /// The store of a container. With `make`, creates its folder if there is none. Without, the store of a missing
    /// container is empty, and callers must not write to it. This may block.
    pub(crate) fn of(&self, config: &Config, name: &str, make: bool) -> Result<Arc<Opened>, Refusal> {
        let known = self.lock().get(name).cloned();
        if let Some(opened) = known {
            if opened.store.unchanged().is_ok() {
                return Ok(opened);
            }
            self.lock().remove(name);
        }
        let opened = Arc::new(opened(config, name, make)?);
        // From here on, the store notices if the container is replaced. A container that does not exist yet is not
        // kept, so the next request looks again.
        match opened.store.watch(keys::IDENTITY) {
            Ok(_) if opened.folder.is_some() || drystone::is_url(&opened.store.describe()) => {}
            Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(opened),
            Err(error) => return Err(error.into()),
        }
        let mut open = self.lock();
        if open.len() >= KEPT {
            open.retain(|_, opened| Arc::strong_count(opened) > 1);
        }
        open.insert(name.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }

    /// Number of open stores.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Opened>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn opened(config: &Config, name: &str, make: bool) -> Result<Opened, Refusal> {
    let missing = || Refusal::new(Status::NotFound, format!("there is no container {name:?} on this server"));
    let path: PathBuf = match place(config, name).ok_or_else(missing)? {
        Place::Container(url) if drystone::is_url(&url) => {
            let store = drystone::open_store(&url, &[]).map_err(|_| {
                Refusal::new(Status::Io, format!("the store of {name:?} cannot be reached from the server"))
            })?;
            return Ok(Opened::new(store, None));
        }
        Place::Container(path) => path.into(),
        Place::Below { root, path } => {
            check_below(&root, &path)
                .map_err(|why| Refusal::new(Status::Denied, format!("{name:?} cannot be used: {why}")))?;
            path
        }
    };
    if path.is_dir() {
        let text = path.to_str().ok_or_else(missing)?;
        let store = drystone::open_store(text, &[]).map_err(|_| {
            Refusal::new(Status::Io, format!("the folder of {name:?} cannot be read by the server"))
        })?;
        return Ok(Opened::new(store, Some(path)));
    }
    if make {
        return Ok(Opened::new(Arc::new(LocalStore::create(&path)?), Some(path)));
    }
    Ok(Opened::new(Arc::new(MemoryStore::new()), None))
}
