//! Shell completion, by `clap_complete`.
//!
//! `drystone completion SHELL` prints a script. For every word to complete, the script runs `drystone` with
//! [`VARIABLE`] set to the shell's name. The parser computes the answer.

use std::ffi::OsString;

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::args::{Arguments, Shell};
use crate::candidates::with_words;
use crate::failure::{Failure, IO, Result};

/// Environment variable that the scripts set: the name of the shell.
const VARIABLE: &str = "_DRYSTONE_COMPLETE";

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> Result<String> {
    let shell: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
        Shell::Zsh => &Zsh,
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "drystone", "drystone", "drystone", &mut script).map_err(failed)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The completions, if a script of [`script`] called the command; `None` otherwise.
pub(crate) fn answer(args: &[OsString]) -> Option<Result<Vec<u8>>> {
    let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
    let shells = Shells::builtins();
    let shell = shells.completer(&name)?;
    // After `--` follow the words of the line, the program's name first.
    let start = args.iter().position(|arg| arg == "--")? + 1;
    let words = args.get(start..)?.to_vec();
    let here = std::env::current_dir().ok();
    let mut out = Vec::new();
    let written = with_words(&words.clone(), || {
        shell.write_complete(&mut Arguments::parser(), words, here.as_deref(), &mut out)
    });
    Some(written.map(|()| out).map_err(failed))
}

fn failed(error: std::io::Error) -> Failure {
    Failure::new(IO, format!("completing: {error}"))
}
