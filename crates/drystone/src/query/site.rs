//! Where a term is tried, and why: for people and programs.

use std::fmt::{self, Display, Formatter};

/// Where a term is tried: at the far side, or here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TermSite {
    /// Tiles that statistics leave open, and those of them that programs settle where the bytes are.
    pub tiles: u64,
    #[allow(missing_docs)]
    pub there: u64,
    /// Programs for these, bytes that travel for them at most, and bytes that ranges would take.
    pub programs: u64,
    #[allow(missing_docs)]
    pub bytes: u64,
    #[allow(missing_docs)]
    pub instead: u64,
    /// Why the others are read and tried here.
    pub reason: Option<String>,
}

impl TermSite {
    /// Adds another step's.
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
