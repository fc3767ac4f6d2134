//! Creating, opening, reopening, closing and removing files in this process.
//!
//! Files are identified by path, or by URL; every opening of an open file shares it. The ranks of a program create and
//! open a file together, and only the first of them touches its stub.

mod at_url;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drystone::{Container, CreateOptions, Mode, OpenOptions};

use crate::file::config::Config;
use crate::file::far;
use crate::file::heap::Heap;
use crate::file::state::{Shared, load};
use crate::file::stub::{self, FileContent, Stub};
use crate::library::abi::access;
use crate::library::driver;
use crate::library::failure::{Failure, Result, system};
use crate::model::tree::Tree;
use crate::ranks::team::{self, Act, Ranks, Team, attempt};

/// The object by which a folder is a container.
const IDENTITY: &str = "drystone.json";

/// A file of this process; ranks that are threads have one each.
type Key = (PathBuf, u32);

static FILES: Mutex<BTreeMap<Key, Arc<Shared>>> = Mutex::new(BTreeMap::new());

pub(super) fn files() -> MutexGuard<'static, BTreeMap<Key, Arc<Shared>>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The unique path of a file: its folder without links, then the name (links followed if it exists).
fn canonical(path: &Path) -> std::io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Ok(folder.canonicalize()?.join(path.file_name().ok_or(e)?))
        }
        Err(e) => Err(e),
    }
}

/// Excludes other writing processes; `None` where locks are switched off.
fn lock(container: &Path, path: &Path) -> Result<Option<File>> {
    let wanted = std::env::var("HDF5_USE_FILE_LOCKING").unwrap_or_default();
    if matches!(wanted.to_ascii_uppercase().as_str(), "FALSE" | "0") {
        return Ok(None);
    }
    let failed = |e: &std::io::Error| system(path, "unable to lock file", e);
    let file = File::open(container.join(IDENTITY)).map_err(|e| failed(&e))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(e) if e == rustix::io::Errno::WOULDBLOCK => Err(failed(&e.into())),
        Err(_) if wanted.eq_ignore_ascii_case("BEST_EFFORT") => Ok(None),
        Err(e) => Err(failed(&e.into())),
    }
}

/// The initial content of a new file.
#[derive(Clone)]
pub struct New {
    /// Its objects: a root group.
    pub tree: Tree,
    /// Bytes before the stub, which belong to the program.
    pub userblock: u64,
}

impl From<Tree> for New {
    fn from(tree: Tree) -> New {
        New { tree, userblock: 0 }
    }
}

/// An opening of a file; the file is closed with its last opening.
pub struct Opening {
    /// The file.
    pub shared: Arc<Shared>,
    /// Flags it was opened with.
    pub flags: u32,
    /// The name that the program gave.
    pub name: Vec<u8>,
    /// Whether all ranks opened it in one call. Only then do they flush and close it in one.
    together: bool,
}

impl Opening {
    pub(super) fn of(shared: Arc<Shared>, flags: u32, name: &[u8], together: bool) -> Arc<Opening> {
        shared.opens.fetch_add(1, Ordering::SeqCst);
        if flags & access::SWMR_WRITE != 0 {
            shared.swmr.store(true, Ordering::SeqCst);
        }
        Arc::new(Opening { shared, flags, name: name.to_vec(), together })
    }

    /// Another opening of the same file.
    pub fn again(&self) -> Arc<Opening> {
        Opening::of(self.shared.clone(), self.flags, &self.name, self.together)
    }

    /// Makes everything written so far visible to others. For a file of several ranks this is a collective
    /// call.
    pub fn flush(&self) -> Result<()> {
        match self.shared.team.is_some() && !self.together {
            true => Ok(()), // opened by one rank alone: it must not call a collective function
            false => self.shared.flush(),
        }
    }

    /// Commits what every rank wrote, so that all ranks see it. A collective call for a file of several ranks;
    /// it does not sync.
    pub fn show(&self) -> Result<()> {
        match self.together {
            true => self.shared.show_together(),
            false => Ok(()),
        }
    }

    /// The ranks that act together through this opening.
    pub fn team(&self) -> Option<&Team> {
        self.shared.team.as_deref().filter(|_| self.together)
    }

    /// Whether this opening may change the file.
    pub fn writable(&self) -> bool {
        self.flags & access::RDWR != 0
    }

    /// The flags as a program sees them.
    pub fn intent(&self) -> u32 {
        let writes = self.writable() && self.shared.swmr.load(Ordering::SeqCst);
        let declared = if writes { access::SWMR_WRITE } else { self.flags & access::SWMR_READ };
        self.flags & access::RDWR | declared
    }

    /// Creates a file, alone or in a call of all ranks: then the first does, and the others join.
    pub fn create(
        name: &[u8],
        flags: u32,
        config: Config,
        new: impl Into<New>,
        ranks: Option<Arc<dyn Ranks>>,
    ) -> Result<Arc<Opening>> {
        let new = new.into();
        let Some(ranks) = ranks else { return Self::make(name, flags, config, new, None) };
        let team = Arc::new(Team::new(ranks));
        Self::together(
            &team,
            (Act::Create, flags),
            || Self::make(name, flags, config, new.clone(), Some(team.clone())),
            |_| Self::join(name, flags, config, new.tree.clone(), team.clone()),
        )
    }

    /// Creates a file that leaves nothing behind when it is closed, and nothing at its name.
    pub fn create_in_memory(name: &[u8], flags: u32, config: Config, tree: Tree) -> Result<Arc<Opening>> {
        use std::os::unix::ffi::OsStrExt;
        let (folder, path) = driver::memory(path_of(name))?;
        let config = Config { sync: false, publish: false, ..config };
        let made = Self::make(path.as_os_str().as_bytes(), flags, config, tree.into(), None);
        let mut opening = made.inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&folder);
        })?;
        let _ = opening.shared.published.set(folder);
        if let Some(opening) = Arc::get_mut(&mut opening) {
            opening.name = name.to_vec();
        }
        Ok(opening)
    }

    /// The first rank creates or opens a version of the container, and the others open the same version.
    fn together(
        team: &Arc<Team>,
        (act, flags): (Act, u32),
        first: impl FnOnce() -> Result<Arc<Opening>>,
        other: impl FnOnce(u64) -> Result<Arc<Opening>>,
    ) -> Result<Arc<Opening>> {
        use std::hash::{BuildHasher, Hasher};
        let mut made = None;
        let (mut session, mut version) = (0, 0);
        let mut outcome = Ok(());
        if team.is_first() {
            session = std::hash::RandomState::new().build_hasher().finish() | 1;
            team.session.store(session, Ordering::SeqCst);
            match attempt(first) {
                Ok(opening) => {
                    version = opening.shared.lock().container.snapshot().version();
                    made = Some(opening);
                }
                Err(e) => outcome = Err(e),
            }
        }
        // A rank that leaves before all have joined leaves for good: dropping the file holds no meeting.
        let parting = |_: &Failure| team.part();
        let said = team.meet(act, [session, u64::from(flags), version], outcome).inspect_err(parting)?;
        let agreed = said.iter().all(|numbers| numbers[1] == u64::from(flags));
        let [session, _, version] = said.first().copied().unwrap_or_default();
        team.session.store(session, Ordering::SeqCst);
        let opened = match made {
            _ if !agreed => Err(Failure::invalid("the ranks open the file with different flags")),
            Some(opening) => Ok(opening),
            None => attempt(|| other(version)),
        };
        let outcome = opened.as_ref().map(drop).map_err(Clone::clone);
        // A reader agrees with the first rank if it sees the same version.
        let digest = opened.as_ref().map_or(0, |opened| match opened.shared.writable {
            true => opened.shared.lock().digest(team),
            false => opened.shared.lock().container.snapshot().version(),
        });
        let said = team.meet(Act::Join, [digest, 0, 0], outcome).inspect_err(parting)?;
        if said.iter().any(|numbers| numbers[0] != digest) {
            team.part();
            return Err(Failure::invalid("the ranks do not find, or do not ask for, the same file"));
        }
        opened
    }

    /// Opens the file that the first rank has created.
    fn join(name: &[u8], flags: u32, config: Config, tree: Tree, team: Arc<Team>) -> Result<Arc<Opening>> {
        if let Some(url) = far::url(name) {
            return Self::join_far(url, flags, config, tree, team);
        }
        let given = path_of(name);
        let failed = |e: &std::io::Error| system(given, "unable to create file", e);
        let path = given.canonicalize().map_err(|e| failed(&e))?;
        let key = (path.clone(), team.lane());
        let mut files = files();
        if files.contains_key(&key) {
            return Err(Failure::file_open("unable to truncate a file which is already open"));
        }
        let FileContent::Stub(stub) = stub::read(&path).map_err(|e| failed(&e))? else {
            return Err(Failure::no_file(format!("{} is not what rank 0 has created", given.display())));
        };
        let container = open_container(&path, given, &stub, Mode::ReadWrite, &config)?;
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let shared = Shared::new(path, true, config, container, (tree, Heap::default()), None, Some(team));
        shared.lock().dirty = true;
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, name, true))
    }

    fn make(
        name: &[u8],
        flags: u32,
        config: Config,
        new: New,
        team: Option<Arc<Team>>,
    ) -> Result<Arc<Opening>> {
        if let Some(url) = far::url(name) {
            return Self::make_far(url, flags, config, new, team);
        }
        let given = path_of(name);
        let failed = |e: &std::io::Error| system(given, "unable to create file", e);
        let mut files = files();
        let path = canonical(given).map_err(|e| failed(&e))?;
        let key = (path.clone(), team.as_ref().map_or(0, |team| team.lane()));
        if files.contains_key(&key) {
            return Err(Failure::file_open("unable to truncate a file which is already open"));
        }
        let old = match std::fs::symlink_metadata(&path) {
            Ok(_) if flags & access::EXCL != 0 || flags & access::TRUNC == 0 => {
                return Err(system(given, "unable to create file", &rustix::io::Errno::EXIST.into()));
            }
            Ok(found) if found.is_dir() => {
                return Err(failed(&rustix::io::Errno::ISDIR.into()));
            }
            // A device, pipe or socket: a rename would replace it with the stub.
            Ok(found) if !found.is_file() => return Err(failed(&not_a_file())),
            Ok(_) => match stub::read(&path) {
                // The container of another file stays, if this is a copy of that file's stub.
                Ok(FileContent::Stub(stub)) => match stub::folder_of(&path, &stub) {
                    (folder, None) => Some(folder),
                    (_, Some(_)) => None,
                },
                Err(e) => return Err(failed(&e)),
                _ => None,
            },
            Err(_) => None,
        };
        // A folder that is gone is not removed again: the new container may get its name.
        let old = old.filter(|old| old.exists());
        if let Some(old) = &old {
            lock(old, given)?; // another process is writing it
        }
        let file_name = path
            .file_name()
            .and_then(|n| n.to_str())
            .ok_or_else(|| Failure::invalid(format!("the file name {} is not UTF-8", given.display())))?;
        let (folder, place) = (1..)
            .find_map(|i| {
                let number = if i == 1 { String::new() } else { format!("-{i}") };
                let place = format!("{file_name}.drystone{number}");
                let folder = path.with_file_name(&place);
                match std::fs::create_dir(&folder) {
                    Ok(()) => Some(Ok((folder, place))),
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && i < 10_000 => None,
                    Err(e) => Some(Err(e)),
                }
            })
            .ok_or_else(|| Failure::no_file("no free name for a container"))?
            .map_err(|e| failed(&e))?;
        let made = Self::found(&folder, &place, &path, config, new.userblock);
        let (container, lock) = made.inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&folder);
        })?;
        if let Some(old) = old {
            let _ = std::fs::remove_dir_all(old); // nothing refers to it any more
        }
        let flags = (flags & !(access::TRUNC | access::EXCL)) | access::RDWR;
        let tree = new.tree;
        let together = team.is_some();
        let shared = Shared::new(path, true, config, container, (tree, Heap::default()), lock, team);
        shared.lock().dirty = true;
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, name, together))
    }

    fn found(
        folder: &Path,
        place: &str,
        path: &Path,
        config: Config,
        userblock: u64,
    ) -> Result<(Container, Option<File>)> {
        let options = CreateOptions { early_writeback: config.sync, ..CreateOptions::default() };
        let container = Container::create(folder, options)?;
        let lock = lock(folder, path)?;
        let stub = Stub { container: place.to_string(), uuid: container.identity().uuid };
        stub::write(&stub, path, userblock, config.sync)
            .map_err(|e| system(path, "unable to create file", &e))?;
        Ok((container, lock))
    }

    /// Opens an existing file, alone or in a call of all ranks.
    pub fn open(
        name: &[u8],
        flags: u32,
        config: Config,
        ranks: Option<Arc<dyn Ranks>>,
    ) -> Result<Arc<Opening>> {
        let Some(ranks) = ranks else { return Self::find(name, flags, config, None) };
        let team = Arc::new(Team::new(ranks));
        Self::together(
            &team,
            (Act::Open, flags),
            || Self::find(name, flags, config, Some((team.clone(), None))),
            |version| Self::find(name, flags, config, Some((team.clone(), Some(version)))),
        )
    }

    /// One more opening of a file that is open here.
    pub(super) fn share(
        shared: &Arc<Shared>,
        flags: u32,
        name: &[u8],
        together: bool,
    ) -> Result<Arc<Opening>> {
        if flags & access::RDWR != 0 && !shared.writable {
            return Err(Failure::no_file("file is already open for read-only"));
        }
        if together && shared.team.is_none() {
            return Err(Failure::file_open("the file is already open in a rank by itself"));
        }
        Ok(Opening::of(shared.clone(), flags, name, together))
    }

    /// Opens a file; `team` has the version that the first rank opened, on the others.
    fn find(
        name: &[u8],
        flags: u32,
        config: Config,
        team: Option<(Arc<Team>, Option<u64>)>,
    ) -> Result<Arc<Opening>> {
        if let Some(url) = far::url(name) {
            return Self::find_far(url, flags, config, team);
        }
        let given = path_of(name);
        let failed = |e: &std::io::Error| system(given, "unable to open file", e);
        let mut files = files();
        let path = given.canonicalize().map_err(|e| failed(&e))?;
        let writable = flags & access::RDWR != 0;
        let key = (path.clone(), team.as_ref().map_or(0, |(team, _)| team.lane()));
        if let Some(shared) = files.get(&key) {
            return Self::share(shared, flags, name, team.is_some());
        }
        if path.is_dir() {
            let follows = team.as_ref().and_then(|(_, version)| *version);
            let container = folder(&path, given, writable)?;
            let shared = Self::read_only(path, config, container, follows, team.map(|(team, _)| team))?;
            let together = shared.team.is_some();
            files.insert(key, shared.clone());
            return Ok(Opening::of(shared, flags, name, together));
        }
        if !path.is_file() {
            return Err(failed(&not_a_file()));
        }
        let stub = match stub::read(&path).map_err(|e| failed(&e))? {
            FileContent::Stub(stub) => stub,
            FileContent::Hdf5 => {
                return Err(Failure {
                    minor: "H5E_NOTHDF5_g\0",
                    ..Failure::damaged(format!(
                        "{} is an ordinary HDF5 file; open it without the drystone connector",
                        given.display()
                    ))
                });
            }
            FileContent::Other => {
                return Err(Failure {
                    minor: "H5E_NOTHDF5_g\0",
                    ..Failure::damaged(format!("file signature not found in {}", given.display()))
                });
            }
            FileContent::Damaged(why) => {
                return Err(Failure::damaged(format!("the stub {} is damaged: {why}", given.display())));
            }
        };
        if writable {
            rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).map_err(|e| failed(&e.into()))?;
        }
        let follows = team.as_ref().and_then(|(_, version)| *version);
        let mode = if writable { Mode::ReadWrite } else { Mode::Read };
        let mut container = open_container(&path, given, &stub, mode, &config)?;
        let alone = writable && follows.is_none(); // one lock for all ranks: the first's
        let lock = if alone { lock(&stub::folder_of(&path, &stub).0, given)? } else { None };
        if writable {
            container.refresh()?; // what was committed before the lock was ours
        } else if let Some(version) = follows.filter(|v| *v != container.snapshot().version()) {
            container = container.at(version)?;
        }
        let (tree, heap) = load(&container, None)
            .map_err(|f| Failure { message: format!("{}: {}", given.display(), f.message), ..f })?;
        let together = team.is_some();
        let team = team.map(|(team, _)| team);
        if let Some(team) = team.as_ref().filter(|_| writable) {
            team.agreed.store(team::digest(&tree, &[]), Ordering::SeqCst);
        }
        let shared = Shared::new(path, writable, config, container, (tree, heap), lock, team);
        files.insert(key, shared.clone());
        Ok(Opening::of(shared, flags, name, together))
    }

    /// A container opened directly, without a stub: read-only.
    fn read_only(
        path: PathBuf,
        config: Config,
        mut container: Container,
        follows: Option<u64>,
        team: Option<Arc<Team>>,
    ) -> Result<Arc<Shared>> {
        if let Some(version) = follows.filter(|v| *v != container.snapshot().version()) {
            container = container.at(version)?;
        }
        let (tree, heap) = load(&container, None)
            .map_err(|f| Failure { message: format!("{}: {}", path.display(), f.message), ..f })?;
        Ok(Shared::new(path, false, config, container, (tree, heap), None, team))
    }

    /// Whether a program that uses HDF5 can open what is at the path: a stub of this connector, or a container. An
    /// error if there is nothing.
    pub fn accessible(name: &[u8]) -> Result<bool> {
        if let Some(url) = far::url(name) {
            return far::accessible(url);
        }
        let path = path_of(name);
        if path.is_dir() {
            return Ok(Container::open(path, Mode::Read).is_ok());
        }
        match stub::read(path) {
            Ok(found) => Ok(matches!(found, FileContent::Stub(_))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(system(path, "unable to open file", &e))
            }
            Err(_) => Ok(false),
        }
    }

    /// Removes a file and its container, alone or in a call of all ranks.
    pub fn delete(name: &[u8], ranks: Option<Arc<dyn Ranks>>) -> Result<()> {
        let Some(ranks) = ranks else { return Self::remove(name) };
        let team = Team::new(ranks);
        let done = if team.is_first() { attempt(|| Self::remove(name)) } else { Ok(()) };
        team.meet(Act::Delete, [0; 3], done).map(drop)
    }

    fn remove(name: &[u8]) -> Result<()> {
        if let Some(url) = far::url(name) {
            if files().keys().any(|(open, _)| open.as_os_str() == url) {
                return Err(Failure::file_open("unable to delete a file which is open"));
            }
            return far::remove(url);
        }
        let given = path_of(name);
        let failed = |e: &std::io::Error| system(given, "unable to delete file", e);
        let files = files();
        let path = given.canonicalize().map_err(|e| failed(&e))?;
        if files.keys().any(|(open, _)| *open == path) {
            return Err(Failure::file_open("unable to delete a file which is open"));
        }
        match stub::read(&path).map_err(|e| failed(&e))? {
            FileContent::Stub(stub) => {
                let found = stub::folder_of(&path, &stub);
                std::fs::remove_file(&path).map_err(|e| failed(&e))?;
                let (folder, None) = found else { return Ok(()) };
                match std::fs::remove_dir_all(folder) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(&e)),
                    _ => Ok(()),
                }
            }
            _ => Err(Failure::damaged(format!("{} is not a file of this connector", given.display()))),
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let files = files();
        if self.shared.opens.fetch_sub(1, Ordering::SeqCst) == 1 {
            let mut files = files;
            files
                .remove(&(self.shared.path.clone(), self.shared.team.as_ref().map_or(0, |team| team.lane())));
            // With one process, an opening meanwhile waits for the lock. With several ranks none holds a lock
            // while it waits for the others.
            let files = self.shared.team.is_none().then_some(files);
            self.shared.shut();
            if let Some(container) = self.shared.published.get() {
                let _ = std::fs::remove_dir_all(container); // nothing leads to it any more
            }
            drop(files);
        }
    }
}

fn not_a_file() -> std::io::Error {
    std::io::Error::other("it is not a regular file")
}

/// A name as a path: any bytes are allowed.
pub fn path_of(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(name))
}

/// The container in a folder that a program names in place of a file. A folder without one is no file.
fn folder(path: &Path, given: &Path, writable: bool) -> Result<Container> {
    let is_folder = || system(given, "unable to open file", &rustix::io::Errno::ISDIR.into());
    if !path.join(IDENTITY).is_file() {
        return Err(is_folder());
    }
    if writable {
        let told = is_folder();
        let why = "a container that is named itself is open to HDF5 programs for reading only";
        return Err(Failure { message: format!("{}: {why}", told.message), ..told });
    }
    Container::open(path, Mode::Read).map_err(|e| Failure::damaged(format!("{}: {e}", given.display())))
}

/// The container that a stub names.
fn open_container(path: &Path, given: &Path, stub: &Stub, mode: Mode, config: &Config) -> Result<Container> {
    let (folder, original) = stub::folder_of(path, stub);
    if let Some(original) = original.filter(|_| mode != Mode::Read) {
        return Err(Failure::file_open(format!(
            "{given} is a copy of {original} without its folder, and a change would change both: copy {container} to \
             {given}.drystone, too, or open {original}",
            given = given.display(),
            original = original.display(),
            container = stub.container
        )));
    }
    let options = OpenOptions { early_writeback: config.sync, ..OpenOptions::from(mode) };
    let container = Container::open(folder, options)
        .map_err(|e| Failure::damaged(format!("{}: {e}", given.display())))?;
    if container.identity().uuid != stub.uuid {
        return Err(Failure::damaged(format!(
            "{} names the container {}, which is another one than it was written for",
            given.display(),
            stub.container
        )));
    }
    Ok(container)
}
