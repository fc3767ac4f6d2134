//! Where output goes: standard output or a file, buffered.
//!
//! Invariants
//! - a reader that went away (`| head`) ends the output, it is no error;
//! - other failures are kept and reported once, by `finish`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, IO, Result};
use crate::json::Json;

/// See the module.
pub(crate) struct Output {
    sink: Box<dyn Write>,
    file: Option<PathBuf>,
    terminal: bool,
    failed: Option<io::Error>,
}

impl Output {
    /// Standard output.
    pub(crate) fn standard() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let sink = Box::new(BufWriter::with_capacity(64 << 10, stdout));
        Output { sink, file: None, terminal, failed: None }
    }

    /// A file, or standard output. The file is made when there is something to write, so a command that fails leaves what was there.
    pub(crate) fn to(file: Option<&Path>) -> Self {
        let Some(path) = file else { return Self::standard() };
        let made = LateFile { path: path.to_path_buf(), file: None };
        let sink = Box::new(BufWriter::with_capacity(1 << 20, made));
        Output { sink, file: Some(path.to_path_buf()), terminal: false, failed: None }
    }

    /// Is a person looking?
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Text in a colour (an SGR number), if a person looks and wants colours.
    pub(crate) fn coloured(&self, colour: u8, text: &str) -> String {
        let wanted = self.terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        if wanted { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Has writing become pointless?
    pub(crate) fn is_gone(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.sink.write_all(bytes).err();
        }
    }

    /// Writes text as it is.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes a line of text that may hold names from a container.
    pub(crate) fn line(&mut self, text: &str) {
        self.text(&plain(text));
        self.text("\n");
    }

    /// Writes a JSON document and a line feed.
    pub(crate) fn json(&mut self, json: &Json) {
        self.text(&json.to_string());
        self.text("\n");
    }

    /// Hands everything on and says what failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.failed.is_none() {
            self.failed = self.sink.flush().err();
        }
        match self.failed {
            None => Ok(()),
            Some(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            Some(e) => {
                let place = self.file.map_or("standard output".into(), |f| f.display().to_string());
                Err(Failure::new(IO, format!("cannot write {place}: {e}")))
            }
        }
    }
}

/// A file that is created by the first write or flush.
struct LateFile {
    path: PathBuf,
    file: Option<File>,
}

impl LateFile {
    fn made(&mut self) -> io::Result<&mut File> {
        let made = match self.file.take() {
            Some(file) => file,
            None => File::create(&self.path)?,
        };
        Ok(self.file.insert(made))
    }
}

impl Write for LateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.made()?.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.made()?.flush()
    }
}

/// Text without characters that would command a terminal.
pub(crate) fn plain(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_command_a_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc\u{9b}"), "a\\u{1b}[31mb\\nc\\u{9b}");
        assert_eq!(plain("Größe"), "Größe");
    }
}
