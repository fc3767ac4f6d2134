//! Creating and opening files at URLs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drystone::{Container, CreateOptions, ErrorKind, Mode, StoreOptions};

use super::{New, Opening, files};
use crate::file::config::Config;
use crate::file::far::{CREATE, OPEN, check, failed, is_ours, not_ours, read_only};
use crate::file::head::Head;
use crate::file::heap::Heap;
use crate::file::state::{Shared, load};
use crate::library::abi::access;
use crate::library::failure::{Failure, Result};
use crate::model::tree::Tree;
use crate::ranks::team::{self, Team};

impl Opening {
    /// Creates a file, alone or as the first of several ranks.
    pub(super) fn make_far(
        url: &str,
        flags: u32,
        config: Config,
        new: New,
        team: Option<Arc<Team>>,
    ) -> Result<Arc<Opening>> {
        check(url, &config, new.userblock)?;
        let mut files = files();
        let key = (PathBuf::from(url), team.as_ref().map_or(0, |team| team.lane()));
        if files.contains_key(&key) {
            return Err(Failure::file_open("unable to truncate a file which is already open"));
        }
        if flags & access::TRUNC != 0 && flags & access::EXCL == 0 {
            match Container::open(url, Mode::Read) {
                // A program that was killed before its first flush leaves a container without anything.
                Ok(old) if is_ours(&old) || old.schema().variables.is_empty() => {
                    drop(old);
                    Container::remove_url(url, &StoreOptions::default())
                        .map_err(|e| failed(url, CREATE, e))?;
                }
                Ok(_) => return Err(not_ours(url)),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(failed(url, CREATE, e)),
            }
        }
        let container =
            Container::create(url, CreateOptions::default()).map_err(|e| failed(url, CREATE, e))?;
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let together = team.is_some();
        let shared =
            Shared::new(key.0.clone(), true, config, container, (new.tree, Heap::default()), None, team);
        {
            let mut state = shared.lock();
            state.dirty = true;
            if !together {
                state.head = Some(Head::of(url, &state.container));
            }
        }
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, url.as_bytes(), together))
    }

    /// Opens the file that the first rank has created.
    pub(super) fn join_far(
        url: &str,
        flags: u32,
        config: Config,
        tree: Tree,
        team: Arc<Team>,
    ) -> Result<Arc<Opening>> {
        let mut files = files();
        let key = (PathBuf::from(url), team.lane());
        if files.contains_key(&key) {
            return Err(Failure::file_open("unable to truncate a file which is already open"));
        }
        let container = Container::open(url, Mode::ReadWrite).map_err(|e| failed(url, CREATE, e))?;
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let shared =
            Shared::new(key.0.clone(), true, config, container, (tree, Heap::default()), None, Some(team));
        shared.lock().dirty = true;
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, url.as_bytes(), true))
    }

    /// Opens a file; `team` has the version that the first rank opened, on the others.
    pub(super) fn find_far(
        url: &str,
        flags: u32,
        config: Config,
        team: Option<(Arc<Team>, Option<u64>)>,
    ) -> Result<Arc<Opening>> {
        let writable = flags & access::RDWR != 0;
        let mut files = files();
        let key = (PathBuf::from(url), team.as_ref().map_or(0, |(team, _)| team.lane()));
        if let Some(shared) = files.get(&key) {
            return Self::share(shared, flags, url.as_bytes(), team.is_some());
        }
        if writable {
            check(url, &config, 0)?;
        }
        let mode = if writable { Mode::ReadWrite } else { Mode::Read };
        let mut container = Container::open(url, mode).map_err(|e| failed(url, OPEN, e))?;
        let follows = team.as_ref().and_then(|(_, version)| *version);
        if let Some(version) = follows.filter(|v| !writable && *v != container.snapshot().version()) {
            container = container.at(version)?;
        }
        if !is_ours(&container) && writable {
            return Err(read_only(url));
        }
        let (tree, heap) =
            load(&container, None).map_err(|f| Failure { message: format!("{url}: {}", f.message), ..f })?;
        let team = team.map(|(team, _)| team);
        let together = team.is_some();
        if let Some(team) = team.as_ref().filter(|_| writable) {
            team.agreed.store(team::digest(&tree, &[]), Ordering::SeqCst);
        }
        let shared = Shared::new(key.0.clone(), writable, config, container, (tree, heap), None, team);
        if writable && !together {
            let mut state = shared.lock();
            state.head = Some(Head::of(url, &state.container));
        }
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, url.as_bytes(), together))
    }
}
