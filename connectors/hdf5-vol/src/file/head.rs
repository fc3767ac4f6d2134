//! The lock of a file at a URL: every commit builds on the last one that this process saw or made.
//!
//! A far store has no lock that is released when its holder dies. So a file that one process writes records the
//! newest version it has seen or made, its *head*, and commits only on that version. If another program commits
//! in between, the next flush fails, and neither program loses what it flushed before. Ranks commit
//! concurrently, so a file of several ranks has no head.

use drystone::{Container, Error, ErrorKind, Writer};

use crate::library::failure::{Failure, Result};

/// The newest version of a file that this process has seen or made, and the file's location.
pub(crate) struct Head {
    url: String,
    version: u64,
}

impl Head {
    /// The head of a container that was just created or opened.
    pub(super) fn of(url: &str, container: &Container) -> Head {
        Head { url: url.into(), version: container.snapshot().version() }
    }

    fn overtaken(&self) -> Failure {
        Failure::write(format!(
            "another program has changed {} since this one opened it, so what this one has not flushed cannot be \
             stored; let one program at a time write to a file",
            self.url
        ))
    }

    /// Records a commit of the schema, which builds on the newest version: an error if another program made
    /// that version.
    pub(super) fn check(&mut self, container: &Container, changed: bool) -> Result<()> {
        let now = container.snapshot().version();
        if now != self.version + u64::from(changed) {
            return Err(self.overtaken());
        }
        self.version = now;
        Ok(())
    }

    /// Commits a writer's data, on the head only.
    pub(super) fn commit(&mut self, container: &Container, writer: &Writer) -> Result<()> {
        // A conflict is usually found here, before a sealed log is left behind that no commit may include.
        container.refresh()?;
        if container.snapshot().version() != self.version {
            return Err(self.overtaken());
        }
        writer.seal()?;
        let next = self.version + 1;
        let mut is_overtaken = false;
        let done = container.commit_sealed(&[writer.id()], |_, version| {
            is_overtaken = version != next;
            match is_overtaken {
                true => Err(Error::new(ErrorKind::Conflict, "another program was faster")),
                false => Ok(false),
            }
        });
        if is_overtaken {
            return Err(self.overtaken());
        }
        done?;
        self.version = next;
        Ok(())
    }
}
