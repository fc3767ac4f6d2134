//! Files that a program names by a URL: the container lies there itself, and no stub leads to it.
//!
//! A far store has no lock that ends with its holder. So a file that a program changes alone knows the newest version it has seen
//! or made, its *head*, and commits on that version only: a commit of another program in between fails the next flush, and neither
//! program loses what it flushed before. Ranks commit side by side, so a file of several ranks has no head.
//!
//! Invariant: a container without the catalogue of HDF5's names is opened, replaced or removed by nothing here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drystone::store::Store;
use drystone::{Container, CreateOptions, Error, ErrorKind, Mode};

use crate::file::config::Config;
use crate::file::opening::{New, Opening, files};
use crate::file::state::{CATALOGUE, FileState, Shared, load};
use crate::library::abi::access;
use crate::library::failure::{Failure, Result, system};
use crate::model::catalogue::Catalogue;
use crate::model::tree::Tree;
use crate::ranks::team::{self, Team};

const CREATE: &str = "unable to create file";
const OPEN: &str = "unable to open file";

/// The name of a file, if it is a URL of a far store.
pub(crate) fn url(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok().filter(|name| drystone::is_url(name))
}

/// An error of a far store as one of a file. Programs act on "there is none" and "there is one".
fn failed(url: &str, what: &str, e: Error) -> Failure {
    let number = match e.kind() {
        ErrorKind::NotFound => rustix::io::Errno::NOENT,
        ErrorKind::Conflict if what == CREATE => rustix::io::Errno::EXIST,
        ErrorKind::Permission => rustix::io::Errno::ACCESS,
        _ => return Failure::no_file(format!("{what}: name = '{url}': {e}")),
    };
    let told = system(Path::new(url), what, &number.into());
    Failure { message: format!("{}: {e}", told.message), ..told }
}

/// What a file at a URL cannot be.
fn check(url: &str, config: &Config, userblock: u64) -> Result<()> {
    if config.publish {
        return Err(Failure::unsupported(format!(
            "publish=1 makes a genuine HDF5 file in place of the stub, and at {url} there is none: leave publish=1 out, or write to a local \
             file, which drystone publish --hdf5 converts"
        )));
    }
    if userblock != 0 {
        return Err(Failure::unsupported(format!(
            "a user block lies in the file before its content, and {url} is a container of many objects: leave the user block out"
        )));
    }
    Ok(())
}

/// Whether programs wrote the container through HDF5, or nothing at all yet.
fn is_ours(container: &Container) -> bool {
    container.schema().resolve(CATALOGUE).is_some()
}

fn not_ours(url: &str) -> Failure {
    Failure {
        minor: "H5E_NOTHDF5_g\0",
        ..Failure::damaged(format!(
            "the container {url} was not written through HDF5: read it with drystone.open, or copy it with drystone copy"
        ))
    }
}

/// Whether a program that uses HDF5 can open what lies at a URL. An error if there is nothing.
pub(super) fn accessible(url: &str) -> Result<bool> {
    match Container::open_url(url, &[], Mode::Read) {
        Ok(container) => Ok(is_ours(&container)),
        Err(e) => Err(failed(url, OPEN, e)),
    }
}

/// Removes the file at a URL.
pub(super) fn remove(url: &str) -> Result<()> {
    let what = "unable to delete file";
    let container = Container::open_url(url, &[], Mode::Read).map_err(|e| failed(url, what, e))?;
    if !is_ours(&container) {
        return Err(not_ours(url));
    }
    drop(container);
    Container::remove_url(url, &[], None).map_err(|e| failed(url, what, e))
}

/// Bytes that lie at a URL.
pub(crate) fn size(url: &str) -> drystone::Result<u64> {
    let store = drystone::open_store(url, &[])?;
    Ok(store.list("")?.iter().map(|entry| entry.len).sum())
}

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
            match Container::open_url(url, &[], Mode::Read) {
                // A program that was killed before its first flush leaves a container without anything.
                Ok(old) if is_ours(&old) || old.schema().variables.is_empty() => {
                    drop(old);
                    Container::remove_url(url, &[], None).map_err(|e| failed(url, CREATE, e))?;
                }
                Ok(_) => return Err(not_ours(url)),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(failed(url, CREATE, e)),
            }
        }
        let container =
            Container::create_url(url, &[], CreateOptions::default()).map_err(|e| failed(url, CREATE, e))?;
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let together = team.is_some();
        let shared = Shared::new(key.0.clone(), true, config, container, (new.tree, 0), None, team);
        {
            let mut state = shared.lock();
            state.dirty = true;
            if !together {
                state.begin_alone(url);
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
        let container = Container::open_url(url, &[], Mode::ReadWrite).map_err(|e| failed(url, CREATE, e))?;
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let shared = Shared::new(key.0.clone(), true, config, container, (tree, 0), None, Some(team));
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
        let mut container = Container::open_url(url, &[], mode).map_err(|e| failed(url, OPEN, e))?;
        let follows = team.as_ref().and_then(|(_, version)| *version);
        if let Some(version) = follows.filter(|v| !writable && *v != container.snapshot().version()) {
            container = container.at(version)?;
        }
        if !is_ours(&container) {
            return Err(not_ours(url));
        }
        let Catalogue { tree, heap } =
            load(&container).map_err(|f| Failure { message: format!("{url}: {}", f.message), ..f })?;
        let team = team.map(|(team, _)| team);
        let together = team.is_some();
        if let Some(team) = team.as_ref().filter(|_| writable) {
            team.agreed.store(team::digest(&tree, &[]), Ordering::SeqCst);
        }
        let shared = Shared::new(key.0.clone(), writable, config, container, (tree, heap), None, team);
        if writable && !together {
            shared.lock().begin_alone(url);
        }
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, url.as_bytes(), together))
    }
}

/// The newest version of a file that this program has seen or made, and where the file is.
pub(crate) struct Head {
    url: String,
    version: u64,
}

impl Head {
    fn overtaken(&self) -> Failure {
        Failure::write(format!(
            "another program has changed {} since this one opened it, so what this one has not flushed cannot be stored; let one program \
             at a time write to a file",
            self.url
        ))
    }
}

impl FileState {
    /// From here on every commit builds on the last one that this program saw or made.
    fn begin_alone(&mut self, url: &str) {
        self.head = Some(Head { url: url.into(), version: self.container.snapshot().version() });
    }

    /// Records a commit of the schema, which takes whatever is newest for its base: an error if that was another program's.
    pub(crate) fn check_head(&mut self, changed: bool) -> Result<()> {
        let now = self.container.snapshot().version();
        let Some(head) = &mut self.head else { return Ok(()) };
        if now != head.version + u64::from(changed) {
            return Err(head.overtaken());
        }
        head.version = now;
        Ok(())
    }

    /// Commits what the writer holds, on the head only; `false` where there is none.
    pub(crate) fn commit_on_head(&mut self) -> Result<bool> {
        let Some(head) = &mut self.head else { return Ok(false) };
        let Some(writer) = self.writer.take() else { return Ok(true) };
        // Most often found here, before a sealed log is left behind that no commit may take.
        self.container.refresh()?;
        if self.container.snapshot().version() != head.version {
            return Err(head.overtaken());
        }
        writer.seal()?;
        let next = head.version + 1;
        let mut is_overtaken = false;
        let done = self.container.commit_sealed_with(&[writer.id()], |_, version| {
            is_overtaken = version != next;
            match is_overtaken {
                true => Err(Error::new(ErrorKind::Conflict, "another program was faster")),
                false => Ok(false),
            }
        });
        if is_overtaken {
            return Err(head.overtaken());
        }
        done?;
        head.version = next;
        Ok(true)
    }
}
