//! A failed command: one line for people, and an exit code for programs (docs/reference/cli.md).

use std::io::Write;

use drystone::plan::selection_text::Mistake;
use drystone::{Error, ErrorKind};

use crate::plain::plain;

/// The command succeeded.
pub(crate) const OK: i32 = 0;
/// The command ran and found damage.
pub(crate) const DAMAGE: i32 = 1;
/// The command line or the input is wrong.
pub(crate) const USAGE: i32 = 2;
/// A container, variable, step, block or snapshot does not exist.
pub(crate) const NOT_FOUND: i32 = 3;
/// Stored bytes are corrupt.
pub(crate) const CORRUPT: i32 = 4;
/// Another process made this impossible: a conflict.
pub(crate) const CONFLICT: i32 = 5;
/// An I/O error.
pub(crate) const IO: i32 = 6;
/// Permission denied.
pub(crate) const PERMISSION: i32 = 7;
/// A request timed out.
pub(crate) const DEADLINE: i32 = 8;
/// Bytes are in another node's tier.
pub(crate) const NOT_YET_HOME: i32 = 9;

/// A failed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    /// One line, without the program's name.
    pub(crate) message: String,
    /// Lines below the message that mark the position in the input.
    pub(crate) place: Option<String>,
}

/// Whether these are a line of an expression, and a line that marks a part of it.
fn marks(lines: &str) -> bool {
    let is_mark = |line: &str| line.ends_with('^') && line.trim_start().chars().all(|c| c == '^');
    lines.split_once('\n').is_some_and(|(_, mark)| is_mark(mark))
}

/// Result of a part of a command.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), place: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// The failure of an invalid selection; marks the position.
    pub(crate) fn selection(text: &str, mistake: &Mistake) -> Self {
        let mut failure = Self::usage(format!("bad selection: {mistake}"));
        failure.place = Some(mistake.shown(text));
        failure
    }

    /// Prints the failure to standard error, and returns the exit code. Ignores errors of standard error.
    pub(crate) fn report(&self) -> i32 {
        let mut stderr = std::io::stderr().lock();
        let (message, marked) = self.message.split_once('\n').filter(|(_, rest)| marks(rest)).unzip();
        let _ = writeln!(stderr, "drystone: {}", plain(message.unwrap_or(&self.message)));
        for line in marked.unwrap_or_default().lines() {
            let _ = writeln!(stderr, "{}", plain(line));
        }
        if let Some(place) = &self.place {
            let _ = writeln!(stderr, "{place}");
        }
        self.code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            ErrorKind::Corrupt => CORRUPT,
            ErrorKind::Conflict => CONFLICT,
            ErrorKind::Unsupported
            | ErrorKind::InvalidArgument
            | ErrorKind::OutOfRange
            | ErrorKind::Cancelled => USAGE,
            ErrorKind::Io => IO,
            ErrorKind::Permission => PERMISSION,
            ErrorKind::Deadline => DEADLINE,
            ErrorKind::NotYetHome => NOT_YET_HOME,
        };
        Failure::new(code, error.to_string())
    }
}
