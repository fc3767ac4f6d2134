//! Commits of closed steps. Afterwards, values of derived variables are stored.

use drystone_format::schema::Schema;

use super::derived;
use crate::Result;
use crate::commit::adoption;
use crate::commit::transaction::Committed;
use crate::container::Container;

impl Container {
    /// Makes closed steps visible (docs/design, "Commit"). If there is nothing new, returns the current
    /// snapshot.
    ///
    /// Steps of ranked writers become visible only when every rank has closed them; the others are listed in
    /// `incomplete`. Errors: `Conflict` if two writers closed one rank of a step.
    pub fn commit(&self) -> Result<Committed> {
        self.inner.require_writable()?;
        Ok(derived::follow(&self.inner, adoption::commit_all(&self.inner)?))
    }

    /// Makes visible, in one commit, what these writers closed with [`Writer::seal`], and nothing of other
    /// writers.
    ///
    /// `change` may change the schema in the same commit: the writers may hold values of variables that it
    /// creates ([`Writer::put_to`]). It receives the newest schema and the version that the commit will have,
    /// and returns whether it changed anything. It is called again if another process committed first.
    pub fn commit_sealed(
        &self,
        writers: &[u64],
        change: impl FnMut(&mut Schema, u64) -> Result<bool>,
    ) -> Result<Committed> {
        self.inner.require_writable()?;
        Ok(derived::follow(&self.inner, adoption::commit_of(&self.inner, writers, change)?))
    }
}
