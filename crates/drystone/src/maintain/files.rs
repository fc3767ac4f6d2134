//! Byte files of a container (docs/format/files.md): opens, verifies and collects them through its handle.

use std::sync::Arc;
use std::time::Duration;

use drystone_file_store::files::Owner;
use drystone_file_store::{Access, Failure, Files, Life, Registry, Seen, Usage};
use drystone_format::identity::Durability;
use drystone_format::keys;
use drystone_store::StoreError;

use super::verify::Damage;
use crate::base::writer_process::Process;
use crate::container::Container;
use crate::{Error, ErrorKind, Result};

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error.into(),
            Failure::Damaged { .. } => Error::corrupt(failure.to_string()),
            Failure::Refused(_) | Failure::ReadOnly => Error::invalid(failure.to_string()),
            Failure::Stale => Error::not_found(failure.to_string()),
            Failure::NoAppend(_) => Error::unsupported(failure.to_string()),
            Failure::Taken { process, key, alone } => Error::conflict(taken(&process, &key, alone)),
            Failure::Fenced => Error::conflict(failure.to_string()),
        }
    }
}

/// The message of a mount that may not write because another one does.
fn taken(process: &str, key: &str, alone: bool) -> String {
    let who = Process::parse(process.as_bytes())
        .map_or_else(|| "another process".into(), |p| format!("process {} on {}", p.pid, p.host));
    let why = match alone {
        true => {
            "has mounted it with --writeback, and then no other mount may write: unmount it there, or mount here \
                 without --write"
        }
        false => {
            "writes files of it, through a mount or in a gc, and --writeback must be the only mount that writes: wait \
                 for its end, or mount here with --write"
        }
    };
    format!("{who} {why}; if that machine is gone for good, remove {key} of the container")
}

/// The registrations of mounts: processes as JSON, with the key `alone` of a mount that must be the only one that
/// writes.
const REGISTRY: Registry = Registry { text: registration, look: registered, lease: LEASE };
/// The registration of a garbage collection, beside which a mount may append and grant locks.
const COLLECTOR: Registry = Registry { text: collector, ..REGISTRY };
/// How long a mount on another machine, alone or gone, may be silent.
const LEASE: Duration = Duration::from_secs(15);

fn registration(alone: Option<u64>) -> String {
    Process::current().text_with("alone", alone)
}

fn collector(_: Option<u64>) -> String {
    Process::current().text_with("collects", Some(1))
}

fn registered(text: &str) -> Seen {
    let me = Process::current();
    let life = Process::parse(text.as_bytes()).map_or(Life::Unknown, |process| {
        if process.is_dead(&me) {
            Life::Ended
        } else if process.lives(&me) {
            Life::Lives
        } else {
            Life::Unknown
        }
    });
    let number = |key| Process::number_of(text, key);
    Seen { life, alone: number("alone"), collects: number("collects").is_some() }
}

impl Container {
    /// The byte files of the container, for reading. `None` if it has none, or if its store cannot list.
    pub fn files(&self) -> Result<Option<Arc<Files>>> {
        self.inner.require_open()?;
        match self.inner.store.list(keys::FILES) {
            Ok(found) if found.is_empty() => Ok(None),
            Err(StoreError::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => self.open_files(Access::Read).map(Some),
        }
    }

    /// The byte files of the container, for writing. `owner` becomes the owner of their root if it has none yet. With
    /// `alone`, no other process may write files meanwhile. Errors: `Conflict` if another process excludes this one.
    pub fn files_to_write(&self, owner: Owner, alone: bool) -> Result<Arc<Files>> {
        self.inner.require_writable()?;
        self.open_files(Access::Write { registry: REGISTRY, owner, alone })
    }

    fn open_files(&self, access: Access) -> Result<Arc<Files>> {
        let durable = self.identity().durability == Durability::Durable;
        let open = Files::open(self.inner.store.clone(), self.identity().uuid, durable, access);
        open.map_err(|error| {
            Error::from(error).while_doing(format!("opening the files of {}", self.location()))
        })
    }

    /// The number and size of the container's files, if it has any.
    pub fn files_usage(&self) -> Result<Option<Usage>> {
        self.files()?.map(|files| Ok(files.usage()?)).transpose()
    }

    /// Reads all files and reports damage. Returns the number of bytes read.
    pub(super) fn verify_files(
        &self,
        damage: &mut Vec<Damage>,
        progress: &mut dyn FnMut() -> bool,
    ) -> Result<u64> {
        let files = match self.files() {
            Ok(None) => return Ok(0),
            Ok(Some(files)) => files,
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let key = keys::FILES.to_owned();
                damage.push(Damage { key, variable: None, step: None, message: error.to_string() });
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        let (mut bytes, mut stopped) = (0, false);
        let found = files.verify(&mut |read| {
            bytes += read;
            stopped = !progress();
            !stopped
        })?;
        if stopped {
            return Err(Error::new(ErrorKind::Cancelled, "stopped by its caller"));
        }
        damage.extend(found.into_iter().map(|part| Damage {
            key: format!("/files/{}", part.path),
            variable: None,
            step: None,
            message: format!("bytes {}..{}: {}", part.range.start, part.range.end, part.why),
        }));
        Ok(bytes)
    }

    /// Removes objects that no file needs any more. Returns their keys and lengths.
    pub(super) fn collect_files(&self, dry_run: bool) -> Result<Vec<(String, u64)>> {
        let Some(files) = self.files()? else { return Ok(Vec::new()) };
        if dry_run {
            return Ok(files.collect(true)?);
        }
        let owner =
            Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        self.inner.require_writable()?;
        match self.open_files(Access::Write { registry: COLLECTOR, owner, alone: false }) {
            Ok(files) => Ok(files.collect(false)?),
            // A mount that must be the only one that writes: nothing is removed while another mount writes.
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
