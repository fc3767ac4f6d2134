//! Reports where a term is tested, and why.

use std::fmt::{self, Display, Formatter};

/// The place where a term is tested: the far store, or the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TermSite {
    /// The number of tiles that statistics leave open; `there` counts those that programs settle at the store.
    pub tiles: u64,
    #[allow(missing_docs)]
    pub there: u64,
    /// The number of programs, the most bytes transferred for them, and the bytes that reading ranges would transfer.
    pub programs: u64,
    #[allow(missing_docs)]
    pub bytes: u64,
    #[allow(missing_docs)]
    pub instead: u64,
    /// The reason why the other tiles are read and tested by the client.
    pub reason: Option<String>,
}

impl TermSite {
    /// Adds the report of another step.
    pub(super) fn add(&mut self, other: &TermSite) {
        self.tiles += other.tiles;
        self.there += other.there;
        self.programs += other.programs;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.instead = self.instead.saturating_add(other.instead);
        self.reason = self.reason.take().or_else(|| other.reason.clone());
    }
}

impl Display for TermSite {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TermSite { tiles, there, programs, bytes, instead, reason } = self;
        if *there > 0 {
            let noun = if *programs == 1 { "program" } else { "programs" };
            write!(
                f,
                "tried there in {there} of {tiles} tiles: {programs} {noun}, {bytes} bytes where ranges take {instead}"
            )?;
        }
        if there < tiles {
            let reason = reason.as_deref().unwrap_or("another of its conditions is tried here");
            let joint = if *there > 0 { "; here in the others: " } else { "tried here: " };
            write!(f, "{joint}{reason}")?;
        }
        Ok(())
    }
}
