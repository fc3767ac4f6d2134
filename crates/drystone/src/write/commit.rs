//! Commits of closed steps, and what follows them: storing values of derived variables.

use drystone_format::schema::Schema;

use super::derived;
use crate::Result;
use crate::commit::adoption;
use crate::commit::transaction::Committed;
use crate::container::Container;

impl Container {
    /// Makes closed steps visible (docs/design, "Commit"); if there is nothing new: the current snapshot.
    ///
    /// Steps of ranked writers become visible only when every rank has closed them; the others are in `incomplete`. `Conflict`
    /// if one rank of a step was closed by two writers.
    pub fn commit(&self) -> Result<Committed> {
        self.inner.require_writable()?;
        Ok(derived::follow(&self.inner, adoption::commit_all(&self.inner)?))
    }

    /// Makes visible, in one commit, what these writers closed with [`Writer::seal`], and nothing of other writers.
    ///
    /// `change` may change the schema in the same commit: the writers may hold values of variables that it creates
    /// ([`Writer::put_to`]). It gets the newest schema and the version that the commit will have, returns whether it
    /// changed anything, and is called again if another commit was faster.
    pub fn commit_sealed(
        &self,
        writers: &[u64],
        change: impl FnMut(&mut Schema, u64) -> Result<bool>,
    ) -> Result<Committed> {
        self.inner.require_writable()?;
        Ok(derived::follow(&self.inner, adoption::commit_of(&self.inner, writers, change)?))
    }
}
