//! One server for one container on a machine. The first process that needs it starts it, and the others find it.
//!
//! The process that serves holds a kernel lock on a file. The kernel releases the lock when the process ends, so the
//! lock is never stale, and no timeout is needed. The file is in a folder that belongs to the user;
//! docs/decisions/160-a-server-of-the-node.md has the reasons.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use drystone_format::identity::Identity;
use drystone_format::keys;
use drystone_store::StoreExt;
use rustix::fs::{FlockOperation, flock};

use crate::config::Listener;
use crate::face::Page;
use crate::serve::serve_while;
use crate::{Config, InvalidConfig};

/// The name of the container on such a server.
const NAME: &str = "run";
/// A process that has the lock listens within this time.
const STARTING: Duration = Duration::from_secs(20);
/// The longest identity, in bytes.
const IDENTITY: u64 = 64 << 10;

/// Serves a container to processes of this user on this machine, until a signal stops it or no client has been
/// connected for `idle`. Calls `ready` with its URL. If another process serves the container already, calls `ready`
/// with that server's URL and returns.
pub fn serve_node(
    place: &str,
    idle: Duration,
    page: Option<Arc<dyn Page>>,
    ready: impl FnOnce(&str),
) -> Result<(), InvalidConfig> {
    let place = if drystone::is_url(place) {
        place.to_owned()
    } else {
        let found = Path::new(place).canonicalize();
        let found =
            found.map_err(|error| InvalidConfig(format!("there is no container at {place}: {error}")))?;
        found.to_string_lossy().into_owned()
    };
    let folder = folder()?;
    let id = identity(&place)?;
    let (socket, file) = (folder.join(format!("{id}.sock")), folder.join(format!("{id}.lock")));
    let url = format!("drys+unix://{}:/{NAME}", socket.display());
    let Some(lock) = locked(&file, &socket)? else {
        ready(&url);
        return Ok(());
    };
    let config = Config {
        listen: vec![Listener::Unix(socket)],
        containers: [(NAME.to_owned(), place)].into_iter().collect(),
        ..Config::default()
    };
    let served = serve_while(config, page, Some(idle), |_| ready(&url));
    drop(lock);
    served
}

/// Takes the lock; `None` if another process has it and listens.
fn locked(file: &Path, socket: &Path) -> Result<Option<File>, InvalidConfig> {
    let cannot = |error: std::io::Error| InvalidConfig(format!("cannot lock {}: {error}", file.display()));
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600).open(file).map_err(cannot)?;
    let until = Instant::now() + STARTING;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(lock)),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(cannot(error.into())),
        }
        if UnixStream::connect(socket).is_ok() {
            return Ok(None);
        }
        if Instant::now() > until {
            return Err(InvalidConfig(format!(
                "another process has {} locked and does not listen on {}",
                file.display(),
                socket.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The UUID of the container, in hexadecimal digits. Two paths to one container therefore lead to one server.
fn identity(place: &str) -> Result<String, InvalidConfig> {
    let wrong =
        |why: &dyn std::fmt::Display| InvalidConfig(format!("there is no container at {place}: {why}"));
    let store = drystone::open_store(place, &[]).map_err(|error| wrong(&error))?;
    let bytes = store.read_all(keys::IDENTITY, IDENTITY).map_err(|error| wrong(&error))?;
    let identity = Identity::decode(&bytes).map_err(|error| wrong(&error))?;
    Ok(identity.uuid.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The folder of sockets and locks. It belongs to this user and is closed to all others.
fn folder() -> Result<PathBuf, InvalidConfig> {
    let own = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = match runtime {
        Some(runtime) => runtime.join("drystone"),
        None => std::env::temp_dir().join(format!("drystone-{own}")),
    };
    let cannot = |why: String| InvalidConfig(format!("{} cannot hold sockets: {why}", folder.display()));
    if let Err(error) = DirBuilder::new().mode(0o700).create(&folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(cannot(error.to_string()));
    }
    // Another user could have created it first.
    let found = folder.symlink_metadata().map_err(|error| cannot(error.to_string()))?;
    if !found.is_dir() || found.uid() != own || found.mode() & 0o077 != 0 {
        return Err(cannot("it is not a folder of this user alone (mode 700)".into()));
    }
    Ok(folder)
}
