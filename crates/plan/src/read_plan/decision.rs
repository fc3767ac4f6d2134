//! The decision between program and ranges for an object, with its reason; [`programs`](crate::programs) makes it.

use std::fmt::{self, Display, Formatter};

/// The decision for one object, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The object, as a source of the plan.
    pub source: u32,
    /// Bytes transferred and predicted seconds by ranges.
    pub ranges: (u64, f64),
    /// The same by programs, and their number; or why there are none.
    pub programs: Result<(u64, f64, usize), String>,
    /// Whether programs are sent.
    pub chosen: bool,
}

impl Display for Decision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (bytes, seconds) = self.ranges;
        let way = if self.chosen { "read there" } else { "by ranges" };
        write!(f, "source {}: {way}; ranges: {bytes} bytes, {:.3} ms", self.source, seconds * 1e3)?;
        match &self.programs {
            Ok((bytes, seconds, calls)) => {
                let noun = if *calls == 1 { "program" } else { "programs" };
                write!(f, "; {calls} {noun}: {bytes} bytes, {:.3} ms", seconds * 1e3)
            }
            Err(reason) => write!(f, "; no program: {reason}"),
        }
    }
}
