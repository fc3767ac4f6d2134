//! How threads execute a plan on local files; [`local_read`](mod@crate::local_read) decides.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use crate::counted::counted;

/// How the raw cells of a read reach memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// From mappings of the files, where the bytes are in the page cache.
    Mapped,
    /// By requests.
    Requests,
}

/// How a plan is executed on local files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRead {
    /// Threads, including the caller's.
    pub threads: usize,
    /// Which requests of the plan are submitted together.
    pub groups: Vec<Range<usize>>,
    /// How raw cells reach memory.
    pub mode: IoMode,
}

impl Display for LocalRead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let threads = counted(self.threads as u64, "thread");
        let groups = counted(self.groups.len() as u64, "group");
        let mode = match self.mode {
            IoMode::Mapped => "from mappings",
            IoMode::Requests => "by requests",
        };
        write!(f, "{threads}, {groups} of requests, raw cells {mode}")
    }
}
