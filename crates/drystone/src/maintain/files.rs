//! Byte files of a container (docs/format/files.md): opened, verified and collected through its handle.

use std::sync::Arc;

use drystone_file_store::files::Owner;
use drystone_file_store::{Access, Failure, Files, Usage};
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
        }
    }
}

/// Whether the process of a mount has certainly ended.
fn has_ended(text: &str) -> bool {
    Process::parse(text.as_bytes()).is_some_and(|process| process.is_dead(&Process::current()))
}

impl Container {
    /// The byte files of the container, to read; `None` if it has none, or its store cannot list.
    pub fn files(&self) -> Result<Option<Arc<Files>>> {
        self.inner.require_open()?;
        match self.inner.store.list(keys::FILES) {
            Ok(found) if found.is_empty() => Ok(None),
            Err(StoreError::Unsupported { .. }) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => self.open_files(Access::Read).map(Some),
        }
    }

    /// The byte files of the container, to write. `owner` becomes the owner of their root if there is none yet.
    pub fn files_to_write(&self, owner: Owner) -> Result<Arc<Files>> {
        self.inner.require_writable()?;
        self.open_files(Access::Write { process: Process::current().text(), dead: has_ended, owner })
    }

    fn open_files(&self, access: Access) -> Result<Arc<Files>> {
        let durable = self.identity().durability == Durability::Durable;
        let open = Files::open(self.inner.store.clone(), self.identity().uuid, durable, access);
        open.map_err(|error| {
            Error::from(error).while_doing(format!("opening the files of {}", self.location()))
        })
    }

    /// Number and size of the container's files, if it has any.
    pub fn files_usage(&self) -> Result<Option<Usage>> {
        self.files()?.map(|files| Ok(files.usage()?)).transpose()
    }

    /// Reads all files and adds damage; returns the bytes read.
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

    /// Removes what no file needs any more; returns keys and lengths.
    pub(super) fn collect_files(&self, dry_run: bool) -> Result<Vec<(String, u64)>> {
        let Some(files) = self.files()? else { return Ok(Vec::new()) };
        if dry_run {
            return Ok(files.collect(true)?);
        }
        let owner =
            Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
        Ok(self.files_to_write(owner)?.collect(false)?)
    }
}
