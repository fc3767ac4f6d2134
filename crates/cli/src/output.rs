//! The destination of output: standard output or a file, buffered.
//!
//! Invariants
//! - a file appears only when it is complete; until then, an earlier file stays;
//! - a closed pipe (`| head`) ends the output and is no error;
//! - other failures are kept and reported once, by `finish`.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use drystone_store::WholeFile;

use crate::failure::{Failure, IO, Result};
use crate::json::Json;
use crate::plain::plain;

/// Buffered output; see the module documentation.
pub(crate) struct Output {
    sink: BufWriter<Sink>,
    file: Option<PathBuf>,
    terminal: bool,
    failed: Option<io::Error>,
}

impl Output {
    /// Standard output.
    pub(crate) fn standard() -> Self {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let sink = BufWriter::with_capacity(64 << 10, Sink::Standard(stdout));
        Output { sink, file: None, terminal, failed: None }
    }

    /// A file, or standard output. The file is created by the first write, so a command that fails leaves an
    /// earlier file unchanged.
    pub(crate) fn to(file: Option<&Path>) -> Self {
        let Some(path) = file else { return Self::standard() };
        let sink = BufWriter::with_capacity(1 << 20, Sink::File { path: path.to_path_buf(), file: None });
        Output { sink, file: Some(path.to_path_buf()), terminal: false, failed: None }
    }

    /// True if the output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Text in a colour (an SGR number), if the output is a terminal and colours are enabled.
    pub(crate) fn coloured(&self, colour: u8, text: &str) -> String {
        let wanted = self.terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        if wanted { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// True if further writes have no effect.
    pub(crate) fn is_gone(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes bytes unchanged.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.sink.write_all(bytes).err();
        }
    }

    /// Writes text unchanged.
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Writes a line of text that may contain names from a container.
    pub(crate) fn line(&mut self, text: &str) {
        self.text(&plain(text));
        self.text("\n");
    }

    /// Writes a JSON document and a line feed.
    pub(crate) fn json(&mut self, json: &Json) {
        self.text(&json.to_string());
        self.text("\n");
    }

    /// Flushes, for a command that continues.
    pub(crate) fn hand_on(&mut self) {
        if self.failed.is_none() {
            self.failed = self.sink.flush().err();
        }
    }

    /// Flushes everything and returns the first failure.
    pub(crate) fn finish(self) -> Result<()> {
        let Output { sink, file, failed, .. } = self;
        let handed_on =
            || sink.into_inner().map_err(io::IntoInnerError::into_error).and_then(Sink::finish).err();
        let failed = failed.or_else(handed_on);
        match failed {
            None => Ok(()),
            Some(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            Some(e) => {
                let place = file.map_or("standard output".into(), |f| f.display().to_string());
                Err(Failure::new(IO, format!("cannot write {place}: {e}")))
            }
        }
    }
}

enum Sink {
    Standard(io::Stdout),
    /// Created by the first write, so that a command that fails leaves nothing.
    File {
        path: PathBuf,
        file: Option<WholeFile>,
    },
}

impl Sink {
    fn begun<'a>(path: &Path, file: &'a mut Option<WholeFile>) -> io::Result<&'a mut WholeFile> {
        let begun = match file.take() {
            Some(begun) => begun,
            None => WholeFile::create(path)?,
        };
        Ok(file.insert(begun))
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Standard(mut stdout) => stdout.flush(),
            Sink::File { path, mut file } => {
                Self::begun(&path, &mut file)?;
                file.map_or(Ok(()), |file| file.finish(false))
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Standard(stdout) => stdout.write(bytes),
            Sink::File { path, file } => Self::begun(path, file)?.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Standard(stdout) => stdout.flush(),
            Sink::File { path, file } => Self::begun(path, file)?.flush(),
        }
    }
}
