//! The lock of a file at a URL: every commit builds on the last one that this program saw or made.
//!
//! A far store has no lock that ends with its holder. So a file that a program changes alone knows the newest
//! version it has seen or made, its *head*, and commits on that version only. A commit of another program in
//! between fails the next flush, and neither program loses what it flushed before. Ranks commit side by side, so
//! a file of several ranks has no head.

use drystone::{Container, Error, ErrorKind, Writer};

use crate::library::failure::{Failure, Result};

/// The newest version of a file that this program has seen or made, and where the file is.
pub(crate) struct Head {
    url: String,
    version: u64,
}

impl Head {
    /// That of a container that was just created or opened.
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

    /// Records a commit of the schema, which takes whatever is newest for its base: an error if that was
    /// another program's.
    pub(super) fn check(&mut self, container: &Container, changed: bool) -> Result<()> {
        let now = container.snapshot().version();
        if now != self.version + u64::from(changed) {
            return Err(self.overtaken());
        }
        self.version = now;
        Ok(())
    }

    /// Commits what a writer holds, on the head only.
    pub(super) fn commit(&mut self, container: &Container, writer: &Writer) -> Result<()> {
        // Most often found here, before a sealed log is left behind that no commit may take.
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
